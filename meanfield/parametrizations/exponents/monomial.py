"""Products of powers of the width n and of the number of blocks L: what parametrizations are written in."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import sympy as sp

from meanfield.base.arguments import record, shown
from meanfield.base.errors import MeanFieldError

LONGEST = 200  # characters of a formula
LARGEST = 64  # size of an exponent
MOST_BITS = 900  # of a factor, which a double must hold
LONGEST_POWER = 1 << 16  # bits of the rational number that a product takes a root of


@record
@dataclass(frozen=True)
class Monomial:
    """coefficient^(1/root) · n^of_width · L^of_depth, where the coefficient > 0 and the exponents are exact rationals.

    `root` is the least whole number ≥ 1 with which the coefficient is rational: equal monomials are equal records.

    >>> print(Monomial.read("2/(n*sqrt(L))"))
    2/(n*sqrt(L))
    >>> Monomial.read("1/n").of_width, float(Monomial.read("n**(-3/2)").at(4, 1))
    (Fraction(-1, 1), 0.125)
    >>> print(Monomial.read("sqrt(8)/n") * Monomial.read("sqrt(2)"))
    4/n
    """

    coefficient: Fraction = Fraction(1)
    of_width: Fraction = Fraction(0)
    of_depth: Fraction = Fraction(0)
    root: int = 1

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
            instead = ""
            if isinstance(given, float) and math.isfinite(given):
                instead = f' ("{Fraction(given).limit_denominator(64)}")'
            raise _refused(given, what, f"write a formula in n and L as text, with exact fractions{instead}")
        if len(text) > LONGEST:
            raise _refused(given, what, f"at most {LONGEST} characters are read")
        try:
            found = _read(ast.parse(text, mode="eval").body)
        except OverflowError:
            raise _refused(given, what, "its factor has too many digits") from None
        except MeanFieldError as error:
            raise _refused(given, what, str(error).rstrip(".")) from None
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
            raise _refused(given, what, str(error) if type(error) is ValueError else "") from None
        if _digits(found) > MOST_BITS:
            raise _refused(given, what, "its factor has too many digits")
        return found

    def __mul__(self, other: Monomial) -> Monomial:
        root = math.lcm(self.root, other.root)
        coefficient = _raised(self.coefficient, root // self.root) * _raised(other.coefficient, root // other.root)
        return Monomial._reduced(coefficient, root, self.of_width + other.of_width, self.of_depth + other.of_depth)

    def __truediv__(self, other: Monomial) -> Monomial:
        return self * other**-1

    def __pow__(self, power: int | Fraction) -> Monomial:
        p = Fraction(power)
        coefficient = _raised(self.coefficient, p.numerator)
        return Monomial._reduced(coefficient, self.root * p.denominator, self.of_width * p, self.of_depth * p)

    @staticmethod
    def _reduced(coefficient: Fraction, root: int, of_width: Fraction, of_depth: Fraction) -> Monomial:
        """coefficient^(1/root) n^of_width L^of_depth with the least root."""
        for prime in sp.factorint(root, multiple=True) if coefficient != 1 else ():
            (top, whole), (bottom, also) = (
                sp.integer_nthroot(part, prime) for part in (coefficient.numerator, coefficient.denominator)
            )
            if whole and also:
                coefficient, root = Fraction(top, bottom), root // prime
        return Monomial(coefficient, of_width, of_depth, root if coefficient != 1 else 1)

    def at(self, width: float, depth: float) -> float:
        """The number for these n and L. Raises: MeanFieldError for one that no double holds."""
        try:
            return self._number() * width ** float(self.of_width) * depth ** float(self.of_depth)
        except OverflowError:
            raise MeanFieldError(
                f"The power {self} at n = {width:g} and L = {depth:g} is larger than any double; take a smaller one."
            ) from None

    def _number(self) -> float:
        top, bottom = self.coefficient.numerator, self.coefficient.denominator
        return float(mpmath.root(mpmath.mpf(top) / bottom, self.root)) if self.root > 1 else top / bottom

    @property
    def is_one(self) -> bool:
        return self == Monomial()

    def __str__(self) -> str:
        above, below = list[str](), list[str]()
        for name, power in (("n", self.of_width), ("L", self.of_depth)):
            if power:
                (above if power > 0 else below).append(_written(name, abs(power)))
        above = self._factors(self.coefficient.numerator) + above or ["1"]
        below = self._factors(self.coefficient.denominator) + below
        under = "*".join(below)
        return "*".join(above) + (f"/({under})" if len(below) > 1 else f"/{under}" if below else "")

    def _factors(self, number: int) -> list[str]:
        """The factors of a root of a whole number."""
        return [sp.sstr(one) for one in sp.Mul.make_args(self._root(number)) if one != 1]

    def _root(self, number: int) -> sp.Expr:
        return sp.Integer(number) ** sp.Rational(1, self.root)

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
        top, bottom = (sp.latex(self._root(part)) for part in (c.numerator, c.denominator))
        number = top if c.denominator == 1 else rf"\tfrac{{{top}}}{{{bottom}}}"
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


def _raised(number: Fraction, power: int) -> Fraction:
    if power == 1:
        return number
    if abs(power) * max(number.numerator, number.denominator).bit_length() > LONGEST_POWER:
        factor = f"the factor {shown(str(number))} to the power {power}"
        raise MeanFieldError(f"{factor} has too many digits; take a simpler one.")
    return number**power


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
    return (max(one.coefficient.numerator, one.coefficient.denominator).bit_length() - 1) // one.root


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
