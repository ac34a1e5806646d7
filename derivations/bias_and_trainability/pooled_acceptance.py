"""Acceptance values of networks with pools of two, and of laws of depth."""

from __future__ import annotations

import math

from derivations.bias_and_trainability import pooled_numbers as n
from derivations.checks import Check

pi = math.pi
ALPHA = (3 * pi + 2) / (4 * pi), (pi + 1) / (4 * pi)
KERNEL = {  # ReLU + maximum, ⟨ff′⟩ at K = 1 by c
    0.0: 0.4638114937,
    0.1: 0.4933043349,
    0.3: 0.5607216112,
    0.5: 0.6401450151,
    0.7: 0.7332080338,
    0.9: 0.8435825639,
}
SETTLED = {"2.5": 0.958935, "3": 0.904902, "4": 0.820659, "10": 0.631731}  # c* of Tanh + maximum by σ_w²
NEUTRAL = {"0.01": 37.802, "0.05": 38.637, "0.1": 39.6632, "0.2": 41.665}  # its neutrality line by σ_b²
SLOW, FAST = 2 / (9 * pi**2), 8 / (9 * pi**2)

POOLED: tuple[Check, ...] = (
    Check(
        "9, 10",
        "α, kink, ‖∇f‖² per σ_w²",
        (ALPHA[0], 1 / (2 * pi), 3 / 4, ALPHA[1], 1 / (4 * pi), 1 / 4),
        1e-14,
        n.alpha_of_relu,
    ),
    Check("16", "γ/l², σ_b = 0", (SLOW,), 1e-14, n.lead_of_drift(2, 0, "sigma_b")),
    Check("16", "γ/l², σ_w² > 2", (SLOW,), 1e-14, n.lead_of_drift("2.5", "0.1", "phi")),
    Check("16", "γ/l², σ_w² = 2, σ_b > 0", (FAST,), 1e-14, n.lead_of_drift(2, "0.1", "sigma_w")),
    Check("16", "γ′/γ, σ_w² = 1.5", (2 / 1.5,), 1e-12, n.factor("relu", "gamma", "1.5", "0.1")),
    Check("18", "chaotic rate of tanh, law", (0.8946685,), 1e-6, n.factor("tanh", "c", 3, "0.1")),
    Check("18", "ordered rate of tanh, law", (0.8775127960,), 1e-9, n.factor("tanh", "c", "1.5", "0.1")),
    Check("E17", "β of erf's line at K* = ½", (6,), 1e-12, n.on_erfs_line),
    Check("E18, 20", "EOC of Tanh + maximum", (1.9860726411,), 1e-10, n.edge("tanh", "max")),
    Check("E18, 20", "EOC of Tanh + mean", (3.9721452823,), 1e-10, n.edge("tanh", "average")),
    Check("21", "neutrality of Tanh + mean", (5.84953149,), 1e-8, n.neutral("tanh", "average", "0.1")),
    *(
        Check("21", f"neutrality of Tanh + maximum, σ_b² = {b}", (v,), 2e-5, n.neutral("tanh", "max", b))
        for b, v in NEUTRAL.items()
    ),
    Check("24, 33", "α = 1, χ̃_1 = 1", (1.0999225243, 4 / 3, 3.0341879720, 4), 1e-10, n.thresholds),
    Check("27", "⟨max²⟩ of ReLU", (0.909154943092,), 1e-12, n.second_moment),
    Check("27", "⟨max⟩ of ReLU", (0.681037072175,), 1e-10, n.mean_of_pool),
    Check("29", "ReLU + maximum", tuple(KERNEL.values()), 2e-10, n.kernel("relu", "max", tuple(KERNEL))),
    Check("29", "Tanh + maximum, c = ½", (0.23690913,), 3e-8, n.kernel("tanh", "max", (0.5,))),
    Check(
        "30",
        "c at l = 5, 10, σ_w² = 1.5",
        (0.8853312291, 0.9750160843),
        1e-10,
        n.along("relu", "max", "1.5", "0.1", (5, 10)),
    ),
    Check(
        "30",
        "c at l = 5, 10, σ_w² = 1",
        (0.9099488152, 0.9862154391),
        1e-10,
        n.along("relu", "max", "1", "0.1", (5, 10)),
    ),
    Check("30", "(1 - c′)/(1 - c) at l = 100", (0.82493,), 1e-5, n.approach("max", 100)),
    Check("33", "crossover depth at N = 1000", (24, 17), 0.03, n.crossover()),
    Check("§3", "c* of Tanh + maximum", tuple(SETTLED.values()), 1e-6, n.settled("tanh", "max", tuple(SETTLED))),
)
