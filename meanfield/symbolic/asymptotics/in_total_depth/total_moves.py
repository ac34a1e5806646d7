r"""How K of a network of L blocks moves at l = tL: the balance of the terms of one order, and its solution.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from meanfield.base.symbols import K
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import K_0, grown, k, linear, root, t
from meanfield.symbolic.asymptotics.in_total_depth.total_scales import Scale, Scales
from meanfield.symbolic.asymptotics.log_growth import Growth, SignOracle, regular
from meanfield.symbolic.asymptotics.schedules.balance import Balance
from meanfield.symbolic.asymptotics.schedules.branch import Branch, Variance


@dataclass(frozen=True)
class Moves:
    """K of one branch at l = tL; `strength` and `inside` are those of `Solver`."""

    branch: Branch
    oracle: SignOracle
    gradients: bool = True
    strength: sp.Expr | None = None
    inside: bool = True
    scales: Scales = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", Scales(self.branch, self.oracle))

    def at(self, scales: Scales) -> Moves:
        """The same at another scale, t = l/L^s."""
        found = Moves(self.branch, scales.oracle, self.gradients, self.strength, self.inside)
        object.__setattr__(found, "scales", scales)
        return found

    def sign(self, form: sp.Expr) -> int:
        return self.scales.sign(form)

    def falls(self, one: Variance) -> Growth:
        """A variance in block tL."""
        return regular(one.size * t**-one.beta, -one.fall)

    @property
    def V(self) -> sp.Expr:
        return self.branch.v.beta + self.branch.w.beta

    @property
    def D(self) -> sp.Expr:
        """Δ = δ_v + δ_w."""
        return self.branch.v.total + self.branch.w.total

    def makers(self, scale: Scale) -> list[Variance]:
        """The variances of the inner Dense that make q."""
        w, b = self.branch.w, self.branch.b
        return ([w] if scale.on_w else []) + ([b] if scale.on_b and b is not None else [])

    def across(self, scale: Scale, at: sp.Expr, carried: sp.Expr = sp.S.One) -> sp.Expr:
        """What the inner Dense puts out, over L^{y_d}; exponents known to be 0 are put in as 0. carried: what a
        LayerNorm before it lets through, 1 of one input."""
        w, b, out = self.branch.w, self.branch.b, sp.S.Zero
        still = not self.branch.norm and scale.sign == 0
        if scale.on_w:
            fixed = still and self.sign(scale.kappa) == 0
            given = carried if self.branch.norm == "first" else at
            fixed = fixed or (self.branch.norm == "first" and scale.sign == 0)
            out += w.size * (1 if fixed else t**-w.beta) * given
        if scale.on_b and b is not None:
            out += b.size * (1 if scale.sign == 0 and self.branch.norm != "inner" else t**-b.beta)
        return out

    def average(self, whole: sp.Expr, which: str, scale: Scale, at: sp.Expr) -> Growth:
        """⟨φ²⟩_q or ⟨φ′²⟩_q."""
        across = sp.S.One if self.branch.norm == "inner" else self.across(scale, at)
        if scale.sign == 0:
            return regular(self.value(which, across))
        end = self.scales.end(scale.sign)
        a, n, v = end.of_square if which == "square" else end.of_slope
        logs = (sp.Abs(scale.y) if not scale.y.free_symbols else scale.sign * scale.y) ** n if n else 1
        return regular(v * across**a * logs, a * scale.y, n)

    def value(self, which: str, q: sp.Expr) -> sp.Expr:
        """The average at a variance of Θ(1)."""
        if self.branch.degree is not None:
            a, _, v = self.branch.zero.of_square if which == "square" else self.branch.zero.of_slope
            return v * q**a
        return (self.branch.square if which == "square" else self.branch.slope).xreplace({K: q})

    def equation(self, scale: Scale) -> sp.Expr:
        """dk/dt."""
        a, v, out = self.branch.a, self.branch.v, sp.S.Zero
        if scale.fed:
            constant = self.average(self.branch.square, "square", scale, k(t)).constant
            assert constant is not None
            out += v.size * t**-v.beta * constant
        if scale.sourced and a is not None:
            out += a.size * t**-a.beta
        return out

    def solved(self, scale: Scale) -> sp.Expr | None:
        """k(t), where its equation is linear or one power; None elsewhere."""
        v, w, b = self.branch.v, self.branch.w, self.branch.b
        start = K_0 if self.sign(scale.kappa) == 0 else sp.S.Zero
        forces: list[tuple[sp.Expr, sp.Expr]] = []  # dk/dt = Σ size·t^{-power} + what holds k
        if scale.sourced and self.branch.a is not None:
            forces.append((self.branch.a.size, self.branch.a.beta))
        if not scale.fed:
            return grown(start, forces)
        if self.branch.norm == "inner":
            return grown(start, [*forces, (v.size * self.value("square", sp.S.One), v.beta)])
        power, size = self.power_law(scale)
        across = self.across(scale, sp.S.One)
        if self.branch.norm or not scale.on_w:
            if power is None:  # q is Θ(1) and made of what does not fall
                return grown(start, [*forces, (v.size * self.value("square", across), v.beta)])
            makers = self.makers(scale)
            if power != 0 and len(makers) == 2 and power != 1 and self.sign(w.beta - (b or w).beta) != 0:
                return None
            if power == 1:
                return grown(start, [*forces, *((v.size * size * m.size, v.beta + m.beta) for m in makers)])
            sizes = sp.Add(*[m.size for m in makers]) ** power
            return grown(start, [*forces, (v.size * size * sizes, v.beta + power * makers[0].beta)])
        if power is None:
            return None
        rate, falls = v.size * size * w.size**power, v.beta + power * w.beta
        if power == 1:
            if scale.on_b and b is not None:
                forces.append((v.size * size * b.size, v.beta + b.beta))
            return linear(start, rate, falls, forces)
        if not forces and not scale.on_b:
            inside = start ** (1 - power) + rate * (1 - power) * t ** (1 - falls) / (1 - falls)
            return sp.powdenest(inside ** (1 / (1 - power)), force=True) if start != 0 else root(inside, power)
        if start != 0:
            return None
        e = (1 - falls) / (1 - power)
        if any(self.sign(1 - p - e) != 0 for _, p in forces):
            return None
        if scale.on_b and b is not None and self.sign(e - w.beta + b.beta) != 0:
            return None
        bias = b.size if scale.on_b and b is not None else sp.S.Zero
        source = sp.Add(*[s for s, _ in forces])
        return Balance(e, v.size * size, w.size, bias, power, source).doit() * t**e

    def power_law(self, scale: Scale) -> tuple[sp.Expr | None, sp.Expr]:
        """(a, v) of ⟨φ²⟩_q = v q^a in this order; a None where it is no power."""
        if scale.sign != 0:
            a, _, v = self.scales.end(scale.sign).of_square
        elif self.branch.degree is not None:
            a, _, v = self.branch.zero.of_square
        else:
            return None, sp.S.Zero
        if a > 1 and scale.on_w and not self.branch.norm:
            raise Undecided("K's feedback grows faster than K: it may leave this law at some t < 1; none is derived")
        return a, v

    def slope_of_K(self, scale: Scale) -> sp.Expr:
        """The power of t with which k starts, κ > 0: the least of those that make it."""
        v, w, b, found = self.branch.v, self.branch.w, self.branch.b, []
        if scale.sourced and self.branch.a is not None:
            found.append(1 - self.branch.a.beta)
        if scale.fed:
            a = self.scales.square_power(scale.sign or -1) if self.branch.norm != "inner" else sp.S.Zero
            if self.branch.norm:
                found += [1 - v.beta - a * one.beta for one in self.makers(scale)] or [1 - v.beta]
            else:
                if scale.on_w and a < 1:
                    found.append((1 - v.beta - a * w.beta) / (1 - a))
                if scale.on_b and b is not None:
                    found.append(1 - v.beta - a * b.beta)
        return self.least(found)

    def least(self, forms: list[sp.Expr]) -> sp.Expr:
        best = forms[0]
        for one in forms[1:]:
            best = one if self.sign(one - best) < 0 else best
        return best
