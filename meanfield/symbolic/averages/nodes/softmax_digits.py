r"""Overlaps of two softmax rows to any number of digits: the integrals over places of maxima, in arbitrary precision.

With h(u, v) = ⟨exp(-e^{u+z} - e^{v+z'})⟩ over one pair of entries, Φ = T∫∫ h_uv h^{T-1}, and by the heat equations
∂_C h = h_uv, ∂_V h = (h_uu + h_vv)/2 its slopes are like integrals. All are of entire functions: the trapezoidal rule
converges exponentially, with steps and ends chosen for the digits. `quadrature.softmax.softmax_grids` says the same in
doubles. No ball is claimed: what the rule leaves out is estimated, not bounded. Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from flint import arb, arb_mat, ctx, fmpz, fmpz_mat

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import require_memory, tick
from meanfield.functions import balls

_SAFETY = 0.85  # of the widest steps that theory allows
_MOST = 4_000_000  # places of a grid


@lru_cache(maxsize=512)
def digits(kind: str, T: int, V: str, D: str, prec: int) -> str:
    """An average of two softmax rows as a decimal of about `prec` bits.

    kind: "value", "slope", "quotient", "by_V", "growth", "entropy", as of `Overlap`; T ≥ 2; V, D: decimals, V > 0,
    0 ≤ D ≤ 2V. Raises: MeanFieldError where its grid would be too large.
    """
    near_by = float(D) < 2.0 ** (-prec / 8 - 10)  # a mean of slopes; else a difference, which costs digits
    if kind == "quotient" and not near_by:
        prec += max(0, -round(math.log2(float(D))))
    with balls.precision(prec + 60 + 6 * T.bit_length()):
        rule = _Rule(T, float(V), float(D), math.log(2) * prec + 8.0)
        v, d = arb(V), arb(D)
        if kind == "quotient" and near_by:
            x, w = _gauss() if float(D) > 2.0 ** (-prec / 2 - 8) else ([arb(0.5)], [arb(1)])
            found = sum((b * _rows(rule, v, a * d, 2)[2] for a, b in zip(x, w)), arb(0))
        elif kind == "quotient":
            near = _row(rule, v)
            far = _rows(rule, v, d, 0 if near[0] < 0.5 else 1)
            found = ((near[0] - far[0]) if near[0] < 0.5 else (far[1] - near[1])) / d
        elif kind in ("growth", "entropy"):
            found = _row(rule, v)[3 if kind == "growth" else 4]
        elif kind == "by_V":
            found = _rows(rule, v, d, 3)[3]
        else:
            k = 0 if kind == "value" else 2
            found = _row(rule, v)[k] if d == 0 else _rows(rule, v, d, k)[k]
        return found.mid().str(round(prec / 3.3) + 5, radius=False)


def _gauss() -> tuple[list[arb], list[arb]]:
    """Places and weights of Gauss's rule of four places on [0, 1]."""
    r = (arb(6) / 5).sqrt() * 2 / 7
    x, w = [(arb(3) / 7 + s * r).sqrt() for s in (-1, 1)], [(18 - s * arb(30).sqrt()) / 36 for s in (-1, 1)]
    return [(1 + s * a) / 2 for a in x for s in (-1, 1)], [b / 2 for b in w for _ in range(2)]


class _Rule:
    """Steps and ends of the rules for T entries that leave out about e^{-L}."""

    def __init__(self, T: int, V: float, D: float, L: float):
        self.T, self.V, self.D, self.L, self.far = T, V, D, L, L + 2.0 * math.log(T)
        self.fixed = _Fixed(ctx.prec)

    def step(self, V: float) -> arb:
        return arb(_SAFETY * math.pi**2 / self.far * math.sqrt(1.0 + 1.5 * V / (math.log(self.T) + 1.0)))

    def lowest(self, V: float) -> float:
        return -(self.far + min(0.5 * V, math.sqrt(2.0 * V * self.far)))

    def highest(self, V: float, power: int) -> float:
        share = self.L / max(power, 1) + math.log(2.0)
        return math.sqrt(2.0 * V * share) + math.log(share)

    def normal(self, deviation: float, spacing: arb, strip: bool) -> tuple[int, list[arb]]:
        """(k, weights): a rule over a standard normal, k steps of which make the spacing of a lattice."""
        h = _SAFETY * math.sqrt(2.0 * math.pi**2 / self.far)
        h = min(h, _SAFETY * math.pi**2 / (self.far * deviation)) if strip else h
        k = math.ceil(float(spacing) / (deviation * h))
        step = spacing / (k * arb(deviation))
        n = math.ceil(math.sqrt(2.0 * self.far) / float(step))
        w = [(-((i * step) ** 2) / 2).exp() for i in range(n + 1)]
        total = 2 * sum(w[1:], w[0] / 2)
        return k, [w[abs(i)] / total for i in range(-n, n + 1)]


