"""One function of K in float64: the closed form where it keeps its digits, a table of measured accuracy where it does
not.

Which form is used in which range of K is decided by comparing each candidate with a certified ball on a ladder of K
from 1e-30 to 1e30.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield import balls
from meanfield.numeric import printing, quadrature
from meanfield.results import MeanFieldError
from meanfield.symbolic.average import Average
from meanfield.symbolic.expansion import at_zero
from meanfield.symbolic.recursion import closed
from meanfield.symbols import K

LADDER = tuple(1.2345678 * 10.0**j for j in range(-30, 31))
USABLE = 1e-6  # a table whose measured error is worse is refused
OSCILLATING = 18  # tables of integrands with sin or cos stop at this octave of K: panels must follow every period
TOLERANCE = 1e-13  # what a closed form must reach at every point of its range
CHECKS = tuple(1.7320508 * 10.0**j for j in (-18, -8, -6, -4, -2, -1, 0, 0.4, 1, 2, 3, 4, 6, 8, 14))


@dataclass(frozen=True)
class Scalar:
    """A lowered function of K: generated source `text` of a function `name(K, T)`, its table (or None), and the
    measured error.

    `error` is the largest deviation from certified values over the check points, relative to the value or, where the
    integrand changes sign, to the average of its modulus.
    """

    name: str
    text: str
    table: quadrature.Table | None
    error: float
    note: str

    def __call__(self, k: float) -> float:
        """The value at one K, computed by the very source that Numba compiles, here interpreted."""
        return self._interpreted(float(k), self.table.coefficients if self.table else np.zeros((1, 10)))

    @property
    def _interpreted(self):
        return printing.interpret(self.text, self.name)


@lru_cache(maxsize=256)
def scalar(expr: sp.Expr, name: str = "f") -> Scalar:
    """Lower `expr`, a function of the one symbol K that may contain averages ⟨·⟩_K.

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
            return Scalar(name, f"def {name}(K, T):\n    return {printing.code(form)}\n", None, 0.0, "constant")
        ranges, chosen, error = _closed_ranges(form)
        if ranges and ranges[0][0] == 0.0 and ranges[0][1] == math.inf:
            return Scalar(
                name, f"def {name}(K, T):\n{guard}{printing.body(chosen)}", None, error, "closed form for every K"
            )
        return _mixed(expr, guard, chosen, ranges, name)
    table, error = _checked_table(expr)
    return Scalar(
        name,
        f"def {name}(K, T):\n    return {_table_call(table)}\n",
        table,
        error,
        f"table, measured error {error:.0e}",
    )


def _guard(expr) -> str:
    """The first lines of a closed form: its limit at K = 0, where the formula itself may divide by K (K underflows to 0
    in deep networks)."""
    if not isinstance(expr, Average):
        return ""
    try:
        return f"    if K <= 0.0:\n        return {float(at_zero(expr, 0).coefficient(0))!r}\n"
    except MeanFieldError:
        return ""


def _table_call(t: quadrature.Table) -> str:
    high = repr(t.high) if math.isfinite(t.high) else "math.inf"
    call = f"_table(K, T, {t.first}, {t.low!r}, {high})"
    return f"({call} * math.exp(-{0.5 * t.gap**2!r} / K) if K > 0.0 else 0.0)" if t.gap else call


def _closed_ranges(form):
    """The candidate with the widest certified range: [(lo, hi)], expression, error inside."""
    truth = [balls.certified_at(form, K, sp.Rational(k), 20) for k in LADDER]
    best = ([], form, math.inf)
    for candidate in printing.stable_forms(form):
        text = f"def f(K, T):\n{printing.body(candidate)}"
        f = printing.interpret(text, "f")
        errors = [_relative(f, k, ball) for k, ball in zip(LADDER, truth)]
        ok = [e <= _allowed(ball) for e, ball in zip(errors, truth)]
        runs = _runs(ok)
        if sum(ok) > sum(any(lo <= k <= hi for lo, hi in best[0]) for k in LADDER) or not best[0]:
            best = (runs, candidate, max((e for e, good in zip(errors, ok) if good), default=math.inf))
        if all(ok):
            break
    return best


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
    true = float(ball.mid()) if abs(float(ball.mid())) < 1e308 else math.inf
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


