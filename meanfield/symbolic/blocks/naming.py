"""Architectures in words."""

from __future__ import annotations

from meanfield.architecture import (
    Block,
    Dense,
    LayerNorm,
    Nonlinearity,
    Param,
    Residual,
    Sequential,
    activations_of,
)
from meanfield.functions.activations import activation


def describe(block: Block) -> str:
    """One line that names an architecture."""
    inner = ", ".join(str(activation(a)) for a in activations_of(block))
    return f"{_kind(block)}, {inner}"


def _kind(block: Block) -> str:
    match block:
        case Residual(branch, mu, shortcut):
            way = "" if shortcut is None else f", shortcut {_kind(shortcut)}"
            return f"residual {_kind(branch)} (mu = {mu.name if isinstance(mu, Param) else mu}{way})"
        case Sequential((LayerNorm(), Nonlinearity(), Dense())):
            return "MLP with LayerNorm on preactivations"
        case Sequential((Nonlinearity(), LayerNorm(), Dense())):
            return "MLP with LayerNorm on activations"
        case Sequential((Nonlinearity(), Dense())):
            return "MLP"
    return " → ".join(_names(block))


def _names(block: Block) -> list[str]:
    match block:
        case Sequential(blocks):
            return [n for b in blocks for n in _names(b)]
        case Residual(branch, mu, shortcut):
            way = "x" if shortcut is None else f"[{' → '.join(_names(shortcut))}]"
            return [f"[{' → '.join(_names(branch))}] + {mu.name if isinstance(mu, Param) else mu} {way}"]
    if isinstance(block, Dense) and block.axis == "tokens":
        return ["Dense on tokens"]
    return [type(block).__name__ if not isinstance(block, Nonlinearity) else "φ"]
