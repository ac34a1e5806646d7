"""Quantities of a theory by name, for claims: what the engine derives, as one expression, number or word.

Names: "K" (the next K), "J", "Theta", "K^1", "chi_J", "chi_J*" (at the fixed point of a K map that is linear in K),
"<phi^2>", "line sigma_b^2" (a function of sigma_w), "line sigma_w^2(K)", "points", "point 1 zeta", "law J rate",
"J0^2" (layer 2 of the Jacobian with respect to the input), ...; those of two inputs are in `pairs`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import sympy as sp

import meanfield as mf
from derivations.pairs import pair_quantity
from meanfield.base.answers.results import Solution
from meanfield.base.symbols import D0, J0, Q0, K, l, sigma_b, sigma_w, z


@lru_cache(maxsize=1024)
def derived(theory: mf.Theory, name: str) -> Any:
    """The quantity `name` of the theory; expressions come with their averages closed where a closed form is known."""
    head, _, rest = name.partition(" ")
    if head == "point":
        index, field = rest.split(" ", 1)
        return _of_point(theory.critical_points()[int(index)], field)
    if head == "line":
        return _of_line(theory.critical_line(), rest)
    if head == "law":
        return _of_law(theory, *rest.split(" ", 1))
    found = pair_quantity(theory, name)
    if found is None:
        found = NAMED[name](theory) if name in NAMED else _one_input(theory, name)
    return mf.symbolic.closed(found) if isinstance(found, sp.Expr) and found != sp.oo else found


def _one_input(theory: mf.Theory, name: str) -> sp.Expr:
    if name.startswith("<"):
        return theory.averages()[name.strip("<>")]
    if name.endswith("^1"):
        return theory.one_input.initial[name[:-2]]
    if name.startswith("chi"):
        base = name.removesuffix("*")
        chi = theory.susceptibilities()[base]
        return chi.subs(K, fixed_point(theory)) if name.endswith("*") else chi
    return theory.one_input[name]


def fixed_point(theory: mf.Theory) -> sp.Expr:
    """K* of a map that is linear in K (LayerNorm, or φ homogeneous of degree 1)."""
    (found,) = sp.solve(sp.expand(mf.symbolic.closed(theory.one_input["K"])) - K, K)
    return sp.factor(found)


def _of_point(point: Any, field: str) -> Any:
    if field.endswith("^2"):
        return sp.expand(_of_point(point, field[:-2]) ** 2)
    found = getattr(point, field)
    return found.value if isinstance(found, Solution) else found


def _of_line(line: Any, field: str) -> Any:
    if field in ("kind", "message"):
        return getattr(line, field)
    if field == "chi_K(K)":
        return mf.symbolic.closed(line.chi_K)
    if field.endswith("(K)"):
        return mf.symbolic.closed(line.parametric[0 if "sigma_w" in field else 1])
    if field.endswith("^2"):
        return sp.expand(mf.symbolic.closed(getattr(line, field[:-2]) ** 2))
    return mf.symbolic.closed(getattr(line, field))


def _of_law(theory: mf.Theory, quantity: str, field: str) -> Any:
    law = theory.depth_law(quantity)
    if field == "lead":
        return law.law.leading.expr(l)
    return getattr(law, field)


def _law_step(theory: mf.Theory) -> sp.Expr:
    """J^{l+1}/J^l by the exact law, as a function of K^l: it must be χ_J."""
    law = getattr(theory.depth_law("J"), "exact", None)
    assert law is not None, "J has no exact law here"
    step = mf.symbolic.closed(theory.one_input["K"]) - K
    ratio = sp.gammasimp(law.subs(l, l + 1) / law)
    start = theory.one_input.initial["K"].subs(Q0, 1)
    return sp.simplify(ratio.subs(l, (K - start) / step + 1))


def _input_layer(theory: mf.Theory, layer: int) -> sp.Expr:
    """J^{0,1} or J^{0,2}, K the K of layer 1."""
    r = theory.input_jacobian
    first = {D0: r.initial["D0"], J0: r.initial["J0"]}
    return first[J0] if layer == 1 else r["J0"].subs(first)


def _share(theory: mf.Theory) -> sp.Expr:
    """S' with S = D0·J0."""
    r = theory.input_jacobian
    return sp.simplify(mf.symbolic.closed(r["D0"] * r["J0"]))


def _gap_of_exponents(theory: mf.Theory) -> sp.Expr:
    """ζ - d_1/c_2 at the first critical point; 0 for n = 2 by (C.7)."""
    point = theory.critical_points()[0]
    return sp.simplify(_of_point(point, "zeta") - _of_point(point, "d_1") / _of_point(point, "c_n"))


def _is_power(theory: mf.Theory) -> bool:
    """Whether J^{l0,l} at the first critical point is a power of l, and no stretched exponential."""
    law = theory.critical_points()[0].law_J
    return law is not None and law.rate == 0


