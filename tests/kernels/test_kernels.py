"""Kernels of data sets against multiprecision networks that share no code with them, with planted errors."""

from __future__ import annotations

import json

import mpmath as mp
import numpy as np
import pytest

import meanfield as mf
from meanfield.base.symbols import Z
from meanfield.kernels.loops.hermite_series import expand
from tests.references.make_kernel_references import DEPTH, FILE, PAIRS, SIGMA_B, SIGMA_W, inputs

REFERENCES = json.loads(FILE.read_text())
AT = {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B, "depth": DEPTH}


def erf_pair(x, y, depth: int, sigma_w=SIGMA_W, sigma_b=SIGMA_B):
    """K_aa, K_bb, K_ab and Theta_ab of an erf network at 60 digits, by the textbook's arcsine."""
    w2, b2 = mp.mpf(sigma_w) ** 2, mp.mpf(sigma_b) ** 2
    X, Y = ([mp.mpf(float(v)) for v in row] for row in (x, y))
    A, B, AB = (w2 * mp.fsum(p * q for p, q in zip(u, v)) / len(X) + b2 for u, v in ((X, X), (Y, Y), (X, Y)))
    theta = AB
    for _ in range(depth - 1):
        root = mp.sqrt((1 + 2 * A) * (1 + 2 * B))
        value, slope = 2 / mp.pi * mp.asin(2 * AB / root), 4 / mp.pi / mp.sqrt(root**2 - 4 * AB**2)
        theta = w2 * value + b2 + w2 * slope * theta
        A, B = (w2 * 2 / mp.pi * mp.asin(2 * V / (1 + 2 * V)) + b2 for V in (A, B))
        AB = w2 * value + b2
    return A, B, AB, theta


def deviations(name: str, found) -> list[float]:
    """The largest errors of K, Theta and the distance over the stored pairs: of the roots of the diagonals, and
    relative."""
    worst = [0.0, 0.0, 0.0]
    for (a, b), row in zip(PAIRS, REFERENCES[name]):
        A, B, AB, theta = (mp.mpf(v) for v in row)
        size = mp.sqrt(mp.mpf(float(found.Theta[a, a])) * mp.mpf(float(found.Theta[b, b])))
        here = (
            abs(AB - mp.mpf(float(found.K[a, b]))) / mp.sqrt(A * B),
            abs(theta - mp.mpf(float(found.Theta[a, b]))) / size,
            abs(mp.mpf(float(found.distance[a, b])) / (A + B - 2 * AB) - 1),
        )
        worst = [max(u, float(v)) for u, v in zip(worst, here)]
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_ten_layers_against_thirty_digits(name):
    mp.mp.dps = 40
    X = inputs()
    found = mf.derive(name).kernel(X, **AT)
    K, theta, distance = deviations(name, found)
    assert K < 1e-14 and theta < 1e-14 and distance < 1e-13
    assert found.error["K"] > K and theta < found.error["Theta"] and distance < found.error["distance"] < 1e-9
    for values in (found.K, found.Theta, found.distance):
        assert (values == values.T).all()
    assert (np.diag(found.distance) == 0).all()
    assert np.linalg.eigvalsh(found.K)[0] >= -len(X) * 1e-15 * found.K.max()
    off = mf.derive(name).kernel(X, **(AT | {"sigma_w": SIGMA_W * (1 + 1e-12)}), quantities=("K", "Theta", "distance"))
    assert deviations(name, off)[0] > 1e-13  # what the bars would not miss


