"""One step of a block's recursion, in numbers, against a trapezoid rule that knows nothing of the rules.

A signal is what a neuron holds at the nodes of two correlated Gaussians; a Dense makes new Gaussians of its second
moments. What two inputs have in common (J_ab, Θ_ab) goes along, neuron by neuron.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import sympy as sp
from scipy.special import erf

import meanfield as mf
from meanfield.networks.records import (
    AffineNorm,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Pool,
    Residual,
    Scale,
    Sequential,
)
from meanfield.symbolic.recursion import closed

PHI = {"erf": (erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-z * z)), "sin": (np.sin, np.cos),
       "exp(-z**2/2)": (lambda z: np.exp(-z * z / 2), lambda z: -z * np.exp(-z * z / 2)),
       "cos(z) + z": (lambda z: np.cos(z) + z, lambda z: 1 - np.sin(z))}  # fmt: skip
AT = {"sigma_w": 1.3, "sigma_b": 0.4}
START = {"K_aa": 1.2, "K_bb": 0.7, "K_ab": 0.5, "J_ab": 0.9, "Theta_ab": 2.1}
T = np.linspace(-9.5, 9.5, 121)
W = np.exp(-T * T / 2) / np.exp(-T * T / 2).sum()


def nodes(cov: np.ndarray) -> np.ndarray:
    """(values of a and b, at the nodes) of a centred Gaussian."""
    root = np.linalg.cholesky(cov)
    u, v = np.meshgrid(T, T, indexing="ij")
    return np.array([root[0, 0] * u, root[1, 0] * u + root[1, 1] * v])


def mean(values) -> float:
    return float((np.multiply.outer(W, W) * values).sum())


@dataclass
class Signal:
    """x at the nodes for both inputs; gram, tangent: ∂x_a·∂x_b over the inputs and over the parameters, by neuron."""

    x: np.ndarray
    gram: np.ndarray
    tangent: np.ndarray

    def moments(self) -> np.ndarray:
        return np.array([[mean(p * q) for q in self.x] for p in self.x])


def gaussian(cov, gram: float, tangent: float) -> Signal:
    one = np.ones((len(T), len(T)))
    return Signal(nodes(np.asarray(cov)), gram * one, tangent * one)


def stepped(block, s: Signal) -> Signal:
    match block:
        case Sequential(blocks):
            for inner in blocks:
                s = stepped(inner, s)
            return s
        case Nonlinearity(name):
            f, df = PHI[name]
            slopes = df(s.x[0]) * df(s.x[1])
            return Signal(f(s.x), s.gram * slopes, s.tangent * slopes)
        case Scale(factor):
            c = float(factor)
            return Signal(c * s.x, c * c * s.gram, c * c * s.tangent)
        case LayerNorm(affine):
            centred = np.array([v - mean(v) for v in s.x])
            sd = np.sqrt([mean(v * v) for v in centred])
            x = centred / sd[:, None, None]
            return Signal(x, s.gram / sd.prod(), s.tangent / sd.prod() + affine * (x[0] * x[1] + 1))
        case AffineNorm():
            return Signal(s.x, s.gram, s.tangent + s.x[0] * s.x[1] + 1)
        case Pool(size, "average"):  # independent neurons of one law
            m = np.array([mean(v) for v in s.x])
            cov = s.moments() - np.outer(m, m)
            around = gaussian(cov / size, 1, 1)
            common = (mean(k) / size * around.gram for k in (s.gram, s.tangent))
            return Signal(around.x + m[:, None, None], *common)
        case Pool(2, "z1*z2 + z1"):  # products of independent nodes: by ⟨φ⟩, ⟨φφ⟩ and ⟨φ′φ′⟩ of one of them
            m, M = np.array([mean(v) for v in s.x]), s.moments()
            grams = [(2 * M[0, 1] + m.sum() + 1) * mean(k) for k in (s.gram, s.tangent)]
            return gaussian(M * M + M * (m[:, None] + m + 1), *grams)  # only its second moments are asked for
        case Dense():
            own = [v if not isinstance(v, mf.Param) else AT[v.name] for v in (block.sigma_w, block.sigma_b)]
            w2, b2 = (float(v) ** 2 for v in own)
            second = s.moments()
            return gaussian(w2 * second + b2, w2 * mean(s.gram), w2 * mean(s.tangent) + w2 * second[0, 1] + b2)
        case Residual(Nonlinearity(name), mu, shortcut):  # no Dense: branch and shortcut are functions of one z
            f, df = PHI[name]
            g, dg = PHI[shortcut.activation] if shortcut else (lambda z: z, np.ones_like)
            slopes = np.prod([df(z) + float(mu) * dg(z) for z in s.x], axis=0)
            return Signal(f(s.x) + float(mu) * g(s.x), s.gram * slopes, s.tangent * slopes)
        case Residual(branch, mu):
            out, m2 = stepped(branch, s), float(mu) ** 2
            cov, skip = out.moments(), s.moments()
            return gaussian(cov + m2 * skip, mean(out.gram + m2 * s.gram), mean(out.tangent + m2 * s.tangent))
        case Gate(name, value, gate):
            u, v = stepped(value, s), stepped(Sequential((gate, Nonlinearity(name))), s)
            U, M = u.moments(), v.moments()
            grams = [mean(getattr(u, k)) * M[0, 1] + U[0, 1] * mean(getattr(v, k)) for k in ("gram", "tangent")]
            return gaussian(U * M, *grams)  # only its second moments are asked for
    raise AssertionError(block)


N, D = Nonlinearity, Dense()
BLOCKS = {
    "plain": Sequential((N("erf"), D)),
    "skip": Residual(Sequential((N("sin"), D)), "1/2"),
    "two layers": Residual(Sequential((N("erf"), Dense(sigma_w="3/4", sigma_b="1/5"), N("sin"), D)), "2/3"),
    "scaled": Residual(Sequential((N("erf"), Dense(), Scale("1/3"))), 1),
    "scaled inside": Sequential((Scale(2), N("sin"), Scale("3/2"), D)),
    "pre": Residual(Sequential((LayerNorm(), N("erf"), D)), "1/2"),
    "pre without affine": Sequential((LayerNorm(False), N("cos(z) + z"), D)),
    "act": Sequential((N("exp(-z**2/2)"), LayerNorm(), D)),
    "act, of a mean": Residual(Sequential((N("cos(z) + z"), LayerNorm(False), D)), "1/2"),
    "post": Sequential((Residual(Sequential((N("sin"), D)), 1), LayerNorm(False))),
    "affine": Sequential((AffineNorm(), N("sin"), D)),
    "pooled": Sequential((N("cos(z) + z"), Pool(3, "average"), D)),
    "products": Sequential((N("cos(z) + z"), Pool(2, "z1*z2 + z1"), D)),
    "gate": Residual(Sequential((Gate("sin", Dense(sigma_w="5/4"), Dense(sigma_b="1/2")), D)), "1/2"),
    "gate, normed": Sequential((LayerNorm(), Gate("erf"), D)),
    "skip of one z": Sequential((Residual(N("sin"), "1/2"), D)),
    "two ways of one z": Sequential((Residual(N("sin"), "2/3", N("exp(-z**2/2)")), D)),
    "skip inside": Sequential((Residual(Sequential((N("erf"), D)), "1/2"), N("sin"), D)),
}


def predicted(recursion, quantities, at: dict) -> list[float]:
    """The maps of some quantities in numbers."""
    found = [closed(recursion[q]) for q in quantities]
    symbols = set().union(*(e.free_symbols for e in found))
    return [float(e.subs({s: sp.Float(at[s.name], 30) for s in symbols}).evalf(12)) for e in found]


@pytest.mark.fast_with("plain", "skip", "scaled", "post", "affine", "pooled", "products", "skip of one z")
@pytest.mark.parametrize("name", BLOCKS)
def test_one_step_of_two_inputs(name):
    theory = mf.derive(architecture=BLOCKS[name])
    cov = [[START["K_aa"], START["K_ab"]], [START["K_ab"], START["K_bb"]]]
    out = stepped(BLOCKS[name], gaussian(cov, START["J_ab"], START["Theta_ab"]))
    second = out.moments()
    truth = [second[0, 0], second[1, 1], second[0, 1], mean(out.gram), mean(out.tangent)]
    assert predicted(theory.recursion(*START), START, {**AT, **START}) == pytest.approx(truth, rel=1e-10)


@pytest.mark.slow_with("two layers", "pre without affine", "post")
@pytest.mark.parametrize("name", [n for n in BLOCKS if not n.startswith(("gate, normed", "act", "skip inside"))])
def test_one_step_of_a_distance(name):
    theory = mf.derive(architecture=BLOCKS[name])
    apart = START["K_aa"] + START["K_bb"] - 2 * START["K_ab"]
    cov = [[START["K_aa"], START["K_ab"]], [START["K_ab"], START["K_bb"]]]
    second = stepped(BLOCKS[name], gaussian(cov, 1, 1)).moments()
    truth = second[0, 0] + second[1, 1] - 2 * second[0, 1]
    recursion = theory.recursion("K_aa", "K_bb", "K_ab", "distance")
    assert predicted(recursion, ["distance"], {**AT, **START, "distance": apart}) == pytest.approx([truth], rel=1e-9)


@pytest.mark.parametrize("name", BLOCKS)
def test_one_step_of_one_input(name):
    """K, J and Θ are K_aa, J_aa and Θ_aa of two inputs that are one."""
    theory, start = mf.derive(architecture=BLOCKS[name]), {"K": 1.2, "J": 0.9, "Theta": 2.1}
    out = stepped(BLOCKS[name], gaussian([[1.2, 1.2], [1.2, 1.2 + 1e-13]], 0.9, 2.1))
    truth = [out.moments()[0, 0], mean(out.gram), mean(out.tangent)]
    assert predicted(theory.recursion(*start), start, {**AT, **start}) == pytest.approx(truth, rel=1e-6)
