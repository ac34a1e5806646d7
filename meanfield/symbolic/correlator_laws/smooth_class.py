r"""Large-depth laws of a whole class of φ at once: smooth, φ(0) = 0, at the critical point σ_w φ′(0) = 1, σ_b = 0.

Near K = 0 a smooth φ is φ′(0)(z + s_1 z²/2 + s_2 z³/6 + …), and K' = K − cK² + …, χ_J = 1 − pcK + …. With z in units
of 1/√c all coefficients are polynomials in p, since s_1² = 4c(1 − p) and s_2 = c(3p − 4); J ~ l^{-p}. Further
coefficients s_3, s_4 enter with further powers of K, and so only where leading sources cancel. Powers of l are a + bp;
that one leads holds in a range of p, whose ends are found where another power is as large.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.base.answers.export import Result
from meanfield.base.answers.results import MeanFieldError, Status, one_line
from meanfield.base.arguments import choice, flag, scalar, shown, validated
from meanfield.base.symbols import l, parameter, z
from meanfield.functions.activations import activation as record
from meanfield.functions.reading.parser import parse
from meanfield.symbolic.correlator_laws.local_series import near_zero
from meanfield.symbolic.correlator_laws.settings import power_law_at_zero
from meanfield.symbolic.correlator_laws.systems import CARRIED, CorrelatorSystem
from meanfield.symbolic.finite_width.correlator_recursions import ORDER, correlator_recursion
from meanfield.symbolic.series.coefficients import Atoms, rational
from meanfield.symbolic.series.difference import NotFar
from meanfield.symbolic.series.truncated import Calculus

s1, s2, s3, s4 = S = tuple(parameter(f"s_{i}") for i in range(1, 5))
_C, _P = sp.Symbol("c", positive=True), sp.Symbol("p", real=True)
_R, _Q, _T = sp.symbols("r q t", real=True)  # s_4/c², s_1 s_3/c², s_3²/c³
TRIAL = sp.Rational(19, 20)
REACHES = (0, 1, 2, 4)


@dataclass(frozen=True)
class ClassLaw(Result):
    """The leading term of a normalized correlator in the class, `coefficient` · l^power · (log l)^logs.

    coefficient, power: in s_1 = φ″(0)/φ′(0) and s_2 = φ‴(0)/φ′(0) (s_2 alone in the odd class, s_1 = 0) and in the
    rates; above, below: the range of p = (s_1² + s_2)/(3 s_1²/4 + s_2) in which it leads, (0, 1) at most, None in
    the odd class, where p = 1.

    >>> print(class_law("V"))
    V/K**2 ~ 2*l/3   (0 < p < 1)
    """

    name: str
    coefficient: sp.Expr
    power: sp.Expr
    logs: sp.Expr
    above: sp.Expr | None = None
    below: sp.Expr | None = None

    @property
    def expr(self) -> sp.Expr:
        """The leading term as an expression in l."""
        return self.coefficient * l**self.power * sp.log(l) ** self.logs

    def text(self) -> str:
        """The leading term on one line."""
        return str(self.expr)

    @property
    def limit(self) -> sp.Expr:
        """What the normalized correlator tends to where the power is a number: the coefficient, 0 or ±oo."""
        if self.power == 0 and self.logs == 0:
            return self.coefficient
        if self.power.is_number:
            return sp.S.Zero if self.power < 0 else sp.oo * sp.sign(self.coefficient)
        return sp.nan

    def __repr__(self) -> str:
        return one_line("ClassLaw", str(self))

    def __str__(self) -> str:
        where = "s_1 = 0" if self.above is None else f"{self.above} < p < {self.below}"
        return f"{self.name} ~ {self.expr}   ({where})"


@validated
def class_law(
    quantity: str, *, weights: str = "gaussian", odd: bool = False, lambda_w: object = 1, lambda_b: object = 0
) -> ClassLaw:
    r"""The leading large-depth term of a normalized correlator for every smooth φ with φ(0) = 0, φ′(0) = 1 at its
    critical point σ_w = 1, σ_b = 0, as a function of s_1 = φ″(0), s_2 = φ‴(0) (in general φ″(0)/φ′(0), φ‴(0)/φ′(0)).

    quantity: "V", "A", …, "U", "Theta", "G1", "Theta1" or "J1", divided as in `Theory.depth_law`; weights: "gaussian",
    "orthogonal", "mixed" (as orthogonal ones) or "uniform" (as Gaussian ones to leading order, no J1); odd: s_1 = 0,
    else the general case 0 < p < 1, J ~ l^{-p}; lambda_w, lambda_b: rates, numbers, expressions or formulas in l
    ("1/l") for σ_w φ′(0) = 1; σ_w² and σ_b² unless given.

    Raises: MeanFieldError for unknown names. Source: derived here.

    >>> print(class_law("V", weights="orthogonal"))
    V/K**2 ~ -4*(9*s_1**2 + 2*s_2)/(3*s_1**2 + 4*s_2)   (0 < p < 1)
    >>> class_law("Theta", odd=True, lambda_b="1/l").limit
    (s_2 - 1)/s_2
    """
    choice(quantity, "quantity", (*ORDER[1:], "J1"))
    choice(weights, "weights", ("gaussian", "orthogonal", "mixed", "uniform"))
    flag(odd, "odd")
    lambda_w, lambda_b = (expression_in_l(r, n) for r, n in ((lambda_w, "lambda_w"), (lambda_b, "lambda_b")))
    if odd:
        found = _leading(quantity, weights, lambda_w, lambda_b, None)
        law, k, _ = found
        return ClassLaw(law.name, _in_s(law.terms[0].coefficient, True), law.terms[0].power, law.terms[0].logs)
    law, k, ties = _leading(quantity, weights, lambda_w, lambda_b, TRIAL)
    above = max([t for t in ties if t < TRIAL], default=sp.S.Zero)
    check, again, _ = _leading(quantity, weights, lambda_w, lambda_b, (above + TRIAL) / 2)
    if again != k or sp.simplify(check.terms[0].coefficient - law.terms[0].coefficient) != 0:
        raise MeanFieldError(f"In which range of p the law of {quantity} holds is not decided.")
    term = law.terms[0]
    return ClassLaw(law.name, _in_s(term.coefficient, False), _in_s(term.power, False), term.logs, above, sp.S.One)


def expression_in_l(value: object, name: str) -> sp.Expr:
    """A rate: a number, an expression, or a formula in l."""
    e = parse(value, ("l",)) if isinstance(value, str) else sp.sympify(scalar(value, name))
    if e.has(z) or e.is_negative or (e.is_number and not e.is_finite):
        raise MeanFieldError(f"{name} must be a number ≥ 0 or a formula in l, the layer, but {shown(value)} was given.")
    return e.xreplace({x: sp.Rational(str(x)) for x in e.atoms(sp.Float)})


def _in_s(e: sp.Expr, odd: bool) -> sp.Expr:
    c = -s2 if odd else -(3 * s1**2 / 4 + s2)
    p = sp.S.One if odd else -(s1**2 + s2) / c
    further = {_R: s4 / c**2, _Q: s1 * s3 / c**2, _T: s3**2 / c**3}
    return sp.factor(sp.cancel(sp.together(sp.sympify(e).subs(further | {_C: c, _P: p}))))


def _leading(quantity: str, weights: str, lambda_w, lambda_b, p: sp.Rational | None):
    """(the law down to its leading term, the key of that, the values of p at which another power ties with it)."""
    for reach in REACHES:
        try:
            system = _system(quantity, weights, lambda_w, lambda_b, p, reach)
            found, _ = system.normalized(quantity)
            law = replace(system.law(quantity, 0), terms=system.law(quantity, 0).terms[:1])
        except NotFar:
            continue
        calc = system.calculus
        k = calc.order.ordered(found.terms)[0][0]
        return law, k, _ties(system, quantity)
    raise MeanFieldError(f"The leading sources of {quantity} cancel in all orders that were looked at.")


def _ties(system: CorrelatorSystem, quantity: str) -> list[sp.Expr]:
    """Values of p in (0, 1) at which two powers that occur are equal."""
    out = set()
    for x in {*system.solutions, CARRIED.get(quantity, quantity)}:
        keys = [k for k in system.solution(x).terms]
        calc = system.calculus
        top = max(keys, key=calc.size, default=None)
        for k in keys:
            a, b = k[0] - top[0], k[1] - top[1]  # type: ignore[index]
            if b != 0 and 0 < -a / b < 1:
                out.add(sp.Rational(int((-a / b).p), int((-a / b).q)))
    return sorted(out)


def _system(quantity: str, weights: str, lambda_w, lambda_b, p: sp.Rational | None, reach: int) -> CorrelatorSystem:
    phi = record("z + s_1*z**2/2 + s_2*z**3/6 + s_3*z**4/24 + s_4*z**5/120", **{x.name: x.name for x in S})
    if p is None:
        phi = phi.at({"s_1": sp.S.Zero, "s_3": sp.S.Zero})
    rates = (lambda_w, lambda_b)
    recursion = correlator_recursion(phi, weights=weights, quantities=(quantity, "Theta", "K"), rates=rates)
    recursion = recursion.replaced({"sigma_w": 1, "sigma_b": 0})
    atoms = Atoms()
    expander = near_zero(atoms, reach + 3, _in_p if p is not None else _in_c)
    calculus = Calculus(atoms) if p is None else Calculus(atoms, _P, rational(p))
    setting = power_law_at_zero(calculus, expander, recursion["K"], reach, start=False)
    regime = "critical: power-law approach of K to 0"
    return CorrelatorSystem(recursion, setting, regime, Status.EXACT, sp.factor, costly=True, bare=True)


def _in_c(e: sp.Expr) -> sp.Expr:
    """The same of an odd φ."""
    return sp.expand(e.subs({s2: -_C, s4: _R * _C**2}))


def _in_p(e: sp.Expr) -> sp.Expr:
    """A polynomial in s_1, …, s_4 in c, p and ratios without dimension; z → −z changes the signs of s_1 and s_3."""
    total = sp.S.Zero
    for (a, b, d, f), x in sp.Poly(e, *S).terms():
        both = min(a, d)
        if (a - both) % 2 or (d - both) % 2:
            raise MeanFieldError("A coefficient of K is not even in s_1 and s_3.")
        part = x * (_Q * _C**2) ** both * (_C * (3 * _P - 4)) ** b * (_R * _C**2) ** f
        total += part * (4 * _C * (1 - _P)) ** ((a - both) // 2) * (_T * _C**3) ** ((d - both) // 2)
    return sp.expand(total)
