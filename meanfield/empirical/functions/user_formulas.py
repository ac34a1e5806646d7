"""A user's formula as scalar functions φ, φ′, φ″, φ‴, read from its own text and evaluated pointwise.

The text is read over Python's syntax tree into straight-line code on jets (value and derivatives): Max, Min, abs, steps
and conditions are decided at run time, at each x. Nothing symbolic takes part, so that a switch point which a theory
lost is still there in the networks that judge it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.scalars import CHOICES, SCALARS, Scalar, helpers
from meanfield.empirical.functions.registry import ScalarPair

Jet = list[str]  # source of f, f′, f″, … at the point, "0.0" where it is known to vanish

_INVERSE = Scalar(("1.0 / {u}", "-{v0} * {v0}", "-2.0 * {v0} * {v1}", "-3.0 * {v0} * {v2}"))
_SLOPES = {"z": 1.0, "x": 1.0}  # of the variable of a formula, in itself
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def has_switches(text: str) -> bool:
    """Whether a formula's text switches anywhere: without it the function is smooth and has φ″ and φ‴."""
    return any(
        isinstance(node, ast.IfExp)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _switches(node.func.id))
        for node in ast.walk(tree(text))
    )


def _switches(name: str) -> bool:
    return name in CHOICES or (name in SCALARS and SCALARS[name].switches)


def from_formula(
    text: str, values: Mapping[str, float] | None = None, *, continuous: bool = True, smooth: bool | None = None
) -> ScalarPair:
    """The functions of the formula `text` in z (or x), as `ScalarPair`.

    values: numbers for the parameters it names. continuous: False where φ jumps. smooth: whether φ″ and φ‴ exist as
    functions (no kink in φ or φ′); by default, whether the text has no switch.

    Raises: MeanFieldError for a function or a symbol that is not known here.

    >>> pair = from_formula("z if z > t else a*z", {"t": 0.5, "a": 0.1})
    >>> pair.phi(2.0), pair.phi(0.25), pair.dphi(0.25)
    (2.0, 0.025, 0.1)
    """
    smooth = not has_switches(text) if smooth is None else smooth
    orders = range(4 if smooth else 2)
    return ScalarPair.from_sources(*[source(text, values or {}, k) for k in orders], continuous=continuous)


def tree(text: str) -> ast.expr:
    """The syntax tree of a formula; raises `MeanFieldError` for a text that is none."""
    try:
        return ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise MeanFieldError(f"{text[:80]!r} is not a formula; write it like 'z*erf(z)' or 'Max(z, 0)**2'.") from None


def constant(node: ast.expr, variables: Sequence[str]) -> float | None:
    """The value of a part without the variables, None where one stands in it."""
    return _Writer(ast.unparse(node), {}, 0, dict.fromkeys(variables, 0.0)).number(node)


def number(text: str, values: Mapping[str, float]) -> float:
    """The value of a formula without a variable, at numbers for the names it holds.

    >>> number("2/(l + 1)", {"l": 3.0})
    0.5
    """
    read = tree(text)
    held = {n.id for n in ast.walk(read) if isinstance(n, ast.Name)}
    unknown = sorted(held - {*values, "pi", "E", *SCALARS, *CHOICES})
    if unknown:
        raise MeanFieldError(f"{unknown[0]} in {text[:80]!r} has no value here; it may hold {', '.join(values)}.")
    found = _Writer(text, values, 0, {}).number(read)
    assert found is not None
    return found


def source(text: str, values: Mapping[str, float], order: int) -> str:
    """Python text of f(z), derivative number `order` of the formula, for `math`, `np` and `@njit`."""
    return function("f(z)", straight_line(text, values, order, _SLOPES))


def function(head: str, lines: Sequence[str]) -> str:
    """Python text of a function and of all that `lines` may call."""
    body = "".join(f"    {line}\n" for line in lines)
    return helpers(body).replace("\ndef ", "\n@njit\ndef ").lstrip() + f"\n@njit\ndef {head}:\n{body}"


def straight_line(
    text: str, values: Mapping[str, float], order: int, slopes: Mapping[str, float], first: int = 0
) -> list[str]:
    """Lines that end in `return` of derivative number `order` of the formula along a line on which every variable has
    its slope: {"z1": 0.0, "z2": 1.0} is ∂/∂z2. Names that the lines make count from t`first` on."""
    writer = _Writer(text, values, order, slopes)
    writer.count = first
    jet = writer.read(tree(text))
    return [*writer.lines, f"return {jet[order]}"]


