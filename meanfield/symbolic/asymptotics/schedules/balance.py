"""Numbers that a balance of powers defines: the positive root of an equation, known by what it solves."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import mpmath
import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.precision import decimals
from meanfield.base.symbols import K, K_ab, Z
from meanfield.functions import balls
from meanfield.symbolic.averages.node import Average


class Solution(sp.Expr):
    """A number known by the equation that it solves: `equation` gives its unknown and the other side."""

    is_commutative = True
    is_real = True
    tex_letter = "x"

    def equation(self) -> tuple[sp.Symbol, sp.Expr]:
        """(x, f(x)) of x = f(x)."""
        raise NotImplementedError

    def tex_inside(self):
        """(f(x), a function from its LaTeX to the node's)."""
        x, other = self.equation()
        return other, lambda body, write: rf"\left[ {write(x)} = {body} \right]"

    def _latex(self, printer, exp=None):
        other, ends = self.tex_inside()
        text = ends(printer._print(other), printer._print)
        return text if exp is None else rf"{text}^{{{exp}}}"

    def _sympystr(self, printer):
        x, other = self.equation()
        return f"root({x} = {printer._print(other)})"


class Exponent(Solution):
    """A number of averages and roots that stands in exponents, kept as one: its powers are powers of a name."""

    tex_letter = "p"

    def __new__(cls, value):
        return super().__new__(cls, sp.sympify(value))

    @property
    def is_number(self):
        return not self.free_symbols

    def _eval_evalf(self, prec):
        return self.args[0]._eval_evalf(prec) if self.is_number else None

    def equation(self):
        return sp.Symbol("p", real=True), self.args[0]

    def _sympystr(self, printer):
        return f"({printer._print(self.args[0])})"


def kept(e: sp.Expr, function: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """function(e) with the averages, roots and moments of e as they are, not rewritten inside."""
    nodes: dict[sp.Expr, sp.Expr] = {}
    walk = sp.preorder_traversal(e)
    for n in walk:
        if hasattr(n, "tex_letter"):
            nodes.setdefault(n, sp.Dummy(positive=n.is_positive, real=True))
            walk.skip()
    return function(e.xreplace(nodes)).xreplace({d: n for n, d in nodes.items()})


class Balance(Solution):
    r"""The positive x with e·x = A·(w x + b)^a + s, 0 ≤ a < 1, e, A, w > 0, b, s ≥ 0: there is exactly one.

    `doit()` gives it in closed form where it has a simple one, `evalf(n)` digits.

    >>> Balance(1, 1, 1, 0, sp.Rational(1, 2), 1).doit()
    sqrt(5)/2 + 3/2
    """

    is_positive = True

    def __new__(cls, e, A, w, b, a, s):
        return super().__new__(cls, *map(sp.sympify, (e, A, w, b, a, s)))

    @property
    def is_number(self):
        return not self.free_symbols

    def doit(self, **hints):
        e, A, w, b, a, s = self.args
        if a == 0:
            return (A + s) / e
        if b == 0 and s == 0:
            return (A * w**a / e) ** (1 / (1 - a))
        if a == sp.S.Half:  # y = w x + b: e(y - b)/w = A √y + s
            root = (A * w + sp.sqrt(A**2 * w**2 + 4 * e * (e * b + s * w))) / (2 * e)
            return sp.expand((root**2 - b) / w)
        return self

    def ball(self, digits: int = 20) -> arb:
        """A ball that holds it, of about `digits` correct digits: the equation's two sides change order there."""
        with balls.precision(int(3.4 * digits) + 60):
            e, A, w, b, a, s = map(balls.constant, self.args)

            def below(x: arb) -> bool | None:
                gap = e * x - A * (w * x + b) ** a - s
                return None if gap.contains(0) else bool(gap < 0)

            low, high = arb(1), arb(1)
            while not below(low):
                low /= 2
            while below(high) is not False:
                high *= 2
            while not (high - low) < low * arb(10) ** -digits:
                middle = arb(((low + high) / 2).mid())
                side = below(middle)
                if side is None:  # as near as this precision sees
                    break
                low, high = (middle, high) if side else (low, middle)
            return low.union(high)

    def _eval_evalf(self, prec):
        return sp.sympify(_float(self, prec)) if self.is_number else None

    def equation(self):
        e, A, w, b, a, s = self.args
        x = sp.Symbol("x", positive=True)
        return x, (A * (w * x + b) ** a + s) / e


class Resting(Solution):
    r"""The attracting zero q > 0 of S⟨φ²⟩_q + c - d·q: where the variance of a branch settles, `dq/d log l` of it being
    this. index: which of them, from below.

    Arguments: ⟨φ²⟩_K as a node, S, c, d, index.
    """

    is_positive = True

    def __new__(cls, square, S, c, d, index=0):
        return super().__new__(cls, *map(sp.sympify, (square, S, c, d, index)))

    @property
    def free_symbols(self):
        return set().union(*[a.free_symbols for a in self.args[1:]], self.args[0].free_symbols - {K})

    @property
    def is_number(self):
        return not self.free_symbols

    def _eval_subs(self, old, new):
        rest = [a._subs(old, new) for a in self.args[1:]]  # K inside the node is bound
        return Resting(self.args[0], *rest)

    def ball(self, digits: int = 20) -> arb:
        """A ball that holds it."""
        from meanfield.symbolic.asymptotics.schedules.stationary_variance import resting_ball

        return resting_ball(*self.args[:4], int(self.args[4]), digits)

    def _eval_evalf(self, prec):
        return sp.sympify(_float(self, prec)) if self.is_number else None

    def equation(self):
        square, S, c, d, _ = self.args
        q = sp.Symbol("q", positive=True)
        return q, (S * square.subs(K, q) + c) / d

    def _near(self) -> str:
        """Five digits of it, which tell it from other roots of the same equation; none where symbols are left, or where
        q comes to rest only at some numbers and not at these."""
        try:
            return self.ball().mid().str(5, radius=False) if self.is_number else ""
        except MeanFieldError:
            return ""

    def tex_inside(self):
        x, other = self.equation()
        near = self._near()
        near = rf" \approx {near}" if near else ""
        which = rf"_{{{self.args[4] + 1}}}" if self.args[4] else ""  # the second from below
        return other, lambda body, write: rf"\left[ {write(x)} = {body}{near} \right]{which}"

    def _sympystr(self, printer):
        x, other = self.equation()
        near = self._near()
        return f"root({x} = {printer._print(other)}{f', near {near}' if near else ''})"


class Correlated(Solution):
    r"""The correlation x in [0, 1) of what φ is given with d·q·x = S⟨φ_aφ_b⟩_{q, qx} + c: where two inputs settle whose
    variance settled at q, as d·q = S⟨φ²⟩_q + c.

    Arguments: ⟨φ_aφ_b⟩ in K for both variances and K_ab, S, c, d, q; flat and kind, so that what is > 0 is an atom,
    whose sign needs no digits: kind 0 is x, 1 is q(1 - x), 2 is q x - flat, flat < q x a share of the variance.

    For S⟨φ′²⟩_q > d there is exactly one: the other side has a power series in x with coefficients ≥ 0, so it is convex
    ≥ 0 at 0, and meets the line once before 1.
    """

    is_positive = True
    tex_letter = "c"

    def __new__(cls, pair, S, c, d, q, flat=0, kind=0):
        return super().__new__(cls, *map(sp.sympify, (pair, S, c, d, q, flat, kind)))

    @property
    def free_symbols(self):
        return set().union(*[a.free_symbols for a in self.args[1:]], self.args[0].free_symbols - {K, K_ab})

    @property
    def is_number(self):
        return not self.free_symbols

    def _eval_subs(self, old, new):
        rest = [a._subs(old, new) for a in self.args[1:]]  # K and K_ab inside the node are bound
        return Correlated(self.args[0], *rest)

    def _gap(self, x: mpmath.mpf, digits: int) -> arb:
        """(S⟨φ_aφ_b⟩ + c)/(d q) - x: > 0 below the root, < 0 between it and 1."""
        pair, S, c, d, q = self.args[:5]
        with balls.precision(int(3.4 * digits) + 60):
            at, place = q.evalf(digits + 10), sp.Float(x, digits + 10)
            value = sp.N(pair.doit().xreplace({K: at, K_ab: place * at}), digits + 3)
            return (balls.constant(S * value + c) / balls.constant(d * q)) - balls.constant(place)

    def _rough(self) -> float:
        """The root to three digits or so: z_a, z_b = √q(√x m + √(1 - x) v), by a trapezoid rule."""
        pair, S, c, d, q = self.args[:5]
        S, c, d, q = map(float, (S, c, d, q))
        nodes = [0.2 * k for k in range(-30, 31)]
        weights = [0.2 * math.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) for t in nodes]
        held = [(a, sp.lambdify(Z[:2], a.integrand, "math")) for a in pair.atoms(Average)]

        def over(f, x: float) -> sp.Float:
            root, total = math.sqrt(1 - x * x), 0.0
            for w, u in zip(weights, nodes):
                at = math.sqrt(q) * u
                total += w * sum(m * f(at, x * at + root * math.sqrt(q) * v) for m, v in zip(weights, nodes))
            return sp.Float(total)

        def gap(x: float) -> float:
            value = pair.xreplace({a: over(f, x) for a, f in held}).xreplace({K: q, K_ab: x * q})
            return (S * float(value) + c) / (d * q) - x

        low, high = 0.0, 0.5
        while gap(high) > 0 and high < 1 - 1e-4:
            low, high = high, (1 + high) / 2
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if gap(middle) > 0 else (low, middle)
        return (low + high) / 2

    def ball(self, digits: int = 15) -> arb:
        """A ball that holds it, to about `digits` digits: the gap is > 0 on its left and < 0 on its right."""
        return _settled_ball(self.root, digits)

    def _enclosed(self, digits: int) -> arb:

        def middle(x):
            return mpmath.mpf(self._gap(x, digits).mid().str(digits + 5, radius=False))

        with decimals(digits + 10):
            width = mpmath.mpf(10) ** (2 - digits)
            if not middle(mpmath.mpf(0)) > width:
                return arb(0)  # ⟨φ⟩ = 0, and nothing in common
            x, y = mpmath.mpf(self._rough()), mpmath.mpf(1) / 2**10
            y = x - y if x > y else x / 2
            a, b = middle(x), middle(y)
            for _ in range(20):  # secants
                if a == b or abs(x - y) < width / 100:
                    break
                x, y, b = x - a * (x - y) / (a - b), x, a
                if not 0 < x < 1:
                    break
                a = middle(x)
            if 0 < x < 1 and self._gap(x - width, digits) > 0 and self._gap(x + width, digits) < 0:
                return arb(mpmath.nstr(x, digits + 10), mpmath.nstr(width, 5))
        raise MeanFieldError(f"{self} was not enclosed to {digits - 2} digits.")

    def _eval_evalf(self, prec):
        if not self.is_number:
            return None
        x, (q, flat, kind) = _float(self, min(prec, 43)), self.args[4:]
        return (x, q * (1 - x), q * x - flat)[int(kind)].evalf(int(prec / 3.3) + 1)

    @property
    def root(self) -> Correlated:
        """x itself."""
        return Correlated(*self.args[:5])

    @property
    def share(self) -> sp.Expr:
        """(q x - flat)/(q - flat): how much of K two inputs have in common."""
        q, flat = self.args[4:6]
        return self.root if flat == 0 else self.func(*self.args[:6], 2) / (q - flat)

    def equation(self):
        pair, S, c, d, q = self.args[:5]
        x = sp.Symbol("c", real=True)
        return x, (S * pair.xreplace({K: q, K_ab: q * x}) + c) / (d * q)

    def _sympystr(self, printer):
        pair, S, c, d, q, flat, kind = self.args
        short = q if q.is_Atom else sp.Symbol("q", positive=True)
        x = sp.Symbol("c", real=True)
        other = (S * pair.xreplace({K: short, K_ab: short * x}) + c) / (d * short)
        rest = "" if short is q else f", q = {printer._print(q)}"
        root, whole = f"root({x} = {printer._print(other)}{rest})", printer._print(q)
        less = "" if flat == 0 else f" - {printer._print(flat)}"
        return (root, f"({whole}*(1 - {root}))", f"({whole}*{root}{less})")[int(kind)]

    def _latex(self, printer, exp=None):
        flat, kind = self.args[5:]
        if kind == 0:
            return super()._latex(printer, exp)
        root, q = Correlated(*self.args[:5]), printer._print(self.args[4])
        root = Solution._latex(root, printer)
        less = "" if flat == 0 else f" - {printer._print(flat)}"
        text = rf"{q} \left(1 - {root}\right)" if kind == 1 else rf"\left({q} {root}{less}\right)"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


@lru_cache(maxsize=64)
def _settled_ball(node: Correlated, digits: int) -> arb:
    """Averages over two variables take a second each."""
    return node._enclosed(digits)


def _float(node, prec: int) -> sp.Float:
    digits = int(prec / 3.3) + 3
    return sp.Float(node.ball(digits).mid().str(digits + 5, radius=False), precision=prec)
