"""The process beside a served page that derives: questions as lines of JSON in, answers as lines of JSON out.

It is a process of its own so that a formula that is slow or hostile can be ended with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TextIO

from meanfield.explorer.serving.selectable import at_values

NETWORKS, WIDTH, DEEPEST = 20, 200, 60  # of the bands


@lru_cache(maxsize=8)
def _theory(text: str) -> Any:
    from meanfield.theory.deriving import derive

    settings = json.loads(text)
    act, values = settings.pop("act"), settings.pop("parameters")
    return derive(act, **{k: v for k, v in settings.items() if v is not None and v is not False}, **values)


def model_of(settings: dict[str, Any]) -> dict[str, Any]:
    """What a page shows of a theory."""
    from meanfield.explorer.page_content import accuracy, followed

    known = followed(_theory(json.dumps(settings["theory"])), {})
    title = known.title.replace("mu = mu", "mu by its slider")
    found = {
        "title": title, "script": known.model.script, "notes": [*known.notes, accuracy(known.model)],
        "parameters": known.parameters,
    }  # fmt: skip
    return found | marks_of({"theory": at_values(settings["theory"], known.parameters)})


def marks_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The critical points of a theory, and how far the plane goes."""
    from meanfield.explorer.page_content import extent_of, marks

    points, recommended = marks(_theory(json.dumps(settings["theory"])))
    return {"marks": points, "extent": extent_of(points), "recommended": recommended}


def phase_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The certified phase at a point, as text."""
    theory = _theory(json.dumps(settings["theory"]))
    return {"text": str(theory.phase(**_place(settings), input_norm=settings["input_norm"], **settings["parameters"]))}


def bands_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Means and standard deviations over finite networks: ranges of K, and of log J where networks have J."""
    import numpy as np

    from meanfield.empirical.ensemble.ensemble import run_ensemble
    from meanfield.networks.records import Network

    theory = _theory(json.dumps(settings["theory"]))
    depth = min(int(settings["depth"]), DEEPEST)
    found = run_ensemble(
        Network(theory.block, theory.first), **_place(settings), width=WIDTH, depth=depth, networks=NETWORKS, seed=0,
        input_norm=settings["input_norm"], jacobian="J" in theory.default_quantities, **settings["parameters"],
    )  # fmt: skip
    out: dict[str, Any] = {"width": WIDTH, "networks": NETWORKS}
    for name in ("K", "J"):
        if name in found.quantities:
            mean, error = np.asarray(found[name].mean), np.asarray(found[name].standard_error)
            spread = error * np.sqrt(NETWORKS)
            rows = {"low": np.maximum(mean - spread, mean / 100), "high": mean + spread}
            if name == "J":
                rows = {k: np.log(v) for k, v in rows.items()}
            layers = list(range(depth - mean.size + 1, depth + 1))
            out[name] = {"l": layers} | {k: v.tolist() for k, v in rows.items()}
    return out


def _place(settings: dict[str, Any]) -> dict[str, Any]:
    return {"sigma_w": settings["sigma_w"], "sigma_b": settings["sigma_b"]}


ANSWERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "model": model_of, "marks": marks_of, "phase": phase_of, "bands": bands_of,
}  # fmt: skip


def answer(line: str) -> str:
    """The answer to one question."""
    asked = json.loads(line)
    from meanfield.base.errors import MeanFieldError

    said: dict[str, Any]
    try:
        said = {"answer": ANSWERS[asked["what"]](asked["settings"])}
    except MeanFieldError as error:
        said = {"error": str(error)}
    except Exception as error:  # nothing that is typed may end the process
        said = {"error": f"This was not answered: {type(error).__name__}; take a simpler formula."}
    return json.dumps({"id": asked["id"], "what": asked["what"]} | said)


def main(read: TextIO, write: TextIO) -> None:
    """Answer until there are no more questions."""
    for line in read:
        write.write(answer(line) + "\n")
        write.flush()


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr  # what is printed is no answer
    main(sys.stdin, out)
