"""K, V and their next orders by three routes that share nothing with the engine: the law of total cumulance in mpmath,
layers of polynomial networks exact in n, and networks drawn neuron by neuron.
"""

from __future__ import annotations

from math import comb, factorial, prod

import mpmath as mp
import numpy as np
import sympy as sp

NAMES = ("K", "V", "G1", "V6", "V1", "G2")

# -------------------------------------------------------------------------------- the law of total cumulance, in mpmath


def averages(K, phi, step, reach):
    """{(k, d): d^d⟨φ^{2k}⟩/dK^d} = ⟨φ^{2k} He_{2d}⟩/(2K)^d by the trapezoidal rule."""
    x = [step * i for i in range(-int(reach / step), int(reach / step) + 1)]
    w = [step * mp.npdf(t) for t in x]
    f = [phi(mp.sqrt(K) * t) ** 2 for t in x]
    hermite = [[mp.mpf(1)] * len(x), x]
    for m in range(1, 8):
        hermite.append([t * b - m * a for t, a, b in zip(x, hermite[m - 1], hermite[m])])
    return {
        (k, d): mp.fsum(wi * fi**k * h for wi, fi, h in zip(w, f, hermite[2 * d])) / (2 * K) ** d
        for k, most in ((1, 4), (2, 2), (3, 0))
        for d in range(most + 1)
    }


def next_layer(state, of, C_W, C_b, orthogonal, planted=""):
    """The next layer's values: cumulants of v' = C_b + C_W r(1 + s) from those of v, r a mean of n independent φ².

    planted: "cumulant" leaves the third cumulant of v out, "sphere" the 1/n² of E(1 + s)², "curvature" m''.
    """
    _, V, G1, V6, V1, G2 = (state[x] for x in NAMES)
    third = 0 if planted == "cumulant" else V6
    m, m1, m2, m3, m4 = (of[1, d] for d in range(5))
    q, q1, q2, six = of[2, 0], of[2, 1], of[2, 2], of[3, 0]
    if planted == "curvature":
        m2 = 0
    # E m(v) to 1/n²; Var m(v) to 1/n²; the third cumulant of m(v), to 1/n²
    mean = (m, m1 * G1 + m2 * V / 2, m1 * G2 + m2 * (V1 + G1**2) / 2 + m3 * (third + 3 * V * G1) / 6 + m4 * V**2 / 8)
    var = (m1**2 * V, m1**2 * V1 + 2 * m1 * m2 * G1 * V + m1 * m2 * third + V**2 * (m2**2 / 2 + m1 * m3))
    cube = m1**3 * third + 3 * m1**2 * m2 * V**2
    # one neuron's variance s(v) = q − m², its mean to 1/n; its third cumulant
    s, s1, s2 = q - m**2, q1 - 2 * m * m1, q2 - 2 * m1**2 - 2 * m * m2
    var = (var[0] + s, var[1] + s1 * G1 + s2 * V / 2)
    cube += 3 * m1 * s1 * V + six - 3 * m * q + 2 * m**3
    if orthogonal:  # E(1 + s)² = 1 − 2/n + 4/n², E(1 + s)³ = 1 − 6/n + 28/n²
        two, three = (-2, 0 if planted == "sphere" else 4), (-6, 28)
        second = (m**2, var[0] + 2 * m * mean[1], var[1] + mean[1] ** 2 + 2 * m * mean[2])
        moment = (m**3, 3 * m**2 * mean[1] + 3 * m * var[0])
        moment += (cube + 3 * (m * var[1] + mean[1] * var[0]) + 3 * m**2 * mean[2] + 3 * m * mean[1] ** 2,)
        second = (m**2, second[1] + two[0] * m**2, second[2] + two[0] * second[1] + two[1] * m**2)
        moment = (m**3, moment[1] + three[0] * m**3, moment[2] + three[0] * moment[1] + three[1] * m**3)
        var = (second[1] - 2 * m * mean[1], second[2] - mean[1] ** 2 - 2 * m * mean[2])
        cube = moment[2] - 3 * (second[2] * m + second[1] * mean[1] + second[0] * mean[2])
        cube += 6 * m * mean[1] ** 2 + 6 * m**2 * mean[2]
    values = (C_W * mean[0] + C_b, C_W**2 * var[0], C_W * mean[1], C_W**3 * cube, C_W**2 * var[1], C_W * mean[2])
    return dict(zip(NAMES, values))


def first_layer(K, C_b, orthogonal):
    """Layer 1 of N_0 = n inputs."""
    r = K - C_b
    return dict(zip(NAMES, (K, -2 * r**2, 0, 16 * r**3, 4 * r**2, 0) if orthogonal else (K, 0, 0, 0, 0, 0)))


def iterated(phi, K, depth, C_W, C_b, orthogonal, planted="", step=0.25, reach=10):
    """[{name: value}] of layers 1 … depth."""
    found = [first_layer(mp.mpf(K), mp.mpf(C_b), orthogonal)]
    for _ in range(depth - 1):
        of = averages(found[-1]["K"], phi, mp.mpf(step), reach)
        found.append(next_layer(found[-1], of, mp.mpf(C_W), mp.mpf(C_b), orthogonal, planted))
    return found


# ---------------------------------------------------------------------------------- polynomial networks, exact in n

FIELD = sp.QQ.frac_field("n")
WIDTH = FIELD.gens[0]


def odd_numbers(a):
    """(2a − 1)!!"""
    return prod(range(1, 2 * a, 2))


