"""Frozen records that describe a network. No SymPy here: the theory and the finite-width checker both read them.

A network is an input layer `Dense` (no skip, no activation), followed by one *block* repeated: layer l + 1 =
block(layer l). A block maps preactivations z^l to preactivations z^{l+1}; the usual one is
`Sequential((Nonlinearity(phi), Dense()))`, z^{l+1} = σ_w N^{-1/2} W φ(z^l) + σ_b b, optionally inside `Residual(...,
mu)`, which adds μ z^l.

`Network(block, first)` holds both, where the input layer has σ's of its own.

A signal has positions (the inputs of a batch, and the tokens of each) and neurons. Dense, Gate, LayerNorm and Pool act
on the neurons of every position alike; BatchNorm and Dense(axis="tokens") are the records that mix positions.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Hashable
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from typing import Any, TypeVar

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, count_of, flag, name_of, printable, record, scalar, shown, validated, whole
from meanfield.base.leading import Registry
from meanfield.base.quantities import CARRIED
from meanfield.base.scalars import SCALARS, number_of
from meanfield.networks.pooling import pool_kind


class _Shown:
    """A record that shows itself as it is written: what has no default first, then what differs from its default."""

    def __repr__(self) -> str:
        parts = []
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            text = repr(value.text if isinstance(value, Constant) else getattr(value, "written", value))
            if f.default is MISSING:
                parts.append(text)
            elif value != f.default:
                parts.append(f"{f.name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"


@record
@dataclass(frozen=True, repr=False)
class Param(_Shown):
    """A number that stays symbolic, known by its name (as `Param("mu")`).

    lower, upper: bounds that narrow what its place of use allows (a skip strength or a standard deviation is ≥ 0).

    >>> block = Residual(Sequential((Nonlinearity("relu"), Dense())), Param("a", upper=1))
    >>> print(derive(architecture=block).recursion("K").doit())
    K' = K*a**2 + K*sigma_w**2/2 + sigma_b**2
    """

    name: str
    lower: int | Fraction | Constant | None = None
    upper: int | Fraction | Constant | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise MeanFieldError(f"A Param is known by a name such as 'mu', but {shown(self.name)} was given.")
        name_of(self.name, "The name of a Param")
        for end in ("lower", "upper"):
            value = getattr(self, end)
            if value is not None:
                object.__setattr__(self, end, _bound(value, f"The {end} bound of {self.name}"))
        if self.lower is not None and self.upper is not None and float(self.lower) > float(self.upper):
            raise MeanFieldError(f"No value of {self.name} is ≥ {self.lower} and ≤ {self.upper}.")


@dataclass(frozen=True)
class Constant:
    """A real number that is no fraction, exact as it is written: `Constant("sqrt(3)/2")`; `float` gives its value."""

    text: str

    def __float__(self) -> float:
        return float(_evaluate(self.text))

    def __lt__(self, other: object) -> bool:
        return float(self) < float(other)  # type: ignore[arg-type]

    def __le__(self, other: object) -> bool:
        return float(self) <= float(other)  # type: ignore[arg-type]

    def __gt__(self, other: object) -> bool:
        return float(self) > float(other)  # type: ignore[arg-type]

    def __ge__(self, other: object) -> bool:
        return float(self) >= float(other)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.text


Number = int | Fraction | Param | Constant


@record
@dataclass(frozen=True, repr=False)
class Schedule(_Shown):
    """A standard deviation that varies with depth: value · k^{−beta/2} L^{−total/2} in the k-th of L blocks (k = l − 1
    makes layer l, and a network of depth layers has L = depth − 1 blocks).

    The variance decays as k^{−beta} L^{−total}: total = 1 and beta = 0 are the branches of a network scaled by 1/√L.
    value ≥ 0, beta and total ≥ 0 are numbers or `Param`s; the value "sigma_w" or "sigma_b" is the network's own. The
    input layer is no block: k counts from 1 at the block that makes layer 2.
    Source: [variance_variation] Sec. 4, with variances as its formulas have it; total is derived here.

    >>> Schedule("sigma_v", 0, total=1)
    Schedule(Param('sigma_v'), 0, total=1)
    """

    value: Number
    beta: Number
    total: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", deviation_of(self.value, "The value of a Schedule"))
        object.__setattr__(self, "beta", _not_negative(self.beta, "The exponent beta of a Schedule"))
        object.__setattr__(self, "total", _not_negative(self.total, "The exponent total of a Schedule"))


def scheduled(block: int, blocks: int, value: float, beta: float, total: float) -> float:
    """The deviation of a `Schedule` of these numbers in one of L blocks; the input layer, 0, has that of the first."""
    deviation: float = value * max(block, 1) ** (-0.5 * beta) * max(blocks, 1) ** (-0.5 * total)
    return deviation


Deviation = Number | Schedule


class Block(_Shown):
    """A map of signals: the base of every record that a network is made of.

    A record of one's own is a frozen dataclass derived from it, with a rule for the theory
    (`meanfield.symbolic.recursions.coordinate_walk.rule`) and an operation for finite networks
    (`meanfield.empirical.network.operations.operation.operation`). What else is asked of a record is asked of these
    attributes and methods; an activation stands in a field of that name.

    mixes: the positions that act on each other in it ("batch", "tokens", "" for none). attends: whether by what they
    hold, as those of a softmax do. normalizes: what it divides by
    their standard deviation ("neurons", "batch", "" for nothing).

    >>> Residual(Sequential((Nonlinearity("tanh"), Dense()))).inner()
    (Sequential((Nonlinearity('tanh'), Dense())),)
    """

    @property
    def mixes(self) -> str:
        return ""

    @property
    def attends(self) -> bool:
        return False

    @property
    def normalizes(self) -> str:
        return ""

    def inner(self) -> tuple[Block, ...]:
        """The records that it is made of, in the order in which signals meet them: those in its fields."""
        return tuple(one for f in fields(self) for one in _blocks_in(getattr(self, f.name)))  # type: ignore[arg-type]

    def with_inner(self, made: tuple[Block, ...]) -> Block:
        """The same record made of others, which stand in the order of `inner`."""
        left, held = iter(made), {}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, Block):
                held[f.name] = next(left)
            elif _blocks_in(value):
                held[f.name] = tuple(next(left) if isinstance(one, Block) else one for one in value)  # type: ignore
        return replace(self, **held) if held else self  # type: ignore[type-var]

    def ways(self) -> tuple[Block, ...]:
        """The blocks that are given one and the same signal, and whose outputs are put together; () for one map."""
        return ()

    def untrained(self) -> Block:
        """The same map without gains and shifts that are trained."""
        return self

    def sizes(self, neurons: Size, tokens: Size, number: Callable[[Number], Size]) -> tuple[Size, Size]:
        """(neurons, tokens) after it, per neuron and token of the layer that is made; None where it is not known.

        number: the value of a number of the record.
        """
        return neurons, tokens


Size = Fraction | None


def _blocks_in(value: object) -> tuple[Block, ...]:
    if isinstance(value, Block):
        return (value,)
    return tuple(one for one in value if isinstance(one, Block)) if isinstance(value, tuple) else ()


_FIXED = ("sigma_w", "sigma_b", "Q0", "N0", "c0", "l", "z", "x", "C", "nan", "inf")
_RATES = ("lambda_w", "lambda_b", "input_ratio")
_ARGUMENTS = (*_RATES, "depth", "input_norm", "correlation", "quantities", "layerwise", "every_layer", "start", "line")
RESERVED = frozenset((*_FIXED, *_ARGUMENTS, *CARRIED))
OWN = (Param("sigma_w"), Param("sigma_b"))  # the network's own standard deviations, which verbs are given


def free_name(name: str, what: str) -> str:
    """`name`, unless it already means something in every recursion."""
    name = name_of(name, what)
    if name in RESERVED or name.lower() in RESERVED:
        raise MeanFieldError(
            f"{what} was to be the symbol {shown(name)}, which has a fixed meaning here; choose another name."
        )
    return name


def exact(value: object, what: str) -> Number:
    """`value` as an exact number or a `Param`: 0.1 means the decimal 1/10, "sqrt(3)/2" that number, a name a symbol."""
    if isinstance(value, (Param, Constant)):
        return value
    scalar(value, what)
    if isinstance(value, str) and value.strip().isidentifier() and value.strip() not in _NAMED:
        return Param(free_name(value.strip(), what))
    try:
        number = _evaluate(str(value))
        float(number)  # must not overflow
    except (ValueError, ArithmeticError, SyntaxError, MemoryError, RecursionError):
        given = shown(value)
        raise MeanFieldError(f"{what} must be a finite number or a symbol's name, but {given} was given.") from None
    if isinstance(number, float):
        return Constant(str(value).strip())
    return int(number) if number.denominator == 1 else number


def _bound(value: object, what: str) -> int | Fraction | Constant:
    number = exact(value, what)
    if isinstance(number, Param):
        raise MeanFieldError(f"{what} must be a number, but {shown(value)} was given.")
    return number


_NAMED = {"pi": math.pi, "E": math.e}


def _evaluate(text: str) -> Fraction | float:
    """The number that `text` spells: a Fraction where it is rational, else a double. Written apart from the parser of
    formulas, so that finite networks read a record by a route of their own."""
    if len(text) > 200 or re.search(r"[eE][-+]?\d{4}", text):  # no double, and 10^(10^9) would fill the memory
        raise ValueError(text)
    try:
        return Fraction(text.strip())
    except ValueError:
        pass
    value = _number_at(ast.parse(text.strip().replace("^", "**"), mode="eval").body, text.strip().replace("^", "**"))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(text)
    return value


def _number_at(node: ast.AST, text: str) -> Fraction | float:
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return Fraction((ast.get_source_segment(text, node) or "").replace("_", ""))
        case ast.Name(id=name) if name in _NAMED:
            return _NAMED[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=x):
            return -_number_at(x, text) if isinstance(node.op, ast.USub) else _number_at(x, text)
        case ast.Call(func=ast.Name(id=name), args=[x], keywords=[]) if name in SCALARS:
            inner = _number_at(x, text)
            return _root(inner) if name == "sqrt" else number_of(name, float(inner))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _number_at(left, text), _number_at(right, text)
            return _short(_power(a, b) if isinstance(op, ast.Pow) else _arithmetic(a, op, b))
    raise ValueError(text)


def _arithmetic(a: Fraction | float, op: ast.operator, b: Fraction | float) -> Fraction | float:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div():
            return a / b
    raise ValueError("only + - * / ** are read")


def _power(a: Fraction | float, b: Fraction | float) -> Fraction | float:
    if not -64 <= b <= 64:
        raise ValueError("an exponent beyond 64")
    if b == Fraction(1, 2):
        return _root(a)
    found = a**b
    if isinstance(found, complex):
        raise ValueError("not a real number")
    return found


def _root(a: Fraction | float) -> Fraction | float:
    """√a, exact where it is rational."""
    if isinstance(a, Fraction) and a >= 0:
        top, bottom = math.isqrt(a.numerator), math.isqrt(a.denominator)
        if top**2 == a.numerator and bottom**2 == a.denominator:
            return Fraction(top, bottom)
    return math.sqrt(a)


def _short(value: Fraction | float) -> Fraction | float:
    """Refuse rational numbers of thousands of digits before they are multiplied further."""
    if isinstance(value, Fraction) and max(abs(value.numerator), value.denominator).bit_length() > 2048:
        raise ValueError("too many digits")
    return value


@record
@dataclass(frozen=True, repr=False)
class Dense(Block):
    """A fully connected layer x → σ_w N^{-1/2} W x + σ_b b, with N the number of entries of x and b standard normal.

    weights: the law of W. "gaussian": independent standard normals. "orthogonal": √max(N, N′) times the N′ × N block of
    a Haar-distributed orthogonal matrix, so that every entry has variance 1; an input layer before such blocks is drawn
    alike. "mixed": the same, after a Gaussian input layer. "uniform": independent entries, uniform on [−√3, √3]
    (fourth cumulant −6/5), as usual initializers draw them; so is an input layer before such blocks. Biases are normal.
    sigma_w, sigma_b: the network's own unless given; then a number ≥ 0, a `Param` or a `Schedule`. The names "sigma_w"
    and "sigma_b" are the network's own wherever they stand.
    expand: outputs per neuron of the layer that is made (4: a hidden layer of four times the width), > 0; a `Param` may
    take one value per layer. axis: "neurons", or "tokens" for one matrix that mixes the tokens of every neuron alike,
    with as many biases as output tokens; `expand` is then outputs per input token.

    >>> block = Sequential((Nonlinearity("relu"), Dense(sigma_w=2, sigma_b=0)))
    >>> print(derive(architecture=block).recursion("K").doit())
    K' = 2*K
    """

    weights: str = "gaussian"
    sigma_w: Deviation = Param("sigma_w")
    sigma_b: Deviation = Param("sigma_b")
    expand: Number = 1
    axis: str = "neurons"

    def __post_init__(self) -> None:
        if isinstance(self.weights, (int, float)) and not isinstance(self.weights, bool):
            raise MeanFieldError(
                f"A Dense takes no number of neurons, but {self.weights} was given: widths are those of a run "
                "(width=512); a layer that is wider than its input by a factor is Dense(expand=4)."
            )
        for value, what, choices in ((self.weights, "weights", WEIGHTS), (self.axis, "axis", AXES)):
            choice(value, what, choices)
        for name in ("sigma_w", "sigma_b"):
            value = getattr(self, name)
            if not isinstance(value, Schedule):
                object.__setattr__(self, name, deviation_of(value, f"The {name} of a Dense"))
        object.__setattr__(self, "expand", exact(self.expand, "The factor expand of a Dense"))
        if not isinstance(self.expand, Param) and self.expand <= 0:
            raise MeanFieldError(f"The factor expand of a Dense must be > 0, but {self.expand} was given.")

    @property
    def is_plain(self) -> bool:
        """Whether it is a square map on neurons with the network's own σ_w and σ_b."""
        return replace(self, weights="gaussian") == Dense()

    @property
    def mixes(self) -> str:
        return "tokens" if self.axis == "tokens" else ""

    def sizes(self, neurons: Size, tokens: Size, number: Callable[[Number], Size]) -> tuple[Size, Size]:
        made = number(self.expand)
        return (neurons, made) if self.mixes else (made, tokens)


