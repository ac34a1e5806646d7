"""Coordinate checks against networks in plain NumPy that know nothing of the library: the line at n = 256 and more, the
networks of the check itself at any width, and what is left between them, which halves from n to 2n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr, stdtrit

from meanfield.networks.records import Block, Dense, Gate, LayerNorm, Nonlinearity, Residual, Sequential, mlp
from meanfield.parametrizations import CoordinateCheck, CoordinateRow, coordinate_check, parametrization
from tests.parametrizations.coordinate_networks import Measured, draw, gradients, measure, rms, steps
from tests.parametrizations.coordinate_nodes import Dense as Affine
from tests.parametrizations.coordinate_nodes import Gate as Product
from tests.parametrizations.coordinate_nodes import Norm, Setting, chain, pre_norm, residual
from tests.parametrizations.parametrization_cases import branch_of, settings_in

BASE, D = 16, 32
X = np.random.default_rng(9).standard_normal((4, D))
SLOPES = np.array([-0.7, 1.0, 0.4, -1.2])
PLAIN = LayerNorm(affine=False)


@dataclass(frozen=True)
class Silu:
    """z/(1 + exp −z)."""

    def run(self, x, weights, seen):
        below = 1 / (1 + np.exp(-x))
        return x * below, lambda g: g * (below + x * below * (1 - below))


def gate(n: int, settings: Sequence[Setting], s: float) -> tuple:
    first, u, v, out, last = settings
    return (
        Affine(n, first), Norm(), Product((Affine(2 * n, u),), (Affine(2 * n, v), Silu())), Affine(n, out), Norm(),
        Affine(1, last),
    )  # fmt: skip


@dataclass(frozen=True)
class Net:
    """A record, the same network of plain NumPy, and of each of its Dense the kind and the fan-in over the width."""

    record: Block
    body: Callable[[int, Sequence[Setting], float], tuple]
    blocks: int
    kinds: tuple[str, ...]
    fan: tuple[float, ...] = ()
    scheme: str = "mup"


def plain(phi: str) -> Net:
    kinds = ("input", "hidden", "hidden", "readout")
    return Net(mlp(phi), lambda n, settings, s: chain(n, phi, settings), 2, kinds)


NETS = {
    "tanh": plain("tanh"),
    "relu": plain("relu"),
    "gelu": plain("gelu"),
    "skip": Net(
        mlp("relu", mu=1), lambda n, settings, s: residual(n, "relu", settings, s), 4,
        ("input", *["hidden"] * 4, "readout"), scheme="depth_mup",
    ),
    "pre": Net(
        Residual(Sequential((PLAIN, Dense(expand=2), Nonlinearity("tanh"), Dense()))),
        lambda n, settings, s: pre_norm(n, "tanh", settings, s, 2), 3, ("input", *["hidden"] * 6, "readout"),
        (1, *(1, 2) * 3, 1), "completep",
    ),
    "gate": Net(
        Sequential((PLAIN, Gate("silu", Dense(expand=2), Dense(expand=2)), Dense())), gate, 1,
        ("input", "hidden", "hidden", "hidden", "readout"), (1, 1, 1, 2, 1),
    ),
}  # fmt: skip
RATES = {"sgd": 0.004, "adam": 0.002, "muon": 0.004}


@dataclass(frozen=True)
class Step:
    """What is done with a network."""

    net: str
    rule: str = "sgd"
    inputs: int = 1
    eps: float = 0.0
    times: float = 1.0  # the usual rate
    biases: bool = False

    @property
    def rate(self) -> float:
        return RATES[self.rule] * self.times

    def __str__(self) -> str:
        said = [f"{self.inputs} inputs", "eps" * (self.eps > 0), "large" * (self.times > 1), "biases" * self.biases]
        return "-".join([self.net, self.rule, *(one for one in said if one)])


def line(step: Step, n: int, networks: int = 0) -> CoordinateCheck:
    net = NETS[step.net]
    scheme = parametrization(net.scheme, optimizer=step.rule, base_width=BASE, eps="1/n")
    return coordinate_check(
        net.record, scheme, widths=(n,), depth=net.blocks + 2, rate=step.rate, eps=step.eps, inputs=X[: step.inputs],
        slopes=SLOPES[: step.inputs], sigma_w=1.2, sigma_b=0.3 * step.biases, biases=step.biases, networks=networks,
        seed=4,
    )  # fmt: skip


def settings(step: Step, n: int) -> list[Setting]:
    net = NETS[step.net]
    return settings_in(
        net.scheme, step.rule, n, net.kinds, rate=step.rate, base=BASE, blocks=net.blocks, d=D, sigma_w=1.2,
        sigma_b=0.3 * step.biases, biases=step.biases, eps=step.eps * BASE / n, fan=net.fan,
    )  # fmt: skip


@cache
def drawn(step: Step, n: int, networks: int, planted: str = "") -> Measured:
    net, rows = NETS[step.net], settings(step, n)
    s = branch_of(net.scheme, net.blocks)
    if planted == "rate":  # of the first hidden Dense
        rows[1] = replace(rows[1], eta=2 * rows[1].eta)
    body = net.body(n, rows, 1.0 if planted == "branch" else s)
    return measure(body, X[: step.inputs], networks, 17, SLOPES[: step.inputs])


def columns(seen: Measured) -> list[np.ndarray]:
    """Mean squares by network, in the order of the rows of a check."""
    hidden = [one[:, k] for k in range(seen.z.shape[1] - 1) for one in (seen.z, seen.own, seen.total)]
    outputs = [np.square(one).mean(axis=1) for one in (seen.f, seen.Df_own, seen.Df, seen.Df_rest)]
    return hidden + outputs


def rows_of(check: CoordinateCheck) -> list[CoordinateRow]:
    return [row for row in check.rows if row.column != "gain"]


def assert_same(check: CoordinateCheck, seen: Measured, measured: bool = False, sigmas: float = 4.0) -> None:
    """Theory, or the check's own networks, are the networks in plain NumPy, within errors (those of the theory with its
    allowance for finite width)."""
    for row, squares in zip(rows_of(check), columns(seen), strict=True):
        value, error = rms(squares[:, None])
        ours, ours_error = (row.measured, row.error) if measured else (row.theory, row.theory_error)
        freedom = min(len(squares), row.networks if measured else 16) - 1
        z = float(stdtrit(freedom, ndtr(sigmas)))
        allowed = z * np.hypot(error[0], ours_error) + (0 if measured else row.allowance) * row.theory + 1e-12
        assert abs(value[0] - ours) < allowed, (
            f"layer {row.layer}, {row.matrix}, {row.column}: {ours:.5g}, and networks have {value[0]:.5g} ± "
            f"{error[0]:.2g}; {allowed:.2g} is allowed"
        )


STEPS = [
    *[Step(net, rule) for net in NETS for rule in ("sgd", "adam")],
    *[Step(net, "muon") for net in ("tanh", "relu", "gate")],
    *[Step(net, rule, 4) for net in ("gelu", "pre") for rule in ("sgd", "adam")],
    Step("gelu", "muon", 4),
    *[Step(net, "adam", inputs, 0.004) for net in ("relu", "gate") for inputs in (1, 4)],
    *[Step("tanh", rule, 4, biases=True) for rule in ("sgd", "adam", "muon")],
    *[Step(net, "adam", times=10.0) for net in ("tanh", "relu", "pre")],  # far from linear
]


def slow_if(heavy: Callable[[Step], bool], steps: Sequence[Step]) -> list:
    return [pytest.param(one, marks=pytest.mark.slow) if heavy(one) else one for one in steps]


@pytest.mark.slow_with(
    "skip-sgd-1 inputs", "skip-adam-1 inputs", "pre-sgd-1 inputs", "pre-adam-1 inputs", "gate-sgd-1 inputs",
    "gate-muon-1 inputs", "gelu-adam-4 inputs", "gelu-muon-4 inputs", "relu-adam-1 inputs-eps",
    "relu-adam-4 inputs-eps", "gate-adam-1 inputs-eps", "tanh-adam-4 inputs-biases", "pre-adam-1 inputs-large",
)  # fmt: skip
@pytest.mark.parametrize("step", slow_if(lambda one: one.inputs > 1 and one.net in ("pre", "gate"), STEPS), ids=str)
def test_networks_of_another_hand_follow_the_line(step):
    check = line(step, 256)
    assert_same(check, drawn(step, 256, 8 if step.inputs > 1 and len(check.rows) > 14 else 16))
    for planted in ("rate", *(["branch"] if NETS[step.net].scheme != "mup" else [])):
        with pytest.raises(AssertionError, match="is allowed"):
            assert_same(check, drawn(step, 256, 16 if step.inputs == 1 else 8, planted))


def gains(step: Step, n: int, networks: int) -> np.ndarray:
    """−Σ gradient · step over the parameters of every Dense, of each network; a last axis for W and b."""
    net, rows, out = NETS[step.net], settings(step, n), []
    body = net.body(n, rows, branch_of(net.scheme, net.blocks))
    for k in range(networks):
        weights = draw(body, D, np.random.default_rng([5, k]))
        found, seen = gradients(body, weights, X[: step.inputs], SLOPES[: step.inputs])
        changes = steps(body, found, seen)
        out.append([[-(g * c).sum() for g, c in zip(*pair, strict=True)] for pair in zip(found, changes, strict=True)])
    return np.array(out)


def assert_gains(check: CoordinateCheck, of: np.ndarray, measured: bool) -> None:
    for row, found in zip(check.column("gain"), of.T, strict=True):
        ours, theirs = (row.measured, row.error) if measured else (row.theory, row.theory_error)
        error = np.hypot(found.std(ddof=1) / len(found) ** 0.5, theirs)
        allowed = stdtrit(15, ndtr(4.5)) * error + (1e-3 if measured else row.allowance) * ours
        assert abs(found.mean() - ours) < allowed, f"gain of layer {row.layer}: {ours:.4g}, and not {found.mean():.4g}"


@pytest.mark.fast_with("sgd")
@pytest.mark.parametrize("rule", ["sgd", "adam", "muon"])
def test_gains_are_gradients_times_steps(rule):
    step = Step("tanh", rule, 2 if rule == "adam" else 1, times=1e-3, biases=True)
    check, found = line(step, 256, 16), gains(step, 256, 32)
    for measured in (False, True):
        assert_gains(check, found.sum(axis=2), measured)
        with pytest.raises(AssertionError, match=r"gain of layer \d"):
            assert_gains(check, 1.5 * found.sum(axis=2), measured)


SMALL = [
    *[Step(net, rule) for net in NETS for rule in ("sgd", "adam", "muon")],
    *[
        Step(net, rule, 4, 0.004 * (rule == "adam"), biases=True)
        for net in NETS for rule in ("sgd", "adam", "muon") if rule != "muon" or net not in ("pre", "gate")
    ],
]  # fmt: skip


@pytest.mark.fast_with("pre-sgd-4 inputs-biases")
@pytest.mark.parametrize("step", [*SMALL[::5], SMALL[1]], ids=str)
def test_networks_of_the_check_are_those_of_another_hand(step, some=60):
    """Of any width: no allowance. A rate that is twice as large is found."""
    check = line(step, 32, some)
    assert_same(check, drawn(step, 32, some), measured=True)
    with pytest.raises(AssertionError, match="is allowed"):
        assert_same(check, drawn(step, 32, some, "rate"), measured=True)


@pytest.mark.slow
@pytest.mark.parametrize("step", SMALL, ids=str)
def test_all_networks_of_the_check(step):
    test_networks_of_the_check_are_those_of_another_hand(step, 400)


def gaps(step: Step, n: int, networks: int, planted: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares of networks over those of the theory, less 1, and their errors, of changes before the output."""
    rows, seen = rows_of(line(step, n)), columns(drawn(step, n, networks))
    out = []
    for row, squares in zip(rows, seen, strict=True):
        if row.column in ("own", "total") and row.theory:
            law = (planted * row.theory) ** 2
            error = np.hypot(squares.std(ddof=1) / len(squares) ** 0.5 / law, 2 * row.theory_error / row.theory)
            out.append((squares.mean() / law - 1, error))
    gap, error = np.array(out).T
    return gap, error


