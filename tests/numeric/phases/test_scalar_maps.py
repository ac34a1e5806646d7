"""Maps of one number: which kind a network's is, and that verbs ask the map and know no kinds."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import MeanFieldError, Status
from meanfield.numeric.phases.maps.float_maps import FloatMap, Mapped
from meanfield.numeric.phases.maps.kinds_of_maps import scalar_map
from meanfield.numeric.phases.maps.moving_maps import MovingMap
from meanfield.numeric.phases.maps.nested_maps import NestedMap
from meanfield.numeric.phases.maps.sampled_maps import SampledMap
from meanfield.numeric.phases.maps.scalar_map import EnclosedMap
from meanfield.theory.depth_limits.coupled_limits import BatchDepthLimit, CoupledDepthLimit
from meanfield.theory.depth_limits.depth_limit import DepthLimit
from meanfield.theory.depth_limits.token_limits import TokensAlike
from meanfield.theory.depth_limits.which_limit import depth_limit_of


def chain(*parts) -> mf.Theory:
    return mf.derive(architecture=mf.Sequential(parts))


TANH, DENSE = mf.Nonlinearity("tanh"), mf.Dense()
KINDS = {
    "plain": (mf.derive("tanh"), DepthLimit, EnclosedMap),
    "norm": (mf.derive("tanh", norm="pre"), DepthLimit, EnclosedMap),
    "norm on activations": (chain(TANH, mf.LayerNorm(), mf.Nonlinearity("relu"), DENSE), DepthLimit, MovingMap),
    "pool": (chain(mf.Nonlinearity("relu"), mf.Pool(2, "sqrt(z1**2 + z2**2)"), DENSE), DepthLimit, SampledMap),
    "batch": (mf.derive("relu", architecture="batchnorm_mlp"), BatchDepthLimit, EnclosedMap),
    "batch of activations": (chain(TANH, mf.BatchNorm(), DENSE), BatchDepthLimit, NestedMap),
    "tokens": (chain(mf.Dense(axis="tokens"), mf.Nonlinearity("relu"), DENSE), CoupledDepthLimit, EnclosedMap),
}


@pytest.mark.parametrize("name", KINDS)
def test_which_number_settles_and_how_its_map_is_known(name):
    theory, settles, kind = KINDS[name]
    found = depth_limit_of(theory)
    assert type(found) is settles and type(found.map) is kind
    assert type(scalar_map(theory.limiting, theory.block)) is kind


def test_tokens_with_attention_have_no_map_of_their_own():
    found = depth_limit_of(mf.derive("tanh", architecture="gpt", heads=8, causal=False))
    assert type(found) is TokensAlike
    with pytest.raises(MeanFieldError, match="where an Attention mixes tokens"):
        _ = found.map


TOLD_APART = {
    "attends", "only_floats", "moves_with_K", "Common", "scalar_map", "sampled", "is_exact", "limiting_recursion"
}  # fmt: skip


def asked_in(source: str) -> set[str]:
    """The names in a module by which kinds of maps could be told apart."""
    named = {n.attr if isinstance(n, ast.Attribute) else n.id for n in ast.walk(ast.parse(source))
             if isinstance(n, ast.Attribute | ast.Name)}  # fmt: skip
    return named & TOLD_APART


def test_verbs_know_no_kinds():
    """The verbs of one place and the diagram ask `depth_limit_of`; only a budget looks at averages of two inputs."""
    package = Path(mf.__file__).parent
    assert asked_in((package / "theory/verbs/at_a_point.py").read_text()) == set()
    assert asked_in((package / "presentation/phase_diagram.py").read_text()) == set()
    assert asked_in((package / "theory/verbs/laws.py").read_text()) == set()
    assert asked_in((package / "theory/verbs/diagrams.py").read_text()) == {"only_floats"}
    assert asked_in((package / "theory/verbs/propagating.py").read_text()) == set()
    assert asked_in("x = recursion.only_floats, attends(block)") == {"only_floats", "attends"}


def test_a_diagram_of_the_bias_behind_a_nested_average_is_refused():
    """It once was one of the phases, whatever was asked for."""
    theory, _, _ = KINDS["batch of activations"]
    place = {"sigma_w": [1.2], "sigma_b": [0.3]}
    found, phase = theory.phase_diagram(**place), theory.phase(sigma_w=1.2, sigma_b=0.3)
    assert found.K[0, 0] == float(phase.fixed_point.K.value) and found.chi_J[0, 0] == float(phase.chi_J.value)
    with pytest.raises(MeanFieldError, match="A BatchNorm makes inputs act on each other"):
        theory.phase_diagram(**place, quantity="gamma")


def test_the_phase_behind_a_norm_on_activations_starts_where_the_input_layer_puts_it():
    """K¹ is that of the input layer's own σ's: one that is too large for the grid is refused, whatever the block's."""
    block = mf.Sequential((TANH, mf.LayerNorm(), mf.Nonlinearity("relu"), DENSE))
    near, far = (mf.derive(architecture=mf.Network(block, mf.Dense(sigma_w=s, sigma_b=0))) for s in (2, "1e20"))
    place = {"sigma_w": 1.3, "sigma_b": 0.2}
    own = mf.derive(architecture=block).phase(**place).chi_J.value
    assert float(near.phase(**place).chi_J.value) == pytest.approx(float(own), rel=1e-12)
    with pytest.raises(MeanFieldError, match="K is followed up to"):
        far.phase(**place)


