"""Random architectures and places: σ's that are decimals, fractions, roots, on and off critical lines that are solved
here, with and without biases; polynomials whose map of K has a triple root."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction

from .activations import Z, activation, decimal, nonzero
from .functions import Number, Phi, Power, Product, Sum
from .maps import Net, One, Op
from .quadrature import moments

DENSE = Op("dense")


@dataclass(frozen=True)
class Place:
    """σ_w, σ_b as text and as doubles; how: the way they were chosen."""

    sigma_w: str
    sigma_b: str
    w: float
    b: float
    how: str

    @property
    def text(self) -> str:
        return f"sigma_w={self.sigma_w!r}, sigma_b={self.sigma_b!r}"


def value_of(text: str) -> float:
    """A number, a fraction, or the root of one."""
    if text.startswith("sqrt("):
        return math.sqrt(Fraction(text[5:-1]))
    return float(Fraction(text))


def place_of(sigma_w: str, sigma_b: str, how: str) -> Place:
    return Place(sigma_w, sigma_b, value_of(sigma_w), value_of(sigma_b), how)


def plain(phi: Phi) -> Net:
    return Net("plain", (Op("phi", phi), DENSE), None, f"mf.derive({phi.arguments})")


def net(rng: random.Random, phi: Phi | None = None, shapes: tuple[str, ...] = ()) -> Net:
    """A random architecture; shapes: from these alone."""
    phi = activation(rng) if phi is None else phi
    chances = {"plain": 8, "residual": 2, "pre": 1, "act": 0.7, "preln": 0.7, "scaled": 0.7, "two": 1.3, "inner": 0.7}
    chances |= {"gate": 1, "post": 0.7 if "post" in shapes else 0}
    if phi.jumps:
        chances |= {"act": 0, "two": 0.3}
    chances = {k: v for k, v in chances.items() if not shapes or k in shapes}
    name = rng.choices(list(chances), list(chances.values()))[0]
    mu = rng.choice(("1/2", "0.3", "0.9", nonzero(rng, 0.1, 0.95), "1/3"))
    mu = "0.5" if Fraction(mu) >= 1 else mu
    body, norm = Op("phi", phi), Op("norm")
    match name:
        case "residual":
            return Net(name, (body, DENSE), mu, f"mf.derive({phi.arguments}, residual=True, mu={mu!r})")
        case "pre":
            skip = rng.random() < 0.4
            more = f", residual=True, mu={mu!r}" if skip else ""
            text = f"mf.derive({phi.arguments}, norm='pre'{more})"
            return Net(name, (norm, body, DENSE), mu if skip else None, text)
        case "act":
            skip = rng.random() < 0.4
            more = f", residual=True, mu={mu!r}" if skip else ""
            text = f"mf.derive({phi.arguments}, norm='act'{more})"
            return Net(name, (body, norm, DENSE), mu if skip else None, text)
        case "preln":
            inner = f"mf.activation({phi.arguments})" if phi.keywords else repr(phi.source)
            text = f"mf.derive(architecture=mf.architectures.preln({inner}, mu={mu!r}))"
            return Net(name, (norm, body, DENSE), mu, text)
        case "post":
            return _sequence(name, (body, DENSE, norm))
        case "scaled":
            factor = rng.choice(("1/2", "2", nonzero(rng, 0.3, 2)))
            return _sequence(name, (body, Op("scale", factor=factor), DENSE))
        case "two":
            own = (nonzero(rng, 0.4, 2), decimal(rng, 0, 1)) if rng.random() < 0.7 else (None, None)
            second = activation(rng, ("named", "curved", "bent")) if rng.random() < 0.6 else phi
            inner_dense = Op("dense", sigma_w=own[0], sigma_b=own[1])
            return _sequence(name, (body, inner_dense, Op("phi", second), DENSE))
        case "gate":
            sides = tuple((nonzero(rng, 0.4, 1.5), rng.choice(("0", decimal(rng, 0, 1)))) for _ in range(2))
            return _sequence(name, (Op("gate", phi, gates=sides), DENSE), mu if rng.random() < 0.4 else None)
        case "inner":
            own = nonzero(rng, 0.4, 2), decimal(rng, 0, 1)
            return _sequence(name, (Op("dense", sigma_w=own[0], sigma_b=own[1]), body, DENSE), mu)
    return plain(phi)


def _sequence(name: str, ops: tuple[Op, ...], mu: str | None = None) -> Net:
    block = f"mf.Sequential(({', '.join(o.text for o in ops)}))"
    if mu is not None:
        block = f"mf.Residual({block}, {mu!r})"
    return Net(name, ops, mu, f"mf.derive(architecture={block})")


def place(rng: random.Random, of: Net) -> Place:
    """σ's of one kind or another for a network."""
    kind = rng.random()
    if kind < 0.35 or not of.plain:
        w = rng.choice((nonzero(rng, 0.3, 2.5, 2), nonzero(rng, 0.3, 2.5, 1), f"sqrt({nonzero(rng, 0.2, 4, 1)})", "1"))
        b = rng.choice((decimal(rng, 0, 1, 2), decimal(rng, 0, 1, 1), f"sqrt({decimal(rng, 0, 1, 1)})", "0", "1/5"))
        return place_of(w, b, "any")
    if kind < 0.5:  # no biases, ordered or chaotic
        germ = of.phi.germ
        if germ is None:
            return place_of(nonzero(rng, 0.3, 2.5), "0", "no bias")
        edge = math.sqrt(max(1e-3, (1 - of.skip**2)) * 2 / (germ[0] ** 2 + germ[1] ** 2))
        factor = rng.choice((rng.uniform(0.2, 0.97), rng.uniform(1.03, 2.5)))
        return place_of(f"{edge * factor:.3g}", "0", "no bias")
    found = critical(rng, of, rng.random() < 0.6)
    if found is not None and kind < 0.75:
        return found
    if found is not None:  # near it
        w = found.w * (1 + rng.choice((-1, 1)) * 10 ** rng.uniform(-4, -1))
        return place_of(f"{w:.12g}", found.sigma_b, "near critical")
    return place_of(nonzero(rng, 0.5, 2), decimal(rng, 0, 1), "any")


