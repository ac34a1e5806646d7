"""The tower: every module of the package has a place and imports only what stands below; claims use public names."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
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
base.errors base.words base.leading base.symbols base.printed base.progress base.carries base.quantities base.terms
base.limits
base.arguments base.named
base.files base.checkpoints base.arrays base.export base.saved base.drawing
base.latex base.results base.scalars
networks.pooling networks.records networks.attention networks.folds networks.roles networks.transformers
networks.architectures
functions.heads.record functions.heads.values functions.heads.models functions.heads.exponential
functions.heads.powers functions.heads.waves functions.heads
functions.balls.straight_line functions.balls.functions functions.balls
functions.series.ball_series functions.series.taylor functions.series.transseries functions.series.infinity
functions.series.small_arguments
functions.callables
functions.formula functions.spellings functions.parser functions.ranges functions.growth functions.isolation
functions.zeros functions.derivatives
functions.piecewise functions.regions functions.activations functions.signs functions.consistency
symbolic.averages.base symbolic.averages.closed_form symbolic.averages.dominant symbolic.averages.singular_ends
symbolic.averages.half_waves symbolic.averages.enclosure
symbolic.averages.finite_parts symbolic.averages.powerlog
symbolic.averages.mellin symbolic.averages.nested symbolic.averages.existence symbolic.averages.node
symbolic.averages.asked
symbolic.averages.stretch
symbolic.averages.chord symbolic.averages.groups symbolic.averages.largest symbolic.averages.pools
symbolic.averages.softmax_digits symbolic.averages.overlap
symbolic.averages.closeness symbolic.averages.sphere symbolic.averages.common
symbolic.averages.moments symbolic.averages.expansion
symbolic.equality symbolic.steps symbolic.recursion symbolic.parity symbolic.coordinates
symbolic.finite_width.pairings symbolic.finite_width.zonal symbolic.finite_width.orthogonality
symbolic.finite_width.weingarten symbolic.finite_width.moments symbolic.finite_width.ensembles
symbolic.finite_width.fields symbolic.finite_width.words symbolic.finite_width.neuron_sums
symbolic.finite_width.layer_law symbolic.finite_width.linear symbolic.finite_width.correlators
symbolic.finite_width.variance symbolic.finite_width.variance_steps symbolic.finite_width.recursions
symbolic.finite_width.first_layer symbolic.finite_width.index_maps
symbolic.blocks.naming symbolic.blocks.coordinate symbolic.blocks.walk symbolic.blocks.rules symbolic.blocks.pooling
symbolic.blocks.gates symbolic.blocks.recursions symbolic.blocks.first symbolic.blocks.numbered
symbolic.blocks.gradients
symbolic.blocks.batch symbolic.blocks.attention symbolic.blocks.exchangeable
symbolic.blocks.shares symbolic.blocks.collapse symbolic.blocks.across
symbolic.fixed_points.roots symbolic.fixed_points.exclusion symbolic.fixed_points.near_one
symbolic.fixed_points.half_line symbolic.fixed_points.touching symbolic.fixed_points.maps symbolic.fixed_points.products
symbolic.fixed_points.points
symbolic.asymptotics.scaling symbolic.asymptotics.slow symbolic.asymptotics.depth
symbolic.asymptotics.cells symbolic.asymptotics.growth
symbolic.asymptotics.comparing symbolic.asymptotics.resting symbolic.asymptotics.balance symbolic.asymptotics.branch
symbolic.asymptotics.ways symbolic.asymptotics.marginal symbolic.asymptotics.residual
symbolic.asymptotics.fisher symbolic.asymptotics.projections
symbolic.asymptotics.normed symbolic.asymptotics.total_scales symbolic.asymptotics.interior
symbolic.asymptotics.total_equations symbolic.asymptotics.total_moves symbolic.asymptotics.total_marginal
symbolic.asymptotics.total_profile symbolic.asymptotics.total_tangents symbolic.asymptotics.total_depth
symbolic.asymptotics.total_fisher
symbolic.asymptotics.tails symbolic.asymptotics.pair_laws symbolic.asymptotics.total_pairs
symbolic.asymptotics.phase_tree symbolic.asymptotics.orders
symbolic.asymptotics.coefficients symbolic.asymptotics.exponents symbolic.asymptotics.logseries
symbolic.asymptotics.leading
symbolic.asymptotics.corrections symbolic.asymptotics.found symbolic.asymptotics.further
symbolic.asymptotics.further_pairs
symbolic.criticality.small_bias symbolic.criticality.inner symbolic.criticality.lines symbolic.criticality.order_chaos
symbolic.criticality.phases
symbolic.criticality.points
symbolic.criticality.rounding symbolic.criticality.settling symbolic.criticality.closing
symbolic.correlator_laws.difference symbolic.correlator_laws.local_series symbolic.correlator_laws.settings
symbolic.correlator_laws.systems symbolic.correlator_laws.scale_invariant symbolic.correlator_laws.places
symbolic.correlator_laws.exact symbolic.correlator_laws.points symbolic.correlator_laws.smooth_class
symbolic.correlator_laws.critical_shift
numeric.quadrature.evaluation numeric.quadrature.rules numeric.quadrature.branches numeric.quadrature.waves
numeric.quadrature.tables numeric.quadrature.hermite numeric.quadrature.slopes numeric.quadrature.whitened
numeric.quadrature.weak numeric.quadrature.averages numeric.quadrature.sphere numeric.quadrature.small
numeric.quadrature.softmax_grids numeric.quadrature.softmax numeric.quadrature.softmax_tables
numeric.lowering.storage
numeric.lowering.cache numeric.lowering.elementary numeric.lowering.helpers
numeric.lowering.pair_check numeric.lowering.printing numeric.lowering.planes
numeric.lowering.conditional numeric.lowering.direct numeric.lowering.functions
numeric.lowering.groups numeric.lowering.largest
numeric.lowering.common numeric.lowering.softmax
numeric.lowering.loops numeric.lowering.stages numeric.lowering.lockstep numeric.lowering.modules
numeric.lowering.scalar numeric.lowering.pairs
numeric.lowering.stretches numeric.lowering.parametric_check numeric.lowering.parametric numeric.lowering.chords
numeric.lowering.chord_check numeric.lowering.near_zero numeric.lowering.formulas numeric.lowering.distances
numeric.lowering.evaluators numeric.lowering.generation numeric.lowering.assembly
numeric.tokens.functions numeric.tokens.expansions numeric.tokens.fields numeric.tokens.walk numeric.tokens.channels
numeric.tokens.attention numeric.tokens.sampling
numeric.roots numeric.phase numeric.places numeric.starts numeric.vanishing numeric.solvers numeric.gradients
numeric.memory
numeric.fluctuations
numeric.pair_corrections numeric.gap_source numeric.correlations numeric.neutrality numeric.sampled numeric.sweeps
numeric.widths
numeric.many_inputs
numeric.nested numeric.fractions numeric.gap_tables numeric.gaps numeric.settling
bias.guessing bias.class_fraction bias.initial
correlators.linear_networks correlators.derived correlators.depth_laws correlators.several_inputs
presentation.citation
presentation.columns presentation.figures presentation.bias_figures presentation.tables
presentation.diagrams presentation.bias_diagrams
presentation.phase_regions presentation.phase_orders presentation.phase_maps presentation.phase_tables
theory.verbs.positions theory.verbs.maps theory.verbs.kept theory.verbs.values theory.verbs.selection
theory.verbs.attending theory.verbs.token_correlations theory.verbs.places
theory.verbs.running theory.verbs.flows theory.verbs.sampling theory.verbs.laws theory.verbs.diagrams
kernels.rows kernels.loops kernels.cells kernels.sides kernels.data
kernels.series kernels.plain kernels.sums kernels.near_sums kernels.nearby kernels.plans kernels.generate
kernels.sources kernels.tangents
kernels.compiled kernels.networks kernels.pairs kernels.blocks kernels.matrices
kernels.planning kernels.gradients
prediction.targets prediction.spectrum prediction.likelihood prediction.linearized prediction.logits
prediction.prediction_figures prediction.system prediction.solvers prediction.conjugate prediction.cholesky
prediction.low_rank prediction.log_determinant prediction.regression prediction.nystrom prediction.ended
prediction.trained prediction.predict
explorer.waving explorer.smoothing explorer.ratios explorer.tabled explorer.javascript explorer.model
explorer.followed explorer.layout explorer.page
theory.theory theory.depth_scales theory.derivation theory.deriving theory.summaries theory.gaussian_processes
empirical.random.buffers empirical.random.philox empirical.random.sampler empirical.random.matrices
empirical.functions.elementary empirical.functions.registry empirical.functions.smooth empirical.functions.kinked
empirical.functions.tabulated
empirical.functions.jets empirical.functions.formulas empirical.functions.twins empirical.functions.groups
empirical.network.derivatives empirical.network.weighted empirical.network.forward empirical.network.checks
empirical.network.walk empirical.network.operation empirical.network.softmax empirical.network.attention
empirical.network.operations
empirical.network.program empirical.network.shapes
empirical.network.values empirical.network.carried empirical.network.cotangents empirical.network.weights
empirical.network.network empirical.network.stored
empirical.observables.correlators empirical.observables.mixed empirical.observables.differentials
empirical.observables.norms empirical.observables.classes
empirical.observables.inputs empirical.observables.wanted empirical.observables.jets
empirical.observables.measurement
empirical.cuda.cooperation empirical.cuda.kernels empirical.cuda.compilation empirical.cuda.launches
empirical.cuda.device
empirical.ensemble.blocks empirical.ensemble.parallel empirical.ensemble.running empirical.ensemble.scaleout
empirical.ensemble.ensemble
empirical.training.losses empirical.training.optimizers empirical.training.readout empirical.training.trained_weights
empirical.training.passes empirical.training.own_steps empirical.training.first_steps
empirical.training.one_network empirical.training.runs
empirical.shared.criticality empirical.shared.weights empirical.shared.curves
empirical.shared.grid empirical.shared.pairs empirical.shared.line
comparison.report comparison.gradients comparison.corrections comparison.allowances comparison.check
data.sets data.sources
training.estimators training.prepared training.beside training.training_figures training.trained_networks training.train
training.trainability
tuning.records tuning.prediction tuning.fluctuation tuning.choices tuning.sampled tuning.initializers
tuning.snippets tuning.answer tuning.scatter tuning.blockwise tuning.transformer_answer
tuning.transformers tuning.recommend tuning.gain_tables tuning.gain_records
tuning.gains
tuning.rates tuning.backward tuning.instance tuning.tuned tuning.sweep tuning.descent tuning.wide tuning.sensitivities
tuning.tune
recipes.laws recipes.described recipes.followed recipes.change recipes.findings recipes.report recipes.rows
recipes.shapes recipes.language recipes.open_models recipes.vision recipes.schemes recipes.libraries
recipes.catalog recipes.one_recipe recipes.named
recipes.audit.keys recipes.audit.sources recipes.audit.meanings recipes.audit.hugging_face recipes.audit.encoders
recipes.audit.olmo recipes.audit.megatron recipes.audit.small recipes.audit.recognition recipes.audit.audited
parametrizations.exponents.unknown_steps parametrizations.exponents.monomial parametrizations.exponents.scaling
parametrizations.exponents.power_rules parametrizations.exponents.power_matrices parametrizations.exponents.power_places
parametrizations.exponents.power_records parametrizations.exponents.power_table parametrizations.exponents.powers
parametrizations.one_parametrization parametrizations.published parametrizations.step.step_case
parametrizations.step.populations parametrizations.step.own_changes parametrizations.step.stages
parametrizations.step.norm_stages parametrizations.step.affine_stage parametrizations.step.stage_rules
parametrizations.step.first_step parametrizations.step.stepped_networks parametrizations.coordinates.coordinate_rows
parametrizations.coordinates.coordinate_verdicts parametrizations.coordinates.measured_frames
parametrizations.coordinates.coordinate_figures parametrizations.coordinates.coordinate_arguments
parametrizations.coordinates.coordinate_result parametrizations.coordinates.coordinate_check
parametrizations.coordinates.at_width
explorer.serving.selectable explorer.serving.worker explorer.serving.asking explorer.serving.served
explorer.serving.server
cli.output cli.reading cli.critical_output cli.bias_output cli.options cli.help cli.critical cli.laws cli.widths
cli.kernels cli.init cli.gains cli.networks cli.recipes cli.coordinates cli.explore cli.reproduce cli.doctor
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
    "meanfield.base.files": None,
    "meanfield.base.symbols": None,
    "meanfield.base.results": None,
    "meanfield.theory.depth_scales": None,
    "meanfield.correlators.linear_networks": None,
    "meanfield.bias.guessing": {"variance_over_inputs"},
    "meanfield.numeric.quadrature.softmax": {"softmax_average"},
    "meanfield.symbolic.averages.overlap": {"Overlap"},
    "meanfield.presentation.figures": None,
    "meanfield.presentation.tables": None,
    "meanfield.base.latex": {"aligned", "tex"},  # what reports are written with
    "meanfield.base.tex.prose": {"escape", "prose"},
    "meanfield.base.progress": {"Progress", "watched"},
    "meanfield.base.words": {"unknown"},
    "meanfield.symbolic.asymptotics.growth": {"Growth"},
    "meanfield.symbolic.finite_width.fields": {"left"},
    "meanfield.symbolic.finite_width.words": {"quantity"},
}
BELOW_EMPIRICAL = {
    "base.arrays", "base.export", "base.drawing", "base.files", "base.words", "base.quantities", "base.scalars",
    "base.arguments", "base.checkpoints", "base.limits", "base.results", "base.errors",
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
    """Modules of the package that a file imports, at any depth (also inside functions)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
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


@pytest.mark.parametrize(
    ("name", "found", "said"),
    [
        ("symbolic.averages.node", {"numeric.solvers"}, "stands above it"),
        ("empirical.network.operations", {"functions.activations"}, "must know nothing of the theory"),
        ("presentation.tables", {"theory.theory"}, "stands above it"),
        ("functions.piecewise", {"functions.signs"}, "stands above it"),
        ("theory.theory", {"empirical.shared.line"}, "stands above it"),
        ("symbolic.recursion", {"a_module_without_a_place"}, "has no place in the tower"),
    ],
)
def test_planted_violations_are_caught(name, found, said):
    with pytest.raises(AssertionError, match=said):
        assert_below(name, found)


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
        "import meanfield.numeric.solvers",
        "from meanfield.presentation import figures\nprint(figures._LOOK)",
        "from meanfield.base.symbols import _private",
    ],
)
def test_private_names_are_caught(text):
    with pytest.raises(AssertionError, match=r"which is not public|: meanfield.numeric.solvers|reads figures._LOOK"):
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
