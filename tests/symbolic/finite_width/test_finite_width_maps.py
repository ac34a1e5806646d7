"""The maps of the correlators of order 1/n for any activation: published formulas, exact polynomial layers by uniform
vectors on a sphere, explicit networks of one and two inputs; and the recursions made of them.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, n
from meanfield.symbolic.finite_width import correlator_maps
from meanfield.symbolic.finite_width.correlator_maps import NAMES, correlator_map, in_averages
from meanfield.symbolic.finite_width.correlator_recursions import correlator_recursion
from meanfield.symbolic.finite_width.layer_law import correlator
from meanfield.symbolic.finite_width.monomials import lambda_b, lambda_w
from meanfield.symbolic.finite_width.neuron_fields import Mean, Sigma
from meanfield.symbolic.finite_width.weight_averages import (
    C_W,
    C_b,
)

V_ = correlator("V", (0, 0, 0, 0))


@pytest.mark.slow
def test_four_inputs_as_published():
    """[orthogonal_weights] (4.16): its sum over β with raised indices, whitened back to derivatives of averages."""
    for law, sign in (("orthogonal", 1), ("gaussian", 0)):
        found = correlator_map("V", (1, 2, 3, 4), weights=law)
        s = {a: Sigma(0, a, sp.Symbol("neuron")) for a in (1, 2, 3, 4)}
        pair = lambda a, b: Mean(s[a] * s[b])  # noqa: B023, E731
        source = Mean(s[1] * s[2] * s[3] * s[4]) - pair(1, 2) * pair(3, 4)
        source -= sign * (pair(1, 3) * pair(2, 4) + pair(1, 4) * pair(2, 3))
        for b1, b2, b3, b4 in product((1, 2), (1, 2), (3, 4), (3, 4)):
            vertex = correlator("V", (b1, b2, b3, b4))
            source += vertex * Mean(s[1] * s[2], (b1, b2)) * Mean(s[3] * s[4], (b3, b4)) / 4
        assert sp.expand(found - C_W**2 * source) == 0
        wrong = source + sign * pair(1, 3) * pair(2, 4) + (1 - sign) * pair(1, 2) * pair(3, 4)
        assert sp.expand(found - C_W**2 * wrong) != 0


def test_one_input_as_published():
    """(4.18): 3 ↔ 1 and χ_∥²; (4.26), (5.5); ReLU (4.19): 3l − 5, 5(l − 1), mixed 3(l − 1)."""
    s = Sigma(0, 0, sp.Symbol("neuron"))
    for law, times in (("orthogonal", 3), ("gaussian", 1)):
        chi = C_W * Mean(s**2, (0, 0)) / 2
        expected = C_W**2 * (Mean(s**4) - times * Mean(s**2) ** 2) + chi**2 * V_
        assert sp.expand(correlator_map("V", weights=law) - expected) == 0
        G1 = chi * correlator("G1", (0, 0)) + C_W * Mean(s**2, (0, 0, 0, 0)) * V_ / 8
        assert sp.expand(correlator_map("G1", weights=law) - G1) == 0
    relu = in_averages(correlator_map("V", weights="orthogonal"), "relu").doit().subs(C_W, 2)
    assert sp.expand(relu - V_ - 3 * K**2) == 0
    relu = in_averages(correlator_map("V"), "relu").doit().subs(C_W, 2)
    assert sp.expand(relu - V_ - 5 * K**2) == 0


@pytest.mark.slow
def test_tanh_as_measured_and_printed():
    """Iterated in 20 digits from K¹ = 1/3: Ṽ of orthogonal networks −2, −1.870, −1.837, −1.830, −1.833 … −1.8387 at
    layer 6 and −1.873 at 11; Gaussian 3.7505 at 6; G1/K of orthogonal ones 0.9786 at 6."""
    for law, printed in (
        ("orthogonal", {2: -1.870, 3: -1.837, 4: -1.830, 5: -1.833, 6: -1.8387}),
        ("gaussian", {6: 3.7505}),
    ):
        maps = [in_averages(correlator_map(x, weights=law), "tanh").subs({C_W: 1, C_b: 0}) for x in ("K", "V", "G1")]
        G1 = correlator("G1", (0, 0))
        state = [sp.Rational(1, 3), -2 * sp.Rational(1, 9) if law == "orthogonal" else sp.S.Zero, sp.S.Zero]
        for layer in range(2, 7):
            state = [m.subs({K: state[0], V_: state[1], G1: state[2]}).evalf(20) for m in maps]
            if layer in printed:
                assert float(state[1] / state[0] ** 2) == pytest.approx(printed[layer], abs=6e-4)
        if law == "orthogonal":
            assert float(state[2] / state[0]) == pytest.approx(0.9786, abs=1e-4)


# ------------------------------------------------ polynomial activations: layers 2 and 3, exact in n by the sphere

A_ = sp.Rational(1, 5)


def phi(z):
    return z - A_ * z**3


def exact_third_layer_vertex(law):
    """Ṽ of layer 3, C_W = C_b + 1 = 1, |x|² = N_0 = n, exact in n: with R = |φ(z)|², z′ = √(R/n)·g or √R·u."""
    z, y, R = sp.symbols("z y R", positive=True)

    def moment(f):
        """E[f(z_1) g(z_2)] of f·g, polynomials in z and y, at given R of the layer before: a polynomial in R."""
        total = sp.S.Zero
        for (p, q), c in sp.Poly(f, z, y).terms():
            if p % 2 == 0 == q % 2:
                weight = sp.factorial2(p - 1) * sp.factorial2(q - 1)
                total += c * weight * (R / n) ** ((p + q) // 2)
                if law == "orthogonal":
                    total += (
                        c
                        * weight
                        * (R ** ((p + q) // 2))
                        * (
                            1 / prod((n + 2 * j for j in range((p + q) // 2)), start=sp.S.One)
                            - n ** sp.Integer(-(p + q) // 2)
                        )
                    )
        return total

    one, two = moment(phi(z) ** 2), moment(phi(z) ** 2 * phi(y) ** 2)
    four = moment(phi(z) ** 4)
    K3 = powers_of_R(law, z, one, R)
    E = powers_of_R(law, z, four / n + (1 - 1 / n) * two, R)
    if law == "orthogonal":  # C_W²(Σ_jk)/(n(n + 2)): E z_1² z_2² of √R u
        E = E * n / (n + 2)
    return sp.cancel(n * (E - K3**2)), sp.cancel(K3)


def powers_of_R(law, z, polynomial, R):
    """E of a polynomial in R = Σ_j φ(z_j)² of layer 1: z_j i.i.d. N(0, 1), or √n times a uniform unit vector."""
    found = sp.S.Zero
    for (p,), c in sp.Poly(sp.expand(polynomial), R).terms():
        found += c * moment_of_R(law, p)
    return found


CACHE: dict = {}


def moment_of_R(law, p):
    """E R^p = Σ over ways to give p factors to neurons: compositions into parts, falling factorials of n."""
    if (law, p) not in CACHE:
        z = sp.Symbol("z")
        total = sp.S.Zero
        for shape in sp.utilities.iterables.partitions(p):
            parts = [part for part, times in shape.items() for _ in range(times)]
            ways = (
                sp.factorial(p)
                / prod(sp.factorial(part) for part in parts)
                / prod(sp.factorial(t) for t in shape.values())
            )
            falling = prod((n - j for j in range(len(parts))), start=sp.S.One)
            factors = [{q: c for (q,), c in sp.Poly(phi(z) ** (2 * part), z).terms()} for part in parts]
            by_degree: dict[int, sp.Expr] = {0: sp.S.One}
            for f in factors:  # both laws need only the products of double factorials, and the total degree
                new: dict[int, sp.Expr] = {}
                for d, v in by_degree.items():
                    for q, c in f.items():
                        new[d + q] = new.get(d + q, 0) + v * c * sp.factorial2(q - 1)
                by_degree = new
            for d, v in by_degree.items():
                if law == "orthogonal":
                    v = v * n ** (d // 2) / prod((n + 2 * j for j in range(d // 2)), start=sp.S.One)
                total += ways * falling * v
        CACHE[law, p] = sp.together(total)
    return CACHE[law, p]


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_polynomial_layers_expand_to_the_maps(law):
    """E over three layers of a cubic network, exact in n, has the derived V and G1 as its coefficients of 1/n."""
    V3, K3 = exact_third_layer_vertex(law)
    start = {K: sp.S.One, V_: -2 if law == "orthogonal" else 0, correlator("G1", (0, 0)): sp.S.Zero}
    z = sp.Symbol("z", real=True)
    maps = {
        x: in_averages(correlator_map(x, weights=law), phi(z)).doit().subs({C_W: 1, C_b: 0}) for x in ("K", "V", "G1")
    }
    names = {"K": K, "V": V_, "G1": correlator("G1", (0, 0))}
    for _ in range(2):
        start = {names[x]: m.subs(start) for x, m in maps.items()}
    assert sp.limit(V3, n, sp.oo) == start[V_]
    assert sp.limit(K3, n, sp.oo) == start[K]
    assert sp.limit(n * (K3 - start[K]), n, sp.oo) == start[names["G1"]]
    other = {"gaussian": "orthogonal", "orthogonal": "gaussian"}[law]
    assert exact_third_layer_vertex(other)[0].subs(n, 10**9) != pytest.approx(float(start[V_]), rel=1e-6)


# ------------------------------------------------------------------------------------------------- finite networks


def iterated(phi, law, names, depth, bias):
    """[{name: value}] of layers 1 … depth at σ_w = 1, σ_b = bias, rates 1 and 1/2, |x|² = N_0 = n."""
    keys = {x: correlator(x, (0,) * (2 if x in correlator_maps.MEANS else 4)) for x in NAMES}
    at = {C_W: 1, C_b: bias**2, lambda_w: 1, lambda_b: sp.Rational(1, 2)}
    maps = {x: in_averages(correlator_map(x, weights=law), phi).subs(at) for x in names}
    state = dict.fromkeys(keys.values(), sp.S.Zero) | {keys["K"]: 1 + bias**2, keys["Theta"]: sp.Rational(3, 2)}
    state[keys["V"]] = -2 if law == "orthogonal" else sp.S.Zero
    found = [state]
    for _ in range(depth - 1):
        found.append(found[-1] | {keys[x]: m.subs(found[-1]).evalf(15) for x, m in maps.items()})
    return [{x: float(layer[keys[x]]) for x in names} for layer in found]


def assert_networks(phi, law, measured, widths, networks, factor=1.0, of=None):
    """Estimates at several widths, extrapolated by x₀ + x₁/n + x₂/n², are the theory's values (times `factor`; those of
    the weights `of`): |z| ≤ 4 at layers 2 and 3, whose mean square is that of a standard normal's."""
    bias, seen = sp.Rational(3, 10), []
    names = NAMES if set(measured) & set("PQRSTU") else ("K", "Theta", "G1", "Theta1", "V", "A", "B", "D", "F")
    theory = iterated(phi, of or law, names, 3, bias)
    runs = [
        mf.measure(
            mf.derive(phi, weights=law),
            sigma_w=1,
            sigma_b=0.3,
            width=w,
            depth=3,
            networks=networks,
            seed=4,
            quantities=measured,
            rates=(1.0, 0.5),
        )
        for w in widths
    ]
    powers = np.vander(1 / np.array(widths), 3, increasing=True)
    for x in measured:
        for layer in (1, 2):
            mean, error = (
                np.array([np.ravel(getattr(r.estimate(x), part))[layer] for r in runs])
                for part in ("mean", "standard_error")
            )
            first = (np.linalg.pinv(powers / error[:, None]) / error)[0]
            seen.append((first @ mean - factor * theory[layer][x]) / np.sqrt(first**2 @ error**2))
    assert np.abs(seen).max() < 4, f"not the theory's values: z = {seen}"
    assert np.mean(np.square(seen)) < 2.5, f"not standard normal: z = {seen}"


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_correlators_of_finite_networks(law):
    """V, A, B, D, F of tanh networks with biases, n = 12, 24, 48; 1.3 times B and F fail."""
    assert_networks("tanh", law, ("V", "A", "B", "D", "F"), (12, 24, 48), 2000)
    with pytest.raises(AssertionError, match="not the theory's values"):
        assert_networks("tanh", law, ("B", "F"), (12, 24, 48), 2000, factor=1.3)
    for alone in ("V", "B", "F"):
        with pytest.raises(AssertionError, match="not the theory's values"):
            other = "gaussian" if law == "orthogonal" else "orthogonal"
            assert_networks("tanh", law, (alone,), (12, 24, 48), 6000, of=other)


