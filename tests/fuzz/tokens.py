"""Tokens of two inputs: of one input given twice K_same, K_other and the like are its own K, K_ab, Theta, Theta_ab."""

from __future__ import annotations

import numpy as np

from .activations import activation, decimal, nonzero
from .session import Session

SHARED = ("K", "K_ab", "K_same", "K_other")
TRAINED = ("Theta", "Theta_ab", "K_same", "Theta_same", "Theta_other")


def block(s: Session) -> bool:
    """Derives a random block with an Attention behind φ, a Gate, a norm, a Pool or a Dense on tokens, in a skip or not;
    returns whether φ jumps."""
    rng = s.rng
    phi = activation(rng)
    own = f"mf.activation({phi.arguments})" if phi.keywords else repr(phi.source)
    parts = [f"mf.Nonlinearity({own})"] if rng.random() < 0.8 else [f"mf.Gate({own})"]
    how = rng.choice(("plain", "plain", "norm", "rms", "pool", "mixed", "behind"))
    if how == "pool" and parts[0].startswith("mf.Nonlinearity"):
        parts.append(f"mf.Pool({rng.choice((2, 3))}, 'average')" if rng.random() < 0.7 else "mf.Pool(2, 'z1*z2')")
    if how == "mixed":
        parts.append("mf.Dense(axis='tokens')")
    if how == "norm":
        parts.append("mf.LayerNorm()")
    if how == "rms":
        parts.append("mf.networks.RMSNorm()")
    more = ", qk_norm=True" if rng.random() < 0.15 else ""
    heads = f"mf.networks.Attention(8{more})"
    parts = [heads, "mf.Dense()", *parts, "mf.Dense()"] if how == "behind" else [*parts, heads, "mf.Dense()"]
    text = f"mf.Sequential(({', '.join(parts)}))"
    if rng.random() < 0.4:
        text = f"mf.Residual({text}, {nonzero(rng, 0.2, 1)!r})"
    s.derive(f"mf.derive(architecture={text})", how)
    return bool(phi.jumps)


def tokens(s: Session) -> None:
    jumps = block(s)
    rng = s.rng
    count, depth = rng.choice((2, 3, 5, 16)), rng.choice((2, 3))
    c = float(decimal(rng, -0.9 / (count - 1), 0.95, 2))
    b = "0" if rng.random() < 0.2 else nonzero(rng, 0.05, 0.9)
    asked = SHARED if jumps or rng.random() < 0.6 else TRAINED
    w = nonzero(rng, 0.4, 2)
    at = f"sigma_w={w}, sigma_b={b}, depth={depth}, tokens={count}, correlation={c}"
    run = s.ask(f"propagate({at}, c_same=1, c_other={c}, quantities={asked})")
    pairs = [("K_same", "K"), ("K_other", "K_ab")] if asked is SHARED else []
    pairs += [("Theta_same", "Theta"), ("Theta_other", "Theta_ab")] if asked is TRAINED else []
    first = float(w) ** 2 + float(b) ** 2, float(w) ** 2 * c + float(b) ** 2  # of one token, and of two
    for own, wanted in zip(asked[:2], first):
        s.same(f"{own} at layer 1", f"theory.propagate({at}, …).{own}[0]", getattr(run, own)[0], wanted, 1e-12)
    size = {name: np.asarray(getattr(run, name)) for pair in pairs for name in pair}
    for ours, own in pairs:
        scale = np.abs(size["K" if own.startswith("K") else "Theta"])
        if not (scale < 1e100).all() or not (scale > 1e-200).all():
            continue
        # what rounding makes of two inputs that are one grows by no more than this in a layer or two
        worst = float(np.abs((size[ours] - size[own]) / scale).max())
        s.same(f"{ours} of one input given twice", f"theory.propagate({at}, …).{ours} over {own}", worst, 0.0, 1e-6)
    if "K" in asked:
        alone = s.ask(f"propagate({at}, quantities=('K', 'K_ab'))", needed=False)
        if alone is not None and (np.abs(run.K) < 1e100).all():
            off = float(np.abs(alone.K / run.K - 1).max())
            s.same("K of tokens alone and beside others", f"theory.propagate({at}, …).K", off, 0.0, 1e-9)
