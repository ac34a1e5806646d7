"""The core: what `derive("tanh").propagate(...)` loads in a fresh process, listed here; it loads no room.

The core is what every call pays for, and what a reader has to know before a room. A module that joins it is added to
the list; the verbs of `Theory` fetch what stands in rooms by its name, when they are called.
"""

import pytest

from tests.package.test_imports import NAMES
from tests.rooms import FACE, closure, lines, loaded

CORE = """
base: errors precision words leading symbols progress encodings quantities budgets arguments scalars
base.storage: files
base.answers: plain_text terms named arrays export results
networks: pooling records folds
functions.elementary: record certified_values models exponential power_like oscillatory
functions: elementary balls ranges growth isolation zeros derivatives piecewise regions activations signs
functions.balls: straight_line ball_functions
functions.series: ball_series taylor transseries infinity small_arguments
functions.reading: callables spellings parser
symbolic.averages: base closed_form dominant singular_ends oscillatory_half_lines enclosure nested node
symbolic.averages.nodes: equal_norms unequal_norms
symbolic.averages.expansions: powerlog mellin expansion
symbolic.series: expression_series coefficients exponents ring truncated exponential_sums asymptotic_law
symbolic: equality steps recursion coordinates
symbolic.recursions: naming coordinate coordinate_walk record_rules block_recursions first numbered gradient_recursions
numeric.quadrature: evaluation rules branches steep_points oscillatory_integrands gaussian_averages polynomial_tables
numeric.lowering.text: elementary_numeric interpreting helpers printing scheduling depth_loops block_loops lockstep
numeric.lowering.modules: storage cache module_functions generated_modules
numeric.lowering.averages: one_gaussian
numeric.lowering: formulas evaluators generation assembly
numeric.run: starts vanishing depth_iteration
theory.queries: architecture_maps given_values parameter_points selection zero_inputs
theory.verbs: propagating
theory: theory derivation deriving
"""
ROOMS = (
    "base.tex", "bias", "cli", "comparison", "correlators", "data", "empirical", "explorer", "kernels",
    "numeric.finite_width", "numeric.lowering.many_positions", "numeric.phases", "numeric.quadrature.covariances",
    "numeric.quadrature.softmax", "numeric.tokens", "parametrizations", "prediction", "presentation", "recipes",
    "symbolic.asymptotics",
    "symbolic.correlator_laws", "symbolic.criticality", "symbolic.finite_width", "symbolic.fixed_points",
    "symbolic.recursions.tokens", "training", "tuning",
)  # fmt: skip
# A first propagate of any φ needs functions and formulas (reading, zeros, signs, balls), averages with certificates,
# the series these stand on and lowering: five lines of six of these.
MOST = 25_750  # lines of the core, as loaded
# The static closure follows nested and by-name imports as well. `propagate` is a verb of `Theory`, `Theory` has every
# verb (phases, laws, kernels, corrections, predictions), and each fetches its rooms by name when it is called: so the
# closure is what all verbs of a theory need, not what one of them loads. It stays within this while `Theory` is the
# face of every verb; what measures networks, trains, tunes or reads recipes stands outside of it.
MOST_WITHIN_REACH = 72_500  # lines of the static closure
OUT_OF_REACH = ("cli", "comparison", "data", "empirical", "parametrizations", "recipes", "training", "tuning")


def listed() -> set[str]:
    """The names of `CORE`: a folder before each colon, its modules behind."""
    found, folder = set(), ""
    for word in CORE.split():
        if word.endswith(":"):
            folder = word.rstrip(":.")
        else:
            found.add(f"{folder}.{word}".lstrip("."))
    return found


def within(found: set[str], rooms: tuple[str, ...]) -> list[str]:
    """The modules among these that stand in one of the rooms."""
    return sorted(name for name in found if any(name == room or name.startswith(f"{room}.") for room in rooms))


def assert_core(found: set[str]) -> None:
    rooms = within(found, ROOMS)
    assert not rooms, f"the core loads {rooms}, which are rooms"
    assert found == listed(), f"not listed: {sorted(found - listed())}; not loaded: {sorted(listed() - found)}"
    assert sum(map(lines, found)) <= MOST


def assert_within_reach(found: set[str]) -> None:
    rooms = within(found, OUT_OF_REACH)
    assert not rooms, f"the verbs of a theory reach {rooms}"
    assert (many := sum(map(lines, found))) <= MOST_WITHIN_REACH, f"the verbs of a theory reach {many} lines"


def test_the_core_is_what_is_listed_and_loads_no_room():
    found = loaded()
    assert_core(found)
    with pytest.raises(AssertionError, match=r"the core loads .'symbolic.criticality.phases'., which are rooms"):
        assert_core(found | {"symbolic.criticality.phases"})
    with pytest.raises(AssertionError, match=r"not listed: .'theory.summaries'.; not loaded: .'base.words'."):
        assert_core((found | {"theory.summaries"}) - {"base.words"})


def test_the_static_closure_of_the_core_is_what_the_verbs_of_a_theory_need():
    found = closure(*FACE)
    assert listed() <= found, "what a first propagate loads is part of what it may load"
    assert_within_reach(found)
    with pytest.raises(AssertionError, match=r"reach .'tuning.dense_layers'."):
        assert_within_reach(found | {"tuning.dense_layers"})
    with pytest.raises(AssertionError, match=r"reach \d+ lines"):  # all of the rooms that it reaches
        assert_within_reach(NAMES - set(within(NAMES, OUT_OF_REACH)))
