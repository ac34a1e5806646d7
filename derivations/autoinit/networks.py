"""The networks of the paper as records: a BatchNorm before φ, inside a skip; and a block of ResMLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import meanfield as mf
from derivations.claims import Network

TOKENS = mf.Dense(axis="tokens")


@dataclass(frozen=True)
class Built(Network):
    """A network given by a record; batch: as for `meanfield.derive`."""

    record: Any = None
    batch: int | None = None

    @property
    def theory(self) -> mf.Theory:
        return mf.derive(architecture=self.record, batch=self.batch)

    def __str__(self) -> str:
        return self.activation if self.batch is None else f"{self.activation}, |B| = {self.batch}"


def normed(activation: Any, mu: object = 0, batch: int | None = None) -> Built:
    """(21), (22): h + W φ(BN(h)), the skip of strength μ."""
    chain = mf.Sequential((mf.BatchNorm(), mf.Nonlinearity(activation), mf.Dense()))
    label = f"{activation} behind BN" + ("" if mu == 0 else ", mu" if str(mu) == "mu" else f", mu = {mu}")
    return Built(label, (), chain if mu == 0 else mf.Residual(chain, mu), batch)


def resmlp(activation: str, scale: object = "eps", mu: object = "mu") -> Built:
    """(49)-(56): tokens mixed, then channels, each behind an affine map, scaled and added to what entered."""
    patches = mf.Residual(mf.Sequential((mf.networks.AffineNorm(), TOKENS, mf.Scale(scale))), mu)
    channels = (mf.networks.AffineNorm(), mf.Dense(expand=4), mf.Nonlinearity(activation), mf.Dense(), mf.Scale(scale))
    return Built(f"ResMLP, {activation}", (), mf.Sequential((patches, mf.Residual(mf.Sequential(channels), mu))))
