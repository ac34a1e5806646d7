"""The tensors of a network that is given by its matrices, as tests have them."""

from collections.abc import Iterator

import numpy as np

from meanfield.empirical.observables.differentials import Differentials, LayerTensors


def differentials(weights, biases, inputs, derivatives, rate_w, rate_b, order) -> Iterator[LayerTensors]:
    """Those of layers 1, 2, …: W^l (n_l, n_{l-1}) as it multiplies σ, b^l or None; derivatives: z → (σ, σ′, …)."""
    carried = Differentials(np.asarray(inputs), order)
    for layer, (W, b, *rates) in enumerate(zip(weights, biases, rate_w, rate_b, strict=True)):
        if layer:
            carried.bend(derivatives)
        yield carried.weigh(np.asarray(W), b, *rates)
