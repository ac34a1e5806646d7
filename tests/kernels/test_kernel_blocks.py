"""Kernels in blocks: any split gives the same bits, files are gone on with, products need no matrix; scikit-learn."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import meanfield as mf
from meanfield.kernels import kernel_blocks
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers

AT = {"sigma_w": 1.4, "sigma_b": 0.2}


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 4 rows at depth 1, which needs no compiled recursion."""
    monkeypatch.setattr(kernel_blocks, "ROWS", 4)


def data(n: int = 11, d: int = 5) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((n, d))


def test_any_split_gives_the_same_bits(small_blocks):
    X, theory = data(), mf.derive("erf")
    told = []
    one = theory.kernel(X, **AT, depth=1, threads=1, progress=lambda done, of: told.append((done, of)))
    with ThreadPoolExecutor(3) as pool:
        other = theory.kernel(X, **AT, depth=1, executor=pool)
    many = theory.kernel(X, X.copy(), **AT, depth=1, threads=4)
    for name in ("K", "Theta", "distance"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert np.array_equal(getattr(one, name), getattr(many, name)) and (one.K == one.K.T).all()
    assert told[-1] == (6, 6) and [done for done, _ in told] == [1, 2, 3, 4, 5, 6]


def test_a_file_is_gone_on_with(small_blocks, tmp_path):
    X, theory = data(), mf.derive("erf")
    file = tmp_path / "K.npy"

    class Stop(Exception):
        pass

    def stop(done, of):
        if done == 3:
            raise Stop

    with pytest.raises(Stop, match=r"^$"):
        theory.kernel(X, **AT, depth=1, quantities="K", out=file, threads=1, progress=stop)
    held = np.load(file, mmap_mode="r+")
    held[0, 0] = 7.0  # of a block that is done: nobody computes it again
    held.flush()
    with (tmp_path / "K.npy.blocks").open("a") as journal:
        journal.write("8 8")  # a line that was cut off: the block is not done
    again = []
    found = theory.kernel(X, **AT, depth=1, quantities="K", out=file, progress=lambda done, of: again.append(done))
    whole = theory.kernel(X, **AT, depth=1, quantities="K").K
    assert again == [4, 5, 6] and found.K[0, 0] == 7.0
    assert np.array_equal(np.load(file)[1:, 1:], whole[1:, 1:])
    with pytest.raises(mf.MeanFieldError, match="begun by another call"):
        theory.kernel(2 * X, **AT, depth=1, quantities="K", out=file)
    (tmp_path / "K.npy.blocks").unlink()
    with pytest.raises(mf.MeanFieldError, match="exists and holds no begun kernel"):
        theory.kernel(X, **AT, depth=1, quantities="K", out=file)


def test_products_and_diagonals_without_the_matrix(small_blocks):
    X, theory = data(), mf.derive("erf")
    for quantity in ("K", "Theta", "distance"):
        operator = theory.kernel_operator(X, quantity=quantity, **AT, depth=1)
        whole = getattr(theory.kernel(X, **AT, depth=1), quantity)
        v = np.random.default_rng(2).standard_normal((11, 3))
        assert np.allclose(operator @ v, whole @ v, rtol=1e-13) and np.allclose(operator @ v[:, 0], whole @ v[:, 0])
        assert np.array_equal(operator.diagonal(), np.diag(whole)) and operator.shape == (11, 11)
        assert not np.allclose(operator @ v, 1.001 * whole @ v, rtol=1e-4)
    across = theory.kernel_operator(X, X[:3], **AT, depth=1)
    assert np.allclose(across @ np.ones(3), theory.kernel(X, X[:3], **AT, depth=1).K.sum(axis=1))
    with pytest.raises(mf.MeanFieldError, match="first axis must have 3"):
        _ = across @ np.ones(4)


def test_single_precision_says_so():
    found = mf.derive("erf").kernel(data(), **AT, depth=1, dtype="float32")
    assert found.K.dtype == np.float32 and 5e-8 < found.error["K"] < 1e-7
    exact = mf.derive("erf").kernel(data(), **AT, depth=1).K
    assert (np.abs(found.K - exact) <= found.error["K"] * np.sqrt(np.outer(np.diag(exact), np.diag(exact)))).all()


@pytest.mark.parametrize(("scale", "size"), [(1e20, r"\de\+4\d"), (1e-25, r"\de-5\d")])
def test_what_float32_does_not_hold(scale, size):
    """K of 1e41 was inf, K of 1e-51 was 0, without a word."""
    message = rf'K in float32 .* 3.4e.38, and .*{size} occurs; ask for dtype="float64"'
    with pytest.raises(mf.MeanFieldError, match=message):
        mf.derive("relu").kernel(scale * data(), sigma_w=1.4, sigma_b=0, depth=2, dtype="float32")



@pytest.mark.slow
def test_a_worker_that_dies_and_dask(tmp_path):
    """A process that is killed on the way leaves a file that is gone on with; dask's workers give the same bits."""
    import os
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from dask.distributed import Client, LocalCluster

    X, theory = data(1200, 6), mf.derive("erf")
    file = tmp_path / "K.npy"
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))

    def kill(done, of):
        if done == 2:
            os.kill(next(iter(pool._processes)), 9)

    with pytest.raises(mf.MeanFieldError, match="goes on from the blocks"):
        for _ in range(5):
            theory.kernel(X, **AT, depth=4, quantities="K", out=file, executor=pool, progress=kill)
    begun = len((tmp_path / "K.npy.blocks").read_text().splitlines()) - 1
    assert begun >= 1
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        found = theory.kernel(X, **AT, depth=4, quantities="K", out=file, executor=client.get_executor())
    assert found.K.tobytes() == theory.kernel(X, **AT, depth=4, quantities="K").K.tobytes()


