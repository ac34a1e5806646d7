"""Two inputs as q → ∞ through a φ whose square has a finite integral, which one input meets where the other does not.

⟨φ²⟩_q ~ v/√q is made at |z| = O(1), so that no tail of φ says how the inputs part: 1 - c, γ and the distance had the
exponents of |z|^d, d ≤ -1/2, before, whose constants were complex, infinite or nan.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import meanfield as mf

SIZES = {"sigma_v": 1.0, "sigma_w": 1.2, "sigma_a": 0.5, "sigma_b": 0.5}


def flowed(powers, at, sizes=SIZES, odd=False):
    """{"distance": log Δ, "gamma": log γ} at log l = at of K′ = K + σ_v² l^{-β_v}⟨φ²⟩_q + σ_a² l^{-β_a} and of two
    inputs with c = 1/2, for φ = exp(-z²) (odd: z exp(-z²)): ⟨φ_aφ_b⟩ is det(1 + 2C)^{-1/2} (q_ab det^{-3/2}). Own
    equations in u = log l."""
    v, w, a, b = (sizes[f"sigma_{n}"] ** 2 for n in "vwab")
    fv, fw, fa, fb = (powers[f"beta_{n}"] for n in "vwab")

    def slope(u, y):
        K, distance, K_ab = np.exp(y)
        q, apart = w * K * np.exp(-fw * u) + b * np.exp(-fb * u), w * distance * np.exp(-fw * u)
        square, product = 1 / np.sqrt(1 + 4 * q), 1 / np.sqrt((1 + apart) * (1 + 4 * q - apart))
        if odd:
            square, product = q * square**3, (w * K_ab * np.exp(-fw * u) + b * np.exp(-fb * u)) * product**3
        front, source = v * np.exp((1 - fv) * u), a * np.exp((1 - fa) * u)
        gains = front * square + source, 2 * front * (square - product), front * product + source
        return [gain / part for gain, part in zip(gains, (K, distance, K_ab))]

    run = solve_ivp(slope, (0.5, at), [0.0, 0.0, -np.log(2)], method="LSODA", rtol=1e-10, atol=1e-10)
    _, distance, K_ab = run.y[:, -1]
    return {"distance": distance, "gamma": K_ab - distance + np.log(2)}


@pytest.mark.parametrize(
    "powers, at, error",
    [
        ({"beta_v": 0.3, "beta_w": 0.2, "beta_a": 0.1, "beta_b": 0.0}, 150.0, 1e-3),  # a power
        ({"beta_v": 0.75, "beta_w": 0.0, "beta_a": 0.5, "beta_b": 0.0}, 1000.0, 6e-2),  # log l
    ],
)
def test_distances_behind_a_source_are_those_of_a_flow(powers, at, error):
    theory = mf.derive("exp(-z**2)", architecture="full_residual", **{n: str(p) for n, p in powers.items()})
    law = theory.depth_law("distance", **{n: str(s) for n, s in SIZES.items()})
    (term,) = law.law.terms
    log_law = float(np.log(float(term.coefficient)) + float(term.power) * at + float(term.logs) * np.log(at))
    assert abs(flowed(powers, at)["distance"] - log_law) < error
    assert abs(flowed(powers, 1.3 * at)["distance"] - log_law) > error  # control: at another depth


@pytest.mark.parametrize("number", range(6))
def test_laws_under_schedules_are_those_of_a_flow(number):
    """Exponents, and constants where the start does not decide, at drawn β with V < 1; with biases, with those inside
    or outside alone, and without."""
    rng = np.random.default_rng(number)
    powers = {f"beta_{n}": int(rng.integers(0, 8)) / 10 for n in "vwab"}
    powers["beta_w"] = min(powers["beta_w"], 0.9 - powers["beta_v"])
    sizes = SIZES | {name: 0.0 for name, none in zip(("sigma_a", "sigma_b"), rng.random(2) < 0.4) if none}
    odd = bool(number % 2)
    given = {n: str(round(p, 1)) for n, p in powers.items()}
    theory = mf.derive("z*exp(-z**2)" if odd else "exp(-z**2)", architecture="full_residual", **given)
    ends = [flowed(powers, at, sizes, odd) for at in (180.0, 200.0)]
    for name in ("distance", "gamma"):
        law = theory.depth_law(name, **{n: str(s) for n, s in sizes.items()}, correlation="1/2").law
        (term,) = law.terms
        exponent = float(term.power) + float(term.logs) / 190
        assert abs((ends[1][name] - ends[0][name]) / 20 - exponent) < 1e-3
        if not term.coefficient.free_symbols:
            whole = np.log(float(term.coefficient)) + float(term.power) * 200 + float(term.logs) * np.log(200)
            assert abs(ends[1][name] - whole) < 1e-2


@pytest.mark.parametrize("odd", [False, True])
def test_sources_of_the_same_power_leave_their_share(odd):
    """β_a = 1 - 2(1 - β_v + β_w/2)/3: K is a source's and its own feedback's in shares, and c the source's."""
    powers = {"beta_v": 0.5, "beta_w": 0.1, "beta_a": 19 / 30, "beta_b": 0.3}
    given = {"beta_v": "1/2", "beta_w": "1/10", "beta_a": "19/30", "beta_b": "3/10"}
    theory = mf.derive("z*exp(-z**2)" if odd else "exp(-z**2)", architecture="full_residual", **given)
    at = {n: str(s) for n, s in SIZES.items()}
    flow = flowed(powers, 200.0, SIZES, odd)
    for name in flow:
        (term,) = theory.depth_law(name, **at, correlation="1/2").law.terms
        log_law = np.log(float(term.coefficient)) + float(term.power) * 200
        assert abs(flow[name] - log_law) < 1e-8 < abs(flow[name] - log_law - np.log(1.01))  # control: 1 % more


