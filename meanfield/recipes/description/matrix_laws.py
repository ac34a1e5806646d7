"""The laws that initializers draw matrices by, as data: which distribution, its parameter as a formula in the sizes of
the network, where it is cut, and by what the forward pass multiplies."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, record, shown
from meanfield.networks.records import Constant, Number, Param, exact

SHAPES = ("normal", "uniform", "truncated", "orthogonal")
#: what the letters of a formula stand for
SIZES = {
    "n": "fan-in", "m": "fan-out", "d": "width", "f": "hidden neurons of the feed-forward branch",
    "h": "key dimension", "H": "heads", "L": "blocks", "l": "number of the block, from 1", "T": "context",
    "V": "vocabulary", "s": "base deviation of the configuration",
}  # fmt: skip
_LETTER = re.compile(r"(?<![A-Za-z_0-9.])([A-Za-z])(?![A-Za-z_0-9(])")


def with_sizes(text: str, sizes: Mapping[str, object]) -> str:
    """A formula with these sizes in the places of their letters."""

    def put(found: re.Match[str]) -> str:
        name = found.group(1)
        if sizes.get(name) is None:
            hint = "; give vocabulary=" if name in "mV" else ""
            raise MeanFieldError(
                f"The law {text} needs {SIZES.get(name, 'a size')} ({name}), which was not given{hint}."
            )
        return str(sizes[name])

    return _LETTER.sub(put, text)


@record
@dataclass(frozen=True)
class Law:
    """How the entries of a matrix are drawn: independently, with mean 0.

    deviation: the parameter that the initializer is given, a formula in the sizes of the network (`SIZES`: n fan-in, m
    fan-out, d width, L blocks, l the number of the block, …): a standard deviation, or the end of a uniform interval.
    shape: "normal"; "uniform" on ±deviation; "truncated": normal, cut at ±cut deviations, or with absolute=True at
    ±cut, and with corrected=True divided by what cutting takes from the deviation; "orthogonal": deviation times an
    orthogonal matrix of entries of variance 1/max(n, m). multiplier: what the forward pass multiplies the matrix by.

    >>> truncated(".02").true_deviation({})
    0.017592513220684797
    >>> normal(".02/sqrt(2*L)").written({"L": 12})
    '.02/sqrt(2*12)'
    """

    deviation: str
    shape: str = "normal"
    cut: float = 2.0
    absolute: bool = False
    corrected: bool = False
    multiplier: str = "1"

    def __post_init__(self) -> None:
        choice(self.shape, "shape", SHAPES)
        for name in ("deviation", "multiplier"):
            given: object = getattr(self, name)
            text = str(given).strip()
            unknown = sorted(set(_LETTER.findall(text)) - set(SIZES))
            if unknown:
                raise MeanFieldError(
                    f"The {name} of a law was to be {shown(given)}, but {unknown[0]} stands for nothing there; the "
                    f"letters are {', '.join(f'{k} ({v})' for k, v in SIZES.items())}."
                )
            object.__setattr__(self, name, text)
            number = exact(with_sizes(text, dict.fromkeys(SIZES, 3)), f"The {name} of a law")
            if isinstance(number, Param) or not math.isfinite(float(number)):
                raise MeanFieldError(
                    f"The {name} of a law is a formula in the sizes ({', '.join(SIZES)}), but {shown(given)} was given."
                )
        given = self.cut
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < math.inf:
            raise MeanFieldError(f"A law is cut at a number > 0 of deviations, but {shown(given)} was given.")

    def holds(self, letter: str) -> bool:
        """Whether the law depends on this size."""
        return letter in _LETTER.findall(f"{self.deviation} {self.multiplier}")

    def written(self, sizes: Mapping[str, object]) -> str:
        """The parameter with these sizes in their places, as text."""
        return with_sizes(self.deviation, sizes)

    def based_on(self, std: str) -> Law:
        """The law with the base deviation s of a configuration as a number.

        >>> str(normal("s/sqrt(2*L)").based_on(".02"))
        'normal, .02/sqrt(2*L)'
        """

        def put(found: re.Match[str]) -> str:
            return std if found.group(1) == "s" else found.group(1)

        deviation, multiplier = (_LETTER.sub(put, text) for text in (self.deviation, self.multiplier))
        return replace(self, deviation=deviation, multiplier=multiplier)

    def true_deviation(self, sizes: Mapping[str, object]) -> float:
        """The standard deviation of an entry, as the forward pass has it."""
        return float(self.number(sizes))  # type: ignore[arg-type]

    def number(self, sizes: Mapping[str, object], factor: str = "1") -> Number:
        """`factor` times the standard deviation of an entry as the forward pass has it, as an exact number where it is
        one."""
        given = self.written(sizes)
        text = f"({given})*({with_sizes(self.multiplier, sizes)})*({with_sizes(factor, sizes)})"
        if self.shape == "uniform":
            text += "/sqrt(3)"
        if self.shape == "orthogonal":
            n, m = (float(with_sizes(letter, sizes)) for letter in "nm")
            text += f"/sqrt({max(n, m)!r})"
        if self.shape == "truncated" and not self.corrected:
            size = float(exact(given, "The deviation of a law"))  # type: ignore[arg-type]
            share = cut_deviation(self.cut / size if self.absolute and size > 0 else self.cut)
            if share != 1.0:
                text += f"*{share!r}"
        number = exact(text, "The deviation of a law")
        if float(number) < 0:  # type: ignore[arg-type]
            raise MeanFieldError(f"The law {self.deviation} is {float(number):g} here, and a deviation is ≥ 0.")  # type: ignore
        return number

    def power(self, sizes: Mapping[str, object]) -> Number:
        """p where the deviation goes as l^−p/2 with the number l of the block, as a `Schedule` has it."""
        if not self.holds("l"):
            return 0
        one, two, three = (self.true_deviation({**sizes, "l": at}) for at in (1, 2, 3))
        if not one > 0 or not 0 < two <= one:
            raise MeanFieldError(
                f"The law {self.deviation} was asked for in blocks l = 1, 2, …, where deviations may fall as a power "
                "of l, and neither grow nor vanish."
            )
        power = round(-2 * math.log2(two / one) * 12) / 12
        if abs(three / one * 3 ** (power / 2) - 1) > 1e-9:
            raise MeanFieldError(f"The law {self.deviation} is no power of the number l of the block.")
        return exact(power, "The power of a law")

    def __str__(self) -> str:
        cut = f" cut at ±{self.cut:g}" + ("" if self.absolute else " deviations") + ", corrected" * self.corrected
        made = {
            "normal": f"normal, {self.deviation}",
            "uniform": f"uniform on ±{self.deviation}",
            "truncated": f"normal, {self.deviation},{cut}",
            "orthogonal": f"orthogonal × {self.deviation}",
        }[self.shape]
        return made + ("" if self.multiplier == "1" else f"; × {self.multiplier} in the forward pass")


@cache
def cut_deviation(k: float) -> float:
    """The standard deviation of a standard normal that is cut at ±k: √(1 − 2kφ(k)/(2Φ(k) − 1)).

    >>> cut_deviation(2.0)
    0.8796256610342398
    """
    if k < 1e-3:
        return k / math.sqrt(3)
    inside = math.erf(k / math.sqrt(2))
    return math.sqrt(1 - 2 * k * math.exp(-k * k / 2) / math.sqrt(2 * math.pi) / inside)


def normal(deviation: object, multiplier: str = "1") -> Law:
    """Normal entries of this standard deviation.

    >>> normal("1/sqrt(n)").true_deviation({"n": 64})
    0.125
    """
    return Law(_text(deviation), multiplier=multiplier)


def uniform(bound: object, multiplier: str = "1") -> Law:
    """Entries uniform on ±bound: of standard deviation bound/√3.

    >>> uniform("sqrt(3)").true_deviation({})
    1.0
    """
    return Law(_text(bound), "uniform", multiplier=multiplier)


def truncated(deviation: object, cut: float = 2.0, corrected: bool = False, multiplier: str = "1") -> Law:
    """Normal entries that are cut at ±cut deviations: of .8796 times that deviation for 2, unless corrected.

    >>> truncated("1/sqrt(n)", corrected=True).true_deviation({"n": 64})
    0.125
    """
    return Law(_text(deviation), "truncated", cut, corrected=corrected, multiplier=multiplier)


def trunc_normal_(deviation: object) -> Law:
    """As torch.nn.init.trunc_normal_(std=deviation) draws: cut at ±2, not at two deviations.

    >>> trunc_normal_(".02").true_deviation({})
    0.02
    """
    return Law(_text(deviation), "truncated", 2.0, absolute=True)


def xavier_uniform(gain: object = 1, n: str = "n", m: str = "m") -> Law:
    """Uniform entries of variance gain² 2/(fan-in + fan-out).

    n, m: what stands for the two, as m="3*m" where queries, keys and values are one matrix.

    >>> xavier_uniform().true_deviation({"n": 1, "m": 1})
    1.0
    """
    return Law(f"{_times(gain)}sqrt(6/({n}+{m}))", "uniform")


def xavier_normal(gain: object = 1) -> Law:
    """Normal entries of variance gain² 2/(fan-in + fan-out).

    >>> xavier_normal().true_deviation({"n": 1, "m": 7})
    0.5
    """
    return Law(f"{_times(gain)}sqrt(2/(n+m))")


def kaiming_uniform() -> Law:
    """As torch.nn.init.kaiming_uniform_(a=√5) draws, the default of a Linear: uniform on ±1/√fan-in.

    >>> kaiming_uniform().written({"n": 64})
    '1/sqrt(64)'
    """
    return Law("1/sqrt(n)", "uniform")


def orthogonal(gain: object = 1) -> Law:
    """gain times a matrix with orthogonal rows or columns.

    >>> orthogonal().true_deviation({"n": 16, "m": 4})
    0.25
    """
    return Law(_text(gain), "orthogonal")


def zeros() -> Law:
    """Zeros.

    >>> zeros().true_deviation({})
    0.0
    """
    return Law("0")


def law_of(given: object, what: str) -> Law:
    """A law: as it is, or the standard deviation of normal entries."""
    if isinstance(given, Law):
        return given
    number = given if isinstance(given, str) else exact(given, what)
    if isinstance(number, Constant | str) or hasattr(number, "numerator"):
        return normal(number)
    raise MeanFieldError(
        f"{what} is a law, such as recipes.truncated('.02'), or the standard deviation of normal entries, but "
        f"{shown(given)} was given."
    )


def _times(gain: object) -> str:
    return "" if gain == 1 else f"{gain}*"


def _text(value: object) -> str:
    return value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)
