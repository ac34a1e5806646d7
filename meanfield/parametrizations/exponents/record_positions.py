"""Where a record stands when its exponents are asked for, and the registry of rules, which takes a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from meanfield.base.errors import MeanFieldError
from meanfield.base.leading import Registry
from meanfield.networks.records import Block, Param, Schedule
from meanfield.parametrizations.exponents.monomial import Monomial
from meanfield.parametrizations.exponents.power_matrices import AffineRule, GainsRule, Moved
from meanfield.parametrizations.exponents.power_rules import ZERO, NoPower, Rule, Watch
from meanfield.parametrizations.exponents.unknown_steps import rule_of

WIDTH, DEPTH = "of_width", "of_depth"
ASKED = "Powers were asked"


@dataclass
class RecordPosition:
    """Where a record stands: what its rule is made from.

    scheme: the parametrization; size: whose exponents are asked for, WIDTH or DEPTH; values: of symbols in records;
    kinds: of the Dense that come; outside: whether this is the input layer or the readout, not one of L blocks; skips:
    how many skips the record is in. affine: the Dense so far; ends_in_dense: whether a Dense made the signal here.
    """

    scheme: Any
    size: str
    values: Mapping[str, Any]
    watch: Watch
    kinds: Iterator[str]
    outside: bool = False
    skips: int = 0
    affine: list[AffineRule] = field(default_factory=list)
    ends_in_dense: bool = False

    def make(self, record: Block) -> Rule:
        """The rule of a record here. Raises: MeanFieldError for a record without one."""
        adds = "power_rule of meanfield.parametrizations.exponents.record_positions"
        return rule_of(POWER_RULES, record, ASKED, adds)(record, self)

    def exponent(self, of: Monomial) -> Fraction:
        return getattr(of, self.size)

    def number(self, given: Any) -> float | None:
        """A number of a record; None for a symbol without a value, and for a Schedule."""
        if isinstance(given, Param):
            given = self.values.get(given.name)
        return None if given is None or isinstance(given, Schedule) else float(given)

    def falls(self, given: Any, what: str) -> Fraction:
        """The exponent of a factor of a record, which is a power of L where it is a Schedule."""
        value = given.value if isinstance(given, Schedule) else given
        if self.number(value) == 0:
            raise MeanFieldError(
                f"{ASKED} of a network in which {what} is 0, so that nothing behind it has a size; give it "
                "a number > 0."
            )
        if not isinstance(given, Schedule) or self.size == WIDTH:
            return ZERO
        if self.number(given.beta) != 0 or not isinstance(given.total, int | Fraction):
            raise NoPower(f"{what.capitalize()} is no fixed power of L; give its Schedule beta=0 and a fraction total")
        return -Fraction(given.total) / 2

    def moved(self, kind: str, outside: bool = False) -> Moved:
        """Parameters of a kind as they move; outside: their powers of L do not count, which are those of blocks."""
        of, optimizer = self.scheme.of(kind), self.scheme.stepping(kind)
        eps = self.exponent(self.scheme.eps * of.eps)
        if outside and self.size == DEPTH:
            return Moved(optimizer, eps=eps)
        multiplier, variance, rate = map(self.exponent, (of.multiplier, of.variance, of.rate))
        return Moved(optimizer, multiplier, variance, rate, eps)

    def gains(self) -> GainsRule:
        """Gains and shifts here, which move as biases do; those on the stream itself act on one signal."""
        shared = Fraction(self.size == DEPTH and not self.outside and self.skips == 0)
        return GainsRule(self.watch, self.moved("bias", self.outside), shared)

    def refuse_chain(self, what: str) -> None:
        """L blocks whose signals go through `what` outside a skip are no sum, but a product."""
        if self.size == DEPTH and not self.outside and self.skips == 0:
            raise NoPower(
                f"In L blocks a signal goes through L {what}, outside any skip, which is exponential in L or a power "
                "that depends on the activation; put them into branches of skips"
            )


Maker = Callable[[Any, RecordPosition], Rule]
POWER_RULES: Registry[type, Maker] = Registry()


def power_rule(record: type) -> Callable[[Maker], Maker]:
    """Decorator: what makes the rule of a record, from the record and its `RecordPosition`."""
    return POWER_RULES.adds(record)
