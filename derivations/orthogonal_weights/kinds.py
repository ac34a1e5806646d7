"""Kinds of claims that this paper needs beside those of `derivations.comparisons`: prints that depend on φ, words and
the integrals of a density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

import meanfield as mf
from derivations.claims import Claim, Network, Verdict, network
from derivations.comparisons import Formula
from meanfield.base.symbols import K, Z, z

LINEAR = network("linear", weights="orthogonal")


def of_law(law: str, *names: str) -> tuple[Network, ...]:
    """MLPs of the named activations with weights of one law."""
    return tuple(network(name, weights=law) for name in names)


@dataclass(frozen=True)
class PerNetwork(Formula):
    """A formula whose print and contrast are functions of the theory, because they hold averages over its φ."""

    def sides(self, case: Network) -> tuple[Any, Any]:
        return self.printed(case.theory), self._ours(case)

    def _judge(self, case: Network, statement: Callable[[mf.Theory], sp.Expr]) -> Verdict:
        one = Formula(self.source, case, self.quantity, statement(case.theory), sp.nan, by=self.by)
        return one.verdict()


@dataclass(frozen=True)
class Says(Claim):
    """`by` of the theory is the printed value, compared as Python compares."""

    by: Callable[[mf.Theory], Any] = lambda theory: None
    how: Verdict = Verdict.PROVED

    @property
    def usual(self) -> Verdict:
        return self.how

    def sides(self, case: Network) -> tuple[Any, Any]:
        return self.printed, self.by(case.theory)

    def _judge(self, case: Network, statement: Any) -> Verdict:
        return self.how if self.by(case.theory) == statement else Verdict.REFUTED


def power(theory: mf.Theory, *orders: int) -> sp.Expr:
    """⟨Π_d φ^(d)(z)⟩ over N(0, K), one factor for each derivative named."""
    f = theory.activations[0].expression
    return mf.average(sp.Mul(*[f.diff(z, d) for d in orders]), K)


def between(theory: mf.Theory, *inputs: int, weight: sp.Expr = sp.S.One, cov: Any = None) -> sp.Expr:
    """⟨Π_a φ(z_a) · weight⟩ over inputs 0 … 3 with the covariance `cov`, a lower triangle by rows."""
    f = theory.activations[0].expression
    return mf.average(sp.Mul(*[f.subs(z, Z[a]) for a in inputs]) * weight, cov)
