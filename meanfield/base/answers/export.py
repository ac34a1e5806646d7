"""What every result can do: plain values, JSON, a data frame, a file, and a typeset form for notebooks.

A result says what it holds, by `data` or its fields, and which of that are arrays over axes, by `arrays`; the rest is
written here once. pandas, xarray and matplotlib are imported when they are asked for.
"""

from __future__ import annotations

import functools
import html
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from meanfield.base.answers.arrays import Arrays, cell, file_content, html_table, of_rows
from meanfield.base.arguments import path as refuse_no_path
from meanfield.base.arguments import shown, validated
from meanfield.base.errors import MeanFieldError, one_line
from meanfield.base.leading import Registry
from meanfield.base.storage.files import FORMATS, save, write_whole
from meanfield.base.words import absent

SUFFIXES = (".json", ".csv", ".npz", ".tex", ".html", *FORMATS)

#: how answers are typeset and drawn, by what is asked for ("latex of a law"): most calls ask for neither
SHOWN: Registry[str, Callable[..., Any]] = Registry()
F = TypeVar("F", bound=Callable[..., Any])


def shows(what: str) -> Callable[[F], F]:
    """Decorator: what typesets or draws a kind of answer, for `SHOWN`."""
    return SHOWN.adds(what)


class Result:
    """What every result can do beside what it is.

    `data()`: all of it as plain values; `to_json()`: these as text; `to_frame()`, `to_xarray()`: its arrays, or a row
    for each of its parts, for pandas and xarray; `save(path)`: a file, by its suffix; `latex()` and `plot(ax=)` where
    there is something to typeset or to draw. `meanfield.load(path)` reads .json and .npz back.
    """

    #: names of what a row of a frame shows, where these are not its fields
    columns: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name in ("plot", "latex", "at"):  # public verbs: arguments that do not fit raise MeanFieldError
            own = cls.__dict__.get(name)
            if inspect.isfunction(own) and not hasattr(own, "__wrapped__"):
                setattr(cls, name, validated(_on_axes(own) if name == "plot" else own))

    if not TYPE_CHECKING:  # a name that is misspelt is a type error

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name in dir(type(self)):  # an attribute that raised: its own error
                return object.__getattribute__(self, name)
            raise self._absent(name, [n for n in dir(self) if not n.startswith("_")])

    def _absent(self, name: str, known: Iterable[str]) -> AttributeError:
        verbs = [n for n in dir(type(self)) if not n.startswith("_")]
        return AttributeError(absent(f"This {type(self).__name__}", name, known, verbs))

    def data(self) -> Any:
        """All of it as plain values: numbers, text, lists and dictionaries, as JSON has them. A number with a
        status is {"value", "float", "error", "status"}, infinity "inf", and what is not a number None."""
        if not is_dataclass(self):
            return {"text": str(self)}
        return {f.name: plain(getattr(self, f.name)) for f in fields(self) if f.repr and not f.name.startswith("_")}

    def arrays(self) -> Arrays:
        """Its arrays with the names of their axes; of a result of several parts, a row for each."""
        if isinstance(self, Mapping) or not isinstance(self, Iterable):
            rows: list[Any] = [self]
        else:
            rows = list(self)
        return of_rows([row.cells() if isinstance(row, Result) else {"value": cell(row)} for row in rows])

    def cells(self) -> dict[str, Any]:
        """What a row of a frame shows of it: its `columns`, or else its fields that are one number or one word."""
        own: list[str] = [f.name for f in fields(self) if f.repr] if is_dataclass(self) else []
        names = self.columns or own
        found = {name: cell(getattr(self, name)) for name in names}
        return {name: value for name, value in found.items() if value is not ...}

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """`data()` as JSON text with the name of the result; path: a file that is written, too, whole or not at all."""
        if path is not None:
            refuse_no_path(path, "The file of a result")
        package: Any = sys.modules["meanfield"]
        head = {"schema": 1, "meanfield": package.__version__, "result": type(self).__name__}
        text = json.dumps({**head, "data": plain(self.data())}, indent=1, ensure_ascii=False, allow_nan=False)
        if path is not None:
            write_whole(Path(path), text.encode())
        return text

    @validated
    def to_frame(self) -> Any:
        """A pandas DataFrame: a column for each quantity, the axes as index. Raises: MeanFieldError without pandas."""
        pandas = needed("pandas", "A data frame")
        index, columns = self.arrays().flat()
        if list(index) == ["row"]:
            return pandas.DataFrame(columns)
        if len(index) == 1:
            ((name, values),) = index.items()
            return pandas.DataFrame(columns, index=pandas.Index(values, name=name))
        return pandas.DataFrame(columns, index=pandas.MultiIndex.from_arrays(list(index.values()), names=list(index)))

    def to_xarray(self) -> Any:
        """An xarray Dataset of its arrays. Raises: MeanFieldError where xarray is not installed."""
        xarray, found = needed("xarray", "A Dataset"), self.arrays()
        return xarray.Dataset(found.columns, found.coords, {k: v for k, v in found.attrs.items() if v is not None})

    @validated
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file, whole or not at all, and return the path. The suffix decides: .json (`data`), .csv and
        .npz (arrays), .tex (`latex`), .html (as in a notebook), .png, .pdf and .svg (`plot`)."""
        refuse_no_path(path, "What a result is saved as", optional=False)
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in SUFFIXES:
            raise MeanFieldError(
                f"{str(target)!r} ends in {target.suffix or 'no suffix'}; a {type(self).__name__} is saved as "
                f"{', '.join(SUFFIXES)}."
            )
        if suffix in FORMATS:
            return _drawn(self, target)
        if suffix == ".json":
            self.to_json(target)
            return target
        if suffix == ".tex":
            content = self._own("latex", "typeset")().encode()
        elif suffix == ".html":
            content = f"<!doctype html>\n<meta charset=utf-8>\n{self._repr_html_()}\n".encode()
        else:
            content = file_content(self.arrays(), type(self).__name__, suffix)
        return write_whole(target, content)

    def _own(self, name: str, what: str) -> Any:
        found = getattr(self, name, None)
        if found is None:
            raise MeanFieldError(f"A {type(self).__name__} has nothing to {what}; save it as .json, .csv or .npz.")
        return found

    def _math(self) -> str | None:
        """LaTeX for math mode, or None where it has none."""
        try:
            found = self.latex() if hasattr(self, "latex") else None
        except MeanFieldError:
            return None
        return None if found is None or "\\begin{table}" in found else found

    def _latex(self, printer: object, *args: object) -> str:
        """What `sympy.latex` shows."""
        return self._math() or rf"\text{{{one_line(type(self).__name__, '')}}}"

    def _repr_html_(self) -> str:
        found = self._math()
        if found is not None:
            return f"<div>$$\\displaystyle {html.escape(found)}$$</div>"
        try:
            return html_table(self.arrays(), repr(self))
        except MeanFieldError:
            return f"<pre>{html.escape(str(self))}</pre>"


def _on_axes(plot: Any) -> Any:
    """A method that draws, whose ax= is looked at first."""
    place = list(inspect.signature(plot).parameters).index("ax")

    @functools.wraps(plot)
    def drawn(*args: Any, **settings: Any) -> Any:
        given = args[place] if len(args) > place else settings.get("ax")
        several: Any = given if isinstance(given, (list, tuple)) or hasattr(given, "flat") else [given]
        for one in several:
            if one is not None and not hasattr(one, "get_figure"):
                raise MeanFieldError(
                    f"ax must be Axes of matplotlib, as plt.subplots() returns them, but {shown(one)} was given."
                )
        return plot(*args, **settings)

    return drawn


class Numbers(Result):
    """A result that holds arrays by name in `values`: each is an attribute and an item, result.K and result["K"]."""

    values: Any

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str):
            held = list(getattr(self, "quantities", self.values))
            raise MeanFieldError(
                f"A {type(self).__name__} holds arrays by name ({', '.join(held)}), as in result[{held[0]!r}], but "
                f"{shown(name)} was given."
            )
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise MeanFieldError(str(error)) from None


def needed(package: str, what: str, install: str | None = None) -> Any:
    """A package that not everybody has, by name; install: what pip calls it, where that is another one. Raises:
    MeanFieldError where it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        name = install or package
        raise MeanFieldError(f"{what} needs {name}, which is not installed; try: pip install {name}.") from None


def plain(value: Any) -> Any:
    """Results, mappings, sequences, arrays, expressions and numbers as JSON values."""
    if isinstance(value, Result):
        return plain(value.data())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {"oo": "inf", "-oo": "-inf", "nan": None}.get(text := str(value), text)


def _drawn(result: Result, target: Path) -> Path:
    """The picture of a result as a file."""
    return save(result._own("plot", "draw"), target)
