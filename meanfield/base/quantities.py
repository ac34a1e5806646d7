r"""What can be asked for: the registry of quantities, one entry each. Recursions, `propagate`, `check`, tables, the
command line and finite networks read it. No SymPy, no NumPy: finite networks may know it.

An entry says what its quantity depends on: the recursions whose state carries it, or the formula by which it is read
off a state. What is run for several of them is the first recursion that they have in common (`recursion_of`), reduced
to what they are made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from meanfield.base.encodings import BOUNDED, LOGARITHM, PLAIN, Encoding
from meanfield.base.errors import MeanFieldError
from meanfield.base.words import unknown


@dataclass(frozen=True)
class RecursionKind:
    """A recursion of a theory, by what its quantities are of; inputs: how many (0: positions that act on each other);
    with_: state variables that are always carried; usual: what is propagated from a start in its variables."""

    of: str
    inputs: int
    with_: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()


_PAIR, _NORMS = ("K_aa", "K_bb", "K_ab"), ("K_aa", "K_bb", "distance")
#: recursions by the names that `Maps` has for them, in the order in which they are tried
KINDS = {
    "one_input": RecursionKind("one input", 1),
    "two_inputs": RecursionKind("two inputs of any norms", 2, usual=_PAIR),
    "pair_tangents": RecursionKind("two inputs of any norms", 2, usual=_PAIR),
    "equal_norms": RecursionKind("two inputs of one norm", 2, usual=("K", "K_ab", "distance")),
    "unequal_norms": RecursionKind("two inputs of any norms", 2, _NORMS, (*_NORMS, "K_ab")),
    # K, D0 and J0 together, so that N_0 stays in the state
    "input_jacobian": RecursionKind("an input of finite dimension", 1, ("K", "D0", "J0")),
    "gradients": RecursionKind("one input, from the last layer back", 1),
    "correlators": RecursionKind("one input, at finite width", 1),
    "exchangeable": RecursionKind("positions that act on each other", 0),
    "across": RecursionKind("the tokens of two inputs", 0),
}
_NAMES = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w(])(?!\s*\()")  # in a formula: those that are no functions
_CONSTANTS = ("pi", "E")
_UNSTEPPED = ("gradients", "correlators")  # followed otherwise than by their maps alone
_ONE, _TOKENS = "one_input equal_norms gradients correlators exchangeable", "exchangeable across"
_NORM, _BETWEEN = "two_inputs pair_tangents unequal_norms", "pair_tangents equal_norms unequal_norms"


@dataclass(frozen=True)
class Quantity:
    r"""One quantity of a layer.

    name: as it is asked for; latex: its value at layer \ell; meaning: one line.

    carried: the recursions (`KINDS`) whose state holds it; read: (formula in state variables, the recursions
    that it is read off), or one formula, for every recursion that carries what stands in it; step: a map of its own
    that goes beside theirs, (value at layer 1, formula of the next value in itself and state variables). None of them:
    only networks know it. needs: what is carried beside it wherever it is asked for, for the sake of its digits.

    order: the power of 1/n it appears with; encoding: how a recursion holds it (a logarithm is `log_<name>` in runs and
    in JSON); degree: the power of λ that it is multiplied by where K is multiplied by λ (None: it is not known, or
    follows from `over`). measured: the name under which finite networks give it ("" where they do not), with
    derivatives of the network where `differentiates`; differentials: how many of the tangent kernel it is made of, 1 of
    the kernel itself; relative: whether reports give it in units of the theory's value;
    over: what its normalized form is divided by, ((name, power), …); corrects: the mean or correlator that it is a
    further term of, in 1/n to the difference of their orders.
    """

    name: str
    latex: str
    meaning: str
    carried: str = ""
    read: tuple[tuple[str, str], ...] | str = ()
    step: tuple[str, str] | tuple[()] = ()
    needs: tuple[str, ...] = ()
    order: int = 0
    encoding: Encoding = PLAIN
    degree: int | None = None
    measured: str = ""
    differentiates: bool = False
    differentials: int = 0
    relative: bool = False
    over: tuple[tuple[str, int], ...] = ()
    corrects: str = ""

    @property
    def key(self) -> str:
        """Its name in a run and in JSON."""
        return self.encoding.key(self.name)

    @property
    def text(self) -> str:
        """The formula of a quantity of one's own, which no recursion of the library knows; "" of all others."""
        return self.step[1] if self.step else self.read if isinstance(self.read, str) else ""

    def formula(self, recursion: str) -> str | None:
        """The formula by which it is read off a recursion, or carried beside it; None where it is not."""
        if self.text or isinstance(self.read, str):
            held = {n for n in symbols_of(self.text) if n != self.name} <= set(carried_by(recursion))
            return self.text if held and not (self.step and recursion in _UNSTEPPED) else None
        return next((text for text, where in self.read if recursion in where.split()), None)

    @cached_property
    def recursions(self) -> tuple[str, ...]:
        """The recursions that carry it, or that it is read off, with all that it needs."""
        found = (r for r in KINDS if r in self.carried.split() or self.formula(r) is not None)
        return tuple(r for r in found if not KINDS[r].inputs or set(self.needs) <= set(carried_by(r)))


