"""Trained wide networks in closed form: beside flows that SciPy integrates, steps taken one by one, scikit-learn's
Gaussian processes, mpmath, and neural-tangents' numbers."""

from __future__ import annotations

import json
import pickle
import re
from functools import partial

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import softmax

import meanfield as mf
from meanfield.prediction import exact_ranks, predict
from meanfield.prediction.exact_ranks import largest_rank
from meanfield.training import NTKRegressor
from tests import REFERENCES

RNG = np.random.default_rng(33)
X, Y, T = RNG.standard_normal((12, 4)), RNG.standard_normal((12, 2)), RNG.standard_normal((5, 4))
AT = dict(sigma_w=1.5, sigma_b=0.2, depth=3)
TIMES = [0, 1, 30, 1000]
THEORY = mf.derive("tanh")


@pytest.fixture(scope="module")
def kernels():
    return THEORY.kernel(np.concatenate((X, T)), **AT)


def assert_close(found, wanted, within, what) -> None:
    off = np.abs(np.asarray(found) - wanted).max()
    assert off < within, f"{what} is off by {off:.2g}"


def flow(theta, count, force, start, times):
    """Outputs of a linear model that moves by df/dt = Θ_AX force(f_X)/N, by an explicit method in tight steps."""

    def slope(_, f):
        f = f.reshape(start.shape)
        return (theta[:, :count] @ force(f[:count]) / count).ravel()

    found = solve_ivp(slope, (0, max(times)), start.ravel(), method="DOP853", t_eval=times, rtol=1e-12, atol=1e-13)
    return found.y.T.reshape(len(times), *start.shape)


@pytest.mark.slow
def test_mean_is_the_flow_that_scipy_integrates(kernels):
    found = THEORY.predict(X, Y, T, t=TIMES, **AT)
    wanted = flow(kernels.Theta, 12, lambda f: Y - f, np.zeros((17, 2)), TIMES)
    assert found.mean.shape == (4, 17, 2) and found.error.max() < 1e-8
    assert_close(found.mean, wanted, 1e-9, "the mean")
    with pytest.raises(AssertionError, match="the mean is off"):  # the loss without its 1/N
        assert_close(THEORY.predict(X, Y, T, t=np.multiply(TIMES, 12), **AT).mean, wanted, 1e-9, "the mean")
    with pytest.raises(AssertionError, match="the mean is off"):
        assert_close(THEORY.predict(X, Y, T, t=TIMES, **AT | {"sigma_w": 1.5 + 1e-7}).mean, wanted, 1e-9, "the mean")


def test_covariance_is_that_of_starts_carried_along(kernels):
    """The flow is linear in f_0: S, the outputs at t of unit starts, is integrated, and the covariance is S K Sᵀ."""
    found = THEORY.predict(X, Y, T, t=TIMES, **AT)
    S = flow(kernels.Theta, 12, lambda f: -f, np.eye(17), TIMES)
    wanted = np.einsum("tab,bc,tdc->tad", S, kernels.K, S)
    assert_close(found.covariance, wanted, 1e-9, "the covariance")
    assert_close(found.test.covariance, wanted[:, 12:, 12:], 1e-9, "that of test inputs")
    assert_close(found.train.covariance, wanted[:, :12, :12], 1e-9, "that of training inputs")
    assert_close(found.sd**2, np.einsum("taa->ta", wanted), 1e-9, "the variance")
    with pytest.raises(AssertionError, match="the covariance is off"):  # starts of Θ, not of K
        assert_close(np.einsum("tab,bc,tdc->tad", S, kernels.Theta, S), wanted, 1e-9, "the covariance")


@pytest.mark.parametrize("ridge", [0, 0.03])
def test_steps_of_gradient_descent_are_those_taken_one_by_one(kernels, ridge):
    """In weights: θ moves by -η/N (Jᵀ(f - y) + ρ(θ - θ_0)), J any root of Θ."""
    values, vectors = np.linalg.eigh(kernels.Theta)
    J = vectors * np.sqrt(np.maximum(values, 0))
    found = THEORY.predict(X, Y, T, t=[0, 1, 7, 40], rate=0.9, ridge=ridge, **AT)
    assert found.largest_rate > 0.9
    theta, seen = np.zeros((17, 2)), []
    for step in range(41):
        if step in (0, 1, 7, 40):
            seen.append(J @ theta)
        theta = theta - 0.9 / 12 * (J[:12].T @ (J[:12] @ theta - Y) + ridge * theta)
    assert_close(found.mean, np.array(seen), 1e-10, "the mean")
    with pytest.raises(AssertionError, match="the mean is off"):  # one step more
        later = THEORY.predict(X, Y, T, t=[1, 2, 8, 41], rate=0.9, ridge=ridge, **AT)
        assert_close(later.mean, seen, 1e-10, "the mean")


