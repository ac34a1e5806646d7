"""Pictures of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.base.answers.drawing import COLOURS, WIDTH
from meanfield.base.storage.files import LOOK, new_figure, require

CURVES = 7


def plot(found: Any, output: int, ax: Any) -> Any:
    """`Prediction.plot`; found: the prediction."""
    with require().rc_context(LOOK):
        panel = new_figure(WIDTH, 2.3).subplots() if ax is None else ax
        mean, spread = found.mean[:, :, output], found._spread
        spread = np.zeros(mean.shape) if spread is None else spread
        if len(found.t) == 1:
            places = np.arange(mean.shape[1])
            panel.errorbar(places, mean[0], 2 * spread[0], fmt="o", markersize=3, color=COLOURS[0], linewidth=0.8)
            panel.set(xlabel="input", ylabel="output")
            return panel
        train = found._inputs[0]
        order = [*range(train, mean.shape[1]), *range(train)]
        for curve, i in enumerate(order[:CURVES]):
            colour = COLOURS[curve % len(COLOURS)]
            name = f"test {i - train}" if i >= train else f"train {i}"
            low, high = mean[:, i] - 2 * spread[:, i], mean[:, i] + 2 * spread[:, i]
            panel.fill_between(found.t, low, high, color=colour, alpha=0.2, linewidth=0)
            panel.plot(found.t, mean[:, i], color=colour, label=name)
        finite = found.t[np.isfinite(found.t) & (found.t > 0)]
        if len(finite) > 1 and finite.max() > 30 * finite.min():
            panel.set_xscale("log")
        panel.set(xlabel="t", ylabel="output")
        panel.legend()
        return panel
