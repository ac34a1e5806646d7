r"""Two inputs of several tokens each: what tokens of one have in common with tokens of the other.

State: K, K_ab and distance of two tokens of one input, as in `exchangeable`; K_same and K_other, the covariances of a
token with the one at its own position in the other input, and with one at another position; and the tangent kernel
likewise, where it closes. All tokens of both inputs have one norm. At layer 1 the cosines are c0 (of two tokens of one
input), c_same and c_other. Source: derived here.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Q0, K, K_ab, Theta, Theta_ab, distance, sigma_b, sigma_w
from meanfield.networks.folds import attends
from meanfield.networks.records import Block
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.recursions.block_recursions import recursion_of, variable
from meanfield.symbolic.recursions.coordinate import Gaussian
from meanfield.symbolic.recursions.tokens.exchangeable import BETWEEN, FIRST, covariances, trained_end

K_same, K_other = sp.symbols("K_same K_other", real=True)
Theta_same, Theta_other = sp.symbols("Theta_same Theta_other", real=True)
c_same, c_other = sp.symbols("c_same c_other", real=True)


def across(block: Block) -> Recursion:
    """The recursion of (K, K_ab, distance, K_same, K_other, Theta, …) for two inputs whose tokens an Attention mixes.

    Raises: MeanFieldError for a block without an Attention.
    """
    if not attends(block):
        raise MeanFieldError(
            "Covariances between the tokens of two inputs are derived where an Attention mixes them; this block has "
            "none."
        )

    def first(cosine: sp.Expr) -> sp.Expr:
        return sigma_w**2 * Q0 * cosine + sigma_b**2

    starts = first(c_same), first(c_other)
    cov = (K, K, K, K_ab, K_same, K_other)
    theta = (Theta, Theta, Theta, Theta_ab, Theta_same, Theta_other)
    walk, law = trained_end(block, Gaussian(3, cov, {"Theta": theta}, distance), "tokens")
    state, values, closer = covariances(law)
    state += [StateVar(s.name, s, e) for s, e in zip((K_same, K_other), starts)]
    values += [law.entry(0, 2), law.entry(1, 2)]
    if "Theta" in law.grams:
        state += [variable(Theta, FIRST), variable(Theta_ab, BETWEEN)]
        state += [StateVar(s.name, s, e) for s, e in zip((Theta_same, Theta_other), starts)]
        values += [law.entry(*pq, "Theta") for pq in ((0, 0), (0, 1), (0, 2), (1, 2))]
    return recursion_of(state, walk, tuple(values), closer=closer)
