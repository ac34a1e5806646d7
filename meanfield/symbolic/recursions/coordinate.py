r"""What flows between blocks: the coordinate of one neuron at each position, a function of a Gaussian.

A position is an input (one, or the two of a pair); z is Gaussian over positions, neurons are independent, and the
coordinate at position p is x_p = scale_p·(f_p(z_p) − shift_p). Scales and shifts depend on the state of z alone, so
that f stays a function of z wherever it can.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from typing import Any, ClassVar

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import D0, J0, J, K, K_aa, K_ab, K_bb, Theta, Z, distance, norm_angle
from meanfield.functions.derivatives import expanded
from meanfield.functions.piecewise import Pieces, pieces
from meanfield.functions.series.taylor import fractional
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.averages.nodes.equal_norms import distance_ratio
from meanfield.symbolic.averages.nodes.unequal_norms import direction_ratio, divided_difference, unequal_distance_ratio

Exprs = tuple[sp.Expr, ...]
_STATE = frozenset((K, K_aa, K_bb, K_ab, distance, norm_angle, J, Theta, J0, D0))


def pairs(positions: int) -> tuple[tuple[int, int], ...]:
    """The entries of a symmetric matrix over positions: the diagonal first."""
    own = tuple((p, p) for p in range(positions))
    return own + tuple((p, q) for p in range(positions) for q in range(p + 1, positions))


@dataclass(frozen=True)
class Gaussian:
    """The law of z over positions, and the Gram matrices of its tangents, entries in the order of `pairs`.

    cov: ⟨z_p z_q⟩; grams: field → Σ_j ⟨∂_j z_p ∂_j z_q⟩, the sum over what the field differentiates by; distance: of
    two positions, ⟨(z_a - z_b)²⟩ as a multiple of its value at the block's start, where that is state; norm_difference:
    ⟨z_a² - z_b²⟩/√distance, None or 0 where both have one variance; direction_part: of the distance,
    2(sd(z_a) sd(z_b) - ⟨z_a z_b⟩), which goes with `norm_difference` and is made of positive terms as it is.
    skip_factors: for the z that entered each Residual around this one, the factors by which it is still in this z,
    beside what is independent of it; None where something of it is, but no multiple.
    """

    positions: int
    cov: Exprs
    grams: dict[str, Exprs] = field(default_factory=dict)
    distance: sp.Expr | None = None
    norm_difference: sp.Expr | None = None
    direction_part: sp.Expr | None = None
    skip_factors: dict[object, Exprs | None] = field(default_factory=dict, compare=False)

    def variance(self, p: int) -> sp.Expr:
        return self.cov[p]

    def entry(self, p: int, q: int, name: str = "") -> sp.Expr:
        """The covariance of z_p and z_q, or the Gram entry of a field's tangents at these positions."""
        return (self.grams[name] if name else self.cov)[pairs(self.positions).index((p, q))]

    def over(self, p: int, q: int) -> sp.Expr | Exprs:
        """The covariance of an average over z_p, or over (z_p, z_q)."""
        if p == q:
            return self.cov[p]
        return self.cov[p], self.entry(p, q), self.cov[q]

    def near(self, p: int, q: int) -> Exprs:
        """The same for two positions, their covariance by way of how far they are apart, where that is carried."""
        if self.distance is None or (p, q) != (0, 1):
            return self.over(p, q)
        if not self.norm_difference:
            return self.cov[p], self.cov[p] - self.distance / 2, self.cov[q]
        assert self.direction_part is not None
        a, b = self.cov[p], self.cov[q]
        return a, sp.sqrt(a) * sp.sqrt(b) - self.direction_part / 2, b

    def norm_angle(self) -> sp.Expr:
        """The angle whose sine is (sd(z_a) - sd(z_b))/√⟨(z_a - z_b)²⟩, by the two shares of the distance: near ±π/2 its
        sine does not tell it."""
        assert self.norm_difference is not None and self.direction_part is not None
        norms = self.norm_difference / (sp.sqrt(self.cov[0]) + sp.sqrt(self.cov[1]))
        if norms == sp.sin(norm_angle) and self.direction_part == distance * sp.cos(norm_angle) ** 2:
            return norm_angle
        return sp.atan2(norms, sp.sqrt(per(self.direction_part, distance)))

    def map(self, function) -> Gaussian:
        """`function(field or "K", entry, expression)` applied to every entry ("distance", "norm_difference"
        and "direction_part" at the entry of both)."""

        def each(name: str, entries: Exprs) -> Exprs:
            return tuple(function(name, pq, e) for pq, e in zip(pairs(self.positions), entries))

        names = ("distance", "norm_difference", "direction_part")
        both: Any = {n: function(n, (0, 1), e) for n in names if (e := getattr(self, n)) is not None}
        grams = {n: each(n, g) for n, g in self.grams.items()}
        return Gaussian(self.positions, each("K", self.cov), grams, **both)


