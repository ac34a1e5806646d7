"""One function of K in float64: the closed form where it keeps its digits, a table of measured accuracy where it does
not.

Which form is used in which range of K is decided by comparing each candidate with a certified ball on a ladder of K
from 1e-30 to 1e30. The error is measured in every range that is used: inside closed forms between the rungs, inside a
table against balls and against a finer quadrature, and on both continuations of a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.base.progress import doing
from meanfield.base.symbols import K
from meanfield.functions import balls
from meanfield.numeric.lowering.modules.module_functions import EVERY_K
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.block_loops import branch_free
from meanfield.numeric.quadrature import evaluation, polynomial_tables
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature.steep_points import resolving_width
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import closed

LADDER = tuple(1.2345678 * 10.0**j for j in range(-30, 31))
USABLE = 1e-6  # a table whose measured error is worse is refused
RIGOROUS = 200.0  # up to this K balls check integrands that oscillate; beyond, a finer quadrature does
FARTHEST = 1000  # octaves: a table goes so far where no power law continues it
ENOUGH = 2e-13  # a continuation that is worse makes the table longer
TOLERANCE = 1e-13  # what a closed form must reach at every point of its range
CHECKS = tuple(1.7320508 * 10.0**j for j in (-18, -8, -6, -4, -2, -1, 0, 0.4, 1, 2, 3, 4, 6, 8, 14))
INSIDE = tuple(2.0 ** (o + 0.37 * (o % 7) / 6) for o in (*range(-90, -24, 22), *range(-21, 31, 2), *range(33, 90, 19)))
_SMALL = 1e-30  # K below which averages may be less than the least double
OUTSIDE = (1.3, 3.0, 20.0, 120.0, 350.0, 650.0, 890.0)  # octaves beyond an end of a table where it is measured
BETWEEN = tuple(10.0 ** (-30.3 + 2.53 * j) for j in range(24))  # off the rungs of the ladder


@dataclass(frozen=True)
class LoweredScalar:
    """A lowered function of K: generated source `text` of a function `name(K, T)`, its table (or None), and the
    measured error.

    `error` is the largest deviation from certified values over the check points, relative to the value or, where the
    integrand changes sign, to the average of its modulus.
    """

    name: str
    text: str
    table: polynomial_tables.PolynomialTable | None
    error: float
    note: str
    limit: float = math.inf  # the value is NaN beyond this K: the integrand oscillates too fast to be followed there
    only_table: bool = False  # whether it is the polynomial of a cell wherever the table reaches

    def __call__(self, k: float) -> float:
        """The value at one K, computed by the very source that Numba compiles, here interpreted."""
        return self._interpreted(float(k), self.table.coefficients if self.table else np.zeros((1, 10)))

    @property
    def _interpreted(self):
        return printing.interpret(self.text, self.name)


@lru_cache(maxsize=256)
def scalar(expr: sp.Expr, name: str = "f", span: tuple[float, float] = EVERY_K) -> LoweredScalar:
    """Lower `expr`, a function of the one symbol K that may contain averages ⟨·⟩_K. span: the K > 0 at which it is
    wanted; a table of a short one is soon made, and knows nothing beyond.

    Raises: MeanFieldError if other symbols are left, or no form reaches a usable accuracy.
    """
    others = expr.free_symbols - {K}
    if others:
        raise MeanFieldError(
            f"{expr} was to be evaluated, but {sorted(s.name for s in others)} have no value; give them in derive(...)."
        )
    form = closed(expr)
    guard = _guard(expr)
    if not form.has(Average):
        if not form.has(K):
            return LoweredScalar(name, f"def {name}(K, T):\n    return {printing.code(form)}\n", None, 0.0, "constant")
        truth = [balls.certified_at(form, {K: sp.Rational(k)}, 20) for k in LADDER]
        body = printing.body
        ranges, chosen, error = _closed_ranges(form, truth, body)
        if _overflows(truth[-1]) and not _reaches_infinity(ranges):  # exp(2K) - 4 exp(K/2) ends as inf - inf
            found = _closed_ranges(form, truth, _body_that_overflows)
            if _reaches_infinity(found[0]):
                body, (ranges, chosen, error) = _body_that_overflows, found
        if _reaches_infinity(ranges) and ranges[0][0] == 0.0 and len(ranges) == 1:
            one = LoweredScalar(
                name, f"def {name}(K, T):\n{guard}{body(chosen)}", None, error, "closed form for every K"
            )
        else:
            one = _mixed(expr, guard, body(chosen, " " * 8), ranges, error if ranges else 0.0, name)
        return _cheaper(expr, one) if span == EVERY_K else one
    return _tabled(name, *_checked_table(expr, span))


def _cheaper(expr: sp.Expr, one: LoweredScalar) -> LoweredScalar:
    """A table in the place of a closed form that is no vector code (exponentials, a branch into a table), where a table
    is as exact: of that the loops over a grid make vector code (`block_loops`), at a third of the price of one `exp`.

    Of sines no table is tried: it takes minutes where panels follow their phases, and a closed form is one exp."""
    if one.name in branch_free(one.text) or not expr.has(Average):
        return one
    if any(n.integrand.has(sp.sin, sp.cos) for n in expr.atoms(Average)):
        return one
    try:
        other = _tabled(one.name, *_checked_table(expr))
    except MeanFieldError:  # too steep, or beyond what is followed
        return one
    return other if other.only_table and other.limit >= one.limit and other.error <= max(one.error, TOLERANCE) else one


def _tabled(name: str, table: polynomial_tables.PolynomialTable, error: float) -> LoweredScalar:
    return LoweredScalar(
        name,
        f"def {name}(K, T):\n    return {_table_call(table)}\n",
        table,
        error,
        f"table{_until(table)}, measured error {error:.0e}",
        _limit(table),
        not (table.gap or table.is_split),
    )


def _limit(t: polynomial_tables.PolynomialTable) -> float:
    return 2.0**t.last if math.isnan(t.high) else math.inf


def _until(t: polynomial_tables.PolynomialTable) -> str:
    return f" for K up to {_limit(t):.0e}" if math.isnan(t.high) else ""


def _guard(expr) -> str:
    """The first lines of a closed form: its limit at K = 0, where the formula itself may divide by K (K underflows to 0
    in deep networks)."""
    if not isinstance(expr, Average):
        return ""
    try:
        return f"    if K <= 0.0:\n        return {float(at_zero(expr, 0).coefficient(0))!r}\n"
    except MeanFieldError:
        return ""


def _table_call(t: polynomial_tables.PolynomialTable) -> str:
    high = repr(t.high) if math.isfinite(t.high) else f"math.{t.high!r}"
    call = f"_table(K, T, {t.first}, {t.low!r}, {high})"
    if t.is_split:
        call = f"_split_table(K, T, {t.first}, {t.cells}, {t.low!r}, {high})"
    return f"({call} * math.exp(-{0.5 * t.gap**2!r} / K) if K > 0.0 else 0.0)" if t.gap else call


def _reaches_infinity(ranges) -> bool:
    return bool(ranges) and ranges[-1][1] == math.inf


def _overflows(ball) -> bool:
    return bool(ball > 1e308)


def _body_that_overflows(expr: sp.Expr, indent: str = "    ") -> str:
    """`printing.body` of a form whose parts exceed the doubles with opposite signs at large K, where the whole is ∞."""
    lines, (last,) = printing.statements((expr,))
    last_lines = [f"value = {last}", "return value if value == value or K < 1.0 else math.inf"]
    return "".join(f"{indent}{line}\n" for line in [*lines, *last_lines])


def _closed_ranges(form, truth, body):
    """The candidate with the widest certified range: [(lo, hi)], expression, error inside.

    truth: balls of the form on `LADDER`; body: what makes statements of an expression.
    """
    best: tuple[list[tuple[float, float]], sp.Expr, float] = ([], form, math.inf)
    for candidate in printing.stable_forms(form):
        f = printing.interpret(f"def f(K, T):\n{body(candidate)}", "f")
        errors = [_relative(f, k, ball) for k, ball in zip(LADDER, truth)]
        ok = [e <= _allowed(ball) for e, ball in zip(errors, truth)]
        runs = _runs(ok)
        if sum(ok) > sum(any(lo <= k <= hi for lo, hi in best[0]) for k in LADDER) or not best[0]:
            best = (runs, candidate, max((e for e, good in zip(errors, ok) if good), default=math.inf))
        if all(ok):
            break
    return _between(form, body, *best)


def _between(form, body, ranges, chosen, error):
    """The same with the error measured between the rungs, too."""
    f = printing.interpret(f"def f(K, T):\n{body(chosen)}", "f")
    for k in BETWEEN:
        if any(lo <= k <= hi for lo, hi in ranges):
            error = max(error, _relative(f, k, balls.certified_at(form, {K: sp.Rational(k)}, 20)))
    return ranges, chosen, error


def _allowed(ball) -> float:
    """What a closed form may miss a value by: e^{-q} turns the rounding of its own argument into q roundings."""
    size = abs(float(ball.mid()))
    return TOLERANCE + (2.0**-51 * abs(math.log(size)) if 0 < size < 1 else 0.0)


def _relative(f, k, ball) -> float:
    try:
        value = f(k, None)
    except (OverflowError, ZeroDivisionError, ValueError):
        return math.inf
    if ball.is_zero():
        return abs(value)
    true = float(ball.mid()) if abs(float(ball.mid())) < 1e308 else math.inf if ball > 0 else -math.inf
    if abs(true) < 1e-290:
        return 0.0 if abs(value) < 1e-280 else math.inf
    if not math.isfinite(true):
        return 0.0 if value == true else math.inf
    if not math.isfinite(value):
        return math.inf
    return abs(float((ball - value) / ball.mid()))


def _runs(ok):
    """Maximal runs of good ladder points as (lo, hi); a run at either end of the ladder extends to 0 or ∞."""
    runs, start = [], None
    for i, good in enumerate([*ok, False]):
        if good and start is None:
            start = i
        elif not good and start is not None:
            if i - start > 1:  # a single good point may be luck
                runs.append((0.0 if start == 0 else LADDER[start], math.inf if i == len(ok) else LADDER[i - 1]))
            start = None
    return runs


def _mixed(expr, guard, inner, ranges, inside, name):
    """A closed form, whose statements `inner` are, where it is good, and a table elsewhere."""
    table, error = _checked_table(expr, _gap(ranges))
    tests = [f"{lo!r} <= K <= {hi!r}" if hi != math.inf else f"K >= {lo!r}" for lo, hi in ranges]
    text = f"def {name}(K, T):\n{guard}"
    if tests:
        text += f"    if {' or '.join(tests)}:\n{inner}"
    text += f"    return {_table_call(table)}\n"
    where = ", ".join(f"[{lo:.0e}, {hi:.0e}]" for lo, hi in ranges) or "nowhere"
    return LoweredScalar(
        name,
        text,
        table,
        max(error, inside, TOLERANCE),
        f"closed form for K in {where}, elsewhere a table{_until(table)} of measured error {error:.0e}",
        _limit(table),
    )


def _gap(ranges) -> tuple[float, float]:
    """The smallest interval of K that holds everything the closed form's ranges leave out."""
    low = ranges[0][1] if ranges and ranges[0][0] == 0.0 else 0.0
    high = ranges[-1][0] if ranges and ranges[-1][1] == math.inf else math.inf
    return low, high


