r"""The average over one layer's weights: monomials → pairings → coincidences → expansion in 1/n → index structures.

A product of monomials (`monomials`) is averaged over this layer's W and b, given the layer before. The ensemble
(`ensembles`) says which labels on the left and on the right are equal; labels on the right that are left over are
summed, and a sum over all j, k is one over j = k and one over j ≠ k. What remains are averages E[f] over the layer
before, f of one or of several different neurons, which `layer_law` knows to order 1/n. Every step is kept, and prints
as on paper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import n
from meanfield.base.tex.tabular import stacked
from meanfield.symbolic.finite_width.ensembles import MOST_FACTORS, Ensemble, ensemble_of
from meanfield.symbolic.finite_width.haar.pairings import all_pairings, join, set_partitions
from meanfield.symbolic.finite_width.monomials import Label, Structure, WeightMonomial, monomial_product
from meanfield.symbolic.finite_width.neuron_fields import (
    LETTERS,
    TENSOR_LATEX,
    Expected,
    canonical,
    labels_of,
    relabelled,
)

C_W = sp.Symbol("C_W", nonnegative=True)
C_b = sp.Symbol("C_b", nonnegative=True)
Law1 = Callable[[sp.Expr], tuple[sp.Expr, sp.Expr]]  # E[f] = first + second/n + O(1/n²)


@dataclass(frozen=True)
class LabelPairing:
    """coefficient · δ_structure(i) · Σ of the summand over one label for each of `groups`, labels on the right that are
    equal: a monomial after the average over W and b."""

    structure: Structure
    coefficient: sp.Expr
    groups: tuple[tuple[Label, ...], ...]
    summand: sp.Expr

    @property
    def labels(self) -> tuple[Label, ...]:
        """One label of each group."""
        return tuple(g[0] for g in self.groups)


@dataclass(frozen=True)
class WeightAverage:
    """E[product of monomials] over one layer's W and b, step by step.

    of: what was averaged, as it prints; monomials; pairings: after the average over W and b, labels on the right still
    summed over all neurons; sums: {structure: {f: coefficient}} after coincidences were told apart, the value being
    Σ coefficient · E[f] with f of different neurons, exact in n. `expanded(law)` puts in what is known of E[f].
    str(), `text` and `latex` print all of it.
    """

    of: str
    monomials: tuple[WeightMonomial, ...]
    ensemble: Ensemble
    pairings: tuple[LabelPairing, ...]
    sums: dict[Structure, dict[sp.Expr, sp.Expr]] = field(hash=False)

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The index structures that occur: which labels on the left are equal."""
        return tuple(self.sums)

    def exact(self, *structure: Iterable[Label]) -> sp.Expr:
        """The coefficient of one structure, exact in n: rational functions of n times averages E[f]."""
        found = self.sums.get(structure_of(*structure), {})
        return sp.Add(*[c * Expected(f) for f, c in found.items()])

    def expanded(self, law: Law1, order: int = 1) -> dict[Structure, tuple[sp.Expr, ...]]:
        """{structure: (coefficient of n⁰, of 1/n)}, E[f] put in from `law`.

        Raises: MeanFieldError for an order other than 0 or 1, or where a positive power of n is left.
        """
        if order not in (0, 1):
            raise MeanFieldError(f"Averages of the layer before are known to order 1/n; order {order} was asked for.")
        return {s: _expanded(found, law)[: order + 1] for s, found in self.sums.items()}

    def __str__(self) -> str:
        return self.text()

    def text(self, law: Law1 | None = None) -> str:
        """The steps as text; with the `law` of the layer before also the expansion in 1/n and what it adds up to."""
        return "\n".join(self._steps(_PLAIN, law))

    def latex(self, law: Law1 | None = None, *more: str) -> str:
        r"""The same as LaTeX: one align* of amsmath, a line for each term; more: further lines."""
        return stacked((*self._steps(_TEX, law), *more))

    def _steps(self, how: _Writer, law: Law1 | None) -> list[str]:
        name, deltas = how.name, lambda s: structure_text(s, how.name, how.delta) or how.title("no delta")
        law_of_W = {"gaussian": "Gaussian"}.get(self.ensemble.name, self.ensemble.name)
        lines = [how.average(self.of) + how.title(f" over {law_of_W} W and b:")]
        lines.append(how.title("monomials; those with an odd number of W or of b vanish"))
        lines += ["  + " + how.monomial(w) for w in self.monomials]
        lines.append(how.title("pairings: equal labels"))
        for p in self.pairings:
            which = ", ".join("=".join(map(name, g)) for g in p.groups)
            summed = how.total.format(which) + name(p.summand) if which else ""
            lines.append(
                "  + " + how.dot.join(b for b in (deltas(p.structure), how.factor(p.coefficient), summed) if b)
            )
        lines.append(how.title("coincidences: neurons j, k, ... are different"))
        for s, found in self.sums.items():
            lines.append(f"  {deltas(s)}:")
            lines += [
                "    + " + (how.factor(c) + how.dot + name(Expected(f)) if f != 1 else name(c))
                for f, c in found.items()
            ]
        return lines if law is None else lines + self._expansion(how, law)

    def _expansion(self, how: _Writer, law: Law1) -> list[str]:
        name, lines = how.name, [how.title("expansion: E[f] = <f> + (...)/n of the layer before, n its width")]
        for f in dict.fromkeys(f for found in self.sums.values() for f in found if f != 1):
            zeroth, first = law(f)
            left, *more = how.over_n(first)
            lines += [f"  {name(Expected(f))} = {name(zeroth)} + {left}", *more]
        lines.append(how.title("collected: order 1, and order 1/n"))
        for s, (zeroth, first) in self.expanded(law).items():
            lines.append(f"  {structure_text(s, name, how.delta) or how.title('no delta')}:")
            left, *more = how.over_n(first)
            lines += [f"    {name(zeroth)}", f"    + {left}", *more]
        return lines


