"""The tower: every module of the package has a place and imports only what stands below; claims use public names."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import meanfield as mf

PACKAGE = Path(mf.__file__).parent
DERIVATIONS = PACKAGE.parent / "derivations"


def homes(stub: Path) -> dict[str, str]:
    """Public name → the module that a face loads it from, by its stub; a module that it shows is its own."""
    room = ".".join(stub.relative_to(PACKAGE).parts[:-1])
    found = {}
    for node in ast.walk(ast.parse(stub.read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert node.level == 1 and alias.asname == alias.name, f"{stub}: {ast.unparse(node)}"
                found[alias.name] = ".".join(filter(None, (room, node.module or alias.name)))
    return found


#: rooms whose `__init__` is a face: it holds nothing, and loads what its stub names when it is asked for
FACES = {".".join(p.relative_to(PACKAGE).parts[:-1]): homes(p) for p in PACKAGE.rglob("__init__.pyi")}

#: one total order, bottom first, room by room; imports inside functions and for type checkers count, too
ROOMS = """
base.tex.read base.tex.width base.tex.lines base.tex.prose base.tex.tabular
base.errors base.precision base.words base.leading base.symbols base.progress base.encodings base.quantities
base.budgets base.arguments base.scalars base.storage.files base.storage.checkpoints
base.answers.plain_text base.answers.terms base.answers.named base.answers.arrays base.answers.export
base.answers.saved base.answers.drawing base.answers.latex base.answers.results
networks.pooling networks.records networks.attention networks.folds networks.roles networks.transformers
networks.architectures
functions.elementary.record functions.elementary.certified_values functions.elementary.models
functions.elementary.exponential functions.elementary.power_like functions.elementary.oscillatory functions.elementary
functions.balls.straight_line functions.balls.ball_functions functions.balls
functions.series.ball_series functions.series.taylor functions.series.transseries functions.series.infinity
functions.series.small_arguments
functions.reading.callables functions.reading.formula functions.reading.spellings functions.reading.parser
functions.ranges functions.growth functions.isolation functions.zeros functions.derivatives functions.piecewise
functions.regions functions.activations functions.signs functions.consistency
symbolic.series.coefficients symbolic.series.exponents symbolic.series.ring symbolic.series.recurrences
symbolic.series.truncated symbolic.series.exponential_sums symbolic.series.asymptotic_law symbolic.series.difference
symbolic.series.expression_series
symbolic.averages.base symbolic.averages.closed_form symbolic.averages.dominant symbolic.averages.singular_ends
symbolic.averages.oscillatory_half_lines symbolic.averages.enclosure symbolic.averages.nested
symbolic.averages.existence symbolic.averages.node symbolic.averages.user_averages
symbolic.averages.nodes.equal_norms symbolic.averages.nodes.unequal_norms symbolic.averages.nodes.group_functions
symbolic.averages.nodes.maxima symbolic.averages.nodes.pools symbolic.averages.nodes.softmax_digits
symbolic.averages.nodes.overlap symbolic.averages.nodes.spheres symbolic.averages.nodes.shared_averages
symbolic.averages.expansions.finite_parts symbolic.averages.expansions.powerlog symbolic.averages.expansions.mellin
symbolic.averages.expansions.small_distances symbolic.averages.expansions.moments
symbolic.averages.expansions.large_variance symbolic.averages.expansions.expansion
symbolic.averages.expansions.exponentially_small
symbolic.equality symbolic.steps symbolic.recursion symbolic.parity symbolic.coordinates
symbolic.finite_width.haar.pairings symbolic.finite_width.haar.zonal symbolic.finite_width.haar.orthogonality
symbolic.finite_width.haar.weingarten symbolic.finite_width.haar.haar_moments
symbolic.finite_width.ensembles symbolic.finite_width.neuron_fields symbolic.finite_width.monomials
symbolic.finite_width.weight_averages symbolic.finite_width.layer_law symbolic.finite_width.linear_correlators
symbolic.finite_width.correlator_maps symbolic.finite_width.variance symbolic.finite_width.variance_steps
symbolic.finite_width.correlator_recursions symbolic.finite_width.first_layer symbolic.finite_width.index_maps
symbolic.recursions.naming symbolic.recursions.coordinate symbolic.recursions.coordinate_walk
symbolic.recursions.record_rules symbolic.recursions.pooling_rule symbolic.recursions.gates
symbolic.recursions.batch symbolic.recursions.attention_rule
symbolic.recursions.block_recursions symbolic.recursions.first symbolic.recursions.numbered
symbolic.recursions.gradient_recursions
symbolic.recursions.tokens.exchangeable symbolic.recursions.tokens.shares
symbolic.recursions.tokens.collapse symbolic.recursions.tokens.two_sequences
symbolic.fixed_points.certified_roots symbolic.fixed_points.exclusion symbolic.fixed_points.marginality
symbolic.fixed_points.half_line symbolic.fixed_points.double_zeros symbolic.fixed_points.variance_map
symbolic.fixed_points.products symbolic.fixed_points.all_fixed_points
symbolic.asymptotics.scaling symbolic.asymptotics.slow symbolic.asymptotics.depth symbolic.asymptotics.exponent_cells
symbolic.asymptotics.log_growth symbolic.asymptotics.comparing
symbolic.asymptotics.schedules.stationary_variance symbolic.asymptotics.schedules.balance
symbolic.asymptotics.schedules.branch symbolic.asymptotics.schedules.regimes symbolic.asymptotics.schedules.marginal
symbolic.asymptotics.schedules.residual symbolic.asymptotics.schedules.fisher
symbolic.asymptotics.schedules.projections symbolic.asymptotics.schedules.normed
symbolic.asymptotics.schedules.power_tails
symbolic.asymptotics.in_total_depth.total_scales
symbolic.asymptotics.in_total_depth.total_equations symbolic.asymptotics.in_total_depth.total_moves
symbolic.asymptotics.in_total_depth.total_marginal symbolic.asymptotics.in_total_depth.total_profile
symbolic.asymptotics.in_total_depth.total_tangents symbolic.asymptotics.in_total_depth.total_depth
symbolic.asymptotics.in_total_depth.total_fisher
symbolic.asymptotics.two_inputs.pair_laws symbolic.asymptotics.two_inputs.total_pairs
symbolic.asymptotics.tables.leaf_merging symbolic.asymptotics.tables.phase_tree
symbolic.asymptotics.tables.row_orders
symbolic.asymptotics.higher_order.leading_order symbolic.asymptotics.higher_order.corrections
symbolic.asymptotics.higher_order.series_solution
symbolic.asymptotics.higher_order.higher_order_laws symbolic.asymptotics.higher_order.higher_order_pairs
symbolic.criticality.small_bias symbolic.criticality.inner symbolic.criticality.critical_lines
symbolic.criticality.order_chaos symbolic.criticality.phases symbolic.criticality.critical_points
symbolic.criticality.rounding symbolic.criticality.chaotic_laws symbolic.criticality.correlation_laws
symbolic.correlator_laws.local_series symbolic.correlator_laws.settings
symbolic.correlator_laws.systems symbolic.correlator_laws.scale_invariant symbolic.correlator_laws.vanishing_variance
symbolic.correlator_laws.exact symbolic.correlator_laws.positive_variance symbolic.correlator_laws.smooth_class
symbolic.correlator_laws.critical_shift
numeric.quadrature.evaluation numeric.quadrature.rules numeric.quadrature.branches
numeric.quadrature.steep_points numeric.quadrature.oscillatory_integrands
numeric.quadrature.gaussian_averages numeric.quadrature.polynomial_tables numeric.quadrature.hermite
numeric.quadrature.sphere
numeric.quadrature.covariances.slopes numeric.quadrature.covariances.whitened numeric.quadrature.covariances.weak
numeric.quadrature.covariances.layer_averages numeric.quadrature.covariances.small_variance
numeric.quadrature.softmax.softmax_grids numeric.quadrature.softmax.overlaps numeric.quadrature.softmax.softmax_tables
numeric.lowering.text.elementary_numeric numeric.lowering.text.interpreting numeric.lowering.text.helpers
numeric.lowering.text.printing numeric.lowering.text.scheduling
numeric.lowering.text.depth_loops numeric.lowering.text.block_loops numeric.lowering.text.lockstep
numeric.lowering.modules.storage numeric.lowering.modules.cache numeric.lowering.modules.module_functions
numeric.lowering.modules.generated_modules
numeric.lowering.averages.planes numeric.lowering.averages.pair_check numeric.lowering.averages.panel_arrays
numeric.lowering.averages.conditional
numeric.lowering.averages.direct numeric.lowering.averages.one_gaussian numeric.lowering.averages.two_gaussians
numeric.lowering.distances.difference_quotients numeric.lowering.distances.equal_norm_distance
numeric.lowering.distances.unequal_norm_distance numeric.lowering.distances.unequal_norm_check
numeric.lowering.distances.parametric_check numeric.lowering.distances.parametric
numeric.lowering.distances.distance_functions
numeric.lowering.many_positions.lattice_averages numeric.lowering.many_positions.maximum_averages
numeric.lowering.many_positions.nested_quadrature numeric.lowering.many_positions.softmax_rows
numeric.lowering.near_zero numeric.lowering.formulas numeric.lowering.evaluators
numeric.lowering.generation numeric.lowering.assembly
numeric.tokens.token_functions numeric.tokens.expansions numeric.tokens.token_fields numeric.tokens.token_walk
numeric.tokens.channels numeric.tokens.drawn_heads numeric.tokens.token_sampling
numeric.run.starts numeric.run.vanishing numeric.run.depth_iteration numeric.run.layer_gradients numeric.run.sweeps
numeric.run.layer_widths
numeric.phases.float_roots numeric.phases.phase_grids numeric.phases.gap_source
numeric.phases.correlations numeric.phases.neutrality
numeric.phases.gap_tables numeric.phases.gaps numeric.phases.correlation_grids
numeric.phases.maps.scalar_map numeric.phases.maps.float_maps numeric.phases.maps.moving_maps
numeric.phases.maps.sampled_maps numeric.phases.maps.nested_maps numeric.phases.maps.kinds_of_maps
numeric.finite_width.skip_correlators numeric.finite_width.fluctuations numeric.finite_width.pair_corrections
numeric.finite_width.many_inputs
bias.class_numbers bias.guessing bias.class_fraction bias.initial
correlators.linear_networks correlators.derived correlators.depth_laws correlators.several_inputs
presentation.citation presentation.columns presentation.figures presentation.bias_figures presentation.tables
presentation.phase_diagram presentation.bias_diagrams presentation.phase_regions presentation.phase_orders
presentation.phase_maps presentation.phase_tables
theory.queries.coupled_positions theory.queries.architecture_maps theory.queries.stored_answers
theory.queries.given_values
theory.queries.parameter_points theory.queries.exact_points theory.queries.zero_inputs theory.queries.selection
theory.depth_limits.inputs_apart theory.depth_limits.depth_limit theory.depth_limits.coupled_limits
theory.depth_limits.token_correlations theory.depth_limits.token_limits theory.depth_limits.which_limit
theory.verbs.at_a_point theory.verbs.propagating
theory.verbs.flows theory.verbs.sampling theory.verbs.laws theory.verbs.diagrams
kernels.loops.pair_loops kernels.loops.hermite_cells kernels.loops.hermite_series kernels.loops.numpy_sums
kernels.loops.hermite_sums kernels.loops.near_sums kernels.loops.pair_averages kernels.loops.nearby kernels.loops.plans
kernels.loops.generate kernels.loops.loop_source kernels.loops.tangents
kernels.inner_products kernels.sides kernels.input_data kernels.compiled kernels.theory_at_numbers
kernels.single_pairs kernels.pairs kernels.kernel_blocks kernels.kernel_matrices kernels.planning
kernels.kernel_gradients
prediction.solvers.spectrum prediction.solvers.likelihood prediction.solvers.system prediction.solvers.solver_choice
prediction.solvers.conjugate prediction.solvers.cholesky prediction.solvers.low_rank
prediction.solvers.log_determinant prediction.solvers.regression prediction.solvers.nystrom prediction.solvers.fitted
prediction.exact_ranks prediction.targets prediction.linearized prediction.logits prediction.prediction_figures
prediction.trained prediction.predict
explorer.oscillatory_moments explorer.smoothing explorer.ratios explorer.tabled explorer.javascript explorer.model
explorer.page_content explorer.layout explorer.page
theory.theory theory.depth_scales theory.derivation theory.deriving theory.summaries theory.gaussian_processes
empirical.random.buffers empirical.random.philox empirical.random.sampler empirical.random.matrices
empirical.functions.elementary_reference empirical.functions.registry empirical.functions.smooth
empirical.functions.kinked empirical.functions.tabulated empirical.functions.jets empirical.functions.user_formulas
empirical.functions.reference_functions empirical.functions.groups
empirical.network.operations.operation_derivatives empirical.network.operations.weighted
empirical.network.operations.forward empirical.network.operations.checks empirical.network.operations.operation_walk
empirical.network.operations.operation empirical.network.operations.softmax
empirical.network.operations.attention_operation empirical.network.operations.operations
empirical.network.program empirical.network.shapes empirical.network.signals empirical.network.tangents_and_cotangents
empirical.network.cotangents empirical.network.parameter_sources empirical.network.network empirical.network.stored
empirical.observables.measured_correlators empirical.observables.chain_rule empirical.observables.differentials
empirical.observables.norms empirical.observables.classes empirical.observables.inputs empirical.observables.wanted
empirical.observables.jet_kernels empirical.observables.measurement
empirical.cuda.cooperation empirical.cuda.cuda_kernels empirical.cuda.compilation empirical.cuda.launches
empirical.cuda.device
empirical.ensemble.ensemble_blocks empirical.ensemble.parallel empirical.ensemble.one_run empirical.ensemble.scaleout
empirical.ensemble.ensemble
empirical.training.losses empirical.training.optimizers empirical.training.readout empirical.training.trained_weights
empirical.training.passes empirical.training.own_steps empirical.training.first_steps empirical.training.one_network
empirical.training.runs
empirical.shared.several_networks empirical.shared.criticality empirical.shared.shared_weights
empirical.shared.curves empirical.shared.grid empirical.shared.shared_pairs empirical.shared.line
comparison.check_report comparison.check_gradients comparison.finite_width_allowance comparison.allowances
comparison.network_settings comparison.measure comparison.checked_networks comparison.check
data.sets data.data_sources
training.estimators training.prepared training.predicted_training training.training_figures training.trained_networks
training.train training.trainability
tuning.dense_layers
tuning.recommendation.compiled_prediction tuning.recommendation.fluctuation tuning.recommendation.choices
tuning.recommendation.drawn_tokens tuning.recommendation.initializers tuning.recommendation.snippets
tuning.recommendation.answer tuning.recommendation.scatter tuning.recommendation.blockwise
tuning.recommendation.transformer_answer tuning.recommendation.token_networks tuning.recommendation.recommend
tuning.function_gains.gain_tables tuning.function_gains.gain_records tuning.function_gains.gains
tuning.network_gains.rates tuning.network_gains.backward tuning.network_gains.instance tuning.network_gains.tuned
tuning.network_gains.sweep tuning.network_gains.descent tuning.network_gains.infinite_width
tuning.network_gains.sensitivities tuning.network_gains.tune
recipes.description.matrix_laws recipes.description.described recipes.description.first_passes
recipes.description.change recipes.description.findings recipes.description.recipe_report
recipes.rows.recipe_row recipes.rows.recipe_shapes recipes.rows.language recipes.rows.open_models recipes.rows.vision
recipes.rows.schemes recipes.rows.libraries recipes.rows.catalog
recipes.one_recipe recipes.by_name
recipes.audit.keys recipes.audit.configurations recipes.audit.meanings recipes.audit.hugging_face
recipes.audit.encoders recipes.audit.olmo recipes.audit.megatron recipes.audit.nano recipes.audit.recognition
recipes.audit.audited
parametrizations.exponents.unknown_steps parametrizations.exponents.monomial parametrizations.exponents.matrix_scaling
parametrizations.exponents.power_rules parametrizations.exponents.power_matrices
parametrizations.exponents.record_positions parametrizations.exponents.power_records
parametrizations.exponents.power_table parametrizations.exponents.step_powers
parametrizations.one_parametrization parametrizations.published
parametrizations.step.step_case parametrizations.step.populations parametrizations.step.own_changes
parametrizations.step.training_stages parametrizations.step.norm_stages parametrizations.step.affine_stage
parametrizations.step.stage_rules parametrizations.step.first_step parametrizations.step.stepped_networks
parametrizations.coordinates.coordinate_rows parametrizations.coordinates.coordinate_verdicts
parametrizations.coordinates.measured_frames parametrizations.coordinates.coordinate_figures
parametrizations.coordinates.coordinate_arguments parametrizations.coordinates.coordinate_result
parametrizations.coordinates.coordinate_check parametrizations.coordinates.at_width
explorer.serving.selectable explorer.serving.worker explorer.serving.worker_queue explorer.serving.served
explorer.serving.server
cli.terminal.output cli.terminal.reading cli.terminal.critical_output cli.terminal.bias_output cli.terminal.options
cli.terminal.help
cli.commands.critical cli.commands.law cli.commands.widths cli.commands.kernel cli.commands.init
cli.commands.gain_command cli.commands.finite_networks cli.commands.recipe_commands cli.commands.coordinate_command
cli.commands.explore cli.commands.reproduce cli.commands.doctor
cli.app
__main__
"""
TOWER = ROOMS.split()
PLACE = {name: i for i, name in enumerate(TOWER)}
PUBLIC = {
    "meanfield": set(mf.__all__),
    **{f"meanfield.{room}": set(names) for room, names in FACES.items() if room},
    "meanfield.empirical": None,  # None: every name without an underscore
    "meanfield.networks.records": None,
    "meanfield.networks.folds": None,
    "meanfield.networks.architectures": None,
    "meanfield.base.storage.files": None,
    "meanfield.base.symbols": None,
    "meanfield.base.answers.results": None,
    "meanfield.theory.depth_scales": None,
    "meanfield.correlators.linear_networks": None,
    "meanfield.bias.guessing": {"variance_over_inputs"},
    "meanfield.numeric.quadrature.softmax.overlaps": {"softmax_average"},
    "meanfield.symbolic.averages.nodes.overlap": {"Overlap"},
    "meanfield.presentation.figures": None,
    "meanfield.presentation.tables": None,
    "meanfield.base.answers.latex": {"aligned", "tex"},  # what reports are written with
    "meanfield.base.tex.prose": {"escape", "prose"},
    "meanfield.base.progress": {"Progress", "watched"},
    "meanfield.base.words": {"unknown"},
    "meanfield.symbolic.asymptotics.log_growth": {"Growth"},
    "meanfield.symbolic.finite_width.neuron_fields": {"left"},
    "meanfield.symbolic.finite_width.monomials": {"quantity"},
}
BELOW_EMPIRICAL = {
    "base.answers.arrays", "base.answers.export", "base.answers.drawing", "base.storage.files", "base.words",
    "base.quantities", "base.scalars", "base.leading",
    "base.arguments", "base.storage.checkpoints", "base.budgets", "base.answers.results", "base.errors",
    "networks.pooling", "networks.records", "networks.attention",
    "networks.folds",
}  # fmt: skip


def modules() -> list[Path]:
    faces = {PACKAGE.joinpath(*filter(None, room.split("."))) / "__init__.py" for room in FACES}
    return sorted(p for p in PACKAGE.rglob("*.py") if p not in faces and (p.name != "__init__.py" or p.read_text()))


def name_of(path: Path) -> str:
    """`functions.zeros` for meanfield/functions/zeros.py; a package that holds code is known by its own name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(p) for p in modules()}