@record
@dataclass(frozen=True, repr=False)
class Nonlinearity(Block):
    """A coordinatewise map; `activation` is a registered name or any hashable activation record.

    >>> print(derive(architecture=Sequential((Nonlinearity("z**2"), Dense()))).recursion("K").doit())
    K' = 3*K**2*sigma_w**2 + sigma_b**2
    """

    activation: Hashable

    def __post_init__(self) -> None:
        value: object = self.activation
        wrong = isinstance(value, Block | type) or _is_plain_value(value) or not printable(value)
        if wrong or not isinstance(value, Hashable):
            raise MeanFieldError(
                f"A Nonlinearity holds an activation's name, a formula or a record, but {shown(value)} was given."
            )


@dataclass(frozen=True, repr=False)
class Norm(Block):
    """What divides a signal by its size; affine: whether γ and β, which are 1 and 0 at initialization, are trained."""

    affine: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "affine", flag(self.affine, "affine"))

    def untrained(self) -> Block:
        return replace(self, affine=False)


@record
@dataclass(frozen=True, repr=False)
class LayerNorm(Norm):
    """y → γ (y − mean(y))/sd(y) + β over the N neurons of one input, with γ = 1 and β = 0 at initialization.

    affine: whether γ and β are trained (then they enter the tangent kernel); the forward pass does not depend on it.

    >>> block = Sequential((LayerNorm(), Nonlinearity("relu"), Dense()))
    >>> print(derive(architecture=block).recursion("K").doit())
    K' = sigma_b**2 + sigma_w**2/2
    """

    @property
    def normalizes(self) -> str:
        return "neurons"