class TestScikitLearn:
    def kernel(self, name: str = "nngp", **settings):
        return getattr(mf, name)(mf.derive("erf"), **({"sigma_w": 1.4, "sigma_b": 0.2, "depth": 1} | settings))

    def test_the_contract_of_a_kernel(self):
        from sklearn.base import clone

        kernel, X = self.kernel(), data()
        copy = clone(kernel)
        assert copy == kernel and copy is not kernel and pickle.loads(pickle.dumps(kernel)) == kernel
        assert set(kernel.get_params()) >= {"theory", "sigma_w", "sigma_b", "depth"}
        assert np.allclose(np.exp(kernel.theta), [0.2, 1.4]) and kernel.bounds.shape == (2, 2)
        moved = kernel.clone_with_theta(np.log([0.3, 1.1]))
        assert np.isclose(moved.sigma_b, 0.3) and np.isclose(moved.sigma_w, 1.1) and moved != kernel
        assert np.array_equal(np.diag(kernel(X)), kernel.diag(X)) and not kernel.is_stationary()
        assert np.allclose(kernel(X, X[:2]), kernel(X)[:, :2], rtol=1e-15)
        assert np.allclose((2.0 * kernel + kernel)(X), 3 * kernel(X))
        fixed = self.kernel(sigma_b=0.0, sigma_b_bounds="fixed")
        assert fixed.theta.shape == (1,) and fixed(X, eval_gradient=True)[1].shape == (11, 11, 1)
        assert "NNGP(" in repr(kernel) and "NTK(" in repr(self.kernel("ntk"))
        assert mf.nngp("erf", residual=True, depth=3) == mf.nngp(mf.derive("erf", residual=True), depth=3)
        free = mf.nngp(mf.derive("erf", mu="mu"), mu=0.5, depth=3)
        assert np.allclose(free(X), mf.nngp("erf", mu=0.5, depth=3)(X), rtol=1e-13)
        assert not np.allclose(free(X), mf.nngp("erf", mu=0.51, depth=3)(X), rtol=1e-13)  # planted
        with pytest.raises(mf.MeanFieldError, match="erff"):
            mf.nngp("erff")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("phi", "name", "settings"),
        [
            ("erf", "nngp", {}),
            ("tanh", "ntk", {}),
            ("relu", "ntk", {}),
            ("elu", "nngp", {}),
            ("gelu", "nngp", {"norm": "pre", "residual": True}),
            ("relu", "nngp", {"norm": "act"}),
        ],
    )
    def test_gradients_are_central_differences(self, phi, name, settings):
        X = data(8)
        X[7] = X[6]
        kernel = getattr(mf, name)(mf.derive(phi, **settings), sigma_w=1.4, sigma_b=0.2, depth=5)
        _, gradient = kernel(X, eval_gradient=True)
        for i in range(2):
            parts = []
            for h in (1e-3, 2e-3):
                e = np.eye(2)[i] * h
                up, down = (kernel.clone_with_theta(kernel.theta + s * e)(X) for s in (1, -1))
                parts.append((up - down) / (2 * h))
            numeric = (4 * parts[0] - parts[1]) / 3
            assert np.abs(gradient[:, :, i] - numeric).max() < 1e-6 * np.abs(numeric).max()
            assert np.abs(1.00001 * gradient[:, :, i] - numeric).max() > 1e-6 * np.abs(numeric).max()

    @pytest.mark.slow
    def test_a_regressor_finds_the_deviations_it_was_drawn_with(self):
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import WhiteKernel

        X = data(150, 4)
        kernel = mf.nngp(mf.derive("erf"), sigma_w=1.6, sigma_b=0.4, depth=4)
        K = kernel(X) + 1e-4 * np.eye(150)
        y = np.linalg.cholesky(K) @ np.random.default_rng(4).standard_normal(150)
        start = kernel.clone_with_theta(np.log([0.1, 1.0])) + WhiteKernel(1e-4, "fixed")
        process = GaussianProcessRegressor(kernel=start).fit(X, y)
        assert abs(process.kernel_.k1.sigma_w / 1.6 - 1) < 0.15
        exact = GaussianProcessRegressor(kernel=kernel + WhiteKernel(1e-4, "fixed"), optimizer=None).fit(X, y)
        assert process.log_marginal_likelihood_value_ >= exact.log_marginal_likelihood() - 1e-6


def test_a_journal_tells_long_formulas_apart():
    """Blocks of a call that was killed are those of the same network: formulas that differ after 150 characters."""
    long = "z + " + " + ".join(f"tanh({k}*z/100)" for k in range(10, 21))

    def key(phi):
        network = TheoryAtNumbers({"sigma_w": 1.0, "sigma_b": 0.1}, 2, False, mf.derive(phi))
        return kernel_blocks.Work(network, np.eye(2), None, ("K",), np.dtype("float64")).key

    assert key(f"{long} + abs(z)/3") != key(f"{long} + 5*abs(z)")
    assert key(f"{long} + abs(z)/3") == key(f"{long} + abs(z)/3")
