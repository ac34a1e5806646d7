"""Comparisons of one input: fixed points, phases, critical points, runs, laws, diagrams, averages."""

from __future__ import annotations

import math

import mpmath as mp
import sympy as sp

from .activations import TAMED, activation, decimal, nonzero
from .maps import Net, One
from .places import Place, net, place, plain, roots, sign_changes, tangent
from .quadrature import average_digits, moments
from .session import Session

SHAPES = ("plain", "residual", "pre", "scaled", "two", "inner")


def number(solution) -> float:
    value = solution.value
    if value is None or value is sp.nan:
        return math.nan
    return math.inf if value == sp.oo else float(value)


def is_proved(status) -> bool:
    return status.name in ("EXACT", "CERTIFIED")


def _theory(s: Session, shapes=SHAPES, families=()) -> Net:
    of = net(s.rng, activation(s.rng, families), shapes)
    s.derive(of.text, of.phi.family)
    return of


def close(what, s: Session, call: str, engine: float, oracle: float, error: float, scale: float | None = None) -> bool:
    scale = abs(oracle) if scale is None else scale
    return s.same(what, f"theory.{call}", engine, oracle, error * scale)


# ------------------------------------------------------------------------------------------------------------- places


def judge_point(s: Session, of: Net, at: Place, point, call: str) -> None:
    """K* is kept, χ_J and χ_K are those of the maps, the stability is that of the slope."""
    K = number(point.K)
    if not 1e-30 < K < 1e30:
        if K == 0 and of.plain and of.phi.germ is not None and at.b == 0:
            a, b = of.phi.germ
            gain = at.w**2 * (a * a + b * b) / 2 + of.skip**2
            close("chi_J at K* = 0", s, call, number(point.chi_J), gain, 1e-10)
        return
    here = of.one(One(K), at.w, at.b)
    slack = 1e-9 + 20 * here.error
    close("K* is kept by the map of K", s, call, K, here.K, slack)
    if of.jumps:
        s.true(
            "chi_J is infinite where phi jumps",
            f"theory.{call}",
            number(point.chi_J) == math.inf,
            point.chi_J.value,
            "oo",
        )
    else:
        close("chi_J at K*", s, call, number(point.chi_J), here.chi_J, slack, abs(here.chi_J) + 1e-3)
    close("chi_K at K*", s, call, number(point.chi_K), here.chi_K, slack * 10, abs(here.chi_K) + 1)
    if abs(here.chi_K - 1) > 1e-6:
        wanted = "stable" if abs(here.chi_K) < 1 else "unstable"
        s.true(
            "stability", f"theory.{call}", point.stability == wanted, point.stability, f"{wanted}: chi_K = {here.chi_K}"
        )


def fixed_points(s: Session) -> None:
    of = _theory(s)
    at = place(s.rng, of)
    if s.rng.random() < 0.1:
        made = tangent(s.rng)
        if made is not None:
            of, at = plain(made[0]), made[1]
            s.derive(of.text, "tangent")
    call = f"fixed_points({at.text})"
    answer = s.ask(call)
    points = list(answer)
    for point in points:
        judge_point(s, of, at, point, call)
    places = [number(p.K) for p in points]
    s.compared += 1
    for K in roots(of, at.w, at.b):
        neutral = [p for p in points if p.stability == "neutral"]
        near = min((abs(K / k - 1) for k in places if k > 0), default=math.inf)
        s.true(
            "a fixed point is missing",
            f"theory.{call}",
            near < 1e-5 or bool(neutral),
            f"{places} ({answer.status.value}: {answer.message})",
            f"K' = K at K = {K!r}",
        )
    for point, K in zip(points, places):
        if point.basin is not None and abs(number(point.chi_K)) < 0.97 and K < 1e6:
            low, high = (float(e) if e != sp.oo else math.inf for e in point.basin)
            low, high = max(low, 1e-4 * (K or 1)), min(high, 1e4 * (K + 1))
            k = low * (high / low) ** s.rng.uniform(0.02, 0.98)
            end, _ = of.settled(k, at.w, at.b, 400)
            if not math.isnan(end):
                s.true(
                    "basin",
                    f"theory.{call}",
                    abs(end - K) <= 1e-5 * K + 1e-30,
                    f"K = {k!r} flows to {K!r}",
                    f"it flows to {end!r}",
                )
    if answer.unbounded is not None:
        low = float(answer.unbounded[0])
        k = max(low, 1e-3) * s.rng.uniform(1.05, 20)
        later = of.orbit(One(k), at.w, at.b, 12)
        s.true(
            "K grows without bound",
            f"theory.{call}",
            k < later[-1].K,
            f"from {k!r}",
            f"K = {later[-1].K!r} after {len(later)} layers",
        )


