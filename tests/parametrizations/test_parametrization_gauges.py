"""A gauge moves a factor between a multiplier and what is stored: one table, one network over all steps. Under SGD, a
chain moves by the tangent kernel and by its correlator B, as the engine has them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.special import ndtr, stdtrit

import meanfield as mf
from meanfield.parametrizations import CoordinateCheck, Monomial, Parametrization, coordinate_check, parametrization
from tests.parametrizations.coordinate_networks import draw, gradients
from tests.parametrizations.coordinate_nodes import Parameters, Setting, chain, denses, run

BASE, WIDTH, D = 8, 24, 6
KINDS = ("input", "hidden", "hidden", "readout")
X = np.random.default_rng(2).standard_normal((3, D))
TARGETS = np.array([0.5, -1.0, 0.2])
FACTORS = {"input": "sqrt(n)", "hidden": "1/sqrt(n)", "readout": "3*n", "bias": "2/n"}
SCHEMES = ("sp", "ntk", "mean_field", "mup", "spectral", "depth_mup", "completep")
RULES = ("sgd", "adam", "muon")


def gauged(scheme: Parametrization, *kinds: str) -> Parametrization:
    for kind in kinds or FACTORS:
        scheme = scheme.gauge(kind, FACTORS[kind])
    return scheme


# ----------------------------------------------------------------------------------------------------- the same network


def settings(scheme: Parametrization, rate: float, eps: float) -> list[Setting]:
    """What a Dense of each kind is at this width: written here, from the powers alone."""
    at, out = scheme.at(WIDTH, 2), []
    bias = at["bias"]
    for kind in KINDS:
        one, fan_in = at[kind], D if kind == "input" else BASE
        out.append(
            Setting(
                S=1.1 * (one["variance"] / fan_in) ** 0.5, M=one["multiplier"], eta=rate * one["rate"],
                Sb=0.3 * bias["variance"] ** 0.5, Mb=bias["multiplier"], eta_b=rate * bias["rate"],
                eps=eps * at["factors"]["eps"] * one["eps"],
            )
        )  # fmt: skip
    return out


def three_steps(
    scheme: Parametrization, rate: float, decay: float = 0.1, forget: str = "", base_eps: float = 1e-3
) -> list[np.ndarray]:
    """Outputs and all M·W behind each of three steps with the squared loss: SGD, or Adam with its moments, ε and, of
    hidden matrices, decoupled decay. forget: "eps", "decay" or "rate" of the scheme, which is 1 instead."""
    at, adam = scheme.at(WIDTH, 2), scheme.optimizer == "adam"
    rows = settings(scheme, rate, base_eps)
    eps_of_bias = base_eps * at["factors"]["eps"] * at["bias"]["eps"]
    body = chain(WIDTH, "tanh", rows)
    weights = draw(body, D, np.random.default_rng(7))
    moments = [[(np.zeros_like(one), np.zeros_like(one)) for one in pair] for pair in weights]
    seen: list[np.ndarray] = []
    for t in (1, 2, 3):
        f = run(body, X, iter(weights), [])[0][:, 0]
        found, _ = gradients(body, weights, X, f - TARGETS)
        for k, (pair, slopes) in enumerate(zip(weights, found, strict=True)):
            s, moved = rows[k], []
            for i, (stored, g) in enumerate(zip(pair, slopes, strict=True)):
                eta, eps = (s.eta_b, eps_of_bias) if i else (s.eta, s.eps)
                eta, eps = rate if forget == "rate" else eta, 1e-3 if forget == "eps" else eps
                lost = decay * (1.0 if forget == "decay" else at["factors"]["decay"])
                step = g
                if adam:
                    m, v = moments[k][i] = 0.9 * moments[k][i][0] + 0.1 * g, 0.99 * moments[k][i][1] + 0.01 * g**2
                    step = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.99**t)) + eps)
                if KINDS[k] == "hidden" and i == 0:
                    step = step + lost * stored
                moved.append(stored - eta * step)
            weights[k] = Parameters(*moved)
        seen.append(run(body, X, iter(weights), [])[0])
        seen += [node.setting.M * one.W for node, one in zip(denses(body), weights, strict=True)]
    return seen


def assert_one_network(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for k, (a, b) in enumerate(zip(one, other, strict=True)):
        apart = np.abs(a - b).max() / np.abs(a).max()
        assert apart < 1e-12, f"array {k} behind the steps differs by {apart:.1e}"


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", ["mup", "ntk", "completep"])
def test_one_seed_is_one_network_over_three_steps(name, optimizer):
    scheme, rate = parametrization(name, optimizer=optimizer, base_width=BASE), 0.05
    plain = three_steps(scheme, rate)
    assert np.abs(plain[0] - plain[5]).max() > 1e-3 < np.abs(plain[5] - plain[10]).max()
    for kinds in (*((kind,) for kind in FACTORS), tuple(FACTORS)):
        assert scheme.equivalent(gauged(scheme, *kinds))
        assert_one_network(plain, three_steps(gauged(scheme, *kinds), rate))
    for forget in ("rate", "decay", *(["eps"] if optimizer == "adam" else [])):
        of_plain = three_steps(scheme, rate, forget=forget)
        with pytest.raises(AssertionError, match="behind the steps differs"):
            assert_one_network(of_plain, three_steps(gauged(scheme), rate, forget=forget))


# -------------------------------------------------------------------------------------------------------the same table


def assert_one_table(one: CoordinateCheck, other: CoordinateCheck, bar: float = 1e-12) -> None:
    for a, b in zip(one.rows, other.rows, strict=True):
        assert (a.width, a.layer, a.column) == (b.width, b.layer, b.column)
        for name in ("theory", "theory_error", "measured"):
            x, y = getattr(a, name), getattr(b, name)
            if None not in (x, y):
                assert abs(x - y) <= bar * (abs(x) + 1e-9), f"{name} of layer {a.layer}, {a.column}: {x} and {y}"


def table(scheme: Parametrization, optimizer: str, **more) -> CoordinateCheck:
    asked = {
        "widths": (BASE, 24, 96), "depth": 4, "rate": 0.01, "eps": 1e-3, "inputs": X, "neurons": 128, "biases": True,
        "sigma_b": 0.3, "slopes": TARGETS,
    }  # fmt: skip
    return coordinate_check("gelu", scheme, **(asked | more))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", RULES)
def test_gauges_have_one_table(optimizer):
    scheme = parametrization("mup", optimizer=optimizer, base_width=BASE, eps="1/n", decay="n")
    plain = table(scheme, optimizer, networks=2)
    for kinds in (*((kind,) for kind in FACTORS), tuple(FACTORS)):
        other = gauged(scheme, *kinds)
        assert scheme.equivalent(other) and other.equivalent(scheme)
        assert_one_table(plain, table(other, optimizer))
        assert_one_table(table(other, optimizer, networks=2), plain, 1e-9)
    wrong = parametrization("mup", optimizer=optimizer, base_width=BASE, eps="1/n", decay="n", readout={"rate": "n**2"})
    assert not wrong.equivalent(scheme)
    with pytest.raises(AssertionError, match="theory of layer 4, Df_readout"):
        assert_one_table(plain, table(wrong, optimizer))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", RULES)
def test_all_are_one_at_the_base(optimizer):
    tables = []
    for name in SCHEMES:
        scheme = parametrization(name, optimizer=optimizer, base_width=BASE, base_depth=2)
        tables.append(table(scheme, optimizer, widths=BASE))
        if name != "sp":
            with pytest.raises(AssertionError, match="theory of layer"):
                assert_one_table(table(scheme, optimizer, widths=16), table(parametrization(
                    "sp", optimizer=optimizer, base_width=BASE), optimizer, widths=16))  # fmt: skip
    for one, other in pairwise(tables):
        assert_one_table(one, other)


def test_what_is_equivalent():
    def of(name: str = "mup", optimizer: str = "adam", **more) -> Parametrization:
        return parametrization(name, optimizer=optimizer, **more)

    assert of().equivalent(of()) and of().gauge("hidden", "5/n").equivalent(of())
    assert of("spectral", "sgd").equivalent(of("mup", "sgd"))  # one readout: n⁻¹ in front, or in the deviation
    assert not of("sp").equivalent(of("mup")) and not of(optimizer="sgd").equivalent(of())
    assert not of(eps="1/n").equivalent(of()) and of(optimizer="sgd", eps="1/n").equivalent(of(optimizer="sgd"))
    assert not of("spectral").equivalent(of("mup"))  # ε beside a gradient that is n times smaller
    readout = {"multiplier": "1", "variance": "n**-2", "rate": "1/n"}
    assert of("spectral").equivalent(of(readout=readout))
    assert not of(decay="n").equivalent(of()) and not of(base_width=2).equivalent(of())
    assert not of(base_depth=2).equivalent(of()) and not of(branch="1/L").equivalent(of())
    assert not of(bias={"rate": "n"}).equivalent(of()) and not of(input={"rate": "2"}).equivalent(of())
    by_hand = of("ntk", "sgd", readout={"multiplier": "1/n"}, input={"rate": "n"}, hidden={"rate": "n"},
                 bias={"rate": "n"})  # fmt: skip
    assert by_hand.gauge("readout", "n").gauge("readout", "1/n").equivalent(by_hand)
    assert by_hand.gauge("readout", "1/n").readout != by_hand.readout
    twice = of().gauge("hidden", "sqrt(2)").gauge("hidden", "sqrt(2)")
    assert abs(float(twice.hidden.multiplier.at(1, 1)) - 2) < 1e-10
    with pytest.raises(mf.MeanFieldError, match="equivalent compares with another Parametrization"):
        of().equivalent("mup")


@pytest.mark.parametrize(("one", "other", "optimizer"), [("mup", "mean_field", "sgd"), ("mup", "spectral", "adam")])
def test_what_is_equivalent_but_for_eps_and_decay(one, other, optimizer):
    """The same networks over three steps where both are 0, and others where they are not."""
    a, b = (parametrization(name, optimizer=optimizer, base_width=BASE) for name in (one, other))
    assert not a.equivalent(b) and a.equivalent(b, ignore_eps_and_decay=True)
    assert_one_network(three_steps(a, 0.05, decay=0, base_eps=0), three_steps(b, 0.05, decay=0, base_eps=0))
    with pytest.raises(AssertionError, match="behind the steps differs"):
        assert_one_network(three_steps(a, 0.05), three_steps(b, 0.05))
    moved = replace(b, hidden=replace(b.hidden, rate=b.hidden.rate * b.hidden.rate * b.hidden.multiplier))
    for wrong in (moved, replace(b, branch="1/L"), replace(b, base_depth=2)):
        assert not a.equivalent(wrong, ignore_eps_and_decay=True)
    with pytest.raises(mf.MeanFieldError, match="ignore_eps_and_decay"):
        a.equivalent(b, ignore_eps_and_decay="yes")


# ------------------------------------------------------------------------------------------- Θ and B of the engine: SGD

R, XI, Q, K, SIGMA = sp.Symbol("R"), sp.Symbol("X"), sp.Symbol("Q"), sp.Symbol("K"), sp.Symbol("sigma_w")
LW, LB = sp.symbols("lambda_w lambda_b", positive=True)
M = sp.symbols("m0:5")  # m0 = ⟨φ²⟩, m_k = ⟨φ′^k⟩


def averaged(polynomial: sp.Expr) -> sp.Expr:
    """The mean of a polynomial in φ′ = s, q ~ N(0, Q) and ξ ~ N(0, X), which are independent."""
    s, q, xi = sp.symbols("s q xi")
    total = sp.Integer(0)
    for (power, of_q, of_xi), c in sp.Poly(sp.expand(polynomial), s, q, xi).terms():
        moments = {0: 1, 2: Q}.get(of_q, 0) * {0: 1, 2: XI}.get(of_xi, 0)
        assert of_q < 4 and of_xi < 4
        total += c * moments * (M[power] if power else 1)
    return total


def derived(planted: str = "") -> tuple[sp.Expr, sp.Expr]:
    """(Θ′, B′) from Δz = −Rδ + ξ, δ = φ′q, W(Δa) = rδ′ + ξ′ with r = ⟨qΔa⟩/⟨δ′²⟩, ⟨ξ′²⟩ = σ²⟨Δa²⟩, Q = σ²⟨δ′²⟩, and
    B = ⟨ξ²⟩/⟨δ²⟩: R is then Θ, and ⟨Δz²⟩ = ⟨δ²⟩(Θ² + B)."""
    s, q, xi = sp.symbols("s q xi")
    change = s * (-R * s * q + (0 if planted == "xi" else xi))  # Δa
    above = Q / SIGMA**2  # ⟨δ′²⟩
    r = 0 if planted == "r" else averaged(q * change) / above
    own = LW * M[0] + LB
    B = sp.Symbol("B")
    spread = SIGMA**2 * averaged(change**2)
    Theta, fresh = own - r, (spread / above).subs(XI, B * M[2] * Q)
    return tuple(sp.expand(one.subs(R, sp.Symbol("Theta"))) for one in (Theta, fresh))


def of_the_engine(phi: str) -> tuple[sp.Expr, sp.Expr]:
    """The engine's Θ′ and B′, in which averages are the m_k whose integrands they are shown to have."""
    recursion = mf.derive(phi).recursion("Theta", "B", lambda_w=LW, lambda_b=LB)
    z = sp.Symbol("z", real=True)
    value = {
        "tanh": sp.tanh(z), "erf": sp.erf(z), "gelu": z * (1 + sp.erf(z / sp.sqrt(2))) / 2, "z**3 + z": z**3 + z
    }[phi]  # fmt: skip
    known = {M[0]: value**2, M[2]: sp.diff(value, z) ** 2, M[4]: sp.diff(value, z) ** 4}

    def named(node: sp.Expr) -> sp.Expr:
        held = node.args[0].expr.replace(sp.sech, lambda x: sp.sqrt(1 - sp.tanh(x) ** 2))
        (own,) = held.free_symbols
        held = held.xreplace({own: z})
        for name, wanted in known.items():
            one, other = ((wanted / held).subs(z, sp.Rational(at, 10)).evalf(30) for at in (7, 13))
            if abs(one - other) > 1e-20:
                continue
            factor = sp.nsimplify(one, [sp.pi], tolerance=1e-20)
            if sp.simplify(sp.expand(wanted - factor * held)) == 0:
                return name / factor
        raise AssertionError(f"no power of φ or φ′ is {held}")

    plain = {one: sp.Symbol(one.name) for name in ("Theta", "B") for one in recursion[name].free_symbols}
    out = []
    for name in ("Theta", "B"):
        made = recursion[name].replace(lambda one: type(one).__name__ == "Average", named)
        out.append(sp.expand(made.xreplace({k: v for k, v in plain.items() if k not in (LW, LB)})))
    return tuple(out)


