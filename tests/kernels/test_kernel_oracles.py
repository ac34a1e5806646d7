"""Ten layers of every activation, of norms, skips and pools, against polar quadrature: no code of the kernels' own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, owens_t

import meanfield as mf
from tests.oracles.polar import NUMPY_TWINS, one_input_float, two_input_float
from tests.references.make_kernel_references import DEPTH, SIGMA_B, SIGMA_W, inputs

W2, B2 = SIGMA_W**2, SIGMA_B**2
EXACT = ("erf", "relu", "tanh", "gelu", "silu", "sin")  # 1e-11; all others 1e-8
FORMULAS = {"swish": "z*sigmoid(3*z/2)", "scale_invariant": "3/2*max(z, 0) - 1/4*min(z, 0)", "cubic": "z - z**3/3"}
FORMULAS |= {"monomial3": "z**3", "z_erf": "z*erf(z)", "tanh_mix": "tanh(z) - tanh(2*z)/8"}
JUMPS = ("sign", "step")


def moments(name: str, A, AB, B):
    """⟨φφ⟩, ⟨φ′φ′⟩, (⟨φ⟩, ⟨φ²⟩) of either input."""
    phi, slope, kinks = NUMPY_TWINS[name]
    one = [(one_input_float(phi, V, kinks), one_input_float(lambda z: phi(z) ** 2, V, kinks)) for V in (A, B)]
    return two_input_float(phi, A, B, AB, kinks), two_input_float(slope, A, B, AB, kinks), *one


def plain(name, A, AB, B, T):
    both, slopes, (_, a), (_, b) = moments(name, A, AB, B)
    K = W2 * both + B2
    return W2 * a + B2, W2 * b + B2, K, K + W2 * slopes * T


def skip(name, A, AB, B, T):
    a, b, K, theta = plain(name, A, AB, B, T)
    return a + A, b + B, K + AB, theta + T


def before(name, A, AB, B, T):
    """φ(γ LN(z) + β): gains and shifts are trained, too."""
    _, slope, kinks = NUMPY_TWINS[name]
    c = AB / math.sqrt(A * B)
    both, slopes, (_, a), (_, b) = moments(name, 1.0, c, 1.0)
    own = two_input_float(lambda z: z * slope(z), 1.0, 1.0, c, kinks)
    K = W2 * both + B2
    return W2 * a + B2, W2 * b + B2, K, K + W2 * (own + slopes + slopes * T / math.sqrt(A * B))


def behind(name, A, AB, B, T):
    """γ LN(φ(z)) + β."""
    both, slopes, (m, a), (n, b) = moments(name, A, AB, B)
    size = math.sqrt((a - m * m) * (b - n * n))
    c = (both - m * n) / size
    return W2 + B2, W2 + B2, W2 * c + B2, W2 * c + B2 + W2 * (1 + c + slopes / size * T)


def average(name, A, AB, B, T):
    """The mean of two neurons."""
    both, slopes, (m, a), (n, b) = moments(name, A, AB, B)
    K = W2 * (both + m * n) / 2 + B2
    return W2 * (a + m * m) / 2 + B2, W2 * (b + n * n) / 2 + B2, K, K + W2 * slopes / 2 * T


def below(h, k, c):
    """P(x < h, y < k) of a standard pair of correlation c, by Owen's function."""
    s = math.sqrt(1 - c * c)
    crossed = owens_t(h, (k / h - c) / s) + owens_t(k, (h / k - c) / s) + np.where(h * k < 0, 0.5, 0.0)
    return (ndtr(h) + ndtr(k)) / 2 - crossed


def largest(name, A, AB, B, T):
    """The larger of two neurons: both inputs by the same one, or each by its own."""
    phi, slope, _ = NUMPY_TWINS[name]
    s, t = math.sqrt(A), math.sqrt(B)
    c = AB / (s * t)
    r = math.sqrt(1 - c * c)
    edges = np.array([0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9])
    edges = np.concatenate([-edges[:0:-1], edges])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (1 + nodes)).ravel()
    w = (half * weights).ravel()
    p = w * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    joint = p[:, None] * w * np.exp(-((x - c * x[:, None]) ** 2) / (2 * r * r)) / (math.sqrt(2 * math.pi) * r)
    joint *= below(np.broadcast_to(x[:, None], joint.shape), np.broadcast_to(x, joint.shape), c)
    apart = p[:, None] * p * ndtr((x - c * x[:, None]) / r) * ndtr((x[:, None] - c * x) / r)
    both = 2 * phi(s * x) @ (joint + apart) @ phi(t * x)
    slopes = 2 * (slope(s * x) * 1.0) @ joint @ (slope(t * x) * 1.0)
    a, b = (2 * float(np.sum(p * ndtr(x) * phi(u * x) ** 2)) for u in (s, t))
    K = W2 * both + B2
    return W2 * a + B2, W2 * b + B2, K, K + W2 * slopes * T


