"""Attention with drawn heads: one draw against differences in plain NumPy, limits, and finite networks."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import meanfield as mf
from meanfield.networks.attention import Attention
from meanfield.networks.records import RMSNorm
from meanfield.numeric.tokens import drawn_heads as rule
from meanfield.numeric.tokens.channels import Channels
from meanfield.numeric.tokens.token_fields import Fields
from meanfield.numeric.tokens.token_sampling import SamplingSetting, draw_all
from meanfield.numeric.tokens.token_walk import TokenWalk
from tests.numeric.attention_networks import at_infinite_width, head_weights

PLAIN = mf.Dense(sigma_w=1, sigma_b=0)


def dense(w, b=0.0):
    return mf.Dense(sigma_w=w, sigma_b=b)


def attend(heads, sides, **options):
    query, key, value = (dense(*side) for side in sides)
    return Attention(heads, query=query, key=key, value=value, **options)


class Recorded:
    """A generator whose normals are kept, or that hands out given ones."""

    def __init__(self, seed=0, given=None):
        self.rng, self.kept, self.given = np.random.default_rng(seed), [], given

    def standard_normal(self, shape):
        found = self.rng.standard_normal(shape) if self.given is None else self.given.pop(0)
        self.kept.append(found)
        return found


def mixed(block, square, tangents=(), generators=None):
    """Second moments and tangent Gram matrices of the heads side by side, one draw."""
    fields = Fields()
    draws = iter(generators or [np.random.default_rng(i) for i in range(2)])
    walk = TokenWalk(fields, {}, 2, 2, len(square), draws)
    x = fields.base(np.zeros(len(square)), (square, *tangents))
    return fields.moments(walk.apply(block, x)).own


def drawn(block, T=6, depth=3, draws=100, correlation=0.0, read="mean", seed=1, **values):
    gram = (1 - correlation) * np.eye(T) + correlation
    return draw_all(SamplingSetting(block, PLAIN, gram, depth, values, True, seed, read), draws, True)


# ------------------------------------------------------------------------------------- one draw, by differences

SIDES = ((1.3, 0.4), (1.1, 0.3), (0.9, 0.5))
OPTIONS = [
    {},
    {"causal": True},
    {"qk_norm": True},
    {"key_dim": 3},
    {"key_dim": 4, "groups": 2},
    {"key_dim": 3, "value_dim": 2, "groups": 1, "causal": True},
    {"value_dim": 3, "groups": 2},
    {"key_dim": 4, "rotary": 50, "causal": True},
    {"key_dim": 3, "qk_norm": True, "groups": 2},
    {"key_dim": 4, "rotary": True, "qk_norm": True, "scale": "1/d"},
]


def psd(seed, T):
    x = np.random.default_rng(seed).standard_normal((T, T + 2))
    return x @ x.T / T


def half(gram):
    w, U = np.linalg.eigh(gram)
    return U @ np.diag(np.sqrt(np.abs(w))) @ U.T


def of_one_draw(block, square, tangent, normals):
    """The same by hand: q, k, v made of the normals that were drawn; every direction of the tangent one by one, with
    the softmax differenced; nothing is averaged in closed form."""
    T, heads, groups, step = len(square), block.heads, block.key_heads, 1e-5
    (wq, bq), (wk, bk), (wv, bv) = SIDES
    G, L = half(square), np.linalg.cholesky(tangent)
    options = {name: getattr(block, name) for name in ("causal", "qk_norm", "scale")} | {"rotary": float(block.rotary)}
    d = block.key_dim
    moments, moved = np.zeros((T, T)), np.zeros((T, T))
    for h in range(heads):
        g = h // (heads // groups)
        values = wv**2 * square + bv**2
        if block.value_dim:
            v = wv * G @ normals["v"][g][:T] + bv * normals["v"][g][T]
            values = v @ v.T / block.value_dim
        shifts = []
        if d:
            q = wq * G @ normals["q"][h][:T] + bq * normals["q"][h][T]
            k = wk * G @ normals["k"][g][:T] + bk * normals["k"][g][T]
            if options["rotary"]:  # the other way to pair channels
                order = [*range(0, d, 2), *range(1, d, 2)]
                q, k = q[:, order], k[:, order]
            A = head_weights(q, k, **options)
            for n in range(T):
                for c in range(d):
                    by = np.zeros((T, d))
                    by[:, c] = step * L[:, n]
                    shifts += [head_weights(q + wq * by, k, **options) - head_weights(q - wq * by, k, **options)]
                    shifts += [head_weights(q, k + wk * by, **options) - head_weights(q, k - wk * by, **options)]
        else:
            one = {"causal": options["causal"]}
            Fq, Fk = (np.hstack((w * G, np.full((T, 1), b))) for w, b in SIDES[:2])
            rq, rk = (np.sqrt((F**2).sum(axis=1))[:, None] if block.qk_norm else 1.0 for F in (Fq, Fk))
            Fq, Fk = Fq / rq, Fk / rk
            S = Fq @ normals["S"][h] @ Fk.T
            A = head_weights(S, np.sqrt(T) * np.eye(T), **one)
            for n in range(T):
                for m in range(T + 1):
                    for dS in (np.outer(wq / rq * L[:, [n]], Fk[:, m]), np.outer(Fq[:, m], wk / rk * L[:, [n]])):
                        up, down = (head_weights(S + e * dS, np.sqrt(T) * np.eye(T), **one) for e in (step, -step))
                        shifts.append(up - down)
        moments += A @ values @ A.T / heads
        moved += A @ (wv**2 * tangent) @ A.T / heads
        moved += sum(one @ values @ one.T for one in shifts) / (2 * step) ** 2 / heads
    return moments, moved


def named(block, scores, values):
    """The normals that a rule drew, by what they are."""
    found = {"v": np.concatenate(values.kept) if values.kept else None}
    if block.key_dim is None:
        return found | {"S": np.concatenate(scores.kept)}
    both = np.concatenate(scores.kept)
    return found | {"k": both[:, 0], "q": both[:, 1:].reshape(block.heads, *both.shape[2:])}


def assert_near(found, wanted, rel=2e-7):
    worst = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, wanted))
    assert worst < rel, f"off by {worst:.2g}"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_draw_is_that_of_differences(options, monkeypatch):
    """M and Γ of one draw, entry by entry; two tangents at once, one of them diagonal."""
    block, square, tangents = attend(4, SIDES, **options), psd(1, 4), (psd(2, 4), np.diag([1.0, 0.5, 2.0, 1.5]))
    scores, values = Recorded(3), Recorded(4)
    M, *grams = mixed(block, square, tangents, [scores, values])
    normals = named(block, scores, values)
    for gram, tangent in zip(grams, tangents):
        assert_near((M, gram), of_one_draw(block, square, tangent, normals))
    without_scores(monkeypatch)
    M, *grams = mixed(block, square, tangents, [Recorded(3), Recorded(4)])
    with pytest.raises(AssertionError, match="off by"):  # planted: no path through queries and keys
        assert_near((M, grams[0]), of_one_draw(block, square, tangents[0], normals))


def without_scores(monkeypatch):
    """Plant: a tangent moves the values alone."""
    whole = rule.DrawnHeads.batches

    def batches(self, draws):
        for one in whole(self, draws):
            dead = None if one.channels is None else replace(one.channels, by_query=0.0, by_key=0.0)
            yield replace(one, row=0.0, column=0.0, queries=None if one.queries is None else 0 * one.queries,
                          channels=dead)  # fmt: skip

    monkeypatch.setattr(rule.DrawnHeads, "batches", batches)


def test_batches_do_not_matter(monkeypatch):
    """One head at a time, or all: the same draws; tangents in chunks of channels, too."""
    square, tangents = psd(1, 4), (psd(2, 4),)
    for options in ({"groups": 2}, {"key_dim": 4, "groups": 2, "value_dim": 3}, {"key_dim": 4, "rotary": 50}):
        block = attend(4, SIDES, **options)
        monkeypatch.undo()
        whole = mixed(block, square, tangents)
        for size in (16, 32):
            monkeypatch.setattr(rule, "BATCH", size)
            monkeypatch.setattr("meanfield.numeric.tokens.channels.CHUNK", 32)
            assert_near(mixed(block, square, tangents), whole, 1e-13)


# ----------------------------------------------------------------------------------------------- exact limits


def test_without_queries_attention_is_uniform():
    square, tangent = psd(1, 5), psd(2, 5)
    for options in ({}, {"key_dim": 3}, {"scale": "1/d"}):
        sides = (SIDES[0] if "scale" in options else (0, 0), *SIDES[1:])
        M, gram = mixed(attend(3, sides, **options), square, (tangent,))
        wanted = 0.81 * square.mean() + 0.25, 0.81 * tangent.mean()
        assert_near((M, gram), [np.full((5, 5), one) for one in wanted], 1e-12)
    M, _ = mixed(attend(3, SIDES), square, (tangent,))
    with pytest.raises(AssertionError, match="off by"):
        assert_near((M,), [np.full((5, 5), wanted[0])], 1e-3)


@pytest.mark.parametrize("options", [{}, {"key_dim": 4, "rotary": True}, {"causal": True, "qk_norm": True}])
def test_one_token_meets_two_dense(options):
    M, gram = mixed(attend(3, SIDES, **options), np.array([[1.7]]), (np.array([[0.6]]),))
    assert_near((M, gram), (np.array([[0.81 * 1.7 + 0.25]]), np.array([[0.81 * 0.6]])), 1e-14)


def test_permuted_tokens_permute_what_leaves():
    """The scores' normals permuted with the tokens (the root of a permuted matrix is the permuted root)."""
    T, order = 5, np.array([3, 0, 4, 1, 2])
    square, tangent = psd(1, T), psd(2, T)
    with_bias = np.append(order, T)

    def moved(one, options):
        return one[..., with_bias, :][..., with_bias] if "key_dim" not in options else one[..., with_bias, :]

    for options, fails in (({}, False), ({"key_dim": 3}, False), ({"causal": True}, True)):
        block, first = attend(3, SIDES, **options), Recorded(5)
        plain = mixed(block, square, (tangent,), [first])
        again = Recorded(given=[moved(one, options) for one in first.kept])
        turned = mixed(block, square[order][:, order], (tangent[order][:, order],), [again])
        wanted = [one[order][:, order] for one in plain]
        if fails:
            with pytest.raises(AssertionError, match="off by"):
                assert_near(turned, wanted, 1e-3)
        else:
            assert_near(turned, wanted, 1e-12)


