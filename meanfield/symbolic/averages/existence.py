"""What has no average: a function that is not real, an odd one with a pole, numbers that are no covariance."""

from __future__ import annotations

from itertools import combinations, pairwise

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.symbols import Z
from meanfield.functions import zeros
from meanfield.functions.piecewise import SWITCHES, pieces
from meanfield.symbolic.averages.singular_ends import poles, singular_end


def refuse_no_covariance(entries: list[sp.Expr], n: int, cov: object) -> None:
    """Refuse numbers with K_ab² > K_aa K_bb."""
    for i, j in combinations(range(n), 2):
        a, ab, b = (entries[k] for k in (i * (i + 3) // 2, j * (j + 1) // 2 + i, j * (j + 3) // 2))
        if (a * b - ab**2).is_number and zeros.sign(a * b - ab**2) == -1:
            raise MeanFieldError(
                f"A covariance has |K_ab|² ≤ K_aa K_bb, but {shown(cov)} was given, with {ab}² > {a}·{b}."
            )


def refuse_not_real(f: sp.Expr) -> None:
    """Refuse a function of one variable with a root or a logarithm of what is certainly negative at a point of a
    piece: its average would be that of a real part."""
    if not any(_is_restricted(p) for p in f.atoms(sp.Pow, sp.log)):
        return
    if f.has(Z[1]):  # of two variables: what holds one of them, where nothing switches
        for p in () if f.has(*SWITCHES) else filter(_is_restricted, f.atoms(sp.Pow, sp.log)):
            refuse_not_real(p if not p.has(Z[1]) else p.xreplace({Z[1]: Z[0]}) if not p.has(Z[0]) else sp.S.One)
        return
    for e, lo, hi in pieces(f, Z[0]).intervals():
        for p in filter(_is_restricted, e.atoms(sp.Pow, sp.log)):
            h = p.args[0]
            for x in _points(lo, hi):
                if zeros.sign(h.subs(Z[0], x)) == -1:
                    what = f"({h})**({p.exp})" if p.is_Pow else f"log({h})"
                    raise MeanFieldError(
                        f"{what} is not real at z = {x}, so the average over every z does not exist; write where it is "
                        "meant, as in 'sqrt(z) if z > 0 else 0'.".replace("_z", "z")
                    )


def _is_restricted(p: sp.Expr) -> bool:
    """A root or a logarithm of a function of the variable, real only where that is not negative."""
    return bool(p.args[0].has(*Z)) and not (p.is_Pow and (p.exp.is_Integer or p.base is sp.E))


def _points(lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    """Some points inside an interval, near its ends and far out."""
    if lo == -sp.oo and hi == sp.oo:
        return [s * x for x in _DISTANCES for s in (1, -1)]
    if lo == -sp.oo or hi == sp.oo:
        return [hi - x if lo == -sp.oo else lo + x for x in _DISTANCES]
    return [lo + (hi - lo) * x for x in (sp.Rational(k, 8) for k in range(1, 8))]


_DISTANCES = tuple(map(sp.Rational, ("1/1000", "1/10", "1/2", "9/10", "7/4", "3", "17/2", "60", "10000")))


def refuse_odd_poles(f: sp.Expr) -> None:
    """⟨odd⟩ is 0 where it exists: 1/z and tanh(z)/z² have none. Raises: InfiniteAverage."""
    if not any(p.exp.is_negative for p in f.atoms(sp.Pow)):
        return
    for e, lo, hi in pieces(f, Z[0]).intervals():
        for a, b in pairwise([lo, *poles(e, lo, hi), hi]):
            for at, side in ((a, 1), (b, -1)):
                if at not in (-sp.oo, sp.oo):
                    singular_end(e, at, side)