def phase(s: Session) -> None:
    shapes = (*SHAPES, "act", "preln")
    of = _theory(s, shapes)
    at = place(s.rng, of)
    norm = s.rng.choice(("1", "1", nonzero(s.rng, 0.1, 5), f"{10 ** s.rng.uniform(-4, 4):.3g}"))
    call = f"phase({at.text}, input_norm={norm!r})"
    answer = s.ask(call)
    K1 = at.w**2 * float(norm) + at.b**2
    end, here = of.settled(K1, at.w, at.b)
    K = math.inf if answer.fixed_point is None else number(answer.fixed_point.K)
    text, chi = f"theory.{call}", number(answer.chi_J)
    if here is not None and abs(here.chi_K) < 0.9999:
        near_one = 1e-9 / (1 - abs(here.chi_K))
        close("K* of the phase", s, call, K, end, near_one + 1e-9 + 20 * here.error / (1 - abs(here.chi_K)))
        judge_phase(s, call, answer.name, chi, here, of, near_one)
    elif end == math.inf:
        s.true("K grows without bound", text, answer.fixed_point is None or K > 1e11, f"K* = {K!r}", "K exceeds 1e12")
    elif end == 0:
        s.true("K falls to 0", text, K == 0, f"K* = {K!r}", "K < 1e-40")
        if of.plain and of.phi.germ is not None:
            a, b = of.phi.germ
            close("chi_J at K* = 0", s, call, chi, at.w**2 * (a * a + b * b) / 2 + of.skip**2, 1e-9)
    if of.normed and of.name == "act":
        return
    point = answer.fixed_point
    if point is not None and s.rng.random() < 0.4:
        others = s.ask(f"fixed_points({at.text})", needed=False)
        if others is not None and point.stability != "neutral":
            near = any(abs(number(p.K) - K) <= 1e-12 * K for p in others)
            s.true(
                "phase and fixed_points name the same K*",
                text,
                near,
                f"phase: {K!r}",
                f"fixed_points: {[number(p.K) for p in others]}",
            )
    if s.rng.random() < 0.5:
        diagram = s.ask(
            f"phase_diagram(sigma_w=[{at.w!r}], sigma_b=[{at.b!r}], input_norm={float(norm)!r}, line=False)",
            needed=False,
        )
        if (
            diagram is not None
            and 1e-12 < K < 1e12
            and answer.fixed_point.stability == "stable"
            and abs(number(answer.fixed_point.chi_K)) < 0.999
        ):
            close("phase and phase_diagram: K*", s, call, K, diagram.K[0, 0], 1e-7)
            if math.isfinite(chi):
                close("phase and phase_diagram: chi_J", s, call, chi, diagram.chi_J[0, 0], 1e-6, 1 + abs(chi))
            else:
                s.true(
                    "phase and phase_diagram: chi_J", text, diagram.chi_J[0, 0] == math.inf, chi, diagram.chi_J[0, 0]
                )


def judge_phase(s: Session, call: str, name: str, chi: float, here: One, of: Net, slack: float) -> None:
    if of.jumps:
        s.true(
            "chi_J is infinite where phi jumps",
            f"theory.{call}",
            chi == math.inf and name == "chaotic",
            f"{name}, chi_J = {chi!r}",
            "chaotic, chi_J = oo",
        )
        return
    room = 1e-8 + slack + 20 * here.error
    close("chi_J of the phase", s, call, chi, here.chi_J, room * 10, 1 + here.chi_J)
    if abs(here.chi_J - 1) > 1e-5:
        wanted = "ordered" if here.chi_J < 1 else "chaotic"
        s.true("name of the phase", f"theory.{call}", name == wanted, name, f"{wanted}: chi_J = {here.chi_J!r}")


