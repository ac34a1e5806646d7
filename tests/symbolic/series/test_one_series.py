"""One algebra of truncated series: the module of each of its parts, and a search of the package for a second one.

Whoever needs a product of series, what a sum leaves out, an expansion of an expression in K, or x′ = x + … solved by
series, takes it from `symbolic/series`. What looks like a rival in the syntax trees of the exact half stands below with
what it is; a new one fails here, and so does a line of one that is gone.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest

from meanfield.numeric.lowering.near_zero import NearZero
from meanfield.symbolic.asymptotics import scaling
from meanfield.symbolic.averages.expansions.powerlog import Sums
from meanfield.symbolic.correlator_laws import settings, systems
from meanfield.symbolic.correlator_laws.local_series import Expander
from meanfield.symbolic.criticality import small_bias
from meanfield.symbolic.series import difference, recurrences
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import Atoms, Exact
from meanfield.symbolic.series.exponential_sums import ExponentialSums
from meanfield.symbolic.series.exponents import Basis
from meanfield.symbolic.series.expression_series import ExpressionSeries
from meanfield.symbolic.series.ring import Ring
from meanfield.symbolic.series.truncated import Calculus, Truncated
from tests.package.test_imports import PACKAGE

EXACT_HALF = ("base", "functions", "symbolic")

HOMES = {
    "coefficients": (Exact, Atoms),
    "exponents": (Basis,),
    "ring": (Ring, Ring.product, Ring.composed, Ring.solved, Ring.summed),  # summed: Σ over layers
    "truncated": (Truncated, Calculus),
    "exponential_sums": (ExponentialSums,),
    "asymptotic_law": (Law,),
    "expression_series": (ExpressionSeries,),
    "recurrences": (recurrences.put_in, recurrences.balanced, recurrences.growing),  # x′ = x + …
    "difference": (difference.solved,),  # x′ = m x + s
}

#: Σ a_p b_q at p + q: (module, function) → what it multiplies
PRODUCTS = {
    ("symbolic.series.ring", "product"): "the series",
    ("symbolic.series.coefficients", "__mul__"): "their coefficients, polynomials in named numbers",
    ("functions.series.infinity", "_times"): "sums of t^s (log t)^m A(1/t) with A an expression, nothing left out",
    ("functions.series.taylor", "_mul"): "Taylor coefficients one after the other, as the equations of heads need them",
    ("functions.series.taylor", "_power"): "the same",
    ("symbolic.averages.expansions.mellin", "_gamma_series"): "the numbers of Γ(a + x) at a pole",
    ("symbolic.correlator_laws.scale_invariant", "_product"): "polynomials in l and H_l, which are exact",
    ("symbolic.finite_width.haar.haar_moments", "_product"): "polynomials in entries of a matrix",
    ("symbolic.finite_width.variance", "_times"): "two orders in 1/n",
}

#: classes that add and multiply, or say what they leave out
ALGEBRAS = {
    ("symbolic.series.asymptotic_law", "Law"): "what a series prints, computed as the next line",
    ("symbolic.series.exponential_sums", "ExponentialSums"): "one truncated series for each exponential",
    ("base.answers.results", "Solution"): "a number with its error",
    ("functions.elementary.record", "EndBehavior"): "the alternating series of one head, an enclosure",
    ("functions.growth", "Bound"): "upper bounds c·|z|^p",
    ("functions.growth", "ExponentialDecay"): "how fast something falls",
    ("functions.growth", "TailExpansion"): "an enclosure of a tail",
    ("symbolic.asymptotics.higher_order.leading_order", "Expanded"): "the same",
    ("symbolic.asymptotics.higher_order.series_solution", "Corrections"): "what further terms print",
    ("symbolic.asymptotics.in_total_depth.total_marginal", "Force"): "one term in l and L",
    ("symbolic.asymptotics.log_growth", "Growth"): "a leading order, which is one term",
    ("symbolic.asymptotics.scaling", "Path"): "u of the ring, and x of it",
    ("symbolic.averages.expansions.powerlog", "Sums"): "the walk with K or 1/K for l",
    ("symbolic.correlator_laws.local_series", "Expander"): "the walk with √K or K - K* for 1/l",
    ("symbolic.finite_width.ensembles", "Independent"): "cumulants of weights, of which the rest are 0",
    ("symbolic.series.coefficients", "Exact"): "the coefficients",
    ("symbolic.series.exponents", "Span"): "the exponents",
    ("symbolic.series.expression_series", "ExpressionSeries"): "the walk",
    ("symbolic.series.ring", "Ring"): "the series",
    ("symbolic.series.truncated", "Calculus"): "the series with what they leave out",
    ("symbolic.series.truncated", "Truncated"): "the same",
}

#: functions that take sums, products and powers of expressions apart
WALKS = {
    ("symbolic.series.expression_series", "_expanded"): "expressions in K",
    ("functions.series.infinity", "__call__"): "functions of t → ∞, with nothing left out",
    ("functions.series.taylor", "_walk"): "functions at 0, each head by its differential equation",
    ("functions.balls.straight_line", "_write"): "a program",
    ("functions.growth", "_bound_by_rules"): "upper bounds",
    ("functions.growth", "decay"): "one power and a bound",
    ("functions.isolation", "_interval"): "intervals",
    ("functions.ranges", "span"): "intervals",
    ("functions.reading.parser", "_size"): "a degree",
}
REMAINDERS = {"rest", "remainder", "omitted", "lost", "left_out", "error_power"}
ARITHMETIC = {"mul", "plus", "power", "product", "times"}
OPERATIONS = ({"__mul__", "__add__"}, {"__mul__", "__pow__"}, {"times", "plus"}, {"times", "power"})


def names(e: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(e) if isinstance(n, ast.Name)}


def iterated(m: ast.AST) -> list[set[str]]:
    """The variables of each loop that a statement or a comprehension opens."""
    if isinstance(m, ast.For):
        return [names(m.target)]
    if isinstance(m, (ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)):
        return [names(g.target) for g in m.generators]
    return []


def meets(e: ast.AST, one: set[str], two: set[str]) -> bool:
    """Whether the operands of p + q, x * y or times(k, j), each a variable or a part of one, are of two loops."""
    if isinstance(e, ast.BinOp):
        sides = [e.left, e.right]
    elif isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id.strip("_") == "times":
        sides = e.args
    else:
        return False
    if len(sides) != 2 or not all(isinstance(s, (ast.Name, ast.Attribute, ast.Subscript)) for s in sides):
        return False
    a, b = map(names, sides)
    return bool((a & one and b & two) or (a & two and b & one))


def multiplies_sums(f: ast.FunctionDef) -> bool:
    """Whether two loops meet in a product of values and a sum of keys, or a[i] is multiplied with b[k - i]."""

    def visited(m: ast.AST, open_loops: list[set[str]]) -> bool:
        held = open_loops + iterated(m)
        for i, inner in enumerate(held[len(open_loops) :], len(open_loops)):
            for outer in held[:i]:
                pairs = [e for e in ast.walk(m) if meets(e, outer - inner, inner)]
                values = any(isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult) for e in pairs)
                if values and any(isinstance(e, ast.Call) or isinstance(e.op, ast.Add) for e in pairs):
                    return True
        return any(visited(c, held) for c in ast.iter_child_nodes(m) if not isinstance(c, ast.FunctionDef))

    def convolves(e: ast.AST) -> bool:
        if not (isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult)):
            return False
        places = [s.slice for s in ast.walk(e) if isinstance(s, ast.Subscript)]
        back = [p for p in places if isinstance(p, ast.BinOp) and isinstance(p.op, ast.Sub) and names(p)]
        return any(names(p) & names(q) for p in back for q in places if q is not p)

    return any(visited(c, []) for c in f.body) or any(map(convolves, ast.walk(f)))


def computes(c: ast.ClassDef) -> bool:
    """Whether a class has an arithmetic, or says what it leaves out."""
    methods = {m.name for m in c.body if isinstance(m, ast.FunctionDef)}
    fields = {m.target.id for m in c.body if isinstance(m, ast.AnnAssign) and isinstance(m.target, ast.Name)}
    return bool(fields & REMAINDERS) or any(some <= methods for some in OPERATIONS)


def puts_in(f: ast.FunctionDef) -> bool:
    """Whether something is computed from itself in a loop until it stays the same."""
    for loop in (n for n in ast.walk(f) if isinstance(n, (ast.For, ast.While))):
        same = [
            names(e)
            for e in ast.walk(loop)
            if isinstance(e, ast.Compare) and isinstance(e.ops[0], ast.Eq) and isinstance(e.left, ast.Name)
        ]
        copied = [names(e) for e in ast.walk(loop) if isinstance(e, ast.Assign) and isinstance(e.value, ast.Name)]
        if any(pair in same for pair in copied if len(pair) == 2):
            return True
    return False


def expands(f: ast.FunctionDef) -> bool:
    """Whether a function takes sums, products and powers of an expression apart and computes with what it gets."""
    asked = {n.attr for n in ast.walk(f) if isinstance(n, ast.Attribute)}
    words = {n.id for n in ast.walk(f) if isinstance(n, ast.Name)} | asked
    return {"is_Add", "is_Mul", "is_Pow"} <= asked and any(w.strip("_") in ARITHMETIC for w in words)


def searched(text: str, module: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """(kind, (module, name)) of whatever looks like an algebra of series in a module's text."""
    for n in ast.walk(ast.parse(text)):
        if isinstance(n, ast.ClassDef) and computes(n):
            yield "class", (module, n.name)
        if isinstance(n, ast.FunctionDef):
            if multiplies_sums(n):
                yield "product", (module, n.name)
            if puts_in(n):
                yield "solver", (module, n.name)
            if expands(n):
                yield "walk", (module, n.name)