def imported(path: Path) -> set[str]:
    """Modules of the package that a file imports, at any depth (also inside functions and by tables of registries)."""
    return imported_by(path.read_text())


def tables(text: str) -> list[tuple[str, dict[str, str]]]:
    """(name of a registry, its entry's name → home) of every `.rare({...})` in a source."""
    if ".rare(" not in text:
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "rare"]
    return [(ast.unparse(c.func.value), ast.literal_eval(c.args[0])) for c in named]


def imported_by(text: str) -> set[str]:
    found = {home for _, homes in tables(text) for home in homes.values()}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "meanfield":
            base = node.module.removeprefix("meanfield").lstrip(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                found.add(inner if inner in NAMES else FACES.get(base, {}).get(alias.name, base))
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("meanfield.") for a in node.names if a.name.startswith("meanfield.")}
    return found


def assert_below(name: str, found: set[str]) -> None:
    """What `name` imports stands below it; finite networks know nothing of the theory."""
    for other in found:
        assert other in PLACE, f"{name} imports {other}, which has no place in the tower"
        assert PLACE[other] < PLACE[name], f"{name} imports {other}, which stands above it"
    if name.split(".")[0] == "empirical":
        theory = {o for o in found if o.split(".")[0] != "empirical"} - BELOW_EMPIRICAL
        assert not theory, f"{name} imports {theory}; finite networks must know nothing of the theory"
    elif any(o.split(".")[0] == "empirical" for o in found):
        assert PLACE[name] > PLACE["empirical.shared.line"], f"{name} imports finite networks"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_down(path):
    assert name_of(path) in PLACE, f"{name_of(path)} has no place in the tower"
    assert_below(name_of(path), imported(path))


