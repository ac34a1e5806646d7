"""How the matrices of one kind scale with width and depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from meanfield.base.arguments import record, shown
from meanfield.base.errors import MeanFieldError
from meanfield.base.words import unknown
from meanfield.parametrizations.exponents.monomial import Monomial

KINDS = ("input", "hidden", "readout", "bias")
OPTIMIZERS = ("sgd", "adam", "muon")
ONE = Monomial()


@record
@dataclass(frozen=True)
class Scaling:
    """The powers of one kind of matrix: a Dense makes M W a, with entries W ~ N(0, variance) that an optimizer moves.

    multiplier: M; variance: of an entry of W; rate: its learning rate; eps: of Adam's ε here. Each is a formula in n
    (width over base width) and L (blocks over base depth), and multiplies what the matrix has at the base: M = 1, the
    variance σ_w²/fan-in of the record, and the rate and the ε that a run is given.

    >>> Scaling(variance="1/n", rate="1/n")
    Scaling(multiplier='1', variance='1/n', rate='1/n')
    """

    multiplier: Monomial = ONE
    variance: Monomial = ONE
    rate: Monomial = ONE
    eps: Monomial = ONE

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, Monomial.read(getattr(self, one.name), f"The {one.name} of a matrix"))

    def __repr__(self) -> str:
        held = [f.name for f in fields(self) if f.name != "eps" or not self.eps.is_one]
        return f"Scaling({', '.join(f'{name}={str(getattr(self, name))!r}' for name in held)})"

    def effective(self) -> Monomial:
        """What the variance of M W has: multiplier² · variance."""
        return self.multiplier**2 * self.variance

    def step(self, optimizer: str) -> Monomial:
        """What the change of M W in one step has, beside the gradient by M W: multiplier² · rate where the optimizer's
        step is proportional to the gradient (sgd), multiplier · rate where it does not know its size."""
        return self.multiplier ** (2 if optimizer == "sgd" else 1) * self.rate

    def gauge(self, factor: Monomial, optimizer: str) -> Scaling:
        """The same matrix with M times `factor` and W divided by it: another multiplier, the same network."""
        return Scaling(
            self.multiplier * factor,
            self.variance / factor**2,
            self.rate / factor ** (2 if optimizer == "sgd" else 1),
            self.eps * factor,
        )


PLAIN = Scaling()


def scaling_of(given: object, kind: str) -> Scaling:
    if isinstance(given, Scaling):
        return given
    if isinstance(given, Mapping):
        known = [f.name for f in fields(Scaling)]
        for name in given:
            if name not in known:
                raise unknown(f"power of {kind} matrices", name, known)
        return Scaling(**given)
    raise MeanFieldError(
        f"{kind} was to be the powers of its matrices, {{'variance': '1/n', 'rate': '1/n'}}, but {shown(given)} was "
        "given."
    )
