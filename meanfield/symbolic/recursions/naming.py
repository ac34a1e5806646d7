"""Architectures in words."""

from __future__ import annotations

from meanfield.functions.activations import activation
from meanfield.networks.folds import activations_of, fold
from meanfield.networks.records import Block, Dense, LayerNorm, Nonlinearity, Param, Residual, Sequential


def describe(block: Block) -> str:
    """One line that names an architecture."""
    inner = ", ".join(str(activation(a)) for a in activations_of(block))
    kind: str = fold(block, _kind)
    return f"{kind}, {inner}" if inner else kind


def _kind(block: Block, inside: tuple[str, ...]) -> str:
    match block:
        case Residual(mu=mu):
            *beside, branch = inside
            way = "".join(f", shortcut {kind}" for kind in beside)
            return f"residual {branch} (mu = {mu.name if isinstance(mu, Param) else mu}{way})"
        case Sequential((LayerNorm(), Nonlinearity(), Dense())):
            return "MLP with LayerNorm on preactivations"
        case Sequential((Nonlinearity(), LayerNorm(), Dense())):
            return "MLP with LayerNorm on activations"
        case Sequential((Nonlinearity(), Dense())):
            return "MLP"
    names: list[str] = fold(block, _names)
    return " → ".join(names)


def _names(block: Block, inside: tuple[list[str], ...]) -> list[str]:
    match block:
        case Sequential():
            return [name for names in inside for name in names]
        case Residual(mu=mu):
            *beside, branch = (f"[{' → '.join(names)}]" for names in inside)
            return [f"{branch} + {mu.name if isinstance(mu, Param) else mu} {''.join(beside) or 'x'}"]
        case Nonlinearity():
            return ["φ"]
    return [f"{type(block).__name__} on tokens" if isinstance(block, Dense) and block.mixes else type(block).__name__]
