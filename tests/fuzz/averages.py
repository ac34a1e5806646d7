"""Comparisons of Gaussian averages and of their expansions."""

from __future__ import annotations

import math

import mpmath as mp
import sympy as sp

from .activations import activation, nonzero
from .places import net
from .quadrature import average_digits, moments
from .session import Session


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
