"""Object code that is kept: the bits of Numba's function, in a process that never imports it, and nothing but the right
answer whatever is done to the stored file."""

import functools
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from meanfield.numeric.lowering import emission, machine, storage
from meanfield.numeric.lowering.machine import Function

SIGNATURE = ("i8", "f8", "b1", "f8[:, :]", ("f8[:, :]", 2), "u1[:]", "f8[:, :]")


@functools.cache
def njit():
    @numba.njit(error_model="numpy", nogil=True)
    def f(n, x, flag, a, T, flags, out):
        total = 0.0
        for i in range(n):
            for j in range(a.shape[1]):
                out[i, j] = math.exp(a[i, j] * x) / a[i, 0] + (T[1][i, j] if flag else T[0][i, j])
                total += out[i, j]
            flags[i] = out[i, 0] > 2.0
        return total

    return f


def arguments(flag=True, rows=5, seed=0):
    random = np.random.default_rng(seed)
    a, T = random.random((rows, 7)), (random.random((rows, 7)), random.random((rows, 7)))
    return rows, 0.3, flag, a, T, np.zeros(rows, np.uint8), np.empty((rows, 7))


def answer(function, **given):
    """All that a call computes, as bytes."""
    own = arguments(**given)
    return np.float64(function(*own)).tobytes() + own[-2].tobytes() + own[-1].tobytes()


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "folder", lambda: tmp_path)
    return tmp_path


class Made:
    """The Numba function, and how often it was asked for."""

    def __init__(self, function=None):
        self.count, self.function = 0, function or njit()

    def __call__(self):
        self.count += 1
        return self.function


def function(made):
    return Function("key", "f", SIGNATURE, made, "f8")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A stored file, and what its function answers."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("stored")
        patch.setattr(machine, "folder", lambda: folder)
        f = function(Made())
        whole = answer(f)
        assert f.stands_alone
        return f.path.name, f.path.read_bytes(), whole


def test_the_same_bits_as_numba(place, stored):
    name, data, _ = stored
    (place / name).write_bytes(data)
    made = Made()
    f = function(made)
    for flag, rows in ((True, 5), (False, 5), (True, 1), (True, 0)):
        assert answer(f, flag=flag, rows=rows) == answer(njit(), flag=flag, rows=rows)
    assert f.stands_alone and made.count == 0
    assert answer(f) != answer(f, flag=False)


def altered(data, at=-200):
    data = bytearray(data)
    data[at] ^= 1
    return bytes(data)


def resealed(data, **says):
    """The file with other words about itself, and the hash that belongs to them."""
    _, _, rest = data.partition(b"\n")
    head, _, code = rest.partition(b"\n")
    found = json.loads(head) | says
    return machine.sealed(code, found.pop("needs"), found)


