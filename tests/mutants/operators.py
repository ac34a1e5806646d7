"""Single errors: what can be done to one node of a syntax tree, and a draw of such errors from a seed.

Each operator takes a node and returns what stands in its place, or nothing where it does not apply. The source of all
other lines stays as it is: the text of the one node is replaced, so that line numbers of a traceback stay true.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TURNED = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
          ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
EDGES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
EXTREME = {"min": "max", "max": "min", "all": "any", "any": "all", "Min": "Max", "Max": "Min"}
SYMMETRIC = (*EXTREME, "hypot", "gcd", "lcm", "logaddexp", "maximum", "minimum")  # in their two arguments
BOUNDS = ("error", "bound", "remainder", "radius", "tolerance", "width", "slack", "rounding")
RAISED = {"MEASURED": "CERTIFIED", "CERTIFIED": "EXACT", "UNKNOWN": "CERTIFIED", "TO_30_DIGITS": "PROVED"}


def comparison_turned(node):
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ast.Compare(node.left, [TURNED[type(node.ops[0])]()], node.comparators)
    return None


def comparison_at_its_edge(node):
    if isinstance(node, ast.Compare) and any(type(op) in EDGES for op in node.ops):
        return ast.Compare(node.left, [EDGES.get(type(op), type(op))() for op in node.ops], node.comparators)
    return None


def term_dropped(node):
    """a + b → a, a − b → a, a and b → a, a or b → a."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and not _is_text(node):
        return node.left
    if isinstance(node, ast.BoolOp):
        return node.values[0] if len(node.values) == 2 else ast.BoolOp(node.op, node.values[:-1])
    return None


def operation_changed(node):
    """+ ↔ −, · ↔ /."""
    if isinstance(node, ast.BinOp) and type(node.op) in OTHER and not _is_text(node):
        return ast.BinOp(node.left, OTHER[type(node.op)](), node.right)
    return None


def sign_dropped(node):
    """−a → a, not a → a."""
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)) else None


def index_swapped(node):
    """x[0] ↔ x[1], x[a, b] → x[b, a]."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return None
    inner = node.slice
    if isinstance(inner, ast.Constant) and inner.value in (0, 1) and not isinstance(inner.value, bool):
        return ast.Subscript(node.value, ast.Constant(1 - inner.value), node.ctx)
    pair = isinstance(inner, ast.Tuple) and len(inner.elts) == 2 and ast.dump(inner.elts[0]) != ast.dump(inner.elts[1])
    name = node.value.id if isinstance(node.value, ast.Name) else "Tuple"  # names in capitals are types
    if pair and name[0].islower() and name not in ("dict", "tuple"):
        return ast.Subscript(node.value, ast.Tuple(inner.elts[::-1], ast.Load()), node.ctx)
    return None


def arguments_swapped(node):
    """f(a, b) → f(b, a)."""
    if not isinstance(node, ast.Call) or len(node.args) != 2 or node.keywords:
        return None
    a, b = node.args
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    symmetric = name in SYMMETRIC or (isinstance(node.func, ast.Name) and name in ("isinstance", "getattr", "hasattr"))
    if symmetric or any(isinstance(one, ast.Starred) for one in (a, b)) or ast.dump(a) == ast.dump(b):
        return None
    return ast.Call(node.func, [b, a], [])


def extreme_changed(node):
    """min ↔ max, all ↔ any."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in EXTREME:
            other = EXTREME[name]
            function = node.func
            changed = (
                ast.Attribute(function.value, other, function.ctx)
                if isinstance(function, ast.Attribute)
                else ast.Name(other, ast.Load())
            )
            return ast.Call(changed, node.args, node.keywords)
    return None


def bound_divided(node):
    """error=e → error=e/10, in calls and where it is assigned."""
    if isinstance(node, ast.keyword) and node.arg and _is_bound(node.arg) and not isinstance(node.value, ast.Constant):
        return ast.keyword(node.arg, ast.BinOp(node.value, ast.Div(), ast.Constant(10)))
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and not isinstance(node.value, ast.Constant):
        target = node.targets[0]
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if _is_bound(name) and isinstance(node.value, (ast.BinOp, ast.Call, ast.Name)):
            return ast.Assign(node.targets, ast.BinOp(node.value, ast.Div(), ast.Constant(10)), lineno=node.lineno)
    return None


