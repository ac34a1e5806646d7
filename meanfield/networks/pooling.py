"""What a `Pool` may do with a group of neurons: two names, or a formula in z1 … z4. No SymPy: networks read it, too.

A formula is held as its text. Here it is judged, over Python's syntax tree, and never evaluated; theory and networks
read the text by routes of their own.
"""

from __future__ import annotations

import ast
import re

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import meant, shown
from meanfield.base.scalars import ARGUMENTS

POOLS = ("max", "average")
MOST_VARIABLES = 4
MAX_LENGTH, MAX_NODES, MAX_EXPONENT, LARGEST = 600, 250, 64, 1e150

_COMPARE = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def variables(size: int) -> tuple[str, ...]:
    """z1, z2, … of a group of `size` neurons."""
    return tuple(f"z{k + 1}" for k in range(size))


def pool_kind(kind: object, size: int) -> str:
    """`kind` as a `Pool` of `size` ≥ 2 nodes holds it: "max", "average", or the text of a formula in z1 … z_size, one
    blank where there were several.

    Raises: MeanFieldError for another name, for a formula of more than four nodes, for a variable that is missing or
    unknown, and for what formulas do not hold (attributes, indexing, lambdas, keywords, other functions).

    >>> pool_kind("max(z1,   z2) - min(z1, z2)", 2)
    'max(z1, z2) - min(z1, z2)'
    """
    example = "kind='sqrt(z1**2 + z2**2)'"
    if not isinstance(kind, str) or (kind.isidentifier() and not re.fullmatch(r"z\d+", kind)):
        if isinstance(kind, str) and kind in POOLS:
            return kind
        raise MeanFieldError(
            f"kind={shown(kind)} is not available: the choices are {', '.join(POOLS)} and a formula such as {example}."
        )
    if size > MOST_VARIABLES:
        raise MeanFieldError(
            f"A Pool of {size} nodes was given the formula {shown(kind)}; formulas are read of 2 to {MOST_VARIABLES} "
            f"nodes, {', '.join(POOLS)} of any number."
        )
    text = " ".join(kind.split())
    names = _Judge(text, variables(size)).names
    missing = [name for name in variables(size) if name not in names]
    if missing:
        raise MeanFieldError(
            f"The formula {shown(text)} of a Pool of {size} nodes does not hold {missing[0]}; take every one of "
            f"{', '.join(variables(size))}, or another size."
        )
    return text


class _Judge:
    """Refuses what no formula holds; `names` are the variables met."""

    def __init__(self, text: str, known: tuple[str, ...]) -> None:
        self.text, self.known, self.names = text, known, set[str]()
        try:
            if len(text) > MAX_LENGTH:
                raise ValueError
            tree = ast.parse(text.replace("^", "**"), mode="eval")
            if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
                raise ValueError
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise MeanFieldError(
                f"{shown(text)} is no formula of at most {MAX_LENGTH} characters and {MAX_NODES} parts; write it like "
                "'max(z1, z2) - min(z1, z2)'."
            ) from None
        self.see(tree.body)

    def fail(self, what: str) -> MeanFieldError:
        return MeanFieldError(
            f"{what} in {shown(self.text)} is not allowed; use {', '.join(self.known)}, numbers, + - * / ** and "
            f"{', '.join(sorted(ARGUMENTS))}."
        )

    def see(self, node: ast.AST) -> None:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                if not abs(number) <= LARGEST:
                    raise self.fail("A number beyond 1e150")
            case ast.Name(id=name):
                if name not in (*self.known, "pi", "E"):
                    raise MeanFieldError(
                        f"The formula {shown(self.text)} of a Pool of {len(self.known)} nodes holds {name}, which is "
                        f"none of {', '.join(self.known)}.{meant(name, self.known) if len(name) < 4 else ''}"
                    )
                self.names.add(name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=x):
                self.see(x)
            case ast.BinOp(left=a, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow() as op, right=b):
                self.see(a)
                if isinstance(op, ast.Pow):
                    self.exponent(b)
                self.see(b)
            case ast.IfExp(test=ast.Compare(left=a, ops=[op], comparators=[b]), body=x, orelse=y):
                if not isinstance(op, _COMPARE):
                    raise self.fail("A condition other than <, <=, >, >=")
                for part in (a, b, x, y):
                    self.see(part)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                if name not in ARGUMENTS:
                    raise self.fail(f"The function {name}")
                count = ARGUMENTS[name]
                if any(isinstance(a, ast.Starred) for a in args) or (len(args) != count if count else not args):
                    raise self.fail(f"{name} with {len(args)} argument(s)")
                for part in args:
                    self.see(part)
            case _:
                raise self.fail(shown(ast.unparse(node)))

    def exponent(self, node: ast.AST) -> None:
        held = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Call | ast.Constant | ast.Pow)]
        numbers = [n.value for n in held if isinstance(n, ast.Constant)]
        fine = len(numbers) == len(held) and all(isinstance(n, int | float) and n <= MAX_EXPONENT for n in numbers)
        if not fine:
            raise self.fail(f"An exponent that is no number of size up to {MAX_EXPONENT}")
