"""What a caller may hand over by mistake or on purpose: values of every wrong type, size and shape."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import sympy as sp

from meanfield import Dense, Param, Residual, Sequential
from meanfield.networks import mlp


class Unprintable:
    """An object whose own text raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def nested(depth: int):
    """A block inside a block, `depth` times."""
    block = mlp("tanh")
    for _ in range(depth):
        block = Sequential((block,))
    return block


VALUES = {
    "None": None,
    "True": True,
    "False": False,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": -float("inf"),
    "-1": -1,
    "-0.5": -0.5,
    "-0.0": -0.0,
    "0": 0,
    "1": 1,
    "2": 2,
    "0.5": 0.5,
    "1.5": 1.5,
    "1e308": 1e308,
    "5e-324": 5e-324,
    "1e-200": 1e-200,
    "10**400": 10**400,
    "10**18": 10**18,
    "2**63": 2**63,
    "10**5000": 10**5000,
    "1j": 1j,
    "complex128": np.complex128(1 + 1j),
    "float64": np.float64(0.7),
    "int64": np.int64(3),
    "float32 nan": np.float32("nan"),
    "bool_": np.bool_(True),
    "Fraction": Fraction(1, 3),
    "Decimal": Decimal("0.1"),
    "Decimal nan": Decimal("NaN"),
    "Decimal huge": Decimal("1e999999"),
    "text 64": "64",
    "text empty": "",
    "text blank": "  ",
    "text abc": "abc",
    "text sqrt": "sqrt(2)",
    "text 1e400": "1e400",
    "text 1e999999999": "1e999999999",
    "text nan": "nan",
    "text 1/0": "1/0",
    "text z": "z",
    "text zero byte": "a\0b",
    "text surrogate": "\ud800",
    "text long": "z+" * 4000 + "z",
    "text digits": "9" * 3000,
    "text name": "mu",
    "text K": "K",
    "text Theta": "Theta",
    "text lazy": "lazy",
    "bytes": b"tanh",
    "empty list": [],
    "empty tuple": (),
    "empty dict": {},
    "set": {"K", "J"},
    "list of lists": [[1, 2], [3]],
    "list of text": ["a", "b"],
    "list of None": [None],
    "numbers": [0.5, 1.0],
    "three": (0.0, 1.0, 3),
    "three nan": (0.0, 2.0, float("nan")),
    "three inf": (0.0, float("inf"), 3),
    "three huge": (0.0, 2.0, 10**9),
    "three text": ("a", "b", "c"),
    "names": ("K", "J"),
    "array": np.array([0.5, 1.0]),
    "array nan": np.array([np.nan]),
    "array complex": np.array([1j, 2]),
    "array bool": np.array([True, False]),
    "array text": np.array(["a", "b"]),
    "array object": np.array([None, 1], dtype=object),
    "array empty": np.array([]),
    "array cube": np.ones((2, 2, 2)),
    "array dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "array negative": np.array([-1.0, 1.0]),
    "sp.I": sp.I,
    "sp.oo": sp.oo,
    "sp.nan": sp.nan,
    "sp.zoo": sp.zoo,
    "sp.sqrt": sp.sqrt(2),
    "sp.Symbol": sp.Symbol("q"),
    "sp.z": sp.Symbol("z", real=True),
    "sp.true": sp.true,
    "sp.Tuple": sp.Tuple(1, 2),
    "sp.Matrix": sp.Matrix([1, 2]),
    "sp.Eq": sp.Eq(sp.Symbol("q"), 1, evaluate=False),
    "sp.huge": sp.Integer(10) ** 400,
    "sp.Float": sp.Float("0.3"),
    "object": object(),
    "unprintable": Unprintable(),
    "class": int,
    "function": len,
    "range": range(3),
    "block": mlp("tanh"),
    "block Dense": Dense(),
    "block alone": Residual(Dense(), 1),
    "block nested": nested(400),
    "Param": Param("mu"),
}
KEYWORDS = ("sigma_W", "sigma", "widht", "weigths", "Depth", "nrom", "quantites", "alpha", "mu", "self", "block", "x")
WORDS = (
    *("-1", "0", "1", "2", "0.5", "nan", "inf", "-inf", "1e400", "1e-400", "1e999999999", "abc", "1/0", "sqrt(-1)"),
    *("sqrt(2)", "9**9**9", "1j", "True", "None", "0,3,3", "0,3,nan", "3,0,3", "0,3,1e9", "K", "Theta", "K,J", "K,,"),
    *("c", "mu", "z", "sigma_w", "lazy", "cuda", "pre", "none", "alpha=0.2", "alpha", "=", "a=b=c", "--help", "--json"),
    *("-o", "/nonexistent/x.png", "x.exe", "10000000000000", "-5", "½", "１", "--", "-", "'", "\\"),
    *("", " ", "\x07", "é" * 50, "9" * 400),
)
