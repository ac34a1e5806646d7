"""Words of powers: what is caught and what passes, gauges, records of one's own, what is refused, and what is saved."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

import meanfield as mf
from meanfield.networks.attention import Attention
from meanfield.networks.records import (
    AffineNorm,
    BatchNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Pool,
    Projection,
    Residual,
    RMSNorm,
    Scale,
    Schedule,
    Sequential,
    mlp,
)
from meanfield.parametrizations import Monomial, parametrization
from meanfield.parametrizations.exponents.power_rules import Rule
from meanfield.parametrizations.exponents.record_positions import POWER_RULES, power_rule
from tests.base.test_latex import assert_no_ascii, assert_readable
from tests.parametrizations.networks_of_powers import fitted

PRELN = Residual(Sequential((LayerNorm(), Dense(expand=4), Nonlinearity("gelu"), Dense())))
GATED = Residual(Sequential((RMSNorm(), Gate("silu", Dense(expand=4), Dense(expand=4)), Dense())))
SKIP = mlp("tanh", mu=1)


def words(powers) -> dict[str, str]:
    return {row.matrix: row.verdict for row in powers.rows}


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "muon"])
@pytest.mark.parametrize(
    ("name", "chain", "skip", "two"),
    [
        ("sp", "growing", "growing", "growing"),
        ("ntk", "lazy", "lazy", "lazy"),
        ("mean_field", "maximal", "maximal", "maximal"),
        ("mup", "maximal", "maximal", "maximal"),
        ("spectral", "maximal", "maximal", "maximal"),
        ("depth_mup", "maximal", "maximal", "lazy"),
        ("completep", "maximal", "maximal", "maximal"),
    ],
)
def test_the_word_for_what_is_published(name, optimizer, chain, skip, two):
    scheme = parametrization(name, optimizer=optimizer)
    found = [scheme.powers(one).verdict for one in ("tanh", SKIP, PRELN, GATED)]
    assert found == [chain, skip, two, two]
    assert (scheme.powers(PRELN).without_depth == "") == (name in ("depth_mup", "completep"))


def test_depth_mup_says_which_layers_are_lazy():
    found = parametrization("depth_mup").powers(PRELN)
    assert words(found) == {"input": "maximal", "up": "lazy", "down": "maximal", "readout": "maximal"}
    assert str(found.row("up").own) == "1/sqrt(L)" and str(found.row("up").effect) == "1"
    gated = words(parametrization("depth_mup").powers(GATED))
    assert gated == {"input": "maximal", "up": "lazy", "gate": "lazy", "down": "maximal", "readout": "maximal"}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_readout_that_is_too_large_is_caught(optimizer):
    for block in ("tanh", PRELN):
        found = parametrization("mup", optimizer=optimizer, readout={"multiplier": "1/sqrt(n)"}).powers(block)
        assert found.verdict == found.row("readout").verdict == "growing"
        assert found.delta_f_readout.of_width == (1 if optimizer == "sgd" else Fraction(1, 2))
        assert parametrization("mup", optimizer=optimizer).powers(block).delta_f_readout.of_width == 0


def test_a_dead_layer_is_caught_by_its_own_change_alone():
    found = parametrization("mup", hidden={"rate": "n**(-3/2)"}).powers("tanh")
    assert words(found) == {"input": "maximal", "dense": "vanishing", "readout": "maximal"}
    assert (found.row("dense").own.of_width, found.row("dense").total.of_width) == (Fraction(-1, 2), 0)
    assert found.verdict == "vanishing"


def test_a_branch_without_its_factor_and_a_rate_without_its_own_are_caught():
    missing = parametrization("completep", branch="1").powers(PRELN)
    assert "multiply branches with L^(-1/2)" in missing.without_depth and missing.row("up").own.of_depth is None
    assert "No powers of L" in str(missing) and "No powers of L" not in str(parametrization("completep").powers(PRELN))
    late = parametrization("depth_mup", hidden={"rate": "1/n"}).powers(SKIP)
    assert late.verdict == late.row("dense").verdict == "growing"
    assert late.row("dense").total.of_depth == late.delta_f_features.of_depth == Fraction(1, 2)
    assert late.row("input").verdict == "maximal"


def test_the_share_of_eps_and_of_decay():
    mup = parametrization("mup").powers(PRELN)
    assert [str(row.eps) for row in mup.rows] == ["n", "n", "n", "n"]
    assert str(mup.eps) == "n" and str(mup.decay) == "1/n"
    complete = parametrization("completep").powers(PRELN)
    assert [str(row.eps) for row in complete.rows] == ["1/L", "1", "1", "1/L"]
    assert str(complete.eps) == str(complete.decay) == "1"
    assert parametrization("mup", optimizer="sgd").powers(PRELN).eps is None
    muon = parametrization("mup", optimizer="muon").powers(PRELN)
    assert [row.eps is None for row in muon.rows] == [False, True, True, False]


def gauges(scheme, rng: np.random.Generator):
    """The scheme in a gauge that is drawn: every kind of matrix, by powers of n and of L."""
    for kind in ("input", "hidden", "readout", "bias"):
        of_width, of_depth = (Fraction(int(k), 4) for k in rng.integers(-8, 9, 2))
        scheme = scheme.gauge(kind, Monomial(of_width=of_width, of_depth=of_depth))
    return replace(scheme, name="one")


@pytest.mark.fast_with("mup-sgd")
@pytest.mark.parametrize(
    ("name", "optimizer"), [("mup", "sgd"), ("completep", "adam"), ("depth_mup", "muon"), ("ntk", "adam")]
)
def test_a_thousand_gauges_have_one_table(name, optimizer):
    scheme, rng = replace(parametrization(name, optimizer=optimizer), name="one"), np.random.default_rng(37)
    theory = mf.derive(architecture=PRELN)
    table = scheme.powers(theory).data()
    for _ in range(250):
        assert gauges(scheme, rng).powers(theory).data() == table
    broken = gauges(scheme, rng)
    moved = replace(broken, hidden=replace(broken.hidden, multiplier=broken.hidden.multiplier * Monomial.read("n")))
    with pytest.raises(mf.MeanFieldError, match="the forward pass grows"):
        moved.powers(theory)
    moved = replace(broken, readout=replace(broken.readout, rate=broken.readout.rate * Monomial.read("1/n")))
    assert moved.powers(theory).data() != table


def test_one_power_in_front_of_a_schedule_is_that_of_the_branch():
    """σ_w and factors that fall with L in the record, in the place of the parametrization's branch factor."""
    plain = parametrization("depth_mup").powers(SKIP)
    open_ = parametrization("depth_mup", branch="1")
    scaled = Residual(Sequential((Nonlinearity("tanh"), Dense(), Scale(Schedule(1, 0, total=1)))))
    assert open_.powers(scaled).data()["rows"] == plain.data()["rows"]
    assert open_.powers(SKIP).without_depth
    falls = Dense(sigma_w=Schedule("sigma_w", 0, total=1), sigma_b=0)
    found = open_.powers(Residual(Sequential((LayerNorm(), Nonlinearity("tanh"), falls, AffineNorm()))))
    assert found.without_depth == ""  # the stored W falls, its step does not: what Adam changes adds up to L^(1/2)
    assert found.delta_f_features.of_depth == Fraction(1, 2) and found.row("dense").verdict == "growing"
    by_block = Residual(Sequential((Nonlinearity("tanh"), Dense(sigma_w=Schedule(1, 1)))))
    assert "no fixed power of L" in open_.powers(by_block).without_depth


