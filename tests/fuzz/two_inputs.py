"""Comparisons of two inputs: correlations and their laws, runs, decays to 0 over thousands of layers, kernels, bias."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import sympy as sp

from .activations import TAMED, activation, decimal, nonzero
from .maps import Net, One, Two
from .one_input import number
from .places import Place, net, place, place_of
from .session import Session

ENDS = ("plain", "residual", "pre", "scaled", "two", "inner")
GRID = (-0.99, -0.6, 0.0, 0.3, 0.6, 0.85, 0.97, 0.999)


def _theory(s: Session, shapes=ENDS, families=()) -> Net:
    of = net(s.rng, activation(s.rng, families), shapes)
    s.derive(of.text, of.phi.family)
    return of


def next_pair(of: Net, K: float, c: float, w: float, b: float) -> Two:
    return of.two(Two(K, K, 2 * K * (1 - c)), w, b)


def map_of_c(of: Net, K: float, c: float, w: float, b: float) -> float:
    """C(c) at a K that the map of K keeps."""
    after = next_pair(of, K, c, w, b)
    return 1 - after.distance / (2 * after.K_aa)


def correlations(s: Session) -> None:
    of = _theory(s)
    at = place(s.rng, of)
    call = f"correlations({at.text})"
    answer = s.ask(call)
    K, here = of.settled(at.w**2 + at.b**2, at.w, at.b)
    if here is None or abs(here.chi_K) > 0.999:
        return
    text, points = f"theory.{call}", list(answer)
    inside = [p for p in points if -1 < p.c < 1]
    for p in inside:
        after = next_pair(of, K, p.c, at.w, at.b)
        slack = 1e-8 + p.error * (1 + p.slope if math.isfinite(p.slope) else 1e3) + 100 * (after.error + here.error)
        if 1 - p.c > 1e-7:
            s.same("c* is kept by the map of c", text, p.c, 1 - after.distance / (2 * after.K_aa), slack)
            if not of.jumps and not (of.normed and of.skip):
                s.same("slope at c*", text, p.slope, after.J_ab, 1e-6 * (1 + abs(after.J_ab)) + 10 * slack)
    one = next((p for p in points if p.c == 1), None)
    if s.true("c = 1 is kept", text, one is not None, [p.c for p in points], 1.0):
        slope = math.inf if of.jumps else here.chi_J
        if abs(slope - 1) > 1e-5:
            wanted = "stable" if slope < 1 else "unstable"
            s.true(
                "stability of c = 1",
                text,
                one.stability == wanted,
                f"{one.stability}, slope {one.slope!r} ({answer.status.value})",
                f"{wanted}: chi_J = {slope!r}",
            )
    values = [map_of_c(of, K, c, at.w, at.b) - c for c in GRID]
    for low, high, y, y2 in zip(GRID, GRID[1:], values, values[1:]):
        if y * y2 < 0 and min(abs(y), abs(y2)) > 1e-7:
            held = any(low - 1e-9 <= p.c <= high + 1e-9 for p in points)
            s.true(
                "a c* is missing",
                text,
                held,
                f"{[p.c for p in points]} ({answer.status.value}: {answer.message})",
                f"one between {low} and {high}",
            )


def bias(s: Session) -> None:
    """Where the guessing bias ends, against the map of c at the K that is kept."""
    of = _theory(s, ("plain", "plain", "residual", "scaled", "two"))
    at = place(s.rng, of)
    c0 = s.rng.choice(("0", "0", "1/2", "-1/3", decimal(s.rng, -0.9, 0.95, 2)))
    call = f"bias({at.text}, c0={c0!r})"
    answer = s.ask(call)
    K, here = of.settled(at.w**2 + at.b**2, at.w, at.b)
    if here is None or abs(here.chi_K) > 0.999 or answer.phase.value in ("unknown", "by the start"):
        return
    text, c = f"theory.{call}", float(answer.c)
    if math.isnan(c):
        return
    chi = math.inf if of.jumps else here.chi_J
    if of.jumps:
        s.true("chi_J is infinite where phi jumps", text, number(answer.chi_J) == math.inf, number(answer.chi_J), "oo")
    elif abs(chi - 1) > 1e-5:
        s.same("chi_J of the bias", text, number(answer.chi_J), chi, 1e-7 * (1 + chi))
    if 1 - c > 1e-7 and c > -1:
        s.same("c* of the bias is kept", text, c, map_of_c(of, K, c, at.w, at.b), 1e-7)
    if chi > 1 + 1e-4 and at.b > 0:
        s.true("c* of the bias below 1", text, c < 1, c, f"chi_J = {chi!r} > 1")
    if chi < 1 - 1e-4:
        s.true("c* of the bias is 1", text, c == 1, c, f"chi_J = {chi!r} < 1")
    if s.rng.random() < 0.3:
        grid = s.ask(f"phase_diagram(sigma_w=[{at.w!r}], sigma_b=[{at.b!r}], line=False, kind='bias')", needed=False)
        if grid is not None and c0 == "0":
            s.same("bias and phase_diagram: c*", text, c, grid.c[0, 0], 1e-6)


# ---------------------------------------------------------------------------------------------------------------- runs

SETS = (None, "('c',)", "('K', 'c')", "('gamma',)", "('K', 'distance')", "('distance',)", "('K', 'J', 'c')")
SETS += ("('log_gamma', 'K')", "('K', 'distance', 'J', 'Theta')")
UNEQUAL = ("('K_aa', 'K_bb', 'K_ab')", "('K_aa', 'K_bb', 'distance')", "('K_aa', 'K_bb', 'distance', 'K_ab', 'c')")
UNEQUAL += ("('K_aa', 'K_bb', 'K_ab', 'J_ab')", "('K_aa', 'K_bb', 'distance', 'J_ab', 'Theta_ab')")


def pair_run(s: Session) -> None:
    of = _theory(s, (*ENDS, "act"))
    at = place(s.rng, of)
    depth = s.rng.choice((2, 3, 4, 6))
    if s.rng.random() < 0.6:
        c0 = s.rng.choice((0.0, 0.5, -0.5, 1.0, -1.0, 0.999999, 1 - 1e-10, round(s.rng.uniform(-1, 1), 3), 0.3))
        norm = s.rng.choice((1.0, 1.0, float(f"{10 ** s.rng.uniform(-4, 4):.3g}")))
        asked = s.rng.choice(SETS)
        if of.jumps and asked and ("'J'" in asked or "Theta" in asked):
            asked = "('K', 'c')"
        more = "" if asked is None else f", quantities={asked}"
        call = f"propagate(sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, input_norm={norm!r}, "
        call += f"correlation={c0!r}{more})"
        begin = of.start_pair(at.w, at.b, norm, norm, c0 * norm, 2 * norm * (1 - c0))
    else:
        a, b = (float(f"{10 ** s.rng.uniform(-2, 2):.3g}") for _ in range(2))
        if s.rng.random() < 0.3:
            b = a * s.rng.choice((1.0, 1.0001, 100.0))
        c = s.rng.choice((0.0, 0.5, -0.7, 0.999, 0.9999999, 1.0, round(s.rng.uniform(-1, 1), 3)))
        K_ab = c * math.sqrt(a * b)
        distance = a + b - 2 * K_ab
        asked = s.rng.choice(UNEQUAL)
        if of.jumps or (of.name == "act"):
            asked = UNEQUAL[0]
        key, value = s.rng.choice((("K_ab", K_ab), ("distance", distance), ("c", c)))
        if "distance" not in asked and key == "distance":
            key, value = "K_ab", K_ab
        if key == "c" and "distance" not in asked:
            key, value = "K_ab", K_ab
        start = f"{{'K_aa': {a!r}, 'K_bb': {b!r}, {key!r}: {value!r}}}"
        call = f"propagate(sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, start={start}, quantities={asked})"
        begin = Two(a, b, max(distance, (math.sqrt(a) - math.sqrt(b)) ** 2), 1.0, math.nan)
    answer = s.ask(call)
    state, gain, gap_gain = begin, 1.0, 1e-11
    for k in range(depth):
        if k:
            before = state
            state = of.two(state, at.w, at.b)
            if not (1e-200 < state.K_aa < 1e200 and 1e-200 < state.K_bb < 1e200):
                return
            grow = max(abs(one_gain(of, before.K_aa, at)), abs(one_gain(of, before.K_bb, at)))
            gain *= max(1.0, grow) * 2
            gap_gain += state.gap_error * 10
        if not judge_pair(s, f"{call}", k, answer, state, gain, gap_gain):
            return
    if asked and "start" not in call and s.rng.random() < 0.3:
        plain = call.split(", quantities")[0] + ")"
        other = s.ask(plain, needed=False)
        if other is not None:
            scale = math.sqrt(state.K_aa * state.K_bb)
            mine = answer.K[-1] - answer.distance[-1] / 2 if "distance" in asked and "K" in answer.quantities else None
            if mine is not None:
                s.same("K_ab with distance and without", f"theory.{call}", mine, other.K_ab[-1], 1e-9 * gain * scale)


def one_gain(of: Net, K: float, at: Place) -> float:
    """How an error of K, or of K_ab, grows in one layer, in units of K."""
    here = of.one(One(K), at.w, at.b)
    slope = here.chi_J if math.isfinite(here.chi_J) else 1e3
    return max(abs(here.chi_K), slope) * K / here.K


def judge_pair(s: Session, call: str, k: int, run, state: Two, gain: float, gap_gain: float) -> bool:
    """Every quantity of a run of two inputs at one layer."""
    scale = math.sqrt(state.K_aa * state.K_bb)
    near = max(state.distance / scale, 0.0)
    absolute = (1e-12 + 20 * state.error) * gain * 10
    relative = 1e-9 + gap_gain * 10 + 4e-15 * gain / max(near, 1e-300)
    held, fine = set(run.quantities), True

    def check(name: str, value: float, allowed: float) -> None:
        nonlocal fine
        if name in held and fine:
            fine = s.same(f"{name} of two inputs", f"theory.{call}.{name}[{k}]", getattr(run, name)[k], value, allowed)

    for name in ("K_aa", "K"):
        check(name, state.K_aa, (1e-11 + 20 * state.error) * gain * state.K_aa)
    check("K_bb", state.K_bb, (1e-11 + 20 * state.error) * gain * state.K_bb)
    check("K_ab", state.K_ab, absolute * scale)
    if near > 1e-13:
        check("distance", state.distance, relative * state.distance)
        gap = near / 2
        check("c", state.c, min(absolute, max(relative * gap, 1e-14 * gain)) + 1e-12 + relative * gap)
        if "distance" in held or state.c < 0.99:
            gamma = state.c / (1 - state.c)
            room = (relative + absolute) * (1 + abs(gamma)) * 3
            check("gamma", gamma, room * (1 + abs(gamma)))
            if gamma > 1e-6:
                check("log_gamma", math.log(gamma), room * (1 + 1 / gamma) + 1e-12)
    elif near == 0 or near < 1e-30:
        check("c", 1.0, 1e-12 * gain)
    if state.distance / scale > 1e-6:
        check("J_ab", state.J_ab, absolute * 1e3 * (abs(state.J_ab) + gain))
        if k and math.isfinite(state.Theta_ab):
            check("Theta_ab", state.Theta_ab, absolute * 1e3 * (abs(state.Theta_ab) + gain * scale * (k + 1)))
    return fine


def decay(s: Session) -> None:
    """No biases and an ordered phase: K falls for thousands of layers while c, γ and log J stay finite."""
    for _ in range(60):
        phi = activation(s.rng, (*TAMED, "named", "parameters", "polynomial", "modulus times"))
        of = net(s.rng, phi, ("plain", "plain", "residual", "scaled", "two"))
        if all(p.germ is not None for p in of.activations):
            break
    else:
        return
    if any(o.sigma_w or o.sigma_b for o in of.ops):
        ops = tuple(replace(o, sigma_w=None, sigma_b=None) for o in of.ops)
        of = Net(of.name, ops, of.mu, f"mf.derive(architecture=mf.Sequential(({', '.join(o.text for o in ops)})))")
    s.derive(of.text, of.phi.family)
    power = sum(o.name == "dense" for o in of.ops)
    gain = math.prod(sum(g * g for g in o.phi.germ) / 2 for o in of.ops if o.phi)
    gain *= math.prod(float(sp.Rational(o.factor)) ** 2 for o in of.ops if o.name == "scale")
    aim = s.rng.uniform(0.02, 0.85)  # K falls by this in a layer
    m = of.skip**2
    if aim <= m:
        aim = m + (0.95 - m) * s.rng.uniform(0.1, 0.8)
    w = float(f"{((aim - m) / gain) ** (1 / (2 * power)):.3g}")
    depth = s.rng.choice((60, 171, 400, 1000, 4000))
    norm = s.rng.choice((1.0, 1.0, round(s.rng.uniform(0.1, 2), 2)))
    c0 = s.rng.choice((0.5, 0.0, 0.9, -0.4, round(s.rng.uniform(-0.95, 0.95), 2)))
    asked = s.rng.choice(
        ("('c',)", "('K', 'c')", "('gamma',)", "('c', 'J')", "('log_gamma',)", "('K', 'J', 'distance')", None)
    )
    more = "" if asked is None else f", quantities={asked}"
    call = f"propagate(sigma_w={w!r}, sigma_b=0, depth={depth}, input_norm={norm!r}, correlation={c0!r}{more})"
    answer = s.ask(call)
    found = decayed(of, w, norm, c0, depth)
    if found is None:
        return
    log_K, log_J, c = found
    last = len(answer.l) - 1

    def at(name: str, value: float, allowed: float) -> None:
        if name in answer.quantities or name in answer.values:
            s.same(
                f"{name} after {depth} layers",
                f"theory.{call}.{name}[{last}]",
                getattr(answer, name)[last],
                value,
                allowed,
            )

    at("c", c, 1e-8)
    if c < 0.999:
        gamma = c / (1 - c)
        at("gamma", gamma, 1e-7 * (1 + gamma) ** 2)
        if gamma > 1e-3:
            at("log_gamma", math.log(gamma), 1e-7 * (1 + 1 / gamma) * (1 + gamma))
    at("log_J", log_J, 1e-8 * depth)
    if log_K > -650:
        at("K", math.exp(log_K), 1e-8 * depth * math.exp(log_K))


def kernel_of_ramps(c: float) -> float:
    """⟨max(x, 0) max(y, 0)⟩ of unit normals with correlation c."""
    c = max(-1.0, min(1.0, c))
    return (math.sqrt(1 - c * c) + c * (math.pi - math.acos(c))) / (2 * math.pi)


def decayed(of: Net, w: float, norm: float, c0: float, depth: int) -> tuple[float, float, float] | None:
    """(log K, log J, c) at a depth, by quadrature while K matters and by the slopes of φ at 0 from there on; None where
    K does not fall fast enough to be followed."""
    state = of.start_pair(w, 0.0, norm, norm, c0 * norm, 2 * norm * (1 - c0))
    one, layer = One(state.K_aa), 1
    while layer < depth and one.K > 1e-24:
        if layer > 160:
            return None
        state = of.two(state, w, 0.0)
        one = of.one(one, w, 0.0)
        layer += 1
    c = 1 - state.distance / (2 * state.K_aa)
    log_K, log_J, m = math.log(one.K), one.log_J, of.skip**2
    for _ in range(depth - layer):
        rise, inner = 1.0, c
        for op in of.ops:
            if op.name == "phi":
                a, b = op.phi.germ
                half = (a * a + b * b) / 2
                if a != b:
                    inner = ((a * a + b * b) * kernel_of_ramps(inner) - 2 * a * b * kernel_of_ramps(-inner)) / half
                rise *= half
            elif op.name == "scale":
                rise *= float(sp.Rational(op.factor)) ** 2
            elif op.name == "dense":
                rise *= w * w
        c = (rise * inner + m * c) / (rise + m)
        log_K, log_J = log_K + math.log(rise + m), log_J + math.log(rise + m)
    return log_K, log_J, c


# ------------------------------------------------------------------------------------------------------------- kernels


def rows(s: Session) -> tuple[str, np.ndarray]:
    """Two or three rows: unequal norms, collinear, nearly collinear, opposite, tiny; and how they were made."""
    rng = s.rng
    dim, many = rng.choice((1, 2, 2, 3)), rng.choice((2, 2, 3))
    how = rng.choice(("any", "decades", "collinear", "near", "opposite", "tiny", "near decades"))
    base = [float(f"{rng.gauss(0, 1):.3g}") for _ in range(dim)]
    base[0] = base[0] or 1.0
    found = [base]
    for _ in range(many - 1):
        factor = (
            float(f"{10 ** rng.uniform(-3, 3):.2g}")
            if how in ("decades", "collinear", "near decades", "opposite")
            else 1.0
        )
        other = [float(f"{rng.gauss(0, 1):.3g}") for _ in range(dim)]
        if how in ("collinear", "opposite"):
            sign = -1 if how == "opposite" else 1
            found.append([sign * x * factor for x in base])
        elif how in ("near", "near decades"):
            off = 10 ** rng.uniform(-9, -2)
            found.append([(x + off * y) * factor for x, y in zip(base, other)])
        else:
            found.append([y * factor for y in other])
    if how == "tiny":
        scale = 10.0 ** -rng.choice((5, 20, 40, 100, 150))
        found = [[x * scale for x in row] for row in found]
    return how, np.array(found)


def kernel(s: Session) -> None:
    of = _theory(s, ("plain", "plain", "plain", "residual", "pre", "scaled", "two", "act"))
    at = place(s.rng, of)
    if s.rng.random() < 0.5:
        at = place_of(at.sigma_w, "0", "no bias")
    how, X = rows(s)
    if of.normed and (how == "tiny" or at.b == 0):
        how, X = "any", np.array([[1.0, 0.5], [-0.3, 2.0]])
    asked = s.rng.choice(("('K', 'Theta', 'distance')", "'K'", "('K', 'distance')", "('K', 'Theta')", "'K'"))
    if of.jumps or of.name == "act":
        asked = s.rng.choice(("'K'", "('K', 'distance')")) if of.name != "act" else "'K'"
    depth = s.rng.choice((2, 2, 3, 4))
    call = f"kernel({X.tolist()!r}, sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, quantities={asked})"
    answer = s.ask(call)
    s.family = f"{s.family}, rows {how}"
    many, size = X.shape
    singles = []
    for x in X:
        orbit = of.orbit(of.start(at.w, at.b, float(x @ x) / size), at.w, at.b, depth)
        if len(orbit) < depth or not 1e-300 < orbit[-1].K < 1e150:
            return
        singles.append(orbit)
    for i in range(many):
        for j in range(i):
            judge_entry(s, of, at, call, answer, X, i, j, singles, depth)
    if s.rng.random() < 0.25 and "distance" in asked:
        alone = s.ask(call.replace(asked, "'K'"), needed=False)
        if alone is not None:
            scale = np.sqrt(np.outer(np.diag(answer.K), np.diag(answer.K)))
            off = np.abs(answer.K - alone.K) / scale
            worst = np.unravel_index(np.argmax(off), off.shape)
            s.true(
                "K alone and beside others",
                f"theory.{call}.K",
                bool(off.max() < 1e-10),
                answer.K[worst],
                f"K alone: {alone.K[worst]}",
            )


def judge_entry(s, of, at, call, answer, X, i, j, singles, depth) -> None:
    size = X.shape[1]
    x, y = X[i], X[j]
    state = of.start_pair(
        at.w, at.b, float(x @ x) / size, float(y @ y) / size, float(x @ y) / size, float((x - y) @ (x - y)) / size
    )
    gain, relative = 1.0, 1e-12
    for _k in range(1, depth):
        grow = max(one_gain(of, state.K_aa, at), one_gain(of, state.K_bb, at))
        gain *= max(1.0, grow) * 2
        state = of.two(state, at.w, at.b)
        relative += state.gap_error * 20
    scale = math.sqrt(state.K_aa * state.K_bb)
    if not scale > 1e-300 or 20 * state.error * gain > 1e-6:
        return
    claim = answer.error
    slack = (3e-13 + 20 * state.error) * gain + 100 * claim.get("K", 0.0)
    if "K" in answer.values:
        s.same("K of two rows", f"theory.{call}.K[{i}, {j}]", answer.K[i, j], state.K_ab, min(slack, 1e-5) * scale)
    if "Theta" in answer.values and not of.normed and math.isfinite(state.Theta_ab):
        size_of = math.sqrt(singles[i][-1].Theta * singles[j][-1].Theta)
        if state.distance > 1e-10 * scale or not of.phi.splits:
            s.same(
                "Theta of two rows",
                f"theory.{call}.Theta[{i}, {j}]",
                answer.Theta[i, j],
                state.Theta_ab,
                (slack * 100 + 100 * claim.get("Theta", 0.0)) * size_of,
            )
    if "distance" in answer.values and state.distance > 1e-13 * scale:
        room = 1e-9 + relative * 10 + 4e-15 * gain * scale / state.distance + 100 * claim.get("distance", 0.0)
        s.same(
            "distance of two rows",
            f"theory.{call}.distance[{i}, {j}]",
            answer.distance[i, j],
            state.distance,
            room * state.distance,
        )


# ---------------------------------------------------------------------------------------------------------------- laws


def closing(s: Session) -> None:
    """c (or γ) at large depth: its limit and its rate, against the map of c."""
    of = _theory(s, ("plain", "plain", "residual"), (*TAMED, "named", "polynomial", "jump of functions"))
    at = place(s.rng, of)
    c0 = s.rng.choice(("0", "1/2", decimal(s.rng, -0.9, 0.9, 2)))
    quantity = s.rng.choice(("c", "c", "gamma"))
    call = f"depth_law({quantity!r}, {at.text}, c0={c0!r})"
    answer = s.ask(call)
    K, here = of.settled(at.w**2 + at.b**2, at.w, at.b)
    if here is None or abs(here.chi_K) > 0.99:
        return
    text = f"theory.{call}"
    chi = math.inf if of.jumps else here.chi_J
    limit = [t for t in answer.terms if t.power == 0 and t.rate == 0 and t.logs == 0]
    rates = [t for t in answer.terms if t.rate != 0 and t.rate_power == 1]
    if quantity == "c" and limit and limit[0].coefficient.is_number:
        c = float(limit[0].coefficient)
        if 1 - c > 1e-6:
            after = next_pair(of, K, c, at.w, at.b)
            s.same("the limit of c is kept", text, c, 1 - after.distance / (2 * after.K_aa), 1e-7)
            slope = after.J_ab
        else:
            slope = chi
            s.true("c = 1 attracts", text, chi < 1 + 1e-6, f"c -> {c}", f"chi_J = {chi!r}")
        if rates and rates[0].rate.is_number and not of.jumps and (c != 1 or chi < 1 - 1e-5):
            slowest = max(abs(slope), abs(here.chi_K)) if c != 1 else slope
            s.same("rate of c", text, float(rates[0].rate), math.log(slowest), 1e-5 * (1 + abs(math.log(slowest))))
    elif quantity == "gamma" and rates and rates[0].rate.is_number and chi < 1 - 1e-5:
        s.same("rate of gamma", text, float(rates[0].rate), -math.log(chi), 1e-5 * (1 - math.log(chi)))


def neutrality(s: Session) -> None:
    """Places on the line where c* is a given number: c is kept there."""
    of = _theory(s, ("plain", "plain", "residual", "scaled"), (*TAMED, "named", "jump of constants"))
    c = s.rng.choice(("1/2", "1/2", nonzero(s.rng, 0.1, 0.9, 1)))
    line = s.ask(f"neutrality_line(c={c!r})")
    b = s.rng.choice(("1/2", "0.3", "1"))
    call = f"neutrality_line(c={c!r}).sigma_w_at({b!r})"
    answer = s.ask(call, needed=False)
    del line
    for item in answer or []:
        solution = item[0] if isinstance(item, tuple) else item
        w, beta = float(solution.value), float(sp.Rational(b))
        from .places import roots

        kept = [K for K in roots(of, w, beta, 1e-5, 1e6, 60)]
        offs = [abs(map_of_c(of, K, float(sp.Rational(c)), w, beta) - float(sp.Rational(c))) for K in kept]
        if offs:
            s.true(
                "c is kept on the line",
                f"theory.{call}",
                min(offs) < 1e-6,
                f"sigma_w = {w!r}",
                f"off by {min(offs)!r} at K in {kept}",
            )
