"""Claims: published statements as data, and the engine's verdict on each.

A claim says where it is printed (R-number of the specification, equation number of the paper), for which networks, of
which quantity, and what is printed; its kind (`comparisons`) says how the two sides are compared. Beside the print
stands a contrast: a planted change where the print is right, the right formula where the print is wrong (`misprint`).
The engine derives the quantity from the architecture; nothing here feeds it. A claim is `decided` when exactly one of
print and contrast holds, the one that should. Where a claim puts what it compares together itself (algebra or an
iteration of what its author wrote down, networks of its own), it is `composed`: such claims are counted apart, as they
say nothing of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import sympy as sp

import meanfield as mf


class Verdict(Enum):
    """What the engine says of a statement: PROVED symbolically, CERTIFIED by enclosures, MEASURED in floats, ..."""

    PROVED = "proved"
    CERTIFIED = "certified"
    DIGITS = "equal to 30 digits"
    MEASURED = "measured"
    REFUTED = "refuted"

    def __bool__(self) -> bool:
        return self is not Verdict.REFUTED


@dataclass(frozen=True)
class Network:
    """An activation and the keywords of `meanfield.derive`, or pool: what it does with two neighbours after φ."""

    activation: str
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def theory(self) -> mf.Theory:
        more = dict(self.keywords)
        pool = more.pop("pool", None)
        if pool is None:
            return mf.derive(self.activation, **more)
        return mf.derive(architecture=mf.Sequential((mf.Nonlinearity(self.activation), mf.Pool(2, pool), mf.Dense())))

    def __str__(self) -> str:
        short = {"a_plus": "a±", "a_minus": ""}
        named = {"norm": "norm: {}"} | {k: "{}" for k, v in self.keywords if k == str(v)}
        parts = [short.get(k, named.get(k, f"{k} = {{}}").format(v)) for k, v in self.keywords]
        return ", ".join([self.activation, *[p for p in parts if p]])


def network(activation: str, **keywords: Any) -> Network:
    return Network(activation, tuple(keywords.items()))


def each(names: str, **keywords: Any) -> tuple[Network, ...]:
    """The same architecture with several activations."""
    return tuple(network(n, **keywords) for n in names.split())


@dataclass(frozen=True)
class Claim:
    """One published statement about `quantity` of `networks`; the kinds below say what `printed` means."""

    source: str
    networks: Network | tuple[Network, ...]
    quantity: str
    printed: Any
    contrast: Any
    misprint: bool = False
    composed: bool = field(default=False, kw_only=True)

    @property
    def usual(self) -> Verdict:
        """The verdict on a statement of this kind that holds, unless its paper names it as weaker."""
        return Verdict.PROVED

    @property
    def cases(self) -> tuple[Network, ...]:
        return self.networks if isinstance(self.networks, tuple) else (self.networks,)

    def sides(self, case: Network) -> tuple[Any, Any]:
        """The print and what the engine has for it on one network, to be shown beside each other: expressions, words,
        numbers, or (place, value) for each place; the second is None where there is only a verdict."""
        return self.printed, None

    @property
    def where(self) -> tuple[sp.Basic, ...]:
        """The conditions under which it is stated."""
        return ()

    def verdict(self) -> Verdict:
        """Whether the print holds on every network of the claim."""
        return self.over_networks(self.printed)[0]

    def contrast_verdict(self) -> Verdict:
        """The same question for the contrast."""
        return self.over_networks(self.contrast)[0]

    @property
    def decided(self) -> bool:
        """The print holds and the planted change does not, or the other way round where the print is wrong."""
        return bool(self.verdict()) != self.misprint and bool(self.contrast_verdict()) == self.misprint

    def over_networks(self, statement: Any) -> tuple[Verdict, Network]:
        """The weakest verdict on a print or contrast over the networks, and where it is told best: on the network that
        refutes it, or on the first."""
        order, worst = list(Verdict), Verdict.PROVED
        for case in self.cases:
            worst = max(worst, self._judge(case, statement), key=order.index)
            if worst is Verdict.REFUTED:  # one network is enough
                return worst, case
        return worst, self.cases[0]

    def _judge(self, case: Network, statement: Any) -> Verdict:
        raise NotImplementedError
