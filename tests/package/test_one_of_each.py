"""One text for each rule that once had two: where it stands, and a search of the package for a second one."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tests.package.test_imports import modules, name_of


def calls(tree: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name for n in ast.walk(tree))


def reads(tree: ast.AST, attribute: str) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(tree))


def says(tree: ast.AST, text: str) -> bool:
    return any(isinstance(n, ast.Constant) and n.value == text for n in ast.walk(tree))


def fills(tree: ast.AST) -> bool:
    """Whether a decorator puts what it is given into a table of its module."""

    def puts(made: ast.FunctionDef) -> bool:
        given = {a.arg for a in made.args.args}
        held = [t for n in ast.walk(made) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name)
                and n.value.id in given for t in n.targets]  # fmt: skip
        tables = [t.value.id for t in held if isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name)]
        return any(name.isupper() for name in tables)

    outer = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inner = [n for o in outer for n in ast.walk(o) if isinstance(n, ast.FunctionDef) and n is not o]
    return any(map(puts, inner))


#: what a rule looks like in a module, where it may stand, and a second one
Sight = Callable[[ast.AST], bool]
ONE: dict[str, tuple[Sight, set[str], str]] = {
    "which phase fixed points make": (
        lambda tree: calls(tree, "Phase"),
        {"symbolic.criticality.phases"},
        "def phase(point):\n    return Phase(phase_of(point.chi_J), point, point.chi_J, False)\n",
    ),
    "the nearest of the classes that a type is derived from": (
        lambda tree: reads(tree, "__mro__"),
        {"base.leading", "empirical.cuda.launches"},  # launches: whether an error is one of the compiler's
        "def entry_of(table, one):\n    return next((table[k] for k in type(one).__mro__ if k in table), None)\n",
    ),
    "a decorator that registers": (
        fills,
        set(),  # `Registry.adds`
        "def rule(one):\n    def put(made):\n        RULES[one] = made\n        return made\n    return put\n",
    ),
    "mpmath's precision, which is one for all threads": (
        lambda tree: reads(tree, "workdps") or reads(tree, "workprec"),
        {"base.precision"},
        "def root(x):\n    with mp.workdps(30):\n        return mp.sqrt(x)\n",
    ),
    "which exact values a theory takes": (
        lambda tree: reads(tree, "domains") and calls(tree, "exact_number"),
        {"theory.queries.exact_points"},
        "def place(theory, given):\n    values = {k: exact_number(k, v) for k, v in given.items()}\n"
        "    return values, theory.one_input.domains\n",
    ),
    "the steps of a generated loop by the layer": (
        lambda tree: any("elif l == " in str(n.value) for n in ast.walk(tree) if isinstance(n, ast.Constant)),
        {"numeric.lowering.text.scheduling"},
        'def _chosen(i):\n    return f"elif l == {i}:"\n',
    ),
    "how many networks may be asked for": (
        lambda tree: says(tree, "The number of networks"),
        {"empirical.network.operations.checks"},
        'def sampled(n):\n    return integer(n, "The number of networks", 2, 1 << 32)\n',
    ),
}


def test_each_rule_stands_once():
    seen: dict[str, set[str]] = {rule: set() for rule in ONE}
    for path in modules():
        tree = ast.parse(path.read_text())
        for rule, (sight, _, _) in ONE.items():
            if sight(tree):
                seen[rule].add(name_of(path))
    assert seen == {rule: homes for rule, (_, homes, _) in ONE.items()}


@pytest.mark.parametrize("rule", ONE)
def test_a_planted_rival_is_seen(rule):
    sight, _, rival = ONE[rule]
    assert sight(ast.parse(rival)) and not sight(ast.parse("def f(x):\n    return x + 1\n"))


AVERAGES = {"DistanceRatio", "UnequalDistanceRatio", "DirectionRatio", "DividedDifference"}


def told_apart(tree: ast.AST) -> set[str]:
    """The kinds of averages that a module names."""
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & AVERAGES


def test_kernels_tell_no_averages_apart():
    """A node says how a kernel reads it (`Node.paired`)."""
    kernels = [path for path in modules() if name_of(path).startswith("kernels.")]
    assert kernels and all(told_apart(ast.parse(path.read_text())) == set() for path in kernels)
    assert told_apart(ast.parse("match node:\n    case UnequalDistanceRatio():\n        kind = 'chord'\n")) == {
        "UnequalDistanceRatio"
    }