def test_the_tower_is_the_package():
    """No place is left of a module that is gone, and rooms are not interleaved: a room's modules stand together."""
    assert set(TOWER) == NAMES
    own = {name for name in TOWER if any(other.startswith(f"{name}.") for other in TOWER)}  # packages that hold code
    rooms = [name if name in own else name.rpartition(".")[0] or name for name in TOWER]
    inner = [r for i, r in enumerate(rooms) if i == 0 or rooms[i - 1] != r]
    assert len(inner) == len(set(inner)), sorted(r for r in set(inner) if inner.count(r) > 1)


MOST = 12  # modules of a folder


def assert_laid_out(names: set[str]) -> None:
    """A folder holds at most a dozen modules, and no two modules have one name."""
    own = {name for name in names if any(other.startswith(f"{name}.") for other in names)}
    folders = Counter(name.rpartition(".")[0] for name in names - own)
    full = {folder: count for folder, count in folders.items() if count > MOST}
    assert not full, f"more than {MOST} modules: {full}"
    twice = [name for name, count in Counter(name.rpartition(".")[2] for name in names).items() if count > 1]
    assert not twice, f"modules of one name: {twice}"


def test_a_folder_holds_a_dozen_modules_and_a_name_stands_once():
    assert_laid_out(NAMES)
    with pytest.raises(AssertionError, match=r"modules of one name: .'records'"):
        assert_laid_out(NAMES | {"tuning.records"})
    with pytest.raises(AssertionError, match=r"more than 12 modules: .'tuning': 13"):
        assert_laid_out(NAMES | {f"tuning.planted_{i}" for i in range(12)})


