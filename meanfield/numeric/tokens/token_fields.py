"""What flows through one draw of the token matrices: at every token a function of a Gaussian, of infinitely many
channels.

Given the drawn matrices, a channel is one sample of the vector of its T tokens. A `Base` is such a vector, taken as
Gaussian: its mean (the same in every channel, as biases of the token matrices are), its covariance, its covariance with
the other bases that are alive, and Gram matrices of tangents, which are independent of it. A signal is a sum of
functions of one base each (`FieldTerm`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.numeric.tokens.expansions import HermiteExpansion, expand, pairs
from meanfield.numeric.tokens.token_functions import Elementwise, Line, added


@dataclass(eq=False)
class FieldTerm:
    """x_t = f_t(z_t), z the vector of a base."""

    base: int
    f: Elementwise
    expansion: HermiteExpansion | None = None


Signal = tuple[FieldTerm, ...]


@dataclass(frozen=True, eq=False)
class SignalMoments:
    """Mean and covariance of a signal, tangent Gram matrices, and those with other bases."""

    mean: np.ndarray
    own: tuple[np.ndarray, ...]  # the covariance, then the Gram matrices
    across: dict[int, tuple[np.ndarray, ...]]


class Fields:
    """The bases of one draw. error: the largest error of a pair's average so far, see `expansions.pairs`."""

    def __init__(self) -> None:
        self._means: dict[int, np.ndarray] = {}
        self._grams: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}
        self._next = 0
        self.error = 0.0
        self.closed = False  # whether a sum of functions over tokens was taken as Gaussian
        self.narrow: set[int] = set()  # bases of finitely many channels, whose averages are not numbers

    def base(
        self,
        mean: np.ndarray,
        own: tuple[np.ndarray, ...],
        across: dict[int, tuple[np.ndarray, ...]] | None = None,
        gaussian: bool = True,
    ) -> Signal:
        """A new base, as the signal it is; across[i]: (tokens of the new one, tokens of base i)."""
        name = self._next
        self._next += 1
        self._means[name] = mean
        self._grams[name, name] = own
        for other, grams in (across or {}).items():
            self._grams[other, name] = tuple(gram.T for gram in grams)
        return (FieldTerm(name, Line(np.ones(len(mean)), np.zeros(len(mean)), gaussian)),)

    def tokens(self, signal: Signal) -> int:
        """How many tokens a signal has."""
        return len(self._means[signal[0].base])

    def keep(self, signals: Iterable[Signal]) -> None:
        """Forget the bases that none of the signals knows."""
        alive = {term.base for signal in signals for term in signal}
        self._means = {name: m for name, m in self._means.items() if name in alive}
        self._grams = {pair: g for pair, g in self._grams.items() if set(pair) <= alive}

    def grams(self, one: int, other: int) -> tuple[np.ndarray, ...] | None:
        """Covariance and tangent Gram matrices of two bases, None where they are independent."""
        if (one, other) in self._grams:
            return self._grams[one, other]
        found = self._grams.get((other, one))
        return None if found is None else tuple(gram.T for gram in found)

    def expansion(self, term: FieldTerm) -> HermiteExpansion:
        if term.expansion is None:
            term.expansion = expand(term.f, self._means[term.base], self._grams[term.base, term.base][0])
        return term.expansion

    def spread(self, signal: Signal) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of a signal at every token, over the channels."""
        mean, variance = np.zeros(()), np.zeros(())
        for i, one in enumerate(signal):
            mean = mean + self._mean(one)
            for other in signal[: i + 1]:
                both = self._pair(one, other)
                if both is not None:
                    variance = variance + (1.0 if one is other else 2.0) * np.diag(both[0])
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def moments(self, signal: Signal, others: Iterable[int] = ()) -> SignalMoments:
        """Mean, covariance and Gram matrices of a signal; and with the bases `others`."""
        mean = np.asarray(sum(self._mean(term) for term in signal))
        tokens = len(mean)
        count = len(self._grams[signal[0].base, signal[0].base])
        own = [np.zeros((tokens, tokens)) for _ in range(count)]
        for i, one in enumerate(signal):
            for other in signal[: i + 1]:
                both = self._pair(one, other)
                for k in range(count if both is not None else 0):
                    own[k] += both[k] if one is other else both[k] + both[k].T  # type: ignore[index]
        across = {}
        for name in others:
            found = [self._with_base(term, name) for term in signal]
            held = [f for f in found if f is not None]
            if held:
                across[name] = tuple(np.asarray(sum(parts)) for parts in zip(*held))
        return SignalMoments(mean, tuple(own), across)

    def _mean(self, term: FieldTerm) -> np.ndarray:
        if isinstance(term.f, Line):
            return term.f.a * self._means[term.base] + term.f.b
        return self.expansion(term).mean

    def _slope(self, term: FieldTerm) -> np.ndarray:
        """⟨f′⟩ at every token."""
        return term.f.a if isinstance(term.f, Line) else self.expansion(term).slope

    def _with_base(self, term: FieldTerm, name: int) -> tuple[np.ndarray, ...] | None:
        """Cov(f(z_s), y_t) = ⟨f′⟩ Cov(z_s, y_t), by Stein's lemma; tangents likewise."""
        grams = self.grams(term.base, name)
        return None if grams is None else tuple(self._slope(term)[:, None] * gram for gram in grams)

    def _pair(self, one: FieldTerm, other: FieldTerm) -> tuple[np.ndarray, ...] | None:
        grams = self.grams(one.base, other.base)
        if grams is None:
            return None
        if one.f.is_line or other.f.is_line:
            factor = self._slope(one)[:, None] * self._slope(other)
            return tuple(factor * gram for gram in grams)
        first, second = self.expansion(one), self.expansion(other)
        sd = [np.sqrt(np.maximum(np.diag(self._grams[t.base, t.base][0]), 0.0)) for t in (one, other)]
        scale = sd[0][:, None] * sd[1]
        rho = np.divide(grams[0], scale, out=np.zeros_like(scale), where=scale > 0)
        cov, slopes, error = pairs(first, second, np.clip(rho, -1.0, 1.0))
        self.error = max(self.error, error)
        return (cov, *(slopes * gram for gram in grams[1:]))


