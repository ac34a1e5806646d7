"""An average that this file adds, ⟨cos(ωz)⟩ over N(0, K), is derived, printed, differentiated and compiled."""

from __future__ import annotations

import ast
import inspect
import math
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, sigma_b, sigma_w, z
from meanfield.numeric.lowering import assembly
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.lowering.modules.module_functions import lowers, require_usable
from meanfield.symbolic import averages
from meanfield.symbolic.averages import node
from meanfield.symbolic.averages.base import Defined, Node, nodes_in
from meanfield.symbolic.averages.expansions import moments
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.averages.nodes import (
    equal_norms,
    group_functions,
    maxima,
    pools,
    shared_averages,
    spheres,
    unequal_norms,
)
from meanfield.symbolic.recursion import Recursion, StateVar

OMEGA = sp.Rational(7, 5)


class Cosine(Defined):
    """⟨cos(ωz)⟩_K, e^{−ω²K/2}."""

    tex_letter = "W"

    def __new__(cls, omega, K):
        return super().__new__(cls, sp.sympify(omega), sp.sympify(K))

    def definition(self):
        return average(sp.cos(self.args[0] * z), self.args[1])

    def over_symbols(self):
        return type(self)(self.args[0], K), (self.args[1],)

    def _eval_evalf(self, prec):
        return None if not self.is_number else sp.exp(-(self.args[0] ** 2) * self.args[1] / 2)._eval_evalf(prec)

    def _sympystr(self, printer):
        return f"wave({printer._print(self.args[0])}, {printer._print(self.args[1])})"

    def tex_inside(self):
        return sp.cos(self.args[0] * z), lambda body, write: rf"\langle {body} \rangle_{{{write(self.args[1])}}}"


class Wave(Cosine):
    """The node that is compiled."""


class Silent(Cosine):
    """The same, of which nobody says how it is compiled."""


RATE = {"right": 0.5}


@lowers(Wave)
def _lowered(functions, shape, written):
    name, omega = functions.name(shape, "wave"), float(shape.args[0])
    functions.add(
        name, f"def {name}(K):\n    return math.exp({-RATE['right'] * omega**2!r} * K)\n", str(shape), 1e-16, 0.0
    )


def recursion(kind=Wave):
    e = sigma_w**2 * (1 - kind(OMEGA, K)) + sigma_b**2 + kind(OMEGA, 3 * K)
    return Recursion((StateVar("K", K, sp.S.One),), (e,))


def assert_layers(values, omega=OMEGA):
    """K of three layers against the definition in 30 digits."""
    k = [sp.S.One]
    for _ in range(2):
        k.append(4 * (1 - sp.exp(-(omega**2) * k[-1] / 2)) + sp.exp(-(omega**2) * 3 * k[-1] / 2))
    np.testing.assert_allclose(values, [float(sp.N(x, 30)) for x in k], rtol=1e-14)


def test_it_is_compiled():
    lowered = lower(recursion())
    sigma = {"sigma_w": 2.0, "sigma_b": 0.0}
    start = np.array([[1.0]])
    values, _ = lowered.run(start, np.array([[[sigma[p]]] for p in lowered.parameters]), 3, True, True)
    assert_layers(values[0, :, 0])
    assert lowered.source.count("def wave_") == 1, "one function for both places"
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_layers(values[0, :, 0], OMEGA + sp.Rational(1, 10**6))


def test_it_is_derived_and_printed():
    """By the base alone: symbols, digits, slope, closed form, LaTeX."""
    w = Wave(OMEGA, K)
    assert w.free_symbols == {K} and nodes_in(recursion()["K"]) == {w, Wave(OMEGA, 3 * K)}
    assert sp.simplify(w.diff(K).doit() + OMEGA**2 / 2 * sp.exp(-(OMEGA**2) * K / 2)) == 0
    assert w.doit() == sp.exp(-(OMEGA**2) * K / 2)
    assert Wave(1, sp.S(2)).evalf(30) == sp.exp(-1).evalf(30)
    assert sp.latex(w) == r"\langle \cos{\left(\frac{7 z}{5} \right)} \rangle_{K}"
    (row,) = recursion().iterate({"sigma_w": 2, "sigma_b": 0}, 2)[1:]
    assert float(row["K"]) == pytest.approx(4 * (1 - math.exp(-0.98)) + math.exp(-2.94), rel=1e-14)


def test_one_that_nobody_compiles_is_refused_by_name():
    with pytest.raises(mf.MeanFieldError, match=r"register a function for Silent with lowers"):
        lower(recursion(Silent))
    with pytest.raises(
        mf.MeanFieldError, match=r"too steep or oscillates too fast for float64 \(measured error 1e-03\)"
    ):
        require_usable(Wave(OMEGA, K), 1e-3)


# ------------------------------------------------------------------------------------------ one base, one registry

HOME = Path(averages.__file__).parent
ROOMS = (unequal_norms, shared_averages, group_functions, maxima, moments, node, pools, spheres, equal_norms)


def test_every_average_is_a_node():
    """What derives from SymPy's expressions in the averages is the base, an atom, or a node."""
    found = {c for m in ROOMS for _, c in inspect.getmembers(m, inspect.isclass) if issubclass(c, sp.Expr)}
    own = {c for c in found if c.__module__.startswith("meanfield.symbolic.averages")}
    assert {c.__name__ for c in own if not issubclass(c, Node)} == {"Integrand", "Program"}
    repeated = [
        m.__name__ for m in ROOMS if "is_commutative = True\n    is_real = True\n\n    def" in inspect.getsource(m)
    ]
    assert not repeated, f"{repeated} say again what the base says"
    assert all("free_symbols" not in vars(c) for c in own - {Node} if issubclass(c, Node))


def type_tests(text):
    """Calls of isinstance, and class patterns, on classes of averages."""
    names = {c for m in ROOMS for c, _ in inspect.getmembers(m, inspect.isclass)} & {
        "Average", "DistanceRatio", "UnequalDistanceRatio", "DirectionRatio", "DividedDifference", "GroupAverage",
        "MaximumAverage", "Common", "MaxProduct", "MaxDistanceRatio"
    }  # fmt: skip
    met = []
    for one in ast.walk(ast.parse(text)):
        if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "isinstance":
            met += [n.id for n in ast.walk(one) if isinstance(n, ast.Name) and n.id in names]
        if isinstance(one, ast.MatchClass) and getattr(one.cls, "id", "") in names:
            met.append(one.cls.id)
    return met


GENERAL = ("modules/module_functions", "modules/generated_modules", "text/depth_loops")


@pytest.mark.parametrize("module", [*GENERAL, "evaluators", "assembly", "generation"])
def test_what_every_average_goes_through_knows_no_kind(module):
    text = (Path(assembly.__file__).parent / f"{module}.py").read_text()
    assert type_tests(text) == []


def test_control_a_chain_of_kinds_is_seen():
    chain = (
        "if isinstance(x, (DistanceRatio, DividedDifference)):\n    pass\nelif isinstance(x, GroupAverage):\n    pass\n"
    )
    assert type_tests(chain) == ["DistanceRatio", "DividedDifference", "GroupAverage"]