@record
@dataclass(frozen=True, repr=False)
class RMSNorm(Norm):
    """y → γ y/√(mean(y²)) over the N neurons of one input, with γ = 1 at initialization; affine: whether γ is trained.

    >>> block = Sequential((RMSNorm(), Nonlinearity("relu"), Dense()))
    >>> print(derive(architecture=block).recursion("K").doit())
    K' = sigma_b**2 + sigma_w**2/2
    """

    @property
    def normalizes(self) -> str:
        return "neurons"


@record
@dataclass(frozen=True, repr=False)
class BatchNorm(Norm):
    """y → γ (y − mean(y))/sd(y) + β over the positions, for each neuron apart (at least 3 positions say anything).

    sd² = mean((y − mean(y))²), nothing added to it; γ = 1 and β = 0 at initialization; affine: as for `LayerNorm`.

    >>> block = Sequential((BatchNorm(), Nonlinearity("z**2"), Dense()))
    >>> print(derive(architecture=block).recursion("K").doit())
    K' = sigma_b**2 + 3*sigma_w**2
    """

    @property
    def mixes(self) -> str:
        return "batch"

    @property
    def normalizes(self) -> str:
        return "batch"


@record
@dataclass(frozen=True, repr=False)
class AffineNorm(Block):
    """y → γy + β for each neuron, γ = 1 and β = 0 at initialization: the identity, whose γ and β are trained.

    They enter the tangent kernel as those of a `LayerNorm` do. Source: [autoinit] (49), (52).

    >>> block = Sequential((LayerNorm(affine=False), AffineNorm(), Nonlinearity("relu"), Dense()))
    >>> print(derive(architecture=block).recursion("Theta").doit())
    K' = sigma_b**2 + sigma_w**2/2
    Theta' = sigma_b**2 + sigma_w**2*(1 + Theta/(2*K)) + sigma_w**2/2
    """

    def untrained(self) -> Block:
        return Sequential(())


