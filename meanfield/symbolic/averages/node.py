r"""`Average`: the node ⟨f⟩, a Gaussian average that stays symbolic until somebody wants a closed form, a series or
digits.

The integrand sits in an opaque `Integrand` atom in canonical dummies, so that SymPy's `expand`, `cse` or `simplify`
cannot rewrite inside the node or hoist a bound variable out of it; parameters of the integrand (α, a₊) are explicit
arguments, like those of `sympy.Subs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import Self, TypeAlias

import sympy as sp
from flint import acb, arb
from sympy.core.expr import AtomicExpr
from sympy.printing.printer import Printer

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.answers.results import NoClosedForm as NoClosedForm
from meanfield.base.arguments import scalar, shown, validated, whole
from meanfield.base.symbols import P_POSITIVE, K, K_aa, K_ab, K_bb, P, Z, z
from meanfield.functions import balls, regions, zeros
from meanfield.functions.derivatives import derivative
from meanfield.functions.piecewise import SWITCHES, Pieces, jump, pieces
from meanfield.functions.signs import signs
from meanfield.symbolic.averages import enclosure, nested
from meanfield.symbolic.averages.base import Node, Paired, Typeset, Write
from meanfield.symbolic.averages.closed_form import closed_form

MOST_DIGITS = 100_000  # of a ball
SHORT = 20  # operations of an integrand whose sign is decided when it is asked for
Given: TypeAlias = sp.Expr | float | Sequence[sp.Expr | float]  # a variance or a mean, or several


class Integrand(AtomicExpr):
    """The function inside an average: an atom to SymPy, so that nothing rewrites it. `expr` is in the dummies `Z`,
    `P`."""

    __slots__ = ("expr",)
    expr: sp.Expr
    is_commutative = True
    is_real = True
    is_number = False

    def __new__(cls, expr: sp.Expr) -> Self:
        self: Self = super().__new__(cls)
        self.expr = expr
        return self

    def __getnewargs__(self) -> tuple[sp.Expr]:
        return (self.expr,)

    def _hashable_content(self) -> tuple[sp.Expr]:
        return (self.expr,)

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set()

    def sort_key(self, order: str | None = None) -> tuple[object, ...]:
        return self.class_key(), (1, (_text(self.expr),)), sp.S.One.sort_key(), sp.S.One

    def _sympystr(self, printer: Printer) -> str:
        return str(printer._print(self.expr))


@lru_cache(maxsize=2048)
def _text(expr: sp.Expr) -> str:
    return str(expr)


_NO_PARAMETERS = sp.Tuple()
_INSIDE = 40  # digits of averages that are numbers, inside what is compiled
_BOUND = 5  # digits of a size that bounds
_SETTLED = 18  # digits of an average that is a number where doubles are wanted


def _filled(params: sp.Tuple) -> dict[sp.Symbol, sp.Expr]:
    """What to put for the parameter dummies of an integrand."""
    return dict(zip(P, params)) | dict(zip(P_POSITIVE, params))


def in_digits(f: sp.Expr) -> sp.Expr:
    """A function with rationals, far beyond double precision, for the averages in it that are numbers: those of a norm
    behind a norm."""
    return f.xreplace({a: sp.Rational(str(sp.N(a, _INSIDE))) for a in f.atoms(Average) if a.is_number})


class Average(Node):
    r"""⟨f(z₁…z_n)⟩ over jointly Gaussian z with covariance `cov` (lower triangle, row by row) and means `mean`.

    Build it with `average(f, K)` or `average(f, (K_aa, K_ab, K_bb))`. Symbols: f any expression in the dummies Z; K > 0
    a variance. It differentiates in the weak sense (jumps give their terms), `doit()` gives the closed form where the
    rule finds one, `evalf(n)` certified digits, `ball(n)` the enclosure itself.

    >>> average("tanh(z)**2", "1/2")
    <tanh(z)**2>_{1/2}
    >>> average("tanh(z)**2", "1/2").evalf(20)
    0.27367630793673890902
    """

    def __new__(cls, body: Integrand, cov: sp.Tuple, mean: sp.Tuple, params: sp.Tuple = _NO_PARAMETERS) -> Self:
        numeric = [i for i, p in enumerate(params) if p.is_number]
        if numeric:  # α → 1/10 must give the very node that was built with 1/10
            keep = [i for i in range(len(params)) if i not in numeric]
            swap = {family[i]: params[i] for family in (P, P_POSITIVE) for i in numeric}
            swap |= {family[i]: family[j] for family in (P, P_POSITIVE) for j, i in enumerate(keep)}
            for i in numeric:
                if body.expr.has(P_POSITIVE[i]) and zeros.sign(params[i]) != 1:
                    raise MeanFieldError(
                        f"{params[i]} was given for a parameter that orders switch points and was declared positive."
                    )
            switches = body.expr.has(*SWITCHES)
            expr = body.expr.subs(swap, simultaneous=True)
            body = Integrand(_normal(expr, len(mean)) if switches else expr)
            params = sp.Tuple(*[params[i] for i in keep])
        made: Self = super().__new__(cls, body, sp.Tuple(*cov), sp.Tuple(*mean), sp.Tuple(*params))
        return made

    @property
    def integrand(self) -> sp.Expr:
        """f with its parameters put back, in the canonical variables."""
        return self.args[0].expr.xreplace(_filled(self.args[3]))

    @property
    def cov(self) -> tuple[sp.Expr, ...]:
        return tuple(self.args[1])

    @property
    def mean(self) -> tuple[sp.Expr, ...]:
        return tuple(self.args[2])

    @property
    def dimension(self) -> int:
        """Number of Gaussian variables."""
        return len(self.mean)

    @property
    def paired(self) -> Paired | None:
        if self.dimension != 2 or any(self.mean) or self.args[3] or self.mixed:
            return None
        return Paired("product", None, (self.cov[0], self.cov[2]), self.cov)

    def covariance(self, i: int, j: int) -> sp.Expr:
        i, j = max(i, j), min(i, j)
        return self.cov[i * (i + 1) // 2 + j]

    def _eval_is_nonnegative(self) -> bool | None:
        f = self.args[0].expr
        if self.dimension > 1 and f.has(*SWITCHES):
            return None
        return True if all(_is_square(e) for e in (_shapes(f) if self.dimension == 1 else (f,))) else None

    def _eval_is_positive(self) -> bool | None:
        f = self.args[0].expr
        if self.dimension == 1 and not any(self.mean) and not f.free_symbols - {Z[0]} and f.count_ops() < SHORT:
            return _is_positive(f) or None  # ⟨elu⟩ > 0, though elu is not
        if not self._eval_is_nonnegative():
            return None
        return True if not f.has(*SWITCHES) or any(e.is_positive for e in _shapes(f)) else None

    def _eval_is_finite(self) -> bool:
        return True

    # ------------------------------------------------------------------------------------------------ calculus

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        """Chain rule over covariance, mean and parameters; see `derivative_cov`."""
        if self.mixed:
            return self._by_closed_form(self.cov, self.mean).diff(symbol)
        total = []
        for i in range(self.dimension):
            for j in range(i + 1):
                slope = self.covariance(i, j).diff(symbol)
                if slope != 0:
                    total.append(slope * self.derivative_cov(i, j))
            slope = self.mean[i].diff(symbol)
            if slope != 0:
                total.append(slope * sp.Add(*self._weak(self.integrand, i)))
        for k, p in enumerate(self.args[3]):
            slope = p.diff(symbol)
            if slope != 0:
                body = self.args[0].expr
                name = P_POSITIVE[k] if body.has(P_POSITIVE[k]) else P[k]
                inner = _map_expr(body, self.dimension, methodcaller("diff", name))
                total.append(slope * average(inner.xreplace(_filled(self.args[3])), self.cov, self.mean))
                total += [slope * t for t in self._moved(name)]
        return sp.Add(*total)

    def derivative_cov(self, i: int, j: int) -> sp.Expr:
        """∂⟨f⟩/∂C_ij: ⟨∂_i∂_j f⟩ off the diagonal; on it (⟨(z_i - m_i)∂_i f⟩ - Σ_{j≠i} C_ij⟨∂_i∂_j f⟩)/2C_ii.

        The diagonal form has one derivative less than ½⟨∂_i² f⟩, no jump terms for continuous f, and keeps its digits
        at large K (Stein's lemma, once).
        """
        f = self.integrand
        if self.mixed:
            return self._slope_by_closed_form(i, j)
        if i != j:
            return self.weak_mixed(i, j)
        first = [average((Z[i] - self.mean[i]) * _d(f, i, self.dimension), self.cov, self.mean)]
        # at the mean itself (z - m) f does not jump, even where f is infinite like |z - m|^{-2/5}
        first += [(b - self.mean[i]) * delta for b, delta in self._deltas(f, i, self.mean[i])]
        others = [k for k in range(self.dimension) if k != i and f.has(Z[k])]
        cross = [self.covariance(i, k) * self.derivative_cov(i, k) for k in others]
        return (sp.Add(*first) - sp.Add(*cross)) / (2 * self.covariance(i, i))

    @property
    def mixed(self) -> bool:
        """Whether f switches where variables are compared: its breaks are planes, not places of one variable."""
        return self.dimension > 1 and regions.mixed(self.args[0].expr, Z[: self.dimension])

    def _by_closed_form(self, cov: Iterable[sp.Expr], mean: Iterable[sp.Expr]) -> sp.Expr:
        """The closed form at this covariance and mean, the only way to a derivative across a moving switch."""
        try:
            return closed_form(self.integrand, tuple(cov), tuple(mean))
        except NoClosedForm as error:
            raise MeanFieldError(
                f"The derivative of {self} was asked for, which switches between its variables: that is known from a "
                f"closed form only, and there is none. {error}"
            ) from None

    def _slope_by_closed_form(self, i: int, j: int) -> sp.Expr:
        pairs = [(a, b) for a in range(self.dimension) for b in range(a + 1)]
        names = {(a, b): sp.Dummy("C", real=True, positive=a == b or None) for a, b in pairs}
        slope = self._by_closed_form(names.values(), self.mean).diff(names[max(i, j), min(i, j)])
        return slope.xreplace(dict(zip(names.values(), self.cov)))

    def _moved(self, name: sp.Symbol) -> list[sp.Expr]:
        """What moving breaks add to ∂⟨f⟩/∂p: -∂b/∂p ⟨jump · δ(z_i - b)⟩ for each jump of f."""
        filled, out = _filled(self.args[3]), []
        for i in range(self.dimension):
            for b, step in _jumps(self.args[0].expr, i):
                slope = b.diff(name).xreplace(filled)
                if slope != 0:
                    b, step = b.xreplace(filled), step.xreplace(filled)
                    out.append(-slope * delta_average(step, {i: b}, self.cov, self.mean))
        return out

    def _weak(self, f: sp.Expr, i: int) -> list[sp.Expr]:
        """⟨∂_i f⟩ in the weak sense: the classical part and Σ_b p(b) ⟨jump f(b, ·) | z_i = b⟩."""
        return [average(_d(f, i, self.dimension), self.cov, self.mean), *[delta for _, delta in self._deltas(f, i)]]

    def _deltas(self, f: sp.Expr, i: int, without: sp.Expr | None = None) -> list[tuple[sp.Expr, sp.Expr]]:
        """(b, ⟨jump · δ(z_i - b)⟩) for each jump of f in z_i but at `without`."""
        out = []
        for b, step in _jumps(f, i, without):
            out.append((b, delta_average(step, {i: b}, self.cov, self.mean)))
        return out

    def weak_mixed(self, i: int, j: int) -> sp.Expr:
        """⟨∂_i∂_j f⟩ in the weak sense, i ≠ j: smooth part, one δ in either variable, and δ in both."""
        f = self.integrand
        total = [average(_d(_d(f, i, self.dimension), j, self.dimension), self.cov, self.mean)]
        for b, step in _jumps(f, i):
            total.append(delta_average(_d(step, j, self.dimension), {i: b}, self.cov, self.mean))
            for c, corner in _jumps(step, j):
                total.append(delta_average(corner, {i: b, j: c}, self.cov, self.mean))
        for c, step in _jumps(f, j):
            total.append(delta_average(_d(step, i, self.dimension), {j: c}, self.cov, self.mean))
        return sp.Add(*total)

    # ------------------------------------------------------------------------------------------------ values

    def closed_form(self) -> sp.Expr:
        """The exact elementary expression. Raises: NoClosedForm with the reason."""
        return closed_form(self.integrand, self.cov, self.mean)

    def doit(self, **hints: object) -> sp.Expr:
        try:
            return self.closed_form()
        except NoClosedForm:
            return self

    def in_closed_form(self) -> sp.Expr:
        return self.doit()

    @validated
    def ball(self, digits: int = 30) -> arb:
        """A ball (python-flint `arb`) that provably contains the value; the covariance must be numeric.

        The closed form is used where there is one and it keeps its digits, otherwise rigorous integration with a
        bounded tail.

        Raises: InfiniteAverage where the average is infinite or does not exist; MeanFieldError where no finite
        enclosure is known.
        """
        found = self._ball(whole(digits, "digits", 1, MOST_DIGITS))
        if not found.is_finite():
            raise MeanFieldError(
                f"Certified digits of {self} are not available: no finite enclosure of it was found; write the "
                "integrand as a product of powers |z - b|^p and functions that are smooth at b."
            )
        return found

    def coarse_ball(self) -> arb:
        """A ball of few digits, as bounds of slopes need them, by integration before any closed form: those of squares
        of high derivatives have thousands of terms."""
        try:
            found = enclosure.average(self.integrand, self.cov, self.mean, _BOUND)
        except InfiniteAverage:
            raise
        except MeanFieldError:  # a growth that no rule bounds
            return self.ball()
        return found if found.is_finite() else self.ball()

    def _ball(self, digits: int) -> arb:
        if not self.is_number:
            raise MeanFieldError(
                f"A value of {self} is not available: {sorted(map(str, self.free_symbols))} are not numbers yet."
            )
        if any(self.covariance(i, i).is_negative for i in range(self.dimension)):
            raise MeanFieldError(f"{self} has a negative variance; K must be ≥ 0.")
        reduced = self.reduced()
        if not isinstance(reduced, Average):
            with balls.precision(int(digits * 3.33) + 20):
                return balls.constant(reduced)
        exact = reduced._closed_ball(digits)
        if exact is None and reduced.mixed:
            raise MeanFieldError(
                f"Digits of {reduced} were asked for, which switches between its variables and has no closed form; "
                "such averages are not enclosed."
            )
        return exact if exact is not None else enclosure.average(reduced.integrand, reduced.cov, reduced.mean, digits)

    def settled(self) -> float | None:
        if self.dimension > 1 or not self.is_number:
            return None
        try:
            value = balls.certified(self, _SETTLED)
        except MeanFieldError:  # a function without balls
            return None
        return float(value) if value.is_finite() and value.rel_accuracy_bits() > 56 else None

    def _closed_ball(self, digits: int) -> arb | None:
        # over the symbol K where that is possible: one compiled form serves every K, and SymPy is not made to take
        # square roots of long rationals apart
        plain = self.dimension == 1 and self.mean == (sp.S.Zero,)
        form = _closed_symbolic(Average(self.args[0], (K,), (0,), self.args[3]) if plain else self)
        if form is None:
            return None
        f = balls.compile_ball(form, (K,))
        bits = int(digits * 3.33) + 40
        for _ in range(4):
            with balls.precision(bits):
                value = f((acb(balls.constant(self.cov[0])),) if plain else (), False).real
            if value.is_finite() and (value.rel_accuracy_bits() > digits * 3.33 or value.is_zero()):
                return value
            bits = 2 * bits + 100
        return None

    def reduced(self) -> sp.Expr:
        """The same average with fully correlated variables (numeric |c| = 1) merged into one; self otherwise."""
        if self.dimension != 2 or not self.is_number:
            return self
        a, ab, b = self.cov
        if sp.simplify(a * b - ab**2) != 0:
            return self
        if zeros.is_zero(a):  # z_a is its mean
            return self._at_its_mean()
        ratio = ab / a
        merged = self.integrand
        if self.mixed:
            merged = merged.subs(Z[1], self.mean[1] + ratio * (Z[0] - self.mean[0]))
            return average(merged, a, mean=(self.mean[0],))
        second = pieces(merged, Z[1]) if merged.has(Z[1]) else None
        if second is not None and second.breaks:
            merged = _substitute_line(merged, ratio, self.mean)
        else:
            merged = merged.subs(Z[1], self.mean[1] + ratio * (Z[0] - self.mean[0]))
        return average(merged, a, mean=(self.mean[0],))

    def _at_its_mean(self) -> sp.Expr:
        """The average over z_b where z_a has no width. Raises: MeanFieldError where f jumps there in z_a."""
        parts = pieces(self.integrand, Z[0])
        near = {sum(bool(b < self.mean[0]) for b in parts.breaks), sum(bool(b <= self.mean[0]) for b in parts.breaks)}
        values = [parts.exprs[k].subs(Z[0], self.mean[0]) for k in near]
        if sp.simplify(values[0] - values[-1]) != 0:
            raise MeanFieldError("An average at a variance of 0 was asked for, of a function that jumps at the mean.")
        return average(values[0].xreplace({Z[1]: Z[0]}), self.cov[2], mean=(self.mean[1],))

    def _eval_evalf(self, prec: int) -> sp.Float | None:
        if not self.is_number:
            return None
        from mpmath.libmp import from_str

        digits = int(prec / 3.3219) + 2
        value = self.ball(digits)
        text = value.mid().str(digits + 5, radius=False)
        return sp.Float._new(from_str(text, prec), prec)

    # ------------------------------------------------------------------------------------------------ compiled form

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        if self.dimension == 1 and self.mean[0] != 0:
            return self._centred()
        if self.dimension > 2 or any(m != 0 for m in self.mean):
            raise MeanFieldError(
                f"{shown(self)} is not an average over one or two centred Gaussians; it is derived, but not compiled."
            )
        plain = (K,) if self.dimension == 1 else (K_aa, K_ab, K_bb)
        body, _, mean, params = self.args
        body = Integrand(in_digits(body.expr))
        if params:  # values that come with each layer: the node over its variances and its own dummies
            return Average(body, sp.Tuple(*plain), mean, P[: len(params)]), (*self.cov, *params)
        return Average(body, sp.Tuple(*plain), mean, params), self.cov

    def _centred(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        """⟨f⟩ over N(m, V) as the average of f(z + m) over N(0, K), m one more parameter.

        Such is what one input is given that the other stands where φ jumps.
        """
        body, _, (mean,), params = self.args
        m = P[len(params)]
        p = pieces(body.expr, Z[0])
        moved = Pieces(Z[0], tuple(b - m for b in p.breaks), tuple(e.xreplace({Z[0]: Z[0] + m}) for e in p.exprs))
        own = sp.Tuple(*P[: len(params)], m)
        return Average(Integrand(moved.expr), sp.Tuple(K), sp.Tuple(0), own), (*self.cov, *params, mean)

    # ------------------------------------------------------------------------------------------------ printing

    def _names(self) -> dict[sp.Symbol, sp.Symbol]:
        plain = self.dimension == 1
        names = [z] if plain else sp.symbols("z_a z_b z_c z_d", real=True)[: self.dimension]
        return dict(zip(Z, names))

    def _sympystr(self, printer: Printer) -> str:
        body = printer._print(self.integrand.xreplace(self._names()))
        law = ", ".join(printer._print(c) for c in self.cov)
        shift = "" if all(m == 0 for m in self.mean) else "; mean " + ", ".join(printer._print(m) for m in self.mean)
        return f"<{body}>_{{{law}{shift}}}"

    def tex_inside(self) -> Typeset:
        """(the integrand as it is printed, a function from its LaTeX, and one of the covariances, to the node's)."""

        def ends(body: str, write: Write) -> str:
            law = ",".join(write(c) for c in self.cov)
            shift = "" if all(m == 0 for m in self.mean) else ";" + ",".join(write(m) for m in self.mean)
            return rf"\left\langle {body} \right\rangle_{{{law}{shift}}}"

        return _short(self.integrand).xreplace(self._names()), ends

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = super()._latex(printer)
        return text if exp is None else rf"{text}^{{{exp}}}"


@lru_cache(maxsize=256)
def _short(f: sp.Expr) -> sp.Expr:
    """An integrand as it is printed: rational pieces as one quotient where that is shorter (cases do not break)."""
    if not isinstance(f, sp.Piecewise):
        return f
    shorter = [(sp.factor(e) if e.is_rational_function(*Z) else e, c) for e, c in f.args]
    return sp.Piecewise(*[(a if a.count_ops() < e.count_ops() else e, c) for (a, c), (e, _) in zip(shorter, f.args)])


@lru_cache(maxsize=1024)
def _is_positive(f: sp.Expr) -> bool:
    """Whether ⟨f⟩_K > 0 at every K > 0: f(z) + f(-z) is nowhere negative, and not 0."""
    try:
        return signs(f) == (1,)
    except MeanFieldError:
        return False


def _shapes(f: sp.Expr) -> list[sp.Expr]:
    """The pieces of a function of one variable, on a half-line or an interval in the distance to one of its ends."""
    t, out = sp.Dummy("t", positive=True), []
    for e, lo, hi in pieces(f, Z[0]).intervals():
        shift = lo + t if lo != -sp.oo else hi - t if hi != sp.oo else Z[0]
        out.append(e.subs(Z[0], shift))
    return out


def _is_square(e: sp.Expr) -> bool:
    """Whether a real expression is ≥ 0 by its shape (SymPy is not sure of z²/(1+z)², which could divide by zero)."""
    if e.is_nonnegative:
        return True
    return all(f.is_nonnegative or (f.is_Pow and f.exp.is_even) for f in sp.Mul.make_args(e))


@lru_cache(maxsize=1024)
def _closed_symbolic(node: Average) -> sp.Expr | None:
    """The closed form; None, once found, where there is none (`lru_cache` does not keep an exception)."""
    try:
        return node.closed_form()
    except NoClosedForm:
        return None


def average(f: sp.Expr, cov: Given, mean: Given | None = None) -> sp.Expr:
    r"""⟨f⟩ over Gaussian variables, as a node in normal form.

    f: expression in `Z[0]` (and `Z[1]`, … for several variables; the public symbol z stands for Z[0]); cov: K, or the
    lower triangle (K_aa, K_ab, K_bb); mean: one value a variable, 0 unless given. Constants are taken out, absent
    variables dropped, parameters lifted into arguments, ⟨odd⟩ at mean zero is 0.

    >>> from meanfield.base.symbols import K, z
    >>> average(sp.erf(z)**2, K).doit()
    2*asin(2*K/(2*K + 1))/pi
    """
    cov = _numbers(cov, "The covariance of an average")
    n = next((k for k in range(1, 1 + len(Z)) if k * (k + 1) // 2 == len(cov)), 0)
    mean = _numbers(mean, "The mean of an average") if mean is not None else (sp.S.Zero,) * n
    if not n or len(mean) != n:
        raise MeanFieldError(
            f"An average over n Gaussian variables (n ≤ {len(Z)}) takes n(n + 1)/2 covariances, row by row, and n "
            f"means, but {len(cov)} and {len(mean)} were given."
        )
    f = expression(f, "The integrand of an average").xreplace({z: Z[0]})
    if f == 0 or not f.has(*Z):
        return f
    if f.has(sp.oo, sp.zoo, sp.nan):
        raise InfiniteAverage(f"The average of {f} does not exist.")
    own = sorted((a for a in outermost(f) if nested.depends(a)), key=str)
    if own:
        return nested.merged(f, cov, mean, own, average)
    used = [i for i in range(n) if f.has(Z[i])]
    if len(used) < n:
        f = f.xreplace({Z[i]: Z[k] for k, i in enumerate(used)})
        cov = tuple(
            cov[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)] for a, i in enumerate(used) for j in used[: a + 1]
        )
        mean, n = tuple(mean[i] for i in used), len(used)
    f = _normal(f, n)
    constant, f = f.as_independent(*Z, as_Add=False) if f.is_Mul else (sp.S.One, f)
    if f == 0 or not f.has(*Z):
        return constant * f
    if all(m == 0 for m in mean) and _is_odd(f, n):
        return sp.S.Zero
    # averages inside (the mean and scale of a LayerNorm before φ) are parameters of this one
    inside = sorted((a for a in f.atoms(Average) if not a.is_number), key=str)
    names = [sp.Dummy(f"q{i}", real=True) for i in range(len(inside))]
    f = f.xreplace(dict(zip(inside, names)))
    free = names + sorted(f.free_symbols - set(Z) - set(names), key=lambda s: s.name)
    if len(free) > len(P):
        raise MeanFieldError(f"An integrand has {len(free)} free parameters; at most {len(P)} are supported.")
    values = [*inside, *free[len(inside) :]]
    ordering = f.has(*SWITCHES)  # a break known to be positive has its place among the others
    lifted = [P_POSITIVE[i] if ordering and v.is_positive else P[i] for i, v in enumerate(values)]
    body = Integrand(f.xreplace(dict(zip(free, lifted))))
    return constant * Average(body, sp.Tuple(*cov), sp.Tuple(*mean), sp.Tuple(*values))


def independent(e: sp.Expr) -> sp.Expr:
    """An expression with ⟨f(z_a) g(z_b)⟩ of two independent variables written as ⟨f⟩⟨g⟩."""
    swap = {}
    for node in e.atoms(Average):
        if node.dimension == 2 and node.cov[1] == 0 and node.integrand.is_Mul:
            other, own = node.integrand.as_independent(Z[0], as_Add=False)
            if not own.has(Z[1]):
                f, g = average(own, node.cov[0], node.mean[:1]), other.xreplace({Z[1]: Z[0]})
                swap[node] = f * average(g, node.cov[2], node.mean[1:])
    return e.xreplace(swap)


def _numbers(given: Given, what: str) -> tuple[sp.Expr, ...]:
    """One number, or several in a tuple: exact, or expressions in symbols."""
    parts: tuple[sp.Expr | float, ...] = tuple(given) if isinstance(given, (tuple, list, sp.Tuple)) else (given,)
    out = tuple(expression(one, what) for one in parts)
    if any(one.has(sp.I, sp.oo, sp.zoo, sp.nan) for one in out):
        raise MeanFieldError(f"{what} must be finite and real, but {shown(given)} was given.")
    return out


def expression(value: object, what: str) -> sp.Expr:
    """A SymPy expression or a number; anything else is refused (SymPy would run a text as code)."""
    if isinstance(value, sp.Expr) and not isinstance(value, sp.MatrixExpr):
        return value
    if isinstance(value, str):
        raise MeanFieldError(f"{what} must be a number or a SymPy expression, but {shown(value)} was given.")
    return sp.sympify(scalar(value, what))


def _normal(f: sp.Expr, n: int) -> sp.Expr:
    """Piecewise-smooth normal form; a function of one variable becomes one Piecewise with merged pieces."""
    return pieces(f, Z[0]).expr if n == 1 else f


def _is_odd(f: sp.Expr, n: int) -> bool:
    if n == 1 and f.has(*SWITCHES):
        p = pieces(f, Z[0])
        reflected = tuple(e.subs(Z[0], -Z[0]) for e in reversed(p.exprs))
        return tuple(-b for b in reversed(p.breaks)) == p.breaks and all(
            sp.expand(a + b) == 0 for a, b in zip(reflected, p.exprs)
        )
    if f.has(*SWITCHES) or _surely_not_odd(f, n):
        return False
    reflected = f.subs({Z[i]: -Z[i] for i in range(n)}, simultaneous=True)
    return bool(reflected == -f)


def _surely_not_odd(f: sp.Expr, n: int) -> bool:
    """Whether f(x) + f(-x) ≠ 0 at one x, certified: a substitution in a long expression is what takes the time."""
    if n > 2 or f.free_symbols - set(Z[:n]) or f.atoms(Average):
        return False
    try:
        value = balls.compile_ball(f)
    except MeanFieldError:
        return False
    at = tuple(acb(x) for x in (0.625, 1.375)[:n])
    return not (value(at, False) + value(tuple(-x for x in at), False)).contains(0)


def _map_expr(f: sp.Expr, n: int, function: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """`function` applied to every smooth piece of f (in each of its n variables)."""
    return _over_pieces(f, 0, n, function)


def _over_pieces(f: sp.Expr, i: int, n: int, function: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    if i == n or not f.has(*SWITCHES):
        return function(f)
    p = pieces(f, Z[i])
    mapped = tuple(_over_pieces(e, i + 1, n, function) for e in p.exprs)
    return Pieces(Z[i], p.breaks, mapped).expr


def _d(f: sp.Expr, i: int, n: int) -> sp.Expr:
    """The classical ∂f/∂z_i. A product keeps its shape: only factors that hold z_i are touched."""
    if f.is_Mul:
        mine: list[sp.Expr] = []
        others: list[sp.Expr] = []
        for factor in f.args:
            (mine if factor.has(Z[i]) else others).append(factor)
        if others:
            return sp.Mul(*others) * _d(sp.Mul(*mine), i, n)
    if not f.has(Z[i]):
        return sp.S.Zero
    if not f.has(*SWITCHES):
        return derivative(f, Z[i])
    return Pieces(Z[i], pieces(f, Z[i]).breaks, pieces(f, Z[i]).exprs).diff().expr


def _jumps(f: sp.Expr, i: int, without: sp.Expr | None = None) -> list[tuple[sp.Expr, sp.Expr]]:
    """(b, jump of f across z_i = b), the jump still a function of the other variables; none at `without`."""
    if not f.has(*SWITCHES) or not f.has(Z[i]):
        return []
    constant, mine = f.as_independent(Z[i], as_Add=False) if f.is_Mul else (sp.S.One, f)
    if not mine.has(*SWITCHES):
        return []
    p, out = pieces(mine, Z[i]), []
    for b, left, right in zip(p.breaks, p.exprs, p.exprs[1:]):
        step = sp.S.Zero if b == without else jump(left, right, Z[i], b)
        if step != 0:
            out.append((b, constant * step))
    return out


def delta_average(g: sp.Expr, fixed: dict[int, sp.Expr], cov: Sequence[sp.Expr], mean: Sequence[sp.Expr]) -> sp.Expr:
    """⟨g Π δ(z_i - b_i)⟩: the density of the fixed variables at b times ⟨g⟩ in the conditional law of the rest."""
    n = len(mean)
    C = sp.Matrix(n, n, lambda i, j: cov[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)])
    idx, rest = sorted(fixed), [i for i in range(n) if i not in fixed]
    shift = sp.Matrix([fixed[i] - mean[i] for i in idx])
    A = C.extract(idx, idx)
    inverse, det = A.inv(), A.det()
    density = sp.exp(-sp.cancel((shift.T * inverse * shift)[0]) / 2) / (
        (2 * sp.pi) ** sp.Rational(len(idx), 2) * sp.sqrt(det)
    )
    g = g.subs({Z[i]: b for i, b in fixed.items()})
    if g == 0 or not rest:
        return density * g
    B = C.extract(rest, idx)
    new_mean = sp.Matrix([mean[i] for i in rest]) + B * inverse * shift
    new_cov = (C.extract(rest, rest) - B * inverse * B.T).applyfunc(sp.cancel)
    g = g.xreplace({Z[i]: Z[k] for k, i in enumerate(rest)})
    lower = [new_cov[i, j] for i in range(len(rest)) for j in range(i + 1)]
    return density * average(g, lower, tuple(new_mean.applyfunc(sp.cancel)))


def _substitute_line(f: sp.Expr, ratio: sp.Expr, mean: tuple[sp.Expr, ...]) -> sp.Expr:
    """f(z, m_b + ratio (z - m_a)) with the kinks of the second variable moved to the first."""
    line = mean[1] + ratio * (Z[0] - mean[0])
    p = pieces(f, Z[1])
    order = 1 if ratio > 0 else -1
    breaks = [sp.simplify(mean[0] + (b - mean[1]) / ratio) for b in p.breaks][::order]
    exprs = [e.subs(Z[1], line) for e in p.exprs][::order]
    return Pieces(Z[0], tuple(breaks), tuple(exprs)).expr


def outermost(e: sp.Expr) -> set[Average]:
    """The averages that stand inside no other one."""
    found, walk = set(), sp.preorder_traversal(e)
    for part in walk:
        if isinstance(part, Average):
            found.add(part)
            walk.skip()
    return found
