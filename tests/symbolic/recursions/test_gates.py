"""Gates, u ⊙ φ(v): the theory against averages taken over u and v together, closed forms in many digits, and the number
of fixed points against grids."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.base.symbols import J, K, Z, sigma_b, sigma_w
from meanfield.networks.records import (
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Pool,
    Projection,
    Residual,
    Scale,
    Sequential,
)
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.fixed_points.products import product_zeros, products, rises

pytestmark = pytest.mark.usefixtures("interpreted_where_fast")

ORDER_ONE = Dense(sigma_w=1, sigma_b=0)
OWN = Gate("silu", Dense(sigma_w="13/10", sigma_b="1/5"), Dense(sigma_w="3/5", sigma_b="2/5"))


def gated(phi, *gates):
    return mf.derive(architecture=Sequential((Gate(phi, *gates), Dense())))


# ------------------------------------------------------------------------------------------- averages over u and v


X = np.linspace(-9, 9, 451)
WEIGHT = np.exp(-(X**2) / 2) / np.exp(-(X**2) / 2).sum()  # the trapezoidal rule, whose error falls as e^{-(2π/h)²/2}


def silu(v):
    return v * (1 + np.tanh(v / 2)) / 2


def slope(f, v, h=1e-4):
    return (8 * (f(v + h) - f(v - h)) - (f(v + 2 * h) - f(v - 2 * h))) / (12 * h)


def over_both(f, U, V):
    """⟨f(u, v)⟩ of independent Gaussians."""
    u, v = np.meshgrid(np.sqrt(U) * X, np.sqrt(V) * X, indexing="ij")
    return float(WEIGHT @ f(u, v) @ WEIGHT)


def over_two_inputs(f, U, V, nodes=20):
    """⟨f(u, v) f(u′, v′)⟩ with 2 × 2 covariances, in four dimensions."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    a, b, c, d = np.meshgrid(x, x, x, x, indexing="ij")
    W = w[:, None, None, None] * w[:, None, None] * w[:, None] * w / w.sum() ** 4
    (ru, rv) = (np.linalg.cholesky(np.asarray(C)) for C in (U, V))
    here, there = f(ru[0, 0] * a, rv[0, 0] * c), f(ru[1, 0] * a + ru[1, 1] * b, rv[1, 0] * c + rv[1, 1] * d)
    return float((W * here * there).sum())


def maps(K0, J0, sigma_w, sigma_b, gate=OWN):
    """(K′, J′) with every average taken over (u, v)."""
    (wu, bu), (wv, bv) = ([float(d.sigma_w), float(d.sigma_b)] for d in (gate.value, gate.gate))
    U, V = wu**2 * K0 + bu**2, wv**2 * K0 + bv**2
    second = over_both(lambda u, v: (u * silu(v)) ** 2, U, V)
    by_u, by_v = (over_both(f, U, V) for f in (lambda u, v: silu(v) ** 2, lambda u, v: (u * slope(silu, v)) ** 2))
    return sigma_w**2 * second + sigma_b**2, J0 * sigma_w**2 * (wu**2 * by_u + wv**2 * by_v)


def test_one_input_against_averages_over_u_and_v():
    run = mf.derive(architecture=Sequential((OWN, Dense()))).propagate(sigma_w=1.1, sigma_b=0.3, depth=4)
    assert run.K[0] == pytest.approx(1.1**2 + 0.09)
    for l in range(3):
        assert (run.K[l + 1], run.J[l + 1]) == pytest.approx(maps(run.K[l], run.J[l], 1.1, 0.3), rel=1e-8)
        wrong = maps(run.K[l], run.J[l], 1.1, 0.3, Gate("silu", OWN.value, OWN.value))  # u and v of one law
        assert run.K[l + 1] != pytest.approx(wrong[0], rel=1e-2) and run.J[l + 1] != pytest.approx(wrong[1], rel=1e-2)


