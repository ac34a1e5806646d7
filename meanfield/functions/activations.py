"""Activation: a frozen record (name, expression, parameters) from which everything else is derived; and the registry.

Adding one is one line in `_REGISTRY` (or `register(...)`): a formula in z and its default parameters. Kinks, parity,
homogeneity, Taylor coefficients and growth are read off the expression, never typed in.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Undetermined, one_line
from meanfield.base.arguments import record, scalar, shown, validated
from meanfield.base.arguments import text as text_of
from meanfield.base.symbols import Z, parameter, recognise, steep, z
from meanfield.base.words import ARGUMENTS, guess
from meanfield.functions import zeros
from meanfield.functions.elementary import mpmath_functions, vast
from meanfield.functions.growth import Bound, TailExpansion, bound, lower, tail
from meanfield.functions.piecewise import Pieces, half_line, pieces, real_roots
from meanfield.functions.reading.callables import UnreadableFunction, misread, named, nearest, refuse_together, traced
from meanfield.functions.reading.parser import (
    CONSTANTS,
    FUNCTIONS,
    Definition,
    canonical,
    close_names,
    expand,
    in_z,
    is_function,
    parse,
    refuse_complex,
    refuse_powers,
    refuse_vast,
)
from meanfield.functions.reading.spellings import CHOICES, INSTEAD, MODULES, SPELLINGS, SYNONYMS
from meanfield.functions.series.taylor import taylor
from meanfield.networks.records import free_name

LARGEST_COEFFICIENT = 10**300  # of numerators and denominators in a formula
LIMITS = "A quotient is not taken to its limit where its denominator is 0; write the function without the division."


@dataclass(frozen=True)
class Kink:
    """A break of φ at `location`: φ jumps by `jump`, φ′ by `slope_jump`."""

    location: sp.Expr
    jump: sp.Expr
    slope_jump: sp.Expr


@record
@dataclass(frozen=True)
class Activation:
    """A coordinatewise nonlinearity φ(z).

    `name` is a registered name or "custom"; `expression` holds φ in the symbol `meanfield.base.symbols.z`;
    `parameters` are pairs (name, exact value or symbol); `source` is the formula as it was written, registered names
    in it written out, and `arguments` are the values of the names in it (None where `source` is no formula, but a
    SymPy expression's text).

    >>> activation("gelu").parity, activation("tanh").parity
    (None, -1)
    """

    name: str
    expression: sp.Expr
    parameters: tuple[tuple[str, sp.Expr], ...] = ()
    source: str = field(default="", compare=False)
    arguments: tuple[tuple[str, sp.Expr], ...] | None = field(default=None, compare=False)

    @cached_property
    def pieces(self) -> Pieces:
        """The piecewise-smooth normal form in the canonical variable."""
        return pieces(self.expression.xreplace({z: Z[0]}), Z[0])

    @cached_property
    def kinks(self) -> tuple[Kink, ...]:
        slopes = self.pieces.diff()
        jump, slope = dict(self.pieces.jumps()), dict(slopes.jumps())
        return tuple(Kink(b, jump.get(b, sp.S.Zero), slope.get(b, sp.S.Zero)) for b in self.pieces.breaks)

    @property
    def is_continuous(self) -> bool:
        return not self.pieces.jumps()

    @cached_property
    def parity(self) -> int | None:
        """1 for even, -1 for odd, None for neither."""
        reflected = pieces(self.expression.subs(z, -z).xreplace({z: Z[0]}), Z[0])
        for sign in (1, -1):
            if reflected.breaks == self.pieces.breaks and all(
                _is_zero(a - sign * b) for a, b in zip(reflected.exprs, self.pieces.exprs)
            ):
                return sign
        return None

    @cached_property
    def homogeneity(self) -> sp.Expr | None:
        """The degree k with φ(λz) = λ^k φ(z) for λ > 0, or None."""
        if any(b != 0 for b in self.pieces.breaks):
            return None
        degrees = {sp.simplify(Z[0] * e.diff(Z[0]) / e) for e in self.pieces.exprs if e != 0}
        degree = degrees.pop() if len(degrees) == 1 else None
        return degree if degree is not None and degree.is_number else None

    def taylor(self, order: int, side: int = 1) -> tuple[sp.Expr, ...]:
        """Taylor coefficients φ^{(k)}(0±)/k!, k = 0…order, exact; `side` chooses the piece at a kink in 0."""
        return taylor(self.pieces.around_zero()[side > 0], Z[0], order)

    @cached_property
    def tails(self) -> tuple[TailExpansion, TailExpansion]:
        """Behaviour at -∞ and at +∞."""
        return tail(self.pieces.exprs[0], Z[0], -1), tail(self.pieces.exprs[-1], Z[0], 1)

    @cached_property
    def bound(self) -> Bound | None:
        """A rigorous |φ(z)| ≤ A (1+|z|)^p e^{c|z|}; None when the rules do not reach the expression."""
        found = []
        for e, lo, hi in self.pieces.intervals():
            found.append(bound(e, Z[0], half_line(lo, hi), (lo, hi)))
        return None if any(b is None for b in found) else Bound(*(max(getattr(b, k) for b in found) for k in "Apc"))

    @cached_property
    def free_parameters(self) -> frozenset[sp.Symbol]:
        """Parameters left symbolic."""
        return frozenset(self.expression.free_symbols - {z})

    @cached_property
    def is_decided(self) -> bool:
        """Whether the order of the switch points is known; False where it hangs on parameters left symbolic."""
        try:
            return bool(self.pieces.exprs)
        except Undetermined:
            return False

    def at(self, values: Mapping[str, sp.Expr]) -> Activation:
        """The record with numbers for parameters left symbolic; checked as a new formula is.

        Raises: MeanFieldError where the function is not real and finite there, or a parameter was declared positive.
        """
        swap = {s: values[s.name] for s in self.free_parameters if s.name in values}
        for s, v in swap.items():
            if s.is_positive and not v.is_positive:
                raise MeanFieldError(f"{s} = {v} was given for a parameter that was declared positive.")
        if not swap:
            return self
        given = tuple((k, v.subs(swap)) for k, v in self.parameters)
        arguments = None if self.arguments is None else tuple((k, v.subs(swap)) for k, v in self.arguments)
        expression = self.expression.subs(swap, simultaneous=True)
        if self.name == "custom":
            return replace(_custom(expression, self.source, arguments), parameters=given)
        return Activation(self.name, expression, given, self.source, arguments)

    @property
    def written(self) -> str | Activation:
        """What `activation` was given where a text says all of it, and else the record: how a Nonlinearity shows it."""
        if self.name != "custom":
            return str(self)
        return self if self.arguments is None or self.arguments or not self.source else self.source

    def __repr__(self) -> str:
        return one_line("Activation", str(self))

    def __str__(self) -> str:
        if self.name == "custom":
            return str(self.expression)
        defaults = {k: _value(v, k) for k, v in _REGISTRY[self.name][1].items()} if self.name in _REGISTRY else {}
        shown = ", ".join(f"{k}={v}" for k, v in self.parameters if v != defaults.get(k))
        return f"{self.name}({shown})" if shown else self.name


def _is_zero(e: sp.Expr) -> bool:
    if e == 0:
        return True
    free = sorted(e.free_symbols, key=str)
    for k in range(3):
        sample = {s: sp.Rational(37 + 11 * i + 29 * k, 41) * (-1) ** k for i, s in enumerate(free)}
        value = sp.N(e.subs(sample), 30)
        if abs(value) > 1e-25 or getattr(value, "_prec", 1) > 1:  # SymPy leaves one bit to what it cannot tell from 0
            return False
    if steep(e):  # SymPy would write out tanh(10^6) as a quotient of powers of e
        return bool(sp.expand(e) == 0)
    return bool(sp.simplify(e.rewrite(sp.exp)) == 0 or sp.simplify(e) == 0)


# name: (formula in z, parameters with defaults)
_OWN: dict[str, tuple[str, dict[str, object]]] = {}  # those that `register` added, as they were given
_REGISTRY: dict[str, tuple[str, dict[str, str]]] = {
    "linear": ("z", {}),
    "relu": ("Max(z, 0)", {}),
    "leaky_relu": ("z if z > 0 else alpha*z", {"alpha": "0.01"}),
    "scale_invariant": ("a_plus*z if z > 0 else a_minus*z", {"a_plus": "1", "a_minus": "0"}),
    "abs": ("abs(z)", {}),
    "step": ("1 if z > 0 else 0", {}),
    "sign": ("1 if z > 0 else -1", {}),
    "hard_tanh": ("clip(z, -1, 1)", {}),
    "relu6": ("clip(z, 0, 6)", {}),
    "relu2": ("Max(z, 0)**2", {}),
    "hard_swish": ("z*clip(z + 3, 0, 6)/6", {}),
    "tanh": ("tanh(z)", {}),
    "erf": ("erf(z)", {}),
    "erf_scaled": ("erf(s*z)", {"s": "sqrt(pi)/2"}),
    "sigmoid": ("sigmoid(z)", {}),
    "softsign": ("z/(1 + abs(z))", {}),
    "arctan": ("atan(z)", {}),
    "gelu": ("z*(1 + erf(z/sqrt(2)))/2", {}),
    "gelu_tanh": ("z*(1 + tanh(sqrt(2/pi)*(z + 0.044715*z**3)))/2", {}),
    "silu": ("z*sigmoid(z)", {}),
    "swish": ("z*sigmoid(beta*z)", {"beta": "1"}),
    "mish": ("z*tanh(softplus(z))", {}),
    "softplus": ("softplus(z)", {}),
    "elu": ("z if z > 0 else alpha*(exp(z) - 1)", {"alpha": "1"}),
    "selu": (
        "scale*z if z > 0 else scale*alpha*(exp(z) - 1)",
        {"scale": "1.0507009873554804934193349852946", "alpha": "1.6732632423543772848170429916717"},
    ),
    "sin": ("sin(z)", {}),
    "cos": ("cos(z)", {}),
    "gaussian": ("exp(-z**2/2)", {}),
    "monomial": ("z**n", {"n": "3"}),
    "polynomial": ("c0 + c1*z + c2*z**2 + c3*z**3", {"c0": "0", "c1": "1", "c2": "0", "c3": "-1/3"}),
}
_ALIASES = {
    "swish1": "silu",
    "identity": "linear",
    "heaviside": "step",
    "hardtanh": "hard_tanh",
    "atan": "arctan",
    "bump": "gaussian",
    "cubic": "polynomial",
}


@validated
def register(name: str, formula: str, **parameters: object) -> Activation:
    """Add an activation to this process's registry and return it at its default parameters.

    `formula` is read by the safe parser in the variable z; keyword arguments are parameter defaults (numbers or text).

    Raises: MeanFieldError if the name is taken (by another formula) or is not an identifier, the formula is not
    readable, or a parameter does not stand in it.

    >>> register("softcap3", "3*tanh(z/3)").parity
    -1
    """
    if isinstance(name, str) and name in _OWN and _OWN[name] == (formula, dict(parameters)):
        return activation(name)  # a notebook's cell that is run again
    if isinstance(name, str) and name in _OWN:
        raise MeanFieldError(f"{name} is registered already, as {_OWN[name][0]}; take another name.")
    taken = isinstance(name, str) and (_registered(name) is not None or name in FUNCTIONS or name in CONSTANTS)
    if not isinstance(name, str) or not name.isidentifier() or taken:
        raise MeanFieldError(
            f"An activation named {shown(name)} was to be registered; the name must be a new identifier."
        )
    free_name(name, "An activation")
    written = formula
    formula = expand(in_z(text_of(formula, "The formula"), tuple(parameters)), _definition, tuple(parameters))
    names = tuple(free_name(k, "A parameter") for k in parameters)
    read = parse(formula, names, (*_REGISTRY, *_ALIASES))
    if not read.has(z):
        raise MeanFieldError(f"{shown(formula)} does not depend on z; a constant is no activation.")
    _refuse_unused(names, read, written)
    _REGISTRY[name] = (formula, {k: _text(v, k) for k, v in parameters.items()})
    try:
        found = activation(name)
        _custom(found.expression, formula)  # refuses what is not real and finite on the whole line
        _OWN[name] = written, dict(parameters)
        return found
    except MeanFieldError:  # what cannot be read at its defaults is not left in the registry
        del _REGISTRY[name]
        raise


def _registered(name: str) -> str | None:
    """The registered name that `name` means: case and underscores do not count (ReLU, LeakyReLU), aliases do."""
    if name in _REGISTRY:
        return name
    short = canonical(name)
    found = next((n for n in _REGISTRY if canonical(n) == short), None)
    return found or next((full for alias, full in _ALIASES.items() if canonical(alias) == short), None)


def _spelled(name: str) -> Definition | None:
    """The formula of a name of another library; case and underscores do not count."""
    short = canonical(name)
    return next((given for own, given in SPELLINGS.items() if canonical(own) == short), None)


def _definition(name: str) -> Definition | None:
    """The formula and the default parameters of an activation that is called inside a formula."""
    found = None if name in FUNCTIONS or (name in SPELLINGS and name not in _REGISTRY) else _registered(name)
    if found is None:
        return None if name in FUNCTIONS else _spelled(name)
    formula, defaults = _REGISTRY[found]
    return (f"z**{defaults['n']}", {}) if found == "monomial" else (formula, defaults)


@validated
def activations() -> tuple[str, ...]:
    """The registered names, in alphabetical order.

    >>> len(activations()) > 20, "gelu" in activations()
    (True, True)
    """
    return tuple(sorted(_REGISTRY))


@validated
def activation(what: object, /, **parameters: object) -> Activation:
    """The record of an activation.

    `what` is a registered name ("tanh"; "ReLU" and "LeakyReLU" are found, too), a name with positional parameters
    ("leaky_relu(0.2)"), a formula in z ("z*erf(z)"), in which registered names stand for themselves at their default
    parameters ("z*mish(z)") or at those after the argument ("z + leaky_relu(2*z, 0.2)"), a SymPy expression in one
    symbol, an `Activation`, or a Python function: it is called on a symbol, or compared with the registered ones at
    260 points up to |z| = 10⁶ (to 1e-12; a torch module in single precision to 1e-6). Keyword arguments set registered
    parameters: exact decimals (0.2 or "0.2"), or a name, which leaves the parameter symbolic. For a formula they
    declare its symbols.

    >>> activation("swish", beta=2).expression
    z*sigmoid(2*z)
    """
    if isinstance(what, Activation):
        if parameters:
            raise MeanFieldError(
                f"Parameters {sorted(parameters)} were given with a finished Activation; give them with its name."
            )
        return what
    if isinstance(what, sp.FunctionClass) and 1 in what.nargs and what.nargs.is_finite_set:  # sympy.tanh
        what = what(z)
    if isinstance(what, sp.Expr):
        return _from_sympy(what, parameters)
    if callable(what) and not isinstance(what, type):
        return _from_function(what, parameters)
    if not isinstance(what, str):
        raise MeanFieldError(
            f"An activation must be a name, a formula or a SymPy expression, but {_given_as(what)} was given."
        )
    name, parameters = _as_named_here(text_of(what, "An activation").strip(), parameters)
    return _named(name, tuple(sorted((k, _text(v, k)) for k, v in parameters.items())))


def _given_as(what: object) -> str:
    """What was given for an activation in a reader's words."""
    if isinstance(what, type):
        return f"the class {what.__name__}, and not one of it such as {what.__name__}(),"
    return shown(what)


def _from_function(function: Callable[..., Any], parameters: dict[str, object]) -> Activation:
    """The activation that a Python function is: by calling it on a symbol, or by its values (`callables.nearest`)."""
    expr = traced(function)
    if expr is not None and not misread(function, expr):
        return _from_sympy(expr, parameters)
    if parameters:
        raise MeanFieldError(
            f"{sorted(parameters)[0]} was given beside a function, which says what it is; give a formula in z with it."
        )
    refuse_together(function)
    name, off, same = nearest(function, ((n, _named(n, ()).expression) for n in activations()))
    if same:
        return _named(name, ())
    expr = traced(function, _of_torch)
    if expr is not None:
        found = _from_sympy(expr, {})
        if nearest(function, [("", found.expression)])[2]:  # what was written down is what it does
            return found
    raise UnreadableFunction(
        f"{named(function)} cannot be read by calling it on a symbol, and agrees with no registered activation: {name} "
        f"comes nearest, {off:.2g} off. Give a formula in z, such as 'z*tanh(z)'; as it is, measure(...) takes it."
    )


#: functions of torch with arguments that no registered name has: formulas in z, torch's names of these, their defaults
_TORCH: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "celu": ("z if z > 0 else alpha*(exp(z/alpha) - 1)", {"alpha": 1}),
    "softplus": ("softplus(beta*z)/beta", {"beta": 1}),
    "hardtanh": ("clip(z, min_val, max_val)", {"min_val": -1, "max_val": 1}),
    "prelu": ("z if z > 0 else weight*z", {}),
    **dict.fromkeys(("clamp", "clip"), ("clip(z, low, high)", {})),
}


