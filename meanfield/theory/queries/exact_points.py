"""An exact place in parameter space: made once, where a call for a law, a phase or fixed points enters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp

from meanfield.symbolic.criticality.rounding import doubles
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.given_values import decided, exact_number, refuse_unknown


@dataclass(frozen=True)
class ExactPoint:
    """A theory at exact values; given: σ's and parameters that have some, as they were given; norm: of an input, None
    where none was given.
    """

    theory: Maps
    given: dict[str, Any]
    norm: sp.Expr | None = None

    @classmethod
    def of(cls, theory: Maps, given: dict, input_norm: object = None) -> ExactPoint:
        """What a verb was given, with those of the values put in that the maps wait for."""
        theory, given = decided(theory, given)
        return cls(theory, given, None if input_norm is None else exact_number("input_norm", input_norm))

    @cached_property
    def values(self) -> dict[str, sp.Expr]:
        """The values, each known to the recursion, σ and μ ≥ 0, and the norm where one was given."""
        one = self.theory.one_input
        refuse_unknown(self.given, one, also=("sigma_w", "sigma_b", *self.theory.named_in_records))
        values = {k: exact_number(k, v) for k, v in self.given.items()}
        domains = one.domains
        for name, value in values.items():
            if name in domains and value.is_number:
                domains[name].require(name, value)
        return values | ({} if self.norm is None else {"Q0": self.norm})

    @property
    def units(self) -> Mapping[str, Any]:
        """How far doubles among the values reach (`rounding`)."""
        return doubles(self.given)

    @property
    def keywords(self) -> dict[str, Any]:
        """What another verb is asked with at this place; the norm is 1 unless given."""
        return self.given | {"input_norm": sp.S.One if self.norm is None else self.norm}
