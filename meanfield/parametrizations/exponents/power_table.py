"""What `powers` answers: a row for each matrix, the output, and a word for each and for the whole network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from meanfield.base.answers.arrays import Arrays, of_rows
from meanfield.base.answers.export import Result
from meanfield.base.answers.plain_text import COLUMNS, columns, wrapped
from meanfield.base.tex.prose import prose
from meanfield.base.tex.tabular import booktabs
from meanfield.base.words import unknown
from meanfield.parametrizations.exponents.monomial import Monomial

VERDICTS = ("maximal", "lazy", "vanishing", "growing")  # from the best to the worst
SIZES = ("K", "delta", "own", "bias", "inherited", "total", "effect", "eps")
CHANGES = ("own", "inherited", "total", "effect", "verdict")
ROOM = COLUMNS - 2


@dataclass(frozen=True)
class Power:
    """n^of_width · L^of_depth: exact exponents; of_depth is None where the network has no powers of L.

    >>> from fractions import Fraction
    >>> print(Power(Fraction(-1, 2), Fraction(1)))
    L/sqrt(n)
    """

    of_width: Fraction
    of_depth: Fraction | None

    @property
    def monomial(self) -> Monomial:
        return Monomial(of_width=self.of_width, of_depth=self.of_depth or Fraction(0))

    @property
    def is_growing(self) -> bool:
        """Whether it grows with n or with L."""
        return max(self.of_width, self.of_depth or Fraction(0)) > 0

    def __str__(self) -> str:
        return str(self.monomial)

    def latex(self) -> str:
        """As LaTeX for math mode."""
        return self.monomial.latex()


@dataclass(frozen=True)
class PowerRow:
    """The powers of one Dense, z = m W a + b, and of what one step does there.

    matrix: "input", "readout", or its role in the block (`roles_of`); kind: whose scaling it has. K: of the mean square
    of z; delta: of the root mean square of ∂f/∂z. own: of the root mean square of what the step on W alone changes of
    z; bias: of what the step on b changes, None without a bias; inherited: of what the changes before it make of z,
    None for the input layer; total: of all together. effect: of what own does to f; in L, of that of all L blocks. eps:
    of Adam's ε over an entry of the gradient by W, 0 where it keeps its share; None where no ε is used. verdict:
    "maximal": the next function of the network sees an own change of order 1. "lazy": one that falls with n or L, whose
    effect on f is of order 1. "vanishing": its effect falls, too. "growing": one of them grows. It is the worst of n's
    and L's, of W's and b's.
    """

    matrix: str
    kind: str
    K: Power
    delta: Power
    own: Power
    bias: Power | None
    inherited: Power | None
    total: Power
    effect: Power
    eps: Power | None
    verdict: str

    def cells(self) -> dict[str, Any]:
        """The row as plain values: two exponents for each power."""
        out: dict[str, Any] = {"matrix": self.matrix, "kind": self.kind}
        for name in SIZES:
            one = getattr(self, name)
            out[f"{name}_n"] = None if one is None else float(one.of_width)
            out[f"{name}_L"] = None if one is None or one.of_depth is None else float(one.of_depth)
        return out | {"verdict": self.verdict}


@dataclass(frozen=True, eq=False, repr=False)
class Powers(Result):
    """The powers of the width n and of the number of blocks L in what one training step does, as exact fractions.

    Of one step on one input with ∂L/∂f of order 1, to first order in it; of n at fixed L, of L at fixed n, both large.
    rows: a `PowerRow` for each Dense: the input layer, those of a block, the readout. f: of the output at
    initialization, without its bias; delta_f_readout: of its change by the step on the readout's W; delta_f_features:
    by changes before it. eps: the largest of the rows', which assume ε = 0: where it grows, Adam's steps fall by it.
    decay: of ηλ of hidden matrices under decoupled weight decay, 0 where it keeps its share. without_depth: why there
    are no powers of L, in a sentence, "" if there are. verdict: the worst of all rows, and "growing" where f or its
    change grows. Momentum has the powers of the optimizer without it, because in any fixed number of steps it
    multiplies changes by numbers alone.

    The step is the first, and of later ones nothing is said. Where f grows, ∂L/∂f grows for most losses, too; here it
    is given. Source: derived here; of n, [2011.14522] has rules of this kind.

    >>> from meanfield.parametrizations import parametrization
    >>> print(parametrization("ntk", optimizer="sgd").powers("tanh"))
    ntk, sgd: powers in one step
      matrix   own        inherited  total      effect  verdict
      input    1/sqrt(n)  -          1/sqrt(n)  1       lazy
      dense    1/sqrt(n)  1/sqrt(n)  1/sqrt(n)  1       lazy
      readout  1          1          1          1       maximal
      matrix   K  delta      bias
      input    1  1/sqrt(n)  1/sqrt(n)
      dense    1  1/sqrt(n)  1/sqrt(n)
      readout  1  1          1
    f 1; its change by the readout 1, by features 1; lazy
    No powers of L: in L blocks a signal goes through L activations, outside any
    skip, which is exponential in L or a power that depends on the activation; put
    them into branches of skips.
    """

    name: str
    optimizer: str
    rows: tuple[PowerRow, ...]
    f: Power
    delta_f_readout: Power
    delta_f_features: Power
    eps: Power | None
    decay: Power
    without_depth: str
    verdict: str

    def row(self, matrix: str) -> PowerRow:
        """The row of a matrix by its name. Raises: MeanFieldError for a name that no row has."""
        for one in self.rows:
            if one.matrix == matrix:
                return one
        raise unknown("matrix", matrix, [one.matrix for one in self.rows])

    def data(self) -> dict[str, Any]:
        """Powers as text, "1/(n*sqrt(L))"."""

        def text(one: Power | None) -> str | None:
            return None if one is None else str(one)

        rows = [
            {"matrix": r.matrix, "kind": r.kind, **{s: text(getattr(r, s)) for s in SIZES}, "verdict": r.verdict}
            for r in self.rows
        ]
        whole = {s: text(getattr(self, s)) for s in ("f", "delta_f_readout", "delta_f_features", "eps", "decay")}
        return {
            "name": self.name, "optimizer": self.optimizer, "rows": rows, **whole,
            "without_depth": self.without_depth, "verdict": self.verdict,
        }  # fmt: skip

    def arrays(self) -> Arrays:
        """A row for each matrix, with the exponents of n and of L as numbers."""
        return of_rows([one.cells() for one in self.rows])

    def _tables(self) -> list[list[str]]:
        """The columns that say something, in one table, or in two where it would be too wide: what the step does, and
        what it is made of."""
        shown = [s for s in SIZES if any(getattr(r, s) is not None for r in self.rows)]
        whole = [*shown, "verdict"]
        if max(map(len, columns(self._cells(whole, str)))) <= ROOM:
            return [whole]
        return [[s for s in whole if s in made] for made in (CHANGES, [s for s in whole if s not in CHANGES])]

    def _cells(
        self, names: list[str], written: Callable[[Power], str], heads: Mapping[str, str] | None = None
    ) -> list[list[str]]:
        def cell(one: Power | str | None) -> str:
            return "-" if one is None else one if isinstance(one, str) else written(one)

        head = ["matrix", *((heads or {}).get(s, s) for s in names)]
        return [head, *([r.matrix, *(cell(getattr(r, s)) for s in names)] for r in self.rows)]

    def _summary(self) -> str:
        head = f"f {self.f}; its change by the readout {self.delta_f_readout}, by features {self.delta_f_features}"
        kept = "" if str(self.decay) == "1" else f"; weight decay {self.decay}"
        return f"{head}{kept}; {self.verdict}"

    def __str__(self) -> str:
        lines = [f"{self.name}, {self.optimizer}: powers in one step"]
        for names in self._tables():
            lines += ["  " + row for row in columns(self._cells(names, str))]
        lines.append(wrapped(self._summary()))
        if self.without_depth:
            lines.append(wrapped(f"No powers of L: {self.without_depth[0].lower()}{self.without_depth[1:]}."))
        return "\n".join(lines)

    __repr__ = __str__

    def latex(self) -> str:
        """The tables as LaTeX (booktabs)."""
        caption = prose(f"Powers of {self.name} under {self.optimizer} in one step: {self._summary()}.")
        out = []
        for names in self._tables():
            head, *rows = self._cells(names, lambda one: f"${one.latex()}$", _HEADS)
            out.append(booktabs(caption, head, [[prose(first), *rest] for first, *rest in rows], texts=1))
            caption = prose(f"Powers of {self.name} under {self.optimizer}: what the step is made of.")
        return "\n".join(out)


_HEADS = {"K": "$K$", "delta": r"$\delta$", "effect": "on $f$", "eps": r"$\varepsilon$"}
