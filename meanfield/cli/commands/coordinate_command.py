"""The command `coordinate-check`: how much every layer moves in a training step, at several widths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.storage.files import FORMATS
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import (
    Act,
    Architecture,
    Json,
    Latex,
    Mu,
    Norm,
    Output,
    OutputForm,
    Param,
    Skip,
    chosen,
    target,
)
from meanfield.cli.terminal.reading import double, needs_numbers, theory_of


def _numbers(text: str, option: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise MeanFieldError(f"{option} takes whole numbers with commas between them, but {text!r} was given.")
    return found


def coordinate_check(
    act: Act,
    scheme: Annotated[
        str,
        typer.Option(
            "--parametrization", metavar="NAME",
            help="sp, ntk, mean_field, mup, spectral, depth_mup, completep or u_mup.",
        ),
    ] = "mup",
    optimizer: Annotated[str, typer.Option(metavar="NAME", help="adam, sgd or muon.")] = "adam",
    widths: Annotated[str, typer.Option(metavar="N,N,...", help="Widths, with commas.")] = "64,128,256,512,1024",
    depth: Annotated[str, typer.Option(metavar="L,...", help="Layer of the output; several with commas.")] = "4",
    rate: Annotated[
        str | None, typer.Option(metavar="ETA", show_default=False, help="Learning rate at the base; else chosen.")
    ] = None,
    eps: Annotated[str, typer.Option(metavar="E", help="Adam's epsilon at the base.")] = "0",
    networks: Annotated[int, typer.Option(metavar="M", help="Networks of each width; 0: theory alone.")] = 8,
    inputs: Annotated[int, typer.Option(metavar="B", help="Inputs of the batch.")] = 1,
    steps: Annotated[int, typer.Option(metavar="T", help="Steps; more than one are measured alone.")] = 1,
    sigma_w: Annotated[
        str | None, typer.Option(metavar="S", show_default=False, help="σ_w at the base; 1 unless given.")
    ] = None,
    sigma_b: Annotated[
        str | None, typer.Option(metavar="S", show_default=False, help="σ_b at the base; 0 unless given.")
    ] = None,
    biases: Annotated[bool, typer.Option("--biases", help="Train biases, too.")] = False,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="CSV", show_default=False, help="Your own numbers: width, layer, column, value."),
    ] = None,
    powers: Annotated[bool, typer.Option("--powers", help="Print the exact powers of n and L alone.")] = False,
    seed: Annotated[int, typer.Option(metavar="S", help="Of inputs and networks.")] = 0,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:  # fmt: skip
    """Whether each layer's change in a training step follows its line in width.

    The line is that of infinite width, for any learning rate; its own change and
    the whole change of every layer, and of the output. Prints lines, what networks
    (or your own numbers) are beside them, and which lines are not flat. -o writes a
    picture (.png, .pdf, .svg), .json, .tex or .txt. Exit code 1 where networks are
    beside the line.
    """
    from meanfield.parametrizations.coordinates.coordinate_check import coordinate_check as checked
    from meanfield.parametrizations.published import parametrization

    drawing = output is not None and output.suffix.lower() in FORMATS
    form: OutputForm = OutputForm(json, latex, target(output, ())) if drawing else chosen(json, output, latex)
    theory = theory_of(act, residual, mu, param, norm, architecture)
    needs_numbers(theory)
    own = parametrization(scheme, optimizer=optimizer)
    if powers:
        found: Any = own.powers(theory)
        _answer(found, form, drawing, {"activation": act, "parametrization": scheme, "optimizer": optimizer})
        return
    settings: dict[str, Any] = {
        "widths": _numbers(widths, "--widths"), "depths": _numbers(depth, "--depth"), "eps": double(eps, "--eps"),
        "networks": networks if compare is None or networks else 0, "inputs": inputs, "steps": steps, "seed": seed,
        "biases": biases, "rate": None if rate is None else double(rate, "--rate"),
        "sigma_w": None if sigma_w is None else double(sigma_w, "--sigma-w"),
        "sigma_b": None if sigma_b is None else double(sigma_b, "--sigma-b"),
    }  # fmt: skip
    with out.working("Taking the step"):
        found = checked(theory, own, **settings)
        if compare is not None:
            found = found.compare(compare)
    _answer(found, form, drawing, {"activation": act, "parametrization": scheme, "optimizer": optimizer, **settings})
    if not found.passed:
        raise typer.Exit(1)


def _answer(found: Any, form: OutputForm, drawing: bool, inputs: dict[str, Any]) -> None:
    if drawing:
        found.save(form.path)
        out.emit(str(found), None)
        return
    if form.json:
        text = out.document("coordinate-check", inputs, found.data() | {"latex": found.latex()})
    else:
        text = found.latex() if form.latex else str(found)
    out.emit(text, form.path)
