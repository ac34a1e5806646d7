r"""Large-depth laws of K and J by dominant balance, from the expansions of the averages at K → 0 and K → ∞.

The flow of K from K^1 is monotone as long as the map increases, so it ends at the next fixed point in its direction, at
0 or at ∞. There the map is K' = K + g(K) with g a short sum of powers, and log J = Σ log χ_J(K^l). Source: derived
here; for tanh and erf at μ = 1 compare [partial_jacobians] eq. (28), (29), (H.26)-(H.29).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield import balls
from meanfield.results import Law, MeanFieldError, Status, Term
from meanfield.symbolic.average import Average
from meanfield.symbolic.expansion import at_infinity, at_zero
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbols import LATEX_NAMES, Q0, J, K, l, parameter

CONSTANT = sp.Symbol("C", real=True)  # what depends on the start


@dataclass(frozen=True)
class DepthLaw:
    """quantity ~ C · l^exponent · exp(rate · l^rate_power) as l → ∞.

    law: for K its expansion in l; for J that of log J (C is a constant that depends on the start). regime: which
    balance holds, in words. exponent is None when the known expansions do not determine it. status: EXACT where
    the destination of K is proved, too; MEASURED where it was found by a scan from K^1 (at Q0 = 1 unless Q0 is given),
    which could miss a pair of fixed points.
    """

    quantity: str
    law: Law
    regime: str
    rate: sp.Expr = sp.S.Zero
    rate_power: sp.Expr = sp.S.One
    exponent: sp.Expr | None = sp.S.Zero
    status: Status = Status.EXACT

    @property
    def expr(self) -> sp.Expr:
        """The law with an undetermined constant C where the constant depends on the start."""
        if self.quantity == "K" and self.rate == 0:
            return self.law.expr
        growth = sp.exp(self.rate * l**self.rate_power) if self.rate != 0 else sp.S.One
        return CONSTANT * l ** (self.exponent or 0) * growth

    def __str__(self) -> str:
        name = "log J" if self.quantity == "J" else self.quantity
        return f"{name} = {self.law}   ({self.regime})"

    def latex(self) -> str:
        name = r"\log J^\ell" if self.quantity == "J" else r"K^\ell"
        body = " + ".join(sp.latex(p, symbol_names=LATEX_NAMES) for p in self.law.parts()).replace("+ -", "- ")
        return rf"{name} = {body} + \dots"


def depth_law(recursion: Recursion, quantity: str, values: dict[str, sp.Expr]) -> DepthLaw:
    """The law of "K" or "J" for a one-input recursion.

    values: exact numbers by name (sigma_w, sigma_b, mu, Q0 = 1 unless given); with μ = 1 and a saturating φ they may
    stay symbolic.
    Raises: MeanFieldError when the values do not decide the regime or the expansions do not reach.
    """
    if quantity not in ("K", "J"):
        raise MeanFieldError(
            f"The large-depth law of {quantity!r} was asked for; the laws known so far are those of K and J."
        )
    for name, v in values.items():
        if v.is_number and (not v.is_real or v < 0 or not v.is_finite):
            raise MeanFieldError(f"{name} must be finite and ≥ 0, but {v} was given.")
    known = {p.name for p in recursion.parameters}
    if set(values) - known:
        raise MeanFieldError(
            f"{sorted(set(values) - known)[0]} is not a parameter here; known are {', '.join(sorted(known))}."
        )
    swap = {parameter(k): v for k, v in values.items()}
    step, chi = recursion["K"].subs(swap), sp.diff(recursion["J"], J).subs(swap)
    if recursion["J"].has(sp.oo) and quantity == "J":
        raise MeanFieldError("J is infinite at every layer (φ jumps), so it has no large-depth law.")
    start = recursion.initial["K"].subs(swap).subs(Q0, 1)
    where, proved = _destination(step, start)
    if where == sp.oo:
        law = _at_infinity(step, chi, quantity)
    elif where == 0:
        law = _at_zero(step, chi, quantity)
    else:
        law = _at_fixed_point(step, chi, where, quantity)
    return law if proved else replace(law, status=Status.MEASURED)


def _destination(step: sp.Expr, start: sp.Expr):
    """∞, 0 or the fixed point K flows to, and whether that is proved (K never falls, or never moves) or found by a
    scan."""
    gain = sp.expand(step - K)
    if all(_nonnegative(t) for t in sp.Add.make_args(gain)) and gain != 0:
        return sp.oo, True
    free = step.free_symbols - {K}
    if free:
        raise MeanFieldError(
            f"Where K flows depends on {', '.join(sorted(s.name for s in free))}; "
            "give them values (sigma_w=1, sigma_b=0)."
        )
    original, gain = gain, closed(gain)
    if sp.expand(gain) == 0:
        return start, True
    return _scan(gain, start, original), False


def _nonnegative(t: sp.Expr) -> bool:
    return bool(t.is_nonnegative) or (
        t.is_Mul and all(f.is_nonnegative or (isinstance(f, Average) and f._eval_is_nonnegative()) for f in t.args)
    )


def _scan(gain: sp.Expr, start: sp.Expr, as_nodes: sp.Expr):
    """Follow the sign of F(K) - K from the start until it changes, and bisect there. Eight steps a decade for 1e-3 < K
    < 1e3, one beyond: a scan, not a proof."""

    def sign(k):
        value = balls.certified(gain.subs(K, k), 15)
        return 0 if value.contains(0) else 1 if value > 0 else -1

    k = sp.Rational(float(start))
    if k == 0:
        return sp.S.Zero
    direction = sign(k)
    if direction == 0:
        return k
    while sp.Rational(1, 10**20) < k < 10**20:
        ratio = sp.Rational(4, 3) if 1e-3 < k < 1e3 else sp.Integer(10)
        following = sp.Rational(float(k * ratio**direction))
        if following < 1e-3 and direction < 0 and _flat_at_zero(as_nodes):
            return sp.S.Zero
        if sign(following) != direction:
            return _bisect(sign, k, following, direction)
        k = following
    return sp.oo if direction > 0 else sp.S.Zero


def _flat_at_zero(gain) -> bool:
    """Whether F(K) - K has no power of K at all near 0 (it is exponentially small there, below any working
    precision)."""
    try:
        law = at_zero(gain, 2)
    except MeanFieldError:
        return False
    return not law.terms and law.remainder == "exponential"


def _bisect(sign, a, b, direction):
    for _ in range(60):
        middle = sp.Rational(float((a + b) / 2))
        if middle in (a, b):
            break
        a, b = (middle, b) if sign(middle) == direction else (a, middle)
    return a


def _finish(terms: list[Term], remainder) -> Law:
    return Law(l, sp.oo, tuple(t for t in terms if t.coefficient != 0), remainder)


def _log_expansion(law: Law, reverse: bool) -> tuple[sp.Expr, dict[sp.Expr, sp.Expr]]:
    """log of an expansion x0·(1 + Σ d_p K^p): log x0 and the coefficients of log(1 + …) to second order."""
    x0 = law.coefficient(0)
    if x0 == 0 or law.leading.power != 0 or law.leading.logs != 0:
        raise MeanFieldError(
            f"χ_J tends to {law.leading.expr(law.variable)}, not to a finite number; log J has no such law."
        )
    d = {t.power: sp.simplify(t.coefficient / x0) for t in law.terms if t.power != 0}
    out = dict(d)
    for p, c in d.items():
        for q, e in d.items():
            out[p + q] = out.get(p + q, sp.S.Zero) - c * e / 2
    return sp.log(x0), dict(sorted(out.items(), reverse=reverse))


def _at_infinity(step, chi, quantity) -> DepthLaw:
    gain = at_infinity(sp.expand(step - K), 2)
    lead = gain.leading
    if lead.logs != 0:
        raise MeanFieldError(
            f"The gain of K contains {lead.expr(K)}; laws with a logarithm in the leading term are not derived yet."
        )
    if lead.power > 1:
        raise MeanFieldError(
            f"K grows faster than exponentially (K' ~ {lead.coefficient}·K^{lead.power}), and every χ_J with it: "
            "it leaves the range of "
            "doubles within a few layers."
        )
    if lead.power == 1:
        return _exponential_growth(lead.coefficient, chi, quantity)
    if lead.power != 0:
        return _power_growth(lead, quantity)
    s, g1, g2 = lead.coefficient, gain.coefficient(-sp.S.Half), gain.coefficient(-1)
    known = gain.remainder != "smaller"
    if quantity == "K":
        terms = [Term(s, sp.S.One)]
        if known:
            terms += [
                Term(sp.simplify(2 * g1 / sp.sqrt(s)), sp.S.Half),
                Term(sp.simplify(g2 / s - g1**2 / s**2), logs=sp.S.One),
            ]
        return DepthLaw("K", _finish(terms, sp.S.Zero if known else "smaller"), "linear growth", exponent=sp.S.One)
    law = at_infinity(chi, 2)
    log_x0, e = _log_expansion(law, reverse=True)
    if law.remainder == "smaller" and log_x0 == 0 and not e:
        raise MeanFieldError(
            "How chi_J approaches 1 is not known beyond its limit here, so the law of J is not determined."
        )
    e1, e2 = e.get(-sp.S.Half, sp.S.Zero), e.get(sp.S.NegativeOne, sp.S.Zero)
    rate = sp.simplify(2 * e1 / sp.sqrt(s))
    exponent = sp.simplify(e2 / s - e1 * g1 / s**2) if known or e1 == 0 else None
    if law.remainder == "smaller" and e1 == 0:
        exponent = None
    terms = [Term(log_x0, sp.S.One), Term(rate, sp.S.Half)]
    if exponent is not None:
        terms += [Term(exponent, logs=sp.S.One), Term(CONSTANT)]
        if log_x0 == 0 and e1 != 0:  # K's own logarithm enters K^{-1/2}, and Σ m^{-3/2} log m = const - 2 log l/√l
            terms.append(Term(sp.simplify(e1 * (g2 / s - g1**2 / s**2) / s ** sp.Rational(3, 2)), -sp.S.Half, sp.S.One))
    regime = (
        "stretched exponential: K grows linearly and chi_J - 1 falls as K^(-1/2)"
        if log_x0 == 0 and rate != 0
        else "K grows linearly"
    )
    if log_x0 != 0:
        return DepthLaw("J", _finish(terms, "smaller"), regime, log_x0, sp.S.One, exponent if rate == 0 else None)
    return DepthLaw(
        "J",
        _finish(terms, -sp.S.Half if exponent is not None else "smaller"),
        regime,
        rate,
        sp.S.Half if rate != 0 else sp.S.One,
        exponent,
    )


def _exponential_growth(slope, chi, quantity) -> DepthLaw:
    _nonzero(1 + slope)
    rate = sp.log(1 + slope)
    regime = "exponential growth of K"
    if quantity == "K":
        return DepthLaw("K", Law(l, sp.oo, (Term(CONSTANT, rate=rate),), "smaller"), regime, rate)
    log_x0, _ = _log_expansion(at_infinity(chi, 1), reverse=True)
    return DepthLaw("J", _finish([Term(log_x0, sp.S.One)], sp.S.Zero), regime, log_x0)


def _power_growth(lead: Term, quantity) -> DepthLaw:
    if quantity == "J":
        raise MeanFieldError("K grows as a power other than linear; the law of J for that case is not derived yet.")
    power = 1 / (1 - lead.power)
    coefficient = (lead.coefficient * (1 - lead.power)) ** power
    return DepthLaw("K", _finish([Term(sp.simplify(coefficient), power)], "smaller"), "power growth", exponent=power)


def _nonzero(factor) -> None:
    """Refuse K' = 0·K + …: K then falls doubly exponentially (or is constant from layer 2 on), which no power law
    describes."""
    if factor == 0:
        raise MeanFieldError(
            "K' has no linear term here: K falls faster than exponentially or is constant from layer 2 on."
        )


def _at_zero(step, chi, quantity) -> DepthLaw:
    gain = at_zero(sp.expand(step - K), 3)
    terms = [t for t in gain.terms if t.coefficient != 0]
    if not terms:
        raise MeanFieldError(
            "Near K = 0 the map is K' = K up to exponentially small terms: K falls logarithmically; that law is not "
            "derived yet."
        )
    lead, regime = terms[0], "K falls to 0"
    slope = gain.coefficient(1)
    if lead.power < 1 and not (lead.power == 0 and lead.coefficient.is_negative):
        raise MeanFieldError(
            "K has a small fixed point near 0 that the scan does not resolve; raise sigma_b or ask for digits."
        )
    if slope != 0:
        _nonzero(1 + slope)
        rate = sp.log(1 + slope)
        if quantity == "K":
            return DepthLaw(
                "K",
                Law(l, sp.oo, (Term(CONSTANT, rate=rate),), "smaller"),
                regime + " exponentially",
                rate,
            )
        log_x0, _ = _log_expansion(at_zero(chi, 2), reverse=False)
        return DepthLaw("J", _finish([Term(log_x0, sp.S.One)], sp.S.Zero), regime + " exponentially", log_x0)
    n, c = lead.power, -lead.coefficient
    decay = 1 / (n - 1)
    amplitude = ((n - 1) * c) ** (-decay)
    if quantity == "K":
        return DepthLaw(
            "K",
            _finish([Term(sp.simplify(amplitude), -decay)], "smaller"),
            "critical: power-law decay of K",
            exponent=-decay,
        )
    log_x0, e = _log_expansion(at_zero(chi, 3), reverse=False)
    r, d = next(((p, v) for p, v in e.items() if v != 0), (None, sp.S.Zero))
    regime = "critical: power-law decay of K"
    if log_x0 != 0:
        return DepthLaw("J", _finish([Term(log_x0, sp.S.One)], "smaller"), regime, log_x0, exponent=None)
    if r is None or r > n - 1:
        return DepthLaw("J", _finish([], sp.S.Zero), regime + ", J saturates")
    q = r / (n - 1)
    if q == 1:
        zeta = sp.simplify(d * amplitude**r)
        return DepthLaw("J", _finish([Term(zeta, logs=sp.S.One)], sp.S.Zero), regime, exponent=zeta)
    rate = sp.simplify(d * amplitude**r / (1 - q))
    return DepthLaw(
        "J", _finish([Term(rate, 1 - q)], "smaller"), regime + ", stretched exponential J", rate, 1 - q, None
    )


def _at_fixed_point(step, chi, where, quantity) -> DepthLaw:
    exact = step.subs(K, where) == where
    if quantity == "K":
        value = where if exact else sp.Float(where, 15)
        return DepthLaw(
            "K", _finish([Term(value)], "exponential"), "fixed point", status=Status.EXACT if exact else Status.MEASURED
        )
    ball = balls.certified(closed(chi).subs(K, where), 20)
    if ball.contains(0):
        raise MeanFieldError(f"chi_J is 0 at the fixed point K* = {float(where):.10g}: J vanishes from layer 2 on.")
    x = sp.Float(ball.mid().str(18, radius=False), 15)
    return DepthLaw(
        "J",
        _finish([Term(sp.log(x), sp.S.One)], sp.S.Zero),
        f"fixed point K* = {float(where):.10g}",
        sp.log(x),
        status=Status.MEASURED,
    )