PLANTED = {
    "empty": lambda d: b"",
    "truncated": lambda d: d[: len(d) // 2],
    "truncated in its head": lambda d: d[:80],
    "an altered byte of code": altered,
    "an altered byte of the head": lambda d: altered(d, 100),
    "an altered hash": lambda d: altered(d, 3),
    "another format": lambda d: resealed(d, format=machine.FORMAT + 1),
    "another CPU": lambda d: resealed(d, machine="x86_64-unknown-linux-gnu i386"),
    "another function": lambda d: resealed(d, name="other"),
    "not our file": lambda d: b"\x7fELF" + bytes(1000),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", PLANTED)
def test_a_file_that_does_not_fit_is_made_anew(how, place, stored):
    name, data, whole = stored
    (place / name).write_bytes(PLANTED[how](data))
    made = Made()
    f = function(made)
    assert answer(f) == whole
    assert made.count == 1 and f.stands_alone
    assert machine.opened((place / name).read_bytes(), f._says) is not None  # and whole again
    control = Made()
    assert answer(function(control)) == whole and control.count == 0


@pytest.mark.slow
def test_control_what_fits_is_run(place, stored):
    """The code of another loop under the name of this one answers for it: it is stored code that runs."""

    @numba.njit
    def other(n, x, flag, a, T, flags, out):
        out[:] = x
        return 2.0 * x

    assert answer(function(Made(other))) != stored[2]
    assert answer(function(Made())) == answer(other) and (place / stored[0]).exists()


def test_other_versions_have_another_file(place, monkeypatch):
    before = function(Made()).path
    machine.machine.cache_clear()
    monkeypatch.setattr(machine, "version", lambda name: "0")
    other = function(Made()).path
    machine.machine.cache_clear()
    assert before != other


def test_without_llvmlite_numba_runs(place, stored, monkeypatch):
    name, data, whole = stored
    (place / name).write_bytes(data)
    machine.machine.cache_clear()
    njit()(*arguments())  # Numba itself loads llvmlite when it first compiles
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "llvmlite.binding", None)
        made = Made()
        f = function(made)
        assert answer(f) == whole and made.count == 1 and not f.stands_alone
    machine.machine.cache_clear()


@pytest.mark.parametrize(("name", "value"), [("NUMBA_OPT", "3"), ("NUMBA_LOOP_VECTORIZE", "1")])
def test_orders_to_numba_are_followed(name, value, place, stored, monkeypatch):
    assert name in machine.ORDERS
    (place / stored[0]).write_bytes(stored[1])
    monkeypatch.setenv(name, value)
    made = Made()
    assert answer(function(made)) == stored[2] and made.count == 1


def test_a_symbol_that_is_missing(place, stored):
    name, data, whole = stored
    (place / name).write_bytes(resealed(data, needs=["meanfield_no_such_symbol"]))
    f = function(Made())
    assert answer(f) == whole and not f.stands_alone


def test_a_full_disk(place, stored, monkeypatch):
    def full(target, fill):
        raise OSError

    monkeypatch.setattr(machine, "replace", full)
    f = function(Made())
    assert answer(f) == stored[2] and f.stands_alone and not list(place.iterdir())


def allocating(n):
    a = np.zeros(n)
    for i in range(n):
        a[i] = i * 0.5
    return a[n - 1] + a[n // 2]


@pytest.mark.slow
def test_what_allocates_is_left_to_numba(place):
    """And once it is known, nobody tries again."""
    made = Made(numba.njit(error_model="numpy")(allocating))
    f = Function("key", "g", ("i8",), made, "f8")
    assert f(9) == allocating(9) and not f.stands_alone and made.count == 1
    assert emission.emitted(made.function, ("i8",), "f8") is None
    again = Function("key", "g", ("i8",), Made(made.function), "f8")
    assert machine.opened(again.path.read_bytes(), again._says) == (b"", [])
    assert again(5) == allocating(5) and not again.stands_alone


def inverse(a, out):
    for i in range(a.size):
        out[i] = 1.0 / a[i]


@pytest.mark.slow
def test_exceptions_are_numbas(place):
    f = Function("key", "inverse", ("f8[:]", "f8[:]"), lambda: numba.njit(inverse))
    out = np.empty(3)
    assert f(np.array([1.0, 2.0, 4.0]), out) is None and out.tolist() == [1.0, 0.5, 0.25] and f.stands_alone
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        f(np.array([1.0, 0.0, 4.0]), out)


def test_what_code_would_take_for_something_else_is_refused(place, stored):
    (place / stored[0]).write_bytes(stored[1])
    f, good = function(Made()), arguments()
    f(*good)
    wide, other = np.zeros((5, 14)), good[3].astype(np.float32)
    for i, wrong, words in (
        (0, 5.0, "Argument 1 of f is to be a number i8; a float was given"),
        (0, True, "a number i8; a bool"),
        (2, 1, "a number b1; a int"),
        (1, "0.3", "a number f8; a str"),
        (3, wide[:, ::2], "not contiguous, was given"),
        (3, np.asfortranarray(good[3]), "not contiguous, was given"),
        (3, other, "a contiguous array f8.*an array f4"),
        (3, good[3].astype(">f8"), "a contiguous array"),
        (3, good[3][0], "with 1 axes"),
        (3, good[3].tolist(), "a list was given"),
        (4, good[4][:1], "a tuple of 2 f8.*a tuple of 1"),
        (5, good[5].astype(np.int8), "a contiguous array u1.*i1"),
    ):
        with pytest.raises(TypeError, match=words):
            f(*good[:i], wrong, *good[i + 1 :])
    with pytest.raises(TypeError, match="takes 7 arguments, 6 were given"):
        f(*good[:-1])


def test_threads_share_a_function(place, stored):
    """Made once, and each call has fields of its own."""
    (place / stored[0]).write_bytes(stored[1])
    made = Made()
    f = function(made)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda seed: answer(f, rows=300, seed=seed % 7), range(200)))
    true = [answer(njit(), rows=300, seed=seed) for seed in range(7)]
    assert found == [true[seed % 7] for seed in range(200)] and made.count == 0
    assert len(set(true)) == 7


PROGRAM = """
import hashlib
import sys
import numpy as np
import meanfield as mf

w, b = np.meshgrid(np.linspace(0.5, 3, 300), np.linspace(0, 1, 300))
theory = mf.derive("erf")
run = theory.propagate(sigma_w=w, sigma_b=b, depth=1000, every_layer=False)
X = np.random.default_rng(0).standard_normal((40, 5))
X[-1] = X[0] * (1 + 1e-9)
made = theory.kernel(X, sigma_w=1.5, sigma_b=0.1, depth=5, quantities=("K", "Theta", "distance"))
found = [run.K, run.log_J, made.K, made.Theta, made.distance]
print(hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in found)).hexdigest(), "numba" in sys.modules)
"""


def _program(**settings):
    environment = os.environ | {"PYTHONPATH": os.getcwd()} | settings
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_a_second_process_needs_no_numba(tmp_path):
    """Nor does one by one or two threads answer otherwise; one that is told how to compile asks Numba again."""
    own = {"MEANFIELD_CACHE": str(tmp_path)}
    value, numba_was_there = _program(**own)
    assert numba_was_there == "True"
    assert _program(**own) == [value, "False"]
    assert _program(**own, NUMBA_NUM_THREADS="1") == [value, "False"]
    assert _program(**own, NUMBA_OPT="3") == [value, "True"]
    for path in tmp_path.glob("*.o"):
        path.write_bytes(altered(path.read_bytes()))
    assert _program(**own) == [value, "True"]


def test_files_are_whole_or_absent(tmp_path):
    def fails(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        storage.replace(tmp_path / "file", fails)
    assert not list(tmp_path.iterdir())
    storage.replace(tmp_path / "file", lambda file: file.write(b"whole"))
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"whole"]
