r"""Block rules: from an architecture record to its recursion, for any order of the blocks.

Between two Dense layers a coordinate is a function of a Gaussian, scale·(f(z) − shift) with z ~ N(0, v). Nonlinearity
composes f; LayerNorm sets shift = ⟨f⟩ and scale = 1/sd(f); Residual around a coordinatewise branch adds μ times what
entered; Dense closes: K → σ_w²⟨x²⟩ + σ_b², J → σ_w²⟨x′²⟩ J; Residual around a branch that ends in Dense adds μ² times
what entered, because fresh weights make the branch independent of the skip. A coordinate that is linear in z is again a
Gaussian, and becomes the new z where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy as sp

from meanfield.architecture import (
    Block,
    Dense,
    LayerNorm,
    Nonlinearity,
    Param,
    Residual,
    Sequential,
    activations_of,
    parts,
)
from meanfield.arguments import shown
from meanfield.functions.activations import Activation, activation
from meanfield.functions.parser import value_of
from meanfield.functions.piecewise import Pieces, pieces
from meanfield.functions.series.taylor import fractional
from meanfield.quantities import QUANTITIES
from meanfield.results import InfiniteAverage, MeanFieldError, NoClosedForm
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursion import Recursion, StateVar, c0
from meanfield.symbols import D0, J0, N0, Q0, J, K, K_aa, K_ab, K_bb, Theta, Z, sigma_b, sigma_w

after_norm = sp.Symbol(
    "after_norm", nonnegative=True
)  # 0 at layer 1, 1 from layer 2 on, in blocks that end in LayerNorm
Values = tuple[sp.Expr, ...]
_STATE = (K, K_aa, K_bb)


@dataclass(frozen=True)
class Signal:
    """What flows between blocks: one coordinate per input, scale·(f(z) − shift), and the state of the Gaussian z.

    values: the state variables that belong to z; functions: f, in Z[i] for input i; gains: (present z)/(the z that
    entered the block's branch), so that a skip can be written in the present z; sources: derivatives of the coordinate
    with respect to trained γ and β since the last Dense, functions of z.
    """

    values: Values
    functions: tuple[sp.Expr, ...]
    scales: tuple[sp.Expr, ...]
    shifts: tuple[sp.Expr, ...]
    gains: tuple[sp.Expr, ...]
    sources: tuple[sp.Expr, ...] = ()

    @property
    def is_linear(self) -> bool:
        return self.functions == Z[: len(self.functions)] and all(s == 0 for s in self.shifts)

    def coordinates(self) -> tuple[sp.Expr, ...]:
        """scale·(f − shift), one expression per input."""
        return tuple(s * (f - m) for s, f, m in zip(self.scales, self.functions, self.shifts))


class _OpenTangent(Exception):
    """γ and β of a LayerNorm whose output is a skip's input: their share of Θ depends on z in more and more ways."""


@dataclass(frozen=True)
class Rules:
    """How the state of z changes: through Dense, and when z is multiplied by a factor that may depend on the state."""

    variances: Callable[[Values], Values]
    dense: Callable[[Signal], Values]
    rescale: Callable[[Values, Values], Values]


def _fresh(values: Values, inputs: int, sources=()) -> Signal:
    one, zero = (sp.S.One,) * inputs, (sp.S.Zero,) * inputs
    return Signal(values, Z[:inputs], one, zero, one, sources)


def _settled(signal: Signal, rules: Rules) -> Signal:
    """The same signal with a linear coordinate taken as the Gaussian itself."""
    if not signal.is_linear or all(s == 1 for s in signal.scales):
        return signal
    back = {z: z / s for z, s in zip(Z, signal.scales)}
    one = (sp.S.One,) * len(signal.scales)
    return replace(
        signal,
        values=rules.rescale(signal.values, signal.scales),
        scales=one,
        gains=tuple(g * s for g, s in zip(signal.gains, signal.scales)),
        sources=tuple(a.xreplace(back) for a in signal.sources),
    )


def _walk(block: Block, signal: Signal, rules: Rules) -> Signal:
    match block:
        case Dense() if block.is_plain:
            return _fresh(rules.dense(_settled(signal, rules)), len(signal.functions))
        case Nonlinearity(record):
            return _nonlinearity(activation(record), _settled(signal, rules))
        case LayerNorm(affine):
            return _layer_norm(affine, signal, rules)
        case Sequential(blocks):
            for b in blocks:
                signal = _walk(b, signal, rules)
            return signal
        case Residual(branch, mu, None):
            strength = value_of(mu)
            return (_skip if has_dense(branch) else _inner_skip)(branch, strength, signal, rules)
    raise MeanFieldError(
        f"The block {shown(block)} has no rule in the theory yet; finite networks with it can be measured "
        "(meanfield.empirical.run_ensemble)."
    )


def has_dense(block: Block) -> bool:
    """Whether a block holds a Dense layer."""
    return any(isinstance(part, Dense) for part in parts(block))


def _nonlinearity(record: Activation, signal: Signal) -> Signal:
    phi, n = record.pieces, len(signal.functions)
    slope = phi.diff() if signal.sources else phi
    functions, sources = [], list(signal.sources)
    for i, x in enumerate(signal.coordinates()):
        if x == Z[i]:
            functions.append(phi.expr.xreplace({Z[0]: Z[i]}))
        else:
            functions.append(_composed(phi.expr, signal, i))
    if sources:
        if slope.jumps() and phi.jumps():
            raise MeanFieldError(f"{record} jumps, so the tangent kernel of a LayerNorm before it is infinite.")
        inner = signal.coordinates()[0]
        outer = slope.expr if inner == Z[0] else _composed(slope.expr, signal, 0)
        sources = [outer * a for a in sources]
    one, zero = (sp.S.One,) * n, (sp.S.Zero,) * n
    return replace(signal, functions=tuple(functions), scales=one, shifts=zero, sources=tuple(sources))


def _composed(outer: sp.Expr, signal: Signal, i: int) -> sp.Expr:
    """outer(scale·(f − shift)) in normal form: scales are positive, and a mean of something positive is, too."""
    scale, shift = signal.scales[i], signal.shifts[i]
    s = scale if scale.is_number else sp.Dummy("s", positive=True)
    m = shift if shift.is_number else sp.Dummy("m", positive=shift.is_positive, real=True)
    try:
        whole = pieces(outer.xreplace({Z[0]: s * (signal.functions[i] - m)}), Z[i]).expr
    except MeanFieldError as error:
        raise MeanFieldError(
            f"Where {outer} switches behind a LayerNorm of {signal.functions[i]} depends on a mean and a variance that "
            "change from layer to layer, and could not be found as a function of them; use an activation without "
            "kinks there.".replace("_z", "z")
        ) from error
    return whole.xreplace({s: scale, m: shift})


def _layer_norm(affine: bool, signal: Signal, rules: Rules) -> Signal:
    scales, shifts = [], []
    for i, (f, v) in enumerate(zip(signal.functions, rules.variances(signal.values))):
        if f == Z[i]:
            mean, variance = sp.S.Zero, v
        else:
            p = pieces(f.xreplace({Z[i]: Z[0]}), Z[0])
            mean, second = average(p.expr, v), average(p.map(lambda e: e**2).expr, v)
            variance = second - mean**2
        if variance == 0:
            raise MeanFieldError(
                "A LayerNorm acts on a coordinate that is the same in every neuron; its variance is 0."
            )
        scales.append(1 / sp.sqrt(variance))
        shifts.append(mean)
    old = signal.scales[0]
    out = replace(signal, scales=tuple(scales), shifts=tuple(shifts))
    sources = tuple(a * scales[0] / old for a in signal.sources)
    if affine:  # ∂/∂γ = the normalized coordinate, ∂/∂β = 1
        sources += (out.coordinates()[0], sp.S.One)
    return replace(out, sources=sources)


def _inner_skip(branch: Block, mu: sp.Expr, signal: Signal, rules: Rules) -> Signal:
    """x → branch(x) + μ x without fresh weights: the two depend on the same z."""
    inner = _walk(branch, replace(signal, gains=(sp.S.One,) * len(signal.gains)), rules)
    back = {z: z / g for z, g in zip(Z, inner.gains)}
    skip = [x.xreplace(back) for x in signal.coordinates()]
    total = [x + mu * y for x, y in zip(inner.coordinates(), skip)]
    gains = tuple(a * b for a, b in zip(signal.gains, inner.gains))
    old = tuple(a.xreplace(back) for a in signal.sources)
    sources = tuple(a + mu * b for a, b in zip(inner.sources, old)) + inner.sources[len(old) :]
    linear = [sp.cancel(t / z) for t, z in zip(total, Z)]
    if not any(c.has(*Z) for c in linear):
        zero = (sp.S.Zero,) * len(linear)
        return Signal(inner.values, Z[: len(linear)], tuple(linear), zero, gains, sources)
    one, zero = (sp.S.One,) * len(total), (sp.S.Zero,) * len(total)
    functions = tuple(pieces(t, z).expr for t, z in zip(total, Z))
    return Signal(inner.values, functions, one, zero, gains, sources)


def _skip(branch: Block, mu: sp.Expr, signal: Signal, rules: Rules) -> Signal:
    """x → branch(x) + μ x with fresh weights in the branch: independent Gaussians add."""
    signal = _settled(signal, rules)
    inner = _settled(_walk(branch, replace(signal, sources=()), rules), rules)
    if not signal.is_linear or not inner.is_linear or inner.sources:
        raise MeanFieldError(
            "A Residual adds a Gaussian to a skip that is not Gaussian, or its branch does not end in Dense; put the "
            "Nonlinearity inside the branch and end the branch with Dense()."
        )
    if signal.sources:
        raise _OpenTangent
    values = tuple(b + mu**2 * a for a, b in zip(signal.values, inner.values))
    return replace(inner, values=values, gains=(sp.S.One,) * len(signal.functions))


# ------------------------------------------------------------------------------------------- one input: K, J, Theta


def _moments(signal: Signal):
    """⟨x²⟩ and ⟨x′²⟩ of the coordinate x = scale·(f − shift); the second is ∞ where f jumps or rises like √|z|."""
    k, scale, shift = signal.values[0], signal.scales[0], signal.shifts[0]
    f = pieces(signal.functions[0], Z[0])
    mean = average if not signal.functions[0].has(*_STATE) else _average_of  # keep the state out of the nodes
    second = mean(f.map(lambda e: e**2).expr, k)
    slope = sp.oo if too_steep(f) else scale**2 * mean(f.diff().map(lambda e: e**2).expr, k)
    if shift == 0:
        total = scale**2 * second
    else:
        total = scale**2 * (second - 2 * shift * average(f.expr, k) + shift**2)
    return _tidy(total), slope


_T = sp.Dummy("t", positive=True)


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


def _tidy(e: sp.Expr) -> sp.Expr:
    """⟨f²⟩/⟨f²⟩ = 1 and its like, averages taken as symbols."""
    nodes = {a: sp.Dummy(f"a{i}", positive=True) for i, a in enumerate(sorted(e.atoms(Average), key=str))}
    flat = sp.cancel(e.xreplace(nodes))
    return flat.xreplace({v: a for a, v in nodes.items()}) if flat.count_ops() < e.count_ops() else e


def _dense_one(signal: Signal) -> Values:
    _, j, theta = signal.values
    second, chi = _moments(signal)
    new_k = sigma_w**2 * second + sigma_b**2
    if chi == sp.oo:
        return new_k, sp.oo, sp.oo
    x = signal.coordinates()[0]
    own = sp.Add(*[second if a == x else _average_of(a**2, signal.values[0]) for a in signal.sources])
    return new_k, sigma_w**2 * chi * j, sigma_w**2 * (chi * theta + own) + new_k


def _average_of(f: sp.Expr, cov) -> sp.Expr:
    """⟨f⟩ of a sum of (constant)·(function of z), the constants outside the nodes; of anything else, one node.

    A constant that stands inside a function (φ behind a LayerNorm) cannot leave it, and products multiplied out there
    would be dozens of averages, some of them of e^{+z²}.
    """
    if f.has(sp.Piecewise):
        return sp.Add(*[average(t, cov) for t in sp.Add.make_args(sp.expand(f))])
    names: dict[sp.Expr, sp.Symbol] = {}
    whole = _constants_named(f, names)
    terms = sp.Add.make_args(sp.expand(whole, deep=False, power_exp=False, power_base=False, log=False))
    if any(t.as_independent(*Z, as_Add=False)[1].has(*names.values()) for t in terms):
        terms = (whole,)
    return sp.Add(*[average(t, cov) for t in terms]).xreplace({v: c for c, v in names.items()})


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


ONE = Rules(lambda v: v[:1], _dense_one, lambda v, c: (_tidy(c[0] ** 2 * v[0]), *(c[0] ** 2 * x for x in v[1:])))


def _var(symbol: sp.Symbol, initial: sp.Expr) -> StateVar:
    """A state variable, carried as the registry says."""
    return StateVar(symbol.name, symbol, initial, QUANTITIES[symbol.name].carry)


def one_input(block: Block) -> Recursion:
    """The recursion of (K, J, Theta) for one input through `block`.

    K: second moment of a preactivation; J = J^{1,l}: averaged partial Jacobian norm; Theta: NTK trace per output, all
    weights, biases and LayerNorm gains trainable, in NTK parametrization. A discontinuous φ gives J = Theta = ∞. Theta
    is left out where a skip starts at the output of a trained LayerNorm: it does not close there.
    """
    first = sigma_w**2 * Q0 + sigma_b**2
    state = [_var(K, first), _var(J, sp.S.One)]
    try:
        return _with_tangent(block, state, first)
    except _OpenTangent:
        values = _closed_block(_untrained(block), _fresh((K, J, Theta), 1), ONE).values
        return Recursion(tuple(state), (values[0], _collect(values[1], (J,))))


def _untrained(block: Block) -> Block:
    """The same block with fixed γ and β."""
    match block:
        case LayerNorm():
            return LayerNorm(affine=False)
        case Sequential(blocks):
            return Sequential(tuple(_untrained(b) for b in blocks))
        case Residual(branch, mu):
            return Residual(_untrained(branch), mu, block.shortcut)
    return block


def _with_tangent(block: Block, state: list[StateVar], first: sp.Expr) -> Recursion:
    """(K, J, Theta), and what a LayerNorm at the end of the block leaves for the next one."""
    end = _closed_block(block, _fresh((K, J, Theta), 1), ONE)
    values = list(end.values)
    if end.sources:
        # γ and β of a closing LayerNorm belong to one coordinate each: their share of Θ depends on z, and the next
        # block must see it as such. It is absent at layer 1, whose input layer has no LayerNorm.
        share = sp.Add(*[_average_of(a**2, end.values[0]) for a in end.sources])
        before = tuple(sp.sqrt(after_norm) * a for a in end.sources)
        own = sp.Add(*[_average_of(a**2, K) for a in end.sources])
        end = _closed_block(block, _fresh((K, J, Theta - after_norm * own), 1, before), ONE)
        values = [*end.values[:2], sp.S.One, end.values[2] + share]
        state.append(StateVar("after_norm", after_norm, sp.S.Zero))
    state.append(_var(Theta, first))
    return Recursion(tuple(state), tuple(_collect(e, (J, Theta)) for e in values))


def _closed_block(block: Block, start: Signal, rules: Rules) -> Signal:
    end = _settled(_walk(block, start, rules), rules)
    if not end.is_linear:
        raise MeanFieldError(
            f"The block {block} does not end in Dense, so its output is not Gaussian; end it with Dense()."
        )
    return end


def _collect(e: sp.Expr, symbols) -> sp.Expr:
    """σ²⟨f′²⟩J + μ²J → (σ²⟨f′²⟩ + μ²)J."""
    if e.has(sp.oo) or not e.has(*symbols):
        return e
    e = sp.expand(e, deep=False)
    for s in symbols:
        e = sp.collect(e, s)
    return e


# --------------------------------------------------------------------------------- one input of finite dimension: J0


def _dense_zero(signal: Signal) -> Values:
    r"""K, C/C_in and J0 = Σ_j ⟨(∂_j z)²⟩ through Dense.

    (z, ∂_j z) is jointly Gaussian with covariance C_j = ½ ∂_j K, and x = c (f(z) - m) depends on K through c and m,
    too: ∂_j x = x_z ∂_j z + 2 C_j x_K. Stein's lemma gives ⟨(∂_j x)²⟩ = J_j ⟨x_z²⟩ + C_j² (2 c² d⟨f′²⟩/dK + 4 ⟨z x_z
    x_K⟩/K + 4 ⟨x_K²⟩).
    """
    k, a, j = signal.values
    c, m = signal.scales[0], signal.shifts[0]
    if signal.functions[0].has(Average, K):
        raise MeanFieldError(
            "J0 where a skip or a nonlinearity meets normalized activations between two Dense is not derived yet."
        )
    new_k, chi = _moments(signal)
    first = sigma_w**2 * new_k + sigma_b**2
    if chi == sp.oo:
        return first, sp.oo, sp.oo
    f = pieces(signal.functions[0], Z[0])
    second, slope = (average(g.map(lambda e: e**2).expr, K) for g in (f, f.diff()))
    here, c_k, m_k = {K: k}, _slope_in(c, k), _slope_in(m, k)
    extra = 2 * c**2 * sp.diff(slope, K).subs(here)
    if c_k != 0 or m_k != 0:
        # ⟨z f f′⟩ = K d⟨f²⟩/dK and ⟨z f′⟩ = 2K d⟨f⟩/dK
        second_k, mean_k = sp.diff(second, K).subs(here), sp.diff(average(f.expr, K), K).subs(here)
        extra += 4 * c * (c_k * (second_k - 2 * m * mean_k) - 2 * c * m_k * mean_k)
        extra += 4 * (c_k**2 * (second.subs(here) - m**2) + c**2 * m_k**2)
    return first, _slope_in(first, k) * a, sigma_w**2 * (chi * j + extra * a**2 * _SHARE)


def _slope_in(e: sp.Expr, k: sp.Expr) -> sp.Expr:
    """de/dk for an e that depends on the state through the variance k alone."""
    return sp.diff(e, K) / sp.diff(k, K) if k.has(K) else sp.S.Zero


def _rescale_zero(v: Values, c: Values) -> Values:
    k, a, j = v
    factor, slope = c[0], _slope_in(c[0], v[0])
    new_k, s = _tidy(factor**2 * k), a**2 * _SHARE
    return new_k, _slope_in(new_k, k) * a, factor**2 * j + s * (4 * factor * slope + 4 * slope**2 * k)


_SHARE = sp.Dummy("S", nonnegative=True)  # Σ_j C_j² where the block starts
ZERO = Rules(lambda v: v[:1], _dense_zero, _rescale_zero)


def input_jacobian(block: Block) -> Recursion:
    r"""The recursion of (K, D0, J0) with the input dimension N_0 finite, every hidden layer infinitely wide.

    J0 = J^{0,l} = Σ_j ⟨(∂z/∂x_j)²⟩, σ_w² at layer 1; D0 = Σ_j ⟨z ∂z/∂x_j⟩²/J0, the share of the gradient that changes K
    itself: 0 ≤ D0 ≤ K, and D0 = σ_w² Q0/N_0 at layer 1. At N_0 → ∞, J0 = σ_w² J.

    Source: derived here (Stein's lemma at every layer; [partial_jacobians] (B.8) keeps the term of layer 2 only).
    """
    new_k, ratio, new_j = _closed_block(_untrained(block), _fresh((K, sp.S.One, J0), 1), ZERO).values
    if new_j == sp.oo:
        raise MeanFieldError("J0 is infinite at every layer (φ jumps or rises like √|z|).")
    first = sigma_w**2 * Q0 + sigma_b**2
    growth = sp.diff(new_j, J0) + D0 * sp.diff(new_j, _SHARE)  # linear in J0 and S = D0 J0
    state = (
        _var(K, first),
        _var(D0, sigma_w**2 * Q0 / N0),
        _var(J0, sigma_w**2),
    )
    # factored, so that σ_w² cancels: at a layer with σ_w = 0 nothing of the input is left, and D0' = 0, not 0/0
    growth = sp.factor_terms(growth)
    return Recursion(state, (new_k, ratio**2 * D0 / growth, growth * J0))


# --------------------------------------------------------------------------------------------------- two inputs


def _dense_two(signal: Signal) -> Values:
    k_aa, k_bb, k_ab = signal.values
    f, g = signal.functions
    out = []
    for i, k in enumerate((k_aa, k_bb)):
        h = signal.functions[i].xreplace({Z[i]: Z[0]})
        one = Signal((k,), (h,), (signal.scales[i],), (signal.shifts[i],), (sp.S.One,))
        out.append(sigma_w**2 * _moments(one)[0] + sigma_b**2)
    mean = average if not (f * g).has(*_STATE) else _average_of
    cross = mean(f * g, (k_aa, k_ab, k_bb))
    if any(m != 0 for m in signal.shifts):
        m_a, m_b = signal.shifts
        cross = cross - m_a * average(g.xreplace({Z[1]: Z[0]}), k_bb) - m_b * average(f, k_aa) + m_a * m_b
    return (*out, sigma_w**2 * signal.scales[0] * signal.scales[1] * _tidy(cross) + sigma_b**2)


def _rescale_two(v: Values, c: Values) -> Values:
    return _tidy(c[0] ** 2 * v[0]), _tidy(c[1] ** 2 * v[1]), c[0] * c[1] * v[2]


TWO = Rules(lambda v: v[:2], _dense_two, _rescale_two)


def two_inputs(block: Block) -> Recursion:
    """The recursion of (K_aa, K_bb, K_ab) for two inputs with squared norms Q0 N_0 and correlation c0."""
    end = _closed_block(_untrained(block), _fresh((K_aa, K_bb, K_ab), 2), TWO)
    first = sigma_w**2 * Q0 + sigma_b**2
    state = (
        _var(K_aa, first),
        _var(K_bb, first),
        _var(K_ab, sigma_w**2 * Q0 * c0 + sigma_b**2),
    )
    return Recursion(state, end.values)


def plain_form(block: Block) -> tuple[sp.Expr, sp.Expr] | None:
    """(f, μ) of a block with K' = σ_w²⟨f²⟩ + σ_b² + μ²K and χ_J = σ_w²⟨f′²⟩ + μ²: one Dense, last, without LayerNorm.

    None for every other block.
    """
    mu: sp.Expr = sp.S.Zero
    if isinstance(block, Residual) and has_dense(block.branch):
        mu = value_of(block.mu)
        block = block.branch
    chain = block.blocks if isinstance(block, Sequential) else (block,)
    if not chain or not isinstance(chain[-1], Dense) or any(has_dense(b) for b in chain[:-1]):
        return None
    signal = _walk(Sequential(chain[:-1]), _fresh((K, J, Theta), 1), ONE)
    f = signal.functions[0]
    if signal.gains != (1,) or signal.scales != (1,) or signal.shifts != (0,) or f.has(K, Average):
        return None
    return f, mu


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


def describe(block: Block) -> str:
    """One line that names an architecture."""
    inner = ", ".join(str(activation(a)) for a in activations_of(block))
    return f"{_kind(block)}, {inner}"


def _kind(block: Block) -> str:
    match block:
        case Residual(branch, mu):
            return f"residual {_kind(branch)} (mu = {mu.name if isinstance(mu, Param) else mu})"
        case Sequential((LayerNorm(), Nonlinearity(), Dense())):
            return "MLP with LayerNorm on preactivations"
        case Sequential((Nonlinearity(), LayerNorm(), Dense())):
            return "MLP with LayerNorm on activations"
        case Sequential((Nonlinearity(), Dense())):
            return "MLP"
    return " → ".join(_names(block))


def _names(block: Block) -> list[str]:
    match block:
        case Sequential(blocks):
            return [n for b in blocks for n in _names(b)]
        case Residual(branch, mu):
            return [f"[{' → '.join(_names(branch))}] + {mu.name if isinstance(mu, Param) else mu} x"]
    return [type(block).__name__ if not isinstance(block, Nonlinearity) else "φ"]
