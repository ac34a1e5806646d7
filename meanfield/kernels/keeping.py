"""What a process that has derived a theory keeps for those that follow: all that `recalled` needs for its kernels."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from threading import Lock
from typing import Any

from sympy.printing.numpy import NumPyPrinter

from meanfield.errors import MeanFieldError
from meanfield.kernels.loops import Loop
from meanfield.kernels.networks import Network
from meanfield.kernels.recalled import file_of, read, write
from meanfield.numeric.lowering.assembly import Lowered, lower
from meanfield.symbolic.steps import Domain
from meanfield.verbs.selection import selected

_keeping = Lock()


def keep(network: Network) -> None:
    """Keep the cells of series that a network has met and, under every request that its theory was derived for in this
    process, what it was made of."""
    which = "Theta" if network.theta else "K"
    with _keeping, suppress(OSError):  # a full disk: the next process derives, too
        if network.block is not None:
            for e in {e for pair in network.block.groups for e in pair}:
                network.block.cells(e).keep()
        requests = network.theory.__dict__.get("requests", {})
        asked = [r for r, there in requests.items() if which not in there]
        found = kept(network) if asked else None
        for one in asked:
            requests[one].add(which)
            file = file_of(one)
            if found is not None and which not in (before := read(file)):
                write(file, before | {which: found})


def kept(network: Network) -> dict[str, Any] | None:
    """What kernels of other σ's, depths and inputs need, or None where that is more than loops, cells of series and
    numbers: other starts than K."""
    loop = network.block
    if loop is None:
        return None
    ends = {n: _ends(network.recursion.domains.get(n)) for n, _ in network.values}
    start = network.theory.one_input.state[0].initial
    names = {s.name for s in start.free_symbols}
    text = NumPyPrinter({"fully_qualified_modules": False, "inline": True}).doprint(start)
    if not names <= {*ends, "Q0"} or not set(re.findall(r"[A-Za-z]\w*", text)) <= names:
        return None
    both = _alone(network, ("K", "Theta"))
    if network.theta and both is None:
        return None
    inputs, before = _stored(loop.inputs), loop.inputs.recursion.names[: -loop.beside or None]
    only = _alone(network, ("K",))
    if before != ("K",) or only is None:
        return None
    own = [f.name for f in fields(Loop)]
    asked = {e for pair in loop.groups for e in pair}
    cells = [loop.cells(e).arguments if e in asked else None for e in range(len(loop.variances))]
    return {
        "described": network.described,
        "begin": text,
        "ends": ends,
        "loop": {name: getattr(loop, name) for name in own} | {"kept_cells": cells},
        "inputs": inputs,
        "K": only,
        "both": both,
        "error": network.error,
        "keeps_distances": network.keeps_distances,
    }


def _ends(domain: Domain | None) -> tuple[float, float]:
    """Between which numbers a parameter may lie."""
    ends = (None, None) if domain is None else (domain.lower, domain.upper)
    return float("-inf" if ends[0] is None else ends[0]), float("inf" if ends[1] is None else ends[1])


def _alone(network: Network, names: tuple[str, ...]) -> dict[str, Any] | None:
    """The loop of single inputs whose state are these names, where it is no more."""
    try:
        lowered = lower(selected(network.theory, names))
    except MeanFieldError:  # a Theta that is infinite
        return None
    return _stored(lowered) if lowered.recursion.names == names and not lowered.relative else None


def _stored(lowered: Lowered) -> dict[str, Any]:
    recursion = lowered.recursion
    return {
        "name": lowered.generated.name,
        "state": recursion.names,
        "parameters": lowered.parameters,
        "repeats": not recursion.knows_layer,
    }
