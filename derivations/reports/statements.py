"""Claims as they are printed: source, quantity, networks, both sides, verdict and how it was reached.

A side is shown as LaTeX of a formula, as a word, or as a value for each place. All of it is plain data, so that it can
be kept on file and printed without the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from derivations.claims import Network, Verdict
from derivations.comparisons import Among
from derivations.judging import Judgement
from derivations.reports.names import named
from meanfield import Law
from meanfield.base.answers.latex import aligned, tex
from meanfield.symbolic.asymptotics.log_growth import Growth

MOST = 4  # places, or laws, of a side that are shown
HOW = {
    Verdict.PROVED: "symbolically, for all values",
    Verdict.CERTIFIED: "by enclosures in ball arithmetic",
    Verdict.DIGITS: "at many places, not proved",
    Verdict.MEASURED: "in doubles, at the places shown",
}
Shown = dict[str, Any]  # {"tex": …}, {"text": …} or {"rows": [[place, value], …], "more": how many are left out}


def statement(judgement: Judgement) -> dict[str, Any]:
    """A judged claim as data for pages and documents."""
    claim = judgement.claim
    case = judgement.case
    printed, ours = (claim.printed, None) if case is None else claim.sides(case)
    held = judgement.contrast if claim.misprint else judgement.verdict
    return {
        "source": claim.source,
        "quantity": named(claim.quantity) if claim.quantity else "",
        "networks": together(claim.cases),
        "where": [tex(e) for e in claim.where],
        "shown_for": str(case) if len(claim.cases) > 1 and ours is not None else "",
        "printed": shown(printed),
        "derived": None if ours is None else shown(ours),
        "contrast": shown(claim.contrast),
        "verdict": "undecided" if judgement.error is not None else judgement.verdict.value,
        "contrast_verdict": judgement.contrast.value,
        "how": HOW.get(held, ""),
        "misprint": claim.misprint,
        "composed": claim.composed,
        "complaint": judgement.complaint,
    }


def together(networks: Sequence[Network]) -> str:
    """Networks in one line; what they have in common is said once."""
    parts = [str(one).partition(", ") for one in networks]
    if len({rest for _, _, rest in parts}) > 1:
        return "; ".join(map(str, networks))
    names = ", ".join(name for name, _, _ in parts)
    return f"{names}; {parts[0][2]}" if parts[0][2] else names


def shown(value: Any) -> Shown:
    """A side of a claim, or its contrast, as data."""
    if isinstance(value, Among):
        value = sp.Max(*value.bounds)
    if isinstance(value, bool) or value is None:
        return {"text": {True: "yes", False: "no", None: "none"}[value]}
    if isinstance(value, (Law, Growth)):
        return {"tex": aligned([("", value if isinstance(value, Law) else value.expr)])}
    if isinstance(value, (sp.Basic, int, float)):
        return {"tex": aligned([("", sp.sympify(value))])}
    if isinstance(value, tuple) and value and isinstance(value[0], tuple) and len(value[0]) == 2:
        rows = [[place, shown(one)] for place, one in value[:MOST]]
        return {"rows": rows, "more": len(value) - len(rows)}
    if callable(value):
        return {"text": "another rule, bound or start"}
    if isinstance(value, (tuple, list, set, frozenset)):
        return {"text": ", ".join(sorted(map(str, value)) if isinstance(value, (set, frozenset)) else map(str, value))}
    return {"text": str(value)}
