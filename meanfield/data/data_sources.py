"""Where data come from: a set that is shipped with scikit-learn, a teacher, and files in the usual formats.

Nothing is downloaded, and nothing in a file is run.
"""

from __future__ import annotations

import gzip
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.base.answers.export import needed
from meanfield.base.arguments import finite, shown, validated, whole
from meanfield.base.arguments import path as refuse_no_path
from meanfield.base.errors import MeanFieldError
from meanfield.data.sets import Data

IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
CIFAR_PIXELS = 3072
OWN = 2**32 - 1  # the network whose streams a teacher takes: none that is trained or measured beside it


@validated
def from_arrays(X: Any, y: Any, X_test: Any = None, y_test: Any = None, *, name: str = "arrays") -> Data:
    """`Data` of arrays.

    X, X_test: (N, N_0), or (N, tokens, N_0); y, y_test: labels or targets, an entry or a row for each input.
    Raises: MeanFieldError for shapes that do not fit, and for what is not a finite number.

    >>> from_arrays([[0.0, 1], [1, 0]], [0, 1])
    Data(arrays: 2 training and 0 test inputs of 2, 2 classes)
    """
    return Data(X, y, X_test, y_test, name)


@validated
def digits(test: float = 0.2, *, seed: int = 0, normalize: bool = True) -> Data:
    """Handwritten digits: 1797 images of 8 × 8 pixels in 10 classes, which come with scikit-learn.

    test: which part is for testing; seed: decides which; normalize: mean 0 and variance 1 over all pixels of the
    training inputs (pixels are 0 … 16 without). Raises: MeanFieldError without scikit-learn.
    Source: E. Alpaydin and C. Kaynak, "Optical recognition of handwritten digits", UCI Machine Learning Repository
    (1998), its test set.

    >>> digits()
    Data(digits: 1438 training and 359 test inputs of 64, 10 classes)
    """
    needed("sklearn", "The set of digits")
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    data = from_arrays(X, y, name="digits").split(test, seed)
    return data.normalized() if normalize else data


@validated
def teacher(
    *, inputs: int = 1000, test: int = 200, input_dimension: int = 32, classes: int = 0, noise: float = 0.0,
    width: int = 64, depth: int = 2, sigma_w: float = 1.5, sigma_b: float = 0.1, seed: int = 0,
) -> Data:  # fmt: skip
    """Standard normal inputs, and what a random network of tanh says of them.

    inputs, test: how many for training and for testing; classes: labels (the largest of so many outputs), or 0 for one
    output as target; noise: the standard deviation of what is added to a target. width, depth, sigma_w, sigma_b: of
    the network, as in `measure`; seed: decides it and the inputs.

    >>> teacher(inputs=50, test=10, input_dimension=4)
    Data(teacher: 50 training and 10 test inputs of 4)
    """
    from meanfield.empirical.network.stored import draw_network
    from meanfield.empirical.random.philox import normals
    from meanfield.networks.records import mlp

    inputs, test = whole(inputs, "inputs", 1, 10**8), whole(test, "test", 0, 10**8)
    dimension, classes = whole(input_dimension, "input_dimension", 1, 10**6), whole(classes, "classes", 0, 10**4)
    if classes == 1:
        raise MeanFieldError("A teacher of one class has nothing to tell; classes must be 0 (a target) or at least 2.")
    spread = finite(noise, "noise")
    if spread < 0 or (spread and classes):
        raise MeanFieldError(f"noise is a deviation ≥ 0 of targets (classes=0), but {shown(noise)} was given.")
    seed, count = whole(seed, "seed", 0, 2**63), inputs + test
    widths = [whole(width, "width", 1, 1 << 20)] * (whole(depth, "depth", 2, 10**4) - 1) + [classes or 1]
    network = draw_network(
        mlp("tanh"), sigma_w=sigma_w, sigma_b=sigma_b, width=widths, depth=depth, seed=seed, index=OWN,
        input_dimension=dimension,
    )  # fmt: skip
    X = normals(seed, OWN, 0, 0, count * dimension).reshape(count, dimension)
    f = network.forward(X)
    y = f.argmax(axis=1) if classes else f[:, 0] + spread * normals(seed, OWN, 0, 1, count)
    parts = (X[inputs:], y[inputs:]) if test else (None, None)
    return from_arrays(X[:inputs], y[:inputs], *parts, name="teacher")