@pytest.mark.slow
def test_two_inputs_against_four_dimensions():
    theory = mf.derive(architecture=Sequential((OWN, Dense())))
    start = {"K_aa": 1.3, "K_bb": 0.6, "K_ab": 0.35}
    names = ("K_aa", "K_bb", "K_ab", "J_ab", "Theta_ab")
    run = theory.propagate(sigma_w=1.7, sigma_b=0.3, depth=2, quantities=names, start=start | {"Theta_ab": 0.8})
    C = np.array([[1.3, 0.35], [0.35, 0.6]])
    U, V = 1.69 * C + 0.04, 0.36 * C + 0.16
    second = over_two_inputs(lambda u, v: u * silu(v), U, V)
    by_u, by_v = over_two_inputs(lambda u, v: silu(v), U, V), over_two_inputs(lambda u, v: u * slope(silu, v), U, V)
    assert run.K_ab[1] == pytest.approx(1.7**2 * second + 0.09, rel=1e-7)
    assert run.J_ab[1] == pytest.approx(1.7**2 * (1.69 * by_u + 0.36 * by_v), rel=1e-7)
    tangents = (1.69 * 0.8 + U[0, 1]) * by_u + (0.36 * 0.8 + V[0, 1]) * by_v
    assert run.Theta_ab[1] == pytest.approx(1.7**2 * (tangents + second) + 0.09, rel=1e-7)
    assert run.J_ab[1] != pytest.approx(1.7**2 * 1.69 * (by_u + by_v), rel=1e-3)


# ------------------------------------------------------------------------------------------------------ closed forms


def test_closed_forms():
    """GLU, ReGLU, GEGLU and a bilinear layer at K, between Dense of σ_w = 1."""
    erf_square = 2 * sp.asin(2 * K / (1 + 2 * K)) / sp.pi
    x = K / (1 + K)
    gelu_square = K / 4 + K * sp.asin(x) / (2 * sp.pi) + K * x / (sp.pi * sp.sqrt(1 + 2 * K))  # [autoinit] (66)
    for phi, square in (("relu", K / 2), ("z", K), ("erf", erf_square), ("gelu", gelu_square)):
        step = gated(phi, ORDER_ONE, ORDER_ONE).recursion("K").doit()["K"].subs({sigma_w: 1, sigma_b: 0})
        for at in (0.1, 1, 20):
            assert float(step.subs(K, at)) == pytest.approx(float(at * square.subs(K, at)), rel=1e-13), phi
            assert float(step.subs(K, at)) != pytest.approx(float(at * square.subs(K, at)) * 1.01, rel=1e-3)


def test_a_bilinear_layer_is_exact():
    theory = gated("z")
    K_, J_ = (theory.recursion("K", "J")[n] for n in ("K", "J"))
    inner = sigma_w**2 * K + sigma_b**2
    assert sp.expand(K_.doit() - (sigma_w**2 * inner**2 + sigma_b**2)) == 0
    assert sp.expand(J_.doit() - 2 * sigma_w**4 * inner * J) == 0


def erf_pair(A, B, ab):
    return 2 / mp.pi * mp.asin(2 * ab / mp.sqrt((1 + 2 * A) * (1 + 2 * B)))


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.0, 1e-10, 0.3])
def test_the_distance_keeps_its_digits(ratio):
    """Of inputs 1e-8 apart and more, of one norm and of two, against 60 digits."""
    theory, gaps = gated("erf"), np.array([1e-16, 1e-9, 1e-3, 0.7])
    A, B = np.full(4, 1 + ratio), np.ones(4)
    apart = (np.sqrt(A) - 1) ** 2 + 2 * np.sqrt(A) * gaps
    if ratio:
        start, names = {"K_aa": A, "K_bb": B, "distance": apart}, ("K_aa", "K_bb", "K_ab", "distance")
    else:
        start, names = {"K": B, "distance": apart}, ("K", "K_ab", "distance")
    run = theory.propagate(sigma_w=1.6, sigma_b=0.3, depth=4, quantities=names, start=start)
    with mp.workdps(60):
        for i in range(4):
            a, b, d = (mp.mpf(float(x[i])) for x in (A, B, apart))
            for l in range(3):
                w, s = mp.mpf(1.6) ** 2, mp.mpf(0.3) ** 2
                U, V, cross = w * a + s, w * b + s, w * (a + b - d) / 2 + s
                each = (U, (U, U, U)), (V, (V, V, V)), (cross, (U, V, cross))
                a, b, ab = (w * p * erf_pair(*q) + s for p, q in each)
                d = a + b - 2 * ab
                assert abs(mp.mpf(float(run.distance[i, l + 1])) / d - 1) < 3e-11, (ratio, i, l)


