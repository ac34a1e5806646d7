"""The exact powers of n and L in one training step of an architecture, in a parametrization."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from meanfield.base.errors import MeanFieldError
from meanfield.base.words import unknown
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import Network
from meanfield.networks.roles import roles_of
from meanfield.parametrizations.exponents.power_records import rules_of
from meanfield.parametrizations.exponents.power_rules import ZERO, Change, NoPower, Rule, Watch
from meanfield.parametrizations.exponents.power_table import VERDICTS, Power, PowerRow
from meanfield.parametrizations.exponents.power_table import Powers as Powers
from meanfield.parametrizations.exponents.record_positions import DEPTH, WIDTH
from meanfield.theory.derivation import theory_and_values

REPEATED = 8  # blocks until exponents must have stopped changing
T = TypeVar("T")


def powers_of(scheme: Any, architecture: Any, parameters: Mapping[str, Any]) -> Powers:
    """The powers of a parametrization (`scheme`) in an architecture, which `derive` reads; see `Powers`.

    Raises: MeanFieldError where n has no powers: a forward pass that grows with n in hidden layers, and records without
    a rule. Where L has none, the answer says why.
    """
    theory, values = theory_and_values(architecture, parameters)
    network = Network(theory.block, theory.first)
    known = {*symbols_in(network), "sigma_w", "sigma_b"}
    for name in values:
        if name not in known:
            raise unknown("symbol of the network", name, sorted(known))
    try:
        wide = _Pass.of(scheme, network, values, WIDTH)
    except NoPower as error:
        why = str(error)
        raise MeanFieldError(f"Powers of n were asked for, but {why[0].lower()}{why[1:]}.") from None
    try:
        deep, without = _Pass.of(scheme, network, values, DEPTH), ""
    except NoPower as error:
        deep, without = None, str(error)
    names = ("input", *roles_of(network.block), "readout")
    rows = tuple(_row(name, k, wide, deep) for k, name in enumerate(names))
    f, readout, features = (
        Power(getattr(wide, s), getattr(deep, s) if deep else None) for s in ("f", "readout", "features")
    )
    grown = ["growing"] if any(one.is_growing for one in (f, readout, features)) else []
    eps = [row.eps for row in rows if row.eps is not None]
    decay = scheme.hidden.rate * scheme.decay
    return Powers(
        scheme.name, scheme.optimizer, rows, f, readout, features,
        eps=max(eps, key=lambda one: (one.of_width, one.of_depth or ZERO)) if eps else None,
        decay=Power(decay.of_width, decay.of_depth if deep else None), without_depth=without,
        verdict=_worst([*(row.verdict for row in rows), *grown]),
    )  # fmt: skip


def _row(name: str, k: int, wide: _Pass, deep: _Pass | None) -> PowerRow:
    """The row of the k-th Dense."""
    n, L = wide.dense[k], deep and deep.dense[k]

    def power(of: Callable[[_Dense], T]) -> Any:
        found = of(n)
        return None if found is None else Power(found, L and of(L))  # type: ignore[arg-type]

    return PowerRow(
        name, n.kind, power(lambda d: d.square), power(lambda d: d.slope), power(lambda d: d.own),
        power(lambda d: d.own_bias), power(lambda d: d.inherited), power(lambda d: d.total),
        power(lambda d: d.effect), power(lambda d: d.eps),
        _worst([word for one in (n, L) if one for word in one.verdicts]),
    )  # fmt: skip


def _worst(verdicts: list[str]) -> str:
    return max(verdicts, key=VERDICTS.index)


@dataclass(frozen=True)
class _Dense:
    """The exponents of one Dense, in n or in L."""

    kind: str
    square: Fraction
    slope: Fraction
    own: Fraction
    own_bias: Change
    inherited: Change
    total: Change
    effect: Change
    eps: Change
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class _Pass:
    """A whole network, in exponents of n or of L."""

    dense: tuple[_Dense, ...]
    f: Fraction
    readout: Fraction
    features: Fraction

    @staticmethod
    def of(scheme: Any, network: Network, values: Mapping[str, Any], size: str) -> _Pass:
        watch = Watch()
        first, block, head, affine = rules_of(scheme, network, values, size, watch)
        square = first.forward(ZERO)
        early: list[Rule] = []
        while size == WIDTH and (made_of := block.forward(square)) != square:
            early.append(block)  # the first blocks may meet a stream of another size than all others
            if len(early) == REPEATED:
                raise _further("the forward pass is multiplied")
            square = made_of
            _, block, _, others = rules_of(scheme, network, values, size, watch)
            affine = [affine[0], *others[1:-1], affine[-1]]

        def step(only: object = None) -> None:
            watch.only, watch.seen = only, None
            change = first.step(None)
            for one in early:
                change = one.step(change)
            head.step(_repeated(block.step, change, "changes of the signal are multiplied"))

        f = head.forward(_repeated(block.forward, square, "the forward pass is multiplied")) / 2
        slope = _repeated(block.backward, head.backward(ZERO), "gradients are multiplied")
        for one in reversed(early):
            slope = one.backward(slope)
        first.backward(slope)
        step()
        last = affine[-1]
        readout, features = last.own(), last.inherited or ZERO
        held = [(one.inherited, one.total) for one in affine]
        made = []
        for one, (inherited, total) in zip(affine, held):
            repeated = Fraction(size == DEPTH and one.kind == "hidden")
            bias = one.own_bias()
            parts = [(one.weights, one.own()), *([] if bias is None else [(one.bias, bias)])]
            effects = [one.share(own) + repeated for _, own in parts]
            verdicts = []
            for (moved, own), effect in zip(parts, effects):
                step(moved)
                verdicts.append(_verdict(own if one.last or watch.seen is None else watch.seen, effect))
            made.append(
                _Dense(
                    one.kind, one.square, one.slope, one.own(), bias, inherited, total, effects[0], one.eps(),
                    tuple(verdicts),
                )
            )  # fmt: skip
        return _Pass(tuple(made), f, readout, features)


def _verdict(seen: Fraction, effect: Fraction) -> str:
    """The word for an own change that the next function sees, and for what it does to f."""
    if seen > 0 or effect > 0:
        return "growing"
    if seen == 0 and effect == 0:
        return "maximal"
    return "lazy" if effect == 0 else "vanishing"


def _repeated(of: Callable[[Any], Any], start: Any, what: str) -> Any:
    """What a block makes of an exponent again and again, which must come to rest."""
    found = start
    for _ in range(REPEATED):
        before, found = found, of(found)
        if before == found:
            return found
    raise _further(what)


def _further(what: str) -> NoPower:
    return NoPower(
        f"In every block {what} by a further power; give hidden matrices a variance that falls as the "
        "fan-in grows, 1/n"
    )
