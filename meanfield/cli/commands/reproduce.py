"""The command `reproduce`: reports of what the papers state, each statement derived anew and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import Json


def reproduce(
    papers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAPER]...", show_default=False,
            help="partial_jacobians, autoinit, variance_variation, bias_and_trainability, orthogonal_weights; all "
            "five unless named.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="A folder: new, empty, or of an earlier report.")
    ] = Path("reports"),
    quick: Annotated[bool, typer.Option("--quick", help="Leave out, and list, what takes over ten seconds.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Figures with networks of the papers' sizes (hours).")] = False,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", show_default=False, help="Processes; as many as there are cores.")
    ] = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Reproduce papers: claims, numbers and figures, as a page and a LaTeX file.

    Each statement of the papers that the engine can decide is derived anew and
    compared; each number stands beside a planted error, each figure's networks
    beside the theory's line. What is done is kept in the folder: a run that was
    ended goes on from there, and only what has changed is computed again. Exit
    code 1 where something is not as expected.
    """
    try:
        from derivations.reports.reproducing import reproduce as reproduced
    except ImportError as error:
        if error.name is None or not error.name.startswith("derivations"):
            raise
        raise MeanFieldError(
            "reproduce needs the package `derivations`, which is installed with meanfield and is not here; install "
            "meanfield again."
        ) from None
    found = reproduced(papers or (), output, quick=quick, full=full, jobs=jobs)
    if json:
        inputs = {"papers": papers or [], "output": str(output), "quick": quick, "full": full}
        out.emit(out.document("reproduce", inputs, found.data()), None)
    else:
        out.emit(str(found), None)
    if not found.passed:
        raise typer.Exit(1)
