"""What the command line writes: JSON documents, tables of 80 columns, files."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sympy as sp
import typer

from meanfield.base.answers import plain_text
from meanfield.base.answers.export import plain
from meanfield.base.answers.latex import tex
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.progress import saying as working  # noqa: F401 (what commands say while they work)
from meanfield.base.quantities import QUANTITIES
from meanfield.base.storage.files import FORMATS, save, write_whole
from meanfield.functions.activations import Activation, activation, activations
from meanfield.networks.folds import chain, skip_of
from meanfield.networks.records import FIRST, WEIGHTS, Network, Nonlinearity, Param, mlp
from meanfield.presentation.tables import APART, Table, TableRow, slopes, title
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import closed
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.theory import Theory

if TYPE_CHECKING:
    from meanfield.presentation.phase_tables import ScheduledLaw

Laws = dict[str, DepthLaw | MeanFieldError]
COLUMNS = plain_text.COLUMNS


# -------------------------------------------------------------------------------------------------------------- JSON


def document(command: str, inputs: Mapping[str, Any], results: Any) -> str:
    """The JSON text of one command: exact values are text, infinities "inf" or "-inf", what is not a number null."""
    package: Any = sys.modules["meanfield"]
    head = {"schema": 1, "meanfield": package.__version__, "command": command}
    body = {**head, "inputs": plain(inputs), "results": plain(results)}
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False)


def derivation_data(theory: Theory, laws: Laws, table: Table) -> dict[str, Any]:
    """Maps, start values, susceptibilities and large-depth laws by quantity, and the printed rows."""
    maps_ = [theory.one_input] if theory.kind else [theory.one_input, theory.two_inputs]
    both = [pair for one in maps_ for pair in zip(one.state, one.block.next)]
    between = [let for one in maps_ for let in one.block.definitions]
    return {
        "recursion": {v.name: {"step": _text(e), "closed_form": _closed_text(e), "first": v.initial} for v, e in both},
        "intermediates": {s.name: {"value": _text(e), "closed_form": _closed_text(e)} for s, e in between},
        "susceptibilities": {
            r.name: {"value": r.text(), "latex": r.latex_value()} for r in table.rows if r.section == "Susceptibilities"
        },
        "depth_laws": {q: w.data() if isinstance(w, DepthLaw) else {"message": str(w)} for q, w in laws.items()},
        "rows": table.data(),
    }


def _text(e: sp.Expr) -> str:
    return "inf" if e == sp.oo else str(e)


def _closed_text(e: sp.Expr) -> str | None:
    form = e if e == sp.oo else closed(e)
    return None if form.atoms(Average) else _text(form)


def about(theory: Theory) -> dict[str, Any]:
    """The inputs that name a theory."""
    record, block = theory.activations[0], theory.block
    skip = skip_of(block)
    mu = 0 if skip is None else skip.mu
    norm, whole = _norm(block if skip is None else skip.branch), Network(block, theory.first)
    plain = theory.first == FIRST and block in [mlp(record, mu, weights, norm) for weights in WEIGHTS]
    return {
        "activation": record.name,
        "formula": str(record.expression),
        "parameters": dict(record.parameters),
        "mu": mu.name if isinstance(mu, Param) else str(mu),
        "norm": norm,
        **({} if plain else {"architecture": repr(whole)}),
    }


def _norm(branch: Any) -> str:
    """Where a plain branch has its LayerNorm, as `derive` calls it."""
    held = chain(branch)
    norms = [i for i, one in enumerate(held) if one.normalizes == "neurons"]
    functions = [i for i, one in enumerate(held) if isinstance(one, Nonlinearity)]
    if not norms or not functions:
        return "none"
    return "pre" if norms[0] < functions[0] else "act"


# -------------------------------------------------------------------------------------------------------------- text


def wrapped(text: str) -> str:
    """`text` in lines that fit a terminal."""
    return plain_text.wrapped(text, COLUMNS)


def unit_skip_laws(theory: Theory) -> Laws:
    """The large-depth laws of K and J that hold for every σ_w > 0 when μ = 1; a reason where one is not known."""
    laws: Laws = {}
    skip = skip_of(theory.block)
    for quantity in ("K", "J") if skip is not None and skip.mu == 1 else ():
        try:
            found = theory.depth_law(quantity)
            if isinstance(found, DepthLaw):  # no schedule: its law needs numbers for the exponents
                laws[quantity] = found
        except MeanFieldError as error:
            laws[quantity] = error
    return laws


def derivation(theory: Theory, laws: Laws) -> Table:
    """The first part of the story: maps, start values, susceptibilities and, for μ = 1, the large-depth laws."""
    recursion, rows = theory.one_input, []
    pair = None if theory.kind else theory.two_inputs.only("K_ab")
    for symbol, e in (*recursion.block.definitions, *(pair.block.definitions if pair else ())):
        rows.append(TableRow("On the way", str(symbol), shown(e), tex(symbol), nodes=_nodes(e)))
    last = ((pair.state[-1], pair.block.next[-1]),) if pair else ()
    for v, e in (*zip(recursion.state, recursion.block.next), *last):
        name = QUANTITIES[v.name].latex
        jump = "φ jumps, so ⟨φ′²⟩ is infinite at infinite width." if e == sp.oo else ""
        rows.append(
            TableRow("One layer deeper", f"{v.name}'", shown(e), name.replace(r"\ell", r"\ell+1"), jump, _nodes(e))
        )
    finite = [v for v, e in zip(recursion.state, recursion.block.next) if e != sp.oo]
    for v in finite:
        first = QUANTITIES[v.name].latex.replace(r"\ell", "1")
        rows.append(TableRow("First layer (l = 1)", f"{v.name}^1", v.initial, first))
    for name, e in slopes(theory.auxiliary if theory.kind == "batch" else recursion, theory.kind).items():
        if name != "chi_K" and len(finite) == 1:  # J is infinite, and so is its slope
            continue
        symbol = rf"\chi_{{{name[4:]}}}".replace("Delta", r"\Delta")
        remark = APART if theory.kind == "batch" and name == "chi_K" else ""
        rows.append(TableRow("Susceptibilities", name, shown(e), symbol, remark, _nodes(e)))
    for quantity, law in laws.items():
        rows += law_rows(quantity, law, "Large depth, any sigma_w > 0")
    return Table(title(theory.block, theory.kind), tuple(rows))


def maps(theory: Theory, names: tuple[str, ...], weights: str) -> Table:
    """The maps of the named quantities and of what they depend on, with their values at layer 1."""
    recursion, rows = theory.recursion(*names), []
    for symbol, e in recursion.block.definitions:
        rows.append(TableRow("On the way", str(symbol), shown(e), tex(symbol), nodes=_nodes(e)))
    for section in ("One layer deeper", "First layer (l = 1)"):
        for v, e in zip(recursion.state, recursion.block.next):
            symbol = QUANTITIES[v.name].latex if v.name in QUANTITIES else tex(v.symbol) + r"^{\ell}"
            first = section.startswith("First")
            if first:
                rows.append(TableRow(section, f"{v.name}^1", v.initial, symbol.replace(r"\ell", "1")))
            else:
                deeper = symbol.replace(r"\ell", r"\ell+1")
                rows.append(TableRow(section, f"{v.name}'", shown(e), deeper, nodes=_nodes(e)))
    law = "" if weights == "gaussian" else f", {weights} weights"
    return Table(f"Large-width theory: {describe(theory.block)}{law}", tuple(rows))


def law_rows(
    quantity: str, law: DepthLaw | ScheduledLaw | MeanFieldError, section: str, digits: bool = False
) -> list[TableRow]:
    """A large-depth law as table rows (with `digits`, also as decimals); one that is not known says why."""
    from meanfield.presentation.phase_tables import ScheduledLaw, quantity_tex

    if isinstance(law, ScheduledLaw):
        value, of = (law.growth.log, "log ") if law.growth.leading else (law.expr, "")
        rows = [TableRow(section, f"{of}{quantity}", value, quantity_tex(quantity), f"{law.regime} ({law.basin})")]
        return rows + [TableRow(section, f"{of}{quantity}, in digits", sp.N(value, 8), quantity_tex(quantity))] * digits
    symbol = QUANTITIES[quantity].latex
    name, symbol = ("log J^(1,l)", rf"\log {symbol}") if quantity == "J" else (f"{quantity}^l", symbol)
    if isinstance(law, MeanFieldError):
        return [TableRow(section, name, "not known", symbol, str(law))]
    rows = [TableRow(section, name, law.law, symbol, law.regime)]
    value = sp.Add(*[sp.N(p, 8) for p in law.law.parts()])
    if (
        digits
        and law.law.terms
        and not law.law.expr.has(sp.Float)
        and {s.name for s in value.free_symbols} <= {"l", "C"}
    ):
        rows.append(TableRow(section, f"{name}, in digits", value, symbol))
    return rows


def shown(e: sp.Expr) -> Any:
    """The closed form if every average in `e` has one, else `e` as it is."""
    if e == sp.oo:
        return "infinite"
    form = closed(e)
    return e if form.atoms(Average) else form


def _nodes(e: sp.Expr) -> sp.Expr | None:
    """What LaTeX shows where a closed form is too long."""
    return None if e == sp.oo else e


def selected(run: Any) -> list[int]:
    """Positions in a run of layers 1, 2, 3, 5, 10, 20, 50, …, the last, and the two where K leaves the doubles."""
    last, lost = int(run.l[-1]), int(run.diverged_at)
    keep = {m * 10**p for p in range(8) for m in (1, 2, 5)} | {3, last, lost - 1, lost}
    return [i for i, layer in enumerate(run.l) if layer in keep and (not lost or layer <= lost)]


def layer_table(run: Any, names: tuple[str, ...]) -> str:
    """A run in 80 columns: one line per selected layer, and another table for every four more names."""
    tables = []
    for part in (names[i : i + 4] for i in range(0, len(names), 4)):
        lines = ["  layer" + "".join(f"{n:>16}" for n in part)]
        for i in selected(run):
            cells = [_cell(getattr(run, n)[i], run.values.get(f"log_{n}", {i: None})[i]) for n in part]
            lines.append(f"{run.l[i]:>7}" + "".join(f"{c:>16}" for c in cells))
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _cell(value: float, log: float | None) -> str:
    if log is not None and abs(log) > 690 and math.isfinite(log):  # beyond the doubles, digits from the logarithm
        exponent = math.floor(log / math.log(10))
        digits = f"{math.exp(log - exponent * math.log(10)):.4f}"
        return f"1.0000e{exponent + 1:+d}" if digits == "10.0000" else f"{digits}e{exponent:+d}"
    return "-" if math.isnan(value) else f"{value:.8g}"


def columns(run: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """l, the named quantities, and the logarithms a run carries."""
    logs = [f"log_{n}" for n in names if f"log_{n}" in run.values]
    return {"l": run.l, **{n: getattr(run, n) for n in (*names, *logs)}}


def registry() -> list[dict[str, Any]]:
    """What the registered activations are, for listing."""
    return [_facts(activation(name)) for name in activations()]


def _facts(record: Activation) -> dict[str, Any]:
    return {
        "name": record.name,
        "formula": record.source,
        "parameters": dict(record.parameters),
        "parity": {1: "even", -1: "odd", None: None}[record.parity],
        "kinks": [{"z": k.location, "jump": k.jump, "slope_jump": k.slope_jump} for k in record.kinks],
        "homogeneity": record.homogeneity,
        "continuous": record.is_continuous,
    }


def registry_table(facts: list[dict[str, Any]]) -> str:
    """The registered activations in 80 columns."""
    lines = [f"{'name':<17}{'parity':<8}{'breaks':<8}{'degree':<8}formula in z"]
    for a in facts:
        marks = [f"{k['z']}" + ("!" if k["jump"] != 0 else "" if k["slope_jump"] != 0 else "*") for k in a["kinks"]]
        degree = "-" if a["homogeneity"] is None else str(a["homogeneity"])
        head = f"{a['name']:<17}{a['parity'] or '-':<8}{', '.join(marks) or '-':<8}{degree:<8}"
        values = ", ".join(f"{k} = {_short(v)}" for k, v in a["parameters"].items())
        body = textwrap.wrap(a["formula"], COLUMNS - len(head), break_on_hyphens=False) + (
            [f"  {values}"] if values else []
        )
        lines += [head + body[0], *(" " * len(head) + b for b in body[1:])]
    return "\n".join(lines)


def _short(value: sp.Expr) -> str:
    return str(value) if len(str(value)) <= 12 else f"{float(value):.6g}"


# ----------------------------------------------------------------------------------------------- files and progress


def write_run(run: Any, drawn: tuple[str, ...] | None, path: Path) -> None:
    """A run as .csv (one line per layer), .npz (arrays) or a figure of the quantities `drawn`."""
    if path.suffix.lower() in FORMATS:
        save(lambda: run.plot(drawn), path)
    else:
        run.save(path)


def emit(text: str, path: Path | None) -> None:
    """Print what a verb says, or write it where --output says."""
    if path is None:
        typer.echo(text)
        return
    write_whole(path, f"{text}\n".encode())
    typer.echo(f"Wrote {path}", err=True)


def say(sentence: str) -> None:
    """Print a refusal on stderr: whole in a pipe or a log, broken between words where it is a terminal."""
    text = f"meanfield: {sentence}"
    if sys.stderr.isatty():
        width = max(20, min(COLUMNS, shutil.get_terminal_size().columns))
        text = "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in text.split("\n"))
    typer.echo(text, err=True)