def _once(method):
    """A method of (p, q) that is computed once per coordinate: every field asks for the same averages."""

    @wraps(method)
    def found(self, p, q):
        key = method.__name__, p, q
        if key not in self._known:
            self._known[key] = method(self, p, q)
        return self._known[key]

    return found


@dataclass(frozen=True)
class Coordinate:
    """x_p = scales[p]·(functions[p] − shifts[p]), functions[p] in Z[p].

    z_ratios: (present z)/(the z that entered the branch), by which a skip is written in the present z; by_gains:
    derivatives of x_p by trained gains and shifts since the last Dense, each over the positions, functions of z.
    """

    law: Gaussian
    functions: Exprs
    scales: Exprs
    shifts: Exprs
    z_ratios: Exprs
    by_gains: tuple[Exprs, ...] = ()
    of_one_node: ClassVar[bool] = True  # a function of one Gaussian, which a Pool's is not
    of_gaussian: ClassVar[bool] = True  # z is Gaussian, which an entry of a normalized batch is not
    _known: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def positions(self) -> int:
        return self.law.positions

    @property
    def is_linear(self) -> bool:
        return self.functions == Z[: self.positions] and all(s == 0 for s in self.shifts)

    def values(self) -> Exprs:
        """x_p at every position."""
        return tuple(s * (f - m) for s, f, m in zip(self.scales, self.functions, self.shifts))

    def trained(self) -> Exprs:
        """The derivatives of γx + β by γ, at every position: x itself."""
        return self.values()

    def mean(self, p: int) -> sp.Expr:
        """⟨f_p⟩, without scale and shift."""
        return mean_of(self.pieces(p).expr, self.law.variance(p))

    @_once
    def moment(self, p: int, q: int) -> sp.Expr:
        """⟨x_p x_q⟩."""
        scale, (m, n) = self.scales[p] * self.scales[q], (self.shifts[p], self.shifts[q])
        if self.is_linear:
            return scale * self.law.entry(p, q)
        if p == q:
            second = mean_of(self.pieces(p).map(lambda e: e**2).expr, self.law.variance(p))
            raw = second if m == 0 else second - 2 * m * self.mean(p) + m**2
            return tidy(scale * raw)
        raw = mean_of(as_pair(self.functions[p] * self.functions[q], p, q), self.law.over(p, q))
        if m != 0 or n != 0:
            raw = raw - m * self.mean(q) - n * self.mean(p) + m * n
        return scale * tidy(raw)

    def distance(self) -> sp.Expr:
        """⟨(x_a - x_b)²⟩ of two positions."""
        law = self.law
        assert law.distance is not None
        if not law.norm_difference:  # one variance
            if self.is_linear and self.scales[0] == self.scales[1]:
                return self.scales[0] ** 2 * law.distance
            return self.scales[0] ** 2 * distance_ratio(self._shared(), law.variance(0), law.distance) * law.distance
        a, b = self.scales
        if self.is_linear and a != b:
            self._require_one_norm()
            assert law.direction_part is not None
            return a * b * law.direction_part
        A, B, _ = law.cov
        return a**2 * law.distance * unequal_distance_ratio(self._shared(), A, B, law.distance, law.norm_angle())

    def norm_difference(self) -> sp.Expr:
        """⟨x_a² - x_b²⟩/√distance."""
        law, (a, b) = self.law, self.scales[:2]
        if not law.norm_difference:
            self._shared()
            return law.norm_difference
        if self.is_linear and a != b:
            self._require_one_norm()
            return sp.S.Zero
        square = pieces(self._shared(), Z[0]).map(lambda e: e**2).expr
        return a**2 * law.norm_difference * divided_difference(square, *law.cov[:2])

    def direction_part(self) -> sp.Expr:
        """2(sd(x_a) sd(x_b) - ⟨x_a x_b⟩), sd the root of the second moment."""
        law, (a, b) = self.law, self.scales
        assert law.distance is not None and law.direction_part is not None
        if not law.norm_difference:
            return self.distance()
        if self.is_linear:
            return a * b * law.direction_part
        A, B, _ = law.cov
        return a**2 * law.distance * direction_ratio(self._shared(), A, B, law.distance, law.norm_angle())

    def norms(self) -> sp.Expr:
        """(sd(x_a) - sd(x_b))/√distance."""
        return self.norm_difference() / (sp.sqrt(self.moment(0, 0)) + sp.sqrt(self.moment(1, 1)))

    def _shared(self) -> sp.Expr:
        """f, where both positions have the same function, up to a constant factor that they have, too."""
        f, (a, b) = self.functions[0], self.scales[:2]
        if self.functions[1].xreplace({Z[1]: Z[0]}) != f or a != b or self.shifts[0] != self.shifts[1]:
            raise MeanFieldError(
                "The distance of two inputs of unequal norms is not available: behind a LayerNorm on activations each "
                "of them has a function of its own, whose difference is not derived; ask for K_aa, K_bb and K_ab."
            )
        return f

    def _require_one_norm(self) -> None:
        if tidy(self.moment(0, 0) - self.moment(1, 1)) != 0:
            raise MeanFieldError(
                "The distance of two inputs of unequal norms is not available: behind a LayerNorm it is derived where "
                "both have one norm there, and here they have not; ask for K_aa, K_bb and K_ab."
            )

    @_once
    def slopes(self, p: int, q: int) -> sp.Expr:
        """⟨∂x_p/∂z_p ∂x_q/∂z_q⟩ in the weak sense; ∞ for p = q where f jumps or rises like √|z|."""
        scale, f = self.scales[p] * self.scales[q], self.pieces(p)
        if self.is_linear:
            return scale
        if p == q:
            if too_steep(f):
                return sp.oo
            return scale * mean_of(f.diff().map(lambda e: e**2).expr, self.law.variance(p))
        over = self.law.near(p, q)
        if f.jumps():
            return scale * _weak_slopes(mean_of(as_pair(self.functions[p] * self.functions[q], p, q), over))
        one, other = (self.pieces(r).diff().expr.xreplace({Z[0]: z}) for r, z in ((p, Z[0]), (q, Z[1])))
        return scale * mean_of(one * other, over)

    def expect(self, e: sp.Expr, p: int, q: int) -> sp.Expr:
        """⟨e⟩ of an expression in z_p and z_q."""
        if p == q:
            return mean_of(e.xreplace({Z[p]: Z[0]}), self.law.variance(p), by_terms=True)
        return mean_of(as_pair(e, p, q), self.law.over(p, q), by_terms=True)

    def gram(self, name: str, p: int, q: int) -> sp.Expr:
        """The Gram entry of the field `name` behind this coordinate, ∞ where a slope is."""
        here = self.law.entry(p, q, name)
        if here == 0:  # of tangents that ended in weights of 0: nothing is left of them, however steep f is
            return sp.S.Zero
        slopes = self.slopes(p, q)
        return sp.oo if sp.oo in (slopes, here) else slopes * here

    def drawn_along(self, slope) -> sp.Expr:
        """Per S, what tangents that change K add to the Gram of x; `slope`: d/dK of an expression. Of functions of
        several Gaussians, which know it themselves; the walk derives that of one."""
        raise MeanFieldError(
            "J0 (an input of finite dimension) through a function of several Gaussians is not derived; ask for J."
        )

    def behind(self, outer: sp.Expr) -> Coordinate | None:
        """outer(x), written in Z[0], of a function of several Gaussians; None for one of one, which rules compose."""
        return None

    def grouped(self, size: int, formula: sp.Expr | None) -> Coordinate | None:
        """formula(x, x′, …), written in Z[0], Z[1], …, or the average (None) of `size` neurons, each a function of
        several Gaussians; None as for `behind`."""
        return None

    def with_values(self, functions: Exprs, **more) -> Coordinate:
        """The coordinate x_p = functions[p]."""
        n = self.positions
        return replace(self, functions=functions, scales=(sp.S.One,) * n, shifts=(sp.S.Zero,) * n, **more)

    def rescaled(self, factors: Exprs) -> Coordinate:
        """factors[p]·x_p, with factors that may depend on the state."""
        scales = tuple(c * s for c, s in zip(factors, self.scales))
        by_gains = tuple(tuple(c * a for c, a in zip(factors, one)) for one in self.by_gains)
        return replace(self, scales=scales, by_gains=by_gains)

    def pieces(self, p: int) -> Pieces:
        return pieces(self.functions[p].xreplace({Z[p]: Z[0]}), Z[0])