class _Fixed:
    """Matrices of multiples of 2^{-bits}: products of integers are exact, and ten times as fast as those of balls."""

    def __init__(self, bits: int):
        self.bits, self.unit = bits, arb(2) ** (-2 * bits)

    def line(self, values: Iterable[arb]) -> list[fmpz]:
        out = []
        for x in values:
            man, exp = x.mid().man_exp()
            shift = int(exp) + self.bits
            out.append(man << shift if shift >= 0 else man >> -shift)
        return out

    def windows(self, line: Iterable[arb], rows: int, width: int, k: int) -> fmpz_mat:
        """Row i: the places i·k … i·k + width - 1 of a line."""
        require_memory(100.0 * rows * width, "A softmax overlap to these digits", "ask for fewer")
        values = self.line(line)
        return fmpz_mat([values[i * k : i * k + width] for i in range(rows)])

    def column(self, values: Iterable[arb]) -> fmpz_mat:
        return fmpz_mat([[x] for x in self.line(values)])

    def matrix(self, rows: Iterable[Iterable[arb]]) -> fmpz_mat:
        return fmpz_mat([self.line(row) for row in rows])

    def product(self, a: fmpz_mat, b: fmpz_mat) -> arb_mat:
        return arb_mat(a * b) * self.unit


def _marginal(
    rule: _Rule, low: arb, h: arb, n: int, V: arb, more: Callable[[arb], arb] | None = None
) -> list[list[arb]]:
    """⟨1 - e^{-X}⟩, ⟨X e^{-X}⟩, ⟨X² e^{-X}⟩ (and ⟨more(log X)⟩) of X = e^{u+y} at n places u of a lattice."""
    tick()
    variance = float(V)
    last = math.log(rule.far) + 1.5  # beyond, e^{-X} is nothing; numbers of very different sizes multiply slowly
    known = [lambda s: -((-s.exp()).expm1()), lambda s: (s - s.exp()).exp(), lambda s: (2 * s - s.exp()).exp()]
    parts = [_until(f, last, arb(not i)) for i, f in enumerate([*known, more] if more else known)]
    if variance == 0.0:
        return [[f(low + i * h) for i in range(n)] for f in parts]
    if variance <= 1.0:
        k, w = rule.normal(math.sqrt(variance), h, True)
        deviation = V.sqrt() / arb(math.sqrt(variance))
        half, step = len(w) // 2, h / k * deviation  # exact deviations, a hair off the lattice's
        if k == 1 or k < len(w):
            fixed, places = rule.fixed, [low + i * h / k for i in range(-half, (n - 1) * k + half + 1)]
            weights = fixed.column(_exact(V, h / k, half))
            return [fixed.product(fixed.windows(map(f, places), n, len(w), k), weights).entries() for f in parts]
        return [[sum((c * f(low + i * h + j * step) for c, j in zip(w, range(-half, half + 1))), arb(0))
                 for i in range(n)] for f in parts]  # fmt: skip
    k = math.ceil(float(h) * rule.far / (_SAFETY * math.pi**2))
    step, root = h / k, V.sqrt()
    low_s, count = arb(-rule.far), math.ceil((rule.far + math.log(rule.L) + 1.5) / float(step))
    s = [low_s + i * step for i in range(count)]
    line = [(low - s[-1] + i * step) / root for i in range((n - 1) * k + count)]
    density = [(-x * x / 2).exp() / (root * (2 * arb.pi()).sqrt()) * step for x in line]
    below = [(-x / arb(2).sqrt()).erfc() / 2 * step for x in line]
    fixed = rule.fixed
    spread, whole = fixed.windows(density, n, count, k), fixed.windows(below, n, count, k)
    columns = [fixed.column(map(f, reversed(s))) for f in parts[1:]]
    return [fixed.product(m, x).entries() for m, x in [(whole, columns[0]), *((spread, x) for x in columns)]]