@pytest.mark.slow
def test_higher_correlators_of_finite_networks():
    """P, Q, R, S, T, U of GELU networks with biases and orthogonal weights, n = 8, 12, 16."""
    assert_networks("gelu", "orthogonal", tuple("PQRSTU"), (8, 12, 16), 700)


# ------------------------------------------------------------------------------------------------------- recursions


@pytest.mark.parametrize(
    ("weights", "vertex"),
    [
        ("orthogonal", lambda l: 3 * l - 5),
        pytest.param("gaussian", lambda l: 5 * (l - 1), marks=pytest.mark.slow),
        ("mixed", lambda l: 3 * (l - 1)),
    ],
)
def test_relu_exactly(weights, vertex):
    """Ṽ = 3l − 5, 5(l − 1), 3(l − 1) at σ_w = √2 (4.19); K does not move."""
    layers = correlator_recursion("relu", weights=weights, quantities="V").doit()
    found = layers.iterate({"sigma_w": sp.sqrt(2), "sigma_b": 0, "Q0": 3}, 6)
    for l, layer in enumerate(found, 1):
        assert layer["V"] / layer["K"] ** 2 == pytest.approx(vertex(l), abs=1e-25)
    assert layers.names == ("K", "V")


@pytest.mark.slow
def test_what_a_recursion_carries():
    """Each variable depends on itself and those before; Θ is that of the theory; φ decides what exists."""
    found = correlator_recursion("erf", weights="uniform")
    assert {"V0", "D0_H", *NAMES} == set(found.names)
    for i, step in enumerate(found.step):
        assert not step.free_symbols & {v.symbol for v in found.state[i + 1 :]}
    theory = mf.derive("erf").recursion("K", "Theta")
    assert found.only("K", "Theta").equals(theory)
    assert correlator_recursion("step").names == ("K", "V", "G1")
    assert not set(correlator_recursion("relu").names) & set("PQRSTU")
    start = correlator_recursion("erf", weights="orthogonal", inputs=2, rates=(1, "1/2")).start
    Q0, w2, b2 = (sp.Symbol("Q0", positive=True), *(sp.Symbol(f"sigma_{x}", nonnegative=True) ** 2 for x in "wb"))
    assert start["V"] == -(Q0**2) * w2**2 and start["K"] == Q0 * w2 + b2 and start["Theta"] == Q0 + sp.Rational(1, 2)