def test_the_end_of_a_flow_with_a_ridge_is_that_of_long_times(kernels):
    found = THEORY.predict(X, Y, T, t=[1e7, np.inf], ridge=0.1, **AT)
    assert_close(found.mean[0], found.mean[1], 1e-10, "the mean at the end")
    assert_close(found.covariance[0], found.covariance[1], 1e-10, "the covariance at the end")
    theta = kernels.Theta
    weights = np.linalg.solve(theta[:12, :12] + 0.1 * np.eye(12), Y)
    assert_close(found.mean[1], theta[:, :12] @ weights, 1e-10, "the mean at the end")


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_the_readout_alone_ends_at_the_gaussian_process(ridge):
    from sklearn.gaussian_process import GaussianProcessRegressor

    kernel = mf.nngp(THEORY, sigma_w=1.5, sigma_b=0.2, depth=3, sigma_w_bounds="fixed", sigma_b_bounds="fixed")
    model = GaussianProcessRegressor(kernel, alpha=max(ridge, 1e-300), optimizer=None).fit(X, Y[:, 0])
    mean, covariance = model.predict(T, return_cov=True)
    found = THEORY.predict(X, Y[:, 0], T, train="last", ridge=ridge, **AT).test
    assert_close(found.mean[0, :, 0], mean, 1e-9, "the mean")
    assert_close(found.covariance[0], covariance, 1e-9, "the covariance")
    with pytest.raises(AssertionError, match="the covariance is off"):
        every = THEORY.predict(X, Y[:, 0], T, ridge=ridge, **AT).test
        assert_close(every.covariance[0], covariance, 1e-9, "the covariance")


def test_one_input_by_mpmath():
    """K and Θ of erf in closed form, to 30 digits."""
    mpmath.mp.dps = 30
    try:
        w, b, x, y, z = (mpmath.mpf(v) for v in ("1.5", "0.2", "0.8", "0.6", "-0.5"))

        def k1(a, c):
            return w**2 * a * c + b**2

        def k2(a, c):
            cosine = 2 * k1(a, c) / mpmath.sqrt((1 + 2 * k1(a, a)) * (1 + 2 * k1(c, c)))
            return w**2 * 2 / mpmath.pi * mpmath.asin(cosine) + b**2

        def theta(a, c):
            slope = 4 / mpmath.pi / mpmath.sqrt((1 + 2 * k1(a, a)) * (1 + 2 * k1(c, c)) - 4 * k1(a, c) ** 2)
            return w**2 * slope * k1(a, c) + k2(a, c)

        g = -mpmath.expm1(-3 * theta(x, x)) / theta(x, x)
        beside = theta(z, x) * g
        wanted = beside * y, k2(z, z) - 2 * beside * k2(x, z) + beside**2 * k2(x, x)
        found = mf.derive("erf").predict([["0.8"]], [0.6], [["-0.5"]], sigma_w=1.5, sigma_b=0.2, depth=2, t=3).test
    finally:
        mpmath.mp.dps = 15
    off = [abs(found.mean[0, 0, 0] - wanted[0]), abs(found.variance[0, 0] - wanted[1])]
    assert max(off) < 3e-15 and off[0] <= found.error[0, 0, 0] + 1e-16


