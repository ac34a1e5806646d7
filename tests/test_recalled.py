"""Kernels that are found on disk are those of the theory, bit by bit; what they do not answer, the theory does."""

import dataclasses
import hashlib
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import meanfield as mf
from meanfield.deferred import Deferred, derived
from meanfield.derivation import theory_of
from meanfield.deriving import _derived
from meanfield.kernels import recalled
from meanfield.kernels.cells import DEGREE, Cell, Cells
from meanfield.kernels.loops import LADDER
from meanfield.numeric.lowering import cache, machine

AT = {"sigma_w": 1.3, "sigma_b": 0.1, "depth": 5}
X, Y = (np.random.default_rng(s).standard_normal((n, 5)) for s, n in ((1, 9), (2, 4)))
USUAL = {"phi": "erf", "residual": False, "mu": None, "norm": None, "architecture": None, "weights": "gaussian"}


def assert_same_bits(found, theory, **settings) -> None:
    """Two kernels whose numbers and bounds are the same."""
    expected = theory.kernel(**settings)
    assert found is not None and found.values.keys() == expected.values.keys()
    for name, values in expected.values.items():
        assert found.values[name].dtype == values.dtype
        assert found.values[name].tobytes() == values.tobytes(), f"{name} has other bits"
    assert (found.error, found.depth, found.parameters) == (expected.error, expected.depth, expected.parameters)


def asked_and_kept(**arguments) -> tuple[str, object]:
    """The request of `derive(**arguments)`, and its theory, whose kernels of K and of Theta are kept."""
    arguments = USUAL | {"batch": None} | arguments
    asked = recalled.request(arguments)
    theory = _derived(asked, arguments)
    for quantities in ("K", ("K", "Theta")):
        theory.kernel(X, quantities=quantities, **AT)
    return asked, theory