_OVER = {
    **dict.fromkeys("AB", (("Theta", 2),)),
    **dict.fromkeys("DF", (("K", 1), ("Theta", 1))),
    **dict.fromkeys("PQ", (("Theta", 2),)),
    **dict.fromkeys("RSTU", (("Theta", 3), ("K", -1))),
}  # [orthogonal_weights] (5.9), (5.10), (5.15), (5.16)


def _four(names: str, differentials: int, meaning: str) -> list[Quantity]:
    known: dict[str, Any] = {"carried": "correlators", "order": 1, "differentiates": True}
    known["differentials"] = differentials
    return [Quantity(n, rf"{n}^{{\ell}}", meaning, **known, measured=n, over=_OVER[n]) for n in names]


def _correction(name: str, latex: str, of: str, differentials: int = 0) -> Quantity:
    meaning, over = f"n times the correction of order 1/n of {of}, n the width", ((of, 1),)
    return Quantity(
        name, latex, meaning, "correlators", order=1, differentials=differentials, over=over, corrects=of
    )  # fmt: skip


def _gradient(name: str, tex: str, what: str, carried: str, degree: int | None) -> Quantity:
    latex, known = rf"G_{{{tex}}}^{{\ell}}", bool(carried)
    return Quantity(
        name, latex, f"squared gradient of {what}", carried,
        degree=degree, measured=name, differentiates=True, relative=known,
    )  # fmt: skip


