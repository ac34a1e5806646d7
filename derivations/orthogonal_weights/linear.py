"""Linear networks (§ 3, (4.17)), exact in n: moments, the characteristic function, densities, the vertex."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import sympy as sp

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Formula
from derivations.orthogonal_weights.kinds import LINEAR, Says
from derivations.orthogonal_weights.weights import rising
from meanfield.base.symbols import n, sigma_w

C_W = sp.Symbol("C_W", positive=True)
K0 = sp.Symbol("K_0", positive=True)  # |x|²/n
u = sp.Symbol("u", positive=True)
GAUSSIAN = network("linear")
DEPTH, ORDER = 3, 10  # layers, and the highest moment that is looked at


def moment(order: int, layer: int, theory: mf.Theory, law: str = "orthogonal") -> sp.Expr:
    """G_order of one layer, |x|² = n K_0."""
    return mf.symbolic.linear_moments(order, layer, weights=law, variance=C_W)[-1] * K0 ** (order // 2)


def ratio(order: int, law: str, theory: mf.Theory) -> sp.Expr:
    """G'/G of neighbouring layers."""
    one, two = mf.symbolic.linear_moments(order, 2, weights=law, variance=C_W)
    return sp.cancel(two / one)


def vertex(layer: int, law: str, theory: mf.Theory) -> sp.Expr:
    """G_4 - K² at one layer: V with its 1/n."""
    return sp.factor(moment(4, layer, theory, law) - moment(2, layer, theory, law) ** 2)


def c(m: int) -> sp.Expr:
    """(3.13)."""
    return rising(m) / n**m


def squared_norm(theory: mf.Theory) -> sp.Expr:
    """E|z|^6 of layer 2, from E z_i^6 = 15 G_6, E z_i^4 z_j^2 = 3 G_6, …: n(n + 2)(n + 4) G_6."""
    return sp.expand(sp.cancel(rising(3) * moment(6, 2, theory)))


