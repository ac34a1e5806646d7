"""The laws of a residual network over its whole parameter space, as the tree of questions that its derivation asks.

What its leaves say is put together to regions (`leaf_merging`), which cover the space and are disjoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import sympy as sp
from sympy.core.function import AppliedUndef

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.words import unknown
from meanfield.symbolic.asymptotics.comparing import direction
from meanfield.symbolic.asymptotics.exponent_cells import Affine, At, Cell, PartitionNode, Undecided, partition
from meanfield.symbolic.asymptotics.in_total_depth.total_depth import TotalSolver, regimes
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import NAMES
from meanfield.symbolic.asymptotics.in_total_depth.total_fisher import fisher_in_depth
from meanfield.symbolic.asymptotics.log_growth import Growth, SignOracle, regular
from meanfield.symbolic.asymptotics.schedules.balance import Correlated
from meanfield.symbolic.asymptotics.schedules.branch import Branch
from meanfield.symbolic.asymptotics.schedules.fisher import fisher_law, local_factors
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.asymptotics.schedules.residual import Solver
from meanfield.symbolic.asymptotics.tables.leaf_merging import merged
from meanfield.symbolic.asymptotics.two_inputs.pair_laws import pair_laws
from meanfield.symbolic.asymptotics.two_inputs.total_pairs import pair_in_depth

PAIR = ("distance", "gamma", "c", "K_ab")
QUANTITIES = ("K", "K[1]", "J", "G_z", "G_w", "G_b", *PAIR, "fisher")


@dataclass(frozen=True)
class Laws:
    """One attracting behaviour of the quantities asked for. regime: in words; basin: the starts that end here; limit:
    of a network of L blocks, the equations in t = l/L of k(t) = lim K/L^κ and of j(t) = lim log J/L^ρ, which says how
    everything moves where all stays Θ(1); conditional: whether numbers decide that there is such a behaviour."""

    laws: tuple[tuple[str, Growth], ...]
    regime: str
    basin: str
    limit: tuple[sp.Eq, ...] = ()
    conditional: bool = False

    def __getitem__(self, quantity: str) -> Growth:
        for name, law in self.laws:
            if name == quantity:
                return law
        raise MeanFieldError(
            f"The law of {quantity} is not available: this table has {', '.join(n for n, _ in self.laws) or 'none'} "
            "here "
            f"({self.regime})."
        )

    def at(self, values: Mapping[sp.Symbol, sp.Expr]) -> Laws:
        """The laws with numbers put in."""
        limit = tuple(one.func(one.lhs, one.rhs.subs(values), evaluate=False) for one in self.limit)
        return replace(self, laws=tuple((n, g.at(values)) for n, g in self.laws), limit=limit)

    @property
    def equations(self) -> tuple[sp.Eq, ...]:
        """Those of `limit` whose solutions the laws leave as functions."""
        numbers = [c for _, g in self.laws for c in (g.constant, *(c for _, c in g.terms)) if c is not None]
        names = {f.func for c in numbers for f in sp.sympify(c).atoms(AppliedUndef)}
        names |= {f.func for e in self.limit if names & {x.func for x in e.lhs.atoms(AppliedUndef)}
                  for f in e.rhs.atoms(AppliedUndef)}
        return tuple(e for e in self.limit if names & {f.func for f in e.lhs.atoms(AppliedUndef)})

    def map(self, function) -> Laws:
        """`function` applied to every number of the laws."""
        return replace(self, laws=tuple((n, g.map(function)) for n, g in self.laws), limit=self.limit_by(function))

    def limit_by(self, function) -> tuple[sp.Eq, ...]:
        """`function` applied to the equations."""
        return tuple(one.func(one.lhs, function(one.rhs), evaluate=False) for one in self.limit)


def laws_of(regime: Regime, solver: Solver | TotalSolver, quantities: tuple[str, ...]) -> Laws:
    """The laws of named quantities in block l: K before it, K[1] = q inside, J over the blocks before it, and squared
    gradients G over J^{1,L} (the same for every block of a network of L layers): G_z at K, G_w[1], G_b[1] of the inner,
    G_w[2], G_b[2] of the outer Dense; fisher of the whole network of l blocks."""
    found: list[tuple[str, Growth]] = []
    branch, lost = solver.branch, []
    pair: tuple[Growth | None, Growth | None] = (None, None)
    if set(quantities) & set(PAIR):
        try:
            if isinstance(solver, TotalSolver):
                distance, gamma, more_ = pair_in_depth(solver, regime)
                pair = (distance, gamma)
                regime = replace(regime, limit=regime.limit + more_)
            else:
                pair = pair_laws(solver, regime)
        except Undecided as error:
            regime = replace(regime, regime=f"{regime.regime}; of two inputs: {error}")
    for name in quantities:
        if name == "c":
            try:
                found += [] if pair[1] is None else [(name, cosine(pair[1], solver.oracle))]
            except Undecided as error:
                regime = replace(regime, regime=f"{regime.regime}; of c: {error}")
        elif name == "K_ab":
            try:
                found += [] if pair[1] is None else [(name, regime.K * cosine(pair[1], solver.oracle))]
            except Undecided as error:
                regime = replace(regime, regime=f"{regime.regime}; of K_ab: {error}")
        elif name in PAIR:
            law = pair[PAIR.index(name)]
            found += [] if law is None else [(name, law)]
        elif name == "fisher":
            try:
                if isinstance(solver, TotalSolver):
                    found.append((name, fisher_in_depth(solver, regime)))
                else:
                    found.append((name, fisher_law(regime, branch, solver.oracle)))
            except MeanFieldError as error:
                regime = replace(regime, regime=f"{regime.regime}; of fisher: {error}")
        elif name == "K":
            found.append((name, regime.K))
        elif name == "K[1]":
            found.append((name, regime.q))
        else:
            if regime.J is None and isinstance(solver, TotalSolver):
                continue
            assert regime.J is not None
            local = {"G_z": regular(1), **local_factors(regime, branch, solver.falls(branch.v))}
            law = regime.J if name == "J" else dict(regime.quotients).get(name) or local[name] / regime.J
            if law.terms or not law.leading:
                found.append((name, law))
            else:
                lost.append(name)
    more = f"; of {', '.join(lost)} all that is known cancels" if lost else ""
    return Laws(tuple(found), regime.regime + more, regime.basin, regime.limit, regime.conditional)


def cosine(gamma: Growth, oracle: SignOracle) -> Growth:
    """The law of c = γ/(1 + γ) to leading order: γ where that goes to 0, else a number, 1 where γ → ∞; up to a constant
    factor where cells are not cut by the sign of γ's power."""
    try:
        regime = direction(gamma, oracle)
    except Undecided:
        if not gamma.is_regular or gamma.power_of(1) != 0 or gamma.power_of(2) != 0:
            raise
        return regular(None, sp.Min(0, gamma.exponent))
    if regime < 0:
        return gamma
    if regime > 0:
        return regular(1)
    if gamma.constant is None or not gamma.is_regular:
        return regular(None)
    n, d = sp.fraction(sp.together(gamma.constant))
    if isinstance(n, Correlated) and isinstance(d, Correlated) and n.root == d.root:
        return regular(n.share)
    return regular(n / sp.expand(n + d))


