r"""The rule of `Pool`: a function of n neighbouring neurons, each φ of its own Gaussian.

Neurons are independent, so averages over a group are products of averages over one node where f is a polynomial in the
nodes' values w_i = φ(z_i) (the mean among them), and averages over the largest where f is their maximum
(`nodes.pools`). Two inputs of one norm: with ⟨φ_a^j φ_b^k⟩ = ⟨φ^{j+k}⟩ - ½X_jk, X_jk a combination of
distance ratios, ⟨(f_a - f_b)²⟩ is a polynomial in the X without constant term, so that nothing cancels.

Source: derived here; [bias_and_trainability] App. F, Lemmas F.1, F.2 for n = 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z, distance
from meanfield.functions.piecewise import Pieces, pieces
from meanfield.functions.reading import parser
from meanfield.networks.pooling import variables
from meanfield.networks.records import Pool
from meanfield.symbolic import parity
from meanfield.symbolic.averages.node import Integrand, average
from meanfield.symbolic.averages.nodes import group_functions
from meanfield.symbolic.averages.nodes.equal_norms import distance_ratio
from meanfield.symbolic.averages.nodes.group_functions import group
from meanfield.symbolic.averages.nodes.maxima import maximum_average
from meanfield.symbolic.averages.nodes.pools import MaxDistanceRatio, MaxProduct, kind_of, maximum_mean
from meanfield.symbolic.averages.nodes.unequal_norms import divided_difference, unequal_distance_ratio
from meanfield.symbolic.recursions.coordinate import Coordinate, holds_state, mean_of, per, too_steep
from meanfield.symbolic.recursions.coordinate_walk import TangentUnknown, Walk, rule

Powers = dict[tuple[int, ...], sp.Expr]  # exponents of the nodes' values → coefficient


@dataclass(frozen=True)
class Pooled(Coordinate):
    """A coordinate that is a function of `size` neurons, functions[p] of each: their maximum (`powers` None), a
    polynomial in their values, exponents → coefficient, or another `formula` of them."""

    of_one_node: ClassVar[bool] = False
    size: int = 1
    powers: Powers | None = None
    formula: sp.Expr | None = None

    @property
    def is_linear(self) -> bool:
        return False

    @property
    def kind(self) -> int:
        found = kind_of(self.functions[0])
        assert found is not None
        return found

    @property
    def not_monotone(self) -> bool:
        """Whether it is a maximum of a φ that goes up and down."""
        return self.powers is None and self.formula is None and kind_of(self.functions[0]) is None

    def values(self):
        raise MeanFieldError("A Pool is followed by Scale, LayerNorm or Dense; put a Nonlinearity before the Pool.")

    def trained(self):
        raise TangentUnknown  # a trained LayerNorm behind a Pool: Θ is left out

    @property
    def is_symmetric(self) -> bool:
        """Whether it is the larger of two of an odd φ that neither rises nor falls all along: -φ is as likely as φ, so
        that one input's averages of even functions are φ's own."""
        f = self.functions[0]
        return self.size == 2 and self.not_monotone and parity.of_function(f) == -1

    def _group(self, which: int, p: int, q: int | None = None) -> sp.Expr:
        law = self.law
        if q is None:
            variables: tuple[sp.Expr, ...] = (law.variance(p),)
        else:
            self._same_function(p, q)
            angle = law.norm_angle() if law.norm_difference else sp.S.Zero
            own = {
                group_functions.RATIO: (law.variance(0), law.distance),
                group_functions.DIFFERENCE: law.cov[:2],
                group_functions.UNEQUAL_RATIO: (*law.cov[:2], law.distance, angle),
            }
            variables = own[which] if which in own else law.near(p, q)
        f = self.functions[p].xreplace({Z[p]: Z[0]})
        if self.formula is not None:
            return group(self.formula, f, self.size, which, variables)
        if self.powers is None:
            return maximum_average(f, self.size, which, variables)
        if self.size > len(Z):
            raise MeanFieldError(
                f"The distance of two inputs of unequal norms through a polynomial in powers of {self.size} nodes is "
                "not derived; ask for K_aa, K_bb, K_ab, or for two inputs of one norm."
            )
        formula = sp.Add(*[c * sp.Mul(*[z**k for z, k in zip(Z, e)]) for e, c in self.powers.items()])
        return group(formula, f, self.size, which, variables)

    def mean(self, p: int) -> sp.Expr:
        if self.formula is not None or self.not_monotone:
            return self._group(group_functions.MEAN, p)
        if self.powers is None:
            return maximum_mean(self.pieces(p), self.kind, self.size, self.law.variance(p))
        return sp.Add(*[c * sp.Mul(*[self._moment(p, k) for k in e]) for e, c in self.powers.items()])

    def second(self, p: int) -> sp.Expr:
        """⟨f²⟩, without scale and shift."""
        squared = self.pieces(p).map(lambda e: e**2)
        if self.is_symmetric:
            return mean_of(squared.expr, self.law.variance(p))
        if self.formula is not None or self.not_monotone:
            return self._group(group_functions.SECOND, p)
        if self.powers is None:
            return maximum_mean(squared, self.kind, self.size, self.law.variance(p))
        return self._paired(lambda j, k: self._moment(p, j + k))

    def product(self, p: int, q: int) -> sp.Expr:
        """⟨f_p f_q⟩, without scale and shift."""
        if self.formula is not None or self.not_monotone:
            return self._group(group_functions.PRODUCT, p, q)
        if self.powers is None:
            self._same_function(p, q)
            if (p, q) == (0, 1) and self.law.distance is not None and not self.law.norm_difference:
                # of one norm: the distance is an integral less
                return self.second(p) - self._distance_ratio() / 2
            return MaxProduct(Integrand(self.functions[0]), self.law.near(p, q), self.size, self.kind)
        one, other = (f.xreplace({Z[r]: at}) for f, r, at in zip((self.functions[p], self.functions[q]), (p, q), Z))
        return self._paired(lambda j, k: mean_of(one**j * other**k, self.law.over(p, q)))

    def moment(self, p: int, q: int) -> sp.Expr:
        scale, (m, n) = self.scales[p] * self.scales[q], (self.shifts[p], self.shifts[q])
        raw = self.second(p) if p == q else self.product(p, q)
        if m != 0 or n != 0:
            raw = raw - m * self.mean(q) - n * self.mean(p) + m * n
        return scale * raw

    def direction_part(self) -> sp.Expr:
        """By difference: of a function of several nodes no positive form is derived."""
        return self.distance() - distance * self.norms() ** 2 if self.law.norm_difference else self.distance()

    def norm_difference(self) -> sp.Expr:
        """⟨f_a² - f_b²⟩/√distance."""
        law = self.law
        if not law.norm_difference:
            return law.norm_difference
        self._same_function(0, 1)
        A, B = law.cov[:2]
        if self.is_symmetric:
            grown = divided_difference(self.pieces(0).map(lambda e: e**2).expr, A, B)
        elif self.powers is None:
            grown = self._group(group_functions.DIFFERENCE, 0, 1)
        else:
            grown = self._risen()
        return self.scales[0] ** 2 * law.norm_difference * grown

    def _risen(self) -> sp.Expr:
        """(⟨f²⟩ - ⟨f²⟩)/(K_aa - K_bb) of a polynomial: of products of moments, one factor after the other."""
        assert self.powers is not None
        f, (A, B) = self.functions[0], self.law.cov[:2]
        total = sp.S.Zero
        for e, c in self.powers.items():
            for g, d in self.powers.items():
                sums = [j + k for j, k in zip(e, g)]
                for i, k in enumerate(sums):
                    rest = [self._moment(int(j > i), m) for j, m in enumerate(sums) if j != i]
                    total += c * d * sp.Mul(*rest) * (divided_difference(_power(f, k), A, B) if k else 0)
        return total

    def _moved(self) -> sp.Expr:
        """⟨(f_a - f_b)²⟩ of two norms, of a polynomial in which no node has a power: f_a - f_b is a sum over nodes,
        each with what its φ moves by, those before it at one input and those behind it at the other."""
        assert self.powers is not None and self.law.distance is not None
        law, f = self.law, self.functions[0]
        A, B = law.cov[:2]
        both = unequal_distance_ratio(f, A, B, law.distance, law.norm_angle()) * per(law.distance, distance)
        wide = sp.sqrt(A + B - 2 * law.cov[2]) / sp.sqrt(per(law.distance, distance))  # √distance, as a value
        first, second = (
            law.norm_difference * divided_difference(f, A, B),
            law.norm_difference * divided_difference(_power(f, 2), A, B),
        )  # ⟨φ_a - φ_b⟩, … per √distance
        at_both = self._between(0, 1, 1, 1, False)

        def moving(k: int, at: int | None) -> sp.Expr:  # ⟨(φ_a - φ_b) φ_at⟩; None: times 1
            return first if at is None else (second + (both if at == 0 else -both) * wide) / 2

        def still(one: int | None, other: int | None) -> sp.Expr:
            if one is None or other is None:
                p = one if one is not None else other
                return sp.S.One if p is None else self._moment(p, 1)
            return self._moment(one, 2) if one == other else at_both

        total = sp.S.Zero
        for e, c in self.powers.items():
            for g, d in self.powers.items():
                for k in (i for i in range(self.size) if e[i]):
                    for m in (i for i in range(self.size) if g[i]):
                        term = c * d
                        for i in range(self.size):
                            here = (int(i < k) if e[i] else None), (int(i < m) if g[i] else None)
                            if i == k == m:
                                term *= both
                            elif i in (k, m):
                                term *= moving(i, here[1] if i == k else here[0])
                            else:
                                term *= still(*here)
                        total += term
        return total * distance

    def distance(self) -> sp.Expr:
        assert self.law.distance is not None
        distance = self.law.distance
        if self.law.norm_difference:
            self._same_function(0, 1)
            if self.scales[0] != self.scales[1]:
                raise MeanFieldError(
                    "The distance of two inputs of unequal norms is not available: behind a Pool each of them has a "
                    "scale of its own; ask for K_aa, K_bb and K_ab."
                )
            if self.powers is not None and all(max(e) <= 1 for e in self.powers):
                return self.scales[0] ** 2 * self._moved()
            return self.scales[0] ** 2 * self._group(group_functions.UNEQUAL_RATIO, 0, 1) * distance
        if self.formula is not None or self.not_monotone:
            return self.scales[0] ** 2 * self._group(group_functions.RATIO, 0, 1) * distance
        if self.powers is None:
            self._same_function(0, 1)
            return self.scales[0] ** 2 * self._distance_ratio()
        names: dict[tuple[int, int], sp.Symbol] = {}

        def less(j: int, k: int) -> sp.Expr:  # ⟨φ^j φ^k⟩ with the distance as a symbol
            if j == 0 or k == 0:
                return self._moment(0, j + k)
            x = names.setdefault((min(j, k), max(j, k)), sp.Dummy("X", real=True))
            return self._moment(0, j + k) - x / 2

        lost = sp.expand(2 * (self.second(0) - self._paired(less)))
        lost = sp.expand(lost - lost.subs(dict.fromkeys(names.values(), 0)))  # 0, whatever form the averages have
        small = {x: self._crossed(*jk) for jk, x in names.items()}  # per distance
        plain = {x: 2 * (self._moment(0, sum(jk)) - self._between(0, 1, *jk, False)) for jk, x in names.items()}
        total = sp.S.Zero
        for term in sp.Add.make_args(lost):  # proportional to the distance by one factor, the others as they are
            one = next(x for x in names.values() if term.has(x))
            total += small[one] * (term / one).xreplace(plain)
        return self.scales[0] ** 2 * total * distance

    def _distance_ratio(self) -> sp.Expr:
        """⟨(f_a - f_b)²⟩ of maxima."""
        variance, distance = self.law.variance(0), self.law.distance
        return MaxDistanceRatio(Integrand(self.functions[0]), variance, distance, self.size, self.kind) * distance

    def _crossed(self, j: int, k: int) -> sp.Expr:
        """⟨(φ_a^j - φ_b^j)(φ_a^k - φ_b^k)⟩/distance."""
        f, law = self.functions[0], (self.law.variance(0), self.law.distance)
        if j == k:
            return distance_ratio(_power(f, j), *law)
        both = pieces(_power(f, j) + _power(f, k), Z[0]).expr
        one, other = (distance_ratio(_power(f, e), *law) for e in (j, k))
        return (distance_ratio(both, *law) - one - other) / 2

    def slopes(self, p: int, q: int) -> sp.Expr:
        scale, f = self.scales[p] * self.scales[q], self.pieces(p)
        if p == q and too_steep(f):
            return sp.oo
        if p == q and self.is_symmetric:
            return scale * mean_of(f.diff().map(lambda e: e**2).expr, self.law.variance(p))
        if self.formula is not None or self.not_monotone:
            if f.jumps() if self.formula is None else group_functions.jumps(self.formula, f.expr, self.size):
                if p == q:
                    return sp.oo
                raise MeanFieldError("The tangents of two inputs through a Pool that jumps are not derived.")
            return scale * (
                self._group(group_functions.SLOPE, p) if p == q else self._group(group_functions.SLOPES, p, q)
            )
        if self.powers is None:
            if p == q:
                return scale * maximum_mean(f.diff().map(lambda e: e**2), self.kind, self.size, self.law.variance(p))
            self._same_function(p, q)
            return scale * MaxProduct(Integrand(self.functions[0]), self.law.near(p, q), self.size, self.kind).slope
        if f.jumps():
            raise MeanFieldError("The tangents of two inputs where φ jumps before a Pool are not derived.")
        total = sp.S.Zero
        for i in range(self.size):  # ⟨∂_i f ∂_i f⟩
            for e, c in self.powers.items():
                for g, d in self.powers.items():
                    if e[i] and g[i]:
                        node = self._between(p, q, e[i] - 1, g[i] - 1, True)
                        rest = [self._between(p, q, e[k], g[k], False) for k in range(self.size) if k != i]
                        total += c * d * e[i] * g[i] * node * sp.Mul(*rest)
        return scale * total

    # ------------------------------------------------------------------------------------------------- polynomials

    def _moment(self, p: int, k: int) -> sp.Expr:
        return sp.S.One if k == 0 else mean_of(self.pieces(p).map(lambda e: e**k).expr, self.law.variance(p))

    def _paired(self, of) -> sp.Expr:
        """Σ over two terms of the polynomial of Π of(j, k) over the nodes."""
        assert self.powers is not None
        total = sp.S.Zero
        for e, c in self.powers.items():
            for g, d in self.powers.items():
                total += c * d * sp.Mul(*[of(j, k) for j, k in zip(e, g)])
        return total

    def _between(self, p: int, q: int, j: int, k: int, tangent: bool) -> sp.Expr:
        """⟨φ_p^j φ_q^k⟩, with the slopes φ_p′ φ_q′ in it for a tangent."""
        one, other = (self._at(r, n, tangent) for r, n in ((p, j), (q, k)))
        if p == q:
            broken = one.breaks or other.breaks  # |z|² has none, |z| has
            same = pieces(one.expr * other.expr, Z[0]) if broken else one.map(lambda e: e * other.expr)
            return mean_of(same.expr, self.law.variance(p))
        return average(one.expr * other.expr.xreplace({Z[0]: Z[1]}), self.law.near(p, q))

    def _at(self, p: int, k: int, tangent: bool) -> Pieces:
        f = self.pieces(p)
        power = f.map(lambda e: e**k)
        if not tangent:
            return power
        slope = f.diff()
        return pieces(power.expr * slope.expr, Z[0]) if f.breaks else power.map(lambda e: e * slope.expr)

    def _same_function(self, p: int, q: int) -> None:
        if self.functions[p].xreplace({Z[p]: Z[0]}) != self.functions[q].xreplace({Z[q]: Z[0]}):
            raise MeanFieldError(
                "The maximum over nodes of two inputs whose functions differ (a LayerNorm before φ at unequal norms) "
                "is not derived; ask for two inputs of one norm (distance, c)."
            )


def _power(f: sp.Expr, k: int) -> sp.Expr:
    return pieces(f, Z[0]).map(lambda e: e**k).expr if k > 1 else f


@rule(Pool)
def _pool(block: Pool, x: Coordinate, walk: Walk) -> Coordinate:
    """Groups of `size` neurons to one each."""
    if walk.variance_share is not None:
        raise MeanFieldError("J0 (an input of finite dimension) through a Pool is not derived; ask for J.")
    joint = x.grouped(block.size, _formula(block))
    if joint is not None:
        return joint
    if isinstance(x, Pooled):
        raise MeanFieldError("Two Pools without a Dense between them are not derived; use one Pool of both sizes.")
    if not x.of_gaussian:
        raise MeanFieldError(
            "A Pool behind a BatchNorm of a finite batch, or of a function of z, is not derived: its nodes are not "
            "functions of Gaussians; put a Dense between them."
        )
    if x.by_gains:
        raise TangentUnknown  # of a trained LayerNorm before a Pool: Θ is left out
    x = walk.named(walk.as_gaussian(x))
    if any(map(holds_state, x.scales)) or any(s != 0 for s in x.shifts):
        raise MeanFieldError(
            "A Pool right after a LayerNorm on activations is not derived; put the Pool before the LayerNorm."
        )
    functions = tuple(pieces(s * f, z).expr if s != 1 else f for s, f, z in zip(x.scales, x.functions, Z))
    ones, zeros = (sp.S.One,) * x.positions, (sp.S.Zero,) * x.positions
    powers = _powers(block)
    formula = powers if isinstance(powers, sp.Expr) else None
    if formula is not None:
        return Pooled(x.law, functions, ones, zeros, x.z_ratios, size=block.size, formula=formula)
    assert not isinstance(powers, sp.Expr)
    return Pooled(x.law, functions, ones, zeros, x.z_ratios, size=block.size, powers=powers)


def _formula(block: Pool) -> sp.Expr | None:
    """What a pool makes of few nodes, in Z[0], Z[1], …, of many of the first ones; None for the average."""
    if block.kind == "average":
        return None
    values, powers = Z[: block.size], _powers(block)
    if powers is None:
        return sp.Max(*values)
    if isinstance(powers, sp.Expr):
        return powers
    return sp.Add(*[c * sp.Mul(*[z**k for z, k in zip(values, e)]) for e, c in powers.items()])


def _powers(block: Pool) -> Powers | sp.Expr | None:
    """The polynomial of a pool; None for the maximum; any other formula in Z[0], Z[1], …"""
    names = variables(block.size) if block.kind not in ("max", "average") else ()
    if block.kind == "max":
        return None
    if block.kind == "average":
        unit = sp.Rational(1, block.size)
        return {tuple(int(i == k) for i in range(block.size)): unit for k in range(block.size)}
    f = parser.parse(block.kind, names)
    symbols = [next(s for s in f.free_symbols if s.name == n) for n in names]
    if f == sp.Max(*symbols):
        return None
    if not f.is_polynomial(*symbols):
        return f.xreplace(dict(zip(symbols, Z)))
    return {tuple(map(int, e)): c for e, c in sp.Poly(f, *symbols).terms()}


