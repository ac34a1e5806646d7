"""Data: files read byte by byte, splits and scales beside NumPy, and files that are damaged."""

from __future__ import annotations

import gzip
import pickle
import struct

import numpy as np
import pytest

import meanfield as mf
from meanfield.data import Data, digits, from_arrays, from_cifar, from_idx, from_npz, teacher


def idx(array, kind):
    """An IDX file, written by hand."""
    head = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype({8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}[kind]).tobytes()


@pytest.mark.parametrize("kind", [8, 9, 11, 12, 13, 14])
def test_idx_files_of_every_type(kind, tmp_path):
    images = np.arange(24).reshape(3, 2, 4)
    (tmp_path / "x").write_bytes(idx(images, kind))
    (tmp_path / "y").write_bytes(gzip.compress(idx(np.array([4, 0, 4]), 8)))
    found = from_idx(tmp_path / "x", tmp_path / "y", tmp_path / "x", tmp_path / "y")
    assert np.array_equal(found.X, images.reshape(3, 8)) and found.y.tolist() == [4, 0, 4]
    assert np.array_equal(found.X_test, found.X) and found.classes == (0, 4) and found.X.dtype == float


def test_damaged_files_are_refused(tmp_path):
    whole = idx(np.arange(24).reshape(3, 2, 4), 8)
    (tmp_path / "y").write_bytes(idx(np.array([1, 0, 1]), 8))
    for content, said in (
        (whole[:-1], "has 39 bytes where 40 are wanted for an array of 3 × 2 × 4"),
        (whole + b"0", "41 bytes where 40"),
        (whole[:9], "truncated or damaged"),
        (b"", "no IDX file"),
        (b"PK" + whole, "no IDX file"),
        (bytes([0, 0, 7, 1]) + whole, "no IDX file"),
        (gzip.compress(whole)[:-9], "truncated or damaged"),
        (gzip.compress(whole)[:12] + b"zzzzzzzzzzzz", "truncated or damaged"),
    ):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(mf.MeanFieldError, match=said):
            from_idx(tmp_path / "x", tmp_path / "y")
    with pytest.raises(mf.MeanFieldError, match="No such file"):
        from_idx(tmp_path / "none", tmp_path / "y")
    (tmp_path / "x").write_bytes(whole)
    (tmp_path / "y").write_bytes(idx(np.array([1, 0]), 8))
    with pytest.raises(mf.MeanFieldError, match="an entry for each of 3 inputs"):
        from_idx(tmp_path / "x", tmp_path / "y")


def test_cifar_files(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, size=(4, 3073), dtype=np.uint8)
    rows[:, 0] %= 10
    for k in (0, 1):
        (tmp_path / f"{k}.bin").write_bytes(rows[2 * k : 2 * k + 2].tobytes())
    found = from_cifar([tmp_path / "0.bin", tmp_path / "1.bin"], tmp_path / "0.bin")
    assert np.array_equal(found.X, rows[:, 1:]) and np.array_equal(found.y, rows[:, 0])
    assert np.array_equal(found.X_test, rows[:2, 1:])
    (tmp_path / "0.bin").write_bytes(rows.tobytes()[:-1])
    with pytest.raises(mf.MeanFieldError, match="no whole images of 3073"):
        from_cifar(tmp_path / "0.bin")
    (tmp_path / "pickled").write_bytes(pickle.dumps({b"data": rows}))
    with pytest.raises(mf.MeanFieldError, match="not the binary version"):
        from_cifar(tmp_path / "pickled")
    with pytest.raises(mf.MeanFieldError, match="at least one file"):
        from_cifar([])


class Loud:
    """Tells when a pickle is read."""

    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was run')",)