def test_a_distance_under_biases_grows_like_the_root_of_depth():
    """z exp(-z²): √l, with l^{1/3} before; what is missing falls like l^{-1/2}."""
    theory = mf.derive("z*exp(-z**2)", residual=True)
    law = theory.depth_law("distance", sigma_w=1, sigma_b="1/2", correlation="1/2")
    run = theory.propagate(sigma_w=1, sigma_b=0.5, correlation=0.5, depth=100_000, quantities=("K", "distance"))
    missed = [1 - run.distance[l - 1] / float(law.at(l)) for l in (10_000, 100_000)]
    assert 0.015 < missed[1] < 0.025 and missed[0] / missed[1] > 2.5


@pytest.mark.parametrize("phi, power", [("exp(-z**2)", -1 / 3), ("z*exp(-z**2)", -2 / 3)])
def test_correlations_without_biases_fall_by_what_means_add(phi, power):
    """K_ab grows by ⟨φ⟩² ~ 1/q, or not at all where φ is odd, and K like l^{2/3}."""
    theory = mf.derive(phi, residual=True)
    law = theory.depth_law("c", sigma_w=1, sigma_b=0, correlation="1/2")
    assert law.text().startswith("C/l**") and float(law.terms[0].power) == pytest.approx(power)
    c = theory.propagate(sigma_w=1, sigma_b=0, correlation=0.5, depth=200_000, quantities=("K", "c")).c
    assert abs(np.log2(c[-1] / c[len(c) // 2 - 1]) - power) < 0.02


def test_the_edge_is_refused():
    """φ² ~ 1/|z| has no finite integral, and no power of |z| decides: nan before."""
    theory = mf.derive("z/(1+z**2)**(3/4)", residual=True)
    with pytest.raises(mf.MeanFieldError, match="not known"):
        theory.depth_law("distance", sigma_w=1, sigma_b="1/2", correlation="1/2")


def test_a_source_that_outgrows_the_branch_by_a_logarithm_is_met_by_both():
    """β_v = 1 = β_a, β_w = 0: K ~ σ_a² log l, and c → 1 (a root next to 1, times log l, before)."""
    theory = mf.derive("exp(-z**2)", architecture="full_residual", beta_v=1, beta_w=0, beta_a=1, beta_b=1)
    at = {n: str(s) for n, s in SIZES.items()}
    assert theory.depth_law("c", **at).text() == "1"
    powers = {"beta_v": 1.0, "beta_w": 0.0, "beta_a": 1.0, "beta_b": 1.0}
    (term,) = theory.depth_law("distance", **at).law.terms
    assert (term.power, float(term.logs)) == (0, 0.5)
    end = 1e12  # of log l
    assert abs(flowed(powers, end)["distance"] - np.log(float(term.coefficient) * np.sqrt(end))) < 1e-2
