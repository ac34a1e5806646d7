"""Claims about one training step: a parametrization does what is said of it, or has a word; and the networks asked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import meanfield as mf
from derivations.claims import Claim, Network, Verdict, network
from meanfield.networks.records import Block
from meanfield.parametrizations import Powers, parametrization

Scheme = Mapping[str, Any]  # keywords of `parametrization`


@dataclass(frozen=True)
class Branches:
    """An architecture by its words: a function of an activation, as `derive` takes it."""

    words: str
    made: Callable[[Hashable], Block]

    def __call__(self, phi: Hashable) -> Block:
        return self.made(phi)

    def __str__(self) -> str:
        return self.words


def _two(phi: Hashable, last: mf.Dense | None = None) -> Block:
    inner = mf.LayerNorm(), mf.Dense(expand=4), mf.Nonlinearity(phi), last or mf.Dense()
    return mf.Residual(mf.Sequential(inner))


def _falling(phi: Hashable) -> Block:
    """Branches whose last matrix has a variance that falls as 1/L, as GPT-2's of its ports."""
    return _two(phi, mf.Dense(sigma_w=mf.Schedule("sigma_w", 0, total=1), sigma_b=0))


CHAIN = network("tanh")
ONE = network("tanh", architecture=Branches("a skip around one Dense", lambda phi: mf.networks.records.mlp(phi, mu=1)))
FALLING = network("gelu", architecture=Branches("pre-LN, two Dense, the second drawn with 1/√L", _falling))
TWO = network("gelu", architecture=Branches("pre-LN, two Dense", _two))


def powers(scheme: Scheme, case: Network) -> Powers:
    """What one step of a parametrization does in a network."""
    return parametrization(**scheme).powers(case.theory)


@dataclass(frozen=True)
class OneStep(Claim):
    """The powers of the printed parametrization are as `says` has it; the contrast is another parametrization."""

    says: Callable[[Powers], bool] = field(default=lambda found: False)

    def _judge(self, case: Network, statement: Scheme) -> Verdict:
        return Verdict.PROVED if self.says(powers(statement, case)) else Verdict.REFUTED


@dataclass(frozen=True)
class Word(Claim):
    """The printed word is what `of` reads off the powers of `scheme`; the contrast is another word."""

    scheme: Scheme = field(default_factory=dict)
    of: Callable[[Powers], str] = field(default=lambda found: found.verdict)

    def _judge(self, case: Network, statement: str) -> Verdict:
        return Verdict.PROVED if self.of(powers(self.scheme, case)) == statement else Verdict.REFUTED


@dataclass(frozen=True)
class Equivalent(Claim):
    """The printed parametrization is `other` but for a gauge: equal powers, too."""

    other: Scheme = field(default_factory=dict)

    def _judge(self, case: Network, statement: Scheme) -> Verdict:
        one, other = parametrization(**statement), parametrization(**self.other)
        rows = [scheme.powers(case.theory).data()["rows"] for scheme in (one, other)]
        return Verdict.PROVED if one.equivalent(other) and rows[0] == rows[1] else Verdict.REFUTED


def is_maximal(found: Powers) -> bool:
    """Whether every layer learns as much as it can while f is stable."""
    return found.verdict == "maximal"


def verdict_of(matrix: str) -> Callable[[Powers], str]:
    """The word for one matrix."""
    return lambda found: found.row(matrix).verdict


def tables() -> Iterator[Powers]:
    """Every published parametrization with Adam and SGD, in pre-LN blocks of two Dense."""
    for name in ("sp", "ntk", "mean_field", "mup", "spectral", "depth_mup", "completep", "u_mup"):
        for optimizer in ("sgd", "adam") if name != "u_mup" else ("adam",):
            yield powers({"name": name, "optimizer": optimizer}, TWO)