@pytest.mark.slow
def test_distances_of_close_inputs():
    """|x - y| = 1e-7 and less, across, along and at equal norms; the difference of covariances has no digits there."""
    mp.mp.dps = 70
    rng = np.random.default_rng(3)
    x, u = rng.standard_normal((2, 8))
    turned = u - x * (u @ x) / (x @ x)
    rotated = x * np.cos(1e-7) + turned * np.linalg.norm(x) / np.linalg.norm(turned) * np.sin(1e-7)
    others = [x + 1e-7 * u / np.linalg.norm(u), x * (1 + 1e-7), x * (1 - 3e-8), x + 1e-10 * u, rotated, x, x * 1.5]
    X = np.array([x, *others])
    found = mf.derive("erf").kernel(X, sigma_w=1.5, sigma_b=0.1, depth=11)
    for j, limit in ((1, 1e-8), (2, 1e-8), (3, 1e-8), (4, 1e-6), (5, 1e-8), (7, 1e-13)):
        A, B, AB, theta = erf_pair(X[0], X[j], 11)
        assert abs(mp.mpf(float(found.distance[0, j])) / (A + B - 2 * AB) - 1) < limit, j
        assert abs(mp.mpf(float(found.Theta[0, j])) / theta - 1) < 1e-12
    assert found.distance[0, 6] == 0.0 and found.K[0, 6] == found.K[0, 0] and found.Theta[0, 6] == found.Theta[0, 0]
    plain = found.K[0, 0] + found.K[1, 1] - 2 * found.K[0, 1]
    A, B, AB, _ = erf_pair(X[0], X[1], 11)
    assert abs(mp.mpf(float(plain)) / (A + B - 2 * AB) - 1) > 1e-4  # the other way has lost them


@pytest.mark.slow
def test_equal_norms_keep_twelve_digits():
    mp.mp.dps = 70
    X = np.zeros((5, 4))
    for i, angle in enumerate((0.0, 2.0**-40, 2.0**-24, 0.5, 2.0)):
        X[i, :2] = np.cos(angle), np.sin(angle)
    X[:, 2] = np.sqrt(np.maximum(1.0 - X[:, 0] ** 2 - X[:, 1] ** 2, 0))
    X = np.array([[3.0, 4, 0, 0], [4.0, 3, 0, 0], [5.0, 0, 0, 0], [3.0, 4, 2.0**-30, 0], [3.0, 4, 0, 2.0**-30]])
    found = mf.derive("erf").kernel(X, sigma_w=1.3, sigma_b=0.2, depth=8)
    for a in range(5):
        for b in range(a):
            A, B, AB, _ = erf_pair(X[a], X[b], 8, 1.3, 0.2)
            assert abs(mp.mpf(float(found.distance[a, b])) / (A + B - 2 * AB) - 1) < 1e-12


ARCHITECTURES = {
    "pre": {"norm": "pre"},
    "act": {"norm": "act"},
    "residual": {"residual": True},
    "preln": {"architecture": "preln"},
    "gate": {"architecture": "swiglu"},
    "two Dense": {"architecture": "full_residual", "sigma_a": "1/2", "sigma_v": 1},
    "leaky": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_architectures_against_exact_iteration(kind):
    """The recursion iterated with 30 digits, average by average in balls: none of the compiled loops is used."""
    theory = mf.derive("relu" if kind != "leaky" else "leaky_relu", **ARCHITECTURES[kind])
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2, 6))
    found = theory.kernel(X, sigma_w=1.25, sigma_b=0.5, depth=3)
    recursion = theory.recursion("K_aa", "K_bb", "K_ab", "Theta_ab")
    G = X @ X.T / 6
    first = (1.0, 0.0) if kind == "two Dense" else (1.25, 0.5)
    K = first[0] ** 2 * G + first[1] ** 2
    start = {"K_aa": K[0, 0], "K_bb": K[1, 1], "K_ab": K[0, 1], "Theta_ab": K[0, 1]}
    values = {"sigma_w": 1.25, "sigma_b": 0.5} | {k: float(v) for k, v in start.items()}
    exact = recursion.doit().iterate(values, 3, digits=25)[-1]
    assert abs(found.K[0, 1] / float(exact["K_ab"]) - 1) < 1e-12
    assert abs(found.K[0, 0] / float(exact["K_aa"]) - 1) < 1e-12
    assert abs(found.Theta[0, 1] / float(exact["Theta_ab"]) - 1) < 1e-12


