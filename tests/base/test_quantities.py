"""The registry of quantities against everything that carries, measures or prints one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import meanfield as mf
from meanfield.base.quantities import (
    DIFFERENTIATED,
    KINDS,
    MEASURED,
    QUANTITIES,
    carried_by,
    mathtext,
    of_two,
    read_off,
    recursion_of,
)
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


APART = [name for name, one in KINDS.items() if one.inputs and name not in ("gradients", "correlators")]


def assert_told(recursion, name: str) -> None:
    """The registry and a recursion agree on what it carries, and on what is read off it."""
    assert set(recursion.names) == set(carried_by(name)), f"{name} carries {recursion.names}"
    assert [n for n, _ in recursion.readout] == list(read_off(name)), f"read off {name}: {recursion.readout}"


@pytest.mark.parametrize("name", APART)
def test_every_recursion_is_told_by_the_registry(name):
    assert_told(getattr(mf.derive("tanh"), name), name)
    other = "equal_norms" if name != "equal_norms" else "unequal_norms"
    with pytest.raises(AssertionError, match=r"carries|read off"):
        assert_told(getattr(mf.derive("tanh"), name), other)


CHOSEN = {
    "one_input": [(), ("K",), ("Theta", "J")],
    "two_inputs": [("K_ab",), ("K_bb", "K_aa")],
    "pair_tangents": [("J_ab",), ("K_aa", "Theta_ab")],
    "equal_norms": [("c",), ("K", "K_ab"), ("J", "sigma_y2"), ("gamma", "J_ab"), ("distance",)],
    "unequal_norms": [("norm_angle",), ("distance", "K_aa"), ("K_bb", "c")],
    "input_jacobian": [("J0",), ("K", "D0")],
    "gradients": [("G_w", "K")],
    "correlators": [("V", "Theta"), ("G2",)],
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_run_is_what_the_names_have_in_common(name):
    for asked in CHOSEN[name]:
        assert recursion_of(asked) == recursion_of(asked[::-1]) == name
    with pytest.raises(mf.MeanFieldError, match=r"ask for them separately|Unknown quantity"):
        recursion_of((*CHOSEN[name][-1], "K_aa", "J0"))


def test_a_start_is_of_the_same_inputs():
    """K of two inputs is that of one norm; two norms with c are those of the distance, whose digits c is made of."""
    assert recursion_of((), ("K",), inputs=2) == "equal_norms" and recursion_of((), (), inputs=2) == "two_inputs"
    assert recursion_of(("K_ab",), ("K", "c")) == "equal_norms"
    with pytest.raises(mf.MeanFieldError, match="K_aa was given in start with gamma, but K_aa is of two inputs of any"):
        recursion_of(("gamma",), ("K_aa",))
    run = mf.derive("erf").propagate(sigma_w=1.2, sigma_b=0.1, depth=3, correlation=1 - 1e-9, quantities=("K_aa", "c"))
    other = mf.derive("erf").propagate(sigma_w=1.2, sigma_b=0.1, depth=3, correlation=1 - 1e-9, quantities=("K", "c"))
    assert run.c.tolist() == pytest.approx(other.c.tolist(), abs=1e-15)
    plain = mf.derive("erf").propagate(sigma_w=1.2, sigma_b=0.1, depth=3, correlation=0.5)
    with pytest.raises(AssertionError, match="comparison failed"):
        assert plain.c.tolist() == pytest.approx(other.c.tolist(), abs=1e-15)


def test_a_start_may_say_what_is_run():
    """K¹ and K_ab of two inputs of one norm: K_ab alone would be of any norms, which K does not start."""
    run = mf.derive("relu").propagate(
        sigma_w=1, sigma_b=0, depth=3, correlation=0.5, start={"K": 2.0}, quantities=("K_ab",)
    )
    assert (run.K[0], run.K_ab[0]) == (2.0, 0.5) and "K_aa" not in run.quantities
    with pytest.raises(mf.MeanFieldError, match="K was given in start with K_aa"):
        mf.derive("relu").propagate(
            sigma_w=1, sigma_b=0, depth=3, correlation=0.5, start={"K": 2.0}, quantities=("K_aa",)
        )


def test_a_run_is_keyed_by_it():
    run = mf.derive("tanh").propagate(sigma_w=1.2, sigma_b=0.1, depth=3, quantities=("K", "J", "Theta"))
    assert set(run.values) == {QUANTITIES[n].key for n in ("K", "J", "Theta")}


def test_networks_measure_what_it_says():
    """Every name is measured or refused for what it needs, and an unknown one is refused with the list."""
    sizes = dict(sigma_w=1.2, sigma_b=0.1, width=6, depth=2, networks=3, seed=0)
    for name in MEASURED:
        given = {"correlation": 0.5} if of_two(name) else {"batch": 3}
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
        assert not q.carried or q.name in RESERVED or q.order
    assert mathtext("unknown") == "unknown"


def test_the_table_of_the_documentation():
    page = (Path(mf.__file__).parents[1] / "docs" / "notation.md").read_text()
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| (.+?) \|", page))
    for q in QUANTITIES.values():
        assert rows.get(q.name) == q.meaning, f"docs/notation.md lacks `{q.name}`: {q.meaning}"
