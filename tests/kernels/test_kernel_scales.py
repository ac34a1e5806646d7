"""Kernels of inputs of very different norms, of any scale, collinear, opposite and 0: closed forms in mpmath, one-
dimensional integrals and homogeneity, each bound held and each planted error seen."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z
from meanfield.kernels import inner_products, single_pairs
from meanfield.kernels.loops import hermite_series, hermite_sums, nearby, pair_averages
from meanfield.kernels.loops.pair_loops import LADDER
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.quadrature import steep_points

pytestmark = pytest.mark.usefixtures("interpreted")

RATIOS = (1 + 1e-9, 1 + 1e-3, 1.3, 9.0, 100.0, 1e6)
W = 1.25


def relu(a, b, ab):
    size = mp.sqrt(a) * mp.sqrt(b)
    c = max(mp.mpf(-1), min(mp.mpf(1), ab / size)) if size else mp.mpf(0)
    angle = mp.acos(c)
    return size * (mp.sin(angle) + (mp.pi - angle) * c) / (2 * mp.pi), (mp.pi - angle) / (2 * mp.pi)


def erf(a, b, ab):
    whole = (1 + 2 * a) * (1 + 2 * b)
    return 2 / mp.pi * mp.asin(2 * ab / mp.sqrt(whole)), 4 / mp.pi / mp.sqrt(whole - 4 * ab * ab)


def sign(a, b, ab):
    return 2 / mp.pi * mp.asin(max(-1, min(1, ab / mp.sqrt(a) / mp.sqrt(b)))), mp.mpf(0)


def sin(a, b, ab):
    near, far = mp.exp(ab - (a + b) / 2), mp.exp(-ab - (a + b) / 2)
    return (near - far) / 2, (near + far) / 2


PAIRS = {"relu": relu, "erf": erf, "sign": sign, "sin": sin}


def exact(phi: str, x, y, depth: int, sigma_b: float = 0.0):
    """(K_aa, K_bb, K_ab) and the same of Theta, at the last layer."""
    w, b = mp.mpf(W) ** 2, mp.mpf(sigma_b) ** 2
    x, y = ([mp.mpf(float(v)) for v in one] for one in (x, y))
    K = [w * mp.fsum(u * v for u, v in zip(p, q)) / len(x) + b for p, q in ((x, x), (y, y), (x, y))]
    theta = K
    for _ in range(depth - 1):
        found = [PAIRS[phi](*one) for one in ((K[0],) * 3, (K[1],) * 3, K)]
        K = [w * product + b for product, _ in found]
        theta = [k + w * slope * t for k, (_, slope), t in zip(K, found, theta)]
    return K, theta


def assert_bounds_hold(found, phi: str, X, depth: int, sigma_b: float = 0.0, off: float = 0.0) -> None:
    """Entries (0, j) are right to their bounds; off: planted, in units of them."""
    with mp.workdps(60):
        for j in range(1, len(X)):
            K, theta = exact(phi, X[0], X[j], depth, sigma_b)
            apart = K[0] + K[1] - 2 * K[2]
            sizes = {"K": (K[2], mp.sqrt(K[0] * K[1])), "Theta": (theta[2], mp.sqrt(theta[0] * theta[1]))}
            for name in found.values:
                true, scale = sizes.get(name, (apart, apart))
                bound = found.error[name]
                miss = abs(getattr(found, name)[0, j] + off * bound * scale - true)
                assert miss <= bound * scale, (name, X[j], bound)


def fan(gap: float) -> np.ndarray:
    """An input and shorter ones at 1 - c = gap."""
    angle = 2 * np.arcsin(np.sqrt(gap / 2))
    return 9 * np.array([[1.0, 0.0], *([np.cos(angle) / r, np.sin(angle) / r] for r in RATIOS)])


@pytest.mark.fast_with("3e-05-relu")
@pytest.mark.parametrize("phi", ["erf", "relu"])
@pytest.mark.parametrize("gap", [0.0, 1e-11, 3e-5])
def test_close_in_angle_far_in_norm(phi, gap):
    """Collinear rows of a ReLU once had Theta off by 1e-5 under 3e-13, those of erf K by 1e-3 under 1e-13."""
    X, theory = fan(gap), mf.derive(phi)
    for names in (("K",), ("K", "distance")) if phi == "erf" else (("K", "Theta", "distance"),):
        found = theory.kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=3, quantities=names)
        assert max(found.error.values()) < 2e-11
        assert_bounds_hold(found, phi, X, 3)
        with pytest.raises(AssertionError, match=names[0]):
            assert_bounds_hold(found, phi, X, 3, off=2.0)


@pytest.mark.slow
def test_a_kernel_does_not_depend_on_what_else_is_asked():
    X, theory = fan(0.0), mf.derive("erf")
    at = {"sigma_w": W, "sigma_b": 0, "depth": 3}
    one, two = (theory.kernel(X, **at, quantities=names) for names in (("K",), ("K", "distance")))
    size = np.sqrt(np.outer(np.diag(one.K), np.diag(one.K)))
    assert (np.abs(one.K - two.K) <= (one.error["K"] + two.error["K"]) * size).all()
    scale = 1.5625  # sigma_w^2 of K at layer 1
    start = {"K_aa": scale * 40.5, "K_bb": scale * 40.5 / RATIOS[3] ** 2, "c": 1.0}
    run = theory.propagate(**at, quantities=("K_aa", "K_bb", "K_ab", "distance"), start=start)
    assert abs(run.K_ab[-1] - two.K[0, 4]) <= 1e-13 * size[0, 4] and size[0, 4] > 1e-3
    assert abs(run.distance[-1] / two.distance[0, 4] - 1) < 1e-12


@pytest.mark.slow  # its distance through unequal norms takes seconds to lower; series of erf above are fast
@pytest.mark.parametrize("ratio", [1 + 1e-6, 1.004, 1.05, 12.0], ids=str)
def test_collinear_rows_of_tanh(ratio):
    """No closed form: one Gaussian, integrated in thirty digits."""
    s, t = mp.mpf(12.0), mp.mpf(12.0 / ratio)
    X = [[12.0], [12.0 / ratio]]
    found = mf.derive("tanh").kernel(X, sigma_w=1, sigma_b=0, depth=2, quantities=("K", "distance"))
    with mp.workdps(30):
        ends = [0, *(mp.mpf(2) ** k for k in range(-6, 3)), 12]

        def mean(f):
            return 2 * mp.quad(lambda x: f(mp.tanh(s * x), mp.tanh(t * x)) * mp.npdf(x), ends)

        a, b, ab, apart = (mean(f) for f in (lambda u, v: u * u, lambda u, v: v * v, lambda u, v: u * v,
                                             lambda u, v: (u - v) ** 2))  # fmt: skip
        assert abs(found.K[0, 1] - ab) <= found.error["K"] * mp.sqrt(a * b) < 1e-11
        assert abs(found.distance[0, 1] / apart - 1) <= found.error["distance"] < 1e-10
        assert abs((1 + 1e-9) * found.distance[0, 1] / apart - 1) > found.error["distance"]


@pytest.mark.fast_with("1e+40")
@pytest.mark.parametrize("scale", [1e-100, 1e-40, 1e40, 1e100])
def test_rows_of_any_scale(scale):
    """A ReLU without bias has K and Theta in proportion to |x|²; covariances have no digits to lose in products."""
    X = np.array([[1.0, 0], [0.3, 0.7], [2, -1], [0, 0], [3, 0]])
    at = {"sigma_w": W, "sigma_b": 0, "depth": 3}
    one, other = (mf.derive("relu").kernel(u * X, **at) for u in (1.0, scale))
    for name in ("K", "Theta", "distance"):
        assert np.allclose(getattr(other, name) / scale / scale, getattr(one, name), rtol=3e-12, atol=1e-15)
    assert (other.K[3] == 0).all() and not np.allclose(other.K / scale**2, 1.001 * one.K, rtol=3e-12)


STEEP = {"tanh({a}*z)": "tanh", "log(1 + exp({a}*z))": "softplus", "1/(1 + ({a}*z)**2)": "1/(1 + z**2)"}


def assert_scales_alike(form: str, a: float) -> None:
    """Rows of a network with phi(a z) are those of one with phi and a sigma_w, a sigma_b: K, Theta, distance by a^2."""
    X = np.array([[1.0, 1.0], [1.0, 1.1], [1.0, 1.00001], [-0.3, 0.7]])
    one = mf.derive(form.format(a=a)).kernel(X, sigma_w=1.5, sigma_b=0.3, depth=2)
    other = mf.derive(STEEP[form]).kernel(X, sigma_w=1.5 * a, sigma_b=0.3 * a, depth=2)
    for name in ("K", "Theta", "distance"):
        found, right = getattr(one, name) * a * a, getattr(other, name)
        size = right + np.eye(len(X)) if name == "distance" else np.sqrt(np.outer(np.diag(right), np.diag(right)))
        assert (np.abs(found - right) / size).max() <= one.error[name] + other.error[name], name


@pytest.mark.slow_with("log(1 + exp({a}*z))-6", "1/(1 + ({a}*z)**2)-3")
@pytest.mark.parametrize(("form", "a"), [("tanh({a}*z)", 4), ("log(1 + exp({a}*z))", 6), ("1/(1 + ({a}*z)**2)", 3)])
def test_a_scale_of_a_function_is_one_of_its_weights(form, a):
    """Panels beside a steep point follow squares of difference quotients, whose poles are of order four: Theta and
    distances of tanh(4z) were 2.8e-8 off under 4e-13."""
    assert_scales_alike(form, a)


def test_control_a_first_panel_that_is_too_wide(monkeypatch, tmp_path):
    kept = (steep_points.resolving_width, planes.plan_of, pair_averages.pair_averages, nearby.nearby)
    monkeypatch.setenv("MEANFIELD_CACHE", str(tmp_path))
    monkeypatch.setattr(steep_points, "_missed", lambda *given: np.zeros(given[3].size))
    for function in kept:
        function.cache_clear()
    try:
        with pytest.raises(AssertionError, match=r"^K"):
            assert_scales_alike("tanh({a}*z)", 3.75)
    finally:
        for function in kept:
            function.cache_clear()


def test_rows_that_underflow_are_refused():
    """K of 1e-300 has no products and soon no digits: once a 0 under a bound of 1e-13, or an error about `start`."""
    X, theory = np.array([[1.0, 0], [1e-150, 2e-150]]), mf.derive("erf")
    with pytest.raises(mf.MeanFieldError, match=r"K of input 1 is below 1e-290 at layer 1.*scale the inputs up"):
        theory.kernel(X, sigma_w=W, sigma_b=0, depth=3)
    with pytest.raises(mf.MeanFieldError, match="below 1e-290 at layer"):
        theory.kernel(X[:1], sigma_w=0.1, sigma_b=0, depth=200)
    assert theory.kernel(0 * X, sigma_w=W, sigma_b=0, depth=3).K.max() == 0
    assert theory.kernel(X, sigma_w=W, sigma_b=0.5, depth=3).K.min() > 0.25


def test_opposite_rows():
    """1 + c is known to a rounding of 1, and slopes of kinked φ see its root: the bound says so."""
    X = np.array([[1.0, 2.0], [-0.9, -1.8 * (1 + 1e-9)], [-1.0, -2.0]])
    found = mf.derive("relu").kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=3)
    assert found.error["Theta"] > 1e-8 > found.error["K"]
    assert_bounds_hold(found, "relu", X, 3)
    usual = mf.derive("relu").kernel(X[:1], -X[1:], sigma_w=W, sigma_b=0, depth=3)
    assert usual.error["Theta"] < 1e-12


@pytest.mark.parametrize("depth", [3, 6])
def test_opposite_rows_of_a_jump(depth):
    """Each layer of a sign takes the root of 1 + c: K was off by 1e-4 in layer 3 and by 0.05 in layer 6 under
    2e-7. They are followed as x and -y."""
    X = np.array([[1.0, 2.0], [-0.9, -1.8 * (1 + 1e-9)], [-1.0, -2.0], [-1.0, -2.001], [-9.0, -18 * (1 + 5e-8)]])
    found = mf.derive("sign").kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=depth, quantities=("K", "distance"))
    assert max(found.error.values()) < 2e-6
    assert_bounds_hold(found, "sign", X, depth)
    with pytest.raises(AssertionError, match="K"):
        assert_bounds_hold(found, "sign", X, depth, off=2.0)


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "names"), [("sign", ("K", "distance")), ("relu", ("K", "Theta", "distance"))])
def test_nearly_collinear_rows_far_apart_in_norm(phi, names, monkeypatch):
    """An angle beside π/2 does not hold its cosine, which is all that a jump sees: K_ab of rows of norm ratio 1e8 and
    an angle of 5e-13 was off by .03 under 1e-11, Theta of ReLU by 7e-11 (1e12) under 1e-12."""
    X = np.array([[1.0, 1.0], *([r, r * (1 + e)] for r in (100.0, 1e8, 1e12) for e in (1e-3, 1e-12))])
    found = mf.derive(phi).kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=5, quantities=names)
    assert_bounds_hold(found, phi, X, 5)
    one = mf.derive(phi).kernel(X[:1], X[:2], sigma_w=W, sigma_b=0, depth=5, quantities=names)
    assert max(one.error.values()) < 1e-10, "what is far apart in norm, only, has a large bound"
    monkeypatch.setattr(single_pairs, "BLUR", 0.0)
    blind = mf.derive(phi).kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=5, quantities=names[1:])
    with pytest.raises(AssertionError, match=names[1]):
        assert_bounds_hold(blind, phi, X, 5)


@pytest.mark.slow
def test_close_rows_of_a_jump():
    """The share of directions in a distance of norms is known to a rounding of its angle, which a jump keeps: distances
    were off by 1e-8 under 5e-12."""
    X = np.array([[1.0, 2.0], [0.9, 1.8 * (1 + 1e-9)], [0.1, 0.2 * (1 + 5e-8)]])
    for depth in (2, 5):
        found = mf.derive("sign").kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=depth, quantities=("K", "distance"))
        assert found.error["distance"] < 1e-6
        assert_bounds_hold(found, "sign", X, depth)
        with pytest.raises(AssertionError, match=r"distance|K"):
            assert_bounds_hold(found, "sign", X, depth, off=2.0)
    same = mf.derive("sign").kernel(
        [[10.0], [1.0], [-3.0]], sigma_w=W, sigma_b=0, depth=6, quantities=("K", "distance")
    )
    assert max(same.error.values()) < 1e-10 and np.allclose(same.K[0] / same.K[0, 0], [1, 1, -1], rtol=1e-14)


@pytest.mark.fast_with("sign")
@pytest.mark.parametrize("phi", ["sign", "step", "1 if z>0 else -1"])
def test_a_row_of_zeros_before_a_jump(phi):
    """Two equal rows of zeros were independent inputs, K that of small ones and their distance 2K."""
    X, at = np.array([[1.0, 2.0], [0, 0], [0, 0]]), dict(sigma_w=W, depth=3, quantities=("K", "distance"))
    for depth in (2, 3):
        with pytest.raises(mf.MeanFieldError, match="input 1 is 0 at layer 1, where φ jumps"):
            mf.derive(phi).kernel(X, sigma_b=0, **at | {"depth": depth})
    assert mf.derive(phi).kernel(X, sigma_b=0.3, **at).distance[1, 2] == 0
    first = mf.derive(phi).kernel(X, sigma_b=0, **at | {"depth": 1})
    assert (first.K[1] == 0).all() and first.distance[1, 2] == 0


def test_a_sum_of_squares_that_has_not_begun():
    """Orders k < 512 of sin at V = 6000 are 0, and their tails were: sin of rows of 100 and 10 had K_ab = K_bb."""
    f, slope = sp.sin(Z[0]), sp.cos(Z[0])
    for V, left in ((6000.0, 1.0), (1.0, 0.0)):
        a, square, slopes = hermite_series._coefficients(f, slope, np.array([V]), LADDER[-1])
        tails, done = hermite_series._tails(a, square, slopes, len(LADDER) - 1)
        assert np.abs(tails[:, -1] - left).max() < 1e-9 and not (done and left)
        with mp.workdps(30):
            below = mp.fsum(mp.exp(-V) * mp.mpf(V) ** k / mp.factorial(k) for k in range(1, 512, 2)) / (
                (1 - mp.exp(-2 * mp.mpf(V))) / 2
            )
        assert abs(1 - below - left) < 1e-9
    X = np.array([[100.0, 0.0], [10.0, 0.0], [1.0, 0.0], [100.0, 1e-9]])
    found = mf.derive("sin").kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=2, quantities=("K", "distance"))
    assert_bounds_hold(found, "sin", X, 2)
    with pytest.raises(AssertionError, match=r"K|distance"):
        assert_bounds_hold(found, "sin", X, 2, off=2.0)


def assert_one_step(found, X, at: float, off: float = 0.0) -> None:
    """K of two rows behind one layer of `1 if z > at else -1`, from the chance that both are above; off: planted."""
    (A, B), AB = (W**2 * (x @ x) / len(x) for x in X), W**2 * (X[0] @ X[1]) / len(X[0])
    with mp.workdps(25):
        s, t = mp.sqrt(A), mp.sqrt(B)
        c = AB / s / t
        both = mp.quad(lambda x: mp.npdf(x) * mp.ncdf((c * x - at / t) / mp.sqrt(1 - c * c)), [at / s, 1, 3, 12])
        true = W**2 * (4 * both - 2 * mp.ncdf(-at / s) - 2 * mp.ncdf(-at / t) + 1)
    assert abs(found.K[0, 1] + off - true) <= found.error["K"] * W**2, (found.K[0, 1], true)


def test_a_step_that_is_odd_at_probes():
    """It was taken for odd, so that half of its series was left out: K was off by a tenth under 3e-12."""
    X = np.array([[1.0, 0.0], [0.6, 0.8]])
    found = mf.derive("1 if z>0.3 else -1").kernel(X, sigma_w=W, sigma_b=0, depth=2, quantities=("K",))
    assert_one_step(found, X, 0.3)
    with pytest.raises(AssertionError, match=r"^\(np.float64\(0.6956"):
        assert_one_step(found, X, 0.3, off=1e-10)


@pytest.mark.parametrize(
    ("phi", "found"),
    [
        ("tanh", (1, 2)),
        ("sign", (1, 2)),
        ("z*erf(z)", (0, 2)),
        ("z/(1+abs(z))", (1, 2)),
        ("abs(z)**1.5", (0, 2)),
        ("clip(z,-2,2)", (1, 2)),
        ("relu", (0, 1)),
        ("1 if z>0.3 else -1", (0, 1)),
        ("tanh(100*z-5)", (0, 1)),
        ("1 if abs(z)>0.2 else z", (0, 1)),
    ],
)
def test_parities_are_proved(phi, found):
    assert hermite_series.parity(mf.derive(phi).activations[0].pieces.expr) == found


def assert_powers(p: float, V: float, off: float = 0.0) -> None:
    """Coefficients of |z|^p are ⟨|x|^p He_k⟩ = ⟨|x|^p⟩ p(p - 2)…(p - k + 2), to 1e-14 of √⟨f²⟩; off: planted."""
    a, square, _ = hermite_series._coefficients(
        mf.derive(f"abs(z)**({p})").activations[0].pieces.expr, None, np.array([V]), 64
    )
    for k in (0, 2, 8, 40, 62):
        with mp.workdps(30):
            true = mp.mpf(V) ** (mp.mpf(p) / 2) * 2 ** (mp.mpf(p) / 2) * mp.gamma((mp.mpf(p) + 1) / 2) / mp.sqrt(mp.pi)
            true *= mp.fprod(mp.mpf(p) - 2 * j for j in range(k // 2)) / mp.sqrt(mp.factorial(k))
        assert abs(a[0, k] * (1 + off) - true) <= 1e-14 * np.sqrt(square[0]), k


@pytest.mark.parametrize("p", [1.5, 0.75])
def test_series_beside_a_branch_point(p):
    """Panels ended at it and went no nearer: K of |z|^1.5 was off by 7e-13 under 7e-14."""
    for V in (0.0123, 1.0, 60.0):
        assert_powers(p, V)
    with pytest.raises(AssertionError, match=r"^0\nassert mpf"):
        assert_powers(p, 1.0, off=1e-13)


@pytest.mark.parametrize("ratio", [3.0, 9.0, 1e3, 1e-3])
def test_the_angle_of_collinear_rows_at_layer_1(ratio):
    """x and y in one direction that no double holds: what y has across x is 0 to 1e-32, whichever is longer."""
    direction = np.array([[0.3, 0.7, -1.1]])
    X, Y = direction, direction / ratio
    K = [np.array([float(np.sum(Z * Z))]) for Z in (X, Y)]
    distance, norm_angle, across = np.empty(1), np.empty(1), np.empty(1)
    both = np.zeros(1, dtype=np.int64)
    inner_products.pair_distances(X, Y, both, both, 1.0, 0.0, *K, distance, norm_angle, across)
    turned = distance[0] * np.cos(norm_angle[0]) ** 2
    assert turned <= 1e-31 * distance[0]
    moved = Y * np.array([1, 1, 1 + 1e-9])
    inner_products.pair_distances(X, moved, both, both, 1.0, 0.0, *K, distance, norm_angle, across)
    assert distance[0] * np.cos(norm_angle[0]) ** 2 > 1e-20 * min(K[0][0], K[1][0])


def served(a, b, s, t, gap, left, right) -> tuple[bool, np.ndarray]:
    """What `sums.close` says of the odd coefficients a and b; left, right: the roots of their tails."""
    out, room = np.zeros(6), np.zeros(len(a))
    left, right = np.array(left), np.array(right)
    return hermite_sums.close(a, b, s, t, s - t, gap, 1, 2, left, right, 512, room, out), out


@pytest.mark.parametrize(
    ("why", "t", "gap", "tail"),
    [
        ("the distance of norms", 0.9, 0.0, (5e-8, 1.0)),
        ("the share of directions", 1.0, 0.5, (3e-7, 1.0)),
        ("K_ab of norms far apart", 1e-3, 0.0, (1e-6, 1.0)),
    ],
)
def test_each_thing_that_left_out_terms_could_change(why, t, gap, tail):
    """A pair is for the series while its tails change nothing, be they of either input or of both: φ = z."""

    def kept(left, right):
        return served(np.array([1.0]), np.array([t]), 1.0, t, gap, left, right)[0]

    none, small = (0.0, 0.0), tuple(1e-3 * x for x in tail)
    assert kept(none, none) and kept(small, small)
    for left, right in ((tail, tail), *([] if t == 1 else [(tail, none), (none, tail)])):
        assert not kept(left, right), why


def wave(s: float) -> np.ndarray:
    """The odd coefficients of sin(sx)."""
    with mp.workdps(40):
        s, k = mp.mpf(s), range(1, 160, 2)
        return np.array([float((-1) ** (n // 2) * s**n * mp.exp(-s * s / 2) / mp.sqrt(mp.factorial(n))) for n in k])


def test_differences_of_coefficients_keep_their_digits():
    """⟨(sin sx - sin tx)²⟩ at s/t - 1 from 1e-12 to 1 and s to 5: to 3e-12, or left to the recursion; and most are
    not left."""
    kept = []
    for t in (0.1, 1.0, 5.0):
        for h in (1e-12, 1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 0.1, 0.5):
            s = t * (1 + h)
            good, out = served(wave(s), wave(t), s, t, 0.0, (0.0, 0.0), (0.0, 0.0))
            with mp.workdps(60):
                u, v = mp.mpf(s), mp.mpf(t)
                exact = 1 - (mp.exp(-2 * u * u) + mp.exp(-2 * v * v)) / 2
                exact -= mp.exp(-((u - v) ** 2) / 2) - mp.exp(-((u + v) ** 2) / 2)
                off = abs(out[3] / exact - 1)
            kept.append(good)
            assert off < 3e-12 or not good, (t, h, float(off))
            assert abs((1 + 1e-11) * out[3] / exact - 1) > 3e-12
    assert sum(kept) >= len(kept) - 4


def test_a_kernel_of_rows_that_vanish_is_refused_and_one_of_a_network_without_weights_is_zero():
    """⟨(z erf z)²⟩ ≤ 4/π ⟨z⁴⟩ = 12/π K²: at K = 1e-200 no double; of σ_w = 0 every K is 0, and so is that of rows 0."""
    rows, theory = np.array([[1e-100], [2e-100]]), mf.derive("z*erf(z)")
    with pytest.raises(mf.MeanFieldError, match="K of input 0 is below 1e-290 at layer 3"):
        theory.kernel(rows, sigma_w=1.2, sigma_b=0, depth=3, quantities="K")
    for X, sigma_w in ((rows, 0), (0 * rows, 1.2)):
        assert not theory.kernel(X, sigma_w=sigma_w, sigma_b=0, depth=3, quantities="K").K.any()
