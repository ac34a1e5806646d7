"""First answers: kept ones are found by question and engine alone, small kernels are interpreted, a version needs
nothing."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import meanfield as mf
from meanfield.base.errors import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.activations import activation
from meanfield.functions.piecewise import pieces
from meanfield.kernels import compiled, inner_products
from meanfield.kernels.loops import numpy_sums
from meanfield.kernels.loops.hermite_series import HermiteTable
from meanfield.numeric.lowering.modules import cache, generated_modules
from meanfield.numeric.phases.correlations import Correlations
from meanfield.numeric.phases.maps import scalar_map
from meanfield.symbolic.fixed_points import all_fixed_points
from meanfield.theory.queries import stored_answers

THEORY = mf.derive("erf")
PLACE = {"sigma_w": "1.3", "sigma_b": "0.2"}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty cache folder, in which every answer is kept, however fast it came."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(stored_answers, "LEAST", -1.0)
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    """How often the engine was asked for fixed points."""
    calls = []
    own = scalar_map.fixed_points
    monkeypatch.setattr(scalar_map, "fixed_points", lambda *given: calls.append(given) or own(*given))
    return calls


def assert_computed(asked: list, times: int) -> None:
    assert len(asked) == times, f"the engine was asked {len(asked)} times, and {times} were to be"


def test_an_answer_is_found_once(folder, asked):
    first = THEORY.fixed_points(**PLACE)
    again = mf.derive("erf").fixed_points(**PLACE)
    assert_computed(asked, 1)
    assert again == first and str(again) == str(first) and again.data() == first.data()
    THEORY.fixed_points(sigma_w="1.4", sigma_b="0.2")  # another place, another architecture, a float for a decimal
    mf.derive("erf", residual=True).fixed_points(**PLACE)
    THEORY.fixed_points(sigma_w=1.3, sigma_b=0.2)
    assert_computed(asked, 4)
    with pytest.raises(AssertionError, match="were to be"):
        assert_computed(asked, 1)


def test_every_verb_gives_what_it_gave(folder):
    verbs = ("fixed_points", "phase", "bias", "correlations")
    found = [getattr(THEORY, verb)(**PLACE) for verb in verbs] + [THEORY.critical_line(), THEORY.critical_points()]
    files = {p.name: p.read_bytes() for p in folder.glob("answer_*")}
    assert len(files) >= 6  # the bias asks for the phase and for correlations at exact numbers
    again = [getattr(THEORY, verb)(**PLACE) for verb in verbs] + [THEORY.critical_line(), THEORY.critical_points()]
    assert again == found and {p.name: p.read_bytes() for p in folder.glob("answer_*")} == files
    law = THEORY.depth_law("K", **PLACE)
    assert THEORY.depth_law("K", **PLACE) == law


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "other"])
def test_a_damaged_file_counts_as_none(folder, asked, damage):
    true = THEORY.fixed_points(**PLACE)
    (file,) = folder.glob("answer_*")
    whole = file.read_bytes()
    if damage == "other":  # whole, and the answer to something else
        file.unlink()
        THEORY.fixed_points(sigma_w="0.9", sigma_b="0.2")
        (other,) = folder.glob("answer_*")
        wrong = other.rename(file).read_bytes()
        asked.clear()
        asked.append(None)
    else:
        changed = {"cut": whole[:-9], "flipped": whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]}
        wrong = changed.get(damage, b"" if damage == "empty" else b"no answer")
        file.write_bytes(wrong)
    assert stored_answers.recalled(file) is None
    assert THEORY.fixed_points(**PLACE) == true
    assert_computed(asked, 2)
    assert file.read_bytes() == whole != wrong
    assert stored_answers.recalled(file) == true


def test_an_answer_of_another_engine_is_not_asked(folder, asked, monkeypatch):
    """A changed source is another hash, and another name."""
    THEORY.fixed_points(**PLACE)
    for engine in ("another", "a third"):
        monkeypatch.setattr(cache, "_engine", lambda engine=engine: engine)
        THEORY.fixed_points(**PLACE)
        THEORY.fixed_points(**PLACE)
    assert_computed(asked, 3)
    monkeypatch.setattr(cache, "_added", lambda: "a function that was added")
    THEORY.fixed_points(**PLACE)
    assert_computed(asked, 4)


def test_a_folder_that_cannot_be_written_fails_no_call(folder, asked, monkeypatch):
    def full(path, content):
        raise MeanFieldError("the disk is full")

    monkeypatch.setattr(stored_answers, "write_whole", full)
    assert THEORY.fixed_points(**PLACE) == THEORY.fixed_points(**PLACE)
    assert_computed(asked, 2)
    monkeypatch.undo()
    monkeypatch.setattr(cache, "folder", lambda: folder / "gone")
    monkeypatch.setattr(stored_answers, "LEAST", -1.0)
    assert len(THEORY.fixed_points(**PLACE)) == 1


def test_what_is_fast_or_not_text_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(stored_answers, "LEAST", 1e3)
    THEORY.fixed_points(**PLACE)
    monkeypatch.setattr(stored_answers, "LEAST", math.inf)
    THEORY.fixed_points(**PLACE)
    monkeypatch.setattr(stored_answers, "LEAST", -1.0)
    point = mf.derive("tanh").critical_points()[0]
    before = set(folder.glob("answer_*"))
    mf.derive("tanh").depth_law("K", at=point)
    assert set(folder.glob("answer_*")) == before


def test_what_is_unknown_is_not_kept(folder):
    known = Correlations(1.0, (), mf.Status.CERTIFIED)
    for status in (mf.Status.UNKNOWN, mf.Status.CERTIFIED):
        stored_answers.keep(folder / "answer", replace(known, status=status))
        assert stored_answers.recalled(folder / "answer") == (known if status is mf.Status.CERTIFIED else None)


LOADED = """
import json, sys
sys.argv = ["meanfield", {argument!r}]
from meanfield.__main__ import main
try:
    main()
