"""Regressions by Cholesky, conjugate gradients and Nyström are those of plain NumPy, SciPy and scikit-learn."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

import meanfield as mf
from meanfield.base.storage import files
from meanfield.prediction.solvers import conjugate, log_determinant, nystrom
from meanfield.prediction.solvers.cholesky import Cholesky
from meanfield.prediction.solvers.conjugate import conjugate_gradients
from meanfield.prediction.solvers.low_rank import low_rank
from meanfield.prediction.solvers.solver_choice import SolverSettings, chosen
from meanfield.prediction.solvers.system import System
from meanfield.training import NTKClassifier, NTKRegressor

THEORY = mf.derive("erf")
AT = dict(sigma_w=1.3, sigma_b=0.1, depth=3)
RIDGE = 1e-3
RNG = np.random.default_rng(35)
ALL = RNG.standard_normal((600, 6))
ALL_Y = np.stack([np.sin(2 * ALL[:, 0]), ALL[:, 1] * ALL[:, 2]], axis=1) + 0.1 * RNG.standard_normal((600, 2))
X, Y, N = ALL[:160], ALL_Y[:160], 160
T = RNG.standard_normal((9, 6))
CG = dict(solver="cg", rank=50, rtol=1e-12)


def assert_near(found, wanted, tolerance, what):
    off = np.abs(np.asarray(found) - np.asarray(wanted)).max()
    assert off <= tolerance, f"{what} is off by {off:.1e}"


def predicted(train="last", y=Y, ridge=RIDGE, X=X, T=T, **more):
    return THEORY.predict(X, y, T, train=train, ridge=ridge, **more, **AT)


@pytest.fixture(scope="module")
def exact():
    """(K, Theta) of all inputs, training first, and the answers by numpy.linalg.solve."""
    kernels = THEORY.kernel(np.concatenate((X, T)), quantities=("K", "Theta"), **AT)
    K, n, found = np.asarray(kernels.K), len(X), {}
    for train, kernel in (("last", K), ("all", np.asarray(kernels.Theta))):
        A = kernel[:n, :n] + RIDGE * np.eye(n)
        W = np.linalg.solve(A, kernel[:n])  # of all inputs
        S = np.concatenate((np.eye(n), np.zeros((n, 9))), axis=1)  # what starts are seen at the training inputs
        S = np.eye(n + 9) - W.T @ S
        noise = RIDGE * W.T @ W if train == "last" else 0.0
        found[train] = kernel[:, :n] @ np.linalg.solve(A, Y), S @ K @ S.T + noise, A
    return found


@pytest.mark.slow_with("more1-last", "more1-all", "more2-last", "more2-all")
@pytest.mark.parametrize("train", ["last", "all"])
@pytest.mark.parametrize("more", [dict(solver="cholesky"), CG, CG | dict(rank=0), dict(solver="eigh")])
def test_every_exact_solver_is_numpys(exact, train, more):
    found = predicted(train, **more)
    mean, covariance, _ = exact[train]
    assert found.solver == more["solver"] and found.message == ""
    assert_near(found.mean[0], mean, 1e-8, "the mean")
    assert (np.abs(found.mean[0] - mean) <= found.error[0] + 1e-9).all()
    assert_near(found.test.covariance[0], covariance[N:, N:], 1e-8, "the covariance")
    assert_near(found.test.variance[0], np.diag(covariance)[N:], 1e-8, "the variance")
    if more["solver"] != "cg" or more["rank"]:
        assert_near(found.train.sd[0] ** 2, np.diag(covariance)[:N], 1e-8, "the variance")
    with pytest.raises(AssertionError, match="the mean is off"):
        assert_near(predicted(train, ridge=1.01 * RIDGE, **more).mean[0], mean, 1e-8, "the mean")


@pytest.mark.slow
def test_600_rows():
    """Conjugate gradients are Cholesky's to 1e-8 in predictions, and Cholesky's are NumPy's."""
    for train in ("last", "all"):
        wanted = predicted(train, X=ALL, y=ALL_Y, solver="cholesky")
        found = predicted(train, X=ALL, y=ALL_Y, solver="cg", rank=200, rtol=1e-11)
        assert_near(found.mean, wanted.mean, 1e-8, "the mean")
        with pytest.raises(AssertionError, match="the mean is off"):
            worse = predicted(train, X=ALL, y=ALL_Y, solver="cg", rank=200, rtol=1e-5)
            assert_near(worse.mean, wanted.mean, 1e-8, "the mean")
    Theta = np.asarray(THEORY.kernel(ALL, quantities="Theta", **AT).Theta)
    weights = np.linalg.solve(Theta + RIDGE * np.eye(600), ALL_Y)
    assert_near(wanted.train.mean[0], Theta @ weights, 1e-9, "the mean")


