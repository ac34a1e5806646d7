"""By how much a chain's Dense move in a first small step, in closed form for wide networks; mpmath alone.

The network: z¹ = M¹W¹x + Mb·b (Dense 0), z' = M·W phi(z) + Mb·b, f = M·w·phi(z); the loss is chi·f and eta → 0. Each
line below was derived from the definitions, and the tests compare them with networks.

1. Backward. delta = ∂L/∂z = phi'(z) q, where q = M Wᵀ delta' comes from above. W is independent of delta' but through
   z' = M W phi(z), which is one direction of W out of n: so q is N(0, Q) and independent of z, with
   Q = M²S² Σ delta'² = M²S² n' ⟨delta'²⟩, ⟨delta²⟩ = ⟨phi'²⟩ Q, starting with delta = chi at the output.
2. A Dense's own part. The stored gradient is M delta aᵀ, so M dW a is −eta M²|a|² delta (SGD), −eta |M| Σ|a_j| sgn
   delta (Adam, eps = 0: sgn(M delta_i a_j) factors, and it is 0 where delta is) and −eta |M| |a|/|delta| delta (Muon:
   the gradient has rank one). With b the same, with Mb and 1 for M and a. So own = −A sgn delta − R₀ delta.
3. What is passed on. Given W a and Wᵀdelta' a Gaussian W is
       W = (W a) aᵀ/|a|² + delta' (Wᵀdelta')ᵀ/|delta'|² − (the part in both) + a fresh W on the rest.
   Acting on Delta a, the first term is ∝ ⟨a Delta a⟩ = 0 (Delta z is odd under (q, xi) → −(q, xi), a = phi(z) is even),
   the second is r delta' with r = Σ q Delta a/Σ delta'² (M Wᵀdelta' = q), and the third is xi, N(0, M²S² Σ (Delta a)²)
   and independent of z' and delta': to be orthogonal to delta' costs one direction out of n'.
   So Delta z = −A sgn delta − R delta + xi, with R = R₀ − r, and Delta a = phi'(z) Delta z.
4. Averages. q is Gaussian: E|q| = √(2Q/π), and
       ⟨q Delta a⟩ = ⟨delta Delta z⟩ = −A ⟨|phi'|⟩ √(2Q/π) − R ⟨phi'²⟩ Q,
       ⟨(Delta a)²⟩ = A² ⟨phi'²⟩ + 2AR ⟨|phi'|³⟩ √(2Q/π) + R² ⟨phi'⁴⟩ Q + ⟨phi'²⟩ X,  X = ⟨xi²⟩,
       ⟨(Delta z)²⟩ = A² P(phi' ≠ 0) + 2AR ⟨|phi'|⟩ √(2Q/π) + R² ⟨phi'²⟩ Q + X.
   The state that is passed on is (K, R, X); Q comes from above.
5. SGD alone: A = 0 and R is Theta, Theta' = eta M²|a|² + eta_b Mb² + M²S²n ⟨phi'²⟩ Theta, the tangent kernel under
   these rates. With X = ⟨delta²⟩B, ⟨(Delta z)²⟩ = ⟨delta²⟩ (Theta² + B), and since
   ⟨delta²⟩ = ⟨phi'²⟩ M²S²n' ⟨delta'²⟩: B' = M⁴S⁴ n n' (⟨phi'²⟩² B + ⟨phi'⁴⟩ Theta²), σ⁴ in front for square W.
6. Outputs. Delta f = own + Σ q Delta a/chi: the second is a sum of n terms, of which only the mean is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import mpmath as mp

from tests.parametrizations.coordinate_nodes import Setting

DIGITS = 20
REACH = 13  # standard deviations that are integrated over: what is beyond is below 1e-37


class Moments(NamedTuple):
    """⟨phi²⟩, ⟨|phi|⟩, ⟨|phi'|⟩, ⟨phi'²⟩, ⟨|phi'|³⟩, ⟨phi'⁴⟩ and P(phi' ≠ 0) for z ~ N(0, K)."""

    square: float
    size: float
    slope: float
    slope2: float
    slope3: float
    slope4: float
    moves: float


def value_and_slope(phi: str, z):
    if phi == "tanh":
        return mp.tanh(z), mp.sech(z) ** 2
    if phi == "relu":
        return (z, mp.mpf(1)) if z > 0 else (mp.mpf(0), mp.mpf(0))
    if phi == "gelu":
        below = mp.ncdf(z)
        return z * below, below + z * mp.npdf(z)
    raise ValueError(f"phi is tanh, relu or gelu, and not {phi}")


@cache
def moments(phi: str, K: float) -> Moments:
    """By quadrature, split where phi or phi' changes its sign and where tanh and gelu bend, whatever K is."""
    with mp.workdps(DIGITS):
        sd = mp.sqrt(mp.mpf(K))
        if sd == 0:
            value, slope = (abs(one) for one in value_and_slope(phi, mp.mpf(0)))
            return Moments(*map(float, (value**2, value, slope, slope**2, slope**3, slope**4, slope != 0)))
        splits = [0, -1, 1, -3, 3]
        if phi == "gelu":
            splits.append(mp.findroot(lambda z: value_and_slope("gelu", z)[1], -0.75))
        inside = [one / sd for one in splits if abs(one / sd) < REACH]
        ends = sorted({mp.mpf(one) for one in (-REACH, -4, -1.5, 1.5, 4, REACH)} | set(map(mp.mpf, inside)))

        @cache
        def at(t):
            value, slope = (abs(one) for one in value_and_slope(phi, sd * t))
            return value, slope, mp.npdf(t)

        def average(f):
            return float(mp.quad(lambda t: f(*at(t)[:2]) * at(t)[2], ends, method="gauss-legendre"))

        slopes = [average(lambda _, slope, k=k: slope**k) for k in (1, 2, 3, 4)]
        square, size = average(lambda value, _: value**2), average(lambda value, _: value)
        return Moments(square, size, *slopes, average(lambda _, slope: slope != 0))


class Step(NamedTuple):
    """Mean squares over neurons, an entry per Dense, the readout's last; of the outputs E f² and the numbers Df."""

    z: list[float]
    own: list[float]
    total: list[float]
    delta: list[float]
    f: float
    Df: float
    Df_own: float
    Df_rest: float


PLANTED = ("", "r", "xi", "M", "root")


def chain_step(
    phi: str, settings: Sequence[Setting], n: int, x: Sequence[float], chi: float = 1.0, planted: str = ""
) -> Step:
    """The first step of `coordinate_nodes.chain(n, phi, settings)` at x, to leading order in 1/n and in the rates.

    Every Dense has its own rule (Adam with eps = 0). planted: "r" forgets that W and Wᵀ are one matrix, "xi" what W
    does to Delta a besides, "M" has M where SGD's own part has M², "root" √⟨a²⟩ where Adam's has ⟨|a|⟩.
    """
    if planted not in PLANTED:
        raise ValueError(f"planted is one of {PLANTED}, and not {planted}")
    if any(one.eps for one in settings):
        raise ValueError("these laws are those of Adam with eps = 0")
    last = len(settings) - 1
    sizes = [*[n] * last, 1]
    K, square, size = [], sum(v * v for v in x), sum(abs(v) for v in x)
    squares, absolutes, of = [square], [size], []
    for k, one in enumerate(settings):
        K.append(one.M**2 * one.S**2 * squares[k] + one.Mb**2 * one.Sb**2)
        if k < last:
            of.append(moments(phi, K[k]))
            squares.append(n * of[k].square)
            absolutes.append(n * of[k].size)
    if planted == "root":
        absolutes = [(count * one) ** 0.5 for count, one in zip([len(x), *[n] * last], squares)]
    # E delta² of every Dense and the variance Q of what delta is phi' times, from the readout down
    delta, Q = [0.0] * last + [chi**2], [0.0] * last
    for k in reversed(range(last)):
        above = settings[k + 1]
        Q[k] = above.M**2 * above.S**2 * sizes[k + 1] * delta[k + 1]
        delta[k] = of[k].slope2 * Q[k]
    own, total, A, R, X, rest, root = [], [], 0.0, 0.0, 0.0, 0.0, 0.0
    for k, one in enumerate(settings):
        if k > 0:
            before = of[k - 1]
            along = A * before.slope * root + R * before.slope2 * Q[k - 1]  # −⟨q Delta a⟩
            passed = sizes[k - 1] * along / (sizes[k] * delta[k]) if delta[k] else 0.0
            spread = A**2 * before.slope2 + 2 * A * R * before.slope3 * root
            spread += R**2 * before.slope4 * Q[k - 1] + before.slope2 * X
            X = 0.0 if planted == "xi" or k == last else one.M**2 * one.S**2 * sizes[k - 1] * spread
            rest = 0.0 if planted == "r" and k < last else passed
        A, R0 = own_part(one, squares[k], absolutes[k], sizes[k] * delta[k], planted)
        R = R0 + rest
        if k < last:
            root = float(mp.sqrt(2 * Q[k] / mp.pi))
            mean, moves = of[k].slope * root, of[k].moves
        else:
            mean, moves = abs(chi), 1.0
        own.append(A**2 * moves + 2 * A * R0 * mean + R0**2 * delta[k])
        total.append(A**2 * moves + 2 * A * R * mean + R**2 * delta[k] + X)
    sign = (chi > 0) - (chi < 0)
    Df_own, Df_rest = -A * sign - R0 * chi, -rest * chi
    return Step(K, own, total, delta, K[-1], Df_own + Df_rest, Df_own, Df_rest)


def own_part(one: Setting, square: float, size: float, deltas: float, planted: str = "") -> tuple[float, float]:
    """(A, R₀) of own = −A sgn delta − R₀ delta: square = |a|², size = Σ|a_j|, deltas = Σ delta² over the outputs."""
    A = R0 = 0.0
    if deltas == 0:  # behind a readout of zeros: sgn 0 is 0
        return A, R0
    M, Mb = abs(one.M), abs(one.Mb)
    for rule, eta, by, length, sign_sum in (
        (one.rule, one.eta, M, square, size),
        (one.rule_of_bias, one.eta_b, Mb, 1.0, 1.0),
    ):
        if rule == "sgd":
            R0 += eta * (by if planted == "M" else by**2) * length
        elif rule == "adam":
            A += eta * by * sign_sum
        else:
            R0 += eta * by * (length / deltas) ** 0.5
    return A, R0


def tangent_shares(phi: str, settings: Sequence[Setting], n: int, x: Sequence[float]) -> list[tuple[float, float]]:
    """(Theta, B) of every Dense but the readout under SGD, by the recursion of item 5 alone."""
    found, Theta, B, square, before = [], 0.0, 0.0, sum(v * v for v in x), None
    for k, one in enumerate(settings[:-1]):
        if k > 0:
            gain = one.M**2 * one.S**2 * n
            B = gain**2 * (before.slope2**2 * B + before.slope4 * Theta**2)
            Theta, square = gain * before.slope2 * Theta, n * before.square
        Theta += one.eta * one.M**2 * square + one.eta_b * one.Mb**2
        found.append((Theta, B))
        before = moments(phi, one.M**2 * one.S**2 * square + one.Mb**2 * one.Sb**2)
    return found
