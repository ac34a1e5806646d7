"""meanfield kernel: matrices of a data set, from a file into a file."""

from __future__ import annotations

import warnings
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import (
    Act,
    Architecture,
    Decay,
    Json,
    Mu,
    Norm,
    Param,
    SigmaB,
    SigmaW,
    Skip,
    Total,
    Weights,
    doubles,
    target,
)
from meanfield.cli.terminal.reading import layers, needs_numbers, theory_of


def kernel(
    act: Act,
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", show_default=False, help="Inputs: .npz with X (and Y), .npy, or .csv of rows."),
    ],
    sigma_w: SigmaW,
    sigma_b: SigmaB,
    depth: Annotated[int, typer.Option(metavar="L", show_default=False, help="The last layer.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", show_default=False, help="Where the matrices go: .npz.")
    ],
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    decay: Decay = None,
    total: Total = None,
    weights: Weights = "gaussian",
    quantities: Annotated[str, typer.Option(metavar="LIST", help="From K, Theta and distance.")] = "K,Theta,distance",
    single: Annotated[bool, typer.Option("--float32", help="Keep the matrices in single precision.")] = False,
    json: Json = False,
) -> None:
    """Compute the kernels of a data set at layer L: K (NNGP), Θ (NTK) and squared distances.

    Rows are inputs. The file holds an array for each quantity, and a bound of its error as NAME_error.
    """
    path = target(output, (".npz",))
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total, weights)
    needs_numbers(theory)
    X, Y = _read(data)
    numbers = doubles(sigma_w=sigma_w, sigma_b=sigma_b)
    names = tuple(n.strip() for n in quantities.split(",") if n.strip())
    with out.working("Computing the kernels"):
        found = theory.kernel(
            X, Y, **numbers, depth=layers(depth), quantities=names, dtype="float32" if single else "float64"
        )
    import numpy as np

    errors = {f"{n}_error": np.array(e) for n, e in found.error.items()}
    assert path is not None
    np.savez(path, **found.values, **errors)  # type: ignore[arg-type]
    typer.echo(f"Wrote {path}", err=True)
    shape = next(iter(found.values.values())).shape
    if json:
        results = {"shape": list(shape), "error": found.error, "file": str(path)}
        typer.echo(out.document("kernel", {**out.about(theory), **numbers, "depth": depth}, results))
        return
    lines = [f"Kernels of {shape[0]} x {shape[1]} inputs at layer {depth}"]
    for n, e in found.error.items():
        lines.append(f"  {n}: errors up to {e:.1e}, relative" if e < inf else f"  {n}: no bound of its errors is known")
    typer.echo(out.wrapped("\n".join(lines)))


def _read(file: Path) -> tuple[Any, Any]:
    """X and Y (or None) of a file."""
    import numpy as np

    if not file.is_file():
        raise MeanFieldError(f"{file} was given as data, but there is no such file.")
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as held:
                if "X" not in held.files:
                    raise MeanFieldError(f"{file} holds {', '.join(held.files) or 'nothing'}; its inputs must be X.")
                return held["X"], held["Y"] if "Y" in held.files else None
        if file.suffix == ".npy":
            return np.load(file, allow_pickle=False), None
        if file.suffix == ".csv":
            with warnings.catch_warnings(action="ignore"):  # an empty file has no rows, which is refused
                return np.loadtxt(file, delimiter=",", ndmin=2), None
    except (OSError, ValueError) as error:
        raise MeanFieldError(f"{file} could not be read as inputs ({error}).") from None
    raise MeanFieldError(f"{file} was given as data; it must be .npz with X (and Y), .npy or .csv.")
