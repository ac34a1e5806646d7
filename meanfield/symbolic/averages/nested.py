r"""Averages inside averages, merged into one: the mean of an inner Gaussian may be a function of outer ones.

With z = α + Σ_k β_k μ_k + √V ε, an inner ⟨f(z)⟩ over N(α + β·μ, V) is an average over ε, so that

    ⟨⟨f⟩_{V; μ} ⟨g⟩_{V; μ}⟩_{μ ~ M} = ⟨f(z_a) g(z_b)⟩ with covariance (M + V, M, M + V),

and every further factor adds its own variables. That is the identity between the recursions of the initial guessing
bias and of two inputs ([bias_and_trainability] (61)-(64) completes the square for it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z


def depends(inner: sp.Expr) -> bool:
    """Whether an average inside an integrand is a function of the variables that the outer one runs over."""
    return bool(inner.has(*Z))


def merged(
    f: sp.Expr, cov: Sequence[sp.Expr], mean: Sequence[sp.Expr], inside: list[Any], build: Callable[..., sp.Expr]
) -> sp.Expr:
    """⟨f⟩ over (cov, mean) where f is a polynomial in `inside`, averages that depend on the outer variables.

    build: `average`. Raises: MeanFieldError where f is no polynomial in them, a mean is not linear in the outer
    variables, a variance depends on them, or more than four variables would be needed.
    """
    names = {a: sp.Dummy(f"q{i}", real=True) for i, a in enumerate(inside)}
    flat = sp.expand(f.xreplace(names))
    if not flat.is_polynomial(*names.values()):
        raise MeanFieldError(
            f"An average of {f} was asked for, in which averages stand that depend on its own variable; only sums of "
            "products of such averages can be merged into one."
        )
    back = {v: a for a, v in names.items()}
    return sp.Add(*[_term(t, cov, mean, back, build) for t in sp.Add.make_args(flat)])


def _term(
    t: sp.Expr,
    cov: Sequence[sp.Expr],
    mean: Sequence[sp.Expr],
    back: dict[sp.Symbol, Any],
    build: Callable[..., sp.Expr],
) -> sp.Expr:
    factors: list[Any] = []
    rest = sp.S.One
    for factor in sp.Mul.make_args(t):
        base, power = factor.as_base_exp()
        if base in back:
            factors += [back[base]] * int(power)
        else:
            rest *= factor
    if not factors:
        return build(rest, cov, mean)
    outer = [i for i in range(len(mean)) if rest.has(Z[i])]  # what of the outer variables is left by itself
    rows = [_row({Z[i]: sp.S.One}, mean) for i in outer]
    f, means, own = rest.xreplace({Z[i]: Z[k] for k, i in enumerate(outer)}), [mean[i] for i in outer], []
    for a in factors:
        start = len(rows)
        if start + a.dimension > len(Z):
            raise MeanFieldError(f"Averages inside averages of {t} need more than {len(Z)} variables when merged.")
        swap = {Z[k]: Z[start + k] for k in range(a.dimension)}
        f = f * a.integrand.xreplace(swap)
        for k in range(a.dimension):
            shift, slopes = _linear(a.mean[k], len(mean))
            rows.append(slopes)
            means.append(shift + sum(s * m for s, m in zip(slopes, mean)))
        own += [(start + i, start + j, a.covariance(i, j)) for i in range(a.dimension) for j in range(i + 1)]
        if any(c.has(*Z) for c in a.cov):
            raise MeanFieldError(f"The variance of {a} depends on the variable of the average around it.")
    total = {(i, j): _moved(rows[i], rows[j], cov) for i in range(len(rows)) for j in range(i + 1)}
    for i, j, c in own:
        total[i, j] += c
    return build(f, tuple(sp.expand(c) for c in total.values()), tuple(sp.expand(m) for m in means))


def _row(slopes: dict[sp.Expr, sp.Expr], mean: Sequence[sp.Expr]) -> list[sp.Expr]:
    return [slopes.get(Z[i], sp.S.Zero) for i in range(len(mean))]


def _linear(m: sp.Expr, n: int) -> tuple[sp.Expr, list[sp.Expr]]:
    """(α, β) of a mean α + Σ β_k z_k."""
    slopes = [sp.diff(m, Z[k]) for k in range(n)]
    shift = sp.expand(m - sum(s * Z[k] for k, s in enumerate(slopes)))
    if any(s.has(*Z) for s in slopes) or shift.has(*Z):
        raise MeanFieldError(f"The mean {m} of an inner average is not linear in the variable of the outer one.")
    return shift, slopes


def _moved(a: list[sp.Expr], b: list[sp.Expr], cov: Sequence[sp.Expr]) -> sp.Expr:
    """Σ a_i C_ij b_j."""
    n = len(a)
    return sp.Add(
        *[a[i] * b[j] * cov[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)] for i in range(n) for j in range(n)]
    )