def all_found() -> dict[str, set[tuple[str, str]]]:
    """What looks like an algebra of series in the exact half, by its kind."""
    out: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for room in EXACT_HALF:
        for file in sorted((PACKAGE / room).rglob("*.py")):
            module = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
            for kind, where in searched(file.read_text(), module):
                out[kind].add(where)
    return out


@pytest.mark.parametrize("module", HOMES)
def test_each_part_stands_in_one_module(module):
    assert {one.__module__ for one in HOMES[module]} == {f"meanfield.symbolic.series.{module}"}
    assert [p.stem for p in (PACKAGE / "symbolic" / "series").glob("[a-z]*.py") if p.stem not in HOMES] == []


def test_who_needs_a_series_takes_these():
    """Expansions in K, laws in l, lines at small biases and correlators have the same objects."""
    assert isinstance(Sums(1).calculus, Calculus) and issubclass(Sums, ExpressionSeries)
    assert issubclass(Expander, ExpressionSeries) and issubclass(NearZero, ExpressionSeries)
    assert small_bias.Calculus is settings.Calculus is Calculus
    assert scaling.growing is settings.growing is recurrences.growing
    assert systems.solved is difference.solved and difference.balanced is recurrences.balanced


def test_no_rival_stands_in_the_package_and_one_loop_puts_a_series_in_again():
    every = all_found()
    for kind, known in (("product", PRODUCTS), ("class", ALGEBRAS), ("walk", WALKS)):
        seen = every[kind]
        assert seen - set(known) == set(), f"a second algebra of series? {sorted(seen - set(known))}"
        assert set(known) - seen == set(), f"listed, but gone: {sorted(set(known) - seen)}"
    assert every["solver"] == {("symbolic.series.recurrences", "put_in")}


