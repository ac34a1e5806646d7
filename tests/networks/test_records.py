"""Every record in the theory: a Dense with its own σ's, schedules, shortcuts, Scale, deep blocks; and one of a user's.

The judge is an ensemble of finite networks, which reads the same records by a route of its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, z
from meanfield.empirical import Derivative, Operation, operation, run_ensemble
from meanfield.networks.records import (
    Block,
    Dense,
    LayerNorm,
    Nonlinearity,
    Param,
    Residual,
    Scale,
    Schedule,
    Sequential,
    exact,
    mlp,
)
from meanfield.symbolic.fixed_points.certified_roots import enclose
from meanfield.symbolic.recursions.coordinate_walk import RULES, rule

PHI = Nonlinearity("tanh")
FIXED = LayerNorm(affine=False)
WIDTH, SIGMAS = 256, {"sigma_w": 1.3, "sigma_b": 0.3}


def assert_networks_agree(theory: mf.Theory, quantities, block: Block | None = None, **more) -> None:
    """Every quantity at every layer within 4 standard errors and the 1/n of the width."""
    settings = {"depth": 4, **SIGMAS} | more
    probes = settings.pop("probes", None)
    start, inputs = settings.pop("start", None), settings.pop("inputs", None)
    width, networks, l0 = settings.pop("width", WIDTH), settings.pop("networks", 120), settings.pop("l0", 1)
    parameters = {} if l0 or "J0" not in quantities else {"input_dimension": settings["input_dimension"]}
    taken = {k: v for k, v in settings.items() if k != "input_dimension"}
    run = theory.propagate(quantities=tuple(quantities), start=start, **taken, **parameters)
    taken = {k: v for k, v in settings.items() if k != "correlation" or inputs is None}
    measured = tuple("J" if q == "J0" else q for q in quantities)
    found = run_ensemble(
        theory.block if block is None else block,
        width=width,
        networks=networks,
        quantities=measured,
        probes=probes,
        inputs=inputs,
        l0=l0,
        seed=3,
        **taken,
    )
    for q, name in zip(quantities, measured):
        estimate, expected = found.estimate(name), getattr(run, q)
        mean, error = (np.asarray(x)[-len(expected) :] for x in (estimate.mean, estimate.standard_error))
        allowed = 4 * error + 3 / width * np.abs(expected)  # what finite width adds is of order 1/n
        assert (np.abs(mean - expected) <= allowed).all(), f"networks have {q} = {mean}, not {expected} ± {allowed}"


def assert_seen(wrong: mf.Theory, quantities, block: Block, **more) -> None:
    """The networks of `block` refute a theory that is wrong."""
    with pytest.raises(AssertionError, match="networks have"):
        assert_networks_agree(wrong, quantities, block, **more)


# ------------------------------------------------------------------------------------------ several Dense, own σ's

TWO = Sequential((PHI, Dense(sigma_w="1.5", sigma_b="0.2"), Nonlinearity("gelu"), Dense(sigma_w="0.8", expand=1)))
CASES = {
    "two Dense": TWO,
    "two Dense, skip": Residual(TWO, "1/2"),
    "wide inside": Sequential((Dense(expand=3, sigma_b=0), PHI, Dense())),
    "Scale": Residual(Sequential((PHI, Scale("0.7"), Dense(), Scale("1.2"))), "1/2"),
    "Scale inside φ": Sequential((Scale("0.5"), PHI, FIXED, Scale("0.3"), PHI, Dense())),
    "shortcut": Residual(Sequential((PHI, Dense())), "1/2", Dense(sigma_w="0.9", sigma_b="0.1")),
    "shortcut of two": Residual(Sequential((PHI, Dense())), 1, Sequential((Nonlinearity("relu"), Dense()))),
    "scaled shortcut": Residual(Sequential((PHI, Dense())), 1, Scale("0.4")),
    "Dense in the shortcut alone": Residual(Scale("0.3"), 1, Sequential((PHI, Dense()))),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_records_against_networks(case):
    assert_networks_agree(mf.derive(architecture=CASES[case]), ("K", "J", "Theta"), probes=8)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["two Dense", "two Dense, skip"])
def test_j0_through_two_dense(case):
    """Through inner layers, tangents change K as well: S enters at each of them."""
    theory = mf.derive(architecture=CASES[case])
    assert_networks_agree(theory, ("K", "J0"), input_dimension=3, l0=0, width=400, probes=8)
    run = theory.propagate(**SIGMAS, depth=4, quantities=("J0",), input_dimension=3.0)
    far = theory.propagate(**SIGMAS, depth=4, quantities=("J0",), input_dimension=1e12)
    assert abs(run.J0[-1] / far.J0[-1] - 1) > 0.02  # without S


@pytest.mark.slow
def test_planted_errors_in_records_are_seen(monkeypatch):
    shifted = Sequential((PHI, Dense(sigma_w="1.54", sigma_b="0.2"), Nonlinearity("gelu"), Dense(sigma_w="0.8")))
    assert_seen(mf.derive(architecture=shifted), ("K", "J"), TWO)
    swapped = Sequential((PHI, Dense(sigma_w="0.8", sigma_b="0.2"), Nonlinearity("gelu"), Dense(sigma_w="1.5")))
    assert_seen(mf.derive(architecture=swapped), ("K",), TWO)
    without = replace(CASES["shortcut"], shortcut=None)
    assert_seen(mf.derive(architecture=without), ("K", "J"), CASES["shortcut"])
    weaker = replace(CASES["shortcut"], mu=0.45)
    assert_seen(mf.derive(architecture=weaker), ("K", "J"), CASES["shortcut"])


# ----------------------------------------------------------------------------------------------------- schedules

SCHEDULED = Sequential((PHI, Dense(sigma_w=Schedule("1.4", "1/2"), sigma_b=Schedule("0.3", 1))))
PROJECTED = Residual(Sequential((PHI, Dense(sigma_w=Schedule(1, 1)))), "1/2", Dense(sigma_w=Schedule("1.2", "0.4")))


@pytest.mark.slow
@pytest.mark.parametrize("block", [SCHEDULED, PROJECTED, Residual(TWO, "0.3", Dense())], ids=["plain", "both", "two"])
def test_schedules_against_networks(block):
    assert_networks_agree(mf.derive(architecture=block), ("K", "J"), depth=6)


@pytest.mark.slow
def test_block_k_makes_layer_k_plus_1():
    theory = mf.derive(architecture=SCHEDULED)
    exact = theory.recursion("K").iterate({"sigma_w": 1.3, "sigma_b": 0.3, "Q0": 1}, 6)
    run = theory.propagate(**SIGMAS, depth=6)
    np.testing.assert_allclose(run.K, [float(x["K"]) for x in exact], rtol=1e-13)
    k = run.l[1:] - 1.0
    layered = mf.derive("tanh").propagate(
        sigma_w=np.concatenate([[1.3], 1.4 * k**-0.25]),
        sigma_b=np.concatenate([[0.3], 0.3 * k**-0.5]),
        depth=6,
        layerwise=True,
    )
    np.testing.assert_allclose(run.K, layered.K, rtol=1e-14)
    np.testing.assert_allclose(run.J, layered.J, rtol=1e-14)
    late = Sequential((PHI, Dense(sigma_w=Schedule("1.4", "0.6"), sigma_b=Schedule("0.3", 1))))
    assert_seen(mf.derive(architecture=late), ("K", "J"), SCHEDULED, depth=6)


def test_symbolic_schedules():
    block = Sequential((PHI, Dense(sigma_w=Schedule(Param("s"), Param("beta")))))
    theory = mf.derive(architecture=block)
    run = theory.propagate(**SIGMAS, depth=6, s=1.4, beta=[0.5, 2.0])
    for i, beta in enumerate(("1/2", 2)):
        fixed = mf.derive(architecture=Sequential((PHI, Dense(sigma_w=Schedule("1.4", beta)))))
        np.testing.assert_allclose(run.K[i], fixed.propagate(**SIGMAS, depth=6).K, rtol=1e-14)
    with pytest.raises(mf.MeanFieldError, match="s must be ≥ 0"):
        theory.propagate(**SIGMAS, depth=6, s=-1.0, beta=1)


# ---------------------------------------------------------------------------------------------- pairs of inputs


def two_inputs_of(norms=(1.0, 2.5), correlation=0.3, dimension=200):
    """(inputs, start of the theory, settings): two inputs of given squared norms per neuron."""
    x = np.zeros((2, dimension))
    x[0, 0] = np.sqrt(dimension * norms[0])
    x[1, :2] = np.sqrt(dimension * norms[1]) * np.array([correlation, np.sqrt(1 - correlation**2)])
    w, b = SIGMAS["sigma_w"] ** 2, SIGMAS["sigma_b"] ** 2
    cross = w * correlation * np.sqrt(norms[0] * norms[1]) + b
    start = {"K_aa": w * norms[0] + b, "K_bb": w * norms[1] + b, "K_ab": cross, "Theta_ab": cross}
    return {"inputs": x, "start": start, "correlation": correlation}


NORMS = {"plain": {}, "skip": {"mu": "1/2"}, "pre": {"norm": "pre", "mu": "1/2"}, "act": {"norm": "act", "mu": "1/2"}}


FAST_PAIRS = ("relu plain", "relu skip", "relu pre", "relu act", "gelu act", "tanh plain")
PAIRS = [
    pytest.param(phi, norm, marks=[pytest.mark.slow] * (f"{phi} {norm}" not in FAST_PAIRS))
    for phi in ("tanh", "relu", "gelu")
    for norm in NORMS
]


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "norm"), PAIRS)
def test_tangents_of_two_inputs(phi, norm):
    """J_ab and Theta_ab at unequal norms."""
    block = mlp(phi, **NORMS[norm])
    depth = 3 if phi == "tanh" else 4  # pairs of tanh are integrated at every call
    pair = two_inputs_of()
    assert_networks_agree(
        mf.derive(architecture=block), ("K_ab", "J_ab", "Theta_ab"), depth=depth, probes=8, width=400, **pair
    )


@pytest.mark.slow
def test_planted_errors_in_tangents_of_two_inputs(monkeypatch):
    pair, names = two_inputs_of(), ("J_ab", "Theta_ab")
    block = mlp("relu", mu="1/2")
    right = mf.derive(architecture=block)
    start = pair["start"] | {"Theta_ab": 1.1 * pair["start"]["Theta_ab"]}
    assert_seen(right, names, block, probes=8, width=400, **(pair | {"start": start}))
    assert_seen(mf.derive("relu", mu="0.55"), names, block, probes=8, width=400, **pair)
    assert_seen(mf.derive("relu", mu="1/2", norm="pre"), names, block, probes=8, width=400, **pair)
    same = {k: pair["start"]["K_aa"] for k in ("K_aa", "K_bb")}  # equal norms for unequal ones
    assert_seen(right, names, block, probes=8, width=400, **(pair | {"start": pair["start"] | same}))


@pytest.mark.slow
def test_pairs_of_equal_inputs_are_one_input():
    """c = 1: J_ab = J and Theta_ab = Theta."""
    for keywords in NORMS.values():
        theory = mf.derive("relu", **keywords)
        one = theory.propagate(**SIGMAS, depth=5, quantities=("K", "J", "Theta"))
        two = theory.propagate(**SIGMAS, depth=5, quantities=("J_ab", "Theta_ab"), correlation=1.0)
        np.testing.assert_allclose(two.K_ab, one.K, rtol=1e-12)
        np.testing.assert_allclose(two.J_ab, one.J, rtol=1e-7)  # asin near 1
        np.testing.assert_allclose(two.Theta_ab, one.Theta, rtol=1e-7)


def test_jumps_have_tangents_between_two_inputs():
    """sign: ⟨φ′φ′⟩ is ∂⟨φφ⟩/∂K_ab, finite where the inputs differ."""
    theory = mf.derive("sign")
    slope = theory.recursion("J_ab").doit()["J_ab"] / sp.Symbol("J_ab", real=True)
    K_aa, K_bb, K_ab = (sp.Symbol(n, positive=True) for n in ("K_aa", "K_bb", "K_ab"))
    at = {s: v for s in slope.free_symbols for n, v in (("K_aa", 2), ("K_bb", 3), ("K_ab", 1)) if s.name == n}
    expected = 2 / (sp.pi * sp.sqrt(K_aa * K_bb - K_ab**2)).subs({K_aa: 2, K_bb: 3, K_ab: 1})
    assert sp.simplify(slope.subs(at) / sp.Symbol("sigma_w", nonnegative=True) ** 2 - expected) == 0


@pytest.mark.parametrize("wrong", [{"quantities": ("J_ab",)}, {"quantities": ("Theta_ab",), "batch": 3}])
def test_tangents_of_two_inputs_need_two(wrong):
    with pytest.raises(mf.MeanFieldError, match="are of two inputs"):
        run_ensemble(mlp("tanh"), **SIGMAS, width=8, depth=2, networks=2, **wrong)


# ------------------------------------------------------------------------------------------------ J0, deep blocks


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["tanh", "gelu", "relu"])
@pytest.mark.parametrize("last", ["φ", pytest.param("LN", marks=pytest.mark.slow)])
def test_j0_through_norms_and_functions(phi, last):
    """φ(LN(φ(LN(z)))), and LN(φ(LN(φ(z)))), where scale and mean move with K inside φ as well."""
    act = Nonlinearity(phi)
    parts = (FIXED, act, FIXED, act) if last == "φ" else (act, FIXED, act, FIXED)
    theory = mf.derive(architecture=Sequential((*parts, Dense())))
    assert_networks_agree(
        theory, ("K", "J0"), sigma_w=1.4, sigma_b=0.4, input_dimension=3, l0=0, width=500, networks=160, probes=8
    )
    if (phi, last) == ("tanh", "φ"):
        run = theory.propagate(sigma_w=1.4, sigma_b=0.4, depth=4, quantities=("J0",), input_dimension=3.0)
        np.testing.assert_allclose(run.J0[1:], [0.88508, 1.12008, 1.41748], atol=6e-6)


@pytest.mark.slow
def test_deep_blocks_stay_small():
    """Twelve blocks in series, twelve skips within skips: at most 60 operations per Dense, and seconds."""
    series = Sequential(tuple(Residual(Sequential((Dense(), PHI, Dense()))) for _ in range(12)))
    nested: Block = Dense()
    for _ in range(12):
        nested = Residual(Sequential((PHI, Dense(), nested)))
    for block, dense in ((series, 24), (nested, 13)):
        begin = time.process_time()
        theory = mf.derive(architecture=block)
        step = theory.recursion("K", "J").block
        assert sum(sp.count_ops(e) for e in step.expressions) <= 60 * dense
        assert_networks_agree(theory, ("K", "J"), sigma_w=0.4, depth=2, width=64, networks=60)
        assert time.process_time() - begin < 60


# --------------------------------------------------------------------------------------------- a record of one's own


@dataclass(frozen=True, repr=False)
class RMSNorm(Block):
    """y → y/√mean(y²) over the neurons."""


@rule(RMSNorm)
def _rms_norm(block, x, walk):
    x = walk.named(x)
    return x.rescaled(tuple(1 / sp.sqrt(x.moment(p, p)) for p in range(x.positions)))


@dataclass(frozen=True, eq=False)
class RootSlope(Derivative):
    """Of ŷ = y/s: dŷ = (dy − ŷ mean(ŷ dy))/s, a symmetric map."""

    unit: np.ndarray
    size: np.ndarray

    @property
    def shape(self):
        return self.unit.shape

    def push(self, rows, out):
        p = rows.shape[1]
        along = (rows * self.unit[:p]).mean(axis=2, keepdims=True)
        out[...] = (rows - self.unit[:p] * along) / self.size[:p, None]

    pull = push


@operation(RMSNorm)
class DivideByRoot(Operation):
    def __init__(self, record):
        pass

    def apply(self, z, site):
        size = np.sqrt((z * z).mean(axis=1))
        unit = z / size[:, None]
        return unit, RootSlope(unit, size)


@pytest.mark.slow
@pytest.mark.parametrize("block", [(RMSNorm(), PHI, Dense()), (Nonlinearity("relu"), RMSNorm(), Dense())], ids=str)
def test_a_record_of_ones_own(block):
    """Through derive, propagate, measure and check, without a change of the library."""
    theory = mf.derive(architecture=Residual(Sequential(block), "1/2"))
    assert "RMSNorm" in str(theory)
    assert_networks_agree(theory, ("K", "J", "Theta"))
    found = mf.measure(theory, **SIGMAS, width=64, depth=3, networks=8, quantities=("K", "G_w"), sampler="explicit")
    assert np.isfinite(found.estimate("G_w").mean).all()
    assert mf.check(theory, **SIGMAS, width=128, depth=4, networks=100, sampler="explicit").passed
    normed = Residual(Sequential(tuple(FIXED if isinstance(b, RMSNorm) else b for b in block)), "1/2")
    if block[0] == RMSNorm():
        assert theory.one_input.only("K", "J") == mf.derive(architecture=normed).one_input.only("K", "J")
    else:  # φ has a mean, which only LayerNorm takes away
        assert_seen(mf.derive(architecture=normed), ("K", "J"), theory.block)


def test_a_wrong_rule_of_ones_own_is_seen(monkeypatch):
    block = Sequential((Nonlinearity("relu"), RMSNorm(), Dense()))
    right = RULES[RMSNorm]
    monkeypatch.setitem(RULES, RMSNorm, lambda b, x, walk: right(b, x, walk).rescaled((sp.Rational(97, 100),)))
    assert_seen(mf.derive(architecture=block), ("K",), block)


# ------------------------------------------------------------------- fixed points and phases behind an inner Dense

BEHIND = {
    "Dense first": (Sequential((Dense(), PHI, Dense())), mf.Status.CERTIFIED),
    "Dense first, skip": (Residual(Sequential((Dense(), PHI, Dense())), "1/2"), mf.Status.CERTIFIED),
    "two φ": (Sequential((PHI, Dense(), Nonlinearity("gelu"), Dense())), mf.Status.MEASURED),
    "two φ, skip": (Residual(Sequential((PHI, Dense(), PHI, Dense())), "1/2"), mf.Status.MEASURED),
    "norm first": (Residual(Sequential((FIXED, Dense(), PHI, Dense())), "1/2"), mf.Status.EXACT),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.slow] * (c == "two φ")) for c in BEHIND])
def test_fixed_points_behind_an_inner_dense(case):
    """Where K flows in 4000 layers is a fixed point that was found, χ_J there the growth of J, and the diagram's."""
    block, status = BEHIND[case]
    theory = mf.derive(architecture=block)
    for w, b in (("1.3", "0.2"), ("0.8", "0.5"), ("1.9", "0.1")):
        found = theory.fixed_points(sigma_w=w, sigma_b=b)
        assert found.status is status
        run = theory.propagate(sigma_w=float(w), sigma_b=float(b), depth=4000)
        (near,) = [p for p in found if abs(float(p.K.value) / run.K[-1] - 1) < 1e-12]
        assert near.stability == "stable"
        rate = run.log_J[-1] - run.log_J[-2]
        assert float(sp.log(near.chi_J.value)) == pytest.approx(rate, rel=1e-10)
        slope = sp.N(near.chi_K.value, 20)
        moved = theory.propagate(sigma_w=float(w), sigma_b=float(b), depth=2, start={"K": run.K[-1] * (1 + 1e-6)}).K
        assert float(slope) == pytest.approx((moved[1] - run.K[-1]) / (1e-6 * run.K[-1]), abs=1e-4)
        phase = theory.phase(sigma_w=w, sigma_b=b)
        diagram = theory.phase_diagram(sigma_w=[float(w)], sigma_b=[float(b)], line=False)
        assert float(diagram.K.ravel()[0]) == pytest.approx(run.K[-1], rel=1e-11)
        assert float(diagram.chi_J.ravel()[0]) == pytest.approx(float(phase.chi_J.value), rel=1e-11)


