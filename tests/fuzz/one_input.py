"""Comparisons of one input: fixed points and phases."""

from __future__ import annotations

import math

import sympy as sp

from .activations import nonzero
from .asked import SHAPES, close, derived, number
from .maps import Net, One
from .places import Place, place, plain, roots, tangent
from .session import Session


def judge_point(s: Session, of: Net, at: Place, point, call: str) -> None:
    """K* is kept, χ_J and χ_K are those of the maps, the stability is that of the slope."""
    K = number(point.K)
    if not 1e-30 < K < 1e30:
        if K == 0 and of.plain and of.phi.germ is not None and at.b == 0 and not of.jumps:
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
    of = derived(s)
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
        # where chi_K = 1 the map is K to rounding over a range: the cube of 1e-5 is lost in it
        near = min(
            (
                abs(K / k - 1) * (1 if abs(number(p.chi_K) - 1) > 1e-6 else 1e-3)
                for k, p in zip(places, points)
                if k > 0
            ),
            default=math.inf,
        )
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
            k < later[-1].K or max(one.K for one in later if one.K == one.K) > 1e100,  # a polynomial ends as inf - inf
            f"from {k!r}",
            f"K = {later[-1].K!r} after {len(later)} layers",
        )


def phase(s: Session) -> None:
    shapes = (*SHAPES, "act", "preln")
    of = derived(s, shapes)
    at = place(s.rng, of)
    norm = s.rng.choice(("1", "1", nonzero(s.rng, 0.1, 5), f"{10 ** s.rng.uniform(-4, 4):.3g}"))
    call = f"phase({at.text}, input_norm={norm!r})"
    answer = s.ask(call)
    K1 = at.w**2 * float(norm) + at.b**2
    end, here = of.settled(K1, at.w, at.b)
    point = answer.fixed_point
    kept = point is not None and point.stability == "neutral"  # every K is a fixed point
    K = math.inf if point is None else K1 if kept else number(point.K)
    text, chi = f"theory.{call}", number(answer.chi_J)
    if here is not None and abs(here.chi_K) < 0.9999:
        near_one = 1e-9 / (1 - abs(here.chi_K))
        close("K* of the phase", s, call, K, end, near_one + 1e-9 + 20 * here.error / (1 - abs(here.chi_K)))
        judge_phase(s, call, answer.name, chi, here, of, near_one)
    elif end == math.inf:
        s.true("K grows without bound", text, answer.fixed_point is None or K > 1e11, f"K* = {K!r}", "K exceeds 1e12")
    elif end == 0:
        s.true("K falls to 0", text, K == 0, f"K* = {K!r}", "K < 1e-40")
        if of.plain and of.phi.germ is not None and not of.jumps:  # a jump anywhere has slope infinity at every K > 0
            a, b = of.phi.germ
            close("chi_J at K* = 0", s, call, chi, at.w**2 * (a * a + b * b) / 2 + of.skip**2, 1e-9)
    if of.normed and of.name == "act":
        return
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