def summed(signals: Iterable[Signal]) -> Signal:
    """The sum of signals: functions of one base are one function."""
    by_base: dict[int, list[FieldTerm]] = {}
    for signal in signals:
        for term in signal:
            by_base.setdefault(term.base, []).append(term)
    return tuple(
        terms[0] if len(terms) == 1 else FieldTerm(name, added([t.f for t in terms])) for name, terms in by_base.items()
    )


def scaled(signal: Signal, a: np.ndarray | float, b: np.ndarray | float = 0.0) -> Signal:
    """a x + b, numbers or one for each token."""
    found = []
    for i, term in enumerate(signal):
        shift = b if i == 0 else 0.0
        known = None if term.expansion is None else term.expansion.scaled(np.asarray(a), np.asarray(shift))
        found.append(FieldTerm(term.base, term.f.scaled(a, shift), known))
    return tuple(found)


def is_gaussian(signal: Signal) -> bool:
    return all(isinstance(term.f, Line) and term.f.gaussian for term in signal)


def refuse_equal(sd: np.ndarray, layer: int, norm: str = "LayerNorm", met: str = "equal numbers") -> None:
    """A norm of channels that are all equal (or all 0) divides by 0."""
    if not (np.isfinite(sd).all() and (sd > 0).all()):
        where = int(np.argmin(np.where(np.isfinite(sd), sd, -1.0)))
        raise MeanFieldError(
            f"The {norm} of the block that makes layer {layer} meets {met} in all channels of token {where}; take "
            f"sigma_w > 0, or leave that {norm} out."
        )
