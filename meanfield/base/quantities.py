r"""What can be asked for: the registry of quantities, one entry each. Recursions, `propagate`, `check`, tables, the
command line and finite networks read it. No SymPy, no NumPy: finite networks may know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from meanfield.base.encodings import BOUNDED, LOGARITHM, PLAIN, Encoding


@dataclass(frozen=True)
class Quantity:
    r"""One quantity of a layer.

    name: as it is asked for; latex: its value at layer \ell; meaning: one line; recursion: the recursion of a theory
    that carries it ("" where only networks know it); positions: how many inputs it is of (0: any number); order: the
    power of 1/n it appears with; encoding: how a recursion holds it (a logarithm is `log_<name>` in
    runs and in JSON); measured: the name under which finite networks give it ("" where they do not), with derivatives
    of the network where `differentiates`; relative: whether reports give it in units of the theory's value; over: what
    its normalized form is divided by, ((name, power), …); corrects: the mean or correlator that it is a further term
    of, in 1/n to the difference of their orders.
    """

    name: str
    latex: str
    meaning: str
    recursion: str = ""
    positions: int = 1
    order: int = 0
    encoding: Encoding = PLAIN
    measured: str = ""
    differentiates: bool = False
    relative: bool = False
    over: tuple[tuple[str, int], ...] = ()
    corrects: str = ""

    @property
    def key(self) -> str:
        """Its name in a run and in JSON."""
        return self.encoding.key(self.name)


_OVER = {
    **dict.fromkeys("AB", (("Theta", 2),)),
    **dict.fromkeys("DF", (("K", 1), ("Theta", 1))),
    **dict.fromkeys("PQ", (("Theta", 2),)),
    **dict.fromkeys("RSTU", (("Theta", 3), ("K", -1))),
}  # [orthogonal_weights] (5.9), (5.10), (5.15), (5.16)


def _four(names: str, meaning: str) -> list[Quantity]:
    return [
        Quantity(
            n,
            rf"{n}^{{\ell}}",
            meaning,
            "correlators",
            positions=0,
            order=1,
            measured=n,
            differentiates=True,
            over=_OVER[n],
        )
        for n in names
    ]


def _correction(name: str, latex: str, of: str) -> Quantity:
    meaning = f"n times the correction of order 1/n of {of}, n the width"
    return Quantity(name, latex, meaning, "correlators", order=1, over=((of, 1),), corrects=of)


_ALL = [
    Quantity("K", r"K^{\ell}", "second moment of a preactivation", "one_input", measured="K"),
    Quantity(
        "J",
        r"J^{1,\ell}",
        "averaged squared norm of the partial Jacobian from layer 1",
        "one_input",
        encoding=LOGARITHM,
        measured="J",
        differentiates=True,
        relative=True,
    ),
    Quantity(
        "Theta",
        r"\Theta^{\ell}",
        "tangent kernel per output, all parameters trainable",
        "one_input",
        measured="Theta",
        differentiates=True,
        relative=True,
    ),
    Quantity("D0", r"D_0^{\ell}", "share of the input's gradient that changes K", "input_jacobian"),
    Quantity(
        "J0",
        r"J^{0,\ell}",
        "averaged squared norm of the Jacobian from an input of finite dimension",
        "input_jacobian",
        encoding=LOGARITHM,
        measured="J",
        differentiates=True,
        relative=True,
    ),
    Quantity("K_aa", r"K^{\ell}_{aa}", "second moment at the first input", "two_inputs", 2, measured="K_aa"),
    Quantity("K_bb", r"K^{\ell}_{bb}", "second moment at the second input", "two_inputs", 2, measured="K_bb"),
    Quantity("K_ab", r"K^{\ell}_{ab}", "covariance of two inputs", "two_inputs", 2, measured="K_ab"),
    Quantity(
        "J_ab",
        r"J^{1,\ell}_{ab}",
        "Jacobian of one input against that of the other",
        "pair_tangents",
        2,
        measured="J_ab",
        differentiates=True,
    ),
    Quantity(
        "c_J",
        r"c_J^{1,\ell}",
        "correlation J_ab/J of the tangents of two positions that act on each other",
        "exchangeable",
        2,
    ),
    Quantity(
        "Theta_ab",
        r"\Theta^{\ell}_{ab}",
        "tangent kernel between two inputs",
        "pair_tangents",
        2,
        measured="Theta_ab",
        differentiates=True,
    ),
    Quantity(
        "distance",
        r"\Delta^{\ell}",
        "K_aa + K_bb - 2 K_ab",
        "equal_norms",
        2,
        encoding=LOGARITHM,
        measured="distance",
    ),
    Quantity(
        "tilt",
        r"\tau^{\ell}",
        "asin((sqrt(K_aa) - sqrt(K_bb))/sqrt(distance)): 0 where all of the distance is one of directions",
        "unequal_norms",
        2,
        encoding=BOUNDED,
    ),
    Quantity(
        "chi",
        r"J^{\ell,\ell+1}",
        "averaged squared norm of the Jacobian of one block",
        measured="chi",
        differentiates=True,
    ),
    Quantity("c", r"c^{\ell}", "correlation K_ab/sqrt(K_aa K_bb)", positions=2, measured="c"),
    Quantity(
        "gamma", r"\gamma^{\ell}", "c/(1 - c) of a batch: the drift of class means", positions=0, measured="gamma"
    ),
    Quantity("log_gamma", r"\log \gamma^{\ell}", "logarithm of gamma, which overflows no double", positions=2),
    Quantity(
        "sigma_mu2",
        r"\sigma_{\mu^{\ell}}^{2}",
        "variance over weights of a neuron's mean",
        positions=2,
        measured="sigma_mu2",
    ),
    Quantity(
        "sigma_y2", r"\sigma_{y^{\ell}}^{2}", "variance of a neuron over inputs", positions=2, measured="sigma_y2"
    ),
    Quantity("G0", r"G_0^{\ell}", "fraction of the inputs of class 0", positions=0, measured="G0"),
    Quantity(
        "delta2",
        r"q_{\delta}^{\ell}",
        "median over inputs of a cross-entropy's squared gradient by a neuron",
        positions=0,
        measured="delta2",
        differentiates=True,
    ),
    Quantity(
        "V", r"V^{\ell}", "four-point vertex", "correlators", positions=0, order=1, measured="V", over=(("K", 2),)
    ),
    *_four("ABDF", "correlator of the tangent kernel"),
    *_four("PQ", "correlator of the first differential of the tangent kernel"),
    *_four("RSTU", "correlator of the second differential of the tangent kernel"),
    _correction("G1", r"G_1^{\ell}", "K"),
    _correction("Theta1", r"\Theta_1^{\ell}", "Theta"),
    _correction("J1", r"J_1^{\ell}", "J"),
    Quantity(
        "V6",
        r"V_6^{\ell}",
        "six-point vertex: n² times the third cumulant of a layer's random variance",
        "second_order",
        order=2,
        over=(("K", 3),),
    ),
    Quantity(
        "V1",
        r"V_1^{\ell}",
        "n times the next correction of V: networks of width n have V + V1/n",
        "second_order",
        order=2,
        over=(("K", 2),),
        corrects="V",
    ),
    Quantity(
        "G2",
        r"G_2^{\ell}",
        "n² times the correction of order 1/n² of K, n the width",
        "second_order",
        order=2,
        over=(("K", 1),),
        corrects="K",
    ),
    *(
        Quantity(
            name,
            rf"G_{{{tex}}}^{{\ell}}",
            f"squared gradient of {what}",
            recursion,
            measured=name,
            differentiates=True,
            relative=bool(recursion),
        )
        for name, tex, what, recursion in (
            ("G_z", "z", "a preactivation", "gradients"),
            ("G_w", "w", "a weight", "gradients"),
            ("G_b", "b", "a bias", "gradients"),
            ("G_gamma", r"\gamma", "a LayerNorm's gain", ""),
            ("G_beta", r"\beta", "a LayerNorm's shift", ""),
        )
    ),
]
QUANTITIES: dict[str, Quantity] = {q.name: q for q in _ALL}


def carried_by(recursion: str) -> tuple[str, ...]:
    """The quantities that a recursion of a theory carries, in its order."""
    return tuple(q.name for q in _ALL if q.recursion == recursion)


ONE_INPUT, FINITE_INPUT = carried_by("one_input"), carried_by("input_jacobian")
COVARIANCES, PAIR_TANGENTS = carried_by("two_inputs"), carried_by("pair_tangents")
EQUAL_NORMS, UNEQUAL_NORMS = carried_by("equal_norms"), carried_by("unequal_norms")
EXCHANGEABLE = carried_by("exchangeable")
TWO_INPUTS = COVARIANCES + PAIR_TANGENTS
GRADIENTS, CORRELATORS = carried_by("gradients"), carried_by("correlators")
SECOND_ORDER = carried_by("second_order")
FINITE_WIDTH = CORRELATORS + SECOND_ORDER
RELATIVE = tuple(q.name for q in _ALL if q.relative)
LOGARITHMIC = tuple(q.name for q in _ALL if q.encoding == LOGARITHM and q.differentiates)  # networks give logarithms
MEASURED = tuple(q.name for q in _ALL if q.measured == q.name)
DIFFERENTIATED = tuple(q.name for q in _ALL if q.differentiates and q.measured == q.name)
OF_PARAMETERS = tuple(q.name for q in _ALL if q.name.startswith("G_"))


def is_relative(name: str) -> bool:
    """Whether reports give a quantity, or its column ("G_w[2]"), in units of the theory's value."""
    return name.partition("[")[0] in RELATIVE


def columns(name: str, run: Any) -> tuple[str, ...]:
    """What a run calls a quantity: its own name, or that of every Dense ("G_w[1]", "G_w[2]")."""
    return tuple(n for n in run.quantities if n == name or n.startswith(f"{name}["))


def mathtext(name: str) -> str:
    r"""A quantity as a figure's label writes it: `$K^\ell$`, `$G_{w,2}^\ell$`; an unknown name is its own label."""
    base, _, place = name.partition("[")
    if base not in QUANTITIES:
        return name
    latex = QUANTITIES[base].latex.replace(r"{\ell}", r"\ell")
    return f"${latex.replace('}^', f',{place[:-1]}}}^', 1) if place else latex}$"