def diagram(s: Session) -> None:
    """A small grid of either kind, and `phase` at one of its points."""
    of = _theory(
        s,
        ("plain", "residual", "scaled", "two", "pre"),
        (
            "named",
            "bent and curved",
            "curved",
            "bent",
            "two curved",
            "choice",
            "jump of constants",
            "jump of functions",
            "quotient",
        ),
    )
    w = sorted(float(nonzero(s.rng, 0.4, 2.4, 2)) for _ in range(3))
    b = sorted([float(decimal(s.rng, 0, 0.9, 2)), 0.0 if s.rng.random() < 0.4 else float(decimal(s.rng, 0.1, 1, 2))])
    kind = s.rng.choice(("gradient", "gradient", "bias"))
    if of.jumps and kind == "gradient" and s.rng.random() < 0.5:
        kind = "bias"
    norm = s.rng.choice((1.0, float(nonzero(s.rng, 0.2, 4, 1))))
    call = f"phase_diagram(sigma_w={w!r}, sigma_b={b!r}, input_norm={norm!r}, line=False, kind={kind!r})"
    answer = s.ask(call)
    for i, j in ((0, s.rng.randrange(3)), (1, s.rng.randrange(3)), (1, s.rng.randrange(3))):
        end, here = of.settled(w[j] ** 2 * norm + b[i] ** 2, w[j], b[i])
        if here is None or abs(here.chi_K) > 0.999:
            continue
        slack = 1e-7 + (1e-10 + 20 * here.error) / (1 - abs(here.chi_K))
        where = f"{call}.K[{i}, {j}]"
        close("K* of the diagram", s, where, answer.K[i, j], end, slack)
        where = f"{call}.chi_J[{i}, {j}]"
        if of.jumps:
            s.true(
                "chi_J is infinite where phi jumps",
                f"theory.{where}",
                answer.chi_J[i, j] == math.inf,
                answer.chi_J[i, j],
                "oo",
            )
        else:
            close("chi_J of the diagram", s, where, answer.chi_J[i, j], here.chi_J, slack * 10, 1 + here.chi_J)
        if kind == "bias":
            from .two_inputs import map_of_c

            c = float(answer.c[i, j])
            if 1 - c > 1e-6 and of.name != "act":
                after = map_of_c(of, end, c, w[j], b[i])
                close("c* of the diagram is kept", s, f"{call}.c[{i}, {j}]", c, after, 1e-6, 1)
            chaotic = of.jumps or here.chi_J > 1 + 1e-6
            if chaotic and b[i] > 0:
                s.true(
                    "c* of the diagram below 1", f"theory.{call}.c[{i}, {j}]", c < 1, c, f"chi_J = {here.chi_J!r} > 1"
                )


# ----------------------------------------------------------------------------------------------------- critical points


def critical_points(s: Session) -> None:
    """K with χ_J = χ_K = 1 and σ_b² ≥ 0 against a scan of ⟨φ′²⟩ - d⟨φ²⟩/dK."""
    phi = activation(s.rng)
    if phi.jumps and s.rng.random() < 0.8:
        phi = activation(s.rng, TAMED)
    of = net(s.rng, phi, ("plain", "plain", "residual", "scaled"))
    s.derive(of.text, phi.family)
    call = "critical_points()"
    answer = s.ask(call)
    m = of.skip**2
    factor = next((float(sp.Rational(o.factor)) for o in of.ops if o.name == "scale"), 1.0) ** 2

    def apart(K: float) -> float:
        at = moments(phi, K)
        return (at.slope - at.rise) / (at.slope + abs(at.rise) + 1e-300) if math.isfinite(at.slope) else math.nan

    def bias(K: float) -> tuple[float, float]:
        at = moments(phi, K)
        w2 = (1 - m) / (at.slope * factor)
        return math.sqrt(w2), K * (1 - m) - w2 * factor * at.m2

    places = [(number(p.K), p) for p in answer if p.K.value.is_number]
    for K, p in places:
        if not 1e-6 < K < 1e8:
            continue
        w, b = number(p.sigma_w), number(p.sigma_b)
        here = of.one(One(K), w, b)
        slack = 1e-9 + 20 * here.error
        close("K* is kept by the map of K", s, call, K, here.K, slack)
        close("chi_J at a critical point", s, call, 1.0, here.chi_J, slack)
        close("chi_K at a critical point", s, call, 1.0, here.chi_K, slack * 10)
    if answer.everywhere or phi.jumps:
        return
    grid = [10 ** (-4 + 9 * i / 140) for i in range(141)]
    values = [abs(apart(K)) for K in grid]
    if sum(v < 1e-11 for v in values) > 20:  # homogeneous, or nearly
        return
    s.compared += 1
    for K in sign_changes(apart, grid):
        near = grid[min(range(141), key=lambda i: abs(math.log(grid[i] / K)))]
        if abs(apart(near * 1.05)) < 1e-9:
            continue
        w, b2 = bias(K)
        if b2 < -1e-9 * K:
            continue
        if abs(b2) < 1e-7 * K:
            continue
        found = any(abs(k / K - 1) < 1e-5 for k, _ in places)
        s.true(
            "a critical point is missing",
            f"theory.{call}",
            found,
            f"K* = {[k for k, _ in places]} ({answer.status.value}: {answer.message})",
            f"K = {K!r}, sigma_w = {w!r}, sigma_b = {math.sqrt(b2)!r}",
        )