def test_a_bias_of_keys_changes_nothing():
    square, tangent = psd(1, 5), psd(2, 5)
    for options, same in (({}, True), ({"key_dim": 3, "causal": True}, True), ({"key_dim": 4, "rotary": 9}, False)):
        one, other = (
            mixed(attend(3, (SIDES[0], (1.1, b), SIDES[2]), **options), square, (tangent,)) for b in (0.0, 2.0)
        )
        if same:
            assert_near(one, other, 1e-12)
        else:
            with pytest.raises(AssertionError, match="off by"):
                assert_near(one, other, 1e-3)


# ------------------------------------------------------------------------------------------ many heads: overlaps

PHI = {1.0: 0.395731327, 0.3: 0.076824532}  # T = 32, β = 3, from the double integral of 1/Z


def assert_z(found, wanted):
    z = found.z(wanted) if hasattr(found, "z") else (found[0] - wanted) / found[1]
    assert abs(z) < 4, f"z = {z:.1f}"


def slope_of_overlap(T, beta, count=4000):
    """Φ_r(1) = β² E Σ_su (∂_u A_s)², by Monte Carlo over rows of independent scores: (mean, error)."""
    rng = np.random.default_rng(8)
    E = np.exp(beta * rng.standard_normal((count, T)))
    A = E / E.sum(axis=1, keepdims=True)
    squares = (A**2).sum(axis=1)
    values = beta**2 * (squares - 2 * (A**3).sum(axis=1) + squares**2)
    return values.mean(), values.std(ddof=1) / np.sqrt(count)


