"""The architectures that a served page offers: those of the command line whose layers it can follow."""

from __future__ import annotations

from typing import Any

from meanfield.base.arguments import finite
from meanfield.base.errors import MeanFieldError
from meanfield.networks.architectures import keywords
from meanfield.networks.records import Param, exact

PLAIN = "plain layers"
SKIP = "skip μ"
#: what `derive` takes; a skip's strength stays a symbol there, which a slider moves
CHOICES: dict[str, dict[str, Any]] = {
    PLAIN: {},
    "LayerNorm before φ": {"norm": "pre"},
    "LayerNorm behind φ": {"norm": "act"},
    SKIP: {"residual": True, "mu": "mu"},
    f"{SKIP}, LayerNorm before φ": {"residual": True, "mu": "mu", "norm": "pre"},
    f"{SKIP}, LayerNorm behind φ": {"residual": True, "mu": "mu", "norm": "act"},
    f"{SKIP}, LayerNorm behind the sum (postln)": {"architecture": "postln", "mu": "mu"},
    f"{SKIP}, LayerNorm and gate (swiglu)": {"architecture": "swiglu", "mu": "mu"},
    "x + v φ(w x + b) + a (full_residual)": {"architecture": "full_residual"},
}
OTHER_NAMES = {"mlp": PLAIN, "resnet": SKIP, "preln": f"{SKIP}, LayerNorm before φ"}
#: sliders of symbols, shown where a model has them, and the value that they start at
SYMBOLS = {"mu": 1.0, "sigma_v": 1.0, "sigma_a": 1.0}


def chosen(name: object) -> dict[str, Any]:
    """What `derive` takes for a name of `CHOICES`."""
    if not isinstance(name, str) or name not in CHOICES:
        raise MeanFieldError(f"The architecture must be one of {'; '.join(CHOICES)}, but {str(name)[:60]!r} was given.")
    return CHOICES[name]


def choice_of(theory: dict[str, Any]) -> str | None:
    """The name in `CHOICES` of what a command line asks for; None of what no page follows."""
    architecture, norm = theory.get("architecture"), theory.get("norm")
    if architecture is not None:
        rest = norm or theory.get("residual")
        names = {v["architecture"]: k for k, v in CHOICES.items() if "architecture" in v} | OTHER_NAMES
        return None if rest else names.get(architecture)
    skip = theory.get("residual") or theory.get("mu") is not None
    wanted = ({"residual": True, "mu": "mu"} if skip else {}) | ({"norm": norm} if norm else {})
    return next((name for name, own in CHOICES.items() if own == wanted), None)


def strength(mu: str | None) -> float:
    """The number of --mu, 1 unless given."""
    if mu is None:
        return SYMBOLS["mu"]
    number = exact(mu, "mu")
    if isinstance(number, Param):
        raise MeanFieldError(
            f"A served page takes --mu as a number that its slider starts at, such as 0.5 or 1/2; {mu!r} was given."
        )
    return usable("mu", float(number))


def usable(name: str, value: object) -> float:
    """A number that a symbol may be."""
    number = finite(value, name)
    if number < 0:
        raise MeanFieldError(f"{name} must be a number ≥ 0, but {number:g} was given.")
    return number


def with_parameters(theory: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The activation and the parameters of a theory with the architecture of a choice."""
    return {"act": theory["act"], "parameters": dict(theory["parameters"]), **own}


def at_values(theory: dict[str, Any], values: dict[str, float]) -> dict[str, Any]:
    """A theory with numbers in the place of its symbols."""
    out = dict(theory, parameters=dict(theory["parameters"]))
    for name, value in values.items():
        if name == "mu":
            out["mu"] = repr(value)
        else:
            out["parameters"][name] = repr(value)
    return out


def with_activation(theory: dict[str, Any], act: str) -> dict[str, Any]:
    """A theory of another activation, without what is a parameter of the one before."""
    own = set() if theory.get("architecture") is None else set(keywords(theory["architecture"]))
    return dict(theory, act=act, parameters={k: v for k, v in theory["parameters"].items() if k in own})


def with_architecture(theory: dict[str, Any], name: object) -> dict[str, Any]:
    """A theory of another architecture, without what is a parameter of the one before."""
    new = chosen(name)
    own = set() if theory.get("architecture") is None else set(keywords(theory["architecture"]))
    kept = {k: v for k, v in theory["parameters"].items() if k not in own}
    return with_parameters(theory | {"parameters": kept}, new)
