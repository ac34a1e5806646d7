"""The command `widths`: the widths of layers for which squared gradients per neuron stay bounded."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import (
    Act,
    Architecture,
    Decay,
    InputNorm,
    Json,
    Mu,
    Norm,
    OutputWithoutLatex,
    Param,
    SigmaB,
    SigmaW,
    Skip,
    Total,
    chosen,
    doubles,
)
from meanfield.cli.terminal.reading import double, layers, needs_numbers, theory_of
from meanfield.symbolic.recursions.naming import describe


def widths(
    act: Act,
    sigma_w: SigmaW,
    sigma_b: SigmaB,
    depth: Annotated[int, typer.Option(metavar="L", show_default=False, help="The last layer.")],
    width: Annotated[int, typer.Option(metavar="N", show_default=False, help="Neurons of the end that is fixed.")],
    factor: Annotated[str, typer.Option(metavar="R", help="The largest ratio of squared gradients, > 1.")] = "2",
    fixed: Annotated[str, typer.Option(metavar="first|last", help="Which end of the network has N neurons.")] = "first",
    multiple: Annotated[int, typer.Option(metavar="M", help="Every width is a multiple of M.")] = 1,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    decay: Decay = None,
    total: Total = None,
    input_norm: InputNorm = "1",
    json: Json = False,
    output: OutputWithoutLatex = None,
) -> None:
    """Widths for which squared gradients per neuron stay within a factor.

    Per neuron they are J^(l,L) N_L/N_l, so widths that fall as J grows keep them;
    the widths with the fewest changes are printed. A network with skips needs an
    architecture that projects, such as --architecture full_residual.
    """
    form = chosen(json, output)
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total)
    needs_numbers(theory)
    numbers = doubles(sigma_w=sigma_w, sigma_b=sigma_b, input_norm=input_norm)
    sizes: dict[str, Any] = {"width": width, "depth": layers(depth), "fixed": fixed, "multiple": multiple}
    ratio = double(factor, "--factor")
    with out.working("Compiling the recursion"):
        found = theory.width_schedule(**numbers, **sizes, factor=ratio)
    if form.json:
        inputs = {**out.about(theory), **numbers, **sizes, "factor": ratio}
        text = out.document("widths", inputs, found)
    else:
        text = out.wrapped(f"Widths: {describe(theory.block)}\n{found}")
    out.emit(text, form.path)
