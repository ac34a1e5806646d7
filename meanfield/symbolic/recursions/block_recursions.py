r"""The recursions of an architecture, each one walk through its block.

one_input: (K, J, Theta); two_inputs: K at both inputs and between them; pair_tangents: J_ab and Theta_ab with them;
equal_norms, unequal_norms: the same with the distance of the two carried by itself; input_jacobian: (K, D0, J0) with an
input of finite dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy as sp

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError, NoClosedForm
from meanfield.base.leading import Registry
from meanfield.base.quantities import QUANTITIES, read_off
from meanfield.base.symbols import (
    D0,
    J0,
    N0,
    Q0,
    J,
    J_ab,
    K,
    K_aa,
    K_ab,
    K_bb,
    Theta,
    Theta_ab,
    Z,
    distance,
    norm_angle,
    parameter,
    sigma_b,
    sigma_w,
)
from meanfield.functions.activations import Activation
from meanfield.functions.reading.parser import value_of
from meanfield.networks.folds import chain, has_norm, mixing, rebuild, skip_of
from meanfield.networks.records import Block, Dense, Param, Projection, Schedule, Sequential
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursion import Recursion, StateVar, c0
from meanfield.symbolic.recursions.coordinate import Exprs, Gaussian, gaussian, holds_state, mean_of, too_steep
from meanfield.symbolic.recursions.coordinate_walk import RULES, Rates, TangentUnknown, Walk
from meanfield.symbolic.recursions.record_rules import has_dense
from meanfield.symbolic.steps import Domain, Step

_ROUNDING = sp.Rational(1, 2**53)
_FIRST = sigma_w**2 * Q0 + sigma_b**2

RULES.rare(
    {
        "networks.attention.Attention": "symbolic.recursions.attention_rule",
        "networks.records.AffineNorm": "symbolic.recursions.batch",
        "networks.records.BatchNorm": "symbolic.recursions.batch",
        "networks.records.Gate": "symbolic.recursions.gates",
        "networks.records.Pool": "symbolic.recursions.pooling_rule",
    }
)


def variable(symbol: sp.Symbol, initial: sp.Expr) -> StateVar:
    """A state variable, carried as the registry says."""
    return StateVar(symbol.name, symbol, initial, QUANTITIES[symbol.name].encoding)


def recursion_of(state, walk: Walk, values: Exprs, *before: tuple[Walk, Exprs], name="", closer=()) -> Recursion:
    """A recursion from the values that walks ended with: the block's, and those of the layers before it; name: its own
    in the registry of quantities, which says what is read off it."""

    def step(one: Walk, ends: Exprs) -> Step:
        whole = Step(tuple(ends), tuple(one.definitions)).map(one.plain)
        return whole.pick(range(len(ends)))  # without intermediates that nothing needs

    domain: dict[str, Domain] = {}
    for one in (walk, *(w for w, _ in before)):
        domain |= one.domain
    block, head = step(walk, values), tuple(step(*one) for one in before)
    found = Recursion(tuple(state), block, head, closer=tuple(closer)).reading(read_off(name))
    used = {s.name: s for s in found.parameters}
    return replace(found, domain=tuple((used[n], d) for n, d in domain.items() if n in used))


def untrained(block: Block) -> Block:
    """The same block with γ and β of every norm fixed."""
    return rebuild(block, lambda one: one.untrained())


def one_input(block: Block, rate_names: Rates = ()) -> Recursion:
    """The recursion of (K, J, Theta) for one input through `block`; rate_names: as `Walk` has it.

    K: second moment of a preactivation; J = J^{1,l}: averaged partial Jacobian norm; Theta: NTK trace per output, all
    weights, biases and LayerNorm gains trainable, in NTK parametrization. A discontinuous φ gives J = Theta = ∞. Theta
    is left out where a skip starts at the output of a trained LayerNorm: it does not close there.
    """
    state = [variable(K, _FIRST), variable(J, sp.S.One)]
    fields = {"J": (sp.S.One,), "Theta": (Theta,)}
    try:
        walk, values, *before = _trained(block, (K,), fields, rate_names=rate_names)
    except TangentUnknown:
        walk = Walk()
        law = walk.ended(untrained(block), gaussian(Gaussian(1, (K,), {"J": (sp.S.One,)}))).law
        return recursion_of(state, walk, (law.cov[0], _times(law.grams["J"][0], J)))
    return recursion_of([*state, variable(Theta, _trained_first(rate_names))], walk, values, *before)


def _trained_first(rate_names: Rates, correlation: sp.Expr = sp.S.One) -> sp.Expr:
    """Θ of two inputs of one norm at layer 1."""
    of_w, of_b = Walk(rate_names=rate_names).rates(sigma_w, sigma_b)
    return of_w * Q0 * correlation + of_b


def _times(growth: sp.Expr, symbol: sp.Symbol) -> sp.Expr:
    return sp.oo if growth == sp.oo else growth * symbol


def _trained(block: Block, cov: Exprs, fields: dict[str, Exprs], *both: sp.Expr, rate_names: Rates = ()):
    """(walk, values of the block) and the same for the first layer, where it differs: γ and β of a LayerNorm that ends
    a block belong to one coordinate each, so that the next block must see their share of Θ as functions of z; the
    input layer has none."""
    first, positions = Walk(trained_field="Theta", rate_names=rate_names), 1 if len(cov) == 1 else 2
    end = first.ended(block, gaussian(Gaussian(positions, cov, fields, *both)))
    if not end.by_gains:
        return first, _values(end.law, (sp.S.Zero,) * len(end.law.cov))
    if any(holds_state(first.plain(a)) for one in end.by_gains for a in one):
        raise TangentUnknown
    own = _gain_kernels(end.by_gains, Gaussian(positions, cov))
    grams = fields | {"Theta": tuple(t - s for t, s in zip(fields["Theta"], own))}
    walk = Walk(trained_field="Theta", rate_names=rate_names, domain=first.domain, _assumed=first._assumed)
    law = walk.ended(block, gaussian(Gaussian(positions, cov, grams, *both), end.by_gains)).law
    many, one = (_values(of, _gain_kernels(end.by_gains, of)) for of in (law, end.law))
    return walk, many, (first, one)


def _gain_kernels(by_gains: tuple[Exprs, ...], law: Gaussian) -> Exprs:
    """Σ⟨s_p s_q⟩ of trained vectors, in the order of `pairs`."""
    if law.positions == 1:
        return (sp.Add(*[mean_of(a**2, law.cov[0], by_terms=True) for (a,) in by_gains]),)
    own = [sp.Add(*[mean_of(one[p].xreplace({Z[p]: Z[0]}) ** 2, law.cov[p]) for one in by_gains]) for p in (0, 1)]
    return (*own, sp.Add(*[mean_of(one[0] * one[1], law.over(0, 1)) for one in by_gains]))


def _values(law: Gaussian, shares: Exprs) -> Exprs:
    """The next values: K's, J's, Θ's."""
    theta = tuple(t if t == sp.oo else t + s for t, s in zip(law.grams["Theta"], shares))
    if law.norm_difference is not None:
        return (*_unequal(law), _times(law.grams["J"][2], J_ab), _collect(theta[2], (Theta_ab,)))
    if law.distance is not None:
        J_, Theta_ = law.grams["J"], (_collect(theta[0], (Theta,)), _collect(theta[2], (Theta_ab,)))
        own = law.cov[0], _times(J_[0], J), Theta_[0]
        return (*own, law.cov[2], _collect(law.distance, (distance,)), _times(J_[2], J_ab), Theta_[1])
    if law.positions == 1:
        return law.cov[0], _times(law.grams["J"][0], J), _collect(theta[0], (Theta,))
    return (*law.cov, _times(law.grams["J"][2], J_ab), _collect(theta[2], (Theta_ab,)))


