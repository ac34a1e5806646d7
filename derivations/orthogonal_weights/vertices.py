"""The vertex V and the correction G1 of K (§ 4): maps of one and of two inputs, closed forms, large depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import sympy as sp

import meanfield as mf
from derivations.comparisons import Formula
from derivations.orthogonal_weights.kernels import TANH, parallel, upto
from derivations.orthogonal_weights.kinds import PerNetwork, between, of_law, power
from meanfield.base.symbols import K, Z, l, sigma_b, sigma_w, z

w = sigma_w**2
ANY = ("tanh", "relu", "gelu", "sin", "elu", "z**3+z")
SMOOTH = ("tanh", "sin", "gelu", "atan(z)")
TWO = ("sin", "z**3+z", "exp(z)")  # averages over two inputs have closed forms
CROSSED, UNEVEN = (1, 2, 1, 2), (1, 2, 1, 1)
PATTERNS = ((1, 1, 2, 2), (1, 2, 1, 2), (1, 1, 1, 2), (1, 1, 1, 1))
V, G1 = (sp.Symbol(name, real=True) for name in ("V", "G1"))
K_ = {(a, b): sp.Symbol(f"K_{a}{b}", real=True) for a, b in ((1, 1), (1, 2), (2, 2))}
COV = (K_[1, 1], K_[1, 2], K_[2, 2])


def of_recursion(name: str, part: Callable[[sp.Expr], sp.Expr] = lambda e: e) -> Callable[[mf.Theory], sp.Expr]:
    """The map of one input, or a part of it."""
    return lambda theory: part(theory.recursion(name)[name])


def bracket(threes: int) -> Callable[[mf.Theory], sp.Expr]:
    """(4.18) with 3 or with 1 in front of ⟨σ²⟩²."""
    return lambda t: w**2 * (power(t, *[0] * 4) - threes * power(t, 0, 0) ** 2) + parallel(t) ** 2 * V


def vertex_symbol(a: int, b: int, c: int, d: int) -> sp.Symbol:
    """V_(ab)(cd): one symbol for what its symmetry identifies."""
    orders = [(0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2)]
    same = [tuple((a, b, c, d)[i] for i in o) for o in orders]
    same += [(x[2], x[3], x[0], x[1]) for x in same]
    return sp.Symbol("V_" + "".join(map(str, min(same))), real=True)


def of_two(inputs: Sequence[int], crossed: bool, theory: mf.Theory) -> sp.Expr:
    """(4.16) at inputs 1 and 2: indices of V are raised with K⁻¹."""
    at = [i - 1 for i in inputs]
    inverse = sp.Matrix([[K_[1, 1], K_[1, 2]], [K_[1, 2], K_[2, 2]]]).inv()

    def mean(*places: int, weight: sp.Expr = sp.S.One) -> sp.Expr:
        return mf.symbolic.closed(between(theory, *[at[p] for p in places], weight=weight, cov=COV))

    def shifted(one: int, two: int, x: int, y: int) -> sp.Expr:
        k = K_[min(x, y) + 1, max(x, y) + 1]
        return mean(one, two, weight=Z[x] * Z[y]) - k * mean(one, two)

    connected = mean(0, 1, 2, 3) - mean(0, 1) * mean(2, 3)
    if crossed:
        connected -= mean(0, 2) * mean(1, 3) + mean(0, 3) * mean(1, 2)
    total = sp.S.Zero
    for places in product((0, 1), repeat=4):
        raised = sp.Add(*[
            vertex_symbol(*[p + 1 for p in lower]) * sp.Mul(*[inverse[x, y] for x, y in zip(places, lower)])
            for lower in product((0, 1), repeat=4)
        ])  # fmt: skip
        total += raised * shifted(0, 1, *places[:2]) * shifted(2, 3, *places[2:])
    return sp.simplify(sp.expand(w**2 * connected + w**2 / 4 * total))


def engine_two(inputs: Sequence[int], theory: mf.Theory) -> sp.Expr:
    return sp.simplify(sp.expand(mf.symbolic.closed(theory.correlator_map("V", tuple(inputs)))))


def added(inputs: Sequence[int], theory: mf.Theory) -> sp.Expr:
    """What orthogonal weights add to the map of V, Δ V of (4.13)."""
    gaussian = mf.derive(theory.activations[0])
    return sp.expand(theory.correlator_map("V", inputs) - gaussian.correlator_map("V", inputs))


def pairs(inputs: Sequence[int], *products: str) -> Callable[[mf.Theory], sp.Expr]:
    """-C_W² Σ ⟨σ_a σ_b⟩⟨σ_c σ_d⟩ for products "ab cd" of places 1 … 4 at `inputs`."""

    def printed(theory: mf.Theory) -> sp.Expr:
        two = [[[inputs[int(p) - 1] - 1 for p in pair] for pair in one.split()] for one in products]
        return -(w**2) * sp.Add(*[sp.Mul(*[between(theory, *pair, cov=COV) for pair in one]) for one in two])

    return printed


def kept(law: str, slope: int, shift: int) -> Callable[[mf.Theory], sp.Expr]:
    """V' where V = (slope·l + shift) K², less the same at l + 1; σ_w² = 2 keeps K."""

    def by(theory: mf.Theory) -> sp.Expr:
        mapped = mf.symbolic.closed(theory.recursion("V")["V"]).subs({sigma_w: sp.sqrt(2), sigma_b: 0})
        return sp.expand(mapped.subs(V, (slope * l + shift) * K**2) / K**2)

    return by