def test_small_signals_go_through_what_is_linear_near_0():
    """An input layer of size n^(-1/2) and no biases that keep z of order 1: tanh hands it on, the sigmoid does not."""
    scheme = parametrization("mup", eps="1", input={"variance": "1/n"}, bias={"variance": "n**(-4)"})
    found = scheme.powers("tanh")
    assert [row.K.of_width for row in found.rows] == [-1, -1, -2]
    fits = fitted(scheme, "chain", ((64, 2), (512, 2)), 6)
    for row in found.rows:
        for column in ("K", "delta", "own", "total"):
            assert abs(float(getattr(row, column).of_width) - fits[row.matrix, column]) < 0.2
    assert scheme.powers("relu").row("dense").K.of_width == -1
    assert scheme.powers("sigmoid", norm="pre").row("dense").K.of_width == 0
    with pytest.raises(mf.MeanFieldError, match="what enters sigmoid has the exponent -1, where it is not linear"):
        scheme.powers("sigmoid")
    with pytest.raises(mf.MeanFieldError, match=r"what enters z.*2 has the exponent -1"):
        scheme.powers("z**2")


def test_norms_pools_and_scales():
    mup = parametrization("mup", optimizer="sgd")
    for block in (
        mlp("relu", norm="pre"), mlp("relu", norm="act"), mlp("relu", mu=1, norm="pre"),
        Sequential((BatchNorm(), Nonlinearity("relu"), Dense())),
        Sequential((LayerNorm(affine=False), AffineNorm(), Nonlinearity("relu"), Dense())),
        Sequential((Nonlinearity("relu"), Pool(2, "max"), Dense(expand=2))),
        Sequential((Nonlinearity("relu"), Scale("1/2"), Dense())), Sequential((Gate("silu"), Dense())),
    ):  # fmt: skip
        assert mup.powers(block).verdict == "maximal"


