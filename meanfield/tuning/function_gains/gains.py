r"""`gains`: what to multiply the output of a function with, so that a forward or a backward pass keeps its size.

Of a φ whose input is normal, of variance K: 1/sd φ, 1/√⟨φ²⟩, its backward counterpart 1/√⟨φ′²⟩, σ_w at K′ = K, which
is σ_w²⟨φ²⟩ = K, and at J = 1, σ_w²⟨φ′²⟩ = 1; the same of a gated unit u·φ(v), whose gradient has the two terms ⟨φ²⟩ and
K⟨φ′²⟩; and of a softmax row, by Φ = ⟨Σ A_s²⟩ and its slope. Averages are the engine's nodes: closed forms where there
are any, else balls; of softmax rows decimals with an estimated error. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import sympy as sp

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError, Solution, Status
from meanfield.base.arguments import shown, validated, whole
from meanfield.functions.activations import Activation, activations
from meanfield.functions.activations import activation as read
from meanfield.functions.balls import certified
from meanfield.functions.reading.parser import number
from meanfield.functions.zeros import sign
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.averages.nodes.overlap import Overlap, overlap, overlap_slope
from meanfield.symbolic.recursion import closed
from meanfield.tuning.function_gains.gain_records import Gains, SoftmaxGains

DIGITS, SOFTMAX_DIGITS, MOST_DIGITS = 30, 16, 10_000  # of a number unless asked for otherwise; at most
MOST_TOKENS = 10_000_000
GUARD, TINY = 5, 5e-324  # digits beyond; the least error that is said
#: names of gated units, and the function inside
GATES = {"glu": "sigmoid", "swiglu": "silu", "geglu": "gelu", "reglu": "relu", "bilinear": "linear"}


@overload
def gains(activation: Literal["softmax"], *, tokens: Any, scores: Any, digits: int | None = None) -> SoftmaxGains: ...


@overload
def gains(activation: Any, variance: Any = 1, *, digits: int | None = None) -> Gains: ...


@validated
def gains(
    activation: Any, variance: Any = 1, *, tokens: Any = None, scores: Any = None, digits: int | None = None
) -> Gains | SoftmaxGains:
    r"""The factors that keep signals and gradients at size 1 behind φ: "what is the right gain for silu?"

    activation: φ in any form that `mf.activation` reads, whose input z is normal of mean 0 and of this `variance` K,
    a number > 0 (exact, or text). `Gains` holds 1/sd φ(z), 1/rms φ(z), its backward counterpart 1/√⟨φ′²⟩, and σ_w of
    the matrix behind φ (weights of deviation σ_w/√fan_in, no biases) to keep K, K′ = K, or the gradient, J = 1. Its
    `gate` is the same of u·φ(v), u and v made with σ = 1; "glu", "swiglu", "geglu", "reglu" and "bilinear" are that
    product alone.
    activation = "softmax": `SoftmaxGains` of a row over T = `tokens` entries whose scores have the standard deviation
    `scores`. digits: of each number, 30 unless given (16 of a softmax).

    Exact where there is a closed form, else certified by balls; of a softmax to an estimated error. What does not exist
    (⟨φ′²⟩ of a φ that jumps, ⟨φ²⟩ of one that grows too fast) is nan with a sentence, `Status.NONEXISTENT`.
    Raises: MeanFieldError for other arguments. Source: derived here; constants in public code are compared in the
    errata.

    >>> found = gains("silu")
    >>> print(found.unit_variance.evalf(20), found.unit_rms.evalf(8), found.sigma_w_backward.evalf(8))
    1.7871872221004419820 1.6765325 1.6233203
    >>> gains("gelu").second_moment.value
    sqrt(3)/(6*pi) + 1/3
    >>> gains("tanh").gain("sigma_w_forward") < 5/3
    True
    """
    count = None if digits is None else whole(digits, "digits", 1, MOST_DIGITS)
    if isinstance(activation, str) and activation.strip().lower() == "softmax":
        if number(variance, "variance") != 1:
            raise MeanFieldError(
                f"variance={shown(variance)} was given for a softmax; its input is given by scores=, a standard "
                "deviation."
            )
        return _softmax(tokens, scores, count or SOFTMAX_DIGITS)
    if tokens is not None or scores is not None:
        raise MeanFieldError(
            f"tokens= and scores= are of a softmax, and {shown(activation)} is none; give variance= for the input of φ."
        )
    K = number(variance, "variance")
    if sign(K) != 1:
        raise MeanFieldError(f"variance must be > 0, but {shown(variance)} was given; z = 0 always has no gains.")
    named = isinstance(activation, str) and activation not in activations()
    inside = GATES.get(activation.strip().lower()) if named else None
    found = _of(read(inside or activation), K, count or DIGITS)
    return found.gate if inside and found.gate is not None else found


Moment = Any  # an expression, or a Solution that says why there is none


def _of(phi: Activation, K: sp.Expr, digits: int) -> Gains:
    """The gains of φ, and of u·φ(v)."""
    f = phi.pieces
    mean, second = _moment(f.expr, K), _moment(f.map(lambda e: e**2).expr, K)
    slope = _slope_square(phi, K)
    gated, both = _combined(lambda q: K * q, second), _combined(lambda q, d: q + K * d, second, slope)
    gate = _made(f"u*{phi}(v)" if phi.name != "custom" else f"u*f(v), f(z) = {phi}", K, digits, sp.S.Zero, gated, both)
    return _made(str(phi), K, digits, mean, second, slope, gate)


def _made(
    what: str, K: sp.Expr, digits: int, mean: Moment, second: Moment, slope: Moment, gate: Gains | None = None
) -> Gains:
    """The gains of a function, or (without a gate) of a gated unit, from its three moments."""
    spread = _combined(lambda m, q: q - m**2, mean, second)
    spread = spread if spread != 0 else _absent("φ(z) is constant, and has no spread to divide by.")
    keeps = _combined(lambda q: K / q, second)
    flat = slope if slope != 0 else _absent("φ′ is 0 almost everywhere, and no σ_w has J = 1.")
    backward = _solution(_combined(lambda d: 1 / sp.sqrt(d), flat), digits)
    return Gains(
        what, K, digits,
        mean=_solution(mean, digits),
        second_moment=_solution(second, digits),
        slope_square=_solution(slope, digits),
        unit_variance=_solution(_combined(lambda v: 1 / sp.sqrt(v), spread), digits),
        unit_rms=_solution(_combined(lambda q: 1 / sp.sqrt(q), second), digits),
        unit_gradient=backward,
        sigma_w_forward=_solution(_combined(sp.sqrt, keeps), digits),
        sigma_w_backward=backward,
        gate=gate,
    )  # fmt: skip


def _moment(f: sp.Expr, K: sp.Expr) -> Moment:
    """⟨f⟩ at the variance K: its closed form, else its node."""
    try:
        found = closed(average(f, K))
        if found.atoms(Average) and not found.free_symbols:
            certified(found, 5)  # whether it exists shows where it is enclosed
        return found
    except InfiniteAverage as error:
        return _absent(str(error))


def _slope_square(phi: Activation, K: sp.Expr) -> Moment:
    """⟨φ′²⟩ in the weak sense, infinite where φ jumps."""
    jumps = phi.pieces.jumps()
    if jumps:
        at = ", ".join(str(b) for b, _ in jumps)
        return _absent(f"φ jumps at z = {at}: ⟨φ′²⟩ is infinite, and no σ_w has J = 1.")
    return _moment(phi.pieces.diff().map(lambda e: e**2).expr, K)


def _absent(why: str) -> Solution:
    return Solution(sp.nan, Status.NONEXISTENT, None, why)


def _combined(made: Callable[..., sp.Expr], *parts: Moment) -> Moment:
    """A function of moments, or why one of them does not exist."""
    missing = next((p for p in parts if isinstance(p, Solution)), None)
    return made(*parts) if missing is None else missing


def _solution(e: Moment, digits: int) -> Solution:
    """A closed form as it is; anything else certified. Symbols stay."""
    if isinstance(e, Solution):
        return e
    if not e.atoms(Average) or e.free_symbols:
        return Solution(e, Status.EXACT)
    value = certified(e, digits + GUARD)
    if not (value.is_finite() and value.rel_accuracy_bits() > 3.33 * digits):
        return Solution(sp.nan, Status.UNKNOWN, None, f"No ball of {digits} digits was found; ask for fewer.")
    held = sp.Float(value.mid().str(digits + GUARD, radius=False), digits + GUARD)
    rounded = abs(float(held)) * 10.0 ** (1 - digits - GUARD)
    return Solution(held, Status.CERTIFIED, max(float(value.rad()) + rounded, TINY))


def _softmax(tokens: Any, scores: Any, digits: int) -> SoftmaxGains:
    if tokens is None or scores is None:
        raise MeanFieldError(
            "The gains of a softmax depend on the number of tokens and on the standard deviation of their scores; give "
            'both, as in gains("softmax", tokens=1024, scores=1).'
        )
    T, s = whole(tokens, "tokens", 1, MOST_TOKENS), number(scores, "scores")
    if sign(s) not in (0, 1):
        raise MeanFieldError(f"scores is a standard deviation ≥ 0, but {shown(scores)} was given.")
    Phi, S = (_softmax_moment(e, digits) for e in (overlap(T, s**2), overlap_slope(T, s**2)))
    flat = S if S != 0 else _absent("The softmax of one token is 1, and no gradient reaches its score.")

    def value(made: Callable[..., sp.Expr], of: Moment) -> Solution:
        return _estimated(_combined(made, of), digits)

    return SoftmaxGains(
        "softmax", T, s, digits,
        overlap=_estimated(Phi, digits),
        slope=_estimated(S, digits),
        unit_average=value(lambda q: 1 / sp.sqrt(q), Phi),
        unit_entry=value(lambda q: sp.sqrt(T / q), Phi),
        unit_value_gradient=value(lambda q: 1 / sp.sqrt(q), Phi),
        unit_score_gradient=value(lambda q: 1 / sp.sqrt(q), flat),
        unit_entry_gradient=value(lambda q: sp.sqrt(T / q), flat),
    )  # fmt: skip


def _softmax_moment(e: sp.Expr, digits: int) -> sp.Expr:
    """An exact number, or its decimals: what the rule of softmax rows leaves out is estimated."""
    return sp.N(e, digits + GUARD) if e.atoms(Overlap) else e


def _estimated(e: Moment, digits: int) -> Solution:
    if isinstance(e, Solution):
        return e
    if not e.has(sp.Float):
        return Solution(e, Status.EXACT)
    return Solution(sp.N(e, digits + GUARD), Status.MEASURED, max(abs(float(e)) * 10.0**-digits, TINY))
