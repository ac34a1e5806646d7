"""The commands about criticality: `critical` (line, points, fixed points) and `phase-diagram`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import sympy as sp
import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.storage.files import FORMATS
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.bias_output import bias_map, bias_summary
from meanfield.cli.terminal.critical_output import (
    fixed_rows,
    line_rows,
    phase_data,
    phase_map,
    phase_rows,
    point_rows,
    summary,
)
from meanfield.cli.terminal.options import (
    Act,
    Architecture,
    Batch,
    InputNorm,
    Json,
    Latex,
    Mu,
    Norm,
    Output,
    Param,
    Skip,
    chosen,
    option,
    target,
)
from meanfield.cli.terminal.reading import axis, double, needs_numbers, number, theory_of
from meanfield.networks.folds import skip_of
from meanfield.networks.records import Param as Symbolic
from meanfield.presentation.tables import Table
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.theory import Theory
from meanfield.theory.verbs.at_a_point import points_with_laws


def critical(
    act: Act,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    batch: Batch = None,
    sigma_w: Annotated[str | None, typer.Option(metavar="S", help="σ_w, exact: 1.5, 3/2, sqrt(2).")] = None,
    sigma_b: Annotated[str | None, typer.Option(metavar="S", help="σ_b, exact. With --sigma-w.")] = None,
    input_norm: Annotated[
        str | None, typer.Option(metavar="Q0", help="Input norm Q0 = |x|²/N_0 of the phase there; 1 unless given.")
    ] = None,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """The critical line χ_J* = 1 and all critical points χ_J = χ_K = 1, certified.

    Prints each point's kind, exponents and large-depth laws, and whether there
    can be others. With --sigma-w and --sigma-b also every fixed point K* there
    and the phase that K^1 flows to.
    """
    form = chosen(json, output, latex)
    theory = theory_of(act, residual, mu, param, norm, architecture, batch=batch)
    point, start = _point(theory, sigma_w, sigma_b, input_norm)
    if free := [s.name for phi in theory.activations for s in phi.free_parameters]:
        name = min(free)
        raise MeanFieldError(f"The parameter {name} must be a number here; give it as --param {name}=...")
    fixed, phase = None, None
    with out.working(f"Criticality of {describe(theory.block)}"):
        line = theory.critical_line()
        points = points_with_laws(theory) if line.has_points else None
        if point:
            fixed = theory.fixed_points(**point)
            phase = _phase(theory, point, start)
    rows = [*line_rows(line), *(point_rows(points) if points is not None else ())]
    if fixed is not None:
        at = ", ".join(f"{k} = {v}" for k, v in point.items())
        rows += [*fixed_rows(fixed, at), *phase_rows(phase, at, start)]
    table = Table(f"Criticality: {describe(theory.block)}", tuple(rows))
    if form.json:
        inputs = {**out.about(theory), **point, **({"input_norm": start} if point else {})}
        results = {
            "line": line,
            **(points.data() if points is not None else {}),
            "fixed_points": fixed,
            "phase": None if phase is None else phase_data(phase),
            "rows": table.data(),
        }
        text = out.document("critical", inputs, results)
    else:
        text = table.latex() if form.latex else out.wrapped(str(table))
    out.emit(text, form.path)


def phase_diagram(
    act: Act,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    batch: Batch = None,
    sigma_w: Annotated[str, typer.Option(metavar="LO,HI,N", help="N values of σ_w from LO to HI.")] = "0,3,300",
    sigma_b: Annotated[str, typer.Option(metavar="LO,HI,N", help="N values of σ_b from LO to HI.")] = "0,3,300",
    input_norm: InputNorm = "1",
    quantity: Annotated[
        str, typer.Option(metavar="J|gamma", help="gamma: phases of the guessing bias, with c* and γ*.")
    ] = "J",
    json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the diagram: .png, .pdf, .svg, .npz or .csv."),
    ] = None,
) -> None:
    """The phase at every point of a (σ_w, σ_b) grid, in compiled float64.

    Prints the share of each phase and a map in characters; the arrays (K*, χ_J*,
    ξ, phase, number of attracting states; c*, γ* of --quantity gamma) or a figure
    go to a file.
    """
    path = target(output, (".npz", ".csv", *FORMATS))
    theory = theory_of(act, residual, mu, param, norm, architecture, batch=batch)
    needs_numbers(theory)
    import numpy as np  # SymPy alone is loaded above

    ends = {"sigma_w": axis(sigma_w, "--sigma-w"), "sigma_b": axis(sigma_b, "--sigma-b")}
    axes: dict[str, Any] = {name: np.linspace(*one) for name, one in ends.items()}
    start = double(input_norm, "--input-norm")
    with out.working("Compiling the phase diagram"):
        diagram = theory.phase_diagram(**axes, input_norm=start, quantity=quantity)
    if path is not None:
        diagram.save(path)
        typer.echo(f"Wrote {path}", err=True)
    if json:
        inputs = {**out.about(theory), "input_norm": start} | ({"quantity": quantity} if quantity != "J" else {})
        results = summary(diagram) if quantity == "J" else bias_summary(diagram)
        typer.echo(out.document("phase-diagram", inputs, results))
    else:
        drawn = phase_map if quantity == "J" else bias_map
        typer.echo(out.wrapped(str(diagram)) + ("" if path is not None else f"\n\n{drawn(diagram)}"))


def _point(
    theory: Theory, sigma_w: str | None, sigma_b: str | None, norm: str | None
) -> tuple[dict[str, Any], sp.Expr]:
    """({sigma_w, sigma_b}, Q0), exact; the first is empty where none was asked for."""
    given = {"sigma_w": sigma_w, "sigma_b": sigma_b}
    missing = [option(k) for k, v in given.items() if v is None]
    if len(missing) == 2:
        if norm is not None:
            raise MeanFieldError(
                "--input-norm was given without --sigma-w and --sigma-b; it belongs to the phase there."
            )
        return {}, sp.S.One
    if missing:
        raise MeanFieldError(f"Fixed points at one place need both --sigma-w and --sigma-b; {missing[0]} is missing.")
    skip = skip_of(theory.block)
    if skip is not None and isinstance(skip.mu, Symbolic):
        raise MeanFieldError(
            f"Fixed points need a number for --mu, but the name {skip.mu.name!r} was given; leave out "
            "--sigma-w and --sigma-b to keep it symbolic."
        )
    point = {k: number(str(v), option(k)) for k, v in given.items()}
    start = number(norm or "1", "--input-norm")
    for name, value in [*point.items(), ("input_norm", start)]:
        if value < 0:
            raise MeanFieldError(f"{option(name)} must be ≥ 0, but {value} was given.")
    return point, start


def _phase(theory: Theory, point: dict[str, Any], start: sp.Expr) -> Phase | str:
    """The phase there, or why it is not decided (K¹ within the error of an unstable fixed point)."""
    try:
        return theory.phase(input_norm=start, **point)
    except MeanFieldError as error:
        return str(error)
