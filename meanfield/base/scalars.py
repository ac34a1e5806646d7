"""The functions that a formula may call, as finite networks run them: texts of h, h′, h″, h‴. No SymPy.

What the theory knows of the same functions stands in `functions/elementary`, written apart: a network that read that
record would repeat its mistakes. A test compares the two. `ARGUMENTS` says what may be called at all, and with how
many arguments.
"""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


@dataclass(frozen=True)
class Scalar:
    """A function h(u) of one number, as Python text for `math` and Numba.

    texts: h, h′, h″, h‴ at {u}, where {v0}, {v1}, {v2} stand for those before. helpers: definitions of functions that
    the texts call, beyond `math`. switches: whether h has a kink or jumps (then h″ and h‴ hold no delta function).
    steep: whether h′ is infinite somewhere.
    """

    texts: tuple[str, str, str, str]
    helpers: str = ""
    switches: bool = False
    steep: bool = False


_SIGN = "(1.0 if {u} > 0.0 else -1.0 if {u} < 0.0 else 0.0)"
_LOGISTIC = """
def logistic(x):
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)
"""
_SOFT = """
def soft(x):
    return (x if x > 0.0 else 0.0) + math.log1p(math.exp(-abs(x)))
"""
_EXPONENTIAL = """
def exponential(x):
    return math.exp(x) if x < 709.7 else math.inf
"""
_SECH = """
def sech(x):
    e = math.exp(-abs(x))
    return 2.0 * e / (1.0 + e * e)
"""

_BY_NAME: dict[str, Scalar] = {
    "exp": Scalar(("exponential({u})", "{v0}", "{v0}", "{v0}"), _EXPONENTIAL),
    "log": Scalar(("math.log({u})", "1.0 / {u}", "-{v1} * {v1}", "-2.0 * {v1} * {v2}")),
    "sqrt": Scalar(("math.sqrt({u})", "0.5 / {v0}", "-0.5 * {v1} / {u}", "-1.5 * {v2} / {u}"), steep=True),
    "erf": Scalar((
        "math.erf({u})",
        f"{_TWO_OVER_SQRT_PI!r} * math.exp(-{{u}} * {{u}})",
        "-2.0 * {u} * {v1}",
        "(4.0 * {u} * {u} - 2.0) * {v1}",
    )),
    "erfc": Scalar((
        "math.erfc({u})",
        f"-{_TWO_OVER_SQRT_PI!r} * math.exp(-{{u}} * {{u}})",
        "-2.0 * {u} * {v1}",
        "(4.0 * {u} * {u} - 2.0) * {v1}",
    )),
    "tanh": Scalar(
        ("math.tanh({u})", "sech({u}) ** 2", "-2.0 * {v0} * {v1}", "(6.0 * {v0} * {v0} - 2.0) * {v1}"), _SECH
    ),
    "sech": Scalar(
        (
            "sech({u})",
            "-math.tanh({u}) * {v0}",
            "{v0} * (1.0 - 2.0 * {v0} * {v0})",
            "{v1} * (1.0 - 6.0 * {v0} * {v0})",
        ),
        _SECH,
    ),
    "sinh": Scalar(("math.sinh({u})", "math.cosh({u})", "{v0}", "{v1}")),
    "cosh": Scalar(("math.cosh({u})", "math.sinh({u})", "{v0}", "{v1}")),
    "sin": Scalar(("math.sin({u})", "math.cos({u})", "-{v0}", "-{v1}")),
    "cos": Scalar(("math.cos({u})", "-math.sin({u})", "-{v0}", "-{v1}")),
    "tan": Scalar(  # in SymPy expressions alone
        ("math.tan({u})", "1.0 + {v0} * {v0}", "2.0 * {v0} * {v1}", "2.0 * ({v1} * {v1} + {v0} * {v2})")
    ),
    "atan": Scalar((
        "math.atan({u})",
        "1.0 / (1.0 + {u} * {u})",
        "-2.0 * {u} * {v1} * {v1}",
        "(8.0 * {u} * {u} * {v1} - 2.0) * {v1} * {v1}",
    )),
    "asinh": Scalar((
        "math.asinh({u})",
        "1.0 / math.sqrt(1.0 + {u} * {u})",
        "-{u} * {v1} ** 3",
        "(3.0 * {u} * {u} * {v1} * {v1} - 1.0) * {v1} ** 3",
    )),
    "sigmoid": Scalar(
        (
            "logistic({u})",
            "{v0} * logistic(-{u})",
            "-math.tanh(0.5 * {u}) * {v1}",
            "(1.5 * math.tanh(0.5 * {u}) ** 2 - 0.5) * {v1}",
        ),
        _LOGISTIC,
    ),
    "softplus": Scalar(
        ("soft({u})", "logistic({u})", "{v1} * logistic(-{u})", "-math.tanh(0.5 * {u}) * {v2}"), _SOFT + _LOGISTIC
    ),
    "abs": Scalar(("abs({u})", _SIGN, "0.0", "0.0"), switches=True),
    "sign": Scalar((_SIGN, "0.0", "0.0", "0.0"), switches=True),
    "step": Scalar(("(1.0 if {u} > 0.0 else 0.5 if {u} == 0.0 else 0.0)", "0.0", "0.0", "0.0"), switches=True),
}
_OTHER_NAMES = {"arctan": "atan", "Abs": "abs", "Heaviside": "step"}
SCALARS: dict[str, Scalar] = _BY_NAME | {other: _BY_NAME[name] for other, name in _OTHER_NAMES.items()}

#: what switches between its arguments, and how many those are (None: one or more)
CHOICES: Mapping[str, int | None] = {
    **dict.fromkeys(("max", "Max", "min", "Min"), None),
    "relu": 1,
    "clip": 3,
}
_ONE: dict[str, int | None] = {name: 1 for name in SCALARS if name != "tan"}
#: name → how many arguments, None for one or more: the functions of formulas
ARGUMENTS: Mapping[str, int | None] = ChainMap(_ONE, dict(CHOICES))


def known(name: str) -> bool:
    """Whether a formula may call it."""
    return name in ARGUMENTS


def add(name: str, scalar: Scalar) -> None:
    """Make a function known under a name of formulas (`elementary.add` does, for the theory, too)."""
    SCALARS[name] = scalar
    _ONE[name] = 1


def remove(name: str) -> None:
    """Take back what `add` did."""
    del SCALARS[name], _ONE[name]


def number_of(name: str, u: float) -> float:
    """h(u). Raises: ValueError, OverflowError where it is not real or too large."""
    return _compiled(SCALARS[name])(u)


@lru_cache(maxsize=64)
def _compiled(scalar: Scalar) -> Callable[[float], float]:
    scope: dict[str, Any] = {"math": math}
    text = f"return {scalar.texts[0].format(u='u')}"
    exec(f"{helpers(text, scalar)}\ndef f(u):\n    {text}", scope)  # the scalar's own text
    compiled: Callable[[float], float] = scope["f"]
    return compiled


def helpers(text: str, *more: Scalar) -> str:
    """The definitions that a text of functions calls, each once; `more` are scalars that are not in `SCALARS`."""
    scalars = (*SCALARS.values(), *more)
    every = dict.fromkeys(piece for s in scalars for piece in s.helpers.split("\ndef ")[1:])
    wanted: list[str] = []
    while fresh := [p for p in every if p not in wanted and re.search(rf"\b{p[: p.index('(')]}\(", text)]:
        wanted += fresh  # one helper may call another
        text += "".join(fresh)
    return "".join(f"\ndef {piece.rstrip()}\n" for piece in wanted)
