"""One activation in one architecture as a row of a LaTeX table: what the engine derives, or its sentence of refusal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.base.symbols import K, sigma_b, sigma_w
from meanfield.presentation.tables import escape, tex

SHORT = 170  # characters of LaTeX a formula may have; longer ones are given by numbers


@dataclass(frozen=True)
class Entry:
    """One activation in one architecture, as LaTeX: the line, and (K*, σ_w, σ_b, kind, ζ_K, ζ) of each point."""

    activation: str
    line: str
    points: tuple[tuple[str, ...], ...] = ()
    seconds: float = field(default=0.0, compare=False)


def entry(name: str, keywords: dict[str, Any]) -> Entry:
    """The row of one activation, by the engine."""
    label = rf"\texttt{{{escape(name)}}}"
    theory = mf.derive(name, **keywords)
    try:
        if keywords.get("mu") == 1:
            return Entry(label, _growth(theory))
        line = theory.critical_line()
        text = _line(line)
    except MeanFieldError as error:
        return Entry(label, refusal(error))
    if line.kind == "none":
        return Entry(label, text)
    try:
        points = tuple(_point(p) for p in theory.critical_points())
    except MeanFieldError as error:
        return Entry(label, text, ((rf"\multicolumn{{6}}{{l}}{{{refusal(error)}}}",),))
    if not points and keywords.get("norm"):
        points = (_with_norm(theory),)
    return Entry(label, text, points or (("", "", "", "no critical point", "", ""),))


def refusal(error: MeanFieldError) -> str:
    """The first clause of the engine's sentence."""
    text = re.split(r"; |\. | \(|, and ", str(error))[0].rstrip(".")
    return rf"\emph{{{prose(text if len(text) < 130 else text[:127] + '...')}}}"


_MATH = {
    "σ_b²": r"\sigma_b^2",
    "σ_w²": r"\sigma_w^2",
    "chi_J": r"\chi_J",
    "sigma_b^2": r"\sigma_b^2",
    "χ_J": r"\chi_J",
    "<": "<",
    "φ": r"\varphi",
}


def prose(text: str) -> str:
    """A sentence of the engine as LaTeX."""
    parts = re.split("(" + "|".join(map(re.escape, _MATH)) + ")", text)
    return "".join(f"${_MATH[p]}$" if p in _MATH else escape(p) for p in parts)


def _with_norm(theory: mf.Theory) -> tuple[str, str]:
    """ζ_K and ζ where K' is linear in K with slope < 1: K reaches K* exponentially, so that Σ (χ_J - 1) converges."""
    slope = sp.diff(sp.expand(mf.symbolic.closed(theory.one_input["K"])), K)
    return ("", "") if slope.has(K) else ("$0$", "$0$")


def _line(line: Any) -> str:
    if line.kind == "none":
        return f"none: {prose(line.message)}"
    if line.kind == "vertical":
        return rf"$\sigma_w = {shown(sp.simplify(line.sigma_w))}$, any $\sigma_b$"
    if line.kind in ("ray", "closed"):
        formula = tex(line.sigma_b)
        if line.kind == "ray" and (line.sigma_b.has(mf.symbolic.Average) or len(formula) > SHORT):
            return rf"$\sigma_b = {decimal(sp.N(line.sigma_b.subs(sigma_w, 1), 20))}\,\sigma_w$"
        return rf"$\sigma_b = {formula}$"
    formula = rf"$\sigma_w = {tex(line.sigma_w)}$, $\sigma_b = {tex(line.sigma_b)}$"
    if (
        not line.sigma_w.has(mf.symbolic.Average)
        and not line.sigma_b.has(mf.symbolic.Average)
        and len(formula) <= SHORT
    ):
        return formula
    return _sample(line)


def shown(e: sp.Expr) -> str:
    """A short expression as it is; otherwise, and where its integers are long, with ten digits; √(1 - μ²) outside."""
    text = tex(e)
    if len(text) <= 60 and not re.search(r"\d{6}", text):
        return text
    if not e.free_symbols:
        return decimal(sp.N(e, 20))
    factor = e.subs({s: 0 for s in e.free_symbols})  # e = factor·√(1 - μ²)
    return rf"{decimal(sp.N(factor, 20))}\,\sqrt{{1-\mu^2}}"


