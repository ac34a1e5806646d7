"""Code to paste: the standard deviations of every kind of Dense for PyTorch, Flax, and as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Sigmas = Mapping[str, tuple[float, float]]


def _head(sigmas: Sigmas, scale: float | None) -> list[str]:
    lines = ["SIGMAS = {  # (sigma_w, sigma_b); std of a weight: sigma_w / sqrt(fan_in), of a bias: sigma_b"]
    lines += [f'    "{key}": ({w!r}, {b!r}),' for key, (w, b) in sigmas.items()]
    lines.append("}")
    if scale is not None:
        lines.append(f"LAYER_SCALE = {scale!r}  # of every branch: the value of its LayerScale, which you set")
    return lines


def torch(sigmas: Sigmas, scale: float | None, what: str, K1: float, depth: int) -> str:
    """For PyTorch: `init_(linear, kind)` draws one torch.nn.Linear in place, `init_network_` all of a network.

    K1: the variance of the first preactivations, which an embedding has in the place of an input layer; depth: L.
    """
    kinds = tuple(key for key in sigmas if key != "input")
    each = ", ".join(f'"{key}"' for key in kinds) + "," * (len(kinds) == 1)
    return "\n".join(
        [
            "import math",
            "import torch",
            "",
            f"# {what}",
            "# input: the Linear before the first block; the others: the Linears of every block, in the order in which",
            "# a signal meets them. Norms stay as PyTorch makes them (weight 1, bias 0).",
            *_head(sigmas, scale),
            f"BLOCK = ({each})",
            f"BLOCKS = {depth - 1}  # these numbers are for depth {depth}: the input layer and {depth - 1} blocks",
            f"K1 = {K1!r}  # variance of the first preactivations",
            "",
            "@torch.no_grad()",
            "def init_(linear, kind):",
            "    sigma_w, sigma_b = SIGMAS[kind]",
            "    linear.weight.normal_(0.0, sigma_w / math.sqrt(linear.in_features))",
            "    if linear.bias is not None:",
            "        linear.bias.normal_(0.0, sigma_b)",
            "",
            "@torch.no_grad()",
            "def init_network_(linears, embedding=None):",
            '    """linears: a module or a list; its Linears are taken in order, those of the input and of all',
            "    blocks. The head behind the last block must not be among them: its scale is that of the outputs",
            "    and is left to you. embedding: takes the place of the input's Linear; embeddings that are added",
            '    (tokens, positions) share this variance."""',
            '    modules = linears.modules() if hasattr(linears, "modules") else linears',
            "    linears = [one for one in modules if isinstance(one, torch.nn.Linear)]",
            "    wanted = BLOCKS * len(BLOCK) + (embedding is None)",
            "    if len(linears) != wanted:",
            "        raise ValueError(",
            '            f"{len(linears)} Linears were given, but the input and {BLOCKS} blocks of {len(BLOCK)} "',
            '            f"have {wanted}: leave the head out, or ask for the numbers of another depth"',
            "        )",
            "    if embedding is None:",
            '        init_(linears.pop(0), "input")',
            "    else:",
            "        embedding.weight.normal_(0.0, math.sqrt(K1))",
            "    for i, linear in enumerate(linears):",
            "        init_(linear, BLOCK[i % len(BLOCK)])",
        ]
    )


def flax(sigmas: Sigmas, scale: float | None, what: str) -> str:
    """For Flax: `dense(features, kind)` is a flax.linen.Dense with these initializers."""
    return "\n".join(
        [
            "from flax import linen as nn",
            "from jax.nn import initializers",
            "",
            f"# {what}",
            *_head(sigmas, scale),
            "",
            "def dense(features, kind):",
            "    sigma_w, sigma_b = SIGMAS[kind]",
            '    kernel = initializers.variance_scaling(sigma_w**2, "fan_in", "normal")',
            "    return nn.Dense(features, kernel_init=kernel, bias_init=initializers.normal(sigma_b))",
        ]
    )


def numbers(layers: Any, scale: float | None) -> str:
    """One line for each kind of Dense: its key, std of its weights (σ_w where the fan-in is not known), of its biases.
    """
    out = []
    for one in layers:
        std = f"{one.sigma_w!r}/sqrt(fan_in)" if one.weight_std is None else repr(one.weight_std)
        out.append(f"{one.key} weight_std={std} bias_std={one.sigma_b!r}")
    return "\n".join(out + ([] if scale is None else [f"layer_scale={scale!r}"]))
