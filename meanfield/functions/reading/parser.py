"""Safe reading of formulas: a whitelist over Python's syntax tree; nothing is ever evaluated as code."""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Any

import sympy as sp
from sympy.core.relational import Relational

from meanfield.base.answers.named import reader
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import scalar, shown
from meanfield.base.symbols import parameter, recognise, z
from meanfield.functions.elementary import NAMES, vast, where
from meanfield.functions.reading.spellings import MODULES
from meanfield.networks.records import Number, Param

MAX_NESTED = 5  # functions inside functions; what only switches is not counted
MAX_LENGTH, MAX_NODES, MAX_EXPONENT, MAX_DIGITS = 600, 250, 64, 40
MAX_WRITTEN_OUT = 20_000  # characters, while names are written out

_CHOICES: dict[str, tuple[int | None, Callable[..., sp.Expr]]] = {
    "sqrt": (1, sp.sqrt),
    "sign": (1, sp.sign),
    **dict.fromkeys(("abs", "Abs"), (1, sp.Abs)),
    **dict.fromkeys(("Max", "max"), (None, sp.Max)),
    **dict.fromkeys(("Min", "min"), (None, sp.Min)),
    "relu": (1, lambda x: sp.Max(x, 0)),
    **dict.fromkeys(("Heaviside", "step"), (1, lambda x: sp.Heaviside(x, sp.S.Half))),
    "clip": (3, lambda x, a, b: sp.Min(sp.Max(x, a), b)),
}
#: name → (how many arguments, None: one or more; what it makes of them)
FUNCTIONS: Mapping[str, tuple[int | None, Callable[..., sp.Expr]]] = ChainMap(_CHOICES, NAMES)
CONSTANTS = {"pi": sp.pi, "E": sp.E}
_COMPARE = {ast.Lt: sp.Lt, ast.LtE: sp.Le, ast.Gt: sp.Gt, ast.GtE: sp.Ge}


def in_z(text: str, parameters: Collection[str] = ()) -> str:
    """A formula that is written in x in the variable z; with a z, or a parameter x, in it, as it is.

    >>> in_z("x*tanh(x)")
    'z*tanh(z)'
    """
    if "x" in parameters or re.search(r"\bz\b", text):
        return text
    return re.sub(r"\bx\b", "z", text)


def parse(text: str, parameters: Collection[str] = (), known: Collection[str] = (), advice: str = "") -> sp.Expr:
    """The SymPy expression that `text` spells, in the symbol z and the declared `parameters`.

    Numbers are exact decimals (0.1 is 1/10). Allowed: + - * / **, comparisons inside `a if c else b`, and the names in
    `FUNCTIONS` and `CONSTANTS`. Everything else (attributes, indexing, lambdas, keywords, calls of other names,
    exponents beyond 64) is refused.

    `known` are further names that a message may propose; `advice` is what to do about symbols without a value.

    Raises: MeanFieldError, one sentence naming the first thing that is not allowed.

    >>> parse("z*erf(z) + 0.5")
    z*erf(z) + 1/2
    """
    if len(text) > MAX_LENGTH:
        raise MeanFieldError(f"The formula has {len(text)} characters; at most {MAX_LENGTH} are read.")
    tree = _tree(text, text)
    try:
        expr = recognise(sp.sympify(_Reader(text, parameters, known, advice).read(tree.body)))
    except RecursionError:
        raise MeanFieldError(f"The formula {text[:40]!r}… is nested too deeply.") from None
    except (TypeError, ValueError, ArithmeticError) as error:  # SymPy compares what is not real: max(log(0), z)
        if isinstance(error, MeanFieldError):
            raise
        raise MeanFieldError(f"{shown(text)} is not a real finite function: {error}.") from None
    if _nested(expr, where("grows_exponentially")) > 2:
        raise MeanFieldError(
            f"{text[:80]!r} nests exponentials more than twice; no Gaussian average of it is finite or useful."
        )
    refuse_complex(expr, text)
    if expr.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I):
        raise MeanFieldError(f"{text[:80]!r} is not a real finite function: it reads as {expr}.")
    return expr


