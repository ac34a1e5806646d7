"""The theory of an architecture, derived: from an activation, a record or the name of a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any

from meanfield.base.arguments import choice, shown
from meanfield.base.errors import MeanFieldError
from meanfield.base.words import ARGUMENTS, close
from meanfield.functions.activations import Activation, activation
from meanfield.networks.folds import with_activations
from meanfield.networks.records import ARCHITECTURES, NORMS, WEIGHTS, Block, Network, exact, mlp
from meanfield.symbolic.recursions.coordinate_walk import remembered
from meanfield.theory.theory import Theory

ARCHITECTURES.rare(
    {
        "mlp": "networks.records",
        "resnet": "networks.architectures",
        "preln": "networks.architectures",
        "postln": "networks.architectures",
        "resmlp": "networks.architectures",
        "mlp_mixer": "networks.architectures",
        "full_residual": "networks.architectures",
        "batchnorm_mlp": "networks.architectures",
        "swiglu": "networks.architectures",
        "gpt": "networks.transformers",
        "llama": "networks.transformers",
        "encoder_postln": "networks.transformers",
        "peri": "networks.transformers",
        "deepnorm": "networks.transformers",
    }
)


def theory_of(
    phi, *, residual=False, mu=None, norm=None, architecture=None, weights="gaussian", batch=None, **parameters
) -> Theory:
    """The theory that `derive` was asked for."""
    if isinstance(phi, Block) and architecture is None:
        phi, architecture = None, phi
    choice(weights, "weights", WEIGHTS)
    if norm is not None and not isinstance(architecture, str):  # a preset says what its own may be
        choice(norm, "norm", NORMS)
    if isinstance(architecture, str):
        found = _preset(phi, architecture, residual, mu, norm, weights, parameters)
        return found if batch is None else replace(found, batch=batch)
    if callable(architecture):  # a preset with its keywords
        asked = {"residual": residual is not False, "mu": mu, "norm": norm, "weights": weights != "gaussian"}
        if phi is None or any(asked.values()):
            said = "needs an activation" if phi is None else "says everything else about the network"
            raise MeanFieldError(f"A preset was given as the architecture; it {said}: derive('tanh', architecture=…).")
        return theory_of(None, architecture=architecture(activation(phi, **parameters)), batch=batch)
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
    strength = _strength(residual, mu)
    try:
        record = activation(phi, **parameters)
    except MeanFieldError as error:
        hint = next(filter(None, map(_of_verbs, parameters)), "")
        raise (MeanFieldError(f"{error}{hint}") if hint else error) from None
    found = _derive(record, exact(strength, "The skip strength mu"), weights, norm)
    return found if batch is None else replace(found, batch=batch)


def _of_verbs(name: str) -> str:
    """What a keyword of derive may have meant that is no parameter of an activation."""
    own = ("residual", "mu", "norm", "architecture", "weights")
    found = close(name, own if name == "layers" else (*own, *ARGUMENTS))
    if found is None or found in own:
        return f" Did you mean {found!r}?" if found else ""
    return f" {found} is an argument of verbs: derive('tanh').propagate(sigma_w=1, sigma_b=0, depth=10)."


def theory_and_values(network: object, parameters: Mapping[str, Any]) -> tuple[Theory, dict[str, Any]]:
    """The theory of what a verb is given first, and the values of its symbols among the verb's further keywords.

    network: a theory or an architecture record, of which `parameters` are values; else what `derive` takes first, and
    `parameters` are what it takes beside that: residual, mu, norm, architecture, weights, parameters of φ.
    """
    if not isinstance(network, Theory | Block):
        return theory_of(network, **parameters), {}
    strange = next((k for k in ("residual", "norm", "architecture", "weights") if k in parameters), None)
    if strange is not None:
        raise MeanFieldError(
            f"{strange}={shown(parameters[strange])} was given beside a network that says what it is; it goes with an "
            "activation."
        )
    return network if isinstance(network, Theory) else theory_of(None, architecture=network), dict(parameters)


def _strength(residual, mu) -> object:
    """The skip strength that residual= and mu= ask for together."""
    if isinstance(residual, bool) or type(residual).__name__ == "bool":  # NumPy's own, too
        return mu if mu is not None else int(residual)
    if residual is None or (isinstance(residual, str) and residual.strip().isidentifier()):
        raise MeanFieldError(
            f"residual must be True, False or the strength of the skip as a number, but {shown(residual)} was given; "
            "mu='mu' keeps the strength a symbol."
        )
    if mu is not None:
        raise MeanFieldError(
            f"residual={shown(residual)} and mu={shown(mu)} both set the skip strength; give residual=True with mu."
        )
    return residual


def _preset(phi, name: str, residual, mu, norm, weights: str, parameters: dict) -> Theory:
    """The theory of a preset: its keywords go to it, the others to the activation."""
    choice(name, "architecture", ARCHITECTURES.names)
    usual, *others = signature(ARCHITECTURES[name]).parameters.values()
    own = {one.name for one in others}
    phi = usual.default if phi is None else phi
    if phi is Parameter.empty:
        raise MeanFieldError(f"derive needs an activation, such as derive('tanh', architecture={name!r}).")
    if name == "mlp":
        return theory_of(phi, residual=residual, mu=mu, norm=norm, weights=weights, **parameters)
    strength = _strength(residual, mu)
    mu = strength if strength != 0 or mu is not None else None
    asked = {"mu": mu, "norm": norm if norm != "none" else None, "weights": weights if weights != "gaussian" else None}
    given = {k: v for k, v in asked.items() if v is not None}
    strange = next((k for k in given if k not in own), None)
    if strange is not None:
        of = f"knows {', '.join(sorted(own))}" if own else "has no choices"
        what = f"{strange}={shown(given[strange])}"
        raise MeanFieldError(f"{what} was given, but the architecture {name} {of}; leave it out.")
    inner = {k: v for k, v in parameters.items() if k not in own}
    block = ARCHITECTURES[name](activation(phi, **inner), **given, **{k: v for k, v in parameters.items() if k in own})
    return theory_of(None, architecture=block)


@remembered(maxsize=256)
def _derive(record: Activation, mu, weights: str, norm: str | None) -> Theory:
    return Theory(mlp(record, mu, weights, norm))


def resolved(block: Block) -> Block:
    """The same record with every activation looked up, so that theory and checker hold the very same ones."""
    return with_activations(block, activation)