_JACOBIAN: dict[str, Any] = {"encoding": LOGARITHM, "degree": 0, "measured": "J", "differentiates": True}
_KERNEL: dict[str, Any] = {"degree": 1, "differentiates": True, "differentials": 1}
_PARTED = (("1 - distance/(2*K)", "equal_norms"), ("K_ab/sqrt(K_aa*K_bb)", _NORM), ("K_ab/K", _TOKENS))
_SECOND: dict[str, Any] = {"carried": "correlators", "order": 2}
_ALL = [
    Quantity(
        "K", r"K^{\ell}", "second moment of a preactivation", f"{_ONE} input_jacobian across", degree=1, measured="K"
    ),
    Quantity(
        "J", r"J^{1,\ell}", "averaged squared norm of the partial Jacobian from layer 1", _ONE,
        relative=True, **_JACOBIAN,
    ),
    Quantity(
        "Theta", r"\Theta^{\ell}", "tangent kernel per output, all parameters trainable",
        "one_input equal_norms correlators exchangeable across", measured="Theta", relative=True, **_KERNEL,
    ),
    Quantity("D0", r"D_0^{\ell}", "share of the input's gradient that changes K", "input_jacobian", degree=1),
    Quantity(
        "J0", r"J^{0,\ell}", "averaged squared norm of the Jacobian from an input of finite dimension",
        "input_jacobian", relative=True, **_JACOBIAN,
    ),
    Quantity("K_aa", r"K^{\ell}_{aa}", "second moment at the first input", _NORM, degree=1, measured="K_aa"),
    Quantity("K_bb", r"K^{\ell}_{bb}", "second moment at the second input", _NORM, degree=1, measured="K_bb"),
    Quantity(
        "K_ab", r"K^{\ell}_{ab}", "covariance of two inputs", f"{_NORM} equal_norms {_TOKENS}",
        degree=1, measured="K_ab",
    ),
    Quantity(
        "J_ab", r"J^{1,\ell}_{ab}", "Jacobian of one input against that of the other", f"{_BETWEEN} exchangeable",
        (("c_J*J", "exchangeable"),), degree=0, measured="J_ab", differentiates=True,
    ),
    Quantity(
        "c_J", r"c_J^{1,\ell}", "correlation J_ab/J of the tangents of two positions that act on each other",
        "exchangeable", degree=0,
    ),
    Quantity(
        "Theta_ab", r"\Theta^{\ell}_{ab}", "tangent kernel between two inputs", f"{_BETWEEN} {_TOKENS}",
        measured="Theta_ab", **_KERNEL,
    ),
    Quantity(
        "distance", r"\Delta^{\ell}", "K_aa + K_bb - 2 K_ab", "equal_norms unequal_norms",
        encoding=LOGARITHM, degree=1, measured="distance",
    ),
    Quantity(
        "norm_angle", r"\tau^{\ell}",
        "asin((sqrt(K_aa) - sqrt(K_bb))/sqrt(distance)): 0 where all of the distance is one of directions",
        "unequal_norms", encoding=BOUNDED, degree=0,
    ),
    Quantity(
        "chi", r"J^{\ell,\ell+1}", "averaged squared norm of the Jacobian of one block",
        measured="chi", differentiates=True,
    ),
    Quantity(
        "c", r"c^{\ell}", "correlation K_ab/sqrt(K_aa K_bb)", read=_PARTED, needs=("distance",), degree=0, measured="c"
    ),
    Quantity(
        "gamma", r"\gamma^{\ell}", "c/(1 - c) of a batch: the drift of class means",
        read=(("2*K_ab/distance", "equal_norms"),), degree=0, measured="gamma",
    ),
    Quantity(
        "log_gamma", r"\log \gamma^{\ell}", "logarithm of gamma, which overflows no double",
        read=(("log(2*K_ab) - log(distance)", "equal_norms"),), degree=0,
    ),
    Quantity(
        "sigma_mu2", r"\sigma_{\mu^{\ell}}^{2}", "variance over weights of a neuron's mean",
        read=(("K_ab", "equal_norms"),), degree=1, measured="sigma_mu2",
    ),
    Quantity(
        "sigma_y2", r"\sigma_{y^{\ell}}^{2}", "variance of a neuron over inputs",
        read=(("distance/2", "equal_norms"),), degree=1, measured="sigma_y2",
    ),
    Quantity("K_same", r"K^{\ell}_{=}", "covariance of two inputs' tokens at one position", "across", degree=1),
    Quantity("K_other", r"K^{\ell}_{\neq}", "covariance of two inputs' tokens at two positions", "across", degree=1),
    Quantity(
        "Theta_same", r"\Theta^{\ell}_{=}", "tangent kernel of two inputs' tokens at one position", "across",
        degree=1, differentials=1,
    ),
    Quantity(
        "Theta_other", r"\Theta^{\ell}_{\neq}", "tangent kernel of two inputs' tokens at two positions", "across",
        degree=1, differentials=1,
    ),
    Quantity(
        "entropy", r"H_{s}^{\ell}", "entropy of the weights of an Attention's softmax, over log T", "exchangeable",
        degree=0,
    ),
    Quantity("G0", r"G_0^{\ell}", "fraction of the inputs of class 0", measured="G0"),
    Quantity(
        "delta2", r"q_{\delta}^{\ell}", "median over inputs of a cross-entropy's squared gradient by a neuron",
        measured="delta2", differentiates=True,
    ),
    _gradient("G_z", "z", "a preactivation", "gradients", 0),
    _gradient("G_w", "w", "a weight", "gradients", 1),
    _gradient("G_b", "b", "a bias", "gradients", 0),
    _gradient("G_gamma", r"\gamma", "a LayerNorm's gain", "", None),
    _gradient("G_beta", r"\beta", "a LayerNorm's shift", "", None),
    Quantity("V", r"V^{\ell}", "four-point vertex", "correlators", order=1, measured="V", over=(("K", 2),)),
    *_four("ABDF", 1, "correlator of the tangent kernel"),
    *_four("PQ", 2, "correlator of the first differential of the tangent kernel"),
    *_four("RSTU", 3, "correlator of the second differential of the tangent kernel"),
    _correction("G1", r"G_1^{\ell}", "K"),
    _correction("Theta1", r"\Theta_1^{\ell}", "Theta", 1),
    _correction("J1", r"J_1^{\ell}", "J"),
    Quantity(
        "V6", r"V_6^{\ell}", "six-point vertex: n² times the third cumulant of a layer's random variance",
        over=(("K", 3),), **_SECOND,
    ),
    Quantity(
        "V1", r"V_1^{\ell}", "n times the next correction of V: networks of width n have V + V1/n",
        over=(("K", 2),), corrects="V", **_SECOND,
    ),
    Quantity(
        "G2", r"G_2^{\ell}", "n² times the correction of order 1/n² of K, n the width",
        over=(("K", 1),), corrects="K", **_SECOND,
    ),
]  # fmt: skip
QUANTITIES: dict[str, Quantity] = {q.name: q for q in _ALL}


