r"""The allowance of a check from the theory of order 1/n: n(E K − K) = G1, n(E J − J) = J1, n(E Θ − Θ) = Theta1.

What is left over is of order 1/n². It is taken to be r(r + l/n + s²) of the theory's value, r the largest share
|allowance|/theory up to layer l and s² the relative variance from network to network: the first term once more times
what it is expanded in. It is no bound that was proved; `test_allowances.py` holds it against narrow networks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.quantities import COVARIANCES, QUANTITIES
from meanfield.correlators.derived import plain, remembering
from meanfield.networks.folds import has_skip
from meanfield.networks.records import Param
from meanfield.numeric.finite_width.fluctuations import with_corrections
from meanfield.numeric.finite_width.pair_corrections import pair_corrections

CORRECTION = {q.corrects: n for n, q in QUANTITIES.items() if q.corrects and q.order == 1}
CORRECTION |= dict.fromkeys(COVARIANCES, CORRECTION["K"])
LARGEST = 0.25  # of l/n, and of an allowance in units of the theory: beyond, 1/n is not small
DEEPEST = 100  # layers beside a skip, whose neurons remember all of them
ByQuantity = dict[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class FiniteWidthCorrections:
    """What the theory knows of finite width, by quantity: (n times the allowance, the size of the quantity), layer by
    layer in the units of a report's rows; and for the other quantities, in a sentence, why nothing is derived."""

    of: ByQuantity = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def next_order(self, quantity: str, width: int, variance: np.ndarray) -> np.ndarray:
        """What the terms of order 1/n² may be; variance: of one network's value, layer by layer."""
        found, size = (x[: len(variance)] for x in self.of[quantity])
        share, spread = (np.maximum.accumulate(x) for x in (np.abs(found / size) / width, variance / size**2))
        return size * share * (share + np.arange(1, len(share) + 1) / width + spread)


def corrections(
    theory: Any, run: Any, names: tuple[str, ...], widths: tuple[int, ...], settings: dict[str, Any]
) -> FiniteWidthCorrections:
    """What the theory knows of `names` at finite width; run: what was propagated for the check; settings: what
    `propagate` takes for it."""
    of: ByQuantity = {}
    why = _refused(theory, run, widths)
    possible = [q for q in names if q in CORRECTION]
    usual = "those of K, J and Theta of one input, and of K_aa, K_ab and K_bb together, are"
    reasons = {q: why or usual for q in names if why or q not in CORRECTION}
    groups: list[tuple[list[str], Callable[..., ByQuantity]]] = [
        ([q for q in possible if q in ("K", "J")], _of_one_input),
        ([q for q in possible if q == "Theta"], _by_recursion),
        ([q for q in possible if q in COVARIANCES], _of_two_inputs),
    ]
    for group, derived in groups if not why else ():
        try:
            found = derived(theory, run, group, settings) if group else {}
        except MeanFieldError as error:
            reasons |= dict.fromkeys(group, _sentence(error))
            continue
        for q, (values, size) in found.items():
            largest = np.abs(values / size).max() / widths[0]
            if not np.isfinite(largest):
                reasons[q] = f"{CORRECTION[q]} is not finite"
            elif largest > LARGEST:
                reasons[q] = f"{CORRECTION[q]}/n is {largest:.2g} of {q}, which is not small"
            else:
                of[q] = values, size
    return FiniteWidthCorrections(of, reasons)


def _refused(theory: Any, run: Any, widths: tuple[int, ...]) -> str:
    """Why no correction is asked of the theory at all, "" where it is."""
    depth = len(run.l)
    if len(set(widths)) > 1:
        return "layers have different widths"
    if depth > LARGEST * widths[0]:
        return f"{depth} layers of {widths[0]} neurons are too many for an expansion in l/n"
    if int(run.diverged_at):
        return "K diverges"
    if has_skip(theory.block) and depth > DEEPEST:
        return f"with a skip they are derived for at most {DEEPEST} layers"
    for name in ("K", "K_aa", "K_bb", "log_J", "Theta"):
        values = run.values.get(name, np.ones(1))
        if (np.isneginf(values) if name == "log_J" else values == 0).any():
            return f"{name.removeprefix('log_')} is exactly 0"
    return ""


def _of_one_input(theory: Any, run: Any, group: list[str], settings: dict[str, Any]) -> ByQuantity:
    """Of K and J. Raises: MeanFieldError where they are not derived."""
    asked = tuple(CORRECTION[q] for q in group)
    try:
        phi, mu = remembering(theory.block, theory.first, asked, {})
    except MeanFieldError:
        if has_skip(theory.block):
            raise
        return _by_recursion(theory, run, group, settings)
    # Gaussian weights: nothing is compiled
    return _in_rows(with_corrections(run, asked, phi, mu.name if isinstance(mu, Param) else float(mu)), group)


def _by_recursion(theory: Any, run: Any, group: list[str], settings: dict[str, Any]) -> ByQuantity:
    given = {k: v for k, v in settings.items() if k not in ("correlation", "N0")}
    return _in_rows(theory.propagate(**given, quantities=tuple(CORRECTION[q] for q in group)), group)


def _in_rows(run: Any, group: list[str]) -> ByQuantity:
    """Of K as it is, of J and Theta in units of the theory."""
    ones = np.ones(len(run.l))
    found = {q: run.normalized(CORRECTION[q]) for q in group}
    return {q: (run.G1, run.K) if q == "K" else (values, ones) for q, values in found.items()}


def _of_two_inputs(theory: Any, run: Any, group: list[str], settings: dict[str, Any]) -> ByQuantity:
    if not set(COVARIANCES) <= set(run.values):
        raise MeanFieldError("K_aa, K_ab and K_bb are corrected together")
    if has_skip(theory.block):
        raise MeanFieldError("with a skip those of one input are")
    phi, law = plain(theory.block, theory.first, "G1")
    if law != "gaussian":
        raise MeanFieldError(f"of two inputs they are derived for Gaussian weights, and these are {law}")
    K_aa, K_ab, K_bb = (run.values[name] for name in ("K_aa", "K_ab", "K_bb"))
    C_W = np.broadcast_to(np.asarray(run.parameters["sigma_w"], dtype=float), K_aa.shape)[1:] ** 2
    found = pair_corrections(phi, K_aa, K_ab, K_bb, C_W)
    sizes = {"K_aa": K_aa, "K_ab": np.sqrt(K_aa * K_bb), "K_bb": K_bb}
    return {q: (found[q], sizes[q]) for q in group}


def _sentence(error: MeanFieldError) -> str:
    """The reason in a refusal, without what was asked for and what to do."""
    sentence = str(error).rstrip(".").removesuffix("; mf.measure gives what its networks have")
    for said in (" are not available: ", " is not available: "):
        sentence = sentence.partition(said)[2] or sentence
    return sentence


def sentences(found: FiniteWidthCorrections) -> list[str]:
    """The notes of a report on where its allowances come from."""
    notes = []
    if found.of:
        terms = ", ".join(dict.fromkeys(f"{CORRECTION[q]}/n" for q in found.of))
        notes.append(
            f"allowance of {', '.join(found.of)}: {terms}, derived; +- holds what the next order may be, r(r + l/n + "
            "s²) of the theory, r the allowance's share of it, s² the networks' relative variance."
        )
    for reason in dict.fromkeys(found.reasons.values()):
        names = [q for q, why in found.reasons.items() if why == reason]
        notes.append(f"allowance of {', '.join(names)} not derived: {reason}.")
    return notes
