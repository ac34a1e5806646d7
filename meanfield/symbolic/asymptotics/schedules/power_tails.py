r"""The correlation of two inputs through a φ whose variance goes to 0 or ∞: only a power of z is left of φ there.

Of f = c₊ z^d on z > 0 and c₋ |z|^d on z < 0, with A, B = (c₊ ± c₋)/2 the even and the odd part,

    ⟨f_a f_b⟩/⟨f²⟩ = κ(c) = (A² E(c²) + B² c O(c²))/(A² E(1) + B² O(1)),
    E(x) = 2^d Γ((d+1)/2)²/π ₂F₁(-d/2, -d/2; 1/2; x),  O(x) = 2^{d+1} Γ(d/2+1)²/π ₂F₁((1-d)/2, (1-d)/2; 3/2; x).

Source: derived here (Hermite coefficients of |z|^d); d = 0 is the arcsine law, d = 1 the first arc-cosine kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.precision import bits
from meanfield.base.symbols import K, Z
from meanfield.functions.piecewise import Pieces
from meanfield.functions.series.infinity import normal_form
from meanfield.functions.series.taylor import fractional
from meanfield.symbolic.asymptotics.schedules.balance import Solution
from meanfield.symbolic.averages.expansions.expansion import at_infinity
from meanfield.symbolic.averages.node import average

_T = sp.Dummy("t", positive=True)


@dataclass(frozen=True)
class Tail:
    """f = right·z^d on z > 0 and left·|z|^d on z < 0, at one end of |z|."""

    d: sp.Expr
    right: sp.Expr
    left: sp.Expr

    @property
    def even(self) -> sp.Expr:
        return (self.right + self.left) / 2

    @property
    def odd(self) -> sp.Expr:
        return (self.right - self.left) / 2

    @property
    def weights(self) -> tuple[sp.Expr, sp.Expr]:
        """The shares of ⟨f²⟩ of the even and of the odd part."""
        a, b = (sp.simplify(x**2) for x in (self.even, self.odd))
        return sp.simplify(a / (a + b)), sp.simplify(b / (a + b))

    def kernel(self, c: sp.Expr) -> sp.Expr:
        """κ(c)."""
        d, (even, odd) = self.d, self.weights
        x = sp.Rational(1, 2)
        e = sp.hyper((-d / 2, -d / 2), (x,), c**2) / sp.hyper((-d / 2, -d / 2), (x,), 1)
        o = sp.hyper(((1 - d) / 2,) * 2, (3 * x,), c**2) / sp.hyper(((1 - d) / 2,) * 2, (3 * x,), 1)
        return sp.Add(*[w * sp.hyperexpand(part) for w, part in ((even, e), (odd, c * o)) if w != 0])

    @property
    def slope(self) -> sp.Expr:
        """κ′(1) = d²/(2d - 1), ∞ for d ≤ 1/2."""
        return self.d**2 / (2 * self.d - 1) if self.d > sp.S.Half else sp.oo

    def nearness(self) -> tuple[sp.Expr, sp.Expr]:
        """(k, n), n = d + 1/2: 1 - κ(1 - ε) = k ε^n + … for d < 1/2, and ε - k ε^n + … for d = 1.

        It is what the hypergeometric functions leave at 1 beside a Taylor series, (1 - x)^{d + 1/2}. Raises:
        MeanFieldError for other d, and for an even f with d = 0, which is constant.
        """
        d, n, (even, odd) = self.d, self.d + sp.S.Half, self.weights
        if not (d < sp.S.Half or d == 1) or (d == 0 and self.odd == 0):
            raise MeanFieldError(
                "How the correlation of two inputs closes is derived for tails that are linear or slower than √|z|."
            )
        parts = ((even, -d / 2, (1 + d) / 2), (odd, (1 - d) / 2, 1 + d / 2))  # (weight, a = b, c - a)
        k = sp.Add(*[w * sp.gamma(rest) ** 2 / sp.gamma(a) ** 2 for w, a, rest in parts if w != 0 and a != 0])
        return sp.simplify(-(2**n) * sp.gamma(-n) / sp.gamma(n) * k * (-1 if d == 1 else 1)), n


def tail(p: Pieces, far: bool) -> Tail:
    """What is left of φ at |z| → ∞, or at z → 0. Raises: MeanFieldError where that is no power of |z|, and where φ²
    falls like 1/|z| or faster: its average is made near 0 then, and not in the tails."""
    ends = []
    for side, e in ((1, p.exprs[-1]), (-1, p.exprs[0])) if far else zip((1, -1), reversed(p.around_zero())):
        terms = (
            normal_form(e.subs(Z[0], side * _T), _T).terms(sp.Integer(-2))
            if far
            else {(k, 0): c for k, c in fractional(e.subs(Z[0], side * _T), _T, 2)[0].items() if c != 0}
        )
        key = (max if far else min)(terms, key=lambda k: (k[0], k[1] if far else -k[1]), default=None)
        ends.append((key, sp.S.Zero if key is None else terms[key]))
    known = [k for k, _ in ends if k is not None]
    if not known or any(k[1] != 0 for k in known):
        raise MeanFieldError("The tails of φ are no powers of |z|; the correlation of two inputs is not derived there.")
    d = (max if far else min)(k[0] for k in known)
    if far and d <= -sp.S.Half:
        raise MeanFieldError(
            f"phi falls like |z|^({d}) as |z| grows, so that <phi^2> is made near 0; no power of |z| says how two "
            "inputs part there."
        )
    right, left = (c if k is not None and k[0] == d else sp.S.Zero for k, c in ends)
    return Tail(sp.sympify(d), right, left)


def unlike(p: Pieces) -> sp.Expr | None:
    """⟨f_a f_b⟩/⟨f²⟩ of two inputs that are not parallel as q → ∞, of a polynomial f in sines and cosines: ⟨f⟩²/⟨f²⟩
    there, as all waves die. None for other f."""
    if len(p.exprs) > 1:
        return None
    (e,) = p.exprs
    waves = {w: sp.Dummy() for w in e.atoms(sp.sin, sp.cos)}
    linear = all(w.args[0].is_polynomial(Z[0]) and sp.degree(w.args[0], Z[0]) == 1 for w in waves)
    if not waves or not linear:
        return None
    rest = e.xreplace(waves)
    if Z[0] in rest.free_symbols or not rest.is_polynomial(*waves.values()):
        return None
    mean, square = (at_infinity(average(f, K), 1).terms for f in (e, e**2))
    return mean[0].coefficient ** 2 / square[0].coefficient if mean else sp.S.Zero


class Meeting(Solution):
    r"""The correlation e in [0, 1) with e = (1 - s) κ(e) + s, κ that of a tail: where two inputs settle as q → ∞.

    Arguments: d, right, left (see `Tail`), s, the share of a source that both inputs have in common.
    """

    is_nonnegative = True

    def __new__(cls, d, right, left, s):
        return super().__new__(cls, *map(sp.sympify, (d, right, left, s)))

    @property
    def tail(self) -> Tail:
        return Tail(*self.args[:3])

    def doit(self, **hints):
        even, _ = self.tail.weights
        return sp.S.Zero if even == 0 and self.args[3] == 0 else self

    def _eval_evalf(self, prec):
        if self.free_symbols:
            return None
        e = sp.Symbol("e", real=True)
        kernel = sp.lambdify(e, self.tail.kernel(e), "mpmath")
        with bits(prec + 10):
            s = mpmath.mpmathify(sp.N(self.args[3], int(prec / 3.3) + 5))

            def gap(x):
                return (1 - s) * kernel(x) + s - x

            low, high = mpmath.mpf(0), 1 - mpmath.ldexp(1, -min(prec, 200) // 2)
            if gap(low) <= 0:
                return sp.S.Zero
            for _ in range(prec + 20):  # convex with a root at 1: positive below the first root only
                middle = (low + high) / 2
                low, high = (middle, high) if gap(middle) > 0 else (low, middle)
            return sp.Float._new(((low + high) / 2)._mpf_, prec)

    def equation(self):
        c, share = sp.Symbol("c", real=True), self.args[3]
        return c, (1 - share) * self.tail.kernel(c) + share