def test_many_heads_average_to_the_overlaps_of_softmax():
    """K = ρ + (1 − ρ)Φ(1), K_ab = ρ + (1 − ρ)Φ(ρ) and J = Φ(1) + (2 − ρ)Φ_r(1), β² = σ²(1 − ρ)."""
    T, rho, beta = 32, 0.3, 3.0
    sigma = beta / np.sqrt(1 - rho)
    block = mf.Sequential((attend(100, ((sigma, 0), (1, 0), (1, 0))), PLAIN))
    answer = drawn(block, T, 2, 20, rho)
    assert_z(answer.estimate("K", 2), rho + (1 - rho) * PHI[1.0])
    assert_z(answer.estimate("K_ab", 2), rho + (1 - rho) * PHI[rho])
    slope, error = slope_of_overlap(T, beta)
    J = answer.estimate("J", 2)
    assert_z((J.mean - PHI[1.0] - (2 - rho) * slope, np.hypot(J.standard_error, (2 - rho) * error)), 0)
    planted = drawn(mf.Sequential((attend(100, ((beta, 0), (1, 0), (1, 0))), PLAIN)), T, 2, 20, rho)
    with pytest.raises(AssertionError, match="z = "):  # planted: σ for β
        assert_z(planted.estimate("K", 2), rho + (1 - rho) * PHI[1.0])
    with pytest.raises(AssertionError, match="z = "):  # planted: Φ(1) for Φ(ρ)
        assert_z(answer.estimate("K_ab", 2), rho + (1 - rho) * PHI[1.0])


