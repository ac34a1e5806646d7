r"""Large-depth laws of K and J by dominant balance, from the expansions of the averages at K → 0 and K → ∞.

`fixed_points` says where K flows from K^1: to a fixed point, to 0 or to ∞. There the map is K' = K + g(K) with g a
short sum of powers, and log J = Σ log χ_J(K^l). Source: derived here; for tanh and erf at μ = 1 compare
[partial_jacobians] eq. (28), (29), (H.26)-(H.29).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from meanfield.base.answers.export import plain
from meanfield.base.answers.latex import aligned
from meanfield.base.answers.plain_text import COLUMNS, wrapped
from meanfield.base.answers.results import DEEP, MeanFieldError, Status, Term, one_line
from meanfield.base.answers.terms import onset_mark
from meanfield.base.arguments import position_of, shown
from meanfield.base.quantities import QUANTITIES
from meanfield.base.symbols import Q0, J, K, l, parameter, simplified
from meanfield.functions import balls, zeros
from meanfield.symbolic.asymptotics.scaling import Coefficients, Path, decay_of, logarithm, path
from meanfield.symbolic.asymptotics.slow import Slow, slow_approach
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.expansions.exponentially_small import exponential_at_zero
from meanfield.symbolic.averages.expansions.powerlog import Sums, left_out
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, destination, fixed_points
from meanfield.symbolic.fixed_points.certified_roots import from_ball
from meanfield.symbolic.fixed_points.marginality import log_of, phase_of
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.series.asymptotic_law import Law

CONSTANT = sp.Symbol("C", real=True)  # what depends on the start
SHOWN = 18  # digits of a coefficient that is not exact


@dataclass(frozen=True)
class DepthLaw(Law):
    """A `Law` in l: that of K, c or γ, or of log J (C is a constant that depends on the start).

    quantity ~ C · l^exponent · exp(rate · l^rate_power) as l → ∞, read off the terms. regime: which balance holds, in
    words. exact: J^{1,l} itself where the product over layers is known. status: EXACT or CERTIFIED where the
    destination of K (at Q0 = 1 unless Q0 is given) is proved, too; MEASURED where a search found it that could miss a
    pair of fixed points; UNKNOWN where digits do not decide whether χ_K is 1 at K*, and so how fast K comes there: the
    terms are then what holds either way.

    >>> law = derive("tanh").depth_law("K", sigma_w=1, sigma_b=0)
    >>> law.expr, law.exponent, law.onset
    (1/(2*l) + 5*log(l)/(24*l**2), -1, 1.0)
    >>> float(law.at(100))
    0.005095941045541418
    """

    quantity: str = "K"
    regime: str = ""
    status: Status = Status.EXACT
    exact: sp.Expr | None = None
    of: str = ""  # what `quantity` stands for, where it is not itself: "K - K_ab" behind a BatchNorm

    def data(self) -> dict[str, Any]:
        """The law as plain values: quantity ~ C l^exponent exp(rate l^rate_power); terms are those of K, c or γ, or of
        log J; onset: the layer from which they fall in their order (None where symbols decide it)."""
        own = {n: plain(getattr(self, n)) for n in ("regime", "rate", "rate_power", "exponent", "status")}
        return {"of": "log J" if self.quantity == "J" else self.quantity, **super().data(), **own}

    @property
    def name(self) -> str:
        """What the terms are of."""
        return self.of or ("log J" if self.quantity == "J" else self.quantity)

    @property
    def law(self) -> Law:
        """The expansion alone."""
        return Law(self.variable, self.point, self.terms, self.remainder, self.remainder_logs, after=self.after)

    @property
    def _rising(self) -> Term | None:
        """The term of log J that makes J exponential, or the exponential one of another quantity."""
        lead = self.leading
        if self.quantity != "J":
            return next((Term(t.rate, t.rate_power) for t in self.terms if t.rate != 0), None)
        return lead if self.variable == l and lead.power > 0 and lead.logs == 0 and self.terms else None

    @property
    def rate(self) -> sp.Expr:
        return sp.S.Zero if self._rising is None else self._rising.coefficient

    @property
    def rate_power(self) -> sp.Expr:
        return sp.S.One if self._rising is None else self._rising.power

    @property
    def slower(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """(coefficient, power of l) of the terms of log X that grow as powers, less than the leading one."""
        if self.quantity == "J" and self.variable == l:
            growing = [t for t in self.terms if t.power > 0 and t.logs == 0 and t.coefficient != CONSTANT]
            return tuple((t.coefficient, t.power) for t in growing if t != self._rising)
        return next((t.slower for t in self.terms if t.rate != 0), ())

    @property
    def is_whole(self) -> bool:
        """Whether `expr` is the quantity up to a factor that tends to 1 (C included): False where terms of log J that
        grow are not known."""
        if self.quantity != "J" or self.variable != l:
            return True
        if self.remainder in ("zero", "exponential") or any(t.coefficient == CONSTANT for t in self.terms):
            return True
        if isinstance(self.remainder, str):
            return bool(self.terms) and not _grows(self.terms[-1].power, self.terms[-1].logs)
        return not _grows(sp.sympify(self.remainder), sp.sympify(self.remainder_logs))

    @property
    def exponent(self) -> sp.Expr | None:
        """The power of l; None where the known terms do not determine it, or where it is none."""
        if self.variable != l:  # K falls as 1/log l, and J is a power of K
            return sp.S.Zero
        if self.quantity != "J":
            return next((t.power for t in self.terms if t.power != 0), sp.S.Zero)
        powers = [*self.slower, *([(self.rate, self.rate_power)] if self._rising else [])]
        above = [t for t in self.terms if t.coefficient != CONSTANT and _grows(t.power, t.logs)]
        rest = [t for t in above if (t.coefficient, t.power) not in powers or t.logs != 0]
        if any(t.power != 0 or t.logs != 1 for t in rest):
            return None
        known = self.is_whole or rest == above == list(self.terms)[:1] != []
        return sp.Add(*[t.coefficient for t in rest]) if known else None

    @property
    def expr(self) -> sp.Expr:
        """C l^exponent exp(rate l^rate_power + …) for J, the terms of other quantities: what holds far beyond `onset`.

        Where terms of log J that grow are left out, they stand in the exponential as O(·), or as o(·) of the last one
        that is known: J is not this expression up to a factor.
        """
        if self.quantity != "J":
            return self.law.expr
        if self.variable != l:  # J as a power of K, which falls as 1/log l
            return CONSTANT * sp.exp(sp.Add(*[t.expr(self.variable) for t in self.terms if t.coefficient != CONSTANT]))
        above = [t for t in self.terms if t.coefficient != CONSTANT and _grows(t.power, t.logs)]
        if not self.is_whole:
            return sp.exp(sp.Add(*[t.expr(l) for t in above], self.tail))
        others = sp.Add(*[t.expr(l) for t in above if (t.power, t.logs) != (0, 1)])
        power = sp.Add(*[t.coefficient for t in above if (t.power, t.logs) == (0, 1)])
        return CONSTANT * l**power * sp.exp(others)

    def at(self, value: object = None, **named: object) -> sp.Expr:
        """The sum of the terms at one place, as of a `Law`; a number without a name is a layer.

        Raises: MeanFieldError also for a layer where the law is one in K.
        """
        if value is not None and self.variable != l:
            raise MeanFieldError(
                f"This law of {self.name} is one in {self.variable}, and {shown(value)} was given for the layer; give "
                f"at({self.variable}=...), with {self.variable} of that layer."
            )
        return super().at(value, **named)

    def through(self, run: Any, layer: object = None) -> DepthLaw:
        """This law with a number for C, which depends on the start: the one with which it meets a run at a layer.

        run: a `Run` of one point from `propagate`, with K, J or the quantity that the law is of. layer: of the run, its
        last one unless given; the deeper it is, the less of what the law leaves out goes into C.

        Raises: MeanFieldError for a law without C, a run without the quantity or of several points.

        >>> tanh, point = derive("tanh"), {"sigma_w": 1, "sigma_b": 0}
        >>> run = tanh.propagate(**point, depth=10_000)
        >>> law = tanh.depth_law("J", **point).through(run)
        >>> print(f"{float(law.at(1000)):.4f} {run.log_J[999]:.4f}")
        -7.2529 -7.2528
        """
        import numpy as np  # a run holds its arrays

        name = "log_J" if self.quantity == "J" else self.quantity
        values = None if not hasattr(run, "l") else getattr(run, name, None)
        if values is None:
            raise MeanFieldError(f"A run with {name} is needed, as propagate returns it, but {shown(run)} was given.")
        column = np.asarray(values, dtype=float)
        if column.ndim != 1:
            raise MeanFieldError(f"A run of one point is needed, but this one has {column[..., 0].size}.")
        at = len(run.l) - 1 if layer is None else position_of(layer, run.l)
        free = [s for s in self.expr_of_terms.free_symbols if s.name == CONSTANT.name]
        if not free:
            raise MeanFieldError(f"This law of {self.name} holds no C: nothing of it depends on the start.")
        total = sp.expand(self.expr_of_terms.subs(self.variable, int(run.l[at])))
        slope, rest = total.coeff(free[0]), total.coeff(free[0], 0)
        if slope == 0 or sp.expand(total - slope * free[0] - rest) != 0 or (slope + rest).free_symbols:
            raise MeanFieldError(f"The constant of this law of {self.name} is not determined by one number of a run.")
        found = sp.Float((float(column[at]) - float(rest)) / float(slope))
        terms = tuple(replace(t, coefficient=t.coefficient.subs(free[0], found)) for t in self.terms)
        regime = f"{self.regime}; C = {float(found):.6g} from layer {int(run.l[at])} of a run"
        return replace(self, terms=terms, regime=regime, status=Status.MEASURED)

    def __repr__(self) -> str:
        begins = onset_mark(self.onset, self.variable)
        return one_line(type(self).__name__, f"{begins}{self.name} = {self.lines()[0]}; {self.regime}")

    def __str__(self) -> str:
        name, numbers = self.name, self.lines()
        lines = [f"{name} = {numbers[0]}   ({self.regime})"]
        if len(lines[0]) > COLUMNS:
            lines = [f"{name} = {numbers[0]}", f"  ({self.regime})"]
        return wrapped("\n".join([*lines, *numbers[1:]]))

    def latex(self) -> str:
        """The law as LaTeX for math mode (amsmath); a long one stands in an `aligned` that fits a line of text."""
        parts = self.of.split(" - ") if self.of else [self.quantity]
        left = r"\log J^{\ell}" if self.quantity == "J" else " - ".join(QUANTITIES[p].latex for p in parts)
        return aligned([(left, self.law)], self.remarks())


def _grows(power: sp.Expr, logs: sp.Expr) -> bool:
    """Whether l^power (log l)^logs → ∞."""
    return bool(power > 0 or (power == 0 and logs > 0))


def _stated(
    quantity: str, law: Law, regime: str, status: Status = Status.EXACT, exact: sp.Expr | None = None
) -> DepthLaw:
    """A law of K or of log J with its circumstances."""
    own = law.variable, law.point, law.terms, law.remainder, law.remainder_logs
    return DepthLaw(*own, quantity, regime, status, exact)


def depth_law(recursion: Recursion, quantity: str, values: dict[str, sp.Expr]) -> DepthLaw:
    """The law of "K" or "J" for a one-input recursion.

    values: exact numbers by name (sigma_w, sigma_b, mu, Q0 = 1 unless given); with μ = 1 and a saturating φ they may
    stay symbolic.
    Raises: MeanFieldError when the values do not decide the regime or the expansions do not reach.
    """
    if quantity not in ("K", "J"):
        raise MeanFieldError(
            f"The large-depth law of {quantity!r} is not available: the laws known so far are those of K and J."
        )
    for name, v in values.items():
        if v.is_number and (not v.is_real or v < 0 or not v.is_finite):
            raise MeanFieldError(f"{name} must be finite and ≥ 0, but {v} was given.")
    known = {p.name for p in recursion.homogeneous("A large-depth law is").parameters}
    if set(values) - known:
        raise MeanFieldError(
            f"{min(set(values) - known)} is not a parameter here; known are {', '.join(sorted(known))}."
        )
    swap = {parameter(k): v for k, v in values.items()} | {
        p: values[p.name] for p in recursion.parameters if p.name in values
    }
    step, chi = recursion["K"].subs(swap), sp.diff(recursion["J"], J).subs(swap)
    if recursion["J"].has(sp.oo) and quantity == "J":
        raise MeanFieldError("J is infinite at every layer (φ jumps or rises like √|z|), so it has no large-depth law.")
    start = recursion.initial["K"].subs(swap).subs(Q0, 1)
    gain = sp.expand(step - K)
    if grows_always(gain):
        return _at_infinity(step, chi, start, quantity)
    free = step.free_symbols - {K}
    if free:
        raise MeanFieldError(
            f"Where K flows depends on {', '.join(sorted(s.name for s in free))}; "
            "give them values (sigma_w=1, sigma_b=0)."
        )
    points = fixed_points(recursion, values)
    if points and points[0].stability == "neutral":
        return _at_rest(start, chi, quantity)
    here = destination(points, step, start)
    if here is None:
        law = _at_infinity(step, chi, start, quantity)
    elif here.K.value == 0:
        law = _at_zero(step, chi, quantity)
    else:
        slow = None
        if not here.is_exponential:
            slow = slow_approach(step, chi if quantity == "J" else None, here, start, points.monotone)
        law = _at_fixed_point(here, quantity, slow)
    # the law is exact for where K flows; that it flows there is as sure as the list of fixed points
    sure = points.status is not Status.MEASURED or law.status is Status.UNKNOWN
    return law if sure else replace(law, status=points.status)


def grows_always(gain: sp.Expr) -> bool:
    """Whether K' - K is a sum of terms ≥ 0, so that K goes to ∞ whatever the symbols are."""
    if gain == 0 or all(_nonnegative(t) for t in sp.Add.make_args(gain)):
        return gain != 0
    free = sorted(gain.free_symbols, key=str)
    if K in free or not all(s.is_nonnegative for s in free):
        return False
    nodes = {n: sp.Dummy() for n in gain.atoms(Average)}
    if not free or any(n.free_symbols for n in nodes):
        return False
    back = {v: n for n, v in nodes.items()}
    terms = sp.collect(sp.expand(gain.xreplace(nodes)), free, evaluate=False)  # monomial: its coefficient, a number
    return all(_positive(c.xreplace(back)) for c in terms.values())


