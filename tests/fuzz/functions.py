"""Activations as trees that know their own text, their values and slopes in NumPy and in mpmath, and where they break.

Nothing of meanfield is imported: the text is what the engine is given, the tree is what its answers are compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import mpmath as mp
import numpy as np
from scipy import special

Jet = tuple[Any, Any]  # value and slope


class Floats:
    """Arithmetic of NumPy arrays."""

    exp, tanh, sin, cos, atan, sqrt = np.exp, np.tanh, np.sin, np.cos, np.arctan, np.sqrt
    asinh, erf, sigmoid, abs, expm1 = np.arcsinh, special.erf, special.expit, np.abs, np.expm1
    pi = np.pi

    @staticmethod
    def number(text: str) -> float:
        return float(Fraction(text))

    @staticmethod
    def where(condition: Any, yes: Any, no: Any) -> Any:
        return np.where(condition, yes, no)

    @staticmethod
    def softplus(x: Any) -> Any:
        return np.logaddexp(0, x)


class Digits:
    """Arithmetic of mpmath numbers, at the precision that is set."""

    exp, tanh, sin, cos, atan = (staticmethod(f) for f in (mp.exp, mp.tanh, mp.sin, mp.cos, mp.atan))
    sqrt, asinh, erf, abs, expm1 = (staticmethod(f) for f in (mp.sqrt, mp.asinh, mp.erf, abs, mp.expm1))
    pi = mp.pi

    @staticmethod
    def number(text: str) -> Any:
        exact = Fraction(text)
        return mp.mpf(exact.numerator) / exact.denominator

    @staticmethod
    def where(condition: Any, yes: Any, no: Any) -> Any:
        return yes if condition else no

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + mp.exp(-x))

    @staticmethod
    def softplus(x: Any) -> Any:
        return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


FLOATS, DIGITS = Floats(), Digits()


@dataclass(frozen=True)
class Node:
    """A function of z; `at` stands for z where a side of a break is chosen."""

    def jet(self, z: Any, m: Any, at: Any) -> Jet:
        raise NotImplementedError

    @property
    def text(self) -> str:
        raise NotImplementedError

    def breaks(self) -> dict[str, bool]:
        """Place → whether the function is no smooth function on a side of it."""
        return {}

    def inside(self) -> tuple[Node, ...]:
        return ()

    def all(self) -> list[Node]:
        return [self, *(n for i in self.inside() for n in i.all())]


@dataclass(frozen=True)
class Number(Node):
    value: str

    @property
    def text(self) -> str:
        return self.value if self.value[0] != "-" else f"({self.value})"

    def jet(self, z, m, at):
        return m.number(self.value) + 0 * z, 0 * z


@dataclass(frozen=True)
class Line(Node):
    """slope·z + shift."""

    slope: str = "1"
    shift: str = "0"

    @property
    def text(self) -> str:
        plain = "z" if self.slope == "1" else "-z" if self.slope == "-1" else f"{self.slope}*z"
        if self.shift == "0":
            return plain if self.slope == "1" else f"({plain})"
        return f"({plain}{'' if self.shift[0] == '-' else '+'}{self.shift})"

    def jet(self, z, m, at):
        return m.number(self.slope) * z + m.number(self.shift), m.number(self.slope) + 0 * z


def _elementary(name: str, u: Any, m: Any) -> Jet:
    match name:
        case "tanh":
            v = m.tanh(u)
            return v, (1 - v) * (1 + v)
        case "erf":
            return m.erf(u), 2 / m.sqrt(m.pi) * m.exp(-u * u)
        case "sin":
            return m.sin(u), m.cos(u)
        case "cos":
            return m.cos(u), -m.sin(u)
        case "exp":
            v = m.exp(u)
            return v, v
        case "atan":
            return m.atan(u), 1 / (1 + u * u)
        case "asinh":
            return m.asinh(u), 1 / m.sqrt(1 + u * u)
        case "sigmoid":
            return m.sigmoid(u), m.sigmoid(u) * m.sigmoid(-u)
        case "softplus":
            return m.softplus(u), m.sigmoid(u)
        case "sqrt":
            v = m.sqrt(u)
            return v, 1 / (2 * v)
    raise KeyError(name)


@dataclass(frozen=True)
class Apply(Node):
    """An elementary function of a smooth one."""

    name: str
    of: Node

    @property
    def text(self) -> str:
        inner = self.of.text
        return (
            f"{self.name}{inner}"
            if inner[0] == "(" and inner[-1] == ")" and inner.count("(") == 1
            else (f"{self.name}({inner})")
        )

    def inside(self):
        return (self.of,)

    def breaks(self):
        return self.of.breaks()

    def jet(self, z, m, at):
        u, du = self.of.jet(z, m, at)
        v, dv = _elementary(self.name, u, m)
        return v, dv * du


def _merged(nodes: tuple[Node, ...]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for node in nodes:
        for place, rough in node.breaks().items():
            found[place] = found.get(place, False) or rough
    return found


@dataclass(frozen=True)
class Sum(Node):
    parts: tuple[Node, ...]

    @property
    def text(self) -> str:
        return "+".join(f"({p.text})" if isinstance(p, Choose) else p.text for p in self.parts)

    def inside(self):
        return self.parts

    def breaks(self):
        return _merged(self.parts)

    def jet(self, z, m, at):
        if len(self.parts) == 2 and self.parts[1] == Number("-1") and getattr(self.parts[0], "name", "") == "exp":
            u, du = self.parts[0].of.jet(z, m, at)  # 0 in floats near 0, if it is taken as it stands
            return m.expm1(u), m.exp(u) * du
        v, d = self.parts[0].jet(z, m, at)
        for part in self.parts[1:]:
            w, e = part.jet(z, m, at)
            v, d = v + w, d + e
        return v, d


@dataclass(frozen=True)
class Product(Node):
    parts: tuple[Node, ...]

    @property
    def text(self) -> str:
        return "*".join(f"({p.text})" if isinstance(p, (Sum, Choose)) else p.text for p in self.parts)

    def inside(self):
        return self.parts

    def breaks(self):
        return _merged(self.parts)

    def jet(self, z, m, at):
        if len(self.parts) == 2 and self.parts[1] == Number("-1") and getattr(self.parts[0], "name", "") == "exp":
            u, du = self.parts[0].of.jet(z, m, at)  # 0 in floats near 0, if it is taken as it stands
            return m.expm1(u), m.exp(u) * du
        v, d = self.parts[0].jet(z, m, at)
        for part in self.parts[1:]:
            w, e = part.jet(z, m, at)
            v, d = v * w, d * w + v * e
        return v, d


@dataclass(frozen=True)
class Quotient(Node):
    """above/below, below > 0 everywhere."""

    above: Node
    below: Node

    @property
    def text(self) -> str:
        return f"({self.above.text})/({self.below.text})"

    def inside(self):
        return (self.above, self.below)

    def breaks(self):
        return _merged((self.above, self.below))

    def jet(self, z, m, at):
        (v, d), (w, e) = self.above.jet(z, m, at), self.below.jet(z, m, at)
        return v / w, d / w - v / w * (e / w)


@dataclass(frozen=True)
class Power(Node):
    """A whole power."""

    of: Node
    n: int

    @property
    def text(self) -> str:
        return f"z**{self.n}" if self.of == Line() else f"({self.of.text})**{self.n}"

    def inside(self):
        return (self.of,)

    def breaks(self):
        return self.of.breaks()

    def jet(self, z, m, at):
        u, du = self.of.jet(z, m, at)
        return u**self.n, self.n * u ** (self.n - 1) * du


@dataclass(frozen=True)
class Modulus(Node):
    """|z - place|^power."""

    place: str = "0"
    power: str = "1"

    @property
    def text(self) -> str:
        base = f"abs{Line('1', _minus(self.place)).text}" if self.place != "0" else "abs(z)"
        return (
            base
            if self.power == "1"
            else f"{base}**{self.power}"
            if "/" not in self.power
            else (f"{base}**({self.power})")
        )

    def breaks(self):
        return {self.place: "." in self.power or "/" in self.power}

    def jet(self, z, m, at):
        b, p = m.number(self.place), m.number(self.power)
        side = m.where(at > b, 1, -1)
        u = m.abs(z - b)
        if self.power == "1":
            return u, side + 0 * z
        return u**p, p * m.where(u == 0, 1, u) ** (p - 1) * side * m.where(u == 0, 0, 1)


@dataclass(frozen=True)
class Clip(Node):
    low: str
    high: str

    @property
    def text(self) -> str:
        return f"clip(z,{self.low},{self.high})"

    def breaks(self):
        return {self.low: False, self.high: False}

    def jet(self, z, m, at):
        low, high = m.number(self.low), m.number(self.high)
        v = m.where(at < low, low, m.where(at > high, high, z))
        return v, m.where((at > low) & (at < high) if m is FLOATS else low < at < high, 1.0, 0.0) + 0 * z


@dataclass(frozen=True)
class Ramp(Node):
    """Max(z - place, 0)."""

    place: str = "0"

    @property
    def text(self) -> str:
        return f"Max({Line('1', _minus(self.place)).text.strip('()')},0)"

    def breaks(self):
        return {self.place: False}

    def jet(self, z, m, at):
        b = m.number(self.place)
        return m.where(at > b, z - b, 0 * z), m.where(at > b, 1.0, 0.0) + 0 * z


@dataclass(frozen=True)
class Sign(Node):
    place: str = "0"

    @property
    def text(self) -> str:
        return f"sign({Line('1', _minus(self.place)).text.strip('()')})"

    def breaks(self):
        return {self.place: False}

    def jet(self, z, m, at):
        return m.where(at > m.number(self.place), 1.0, -1.0) + 0 * z, 0 * z


@dataclass(frozen=True)
class Choose(Node):
    """right where z > place, else left."""

    place: str
    right: Node
    left: Node

    @property
    def text(self) -> str:
        return f"({self.right.text}) if z>{self.place} else ({self.left.text})"

    def inside(self):
        return (self.right, self.left)

    def breaks(self):
        return _merged((self.right, self.left)) | {self.place: False}

    def jet(self, z, m, at):
        above = at > m.number(self.place)
        if m is DIGITS:
            return (self.right if above else self.left).jet(z, m, at)
        (v, d), (w, e) = self.right.jet(z, m, at), self.left.jet(z, m, at)
        return np.where(above, v, w), np.where(above, d, e)


def _minus(number: str) -> str:
    return number[1:] if number[0] == "-" else "0" if number == "0" else f"-{number}"


@dataclass(frozen=True)
class Phi:
    """An activation: its tree, how `derive` is told of it, and what follows from the tree alone.

    source: the first argument of `derive`; keywords: parameters of a registered name; family: of the generator.
    """

    tree: Node
    source: str
    family: str
    keywords: tuple[tuple[str, str], ...] = ()

    @property
    def arguments(self) -> str:
        return ", ".join([repr(self.source), *(f"{k}={v!r}" for k, v in self.keywords)])

    @property
    def nonlinearity(self) -> str:
        named = f"mf.activation({self.arguments})" if self.keywords else repr(self.source)
        return f"mf.Nonlinearity({named})"

    @cached_property
    def splits(self) -> list[float]:
        return sorted(float(Fraction(b)) for b in self.tree.breaks())

    @cached_property
    def rough(self) -> list[float]:
        return sorted(float(Fraction(b)) for b, r in self.tree.breaks().items() if r)

    @cached_property
    def steepest(self) -> float:
        """The smallest power < 1 of |z - b| in φ at a b where what multiplies it is not 0; else 1."""
        found = 1.0
        for node in self.tree.all():
            if isinstance(node, Modulus) and Fraction(node.power) < 1:
                b, p = float(Fraction(node.place)), float(Fraction(node.power))
                near = max(abs(float(self(b + t) - self(b))) for t in (-1e-12, 1e-12))
                if near > 0.1 * 1e-12 ** (p + 0.1):
                    found = min(found, p)
        return found

    @cached_property
    def waves(self) -> bool:
        return any(isinstance(n, Apply) and n.name in ("sin", "cos") for n in self.tree.all())

    def jet(self, z: Any) -> Jet:
        z = np.asarray(z, dtype=float)
        with np.errstate(all="ignore"):
            return self.tree.jet(z, FLOATS, z)

    def __call__(self, z: Any) -> Any:
        return self.jet(z)[0]

    def digits(self, z: Any) -> Jet:
        return self.tree.jet(z, DIGITS, z)

    def sides(self, place: float, step: float = 1e-7) -> tuple[Jet, Jet]:
        """(value, slope) to the left and to the right of a break."""
        z = np.array(place)
        with np.errstate(all="ignore"):
            left, right = (self.tree.jet(z, FLOATS, np.array(place + s)) for s in (-step, step))
        return (float(left[0]), float(left[1])), (float(right[0]), float(right[1]))

    @cached_property
    def jumps(self) -> list[tuple[float, float, float]]:
        """(place, value to the left, value to the right) where φ jumps."""
        found = []
        for b in self.splits:
            (left, _), (right, _) = self.sides(b)
            if abs(left - right) > 1e-12 * (abs(left) + abs(right)):
                found.append((b, left, right))
        return found

    @cached_property
    def _grid(self) -> np.ndarray:
        return np.linspace(0.0371, 6.931, 97)

    @cached_property
    def parity(self) -> int:
        """1: even, -1: odd, 0: neither."""
        right, left = self(self._grid), self(-self._grid)
        scale = 1e-12 * (np.abs(right) + np.abs(left) + 1e-300)
        return 1 if (abs(right - left) <= scale).all() else -1 if (abs(right + left) <= scale).all() else 0

    @cached_property
    def size_is_constant(self) -> bool:
        values = np.abs(self(np.concatenate([self._grid, -self._grid])))
        return bool(np.ptp(values) <= 1e-13 * values.max())

    @cached_property
    def pieces_are_constant(self) -> bool:
        return bool((self.jet(np.concatenate([self._grid, -self._grid]))[1] == 0).all())

    @cached_property
    def germ(self) -> tuple[float, float] | None:
        """(a, b) with φ(z) ~ a z for small z > 0 and b z for small z < 0; None where φ(0) ≠ 0 or a slope is 0 or ∞."""
        if 0.0 in self.rough or any(0 < abs(b) < 1e-2 for b in self.splits):
            return None
        (left, below), (right, above) = self.sides(0.0)
        if left != 0 or right != 0 or not np.isfinite([below, above]).all() or (below == 0 and above == 0):
            return None
        if 0.0 not in self.splits and abs(float(self(1e-4)) / 1e-4 - above) > 1e-2 * abs(above):
            return None
        return above, below
