"""The command `gains`: what to multiply the output of an activation with."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import Act, Json, Latex, Output, chosen


def gains(
    act: Act,
    variance: Annotated[str, typer.Option(metavar="K", help="Variance of the input: a number, exact as text.")] = "1",
    tokens: Annotated[
        int | None, typer.Option(metavar="T", help="Of a softmax: how many entries.", show_default=False)
    ] = None,
    scores: Annotated[
        str | None, typer.Option(metavar="S", help="Of a softmax: standard deviation of a score.", show_default=False)
    ] = None,
    digits: Annotated[
        int | None, typer.Option(metavar="N", help="Of each number in JSON; 30, of a softmax 16.", show_default=False)
    ] = None,
    snippet: Annotated[str | None, typer.Option(metavar="torch", help="Print this code alone.")] = None,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """Exact gains of an activation, of its gated unit, or of a softmax.

    1/sd and 1/rms of its output at this input variance, the backward counterpart, and
    the σ_w that keep K or J. ACT is also glu, swiglu, geglu, reglu, bilinear, or
    softmax (with --tokens and --scores).
    """
    from meanfield.tuning.function_gains.gains import gains as of

    if snippet not in (None, "torch"):
        raise MeanFieldError(f"--snippet must be torch, but {snippet!r} was given.")
    form = chosen(json, output, latex)
    if snippet is not None and (form.json or form.latex):
        raise MeanFieldError("--snippet and another format were both given; choose one.")
    given: dict[str, Any] = {"tokens": tokens, "scores": scores, "digits": digits}
    found: Any = of(act, variance, **{k: v for k, v in given.items() if v is not None})
    if form.json:
        inputs = {"activation": act, "variance": variance, **given}
        text = out.document("gains", inputs, found.data() | {"latex": found.latex(), "torch": found.torch()})
    elif form.latex:
        text = found.latex()
    else:
        text = str(found) if snippet is None else found.torch()
    out.emit(text, form.path)