def _positive(number: sp.Expr) -> bool:
    """Whether a constant is known to be > 0."""
    form = closed(number)
    try:
        return bool(form > 0 if form.is_Rational else balls.certified(form, 15) > 0)
    except (MeanFieldError, TypeError):
        return False


def _nonnegative(t: sp.Expr) -> bool:
    return bool(t.is_nonnegative) or (
        t.is_Mul and all(f.is_nonnegative or (isinstance(f, Average) and f._eval_is_nonnegative()) for f in t.args)
    )


def _finish(terms: list[Term], remainder) -> Law:
    return Law(l, sp.oo, tuple(t for t in terms if t.coefficient != 0), remainder)


def _log_expansion(law: Law) -> Law:
    """log of an expansion that tends to a positive number."""
    x0 = simplified(law.coefficient(0))
    if x0 == 0 or law.leading.power != 0 or law.leading.logs != 0:
        raise MeanFieldError(
            f"χ_J tends to {law.leading.expr(law.variable)}, not to a finite number; log J has no such law."
        )
    sums = Sums(1 if law.point == 0 else -1, sp.Integer(2))
    plain = replace(law, terms=(Term(x0), *law.terms[1:]))
    return sums.law(sums.apply(sp.log, sums.of_law(plain)))


def _gain_at_infinity(gain: sp.Expr) -> Law:
    """K' - K as K → ∞, its leading term certainly not 0."""
    for order in (2, 5):
        law = at_infinity(gain, order)
        terms = law.terms
        while terms and simplified(terms[0].coefficient) == 0:
            terms = terms[1:]
        if not terms:
            continue
        lead = terms[0].coefficient
        if lead.is_number and balls.certified(lead, 20).contains(0):
            raise MeanFieldError(
                f"Whether {lead}, the leading coefficient of K' - K as K → ∞, is 0 is not decided; nor is the law."
            )
        return replace(law, terms=terms)
    raise MeanFieldError(f"All known orders of K' - K cancel as K → ∞ ({law}); the law of K is not known there.")


