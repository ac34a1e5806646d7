"""Architectures as lists of operations, the text that `derive` is given, and one layer of their recursions by
quadrature: K, χ_J, χ_K, Θ of one input; K_aa, K_bb, the distance, J_ab, Θ_ab of two. Nothing of meanfield is imported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from .functions import Phi
from .quadrature import Moments, moments, pair


@dataclass(frozen=True)
class Op:
    """ "phi", "norm", "scale", "dense" or "gate"; σ's that are None are the theory's. gates: (σ_w, σ_b) of the value
    and of the gate."""

    name: str
    phi: Phi | None = None
    factor: str = "1"
    sigma_w: str | None = None
    sigma_b: str | None = None
    gates: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        match self.name:
            case "phi":
                assert self.phi is not None
                return self.phi.nonlinearity
            case "norm":
                return "mf.LayerNorm()"
            case "scale":
                return f"mf.Scale({self.factor!r})"
            case "gate":
                assert self.phi is not None
                inside = self.phi.nonlinearity.removeprefix("mf.Nonlinearity(").removesuffix(")")
                sides = (f"mf.Dense(sigma_w={w!r}, sigma_b={b!r})" for w, b in self.gates)
                return f"mf.Gate({inside}, {', '.join(sides)})"
        given = [f"{k}={v!r}" for k, v in (("sigma_w", self.sigma_w), ("sigma_b", self.sigma_b)) if v is not None]
        return f"mf.Dense({', '.join(given)})"


@dataclass(frozen=True)
class One:
    """One input: K, J (log), Θ; and of the last layer χ_J and χ_K."""

    K: float
    log_J: float = 0.0
    Theta: float = 0.0
    chi_J: float = math.nan
    chi_K: float = math.nan
    error: float = 0.0


def _rounding(K_aa: float, K_bb: float) -> float:
    """What K_ab, kept as a distance, is off by in units of √(K_aa K_bb): much where the norms are far apart."""
    return 2e-16 * (math.sqrt(K_aa / K_bb) + math.sqrt(K_bb / K_aa)) if K_aa > 0 and K_bb > 0 else 0.0


@dataclass(frozen=True)
class Two:
    K_aa: float
    K_bb: float
    distance: float
    J_ab: float = 1.0
    Theta_ab: float = 0.0
    error: float = 0.0
    gap_error: float = 0.0

    @property
    def K_ab(self) -> float:
        return (self.K_aa + self.K_bb - self.distance) / 2

    @property
    def c(self) -> float:
        return self.K_ab / math.sqrt(self.K_aa * self.K_bb)


@dataclass(frozen=True)
class Net:
    """ops: one block's branch; mu: its skip (None: there is none); text: what derives its theory."""

    name: str
    ops: tuple[Op, ...]
    mu: str | None
    text: str

    @property
    def activations(self) -> list[Phi]:
        return [o.phi for o in self.ops if o.phi is not None]

    @property
    def phi(self) -> Phi:
        return self.activations[0]

    @property
    def plain(self) -> bool:
        """Dense(φ(z)) + μz."""
        return [o.name for o in self.ops] == ["phi", "dense"] and self.ops[1].sigma_w is self.ops[1].sigma_b is None

    @property
    def normed(self) -> bool:
        return any(o.name == "norm" for o in self.ops)

    @property
    def jumps(self) -> bool:
        """Whether χ_J is infinite."""
        return any(a.jumps or a.steepest <= 0.5 for a in self.activations)

    @property
    def skip(self) -> float:
        return float(Fraction(self.mu)) if self.mu is not None else 0.0

    def _sigmas(self, op: Op, w: float, b: float) -> tuple[float, float]:
        return (
            w if op.sigma_w is None else float(Fraction(op.sigma_w)),
            b if op.sigma_b is None else float(Fraction(op.sigma_b)),
        )

    def one(self, at: One, w: float, b: float) -> One:
        """The next layer of one input."""
        q, dq, J, T, error = at.K, 1.0, 1.0, at.Theta, at.error
        held: Moments | None = None
        for op in self.ops:
            match op.name:
                case "phi":
                    assert op.phi is not None
                    held = moments(op.phi, q)
                    m2, rise, slope, m1 = held.m2, held.rise, held.slope, held.m1
                    error = max(error, held.error)
                case "gate":  # u φ(v), u and v independent
                    assert op.phi is not None
                    (uw, ub), (vw, vb) = ((float(Fraction(x)) ** 2 for x in side) for side in op.gates)
                    U, V = uw * q + ub, vw * q + vb
                    held = moments(op.phi, V)
                    m2, m1, error = U * held.m2, 0.0, max(error, held.error)
                    rise, slope = uw * held.m2 + U * vw * held.rise, uw * held.m2 + U * vw * held.slope
                    if slope < math.inf:
                        T = ((U + uw * T) * held.m2 + U * held.slope * (V + vw * T)) / slope if slope else 0.0
                case "norm":
                    if held is None:
                        J, T, q, dq = J / q, T / q, 1.0, 0.0
                    else:
                        var = m2 - m1 * m1
                        error = max(error, 1e-15 * m2 / var) if var > 0 else math.inf
                        slope, rise, m2, m1 = slope / var, 0.0, 1.0, 0.0
                case "scale":
                    f = float(Fraction(op.factor)) ** 2
                    if held is None:
                        q, dq, J, T = q * f, dq * f, J * f, T * f
                    else:
                        m2, rise, slope = m2 * f, rise * f, slope * f
                case "dense":
                    sw, sb = self._sigmas(op, w, b)
                    if held is None:
                        m2, rise, slope = q, 1.0, 1.0
                    T = sw * sw * m2 + sb * sb + sw * sw * slope * T if T or sw * slope < math.inf else math.inf
                    q, dq, J = sw * sw * m2 + sb * sb, sw * sw * rise * dq, sw * sw * slope * J
                    held = None
        mu = self.skip
        chi = J + mu * mu
        log_J = at.log_J + (math.log(chi) if 0 < chi < math.inf else -math.inf if chi == 0 else math.inf)
        return One(q + mu * mu * at.K, log_J, T + mu * mu * at.Theta, chi, dq + mu * mu, error)

    def two(self, at: Two, w: float, b: float) -> Two:
        """The next layer of two inputs; no LayerNorm behind an activation (`one` knows it)."""
        qa, qb, D, J, T = at.K_aa, at.K_bb, at.distance, 1.0, at.Theta_ab
        error, gap_error = max(at.error, _rounding(qa, qb)), at.gap_error
        held = None
        for op in self.ops:
            match op.name:
                case "phi":
                    assert op.phi is not None
                    one = moments(op.phi, qa)
                    other = one if qa == qb else moments(op.phi, qb)
                    both = pair(op.phi, qa, qb, D)
                    a2, b2, gap, slopes, product = one.m2, other.m2, both.gap, both.slopes, both.product
                    if product < 0.25 * (a2 + b2):  # far apart: the gap from the product, which is what is kept best
                        gap = a2 + b2 - 2 * product
                    a1, b1 = one.m1, other.m1
                    held = both
                    error, gap_error = max(error, both.error), max(gap_error, both.gap_error)
                case "gate":
                    assert op.phi is not None
                    (uw, ub), (vw, vb) = ((float(Fraction(x)) ** 2 for x in side) for side in op.gates)
                    U, V, between = (uw * qa + ub, uw * qb + ub), (vw * qa + vb, vw * qb + vb), (qa + qb - D) / 2
                    one = moments(op.phi, V[0])
                    other = one if qa == qb else moments(op.phi, V[1])
                    both = held = pair(op.phi, *V, vw * D)
                    P, U_ab = both.product, uw * between + ub
                    inner = both.gap if 0.25 * (one.m2 + other.m2) <= P else one.m2 + other.m2 - 2 * P
                    gap = (U[0] - U[1]) * (one.m2 - other.m2) / 2 + sum(U) * inner / 2 + uw * D * P
                    a2, b2, product, a1, b1 = U[0] * one.m2, U[1] * other.m2, U_ab * P, 0.0, 0.0
                    slopes = uw * P + U_ab * vw * both.slopes
                    T = (U_ab + uw * T) * P + U_ab * both.slopes * (vw * between + vb + vw * T)
                    T, error, gap_error = T / slopes, max(error, both.error), max(gap_error, both.gap_error)
                case "norm":
                    if held is None:
                        ra, rb = math.sqrt(qa), math.sqrt(qb)
                        D = (D - (ra - rb) ** 2) / (ra * rb)
                        J, T, qa, qb = J / (ra * rb), T / (ra * rb), 1.0, 1.0
                    else:
                        va, vb = a2 - a1 * a1, b2 - b1 * b1
                        root = math.sqrt(va * vb)
                        gap = (gap - (a1 - b1) ** 2 - (math.sqrt(va) - math.sqrt(vb)) ** 2) / root
                        slopes, product, a2, b2 = slopes / root, 1 - gap / 2, 1.0, 1.0
                        a1 = b1 = 0.0
                        error = max(error, 1e-15 * held.product / root)
                case "scale":
                    f = float(Fraction(op.factor)) ** 2
                    if held is None:
                        qa, qb, D, J, T = qa * f, qb * f, D * f, J * f, T * f
                    else:
                        a2, b2, gap, slopes, product = a2 * f, b2 * f, gap * f, slopes * f, product * f
                case "dense":
                    sw, sb = (v * v for v in self._sigmas(op, w, b))
                    if held is None:
                        a2, b2, gap, slopes, product = qa, qb, D, 1.0, (qa + qb - D) / 2
                    qa, qb, D = sw * a2 + sb, sw * b2 + sb, sw * gap
                    J, T = sw * slopes * J, sw * product + sb + sw * slopes * T
                    error = max(error, _rounding(qa, qb))
                    held = None
        m = self.skip**2
        return Two(
            qa + m * at.K_aa,
            qb + m * at.K_bb,
            D + m * at.distance,
            (J + m) * at.J_ab,
            T + m * at.Theta_ab,
            error,
            gap_error,
        )

    # ------------------------------------------------------------------------------------------------- iterations

    def start(self, w: float, b: float, norm: float = 1.0) -> One:
        K = w * w * norm + b * b
        return One(K, 0.0, K)

    def start_pair(self, w: float, b: float, na: float, nb: float, dot: float, distance: float | None = None) -> Two:
        D = na + nb - 2 * dot if distance is None else distance
        return Two(w * w * na + b * b, w * w * nb + b * b, w * w * D, 1.0, w * w * dot + b * b)

    def orbit(self, at: One, w: float, b: float, depth: int) -> list[One]:
        found = [at]
        while len(found) < depth and 0 < found[-1].K < 1e250:
            found.append(self.one(found[-1], w, b))
        return found

    def settled(self, K: float, w: float, b: float, most: int = 1200) -> tuple[float, One | None]:
        """(K it flows to, the layer there): ∞ where it grows beyond 1e12 and goes on, 0 below 1e-40; NaN where it has
        not settled."""
        at = One(K)
        for _ in range(most):
            after = self.one(at, w, b)
            if not math.isfinite(after.K) or after.K > 1e12:
                return math.inf, None
            if after.K < 1e-40:
                return 0.0, None
            if abs(after.K - at.K) <= 1e-14 * at.K * max(1e-3, min(1.0, 1 - abs(after.chi_K))):
                return after.K, self.one(after, w, b)
            if abs(after.K - at.K) <= 1e-6 * at.K and abs(after.chi_K) < 0.995:  # Newton from here
                K = after.K
                for _ in range(30):
                    here = self.one(One(K), w, b)
                    step = (here.K - K) / (1 - here.chi_K)
                    K += step
                    if abs(step) <= 1e-15 * K:
                        break
                return K, self.one(One(K), w, b)
            at = after
        return math.nan, None