def _of_torch(name: str, given: Mapping[str, object]) -> sp.Expr | None:
    """The formula of one of torch's functions; None where it is not known."""
    try:
        if name not in _TORCH:
            text, more = _as_named_here(name, dict(given))
            return _named(text, tuple(sorted((k, str(_text(v, k))) for k, v in more.items()))).expression
        formula, defaults = _TORCH[name]
        own = {"min": "low", "max": "high"}
        values = {own.get(k, k): v for k, v in (dict(defaults) | dict(given)).items() if k != "threshold"}
        numbers = {k: v.item() if hasattr(v, "item") else v for k, v in values.items()}
        return _named(formula, tuple(sorted((k, repr(v)) for k, v in numbers.items()))).expression
    except (MeanFieldError, ValueError):  # a tensor of several numbers has no item
        return None


def _as_named_here(text: str, parameters: dict[str, object]) -> tuple[str, dict[str, object]]:
    """A name or a call, and keywords, as other libraries write them, in the words of this one: nn.GELU(approximate=
    'tanh') is gelu_tanh, negative_slope is alpha, inplace says nothing of the function."""
    call = re.fullmatch(r"(?:([\w.]+)\.)?(\w+)\s*(?:\((.*)\))?", text)
    if call is None or (call[1] and call[1] not in MODULES):
        return text, parameters
    name, inside = call[2], [p.strip() for p in (call[3] or "").split(",") if p.strip()]
    full = _registered(name) or name
    if full not in _REGISTRY and _spelled(name) is None:
        return text, parameters
    known = {k: v for k, v in parameters.items() if not (k == "inplace" and isinstance(v, bool))}
    inside = [p for p in inside if not re.fullmatch(r"inplace\s*=\s*(True|False)", p)]
    for other, own in SYNONYMS.get(canonical(full), {}).items():
        if other in known and own not in known:
            known[own] = known.pop(other)
        inside = [re.sub(rf"^{other}(?=\s*=)", own, p) for p in inside]
    for keyword, advice in INSTEAD.get(canonical(full), {}).items():
        if keyword in known or any(re.match(rf"{keyword}\s*=", p) for p in inside):
            raise MeanFieldError(f"{full} takes no {keyword} here; {advice}.")
    for keyword, meant in CHOICES.get(canonical(full), {}).items():
        given = [str(known.pop(keyword))] if keyword in known else []
        given += [m[2] for p in inside if (m := re.fullmatch(rf"{keyword}\s*=\s*(['\"])(\w+)\1", p))]
        inside = [p for p in inside if not re.match(rf"{keyword}\s*=", p)]
        for value in given:
            if value not in meant:
                choices = " or ".join(f"{v!r} ({other})" for v, other in meant.items())
                raise MeanFieldError(f"{keyword}={value!r} was given; it is {choices}.")
            name = meant[value] if meant[value] != full else name
    return (f"{name}({', '.join(inside)})" if inside else name), known