def test_npz_files_run_nothing(tmp_path):
    X, y = np.eye(3), np.array(["a", "b", "a"])
    np.savez(tmp_path / "own.npz", x_train=X, y_train=y, x_test=X[:1], y_test=y[:1])
    found = from_npz(tmp_path / "own.npz")
    assert np.array_equal(found.X, X) and found.y_test.tolist() == ["a"] and found.name == "own.npz"
    np.savez(tmp_path / "loud.npz", X=np.array([Loud()], dtype=object), y=[1])
    with pytest.raises(mf.MeanFieldError, match=r"no \.npz file of plain arrays"):
        from_npz(tmp_path / "loud.npz")
    np.savez(tmp_path / "none.npz", a=X)
    with pytest.raises(mf.MeanFieldError, match=r"must hold arrays X and y .* holds \['a'\]"):
        from_npz(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(mf.MeanFieldError, match=r"no \.npz file of plain arrays"):
        from_npz(tmp_path / "text.npz")


def assert_split(found: Data, X, y, test):
    """Every input once, with its own label."""
    together = np.concatenate((found.X, found.X_test)), np.concatenate((found.y, found.y_test))
    order, own = np.argsort(together[0][:, 0]), np.argsort(X[:, 0])
    assert np.array_equal(together[0][order], X[own]) and np.array_equal(together[1][order], y[own])
    assert len(found.X_test) == test


def test_splits_keep_inputs_with_their_labels():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 5, size=40)
    data = from_arrays(X, y)
    first, same, other = data.split(0.25, 0), data.split(0.25, 0), data.split(0.25, 1)
    for one in (first, other, first.split(0.5, 3)):
        assert_split(one, X, y, 20 if one.X.shape[0] == 20 else 10)
    assert np.array_equal(first.X, same.X) and not np.array_equal(first.X, other.X)
    with pytest.raises(AssertionError, match="array_equal"):
        assert_split(Data(first.X, first.y[::-1], first.X_test, first.y_test), X, y, 10)
    for wrong in (1, -0.1, True, "half"):
        with pytest.raises(mf.MeanFieldError, match="0 ≤ test < 1"):
            data.split(wrong)
    with pytest.raises(mf.MeanFieldError, match="leaves none for training"):
        data.take(2).split(0.9)


def test_scales_are_those_of_the_training_inputs():
    rng = np.random.default_rng(2)
    X, far = 3 + 2 * rng.normal(size=(30, 4)), rng.normal(size=(5, 4))
    X[:, 1] = 7.0
    data = from_arrays(X, np.arange(30) % 2, far, np.arange(5) % 2)
    whole = data.normalized()
    assert abs(whole.X.mean()) < 1e-13 and abs(whole.X.std() - 1) < 1e-13
    assert np.abs(whole.X_test - (far - X.mean()) / X.std()).max() < 1e-13
    each = data.normalized("feature")
    assert np.abs(each.X.mean(axis=0)).max() < 1e-13 and not each.X[:, 1].any() and not each.X_test[:, 1].any()
    assert np.abs(each.X.std(axis=0)[[0, 2, 3]] - 1).max() < 1e-13
    rows = data.normalized("input")
    for x in (rows.X, rows.X_test):
        assert np.abs((x**2).mean(axis=1) - 1).max() < 1e-13
    tenth = X.copy()
    tenth[:, 1] = 0.1  # whose spread is that of rounding, and not 0
    held = from_arrays(tenth, np.arange(30) % 2, far, np.arange(5) % 2).normalized("feature")
    assert not held.X[:, 1].any() and not held.X_test[:, 1].any()
    for size in (1e200, 1e-200):
        assert np.abs(from_arrays(size * X, np.arange(30) % 2).normalized().X - whole.X).max() < 1e-13
    for constant in (1.0, 0.1):
        with pytest.raises(mf.MeanFieldError, match="cannot be scaled"):
            from_arrays(np.full((3, 7), constant), [0, 1, 0]).normalized()
        with pytest.raises(mf.MeanFieldError, match="Input number 0 is constant"):
            from_arrays(np.full((3, 7), constant), [0, 1, 0]).normalized("input")
    with pytest.raises(mf.MeanFieldError, match="Input number 1 is constant"):
        from_arrays([[0.0, 1], [2, 2]], [0, 1]).normalized("input")
    with pytest.raises(mf.MeanFieldError, match="Unknown over 'row'"):
        data.normalized("row")


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    found = digits(normalize=False)
    assert sorted(map(tuple, np.concatenate((found.X, found.X_test)))) == sorted(map(tuple, X))
    odd = found.odd_even()
    assert np.array_equal(odd.y, found.y % 2) and odd.classes == (0, 1) and len(y) == 1797
    cut = found.patches(2)
    first = found.X[0].reshape(8, 8)
    assert cut.X.shape == (1438, 16, 4) and cut.tokens == 16
    assert np.array_equal(cut.X[0, 0], first[:2, :2].ravel()) and np.array_equal(cut.X[0, 5], first[2:4, 2:4].ravel())
    wide = found.patches(4, 2)
    assert np.array_equal(wide.X[0, 1], first[:4, 2:4].ravel())
    for image in (5, (4,), "ab", (-8, -8), (4.5, 1)):
        with pytest.raises(mf.MeanFieldError, match="image must be"):
            found.patches(image=image)
    for wrong in (dict(height=3), dict(image=(4, 15))):
        with pytest.raises(mf.MeanFieldError, match="patches that fill it"):
            found.patches(**wrong)
    with pytest.raises(mf.MeanFieldError, match="these have the shape"):
        cut.patches()
    with pytest.raises(mf.MeanFieldError, match="whole numbers; these are not"):
        from_arrays(X[:2], ["a", "b"]).odd_even()


