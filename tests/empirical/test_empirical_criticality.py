"""χ of one block and of grids: against explicit small Jacobians, against each other, and at infinite width."""

import math
from fractions import Fraction

import numpy as np
import pytest

from meanfield.base.answers.results import Estimate, MeanFieldError
from meanfield.base.answers.saved import load
from meanfield.empirical import CriticalityEstimate, criticality_grid, measure_criticality, run_ensemble
from meanfield.empirical.random.philox import normals
from meanfield.empirical.shared import grid
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import (
    BatchNorm,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Param,
    Pool,
    Residual,
    Schedule,
    Sequential,
    mlp,
)

PHI = {
    "tanh": (np.tanh, lambda y: 1 - np.tanh(y) ** 2),
    "sin": (np.sin, np.cos),
    "relu": (lambda y: np.maximum(y, 0), lambda y: (y > 0).astype(float)),
}
TANH, SIN, NORM = Nonlinearity("tanh"), Nonlinearity("sin"), LayerNorm()
BLOCKS = [
    mlp("relu", norm="pre"),
    mlp("tanh", mu=Param("mu"), norm="act"),
    mlp("sin"),
    Residual(Sequential((SIN, Dense(), Residual(Sequential((NORM, TANH, Dense())), "0.4"), NORM)), "0.6"),
    Sequential((Dense(), Residual(TANH, "0.3"), Residual(Residual(SIN, 1), "0.5"))),
]
DEPTH, WIDTH, NETWORKS, PROBES, SEED, NORM2 = 6, 9, 3, 4, 5, 0.7
SIGMA_W, SIGMA_B, MU = np.array([0.9, 1.7, 1.2]), np.array([0.2, 0.0, 0.5]), np.array([9.0, 0.5, 0.2, 0.8, 0.6, 0.1])
SIZES = {"width": WIDTH, "depth": DEPTH, "networks": NETWORKS, "seed": SEED, "input_norm": NORM2, "mu": MU}


class Slow:
    """A block with an explicit matrix for its derivative, on network `index` with given σ_w, σ_b."""

    def __init__(self, index, sigma_w, sigma_b, full=True):
        self.index, self.sigma_w, self.sigma_b, self.full = index, sigma_w, sigma_b, full

    def chi(self, block):
        x = normals(SEED, self.index, 0, 0, WIDTH)
        z = math.sqrt(NORM2 * WIDTH) * x / np.linalg.norm(x)
        for self.layer in range(1, DEPTH):
            self.dense = 0
            z, slope = self.apply(block if self.layer > 1 else Dense(), z)
        signs = np.sign(normals(SEED, self.index, 0, 2, PROBES * WIDTH)).reshape(PROBES, WIDTH)
        return sum(((slope @ v) ** 2).sum() for v in signs) / (WIDTH * PROBES)

    def apply(self, block, y):
        match block:
            case Nonlinearity(name):
                phi, slope = PHI[name]
                return phi(y), np.diag(slope(y))
            case Sequential(blocks):
                total = np.eye(WIDTH)
                for inner in blocks:
                    y, slope = self.apply(inner, y)
                    total = slope @ total
                return y, total
            case Residual(branch, mu):
                mu = MU[self.layer - 1] if isinstance(mu, Param) else float(mu)
                new, slope = self.apply(branch, y)
                return new + mu * y, slope + mu * np.eye(WIDTH)
            case LayerNorm():
                unit = (y - y.mean()) / y.std()
                along = np.outer(unit, unit) / WIDTH if self.full else 0.0
                return unit, (np.eye(WIDTH) - 1 / WIDTH - along) / y.std()
        role = 2 * self.dense
        self.dense += 1
        w = normals(SEED, self.index, self.layer, role, WIDTH * WIDTH).reshape(WIDTH, WIDTH)
        w *= self.sigma_w / math.sqrt(WIDTH)
        return w @ y + self.sigma_b * normals(SEED, self.index, self.layer, role + 1, WIDTH), w


def _slow(block, full=True):
    """χ[network, point]."""
    return np.array([[Slow(i, *p, full).chi(block) for p in zip(SIGMA_W, SIGMA_B)] for i in range(NETWORKS)])


def _own(*blocks):
    """The settings of some of the blocks: a value of mu where one has that symbol."""
    return {k: v for k, v in SIZES.items() if k != "mu" or any(k in symbols_in(block) for block in blocks)}


