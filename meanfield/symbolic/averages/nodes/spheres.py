r"""`SphereAverage`: the mean of a function of one or two entries of a batch that BatchNorm has normalized.

A neuron's values z over B exchangeable Gaussian positions are taken to y = √B Pz/‖Pz‖, P = 1 - 11ᵀ/B: a uniform
point of a sphere of dimension B - 2, whatever K and K_ab are, and independent of ‖Pz‖. Of two entries ⟨y_a²⟩ = 1 and
⟨y_a y_b⟩ = ρ = -1/(B - 1); y_a = √(B - 1) t with density ∝ (1 - t²)^{(B-4)/2}, and given it
y_b = √(B - 1)(ρt + √(1 - ρ²) √(1 - t²) s) with density ∝ (1 - s²)^{(B-5)/2} of s.

A function that is homogeneous of degree k closes by the Gaussian rule: Pz has independent length and direction, so that
⟨f⟩ over Gaussians of covariance (1, ρ) is ⟨(χ²_{B-1}/(B - 1))^{k/2}⟩⟨f⟩ over the sphere. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Self

import mpmath as mp
import sympy as sp
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.precision import decimals
from meanfield.base.symbols import P, Z
from meanfield.functions.elementary import mpmath_functions
from meanfield.functions.piecewise import pieces
from meanfield.symbolic.averages.base import Node, Typeset, Write
from meanfield.symbolic.averages.node import Average, Integrand, average


class SphereAverage(Node):
    """⟨f(y_a) g(y_b)⟩ (g = 1: of one entry) over a normalized batch of `size` ≥ 4; build it with `sphere`.

    `doit()` gives the closed form where f and g are homogeneous, `evalf(n)` digits by quadrature (mpmath).
    """

    tex_letter = "S"

    def __new__(cls, f: Integrand, g: Integrand, size: sp.Expr, params: sp.Tuple) -> Self:
        numbers = {p: v for p, v in zip(P, params) if v.is_number}
        if numbers:  # α → 1/10 must give the very node that was built with 1/10
            kept = [i for i, v in enumerate(params) if not v.is_number]
            swap = numbers | {P[i]: P[k] for k, i in enumerate(kept)}
            f, g = (Integrand(_plain(e.expr.xreplace(swap))) for e in (f, g))
            params = sp.Tuple(*[params[i] for i in kept])
        made: Self = super().__new__(cls, f, g, sp.sympify(size), params)
        return made

    @property
    def functions(self) -> tuple[sp.Expr, sp.Expr]:
        """f and g, each in Z[0]."""
        swap = dict(zip(P, self.args[3]))
        return self.args[0].expr.xreplace(swap), self.args[1].expr.xreplace(swap)

    @property
    def size(self) -> int:
        """|B|."""
        return int(self.args[2])

    @property
    def of_pair(self) -> bool:
        return bool(self.args[1].expr != 1)

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        return self, ()  # it depends on no variance, and its parameters are numbers before it is compiled

    is_number = False  # or SymPy would take digits, a quadrature within a quadrature, to see the sign of a sum

    def _eval_is_positive(self) -> bool | None:
        f, _ = self.functions
        return True if not self.of_pair and f.is_Pow and f.exp == 2 else None

    def doit(self, **hints: object) -> sp.Expr:
        f, g = self.functions
        degree = [_degree(e) for e in (f, g)]
        if None in degree:
            return self
        rho = sp.Rational(-1, self.size - 1)
        whole = average(f * g.xreplace({Z[0]: Z[1]}), (1, rho, 1) if self.of_pair else 1).doit()
        return self if whole.has(Average) else whole / _radial(sp.Add(*degree), self.size - 1)

    def in_closed_form(self) -> sp.Expr:
        return self.doit()

    def _eval_evalf(self, prec: int) -> sp.Float | None:
        if self.free_symbols:
            return None
        digits = int(prec / 3.3219) + 3
        both = (with_numbers(e, lambda a: sp.N(a, digits + 5)) for e in self.functions)
        return sp.Float(str(_digits(*both, self.size, digits)), precision=prec)

    def _shown(self) -> sp.Expr:
        a, b = (sp.Symbol(n, real=True) for n in ("y_a", "y_b"))
        f, g = self.functions
        return f.xreplace({Z[0]: a}) * g.xreplace({Z[0]: b}) if self.of_pair else f.xreplace({Z[0]: sp.Symbol("y")})

    def _sympystr(self, printer: Printer) -> str:
        return f"<{printer._print(self._shown())}>_{{|B| = {self.size}}}"

    def tex_inside(self) -> Typeset:
        def ends(body: str, write: Write) -> str:
            return rf"\left\langle {body} \right\rangle_{{|B| = {self.size}}}"

        return self._shown(), ends


def sphere(f: sp.Expr, g: sp.Expr, size: int) -> sp.Expr:
    """⟨f(y_a) g(y_b)⟩ over a normalized batch of `size`, f and g in Z[0]; constants outside, polynomials closed."""
    (c, f), (d, g) = (e.as_independent(Z[0], as_Add=False) for e in map(_plain, (f, g)))
    constant = c * d
    if constant == 0:
        return sp.S.Zero
    if not f.has(Z[0]):
        f, g = g, f
    if not f.has(Z[0]):
        return constant
    if g != 1 and str(g) < str(f):  # exchangeable
        f, g = g, f
    free = sorted((f.free_symbols | g.free_symbols) - {Z[0]}, key=str)
    swap = dict(zip(free, P))
    if len(free) > len(P):
        raise MeanFieldError(f"A function of a batch has {len(free)} free parameters; at most {len(P)} are supported.")
    node = SphereAverage(Integrand(f.xreplace(swap)), Integrand(g.xreplace(swap)), size, sp.Tuple(*free))
    return constant * (node.doit() if f.is_polynomial(Z[0]) and g.is_polynomial(Z[0]) else node)


def with_numbers(e: sp.Expr, value: Callable[[SphereAverage], sp.Expr]) -> sp.Expr:
    """`e` with numbers for the averages inside it (the mean and scale of a LayerNorm behind a BatchNorm)."""
    inside = e.atoms(SphereAverage)
    return _plain(e.xreplace({a: value(a) for a in inside})) if inside else e


def mean_on_sphere(e: sp.Expr, size: int) -> sp.Expr:
    """⟨e⟩ of an expression in Z[0] and Z[1], a sum of products of functions of one of them."""
    if not e.has(Z[1]):
        return sphere(e, sp.S.One, size) if not e.is_Add else sp.Add(*[sphere(t, sp.S.One, size) for t in e.args])
    total = sp.S.Zero
    for term in sp.Add.make_args(sp.expand(e, deep=False)):
        f, g = sp.S.One, sp.S.One
        for factor in sp.Mul.make_args(term):
            if factor.has(Z[0]) and factor.has(Z[1]):
                raise MeanFieldError(f"{e} is no sum of products of functions of one entry of the batch.")
            if factor.has(Z[1]):
                g = g * factor.xreplace({Z[1]: Z[0]})
            else:
                f = f * factor
        total += sphere(f, g, size)
    return total


def _plain(e: sp.Expr) -> sp.Expr:
    return pieces(e, Z[0]).expr


def _degree(f: sp.Expr) -> sp.Expr | None:
    """k with f(tz) = t^k f(z) for t > 0, where that is seen; None elsewhere."""
    p = pieces(f, Z[0])
    if any(b != 0 for b in p.breaks):
        return None
    found = set()
    for e in p.exprs:
        _, rest = e.as_independent(Z[0], as_Add=False)
        if e == 0:
            continue
        base, power = rest.as_base_exp() if rest.has(Z[0]) else (Z[0], sp.S.Zero)
        if base != Z[0]:
            return None
        found.add(power)
    return found.pop() if len(found) == 1 else sp.S.Zero if not found else None


def _radial(k: sp.Expr, freedom: int) -> sp.Expr:
    """⟨(χ²_n/n)^{k/2}⟩ of n degrees of freedom."""
    n = sp.Integer(freedom)
    half = k / 2
    if half.is_Integer and half >= 0:
        return sp.Mul(*[(n + 2 * i) / n for i in range(int(half))])
    return (2 / n) ** half * sp.gamma(n / 2 + half) / sp.gamma(n / 2)


@lru_cache(maxsize=256)
def _digits(f: sp.Expr, g: sp.Expr, size: int, digits: int) -> mp.mpf:
    """⟨f(y_a) g(y_b)⟩ by nested quadrature in the angles t = sin θ, s = sin ψ, panels ending at breaks."""
    with decimals(digits + 10):
        n, root = size, mp.sqrt(size - 1)
        one, other = (sp.lambdify(Z[0], e, modules=[dict(mpmath_functions()), "mpmath"]) for e in (f, g))
        breaks = [[mp.mpf(sp.N(b, digits + 15)) / root for b in pieces(e, Z[0]).breaks] for e in (f, g)]
        rho, side = mp.mpf(-1) / (n - 1), mp.sqrt(1 - mp.mpf(1) / (n - 1) ** 2)

        def panels(places: Iterable[mp.mpf], more: Iterable[mp.mpf] = ()) -> list[mp.mpf]:
            inner = sorted({mp.asin(b) for b in places if abs(b) < 1} | {x for x in more if abs(x) < mp.pi / 2})
            return [-mp.pi / 2, *inner, mp.pi / 2]

        def inner(t: mp.mpf) -> mp.mpf:
            if g == 1:
                return mp.mpf(1)
            far = side * mp.sqrt(1 - t * t)

            def at(psi: mp.mpf) -> mp.mpf:
                return other(root * (rho * t + far * mp.sin(psi))) * mp.cos(psi) ** (n - 4)

            places = [(b - rho * t) / far for b in breaks[1]] if far > 0 else []
            return mp.quad(at, panels(places)) / _weight(n - 4)

        # where a break of g leaves the circle of y_b
        leaves = [e for b in breaks[1] if abs(b) < 1 for e in _leaving(b, rho, side)]

        def outer(theta: mp.mpf) -> mp.mpf:
            t = mp.sin(theta)
            return one(root * t) * mp.cos(theta) ** (n - 3) * inner(t)

        return mp.quad(outer, panels(breaks[0], leaves)) / _weight(n - 3)


def _leaving(b: mp.mpf, rho: mp.mpf, side: mp.mpf) -> list[mp.mpf]:
    """The angles θ at which ρ sin θ ± √(1 - ρ²) cos θ = b."""
    out = []
    for sign in (1, -1):
        phase = mp.atan2(sign * side, rho)  # ρ sin θ ± side cos θ = sin(θ + phase)
        for base in (mp.asin(b), mp.pi - mp.asin(b)):
            theta = base - phase
            theta -= 2 * mp.pi * mp.nint(theta / (2 * mp.pi))
            out.append(theta)
    return out


def _weight(k: int) -> mp.mpf:
    """∫ cos^k over (-π/2, π/2)."""
    return mp.sqrt(mp.pi) * mp.gamma(mp.mpf(k + 1) / 2) / mp.gamma(mp.mpf(k) / 2 + 1)