#: why a class name stands twice
TWICE = {
    "Law": "public in two rooms: of an asymptotic statement and of a matrix",
    "Network": "public in two rooms: the record and one network of an ensemble",
    "MeasuredLine": "one is public, the other stands in files that were saved",
    "Report": "both stand in files that were saved",
    "Row": "both stand in files that were saved",
    "Scale": "the record is public; laws in L are being merged",
    "Solution": "the result is public; the balance is being merged",
    "DistanceRatio": "the node's name orders sums; laws in L are being merged",
}


@cache
def classes_of(text: str) -> tuple[str, ...]:
    """The classes at the top of a module's text, private ones aside."""
    found = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return tuple(name for name in found if not name.startswith("_"))


def class_homes(sources: dict[str, str]) -> dict[str, list[str]]:
    """The modules of every class that is defined at the top of one, private ones aside."""
    homes: dict[str, list[str]] = {}
    for name, text in sources.items():
        for one in classes_of(text):
            homes.setdefault(one, []).append(name)
    return homes


def assert_classes_stand_once(sources: dict[str, str]) -> None:
    """No two classes have one name, but for `TWICE`, each of which does stand twice."""
    counts = {name: len(homes) for name, homes in class_homes(sources).items() if len(homes) > 1}
    again = sorted(name for name, count in counts.items() if count > 1 + (name in TWICE))
    assert not again, f"classes of one name: {again}"
    assert set(counts) == set(TWICE), f"listed as twice, but once: {sorted(set(TWICE) - set(counts))}"