def as_pair(e: sp.Expr, p: int, q: int) -> sp.Expr:
    """An expression in z_p and z_q, two positions, in Z[0] and Z[1]."""
    return e.xreplace({Z[p]: Z[0], Z[q]: Z[1]}) if (p, q) != (0, 1) else e


def per(e: sp.Expr, symbol: sp.Symbol) -> sp.Expr:
    """e/symbol of an expression that is proportional to it, term by term."""
    return sp.Add(*[t / symbol for t in sp.Add.make_args(sp.expand(e, deep=False))])


def gaussian(law: Gaussian, by_gains: tuple[Exprs, ...] = ()) -> Coordinate:
    """x_p = z_p."""
    n = law.positions
    one, zero = (sp.S.One,) * n, (sp.S.Zero,) * n
    return Coordinate(law, Z[:n], one, zero, one, by_gains)


def _weak_slopes(moment: sp.Expr) -> sp.Expr:
    """∂⟨f_a f_b⟩/∂K_ab: what ⟨f_a′ f_b′⟩ means where f jumps."""
    coefficient, node = moment.as_independent(Average)
    if not isinstance(node, Average):
        raise MeanFieldError(f"The tangents of two inputs where φ jumps need one average, but {moment} has more.")
    return coefficient * node.derivative_cov(0, 1)


