"""φ that jumps: two inputs part as the root of their distance, so that χ_J is infinite and no two of them meet."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from scipy.special import erf

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.base.errors import LONGEST, abbreviated
from meanfield.base.symbols import K, K_aa, K_bb, Z, distance, norm_angle
from meanfield.numeric.lowering import evaluators
from meanfield.numeric.lowering.averages import direct, pair_check, two_gaussians
from meanfield.numeric.lowering.distances import equal_norm_distance, unequal_norm_distance
from meanfield.numeric.lowering.modules import generated_modules
from meanfield.numeric.lowering.text import printing
from meanfield.symbolic.averages.node import Average, Integrand
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, distance_ratio
from meanfield.symbolic.averages.nodes.unequal_norms import UnequalDistanceRatio, unequal_distance_ratio
from meanfield.theory.depth_limits import inputs_apart
from meanfield.theory.verbs import propagating

W, B = math.sqrt(1.5), math.sqrt(0.2)
STEP, STAIR = "1 if z>0.3 else -1", "1 if z>0.3 else (0.5 if z>0.29 else 0)"
SHRINK, MIXED = "z if z>0.4 else 0", "sign(z)+0.5*tanh(z)"


def iterated(given, square, breaks, w2=1.5, b2=0.2, layers=160):
    """(K*, c*) of φ by iteration; given(m, s, z): φ(z) and E φ(m + s ξ), the mean over a second input."""
    x, weights = np.polynomial.legendre.leggauss(60)

    def mean(f, K):
        ends = sorted({-9.0, 9.0, 0.0, *(b / math.sqrt(K) for b in breaks)})
        total = 0.0
        for low, high in pairwise(ends):
            t = low + (high - low) * (1 + x) / 2
            total += (high - low) / 2 * (weights * np.exp(-t * t / 2) * f(math.sqrt(K) * t)).sum()
        return total / math.sqrt(2 * math.pi)

    K, c = w2 + b2, 0.5
    for _ in range(layers):
        K = w2 * mean(square, K) + b2
    for _ in range(layers):
        s = math.sqrt(K * (1 - c * c))
        c = (w2 * mean(lambda z: np.prod(given(c * z, s, z), axis=0), K) + b2) / K  # noqa: B023
    return K, c


def given_shrink(m, s, z):
    """Of z if z > 0.4 else 0: the mean of a Gaussian above 0.4."""
    t = (m - 0.4) / s
    return z * (z > 0.4), m * (1 + erf(t / math.sqrt(2))) / 2 + s * np.exp(-t * t / 2) / math.sqrt(2 * math.pi)


def given_mixed(m, s, z):
    x = np.linspace(-9, 9, 181)  # the trapezoid rule: tanh is analytic in a strip about the line
    smooth = (np.tanh(m[:, None] + s * x) * np.exp(-x * x / 2)).sum(axis=1) * 0.1 / math.sqrt(2 * math.pi)
    return np.sign(z) + np.tanh(z) / 2, erf(m / s / math.sqrt(2)) + smooth / 2


CASES = {
    SHRINK: (given_shrink, lambda z: z * z * (z > 0.4), (0.4,), 0.9580538817),
    MIXED: (given_mixed, lambda z: (np.sign(z) + np.tanh(z) / 2) ** 2, (0.0,), 0.2051358173),
}


def ratio(formula: str, monkeypatch=None):
    """⟨(φ_a - φ_b)²⟩/apart as generated source says it, run by the interpreter; without the measuring of errors where a
    monkeypatch is given (three seconds for each pair of averages)."""
    if monkeypatch is not None:
        monkeypatch.setattr(two_gaussians, "miss", lambda *a: 1e-14)
        monkeypatch.setattr(equal_norm_distance, "error", lambda *a: 1e-14)
        two_gaussians.pair.cache_clear()
    (node,) = distance_ratio(mf.derive(formula).activations[0].pieces.expr, K, distance).atoms(DistanceRatio)
    functions = evaluators.Functions()
    name = functions.of(node)
    f, tables = printing.interpret(functions.text, name), list(map(functions.array, functions.table(name)))
    if monkeypatch is not None:
        two_gaussians.pair.cache_clear()
    return lambda V, apart: f(V, apart, *tables)


# ------------------------------------------------------------------------------------------------ constant modulus


@pytest.mark.parametrize("formula", ["sign", STEP, "2*sign(z)/sqrt(3)", "-1 if z<0 else 1"])
def test_a_phi_of_constant_modulus_is_chaotic(formula):
    """K′ holds no average, which was taken for weights of 0: ordered, χ_J = 0, c* = 1 certified."""
    theory = mf.derive(formula)
    (point,) = theory.fixed_points(sigma_w=W, sigma_b=B)
    assert point.phase == theory.phase(sigma_w=W, sigma_b=B).name == "chaotic" and point.chi_J.value == sp.oo
    still = theory.phase(sigma_w=0, sigma_b=B)
    assert still.name == "ordered" and still.chi_J.value == 0  # the contrast: nobody sees it jump


@pytest.mark.slow_with("{}", "{'norm': 'pre'}")
@pytest.mark.parametrize("settings", [{}, {"norm": "pre"}, {"norm": "act"}, {"residual": True, "mu": 0.5}], ids=str)
def test_sign_by_its_arcsine(settings):
    """c = (σ_w² (2/π) asin c + σ_b²)/(σ_w² + σ_b²), with a skip and behind norms, too; every verb says so."""
    c = 0.5
    for _ in range(300):
        c = (1.5 * 2 / math.pi * math.asin(c) + 0.2) / 1.7
    theory = mf.derive("sign", **settings)
    one, inside = found = theory.correlations(sigma_w=W, sigma_b=B)
    assert one.c == 1 and one.slope == math.inf and one.stability == "unstable" and found.status is Status.CERTIFIED
    assert abs(inside.c - c) < 1e-13 and not abs(inside.c * (1 + 1e-12) - c) < 1e-13
    assert c == pytest.approx(0.272926079, abs=1e-9)
    bias = theory.bias(sigma_w=W, sigma_b=B)
    assert bias.phase is mf.bias.BiasPhase.NEUTRALITY and bias.gamma == pytest.approx(c / (1 - c), rel=1e-12)
    assert float(theory.depth_law("c", sigma_w=W, sigma_b=B).leading.coefficient) == pytest.approx(c, abs=1e-12)
    run = theory.propagate(sigma_w=W, sigma_b=B, depth=300, correlation=0.9, quantities=("K", "c"))
    assert run.c[-1] == pytest.approx(c, abs=1e-12)


def test_weights_of_zero_behind_a_skip():
    """J of the skip alone: μ² = 1/4; the bias diagram called it 0."""
    theory = mf.derive("sign", residual=True, mu=0.5)
    drawn = theory.phase_diagram(sigma_w=[0, 1], sigma_b=[0.5, 1], quantity="gamma")
    assert drawn.chi_J[:, 0].tolist() == [0.25, 0.25] and np.isinf(drawn.chi_J[:, 1]).all()
    assert float(theory.phase(sigma_w=0, sigma_b=0.5).chi_J.value) == 0.25


@pytest.mark.parametrize("sigma_w", [1e-4, 1e-8])
def test_next_to_one(sigma_w):
    """1 - c* = 8(σ_w²/πK)² (1 + O(σ_w²)) as σ_w → 0, beyond the digits of c*; it was "critical to rounding"."""
    gap = 8 * (sigma_w**2 / math.pi) ** 2
    theory = mf.derive("sign")
    found = theory.correlations(sigma_w=sigma_w, sigma_b=1)
    assert abs(found.stable.gap / gap - 1) < 1e-7 and not abs(found.stable.gap / gap * 1.001 - 1) < 1e-7
    assert found.gamma == pytest.approx(1 / gap, rel=1e-7) and found.stable.slope == pytest.approx(0.5, abs=1e-7)
    assert f"1 - {gap:.6g}"[:6] in repr(found) and theory.bias(sigma_w=sigma_w, sigma_b=1).gamma == found.gamma
    drawn = theory.phase_diagram(sigma_w=[sigma_w, 1], sigma_b=[1, 2], quantity="gamma")
    assert drawn.gap[0, 0] == pytest.approx(found.stable.gap, rel=1e-12)


def test_no_distance_is_too_small_to_grow():
    """Below 1e-40 of K a distance counted as 0, where the ratio is infinite: K was inf from layer 2 on."""
    run = mf.derive("sign").propagate(
        sigma_w=1, sigma_b=0, depth=3, start={"K": 1.0, "distance": 2e-60}, quantities=("K", "distance")
    )
    expected = [2e-60]
    for _ in range(2):
        expected.append(4 / math.pi * math.asin(math.sqrt(expected[-1] / 4)) * 2)  # 2 - (4/π) asin(1 - d/2)
    assert run.K.tolist() == [1, 1, 1] and np.exp(run.log_distance) == pytest.approx(expected, rel=1e-12)


# ----------------------------------------------------------------------------------------------- off 0, and with slopes


def apart_by_orthants(steps, V, gap):
    """⟨(φ_a - φ_b)²⟩ of a staircase, steps [(place, height)], by the probabilities that a step lies between."""
    with mp.workdps(40):
        s, r = mp.sqrt(V), mp.sqrt(gap * (2 - gap))

        def both(x, y):
            """P(u > x, v < y) of correlation 1 - gap."""
            inner = lambda u: mp.npdf(u) * mp.ncdf((y - (1 - mp.mpf(gap)) * u) / r)  # noqa: E731
            near = [x] + [t for t in (x + r, x + 8 * r, x + 40 * r, x + 1, x + 4) if t < x + 12]
            return mp.quad(inner, [*sorted(near), x + 12])

        total = mp.mpf(0)
        for b, h in steps:
            for d, k in steps:  # Σ h k P(b and d both between the two)
                total += 2 * h * k * both(max(b, d) / s, min(b, d) / s)
        return total


@pytest.mark.slow_with("one step")
@pytest.mark.parametrize(
    ("formula", "steps"),
    [(STEP, [(mp.mpf("0.3"), 2)]), (STAIR, [(mp.mpf("0.3"), 0.5), (mp.mpf("0.29"), 0.5)])],
    ids=["one step", "two steps next to each other"],
)
def test_staircases_by_orthants(formula, steps, monkeypatch):
    """Densities of two inputs at jumps off 0 lost their digits near c = 1 ("too steep or oscillates too fast")."""
    found = ratio(formula, monkeypatch)
    for V, gap in ((1.7, 2.0**-2), (1.7, 2.0**-9), (1.0, 2.0**-14), (40.0, 2.0**-40), (1.0, 2.0**-100)):
        true = float(apart_by_orthants(steps, V, gap) / (2 * V * gap))
        value = found(V, 2 * V * gap)
        assert abs(value / true - 1) < 3e-13 and not abs(value * (1 + 1e-11) / true - 1) < 3e-13, (V, gap)


@pytest.mark.parametrize("formula", CASES)
def test_pieces_that_are_not_constant(formula, monkeypatch):
    """They were refused with an expression of 300 to 1000 characters. At c* the distance is kept: σ_w² S = 1."""
    given, square, breaks, printed = CASES[formula]
    K_star, c = iterated(given, square, breaks)
    assert c == pytest.approx(printed, abs=1e-10)
    (point,) = mf.derive(formula).fixed_points(sigma_w=W, sigma_b=B)
    assert float(point.K.value) == pytest.approx(K_star, rel=1e-12)
    found = ratio(formula, monkeypatch)
    assert abs(1.5 * found(K_star, 2 * K_star * (1 - c)) - 1) < 1e-11
    assert not abs(1.5 * found(K_star, 2 * K_star * (1 - c * (1 - 1e-8))) - 1) < 1e-11
    near = found(K_star, 2e-12 * K_star) / found(K_star, 2e-14 * K_star)
    assert near == pytest.approx(0.1, rel=1e-4)  # S falls as the inverse root of the distance


@pytest.mark.slow
def test_references_reach_beyond_a_wall(monkeypatch):
    """At V = .001 all of z·1(z > .4) lies beyond 12 deviations: 2(⟨f²⟩ - ⟨f f⟩)/apart in 40 digits by mpmath. A
    reference that ends at ten refused it."""
    node = DistanceRatio(Integrand(sp.Piecewise((0, Z[0] < sp.Rational(2, 5)), (Z[0], True))), K, distance)
    _, product, slope = equal_norm_distance.parts(node)
    exact = 8.67889345307415641e-33
    assert abs(equal_norm_distance.reference(product, slope, 1e-3, 1e-5) / exact - 1) < 1e-12
    assert mf.derive(SHRINK).correlations(sigma_w=W, sigma_b=B).stable.c == pytest.approx(0.9580538816597, abs=1e-12)
    monkeypatch.setattr(pair_check, "FARTHEST", 10.0)
    assert abs(equal_norm_distance.reference(product, slope, 1e-3, 1e-5) / exact - 1) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("formula", [SHRINK, MIXED, STEP])
def test_every_verb_agrees(formula):
    theory, at = mf.derive(formula), dict(sigma_w=W, sigma_b=B)
    found, bias = theory.correlations(**at), theory.bias(**at)
    run = theory.propagate(**at, depth=300, correlation=0.9, quantities=("K", "c", "J_ab"))
    other = theory.propagate(**at, depth=300, correlation=0.9, quantities=("K_aa", "K_bb", "K_ab"))
    drawn = theory.phase_diagram(sigma_w=[W, 2 * W], sigma_b=[B, 2 * B], quantity="gamma")
    c = found.stable.c
    if formula in CASES:
        assert c == pytest.approx(CASES[formula][-1], abs=1e-10)
    assert found.status is Status.CERTIFIED and found[0].slope == math.inf
    assert run.c[-1] == pytest.approx(c, abs=1e-11) and drawn.c[0, 0] == pytest.approx(c, abs=1e-11)
    assert bias.c == c and (other.K_ab / other.K_aa)[-1] == pytest.approx(c, abs=1e-10)
    assert (run.J_ab[-1] / run.J_ab[-2]) == pytest.approx(found.stable.slope, rel=1e-9)
    law = theory.depth_law("c", **at)
    assert float(law.leading.coefficient) == pytest.approx(c, abs=1e-12)


def test_the_slope_between_two_inputs():
    """∂⟨φφ⟩/∂K_ab, which J_ab follows: an average over one input where the other stands at a jump was not compiled."""
    theory = mf.derive(SHRINK)
    slope = theory.equal_norms["J_ab"]
    (node,) = (a for a in slope.atoms(Average) if a.dimension == 1)
    assert node.mean[0] != 0
    plain, variables = node.over_symbols()
    source = direct.direct(plain, "f")
    f, V, d = printing.interpret(source, "f"), 0.8, 0.3
    variance, mean = (float(v.subs({K: V, distance: d})) for v in variables)
    true = 0.4 * (1 + math.erf((mean - 0.4) / math.sqrt(2 * variance))) / 2
    assert abs(f(variance, mean) - true) < 1e-14 and not abs(f(variance, mean * 1.01) - true) < 1e-14


def test_where_k_leaves_the_jump_behind():
    """K → ∞: what is left of the jump is 0, and the law of c is refused by what was asked for."""
    with pytest.raises(MeanFieldError, match=r"The law of c is not available: φ jumps and K grows without bound"):
        mf.derive(SHRINK).depth_law("c", sigma_w=1.5, sigma_b=0.2)


# ------------------------------------------------------------------------------------------------------- what is said


@pytest.mark.slow
def test_whether_c_is_odd_is_proved_or_only_seen(monkeypatch):
    """C(-1) + 1 = 2σ_b²/K is below rounding at σ_b = 1e-7: floats see an odd map, which it is not."""
    theory, at = mf.derive("sign"), dict(sigma_w=2, sigma_b="1e-7")
    found = theory.correlations(**at)
    assert found.status is Status.CERTIFIED and [p.stability for p in found] == ["unstable", "stable"]
    assert len(theory.correlations(sigma_w=2, sigma_b=0)) == 3
    monkeypatch.setattr(inputs_apart, "oddness", lambda theory, values: None)  # nothing is proved
    seen = theory.correlations(**at)
    assert seen.status is Status.MEASURED and len(seen) == 3 and "as far as float arithmetic sees" in seen.message
    assert theory.correlations(sigma_w=2, sigma_b=1).status is Status.CERTIFIED  # floats do show that it is not odd


@pytest.mark.slow
def test_refusals_cut_formulas():
    long = " + ".join(f"<sech(z_a)**{n}*sech(z_b)**{n}>_{{K_aa, K_ab, K_bb}}/{n}" for n in range(2, 40))
    said = str(MeanFieldError(f"{long} is not compiled; ask for K."))
    assert len(said) < LONGEST and said.startswith(long[:40]) and said.endswith("… is not compiled; ask for K.")
    words = "The quantity Phi is not there: known are " + ", ".join(["K", "J", "Theta", "distance", "K_ab"] * 9) + "."
    assert str(MeanFieldError(words)) == words == abbreviated(words)
    (node,) = unequal_distance_ratio(
        mf.derive(STAIR).activations[0].pieces.expr, K_aa, K_bb, distance, norm_angle
    ).atoms(UnequalDistanceRatio)
    with pytest.raises(MeanFieldError, match=r"unequal norms through Piecewise.* was asked for, which jumps") as error:
        unequal_norm_distance.parts(node)
    assert len(str(error.value)) < 300


@pytest.mark.slow_with("start2", "start3")
@pytest.mark.parametrize(
    "start",
    [{"K": 0.0}, {"K": [1.0, 0.0]}, {"K_aa": 1.0, "K_bb": 0.0, "K_ab": 0.0}, {"sigma_mu2": 0.0, "sigma_y2": 0.0}],
)
def test_runs_and_kernels_refuse_an_input_that_is_zero_where_φ_jumps(start, monkeypatch):
    """`propagate` answered the limit K → 0, where `kernel` refused: sign(0) is 0, and no average is."""
    monkeypatch.setattr(generated_modules, "PATIENCE", np.inf)
    theory, at = mf.derive("sign"), {"sigma_w": 1.3, "sigma_b": 0.2, "depth": 3}

    def refused():
        with pytest.raises(MeanFieldError, match="is 0 at layer 1, where φ jumps"):
            theory.propagate(**at, start=start, quantities="K" if "K" in start else None)

    refused()
    with pytest.raises(MeanFieldError, match="is 0 at layer 1, where φ jumps"):
        theory.propagate(**at | {"sigma_b": 0.0}, input_norm=0.0, quantities="K")
    with pytest.raises(MeanFieldError, match="input 0 is 0 at layer 1, where φ jumps"):
        theory.kernel([[0.0], [1.0]], **at | {"sigma_b": 0.0}, quantities="K")
    assert mf.derive("step(z - 1/2)").propagate(**at, start={"K": 0.0}, quantities="K").K[1] == 0.2**2  # φ(0) = 0
    behind = mf.derive(architecture=mf.Sequential((mf.Dense(sigma_b="0.3"), mf.Nonlinearity("sign"), mf.Dense())))
    run = behind.propagate(sigma_w=1.3, sigma_b=0.0, depth=2, input_norm=0.0, quantities="K")
    assert abs(run.K[-1] - 1.69) < 1e-14  # a bias stands before φ, and no z is 0
    found = behind.kernel([[0.0], [1.0]], sigma_w=1.3, sigma_b=0.0, depth=2, quantities="K").K
    assert abs(found[0, 1] / 1.69 - 2 / math.pi * math.asin(0.3 / math.sqrt(1.69**2 + 0.09))) < 1e-10
    gate = mf.Gate("step", mf.Dense(sigma_b=1), mf.Dense(sigma_b=0))
    gated = mf.derive(architecture=mf.Sequential((gate, mf.Dense())))
    with pytest.raises(MeanFieldError, match="is 0 at layer 1, where φ jumps"):  # v = 0 in a gate, and u = 1·b
        gated.propagate(sigma_w=1.3, sigma_b=0.0, depth=2, input_norm=0.0, quantities="K")
    run = gated.propagate(sigma_w=1.3, sigma_b=0.0, depth=2, input_norm=1e-30, quantities="K")
    assert abs(run.K[1] - 1.69 / 2) < 1e-14
    monkeypatch.setattr(propagating, "jumps_at_zero", lambda *_: False)  # planted: the limit
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        refused()


def test_ends_next_to_one_are_the_same_alone_and_over_a_grid():
    """sign at σ_w ≪ σ_b: 1 - c* ~ 8σ_w⁴/(π²K²), by mpmath down to 1e-180, alone, by tables and without them; nearer
    to 1 than is searched nothing is claimed. Tables lost 155 decades; 1 - c* < 1e-38 was 0, or refused."""

    def true(w, b):
        a = 2 * mp.mpf(w) ** 2 / (mp.pi * (mp.mpf(w) ** 2 + mp.mpf(b) ** 2))
        return a * mp.findroot(lambda t: 2 * mp.sin(t / 2) ** 2 - a * t, 2 * a, tol=1e-280)

    sign = mf.derive("sign")
    with mp.workdps(150):
        for b, widths in ((1.0, np.logspace(-45, -1, 130)), (1e-3, [1e-40, 1e-15, 1e-5]), (1e3, [1e-17])):
            found = sign.phase_diagram(sigma_w=widths, sigma_b=[b], quantity="gamma", line=False)
            wanted = [true(w, b) for w in widths]
            assert max(abs(g / t - 1) for g, t in zip(found.gap[0], wanted)) < 1e-12
            assert np.all(np.abs(found.slope[0][np.array(widths) < 1e-3 * b] - 0.5) < 1e-6)
            for w, t in list(zip(widths, wanted))[::40]:
                here = sign.correlations(sigma_w=w, sigma_b=b).stable
                assert abs(here.gap / t - 1) < 1e-12 and here.slope == pytest.approx(0.5, abs=1e-2)
                assert abs(sign.bias(sigma_w=w, sigma_b=b).gamma * t - 1) < 1e-2
    beyond = sign.phase_diagram(sigma_w=[1e-55], sigma_b=[1.0], quantity="gamma", line=False)
    assert np.isnan(beyond.gap[0, 0]) and beyond.phases[beyond.phase[0, 0]] == "unknown"
    for verb in (sign.correlations, sign.bias):
        with pytest.raises(MeanFieldError, match="cannot be told from 1: it lies within 1e-200 of it"):
            verb(sigma_w=1e-55, sigma_b=1)