# ------------------------------------------------------------------------------------------------------ criticality


@pytest.mark.slow
def test_what_a_gate_does_to_criticality():
    """Where φ is homogeneous χ_K = χ_J, which is 2 at the point from which K grows without bound; the critical line is
    where that point and the one that attracts meet."""
    theory = gated("relu", ORDER_ONE, ORDER_ONE)
    zero, point = theory.fixed_points(sigma_w="3/2", sigma_b=0)
    assert (zero.K.value, zero.chi_J.value, zero.stability) == (0, 0, "stable")
    assert point.K.value == sp.Rational(8, 9) and point.chi_J.value == pytest.approx(2) and point.chi_K.value == 2
    assert point.stability == "unstable"
    line = theory.critical_line()
    assert line.kind == "closed" and sp.simplify(line.sigma_b - sp.sqrt(2) / (2 * sigma_w)) == 0
    below, above = theory.fixed_points(sigma_w=1, sigma_b="0.7"), theory.fixed_points(sigma_w=1, sigma_b="0.71")
    assert [p.stability for p in below] == ["stable", "unstable"] and len(above) == 0  # two points met on the line
    assert above.status is Status.CERTIFIED and above.unbounded is not None


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "at"), [("silu", 3), pytest.param("tanh", 0.8, marks=pytest.mark.slow)])
def test_both_slopes_on_the_critical_line(phi, at):
    """χ_K - χ_J = σ_w² V⟨φφ″⟩ as it is σ_w²⟨φφ″⟩ without the gate: both are 1 at the K* of φ itself."""
    f = {"tanh": np.tanh, "silu": silu}[phi]
    theory = gated(phi, ORDER_ONE, ORDER_ONE)
    sigma_w, sigma_b = (float(s.value) for s in theory.critical_line().at(at))
    place = {"sigma_w": f"{sigma_w:.15g}", "sigma_b": f"{sigma_b:.15g}"}
    here = min(theory.fixed_points(**place), key=lambda p: abs(p.K.value - at))
    z = np.sqrt(at) * X
    bent = WEIGHT @ (f(z) * (slope(f, z + 1e-3) - slope(f, z - 1e-3)) / 2e-3)
    assert float(here.chi_J.value) == pytest.approx(1, abs=1e-8)
    assert float(here.chi_K.value) - 1 == pytest.approx(sigma_w**2 * at * bent, rel=1e-4)
    assert float(here.chi_K.value) - 1 != pytest.approx(sigma_w**2 * bent, rel=1e-2)


def crossings(phi, w, b, own):
    """The fixed points K < 100 by signs on a fine grid."""
    k = np.geomspace(1e-6, 100, 2001)
    inner = w**2 * k + b**2 if own else k
    second = phi(np.sqrt(inner)[:, None] * X) ** 2 @ WEIGHT
    signs = np.sign(w**2 * inner * second + b**2 - k)
    return k[:-1][signs[1:] != signs[:-1]]


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "f"), [("silu", silu), ("sigmoid", lambda v: (1 + np.tanh(v / 2)) / 2)])
def test_fixed_points_against_a_grid(phi, f):
    for (w, b), own in itertools.product([(1.2, 0.2), (0.7, 0.9), (1.5, 1.4)], (False, True)):
        theory = gated(phi) if own else gated(phi, ORDER_ONE, ORDER_ONE)
        found = theory.fixed_points(sigma_w=w, sigma_b=b)
        seen = crossings(f, w, b, own)
        inside = [float(p.K.value) for p in found if 1e-6 < p.K.value < 100]
        assert found.status is Status.CERTIFIED and found.monotone
        assert inside == pytest.approx(list(seen), rel=1e-2), (w, b, own)


def test_maps_with_a_product():
    """K⟨z²⟩/3 - 2K + 1/2 = K² /3 - 2K + 1/2 in the disguise of a gate's map, and what is none."""
    e = K * average(Z[0] ** 2 + sp.sin(Z[0]), K) / 3 - 2 * K + sp.Rational(1, 2)
    found = product_zeros(e, 25)
    assert found.complete and [float(r.mid) for r in found.roots] == pytest.approx([3 - np.sqrt(7.5), 3 + np.sqrt(7.5)])
    assert not rises(e) and rises(e + 2 * K) and rises(K * average(sp.tanh(Z[0]) ** 2, K))
    lifted = product_zeros(e + 3, 25)  # nowhere 0
    assert lifted.complete and lifted.roots == () and lifted.most == 0
    assert products(average(sp.tanh(Z[0]), K)) is None and products(K**2 * average(sp.tanh(Z[0]) ** 2, K)) is None