@pytest.mark.slow
def test_residuals_are_those_of_the_equations(exact):
    A = exact["last"][2]
    for more in (dict(solver="cholesky"), CG, CG | dict(rtol=1e-5)):
        model = NTKRegressor("erf", train="last", ridge=RIDGE, **more, **AT).fit(X, Y)
        left = np.linalg.norm(Y - A @ model.dual_coef_, axis=0) / np.linalg.norm(Y, axis=0)
        found = predicted(**more)
        assert_near(found.residual, left.max(), 1e-13 + 1e-6 * left.max(), "the residual")
        assert found.residual <= more.get("rtol", 1e-12) and (found.iterations > 0) == ("rtol" in more)


def test_conjugate_gradients_are_scipys(exact):
    """The same iterates, without a preconditioner, column by column."""
    A = exact["last"][2]
    for steps in (3, 8):
        ours = conjugate_gradients(lambda v: A @ v, Y, lambda v: v, rtol=1e-14, maxiter=steps)
        for c in range(2):
            theirs = cg(LinearOperator(A.shape, matvec=lambda v: A @ v), Y[:, c], rtol=1e-14, maxiter=steps)[0]
            assert_near(ours.x[:, c] / np.abs(theirs).max(), theirs / np.abs(theirs).max(), 1e-8, "the iterate")
        assert ours.iterations == steps
    with pytest.raises(AssertionError, match="the iterate is off"):
        assert_near(ours.x[:, 0], cg(A, Y[:, 0], rtol=1e-14, maxiter=7)[0], 1e-8, "the iterate")


@pytest.mark.slow
def test_columns_do_not_change_each_other():
    both, first = predicted(**CG), predicted(y=Y[:, :1], **CG)
    assert_near(both.mean[0, :, :1], first.mean[0], 1e-10, "the first output")
    zero = predicted(y=np.stack([Y[:, 0], np.zeros(N)], axis=1), **CG)
    assert (zero.mean[0, :, 1] == 0).all()
    assert_near(zero.mean[0, :, :1], first.mean[0], 1e-10, "the first output")


class TestPreconditioner:
    def system(self, X=X):
        return System(THEORY.kernel, THEORY.kernel_operator, X, "K", RIDGE, {**AT, "threads": 1, "executor": None})

    def test_it_is_what_it_says(self, exact):
        A = exact["last"][2]
        near = low_rank(self.system(), 50, seed=1)
        P = near.Q * near.s @ near.Q.T + RIDGE * np.eye(N)
        assert near.rank == 50 and np.abs(near.Q.T @ near.Q - np.eye(50)).max() < 1e-8
        assert_near(near.solve(P @ Y), RIDGE * Y, 1e-9, "the inverse")
        assert_near(near.root(near.root(P @ Y)), Y, 1e-9, "the root")
        assert_near(near.log_determinant, np.linalg.slogdet(P)[1], 1e-7, "the determinant")
        left = np.linalg.eigvalsh(A - P)
        assert left.min() > -1e-9 and np.trace(A - P) < 3 * np.sort(np.linalg.eigvalsh(A))[:-50].sum()
        with pytest.raises(AssertionError, match="the inverse is off"):
            assert_near(near.solve(A @ Y), RIDGE * Y, 1e-9, "the inverse")

    def test_equal_inputs_bring_nothing_new(self):
        rows = np.repeat(X[:5], 10, axis=0)
        near = low_rank(self.system(rows), 50, seed=1)
        assert near.rank == 5
        found = predicted(X=rows, y=np.repeat(Y[:5], 10, axis=0), **CG)
        assert found.iterations <= 3 and found.residual < 1e-12

    @pytest.mark.slow
    def test_more_rows_take_fewer_iterations(self):
        many = [predicted(**CG | dict(rank=k)).iterations for k in (0, 30, 120)]
        assert many[0] > 1.5 * many[1] > 2 * many[2] > 0