def critical_line(s: Session) -> None:
    """Places on the line are critical: K* that is kept has χ_J = 1."""
    of = _theory(s, ("plain", "plain", "residual", "scaled", "pre", "act"), (*TAMED, "named", "polynomial"))
    line = s.ask("critical_line()")
    b = s.rng.choice(("1/2", "0.2", "1", decimal(s.rng, 0.05, 1.5, 2)))
    if not hasattr(line, "sigma_w_at") or line.kind in ("none", "everywhere", "unknown"):
        return
    call = f"critical_line().sigma_w_at({b!r})"
    answer = s.ask(call, needed=False)
    if answer is None:
        return
    for item in answer if isinstance(answer, (list, tuple)) else [answer]:
        item = item[0] if isinstance(item, tuple) else item
        if not hasattr(item, "value") or item.value is None or not sp.sympify(item.value).is_number:
            continue
        w = float(item.value)
        found = roots(of, w, float(sp.Rational(b)), 1e-6, 1e8)
        near = min((abs(of.one(One(K), w, float(sp.Rational(b))).chi_J - 1) for K in found), default=None)
        if near is not None:
            s.true(
                "chi_J = 1 on the critical line",
                f"theory.{call}",
                near < 1e-5,
                f"sigma_w = {w!r}",
                f"|chi_J - 1| = {near!r} at the nearest of K* = {found}",
            )


# ---------------------------------------------------------------------------------------------------------------- runs


def run(s: Session) -> None:
    """K, J and Θ layer by layer; K with and without the others; σ's per layer."""
    of = _theory(s, (*SHAPES, "act", "preln"))
    at = place(s.rng, of)
    depth = s.rng.choice((3, 8, 20, 40))
    norm = 10 ** s.rng.uniform(-6, 6) if s.rng.random() < 0.3 else s.rng.uniform(0.2, 4)
    norm = float(f"{norm:.4g}")
    asked = s.rng.choice(("'K'", "('K', 'J')", "('K', 'J', 'Theta')", "('K', 'J')"))
    if of.jumps:
        asked = "'K'"
    call = f"propagate(sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, input_norm={norm!r}, quantities={asked})"
    answer = s.ask(call)
    orbit = of.orbit(of.start(at.w, at.b, norm), at.w, at.b, depth)
    gain, error = 1.0, 1e-12
    for k, here in enumerate(orbit):
        if not here.K < 1e250 or (here.K < 1e-250):
            break
        if k:
            gain = max(1.0, gain * abs(here.chi_K) * orbit[k - 1].K / here.K)
            error += (1e-12 + 20 * here.error) * gain
        if error > 1e-3:
            break
        where = f"{call}.K[{k}]"
        if not close("K of a run", s, where, answer.K[k], here.K, error * 10 + 1e-11 * gain):
            break
        if (
            "J" in asked
            and math.isfinite(here.log_J)
            and not close(
                "log J of a run",
                s,
                f"{call}.log_J[{k}]",
                answer.log_J[k],
                here.log_J,
                (error * 50 + 1e-10) * (k + 1),
                1,
            )
        ):
            break
        if (
            "Theta" in asked
            and not of.normed
            and math.isfinite(here.Theta)
            and not close(
                "Theta of a run", s, f"{call}.Theta[{k}]", answer.Theta[k], here.Theta, (error * 50 + 1e-10) * (k + 1)
            )
        ):
            break
    if s.rng.random() < 0.3 and asked != "'K'":
        alone = s.ask(
            f"propagate(sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, input_norm={norm!r}, quantities='K')",
            needed=False,
        )
        if alone is not None and orbit[-1].K < 1e250:
            last = min(len(orbit), depth) - 1
            close("K alone and beside others", s, f"{call}.K[{last}]", answer.K[last], alone.K[last], 1e-9 * gain)


