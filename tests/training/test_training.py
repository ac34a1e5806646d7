"""Networks that are trained: gradients beside central differences, optimizers beside plain loops, one step beside Θ,
the same bits for any number of workers, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import meanfield as mf
from meanfield import BatchNorm, Dense, Gate, LayerNorm, Nonlinearity, Pool, Projection, Residual, Scale, Sequential
from meanfield.data import digits, from_arrays, teacher
from meanfield.empirical.network.parameter_sources import Name
from meanfield.empirical.training.losses import LOSSES
from meanfield.empirical.training.one_network import train_one
from meanfield.empirical.training.optimizers import OPTIMIZERS
from meanfield.empirical.training.passes import Trainee
from meanfield.empirical.training.readout import readout_of
from meanfield.networks import AffineNorm
from meanfield.training.prepared import prepared
from meanfield.training.train import train

AT = dict(sigma_w=1.3, sigma_b=0.4)
OWN = dict(
    depth=3, width=6, head=None, loss="cross_entropy", optimizer="sgd", rate=0.1, steps=5, batch=None, warmup=0,
    lambda_w=None, lambda_b=None, biases=True, seed=3, records=5, theta_inputs=0, keep_weights=False,
)  # fmt: skip


def asked(network, data, **more):
    return prepared(network, data, **(AT | OWN | more))


def small(tokens=1, outputs=3, inputs=7, dimension=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(inputs, tokens, dimension) if tokens > 1 else (inputs, dimension))
    return from_arrays(X, np.arange(inputs) % outputs)


# ------------------------------------------------------------------------------------------------------------ gradients

SHORTCUT = Residual(Sequential((Nonlinearity("tanh"), Dense())), "1/2", Projection())
BLOCKS = {
    "mlp": mf.networks.mlp("tanh"),
    "pre-LN": mf.networks.mlp("gelu", mu=1, norm="pre"),
    "gains": Sequential((LayerNorm(affine=True), Nonlinearity("erf"), AffineNorm(), Dense())),
    "batch": Sequential((BatchNorm(affine=True), Nonlinearity("tanh"), Dense())),
    "gate": Sequential((Gate("silu", Dense(expand=2), Dense(expand=2)), Dense())),
    "pool": Sequential((Nonlinearity("tanh"), Pool(2, "average"), Dense())),
    "largest": Sequential((Nonlinearity("tanh"), Pool(3, "max"), Dense())),
    "scaled": Residual(Sequential((Nonlinearity("relu"), Dense(expand=2), Scale("1/3"), Dense())), "0.7"),
    "shortcut": SHORTCUT,
    "nested": Residual(Sequential((LayerNorm(), Residual(Sequential((Nonlinearity("tanh"), Dense())), 1), Dense())), 1),
    "uniform": Sequential((Nonlinearity("tanh"), Dense("uniform"))),
}
TOKENS = {
    "resmlp": mf.architectures.resmlp("gelu"),
    "mixer": mf.architectures.mlp_mixer("gelu"),
    "tokens": Sequential((Nonlinearity("tanh"), Dense(axis="tokens"), LayerNorm(affine=True), Dense())),
}


def central_differences(plan, loss, name, count, step=1e-5):
    """∂L/∂θ of the first `count` and last entries of one parameter."""
    part, found = plan.parts["train"], {}
    net = Trainee(plan.layers, plan.seed, 0)
    flat = net.parameters[name].reshape(-1)
    for k in {*range(min(count, flat.size)), flat.size - 1}:
        values = []
        for sign in (1, -1):
            before = flat[k]
            flat[k] = before + sign * step
            values.append(LOSSES[loss](net.outputs(part.x).copy(), part.y)[0])
            flat[k] = before
        found[k] = (values[0] - values[1]) / (2 * step)
    return found


def assert_gradients(plan, loss, spoil=1.0):
    part, net = plan.parts["train"], Trainee(plan.layers, plan.seed, 0)
    for array in net.parameters.values():  # gains away from where they start
        array += 0.1 * np.random.default_rng(array.size).normal(size=array.shape)
    moved = {name: array.copy() for name, array in net.parameters.items()}
    _, cotangent = LOSSES[loss](net.outputs(part.x, differentiate=True), part.y)
    gradients = net.gradients(cotangent)
    assert set(gradients) == set(net.parameters)
    other = Trainee(plan.layers, plan.seed, 0)
    for name, gradient in gradients.items():
        for k in {*range(min(4, gradient.size)), gradient.size - 1}:
            values = []
            for sign in (1, -1):
                for held, array in moved.items():
                    other.parameters[held][...] = array
                other.parameters[name].reshape(-1)[k] += sign * 1e-5
                values.append(LOSSES[loss](other.outputs(part.x).copy(), part.y)[0])
            expected = (values[0] - values[1]) / 2e-5
            assert abs(spoil * gradient.reshape(-1)[k] - expected) < 1e-7 * max(1.0, abs(expected)), (name, k)


@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_are_central_differences(name):
    width = 6 if name != "shortcut" else [6, 9]
    plan = asked(BLOCKS[name], small(), width=width).plan
    assert_gradients(plan, "cross_entropy")
    with pytest.raises(AssertionError, match="Name"):
        assert_gradients(plan, "cross_entropy", spoil=1.001)


@pytest.mark.parametrize("name", TOKENS)
def test_gradients_of_networks_of_tokens(name):
    plan = asked(TOKENS[name], small(tokens=4, inputs=5), width=4, depth=2).plan
    assert_gradients(plan, "cross_entropy")


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_and_their_derivatives(loss):
    rng = np.random.default_rng(4)
    f, y = rng.normal(size=(5, 3)), np.eye(3)[[0, 2, 1, 1, 0]]
    value, slope = LOSSES[loss](f, y)
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    s = 1 / (1 + np.exp(-f))
    expected = {
        "mse": ((f - y) ** 2).sum() / 10,
        "cross_entropy": -(y * np.log(p)).sum() / 5,
        "sigmoid_cross_entropy": -(y * np.log(s) + (1 - y) * np.log(1 - s)).sum() / 5,
    }[loss]
    assert abs(value - expected) < 1e-13
    for i, j in ((0, 0), (3, 2)):
        e = np.zeros_like(f)
        e[i, j] = 1e-6
        assert abs((LOSSES[loss](f + e, y)[0] - LOSSES[loss](f - e, y)[0]) / 2e-6 - slope[i, j]) < 1e-9
    far = LOSSES[loss](np.array([[1e5, -1e5, 0.0]]), y[:1])
    assert np.isfinite(far[0]) and np.isfinite(far[1]).all()


def test_an_explicit_head_is_the_layer_that_makes_the_outputs():
    """In plain NumPy: tanh blocks with skips, a LayerNorm, and a Dense of its own σ_w; means over tokens."""
    data = small(tokens=3)
    head = Sequential((LayerNorm(), Dense(sigma_w=2, sigma_b=0)))
    plan = asked(mf.networks.mlp("tanh", mu=1), data, head=head, width=6, depth=3).plan
    net = Trainee(plan.layers, plan.seed, 0)
    w = {(n.layer, n.name): a for n, a in net.parameters.items()}
    z = plan.parts["train"].x @ w[1, "W"].T + w[1, "b"]
    z = z + np.tanh(z) @ w[2, "W"].T + w[2, "b"]
    z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
    expected = (z @ w[3, "W"].T + w[3, "b"]).reshape(7, 3, 3).mean(axis=1)
    assert np.abs(net.outputs(plan.parts["train"].x) - expected).max() < 1e-13
    assert not w[3, "b"].any() and w[3, "b"].shape == (3,)
    assert abs(w[3, "W"].std() / (2 / np.sqrt(6)) - 1) < 0.4


def test_laws_of_weights_are_those_of_derive():
    run = train("tanh", small(), weights="orthogonal", sigma_w=1, sigma_b=0, depth=3, width=6, steps=0, networks=1,
                keep_weights=True)  # fmt: skip
    held = run._kept[0].parameters[Name(2, 1, "W")]
    assert np.abs(held @ held.T - np.eye(6)).max() < 1e-13
    with pytest.raises(mf.MeanFieldError, match="Did you mean 'width'"):
        train("tanh", small(), widht=6, **AT)


def test_readouts_by_themselves():
    assert readout_of(mf.networks.mlp("tanh", norm="act")) is None
    assert readout_of(BLOCKS["pool"]) is None
    assert readout_of(BLOCKS["pre-LN"]) == Sequential((LayerNorm(), Nonlinearity("gelu"), Dense()))
    assert readout_of(BLOCKS["gate"]) == Dense()
    assert readout_of(TOKENS["mixer"]) == Sequential((LayerNorm(), Dense()))
    assert readout_of(SHORTCUT) == Dense()


def test_weights_start_as_those_that_are_measured():
    data = small(outputs=3)
    run = train("tanh", data, **AT, depth=4, width=[6, 5, 8], seed=3, networks=3, steps=1, theta_inputs=1)
    made = mf.measure("tanh", **AT, depth=4, width=[6, 5, 8, 3], seed=3, networks=3, inputs=data.X, input_dimension=5,
                      quantities=("K",), keep_samples=True)  # fmt: skip
    kept = made.samples["K"]  # of all inputs
    assert np.abs(run["K"][:, 0] - kept.reshape(3, 4, -1).mean(axis=2)).max() < 1e-13
    for i in range(3):
        net = mf.empirical.draw_network(mf.networks.mlp("tanh"), **AT, depth=4, width=[6, 5, 8, 3], seed=3, index=i,
                                        input_dimension=5)  # fmt: skip
        theta = net.tangent_kernel(data.X[:1])[0, :, 0, :]
        assert abs(run["Theta"][i, 0, 0, 0] / (np.trace(theta) / 3) - 1) < 1e-12


# ----------------------------------------------------------------------------------------------------------- optimizers


def plain_loop(plan, optimizer, rate, steps):
    """Twenty steps of tanh networks in plain NumPy, from the same start."""
    net, part = Trainee(plan.layers, plan.seed, 0), plan.parts["train"]
    depth = plan.layers.ensemble.depth
    theta = [net.parameters[n].copy() for n in net.parameters]
    names = list(net.parameters)
    m, v = [0 * t for t in theta], [0 * t for t in theta]
    for step in range(1, steps + 1):
        w, b = theta[0::2], theta[1::2]
        h = [part.x]
        for k in range(depth):
            z = h[-1] @ w[k].T + b[k]
            h.append(np.tanh(z) if k < depth - 1 else z)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        u = (p / p.sum(axis=1, keepdims=True) - part.y) / len(part.y)
        g = [None] * len(theta)
        for k in reversed(range(depth)):
            g[2 * k], g[2 * k + 1] = u.T @ h[k], u.sum(axis=0)
            u = (u @ w[k]) * (1 - h[k] ** 2)
        for i, t in enumerate(theta):
            if optimizer == "momentum":
                m[i] = 0.9 * m[i] + g[i]
                g[i] = m[i]
            elif optimizer == "adam":
                m[i], v[i] = 0.9 * m[i] + 0.1 * g[i], 0.999 * v[i] + 0.001 * g[i] ** 2
                g[i] = (m[i] / (1 - 0.9**step)) / (np.sqrt(v[i] / (1 - 0.999**step)) + 1e-8)
            elif optimizer == "scaled":  # λ_W = 2 by the fan-in, λ_b = 1/l
                n, l = t.shape[-1] if t.ndim == 2 else 1, i // 2 + 1
                g[i] = g[i] * (2 / n if t.ndim == 2 else 1 / l)
            theta[i] = t - rate * g[i]
    return dict(zip(names, theta))


def assert_same_steps(optimizer, rate=0.3, other_rate=None):
    more = {"lambda_w": 2, "lambda_b": "1/l"} if optimizer == "scaled" else {}
    plan = asked("tanh", small(), optimizer=optimizer, steps=20, depth=4, **more).plan
    net, part = Trainee(plan.layers, plan.seed, 0), plan.parts["train"]
    own = OPTIMIZERS[optimizer](net.parameters, net.rates)
    for _ in range(20):
        _, cotangent = LOSSES["cross_entropy"](net.outputs(part.x, True), part.y)
        own.step(net.gradients(cotangent), rate)
    expected = plain_loop(plan, optimizer, other_rate or rate, 20)
    worst = max(np.abs(net.parameters[n] - expected[n]).max() for n in expected)
    assert worst < 1e-12, worst


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_are_ten_lines_of_numpy(optimizer):
    assert_same_steps(optimizer, rate=0.01 if optimizer == "adam" else 0.3)
    with pytest.raises(AssertionError, match=r"\d"):
        assert_same_steps(optimizer, 0.01, other_rate=0.0101)


def test_a_scaled_step_moves_weights_by_their_fan_in_and_biases_by_the_layer():
    """η λ_W/n of a weight, η/l of a bias. Source: [orthogonal_weights] (5.2), (5.3), (5.17)."""
    more = {"optimizer": "scaled", "lambda_w": 1, "lambda_b": "1/l"}
    plan = asked("tanh", small(), depth=3, width=6, **more).plan
    net, part = Trainee(plan.layers, plan.seed, 0), plan.parts["train"]
    _, cotangent = LOSSES["cross_entropy"](net.outputs(part.x, True), part.y)
    gradients = {n: g.copy() for n, g in net.gradients(cotangent).items()}
    before = {n: a.copy() for n, a in net.parameters.items()}
    OPTIMIZERS["scaled"](net.parameters, net.rates).step({n: g.copy() for n, g in gradients.items()}, 10.0)
    for (layer, n), fan_in in zip(((1, 5), (2, 6), (3, 6)), (5, 6, 6)):
        place = 0 if layer == 1 else 1
        for name, rate in (("W", 10 / fan_in), ("b", 10 / layer)):
            at = Name(layer, place, name)
            assert np.abs(before[at] - net.parameters[at] - rate * gradients[at]).max() < 1e-14
        assert n == fan_in


def one_step_error(rate, scale=1.0):
    """The largest |f after one step − (f − η Θ ∂L/∂f)|."""
    plan = asked("tanh", small(), optimizer="scaled", loss="mse", width=9).plan
    net, part = Trainee(plan.layers, plan.seed, 0), plan.parts["train"]
    made = mf.empirical.draw_network(mf.networks.mlp("tanh"), **AT, depth=3, width=[9, 9, 3], seed=3, input_dimension=5)
    theta = scale * made.tangent_kernel(part.x)
    f = net.outputs(part.x, True).copy()
    _, cotangent = LOSSES["mse"](f, part.y)
    OPTIMIZERS["scaled"](net.parameters, net.rates).step(net.gradients(cotangent), rate)
    return np.abs(net.outputs(part.x) - (f - rate * np.einsum("aibj,bj->ai", theta, cotangent))).max()


def test_one_step_moves_outputs_by_the_tangent_kernel():
    """The error falls with the square of the rate; with another Θ it falls with the rate."""
    errors = np.array([one_step_error(10.0**-k) for k in (1, 2, 3)])
    slopes = np.log10(errors[:-1] / errors[1:])
    assert np.abs(slopes - 2).max() < 0.1, errors
    planted = np.array([one_step_error(10.0**-k, scale=1.01) for k in (2, 3)])
    assert np.log10(planted[0] / planted[1]) < 1.5


def test_batches_are_epochs_in_orders_of_their_own():
    plan = asked("tanh", small(inputs=10), batch=3).plan
    from meanfield.empirical.training.one_network import _batches

    taken = _batches(plan, 0)
    epochs = [np.concatenate([next(taken) for _ in range(3)]) for _ in range(4)]
    for one in epochs:
        assert len(set(one.tolist())) == 9
    assert len({tuple(one) for one in epochs}) == 4
    other = _batches(plan, 1)
    assert not np.array_equal(next(other), epochs[0][:3])


def test_warmup_rises_linearly():
    """Two steps of half and of the whole rate are those of a loop with these rates."""
    plan = asked("tanh", small(), warmup=2, steps=2, records=2).plan
    found = train_one(plan, 0, 0.4)
    net, part = Trainee(plan.layers, plan.seed, 0), plan.parts["train"]
    losses = []
    for rate in (0.2, 0.4, 0.0):
        value, cotangent = LOSSES["cross_entropy"](net.outputs(part.x, True), part.y)
        losses.append(value)
        for name, g in net.gradients(cotangent).items():
            net.parameters[name][...] -= rate * g
    assert np.abs(found["loss/train"] - losses).max() < 1e-13


# ---------------------------------------------------------------------------------------------------- beside the theory


@pytest.mark.slow
def test_wide_networks_follow_their_prediction():
    """Mean loss of 24 networks of width 300, full batch, "scaled" and plain descent, train and test inputs: within 4
    standard errors and 2/n^½ of it (order 1/n is not allowed for)."""
    data = teacher(inputs=20, test=10, input_dimension=6)
    for optimizer, rate in (("scaled", 0.3), ("sgd", 0.005)):
        run = train("erf", data, sigma_w=1.4, sigma_b=0.3, depth=3, width=300, loss="mse", optimizer=optimizer,
                    rate=rate, steps=40, networks=24, records=[0, 10, 40])  # fmt: skip
        predicted = run.predicted_loss()
        for part in ("train", "test"):
            mean, error = run.mean(f"loss/{part}")
            z = np.abs(mean - predicted[part]) / np.hypot(error, 0.02 * predicted[part])
            assert z.max() < 4, (optimizer, part, mean, predicted[part], error)
        wrong = run.predicted_loss()["train"] * 1.5
        mean, error = run.mean("loss/train")
        assert (np.abs(mean - wrong) / np.hypot(error, 0.02 * wrong)).max() > 4
    assert "above" not in run.message


def test_a_rate_above_the_stable_one_is_said():
    data = teacher(inputs=30, test=0, input_dimension=6)
    asked_for = dict(**AT, width=40, depth=3, loss="mse", steps=60, networks=1, optimizer="scaled")
    quiet = train("tanh", data, rate=0.2, **asked_for)
    assert quiet.message == "" and quiet["loss/train"][0, -1] < quiet["loss/train"][0, 0]
    loud = train("tanh", data, rate=50.0, **asked_for)
    assert "is above" in loud.message and not loud["loss/train"][0, -1] < loud["loss/train"][0, 0]
    made = mf.empirical.draw_network(mf.networks.mlp("tanh"), **AT, depth=3, width=[40, 40, 1], input_dimension=6)
    theta = made.tangent_kernel(data.X).reshape(30, 30)
    stable = 2 * 30 / np.linalg.eigvalsh(theta)[-1]
    assert abs(float(loud.message.split("above ")[1].split(",")[0]) / stable - 1) < 0.05


def test_a_network_that_diverges_is_told_with_its_step():
    data = small(inputs=9)
    run = train("z**3", data, **AT, width=6, depth=4, rate=1e3, steps=50, networks=2)
    assert run.diverged == 2 and (run.diverged_at > 0).all()
    assert np.isnan(run["loss/train"][:, -1]).all() and np.isfinite(run["loss/train"][:, 0]).all()
    with pytest.raises(mf.MeanFieldError, match="All 2 networks diverged"):
        run.final("loss/train")


def test_networks_that_are_kept_are_run_again():
    """Their outputs have the losses that were recorded; after no step they are those of the networks drawn."""
    data = teacher(inputs=20, test=10, input_dimension=6)
    call = dict(**AT, width=12, depth=3, loss="mse", networks=2, seed=5)
    run = train("tanh", data, rate=0.1, steps=30, keep_weights=True, **call)
    f = run.outputs(data.X_test)
    assert f.shape == (2, 10, 1)
    assert np.abs(((f[..., 0] - data.y_test) ** 2).mean(axis=1) / 2 - run["loss/test"][:, -1]).max() < 1e-13
    start = train("tanh", data, steps=0, keep_weights=True, **call)
    assert start.steps.tolist() == [0]
    made = mf.empirical.draw_network(mf.networks.mlp("tanh"), **AT, depth=3, width=[12, 12, 1], seed=5, index=1,
                                     input_dimension=6)  # fmt: skip
    assert np.abs(start.outputs(data.X)[1] - made.forward(data.X)).max() < 1e-13
    with pytest.raises(mf.MeanFieldError, match="train them with keep_weights=True"):
        train("tanh", data, steps=1, **call).outputs(data.X)
    with pytest.raises(mf.MeanFieldError, match="X has inputs of 1 × 2"):
        run.outputs([[1.0, 2.0]])


def test_what_overflows_between_two_looks_has_diverged():
    """Small batches, a large rate: a loss on all inputs that is no number counts, whatever the next batch says."""
    rng = np.random.default_rng(0)
    data = from_arrays(rng.normal(size=(20, 4)), rng.integers(0, 3, 20) * 1.0)
    call = dict(loss="mse", rate=30.0, batch=3, seed=1, sigma_w=1.5, sigma_b=0.1, width=32, depth=4, networks=6)
    for steps, records in ((3, 1), (9, 9)):
        run = train("relu", data, steps=steps, records=records, **call)
        held = run["loss/train"]
        assert not np.isinf(held).any() and (np.isnan(held).any(axis=1) == (run.diverged_at > 0)).all()
        assert run.diverged == 6 or np.isfinite(run.final("loss/train")[0])


def test_a_loss_far_above_its_start_has_diverged(tmp_path):
    """It would take hundreds of steps to overflow; the picture leaves it out. What falls from 1e9 has not."""
    data = teacher(inputs=30, test=0, input_dimension=6)
    call = dict(**AT, width=40, depth=3, loss="mse", networks=2, optimizer="scaled")
    run = train("tanh", data, rate=50.0, steps=40, **call)
    assert run.diverged == 2 and run.save(tmp_path / "run.png").exists()
    far = train("tanh", (data.X, 3e4 * data.y), rate=0.1, steps=10, **call)
    assert far.diverged == 0 and far["loss/train"][:, 0].min() > 1e6


def test_the_end_of_training_has_a_loss():
    data = teacher(inputs=12, test=5, input_dimension=6)
    run = train("erf", data, **AT, width=30, depth=3, loss="mse", optimizer="scaled", rate=0.2, steps=5, networks=2)
    found = run.predicted_loss([0, 5, np.inf])
    assert np.abs(found["train"][:2] - run.predicted_loss()["train"][[0, -1]]).max() < 1e-13
    theory = mf.derive("erf").predict(data.X, data.y, data.X_test, depth=3, **AT).test
    wanted = (np.square(theory.mean[0, :, 0] - data.y_test) + theory.variance[0]).mean() / 2
    assert found["train"][2] < 1e-12 and abs(found["test"][2] / wanted - 1) < 1e-9


@pytest.mark.slow
def test_xi_is_drawn_between_the_places_of_a_map():
    axes = {"sigma_w": [0.8, 2.2], "depth": [2, 4]}
    found = mf.trainability("tanh", small(), axes=axes, sigma_b=0.1, width=6, steps=1, networks=1)
    panel = found.plot()
    x, y = panel.lines[-1].get_data()
    at = float(mf.derive("tanh").phase(sigma_w=x[30], sigma_b=0.1, input_norm=float(np.square(small().X).mean())).xi)
    assert len(x) > 50 and abs(y[30] / (6 * at) - 1) < 1e-9 and panel.get_ylim()[0] >= 0


def test_ends_have_errors_over_networks_alone():
    run = train("tanh", small(), **AT, width=6, depth=3, steps=3, networks=4)
    mean, error = run.final("K")
    held = run["K"][:, -1]
    assert np.abs(mean - held.mean(axis=0)).max() == 0 and mean.shape == (3,)
    assert np.abs(error - held.std(axis=0, ddof=1) / 2).max() == 0
    for wrong in ("rate", "steps", "phase"):
        for ask in (run.final, run.mean):
            with pytest.raises(mf.MeanFieldError, match="Unknown quantity of these networks"):
                ask(wrong)
    with pytest.raises(mf.MeanFieldError, match="Unknown quantity 'K_ab'"):
        run.depth_scale("K_ab")


def test_batch_norm_needs_three_positions():
    block, data = Sequential((BatchNorm(), Nonlinearity("tanh"), Dense())), small(inputs=19)
    call = dict(**AT, width=8, depth=3, steps=2, networks=1)
    for more, said in (
        (dict(batch=2), "a batch has 2"), (dict(rate=[0.1, 0.2]), "the part 'held_out' has 1"),
        (dict(theta_inputs=2), "theta_inputs has 2"),
    ):  # fmt: skip
        with pytest.raises(mf.MeanFieldError, match=said):
            train(block, data, **call, **more)
    assert np.isfinite(train(block, data, batch=3, **call)["loss/train"]).all()


def test_rates_that_all_fail_are_said():
    run = train("z**3", small(inputs=20), **AT, width=6, depth=4, rate=[1e6, 1e7], steps=9, networks=1)
    assert "no rate has a held-out loss that is a number" in run.message and run.rate == 1e6
    close = train("tanh", small(inputs=20), **AT, width=6, depth=3, rate=[0.1, 0.10000001], steps=2, networks=1)
    assert len(close.data()["rates"]) == 2


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_eigenvalue_is_that_of_theta(seed):
    inputs = 1 if seed == 0 else 20
    plan = asked("tanh", small(inputs=20, seed=seed), optimizer="scaled", seed=seed, loss="mse").plan
    x = plan.parts["train"].x[:inputs]
    at = dict(**AT, depth=3, width=[6, 6, 3], seed=seed, input_dimension=5)
    made = mf.empirical.draw_network(mf.networks.mlp("tanh"), **at)
    size = inputs * 3
    wanted = np.linalg.eigvalsh(made.tangent_kernel(x).reshape(size, size))[-1]
    assert abs(Trainee(plan.layers, seed, 0).largest_eigenvalue(x) / wanted - 1) < 0.03


def test_the_stable_rate_is_that_of_all_the_data():
    """Small inputs first, large ones after them: which are looked at does not depend on their order."""
    rng = np.random.default_rng(5)
    X = np.concatenate((0.1 * rng.normal(size=(400, 6)), 3 * rng.normal(size=(400, 6))))
    run = train("z", (X, X[:, 0]), sigma_w=1, sigma_b=0, depth=2, width=20, loss="mse", optimizer="scaled", rate=5.0,
                steps=3, networks=1)  # fmt: skip
    assert "is above" in run.message


def test_several_rates_are_compared_on_a_tenth_held_out():
    data = digits().take(300)
    run = train("tanh", data, sigma_w=1.3, sigma_b=0.2, width=16, depth=3, rate=[0.001, 0.5, 1e6], steps=40, networks=2)
    assert run.rate == 0.5 and set(run.rates) == {0.001, 0.5, 1e6}
    assert run.rates[0.5] == pytest.approx(run["loss/held_out"][:, -1].mean())
    assert "held-out tenth by rate: 0.001" in str(run).replace("\n", " ")


def test_the_same_bits_for_any_number_of_workers(tmp_path):
    data = small(inputs=12)
    call = dict(**AT, width=8, depth=3, steps=12, rate=0.2, batch=4, networks=3, theta_inputs=2)
    one = train("tanh", data, threads=1, **call)
    two = train("tanh", data, threads=2, **call)
    with ProcessPoolExecutor(2) as pool:
        apart = train("tanh", data, executor=pool, **call)
    other = train("tanh", data, threads=2, **(call | {"seed": 1}))
    for name in one.quantities:
        assert np.array_equal(one[name], two[name]) and np.array_equal(one[name], apart[name]), name
    assert not np.array_equal(one["loss/train"], other["loss/train"])


RESUMED = """
import sys
import numpy as np
from meanfield.data import from_arrays
from meanfield.empirical.ensemble import parallel
parallel.SECONDS_BETWEEN_CHECKPOINTS = 0.0
from meanfield.training import train
rng = np.random.default_rng(0)
data = from_arrays(rng.normal(size=(200, 20)), np.arange(200) % 4)
seen = lambda done, total: print(done, flush=True)
run = train("tanh", data, sigma_w=1.2, sigma_b=0.1, width=40, depth=6, steps=150, networks=8, threads=1,
            checkpoint=sys.argv[1], progress=seen)