@pytest.mark.slow
def test_zeros_that_lie_below_the_inner_bias_are_not_points():
    """K' = (w²⟨φ²⟩_x + b²), x = w²K + b²: a zero of the gain in x below b² has K < 0."""
    theory = mf.derive(architecture=Sequential((Dense(), Nonlinearity("z**2"), Dense())))
    assert not theory.fixed_points(sigma_w=1, sigma_b=1)  # K = 3(K + 1)² + 1 has no root, K < 0 or K > 0
    found = theory.fixed_points(sigma_w="1/4", sigma_b="1/10")
    K = sp.Symbol("K", positive=True)
    exact = sp.solve(sp.Rational(3, 16) * (K / 16 + sp.Rational(1, 100)) ** 2 + sp.Rational(1, 100) - K, K)
    assert [float(p.K.value) for p in found] == pytest.approx(sorted(map(float, exact)), rel=1e-14)


def test_a_line_of_two_dense_says_what_it_lacks():
    with pytest.raises(mf.MeanFieldError, match="not linear in"):
        mf.derive(architecture=Sequential((PHI, Dense(), PHI, Dense()))).critical_line()


T2, IN = sp.tanh(z) ** 2, mf.average(sp.tanh(z) ** 2, K)
NESTED = {  # an average over a variance that is one itself, and where K goes
    "0, variance to 0": (mf.average(T2, 2 * IN), 0),
    "0, variance to a number": (mf.average(z**2 / (1 + z**2), 3 * IN + sp.Rational(1, 5)), 0),
    "oo, variance to oo": (mf.average(T2, 2 * K + 1), sp.oo),
    "oo, variance to a number": (mf.average(T2, 2 * IN), sp.oo),
    "oo, half powers": (mf.average(z**2 / (1 + z**2), mf.average(sp.Abs(z), K)), sp.oo),
    "oo, logarithms": (mf.average(sp.Abs(z) / (1 + z**2), 2 * K + 3), sp.oo),
}