def law(s: Session) -> None:
    """K (or log J) at large depth against an iteration."""
    if s.rng.random() < 0.25:
        made = tangent(s.rng)
        if made is None:
            return
        of, at, norm = plain(made[0]), made[1], f"{float(made[2]) * s.rng.choice((0.9, 0.97, 1.02)):.2g}"
        s.derive(of.text, "tangent")
        norm = f"{max(0.01, (float(norm) - at.b**2) / at.w**2):.3g}" if s.rng.random() < 0.7 else norm
    else:
        of = _theory(s, ("plain", "plain", "residual"), (*TAMED, "named", "polynomial"))
        at, norm = place(s.rng, of), s.rng.choice(("1", nonzero(s.rng, 0.2, 3)))
    quantity = s.rng.choice(("K", "K", "J"))
    if of.jumps:
        quantity = "K"
    call = f"depth_law({quantity!r}, {at.text}, Q0={norm!r})"
    answer = s.ask(call)
    orbit = of.orbit(of.start(at.w, at.b, float(norm)), at.w, at.b, 1200)
    if len(orbit) < 1200:
        return
    values = [o.K if quantity == "K" else o.log_J for o in orbit]
    judge_law(s, of, at, call, answer, values, orbit)


def judge_law(s: Session, of: Net, at: Place, call: str, answer, values: list[float], orbit) -> None:
    l = answer.variable
    expr = sum((t.expr(l) for t in answer.terms), sp.S.Zero)
    others = expr.free_symbols - {l}
    if str(l) != "l" or not all(map(math.isfinite, values)):
        return
    text, quantity = f"theory.{call}", answer.quantity
    with_rate = any(t.rate != 0 for t in answer.terms)
    if others and (quantity != "J" or len(others) > 1):
        return

    def claimed(layer: int) -> float:
        return float(expr.subs({x: 0 for x in others}).subs(l, layer))

    early, middle, late = 300, 600, 1200
    if quantity == "J" and others:  # up to a constant
        stated = claimed(late) - claimed(middle)
        seen = values[late - 1] - values[middle - 1]
        if answer.remainder == "exponential" and abs(orbit[-1].chi_K) < 0.98:
            s.same("log J between two depths", text, stated, seen, 1e-6 * (1 + abs(seen)))
        elif abs(seen) > 5:
            s.same("log J between two depths", text, stated, seen, 0.2 * abs(seen) + 1)
        return
    if with_rate:
        return
    off = [abs(values[k - 1] - claimed(k)) for k in (early, middle, late)]
    s.compared += 1
    scale = abs(values[late - 1])
    if answer.remainder in ("zero", "exponential") and quantity == "K":
        limit = claimed(late)
        chi = of.one(One(limit), at.w, at.b).chi_K if 1e-30 < limit < 1e30 else 0.5
        slow = abs(abs(chi) - 1) < 1e-2
        if (not slow and off[2] > 1e-7 * scale) or (abs(chi - 1) < 1e-8 and off[2] > 1e-6 * scale):
            s.found(
                f"K = {answer.text()}",
                text,
                f"{claimed(late)!r} at l = {late}",
                f"{values[late - 1]!r}; at l = {middle}: {values[middle - 1]!r}",
            )
        return
    parts = [abs(float(t.expr(l).subs({x: 0 for x in others}).subs(l, late))) for t in answer.terms]
    if len(parts) > 1 and any(p > 0.3 * parts[0] for p in parts[1:]):
        return  # not yet large depth
    if quantity == "K" and scale > 0 and off[2] > 0.3 * scale and off[2] > 0.9 * off[1]:
        s.found(
            f"K = {answer.text()}",
            text,
            f"{claimed(late)!r} at l = {late}",
            f"{values[late - 1]!r}; at l = {middle}: {values[middle - 1]!r}",
        )
    if isinstance(answer.remainder, str) or off[2] < 1e-9 * scale:
        return
    slope = math.log(off[2] / off[1]) / math.log(2) if off[1] > 0 else -math.inf
    allowed = float(answer.remainder) + 0.35 + 0.2 * float(answer.remainder_logs)
    if slope > allowed and off[2] > 1e-6 * scale and off[2] > 0.05 * parts[-1]:
        s.found(
            f"remainder of {quantity} = {answer.text()}",
            text,
            f"falls as l^{answer.remainder}",
            f"falls as l^{slope:.3f} between l = {middle} and {late}",
        )


# ------------------------------------------------------------------------------------------------------------ averages


