"""The acceptance values: section 8 of the specification, lines 1-30 without training, and where each is checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.checks import Check
from derivations.variance_variation import widths
from derivations.variance_variation.angles import fixed
from derivations.variance_variation.lemmas import log_product
from meanfield.base.symbols import K, z

BETAS = ("beta_v", "beta_w", "beta_a", "beta_b")
ELSEWHERE = {  # line: the claims (by R-number) or the test that holds it
    "1": "test_full_residual.py::test_relu_with_variances_that_fall_as_one_over_l_is_linear",
    "3": "test_full_residual.py::test_kernels",
    "4": "test_full_residual.py::test_tanh_without_variation, test_cosines_of_tanh_without_variation",
    "5": "R3; test_full_residual.py::test_the_printed_recursion_of_two_inputs_fails",
    "6": "test_full_residual.py::test_figure_1",
    "7": "test_full_residual.py::test_gradients_of_every_parameter, test_two_inputs",
    "8": "test_full_residual.py::test_gradients_of_every_parameter, test_two_inputs",
    "9": "test_full_residual.py::test_gradients_of_every_parameter, test_two_inputs_of_tanh",
    "10": "R41 … R53 for all exponents; test_phase_tables.py::test_relu_agrees_with_the_theorems",
    "11": "R45b, R52b",
    "12": "R27 … R35; test_variance_variation.py::test_places_of_the_list",
    "21": "R23",
    "22": "R26",
    "24": "test_full_residual.py::test_checks_and_planted_errors",
    "25": "test_variance_variation_numbers.py::test_narrowing_keeps_the_mean_and_spreads",
    "26": "R5",
    "27": "R73, R74",
    "29": "test_variance_variation_figures.py",
    "30": "the claims that are misprints",
}


def theory(phi: str, *betas: object, **more: object) -> mf.Theory:
    """The paper's network, σ_v = σ_a = 1 unless said."""
    given = {"sigma_v": 1, "sigma_a": 1} | dict(zip(BETAS, (str(b) for b in betas))) | more
    return mf.derive(phi, architecture="full_residual", **given)


def along(phi: str, betas: Sequence, layers: Sequence[int], of: Callable, names=("K", "J"), sigma_b=1, **more):
    """`of(run at l, l)` for every l; the planted error is in σ_w."""

    def compute(off):
        out = []
        for l in layers:
            found = theory(phi, *betas, **more).propagate(
                sigma_w=float(1 + off), sigma_b=sigma_b, depth=l + 1, quantities=names, every_layer=False
            )
            out.append(of(found, l))
        return out

    return compute


def last(x) -> float:
    return float(np.ravel(x)[-1])


def tanh_size(run, l: int) -> float:
    """p over its leading term at β_v = β_a = 0.4."""
    return last(run.K) / (2 * l**0.6 / 0.6)


def slope_of_p(off) -> list[float]:
    """dp/dlog l of ReLU between 10^6 and 10^7 at V_r > 1, U_r = 1."""
    one, two = along("relu", (0, "3/2", 1, 2), (10**6, 10**7), lambda r, l: last(r.K))(off)
    return [(two - one) / math.log(10)]


def leading(run, l: int) -> float:
    return last(run.log_J) / (widths.A * math.sqrt(l))


def log_coefficient(off) -> list[float]:
    """That of log l in log χ of tanh, no decay, by the engine's law at (σ_v, σ_w, σ_a) = (1, 1, 1), (2, 1, 1)."""
    out = []
    for v in (1, 2):
        found = theory("tanh", sigma_v=v).depth_law("J", sigma_w=1 + off, sigma_b=1)
        out += [float(sp.N(t.coefficient)) for t in found.law.terms if (t.power, t.logs) == (0, 1)]
    return out


def roots(off) -> list[float]:
    """e* of Theorem C.7 by the engine's averages at large q; the planted error is in σ_v."""
    return [fixed(float(1 + off) ** 2, a) for a in (1.0, 0.5, 0.1)]


def cosines(off) -> list[float]:
    """e(3·10^7) of ReLU from three starts; the planted error is in c."""
    out = []
    for norm, c0 in ((1.0, 0.5), (1.0, 0.0), (0.5, 0.5)):
        found = theory("relu", "2/5", "9/5", "13/10", "3/2").propagate(
            sigma_w=1, sigma_b=1, depth=3 * 10**7 + 1, input_norm=norm, correlation=c0 + float(off),
            quantities=("K", "c"), every_layer=False,
        )  # fmt: skip
        out.append(last(found.c))
    return out