def critical(rng: random.Random, of: Net, of_J: bool = True) -> Place | None:
    """σ's at which χ_J (or χ_K) is 1 at a K* that is drawn; None where none are found."""
    m = of.skip**2
    for _ in range(8):
        K = 10 ** rng.uniform(-1.5, 1.2)
        at = moments(of.phi, K)
        gain = at.slope if of_J else at.rise
        if not 1e-6 < gain < 1e6:
            continue
        w2 = (1 - m) / gain
        b2 = K * (1 - m) - w2 * at.m2
        if b2 >= 0:
            return place_of(repr(math.sqrt(w2)), repr(math.sqrt(b2)), "critical J" if of_J else "critical K")
    return None


def _gaussian_product(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    """Coefficients in K of ⟨p q⟩_K."""
    out = [Fraction(0)] * ((len(p) + len(q)) // 2 + 1)
    for i, a in enumerate(p):
        for j, c in enumerate(q):
            if (i + j) % 2 == 0:
                out[(i + j) // 2] += a * c * math.prod(range(1, i + j, 2))
    return out


def tangent(rng: random.Random, degree: int = 5) -> tuple[Phi, Place, Fraction] | None:
    """A polynomial φ and exact σ's at which the map of K touches the diagonal to second order at a rational K*: χ_K = 1
    and d²K′/dK² = 0, by its constant term."""
    for _ in range(500):
        K = rng.choice((Fraction(1), Fraction(1, 2), Fraction(2), Fraction(nonzero(rng, 0.2, 2, 1))))
        c = [Fraction(0), *(Fraction(nonzero(rng, -3.5, 3.5, 1)) for _ in range(2))]
        c += [Fraction(decimal(rng, -0.5, 0.5, 2)) for _ in range(degree - 2)]
        even = [0, 0, *c[2:]]

        def curvature(a: Fraction, c: list = c, K: Fraction = K) -> Fraction:
            P = _gaussian_product([a, *c[1:]], [a, *c[1:]])
            return sum((k * (k - 1) * v * K ** (k - 2) for k, v in enumerate(P) if k > 1), Fraction(0))

        at, up = curvature(Fraction(0)), curvature(Fraction(1)) - curvature(Fraction(0))
        if up == 0 or not any(even[4:]):
            continue
        a = -at / up
        if abs(a) > 6 or len(str(a)) > 22:
            continue
        P = _gaussian_product([a, *c[1:]], [a, *c[1:]])
        rise = sum(k * v * K ** (k - 1) for k, v in enumerate(P) if k)
        third = sum(k * (k - 1) * (k - 2) * v * K ** (k - 3) for k, v in enumerate(P) if k > 2)
        if rise <= 0 or third >= 0:
            continue
        w2 = 1 / rise
        b2 = K - w2 * sum(v * K**k for k, v in enumerate(P))
        if b2 <= 0:
            continue
        parts = [Number(str(a))] + [
            Product((Number(str(float(v))), Z if k == 1 else Power(Z, k))) for k, v in enumerate(c) if v and k
        ]
        tree = Sum(tuple(parts))
        return Phi(tree, tree.text, "tangent"), place_of(f"sqrt({w2})", f"sqrt({b2})", "triple root"), K
    return None


def roots(of: Net, w: float, b: float, low: float = 1e-5, high: float = 1e5, count: int = 90) -> list[float]:
    """K at which K′ - K changes sign, by a scan in log K and bisection."""
    grid = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
    return sign_changes(lambda K: of.one(One(K), w, b).K / K - 1, grid)


def sign_changes(f, grid: list[float]) -> list[float]:
    values, found = [], []
    for x in grid:
        y = f(x)
        values.append(y)
    for (x, y), (x2, y2) in zip(zip(grid, values), list(zip(grid, values))[1:]):
        if math.isfinite(y) and math.isfinite(y2) and y * y2 < 0 and min(abs(y), abs(y2)) > 1e-13:
            from scipy.optimize import brentq

            found.append(float(brentq(f, x, x2, xtol=1e-14 * abs(x), rtol=1e-14)))
    return found
