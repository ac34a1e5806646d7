r"""The recursion of networks whose positions act on each other: any two inputs of a batch (BatchNorm), or any two
tokens of one input (Dense on the tokens, Attention).

State: K, K_ab, J, J_ab and, where they close, Theta, Theta_ab; behind an Attention their distance 2K - 2K_ab, too,
which falls to 0 there, and entropy[i], that of the i-th softmax over log T. J = J^{1,l} and J_ab sum over what is
perturbed at every position of layer 1, so that J starts at 1 and J_ab at 0. Maps of J and J_ab are linear in both;
compiled runs carry J as a logarithm and c_J = J_ab/J beside it, none where J_ab stays 0.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Q0, J, J_ab, K, K_ab, Theta, Theta_ab, c_J, distance, sigma_b, sigma_w, tokens
from meanfield.networks.folds import attends
from meanfield.networks.records import Block
from meanfield.symbolic.averages.nodes.overlap import softmax_entropy
from meanfield.symbolic.recursion import Recursion, StateVar, c0
from meanfield.symbolic.recursions.block_recursions import SMALLEST, kind_of, recursion_of, untrained, variable
from meanfield.symbolic.recursions.coordinate import Gaussian, gaussian
from meanfield.symbolic.recursions.coordinate_walk import TangentUnknown, Walk

Closer = tuple[tuple[sp.Symbol, sp.Expr, sp.Basic], ...]
FIRST, BETWEEN = sigma_w**2 * Q0 + sigma_b**2, sigma_w**2 * Q0 * c0 + sigma_b**2  # K and K_ab of layer 1


def exchangeable(block: Block, size: int | None = None) -> Recursion:
    """The recursion of (K, K_ab, J, J_ab, Theta, Theta_ab) for any two positions of a batch of `size` (None: infinite),
    or of the tokens of one input.

    Of tokens K and K_ab are means over the matrices that mix them: exact where φ is of degree 1 or every Dense comes
    before one, else an approximation (such a K does not average itself out).

    >>> from meanfield.networks.records import Nonlinearity
    >>> chain = Sequential((BatchNorm(), Nonlinearity("relu"), Dense()))
    >>> print(exchangeable(chain).doit()["J"])
    sigma_w**2*(J - J_ab)/(2*(K - K_ab))
    """
    found = _derived(block, size, c_J, lambda own, between: (_linear(own), _linear(between)), ((J_ab, sp.S.Zero),))
    return found.map(lambda e: e.xreplace({c_J: J_ab / J}))  # what intermediates hold of it


def carried(block: Block, size: int | None = None) -> Recursion:
    """The same with c_J = J_ab/J in the place of J_ab, which a logarithm of J leaves finite; without it where J_ab
    stays 0."""

    def distance(own: sp.Expr, between: sp.Expr) -> tuple[sp.Expr, ...]:
        return own * J, between

    plain = _derived(block, size, sp.S.Zero, distance, ((J_ab, sp.S.Zero),))
    if plain["J"] == sp.oo or plain.flat()["J_ab"] == 0:
        return plain
    return _derived(block, size, c_J, lambda own, between: (own * J, between / own), ((c_J, sp.S.Zero),))


def _derived(block: Block, size: int | None, correlation: sp.Expr, values_of, other) -> Recursion:
    kind = kind_of(block)
    if kind == "batch" and size is not None and size < SMALLEST:
        raise MeanFieldError(
            f"A BatchNorm over a batch of {size} is not available: its gradients have a mean from |B| = {SMALLEST} on "
            "only, as that of 1/variance is (|B| - 1)/(|B| - 3)."
        )
    grams = {"J": (sp.S.One, sp.S.One, correlation), "Theta": (Theta, Theta, Theta_ab)}
    held = distance if attends(block) else None
    walk, law = trained_end(block, Gaussian(2, (K, K, K_ab), grams, held), kind, size)
    state, values, closer = covariances(law)
    state += [variable(s, e) for s, e in ((J, sp.S.One), *other)]
    own, between = law.entry(0, 0, "J"), law.entry(0, 1, "J")
    values += (sp.oo, sp.S.Zero) if own == sp.oo else values_of(own, between)
    for i, beta2 in enumerate(walk.scores):
        name = f"entropy[{i + 1}]"
        state.append(StateVar(name, sp.Symbol(name, nonnegative=True), sp.S.One))
        values.append(softmax_entropy(tokens, beta2) / sp.log(tokens))
    if "Theta" in law.grams:
        state += [variable(Theta, FIRST), variable(Theta_ab, BETWEEN)]
        own, between = law.entry(0, 0, "Theta"), law.entry(0, 1, "Theta")
        values += [own, sp.S.Zero if own == sp.oo else between]
    return recursion_of(state, walk, tuple(values), closer=closer)


def trained_end(block: Block, start: Gaussian, kind: str, size: int | None = None) -> tuple[Walk, Gaussian]:
    """A walk through the block, and the law at its end: with the field "Theta" where the tangent kernel closes, without
    it where it does not."""
    walk = Walk(trained_field="Theta", kind=kind, size=size)
    try:
        end = walk.ended(block, gaussian(start))
        if end.by_gains:
            raise TangentUnknown
        return walk, end.law
    except TangentUnknown:
        walk = Walk(kind=kind, size=size)
        fixed = replace(start, grams={n: g for n, g in start.grams.items() if n != "Theta"})
        return walk, walk.ended(untrained(block), gaussian(fixed)).law


def covariances(law: Gaussian) -> tuple[list[StateVar], list[sp.Expr], Closer]:
    """K, K_ab and, where it is carried, the distance of two positions: the variables, their next values, and by which
    of the two the other is known."""
    state = [variable(K, FIRST), variable(K_ab, BETWEEN)]
    values = [law.entry(0, 0), law.entry(0, 1)]
    if law.distance is None:
        return state, values, ()
    state.append(variable(distance, 2 * (FIRST - BETWEEN)))
    return state, [*values, law.distance], ((K_ab, K - distance / 2, distance < K),)


def _linear(e: sp.Expr) -> sp.Expr:
    """A Gram entry of tangents that start as (1, c_J), of those that start as (J, J_ab)."""
    first = e.subs(c_J, 0)
    second = sp.diff(e, c_J)
    if sp.expand(first + second) == 0:
        return first * (J - J_ab)
    return first * J + second * J_ab
