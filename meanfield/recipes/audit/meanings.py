"""What words and numbers of configurations mean: activations, factors of the forward pass, heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.words import unknown
from meanfield.recipes.description.matrix_laws import Law, law_of

#: activations as configurations call them → formulas here
ACTIVATIONS: Mapping[str, str] = {
    **dict.fromkeys(("gelu", "gelu_python", "openai_gelu_erf"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "fast_gelu"), "gelu_tanh"),
    **dict.fromkeys(("silu", "swish"), "silu"),
    **dict.fromkeys(("relu2", "squared_relu", "relu_squared"), "relu(z)**2"),
    "quick_gelu": "z*sigmoid(1.702*z)",
    **{name: name for name in ("relu", "tanh", "sigmoid", "mish", "selu", "softsign", "sin")},
    "linear": "z",
}


def activation_of(name: str, known: Mapping[str, str] = ACTIVATIONS) -> str:
    """The formula of an activation as a configuration calls it."""
    if name not in known:
        raise unknown("activation of the configuration", name, tuple(known))
    return known[name]


def times(law: object, factor: object) -> Law:
    """The same law, multiplied in the forward pass by a formula in the sizes, too."""
    held = law_of(law, "A law")
    return replace(held, multiplier=str(factor) if held.multiplier == "1" else f"({held.multiplier})*({factor})")


def heads_fit(width: int, heads: int, groups: int | None, names: tuple[str, str, str]) -> None:
    """Refuse heads that do not divide the width, and groups that do not divide the heads, by the names of the keys."""
    if width % heads:
        raise MeanFieldError(
            f"{names[1]} must divide {names[0]}, but {heads} heads of width {width} were given; the configuration "
            "contradicts itself."
        )
    if groups is not None and heads % groups:
        raise MeanFieldError(
            f"{names[2]} must divide {names[1]}, but {groups} groups of {heads} heads were given; the configuration "
            "contradicts itself."
        )
