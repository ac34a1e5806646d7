"""Products of powers of the width n and of the number of blocks L: what parametrizations are written in."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from fractions import Fraction

from meanfield.base.arguments import record, shown
from meanfield.base.errors import MeanFieldError

LONGEST = 200  # characters of a formula
LARGEST = 64  # size of an exponent
MOST_BITS = 900  # of a factor, which a double must hold


@record
@dataclass(frozen=True)
class Monomial:
    """coefficient · n^of_width · L^of_depth, all three exact rationals, the coefficient > 0.

    >>> print(Monomial.read("2/(n*sqrt(L))"))
    2/(n*sqrt(L))
    >>> Monomial.read("1/n").of_width, float(Monomial.read("n**(-3/2)").at(4, 1))
    (Fraction(-1, 1), 0.125)
    """

    coefficient: Fraction = Fraction(1)
    of_width: Fraction = Fraction(0)
    of_depth: Fraction = Fraction(0)

    @staticmethod
    def read(given: object, what: str = "A power of the width") -> Monomial:
        """A formula in n and L as it is typed: "1/n", "n**(-3/2)", "1/sqrt(L)", "2/n", 1.

        Raises: MeanFieldError for anything else: floats, other letters, sums, numbers ≤ 0.
        """
        if isinstance(given, Monomial):
            return given
        if isinstance(given, int | Fraction) and not isinstance(given, bool):
            text = str(given)
        elif isinstance(given, str):
            text = given.strip().replace("^", "**")
        else:
            instead = f' ("{Fraction(given).limit_denominator(64)}")' if isinstance(given, float) else ""
            raise _refused(given, what, f"write a formula in n and L as text, with exact fractions{instead}")
        if len(text) > LONGEST:
            raise _refused(given, what, f"at most {LONGEST} characters are read")
        try:
            found = _read(ast.parse(text, mode="eval").body)
        except OverflowError:
            raise _refused(given, what, "its factor has too many digits") from None
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
            raise _refused(given, what, str(error) if type(error) is ValueError else "") from None
        if _digits(found) > MOST_BITS:
            raise _refused(given, what, "its factor has too many digits")
        return found

    def __mul__(self, other: Monomial) -> Monomial:
        return Monomial(
            self.coefficient * other.coefficient, self.of_width + other.of_width, self.of_depth + other.of_depth
        )

    def __truediv__(self, other: Monomial) -> Monomial:
        return self * other**-1

    def __pow__(self, power: int | Fraction) -> Monomial:
        """The power of a monomial; of its coefficient, the nearest fraction where it is irrational."""
        p = Fraction(power)
        return Monomial(_power(self.coefficient, p), self.of_width * p, self.of_depth * p)

    def at(self, width: float, depth: float) -> float:
        """The number for these n and L. Raises: MeanFieldError for one that no double holds."""
        try:
            return float(self.coefficient) * width ** float(self.of_width) * depth ** float(self.of_depth)
        except OverflowError:
            raise MeanFieldError(
                f"The power {self} at n = {width:g} and L = {depth:g} is larger than any double; take a smaller one."
            ) from None

    @property
    def is_one(self) -> bool:
        return self == Monomial()

    def __str__(self) -> str:
        above, below = list[str](), list[str]()
        for name, power in (("n", self.of_width), ("L", self.of_depth)):
            if power:
                (above if power > 0 else below).append(_written(name, abs(power)))
        top, bottom = self.coefficient.numerator, self.coefficient.denominator
        above = [str(top)] * (top != 1) + above or ["1"]
        below = [str(bottom)] * (bottom != 1) + below
        under = "*".join(below)
        return "*".join(above) + (f"/({under})" if len(below) > 1 else f"/{under}" if below else "")

    def latex(self) -> str:
        """As LaTeX for math mode.

        >>> print(Monomial.read("2/(n*sqrt(L))").latex())
        2 \\, n^{-1} L^{-1/2}
        """
        parts = [
            name if power == 1 else f"{name}^{{{power}}}"
            for name, power in (("n", self.of_width), ("L", self.of_depth))
            if power
        ]
        c = self.coefficient
        number = str(c) if c.denominator == 1 else rf"\tfrac{{{c.numerator}}}{{{c.denominator}}}"
        if not parts:
            return number
        return (rf"{number} \, " if c != 1 else "") + " ".join(parts)


def _written(name: str, power: Fraction) -> str:
    if power == 1:
        return name
    if power == Fraction(1, 2):
        return f"sqrt({name})"
    return f"{name}**{power}" if power.denominator == 1 else f"{name}**({power})"


def _refused(given: object, what: str, why: str) -> MeanFieldError:
    hint = why or 'write it like "1/n", "n**(-3/2)" or "1/sqrt(L)"'
    return MeanFieldError(f"{what} is a product of powers of n and L, but {shown(given)} was given: {hint}.")


def _power(number: Fraction, power: Fraction) -> Fraction:
    if power.denominator == 1:
        return number**power.numerator
    return Fraction(float(number) ** float(power)).limit_denominator(10**12)


def _read(node: ast.AST) -> Monomial:
    match node:
        case ast.Constant(value=float() as number):
            raise ValueError(f'write exact fractions, "{Fraction(str(number))}" for {number}')
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            if number <= 0:
                raise ValueError("its factor is a number > 0")
            return Monomial(Fraction(number))
        case ast.Name(id="n"):
            return Monomial(of_width=Fraction(1))
        case ast.Name(id="L"):
            return Monomial(of_depth=Fraction(1))
        case ast.Name(id=name):
            raise ValueError(f"{name} is none of its letters, n (width) and L (blocks)")
        case ast.Call(func=ast.Name(id="sqrt"), args=[inner], keywords=[]):
            return _read(inner) ** Fraction(1, 2)
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return _read(a) * _read(b)
        case ast.BinOp(left=a, op=ast.Div(), right=b):
            return _read(a) / _read(b)
        case ast.BinOp(left=a, op=ast.Pow(), right=b):
            power = _exponent(b)
            if abs(power) > LARGEST:
                raise ValueError(f"exponents are at most {LARGEST}")
            base = _read(a)
            if _digits(base) * abs(power) > MOST_BITS:
                raise ValueError("its factor has too many digits")
            return base**power
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            raise ValueError("a sum is no product")
    raise ValueError("")


def _digits(one: Monomial) -> int:
    """How many binary digits its factor has, less one."""
    return max(one.coefficient.numerator, one.coefficient.denominator).bit_length() - 1


def _exponent(node: ast.AST) -> Fraction:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return Fraction(number)
        case ast.Constant(value=float() as number):
            raise ValueError(f'write exact fractions, "{Fraction(str(number))}" for {number}')
        case ast.UnaryOp(op=ast.USub(), operand=one):
            return -_exponent(one)
        case ast.BinOp(left=a, op=ast.Div(), right=b):
            return _exponent(a) / _exponent(b)
    raise ValueError("an exponent is a fraction")
