"""Whether the records of a function (`elementary.ElementaryFunction`, `scalars.Scalar`) say what mpmath says: run it on
an entry of yours.

`ElementaryFunction.mpmath` is the only thing that is believed. Values and derivatives of it, at 30 digits and more, are
compared with all that the records claim: series, enclosures, bounds, ends, inverse, and what floats compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from flint import acb, arb
from sympy.core.function import AppliedUndef

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.precision import decimals
from meanfield.base.scalars import Scalar, helpers
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.elementary import trial
from meanfield.functions.elementary.record import (
    LARGE_SHARE,
    SHARE,
    ElementaryFunction,
    EndBehavior,
    ExponentialGrowth,
    LogarithmicGrowth,
    PowerEnd,
    PowerGrowth,
    rest,
)
from meanfield.functions.series.ball_series import ball_series, coefficients
from meanfield.functions.series.infinity import normal_form
from meanfield.functions.series.taylor import taylor
from meanfield.functions.zeros import is_zero

DIGITS = 40
_U = Z[0]
_NEAR = ("-3.7", "-1.3", "-0.4", "0.3", "0.9", "2.6", "4.1")  # of 0, on the scale on which functions bend
_FAR = ("-60", "-21", "-8", "8", "21", "60")


def assert_consistent(record: ElementaryFunction, scalar: Scalar | None = None) -> None:
    """Raise where a function's records contradict `record.mpmath`, or each other.

    Raises: MeanFieldError with one line for each finding.
    """
    found = findings(record, scalar)
    if found:
        raise MeanFieldError(f"The records of {record.name} were checked, and do not hold: " + "; ".join(found) + ".")


def findings(record: ElementaryFunction, scalar: Scalar | None = None) -> list[str]:
    """What is wrong with a function's records, one line each; nothing where they hold.

    >>> from meanfield.base import scalars
    >>> from meanfield.functions import elementary
    >>> findings(elementary.ELEMENTARY_FUNCTIONS[sp.tanh], scalars.SCALARS["tanh"])
    []
    """
    checks: list[Callable[[ElementaryFunction], Iterator[str]]] = [
        _class, _balls, _series, _values, _symmetry, _inverse, _growth, _identities, _ends, _floats,
    ]
    out: list[str] = []
    with decimals(DIGITS), trial(record):
        for check in checks:
            out += check(record)
        out += _scalar(record, scalar) if scalar is not None else ()
    return out


def _points(record: ElementaryFunction, texts: tuple[str, ...] = _NEAR) -> list[mp.mpf]:
    """Sample points in the domain."""
    lo, hi = (mp.mpf(str(v).replace("oo", "inf")) for v in record.domain)
    places = [mp.mpf(t) for t in texts]
    if mp.isfinite(lo) and mp.isfinite(hi):
        return [lo + (hi - lo) * (p + 5) / 10 for p in places if abs(p) < 5]
    return [p for p in places if lo < p < hi]


def _at(e: sp.Expr, u: mp.mpf) -> mp.mpf:
    """A SymPy expression of `_U` at a number, by SymPy's own digits."""
    number = sp.Rational(mp.nstr(u, DIGITS)) if mp.isfinite(u) else u
    return mp.mpf(sp.N(sp.sympify(e).subs(_U, number), DIGITS + 10))


def _close(a: mp.mpf, b: mp.mpf, digits: int = 25) -> bool:
    return bool(abs(a - b) <= mp.mpf(10) ** -digits * max(1, abs(b)))


def _differs(what: str, u: mp.mpf, value: mp.mpf, truth: mp.mpf) -> str:
    return f"{what} at u = {mp.nstr(u, 4)} is {mp.nstr(value, 12)}, and mpmath gives {mp.nstr(truth, 12)}"