@pytest.mark.slow
def test_finite_channels_become_many():
    """E of d channels tends to that of infinitely many; with eight it is far from it where scores are wide."""
    wide = ((3.0, 0), (1, 0), (1, 0))
    at = {d: drawn(mf.Sequential((attend(50, wide, key_dim=d), PLAIN)), 8, 2, 40) for d in (None, 8, 2000)}
    limit, few, many = (at[d].estimate("J", 2) for d in (None, 8, 2000))
    error = np.hypot(limit.standard_error, many.standard_error)
    assert_z((many.mean - limit.mean, error), 0)
    with pytest.raises(AssertionError, match="z = "):  # planted: d_k → ∞ at d_k = 8
        assert_z((few.mean - limit.mean, np.hypot(limit.standard_error, few.standard_error)), 0)


# ------------------------------------------------------------------------------------------------ finite networks

NETWORKS = {
    "plain": {"mu": 0.7, "pre": False, "sigma_mlp": 0.0, "correlation": 0.3, "sides": SIDES, "heads": 4},
    "causal, pre-norm": {
        "mu": 0.9, "pre": True, "sigma_mlp": 1.2, "correlation": 0.0, "sides": ((2.0, 0), (1.5, 0), (1, 0)), "heads": 4,
        "key_dim": 8, "causal": True,
    },
    "rotary, groups": {
        "mu": 1.0, "pre": True, "sigma_mlp": 0.0, "correlation": 0.5, "sides": ((2.0, 0.3), (1.5, 0.2), (1, 0)),
        "heads": 4, "key_dim": 16, "rotary": 30, "groups": 2,
    },
    "normed, narrow": {
        "mu": 0.8, "pre": False, "sigma_mlp": 0.0, "correlation": 0.2, "sides": ((1.0, 0.3), (1.0, 0), (1, 0.3)),
        "heads": 2, "key_dim": 6, "value_dim": 8, "qk_norm": True, "causal": True,
    },
}  # fmt: skip


def block_of(mu, pre, sigma_mlp, heads, sides, **options):
    norm = (RMSNorm(),) if pre else ()
    blocks = [mf.Residual(mf.Sequential((*norm, attend(heads, sides, **options), dense(1.1))), mu)]
    if sigma_mlp:
        up, down = mf.Dense(sigma_w=sigma_mlp, sigma_b=0, expand=2), dense(sigma_mlp)
        blocks.append(mf.Residual(mf.Sequential((*norm, up, mf.Nonlinearity("gelu"), down)), mu))
    return mf.Sequential(tuple(blocks))


@lru_cache
def measured(name, widths, networks, T, layers):
    return at_infinite_width(widths, networks, T=T, layers=layers, sigma_o=1.1, **NETWORKS[name])