@dataclass(frozen=True)
class _Writer:
    """How steps are written: as text or as LaTeX."""

    name: Callable[[Any], str]
    monomial: Callable[[WeightMonomial], str]
    title: Callable[[str], str]
    delta: str
    total: str
    dot: str
    average: Callable[[str], str]
    over_n: Callable[[sp.Expr], list[str]]

    def factor(self, e: sp.Expr) -> str:
        """An expression as a factor of a product: sums, and what begins with a minus sign, in brackets."""
        return f"({self.name(e)})" if e.is_Add or e.could_extract_minus_sign() else self.name(e)


def _averaged(of: str) -> str:
    r"""E[…] of what is averaged as LaTeX: z'_{i1} as z'_{i_{1}}, dH' as \widehat{dH}'."""
    named = re.sub(r"\b(ddII|ddI|dH|H)(?=')", lambda m: TENSOR_LATEX[m[0]], of)
    labelled = re.sub("([ij])([0-9]+)", r"\1_{\2}", named)
    return rf"\mathbb{{E}}\left[{labelled}\right]"


def _titled(text: str) -> str:
    escaped = re.sub(r"[_^{}]", lambda m: "\\" + m[0], text)
    return rf"\text{{{escaped}}}".replace("<f>", r"$\langle f \rangle$")


def _over_n(e: sp.Expr) -> list[str]:
    """An expression over n in brackets that may be parted by the end of a line."""
    return [rf"\frac{{1}}{{n}} \Bigl({''.join(_signed(e))}\Bigr)"]


def _signed(e: sp.Expr) -> list[str]:
    found: list[str] = []
    for term in e.as_ordered_terms():
        text = sp.latex(term)
        found.append(text if not found else f" {text}" if text.startswith("-") else f" + {text}")
    return found


_PLAIN = _Writer(str, str, str, "δ_{{{} {}}}", "Σ_{{{}}} ", " * ", "E[{}]".format, lambda e: [f"({e})/n"])
_TEX = _Writer(
    sp.latex,
    WeightMonomial.latex,
    _titled,
    r"\delta_{{{} {}}}",
    r"\sum_{{{}}} ",
    r" \, ",
    _averaged,
    _over_n,
)