def named_quantities(asked: tuple[str, ...]) -> tuple[str, ...]:
    """The quantities of a table, G_w and G_b of both Dense layers. Raises: MeanFieldError for others."""
    out: list[str] = []
    for name in asked or ("K", "J"):
        if name in ("G_w", "G_b"):
            out += [f"{name}[1]", f"{name}[2]"]
        elif name in ("K", "K[1]", "J", "G_z", "G_w[1]", "G_w[2]", "G_b[1]", "G_b[2]", *PAIR, "fisher"):
            out.append(name)
        else:
            raise unknown("quantity of a phase table", name, QUANTITIES)
    return tuple(dict.fromkeys(out))


def laws_at(branch: Branch, quantities: tuple[str, ...]) -> tuple[Laws, ...]:
    """The laws of a branch whose exponents are numbers (σ's may be symbols where no sign depends on them)."""
    gradients = _gradients(branch, quantities)
    solver = (TotalSolver if branch.knows_depth else Solver)(branch, At({}), gradients)
    return tuple(laws_of(one, solver, quantities) for one in regimes(solver))


def _gradients(branch: Branch, quantities: tuple[str, ...]) -> bool:
    """Whether anything but K and q is asked for. Raises: MeanFieldError where ⟨φ′²⟩ is infinite then."""
    asked = any(n not in ("K", "K[1]") for n in quantities)
    return asked and branch.slope is not None


def phase_tree(
    branch: Branch, quantities: tuple[str, ...]
) -> tuple[PartitionNode, tuple[tuple[sp.Symbol, sp.Expr], ...]]:
    """(the tree of regions with their laws, what its coordinates beside the β's stand for) of a branch whose parameters
    may be numbers or symbols; all of β ≥ 0 and of strengths > 0 is covered."""
    taken = [s.name for s in branch.symbols if s.name in NAMES] if branch.knows_depth else []
    if taken:
        raise MeanFieldError(f"{taken[0]} has a meaning of its own in laws of networks of L blocks; take another name.")
    gradients = _gradients(branch, quantities)
    inside = any(n not in ("K", "J", "G_z", "G_b[2]") for n in quantities)
    strength, definitions = _strength(branch)
    free = branch.exponents
    coordinates = (*free, *(s for s, _ in definitions))
    axes = [
        Affine(tuple(Fraction(i == j) for j in range(len(coordinates))), Fraction(0)) for i in range(len(coordinates))
    ]
    whole = Cell(coordinates, tuple(axes[len(free) :]), tuple(axes[: len(free)]))

    def derive(here: Cell) -> tuple[Laws, ...]:
        kind = TotalSolver if branch.knows_depth else Solver
        solver = kind(branch, here, gradients, strength if definitions else None, inside)
        try:
            found = [laws_of(one, solver, quantities) for one in regimes(solver)]
        except Undecided as error:
            return (Laws((), str(error), "open"),)
        return tuple(one.map(here.simplified) for one in found)

    return merged(partition(whole, derive)), definitions


def _strength(branch: Branch) -> tuple[sp.Expr, tuple[tuple[sp.Symbol, sp.Expr], ...]]:
    """S = σ_v²σ_w², with a coordinate in it where its size is compared with exponents and it is no number.

    The coordinate is S itself, or W = S v where ⟨φ²⟩_q ~ v q with an irrational v: cells are cut by rational forms.
    """
    if branch.norm or branch.knows_depth:  # the branch does not depend on K, or no sign depends on it
        return branch.strength, ()
    S, gains = branch.strength, [e.of_square[2] for e in (branch.zero, branch.infinity) if e.is_linear]
    if not S.free_symbols or not gains:
        return S, ()
    if all(v.is_Rational for v in gains):
        symbol = sp.Symbol("S", positive=True)
        return symbol, ((symbol, S),)
    if not all(sp.simplify(v / gains[0]).is_Rational for v in gains):
        raise MeanFieldError(
            f"The table of {branch.phi} with symbols for sigma_v, sigma_w is not rational; give numbers."
        )
    symbol = sp.Symbol("W", positive=True)
    return symbol / gains[0], ((symbol, S * gains[0]),)
