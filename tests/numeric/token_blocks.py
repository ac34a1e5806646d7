"""Blocks with a Dense on tokens, written out."""

from __future__ import annotations

import meanfield as mf


def mixer(phi, mu) -> mf.Sequential:
    """[partial_jacobians] (F.4)-(F.11), its hidden layers of 4 T tokens and 2 C channels."""
    tokens = (mf.LayerNorm(), mf.Dense(axis="tokens", expand=4), mf.Nonlinearity(phi), mf.Dense(axis="tokens"))
    channels = (mf.LayerNorm(), mf.Dense(expand=2), mf.Nonlinearity(phi), mf.Dense())
    return mf.Sequential((mf.Residual(mf.Sequential(tokens), mu), mf.Residual(mf.Sequential(channels), mu)))


def resmlp(phi, mu="1", scale="0.1") -> mf.Sequential:
    """[autoinit] (49)-(56) at initialization, where its affine maps are identities."""
    mixed = mf.Residual(mf.Sequential((mf.Dense(axis="tokens"), mf.Scale(scale))), mu)
    inner = (mf.Dense(expand=4), mf.Nonlinearity(phi), mf.Dense(), mf.Scale(scale))
    return mf.Sequential((mixed, mf.Residual(mf.Sequential(inner), mu)))