def _class(record: ElementaryFunction) -> Iterator[str]:
    """Value and derivative of the SymPy class; `slope`."""
    for u in _points(record):
        value, truth = _at(record.function(_U), u), record.mpmath(u)
        if not _close(value, truth):
            yield _differs(f"{record.name} of SymPy", u, value, truth)
        if record.slope is None:
            continue
        truth = mp.diff(record.mpmath, u)
        for what, e in (("the derivative", record.function(_U).diff(_U)), ("slope", record.slope(_U))):
            if not _close(value := _at(e, u), truth, 15):
                yield _differs(what, u, value, truth)


def _ball(record: ElementaryFunction, u: acb) -> acb:
    value: acb = getattr(u, record.ball)() if isinstance(record.ball, str) else record.ball(u, False)
    return value


def _arb(value: mp.mpf) -> arb:
    return arb(mp.nstr(value, DIGITS + 5)) + arb(0, mp.mpf(10) ** (5 - DIGITS) * (1 + abs(value)))


def _balls(record: ElementaryFunction) -> Iterator[str]:
    """Exact and wide balls, real ones and complex ones (the truth there by Taylor's series), hold the value."""
    with balls.precision(160):
        for u in _points(record):
            truth = record.mpmath(u)
            exact = arb(mp.nstr(u, DIGITS))
            for width in ("0", "1e-6", "0.1"):
                found = _ball(record, acb(exact + arb(0, width)))
                if found.is_finite() and not found.real.overlaps(_arb(truth)):
                    yield f"ball at u = {mp.nstr(u, 4)} ± {width} is {found.real.str(12)}, without {mp.nstr(truth, 12)}"
            if not _ball(record, acb(exact)).is_finite():
                yield f"ball at u = {mp.nstr(u, 4)} is not finite"
            if record.slope is None:
                continue
            step = mp.mpc(0, "0.05") if record.whole else mp.mpc(0, "0.01")
            truth = mp.polyval(mp.taylor(record.mpmath, u, 16)[::-1], step)
            found = _ball(record, acb(exact, arb(mp.nstr(step.imag, 10))))
            value = mp.mpc(*(b.mid().str(25, radius=False) for b in (found.real, found.imag)))
            if not abs(value - truth) < mp.mpf(10) ** -9 * (1 + abs(truth)):
                yield f"ball at u = {mp.nstr(u, 4)} + {mp.nstr(step.imag, 2)}i is not the analytic continuation"


def _series(record: ElementaryFunction) -> Iterator[str]:
    """Taylor series at 0, exact and of balls elsewhere."""
    if record.slope is None:
        return
    with balls.precision(160):
        for u in _points(record)[1::2] if record.names else ():
            found = coefficients(ball_series(record.function(_U)), arb(mp.nstr(u, DIGITS)), 6)
            for k, c in enumerate(mp.taylor(record.mpmath, u, 5)):
                if found is None or not abs(mp.mpf(found[k].mid().str(30, radius=False)) - c) < mp.mpf(10) ** -12:
                    yield f"series at u = {mp.nstr(u, 4)} has a wrong coefficient of order {k}"
    if record.domain[0] < 0 < record.domain[1]:
        exact = taylor(record.function(_U), _U, 7)
        for k, (c, truth) in enumerate(zip(exact, mp.taylor(record.mpmath, 0, 7))):
            if not _close(mp.mpf(sp.N(c, DIGITS)), truth, 12):
                yield f"the Taylor coefficient of order {k} that follows from slope is {c}, not {mp.nstr(truth, 12)}"