def remainders(e: sp.Expr, law: mf.Law) -> tuple[float, float]:
    """(power by which the law misses balls of the average, power that it claims)."""
    places = [sp.Rational(1, 10**4), sp.Rational(1, 10**5)] if law.point == 0 else [sp.Integer(10) ** 5, 10**6]
    misses = []
    for k in places:
        k = sp.sympify(k)
        true = sp.Float(enclose(e, k, k, 40).mid().str(40, radius=False), 40)
        misses.append(abs(sp.N(law.expr.subs(K, k), 40) - true))
    slope = sp.log(misses[1] / misses[0]) / sp.log(sp.sympify(places[1]) / places[0])
    return float(slope), float(law.remainder)


@pytest.mark.fast_with("0, variance to 0", "oo, variance to oo", "oo, logarithms")
@pytest.mark.parametrize("case", NESTED)
def test_expansions_behind_an_inner_dense(case):
    e, end = NESTED[case]
    law = (mf.symbolic.at_zero if end == 0 else mf.symbolic.at_infinity)(e, 2)
    slope, claimed = remainders(e, law)
    assert slope > claimed - 0.1 if end == 0 else slope < claimed + 0.1, (slope, claimed)
    first, second, *rest = law.terms
    wrong = replace(law, terms=(first, replace(second, coefficient=second.coefficient * sp.Rational(101, 100)), *rest))
    slope, claimed = remainders(e, wrong)  # control: the second term off by 1 %
    assert not (slope > claimed - 0.1 if end == 0 else slope < claimed + 0.1)