def _at_infinity(step, chi, start, quantity) -> DepthLaw:
    gain = _gain_at_infinity(sp.expand(step - K))
    lead = gain.leading
    if quantity == "J" and gain.remainder == "zero" and len(gain.terms) == 1 and lead.power == lead.logs == 0:
        exact = _gamma_law(lead.coefficient, chi, start)
        if exact is not None:
            return exact
    if lead.power > 1 or (lead.power == 1 and lead.logs != 0):
        raise MeanFieldError(
            f"K grows faster than exponentially (K' ~ {lead.expr(K)}), and every χ_J with it: "
            "it leaves the range of "
            "doubles within a few layers."
        )
    if lead.power == 1:
        return _exponential_growth(lead.coefficient, chi, quantity)
    if quantity == "J" and (lead.power != 0 or lead.logs != 0):
        return _power_growth_of_j(lead, at_infinity(chi, 2))
    if lead.logs != 0:
        return _power_growth(lead, "K")
    found = path(gain)
    if quantity == "K":
        regime = "linear growth" if lead.power == 0 else "power growth"
        return _stated("K", _finish(list(found.x), found.remainder), regime)
    return _linear_growth_of_j(found, at_infinity(chi, 2))


def _down_to_sums(chi: Law) -> Law:
    """χ_J as K → ∞ without what has a sum over layers: where a logarithm enters, no falling term of log J is stated,
    and the coefficients of further powers are the longest."""
    below = [t for t in chi.terms if t.power < -1]
    if not below or all(t.logs == 0 for t in chi.terms if t.power >= -1):
        return chi
    kept = tuple(t for t in chi.terms if t.power >= -1)
    return replace(chi, terms=kept, remainder=below[0].power, remainder_logs=below[0].logs)


