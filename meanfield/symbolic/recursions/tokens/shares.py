r"""The tangent kernel by matrices: which share of it each Dense of a block has, summed over the layers.

Θ = Θ[0] + Θ[1] + Θ[2] + … + (gains and shifts of norms): Θ[0] of the input layer, Θ[d] of the d-th Dense of every
block, its weights and biases, each of its own deviation, in the order they are met (queries, keys and values of an
`Attention` before its output matrix). A share obeys the recursion of Θ, but gains something at its own Dense alone.
Source: derived here; of attention [2206.03126] has the ratio at rank collapse.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.base.symbols import K, K_ab, distance
from meanfield.networks.folds import attends
from meanfield.networks.records import Block, Dense
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.recursions.block_recursions import kind_of, recursion_of, untrained, variable
from meanfield.symbolic.recursions.coordinate import Coordinate, Gaussian, gaussian
from meanfield.symbolic.recursions.numbered import Numbered, counted
from meanfield.symbolic.recursions.tokens.exchangeable import BETWEEN, FIRST, covariances


@dataclass
class _Shares(Numbered):
    """A walk in which every Dense trains its own weights and biases."""

    def field_of(self, number: int) -> str:
        return f"Theta[{number}]"

    def begins(self, block: Dense, number: int, x: Coordinate, p: int, q: int) -> sp.Expr:
        if block.axis == "tokens" and p != q:
            return sp.S.Zero
        return self.deviation(block.sigma_w) ** 2 * x.moment(p, q) + self.deviation(block.sigma_b) ** 2


def shares(block: Block) -> Recursion:
    """The recursion of (K, Theta[0], Theta[1], …), and with tokens of (K, K_ab, Theta[d], Theta_ab[d]).

    >>> from meanfield.networks.records import Nonlinearity, Sequential
    >>> chain = Sequential((Nonlinearity("relu"), Dense()))
    >>> print(shares(chain).only("Theta[0]", "Theta[1]").doit())
    K' = K*sigma_w**2/2 + sigma_b**2
    Theta[0]' = Theta[0]*sigma_w**2/2
    Theta[1]' = K*sigma_w**2/2 + Theta[1]*sigma_w**2/2 + sigma_b**2
    """
    numbered, count = counted(untrained(block))
    kind, held = kind_of(block), distance if attends(block) else None
    walk, names = _Shares(kind=kind), [f"Theta[{d}]" for d in range(count + 1)]
    own = {name: sp.Symbol(name, nonnegative=True) for name in names}
    if not kind:
        law = walk.ended(numbered, gaussian(Gaussian(1, (K,), {n: (s,) for n, s in own.items()}))).law
        begin = [variable(K, FIRST)]
        begin += [StateVar(n, s, FIRST if n == names[0] else sp.S.Zero) for n, s in own.items()]
        return recursion_of(begin, walk, (law.entry(0, 0), *[law.entry(0, 0, n) for n in names]))
    both = {name: sp.Symbol(name.replace("Theta", "Theta_ab"), real=True) for name in names}
    grams = {n: (own[n], own[n], both[n]) for n in names}
    law = walk.ended(numbered, gaussian(Gaussian(2, (K, K, K_ab), grams, held))).law
    state, values, closer = covariances(law)
    for held, first, at in ((own, FIRST, 0), (both, BETWEEN, 1)):
        state += [StateVar(s.name, s, first if n == names[0] else sp.S.Zero) for n, s in held.items()]
        values += [law.entry(0, at, n) for n in names]
    return recursion_of(state, walk, tuple(values), closer=closer)