@record
@dataclass(frozen=True, repr=False)
class Pool(Block):
    """Each group of `size` ≥ 2 neighbouring neurons becomes one: f(z1, …, z_size); neurons that fill no group are left
    out.

    kind: "max" (their largest), "average" (their mean), or f as a formula in z1 … z_size for 2 ≤ size ≤ 4, which holds
    every one of them: "max(z1, z2) - min(z1, z2)", "sqrt(z1**2 + z2**2)". Formulas hold + - * / **, numbers as
    exponents, `a if c else b` and the functions of activations. Source: [bias_and_trainability] App. F, (57).

    >>> Pool(3, "z1*z2*z3")
    Pool(size=3, kind='z1*z2*z3')
    """

    size: int = 2
    kind: str = "max"

    def __post_init__(self) -> None:
        if isinstance(self.size, int | str) and not isinstance(self.size, bool) and count_of(self.size) == 1:
            raise MeanFieldError("A Pool over one node was asked for, which changes nothing; leave it out.")
        object.__setattr__(self, "size", whole(self.size, "The number of neurons of a Pool", 2, 1 << 24))
        object.__setattr__(self, "kind", pool_kind(self.kind, self.size))

    def sizes(self, neurons: Size, tokens: Size, number: Callable[[Number], Size]) -> tuple[Size, Size]:
        return (None if neurons is None else neurons / self.size), tokens