@doing("tables of averages")
def _checked_table(expr, span: tuple[float, float] = EVERY_K):
    nodes = sorted(expr.atoms(Average), key=str)
    if any(n.dimension != 1 or n.cov != (K,) or n.mean != (sp.S.Zero,) for n in nodes):
        raise MeanFieldError(
            f"{expr} holds an average that is not over one centred Gaussian of variance K; it cannot be tabulated."
        )
    first, best = min(resolving_width(n.integrand, quadrature.NODES, 1.0) for n in nodes), None
    for _ in range(4):
        # kinks, centres and waves are read once; only the first panel narrows
        rules = [replace(quadrature.rule_for(n.integrand), first=first) for n in nodes]
        values = _values(expr, nodes, rules)
        table, error = _long_enough(expr, nodes, rules, values, span)
        if best is None or error < best[1]:
            best = (table, error)
        if best[1] <= 3e-13:
            break
        first /= 4  # the function is steeper than scale 1: start with narrower panels
    if best is None or not best[1] < USABLE:
        reached = "nothing" if best is None else f"{best[1]:.0e}"
        raise MeanFieldError(
            f"{expr} is too steep or oscillates too fast for the float64 quadrature (measured error {reached}); "
            "use certified digits (evalf, ball) or rescale the activation."
        )
    return best