def refusal_removed(node):
    """raise SomeError(...) → pass."""
    return ast.Pass() if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else None


def status_raised(node):
    """Status.MEASURED → Status.CERTIFIED, and so on."""
    owner = getattr(node.value, "id", "") if isinstance(node, ast.Attribute) else ""
    if owner in ("Status", "Equality") and node.attr in RAISED:
        return ast.Attribute(node.value, RAISED[node.attr], node.ctx)
    return None


def number_changed(node):
    """A whole number that is a factor, an exponent or a term: n → n + 1."""
    if isinstance(node, ast.BinOp) and not _is_text(node):
        for side in ("left", "right"):
            value = getattr(node, side)
            if isinstance(value, ast.Constant) and type(value.value) is int:
                changed = copy.copy(node)
                setattr(changed, side, ast.Constant(value.value + 1))
                return changed
    return None


def branch_taken(node):
    """a if t else b → a."""
    return node.body if isinstance(node, ast.IfExp) else None


OPERATORS = (comparison_turned, comparison_at_its_edge, term_dropped, operation_changed, sign_dropped, index_swapped,
             arguments_swapped, extreme_changed, bound_divided, refusal_removed, status_raised, number_changed,
             branch_taken)  # fmt: skip


def _is_bound(name: str) -> bool:
    return any(name.lower().endswith(word) for word in BOUNDS)


def _is_text(node: ast.BinOp) -> bool:
    """Whether a sum or a product is one of texts."""
    constants = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
    parts = any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right))
    return parts or any(isinstance(value, str) for value in constants)


@dataclass(frozen=True)
class Mutant:
    """One error: in `path`, the text from (line, column) to (end, end_column) becomes `new`."""

    path: str
    operator: str
    line: int
    column: int
    end: int
    end_column: int
    old: str
    new: str

    def source(self, text: str) -> str:
        """The text of the file with the error in it."""
        lines = text.encode().splitlines(keepends=True)  # columns of a syntax tree count bytes
        first, last = lines[self.line - 1], lines[self.end - 1]
        lines[self.line - 1 : self.end] = [first[: self.column] + self.new.encode() + last[self.end_column :]]
        return b"".join(lines).decode()

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.operator}: {' '.join(self.old.split())} → {self.new}"


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of annotations, docstrings, messages of errors, decorators and imports."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
            continue
        if isinstance(tree, ast.Raise):
            return
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Import, ast.ImportFrom, ast.JoinedStr)):
                if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                    continue
                yield child
                yield from _nodes(child)


def _segment(lines: list[bytes], node: ast.AST) -> str:
    """What `ast.get_source_segment` gives, which splits the whole text into lines each time."""
    part = lines[node.lineno - 1 : node.end_lineno]
    part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0][node.col_offset :]
    return b"".join(part).decode()


def mutants(root: Path, path: Path) -> list[Mutant]:
    """All errors that the operators know in one file."""
    text = path.read_text("utf-8")
    found, lines = [], text.encode().splitlines(keepends=True)
    for node in _nodes(ast.parse(text)):
        if not hasattr(node, "lineno"):
            continue
        for operator in OPERATORS:
            new = operator(node)
            if new is None:
                continue
            changed = ast.unparse(ast.fix_missing_locations(new))
            if isinstance(new, ast.expr):
                changed = f"({changed})"
            old = _segment(lines, node)
            one = Mutant(path.relative_to(root).as_posix(), operator.__name__, node.lineno, node.col_offset,
                         node.end_lineno, node.end_col_offset, old, changed)  # fmt: skip
            found.append(one)
    return found


def drawn(root: Path, seed: int, count: int, within: str = "meanfield") -> list[Mutant]:
    """`count` errors: a file by its length, an operator among those that apply there, then one of its places."""
    draw = random.Random(seed)
    files = sorted(p for p in (root / within).rglob("*.py") if p.name != "__init__.py") or [root / within]
    lengths = [len(p.read_bytes().splitlines()) for p in files]
    found: list[Mutant] = []
    while len(found) < count:
        (path,) = draw.choices(files, lengths)
        there = mutants(root, path)
        if not there:
            continue
        operator = draw.choice(sorted({one.operator for one in there}))
        one = draw.choice([m for m in there if m.operator == operator])
        if one not in found and compiles(one.source((root / one.path).read_text("utf-8"))):
            found.append(one)
    return found


def compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
