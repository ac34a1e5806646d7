"""What becomes of a map where the covariance of two inputs changes its sign, as that of x and -y does.

It is asked of the derived formula, not of the records that made it: tanh(z)·z² is odd, the product of a `Gate` with odd
φ even, a polynomial of a `Pool` what its powers say.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from meanfield.base.symbols import Z
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursion import Recursion, c0
from meanfield.symbolic.steps import Step


def parity(e: sp.Expr, flipped: frozenset[sp.Symbol]) -> int | None:
    """1 where e stays as it is when all of `flipped` change their signs, -1 where it changes its own; None where
    neither is shown.

    >>> from meanfield.base.symbols import K, K_ab
    >>> [parity(e, frozenset({K_ab})) for e in (K * K_ab**3, K_ab**2, K_ab + 1)]
    [-1, 1, None]
    """
    if not e.free_symbols & flipped:
        return 1
    if e in flipped:
        return -1
    if isinstance(e, Average):
        return _of_average(e, flipped)
    inner = [parity(a, flipped) for a in e.args]
    if e.is_Add:
        return inner[0] if len(set(inner)) == 1 else None
    if e.is_Mul:
        return None if None in inner else int(sp.prod(inner))
    if set(inner) == {1}:
        return 1
    if len(inner) == 1 or (e.is_Pow and e.exp.is_Integer):
        u = sp.Dummy("u", real=True)
        f = e.func(u, *e.args[1:])
        reflected = f.subs(u, -u)
        return inner[0] and (-1 if reflected == -f else 1 if reflected == f else None)
    return None


def _of_average(node: Average, flipped: frozenset[sp.Symbol]) -> int | None:
    """⟨f(z_a, z_b)⟩ with -K_ab is that of f(z_a, -z_b)."""
    if node.dimension != 2 or any(m != 0 for m in node.mean) or any(p.free_symbols & flipped for p in node.args[3]):
        return None
    own, between, other = (parity(v, flipped) for v in node.cov)
    if own != 1 or other != 1 or between is None:
        return None
    return 1 if between == 1 else _in_second(node.integrand)


def of_function(f: sp.Expr) -> int | None:
    """1 for an even function of Z[0], -1 for an odd one; None where neither is shown. Jumps do not matter.

    >>> [of_function(f) for f in (sp.tanh(Z[0]), sp.Abs(Z[0]), sp.exp(Z[0]))]
    [-1, 1, None]
    """
    variance = sp.Dummy("V", positive=True)  # at a number an average may vanish by chance
    odd, even = (average(g, variance) == 0 for g in (f, Z[0] * f))
    return -1 if odd else 1 if even else None


def _in_second(f: sp.Expr) -> int | None:
    """The parity of f in z_b."""
    _, own = f.as_independent(Z[1], as_Add=False) if f.is_Mul else (sp.S.One, f)
    if not own.has(Z[0]):
        return of_function(own.xreplace({Z[1]: Z[0]}))
    reflected = f.subs(Z[1], -Z[1])
    return -1 if reflected == -f else 1 if reflected == f else None


def is_odd(recursion: Recursion, names: tuple[str, ...], zero: Mapping[str, object]) -> bool:
    """Whether the variables `names`, which belong to two inputs, change their signs at every layer with that of c0.

    zero: values of parameters by name; those that are 0 are put in.
    """
    held, flipped = _flipped(recursion, names, zero)
    formulas = [v.initial for v in held.state if v.name in names]
    formulas += [e for step in held.steps for e in _next(held, step, names)]
    return all(e == 0 or parity(e, flipped) == -1 for e in formulas)


def is_even(recursion: Recursion, names: tuple[str, ...], zero: Mapping[str, object]) -> bool:
    """Whether the variables `names`, which belong to two inputs, are after the first step what they are if they had the
    other sign before it; zero: as of `is_odd`."""
    held, flipped = _flipped(recursion, names, zero)
    return all(parity(e, flipped) == 1 for e in _next(held, held.steps[0], names))


def meets_itself(recursion: Recursion, zero: Mapping[str, object]) -> bool:
    """Whether x and -x are one signal behind the first block: K_ab of layer 1 has the sign of the correlation, and the
    next one does not see it. zero: as of `is_odd`."""
    held, _ = _flipped(recursion, ("K_ab",), zero)
    (start,) = (v.initial for v in held.state if v.name == "K_ab")
    return parity(start, frozenset({c0})) == -1 and is_even(recursion, ("K_ab",), zero)


def _flipped(recursion: Recursion, names: tuple[str, ...], zero: Mapping[str, object]):
    """The recursion with what is 0 put in, and what changes its sign."""
    held = recursion.only(*names).replaced({name: sp.S.Zero for name, value in zero.items() if value == 0})
    return held, frozenset({c0, *(v.symbol for v in held.state if v.name in names)})


def _next(recursion: Recursion, step: Step, names: tuple[str, ...]) -> list[sp.Expr]:
    return [e for v, e in zip(recursion.state, step.flat()) if v.name in names]
