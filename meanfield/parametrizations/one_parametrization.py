"""A parametrization: the scalings of all kinds of matrices, what else depends on width and depth, and its verbs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from meanfield.base.answers.export import Result
from meanfield.base.answers.plain_text import columns
from meanfield.base.arguments import choice, flag, record, shown, whole
from meanfield.base.errors import MeanFieldError
from meanfield.base.tex.prose import prose
from meanfield.base.tex.tabular import booktabs
from meanfield.parametrizations.exponents.matrix_scaling import KINDS, ONE, OPTIMIZERS, PLAIN, Scaling, scaling_of
from meanfield.parametrizations.exponents.monomial import Monomial
from meanfield.parametrizations.exponents.step_powers import Powers, powers_of


@record
@dataclass(frozen=True, eq=False, repr=False)
class Parametrization(Result):
    """How initialization, multipliers and learning rates depend on the width n and on the number of blocks L.

    input, hidden, readout, bias: a `Scaling` each, or a mapping of its fields. Hidden matrices are those of the blocks;
    the powers of L that a bias has count in blocks alone. Gains and shifts of norms move as biases do. branch: what the
    branch of every skip is multiplied with ("1/sqrt(L)"). eps: of Adam's ε. decay: of the weight decay λ of
    hidden matrices (decoupled: W → W − ηλW). optimizer: "sgd", "adam", or "muon" (the polar factor of the gradient for
    hidden matrices, Adam's step for all others). base_width, base_depth: where n = 1 and L = 1: there all
    parametrizations are the standard one. `powers(...)`: the exact powers of what one step does; `equivalent(other)`:
    whether both are one up to a gauge; `at(width, depth)`: the numbers of a network. Source: abc-parametrizations,
    [2011.14522].

    >>> print(parametrization("mup", optimizer="adam"))
    mup, adam: one step at width n and L blocks
      kind     multiplier  variance  rate
      input    1           1         1
      hidden   1           1/n       1/n
      readout  1/n         1         1
      bias     1           1         1
    >>> own = parametrization("mup", readout={"multiplier": "1/sqrt(n)"})
    >>> own.equivalent(parametrization("mup"))
    False
    """

    input: Scaling = PLAIN
    hidden: Scaling = PLAIN
    readout: Scaling = PLAIN
    bias: Scaling = PLAIN
    branch: Monomial = ONE
    eps: Monomial = ONE
    decay: Monomial = ONE
    optimizer: str = "adam"
    base_width: int = 1
    base_depth: int = 1
    name: str = "own"
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for kind in KINDS:
            object.__setattr__(self, kind, scaling_of(getattr(self, kind), kind))
        for what in ("branch", "eps", "decay"):
            object.__setattr__(self, what, Monomial.read(getattr(self, what), f"The factor {what}"))
        choice(self.optimizer, "optimizer", OPTIMIZERS)
        for base in ("base_width", "base_depth"):
            object.__setattr__(self, base, whole(getattr(self, base), base, 1, 1 << 30))

    def of(self, kind: str) -> Scaling:
        """The scaling of one kind of matrix."""
        return getattr(self, choice(kind, "kind", KINDS))

    def stepping(self, kind: str) -> str:
        """By which optimizer the matrices of a kind are moved: Muon moves hidden ones, Adam the others beside it."""
        return "adam" if self.optimizer == "muon" and kind != "hidden" else self.optimizer

    def gauge(self, kind: str, factor: object) -> Parametrization:
        """The same networks with the multiplier of one kind of matrix times `factor`, and the stored weights divided by
        it.

        >>> mup = parametrization("mup", optimizer="sgd")
        >>> mup.gauge("hidden", "1/sqrt(n)").hidden
        Scaling(multiplier='1/sqrt(n)', variance='1', rate='n', eps='1/sqrt(n)')
        >>> mup.gauge("hidden", "1/sqrt(n)").equivalent(mup)
        True
        """
        made = self.of(kind).gauge(Monomial.read(factor, "A gauge"), self.stepping(kind))
        changed: dict[str, Any] = {kind: made}
        if kind == "hidden":  # what decay takes from W in a step stays the same share
            changed["decay"] = self.decay * self.hidden.rate / made.rate
        return replace(self, **changed, name=f"{self.name} in another gauge")

    def equivalent(self, other: Parametrization, *, ignore_eps_and_decay: bool = False) -> bool:
        """Whether both move the same functions in the same way: their matrices differ by a gauge alone.

        ε and weight decay belong to it: Adam compares ε with the gradient by the stored W, which a gauge multiplies.
        ignore_eps_and_decay: compare as where both are 0, so that their powers do not count.

        >>> mup, other = parametrization("mup", optimizer="sgd"), parametrization("mean_field", optimizer="sgd")
        >>> mup.equivalent(other), mup.equivalent(other, ignore_eps_and_decay=True)
        (False, True)
        """
        if not isinstance(other, Parametrization):
            raise MeanFieldError(f"equivalent compares with another Parametrization, but {shown(other)} was given.")
        both = self, other
        if flag(ignore_eps_and_decay, "ignore_eps_and_decay"):
            both = self._without_eps_and_decay(), other._without_eps_and_decay()
        return both[0].invariants() == both[1].invariants()

    def _without_eps_and_decay(self) -> Parametrization:
        """The same with their powers so that no gauge is left in them."""
        kinds: dict[str, Any] = {kind: replace(self.of(kind), eps=self.of(kind).multiplier) for kind in KINDS}
        return replace(self, **kinds, eps=ONE, decay=ONE / self.hidden.rate)

    def invariants(self) -> dict[str, Any]:
        """What no gauge changes: by kind the variance of M W, the step of M W and, of Adam, ε/M; the factor of
        branches, and of hidden matrices the rate times the decay."""
        same: dict[str, Any] = {"optimizer": self.optimizer, "base": (self.base_width, self.base_depth)}
        for kind in KINDS:
            one, how = self.of(kind), self.stepping(kind)
            eps = None if how != "adam" else self.eps * one.eps / one.multiplier
            same[kind] = one.effective(), one.step(how), eps
        return same | {"branch": self.branch, "decay": self.hidden.rate * self.decay}

    def powers(self, architecture: Any = "tanh", /, **parameters: Any) -> Powers:
        """The exact powers of n and L that one step gives every layer and the output; see `Powers`.

        architecture: a record, a theory or an activation, with what `derive` takes.

        >>> print(parametrization("ntk", optimizer="sgd").powers("tanh").verdict)
        lazy
        """
        return powers_of(self, architecture, parameters)

    def at(self, width: int, depth: int = 1) -> dict[str, dict[str, float]]:
        """The factors at a width and a number of blocks, by kind of matrix, and of branch, eps and decay.

        >>> parametrization("mup").at(1024)["hidden"]["rate"]
        0.0009765625
        """
        n = whole(width, "width", 1, 1 << 30) / self.base_width
        blocks = whole(depth, "depth", 1, 1 << 30) / self.base_depth
        out = {
            kind: {f.name: getattr(self.of(kind), f.name).at(n, blocks) for f in fields(Scaling)} for kind in KINDS
        }
        return out | {"factors": {w: getattr(self, w).at(n, blocks) for w in ("branch", "eps", "decay")}}

    def data(self) -> dict[str, Any]:
        kinds = {k: dict(zip(self._columns(), cells)) for k, *cells in self._rows(str)}
        factors = {w: str(getattr(self, w)) for w in ("branch", "eps", "decay")}
        sizes = {"base_width": self.base_width, "base_depth": self.base_depth}
        return {"name": self.name, "optimizer": self.optimizer, **kinds, **factors, **sizes, "source": self.source}

    def _factors(self) -> list[tuple[str, Monomial]]:
        """Those of branch, eps and decay that are not 1."""
        return [(name, one) for name in ("branch", "eps", "decay") if not (one := getattr(self, name)).is_one]

    def _rows(self, written: Any) -> list[list[str]]:
        return [[k, *(written(getattr(self.of(k), name)) for name in self._columns())] for k in KINDS]

    def _columns(self) -> list[str]:
        """The powers of a kind; those of ε where a kind has its own."""
        own = any(not self.of(k).eps.is_one for k in KINDS)
        return [f.name for f in fields(Scaling) if own or f.name != "eps"]

    def __str__(self) -> str:
        head = f"{self.name}, {self.optimizer}: one step at width n and L blocks"
        table = columns([["kind", *self._columns()], *self._rows(str)])
        rest = [f"{name} {one}" for name, one in self._factors()]
        if (self.base_width, self.base_depth) != (1, 1):
            rest.append(f"n = width/{self.base_width}, L = blocks/{self.base_depth}")
        return "\n".join([head, *("  " + row for row in table), *(["  " + ", ".join(rest)] if rest else [])])

    __repr__ = __str__

    def latex(self) -> str:
        """A table of the powers as LaTeX (booktabs)."""
        rows = [[k, *(f"${c}$" for c in cells)] for k, *cells in self._rows(lambda one: one.latex())]
        bases = {"n = width": self.base_width, "L = blocks": self.base_depth}
        said = ", ".join(name if base == 1 else f"{name}/{base}" for name, base in bases.items())
        caption = prose(f"Powers of {self.name} under {self.optimizer}: {said}" + (";" if self._factors() else "."))
        if self._factors():
            caption += " " + ", ".join(f"{name} ${one.latex()}$" for name, one in self._factors()) + "."
        return booktabs(caption, ["kind", *self._columns()], rows, texts=1)