def test_nystrom_is_the_regression_with_fewer_functions(exact):
    """By least squares on the columns of the inputs that are kept, and the projected process by its definition."""
    more = dict(train="last", ridge=RIDGE, solver="nystrom", rank=80, random_state=3)
    model = NTKRegressor("erf", **more, **AT).fit(X, Y)
    S = model.X_support_
    assert S.shape == (80, 6) and len({tuple(s) for s in S} - {tuple(x) for x in X}) == 0
    kernel = lambda a, b: np.asarray(THEORY.kernel(a, b, quantities="K", **AT).K)  # noqa: E731
    values, vectors = np.linalg.eigh(kernel(S, S))
    root = vectors / np.sqrt(values)
    F, G = kernel(X, S) @ root, kernel(T, S) @ root  # functions of unit norm
    stacked = np.concatenate((F, np.sqrt(RIDGE) * np.eye(80)))
    weights = np.linalg.lstsq(stacked, np.concatenate((Y, np.zeros((80, 2)))), rcond=None)[0]
    mean, sd = model.predict(T, return_std=True)
    assert_near(mean, G @ weights, 1e-8, "the mean")
    inner = np.linalg.inv(F.T @ F / RIDGE + np.eye(80))
    variance = np.diag(kernel(T, T)) - (G**2).sum(axis=1) + ((G @ inner) * G).sum(axis=1)
    assert_near(sd**2, variance, 1e-8, "the variance")
    found = predicted(solver="nystrom", rank=80, seed=3)
    assert_near(found.test.mean[0], mean, 1e-12, "the mean")
    Q = F @ F.T + RIDGE * np.eye(N)
    assert_near(float(found.log_determinant()), np.linalg.slogdet(Q)[1], 1e-5, "the determinant")
    assert "keeps 80 of 160 inputs" in found.message and found.residual is None
    with pytest.raises(AssertionError, match="the mean is off"):
        assert_near(predicted(solver="nystrom", rank=80, seed=4).test.mean[0], mean, 1e-8, "the mean")


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-4])
def test_a_covariance_by_conjugate_gradients_is_known_to_the_square_of_what_is_left(exact, rtol):
    """ΔK_ab = R_aᵀA⁻¹R_b, ‖R_a‖ ≤ rtol ‖K_Xa‖ (train="last"): 3.8e-6 at 1e-4, where to first order 7e-5 are left."""
    K = np.asarray(THEORY.kernel(np.concatenate((X, T)), quantities="K", **AT).K)
    wanted = K - K[:, :N] @ np.linalg.solve(exact["last"][2], K[:N])
    found = predicted(solver="cg", rank=0, rtol=rtol).covariance[0]
    assert_near(found, wanted, 1e3 * rtol**2, "the covariance")
    if rtol == 1e-4:
        with pytest.raises(AssertionError, match="the covariance is off"):
            assert_near(found, wanted + 7e-5, 1e3 * rtol**2, "the covariance")


@pytest.mark.parametrize("rank", [20, 80, 160])
def test_the_distance_of_nystrom_is_bounded(exact, rank):
    for train in ("last", "all"):
        found, (mean, covariance, A) = predicted(train, solver="nystrom", rank=rank), exact[train]
        assert (np.abs(found.mean[0] - mean) <= found.error[0] + 1e-9).all()
        own, bound = found.log_determinant(), np.linalg.slogdet(A)[1]
        assert 0 <= bound - float(own) + 1e-6 <= own.error + 1e-5
        if train == "last":
            assert (found.test.variance[0] >= np.diag(covariance)[N:] - 1e-9).all()
    if rank == N:
        assert_near(found.mean[0], mean, 1e-7, "the mean of all inputs")


def test_what_has_not_converged_says_so_and_its_error_is_true(exact):
    for steps in (1, 5, 20):
        found = predicted(**CG | dict(maxiter=steps))
        off = np.abs(found.mean[0] - exact["last"][0])
        assert found.iterations == steps and "have not converged" in found.message
        assert (off <= found.error[0]).all() and off.max() > 1e-4 * found.error[0].max()
        assert found.residual > 1e-12 and f"{found.residual:.1e} of the targets" in found.message
        assert "have not converged" in str(found).replace("\n", " ")
        with pytest.raises(mf.MeanFieldError, match=f"not known to rtol = 1.0e-12: .*after {steps} iterations"):
            _ = found.test.variance
    with pytest.raises(AssertionError, match="too small"):  # a residual that is not the one that is left
        wrong = predicted(**CG)
        assert (off <= wrong.error[0]).all(), "the error is too small"


# ------------------------------------------------------------------------------------- what blocks say of the kernel


def arc_cosine(rows, sigma_w: float):
    """Θ of relu at layer 2, σ_b = 0, in 60 digits."""
    with mp.workdps(60):
        w2, n = mp.mpf(sigma_w) ** 2, len(rows)
        rows = [[mp.mpf(float(v)) for v in row] for row in rows]
        K = mp.matrix(n, n)
        for i, j in product(range(n), repeat=2):
            K[i, j] = w2 * mp.fdot(rows[i], rows[j]) / len(rows[0])
        theta = mp.matrix(n, n)
        for i, j in product(range(n), repeat=2):
            size = mp.sqrt(K[i, i] * K[j, j])
            angle = mp.acos(K[i, j] / size) if i != j else mp.mpf(0)
            made = w2 / (2 * mp.pi) * size * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle))
            theta[i, j] = made + w2 * (mp.pi - angle) / (2 * mp.pi) * K[i, j]
        return theta


