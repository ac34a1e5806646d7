"""Critical lines and points: published numbers, independent multiprecision maps, laws against iteration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sympy as sp
from mpmath import mp

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.base.symbols import K, l, parameter, sigma_w
from meanfield.networks.records import LayerNorm, Residual, Sequential, mlp
from meanfield.symbolic.asymptotics.scaling import decay, logarithm
from tests.oracles.criticality import averages

R, mu = sp.Rational, parameter("mu")


def assert_close(ours, theirs, tolerance: float) -> None:
    assert abs(float(ours) - float(theirs)) <= tolerance, (float(ours), float(theirs))


# ------------------------------------------------------------------------------------------------------------ lines


@pytest.mark.slow
def test_closed_lines_of_the_paper():
    """Specification § 8, line 7."""
    assert_close(mf.derive("erf").critical_line().sigma_b.subs(sigma_w, R("1.3")), 0.3919657758, 1e-10)
    half = mf.derive("erf", mu="1/2").critical_line().sigma_b
    assert_close(half.subs(sigma_w, 1), 0.1751023489, 1e-10)
    printed = 0.3850810061  # (H.24) as printed
    assert abs(float(half.subs(sigma_w, 1)) - printed) > 0.2
    for name, norm, slope in (
        ("erf", "pre", 0.3238070109),
        ("gelu", "pre", 0.1750125226),
        ("relu", "act", 0.6833316961),
    ):
        for strength in (0, "1/2", "mu"):  # residuals do not move the line
            line = mf.derive(name, norm=norm, mu=strength).critical_line()
            assert_close(line.sigma_b.subs(sigma_w, 1), slope, 1e-10)
    leaky = mf.derive("leaky_relu", alpha="0.1", norm="act").critical_line()
    assert_close(leaky.sigma_b.subs(sigma_w, 1), 0.5854770288, 1e-10)


def test_line_with_symbolic_mu_is_the_right_h24():
    """(H.24) with one power less of (1 - μ²) in the first term: a proof by simplification."""
    line = mf.derive("erf", mu="mu").critical_line().sigma_b ** 2
    m = 1 - mu**2
    a = (16 * sigma_w**4 - sp.pi**2 * m**2) / (16 * sigma_w**4 + sp.pi**2 * m**2)
    right = (16 * sigma_w**4 - sp.pi**2 * m**2) / (4 * sp.pi**2 * m) - 2 * sigma_w**2 / sp.pi * sp.asin(a)
    printed = (16 * sigma_w**4 - sp.pi**2 * m**2) / (4 * sp.pi**2 * m**2) - 2 * sigma_w**2 / sp.pi * sp.asin(a)
    at = {mu: R(1, 3), sigma_w: R(3, 2)}
    assert abs(sp.N((line - right).subs(at), 40)) < 1e-35
    assert abs(sp.N((line - printed).subs(at), 40)) > 1e-3


# specification § 3.3: critical σ_b at σ_w, LayerNorm on activations
ON_ACTIVATIONS = {
    "erf": {
        ".1": 0.0011323614,
        ".5": 0.1035527235,
        "1": 0.5405256637,
        "1.5": 1.3156155605,
        "2": 2.4185101268,
        "3": 5.5912309131,
    },
    "gelu": {
        ".1": 0.0111705259,
        ".5": 0.2208901660,
        "1": 0.5883992074,
        "1.5": 0.9622203480,
        "2": 1.3302613093,
        "3": 2.0491580280,
    },
    "relu": {
        ".1": 0.0683331696,
        ".5": 0.3416658481,
        "1": 0.6833316961,
        "1.5": 1.0249975442,
        "2": 1.3666633922,
        "3": 2.0499950884,
    },
}


@pytest.mark.fast_with("relu")
@pytest.mark.parametrize("name", list(ON_ACTIVATIONS))
def test_lines_with_layer_norm_on_activations(name):
    line = mf.derive(name, norm="act").critical_line()
    for w, expected in ON_ACTIVATIONS[name].items():
        (found, _), *others = line.sigma_b_at(w)
        assert not others
        assert_close(found.value, expected, 1e-8)
        assert abs(float(line.sigma_b_at(str(float(w) * 1.01))[0][0].value) - expected) > 1e-6


@pytest.mark.slow
def test_vertical_line_and_everywhere_and_nowhere():
    assert mf.derive("relu").critical_line().kind == "vertical"
    assert mf.derive("relu", mu="mu").critical_line().sigma_w == sp.sqrt(2) * sp.sqrt(1 - mu**2)
    assert mf.derive("tanh", norm="pre", mu=1).critical_line().kind == "everywhere"
    assert mf.derive("relu", norm="pre").critical_line().sigma_b == 0
    assert mf.derive("step").critical_line().kind == "none"
    assert mf.derive("erf", mu=1).critical_line().kind == "none"


@pytest.mark.slow
@pytest.mark.parametrize("k", ["1/2", "3", "4"])
def test_parametric_gelu_line_solves_both_equations(k):
    """R48; and χ_K > 1 on the branch K* < (3 + √17)/2 (E-5), 1.0997900083 at K* = ½."""
    line = mf.derive("gelu").critical_line()
    w, b = (s.value for s in line.at(R(k)))
    with mp.workdps(30):
        second, slope, mixed = averages("gelu", mp.mpf(int(R(k).p)) / int(R(k).q))
        assert abs(mp.mpf(str(w)) ** 2 * slope - 1) < mp.mpf(10) ** -25
        assert (
            abs(mp.mpf(str(w)) ** 2 * second + mp.mpf(str(b)) ** 2 - mp.mpf(int(R(k).p)) / int(R(k).q))
            < mp.mpf(10) ** -25
        )
        chi = mp.mpf(str(w)) ** 2 * mixed
    ours = sp.N(line.chi_K.subs(K, R(k)), 20)
    assert_close(ours, chi, 1e-15)
    if k == "1/2":
        assert_close(ours, 1.0997900083, 1e-10)
    assert (ours > 1) == (R(k) < (3 + sp.sqrt(17)) / 2)


@pytest.mark.slow
def test_lines_of_other_orders_of_blocks():
    """LayerNorm after the skip: K = 1 from layer 2 on, and the line is that of LayerNorm on preactivations."""
    post = Sequential((mlp("erf", mu="1/2"), LayerNorm()))
    pre = mf.derive("erf", norm="pre").critical_line().sigma_b
    assert sp.simplify(mf.derive(architecture=post).critical_line().sigma_b - pre) == 0
    inside = Residual(Sequential((LayerNorm(), *mlp("erf", norm="act").blocks)), "1/2")
    assert mf.derive(architecture=inside).critical_line().kind in ("ray", "closed")


# ----------------------------------------------------------------------------------------------------------- points


@pytest.mark.slow
def test_gelu_point_exactly():
    """R49, R50: K* = (3 + √17)/2, ζ = -(32 + 8√17); the printed ζ = 66.668 has the wrong sign and digits."""
    origin, point = mf.derive("gelu").critical_points()
    assert point.K.value == R(3, 2) + sp.sqrt(17) / 2
    assert sp.simplify(point.zeta.value + 32 + 8 * sp.sqrt(17)) == 0
    assert_close(sp.N(point.sigma_w.value, 20), 1.408211013108, 1e-11)
    assert_close(sp.N(point.sigma_b.value, 20), 0.415839380959, 1e-11)
    assert_close(point.c_n.value / sp.Float("1.43626418732e-4", 20), 1, 1e-9)
    assert point.kind == "half-stable" and point.side.startswith("attracts from above")
    assert repr(point).startswith("CriticalPoint(sigma_w = 1.408") and "attracts from above" in str(point)
    assert origin.kind == "repelling" and origin.c_n.value == -6 / sp.pi and origin.sigma_w.value == 2
    assert abs(float(point.zeta.value) - 66.668) > 100
    moved = mf.derive("gelu", mu="1/2").critical_points()[1]
    assert_close(sp.N(moved.sigma_w.value, 20), 1.219546511240, 1e-11)
    assert_close(sp.N(moved.sigma_b.value, 20), 0.360127467804, 1e-11)


@pytest.mark.slow
def test_exponents_that_are_exact():
    erf = mf.derive("erf", mu="mu").critical_points()[0]
    assert sp.simplify(erf.c_n.value - 2 * (1 - mu**2)) == 0 == sp.simplify(erf.d_1.value - 2 * (1 - mu**2))
    assert erf.zeta.value == 1 and sp.simplify(erf.sigma_w.value - sp.sqrt(sp.pi * (1 - mu**2)) / 2) == 0
    for name in ("tanh", "erf", "arctan", "sin"):
        assert mf.derive(name).critical_points()[0].zeta.value == 1
    relu = mf.derive("relu").critical_points()
    assert relu[0].kind == "scale-invariant" and relu[0].zeta.value == 0 and relu.status is Status.CERTIFIED
    assert mf.derive("hard_tanh").critical_points()[0].kind == "logarithmic"
    assert len(mf.derive("softplus").critical_points()) == 0 == len(mf.derive("sigmoid").critical_points())
    assert (
        mf.derive("elu").critical_points()[0].zeta.value == 2 == mf.derive("softsign").critical_points()[0].zeta.value
    )
    stretched = mf.derive("sin(z) + 2/sqrt(3)*(1 - cos(z))").critical_points()[0]
    assert stretched.zeta is None and sp.simplify(stretched.law_J.rate - 2 / sp.sqrt(3)) == 0


CERTIFIED = {
    "gelu": "gelu", "silu": "silu", "mish": "mish", "gelu_tanh": "gelu_tanh", "hard_swish": "hard_swish",
    "z*erf(z)": "z_erf", "polynomial": "cubic",
}  # fmt: skip
SLOW = ("gelu_tanh", "mish", "gelu", "z*erf(z)")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CERTIFIED])
def test_positive_critical_points_are_certified_to_twenty_digits(name):
    """The ball has radius ≤ 1e-20, and an independent map at 60 digits changes sign over it."""
    points = mf.derive(name).critical_points()
    assert points.status is Status.CERTIFIED
    point = points[len(points) - 1]
    assert point.kind == "half-stable"
    assert point.K.error is None or point.K.error <= 1e-20 * float(point.K.value)
    digits = 60 if name in ("gelu", "z*erf(z)", "polynomial", "hard_swish") else 45
    with mp.workdps(digits):
        k = mp.mpf(str(sp.N(point.K.value, digits)))
        width = mp.mpf(10) ** -20

        def gap(x):
            _, slope, mixed = averages(CERTIFIED[name], x)
            return mixed - slope

        below, above = gap(k * (1 - width)), gap(k * (1 + width))
        assert below * above < 0
        assert gap(k * (1 + 3 * width)) * above > 0  # a ball moved by three of its widths would not hold the root
        second, slope, _ = averages(CERTIFIED[name], k)
        for ours, theirs in ((point.sigma_w, 1 / mp.sqrt(slope)), (point.sigma_b, mp.sqrt(k - second / slope))):
            assert abs(mp.mpf(str(sp.N(ours.value, 35))) - theirs) < mp.mpf(10) ** -20
            assert ours.error is None or ours.error <= 1e-20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silu", "z*erf(z)", "mish"])
def test_half_stable_coefficients_against_differences(name):
    """c₂ and d₁ from the map at K* ± δ, at 40 digits: (F - K)/δ² → -c₂ and (χ_J - 1)/δ → -d₁."""
    point = list(mf.derive(name).critical_points())[-1]
    with mp.workdps(40):
        k, delta = mp.mpf(str(sp.N(point.K.value, 40))), mp.mpf(10) ** -8
        s, b = (mp.mpf(str(sp.N(v.value, 40))) ** 2 for v in (point.sigma_w, point.sigma_b))
        ends = [averages(CERTIFIED[name], k + side * delta) for side in (1, -1)]
        gains = [s * a + b - (k + side * delta) for (a, _, _), side in zip(ends, (1, -1))]
        assert abs(-(gains[0] + gains[1]) / (2 * delta**2) / mp.mpf(str(point.c_n.value)) - 1) < 1e-6
        slope = -(s * ends[0][1] - s * ends[1][1]) / (2 * delta)
        assert abs(slope / mp.mpf(str(point.d_1.value)) - 1) < 1e-6
        assert abs(slope / mp.mpf(str(point.d_1.value)) * mp.mpf("1.01") - 1) > 1e-3


# ------------------------------------------------------------------------------------------------------------- laws


def steps(relative, depths):
    """Changes of l·(K^l/law - 1), which tends to a constant if the law holds up to its logarithm."""
    scaled = [r * d for r, d in zip(relative, depths)]
    return [abs(b - a) for a, b in itertools.pairwise(scaled)], abs(scaled[-1])


def assert_settles(relative, depths) -> None:
    moves, size = steps(relative, depths)
    assert all(b < 0.85 * a for a, b in itertools.pairwise(moves)) or moves[-1] < 0.01 * size, (moves, size)


def assert_settles_not(relative, depths) -> None:
    """Without the next orders the same quantity runs away (as log l or as a power)."""
    moves, _ = steps(relative, depths)
    assert all(b > 0.95 * a for a, b in itertools.pairwise(moves)), moves


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["tanh", "erf", "arctan", "sin", "softsign", "elu", "tanh(z) - tanh(2*z)/8", "sin(z) + 2/sqrt(3)*(1 - cos(z))"],
)
def test_laws_at_the_origin_against_iteration(name):
    """K^l with its logarithm to C/l, and log J minus the law constant, over 10^4 … 1.6·10^5 layers."""
    theory = mf.derive(name)
    point = theory.critical_points()[0]
    w = float(point.sigma_w.value)
    depths = (10_000, 40_000, 160_000, 640_000)
    runs = [theory.propagate(sigma_w=w, sigma_b=0.0, depth=d, every_layer=False) for d in depths]
    relative = [float(r.K[-1]) / float(point.law_K.law.expr.subs(l, d)) - 1 for r, d in zip(runs, depths)]
    assert_settles(relative, depths)
    bare = [float(r.K[-1]) / float(point.law_K.law.leading.expr(l).subs(l, d)) - 1 for r, d in zip(runs, depths)]
    assert_settles_not(bare, depths)
    law = point.law_J.law
    constant = next(t.coefficient for t in law.terms if t.coefficient.has(sp.Symbol("C", real=True)))
    rest = [float(r.log_J[-1]) - float((law.expr - constant).subs(l, d)) for r, d in zip(runs, depths)]
    decay_power = min(1.0, float(point.zeta_K))  # what is left is C l^{-1} for n ≤ 2 and C l^{-1/2} for n = 3
    ratio = (rest[2] - rest[1]) / (rest[1] - rest[0])
    assert abs(ratio - 4**-decay_power) < 0.05, rest
    assert abs(rest[2] - rest[1]) < (2e-2 if decay_power < 1 else 1e-3)
    lead = law.terms[0]
    wrong = [v + 0.02 * float(lead.expr(l).subs(l, d)) for v, d in zip(rest, depths)]
    assert abs((wrong[2] - wrong[1]) / (wrong[1] - wrong[0]) - 4**-decay_power) > 0.1


@pytest.mark.slow
def test_logarithmic_decay_of_hard_tanh():
    """K ~ 1/(2 log l) slowly; J/√K constant (the law of J in terms of K) is sharp."""
    theory = mf.derive("hard_tanh")
    depths = (10**4, 10**5, 10**6)
    runs = [theory.propagate(sigma_w=1.0, sigma_b=0.0, depth=d, every_layer=False) for d in depths]
    ratios = [float(r.K[-1]) * 2 * math.log(d) for r, d in zip(runs, depths)]
    assert abs(ratios[2] - 1) < abs(ratios[1] - 1) < abs(ratios[0] - 1) < 0.6
    constant = [float(r.log_J[-1]) - 0.5 * math.log(float(r.K[-1])) for r in runs]
    slow = [float(r.log_J[-1]) - 0.6 * math.log(float(r.K[-1])) for r in runs]
    assert abs(constant[2] - constant[1]) < 0.3 * abs(slow[2] - slow[1])


def test_decay_of_any_order():
    """Lemma C.1 with the right prefactor: n = 3, c = 0.7 → 0.8451542547; the printed 1/(c(n-1)) is refuted."""
    law = decay({sp.Integer(3): -R(7, 10)}, {})
    assert_close(law.amplitude, 0.8451542547, 1e-10)
    x = 0.3
    for _ in range(400_000):
        x -= 0.7 * x**3
    measured = x * 400_000**0.5
    assert abs(measured - float(law.amplitude)) < 1e-4 < abs(measured - 1 / (0.7 * 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gain", "chi"),
    [
        ({2: -2.0, 3: 5.5}, {1: -2.0}),
        ({3: -0.7, 4: 0.3, 5: 0.1}, {1: -0.5, 2: 0.3}),
        ({1.5: -1.0, 2: 0.4}, {0.5: -0.3}),
    ],
)
def test_next_orders_against_iteration(gain, chi):
    law = decay(
        {sp.nsimplify(k): sp.nsimplify(v) for k, v in gain.items()},
        {sp.nsimplify(k): sp.nsimplify(v) for k, v in chi.items()},
    )

    def value(terms, depth):
        return sum(float(t.coefficient) * depth ** float(t.power) * math.log(depth) ** int(t.logs) for t in terms)

    x, total, found = 0.2, 0.0, {}
    for depth in range(1, 160_001):
        if depth in (40_000, 160_000):
            found[depth] = (x / value(law.delta, depth) - 1, total - value(law.log_j, depth))
        total += sum(c * x**k for k, c in chi.items())
        x += sum(c * x**m for m, c in gain.items())
    (a, rest_a), (b, rest_b) = found[40_000], found[160_000]
    assert abs(b / a - 0.25) < 0.02  # what is left is C/l
    assert abs(rest_b - rest_a) < 0.06  # C/√l for n = 3


def test_logarithm_of_a_series():
    one, half = sp.S.One, sp.S.Half
    found = logarithm({sp.S.Zero: one, half: sp.Integer(2), one: sp.Integer(3)}, sp.Integer(2))
    x = sp.Symbol("x", positive=True)
    series = sp.series(sp.log(1 + 2 * x + 3 * x**2), x, 0, 5).removeO()
    assert sum(c * x ** (2 * p) for p, c in found.items()).expand() == series.expand()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "s", "b", "p"), [("erf", 2, 0, 1.2257000038), ("erf", 2, 1, 0.5903319575), ("gelu", 2, 0, 1.0720315984)]
)
def test_everywhere_critical_exponent_and_gamma_form(name, s, b, p):
    """R30: J^{1,l} = Γ(l+p+b)Γ(1+b)/(Γ(l+b)Γ(1+p+b)) exactly; against the product of 10^5 layers."""
    theory = mf.derive(name, norm="pre", mu=1)
    law = theory.depth_law("J", sigma_w=sp.sqrt(s), sigma_b=b)
    assert_close(law.exponent, p, 1e-9)
    run = theory.propagate(sigma_w=math.sqrt(s), sigma_b=float(b), depth=10**5, every_layer=False)
    logs = sp.expand_log(sp.log(law.exact.replace(sp.gamma, lambda x: sp.exp(sp.loggamma(x)))), force=True)
    exact = sp.N(logs.subs(l, 10**5), 20)
    assert abs(float(run.log_J[-1]) - float(exact)) < 1e-9
    assert abs(float(run.log_J[-1]) - float(exact) * (1 + 1e-6)) > 1e-7


@pytest.mark.fast_with("relu-kw0", "relu-kw1", "relu-kw2", "relu-kw3", "tanh-kw4", "tanh-kw5")
@pytest.mark.parametrize(
    "kw", [{}, {"mu": 1}, {"norm": "pre"}, {"norm": "pre", "mu": "1/2"}, {"norm": "act"}, {"norm": "act", "mu": "1/2"}]
)
@pytest.mark.parametrize("name", ["erf", pytest.param("gelu", marks=pytest.mark.slow), "relu", "tanh"])
def test_phase_diagram_agrees_with_certified_phases(name, kw):
    """Six random points of the compiled diagram against certified fixed points."""
    rng = np.random.default_rng(5)
    theory = mf.derive(name, **kw)
    w, b = np.round(rng.uniform(0.2, 2.5, 3), 2), np.round(rng.uniform(0.05, 2, 2), 2)
    diagram = theory.phase_diagram(sigma_w=w, sigma_b=b, line=False)
    for i, y in enumerate(b):
        for j, x in enumerate(w):
            phase = theory.phase(sigma_w=str(x), sigma_b=str(y))
            if phase.fixed_point is None:
                assert math.isinf(diagram.K[i, j])
            else:
                assert_close(diagram.K[i, j] / float(phase.fixed_point.K.value), 1, 1e-11)
            assert_close(diagram.chi_J[i, j], phase.chi_J.value, 1e-10)
            assert abs(diagram.chi_J[i, j] - float(phase.chi_J.value) * 1.0001) > 1e-10


@pytest.mark.slow
def test_symbolic_parameters_and_what_they_leave_open():
    points = mf.derive("swish", beta="beta").critical_points()
    assert points[0].sigma_w.value == 2 and points.status is Status.UNKNOWN and "beta" in points.message
    line = mf.derive("erf_scaled", s="s").critical_line()
    s = parameter("s")
    at = {s: R(3, 2), sigma_w: R(7, 5)}
    numeric = mf.derive("erf_scaled", s="3/2").critical_line().sigma_b.subs(sigma_w, R(7, 5))
    assert abs(sp.N(line.sigma_b.subs(at) - numeric, 30)) < 1e-25
    assert mf.derive("softplus").critical_line().kind == "none"


def test_a_line_that_exists_for_part_of_a_parameters_range_says_for_which():
    """|z|^p: χ_J is finite for p > 1/2, and the line there is that of every such p."""
    line = mf.derive("abs(z)**p", p="p").critical_line()
    p = mf.derive("abs(z)**p", p="p").activations[0].expression.exp
    assert "for p > 1/2, and chi_J is infinite everywhere else" in line.message
    assert not line.sigma_w.has(sp.Piecewise) and not line.sigma_b.has(sp.Piecewise)
    for value in (sp.Rational(3, 4), sp.Rational(3, 2)):
        given = mf.derive(f"abs(z)**({value})").critical_line()
        for ours, at in zip((line.sigma_w, line.sigma_b), given.at(sp.Rational(7, 5))):
            assert abs(sp.N(ours.subs({p: value, K: sp.Rational(7, 5)}), 20) - at.value) < 1e-18
            assert abs(sp.N(ours.subs({p: value + sp.Rational(1, 50), K: sp.Rational(7, 5)}), 20) - at.value) > 1e-6
    with pytest.raises(AssertionError, match="for every sigma_w > 0"):
        assert "for p" in mf.derive("abs(z)**1.5").critical_line().message


def test_signs_of_parameters_that_are_decided():
    """c_n = 2a² of tanh(az) is > 0 for every a whose φ is not 0; that of z + a z³ depends on a."""
    (found,) = mf.derive("tanh(a*z)", a="a").critical_points()
    assert found.kind == "power law" and found.zeta.value == 1 and str(found.c_n.value) == "2*a**2"
    assert mf.derive("sinh(a*z)", a="a").critical_points()[0].kind == "repelling"
    assert mf.derive("z+a*z**3", a="a").critical_points()[0].kind == "undecided"
