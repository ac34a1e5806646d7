"""Large depth (§ 4.2-4.4, § 5.3): limits and slopes of normalized correlators, renormalized variances, conjectures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import sympy as sp

import meanfield as mf
from derivations.claims import Verdict, network
from derivations.comparisons import Formula
from derivations.orthogonal_weights.kernels import TANH
from derivations.orthogonal_weights.kinds import Says, of_law
from meanfield.base.symbols import l

GAUSSIAN, RELU = network("tanh"), network("relu", weights="orthogonal")
PLACE = {"sigma_w": 1, "sigma_b": 0, "lambda_w": 1, "lambda_b": "1/l"}  # critical, rates (5.17)
ROOT = {"sigma_w": "sqrt(2)", "sigma_b": 0, "lambda_w": 1, "lambda_b": "1/l"}
NAMES = ("V", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U")
MEANS = ("G1", "Theta1")


def term(name: str, number: int, theory: mf.Theory) -> sp.Expr:
    """One term of the law of a normalized correlator, or of a correction over its mean."""
    return theory.depth_law(name, **PLACE).law.terms[number].expr(l)


def lead(name: str) -> Callable[[mf.Theory], sp.Expr]:
    return partial(term, name, 0)


def corrected(theory: mf.Theory) -> sp.Expr:
    """G1 itself: that over K times the law of K."""
    kernel = theory.depth_law("K", sigma_w=1, sigma_b=0).law.leading.expr(l)
    return sp.simplify(lead("G1")(theory) * kernel)


def shift(theory: mf.Theory) -> sp.Expr:
    """c_W^{1}/c_W^{0}."""
    found = theory.critical_shift()
    return found.C_W1 / found.C_W0


def powers(names: Iterable[str], theory: mf.Theory) -> set[sp.Expr]:
    """The powers of l that normalized correlators lead with."""
    return {theory.depth_law(name, **PLACE).law.leading.power for name in names}


def logs_beside_a_limit(theory: mf.Theory) -> set[tuple[sp.Expr, sp.Expr]]:
    """(power, logarithms) of the second terms of those that tend to a constant."""
    laws = [theory.depth_law(name, **PLACE).law for name in NAMES]
    return {(x.terms[1].power, x.terms[1].logs) for x in laws if x.leading.power == 0 and len(x.terms) > 1}


def smaller(one: str, two: str) -> Callable[[mf.Theory], bool]:
    """Whether |one| < |two| at large depth."""
    return lambda theory: bool(abs(sp.limit(lead(one)(theory) / lead(two)(theory), l, sp.oo)) < 1)


def powers_at(place: dict, names: Iterable[str], theory: mf.Theory) -> frozenset[sp.Expr]:
    return frozenset(theory.depth_law(name, **place).law.leading.power for name in names)


def powers_alone(place: dict, names: Iterable[str], theory: mf.Theory) -> bool:
    """Whether every normalized correlator goes as a power of l, as K does, so that no exponential is left to tune."""
    laws = [theory.depth_law(name, **place).law for name in names]
    return all(x.leading.rate == 0 for x in laws)


def settled(theory: mf.Theory) -> bool:
    """Whether the corrections of order 1/n² of K and V, over K and K², stay bounded: a run to 10^5 layers."""
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=10**5, input_norm=1 / 3, quantities=("K", "G2", "V1"))
    tenth, last = 10**4 - 1, 10**5 - 1
    G, V = run.G2 / run.K, run.V1 / run.K**2
    return bool(abs(G[last]) < abs(G[tenth]) < 0.1 and abs(V[last] - V[tenth]) < 0.02 and abs(V).max() < 4.01)


def forgotten(names: Iterable[str], theory: mf.Theory) -> bool:
    return all(theory.depth_law(name, **PLACE).forgets for name in names)


LIMITS = (
    Formula("(4.24)", (TANH, *of_law("mixed", "tanh")), "V/K^2", sp.Integer(-2), sp.Rational(-3, 2), by=lead("V")),
    Formula("(4.24), next", TANH, "V/K^2", 8 / (3 * l), 8 * sp.log(l) / (3 * l), by=partial(term, "V", 1)),
    Formula("§ 4.3, Gaussian tanh", GAUSSIAN, "V/K^2", 2 * l / 3, l / 3, by=lead("V")),
    Formula("(4.27), G1", TANH, "G1", 1 / l, 2 / l, by=corrected),
    Formula("(4.27), 1 + 2/n", TANH, "G1/K", sp.Integer(2), sp.S.One, by=lead("G1")),
    Formula("(4.27), Gaussian", GAUSSIAN, "G1", sp.Rational(-1, 6), sp.Rational(-1, 3), by=corrected),
    Formula("(4.28), Gaussian", GAUSSIAN, "c_W^1", sp.Rational(2, 3), sp.Rational(1, 3), by=shift),
    Formula("(4.28), orthogonal", TANH, "c_W^1", sp.S.Zero, sp.Rational(2, 3), by=shift),
    Formula("§ 5.3, Theta", (TANH, GAUSSIAN), "Theta", sp.Rational(3, 2), sp.S.One, by=lead("Theta")),
)  # fmt: skip
FOUND = frozenset({(-1, 0), (-1, 1), (-1, 2)})
CONJECTURES = (
    Says("§ 5.3, Gaussian: as l but U", GAUSSIAN, "V ... T", frozenset({1}), frozenset({0}),
         by=partial(powers, NAMES[:-1])),
    Says("§ 5.3, Gaussian: U as 1/l", GAUSSIAN, "U", frozenset({-1}), frozenset({1}), by=partial(powers, "U")),
    Says("C1: bounded", TANH, "V ... U", True, False,
         by=lambda theory: max(powers(NAMES, theory)) <= 0),
    # C1: a_0 + a_1 log(l)/l
    Says("C1: log(l)/l beside the limit", TANH, "V ... U", frozenset({(-1, 1)}), FOUND, True,
         by=logs_beside_a_limit),
    Says("C2: |A| < |B|", TANH, "A/B", True, False, True, by=smaller("A", "B")),
    Says("C2: |D| < |F|", TANH, "D/F", True, False, by=smaller("D", "F")),
    # C4: order 1/n and 1/n² of K and V stay in their bounds, orthogonal; l/n stays the scale where φ is homogeneous
    Says("C4: tanh, 1/n^2", TANH, "G2/K, V1/K^2", True, False, by=settled, how=Verdict.MEASURED),
    Says("C4: any phi", RELU, "V", frozenset({0}), frozenset({1}), True,
         by=partial(powers_at, ROOT, "V")),
    Says("C6: powers of l, Gaussian tanh", GAUSSIAN, "V ... U", True, False, by=partial(powers_alone, PLACE, NAMES)),
    Says("C6: powers of l, Gaussian ReLU", network("relu"), "V ... F", True, False,
         by=partial(powers_alone, ROOT, NAMES[:5])),
    Says("C5: one input, the leading terms", TANH, "V ... U", True, False, by=partial(forgotten, NAMES)),
)  # fmt: skip
CLAIMS = LIMITS + CONJECTURES


def constants(names: Iterable[str] = (*NAMES, *MEANS)) -> str:
    """The table of constants: the leading terms of tanh with the rates of (5.17), exact."""
    rows = [f"{'':>10}  {'orthogonal':<18} {'Gaussian':<18}"]
    for name in names:
        laws = [str(lead(name)(case.theory)) for case in (TANH, GAUSSIAN)]
        over = "Theta" if name == "Theta1" else "K"
        rows.append(f"{name + '~' if name in NAMES else f'{name}/{over}':>10}  {laws[0]:<18} {laws[1]:<18}".rstrip())
    return "\n".join(rows)
