"""Random compositions of all records, what theory says of them, and finite networks beside it.

A new record takes part with a segment in `SEGMENTS` (how it stands in a block) and an error in `PLANTED` (a record that
is nearly it, whose theory networks must refute).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

import meanfield as mf
from meanfield.empirical import run_ensemble
from meanfield.networks.folds import parts
from meanfield.networks.records import Block

SIGMA_W, SIGMA_B, DEPTH, TOKENS, DRAWS = 1.2, 0.3, 4, 24, 60
PLACE = {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B, "depth": DEPTH}
WIDTHS, BATCHES = (96, 192, 384), (24, 48, 96)
PHI = ("relu", "erf", "gelu", "tanh", "sin", "abs")

Segment = Callable[[np.random.Generator], tuple[Block, ...]]


def _phi(rng: np.random.Generator) -> mf.Nonlinearity:
    return mf.Nonlinearity(str(rng.choice(PHI)))


def _dense(rng: np.random.Generator) -> mf.Dense:
    """Any Dense on neurons: its law, its width, σ's of its own, a schedule."""
    kind = rng.integers(6)
    if kind == 0:
        return mf.Dense(weights=str(rng.choice(["orthogonal", "uniform"])))
    if kind == 1:
        return mf.Dense(sigma_w=Fraction(int(rng.integers(8, 14)), 10), sigma_b=Fraction(1, 5))
    return mf.Dense(sigma_w=mf.Schedule("sigma_w", Fraction(1, 2))) if kind == 2 else mf.Dense()


def _layers(rng: np.random.Generator) -> tuple[Block, ...]:
    """[LayerNorm] φ [LayerNorm] Dense, sometimes with a wide Dense first."""
    found: list[Block] = [mf.Dense(expand=2)] if rng.random() < 0.3 else []
    norm = rng.integers(4)
    found += [mf.LayerNorm(affine=bool(rng.integers(2)))] if norm == 1 else []
    found += [_phi(rng)]
    found += [mf.LayerNorm()] if norm == 2 else []
    return (*found, _dense(rng))


def _skip(rng: np.random.Generator) -> tuple[Block, ...]:
    shortcut = (None, None, mf.Projection(), mf.Dense())[rng.integers(4)]
    return (mf.Residual(mf.Sequential(_layers(rng)), Fraction(int(rng.integers(3, 11)), 10), shortcut),)


def _mixed(rng: np.random.Generator) -> tuple[Block, ...]:
    inner: tuple[Block, ...] = (mf.Dense(axis="tokens"),)
    if rng.random() < 0.5:
        inner = (mf.LayerNorm(), mf.Dense(axis="tokens", expand=2), _phi(rng), mf.Dense(axis="tokens"))
    return (mf.Residual(mf.Sequential(inner), Fraction(int(rng.integers(5, 11)), 10)),)


def _normed(rng: np.random.Generator) -> tuple[Block, ...]:
    return (mf.BatchNorm(), _phi(rng), mf.Dense())


def _gated(rng: np.random.Generator) -> tuple[Block, ...]:
    wide = mf.Dense(expand=int(rng.integers(1, 3)))
    return (
        mf.networks.AffineNorm(),
        mf.Gate(str(rng.choice(["sigmoid", "gelu", "silu", "linear"])), wide, wide),
        mf.Dense(),
    )


def _pooled(rng: np.random.Generator) -> tuple[Block, ...]:
    kind = str(rng.choice(["max", "average", "max(z1, z2) - min(z1, z2)"]))
    pool = mf.Pool(2, kind)
    return (pool, mf.Dense()) if rng.random() < 0.5 else (_phi(rng), pool, mf.Dense())


def _scale(rng: np.random.Generator) -> tuple[Block, ...]:
    return (mf.Scale(Fraction(int(rng.integers(5, 15)), 10)),)


#: name → (how often, what stands there)
SEGMENTS: dict[str, tuple[float, Segment]] = {
    "layers": (3, _layers),
    "skip": (3, _skip),
    "tokens": (1.5, _mixed),
    "batch": (0.75, _normed),
    "gate": (1, _gated),
    "pool": (1, _pooled),
    "scale": (1.5, _scale),
}


def compose(rng: np.random.Generator) -> Block:
    """One to three segments, which end in a Dense nine times out of ten."""
    weights = np.array([weight for weight, _ in SEGMENTS.values()])
    chosen = rng.choice(list(SEGMENTS), size=rng.integers(1, 4), p=weights / weights.sum())
    found = [record for name in chosen for record in SEGMENTS[name][1](rng)]
    if not any(isinstance(part, mf.Nonlinearity) for one in found for part in parts(one)):
        found.append(_phi(rng))
    if rng.random() < 0.9:
        found.append(mf.Dense())
    return mf.Sequential(tuple(found))


def ten(seed: int) -> list[Block]:
    return [compose(np.random.default_rng((seed, k))) for k in range(10)]


# ---------------------------------------------------------------------------------------------------------- theory