def _until(f: Callable[[arb], arb], last: float, beyond: arb) -> Callable[[arb], arb]:
    return lambda s: f(s) if s < last else beyond


def _exact(V: arb, step: arb, half: int) -> list[arb]:
    """Weights of a normal of variance V at the multiples of a step."""
    w = [(-((i * step) ** 2) / (2 * V)).exp() for i in range(half + 1)]
    total = 2 * sum(w[1:], w[0] / 2)
    return [w[abs(i)] / total for i in range(-half, half + 1)]


def _surprise(s: arb) -> arb:
    """e^{-X}(log X + γ) + E₁(X), X = e^s."""
    X = s.exp()
    return (-X).exp() * (s + arb.const_euler()) + X.gamma_upper(0)


def _row(rule: _Rule, V: arb) -> tuple[arb, ...]:
    """(Φ, 1 - Φ, ∂_C Φ, dΦ/dV, entropy) of one row."""
    T, h = rule.T, rule.step(rule.V)
    low = rule.lowest(rule.V)
    n = math.ceil((rule.highest(rule.V, T - 2) - low) / float(h)) + 1
    total = [arb(0)] * 5
    for q, p, r, e in zip(*_marginal(rule, arb(low), h, n, V, _surprise)):
        m, curved = 1 - q, r - p
        third = _power(m, T - 4)
        second = third * m if T > 3 else _power(m, T - 3)
        first = second * m if T > 2 else arb(1)
        terms = (
            r * first * m / (T - 1), p * p * first, r * (2 * r * first + (T - 2) * p * p * second) / 6,
            curved * curved * first - arb((T - 2) * (T - 3)) / 6 * (p * p) * (p * p) * third, e * p * first,
        )  # fmt: skip
        total = [a + b for a, b in zip(total, terms)]
    return tuple(T * (T - 1) * h * x for x in total)


def _rows(rule: _Rule, V: arb, D: arb, *wanted: int) -> dict[int, arb]:
    """What is wanted of Φ, 1 - Φ, ∂_C Φ, ∂_V Φ (0 … 3) of two."""
    V_, C_ = rule.V, rule.V - float(D)
    if max(1.0, float(D)) <= C_:
        return _along(rule, V, D, wanted)
    C = V - D
    d = rule.step(V_ - abs(C_))
    low = rule.lowest(V_)
    n = math.ceil((rule.highest(V_, rule.T - 2) - low) / float(d)) + 1
    deviation = math.sqrt(abs(C_)) if C_ else 0.0
    k, w = rule.normal(deviation, d, False) if deviation else (1, [arb(1)])
    _allowed(n * n, n * k + len(w))
    half = len(w) // 2
    parts = _marginal(rule, arb(low) - half * d / k, d / k, (n - 1) * k + 2 * half + 1, V - abs(C))
    fixed, width = rule.fixed, len(w)
    flat = _exact(abs(C), d / k, half) if deviation else w
    lines = [*parts[:2], [b - a for a, b in zip(*parts[1:])]]
    plain = [fixed.windows(x, n, width, k) for x in lines]
    q, p, r = (fixed.product(m, fixed.column(flat)).entries() for m in plain)
    order = range(width - 1, -1, -1) if C_ < 0 else range(width)  # what is shared has the other sign there
    other = [fixed.matrix([[x[j * k + i] * flat[i] for j in range(n)] for i in order]) for x in lines[:2]]
    both, by_u = (fixed.product(m, other[0]) for m in plain[:2])
    cross = fixed.product(plain[1], other[1])
    by_uu = fixed.product(plain[2], other[0]) if 3 in wanted else both
    one = [(q[i] + q[j] - both[i, j], p[i] - by_u[i, j], p[j] - by_u[j, i], cross[i, j], r[i] - by_uu[i, j]
            + r[j] - by_uu[j, i], 1 if i == j else 2) for i in range(n) for j in range(i + 1)]  # fmt: skip
    return _integrals(rule.T, one, d * d, wanted)


