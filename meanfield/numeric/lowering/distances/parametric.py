"""Two-input averages ⟨f(z_a; p) g(z_b; p)⟩ whose parameters p change from layer to layer, and their `DistanceRatio`.

Such are the averages of a nonlinearity behind a LayerNorm that acts on activations: its mean and scale are averages
themselves. The geometry is that of `planes`; kinks, and all that does not depend on z, are computed when the function
is called. f's own scale is no number: behind a LayerNorm it is min(1, √K) where K is small, that of the nonlinearity
before it, or of φ, where K is large. `parametric_check` measures the error with parameters as they come together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import P_POSITIVE, K_aa, K_ab, K_bb, P, Z
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.averages.direct import without_overflow
from meanfield.numeric.lowering.distances import parametric_check
from meanfield.numeric.lowering.distances.equal_norm_distance import CLOSE, by_parts
from meanfield.numeric.lowering.distances.parametric_check import Sample
from meanfield.numeric.lowering.modules.module_functions import PAIR_WEIGHT, Functions, writes
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature.steep_points import centres
from meanfield.symbolic.averages.node import Average, Integrand
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio

SIGNATURE = "K_aa, K_ab, K_bb, sine2"
GOOD = 2e-14  # an error at which no finer panels are tried
WAVES = 30.0  # the fastest phase, in standard deviations, that is followed at every K


def names(count: int) -> list[sp.Symbol]:
    """The parameters as they are called in generated source."""
    return [sp.Symbol(f"p{i}", real=True) for i in range(count)]


def named(e: sp.Expr) -> sp.Expr:
    """An expression in the dummies with its parameters as they are called in generated source."""
    return e.xreplace(dict(zip(P, names(len(P)))) | dict(zip(P_POSITIVE, names(len(P)))))


@dataclass(frozen=True)
class _Factor:
    """One factor of f or g: its pieces in z and in the parameters' names, and its breaks."""

    exprs: tuple[sp.Expr, ...]
    breaks: tuple[sp.Expr, ...]


@dataclass(frozen=True)
class ParametricPlan:
    """What the quadrature knows of f and g: factors, steep places, and over all samples the narrowest first panel, the
    growth, the fastest phases, in units of z where √K ≥ 1 and of √K below (`fixed`: of √K everywhere), and the
    largest variance that is followed."""

    factors: tuple[tuple[_Factor, ...], tuple[_Factor, ...]]
    centres: tuple[tuple[float, ...], tuple[float, ...]]
    count: int
    step: float
    rate: float
    speeds: tuple[float, float]
    fixed: bool
    limit: float

    @property
    def same(self) -> bool:
        return self.factors[0] == self.factors[1]


def plan(node: Average, samples: list[Sample]) -> ParametricPlan:
    """The plan of a node over its own dummies.

    Raises: MeanFieldError where the integrand does not separate or has a branch point.
    """
    pair = planes.separated(node.args[0].expr)
    at = [s.plan for s in samples]
    if any(any(p.branches) for p in at):
        raise MeanFieldError(
            f"{node} has a branch point and parameters that change from layer to layer; it is derived, but not "
            "compiled."
        )
    speeds, fixed, limit = _phases(samples)
    return ParametricPlan(
        (_factors(pair[0]), _factors(pair[1])),
        (_centres(pair[0]), _centres(pair[1])),
        len(node.args[3]),
        min(p.step for p in at),
        max(p.rate for p in at),
        speeds,
        fixed,
        limit,
    )


def _factors(h: sp.Expr) -> tuple[_Factor, ...]:
    """Factors with breaks one by one: the order of two breaks need not be known."""
    z = {Z[0]: sp.Symbol("z", real=True)}
    smooth, broken = sp.S.One, []
    for factor in sp.Mul.make_args(h):
        if not pieces(factor, Z[0]).breaks:
            smooth *= factor
        else:
            broken.append(pieces(factor, Z[0]))
    found = [_Factor(tuple(named(e).xreplace(z) for e in p.exprs), tuple(map(named, p.breaks))) for p in broken]
    return (*([_Factor((named(smooth).xreplace(z),), ())] if smooth != 1 or not found else []), *found)