def product(beta: str, layers: Sequence[int]) -> Callable:
    """log χ^(0)/χ^(l) of ReLU at V_r = beta, W_r = ½."""
    return lambda off: [log_product(float(sp.Rational(beta)), 0.5, l, float(off)) for l in layers]


def growing_rest(off) -> list[float]:
    """R(10^6) - R(10^5) at V_r = W_r = ½."""
    one, two = product("1/2", (10**5, 10**6))(off / 10**3)
    return [two - one - 1000 + math.sqrt(10**5)]


def far_coefficients(off) -> list[float]:
    """C_0, C_1, C_2 of ⟨sech²⟩ and ⟨sech⁴⟩; the planted error is in z."""
    out = []
    for power in (2, 4):
        law = mf.symbolic.at_infinity(mf.average(sp.sech((1 + off) * z) ** power, K), 4)
        out += [float(sp.N(law.coefficient(-n - sp.Rational(1, 2)))) for n in range(3)]
    return out


def designed(off) -> list[float]:
    """A, e^A, and the least and largest χ over 100 blocks with N^(l) = N^(l-1)/e^A at l = n²."""
    a = float(theory("tanh").depth_law("J", sigma_w=1 + off, sigma_b=1).rate)
    chi = widths.chi(100, math.exp(widths.A), sigma_w=float(1 + off))
    return [a, math.exp(a), float(chi.min()), float(chi.max())]


def of_biases(off) -> list[float]:
    """log10 χ_b^(1)/χ_b^(l) of tanh at β_v = β_a = 1, β_b = 1, β_w = 0, l = 10^4, 10^5, 10^6."""
    found = theory("tanh", 1, 0, 1, 1).propagate(
        sigma_w=float(1 + off), sigma_b=1, depth=10**6 + 1, quantities=("G_b",)
    )
    G = found.G_b[:, 0]
    return [math.log10(G[1] / G[l]) for l in (10**4, 10**5, 10**6)]


def pair_of_tanh(off) -> list[float]:
    """⟨tanh tanh⟩ at (1, ½); the planted error is in K."""
    run = mf.derive("tanh").propagate(
        sigma_w=1, sigma_b=0, depth=2, input_norm=float(1 + off), correlation=0.5, quantities=("K_ab",)
    )
    return [last(run.K_ab)]


LOG_J = [0.97664, 0.99363, 0.99832, 0.99958]
B_2 = 4 / 9 / math.pi * 16 / 5 * (3 / 5 - 1)
CHECKS: tuple[Check, ...] = (
    Check("2", "W tanh(1, 1/2)", (0.186324413206,), 1e-9, pair_of_tanh),
    Check("13", "tanh, p over its leading term", (0.98795,), 1e-5, along("tanh", ("2/5", "1/10", "2/5", 1), (10**6,),
                                                                         tanh_size)),
    Check("13", "ReLU, dp/dlog l", (1.0069,), 1e-4, slope_of_p),
    Check("14", "log χ/(A√l)", tuple(LOG_J), 1e-5, along("tanh", (0,) * 4, (10**3, 10**4, 10**5, 10**6), leading)),
    Check("15", "coefficient of log l in log χ", (1 / 9 / math.pi, B_2), 1e-12, log_coefficient),
    Check("16", "e* of Thm C.7", (0.789832628373, 0.613828479957, 0.218238032502), 1e-9, roots),
    Check("17", "e of ReLU at 3·10⁷ blocks", (0.8786231, 0.7654521, 0.9290056), 2e-7, cosines),
    Check("18", "χ ratio, V_r = 1", (35.6958613,), 1e-8, along("relu", (1, 0, 1, 1), (1000,),
                                                               lambda r, l: math.exp(last(r.log_J)))),
    Check("18", "χ ratio, V_r = 2", (2.0509565,), 1e-6, along("relu", (2, 0, 1, 1), (10**6,),
                                                              lambda r, l: math.exp(last(r.log_J)))),
    Check("18", "log χ ratio, V_r = 1/5", (941.73354,), 1e-8, product("1/5", (10**4,))),
    Check("19", "R(10⁶) - R(10⁵), V_r = 1/2", (-0.2881831,), 1e-6, growing_rest),
    Check("20", "C_n of sech, sech²", (0.7978845608, -0.3281168739, 0.2833585775, 0.5319230405, -0.0857638224,
                                       0.0248472814), 1e-8, far_coefficients),
    Check("23", "A, e^A, bounds of χ", (0.752253, 2.121775, 0.4895, 1.0139), 2e-4, designed),
    Check("28", "log10 of χ_b ratio", (5.126, 6.290, 7.435), 1e-4, of_biases),
)  # fmt: skip
