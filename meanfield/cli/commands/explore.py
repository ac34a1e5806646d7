"""The command `explore`: a page that computes, served on this machine or written into a file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import Architecture, Mu, Norm, Param, Skip
from meanfield.cli.terminal.reading import theory_of


def explore(
    act: Annotated[str, typer.Argument(metavar="ACT", help="An activation: a name, or a formula in z.")] = "tanh",
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0: one that is free.")] = 5006,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", show_default=False, help="Write one .html file.")
    ] = None,
) -> None:
    """Follow K, J and the correlation of two inputs over the plane of σ_w and σ_b.

    Serves a page on 127.0.0.1 until it is interrupted; a formula can be typed there, an
    architecture chosen and μ moved, and a click asks for a certified phase and networks of
    finite width. -o page.html writes one file that needs no server. Both need Bokeh, the
    extra `explorer` of meanfield.
    """
    from meanfield.explorer.page import require

    require()
    if output is not None:
        with out.working("Writing the page"):
            theory_of(act, residual, mu, param, norm, architecture).explore(output)
        typer.echo(f"Wrote {output}", err=True)
        return
    theory_of(act, residual, mu, param, norm, architecture)  # a name that is none is refused before a page is served
    values: dict[str, str] = {}
    for item in param or ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name.isidentifier():
            raise MeanFieldError(f"--param takes name=value, such as alpha=0.2; {item!r} was given.")
        values[name] = value
    theory: dict[str, Any] = {
        "act": act, "residual": residual, "mu": mu, "norm": None if norm == "none" else norm,
        "architecture": None if architecture == "mlp" else architecture, "parameters": values,
    }  # fmt: skip
    from meanfield.explorer.serving.server import serve

    def opened(address: str) -> None:
        typer.echo(f"Serving {address} (Ctrl+C ends it)", err=True)
        if browser:
            webbrowser.open(address)

    serve(theory, port, opened)
