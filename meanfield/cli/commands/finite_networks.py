"""The commands `measure` and `tune`: finite networks without the theory, and gains found layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.base.errors import MeanFieldError
from meanfield.base.storage.files import FORMATS, save
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import (
    Act,
    Architecture,
    Batch,
    Correlation,
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
    Tokens,
    Total,
    Weights,
    chosen,
    doubles,
    target,
)
from meanfield.cli.terminal.reading import double, layers, needs_numbers, theory_of
from meanfield.symbolic.recursions.naming import describe


def measure(
    act: Act,
    sigma_w: SigmaW,
    sigma_b: SigmaB,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    batch: Batch = None,
    tokens: Tokens = None,
    decay: Decay = None,
    total: Total = None,
    weights: Weights = "gaussian",
    quantities: Annotated[str, typer.Option(metavar="LIST", help="What is measured: K,J,Theta,V,c,G_w,...")] = "K,J",
    width: Annotated[int, typer.Option(metavar="N", help="Neurons per layer.")] = 500,
    depth: Annotated[int, typer.Option(metavar="L", help="Layers.")] = 20,
    networks: Annotated[int, typer.Option(metavar="M", help="Independent random networks.")] = 100,
    sampler: Annotated[
        str | None, typer.Option(help="lazy (default from N = 2000 on) or explicit weights.", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep what is done; the same command goes on from it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    input_norm: InputNorm = "1",
    correlation: Correlation = None,
    json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also write every layer: .csv, .npz, .json or a figure."),
    ] = None,
) -> None:
    """Measure finite networks, with standard errors; nothing analytic is used.

    Prints the mean over the networks at the first, the middle and the last layer.
    """
    from meanfield.comparison.measure import measure as verb

    path = target(output, (".csv", ".npz", ".json", *FORMATS))
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total, weights, batch=batch)
    needs_numbers(theory)
    numbers = doubles(sigma_w=sigma_w, sigma_b=sigma_b, input_norm=input_norm, correlation=correlation)
    names = tuple(n.strip() for n in quantities.split(",") if n.strip())
    sizes: dict[str, Any] = {"width": width, "depth": layers(depth), "networks": networks, "seed": seed}
    more: dict[str, Any] = {"sampler": sampler, "checkpoint": checkpoint, "batch": batch, "tokens": tokens}
    more = {k: v for k, v in more.items() if v is not None}
    found = verb(theory, **numbers, **sizes, **more, device=device, quantities=names)
    if not found.finite_depth:
        raise MeanFieldError(f"{describe(theory.block)}: {found.message}.")
    if path is not None:
        save(found.plot, path) if path.suffix.lower() in FORMATS else found.save(path)
        typer.echo(f"Wrote {path}", err=True)
    title = f"Measured: {describe(theory.block)}"
    text = out.document("measure", {**out.about(theory), **numbers, **sizes}, found)
    typer.echo(text if json else out.wrapped(f"{title}\n{found}"))


def tune(
    act: Act,
    depth: Annotated[int, typer.Option(metavar="L", show_default=False, help="Layers, the input layer among them.")],
    width: Annotated[
        int | None, typer.Option(metavar="N", help="Of the network that is tuned; infinite width if left out.")
    ] = None,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    sigma_w: Annotated[str, typer.Option(metavar="S", help="σ_w that the gains multiply.")] = "1",
    sigma_b: Annotated[str, typer.Option(metavar="S", help="σ_b that the gains multiply.")] = "0",
    input_norm: InputNorm = "1",
    method: Annotated[
        str, typer.Option(metavar="sweep|gradient", help="Layer after layer, or by gradient descent.")
    ] = "sweep",
    seed: Annotated[int, typer.Option(help="Of the network.")] = 0,
    json: Json = False,
    output: OutputWithoutLatex = None,
) -> None:
    """Find gains for every layer, so that J^(l,l+1) = 1.

    Of infinite width, or of one network of width N. Prints σ_w of every Dense, K and
    log J before and behind.
    """
    from meanfield.tuning.network_gains.tune import tune as verb

    form = chosen(json, output)
    theory = theory_of(act, residual, mu, param, norm, architecture)
    needs_numbers(theory)
    numbers: dict[str, Any] = {"sigma_w": double(sigma_w, "--sigma-w"), "sigma_b": double(sigma_b, "--sigma-b")}
    numbers["input_norm"] = double(input_norm, "--input-norm")
    sizes: dict[str, Any] = {"depth": layers(depth), "width": width, "seed": seed, "method": method}
    with out.working(f"Tuning {describe(theory.block)}"):
        found = verb(theory, **numbers, **sizes)
    inputs = {**out.about(theory), **numbers, **sizes}
    out.emit(out.document("tune", inputs, found) if form.json else str(found), form.path)