except SystemExit:
    pass
print(json.dumps([name for name in ("sympy", "numpy", "numba", "typer", "scipy") if name in sys.modules]))
"""


def assert_loads_nothing(argument: str) -> None:
    lines = subprocess.check_output([sys.executable, "-c", LOADED.format(argument=argument)], text=True).splitlines()
    assert lines[-1] == "[]", f"{argument} loads {', '.join(json.loads(lines[-1]))}"


def test_a_version_needs_nothing():
    assert_loads_nothing("--version")
    with pytest.raises(AssertionError, match="--help loads sympy"):
        assert_loads_nothing("--help")


#: series that are even, odd, of both kinds, and long; closed forms
KERNELS = ("tanh", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hard_swish", "z*tanh(z)", "relu")))
ROWS = np.random.default_rng(3).normal(size=(9, 5))


def _kernel(name: str) -> dict:
    compiled.block_loop.cache_clear()
    found = mf.derive(name).kernel(ROWS, sigma_w=1.4, sigma_b=0.2, depth=5, quantities=("K", "Theta"))
    return {"K": found.K, "Theta": found.Theta}


def assert_same_bits(a: dict, b: dict) -> None:
    for name in a:
        assert np.array_equal(a[name], b[name], equal_nan=True), f"{name} has other bits"


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_small_kernels_are_interpreted_with_the_bits_of_compiled_ones(name, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(generated_modules, "PATIENCE", 100.0)
        interpreted = _kernel(name)
        own = numpy_sums.sums

        def wrong(a, b, b0, m, c, first, step, count, S, D, u, slopes):
            own(a, b, b0, m, c, first, step, count - 1, S, D, u, slopes)
            S[:m] *= 1 + 2.0**-50

        patch.setitem(numpy_sums.PLAIN, "sums", wrong)
        planted = _kernel(name)
    with monkeypatch.context() as patch:
        patch.setattr(
            generated_modules.Module, "is_little", lambda self, *_, **__: not self.plain
        )  # loops over pairs are compiled
        found = _kernel(name)
    assert_same_bits(interpreted, found)
    if name != "relu":  # closed forms need no series
        with pytest.raises(AssertionError, match="has other bits"):
            assert_same_bits(planted, found)


def test_what_the_interpreter_began_is_forgotten(monkeypatch):
    """A block that it gives up in the middle is computed from its start, compiled."""
    true, own, calls = _kernel("tanh"), numpy_sums.sums, []

    def gives_up(*given):
        calls.append(own(*given))
        if len(calls) == 20:
            raise OverflowError

    monkeypatch.setattr(generated_modules, "PATIENCE", 100.0)
    monkeypatch.setitem(numpy_sums.PLAIN, "sums", gives_up)
    assert_same_bits(_kernel("tanh"), true)
    assert len(calls) == 20


def test_series_with_breaks_are_as_long_as_they_need_be():
    """All their terms are computed at once, and those that no pair needs are not kept: hard_swish is z(z + 3)/6 for a
    small variance."""
    f = activation("hard_swish").pieces.expr.xreplace({activation("hard_swish").pieces.variable: Z[0]})
    table = HermiteTable(f, pieces(f, Z[0]).diff().expr)
    near, far = table.made(-20), table.made(8)  # variances of 2^-5 and 4
    assert near.order < far.order
    a = near.coefficients[0]  # means over the cell of orthonormal coefficients, k = 2 that of z²/6
    assert abs(a[3:]).max() < 1e-12 < abs(a[2])


def assert_same_loops(one, other) -> None:
    """What the loops over a small block of pairs give, of close and opposite inputs, too, its upper triangle and all of
    it."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(7, 6))
    X[3], X[5] = X[2] * (1 + 1e-9), -X[1]
    for first in (np.arange(1, 8), np.zeros(7, dtype=np.int64)):
        found = []
        for loops in (one, other):
            K, flags, gram, distance = np.empty(7), np.zeros((7, 7), np.uint8), np.zeros((7, 7)), np.zeros((7, 7))
            loops.norms(X, K)
            loops.gram(X, np.ascontiguousarray(X.T), first, 0.5, 0.0, gram)
            K *= 0.5
            loops.close_at_start(gram, K, K, 1e-6, first, flags)
            largest = loops.opposite(gram, K, K, 1e-4, first)
            worst = loops.distances(gram, K, K, first, flags, distance)
            loops.mirror(gram, K)
            upper = np.arange(7) >= first[:, None]
            found.append((K, flags, gram, np.where(upper, distance, 0.0), largest, np.float32(worst)))
        assert all(np.array_equal(a, b) for a, b in zip(*found)), "the loops differ"


