"""`ClassFraction`: the law, over random weights, of the fraction of inputs that a network puts in class 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sympy import Expr

from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import record, refuse_not_real, scalar, shown, validated, whole
from meanfield.bias import class_numbers as law
from meanfield.functions.reading.parser import number

ORDERS, CLASSES, INPUTS = 100, 10**4, 10**12  # the most there may be
HUGE = 1e300  # √γ beyond it gives the same doubles
Table = tuple[np.ndarray, np.ndarray, np.ndarray]
ROUNDED = 4e-16  # relative, by which k/n·n may miss k
TIE = 1e-13  # relative, by which a probability may miss a value of the cdf on the lattice and still mean it


@record
@dataclass(frozen=True)
class ClassFraction:
    r"""The fraction G_0 of inputs that a wide network assigns to class 0, as a random variable over its weights.

    Output k at an input is y_k = μ_k + σ_y ε_k with ε_k ~ N(0, 1) over inputs and μ_k ~ N(0, σ_μ²) over weights, all
    independent; the largest output names the class. Of two classes and infinitely many inputs G_0 = Φ(√γ δ) with
    γ = σ_μ²/σ_y² and δ ~ N(0, 1), uniform at γ = 1, of one maximum at ½ below and of two at 0 and 1 above.

    gamma: γ ≥ 0, a number or text ("1/3"), or infinity; `log_gamma` gives its logarithm instead, which may lie beyond
    any double. classes: C from 2 to 10⁴. inputs: how many inputs the fraction is taken of; None: infinitely many.

    The methods are those of SciPy's frozen distributions, all of them in values g of G_0, which broadcast: of n inputs
    g = k/n for k of them in class 0, in `pmf` and `cdf` as in what `ppf` and `rvs` give. γ = 0 puts all mass at 1/C,
    γ = ∞ puts 1/C at 1 and the rest at 0; with infinitely many inputs these have no density.

    Accuracy. Two classes: closed forms, and for finitely many inputs integrals, to 1e-13 relative. More classes: mean,
    var, std, the second moment and largest to 1e-12, rvs exact in law; pdf, pmf, cdf, sf, ppf and higher moments rest
    on quasi-random centres with fixed seeds, and `cdf_error` says how well cdf is known: to 3e-5 for C = 3 and 4, 2e-4
    for 10, 2e-3 for 100 and 1000. For C > 2 what lies below g = 1e-17 is extrapolated.

    Raises: MeanFieldError for arguments outside these ranges, a density of what has none, a pmf of what has one.

    Source: [bias_and_trainability] (43)–(45) for two classes and infinitely many inputs; the rest derived here.

    >>> law = ClassFraction(2)
    >>> print(law, round(law.var(), 6), round(law.cdf(0.2), 6), round(law.largest(), 6))
    ClassFraction(gamma = 2, 2 classes, all inputs) 0.11614 0.275883 0.804087
    >>> some, counts = ClassFraction(1, inputs=4), np.arange(5)
    >>> print(some.pmf(counts / 4).round(12), some.cdf(counts / 4).round(12))
    [0.2 0.2 0.2 0.2 0.2] [0.2 0.4 0.6 0.8 1. ]
    """

    gamma: Any = None
    classes: int = 2
    inputs: int | None = None
    log_gamma: Any = None

    def __post_init__(self) -> None:
        if (self.gamma is None) == (self.log_gamma is None):
            raise MeanFieldError("ClassFraction takes one of gamma and log_gamma; give γ, or its logarithm.")
        object.__setattr__(self, "classes", whole(self.classes, "classes", 2, CLASSES))
        if self.inputs is not None:
            object.__setattr__(self, "inputs", whole(self.inputs, "inputs", 1, INPUTS))
        self._root  # noqa: B018 - refuses what is no γ

    @cached_property
    def _root(self) -> float:
        """√γ: 0, infinite, or cut to [1/HUGE, HUGE]."""
        if self.gamma is None:
            if _infinite(self.log_gamma):
                return 0.0 if str(self.log_gamma).strip().startswith("-") else math.inf
            half = float(_real(self.log_gamma, "log_gamma")) / 2
            return math.exp(min(max(half, -math.log(HUGE)), math.log(HUGE)))
        if _infinite(self.gamma) and not str(self.gamma).strip().startswith("-"):
            return math.inf
        given = _real(self.gamma, "gamma")
        if given < 0:
            raise MeanFieldError(f"gamma must be a number ≥ 0, but {shown(self.gamma)} was given.")
        return float(given) ** 0.5

    @property
    def _atoms(self) -> tuple[tuple[float, float], ...]:
        """(place, mass) where that is all there is: γ = 0 or ∞ and infinitely many inputs."""
        if self._root == 0:
            return ((1 / self.classes, 1.0),)
        return ((0.0, 1 - 1 / self.classes), (1.0, 1.0)) if self._root == math.inf else ()

    # -------------------------------------------------------------------------------------------- the law of G_0

    @validated
    def pdf(self, x: Any) -> Any:
        """The density at g, for infinitely many inputs; at 0 and 1 its limit, nan where C > 2."""
        if self.inputs is not None:
            raise MeanFieldError(f"{self} has no density: G_0 is a multiple of 1/{self.inputs}; take pmf or cdf.")
        if self._root in (0, math.inf):
            raise MeanFieldError(f"{self} has no density: its mass lies at single points; take cdf.")
        g = _numbers(x, "x")
        v, inside = ndtri(np.clip(g, 0, 1)), (g > 0) & (g < 1)
        with np.errstate(all="ignore"):
            if self.classes == 2:
                found = np.exp((v - v / self._root) * (v + v / self._root) / 2 - self._log_root)
                end = 1.0 if self._root == 1 else 0.0 if self._root < 1 else math.inf
            else:
                slope = law.interpolated(*self._mean_table, v - law.centre(self.classes))[1]
                found = slope * np.exp(v * v / 2 + law.HALF_LOG_2PI)
                end = math.nan
        return _plain(np.where(inside, found, np.where((g < 0) | (g > 1), 0.0, np.where(np.isnan(g), g, end))))

    @validated
    def pmf(self, x: Any) -> Any:
        """P(G_0 = g), for finitely many inputs: of n, k are in class 0 with probability pmf(k/n); 0 between multiples
        of 1/n.

        >>> print(ClassFraction(1, inputs=3).pmf([0, 1/3, 0.5, 1]).round(12))
        [0.25 0.25 0.   0.25]
        """
        if self.inputs is None:
            raise MeanFieldError(f"{self} has no pmf: G_0 takes any value in [0, 1]; take pdf or cdf, or give inputs=.")
        g = _numbers(x, "x")
        k = self._count(g)
        fits = (g >= 0) & (g <= 1) & (np.abs(np.nan_to_num(g) * self.inputs - k) <= ROUNDED * np.abs(k))
        flat = np.where(fits, k, 0.0).ravel()
        if self.classes == 2 and 0 < self._root < math.inf:
            found = law.pmf_of_two(flat, self.inputs, self._root)
        elif self._root == 0:
            from scipy.stats import binom

            found = binom.pmf(flat, self.inputs, 1 / self.classes)
        else:
            found = np.maximum(self._counts(flat) - self._counts(flat - 1), 0.0)
        return _plain(np.where(np.isnan(g), g, np.where(fits, found.reshape(g.shape), 0.0)))

    @validated
    def cdf(self, x: Any) -> Any:
        """P(G_0 ≤ g): for n inputs that at most k of them are in class 0 is cdf(k/n).

        >>> print(ClassFraction(1, inputs=3).cdf([0, 1/3, 0.5, 1]).round(12))
        [0.25 0.5  0.5  1.  ]
        """
        return _plain(self._cdf(_numbers(x, "x")))

    @validated
    def sf(self, x: Any) -> Any:
        """P(G_0 > g), right to all digits where it is small and there are two classes."""
        g = _numbers(x, "x")
        if self.classes > 2:
            return _plain(1 - self._cdf(g))
        if self.inputs is None and not self._atoms:
            found = ndtr(-ndtri(np.clip(g, 0, 1)) / self._root)
            return _plain(np.where(g >= 1, 0.0, np.where(g < 0, 1.0, found)))
        if self.inputs is None:
            return _plain(1 - self._cdf(g))
        count = self._count(g)  # more than k in class 0 is at most n - k - 1 in class 1
        return _plain(self._counts((self.inputs - count - 1).ravel()).reshape(g.shape))

    @validated
    def ppf(self, q: Any) -> Any:
        """The smallest g with P(G_0 ≤ g) ≥ q; nan for q outside [0, 1]."""
        q = _numbers(q, "q")
        inside = (q >= 0) & (q <= 1)
        p = np.where(inside, q, 0.5)
        if self.inputs is not None:
            found = self._lattice(p)
        elif self._atoms:
            found = np.full(p.shape, self._atoms[-1][0])
            for place, mass in self._atoms[::-1]:
                found = np.where(p <= mass, place, found)
        elif self.classes == 2:
            with np.errstate(over="ignore"):
                found = ndtr(self._root * ndtri(p))
        else:
            v, below, slope = self._mean_table
            low, high = np.full(p.shape, v[0]), np.full(p.shape, v[-1])
            for _ in range(60):
                middle = (low + high) / 2
                reached = law.interpolated(v, below, slope, middle)[0] >= p
                low, high = np.where(reached, low, middle), np.where(reached, middle, high)
            found = np.where(p <= 0, 0.0, np.where(p >= 1, 1.0, ndtr(law.centre(self.classes) + high)))
        return _plain(np.where(inside, found, math.nan))

    @validated
    def cdf_error(self, x: Any) -> Any:
        """The standard error of `cdf` at g: 0 for two classes, γ = 0 and γ = ∞."""
        g = _numbers(x, "x")
        if self.classes == 2 or self._atoms:
            return _plain(np.zeros(g.shape))
        v, below, slope = law.table(self.classes, self._root)
        found = np.stack([self._cdf(g, (v, b, s)) for b, s in zip(below, slope)])
        return _plain(found.std(axis=0, ddof=1) / len(found) ** 0.5)

    @validated
    def interval(self, confidence: Any) -> tuple[Any, Any]:
        """The two quantiles between which G_0 lies with this probability, as much mass beyond either."""
        part = _numbers(confidence, "confidence")
        return self.ppf((1 - part) / 2), self.ppf((1 + part) / 2)

    def support(self) -> tuple[float, float]:
        """The smallest interval that holds G_0."""
        if self._root == 0 and self.inputs is None:
            return 1 / self.classes, 1 / self.classes
        return 0.0, 1.0

    # ------------------------------------------------------------------------------------------------- numbers

    def mean(self) -> float:
        """E G_0 = 1/C, by symmetry."""
        return 1 / self.classes

    def median(self) -> float:
        """The smallest g that G_0 does not exceed with probability ½."""
        return self.ppf(0.5)

    def var(self) -> float:
        """Var G_0: arcsin(γ/(1 + γ))/2π for two classes and infinitely many inputs."""
        every = self._covariance
        if self.inputs is None:
            return every
        p = 1 / self.classes
        return every + (p * (1 - p) - every) / self.inputs

    def std(self) -> float:
        """The square root of `var`."""
        return self.var() ** 0.5

    @validated
    def moment(self, order: Any) -> float:
        """E G_0^order, for an order from 0 to 100."""
        m = whole(order, "order", 0, ORDERS)
        if self.inputs is None:
            return self._power(m)
        n, total = self.inputs, 0.0
        ways = [1]  # of Stirling, second kind: K^m is their sum with K(K − 1)…(K − j + 1)
        for _ in range(m):
            ways = [(ways[j] * j if j < len(ways) else 0) + (ways[j - 1] if j else 0) for j in range(len(ways) + 1)]
        falling = Fraction(1, n**m)
        for j, count in enumerate(ways):
            total += float(count * falling) * self._power(j) if count and falling else 0.0
            falling *= n - j
        return total

    def largest(self) -> float:
        """The mean of the largest of all C fractions, for infinitely many inputs: ½ + arctan(√γ)/π for two classes.

        It belongs to the class of the largest μ, so that it is C times the chance that class 0 has that and an
        input's largest score: the second moment of G_0 at the correlation √(γ/(1 + γ)) between μ and score.
        """
        if self.inputs is not None:
            raise MeanFieldError(f"largest of {self} is not available: it is known for infinitely many inputs only.")
        return 1 / self.classes + self.classes * _covariance(self.classes, math.atan(self._root))

    def entropy(self) -> float:
        """−E log pdf(G_0) = ½(1 + log γ − γ), for two classes and infinitely many inputs."""
        if self.inputs is not None or self.classes > 2:
            raise MeanFieldError(
                f"entropy of {self} is not available: it is known for two classes and all inputs only."
            )
        if self._root in (0, math.inf):
            return -math.inf
        return (1 - self._root) * (1 + self._root) / 2 + self._log_root

    @validated
    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Independent draws of G_0. random_state: a seed, a NumPy generator, or None for fresh entropy."""
        rng = random_state
        if not (hasattr(rng, "standard_normal") and hasattr(rng, "binomial")):
            rng = np.random.default_rng(None if rng is None else whole(rng, "random_state", 0, 2**128))
        sides = () if size is None else size if isinstance(size, (tuple, list)) else (size,)
        shape = tuple(whole(s, "size", 0, 2**40) for s in sides)
        count = math.prod(shape)
        if self._root in (0, math.inf):
            flat = np.full(count, 1 / self.classes)
            flat = rng.binomial(1, flat).astype(float) if self._root else flat
        elif self.classes == 2:
            flat = ndtr(self._root * rng.standard_normal(count))
        else:
            part = max(1, 10**7 // self.classes)
            each = [min(part, count - i) for i in range(0, count, part)]
            drawn = [law.fractions_at(rng.standard_normal((n, self.classes)), self._root) for n in each]
            flat = np.concatenate([*drawn, np.zeros(0)])
        if self.inputs is not None:
            flat = rng.binomial(self.inputs, flat) / self.inputs
        return _plain(flat.reshape(shape))

    # ------------------------------------------------------------------------------------------------ its parts
    @cached_property
    def _log_root(self) -> float:
        """log √γ, right also where √γ is cut."""
        return math.log(self._root) if self.gamma is not None else float(_real(self.log_gamma, "log_gamma")) / 2

    @cached_property
    def _covariance(self) -> float:
        """Of what two inputs do: Var G_0 for infinitely many inputs."""
        if self._root in (0, math.inf):
            return _covariance(self.classes, math.pi / 2 if self._root else 0.0)
        inverse = 1 / self._root  # arcsin(γ/(1 + γ)) without loss at either end
        return _covariance(self.classes, math.atan2(1, inverse * math.hypot(inverse, 2**0.5)))

    @cached_property
    def _mean_table(self) -> Table:
        v, below, slope = law.table(self.classes, self._root)
        return v, below.mean(axis=0), slope.mean(axis=0)

    def _power(self, m: int) -> float:
        """E G_0^m for infinitely many inputs: the chance that m inputs all go to class 0."""
        p = 1 / self.classes
        if m < 3:
            return (1.0, p, self._covariance + p * p)[m]
        if self._root in (0, math.inf):
            return p**m if self._root == 0 else p
        if self.classes == 2:
            return float(law.pmf_of_two(np.zeros(1), m, self._root)[0])
        v, below, slope = self._mean_table
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half = np.diff(v)[:, None] / 2
        x = v[:-1, None] + half * (1 + nodes)
        mass = half * weights * law.interpolated(v, below, slope, x)[1]
        return float(np.sum(mass * ndtr(law.centre(self.classes) + x) ** m) + 1 - below[-1])

    def _cdf(self, g: np.ndarray, table: Table | None = None) -> np.ndarray:
        if self.inputs is not None:
            found = self._counts(self._count(g).ravel(), table).reshape(g.shape)
        elif self._atoms:
            found = np.zeros(g.shape)
            for place, mass in self._atoms:
                found = np.where(g >= place, mass, found)
        elif self.classes == 2:
            found = ndtr(ndtri(np.clip(g, 0, 1)) / self._root)
        else:
            held = table or self._mean_table
            found = law.interpolated(*held, ndtri(np.clip(g, 0, 1)) - law.centre(self.classes))[0]
        if not self._atoms or self.inputs is not None:
            found = np.where(g >= 1, 1.0, found)
            found = np.where(g < 0 if self.inputs else g <= 0, 0.0, found)
        return np.where(np.isnan(g), g, found)

    def _count(self, g: np.ndarray) -> np.ndarray:
        """The largest number of inputs whose fraction is at most g; k/n is k although k/n·n may round below it."""
        assert self.inputs is not None
        scaled = np.where(np.isnan(g), 0.0, np.clip(g, -1.0, 2.0)) * self.inputs
        near = np.rint(scaled)
        return np.where(np.abs(scaled - near) <= ROUNDED * np.abs(near), near, np.floor(scaled))

    def _counts(self, k: np.ndarray, table: Table | None = None) -> np.ndarray:
        """P(at most k inputs in class 0) for a flat array of whole numbers."""
        n = self.inputs
        assert n is not None
        found = np.where(k < 0, 0.0, 1.0)
        inside = (k >= 0) & (k < n)
        some, back = np.unique(k[inside], return_inverse=True)
        if not some.size:
            return found
        if self._root == 0:
            from scipy.stats import binom

            below = binom.cdf(some, n, 1 / self.classes)
        elif self._root == math.inf:
            below = np.full(some.shape, 1 - 1 / self.classes)
        elif self.classes == 2:
            below = law.cdf_of_two(some, n, self._root)
        else:
            v, value, slope = table or self._mean_table
            middle = law.centre(self.classes)
            cuts = middle + v[::4]
            below = law.cdf_of_counts(some, n, lambda x: law.interpolated(v, value, slope, x - middle)[0], cuts)
        found[inside] = below[back]
        return found

    def _lattice(self, p: np.ndarray) -> np.ndarray:
        """`ppf` for finitely many inputs, by halving."""
        assert self.inputs is not None
        flat = p.ravel()
        low, high = np.full(flat.shape, -1.0), np.full(flat.shape, float(self.inputs))
        for _ in range(self.inputs.bit_length() + 1):
            middle = np.floor((low + high) / 2)
            reached = self._counts(middle) >= flat * (1 - TIE)
            reached &= middle >= 0
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return (high / self.inputs).reshape(p.shape)

    def __repr__(self) -> str:
        ratio = f"gamma = {self.gamma}" if self.gamma is not None else f"log_gamma = {self.log_gamma}"
        inputs = "all inputs" if self.inputs is None else f"{self.inputs} input{'s' * (self.inputs > 1)}"
        return one_line("ClassFraction", f"{ratio}, {self.classes} classes, {inputs}")


def _covariance(classes: int, angle: float) -> float:
    """P(two inputs in class 0) − 1/C², for scores of correlation sin(angle)."""
    if classes == 2:
        return angle / (2 * math.pi)
    p = 1 / classes
    return p * (1 - p) if angle == math.pi / 2 else law.variance(classes, angle) if angle else 0.0


def _infinite(value: object) -> bool:
    return isinstance(value, (float, str, Expr)) and str(value).strip().lstrip("-") in ("inf", "oo")


def _real(value: Any, what: str) -> Any:
    """One real number, of any size that a double has."""
    whole_range = isinstance(value, float) and math.isfinite(value)
    return number(value if whole_range else scalar(value, what), what)


def _numbers(value: Any, what: str) -> np.ndarray:
    refuse_not_real(value, what)
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise MeanFieldError(f"{what} must be a number or an array of them, but {shown(value)} was given.") from None


def _plain(values: np.ndarray) -> Any:
    """A float for a single number."""
    return float(values) if np.ndim(values) == 0 else values