def _mixed(expr, guard, chosen, ranges, name):
    table, error = _checked_table(expr, _gap(ranges))
    tests = [f"{lo!r} <= K <= {hi!r}" if hi != math.inf else f"K >= {lo!r}" for lo, hi in ranges]
    text = f"def {name}(K, T):\n{guard}"
    if tests:
        text += f"    if {' or '.join(tests)}:\n{printing.body(chosen, ' ' * 8)}"
    text += f"    return {_table_call(table)}\n"
    where = ", ".join(f"[{lo:.0e}, {hi:.0e}]" for lo, hi in ranges) or "nowhere"
    return Scalar(
        name,
        text,
        table,
        max(error, TOLERANCE),
        f"closed form for K in {where}, elsewhere a table of measured error {error:.0e}",
    )


def _gap(ranges) -> tuple[float, float]:
    """The smallest interval of K that holds everything the closed form's ranges leave out."""
    low = ranges[0][1] if ranges and ranges[0][0] == 0.0 else 0.0
    high = ranges[-1][0] if ranges and ranges[-1][1] == math.inf else math.inf
    return low, high


def _checked_table(expr, span=(0.0, math.inf)):
    nodes = sorted(expr.atoms(Average), key=str)
    if any(n.n != 1 or n.cov != (K,) or n.mean != (sp.S.Zero,) for n in nodes):
        raise MeanFieldError(
            f"{expr} holds an average that is not over one centred Gaussian of variance K; it cannot be tabulated."
        )
    names = [sp.Dummy(f"a{i}", real=True) for i in range(len(nodes))]
    outer = sp.lambdify([K, *names], expr.xreplace(dict(zip(nodes, names))), modules=["numpy"])
    first, best = 1.0, None
    for _ in range(4):
        rules = [quadrature.rule_for(n.integrand, first) for n in nodes]
        oscillates = any(r.widest < math.inf for r in rules)

        # a function that is 0 around 0 has the average e^{-gap²/2K}·(what a table can hold)
        gap = rules[0].gap if nodes == [expr] else 0.0

        def values(k, rules=rules, gap=gap):
            with np.errstate(all="ignore"):
                inner = [quadrature.gaussian_average(n.integrand, k, r, gap=gap) for n, r in zip(nodes, rules)]
                return np.broadcast_to(np.asarray(outer(k, *inner), dtype=float), k.shape)

        first_octave = quadrature.LOW if span[0] == 0 else max(quadrature.LOW, math.floor(math.log2(span[0])) - 1)
        if gap:  # below, e^{-gap²/2K} is 0 for a double
            first_octave = max(first_octave, math.floor(math.log2(gap**2 / 1500)))
        last_octave = quadrature.HIGH
        if oscillates:  # panels must follow every period up to the reach
            last_octave = min(OSCILLATING, math.floor(2 * math.log2(min(r.widest for r in rules) * 2000)))
        if span[1] < math.inf:
            last_octave = min(last_octave, math.ceil(math.log2(span[1])) + 1)
        table = replace(quadrature.build_table(values, first_octave, last_octave), gap=gap)
        error = _measure(expr, nodes, table, span)
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


def _measure(expr, nodes, table, span) -> float:
    """Largest deviation of the table from certified values, in units of |value| or of the modulus average where it is
    larger."""
    f = printing.interpret(f"def f(K, T):\n    return {_table_call(table)}\n", "f")
    worst = 0.0
    low, high = max(span[0], 2.0**table.first), min(span[1], 2.0**table.last)
    for k in (c for c in CHECKS if low <= c < high):
        ball = balls.certified(expr.subs(K, sp.Rational(k)), 18)
        value = f(k, table.coefficients)
        scale = abs(float(ball.mid()))
        if not (math.isfinite(value) and ball.is_finite()):
            return math.inf
        if scale < 1e-290:
            continue
        miss = abs(float(ball - value))
        if miss > 1e-13 * scale:  # only then is the modulus needed
            moduli = [float(quadrature.gaussian_average(n.integrand, np.array([k]), modulus=True)[0]) for n in nodes]
            parts = [
                abs(float(expr.coeff(n).subs(K, k).evalf())) * m
                for n, m in zip(nodes, moduli)
                if expr.coeff(n).is_number or not expr.coeff(n).has(Average)
            ]
            scale = max(scale, *parts) if parts else scale
        worst = max(worst, miss / scale)
    return worst