@pytest.mark.slow
def test_neural_tangents_numbers():
    """Means and covariances that neural-tangents 0.6.5 gave in float64 (tests/references/predict.py says how).

    It divides the loss by the outputs, too, so that its time is ours times their number.
    """
    told = json.loads((REFERENCES / "predict.json").read_text())
    rows, y, far = (np.array(told[n]) for n in ("X", "y", "X_test"))
    for one in told["cases"]:
        ours = mf.derive(one["activation"]).predict(
            rows, y, far, sigma_w=1.5, sigma_b=0.1, depth=3, t=[1 / 2, 100 / 2, np.inf], train=one["train"]
        )
        assert_close(ours.test.mean, np.array(one["mean"]), 1e-9, "the mean")
        assert_close(ours.test.covariance, np.array(one["covariance"]), 1e-9, "the covariance")
        with pytest.raises(AssertionError, match="the mean is off"):
            assert_close(ours.test.mean[0], np.array(one["mean"])[1], 1e-9, "the mean")


def test_cross_entropy_is_the_flow_of_outputs(kernels):
    """Integrated in the outputs by an explicit method, where the library integrates weights of the inputs."""
    labels = np.array(["a", "b", "c"])[np.arange(12) % 3]
    found = THEORY.predict(X, labels, T, loss="cross_entropy", t=[0, 5, 60], **AT)
    codes = np.eye(3)[np.arange(12) % 3]
    wanted = flow(kernels.Theta, 12, lambda f: codes - softmax(f, axis=1), np.zeros((17, 3)), [0, 5, 60])
    assert found.classes == ("a", "b", "c")
    assert_close(found.mean, wanted, 1e-6, "the mean")
    assert np.abs(found.mean - wanted).max() <= found.error.max() < 1e-4
    steps = THEORY.predict(X, codes, T, loss="cross_entropy", t=[2], rate=0.5, **AT)
    f = np.zeros((17, 3))
    for _ in range(2):
        f = f + 0.5 / 12 * kernels.Theta[:, :12] @ (codes - softmax(f[:12], axis=1))
    assert_close(steps.mean[0], f, 1e-12, "the mean after two steps")
    with pytest.raises(mf.MeanFieldError, match="no closed form: give networks=100"):
        _ = steps.covariance


def test_cross_entropy_over_drawn_starts():
    """At t = 0 outputs are N(0, K); with classes of equal weight nothing else is known, and the spread falls."""
    labels = np.arange(12) % 2
    asked = dict(loss="cross_entropy", networks=400, seed=3, rate=1.0)
    found = THEORY.predict(X, labels, T, t=[0, 20], **asked, **AT)
    K = np.diag(THEORY.kernel(np.concatenate((X, T)), **AT).K)
    z = (found.variance[0] - K) / (K * np.sqrt(2 / (2 * 399)))
    assert np.abs(z).max() < 4 and np.abs(found.mean[0] / found.error[0]).max() < 4
    again = THEORY.predict(X, labels, T, t=[0, 20], **asked, **AT)
    assert (again.mean == found.mean).all()
    other = THEORY.predict(X, labels, T, t=[0], **asked, **AT | {"sigma_w": 2})
    z = (other.variance[0] - K) / (K * np.sqrt(2 / (2 * 399)))
    assert np.abs(z).max() > 4


def test_equal_inputs_and_low_rank_are_told_from_rounding():
    """Two equal inputs: what both are told on average is learned, and the kernel's rank is said."""
    rows, y = np.concatenate((X, X[:1])), np.concatenate((Y[:, 0], [Y[0, 0] + 1]))
    found = THEORY.predict(rows, y, T, **AT)
    assert "rank 12" in found.message and "1 of its eigenvalues are 0" in found.message
    mean = THEORY.predict(X, [Y[0, 0] + 0.5, *Y[1:, 0]], T, **AT)  # an input that weighs twice has the same end
    assert_close(found.test.mean, mean.test.mean, 1e-8, "the mean")
    assert abs(found.mean[0, 0, 0] - Y[0, 0] - 0.5) < 1e-10 and THEORY.predict(X, Y, T, **AT).message == ""
    linear = mf.derive("linear").predict(X, Y[:, 0], T, sigma_w=1, sigma_b=0, depth=2)
    assert "rank 4" in linear.message
    wanted = T @ np.linalg.lstsq(X, Y[:, 0], rcond=None)[0]
    assert_close(linear.test.mean[0, :, 0], wanted, 1e-10, "least squares")