def symbols_of(formula: str) -> tuple[str, ...]:
    """The quantities that stand in a formula, in order."""
    return tuple(dict.fromkeys(n for n in re.findall(r"[A-Za-z_]\w*", formula) if n in QUANTITIES))


@cache  # those of the library alone: one's own are made of what recursions carry
def carried_by(recursion: str) -> tuple[str, ...]:
    """The quantities that a recursion of a theory carries."""
    return tuple(q.name for q in _ALL if recursion in q.carried.split())


def read_off(recursion: str) -> dict[str, str]:
    """The quantities of the library that are read off a recursion of a theory, with their formulas."""
    return {q.name: text for q in _ALL if (text := q.formula(recursion)) is not None}


def made_of(names: Iterable[str]) -> tuple[str, ...]:
    """The names with those that a quantity of one's own is made of in its place."""
    own = {n: symbols_of(QUANTITIES[n].text) for n in names if n in QUANTITIES and QUANTITIES[n].text}
    return tuple(dict.fromkeys(one for n in names for one in own.get(n, (n,))))


def independent_recursions(name: str) -> tuple[str, ...]:
    """The recursions of inputs that do not act on each other which give a quantity, in order; of no quantity none."""
    return tuple(r for r in QUANTITIES[name].recursions if KINDS[r].inputs) if name in QUANTITIES else ()


def of_two(name: str) -> bool:
    """Whether a quantity is one of two inputs, and of none else."""
    found = independent_recursions(name)
    return bool(found) and all(KINDS[r].inputs == 2 for r in found)


def recursion_of(names: Iterable[str], start: Iterable[str] = (), inputs: int = 0) -> str:
    """The first recursion that gives all of these quantities, of `inputs` inputs where it matters, from a start in
    other ones. Raises: MeanFieldError for a name that there is not, and for two that no recursion has in common."""
    names, start = tuple(names), tuple(start)
    met: list[str] = []
    held = [r for r, carrier in KINDS.items() if carrier.inputs and inputs in (0, carrier.inputs)]
    for name in (*names, *start):
        if not independent_recursions(name):
            raise unknown("quantity", name, [n for n in QUANTITIES if independent_recursions(n)])
        other = [r for r in held if r in independent_recursions(name)]
        if not other:
            own = set(independent_recursions(name))
            first = next((n for n in met if not own & set(independent_recursions(n))), met[-1] if met else name)
            raise _not_together(name, first, name in names)
        held = other
        met.append(name)
    return held[0]


