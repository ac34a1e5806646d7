"""The figures that need no training, from the theory: 1, 2, the Mixer panels of 4, 5, 7 and the curves 28 ξ of 8.

Each function returns a `matplotlib.figure.Figure`. `Sizes(networks=…)` adds finite networks to figures 1, 2, 5 and 7
(none by default); the paper's sizes are width 1000 and 100 networks (figure 1), width 500 and 100 networks (figure 2).
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.drawing import Drawn, Points, beside, write_all
from derivations.partial_jacobians.mixer import figure_4
from derivations.partial_jacobians.phase_diagrams import Measured, figure_2
from derivations.partial_jacobians.sizes import Sizes
from meanfield.base.storage import files
from meanfield.base.symbols import N0
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INPUTS = 784  # N_0 of the paper's inputs, 28 × 28 standard normals: |x|²/N_0 = 1
COLOURS = figures.COLOURS
THEORY_ONLY = Sizes()


@dataclass(frozen=True)
class Curve:
    """log J^{l0,l} of one network, the theory's and, where it was asked for, those of ensembles of a width and of half
    of it, ± standard errors."""

    label: str
    l: np.ndarray
    log_J: np.ndarray
    measured: Points | None = None
    half: Points | None = None
    width: int = 1

    def slope(self, start: int, scale: Any = np.log) -> tuple[float, float | None]:
        """The least-squares slope of log J against scale(l) for l > start: theory, ensemble."""
        keep = self.l > start
        fits = [self.log_J[keep], None if self.measured is None else self.measured[0][keep]]
        x = scale(self.l[keep])
        found = [None if v is None else float(np.polyfit(x, v, 1)[0]) for v in fits]
        return found[0] or 0.0, found[1]


def curve(
    label: str, theory: mf.Theory, sigma_w: float, sigma_b: float, depth: int, sizes: Sizes, l0: int = 0
) -> Curve:
    """J^{0,l} with N_0 = 784 (l0 = 0), or J^{1,l}."""
    name = "J0" if l0 == 0 else "J"
    extra: dict[str, Any] = {"input_dimension": INPUTS} if N0 in theory.recursion(name).parameters else {}
    run = theory.propagate(sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, quantities=(name,), **extra)
    log_J = run.values[f"log_{name}"].reshape(-1)
    if not sizes.networks:
        return Curve(label, run.l, log_J)
    from meanfield.empirical import run_ensemble

    measured = []
    for width in (sizes.width, sizes.width // 2):
        found = run_ensemble(
            theory.block,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            width=width,
            depth=depth,
            networks=sizes.networks,
            seed=sizes.seed + (width != sizes.width),
            input_dimension=INPUTS if l0 == 0 else None,
            l0=l0,
        ).estimate("J", log_scale=log_J)
        measured.append((log_J + np.log(found.mean), found.standard_error / found.mean))
    return Curve(label, run.l, log_J, *measured, sizes.width)


def figure_1(sizes: Sizes = THEORY_ONLY) -> Figure:
    """log J^{0,l} against log l at the critical points of erf and ReLU, and with LayerNorm and μ = 1."""
    plain, skips = [], []
    for label, name, depth, start in (("erf", "erf", 250, 100), ("ReLU", "relu", 100, 0)):
        theory = mf.derive(name)
        point = theory.critical_points()[0]
        at = float(sp.N(point.sigma_w.value, 17)), float(point.sigma_b.value)
        zeta = 0.0 if point.zeta is None else float(point.zeta.value)
        plain.append((curve(label, theory, *at, depth, sizes), start, -zeta))
    for label, name in (("LN-erf, $\\mu = 1$", "erf"), ("LN-GELU, $\\mu = 1$", "gelu")):
        theory = mf.derive(name, norm="pre", mu=1)
        power = theory.depth_law("J", sigma_w=sp.sqrt(2), sigma_b=0).exponent or sp.nan
        skips.append((curve(label, theory, 2**0.5, 0.0, 250, sizes), 100, float(sp.N(power, 17))))
    with files.require().rc_context(files.LOOK):
        figure = _new(6.8, 3.0)
        left, right = figure.subplots(1, 2)
        _log_log(left, plain)
        _log_log(right, skips)
        left.set_ylabel(r"$J^{0,\ell}$")
        return figure


def _log_log(panel: Axes, curves: list[tuple[Curve, int, float]]) -> None:
    """Curves with the slope of log J fitted over l > start, and the exponent of the limit l → ∞ in brackets."""
    for (c, start, limit), colour in zip(curves, COLOURS):
        ours, theirs = c.slope(start)
        text = f"{c.label}: slope {_signed(ours)} ({_signed(limit)} for $\\ell \\to \\infty$)"
        panel.plot(c.l, np.exp(c.log_J), color=colour, label=text)
        every = np.unique(np.geomspace(1, len(c.l), 25).astype(int) - 1)
        _networks(panel, c, every, c.l, colour, f"networks: {_signed(theirs or 0.0)}", of=np.exp)
    panel.set(xscale="log", yscale="log", xlabel=r"layer $\ell$")
    panel.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0))


def _networks(panel: Axes, c: Curve, every: np.ndarray, x: np.ndarray, colour: str, label: str, **style: Any) -> None:
    """Ensembles, if there are any, at some layers beside the curve of the theory, which is drawn already."""
    if c.measured is None or c.half is None:
        return
    found, half = (tuple(v[every] for v in points) for points in (c.measured, c.half))
    style |= {"size": 1.0, "label": label, "note": "log J, " + re.sub(r"[$\\]", "", c.label)}
    beside(panel, x[every], c.log_J[every], found, half, c.l[every] / c.width, colour, **style)


def _signed(value: float) -> str:
    text = f"{value + 0.0:.3f}"
    return "0" if float(text) == 0 else f"${text}$"


def figure_5(sizes: Sizes = THEORY_ONLY) -> Figure:
    """log J^{1,l} against √l: erf, μ = 1, σ_b = 0, σ_w = 1."""
    theory = mf.derive("erf", mu=1)
    c = curve("erf, $\\mu = 1$", theory, 1.0, 0.0, 250, sizes, l0=1)
    law = theory.depth_law("J", sigma_w=1, sigma_b=0)
    slope, measured = c.slope(100, np.sqrt)
    with files.require().rc_context(files.LOOK):
        figure = _new(3.4, 2.6)
        panel = figure.subplots()
        panel.plot(
            np.sqrt(c.l), c.log_J, color=COLOURS[0], label=f"recursion: slope {_signed(slope)} for $\\ell > 100$"
        )
        keep = c.l > 1
        rate, power = float(law.rate), float(law.exponent or 0)
        shape = rate * np.sqrt(c.l) + power * np.log(c.l)
        shift = c.log_J[-1] - shape[-1]
        label = f"${rate:.4f}\\sqrt{{\\ell}} + {power:.4f}\\,\\log\\ell + C$"
        panel.plot(np.sqrt(c.l[keep]), (shape + shift)[keep], "--", color="black", lw=0.9, label=label)
        label = f"networks: slope {_signed(measured or 0.0)}"
        _networks(panel, c, np.arange(4, len(c.l), 12), np.sqrt(c.l), COLOURS[1], label)
        panel.set(xlabel=r"$\sqrt{\ell}$", ylabel=r"$\log\,J^{1,\ell}$")
        panel.legend()
        return figure


def figure_7(sizes: Sizes = THEORY_ONLY) -> Figure:
    """log J^{0,l} against log l on the critical lines of LN-erf and erf-LN at σ_w = 1: exponent 0."""
    with files.require().rc_context(files.LOOK):
        figure = _new(6.8, 2.7)
        for panel, (norm, label) in zip(figure.subplots(1, 2), (("pre", "LN-erf"), ("act", "erf-LN"))):
            theory = mf.derive("erf", norm=norm)
            ((bias, _),) = theory.critical_line().sigma_b_at(1)
            b = float(sp.N(bias.value, 17))
            _log_log(panel, [(curve(f"{label}, $\\sigma_b = {b:.5f}$", theory, 1.0, b, 250, sizes), 100, 0.0)])
            panel.set(ylabel=r"$J^{0,\ell}$", ylim=(0.05, 20))
        return figure


def figure_8(depth: float = 4000.0) -> Figure:
    """The overlay of figure 8: 28 ξ against σ_w² with LayerNorm on preactivations, σ_b² = ½."""
    squares = np.linspace(0.1, 5, 246)
    with files.require().rc_context(files.LOOK):
        figure = _new(3.4, 2.6)
        panel = figure.subplots()
        for (name, label), colour in zip((("relu", "ReLU"), ("erf", "erf"), ("gelu", "GELU")), COLOURS):
            diagram = mf.derive(name, norm="pre").phase_diagram(
                sigma_w=np.sqrt(squares), sigma_b=np.array([0.5**0.5]), line=False
            )
            panel.plot(squares, 28 * diagram.xi[0], color=colour, label=label)
        panel.set(xlabel=r"$\sigma_w^2$", ylabel=r"$28\,\xi$ (layers)", yscale="log", ylim=(10, depth), xlim=(0, 5))
        panel.legend()
        return figure


def _new(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def figures_of(sizes: Sizes = THEORY_ONLY, measured: str | None = None) -> Drawn:
    """The figures by name, with networks of these sizes; measured: a file of those of figure 2."""

    def second() -> Figure:
        grid = Measured.load(measured) if measured else Measured.run(sizes) if sizes.networks else None
        return figure_2(measured=grid)

    return {
        "figure1": partial(figure_1, sizes),
        "figure2": second,
        "figure4": partial(figure_4, sizes=sizes),
        "figure5": partial(figure_5, sizes),
        "figure7": partial(figure_7, sizes),
        "figure8": figure_8,
    }


def drawn(paper: bool = False) -> Drawn:
    """The figures by name; figures 1, 5 and 7 with networks, of figure 1's size in the paper or a smaller one."""
    one = figures_of(Sizes(100, 1000) if paper else Sizes(20, 100))
    return figures_of() | {name: one[name] for name in ("figure1", "figure5", "figure7")}


def write(
    folder: str | os.PathLike, sizes: Sizes = THEORY_ONLY, measured: str | None = None, suffix: str = ".png"
) -> list[Path]:
    """All figures into `folder`; returns the files."""
    return write_all(figures_of(sizes, measured), folder, suffix)


def options(parser: argparse.ArgumentParser) -> None:
    """The command line of `figures`."""
    parser.add_argument("folder")
    parser.add_argument("--networks", type=int, default=0, help="finite networks to draw beside the theory")
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--grid", type=int, default=12, help="points a side of figure 2's finite networks")
    parser.add_argument("--measured", help="an .npz of benchmarks/figure2.py for figure 2")
    parser.add_argument("--suffix", default=".png", choices=files.FORMATS)
