r"""The rule of `Attention`: any two tokens of one input, whose heads are many and whose keys have many neurons.

With Q, K, V the covariances of queries, keys and values, each (own, between) of a token with itself and with another,
and D = own − between, the scores of a token are, up to a number that softmax does not see, independent Gaussians of
variance β² = Q_own D_K over the tokens it looks at, and of covariance Q_between D_K with those of another token. With
Φ(C) = E Σ_s A_ts A_t′s of two softmax rows of variance β² and covariance C,

    own → V_between + D_V Φ(β²),   between → V_between + D_V Φ(Q_between D_K),

and their difference is D_V D_Q D_K times the mean of ∂Φ/∂C between the two, in which nothing cancels. A tangent moves
values and scores. Γ → Γ^V_between + (Γ^V_own − Γ^V_between) Φ + D_V P ∂Φ/∂C, at each of the two covariances with
P = Γ^Q D_K + Q (Γ^K_own − Γ^K_between): what moves the scores, by Price's theorem. Biases of keys drop out. Of two
inputs the same holds with D and the Γ's differences of what they share at one position and at two. Source: derived
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z, tokens
from meanfield.networks.attention import Attention
from meanfield.symbolic.averages.nodes.overlap import overlap, overlap_quotient, overlap_slope
from meanfield.symbolic.recursions.coordinate import Coordinate, Exprs, Gaussian, pairs, tidy
from meanfield.symbolic.recursions.coordinate_walk import Walk, rule

DIFFERENCE = "difference"  # the field of differences between tokens that are nearly alike
FEWEST_HEADS = 8  # whose mean is taken for that of infinitely many
_X = sp.symbols("x_a x_b x_c", real=True, cls=sp.Dummy)


@dataclass(frozen=True)
class AttentionCoordinate(Coordinate):
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
        e = e.xreplace({_X[q]: _X[p]}) if p == q else e
        total = sp.S.Zero
        for powers, c in sp.Poly(sp.expand(e), *_X).terms():
            if sum(powers) != 1:  # x is as likely as -x
                total += c * (self.law.entry(p, q) if sum(powers) else sp.S.One)
        return total

    def mean(self, p: int) -> sp.Expr:
        return sp.S.Zero

    def moment(self, p: int, q: int) -> sp.Expr:
        return self.scales[p] * self.scales[q] * self.law.entry(p, q)

    def gram(self, name: str, p: int, q: int) -> sp.Expr:
        return self.scales[p] * self.scales[q] * self.law.entry(p, q, name)

    def distance(self) -> sp.Expr:
        assert self.law.distance is not None
        return self.scales[0] ** 2 * self.law.distance


@rule(Attention)
def _attention(block: Attention, x: Coordinate, walk: Walk) -> Coordinate:
    """x → the heads' outputs."""
    x = walk.named(walk.as_gaussian(x))
    if x.positions == 1 and walk.kind == "tokens":
        query, key = (walk(one, x).law for one in (block.query, block.key))
        if block.scale != "1/d":  # per distance/2 of the signal at the block's start
            size = query.cov[0] * key.grams.get(DIFFERENCE, (sp.S.Zero,))[0]
            walk.scores.append(size / (query.cov[0] * key.cov[0]) if block.qk_norm else size)
        return _alike(walk(block.value, x))
    _refuse(block, walk)
    query, key, value = (walk(one, x).law for one in block.ways())
    if block.qk_norm:
        query, key = _normalized(query), _normalized(key)
    made = _Softmax(query, key, value, block.scale == "1/d")
    walk.scores.append(made.beta2)
    index = pairs(x.positions)
    assert value.distance is not None
    cov = tuple(made.moment(p, q) for p, q in index)
    grams = {name: tuple(made.gram(name, p, q) for p, q in index) for name in value.grams}
    moved = made.beta2 and value.distance * made.rest * overlap_quotient(tokens, made.beta2, made.rest)
    one, zero = (sp.S.One,) * x.positions, (sp.S.Zero,) * x.positions
    return AttentionCoordinate(Gaussian(x.positions, cov, grams, moved), Z[: x.positions], one, zero, one)


@dataclass(frozen=True)
class _Softmax:
    """Moments of the heads' outputs, between positions 0 and 1 (two tokens of one input) and 2 (the token of position 0
    in another input)."""

    query: Gaussian
    key: Gaussian
    value: Gaussian
    uniform: bool

    @property
    def beta2(self) -> sp.Expr:
        """The variance of a score, but for what all scores of a token share."""
        return sp.S.Zero if self.uniform else self.query.cov[0] * self._apart(self.key, 0, 0)

    @property
    def rest(self) -> sp.Expr:
        """What it is above the covariance with another token's."""
        assert self.query.distance is not None
        return sp.S.Zero if self.uniform else self.query.distance * self._apart(self.key, 0, 0) / 2

    @staticmethod
    def _apart(law: Gaussian, p: int, q: int, name: str = "") -> sp.Expr:
        """What two inputs (or one) have in common at one position above what they have at two."""
        if not (name or _crosses(p, q)):
            assert law.distance is not None
            return law.distance / 2
        same = (0, 2) if _crosses(p, q) else (0, 0)
        return law.entry(*same, name) - _Softmax._other(law, p, q, name)

    @staticmethod
    def _other(law: Gaussian, p: int, q: int, name: str = "") -> sp.Expr:
        """What they have in common at two positions."""
        return law.entry(1, 2, name) if _crosses(p, q) else law.entry(0, 1, name)

    def _below(self, p: int, q: int) -> sp.Expr:
        """β² less the covariance of the scores of p and q."""
        if p == q:
            return sp.S.Zero
        if not _crosses(p, q) or self.uniform:
            return self.rest
        return self.beta2 - self.query.entry(p, q) * self._apart(self.key, p, q)

    def moment(self, p: int, q: int) -> sp.Expr:
        met = overlap(tokens, self.beta2, self._below(p, q))
        return self._other(self.value, p, q) + self._apart(self.value, p, q) * met

    def gram(self, name: str, p: int, q: int) -> sp.Expr:
        if any(sp.oo in law.grams[name] for law in (self.query, self.key, self.value)):
            return sp.oo
        met = overlap(tokens, self.beta2, self._below(p, q))
        moves = self._other(self.value, p, q, name) + self._apart(self.value, p, q, name) * met
        if self.beta2 == 0:
            return moves
        by_query = self.query.entry(p, q, name) * self._apart(self.key, p, q)
        by_key = self.query.entry(p, q) * self._apart(self.key, p, q, name)
        steep = overlap_slope(tokens, self.beta2, self._below(p, q))
        return moves + self._apart(self.value, p, q) * (by_query + by_key) * steep


def _crosses(p: int, q: int) -> bool:
    """Whether two positions are of two inputs."""
    return p != q and 2 in (p, q)


def _alike(value: Coordinate) -> Coordinate:
    """Of tokens that are all alike: their values, and nothing of what is left of their differences, whose average over
    the tokens is the same for all of them (`DIFFERENCE`; of the scores it takes the third power)."""
    one, zero = (sp.S.One,), (sp.S.Zero,)
    law = value.law.map(lambda name, _, e: sp.S.Zero if name == DIFFERENCE else e)
    return AttentionCoordinate(law, Z[:1], one, zero, one)


def _normalized(law: Gaussian) -> Gaussian:
    """Divided by the root mean square, whose own change averages out."""
    return law.map(lambda name, pq, e: sp.oo if e == sp.oo else tidy(e / law.cov[0]))


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