def _values(record: ElementaryFunction) -> Iterator[str]:
    """Range, shape, and `number`."""
    places = _points(record, _FAR[:3] + _NEAR + _FAR[3:]) if record.whole else _points(record)
    truths = [record.mpmath(u) for u in places]
    low, high = (mp.mpf(str(sp.N(v, DIGITS)).replace("oo", "inf")) for v in record.values)
    for u, truth in zip(places, truths):
        if not low - mp.mpf(10) ** -30 <= truth <= high + mp.mpf(10) ** -30:
            yield f"values are {record.values}, but at u = {mp.nstr(u, 4)} there is {mp.nstr(truth, 12)}"
        value = truth if record.number is None else record.number(float(u))
        if not abs(value - truth) <= 1e-12 * (1 + abs(truth)) and not (math.isinf(value) and abs(truth) > 1e300):
            yield _differs("number", u, value, truth)
    halves = {"rising": [1] * 2, "falling": [-1] * 2, "valley": [-1, 1], "hill": [1, -1]}.get(record.shape)
    if halves is not None:
        for u, v, a, b in zip(places, places[1:], truths, truths[1:]):
            if u * v > 0 and (b - a) * halves[u > 0] < 0:
                yield f"shape is {record.shape!r}, but not near u = {mp.nstr(u, 4)}"
        ends = {"rising": (low, high), "falling": (high, low), "valley": (high, high), "hill": (low, low)}[record.shape]
        if record.whole and record.number is not None:
            for u, limit in zip((-math.inf, math.inf), ends):
                if not (record.number(u) == limit or abs(record.number(u) - limit) < 1e-14):
                    yield _differs("number", u, record.number(u), limit)
                reached = record.mpmath(mp.mpf(10) ** 15 * (1 if u > 0 else -1)) if mp.isfinite(limit) else limit
                if reached != limit and not _close(reached, limit, 12):
                    yield f"values say {mp.nstr(limit, 12)} at u = {u}, and mpmath {mp.nstr(reached, 12)}"


def _symmetry(record: ElementaryFunction) -> Iterator[str]:
    for u in _points(record) if record.domain[0] == -record.domain[1] else ():
        value, other = record.mpmath(u), record.mpmath(-u)
        if record.parity is not None and not _close(other, record.parity * value):
            yield f"parity is {record.parity}, but not at u = {mp.nstr(u, 4)}"
        if record.reflection is not None:
            u_, v_ = (sp.Float(mp.nstr(w, DIGITS), DIGITS) for w in (u, value))
            if not _close(mp.mpf(sp.N(record.reflection(v_, u_), DIGITS)), other):
                yield f"reflection is wrong at u = {mp.nstr(u, 4)}"


def _inverse(record: ElementaryFunction) -> Iterator[str]:
    if record.inverse is None:
        return
    w = sp.Dummy("w", real=True)
    found = record.inverse(w)
    for u in _points(record):
        truth = abs(u) if record.shape in ("valley", "hill") else u
        value = sp.Rational(mp.nstr(record.mpmath(u), DIGITS))
        if isinstance(found, tuple):  # (g, v): g(u) = v
            back, truth = mp.mpf(sp.N(found[1].subs(w, value), DIGITS)), _at(found[0](_U), u)
        else:
            back = mp.mpf(sp.re(sp.N(found.subs(w, value), DIGITS)))
        if not _close(back, truth, 20):
            yield _differs("inverse of h", u, back, truth)
    third = sp.Rational(4, 3) if record.values[0] == 1 else sp.Rational(1, 3)
    at = third if isinstance(found, tuple) else record.function(record.inverse(third))
    if not is_zero(at - third):  # a kink there could not be told from a jump
        yield f"inverse: that h is {third} at {record.inverse(third)} is not proved by SymPy; leave inverse out"


def _growth(record: ElementaryFunction) -> Iterator[str]:
    for u in _points(record, _FAR[:3] + _NEAR + _FAR[3:]):
        size, slope = abs(record.mpmath(u)), abs(mp.diff(record.mpmath, u)) if record.steepest is not None else 0
        match record.growth:
            case PowerGrowth(constant, factor, power):
                most = constant + factor * abs(u) ** mp.mpf(power)
            case ExponentialGrowth(signs):
                most = mp.fsum(mp.exp(s * u) for s in signs)
            case LogarithmicGrowth():
                most = abs(mp.log(u))
            case _:
                most = mp.inf
        if not size <= most * (1 + mp.mpf(10) ** -25):
            yield f"growth bounds |h| by {mp.nstr(most, 8)} at u = {mp.nstr(u, 4)}, where it is {mp.nstr(size, 8)}"
        if record.steepest is not None and not slope <= record.steepest + mp.mpf(10) ** -20:
            yield f"steepest is {record.steepest}, and the slope at u = {mp.nstr(u, 4)} is {mp.nstr(slope, 8)}"
    if record.names and record.whole and record.growth is None and not all(v.is_finite for v in record.values):
        yield "growth is missing, and values are not finite"


