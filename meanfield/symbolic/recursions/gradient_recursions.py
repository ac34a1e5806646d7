r"""Gradients of a random function of the last layer, by the signals and by the weights and biases of every Dense.

With J^{l,L} = E‖∂z^L/∂z^l‖²_F/N_L the gradient of u·z^L/√N_L (u random signs) has the mean square G_z^l = J^{l,L} by
z^l, and by the biases of a Dense in the block that makes layer l

    G_b^l = J^{l,L} χ_d,    G_w^l = G_b^l ⟨y²⟩  for each of its inputs y,

χ_d the growth of a tangent from the Dense's outputs to the block's. Both factors are functions of K^{l-1} alone, so
that they come from one walk through the block, in which a tangent starts at every Dense.
Source: [variance_variation] Thm. C.3, for any block: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Q0, J, K, sigma_b, sigma_w
from meanfield.networks.records import Block, Dense
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.recursions.block_recursions import recursion_of, untrained, variable
from meanfield.symbolic.recursions.coordinate import Coordinate, Gaussian, gaussian
from meanfield.symbolic.recursions.numbered import Numbered, counted


@dataclass
class _Sources(Numbered):
    """A walk that knows ⟨y²⟩ at the inputs of every Dense, where a tangent of size 1 starts at its outputs."""

    squares: dict[int, sp.Expr] = field(default_factory=dict)

    def field_of(self, number: int) -> str:
        return _tangent(number)

    def begins(self, block: Dense, number: int, x: Coordinate, p: int, q: int) -> sp.Expr:
        self.squares[number] = x.moment(0, 0)
        return sp.S.One


def _tangent(number: int) -> str:
    return f"G[{number}]"


def gradients(block: Block) -> Recursion:
    """K, J and what gradients are made of: G_z, the growth J^{l-1,l} of a layer, and for the d-th Dense of the block
    that makes layer l G_b[d] and G_w[d], G^l per J^{l,L}. The input layer's stand in the last ones at layer 1.

    Raises: MeanFieldError where J is infinite (φ jumps or rises like √|z|).
    """
    numbered, count = counted(untrained(block))
    walk, numbers = _Sources(), range(1, count + 1)
    start = {"J": (sp.S.One,)} | {_tangent(d): (sp.S.Zero,) for d in numbers}
    law = walk.ended(numbered, gaussian(Gaussian(1, (K,), start))).law
    growth = law.grams["J"][0]
    if growth == sp.oo:
        raise MeanFieldError(
            "Gradients are not available: they are infinite at every layer but the last (φ jumps or rises like √z). "
            "Ask for K only."
        )
    state = [variable(K, sigma_w**2 * Q0 + sigma_b**2), variable(J, sp.S.One), _factor("G_z", sp.S.One)]
    values = [law.cov[0], growth * J, growth]
    for name, first, found in (
        ("G_w", Q0, lambda d: walk.squares[d] * law.grams[_tangent(d)][0]),
        ("G_b", sp.S.One, lambda d: law.grams[_tangent(d)][0]),
    ):
        for d in numbers:
            state.append(_factor(f"{name}[{d}]", first if d == count else sp.S.Zero))
            values.append(found(d))
    return recursion_of(state, walk, tuple(values))


def _factor(name: str, first: sp.Expr) -> StateVar:
    return StateVar(name, sp.Symbol(name, nonnegative=True), first)
