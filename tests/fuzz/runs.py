"""Comparisons of runs of one input, and of laws at large depth."""

from __future__ import annotations

import math

import sympy as sp

from .activations import TAMED, nonzero
from .asked import SHAPES, close, derived
from .maps import Net, One
from .places import Place, place, plain, tangent
from .session import Session


def run(s: Session) -> None:
    """K, J and Θ layer by layer; K with and without the others; σ's per layer."""
    of = derived(s, (*SHAPES, "act", "preln"))
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
        of = derived(s, ("plain", "plain", "residual"), (*TAMED, "named", "polynomial"))
        at, norm = place(s.rng, of), s.rng.choice(("1", nonzero(s.rng, 0.2, 3)))
    quantity = s.rng.choice(("K", "K", "J"))
    if of.jumps:
        quantity = "K"
    call = f"depth_law({quantity!r}, {at.text}, input_norm={norm!r})"
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
    if "relaxes over" in answer.regime or answer.onset > 300:  # it says that it holds deeper than orbits go
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
    unit = max(scale, 1.0) if quantity == "J" else scale  # log J may be 0
    if isinstance(answer.remainder, str) or off[2] < 1e-9 * unit:
        return
    if abs(orbit[-1].chi_K) < 0.99 and abs(orbit[middle - 1].K / orbit[-1].K - 1) > 1e-6:
        return  # K falls by powers of χ_K and has only now come near: two points that just miss held it up
    slope = math.log(off[2] / off[1]) / math.log(2) if off[1] > 0 else -math.inf
    allowed = float(answer.remainder) + 0.35 + 0.2 * float(answer.remainder_logs)
    if slope > allowed and off[2] > 1e-6 * unit and off[2] > 0.05 * (parts[-1] if parts else 0.0):
        s.found(
            f"remainder of {quantity} = {answer.text()}",
            text,
            f"falls as l^{answer.remainder}",
            f"falls as l^{slope:.3f} between l = {middle} and {late}",
        )