# ---------------------------------------------------------------------------------------------------- several inputs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["V", "A", "D", "F", "P", "T"])
def test_repeated_inputs_are_harmless(name):
    """Maps of the inputs 1, 2, 3, 4, all taken equal afterwards, are those of one input: derivatives by K_ab and by
    means against ⟨z f⟩/K; a cubic φ that is not odd, orthogonal weights."""
    z = sp.Symbol("z", real=True)
    cubic = z + z**2 / 3 - z**3 / 7
    one = sp.expand(in_averages(correlator_map(name, weights="orthogonal"), cubic).doit())
    four = sp.expand(in_averages(correlator_map(name, (1, 2, 3, 4), weights="orthogonal"), cubic).doit())
    same = {
        s: correlator(s.name.partition("_")[0], (0,) * (len(s.name.partition("_")[2])))
        for s in four.free_symbols
        if "_" in s.name and s.name[-1].isdigit()
    }
    assert sp.expand(four.xreplace(same) - one) == 0
    assert len(four.free_symbols) > 10


@pytest.mark.slow
def test_two_inputs_of_a_map():
    """V_(11)(22) of ReLU, orthogonal: one input's source at c = 1, −2 ⟨σσ⟩² + 0 at c = 0, as closed forms say."""
    e = in_averages(correlator_map("V", (1, 1, 2, 2), weights="orthogonal"), "relu").doit()
    K11, K12, K22 = (correlator("K", x) for x in ((1, 1), (1, 2), (2, 2)))
    source = e.subs({s: 0 for s in e.free_symbols if s.name.startswith("V")}).subs({K11: 1, K22: 1, C_W: 2})
    assert sp.simplify(source.subs(K12, 0) - 4 * (sp.Rational(1, 4) - sp.Rational(1, 4) - 2 / (2 * sp.pi) ** 2)) == 0
    assert sp.limit(source, K12, 1, "-") == 3