def structure_text(structure: Structure, name: Callable[[Any], str] = str, delta: str = "δ_{{{} {}}}") -> str:
    """Kronecker deltas of a structure: δ_{i1 i2} δ_{i3 i4}."""
    return " ".join(delta.format(name(b[0]), name(x)) for b in structure for x in b[1:])


def structure_of(*blocks: Iterable[Label]) -> Structure:
    """Blocks of equal labels in their canonical order; single labels are left out."""
    sorted_ = [tuple(sorted(b, key=_natural)) for b in blocks]
    return tuple(sorted((b for b in sorted_ if len(b) > 1), key=lambda b: _natural(b[0])))


def _natural(label: Label) -> tuple[int, str]:
    return len(label.name), label.name


def average_over_weights(
    *factors: Sequence[WeightMonomial],
    weights: object = "gaussian",
    variance: sp.Expr = C_W,
    bias: sp.Expr = C_b,
    size: sp.Expr | None = None,
    fan_in: sp.Expr = n,
    of: str = "product",
) -> WeightAverage:
    r"""E over W and b of a product of sums of monomials, all of one layer, given the layer before.

    factors: sums of monomials (`quantity`, or `WeightMonomial`s of one's own), no more than 8 W's in a monomial after
    multiplication; weights: "gaussian", "orthogonal", "uniform" or an `Independent`; variance: C_W, entries having
    variance C_W/n; bias: C_b, of Gaussian biases; size: P, the larger of fan-in and fan-out, of which an orthogonal W
    is a block (n unless given); fan_in: n, the number of labels on the right (a symbol, or an integer for values at
    that n).

    Raises: MeanFieldError for an unknown ensemble, too many factors, or a cumulant that is needed and not given.
    Source: derived here; [orthogonal_weights] (4.9)-(4.16) is the case of four preactivations.

    >>> from meanfield.symbolic.finite_width.neuron_fields import left
    >>> from meanfield.symbolic.finite_width.monomials import quantity
    >>> z = [quantity("z", [i]) for i in left(1, 2)]
    >>> print(average_over_weights(*z, of="z'_1 z'_2"))
    E[z'_1 z'_2] over Gaussian W and b:
    monomials; those with an odd number of W or of b vanish
      + Σ_{j1 j2} W_{i1 j1} W_{i2 j2} σ_{j1}*σ_{j2}
      + b_{i1} b_{i2}
    pairings: equal labels
      + δ_{i1 i2} * C_W/n * Σ_{j1=j2} σ_{j1}**2
      + δ_{i1 i2} * C_b
    coincidences: neurons j, k, ... are different
      δ_{i1 i2}:
        + C_W * E[σ_{j}**2]
        + C_b
    """
    ensemble = ensemble_of(weights)
    monomials, pairings = paired(
        factors, ensemble, variance, bias, fan_in if size is None else sp.sympify(size), fan_in
    )
    return WeightAverage(of, monomials, ensemble, pairings, _distinguished(pairings, fan_in))


def paired(
    factors: Sequence[Sequence[WeightMonomial]],
    ensemble: Ensemble,
    variance: sp.Expr,
    bias: sp.Expr,
    size: sp.Expr,
    fan_in: sp.Expr,
) -> tuple[tuple[WeightMonomial, ...], tuple[LabelPairing, ...]]:
    """(the monomials that do not vanish, what they are after the average over W and b); see `average_over_weights`."""
    monomials = [w for w in monomial_product(*factors) if len(w.weights) % 2 == 0 == len(w.biases) % 2]
    found: dict[tuple, sp.Expr] = {}
    for monomial in monomials:
        if len(monomial.weights) > MOST_FACTORS:
            raise MeanFieldError(
                f"A product of {len(monomial.weights)} weights of one layer is not available: at most {MOST_FACTORS} "
                "are averaged over."
            )
        for one in _paired(monomial, ensemble, variance, bias, size, fan_in):
            key = (one.structure, one.groups, one.summand)
            found[key] = found.get(key, sp.S.Zero) + one.coefficient
    pairings = (LabelPairing(s, sp.factor(c), groups, f) for (s, groups, f), c in found.items() if c != 0)
    return tuple(monomials), tuple(pairings)


