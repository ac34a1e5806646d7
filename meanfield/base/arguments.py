"""The one place that checks what a caller hands over: names of keywords, numbers, counts, choices, names.

Every refusal is a `MeanFieldError`: one sentence with what was asked for, what was found, and what to do. Nothing here
imports NumPy; arrays are known by what they offer (`dtype`, `shape`, `tolist`).
"""

from __future__ import annotations

import functools
import inspect
import keyword
import math
import operator
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from meanfield.base.budgets import deadline
from meanfield.base.errors import MeanFieldError, lacking
from meanfield.base.progress import saying
from meanfield.base.words import ARGUMENTS, unknown
from meanfield.base.words import guess as guess
from meanfield.base.words import meant as meant
from meanfield.base.words import printable as printable
from meanfield.base.words import shown as shown

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
LARGEST, SMALLEST = 1e150, 1e-150  # of a number a theory is asked at: its square is still a double
_UNDECIDED = ("truth value of Relational", "Invalid comparison of non-real", "Invalid NaN comparison")  # SymPy's words


def validated(function: F) -> F:
    """`function`, a public verb, whose refusals are sentences.

    Arguments that do not fit the signature, too little memory or stack, a formula that outlasts the time limit, a
    numeric library that is not installed, and a comparison that SymPy cannot decide raise `MeanFieldError`. Every other
    TypeError from inside passes unchanged: it is an error of this library, not of the call.
    """

    name = _name(function)

    @functools.wraps(function)
    def verb(*args: Any, **settings: Any) -> Any:
        try:
            with deadline(), saying(name):
                return function(*args, **settings)
        except TypeError as error:
            fits(function, args, settings)
            if not any(words in str(error) for words in _UNDECIDED):
                raise
            raise MeanFieldError(
                f"{_name(function)} met a comparison that cannot be decided, because it holds symbols or averages, or "
                "is not of real numbers; give numbers for the parameters, or another formula."
            ) from error
        except NotImplementedError as error:  # SymPy's word for what it has no algorithm for
            raise MeanFieldError(
                f"{_name(function)} met something that there is no rule for ({error}); take a simpler formula."
            ) from error
        except RecursionError:
            raise MeanFieldError(
                f"{_name(function)} was asked for something nested too deeply; take a simpler formula or architecture."
            ) from None
        except MemoryError:
            raise MeanFieldError(
                f"There is not enough memory for this call of {_name(function)}; ask for fewer layers, points, neurons "
                "or networks."
            ) from None
        except ModuleNotFoundError as error:
            raise lacking(name, error) from None

    return verb  # type: ignore[return-value]


