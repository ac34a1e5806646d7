"""Linear networks of finite width: the exact law of what their neurons hold, for one input and without biases.

z^l = W^l z^{l-1} with square W^l: |z^l|² is n Q0 σ_w^{2l} times an independent χ²_n/n for each Gaussian layer (a Haar
matrix keeps the norm), and the direction of z^l is uniform on the sphere. So each law below is a Meijer G-function of
as many gamma variables as there are Gaussian layers, and elementary without any.

>>> found = preactivations(depth=3, width=6, weights="orthogonal", sigma_w="sqrt(1.3)", input_norm="0.7")
>>> print(mpmath.nstr(found.characteristic_function("1.9"), 15))
-0.0461043096110487
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import sympy as sp

from meanfield.base.arguments import choice, record, shown, validated, whole
from meanfield.base.errors import MeanFieldError
from meanfield.base.precision import decimals
from meanfield.functions.reading.parser import number

LAWS = ("gaussian", "orthogonal", "mixed")


@record
@dataclass(frozen=True)
class LinearPreactivations:
    """The law of z^l of one layer of a linear network; see `preactivations`.

    depth: l; width: n; gaussian: how many of its matrices are Gaussian; squared: n Q0 σ_w^{2l}, the mean of |z^l|².
    """

    depth: int
    width: int
    gaussian: int
    squared: sp.Expr

    @validated
    def moment(self, order: int) -> sp.Expr:
        """E[z_1^order], exact: 0 where the order is odd.

        >>> preactivations(depth=2, width=4).moment(4)
        9/2
        """
        m, odd = divmod(whole(order, "The order of a moment", 0, 10**4), 2)
        if odd:
            return sp.S.Zero
        n, half = sp.Integer(self.width), sp.Rational(self.width, 2)
        ratio = sp.Rational(2) ** m * sp.rf(half, m) / n**m  # E[(χ²_n/n)^m]
        return sp.factorial2(2 * m - 1) * self.squared**m * ratio**self.gaussian / (2**m * sp.rf(half, m))

    @validated
    def characteristic_function(self, u: Any, digits: int = 15) -> mpmath.mpf:
        """E[exp(i u z_1)], z_1 one neuron of the layer; real, because z and −z have one law.

        u: a number, or text; digits: of the answer, 15 unless given. Source: [orthogonal_weights] (3.18)-(3.20) for
        Haar weights; derived here for Gaussian ones: Σ_m ((n/2)_m)^{g-1} (-x)^m/m!, x = u²|z|²(2/n)^g/4, and what it
        stands for where it diverges.

        >>> print(preactivations(depth=1, width=50).characteristic_function(1))  # exp(-1/2)
        0.606530659712633
        """
        return self._to(digits, lambda: self._characteristic(_number(u, "u")))

    @validated
    def density(self, z: Any, digits: int = 15) -> mpmath.mpf:
        """The probability density of z_1, one neuron of the layer, at z (a number, or text).

        Source: [orthogonal_weights] (3.22), (3.23) for all neurons of a layer; here for one of them. Infinite at 0 for
        widths up to the number of products that vanish there.

        >>> print(preactivations(depth=1, width=50).density(0))  # 1/sqrt(2 pi)
        0.398942280401433
        """
        return self._to(digits, lambda: self._density(_number(z, "z")))

    @validated
    def norm_density(self, q: Any, digits: int = 15) -> mpmath.mpf:
        """The probability density of |z|²/n at q > 0. Raises: MeanFieldError where all matrices are Haar: |z| is fixed.

        >>> print(preactivations(depth=1, width=2).norm_density(1))  # exp(-1)
        0.367879441171442
        """
        if not self.gaussian:
            raise MeanFieldError(
                "The density of |z|**2/n is not available: orthogonal matrices keep it: it is "
                f"{self.squared / self.width} with probability 1."
            )
        return self._to(digits, lambda: self._of_norm(_number(q, "q")))

    def _to(self, digits: int, value: Callable[[], mpmath.mpf]) -> mpmath.mpf:
        """A value with ten digits more than were asked for, rounded to those."""
        wanted = whole(digits, "digits", 1, 1000)
        with decimals(wanted + 10):
            found = value()
        with decimals(wanted):
            return +found

    @property
    def _scale(self) -> mpmath.mpf:
        """s in |z|² = s·(product of gamma variables of shape n/2)."""
        return _number(self.squared, "squared") * (mpmath.mpf(2) / self.width) ** self.gaussian

    def _characteristic(self, u: mpmath.mpf) -> mpmath.mpf:
        half, x = mpmath.mpf(self.width) / 2, u * u * self._scale / 4
        if self.gaussian == 0:
            return mpmath.hyp0f1(half, -x)
        if self.gaussian == 1:
            return mpmath.exp(-x)
        if self.gaussian == 2:
            return (1 + x) ** -half
        if x == 0:
            return mpmath.mpf(1)
        others = self.gaussian - 1
        return _barnes([(1, mpmath.mpf(0), 1), (-1, half, others)], x, (mpmath.mpf(0), half), half, others)

    def _density(self, z: mpmath.mpf) -> mpmath.mpf:
        half, s = mpmath.mpf(self.width) / 2, self._scale
        if self.gaussian == 0:
            if self.width == 1:
                raise MeanFieldError("One neuron behind orthogonal matrices is ±|z|: it has no density.")
            inside = 1 - z * z / s
            prefactor = mpmath.gamma(half) / (mpmath.sqrt(mpmath.pi * s) * mpmath.gamma(half - 0.5))
            power = (mpmath.mpf(self.width) - 3) / 2
            if inside > 0 or (inside == 0 and power > 0):
                return prefactor * inside**power if power else prefactor
            return prefactor if inside == 0 and not power else mpmath.mpf(mpmath.inf if inside == 0 else 0)
        # z² = s'·(gamma of shape 1/2)·(gamma variables of shape n/2), one fewer
        prefactor = 1 / (mpmath.sqrt(mpmath.pi * s) * mpmath.gamma(half) ** (self.gaussian - 1))
        if z == 0:
            if self.width == 1 and self.gaussian > 1:
                return mpmath.mpf(mpmath.inf)
            return prefactor * mpmath.gamma(half - 0.5) ** (self.gaussian - 1)
        prefactor *= mpmath.gamma(half) ** (self.gaussian - 1)
        return prefactor * self._over(
            [(mpmath.mpf(0), 1), (half - 0.5, self.gaussian - 1)], z * z / s, self.gaussian - 1
        )

    def _of_norm(self, q: mpmath.mpf) -> mpmath.mpf:
        if not q > 0:
            raise MeanFieldError(f"The density of |z|**2/n was asked for at {mpmath.nstr(q, 6)}; give a q > 0.")
        half, y = mpmath.mpf(self.width) / 2, self.width * q / self._scale
        return y / q * self._over([(half - 1, self.gaussian)], y, self.gaussian)

    def _over(self, shapes: list[tuple[mpmath.mpf, int]], y: mpmath.mpf, powers: int) -> mpmath.mpf:
        """∏ over shapes b, each as often as it says, of gamma variables b + 1: the density of their product at y times
        their Γ, over Γ(n/2)^powers."""
        half, every = mpmath.mpf(self.width) / 2, [b for b, often in shapes for _ in range(min(often, 3))]
        if len(every) <= 2:
            a, b = every[0], every[-1]
            log = (a + b) / 2 * mpmath.log(y) - powers * mpmath.loggamma(half)
            if len(every) == 1:
                return mpmath.exp(log - y)
            return 2 * mpmath.exp(log) * mpmath.besselk(a - b, 2 * mpmath.sqrt(y))
        return _barnes([(1, b, often) for b, often in shapes if often], y, (-min(every), mpmath.inf), half, powers)


def _barnes(
    factors: list[tuple[int, mpmath.mpf, int]], y: mpmath.mpf, strip: tuple[mpmath.mpf, mpmath.mpf], half: mpmath.mpf,
    powers: int,
) -> mpmath.mpf:  # fmt: skip
    """(1/2πi) ∫ ∏ Γ(b ± s)^often y^{-s} ds over a vertical line of the strip, over Γ(half)^powers; factors: sign, b and
    how often.

    What stands under the integral is log-convex on the real axis: through its least value there, the line meets no
    cancellation, and the trapezoid rule converges exponentially.
    """
    log_y, shift = mpmath.log(y), powers * mpmath.loggamma(half)

    def exponent(s: mpmath.mpc) -> mpmath.mpc:
        return sum(often * mpmath.loggamma(b + sign * s) for sign, b, often in factors) - s * log_y - shift

    def slope(c: mpmath.mpf) -> mpmath.mpf:
        return sum(sign * often * mpmath.digamma(b + sign * c) for sign, b, often in factors) - log_y

    low, high = strip
    if high == mpmath.inf:
        high = low + 1
        while slope(high) < 0:
            high = low + 2 * (high - low)
    for _ in range(60):
        c = (low + high) / 2
        low, high = (c, high) if slope(c) < 0 else (low, c)
    top = exponent(c)
    step = 1 / mpmath.sqrt(sum(often * mpmath.psi(1, b + sign * c) for sign, b, often in factors))
    least = mpmath.mpf(10) ** (5 - mpmath.mp.dps)  # five digits less than are carried

    def terms(first: mpmath.mpf, apart: mpmath.mpf) -> mpmath.mpf:
        total, t = mpmath.mpf(0), first
        while True:
            one = mpmath.exp(exponent(mpmath.mpc(c, t)) - top)
            total += one.real
            if abs(one) < least:
                return total
            t += apart

    total = mpmath.mpf(1) / 2 + terms(step, step)
    for _ in range(40):
        finer = total + terms(step / 2, step)
        step /= 2
        if abs(finer - 2 * total) <= 10 * least * finer:
            break
        total = finer
    return mpmath.exp(top) * finer * step / mpmath.pi


@validated
def preactivations(
    *, depth: int, width: int, weights: str = "gaussian", sigma_w: Any = 1, input_norm: Any = 1
) -> LinearPreactivations:
    """The law of the preactivations of layer `depth` of a linear network of `width` neurons on `width` inputs.

    weights: "gaussian", "orthogonal" (Haar) or "mixed" (the first matrix Gaussian, the others Haar); sigma_w: σ_w > 0;
    input_norm: |x|²/N_0 > 0; numbers, exact numbers of SymPy or text. No biases.

    Accuracy: exact, to any number of digits. Raises: MeanFieldError for what is no such network.
    """
    choice(weights, "weights", LAWS)
    layers, neurons = whole(depth, "depth", 1, 10**4), whole(width, "width", 1, 10**9)
    sigma, norm = number(sigma_w, "sigma_w"), number(input_norm, "input_norm")
    for name, value, given in (("sigma_w", sigma, sigma_w), ("input_norm", norm, input_norm)):
        if not value.is_number or not value.is_positive:
            raise MeanFieldError(f"{name} must be a number > 0, but {shown(given)} was given.")
    gaussian = {"gaussian": layers, "orthogonal": 0, "mixed": 1}[weights]
    return LinearPreactivations(layers, neurons, gaussian, neurons * norm * sigma ** (2 * layers))


def _number(value: Any, name: str) -> mpmath.mpf:
    """A real number to the present precision."""
    if isinstance(value, mpmath.mpf) and mpmath.isfinite(value):
        return value
    found = number(value, name)
    if not found.is_real:
        raise MeanFieldError(f"{name} must be a real number, but {shown(value)} was given.")
    return mpmath.mpf(sp.N(found, mpmath.mp.dps + 5))
