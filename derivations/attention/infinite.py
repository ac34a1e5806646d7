"""C23 to C25: recursions at T → ∞ ([2505.24333], as its code has them) beside the engine's at any T.

The code has one number of the softmax, Y = Φ(1), in the limit max(0, 1 - β_c/β), and Φ(ρ) = 0. Its maps of (q, p) are
the engine's with these two put in, which is what is asked here; how far Y is from its limit at finite T, `softmax`.
"""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.attention.moments import Moment
from derivations.attention.networks import DENSE, Built
from derivations.claims import Claim
from derivations.comparisons import Formula
from meanfield.base.symbols import K, K_ab, distance, parameter
from meanfield.networks import Attention
from meanfield.symbolic.averages.nodes.overlap import Overlap

_Y, _P = sp.symbols("y x", positive=True)
Y, P = _Y / (1 + _Y), _P / (1 + _P)  # any numbers between 0 and 1
BETA = parameter("sigma_q")
SIZES = {"v": sp.Rational(1, 2), "w": sp.Rational(3, 4), "b": sp.Rational(1, 5)}
_QUERY = mf.Dense(sigma_w="sigma_q", sigma_b=0)


def dense(name: str) -> mf.Dense:
    """A matrix with biases b."""
    return mf.Dense(sigma_w=SIZES[name], sigma_b=SIZES["b"])


def encoder(alpha: object) -> Built:
    """Post-LN; α multiplies the skip. W_O and its bias stand behind the heads, values have no bias."""
    heads = mf.Sequential((Attention(8, query=_QUERY, key=DENSE, value=DENSE), dense("v")))
    layer = mf.Sequential((dense("w"), mf.Nonlinearity("relu"), dense("w")))
    blocks = (mf.Residual(heads, alpha), mf.LayerNorm(), mf.Residual(layer, alpha), mf.LayerNorm())
    return Built(f"post-LN, α = {alpha}", (), mf.Network(mf.Sequential(blocks), DENSE))


POST = encoder(1)
HALF = encoder(sp.Rational(1, 2))
PRE = Built("pre-LN, attention", (), mf.Network(
    mf.Residual(mf.Sequential((mf.LayerNorm(), Attention(8, query=_QUERY, key=DENSE, value=DENSE), DENSE))), DENSE,
))  # fmt: skip


def nodes(e: sp.Expr) -> set[Overlap]:
    return e.atoms(Overlap)


def in_limit(theory: mf.Theory) -> sp.Expr:
    """The engine's next ρ from K = 1, K_ab = p, with Y for Φ of one row and 0 for Φ of two."""
    found = theory.recursion("K", "K_ab").flat()["K_ab"]
    found = found.replace(lambda x: isinstance(x, Overlap), lambda x: Y if x.distance == 0 else sp.S.Zero)
    return sp.simplify(mf.symbolic.closed(found).subs({distance: 2 * (1 - P), K_ab: P, K: 1}))


def printed(a_skip: object, a_branch: object) -> sp.Expr:
    """p of C24; a_skip, a_branch: what multiplies the skip and the branch."""
    skip, on = sp.sympify(a_skip) ** 2, sp.sympify(a_branch) ** 2
    V, W, b2 = (SIZES[name] ** 2 for name in "vwb")
    q_att = P + (1 - P) * Y
    p0 = (on * (V * P + b2) + skip * P) / (on * (V * q_att + b2) + skip)
    q1, p1 = W + b2, W * p0 + b2
    x = p1 / q1
    kink = (sp.sqrt(1 - x**2) + x * (sp.pi - sp.acos(x))) / sp.pi
    q2, p2 = W * q1 / 2 + b2, W * q1 / 2 * kink + b2
    return (on * p2 + skip * p0) / (on * q2 + skip)


def seen_by_softmax(theory: mf.Theory) -> sp.Expr:
    """The variance of a score that its softmax sees, by (K, K_ab) before the norm."""
    found = theory.recursion("K", "K_ab").flat()["K"]
    (variance,) = {node.variance for node in nodes(found)}
    return sp.expand(variance.subs(distance, 2 * (K - K_ab)))


CLAIMS: tuple[Claim, ...] = (
    Formula("C25, β_c from un-normalized q, p", PRE, "score variance", BETA**2 * K * (K - K_ab),
            sp.expand(BETA**2 * (1 - K_ab / K)), misprint=True, by=seen_by_softmax),
)  # fmt: skip
SLOW: tuple[Claim, ...] = (
    Moment("C24, one block, α = 1", POST, "p", printed(1, 1), printed(1, 1) + P * Y / 1000, by=in_limit),
    Moment("C24, α multiplies the skip", HALF, "p", printed(sp.Rational(1, 2), 1), printed(1, sp.Rational(1, 2)),
           by=in_limit),
)  # fmt: skip