def _not_together(name: str, other: str, asked: bool) -> MeanFieldError:
    pair, given = of_two(name) or of_two(other), [independent_recursions(n) for n in (name, other)]
    one, two = (next((r for r in found if KINDS[r].inputs == 1 + pair), found[0]) for found in given)
    shared = given[0][-1] if of_two(name) else one
    beside = [n for n in QUANTITIES if n != name and shared in independent_recursions(n)]
    return MeanFieldError(
        f"{name} was {'asked for' if asked else 'given in start'} with {other}, but {name} is of {KINDS[one].of}, "
        f"and {other} of {KINDS[two].of}; ask for them separately: beside {name} there are {', '.join(beside)}."
    )


def register(quantity: Quantity) -> Quantity:
    """Add a quantity of one's own, `read` off what recursions carry or with a `step` of its own, which `propagate` then
    gives by its name. Raises: MeanFieldError for a name that is taken, and for a formula of what no recursion carries
    or of what is no quantity.
    """
    if not quantity.name.isidentifier() or quantity.name in QUANTITIES:
        raise MeanFieldError(f"A quantity cannot be called {quantity.name!r}, which is taken or no name; take another.")
    if not quantity.text or not quantity.recursions:
        known = ", ".join(n for n in CARRIED if independent_recursions(n))
        raise MeanFieldError(
            f"{quantity.name} was given as {quantity.text or 'no formula'!r}, but no recursion carries what it is made "
            f"of; a formula may hold quantities of the same inputs, of {known}."
        )
    other = [n for n in _NAMES.findall(quantity.text) if n not in (*QUANTITIES, *_CONSTANTS, quantity.name)]
    if other:
        raise MeanFieldError(
            f"{quantity.name} was given as {quantity.text!r}, which holds {other[0]}; a formula holds quantities, "
            f"numbers and functions of them, and neither the layer nor parameters of a theory."
        )
    QUANTITIES[quantity.name] = quantity
    return quantity


ONE_INPUT, COVARIANCES = carried_by("one_input"), carried_by("two_inputs")
PAIR_TANGENTS = tuple(n for n in carried_by("pair_tangents") if n not in COVARIANCES)
GRADIENTS = tuple(q.name for q in _ALL if q.carried == "gradients")
CORRELATORS, SECOND_ORDER = (tuple(q.name for q in _ALL if q.order == order) for order in (1, 2))
FINITE_WIDTH = CORRELATORS + SECOND_ORDER
NORMS = ("K", *(n for n in COVARIANCES if n != "K_ab"))  # variances of one position
VARIANCES = tuple(q.name for q in _ALL if q.name.startswith("K"))
CARRIED = tuple(q.name for q in _ALL if q.carried and not q.order)
QUOTIENTS = tuple(q.name for q in _ALL if q.read and not q.carried and q.degree == 0)
RELATIVE = tuple(q.name for q in _ALL if q.relative)
LOGARITHMIC = tuple(q.name for q in _ALL if q.encoding == LOGARITHM and q.differentiates)  # networks give logarithms
MEASURED = tuple(q.name for q in _ALL if q.measured == q.name)
DIFFERENTIATED = tuple(q.name for q in _ALL if q.differentiates and q.measured == q.name)
OF_PARAMETERS = tuple(q.name for q in _ALL if q.name.startswith("G_"))


def differentials(names: Iterable[str]) -> int:
    """How many differentials of the tangent kernel the correlators among names are made of at most: 1 of the kernel
    itself, 0 where it is in none."""
    found = (QUANTITIES[n] for n in names if n in QUANTITIES)
    return max((q.differentials for q in found if q.order), default=0)


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
