"""Acceptance values: lines of section 8 of the specification that are numbers, and where the others are."""

from __future__ import annotations

from derivations.checks import Check
from derivations.orthogonal_weights import numbers as n

TANH = (-2, -1.870, -1.837, -1.830, -1.833)  # Ṽ of orthogonal tanh networks, layers 1-5
MIXED = (0, -0.976, -1.338, -1.515, -1.616)
CHECKS: tuple[Check, ...] = (
    Check("1", "W[1,1,1], W[2,1], W[3] at n = 7", (68 / (7 * 5 * 6 * 9 * 11), -1 / (7 * 5 * 6 * 11),
          2 / (7 * 5 * 6 * 9 * 11)), 1e-14, n.functions(7, (1, 1, 1), (2, 1), (3,))),
    Check("2", "E W11^2 W22^2, E W11 W12 W21 W22", (3 / 70, -1 / 140), 1e-14,
          n.entries(5, ("1122", "1122"), ("1122", "1212"))),
    Check("4", "first layer, n = 50, N_0 = 100", (-0.98039,), 1e-5, n.vertex_of_block(100, 50)),
    Check("15", "first layer, n = N_0 = 100", (-1.960784,), 1e-6, n.vertex_of_block(100, 100)),
    Check("5", "G_4, orthogonal, n = 10", (10 / 12,), 1e-14, n.moments("orthogonal", 10, 4, 4)),
    Check("5", "G_4, Gaussian, n = 10, layer 4", (1.728,), 1e-14, n.moments("gaussian", 10, 4, 4)),
    Check("6", "(3.20)", (-0.046104309611048669,), 1e-14, n.characteristic(6, "1.3", 3, ".7", "1.9")),
    Check("7", "G_2 of Gaussian linear networks", (1.183,), 1e-14, n.moments("gaussian", 3, 2, 2, ".7", "1.3")),
    Check("8", "K of tanh, layers 2, 11", (0.211875204256, 0.04624414), 1e-7,
          n.along("tanh", "orthogonal", "K", (2, 11), normalized=False)),
    Check("10", "tanh, C_W = 10", (7.1743656, 1.9429796, 0.17766986), 1e-7, n.fixed(10)),
    Check("13", "V of tanh, orthogonal, layers 1-5", TANH, 1e-3, n.along("tanh", "orthogonal", "V", (1, 2, 3, 4, 5))),
    Check("13", "V of tanh, orthogonal, layers 6, 11", (-1.8387, -1.873), 3e-4,
          n.along("tanh", "orthogonal", "V", (6, 11))),
    Check("13", "V of tanh, mixed, layers 1-5", MIXED, 1e-3, n.along("tanh", "mixed", "V", (1, 2, 3, 4, 5))),
    Check("13", "V of tanh, mixed, layer 11", (-1.822,), 3e-4, n.along("tanh", "mixed", "V", (11,))),
    Check("13", "V of tanh, Gaussian, layer 6", (3.7505,), 3e-5, n.along("tanh", "gaussian", "V", (6,))),
    Check("14", "V of ReLU, layers 6, 10, K = 2/3", (13 * 4 / 9, 25 * 4 / 9), 1e-12,
          n.along("relu", "orthogonal", "V", (6, 10), normalized=False, C_W=2)),
    Check("14", "V of ReLU, Gaussian, layer 6, K = 2/3", (25 * 4 / 9,), 1e-12,
          n.along("relu", "gaussian", "V", (6,), normalized=False, C_W=2)),
    Check("16", "V of tanh at l = 10^5", (-1.99997,), 5e-6, n.along("tanh", "orthogonal", "V", (10**5,))),
    Check("19", "n(E K - K)/K of tanh at l = 6", (0.9786,), 1e-4, n.along("tanh", "orthogonal", "G1", (6,))),
    Check("19", "the same at l = 10^5", (1.9994,), 3e-5, n.along("tanh", "orthogonal", "G1", (10**5,))),
    Check("19", "n(E K - K) of tanh, Gaussian, l = 10^5", (-0.16666,), 3e-5,
          n.along("tanh", "gaussian", "G1", (10**5,), normalized=False)),
    Check("30", "optimal depth, quoted", (3.6, 12), 1e-3, n.depths(30, 100)),
)  # fmt: skip
ELSEWHERE = {
    "3": "(4.10), (4.11)",
    "9": "(4.20), (4.21), (4.22)",
    "11": "(4.23), (4.24), and E8 beside them",
    "12": "(4.16), (4.18): one code path, the law is data",
    "17": "(4.16), (4.17)",
    "18": "(2.9), (5.9), (5.10), (5.15), (5.16), (A.1) to (A.5)",
    "20": "test_finite_width_runs.py test_large_depth",
    "21": "test_finite_width_maps.py test_correlators_of_finite_networks",
    "22": "test_finite_width_maps.py test_higher_correlators_of_finite_networks",
    "23": "test_finite_width_runs.py test_large_depth",
    "24": "test_empirical_differentials.py test_definitions",
    "25": "test_empirical_differentials.py test_correlator_samples_are_the_averages_they_say",
    "26": "test_empirical_sampler.py test_paths_agree_in_distribution",
    "27": "test_empirical_correlators.py test_vertex_of_linear_networks",
    "28": "test_finite_width_runs.py test_large_depth",
    "31": "test_orthogonal_weights_figures.py test_networks_lie_on_the_lines",
}