run.save(sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    paths = [str(tmp_path / name) for name in ("one.npz", "a.npz", "two.npz", "b.npz")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", RESUMED, *paths[:2]], check=True, env=env, capture_output=True)
    call = [sys.executable, "-c", RESUMED, *paths[2:]]
    with subprocess.Popen(call, env=env, stdout=subprocess.PIPE, text=True) as run:
        while run.stdout.readline().strip() not in ("3", ""):
            pass
        time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
    assert os.path.exists(paths[2]) and not os.path.exists(paths[3])
    found = subprocess.run(call, check=True, env=env, capture_output=True, text=True)
    assert found.stdout.split()[0] != "1"  # it went on
    first, second = mf.load(paths[1]), mf.load(paths[3])
    assert np.array_equal(first.loss_train, second.loss_train)


# ------------------------------------------------------------------------------------------------------------- refusals

REFUSED = {
    "fewer than the 3 outputs": dict(width=2),
    "rate must be > 0": dict(rate=0),
    "several different ones": dict(rate=[0.1, 0.1]),
    "batch must be": dict(batch=99),
    "The depth must be": dict(depth=1),
    "width must be one number, or one for each of the 2": dict(width=[5, 5, 5]),
    "Unknown loss 'hinge'": dict(loss="hinge"),
    "Unknown optimizer 'lion'": dict(optimizer="lion"),
    "rates of optimizer='scaled'": dict(lambda_w=1),
    "warmup must be": dict(warmup=99),
    "head must be a block": dict(head="tanh"),
    "head must end in a Dense on the neurons": dict(head=Sequential((Dense(), Nonlinearity("tanh")))),
    "The readout makes 6 outputs where 3": dict(head=Sequential((Dense(), Dense(expand=2)))),
    "records must be a": dict(records=np.array("x")),
    "jump": dict(head=Sequential((Nonlinearity("step"), Dense()))),
    "biases must be": dict(biases="no"),
    "records must be": dict(records=[77]),
    "theta_inputs must be": dict(theta_inputs=99),
    "is a matrix of": dict(theta_inputs=701),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_refused(said):
    data = small(inputs=800) if said == "is a matrix of" else small()
    with pytest.raises(mf.MeanFieldError, match=said):
        train("tanh", data, **AT, **(dict(width=6, depth=3, steps=5, networks=1) | REFUSED[said]))


def test_data_that_do_not_fit_are_refused():
    at = dict(**AT, width=6, depth=3, steps=2, networks=1)
    X, y = np.random.default_rng(0).normal(size=(6, 3)), [0, 1, 0, 1, 0, 1]
    for data, said in (
        ((np.ones((6, 3)), y), "All training inputs are equal"),
        ((X, [0] * 6), "one class alone"),
        ((X, [0.5, 1, 0, 1, 0, 1]), "needs labels of classes"),
        ((np.where(np.arange(18).reshape(6, 3) == 7, np.nan, X), y), "input number 2 holds"),
        ((X, y[:-1]), "an entry for each of 6"),
        ((X, y, X, [0, 1, 2, 1, 0, 1]), "class 2 of a test input"),
        ((X, np.full((6, 2), 0.6)), "probabilities that sum to 1"),
        ("digits", r"write mf\.data\.digits\(\)"),
        ((X, y, X), "data must be a Data"),
    ):
        with pytest.raises(mf.MeanFieldError, match=said):
            train("tanh", data, **at)
    with pytest.raises(mf.MeanFieldError, match=r"mf\.trainability\(\.\.\., axes={'sigma_w'"):
        train("tanh", (X, y), **(at | {"sigma_w": [0.5, 1]}))
    with pytest.raises(mf.MeanFieldError, match="jump"):
        train("sign", (X, y), **at)
    with pytest.raises(mf.MeanFieldError, match="There is no prediction of these outputs: predict has the loss mse"):
        train("tanh", (X, y), **at).predicted()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    at, path = dict(**AT, width=6, depth=3, steps=2, networks=1), tmp_path / "held.npz"
    train("tanh", small(), checkpoint=path, **at)
    with pytest.raises(mf.MeanFieldError, match="the checkpoint of another run"):
        train("tanh", small(), checkpoint=path, **(at | {"steps": 3}))


# ----------------------------------------------------------------------------------------------------------------- maps


def test_a_map_is_its_points():
    data = small(inputs=12)
    call = dict(sigma_b=0.1, width=8, steps=10, networks=2)
    found = mf.trainability("tanh", data, axes={"sigma_w": [0.8, 1.6], "depth": [2, 4]}, **call)
    one = train("tanh", data, sigma_w=1.6, depth=4, **call)
    assert np.array_equal(found[1, 1]["loss/train"], one["loss/train"])
    assert found.mean("loss/train")[1, 1] == one.final("loss/train")[0]
    assert found.theory("xi")[0, 0] == pytest.approx(float(mf.derive("tanh").phase(
        sigma_w=0.8, sigma_b=0.1, input_norm=float(np.square(data.X).mean())).xi))  # fmt: skip
    frame = found.to_frame()
    assert frame.loc[(1.6, 4), "loss_train"] == one.final("loss/train")[0]
    twice = {"width": [8]}, "axis and as a number"
    for wrong, said in (({}, "one or two"), ({"sigma_w": 1.0}, "must be a list"), twice):
        with pytest.raises(mf.MeanFieldError, match=said):
            mf.trainability("tanh", data, axes=wrong, **(call | {"sigma_w": 1.0} if "sigma_w" not in wrong else call))


@pytest.mark.slow
def test_maps_over_words_rates_and_what_is_not_a_number():
    call = dict(sigma_w=1.2, sigma_b=0.1, width=6, depth=3, steps=4, networks=2)
    for axes in (
        {"rate": [0.1, 0.2]}, {"optimizer": ["sgd", "adam"], "loss": ["mse", "cross_entropy"]},
        {"biases": [True, False]}, {"batch": [None, 3], "seed": [0, 1]}, {"norm": ["none", "pre"]},
    ):  # fmt: skip
        found = mf.trainability("tanh", small(), axes=axes, **{k: v for k, v in call.items() if k not in axes})
        assert len(found.to_frame().reset_index()) == len(found.runs) and found.to_json()
        assert "xi" in str(found) and found.plot() is not None
    found = mf.trainability("tanh", small(), axes={"theta_inputs": [2, 0]}, **call)
    assert "Theta_change" not in found.quantities and found.to_frame().shape[0] == 2
    for place in (5, "a", (0, 0, 0), 1.5):
        with pytest.raises(mf.MeanFieldError, match="A map of 2 points has a run at each"):
            found[place]
    for wrong in ({"networks": [1, 2]}, {"data": [1]}):
        with pytest.raises(mf.MeanFieldError, match="one for the whole map"):
            mf.trainability("tanh", small(), axes=wrong, **call)
    with pytest.raises(mf.MeanFieldError, match="times must be"):
        found.plot(times="a")


AXES = {"sigma_w": [0.8, 1.6, 2.2]}


@pytest.mark.fast_with("axes2")
@pytest.mark.parametrize("axes", [AXES | {"depth": [2, 4]}, AXES | {"sigma_b": [0.1, 1]}, {"depth": [2, 3, 4]}])
def test_maps_and_curves_are_drawn(axes, tmp_path):
    more = {"sigma_b": 0.1, "sigma_w": 1.2}
    call = {k: v for k, v in more.items() if k not in axes}
    found = mf.trainability("tanh", small(), axes=axes, width=6, steps=4, networks=2, **call)
    assert found.save(tmp_path / "map.png").exists()
    assert found.runs[0].save(tmp_path / "run.png").exists()
    assert all(len(line) <= 80 for line in f"{found}\n{found.runs[0]}".splitlines())
    asked_at = []
    found.plot(contour=lambda **at: asked_at.append(at) or float(sum(at.values())))
    assert len(asked_at) == len(found.runs) and set(asked_at[0]) == set(axes)
    with pytest.raises(mf.MeanFieldError, match="contour must be a function"):
        found.plot(contour=3)
