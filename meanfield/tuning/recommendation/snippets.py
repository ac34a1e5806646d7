"""Code to paste: the standard deviations of every kind of Dense for PyTorch, Flax, and as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Layers = Sequence[Any]  # of `answer.Layer`
LayerScale = tuple[float, str] | None  # its value, and of which branches


def _head(layers: Layers, scale: LayerScale) -> list[str]:
    lines = ["SIGMAS = {  # (sigma_w, sigma_b); std of a weight: sigma_w / sqrt(fan_in), of a bias: sigma_b"]
    lines += [f'    "{one.key}": ({one.sigma_w!r}, {one.sigma_b!r}),' for one in layers]
    lines.append("}")
    falls = {one.key: (one.beta_w, one.beta_b) for one in layers if one.beta_w or one.beta_b}
    if falls:
        lines.append(f"FALLS = {falls!r}  # (beta_w, beta_b): in the k-th block k ** (-beta / 2) of that")
    if scale is not None:
        lines.append(f"LAYER_SCALE = {scale[0]!r}  # {scale[1]}: the value of its LayerScale, which you set")
    return lines


def _drawn(layers: Layers) -> tuple[list[str], list[str]]:
    """(a table, and how a weight is drawn) in PyTorch."""
    kinds = {one.key: one.weights for one in layers if one.weights in ("orthogonal", "uniform")}
    if not kinds:
        return [], ["    linear.weight.normal_(0.0, sigma_w / math.sqrt(linear.in_features))"]
    return [f"DRAWN = {kinds!r}  # others: normal"], [
        "    std, drawn = sigma_w / math.sqrt(linear.in_features), DRAWN.get(kind)",
        '    if drawn == "orthogonal":  # a block of an orthogonal matrix of the larger size',
        "        torch.nn.init.orthogonal_(linear.weight, gain=std * math.sqrt(max(linear.weight.shape)))",
        '    elif drawn == "uniform":',
        "        linear.weight.uniform_(-math.sqrt(3) * std, math.sqrt(3) * std)",
        "    else:",
        "        linear.weight.normal_(0.0, std)",
    ]


def torch(layers: Layers, scale: LayerScale, what: str, K1: float, depth: int) -> str:
    """For PyTorch: `init_(linear, kind)` draws one torch.nn.Linear in place, `init_network_` all of a network.

    K1: the variance of the first preactivations, which an embedding has in the place of an input layer; depth: L.
    """
    kinds = tuple(one.key for one in layers if one.key != "input")
    falls = any(one.beta_w or one.beta_b for one in layers)
    table, draw = _drawn(layers)
    each = ", ".join(f'"{key}"' for key in kinds) + "," * (len(kinds) == 1)
    return "\n".join(
        [
            "import math",
            "import torch",
            "",
            f"# {what}",
            "# input: the Linear before the first block; the others: the Linears of every block, in the order in which",
            "# a signal meets them. Norms stay as PyTorch makes them (weight 1, bias 0).",
            *_head(layers, scale),
            *table,
            f"BLOCK = ({each})",
            f"BLOCKS = {depth - 1}  # these numbers are for depth {depth}: the input layer and {depth - 1} blocks",
            f"K1 = {K1!r}  # variance of the first preactivations",
            "",
            "@torch.no_grad()",
            f"def init_(linear, kind{', block=1' if falls else ''}):",
            "    sigma_w, sigma_b = SIGMAS[kind]",
            *(
                [
                    "    beta_w, beta_b = FALLS.get(kind, (0.0, 0.0))",
                    "    sigma_w, sigma_b = sigma_w * block ** (-beta_w / 2), sigma_b * block ** (-beta_b / 2)",
                ]
                if falls
                else []
            ),
            *draw,
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
            f"        init_(linear, BLOCK[i % len(BLOCK)]{', 1 + i // len(BLOCK)' if falls else ''})",
        ]
    )


def flax(layers: Layers, scale: LayerScale, what: str) -> str:
    """For Flax: `dense(features, kind)` is a flax.linen.Dense with these initializers."""
    falls = any(one.beta_w or one.beta_b for one in layers)
    kinds = {one.key: one.weights for one in layers if one.weights in ("orthogonal", "uniform")}
    law = '"normal"' if not kinds else '"uniform" if DRAWN.get(kind) == "uniform" else "normal"'
    square = [
        '    if DRAWN.get(kind) == "orthogonal":  # a block of an orthogonal matrix of the larger size',
        "        def kernel(key, shape, *dtype):",
        "            size = sigma_w * (max(shape) / shape[0]) ** 0.5",
        "            return initializers.orthogonal(size)(key, shape, *dtype)",
    ]
    return "\n".join(
        [
            "from flax import linen as nn",
            "from jax.nn import initializers",
            "",
            f"# {what}",
            *_head(layers, scale),
            *([f"DRAWN = {kinds!r}  # others: normal"] if kinds else []),
            "",
            f"def dense(features, kind{', block=1' if falls else ''}):",
            "    sigma_w, sigma_b = SIGMAS[kind]",
            *(
                [
                    "    beta_w, beta_b = FALLS.get(kind, (0.0, 0.0))",
                    "    sigma_w, sigma_b = sigma_w * block ** (-beta_w / 2), sigma_b * block ** (-beta_b / 2)",
                ]
                if falls
                else []
            ),
            f'    kernel = initializers.variance_scaling(sigma_w**2, "fan_in", {law})',
            *(square if "orthogonal" in kinds.values() else []),
            "    return nn.Dense(features, kernel_init=kernel, bias_init=initializers.normal(sigma_b))",
        ]
    )


def numbers(layers: Layers, scale: float | None) -> str:
    """One line for each kind of Dense: its key, std of its weights (σ_w where the fan-in is not known), of its biases,
    and, where they fall with depth, β: in the k-th block they are k^(−β/2) of that."""
    out = []
    for one in layers:
        std = f"{one.sigma_w!r}/sqrt(fan_in)" if one.weight_std is None else repr(one.weight_std)
        falls = [f" weight_beta={one.beta_w!r}"] if one.beta_w else []
        falls += [f" bias_beta={one.beta_b!r}"] if one.beta_b else []
        drawn = f" weights={one.weights}" if one.weights != "gaussian" else ""
        out.append(f"{one.key} weight_std={std} bias_std={one.sigma_b!r}{''.join(falls)}{drawn}")
    return "\n".join(out + ([] if scale is None else [f"layer_scale={scale!r}"]))
