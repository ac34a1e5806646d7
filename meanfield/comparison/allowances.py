"""What finite width adds to a prediction: a bias of order 1/n, from the theory of order 1/n where
`finite_width_allowance` has it, else measured on narrower networks.

Where the networks are wide against their depth, the bias b/n is the difference of two narrower ensembles, b =
(X(n₁) − X(n₂))/(1/n₁ − 1/n₂), for every quantity and layer: at n₁ = n/32, n₂ = n/16 its error is small against that of
X(n). Small networks: J with one number a in a (l − 1)/n, Theta and J0 as 2 X(n) − X(n/2), K as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.quantities import GRADIENTS, LOGARITHMIC, QUANTITIES, RELATIVE, columns
from meanfield.comparison import check_gradients
from meanfield.comparison.check_report import THRESHOLD, Row, threshold
from meanfield.comparison.finite_width_allowance import FiniteWidthCorrections, sentences
from meanfield.empirical import EnsembleResult

SHARE = 16  # the narrower of the two ensembles that measure the bias has 1/(2·SHARE) of the width
DEEP = 4  # neurons a layer that the narrowest ensemble must have: corrections of second order are then (l/n)²


def narrower(width: int, depth: int) -> tuple[int, ...]:
    """The widths n₂ > n₁ of the ensembles that measure the bias, or n/2 alone where n is small against the depth."""
    first = max(width // (2 * SHARE), DEEP * depth)
    return (2 * first, first) if 4 * first <= width else (max(1, width // 2),)


def narrower_layers(widths: Sequence[int], depth: int, step: int = 1) -> tuple[tuple[int, ...], ...]:
    """The same for layers of different widths, all by one factor, so that the bias stays one of order 1/n.

    step: what widths must be multiples of, beside their present quotients (denominators of `expand`).
    """
    shared = math.gcd(*widths) // step
    if shared < 2:
        raise MeanFieldError(
            f"A check measures the bias of finite width on networks that are narrower by one factor, but the widths "
            f"{', '.join(map(str, dict.fromkeys(widths)))} have {math.gcd(*widths)} as their common divisor"
            f"{f', of which {step} is needed' if step > 1 else ''}; take multiples of a larger number."
        )
    quotients = [w // shared for w in widths]
    least = min(quotients)
    first = max(shared // (2 * SHARE), -(-DEEP * depth // least))
    factors = (2 * first, first) if 4 * first <= shared else (shared // 2,)
    return tuple(tuple(k * q for q in quotients) for k in factors)


def compare(
    run: Any,
    result: EnsembleResult,
    others: tuple[EnsembleResult, ...],
    names: tuple[str, ...],
    derived: FiniteWidthCorrections | None = None,
    next_order: float = 0.0,
) -> tuple[list[Row], dict, list[str]]:
    """(rows, log scale of J, notes): one propagated theory against one ensemble; the narrower `others` fix the
    allowances of what is not `derived`, which are right but for a share `next_order` of themselves."""
    derived = derived or FiniteWidthCorrections()
    forwards, backwards = ([q for q in names if (q in GRADIENTS) == which] for which in (False, True))
    rows, log_scale, notes = _forwards(run, result, others, tuple(forwards), derived, next_order)
    each = [name for q in backwards for name in columns(q, run)]
    for name in each:
        rows += _gradient_rows(name, run, (result, *others))
    return judged(rows, result.networks), log_scale, notes + [check_gradients.UNITS] * bool(each)


def judged(rows: list[Row], networks: int) -> list[Row]:
    """The rows with their verdicts: of few networks standard errors scatter, and more of them pass."""
    most = threshold(networks, THRESHOLD)
    return [replace(row, passed=bool(abs(row.z) <= most)) for row in rows]


def _forwards(
    run: Any,
    result: EnsembleResult,
    others: tuple[EnsembleResult, ...],
    names: tuple[str, ...],
    derived: FiniteWidthCorrections,
    next_order: float,
) -> tuple[list[Row], dict, list[str]]:
    """The rows of what goes from the first layer on."""
    reach = min(result.finite_depth, int(run.diverged_at) - 1 if int(run.diverged_at) else result.depth)
    notes = [run.message()] if run.message() else []
    if result.finite_depth < result.depth:
        notes.append(
            f"The networks overflow (or normalize equal numbers) at layer {result.finite_depth + 1}; "
            "rows end before it."
        )
    rows: list[Row] = []
    log_scale = {"J": np.asarray(run.log_J)[:reach].tolist()} if "J" in names else {}
    for q in names:
        if _nothing(q, run, reach).any():
            notes.append(f"Where the theory's {q} is exactly 0, its rows are absolute, and only networks at 0 pass.")
    notes += sentences(derived)
    for q in names:
        if q in derived.of:
            rows += _with_derived_bias(q, run, result, reach, derived)
    names = tuple(q for q in names if q not in derived.of)
    if len(others) == 2:
        for q in names:
            rows += _with_measured_bias(q, run, (result, *others), reach, next_order)
        n2, n1 = (other.width for other in others)
        if names:
            notes.append(
                f"allowance{' of ' * bool(derived.of)}{', '.join(names) * bool(derived.of)}: the bias of order 1/n, "
                f"measured on networks of widths {n1} and {n2}; its error is in +-."
            )
        return rows, log_scale, notes
    for q in names:
        if q in RELATIVE and not others:
            continue
        if q == "J" and not _varies(result):
            more, note = _jacobian_rows(run, result, others[0], reach)
            notes.append(note)
        elif q in RELATIVE:
            more = _extrapolated(q, run, result, others[0], reach)
            notes.append(
                f"{q} is measured as 2 {q}(n) - {q}(n/2) from widths {result.width} and {others[0].width}; "
                "it needs no allowance."
            )
        elif q not in result.samples:  # ratios of means, with a jackknife's error
            found = result.estimate(q)
            pair = np.stack([found.mean[:reach]] * 2)
            more = _rows(q, run.l[:reach], getattr(run, q)[:reach], np.zeros(reach), pair, found.standard_error[:reach])
        else:
            values = result.samples[q][:, :reach]
            more = _rows(q, run.l[:reach], getattr(run, q)[:reach], np.zeros(reach), values, None)
        rows += more
    return rows, log_scale, notes


def _varies(result: Any) -> bool:
    """Whether layers have different widths: the bias of J is then not a·(l - 1)/n."""
    return len(set(getattr(result, "widths", ()))) > 1


def _with_derived_bias(
    quantity: str, run: Any, result: EnsembleResult, reach: int, derived: FiniteWidthCorrections
) -> list[Row]:
    """Rows of one quantity whose correction of order 1/n is derived; J and Theta in units of the prediction."""
    predicted = _unit(quantity, run, reach)
    log = np.concatenate((predicted, np.zeros(result.finite_depth - reach))) if quantity in LOGARITHMIC else 0.0
    found = result.estimate(quantity, log_scale=log)
    unit = predicted if quantity == "Theta" else np.ones(reach)
    mean, error = found.mean[:reach] / unit, found.standard_error[:reach] / unit
    target = np.ones(reach) if quantity in RELATIVE else predicted
    first = derived.of[quantity][0][:reach] / result.width
    rest = derived.next_order(quantity, result.width, result.networks * error**2)
    return _rows(quantity, run.l[:reach], target, first, np.stack([mean, mean]), np.hypot(error, rest))


def _with_measured_bias(
    quantity: str, run: Any, ensembles: tuple[EnsembleResult, ...], reach: int, next_order: float
) -> list[Row]:
    """Rows of one quantity, J, J0 and Theta in units of the prediction."""
    wide, middle, narrow = ensembles
    reach = min(reach, *(one.finite_depth for one in ensembles))
    predicted, nothing = _unit(quantity, run, reach), _nothing(quantity, run, reach)
    relative, logarithm = quantity in RELATIVE, quantity in LOGARITHMIC
    unit = predicted if quantity == "Theta" else np.ones(reach)

    def moments(one: EnsembleResult) -> tuple[np.ndarray, np.ndarray]:
        log = np.concatenate((predicted, np.zeros(one.finite_depth - reach))) if logarithm else 0.0
        found = one.estimate("J" if logarithm else quantity, log_scale=log)
        return found.mean[:reach] / unit, found.standard_error[:reach] / unit

    (mean, error), (m2, e2), (m1, e1) = (moments(one) for one in (wide, middle, narrow))
    factor = (1 / wide.width) / (1 / narrow.width - 1 / middle.width)
    allowance = factor * (m1 - m2)
    total = np.sqrt(error**2 + factor**2 * (e1**2 + e2**2) + (next_order * allowance) ** 2)
    target = np.where(nothing, 0.0, 1.0) if relative else predicted
    allowance = np.where(nothing, 0.0, allowance)
    rows = _rows(quantity, run.l[:reach], target, allowance, np.stack([mean, mean]), total)
    return _at_zero(rows, nothing, ensembles)


def _gradient_rows(name: str, run: Any, ensembles: tuple[EnsembleResult, ...]) -> list[Row]:
    """Rows of one gradient in units of the prediction: with two narrower ensembles, the bias of order 1/n they show as
    an allowance, with one, 2 X(n) - X(n/2) and none."""
    depth = ensembles[0].depth
    if int(run.diverged_at) or any(one.finite_depth < depth for one in ensembles):
        return []  # not every network reaches the layer that gradients start from
    here, found, nothing = check_gradients.parts(name, run, ensembles, depth)
    (mean, error), (m2, e2) = found[0], found[1]
    if len(found) == 3:
        (m1, e1), (wide, middle, narrow) = found[2], ensembles
        factor = (1 / wide.width) / (1 / narrow.width - 1 / middle.width)
        allowance, total = factor * (m1 - m2), np.sqrt(error**2 + factor**2 * (e1**2 + e2**2))
    else:
        mean, allowance, total = 2 * mean - m2, np.zeros(len(here)), np.sqrt(4 * error**2 + e2**2)
    target, allowance = np.where(nothing, 0.0, 1.0), np.where(nothing, 0.0, allowance)
    rows = _rows(name, run.l[here], target, allowance, np.stack([mean, mean]), total)
    for i in np.flatnonzero(nothing):
        zero = check_gradients.exactly_zero(name, ensembles, int(here[i]))
        rows[i] = replace(rows[i], z=0.0 if zero else math.inf)
    return rows


def _extrapolated(quantity: str, run: Any, full: EnsembleResult, half: EnsembleResult, reach: int) -> list[Row]:
    """Rows of 2 X(n) - X(n/2) in units of the prediction: what is left of the bias is of order 1/n²."""
    reach = min(reach, half.finite_depth)
    name, predicted = "log_J" if quantity in LOGARITHMIC else quantity, _unit(quantity, run, reach)
    nothing = _nothing(quantity, run, reach)

    def scaled(result: EnsembleResult) -> np.ndarray:
        values = result.samples[name][:, :reach]
        return np.exp(values - predicted) if quantity in LOGARITHMIC else values / predicted

    wide, narrow = scaled(full), scaled(half)
    mean = 2 * wide.mean(axis=0) - narrow.mean(axis=0)
    error = np.sqrt(4 * wide.var(axis=0, ddof=1) / len(wide) + narrow.var(axis=0, ddof=1) / len(narrow))
    target = np.where(nothing, 0.0, 1.0)
    rows = _rows(quantity, run.l[:reach], target, np.zeros(reach), np.stack([mean, mean]), error)
    return _at_zero(rows, nothing, (full, half))


def _nothing(quantity: str, run: Any, reach: int) -> np.ndarray:
    """Where the theory's J, J0 or Theta is exactly 0 (σ_w = 0, φ′ = 0): it is no unit there, and leaves no spread."""
    if quantity == "Theta":
        return np.asarray(run.Theta)[:reach] == 0
    if quantity in LOGARITHMIC:
        return np.isneginf(np.asarray(getattr(run, QUANTITIES[quantity].key))[:reach])
    return np.zeros(reach, dtype=bool)