def assert_proved(phi: str, planted: str = "") -> None:
    for name, ours, theirs in zip(("Theta", "B"), derived(planted), of_the_engine(phi), strict=True):
        assert sp.expand(ours - theirs) == 0, f"{name}' of {phi} is {theirs} in the engine, and {ours} here"


@pytest.mark.slow_with("erf")
@pytest.mark.parametrize("phi", ["tanh", "erf", "gelu", "z**3 + z"])
def test_sgd_moves_by_theta_and_b_is_proved(phi):
    assert_proved(phi)
    with pytest.raises(AssertionError, match=r"Theta' of .* in the engine"):
        assert_proved(phi, "r")
    with pytest.raises(AssertionError, match=r"B' of .* in the engine"):
        assert_proved(phi, "xi")


@pytest.mark.fast_with("relu")
@pytest.mark.parametrize("phi", ["tanh", "relu", "gelu"])
def test_the_line_is_theta_and_b_of_the_engine(phi, planted=0):
    """Δz² = E[δ²](Θ² + B) and Δf = −χΘ, with numbers of the engine; without B it is another number."""
    width, chi, w, rate, x = 64, 0.8, 1.2, 1e-7, X[:1]
    rates = [rate * D, rate, rate, rate * width]  # λ is the rate times fan-in, as W has the variance σ²/fan-in
    scheme = parametrization("sp", optimizer="sgd", hidden={"rate": "1/n"})
    engine = mf.derive(phi).propagate(
        sigma_w=w, sigma_b=0.3, depth=4, input_norm=float((x**2).mean()), quantities=("J", "Theta", "B"),
        lambda_w=rates, lambda_b=[rate] * 4, layerwise=True,
    )  # fmt: skip
    check = coordinate_check(
        phi, scheme, widths=width, depth=4, rate=rate, inputs=x, slopes=chi, sigma_w=w, sigma_b=0.3,
        biases=True, neurons=16384,
    )  # fmt: skip
    t = float(stdtrit(15, ndtr(4.5)))
    for row in check.column("total"):
        k = row.layer - 1
        delta2 = chi**2 * engine.J[-1] / engine.J[k] / width
        law = np.sqrt(delta2 * (engine.Theta[k] ** 2 + engine.B[k]))
        allowed = t * row.theory_error + 1e-6 * law
        assert abs(row.theory - law) < allowed < 0.02 * law
        if k:
            assert abs(row.theory - np.sqrt(delta2) * engine.Theta[k]) > 3 * allowed
    (last,) = check.column("Df")
    assert abs(last.theory - chi * engine.Theta[-1]) < t * last.theory_error < 0.02 * last.theory


