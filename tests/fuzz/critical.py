"""Comparisons of critical points, critical lines and diagrams of phases."""

from __future__ import annotations

import math

import sympy as sp

from .activations import TAMED, activation, decimal, nonzero
from .asked import close, derived, number
from .maps import One
from .places import net, roots, sign_changes
from .quadrature import moments
from .session import Session
from .two_inputs import map_of_c


def diagram(s: Session) -> None:
    """A small grid of either kind, and `phase` at one of its points."""
    of = derived(
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
    quantity = s.rng.choice(("J", "J", "gamma"))
    if of.jumps and quantity == "J" and s.rng.random() < 0.5:
        quantity = "gamma"
    norm = s.rng.choice((1.0, float(nonzero(s.rng, 0.2, 4, 1))))
    call = f"phase_diagram(sigma_w={w!r}, sigma_b={b!r}, input_norm={norm!r}, line=False, quantity={quantity!r})"
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
        if quantity == "gamma":

            c = float(answer.c[i, j])
            if 1 - c > 1e-6 and of.name != "act":
                after = map_of_c(of, end, c, w[j], b[i])
                close("c* of the diagram is kept", s, f"{call}.c[{i}, {j}]", c, after, 1e-6, 1)
            chaotic = of.jumps or here.chi_J > 1 + 1e-6
            if chaotic and b[i] > 0:
                s.true(
                    "c* of the diagram below 1", f"theory.{call}.c[{i}, {j}]", c < 1, c, f"chi_J = {here.chi_J!r} > 1"
                )


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
    of = derived(s, ("plain", "plain", "residual", "scaled", "pre", "act"), (*TAMED, "named", "polynomial"))
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