def _sample(line: Any) -> str:
    """Points of a parametric line, at the first three K* among 1, 10, 100, … with σ_b² ≥ 0 (then 0.1, 0.01, 0.001)."""
    found = []
    factor = r"\,\sqrt{1-\mu^2}" if line.parametric[0].free_symbols - {K} else ""
    for power in (0, 1, 2, 3, 4, 5, 6, -1, -2, -3):
        k = sp.Integer(10) ** power
        square_w, square_b = (_at_zero_skip(e.subs(K, k)) for e in line.parametric)
        if square_b >= 0 and square_w > 0:
            pair = r",\ ".join(decimal(sp.sqrt(v), 6) for v in (square_w, square_b))
            found.append(rf"$K^\ast = {tex(k)}$: $({pair}){factor}$")
        if len(found) == 3:
            break
    return "; ".join(found) or r"none found: $\sigma_b^2 < 0$ at $K^\ast = 10^{-3},\ \dots,\ 10^6$"


def _at_zero_skip(e: sp.Expr) -> sp.Expr:
    """A number of the line at one K*, taken at μ = 0: (1 - μ²) is a factor of σ_w² and of σ_b²."""
    return sp.N(e.subs({s: 0 for s in e.free_symbols}), 20)


def _point(point: Any) -> tuple[str, ...]:
    kind = point.kind + (f": {point.side}" if point.kind == "half-stable" else "")
    zeta_k = "" if point.zeta_K is None else f"${tex(point.zeta_K)}$"
    if point.zeta is not None:
        zeta = f"${number(point.zeta)}$"
    elif point.law_J is not None and point.law_J.rate != 0:
        rate = number(Solution(point.law_J.rate, Status.EXACT))
        zeta = rf"$\log J \sim {rate}\,\ell^{{{tex(point.law_J.rate_power)}}}$"
    else:
        zeta = "" if point.law_J is None else rf"$J \sim (\log\ell)^{{-{tex(point.law_J.law.leading.coefficient)}}}$"
    return (*(f"${number(v)}$" for v in (point.K, point.sigma_w, point.sigma_b)), kind, zeta_k, zeta)


def number(s: Solution) -> str:
    """An exact value where it is short, else ten digits."""
    if s.value == K:
        return r"\text{any}"
    if s.status is Status.EXACT or s.value.free_symbols:
        return shown(sp.sympify(s.value))
    return decimal(s.value)


def decimal(value: Any, digits: int = 10) -> str:
    return f"{float(value):.{digits}g}"


def _growth(theory: mf.Theory) -> str:
    """μ = 1: K grows for ever; what J does."""
    line = theory.critical_line()
    try:
        law = theory.depth_law("J")
    except MeanFieldError as error:
        return refusal(error)
    if line.kind == "everywhere":
        p = _positive(law.exponent)
        text = tex(p)
        if p.has(mf.symbolic.Average) or len(text) > SHORT or re.search(r"\d{6}", text):
            text = rf"{decimal(sp.N(p.subs({sigma_w: 1, sigma_b: 0}), 20))}\ \text{{at}}\ \sigma_b = 0"
        return rf"everywhere; $J \sim \ell^{{p}}$, $p = {text}$"
    rate = tex(law.rate)
    if len(rate) > SHORT or re.search(r"\d{6}", rate):
        rate = tex(law.rate.xreplace({r: sp.N(r, 10) for r in law.rate.atoms(sp.Rational) if len(str(r)) > 6}))
    power = "" if law.rate_power == 1 else f"^{{{tex(law.rate_power)}}}"
    return rf"none: $\log J \sim {rate}\,\ell{power}$"


def _positive(e: sp.Expr) -> sp.Expr:
    """The quotient with a sign pulled from its denominator into its numerator, where that removes a minus sign."""
    top, bottom = sp.fraction(sp.together(e))
    if not top.could_extract_minus_sign():
        return top / bottom
    return -top / sp.Mul(*[-f if k == 0 else f for k, f in enumerate(sp.Mul.make_args(sp.factor(bottom)))])
