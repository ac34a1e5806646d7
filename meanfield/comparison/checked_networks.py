"""What a check compares: a theory at one point, and the finite networks of its width and of narrower ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import one_point, scalar, shown
from meanfield.base.progress import watched
from meanfield.base.quantities import QUANTITIES
from meanfield.comparison.allowances import narrower, narrower_layers
from meanfield.comparison.finite_width_allowance import FiniteWidthCorrections, corrections
from meanfield.comparison.network_settings import given_to
from meanfield.empirical import EnsembleResult, run_ensemble
from meanfield.empirical.network.network import widths_of
from meanfield.empirical.network.operations.checks import integer, per_layer
from meanfield.networks.attention import Attention
from meanfield.networks.folds import dense_of, fold, parts
from meanfield.networks.records import Block, Network, Param, Projection
from meanfield.numeric.run.depth_iteration import Run
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.queries.given_values import decided, numbered, of_widths
from meanfield.theory.queries.parameter_points import ParameterPoint
from meanfield.theory.theory import Theory

SEEN = 32  # inputs from which on half and a quarter of a batch say what a finite batch adds


@dataclass(frozen=True)
class CheckedPoint:
    """Where a check compares: a theory at numbers, and how deep and wide its networks are.

    own: σ's as the theory is asked with them; inputs: sigma_w, sigma_b, input_norm and correlation as networks take
    them; numbers: of symbols, as they were given; parameters: those that are left once the theory is decided by them;
    hidden: factors of widths.
    """

    theory: Theory
    own: dict[str, Any]
    inputs: dict[str, Any]
    numbers: dict[str, Any]
    parameters: dict[str, Any]
    hidden: dict[str, Any]
    depth: int
    widths: tuple[int, ...]

    @classmethod
    def of(
        cls, network: Any, sigma_w: Any, sigma_b: Any, input_norm: Any, correlation: Any, layerwise: bool, depth: Any,
        width: Any, parameters: dict[str, Any],
    ) -> CheckedPoint:  # fmt: skip
        """Raises: MeanFieldError for what is no number, and for several where a check takes one."""
        theory, parameters = theory_and_values(network, parameters)
        asked = {"sigma_w": sigma_w, "sigma_b": sigma_b}
        one_point(asked, layerwise)
        point = ParameterPoint.of(theory, sigma_w, sigma_b, input_norm, correlation, None, parameters)
        inputs, parameters = point.inputs, point.doubles()
        depth = integer(depth, "The depth", 1, 1 << 24)
        widths = widths_of(width, depth)
        hidden = {k: parameters.pop(k) for k in of_widths(theory.block) & set(parameters)}
        hidden = {k: per_layer(v, f"The factor {k}", depth) for k, v in hidden.items()}
        for name, value in {**parameters, "input_norm": inputs["input_norm"]}.items():
            if _ndim(value, name) > 0:
                raise MeanFieldError(
                    f"A check takes one number for {name}, but {shown(value)} was given; check one at a time."
                )
            scalar(value, name)
        if inputs["correlation"] is not None:
            scalar(inputs["correlation"], "correlation")
        own = {k: None if v is None else inputs[k] for k, v in asked.items()}
        theory, free = decided(theory, parameters)
        return cls(theory, own, inputs, parameters, free, hidden, depth, widths)

    @property
    def one_width(self) -> bool:
        return len(set(self.widths)) == 1

    @property
    def width(self) -> int | tuple[int, ...]:
        """The width of all layers, or one for each."""
        return self.widths[0] if self.one_width else self.widths

    def predicted(
        self, names: tuple[str, ...], coupled: bool, tokens: int, input_dimension: int | None
    ) -> tuple[Run, FiniteWidthCorrections]:
        """The theory's run, and what its expansion in 1/n says that finite width adds."""
        layered = any(_ndim(self.inputs[n], n) > 0 for n in ("sigma_w", "sigma_b"))
        norm, correlation = self.inputs["input_norm"], self.inputs["correlation"]
        given: dict[str, Any] = self.own | dict(depth=self.depth, input_norm=norm, layerwise=layered)
        of_input: dict[str, Any] = {"input_dimension": input_dimension if "J0" in names else None}
        of_input |= {"tokens": tokens} if "tokens" in self.theory.named_in_records else {}
        of_input |= self.parameters | {"correlation": correlation}
        run = self.theory.propagate(**given, **of_input, quantities=names)
        exact, free = numbered(self.theory, self.parameters)
        asked = given | free | {"input_ratio": Fraction(input_dimension or self.widths[0], self.widths[0])}
        return run, FiniteWidthCorrections() if coupled else corrections(exact, run, names, self.widths, asked)

    def narrower(self, names: tuple[str, ...], measured: tuple[str, ...]) -> tuple[Any, ...]:
        """The widths of the networks on which what finite width adds to `measured` is measured; () for none."""
        projects = not self.one_width and any(isinstance(p, Projection) for p in parts(self.theory.block))
        if projects and {"Theta", "Theta_ab"} & set(names):
            raise MeanFieldError(
                "Theta of layers of different widths is not available: a Projection has no trained weights, and the "
                "theory's Theta is that of one width, where it is the identity."
            )
        others: tuple[Any, ...] = narrower(self.widths[0], self.depth)
        if measured and (not self.one_width or _denominator(self.theory.block, self.hidden) > 1):
            others = narrower_layers(self.widths, self.depth, _denominator(self.theory.block, self.hidden))
        differentiated = any(QUANTITIES[n].differentiates for n in measured)
        return others if differentiated or (measured and len(others) == 2) else ()

    def halves(self, batch: int | None) -> tuple[int, int]:
        """Half and a quarter of the width, beside those of the batch that stands for an infinite one."""
        if not self.one_width or self.widths[0] % 4 or batch is None or batch < SEEN:
            raise MeanFieldError(
                "A check of a theory of an infinite batch compares networks with others of half and a quarter of their "
                f"width and batch; give one width, a multiple of 4, and a batch of {SEEN} or more."
            )
        return self.widths[0] // 2, self.widths[0] // 4

    def told(self) -> dict[str, Any]:
        """What a report says of it."""
        sigmas = {k: np.asarray(self.inputs[k], dtype=float).tolist() for k in ("sigma_w", "sigma_b")}
        return sigmas | {"width": self.width if self.one_width else list(self.widths), "depth": self.depth}

    def symbols(self) -> dict[str, str]:
        """The values of symbols, as a report says them."""
        hidden = {k: v.tolist() for k, v in self.hidden.items()}
        return {k: str(v) for k, v in {**self.numbers, **self.parameters, **hidden}.items()}