def _text(value: object, name: str) -> str:
    """A parameter's value as the text that the parser reads."""
    return str(scalar(value, f"The parameter {name}"))


def formula(text: str) -> sp.Expr:
    """The expression of a formula in z without parameters, registered names in it written out."""
    advice = "write the formula as a SymPy expression, where other symbols are parameters"
    return parse(expand(in_z(text), _definition), (), (*_REGISTRY, *_ALIASES, *SPELLINGS), advice)


@lru_cache(maxsize=512)
def _named(text: str, given: tuple[tuple[str, str], ...]) -> Activation:
    text = in_z(text, tuple(k for k, _ in given))
    call = re.fullmatch(r"(\w+)\s*(?:\((.*)\))?", text)
    name = _registered(call[1]) if call else None
    inside = re.findall(r"\b[a-zA-Z]\w*", call[2] or "") if call else []
    of_z = "z" in inside or any(is_function(word, _definition) for word in inside)
    if call and name is not None and of_z and call[2].strip() == "z" and _REGISTRY[name][1]:
        raise MeanFieldError(
            f"{shown(text)} was given, but the parentheses of {name} alone hold its parameters "
            f"({', '.join(_REGISTRY[name][1])}); write {name} for the default ones."
        )
    if call and name is not None and not of_z:
        formula, defaults = _REGISTRY[name]
        exact = {k: _value(v, k) for k, v in _arguments(name, defaults, call[2], given)}
        source = formula
        if name == "monomial":  # an exponent must be a number before the formula is read
            source, expr = formula, z ** _degree(exact["n"])
        else:
            expr = _given(parse(formula, tuple(defaults)), exact, text)
        return Activation(name, expr, tuple(exact.items()), source, tuple(exact.items()))
    if call and name is None and not of_z and (spelling := _spelled(call[1])) is not None:
        return _named(spelling[0], _arguments(call[1], spelling[1], call[2], given))
    names = tuple(free_name(k, "A parameter of the formula") for k, _ in given)
    written = expand(text, _definition, names)
    if call and call[2] is None and written == text and not re.fullmatch(r"z|\d+", text):
        hint = close_names(text, (*_REGISTRY, *_ALIASES, *SPELLINGS), _stands_alone)
        raise MeanFieldError(
            f"No activation is named {shown(text)}.{hint} Known: {', '.join(activations())}; or give a formula in z."
        )
    text = written
    expr = parse(text, names, (*_REGISTRY, *_ALIASES, *SPELLINGS))
    _refuse_unused(names, expr, text)
    values = {k: _value(v, k) for k, v in given}
    expr = _given(expr, values, text)
    known = {s.name: s for s in expr.free_symbols}  # a symbol may have become a positive one
    return _custom(expr, text, tuple((k, known.get(v.name, v) if v.is_Symbol else v) for k, v in values.items()))