def _along(rule: _Rule, V: arb, D: arb, wanted: Sequence[int]) -> dict[int, arb]:
    """The same of C ≥ 1, C ≥ D, over (u + v)/2 and u - v."""
    h = rule.step(float(D))
    k = max(1, math.floor(float(rule.step(rule.V)) / float(h)))
    low, high = rule.lowest(rule.V), rule.highest(rule.V, rule.T - 2)
    a = [arb(low) + i * k * h for i in range(math.ceil((high - low) / float(k * h)) + 1)]
    n = math.ceil(-rule.lowest(2.0 * float(D)) / float(2 * h)) + 1
    start = rule.lowest(float(D)) - float(n * h)
    rows = math.ceil((rule.highest(float(D), 1) - start) / float(h)) + 1
    _allowed(len(a) * n, rows * n)
    q, p, r = _marginal(rule, arb(start) - n * h, h, rows + 2 * n, D)
    c, root = (V - D).sqrt(), (2 * arb.pi()).sqrt()
    x = [[(y - start - j * h) / c for j in range(rows)] for y in a]
    fixed, half = rule.fixed, arb(2).sqrt()
    below = fixed.matrix(((-y / half).erfc() / 2 * h for y in row) for row in x)
    density = fixed.matrix(((-y * y / 2).exp() * h / (c * root) for y in row) for row in x)
    made: list[list[list[arb]]] = [[], [], [], []]
    for j in range(n, rows + n):
        pairs = [(j + i, j - i) for i in range(n)]
        made[0].append([p[s] * (1 - q[t]) for s, t in pairs])
        made[1].append([p[t] * (1 - q[s]) for s, t in pairs])
        made[2].append([p[s] * p[t] for s, t in pairs])
        made[3].append([(r[s] - p[s]) * (1 - q[t]) + (r[t] - p[t]) * (1 - q[s]) for s, t in pairs])
    sources = [fixed.matrix(m) for m in made]
    by_u, by_v, both = (fixed.product(density, m) for m in sources[:3])
    second = fixed.product(density, sources[3]) if 3 in wanted else both
    lost = fixed.product(below, sources[0] + sources[1])
    one = [(lost[i, j], by_u[i, j], by_v[i, j], both[i, j], second[i, j], 2 if j else 1)
           for i in range(len(a)) for j in range(n)]  # fmt: skip
    return _integrals(rule.T, one, 2 * k * h * h, wanted)


def _integrals(
    T: int, places: Iterable[tuple[arb, arb, arb, arb, arb, int]], cell: arb, wanted: Sequence[int]
) -> dict[int, arb]:
    """What is wanted of the four integrals, from (1 - h, -h_u, -h_v, h_uv, h_uu + h_vv, weight) of each place."""
    total = dict.fromkeys(wanted, arb(0))
    for lost, by_u, by_v, both, second, weight in places:
        m = 1 - lost
        power = _power(m, T - 3)
        first = power * m if T > 2 else arb(1)
        for k in wanted:
            if k == 0:
                term = both * first * m / (T - 1)
            elif k == 1:
                term = by_u * by_v * first
            elif k == 2:
                term = both * (2 * both * first + (T - 2) * by_u * by_v * power)
            else:
                term = both * (second * first + (T - 2) * (by_u * by_u + by_v * by_v) / 2 * power)
            total[k] += weight * term
    return {k: T * (T - 1) * cell * x for k, x in total.items()}


def _power(x: arb, n: int) -> arb:
    """x^n, 0 of n < 0; a ball around 0 has no logarithm, by which flint takes powers."""
    out = arb(1) if n >= 0 else arb(0)
    while n > 0:
        out, x, n = out * x if n & 1 else out, x * x, n >> 1
    return out


def _allowed(*sizes: int) -> None:
    if max(sizes) > _MOST:
        raise MeanFieldError(
            f"A softmax overlap to these digits needs a grid of {max(sizes):.1e} places, and at most {_MOST:.0e} are "
            "taken; ask for fewer digits, or for what floats give (propagate)."
        )
