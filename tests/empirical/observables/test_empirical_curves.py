"""J^{l0,l} from random directions: against the exact Jacobian of the same networks, with planted errors as controls."""

import math

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import JacobianCurves, jacobian_curves, measure_criticality, run_ensemble
from meanfield.empirical.network.operations.operation_derivatives import LayerNormDerivative, Slope
from meanfield.empirical.observables.norms import draw_probes
from meanfield.empirical.random.matrices import HeldMatrix
from meanfield.empirical.shared import curves
from meanfield.empirical.shared.shared_weights import SharedWeights
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import BatchNorm, Dense, LayerNorm, Nonlinearity, Param, Pool, Residual, Sequential, mlp

ERF, GELU = Nonlinearity("erf"), Nonlinearity("gelu")
BLOCKS = [
    mlp(phi, norm=norm, mu=mu) for phi in ("erf", "gelu", "relu") for norm in (None, "pre", "act") for mu in (0, 0.5)
]
BLOCKS.append(
    Residual(Sequential((ERF, Dense(), Residual(Sequential((LayerNorm(), GELU, Dense())), 0.4))), Param("mu"))
)
P = len(BLOCKS)
SIGMA_W, SIGMA_B = np.linspace(1.1, 1.9, P), np.linspace(0.6, 0, P)
SIZES = {"width": 20, "depth": 5, "networks": 16, "seed": 3, "input_norm": 0.7, "mu": 0.8}
STARTS = [(0, 3), (1, None), (3, 5)]  # l0, N_0


def _curves(blocks=BLOCKS, **more):
    own = _own(*(blocks if isinstance(blocks, list) else []))
    return jacobian_curves(blocks, **({"sigma_w": SIGMA_W, "sigma_b": SIGMA_B} | own | more))


def _own(*blocks):
    """The settings of some of the blocks: a value of mu where one has that symbol."""
    return {k: v for k, v in SIZES.items() if k != "mu" or any(k in symbols_in(block) for block in blocks)}


def _exact(l0, fan_in):
    """log_J[p, i, k] of the whole Jacobian."""
    runs = [
        run_ensemble(block, sigma_w=w, sigma_b=b, l0=l0, input_dimension=fan_in, **_own(block))
        for block, w, b in zip(BLOCKS, SIGMA_W, SIGMA_B)
    ]
    return np.array([run.samples["log_J"] for run in runs]), np.array([run.diverged_at for run in runs])


def _whole_basis(patch):
    """The probes become √n e_1, …, √n e_n: the mean of |J v|² over them is ‖J‖²_F."""
    patch.setattr(curves, "draw_probes", lambda n, seed, index, probes, law: math.sqrt(n) * np.eye(n))


@pytest.mark.slow
@pytest.mark.parametrize("l0, fan_in", STARTS)
def test_whole_basis_gives_the_exact_jacobian(monkeypatch, l0, fan_in):
    _whole_basis(monkeypatch)
    exact, diverged_at = _exact(l0, fan_in)
    found = _curves(l0=l0, input_dimension=fan_in, probes=20 if l0 else 3)
    np.testing.assert_allclose(found.log_J, exact, rtol=0, atol=1e-10)
    assert found.layers.tolist() == list(range(max(l0, 1), 6)) and found.l0 == (l0,) * P
    assert not found.diverged_at.any() and not diverged_at.any()


def test_other_records_and_widths(monkeypatch):
    """Pools, orthogonal weights, a σ_w of its own, one width per layer: the exact Jacobian of `run_ensemble`."""
    _whole_basis(monkeypatch)
    block = Sequential((ERF, Dense("orthogonal", expand=2), Pool(2), Dense(sigma_w="3/2")))
    sizes = {"width": [20, 14, 16, 20], "depth": 4, "networks": 3, "seed": 3}
    found = jacobian_curves([block, mlp("gelu")], sigma_w=[1.2, 1.4], sigma_b=0.1, probes=20, **sizes)
    for p, (one, w) in enumerate(((block, 1.2), (mlp("gelu"), 1.4))):
        exact = run_ensemble(one, sigma_w=w, sigma_b=0.1, **sizes).samples["log_J"]
        np.testing.assert_allclose(found.log_J[p], exact, rtol=0, atol=1e-10)
    with pytest.raises(MeanFieldError, match="positions act on each other"):
        jacobian_curves([Sequential((BatchNorm(), ERF, Dense()))], sigma_w=1, sigma_b=0, width=4, depth=3, networks=2)


