"""A recursion as source and tables: its averages as functions, steadied near 0, and the loop over layers."""

from __future__ import annotations

import numpy as np

from meanfield.base.quantities import QUANTITIES
from meanfield.numeric.lowering.evaluators import MARGIN, averages
from meanfield.numeric.lowering.modules.generated_modules import VERSION
from meanfield.numeric.lowering.modules.module_functions import EVERY_K
from meanfield.numeric.lowering.text import depth_loops, lockstep, printing
from meanfield.numeric.lowering.text.block_loops import branch_free
from meanfield.numeric.lowering.text.helpers import COMPILED, HEADER, INLINED, helpers_for
from meanfield.symbolic.recursion import Recursion


def generated(recursion: Recursion, span: tuple[float, float] = EVERY_K) -> tuple[str, dict[str, np.ndarray]]:
    """(source, arrays) of a recursion's module, whose tables hold averages at K of the span."""
    error = 0.0
    if any(v.name in QUANTITIES and QUANTITIES[v.name].order for v in recursion.state):
        from meanfield.numeric.lowering.near_zero import steadied  # only correlators of order 1/n load it

        recursion, error = steadied(recursion)
    found = averages(recursion, span)
    if error:
        found.arrays["errors"] = np.append(found.arrays["errors"], MARGIN * error)
    loop, size = lockstep.text(depth_loops.loop(recursion, found.calls, found.text, found.held))
    found.arrays["workspace"] = np.array(size)
    head = HEADER.format(version=VERSION, summary="\n".join([str(recursion), "", *found.notes]))
    functions = printing.decorated(found.text, COMPILED)
    for name in branch_free(found.text):
        functions = functions.replace(f"{COMPILED}\ndef {name}(", f"{INLINED}\ndef {name}(")
    return head + helpers_for(found.text + loop) + functions + loop, found.arrays