@pytest.mark.parametrize("solver", ["cholesky", "cg", "eigh"])
def test_rows_that_are_nearly_opposite(solver):
    """Θ misses what blocks say alone: the mean was off by twelve times the error that Cholesky stated."""
    rng, targets, worst = np.random.default_rng(3), np.array([1.0, -1, 0.5, 1, 1, -0.7]), 0.0
    for eps in (1e-8, 1e-9):
        x = rng.standard_normal((3, 6))
        rows, test = np.vstack([x, -1.3 * x]), -0.7 * x[:1]
        rows[3:, 0] *= 1 + eps
        test[0, 1] *= 1 + 2 * eps
        at = dict(ridge=1e-3, solver=solver, sigma_w=1.4, sigma_b=0, depth=2)
        found = mf.derive("relu").predict(rows, targets, test, **at)
        with mp.workdps(60):
            theta = arc_cosine(np.vstack([rows, test]), 1.4)
            exact = theta[:, :6] * mp.lu_solve(theta[:6, :6] + mp.mpf(1e-3) * mp.eye(6), mp.matrix(targets.tolist()))
        off = np.array([abs(float(mp.mpf(float(found.mean[0, a, 0])) - exact[a])) for a in range(7)])
        assert (off <= found.error[0, :, 0]).all(), off / found.error[0, :, 0]
        worst = max(worst, off.max())
    assert worst > 1e-11  # rounding alone, which Cholesky stated, does not explain it