def _unit(quantity: str, run: Any, reach: int) -> np.ndarray:
    """The theory's value, the logarithm of J and J0, and where that is exactly 0, the unit 1 (whose logarithm is 0)."""
    name = QUANTITIES[quantity].key if quantity in LOGARITHMIC else quantity
    values = np.asarray(getattr(run, name))[:reach]
    return np.where(_nothing(quantity, run, reach), 1.0 if quantity == "Theta" else 0.0, values)


def _at_zero(rows: list[Row], nothing: np.ndarray, ensembles: tuple[EnsembleResult, ...]) -> list[Row]:
    """`rows`, those where the theory is exactly 0 judged exactly: a J that is never negative is 0 in the mean only if
    it is 0 in every network of every width, and one that is not fails, whatever its spread."""
    for i in np.flatnonzero(nothing[: len(rows)]):
        zero = all(_all_zero(one, rows[i].quantity, int(i)) for one in ensembles)
        rows[i] = replace(rows[i], z=0.0 if zero else math.inf)
    return rows


def _all_zero(result: EnsembleResult, quantity: str, i: int) -> bool:
    """Whether every network measured exactly 0 in column `i`; a J too small for a double is not 0."""
    if quantity == "Theta":
        return bool((np.abs(result.summary.means["Theta"][:, i]) == 0).all())
    if "log_J" in result.samples:
        return bool(np.isneginf(result.samples["log_J"][:, i]).all())
    return bool((result.summary.means["J"][:, i] == 0).all())  # each block in units of its largest