def _tree(text: str, written: str) -> ast.Expression:
    """The syntax tree of `text`, which stands for what the user has `written`."""
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        short = repr(written[:80])
        raise MeanFieldError(f"{short} is not a formula; write it like 'z*erf(z)' or 'Max(z, 0)**2'.") from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise MeanFieldError(f"The formula {written[:40]!r}… has more than {MAX_NODES} parts; give a simpler one.")
    return tree


Definition = tuple[str, Mapping[str, str | None]]  # a formula in z, its parameters and their defaults (None: none)


def expand(text: str, definition: Callable[[str], Definition | None], parameters: Collection[str] = ()) -> str:
    """`text` with every call of a defined name written out: the formula at its argument, with default parameters, or
    with those that follow the argument. A function's name in another case is spelled as in `FUNCTIONS`; a function
    without an argument, which is none of the `parameters`, is taken at z; np.tanh is tanh.

    >>> expand("z*Twice(z + 1) + Twice", lambda name: ("2*z", {}) if name == "Twice" else None)
    'z*(2*(z + 1)) + (2*z)'
    """
    spelled = {canonical(name): name for name in sorted(FUNCTIONS, reverse=True)}
    found = " ".join(text.replace("^", "**").split())
    if len(found) > MAX_LENGTH or not found.isascii():
        return text  # `parse` says what is wrong with it
    found = _called_at_z(found, text, lambda n: is_function(n, definition), {*parameters, *CONSTANTS, "z"})
    while True:
        if len(found) > MAX_WRITTEN_OUT:
            raise MeanFieldError(f"The formula {text[:40]!r}… is too long when its functions are written out.")
        calls = [n for n in ast.walk(_tree(found, text)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
        for call in calls:
            assert isinstance(call.func, ast.Name) and call.end_col_offset is not None
            name, head = call.func.id, slice(call.col_offset, call.end_col_offset)
            if name in FUNCTIONS:
                continue
            own = spelled.get(canonical(name), "")
            if own and FUNCTIONS[own][0] in (None, len(call.args)):  # np.heaviside takes two
                after = head.start + len(name)
                found = found[: head.start] + own + found[after:]
                break
            formula = definition(name)
            if formula is not None:
                found = found[: head.start] + f"({_called(name, formula, call, found, text)})" + found[head.stop :]
                break
        else:
            return found


def is_function(name: str, definition: Callable[[str], Definition | None]) -> bool:
    """Whether a name is a function of one number, or of one and parameters that have defaults."""
    found = definition(name)
    if found is not None:
        return None not in found[1].values()
    return any(canonical(own) == canonical(name) and arity == 1 for own, (arity, _) in FUNCTIONS.items())


def _called_at_z(text: str, written: str, is_function: Callable[[str], bool], others: Collection[str]) -> str:
    """`text` with modules taken off the functions called (np.tanh), and (z) put behind every function that stands
    without an argument: relu**2 is relu(z)**2."""
    tree = _tree(text, written)
    cut: list[tuple[int, int, str]] = []
    for node in ast.walk(tree):  # torch.nn.functional.relu before torch.nn.functional
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in MODULES:
            assert node.end_col_offset is not None
            if all(not start <= node.col_offset < end for start, end, _ in cut):
                cut.append((node.col_offset, node.end_col_offset, node.attr))
    for start, end, name in sorted(cut, reverse=True):
        text = text[:start] + name + text[end:]
    tree = _tree(text, written) if cut else tree
    empty = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and not n.args and not n.keywords]
    for node in sorted(empty, key=lambda n: n.col_offset, reverse=True):  # nn.GELU(), as PyTorch makes its modules
        if isinstance(node.func, ast.Name) and is_function(node.func.id):
            assert node.end_col_offset is not None
            text = text[: node.end_col_offset].rstrip(") (") + "(z)" + text[node.end_col_offset :]
    tree = _tree(text, written) if empty else tree
    heads = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    bare = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in heads and n.id not in others]
    for node in sorted(bare, key=lambda n: n.col_offset, reverse=True):
        if is_function(node.id):
            assert node.end_col_offset is not None
            text = text[: node.end_col_offset] + "(z)" + text[node.end_col_offset :]
    return text