CLOSE = np.random.default_rng(11).standard_normal((8, 5))
CLOSE[3] = CLOSE[4] * (1 + 1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("solver", ["cholesky", "cg", "eigh", "nystrom"])
def test_where_nothing_bounds_the_kernel_nothing_bounds_the_answer(solver):
    """Behind a LayerNorm on activations Theta has no bound: neither has the mean, nor the evidence; targets that are 0
    have a mean that is."""
    theory, at = mf.derive("relu", norm="act"), dict(sigma_w=1.4, sigma_b=0.3, depth=3, ridge=0.1, solver=solver)
    at |= {"rank": 4} if solver == "nystrom" else {}
    targets = np.stack([np.sin(CLOSE[:, 0]), 0 * CLOSE[:, 0]], axis=1)
    found = theory.predict(CLOSE, targets, CLOSE[:1] + 0.5, **at)
    assert np.isinf(found.error[0, :, 0]).all() and (found.mean[0, :, 1] == 0).all()
    assert solver == "eigh" or (found.error[0, :, 1] == 0).all()
    assert np.isinf(found.log_determinant().error) and str(found.log_likelihood()).endswith("+- inf")


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_what_is_known_less_of_test_inputs_is_said_of_them(solver):
    """One that is nearly opposite to a training input: its own error is larger, that of the training inputs is not."""
    rows = np.random.default_rng(3).standard_normal((3, 6))
    at = dict(ridge=0.1, solver=solver, sigma_w=1.4, sigma_b=0, depth=2) | ({"rtol": 1e-14} if solver == "cg" else {})
    found = mf.derive("relu").predict(rows, np.array([1.0, -1, 0.5]), np.stack([-1.3 * rows[0], rows[1] + 1]), **at)
    assert found.error[0, :3].max() < 1e-10 < 1e-9 < found.error[0, 3, 0]



def test_rounding_that_leaves_no_more_is_said():
    found = predicted(**CG | dict(rtol=1e-17))
    assert "rounding leaves no more" in found.message and found.residual < 1e-12


class TestLikelihood:
    def test_by_every_solver(self, exact):
        A, n = exact["last"][2], len(X)
        log_det = np.linalg.slogdet(A)[1]
        value = -(np.sum(Y * np.linalg.solve(A, Y)) + 2 * log_det + 2 * n * np.log(2 * np.pi)) / 2
        for more in (dict(solver="eigh"), dict(solver="cholesky"), CG | dict(rank=100)):
            found = predicted(**more)
            near, own = found.log_determinant(probes=24), found.log_likelihood(probes=24)
            for got, wanted, what in ((near, log_det, "the determinant"), (own, value, "the likelihood")):
                allowed = 4 * got.error if "rank" in more else got.error
                assert_near(got.value, wanted, allowed, what)
                assert got.error < 0.02 * abs(wanted)
                with pytest.raises(AssertionError, match="is off"):
                    assert_near(1.1 * got.value, wanted, allowed, what)
            with pytest.raises(AssertionError, match="is off"):
                found = predicted(ridge=20 * RIDGE, **more).log_determinant(24)
                assert_near(found.value, log_det, 4 * near.error, "it")

    def test_it_is_scikit_learns(self):
        from sklearn.gaussian_process import GaussianProcessRegressor

        kernel = mf.nngp(THEORY, **AT, sigma_w_bounds="fixed", sigma_b_bounds="fixed")
        model = GaussianProcessRegressor(kernel, alpha=RIDGE, optimizer=None).fit(X[:90], Y[:90])
        found = predicted(X=X[:90], y=Y[:90], solver="cholesky").log_likelihood()
        assert_near(found.value, model.log_marginal_likelihood_value_, found.error + 1e-9, "the likelihood")

    @pytest.mark.slow
    def test_500_rows_of_seven_seeds(self):
        """z-scores of the log determinant over seeds of rows and probes."""
        rows, y = ALL[:500], ALL_Y[:500]
        A = np.asarray(THEORY.kernel(rows, quantities="K", **AT).K) + RIDGE * np.eye(500)
        wanted, scores = np.linalg.slogdet(A)[1], []
        for seed in range(7):
            found = predicted(X=rows, y=y, seed=seed, solver="cg", rank=150, maxiter=1).log_determinant(16)
            scores.append((found.value - wanted) / found.error)
        assert np.abs(scores).max() < 4 and np.std(scores) > 0.2
        assert abs(found.value - wanted * 1.05) / found.error > 4

    @pytest.mark.parametrize(
        "rows, rank",
        [
            (np.repeat([[1.0, 2.0], [3.0, -1.0]], 10, axis=0), 0),  # signs that are an eigenvector among the probes
            (4 * np.eye(40), 0),
            (np.array(list(product((-1.0, 1.0), repeat=5))), 2),
            (np.repeat(3 * np.eye(8), 2, axis=0), 4),
        ],
    )
    def test_a_probe_that_ends_leaves_the_others(self, rows, rank, monkeypatch):
        """Of equal, one-hot and gridded inputs signs fill a space of few steps, some sooner than others."""
        theory, y = mf.derive("abs(z)+z/5"), np.arange(len(rows))
        at = dict(sigma_w=0.8, sigma_b=0.2, depth=3, train="last", ridge=1e-3)
        wanted = np.linalg.slogdet(np.asarray(theory.kernel(rows, sigma_w=0.8, sigma_b=0.2, depth=3).K)
                                   + 1e-3 * np.eye(len(rows)))[1]  # fmt: skip

        def assert_found():
            found = theory.predict(rows, y, solver="cg", rank=rank, **at).log_determinant(probes=128)
            assert_near(found.value, wanted, 4 * found.error, "the determinant")
            assert found.error < 0.05 * abs(wanted)

        assert_found()
        monkeypatch.setattr(log_determinant, "LOST", np.inf)  # all of them end with the first
        with pytest.raises(AssertionError, match=r"is off|assert"):
            assert_found()

    def test_none_where_there_is_none(self):
        with pytest.raises(mf.MeanFieldError, match="no finite log determinant"):
            THEORY.predict(X[[0, 0, 1]], [0.0, 1, 2], **AT).log_likelihood()
        with pytest.raises(mf.MeanFieldError, match="under square loss alone"):
            THEORY.predict(X[:4], [0, 1, 1, 0], loss="cross_entropy", t=1.0, **AT).log_determinant()
        with pytest.raises(mf.MeanFieldError, match="probes must be"):
            predicted(**CG).log_determinant(1)


def test_one_array_holds_kernel_and_factor(monkeypatch):
    seen = []
    whole = System.whole
    monkeypatch.setattr(System, "whole", lambda self: seen.append(whole(self)) or seen[-1])
    by = Cholesky(System(THEORY.kernel, THEORY.kernel_operator, X, "K", RIDGE, AT))
    assert np.shares_memory(by._factor, seen[0]) and not np.shares_memory(by._factor, seen[0].copy())


@pytest.mark.slow
def test_the_bits_do_not_depend_on_who_works(monkeypatch):
    from meanfield.kernels import kernel_blocks

    monkeypatch.setattr(kernel_blocks, "ROWS", 40)
    monkeypatch.setattr(kernel_blocks, "SEVERAL", 2)
    alone = predicted(**CG, threads=1)
    assert predicted(**CG, threads=3).mean.tobytes() == alone.mean.tobytes()
    with ThreadPoolExecutor(2) as pool:
        found = predicted(**CG, executor=pool)
    assert found.mean.tobytes() == alone.mean.tobytes() != predicted(**CG | dict(seed=1)).mean.tobytes()
    assert pickle.loads(pickle.dumps(found)).test.variance.tobytes() == alone.test.variance.tobytes()


class Stopped(Exception):
    """What a test stops a run with."""

    def __init__(self) -> None:
        super().__init__("stopped by the test")


def stop_at(step):
    def tell(done, of):
        if done == step and of != 50:  # not among the rows of the preconditioner
            raise Stopped

    return tell


class TestCheckpoint:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch):
        monkeypatch.setattr(conjugate, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        monkeypatch.setattr(nystrom, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)

    def resumed(self, file, **more):
        steps = []
        found = predicted(**CG, checkpoint=file, progress=lambda done, of: steps.append((done, of)), **more)
        return found, [done for done, of in steps if of != 50]

    def test_a_run_goes_on_where_it_was(self, tmp_path):
        file, alone = tmp_path / "state.npz", predicted(**CG)
        with pytest.raises(Stopped, match="by the test"):
            predicted(**CG, checkpoint=file, progress=stop_at(20))
        found, steps = self.resumed(file)
        assert steps[0] == 21 and steps[-1] == found.iterations == alone.iterations
        assert found.mean.tobytes() == alone.mean.tobytes()
        again, steps = self.resumed(file)
        assert not steps and again.mean.tobytes() == alone.mean.tobytes()
        with pytest.raises(mf.MeanFieldError, match="checkpoint of another run"):
            predicted(**CG, y=Y + 1, checkpoint=file)
        with pytest.raises(mf.MeanFieldError, match="checkpoint of another run"):
            predicted(**CG, ridge=2 * RIDGE, checkpoint=file)

    def test_nystrom_goes_on_where_it_was(self, tmp_path, monkeypatch):
        monkeypatch.setattr(nystrom, "strip", lambda rank: 50)
        file, more = tmp_path / "state.npz", dict(solver="nystrom", rank=50)
        alone = predicted(**more)
        with pytest.raises(Stopped, match="by the test"):
            predicted(**more, checkpoint=file, progress=stop_at(100))
        steps = []
        found = predicted(**more, checkpoint=file, progress=lambda done, of: steps.append(done))
        assert steps[0] == 100 and found.mean.tobytes() == alone.mean.tobytes()

    def test_a_worker_that_dies(self, tmp_path):
        """The third product is not there; the state before it is in the file."""

        class Breaks(ThreadPoolExecutor):
            left = 18

            def submit(self, work, *args):
                if getattr(args[0], "v", None) is not None:
                    self.left -= 1
                if self.left >= 0:
                    return super().submit(work, *args)
                future = Future()
                future.set_exception(BrokenProcessPool("a child is gone"))
                return future

        file = tmp_path / "state.npz"
        with Breaks(2) as pool, pytest.raises(mf.MeanFieldError, match=r"worker .* died .*iterations are in .*goes on"):
            predicted(**CG, checkpoint=file, executor=pool)
        found, steps = self.resumed(file)
        assert steps[0] > 1 and found.mean.tobytes() == predicted(**CG).mean.tobytes()
        with Breaks(2) as pool, pytest.raises(mf.MeanFieldError, match="iterations are lost, which checkpoint="):
            predicted(**CG, executor=pool)

    def test_a_disk_that_fills(self, tmp_path, monkeypatch):
        """What was written stays whole, and the same call goes on from it."""
        writes, sync = [], os.fsync

        def fills(handle):
            writes.append(handle)
            if len(writes) > 9:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sync(handle)

        file = tmp_path / "state.npz"
        monkeypatch.setattr(files.os, "fsync", fills)
        with pytest.raises(mf.MeanFieldError, match=r"No space left on device; .*up to the last one .* goes on"):
            predicted(**CG, checkpoint=file)
        assert [f.name for f in tmp_path.iterdir()] == ["state.npz"]
        monkeypatch.setattr(files.os, "fsync", sync)
        found, steps = self.resumed(file)
        assert steps[0] == 9 and found.mean.tobytes() == predicted(**CG).mean.tobytes()

    def test_a_disk_that_is_full_is_met_first(self, tmp_path, monkeypatch):
        def full(handle):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(files.os, "fsync", full)
        steps = []
        with pytest.raises(mf.MeanFieldError, match="No space left on device"):
            predicted(**CG, checkpoint=tmp_path / "s.npz", progress=lambda *a: steps.append(a) if a[1] != 50 else None)
        assert not steps and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (dict(solver="lu"), "Unknown solver 'lu'"),
        (dict(solver="cg", t=5.0), "solver='cg' solves the equations of the end.* t = 5 was asked for; .*eigh"),
        (dict(solver="cholesky", t=[1.0, np.inf]), "t = 1 was asked for"),
        (dict(solver="nystrom", rate=0.1), "largest eigenvalue decides"),
        (dict(solver="cg", ridge=0), "solver='cg' needs a ridge"),
        (dict(solver="nystrom", ridge=0), "solver='nystrom' needs a ridge"),
        (dict(solver="cg", ridge=1e-14), "ridge = 1e-14 is lost in K of 160 inputs"),
        (dict(solver="cholesky", ridge=1e-14), "ridge = 1e-14 is lost in K of 160 inputs"),
        (dict(solver="nystrom", rank=0), "rank= of at least 1"),
        (dict(solver="cholesky", rank=3), r"rank= was given, but solver='cholesky' has no such setting, only cg and"),
        (dict(solver="nystrom", rtol=1e-3), "rtol= was given, but solver='nystrom'"),
        (dict(solver="cg", rank=-1), "rank must be"),
        (dict(solver="cg", rtol=0), "rtol must be"),
        (dict(solver="cg", maxiter=0), "maxiter must be"),
        (dict(solver="cg", checkpoint=5), "checkpoint must be"),
        (dict(solver="cg", checkpoint="/nowhere/at/all.npz"), "no folder of that name"),
    ],
)
def test_bad_arguments(more, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        predicted(**more)


def test_bad_inputs():
    rows, y = np.concatenate((X[:40], X[7:8])), Y[:41]
    with pytest.raises(mf.MeanFieldError, match=r"not positive definite to rounding .*; inputs 7 and 40 are the same"):
        predicted(X=rows, y=y, ridge=0, solver="cholesky")
    whole = predicted(X=X[:40], y=Y[:40], ridge=0, solver="cholesky")  # without the equal one
    assert_near(whole.mean[0, :40], Y[:40], 1e-8, "what is learned")
    assert predicted(X=rows, y=y, ridge=0).solver == "eigh"  # which knows what is never trained
    assert "has rank 40" in predicted(X=rows, y=y, ridge=0).message
    with pytest.raises(mf.MeanFieldError, match="under cross-entropy a flow is integrated"):
        THEORY.predict(X[:4], [0, 1, 1, 0], loss="cross_entropy", t=1.0, solver="cg", ridge=1, **AT)
    with pytest.raises(mf.MeanFieldError, match="no covariance of networks whose weights are all trained"):
        _ = predicted("all", solver="nystrom", rank=50).test.sd
    with pytest.raises(mf.MeanFieldError, match=r"Eigenvalues, times and rates are not known .*'cholesky'"):
        _ = predicted(solver="cholesky").times


def test_the_solver_follows_from_what_is_asked(monkeypatch):
    def taken(n=2000, ridge=0.1, t=np.inf, rate=None, loss="mse", lost=1e-9, solver="auto"):
        return chosen(
            SolverSettings(solver), inputs=n, test=10, outputs=1, times=np.array([t]), rate=rate, loss=loss,
            ridge=ridge, rounding=lambda: lost,
        )  # fmt: skip

    assert taken(1000) == taken(t=3.0) == taken(rate=0.1) == taken(loss="cross_entropy") == taken(ridge=0) == "eigh"
    assert taken() == taken(20000) == "cholesky" and taken(lost=0.2) == "eigh"
    assert taken(30000) == taken(10**6) == taken(30000, lost=0.2) == "cg"
    for more in (dict(t=3.0), dict(ridge=0.0)):
        with pytest.raises(mf.MeanFieldError, match=r"Predicting with 30000 .*would take about .* solver='cg' stores"):
            taken(30000, **more)
    with pytest.raises(mf.MeanFieldError, match=r"by solver='cholesky' would take about 7\.2.* GB .*take solver='cg'"):
        taken(30000, solver="cholesky")
    monkeypatch.setenv("MEANFIELD_MEMORY", "0.2MB")
    assert predicted(rank=10).solver == "cg"
    with pytest.raises(mf.MeanFieldError, match="by solver='nystrom' would take about"):
        predicted(solver="nystrom", rank=150)


@pytest.mark.slow
def test_a_solved_prediction_is_a_result(tmp_path):
    found = predicted(**CG)
    assert "solver cg, " in str(found) and "±" not in str(found)
    assert found.data()["solver"] == "cg" and "sd" not in found.data()
    assert found.to_frame().shape[0] == 169 * 2
    _ = found.test.variance
    test = found.test
    assert "sd" not in test.to_xarray()
    _ = test.sd
    assert test.to_xarray().sd.dims == ("t", "input") and "±" in str(test)
    assert (mf.load(found.save(tmp_path / "p.npz"))["mean"] == found.mean).all()


class TestEstimators:
    @pytest.mark.slow_with("more1")
    @pytest.mark.parametrize("more", [dict(solver="cholesky"), dict(solver="cg", rank=60, rtol=1e-12)])
    def test_they_are_those_of_eigenvalues(self, more):
        from sklearn.base import clone

        for train in ("last", "all"):
            wanted = NTKRegressor("erf", train=train, ridge=RIDGE, solver="eigh", **AT).fit(X, Y)
            model = clone(NTKRegressor("erf", train=train, ridge=RIDGE, **more, **AT)).fit(X, Y)
            model = pickle.loads(pickle.dumps(model))
            assert model.solver_ == more["solver"] and wanted.solver_ == "eigh"
            for got, right in zip(model.predict(T, return_cov=True), wanted.predict(T, return_cov=True)):
                assert_near(got, right, 1e-8, "an answer")
        labels = (X[:, 0] > 0).astype(int)
        wanted = NTKClassifier("erf", ridge=RIDGE, **AT).fit(X, labels).predict_proba(T)
        assert_near(NTKClassifier("erf", ridge=RIDGE, **more, **AT).fit(X, labels).predict_proba(T), wanted, 1e-7,
                    "a probability")  # fmt: skip

    def test_what_has_not_converged_is_scikit_learns_warning(self):
        from sklearn.exceptions import ConvergenceWarning

        model = NTKRegressor("erf", ridge=RIDGE, solver="cg", maxiter=2, rank=5, **AT)
        with pytest.warns(ConvergenceWarning, match="after 2 iterations the residual is"):
            model.fit(X[:100], Y[:100])


@pytest.mark.slow
def test_scikit_learn_checks_every_solver():
    from sklearn.utils.estimator_checks import check_estimator

    for more in (dict(solver="cholesky"), dict(solver="cg", rank=8), dict(solver="nystrom", rank=12)):
        told = check_estimator(NTKRegressor("erf", ridge=0.01, **more), on_fail=None, on_skip=None)
        failed = [(one["check_name"], one["exception"]) for one in told if one["status"] not in ("passed", "skipped")]
        assert not failed and len(told) > 40


KILLED = """
import sys
from tests.prediction.test_solvers import CG, larger, predicted
from meanfield.prediction.solvers import conjugate
conjugate.SECONDS_BETWEEN_CHECKPOINTS = 0.0
X, Y = larger(1500)
predicted(X=X, y=Y, **CG, checkpoint=sys.argv[1], progress=lambda *a: print(*a, flush=True))
"""


def larger(n):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 6))
    return X, np.sin(2 * X[:, :2]) + 0.1 * rng.standard_normal((n, 2))