def _rows(quantity, layers, predicted, allowance, samples, error) -> list[Row]:
    predicted = np.broadcast_to(np.asarray(predicted, dtype=float), (len(layers),))
    # a K near 1e300 has a mean, but its square overflows: work in units of the largest sample
    unit = np.maximum(np.abs(samples).max(axis=0), 1e-300)
    mean = (samples / unit).mean(axis=0) * unit
    se = (samples / unit).std(axis=0, ddof=1) * unit / np.sqrt(len(samples)) if error is None else error
    out = []
    for i, layer in enumerate(layers):
        gap = mean[i] - predicted[i] - allowance[i]
        # what every network shares exactly (J at its first layer) has no spread: only rounding may separate it from the
        # theory
        z = (
            0.0
            if abs(gap) <= 1e-9 * abs(predicted[i]) and se[i] <= 1e-9 * abs(predicted[i])
            else gap / se[i]
            if se[i] > 0
            else np.inf
        )
        out.append(
            Row(
                quantity,
                int(layer),
                float(predicted[i]),
                float(allowance[i]) + 0.0,  # no -0
                float(mean[i]),
                float(se[i]),
                float(z),
                False,  # until `judged`
            )
        )
    return out


def _jacobian_rows(run: Any, full: EnsembleResult, half: EnsembleResult, reach: int) -> tuple[list[Row], str]:
    """J in units of its prediction, with the bias a·(l-1)/n that two widths show: E J_n = J (1 + a (l-1)/n).

    a is a fixed linear functional of the per-network values (weights from the spread), so its error, and its covariance
    with the row it corrects, follow from plain sample variances.
    """
    layers, log_j, nothing = run.l[:reach], _unit("J", run, reach), _nothing("J", run, reach)
    target, most = np.where(nothing, 0.0, 1.0), min(reach, half.finite_depth)
    with np.errstate(over="ignore"):
        wide = np.exp(full.samples["log_J"][:, :reach] - log_j)
        narrow = np.exp(half.samples["log_J"][:, :most] - log_j[:most])
    steps = np.where(nothing, 0.0, (layers - 1).astype(float))  # no bias where there is no J
    reach = narrow.shape[1]
    spread = wide[:, :reach].var(axis=0, ddof=1) + narrow.var(axis=0, ddof=1)
    weight = np.where(spread > 0, steps[:reach] / np.where(spread > 0, spread, 1.0), 0.0)
    norm = float((weight * steps[:reach]).sum()) * (1 / half.width - 1 / full.width)
    if norm <= 0:
        rows = _rows("J", layers, target, np.zeros(len(layers)), wide, None)
        return _at_zero(rows, nothing, (full, half)), "J is compared without allowance."
    functional_wide = (wide[:, :reach] * weight).sum(axis=1) / norm
    functional_narrow = (narrow * weight).sum(axis=1) / norm
    a = functional_narrow.mean() - functional_wide.mean()
    a_error = np.sqrt(functional_narrow.var(ddof=1) / len(narrow) + functional_wide.var(ddof=1) / len(wide))
    corrected = wide + functional_wide[:, None] * steps / full.width
    error = np.sqrt(
        corrected.var(axis=0, ddof=1) / len(wide)
        + (steps / full.width) ** 2 * functional_narrow.var(ddof=1) / len(narrow)
    )
    note = (
        f"allowance of J: a (l-1)/n with a = {a:.2f} +- {a_error:.2f}, fitted from widths {full.width} and "
        f"{half.width}; K carries none."
    )
    rows = _rows("J", layers, target, a * steps / full.width, wide, error)
    return _at_zero(rows, nothing, (full, half)), note