def _called(name: str, formula: Definition, call: ast.Call, text: str, written: str) -> str:
    """The text of a defined function at the arguments of a call."""
    body, defaults = formula
    given = [text[a.col_offset : a.end_col_offset] for a in call.args]
    values = dict(zip(("z", *defaults), given))
    keywords = {k.arg: text[k.value.col_offset : k.value.end_col_offset] for k in call.keywords}
    named = {k: v for k, v in keywords.items() if k is not None and k in defaults}
    known = len(named) == len(call.keywords) and not named.keys() & values.keys()
    everything: dict[str, str | None] = {**defaults, **values, **named}
    if not known or not 1 <= len(given) <= 1 + len(defaults) or None in everything.values():
        raise MeanFieldError(
            f"{name} in {written[:80]!r} takes a function of z and then its parameters "
            f"({', '.join(defaults) or 'it has none'}), but {len(given) + len(call.keywords)} arguments were given."
        )
    final = {k: v for k, v in everything.items() if v is not None}
    return re.sub(
        r"\b[A-Za-z_]\w*", lambda m: f"{_inside(final[m[0]])}" if m[0] in final else m[0], " ".join(body.split())
    )


def _inside(text: str) -> str:
    """`text` as a part of a larger formula."""
    return text if re.fullmatch(r"\w+(\.\d+)?", text) else f"({text})"


OPERATORS: Mapping[type, str] = {
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}


def written_as(node: ast.AST) -> str:
    """A part of a formula as it may be quoted in a message."""
    return shown(ast.unparse(node))


def canonical(name: str) -> str:
    """A name without case and underscores: LeakyReLU and leaky_relu are the same one."""
    return name.lower().replace("_", "")


def close_names(name: str, known: Collection[str], works: Callable[[str], bool] = bool) -> str:
    """ " Did you mean a or b?" for a name that is not `known`, or nothing; only what `works` is offered."""
    shown = {canonical(n): n for n in known}
    near = difflib.get_close_matches(canonical(name), shown, n=3, cutoff=0.7)
    near += [c for c in shown if len(name) > 2 and c.startswith(canonical(name)) and c not in near]
    offered = [shown[c] for c in near if works(shown[c])][:3]
    return f" Did you mean {' or '.join(offered)}?" if offered else ""


@reader
def number(value: object, what: str) -> sp.Expr:
    """An exact finite number from an int, a Fraction, text (1.5, 3/2, sqrt(2), 1e-3) or a SymPy number; a float counts
    as the decimal it prints as.

    Raises: MeanFieldError, which calls the number `what`.

    >>> number("sqrt(3)/2", "mu"), number(0.1, "sigma_b")
    (sqrt(3)/2, 1/10)
    """
    text = str(value)
    if hasattr(value, "_sympy_"):  # a Solution; a text of its value might be too long to be read
        inner = value._sympy_()
        value = inner if isinstance(inner, sp.Expr) and not inner.has(sp.Float) else value
    if isinstance(value, sp.Expr) and not value.has(sp.Float):
        found = value
    elif isinstance(value, bool):
        found = sp.nan
    else:
        try:
            found = parse(text)
        except (MeanFieldError, ZeroDivisionError):
            try:  # very large or very small decimals, which `parse` refuses
                found = sp.nan if re.search(r"[eE][-+]?\d{4}", text) else sp.Rational(Fraction(text))
                if found is not sp.nan and abs(found) >= 2**1024:  # beyond a double it is as good as infinite
                    found = sp.nan
            except (ValueError, OverflowError, ZeroDivisionError):
                found = sp.nan
    if not (found.is_number and found.is_real and found.is_finite):
        raise MeanFieldError(
            f"{what} must be a finite number such as 1.5, 3/2 or sqrt(2), but {shown(value)} was given."
        )
    return found


def expression(value: object, what: str) -> sp.Expr:
    """`number` for text; SymPy expressions and floats are taken as they are. Text is parsed, never evaluated.

    Raises: MeanFieldError for what is no one finite real number.
    """
    if isinstance(value, (str, Fraction)):
        return number(value, what)
    given = scalar(value, what)
    return given if isinstance(given, sp.Expr) else sp.sympify(given if isinstance(given, int) else _plain(given))