def _linear_growth_of_j(path: Path, chi: Law) -> DepthLaw:
    log_chi = _log_expansion(_down_to_sums(chi))
    log_x0, rest = log_chi.coefficient(0), left_out(log_chi)
    varying = {(t.power, int(t.logs)): t.coefficient for t in log_chi.terms if t.power != 0}
    settled = rest is None or rest[0] < -1  # what is left out of Σ log χ_J tends to a constant
    if not settled and not varying and log_x0 == 0:
        raise MeanFieldError(
            "How chi_J approaches 1 is not known beyond its limit here, so the law of J is not determined."
        )
    terms, complete = path.summed(varying, None if settled else rest)
    growing = [Term(log_x0, sp.S.One)] * (log_x0 != 0) + [t for t in terms if (t.power, t.logs) > (0, 0)]
    falling = [t for t in terms if t.power < 0]
    rising = next((t for t in growing if t.power > 0 and t.logs == 0), None)
    constant = [Term(CONSTANT)] if complete and settled else []
    regime = "K grows linearly"
    if log_x0 == 0 and rising is not None and rising == growing[0]:
        regime = f"stretched exponential: {regime} and chi_J - 1 falls as K^({rising.power - 1})"
    plain = (
        complete
        and settled
        and log_x0 == 0
        and not path.irregular
        and all((2 * p).is_Integer and not m for p, m in varying)
    )
    # K's own logarithm enters K^{-1/2}: Σ m^{-3/2} log m = const - 2 log l/√l
    law = _finish([*growing, *constant, *(falling if plain else [])], -sp.S.Half if plain else "smaller")
    return _stated("J", law, regime)


