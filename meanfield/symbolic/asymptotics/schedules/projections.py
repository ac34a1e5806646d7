r"""Where the width of a deep network has to change so that squared gradients per neuron stay bounded.

Per neuron they are J^{l,L} N_L/N_l, so widths that follow 1/J^{1,l} keep them; with steps by a factor r the n-th is due
where |log J^{1,l}| = n log r. The growing terms of log J say where that is. Source: [variance_variation] Sec. 6 for
tanh; derived here for every law.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.base.answers.export import Result
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.symbolic.asymptotics.comparing import leading_term
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth, Key, SignOracle, regular

n = sp.Symbol("n", positive=True)  # the number of a change of width


@dataclass(frozen=True)
class ProjectionLaw(Result):
    """Where the n-th change of width by `factor` is due, as n → ∞.

    J: the law of J^{1,l} that it follows from; direction: -1 where widths fall with depth (J grows), 1 where they rise,
    0 where J tends to a number > 0 and no change is due from some layer on. expr: the layer l_n ~ expr in n (level 0),
    or log l_n ~ expr (level 1), log log l_n ~ expr (level 2) where no more is known of l_n; None for direction 0. C
    depends on the start.
    """

    J: Growth
    factor: sp.Expr
    direction: int
    level: int
    expr: sp.Expr | None
    regime: str = ""

    def __call__(self, value: object) -> sp.Expr:
        """`at`."""
        return self.at(value)

    def at(self, value: object) -> sp.Expr:
        """l_n, log l_n or log log l_n (`level`) at one n. Raises: MeanFieldError where no change is due."""
        if self.expr is None:
            raise MeanFieldError("No change of width is due from some layer on, so there is no l_n.")
        return self.expr.subs(n, sp.sympify(value))

    def text(self) -> str:
        """The law on one line."""
        if self.expr is None:
            return f"J ~ {self.J.text()}: no change of width is due from some layer on"
        name = ("l_n", "log l_n", "log log l_n")[self.level]
        return f"{name} ~ {self.expr}, N {'divided' if self.direction < 0 else 'multiplied'} by {self.factor} at each"

    def __repr__(self) -> str:
        return one_line("ProjectionLaw", self.text())

    def __str__(self) -> str:
        return wrapped(f"{self.text()}   ({self.regime})" if self.regime else self.text())


def projection_law(J: Growth, factor: sp.Expr, oracle: SignOracle, regime: str = "") -> ProjectionLaw:
    """Where |log J| = n log(factor), factor > 1, for large n.

    Raises: `Undecided` where the leading term of log J is not known.
    """
    sign, key, c = leading_term(J, regular(1), oracle)
    if sign == 0:
        return ProjectionLaw(J, factor, 0, 0, None, regime)
    level = next(i for i, power in enumerate(key) if oracle.sign(power))
    if level == 1 and J.is_regular:  # a power of l
        return ProjectionLaw(J, factor, -sign, 0, _of_power(J, factor, sign), regime)
    return ProjectionLaw(J, factor, -sign, level, _inverse(key[level:], n * sp.log(factor) / (sign * c)), regime)


def _inverse(powers: Key, y: sp.Expr) -> sp.Expr:
    """x with x^p (log x)^q (log log x)^r … ~ y, which is n times a number: log x ~ log(n)/p."""
    p, *rest = powers
    logs = (sp.log(n) / p, sp.log(sp.log(n)), sp.log(sp.log(sp.log(n))))
    return sp.Mul(y, *[log**-power for log, power in zip(logs, rest)]) ** (1 / p)


def _of_power(J: Growth, factor: sp.Expr, sign: int) -> sp.Expr:
    """l with J = factor^(sign n) for J = C l^a (log l)^b (log log l)^c: log l ~ n log(factor)/a."""
    a, b, c = (sign * J.power_of(i) for i in range(3))
    logs = n ** (-b / a) * (sp.log(n) if c != 0 else sp.S.One) ** (-c / a)
    if J.constant is None:
        return CONSTANT * factor ** (n / a) * logs
    return J.constant ** (-sign / a) * (sp.log(factor) / a) ** (-b / a) * factor ** (n / a) * logs