@pytest.mark.parametrize(
    "arguments",
    [
        {"phi": "erf"},
        {"phi": "relu", "residual": True},
        {"phi": "tanh"},
        pytest.param({"phi": "silu", "residual": True}, marks=pytest.mark.slow),
        pytest.param({"phi": "erf", "norm": "pre"}, marks=pytest.mark.slow),
        pytest.param({"phi": "gelu"}, marks=pytest.mark.slow),
        pytest.param({"phi": "sin", "mu": "1/2"}, marks=pytest.mark.slow),
        pytest.param({"phi": "relu", "weights": "orthogonal"}, marks=pytest.mark.slow),
        pytest.param({"phi": "leaky_relu(0.2)"}, marks=pytest.mark.slow),
        pytest.param({"phi": "z*erf(z)"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_same_bits(arguments):
    asked, theory = asked_and_kept(**arguments)
    for settings in (
        {"X": X},
        {"X": X, "Y": Y, "quantities": ("Theta", "K")},
        {"X": X, "quantities": "K", "dtype": "float32", "threads": 1},
        {"X": 1.1 * X, "depth": 9, "sigma_w": 1, "sigma_b": 0, "quantities": ("K", "distance")},
        {"X": X, "sigma_w": np.sqrt(2)},
    ):
        settings = AT | settings
        theory.kernel(**settings)  # keeps the cells of the series that these variances ask for
        recalled._cells.cache_clear()
        assert_same_bits(recalled.kernel(asked, **settings), theory, **settings)


@pytest.mark.parametrize(
    ("arguments", "numbers", "outside"),
    [
        ({"mu": "mu"}, {"mu": 0.5}, {"mu": -0.5}),
        pytest.param(
            {"architecture": "full_residual", "beta_v": "1/2", "beta_w": 0},
            {"sigma_v": 1.2, "sigma_a": 0.3},
            {"sigma_v": -1, "sigma_a": 0.3},
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_further_parameters(arguments, numbers, outside):
    arguments = USUAL | {"batch": None} | arguments
    asked = recalled.request(arguments)
    theory = _derived(asked, arguments)
    settings = AT | {"X": X, "quantities": ("K", "Theta")}
    theory.kernel(**settings, **numbers)
    assert_same_bits(recalled.kernel(asked, **settings, **numbers), theory, **settings, **numbers)
    for wrong in (outside, {}, numbers | {"nu": 1.0}, dict.fromkeys(numbers, "1")):
        assert recalled.kernel(asked, **settings, **wrong) is None


def test_control_another_start_is_seen(monkeypatch):
    asked, theory = asked_and_kept()
    found = recalled.read(recalled.file_of(asked))
    monkeypatch.setattr(
        recalled, "read", lambda file: {k: v | {"begin": v["begin"] + " + 1e-15"} for k, v in found.items()}
    )
    with pytest.raises(AssertionError, match="has other bits"):
        assert_same_bits(recalled.kernel(asked, X, **AT), theory, X=X, **AT)


@pytest.mark.parametrize(
    "settings",
    [
        {"X": np.vstack([X, X[:1]])},  # equal rows are no pairs of a block
        {"sigma_w": [1.0, 1, 1, 1, 2]},
        {"sigma_w": "sqrt(2)"},
        {"sigma_w": True},
        {"depth": 1},
        {"depth": 2.0},
        {"quantities": ("K", "J")},
        {"out": "K.npy"},
        {"mu": 1},
        {"X": X[0]},
        {"X": np.full((2, 2), np.nan)},
        {"X": 1e140 * X, "sigma_w": 1e140},
        {"dtype": "int8"},
        {"sigma_b": -1.0},
        {"executor": 3},
    ],
    ids=str,
)
def test_what_is_left_to_the_theory(settings):
    asked, _ = asked_and_kept()
    assert recalled.kernel(asked, **({"X": X} | AT)) is not None
    assert recalled.kernel(asked, **({"X": X} | AT | settings)) is None


def test_what_is_not_whole_is_not_read(tmp_path):
    asked, _ = asked_and_kept()
    file, copy = recalled.file_of(asked), tmp_path / "kept.json"
    assert recalled.read(file)["K"]["begin"]
    digest, _, text = file.read_text().partition("\n")
    assert hashlib.sha256(text.encode()).hexdigest() == digest and json.loads(text)
    for wrong in ("", text, f"{digest}\n{text[:-1]}", f"{digest}\n{text.replace('1', '2', 1)}"):
        copy.write_text(wrong)
        assert recalled.read(copy) == {}
    assert recalled.read(tmp_path / "nothing") == {}
    assert recalled.file_of(asked) != recalled.file_of(asked.replace("erf", "relu"))


def test_only_what_a_request_says_all_about_is_kept():
    assert recalled.request({"phi": mf.activation("erf")}) is None
    assert recalled.request({"phi": 10**5000}) is None  # has too many digits for a text
    with pytest.raises(mf.MeanFieldError, match="An activation must be"):
        mf.derive(10**5000)
    assert recalled.request({"phi": "erf", "mu": 1}) != recalled.request({"phi": "erf", "mu": True})
    mf.register("not_elsewhere", "erf(2*z)")
    try:
        asked, theory = asked_and_kept(phi="not_elsewhere")
        assert "requests" not in theory.__dict__ and not recalled.file_of(asked).exists()
    finally:
        from meanfield.functions import activations

        del activations._REGISTRY["not_elsewhere"]


def test_a_theta_that_is_infinite():
    arguments = USUAL | {"batch": None, "phi": "step"}
    asked = recalled.request(arguments)
    theory = _derived(asked, arguments)
    theory.kernel(X, quantities="K", **AT)
    assert_same_bits(recalled.kernel(asked, X, quantities="K", **AT), theory, X=X, quantities="K", **AT)
    assert recalled.kernel(asked, X, quantities="Theta", **AT) is None


def test_cells_that_are_not_kept():
    """Variances that no kernel has met are left to the theory, and kept from then on."""
    asked, theory = asked_and_kept(phi="tanh", mu="1/3")
    far = AT | {"X": 50 * X, "sigma_w": 7}
    recalled._cells.cache_clear()
    assert recalled.kernel(asked, **far) is None
    expected = theory.kernel(**far)
    recalled._cells.cache_clear()
    assert_same_bits(recalled.kernel(asked, **far), theory, **far)
    assert expected.K.max() > 10


def test_a_deferred_theory_becomes_the_theory():
    def deferred():
        asked, _ = asked_and_kept()
        return Deferred(asked, lambda: theory_of("erf"))

    theory = mf.derive("erf")
    one = deferred()
    assert_same_bits(one.kernel(X, **AT), theory, X=X, **AT)
    assert type(one) is Deferred
    with pytest.raises(mf.MeanFieldError, match="Did you mean 'sigma_w'"):
        one.kernel(X, depth=3, sigma_W=1)
    assert type(one) is mf.Theory
    for ask in (
        lambda t: isinstance(t, mf.Theory),
        lambda t: t == theory,
        lambda t: hash(t) == hash(theory),
        lambda t: repr(t) == repr(theory) and str(t) == str(theory),
        lambda t: t.recursion("K") == theory.recursion("K"),
        lambda t: pickle.loads(pickle.dumps(t)) == theory,
        lambda t: dataclasses.replace(t, batch=None) == theory,
        lambda t: "propagate" in dir(t),
    ):
        one = deferred()
        assert type(one) is Deferred
        assert ask(one)
        assert derived(one) is one and type(one) is mf.Theory
    with pytest.raises(AttributeError, match="nonsense"):
        _ = deferred().nonsense


FRESH = """
import sys
from meanfield import derive
theory = derive("erf", residual=True)
assert (type(theory).__name__ == "Deferred") == (sys.argv[1] == "kept"), type(theory)
found = theory.kernel([[1.0, 0], [0, 2], [1, 1]], sigma_w=1.5, sigma_b=0.1, depth=11)
print([m for m in ("sympy", "scipy", "numba", "mpmath", "flint") if m in sys.modules])
print(found.K.tolist(), found.error)
print(theory.depth_law("K", sigma_w=1, sigma_b=0).law.text() if sys.argv[1] == "kept" else "")
"""


@pytest.mark.slow
def test_a_fresh_process_loads_no_sympy(tmp_path):
    def run(word):
        environment = os.environ | {"MEANFIELD_CACHE": str(tmp_path)}
        out = subprocess.run([sys.executable, "-c", FRESH, word], env=environment, capture_output=True, text=True)
        assert out.returncode == 0, out.stderr
        return out.stdout.splitlines()

    first, second = run("new"), run("kept")
    assert "sympy" in first[0] and second[0] == "[]" and first[1] == second[1] and second[2]


def deferred_erf():
    asked, _ = asked_and_kept()
    return Deferred(asked, lambda: theory_of("erf"))


def test_a_method_outlives_the_deferred_theory():
    one = deferred_erf()
    kernel = one.kernel
    expected = kernel(X, **AT)
    assert one.recursion("K") and type(one) is mf.Theory
    assert kernel(X, **AT).K.tobytes() == expected.K.tobytes()


def test_another_thread_derives_while_its_class_is_asked_for():
    begun, go = threading.Event(), threading.Event()

    def make():
        begun.set()
        assert go.wait(60)
        return theory_of("erf")

    one = Deferred(asked_and_kept()[0], make)
    with ThreadPoolExecutor(3) as pool:
        text = pool.submit(lambda: str(one.recursion("K")))
        assert begun.wait(60)
        kinds = [pool.submit(isinstance, one, mf.Theory) for _ in range(2)]
        while len(one.__dict__["_asking"]) < 2:
            time.sleep(1e-3)
        go.set()
        assert text.result() == str(mf.derive("erf").recursion("K")) and all(k.result() for k in kinds)
    assert one.recursion("K") and type(one) is mf.Theory


def test_a_deferred_theory_is_frozen():
    for change, said in ((lambda t: setattr(t, "batch", 4), "assign to"), (lambda t: delattr(t, "batch"), "delete")):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot {said} field 'batch'"):
            change(deferred_erf())


@pytest.mark.parametrize(
    ("settings", "refused"),
    [({"dtype": np.array(["float64", "x"])}, "the choices are float64"), ({"asked": 3}, "is not a parameter")],
    ids=str,
)
def test_the_refusals_of_the_theory(settings, refused):
    said = []
    for theory in (deferred_erf(), mf.derive("erf")):
        with pytest.raises(mf.MeanFieldError, match=refused) as refusal:
            theory.kernel(X, **(AT | settings))
        said.append(str(refusal.value))
    assert said[0] == said[1]


def test_functions_that_are_being_loaded_have_added_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "meanfield.heads", types.ModuleType("meanfield.heads"))
    assert recalled.cache._added() == ""


@pytest.mark.slow
def test_neurons_that_are_all_zero_are_left_to_the_theory():
    asked, theory = asked_and_kept(phi="relu", norm="pre")
    assert_same_bits(recalled.kernel(asked, X, **AT), theory, X=X, **AT)
    for settings in ({"sigma_b": 0, "X": np.vstack([X, 0 * X[:1]])}, {"sigma_b": 0, "sigma_w": 0}):
        settings = {"X": X} | AT | settings
        assert recalled.kernel(asked, **settings) is None
        with pytest.raises(mf.MeanFieldError, match="LayerNorm"):
            theory.kernel(**settings)


def test_a_loop_is_linked_once():
    asked, _ = asked_and_kept()
    recalled.kernel(asked, X, **AT)
    before = len(machine._engines)
    for _ in range(5):
        recalled.kernel(asked, X, **AT)
    assert len(machine._engines) == before


@pytest.mark.parametrize("how", ["nothing", "half", "no text", "one bit", "removed"])
def test_files_that_are_not_whole(how, tmp_path, monkeypatch):
    """Of every kind: what is in them is made again, and nothing else is answered."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    asked = tmp_path / "asked.json"
    recalled.write(asked, {"K": {"begin": "Q0"}})
    cache.write("module", "x = 1\n", {"weight": np.ones(40)})
    kept = Cells("cells", 0, 1, 0.0)
    kept.found[3] = Cell(4, np.ones((DEGREE + 1, 4)), np.ones((2, len(LADDER))))
    kept.keep()
    for file in tmp_path.iterdir():
        data = file.read_bytes()
        changed = {"nothing": b"", "half": data[: len(data) // 2], "no text": b"\xff" * len(data)}
        changed["one bit"] = bytes([*data[: len(data) // 2], data[len(data) // 2] ^ 1, *data[len(data) // 2 + 1 :]])
        if how == "removed":
            file.unlink()
        else:
            file.write_bytes(changed[how])
        assert recalled.read(asked) == {} or file != asked
        assert cache.read("module") is None or not file.name.startswith("module")
        own = Cells("cells", 0, 1, 0.0)
        own.recall()
        assert file != own.file or not own.found or (own.found[3].coefficients == 1).all()  # a bit of its padding
        file.write_bytes(data)
    own.recall()
    assert recalled.read(asked) and cache.read("module") and own.found.keys() == {3}
    (tmp_path / "module.py").write_text("x = 2\n")
    assert cache.read("module") is None
    cache.write("module", "x = 1\n", {"weight": np.ones(40)})
    text, arrays = cache.read("module")
    assert text == "x = 1\n" and arrays.keys() == {"weight"}


def test_a_loop_whose_text_is_missing_is_left_to_the_theory(monkeypatch):
    asked, _ = asked_and_kept()
    assert recalled.kernel(asked, X, **AT) is not None
    recalled._whole.cache_clear()
    monkeypatch.setattr(recalled.cache, "read", lambda name: None)
    assert recalled.kernel(asked, X, **AT) is None
