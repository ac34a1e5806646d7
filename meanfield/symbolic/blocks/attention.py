r"""The rule of `Attention`: any two tokens of one input, whose heads are many and whose keys have many neurons.

With Q, K, V the covariances of queries, keys and values, each (own, between) of a token with itself and with another,
and D = own − between, the scores of a token are, up to a number that softmax does not see, independent Gaussians of
variance β² = Q_own D_K over the tokens it looks at, and of covariance Q_between D_K with those of another token. With
Φ(C) = E Σ_s A_ts A_t′s of two softmax rows of variance β² and covariance C,

    own → V_between + D_V Φ(β²),   between → V_between + D_V Φ(Q_between D_K),

and their difference is D_V D_Q D_K times the mean of ∂Φ/∂C between the two, in which nothing cancels. A tangent moves
values and scores. Γ → Γ^V_between + (Γ^V_own − Γ^V_between) Φ + D_V P ∂Φ/∂C, at each of the two covariances with
P = Γ^Q D_K + Q (Γ^K_own − Γ^K_between): what moves the scores, by Price's theorem. Biases of keys drop out. Source:
derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import sympy as sp

from meanfield.base.results import MeanFieldError
from meanfield.base.symbols import Z, tokens
from meanfield.networks.attention import Attention
from meanfield.symbolic.averages.overlap import overlap, overlap_chord, overlap_slope
from meanfield.symbolic.blocks.coordinate import Coordinate, Exprs, Gaussian, pairs
from meanfield.symbolic.blocks.walk import Walk, rule

DIFFERENCE = "difference"  # the field of differences between tokens that are nearly alike
FEWEST_HEADS = 8  # whose mean is taken for that of infinitely many
_X = sp.symbols("x_a x_b", real=True, cls=sp.Dummy)


@dataclass(frozen=True)
class Mixed(Coordinate):
    """scales[p]·x_p, x the outputs of the heads: of mean 0 with the second moments `law`, and a Gaussian only given
    the softmax of its head."""

    of_one_node: ClassVar[bool] = False
    of_gaussian: ClassVar[bool] = False

    @property
    def is_linear(self) -> bool:
        return False

    def values(self) -> Exprs:
        raise MeanFieldError(
            "What the heads of an Attention make is no Gaussian but a mixture, one for each softmax; a Dense (the "
            "output matrix), Scale, LayerNorm or RMSNorm may follow; put that Dense before anything else."
        )

    def trained(self) -> Exprs:
        """x itself, as a symbol of its position."""
        return tuple(s * x for s, x in zip(self.scales, _X))

    def expect(self, e: sp.Expr, p: int, q: int) -> sp.Expr:
        """⟨e⟩ of a polynomial in the symbols of x, at most quadratic."""
        e = e.xreplace({_X[1]: _X[0]}) if p == q else e
        total = sp.S.Zero
        for powers, c in sp.Poly(sp.expand(e), *_X).terms():
            if sum(powers) != 1:  # x is as likely as -x
                total += c * (self._second(p, q) if sum(powers) else sp.S.One)
        return total

    def _second(self, p: int, q: int) -> sp.Expr:
        return self.law.cov[pairs(self.positions).index((p, q))]

    def mean(self, p: int) -> sp.Expr:
        return sp.S.Zero

    def moment(self, p: int, q: int) -> sp.Expr:
        return self.scales[p] * self.scales[q] * self._second(p, q)

    def pushed(self, name: str, p: int, q: int) -> sp.Expr:
        return self.scales[p] * self.scales[q] * self.law.grams[name][pairs(self.positions).index((p, q))]

    def apart(self) -> sp.Expr:
        assert self.law.apart is not None
        return self.scales[0] ** 2 * self.law.apart


@rule(Attention)
def _attention(block: Attention, x: Coordinate, walk: Walk) -> Coordinate:
    """x → the heads' outputs."""
    x = walk.named(walk.settled(x))
    if x.positions == 1 and walk.kind == "tokens":
        return _alike(walk(block.value, x))
    _refuse(block, walk)
    query, key, value = (walk(one, x).law for one in block.ways())
    if block.qk_norm:
        query, key = _normalized(query), _normalized(key)
    assert query.apart is not None and key.apart is not None and value.apart is not None
    seen, spread = key.apart / 2, value.apart / 2
    beta2, rest = (sp.S.Zero,) * 2 if block.scale == "1/d" else (query.cov[0] * seen, query.apart * seen / 2)
    alike, other = overlap(tokens, beta2, sp.S.Zero), overlap(tokens, beta2, rest)
    own = value.cov[2] + spread * alike
    moved = 2 * spread * rest * overlap_chord(tokens, beta2, rest)

    def gram(name: str, i: int, overlap: sp.Expr, apart: sp.Expr) -> sp.Expr:
        by_query, by_key, by_value = (one.grams[name] for one in (query, key, value))
        if sp.oo in (*by_query, *by_key, *by_value):
            return sp.oo
        moves = by_value[2] + (by_value[0] - by_value[2]) * overlap
        if beta2 == 0:
            return moves
        scores = by_query[i] * seen + query.cov[i] * (by_key[0] - by_key[2])
        return moves + spread * scores * overlap_slope(tokens, beta2, apart)

    grams = {}
    for name in value.grams:
        here = gram(name, 0, alike, sp.S.Zero)
        grams[name] = here, here, gram(name, 2, other, rest)
    law = Gaussian(2, (own, own, value.cov[2] + spread * other), grams, moved)
    one, zero = (sp.S.One,) * 2, (sp.S.Zero,) * 2
    return Mixed(law, Z[:2], one, zero, one)


def _alike(value: Coordinate) -> Coordinate:
    """Of tokens that are all alike: their values, and nothing of what is left of their differences, whose average over
    the tokens is the same for all of them (`DIFFERENCE`; of the scores it takes the third power)."""
    one, zero = (sp.S.One,), (sp.S.Zero,)
    law = value.law.map(lambda name, _, e: sp.S.Zero if name == DIFFERENCE else e)
    return Mixed(law, Z[:1], one, zero, one)


def _normalized(law: Gaussian) -> Gaussian:
    """Divided by the root mean square, whose own change averages out."""
    return law.map(lambda name, pq, e: sp.oo if e == sp.oo else e / law.cov[0])


def _refuse(block: Attention, walk: Walk) -> None:
    why = {
        "a causal mask, behind which no two tokens are alike": block.causal,
        "rotary positions, by which scores depend on how far two tokens are apart": bool(block.rotary),
        f"{block.heads} heads, whose mean is not that of many": block.heads < FEWEST_HEADS,
    }
    for what, holds in why.items():
        if holds:
            raise MeanFieldError(
                f"The averaged theory of attention was asked for with {what}; ask theory.sample(...), which draws the "
                f"heads{'' if block.heads < FEWEST_HEADS else ', or leave it out'}."
            )
    if walk.kind != "tokens":
        raise MeanFieldError(
            "An Attention makes the tokens of an input act on each other; of such a network K, K_ab, J, J_ab, Theta "
            "and Theta_ab of any two tokens of one input are derived, not of two given inputs."
        )