def _list(blocks):
    return blocks if isinstance(blocks, list) else []


def _grid(blocks=BLOCKS, **more):
    places = {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B, "probes": PROBES}
    return criticality_grid(blocks, **(places | _own(*_list(blocks)) | more))


@pytest.mark.slow
def test_grid_against_explicit_matrices():
    found = _grid()
    assert found.chi.shape == found.standard_error.shape == found.diverged.shape == (len(BLOCKS), 3)
    assert not found.diverged.any()
    for p, block in enumerate(BLOCKS):
        slow = _slow(block)
        np.testing.assert_allclose(found.chi[p], slow.mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(found.standard_error[p], slow.std(axis=0, ddof=1) / math.sqrt(NETWORKS), rtol=1e-9)
    for p in (0, 1, 3):
        missing = _slow(BLOCKS[p], full=False).mean(axis=0)
        assert (np.abs(missing / found.chi[p] - 1) > 1e-2).all(), "control: LayerNorm's scale is not differentiated"


def test_one_block_against_the_grid():
    """The same seed gives the same networks, inputs and probes."""
    found = _grid()
    for p, block in enumerate(BLOCKS):
        for g in range(3):
            one = measure_criticality(block, sigma_w=SIGMA_W[g], sigma_b=SIGMA_B[g], probes=PROBES, **_own(block))
            assert one.chi.mean == pytest.approx(found.chi[p, g], rel=1e-12)
            assert one.chi.standard_error == pytest.approx(found.standard_error[p, g], rel=1e-10)
            assert one.chi.count == one.networks == NETWORKS and one.diverged == 0


@pytest.mark.fast_with("0", "2")
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_probes_measure_the_whole_jacobian(number):
    """For given networks the probes' relative variance is at most 2/(probes · networks)."""
    sizes = _own(BLOCKS[number]) | {"networks": 40}
    sizes |= {"mu": 0.3} if "mu" in sizes else {}
    one = measure_criticality(BLOCKS[number], sigma_w=1.3, sigma_b=0.2, probes=1000, **sizes)
    sizes["depth"] = DEPTH - 1
    whole, early = (
        run_ensemble(BLOCKS[number], sigma_w=1.3, sigma_b=0.2, l0=l0, **sizes).samples["log_J"]
        for l0 in (DEPTH - 2, DEPTH - 3)
    )
    error = one.chi.mean * math.sqrt(2 / 40_000)
    assert abs(one.chi.mean - np.exp(whole[:, 1]).mean()) <= 4 * error
    assert abs(one.chi.mean - np.exp(early[:, 1]).mean()) > 4 * error, "control: the block of the layer before"


def test_same_bits_for_any_threads_and_the_same_numbers_for_any_cut(monkeypatch):
    arguments = {"networks": 5, "width": 33}
    whole = _grid(threads=1, **arguments)
    for threads in (2, 3, 8):
        again = _grid(threads=threads, **arguments)
        assert (again.chi == whole.chi).all() and (again.standard_error == whole.standard_error).all()
    monkeypatch.setattr(grid, "_HELD", 33 * 20)
    sigma_w, sigma_b = np.linspace(0.5, 2, 19), np.linspace(0, 1, 19)
    seen = []
    many = _grid(sigma_w=sigma_w, sigma_b=sigma_b, progress=lambda *now: seen.append(now), **arguments)
    assert seen == [(n, 25) for n in range(1, 26)], "five batches of five networks"
    monkeypatch.setattr(grid, "_TILE", 33 * 8)
    cut = _grid(sigma_w=sigma_w, sigma_b=sigma_b, **arguments)
    np.testing.assert_allclose(cut.chi, many.chi, rtol=1e-12)
    alone = _grid(BLOCKS[3:4], sigma_w=sigma_w[7:8], sigma_b=sigma_b[7:8], **arguments)
    np.testing.assert_allclose(alone.chi[0, 0], many.chi[3, 7], rtol=1e-12)


# χ at infinite width, |x|²/N_0 = 1, L = 50
WIDE = [
    (mlp("relu", norm="pre"), 2, 0.5, 0.8889),
    (mlp("erf"), 2, 0.5, 1.4491),
    (mlp("erf", mu=1), 1, 1, 1.0662),
    (mlp("gelu"), 1.7, 0, 1.44),
]


@pytest.mark.slow
def test_infinite_width():
    """1 % is allowed for N = 500; controls: the same blocks with σ_w 30 % smaller."""
    blocks, sigma_w, sigma_b, predicted = zip(*WIDE)
    found = criticality_grid(blocks, sigma_w=[*sigma_w, *np.multiply(sigma_w, 0.7)], sigma_b=[*sigma_b, *sigma_b])
    assert found.chi.shape == (4, 8)
    for p, value in enumerate(predicted):
        for g, near in ((p, True), (p + 4, False)):
            allowed = 4 * found.standard_error[p, g] + 0.01 * value
            assert allowed < 0.045 * value
            assert (abs(found.chi[p, g] - value) <= allowed) == near, (p, g)


def test_phases():
    def estimate(mean, error):
        return CriticalityEstimate(Estimate(mean, error, 9), 10, 5, 9, 2, 0, np.zeros(9, dtype=int))

    for mean, error, phase in (
        (1.1, 0.04, "chaotic"),
        (1.1, 0.06, "critical within error"),
        (0.9, 0.04, "ordered"),
        (0.9, 0.06, "critical within error"),
        (1.0, 0.0, "critical within error"),
    ):
        assert estimate(mean, error).phase == phase
    assert estimate(math.exp(-0.25), 0.01).correlation_length == pytest.approx(4)
    assert estimate(math.exp(0.5), 0.01).correlation_length == pytest.approx(2)
    assert estimate(1.0, 0.1).correlation_length == math.inf and estimate(0.0, 0.0).correlation_length == 0
    text = "χ = 0.7788 ± 0.01 (N = 10, L = 5, 9 networks): ordered, correlation length 4 layers"
    assert str(estimate(math.exp(-0.25), 0.01)) == text


def test_networks_that_overflow_are_counted_and_named():
    arguments = {"width": 10, "depth": 50, "networks": 60, "seed": 3, "probes": 2}
    one = measure_criticality(mlp("relu2"), sigma_w=1, sigma_b=0.1, **arguments)
    which = np.flatnonzero(one.diverged_at)
    assert 5 < one.diverged == which.size == 60 - one.chi.count < 55
    assert math.isfinite(one.chi.mean) and math.isfinite(one.chi.standard_error)
    first, second = str(one).split("\n")
    assert f"{one.chi.count} networks" in first
    assert second.startswith(
        f"{one.diverged} of 60 networks overflowed (or normalized equal numbers), the first at layer"
    )
    assert f"layer {one.diverged_at[which].min()}: numbers {which[0]}, {which[1]}, " in second
    run = run_ensemble(mlp("relu2"), sigma_w=1, sigma_b=0.1, jacobian=False, **_own(mlp("relu2")))
    assert (run.diverged_at == 0).all(), "control: few layers do not overflow"
    found = criticality_grid([mlp("tanh"), mlp("relu2")], sigma_w=[0.3, 1], sigma_b=[0.1, 0.1], **arguments)
    assert found.diverged.tolist() == [[0, 0], [0, one.diverged]]
    assert (np.isnan(found.chi) == (found.diverged > 0)).all()
    assert (np.isnan(found.standard_error) == (found.diverged > 0)).all()
    assert str(found).endswith("; 1 of 4 columns overflow (or normalize equal numbers)")
    with pytest.raises(MeanFieldError, match=r"but 60 of 60 networks overflowed .*numbers 0, 1, 2, 3, 4, …; take a"):
        measure_criticality(mlp("relu2"), sigma_w=3, sigma_b=0.1, **arguments)


def test_an_overflow_inside_a_block_is_not_forgotten():
    """LayerNorm of zeros gives NaN, and max(NaN, 0) would be 0."""
    block = mlp("relu", norm="pre")
    arguments = {"width": 6, "depth": 4, "networks": 2}
    assert run_ensemble(block, sigma_w=0, sigma_b=0, **arguments).diverged_at.tolist() == [2, 2]
    found = criticality_grid([block, mlp("relu")], sigma_w=[0, 1], sigma_b=[0, 0], **arguments)
    assert found.diverged.tolist() == [[2, 0], [0, 0]] and found.chi[1, 0] == 0
    with pytest.raises(MeanFieldError, match=r"2 of 2 networks overflowed .*the first at layer 2"):
        measure_criticality(block, sigma_w=0, sigma_b=0, **arguments)


WIDE_RECORDS = {
    "pool": Sequential((TANH, Dense(expand=2), Pool(2))),
    "gate": Residual(Sequential((NORM, Gate("silu", Dense(expand=2), Dense(sigma_w=2, expand=2)), Dense())), 1),
    "orthogonal": mlp("tanh", weights="orthogonal"),
    "uniform": mlp("tanh", weights="uniform"),
    "shortcut": Residual(Sequential((TANH, Dense())), "0.5", Dense(sigma_b=0)),
}


@pytest.mark.parametrize("name", WIDE_RECORDS)
def test_a_grid_runs_what_keeps_positions_apart(name):
    """Every record, weights of any law, σ's of its own: the numbers of one point at a time."""
    sizes = {"width": 8, "depth": 4, "networks": 2, "probes": 2, "seed": 6}
    sigma_w, sigma_b = np.linspace(0.7, 1.9, 6), np.linspace(0.0, 0.5, 6)
    found = criticality_grid([WIDE_RECORDS[name]], sigma_w=sigma_w, sigma_b=sigma_b, **sizes)
    for g in (0, 5):
        one = measure_criticality(WIDE_RECORDS[name], sigma_w=sigma_w[g], sigma_b=sigma_b[g], **sizes)
        assert one.chi.mean == pytest.approx(found.chi[0, g], rel=1e-12)
    assert abs(found.chi[0, 0] / found.chi[0, 5] - 1) > 0.1, "control: the σ's matter"


def test_what_a_grid_cannot_run():
    points = {"sigma_w": [1.0], "sigma_b": [0.1], "width": 8, "depth": 4, "networks": 2}
    falling = Residual(Sequential((TANH, Dense(sigma_w=Schedule("sigma_w", 1)))), 1)
    with pytest.raises(MeanFieldError, match="a Schedule falls from the σ's that it scans"):
        criticality_grid([falling], **points)
    with pytest.raises(MeanFieldError, match="cannot run a network where positions act on each other"):
        criticality_grid([Sequential((BatchNorm(), TANH, Dense()))], **points)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"depth": 2}, "The depth must be an integer from 3 to"),
        ({"networks": 1}, "The number of networks must be an integer from 2 to"),
        ({"probes": 0}, "The number of probes must be an integer from 1 to"),
        ({"width": 1}, "LayerNorm was asked for in a network of width 1"),
        ({"input_norm": 0}, r"The input norm \|x\|²/N_0 must be > 0, but 0.0 was given"),
        ({"mu": None}, "needs a number for the skip strength mu"),
        ({"threads": 0}, "The number of threads must be an integer from 1"),
        ({"progress": 3}, r"progress must be a function progress\(done, networks\)"),
        ({"seed": 0.5}, "The seed must be an integer from 0"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(MeanFieldError, match=message):
        _grid(**arguments)
    with pytest.raises(MeanFieldError, match=message):
        measure_criticality(BLOCKS[1], **({"sigma_w": 1, "sigma_b": 0} | SIZES | arguments))


def test_refusals_of_one_of_them():
    for sigma_w, message in (
        ([1, 2], "sigma_w must be a finite number, but"),
        (-1, "sigma_w must be finite and ≥ 0, but -1"),
    ):
        with pytest.raises(MeanFieldError, match=message):
            measure_criticality(BLOCKS[2], sigma_w=sigma_w, sigma_b=0, **_own(BLOCKS[2]))
    for sigma_w, message in (
        ([1, 2], r"they have 2 and 3 numbers; give arrays of one length, or a number for all\."),
        (np.ones((3, 3)), r"a number ≥ 0 or a list of them \(flatten a mesh with ravel\(\)\), but"),
        ([], r"sigma_w must be a number ≥ 0 or a list of them, but"),
        ([1, -1, 1], "sigma_w must be a number ≥ 0 or a list of them, but"),
    ):
        with pytest.raises(MeanFieldError, match=message):
            _grid(sigma_w=sigma_w)
    for blocks in ([], "relu", mlp("relu")):
        with pytest.raises(MeanFieldError, match="A list of at least one block was needed, but"):
            _grid(blocks)
    for call in (lambda: _grid([mlp("step")]), lambda: measure_criticality(mlp("step"), sigma_w=1, sigma_b=1)):
        with pytest.raises(MeanFieldError, match="χ was asked for an activation that jumps"):
            call()


@pytest.mark.slow
def test_the_lazy_sampler_measures_the_same_chi():
    block = mlp("gelu", mu=Fraction(1, 2), norm="pre")
    sizes = {"sigma_w": 1.4, "sigma_b": 0.2, "width": 40, "depth": 8, "networks": 300, "probes": 3}
    explicit, lazy = (measure_criticality(block, sampler=sampler, **sizes).chi for sampler in ("explicit", "lazy"))
    error = math.hypot(explicit.standard_error, lazy.standard_error)
    assert abs(explicit.mean - lazy.mean) < 4 * error < 0.1
    other = measure_criticality(block, sampler="lazy", **sizes | {"sigma_b": 1.5}).chi
    assert abs(explicit.mean - other.mean) > 4 * error, "control: another σ_b"


MIXED = Residual(Sequential((LayerNorm(), Dense(axis="tokens", expand=2), TANH, Dense(axis="tokens"))), "0.5")
COUPLED = {
    "tokens": (Sequential((MIXED, TANH, Dense())), {"tokens": 3}),
    "batch": (Residual(Sequential((BatchNorm(), SIN, Dense())), "0.5"), {"batch": 5}),
    "neither": (mlp("tanh", mu="0.5", norm="pre"), {}),
}


@pytest.mark.parametrize("name", COUPLED)
def test_chi_of_every_block(name):
    """Exact chi at layer l is J^{l,l+1} measured from l; random probes agree, and are fresh at each layer."""
    block, positions = COUPLED[name]
    sizes = {"sigma_w": 1.2, "sigma_b": 0.3, "width": 12, "depth": 4, "networks": 6, "seed": 3} | positions
    exact = run_ensemble(block, quantities=("chi",), **sizes)
    assert exact.layers("chi").tolist() == [1, 2, 3] and exact.estimate("chi").mean.shape == (3,)
    for l in (1, 2, 3):
        one = np.exp(run_ensemble(block, quantities=("J",), l0=l, **sizes).samples["log_J"][:, 1])
        np.testing.assert_allclose(exact.samples["chi"][:, l - 1], one, rtol=1e-10)
    probed = run_ensemble(block, quantities=("chi",), probes=2000, **sizes).samples["chi"]
    np.testing.assert_allclose(probed, exact.samples["chi"], rtol=0.05)
    assert np.abs(probed[:, 1:] / exact.samples["chi"][:, :-1] - 1).max() > 0.05, "control: the block before"


@pytest.mark.parametrize("name", COUPLED)
def test_criticality_where_positions_couple(name):
    block, positions = COUPLED[name]
    sizes = {"sigma_w": 1.2, "sigma_b": 0.3, "width": 12, "networks": 4, "seed": 3} | positions
    found = measure_criticality(block, depth=5, probes=3000, **sizes)
    exact = run_ensemble(block, depth=4, quantities=("chi",), **sizes).samples["chi"][:, -1]
    assert found.chi.mean == pytest.approx(exact.mean(), rel=0.03)


def test_batch_norm_alone_is_chaotic():
    """[autoinit] table (b): ReLU, μ = 0, |B| = 8: one block grows by 1.600 from independent tangents."""
    block = Sequential((BatchNorm(), Nonlinearity("relu"), Dense()))
    sizes = {"sigma_w": 1.4, "sigma_b": 0.3, "width": 200, "networks": 30, "probes": 8}
    found = measure_criticality(block, batch=8, depth=8, **sizes)
    assert found.phase == "chaotic" and abs(found.chi.z(1.600288)) < 4
    assert abs(found.chi.z(1.466942)) > 4, "control: an infinite batch"


@pytest.mark.parametrize(("block", "positions", "match"), [
    (COUPLED["tokens"][0], {}, "give the number of tokens"),
    (COUPLED["batch"][0], {}, "over 1 position; give batch=4"),
    (COUPLED["batch"][0], {"batch": 3}, "over 3 positions"),
])  # fmt: skip
def test_positions_that_are_missing(block, positions, match):
    with pytest.raises(MeanFieldError, match=match):
        measure_criticality(block, sigma_w=1, sigma_b=0.1, width=8, depth=4, networks=2, **positions)


def test_an_estimate_is_saved_as_other_results_are(tmp_path):
    found = measure_criticality(mlp("tanh"), sigma_w=1.2, sigma_b=0, width=32, depth=4, networks=6)
    row = found.to_frame()
    assert float(row["chi"][0]) == found.chi.mean and float(row["standard_error"][0]) == found.chi.standard_error
    assert load(found.save(tmp_path / "chi.json")).chi["mean"] == found.chi.mean