def test_laws():
    """A language model's block: K grows linearly, J as a power of l; without a LayerNorm K leaves every power."""
    theory = mf.derive("relu", architecture="swiglu")
    law = theory.depth_law("J", sigma_w=1, sigma_b=0)
    assert law.exponent == 2  # 1 + V⟨φ′²⟩/⟨φ²⟩, 2 for every homogeneous φ of degree 1
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=4000)
    assert np.log(run.J[-1] / run.J[1999]) / np.log(2) == pytest.approx(2, abs=2e-3)
    law = mf.derive("silu", architecture="swiglu").depth_law("J", sigma_w=1, sigma_b=0)
    second, steep = (WEIGHT @ f(X) ** 2 for f in (silu, lambda v: slope(silu, v)))
    assert float(law.exponent) == pytest.approx(1 + steep / second, rel=1e-7)
    glu = gated("sigmoid", ORDER_ONE, ORDER_ONE)  # K' ~ 9K/2 and χ_J ~ √K
    law = glu.depth_law("J", sigma_w=3, sigma_b=0).law.leading
    assert law.power == 2 and sp.simplify(law.coefficient - sp.log(sp.Rational(9, 2)) / 4) == 0
    log_J = glu.propagate(sigma_w=3, sigma_b=0, depth=400).log_J
    assert np.diff(log_J[[100, 200, 300]], 2)[0] / 100**2 == pytest.approx(2 * float(law.coefficient), rel=1e-3)
    with pytest.raises(MeanFieldError, match="K grows faster than exponentially"):
        gated("relu", ORDER_ONE, ORDER_ONE).depth_law("K", sigma_w=3, sigma_b=0)


# --------------------------------------------------------------------------------------------------- compositions


def test_behind_and_before_other_records():
    """Scale, LayerNorm, the average of a Pool and another Gate may follow; u and v of one input or of a Dense's."""
    w = 1.4
    theory = mf.derive(
        architecture=Sequential((Gate("relu", ORDER_ONE, ORDER_ONE), Scale("1/2"), Pool(3, "average"), Dense()))
    )
    run = theory.propagate(sigma_w=w, sigma_b=0, depth=2)
    assert run.K[1] == pytest.approx(w**2 * (w**2) ** 2 / 2 / 4 / 3) and run.J[1] == pytest.approx(w**2 * w**2 / 12)
    normed = mf.derive(architecture=Sequential((Gate("relu", ORDER_ONE, ORDER_ONE), LayerNorm(), Dense())))
    run = normed.propagate(sigma_w=w, sigma_b=0, depth=2, quantities=("K", "J", "Theta"))
    # γ and β add 1 + 1, and Θ is divided by ⟨x²⟩ = K²/2 as J is
    assert run.K[1] == pytest.approx(w**2) and run.J[1] == pytest.approx(2)
    inner = (w**2 + w**2) * (w**2 / 2 + w**2 / 2) / (w**4 / 2)
    assert run.Theta[1] == pytest.approx(w**2 * (inner + 2) + w**2)
    twice = mf.derive(
        architecture=Sequential((Gate("z", ORDER_ONE, ORDER_ONE), Gate("relu", ORDER_ONE, ORDER_ONE), Dense()))
    )
    assert twice.propagate(sigma_w=w, sigma_b=0, depth=2).K[1] == pytest.approx(w**2 * (w**4) ** 2 / 2)