def test_small_blocks_take_the_same_loops_by_numpy(monkeypatch):
    assert_same_loops(numpy_sums, inner_products)
    backwards = lambda X, K: np.copyto(K, (X * X)[:, ::-1].sum(1))  # noqa: E731
    for name, wrong in (("opposite", lambda *given: 0.0), ("norms", backwards)):
        with monkeypatch.context() as patch:
            patch.setattr(numpy_sums, name, wrong)
            with pytest.raises(AssertionError, match="the loops differ"):
                assert_same_loops(numpy_sums, inner_products)


def test_a_number_that_python_does_not_write_is_refused_in_a_sentence():
    for given in ({"sigma_w": 10**5000}, {"sigma_w": 1, "sigma_b": 10**5000}):
        with pytest.raises(MeanFieldError, match=r"finite number, but a whole number of more than 4300 digits"):
            THEORY.fixed_points(**given)


def test_a_phase_and_the_laws_behind_it_search_once_for_the_fixed_points(monkeypatch):
    """And anew for another map, and once what was found is forgotten."""
    searched, real = [], all_fixed_points.zeros
    monkeypatch.setattr(all_fixed_points, "zeros", lambda gain, *a, **k: searched.append(gain) or real(gain, *a, **k))
    all_fixed_points._of_maps.cache_clear()
    theory, at = mf.derive("tanh"), {"sigma_w": "3/2", "sigma_b": "1/5"}
    theory.phase(**at), theory.depth_law("J", **at), theory.fixed_points(**at)
    assert len(searched) == 1
    theory.fixed_points(sigma_w="3/2", sigma_b="1/4")
    assert len(searched) == 2
    all_fixed_points._of_maps.cache_clear()
    theory.phase(**at)
    assert len(searched) == 3