def holds_state(e: sp.Expr) -> bool:
    """Whether an integrand depends on the layer: by a state variable or an intermediate."""
    return any(s in _STATE or "[" in s.name for s in e.free_symbols)


@lru_cache(maxsize=1024)
def mean_of(f: sp.Expr, cov, by_terms: bool = False) -> sp.Expr:
    """⟨f⟩ over N(0, cov), what depends on the layer kept out of the nodes where it can be; a polynomial's as one.

    by_terms: a sum term by term, whatever it depends on.
    """
    found = average_of(f, cov) if by_terms or holds_state(f) else average(f, cov)
    known = {a: a.doit() for a in found.atoms(Average) if a not in f.atoms(Average) and a.integrand.is_polynomial(*Z)}
    return found.xreplace(known)


def average_of(f: sp.Expr, cov) -> sp.Expr:
    """⟨f⟩ of a sum of (constant)·(function of z), the constants outside the nodes; of anything else, one node.

    A constant that stands inside a function (φ behind a LayerNorm) cannot leave it, and products multiplied out there
    would be dozens of averages, some of them of e^{+z²}.
    """
    if f.has(sp.Piecewise):
        return sp.Add(*[average(t, cov) for t in sp.Add.make_args(expanded(f))])
    names: dict[sp.Expr, sp.Symbol] = {}
    whole = _constants_named(f, names)
    terms = _terms(whole, frozenset(names.values()))
    if any(t.as_independent(*Z, as_Add=False)[1].has(*names.values()) for t in terms):
        terms = (whole,)
    return sp.Add(*[average(t, cov) for t in terms]).xreplace({v: c for c, v in names.items()})


