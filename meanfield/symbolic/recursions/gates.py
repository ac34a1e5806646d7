r"""The rule of `Gate`: x = u φ(v) with u and v two Dense of one input, hence two independent Gaussians at every neuron.

With U, V their covariances and M = ⟨φ(v_p) φ(v_q)⟩_V, all averages over a neuron are products,

    ⟨x_p x_q⟩ = U_pq M_pq,  Σ_j ⟨∂_j x_p ∂_j x_q⟩ = M_pq Γ^u_pq + U_pq ⟨φ′φ′⟩_V Γ^v_pq,

since the tangents of u and v are as independent as their weights. Of two inputs the distance ⟨(x_a - x_b)²⟩ is a sum of
U's times that of φ(v) and of M's times that of u, in which nothing cancels. A Nonlinearity or a Pool of two behind it
makes a function of two or four nodes, which `Pooled` has averages of, where u and v have one law. An input of finite
dimension changes U and V together: ⟨u ∂_j u⟩ = ½ ∂_j U and ⟨φφ′ ∂_j v⟩ = ½ ∂_j M. Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z, distance
from meanfield.functions.activations import activation
from meanfield.functions.piecewise import pieces
from meanfield.networks.records import Gate
from meanfield.symbolic.recursions.coordinate import Coordinate, Exprs, Gaussian, mean_of, tidy
from meanfield.symbolic.recursions.coordinate_walk import Walk, rule
from meanfield.symbolic.recursions.pooling_rule import Pooled

_U = sp.symbols("u_a u_b", real=True, cls=sp.Dummy)


@dataclass(frozen=True)
class Gated(Coordinate):
    """scales[p]·u_p·functions[p], functions[p] of v_p, whose law is `law`; value: the law of u."""

    of_one_node: ClassVar[bool] = False
    value: Gaussian | None = None

    @property
    def is_linear(self) -> bool:
        return False

    def values(self) -> Exprs:
        raise MeanFieldError(
            "What a Gate makes is a product of two Gaussians; a Dense, Scale, LayerNorm or the average of a Pool may "
            "follow, and behind two Dense of the same σ's a Nonlinearity or a Pool of two; put a Dense between the "
            "Gate and anything else."
        )

    def behind(self, outer: sp.Expr) -> Coordinate:
        return self._jointly(1, outer)

    def grouped(self, size: int, formula: sp.Expr | None) -> Coordinate:
        if formula is None:  # the average of independent numbers of mean 0: tangents, too, add as squares
            return self.rescaled((1 / sp.sqrt(size),) * self.positions)
        return self._jointly(size, formula)

    def _jointly(self, size: int, formula: sp.Expr) -> Coordinate:
        """A formula of `size` neurons as one of their u and v, nodes of one law."""
        (scale, *others), phi = self.scales, self.functions[0]
        same = self.value == self.law and scale.is_number and all(s == scale for s in others)
        if size > 2 or self.by_gains or not same:
            self.values()
        each = {Z[k]: scale * Z[2 * k] * phi.xreplace({Z[0]: Z[2 * k + 1]}) for k in range(size)}
        one, zero = (sp.S.One,) * self.positions, (sp.S.Zero,) * self.positions
        joint = (_without_pieces(formula) if size == 1 else formula).xreplace(each)
        return Pooled(self.law, Z[: self.positions], one, zero, self.z_ratios, size=2 * size, formula=joint)

    def trained(self) -> Exprs:
        """x in symbols: that of u at its position, and z for v."""
        return tuple(s * u * f for s, u, f in zip(self.scales, _U, self.functions))

    def expect(self, e: sp.Expr, p: int, q: int) -> sp.Expr:
        """⟨e⟩ of a polynomial in the symbols of u, at most quadratic."""
        e = e.xreplace({_U[1]: _U[0]}) if p == q else e
        total = sp.S.Zero
        for powers, c in sp.Poly(sp.expand(e), *_U).terms():
            met = [r for r, power in zip((p, q), powers) for _ in range(power)]
            if len(met) != 1:  # u is as likely as -u
                total += (self._u(*met) if met else sp.S.One) * self._phi.expect(c, p, q)
        return total

    @property
    def _phi(self) -> Coordinate:
        """φ(v) alone."""
        if "phi" not in self._known:
            one, zero = (sp.S.One,) * self.positions, (sp.S.Zero,) * self.positions
            self._known["phi"] = Coordinate(self.law, self.functions, one, zero, one)
        return self._known["phi"]

    def _u(self, p: int, q: int) -> sp.Expr:
        assert self.value is not None
        return self.value.entry(p, q)

    def mean(self, p: int) -> sp.Expr:
        """0, as u is as likely as -u."""
        return sp.S.Zero

    def moment(self, p: int, q: int) -> sp.Expr:
        return tidy(self.scales[p] * self.scales[q] * self._u(p, q)) * self._phi.moment(p, q)

    def slopes(self, p: int, q: int) -> sp.Expr:
        """∂⟨x_p x_q⟩/∂V_pq, what tangents of v are multiplied with."""
        slopes = self._phi.slopes(p, q)
        return sp.oo if slopes == sp.oo else self.scales[p] * self.scales[q] * self._u(p, q) * slopes

    def gram(self, name: str, p: int, q: int) -> sp.Expr:
        assert self.value is not None
        by_gate, by_value = super().gram(name, p, q), self.value.entry(p, q, name)
        if sp.oo in (by_gate, by_value):
            return sp.oo
        return self.scales[p] * self.scales[q] * self._phi.moment(p, q) * by_value + by_gate

    def distance(self) -> sp.Expr:
        assert self.value is not None and self.value.distance is not None
        if self.scales[0] != self.scales[1]:
            raise MeanFieldError(
                "The distance of two inputs of unequal norms is not available: a LayerNorm behind a Gate divides each "
                "of them by a norm of its own; ask for K_aa, K_bb and K_ab."
            )
        u, phi = self.value, self._phi
        mean_u, mean_phi = (self._u(0, 0) + self._u(1, 1)) / 2, (phi.moment(0, 0) + phi.moment(1, 1)) / 2
        moved = (mean_u + self._u(0, 1)) / 2 * phi.distance() + (mean_phi + phi.moment(0, 1)) / 2 * u.distance
        if u.norm_difference:
            moved += u.norm_difference * phi.norm_difference() * distance / 2
        return self.scales[0] ** 2 * moved

    def direction_part(self) -> sp.Expr:
        """√(UM) √(U′M′) - U_ab M_ab, twice: the direction part of uφ(v), by those of u and φ(v)."""
        u, phi = self.value, self._phi
        assert u is not None and u.direction_part is not None
        if not u.norm_difference:
            return self.distance()
        size = sp.sqrt(self._u(0, 0)) * sp.sqrt(self._u(1, 1))
        return self.scales[0] ** 2 * (u.direction_part * phi.moment(0, 1) + size * phi.direction_part())

    def norm_difference(self) -> sp.Expr:
        assert self.value is not None
        if not self.value.norm_difference:
            return self.value.norm_difference
        mean_u = (self._u(0, 0) + self._u(1, 1)) / 2
        mean_phi = (self._phi.moment(0, 0) + self._phi.moment(1, 1)) / 2
        return self.scales[0] ** 2 * (self.value.norm_difference * mean_phi + mean_u * self._phi.norm_difference())

    def drawn_along(self, slope) -> sp.Expr:
        """x = c u φ(v): by the slopes of V in ⟨φ′²⟩, by u and v together, and by those of c."""
        U, V, c, phi = self._u(0, 0), self.law.variance(0), self.scales[0], self.pieces(0)
        at = sp.Dummy("V", positive=True)
        square, slopes = (mean_of(f.map(lambda e: e**2).expr, at) for f in (phi, phi.diff()))
        M, by_V = square.xreplace({at: V}), sp.diff(square, at).xreplace({at: V})
        by_u, by_v, by_c = slope(U), slope(V), slope(c)
        along = 2 * U * by_v**2 * sp.diff(slopes, at).xreplace({at: V}) + 2 * by_u * by_v * by_V
        return c**2 * along + 4 * c * by_c * (by_u * M + U * by_V * by_v) + 4 * by_c**2 * U * M


def _without_pieces(f: sp.Expr) -> sp.Expr:
    """f with steps in the place of pieces, whose conditions would nest."""
    if not f.has(sp.Piecewise):
        return f
    p = pieces(f, Z[0])
    steps = [(b, right - left) for b, left, right in zip(p.breaks, p.exprs, p.exprs[1:])]
    return p.exprs[0] + sp.Add(*[sp.Heaviside(Z[0] - b) * step for b, step in steps])


@rule(Gate)
def _gate(block: Gate, x: Coordinate, walk: Walk) -> Coordinate:
    """x → u φ(v)."""
    x = walk.named(walk.as_gaussian(x))
    u = walk.named(walk(block.value, x))
    v = u if block.gate == block.value else walk.named(walk(block.gate, x))
    phi = activation(block.activation).pieces.expr
    one, zero = (sp.S.One,) * x.positions, (sp.S.Zero,) * x.positions
    return Gated(v.law, tuple(phi.xreplace({Z[0]: z}) for z in Z[: x.positions]), one, zero, one, value=u.law)
