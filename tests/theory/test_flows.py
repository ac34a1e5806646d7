"""Networks whose blocks shrink as 1/√L: their limits as functions of l/L, against differential equations by SciPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import meanfield as mf
from meanfield.networks import Dense, Nonlinearity, Residual, Schedule, Sequential
from meanfield.theory.verbs.flows import equations

ONES = dict.fromkeys(("sigma_e", "sigma_q", "sigma_k", "sigma_v", "sigma_o", "sigma_1", "sigma_2"), 1)


def branch(activation: str, total: object = 1) -> Residual:
    end = Dense(sigma_w=Schedule("sigma_w", 0, total=total), sigma_b=0)
    return Residual(Sequential((Nonlinearity(activation), end)), 1)


def planted(rates, x: np.ndarray) -> list[float]:
    return [rates(x)[0], 1.001 * rates(x)[1]]


def relu_kernel(c: float) -> float:
    """⟨relu relu⟩ of two Gaussians of variance 1 and correlation c (arc-cosine kernel)."""
    return (np.sqrt(1 - c * c) + c * (np.pi - np.arccos(c))) / (2 * np.pi)


def assert_follows(found, names: tuple[str, ...], rates, start: list[float], tolerance: float = 1e-9) -> None:
    """The flow is the solution of dx/dt = rates(x)."""
    solved = solve_ivp(lambda _, x: rates(x), (0, 1), start, "DOP853", found.t, rtol=1e-12, atol=1e-14).y
    for name, wanted in zip(names, solved):
        worst = np.abs(found[name] - wanted).max()
        assert worst < tolerance, f"{name} is off by {worst}"
        assert worst <= found.errors[name].max() + 1e-11 * np.abs(wanted).max(), f"the error of {name} is too small"


def test_uniform_attention_and_relu_flow_as_their_equations_say():
    """σ_q = 0: a token takes the mean of all, V(c + (1 − c)/T); what two have in common is the same mean."""
    T, V, s2 = 16, 1.5**2 * 0.8**2, 1.3**2
    gpt = mf.derive("relu", architecture="gpt", heads=8, causal=False, total=1)
    at = ONES | {"sigma_q": 0, "sigma_v": 1.5, "sigma_o": 0.8, "sigma_2": 1.3, "sigma_1": 0.9}
    found = gpt.flow(points=8, quantities=("K", "K_ab"), tokens=T, correlation=0.2, **at)

    def rates(x: np.ndarray, V: float = V) -> list[float]:
        c = x[1] / x[0]
        mixed, wide = V * (c + (1 - c) / T), s2 * 0.9**2
        return [mixed + wide / 2, mixed + wide * relu_kernel(c)]

    assert_follows(found, ("K", "K_ab"), rates, [1, 0.2])
    with pytest.raises(AssertionError, match="K is off by"):
        assert_follows(found, ("K", "K_ab"), lambda x: rates(x, 1.0001 * V), [1, 0.2])
    assert np.allclose(found["c"], found["K_ab"] / found["K"], rtol=1e-12)


def test_a_residual_network_of_erf_has_the_flow_of_its_closed_forms():
    """dK/dt = σ²(2/π) asin(2K/(1 + 2K)), dlog J/dt = σ²(4/π)/√(1 + 4K), over an array of σ."""
    sigma = np.array([0.5, 1.0, 2.0])
    theory = mf.derive(architecture=branch("erf"))
    found = theory.flow(quantities=("K", "J"), sigma_w=sigma, sigma_b=0.3, points=4)
    assert found.K.shape == (3, 5) and found.arrays().axes() == {"t": 5, "point_0": 3}
    for i, s in enumerate(sigma):
        one = theory.flow(quantities=("K", "J"), sigma_w=s, sigma_b=0.3, points=4)
        assert np.allclose(one.K, found.K[i], rtol=1e-10, atol=0)

        def rates(x: np.ndarray, s: float = s) -> list[float]:
            return [s**2 * 2 / np.pi * np.arcsin(2 * x[0] / (1 + 2 * x[0])), s**2 * 4 / np.pi / np.sqrt(1 + 4 * x[0])]

        assert_follows(one, ("K", "log_J"), rates, [s**2 + 0.09, 0])
        with pytest.raises(AssertionError, match="log_J is off by"):
            wrong = partial(planted, rates)
            assert_follows(one, ("K", "log_J"), wrong, [s**2 + 0.09, 0])


@pytest.mark.slow
def test_equations_are_those_that_were_solved():
    gpt = mf.derive("relu", architecture="gpt", heads=8, causal=False, total=1)
    found = equations(gpt.recursion("K", "K_ab", "distance"))
    names = "K K_ab distance sigma_o sigma_v sigma_1 sigma_2 tokens"
    K, K_ab, distance, o, v, w, u, T = symbols = sp.symbols(names, positive=True)
    equation = found.at(sigma_q=0, **{s.name: s for s in symbols})["K"].doit()
    wanted = o**2 * v**2 * (K_ab / K + distance / (2 * K * T)) + u**2 * w**2 / 2
    assert sp.simplify(equation - wanted) == 0
    assert sp.simplify(equation - wanted.subs(T, 2 * T)) != 0
    peri = mf.derive("relu", architecture="gpt", heads=8, causal=False, total=1, norm="peri")
    with pytest.raises(mf.MeanFieldError, match="still changes K"):  # a norm behind a branch makes it large again
        peri.flow(tokens=4, **ONES)


@pytest.mark.parametrize(("theory", "more", "match"), [
    (mf.derive("relu", residual=True), {"sigma_w": 1, "sigma_b": 0}, "no deviation falls with the number of blocks"),
    (mf.derive(architecture=branch("relu", 2)), {"sigma_w": 1, "sigma_b": 0, "points": 0}, "points"),
    (mf.derive(architecture=branch("relu", "1/2")), {"sigma_w": 1, "sigma_b": 0}, "does not converge|still changes"),
    (mf.derive(architecture=branch("z**2")), {"sigma_w": 3, "sigma_b": 0, "quantities": "K"}, "does not converge"),
])  # fmt: skip
def test_where_there_is_no_flow(theory, more, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        theory.flow(**more)


def test_a_flow_is_drawn_and_has_no_depth(tmp_path):
    found = mf.derive(architecture=branch("erf")).flow(quantities=("K", "J"), sigma_w=[1, 2], sigma_b=0, points=4)
    axes = found.plot()
    assert [a.get_ylabel() for a in axes] == [r"$K^\ell$", r"$\log$ $J^{1,\ell}$"]
    assert [line.get_ydata().tolist() for line in axes[0].lines] == found.K.tolist()
    assert mf.load(found.save(tmp_path / "flow.json")).data()["K"][1][-1] == found.K[1, -1]
    with pytest.raises(mf.MeanFieldError, match="has no depth"):
        mf.derive(architecture=branch("erf")).flow(depth=5, sigma_w=1, sigma_b=0)


def test_branches_that_fall_faster_leave_the_state_as_it_is():
    found = mf.derive(architecture=branch("relu", 2)).flow(quantities="K", sigma_w=1, sigma_b=0, points=2)
    assert found.equations["K"] == 0 and np.allclose(found.K, 1, rtol=0, atol=1e-12)