def _terms(e: sp.Expr, names: frozenset[sp.Symbol]) -> tuple[sp.Expr, ...]:
    """The terms of a sum, multiplied out as long as a product holds a sum with one of `names` in it."""
    out: list[sp.Expr] = []
    for t in sp.Add.make_args(sp.expand(e, deep=False, power_exp=False, power_base=False, log=False)):
        again = t != e and any(f.free_symbols & names for f in t.atoms(sp.Add))
        out += _terms(t, names) if again else (t,)
    return tuple(out)


def _constants_named(e: sp.Expr, names: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
    """`e` with a symbol for each largest part that does not depend on z: expanded, 1/((⟨φ²⟩ - ⟨φ⟩²) e^{z²}) would be a
    quotient whose denominator overflows twice."""
    if not e.has(*Z):
        if e.is_number and not e.has(Average):
            return e
        return names.setdefault(e, sp.Dummy(f"q{len(names)}", real=True, positive=e.is_positive or None))
    if e.is_Add or e.is_Mul:
        free, rest = e.as_independent(*Z, as_Add=e.is_Add)
        parts = rest.args if rest.func == e.func else (rest,)
        return e.func(_constants_named(free, names), *[_constants_named(a, names) for a in parts])
    return e.func(*[_constants_named(a, names) for a in e.args]) if e.args else e


def composed(outer: sp.Expr, x: Coordinate, p: int) -> sp.Expr:
    """outer(x_p) in normal form: scales are positive, and a mean of something positive is, too."""
    scale, shift = x.scales[p], x.shifts[p]
    s = scale if scale.is_number else sp.Dummy("s", positive=True)
    m = shift if shift.is_number else sp.Dummy("m", positive=shift.is_positive, real=True)
    try:
        whole = pieces(outer.xreplace({Z[0]: s * (x.functions[p] - m)}), Z[p]).expr
    except MeanFieldError as error:
        raise MeanFieldError(
            f"Where {outer} switches behind a LayerNorm of {x.functions[p]} depends on a mean and a variance that "
            "change from layer to layer, and could not be found as a function of them; use an activation without "
            "kinks there.".replace("_z", "z")
        ) from error
    return whole.xreplace({s: scale, m: shift})


_T = sp.Dummy("t", positive=True)


@lru_cache(maxsize=256)
def too_steep(f: Pieces) -> bool:
    """Whether ⟨f′²⟩ is infinite: f jumps, or rises like √|z| or more steeply at the end of a piece."""
    if f.jumps():
        return True
    if not any(e.base.has(f.variable) and not e.exp.is_Integer for h in f.exprs for e in h.atoms(sp.Pow)):
        return False
    for b, left, right in zip(f.breaks, f.exprs, f.exprs[1:]):
        for piece, side in ((left, -1), (right, 1)):
            try:
                powers, _ = fractional(piece.subs(f.variable, b + side * _T), _T, 1)
            except MeanFieldError:  # no series is known: the averages themselves will say
                continue
            if any(0 < k <= sp.S.Half for k in powers):
                return True
    return False


def tidy(e: sp.Expr) -> sp.Expr:
    """⟨f²⟩/⟨f²⟩ = 1 and its like, averages taken as symbols."""
    nodes = {a: sp.Dummy(f"a{i}", positive=True) for i, a in enumerate(sorted(e.atoms(Average), key=str))}
    flat = sp.cancel(e.xreplace(nodes))
    return flat.xreplace({v: a for a, v in nodes.items()}) if flat.count_ops() < e.count_ops() else e