def _gamma_law(step: sp.Expr, chi: sp.Expr, start: sp.Expr) -> DepthLaw | None:
    """K^l = step·(l + b) and χ_J = 1 + p/(l + b) exactly: J is a quotient of Γ functions and grows as l^p."""
    p = simplified((chi - 1) * K / step)
    if p.has(K):
        return None
    b = simplified(start / step) - 1
    exact = sp.gamma(l + p + b) * sp.gamma(1 + b) / (sp.gamma(l + b) * sp.gamma(1 + p + b))
    constant = sp.loggamma(1 + b) - sp.loggamma(1 + p + b)
    law = _finish([Term(p, logs=sp.S.One), Term(constant)], sp.S.NegativeOne)
    return _stated("J", law, "everywhere critical: K grows linearly, chi_J - 1 = p/l", exact=exact)


def _exponential_growth(slope, chi, quantity) -> DepthLaw:
    _nonzero(1 + slope)
    rate = sp.log(1 + slope)
    regime = "exponential growth of K"
    if quantity == "K":
        return _stated("K", Law(l, sp.oo, (Term(CONSTANT, rate=rate),), "smaller"), regime)
    slope = at_infinity(chi, 1)
    if slope.leading.power != 0 and slope.leading.logs == 0:  # Σ log χ_J, and log K is linear in l
        law = _finish([Term(slope.leading.power * rate / 2, sp.Integer(2))], "smaller")
        return _stated("J", law, f"{regime}, and chi_J goes as K^({slope.leading.power})")
    log_x0 = _log_expansion(slope).coefficient(0)
    return _stated("J", _finish([Term(log_x0, sp.S.One)], sp.S.Zero), regime)


