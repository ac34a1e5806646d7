"""Tokens at infinitely many channels: averages over pairs against other quadratures, linear networks exactly, finite
networks, and what is refused."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.empirical import run_ensemble
from meanfield.functions.activations import activation
from meanfield.numeric.quadrature.covariances.slopes import slopes_of
from meanfield.numeric.tokens.expansions import expand, pairs
from meanfield.numeric.tokens.token_functions import Applied, Line
from tests.numeric.token_blocks import mixer, resmlp

TOKENS = mf.Dense(axis="tokens")
TANH, LINEAR = mf.Nonlinearity("tanh"), mf.Nonlinearity("linear")
SMALL = mf.Sequential((
    mf.Residual(mf.Sequential((mf.LayerNorm(), mf.Dense(axis="tokens", expand=2), TANH, TOKENS)), "0.6"),
    mf.Residual(mf.Sequential((mf.LayerNorm(), mf.Dense(), TANH, mf.Dense())), "0.6"),
))  # fmt: skip
MEAN, COV = np.array([0.3, -0.8, 0.0]), np.array([[1.3, 0.7, -0.4], [0.7, 0.9, 0.2], [-0.4, 0.2, 2.5]])


def averages(phi: str, mean=MEAN, cov=COV):
    ones, none = np.ones(len(mean)), np.zeros(len(mean))
    f = Applied(slopes_of(activation(phi), 1), Line(ones, none))
    found = expand(f, mean, cov)
    sd = np.sqrt(np.diag(cov))
    return found, *pairs(found, found, cov / np.multiply.outer(sd, sd))


def on_a_grid(f, s, t, points=801, reach=9.0):
    """⟨f(z_s) f(z_t)⟩ by trapezoids in two independent variables: exponentially accurate for smooth functions."""
    x = np.linspace(-reach, reach, points)
    w = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
    rho = COV[s, t] / np.sqrt(COV[s, s] * COV[t, t])
    one = MEAN[s] + np.sqrt(COV[s, s]) * x
    other = MEAN[t] + np.sqrt(COV[t, t]) * (rho * x[:, None] + np.sqrt(1 - rho * rho) * x)
    return float(w @ (f(one)[:, None] * f(other)) @ w) if s != t else float(w @ f(one) ** 2)


@pytest.mark.parametrize(("phi", "f", "slope"), [
    ("tanh", np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    ("sin", np.sin, np.cos),
    ("monomial(2)", np.square, lambda z: 2 * z),
])  # fmt: skip
def test_averages_of_two_tokens_with_means(phi, f, slope):
    found, cov, slopes, error = averages(phi)
    assert error < 1e-9
    for s in range(3):
        for t in range(3):
            value = cov[s, t] + found.mean[s] * found.mean[t]
            assert value == pytest.approx(on_a_grid(f, s, t), rel=1e-9, abs=1e-9)
            assert slopes[s, t] == pytest.approx(on_a_grid(slope, s, t), rel=1e-9, abs=1e-9)
    without = averages(phi, mean=0 * MEAN)[1]
    assert np.abs(without - cov).max() > 1e-3, "control: the means matter"


def kinked(s: int, t: int, power: int) -> float:
    """⟨relu relu⟩ (power 1) or ⟨relu′ relu′⟩ (0): the inner average has a closed form, the outer one is integrated."""
    a, b, c, m_s, m_t = (mp.mpf(float(v)) for v in (COV[s, s], COV[t, t], COV[s, t], MEAN[s], MEAN[t]))
    sd = mp.sqrt(b - c * c / a)

    def integrand(z):
        m = m_t + c / a * (z - m_s)
        inner = m * mp.ncdf(m / sd) + sd * mp.npdf(m / sd) if power else mp.ncdf(m / sd)
        return mp.npdf(z, m_s, mp.sqrt(a)) * z**power * inner

    return float(mp.quad(integrand, [0, 1, 3, 8, 16]))


@pytest.mark.slow
def test_averages_of_a_kink_against_mpmath():
    found, cov, slopes, _ = averages("relu")
    with mp.workdps(20):
        for s, t in ((0, 1), (2, 1)):
            assert cov[s, t] + found.mean[s] * found.mean[t] == pytest.approx(kinked(s, t, 1), rel=1e-8)
            assert slopes[s, t] == pytest.approx(kinked(s, t, 0), rel=1e-8)


def test_what_is_missing_is_bounded():
    """Nearly one token: the stated error holds the true one, which Hermite coefficients miss."""
    near = np.array([[1.0, 0.99999], [0.99999, 1.0]])
    _, _, slopes, error = averages("relu", np.zeros(2), near)
    true = 0.5 - np.arccos(near[0, 1]) / (2 * np.pi)
    assert 1e-6 < abs(slopes[0, 1] - true) < error


@pytest.mark.parametrize("name", ["erf", "relu"])
def test_without_a_dense_on_tokens_it_is_the_theory_of_two_inputs(name):
    theory = mf.derive(name, norm="pre", mu="0.7")
    answer = theory.sample(sigma_w=1.3, sigma_b=0.3, depth=8, tokens=3, draws=2, correlation=0.4)
    assert not answer.mixes and answer.exact and answer.estimate("K").standard_error.max() == 0
    run = theory.propagate(sigma_w=1.3, sigma_b=0.3, depth=8, correlation=0.4)
    one = theory.propagate(sigma_w=1.3, sigma_b=0.3, depth=8, quantities=("K", "J"))
    np.testing.assert_allclose(answer.estimate("K").mean, run.K_aa, rtol=1e-9)
    np.testing.assert_allclose(answer.estimate("K_ab").mean, run.K_ab, rtol=1e-7)
    np.testing.assert_allclose(answer.estimate("log_J").mean, one.log_J, atol=1e-9)
    np.testing.assert_allclose(answer.estimate("chi").mean, np.exp(np.diff(one.log_J)), rtol=1e-9)


def linear_network():
    block = mf.Sequential((mf.Residual(mf.Sequential((mf.Dense(axis="tokens"), LINEAR)), "0.5"), mf.Dense()))
    return mf.derive(architecture=block).sample(sigma_w=0.8, sigma_b=0.3, depth=4, tokens=6, draws=400, seed=3)


def test_linear_networks_average_to_their_exact_recursion():
    """x + Wx: the mean over W of K, K_ab and χ is known: q′ = σ_w²((μ² + σ_w²) q + σ_b²) + σ_b², and χ with it."""
    answer = linear_network()
    assert answer.exact
    w, b, mu = 0.8**2, 0.3**2, 0.5**2
    K, c = w + b, b
    for l in range(2, 5):
        K, c = w * ((mu + w) * K + b) + b, w * mu * c + b
        # the matrix is redrawn: products of different tokens keep only the skip's and the biases'
        assert abs(answer.estimate("K", l).z(K)) < 4 and abs(answer.estimate("K_ab", l).z(c)) < 4
        assert abs(answer.estimate("chi", l - 1).z(w * (mu + w))) < 4
    assert abs(answer.estimate("K", 4).z(1.1 * K)) > 4, "control"


def extrapolated(block, quantity, widths, networks, sigma_w, sigma_b, depth, tokens, **more):
    """The mean over the last layers, and its standard error, at infinite width: a + b/N through the widths."""
    rows = []
    for k, width in enumerate(widths):
        run = run_ensemble(
            block, sigma_w=sigma_w, sigma_b=sigma_b, width=width, depth=depth, networks=networks[k], seed=7 + k,
            tokens=tokens, quantities=("K", "chi"), probes=2, **more,
        )  # fmt: skip
        values = run.samples[quantity][:, depth // 2 :].mean(axis=1)
        rows.append((1 / width, values.mean(), values.std(ddof=1) / np.sqrt(len(values))))
    return at_infinity(rows)


def at_infinity(rows):
    """a of the line a + b x through (x, y, error of y), and its standard error."""
    x, y, e = np.array(rows).T
    A = np.stack([np.ones(len(x)), x], axis=1) / e[:, None]
    cov = np.linalg.inv(A.T @ A)
    return float((cov @ A.T @ (y / e))[0]), float(np.sqrt(cov[0, 0]))


def z_score(block, quantity, place, answer, widths, networks, depth, tokens):
    mean, error = extrapolated(block, quantity, widths, networks, *place, depth, tokens)
    values = answer.samples[quantity][:, depth // 2 :].mean(axis=1)
    return (mean - values.mean()) / np.hypot(error, values.std(ddof=1) / np.sqrt(len(values)))


@pytest.mark.slow
def test_small_networks_agree():
    theory, place = mf.derive(architecture=SMALL), (1.2, 0.3)
    answer, other = (theory.sample(sigma_w=w, sigma_b=0.3, depth=5, tokens=8, draws=60, seed=1) for w in (1.2, 1.26))
    sizes = ((32, 96), (60, 40), 5, 8)
    for quantity in ("K", "chi"):
        assert abs(z_score(SMALL, quantity, place, answer, *sizes)) < 4
    assert max(abs(z_score(SMALL, q, place, other, *sizes)) for q in ("K", "chi")) > 4, "control: σ_w 5 % off"


MIXER = {(1, 0): 1.3434, (1, 0.25): 0.9247, (10, 10): 0.8623}  # χ over blocks 7 to 12, ± .002


@pytest.mark.slow
@pytest.mark.parametrize("place", MIXER)
def test_mixers_agree_with_wide_networks(place):
    """[partial_jacobians] specification, lines 22, 23: 64 tokens, μ = ½, networks of 128, 256, 512 channels."""
    w, b = (float(v) ** 0.5 for v in place)
    block = mixer("gelu", "1/2")
    settings = {"sigma_w": w, "depth": 13, "tokens": 64, "draws": 40, "seed": 9}
    answer, off = (
        mf.derive(architecture=block).sample(sigma_b=one, **settings) for one in (b, (1.4 * b**2 + 0.05) ** 0.5)
    )
    values = answer.samples["chi"][:, 6:].mean(axis=1)
    error = values.std(ddof=1) / 40**0.5
    assert answer.error < 1e-6 and abs(values.mean() - MIXER[place]) < 4 * np.hypot(error, 0.002)
    mean, spread = extrapolated(block, "chi", (128, 256, 512), (100, 80, 60), w, b, 13, 64)
    z, other = ((mean - one.samples["chi"][:, 6:].mean()) / np.hypot(spread, error) for one in (answer, off))
    assert abs(z) < 4 < abs(other), "control: σ_b² is .05 + 40 % more"


def test_resmlp_is_exact_at_this_T():
    answer = mf.derive(architecture=resmlp("gelu", scale="0.5")).sample(
        sigma_w=1, sigma_b=0.2, depth=3, tokens=8, draws=4
    )
    assert answer.exact and answer.level == "sampled" and "Gaussian" not in str(answer)


@pytest.mark.slow
def test_resmlp_agrees_with_wide_networks_from_layer_1_on():
    """J^{1,5} and K of 12 tokens: exact at this T, whatever the networks draw."""
    block = resmlp("gelu", scale="1/2")
    theory = mf.derive(architecture=block)
    answer, off = (theory.sample(sigma_w=w, sigma_b=0.3, depth=5, tokens=12, draws=300, seed=4) for w in (1.2, 1.3))
    for quantity in ("K", "J"):
        rows = []
        for k, width in enumerate((48, 96, 192)):
            run = run_ensemble(
                block, sigma_w=1.2, sigma_b=0.3, width=width, depth=5, networks=200, seed=50 + k, tokens=12,
                quantities=("K", "J"), probes=4,
            )  # fmt: skip
            found = run.estimate(quantity, 5)
            rows.append((1 / width, float(found.mean), float(found.standard_error)))
        mean, error = at_infinity(rows)
        z, other = (
            (mean - one.estimate(quantity, 5).mean) / np.hypot(error, one.estimate(quantity, 5).standard_error)
            for one in (answer, off)
        )
        assert abs(z) < 4 < abs(other), "control: σ_w"


def sample(block, **settings):
    given = {"sigma_w": 1, "sigma_b": 0.1, "depth": 3, "tokens": 6, "draws": 2} | settings
    return mf.derive(architecture=block).sample(**given)


@pytest.mark.parametrize(("block", "settings", "match"), [
    (SMALL, {"tokens": None}, "give tokens="),
    (SMALL, {"tokens": 1}, "take tokens=2 or more"),
    (SMALL, {"sigma_w": 0, "sigma_b": 0}, "meets equal numbers in all channels"),
    (SMALL, {"quantities": ("X",)}, "of the sampled theory 'X'; the choices are K, K_ab, J, chi"),
    (SMALL, {"correlation": -0.5}, "lies in"),
    (SMALL, {"mu": 1}, "not a parameter"),
    (SMALL, {"sigma_w": [1, 2], "layerwise": True}, "its shape is"),
    (SMALL, {"sigma_w": [1, 2]}, "several points, and this verb takes one"),
    (mf.Sequential((TANH, TOKENS, mf.Dense())), {"sigma_w": 0}, "J of the block that makes layer 2 is 0"),
    (mf.Sequential((mf.Dense(axis="tokens", expand=2), TANH, mf.Dense())), {}, "makes 12 tokens of 6"),
    (mf.Residual(mf.Sequential((mf.Dense(axis="tokens", expand=2), TANH, mf.Dense()))), {}, "A skip adds"),
    (mf.Residual(mf.Sequential((TOKENS, TANH)), 1), {}, "ends in an activation"),
    (mf.Sequential((mf.Residual(mf.Sequential((TOKENS, TANH)), 1), TANH, mf.Dense())), {}, "sum that is not Gaussian"),
    (mf.Sequential((TOKENS, mf.BatchNorm(), TANH, mf.Dense())), {}, "BatchNorm"),
    (mf.Sequential((TOKENS, TANH, mf.Pool(), mf.Dense(expand=2))), {}, "Pool"),
    (mf.Sequential((TOKENS, mf.Nonlinearity("step"), mf.Dense())), {"quantities": "J"}, "infinite, because it jumps"),
    (mf.Residual(mf.Sequential((TOKENS, TANH, mf.Dense())), mf.Param("mu")), {}, "mu has no value"),
])  # fmt: skip
def test_what_is_refused(block, settings, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        sample(block, **settings)


def test_presets_are_these_blocks():
    assert mf.architectures.mlp_mixer("gelu", mu="1/2") == mixer("gelu", "1/2")
    affine = mf.derive(architecture=mf.architectures.resmlp("gelu", scale="1/2"))
    settings = {"sigma_w": 1, "sigma_b": 0.2, "depth": 3, "tokens": 6, "draws": 2}
    plain = mf.derive(architecture=resmlp("gelu", scale="1/2")).sample(**settings)
    np.testing.assert_array_equal(affine.sample(**settings).samples["log_J"], plain.samples["log_J"])


def test_a_gate_is_that_of_the_theory():
    """No Dense on tokens: K, K_ab, J of u ⊙ φ(v) are those of `propagate`."""
    wide = mf.Dense(expand=2)
    branch = mf.Sequential((mf.LayerNorm(), mf.Gate("gelu", wide, wide), mf.Dense()))
    theory = mf.derive(architecture=mf.Residual(branch, "1/2"))
    answer = theory.sample(sigma_w=1.3, sigma_b=0.2, depth=5, tokens=3, draws=2, correlation=0.3)
    one = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=5)
    np.testing.assert_allclose(answer.estimate("K").mean, one.K, rtol=1e-9)
    np.testing.assert_allclose(answer.estimate("log_J").mean, one.log_J, atol=1e-9)
    with pytest.raises(mf.MeanFieldError, match="a product"):
        sample(mf.Sequential((TOKENS, mf.Gate("gelu"), TANH, mf.Dense())))


def test_draws_do_not_depend_on_what_stands_beside_them():
    one, two = sample(SMALL, draws=3, threads=1), sample(SMALL, draws=2, threads=2, depth=2)
    np.testing.assert_array_equal(one.samples["K"][:2, :2], two.samples["K"])
    jump = sample(mf.Sequential((TOKENS, mf.Nonlinearity("step"), mf.Dense())))
    assert jump.quantities == ("K", "K_ab")


@pytest.mark.parametrize("phi", ["gelu", "relu", "sin"])
@pytest.mark.parametrize("K", ["1/10000", "1", "1000", "1000000"])
def test_one_token_against_certified_averages(phi, K):
    """⟨φ²⟩ at any K: panels follow φ where it is narrow in standard deviations, and where it oscillates."""
    record, K = activation(phi), sp.Rational(K)
    f = Applied(slopes_of(record, 1), Line(np.ones(1), np.zeros(1)), phi == "sin")
    found = expand(f, np.zeros(1), np.array([[float(K)]]))
    square = float(mf.average(record.expression**2, K).evalf(17))
    assert found.variance[0] + found.mean[0] ** 2 == pytest.approx(square, rel=1e-13)


def test_the_level_of_an_answer_is_named(capsys):
    """`averaged` where `propagate` takes means over token matrices, `sampled` where they are drawn, empty elsewhere."""
    from meanfield.cli.app import app

    theory = mf.derive(architecture=resmlp("gelu"))
    at = {"sigma_w": [1.0, 1.2], "sigma_b": 0.1, "depth": 3}
    run = theory.propagate(**at)
    assert run.level == "averaged" and "averaged over token matrices" in repr(run)
    assert theory.sample(sigma_w=1, sigma_b=0.1, depth=3, tokens=4, draws=2).level == "sampled"
    plain = mf.derive("gelu").propagate(**at)
    assert plain.level == "" and "averaged" not in repr(plain)
    for name, words in (("resmlp", True), ("mlp", False)):
        line = ["propagate", "gelu", "--architecture", name, "--sigma-w", "1", "--sigma-b", "0", "--depth", "3"]
        for more, text in (([], "averaged over token matrices"), (["--json"], '"level": "averaged"')):
            app([*line, *more], standalone_mode=False)
            assert (text in " ".join(capsys.readouterr().out.split())) == words


@pytest.mark.parametrize("choice", [{"order": 2}, {"lambda_w": 1}, {"lambda_b": 1}, {"input_ratio": 2}, {"at": 1}])
def test_laws_of_mixed_tokens_have_no_choices(choice):
    """They were ignored: order=2 gave the leading law."""
    theory = mf.derive("tanh", architecture="gpt", heads=8, causal=False)
    name, at = next(iter(choice)), dict.fromkeys(("sigma_1", "sigma_2", "sigma_o", "sigma_v"), 1)
    with pytest.raises(mf.MeanFieldError, match=f"leave {name}= out"):
        theory.depth_law("K", **at, **choice)
    assert str(theory.depth_law("K", **at, input_ratio=1)) == str(theory.depth_law("K", **at))