def test_series_of_a_polynomial_and_of_erf():
    """z³ + 1 has four coefficients; those of erf are known in closed form."""
    V = np.array([[0.3, 1.0, 4.0]])
    found = expand(Z[0] ** 3 + 1, 3 * Z[0] ** 2, V)
    assert (found.first, found.step) == (0, 1)
    expected = np.array([np.ones(3), 3 * V[0] ** 1.5, 0 * V[0], np.sqrt(6) * V[0] ** 1.5])
    assert np.abs(found.a[0, :4] - expected).max() < 1e-12 * 8 and np.abs(found.a[0, 4:]).max() < 1e-12
    expected[3] *= 1 + 1e-9
    assert np.abs(found.a[0, :4] - expected).max() > 1e-10


class TestBadInput:
    theory = mf.derive("erf")

    @pytest.mark.parametrize(
        ("X", "words"),
        [
            ([1.0, 2.0], "must have two axes"),
            (np.zeros((0, 3)), "no input"),
            (np.zeros((3, 0)), "no input"),
            ([[1.0, np.nan]], r"X\[0, 1\] is nan"),
            ([[1.0], [np.inf]], "must be finite"),
            ([[1j]], "must be a real number"),
            (np.array([[True, False]]), "must be real numbers"),
            ([["a"]], "array of numbers"),
            ([[1.0], [1.0, 2.0]], "array of numbers"),
            (None, "a row for each input"),
            ([[1e200]], "beyond 1e150"),
        ],
    )
    def test_inputs(self, X, words):
        with pytest.raises(mf.MeanFieldError, match=words):
            self.theory.kernel(X, **AT)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"Y": [[1.0, 2]]}, "dimension 1 and Y of dimension 2"),
            ({"depth": 0}, "depth must be a whole number"),
            ({"depth": 2.5}, "depth must be a whole number"),
            ({"quantities": "J"}, "kernels of data sets are K, Theta and distance"),
            ({"quantities": ()}, "quantities must be a name"),
            ({"dtype": "int8"}, "float64, float32"),
            ({"sigma_w": -1}, "sigma_w must be ≥ 0"),
            ({"sigma_w": [1.0, 2], "layerwise": True}, "one for each of the 11 layers"),
            ({"sigma_w": [1.0] * 11}, "several points, and this verb takes one"),
            ({"sigma_b": "x"}, "sigma_b"),
            ({"mu": 1}, "mu is not a parameter"),
            ({"out": np.empty((2, 2)), "quantities": "K"}, r"shape \(1, 1\), but its shape is \(2, 2\)"),
            ({"out": np.empty((1, 1), dtype="f4"), "quantities": "K"}, "holds float32"),
            ({"out": np.empty((1, 1))}, "one array or file, but 3 quantities"),
            ({"out": {"K": np.empty((1, 1))}}, "must be the same"),
            ({"out": "no/such/folder/K.npy", "quantities": "K"}, "no folder"),
            ({"executor": 3}, "executor must be"),
            ({"threads": 0}, "threads must be"),
        ],
    )
    def test_settings(self, given, words):
        with pytest.raises(mf.MeanFieldError, match=words):
            self.theory.kernel([[1.0]], **(AT | given))

    def test_networks(self):
        with pytest.raises(mf.MeanFieldError, match="infinite"):
            mf.derive("sign").kernel([[1.0]], **AT)
        with pytest.raises(mf.MeanFieldError, match="act on each other"):
            mf.derive("relu", architecture="batchnorm_mlp").kernel([[1.0]], **AT)


def test_the_first_layer_is_the_input():
    """Depth 1 is σ_w² x·y/N_0 + σ_b², whatever the array looks like."""
    X = np.arange(12, dtype=np.float32).reshape(4, 3)[:, ::-1]
    Y = np.arange(6).reshape(2, 3)
    theory = mf.derive("erf")
    found = theory.kernel(X, Y, sigma_w=2, sigma_b=0.5, depth=1)
    exact = 4 * X.astype(float) @ Y.T / 3 + 0.25
    assert np.allclose(found.K, exact, rtol=1e-15) and np.allclose(found.Theta, exact, rtol=1e-15)
    assert np.allclose(found.distance, 4 / 3 * ((X[:, None] - Y) ** 2).sum(-1), rtol=1e-14)
    assert found.K.shape == (4, 2) and found.depth == 1 and "Kernels" in repr(found)
    one = theory.kernel([[0.0, 0.0]], sigma_w=2, sigma_b=0, depth=1)
    assert one.K.tolist() == [[0.0]] and one.distance.tolist() == [[0.0]]