@record
@dataclass(frozen=True, repr=False)
class Scale(Block):
    """y → factor · y (LayerScale), the factor a number ≥ 0, a `Param` or a `Schedule` (`Schedule(1, 1)` is 1/√k in the
    k-th block).

    >>> branch = Sequential((Nonlinearity("relu"), Dense(), Scale("1/10")))
    >>> print(derive(architecture=Residual(branch)).recursion("J").doit())
    K' = K*sigma_w**2/200 + K + sigma_b**2/100
    J' = J*(sigma_w**2/200 + 1)
    """

    factor: Number | Schedule

    def __post_init__(self) -> None:
        if not isinstance(self.factor, Schedule):
            object.__setattr__(self, "factor", _not_negative(self.factor, "The factor of a Scale"))


@record
@dataclass(frozen=True, repr=False)
class Sequential(Block):
    """Blocks applied from left to right, given one after the other or as one tuple or list; none is the identity.

    >>> Sequential((Nonlinearity("tanh"), Dense())) == Sequential(Nonlinearity("tanh"), Dense())
    True
    """

    blocks: tuple[Block, ...]

    def __init__(self, *parts: object, blocks: object = None) -> None:
        given: object = parts if blocks is None else blocks
        if blocks is None and len(parts) == 1 and not isinstance(parts[0], Block):
            (given,) = parts
        if not isinstance(given, (tuple, list)):
            raise MeanFieldError(
                "A Sequential holds blocks, Sequential(Nonlinearity('tanh'), Dense()), but "
                f"{shown(given)} was given."
            )
        object.__setattr__(self, "blocks", tuple(block_of(one, "A part of a Sequential") for one in given))


@record
@dataclass(frozen=True, repr=False)
class Residual(Block):
    """x → branch(x) + μ x, with μ a number ≥ 0 or a `Param`; with a shortcut, x → branch(x) + μ shortcut(x).

    >>> block = Residual(Sequential((Nonlinearity("relu"), Dense())))
    >>> print(derive(architecture=block).recursion("J").doit())
    K' = K*sigma_w**2/2 + K + sigma_b**2
    J' = J*(sigma_w**2/2 + 1)
    """

    branch: Block
    mu: Number = 1
    shortcut: Block | None = None

    def __post_init__(self) -> None:
        block_of(self.branch, "The branch of a Residual")
        if self.shortcut is not None:
            block_of(self.shortcut, "The shortcut of a Residual")
        if isinstance(self.mu, Block):
            raise MeanFieldError(
                "A Residual holds one branch, and then the strength of its skip (mu); write Residual(Sequential(...)) "
                "around the blocks of the branch."
            )
        object.__setattr__(self, "mu", _not_negative(self.mu, "The skip strength mu"))

    def inner(self) -> tuple[Block, ...]:
        return (self.branch,) if self.shortcut is None else (self.shortcut, self.branch)

    def with_inner(self, made: tuple[Block, ...]) -> Block:
        return replace(self, branch=made[-1], shortcut=made[0] if len(made) == 2 else None)

    def ways(self) -> tuple[Block, ...]:
        return self.shortcut or Sequential(()), self.branch