def average(s: Session) -> None:
    """A ball against multiprecision quadrature, and its double."""
    phi = activation(s.rng)
    K = s.rng.choice(("1", "3/2", nonzero(s.rng, 0.1, 8), f"{10 ** s.rng.uniform(-3, 3):.2g}"))
    form = s.rng.choice(("f", "f", "f*f", "z*f", "z**2*f"))
    source = phi.tree.text
    names = set() if phi.family not in ("named", "parameters") else {phi.family}
    if names and not phi.keywords:
        source = f"{phi.source}(z)"
    elif phi.keywords:
        source = f"({source})"
    text = {"f": source, "f*f": f"({source})**2", "z*f": f"z*({source})", "z**2*f": f"z**2*({source})"}[form]
    f = {
        "f": lambda z: phi.digits(z)[0],
        "f*f": lambda z: phi.digits(z)[0] ** 2,
        "z*f": lambda z: z * phi.digits(z)[0],
        "z**2*f": lambda z: z * z * phi.digits(z)[0],
    }[form]
    s.family, digits = phi.family, s.rng.choice((15, 20, 25))
    expression = f"mf.average({text!r}, {K!r})"
    node = s.average(expression)
    if not hasattr(node, "ball"):
        value, error = average_digits(f, mp.mpf(sp.Rational(K).p) / sp.Rational(K).q, phi)
        s.true(
            "an average that closes at once",
            expression,
            abs(mp.mpf(str(sp.N(node, 40))) - value) <= abs(error) + mp.mpf(10) ** -12 * (1 + abs(value)),
            sp.N(node, 25),
            mp.nstr(value, 25),
        )
        return
    expression += f".ball({digits})"
    ball = s.plant("ball", s.average(expression))
    with mp.workdps(40):
        where = mp.mpf(sp.Rational(K).p) / sp.Rational(K).q
        value, error = average_digits(f, where, phi)
        finite = ball.is_finite()
        if s.true("a ball is finite", expression, finite, ball, mp.nstr(value, 20)):
            middle, radius = mp.mpf(ball.mid().str(40, radius=False)), mp.mpf(float(ball.rad()))
            off = abs(middle - value)
            room = radius + 10 * abs(error) + mp.mpf(10) ** -(26) * (1 + abs(value))
            if phi.rough:
                room += mp.mpf(10) ** -10 * (1 + abs(value))
            s.true(
                "a ball holds the average",
                expression,
                off <= room,
                ball.str(25),
                f"{mp.nstr(value, 25)} (off by {mp.nstr(off, 3)})",
            )
            s.true(
                "a ball of the digits asked",
                expression,
                radius <= mp.mpf(10) ** -(digits - 2) * (abs(middle) + mp.mpf(10) ** -30)
                or radius < mp.mpf(10) ** -digits,
                f"radius {mp.nstr(radius, 3)}",
                f"{digits} digits",
            )


def expansion(s: Session) -> None:
    """Laws of ⟨φ²⟩ and ⟨φ′²⟩ as K → 0 and K → ∞ against quadrature at two K: the remainder falls as stated."""
    of = net(s.rng, activation(s.rng), ("plain",))
    s.derive(of.text, of.phi.family)
    order = s.rng.choice((1, 2, 3))
    call = f"expansions({order})"
    answer = s.ask(call)
    for (name, end), found in answer.items():
        if isinstance(found.remainder, str) and found.remainder != "zero":
            continue
        x, offs = found.variable, []
        for K in (1e-4, 1e-5) if end == "0" else (1e4, 1e5):
            at = moments(of.phi, K)
            value = at.m2 if name == "phi^2" else at.slope
            if not math.isfinite(value):
                break
            stated = float(sum((t.expr(x) for t in found.terms), sp.S.Zero).subs(x, K))
            size = (
                0.0
                if found.remainder == "zero"
                else K ** float(found.remainder) * abs(math.log(K)) ** float(found.remainder_logs)
            )
            offs.append((abs(value - stated), size, abs(value) * (1e-12 + 10 * at.error)))
        if len(offs) == 2:
            (off, size, _noise), (off2, size2, noise2) = offs
            fine = off2 <= 30 * noise2 or (size2 > 0 and off2 / size2 <= 3 * off / size + 1e-300)
            s.true(
                f"remainder of {name} at {end}",
                f"theory.{call}",
                fine,
                found.text(),
                f"off by {off:.3g} and {off2:.3g}; remainder {size:.3g} and {size2:.3g}",
            )