def _power_growth(lead: Term, quantity="K") -> DepthLaw:
    """K' = K + c K^p (log K)^m: K^{1-p} = (1-p) c l (log K)^m, and log K = log(l)/(1-p) to leading order."""
    power = 1 / (1 - lead.power)
    coefficient = (lead.coefficient * (1 - lead.power) ** (1 - lead.logs)) ** power
    law = _finish([Term(simplified(coefficient), power, lead.logs * power)], "smaller")
    return _stated("K", law, "power growth" if lead.logs == 0 else "power growth with a logarithm")


def _power_growth_of_j(lead: Term, chi: Law) -> DepthLaw:
    """log J = Σ log χ_J(K^l) along K ~ A l^q (log l)^{mq}, q = 1/(1 - p), to leading order.

    A term x K^{-s} (log K)^n of log χ_J adds Σ x A^{-s} q^n l^{-qs} (log l)^M with M = n - smq; the relative error of K
    tends to 0, so a sum that diverges has its leading order from here.
    """
    path = _power_growth(lead, "K")
    q, amplitude = path.law.leading.power, path.law.leading.coefficient
    regime = path.regime + " of K"
    log_chi = _log_expansion(chi)
    limit = log_chi.coefficient(0)
    if limit != 0:
        return _stated("J", _finish([Term(limit, sp.S.One)], "smaller"), regime)
    if not log_chi.terms:
        raise MeanFieldError(
            "How chi_J approaches 1 is not known beyond its limit here, so the law of J is not determined."
        )
    power, logs, x = log_chi.leading.power, log_chi.leading.logs, log_chi.leading.coefficient
    falls, m = -q * power, logs + power * lead.logs * q
    if simplified(falls - 1) == 0 and simplified(m + 1) == 0:
        raise MeanFieldError("log J grows as log(log(l)) here, which the laws of this library do not state.")
    size = x * amplitude**power * q**logs
    if falls < 1:
        term = Term(simplified(size / (1 - falls)), 1 - falls, m)
    elif falls == 1 and m > -1:
        term = Term(simplified(size / (m + 1)), sp.S.Zero, m + 1)
    else:
        return _stated("J", _finish([Term(CONSTANT)], "smaller"), regime + ": log chi_J sums to a constant")
    if term.power == 0 and term.logs == 1:
        return _stated("J", _finish([term], "smaller"), regime)
    return _stated("J", _finish([term], "smaller"), regime + ": stretched exponential")


def _nonzero(factor) -> None:
    """Refuse K' = 0·K + …: K then falls doubly exponentially (or is constant from layer 2 on), which no power law
    describes."""
    if factor == 0:
        raise MeanFieldError(
            "K' has no linear term here: K falls faster than exponentially or is constant from layer 2 on."
        )


def _powers(law: Law) -> dict[sp.Expr, sp.Expr]:
    return {t.power: t.coefficient for t in law.terms if t.coefficient != 0}


def _at_zero(step, chi, quantity) -> DepthLaw:
    """K → 0: exponentially, by a power law or logarithmically, as the expansion of the map decides."""
    gain, terms = first_terms(sp.expand(step - K))
    if not terms:
        return logarithmic_law(step, chi, quantity)
    regime, slope = "K falls to 0", _plain_one(1 + gain.coefficient(1)) - 1
    if slope != 0:
        _nonzero(1 + slope)
        rate = sp.log(1 + slope)
        regime += " exponentially"
        if quantity == "K":
            return _stated("K", Law(l, sp.oo, (Term(CONSTANT, rate=rate),), "smaller"), regime)
        log_x0 = _log_expansion(at_zero(chi, 2)).coefficient(0)
        return _stated("J", _finish([Term(log_x0, sp.S.One)], sp.S.Zero), regime)
    n = terms[0].power
    if 2 * n - 1 > 3:
        gain = at_zero(sp.expand(step - K), int(sp.ceiling(2 * n - 1)))
    return critical_law(_powers(gain), _powers(at_zero(chi, max(3, int(sp.ceiling(n - 1))))), sp.S.Zero, quantity)


