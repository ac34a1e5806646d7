"""The registry of quantities against everything that carries, measures or prints one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import meanfield as mf
from meanfield.base.quantities import DIFFERENTIATED, MEASURED, QUANTITIES, carried_by, mathtext
from meanfield.base.tex.read import read
from meanfield.empirical import run_ensemble
from meanfield.networks.records import RESERVED, mlp

RECURSIONS = ("one_input", "two_inputs", "input_jacobian")


def assert_carried(recursion, kept: tuple[str, ...]) -> None:
    """A recursion carries what the registry says, in that order and in that way (K comes with every other one)."""
    names = [v.name for v in recursion.state if v.name in kept]
    assert tuple(names) == kept, f"carried in the order {names}"
    for v in recursion.state:
        assert v.encoding == QUANTITIES[v.name].encoding and v.symbol.name == v.name


@pytest.mark.parametrize("kind", RECURSIONS)
def test_recursions_carry_what_the_registry_says(kind):
    assert_carried(getattr(mf.derive("tanh"), kind), carried_by(kind))
    with pytest.raises(AssertionError, match="carried in the order"):
        assert_carried(getattr(mf.derive("tanh"), kind), carried_by(kind)[::-1])


def test_a_run_is_keyed_by_it():
    run = mf.derive("tanh").propagate(sigma_w=1.2, sigma_b=0.1, depth=3, quantities=("K", "J", "Theta"))
    assert set(run.values) == {QUANTITIES[n].key for n in ("K", "J", "Theta")}


def test_networks_measure_what_it_says():
    """Every name is measured or refused for what it needs, and an unknown one is refused with the list."""
    sizes = dict(sigma_w=1.2, sigma_b=0.1, width=6, depth=2, networks=3, seed=0)
    for name in MEASURED:
        given = {"correlation": 0.5} if QUANTITIES[name].positions == 2 else {"batch": 3}
        given |= {"rates": (1.0, 1.0)} if name in "ABDFPQRSTU" else {}
        given |= {"probes": 2} if QUANTITIES[name].differentiates and QUANTITIES[name].order == 0 else {}
        block = mlp("tanh", norm="pre") if name in ("G_gamma", "G_beta") else mlp("tanh")
        run = run_ensemble(block, quantities=(name,), **sizes, **given)
        assert name in run.quantities, name
    with pytest.raises(mf.MeanFieldError, match="the choices are " + ", ".join(sorted(MEASURED))):
        run_ensemble(mlp("tanh"), quantities=("X",), **sizes)


def test_what_differentiates_is_refused_of_a_jump():
    for name in DIFFERENTIATED:
        given = {"batch": 2, "rates": (1.0, 1.0)} if name in "ABDFPQRSTU" else {}
        with pytest.raises(mf.MeanFieldError, match="jumps"):
            run_ensemble(
                mlp("step"), sigma_w=1, sigma_b=0, width=6, depth=2, networks=2, quantities=(name,), **given
            )


def test_names_are_reserved_and_printable():
    for q in QUANTITIES.values():
        read(q.latex)
        assert mathtext(q.name) == f"${q.latex}$".replace(r"{\ell}", r"\ell")
        # a parameter may be called T or A; where correlators are asked for it is refused
        assert not q.recursion or q.name in RESERVED or q.order
    assert mathtext("unknown") == "unknown"


def test_the_table_of_the_documentation():
    page = (Path(mf.__file__).parents[1] / "docs" / "notation.md").read_text()
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| (.+?) \|", page))
    for q in QUANTITIES.values():
        assert rows.get(q.name) == q.meaning, f"docs/notation.md lacks `{q.name}`: {q.meaning}"