def factor(rng: np.random.Generator) -> str:
    """A product of two roots of fractions, as it is typed."""
    a, b, c, d, k, m, p = (int(v) for v in rng.integers(1, 13, 7))
    return f"({a}/{b})**({p}/{k})*sqrt({c}/{d})**{m}"


def test_gauges_of_irrational_factors_are_seen():
    """√2 is exact: a hundred random products of roots give an equivalent scheme, and one factor forgotten does not."""
    rng, scheme = np.random.default_rng(5), parametrization("mup")
    for _ in range(100):
        text = factor(rng)
        one = Monomial.read(text)
        exact = mpmath.mpf(sp.sympify(text, rational=True).evalf(40))
        assert abs(one.at(3, 5) / exact - 1) < 1e-14, text
        assert Monomial.read(str(one)) == one and one * one**-1 == Monomial() and (one**12) ** Fraction(1, 12) == one
        moved = scheme.gauge("hidden", one)
        assert moved.equivalent(scheme), text
        if not one.is_one:
            assert not replace(moved, hidden=replace(moved.hidden, rate=moved.hidden.rate * one)).equivalent(scheme)
    near = Monomial.read("sqrt(2)").at(1, 1)
    close = Fraction(near).limit_denominator(10**12)
    assert Monomial.read(close) != Monomial.read("sqrt(2)")


def test_factors_of_many_digits_are_refused():
    with pytest.raises(mf.MeanFieldError, match="too many digits"):
        Monomial.read("2**(1/999983)*3**(1/999979)")
