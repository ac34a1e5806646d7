"""The edge of chaos of finite networks: slopes against plain NumPy, exact and published lines, honest errors."""

import math

import numpy as np
import pytest

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import measure_critical_line
from meanfield.empirical.random.matrices import HeldMatrix
from meanfield.empirical.random.philox import normals
from meanfield.empirical.shared import curves
from meanfield.empirical.shared.line import zero_of
from meanfield.networks.records import Dense, Nonlinearity, Pool, Sequential, mlp

TANH, EDGE = 0.1**0.5, {0.02: 1.5441928403, 0.05: 1.7609546396, 0.1: 1.9860726411}  # σ_b² → σ_w²; Sec. 3 of its table


def test_the_zero_of_a_scan():
    """A cubic is met exactly; the error is that of y there, by the slope; a noisy scan is refused."""
    x = np.array([0.5, 1.0, 1.6, 2.0, 2.4])
    y = (x - 1.7) * (1 + 0.1 * (x - 1) ** 2)
    zero, error = zero_of(x, y, np.full(5, 0.01))
    assert zero == pytest.approx(1.7, abs=1e-12) and error == pytest.approx(0.01 / 1.049, rel=1e-9)
    assert zero_of(x, -y, np.full(5, 0.01)) == pytest.approx((zero, error))
    # control: a straight line between the two would be off
    with pytest.raises(AssertionError, match=r"a straight line crosses at 1.69"):
        straight = 1.6 - y[2] * 0.4 / (y[3] - y[2])
        assert straight == pytest.approx(1.7, abs=1e-4), f"a straight line crosses at {straight}"
    with pytest.raises(MeanFieldError, match="0 changes of sign; scan a wider range of sigma_w, or more networks"):
        zero_of(x, y + 5, np.full(5, 0.01), 0.3)
    with pytest.raises(MeanFieldError, match="3 changes of sign; take fewer or more distant values"):
        zero_of(x, np.array([-1.0, 1, -1, 1, 1]), np.full(5, 0.01))


def _slopes(sigma_w, first, width=8, depth=7, networks=3, seed=5, sigma_b=0.3):
    """d log J/dl of tanh networks, multiplied out."""
    J = np.zeros((networks, depth))
    for index in range(networks):
        x = normals(seed, index, 0, 0, width)
        z, jacobian = x * math.sqrt(width / (x @ x)), np.eye(width)
        for layer in range(1, depth + 1):
            w = sigma_w / math.sqrt(width) * normals(seed, index, layer, 0, width * width).reshape(width, width)
            if layer > 1:
                jacobian = w @ (jacobian * (1 - np.tanh(z)[:, None] ** 2))
                z = np.tanh(z)
            z = w @ z + sigma_b * normals(seed, index, layer, 1, width)
            J[index, layer - 1] = np.sum(jacobian**2) / width
    return np.polyfit(np.arange(first, depth + 1), np.log(J.mean(axis=0))[first - 1 :], 1)[0]


def assert_slopes(found, scale=1.0):
    for w, slope in zip(found.sigma_w, found.slopes.mean[0]):
        assert slope == pytest.approx(_slopes(scale * w, found.first), abs=1e-9), f"the slope at {w} is {slope}"


def test_slopes_against_a_plain_reading(monkeypatch):
    monkeypatch.setattr(curves, "draw_probes", lambda n, seed, index, probes, law: math.sqrt(n) * np.eye(n))
    sizes = {"width": 8, "depth": 7, "networks": 3, "probes": 8, "seed": 5}
    found = measure_critical_line(mlp("tanh"), sigma_w=[0.5, 0.7, 4.5], sigma_b=0.3, first=3, **sizes)
    assert_slopes(found)
    with pytest.raises(AssertionError, match="the slope at"):
        assert_slopes(found, scale=1.001)


def _relu(**more):
    return measure_critical_line(
        mlp("relu"), sigma_w=[1.3, 1.4, 1.5], sigma_b=0, width=40, depth=10, networks=150, probes=4, **more
    )


@pytest.mark.slow
def test_the_exact_edge_of_relu(monkeypatch):
    """E J^{1,l} = (σ_w²/2)^{l−1} at every width: the edge is 2. Control: weights 3 % too large."""
    found = _relu().variances
    assert abs(found.mean[0] - 2) < 4 * found.standard_error[0] < 0.2

    def larger(right):
        def wrong(self, rows, out):
            right(self, rows, out)
            out *= 1.03

        return wrong

    with monkeypatch.context() as patch:
        for name in ("affine", "matvec"):
            patch.setattr(HeldMatrix, name, larger(getattr(HeldMatrix, name)))
        found = _relu().variances
    assert abs(found.mean[0] - 2) > 4 * found.standard_error[0]
    wider = measure_critical_line(
        mlp("relu"), sigma_w=np.array([1.3, 1.4, 1.5]) * 1.03, sigma_b=0, width=40, depth=10, networks=150, probes=4
    )
    assert found.mean[0] * 1.03**2 == pytest.approx(wider.variances.mean[0], rel=1e-9)


