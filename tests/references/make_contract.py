"""Writes `tests/references/contract.json`: python -m tests.references.make_contract texts.json

texts.json: a list of architecture texts (`contract.architecture_text`). What is already in the file stays as it is: it
is what an earlier engine derived, and is only added to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.folds import activations_of
from tests.references.contract import encode, place, read_architecture

DATA = Path(__file__).with_name("contract.json")
KINDS = {"one_input": ("K", "J", "Theta"), "two_inputs": ("K_aa", "K_bb", "K_ab"), "input_jacobian": ("D0", "J0")}


def recursion(theory: mf.Theory, kind: str) -> dict:
    """Names, carries, steps and starts of one recursion, or the sentence that refuses it."""
    try:
        found = getattr(theory, kind)
    except MeanFieldError as error:
        return {"refused": str(error)}
    state = [[v.name, v.encoding.name] for v in found.state]
    return {"state": state, **encode([*found.step, *(v.initial for v in found.state)])}


def numbers(theory: mf.Theory, kind: str) -> dict:
    """Layer `depth` at one place, as doubles."""
    if {str(a.name) for a in activations_of(theory.block)} - NUMBERS_OF:
        return {}
    wanted = {"one_input": None, "input_jacobian": ("J0",)}.get(kind)
    try:
        run = theory.propagate(quantities=wanted, **place(getattr(theory, kind).parameters, kind))
    except MeanFieldError as error:
        return {"refused": str(error)}
    return {name: float(getattr(run, name)[-1]) for name in run.quantities}


NUMBERS_OF = {"tanh", "relu", "gelu", "erf"}  # one φ of each kind; tables of all would take an hour


def main() -> None:
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    for text in json.loads(Path(sys.argv[1]).read_text()):
        if text in data:
            continue
        try:
            theory = mf.derive(architecture=read_architecture(text))
        except MeanFieldError:
            continue
        data[text] = {kind: recursion(theory, kind) | {"numbers": numbers(theory, kind)} for kind in KINDS}
        print(text, flush=True)
    lines = [f"{json.dumps(text)}: {json.dumps(data[text])}" for text in sorted(data)]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
