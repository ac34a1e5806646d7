r"""n(E K − K) of two inputs of a plain network with Gaussian weights: K_aa, K_ab and K_bb, layer by layer.

Given the Gram matrix O_pq = (1/n) Σ_j σ(z_p)σ(z_q), the neurons of the next layer are independent, so with fluctuations
δQ′ = G δQ + X, G = C_W ∂O/∂K,

    n E[Q′ − K′] = G·(n E[Q − K]) + C_W/2 ∂²O/∂K∂K · Y,    Y′ = G Y Gᵀ + C_W² ⟨O O⟩_c.

All averages are of functions of one z each, ⟨σ(z_a)^i σ(z_b)^j⟩ and derivatives: sums over Hermite coefficients times
powers of the correlation (`quadrature.hermite`), derivatives by Price's theorem. Source: derived here; the maps of G1
and V of `symbolic.finite_width` are another route to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.functions.activations import Activation
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.hermite import HermiteSpectrum, spectrum

Numbers = Sequence[float] | np.ndarray
GRAM = tuple(combinations_with_replacement((0, 1), 2))  # aa, ab, bb
POWERS = (1, 2, 3)  # of σ whose coefficients are needed
LOST = 1e-8  # what coefficients that are left out may add, of the scale of an average


@dataclass(frozen=True)
class PairCoefficients:
    """The coefficients of σ, σ² and σ³ at either input, and the correlation."""

    at: tuple[HermiteSpectrum, HermiteSpectrum]
    K: tuple[float, float]
    c: float

    def mean(self, powers: tuple[int, int], by: tuple[int, int] = (0, 0)) -> float:
        """⟨∂^by_0 σ(z_a)^powers_0 · ∂^by_1 σ(z_b)^powers_1⟩, in the weak sense."""
        if 4 in powers:
            return float(self.at[powers.index(4)].products[1, 1])
        a, b = (self._derivative(i, p, d) for i, (p, d) in enumerate(zip(powers, by)))
        length = min(len(a), len(b))
        return float((a[:length] * b[:length] * self.c ** np.arange(length)).sum())

    def _derivative(self, i: int, power: int, times: int) -> np.ndarray:
        found = self.at[i].c[power - 1] if power else np.eye(1, self.at[i].c.shape[1])[0]
        for _ in range(times):
            found = np.sqrt(np.arange(1, len(found)) / self.K[i]) * found[1:]
        return found


def next_layer(shift: np.ndarray, Y: np.ndarray, pair: PairCoefficients, C: float) -> tuple[np.ndarray, np.ndarray]:
    """(n E[Q − K], n cov(δQ)) of the next layer, Q in the order of `GRAM`."""
    slopes = C * np.array([[_differentiated(pair, o, (q,)) for q in GRAM] for o in GRAM])
    second = C * np.array([[[_differentiated(pair, o, (q, r)) for r in GRAM] for q in GRAM] for o in GRAM])
    means = np.array([pair.mean(_powers(o)) for o in GRAM])
    products = np.array([[pair.mean(_powers(o + p)) for p in GRAM] for o in GRAM])
    new = slopes @ shift + 0.5 * np.einsum("oqr,qr->o", second, Y)
    return new, slopes @ Y @ slopes.T + C**2 * (products - np.outer(means, means))


def _powers(inputs: tuple[int, ...]) -> tuple[int, int]:
    return inputs.count(0), inputs.count(1)


def _differentiated(pair: PairCoefficients, of: tuple[int, int], by: tuple[tuple[int, int], ...]) -> float:
    """∂…⟨σ_p σ_q⟩/∂K_…: ½ ∂_a² for K_aa, ∂_a∂_b for K_ab."""
    places = tuple(i for q in by for i in q)
    number = math.prod(0.5 if q[0] == q[1] else 1.0 for q in by)
    if any(i not in of for i in places):
        return 0.0
    return number * pair.mean(_powers(of), _powers(places))


def pair_corrections(
    phi: Activation, K_aa: Numbers, K_ab: Numbers, K_bb: Numbers, C_W: Numbers
) -> dict[str, np.ndarray]:
    """n(E K − K) of "K_aa", "K_ab", "K_bb" at layers 1, 2, … from those of infinite width; C_W: of the blocks that make
    layers 2, 3, ….

    Raises: MeanFieldError where the correlation is so near ±1 that the sums do not converge.

    >>> from meanfield.functions.activations import activation
    >>> found = pair_corrections(activation("z"), [1, 1, 1], [0.5, 0.5, 0.5], [1, 1, 1], [1, 1])
    >>> bool(abs(found["K_ab"]).max() < 1e-14)
    True
    """
    shift, Y, out = np.zeros(3), np.zeros((3, 3)), [np.zeros(3)]
    for k, C in enumerate(np.asarray(C_W, dtype=float).tolist()):
        tick()
        K, c = (float(K_aa[k]), float(K_bb[k])), float(K_ab[k]) / math.sqrt(K_aa[k]) / math.sqrt(K_bb[k])
        at = tuple(spectrum(lambda z: _values(phi, z), x, _breaks(phi), min(abs(c), 1.0)) for x in K)
        if max(one.missing for one in at) > LOST:
            raise MeanFieldError(
                f"The corrections of order 1/n of two inputs through {phi.name} are not available: at layer {k + 1} "
                f"their correlation {c:.6g} is too near to 1."
            )
        shift, Y = next_layer(shift, Y, PairCoefficients((at[0], at[1]), K, c), C)
        out.append(shift)
    return dict(zip(("K_aa", "K_ab", "K_bb"), np.array(out).T))


def _values(phi: Activation, z: np.ndarray) -> np.ndarray:
    value = evaluate(phi.pieces.expr, z)
    return np.stack([value**p for p in POWERS])


@lru_cache(maxsize=64)
def _breaks(phi: Activation) -> tuple[float, ...]:
    return tuple(float(b) for b in phi.pieces.breaks)