def _paired(monomial: WeightMonomial, ensemble: Ensemble, variance, bias, size, fan_in) -> Iterable[LabelPairing]:
    """The terms of one monomial: labels on the left that are equal, one label for each group of equal ones on the
    right."""
    lefts, rights = [i for i, _ in monomial.weights], [j for _, j in monomial.weights]
    summand = monomial.summand.xreplace({n: fan_in}) if fan_in != n else monomial.summand
    number, rest = sp.expand(summand).as_independent(*_fields(summand)) if _fields(summand) else (summand, sp.S.One)
    for weights in ensemble.contractions(len(rights), variance, fan_in, size):
        for pairs in all_pairings(len(monomial.biases) // 2):
            blocks = [[lefts[p] for p in b] for b in weights.left] + [[monomial.biases[p] for p in b] for b in pairs]
            structure = structure_of(*join(blocks, monomial.deltas))
            groups = [tuple(rights[p] for p in b) for b in weights.right] + [(label,) for label in monomial.free]
            renamed = relabelled(rest, {x: g[0] for g in groups for x in g})
            coefficient = weights.coefficient * number * bias ** (len(monomial.biases) // 2)
            yield LabelPairing(structure, coefficient, tuple(groups), renamed)


def _fields(f: sp.Expr) -> list[sp.Expr]:
    return [a for a in f.atoms(sp.Function) if labels_of(a)]


def _distinguished(pairings: Sequence[LabelPairing], fan_in: sp.Expr) -> dict[Structure, dict[sp.Expr, sp.Expr]]:
    """Sums over all labels as sums over different neurons: n(n − 1)… times the average of one term."""
    found: dict[Structure, dict[sp.Expr, sp.Expr]] = {}
    for one in pairings:
        here = found.setdefault(one.structure, {})
        for blocks in set_partitions(one.labels):
            new = {x: LETTERS[i] for i, b in enumerate(blocks) for x in b}
            f = canonical(relabelled(one.summand, new))
            many = prod((fan_in - i for i in range(len(blocks))), start=sp.S.One)
            here[f] = here.get(f, sp.S.Zero) + one.coefficient * many
    cleaned = {s: {f: one for f, c in fs.items() if (one := sp.factor(c)) != 0} for s, fs in found.items()}
    return {s: fs for s, fs in sorted(cleaned.items(), key=lambda item: str(item[0])) if fs}


def _expanded(found: dict[sp.Expr, sp.Expr], law: Law1) -> tuple[sp.Expr, sp.Expr]:
    zeroth, first = [], []
    for f, coefficient in found.items():
        c0, c1 = leading(coefficient)
        m0, m1 = law(f)
        zeroth.append(c0 * m0)
        first.append(c0 * m1 + c1 * m0)
    return sp.expand(sp.Add(*zeroth)), sp.expand(sp.Add(*first))


@lru_cache(maxsize=4096)
def leading(coefficient: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The coefficients of n⁰ and of 1/n of a rational function of n without positive powers.

    Raises: MeanFieldError where it grows with n.
    """
    above, below = sp.fraction(sp.together(coefficient))
    p, q = sp.Poly(above, n), sp.Poly(below, n)
    gap = q.degree() - p.degree()
    if p.is_zero or gap > 1:
        return sp.S.Zero, sp.S.Zero
    if gap < 0:
        raise MeanFieldError(f"{coefficient} grows with n: its monomial is no correlator of order 1/n.")
    a, b = p.LC(), q.LC()
    if gap == 1:
        return sp.S.Zero, sp.cancel(a / b)
    a1, b1 = (poly.coeff_monomial(n ** (poly.degree() - 1)) if poly.degree() else sp.S.Zero for poly in (p, q))
    return sp.cancel(a / b), sp.cancel((a1 - a * b1 / b) / b)