def test_a_start_for_each_block(monkeypatch):
    _whole_basis(monkeypatch)
    starts = [p % 3 for p in range(P)]
    found = _curves(l0=starts, probes=20)
    assert found.layers.tolist() == [1, 2, 3, 4, 5] and found.l0 == tuple(starts)
    for l0 in range(3):
        exact = _exact(l0, None)[0]
        for p in range(l0, P, 3):
            np.testing.assert_allclose(found.log_J[p, :, max(l0, 1) - 1 :], exact[p], rtol=0, atol=1e-10)
            assert np.isnan(found.log_J[p, :, : max(l0, 1) - 1]).all()


lent, weights, squared = HeldMatrix.matvec, SharedWeights.weights, curves.log_squared_norm


def _slopes_only(self, rows, out):
    np.divide(rows, self.spread[: rows.shape[1], None], out=out)


def _scaled(factor):
    def matvec(self, rows, out):
        lent(self, rows, out)
        out *= factor

    return matvec


PLANTED = {
    "σ_w 3 % too large": (HeldMatrix, "matvec", _scaled(1.03)),
    "σ_w forgotten": (HeldMatrix, "matvec", lambda self, rows, out: np.matmul(rows, self.array.T, out=out)),
    "no 1/N": (curves, "log_squared_norm", lambda m: (squared(m)[0] + math.log(20), squared(m)[1])),
    "LayerNorm's scale alone": (LayerNormDerivative, "push", _slopes_only),
    "φ not differentiated": (Slope, "push", lambda self, rows, out: np.copyto(out, rows)),
    "one W in all layers": (SharedWeights, "release", lambda self: None),
    "one W for all Dense": (
        SharedWeights,
        "weights",
        lambda self, law, l, ordinal, shape: weights(self, law, l, 0, shape),
    ),
}


def _z(found, exact):
    """Of the mean over the networks of (J estimated)/(J exact) at layers 2, 3, …: distance from 1 in standard errors
    (z[p, k]), and the standard errors."""
    ratio = np.exp(found.log_J - exact)[:, :, 1:]
    spread = ratio.std(axis=1, ddof=1) / math.sqrt(ratio.shape[1])
    return (ratio.mean(axis=1) - 1) / spread, spread


@pytest.mark.slow
def test_random_signs_have_no_bias(monkeypatch):
    """Each block must reject an error planted in the run, as its mean is off or as the networks are others."""
    exact, arguments = _exact(1, None)[0], {"probes": 300}
    z, spread = _z(_curves(**arguments), exact)
    assert np.abs(z).max() < 6 and 0.5 < z.std() < 1.6 and spread.max() < 0.02
    for name, plant in PLANTED.items():
        with monkeypatch.context() as patch:
            patch.setattr(*plant)
            z, spread = _z(_curves(**arguments), exact)
        rejected = ((np.abs(z) > 6) | (spread > 0.03)).any(axis=1)
        concerned = [True] * P
        if name == "LayerNorm's scale alone":
            concerned = [norm for _ in range(3) for norm in (False, False, True, True, True, True)] + [True]
        if name == "one W for all Dense":
            concerned = [False] * (P - 1) + [True]
        assert rejected.tolist() == concerned, name


@pytest.mark.slow
def test_expected_value_at_finite_width():
    """E J^{1,l} = (σ_w²/2)^{l−1} for ReLU at every width, as signs of W are fair; control: σ_w 3 % larger."""
    w = math.sqrt(2) * np.array([1, 1.03])
    found = jacobian_curves([mlp("relu")] * 2, sigma_w=w, sigma_b=0, width=80, depth=12, networks=400, probes=8)
    z = [found.mean_log(p).mean[1:] / found.mean_log(p).standard_error[1:] for p in range(2)]
    assert np.abs(z[0]).max() < 4 < z[1][-1]
    assert abs(found.slope(0, 2, 12).z(0.0)) < 3 and found.slope(1, 2, 12, np.asarray).z(2 * math.log(1.03)) < 3
    assert abs(found.slope(1, 2, 12).z(0.0)) > 4, "control"
    assert np.abs(found.log_J[:, :, 0]).max() < 1e-12, "J^{1,1} = 1 for every set of signs"


