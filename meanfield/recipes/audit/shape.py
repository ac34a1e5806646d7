"""The block that a configuration describes, from the choices that such files make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from meanfield.base.results import MeanFieldError
from meanfield.base.words import unknown
from meanfield.networks.attention import Attention
from meanfield.networks.records import (
    Block,
    Dense,
    Gate,
    LayerNorm,
    Network,
    Nonlinearity,
    Residual,
    RMSNorm,
    Scale,
    Schedule,
    Sequential,
)
from meanfield.recipes.laws import Law, law_of

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


@dataclass(frozen=True)
class Shape:
    """A block by its choices: φ; whether its feed-forward branch is gated; the norm ("layer", "rms") and its place
    ("pre", "post", "peri", "behind" each branch alone, or "scaled": before each branch, and divided by √l); whether the
    two branches act beside each other (parallel); the mask; the base of rotary positions (0: none); a norm of queries
    and keys; neurons of a head where they are not width/heads.

    Called with sizes, it is the `make` of a `Row`.
    """

    activation: str
    gated: bool = False
    norm: str = "layer"
    place: str = "pre"
    parallel: bool = False
    causal: bool = True
    rotary: Any = 0
    qk_norm: bool = False
    key_dim: int | None = None

    def __call__(
        self, *, depth: int, width: int, heads: int, hidden: int, groups: int | None = None, **_: Any
    ) -> Network:
        """The network with open deviations."""
        own, wide = Dense(sigma_b=0), Dense(sigma_b=0, expand=Fraction(hidden, width))
        attention = Attention(
            heads, key_dim=self.key_dim, value_dim=self.key_dim, causal=self.causal, rotary=self.rotary,
            groups=groups, qk_norm=self.qk_norm, query=own, key=own, value=own,
        )  # fmt: skip
        inside: tuple[Block, ...] = (wide, Nonlinearity(self.activation))
        if self.gated:
            inside = (Gate(self.activation, wide, wide),)
        first, second = (self._branch(*blocks, own) for blocks in ((attention,), inside))
        if self.parallel:
            return Network(Sequential((Residual(first, 1, Residual(second)),)), own)
        after = (self._norm,) if self.place == "post" else ()
        return Network(Sequential((Residual(first), *after, Residual(second), *after)), own)

    @property
    def _norm(self) -> Block:
        return LayerNorm() if self.norm == "layer" else RMSNorm()

    def _branch(self, *blocks: Block) -> Block:
        before: tuple[Block, ...] = (self._norm,) if self.place in ("pre", "peri", "scaled") else ()
        before += (Scale(Schedule(1, 1)),) if self.place == "scaled" else ()
        behind = (self._norm,) if self.place in ("peri", "behind") else ()
        return Sequential((*before, *blocks, *behind))


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