def start_of_two(law, K1):
    """{symbol: value} at layer 1 of two inputs with covariance K1 of z¹, rates 1 and 1/2, no biases, N_0 = n."""
    state = {}
    for a, b in product((1, 2), repeat=2):
        state[correlator("K", (a, b))] = K1[a - 1][b - 1]
        state[correlator("Theta", (a, b))] = K1[a - 1][b - 1] + 0.5
        state[correlator("G1", (a, b))] = state[correlator("Theta1", (a, b))] = 0.0
    for name in "VABDFPQRSTU":
        for at in product((1, 2), repeat=4):
            a, b, c, d = (x - 1 for x in at)
            vertex = -(K1[a][c] * K1[b][d] + K1[a][d] * K1[b][c])
            state[correlator(name, at)] = vertex if name == "V" and law == "orthogonal" else 0.0
    return state


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_two_inputs_of_finite_networks(law):
    """V, A, B, D, F of every pattern of two inputs at layer 2, sin networks, n = 12, 24, 48 extrapolated: |z| ≤ 4.5
    (of 5 × 16); V and B of the other weights fail."""
    K1 = [[1.0, 0.5], [0.5, 1.0]]
    widths, names = (12, 24, 48), ("V", "A", "B", "D", "F")
    runs = [
        mf.measure(
            mf.derive("sin", weights=law),
            sigma_w=1,
            sigma_b=0,
            width=w,
            depth=2,
            networks=800,
            seed=9,
            correlation=0.5,
            quantities=names,
            rates=(1.0, 0.5),
        )
        for w in widths
    ]
    state = start_of_two(law, K1) | {C_W: 1, C_b: 0, lambda_w: 1, lambda_b: sp.Rational(1, 2)}
    powers, seen, wrong = np.vander(1 / np.array(widths), 3, increasing=True), [], []
    other = "gaussian" if law == "orthogonal" else "orthogonal"
    known: dict = {}

    def value(x, indices, w):
        key = correlator(x, indices), w  # the same for all orders of the indices that its symmetry identifies
        if key not in known:
            known[key] = float(in_averages(correlator_map(x, indices, weights=w), "sin").doit().subs(state))
        return known[key]

    for x in names:
        for at in product((1, 2), repeat=4):
            indices = at if x in "VAD" else (at[0], at[2], at[1], at[3])  # B and F: those of one neuron first
            theory, planted = (value(x, indices, w) for w in (law, other))
            place = (1, *(a - 1 for a in at))
            mean, error = (
                np.array([getattr(r.estimate(x), part)[place] for r in runs]) for part in ("mean", "standard_error")
            )
            first = (np.linalg.pinv(powers / error[:, None]) / error)[0]
            seen.append((first @ mean - theory) / np.sqrt(first**2 @ error**2))
            if x in "VB":
                wrong.append((first @ mean - planted) / np.sqrt(first**2 @ error**2))
    assert np.abs(seen).max() < 4.5, seen
    assert np.abs(wrong).max() > 6