class Saturating(FloatMap):
    """K′ = σ_w² K/(1 + K) + σ_b², χ_J = χ_K: a kind that this file adds, known by its values."""

    points = np.logspace(-6, 6, 49)
    error = 1e-12

    def at(self, K, numbers):
        w2, b2 = numbers["sigma_w"] ** 2, numbers["sigma_b"] ** 2
        made, slope = w2 * K / (1 + K), w2 / (1 + K) ** 2
        return Mapped(made + b2, slope, slope, made * self.error, slope * self.error)

    def keeps_zero(self, numbers):
        return numbers["sigma_b"] == 0


def found_of(sigma_w, sigma_b):
    theory = mf.derive("tanh")  # which lends its names
    values = {"sigma_w": sp.sympify(sigma_w), "sigma_b": sp.sympify(sigma_b)}
    one = Saturating(theory.limiting, theory.block)
    return one.fixed_points(values, {}), one.phase(values, sp.S.One, {})


@pytest.mark.parametrize(("w", "b"), [("1/2", "1/3"), ("3", "1/3"), ("1", "sqrt(1/2)")])  # the last: K* = 1, a place
def test_a_map_of_ones_own_that_knows_values_alone_is_measured(w, b):
    found, phase = found_of(w, b)
    (point,) = found
    w2, b2 = (float(sp.sympify(s)) ** 2 for s in (w, b))
    true = (w2 + b2 - 1 + np.sqrt((w2 + b2 - 1) ** 2 + 4 * b2)) / 2
    assert abs(float(point.K.value) - true) <= point.K.error + 4e-16 * true < 1e-10 * true
    assert abs(float(point.chi_J.value) - w2 / (1 + true) ** 2) <= point.chi_J.error + 1e-15
    assert abs(float(point.chi_J.value) - w2 / (1 + true * 1.0001) ** 2) > point.chi_J.error
    assert found.status is point.K.status is phase.status is Status.MEASURED
    assert point.stability == "stable" and point.basin == (0, sp.oo) and phase.name == "ordered"
    assert phase.fixed_point == point and not phase.bistable


def test_zero_and_what_leaves_it():
    found, phase = found_of(2, 0)
    assert [p.stability for p in found] == ["unstable", "stable"] and found[0].K.value == 0
    assert float(found[1].K.value) == pytest.approx(3, rel=1e-10) and phase.fixed_point == found[1]
    assert float(found[0].chi_K.value) == pytest.approx(4, rel=1e-5)


def test_fixed_points_behind_a_nested_average():
    """V* is known there, and what phases say of it is true of fixed points."""
    theory, _, _ = KINDS["batch of activations"]
    place = {"sigma_w": 1.4, "sigma_b": 0.3}
    found, phase = theory.fixed_points(**place), theory.phase(**place)
    assert found.status is Status.MEASURED and found[0].chi_J == phase.chi_J and found[0].K == phase.fixed_point.K
    assert found[0].basin == (0, sp.oo) and float(found[0].K.value) == pytest.approx(1.4**2, rel=1e-14)
    assert found[0].chi_K.value == 0 and found[0].chi_K.status is Status.EXACT  # a norm forgets K
    assert "K stands for K - K_ab" in found.message
    (at_rest,) = theory.fixed_points(sigma_w=0, sigma_b=0.3)
    assert at_rest.K.value == 0 and at_rest.K.status is Status.EXACT


def test_fixed_points_behind_a_norm_on_activations():
    """By values along a grid; a diagram, which goes another way, and layers end at the stable one. Where a norm ends
    the block K′ is one number, and exact."""
    theory, place = KINDS["norm on activations"][0], {"sigma_w": 1.3, "sigma_b": 0.2}
    found, phase = theory.fixed_points(**place), theory.phase(**place)
    (point,) = found
    assert found.status is Status.MEASURED and point.stability == "stable" and point.basin == (0, sp.oo)
    assert phase.fixed_point == point and phase.status is Status.MEASURED and phase.name == "chaotic"
    diagram = theory.phase_diagram(sigma_w=[1.3], sigma_b=[0.2], line=False)
    for own, other in ((point.K, diagram.K[0, 0]), (point.chi_J, diagram.chi_J[0, 0])):
        assert abs(float(own.value) - other) <= own.error < 1e-9
        assert abs(float(own.value) * 1.000001 - other) > own.error
    ended = chain(TANH, mf.LayerNorm(), mf.Nonlinearity("relu"), mf.LayerNorm(), DENSE).fixed_points(**place)
    assert ended.status is Status.EXACT and ended[0].K.value == sp.Rational("1.73")
    run = theory.propagate(**place, depth=60, quantities=("K",))
    assert float(point.K.value) == pytest.approx(run.K[-1], rel=1e-10)
