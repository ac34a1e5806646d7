"""Comparisons of two inputs: fixed points of c, the laws that close there, the guessing bias and its neutrality."""

from __future__ import annotations

import math

import sympy as sp

from .activations import TAMED, decimal, nonzero
from .asked import derived, number
from .maps import Net, Two
from .places import place, roots
from .session import Session

GRID = (-0.99, -0.6, 0.0, 0.3, 0.6, 0.85, 0.97, 0.999)


def next_pair(of: Net, K: float, c: float, w: float, b: float) -> Two:
    return of.two(Two(K, K, 2 * K * (1 - c)), w, b)


def map_of_c(of: Net, K: float, c: float, w: float, b: float) -> float:
    """C(c) at a K that the map of K keeps."""
    after = next_pair(of, K, c, w, b)
    return 1 - after.distance / (2 * after.K_aa)


def correlations(s: Session) -> None:
    of = derived(s)
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
    of = derived(s, ("plain", "plain", "residual", "scaled", "two"))
    at = place(s.rng, of)
    c0 = s.rng.choice(("0", "0", "1/2", "-1/3", decimal(s.rng, -0.9, 0.95, 2)))
    call = f"bias({at.text}, correlation={c0!r})"
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


def closing(s: Session) -> None:
    """c (or γ) at large depth: its limit and its rate, against the map of c."""
    of = derived(s, ("plain", "plain", "residual", "gate"), (*TAMED, "named", "polynomial", "jump of functions"))
    at = place(s.rng, of)
    c0 = s.rng.choice(("0", "1/2", "-1", decimal(s.rng, -0.9, 0.9, 2)))
    quantity = s.rng.choice(("c", "c", "gamma"))
    call = f"depth_law({quantity!r}, {at.text}, correlation={c0!r})"
    answer = s.ask(call)
    K, here = of.settled(at.w**2 + at.b**2, at.w, at.b)
    if here is None or abs(here.chi_K) > 0.99:
        return
    text = f"theory.{call}"
    if c0 == "-1" and at.b == 0 and next_pair(of, K, -1.0, at.w, 0.0).distance <= 1e-9 * K:  # x and -x are one
        s.true("opposite inputs of an even map", text, quantity == "gamma" or answer.at(50) == 1, answer, "c = 1")
        return
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
            attracts = c == 1 if chi < 1 - 1e-6 else c <= 1 and chi < 1 + 1e-5
            s.true("c = 1 attracts", text, attracts, f"c -> {c}", f"chi_J = {chi!r}")
        if rates and rates[0].rate.is_number and not of.jumps and (c != 1 or chi < 1 - 1e-5):
            slowest = max(abs(slope), abs(here.chi_K)) if c != 1 else slope
            s.same("rate of c", text, float(rates[0].rate), math.log(slowest), 1e-8 + 1e-6 * abs(math.log(slowest)))
        apart = s.ask(call.replace("'c'", "'distance'"), needed=False)
        if apart is not None:
            judge_distance(s, call.replace("'c'", "'distance'"), apart, K, 1 - c, chi)
    elif quantity == "gamma" and rates and rates[0].rate.is_number and chi < 1 - 1e-5:
        s.same("rate of gamma", text, float(rates[0].rate), -math.log(chi), 1e-8 - 1e-6 * math.log(chi))


def judge_distance(s: Session, call: str, answer, K: float, gap: float, chi: float) -> None:
    """The distance 2K(1 - c) ends where c and K do, and falls to 0 as fast as 1 - c."""
    flat = [t for t in answer.terms if t.power == 0 and t.rate == 0 and t.logs == 0]
    if gap > 1e-6 and flat and flat[0].coefficient.is_number:
        s.same("the limit of the distance", f"theory.{call}", float(flat[0].coefficient), 2 * K * gap, 1e-9 * K)
    rates = [t for t in answer.terms if t.rate != 0 and t.rate_power == 1]
    if gap == 0 and rates and rates[0].rate.is_number and chi < 1 - 1e-5:
        rate = float(rates[0].rate)
        s.same("rate of the distance", f"theory.{call}", rate, math.log(chi), 1e-8 - 1e-6 * math.log(chi))


def neutrality(s: Session) -> None:
    """Places on the line where c* is a given number: c is kept there."""
    of = derived(s, ("plain", "plain", "residual", "scaled"), (*TAMED, "named", "jump of constants"))
    c = s.rng.choice(("1/2", "1/2", nonzero(s.rng, 0.1, 0.9, 1)))
    line = s.ask(f"neutrality_line(correlation={c!r})")
    b = s.rng.choice(("1/2", "0.3", "1"))
    call = f"neutrality_line(correlation={c!r}).sigma_w_at({b!r})"
    answer = s.ask(call, needed=False)
    del line
    for item in answer or []:
        solution = item[0] if isinstance(item, tuple) else item
        w, beta = float(solution.value), float(sp.Rational(b))

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