def test_a_kernel_that_runs_into_rounding_is_refused_at_the_end_of_training():
    """Forty inputs on an interval: eigenvalues fall through 1e-16 without a gap; a finite time has an answer."""
    rows = np.linspace(-1, 1, 40)[:, None]
    with pytest.raises(mf.MeanFieldError, match=r"not positive definite to rounding: \d+ of its eigenvalues"):
        mf.derive("erf").predict(rows, rows[:, 0], sigma_w=1.5, sigma_b=0.1, depth=2)
    found = mf.derive("erf").predict(rows, rows[:, 0], sigma_w=1.5, sigma_b=0.1, depth=2, t=100)
    assert found.error.max() < 1e-6
    assert mf.derive("erf").predict(rows, rows[:, 0], sigma_w=1.5, sigma_b=0.1, depth=2, ridge=1e-6).error.max() < 1e-3


def test_the_bound_of_the_error_holds_where_kernels_are_disturbed(kernels):
    """A kernel with entries off by 1e-9 moves the mean by less than the bound that an error of 1e-9 gives."""
    from meanfield.prediction.linearized import LinearizedNetworks
    from meanfield.prediction.solvers.spectrum import spectrum

    sizes = np.sqrt(np.diag(kernels.Theta))
    noise = RNG.uniform(-1, 1, (17, 17)) * 1e-9
    off = kernels.Theta + np.outer(sizes, sizes) * (noise + noise.T) / 2
    times = np.array([1.0, 30.0, np.inf])

    def made(theta, error):
        own = spectrum(theta[:12, :12].copy(), error, 0.0, "Theta", lambda: 12)
        return LinearizedNetworks(own, theta[12:, :12], kernels.K, Y, None, False, error, sizes[12:])

    moved = np.abs(made(off, 0.0).mean(times) - made(kernels.Theta, 0.0).mean(times))
    bound = made(kernels.Theta, 1e-9).mean_error(times)
    assert (moved <= bound).all() and bound.max() < 1e4 * moved.max()
    assert (moved > made(kernels.Theta, 1e-13).mean_error(times)).any()  # a bound of another error does not hold


def test_the_bound_of_the_error_holds_where_steps_alternate(kernels):
    """At rates between N/λ and 2N/λ what is left along the first eigenvector changes its sign at every step."""
    from meanfield.prediction.linearized import LinearizedNetworks
    from meanfield.prediction.solvers.spectrum import spectrum

    sizes = np.sqrt(np.diag(kernels.Theta))
    times, top = np.array([1.0, 10, 401]), np.linalg.eigh(kernels.Theta[:12, :12])
    noise = np.outer(np.sign(top[1][:, -1]), np.sign(top[1][:, -1])) * 1e-9  # along it
    off = kernels.Theta.copy()
    off[:12, :12] += np.outer(sizes[:12], sizes[:12]) * noise
    rate = 1.99 * 12 / top[0][-1]

    def made(theta, error):
        own = spectrum(theta[:12, :12].copy(), error, 0.0, "Theta", lambda: 12)
        return LinearizedNetworks(own, theta[12:, :12], kernels.K, Y, rate, False, error, sizes[12:])

    moved = np.abs(made(off, 0.0).mean(times) - made(kernels.Theta, 0.0).mean(times))
    assert (moved <= made(kernels.Theta, 1e-9).mean_error(times)).all()
    assert (moved > made(kernels.Theta, 1e-13).mean_error(times)).any()
    own = made(kernels.Theta, 1e-9).spectrum
    left = np.cumsum([abs(1 - own.values[-1] * rate / 12) ** k for k in range(401)])[-1] * rate / 12
    assert abs(own.most(401, rate)[-1] / left - 1) < 1e-12 and left > 10 * own.trained(401, rate)[0][-1]
    assert np.isinf(made(kernels.Theta, np.inf).mean_error(times)).all()  # what nothing bounds


def test_rates_and_times():
    found = THEORY.predict(X, Y, T, t=[3], rate=100.0, **AT)
    assert "not below 2N/lambda_max" in found.message and found.times[0] == 12 / found.eigenvalues[0]
    assert found.largest_rate == pytest.approx(24 / np.linalg.eigvalsh(THEORY.kernel(X, **AT).Theta)[-1], rel=1e-12)
    with pytest.raises(mf.MeanFieldError, match="grows beyond doubles within 1e"):
        THEORY.predict(X, Y, t=[10**6], rate=100.0, **AT)
    with pytest.raises(mf.MeanFieldError, match="does not come to rest"):
        THEORY.predict(X, Y, rate=100.0, **AT)