def reference(step, name: str, x, y, depth: int = DEPTH):
    """K_aa, K_bb, K_ab, Theta_ab at the last layer."""
    A, AB, B = (W2 * float(u @ v) / len(x) + B2 for u, v in ((x, x), (x, y), (y, y)))
    T = AB
    for _ in range(depth - 1):
        A, B, AB, T = step(name, A, AB, B, T)
    return A, B, AB, T


def compare(theory: mf.Theory, step, name: str, limit: float, depth: int = DEPTH) -> None:
    X = inputs()[[0, 1, 10, 45]]
    at = {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B, "depth": depth}
    found = theory.kernel(X, **at)
    off = theory.kernel(X, **(at | {"sigma_w": SIGMA_W * (1 + 10 * limit)}), quantities="K")
    for i, j in ((0, 1), (2, 3), *([(0, 0)] if step is not largest else [])):  # which divides by 1 - c²
        A, B, AB, T = reference(step, name, X[i], X[j], depth)
        size, theta = math.sqrt(A * B), math.sqrt(found.Theta[i, i] * found.Theta[j, j])
        assert abs(found.K[i, j] - AB) < limit * size and abs(found.Theta[i, j] - T) < limit * theta, (i, j)
        assert abs(found.K[i, i] - A) < limit * A and abs(found.K[j, j] - B) < limit * B
        if i != j and size - AB > 1e-2 * size:  # else the reference has no digits of it
            assert abs(found.distance[i, j] / (A + B - 2 * AB) - 1) < 10 * limit
    A = reference(step, name, X[0], X[1], depth)[0]
    assert abs(off.K[0, 0] - A) > limit * A


def grows(name: str) -> bool:
    """Whether K exceeds 100 at the last layer."""
    phi, _, kinks = NUMPY_TWINS[name]
    K = W2 * float(np.max(np.sum(inputs() ** 2, axis=1))) / 8 + B2
    for _ in range(DEPTH - 1):
        K = W2 * one_input_float(lambda z: phi(z) ** 2, K, kinks) + B2
        if K > 100:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NUMPY_TWINS if n not in JUMPS])
def test_every_continuous_activation(name):
    theory = mf.derive(FORMULAS.get(name, name))
    if not grows(name):
        return compare(theory, plain, name, 1e-11 if name in EXACT else 1e-8)
    try:
        found = theory.kernel(inputs(), sigma_w=SIGMA_W, sigma_b=SIGMA_B, depth=DEPTH, quantities="K")
    except mf.MeanFieldError as error:
        assert "exceeds 1e300" in str(error)
    else:
        assert found.K.max() > 100


REGISTERED = tuple(mf.activations())  # before any test adds its own


def test_every_registered_activation_has_a_twin():
    others = {"monomial", "polynomial"}  # as monomial3 and cubic
    assert {n for n in REGISTERED if n not in others} <= set(NUMPY_TWINS)


@pytest.mark.slow
@pytest.mark.parametrize("step", [skip, before, behind, average])
@pytest.mark.parametrize("name", ["tanh", "gelu", "relu"])
def test_architectures(step, name):
    pooled = mf.Sequential((mf.Nonlinearity(name), mf.Pool(2, "average"), mf.Dense()))
    made = {
        skip: lambda: mf.derive(name, residual=True),
        before: lambda: mf.derive(name, norm="pre"),
        behind: lambda: mf.derive(name, norm="act"),
        average: lambda: mf.derive(architecture=pooled),
    }
    compare(made[step](), step, name, 1e-11)


def test_gains_behind_a_norm_of_a_rational_slope():
    """φ_a′φ_b′ = 1/((1 + z_a²)(1 + z_b²)) was multiplied out where gains are trained, and refused."""
    compare(mf.derive("arctan", norm="pre"), before, "arctan", 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_the_larger_of_two(name):
    block = mf.Sequential((mf.Nonlinearity(name), mf.Pool(2, "max"), mf.Dense()))
    compare(mf.derive(architecture=block), largest, name, 1e-10, 4)  # panels of a lattice, where φ is not relu