def _plain(value: Any) -> sp.Expr:
    """A number of any type as SymPy's, decimals as they are."""
    plain = value.item() if hasattr(value, "item") else value
    return sp.Float(plain) if isinstance(plain, float) else sp.sympify(plain)


def value_of(given: Number) -> sp.Expr:
    """The number of an architecture record as an expression; a `Param` is its symbol."""
    return (
        parameter(given.name)
        if isinstance(given, Param)
        else number(getattr(given, "text", given), "A number of the architecture")
    )


def refuse_powers(expr: sp.Expr, values: Mapping[sp.Symbol, sp.Expr], text: str) -> None:
    """Refuse exponents that become too large (or no real numbers) when the parameters in them are given their values.

    Raises: MeanFieldError.
    """
    for power in expr.atoms(sp.Pow):
        b = power.exp.xreplace(dict(values))
        if not power.exp.free_symbols or not b.is_number:
            continue
        if not (b.is_real and b.is_finite) or _size(power.base, values) * max(1.0, abs(float(b))) > MAX_EXPONENT:
            raise MeanFieldError(
                f"The exponent {power.exp} in {text[:80]!r} becomes {shown(b)}, which is no number between "
                f"-{MAX_EXPONENT} and {MAX_EXPONENT}, or gives a degree (or digits) beyond that."
            )


def _size(e: sp.Expr, values: Mapping[sp.Symbol, sp.Expr] | None = None) -> float:
    """A bound of the polynomial degree of an expression (with `values` for the symbols in its exponents), or of the
    digits of a number: what a further power multiplies."""
    e = sp.sympify(e)
    if values and not e.has(z):
        e = e if e.has(sp.Pow) else e.xreplace(dict(values))
    if e.is_number:
        return 1.0 if e.is_zero else max(1.0, abs(math.log10(max(abs(float(e)), 1e-300)))) if e.is_Rational else 1.0
    if e.is_Add or e.is_Mul:
        parts = [_size(a, values) for a in e.args]
        return max(parts) if e.is_Add else sum(p for p, a in zip(parts, e.args) if not a.is_number) or 1.0
    if e.is_Pow and (power := e.exp.xreplace(dict(values)) if values else e.exp).is_number and power.is_real:
        return _size(e.base, values) * max(1.0, abs(float(power)))
    return 1.0


def refuse_complex(expr: sp.Expr, text: str) -> None:
    """Refuse functions inside functions beyond what is answered in seconds: SymPy asks every one of them whether its
    argument is real, and each asks again what is inside, so that time doubles with every level.

    Raises: MeanFieldError.
    """
    depth = _nested(expr, sp.Function, (sp.Piecewise, sp.Heaviside, sp.Abs, sp.sign))
    if depth > MAX_NESTED:
        raise MeanFieldError(
            f"{shown(text)} nests functions {depth} deep; at most {MAX_NESTED} are read, so that answers take seconds."
        )


def refuse_vast(expr: sp.Expr, text: str) -> None:
    """Refuse numbers that no double holds: finite networks could not be run with them.

    Raises: MeanFieldError.
    """
    if (number := vast(expr)) is not None:
        raise MeanFieldError(f"{shown(text)} holds {shown(number)}, which no double holds; rescale it.")


def _nested(e: sp.Basic, kinds: type | tuple[type, ...], without: tuple[type, ...] = ()) -> int:
    """How deep functions of some kinds (but not of others) stand inside each other."""
    inner = max((_nested(a, kinds, without) for a in e.args), default=0)
    return inner + (isinstance(e, kinds) and not isinstance(e, without))


