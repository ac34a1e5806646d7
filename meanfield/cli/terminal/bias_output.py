"""What `meanfield phase-diagram --quantity gamma` prints: shares of the phases as data, and a map in characters."""

from __future__ import annotations

from typing import Any

from meanfield.base.answers.export import plain
from meanfield.base.answers.results import Status
from meanfield.bias.guessing import BiasPhase
from meanfield.cli.terminal.critical_output import axis_data, character_map

SIGNS = {
    BiasPhase.ORDERED_DEEP_PREJUDICE: "o",
    BiasPhase.TRANSIENT_DEEP_PREJUDICE: "=",
    BiasPhase.CHAOTIC_DEEP_PREJUDICE: "#",
    BiasPhase.PREJUDICE: "+",
    BiasPhase.NEUTRALITY: "-",
    BiasPhase.BALANCE: "/",
    BiasPhase.DIVERGENT_DEEP_PREJUDICE: "*",
    BiasPhase.VANISHING_DEEP_PREJUDICE: ".",
    BiasPhase.BY_THE_START: "s",
    BiasPhase.UNKNOWN: "?",
}


def bias_summary(diagram: Any) -> dict[str, Any]:
    """A diagram of the guessing bias without its arrays: axes, shares of the points, the largest error, lines."""
    import numpy as np

    error = diagram.error[np.isfinite(diagram.error)]
    return {
        **{n: axis_data(getattr(diagram, n)) for n in ("sigma_w", "sigma_b")},
        "shares": diagram.shares(),
        "bistable": float(diagram.bistable.mean()),
        "error": float(error.max(initial=0.0)),
        "status": Status.MEASURED.value,
        "line": plain(diagram.line),
        "critical_points": plain(diagram.points),
        "neutrality": None if diagram.neutrality is None else {"c": diagram.neutrality.c},
    }


def bias_text(bias: Any) -> str:
    """The same as text."""
    text = str(bias)
    if bias.gamma == bias.gamma:
        law = bias.fraction()
        text += f"\nof many inputs the larger of two classes gets {float(law.largest()):.4g} on average"
    return text


def bias_map(diagram: Any) -> str:
    """The phases of the guessing bias as a map of characters, σ_w to the right and σ_b upwards."""
    signs, phase = list(SIGNS.values()), diagram.phase
    seen = [f"{sign} {p.value}" for p, sign in SIGNS.items() if p.value in diagram.shares()]
    return character_map(diagram, lambda row, column: signs[phase[row[0], column[0]]], ", ".join(seen))