@pytest.mark.slow
def test_a_function_of_a_product():
    """ψ(u φ(v)) and the larger of two products, by averages over u and v of one law: K and J at layer 2."""
    theory = mf.derive(architecture=Sequential((Gate("silu"), Nonlinearity("tanh"), Dense())))
    run = theory.propagate(sigma_w=1.1, sigma_b=0.3, depth=2)
    V = 1.1**2 * run.K[0] + 0.09
    second = over_both(lambda u, v: np.tanh(u * silu(v)) ** 2, V, V)
    steep = over_both(lambda u, v: (silu(v) ** 2 + (u * slope(silu, v)) ** 2) / np.cosh(u * silu(v)) ** 4, V, V)
    assert run.K[1] == pytest.approx(1.1**2 * second + 0.09, rel=1e-5)
    assert run.J[1] == pytest.approx(1.1**4 * steep, rel=1e-3)
    largest = mf.derive(architecture=Sequential((Gate("tanh"), Pool(2), Dense())))
    found = largest.propagate(sigma_w=1.1, sigma_b=0.3, depth=2, quantities=("K",)).K[1]
    # max(x, y)² + max(-x, -y)² = x² + y², and x is as likely as -x
    plain = over_both(lambda u, v: (u * np.tanh(v)) ** 2, V, V)
    assert found == pytest.approx(1.1**2 * plain + 0.09, rel=1e-4)


def test_gradients_of_a_gate():
    """Three Dense a layer: their shares of Θ add up to it, and each is what its bias and inputs say."""
    theory = mf.derive("silu", architecture="swiglu")
    run = theory.propagate(sigma_w=1.1, sigma_b=0.4, depth=5, quantities=("K", "J", "Theta", "G_w", "G_b", "G_z"))
    w, b = 1.1**2, 0.4**2
    weights, biases = np.nansum(run.G_w), np.nansum(run.G_b)
    plain = mf.derive(architecture=Residual(Sequential((LayerNorm(False), Gate("silu"), Dense()))))
    theta = plain.propagate(sigma_w=1.1, sigma_b=0.4, depth=5, quantities=("Theta",)).Theta[-1]
    assert w * weights + b * biases == pytest.approx(theta, rel=1e-10)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ((Gate("silu", ORDER_ONE), Nonlinearity("tanh"), Dense()), "a product of two Gaussians"),
        ((Gate("silu"), LayerNorm(False), Nonlinearity("tanh"), Dense()), "a product of two Gaussians"),
        ((Gate("silu"), Pool(3), Dense()), "put a Dense between the Gate and"),
        ((Gate("silu"), Nonlinearity("tanh"), Pool(2), Dense()), "Two Pools without a Dense|a function of several"),
        ((Gate("silu"),), "does not end in Dense"),
        ((Residual(Gate("silu")), Dense()), "not Gaussian"),
        ((Gate("silu"), Residual(LayerNorm()), Dense()), "put a Dense between the Gate and"),
    ],
)
def test_what_is_not_derived_is_said(blocks, message):
    with pytest.raises(MeanFieldError, match=message):
        mf.derive(architecture=Sequential(blocks)).recursion("K")


def test_a_gate_that_jumps_has_no_J():
    theory = gated("sign", ORDER_ONE, ORDER_ONE)
    assert theory.recursion("J")["J"] == sp.oo
    assert theory.propagate(sigma_w=1.2, sigma_b=0, depth=2, quantities=("K",)).K[1] == pytest.approx(1.2**4)
    with pytest.raises(MeanFieldError, match="J is not available: it is infinite"):
        theory.propagate(sigma_w=1, sigma_b=0, depth=3, quantities=("J",))


# ------------------------------------------------------------------- lines behind Dense of the network's own σ's


def certified(e, at):
    return float(mf.certified(e.subs(K, at), 20).mid())


def test_the_line_of_relu_gates_in_closed_form():
    """σ_b² = 1/(2σ_w⁴(σ_w² + 1)), from V = σ_w^{-4} and K = σ_w² V²/2 + σ_b²; χ_K = 1 all along."""
    line = gated("relu").critical_line()
    for at in (0.3, 1, 7):
        w, b = (float(s.value) ** 2 for s in line.at(at))
        assert w == pytest.approx(at**-0.5, rel=1e-14) and b == pytest.approx(1 / (2 * w**2 * (w + 1)), rel=1e-13)
        assert b != pytest.approx(1 / (2 * w**2 * (w + 1.01)), rel=1e-4)
        assert certified(line.place, at) == pytest.approx((at - b) / w, rel=1e-13)
        assert certified(line.chi_K, at) == pytest.approx(1, rel=1e-13)