@dataclass(frozen=True)
class Answer:
    """values: quantity → (mean, standard error of the theory itself: 0 where nothing is drawn)."""

    level: str
    values: dict[str, tuple[float, float]]


def mixes(block: Block) -> bool:
    return any(isinstance(part, mf.Dense) and part.axis == "tokens" for part in parts(block))


def answer(block: Block) -> Answer | str:
    """K and J at the last layer (of tokens: K and chi of the last block), or the reason why not."""
    try:
        theory = mf.derive(architecture=block)
        if mixes(block):
            run = theory.sample(**PLACE, tokens=TOKENS, draws=DRAWS, seed=1, quantities=("K", "chi"))
            found = {name: run.estimate(name, DEPTH - (name == "chi")) for name in ("K", "chi")}
            return Answer("sampled", {n: (float(e.mean), float(e.standard_error)) for n, e in found.items()})
        layers = theory.propagate(**PLACE, quantities=("K", "J"))
        return Answer("exact", {"K": (float(layers.K[-1]), 0.0), "J": (float(np.exp(layers.log_J[-1])), 0.0)})
    except mf.MeanFieldError as error:
        return str(error)


# -------------------------------------------------------------------------------------------------------- networks


def measured(block: Block, quantity: str, networks: int, seed: int) -> tuple[float, float]:
    """The mean at infinite width from a + b/N through three widths, and its standard error; with a BatchNorm from
    a + b/N + c/|B|, at infinite batch, too."""
    rows = []
    couples = any(isinstance(part, mf.BatchNorm) for part in parts(block))
    sizes = [(width, batch) for width in WIDTHS for batch in (BATCHES if couples else (None,))]
    settings = {"tokens": TOKENS} if mixes(block) else {}
    for k, (width, batch) in enumerate(sizes):
        run = run_ensemble(
            block,
            **PLACE,
            width=width,
            networks=networks,
            seed=seed + k,
            quantities=(quantity,),
            probes=4,
            batch=batch,
            **settings,
        )
        found = run.estimate(quantity, DEPTH - (quantity == "chi"))
        small = (1 / width, *((1 / batch,) if couples else ()))
        rows.append((*small, float(found.mean), float(found.standard_error)))
    *x, y, e = np.array(rows).T
    e = np.hypot(e, 4 * y * sum(one * one for one in x))  # the next order in 1/N and 1/|B|
    A = np.stack([np.ones(len(y)), *x], axis=1) / e[:, None]
    cov = np.linalg.inv(A.T @ A)
    return float((cov @ A.T @ (y / e))[0]), float(np.sqrt(cov[0, 0]))


def z_scores(theory: Answer, block: Block, networks: int = 150, seed: int = 100) -> dict[str, float]:
    """Networks of `block` against an answer, which may be that of another block."""
    found = {}
    for quantity, (value, own) in theory.values.items():
        mean, error = measured(block, quantity, networks, seed)
        found[quantity] = (mean - value) / float(np.hypot(own, error))
    return found


# ------------------------------------------------------------------------------------------------------- controls


def _other_phi(record: mf.Nonlinearity) -> Block:
    return mf.Nonlinearity("relu" if record.activation != "relu" else "erf")


PLANTED: dict[type, Callable[[Block], Block]] = {
    mf.Dense: lambda d: replace(d, sigma_w=Fraction(27, 20)),
    mf.Nonlinearity: _other_phi,
    mf.LayerNorm: lambda _: mf.Sequential(()),
    mf.BatchNorm: lambda _: mf.LayerNorm(),
    mf.networks.AffineNorm: lambda _: mf.Scale(Fraction(11, 10)),
    mf.Gate: lambda g: replace(g, gate=replace(g.gate, sigma_w=Fraction(3, 2))),
    mf.Pool: lambda p: replace(p, kind="average" if p.kind == "max" else "max"),
    mf.Scale: lambda s: mf.Scale(Fraction(11, 10) * s.factor),
    mf.Projection: lambda _: mf.Scale(Fraction(9, 10)),
    mf.Residual: lambda r: replace(r, mu=r.mu + Fraction(1, 10)),
    mf.Sequential: lambda s: mf.Sequential(s.blocks[1:]),
}


def planted(block: Block, record: type) -> Block | None:
    """The block with an error in its first record of that type, None where there is none."""
    if isinstance(block, record) and not (record is mf.Sequential and len(block.blocks) < 3):
        return PLANTED[record](block)
    if isinstance(block, mf.Sequential):
        for k, inner in enumerate(block.blocks):
            changed = planted(inner, record)
            if changed is not None:
                return mf.Sequential((*block.blocks[:k], changed, *block.blocks[k + 1 :]))
    if isinstance(block, mf.Residual):
        changed = planted(block.branch, record)
        if changed is not None:
            return replace(block, branch=changed)
        changed = None if block.shortcut is None else planted(block.shortcut, record)
        if changed is not None:
            return replace(block, shortcut=changed)
    return None