def _refuse_unused(names: Iterable[str], read: sp.Expr, text: str) -> None:
    """Refuse a parameter that does not stand in a formula: a misspelt name would change nothing."""
    standing = {s.name for s in read.free_symbols} | set(re.findall(r"[^\W\d]\w*", text))  # one may have cancelled
    for name in names:
        if name not in standing:
            known = sorted(s.name for s in read.free_symbols - {z})
            held = ", ".join(known) or "none but z"
            raise MeanFieldError(f"{name} is no symbol of {shown(text)}, which has {held}.{_hint(name, known)}")


def _hint(name: str, known: list[str]) -> str:
    return "" if name in ARGUMENTS else guess(name, [*known, *ARGUMENTS])


def _stands_alone(name: str) -> bool:
    """Whether a name is an activation as it stands, so that it is worth suggesting: not log1p, not maximum."""
    try:
        return bool(_named(name, ()))
    except MeanFieldError:
        return False


def _arguments(
    name: str, defaults: Mapping[str, str | None], positional: str | None, given: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The parameters of a named activation, in their order: what stands in its parentheses, or was given by name, else
    the defaults."""
    inside = [p.strip() for p in positional.split(",")] if positional else []
    named = {m[1]: m[2] for p in inside if (m := re.fullmatch(r"(\w+)\s*=\s*(.+)", p))}
    first = inside[: len(inside) - len(named)]
    if len(first) > len(defaults):
        raise MeanFieldError(
            f"{name} takes {len(defaults)} parameter(s) ({', '.join(defaults) or 'none'}) in its parentheses, or "
            f"a function of z, but {shown(positional)} was given."
        )
    values = dict(defaults) | dict(zip(defaults, first)) | named | dict(given)
    unknown = {*named, *dict(given)} - set(defaults)
    if unknown:
        raise MeanFieldError(
            f"{name} has no parameter {shown(sorted(unknown)[0])}; it has {', '.join(sorted(defaults)) or 'none'}."
        )
    missing = [k for k, v in values.items() if v is None]
    if missing:
        raise MeanFieldError(f"{name} needs a value for {missing[0]}; write it as in derive({name!r}, {missing[0]}=1).")
    return tuple((k, v) for k, v in values.items() if v is not None)


def _given(expr: sp.Expr, values: dict[str, sp.Expr], text: str) -> sp.Expr:
    """A formula with the values of its parameters.

    A parameter that stays a symbol and is the exponent of something that vanishes is positive: else φ would be infinite
    there, or jump.
    """
    swap = {parameter(k): v for k, v in values.items()}
    refuse_powers(expr, swap, text)
    found = recognise(expr.subs(swap, simultaneous=True))
    if not any(e.exp.is_Symbol and e.base.has(z) for e in found.atoms(sp.Pow)):
        return found
    for e, lo, hi in pieces(found.xreplace({z: Z[0]}), Z[0]).intervals():
        for power in e.atoms(sp.Pow):
            p = power.exp
            if p.is_Symbol and not p.is_positive and _vanishes(power.base, lo, hi):
                found = found.subs(p, sp.Symbol(p.name, positive=True))
    return found


def _vanishes(base: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> bool:
    """Whether a smooth function of Z[0] is 0 somewhere in [lo, hi]."""
    if not base.has(Z[0]) or base.free_symbols != {Z[0]}:
        return False
    return any(base.subs(Z[0], end) == 0 for end in (lo, hi)) or bool(real_roots(base, Z[0], lo, hi))


def _value(text: str, name: str) -> sp.Expr:
    if text.isidentifier() and text not in ("pi", "E"):
        return parameter(free_name(text, f"The parameter {name}"))
    value = parse(text)
    if not value.is_number or not value.is_finite:
        raise MeanFieldError(
            f"The parameter {name} must be a finite number or a symbol's name, but {shown(text)} was given."
        )
    return value


def _degree(value: sp.Expr) -> sp.Expr:
    if not (value.is_Integer and 0 <= value <= 64):
        raise MeanFieldError(f"monomial needs an integer degree between 0 and 64, but {value} was given.")
    return value


def _from_sympy(expr: sp.Expr, parameters: dict[str, object]) -> Activation:
    declared = {sp.Symbol(k).name for k in parameters}
    free = sorted((s for s in expr.free_symbols if s.name not in declared), key=lambda s: s.name)
    if len(free) != 1:
        raise MeanFieldError(
            f"An activation must depend on one symbol, but {expr} has {[s.name for s in free] or 'none'}; "
            "declare the others as parameters (alpha='alpha')."
        )
    refuse_vast(expr, str(expr))
    _refuse_unused(parameters, expr.subs({s: parameter(s.name) for s in expr.free_symbols}), str(expr))
    swap = {free[0]: z} | {s: parameter(s.name) for s in expr.free_symbols if s.name in declared}
    values = {parameter(k): _value(_text(v, k), k) for k, v in parameters.items()}
    for s in expr.free_symbols:  # a symbol that stays one keeps the sign it was declared with: it orders breaks
        if s.is_positive and values.get(parameter(s.name)) == parameter(s.name):
            values[parameter(s.name)] = sp.Symbol(s.name, positive=True)
    replaced = expr.subs(swap, simultaneous=True).subs(values)
    if replaced.has(sp.I, sp.zoo, sp.nan, sp.oo, sp.Derivative, sp.Integral) or replaced.atoms(sp.Float):
        replaced = sp.nsimplify(replaced, rational=True)
        if replaced.has(sp.I, sp.zoo, sp.nan, sp.oo, sp.Derivative, sp.Integral):
            raise MeanFieldError(f"{expr} is not a real finite function of {free[0]}.")
    return _custom(replaced, str(expr))


def _custom(expr: sp.Expr, source: str, arguments: tuple[tuple[str, sp.Expr], ...] | None = None) -> Activation:
    expr = recognise(expr)
    refuse_complex(expr, source)
    if not expr.has(z):
        raise MeanFieldError(f"{shown(source)} does not depend on z; a constant is no activation.")
    record = Activation("custom", expr, (), source, arguments)
    # (10^30 z)^64, once a branch is chosen: no double holds its square
    for e in (expr, *(record.pieces.exprs if record.is_decided else ())):
        refuse_vast(e, source)
        if any(max(abs(c.p), c.q) > LARGEST_COEFFICIENT for c in e.atoms(sp.Rational)):
            raise MeanFieldError(f"{shown(source)} holds a coefficient that no double holds; rescale z.")
    free = sorted(record.free_parameters, key=lambda s: s.name)
    at = {s: sp.Rational(1, 3) for s in free}
    if not record.is_decided:
        return record  # numbers for the parameters decide, and are followed by the checks below
    intervals = [(e, lo.subs(at), hi.subs(at)) for e, lo, hi in record.pieces.intervals()]
    for e, lo, hi in intervals:
        _check_bases(e.subs(at), lo, hi, source)
        _check_poles(e.subs(at), lo, hi, source)
    for e, lo, hi in intervals:
        for end in (lo, hi):
            if end.is_finite and e.subs(at).subs(Z[0], end) in (sp.zoo, sp.oo, -sp.oo):
                raise MeanFieldError(f"{shown(source)} is infinite at z = {end}; it must be finite on the whole line.")
        if not free:
            _refuse_double_zeros(e, lo, hi, source)
    for e, lo, hi in intervals:  # 1/z, log(z), sqrt(z): refused where they are not real and finite
        for x in _probes(e, lo, hi):
            there = e.subs(at).subs(Z[0], x)
            if vast(there, 1e6) is not None:  # exp(exp(1e30)) is real and finite, and cannot be written out
                continue
            value = sp.N(there, 20)
            if not (value.is_real and value.is_finite):
                raise MeanFieldError(
                    f"{source!r} is not real and finite at z = {x}; it must be defined on the whole line."
                )
    return record


def _probes(e: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    """Where an expression that is not real or not finite on its piece would show: near the ends, far out, at poles."""
    a = lo if lo != -sp.oo else sp.Integer(-30)
    b = hi if hi != sp.oo else sp.Integer(30)
    points = [a + (b - a) * sp.Rational(k, 97) for k in (1, 13, 31, 48, 50, 67, 89, 96)]
    denominator = sp.denom(sp.together(e))
    polynomial = denominator.has(Z[0]) and denominator.is_polynomial(Z[0])
    if polynomial and all(c.is_Rational for c in sp.Poly(denominator, Z[0]).coeffs()):
        points += [r for r in sp.real_roots(denominator) if lo <= r <= hi]
    return points


def _check_poles(e: sp.Expr, lo: sp.Expr, hi: sp.Expr, source: str) -> None:
    """Refuse a denominator with irrational coefficients that has a real root (rational ones are probed exactly)."""
    denominator = sp.denom(sp.together(e))
    if not denominator.has(Z[0]) or not denominator.is_polynomial(Z[0]):
        return
    p = sp.Poly(denominator, Z[0])
    if all(c.is_Rational for c in p.coeffs()) or any(c.free_symbols for c in p.coeffs()):
        return
    if any((lower(s * denominator, Z[0], 0, (lo, hi)) or 0) > 0 for s in (1, -1)):
        return
    ends = [b for b in (lo, hi) if b not in (-sp.oo, sp.oo) and zeros.sign(denominator.subs(Z[0], b)) == 0]
    for r in ends or real_roots(denominator, Z[0], lo, hi):
        if zeros.compare(r, lo) >= 0 and zeros.compare(hi, r) >= 0:
            raise MeanFieldError(
                f"{source!r} is not real and finite near z = {float(r):.10g}; it must be defined on the whole line."
            )


def _refuse_double_zeros(e: sp.Expr, lo: sp.Expr, hi: sp.Expr, source: str) -> None:
    """Refuse a piece that is infinite where a denominator, or what a logarithm is taken of, touches 0 without a change
    of sign: 1/(cosh z - 1), log((z - 1)²)."""
    for p in sorted(e.atoms(sp.Pow, sp.log), key=str):
        h = p.args[0]
        if not h.has(Z[0]) or h is sp.E or not (isinstance(p, sp.log) or p.exp.is_negative):
            continue
        if any((lower(s * h, Z[0], 0, (lo, hi)) or 0) > 0 for s in (1, -1)):
            continue
        for r in _touches(h, lo, hi):
            below, above = zeros.compare(r, lo), zeros.compare(hi, r)
            if below < 0 or above < 0:
                continue
            if _grows(e, r, lo, hi):
                raise MeanFieldError(
                    f"{source!r} is not real and finite near z = {float(r):.10g}; it must be defined on the whole line."
                )
            if p.is_Pow and below > 0 and above > 0 and e.subs(Z[0], r).has(sp.nan, sp.zoo):
                raise MeanFieldError(f"{source!r} is 0/0 at z = {float(r):.10g}. {LIMITS}".replace("_z", "z"))


def _touches(h: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    """Zeros of h in [lo, hi]; of one with infinitely many, those of its extrema between ±8 that balls do not tell
    from 0 (1 + sin z)."""
    ends = [x for x in (lo, hi) if x.is_finite and zeros.sign(h.subs(Z[0], x)) == 0]
    with contextlib.suppress(MeanFieldError):
        return ends + zeros.real_zeros(h, Z[0], lo, hi)
    with contextlib.suppress(MeanFieldError):
        extrema = zeros.real_zeros(h.diff(Z[0]), Z[0], max(lo, sp.Integer(-8)), min(hi, sp.Integer(8)))
        return ends + [r for r in extrema if not zeros.sign(h.subs(Z[0], r))]
    return ends


def _grows(e: sp.Expr, r: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> bool:
    """Whether |e| grows without end next to r inside the piece, seen at three distances: z log z² does not. What
    has a finite limit does not, either."""
    for side in (1, -1):
        if (side == 1 and zeros.compare(hi, r) == 0) or (side == -1 and zeros.compare(r, lo) == 0):
            continue
        sizes = [abs(sp.N(e.subs(Z[0], r + side * sp.Rational(1, 10**k)), 15, maxn=2000)) for k in (10, 20, 40)]
        if all(v.is_comparable for v in sizes) and sizes[2] > sp.Rational(5, 4) * sizes[1] > 1.5 * sizes[0] > 0:
            with contextlib.suppress(Exception):  # SymPy's limits raise whatever their way ends with
                if sp.limit(e, Z[0], r, "+" if side == 1 else "-").is_finite:
                    continue  # 1 - |z|**0.001 rises for long, and to 1
            return True
    return False


def _check_bases(e: sp.Expr, lo: sp.Expr, hi: sp.Expr, source: str) -> None:
    """Refuse a piece where something under a root or a logarithm turns negative, or a denominator changes sign.

    Seen on a grid of 400 points, fine near 0: a probe, not a proof.
    """
    a, b = (float(lo) if lo != -sp.oo else -30.0), (float(hi) if hi != sp.oo else 30.0)
    fine = [s * 10.0 ** (k / 20) for k in range(-80, 30) for s in (1, -1)]
    points = sorted([a + (b - a) * (k + 0.5) / 180 for k in range(180)] + [x for x in fine if a < x < b])

    def value(f: Callable[[float], Any], x: float) -> Any:
        try:
            return f(x)
        except ZeroDivisionError:  # a pole, which the power that makes it answers for
            return 0.0

    for node in sorted(e.atoms(sp.Pow, sp.log, sp.tan), key=str):
        base = sp.cos(node.args[0]) if isinstance(node, sp.tan) else node.args[0]
        bad_root = isinstance(node, sp.log) or (node.is_Pow and not node.exp.is_Integer)
        if not base.has(Z[0]) or base is sp.E or not (bad_root or isinstance(node, sp.tan) or node.exp.is_negative):
            continue
        f = sp.lambdify(Z[0], base, [dict(mpmath_functions()), "mpmath"])
        values = [value(f, x) for x in points]
        if any(getattr(v, "imag", 0) != 0 for v in values):
            raise MeanFieldError(f"{source!r} is not real everywhere: {base} takes complex values.".replace("_z", "z"))
        signs = {1 if v.real > 0 else -1 if v.real < 0 else 0 for v in values}
        if -1 in signs and (bad_root or 1 in signs):
            limits = "" if bad_root or isinstance(node, sp.tan) else f" {LIMITS}"
            raise MeanFieldError(
                f"{source!r} is not real and finite everywhere: {base} changes sign on the real line.{limits}".replace(
                    "_z", "z"
                )
            )
