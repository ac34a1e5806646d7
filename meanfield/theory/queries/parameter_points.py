"""A point in parameter space, or an array of points: made once, where a call enters, of what the verb was given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from meanfield.base.arguments import refuse_not_real
from meanfield.base.quantities import QUANTITIES, of_two
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.given_values import M, decided, deviations, double, mapping, numbered, of_widths


@dataclass(frozen=True)
class ParameterPoint:
    """σ's, the norm of an input and the cosine of two as doubles, numbers or arrays that broadcast; start: values at
    layer 1 in the place of those that follow from them; parameters: values of the symbols of records, as they were
    given, because those that stand inside averages are exact.
    """

    sigma_w: Any
    sigma_b: Any
    input_norm: Any = 1.0
    correlation: Any = None
    start: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, theory: Maps, sigma_w: Any, sigma_b: Any, input_norm: Any, correlation: Any, start: Any, parameters: dict
    ) -> ParameterPoint:
        """What a verb was given. Raises: MeanFieldError for σ's that are missing or held by the records, and for what
        is no number."""
        own = deviations(theory, {"sigma_w": sigma_w, "sigma_b": sigma_b}, parameters)
        if correlation is not None:
            refuse_not_real(double("correlation", correlation), "correlation")
        begin = {k: double(f"The start of {k}", v) for k, v in mapping(start, "start").items()}
        given = own | {"input_norm": input_norm, "correlation": correlation}
        return cls(**{k: double(k, v) for k, v in given.items()}, start=begin, parameters=parameters)

    @property
    def inputs(self) -> dict[str, Any]:
        """σ's, norm and cosine by the names of keywords."""
        return {k: getattr(self, k) for k in ("sigma_w", "sigma_b", "input_norm", "correlation")}

    @property
    def of_one_input(self) -> dict[str, Any]:
        """The same of one input."""
        return {k: v for k, v in self.inputs.items() if k != "correlation"}

    @cached_property
    def pair(self) -> bool:
        """Whether there are two inputs."""
        return self.correlation is not None or any(map(of_two, self.start))

    @property
    def started(self) -> tuple[str, ...]:
        """The quantities that two inputs start from."""
        return tuple(n for n in self.start if n in QUANTITIES) if self.pair else ()

    def decided(self, theory: M) -> tuple[M, ParameterPoint]:
        """The theory with those of the values put in that its maps wait for, and the point without them."""
        theory, rest = decided(theory, self.parameters)
        return theory, replace(self, parameters=rest)

    def numbered(self, theory: M) -> tuple[M, ParameterPoint]:
        """The same with all that are parameters of its activations."""
        theory, rest = numbered(theory, self.parameters)
        return theory, replace(self, parameters=rest)

    def at_infinite_width(self, theory: Maps) -> ParameterPoint:
        """The point without what says how wide a layer is."""
        widths = of_widths(theory.block)
        return replace(self, parameters={k: v for k, v in self.parameters.items() if k not in widths})

    def doubles(self, exact: Collection[str] = (), **more: Any) -> dict[str, Any]:
        """The parameters, and others, as doubles, but for those that are put in exactly."""
        return {k: double(k, v) for k, v in {**self.parameters, **more}.items() if k not in exact}
