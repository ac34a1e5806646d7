"""The net holds: what is recorded is still answered, and a changed answer is seen."""

from __future__ import annotations

import copy
import math

import pytest

from .calls import CALLS
from .record import SLICE, answer, machine, recorded, signatures
from .values import differences

DATA = recorded()
SLICES = range(0, len(CALLS), SLICE)


def test_what_is_recorded_are_the_calls():
    assert set(DATA["answers"]) == set(CALLS)
    assert len(CALLS) >= 300


def test_public_signatures():
    now = signatures()
    assert {k: v for k, v in now.items() if DATA["signatures"].get(k) != v} == {}
    assert DATA["signatures"].keys() - now.keys() == set()


@pytest.mark.parametrize("number", range(0, len(CALLS), 50))
def test_some_answers_are_those_recorded(number):
    call = CALLS[number]
    assert differences(DATA["answers"][call], answer(call), DATA["machine"] == machine()) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", SLICES)
def test_answers_are_those_recorded(first):
    exact = DATA["machine"] == machine()
    apart = {c: differences(DATA["answers"][c], answer(c), exact) for c in CALLS[first : first + SLICE]}
    assert {c: lines for c, lines in apart.items() if lines} == {}


@pytest.mark.parametrize(("by", "exact"), [(2.0**-52, True), (1e-9, False)])
def test_control_a_number_that_moved_is_seen(by, exact):
    before = DATA["answers"]["mf.derive('tanh').propagate(sigma_w=1.2, sigma_b=0.3, depth=12, quantities='K')"]
    now = copy.deepcopy(before)
    row = next(k for k in now if "K" in k and isinstance(now[k], list) and len(now[k]) == 12)
    now[row][5] = (float.fromhex(now[row][5]) * (1 + by)).hex()
    assert any(line.startswith(f"{row}[5]: ") for line in differences(before, now, exact))


def test_rounding_of_another_machine_is_no_difference():
    before = {"values": [(1.0).hex(), (0.25).hex()], "error[K]": [(1e-14).hex()]}
    now = {"values": [(1.0 + 2.0**-50).hex(), (0.25).hex()], "error[K]": [(1.1e-14).hex()]}
    assert differences(before, now, exact=False) == []
    assert differences(before, now, exact=True) != []


@pytest.mark.parametrize("name", ["status", "refused"])
def test_control_a_text_that_changed_is_seen(name):
    assert differences({name: "Status.CERTIFIED"}, {name: "Status.EXACT"}, exact=False) != []
    assert differences({name: "a"}, {}, exact=False) != []


def test_control_an_error_that_moved_is_seen():
    """Bit for bit an error may differ by a millionth, as a ball's radius does with what was enclosed before it."""
    before = {".K.error": [(1e-28).hex()]}
    for by, seen in ((1e-9, False), (1e-3, True), (math.inf, True)):
        now = {".K.error": [(1e-28 * (1 + by)).hex()]}
        assert bool(differences(before, now, True)) == seen, by
    assert not differences(before, {".K.error": [(2e-28).hex()]}, False)