def test_far_outside_the_doubles():
    blocks, sizes = [mlp("erf"), mlp("sin")], {"width": 6, "depth": 400, "networks": 2}
    found = jacobian_curves(blocks, sigma_w=[0.05, 15], sigma_b=0, probes=200, **sizes)
    assert found.log_J[0, :, -1].max() < -1800 and found.log_J[1, :, -1].min() > 900 and not found.diverged.any()
    for p, w in enumerate((0.05, 15)):
        exact = run_ensemble(blocks[p], sigma_w=w, sigma_b=0, **sizes).samples["log_J"]
        reached = 400 if p == 0 else 8  # a chaotic network does not forget its rounding errors
        assert np.abs(found.log_J[p] - exact)[:, :reached].max() < 0.5
        assert found.log_J[p, :, -1] == pytest.approx(exact[:, -1], rel=0.05)
        mean = found.mean_log(p)
        assert np.isfinite(mean.mean).all() and np.isfinite(mean.standard_error).all()


def test_same_bits_for_any_threads_and_any_company():
    seen = []
    whole = _curves(threads=1, progress=lambda *now: seen.append(now))
    assert seen == [(n, 16) for n in range(1, 17)]
    for threads in (2, 7):
        assert _curves(threads=threads).log_J.tobytes() == whole.log_J.tobytes()
    alone = _curves(BLOCKS[4:7], sigma_w=SIGMA_W[4:7], sigma_b=SIGMA_B[4:7])
    assert alone.log_J.tobytes() == whole.log_J[4:7].tobytes()
    assert (_curves(seed=4).log_J[:, :, 1] != whole.log_J[:, :, 1]).all(), "control: another seed"


def _made(logs, diverged_at=None, l0=2):
    logs = np.asarray(logs, dtype=float)
    lost = np.zeros(logs.shape[:2], dtype=int) if diverged_at is None else np.array(diverged_at)
    networks, layers = logs.shape[1:]
    return JacobianCurves(np.arange(l0, l0 + layers), lost, (l0,) * len(logs), 9, l0 + layers - 1, networks, 2, 0, logs)


def test_mean_slope_and_jackknife():
    logs = np.random.default_rng(0).normal(size=(1, 7, 5))
    J, l = np.exp(logs[0]), np.arange(2, 7)
    for shift in (0.0, -1e4, 1e4):
        made = _made(logs + shift)
        mean = made.mean_log(0)
        np.testing.assert_allclose(mean.mean, np.log(J.mean(axis=0)) + shift, rtol=1e-12)
        np.testing.assert_allclose(mean.standard_error, J.std(axis=0, ddof=1) / math.sqrt(7) / J.mean(axis=0))
        for against in (np.log, np.sqrt):
            fits = [
                np.polyfit(against(l[1:]), np.log(np.delete(J, i, axis=0)[:, 1:].mean(axis=0)), 1)[0] for i in range(7)
            ]
            slope = made.slope(0, 3, 6, against)
            whole = np.polyfit(against(l[1:]), np.log(J[:, 1:].mean(axis=0)), 1)[0]
            assert slope.mean == pytest.approx(whole, abs=1e-10) and slope.count == 7
            assert slope.standard_error == pytest.approx(math.sqrt(6 / 7 * np.sum((fits - np.mean(fits)) ** 2)))
    dead = _made([[[0.0, -math.inf], [1.0, -math.inf]]])
    assert dead.mean_log(0).mean[1] == -math.inf
    with pytest.raises(MeanFieldError, match="log J of block 0 has no slope, as J is 0 in the networks by layer 3"):
        dead.slope(0, 2, 3)


