r"""⟨f⟩_K as K → ∞ for a function with tails Σ c t^s (log t)^m: each tail term by its continued half moment, what is
left by finite parts.

With λ = 1/2K, √(2πK)⟨f⟩ = ∫₀^∞ F e^{-λt²} dt, F(t) = f(t) + f(-t). Subtract the tail on t > 1, expand e^{-λt²} for
the rest, and add the tail back: what the two cuts leave cancels if every divergent integral is Hadamard's finite part
(drop powers and powers of the logarithm of the cut). So

√(2πK)⟨f⟩ ~ Σ c G_{s,m}(K) + Σ_j (-1)^j/(j! (2K)^j) fp∫ z^{2j} f dz,   G_{s,m} = fp∫₀^∞ t^s (log t)^m e^{-t²/2K} dt,

where G_{s,m} = m! [δ^m] ½Γ((s+1+δ)/2)(2K)^{(s+1+δ)/2} with the pole 1/δ left out: logarithms of K arise where s = -1,
-3, …. Source: derived here (the splitting behind the Mellin transform's residues).
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from meanfield.functions.series.infinity import Terms
from meanfield.symbolic.averages.expansions.powerlog import Key


def half_moment(k: sp.Expr) -> sp.Expr:
    """½⟨|z|^k⟩ at K = 1: 2^{k/2} Γ((k+1)/2)/(2√π), continued to every k but -1, -3, ….

    >>> half_moment(2), half_moment(-2)
    (1/2, -1/2)
    """
    return 2 ** (sp.sympify(k) / 2) * sp.gamma((k + 1) / sp.Integer(2)) / (2 * sp.sqrt(sp.pi))


def _polygamma(n: int, a: sp.Expr) -> sp.Expr:
    """ψ^{(n)}(a), for n > 0 and 2a an integer (not a pole) by its value at 1 or ½ and the recurrence in a."""
    if n == 0 or not (2 * a).is_Integer:
        return sp.expand_func(sp.polygamma(n, a))
    start = sp.S.One if a.is_Integer else sp.S.Half
    sign, base = sp.Integer(-1) ** (n + 1), sp.S.One if a.is_Integer else sp.Integer(2) ** (n + 1) - 1
    value = sign * sp.factorial(n) * base * sp.zeta(n + 1)
    low, high = sorted((start, a))
    steps = sp.Add(*[-sign * sp.factorial(n) / (low + i) ** (n + 1) for i in range(int(high - low))])
    return value + steps if a > start else value - steps


@lru_cache(maxsize=512)
def _gamma_series(a: sp.Expr, count: int) -> tuple[int, tuple[sp.Expr, ...]]:
    """Γ(a + x) = x^low Σ_k out[k] x^k, `count` coefficients; low is -1 at a pole, else 0."""
    x = sp.Dummy("x")
    if a.is_Integer and a <= 0:  # Γ(a + x) = Γ(1 + x)/(x (x - 1) … (x + a))
        factor = sp.Mul(*[1 / (x - i) for i in range(1, int(-a) + 1)])
        low, start, derivatives = -1, sp.S.One, [sp.polygamma(n, 1) for n in range(count)]
    else:
        factor, low, start = sp.S.One, 0, sp.gamma(a)
        derivatives = [_polygamma(n, a) for n in range(count)]
    out = [start]  # exp(Σ ψ^{(n-1)} xⁿ/n!) by its differential equation
    for k in range(1, count):
        out.append(sp.expand(sp.Add(*[derivatives[i] / sp.factorial(i) * out[k - 1 - i] for i in range(k)]) / k))
    rational = sp.Poly(sp.series(factor, x, 0, count).removeO(), x) if factor != 1 else sp.Poly(1, x)
    mixed = [sp.expand(sp.Add(*[rational.nth(i) * out[k - i] for i in range(k + 1)])) for k in range(count)]
    return low, tuple(mixed)


def tail_term(s: sp.Expr, m: int) -> dict[Key, sp.Expr]:
    """(2πK)^{-1/2} G_{s,m} as a sum over (power of K, power of log K)."""
    low, gamma = _gamma_series((s + 1) / sp.Integer(2), m + 2)
    scale = sp.Integer(2) ** (s / 2) / (2 * sp.sqrt(sp.pi)) * sp.factorial(m) / sp.Integer(2) ** m
    out: dict[Key, sp.Expr] = {}
    for i, g in enumerate(gamma):  # [x^m] of Σ g_i x^{i+low} Σ_k (log 2 + log K)^k x^k/k!
        k = m - i - low
        if k < 0:
            continue
        for n in range(k + 1):
            c = sp.binomial(k, n) * sp.log(2) ** (k - n) / sp.factorial(k)
            key = (s / 2, n)
            out[key] = out.get(key, sp.S.Zero) + scale * g * c
    return {key: sp.expand(c) for key, c in out.items()}


def tails_sum(tails: Terms) -> dict[Key, sp.Expr]:
    """What the tail terms of both sides (added) contribute to ⟨f⟩_K."""
    total: dict[Key, sp.Expr] = {}
    for (s, m), c in tails.items():
        if sp.expand(c) != 0:
            for key, v in tail_term(s, m).items():
                total[key] = total.get(key, sp.S.Zero) + c * v
    return total


def moment_term(value: sp.Expr, j: int) -> tuple[Key, sp.Expr]:
    """What fp∫ z^{2j} f dz = value contributes."""
    scale = sp.Integer(-1) ** j / (sp.sqrt(2 * sp.pi) * sp.factorial(j) * 2**j)
    return (-sp.S.Half - j, 0), scale * value