@pytest.mark.slow
def test_killed_and_gone_on_with_by_two_dask_workers(tmp_path):
    """kill -9 in the middle of iterations; the rest is done by a cluster; one of its workers dies on the way."""
    from dask.distributed import Client, LocalCluster

    file, (X, Y) = tmp_path / "state.npz", larger(1500)
    with subprocess.Popen([sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            done, of = map(int, line.split())
            if of != 50 and done == 25:
                os.kill(run.pid, signal.SIGKILL)
                break
    assert run.wait() == -signal.SIGKILL
    alone, steps = predicted(X=X, y=Y, **CG), []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:

        def tell(done, of):
            if of != 50:
                steps.append(done)
            if len(steps) == 10:
                cluster.workers[0].process.pid and os.kill(cluster.workers[0].process.pid, signal.SIGKILL)

        found = predicted(X=X, y=Y, **CG, checkpoint=file, executor=client.get_executor(), progress=tell)
    assert 20 <= steps[0] <= 30 and found.residual < 1e-12
    assert_near(found.mean, alone.mean, 1e-10, "the mean")
    with pytest.raises(AssertionError, match="the mean is off"):
        assert_near(predicted(X=X, y=Y, **CG | dict(maxiter=30)).mean, alone.mean, 1e-10, "the mean")


@pytest.mark.slow
def test_a_process_that_dies(tmp_path):
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pool, file, (X, Y) = ProcessPoolExecutor(2, mp_context=get_context("spawn")), tmp_path / "s.npz", larger(1500)

    def kill(done, of):
        if of != 50 and done == 6:
            os.kill(next(iter(pool._processes)), signal.SIGKILL)
            time.sleep(0.5)

    with pytest.raises(mf.MeanFieldError, match=r"worker of the executor died .*iterations are in .*goes on from"):
        predicted(X=X, y=Y, **CG, checkpoint=file, executor=pool, progress=kill)
    found = predicted(X=X, y=Y, **CG, checkpoint=file)
    assert_near(found.mean, predicted(X=X, y=Y, **CG).mean, 1e-10, "the mean")


@pytest.mark.slow
def test_5000_rows():
    """Conjugate gradients are Cholesky's in predictions, and so is the log determinant within its standard error."""
    X, Y = larger(5000)
    wanted = predicted(X=X, y=Y)
    found = predicted(X=X, y=Y, solver="cg", rank=600, rtol=1e-10)
    assert wanted.solver == "cholesky" and found.iterations < 200
    assert_near(found.mean, wanted.mean, 1e-8, "the mean")
    assert_near(found.test.sd, wanted.test.sd, 1e-8, "the deviation")
    near, log_det = found.log_determinant(8), float(wanted.log_determinant())
    assert_near(near.value, log_det, 4 * near.error, "the determinant")
    with pytest.raises(AssertionError, match="the determinant is off"):
        assert_near(near.value, 1.02 * log_det, 4 * near.error, "the determinant")