def _unequal(law: Gaussian) -> Exprs:
    """The next K_aa, K_bb, norm_angle, distance, K_ab of two inputs of any norms."""
    assert law.distance is not None and law.norm_difference is not None
    return (
        *law.cov[:2],
        law.norm_angle() if law.norm_difference else sp.S.Zero,
        _collect(law.distance, (distance,)),
        law.cov[2],
    )


def _collect(e: sp.Expr, symbols) -> sp.Expr:
    """σ²⟨f′²⟩Θ + μ²Θ → (σ²⟨f′²⟩ + μ²)Θ."""
    if e.has(sp.oo) or not e.has(*symbols):
        return e
    e = sp.expand(e, deep=False)
    for s in symbols:
        e = sp.collect(e, s)
    return e


def input_jacobian(block: Block) -> Recursion:
    r"""The recursion of (K, D0, J0) with the input dimension N_0 finite, every hidden layer infinitely wide.

    J0 = J^{0,l} = Σ_j ⟨(∂z/∂x_j)²⟩, σ_w² at layer 1; D0 = Σ_j ⟨z ∂z/∂x_j⟩²/J0, the share of the gradient that changes K
    itself: 0 ≤ D0 ≤ K, and D0 = σ_w² Q0/N_0 at layer 1. At N_0 → ∞, J0 = σ_w² J.

    Source: derived here (Stein's lemma at every layer; [partial_jacobians] (B.8) keeps the term of layer 2 only).
    """
    walk = Walk(variance_share=D0)  # per J0 of the block's start, as the tangents are
    law = walk.ended(untrained(block), gaussian(Gaussian(1, (K,), {"J0": (sp.S.One,)}))).law
    growth = law.grams["J0"][0]
    if growth == sp.oo:
        raise MeanFieldError("J0 is infinite at every layer (φ jumps or rises like √|z|).")
    state = (variable(K, _FIRST), variable(D0, sigma_w**2 * Q0 / N0), variable(J0, sigma_w**2))
    # factored, so that σ_w² cancels: at a layer with σ_w = 0 nothing of the input is left, and D0' = 0, not 0/0
    growth = sp.factor_terms(growth)
    share = sp.S.Zero if growth == 0 else walk.slope(law.cov[0]) ** 2 * D0 / growth
    found = recursion_of(state, walk, (law.cov[0], share, growth * J0))
    return replace(found, domain=(*found.domain, (N0, Domain(sp.S.One))))


