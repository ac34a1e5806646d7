"""`derive`: the theory of an architecture, from an activation, a record or the name of a preset."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from meanfield.architecture import NORMS, WEIGHTS, Block, Gate, Network, Nonlinearity, Residual, Sequential, exact, mlp
from meanfield.architectures import PRESETS, keywords
from meanfield.arguments import choice, meant, shown, spoken
from meanfield.functions.activations import Activation, activation
from meanfield.results import MeanFieldError
from meanfield.theory import Theory


@spoken
def derive(
    phi: object = None,
    *,
    residual: object = False,
    mu: object = None,
    norm: str | None = None,
    architecture: Block | str | None = None,
    weights: str = "gaussian",
    batch: int | None = None,
    **parameters,
) -> Theory:
    """The theory of a wide random network at initialization.

    phi: a registered activation name ("tanh", "leaky_relu(0.2)"), a formula in z ("z*erf(z)"), a SymPy expression or an
    `Activation`. residual: True adds the skip z^{l+1} = branch + μ z^l with μ = 1; mu: another μ, a number or a name
    (mu="mu" keeps it symbolic). norm: "pre" or "act" puts a LayerNorm on preactivations, Dense(φ(LN(z))), or on
    activations, Dense(LN(φ(z))); the skip carries z as it is. weights: "gaussian", "orthogonal" (Haar), "mixed" (Haar
    after a Gaussian input layer) or "uniform" (independent, fourth cumulant −6/5), which share one limit of infinite
    width; at order 1/n, G1, Theta1 and J1 tell uniform weights from Gaussian ones. architecture: any composition of
    blocks instead of the plain layer; a `Network`, whose input layer has σ's of its own; or, with phi, the name of a
    preset of `meanfield.architectures`, whose keywords are then taken, too (`architecture="full_residual",
    beta_v="1/2"`).
    batch: how many inputs a `BatchNorm` sees at a time, 4 or more; infinitely many unless given.
    Keyword parameters set the activation's parameters (alpha=0.2, or alpha="alpha" to keep it symbolic). Where symbols
    leave open which switch point comes first (min(max(z, s), t)), the verbs that take numbers for them answer, and the
    others say what is open.

    Conventions: z^{l+1} = (σ_w/√N) W φ(z^l) + σ_b b [+ μ z^l], standard normal W and b; K^l is the second moment of
    z^l; l = 1 is the first layer after the input.

    Raises: MeanFieldError for an unknown name, an unreadable formula, a negative μ, or blocks that have no rule.

    >>> print(derive("tanh", residual=True).recursion("K", "J"))
    K' = K + sigma_b**2 + sigma_w**2*<tanh(z)**2>_{K}
    J' = J*(sigma_w**2*<sech(z)**4>_{K} + 1)
    """
    choice(weights, "weights", WEIGHTS)
    if norm is not None:
        choice(norm, "norm", NORMS)
    if isinstance(architecture, str):
        found = _preset(phi, architecture, residual, mu, norm, weights, parameters)
        return found if batch is None else replace(found, batch=batch)
    if architecture is not None:
        plain = phi is None and residual is False and mu is None and norm is None and weights == "gaussian"
        if not plain or parameters:
            raise MeanFieldError(
                "architecture= says everything about the network; leave out the activation, residual, mu, norm, "
                "weights and parameters, or put them into its records."
            )
        whole_ = architecture if isinstance(architecture, Network) else Network(architecture)
        return Theory(resolved(whole_.block), whole_.first, batch)
    if phi is None:
        raise MeanFieldError("derive needs an activation, such as derive('tanh'), or architecture=...")
    if isinstance(phi, Block):
        raise MeanFieldError("A block was given as the activation; give it as derive(architecture=...).")
    strength = _strength(residual, mu)
    try:
        record = activation(phi, **parameters)
    except MeanFieldError as error:
        own = [meant(k, ("residual", "mu", "norm", "architecture", "weights")) for k in parameters]
        hint = next((h for h in own if h.startswith(" Did")), "")
        raise (MeanFieldError(f"{error}{hint}") if hint else error) from None
    found = _derive(record, exact(strength, "The skip strength mu"), weights, norm)
    return found if batch is None else replace(found, batch=batch)


def _strength(residual, mu) -> object:
    """The skip strength that residual= and mu= ask for together."""
    if isinstance(residual, bool):
        return mu if mu is not None else int(residual)
    if mu is not None:
        raise MeanFieldError(
            f"residual={shown(residual)} and mu={shown(mu)} both set the skip strength; give residual=True with mu."
        )
    return residual


def _preset(phi, name: str, residual, mu, norm, weights: str, parameters: dict) -> Theory:
    """The theory of a preset: its keywords go to it, the others to the activation."""
    own = set(keywords(name))
    if phi is None:
        raise MeanFieldError(f"derive needs an activation, such as derive('tanh', architecture={name!r}).")
    if name == "mlp":
        return derive(phi, residual=residual, mu=mu, norm=norm, weights=weights, **parameters)
    strength = _strength(residual, mu)
    mu = strength if residual is not False or mu is not None else None
    asked = {"mu": mu, "norm": norm if norm != "none" else None, "weights": weights if weights != "gaussian" else None}
    given = {k: v for k, v in asked.items() if v is not None}
    strange = next((k for k in given if k not in own), None)
    if strange is not None:
        of = f"knows {', '.join(sorted(own))}" if own else "has no choices"
        what = f"{strange}={shown(given[strange])}"
        raise MeanFieldError(f"{what} was given, but the architecture {name} {of}; leave it out.")
    inner = {k: v for k, v in parameters.items() if k not in own}
    block = PRESETS[name](activation(phi, **inner), **given, **{k: v for k, v in parameters.items() if k in own})
    return derive(architecture=block)


@lru_cache(maxsize=256)
def _derive(record: Activation, mu, weights: str, norm: str | None) -> Theory:
    return Theory(mlp(record, mu, weights, norm))


def resolved(block: Block) -> Block:
    """The same record with every activation looked up, so that theory and checker hold the very same ones."""
    match block:
        case Nonlinearity(a):
            return Nonlinearity(activation(a))
        case Gate(a):
            return replace(block, activation=activation(a))
        case Sequential(blocks):
            return Sequential(tuple(resolved(b) for b in blocks))
        case Residual(branch, _, shortcut):
            return replace(block, branch=resolved(branch), shortcut=shortcut and resolved(shortcut))
    return block