class _Writer:
    """Straight-line code for the jet of every part of a formula."""

    def __init__(self, text: str, values: Mapping[str, float], order: int, slopes: Mapping[str, float] = _SLOPES):
        self.text, self.order, self.slopes = text, order, slopes
        self.values = {"pi": math.pi, "E": math.e, **{k: float(v) for k, v in values.items()}}
        self.lines: list[str] = []
        self.indent = ""
        self.count = 0

    def fail(self, what: str) -> MeanFieldError:
        return MeanFieldError(f"{what} in {self.text[:80]!r} cannot be run in finite networks; write it otherwise.")

    def keep(self, expression: str) -> str:
        """A name for an expression, or the expression itself where it is a name or a number."""
        if expression.isidentifier() or _is_number(expression):
            return expression
        name = f"t{self.count}"
        self.count += 1
        self.lines.append(f"{self.indent}{name} = {expression}")
        return name

    def constant(self, value: float) -> Jet:
        if math.isnan(value):
            raise self.fail("A constant that is no number")
        text = repr(float(value)).replace("inf", "math.inf")  # exp(800) is a bound like any other in Min(z, exp(800))
        return [text] + ["0.0"] * self.order

    # ------------------------------------------------------------------------------------------------ reading

    def number(self, node: ast.AST) -> float | None:
        """The value of a part without z, None where z stands in it."""
        if any(isinstance(n, ast.Name) and n.id in self.slopes for n in ast.walk(node)):
            return None
        if (exact := _fraction(node)) is not None:
            return float(exact)
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.values[node.id]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            a, b = (_fraction(n) for n in (node.left, node.right))
            if a is not None and b:
                return float(a / b)
        inner = _Writer(self.text, self.values, 0, self.slopes)
        jet = inner.read(node, fold=False)
        scope: dict = {"math": math, "njit": lambda f: f}
        lines = "".join(f"    {line}\n" for line in [*inner.lines, f"return {jet[0]}"])
        exec(helpers(lines) + f"\ndef f():\n{lines}", scope)  # text made here from a whitelisted tree
        try:
            return float(scope["f"]())
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):  # TypeError: it is complex
            raise self.fail(f"The constant {ast.unparse(node)}") from None

    def read(self, node: ast.AST, fold: bool = True) -> Jet:
        if fold and not isinstance(node, ast.IfExp) and (value := self.number(node)) is not None:
            return self.constant(value)
        match node:
            case ast.Constant() if (exact := _fraction(node)) is not None:
                return self.constant(float(exact))
            case ast.Name(id=name) if name in self.slopes:
                variable = "z" if name == "x" else name
                return [variable, repr(self.slopes[name]), "0.0", "0.0"][: self.order + 1]
            case ast.Name(id=name) if name in self.values:
                return self.constant(self.values[name])
            case ast.Name(id=name):
                raise MeanFieldError(f"A check needs a number for {name}; give it in derive(...), or to the check.")
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return [_negative(t) for t in self.read(x)]
            case ast.UnaryOp(op=ast.UAdd(), operand=x):
                return self.read(x)
            case ast.BinOp(left=a, op=op, right=b):
                return self.binary(op, a, b)
            case ast.IfExp(test=test, body=a, orelse=b):
                condition = self.condition(test)
                return self.branch(condition, a, b)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(name, args)
        raise self.fail(repr(ast.unparse(node)[:60]))

    def condition(self, node: ast.AST) -> str:
        match node:
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _COMPARE:
                left, right = (self.keep(self.value(n)) for n in (a, b))
                return f"{left} {_COMPARE[type(op)]} {right}"
            case ast.BoolOp(op=op, values=parts):
                word = " and " if isinstance(op, ast.And) else " or "
                return word.join(f"({self.condition(p)})" for p in parts)
            case ast.UnaryOp(op=ast.Not(), operand=x):
                return f"not ({self.condition(x)})"
            case ast.Constant(value=bool(held)):
                return repr(held)
        raise self.fail("A condition other than a comparison")

    def value(self, node: ast.AST) -> str:
        """The value alone: conditions need no derivatives."""
        order, self.order = self.order, 0
        try:
            return self.read(node)[0]
        finally:
            self.order = order

    def branch(self, condition: str, yes: Jet | ast.expr, no: Jet | ast.expr) -> Jet:
        """One of two jets, chosen at run time; what is not read yet is computed only where it is chosen."""
        names = [f"t{self.count + k}" for k in range(self.order + 1)]
        self.count += self.order + 1
        outer = self.indent
        for head, side in ((f"if {condition}:", yes), ("else:", no)):
            self.lines.append(f"{outer}{head}")
            self.indent = outer + "    "
            for name, part in zip(names, side if isinstance(side, list) else self.read(side)):
                self.lines.append(f"{self.indent}{name} = {part}")
        self.indent = outer
        return names

    # ------------------------------------------------------------------------------------------------ calculus

    def call(self, name: str, args: list[ast.expr]) -> Jet:
        if name in ("Max", "max", "Min", "min") and args:
            best = [self.keep(t) for t in self.read(args[0])]
            for a in args[1:]:
                other = [self.keep(t) for t in self.read(a)]
                way = ">" if name in ("Max", "max") else "<"
                best = self.branch(f"{other[0]} {way} {best[0]}", other, best)
            return best
        if name == "relu" and len(args) == 1:
            return self.call("Max", [args[0], ast.Constant(0.0)])
        if name == "clip" and len(args) == 3:
            return self.call("Min", [ast.Call(ast.Name("Max"), args[:2], []), args[2]])
        if name == "log" and len(args) == 1 and (u := _one_plus_exp(args[0])) is not None:
            return self.call("softplus", [u])  # log(1 + e^u) overflows where softplus does not
        if name not in SCALARS or len(args) != 1:
            raise self.fail(f"The function {name}")
        return self.chain(SCALARS[name], self.read(args[0]))

    def chain(self, scalar: Scalar, inner: Jet) -> Jet:
        """h(u) and its derivatives by Faà di Bruno."""
        u = [self.keep(t) for t in inner]
        h: list[str] = []
        for k in range(self.order + 1):
            known = {"u": f"({u[0]})" if u[0].startswith("-") else u[0]} | {f"v{i}": v for i, v in enumerate(h)}
            h.append(self.keep(scalar.texts[k].format(**known)))
        out = [h[0]]
        if self.order >= 1:
            first = _product(h[1], u[1])
            steep = scalar.steep and u[1] not in ("0.0", "1.0")
            out.append(f"(0.0 if {u[1]} == 0.0 else {first})" if steep else first)  # √(x²) at 0: not ∞·0
        if self.order >= 2:
            out.append(_sum(_product(h[2], u[1], u[1]), _product(h[1], u[2])))
        if self.order >= 3:
            out.append(
                _sum(_product(h[3], u[1], u[1], u[1]), _product("3.0", h[2], u[1], u[2]), _product(h[1], u[3]))
            )
        return [self.keep(t) for t in out]

    def binary(self, op: ast.operator, left: ast.expr, right: ast.expr) -> Jet:
        if isinstance(op, ast.Pow):
            return self.power(left, right)
        if isinstance(op, ast.Div) and (u := _one_plus_exp(right)) is not None:  # 1/(1 + e^u) without ∞/∞
            return self.times(self.read(left), self.call("sigmoid", [ast.UnaryOp(ast.USub(), u)]))
        a, b = self.read(left), self.read(right)
        match op:
            case ast.Add():
                return [self.keep(_sum(s, t)) for s, t in zip(a, b)]
            case ast.Sub():
                return [self.keep(_sum(s, _negative(t))) for s, t in zip(a, b)]
            case ast.Mult():
                return self.times(a, b)
            case ast.Div() if b[1:] == ["0.0"] * self.order:
                return [self.keep(t if t == "0.0" else f"{_bracket(t)} / {_bracket(b[0])}") for t in a]
            case ast.Div():
                return self.times(a, self.chain(_INVERSE, b))
        raise self.fail("An operator other than + - * / **")

    def times(self, a: Jet, b: Jet) -> Jet:
        a, b = [self.keep(t) for t in a], [self.keep(t) for t in b]
        out = []
        for n in range(self.order + 1):  # Leibniz
            out.append(_sum(*[_product(repr(float(math.comb(n, k))), a[k], b[n - k]) for k in range(n + 1)]))
        return [self.keep(t) for t in out]

    def power(self, base: ast.expr, exponent: ast.expr) -> Jet:
        n = self.number(exponent)
        if n is None:
            if (held := self.number(base)) is not None and held > 0:  # 2**z
                return self.call("exp", [ast.BinOp(ast.Constant(math.log(held)), ast.Mult(), exponent)])
            raise self.fail("An exponent that depends on the variable")
        u = self.read(base)
        if n == 0.5:
            return self.chain(SCALARS["sqrt"], u)
        texts, factor = [], 1.0
        for k in range(4):
            left = n - k
            text = repr(int(left)) if float(left).is_integer() else repr(left)
            plain = {0.0: "1.0", 1.0: "{u}", 2.0: "{u} * {u}", 3.0: "{u} * {u} * {u}"}.get(left, f"{{u}} ** ({text})")
            texts.append("0.0" if factor == 0 else plain if factor == 1 else f"{factor!r} * ({plain})")
            factor *= left
        return self.chain(Scalar((texts[0], texts[1], texts[2], texts[3])), u)