_COV = (K_aa, K_bb, K_ab)
_BETWEEN = sigma_w**2 * Q0 * c0 + sigma_b**2


def _pair_state() -> list[StateVar]:
    return [variable(s, first) for s, first in zip(_COV, (_FIRST, _FIRST, _BETWEEN))]


def two_inputs(block: Block) -> Recursion:
    """The recursion of (K_aa, K_bb, K_ab) for two inputs with squared norms Q0 N_0 and correlation c0."""
    walk = Walk()
    law = walk.ended(untrained(block), gaussian(Gaussian(2, _COV))).law
    return recursion_of(_pair_state(), walk, law.cov, name="two_inputs")


def pair_tangents(block: Block, rate_names: Rates = ()) -> Recursion:
    """The recursion of (K_aa, K_bb, K_ab, J_ab, Theta_ab) for two inputs.

    J_ab = J_ab^{1,l}: Σ_j ⟨∂z_a/∂z_j ∂z_b/∂z_j⟩ of the same tangents pushed through both, 1 at layer 1; Theta_ab: the
    tangent kernel between them. Theta_ab is left out where Theta does not close.
    """
    state, one = [*_pair_state(), variable(J_ab, sp.S.One)], (sp.S.Zero, sp.S.Zero, sp.S.One)
    try:
        fields = {"J": one, "Theta": (sp.S.Zero, sp.S.Zero, Theta_ab)}
        walk, values, *before = _trained(block, _COV, fields, rate_names=rate_names)
    except TangentUnknown:
        walk = Walk()
        law = walk.ended(untrained(block), gaussian(Gaussian(2, _COV, {"J": one}))).law
        return recursion_of(state, walk, (*law.cov, _times(law.grams["J"][2], J_ab)), name="pair_tangents")
    state.append(variable(Theta_ab, _trained_first(rate_names, c0)))
    return recursion_of(state, walk, values, *before, name="pair_tangents")


def equal_norms(block: Block, rate_names: Rates = ()) -> Recursion:
    """The recursion of (K, J, Theta, K_ab, distance, J_ab, Theta_ab) for two inputs of one norm Q0 N_0, correlation c0.

    distance = ⟨(z_a - z_b)²⟩ = 2K - 2K_ab is followed by itself, distance' = σ_w² ⟨(φ_a - φ_b)²⟩ + μ²·distance, so that
    nothing is lost where the inputs come together. Theta and Theta_ab are left out where they do not close, J and Theta
    are ∞ where φ jumps.
    """
    one = (sp.S.One,) * 3
    start = [variable(K, _FIRST), variable(J, sp.S.One), variable(Theta, _trained_first(rate_names))]
    start += [variable(K_ab, _BETWEEN), variable(distance, 2 * sigma_w**2 * Q0 * (1 - c0)), variable(J_ab, sp.S.One)]
    start += [variable(Theta_ab, _trained_first(rate_names, c0))]
    cov = (K, K, K_ab)
    try:
        fields = {"J": one, "Theta": (Theta, Theta, Theta_ab)}
        walk, values, *before = _trained(block, cov, fields, distance, rate_names=rate_names)
    except TangentUnknown:
        walk, before = Walk(), []
        law = walk.ended(untrained(block), gaussian(Gaussian(2, cov, {"J": one}, distance))).law
        found = law.grams["J"]
        new_distance = _collect(law.distance, (distance,))
        values = (law.cov[0], _times(found[0], J), law.cov[2], new_distance, _times(found[2], J_ab))
        start = [v for v in start if not v.name.startswith("Theta")]
    nearer = ((K_ab, K - distance / 2, distance < K),)
    return recursion_of(start, walk, values, *before, name="equal_norms", closer=nearer)