def _identities(record: ElementaryFunction) -> Iterator[str]:
    y = sp.Dummy("y", positive=True)
    for u in _points(record):
        exact = sp.Rational(mp.nstr(u, DIGITS))
        claims = {
            "plain": record.plain and record.plain(_U),
            "exponential": record.exponential and record.exponential(y).subs(y, sp.exp(_U)),
            "the form at the right end": record.form and record.form[1](_U),
            "the form at the left end": record.form and record.form[-1](_U),
        }
        for what, e in claims.items():
            if e and not _close(value := _at(e, exact), record.mpmath(u)):
                yield _differs(what, u, value, record.mpmath(u))
        if record.exponentiated is not None and not _close(_at(record.exponentiated(_U), u), mp.exp(record.mpmath(u))):
            yield f"exponentiated is not e^h at u = {mp.nstr(u, 4)}"
        if record.square is not None and not _close(_at(record.square(_U), u) ** 2, 1 - record.mpmath(u) ** 2):
            yield f"square: 1 - h² is not the square of {record.square.__name__} at u = {mp.nstr(u, 4)}"


def _ends(record: ElementaryFunction) -> Iterator[str]:
    for side in (1, -1):
        end = record.end(side)
        if isinstance(end, EndBehavior):
            yield from _dies(record, end, side)
        elif isinstance(end, PowerEnd):
            yield from _powers(record, end, side)


def _dies(record: ElementaryFunction, end: EndBehavior, side: int) -> Iterator[str]:
    where, t, theta = "right" if side > 0 else "left", sp.Dummy("t", positive=True), sp.Dummy("theta")
    far = normal_form(record.function(side * t), t).terms(sp.S.Zero)
    written = sp.Add(*[c * t**s for (s, _), c in far.items()])
    value, truth = (sp.N(e.subs(t, 50), DIGITS) for e in (written, end.limit(side * t)))
    if abs(value - truth) > 1e-30:
        yield _differs(f"{where} end: what expansions make of limit", 50 * side, mp.mpf(value), mp.mpf(truth))
    for u in _points(record, _FAR[:3] + _NEAR + _FAR[3:]):
        left = record.mpmath(u) - _at(end.limit(_U), u)
        most = mp.mpf(end.size.p) / end.size.q * mp.exp(-end.rate * side * u)
        if not abs(left) <= most * (1 + mp.mpf(10) ** -25) + mp.mpf(10) ** -35:
            left, most = mp.nstr(abs(left), 8), mp.nstr(most, 8)
            yield f"{where} end: |h - limit| is {left} at u = {mp.nstr(u, 4)}, above size·e^(-rate |u|), {most}"
        if side * u <= 0 or abs(u) > 21:
            continue
        with decimals(DIGITS + int(2 * u * u)):
            left = record.mpmath(u) - _at_digits(end.limit(_U), u)
            if end.small is not None and not end.small(_U).atoms(AppliedUndef):  # what only floats know has no digits
                value = _at_digits(end.small(_U), u)
                if not abs(value + left) <= mp.mpf(10) ** -15 * abs(left):
                    yield _differs(f"{where} end: small", u, value, -left)
            if end.remainder is not None and not end.remainder(_U).has(rest):
                value = _at_digits(end.remainder(_U), u)
                if not abs(value - left) <= mp.mpf(10) ** -15 * abs(left):
                    yield _differs(f"{where} end: rest", u, value, left)
            if end.enclosed is not None:
                shares = ((sp.S.Zero, sp.Rational(1, 3)), (sp.S.One, sp.S.One))
                held = end.enclosed(_U)
                ends = [_at_digits(held.xreplace({SHARE: s, LARGE_SHARE: t}), u) for s, t in shares]
                if not min(ends) <= record.mpmath(u) <= max(ends):
                    yield f"{where} end: enclosed does not hold h at u = {mp.nstr(u, 4)}"
            if end.series is None or abs(u) <= 2:
                continue
            for n in (1, 2, 4):
                terms = end.series(_U, n, theta)
                ends = [_at_digits(terms.subs(theta, t), u) for t in (0, 1)]
                if not min(ends) <= left <= max(ends):
                    yield f"{where} end: {n} terms of series do not enclose h - limit at u = {mp.nstr(u, 4)}"


