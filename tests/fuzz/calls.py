"""Hostile calls: a public verb with arguments that work, some of them replaced by what should not; formulas; and
command lines. Each is drawn from a `random.Random`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, z

from .hostile import KEYWORDS, VALUES, WORDS


@dataclass(frozen=True)
class Call:
    """One call as data: the verb, its arguments by name (positional ones as "0", "1", …), or one command line."""

    verb: str
    arguments: dict[str, str] = field(default_factory=dict)  # name of the argument → name of the hostile value
    text: str = ""
    line: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.line:
            return "meanfield " + " ".join(map(ascii, self.line))
        if self.text:
            return f"{self.verb}({self.text!a})"
        return f"{self.verb}({', '.join(f'{k}=<{v}>' for k, v in self.arguments.items())})"


@lru_cache
def theory(name: str) -> mf.Theory:
    if name == "norm":
        return mf.derive("relu", norm="act", mu="mu")
    if name == "switched":
        parts = (mf.Nonlinearity("relu"), mf.LayerNorm(), mf.Nonlinearity("relu"), mf.Dense())
        return mf.derive(architecture=mf.Sequential(parts))
    tanh = mf.Nonlinearity("tanh")
    if name == "twice":
        parts = (tanh, mf.Dense(sigma_b="1/5"), mf.Nonlinearity("relu"), mf.Dense())
        return mf.derive(architecture=mf.Sequential(parts))
    if name == "shortcut":
        faded = mf.Dense(sigma_w=mf.Schedule("6/5", 1))
        branch = mf.Sequential((tanh, mf.Scale("1/2"), mf.Dense()))
        return mf.derive(architecture=mf.Residual(branch, "1/2", faded))
    if name == "full":
        return mf.derive("relu", architecture="full_residual", sigma_v="1/2", beta_v=1)
    return mf.derive(name, residual=name == "erf")


PLACE = {"sigma_w": 1.2, "sigma_b": 0.1}
SIZES = {**PLACE, "width": 8, "depth": 3, "networks": 3}
GRID = {"sigma_w": (0.5, 2.0, 3), "sigma_b": (0.0, 1.0, 2), "line": False}
THEORIES = ("tanh", "relu", "erf", "norm", "switched", "twice", "shortcut", "full")
PAIRS = ("relu", "norm")  # whose laws of two inputs need no compiled averages


def _methods(name: str) -> dict[str, tuple[Callable, dict[str, Any], tuple[str, ...]]]:
    """verb → (function, arguments that work, names of other arguments)."""

    def of(method: str) -> Callable:
        return lambda *a, **k: getattr(theory(name), method)(*a, **k)

    return {
        f"{name}.recursion": (of("recursion"), {"0": "K"}, ("1",)),
        f"{name}.depth_law": (of("depth_law"), {"0": "J", "sigma_w": 1, "sigma_b": 0}, ("mu", "input_norm")),
        f"{name}.fixed_points": (of("fixed_points"), dict(PLACE), ("mu",)),
        f"{name}.phase": (of("phase"), dict(PLACE), ("input_norm", "mu")),
        f"{name}.critical_line": (of("critical_line"), {}, ("0",)),
        f"{name}.critical_points": (of("critical_points"), {}, ("0",)),
        f"{name}.expansions": (of("expansions"), {"order": 1}, ("1",)),
        f"{name}.table": (of("table"), {"order": 1}, ("1",)),
        f"{name}.latex": (of("latex"), {"order": 1}, ("1",)),
        f"{name}.source": (of("source"), {"0": "K"}, ("1",)),
        f"{name}.propagate": (
            of("propagate"),
            {**PLACE, "depth": 3},
            ("input_norm", "correlation", "quantities", "layerwise", "every_layer", "start", "mu", "s", "sigma_a"),
        ),
        f"{name}.phase_diagram": (of("phase_diagram"), dict(GRID), ("input_norm", "mu")),
        f"{name}.plot": (of("plot"), {**PLACE, "depth": 3}, ("quantities",)),
    }


def _of_pairs(name: str) -> dict[str, tuple[Callable, dict[str, Any], tuple[str, ...]]]:
    """The verbs of two inputs."""

    def of(method: str) -> Callable:
        return lambda *a, **k: getattr(theory(name), method)(*a, **k)

    return {
        f"{name}.depth_law(c)": (of("depth_law"), {"0": "c", **PLACE}, ("mu", "input_norm", "correlation")),
        f"{name}.bias": (of("bias"), dict(PLACE), ("input_norm", "correlation", "mu")),
        f"{name}.neutrality_line": (of("neutrality_line"), {}, ("correlation", "mu")),
    }


def _falling() -> mf.Theory:
    """A full residual network whose exponents are all free."""
    return mf.derive("relu", architecture="full_residual", **{f"beta_{s}": f"beta_{s}" for s in "vwab"})


def _block(cls: Callable, needed: dict[str, Any], *names: str) -> tuple[Callable, dict[str, Any], tuple[str, ...]]:
    return lambda *a, **k: mf.derive(architecture=mf.Sequential((cls(*a, **k), mf.Dense()))), needed, names


VERBS: dict[str, tuple[Callable, dict[str, Any], tuple[str, ...]]] = {
    **{verb: entry for name in THEORIES for verb, entry in _methods(name).items()},
    **{verb: entry for name in PAIRS for verb, entry in _of_pairs(name).items()},
    "relu.correlators": (
        lambda *a, **k: mf.derive("relu").correlators(*a, **k),
        {"0": [[1.0, 2.0], [0.5, -1.0]], **PLACE, "depth": 2, "quantities": "V"},
        ("gram", "lambda_w", "lambda_b", "input_ratio", "mu"),
    ),
    "derive": (mf.derive, {"0": "tanh"}, ("residual", "mu", "norm", "architecture", "weights", "alpha")),
    "activation": (mf.activation, {"0": "swish"}, ("beta", "1")),
    "activations": (mf.activations, {}, ("0",)),
    "register": (mf.register, {"0": "tanh", "1": "z"}, ("alpha",)),  # a name that is taken: nothing is left behind
    "mlp": (mf.networks.mlp, {"0": "tanh"}, ("mu", "weights", "norm")),
    "average": (lambda *a, **k: mf.average(*a, **k), {"0": sp.erf(z) ** 2, "1": K}, ("mean",)),
    "at_zero": (lambda *a, **k: mf.symbolic.at_zero(*a, **k), {"0": mf.average(sp.erf(z) ** 2, K), "1": 1}, ()),
    "at_infinity": (lambda *a, **k: mf.symbolic.at_infinity(*a, **k), {"0": mf.average(sp.erf(z) ** 2, K), "1": 1}, ()),
    "weingarten": (lambda *a, **k: mf.symbolic.weingarten(*a, **k), {"0": (2, 1)}, ("1", "n", "terms")),
    "haar_moment": (lambda *a, **k: mf.symbolic.haar_moment(*a, **k), {"0": [1, 1], "1": [2, 2]}, ("2", "n", "terms")),
    "Theory": (mf.Theory, {"0": mf.networks.mlp("tanh")}, ()),
    "Dense": _block(mf.Dense, {}, "weights", "sigma_w", "sigma_b", "expand", "axis"),
    "Nonlinearity": _block(mf.Nonlinearity, {"0": "tanh"}),
    "LayerNorm": _block(mf.LayerNorm, {}, "affine"),
    "BatchNorm": _block(mf.BatchNorm, {}, "affine"),
    "Pool": _block(mf.Pool, {}, "size", "kind"),
    "Scale": _block(mf.Scale, {"0": 1}),
    "Projection": _block(mf.Projection, {}),
    "Network": (
        lambda *a, **k: mf.derive(architecture=mf.Network(*a, **k)),
        {"0": mf.networks.mlp("tanh"), "1": mf.Dense(sigma_w=1)},
        ("first",),
    ),
    "full_residual": (
        lambda *a, **k: mf.derive(architecture=mf.architectures.full_residual(*a, **k)),
        {"0": "relu"},
        ("sigma_w", "sigma_v", "beta_v", "beta_w", "expand"),
    ),
    "phase_table": (
        lambda *a, **k: _falling().phase_table(*a, **k),
        {"0": "K"},
        ("1", "sigma_v", "sigma_w", "sigma_a", "beta_v", "beta_w", "beta_a", "beta_b"),
    ),
    "phase_table.at": (
        lambda *a, **k: _falling().phase_table("K", "J").at(*a, **k),
        {"beta_v": 1, "beta_w": "1/2", "beta_a": 1, "beta_b": 1},
        ("S", "sigma_v"),
    ),
    "phase_table.where": (lambda *a, **k: _falling().phase_table("K", "J").where(*a, **k), {"J": "bounded"}, ("K",)),
    "scheduled depth_law": (
        lambda *a, **k: _falling().depth_law(*a, **k),
        {"0": "J", "beta_v": 1, "beta_w": "1/2", "beta_a": 1, "beta_b": 1, "sigma_v": 1, "sigma_w": 1},
        ("sigma_a", "sigma_b"),
    ),
    "width_schedule": (
        lambda *a, **k: mf.derive("relu").width_schedule(*a, **k),
        {"width": 64, "depth": 9, "sigma_w": 1.5, "sigma_b": 0},
        ("factor", "fixed", "multiple", "input_norm", "layerwise"),
    ),
    "projection_law": (
        lambda *a, **k: mf.derive("tanh", residual=True).projection_law(*a, **k),
        {"sigma_w": 1, "sigma_b": 0},
        ("factor", "input_norm"),
    ),
    "Schedule": (mf.Schedule, {"0": 1, "1": 1}, ()),
    "Param": (mf.Param, {"0": "mu"}, ("lower", "upper")),
    "Sequential": _block(mf.Sequential, {"0": (mf.Nonlinearity("tanh"),)}),
    "Residual": _block(mf.Residual, {"0": mf.networks.mlp("tanh")}, "mu", "shortcut"),
    "check": (
        lambda *a, **k: mf.check(*a, **k),
        {"0": "tanh", **SIZES},
        (
            *("quantities", "seed", "input_norm", "correlation", "input_dimension", "sampler", "probes"),
            *("threads", "executor", "device", "checkpoint", "progress", "backward"),
        ),
    ),
    "measure": (
        lambda *a, **k: mf.measure(*a, **k),
        {"0": "tanh", **SIZES},
        (
            *("quantities", "seed", "input_norm", "correlation", "input_dimension", "sampler", "probes", "inputs"),
            "mu",
            *("batch", "tokens", "l0", "jacobian", "theta", "classes", "rates", "first_network", "keep_samples"),
            *("backward", "threads", "executor", "device", "checkpoint", "progress"),
        ),
    ),
    "measure_criticality": (
        lambda *a, **k: mf.measure_criticality(*a, **k),
        {"0": "tanh", **SIZES},
        ("seed", "input_norm", "sampler", "probes", "mu", "threads", "progress"),
    ),
    "measure_critical_line": (
        lambda *a, **k: mf.measure_critical_line(*a, **k),
        {"0": "relu", **SIZES, "sigma_w": [1.0, 1.4, 2.0]},
        ("seed", "input_norm", "sampler", "probes", "first", "mu", "threads", "progress"),
    ),
    "measure_pairs": (
        lambda *a, **k: mf.measure_pairs(*a, **k),
        {"0": "tanh", **PLACE, "width": 8, "depth": 3, "batch": 4},
        ("inputs", "seed", "index", "sampler", "input_dimension", "input_norm", "mu", "threads", "progress"),
    ),
}
# what is a request for hours of work, which a person may mean, or a file in the working folder
MEANT = {
    (verb, name, value)
    for verb in ("check", "measure", "measure_criticality", "measure_critical_line", "measure_pairs")
    for name in ("width", "depth", "networks", "probes", "input_dimension", "threads", "batch", "tokens", "classes")
    for value in ("10**18", "2**63", "10**400", "10**5000")
} - {(v, n, value) for v in ("check", "measure") for n in ("width", "depth") for value in ("10**400",)}
FILES = {"text 64", "text abc", "text sqrt", "text 1e400", "text 1e999999999", "text nan", "text 1/0", "text z"}
FILES |= {"text name", "text K", "text Theta", "text lazy", "text blank"}


def verbs(rng: random.Random) -> Call:
    """A public verb with one or two of its arguments replaced or added, and now and then a keyword it does not have."""
    verb = rng.choice(sorted(VERBS))
    _, works, others = VERBS[verb]
    known = [*works, *others]
    changed = rng.sample(known, rng.randint(1, min(2, len(known)))) if known else []
    if rng.random() < 0.1:
        changed.append(rng.choice(KEYWORDS))
    chosen = {name: rng.choice(sorted(VALUES)) for name in changed}
    return Call(verb, {n: v for n, v in chosen.items() if not (n == "checkpoint" and v in FILES)})


def perform(call: Call) -> Any:
    """What the call returns; raises what it raises."""
    if call.line:
        raise ValueError("a command line is run by judge.command")
    if call.text:
        return READERS[call.verb](call.text)
    function, works, _ = VERBS[call.verb]
    given = works | {name: VALUES[value] for name, value in call.arguments.items()}
    places = sorted(k for k in given if k.isdigit())
    return function(*(given[k] for k in places), **{k: v for k, v in given.items() if not k.isdigit()})


# ---------------------------------------------------------------------------------------------------------- formulas

HEADS = ("tanh", "erf", "exp", "sin", "cos", "sigmoid", "softplus", "abs", "atan", "sqrt", "log", "relu", "sign")
LEAVES = ("z", "z", "z", "1", "2", "0.5", "-3", "1e6", "1e-6", "pi", "1e30", "x", "alpha", "0", "1/3")
EXPONENTS = ("2", "3", "0.5", "-1", "-2", "64", "z")
PIECES = (*"()*+-/,z1>[é'\0\n", "**", " if ", " else ", "tanh", "lambda")


def formulas(rng: random.Random, leaves: int = 5) -> str:
    """A formula of at most so many leaves."""
    if leaves <= 1 or rng.random() < 0.2:
        return rng.choice(LEAVES)
    left = rng.randint(1, leaves - 1)
    match rng.randrange(5):
        case 0:
            return f"{rng.choice(HEADS)}({formulas(rng, leaves)})"
        case 1:
            return f"({formulas(rng, left)} {rng.choice('+-*/')} {formulas(rng, leaves - left)})"
        case 2:
            return f"({formulas(rng, leaves)})**{rng.choice(EXPONENTS)}"
        case 3:
            yes, no = formulas(rng, left), formulas(rng, leaves - left)
            return f"({yes} if z {rng.choice('<>')} {rng.choice(LEAVES)} else {no})"
        case _:
            return f"{rng.choice(('Max', 'Min'))}({formulas(rng, left)}, {formulas(rng, leaves - left)})"


READERS: dict[str, Callable[[str], Any]] = {
    "read": lambda text: _facts(mf.activation(text)),
    "maps": lambda text: str(mf.derive(text).recursion("K", "J")),
}
DEEP: dict[str, Callable[[str], Any]] = {
    "closed": lambda text: mf.derive(text).recursion("K").doit(),
    "both ends": lambda text: mf.derive(text).expansions(1),
    "run": lambda text: mf.derive(text).propagate(sigma_w=1.1, sigma_b=0.3, depth=4),
    "fixed": lambda text: mf.derive(text).fixed_points(sigma_w="1.1", sigma_b="0.3"),
    "points": lambda text: mf.derive(text).critical_points(),
    "law": lambda text: mf.derive(text, residual=True).depth_law("J", sigma_w=1, sigma_b=0),
    "closing": lambda text: mf.derive(text).depth_law("c", sigma_w="0.9", sigma_b="0.3"),
}
READERS |= DEEP


def _facts(record: mf.Activation) -> tuple:
    return record.parity, record.is_continuous, record.kinks, str(record)


def texts(rng: random.Random) -> Call:
    """A formula, spelt or broken, that is read and turned into the maps of K and J."""
    text = formulas(rng)
    if rng.random() < 0.25:
        at, lost = rng.randint(0, len(text)), rng.randint(0, 2)
        text = text[:at] + "".join(rng.choices(PIECES, k=rng.randint(0, 3))) + text[at + lost :]
    return Call(rng.choice(("read", "read", "read", "maps")), text=text or " ")


def deep(rng: random.Random) -> Call:
    """A formula that the whole engine works on."""
    return Call(rng.choice(sorted(DEEP)), text=formulas(rng))


# ------------------------------------------------------------------------------------------------------ command lines

LINES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "derive": (("derive", "linear"), ("--residual", "--mu", "--norm", "--param", "--latex", "--json")),
    "table": (("table", "linear", "--order", "1"), ("--order", "--mu", "--norm", "--param", "--json", "--output")),
    "law": (
        ("law", "linear", "--sigma-w", "1"),
        ("--quantity", "--correlation", "--sigma-w", "--sigma-b", "--mu", "--json"),
    ),
    "bias": (
        ("bias", "linear", "--sigma-w", "1", "--sigma-b", "0.1"),
        ("--sigma-w", "--sigma-b", "--input-norm", "--correlation", "--norm", "--mu", "--json"),
    ),
    "critical": (("critical", "linear"), ("--sigma-w", "--sigma-b", "--input-norm", "--mu", "--param", "--json")),
    "propagate": (
        ("propagate", "linear", "--sigma-w", "1", "--sigma-b", "0.1", "--depth", "3"),
        ("--sigma-w", "--sigma-b", "--depth", "--input-norm", "--correlation", "--quantities", "--output", "--json"),
    ),
    "widths": (
        ("widths", "relu", "--sigma-w", "1.5", "--sigma-b", "0", "--depth", "9", "--width", "64"),
        ("--sigma-w", "--factor", "--fixed", "--multiple", "--mu", "--norm", "--param", "--json"),
    ),
    "phase-diagram": (
        ("phase-diagram", "linear", "--sigma-w", "0,2,3", "--sigma-b", "0,2,3"),
        ("--sigma-w", "--sigma-b", "--input-norm", "--norm", "--output", "--json"),
    ),
    "check": (
        ("check", "linear", "--sigma-w", "1", "--sigma-b", "0.1", "--width", "8", "--depth", "3", "--networks", "3"),
        ("--quantities", "--sampler", "--probes", "--device", "--seed", "--input-norm", "--correlation", "--json"),
    ),
    "activations": (("activations",), ("--json", "--mu")),
}


def lines(rng: random.Random) -> Call:
    """A command line that works, with words of it replaced, added or left out."""
    base, options = LINES[rng.choice(sorted(LINES))]
    words = list(base)
    for _ in range(rng.randint(1, 2)):
        match rng.randrange(5):
            case 0 if len(words) > 1:
                words[rng.randint(1, len(words) - 1)] = rng.choice(WORDS)
            case 1 if len(words) > 1:
                del words[rng.randint(1, len(words) - 1)]
            case _:
                words += [rng.choice(options), rng.choice(WORDS)]
    files = any(a in ("-o", "--output") and not b.startswith("/") for a, b in zip(words, [*words[1:], ""]))
    return Call("line", line=base if files or not words else tuple(words))


HOSTILE: dict[str, Callable[[random.Random], Call]] = {"verbs": verbs, "texts": texts, "lines": lines, "deep": deep}