def _plain_one(e: sp.Expr) -> sp.Expr:
    """The same, as 1 where it is 1 in another writing: (√(3 + 2√2) - √2)²."""
    return sp.S.One if e.is_number and zeros.is_zero(e - 1) else e


def critical_law(
    gain: Coefficients, chi: Coefficients, where: sp.Expr, quantity: str, side: int = 1, rate: sp.Expr | None = None
) -> DepthLaw:
    """The law of K or J where χ_K = 1, from the expansions of K' - K and χ_J in δ = side·(K - K*).

    rate: log χ_J at K*; 0 unless given, but at K* = 0 what the expansion says.
    """
    n = min(gain)
    x0 = _plain_one(chi.get(sp.S.Zero, sp.S.Zero)) if quantity == "J" else sp.S.One
    log_chi = logarithm({p: simplified(v / x0) for p, v in chi.items()}, n - 1)
    found = decay_of(gain, log_chi)
    near = "0" if where == 0 else "K*"
    regime = f"critical: power-law approach of K to {near}"
    if quantity == "K":
        shift = [] if where == 0 else [Term(where)]
        delta = [replace(t, coefficient=side * t.coefficient) for t in found.delta]
        return _stated("K", _finish([*shift, *delta], "smaller"), regime)
    if rate is None:
        rate = sp.S.Zero if where != 0 else sp.log(x0)
    terms = found.log_j
    growing = [t for t in terms if t.power > 0]
    exponent = next((t.coefficient for t in terms if t.power == 0 and t.logs == 1), sp.S.Zero)
    fast = [Term(rate, sp.S.One)] * (rate != 0)
    constant = [] if not terms and not fast else [Term(CONSTANT)]
    ordered = fast + [t for t in terms if t.power >= 0] + constant + [t for t in terms if t.power < 0]
    if fast:
        return _stated("J", _finish(ordered, "smaller"), regime)
    if growing:
        regime += ", stretched exponential J"
        return _stated("J", _finish(ordered, "smaller"), regime)
    if exponent == 0:
        return _stated("J", _finish([Term(CONSTANT)], "smaller"), regime + ", J saturates")
    return _stated("J", _finish(ordered, "smaller"), regime)


def first_terms(gain: sp.Expr) -> tuple[Law, list[Term]]:
    """The expansion of K' - K at K → 0 far enough to show its leading terms; none up to K^13 means none at all."""
    for order in (3, 6, 13):
        law = at_zero(gain, order)
        terms = [t for t in law.terms if simplified(t.coefficient) != 0]
        if terms or law.remainder in ("zero", "exponential"):
            break
    return law, terms


def is_negative(e: sp.Expr) -> bool:
    """The sign of a constant, in which a skip strength may stand that is < 1."""
    return bool(balls.certified(e.subs(dict.fromkeys(e.free_symbols, sp.Rational(1, 3))), 20) < 0)


def logarithmic_law(step, chi, quantity) -> DepthLaw:
    """The map is K' = K - c K^a e^{-b²/2K}: b²/2K = log l + (2 - a) log log l + …, and J a power of K."""
    lead = exponential_at_zero(sp.expand(step - K))
    if lead is None or not is_negative(lead.coefficient):
        raise MeanFieldError("Near K = 0 the map is K' = K up to terms smaller than every power; its law is not known.")
    regime = "critical: logarithmic decay of K"
    if quantity == "K":
        law = Law(l, sp.oo, (Term(-lead.rate, logs=sp.S.NegativeOne),), "smaller")
        return _stated("K", law, regime)
    small = exponential_at_zero(sp.expand(chi))
    flat = at_zero(chi, 1).coefficient(0)
    if flat != 1 or small is None or small.rate != lead.rate or small.power != lead.power - 1:
        raise MeanFieldError("K falls logarithmically; the law of J for this chi_J is not derived yet.")
    power = simplified(small.coefficient / lead.coefficient)
    law = Law(K, sp.S.Zero, (Term(power, logs=sp.S.One), Term(CONSTANT)), "smaller")
    return _stated("J", law, regime + f": J ~ K^{power} with K ~ {-lead.rate}/log(l)")


