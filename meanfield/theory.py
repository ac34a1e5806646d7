"""`derive` and `Theory`: what a user holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import sympy as sp

from meanfield.architecture import (
    FIRST,
    NORMS,
    OWN,
    WEIGHTS,
    Block,
    Constant,
    Dense,
    Network,
    Nonlinearity,
    Param,
    Pool,
    Residual,
    Sequential,
    activations_of,
    block_of,
    exact,
    mlp,
    parts,
)
from meanfield.architectures import PRESETS, keywords
from meanfield.arguments import choice, flag, meant, record, scalar, shown, spoken, whole
from meanfield.arguments import names as names_of
from meanfield.correlator_depth import critical_shift, large_depth
from meanfield.finite_width import correlators, has_skip, one_map, prepared, rates_of, refuse_zero, remembering, steps
from meanfield.functions.activations import Activation, activation
from meanfield.functions.parser import number
from meanfield.presentation import tables as _latex
from meanfield.printed import wrapped
from meanfield.quantities import (
    CORRELATORS,
    COVARIANCES,
    EQUAL_NORMS,
    FINITE_INPUT,
    FINITE_WIDTH,
    GRADIENTS,
    ONE_INPUT,
    PAIR_TANGENTS,
    TWO_INPUTS,
    UNEQUAL_NORMS,
)
from meanfield.results import InfiniteAverage, MeanFieldError, Term, Undetermined, one_line
from meanfield.symbolic.asymptotics import depth as _depth
from meanfield.symbolic.asymptotics.branch import Branch, branch
from meanfield.symbolic.asymptotics.cells import At
from meanfield.symbolic.asymptotics.comparing import direction
from meanfield.symbolic.asymptotics.fisher import plain_fisher_law
from meanfield.symbolic.asymptotics.further import MOST_ORDER
from meanfield.symbolic.asymptotics.growth import Growth, grown
from meanfield.symbolic.asymptotics.projections import ProjectionLaw, projection_law
from meanfield.symbolic.averages.expansion import Law, at_infinity, at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.blocks.first import begun
from meanfield.symbolic.blocks.gradients import gradients
from meanfield.symbolic.blocks.naming import describe
from meanfield.symbolic.blocks.pooling import is_odd as is_odd_pool
from meanfield.symbolic.blocks.recursions import (
    equal_norms,
    input_jacobian,
    one_dense,
    one_input,
    one_input_averages,
    pair_tangents,
    plain_form,
    two_inputs,
    unequal_norms,
    without_tilt,
)
from meanfield.symbolic.coordinates import COORDINATES, in_coordinates, needed
from meanfield.symbolic.correlator_laws.critical_shift import CriticalShift
from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw
from meanfield.symbolic.criticality import closing
from meanfield.symbolic.criticality.lines import CriticalLine, critical_line
from meanfield.symbolic.criticality.phases import Phase, moves_with_K, phase_at
from meanfield.symbolic.criticality.points import CriticalPoint, CriticalPoints, critical_points
from meanfield.symbolic.criticality.rounding import doubles, phase_with_rounding, points_with_rounding
from meanfield.symbolic.fixed_points.points import FixedPoints, fixed_points, start_of
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursion import c0 as start_c0
from meanfield.symbolic.steps import Domain
from meanfield.symbols import Q0, J, l, parameter

if TYPE_CHECKING:
    from meanfield.bias import Bias
    from meanfield.numeric.correlations import Correlations
    from meanfield.numeric.many_inputs import Correlators
    from meanfield.numeric.neutrality import CorrelationLine
    from meanfield.numeric.tokens.sampling import Sampled
    from meanfield.numeric.widths import WidthSchedule
    from meanfield.presentation.bias_diagrams import BiasDiagram
    from meanfield.presentation.diagrams import PhaseDiagram
    from meanfield.presentation.phase_tables import PhaseTable, ScheduledLaw

ORDERS = 12  # terms of an expansion


@record
@dataclass(frozen=True)
class Theory:
    """The large-width theory of one architecture at initialization: its recursions and what follows from them.

    block: the architecture record of what is repeated; first: the input layer, whose σ's are those of all layers unless
    it has its own. Nothing numeric happens until `propagate` (or a digit) is asked for.
    """

    block: Block
    first: Dense = FIRST

    def __post_init__(self) -> None:
        block_of(self.block, "The block of a Theory")
        Network(self.block, self.first)  # refuses what is no input layer
        if not activations_of(self.block):
            raise MeanFieldError("The architecture holds no Nonlinearity; wrap an activation in Nonlinearity(...).")

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """The records of φ, each once, in the order they are met."""
        return tuple(dict.fromkeys(activation(a) for a in activations_of(self.block)))

    @cached_property
    def one_input(self) -> Recursion:
        """The recursion of (K, J, Theta)."""
        return begun(one_input(self.block), self.first)

    @cached_property
    def two_inputs(self) -> Recursion:
        """The recursion of (K_aa, K_bb, K_ab)."""
        return begun(two_inputs(self.block), self.first)

    @cached_property
    def pair_tangents(self) -> Recursion:
        """The recursion of (K_aa, K_bb, K_ab, J_ab, Theta_ab): the Jacobian and the tangent kernel between two inputs.
        """
        return begun(pair_tangents(self.block), self.first)

    @cached_property
    def equal_norms(self) -> Recursion:
        """The recursion of (K, J, Theta, K_ab, distance, J_ab, Theta_ab) for two inputs of one norm."""
        return begun(equal_norms(self.block), self.first)

    @cached_property
    def unequal_norms(self) -> Recursion:
        """The recursion of (K_aa, K_bb, tilt, distance, K_ab, J_ab, Theta_ab) for two inputs of any norms; the
        angle tilt with sin(tilt) = (sqrt(K_aa) - sqrt(K_bb))/sqrt(distance) keeps the digits of both."""
        return begun(unequal_norms(self.block), self.first)

    @cached_property
    def input_jacobian(self) -> Recursion:
        """The recursion of (K, D0, J0): the Jacobian with respect to an input of finite dimension N_0."""
        return begun(input_jacobian(self.block), self.first)

    @cached_property
    def gradients(self) -> Recursion:
        """The recursion of K, J and the factors that gradients by z, and by the weights and biases of every Dense, are
        products of: G_z is J^{l-1,l}, G_w[d] and G_b[d] are G_w and G_b per J^{l,L}, d the place of the Dense.

        Raises: MeanFieldError where J is infinite. Source: [variance_variation] Thm. C.3, for any block.

        >>> print(derive("relu", architecture="full_residual").gradients.only("G_w[1]", "G_w[2]").doit())
        K' = K + sigma_a**2 + sigma_v**2*(K*sigma_w**2/2 + sigma_b**2/2)
        G_w[1]' = K*sigma_v**2/2
        G_w[2]' = K*sigma_w**2/2 + sigma_b**2/2
        """
        return begun(gradients(self.block), self.first)

    @property
    def usual(self) -> tuple[str, ...]:
        """What is computed when nobody says: K and J, or K alone where J is infinite at every layer."""
        return ("K", "J") if self.one_input["J"] != sp.oo else ("K",)

    @spoken
    def recursion(self, *names: str, lambda_w=None, lambda_b=None) -> Recursion:
        """The maps of the named quantities and of what they depend on; all of (K, J, Theta) by default.

        One input: "K", "J", "Theta", or "J0". Two inputs: "K_aa", "K_bb", "K_ab", "J_ab", "Theta_ab" and, beside K_aa
        or K_bb, "distance" = K_aa + K_bb - 2K_ab; of one norm "distance" beside "K", "J", … or alone, and in other
        coordinates ("K", "c"), ("gamma",), ("sigma_mu2", "sigma_y2"). Prints as equations, renders as LaTeX in a
        notebook. Of plain MLPs "V", "A", "B", "D", "F", "P" … "U" (n times connected averages of width n, n → ∞) and
        "G1", "Theta1", "J1" (n times the corrections of K, Theta, J), and to order 1/n² "G2" and "V1" (K + G1/n + G2/n²
        and V + V1/n are those of width n) with "V6", the six-point vertex they need; lambda_w, lambda_b: learning
        rates of weights (by fan-in) and biases, σ_w² and σ_b² unless given, numbers, names or formulas in the layer l
        ("1/l").

        >>> print(derive("erf").recursion("K").doit())
        K' = sigma_b**2 + 2*sigma_w**2*asin(2*K/(2*K + 1))/pi
        >>> print(derive("tanh").recursion("distance"))
        K' = sigma_b**2 + sigma_w**2*<tanh(z)**2>_{K}
        distance' = sigma_w**2*<(tanh(z_a) - tanh(z_b))**2>_{K, distance}
        >>> print(derive("relu", weights="orthogonal").recursion("V").doit())
        K' = K*sigma_w**2/2 + sigma_b**2
        V' = 3*K**2*sigma_w**4/4 + V*sigma_w**4/4
        """
        asked = tuple(names_of(n, "A quantity")[0] for n in names)
        if lambda_w is not None or lambda_b is not None:
            return correlators(self.block, self.first, asked, rates_of({"lambda_w": lambda_w, "lambda_b": lambda_b}))
        if set(asked) & set(COORDINATES):
            _selected(self, asked)  # refuses what does not go together
            return in_coordinates(self.equal_norms, asked)
        found = _selected(self, asked)
        return found if "tilt" in asked else without_tilt(found)

    @spoken
    def correlator_map(
        self, name: str, inputs: Sequence[int] | None = None, *, ratio=1, lambda_w=None, lambda_b=None
    ) -> sp.Expr:
        """The next layer's value of a mean or correlator of order 1/n between any inputs, in averages over φ and in
        the means and correlators of this layer.

        name: "K", "Theta", "G1", "Theta1", "V", "A", "B", "D", "F", "P" … "U", or of one input "V6", "V1", "G2";
        inputs: an integer for each of its indices, equal ones for one input, in the order that docs/notation.md gives
        (0, the only input, unless given); ratio: width of the new layer by that of this one; lambda_w, lambda_b:
        learning rates as in `recursion`. K_12 stands for the covariance of inputs 1 and 2, V_1234 for V between four.
        `derivation` shows where each term comes from. Raises: MeanFieldError for networks other than a plain MLP, and
        for what does not exist for its φ.

        >>> print(sp.expand(derive("linear", weights="orthogonal").correlator_map("V", (1, 2, 3, 4)).doit()))
        V_1234*sigma_w**4
        """
        rates = rates_of({"lambda_w": lambda_w, "lambda_b": lambda_b})
        return one_map(self.block, self.first, name, inputs, rates, ratio)

    @spoken
    def derivation(self, name: str, inputs: Sequence[int] | None = None, *, ratio=1, latex: bool = False) -> str:
        """How the map of a mean or correlator is found, as on paper: words of this layer's weights, pairings of their
        labels, neurons that coincide, the averages of the layer before to order 1/n, the terms collected, the map.

        Arguments are those of `correlator_map`, φ is any σ here. latex: an align* of amsmath instead of text; with
        amsmath's allowdisplaybreaks it runs over pages. Raises: as there.

        >>> print(derive("tanh").derivation("K").splitlines()[-1])
        K' = C_W*<σ**2> + C_b
        """
        found = steps(self.block, self.first, name, inputs, ratio, latex)
        body, _, last = found.rpartition("\n")
        return found if latex else f"{wrapped(body)}\n{wrapped('  ' + last)[2:]}"

    @spoken
    def susceptibilities(self) -> dict[str, sp.Expr]:
        """chi_J = ∂J'/∂J, chi_K = ∂K'/∂K, chi_Delta = ∂chi_J/∂K, averages left as nodes (`.doit()` closes them)."""
        return self.one_input.susceptibilities()

    @spoken
    def averages(self) -> dict[str, sp.Expr]:
        """⟨φ⟩, ⟨φ²⟩, ⟨φ′²⟩ over N(0, K), as nodes; of several φ as "phi_1", "phi_1^2", …, in the order they are met."""
        many = len(self.activations) > 1
        return {
            name.replace("phi", f"phi_{i}") if many else name: node
            for i, phi in enumerate(self.activations, 1)
            for name, node in one_input_averages(phi).items()
        }

    @spoken
    def expansions(self, order: int = 3) -> dict[tuple[str, str], Law]:
        """("phi^2" or "phi'^2", "0" or "oo") → the law of the average as K → 0 or K → ∞."""
        order, out = whole(order, "order", 1, ORDERS), {}
        for name, node in self.averages().items():
            if name.endswith("^2") and node != sp.oo:
                out[name, "0"] = at_zero(node, order)
                out[name, "oo"] = at_infinity(node, order)
        return out

    @spoken
    def depth_law(
        self,
        quantity: str = "J",
        *,
        order: int | None = None,
        lambda_w=None,
        lambda_b=None,
        input_ratio: object = 1,
        at: CriticalPoint | None = None,
        **parameters,
    ) -> _depth.DepthLaw | ScheduledLaw:
        """How K^l, J^{1,l}, the correlation c of two inputs of one norm, or γ = c/(1 - c) behaves as l → ∞, with its
        constants.

        quantity: "K", "J", "c", "gamma", "Theta" or a correlator of order 1/n (below); parameters: sigma_w, sigma_b
        (mu), numbers or text, Q0 and (for c and gamma) the cosine c0 of the inputs, 1 and 0 unless given; of K and J
        those left out stay symbolic where the law allows.
        "fisher": the largest over the smallest mean square of gradients by one entry, over the weights and the biases
        (those with σ ≠ 0) of every layer of a network of l layers of one width: a lower bound of the condition number
        of its Fisher information with Gaussian outputs. Source: [variance_variation] Sec. 2, the law derived here.

        "V", "A", "B", "D", "F", "P" … "U", "G1", "Theta1", "J1" of a plain MLP, divided by their powers of K and Θ
        (`run.normalized`): a `CorrelatorLaw`, with σ_w, σ_b numbers, or at=, one of `critical_points()`; lambda_w,
        lambda_b, input_ratio: as in `propagate`. order: how many powers of l below the leading one (1; 0 at K* > 0).
        Symbols C_X are what the start decides (`constants`; `forgets`: not the leading term); of homogeneous φ `exact`
        is the quotient itself. Numbers at K* > 0 have 15 digits. Source: derived here; [orthogonal_weights] (4.24),
        (4.27).

        >>> print(derive("tanh", weights="orthogonal").depth_law("V", sigma_w=1, sigma_b=0).law.text())
        -2 + 8/(3*l) + O(log(l)/l**2)
        >>> derive("relu", weights="orthogonal").depth_law("V", sigma_w="sqrt(2)", sigma_b=0).exact
        3*l - 5

        >>> derive("tanh", residual=True).depth_law("J", sigma_w=1, sigma_b=0).rate
        4*sqrt(2)/(3*sqrt(pi))
        >>> print(derive("relu").depth_law("gamma", sigma_w="sqrt(2)", sigma_b="0.1").expr)
        8*l**2/(9*pi**2)

        Where a `Schedule` makes variances fall with depth, l counts blocks and the law is a `ScheduledLaw`; its
        exponents need numbers here, and `phase_table` answers for all of them. With a total= in it, the law is in
        the number of blocks L, at l = tL.

        order: for K, K[1] and J under a skip of strength 1 (schedules or none), how many further terms the law gives,
        exact, 1 to 12: those of log X that grow first, then those of a factor 1 + … that vanish; what is left out is
        stated, and fewer terms come back where no more are derived. C is what the start adds to K at its power of l; as
        a factor of J it also holds the sum over the first blocks.

        >>> print(derive("tanh", residual=True).depth_law("J", sigma_w=1, sigma_b=0, order=2).text())
        C*l**(8/(9*pi))*exp(4*sqrt(2)*sqrt(l)/(3*sqrt(pi)))*(1 - 4*sqrt(2)*log(l)/(3*pi**(3/2)*sqrt(l)) + O(1/sqrt(l)))
        """
        theory, parameters = decided(self, parameters)
        if isinstance(quantity, str) and quantity in (*CORRELATORS, "Theta"):
            given = {"lambda_w": lambda_w, "lambda_b": lambda_b}
            return theory._correlator_law(quantity, order, parameters, given, input_ratio, at)
        if lambda_w is not None or lambda_b is not None or at is not None or input_ratio != 1:
            raise MeanFieldError(
                "lambda_w, lambda_b, input_ratio and at are of the laws of Theta and of correlators; "
                f"{shown(quantity)} was asked for."
            )
        if order is not None:
            return theory._further_law(quantity, whole(order, "order", 1, MOST_ORDER), parameters)
        if theory.one_input.knows_layer or theory.one_input.knows_depth:
            return theory._scheduled_law(quantity, parameters)
        if isinstance(quantity, str) and quantity == "fisher":
            return theory._fisher_law(parameters)
        choice(quantity, "quantity", ("K", "J", "Theta", "fisher", *closing.QUANTITIES, *CORRELATORS))
        if quantity in closing.QUANTITIES:
            return theory._closing_law(quantity, parameters)
        place = theory._place(parameters, also=("Q0",))
        return _depth.depth_law(theory.one_input.only("K", "J"), quantity, place)

    @spoken
    def phase_table(self, *quantities: str, **fixed) -> PhaseTable:
        """How quantities of a residual network whose variances fall as σ² l^{-β} behave as l → ∞, and where in the
        space of exponents each law holds, as a proved partition.

        quantities: "K", "K[1]" (the variance inside the branch), "J", squared gradients "G_z", "G_w", "G_b", "fisher"
        (as in `depth_law`), and of two inputs of one norm "distance" and "gamma" = c/(1 - c); K and J unless given.
        fixed: numbers for σ's and β's; β's left out are the table's coordinates. Blocks: a `Residual` of strength 1
        around Dense, φ, Dense, each σ a number, a symbol or a `Schedule`, or around φ, Dense; a LayerNorm may stand
        before φ or the first Dense.

        Where a `Schedule` has a total=, laws are in L, the number of blocks, at l = tL, 0 < t ≤ 1, with coordinates β
        and total; where all stays of order 1 and moves, a row holds the equations in t of k = lim K/L^κ,
        j = lim log J/L^ρ (and of h = lim K_ab). K_0 is K behind the first blocks, which is K¹ where all variances fall
        with L.

        >>> from meanfield import Dense, Nonlinearity, Residual, Schedule, Sequential
        >>> last = Dense(sigma_w=Schedule(Param("sigma_v"), "beta"), sigma_b=0)
        >>> table = derive(architecture=Residual(Sequential((Nonlinearity("tanh"), last)))).phase_table("K")
        >>> print(table.at(beta=1)["K"].text())
        sigma_v**2*log(l)
        >>> root = derive("relu", architecture="full_residual", sigma_a=0, sigma_b=0, total_v=1)  # branches/sqrt(L)
        >>> print(root.phase_table("K").rows[0]["K"].text())
        K_0*exp(sigma_v**2*sigma_w**2*t/2)
        """
        from meanfield.presentation.phase_tables import phase_table

        asked = tuple(names_of(n, "A quantity")[0] for n in quantities)
        return phase_table(self._branch(fixed), asked)

    def _branch(self, fixed: dict) -> Branch:
        """The branch of a residual block, with numbers put in."""
        found = branch(self.block)
        known = {s.name: s for s in found.symbols}
        extra = sorted(set(fixed) - set(known))
        if extra:
            raise MeanFieldError(
                f"{extra[0]} is not a parameter of this block; it has {', '.join(sorted(known)) or 'none'}."
            )
        return found.subs({known[n]: _number(n, v) for n, v in fixed.items()})

    @spoken
    def critical_shift(self) -> CriticalShift:
        """Where the critical point of networks of width n lies to order 1/n: C_W = c_0 + c_1/n and C_b = b_1/n
        (C = σ²), so that G1/K, the correction of K relative to K, stays bounded at large depth.

        A plain MLP whose K falls to 0 at its critical point by a power of l, or for which every K is fixed there.
        Raises: MeanFieldError elsewhere. Source: derived here; [orthogonal_weights] (4.28) has tanh.

        >>> shift = derive("tanh").critical_shift()
        >>> shift.C_W0, shift.C_W1, shift.C_b1
        (1, 2/3, 0)
        >>> derive("tanh", weights="orthogonal").critical_shift().C_W1
        0
        """
        return critical_shift(self.block, self.first, self.critical_points())

    def _correlator_law(
        self, quantity: str, order: int | None, parameters: dict, given: dict, ratio: object, at: CriticalPoint | None
    ) -> CorrelatorLaw:
        """The law of Θ, or of a correlator divided by what it is measured in."""
        if at is not None and not isinstance(at, CriticalPoint):
            raise MeanFieldError(f"at= is one of theory.critical_points(), but {shown(at)} was given.")
        if at is not None and {"sigma_w", "sigma_b"} & set(parameters):
            raise MeanFieldError("at= says sigma_w and sigma_b; leave them out.")
        slow = at is not None and at.kind == "half-stable"  # averages of many derivatives
        terms = int(not slow) if order is None else whole(order, "order", 0, MOST_ORDER)
        theory = replace(self, block=_with_values(self.block, parameters))
        own = {k: v for k, v in parameters.items() if k in ("sigma_w", "sigma_b", "Q0")}
        _known(parameters, self.one_input, also=("sigma_w", "sigma_b", "Q0"))
        one = theory.one_input
        one = one.only("K", "J") if one["J"] != sp.oo else one.only("K")
        return large_depth(
            theory.block, theory.first, one, quantity, theory._place(own, also=("Q0",)), given, ratio, terms, at
        )

    def _further_law(self, quantity: str, order: int, parameters: dict) -> ScheduledLaw:
        """The law of one quantity with `order` further terms."""
        from meanfield.presentation.phase_tables import further_law

        choice(quantity, "quantity", ("K", "K[1]", "J"))
        try:
            found = self._branch({k: v for k, v in parameters.items() if k != "Q0"})
        except MeanFieldError as error:
            raise MeanFieldError(f"Further terms (order={order}) were asked for. {error}") from None
        exponents = [s.name for s in found.symbols if s.name.startswith("beta")]
        if exponents:
            raise MeanFieldError(f"Further terms of {quantity} need numbers for {', '.join(exponents)}.")
        return further_law(found, quantity, order)

    def _fisher_law(self, parameters: dict) -> ScheduledLaw:
        """max/min of the diagonal blocks of the Fisher information without schedules: a block with one Dense by the
        laws of K and J, others as a branch."""
        from meanfield.presentation.phase_tables import ScheduledLaw

        form = plain_form(self.block)
        if form is None:
            return self._scheduled_law("fisher", parameters)
        K_, J_ = (self.depth_law(name, **parameters) for name in ("K", "J"))
        assert isinstance(K_, _depth.DepthLaw) and isinstance(J_, _depth.DepthLaw)
        biases = _number("sigma_b", parameters.get("sigma_b", 1)) != 0
        growth = plain_fisher_law(form[0], grown(K_), grown(J_), biases)
        return ScheduledLaw("fisher", growth, J_.regime, f"Q0 = {parameters.get('Q0', 1)}")

    @spoken
    def width_schedule(
        self,
        *,
        width: int,
        depth: int,
        sigma_w,
        sigma_b,
        factor: object = 2,
        fixed: str = "first",
        multiple: int = 1,
        input_norm=1.0,
        layerwise: bool = False,
        **parameters,
    ) -> WidthSchedule:
        """Widths N_1 … N_L for which the squared gradients per neuron stay within a factor of each other, with the
        fewest changes of width.

        Per neuron they are χ^l/χ^L = J^{l,L} N_L/N_l, so widths that fall as J grows keep them; the forward pass does
        not know. width: N_1, or N_L with fixed="last" (wider early layers make networks vary less among each other).
        factor > 1: the largest ratio allowed, kept exactly by whole widths. multiple: what every width is a multiple
        of (16, say, so that a `check` can run narrower networks of the same shape). The others: as in `propagate`, one
        number each. Any block that can change its width: its skips need a `Projection` or a Dense. Returns a
        `WidthSchedule`; `check(..., width=schedule.widths)` runs it.

        Raises: MeanFieldError where a layer would need a width below 1 or above 2^24, or none in between is whole.
        Source: [variance_variation] Sec. 6, for any φ.

        >>> theory = derive("tanh", architecture="full_residual", sigma_v=1, sigma_a=1)
        >>> print(theory.width_schedule(width=1024, depth=30, sigma_w=1, sigma_b=1, factor="5/2"))
        squared gradients per neuron within a factor 2.499 (asked: 2.5)
                 layers     width              chi/chi^L
             1 …      4      1024      1.176 …     2.478
             5 …     11       440     0.9918 …     2.283
            12 …     21       166     0.9927 …     2.346
            22 …     30        83          1 …     1.828
        with one width they differ by a factor 30.58
        """
        from meanfield.numeric import widths

        width, multiple = widths.checked_sizes(width, multiple)
        choice(fixed, "fixed", widths.ENDS)
        ratio = double("factor", scalar(factor, "factor"))
        if not ratio > 1:
            raise MeanFieldError(f"factor must be a number > 1, but {shown(factor)} was given.")
        widths.refuse_rigid(self.block)
        expand = widths.inner_factors(self.block, parameters)
        run = self.propagate(
            sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, input_norm=input_norm, layerwise=layerwise,
            quantities=("G_z",), **parameters,
        )  # fmt: skip
        if run.log_G_z.ndim != 1:
            raise MeanFieldError("Widths are those of one network; give one number for each parameter.")
        return widths.width_schedule(run.log_G_z, width, float(ratio), fixed, multiple, expand)

    @spoken
    def projection_law(self, *, factor: object = 2, **parameters) -> ProjectionLaw:
        """Where the n-th change of width by `factor` is due as n → ∞, so that squared gradients per neuron stay
        bounded: |log J^{1,l}| = n log(factor), by the law of J at large depth.

        parameters: σ's, β's and Q0 as in `depth_law`; factor > 1: exact, a number or text.

        Source: [variance_variation] Sec. 6 has tanh without decay, where l_n = n²; derived here for every law.

        >>> theory = derive("tanh", architecture="full_residual", sigma_v=1, sigma_a=1)
        >>> theory.projection_law(sigma_w=1, sigma_b=1, factor="exp(4/(3*sqrt(pi)))")
        ProjectionLaw(l_n ~ n**2, N divided by exp(4/(3*sqrt(pi))) at each)
        >>> theory.depth_law("fisher", sigma_w=1, sigma_b=1)
        ScheduledLaw(fisher ~ exp(4*sqrt(l)/(3*sqrt(pi)) + smaller order); V < 1: q → ∞)
        """
        ratio = _number("factor", factor)
        if not ratio.is_number or not ratio.is_real or ratio <= 1:
            raise MeanFieldError(f"factor must be a number > 1, but {shown(factor)} was given.")
        growth, regime = self._growth_of_J(parameters)
        return projection_law(growth, ratio, At({}), regime)

    def _growth_of_J(self, parameters: dict) -> tuple[Growth, str]:
        """The law of J^{1,l} as a `Growth`, and which balance holds."""
        found = self.depth_law("J", **parameters)
        return (grown(found) if isinstance(found, _depth.DepthLaw) else found.growth), found.regime

    def _scheduled_law(self, quantity: str, parameters: dict) -> ScheduledLaw:
        """The law of one quantity under schedules, at exponents that have numbers."""
        try:
            held = branch(self.block)
        except MeanFieldError as error:
            changes = ", but the map changes from layer to layer (a Schedule)" if self.one_input.knows_layer else ""
            raise MeanFieldError(
                f"A large-depth law was asked for{changes}. {error}"
            ) from None
        from meanfield.presentation.phase_tables import ScheduledLaw

        used = {s.name for s in held.exponents}
        table = None
        exponents = [s.name for s in held.exponents if s.name not in parameters]
        if not exponents:
            table = self.phase_table(quantity, **parameters)
            exponents = [n for n in table.coordinates if n in used or len(table) > 1]
        if table is None or exponents:
            raise MeanFieldError(
                f"The law of {quantity} under schedules depends on {', '.join(exponents)}; give them numbers, or ask "
                "phase_table for all of them."
            )
        (row,) = table.rows
        (name,) = table.quantities[:1]
        law, way = row[name], row.ways[0]  # refused where the start decides
        law = law.map(lambda e: sp.sympify(e).subs(dict(table.definitions)))  # a law stands without its table
        return ScheduledLaw(name, law, way.regime, way.basin, way.equations)

    def _closing_law(self, quantity: str, parameters: dict, growing: bool = True) -> _depth.DepthLaw:
        place = self._place(parameters, also=("Q0", "c0"))
        norm, cosine = place.pop("Q0", sp.S.One), place.pop("c0", sp.S.Zero)
        _require_cosine(cosine, parameters.get("c0"))
        missing = [s.name for s in self.one_input.only("K", "J").parameters if s.name not in (*place, "Q0")]
        if missing:
            raise MeanFieldError(f"The law of {quantity} was asked for; give {' and '.join(missing)} numbers.")
        own = {k: v for k, v in parameters.items() if k not in ("c0", "Q0")}
        phase = self.phase(input_norm=norm, **own)
        swap = {s: place[s.name] for s in self.equal_norms.parameters if s.name in place}
        recursion = self.equal_norms.only("K", "K_ab", "distance").homogeneous("A large-depth law was").subs(swap)
        first = {n: sp.sympify(e).subs({Q0: norm, start_c0: cosine}) for n, e in recursion.start.items()}
        same = first["distance"] == 0
        start = sp.S.One if same else sp.simplify(first["K_ab"] / first["K"]) if first["K"] != 0 else sp.S.Zero
        one = self.one_input.only("K", "J")
        try:
            return closing.closing_law(
                recursion,
                one,
                quantity,
                place | {"Q0": norm},
                start,
                phase,
                self._is_odd(place),
                lambda: self.correlations(input_norm=norm, **own),
            )
        except MeanFieldError as error:  # K grows as a power, and the map of c depends on it
            found = self._growing_law(quantity, own) if growing and abs(start) != 1 else None
            if found is None:
                raise error
            return found

    def _growing_law(self, quantity: str, parameters: dict) -> _depth.DepthLaw | None:
        """The law of c or γ under a skip of strength 1, by the balance of powers that schedules have, too; None where
        that does not say it."""
        try:
            table = self.phase_table("K", "gamma", **parameters)
            ((way,),) = (row.ways for row in table)
            gamma = way["gamma"]
        except (MeanFieldError, ValueError):
            return None
        if not gamma.is_regular or gamma.power_of(2) != 0:
            return None
        size = _depth.CONSTANT if gamma.constant is None else gamma.constant
        grows, power, logs = direction(gamma, At({})), gamma.power_of(0), gamma.power_of(1)
        terms: tuple[Term, ...] = (Term(size, power, logs),)
        if quantity == "c" and grows > 0:
            terms = (Term(sp.S.One), Term(-1 / size, -power, -logs))
        elif quantity == "c" and grows == 0:
            terms = (Term(sp.cancel(size / (1 + size))),)
        return _depth.DepthLaw(l, sp.oo, terms, "smaller", quantity=quantity, regime=way.regime)

    @spoken
    def fixed_points(self, **parameters) -> FixedPoints:
        """All fixed points K* of the map of K at given σ_w, σ_b (and μ), with χ_J, χ_K, stability and basins.

        parameters: sigma_w, sigma_b, mu: exact numbers (decimals count as written) or SymPy expressions. The answer
        carries certified digits and says whether the number of fixed points is proved (Descartes' rule) or searched.
        A float whose last bits decide between ordered and chaotic (2**0.5 with a ReLU) is "critical to rounding".

        >>> found = derive("gelu").fixed_points(sigma_w="1.7", sigma_b=0)
        >>> [(p.stability, p.phase) for p in found]
        [('stable', 'ordered'), ('unstable', 'chaotic')]
        """
        theory, parameters = decided(self, parameters)
        recursion, values = theory.one_input.only("K", "J"), theory._place(parameters)
        found = fixed_points(recursion, values)
        return points_with_rounding(found, values, doubles(parameters), lambda moved: fixed_points(recursion, moved))

    @spoken
    def phase(self, *, input_norm: object = 1, **parameters) -> Phase:
        """The phase at one place (σ_w, σ_b): where K¹ = σ_w² Q0 + σ_b² flows, χ_J* and ξ there.

        Behind a LayerNorm on activations, whose mean and scale move with K, K* and χ_J* are those of `phase_diagram`,
        within 1e-10 and MEASURED.

        >>> print(derive("erf").phase(sigma_w="1.3", sigma_b="0.2"))
        chaotic: chi_J* = 1.0932494106, xi = 11.21649983, K* = 0.718490023595
        """
        theory, parameters = decided(self, parameters)
        recursion, values = theory.one_input.only("K", "J"), theory._place(parameters)
        norm = _number("input_norm", input_norm)
        if not norm.is_number or norm <= 0:
            raise MeanFieldError(f"input_norm must be a number > 0, but {shown(input_norm)} was given.")
        if moves_with_K(recursion):
            from meanfield.numeric.places import measured_phase  # floats: no ball encloses these averages

            return measured_phase(recursion, values, norm)
        found = phase_at(recursion, values, norm)
        return phase_with_rounding(
            found, values, doubles(parameters), lambda moved: phase_at(recursion, moved, norm)
        )

    @spoken
    def correlations(self, *, input_norm: object = 1, **parameters) -> Correlations:
        """Every fixed point c* of the correlation of two inputs of one norm, at the K that K¹ = σ_w² Q0 + σ_b² flows
        to.

        parameters: sigma_w, sigma_b (mu), as for `fixed_points`. Each point has its slope C′(c*), its stability and
        ξ_c = 1/|log C′(c*)| in layers. Their number is proved wherever the side of 1 on which χ_J* lies is: C is convex
        on [0, 1], and c < 0 is fixed only at c = -1, where φ is odd and there are no biases. Places inside are floats
        with their error.

        >>> found = derive("step").correlations(sigma_w="1.5", sigma_b="0.1")
        >>> [(round(p.c, 9), p.stability) for p in found]
        [(1.0, 'unstable'), (0.793662469, 'stable')]
        """
        from meanfield.numeric.correlations import correlations

        theory, parameters = decided(self, parameters)
        phase = theory.phase(input_norm=input_norm, **parameters)
        exact = theory._place(parameters)
        recursion = theory.equal_norms.only("K", "K_ab", "distance", "J_ab").homogeneous("Correlations were")
        inside = _inside_averages(recursion, exact)
        recursion = recursion.subs(inside) if inside else recursion
        values = {k: float(v) for k, v in exact.items() if k not in inside}
        deviations = {n: float(exact[n]) for n in ("sigma_w", "sigma_b")}
        numbers = {**deviations, "parameters": {k: v for k, v in values.items() if k not in deviations}}
        start = float(start_of(theory.one_input, exact | {"Q0": _number("input_norm", input_norm)}))
        return correlations(recursion, numbers, phase, start, theory._is_odd(exact))

    @spoken
    def neutrality_line(self, *, c: object = "1/2", **parameters) -> CorrelationLine:
        """Where the correlation of two inputs settles at c* = c, 0 ≤ c < 1, as a curve in K: at ½ (γ = 1) the line
        between neutrality and prejudice.

        parameters: values of symbols other than sigma_w, sigma_b (mu). One Dense at the block's end, no LayerNorm.
        Raises: MeanFieldError for other blocks.

        >>> line = derive("erf").neutrality_line()
        >>> round(line.sigma_w_at("sqrt(0.1)")[0][0].value ** 2, 9)
        2.324254574
        """
        from meanfield.numeric.neutrality import CorrelationLine

        at = _number("c", c)
        if not at.is_number or not 0 <= at < 1:
            raise MeanFieldError(f"c must be a number with 0 ≤ c < 1, but {shown(c)} was given.")
        theory, parameters = decided(self, parameters)
        block = _with_values(theory.block, parameters) if parameters else theory.block
        strength = one_dense(block)
        if strength is None or strength.free_symbols:
            raise MeanFieldError(
                "A neutrality line was asked for; it is derived for a block of one nonlinearity and one Dense, with a "
                f"number for the skip's strength, but the block is {describe(block)}."
            )
        recursion = Theory(block).equal_norms.only("K", "K_ab", "distance").homogeneous("A neutrality line was")
        form = plain_form(block)
        exact = None if form is None else (form[0], at, 1 - strength**2)
        return CorrelationLine(recursion, float(strength), float(at), exact)

    @spoken
    def bias(self, *, input_norm: object = 1, c0: object = 0, **parameters) -> Bias:
        """The phase of the initial guessing bias: where γ = c/(1 - c), the drift of class means, and the gradients end.

        parameters: sigma_w, sigma_b (mu), as for `fixed_points`; c0: the cosine of two inputs, 0 (orthogonal data)
        unless given. The answer names a `BiasPhase` by two order parameters (γ* and χ_J*), the limits, the law of γ,
        and gives the distribution of class fractions that belongs to γ* (`fraction`).

        Source: [bias_and_trainability] table 1.

        >>> print(derive("relu").bias(sigma_w="sqrt(1.5)", sigma_b="sqrt(0.1)").phase.value)
        ordered deep prejudice
        """
        from meanfield.bias import bias_of

        theory, parameters = decided(self, parameters)
        cosine = _number("c0", c0)
        _require_cosine(cosine, c0)
        if cosine == 1:
            raise MeanFieldError("The guessing bias of an input with itself was asked for; give c0 < 1.")
        phase = theory.phase(input_norm=input_norm, **parameters)
        settled = phase.fixed_point is not None and phase.fixed_point.K.value != 0 and phase.name == "chaotic"
        found = theory.correlations(input_norm=input_norm, **parameters) if settled else None
        law, why = None, ""
        try:
            law = theory._closing_law("gamma", {"Q0": input_norm, "c0": c0, **parameters}, growing=False)
        except MeanFieldError as error:
            why = str(error)
        powers = all(a.homogeneity is not None for a in theory.activations)
        plain = powers or theory._place(parameters).get("sigma_w") == 0
        # how γ gets there is not known (z**2), or it starts where every other start ends (z**3), but where that is
        if (law is None or law.regime.endswith("c stays 0")) and found is None and plain:
            with suppress(MeanFieldError):
                found = theory.correlations(input_norm=input_norm, **parameters)
                found = found if found.stable is not None else None
        return bias_of(phase, law, why, found)

    def _is_odd(self, values: dict) -> bool:
        """Whether every φ is odd and every bias is 0, so that (x, -y) goes the way of (x, y)."""
        biases = [d.sigma_b for d in (self.first, *parts(self.block)) if isinstance(d, Dense)]
        zero = all(values.get(b.name, b) == 0 if isinstance(b, Param) else exact(b, "sigma_b") == 0 for b in biases)
        pools = [p for p in parts(self.block) if isinstance(p, Pool)]
        odd = all(map(is_odd_pool, pools)) and all(one_input_averages(a)["phi"] == 0 for a in self.activations)
        return zero and odd

    def _place(self, given: dict, also: tuple[str, ...] = ()) -> dict[str, sp.Expr]:
        """Exact values of σ_w, σ_b and parameters, each known to the recursion, σ and μ ≥ 0."""
        _known(given, self.one_input, also=("sigma_w", "sigma_b", *also))
        values = {k: _number(k, v) for k, v in given.items()}
        domains = {"Q0": Domain(sp.S.Zero)} | self.one_input.domains
        for name, value in values.items():
            if name in domains and value.is_number:
                domains[name].require(name, value)
        return values

    @spoken
    def critical_line(self, of: str = "J") -> CriticalLine:
        """The critical line χ_J* = 1 in the (σ_w, σ_b) plane: closed, a ray, vertical, or parametric in K*.

        of: "J", or "K" for the line χ_K = 1 beyond which K grows without bound or finds another fixed point. They are
        two lines where φ is pooled: wide networks explode beyond the first, and networks of finite width n deeper than
        log(n/A)/log(χ_K/χ_J) beyond the second (A is measured; ten or so for pools of two).

        >>> print(derive("relu", norm="act", mu="mu").critical_line())
        critical line: sigma_b = sigma_w/sqrt(-1 + pi)
          (K is at its fixed point from layer 2 on, so the whole line is critical)
        """
        return critical_line(self.block, choice(of, "of", ("J", "K")))

    @spoken
    def critical_points(self) -> CriticalPoints:
        """All points with χ_J = χ_K = 1: exact where they are, else certified balls; with kind, exponents and laws.

        >>> point = derive("gelu").critical_points()[1]
        >>> point.K.value, point.zeta.value
        (3/2 + sqrt(17)/2, -8*sqrt(17) - 32)
        """
        return critical_points(self.block)

    @spoken
    def propagate(
        self,
        *,
        sigma_w,
        sigma_b,
        depth: int,
        input_norm=1.0,
        correlation=None,
        quantities=None,
        layerwise: bool = False,
        every_layer: bool = True,
        start=None,
        lambda_w=None,
        lambda_b=None,
        input_ratio=1,
        **parameters,
    ):
        """The state at layers 1 … depth in float64, compiled and parallel.

        sigma_w, sigma_b ≥ 0: standard deviations, numbers or arrays that broadcast with each other and with input_norm;
        with layerwise=True their last axis is the layer (depth entries, the first for the input layer). input_norm: Q0
        = |x|²/N_0, so that K^1 = σ_w² Q0 + σ_b². correlation: cosine of two inputs; when it is given, (K_aa, K_bb,
        K_ab) are propagated. quantities: names to compute, default ("K", "J"), or K alone where J is infinite; with a
        correlation "distance" (carried as its logarithm), "c", "gamma", "log_gamma", "sigma_mu2", "sigma_y2" beside
        "K", "J", "Theta" are of two inputs of one norm.
        "K_aa" or "K_bb" with "distance" (and "K_ab", "c", "J_ab", "Theta_ab") are of two inputs of any norms.
        "G_z", "G_w", "G_b" are mean squared gradients of u·z^L/√N_L, u random signs and L = depth, by z^l and by all
        weights w = σ_w W/√n (per input of the Dense: networks have n times as much) and biases σ_b b of every Dense of
        the block; run.G_w and run.G_b have the Dense as their last axis, the input layer's in the last place.
        "V", "A", …, "U" and "G1", "Theta1", "J1" of plain MLPs are of order 1/n, "V6", "V1", "G2" of order 1/n²
        (`recursion`, `run.normalized`, `run.at_width`), and "V", "G1", "J1" of Dense(φ(z)) + μz with Gaussian weights,
        where V is of two different neurons (errors: about 1e-12 of the largest, over K where K < 1); lambda_w, lambda_b
        ≥ 0: learning rates, which Theta feels, too, numbers or arrays as the σ's, or formulas in l ("1/l"), σ_w² and
        σ_b² unless given; input_ratio: N_0/n, which orthogonal input layers feel. every_layer=False returns layer
        `depth` only. start: values of state variables at layer 1 in the place of those that follow from input_norm and
        correlation ({"K_aa": 1, "K_bb": 2.5, "distance": 0.7}, or one of "K_ab" and "c" for the distance: unequal
        norms; {"K": 1.6, "c": 0.1}, {"sigma_mu2": 0.1, "sigma_y2": 1.5}: of one norm, in any of its coordinates). Other
        keywords give values to symbolic parameters (mu=0.5); an array for a parameter of the activation (a threshold)
        broadcasts like the σ's and costs one derivation for each distinct value.

        Returns a `Run`. Raises: MeanFieldError for arguments out of range.

        >>> run = derive("erf").propagate(sigma_w=1.3, sigma_b=0.2, depth=100)
        >>> round(float(run.K[-1]), 12)
        0.718490023595
        """
        from meanfield.numeric.solvers import propagate  # Numba's world is entered only here

        layerwise, every_layer = flag(layerwise, "layerwise"), flag(every_layer, "every_layer")
        begin = {k: double(f"The start of {k}", v) for k, v in _mapping(start, "start").items()}
        places = dict(sigma_w=sigma_w, sigma_b=sigma_b, input_norm=input_norm, correlation=correlation)
        settings = dict(depth=depth, quantities=quantities, layerwise=layerwise, every_layer=every_layer)
        given_rates = {k: v for k, v in (("lambda_w", lambda_w), ("lambda_b", lambda_b)) if v is not None}
        settings |= given_rates | {"input_ratio": input_ratio}
        inner = {s.name for a in activations_of(self.block) for s in activation(a).free_parameters}
        swept = {k: double(k, v) for k, v in parameters.items() if k in inner}
        if any(getattr(v, "shape", ()) or isinstance(v, (list, tuple)) for v in swept.values()):
            from meanfield.numeric.sweeps import sweep

            rest = places | {k: v for k, v in parameters.items() if k not in inner}
            numbers = {k: double(k, v) for k, v in rest.items() if v is not None}
            numbers |= {f"{k}^1": v for k, v in begin.items()}  # as no parameter is called

            def one(**given):
                first = {k: given.pop(f"{k}^1") for k in begin}
                return self.propagate(**given, **settings, start=first)

            return sweep(one, swept, numbers, layerwise)
        theory, parameters = decided(self, parameters)
        if theory is not self:
            return theory.propagate(**places, **settings, start=begin, **parameters)
        quantities = None if quantities is None else names_of(quantities, "quantities")
        of_two = TWO_INPUTS + EQUAL_NORMS + UNEQUAL_NORMS + COORDINATES
        pair = correlation is not None or bool(set(begin) & set(of_two))
        if not pair and set(quantities or ()) & set(of_two):
            raise MeanFieldError(f"{_listed(of_two)} belong to two inputs; give their correlation=.")
        wanted = tuple(quantities or (COVARIANCES if pair else self.usual))
        if pair and not quantities and {"K", *EQUAL_NORMS, *COORDINATES} & set(begin):
            wanted = ("K", "K_ab", "distance")
        if {"K_aa", "K_bb"} & set(begin) and {"c", "distance", "tilt"} & {*wanted, *begin}:  # of any two norms
            norms = ("K_aa", "K_bb", "distance", "K_ab")
            wanted = (*norms, *(n for n in wanted if n not in norms and (quantities or n != "K")))
        if pair and not set(wanted) & set(of_two):
            wanted = (*wanted, "distance")  # K, J or Theta with a correlation: of two inputs of one norm
        back, other = bool(set(wanted) & set(GRADIENTS)), None
        values: dict = {}  # of learning rates
        if back:
            if pair:
                raise MeanFieldError(f"{_listed(GRADIENTS)} are of one input; leave correlation= and its start out.")
            from meanfield.numeric.gradients import columns, with_gradients

            beside = tuple(n for n in wanted if n not in (*GRADIENTS, "K", "J"))
            if beside:
                other = self.propagate(**places, **(settings | {"quantities": beside}), start=begin, **parameters)
            recursion = self.gradients.only(*columns(self.gradients, wanted))
        elif given_rates or set(wanted) & set(FINITE_WIDTH):
            if pair:
                raise MeanFieldError(f"{_listed(FINITE_WIDTH)} are of one input here; leave correlation= out.")
            if has_skip(self.block):
                return self._remembering(wanted, given_rates, places, settings, begin, parameters)
            recursion, values = prepared(self.block, self.first, wanted, given_rates, input_ratio, depth)
            if not begin:
                refuse_zero({k: double(k, v) for k, v in places.items() if k != "correlation"}, wanted[0], layerwise)
        else:
            recursion = _selected(self, wanted)
        parameters = {k: v for k, v in parameters.items() if k not in of_widths(self.block)}
        _known(parameters, recursion)
        numbers = _inside_averages(recursion, parameters)
        if numbers:
            recursion = recursion.subs(numbers)
        try:
            run = propagate(
                recursion,
                **{k: double(k, v) for k, v in places.items()},
                depth=depth,
                layerwise=layerwise,
                every_layer=every_layer,
                parameters={k: double(k, v) for k, v in (parameters | values).items() if k not in numbers},
                start=begin,
            )
            return with_gradients(run, wanted, other) if back else run
        except InfiniteAverage:
            if quantities is not None or wanted == ("K",) or correlation is not None:
                raise
        # nobody asked for J, and it is infinite: φ is continuous, but its slope is not square integrable
        return self.propagate(**places, **(settings | {"quantities": ("K",)}), start=begin, **parameters)

    def _remembering(self, wanted, rates, places: dict, settings: dict, begin: dict, parameters: dict):
        """A run of a network with a skip with quantities of order 1/n, which no map of one layer carries."""
        from meanfield.numeric.fluctuations import with_corrections

        theory, parameters = numbered(self, parameters)
        phi, mu = remembering(theory.block, theory.first, wanted, rates)
        if not begin:
            numbers = {k: double(k, v) for k, v in places.items() if k != "correlation"}
            refuse_zero(numbers, wanted[0], settings["layerwise"])
        base = tuple(n for n in ("K", "J") if n == "K" or {"J", "J1"} & set(wanted))
        every = settings["every_layer"]
        given = settings | {"quantities": base, "every_layer": True}
        run = theory.propagate(**places, **given, start=begin, **parameters)
        return with_corrections(run, wanted, phi, mu.name if isinstance(mu, Param) else float(mu), every)

    @spoken
    def sample(
        self,
        *,
        sigma_w,
        sigma_b,
        depth: int,
        tokens=None,
        draws: int = 12,
        seed: int = 0,
        input_norm=1,
        correlation=0,
        quantities=None,
        threads=None,
        **parameters,
    ) -> Sampled:
        """K, K_ab, J and chi of networks with tokens, the matrices of every Dense(axis="tokens") drawn: infinitely many
        channels at T tokens, with standard errors over the draws.

        A Dense on tokens shares its matrix between the channels, so that a token's K is not the same in all networks,
        however wide. Given these matrices a channel is a Gaussian vector of its T tokens: its mean, its covariance and
        the Gram matrix of tangents are pushed through the block. Exact where every Dense on tokens acts on a Gaussian
        (`answer.exact`); behind an activation a sum over tokens is taken as Gaussian, an error of order 1/T. The other
        level, without draws, is `propagate` ("averaged").

        tokens: T ≥ 2. draws ≥ 2; seed: of the draws, common to all σ's and depths. sigma_w, sigma_b ≥ 0: one number
        or one per layer. input_norm, correlation: |x|²/N_0 of a token, and the cosine of any two. quantities: from K
        (mean over tokens), K_ab (mean over pairs), J (J^{1,l} from perturbations of every token) and chi (J^{l,l+1} of
        one block); all, or K and K_ab where an activation jumps. Other keywords give numbers to symbols (mu=0.5).

        Returns a `Sampled`: `estimate(name, l)`, `samples`, `exact`, `error` (of averages over two tokens). Raises:
        MeanFieldError for a block with BatchNorm or Pool, or that ends in an activation; for a J that is 0.

        >>> mixing = Residual(Sequential((Dense(axis="tokens"),)), 1)
        >>> block = Sequential((mixing, Nonlinearity("tanh"), Dense()))
        >>> answer = derive(architecture=block).sample(sigma_w=1, sigma_b=0, depth=4, tokens=16)
        >>> answer.exact, answer.estimate("chi").mean.shape
        (True, (3,))
        """
        from meanfield.sampled import sampled

        theory, parameters = decided(self, parameters)
        theory, parameters = numbered(theory, parameters)
        values = dict(sigma_w=sigma_w, sigma_b=sigma_b) | parameters
        numbers = {k: double(k, v) for k, v in values.items()}
        norm, cosine = double("input_norm", input_norm), double("correlation", correlation)
        settings = tokens, draws, seed, depth, norm, cosine, quantities, threads
        return sampled(theory.block, theory.first, *settings, numbers)

    @spoken
    def correlators(
        self,
        inputs=None,
        *,
        gram=None,
        depth: int,
        sigma_w,
        sigma_b,
        quantities=None,
        lambda_w=None,
        lambda_b=None,
        input_ratio=1,
        **parameters,
    ) -> Correlators:
        """K, Theta, their corrections of order 1/n and the eleven correlators of a plain MLP at several inputs, at all
        tuples of them, at layers 1 … depth.

        inputs: (P, N_0), a row for each of up to 8 inputs; or gram: (P, P), x_a·x_b/N_0 (of inputs in random
        directions, if the weights feel more than that). Inputs may be repeated or collinear. sigma_w, sigma_b ≥ 0:
        numbers, or one for each layer. quantities: names among K, Theta, G1, Theta1, V, A, B, D, F, P, Q, R, S, T, U
        (all that exist for φ unless given: no P … U with kinks, only K, V, G1 with jumps). lambda_w (by fan-in),
        lambda_b ≥ 0: learning rates, numbers, one for each layer, or formulas in l ("1/l"), σ_w² and σ_b² unless given.
        input_ratio: N_0/n, which orthogonal input layers feel. Other keywords: values of φ's parameters.

        Returns `Correlators`: run.V[l - 1, a, b, c, d] is n times the connected average of z_a z_b (one neuron) and
        z_c z_d (another), n → ∞; all are indexed as by `mf.measure`: A by H_ab (one neuron) and H_cd (another), B by
        H_ab and H_cd between the two, D by z_a z_b and H_cd, F by z_a, z_b and H_cd between the two, P and Q by dH_abc
        and z_d, R, S, T, U by ddI_abcd or ddII_abcd; with run.normalized("V"), run.at_width(n) and run.at(layer).

        Accuracy: averages to run.error of the root mean squares of their factors multiplied (usually 1e-10, often
        rounding alone), measured by a second rule. Terms that cancel as K → 0 lose about -log10(K) digits of V, B, F, …
        (of one input `propagate` loses none). Time: about 0.2 s a layer for all of four inputs, 4 s of eight (kinked φ:
        four times that); MEANFIELD_SECONDS ends it.

        Raises: MeanFieldError for other networks than Dense(φ(z)), inputs that are zero, not finite or too many, an
        indefinite Gram matrix, quantities that do not exist for φ, and collinear inputs of a kinked φ where an average
        is infinite. Source: [orthogonal_weights] (4.16), (4.17); the others are derived here.

        >>> run = derive("tanh", weights="orthogonal").correlators(
        ...     gram=[[1, 0.5], [0.5, 1]], depth=3, sigma_w=1, sigma_b=0, quantities="V")
        >>> print(run.V[:, 0, 0, 1, 1].round(9), run.normalized("V")[2, 0, 1, 0, 1].round(9))
        [-0.5        -0.06809091 -0.02334693] -1.636767464
        """
        from meanfield.several_inputs import several_inputs  # Numba's world is entered only here

        theory, rest = decided(self, parameters)
        return several_inputs(
            theory.block,
            theory.first,
            inputs,
            gram,
            depth,
            quantities,
            {"sigma_w": double("sigma_w", sigma_w), "sigma_b": double("sigma_b", sigma_b)},
            {k: v for k, v in (("lambda_w", lambda_w), ("lambda_b", lambda_b)) if v is not None},
            input_ratio,
            rest,
        )

    @spoken
    def phase_diagram(
        self,
        *,
        sigma_w=(0.0, 3.0, 300),
        sigma_b=(0.0, 3.0, 300),
        input_norm: float = 1.0,
        line: bool = True,
        kind: str = "gradient",
        **parameters,
    ) -> PhaseDiagram | BiasDiagram:
        """χ_J*, ξ and the phase over a grid of (σ_w, σ_b), compiled and parallel.

        kind: "gradient" (order and chaos), or "bias": a `BiasDiagram`, with the correlation c* that two orthogonal
        inputs of one norm end at, γ* = c*/(1 - c*) and the phase of the guessing bias beside K* and χ_J*.

        sigma_w, sigma_b: (low, high, count), as every tuple of three numbers is read, or the values as an array, a list
        or a tuple of another length. input_norm: Q0 = |x|²/N_0; where K has several attracting states
        it decides which one is reached. line=False leaves out the critical line and points. Other keywords give values
        to symbolic parameters (mu=0.5).

        >>> diagram = derive("erf").phase_diagram(sigma_w=(0.5, 2, 4), sigma_b=(0.0, 1, 3), line=False)
        >>> diagram.phase.tolist()
        [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
        >>> bias = derive("relu").phase_diagram(sigma_w=[1, 2], sigma_b=[0, 0.3], line=False, kind="bias")
        >>> print(bias.phases[bias.phase[1, 0]], bias.c[1, 0])
        ordered deep prejudice 1.0
        """
        from meanfield.presentation.diagrams import (  # NumPy is loaded only when numbers are asked for
            axis,
            phase_diagram,
        )

        choice(kind, "kind", ("gradient", "bias"))
        theory, rest = decided(self, {k: scalar(v, k) for k, v in parameters.items()})
        if theory is not self:
            return theory.phase_diagram(
                sigma_w=sigma_w, sigma_b=sigma_b, input_norm=input_norm, line=line, kind=kind, **rest
            )
        recursion, fixed, line = self.recursion("K", "J"), {}, flag(line, "line")
        jumps = kind == "bias" and recursion["J"] == sp.oo
        sigma_w, sigma_b = (axis(n, double(n, v)) for n, v in (("sigma_w", sigma_w), ("sigma_b", sigma_b)))
        for name, value in parameters.items():
            scalar(value, name)
        if isinstance(self.block, Residual) and not isinstance(self.block.mu, Param):
            # one compiled module serves every skip strength; no parameter of a user's is called so
            own = "mu" if all(p.name != "mu" for p in recursion.parameters) else "mu_of_the_outer_skip"
            fixed = {own: float(self.block.mu)}
            recursion = replace(self, block=replace(self.block, mu=Param(own))).one_input.only("K", "J")
        if jumps:
            recursion = recursion.map(lambda e: J if e == sp.oo else e)  # K alone is asked for
        _known(parameters, recursion)
        inside = _inside_averages(recursion, parameters | fixed)
        if inside:
            recursion = recursion.subs(inside)
        rest = {k: v for k, v in (parameters | fixed).items() if k not in inside}
        drawn: tuple = (None, None)
        if line:
            block = self.block if not parameters else _with_values(self.block, parameters)
            try:
                drawn = critical_line(block), critical_points(block)
            except MeanFieldError:
                drawn = (None, None)  # several Dense layers: the diagram itself shows the line
        norm, rest = double("input_norm", input_norm), {k: double(k, v) for k, v in rest.items()}
        found = phase_diagram(describe(self.block), recursion, sigma_w, sigma_b, norm, rest, *drawn)
        return found if kind == "gradient" else self._bias_diagram(found, line, jumps, parameters)

    def _bias_diagram(self, base: PhaseDiagram, line: bool, jumps: bool, parameters: dict) -> BiasDiagram:
        from meanfield.numeric.gaps import compile_gaps
        from meanfield.numeric.settling import Plain, Stepwise
        from meanfield.presentation.bias_diagrams import bias_diagram

        if (self.first.sigma_w, self.first.sigma_b) != OWN:
            raise MeanFieldError("A diagram of the bias is of networks whose input layer has no σ's of its own.")
        theory = Theory(_with_values(self.block, parameters))
        form, neutral = plain_form(theory.block), None
        way: Plain | Stepwise
        if form is not None and not form[1].free_symbols:
            way = Plain(compile_gaps(form[0]), float(form[1]))
        else:
            recursion = theory.equal_norms.only("K", "distance").homogeneous("A phase diagram was")
            inside = _inside_averages(recursion, parameters)
            recursion = recursion.subs(inside) if inside else recursion
            names = {p.name for p in recursion.parameters}
            way = Stepwise(recursion, {k: double(k, v) for k, v in parameters.items() if k in names})
        with suppress(MeanFieldError):  # several Dense layers, a LayerNorm: the diagram itself shows the line
            neutral = theory.neutrality_line() if line else None
        odd = theory._is_odd({k: _number(k, v) for k, v in parameters.items()} | {"sigma_b": sp.S.Zero})
        return bias_diagram(base, way, odd, jumps, neutral)

    @spoken
    def plot(self, **settings):
        """The figure of `propagate(**settings)`: K^l and J^{1,l} against depth (needs matplotlib: meanfield[plot])."""
        from meanfield.presentation import figures  # matplotlib is loaded only when a picture is asked for

        return figures.plot_run(self.propagate(**settings))

    @spoken
    def source(self, *quantities: str) -> str:
        """The generated Numba module that `propagate` runs for these quantities, with the form and measured error of
        each average."""
        from meanfield.numeric.lowering.assembly import lower

        asked = tuple(names_of(n, "A quantity")[0] for n in quantities)
        return lower(_selected(self, asked or self.usual)).source

    @spoken
    def table(self, order: int = 3) -> _latex.Table:
        """Maps, susceptibilities, closed forms, expansions at both ends and the large-depth law, ready to print or
        typeset."""
        order = whole(order, "order", 1, ORDERS)
        return _latex.theory_table(self.activations, self.block, self.one_input, self.two_inputs, order)

    @spoken
    def latex(self, order: int = 3) -> str:
        """The table as LaTeX (amsmath, booktabs)."""
        return self.table(order).latex()

    def _repr_latex_(self) -> str | None:
        try:
            return self.one_input._repr_latex_()
        except Undetermined:
            return None  # a notebook shows the text

    def __repr__(self) -> str:
        return one_line("Theory", describe(self.block))

    def __str__(self) -> str:
        try:
            return f"{describe(self.block)}\n{self.one_input}"
        except Undetermined as error:
            return f"{describe(self.block)}\n({error})"


@lru_cache(maxsize=512)
def _selected(theory: Theory, names: tuple[str, ...]) -> Recursion:
    """The part of a theory's recursions that `names` need."""
    known = ONE_INPUT + FINITE_INPUT[1:] + TWO_INPUTS + EQUAL_NORMS + UNEQUAL_NORMS + COORDINATES + GRADIENTS
    known += FINITE_WIDTH
    unknown = [n for n in names if n not in known]
    if unknown:
        raise MeanFieldError(f"The quantity {shown(unknown[0])} was asked for; known are {', '.join(known)}.")
    if set(names) & set(GRADIENTS):
        raise MeanFieldError(
            f"{_listed(GRADIENTS)} go from the last layer back, so no map takes them one layer deeper; propagate(...) "
            "gives them, and .gradients what they are products of."
        )
    if set(names) & set(FINITE_WIDTH):
        return correlators(theory.block, theory.first, names)
    if _of_two_norms(names):
        return _unequal(theory, names)
    near = [n for n in names if n in EQUAL_NORMS + COORDINATES]
    two = [n for n in names if n in TWO_INPUTS]
    if near or (two and set(names) & set(ONE_INPUT)):
        return _of_one_norm(theory, names, (near or [n for n in names if n in ONE_INPUT])[0])
    if two:
        if not set(names) & set(PAIR_TANGENTS):
            return theory.two_inputs.only(*names)
        if "Theta_ab" in names and "Theta_ab" not in theory.pair_tangents.names:
            raise _open_tangent("Theta_ab")
        return theory.pair_tangents.only(*names)
    if any(n in FINITE_INPUT for n in names):
        if {"J", "Theta"} & set(names):
            raise MeanFieldError("J0 (finite input dimension) has its own recursion; ask for J and Theta separately.")
        return theory.input_jacobian  # whole, so that N_0 is a parameter even where it has no effect
    if "Theta" in names and "Theta" not in theory.one_input.names:
        raise _open_tangent("Theta")
    return theory.one_input.only(*names)


def _of_two_norms(names: tuple[str, ...]) -> bool:
    """Whether names are of two inputs of any norms with their distance: K_aa or K_bb beside it."""
    return "tilt" in names or ("distance" in names and bool({"K_aa", "K_bb"} & set(names)))


def _unequal(theory: Theory, names: tuple[str, ...]) -> Recursion:
    """Two inputs of any norms and their distance: the state that `names` are read off."""
    wrong = [n for n in names if n not in (*TWO_INPUTS, *EQUAL_NORMS, *UNEQUAL_NORMS, "c")]
    if wrong:
        raise MeanFieldError(
            f"{wrong[0]} was asked for with K_aa, K_bb and distance, which are of two inputs of any norms; with these "
            "go K_ab, c, J_ab and Theta_ab."
        )
    if "Theta_ab" in names and "Theta_ab" not in theory.unequal_norms.names:
        raise _open_tangent("Theta_ab")
    wanted = [n for n in names if n != "c"] + ["K_ab"] * ("c" in names)
    return theory.unequal_norms.only("K_aa", "K_bb", "distance", *wanted)


def _of_one_norm(theory: Theory, names: tuple[str, ...], why: str) -> Recursion:
    """Two inputs of one norm: the state that `names` are read off."""
    wrong = [n for n in names if n in ("K_aa", "K_bb", "D0", "J0")]
    if wrong:
        what = "any two norms" if wrong[0].startswith("K") else "an input of finite dimension"
        raise MeanFieldError(
            f"{wrong[0]} was asked for with {why}, but {wrong[0]} is of {what}, and {why} with two inputs of one norm; "
            "ask for K, K_ab and distance, or separately."
        )
    open_ = [n for n in names if n not in (*theory.equal_norms.names, *COORDINATES)]
    if open_:
        raise _open_tangent(open_[0])
    return theory.equal_norms.only(*needed(names))


def of_widths(block: Block) -> set[str]:
    """Symbols of a block that say how wide a layer is: infinite width does not know them."""
    return {d.expand.name for d in parts(block) if isinstance(d, Dense) and isinstance(d.expand, Param)}


def _require_cosine(cosine: sp.Expr, given: object) -> None:
    if not cosine.is_number or not -1 <= cosine <= 1:
        raise MeanFieldError(f"c0 must be a number between -1 and 1, but {shown(given)} was given.")


def _mapping(value: object, what: str) -> dict:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise MeanFieldError(f"{what} must be a mapping from names to numbers, but {shown(value)} was given.")
    return dict(value)


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _open_tangent(name: str) -> MeanFieldError:
    return MeanFieldError(
        f"{name} does not close here: a skip starts at the output of a LayerNorm with trained gains, or one stands "
        "behind a Pool; use LayerNorm(affine=False) there, or put the LayerNorm inside the branch."
    )


def _known(values: dict, recursion: Recursion, also: tuple[str, ...] = ()) -> None:
    """Refuse a keyword that the recursion has no parameter for (also: names that every theory knows)."""
    names = {p.name for p in recursion.parameters} - {"Q0", "c0", "sigma_w", "sigma_b", "L"}
    extra = sorted(set(values) - names - set(also))
    if extra:
        hint = meant(extra[0], sorted(names | {"sigma_w", "sigma_b"}))
        raise MeanFieldError(
            f"{extra[0]} is not a parameter of this theory; it has "
            f"{', '.join(sorted(names)) or 'none beyond sigma_w, sigma_b'}."
            f"{hint if hint.startswith(' Did') else ''}"
        )


def decided(theory: Theory, values: dict) -> tuple[Theory, dict]:
    """The theory with those of the given numbers put in that its switch points wait for, and the other values.

    `z if z > t else (z/2 if z > s else 0)` has no recursion before it is known whether s or t comes first.
    """
    held = [activation(a) for a in activations_of(theory.block)]
    waiting = {s.name for a in held if not a.is_decided for s in a.free_parameters} & set(values)
    if not waiting:
        return theory, values
    block = _with_values(theory.block, {k: values[k] for k in waiting})
    rest = {k: v for k, v in values.items() if k not in waiting}
    return replace(theory, block=block), rest


def numbered(theory: Theory, values: dict) -> tuple[Theory, dict]:
    """The theory with those of the given numbers put in that are parameters of its activations, and the other values.
    """
    inner = {s.name for a in activations_of(theory.block) for s in activation(a).free_parameters} & set(values)
    rest = {k: v for k, v in values.items() if k not in inner}
    if not inner:
        return theory, rest
    return replace(theory, block=_with_values(theory.block, {k: values[k] for k in inner})), rest


def _inside_averages(recursion: Recursion, values: dict) -> dict[str, sp.Expr]:
    """The values of parameters that stand inside an average: they must be put in before anything is compiled."""
    if not values:
        return {}
    nodes = [a for step in recursion.steps for e in step.expressions for a in e.atoms(Average)]
    inside = {s.name for a in nodes for s in sp.Tuple(*a.args[2:]).free_symbols}  # not those of a variance
    return {k: _number(k, v) for k, v in values.items() if k in inside}


def _with_values(block: Block, values: dict) -> Block:
    """The block with numbers for its symbolic skip strengths and activation parameters."""
    match block:
        case Nonlinearity(a):
            record = activation(a)
            held = {s.name: _number(s.name, values[s.name]) for s in record.free_parameters if s.name in values}
            return Nonlinearity(record.at(held)) if held else block
        case Sequential(blocks):
            return Sequential(tuple(_with_values(b, values) for b in blocks))
        case Residual(branch, mu, shortcut):
            strength = values.get(mu.name, mu) if isinstance(mu, Param) else mu
            shortcut = shortcut and _with_values(shortcut, values)
            return replace(block, branch=_with_values(branch, values), mu=strength, shortcut=shortcut)
    return block


def _number(name: str, value) -> sp.Expr:
    """An exact number: text, integers and SymPy numbers as they are, a float as the decimal it prints as; a name is a
    symbol."""
    scalar(value, name)
    if isinstance(value, sp.Expr) and value.free_symbols:
        return value
    if isinstance(value, Param) or (isinstance(value, str) and value.strip().isidentifier()):
        found = exact(value, name)
        if isinstance(found, Param):
            return parameter(found.name)
    return number(value, name)


def double(name: str, value):
    """`value` with text, fractions and SymPy numbers in it as doubles, which compiled recursions and networks take."""
    if isinstance(value, (str, sp.Expr, Fraction, Constant)):
        return float(number(value, name))
    if getattr(getattr(value, "dtype", None), "kind", "") in ("U", "O"):  # an array of text or of objects
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [double(name, v) for v in value] if isinstance(value, list) else tuple(double(name, v) for v in value)
    return value


@spoken
def derive(
    phi: object = None,
    *,
    residual: object = False,
    mu: object = None,
    norm: str | None = None,
    architecture: Block | str | None = None,
    weights: str = "gaussian",
    **parameters,
) -> Theory:
    """The theory of a wide random network at initialization.

    phi: a registered activation name ("tanh", "leaky_relu(0.2)"), a formula in z ("z*erf(z)"), a SymPy expression or an
    `Activation`. residual: True adds the skip z^{l+1} = branch + μ z^l with μ = 1; mu: another μ, a number or a name
    (mu="mu" keeps it symbolic). norm: "pre" or "act" puts a LayerNorm on preactivations, Dense(φ(LN(z))), or on
    activations, Dense(LN(φ(z))); the skip carries z as it is. weights: "gaussian", "orthogonal" (Haar), "mixed" (Haar
    after a Gaussian input layer) or "uniform" (independent, fourth cumulant −6/5), which share one limit of infinite
    width; at order 1/n, G1, Theta1 and J1 tell uniform weights from Gaussian ones. architecture: any composition of
    blocks instead of the plain layer; a `Network`, whose input layer has σ's of its own; or, with phi, the name of a
    preset of `meanfield.architectures`, whose keywords are then taken, too (`architecture="full_residual",
    beta_v="1/2"`).
    Keyword parameters set the activation's parameters (alpha=0.2, or alpha="alpha" to keep it symbolic). Where symbols
    leave open which switch point comes first (min(max(z, s), t)), the verbs that take numbers for them answer, and the
    others say what is open.

    Conventions: z^{l+1} = (σ_w/√N) W φ(z^l) + σ_b b [+ μ z^l], standard normal W and b; K^l is the second moment of
    z^l; l = 1 is the first layer after the input.

    Raises: MeanFieldError for an unknown name, an unreadable formula, a negative μ, or blocks that have no rule.

    >>> print(derive("tanh", residual=True).recursion("K", "J"))
    K' = K + sigma_b**2 + sigma_w**2*<tanh(z)**2>_{K}
    J' = J*(sigma_w**2*<sech(z)**4>_{K} + 1)
    """
    choice(weights, "weights", WEIGHTS)
    if norm is not None:
        choice(norm, "norm", NORMS)
    if isinstance(architecture, str):
        return _preset(phi, architecture, residual, mu, norm, weights, parameters)
    if architecture is not None:
        plain = phi is None and residual is False and mu is None and norm is None and weights == "gaussian"
        if not plain or parameters:
            raise MeanFieldError(
                "architecture= says everything about the network; leave out the activation, residual, mu, norm, "
                "weights and parameters, or put them into its records."
            )
        whole_ = architecture if isinstance(architecture, Network) else Network(architecture)
        return Theory(_resolved(whole_.block), whole_.first)
    if phi is None:
        raise MeanFieldError("derive needs an activation, such as derive('tanh'), or architecture=...")
    if isinstance(phi, Block):
        raise MeanFieldError("A block was given as the activation; give it as derive(architecture=...).")
    if not isinstance(residual, bool):
        if mu is not None:
            raise MeanFieldError(
                f"residual={shown(residual)} and mu={shown(mu)} both set the skip strength; give residual=True with mu."
            )
        residual, mu = True, residual
    try:
        record = activation(phi, **parameters)
    except MeanFieldError as error:
        own = [meant(k, ("residual", "mu", "norm", "architecture", "weights")) for k in parameters]
        hint = next((h for h in own if h.startswith(" Did")), "")
        raise (MeanFieldError(f"{error}{hint}") if hint else error) from None
    strength = 0 if not residual and mu is None else 1 if mu is None else mu
    return _derive(record, exact(strength, "The skip strength mu"), weights, norm)


def _preset(phi, name: str, residual, mu, norm, weights: str, parameters: dict) -> Theory:
    """The theory of a preset: its keywords go to it, the others to the activation."""
    own = set(keywords(name))
    if phi is None:
        raise MeanFieldError(f"derive needs an activation, such as derive('tanh', architecture={name!r}).")
    if name == "mlp":
        return derive(phi, residual=residual, mu=mu, norm=norm, weights=weights, **parameters)
    if residual is not False or (mu, norm, weights) != (None, None, "gaussian"):
        raise MeanFieldError(f"residual, mu, norm and weights are of the plain layer; leave them out with {name}.")
    inner = {k: v for k, v in parameters.items() if k not in own}
    block = PRESETS[name](activation(phi, **inner), **{k: v for k, v in parameters.items() if k in own})
    return derive(architecture=block)


@lru_cache(maxsize=256)
def _derive(record: Activation, mu, weights: str, norm: str | None) -> Theory:
    return Theory(mlp(record, mu, weights, norm))


def _resolved(block: Block) -> Block:
    """The same record with every activation looked up, so that theory and checker hold the very same ones."""
    match block:
        case Nonlinearity(a):
            return Nonlinearity(activation(a))
        case Sequential(blocks):
            return Sequential(tuple(_resolved(b) for b in blocks))
        case Residual(branch, _, shortcut):
            return replace(block, branch=_resolved(branch), shortcut=shortcut and _resolved(shortcut))
    return block
