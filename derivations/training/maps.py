"""Maps of networks that were trained, beside the papers' figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from derivations.training.experiments import EDGE, QUICK, Scale, depths_map, of_bias, of_law, zig
from meanfield.base.storage import files
from meanfield.presentation import figures


def depth(scale: Scale = QUICK) -> Any:
    """[partial_jacobians] Figs. 3 and 8: accuracy of tanh over σ_w and depth, and 6 ξ."""
    return depths_map(scale).plot(times=6).get_figure()


def bias(scale: Scale = QUICK) -> Any:
    """[bias_and_trainability] Fig. 7: accuracy and the largest class below, at and above the edge."""
    with files.require().rc_context(files.LOOK):
        figure = files.new_figure(3.4, 3.6)
        for panel, name in zip(figure.subplots(2, 1, sharex=True), ("accuracy/test", "largest_class/test")):
            for square, colour, style in zip(EDGE["tanh"], figures.COLOURS, ("-", "--", ":")):
                run = of_bias(scale, "tanh", square)
                panel.plot(run.steps, run.mean(name)[0], style, color=colour, label=rf"$\sigma_w^2 = {square:g}$")
            panel.set_ylabel(name.partition("/")[0].replace("_", " "))
        panel.set_xlabel("step")
        panel.legend()
        return figure


def laws(scale: Scale = QUICK) -> Any:
    """[orthogonal_weights] Figs. 4 and 8: test loss of every network at 5 and 30 hidden layers."""
    with files.require().rc_context(files.LOOK):
        figure = files.new_figure(3.4, 2.4)
        panels = figure.subplots(1, 2, sharey=True)
        for panel, hidden in zip(panels, (5, 30)):
            for law, colour, style in zip(("orthogonal", "gaussian"), figures.COLOURS, ("-", "--")):
                run = of_law(scale, law, hidden)
                lines = panel.plot(run.steps, run["loss/test"].T, style, color=colour, linewidth=0.8)
                lines[0].set_label(law)
            panel.set(title=f"{hidden} hidden layers", xlabel="step", yscale="log")
        panels[0].set_ylabel("test loss")
        panels[0].legend()
        return figure


def zig_map(scale: Scale = QUICK) -> Any:
    """[variance_variation] Fig. 2 (a): accuracy against log p, at two rates: the line moves."""
    with files.require().rc_context(files.LOOK):
        panel = files.new_figure(3.4, 2.2).subplots()
        for rate, colour, marker in ((1e-2, figures.COLOURS[0], "o"), (1e-3, figures.COLOURS[1], "^")):
            size, accuracy = zig(rate, scale.networks)
            panel.plot(size, accuracy, marker, color=colour, markersize=3.5, label=rf"$\eta = {rate:g}$")
        panel.set(xlabel=r"$\log p$", ylabel="test accuracy")
        panel.legend()
        return panel.get_figure()


FIGURES = {"depth": depth, "bias": bias, "laws": laws, "zig": zig_map}


def write(folder: str | os.PathLike) -> None:
    """All of them as PNG."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        print(files.save(draw(), Path(folder, f"{name}.png")))