PLANTED = {
    "product": (
        "def f(a, b):\n    out = {}\n    for (p, m), x in a.items():\n        for (q, n), y in b.items():\n"
        "            out[p + q, m + n] = out.get((p + q, m + n), 0) + x * y\n    return out\n",
        "def f(a, b):\n    return [sum(a[i] * b[k - i] for i in range(k + 1)) for k in range(9)]\n",
        "def f(a, b):\n    return [Part(p.power + q.power, p.factor * q.factor) for p in a for q in b]\n",
    ),
    "class": (
        "class Sum:\n    terms: dict\n    rest: tuple | None = None\n",
        "class Series:\n    def __mul__(self, other): ...\n    def __pow__(self, n): ...\n",
    ),
    "solver": (
        "def f(answer, x):\n    while True:\n        new = answer(x)\n        if new == x:\n            return x\n"
        "        x = new\n",
    ),
    "walk": (
        "def f(e):\n    if e.is_Add:\n        return plus(*map(f, e.args))\n    if e.is_Mul:\n"
        "        return times(*map(f, e.args))\n    return power(f(e.base), e.exp) if e.is_Pow else e\n",
    ),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_rival_is_seen(kind):
    for text in PLANTED[kind]:
        assert [k for k, _ in searched(text, "planted")] == [kind]
    plain = "def f(a, b):\n    for x in a:\n        for y in b:\n            print(x * 2 + y)\n"
    assert list(searched(plain, "planted")) == []