def _on_line(theory: mf.Theory, line_of: mf.Theory) -> sp.Expr:
    """The power of l in J on the critical line of `line_of`, at σ_w = 1; None where J is exponential."""
    bias = mf.symbolic.closed(_of_line(line_of.critical_line(), "sigma_b")).subs(sigma_w, 1)
    law = theory.depth_law("J", sigma_w=1, sigma_b=bias)
    return sp.simplify(law.exponent) if law.rate == 0 else sp.oo


def prefactor(n: int) -> sp.Expr:
    """A of δ^l ~ A l^{-1/(n-1)} for δ' = δ - c δ^n."""
    return mf.symbolic.decay({n: -C}).amplitude


def _at_normal(theory: mf.Theory, name: str) -> sp.Expr:
    """An average of φ at K = σ_w² + σ_b², where LayerNorm on activations holds K."""
    return mf.symbolic.closed(theory.averages()[name].subs(K, sigma_w**2 + sigma_b**2))


def _series_at_point(theory: mf.Theory) -> sp.Expr:
    """The map of K at its first critical point (K* = 0) to third order."""
    point = theory.critical_points()[0]
    step = theory.one_input["K"].subs({sigma_w: point.sigma_w.value, sigma_b: point.sigma_b.value})
    return mf.symbolic.at_zero(step, 3).expr


def _slope_of_chi(theory: mf.Theory) -> sp.Expr:
    """d_1/c_2 = 2χ_J′/F″, as if every K of the critical line were a critical point."""
    step, chi = mf.symbolic.closed(theory.one_input["K"]), mf.symbolic.closed(theory.susceptibilities()["chi_J"])
    return 2 * sp.diff(chi, K) / sp.diff(step, K, 2)


def _decay_of_chi(theory: mf.Theory) -> sp.Expr:
    """The coefficient of l^{-1/2} in χ_J - 1 where K ~ s·l and χ_J - 1 ~ e/√K."""
    chi = mf.symbolic.at_infinity(theory.susceptibilities()["chi_J"], 1)
    gain = mf.symbolic.at_infinity(sp.expand(theory.one_input["K"] - K), 1).coefficient(0)
    return sp.simplify(chi.coefficient(-sp.S.Half) / sp.sqrt(gain))


C = sp.Symbol("c", positive=True)
LAMBDA = sp.symbols("lambda_1 lambda_2", positive=True)  # the two scales of (H.2)
_ERFS = [sp.erf(a * z) for a in LAMBDA]
NAMED: dict[str, Callable[[mf.Theory], Any]] = {
    "K*": fixed_point,
    "chi_J - chi_K": lambda t: t.susceptibilities()["chi_J"] - t.susceptibilities()["chi_K"],
    "log chi_J*": lambda t: sp.log(mf.symbolic.closed(_one_input(t, "chi_J*"))),
    "1/chi_J*": lambda t: 1 / mf.symbolic.closed(_one_input(t, "chi_J*")),
    "J0^1": lambda t: _input_layer(t, 1),
    "J0^2": lambda t: _input_layer(t, 2),
    "J0": lambda t: t.input_jacobian["J0"],
    "D0*J0": _share,
    "points": lambda t: len(t.critical_points()),
    "exact J step": _law_step,
    "p": lambda t: t.depth_law("J").exponent,
    "zeta - d_1/c_2": _gap_of_exponents,
    "J is a power at the point": _is_power,
    "J exponent on the line": lambda t: _on_line(t, t),
    "J exponent on the line of mu < 1": lambda t: _on_line(t, mf.derive(t.activations[0], norm="pre")),
    "A, n = 2": lambda t: prefactor(2),
    "A, n = 3": lambda t: prefactor(3),
    "A, n = 4": lambda t: prefactor(4),
    "<phi>_s": lambda t: _at_normal(t, "phi"),
    "<phi^2>_s": lambda t: _at_normal(t, "phi^2"),
    "<phi'^2>_s": lambda t: _at_normal(t, "phi'^2"),
    "K on the line": lambda t: mf.symbolic.closed(t.one_input["K"]).subs(sigma_w, derived(t, "line sigma_w")),
    "K at the point": _series_at_point,
    "chi_J* at sigma_b = 0": lambda t: mf.symbolic.closed(_one_input(t, "chi_J*")).subs(sigma_b, 0),
    "chi_J - 1 at large l": _decay_of_chi,
    "1/lambda": lambda t: t.depth_law("J").rate ** 2,
    "-c_2 at point 1": lambda t: -derived(t, "point 1 c_n"),
    "l (chi_J - 1) at point 1": lambda t: -derived(t, "point 1 d_1") / derived(t, "point 1 c_n"),
    "d_1/c_2(K)": _slope_of_chi,
    "<erf(l1 z) erf(l2 z)>": lambda t: mf.average(_ERFS[0] * _ERFS[1], K),
    "<d erf(l1 z) d erf(l2 z)>": lambda t: mf.average(_ERFS[0].diff(LAMBDA[0]) * _ERFS[1].diff(LAMBDA[1]), K),
}
