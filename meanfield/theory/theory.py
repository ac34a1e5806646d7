"""`Theory`: what a user holds. Its verbs stand in `verbs`; what one of them needs is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sympy as sp

from meanfield.base.answers.named import Formulas
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, Undetermined, one_line
from meanfield.base.arguments import choice, record, validated, whole
from meanfield.base.arguments import names as names_of
from meanfield.base.quantities import QUANTITIES
from meanfield.base.words import absent
from meanfield.functions.activations import activation, activations
from meanfield.networks.folds import with_activations
from meanfield.symbolic.coordinates import COORDINATES, in_coordinates
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.block_recursions import one_input_averages, without_norm_angle
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.selection import selected

if TYPE_CHECKING:
    from pathlib import Path

    from meanfield.bias.initial import Bias
    from meanfield.kernels.kernel_matrices import KernelOperator, Kernels
    from meanfield.numeric.finite_width.many_inputs import Correlators
    from meanfield.numeric.phases.correlations import Correlations
    from meanfield.numeric.phases.maps.sampled_maps import MeasuredLine
    from meanfield.numeric.phases.neutrality import CorrelationLine
    from meanfield.numeric.run.depth_iteration import Run
    from meanfield.numeric.run.layer_widths import WidthSchedule
    from meanfield.numeric.tokens.token_sampling import Sampled
    from meanfield.prediction.trained import Prediction
    from meanfield.presentation.bias_diagrams import BiasDiagram
    from meanfield.presentation.phase_diagram import PhaseDiagram
    from meanfield.presentation.phase_tables import PhaseTable, ScheduledLaw
    from meanfield.presentation.tables import Table
    from meanfield.symbolic.asymptotics.depth import DepthLaw
    from meanfield.symbolic.asymptotics.schedules.projections import ProjectionLaw
    from meanfield.symbolic.correlator_laws.critical_shift import CriticalShift
    from meanfield.symbolic.criticality.critical_lines import CriticalLine
    from meanfield.symbolic.criticality.critical_points import CriticalPoint, CriticalPoints
    from meanfield.symbolic.criticality.order_chaos import OrderChaosLine
    from meanfield.symbolic.criticality.phases import Phase
    from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints
    from meanfield.symbolic.series.asymptotic_law import Law
    from meanfield.theory.verbs.flows import Flow

ORDERS = 12  # terms of an expansion


def given(**values: object) -> dict[str, object]:
    """Those of some keywords that have a value."""
    return {name: value for name, value in values.items() if value is not None}


@record
@dataclass(frozen=True)
class Theory(Maps):
    """The large-width theory of one architecture at initialization: its recursions and what follows from them.

    block: the architecture record of what is repeated; first: the input layer, whose σ's are those of all layers unless
    it has its own. Nothing numeric happens until `propagate` (or a digit) is asked for.

    >>> theory = derive("relu", residual=True)
    >>> print(theory.recursion("K", "J").doit())
    K' = K*sigma_w**2/2 + K + sigma_b**2
    J' = J*(sigma_w**2/2 + 1)
    """

    @validated
    def recursion(self, *quantities: str, lambda_w=None, lambda_b=None) -> Recursion:
        """The maps of the named quantities and of what they depend on; all of (K, J, Theta) by default.

        One input: "K", "J", "Theta", or "J0", "D0". Two inputs: "K_aa", "K_bb", "K_ab", "J_ab", "Theta_ab" and, beside
        K_aa or K_bb, "distance" = K_aa + K_bb - 2K_ab; of one norm "distance" beside "K", "J", … or alone, and in other
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
        asked = tuple(one for n in quantities for one in names_of(n, "A quantity"))
        if lambda_w is not None or lambda_b is not None:
            from meanfield.correlators.derived import correlators, rates_of

            return correlators(self.block, self.first, asked, rates_of({"lambda_w": lambda_w, "lambda_b": lambda_b}))
        found = selected(self, asked)  # refuses what does not go together
        read = [(n, e) for n, e in found.readout if n in asked and QUANTITIES[n].read]
        if read and all(n in COORDINATES for n, _ in read) and "K" in found.names and not self.kind:
            return in_coordinates(self.equal_norms, asked)
        if read:
            raise MeanFieldError(
                f"The map of {read[0][0]} is not available: it is read off, as {read[0][1]}; ask for the maps of "
                f"{', '.join(sorted(s.name for s in read[0][1].free_symbols))}, or propagate it."
            )
        return found if "norm_angle" in asked else without_norm_angle(found)

    @validated
    def correlator_map(
        self, quantity: str, inputs: Sequence[int] | None = None, *, ratio=1, lambda_w=None, lambda_b=None
    ) -> sp.Expr:
        """The next layer's value of a mean or correlator of order 1/n between any inputs, in averages over φ and in
        the means and correlators of this layer.

        quantity: "K", "Theta", "G1", "Theta1", "V", "A", "B", "D", "F", "P" … "U", or of one input "V6", "V1", "G2";
        inputs: an integer for each of its indices, equal ones for one input, in the order that docs/notation.md gives
        (0, the only input, unless given); ratio: width of the new layer by that of this one; lambda_w, lambda_b:
        learning rates as in `recursion`. K_12 stands for the covariance of inputs 1 and 2, V_1234 for V between four.
        `derivation` shows where each term comes from. Raises: MeanFieldError for networks other than a plain MLP, and
        for what does not exist for its φ.

        >>> print(sp.expand(derive("linear", weights="orthogonal").correlator_map("V", (1, 2, 3, 4)).doit()))
        V_1234*sigma_w**4
        """
        from meanfield.correlators.derived import one_map, rates_of

        rates = rates_of({"lambda_w": lambda_w, "lambda_b": lambda_b})
        return one_map(self.block, self.first, quantity, inputs, rates, ratio)

    @validated
    def derivation(self, quantity: str, inputs: Sequence[int] | None = None, *, ratio=1, latex: bool = False) -> str:
        """How the map of a mean or correlator is found, as on paper: words of this layer's weights, pairings of their
        labels, neurons that coincide, the averages of the layer before to order 1/n, the terms collected, the map.

        Arguments are those of `correlator_map`, φ is any σ here. latex: an align* of amsmath instead of text, which
        runs over pages. Raises: as there.

        >>> print(derive("tanh").derivation("K").splitlines()[-1])
        K' = C_W*<σ**2> + C_b
        """
        from meanfield.correlators.derived import steps

        found = steps(self.block, self.first, quantity, inputs, ratio, latex)
        if latex:
            return f"{{\\allowdisplaybreaks\n{found}}}"
        body, _, last = found.rpartition("\n")
        return f"{wrapped(body)}\n{wrapped('  ' + last)[2:]}"

    @validated
    def susceptibilities(self) -> Formulas:
        """chi_J = ∂J'/∂J, chi_K = ∂K'/∂K, chi_Delta = ∂chi_J/∂K, averages left as nodes (`.doit()` closes them).

        The answer is a dict of SymPy expressions with a method `at`, which takes values by name; SymPy's `subs` takes
        the symbols of `meanfield.base.symbols`, and not others of the same name.

        >>> round(float(derive("erf").susceptibilities().at(sigma_w="3/2", K=1)["chi_J"]), 12)
        1.281172578151

        Behind a `BatchNorm` K stands for K - K_ab, and J for J - J_ab, as in `fixed_points`.
        """
        return (self.limiting if self.kind == "batch" else self.one_input).susceptibilities()

    @validated
    def batch_invariant(self) -> sp.Expr:
        """J^{l,l+1} (K - K_ab)^l/(K - K_ab)^{l+1} of a network without skip behind a `BatchNorm`: a number of φ alone.

        Gains that change from layer to layer make J^{l,l+1} what one likes and scale K - K_ab with it; this product
        they do not move. It is ⟨φ′²⟩/Var φ > 1 for every φ that is not linear, so that gradients that are kept grow
        against the signal: such a network is not critical. Raises: MeanFieldError for other networks.

        >>> from meanfield import BatchNorm, Dense, Nonlinearity, Sequential
        >>> theory = derive(architecture=Sequential((BatchNorm(), Nonlinearity("relu"), Dense())))
        >>> theory.batch_invariant()
        pi/(-1 + pi)
        """
        from meanfield.theory.queries.coupled_positions import ActingPositions

        return ActingPositions(self.block, self.first, self.batch).invariant()

    @validated
    def averages(self) -> Formulas:
        """⟨φ⟩, ⟨φ²⟩, ⟨φ′²⟩ over N(0, K), as nodes; of several φ as "phi_1", "phi_1^2", …, in the order they are met.

        `.at(K=2)` puts numbers in by name, as of `susceptibilities`.

        >>> derive("tanh").averages()["phi^2"]
        <tanh(z)**2>_{K}
        """
        many = len(self.activations) > 1
        return Formulas({
            name.replace("phi", f"phi_{i}") if many else name: node
            for i, phi in enumerate(self.activations, 1)
            for name, node in one_input_averages(phi).items()
        })

    @validated
    def expansions(self, order: int = 3) -> dict[tuple[str, str], Law]:
        """("phi^2" or "phi'^2", "0" or "oo") → the law of the average as K → 0 or K → ∞.

        >>> print(derive("tanh").expansions()["phi^2", "0"].text())
        K - 2*K**2 + 17*K**3/3 + O(K**4)
        """
        from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero

        order, out = whole(order, "order", 1, ORDERS), {}
        for name, node in self.averages().items():
            if name.endswith("^2") and node != sp.oo:
                out[name, "0"] = at_zero(node, order)
                out[name, "oo"] = at_infinity(node, order)
        return out

    @validated
    def depth_law(
        self,
        quantity: str = "J",
        *,
        sigma_w: object = None,
        sigma_b: object = None,
        input_norm: object = None,
        correlation: object = None,
        order: int | None = None,
        lambda_w: object = None,
        lambda_b: object = None,
        input_ratio: object = 1,
        at: CriticalPoint | None = None,
        **parameters: object,
    ) -> DepthLaw | ScheduledLaw:
        """How K^l, J^{1,l}, and of two inputs of one norm the correlation c, γ = c/(1 - c) or the distance 2K(1 - c)
        behave as l → ∞, with their constants.

        quantity: "K", "J", "c", "gamma", "distance", "Theta" or a correlator of order 1/n (below). sigma_w, sigma_b,
        parameters (mu): numbers or text; of K and J those left out stay symbolic where the law allows. input_norm:
        |x|²/N_0, 1 unless given; correlation: the cosine of two inputs, 0 unless given. at: one of `critical_points()`
        in the place of σ_w, σ_b; K and J then start on the side from which its K* attracts.
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

        order: under a skip of strength 1 (schedules or none), for K, K[1], J, G_z, G_w[1], G_b[1] (inner Dense),
        G_w[2], G_b[2] (outer), and for the distance, gamma, c and K_ab of two inputs that come together: how many
        further terms the law gives, exact, 1 to 12, at rational and irrational exponents: those of log X that grow
        first, then those of a factor 1 + … that vanish; what is left out is stated, and fewer terms come back where no
        more are derived.
        C is what the start adds to K at its power of l, C_K that in other laws; as a factor of J or G it also holds the
        sum over the first blocks, and of two inputs it is that of their distance. G's are those of block l, over
        J^{1,L}: G_z before it, the others divided by J up to its end.

        >>> print(derive("tanh", residual=True).depth_law("J", sigma_w=1, sigma_b=0, order=2).text())
        C*l**(8/(9*pi))*exp(4*sqrt(2)*sqrt(l)/(3*sqrt(pi)))*(1 - 4*sqrt(2)*log(l)/(3*pi**(3/2)*sqrt(l)) + O(1/sqrt(l)))
        """
        from meanfield.theory.verbs.laws import depth_law as verb

        return verb(
            self,
            quantity,
            input_norm=input_norm,
            correlation=correlation,
            order=order,
            lambda_w=lambda_w,
            lambda_b=lambda_b,
            input_ratio=input_ratio,
            at=at,
            **given(sigma_w=sigma_w, sigma_b=sigma_b),
            **parameters,
        )

    @validated
    def phase_table(self, *quantities: str, **fixed) -> PhaseTable:
        """How quantities of a residual network whose variances fall as σ² l^{-β} behave as l → ∞, and where in the
        space of exponents each law holds, as a proved partition.

        quantities: "K", "K[1]" (the variance inside the branch), "J", squared gradients "G_z", "G_w", "G_b", "fisher"
        (as in `depth_law`), of two inputs of one norm "distance", "c" and "gamma" = c/(1 - c); K and J unless given.
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
        from meanfield.theory.verbs.laws import table_of_phases as verb

        return verb(self, *quantities, **fixed)

    @validated
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
        from meanfield.correlators.depth_laws import critical_shift

        return critical_shift(self.block, self.first, self.critical_points())

    @validated
    def width_schedule(
        self,
        *,
        width: int,
        depth: int,
        sigma_w=None,
        sigma_b=None,
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
        from meanfield.theory.verbs.laws import schedule_of_widths as verb

        return verb(
            self,
            width=width,
            depth=depth,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            factor=factor,
            fixed=fixed,
            multiple=multiple,
            input_norm=input_norm,
            layerwise=layerwise,
            **parameters,
        )

    @validated
    def projection_law(
        self,
        *,
        factor: object = 2,
        sigma_w: object = None,
        sigma_b: object = None,
        input_norm: object = None,
        **parameters: object,
    ) -> ProjectionLaw:
        """Where the n-th change of width by `factor` is due as n → ∞, so that squared gradients per neuron stay
        bounded: |log J^{1,l}| = n log(factor), by the law of J at large depth.

        sigma_w, sigma_b, input_norm, parameters (further σ's and β's): as in `depth_law`; factor > 1: exact, a number
        or text.

        Source: [variance_variation] Sec. 6 has tanh without decay, where l_n = n²; derived here for every law.

        >>> theory = derive("tanh", architecture="full_residual", sigma_v=1, sigma_a=1)
        >>> theory.projection_law(sigma_w=1, sigma_b=1, factor="exp(4/(3*sqrt(pi)))")
        ProjectionLaw(l_n ~ n**2, N divided by exp(4/(3*sqrt(pi))) at each)
        >>> theory.depth_law("fisher", sigma_w=1, sigma_b=1)
        ScheduledLaw(fisher ~ exp(4*sqrt(l)/(3*sqrt(pi)) + smaller order); V < 1: q → ∞)
        """
        from meanfield.theory.verbs.laws import projections as verb

        own = given(sigma_w=sigma_w, sigma_b=sigma_b)
        return verb(self, factor=factor, input_norm=input_norm, **own, **parameters)

    @validated
    def fixed_points(
        self, *, sigma_w: object = None, sigma_b: object = None, **parameters: object
    ) -> FixedPoints:
        """All fixed points K* of the map of K at given σ_w, σ_b (and μ), with χ_J, χ_K, stability and basins.

        sigma_w, sigma_b, parameters (mu): exact numbers (decimals count as written) or SymPy expressions. The answer
        carries certified digits and says whether the number of fixed points is proved (Descartes' rule) or searched.
        A float whose last bits decide between ordered and chaotic (2**0.5 with a ReLU) is "critical to rounding".

        >>> found = derive("gelu").fixed_points(sigma_w="1.7", sigma_b=0)
        >>> [(p.stability, p.phase) for p in found]
        [('stable', 'ordered'), ('unstable', 'chaotic')]
        """
        from meanfield.theory.verbs.at_a_point import fixed_points_at as verb

        return verb(self, **given(sigma_w=sigma_w, sigma_b=sigma_b), **parameters)

    @validated
    def phase(
        self, *, sigma_w: object = None, sigma_b: object = None, input_norm: object = 1, **parameters: object
    ) -> Phase:
        """The phase at one place (σ_w, σ_b): where K¹ = σ_w² Q0 + σ_b² flows, χ_J* and ξ there.

        Behind a LayerNorm on activations, whose mean and scale move with K, K* and χ_J* are those of `phase_diagram`,
        within 1e-10 and MEASURED; through a Pool whose averages nothing encloses, MEASURED with their error.

        >>> print(derive("erf").phase(sigma_w="1.3", sigma_b="0.2"))
        chaotic: chi_J* = 1.0932494106, xi = 11.21649983, K* = 0.718490023595
        """
        from meanfield.theory.verbs.at_a_point import phase_of as verb

        return verb(self, input_norm=input_norm, **given(sigma_w=sigma_w, sigma_b=sigma_b), **parameters)

    @validated
    def correlations(
        self, *, sigma_w: object = None, sigma_b: object = None, input_norm: object = 1, **parameters: object
    ) -> Correlations:
        """Every fixed point c* of the correlation of two inputs of one norm, at the K that K¹ = σ_w² Q0 + σ_b² flows
        to.

        sigma_w, sigma_b, parameters (mu): as for `fixed_points`. Each point has its slope C′(c*), its stability and
        ξ_c = 1/|log C′(c*)| in layers. Their number is proved wherever the side of 1 on which χ_J* lies is: C is convex
        on [0, 1], and c < 0 is fixed only at c = -1, where φ is odd and there are no biases. Places inside are floats
        with their error.

        >>> found = derive("step").correlations(sigma_w="1.5", sigma_b="0.1")
        >>> [(round(p.c, 9), p.stability) for p in found]
        [(1.0, 'unstable'), (0.793662469, 'stable')]
        """
        from meanfield.theory.verbs.at_a_point import correlations_of as verb

        return verb(self, input_norm=input_norm, **given(sigma_w=sigma_w, sigma_b=sigma_b), **parameters)

    @validated
    def neutrality_line(self, *, correlation: object = "1/2", **parameters: object) -> CorrelationLine:
        """Where the correlation of two inputs settles at c* = correlation, 0 ≤ c* < 1, as a curve in K: at ½ (γ = 1)
        the line between neutrality and prejudice.

        parameters: values of symbols other than sigma_w, sigma_b (mu). One Dense at the block's end, no LayerNorm.
        Raises: MeanFieldError for other blocks.

        >>> line = derive("erf").neutrality_line()
        >>> round(line.sigma_w_at("sqrt(0.1)")[0][0].value ** 2, 9)
        2.324254574
        """
        from meanfield.theory.verbs.at_a_point import neutrality_line_of as verb

        return verb(self, correlation=correlation, **parameters)

    @validated
    def bias(
        self,
        *,
        sigma_w: object = None,
        sigma_b: object = None,
        input_norm: object = 1,
        correlation: object = 0,
        **parameters: object,
    ) -> Bias:
        """The phase of the initial guessing bias: where γ = c/(1 - c), the drift of class means, and the gradients end.

        sigma_w, sigma_b, parameters (mu): as for `fixed_points`; correlation: the cosine of two inputs, 0 (orthogonal
        data) unless given. The answer names a `BiasPhase` by two order parameters (γ* and χ_J*), the limits, the law of
        γ, and gives the distribution of class fractions that belongs to γ* (`fraction`).

        Source: [bias_and_trainability] table 1.

        >>> print(derive("relu").bias(sigma_w="sqrt(1.5)", sigma_b="sqrt(0.1)").phase.value)
        ordered deep prejudice
        """
        from meanfield.theory.verbs.diagrams import initial_bias as verb

        own = given(sigma_w=sigma_w, sigma_b=sigma_b)
        return verb(self, input_norm=input_norm, correlation=correlation, **own, **parameters)

    @validated
    def critical_line(self, quantity: str = "J") -> CriticalLine | MeasuredLine | OrderChaosLine:
        """The critical line χ_J* = 1 in the (σ_w, σ_b) plane: closed, a ray, vertical, or parametric in K*.

        quantity: "J", or "K" for the line χ_K = 1 beyond which K grows without bound or finds another fixed point.
        They are two lines where φ is pooled: wide networks explode beyond the first, and networks of finite width n
        deeper than log(n/A)/log(χ_K/χ_J) beyond the second (A is measured; ten or so for pools of two). Through a Pool
        whose averages nothing encloses, points of it are found by a search, and MEASURED. Where an Attention mixes
        tokens it is the line between order and chaos of tokens, a condition on all deviations.

        >>> print(derive("relu", norm="act", mu="mu").critical_line())
        critical line: sigma_b = sigma_w/sqrt(-1 + pi)
          (K is at its fixed point from layer 2 on, so the whole line is critical)
        """
        from meanfield.theory.verbs.at_a_point import critical_line_of as verb

        return verb(self, choice(quantity, "quantity", ("J", "K")))

    @validated
    def critical_points(self) -> CriticalPoints:
        """All points with χ_J = χ_K = 1: exact where they are, else certified balls; with kind, exponents and laws.

        >>> point = derive("gelu").critical_points()[1]
        >>> point.K.value, point.zeta.value
        (3/2 + sqrt(17)/2, -8*sqrt(17) - 32)
        """
        from meanfield.theory.verbs.at_a_point import critical_points_of as verb

        return verb(self)

    @validated
    def propagate(
        self,
        *,
        sigma_w=None,
        sigma_b=None,
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
        input_dimension=None,
        **parameters,
    ) -> Run:
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
        σ_b² unless given; input_ratio: N_0/n, which orthogonal input layers feel; input_dimension: N_0, which "J0" and
        "D0" need. every_layer=False returns layer `depth` only. start: values of state variables at layer 1 in the
        place of those that follow from input_norm and correlation ({"K_aa": 1, "K_bb": 2.5, "distance": 0.7}, or one of
        "K_ab" and "c" for the distance: unequal norms; {"K": 1.6, "c": 0.1}, {"sigma_mu2": 0.1, "sigma_y2": 1.5}: of
        one norm, in any of its coordinates); Theta, Theta_ab start as inputs of the given K, K_ab have them unless they
        are given, too. Other keywords give values to symbolic parameters (mu=0.5); an array for a
        parameter of the activation (a threshold) broadcasts like the σ's and costs one derivation for each distinct
        value.

        Returns a `Run`. Raises: MeanFieldError for arguments out of range.

        >>> run = derive("erf").propagate(sigma_w=1.3, sigma_b=0.2, depth=100)
        >>> round(float(run.K[-1]), 12)
        0.718490023595
        """
        from meanfield.theory.verbs.propagating import run as verb

        return verb(
            self,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            depth=depth,
            input_norm=input_norm,
            correlation=correlation,
            quantities=quantities,
            layerwise=layerwise,
            every_layer=every_layer,
            start=start,
            lambda_w=lambda_w,
            lambda_b=lambda_b,
            input_ratio=input_ratio,
            input_dimension=input_dimension,
            **parameters,
        )

    @validated
    def flow(self, *, points: int = 16, quantities=None, sigma_w=None, sigma_b=None, input_norm=1.0, correlation=None,
             **parameters) -> Flow:
        """The state of infinitely many blocks as a function of t = l/L, where what ends the branches falls as 1/√L.

        points: places between 0 and 1. quantities, sigma_w, sigma_b, input_norm, correlation and parameters are those
        of `propagate`. J is given by its logarithm. Networks of L, 2L, 4L, … blocks are extrapolated to L → ∞, with
        an estimate of the error; `equations` holds the differential equations. Raises: MeanFieldError where a block
        changes the state by more than a multiple of 1/L.

        >>> gpt = derive("relu", architecture="gpt", heads=8, causal=False, total=1)
        >>> ones = dict.fromkeys(("sigma_e", "sigma_q", "sigma_k", "sigma_v", "sigma_o", "sigma_1", "sigma_2"), 1)
        >>> found = gpt.flow(quantities=("K", "c"), points=1, tokens=64, **ones)
        >>> print(f"{found.K[-1]:.6f} {found.c[-1]:.6f}")
        1.621952 0.176647
        """
        from meanfield.theory.verbs.flows import flow as verb

        own = {"sigma_w": sigma_w, "sigma_b": sigma_b, "input_norm": input_norm, "correlation": correlation}
        return verb(self, points=points, quantities=quantities, settings=own | parameters)

    @validated
    def sample(
        self,
        *,
        sigma_w=None,
        sigma_b=None,
        depth: int,
        tokens=None,
        draws: int = 12,
        seed: int = 0,
        input_norm=1,
        correlation=0,
        layerwise: bool = False,
        quantities=None,
        threads=None,
        read: str = "mean",
        gram=None,
        **parameters,
    ) -> Sampled:
        """K, K_ab, J and chi of networks with tokens, the matrices of every Dense(axis="tokens") and the heads of every
        Attention drawn: infinitely many channels at T tokens, with standard errors over the draws.

        A Dense on tokens shares its matrix between the channels, so that a token's K is not the same in all networks,
        however wide. Given these matrices a channel is a Gaussian vector of its T tokens: its mean, its covariance and
        the Gram matrix of tangents are pushed through the block. Exact where every Dense on tokens acts on a Gaussian
        (`answer.exact`); behind an activation a sum over tokens is taken as Gaussian: an error of order 1/T where
        tokens have nothing in common, and one that no T removes where they have (a correlation, biases before). The
        other level, without draws, is `propagate` ("averaged"). The scores of a head of an Attention are drawn from
        their law at its key_dim, its tangents averaged exactly; draws scatter as networks of so many heads do.

        tokens: T ≥ 2. draws ≥ 2; seed: of the draws, common to all σ's and depths. sigma_w, sigma_b ≥ 0: one number, or
        with layerwise=True one per layer. input_norm, correlation: |x|²/N_0 of a token, and the cosine of any two; or
        gram: (T, T), x_s·x_t/N_0 of tokens that are not alike, in place of these and of tokens.
        quantities: from K (mean over tokens), K_ab (mean over pairs), J (J^{1,l} from perturbations of every token) and
        chi (J^{l,l+1} of one block); all, or K and K_ab where an activation jumps. read: "last" for those of the last
        token alone (J: from perturbations of every token), as under a causal mask. Other keywords give numbers to
        symbols (mu=0.5).

        Returns a `Sampled`: `estimate(name, l)`, `samples`, `exact`, `error` (of averages over two tokens). Raises:
        MeanFieldError for a block with BatchNorm or Pool, or that ends in an activation; for a J that is 0.

        >>> from meanfield import Dense, Nonlinearity, Residual, Sequential, derive
        >>> mixing = Residual(Sequential((Dense(axis="tokens"),)), 1)
        >>> block = Sequential((mixing, Nonlinearity("tanh"), Dense()))
        >>> answer = derive(architecture=block).sample(sigma_w=1, sigma_b=0, depth=4, tokens=16)
        >>> answer.exact, answer.estimate("chi").mean.shape
        (True, (3,))
        """
        from meanfield.theory.verbs.sampling import run_sample as verb

        return verb(
            self,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            depth=depth,
            tokens=tokens,
            draws=draws,
            seed=seed,
            input_norm=input_norm,
            correlation=correlation,
            layerwise=layerwise,
            quantities=quantities,
            threads=threads,
            read=read,
            gram=gram,
            **parameters,
        )

    @validated
    def correlators(
        self,
        inputs=None,
        *,
        gram=None,
        depth: int,
        sigma_w=None,
        sigma_b=None,
        layerwise: bool = False,
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
        numbers, or with layerwise=True one for each layer, as of the rates. quantities: names among K, Theta, G1,
        Theta1, V, A, B, D, F, P, Q, R, S, T, U (all that exist for φ unless given: no P … U with kinks, only K, V, G1
        with jumps). lambda_w (by fan-in), lambda_b ≥ 0: learning rates, numbers, one for each layer, or formulas in l
        ("1/l"), σ_w² and σ_b² unless given. input_ratio: N_0/n, which orthogonal input layers feel. Other keywords:
        values of φ's parameters.

        Returns `Correlators`: run.V[l - 1, a, b, c, d] is n times the connected average of z_a z_b (one neuron) and
        z_c z_d (another), n → ∞; all are indexed as by `mf.measure`: A by H_ab (one neuron) and H_cd (another), B by
        H_ab and H_cd between the two, D by z_a z_b and H_cd, F by z_a, z_b and H_cd between the two, P and Q by dH_abc
        and z_d, R, S, T, U by ddI_abcd or ddII_abcd; with run.normalized("V"), run.at_width(n) and run.at(layer).

        Accuracy: averages to run.error of the root mean squares of their factors multiplied (usually 1e-10, often
        rounding alone), measured by a second rule. Terms that cancel as K → 0 keep 8 digits where φ is smooth (there
        sums are balls); of a φ with kinks they lose about -log10(K) digits. Time: about 0.2 s a layer for all of four
        inputs, 4 s of eight (kinked φ: four times that); MEANFIELD_SECONDS ends it.

        Raises: MeanFieldError for other networks than Dense(φ(z)), inputs that are zero, not finite or too many, an
        indefinite Gram matrix, quantities that do not exist for φ, and collinear inputs of a kinked φ where an average
        is infinite. Source: [orthogonal_weights] (4.16), (4.17); the others are derived here.

        >>> run = derive("tanh", weights="orthogonal").correlators(
        ...     gram=[[1, 0.5], [0.5, 1]], depth=3, sigma_w=1, sigma_b=0, quantities="V")
        >>> print(run.V[:, 0, 0, 1, 1].round(9), run.normalized("V")[2, 0, 1, 0, 1].round(9))
        [-0.5        -0.06809091 -0.02334693] -1.636767464
        """
        from meanfield.theory.verbs.propagating import run_correlators as verb

        return verb(
            self,
            inputs,
            gram=gram,
            depth=depth,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            layerwise=layerwise,
            quantities=quantities,
            lambda_w=lambda_w,
            lambda_b=lambda_b,
            input_ratio=input_ratio,
            **parameters,
        )

    @validated
    def kernel(
        self,
        X,
        Y=None,
        *,
        sigma_w=None,
        sigma_b=None,
        depth: int,
        lambda_w=None,
        lambda_b=None,
        layerwise: bool = False,
        quantities=("K", "Theta", "distance"),
        dtype="float64",
        out=None,
        threads=None,
        executor=None,
        progress=None,
        **parameters,
    ) -> Kernels:
        """The kernels of a data set at layer `depth`: K (NNGP), Theta (NTK) and the squared distance ⟨(z_a - z_b)²⟩ of
        every row of X with every row of Y.

        X: (n, N_0), Y: (m, N_0), real numbers, X itself unless given (then every matrix is exactly symmetric). Layer 1
        is the first Dense, so ten nonlinearities and a readout are depth 11. sigma_w, sigma_b ≥ 0: numbers, or with
        layerwise=True one for each layer. lambda_w, lambda_b: rates that weights (by fan-in) and biases are trained at,
        σ_w², σ_b² unless given. quantities: names among K, Theta, distance. dtype: "float64" or "float32"
        (computed in doubles). out: where the numbers go, an array or a file name for one quantity, or a mapping from
        names; a file is a .npy that is mapped, and a call that was killed goes on where it was (a journal NAME.blocks
        says which blocks are there). threads: all cores unless given; executor: any concurrent.futures.Executor in
        their place, with the same bits; progress(done, blocks) is told. Other keywords give numbers to symbols
        (mu=0.5).

        Returns `Kernels` with the arrays, a bound of their error (`error`), depth and parameters. Accuracy: error is to
        first order in what an average misses in one layer; distances keep their digits however close two inputs are,
        and are 0 of equal rows. Memory: the arrays that are not in files, and blocks of 512 × 512. Raises:
        MeanFieldError for inputs that are no finite matrices of one dimension, a Theta that is infinite, networks
        whose inputs act on each other, K beyond 1e300, and an out= that does not fit. Source: derived here.

        >>> found = derive("erf").kernel([[1.0, 0], [1, 0], [0, 2]], sigma_w=1.5, sigma_b=0.1, depth=3)
        >>> print(found.K.round(6).tolist()[2], found.distance[0, 1])
        [0.021652, 0.021652, 1.254453] 0.0
        """
        from meanfield.kernels.planning import kernel as verb

        return verb(
            self,
            X,
            Y,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            depth=depth,
            lambda_w=lambda_w,
            lambda_b=lambda_b,
            layerwise=layerwise,
            quantities=quantities,
            dtype=dtype,
            out=out,
            threads=threads,
            executor=executor,
            progress=progress,
            **parameters,
        )

    @validated
    def kernel_operator(
        self, X, Y=None, *, quantity: str = "K", sigma_w=None, sigma_b=None, depth: int, lambda_w=None,
        lambda_b=None, layerwise: bool = False, threads=None, executor=None, **parameters
    ) -> KernelOperator:
        """One kernel of a data set as a linear map, for products K @ v and diagonals of matrices that fit nowhere.

        quantity: "K", "Theta" or "distance"; other arguments as in `kernel`. Returns a `KernelOperator`, which SciPy's
        `aslinearoperator` takes; every product computes the kernel once more. Raises: as `kernel`.

        >>> K = derive("erf").kernel_operator([[1.0, 0], [0, 2]], sigma_w=1.5, sigma_b=0.1, depth=3)
        >>> print((K @ [1, 1]).round(6), K.diagonal().round(6))
        [1.120943 1.276105] [1.099291 1.254453]
        """
        from meanfield.kernels.planning import operator as verb

        return verb(
            self,
            X,
            Y,
            quantity=quantity,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            depth=depth,
            lambda_w=lambda_w,
            lambda_b=lambda_b,
            layerwise=layerwise,
            threads=threads,
            executor=executor,
            **parameters,
        )

    @validated
    def predict(
        self,
        X,
        y,
        X_test=None,
        *,
        sigma_w=None,
        sigma_b=None,
        depth: int,
        t=None,
        rate=None,
        loss: str = "mse",
        train: str = "all",
        ridge=0,
        networks=None,
        seed: int = 0,
        lambda_w=None,
        lambda_b=None,
        layerwise: bool = False,
        solver: str = "auto",
        rank=None,
        rtol=None,
        maxiter=None,
        checkpoint=None,
        threads=None,
        executor=None,
        progress=None,
        **parameters,
    ) -> Prediction:
        """Mean and covariance over networks of the outputs of wide networks that are trained on (X, y), at any time.

        The network is linearized in its weights at the start, as it is at infinite width: on the loss
        L = (1/2N) Σ_a |f(x_a) - y_a|² of N training inputs, outputs follow df/dt = -(1/N) Θ (f - y) from f_0 ~ N(0, K).

        X: (N, N_0); y: (N,) or (N, outputs), numbers; X_test: (M, N_0), further inputs. t: a time of gradient flow, or
        an array of them; with rate=, numbers of steps of gradient descent; None is the end, t = ∞. depth: the layer of
        the outputs, as in `kernel`: two nonlinearities and a readout are depth 3. train: "all" weights (with Θ, by the
        rates lambda_w, lambda_b of `kernel`), or "last", the readout (with K: the posterior of the NNGP at t = ∞).
        ridge ≥ 0 is added to the diagonal of Θ in training (weights are drawn back to their start), to that of K with
        train="last": it is then the variance of noise in y. loss: "mse"; "cross_entropy" of labels y (whole numbers,
        texts, or rows of probabilities), whose flow is integrated: from f_0 = 0, or with networks=n from n starts
        drawn by `seed`. layerwise, threads, executor, progress and other keywords: as in `kernel`.

        solver: "eigh" (eigenvalues, for any t), or for t = ∞ and square loss one solve: "cholesky" (one array of N²
        doubles), "cg" (conjugate gradients, the kernel is never stored) and "nystrom" (`rank` inputs stand for all: an
        approximation), the last two with a ridge. "auto": eigh for what only it answers and up to 1000 inputs, then
        cholesky, or cg where the array does not fit into memory. rank: rows of the preconditioner of cg (1000), or of
        nystrom (4000), drawn by `seed`; rtol: residual over targets at which cg stops (1e-8); maxiter: iterations at
        most (1000); checkpoint: a file in which cg and nystrom keep their state, so that a call that was killed goes
        on.

        Returns: a `Prediction`: mean[t, input, output], covariance[t, input, input] (the same of every output),
        training inputs first; .train and .test are its parts; .solver, .residual; .largest_rate, .times by eigh;
        .log_likelihood(). Accuracy: .error bounds the mean, whatever the solver;
        square loss equals an integration of the flow to 1e-8. Raises: MeanFieldError as `kernel`, for targets that do
        not fit, and at times that a kernel's eigenvalues below rounding matter at. Source: Lee et al. (2019), eqs.
        (10), (14)-(16).

        >>> X, y = [[1.0, 0], [0, 1], [1, 1]], [1, -1, 0]
        >>> found = derive("erf").predict(X, y, [[1, 0.5]], sigma_w=1.5, sigma_b=0.1, depth=3, t=[1, 100, float("inf")])
        >>> found.test.mean[:, 0, 0].round(6).tolist(), found.largest_rate.__round__(6)
        ([0.370312, 0.496572, 0.496572], 0.757465)
        """
        from meanfield.prediction.exact_ranks import largest_rank
        from meanfield.prediction.predict import predict as verb

        own = given(sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, lambda_w=lambda_w, lambda_b=lambda_b)
        own |= {"layerwise": layerwise} | parameters
        return verb(
            self.kernel,
            X,
            y,
            X_test,
            operator=self.kernel_operator,
            rank_of=lambda rows, name: largest_rank(self.block, self.first, rows, int(depth), own, name),
            t=t,
            rate=rate,
            loss=loss,
            train=train,
            ridge=ridge,
            networks=networks,
            seed=seed,
            solver=solver,
            rank=rank,
            rtol=rtol,
            maxiter=maxiter,
            checkpoint=checkpoint,
            threads=threads,
            executor=executor,
            progress=progress,
            **own,
        )

    @validated
    def phase_diagram(
        self,
        *,
        sigma_w=None,
        sigma_b=None,
        input_norm: float = 1.0,
        line: bool = True,
        quantity: str = "J",
        **parameters: object,
    ) -> PhaseDiagram | BiasDiagram:
        """χ_J*, ξ and the phase over a grid of (σ_w, σ_b), compiled and parallel.

        quantity: "J" (order and chaos), or "gamma" (the guessing bias): a `BiasDiagram`, with the correlation c* that
        two orthogonal inputs of one norm end at, γ* = c*/(1 - c*) and the phase of the guessing bias beside K* and
        χ_J*.

        sigma_w, sigma_b: (low, high, count), (0, 3, 300) unless given, or the values as an array or a list; a tuple of
        three rising numbers up to 10 could be either, and is refused. input_norm: Q0 = |x|²/N_0; where K has several
        attracting states it decides which one is reached. line=False leaves out the critical line and points. Other
        keywords give values to symbolic parameters (mu=0.5).

        >>> diagram = derive("erf").phase_diagram(sigma_w=[0.5, 1, 1.5, 2], sigma_b=[0, 0.5, 1], line=False)
        >>> diagram.phase.tolist()
        [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
        >>> bias = derive("relu").phase_diagram(sigma_w=[1, 2], sigma_b=[0, 0.3], line=False, quantity="gamma")
        >>> print(bias.phases[bias.phase[1, 0]], bias.c[1, 0])
        ordered deep prejudice 1.0
        """
        from meanfield.theory.verbs.diagrams import diagram as verb

        own = given(sigma_w=sigma_w, sigma_b=sigma_b) | parameters
        return verb(self, input_norm=input_norm, line=line, quantity=quantity, **own)

    @validated
    def plot(self, ax=None, **settings):
        """K^l and J^{1,l} of `propagate(**settings)` against depth, as an array of Axes (needs meanfield[plot]).

        >>> len(derive("relu").plot(sigma_w=1.5, sigma_b=0, depth=5))
        2
        """
        return self.propagate(**settings).plot(ax=ax)

    @validated
    def explore(self, page, *, sigma_w=1.5, sigma_b=0.1, **parameters) -> Path:
        """A page that computes: one HTML file in which K, log J, c and the distance of two inputs of one norm follow
        the pointer over the plane of (σ_w, σ_b).

        page: the file, .html; sigma_w, sigma_b ≥ 0: where it starts. parameters: numbers for symbols; those of the
        activation are needed, those of the architecture (mu) are 1 unless given, and a reader may move them, as the
        depth, the norm and the cosine of the inputs. The file needs no server and makes no request: a layer is written
        in JavaScript from what `propagate` compiles (`source`), with its tables. It shows K' of K and c' of c, too,
        and marks critical points. Needs Bokeh: pip install 'meanfield[explorer]'; `meanfield explore` serves the same.

        Returns: the path. Accuracy: K, log J and c within 1e-6 of `propagate` for K from 1e-12 to 1e12; where the
        tables end the curve stops, and the page says so. Raises: MeanFieldError for networks whose inputs or tokens act
        on each other, and for files that cannot be written. Source: derived here.

        >>> derive("relu").explore("relu.txt")
        Traceback (most recent call last):
            ...
        meanfield.base.errors.MeanFieldError: page must be a file that ends in .html, but 'relu.txt' was given.
        """
        from meanfield.explorer.page import explore as verb

        return verb(self, page, start=(sigma_w, sigma_b), **parameters)

    @validated
    def source(self, *quantities: str) -> str:
        """The generated Numba module that `propagate` runs for these quantities, with the form and measured error of
        each average.

        >>> "def " in derive("relu").source()
        True
        """
        from meanfield.numeric.lowering.assembly import lower

        asked = tuple(one for n in quantities for one in names_of(n, "A quantity"))
        return lower(selected(self, asked or self.default_quantities)).source

    @validated
    def table(self, order: int = 3) -> Table:
        """Maps, susceptibilities, closed forms, expansions at both ends and the large-depth law, ready to print or
        typeset.

        >>> print(*str(derive("relu").table()).splitlines()[3:7], sep=chr(10))
        Maps (one input)
          K' = K*sigma_w**2/2 + sigma_b**2
          J' = J*sigma_w**2/2
          Theta' = K*sigma_w**2/2 + Theta*sigma_w**2/2 + sigma_b**2
        """
        from meanfield.presentation.tables import theory_table

        order = whole(order, "order", 1, ORDERS)
        shown = self._with_named_constants()
        return theory_table(shown.activations, self.block, shown.one_input, shown.auxiliary, order, self.kind)

    def _with_named_constants(self) -> Theory:
        """The same with names for parameters whose decimals are too long to be read (SELU's), where one φ has some."""
        from meanfield.presentation.tables import long_parameters

        if not self.activations:
            return self
        (phi, *others) = self.activations
        named = {} if others else {k: k for k in long_parameters(phi)}
        if not named or phi.name not in activations():
            return self
        kept = {k: v for k, v in phi.parameters if k not in named}
        return replace(self, block=with_activations(self.block, lambda _: activation(phi.name, **kept, **named)))

    @validated
    def latex(
        self, order: int = 3, *, caption: str | None = None, label: str | None = None, rows: Sequence[str] | None = None
    ) -> str:
        """The table as LaTeX (amsmath, booktabs); caption, label, rows: as of `Table.latex`.

        >>> derive("relu").latex().count("tabular") > 1
        True
        """
        return self.table(order).latex(caption=caption, label=label, rows=rows)

    def _repr_latex_(self) -> str | None:
        try:
            return self.one_input._repr_latex_()
        except Undetermined:
            return None  # a notebook shows the text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if hasattr(type(self), name):  # a rule of a user's own met an attribute that is not there: which one
            return object.__getattribute__(self, name)
        verbs = [n for n in dir(type(self)) if not n.startswith("_")]
        raise AttributeError(absent("A Theory", name, [n for n in verbs if callable(getattr(type(self), n))]))

    def __repr__(self) -> str:
        return one_line("Theory", describe(self.block))

    def __str__(self) -> str:
        try:
            return f"{describe(self.block)}\n{self.one_input}"
        except Undetermined as error:
            return f"{describe(self.block)}\n({error})"