def _values(expr, nodes, rules, gap=0.0):
    """`expr` times e^{gap²/2K} as a function of an array of K, by quadrature under the given rules."""
    names = [sp.Dummy(f"a{i}", real=True) for i in range(len(nodes))]
    outer = evaluation.on_arrays([K, *names], expr.xreplace(dict(zip(nodes, names))))

    def values(k):
        tick()
        k = np.atleast_1d(np.asarray(k, dtype=float))
        with np.errstate(all="ignore"):
            inner = [quadrature.gaussian_average(n.integrand, k, r, gap=gap) for n, r in zip(nodes, rules)]
            return np.broadcast_to(np.asarray(outer(k, *inner), dtype=float), k.shape)

    return values


def _long_enough(expr, nodes, rules, values, span):
    """The table over `span`, as long as its continuations need, and its measured error."""
    low, high = polynomial_tables.LOW, polynomial_tables.HIGH
    low = low if span[0] == 0 else max(low, math.floor(math.log2(span[0])) - 1)
    high = high if span[1] == math.inf else min(high, math.ceil(math.log2(span[1])) + 1)
    followed = _followed(rules)
    # a function that is 0 around 0 has the average e^{-gap²/2K}·(what a table can hold)
    gap = rules[0].gap if nodes == [expr] else 0.0
    tabled = _values(expr, nodes, rules, gap) if gap else values
    if gap:  # below, e^{-gap²/2K} is 0 for a double
        low = max(low, math.floor(math.log2(gap**2 / 1500)))

    def build(first, last):
        return replace(polynomial_tables.build_table(tabled, first, last), gap=gap)

    table = build(low, min(high, followed))
    if followed < high:
        table = replace(table, high=math.nan)
    truth = _values(expr, nodes, [_finer(r) for r in rules])
    ends = {}
    for side in (-1, 1):
        if (span[0] if side < 0 else span[1]) not in (0.0, math.inf) or (gap and side < 0):
            continue
        if _continuation(expr, nodes, table, values, side) > ENOUGH:
            ends[side] = side * FARTHEST
    if ends and followed > high:  # no power law holds at the end: logarithms, slow next orders
        table = build(ends.get(-1, low), ends.get(1, high))
    outside = [
        _continuation(expr, nodes, table, truth, s)
        for s in (-1, 1)
        if (span[0] if s < 0 else span[1]) in (0.0, math.inf)
    ]
    return table, max(_measure(expr, nodes, table, span, rules, truth), *outside, 0.0)