LINED = {
    "gate": Sequential((Gate("silu"), Dense())),
    "two Dense": Sequential((Dense(), Nonlinearity("tanh"), Dense())),
    "behind a norm": mf.architectures.swiglu("silu", mu="1/2"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "two Dense")) for n in LINED])
def test_lines_with_the_inner_variance_as_parameter(name):
    """The certified fixed point there has χ_J = 1 and the line's χ_K, and V is the variance that it should be."""
    theory = mf.derive(architecture=LINED[name])
    line = theory.critical_line()
    assert line.kind == "parametric" and "inner Dense" in line.message
    sigma_w, sigma_b = line.at(2)
    points = theory.fixed_points(sigma_w=str(sigma_w.value), sigma_b=str(sigma_b.value))
    place = certified(line.place, 2)
    here = min(points, key=lambda p: abs(float(p.K.value) - place))
    assert float(here.K.value) == pytest.approx(place, rel=1e-12)
    assert float(here.chi_J.value) == pytest.approx(1, abs=1e-12)
    assert float(here.chi_K.value) == pytest.approx(certified(line.chi_K, 2), rel=1e-12)
    inner = 1 if name == "behind a norm" else place
    assert float(sigma_w.value) ** 2 * inner + float(sigma_b.value) ** 2 == pytest.approx(2, rel=1e-12)


def test_presets_are_ordinary_records():
    """The names of derive and of the command line are those of mf.architectures, with mu wherever there is a skip."""
    assert mf.derive("tanh", architecture="resnet", mu="1/3") == mf.derive("tanh", mu="1/3")
    assert mf.derive("tanh", architecture="preln") == mf.derive("tanh", residual=True, norm="pre")
    assert mf.derive("tanh", architecture="preln", residual="1/2") == mf.derive("tanh", mu="1/2", norm="pre")
    whole = mf.derive("silu", architecture="swiglu", expand="8/3")
    assert whole.block.branch.blocks[1].value.expand == sp.Rational(8, 3)
    assert whole.recursion("K", "J") == mf.derive("silu", architecture="swiglu").recursion("K", "J")
    post = mf.derive("relu", architecture="postln").propagate(sigma_w=1, sigma_b=0, depth=3)
    assert list(post.K) == [1, 1, 1] and post.J[1] == pytest.approx(1)  # (1/2 + 1)/(1/2 + 1)
    for wrong in ({"norm": "pre"}, {"weights": "orthogonal"}):
        with pytest.raises(MeanFieldError, match="was given, but the architecture swiglu knows expand, mu"):
            mf.derive("silu", architecture="swiglu", **wrong)


def test_the_block_of_resmlp_is_one_formula():
    """[autoinit] (65), (69) with skips μ and LayerScale e."""
    theory = mf.derive("relu", architecture="resmlp", mu="9/10", scale="7/10")
    run = theory.propagate(sigma_w=1.3, sigma_b=0.4, depth=2)
    w, b, mu, e = 1.3**2, 0.4**2, 0.9**2, 0.7**2
    mixed = (mu + e * w) * run.K[0] + e * b
    assert run.K[1] == pytest.approx(mu * mixed + e * (w * (w * mixed + b) / 2 + b), rel=1e-14)
    assert run.J[1] == pytest.approx((mu + e * w) * (mu + e * w**2 / 2), rel=1e-14)
    assert run.J[1] != pytest.approx((mu + e * w) * (mu + e * w / 2), rel=1e-2)


def test_widths_follow_a_gate():
    """expand of both Dense is the width that the next one reads."""
    wide = Dense(expand=4)
    block = Residual(Sequential((LayerNorm(False), Gate("silu", wide, wide), Dense())), 1, Projection())
    found = mf.derive(architecture=block).width_schedule(sigma_w=1, sigma_b="1/10", depth=60, width=4096)
    plain = Residual(Sequential((LayerNorm(False), Gate("silu"), Dense())), 1, Projection())
    other = mf.derive(architecture=plain).width_schedule(sigma_w=1, sigma_b="1/10", depth=60, width=4096)
    assert list(found.widths) == list(other.widths)  # K and J know no widths
    run = mf.measure(block, sigma_w=1, sigma_b=0.1, width=[8, 8, 16], depth=3, networks=2, seed=1)
    assert np.isfinite(run.estimate("K").mean).all()
