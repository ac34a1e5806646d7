"""Random activations: registered names, sums of piecewise-linear and curved terms, jumps between pieces of all kinds,
|z|^p times smooth functions, polynomials, polynomials times Gaussians, quotients, choices."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

from .functions import (
    Apply,
    Choose,
    Clip,
    Line,
    Modulus,
    Node,
    Number,
    Phi,
    Power,
    Product,
    Quotient,
    Ramp,
    Sign,
    Sum,
)

Z = Line()
HALF, ONE = Number("0.5"), Number("1")


def decimal(rng: random.Random, low: float, high: float, places: int | None = None) -> str:
    """A decimal number as text, with few digits as people write them."""
    places = rng.choice((0, 1, 1, 1, 2)) if places is None else places
    value = round(rng.uniform(low, high), places)
    text = f"{value:.{places}f}".rstrip("0").rstrip(".") if places else f"{value:.0f}"
    return "0" if text in ("-0", "") else text


def nonzero(rng: random.Random, low: float, high: float, places: int | None = None) -> str:
    while (text := decimal(rng, low, high, places)) == "0":
        pass
    return text


def _times(number: str, node: Node) -> Node:
    if number == "1":
        return node
    return Product((Number(number), *node.parts)) if isinstance(node, Product) else Product((Number(number), node))


# -------------------------------------------------------------------------------------------------- registered names


def _gelu(z: Node) -> Node:
    # z/sqrt(2) as a float would be rounded: erf of a product of exact constants is spelt by its own node
    return Product((z, Sum((HALF, Product((HALF, _ErfOverRoot2(z)))))))


class _ErfOverRoot2(Apply):
    def __init__(self, of: Node):
        super().__init__("erf", of)

    @property
    def text(self) -> str:
        return f"erf({self.of.text}/sqrt(2))"

    def jet(self, z, m, at):
        u, du = self.of.jet(z, m, at)
        root = m.sqrt(m.number("2"))
        return m.erf(u / root), m.sqrt(2 / m.pi) * m.exp(-u * u / 2) * du


class _GeluTanh(Node):
    """tanh(√(2/π)(z + 0.044715 z³))."""

    @property
    def text(self) -> str:
        return "tanh(sqrt(2/pi)*(z+0.044715*z**3))"

    def jet(self, z, m, at):
        a, root = m.number("0.044715"), m.sqrt(2 / m.pi)
        v = m.tanh(root * (z + a * z**3))
        return v, (1 - v) * (1 + v) * root * (1 + 3 * a * z * z)


class _ErfScaled(Node):
    """erf(√π z/2)."""

    @property
    def text(self) -> str:
        return "erf(sqrt(pi)*z/2)"

    def jet(self, z, m, at):
        root = m.sqrt(m.pi) / 2
        return m.erf(root * z), m.exp(-m.pi * z * z / 4)


def _of(name: str, z: Node) -> Node:
    return Apply(name, z)


#: name → its tree; hand-written, for the same reason that networks have twins
NAMED: dict[str, Node] = {
    "tanh": _of("tanh", Z),
    "erf": _of("erf", Z),
    "sin": _of("sin", Z),
    "cos": _of("cos", Z),
    "arctan": _of("atan", Z),
    "sigmoid": _of("sigmoid", Z),
    "softplus": _of("softplus", Z),
    "silu": Product((Z, _of("sigmoid", Z))),
    "gelu": _gelu(Z),
    "gelu_tanh": Product((Z, Sum((HALF, Product((HALF, _GeluTanh())))))),
    "erf_scaled": _ErfScaled(),
    "mish": Product((Z, _of("tanh", _of("softplus", Z)))),
    "softsign": Quotient(Z, Sum((ONE, Modulus()))),
    "relu": Ramp(),
    "relu2": Power(Ramp(), 2),
    "relu6": Clip("0", "6"),
    "hard_tanh": Clip("-1", "1"),
    "hard_swish": Product((Z, Sum((HALF, Product((Number("1/6"), Clip("-3", "3"))))))),
    "leaky_relu": Choose("0", Z, Line("0.01")),
    "elu": Choose("0", Z, Sum((_of("exp", Z), Number("-1")))),
    "selu": Product(
        (
            Number("1.0507009873554804934193349852946"),
            Choose("0", Z, Product((Number("1.6732632423543772848170429916717"), Sum((_of("exp", Z), Number("-1")))))),
        )
    ),
    "abs": Modulus(),
    "linear": Z,
    "gaussian": _of("exp", Product((Number("-0.5"), Power(Z, 2)))),
    "sign": Sign(),
    "step": Choose("0", ONE, Number("0")),
    "monomial": Power(Z, 3),
}
SMOOTH = ("tanh", "erf", "sin", "cos", "atan", "sigmoid", "softplus", "asinh")


def named(rng: random.Random) -> Phi:
    if rng.random() < 0.25:
        return _with_parameters(rng)
    name = rng.choice([n for n in NAMED if n not in ("linear", "monomial") or rng.random() < 0.3])
    return Phi(NAMED[name], name, "named")


def _with_parameters(rng: random.Random) -> Phi:
    match rng.randrange(6):
        case 0:
            beta = nonzero(rng, 0.2, 3)
            tree: Node = Product((Z, Apply("sigmoid", Line(beta))))
            return Phi(tree, "swish", "parameters", (("beta", beta),))
        case 1:
            alpha = decimal(rng, -0.9, 0.9)
            return Phi(Choose("0", Z, Line(alpha)), "leaky_relu", "parameters", (("alpha", alpha),))
        case 2:
            up, down = nonzero(rng, 0.1, 2), decimal(rng, -2, 2)
            tree = Choose("0", Line(up), Line(down))
            return Phi(tree, "scale_invariant", "parameters", (("a_plus", up), ("a_minus", down)))
        case 3:
            alpha = nonzero(rng, 0.1, 2)
            tree = Choose("0", Z, Product((Number(alpha), Sum((Apply("exp", Z), Number("-1"))))))
            return Phi(tree, "elu", "parameters", (("alpha", alpha),))
        case 4:
            c = [decimal(rng, -1.5, 1.5), nonzero(rng, 0.2, 1.5), decimal(rng, -1, 1), decimal(rng, -0.5, 0.5)]
            return Phi(_polynomial(c), "polynomial", "parameters", tuple((f"c{k}", v) for k, v in enumerate(c)))
        case _:
            s = nonzero(rng, 0.3, 3)
            return Phi(Apply("erf", Line(s)), "erf_scaled", "parameters", (("s", s),))


# ------------------------------------------------------------------------------------------------------- compositions


def smooth(rng: random.Random) -> Node:
    """One smooth function that grows at most as a line."""
    kind = rng.randrange(8)
    if kind < 4:
        shift = decimal(rng, -1.5, 1.5) if rng.random() < 0.3 else "0"
        slope = rng.choice(("1", "1", decimal(rng, 0.3, 3)))
        return Apply(rng.choice(SMOOTH), Line(slope if slope != "0" else "1", shift))
    if kind == 4:
        return rng.choice((NAMED["silu"], NAMED["mish"], _gelu(Z)))
    if kind == 5:
        return _bell(rng)
    if kind == 6:
        return _quotient(rng)
    return Product((Z, Apply(rng.choice(("sigmoid", "tanh", "erf")), Line(nonzero(rng, 0.3, 3)))))


def _bell(rng: random.Random) -> Node:
    """A polynomial times a Gaussian."""
    width = nonzero(rng, 0.1, 1.5)
    bell = Apply("exp", Product((Number(f"-{width}"), Power(Z, 2))))
    front = rng.choice((Z, Power(Z, 2), Power(Z, 3), Sum((Z, Number(nonzero(rng, -1, 1, 1)))), None))
    return bell if front is None else Product((front, bell))


def _quotient(rng: random.Random) -> Node:
    below = Sum((ONE, Product((Number(nonzero(rng, 0.2, 3)), Power(Z, 2)))))
    match rng.randrange(4):
        case 0:
            return Quotient(Z, Apply("sqrt", below))
        case 1:
            return Quotient(rng.choice((Z, ONE, Power(Z, 2), Power(Z, 3))), below)
        case 2:
            return Quotient(Z, Sum((ONE, Modulus())))
        case _:
            return Apply("sqrt", below)


def bent(rng: random.Random) -> Node:
    """A continuous piecewise-linear function."""
    match rng.randrange(4):
        case 0:
            low = decimal(rng, -3, 0.5)
            high = decimal(rng, 0.6, 4)
            return Clip(low, high) if Fraction(low) < Fraction(high) else Clip("-1", "1")
        case 1:
            return Ramp(rng.choice(("0", decimal(rng, -1.5, 1.5))))
        case 2:
            return Modulus(rng.choice(("0", decimal(rng, -1.5, 1.5))))
        case _:
            return Sum((Ramp(decimal(rng, -1, 0)), _times(nonzero(rng, -1.5, 1.5), Ramp(nonzero(rng, 0.2, 2)))))


def _polynomial(coefficients: list[str]) -> Node:
    parts = [
        _times(c, Z if k == 1 else Power(Z, k)) if k else Number(c) for k, c in enumerate(coefficients) if c != "0"
    ]
    return Sum(tuple(parts)) if len(parts) > 1 else parts[0] if parts else Number("0")


def polynomial(rng: random.Random) -> Node:
    match rng.randrange(3):
        case 0:  # odd
            return _polynomial(["0", nonzero(rng, -2, 2), "0", decimal(rng, -1, 1), "0", decimal(rng, -0.2, 0.2, 2)])
        case 1:
            return _polynomial([decimal(rng, -1, 1), nonzero(rng, -2, 2), decimal(rng, -1, 1), decimal(rng, -0.4, 0.4)])
        case _:  # even
            return _polynomial([decimal(rng, -1, 1), "0", nonzero(rng, -1, 1), "0", decimal(rng, -0.2, 0.2, 2)])


def bent_and_curved(rng: random.Random) -> Node:
    curved = rng.choice((smooth, smooth, lambda r: Power(Z, r.choice((2, 2, 3)))))(rng)
    other = _times(nonzero(rng, -1, 1), curved)
    if isinstance(curved, Power):
        other = _times(nonzero(rng, -0.3, 0.3, 2), curved)
    return Sum((_times(rng.choice(("1", nonzero(rng, -2, 2))), bent(rng)), other))


def two_curved(rng: random.Random) -> Node:
    return Sum((smooth(rng), _times(nonzero(rng, -1.5, 1.5), rng.choice((smooth, polynomial))(rng))))


def jump_of_constants(rng: random.Random) -> Node:
    match rng.randrange(4):
        case 0:  # two levels at one place
            place = rng.choice(("0", "0", decimal(rng, -1, 1)))
            high = nonzero(rng, 0.2, 2)
            low = rng.choice((f"-{high}", decimal(rng, -2, 2)))
            return Choose(place, Number(high), Number(low)) if low != high else Sign(place)
        case 1:
            return _times(nonzero(rng, 0.3, 2), Sign(rng.choice(("0", decimal(rng, -1, 1)))))
        case 2:
            return Sum((Sign("0"), _times(nonzero(rng, -1, 1), Sign(nonzero(rng, 0.3, 1.5)))))
        case _:
            return Choose(nonzero(rng, 0.3, 1.5), ONE, Choose(f"-{nonzero(rng, 0.3, 1.5)}", Number("0"), Number("-1")))


def jump_of_functions(rng: random.Random) -> Node:
    place = rng.choice(("0", decimal(rng, -1, 1)))
    match rng.randrange(4):
        case 0:
            return Sum((_times(nonzero(rng, -1, 1.5), Sign(place)), _times(nonzero(rng, 0.3, 1.5), smooth(rng))))
        case 1:
            return Choose(nonzero(rng, -1, 1), Line(rng.choice(("1", nonzero(rng, 0.5, 2)))), Number("0"))
        case 2:
            return Choose(place, smooth(rng), Line(nonzero(rng, -1, 1), nonzero(rng, -1, 1)))
        case _:
            return Sum((Sign(place), _times(nonzero(rng, 0.2, 1), bent(rng))))


def modulus_times(rng: random.Random) -> Node:
    power = rng.choice((nonzero(rng, 0.3, 2.9, 1), nonzero(rng, 0.3, 1.9, 1), "1", "1/2", "3/2"))
    if Fraction(power).denominator == 1 and Fraction(power) % 2 == 0:
        power = "1.5"
    parts = [smooth(rng), Modulus(rng.choice(("0", "0", nonzero(rng, -1, 1, 1))), power)]
    if rng.random() < 0.5:
        parts.reverse()
    return Product(tuple(parts))


def choice_of_functions(rng: random.Random) -> Node:
    """Continuous at 0: two odd-like functions joined there."""
    right, left = (
        rng.choice((Z, NAMED["tanh"], NAMED["silu"], Line(nonzero(rng, -1, 1)), Power(Z, 2), Apply("asinh", Z)))
        for _ in range(2)
    )
    return Choose("0", right, left)


FAMILIES: dict[str, tuple[float, Callable[[random.Random], Node]]] = {
    "bent and curved": (1.6, bent_and_curved),
    "two curved": (1.2, two_curved),
    "curved": (1.0, smooth),
    "bent": (0.8, bent),
    "jump of constants": (0.7, jump_of_constants),
    "jump of functions": (0.8, jump_of_functions),
    "modulus times": (0.8, modulus_times),
    "polynomial": (0.8, polynomial),
    "bell": (0.6, _bell),
    "quotient": (0.6, _quotient),
    "choice": (0.6, choice_of_functions),
}
TAMED = ("bent and curved", "two curved", "curved", "bent", "bell", "quotient", "choice")


def activation(rng: random.Random, families: tuple[str, ...] = ()) -> Phi:
    """A random φ that is not 0; families: from these alone ("named" among them)."""
    chances = {"named": 3.0, **{n: w for n, (w, _) in FAMILIES.items()}}
    if families:
        chances = {n: w for n, w in chances.items() if n in families}
    name = rng.choices(list(chances), list(chances.values()))[0]
    if name == "named":
        return named(rng)
    while True:
        tree = FAMILIES[name][1](rng)
        phi = Phi(tree, tree.text, name)
        if len(phi.source) < 120 and abs(phi([0.3, 1.1, -0.7])).max() > 1e-3:
            return phi