def _tanh(width, scan=(1.7, 1.85, 2, 2.15, 2.3), **more):
    return mf.measure_critical_line(
        "tanh", sigma_w=np.sqrt(scan), sigma_b="sqrt(1/10)", width=width, networks=4, **more
    )


@pytest.mark.slow
def test_tanh_in_practice():
    found = _tanh(400, depth=31, seed=2)
    assert abs(found.variances.mean[0] - EDGE[0.1]) < 0.06
    assert str(found).startswith("σ_w² = ") and str(found).endswith("at σ_b² = 0.1 (N = 400, L = 31, 4 networks)")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_tanh_at_the_size_of_the_paper(seed):
    """[bias_and_trainability] Sec. 4: σ_w² = 1.986 within .06 at N = 1024, L = 31, four networks."""
    assert abs(_tanh(1024, seed=seed).variances.mean[0] - EDGE[0.1]) < 0.06


@pytest.mark.slow
def test_several_biases_and_the_lazy_sampler():
    scan = np.sqrt(np.linspace(1.2, 2.4, 7))
    sizes = {"width": 10_000, "networks": 8, "sampler": "lazy"}
    found = measure_critical_line(mlp("tanh"), sigma_w=scan, sigma_b=np.sqrt(list(EDGE)), **sizes)
    assert np.abs(found.variances.mean - list(EDGE.values())).max() < 0.02
    assert found.slopes.mean.shape == (3, 7) and (np.diff(found.slopes.mean, axis=1) > 0).all()


@pytest.mark.slow
def test_pools_of_tanh():
    """Maximum: tanh's edge; mean: twice that ([bias_and_trainability] App. F.3), σ_b² = .1."""
    for kind, edge in (("max(z1, z2)", EDGE[0.1]), ("average", 2 * EDGE[0.1])):
        block = Sequential((Nonlinearity("tanh"), Pool(2, kind), Dense()))
        scan = np.sqrt(edge * np.array([0.8, 0.9, 1, 1.1, 1.2]))
        sizes = {"width": 4000, "networks": 6, "sampler": "lazy", "seed": 1}
        found = measure_critical_line(block, sigma_w=scan, sigma_b=TANH, **sizes).variances
        assert abs(found.mean[0] / edge - 1) < 0.03


@pytest.mark.slow
def test_errors_are_honest():
    scan = np.linspace(1.1, 3.1, 6)
    runs = [_tanh(200, scan, depth=16, seed=seed, probes=4).variances for seed in range(60)]
    spread = np.std([run.mean[0] for run in runs], ddof=1)
    assert 0.6 < np.sqrt(np.mean([run.standard_error[0] ** 2 for run in runs])) / spread < 1.7


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sigma_w": [1, 2]}, "A scan takes three values of sigma_w or more in increasing order"),
        ({"sigma_w": [1, 3, 2]}, "A scan takes three values"),
        ({"sigma_w": [0.1, 0.2, 0.3]}, "with 0 changes of sign; scan a wider range"),
        ({"sigma_b": -1}, "sigma_b must be a number ≥ 0 or a list of them"),
        ({"networks": 2}, "The number of networks must be an integer from 3"),
        ({"first": 9}, "The first layer of the fit must be an integer from 1 to 8"),
        ({"depth": 2}, "The depth must be an integer from 3"),
        ({"sampler": "none"}, "Unknown sampler 'none'"),
    ],
)
def test_refusals(more, message):
    sizes = {"sigma_w": [0.5, 1, 2], "sigma_b": 0, "width": 6, "depth": 9, "networks": 3}
    with pytest.raises(MeanFieldError, match=message):
        measure_critical_line(mlp("tanh"), **sizes | more)


def test_what_overflows_or_jumps():
    sizes = {"sigma_b": 0, "width": 6, "depth": 12, "networks": 3}
    with pytest.raises(MeanFieldError, match=r"Networks overflow .* for sigma_w = 1e\+30; take a smaller depth"):
        measure_critical_line(mlp("relu2"), sigma_w=[0.5, 1, 1e30], **sizes)
    with pytest.raises(MeanFieldError, match="J was asked for an activation that jumps"):
        measure_critical_line(mlp("step"), sigma_w=[0.5, 1, 2], **sizes)