def _at_fixed_point(point: FixedPoint, quantity, slow: Slow | None = None) -> DepthLaw:
    """K → K* > 0: exponentially unless χ_K = 1 (slow: how then, None where the maps are not exact there)."""
    value = point.K.value
    regime = f"fixed point K* = {float(value):.10g}"
    status = point.K.status
    rate: sp.Expr = sp.S.Zero
    if quantity == "J":
        rate, status = _rate_of_j(point, regime), point.chi_J.status
    if slow is not None and slow.side == 0:
        regime += ": K starts there and stays"
        terms = [Term(value)] if quantity == "K" else [Term(rate, sp.S.One), Term(-rate)]
        return _stated(quantity, _finish(terms, "zero"), regime, status)
    if slow is not None:
        law = critical_law(slow.gain, slow.chi, value, quantity, slow.side, rate)
        exact = not any(t.coefficient.has(sp.Float) for t in law.terms)
        law = replace(law, terms=tuple(replace(t, coefficient=_shortened(t.coefficient)) for t in law.terms))
        regime += f" with chi_K = 1; {law.regime.removeprefix('critical: ')}"
        return replace(law, regime=regime, status=status if exact else Status.CERTIFIED)
    terms = [Term(value)] if quantity == "K" else [Term(rate, sp.S.One)]
    if point.is_exponential:
        left = "exponential" if quantity == "K" else sp.S.Zero
        if point.xi_K > DEEP:
            regime += f", to which K relaxes over 1/|log chi_K| = {point.xi_K:.3g} layers"
        return _stated(quantity, _finish(terms, left), regime, status)
    if point.is_exponential is None:  # true whether K comes exponentially or by a power of l
        digits = float(point.chi_K.error or 0)
        regime += f"; whether chi_K is 1 is not decided (it is, to {digits:.1e}), nor how K comes there"
        return _stated(quantity, _finish(terms, "smaller"), regime, Status.UNKNOWN)
    regime += " with chi_K = 1: K comes there by a power of l"
    if quantity == "J" and rate == 0:
        regime += "; log J = o(l), by which power of l J goes is not decided"
    return _stated(quantity, _finish(terms, "smaller"), regime, status)


def _shortened(e: sp.Expr) -> sp.Expr:
    """A coefficient with no more digits than are certain."""
    floats = e.atoms(sp.Float)
    if floats and e.is_number:  # one number, and no formula of digits and π
        return sp.N(e.xreplace({f: sp.Rational(f) for f in floats}), SHOWN)
    return e.xreplace({f: sp.Float(f, SHOWN) for f in floats})


def _rate_of_j(point: FixedPoint, regime: str) -> sp.Expr:
    """log χ_J at K*."""
    chi = point.chi_J
    if chi.value == 0 or (chi.error is not None and abs(chi.value) <= chi.error):
        raise MeanFieldError(f"chi_J is 0 at the {regime}: J vanishes from layer 2 on.")
    if phase_of(chi) == "critical":
        return sp.S.Zero
    rate = sp.log(chi.value) if chi.error is None else from_ball(log_of(chi)).value
    if rate is sp.nan or phase_of(chi) == "undecided":
        raise MeanFieldError(
            f"Whether chi_J is 1 at the {regime} is not decided (it is within {float(chi.error or 0):.1e} of "
            f"{float(chi.value):.6g}); nor is the law of J."
        )
    return rate


def _at_rest(start, chi, quantity) -> DepthLaw:
    """The map is the identity: K stays where it starts."""
    regime = "scale-invariant: every K is a fixed point"
    if quantity == "K":
        return _stated("K", _finish([Term(start)], "zero"), regime)
    x = closed(chi.subs(K, start))
    rate = simplified(sp.log(x))
    if rate == 0:
        return _stated("J", _finish([], "zero"), regime + ", J stays 1")
    return _stated("J", _finish([Term(rate, sp.S.One)], "zero"), regime)
