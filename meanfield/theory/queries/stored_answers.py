"""Answers that took long are kept as data in the cache folder, and found again by the question and the hash of the
engine.

An answer depends on the theory, on the arguments, and on the code that finds it: all three are in the name of its file,
as they are in the names of compiled modules. A file that is damaged, or that holds the answer to something else, counts
as none. What cannot be said as text, or is known only until somebody looks longer (status UNKNOWN), is not kept.

Answers are pickled: they are objects that go on finding things (a point its exponents and laws, a law its next orders),
of expressions with averages in them, which `Result.data` says as text and does not take back. A file runs no more than
the generated modules beside it do, which whoever can write to the folder could change as well.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import sympy as sp

from meanfield.base.answers.results import Status
from meanfield.base.errors import MeanFieldError
from meanfield.base.storage.files import write_whole
from meanfield.networks.records import Block
from meanfield.numeric.lowering.modules import cache
from meanfield.theory.queries.architecture_maps import Maps, described

LEAST = 0.02  # seconds that an answer must have taken (it may need but a part of what is at hand already); ∞: none
_PLAIN = (str, bool, int, float, Fraction, type(None))
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def keeps(verb: F) -> F:
    """Decorator: a verb, a function of (theory, arguments), whose answers are kept."""

    @functools.wraps(verb)
    def kept(theory: Maps, /, *arguments: Any, **named: Any) -> Any:
        return answered(verb.__qualname__, theory, arguments, named, lambda: verb(theory, *arguments, **named))

    return kept  # type: ignore[return-value]


def answered(name: str, theory: Maps, arguments: tuple, named: dict[str, Any], make: Callable[[], T]) -> T:
    """The kept answer to a question, or what `make` gives, which is kept."""
    file = _file(name, theory, arguments, named) if float("inf") > LEAST else None
    if file is not None and (found := recalled(file)) is not None:
        return found
    began = time.perf_counter()
    answer = make()
    if file is not None and time.perf_counter() - began > LEAST:
        keep(file, answer)
    return answer


def _file(verb: str, theory: Maps, arguments: tuple, named: dict[str, Any]) -> Path | None:
    """Where the answer to a question is kept; None of a question that text does not hold."""
    if not _is_own(theory.block):
        return None  # rules for a record of a user's own are no part of the engine
    values = [(str(i), v) for i, v in enumerate(arguments)] + sorted(named.items())
    try:
        texts = [f"{name}={_text(value)}" for name, value in values if isinstance(value, (sp.Basic, *_PLAIN))]
    except ValueError:  # Python writes no number of more than 4300 digits
        return None
    if len(texts) < len(values):
        return None
    return cache.folder() / cache.key("|".join([verb, described(theory), *texts])).replace("theory", "answer")


def _is_own(block: Block) -> bool:
    return type(block).__module__.startswith("meanfield.") and all(map(_is_own, block.inner()))


def _text(value: Any) -> str:
    """A value as text, with its type: 0.1 is read as the decimal, "1/3" as the fraction."""
    return sp.srepr(value) if isinstance(value, sp.Basic) else f"{type(value).__name__} {value!r}"


def recalled(file: Path) -> Any | None:
    """The answer that a file holds; None where there is none, or it is not whole, or another question's."""
    with suppress(Exception):  # a damaged file has many ways to be one
        digest, _, held = file.read_bytes().partition(b"\n")
        return pickle.loads(held) if digest == _digest(file, held) else None
    return None


def keep(file: Path, answer: Any) -> None:
    """Write an answer that lasts; not to a full disk, and nothing that does not travel."""
    if getattr(answer, "status", None) is Status.UNKNOWN:
        return
    with suppress(MeanFieldError, pickle.PicklingError, AttributeError, TypeError):
        held = pickle.dumps(answer, protocol=5)
        write_whole(file, _digest(file, held) + b"\n" + held)


def _digest(file: Path, held: bytes) -> bytes:
    return hashlib.sha256(file.name.encode() + held).hexdigest().encode()
