"""What `gains` answers: the gains of an activation and of its gated unit, and those of a softmax row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import sympy as sp

from meanfield.base.answers.arrays import Arrays, of_rows
from meanfield.base.answers.latex import joined
from meanfield.base.answers.plain_text import text
from meanfield.base.answers.results import Solution
from meanfield.tuning.function_gains.gain_tables import SHOWN, GainTable, Spelling, cells_of, decimals_of


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
        rows = [cells_of(one.what, n, getattr(one, n)) for one in self._both() for n in (*one.moments, *one.names)]
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
            digits = decimals_of(found, SHOWN) or ("-" if found.value is sp.nan else text(sp.sympify(found.value)))
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
