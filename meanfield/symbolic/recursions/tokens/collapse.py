r"""Tokens that have become alike: the recursions of K, of J, and of the small differences that are left.

Where every two tokens are alike, K_ab = K and J_ab = J, an Attention hands on its values, and K and J obey the maps of
one token. A small difference between tokens grows as the tangents do, but an Attention takes it away: the average over
the tokens is the same for all of them, and what differs in it is of the third order. So 1 − c = distance/(2K) falls or
rises with the ratio of two maps of K alone, which is what decides between order and chaos. Source: derived here;
[2103.03404] has the bound without a skip.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.symbols import Q0, J, K, sigma_b, sigma_w
from meanfield.networks.records import Block
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.attention_rule import DIFFERENCE
from meanfield.symbolic.recursions.block_recursions import recursion_of, untrained, variable
from meanfield.symbolic.recursions.coordinate import Gaussian, gaussian
from meanfield.symbolic.recursions.coordinate_walk import Walk
from meanfield.symbolic.steps import Step


def collapsed(block: Block, field: str = "J") -> Recursion:
    """The recursion of (K, J) of tokens that are alike; field: "J", or "difference": J then stands for the growth of
    their distance.

    >>> from meanfield.networks.attention import Attention
    >>> from meanfield.networks.records import Dense, LayerNorm, Residual, Sequential
    >>> block = Residual(Sequential((LayerNorm(), Attention(8), Dense())))
    >>> print(collapsed(block))
    K' = K + sigma_b**2 + sigma_w**2*(sigma_b**2 + sigma_w**2)
    J' = J*(1 + sigma_w**4/K)
    >>> print(collapsed(block, "difference").only("J"))
    J' = J
    """
    walk, law = _ended(block, field)
    growth = law.entry(0, 0, field)
    state = (variable(K, sigma_w**2 * Q0 + sigma_b**2), variable(J, sp.S.One))
    return recursion_of(state, walk, (law.cov[0], sp.oo if growth == sp.oo else growth * J))


def score_variances(block: Block) -> tuple[sp.Expr, ...]:
    """β² of the softmax of every Attention, per half the distance of two tokens that are nearly alike: functions of K.
    """
    walk, _ = _ended(block, DIFFERENCE)
    return Step(tuple(walk.scores), tuple(walk.definitions)).map(walk.plain).flat()


def _ended(block: Block, field: str) -> tuple[Walk, Gaussian]:
    walk = Walk(kind="tokens")
    return walk, walk.ended(untrained(block), gaussian(Gaussian(1, (K,), {field: (sp.S.One,)}))).law
