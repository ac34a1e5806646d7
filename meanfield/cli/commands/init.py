"""The command `init`: standard deviations for an architecture, a depth and a width, ready to paste."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import (
    Act,
    Architecture,
    InputNorm,
    Json,
    Mu,
    Norm,
    OutputWithoutLatex,
    Param,
    Skip,
    chosen,
)
from meanfield.cli.terminal.reading import double, layers, needs_numbers, theory_of
from meanfield.symbolic.recursions.naming import describe

TOKENS = 16
SNIPPETS = ("torch", "flax", "numbers")


def init(
    act: Act,
    depth: Annotated[int, typer.Option(metavar="L", show_default=False, help="Layers, the input layer among them.")],
    width: Annotated[int, typer.Option(metavar="N", show_default=False, help="Neurons of every layer.")],
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    input_norm: InputNorm = "1",
    budget: Annotated[
        str, typer.Option(metavar="B", help="|log J^(1,L)| that is allowed where no gain makes it 0.")
    ] = "1",
    tokens: Annotated[int, typer.Option(metavar="T", help="That a Dense on tokens mixes.")] = TOKENS,
    networks: Annotated[
        int, typer.Option(metavar="M", help="Drawn to see how log J scatters where that is not derived; 0: none.")
    ] = 16,
    seed: Annotated[int, typer.Option(metavar="S", help="Of these networks.")] = 0,
    snippet: Annotated[
        str | None, typer.Option(metavar="|".join(SNIPPETS), help="Print this code alone, ready to paste.")
    ] = None,
    json: Json = False,
    output: OutputWithoutLatex = None,
) -> None:
    """How to initialize a network: σ's and weight std of each kind of Dense.

    Prints what they give at this depth (J, K, correlation of two inputs), the
    window of σ_w, how single networks of this width scatter, and what common
    initializers would do. Theory where it reaches; nothing is trained.
    """
    from meanfield.tuning.recommendation.recommend import recommend  # networks are loaded when they are asked for

    if snippet is not None and snippet not in SNIPPETS:
        raise MeanFieldError(f"--snippet must be one of {', '.join(SNIPPETS)}, but {snippet!r} was given.")
    form = chosen(json, output)
    if snippet is not None and form.json:
        raise MeanFieldError("--snippet and --json were both given; choose one.")
    theory = theory_of(act, residual, mu, param, norm, architecture)
    if architecture != "full_residual" and "K_ab" not in theory.default_quantities:
        needs_numbers(theory)
    numbers: dict[str, Any] = {"input_norm": double(input_norm, "--input-norm"), "budget": double(budget, "--budget")}
    sizes: dict[str, Any] = {"depth": layers(depth), "width": width}
    with out.working(f"Looking for criticality of {describe(theory.block)}"):
        found = recommend(theory, **sizes, **numbers, tokens=tokens, networks=networks, seed=seed)
    if form.json:
        inputs = {**out.about(theory), **sizes, **numbers, "tokens": tokens, "networks": networks, "seed": seed}
        results = found.data() | {name: getattr(found, name)() for name in SNIPPETS}
        text = out.document("init", inputs, results)
    else:
        text = str(found) if snippet is None else getattr(found, snippet)()
    out.emit(text, form.path)