def test_networks_that_overflow():
    """run_ensemble notices it at the same layer, or one earlier: K overflows before z does."""
    sizes = {"width": 10, "depth": 50, "networks": 60, "seed": 3}
    found = jacobian_curves([mlp("tanh"), mlp("relu2")], sigma_w=[0.3, 1], sigma_b=0.1, **sizes)
    gap = found.diverged_at[1] - run_ensemble(mlp("relu2"), sigma_w=1, sigma_b=0.1, **sizes).diverged_at
    assert ((gap == 0) | (gap == 1)).all() and 5 < found.diverged[1] < 55 and found.diverged[0] == 0
    lost = found.diverged_at[1][found.diverged_at[1] > 0]
    at = lost.min() - 1
    assert found.finite_depth(1) == at < 50 == found.finite_depth(0)
    assert np.isfinite(found.mean_log(1).mean[:at]).all() and np.isnan(found.mean_log(1).mean[at:]).all()
    assert np.isnan(found.log_J[1]).sum() == (51 - lost).sum()
    assert str(found).endswith(f"(N = 10, 60 networks, 32 probes); {found.diverged[1]} of 120 diverged")
    with pytest.raises(
        MeanFieldError, match=rf"The last layer of a fit \(.*block 1 have J.* 1 to {at}\) must be an int"
    ):
        found.slope(1, 2, at + 1)
    with pytest.raises(MeanFieldError, match="The number of a block must be an integer from 0 to 1, but 2 was given"):
        found.mean_log(2)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"blocks": []}, "A list of at least one block was needed, but"),
        ({"blocks": BLOCKS[0]}, "A list of at least one block was needed, but"),
        ({"sigma_w": [1, 2]}, rf"they have 2 and {P} numbers for {P} blocks; give one for each, or a number for all\."),
        ({"sigma_b": np.full(P, -1.0)}, "sigma_b must be a number ≥ 0 or a list of them, but"),
        ({"sigma_w": "wide"}, "sigma_w must be a number ≥ 0 or a list of them, but 'wide' was given"),
        ({"l0": [1, 2]}, rf"l0 must be one number, or one for each of the {P} blocks, but its shape is \(2,\)"),
        ({"l0": 7}, "The layer l0 must be an integer from 0 to 5, but 7.0 was given"),
        ({"networks": 1}, "The number of networks must be an integer from 2 to"),
        ({"probes": 0}, "The number of probes must be an integer from 1 to"),
        ({"width": 1}, "LayerNorm was asked for in a network of width 1"),
        ({"input_norm": 0}, r"The input norm \|x\|²/N_0 must be > 0"),
        ({"mu": None}, "needs a number for the skip strength mu"),
        ({"threads": 0}, "The number of threads must be an integer from 1"),
        ({"progress": 3}, r"progress must be a function progress\(done, networks\)"),
        ({"blocks": [mlp("step")] * P}, "J was asked for an activation that jumps"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(MeanFieldError, match=message):
        _curves(**arguments)


@pytest.mark.parametrize("law", ["signs", "gaussian", "sphere"])
def test_laws_of_probes(law):
    """|M v|² over 40,000 probes: mean ‖M‖²_F, and the variance of its law; control: the variances of the others."""
    M = np.random.default_rng(0).standard_normal((6, 5)) @ np.diag([3, 1, 1, 0.5, 0.2])
    v = draw_probes(5, 0, 0, 40_000, law=law)
    values = ((M @ v) ** 2).sum(axis=0)
    A = M.T @ M
    square, trace, n = np.trace(A @ A), np.trace(A), 5
    variances = {
        "signs": 2 * (square - (np.diag(A) ** 2).sum()),
        "gaussian": 2 * square,
        "sphere": 2 * (n * square - trace**2) / (n + 2),
    }
    assert abs(values.mean() - trace) < 4 * math.sqrt(variances[law] / v.shape[1])
    close = {name: abs(values.var() / one - 1) < 0.05 for name, one in variances.items()}
    assert close == {name: name == law for name in variances}
    assert np.array_equal(draw_probes(5, 0, 0, 3, law=law), v[:, :3]), "more probes keep the first ones"


@pytest.mark.fast_with("sphere")
@pytest.mark.parametrize("law", ["gaussian", "sphere"])
def test_other_probes_measure_the_same_jacobian(law):
    exact, _ = _exact(1, None)
    found = _curves(probes=400, probe_law=law).log_J
    assert np.abs(np.exp(found - exact).mean(axis=1) - 1).max() < 0.1 > 5 * np.exp(found - exact).std() / 20
    with pytest.raises(MeanFieldError, match=r"'uniform'.*signs"):
        _curves(probe_law="uniform")
    with pytest.raises(MeanFieldError, match=r"'uniform'.*signs"):
        measure_criticality(mlp("tanh"), sigma_w=1, sigma_b=0, width=10, depth=4, networks=2, probe_law="uniform")