def test_norms_on_the_stream_add_up_over_blocks():
    """L gains outside skips act on one signal: at Adam's rate L^(-1/2) they add up to L^(1/2)."""
    post = Sequential((Residual(Sequential((Nonlinearity("relu"), Dense()))), LayerNorm()))
    assert parametrization("depth_mup").powers(post).delta_f_features.of_depth == Fraction(1, 2)
    fixed = Sequential((Residual(Sequential((Nonlinearity("relu"), Dense()))), LayerNorm(affine=False)))
    assert parametrization("depth_mup").powers(fixed).verdict == "maximal"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (Sequential((Nonlinearity("tanh"), Dense("orthogonal"))), "orthogonal weights: the step is known for"),
        (Sequential((Nonlinearity("tanh"), Dense("mixed"))), "mixed weights: the step is known for independent"),
        (Residual(Sequential((LayerNorm(), Attention(4), Dense()))), "Attention: no rule is known"),
        (Residual(Sequential((Nonlinearity("tanh"), Dense())), 1, Projection()), "a Projection: between layers"),
        (Sequential((Dense(axis="tokens"), Nonlinearity("tanh"), Dense())), "a Dense over tokens: its matrix"),
        (Sequential((Nonlinearity("step"), Dense())), "step, which jumps: it has no gradient"),
        (Sequential((Nonlinearity("tanh"), Pool(2, "z1*z2"), Dense())), r"a Pool of z1\*z2: rules are known of"),
        (Sequential((Nonlinearity("tanh"), Dense(sigma_w=0))), "the sigma_w of a Dense is 0"),
        (Sequential((Nonlinearity("tanh"), Scale(0), Dense())), "the factor of a Scale is 0"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(block, said):
    with pytest.raises(mf.MeanFieldError, match=said):
        parametrization("mup").powers(block)


def test_what_has_no_powers_is_refused():
    with pytest.raises(mf.MeanFieldError, match="what hidden matrices make has the exponent 1"):
        parametrization("mup", hidden={"variance": "1"}).powers("tanh")
    with pytest.raises(mf.MeanFieldError, match="what input matrices make has the exponent 1"):
        parametrization("mup", input={"variance": "n"}).powers("tanh")
    falls = {"hidden": {"multiplier": "1/sqrt(n)"}, "bias": {"variance": "n**-9"}}
    with pytest.raises(mf.MeanFieldError, match="in every block the forward pass is multiplied by a further power"):
        parametrization("mup", **falls).powers("tanh")
    with pytest.raises(mf.MeanFieldError, match="Unknown symbol of the network 'nu'"):
        parametrization("mup").powers(SKIP, nu=1)
    with pytest.raises(mf.MeanFieldError, match="Unknown matrix 'dens': did you mean 'dense'"):
        parametrization("mup").powers(SKIP).row("dens")
    f = parametrization("mup", readout={"multiplier": "1"}).powers("tanh")
    assert f.f.of_width == Fraction(1, 2) and f.verdict == "growing"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("tanh", "goes through L activations, outside any skip"),
        (mlp("tanh", mu="1/2"), "not of strength 1"),
        (mlp("tanh", mu="mu"), "not of strength 1"),
        (Residual(Sequential((Dense(), Nonlinearity("relu")))), "does not end in a Dense"),
        (Residual(BRANCH := Sequential((Nonlinearity("relu"), Dense())), 1, BRANCH), "a shortcut that is not the"),
        (Sequential((Residual(BRANCH), Scale("1/2"))), "goes through L factors that are not 1"),
    ],
)
def test_networks_without_powers_of_L_say_why(block: Block, said):
    found = parametrization("completep").powers(block)
    assert said in found.without_depth and said.split()[0] in str(found)
    assert all(row.own.of_depth is None for row in found.rows) and found.f.of_depth is None
    assert parametrization("completep").powers(mlp("tanh", mu="mu"), mu=1).without_depth == ""


@dataclass(frozen=True, repr=False)
class Halved(Block):
    """y → y/2 in the first half of the neurons."""


