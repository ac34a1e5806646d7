"""Figures 2, 3, A.1 and A.2 without training: contours over (exponent, depth) of the paper's sweeps, all σ = 1.

In the zig of ReLU β_w = β_b go from 0 to 2 (V_r = t, U_r = 0), in the zag β_a from 0 to 2 at β_w = β_b = 2 (V_r = 2,
U_r = t). Inputs have p^(0) = 1, e^(0) = ½; the paper does not state its own, nor the range of depths.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEPTH, FIRST = 200, 5
BETAS = ("beta_v", "beta_w", "beta_a", "beta_b")
ZIG = {"beta_v": 0, "beta_w": "t", "beta_a": 0, "beta_b": "t"}
ZAG = {"beta_v": 0, "beta_w": 2, "beta_a": "t", "beta_b": 2}
SWEEPS = {  # of tanh: (a) all alike, (b) β_v = β_w, (c) β_w = β_b
    "a": dict.fromkeys(BETAS, "t"),
    "b": {"beta_v": "t", "beta_w": "t", "beta_a": 1, "beta_b": 1},
    "c": {"beta_v": 1, "beta_w": "t", "beta_a": 1, "beta_b": "t"},
}
LABELS = {
    "p": r"$\log(1 + \log(1 + p))$",
    "s": r"$\log(1 + \log(1 + s))$",
    "e": r"$e$",
    "chi": r"$\log(1 + \log\,\chi^{(0)}/\chi^{(l)})$",
    "chi_v": r"$\log\,\chi_v^{(1)}/\chi_v^{(l)}$",
    "chi_w": r"$\log\,\chi_w^{(1)}/\chi_w^{(l)}$",
}


@lru_cache(maxsize=16)
def _sweep(phi: str, fixed: tuple[tuple[str, object], ...], points: int, top: float, depth: int, pairs: bool):
    """The exponents, and p, e, s, chi, chi_w, chi_v (logarithms of ratios) by exponent and l = 1 … depth."""
    t = np.linspace(0, top, points)
    betas = {k: t if v == "t" else v for k, v in fixed}
    theory = mf.derive(phi, architecture="full_residual", sigma_v=1, sigma_a=1, **{k: k for k in BETAS})
    place = {"sigma_w": 1, "sigma_b": 1, "depth": depth + 1, **betas}
    one = theory.propagate(**place, quantities=("K", "G_z", "G_w"))
    out = {"p": one.K[:, 1:], "chi": one.log_G_z[:, :1] - one.log_G_z[:, 1:]}
    for name, dense in (("chi_w", 1), ("chi_v", 2)):
        log_G = getattr(one, f"log_G_w[{dense}]")
        out[name] = log_G[:, 1:2] - log_G[:, 1:]
    if pairs:
        two = theory.propagate(**place, correlation=0.5, quantities=("K", "c", "distance"))
        out["e"], out["s"] = np.asarray(two.c)[:, 1:], np.asarray(two.distance)[:, 1:] / 2
    return t, {k: np.asarray(v, dtype=float) for k, v in out.items()}


def sweep(phi: str, fixed: dict, points: int, top: float = 2.0, depth: int = DEPTH, pairs: bool = True):
    """The same, kept."""
    return _sweep(phi, tuple(fixed.items()), points, top, depth, pairs)


def shown(name: str, values: np.ndarray) -> np.ndarray:
    """What is drawn of a quantity: its values squashed as the label says."""
    if name in ("p", "s"):
        return np.log1p(np.log1p(values))
    return np.log1p(values) if name == "chi" else values


def drawn(panel: Axes, x: np.ndarray, field: np.ndarray, colour: str = "black", levels: int = 9, heat: bool = True):
    """Contours of field[exponent, l] with their numbers, over a heat map."""
    l, field = np.arange(FIRST, field.shape[1] + 1), field[:, FIRST - 1 :]  # the first blocks crowd everything else
    if heat:
        low, high = field.min(), field.max()
        panel.pcolormesh(
            x, l, field.T, cmap="Blues", shading="gouraud", rasterized=True, vmin=low, vmax=high + 0.8 * (high - low)
        )
    lines = panel.contour(x, l, field.T, levels=levels, colors=colour, linewidths=0.8)
    panel.clabel(lines, fontsize=6, fmt="%.3g")
    panel.set(xlabel="exponent", ylim=(l[0], l[-1]))


def level(height: float = 10.0) -> tuple[np.ndarray, np.ndarray]:
    """(V_r, l) where W_r l^{1-V_r}/(1-V_r) is `height`, W_r = ½; as V_r → 1 this term alone diverges."""
    V = np.linspace(0.0, 0.8, 401)
    return V, (2 * height * (1 - V)) ** (1 / (1 - V))


def figure_2(points: int = 81) -> Figure:
    """Zig: s, and dashed where log p reaches 10 by its leading term; zag: chi_v^(1)/chi_v^(l)."""
    with files.require().rc_context(files.LOOK):
        figure, (left, right) = _new(2)
        t, found = sweep("relu", ZIG, points)
        drawn(left, t, np.log1p(np.log(np.maximum(found["s"], np.exp(-0.9)))), levels=12)
        left.plot(*level(), "--", color="#B00000")
        left.set(title=r"zig: $\log(1 + \log s)$", xlabel=r"$\beta_w = \beta_b$", ylabel="$l$", xlim=(0, 2))
        t, found = sweep("relu", ZAG, points)
        drawn(right, t, found["chi_v"], levels=12)
        right.set(title=f"zag: {LABELS['chi_v']}", xlabel=r"$\beta_a$")
        return figure


def appendix(phase: str, points: int = 81) -> Figure:
    """Figures A.1 (zig) and A.2 (zag): p, s, e, chi, chi_w and chi_v."""
    label, fixed = {"zig": (r"$\beta_w = \beta_b$", ZIG), "zag": (r"$\beta_a$", ZAG)}[phase]
    with files.require().rc_context(files.LOOK):
        figure, panels = _new(6)
        t, found = sweep("relu", fixed, points)
        for panel, name in zip(panels, LABELS):
            drawn(panel, t, shown(name, found[name]))
            panel.set(title=LABELS[name], xlabel=label)
        for panel in panels[::3]:
            panel.set_ylabel("$l$")
        return figure


def figure_3(points: int = 41, depth: int = DEPTH) -> Figure:
    """tanh: (a), (b) log chi_w^(1)/chi_w^(l) in blue and log p in green, (c) log s."""
    titles = (r"(a) all $\beta$ alike", r"(b) $\beta_v = \beta_w$, $\beta_a = \beta_b = 1$",
              r"(c) $\beta_w = \beta_b$, $\beta_v = \beta_a = 1$")  # fmt: skip
    with files.require().rc_context(files.LOOK):
        figure, panels = _new(3)
        for panel, key, title in zip(panels, SWEEPS, titles):
            t, found = sweep("tanh", SWEEPS[key], points, 1.0, depth, pairs=key == "c")
            if key == "c":
                drawn(panel, t, np.log(found["s"]))
            else:
                drawn(panel, t, found["chi_w"], figures.COLOURS[0], 6, heat=False)
                drawn(panel, t, np.log(found["p"]), figures.COLOURS[2], 6, heat=False)
            panel.set(title=title, xlabel=r"$\beta$")
        panels[0].set_ylabel("$l$")
        return figure


def _new(count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    rows = (count + 2) // 3
    figure = Figure(figsize=(2.3 * min(count, 3) + 0.4, 2.5 * rows), layout="constrained")
    return figure, list(np.ravel(figure.subplots(rows, min(count, 3), sharey=True)))