def assert_networks(block, name, widths, networks, draws, T=5, layers=3):
    """K, K_ab and J of the last layer, over all tokens and of the last one, extrapolated in 1/N."""
    mean, error = measured(name, widths, networks, T, layers)
    scores = {}
    for i, read in enumerate(("mean", "last")):
        answer = drawn(block, T, layers, draws, NETWORKS[name]["correlation"], read)
        for j, quantity in enumerate(("K", "K_ab", "J")):
            one = answer.estimate(quantity, layers)
            scores[read, quantity] = (mean[i, j] - one.mean) / np.hypot(error[i, j], one.standard_error)
    worst = max(scores, key=lambda key: abs(scores[key]))
    assert abs(scores[worst]) < 4, f"{worst} is off by z = {scores[worst]:.1f}"
    return scores


def theory(name, **changes):
    settings = NETWORKS[name] | changes
    return block_of(**{k: v for k, v in settings.items() if k != "correlation"})


SIZES = ((32, 64, 128), (100, 80, 50), 300)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree(name, monkeypatch):
    assert_networks(theory(name), name, *SIZES)
    if NETWORKS[name]["pre"]:
        planted = ((1.2, 0), *NETWORKS[name]["sides"][1:])  # σ of the queries off, as where σ stands for β
        with pytest.raises(AssertionError, match="off by z"):
            assert_networks(theory(name, sides=planted), name, *SIZES)
        without_scores(monkeypatch)
        with pytest.raises(AssertionError, match="'J'\\) is off by z"):  # no path through queries and keys
            assert_networks(theory(name), name, *SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_wide_networks_agree(name):
    scores = assert_networks(theory(name), name, (64, 128, 256), (300, 200, 120), 800, T=8, layers=4)
    assert len(scores) == 6


@pytest.mark.slow
def test_figures_of_networks_of_others():
    """Networks of width 320 to 768 (the issue's): pre-norm, σ = 3, μ = 1, ρ = .2, 16 tokens, 16 heads, 6 blocks; and
    J of token 6 behind 4 causal blocks of d_k = 16 and σ = 2."""
    attention = attend(16, ((3, 0), (1, 0), (1, 0)))
    answer = drawn(mf.Residual(mf.Sequential((RMSNorm(), attention, PLAIN)), 1), 16, 7, 20, 0.2)
    K, K_ab, J = (answer.estimate(name, 7) for name in ("K", "K_ab", "J"))
    assert_z((K.mean - 4.76, np.hypot(K.standard_error, 0.07)), 0)
    assert_z((J.mean - 20.6, np.hypot(J.standard_error, 1.4)), 0)
    assert K_ab.mean / K.mean == pytest.approx(0.671, abs=0.002) and K.mean == pytest.approx(4.86, abs=0.01)
    attention = attend(8, ((2, 0), (1, 0), (1, 0)), key_dim=16, causal=True)
    J = drawn(mf.Residual(mf.Sequential((RMSNorm(), attention, PLAIN)), 1), 7, 5, 100, 0.2, "last").estimate("J", 5)
    assert_z((J.mean - 5.916, np.hypot(J.standard_error, 0.104)), 0)
    with pytest.raises(AssertionError, match="z = "):  # control: σ = 1.5
        one = mf.Residual(mf.Sequential((RMSNorm(), replace(attention, query=dense(1.5)), PLAIN)), 1)
        other = drawn(one, 7, 5, 100, 0.2, "last").estimate("J", 5)
        assert_z((other.mean - 5.916, np.hypot(other.standard_error, 0.104)), 0)


def gpt2(depth=12, width=768):
    """Deviations .02, those of residual projections by √(2 depth) less; fan-ins are multiplied in."""
    w = 0.02 * width**0.5
    heads = attend(12, ((w, 0),) * 3, key_dim=64, causal=True)
    up = mf.Dense(sigma_w=w, sigma_b=0, expand=4)
    out, down = dense(w / (2 * depth) ** 0.5), dense(2 * w / (2 * depth) ** 0.5)
    mlp = mf.Sequential((mf.LayerNorm(), up, mf.Nonlinearity("gelu"), down))
    return mf.Sequential((mf.Residual(mf.Sequential((mf.LayerNorm(), heads, out)), 1), mf.Residual(mlp, 1)))


@pytest.mark.slow
def test_the_recipe_of_gpt2():
    """Networks of width 768 (the issue's): embeddings of size .02 (and positions of .01) grow 187 ± 6-fold, J 209 ± 6,
    correlation .647 ± .009; embeddings of size 1: 1.072, 1.081, .0093."""
    for size, growth, J, correlation in (
        (5e-4, (187, 6), (209, 6), (0.647, 0.009)),
        (1.0, (1.072, 1e-3), (1.081, 4e-3), (0.0093, 4e-4)),
    ):
        answer = draw_all(SamplingSetting(gpt2(), PLAIN, size * np.eye(32), 13, {}, True, 0), 3, True)
        K, K_ab, found = (answer.estimate(name, 13) for name in ("K", "K_ab", "J"))
        for value, (mean, error) in ((K.mean / size, growth), (found.mean, J), (K_ab.mean / K.mean, correlation)):
            assert_z((value - mean, error), 0)
            with pytest.raises(AssertionError, match="z = "):
                assert_z((1.2 * value - mean, error), 0)


# ---------------------------------------------------------------------------------------------- as a user asks


def llama(**options):
    norm, one = RMSNorm(), attend(4, ((1, 0), (1, 0), (1, 0)), **options)
    wide = mf.Dense(sigma_w=1, sigma_b=0, expand=2)
    return mf.Sequential((
        mf.Residual(mf.Sequential((norm, one, PLAIN)), 1),
        mf.Residual(mf.Sequential((norm, mf.Gate("silu", wide, wide), PLAIN, mf.Scale(mf.Schedule(1, 1)))), 1),
    ))  # fmt: skip


def test_sample_answers_and_reads_the_last_token():
    theory_ = mf.derive(architecture=llama(key_dim=4, rotary=True, causal=True))
    settings = {"sigma_w": 1, "sigma_b": 0, "depth": 3, "tokens": 5, "draws": 3, "seed": 2}
    answer, last = theory_.sample(**settings), theory_.sample(**settings, read="last")
    assert answer.exact and answer.mixes and answer.quantities == ("K", "K_ab", "J", "chi")
    assert "the last one read" in str(last) and last.data()["read"] == "last"
    assert last.estimate("K", 1).mean == 1 and last.estimate("J", 3).mean > 1
    assert last.estimate("K", 3).mean != answer.estimate("K", 3).mean
    one = theory_.sample(**settings, threads=1)
    np.testing.assert_array_equal(one.samples["log_J"], answer.samples["log_J"])


def test_a_block_of_schedules_follows_its_layer():
    """Scale(Schedule(1, 1)) is 1/√k in the k-th block, in the sampled theory as in the recursion."""
    block = mf.Residual(mf.Sequential((mf.Nonlinearity("relu"), PLAIN, mf.Scale(mf.Schedule(1, 1)))), 1)
    theory_ = mf.derive(architecture=block)
    answer = theory_.sample(sigma_w=1, sigma_b=0, depth=4, tokens=2, draws=2, correlation=0.5)
    K = 1.0
    for k in range(1, 4):
        K = K + K / (2 * k)
    assert answer.estimate("K", 4).mean == pytest.approx(K, rel=1e-9)


NORMED = attend(4, SIDES, value_dim=3)


@pytest.mark.parametrize(("block", "settings", "match"), [
    (mf.Sequential((attend(4, SIDES, rotary=True), PLAIN)), {}, "give key_dim= of the Attention"),
    (mf.Sequential((attend(4, SIDES), mf.Nonlinearity("tanh"), PLAIN)), {}, "a mixture"),
    (mf.Sequential((attend(4, SIDES),)), {}, "ends in an activation, a Gate or an Attention"),
    (mf.Sequential((NORMED, RMSNorm(), PLAIN)), {}, "RMSNorm.* right behind an Attention of given value_dim"),
    (mf.Sequential((NORMED, mf.LayerNorm(), PLAIN)), {}, "LayerNorm.* right behind an Attention of given value_dim"),
    (mf.Sequential((RMSNorm(), PLAIN, dense(0), RMSNorm(), PLAIN)), {}, "RMSNorm of the block .* meets zeros"),
    (mf.Sequential((attend(4, ((0, 0), (1, 0), (1, 0)), qk_norm=True), PLAIN)), {}, "qk_norm .* divides by 0"),
])  # fmt: skip
def test_what_is_refused(block, settings, match):
    with pytest.raises(mf.MeanFieldError, match=match):
        drawn(block, draws=2, **settings)


def test_tokens_that_are_not_alike():
    """K of the tokens of any Gram matrix, without scores: its mean entry; of alike ones as by `correlation`."""
    sides = ((0, 0), (1, 0), (1, 0))
    theory_ = mf.derive(architecture=mf.Sequential((attend(2, sides), PLAIN, mf.Nonlinearity("linear"), PLAIN)))
    gram = psd(3, 5)
    settings = {"sigma_w": 1, "sigma_b": 0, "draws": 2}
    answer = theory_.sample(**settings, gram=gram, depth=2, read="last")
    assert answer.tokens == 5 and answer.estimate("K", 1).mean == pytest.approx(gram[-1, -1], rel=1e-14)
    assert answer.estimate("K", 2).mean == pytest.approx(gram.mean(), rel=1e-12)
    alike = theory_.sample(**settings, gram=0.7 * np.eye(4) + 0.3, depth=3)
    same = theory_.sample(**settings, tokens=4, correlation=0.3, depth=3)
    np.testing.assert_array_equal(alike.samples["K"], same.samples["K"])


@pytest.mark.parametrize(("settings", "match"), [
    ({"gram": "x"}, "must be a matrix"),
    ({"gram": [1, 2]}, "its shape is"),
    ({"gram": [[1, 0], [0, 0]]}, "> 0 on its diagonal"),
    ({"gram": [[1, 0.5], [0.2, 1]]}, "symmetric without negative eigenvalues"),
    ({"gram": [[1, 2], [2, 1]]}, "symmetric without negative eigenvalues"),
    ({"gram": np.eye(3), "tokens": 4}, "gram has 3 tokens, but tokens = 4"),
    ({"gram": np.eye(3), "correlation": 0.5}, "leave input_norm and correlation out"),
    ({"gram": [[1]]}, "take tokens=2 or more"),
])  # fmt: skip
def test_gram_matrices_that_are_refused(settings, match):
    theory_ = mf.derive(architecture=llama(key_dim=4))
    with pytest.raises(mf.MeanFieldError, match=match):
        theory_.sample(sigma_w=1, sigma_b=0, depth=2, draws=2, **settings)


def test_bad_arguments_are_named():
    theory_ = mf.derive(architecture=llama(key_dim=4))
    settings = {"sigma_w": 1, "sigma_b": 0, "depth": 2, "draws": 2}
    with pytest.raises(mf.MeanFieldError, match="read 'first'; the choices are mean, last"):
        theory_.sample(**settings, tokens=3, read="first")
    with pytest.raises(mf.MeanFieldError, match="take fewer tokens or threads=1"):
        theory_.sample(**settings, tokens=4096, threads=4)


def test_norms_behind_heads_of_many_channels_are_known():
    """LayerNorm or RMSNorm right behind the mixing: K of the next Dense is 1, its J that of the mixing over its K."""
    for norm in (mf.LayerNorm(), RMSNorm()):
        block = mf.Sequential((attend(4, SIDES), norm, PLAIN))
        answer = drawn(block, draws=3, depth=2)
        assert answer.estimate("K", 2).mean == pytest.approx(1, rel=1e-12)


def test_the_channels_of_a_head_are_one_record():
    """Without rotary and qk_norm both ways to push tangents through the scores are the same sum."""
    rng, square, gram = np.random.default_rng(1), psd(1, 5), psd(2, 5)
    q, k = rng.standard_normal((2, 3, 5, 6))
    A = head_weights(q, k)
    size = 6**-0.5
    keys, queries = (size**2 * (x @ x.swapaxes(1, 2)) for x in (k, q))
    fast = rule.Batch(A, square, 1.3, 0.7, keys, queries).moments(0.9, [gram])
    slow = rule.Batch(A, square, channels=Channels(q, k, size, 1.3, 0.7, 0.0, False)).moments(0.9, [gram])
    assert_near(slow, fast, 1e-13)