def block_of(value: object, what: str) -> Block:
    """`value` if it is a block."""
    if isinstance(value, Network):
        raise MeanFieldError(
            f"{what} must be a block, but {shown(value)} is a whole network with its input layer; give its .block."
        )
    if isinstance(value, str) or type(value).__name__ == "Activation":
        name = shown(getattr(value, "name", value))
        raise MeanFieldError(f"{what} must be a block, but {shown(value)} was given; write Nonlinearity({name}).")
    if isinstance(value, (list, tuple)):
        raise MeanFieldError(
            f"{what} must be one block, but {len(value)} in a {type(value).__name__} were given; write "
            "Sequential(...) around them."
        )
    if not isinstance(value, Block):
        raise MeanFieldError(
            f"{what} must be a block (Dense, Nonlinearity, LayerNorm, RMSNorm, BatchNorm, AffineNorm, Pool, Scale, "
            f"Gate, Attention, Projection, Sequential, Residual), but {shown(value)} was given."
        )
    return value


def _is_plain_value(value: object) -> bool:
    """Whether a hashable value is a number, None, or a collection: nothing that could stand for a function."""
    return value is None or isinstance(value, (int, float, complex, Fraction, bytes, tuple, frozenset))


def _not_negative(value: object, what: str) -> Number:
    number = exact(value, what)
    if not isinstance(number, Param) and number < 0:
        raise MeanFieldError(f"{what} must be ≥ 0, but {number} was given.")
    return number


def deviation_of(value: object, what: str) -> Number:
    """A standard deviation: a number ≥ 0, a `Param`, or the network's own by its name."""
    named = Param(value.strip()) if isinstance(value, str) and value.strip().isidentifier() else value
    return named if isinstance(named, Param) and named in OWN else _not_negative(value, what)


NORMS = ("none", "pre", "act")
WEIGHTS = ("gaussian", "orthogonal", "mixed", "uniform")
AXES = ("neurons", "tokens")


@record
@dataclass(frozen=True, repr=False)
class Projection(Block):
    """x → N_^{−1/2} π x with π standard normal, N_ the number of entries of x; the identity where the layer that is
    made has N_ neurons, too.

    A shortcut between layers of different widths, drawn afresh at each of them and not trained. In the theory, which
    knows no widths, it is the identity on K, J and all that belongs to two inputs: `Residual(branch, 1, Projection())`.
    Raises, in the theory: MeanFieldError where it is given φ(z), or stands beside a branch without Dense.
    Source: [variance_variation] Sec. 4, its projection π with variance 1/N_.

    >>> Residual(Sequential((Nonlinearity("tanh"), Dense())), 1, Projection())
    Residual(Sequential((Nonlinearity('tanh'), Dense())), shortcut=Projection())
    """

    def sizes(self, neurons: Size, tokens: Size, number: Callable[[Number], Size]) -> tuple[Size, Size]:
        return Fraction(1), tokens


