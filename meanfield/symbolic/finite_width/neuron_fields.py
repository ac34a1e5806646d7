r"""What stands in a sum over neurons: σ^{(d)}(z_{j;a}), tensors such as H_{jk;ab}, averages over one neuron.

Neurons and inputs are labels: SymPy symbols for neurons, integers for inputs; input 0 is the only one, and not printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import Any

import sympy as sp

NEURON = sp.Symbol("neuron")  # the label of an average over one neuron: not printed
LETTERS = sp.symbols("j k m p q r s t")  # of different neurons


def left(*numbers: int) -> tuple[sp.Symbol, ...]:
    """Labels of neurons of the layer that is made: i1, i2, …"""
    return tuple(sp.Symbol(f"i{number}") for number in numbers)


def right(number: int) -> sp.Symbol:
    """A label of the layer before, which is summed over: j1, j2, …"""
    return sp.Symbol(f"j{number}")


class Field(sp.Function):
    """A quantity of the layer before with labels; an atom to calculus."""

    _diff_wrt = True
    is_commutative = True
    is_real = True

    @classmethod
    def eval(cls, *args):
        return None


class Sigma(Field):
    r"""σ^{(d)}(z_{j;a}): arguments d, a, j."""

    def _text(self, prime: Callable[[int], str], index: Callable[[Any, Sequence[Any]], str]) -> str:
        order, a, label = self.args
        return prime(int(order)) + index(label, [a])

    def _sympystr(self, printer: Any) -> str:
        return self._text(lambda d: "σ" + _primes(d), _plain)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return _power(self._text(lambda d: r"\sigma" + (_primes(d) if d else ""), _subscript), exp)


class Preactivation(Field):
    r"""z_{j;a}: arguments a, j."""

    def _sympystr(self, printer: Any) -> str:
        return "z" + _plain(self.args[1], [self.args[0]])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return _power("z" + _subscript(self.args[1], [self.args[0]]), exp)


class Tensor(Field):
    """A tensor of the layer before, such as H_{jk;ab}: arguments its name (a symbol), the labels, the inputs.

    Of the orders that its symmetry allows, it stands in one.
    """

    @classmethod
    def eval(cls, name, labels, inputs):
        best = min(
            (([labels[p] for p in s], [inputs[p] for p in s]) for s in SYMMETRIES[name.name]),
            key=lambda one: [(str(label), int(a)) for label, a in zip(*one)],
        )
        if list(labels) != best[0] or list(inputs) != best[1]:
            return cls(name, sp.Tuple(*best[0]), sp.Tuple(*best[1]))
        return None

    name = property(lambda self: self.args[0].name)
    labels = property(lambda self: tuple(self.args[1]))
    inputs = property(lambda self: tuple(self.args[2]))

    def _sympystr(self, printer: Any) -> str:
        return self.name + _plain(" ".join(map(str, self.labels)), self.inputs)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        labels = " ".join(sp.latex(label) for label in self.labels)
        return _power(TENSOR_LATEX[self.name] + _subscript(labels, self.inputs), exp)


#: the orders of a tensor's labels (each with its input) that make no difference
SYMMETRIES: dict[str, list[tuple[int, ...]]] = {
    "H": [(0, 1), (1, 0)],
    "dH": [(0, 1, 2), (0, 2, 1)],
    "ddI": [(0, *p) for p in permutations((1, 2, 3))],
    "ddII": [(0, 1, 2, 3), (1, 0, 3, 2)],
}
TENSOR_LATEX = {
    "H": r"\widehat{H}",
    "dH": r"\widehat{dH}",
    "ddI": r"\widehat{dd_{\mathrm I}H}",
    "ddII": r"\widehat{dd_{\mathrm{II}}H}",
}


class Mean(sp.Expr):
    r"""⟨∂_a ∂_b … f⟩ of one neuron, z_a Gaussian over inputs: f in `Sigma` of the label `NEURON`, and the inputs
    by whose z the average is differentiated (in the weak sense, so that kinks count)."""

    is_commutative = True
    is_real = True

    def __new__(cls, f: sp.Expr, by: Iterable[int] = ()) -> sp.Expr:
        f, order = sp.sympify(f), sp.Tuple(*sorted(by))
        if not f.has(Sigma, Preactivation):
            return f if not order else sp.S.Zero
        return super().__new__(cls, f, order)

    f = property(lambda self: self.args[0])
    by = property(lambda self: tuple(int(a) for a in self.args[1]))

    def _sympystr(self, printer: Any) -> str:
        derivatives = "".join(f"∂{a or ''}" for a in self.by)
        return f"<{derivatives + ' ' if derivatives else ''}{_bracketed(str(self.f), bool(self.by))}>"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        derivatives = "".join(rf"\partial_{{{a}}}" if a else r"\partial" for a in self.by)
        inner = _bracketed(sp.latex(self.f), bool(self.by))
        return _power(rf"\left\langle {derivatives} {inner} \right\rangle", exp)


class Expected(sp.Expr):
    """E[f] over the layer before, f of different neurons j ≠ k ≠ …: exact, not yet expanded."""

    is_commutative = True
    is_real = True

    def __new__(cls, f: sp.Expr) -> sp.Expr:
        f = sp.sympify(f)
        return super().__new__(cls, f) if f.has(Field) else f

    f = property(lambda self: self.args[0])

    def _sympystr(self, printer: Any) -> str:
        return f"E[{self.f}]"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return _power(rf"\mathbb{{E}}\left[{sp.latex(self.f)}\right]", exp)


def labels_of(f: sp.Expr) -> list[sp.Symbol]:
    """The neurons that a summand names, in the order of their names."""
    found: set[sp.Symbol] = set()
    for field in f.atoms(Field):
        found |= {field.args[-1]} if not isinstance(field, Tensor) else set(field.labels)
    return sorted(found, key=str)


def relabelled(f: sp.Expr, new: dict[sp.Symbol, sp.Symbol]) -> sp.Expr:
    """A summand with labels replaced, all at once."""
    if not new:
        return f
    swap = {}
    for field in f.atoms(Field):
        if isinstance(field, Tensor):
            changed = sp.Tuple(*[new.get(x, x) for x in field.labels])
            swap[field] = Tensor(field.args[0], changed, field.args[2])
        else:
            swap[field] = field.func(*field.args[:-1], new.get(field.args[-1], field.args[-1]))
    return f.xreplace(swap)


def canonical(f: sp.Expr) -> sp.Expr:
    """A summand of different neurons in the letters j, k, …, the same whichever way they were called."""
    labels = labels_of(f)
    if len(labels) < 2:
        return relabelled(f, dict(zip(labels, LETTERS)))
    choices = (relabelled(f, dict(zip(order, LETTERS))) for order in permutations(labels))
    return min(choices, key=lambda e: sp.default_sort_key(e))


def _primes(d: int) -> str:
    return "'" * d if d < 4 else f"^({d})"


def _plain(label: Any, inputs: Sequence[Any]) -> str:
    named = "" if label == NEURON else str(label)
    which = " ".join(str(a) for a in inputs if a)
    return f"_{{{named}{';' if named and which else ''}{which}}}" if named or which else ""


def _subscript(label: Any, inputs: Sequence[Any]) -> str:
    named = "" if label == NEURON else label if isinstance(label, str) else sp.latex(label)
    which = " ".join(str(a) for a in inputs if a)
    return f"_{{{named}{';' if named and which else ''}{which}}}" if named or which else ""


def _bracketed(text: str, needed: bool) -> str:
    return f"({text})" if needed and (" " in text or "*" in text) else text


def _power(text: str, exp: str | None) -> str:
    return text if exp is None else f"{{{text}}}^{{{exp}}}"