class Layer:
    """Moments of r, z = √r·(a Gaussian vector, or √P times a uniform unit vector of P entries) + b, as rational
    functions of n; width: in units of n, and P the larger of it and of that of the layer before."""

    def __init__(self, before, width, orthogonal, bias, power):
        self.size, self.width, self.orthogonal, self.bias = max(before, width), width, orthogonal, bias
        self.power, self.known = power, {}

    def moment(self, p):
        """E r^p times what the sphere makes of it."""
        if p not in self.known:
            factor, size = FIELD.one, self.size * WIDTH
            for j in range(p if self.orthogonal else 0):
                factor *= size / (size + 2 * j)
            self.known[p] = self.power(p) * factor
        return self.known[p]

    def product(self, polynomials):
        """E of polynomials {degree: coefficient}, each of another neuron's z; odd degrees vanish."""
        total = {0: sp.QQ.one}
        for one in polynomials:
            new = {}
            for degree, c in one.items():
                a = degree // 2
                for j in range(a + 1 if degree % 2 == 0 else 0):
                    value = c * comb(degree, 2 * j) * odd_numbers(j) * odd_numbers(a - j) * self.bias ** (a - j)
                    for power, d in total.items():
                        new[power + j] = new.get(power + j, sp.QQ.zero) + value * d
            total = new
        return sum((FIELD(c) * self.moment(p) for p, c in total.items()), FIELD.zero)

    def cumulants(self):
        """Joint cumulants of z_1², z_2², z_3² of different neurons."""
        square = {2: sp.QQ.one}
        one, two, three = (self.product([square] * k) for k in (1, 2, 3))
        return one, two - one**2, three - 3 * two * one + 2 * one**3

    def following(self, phi, width=1):
        """The layer after it, r = (1/n) Σ φ(z)²; phi: {degree: coefficient}."""
        here = self.width * WIDTH

        def power(p):
            total = FIELD.zero
            for shape in sp.utilities.iterables.partitions(p):
                parts = [part for part, times in shape.items() for _ in range(times)]
                ways = factorial(p)
                for part, times in shape.items():
                    ways //= factorial(part) ** times * factorial(times)
                falling = prod((here - j for j in range(len(parts))), start=FIELD.one)
                total += falling * ways * self.product([raised(phi, 2 * part) for part in parts])
            return total / here**p

        return Layer(self.width, width, self.orthogonal, self.bias, power)


def first_of(inputs, width, orthogonal, bias):
    """Layer 1 on N_0 inputs with r = |x|²/N_0 = 1."""
    return Layer(inputs, width, orthogonal, bias, lambda p: FIELD.one)


def raised(phi, power):
    """{degree: coefficient} of φ^power."""
    found = {0: sp.QQ.one}
    for _ in range(power):
        new = {}
        for a, x in found.items():
            for b, y in phi.items():
                new[a + b] = new.get(a + b, sp.QQ.zero) + x * y
        found = new
    return found


def coefficients(value, order):
    """The coefficients of n⁰, …, n^{−order} of a rational function of n."""
    above, below = (sp.Poly(p.as_expr(), sp.Symbol("n")).all_coeffs() for p in (value.numer, value.denom))
    found, gap = [], len(below) - len(above)
    assert gap >= 0
    rest = [sp.S.Zero] * gap + above + [sp.S.Zero] * (order + 1)
    for q in range(order + 1):
        found.append(rest[q] / below[0])
        for i, b in enumerate(below):
            if q + i < len(rest):
                rest[q + i] -= found[-1] * b
    return found


# ------------------------------------------------------------------------------------- networks, neuron by neuron


def sampled(phi, width, depth, networks, seed, C_W, C_b, Q0, orthogonal, batch=20000):
    """(means, covariances) over networks of (z_1², z_1² z_2², z_1² z_2² z_3²) of different neurons, by layer: each
    layer's z = √C_W·|φ|·(a Gaussian vector, over its length where weights are orthogonal) + b; N_0 = n. Gaussian layers
    give them as powers of the variance C_W|φ|²/n + C_b, which their neurons are independent given."""
    rng, seen = np.random.default_rng(seed), []
    for begin in range(0, networks, batch):
        many = min(batch, networks - begin)
        squared, layers = np.full(many, Q0 * width), []
        for _ in range(depth):
            g = rng.standard_normal((many, width))
            length = np.einsum("ij,ij->i", g, g) if orthogonal else float(width)
            z = np.sqrt(C_W * squared / length)[:, None] * g
            if C_b:
                z += np.sqrt(C_b) * rng.standard_normal((many, width))
            layers.append(of_different(z) if orthogonal else (C_W * squared / width + C_b)[:, None] ** [1, 2, 3])
            f = phi(z)
            squared = np.einsum("ij,ij->i", f, f)
        seen.append(np.stack(layers))
    moments = np.concatenate(seen, 1)
    return moments.mean(1), np.array([np.cov(m.T) / networks for m in moments])


def of_different(z):
    """Means of z_1², z_1² z_2², z_1² z_2² z_3² over different neurons of each network."""
    y, n = z * z, z.shape[1]
    one, two, three = y.sum(1), np.einsum("ij,ij->i", y, y), np.einsum("ij,ij,ij->i", y, y, y)
    pairs, triples = one**2 - two, one**3 - 3 * one * two + 2 * three
    return np.stack([one / n, pairs / (n * (n - 1)), triples / (n * (n - 1) * (n - 2))], 1)


def estimates(mean, covariance):
    """(values, standard errors) of the first three cumulants of different neurons' z², by the delta method."""
    a, b, c = mean
    values = np.array([a, b - a**2, c - 3 * a * b + 2 * a**3])
    slopes = np.array([[1, 0, 0], [-2 * a, 1, 0], [-3 * b + 6 * a**2, -3 * a, 1]])
    return values, np.sqrt(np.diag(slopes @ covariance @ slopes.T))