def test_a_class_name_stands_once():
    sources = {name_of(path): path.read_text() for path in modules()}
    assert_classes_stand_once(sources)
    with pytest.raises(AssertionError, match=r"classes of one name: .'RootInterval'"):
        assert_classes_stand_once(sources | {"tuning.planted": "class RootInterval: ..."})
    with pytest.raises(AssertionError, match=r"classes of one name: .'Law'"):
        assert_classes_stand_once(sources | {"tuning.planted": "class Law: ..."})
    with pytest.raises(AssertionError, match=r"listed as twice, but once: .'DistanceRatio'"):
        assert_classes_stand_once({name: t for name, t in sources.items() if not name.endswith("equal_norms")})
    assert_classes_stand_once(sources | {"tuning.planted": "class _Law: ..."})


@pytest.mark.parametrize(
    ("name", "found", "said"),
    [
        ("symbolic.averages.node", {"numeric.run.depth_iteration"}, "stands above it"),
        ("empirical.network.operations.operations", {"functions.activations"}, "must know nothing of the theory"),
        ("presentation.tables", {"theory.theory"}, "stands above it"),
        ("functions.piecewise", {"functions.signs"}, "stands above it"),
        ("theory.theory", {"empirical.shared.line"}, "stands above it"),
        ("symbolic.recursion", {"a_module_without_a_place"}, "has no place in the tower"),
    ],
)
def test_planted_violations_are_caught(name, found, said):
    with pytest.raises(AssertionError, match=said):
        assert_below(name, found)