def unequal_norms(block: Block, rate_names: Rates = ()) -> Recursion:
    """The recursion of (K_aa, K_bb, norm_angle, distance, K_ab, J_ab, Theta_ab) for two inputs of any norms.

    distance = K_aa + K_bb - 2K_ab is followed by itself as in `equal_norms`; its share of norms is sin²(norm_angle), of
    directions cos², sin(norm_angle) = (√K_aa - √K_bb)/√distance: nothing is lost where the inputs come together.
    """
    direction_part, roots = distance * sp.cos(norm_angle) ** 2, sp.sqrt(K_aa) * sp.sqrt(K_bb)
    norms = sp.sin(norm_angle) * (sp.sqrt(K_aa) + sp.sqrt(K_bb))
    one, both = (sp.S.Zero, sp.S.Zero, sp.S.One), (distance, norms, direction_part)
    own, between = _pair_state()[:2], _pair_state()[2:]
    first_distance = variable(distance, 2 * sigma_w**2 * Q0 * (1 - c0))
    start = [*own, variable(norm_angle, sp.S.Zero), first_distance, *between, variable(J_ab, sp.S.One)]
    # the cosine is known to a rounding of its angle, which may be ±π/2: of very unequal norms K_ab knows itself better
    nearer = ((K_ab, roots - direction_part / 2, distance * (sp.Abs(sp.cos(norm_angle)) + _ROUNDING) < 2 * roots),)
    try:
        fields = {"J": one, "Theta": (sp.S.Zero, sp.S.Zero, Theta_ab)}
        walk, values, *before = _trained(block, _COV, fields, *both, rate_names=rate_names)
    except TangentUnknown:
        walk = Walk()
        law = walk.ended(untrained(block), gaussian(Gaussian(2, _COV, {"J": one}, *both))).law
        values = (*_unequal(law), _times(law.grams["J"][2], J_ab))
        return recursion_of(start, walk, values, name="unequal_norms", closer=nearer)
    start.append(variable(Theta_ab, _trained_first(rate_names, c0)))
    return recursion_of(start, walk, values, *before, name="unequal_norms", closer=nearer)


def without_norm_angle(recursion: Recursion) -> Recursion:
    """The same maps in the state without `norm_angle`, as definitions and not as what floats can follow."""
    if "norm_angle" not in recursion.names:
        return recursion
    keep = [i for i, v in enumerate(recursion.state) if v.symbol != norm_angle]
    norms = sp.sqrt(K_aa) - sp.sqrt(K_bb)
    known = {sp.sin(norm_angle): norms / sp.sqrt(distance), norm_angle: sp.asin(norms / sp.sqrt(distance))}
    kept = replace(
        recursion,
        state=tuple(recursion.state[i] for i in keep),
        block=recursion.block.pick(keep),
        head=tuple(s.pick(keep) for s in recursion.head),
        closer=(),
    )


    def plain(e: sp.Expr) -> sp.Expr:
        e = e.subs(distance * sp.cos(norm_angle) ** 2, distance - norms**2).xreplace(known)
        return e.xreplace({1 - norms**2 / distance: (distance - norms**2) / distance})

    return kept.map(plain)


SMALLEST = 4  # of a batch: ⟨1/χ²_{B-1}⟩ = 1/(B - 3)

#: what is asked, in the place of these recursions, of positions that act on each other: by what acts (`kind_of`), made
#: of the block, its input layer and the size of the batch
ACTING: Registry[str, Callable[[Block, Dense, int | None], Any]] = Registry()


def kind_of(block: Block) -> str:
    """"batch" or "tokens", where positions of a block act on each other; "" where they do not.

    Raises: MeanFieldError where they do in both ways.
    """
    kinds = mixing(block)
    if len(kinds) > 1:
        raise MeanFieldError(
            "A BatchNorm and a Dense on the tokens, or an Attention, in one block were asked for: two tokens of one "
            "input and those of two inputs are then unlike, which is not derived; measure it (meanfield.measure)."
        )
    return next(iter(kinds), "")


def skip_strength(block: Block) -> sp.Symbol | None:
    """The symbol of a block's outer skip, where it is one: critical lines and points take it to be < 1."""
    skip = skip_of(block)
    if skip is not None and isinstance(skip.mu, Param) and has_dense(skip.branch):
        return parameter(skip.mu.name)
    return None