def _at_digits(e: sp.Expr, u: mp.mpf) -> mp.mpf:
    return mp.mpf(sp.N(sp.sympify(e).subs(_U, sp.Rational(mp.nstr(u, DIGITS))), mp.mp.dps + 10))


def _powers(record: ElementaryFunction, end: PowerEnd, side: int) -> Iterator[str]:
    where, w, t = ("right" if side > 0 else "left"), sp.Dummy("w"), sp.Dummy("t", positive=True)
    for size in ("4", "300", "2e6"):
        u = side * mp.mpf(size)
        parts = ((mp.mpf(p.p) / p.q, m, _at(A(w).subs(w, 1 / _U), u)) for p, m, A in end.parts)
        value = mp.fsum(abs(u) ** p * mp.log(abs(u)) ** m * a for p, m, a in parts)
        if not _close(value, record.mpmath(u)):
            yield _differs(f"{where} end", u, value, record.mpmath(u))
    u = mp.mpf(1000)
    terms = normal_form(record.function(side * t), t).terms(sp.Integer(-7))
    value = mp.fsum(mp.mpf(sp.N(c, DIGITS)) * u ** mp.mpf(str(s)) * mp.log(u) ** m for (s, m), c in terms.items())
    if not _close(value, record.mpmath(side * u), 20):
        yield _differs(f"{where} end: its expansion", side * u, value, record.mpmath(side * u))


def _special() -> ModuleType:
    from scipy import special

    module: ModuleType = special
    return module


def _floats(record: ElementaryFunction) -> Iterator[str]:
    """NumPy's form, and the text that Numba compiles."""
    if record.names and record.code:
        scope: dict[str, Any] = {"math": math}
        text = "".join(f"    {line}\n" for line in record.code.splitlines())
        exec(f"def f(x):\n{text}", scope)  # the function's own text
    array = eval(f"lambda x: {record.numpy or 0}", {"np": np, "special": _special})  # as above
    for u in _points(record, _FAR[:3] + _NEAR + _FAR[3:]) if record.names else ():
        truth = record.mpmath(mp.mpf(float(u)))
        found = {}
        if record.numpy:
            found["numpy"] = float(array(np.array([float(u)]))[0])
        if record.code:
            found["code"] = scope["f"](float(u))
        for what, value in found.items():
            if not abs(value - truth) <= 4e-15 * abs(truth) * max(1, abs(u)) + mp.mpf(10) ** -300:
                yield _differs(what, u, value, truth)


def _scalar(record: ElementaryFunction, scalar: Scalar) -> Iterator[str]:
    """The networks' text and its three derivatives."""
    known: dict[str, str] = {"u": "x"}
    lines = []
    for k, text in enumerate(scalar.texts):
        lines.append(f"v{k} = {text.format(**known)}")
        known[f"v{k}"] = f"v{k}"
    body = "".join(f"    {line}\n" for line in [*lines, "return v0, v1, v2, v3"])
    scope: dict[str, Any] = {"math": math}
    exec(f"{helpers(body, scalar)}\ndef f(x):\n{body}", scope)  # the scalar's own text
    for u in _points(record):
        for k, value in enumerate(scope["f"](float(u))):
            truth = mp.diff(record.mpmath, mp.mpf(float(u)), k)
            if not abs(value - truth) <= 1e-12 * (1 + abs(truth)):
                yield _differs(f"the network's derivative of order {k}", u, value, truth)
