"""Frozen records that describe a network. No SymPy here: the theory and the finite-width checker both read them.

A network is an input layer `Dense` (no skip, no activation), followed by one *block* repeated: layer l + 1 =
block(layer l). A block maps preactivations z^l to preactivations z^{l+1}; the usual one is
`Sequential((Nonlinearity(phi), Dense()))`, z^{l+1} = σ_w N^{-1/2} W φ(z^l) + σ_b b, optionally inside `Residual(...,
mu)`, which adds μ z^l.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from meanfield.results import MeanFieldError


@dataclass(frozen=True)
class Param:
    """A number that stays symbolic, known by its name (as `Param("mu")`)."""

    name: str


Number = int | Fraction | Param


RESERVED = frozenset(
    [
        "K",
        "J",
        "Theta",
        "K_aa",
        "K_bb",
        "K_ab",
        "sigma_w",
        "sigma_b",
        "Q0",
        "N0",
        "J0",
        "D0",
        "c0",
        "after_norm",
        "l",
        "z",
        "x",
        "C",
        "nan",
        "inf",
    ]
)


def free_name(name: str, what: str) -> str:
    """`name`, unless it already means something in every recursion."""
    if name in RESERVED or name.lower() in RESERVED:
        raise MeanFieldError(
            f"{what} was to be the symbol {name!r}, which has a fixed meaning here; choose another name."
        )
    return name


def exact(value: object, what: str) -> Number:
    """`value` as an exact number or a `Param`: 0.1 means the decimal 1/10, a name means a symbol."""
    if isinstance(value, Param):
        return value
    if isinstance(value, str) and value.isidentifier():
        return Param(free_name(value, what))
    try:
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise MeanFieldError(f"{what} must be a finite number or a symbol's name, but {value!r} was given.") from None
    return int(number) if number.denominator == 1 else number


@dataclass(frozen=True)
class Dense:
    """A fully connected layer x → σ_w N^{-1/2} W x + σ_b b; `weights` is the ensemble W is drawn from."""

    weights: str = "gaussian"

    def __post_init__(self) -> None:
        if self.weights != "gaussian":
            raise MeanFieldError(
                f"weights={self.weights!r} was asked for; the ensemble that exists so far is 'gaussian'."
            )


@dataclass(frozen=True)
class Nonlinearity:
    """A coordinatewise map; `activation` is a registered name or any hashable activation record."""

    activation: Hashable


@dataclass(frozen=True)
class LayerNorm:
    """y → γ (y − mean(y))/sd(y) + β over the N neurons of one input, with γ = 1 and β = 0 at initialization.

    affine: whether γ and β are trained (then they enter the tangent kernel); the forward pass does not depend on it.
    """

    affine: bool = True


@dataclass(frozen=True)
class Sequential:
    """Blocks applied from left to right."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Residual:
    """x → branch(x) + μ x, with μ a number ≥ 0 or a `Param`."""

    branch: Block
    mu: Number = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", exact(self.mu, "The skip strength mu"))
        if not isinstance(self.mu, Param) and self.mu < 0:
            raise MeanFieldError(f"The skip strength mu must be ≥ 0, but {self.mu} was given.")


Block = Dense | Nonlinearity | LayerNorm | Sequential | Residual


NORMS = ("none", "pre", "act")


def mlp(activation: Hashable, mu: object = 0, weights: str = "gaussian", norm: str | None = None) -> Block:
    """One layer of a multilayer perceptron, `Dense(φ(z))`, plus μ z when `mu` is not 0.

    norm: "pre" normalizes the preactivations, Dense(φ(LN(z))); "act" the activations, Dense(LN(φ(z))); None or "none"
    neither. The skip carries z as it is.
    """
    if norm not in (None, *NORMS):
        raise MeanFieldError(f"norm={norm!r} was asked for; the choices are {', '.join(NORMS)}.")
    phi = Nonlinearity(activation)
    inner = {"pre": (LayerNorm(), phi), "act": (phi, LayerNorm())}.get(norm or "none", (phi,))
    plain = Sequential((*inner, Dense(weights)))
    strength = exact(mu, "The skip strength mu")
    return plain if strength == 0 else Residual(plain, strength)


def activations_of(block: Block) -> tuple[Hashable, ...]:
    """The activations a block holds, in the order they are met."""
    match block:
        case Nonlinearity(activation):
            return (activation,)
        case Sequential(blocks):
            return tuple(a for b in blocks for a in activations_of(b))
        case Residual(branch):
            return activations_of(branch)
    return ()
