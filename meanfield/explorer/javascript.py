"""Generated Python, as the loops of `propagate` run it, as JavaScript: the subset of Python that lowering writes.

One description of an average stays: its Python text. What is not in the subset is refused by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from meanfield.base.answers.results import MeanFieldError

#: functions and constants of `math` under their names in JavaScript; those without a dot are of runtime.js
MATH = {
    name: f"Math.{name}"
    for name in ("sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
                 "atan", "atan2", "asinh", "acosh", "atanh", "floor", "ceil", "pow", "hypot")
}  # fmt: skip
MATH |= {"fabs": "Math.abs", "trunc": "Math.trunc", "erf": "erf", "erfc": "erfc", "copysign": "copysign"}
MATH |= {"isfinite": "Number.isFinite", "isnan": "Number.isNaN"}
CONSTANTS = {"pi": "Math.PI", "inf": "Infinity", "nan": "NaN", "e": "Math.E"}
PLAIN = {"abs": "Math.abs", "min": "Math.min", "max": "Math.max", "float": "Number", "int": "Math.trunc"}
NUMPY = {"empty": "new Float64Array", "zeros": "new Float64Array"}
BINARY: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|"}
COMPARE: dict[type, str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "===", ast.NotEq: "!=="}

#: helpers that read the bits of doubles, which runtime.js writes in its own way
NATIVE = frozenset({"_bits", "_float", "_table", "_split_table", "_horner", "_split", "_double", "_power", "_log",
                    "_held"})  # fmt: skip


def script(source: str) -> str:
    """Module-level functions and arrays of generated source as JavaScript; those in `NATIVE` are left out.

    Raises: MeanFieldError for Python outside of the subset.

    >>> print(script("def f(x):\\n    return 0.5 * x if x > 0.0 else math.exp(x)"))
    function f(x) {
      return ((x > 0.0) ? (0.5 * x) : Math.exp(x));
    }
    """
    parts = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name not in NATIVE:
            parts.append(_function(node))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            parts.append(f"const {node.targets[0].id} = {_value(node.value)};")
    return "\n".join(parts)


def function(name: str, arguments: Iterable[str], lines: Iterable[str]) -> str:
    """A JavaScript function of Python statements.

    >>> print(function("twice", ("x",), ["y = 2.0 * x", "return y"]))
    function twice(x) {
      let y;
      y = (2.0 * x);
      return y;
    }
    """
    text = f"def {name}({', '.join(arguments)}):\n" + "".join(f"    {line}\n" for line in lines)
    return script(text)


def _function(node: ast.FunctionDef) -> str:
    arguments = [a.arg for a in node.args.args]
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own = sorted(stored - set(arguments))
    let = [f"let {', '.join(own)};"] if own else []
    body = [*let, *_block(node.body)]
    return f"function {node.name}({', '.join(arguments)}) {{\n" + "".join(f"  {line}\n" for line in body) + "}"


def _block(statements: list[ast.stmt]) -> list[str]:
    return [line for one in statements for line in _statement(one)]


def _inside(statements: list[ast.stmt]) -> list[str]:
    return [f"  {line}" for line in _block(statements)]


def _statement(node: ast.stmt) -> list[str]:
    match node:
        case ast.Return(value=ast.expr() as value):
            return [f"return {_value(value)};"]
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            left = ", ".join(map(_value, names))
            return [f"[{left}] = [{', '.join(map(_value, values))}];"]
        case ast.Assign(targets=targets):
            return [f"{' = '.join(map(_value, targets))} = {_value(node.value)};"]
        case ast.AugAssign():
            new = ast.BinOp(left=_loaded(node.target), op=node.op, right=node.value)
            return [f"{_value(node.target)} = {_value(new)};"]
        case ast.If():
            lines = [f"if ({_value(node.test)}) {{", *_inside(node.body), "}"]
            return [*lines, "else {", *_inside(node.orelse), "}"] if node.orelse else lines
        case ast.While(orelse=[]):
            return [f"while ({_value(node.test)}) {{", *_inside(node.body), "}"]
        case ast.For(orelse=[]):
            return _loop(node)
        case ast.Break():
            return ["break;"]
        case ast.Continue():
            return ["continue;"]
        case ast.Expr(value=ast.Constant()):
            return []
        case ast.Expr():
            return [f"{_value(node.value)};"]
    raise _refused(node)


def _loaded(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _loop(node: ast.For) -> list[str]:
    match node.iter:
        case ast.Call(func=ast.Name(id="range"), args=args):
            name = _value(node.target)
            low, high = ("0", _value(args[0])) if len(args) == 1 else map(_value, args[:2])
            by = _value(args[2]) if len(args) == 3 else "1"
            return [f"for ({name} = {low}; {name} < {high}; {name} += {by}) {{", *_inside(node.body), "}"]
        case ast.Call(func=ast.Name(id="zip"), args=rows) if isinstance(node.target, ast.Tuple):
            held = [f"{name.id}_all" for name in node.target.elts if isinstance(name, ast.Name)]
            lines = [f"const {one} = {_value(row)};" for one, row in zip(held, rows)]
            take = [f"  {_value(name)} = {one}[at_];" for name, one in zip(node.target.elts, held)]
            loop = [f"for (let at_ = 0; at_ < {held[0]}.length; at_++) {{", *take, *_inside(node.body), "}"]
            return ["{", *(f"  {line}" for line in [*lines, *loop]), "}"]
        case ast.Tuple():
            line = f"for (const one_ of {_value(node.iter)}) {{"
            return [line, f"  {_value(node.target)} = one_;", *_inside(node.body), "}"]
    raise _refused(node)


def _value(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=bool() as value):
            return "true" if value else "false"
        case ast.Constant(value=int() | float()):
            return repr(node.value).replace("inf", "Infinity")
        case ast.Name():
            return node.id
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.BinOp(op=ast.Pow()):
            return f"Math.pow({_value(node.left)}, {_value(node.right)})"
        case ast.BinOp() if type(node.op) in BINARY:
            return f"({_value(node.left)} {BINARY[type(node.op)]} {_value(node.right)})"
        case ast.UnaryOp(op=ast.USub()):
            return f"(-{_value(node.operand)})"
        case ast.UnaryOp(op=ast.Not()):
            return f"(!{_value(node.operand)})"
        case ast.BoolOp():
            return f"({(' && ' if isinstance(node.op, ast.And) else ' || ').join(map(_value, node.values))})"
        case ast.Compare() if all(type(op) in COMPARE for op in node.ops):
            parts = [node.left, *node.comparators]
            tests = [f"({_value(a)} {COMPARE[type(op)]} {_value(b)})" for a, op, b in zip(parts, node.ops, parts[1:])]
            text = " && ".join(tests)
            return f"({text})" if len(tests) > 1 else text
        case ast.IfExp():
            return f"({_value(node.test)} ? {_value(node.body)} : {_value(node.orelse)})"
        case ast.Call():
            return _call(node)
        case ast.Tuple() | ast.List():
            return f"[{', '.join(map(_value, node.elts))}]"
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            assert isinstance(node.value, ast.Attribute)
            return f"{_value(node.value.value)}.length"
        case ast.Subscript(slice=ast.Constant() | ast.Name() | ast.BinOp()):
            return f"{_value(node.value)}[{_value(node.slice)}]"
    raise _refused(node)


def _call(node: ast.Call) -> str:
    arguments = ", ".join(map(_value, node.args))
    match node.func:
        case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in MATH:
            return f"{MATH[name]}({arguments})"
        case ast.Attribute(value=ast.Name(id="np"), attr="array"):
            return arguments
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in NUMPY and not node.keywords:
            return f"{NUMPY[name]}({arguments})"
        case ast.Name(id=name):
            return f"{PLAIN.get(name, name)}({arguments})"
    raise _refused(node)


def _refused(node: ast.AST) -> MeanFieldError:
    return MeanFieldError(
        f"A page that computes was asked for, but an average here is compiled as {ast.unparse(node)[:60]!r}, which is "
        "not written in JavaScript; follow it with propagate."
    )