def start(law: str) -> Callable[[mf.Theory], sp.Expr]:
    """Ṽ of layer 1 at leading order."""

    def by(theory: mf.Theory) -> sp.Expr:
        first = theory.recursion("V").initial
        return sp.cancel((first["V"] / first["K"] ** 2).subs(sigma_b, 0))

    return by


def coefficient(name: str, of: sp.Symbol, order: int) -> Callable[[mf.Theory], sp.Expr]:
    """The factor of V (or of G1) in a map at σ_w = 1, as a series at K = 0."""
    found = of_recursion(name, lambda e: sp.expand(e).coeff(of).subs({sigma_w: 1, sigma_b: 0}))
    return upto(order, found)


def source(name: str, order: int) -> Callable[[mf.Theory], sp.Expr]:
    """What a map has without V and G1, as a series at K = 0."""
    found = of_recursion(name, lambda e: sp.expand(e).subs({V: 0, G1: 0, sigma_w: 1, sigma_b: 0}))
    return upto(order, found)


def stein_four(scale: int) -> Callable[[mf.Theory], sp.Expr]:
    """C_W ⟨σ² (z⁴ - 6 K z² + 3 K²)⟩/(scale K⁴) V + χ_∥ G1."""

    def printed(theory: mf.Theory) -> sp.Expr:
        f = theory.activations[0].expression
        fourth = mf.average(f**2 * (z**4 - 6 * K * z**2 + 3 * K**2), K) / K**4
        return parallel(theory) * G1 + w * fourth * V / scale

    return printed


def balance(c: sp.Expr) -> Callable[[mf.Theory], sp.Expr]:
    """The coefficient of l⁻³ in V' - V(l + 1) for V = c/l², K = 1/(2l): (4.24)'s two sides."""

    def by(theory: mf.Theory) -> sp.Expr:
        mapped = coefficient("V", V, 2)(theory) * c / l**2 + source("V", 4)(theory)
        gap = (mapped - c / (l + 1) ** 2).subs(K, 1 / (2 * l))
        return sp.limit(gap * l**3, l, sp.oo)

    return by


MAPS = (
    PerNetwork("(4.18), orthogonal", of_law("orthogonal", *ANY), "V", bracket(3), bracket(1), by=of_recursion("V")),
    PerNetwork("(4.18), Gaussian", of_law("gaussian", *ANY), "V", bracket(1), bracket(3), by=of_recursion("V")),
    *(
        PerNetwork(f"(4.16) at {inputs}, orthogonal", of_law("orthogonal", *TWO), "V", partial(of_two, inputs, True),
                   partial(of_two, inputs, False), by=partial(engine_two, inputs))
        for inputs in PATTERNS
    ),
    *(
        PerNetwork(f"(4.16) at {inputs}, Gaussian", of_law("gaussian", *TWO), "V", partial(of_two, inputs, False),
                   partial(of_two, inputs, True), by=partial(engine_two, inputs))
        for inputs in PATTERNS[:2]
    ),
    PerNetwork("(4.13)-(4.15)", of_law("orthogonal", *TWO), "Delta V", pairs(CROSSED, "13 24", "14 23"),
               pairs(CROSSED, "13 24"), by=partial(added, CROSSED)),
    # E2: 2 twice in its second factor
    PerNetwork("E2 (4.14)", of_law("orthogonal", *TWO), "Delta V", pairs(UNEVEN, "13 22", "14 23"),
               pairs(UNEVEN, "13 24", "14 23"), True, by=partial(added, UNEVEN)),
)  # fmt: skip
RELU = {"orthogonal": (3, -5, -2), "gaussian": (5, -5, 0), "mixed": (3, -3, 0)}
CLOSED = tuple(
    claim
    for law, (slope, shift, first) in RELU.items()
    for claim in (
        Formula(f"(4.19), ReLU, {law}: V' of layer l", of_law(law, "relu"), "V/K^2", slope * (l + 1) + shift,
                (slope + 1) * (l + 1) + shift, by=kept(law, slope, shift)),
        Formula(f"(4.19), ReLU, {law}: layer 1", of_law(law, "relu"), "V/K^2", sp.Integer(first), sp.Integer(first + 1),
                by=start(law)),
    )
)  # fmt: skip
DEEP = (
    Formula("(4.23), factor of V", TANH, "V", 1 - 8 * K + 50 * K**2, 1 - 8 * K + 34 * K**2, by=coefficient("V", V, 2)),
    Formula("(4.23), source", TANH, "V", -8 * K**3, -4 * K**3, by=source("V", 3)),
    Formula("(4.23), source, next", TANH, "V", -8 * K**3 + 80 * K**4, -8 * K**3 + 50 * K**4, by=source("V", 4)),
    Formula("(4.24), c = -1/2", TANH, "V", sp.S.Zero, sp.S.One, by=balance(-sp.S.Half)),
    PerNetwork("(4.26), any sigma", (*of_law("orthogonal", *SMOOTH), *of_law("gaussian", *SMOOTH)), "G1", stein_four(8),
               stein_four(4), by=of_recursion("G1")),
    Formula("(4.26), factor of G1", TANH, "G1", 1 - 4 * K, 1 - 2 * K, by=coefficient("G1", G1, 1)),
    Formula("(4.26), factor of V", TANH, "G1", sp.Integer(-2), sp.Integer(-4), by=coefficient("G1", V, 0)),
    Formula("(4.28), factor of c_W", TANH, "K", K - 2 * K**2, K - 4 * K**2,
            by=upto(2, lambda theory: theory.recursion("K")["K"].diff(sigma_w).subs({sigma_w: 1}) / 2)),
)  # fmt: skip
CLAIMS = MAPS + CLOSED + DEEP
