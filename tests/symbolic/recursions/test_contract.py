"""The engine against what it derived before its middle was rebuilt: the same maps, proved, and the same numbers.

`tests/references/contract.json` was written once (`make_contract.py`) and is never regenerated.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Equality
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.equality import equal
from tests import REFERENCES
from tests.references.contract import decode, place, read_architecture

DATA = json.loads((REFERENCES / "contract.json").read_text())
KINDS = ("one_input", "two_inputs", "input_jacobian")


def shape(text: str) -> str:
    """An architecture whatever its activations are."""
    return re.sub(r"activation\(('[^']*'|formula\('[^']*'\)).*?\)(?=\))", "φ", text)


FIRST: dict[str, str] = {}  # the fast suite takes one activation of each shape, a smooth one without closed form
for _text in sorted(DATA, key=lambda t: ("'tanh'" not in t, "'gelu'" not in t, t)):
    FIRST.setdefault(shape(_text), _text)
FAST = set(FIRST.values())
NUMBERS = [(text, kind) for text in DATA for kind in KINDS if set(DATA[text][kind].get("numbers", {})) - {"refused"}]


def marked(cases, slow=()):
    """Those of the fast suite as they are, the others slow (and those of the kinds in `slow`)."""
    fast = [text in FAST and kind not in slow for text, kind in cases]
    return [pytest.param(*c, marks=() if f else pytest.mark.slow, id=" ".join(c)) for c, f in zip(cases, fast)]


# maps that need not be proved by structure where φ has kinks: J0 in the Stein form, two inputs through two nodes
DIGITS = ("D0", "J0", "K_aa", "K_bb", "K_ab")


def assert_same_maps(found: mf.symbolic.Recursion, kept: dict) -> None:
    """Every quantity of the kept recursion has the same carry, the same map and the same start.

    A variable `after_norm`, 0 at layer 1 and 1 from layer 2 on, said where a block differs at the first layer: there
    the map is that of the head, elsewhere that of the block.
    """
    names = [name for name, _ in kept["state"]]
    if "after_norm" in names:
        (first,) = found.head
        for value, step in ((0, first), (1, found.block)):
            there = {"nodes": kept["nodes"], "state": [v for v in kept["state"] if v[0] != "after_norm"]}
            at = [e for i, e in enumerate(kept["expressions"]) if names[i % len(names)] != "after_norm"]
            there["expressions"] = [re.sub(r"\bafter_norm\b", str(value), e) for e in at]
            there["nodes"] = [[n, re.sub(r"\bafter_norm\b", str(value), f), *rest] for n, f, *rest in kept["nodes"]]
            assert_same_maps(replace(found, block=step, head=()), there)
        return
    assert not found.head
    known = {s.name: s for e in (*found.step, *found.initial.values()) for s in e.free_symbols}
    expressions = [
        e.xreplace({s: known[s.name] for s in e.free_symbols if s.name in known}) for e in decode(kept)
    ]  # a name says which symbol is meant, whatever is assumed of it
    for (name, encoding), step, initial in zip(kept["state"], expressions, expressions[len(names) :]):
        v = found.state[found.index(name)]
        assert v.encoding.name == encoding, f"{name} is carried as {v.encoding}, it was {encoding}"
        for ours, theirs in ((found[name], step), (v.initial, initial)):
            kinks = any(n.integrand.has(sp.Piecewise, sp.Max, sp.Min) for n in ours.atoms(Average))
            by_digits = name in DIGITS and kinks
            verdict = equal(ours, theirs, points=1 if by_digits else 3)
            wanted = (Equality.PROVED, Equality.TO_30_DIGITS) if by_digits else (Equality.PROVED,)
            assert verdict in wanted, f"{name}: {ours} and {theirs}: {verdict.value}"


def assert_same_numbers(theory: mf.Theory, kind: str, kept: dict, tolerance: float = 1e-13) -> None:
    quantities = {"input_jacobian": ("J0",)}.get(kind)
    run = theory.propagate(quantities=quantities, **place(getattr(theory, kind).parameters, kind))
    for name, value in kept.items():
        assert float(getattr(run, name)[-1]) == pytest.approx(value, rel=tolerance, abs=1e-300), (
            f"{name} is not what was kept"
        )


@pytest.mark.slow_with(
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu=Fraction(1, 2)) one_input",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu=Fraction(1, 2)) two_inputs",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu=Fraction(1, 2)) input_jacobian",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)), "
    "mu=Fraction(1, 2)) one_input",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)), "
    "mu=Fraction(1, 2)) two_inputs",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)), "
    "mu=Fraction(1, 2)) input_jacobian",
    "Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity(activation('gelu')), Dense(),)) one_input",
    "Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity(activation('gelu')), "
    "Dense(),)) two_inputs",
    "Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity(activation('tanh')), Dense(),)) one_input",
    "Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity(activation('tanh')), "
    "Dense(),)) two_inputs",
)  # fmt: skip
@pytest.mark.parametrize(("text", "kind"), marked([(t, k) for t in DATA for k in KINDS if "state" in DATA[t][k]]))
def test_maps(text, kind):
    assert_same_maps(getattr(mf.derive(architecture=read_architecture(text)), kind), DATA[text][kind])


@pytest.mark.slow_with(
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), Dense(),)), mu=Param('mu')) one_input",
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), Dense(),)), mu=Param('mu')) two_inputs",
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), Dense(),)), mu=Param('mu')) input_jacobian",
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), LayerNorm(), Dense(),))) one_input",
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), LayerNorm(), Dense(),))) two_inputs",
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), LayerNorm(), Dense(),))) input_jacobian",
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), LayerNorm(), "
    "Nonlinearity(activation('tanh')), Dense(),))) one_input",
    "Residual(Sequential((LayerNorm(), Nonlinearity(activation('tanh')), LayerNorm(), "
    "Nonlinearity(activation('tanh')), Dense(),))) two_inputs",
    "Residual(Sequential((LayerNorm(False), Nonlinearity(activation('tanh')), LayerNorm(False), "
    "Nonlinearity(activation('tanh')), Dense(),))) one_input",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu=Fraction(1, 2)) one_input",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu=Fraction(1, 2)) two_inputs",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)), mu=Fraction(1, 2)) input_jacobian",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)), "
    "mu=Fraction(1, 2)) one_input",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)), "
    "mu=Fraction(1, 2)) two_inputs",
    "Residual(Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)), "
    "mu=Fraction(1, 2)) input_jacobian",
    "Residual(Sequential((Nonlinearity(activation('tanh')), LayerNorm(), "
    "Nonlinearity(activation('tanh')), Dense(),))) one_input",
    "Sequential((Nonlinearity('relu'), LayerNorm(), LayerNorm(), Dense(),)) input_jacobian",
    "Sequential((Nonlinearity('relu'), LayerNorm(False), Dense(),)) input_jacobian",
    "Sequential((Nonlinearity('relu'), LayerNorm(False), LayerNorm(False), Dense(),)) input_jacobian",
    "Sequential((Nonlinearity(activation('relu')), LayerNorm(), LayerNorm(), Dense(),)) input_jacobian",
    "Sequential((Nonlinearity(activation('tanh')), LayerNorm(), Nonlinearity(activation('gelu')), Dense(),)) one_input",
    "Sequential((Residual(Nonlinearity(activation('tanh')), mu=Fraction(1, 2)), Dense(),)) one_input",
    "Sequential((Residual(Nonlinearity(activation('tanh')), mu=Fraction(1, 2)), Dense(),)) two_inputs",
    "Sequential((Residual(Nonlinearity(activation('tanh')), mu=Fraction(1, 2)), Dense(),)) input_jacobian",
)  # fmt: skip
@pytest.mark.parametrize(("text", "kind"), marked(NUMBERS, slow=("two_inputs",)))
def test_numbers(text, kind):
    assert_same_numbers(mf.derive(architecture=read_architecture(text)), kind, DATA[text][kind]["numbers"])


def test_a_changed_map_is_seen():
    """μ for μ², another φ, a missing term, a linear carry for a logarithm, a digit."""
    text = next(t for t in FAST if "Param('mu')" in t and "'tanh'" in t and "LayerNorm" not in t)
    kept = DATA[text]["one_input"]
    theory = mf.derive(architecture=read_architecture(text))
    assert_same_maps(theory.one_input, kept)
    for old, new in (("mu**2", "mu"), ("K*mu**2", "0"), ("sigma_b**2", "sigma_b")):
        wrong = kept | {"expressions": [e.replace(old, new) for e in kept["expressions"]]}
        with pytest.raises(AssertionError, match=r"^K: .*different"):
            assert_same_maps(theory.one_input, wrong)
    wrong = kept | {"nodes": [[n, f.replace("tanh", "erf"), *rest] for n, f, *rest in kept["nodes"]]}
    with pytest.raises(AssertionError, match=r"^K: .*different"):
        assert_same_maps(theory.one_input, wrong)
    with pytest.raises(AssertionError, match="carried"):
        assert_same_maps(theory.one_input, kept | {"state": [[n, "linear"] for n, _ in kept["state"]]})
    numbers = kept["numbers"]
    with pytest.raises(AssertionError, match="J is not what was kept"):
        assert_same_numbers(theory, "one_input", numbers | {"J": numbers["J"] * (1 + 1e-12)})


def test_counts():
    """An architecture that silently disappears is seen."""
    assert len(DATA) == COUNT
    assert len(FIRST) == SHAPES


COUNT, SHAPES = 372, 61