def _followed(rules) -> float:
    """The last octave of K at which panels can follow phases that do not split into waves; ∞ where none are there."""
    octave: float = math.inf
    for rule in rules:
        o = 0
        while rule.limited and o < octave:
            try:
                quadrature.panels(rule, 2.0 ** ((o + 1) / 2))
            except MeanFieldError:
                octave = o
            o += 1
            if o >= FARTHEST:
                break
    return octave


def _finer(rule: quadrature.QuadratureRule) -> quadrature.QuadratureRule:
    """A quadrature with other panels and another order: what it says differently, neither knows."""
    return replace(rule, first=rule.first / 2.7, order=24)


def _plain(rule: quadrature.QuadratureRule) -> quadrature.QuadratureRule:
    """A quadrature that follows every period and knows nothing of waves."""
    if not rule.fastest:
        return _finer(rule)
    return replace(_finer(rule), fastest=0.0, slopes=(sp.Float(rule.fastest),))


def _continuation(expr, nodes, table, truth, side: int) -> float:
    """Largest deviation of the table's power law beyond its end (left: side -1, right: 1) from the quadrature there."""
    if side > 0 and not math.isfinite(table.high):
        return 0.0  # infinite for a double, or refused
    f = printing.interpret(f"def f(K, T):\n    return {_table_call(table)}\n", "f")
    end, worst = (table.first if side < 0 else table.last), 0.0
    for step in OUTSIDE:
        if abs(o := end + side * step) > FARTHEST - 4:  # 1e±300: beyond, K counts as 0 or as diverged
            break
        k = 2.0**o
        if not _holds(nodes, k):
            break
        true = float(truth(k)[0])
        if not math.isfinite(true):
            break
        try:
            value = f(k, table.coefficients)
        except OverflowError:  # infinite in compiled code
            value = math.inf
        if abs(true) < 1e-290 and abs(value) < 1e-280:
            continue
        worst = max(worst, _miss(expr, nodes, k, abs(true - value), abs(true)) if math.isfinite(value) else math.inf)
    return worst


