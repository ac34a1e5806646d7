"""What a parametrization is at one width, for every other verb: the record with its deviations, and learning rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.base.arguments import positive, validated, whole
from meanfield.base.errors import MeanFieldError
from meanfield.networks.folds import chain, dense_of, has_skip
from meanfield.networks.records import Network
from meanfield.parametrizations.coordinates.coordinate_arguments import case_of
from meanfield.parametrizations.one_parametrization import Parametrization


@validated
def scaled(
    parametrization: Parametrization,
    network: Any,
    *,
    width: int,
    depth: int,
    sigma_w: Any = None,
    sigma_b: Any = None,
    **parameters: Any,
) -> Network:
    """The record of a network as it stands at one width: deviations with the powers of every kind of matrix, and
    branches with their factor.

    network, sigma_w, sigma_b, parameters: as in `coordinate_check`; depth: the layer of the output. What is asked of
    the record (`derive(architecture=...).propagate`, `draw_network`, `measure`) is asked of these networks before their
    step. The readout is no block and is left out. Returns: a `Network`.

    >>> scaled(parametrization("mup"), "tanh", width=256, depth=4, sigma_w=1.5).first
    Dense(sigma_w=Fraction(3, 2), sigma_b=0)
    """
    case = case_of(parametrization, network, sigma_w, sigma_b, parameters)
    return case.at(whole(width, "width", 1, 1 << 30), whole(depth, "depth", 2, 1 << 20)).scaled()[0]


@validated
def per_layer(
    parametrization: Parametrization,
    network: Any,
    *,
    width: int,
    depth: int,
    rate: Any = 1,
    input_dimension: int = 64,
    sigma_w: Any = None,
    sigma_b: Any = None,
    **parameters: Any,
) -> dict[str, np.ndarray]:
    r"""Standard deviations and learning rates of every layer, as `propagate`, `kernel` and `train` take them.

    For networks with one Dense a layer and without skips: arrays sigma_w, sigma_b, and lambda_w, lambda_b, the learning
    rates for which Θ is the tangent kernel of a step of sgd: λ_w = rate · multiplier² · fan-in and λ_b = rate ·
    multiplier² of a bias. Layer 1 is the input layer, the last one the readout. input_dimension: N_0. Raises:
    MeanFieldError for other networks, and for a parametrization of another optimizer, which has no Θ.

    >>> held = per_layer(parametrization("mup", optimizer="sgd"), "tanh", width=256, depth=4, rate=0.1)
    >>> run = derive("tanh").propagate(depth=4, layerwise=True, quantities=("K", "Theta"), **held)
    >>> float(run.Theta[-1].round(3)), held["lambda_w"].tolist()
    (1.667, [1638.4, 25.6, 25.6, 0.1])
    """
    if parametrization.optimizer != "sgd":
        raise MeanFieldError(
            f"Learning rates of Θ were asked of a parametrization for {parametrization.optimizer}, whose step is no "
            "gradient; take optimizer='sgd'."
        )
    case = case_of(parametrization, network, sigma_w, sigma_b, parameters)
    block = case.network.block
    if has_skip(block) or len(dense_of(block)) != 1 or chain(block)[-1:] != dense_of(block):
        raise MeanFieldError(
            "Rates per layer were asked of a network whose block is no chain that ends in its one Dense; take "
            "coordinate_check, whose column gain is rate · Θ of every matrix."
        )
    at = case.at(whole(width, "width", 1, 1 << 30), whole(depth, "depth", 2, 1 << 20))
    eta, N0 = positive(rate, "rate"), whole(input_dimension, "input_dimension", 1, 1 << 30)
    found: dict[str, list[float]] = {name: [] for name in ("sigma_w", "sigma_b", "lambda_w", "lambda_b")}
    records = (case.network.first, *dense_of(block) * (depth - 1))
    for layer, (record, kind) in enumerate(zip(records, ("input", *("hidden",) * (depth - 2), "readout"))):
        of, bias = at.factors(kind), at.bias_factors(kind)
        fan_in = N0 if kind == "input" else width
        found["sigma_w"].append(at.deviation(record.sigma_w, at.sigma_w, layer) * of["deviation"])
        found["sigma_b"].append(at.deviation(record.sigma_b, at.sigma_b, layer) * bias["deviation"])
        found["lambda_w"].append(eta * of["rate"] * of["multiplier"] ** 2 * fan_in)
        found["lambda_b"].append(eta * bias["rate"] * bias["multiplier"] ** 2)
    return {name: np.array(values) for name, values in found.items()}