def _centres(h: sp.Expr) -> tuple[float, ...]:
    found = [c for c in centres(h) if c != 0]
    return tuple(sorted({0.0, *found, *(-c for c in found)}))


def _phases(samples: list[Sample]) -> tuple[tuple[float, float], bool, float]:
    """(fastest phases of f and g, whether in standard deviations, the largest variance)."""
    fastest = [0.0, 0.0]
    for s in samples:
        for i, (h, K) in enumerate(zip((s.plan.f, s.plan.g), s.scaled)):
            rule = quadrature.rule_for(h)
            if rule.fastest or rule.slopes:
                fastest[i] = max(fastest[i], quadrature.fastest_phase(rule, 9.0 * K**0.5) * K**0.5)
    if max(fastest) <= WAVES:
        return (fastest[0], fastest[1]), True, float("inf")
    both = [max(s.plan.frequencies[i] for s in samples) for i in (0, 1)]
    return (both[0], both[1]), False, min(s.plan.limit for s in samples)


def text(plan: ParametricPlan, name: str, widen: float = 1.5) -> str:
    """Source of `name_quadrature(K_aa, K_ab, K_bb, sine2, p0, p1, …)`; widen: the first panels in the plan's steps."""
    hoisted: dict[sp.Expr, sp.Symbol] = {}
    z = sp.Symbol("z", real=True)
    sides = [[_Factor(tuple(_hoist(e, z, hoisted) for e in f.exprs), f.breaks) for f in side] for side in plan.factors]
    walls: dict[sp.Expr, sp.Symbol] = {}
    for b in (b for side in sides for f in side for b in f.breaks):
        walls.setdefault(b, sp.Symbol(f"b{len(walls)}", real=True))
    inner = [str(s) for s in (*hoisted.values(), *walls.values())]
    more = "".join(f", {s}" for s in inner)
    setup = "".join(f"    {s} = {printing.code(without_overflow(e))}\n" for e, s in (hoisted | walls).items())
    flags: dict[str, list[bool]] = {}
    for k, side, steep in zip("FG", sides, plan.centres):
        own = [b for b in dict.fromkeys(b for f in side for b in f.breaks)]
        fixed = [b for b in own if b.is_number]
        smooth = [c for c in steep if c not in map(float, fixed)]
        setup += f"    K{k} = np.array([{', '.join([*map(repr, smooth), *(f'float({walls[b]})' for b in own)])}])\n"
        flags[f"B{k}"] = [False] * len(smooth) + [True] * len(own)
    functions = _function(sides[0], walls, f"{name}_f", more)
    functions += "" if plan.same else _function(sides[1], walls, f"{name}_g", more)
    second = "f" if plan.same else "g"
    unit, (wf, wg) = ("" if plan.fixed else "max(1.0, s_a)", "" if plan.fixed else "max(1.0, abs(s_b))"), plan.speeds
    phases = [f"{w!r} * {u}" if u else repr(w) for w, u in zip((wf, wg), unit)]
    return (
        planes.arrays(name, {}, flags)
        + functions
        + planes.filled(
            setup=setup,
            parameters="".join(f", {p}" for p in names(plan.count)),
            name=name,
            value=f"{name}_f(s_a * (m + 0.5 * d){more}) * {name}_{second}(s_b * (m - 0.5 * d){more})",
            even="s_a == s_b" if plan.same else "False",
            more=more,
            kf="KF",
            kg="KG",
            step_a=f"{widen * plan.step!r} * min(1.0, s_a)",
            step_b=f"{widen * plan.step!r} * min(1.0, abs(s_b))",
            rate=plan.rate,
            sizes="(max(1.0, s_a) + max(1.0, abs(s_b)))",
            phase=" + ".join(phases),
        )
    )