def test_a_home_in_a_table_is_an_import():
    text = 'LOWERED.rare({"functions.piecewise.Pieces": "theory.theory"})'
    assert imported_by(text) == {"theory.theory"}
    with pytest.raises(AssertionError, match=r"evaluators imports theory.theory, which stands above"):
        assert_below("numeric.lowering.evaluators", imported_by(text))


def assert_public(path: Path, text: str) -> None:
    """A file of `derivations/` imports public names only, and touches no private attribute of what it imports."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "meanfield":
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                allowed = PUBLIC.get(node.module, set())
                fine = not alias.name.startswith("_") if allowed is None else alias.name in allowed
                assert fine or module in PUBLIC, f"{path.name} imports {module}, which is not public"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert not alias.name.startswith("meanfield.") or alias.name in PUBLIC, f"{path.name}: {alias.name}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            assert not node.attr.startswith("_") or node.attr.startswith("__"), f"{path.name} reads {ast.unparse(node)}"


@pytest.mark.parametrize("path", sorted(DERIVATIONS.rglob("*.py")), ids=lambda p: str(p.relative_to(DERIVATIONS)))
def test_derivations_use_public_names(path):
    assert_public(path, path.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "from meanfield.symbolic.recursion import closed",
        "from meanfield import _LAZY",
        "import meanfield.numeric.run.depth_iteration",
        "from meanfield.presentation import figures\nprint(figures._LOOK)",
        "from meanfield.base.symbols import _private",
    ],
)
def test_private_names_are_caught(text):
    with pytest.raises(
        AssertionError, match=r"which is not public|: meanfield.numeric.run.depth_iteration|reads figures._LOOK"
    ):
        assert_public(Path("planted.py"), text)


def test_import_is_light():
    """The package alone loads nothing, not even SymPy; `derive` neither NumPy, its friends nor the command line's."""
    heavy = "('numpy', 'numba', 'matplotlib', 'scipy', 'typer')"
    code = (
        f"import sys, meanfield; print([m for m in ('sympy', *{heavy}) if m in sys.modules]);"
        f"meanfield.derive; print([m for m in {heavy} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["[]", "[]"]


@pytest.mark.parametrize("room", FACES)
def test_every_public_name_has_a_home(room):
    """What a stub names is what its room shows; each is loaded from there; a face holds no code of its own."""
    face = importlib.import_module(f"meanfield.{room}".rstrip("."))
    assert set(FACES[room]) == set(face.__all__) == set(dir(face)) and len(FACES[room]) == len(face.__all__)
    for name, home in FACES[room].items():
        module = importlib.import_module(f"meanfield.{home}")
        assert getattr(face, name) is getattr(module, name, module)
    lines = (PACKAGE.joinpath(*filter(None, room.split("."))) / "__init__.py").read_text().split('"""')[2].split("\n")
    assert {one.split(" ")[0] for one in lines if one} <= {"import", "from", "__version__", "__getattr__,"}
    with pytest.raises(AttributeError, match="dervie"):
        _ = face.dervie


def test_the_top_holds_less_than_fifty_names():
    """The rooms that stand there aside; what they show is listed by a page each."""
    assert len([n for n in mf.__all__ if n not in FACES]) <= 49


def test_derive_and_table_stay_symbolic():
    code = (
        "import sys, meanfield as mf; str(mf.derive('tanh', residual=True).table());"
        "print([m for m in ('numpy', 'numba', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
