"""∂ log J^{l,l+1}/∂σ of a layer: against differences of an iteration by hand, and of `propagate` for other records."""

import numpy as np
import pytest
from scipy.special import erf

import meanfield as mf
from meanfield.tuning.network_gains.sensitivities import sensitivities

z = np.linspace(-12, 12, 4001)  # the trapezoidal rule, which is exact for functions analytic beside the axis
weight = np.exp(-z * z / 2)
weight = weight / weight.sum()
PHI = {
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "erf": (erf, lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x)),
}
AT = {"tanh": (1.7, 0.4), "erf": (1.3, 0.2)}


def log_J(name, sigma_w, sigma_b):
    """log J^{l,l+1} of layers with their own σ's, |x|²/N_0 = 1; smooth φ."""
    phi, slope = PHI[name]
    K, found = sigma_w[0] ** 2 + sigma_b[0] ** 2, []
    for w, b in zip(sigma_w[1:], sigma_b[1:]):
        found.append(np.log(w * w * weight @ slope(np.sqrt(K) * z) ** 2))
        K = w * w * weight @ phi(np.sqrt(K) * z) ** 2 + b * b
    return np.array(found)


def by_hand(name, depth, layer, which):
    sigma = [np.full(depth, s) for s in AT[name]]
    values = []
    for step in (-2e-3, -1e-3, 1e-3, 2e-3):
        moved = [s.copy() for s in sigma]
        moved[which][layer] += step
        values.append(log_J(name, *moved))
    return (np.array([1, -8, 8, -1]) @ np.array(values)) / (12 * 1e-3)


def assert_derivative(found, expected):
    assert np.abs(found - expected).max() < 2e-7, "not the derivative of log J"


@pytest.mark.parametrize("name", PHI)
def test_plain_layers(name):
    """Every block by every layer's σ_w and σ_b; control: the derivative by a gain, σ times as large."""
    found = sensitivities(name, depth=6, sigma_w=AT[name][0], sigma_b=AT[name][1])
    for which, rows in enumerate((found.sigma_w, found.sigma_b)):
        assert rows.shape == (5, 6, 1)
        for layer in range(6):
            expected = by_hand(name, 6, layer, which)
            assert_derivative(rows[:, layer, 0], expected)
            if layer < 5:  # σ_b of the last layer moves no J
                with pytest.raises(AssertionError, match="not the derivative"):
                    assert_derivative(rows[:, layer, 0] * AT[name][which], expected)
    assert np.allclose(found.log_J, log_J(name, *(np.full(6, s) for s in AT[name])), atol=1e-9)


@pytest.mark.parametrize("architecture", [{"residual": True}, {"norm": "pre", "mu": "1/2"}, {"norm": "act"}])
def test_other_records_are_differences_of_propagate(architecture):
    theory, depth, layer = mf.derive("gelu", **architecture), 5, 2
    found = sensitivities(theory.block, depth=depth, sigma_w=1.3, sigma_b=0.3)

    def run(step, name):
        sigma = {"sigma_w": np.full(depth, 1.3), "sigma_b": np.full(depth, 0.3)}
        sigma[name][layer] += step
        return np.diff(theory.propagate(**sigma, depth=depth, layerwise=True, quantities=("K", "J")).log_J)

    for name, rows in (("sigma_w", found.sigma_w), ("sigma_b", found.sigma_b)):
        expected = (run(1e-5, name) - run(-1e-5, name)) / 2e-5
        assert_derivative(rows[:, layer, 0], expected)
    with pytest.raises(AssertionError, match="not the derivative"):
        assert_derivative(found.sigma_w[:, layer - 1, 0], expected)


def test_without_a_bias_and_what_is_refused():
    found = sensitivities("tanh", depth=4, sigma_w=1.5)
    assert not found.sigma_b.any() and np.isfinite(found.sigma_w).all()
    for layer in range(4):
        sigma_w = [1.0] * 4
        sigma_w[layer] = 0.0
        with pytest.raises(mf.MeanFieldError, match="sigma_w is 0 in a layer, where J is 0"):
            sensitivities("tanh", depth=4, sigma_w=sigma_w, layerwise=True)
    with pytest.raises(mf.MeanFieldError, match="input_norm must be > 0"):
        sensitivities("tanh", depth=4, input_norm=0.0)
    with pytest.raises(mf.MeanFieldError, match="depth"):
        sensitivities("tanh", depth=1)