def _one_plus_exp(node: ast.AST) -> ast.expr | None:
    """u of 1 + exp(u) or exp(u) + 1."""
    match node:
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            for one, other in ((a, b), (b, a)):
                if isinstance(one, ast.Constant) and one.value == 1:
                    match other:
                        case ast.Call(func=ast.Name(id="exp"), args=[u], keywords=[]):
                            return u
    return None


def _fraction(node: ast.AST) -> Fraction | None:
    """A number as it is written, exactly."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        if not math.isfinite(node.value):
            raise MeanFieldError("A number of the formula is beyond any double; rescale it.")
        return Fraction(str(node.value))
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _bracket(text: str) -> str:
    return text if text.isidentifier() or (_is_number(text) and not text.startswith("-")) else f"({text})"


def _negative(text: str) -> str:
    return "0.0" if text == "0.0" else repr(-float(text)) if _is_number(text) else f"-{_bracket(text)}"


def _product(*factors: str) -> str:
    if "0.0" in factors:
        return "0.0"
    live = [_bracket(f) for f in factors if f != "1.0"]
    return " * ".join(live) if live else "1.0"


def _sum(*terms: str) -> str:
    live = [t for t in terms if t != "0.0"]
    return " + ".join(live if len(live) == 1 else [f"({t})" if t.startswith("-") else t for t in live]) or "0.0"