def record(cls: C) -> C:
    """A class whose construction is a public verb: arguments that do not fit raise MeanFieldError."""
    cls.__init__ = validated(cls.__init__)  # type: ignore[misc]
    return cls


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def fits(function: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> None:
    """Refuse arguments that the signature has no place for, or that it lacks."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **settings)
        return
    except TypeError as error:
        problem = str(error)
    names = [n for n in signature.parameters if n != "self"]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    positional = [n for n in names if signature.parameters[n].kind in _POSITIONAL]
    given = len(args) - ("self" in signature.parameters)
    varying = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    for name in settings:
        if name in positional[:given] and not varying:
            hint = guess(name, [n for n in (*names, *ARGUMENTS) if n not in positional and n not in settings])
            raise MeanFieldError(
                f"{_name(function)} has {name} already, as what stands first; leave {name}= out.{hint}"
            ) from None
    if given > len(positional) and not varying:
        named = [n for n in names if signature.parameters[n].kind is inspect.Parameter.KEYWORD_ONLY][:4]
        first = f"takes {', '.join(positional)} by position alone" if positional else "takes nothing by position"
        others = f"; name the others: {', '.join(f'{n}=' for n in named)} …" if named else "."
        raise MeanFieldError(
            f"{_name(function)} {first}, but {given} {'was' if given == 1 else 'were'} given{others}"
        ) from None
    for extra in (k for k in settings if k not in names):
        hint = meant(extra, [n for n in names if n not in settings])
        if not open_ended or "mean" in hint:
            raise MeanFieldError(f"{_name(function)} takes no argument {shown(extra)}.{hint}") from None
    raise MeanFieldError(f"{_name(function)} was called with arguments that do not fit: {problem}.") from None


def _name(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__").rsplit(".", 1)[-1]


def flag(value: object, what: str) -> bool:
    """True or False, and nothing that is merely true or false."""
    if isinstance(value, bool) or type(value).__name__ == "bool":  # NumPy's own is called bool too
        return bool(value)
    raise MeanFieldError(f"{what} must be True or False, but {shown(value)} was given.")


#: what nobody calls a symbol: texts that spell a truth value, a number or nothing
_SPELLED = """
true false yes no on off none null nothing nan inf infinity infinite oo auto default
zero one two three four five six seven eight nine ten half third quarter tenth
"""
WORDS = frozenset(_SPELLED.split())


def name_of(value: object, what: str) -> str:
    """The name of a symbol: an identifier that spells neither a truth value nor a number ("False", "half")."""
    text = value.strip() if isinstance(value, str) else ""
    if not text.isidentifier() or keyword.iskeyword(text) or text.lower() in WORDS:
        raise MeanFieldError(
            f"{what} was to be {shown(value)}, which is no finite number, and no name of a symbol either; give a "
            "number such as 0.5 or '1/2', or a name such as 'mu'."
        )
    return text


def count_of(value: Any) -> Any:
    """A text that spells a whole number ("64", as on the command line) as that number; anything else as it is."""
    if isinstance(value, str) and len(value) <= 40 and re.fullmatch(r"\s*[-+]?\d+\s*", value):
        return int(value)
    return value


def position_of(layer: object, held: Any) -> int:
    """Where a run holds a layer. held: the layers that it holds, an array of them."""
    try:
        index = None if type(layer).__name__ == "bool" else operator.index(count_of(layer))
    except TypeError:
        index = None
    for at, one in enumerate(held):
        if one == index:
            return at
    raise MeanFieldError(f"Layer {shown(layer)} is not available: this run holds layers {held[0]} to {held[-1]}.")


def whole(value: object, what: str, lowest: int, highest: int) -> int:
    """An integer of [lowest, highest], a Python or NumPy one or a text of its digits; truth values and decimals are
    refused."""
    given, value = value, count_of(value)
    try:
        if isinstance(value, (bool, str)) or type(value).__name__ == "bool":
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not lowest <= number <= highest:
        raise MeanFieldError(f"{what} must be a whole number from {lowest} to {highest}, but {shown(given)} was given.")
    return number


def scalar(value: Any, what: str) -> Any:
    """`value` if it can be one real number: not a truth value, None, a container, complex, nan or infinite.

    A number (any type with a float), a text, or a SymPy expression comes back as it is, but for SymPy's 0.0, which is
    0; who reads a text refuses it where it spells no number.
    """
    if isinstance(value, str):
        if len(value) > 600:
            raise MeanFieldError(f"{what} must be a number, but a text of {len(value)} characters was given.")
        exponent = re.fullmatch(r"\s*[-+]?[\d_.]+[eE]([-+]?\d+)\s*", value)
        if exponent and not abs(int(exponent[1][:9])) <= 150:
            raise MeanFieldError(
                f"{what} must be 0 or of a size from 1e-150 to 1e150, but {shown(value)} was given; rescale it."
            )
        return value
    if hasattr(value, "free_symbols"):  # SymPy's; symbols are for the caller to judge
        if not hasattr(value, "is_comparable") or not hasattr(value, "as_coeff_Mul"):  # a set, a matrix, true or false
            raise MeanFieldError(f"{what} must be a number, but {shown(value)} was given.")
        if value.is_number and not (value.is_comparable and value.is_finite):
            raise MeanFieldError(f"{what} must be a finite real number, but {shown(value)} was given.")
        if getattr(value, "is_Float", False) and value.is_zero:  # it is not equal to 0 in SymPy
            return 0
    elif (
        value is None
        or isinstance(value, (bool, complex, bytes))
        or type(value).__name__ == "bool"
        or getattr(value, "shape", ()) != ()
        or getattr(getattr(value, "dtype", None), "kind", "f") not in "iuf"
        or not hasattr(value, "__float__")
    ):
        raise MeanFieldError(f"{what} must be one finite real number, but {shown(value)} was given.")
    if getattr(value, "is_number", True):
        try:
            size = abs(float(value))
        except (TypeError, ValueError, OverflowError):
            size = math.inf
        if not math.isfinite(size):
            raise MeanFieldError(f"{what} must be a finite number, but {shown(value)} was given.")
        if not (SMALLEST <= size <= LARGEST or value == 0):
            raise MeanFieldError(
                f"{what} must be 0 or of a size from {SMALLEST:g} to {LARGEST:g}, but {shown(value)} was given; "
                "rescale it."
            )
    return value


def finite(value: Any, what: str) -> float:
    """`value` as one finite double; a symbol has none."""
    try:
        number = float(scalar(value, what))
    except (TypeError, ValueError) as error:
        if isinstance(error, MeanFieldError):
            raise
        number = math.nan
    if not math.isfinite(number):  # also of a text: "inf"
        raise MeanFieldError(f"{what} must be one finite real number, but {shown(value)} was given.")
    return number


def positive(value: Any, what: str) -> float:
    """`value` as one finite double > 0."""
    number = finite(value, what)
    if not number > 0:
        raise MeanFieldError(f"{what} must be > 0, but {number:g} was given.")
    return number


def refuse_not_real(value: Any, what: str) -> None:
    """Refuse an array or nested list whose entries are truth values, complex, or no numbers at all.

    Conversion to doubles would take True as 1 and drop an imaginary part.
    """
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is not None and kind not in "iufOUS":
        raise MeanFieldError(f"{what} must be real numbers, but an array of {value.dtype} was given.")
    if kind in ("i", "u", "f"):
        return
    if value is None or isinstance(value, (bool, complex, bytes, dict, set, frozenset)):
        raise MeanFieldError(f"{what} must be a real number or an array of them, but {shown(value)} was given.")
    if isinstance(value, (list, tuple)) or kind == "O":
        for one in value.ravel() if kind == "O" else value:
            refuse_not_real(one, what)


def one_point(values: Mapping[str, object], layerwise: object) -> None:
    """Refuse lists where one point (σ_w, σ_b) is asked for: a list means points, and layers with layerwise=True."""
    if flag(layerwise, "layerwise"):
        return
    for name, value in values.items():
        if not isinstance(value, (str, bytes)) and hasattr(value, "__len__") and getattr(value, "shape", None) != ():
            raise MeanFieldError(
                f"{name}={shown(value)} is a list, which means several points, and this verb takes one; give one "
                "number, or layerwise=True with one number for each layer."
            )


def choice(value: object, what: str, choices: Collection[str]) -> Any:
    """One of a few names."""
    if not isinstance(value, str) or value not in choices:
        raise unknown(what, value, choices)
    return value


def provides(value: object, what: str, method: str | None, wanted: str) -> None:
    """Refuse what is not None and lacks a method (or, without one named, cannot be called)."""
    fit = value is None or callable(value if method is None else getattr(value, method, None))
    if fit and value is not None and method is None:  # it is called with two numbers; a class would make something
        try:
            inspect.signature(value).bind(1, 2)  # type: ignore[arg-type]
        except ValueError:  # built in, and without a signature
            fit = not isinstance(value, type)
        except Exception:  # other numbers of arguments, or an object that cannot even be described
            fit = False
    if not fit:
        raise MeanFieldError(f"{what} must be {wanted}, but {shown(value)} was given.")


def path(value: object, what: str, optional: bool = True) -> None:
    """Refuse what names no file; optional: None is one who wants none."""
    if value is None and optional:
        return
    named = isinstance(value, (str, os.PathLike)) and bool(str(value)) and "\0" not in str(value)
    try:
        if isinstance(value, (str, os.PathLike)) and named:
            os.lstat(value)
    except (FileNotFoundError, NotADirectoryError):
        pass  # a folder that is missing is named by who opens the file
    except (OSError, ValueError):  # a name that no file can have
        named = False
    if not named:
        raise MeanFieldError(f"{what} must be the path of a file, but {shown(value)} was given.")


def text(value: object, what: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise MeanFieldError(f"{what} must be a text that is not empty, but {shown(value)} was given.")
    return value


def names(value: object, what: str) -> tuple[str, ...]:
    """Names without repetitions, from one name ("Theta") or several in a tuple, list or set; at least one."""
    given = (value,) if isinstance(value, str) else value
    if isinstance(given, (set, frozenset)) and all(isinstance(n, str) for n in given):
        given = sorted(given)
    if not isinstance(given, (tuple, list)) or not given or not all(isinstance(n, str) and n for n in given):
        raise MeanFieldError(f"{what} must be a name or a tuple of names, but {shown(value)} was given.")
    return tuple(dict.fromkeys(given))