@record
@dataclass(frozen=True, repr=False)
class Gate(Block):
    """x → u ⊙ φ(v), neuron by neuron, u = value(x) and v = gate(x) two Dense with weights of their own.

    activation: φ, as a `Nonlinearity` holds it ("sigmoid": GLU, "gelu": GEGLU, "silu": SwiGLU, "z": a bilinear layer).
    value, gate: each a `Dense` on neurons with its own σ_w and σ_b; both make the same number of neurons. The next
    Dense makes a Gaussian of it. Raises: MeanFieldError for another record than a Dense, for one over tokens and for
    two of different `expand`. Source: the law of u ⊙ φ(v) is derived here.

    >>> Sequential((Gate("silu", Dense(expand=4), Dense(expand=4)), Dense()))
    Sequential((Gate('silu', value=Dense(expand=4), gate=Dense(expand=4)), Dense()))
    """

    activation: Hashable
    value: Dense = Dense()
    gate: Dense = Dense()

    def __post_init__(self) -> None:
        Nonlinearity(self.activation)  # what is no activation is refused as there
        for name in ("value", "gate"):
            given: object = getattr(self, name)
            if not isinstance(given, Dense):
                raise MeanFieldError(
                    f"The {name} of a Gate is a Dense, as in Gate('silu', Dense(), Dense()), but {shown(given)} was "
                    "given."
                )
            if given.axis != "neurons":
                raise MeanFieldError(
                    f"The {name} of a Gate mixes neurons, but a Dense over {given.axis} was given; put that Dense "
                    "before or behind the Gate."
                )
        if self.value.expand != self.gate.expand:
            raise MeanFieldError(
                "A Gate multiplies two vectors neuron by neuron, but its value has expand = "
                f"{shown(self.value.expand)} and its gate {shown(self.gate.expand)}; give both the same."
            )

    def inner(self) -> tuple[Block, ...]:
        return self.value, self.gate, Nonlinearity(self.activation)

    def with_inner(self, made: tuple[Block, ...]) -> Block:
        value, gate, phi = made
        return replace(self, value=value, gate=gate, activation=phi.activation)  # type: ignore[arg-type,attr-defined]

    def ways(self) -> tuple[Block, ...]:
        return self.value, Sequential((self.gate, Nonlinearity(self.activation)))


FIRST = Dense()  # the usual input layer


@record
@dataclass(frozen=True, repr=False)
class Network(Block):
    """A whole network: the input layer `first`, then `block` again and again.

    first: a `Dense` on the neurons, with σ's for layer 1 alone: numbers ≥ 0 or `Param`s. A record inside another block
    is a block; a Network is none. Raises: MeanFieldError for an input layer that is no such Dense.

    >>> Network(Sequential((Nonlinearity("tanh"), Dense())), Dense(sigma_w=1, sigma_b=0)).first
    Dense(sigma_w=1, sigma_b=0)
    """

    block: Block
    first: Dense = FIRST

    def inner(self) -> tuple[Block, ...]:
        return self.first, self.block

    def with_inner(self, made: tuple[Block, ...]) -> Block:
        return Network(made[1], made[0])  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        block_of(self.block, "The block of a Network")
        first: object = self.first
        if not isinstance(first, Dense) or first.axis != "neurons" or first.expand != 1:
            raise MeanFieldError(
                f"The input layer of a Network is a Dense on neurons with expand = 1, but {shown(first)} was given."
            )
        if isinstance(first.sigma_w, Schedule) or isinstance(first.sigma_b, Schedule):
            raise MeanFieldError(
                "The input layer of a Network has one value of each standard deviation, but a Schedule was given, "
                "which counts the blocks after it."
            )


def network_of(block: Block) -> Network:
    """A network as it is; a block, or anything that is to be refused as one, after the usual input layer."""
    return block if isinstance(block, Network) else Network(block)


#: whole networks by name: functions of an activation, whose keywords are numbers of the records
ARCHITECTURES: Registry[str, Callable[..., Block]] = Registry()
F = TypeVar("F", bound=Callable[..., Any])


def architecture(function: F) -> F:
    """Decorator: a whole network that `derive` knows by the function's name."""
    ARCHITECTURES[function.__name__] = function
    return function


@architecture
@validated
def mlp(activation: Hashable, mu: object = 0, weights: str = "gaussian", norm: str | None = None) -> Block:
    """One layer of a multilayer perceptron, `Dense(φ(z))`, plus μ z when `mu` is not 0.

    norm: "pre" normalizes the preactivations, Dense(φ(LN(z))); "act" the activations, Dense(LN(φ(z))); None or "none"
    neither. The skip carries z as it is.

    >>> mlp("tanh", mu=1, norm="pre")
    Residual(Sequential((LayerNorm(), Nonlinearity('tanh'), Dense())))
    """
    if norm is not None:
        choice(norm, "norm", NORMS)
    phi = Nonlinearity(activation)
    inner = {"pre": (LayerNorm(), phi), "act": (phi, LayerNorm())}.get(norm or "none", (phi,))
    plain = Sequential((*inner, Dense(weights)))
    strength = exact(mu, "The skip strength mu")
    return plain if strength == 0 else Residual(plain, strength)