class _Reader:
    def __init__(self, text: str, parameters: Collection[str], known: Collection[str] = (), advice: str = ""):
        self.advice = advice
        self.known = {*known, *FUNCTIONS}
        self.text, self.names = text, {p: parameter(p) for p in parameters} | {"z": z}

    def fail(self, what: str) -> MeanFieldError:
        return MeanFieldError(
            f"{what} in {self.text[:80]!r} is not allowed; use z, numbers, + - * / **, and "
            f"{', '.join(sorted(FUNCTIONS))}."
        )

    def read(self, node: ast.AST) -> sp.Expr:
        match node:
            case ast.Constant(value=bool()):
                raise self.fail("A truth value")
            case ast.Constant(value=int() | float()):
                return self.number(node)
            case ast.Name(id=name):
                if name in self.names:
                    return self.names[name]
                if name in CONSTANTS:
                    return CONSTANTS[name]
                advice = self.advice or (
                    f"give every other symbol by its name, as in derive(..., {name}=0.5), or {name}={name!r} to keep it"
                )
                hint = close_names(name, self.known) if len(name) > 2 else ""
                raise MeanFieldError(
                    f"{self.text[:80]!r} uses the symbol {name!r}, which has no value. The variable is z; "
                    f"{advice}.{hint}"
                )
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -self.read(x)
            case ast.UnaryOp(op=ast.UAdd(), operand=x):
                return self.read(x)
            case ast.BinOp(left=a, op=op, right=b):
                return self.binary(op, self.read(a), self.read(b))
            case ast.IfExp(test=test, body=a, orelse=b):
                return sp.Piecewise((self.read(a), self.condition(test)), (self.read(b), True))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                arity, function = FUNCTIONS[name]
                if any(isinstance(a, ast.Starred) for a in args) or (len(args) != arity if arity else not args):
                    raise MeanFieldError(
                        f"{name} takes {arity or 'one or more'} argument(s), but {len(args)} were given "
                        f"in {self.text[:80]!r}."
                    )
                return self.held(name, function, [self.read(a) for a in args])
            case ast.Call(func=ast.Name(id=name)):
                hint = "" if name in FUNCTIONS else close_names(name, self.known)
                raise MeanFieldError(str(self.fail(f"The function {name!r}")) + hint)
        raise self.fail(written_as(node))

    def held(self, name: str, function: Callable[..., sp.Expr], args: list[sp.Expr]) -> sp.Expr:
        """function(args), if a double holds the number it is: SymPy would work out the digits of exp(exp(1e30))."""
        if name in NAMES and NAMES[name][1] in where("grows_exponentially") and args[0].is_number:
            refuse_vast(function(args[0], evaluate=False), self.text)
        return function(*args)

    def number(self, node: ast.Constant) -> sp.Rational:
        source = (ast.get_source_segment(self.text.strip().replace("^", "**"), node) or "").replace("_", "")
        exponent = re.search(r"[eE]([-+]?\d+)$", source)
        if exponent and abs(int(exponent[1][:8])) > MAX_DIGITS:
            raise MeanFieldError(f"The number {source[:20]!r} needs more than {MAX_DIGITS} digits; rescale it.")
        try:
            value = Fraction(source)
        except ValueError:
            raise self.fail(f"The number {source!r}") from None
        if max(len(str(value.numerator)), len(str(value.denominator))) > MAX_DIGITS:
            raise MeanFieldError(f"The number {source[:20]!r} needs more than {MAX_DIGITS} digits; rescale it.")
        return sp.Rational(value.numerator, value.denominator)

    def binary(self, op: ast.operator, a: sp.Expr, b: sp.Expr) -> sp.Expr:
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return a / b
            case ast.Pow():
                if b.free_symbols and not b.has(z):  # parameters: `refuse_powers` judges what they are given
                    return a**b
                # a power of powers of numbers (9**9**9**9) would be computed exactly before anything could stop it
                if not b.is_number or abs(b) > MAX_EXPONENT:
                    raise MeanFieldError(
                        f"An exponent in {self.text[:80]!r} is not a number between -{MAX_EXPONENT} and "
                        f"{MAX_EXPONENT}; write e**u as exp(u)."
                    )
                if _size(a) * max(1.0, abs(float(b))) > MAX_EXPONENT:
                    raise MeanFieldError(
                        f"A power in {self.text[:80]!r} has a degree (or digits) beyond {MAX_EXPONENT}."
                    )
                return a**b
        raise self.fail(f"The operator {OPERATORS.get(type(op), 'used')}")

    def condition(self, node: ast.AST) -> Relational:
        match node:
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](self.read(a), self.read(b))
        raise self.fail("A condition other than one comparison")
