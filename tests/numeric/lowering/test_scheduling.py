"""Generated statements stand once each, after what they are made of."""

from __future__ import annotations

import pytest
import sympy as sp

from meanfield.base.symbols import K, Z
from meanfield.numeric.lowering.text.scheduling import StatementOrder, by_layer
from meanfield.symbolic.averages.base import Node
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.steps import Step

M, D = sp.Symbol("M", positive=True), sp.Symbol("D", positive=True)
INNER, OUTER = average(sp.tanh(Z[0]) ** 2, K), average(sp.sin(Z[0] ** 3) ** 2, M)
STEP = Step((INNER * OUTER + D,), ((M, INNER + K), (D, 2 * M)))


def written(names: dict[Node, sp.Symbol] | None = None) -> tuple[list[str], sp.Expr]:
    """The statements of the step, each average f(variance), and its next value."""
    symbols = {M: sp.Symbol("m"), D: sp.Symbol("d")}
    schedule = StatementOrder(STEP, lambda node: [f"f({schedule.need(node.cov[0])})"], symbols, names)
    value = schedule.need(STEP.next[0])
    return schedule.lines, value


def value_of(lines: list[str], value: sp.Expr) -> float:
    scope = {"K": 0.5, "f": lambda v: v + 1}
    exec("\n".join([*lines, f"value = {value}"]), scope)
    return scope["value"]


@pytest.mark.parametrize("names", [None, {INNER: sp.Symbol("a1"), OUTER: sp.Symbol("a0")}])
def test_each_statement_stands_after_what_it_is_made_of(names):
    """An average that another one's variance is made of has a name of its own: kernels once gave both the same."""
    lines, value = written(names)
    made = [line.split(" = ")[0] for line in lines]
    assert len(made) == len(set(made)) == 4
    assert value_of(lines, value) == 1.5 * 3.0 + 4.0


def test_control_another_order_or_one_name_is_seen():
    lines, value = written()
    with pytest.raises(NameError, match="not defined"):
        value_of(lines[::-1], value)
    clash = [line.replace("n1", "n0") for line in lines]
    assert value_of(clash, sp.sympify(str(value).replace("n1", "n0"))) != 1.5 * 3.0 + 4.0


def test_steps_are_chosen_by_the_layer():
    assert by_layer(["x = 1"]) == "x = 1"
    text = by_layer(["x = 1", "", "x = 3\ny = 4"])
    got = []
    for layer in range(4):
        scope = {"l": layer, "x": 0}
        exec(text, scope)
        got.append(scope["x"])
    assert got == [1, 0, 3, 3]
