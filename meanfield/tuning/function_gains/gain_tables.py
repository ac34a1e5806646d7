"""Gains by name, whatever they are of: one screen of text, LaTeX, JSON, and code to paste."""

from __future__ import annotations

from typing import Any, ClassVar

import sympy as sp

from meanfield.base.answers.arrays import Arrays, of_rows
from meanfield.base.answers.export import Result
from meanfield.base.answers.latex import aligned, solution_tex
from meanfield.base.answers.plain_text import text, wrapped
from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.arguments import shown
from meanfield.functions.balls import certified

SHOWN = 15  # digits of a number on the screen
LONGEST = 60  # characters of a closed form on the screen

#: how a number is written: LaTeX, and what it is in a few words
Spelling = tuple[str, str]


class GainTable(Result):
    """Numbers by name: what `Gains` and `SoftmaxGains` share. `moments` and `names` are the names of their fields."""

    spellings: ClassVar[dict[str, Spelling]] = {}
    moments: ClassVar[tuple[str, ...]] = ()
    names: ClassVar[tuple[str, ...]] = ()
    default: ClassVar[str] = ""
    what: str
    digits: int

    def gain(self, name: str = "") -> float:
        """A gain as a double, by its name (`names`); without one that which keeps the forward pass as it is.

        Raises: MeanFieldError for another name, where the gain does not exist, and where a parameter has no number.
        """
        chosen = name or self.default
        if chosen not in self.names:
            raise MeanFieldError(f"No gain is called {shown(chosen)}; there are {', '.join(self.names)}.")
        found: Solution = getattr(self, chosen)
        if found.value is sp.nan:
            raise MeanFieldError(f"The gain {chosen} of {self.what} is not available: {found.message}")
        return float(found)

    def decimals(self, name: str) -> str:
        """A number of this result as text, all its `digits`, "" where it has none."""
        known = (*self.names, *self.moments)
        if name not in known:
            raise MeanFieldError(f"No number here is called {shown(name)}; there are {', '.join(known)}.")
        return decimals_of(getattr(self, name), self.digits)

    def torch(self) -> str:
        """Code for PyTorch (and for any other library): a dictionary of the gains, and `gain(name)`."""
        known = {n: getattr(self, n) for n in self.names}
        absent = [f"# {n}: {v.message}" for n, v in known.items() if v.value is sp.nan]
        held = {n: float(v) for n, v in known.items() if v.value is not sp.nan}
        default = self.default if self.default in held else next(iter(held), "")
        return "\n".join(
            [
                f"# gains of {self._title()}",
                *absent,
                "GAINS = {",
                *[f'    "{n}": {v!r},  # {self.spellings[n][1]}' for n, v in held.items()],
                "}",
                "",
                f'def gain(name="{default}"):',
                "    return GAINS[name]",
                "",
                *self._use(),
            ]
        )

    def _use(self) -> list[str]:
        return []

    def _title(self) -> str:
        raise NotImplementedError

    def _head(self) -> dict[str, Any]:
        raise NotImplementedError

    def data(self) -> dict[str, Any]:
        """Every number as {value, float, error, status, digits}, by its name."""
        return self._head() | {n: _number(getattr(self, n), self.digits) for n in (*self.moments, *self.names)}

    def arrays(self) -> Arrays:
        """A row for each number: its name, value, error and status."""
        return of_rows([cells_of(self.what, n, getattr(self, n)) for n in (*self.moments, *self.names)])

    def latex(self) -> str:
        """The numbers as LaTeX for math mode (amsmath)."""
        every = {n: getattr(self, n) for n in (*self.moments, *self.names)}
        known = {n: v for n, v in every.items() if v.value is not sp.nan}
        remarks = tuple(dict.fromkeys(v.message for v in every.values() if v.value is sp.nan))
        return aligned([(self.spellings[n][0], solution_tex(v)) for n, v in known.items()], remarks)

    def _lines(self) -> list[str]:
        out = [f"gains of {self._title()}", ""]
        forms: dict[str, list[str]] = {}
        notes: dict[str, list[str]] = {}
        for name in (*self.moments, *self.names):
            found: Solution = getattr(self, name)
            digits = decimals_of(found, SHOWN)
            out.append(f"  {name:<20} {digits or '-':<22} {self.spellings[name][1]}")
            if found.message:
                notes.setdefault(found.message, []).append(name)
            form = text(sp.sympify(found.value)) if found.value is not sp.nan else ""
            if found.status is Status.EXACT and not form.isdigit() and (len(form) <= LONGEST or not digits):
                forms.setdefault(form, []).append(name)
        lines = [f"  {' = '.join(held)} = {form}" for form, held in forms.items()]
        remarks = [f"  note: {', '.join(held)}: {why}" for why, held in notes.items()]
        return out + [""] * bool(lines) + lines + [""] * bool(remarks) + remarks

    def __repr__(self) -> str:
        each = ", ".join(f"{n}: {decimals_of(getattr(self, n), 6) or '-'}" for n in self.names)
        return one_line(type(self).__name__, f"{self.what}; {each}")

    def __str__(self) -> str:
        return wrapped("\n".join(self._lines()))


def decimals_of(found: Solution, digits: int) -> str:
    """The number as decimal text; "" where it has symbols or does not exist."""
    value = sp.sympify(found.value)
    if value is sp.nan or value.free_symbols:
        return ""
    if value.is_Integer:
        return str(value)
    if value.is_Float:
        return str(sp.N(value, digits))
    return certified(value, digits + 5).mid().str(digits, radius=False)


def _number(found: Solution, digits: int) -> dict[str, Any]:
    return found.data() | {"digits": decimals_of(found, digits) or None}


def cells_of(what: str, name: str, found: Solution) -> dict[str, Any]:
    """A number as a row of a frame."""
    value = sp.sympify(found.value)
    double = float(value) if value.is_number else float("nan")
    return {"of": what, "name": name, "value": double, "error": found.error or 0.0, "status": found.status.value}