@pytest.mark.slow
def test_homogeneous_blocks_of_two_dense_are_linear():
    relu = Nonlinearity("relu")
    theory = mf.derive(architecture=Sequential((relu, Dense(), relu, Dense())))
    found = theory.fixed_points(sigma_w="1.2", sigma_b="0.3")
    assert found.status is mf.Status.EXACT and found[0].chi_J.value == sp.Rational(324, 625)
    assert theory.depth_law("J", sigma_w=2, sigma_b=0).rate == 2 * sp.log(2)
    law = mf.derive(architecture=Sequential((Dense(), Nonlinearity("tanh"), Dense()))).depth_law(
        "J", sigma_w="1/2", sigma_b=0
    )
    assert sp.simplify(sp.exp(law.rate) - sp.Rational(1, 16)) == 0  # chi_J → σ_w⁴ as K → 0


def test_numbers_of_a_record_stay_short_on_both_sides_of_the_bar():
    """2048 bits above or below the bar of a fraction, though it is a double in the end."""
    assert exact("(1/10**50)**6*10**50", "x") == Fraction(1, 10**250)
    for text in ("(1/10**60)**12*10**60", "(10**60)**12/(10**60)**11"):
        with pytest.raises(mf.MeanFieldError, match="x must be a finite number"):
            exact(text, "x")
