"""The recursions of one architecture: what every verb reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import whole
from meanfield.functions.activations import Activation, activation
from meanfield.networks.folds import activations_of, attends, symbols_in
from meanfield.networks.records import FIRST, Block, Dense, Network, block_of
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.block_recursions import (
    ACTING,
    SMALLEST,
    equal_norms,
    input_jacobian,
    kind_of,
    one_input,
    pair_tangents,
    two_inputs,
    unequal_norms,
)
from meanfield.symbolic.recursions.coordinate_walk import Rates
from meanfield.symbolic.recursions.first import begun
from meanfield.symbolic.recursions.gradient_recursions import gradients

ACTING.rare({"batch": "theory.queries.coupled_positions", "tokens": "theory.queries.coupled_positions"})


@dataclass(frozen=True)
class Maps:
    """The recursions of one architecture at initialization, each derived when it is first read."""

    block: Block
    first: Dense = FIRST
    batch: int | None = None
    rate_names: Rates = field(default=(), repr=False)  # those of lambda_w and lambda_b that Theta is by

    def __post_init__(self) -> None:
        block_of(self.block, "The block of a Theory")
        Network(self.block, self.first)  # refuses what is no input layer
        if self.batch is not None:
            object.__setattr__(self, "batch", batch_size(self.batch, self.block))
        if not activations_of(self.block) and not attends(self.block):
            raise MeanFieldError(
                "The architecture holds no Nonlinearity; wrap an activation in Nonlinearity(...), or put "
                "Nonlinearity('z'), which changes nothing, beside a record that bends by itself."
            )

    def __deepcopy__(self, memo: dict) -> Maps:
        """Itself: nothing about a theory changes, and what it has derived need not be derived again."""
        return self

    @cached_property
    def named_in_records(self) -> tuple[str, ...]:
        """The names that values may have: symbols of records, and the number of tokens where an Attention weighs them.
        """
        return (*symbols_in(self.block), *(("tokens",) if attends(self.block) else ()))

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """The records of φ, each once, in the order they are met."""
        return tuple(dict.fromkeys(activation(a) for a in activations_of(self.block)))

    @cached_property
    def kind(self) -> str:
        """What acts on each other: the inputs of a "batch" (BatchNorm), the "tokens" of one input (Dense on the
        tokens, Attention); "" where positions are apart."""
        return kind_of(self.block)

    @cached_property
    def acting(self) -> Any:
        """What is asked of positions that act on each other (`theory.queries.coupled_positions`)."""
        return ACTING[self.kind](self.block, self.first, self.batch)

    @cached_property
    def one_input(self) -> Recursion:
        """The recursion of (K, J, Theta); of any two positions that act on each other (K, K_ab, J, J_ab, Theta,
        Theta_ab)."""
        if self.kind:
            return self.acting.printed()
        return begun(one_input(self.block, self.rate_names), self.first)

    @cached_property
    def limiting(self) -> Recursion:
        """The recursion of (K, J) that fixed points, phases and laws are of; behind a BatchNorm K stands for K - K_ab,
        the variance that a batch has by itself, and J for J - J_ab, which grows as J does."""
        if self.kind:
            return self.acting.limiting_recursion()
        return self.one_input.only("K", "J")

    @cached_property
    def two_inputs(self) -> Recursion:
        """The recursion of (K_aa, K_bb, K_ab)."""
        return begun(two_inputs(self.block), self.first)

    @cached_property
    def auxiliary(self) -> Recursion | None:
        """What tables show with `one_input`: `two_inputs`; of positions that act on each other what settles, if
        anything does."""
        if not self.kind:
            return self.two_inputs
        try:
            return self.limiting
        except MeanFieldError:
            return None

    @cached_property
    def pair_tangents(self) -> Recursion:
        """The recursion of (K_aa, K_bb, K_ab, J_ab, Theta_ab): the Jacobian and the tangent kernel between two inputs.
        """
        return begun(pair_tangents(self.block, self.rate_names), self.first)

    @cached_property
    def equal_norms(self) -> Recursion:
        """The recursion of (K, J, Theta, K_ab, distance, J_ab, Theta_ab) for two inputs of one norm."""
        return begun(equal_norms(self.block, self.rate_names), self.first)

    @cached_property
    def unequal_norms(self) -> Recursion:
        """The recursion of (K_aa, K_bb, norm_angle, distance, K_ab, J_ab, Theta_ab) for two inputs of any norms; the
        angle norm_angle with sin(norm_angle) = (sqrt(K_aa) - sqrt(K_bb))/sqrt(distance) keeps the digits of both."""
        return begun(unequal_norms(self.block, self.rate_names), self.first)

    @cached_property
    def input_jacobian(self) -> Recursion:
        """The recursion of (K, D0, J0): the Jacobian with respect to an input of finite dimension N_0."""
        return begun(input_jacobian(self.block), self.first)

    @cached_property
    def gradients(self) -> Recursion:
        """The recursion of K, J and the factors that gradients by z, and by the weights and biases of every Dense, are
        products of: G_z is J^{l-1,l}, G_w[d] and G_b[d] are G_w and G_b per J^{l,L}, d the place of the Dense.

        Raises: MeanFieldError where J is infinite. Source: [variance_variation] Thm. C.3, for any block.

        >>> print(derive("relu", architecture="full_residual").gradients.only("G_w[1]", "G_w[2]").doit())
        K' = K + sigma_a**2 + sigma_v**2*(K*sigma_w**2/2 + sigma_b**2/2)
        G_w[1]' = K*sigma_v**2/2
        G_w[2]' = K*sigma_w**2/2 + sigma_b**2/2
        """
        return begun(gradients(self.block), self.first)

    @property
    def default_quantities(self) -> tuple[str, ...]:
        """What is computed when nobody says: K and J, or K alone where J is infinite at every layer."""
        return ("K", "J") if self.one_input["J"] != sp.oo else ("K",)


def batch_size(value: object, block: Block) -> int:
    """|B| as a theory holds it. Raises: MeanFieldError below four, and for a block whose positions do not act on each
    other."""
    size = whole(value, "batch", 1, 1 << 24)
    if kind_of(block) != "batch":
        raise MeanFieldError(
            f"batch={size} was given, but no BatchNorm makes the inputs of a batch act on each other; leave it out."
        )
    if size < SMALLEST:
        raise MeanFieldError(
            f"A BatchNorm over a batch of {size} is not available: its gradients have a mean from |B| = {SMALLEST} on "
            "only, as that of 1/variance is (|B| - 1)/(|B| - 3)."
        )
    return size


def described(theory: Maps) -> str:
    """All of a theory as text: a record may show less of a long formula than another one needs to differ."""
    formulas = [str(activation(a).expression) for a in activations_of(theory.block)]
    return repr((theory.block, theory.first, theory.batch, theory.rate_names, formulas))