@dataclass(frozen=True)
class CheckedEnsembles:
    """The networks of a check: those of its width, and narrower ones on which what finite width adds is measured.

    names: the quantities; measured: those of which narrower networks are asked; others: the narrower widths; halved:
    whether the batch is halved with them; settings: those of `run_ensemble` that all have in common.
    """

    at: CheckedPoint
    names: tuple[str, ...]
    measured: tuple[str, ...]
    others: tuple[Any, ...]
    networks: int
    batch: int | None
    halved: bool
    folder: Path | None
    settings: dict[str, Any]

    def run(self, progress: Callable[[int, int], None] | None) -> tuple[EnsembleResult, list[EnsembleResult]]:
        """(the networks of the width, the narrower ones)."""
        with watched(progress, "networks") as bar:
            result = self._ensemble(0, self.at.width, bar)
            try:
                return result, [self._ensemble(order, n, bar) for order, n in enumerate(self.others, 1)]
            except MeanFieldError as error:
                seen = ", ".join(str(n if isinstance(n, int) else n[0]) for n in self.others)
                raise MeanFieldError(
                    f"A check of networks of width {self.at.widths[0]} compares them with others of width {seen}, to "
                    f"see what finite width adds, but: {error}"
                ) from error

    def _ensemble(
        self, order: int, width: int | tuple[int, ...], tell: Callable[[int, int], None] | None
    ) -> EnsembleResult:
        done, total = order * self.networks, self.networks * (1 + len(self.others))
        record = Network(self.at.theory.block, self.at.theory.first)
        return run_ensemble(
            record,
            **self.at.inputs,
            **self.settings,
            width=width,
            networks=self.networks,
            quantities=tuple(QUANTITIES[q].measured for q in (self.measured if order else self.names)),
            batch=self.batch // 2**order if self.halved and self.batch is not None else self.batch,
            checkpoint=None if self.folder is None else self.folder / f"width-{np.ravel(width)[-1]}.npz",
            progress=None if tell is None else (lambda k, _: tell(done + k, total)),
            first_network=done,
            **given_to(record, self.at.parameters | self.at.hidden),
            keep_samples=True if self.measured and len(self.others) < 2 else None,
        )


def _ndim(value: Any, what: str) -> int:
    """The number of axes of a number or an array."""
    try:
        return np.ndim(value)
    except ValueError:
        raise MeanFieldError(f"{what} must be a number or an array, but {shown(value)} was given.") from None


def _denominator(block: Block, hidden: Mapping[str, Any]) -> int:
    """What widths must be multiples of, so that every `expand` makes a whole number of neurons, and so do heads."""
    held = [one.expand for one in dense_of(block)]
    values = [v for e in held for v in np.ravel(hidden.get(e.name, 1) if isinstance(e, Param) else float(e)).tolist()]
    heads = fold(block, lambda one, inside: math.lcm(one.heads if isinstance(one, Attention) else 1, *inside))
    return math.lcm(heads, *(Fraction(v).limit_denominator(1 << 12).denominator for v in values))