def characteristic(theory: mf.Theory) -> sp.Expr:
    """E exp(i u z_1) of layer DEPTH up to u^ORDER: Σ (-u²/2)^m G_2m/m!."""
    return sp.Add(*[
        (-(u**2) / 2) ** m / sp.factorial(m) * (moment(2 * m, DEPTH, theory) if m else 1)
        for m in range(ORDER // 2 + 1)
    ])  # fmt: skip


def by_hypergeometric(half: sp.Expr) -> sp.Expr:
    """₀F₁(; half; -u² n C_W^ℓ K_0/4) up to u^ORDER."""
    x = -(u**2) * n * C_W**DEPTH * K0 / 4
    return sp.Add(*[x**m / (sp.ff(half + m - 1, m) * sp.factorial(m)) for m in range(ORDER // 2 + 1)])


def by_bessel(order: sp.Expr) -> sp.Expr:
    """(3.21) up to u^ORDER, from J_ν(x) = Σ (-1)^m (x/2)^{2m + ν}/(m! Γ(m + ν + 1)); Γ((n)/2) in front."""
    x = u * sp.sqrt(n * C_W**DEPTH * K0)
    terms = [
        (-1) ** m * (x / 2) ** (2 * m) * sp.gamma(n / 2) / (sp.factorial(m) * sp.gamma(m + order + 1))
        for m in range(ORDER // 2 + 1)
    ]
    return sp.Add(*[sp.gammasimp(t) for t in terms])


def meijer(order: int, layer: int, scale: sp.Expr) -> sp.Expr:
    """G_order by the Meijer density with a scale: |z|²/(2^ℓ scale) is a product of ℓ gamma variables of shape n/2."""
    m = order // 2
    norm = (2**layer * scale) ** m * sp.ff(n / 2 + m - 1, m) ** layer
    return sp.expand(sp.cancel(norm / rising(m)))


def scaled(layer: int, power: sp.Expr) -> sp.Expr:
    return n**power * C_W**layer * K0


def first(inputs: int, law: str, neurons: int = 50) -> Callable[[mf.Theory], sp.Expr]:
    """Ṽ¹ of `neurons` neurons on `inputs` inputs."""

    def by(theory: mf.Theory) -> sp.Expr:
        layer = mf.symbolic.first_linear_layer(inputs, neurons, weights=law, variance=1, bias=0)
        return layer.correlators()["V"]

    return by


def sequence(*laws: str) -> Callable[[mf.Theory], sp.Expr]:
    """V of the last of some layers, exact in n."""

    def by(theory: mf.Theory) -> sp.Expr:
        layer = mf.symbolic.first_linear_layer(n, weights=laws[0], variance=1, bias=0)
        for law in laws[1:]:
            layer = layer.next(weights=law, variance=1, bias=0)
        return layer.correlators()["V"]

    return by


def between_four(theory: mf.Theory) -> sp.Expr:
    """V of four inputs where C_W = 1 and V of the layer before is the print."""
    found = mf.symbolic.closed(theory.correlator_map("V", (1, 2, 3, 4))).subs(sigma_w, 1)
    return sp.expand(found.subs(sp.Symbol("V_1234", real=True), connected(1, 3, 2, 4)))


def connected(a: int, b: int, c: int, d: int) -> sp.Expr:
    """-(K_ab K_cd + K_ad K_bc), for (a, b), (c, d) and (a, d), (b, c)."""

    def k(i: int, j: int) -> sp.Symbol:
        return sp.Symbol(f"K_{min(i, j)}{max(i, j)}", real=True)

    return -k(a, b) * k(c, d) - k(a, d) * k(b, c)


orth, gauss = moment, partial(moment, law="gaussian")
MOMENTS = (
    Formula("(3.1)-(3.3)", LINEAR, "G_2 of layer 1", C_W * K0, C_W * K0 / n, by=partial(orth, 2, 1)),
    Formula("(3.4)", LINEAR, "G_2'/G_2", C_W, C_W**2, by=partial(ratio, 2, "orthogonal")),
    Formula("(3.5)", LINEAR, "G_2 of layer 3", C_W**3 * K0, C_W**2 * K0, by=partial(orth, 2, 3)),
    Formula("(3.5), Gaussian", GAUSSIAN, "G_2 of layer 3", C_W**3 * K0, C_W**2 * K0, by=partial(gauss, 2, 3)),
    Formula("(3.6)", LINEAR, "G_4 of layer 1", C_W**2 / (n**2 + 2 * n) * (n * K0) ** 2, C_W**2 * K0**2,
            by=partial(orth, 4, 1)),
    Formula("(3.9)", LINEAR, "G_4'/G_4", C_W**2, C_W**2 * (n + 2) / n, by=partial(ratio, 4, "orthogonal")),
    Formula("(3.9), Gaussian", GAUSSIAN, "G_4'/G_4", C_W**2 * (n + 2) / n, C_W**2, by=partial(ratio, 4, "gaussian")),
    *(
        Formula(f"(3.14)-(3.16), order {2 * m}", LINEAR, f"G_{2 * m}'/G_{2 * m}", C_W**m, C_W ** (m + 1),
                by=partial(ratio, 2 * m, "orthogonal"))
        for m in (3, 4, 5)
    ),
    *(
        Formula(f"({'3.10' if m == 2 else '3.17'}), order {2 * m}", LINEAR, f"G_{2 * m} of layer 2",
                C_W ** (2 * m) * n**m / rising(m) * K0**m, C_W ** (2 * m) * K0**m, by=partial(orth, 2 * m, 2))
        for m in (2, 3, 4, 5)
    ),
    *(
        Formula(f"(3.24), order {2 * m}", GAUSSIAN, f"G_{2 * m} of layer 3", C_W ** (3 * m) * c(m) ** 2 * K0**m,
                C_W ** (3 * m) * c(m) ** 3 * K0**m, by=partial(gauss, 2 * m, 3))
        for m in (2, 3, 4, 5)
    ),
    Formula("(3.11), with its 1/n", LINEAR, "V of layer 2", -2 / (n + 2) * (C_W**2 * K0) ** 2,
            -2 / n * (C_W**2 * K0) ** 2, by=partial(vertex, 2, "orthogonal")),
    Formula("(3.12), exact in n", GAUSSIAN, "V of layer 3", ((1 + 2 / n) ** 2 - 1) * (C_W**3 * K0) ** 2,
            4 / n * (C_W**3 * K0) ** 2, by=partial(vertex, 3, "gaussian")),
    Formula("(3.12), n V/K^2 at large n", GAUSSIAN, "V of layer 3", sp.Integer(4), sp.Integer(6),
            by=lambda theory: sp.limit(n * vertex(3, "gaussian", theory) / (C_W**3 * K0) ** 2, n, sp.oo)),
)  # fmt: skip
DENSITIES = (
    Formula("(3.18)-(3.20), to u^10", LINEAR, "phi(u)", by_hypergeometric(n / 2), by_hypergeometric((n + 1) / 2),
            by=characteristic),
    Formula("(3.21), to u^10", LINEAR, "phi(u)", by_bessel((n - 2) / 2), by_bessel(n / 2), by=characteristic),
    Formula("(3.22): |z| is fixed, E|z|^6", LINEAR, "E|z|^6", (n * C_W**2 * K0) ** 3, (n * C_W**2 * K0) ** 3 * (n + 2),
            by=squared_norm),
    *(
        Formula(f"E1 (3.23), scale, order {m}, layer {layer}", GAUSSIAN, f"G_{m}",
                meijer(m, layer, scaled(layer, sp.S.One)), meijer(m, layer, scaled(layer, sp.Integer(1 - layer))), True,
                by=partial(gauss, m, layer))
        for m, layer in ((2, 2), (4, 2), (6, 3))
    ),
)  # fmt: skip
VERTEX = (
    Formula("(4.17), C_W = 1, layer by layer", LINEAR, "V_1234", connected(1, 3, 2, 4), -connected(1, 3, 2, 4),
            by=between_four),
    Formula("(4.17), one input, layers 1-3", LINEAR, "V", -2 * n / (n + 2), sp.Integer(-2),
            by=sequence("orthogonal", "orthogonal", "orthogonal")),
    # E15: zero up to 1/n corrections
    Says("E15 (4.17), mixed: V has 1/n corrections", network("linear", weights="mixed"), "V", False, True, True,
         by=lambda theory: sequence("gaussian", "orthogonal", "orthogonal")(theory) == 0),
    *(
        # E16: said not to be well-defined
        Formula(f"E16 first layer of 50 on {inputs}", LINEAR, "V", sp.Rational(-100, max(50, inputs) + 2),
                sp.Rational(-100, 52 if inputs > 50 else inputs + 2), by=first(inputs, "orthogonal"))
        for inputs in (20, 100, 784)
    ),
)  # fmt: skip
CLAIMS = MOMENTS + DENSITIES + VERTEX
