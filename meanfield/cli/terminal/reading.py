"""What the command line reads: theories, numbers, axes, names of quantities, output paths."""

from __future__ import annotations

import re
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.quantities import CARRIED, COVARIANCES, FINITE_WIDTH, GRADIENTS, ONE_INPUT, QUANTITIES, of_two
from meanfield.functions.activations import activation
from meanfield.functions.reading.parser import number
from meanfield.networks.architectures import decays, keywords
from meanfield.networks.folds import skip_of
from meanfield.networks.records import NORMS, WEIGHTS, Param
from meanfield.theory.deriving import derive
from meanfield.theory.queries import coupled_positions
from meanfield.theory.theory import Theory

DEEPEST = 10_000_000  # layers kept in memory at once
FINEST = 10_000  # points of one axis of a phase diagram


def theory_of(
    act: str,
    residual: bool,
    mu: str | None,
    params: list[str] | None,
    norm: str = "none",
    architecture: str | None = None,
    decay: str | None = None,
    total: str | None = None,
    weights: str = "gaussian",
    batch: int | None = None,
) -> Theory:
    """The theory that ACT, --residual, --mu, --param, --norm, --architecture, --decay, --total, --weights and --batch
    ask for."""
    if weights not in WEIGHTS:
        raise MeanFieldError(f"--weights must be one of {', '.join(WEIGHTS)}, but {weights!r} was given.")
    if norm not in NORMS:
        raise MeanFieldError(f"--norm must be one of {', '.join(NORMS)}, but {norm!r} was given.")
    values: dict[str, str] = {}
    for item in params or ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (equals and value and name.isidentifier()) or name in values or name == "what":
            raise MeanFieldError(f"--param takes name=value, each name once, such as alpha=0.2; {item!r} was given.")
        values[name] = value
    taken = {"z", "Q0", "c0", "l", "sigma_w", "sigma_b", *CARRIED}
    for option, text in [("--mu", mu), *[(f"--param {n}", v) for n, v in values.items()]]:
        if text in taken:
            raise MeanFieldError(f"{option} cannot be called {text!r}: that symbol already has a meaning here.")
    if mu is not None and mu.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise MeanFieldError(f"--mu must be a finite number or a symbol's name, but {mu!r} was given.")
    plain: dict[str, Any] = {"residual": residual, "mu": mu, "norm": None if norm == "none" else norm}
    for option, text in (("--decay", decay), ("--total", total)):
        if text is not None and architecture != "full_residual":
            raise MeanFieldError(f"{option} is of the standard deviations of --architecture full_residual; give both.")
    if architecture in (None, "mlp"):
        return derive(activation(act, **values), weights=weights, batch=batch, **plain)
    if weights != "gaussian":
        raise MeanFieldError(f"--weights {weights} is of the plain layer; leave it out with --architecture.")
    own = set(keywords(architecture))
    inner = {k: v for k, v in values.items() if k not in own}
    values = {k: v for k, v in values.items() if k in own}
    values |= decays(decay or "") | decays(total or "", "total")
    return derive(activation(act, **inner), architecture=architecture, batch=batch, **plain, **dict[str, Any](values))


def double(text: str, option: str) -> float:
    """The nearest double of `number`."""
    return float(number(text, option))


def axis(text: str, option: str) -> tuple[float, float, int]:
    """(low, high, count) of one axis of a phase diagram, written as LO,HI,N."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3:
        raise MeanFieldError(f"{option} must be LO,HI,N, such as 0,3,300, but {text!r} was given.")
    low, high = (double(part, f"{end} of {option}") for part, end in zip(parts, ("LO", "HI")))
    if not 0 <= low < high:
        raise MeanFieldError(f"{option} must run from LO ≥ 0 to a larger HI, but {text!r} was given.")
    if not (parts[2].isdecimal() and 2 <= int(parts[2]) <= FINEST):
        raise MeanFieldError(f"N of {option} must be a whole number from 2 to {FINEST:,}, but {parts[2]!r} was given.")
    return low, high, int(parts[2])


def layers(depth: int) -> int:
    """A depth that fits into memory."""
    if not 1 <= depth <= DEEPEST:
        raise MeanFieldError(f"--depth must be a whole number of layers from 1 to {DEEPEST:,}, but {depth} was given.")
    return depth


def needs_numbers(theory: Theory) -> None:
    """Refuse a theory with symbols where numbers are to be computed."""
    skip = skip_of(theory.block)
    if skip is not None and isinstance(skip.mu, Param):
        raise MeanFieldError(f"--mu must be a number here, but the name {skip.mu.name!r} was given.")
    inner = {s.name for s in theory.activations[0].free_parameters}
    own = {"sigma_w", "sigma_b", "Q0", "c0", "L", *inner}
    held = sorted(s.name for s in theory.one_input.parameters if s.name not in own)
    if held:
        known = held[0] in keywords("full_residual")
        instead = f"give it as --param {held[0]}=..." if known else "give a number in its place"
        raise MeanFieldError(f"{held[0]} of the architecture must be a number here; {instead}.")
    if inner:
        name = min(inner)
        raise MeanFieldError(f"The parameter {name} must be a number here; give it as --param {name}=...")


def wanted(theory: Theory, text: str | None, two: bool) -> tuple[str, ...]:
    """The quantities to show, from --quantities or the default for one or two inputs."""
    known = (*filter(of_two, QUANTITIES), *ONE_INPUT) if two else ONE_INPUT + GRADIENTS + FINITE_WIDTH
    if theory.kind:
        known = coupled_positions.KNOWN
    if text is None and theory.kind:
        return ("K", "K_ab", *theory.default_quantities[1:])
    if text is None:
        return (*COVARIANCES, "c") if two else theory.default_quantities
    names = tuple(dict.fromkeys(n.strip() for n in text.split(",") if n.strip()))
    for n in names:
        if n not in known:
            why = f"the quantities known here are {', '.join(known)}"
            if not theory.kind and of_two(n):
                why = "it needs two inputs; give --correlation"
            raise MeanFieldError(f"--quantities {n} is not available: {why}.")
    if not names:
        raise MeanFieldError(f"--quantities names none; choose from {', '.join(known)}.")
    return names


def maps_wanted(text: str | None, steps: bool) -> tuple[str, ...]:
    """The quantities whose maps `derive` shows; with `steps` those that are averages over one layer's weights."""
    known = tuple(n for n in (*ONE_INPUT, *FINITE_WIDTH) if not (steps and n in ("J", "J0", "D0", "J1")))
    names = tuple(dict.fromkeys(n.strip() for n in (text or "").split(",") if n.strip()))
    wrong = [n for n in names if n not in known]
    if not names or wrong:
        what = "--steps" if steps else "--quantities"
        raise MeanFieldError(
            f"{what} of {wrong[0] if wrong else 'no quantity'} is not available: choose --quantities from "
            f"{', '.join(known)}."
        )
    return names


def propagated(names: tuple[str, ...], two: bool) -> tuple[str, ...] | None:
    """What `propagate` is asked for: c of two inputs of any norms is read off their covariances."""
    if two and set(names) <= {*COVARIANCES, "c"}:
        return None
    return names


def rate(text: str | None, option: str) -> str | float | None:
    """A learning rate: a number, or a formula in l, the layer that is made, such as 1/l."""
    if text is None or "l" in re.findall(r"[A-Za-z_]\w*", text):
        return text
    return double(text, option)
