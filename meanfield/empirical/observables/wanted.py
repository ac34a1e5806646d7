"""What is measured on networks, the rows of numbers that it leaves, and what of it networks and inputs cannot give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice
from meanfield.base.quantities import DIFFERENTIATED, MEASURED, OF_PARAMETERS, PAIR_TANGENTS, QUANTITIES, differentials
from meanfield.base.words import unknown
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.checks import integer, probes_of
from meanfield.empirical.network.operations.operations import DenseOperation, Map, refuse_jumps
from meanfield.empirical.observables.classes import CLASS_ROWS
from meanfield.empirical.observables.inputs import Inputs

SPREADS = ("sigma_y2", "sigma_mu2")
READ = ("mean", "last")
_PROBED = {"J", "chi", "Theta", *PAIR_TANGENTS, *OF_PARAMETERS}
PROBES = 4  # random vectors, where nobody says how many
WIDEST = {1: 2000, 2: 400, 3: 100}  # neurons, by the order of the differential: below about 4 GB
ALSO = {"log_J": "J", "G0_squared": "G0", "G_max": "G0"} | dict.fromkeys(CLASS_ROWS, "delta2")  # come with another


@dataclass(frozen=True, eq=False)
class Measurement:
    """probes: None for exact Jacobians and tangent kernels, else how many random vectors estimate them. l0: the layer J
    starts at. classes: how many outputs compete in "G0" and "delta2". read: the tokens whose outputs are measured,
    "mean" for all, "last" for the last of every input."""

    quantities: tuple[str, ...]
    probes: int | None = None
    l0: int = 1
    classes: int = 2
    read: str = "mean"

    @classmethod
    def of(
        cls, quantities: Sequence[str], probes: Any, l0: Any, classes: Any, ensemble: Ensemble, read: Any = "mean"
    ) -> Measurement:
        """As a caller gives them; raises `MeanFieldError`. The lazy sampler has probes where nobody gives any."""
        names = tuple(dict.fromkeys(ALSO.get(name, name) for name in quantities))
        if probes is None and ensemble.sampler == "lazy" and _PROBED & set(names):
            probes = PROBES
        return cls(
            names,
            None if probes is None else probes_of(probes),
            integer(l0, "The layer l0", 0, ensemble.depth + 1),
            integer(classes, "The number of classes", 2, 1 << 24),
            choice(read, "read", READ),
        )

    def read_of(self, tokens: int) -> slice:
        """The positions whose outputs are measured."""
        return slice(tokens - 1, None, tokens) if self.read == "last" else slice(None)

    def shapes(self, ensemble: Ensemble, inputs: Inputs) -> dict[str, tuple[int, ...]]:
        """The shape of every row; a first axis of length `depth` counts layers 1..depth, unless the row is log_J."""
        depth, wanted = ensemble.depth, self.quantities
        p = len(range(inputs.positions(ensemble.tokens))[self.read_of(ensemble.tokens)])
        pair = inputs.correlation is not None
        shapes: dict[str, tuple[int, ...]] = {}
        if pair:
            shapes |= {name: (depth,) for name in ("K_aa", "K_bb", "K_ab", "distance")}
        else:
            shapes["K"] = (depth,)
            if p > 1:
                shapes["K_ab"] = (depth,)
        if "J" in wanted:
            shapes["log_J"] = (depth - max(self.l0, 1) + 1,)
        if "chi" in wanted:
            shapes["chi"] = (depth - 1,)
        shapes |= {name: (depth,) for name in ("Theta", *PAIR_TANGENTS) if name in wanted}
        if "V" in wanted or self.order:
            shapes |= {"_S": (depth, p, p), "_SS": (depth, p, p, p, p), "_S*S": (depth, p, p, p, p)}
        if self.order:
            shapes["_h"] = (depth, p, p)
            four = ("_hh", "_h*h", "_Sh", "_S*h", "_B", "_F")
            shapes |= {name: (depth, p, p, p, p) for name in four}
            shapes |= {raw: (depth, p, p, p, p) for raw in self.raw_differentials}
        if self.signs:
            shapes["G_z"] = (depth,)
            repeated, first = ensemble.operations, ensemble.input_layer
            for name in dict.fromkeys(name for one in (first, *repeated) for name in one.trains):
                shapes[f"G_{name.lower()}"] = depth, max(1, sum(name in one.trains for one in repeated))
        if "G0" in wanted:
            shapes |= {"G0": (depth,), "G0_squared": (depth,), "G_max": (depth,)}
        shapes |= {name: (depth,) for name in SPREADS if name in wanted}
        if "delta2" in wanted:
            shapes |= dict.fromkeys(CLASS_ROWS, (depth,))
        return shapes

    @property
    def order(self) -> int:
        """How many differentials of the tangent kernel the quantities need, 0 for none (not even the kernel)."""
        return differentials(self.quantities)

    @property
    def raw_differentials(self) -> dict[str, str]:
        """Row → what `correlator_samples` calls it."""
        names = [n for n, q in QUANTITIES.items() if 1 < q.differentials <= self.order]
        return {"_ddII" if name == "S" else f"_{name}": "S_dd" if name == "S" else name for name in names}

    @property
    def signs(self) -> int:
        """How many random cotangents are taken back."""
        return (self.probes or 1) if set(self.quantities) & set(OF_PARAMETERS) else 0

    @property
    def pulls(self) -> int:
        """How many cotangents are taken back, with that of a loss."""
        return self.signs + ("delta2" in self.quantities)


def check_plan(ensemble: Ensemble, inputs: Inputs, measured: Measurement) -> None:
    """Raise `MeanFieldError` for quantities that these networks or inputs cannot give."""
    wanted, positions = set(measured.quantities), inputs.positions(ensemble.tokens)
    known = set(MEASURED)
    if measured.read == "last":
        if not ensemble.couples:
            raise MeanFieldError(
                'read="last" is of networks whose positions act on each other; leave it out, as all tokens have the '
                "same law here."
            )
        positions //= ensemble.tokens
    if wanted & {"K_aa", "K_bb", "distance"} and inputs.correlation is None:
        raise MeanFieldError("K_aa, K_bb and distance are of two inputs; give correlation=.")
    if wanted - known:
        raise unknown("quantity", min(wanted - known), sorted(known))
    differentiated = [name for name in DIFFERENTIATED if name in wanted]
    if differentiated:
        refuse_jumps(ensemble.operations, differentiated[0], "leave it out (jacobian=False) to measure K")
    if wanted & set(PAIR_TANGENTS):
        if ensemble.couples and positions < 2:
            raise MeanFieldError(
                "J_ab and Theta_ab are of two positions, but one is read; give tokens=, batch= or inputs=."
            )
        if not ensemble.couples and (positions != 2 or ensemble.tokens > 1):
            raise MeanFieldError("J_ab and Theta_ab are of two inputs; give correlation=, or inputs= with two rows.")
    if ensemble.backward == "copy" and ("delta2" in wanted or ensemble.couples):
        raise MeanFieldError(
            'backward="copy" is for G_z, G_w and G_b of networks whose positions are apart; a loss (delta2), BatchNorm '
            "and mixed tokens are taken back through the weights that made them."
        )
    if "chi" in wanted and ensemble.depth < 2:
        raise MeanFieldError("chi is J^{l,l+1} of one block, but a network of depth 1 has none; take depth=2 or more.")
    exact = wanted & {"J", "chi", "Theta", "J_ab"} if measured.probes is None else set()
    if "Theta" in exact and ensemble.couples:
        raise MeanFieldError(
            "Theta of a network whose positions act on each other is measured with random vectors; give probes=..., "
            "for example 8."
        )
    if exact and ensemble.sampler == "lazy":
        raise MeanFieldError(
            "The lazy sampler never forms a matrix, so an exact Jacobian would cost as many products as neurons; give "
            "probes=..., for example 4, or sampler='explicit'."
        )
    if "K_ab" in wanted and positions < 2:
        raise MeanFieldError("K_ab needs two inputs; give correlation=, batch= or inputs=.")
    if wanted & set(SPREADS) and (positions < 2 or min(ensemble.widths) < 2):
        raise MeanFieldError(
            "sigma_y2 and sigma_mu2 are variances over inputs and neurons, of which there must be two or more; give "
            "batch=, inputs= or correlation=."
        )
    if wanted & {"c", "gamma", "G0"} and positions < 2:
        raise MeanFieldError(
            "Class fractions, c and gamma need several inputs; give batch= or inputs= (c: correlation=)."
        )
    if measured.order:
        _check_differentials(ensemble, measured.order, positions)
    if ("V" in wanted or measured.order) and (positions > 8 or ensemble.tokens > 1):
        raise MeanFieldError("V, A, B, D, F are measured for up to 8 inputs without tokens; give fewer inputs.")
    if "G0" in wanted and not 2 <= measured.classes <= min(ensemble.widths):
        raise MeanFieldError(f"classes must be from 2 to the smallest width, but {measured.classes} was given.")
    if "delta2" in wanted:
        if ensemble.tokens > 1:
            raise MeanFieldError("delta2 is of a loss with one label for each input; give inputs without tokens.")
        if not 2 <= measured.classes <= ensemble.width:
            raise MeanFieldError(
                f"classes must be from 2 to {ensemble.width}, the width of the last layer, but {measured.classes} was "
                "given."
            )
        if positions < measured.classes:
            raise MeanFieldError(
                f"delta2 of {measured.classes} classes needs an input of every class, but there are {positions}; give "
                f"batch= or inputs= with {measured.classes} or more."
            )


def is_chain(ensemble: Ensemble) -> bool:
    """Whether every layer is Dense(φ(z)) on the neurons."""
    done = ensemble.operations
    return len(done) == 2 and isinstance(done[0], Map) and isinstance(done[1], DenseOperation) and not done[1].tokens


def _check_differentials(ensemble: Ensemble, order: int, positions: int) -> None:
    if ensemble.sampler != "explicit":
        raise MeanFieldError(
            "A, B, D, F, P, Q, R, S, T, U are measured with explicit weights; take sampler='explicit'."
        )
    bent = sorted({one.bends for one in ensemble.operations} - {""}) if order > 1 else []
    if bent:
        raise MeanFieldError(
            f"P, Q, R, S, T, U need second and third derivatives as functions, but this network has {bent[0]}; take a "
            "smooth one, such as tanh."
        )
    shared = positions if order > 1 or not is_chain(ensemble) else 1
    widest = WIDEST[order] // shared
    if max(ensemble.widths) > widest:
        inputs = f" for {positions} inputs" if shared > 1 else ""
        raise MeanFieldError(
            f"A, B, D, F hold tensors of N² numbers, P, Q of N³ and R, S, T, U of N⁴: here N ≤ {widest}{inputs}, but "
            f"N = {max(ensemble.widths)} was given."
        )