@pytest.mark.parametrize(
    "asked, said",
    [
        (dict(y=Y[:11]), "an entry or a row for each of the 12 training inputs"),
        (dict(y=["a"] * 12), "y must be numbers for loss='mse', but it holds 'a'"),
        (dict(y=[np.nan] * 12), r"y must be finite, but y\[0\] is nan"),
        (dict(loss="cross_entropy", y=[0.5] * 12, t=1), "0.5 is no label"),
        (dict(loss="cross_entropy", y=[1] * 12, t=1), "one class alone, 1"),
        (dict(loss="cross_entropy", y=Y, t=1), "must be probabilities of the classes"),
        (dict(loss="cross_entropy", y=[0, 1] * 6), "t = inf has no answer"),
        (dict(loss="crossentropy"), "Unknown loss 'crossentropy'"),
        (dict(t=-1), "t must be a number ≥ 0"),
        (dict(t=1.5, rate=0.1), "t counts steps of gradient descent"),
        (dict(rate=0), "rate must be > 0"),
        (dict(ridge=-1), "ridge must be ≥ 0"),
        (dict(train="first"), "Unknown train 'first'"),
        (dict(networks=3), "known in closed form: leave it out"),
        (dict(X_test=T[:, :2]), "X has inputs of dimension 4 and X_test of dimension 2"),
        (dict(X=np.full((12, 4), np.nan)), "X must be finite"),
        (dict(train="last", lambda_w=1), "learning rates change Theta alone"),
        (dict(y=[1, [2, 3], *range(10)]), r"its shape is \(0,\)"),
        (dict(y=(i for i in range(12))), r"its shape is \(\)"),
        (dict(y=[10**400, *range(11)]), "y must be numbers, or labels of one kind"),
        (dict(y=[1e300, *range(11)]), "entries beyond 1e150"),
        (dict(y=np.array(["a", None] * 6, object), loss="cross_entropy", t=1), "none of them missing, but it holds"),
        (dict(loss="cross_entropy", y=[0, 1] * 6, t=1e9, rate=0.1), "steps under cross-entropy are taken one by one"),
        (dict(loss="cross_entropy", y=[0, 1] * 6, t=2000, rate=1e3, ridge=0.1), "grow beyond doubles"),
        (dict(seed="x"), "seed must be a whole number"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(asked, said):
    call = dict(X=X, y=Y, X_test=T) | AT | asked
    with pytest.raises(mf.MeanFieldError, match=said):
        THEORY.predict(**call)


def test_jumps_have_no_tangent_kernel_but_a_readout():
    with pytest.raises(mf.MeanFieldError, match="Theta is not available: it is infinite"):
        mf.derive("sign").predict(X, Y, T, **AT)
    assert mf.derive("sign").predict(X, Y, T, train="last", **AT).sd.shape == (1, 17)


def test_a_prediction_is_a_result(tmp_path):
    found = THEORY.predict(X, Y, T, t=[1, 10, 100], **AT)
    assert "train 0" not in str(found.test) and "± " in str(found) and len(str(found).splitlines()) == 9
    frame = found.to_frame()
    assert frame.loc[(10.0, 13, "test", 1), "mean"] == found.mean[1, 13, 1]
    assert found.to_xarray().sd.dims == ("t", "input")
    path = found.save(tmp_path / "p.npz")
    assert (mf.load(path)["mean"] == found.mean).all()
    assert json.loads(found.to_json())["data"]["covariance"][0][0][0] == found.covariance[0, 0, 0]
    again = pickle.loads(pickle.dumps(found.test))
    assert (again.error == found.error[:, 12:]).all() and (again.covariance == found.test.covariance).all()
    for one in (found, found.test, THEORY.predict(X, Y, T, **AT)):
        one.save(tmp_path / "p.png")


def test_what_does_not_fit_in_memory_is_refused_with_its_size(monkeypatch):
    found = THEORY.predict(X, Y, T, t=np.arange(1, 1001), **AT)
    monkeypatch.setenv("MEANFIELD_MEMORY", "1MB")
    with pytest.raises(mf.MeanFieldError, match=r"covariance of 17 inputs at 1000 times would take about 2\.31 MB"):
        _ = found.covariance
    assert found.sd.shape == (1000, 17) and found.test.covariance.shape == (1000, 5, 5)
    rows = np.random.default_rng(1).standard_normal((150, 3))
    with pytest.raises(mf.MeanFieldError, match="Predicting with 150 training and 5 further inputs would take about"):
        THEORY.predict(rows, rows[:, 0], rows[:5], **AT)


def test_constant_inputs_are_one_input():
    found = THEORY.predict(np.ones((4, 3)), [1.0, 2, 3, 6], np.ones((1, 3)), **AT)
    assert "rank 1" in found.message and abs(found.test.mean[0, 0, 0] - 3) < 1e-12


def test_a_prediction_cites_what_it_rests_on():
    said = mf.cite(THEORY.predict(X, Y, **AT))
    assert "Evolve as Linear Models" in said and "Neural Tangent Kernel" in said and "Gaussian} Processes" in said
    assert "Evolve as Linear Models" not in mf.cite(THEORY.kernel(X, **AT))


def test_equal_inputs_stay_apart_from_rounding_at_any_time():
    """By symmetry two equal inputs with opposite targets are told 0; 1e18 times a rounding was told before."""
    found = mf.derive("erf").predict([[-1.0], [-1], [0.4]], [1, -1, 0], [[0.0], [2]], sigma_w=1.5, sigma_b=0.3, depth=3,
                                     t=[1, 1e10, 1e18, np.inf])  # fmt: skip
    assert np.abs(found.mean).max() < 1e-9 and "rank 2 (equal inputs" in found.message


def test_inputs_that_are_nearly_equal_are_no_equal_inputs():
    """At a distance of 1e-9 the end is -1.98e8 (mpmath, 50 digits), of which doubles know nothing."""
    rows, y, at = [[0.0], [1e-9], [1.0]], [1, -1, 1], dict(sigma_w=1.5, sigma_b=0.3, depth=3)
    with pytest.raises(mf.MeanFieldError, match="not positive definite to rounding: 1 of its eigenvalues"):
        mf.derive("erf").predict(rows, y, [[0.5]], **at)
    apart = mf.derive("erf").predict([[0.0], [1e-5], [1.0]], y, [[0.5]], **at)
    assert abs(apart.test.mean[0, 0, 0] / -19799.4 - 1) < 1e-4 and apart.error.max() > 1e-3


CLOSE = 1 + 3e-3 * np.array([[0.0], [1.0], [2.3], [4.0]])
SMALL = 1e-4 * np.random.default_rng(0).standard_normal((6, 3))


@pytest.mark.parametrize(
    "rows, at",
    [
        (CLOSE, dict(sigma_w=0.9, sigma_b=0.3)),  # eigenvalues from 4.2e-12 on (mpmath, 120 digits)
        (CLOSE, dict(sigma_w=0.9, sigma_b=0.3, train="last")),
        (SMALL, dict(sigma_w=1.2, sigma_b=0)),  # from 1.6e-21 on
        (1e4 * SMALL, dict(sigma_w=1e-5, sigma_b=0.3)),
    ],
)
def test_a_kernel_that_falls_fast_is_not_one_of_low_rank(rows, at, monkeypatch):
    """Its small eigenvalues are set off from rounding, and are trained: the mean is the targets themselves."""
    theory, y = mf.derive("sin(2*z)+z/3"), np.arange(len(rows)) - 1.0
    with pytest.raises(mf.MeanFieldError, match="not positive definite to rounding"):
        theory.predict(rows, y, depth=3, **at)
    with pytest.raises(mf.MeanFieldError, match="not positive definite to rounding"):
        NTKRegressor(theory, depth=3, ridge=0, **at).fit(rows, y)
    with pytest.raises(AssertionError, match="a mean is told"):
        lost = int(re.search(r"rounding: (\d+) of", refusal(theory, rows, y, **at)).group(1))
        monkeypatch.setattr(exact_ranks, "largest_rank", lambda *_: len(rows) - lost)
        assert refusal(theory, rows, y, **at), "a mean is told"


def refusal(theory, rows, y, **at) -> str:
    try:
        theory.predict(rows, y, depth=3, **at)
    except mf.MeanFieldError as error:
        return str(error)
    return ""


PLANE = np.random.default_rng(1).standard_normal((26, 2))
RAYS = np.array([[1.0, 2], [2, 4], [-1, -2], [0.1, 0.2], [3, 1], [0, 0]])


@pytest.mark.parametrize(
    "phi, sigma_b, rows, rank",
    [
        ("linear", 0, PLANE, 2),
        ("linear", 0.3, PLANE, 3),
        ("linear", 0.3, [[1, 1], [2, 1], [3, 1]], 2),  # the constant is the second feature
        ("z**2", 0, PLANE, 3),  # x², xy, y²
        ("z**2", 0.3, PLANE, 6),
        ("z+z**3", 0.3, PLANE, 10),
        ("z**3-z/2", 0, PLANE, 6),
        ("relu", 0, RAYS, 3),
        ("relu", 0.1, RAYS, 6),
        ("abs(z)", 0, RAYS, 2),
        ("tanh", 0, RAYS, 4),
        ("cos(z)", 0, RAYS, 5),
        ("gelu", 0, RAYS, 5),  # of 0 nothing comes
        ("elu", 0.2, np.concatenate((RAYS, RAYS[:2])), 6),
    ],
)
def test_ranks_in_exact_arithmetic(phi, sigma_b, rows, rank):
    """Kernels of inputs that lie far apart show their ranks in doubles."""
    theory, rows = mf.derive(phi), np.asarray(rows, dtype=float)
    found = largest_rank(theory.block, theory.first, rows, 2, {"sigma_w": 1.3, "sigma_b": sigma_b})
    assert found == rank
    values = np.linalg.eigvalsh(np.asarray(theory.kernel(rows, sigma_w=1.3, sigma_b=sigma_b, depth=2).K))
    assert (values > 1e-10 * values[-1]).sum() == rank


@pytest.mark.parametrize(
    "at, mean, rank",
    [
        (dict(sigma_w=1.2, sigma_b=0.1, depth=3, lambda_w=0, lambda_b=0), 0.0, 0),  # nothing is trained
        (dict(sigma_w=0, sigma_b=0, depth=3), 0.0, 0),
        (dict(sigma_w=0, sigma_b=1, depth=3), 2.0, 1),  # a bias learns the mean of the targets
        (dict(sigma_w=0, sigma_b=1, depth=3, train="last"), 2.0, 1),
        (dict(sigma_w=1.2, sigma_b=0, depth=1, lambda_w=0, lambda_b=1), 2.0, 1),
    ],
)
def test_where_no_weights_are_left_biases_alone_are_trained(at, mean, rank):
    """Nothing of the inputs comes through; with weights, the same rank is refused."""
    rows, y = [[1.0, 2], [0, 1], [3, 1]], [1.0, 2, 3]
    found = THEORY.predict(rows, y, [[1, 1]], **at)
    assert_close(found.mean, mean, 1e-12, "the mean")
    name = "K" if at.get("train") == "last" else "Theta"
    own = partial(largest_rank, THEORY.block, THEORY.first, np.array(rows), at["depth"], name=name)
    if at.get("lambda_b") != 0:  # of zeros alone the matrix says it
        assert own(at) == rank
    assert own(dict(sigma_w=1.2, sigma_b=1)) == 3


def test_many_small_steps_are_the_flow():
    """1e16 steps of rate 1e-16 are the flow at t = 1, covariance included."""
    small = THEORY.predict(X, Y, T, t=1e16, rate=1e-16, **AT)
    flow_ = THEORY.predict(X, Y, T, t=1, **AT)
    assert_close(small.mean, flow_.mean, 1e-12, "the mean")
    assert_close(small.covariance, flow_.covariance, 1e-12, "the covariance")


def test_steps_that_grow_beyond_doubles_are_refused():
    found = THEORY.predict(X, Y, T, t=10, rate=1e3, **AT)
    assert "do not settle" in found.message and np.isfinite(found.covariance).all()
    with pytest.raises(mf.MeanFieldError, match="grows beyond doubles within 900 steps"):
        THEORY.predict(X, Y, T, t=900, rate=1e3, **AT)


def test_parts_that_are_empty_say_so():
    found = THEORY.predict(X, Y, t=1, **AT)
    with pytest.raises(mf.MeanFieldError, match="give X_test= to predict"):
        _ = found.test
    with pytest.raises(mf.MeanFieldError, match=r"take \.train of the whole prediction"):
        _ = THEORY.predict(X, Y, T, t=1, **AT).test.train


def test_labels_of_every_kind():
    seen = []
    for y in ([True, False] * 6, ["b", "a"] * 6, [1.0, 0.0] * 6, np.array([True, False] * 6, object),
              np.eye(2)[[1, 0] * 6].astype(bool), np.eye(2, dtype=np.float32)[[1, 0] * 6]):  # fmt: skip
        found = THEORY.predict(X, y, loss="cross_entropy", t=3, rate=0.5, **AT)
        seen.append(found.mean[0, :, 1] - found.mean[0, :, 0])
    assert all(np.abs(one - seen[0]).max() < 1e-6 for one in seen) and np.abs(seen[0]).max() > 0.1


@pytest.mark.slow
def test_a_trained_norm_is_part_of_theta():
    """Gains and shifts of a norm are trained at rate 1: with them fixed and all other rates 0 nothing is learned."""
    free = mf.derive("erf", norm="pre", residual=True)
    at = dict(sigma_w=1.5, sigma_b=0.3, depth=3, lambda_w=0, lambda_b=0)
    assert np.abs(free.kernel(X, **at).Theta).max() > 1
    branch = mf.Sequential((mf.LayerNorm(affine=False), mf.Nonlinearity("erf"), mf.Dense()))
    fixed = mf.derive(architecture=mf.Residual(branch))
    assert (fixed.kernel(X, **at).Theta == 0).all()


def assert_at_rest(ridge, asked):
    """At the end u = (softmax(f(X)) - Y)/ρ makes f(X) = -Θ u, and f of further inputs -Θ u, too; asked: ρ of u."""
    rng = np.random.default_rng(8)
    X, y, far = rng.normal(size=(9, 3)), np.arange(9) % 3, rng.normal(size=(4, 3))
    theory, at = mf.derive("erf"), dict(sigma_w=1.5, sigma_b=0.2, depth=3)
    Theta = theory.kernel(np.concatenate((X, far)), **at).Theta
    predicted = theory.predict(X, y, far, loss="cross_entropy", ridge=ridge, **at)
    p = np.exp(predicted.train.mean[0])
    u = (p / p.sum(axis=1, keepdims=True) - np.eye(3)[y]) / asked
    assert np.abs(predicted.mean[0] + Theta[:, :9] @ u).max() < 1e-6


@pytest.mark.slow_with("1.0")
@pytest.mark.parametrize("ridge", [1.0, 1e-2])
def test_cross_entropy_with_a_ridge_has_an_end(ridge):
    assert_at_rest(ridge, ridge)
    with pytest.raises(AssertionError, match="1e-06"):
        assert_at_rest(ridge, 1.001 * ridge)
    with pytest.raises(mf.MeanFieldError, match="steps are taken one by one"):
        mf.derive("erf").predict([[1.0], [2]], [0, 1], loss="cross_entropy", ridge=1.0, rate=0.1, sigma_w=1, sigma_b=0,
                                 depth=2)  # fmt: skip


def test_rows_say_which_inputs_they_are_of():
    X, y = np.eye(3), np.arange(3.0)
    theory, at = mf.derive("erf"), dict(sigma_w=1.3, sigma_b=0.1, depth=2, ridge=0.1)
    assert [s.split()[:2] for s in str(theory.predict(X, y, X[:2] + 1, **at)).splitlines() if s.startswith("te")] == [
        ["test", "0"], ["test", "1"]]  # fmt: skip
    alone = str(theory.predict(X, y, **at)).splitlines()
    assert [s.split()[:2] for s in alone if s.startswith("tra")] == [["train", "0"], ["train", "1"], ["train", "2"]]
    assert not any(s.startswith("test") for s in alone)


def test_one_output_that_is_no_number_is_enough():
    with pytest.raises(mf.MeanFieldError, match="The outputs grow beyond doubles"):
        predict._finite(np.array([1.0, np.inf]))
    assert predict._finite(np.ones(2)).sum() == 2