@validated
def from_idx(images: Any, labels: Any, test_images: Any = None, test_labels: Any = None) -> Data:
    """Data from IDX files (MNIST, Fashion-MNIST), also gzipped ones.

    images, labels: paths; pixels of an image become the numbers of an input. Raises: MeanFieldError for a file that
    is missing, truncated, or in another format.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     held = Path(folder, "images"), Path(folder, "labels")
    ...     _ = held[0].write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 5, 6, 7, 8]))
    ...     _ = held[1].write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 0, 1]))
    ...     from_idx(*held).X.tolist()
    [[5.0, 6.0], [7.0, 8.0]]
    """
    if images is None or labels is None:
        raise MeanFieldError("from_idx needs the paths of images and of labels, but None was given.")
    found = [None if one is None else _idx(one) for one in (images, labels, test_images, test_labels)]
    flat = [one if one is None or k % 2 else one.reshape(len(one), -1) for k, one in enumerate(found)]
    return from_arrays(*flat, name=_name(images))


@validated
def from_npz(path: str | os.PathLike) -> Data:
    """Data from an .npz file with arrays X and y, and X_test and y_test where there are (or x_train, y_train, x_test,
    y_test). Nothing that was pickled is read. Raises: MeanFieldError for another file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(folder + "/two.npz", X=[[0.0], [1.0]], y=[0, 1])
    ...     from_npz(folder + "/two.npz")
    Data(two.npz: 2 training and 0 test inputs of 1, 2 classes)
    """
    refuse_no_path(path, "What is read", optional=False)
    try:
        with np.load(Path(path), allow_pickle=False) as held:
            known = {name.lower(): held[name] for name in held.files}
    except OSError as error:
        raise MeanFieldError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, TypeError, AttributeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise MeanFieldError(f"{path} is no .npz file of plain arrays.") from None
    names = {"X": ("x", "x_train"), "y": ("y", "y_train"), "X_test": ("x_test",), "y_test": ("y_test",)}
    found = {k: next((known[n] for n in each if n in known), None) for k, each in names.items()}
    if found["X"] is None or found["y"] is None:
        raise MeanFieldError(f"{path} must hold arrays X and y (or x_train and y_train), but it holds {sorted(known)}.")
    return from_arrays(found["X"], found["y"], found["X_test"], found["y_test"], name=_name(path))


@validated
def from_cifar(paths: Any, test_paths: Any = ()) -> Data:
    """Data from CIFAR-10's binary files (data_batch_1.bin, …): one byte of the label and 3072 of the pixels, red, green
    and blue, an image. The pickled version is not read.

    paths, test_paths: a path or several. Raises: MeanFieldError for a file that is missing or holds no whole images.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     held = Path(folder, "data_batch_1.bin")
    ...     _ = held.write_bytes(bytes([3]) + bytes(3072) + bytes([7]) + bytes([255]) * 3072)
    ...     from_cifar(held)
    Data(CIFAR-10: 2 training and 0 test inputs of 3072, 2 classes)
    """
    train, test = _cifar(paths), _cifar(test_paths)
    if train is None:
        raise MeanFieldError("from_cifar needs at least one file of training images.")
    return from_arrays(*train, *(test or (None, None)), name="CIFAR-10")


def _cifar(paths: Any) -> tuple[np.ndarray, np.ndarray] | None:
    found = []
    if not isinstance(paths, (str, os.PathLike, list, tuple)):
        raise MeanFieldError(f"Files must be a path or a list of paths, but {shown(paths)} was given.")
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else list(paths):
        content = np.frombuffer(_content(path), dtype=np.uint8)
        if not content.size or content.size % (CIFAR_PIXELS + 1):
            raise MeanFieldError(
                f"{path} has {content.size} bytes, which are no whole images of {CIFAR_PIXELS + 1}: it is truncated, "
                "or not the binary version of CIFAR-10."
            )
        found.append(content.reshape(-1, CIFAR_PIXELS + 1))
    if not found:
        return None
    rows = np.concatenate(found)
    return rows[:, 1:].astype(float), rows[:, 0].astype(int)


def _idx(path: Any) -> np.ndarray:
    content = _content(path)
    kind, axes = (content[2], content[3]) if len(content) >= 4 and content[:2] == b"\0\0" else (0, 0)
    if kind not in IDX_TYPES or not axes:
        raise MeanFieldError(f"{path} is no IDX file: it does not begin with the numbers of one.")
    start = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", content[4:start]) if len(content) >= start else (1,)
    dtype = np.dtype(IDX_TYPES[kind])
    wanted = start + dtype.itemsize * int(np.prod(shape, dtype=object))
    if len(content) != wanted:
        raise MeanFieldError(
            f"{path} has {len(content)} bytes where {wanted} are wanted for an array of {' × '.join(map(str, shape))}: "
            "it is truncated or damaged."
        )
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def _content(path: Any) -> bytes:
    refuse_no_path(path, "What is read", optional=False)
    try:
        content = Path(path).read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is truncated or damaged"
        raise MeanFieldError(f"{path} cannot be read: {reason}.") from None


def _name(path: Any) -> str:
    return Path(path).name
