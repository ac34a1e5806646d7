"""The tangent kernel and its correlators (§ 5): the map of its mean, and what normalized correlators are divided by."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.comparisons import Floats, Formula
from derivations.orthogonal_weights import several_inputs
from derivations.orthogonal_weights.kernels import TANH
from derivations.orthogonal_weights.kinds import PerNetwork, Says, between, of_law
from derivations.orthogonal_weights.several_inputs import scale
from derivations.orthogonal_weights.vertices import COV
from derivations.placeholders import slope, square
from meanfield.base.symbols import Theta, Z, sigma_w
from meanfield.symbolic.finite_width.monomials import quantity
from meanfield.symbolic.finite_width.neuron_fields import left

w = sigma_w**2
lambda_w, lambda_b = (sp.Symbol(f"lambda_{x}", nonnegative=True) for x in "wb")
Theta_12 = sp.Symbol("Theta_12", real=True)
ONE = lambda_b + lambda_w * square + w * slope * Theta  # (5.5) at one input
RATES = {"lambda_w": "lambda_w", "lambda_b": "lambda_b"}
LAYERS = tuple((l,) for l in (2, 5, 9))


def two(sign: int) -> Callable[[mf.Theory], sp.Expr]:
    """(5.5) between inputs 1 and 2."""

    def printed(theory: mf.Theory) -> sp.Expr:
        f = theory.activations[0].expression
        (z,) = f.free_symbols
        slopes = mf.average(f.diff(z).subs(z, Z[0]) * f.diff(z).subs(z, Z[1]), COV)
        return lambda_b + lambda_w * between(theory, 0, 1, cov=COV) + sign * w * slopes * Theta_12

    return printed


@lru_cache(maxsize=1)
def run():
    """Orthogonal tanh networks with the rates of (5.17)."""
    return mf.derive("tanh", weights="orthogonal").propagate(
        sigma_w=1, sigma_b=0, input_norm=1 / 3, depth=9, quantities=("K", "Theta", *OVER), lambda_w=1, lambda_b="1/l"
    )


def normalized(name: str) -> Callable[[int], float]:
    return lambda l: float(np.ravel(run().normalized(name))[l - 1])


def divided(name: str, K: int, theta: int) -> Callable[[int], float]:
    """A correlator over K^K Θ^theta."""

    def value(l: int) -> float:
        found = run()
        x, k, t = (float(np.ravel(getattr(found, q))[l - 1]) for q in (name, "K", "Theta"))
        return x / (k**K * t**theta)

    return value


OVER = {
    "V": ("(2.9)", 2, 0),
    **dict.fromkeys("AB", ("(5.9)", 0, 2)),
    **dict.fromkeys("DF", ("(5.10)", 1, 1)),
    **dict.fromkeys("PQ", ("(5.15)", 0, 2)),
    **dict.fromkeys("RSTU", ("(5.16)", -1, 3)),
}


def forward(second: str) -> tuple[str, ...]:
    """(5.4): the tangent kernel of the next layer of one network; second: the neuron of the second σ."""
    return (
        "Σ_{j1 j2} W_{i1 j1} W_{i2 j2} σ'_{j1;1}*σ'_{j2;2}*H_{j1 j2;1 2}",
        f"δ_{{i1 i2}} Σ_{{j1}} lambda_w*σ_{{j1;1}}*σ_{{{second};2}}/n",
        "δ_{i1 i2} lambda_b",
    )


MEANS = (
    Says("E3 (5.4)", TANH, "H of one network", forward("j2"), forward("j1"), misprint=True,
         by=lambda theory: tuple(str(word) for word in quantity("H", left(1, 2), (1, 2)))),
    *(
        Formula(f"(5.5), {law}", of_law(law, "tanh", "relu", "gelu"), "Theta", ONE, ONE + lambda_b,
                by=lambda theory: theory.correlator_map("Theta", **RATES))
        for law in ("gaussian", "orthogonal", "mixed")
    ),
    PerNetwork("(5.5), two inputs", of_law("orthogonal", "sin", "z**3+z", "erf"), "Theta_12", two(1), two(-1),
               by=lambda theory: theory.correlator_map("Theta", (1, 2), **RATES)),
)  # fmt: skip
NORMALIZED = tuple(
    Floats(f"{source}, {name}", TANH, f"{name} normalized", divided(name, K, theta), divided(name, K + 1, theta),
           of=normalized(name), places=LAYERS)
    for name, (source, K, theta) in OVER.items()
)  # fmt: skip


@lru_cache(maxsize=1)
def of_four():
    """Orthogonal tanh networks with four inputs of the figures."""
    return several_inputs.theory("tanh", "orthogonal", ("K", "Theta", "V", "A", "B", "D", "F"), 4, 50)


def at_tuple(name: str, at: tuple[int, ...]) -> Callable[[int], float]:
    return lambda l: float(of_four().normalized(name)[(l - 1, *at)])


def by_print(name: str, at: tuple[int, ...], like: str = "") -> Callable[[int], float]:
    """A correlator over what the paper divides it by; like: what it divides another one by."""
    return lambda l: float(getattr(of_four(), name)[(l - 1, *at)] / scale(of_four(), like or name, at)[l - 1])


PATTERNS = several_inputs.PATTERNS
SEVERAL = (
    *(
        Floats(f"{source}, V, {pattern}", TANH, "V normalized", by_print("V", PATTERNS[pattern]),
               by_print("V", PATTERNS[pattern], "A"), of=at_tuple("V", PATTERNS[pattern]), places=LAYERS[:1])
        for source, pattern in (("(A.1)", "2 (3-1)"), ("(A.1)", "2 (2-2)"), ("(A.2)", "3"), ("(A.3)", "4"))
    ),
    *(
        Floats(f"{source}, {name}", TANH, f"{name} normalized", by_print(name, PATTERNS["4"]),
               by_print(name, PATTERNS["4"], "V"), of=at_tuple(name, PATTERNS["4"]), places=LAYERS[:1])
        for name, source in (("A", "(A.4)"), ("B", "(A.4)"), ("D", "(A.5)"), ("F", "(A.5)"))
    ),
)  # fmt: skip
CLAIMS = MEANS + NORMALIZED + SEVERAL