def assert_halves(small: tuple, large: tuple, ratio: int = 2) -> None:
    """What is left at `ratio` times the width is that share of it, within errors and what 1/n² adds."""
    allowed = 4.5 * np.hypot(large[1], small[1] / ratio) + 0.6 * np.abs(small[0]) / ratio + 1e-9
    far = np.abs(large[0] - small[0] / ratio) - allowed
    k = int(far.argmax())
    assert far[k] < 0, f"change {k}: gaps {small[0][k]:.4f} and {large[0][k]:.4f} do not fall as 1/n, by {far[k]:.4f}"


HALVING = [Step("tanh"), Step("relu", "adam"), Step("gelu", "muon"), Step("skip", "adam"), Step("pre")]


@pytest.mark.slow
@pytest.mark.parametrize("step", slow_if(lambda one: one.net in ("skip", "pre"), HALVING), ids=str)
def test_what_is_left_halves_with_twice_the_width(step, n=48, networks=(400, 160), times=2, planted=1.25):
    small, large = gaps(step, n, networks[0]), gaps(step, times * n, networks[1])
    assert_halves(small, large, times)
    with pytest.raises(AssertionError, match="do not fall as 1/n"):
        assert_halves(gaps(step, n, networks[0], planted), gaps(step, times * n, networks[1], planted), times)


@pytest.mark.slow
@pytest.mark.parametrize("step", [*HALVING, Step("gate"), Step("gate", "adam"), Step("tanh", "adam", 4)], ids=str)
def test_what_is_left_falls_from_64_to_512(step):
    test_what_is_left_halves_with_twice_the_width(step, 64, (1500, 60), 8, 1.08)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_sixteen_blocks_of_256_neurons(rule):
    """L/n = 1/16."""
    net = replace(NETS["skip"], blocks=16, kinds=("input", *["hidden"] * 16, "readout"))
    NETS["deep"] = net
    try:
        step = Step("deep", rule)
        assert_same(line(step, 256), drawn(step, 256, 24))
        with pytest.raises(AssertionError, match="is allowed"):
            assert_same(line(step, 256), drawn(step, 256, 24, "branch"))
    finally:
        del NETS["deep"]