def test_a_rule_for_a_record_of_ones_own():
    block = Sequential((Halved(), Nonlinearity("tanh"), Dense()))
    with pytest.raises(mf.MeanFieldError, match="a network with Halved, of which no rule is known; add one with"):
        parametrization("mup").powers(block)
    try:
        power_rule(Halved)(lambda record, at: Rule())
        assert parametrization("mup").powers(block).data() == parametrization("mup").powers("tanh").data()
    finally:
        del POWER_RULES[Halved]


def test_powers_are_a_result(tmp_path):
    found = parametrization("u_mup").powers(PRELN)
    data = json.loads(found.to_json())["data"]
    assert data["rows"][0]["own"] == "1/sqrt(n)" and data["verdict"] == "vanishing"
    frame = found.to_frame()
    assert list(frame["matrix"]) == ["input", "up", "down", "readout"]
    assert list(frame["own_n"]) == [-0.5, 0.0, 0.0, 0.0] and list(frame["own_L"]) == [0.0, -0.5, -0.5, 0.0]
    assert r"\begin{tabular}" in found.latex() and "$n^{-1} L^{-1/2}$" in found.latex()
    for suffix in (".json", ".csv", ".npz", ".tex", ".html"):
        assert found.save(tmp_path / f"powers{suffix}").stat().st_size > 100
    for one in (found, parametrization("mup", optimizer="sgd").powers(SKIP), parametrization("ntk").powers(GATED)):
        assert max(map(len, str(one).splitlines())) <= 79
        assert_readable(one.latex())
        assert_no_ascii(one.latex())


def assert_same_factors(scheme) -> None:
    """What the text of a parametrization says of branch, eps and decay stands in its TeX, too."""
    said = re.findall(r"\b(branch|eps|decay) ([^,\n]+)", str(scheme).splitlines()[-1])
    tex = scheme.latex()
    for name, factor in said:
        assert f"{name} ${Monomial.read(factor, name).latex()}$" in tex, f"{name} {factor} is left out"
    assert_readable(tex)
    assert len(said) == sum(name in tex for name in ("branch", "eps", "decay"))


def test_the_tex_of_a_parametrization_says_what_its_text_says():
    for name in ("sp", "mup", "completep", "depth_mup", "u_mup"):
        assert_same_factors(parametrization(name))
    own = parametrization("mup", branch="1/sqrt(L)", eps="1/n", decay="3*n", base_width=64)
    assert_same_factors(own)
    planted = replace(own, decay="3")
    object.__setattr__(planted, "latex", lambda: own.latex())
    with pytest.raises(AssertionError, match="decay 3 is left out"):
        assert_same_factors(planted)


def test_powers_take_less_than_50_ms():
    scheme = parametrization("completep")
    scheme.powers(PRELN)
    began = time.process_time()
    for _ in range(10):
        scheme.powers(GATED)
    assert (time.process_time() - began) / 10 < 0.05


def test_rows_of_a_network_without_powers_of_depth():
    """None stands for a power of L that the network does not have, and for a size that a matrix does not have."""
    row = parametrization("mup").powers("tanh").rows[0].cells()
    assert row["delta_n"] == -1.0 and row["delta_L"] is None and row["inherited_n"] is None
    deep = parametrization("depth_mup", optimizer="adam").powers(mf.derive("tanh", residual=True))
    assert deep.rows[1].cells()["K_L"] is not None


def test_the_first_block_meets_a_stream_of_its_own_size():
    """Embeddings of variance 1/n before a norm: their gradient is n^(-1/2), and SGD moves them by √n (own networks of
    widths 256 to 4096: .71, 1.44, 2.89); the first norm was taken at the size of later streams ("maximal")."""
    block = mf.Residual(mf.Sequential(mf.LayerNorm(), mf.Nonlinearity("relu"), mf.Dense()))
    for optimizer, delta, own in (("sgd", -0.5, 0.5), ("adam", -0.5, 0.0)):
        scheme = parametrization("mup", optimizer=optimizer, input={"variance": "1/n"})
        row = scheme.powers(block, sigma_b=0).rows[0]
        cells = row.cells()
        assert (cells["delta_n"], cells["own_n"], row.verdict) == (delta, own, "growing"), optimizer
    plain = parametrization("mup", optimizer="sgd").powers(block, sigma_b=0).rows[0]
    assert (plain.cells()["delta_n"], plain.verdict) == (-1.0, "maximal")
