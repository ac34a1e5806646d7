"""Pictures of networks that were trained."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np

from meanfield.base.answers.drawing import COLOURS, STYLES, WIDTH, drawn
from meanfield.base.errors import MeanFieldError
from meanfield.base.quantities import mathtext
from meanfield.base.storage.files import LOOK, figure_of, new_figure, require

FINE = 60  # places between those of a map at which ξ is drawn
SYMBOLS = {"sigma_w": r"$\sigma_w$", "sigma_b": r"$\sigma_b$", "mu": r"$\mu$"}


def _label(name: str) -> str:
    """What stands at an axis: of "accuracy/train" training accuracy."""
    quantity, _, part = name.partition("/")
    words = {"train": "training ", "test": "test ", "held_out": "held-out "}.get(part, "") + quantity.replace("_", " ")
    return SYMBOLS.get(name) or (words if part else mathtext(name))


def plot_training(run: Any, ax: Any) -> Any:
    """`Training.plot`; run: the training."""
    names = [name for name in ("loss", "accuracy") if f"{name}/train" in run.values]
    given = [] if ax is None else list(ax) if isinstance(ax, Iterable) else [ax]
    with require().rc_context(LOOK):
        if not given:
            figure = new_figure(WIDTH, 0.5 + 1.7 * len(names))
            given = list(figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0])
        try:
            predicted = run.predicted_loss()
        except MeanFieldError:  # the title says what is known instead
            predicted = {}
        for name, panel in zip(names, given):
            for curve, part in enumerate(("train", "test")):
                if f"{name}/{part}" not in run.values:
                    continue
                mean, error = (np.where(np.abs(one) < 1e100, one, np.nan) for one in run.mean(f"{name}/{part}"))
                colour = COLOURS[curve]
                panel.fill_between(run.steps, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.25, linewidth=0)
                panel.plot(run.steps, mean, color=colour, linestyle=STYLES[0], label=f"{part}, networks")
                if name == "loss" and part in predicted:
                    label = f"{part}, theory"
                    panel.plot(run.steps, predicted[part], color=colour, linestyle=STYLES[1], label=label)
            panel.set_ylabel(name)
            if name == "loss":
                _logarithmic(panel)
        said = "" if predicted else run.phase()
        if said:
            given[0].set_title(said, fontsize=7, loc="left")
        given[0].legend()
        given[len(names) - 1 if len(given) >= len(names) else 0].set_xlabel("step")
        return drawn(given)


def plot_map(found: Any, quantity: str, times: float, contour: Any, ax: Any) -> Any:
    """`TrainabilityMap.plot`; found: the map."""
    values, (first, *second) = found.mean(quantity), found.axes
    with require().rc_context(LOOK):
        panel = new_figure(WIDTH, 2.6).subplots() if ax is None else ax
        if not second:
            _one_axis(panel, found, quantity, first, contour)
            return panel
        (other,) = second
        scale = _contoured(found, contour) if contour else found.theory("xi" if "depth" in found.axes else "chi_J")
        upright = first == "depth"
        if upright:  # depth upwards
            first, other = other, first
        else:
            values, scale = values.T, scale.T
        (x, _), (y, _) = places = [_places(found.axes[name]) for name in (first, other)]
        image = panel.pcolormesh(x, y, values, cmap="cividis", shading="nearest")
        figure_of(panel).colorbar(image, ax=panel, label=_label(quantity))
        limits = panel.get_xlim(), panel.get_ylim()
        if contour:
            lines = panel.contour(x, y, scale, colors="white", linewidths=1.0)
            panel.clabel(lines, fontsize=6)
        elif other == "depth":
            along, xi = _fine(found, first, x, scale[0])
            panel.plot(along, times * xi, color="white", linewidth=2.5)
            panel.plot(along, times * xi, color="black", linewidth=1.0, linestyle="--", label=rf"{times:g} $\xi$")
            limits = limits[0], (max(limits[1][0], 0.0), limits[1][1])
            panel.legend(facecolor="white", frameon=True, edgecolor="none", framealpha=1.0)
        elif np.isfinite(scale).all() and (scale > 1).any() and (scale < 1).any():
            panel.contour(x, y, scale, levels=[1.0], colors="white", linewidths=2.5)
            panel.contour(x, y, scale, levels=[1.0], colors="black", linewidths=1.0, linestyles="--")
            panel.set_title(r"dashed: $\chi_J^* = 1$", fontsize=7, loc="left")
        panel.set(xlabel=_label(first), ylabel=_label(other), xlim=limits[0], ylim=limits[1])
        for (_, words), axis, ticks in zip(places, (panel.xaxis, panel.yaxis), (x, y)):
            if words:
                axis.set_ticks(ticks, words)
        return panel


def _places(values: Any) -> tuple[Any, list[str]]:
    """Where values stand on an axis, and what is written there; words one after the other."""
    if values.dtype.kind in "iuf":
        return values, []
    return np.arange(len(values)), [str(one) for one in values]


def _contoured(found: Any, contour: Any) -> Any:
    """A function of the axes at every point of a map."""
    values = [contour(**dict(zip(found.axes, point))) for point in product(*found.axes.values())]
    return np.array(values, dtype=float).reshape(found.shape)


def _logarithmic(panel: Any) -> None:
    """A logarithmic axis for curves that are positive and fall or rise by more than a factor 5."""
    held = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in panel.lines])
    held = held[np.isfinite(held)]
    if held.size and held.min() > 0 and held.max() > 5 * held.min():
        panel.set_yscale("log")


def _fine(found: Any, name: str, x: Any, xi: Any) -> tuple[Any, Any]:
    """ξ at the places of an axis, and between them where that is a number of the network."""
    if name in ("depth", "width", "seed", "rate", "steps", "batch") or not np.isfinite(xi).any() or len(x) < 2:
        return x, xi
    if found.axes[name].dtype.kind not in "iuf":
        return x, xi
    fine = np.unique(np.concatenate((x, np.linspace(x.min(), x.max(), FINE))))
    return fine, found.runs[0]._predicted.scales(name, fine)


def _one_axis(panel: Any, found: Any, quantity: str, name: str, contour: Any) -> None:
    x, words = _places(found.axes[name])
    mean, error = found.mean(quantity), found.standard_error(quantity)
    along, xi = (x, _contoured(found, contour)) if contour else _fine(found, name, x, found.theory("xi"))
    style = dict(markersize=3, color=COLOURS[0])
    panel.errorbar(x, mean, np.nan_to_num(2 * error), fmt="o-", **style)
    panel.set(xlabel=_label(name), ylabel=_label(quantity))
    if words:
        panel.set_xticks(x, words)
    if np.isfinite(xi).any() and np.nanmax(xi) > 0:
        beside = panel.twinx()
        beside.spines["right"].set_visible(True)
        beside.plot(along, xi, STYLES[1], color=COLOURS[1])
        beside.set(yscale="log", ylabel="contour (dashed)" if contour else r"$\xi$ (dashed)")