def test_a_teacher_is_a_network():
    found = teacher(inputs=8, test=3, input_dimension=5, width=7, depth=3, seed=4)
    at = dict(sigma_w=1.5, sigma_b=0.1, width=[7, 7, 1], depth=3, seed=4, index=2**32 - 1, input_dimension=5)
    made = mf.empirical.draw_network(mf.networks.mlp("tanh"), **at)
    assert np.abs(made.forward(found.X)[:, 0] - found.y).max() < 1e-13
    assert np.array_equal(teacher(inputs=8, test=3, input_dimension=5, width=7, depth=3, seed=4).X_test, found.X_test)
    noisy = teacher(inputs=4000, test=0, input_dimension=5, noise=0.5)
    clean = teacher(inputs=4000, test=0, input_dimension=5)
    assert abs((noisy.y - clean.y).std() / 0.5 - 1) < 0.05 and np.array_equal(noisy.X, clean.X)
    assert set(teacher(classes=4).classes) <= {0, 1, 2, 3}
    run = mf.train("tanh", found, sigma_w=1.5, sigma_b=0.1, width=7, depth=3, seed=4, loss="mse", steps=0, networks=3)
    assert run["loss/train"].min() > 1e-3  # no network that is trained is the teacher
    for wrong in (dict(noise=-1), dict(noise="a"), dict(noise=0.1, classes=2)):
        with pytest.raises(mf.MeanFieldError, match="noise"):
            teacher(**wrong)
    with pytest.raises(mf.MeanFieldError, match="one class has nothing to tell"):
        teacher(classes=1)


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        ([[1.0], ["a"]], [0, 1], "X must be"),
        ([1.0, 2], [0, 1], "X must be numbers of shape"),
        ([[1.0], [np.inf]], [0, 1], "input number 1 holds one that is not"),
        ([[1.0], [2]], [0, np.nan], "may not be missing"),
        ([[1.0], [2]], [None, 1], "labels and targets may not be missing"),
        ([[1.0], [2]], [[[1]], [[2]]], "y must be labels, an entry for each input"),
        ([[1.0], [2]], [0], "an entry for each of 2 inputs"),
    ],
)
def test_arrays_that_are_no_data(X, y, said):
    with pytest.raises(mf.MeanFieldError, match=said):
        from_arrays(X, y)
    with pytest.raises(mf.MeanFieldError, match="belong together"):
        from_arrays([[1.0]], [1], X_test=[[2.0]])
    with pytest.raises(mf.MeanFieldError, match="must be like X and y"):
        from_arrays([[1.0]], [1], [[2.0, 3.0]], [1])


def test_labels_of_objects_and_data_made_by_hand():
    """What pandas holds; Data checks what it is given."""
    X = np.eye(3)
    assert from_arrays(X, np.array(["a", "b", "a"], dtype=object)).classes == ("a", "b")
    assert Data([[1.0], [2]], [1, 0]).X.dtype == float
    for made, said in (
        (lambda: Data(X, [0, 1]), "an entry for each of 3 inputs"),
        (lambda: Data(X, [0, 1, 0], np.eye(2), [0, 1]), "must be like X and y"),
        (lambda: Data(X, [0, 1, 0], X), "belong together"),
        (lambda: Data(X, [0, 1, np.nan]), "may not be missing"),
        (lambda: Data(X, [["a", "b"]] * 3), "targets of shape"),
        (lambda: from_cifar(None), "a path or a list of paths"),
        (lambda: from_idx(None, None), "None was given"),
    ):
        with pytest.raises(mf.MeanFieldError, match=said):
            made()