def _hoist(e: sp.Expr, z: sp.Symbol, found: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
    """`e` with a name for each largest part that does not depend on z, computed once a call."""
    if not e.has(z):
        return e if e.is_number else found.setdefault(e, sp.Symbol(f"q{len(found)}", real=True))
    if e.is_Add or e.is_Mul:
        free, rest = e.as_independent(z, as_Add=e.is_Add)
        parts = rest.args if rest.func == e.func else (rest,)
        return e.func(_hoist(free, z, found), *[_hoist(a, z, found) for a in parts])
    return e.func(*[_hoist(a, z, found) for a in e.args]) if e.args else e


def _function(factors: list[_Factor], walls: dict[sp.Expr, sp.Symbol], name: str, more: str) -> str:
    """Source of `name(z, …)`, a product of piecewise functions."""
    out, calls = "", []
    for i, f in enumerate(factors):
        own = name if len(factors) == 1 else f"{name}{i}"
        out += f"def {own}(z{more}):\n"
        for e, b in zip(f.exprs, f.breaks):
            out += f"    if z < {walls[b]}:\n{_piece(e, ' ' * 8)}"
        out += _piece(f.exprs[-1], "    ") + "\n\n"
        calls.append(f"{own}(z{more})")
    return out if len(factors) == 1 else f"{out}def {name}(z{more}):\n    return {' * '.join(calls)}\n\n\n"


def _piece(e: sp.Expr, indent: str) -> str:
    """A piece as statements: always a float, whatever the pieces beside it are."""
    return f"{indent}return {float(e)!r}\n" if e.is_number else printing.body(e, indent)


@writes("of two, with parameters")
def _lowered(functions: Functions, shape: Average, written: Sequence[sp.Expr]) -> None:
    name = functions.name(shape, "pair")
    source, error, limit, how = pair(shape, name, written)
    functions.add(name, source, f"{name}(K_aa, K_ab, K_bb, …) = {shape}: {how}", error, PAIR_WEIGHT, limit, sine2=True)


def pair(node: Average, name: str, variables) -> tuple[str, float, float, str]:
    """(source of `name(K_aa, K_ab, K_bb, sine2, p0, p1, …)`, measured error, largest variance, a line on it).

    node: over (K_aa, K_ab, K_bb) and its own dummies; variables: its covariances and parameters as formulas of the
    state. Raises: MeanFieldError where it is not accurate.
    """
    samples = parametric_check.samples(node, variables)
    made, tried = plan(node, samples), []
    for widen in (1.5, 0.75, 0.375):
        source = text(made, name, widen)
        tried.append((source, parametric_check.miss(samples, printing.interpret(source, f"{name}_quadrature"))))
        if tried[-1][1] <= GOOD:
            break
    source, error = min(tried, key=lambda t: t[1])
    if not error < 1e-6:
        raise MeanFieldError(
            f"{node} is too steep or oscillates too fast for quadrature at every layer (measured error {error:.0e}); "
            "it is derived, but not compiled."
        )
    arguments = f"{SIGNATURE}{''.join(f', {p}' for p in names(made.count))}"
    source += f"def {name}({arguments}):\n"
    if made.limit < float("inf"):
        source += f"    if max(K_aa, K_bb) > {made.limit!r}:\n        return math.nan\n"
    source += f"    return {name}_quadrature({arguments})\n"
    return source, error, made.limit, "panel quadrature at every call"


def distance_ratio(name: str, used: tuple[str, str, str], node: DistanceRatio, variables) -> str:
    """Source of `name(V, apart, p0, p1, …)` by the functions of its parts: ⟨f²⟩, ⟨f f⟩ and its slope."""
    f, count = node.function, len(node.params)
    product = Average(Integrand(f * f.xreplace({Z[0]: Z[1]})), (K_aa, K_ab, K_bb), (0, 0), P[:count])
    step = min(s.plan.step for s in parametric_check.samples(product, (variables[0],) * 3 + tuple(variables[2:])))
    more = "".join(f", {p}" for p in names(count))
    # eight slopes are not enough where kinks meet, which are as far apart as √V is wide: panels of them are
    return by_parts(name, *used, f"max(1.0, V) * {16 * step**-2!r}", more=more, faint=CLOSE)
