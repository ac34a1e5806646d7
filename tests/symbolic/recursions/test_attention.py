"""Attention in the averaged theory: what its recursion is, what it is where it is known, and where tokens end."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.base.symbols import J, J_ab, K, K_ab, Theta, Theta_ab, distance, sigma_b, sigma_w, tokens
from meanfield.networks import Attention, Dense, LayerNorm, Network, Nonlinearity, Residual, RMSNorm, Scale, Sequential
from meanfield.networks import architectures as nets
from meanfield.symbolic.averages.nodes.overlap import overlap, overlap_slope
from meanfield.symbolic.recursions.block_recursions import one_input
from meanfield.symbolic.recursions.tokens.collapse import collapsed
from meanfield.symbolic.recursions.tokens.exchangeable import exchangeable
from meanfield.symbolic.recursions.tokens.shares import shares
from meanfield.symbolic.recursions.tokens.two_sequences import K_other, K_same, Theta_other, Theta_same, across

SIGMAS = {name: 1 for name in ("sigma_e", "sigma_q", "sigma_k", "sigma_v", "sigma_o", "sigma_1", "sigma_2")}


def own(name: str, bias: object = 0) -> Dense:
    return Dense(sigma_w=f"sigma_{name}", sigma_b=bias)


def heads(**more) -> Attention:
    return Attention(8, query=own("q"), key=own("k"), value=own("v"), **more)


def assert_equal(found: sp.Expr, expected: sp.Expr) -> None:
    assert sp.simplify(sp.expand(found - expected)) == 0, f"{found} is not {expected}"


def by_tokens(e: sp.Expr) -> sp.Expr:
    return e.xreplace({distance: 2 * K - 2 * K_ab})


# ----------------------------------------------------------------------------------------------- the map, written out


def published(slopes: int = 1) -> dict[str, sp.Expr]:
    """K′, K_ab′, J′ and J_ab′ of attention beside a skip of strength μ, written by hand; slopes: how many of the two
    query-key terms are kept."""
    s2, V, mu = sp.symbols("sigma_q sigma_k sigma_v sigma_o mu", real=True), None, None
    sigma_q, sigma_k, sigma_v, sigma_o = s2[:4]
    V, mu = (sigma_v * sigma_o) ** 2, s2[4]
    rho, j, a = K_ab / K, J / K, J_ab / K
    beta2 = (sigma_q * sigma_k) ** 2 * K**2 * (1 - rho)
    at = {1: sp.S.Zero, rho: beta2 * (1 - rho)}

    def Phi(r):
        return overlap(tokens, beta2, at[r])

    def Phi_r(r):
        return beta2 * overlap_slope(tokens, beta2, at[r])

    one = a + (j - a) * Phi(1) + slopes * (j * (1 - rho) + (j - a)) * Phi_r(1)
    two = a + (j - a) * Phi(rho) + slopes * (a * (1 - rho) + rho * (j - a)) * Phi_r(rho)
    return {
        "K": V * K * (rho + (1 - rho) * Phi(1)) + mu**2 * K,
        "K_ab": V * K * (rho + (1 - rho) * Phi(rho)) + mu**2 * K_ab,
        "J": V * K * one + mu**2 * J,
        "J_ab": V * K * two + mu**2 * J_ab,
    }


def canonical(e: sp.Expr) -> sp.Expr:
    """Positive symbols, and arguments of nodes multiplied out, so that equal formulas are equal."""
    e = by_tokens(e)
    plain = {s: sp.Symbol(s.name, positive=True) for s in e.free_symbols}
    e = e.xreplace(plain)
    return sp.expand(e.replace(lambda x: type(x).__name__ == "Overlap", lambda x: x.func(*map(sp.expand, x.args))))


@pytest.mark.slow_with("J_ab")
@pytest.mark.parametrize("name", ["K", "K_ab", "J", "J_ab"])
def test_the_map_is_the_one_derived_by_hand(name):
    block = Residual(Sequential((heads(), own("o"))), "mu")
    found = canonical(exchangeable(block).flat()[name])
    assert sp.simplify(found - canonical(published()[name])) == 0
    if name.startswith("J"):  # without the path through queries and keys it is another
        assert sp.simplify(found - canonical(published(0)[name])) != 0


def test_one_token_is_two_dense():
    block = Sequential((heads(), own("o", "sigma_b")))
    alone = exchangeable(block).replaced({"tokens": 1}).flat()
    plain = one_input(Sequential((own("v"), own("o", "sigma_b")))).flat()
    for name in ("K", "J", "Theta"):
        assert_equal(by_tokens(alone[name].doit()), plain[name])


def test_without_queries_attention_is_uniform():
    block = Sequential((Attention(8, query=Dense(sigma_w=0, sigma_b=0), value=own("v")), own("o")))
    found, V = exchangeable(block).flat(), sp.Symbol("sigma_v", real=True) ** 2 * sp.Symbol("sigma_o", real=True) ** 2
    mean = K_ab + (K - K_ab) / tokens
    for name, expected in (("K", mean), ("K_ab", mean), ("J", J_ab + (J - J_ab) / tokens)):
        difference = canonical(found[name]) - canonical(V * expected)
        assert sp.simplify(difference) == 0, name
    assert sp.simplify(canonical(found["K"]) - canonical(V * (K_ab + (K - K_ab) / (tokens + 1)))) != 0
    over_d = exchangeable(Sequential((Attention(8, scale="1/d", value=own("v")), own("o")))).flat()
    for name in ("K", "K_ab", "J"):  # untied queries and keys: their scores average out
        of_output = sp.Symbol("sigma_v", positive=True) ** 2 * sp.Symbol("sigma_o", positive=True) ** 2
        assert sp.simplify((canonical(over_d[name]) - canonical(found[name])) / of_output) == 0


def test_a_key_bias_changes_nothing_and_a_query_bias_does():
    def with_biases(query, key):
        attention = Attention(8, query=own("q", query), key=own("k", key), value=own("v"))
        return exchangeable(Sequential((attention, own("o")))).flat()

    plain, keyed, asked = with_biases(0, 0), with_biases(0, "sigma_b"), with_biases("sigma_b", 0)
    for name in ("K", "K_ab", "J", "J_ab", "Theta"):
        assert_equal(keyed[name], plain[name])
    assert asked["K"] != plain["K"]


def test_qk_norm_hides_deviations_of_queries_and_keys():
    found = exchangeable(Sequential((heads(qk_norm=True), own("o"))))
    assert not {"sigma_q", "sigma_k"} & {s.name for s in found.parameters}


# ------------------------------------------------------------------------------------------------- two inputs, shares


@pytest.mark.slow
def test_two_inputs_that_are_one_have_its_law():
    block = Residual(Sequential((LayerNorm(affine=False), heads(), own("o"))))
    both, one = across(block).flat(), exchangeable(block).flat()
    same = {K_same: K, K_other: K_ab, Theta_same: Theta, Theta_other: Theta_ab}
    for name, alike in (("K_same", "K"), ("K_other", "K_ab"), ("Theta_same", "Theta"), ("Theta_other", "Theta_ab")):
        difference = canonical(both[name].xreplace(same)) - canonical(one[alike])
        assert sp.simplify(difference) == 0, name
    nonlinear = Residual(Sequential((LayerNorm(affine=False), Nonlinearity("relu"), Dense(), heads(), own("o"))))
    twice, once = across(nonlinear), exchangeable(nonlinear)
    at = {"sigma_w": 1, "sigma_b": 0, "sigma_q": 2, "sigma_k": 1, "sigma_v": 1, "sigma_o": 1, "tokens": 4, "Q0": 1}
    at |= {"K": 1, "K_ab": sp.Rational(1, 4), "distance": sp.Rational(3, 2), "c0": 0, "c_same": 1, "c_other": 0}
    alike = {"K_same": 1, "K_other": sp.Rational(1, 4)}
    one_step = twice.only("K_same", "K_other").iterate(at | alike, 2, 12)[-1]
    known = once.only("K", "K_ab").iterate(at, 2, 12)[-1]
    assert float(one_step["K_same"]) == pytest.approx(float(known["K"]), rel=1e-10)
    assert float(one_step["K_other"]) == pytest.approx(float(known["K_ab"]), rel=1e-10)
    crossed = canonical(both["K_same"].xreplace(same | {K_other: K_ab / 2})) - canonical(one["K"])
    assert sp.simplify(crossed) != 0


@pytest.mark.slow
def test_shares_of_matrices_add_up_to_the_tangent_kernel():
    block = Residual(Sequential((LayerNorm(affine=False), heads(), own("o", "sigma_b"))))
    parts, whole = shares(block), exchangeable(block).flat()["Theta"]
    total = sp.Add(*[parts.flat()[n] for n in parts.names if n.startswith("Theta[")])
    none = {s: sp.S.Zero for s in total.free_symbols if s.name.startswith("Theta")}
    none |= {s: Theta for s in none if s.name == "Theta[0]"} | {s: Theta_ab for s in none if s.name == "Theta_ab[0]"}
    assert sp.simplify(canonical(total.xreplace(none)) - canonical(whole)) == 0


def test_queries_learn_as_keys_and_values_as_outputs():
    """Θ_Q = Θ_K = V(1 − ρ)Φ_r(1) and Θ_V = Θ_O = V[ρ + (1 − ρ)Φ(1)] of one layer at K = 1."""
    parts = shares(Sequential((heads(), own("o")))).flat()
    fresh = {s: sp.S.Zero for n in parts.names for s in parts[n].free_symbols if s.name.startswith("Theta")}
    made = [canonical(parts[f"Theta[{d}]"].xreplace(fresh)) for d in (1, 2, 3, 4)]
    assert sp.simplify(made[0] - made[1]) == 0 and sp.simplify(made[2] - made[3]) == 0
    assert sp.simplify(made[0] - made[2]) != 0
    at = {s: sp.S.One for s in made[0].free_symbols if s.name.startswith("sigma") or s.name == "K"}
    rho = sp.Symbol("K_ab", positive=True)
    expected = (1 - rho) ** 2 * overlap_slope(sp.Symbol("tokens", positive=True), 1 - rho, sp.S.Zero)
    assert sp.simplify(made[0].xreplace(at) - canonical(expected)) == 0


# ------------------------------------------------------------------------------------------------------ rank collapse


def moments(f, slope, sigma_1: float) -> tuple[float, float]:
    """κ = ⟨φ²⟩ and χ = σ₁²⟨φ′²⟩ at variance σ₁², by SciPy."""
    def mean(g):
        return quad(lambda z: g(sigma_1 * z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi), -12, 12, epsabs=1e-12)[0]

    return mean(lambda z: f(z) ** 2), sigma_1**2 * mean(lambda z: slope(z) ** 2)


@pytest.mark.parametrize(("act", "sigma_1", "f", "slope"), [
    ("tanh", 2.0, np.tanh, lambda z: np.cosh(z) ** -2.0),
    ("sin", 1.5, np.sin, np.cos),
])  # fmt: skip
def test_order_ends_where_the_feed_forward_layer_turns_tokens_apart(act, sigma_1, f, slope):
    """Pre-LN: order iff σ₂²(χ − κ) < V, whatever the scores; 1 − c ~ l^x, x = (σ₂²(χ − κ) − V)/(σ₂²κ + V)."""
    kappa, chi = moments(f, slope, sigma_1)
    theory, edge = mf.derive(act, architecture="gpt", heads=8, causal=False), 1 / (chi - kappa)
    for factor, name in ((0.98, "ordered"), (1.02, "chaotic")):
        at = SIGMAS | {"sigma_1": sigma_1, "sigma_2": float(np.sqrt(factor * edge)), "sigma_q": 3}
        found = theory.phase(tokens=16, **at)
        # maps at c = 1 prove nothing of tokens that start far apart
        assert found.name == name and found.status is Status.MEASURED and "nearly alike" in str(found)
    at = SIGMAS | {"sigma_1": sigma_1, "sigma_2": 1}
    law = theory.depth_law("c", tokens=16, **at)
    assert {theory.depth_law(q, tokens=16, **at).status for q in ("K", "J", "distance", "c")} == {Status.MEASURED}
    x = (chi - kappa - 1) / (kappa + 1)
    assert float(law.terms[1].power) == pytest.approx(x, abs=1e-9)
    assert float(law.terms[1].power) != pytest.approx(x * 1.01, abs=1e-4)
    with pytest.raises(mf.MeanFieldError, match="do not come together"):
        theory.depth_law("c", tokens=16, **(at | {"sigma_2": float(np.sqrt(1.02 * edge))}))


def test_the_line_between_order_and_chaos_is_an_object():
    """Its zeros are the edges of two-dimensional integrals, and phase agrees on both sides."""
    for act, sigma_1, f, slope in (("tanh", 2.0, np.tanh, lambda z: np.cosh(z) ** -2.0), ("sin", 1.5, np.sin, np.cos)):
        kappa, chi = moments(f, slope, sigma_1)
        line = mf.derive(act, architecture="gpt", heads=8, causal=False).critical_line()
        (found,) = line.at(sigma_1=sigma_1, sigma_v=1.2, sigma_o=0.7)
        edge = (1.2 * 0.7) ** 2 / (chi - kappa)
        assert float(found.value) ** 2 == pytest.approx(edge, rel=1e-10)
        assert float(found.value) ** 2 != pytest.approx(edge * 1.0001, rel=1e-6)
        # and along another deviation: the same point
        back = line.at(sigma_2=found.value, sigma_v=1.2, sigma_o=0.7)
        assert min(abs(float(x.value) - sigma_1) for x in back) < 1e-12
    gelu = mf.derive("gelu", architecture="gpt", heads=8, causal=False).critical_line()
    assert float(gelu.at(sigma_1=1, sigma_v=1, sigma_o=1)[0].value) ** 2 == pytest.approx(32.65, abs=5e-3)


@pytest.mark.slow_with("post-1/2-3-0.2")
@pytest.mark.parametrize(("norm", "mu", "sigma_1", "sigma_v"), [
    ("post", 1, 3.5, 1), ("post", "1/2", 3, 0.2), ("pre", "1/2", 4, 1),
])  # fmt: skip
def test_phase_agrees_on_both_sides_of_the_line(norm, mu, sigma_1, sigma_v):
    theory = mf.derive("tanh", architecture="gpt", heads=8, causal=False, norm=norm, mu=mu)
    (edge,) = theory.critical_line().at(sigma_1=sigma_1, sigma_v=sigma_v, sigma_o=1)
    at = SIGMAS | {"sigma_1": sigma_1, "sigma_v": sigma_v}
    sides = [theory.phase(tokens=8, **(at | {"sigma_2": float(edge.value) * f})).name for f in (0.995, 1.005)]
    assert sides == ["ordered", "chaotic"]


def test_where_there_is_no_line():
    for norm in ("pre", "post", "peri"):
        line = mf.derive("relu", architecture="gpt", heads=8, causal=False, norm=norm).critical_line()
        assert line.kind == "none" and line.message.startswith("ordered")
        with pytest.raises(mf.MeanFieldError, match="no line to look for"):
            line.at(sigma_v=1)
    two = mf.derive("tanh", architecture="gpt", heads=8, causal=False, mu=2)
    assert two.critical_line().kind == "everywhere"  # K grows geometrically, and both by the same factor
    assert two.phase(tokens=8, **(SIGMAS | {"sigma_2": 9})).name == "critical"
    with pytest.raises(mf.MeanFieldError, match="settles is not solved"):
        mf.derive("tanh", architecture="gpt", heads=8, causal=False, mu="mu").critical_line()
    with pytest.raises(mf.MeanFieldError, match="cubed in a layer"):
        mf.derive(Sequential((heads(), own("o")))).critical_line()
    line = mf.derive("tanh", architecture="gpt", heads=8, causal=False).critical_line()
    with pytest.raises(mf.MeanFieldError, match="all but one"):
        line.at(sigma_1=1)
    with pytest.raises(mf.MeanFieldError, match="'sigma_q' is no symbol"):
        line.at(sigma_q=1)


@pytest.mark.slow
def test_entropy_is_that_of_every_softmax():
    theory = mf.derive("relu", architecture="gpt", heads=8, causal=False)
    run = theory.propagate(depth=3, tokens=4, quantities=("K", "entropy"), **SIGMAS)
    one = theory.propagate(depth=3, tokens=4, quantities=("K", "entropy[1]"), **SIGMAS)
    assert np.array_equal(run["entropy[1]"], one["entropy[1]"])


@pytest.mark.slow
def test_relu_never_keeps_tokens_apart():
    theory = mf.derive("relu", architecture="gpt", heads=8, causal=False)
    for sigma_2 in (1, 30):
        assert theory.phase(tokens=16, **(SIGMAS | {"sigma_2": sigma_2})).name == "ordered"


def test_post_norm_attention_contracts_by_the_skip():
    """1 − c shrinks by μ²/(μ² + V) a layer."""
    block = Sequential((Residual(Sequential((heads(), own("o"))), 2), LayerNorm()))
    found = mf.derive(block).phase(sigma_w=1, sigma_b=0, sigma_q=1, sigma_k=1, sigma_v=1, sigma_o=3, tokens=8)
    assert found.name == "ordered" and found.chi_J.value == sp.Rational(4, 13)


@pytest.mark.slow
def test_alone_attention_takes_the_third_power():
    """1 − c′ = (1 − c)³ σ²(T − 1)/T² without a skip, to leading order, and c′ to all digits of 1 − c."""
    theory = mf.derive(Sequential((Attention(8, query=own("q"), key=own("k")), Dense())))
    assert theory.phase(sigma_w=1, sigma_b=0, sigma_q=1, sigma_k=1, tokens=16).name == "ordered"
    with pytest.raises(mf.MeanFieldError, match="third power"):
        theory.depth_law("c", sigma_w=1, sigma_b=0, sigma_q=1, sigma_k=1, tokens=16)
    at = dict(sigma_w=1, sigma_b=0, sigma_q=1, sigma_k=1, tokens=16, depth=2, quantities=("K", "distance"))
    run = theory.propagate(start={"K": 1, "distance": 6e-3}, **at)
    assert float(run.distance[-1] / (2 * run.K[-1])) == pytest.approx(1.590e-9, rel=1e-3)  # networks: 1.600e-9 ± 3e-11
    for gap in (3e-3, 1e-40, 1e-100):
        run = theory.propagate(
            sigma_w=1, sigma_b=0, sigma_q=1, sigma_k=1, tokens=16, depth=2, quantities=("K", "distance"),
            start={"K": 1, "distance": 2 * gap},
        )  # fmt: skip
        made = run.log_distance[-1] - np.log(2 * run.K[-1])
        tolerance = gap * 10 if gap > 1e-6 else 1e-10
        assert made == pytest.approx(3 * np.log(gap) + np.log(15 / 256), abs=tolerance)


@pytest.mark.slow
def test_collapsed_tokens_are_one_token():
    block = nets.gpt("relu", heads=8, causal=False).block
    one = collapsed(block).doit()
    plain = one_input(nets.gpt("relu", heads=8, causal=False).block.blocks[1]).doit()
    assert one["K"].has(K) and plain["K"].has(K)
    near = collapsed(block, "difference").doit()
    assert sp.simplify(near["J"] / J - plain["J"].subs(K, K + 1) / J).free_symbols  # attention adds to K alone


@pytest.mark.slow
def test_tokens_end_where_the_feed_forward_layer_keeps_them():
    """Where a norm holds K, at the end of a run; where K grows, at the end of a long one."""
    held = mf.derive("erf", architecture="gpt", heads=8, causal=False, norm="post")
    at = SIGMAS | {"sigma_v": 0.3, "sigma_1": 3, "sigma_2": 3, "tokens": 16}
    found, run = held.correlations(**at), held.propagate(depth=200, quantities=("c",), **at)
    assert [p.stability for p in found] == ["unstable", "stable"]
    assert found[1].c == pytest.approx(float(run.c[-1]), abs=1e-9) and found[1].c != pytest.approx(0.03, abs=1e-4)
    free = mf.derive("erf", architecture="gpt", heads=8, causal=False)
    at = SIGMAS | {"sigma_1": 2, "sigma_2": 3, "tokens": 16}
    end, K1 = free.correlations(**at)[1].c, 1e6
    for off in (-1e-3, 1e-3):  # at large K tokens move towards it from both sides
        start = {"K": K1, "distance": 2 * K1 * (1 - end - off)}
        run = free.propagate(depth=2, quantities=("K", "distance"), start=start, **at)
        moved = start["distance"] / K1 - float(run.distance[-1] / run.K[-1])
        assert moved * off < 0 and abs(moved) * K1 > 1e-5
    mixed = Residual(Sequential((heads(), Dense(), Nonlinearity("erf"), Dense())), "1/2")
    with pytest.raises(mf.MeanFieldError, match="does not settle apart"):
        mf.derive(mixed).correlations(sigma_w=6, sigma_b=0.1, sigma_q=1, sigma_k=1, sigma_v=1, tokens=8)


@pytest.mark.slow  # averages of two tanh are compiled
def test_tokens_end_twice_beyond_the_edge_of_order():
    """tanh, σ₁ = 2, twice beyond the edge, T = 16, σ = 1: c* = .631."""
    theory = mf.derive("tanh", architecture="gpt", heads=8, causal=False)
    found = theory.correlations(**(SIGMAS | {"sigma_1": 2, "sigma_2": "sqrt(5.148)", "tokens": 16}))
    assert found[1].stability == "stable" and found[1].c == pytest.approx(0.6313, abs=1e-4)


@pytest.mark.slow
def test_against_the_limit_of_many_tokens():
    """T = 512, ρ = .3, σ = 1.5 √(log T): the T → ∞ theory has K′ − K_ab′ = 0, the exact one .1266."""
    theory = mf.derive(Sequential((heads(), own("o"))))
    sigma = np.sqrt(1.5 * np.sqrt(np.log(512)))
    run = theory.propagate(
        sigma_w=1, sigma_b=0, sigma_q=sigma, sigma_k=sigma, sigma_v=1, sigma_o=1, tokens=512, depth=2,
        quantities=("K", "distance"), start={"K": 1, "distance": 1.4},
    )  # fmt: skip
    assert float(run.distance[-1]) / 2 == pytest.approx(0.1266, abs=1e-4)


def test_six_layers_beside_a_skip():
    """σ = 3, μ = 1, T = 16, c = .2 where tokens enter, a norm before: ρ .671, K 4.86, J 21.8 (networks .675, 4.76 ±
    .07, 20.6 ± 1.4)."""
    theory = mf.derive(Residual(Sequential((LayerNorm(), heads(), own("o")))))
    run = theory.propagate(
        sigma_w=1, sigma_b=0, sigma_q=3, sigma_k=1, sigma_v=1, sigma_o=1, tokens=16, depth=7, correlation=0.2,
        quantities=("K", "c", "J"),
    )  # fmt: skip
    assert float(run.c[-1]) == pytest.approx(0.671, abs=5e-4) and float(run.K[-1]) == pytest.approx(4.86, abs=5e-3)
    assert float(run.J[-1]) == pytest.approx(21.8, abs=0.1)


def test_where_queries_learn_at_collapse():
    """Θ_Q/Θ_V = (1 − ρ)²σ²(T − 1)/T² where tokens are nearly alike [2206.03126]."""
    theory, gap = mf.derive(Sequential((heads(), own("o")))), 1e-6
    run = theory.propagate(
        sigma_w=1, sigma_b=0, sigma_q=2, sigma_k=1, sigma_v=1, sigma_o=1, tokens=16, depth=2,
        quantities=("Theta[1]", "Theta[3]"), start={"K": 1, "distance": 2 * gap},
    )  # fmt: skip
    ratio = float(run.values["Theta[1]"][-1] / run.values["Theta[3]"][-1])
    assert ratio == pytest.approx(gap**2 * 4 * 15 / 256, rel=1e-4)


@pytest.mark.slow
def test_laws_leave_open_what_the_way_to_collapse_decides():
    """K − 3l/2 grows as l^(1/3) and log J − log l depends on the start: neither is O(1) or known."""
    theory = mf.derive("relu", architecture="gpt", heads=8, causal=False)
    at = SIGMAS | {"tokens": 64}
    of_K, of_J = theory.depth_law("K", **at), theory.depth_law("J", **at)
    assert of_K.remainder == of_J.remainder == "smaller" and str(of_K.law.expr) == "3*l/2"
    assert any(str(t.coefficient) == "C" for t in of_J.terms) and of_J.exponent == 1
    run = theory.propagate(depth=8000, quantities=("K", "J"), **at)
    left = [float(run.K[n - 1]) - 1.5 * n for n in (1000, 8000)]
    assert left[1] / left[0] == pytest.approx(2, rel=0.1)  # not a constant
    ends = [float(theory.propagate(depth=4000, correlation=c, quantities=("J",), **at).log_J[-1]) for c in (0, 0.9)]
    assert abs(ends[0] - ends[1]) > 0.5
    plain = mf.derive(Residual(Sequential((heads(), own("o")))))
    ones = {"sigma_w": 1, "sigma_b": 0, "sigma_q": 1, "sigma_k": 1, "sigma_v": 1, "sigma_o": 1, "tokens": 8}
    assert plain.depth_law("c", **ones).terms[1].rate == -sp.log(2)
    with pytest.raises(mf.MeanFieldError, match="scores grow"):
        plain.depth_law("J", **ones)


def test_scores_that_vanish_leave_the_mean_over_tokens():
    uniform = mf.derive(Residual(Sequential((LayerNorm(), Attention(8, scale="1/d"), Dense()))))
    run = uniform.propagate(sigma_w=1, sigma_b=0, depth=3, tokens=4, quantities=("K", "K_ab", "J", "distance"))
    assert run.K[1] == pytest.approx(1.25) and run.K_ab[1] == pytest.approx(0.25)
    assert [p.stability for p in uniform.correlations(sigma_w=1, sigma_b=0, tokens=4)] == ["stable"]


@pytest.mark.slow
def test_sampled_J_keeps_its_digits_where_tokens_are_alike():
    block = Residual(Sequential((Attention(8, query=Dense(sigma_w=1, sigma_b=0)), Dense())))
    at = dict(sigma_w=1, sigma_b=0, depth=14, tokens=8, correlation=0.9)
    drawn = mf.derive(block).sample(draws=6, quantities=("J",), **at).samples["log_J"][:, -1]
    assert drawn.mean() == pytest.approx(float(mf.derive(block).propagate(quantities=("J",), **at).log_J[-1]), abs=0.1)


@pytest.mark.slow_with("settings4-all 0")
@pytest.mark.parametrize(("settings", "match"), [
    ({"correlation": -0.34}, "lies in"),
    ({"c_same": 1.5, "c_other": 0, "quantities": ("K_same",)}, "contradict"),
    ({"start": {"K": 1, "distance": 3.9}}, "at most 2K"),
    ({"tokens": 1, "quantities": ("entropy[1]",)}, "log T"),
    ({"sigma_e": 0}, "all 0"),
])  # fmt: skip
def test_tokens_that_cannot_be_are_refused(settings, match):
    theory = mf.derive("relu", architecture="gpt", heads=8, causal=False)
    with pytest.raises(mf.MeanFieldError, match=match):
        theory.propagate(**(SIGMAS | {"depth": 3, "tokens": 4} | settings))


@pytest.mark.slow
def test_correlations_near_the_edge_of_order_and_at_0():
    theory = mf.derive("erf", architecture="gpt", heads=8, causal=False)
    found = theory.correlations(**(SIGMAS | {"sigma_1": 2, "sigma_2": 1.363127 * 1.003, "tokens": 16}))
    assert 1 - found[1].c == pytest.approx(0.001779, rel=2e-3)
    apart = mf.derive("erf", architecture="encoder_postln").correlations(
        **(SIGMAS | {"sigma_o": 0, "sigma_1": 3, "sigma_2": 2, "tokens": 8})
    )
    assert apart[1].c == 0 and apart[1].stability == "stable"


@pytest.mark.slow
def test_a_check_compares_tokens():
    block = Residual(Sequential((LayerNorm(), Attention(8, key_dim=32), Dense())))
    found = mf.check(block, sigma_w=1, sigma_b=0, width=128, depth=3, networks=60, tokens=4, quantities=("K", "K_ab"))
    assert found.passed
    wrong = mf.check(block, sigma_w=1, sigma_b=0.3, width=128, depth=3, networks=60, tokens=4, quantities=("K",))
    assert wrong.passed  # another theory beside its own networks


@pytest.mark.slow
def test_a_language_model_gets_its_deviations():
    found = mf.recommend("gpt", depth=13, width=768, heads=12, context=32)
    gpt2 = found.recipes[0]
    assert gpt2.growth == pytest.approx(189, rel=0.02) and gpt2.K[1] / gpt2.K[0] == pytest.approx(13, rel=0.03)
    assert gpt2.c[-1] == pytest.approx(0.65, abs=0.01) and gpt2.log_J[-1] == pytest.approx(np.log(200), abs=0.05)
    own_, far = found.followed, np.abs(np.log(gpt2.query_share)).max()
    assert own_.growth < 3 < gpt2.growth and abs(own_.log_J[-1]) < abs(gpt2.log_J[-1])
    assert np.abs(np.log(own_.query_share)).max() < 0.1 * far and own_.least_share >= 0.25
    assert [one.key for one in found.layers][:5] == ["input", "query", "key", "value", "output"]
    assert found.layers[1].weight_std == pytest.approx(found.layers[1].sigma_w / np.sqrt(768))
    compile(found.torch(), "pasted", "exec")
    drawn = mf.derive(found.network).sample(depth=13, tokens=32, draws=2, quantities=("K",)).estimate("K").mean
    assert drawn[-1] / drawn[0] == pytest.approx(own_.growth, rel=0.05)


@pytest.mark.parametrize(("settings", "match"), [
    ({}, "give context="),
    ({"context": 8, "heads": 7}, "divide its width"),
    ({"context": 1, "heads": 8}, "context"),
])  # fmt: skip
def test_what_recommend_needs_of_a_language_model(settings, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        mf.recommend("gpt", depth=5, width=96, **settings)


@pytest.mark.fast_with("encoder_postln")
@pytest.mark.parametrize("preset", ["llama", "encoder_postln", "peri", "deepnorm"])
def test_every_placement_of_norms_gets_an_answer(preset):
    more = {"alpha": 2} if preset == "deepnorm" else {}
    found = mf.recommend(preset, depth=4, width=64, heads=8, context=6, seed=2, **more)
    assert np.isfinite(found.followed.K).all() and found.followed.query_share.min() > 0.05
    assert found.followed.growth < 8


def recommended(block, **more):
    return mf.recommend(block, **({"depth": 5, "width": 64, "context": 8} | more))


def test_recommend_keeps_what_the_record_says():
    block = nets.gpt(heads=8, sigma_o="1/2", total=1)
    found = recommended(block)
    assert found.sigmas["output"][0] == pytest.approx(0.25)  # 1/2 over the root of 4 blocks
    assert found.network.block.blocks[0].branch.blocks[2].sigma_w == mf.Schedule("1/2", 0, 1)
    biased = recommended(Residual(Sequential((LayerNorm(), Attention(8), Dense(sigma_b="1/10")))))
    assert biased.sigmas["output"][1] == 0.1 and biased.followed.fractions.min() > 0.05
    tokens_ = recommended(Residual(Sequential((LayerNorm(), Attention(8), Dense(axis="tokens"), Dense()))))
    assert [one.fan_in for one in tokens_.layers if one.axis == "tokens"] == [8]
    other = Residual(Sequential((LayerNorm(), Dense(), Nonlinearity("relu"), Dense())))
    beside = recommended(Residual(Sequential((LayerNorm(), Attention(8), Dense())), 1, other))
    assert beside.followed.least_share > 0.24 and beside.followed.shares.shape == (2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("mu", ["1/2", "9/10", "6/5"])
def test_skips_of_other_strengths_get_finite_deviations(mu):
    found = recommended("gpt", heads=8, mu=mu)
    assert max(one.sigma_w for one in found.layers) < 4 and any("does not carry" in one for one in found.caveats)


@pytest.mark.parametrize(("block", "match"), [
    (Sequential((LayerNorm(), Attention(8), Dense())), "has none"),
    (Residual(Sequential((LayerNorm(), Attention(8, value=Dense(sigma_w=0, sigma_b=0)), Dense()))), "adds nothing"),
    (Residual(Sequential((Residual(Sequential((LayerNorm(), Attention(8), Dense()))), Dense()))), "inside"),
    (nets.deepnorm(heads=8), "alpha is a symbol"),
])  # fmt: skip
def test_what_recommend_does_not_choose_gets_a_sentence(block, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        recommended(block)


# -------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("ask", [
    lambda theory: theory.fixed_points(tokens=4, **SIGMAS),
    lambda theory: theory.critical_line("K"),
    lambda theory: theory.critical_points(),
    lambda theory: theory.phase_diagram(),
    lambda theory: theory.bias(tokens=4, **SIGMAS),
    lambda theory: theory.kernel([[1.0], [2.0]], depth=2, **SIGMAS),
])  # fmt: skip
def test_what_has_no_meaning_for_tokens_says_what_has(ask):
    with pytest.raises(mf.MeanFieldError, match=r"correlations say|order and chaos|K_same|tokens of an input act"):
        ask(mf.derive("relu", architecture="gpt", heads=8, causal=False))


@pytest.mark.slow
def test_tables_of_attention_are_set():
    for theory in (mf.derive("relu", architecture="gpt", causal=False), mf.derive(Sequential((Attention(8), Dense())))):
        assert "Phi" in theory.latex() and "Phi" in str(theory.table())


@pytest.mark.parametrize(("block", "match"), [
    (Sequential((heads(causal=True), Dense())), "causal mask"),
    (Sequential((heads(rotary=True), Dense())), "rotary"),
    (Sequential((Attention(2), Dense())), "2 heads"),
    (Sequential((heads(), Nonlinearity("tanh"), Dense())), "mixture"),
    (Sequential((heads(),)), "not Gaussian"),
    (Sequential((heads(), Dense(), mf.BatchNorm(), Nonlinearity("tanh"), Dense())), "BatchNorm"),
])  # fmt: skip
def test_what_the_averaged_theory_does_not_know_is_refused_by_name(block, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        mf.derive(block).propagate(
            sigma_w=1, sigma_b=0, sigma_q=1, sigma_k=1, sigma_v=1, depth=3, tokens=8, quantities=("K",)
        )


@pytest.mark.parametrize(("made", "match"), [
    (lambda: Attention(0), "heads"),
    (lambda: Attention(8, groups=3), "divide"),
    (lambda: Attention(8, key_dim=3, rotary=True), "even"),
    (lambda: Attention(8, scale="1"), "scale"),
    (lambda: Attention(8, rotary=0.5), "base > 1"),
    (lambda: Attention(8, query=LayerNorm()), "query of an Attention is a Dense"),
    (lambda: Attention(8, value=Dense(expand=2)), "value_dim"),
    (lambda: nets.gpt(norm="both"), "norm"),
])  # fmt: skip
def test_records_that_do_not_fit_get_a_sentence(made, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        made()


def test_the_number_of_tokens_is_asked_for():
    theory = mf.derive(Sequential((Attention(8), Dense())))
    with pytest.raises(mf.MeanFieldError, match="give tokens="):
        theory.propagate(sigma_w=1, sigma_b=0, depth=3)
    with pytest.raises(mf.MeanFieldError, match="whole number from 1"):
        theory.propagate(sigma_w=1, sigma_b=0, depth=3, tokens=2.5)


# ------------------------------------------------------------------------------------------------------- other records


def test_rms_norm_divides_by_the_second_moment():
    relu = Sequential((Nonlinearity("relu"), RMSNorm(), Dense()))
    assert_equal(one_input(relu).doit()["K"], sigma_w**2 + sigma_b**2)
    odd = [one_input(Sequential((Nonlinearity("tanh"), norm, Dense()))) for norm in (RMSNorm(), LayerNorm())]
    for name in ("K", "J"):
        assert mf.equal(odd[0][name], odd[1][name])
    chains = [Sequential((Nonlinearity("relu"), norm, Dense())) for norm in (RMSNorm(), LayerNorm())]
    uneven = [one_input(one).doit()["J"] for one in chains]
    assert not mf.equal(*uneven)


def test_a_scale_follows_a_schedule():
    falling = Residual(Sequential((LayerNorm(), Scale(mf.Schedule(1, 1)), Dense())))
    assert mf.equal(one_input(falling)["K"], K + sigma_b**2 + sigma_w**2 / (mf.symbols.l - 1))


def test_presets_place_their_norms():
    def norms(block):
        parts = [part.branch.blocks if isinstance(part, Residual) else (part,) for part in block.blocks]
        return [sum(isinstance(one, LayerNorm | RMSNorm) for one in held) for held in parts]

    assert norms(nets.gpt().block) == [1, 1] and norms(nets.peri().block) == [2, 2]
    assert norms(nets.encoder_postln().block) == [0, 1, 0, 1] == norms(nets.deepnorm(alpha=2).block)
    assert isinstance(nets.llama().block.blocks[0].branch.blocks[0], RMSNorm)
    assert isinstance(nets.gpt(), Network) and nets.gpt().first.sigma_w == mf.Param("sigma_e")


# ------------------------------------------------------------------------------------------------- against networks


def assert_close(measured: np.ndarray, expected: float, width: int) -> None:
    """A mean over networks, 4 standard errors and a share 2/width of it away at most."""
    error = measured.std(ddof=1) / np.sqrt(len(measured))
    z = (measured.mean() - expected) / np.hypot(error, 2 / width * abs(expected))
    assert abs(z) < 4, f"{measured.mean():.5g} ± {error:.2g} is not {expected:.5g} (z = {z:.1f})"


SHARED = {"sigma_q": 1.5, "sigma_k": 1.5, "sigma_v": 1.2, "sigma_o": 1}


def pre_norm(act: str = "gelu") -> Sequential:
    feed = Sequential((RMSNorm(affine=False), mf.Gate("silu", own("1"), own("1")), own("2"))) if act == "gate" else None
    plain = Sequential((LayerNorm(affine=False), own("1"), Nonlinearity(act), own("2"))) if feed is None else feed
    attention = Attention(8, key_dim=64, query=own("q"), key=own("k"), value=own("v"))
    return Sequential((Residual(Sequential((LayerNorm(affine=False), attention, own("o")))), Residual(plain)))


@pytest.mark.slow
@pytest.mark.parametrize("act", ["gelu", pytest.param("gate", marks=pytest.mark.slow)])
def test_networks_have_the_shares_of_every_matrix(act):
    """Θ by kind of matrix: Σ over the entries w of one matrix of (∂z/∂w)², by gradients of networks."""
    block, width, depth, T = pre_norm(act), 64, 3, 6
    numbers = SHARED | {"sigma_1": 1.3, "sigma_2": 0.9}
    found = mf.empirical.run_ensemble(
        block, width=width, depth=depth, networks=40, seed=3, tokens=T, sigma_w=1, sigma_b=0, read="last",
        quantities=("G_w",), keep_samples=True, **numbers,
    )  # fmt: skip
    own_of = ["sigma_q", "sigma_k", "sigma_v", "sigma_o", "sigma_1"] + ["sigma_1"] * (act == "gate") + ["sigma_2"]
    gradients = found.samples["G_w"][:, 1:].sum(axis=1) / width  # per input of a matrix
    assert gradients.shape[1] == len(own_of)
    names = tuple(f"Theta[{d}]" for d in range(1, len(own_of) + 1))
    run = mf.derive(block).propagate(sigma_w=1, sigma_b=0, depth=depth, tokens=T, quantities=names, **numbers)
    for d, name in enumerate(own_of):
        assert_close(numbers[name] ** 2 * gradients[:, d], float(run.values[names[d]][-1]), width)
    for d, factor in ((3, 1.5), (0, 3)):  # those of queries scatter most
        with pytest.raises(AssertionError, match="is not"):
            assert_close(numbers[own_of[d]] ** 2 * gradients[:, d], factor * float(run.values[names[d]][-1]), width)
