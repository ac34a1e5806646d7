"""The blocks of the statements as records: numbers instead of symbols, no biases, eight heads for infinitely many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import meanfield as mf
from derivations.claims import Network
from meanfield.networks import Attention, RMSNorm, Schedule
from meanfield.networks.architectures import dyt, gpt

ONE = {f"sigma_{name}": 1 for name in ("q", "k", "v", "o", "1", "2", "e")}
DENSE = mf.Dense(sigma_w=1, sigma_b=0)


@dataclass(frozen=True)
class Built(Network):
    """A network given by a record."""

    record: Any = None

    @property
    def theory(self) -> mf.Theory:
        return _theory(self.record)

    def __str__(self) -> str:
        return self.activation


@cache
def _theory(record: Any) -> mf.Theory:
    return mf.derive(architecture=record)


def attention(q: object = 1, k: object = 1, v: object = 1, heads: int = 8) -> Attention:
    """Heads whose queries, keys and values have these deviations."""
    query, key, value = (mf.Dense(sigma_w=one, sigma_b=0) for one in (q, k, v))
    return Attention(heads, query=query, key=key, value=value)


def block(phi: str, norm: str = "pre", label: str = "", **numbers: object) -> Built:
    """A block of attention and a feed-forward layer without a mask; norm: "pre", "post" or "peri"."""
    record = gpt(phi, **({"heads": 8, "causal": False, "norm": norm} | ONE | numbers))
    return Built(label or f"{norm}-LN, {phi}", (), record)


def uniform(norm: str) -> Built:
    """[2002.04745] W_Q = 0, every matrix d × d with entries of variance 1/d, relu, no output matrix.

    One head with uniform attention is every head with it, and a Gaussian output matrix changes no second moment: so
    eight heads with an output matrix of deviation 1 stand for the one without.
    """
    return block("relu", norm, f"{norm}-LN, relu, uniform attention", sigma_q=0, expand=1)


def two_branches(before: mf.networks.Block, phi: str, q: object = 1, v: object = 1, wide: object = 1) -> mf.Network:
    """x + Attention(before(x)), then x + MLP(before(x)); q: the deviation of queries, wide: that of the first layer."""
    heads = mf.Sequential((before, attention(q, v=v), DENSE))
    layer = mf.Sequential((before, mf.Dense(sigma_w=wide, sigma_b=0), mf.Nonlinearity(phi), DENSE))
    return mf.Network(mf.Sequential((mf.Residual(heads), mf.Residual(layer))), DENSE)


def behind_dyt(phi: str = "relu", q: object = 1) -> Built:
    """tanh(z/2) in the place of both norms."""
    return Built(f"DyT, {phi}", (), two_branches(dyt("1/2"), phi, q))


def only_attention(norm: bool = False, q: object = 1, skip: bool = False) -> Built:
    """Attention and its output matrix alone, behind an RMSNorm or not, beside a skip or not."""
    inner = mf.Sequential((*(RMSNorm(),) * norm, attention(q), DENSE))
    words = ["attention alone", *["RMSNorm"] * norm, *["skip"] * skip]
    return Built(", ".join(words), (), mf.Network(mf.Residual(inner) if skip else inner, DENSE))


def two_factors(factor: Schedule | int, behind: Schedule | int) -> mf.Network:
    """Pre-LN of relu with uniform attention, a factor behind each norm; behind: σ of output and second matrices."""
    last = mf.Dense(sigma_w=behind, sigma_b=0)
    norm = (mf.LayerNorm(), *((mf.Scale(factor),) if isinstance(factor, Schedule) else ()))
    heads = mf.Sequential((*norm, attention(0), last))
    layer = mf.Sequential((*norm, DENSE, mf.Nonlinearity("relu"), last))
    return mf.Network(mf.Sequential((mf.Residual(heads), mf.Residual(layer))), DENSE)