def _holds(nodes, k: float) -> bool:
    """Whether doubles hold the averages at k: z⁴ at K = 1e-162 is below the least of them, and its quadrature noise."""
    with np.errstate(all="ignore"):
        moduli = [float(quadrature.gaussian_average(n.integrand, np.array([k]), modulus=True)[0]) for n in nodes]
    return all(m > polynomial_tables.LEAST for m in moduli)


def _miss(expr, nodes, k, miss, scale) -> float:
    """`miss` in units of the value or, where it is larger, of the averages of the moduli."""
    if miss > 1e-13 * scale:  # only then is the modulus needed
        moduli = [float(quadrature.gaussian_average(n.integrand, np.array([k]), modulus=True)[0]) for n in nodes]
        parts = [
            abs(float(expr.coeff(n).subs(K, k).evalf())) * m
            for n, m in zip(nodes, moduli)
            if expr.coeff(n).is_number or not expr.coeff(n).has(Average)
        ]
        scale = max(scale, *parts) if parts else scale
    return miss / scale if scale > 0 else math.inf if miss > 0 else 0.0


def _measure(expr, nodes, table, span, rules, truth) -> float:
    """Largest deviation of the table from certified values, or from quadratures that share neither panels nor waves
    with its own where balls cannot be had, and from the finer quadrature in between; in units of |value| or of the
    modulus average where it is larger."""
    f = printing.interpret(f"def f(K, T):\n    return {_table_call(table)}\n", "f")
    worst = table.rounding
    low, high = max(span[0], 2.0**table.first), min(span[1], 2.0**table.last)
    oscillates = any(r.fastest or r.limited for r in rules)
    plain = _values(expr, nodes, [_plain(r) for r in rules])
    # a ball follows every period, of which there are √K times the frequency
    follows = RIGOROUS / max(1.0, *[r.fastest / 4 for r in rules]) ** 2
    for k in (c for c in (*CHECKS, *INSIDE, *table.split_points()) if low <= c < high):
        value, true = f(k, table.coefficients), math.nan
        if (value == 0.0 and float(truth(k)[0]) == 0.0) or (k < _SMALL and not _holds(nodes, k)):
            continue  # below every double; a ball would need hundreds of digits to show it
        if k in CHECKS and not any(r.branches for r in rules) and not (oscillates and k > follows):
            ball = balls.certified(expr.subs(K, sp.Rational(k)), 18)
            true, miss = float(ball.mid()), abs(float(ball - value))
        else:
            try:
                true = float((plain if k in CHECKS else truth)(k)[0])
            except MeanFieldError:  # more periods than can be followed
                true = float(truth(k)[0])
            miss = abs(true - value)
        if not (math.isfinite(value) and math.isfinite(true) and math.isfinite(miss)):
            return math.inf
        if abs(true) < 1e-290:
            continue
        worst = max(worst, _miss(expr, nodes, k, miss, abs(true)))
    return worst