@pytest.mark.slow
def test_close_inputs_behind_jumps():
    """sign, whose averages rise like the root of the distance, against the textbook's arcsine with 60 digits."""
    mp.mp.dps = 60
    x, u = np.random.default_rng(2).standard_normal((2, 8))
    X = np.array([x, x + 1e-2 * u, x + 1e-3 * u, x + 1e-7 * u, x * (1 + 1e-7), -x])
    found = mf.derive("sign").kernel(X, sigma_w=1.5, sigma_b=0.1, depth=4, quantities=("K", "distance"))
    w2, b2 = mp.mpf(1.5) ** 2, mp.mpf(0.1) ** 2
    for j in range(1, 6):
        A, B, AB = (
            w2 * mp.fsum(mp.mpf(float(p)) * mp.mpf(float(q)) for p, q in zip(r, s)) / 8 + b2
            for r, s in ((x, x), (X[j], X[j]), (x, X[j]))
        )
        for _ in range(3):
            AB = w2 * 2 / mp.pi * mp.asin(AB / mp.sqrt(A * B)) + b2
            A = B = w2 + b2
        assert abs(found.K[0, j] / AB - 1) < 1e-9
        assert abs(mp.mpf(float(found.distance[0, j])) / (A + B - 2 * AB) - 1) < found.error["distance"] < 1e-8
    theory, place = mf.derive("step(z - 1/2)"), {"sigma_w": 1.5, "sigma_b": 0.1, "depth": 4}
    shifted = theory.kernel(X, **place, quantities=("K", "distance"))
    assert shifted.error == {"K": np.inf, "distance": np.inf}  # nothing follows these
    assert "no bound of K, distance" in repr(shifted)
    far = theory.kernel(np.array([x, u]), **place, quantities=("K", "distance"))
    assert far.error["K"] < 1e-9 and far.error["distance"] < 1e-6 and "no bound" not in repr(far)


@pytest.mark.slow
def test_the_ordered_phase_by_covariances():
    """K alone needs no distance: 60 layers beyond which all inputs are one, as with the distance and with 60 digits."""
    X = np.random.default_rng(0).standard_normal((5, 8))
    at = {"sigma_w": 0.8, "sigma_b": 0.3, "depth": 61}
    theory = mf.derive("erf")
    K, both = theory.kernel(X, **at, quantities="K"), theory.kernel(X, **at)
    theta = theory.kernel(X, **at, quantities="Theta")
    mp.mp.dps = 40
    for j in range(1, 5):
        A, B, AB, T = erf_pair(X[0], X[j], 61, 0.8, 0.3)
        for found, exact in ((K.K[0, j], AB), (both.K[0, j], AB), (theta.Theta[0, j], T), (both.Theta[0, j], T)):
            assert abs(mp.mpf(float(found)) / exact - 1) < 1e-14
        assert abs(mp.mpf(float(both.distance[0, j])) / (A + B - 2 * AB) - 1) < both.error["distance"]
    assert K.K[0, 1] != theory.kernel(X, **(at | {"sigma_w": 0.8 * (1 + 1e-13)}), quantities="K").K[0, 1]


def test_a_distance_that_is_a_difference_has_no_bound():
    """Behind a LayerNorm on activations nothing follows the distance; elsewhere its bound holds."""
    rows = np.random.default_rng(0).normal(size=(3, 8))
    place = {"sigma_w": 1.5, "sigma_b": 0.1, "depth": 3}
    assert mf.derive("tanh", norm="act").kernel(rows, **place).error["distance"] == np.inf
    assert mf.derive("erf").kernel(rows, **place).error["distance"] < 1e-10
