"""The maps of the correlators iterated in mpmath: averages by the trapezoidal rule, derivatives by Hermite polynomials.

Shares the maps in generic σ with the engine, and nothing of what becomes of them: no averages as nodes, no Stein form,
no lowering, no series, no tables.
"""

from __future__ import annotations

import mpmath as mp
import sympy as sp

from meanfield.symbolic.finite_width.correlator_maps import correlator_map
from meanfield.symbolic.finite_width.neuron_fields import Mean, Sigma


def tanh(x):
    """tanh and three derivatives."""
    t = mp.tanh(x)
    s = 1 - t * t
    return t, s, -2 * t * s, s * (6 * t * t - 2)


def gelu(x):
    """x Φ(x) and three derivatives."""
    g, p = mp.npdf(x), mp.ncdf(x)
    return x * p, p + x * g, g * (2 - x * x), g * (x**3 - 4 * x)


def hermite(m, x):
    before, here = mp.mpf(0), mp.mpf(1)
    for k in range(m):
        before, here = here, x * here - k * before
    return here


class Averages:
    """⟨∂^m f⟩ over N(0, K) as ⟨f He_m(x)⟩ K^{−m/2}, z = √K x; the rule's error falls like e^{−2π²/h²} and e^{−π²/h√K}
    (poles of tanh), the tails' like e^{−reach²/2}."""

    def __init__(self, K, slopes, step, reach):
        self.root, self.known = mp.sqrt(K), {}
        self.x = [step * i for i in range(-int(reach / step), int(reach / step) + 1)]
        self.weight = [step * mp.npdf(x) for x in self.x]
        self.slopes = [slopes(self.root * x) for x in self.x]

    def __call__(self, node):
        if node not in self.known:
            m, number, powers = len(node.by), mp.mpf(1), []
            for factor in sp.Mul.make_args(node.f):
                base, power = factor.as_base_exp()
                if isinstance(base, Sigma):
                    powers.append((int(base.args[0]), int(power)))
                else:
                    number *= mp.mpf(int(factor))
            total = mp.mpf(0)
            for x, w, s in zip(self.x, self.weight, self.slopes):
                value = w * hermite(m, x)
                for k, power in powers:
                    value *= s[k] ** power
                total += value
            self.known[node] = number * total / self.root**m
        return self.known[node]


def next_layer(state, names, weights, numbers, averages, law_of=None):
    """{name: value one layer deeper}; law_of: {name: other weights}, planted errors."""
    out = {}
    for name in names:
        total = mp.mpf(0)
        for term in sp.Add.make_args(correlator_map(name, weights=(law_of or {}).get(name, weights))):
            value = mp.mpf(1)
            for factor in sp.Mul.make_args(term):
                base, power = factor.as_base_exp()
                if isinstance(base, Mean):
                    x = averages(base)
                elif base.is_Rational:
                    x = mp.mpf(base.p) / base.q
                else:
                    x = numbers[base.name] if base.name in numbers else state[base.name]
                value *= x ** int(power)
            total += value
        out[name] = total
    return out
