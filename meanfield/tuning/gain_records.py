"""What `gains` answers: numbers with their status, one screen of text, LaTeX, JSON, and code to paste."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import sympy as sp

from meanfield.base.arguments import shown
from meanfield.base.arrays import Arrays, of_rows
from meanfield.base.export import Result
from meanfield.base.latex import aligned, joined, solution_tex
from meanfield.base.printed import text, wrapped
from meanfield.base.results import MeanFieldError, Solution, Status, one_line
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
        return _decimals(getattr(self, name), self.digits)

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
        return of_rows([_cells(self.what, n, getattr(self, n)) for n in (*self.moments, *self.names)])

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
            digits = _decimals(found, SHOWN)
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
        each = ", ".join(f"{n}: {_decimals(getattr(self, n), 6) or '-'}" for n in self.names)
        return one_line(type(self).__name__, f"{self.what}; {each}")

    def __str__(self) -> str:
        return wrapped("\n".join(self._lines()))


def _decimals(found: Solution, digits: int) -> str:
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
    return found.data() | {"digits": _decimals(found, digits) or None}


def _cells(what: str, name: str, found: Solution) -> dict[str, Any]:
    value = sp.sympify(found.value)
    double = float(value) if value.is_number else float("nan")
    return {"of": what, "name": name, "value": double, "error": found.error or 0.0, "status": found.status.value}


@dataclass(frozen=True, repr=False)
class Gains(GainTable):
    r"""Gains of a φ whose input z is normal of mean 0 and variance K; see `gains`.

    mean, second_moment, slope_square: ⟨φ⟩, ⟨φ²⟩, ⟨φ′²⟩. unit_variance = 1/sd φ(z); unit_rms = 1/√⟨φ²⟩; unit_gradient =
    1/√⟨φ′²⟩. sigma_w_forward: σ_w of K′ = K, √(K/⟨φ²⟩), sigma_w_backward: σ_w of J = 1, both without biases. gate: the
    same of u·φ(v), u and v independent and of this variance; there slope_square is ⟨φ²⟩ + K⟨φ′²⟩. Each is a `Solution`:
    exact where there is a closed form, otherwise certified to `digits`; its value is nan where it does not exist.

    >>> found = gains("relu")
    >>> found.unit_rms.value, round(found.gain("unit_variance"), 6)
    (sqrt(2), 1.712859)
    """

    spellings: ClassVar[dict[str, Spelling]] = {
        "mean": (r"\langle \phi \rangle", "mean of the output"),
        "second_moment": (r"\langle \phi^2 \rangle", "mean square of the output"),
        "slope_square": (r"\langle \phi^{\prime 2} \rangle", "mean square of the slope"),
        "unit_variance": (r"\frac{1}{\mathrm{sd}\,\phi}", "1/sd of the output"),
        "unit_rms": (r"\frac{1}{\sqrt{\langle \phi^2 \rangle}}", "1/rms of the output"),
        "unit_gradient": (r"\frac{1}{\sqrt{\langle \phi^{\prime 2} \rangle}}", "1/rms of the slope"),
        "sigma_w_forward": (r"\sigma_w(K^\prime = K)", "sigma_w that keeps K"),
        "sigma_w_backward": (r"\sigma_w(J = 1)", "sigma_w at J = 1"),
    }
    moments: ClassVar[tuple[str, ...]] = ("mean", "second_moment", "slope_square")
    names: ClassVar[tuple[str, ...]] = (
        "unit_variance", "unit_rms", "unit_gradient", "sigma_w_forward", "sigma_w_backward",
    )  # fmt: skip
    default: ClassVar[str] = "sigma_w_forward"

    what: str
    variance: sp.Expr
    digits: int
    mean: Solution
    second_moment: Solution
    slope_square: Solution
    unit_variance: Solution
    unit_rms: Solution
    unit_gradient: Solution
    sigma_w_forward: Solution
    sigma_w_backward: Solution
    gate: Gains | None = field(default=None, repr=False)

    @property
    def is_gate(self) -> bool:
        """Whether these are the gains of a product u·φ(v)."""
        return self.gate is None

    def _title(self) -> str:
        law = "u, v" if self.is_gate else "z"
        return f"{self.what}, {law} ~ N(0, {self.variance})"

    def _head(self) -> dict[str, Any]:
        head = {"what": self.what, "variance": str(self.variance), "digits": self.digits}
        return head if self.gate is None else head | {"gate": self.gate.data()}

    def arrays(self) -> Arrays:
        """A row for each number, those of the gated unit below: its name, value, error and status."""
        rows = [_cells(one.what, n, getattr(one, n)) for one in self._both() for n in (*one.moments, *one.names)]
        return of_rows(rows)

    def _both(self) -> tuple[Gains, ...]:
        return (self,) if self.gate is None else (self, self.gate)

    def latex(self) -> str:
        """The numbers of φ as LaTeX for math mode (amsmath), then those of the gated unit."""
        return joined([super(Gains, one).latex() for one in self._both()])

    def _use(self) -> list[str]:
        return [
            "# of the linear layer that phi's output enters:",
            "# torch.nn.init.normal_(linear.weight, std=gain() / linear.in_features**0.5)",
            "# torch.nn.init.orthogonal_(linear.weight, gain=gain())",
        ]

    def _lines(self) -> list[str]:
        out = super()._lines()
        if self.gate is None:
            return out
        short = [n for n in self.names if n not in ("unit_variance", "unit_gradient")]
        rows = []
        for name in short:
            found: Solution = getattr(self.gate, name)
            digits = _decimals(found, SHOWN) or ("-" if found.value is sp.nan else text(sp.sympify(found.value)))
            rows.append(f"  {name:<20} {digits:<22} {_GATED[name]}")
        return [*out, "", f"the gated unit {self.gate.what}", "", *rows]


_GATED = {
    "unit_rms": "1/rms of the product",
    "sigma_w_forward": "sigma_w behind it that keeps K",
    "sigma_w_backward": "sigma_w behind it at J = 1",
}


@dataclass(frozen=True, repr=False)
class SoftmaxGains(GainTable):
    r"""Gains of a softmax row A over T tokens with independent normal scores of standard deviation s; see `gains`.

    overlap: Φ = ⟨Σ A_s²⟩; slope: S = ⟨Σ_su (∂A_s/∂z_u)²⟩. unit_average = 1/√Φ, of Σ A_s v_s over independent values of
    variance 1; unit_entry = √(T/Φ), of the entries themselves. Backward: unit_value_gradient = 1/√Φ, of what a value
    receives from T queries with independent gradients; unit_score_gradient = 1/√S, of what all scores of a query
    receive from one output Σ A_s v_s of gradient 1; unit_entry_gradient = √(T/S), of the softmax alone.

    >>> gains("softmax", tokens=16, scores=0).unit_average.value
    4
    """

    spellings: ClassVar[dict[str, Spelling]] = {
        "overlap": (r"\Phi", "mean of sum of A_s^2"),
        "slope": ("S", "mean of sum of (dA_s/dz_u)^2"),
        "unit_average": (r"\frac{1}{\sqrt{\Phi}}", "1/rms of sum of A_s v_s"),
        "unit_entry": (r"\sqrt{T/\Phi}", "1/rms of A_s"),
        "unit_value_gradient": (r"\frac{1}{\sqrt{\Phi}}", "backward, through the values"),
        "unit_score_gradient": (r"\frac{1}{\sqrt{S}}", "backward, through the scores"),
        "unit_entry_gradient": (r"\sqrt{T/S}", "backward, the softmax alone"),
    }
    moments: ClassVar[tuple[str, ...]] = ("overlap", "slope")
    names: ClassVar[tuple[str, ...]] = (
        "unit_average", "unit_entry", "unit_value_gradient", "unit_score_gradient", "unit_entry_gradient",
    )  # fmt: skip
    default: ClassVar[str] = "unit_average"

    what: str
    tokens: int
    scores: sp.Expr
    digits: int
    overlap: Solution
    slope: Solution
    unit_average: Solution
    unit_entry: Solution
    unit_value_gradient: Solution
    unit_score_gradient: Solution
    unit_entry_gradient: Solution

    def _title(self) -> str:
        return f"softmax over {self.tokens} tokens, scores ~ N(0, s^2), s = {self.scores}"

    def _head(self) -> dict[str, Any]:
        return {"what": self.what, "tokens": self.tokens, "scores": str(self.scores), "digits": self.digits}

    def _use(self) -> list[str]:
        return ["# attention = gain() * torch.nn.functional.scaled_dot_product_attention(q, k, v)"]
