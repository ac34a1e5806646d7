"""One vocabulary: every public argument stands once in the table of docs/notation.md, and the table names no other."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import meanfield as mf
from meanfield.networks.architectures import PRESETS
from tests import DOCS
from tests.net.record import public

HOME = "meanfield.networks.records"
PAGE = DOCS / "notation.md"
RECORDS = [one for n in mf.__all__ if inspect.isclass(one := getattr(mf, n)) and one.__module__ == HOME]
#: further words for what has a name
SYNONYMS = {"observables", "of", "Q0", "N0", "c0", "phi", "quantity_names", "theory"}


def callables() -> dict[str, Callable]:
    """Every public function, verb of a theory, record and preset, by the name that users call it by."""
    found = {n: one for n, one in public(mf).items() if inspect.isfunction(one) and not n.startswith("empirical.")}
    found |= {f"Theory.{n}": f for n, f in vars(mf.Theory).items() if inspect.isfunction(f) and n[0] != "_"}
    return found | {one.__name__: one for one in RECORDS} | PRESETS


def arguments() -> dict[str, set[str]]:
    """Where each argument stands."""
    out: dict[str, set[str]] = {}
    for name, one in callables().items():
        for argument in inspect.signature(one).parameters:
            out.setdefault(argument, set()).add(name)
    out.pop("self", None)
    return out


def tabled(text: str) -> list[str]:
    """The names in the first column of the table under "Arguments"."""
    section = text.partition("\n## Arguments\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]


def assert_one_vocabulary(page: str) -> None:
    names, used = tabled(page), arguments()
    twice = {n for n in names if names.count(n) > 1}
    assert not twice, f"{sorted(twice)} stand twice"
    missing = {n: sorted(w) for n, w in used.items() if n not in names}
    assert not missing, f"not in docs/notation.md: {missing}"
    assert not set(names) - set(used), f"no argument is called {sorted(set(names) - set(used))}"


def test_every_argument_stands_in_the_table_of_notation_once():
    page = PAGE.read_text()
    assert_one_vocabulary(page)
    for planted in (page.replace("| `input_norm` |", "| `Q0` |"), page.replace("`draws`", "`networks`")):
        with pytest.raises(AssertionError, match=r"input_norm|networks"):
            assert_one_vocabulary(planted)


def test_one_thing_has_one_name():
    used = arguments()
    assert not SYNONYMS & set(used), {n: used[n] for n in SYNONYMS & set(used)}
    assert "quantities" in used and len(used["input_norm"]) > 8  # the control: names are seen


def test_whatever_takes_a_network_takes_what_derive_takes():
    """Names, records and theories, with the keywords of `derive`, are one network to every verb."""
    ways = (
        (("tanh",), {"norm": "pre", "mu": 0.5}),
        ((mf.derive("tanh", norm="pre", mu=0.5),), {}),
        ((mf.networks.mlp("tanh", 0.5, norm="pre"),), {}),
        ((mf.derive("tanh", norm="pre", mu="mu"),), {"mu": 0.5}),
        (("tanh",), {"architecture": mf.architectures.preln(mu=0.5)}),
        (("tanh",), {"architecture": "preln", "mu": "1/2"}),
    )
    at = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 12, "depth": 3}
    measured = [mf.measure(*a, **k, **at, networks=3).estimate("K").mean.tolist() for a, k in ways]
    assert all(one == pytest.approx(measured[0], rel=1e-14) for one in measured)
    other = mf.measure("tanh", norm="pre", mu=0.6, **at, networks=3).estimate("K").mean.tolist()
    assert other != pytest.approx(measured[0], rel=1e-3)  # the control
    checked = [mf.check(*a, **k, **at, networks=8).rows[-1].theory for a, k in ways]
    assert all(one == pytest.approx(checked[0], rel=1e-14) for one in checked)
    fitted = [mf.nngp(*a, **k, depth=3)([[1.0, 2.0]])[0, 0] for a, k in ways]
    assert all(one == pytest.approx(fitted[0], rel=1e-14) for one in fitted)
    gains = [mf.tune(*a, **k, depth=3, width=12).gains.tolist() for a, k in ways]
    assert all(one == gains[0] for one in gains)
    with pytest.raises(mf.MeanFieldError, match="beside a network that says what it is"):
        mf.measure(mf.derive("tanh"), norm="pre", **at)


def test_a_preset_with_its_keywords_waits_for_an_activation():
    waiting = mf.architectures.preln(mu="1/2")
    assert mf.derive("gelu", architecture=waiting) == mf.derive("gelu", architecture="preln", mu="1/2")
    assert mf.derive("gelu", architecture=waiting) != mf.derive("gelu", architecture="preln")
    for call, words in (
        (lambda: mf.architectures.preln(nu=1), "takes no argument 'nu'"),
        (lambda: mf.derive(architecture=waiting), "it needs an activation"),
        (lambda: mf.derive("gelu", norm="pre", architecture=waiting), "says everything else about the network"),
    ):
        with pytest.raises(mf.MeanFieldError, match=words):
            call()