def converges_at_once(block: Block) -> bool:
    """Whether K' = (constant) + μ²K: a LayerNorm hides K from the branch."""
    recursion = one_input(block).only("K")
    mu, skip = skip_strength(block), skip_of(block)
    strength = mu if mu is not None else value_of(skip.mu) if skip is not None else sp.S.Zero
    kept = strength**2 * K if skip is not None and has_dense(skip.branch) else sp.S.Zero
    return not sp.expand(recursion["K"] - kept).has(K)


def plain_form(block: Block) -> tuple[sp.Expr, sp.Expr] | None:
    """(f, μ) of a block with K' = σ_w²⟨f²⟩ + σ_b² + μ²K and χ_J = σ_w²⟨f′²⟩ + μ²: one Dense, last, without LayerNorm.

    None for every other block.
    """
    found = None if mixing(block) else _last_dense(block)
    if found is None:
        return None
    before, mu = found
    walk = Walk()
    x = walk(untrained(Sequential(before)), gaussian(Gaussian(1, (K,))))
    if not x.of_one_node:
        return None
    f = x.values()[0]
    if x.z_ratios != (1,) or f.has(K, Average) or x.law.cov != (K,):
        return None
    return walk.plain(f), mu


def one_dense(block: Block) -> sp.Expr | None:
    """μ of a block whose K and K_ab are σ_w²·(functions of K and c) + σ_b² + μ²·(themselves); None for others."""
    found = _last_dense(block)
    if found is None or any(map(has_norm, found[0])):
        return None
    return found[1]


def _last_dense(block: Block) -> tuple[tuple[Block, ...], sp.Expr] | None:
    """(what stands before the only Dense, a plain one, that a branch ends in; the strength of the skip around it)."""
    mu, skip = sp.S.Zero, skip_of(block)
    if skip is not None and has_dense(skip.branch) and skip.shortcut in (None, Projection()):
        mu, block = value_of(skip.mu), skip.branch
    *before, last = chain(block) or (block,)
    if not isinstance(last, Dense) or any(map(has_dense, before)):
        return None
    return (tuple(before), mu) if last.is_plain else None


def opened(block: Block) -> tuple[Block, dict[str, sp.Expr]] | None:
    """(the block whose only Dense, the last, has σ_w and σ_b of its own; what the record holds of them as numbers).

    None where nothing is held, or the block is none that `plain_form` knows.
    """
    skip = skip_of(block)
    if skip is not None:
        inner = opened(skip.branch)
        return None if inner is None else (replace(skip, branch=inner[0]), inner[1])
    *before, last = chain(block) or (block,)
    if not isinstance(last, Dense) or any(map(has_dense, before)):
        return None
    given = {name: getattr(last, name) for name in ("sigma_w", "sigma_b")}
    held = {name: value_of(v) for name, v in given.items() if not isinstance(v, Param | Schedule)}
    free = replace(last, **{name: Param(name) for name in held})  # type: ignore[arg-type]
    if not held or not free.is_plain:
        return None
    return (Sequential((*before, free)) if before else free), held


# ------------------------------------------------------------------------------------------------- averages of φ


def one_input_averages(phi: Activation) -> dict[str, sp.Expr]:
    """⟨φ⟩, ⟨φ²⟩ and ⟨φ′²⟩ over N(0, K), as nodes; the last is ∞ where φ jumps."""
    p = phi.pieces
    return {"phi": average(p.expr, K), "phi^2": average(p.map(lambda e: e**2).expr, K), "phi'^2": slope_average(phi)}


def slope_average(phi: Activation, cov=None) -> sp.Expr:
    """⟨φ′φ′⟩ in the weak sense: one input ⟨φ′²⟩_K (∞ where φ jumps or rises like √|z|), two inputs ∂⟨φφ⟩/∂K_ab."""
    if cov is None:
        if too_steep(phi.pieces):
            return sp.oo
        square = average(phi.pieces.diff().map(lambda e: e**2).expr, K)
        try:  # where no series shows it
            square.doit()
        except InfiniteAverage:
            return sp.oo
        return square
    node = average(phi.pieces.expr * phi.pieces.expr.xreplace({Z[0]: Z[1]}), cov)
    return node.derivative_cov(0, 1) if isinstance(node, Average) else _scaled_slope(node)


def _scaled_slope(node: sp.Expr) -> sp.Expr:
    coefficient, inner = node.as_independent(Average)
    if not isinstance(inner, Average):
        raise NoClosedForm(f"{node} is not a multiple of one average.")
    return coefficient * inner.derivative_cov(0, 1)
