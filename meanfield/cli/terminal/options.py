"""Options that several commands share, and what they mean together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.storage.files import FORMATS, require
from meanfield.cli.terminal.reading import double

CONVENTIONS = (
    "Symbols: σ_w and σ_b are the standard deviations of weights and biases, "
    "z^(l+1) = σ_w/√N W φ(z^l) + σ_b b + μ z^l. K^l is the second moment of z^l; l = 1 is the first layer after the "
    "input, and K^1 = σ_w² Q0 + σ_b² with Q0 = |x|²/N_0. J^(1,l) is the averaged squared Jacobian norm from layer 1 to "
    "layer l, with J^(1,1) = 1."
)

Act = Annotated[
    str,
    typer.Argument(
        metavar="ACT",
        show_default=False,
        help="An activation: a name (see 'meanfield activations'), a name with its parameters ('leaky_relu(0.2)'), or "
        "a formula in z ('z*erf(z)').",
    ),
]
Skip = Annotated[bool, typer.Option("--residual", help="Add the skip connection μ z^l, with μ = 1 unless --mu says.")]
Mu = Annotated[
    str | None,
    typer.Option(
        metavar="X",
        help="Skip strength μ ≥ 0: a number (0.5, 1/2), or for derive, table and critical a name, kept symbolic.",
    ),
]
Norm = Annotated[
    str,
    typer.Option(
        metavar="none|pre|act", help="LayerNorm on the preactivations, φ(LN(z)), or on the activations, LN(φ(z))."
    ),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="A parameter of the activation, as alpha=0.2, or of the architecture. Repeatable."
    ),
]
Architecture = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A whole network: mlp, resnet, preln, postln, swiglu, resmlp, mlp_mixer, batchnorm_mlp, or full_residual, "
        "x + v φ(w x + b) + a with --param sigma_v=1 --param sigma_a=1.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        metavar="B",
        help="Inputs that a BatchNorm sees at a time, 4 or more; infinitely many if left out.",
        show_default=False,
    ),
]
Tokens = Annotated[
    int | None, typer.Option(metavar="T", help="How many tokens a Dense on tokens mixes.", show_default=False)
]
Decay = Annotated[
    str | None,
    typer.Option(metavar="v=1/2,w=0", help="Of full_residual: variances in the k-th block are σ² k^-β, by letter."),
]
Total = Annotated[
    str | None,
    typer.Option(metavar="v=1,w=0", help="Of full_residual: variances in L blocks are σ² L^-δ, too, by letter."),
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="LAW",
        help="gaussian, orthogonal (Haar) or mixed (Haar after a Gaussian input layer): they differ at order 1/n.",
    ),
]
Latex = Annotated[bool, typer.Option("--latex", help="Print LaTeX (amsmath, booktabs) instead of text.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write here instead: .json as --json, .tex as --latex, .txt."),
]
OutputWithoutLatex = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead: .json as --json, or .txt.")
]
Order = Annotated[int, typer.Option(min=1, max=12, help="Terms in the expansions at K → 0 and K → ∞.")]
SigmaW = Annotated[
    str, typer.Option(metavar="S", show_default=False, help="Standard deviation σ_w of the weights, times √N.")
]
SigmaB = Annotated[str, typer.Option(metavar="S", show_default=False, help="Standard deviation σ_b of the biases.")]
InputNorm = Annotated[str, typer.Option(metavar="Q0", help="Input norm Q0 = |x|²/N_0, so that K^1 = σ_w² Q0 + σ_b².")]
Correlation = Annotated[
    str | None, typer.Option(metavar="C0", help="Follow two inputs with this cosine: K_aa, K_bb, K_ab and c.")
]


def target(path: Path | None, suffixes: tuple[str, ...]) -> Path | None:
    """An output path, refused before the work is done if its kind or its folder will not do."""
    if path is None:
        return None
    if path.is_dir():
        raise MeanFieldError(f"{path} cannot be written: it is not a file, but a folder.")
    if suffixes and path.suffix.lower() not in suffixes:
        raise MeanFieldError(f"-o {path} was given; this command writes {', '.join(suffixes)}.")
    if not path.parent.is_dir():
        raise MeanFieldError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if path.suffix.lower() in FORMATS:
        require()
    return path


class OutputForm(NamedTuple):
    """How a verb answers: whether as JSON, whether as LaTeX, and into which file."""

    json: bool
    latex: bool
    path: Path | None


def chosen(json: bool, output: Path | None, latex: bool | None = None) -> OutputForm:
    """The form that --json, --latex and --output ask for; latex: None of a verb that has none.

    Raises: MeanFieldError for two formats, a suffix that is none, and a folder that does not exist.
    """
    if latex and json:
        raise MeanFieldError("--latex and --json were both given; choose one (the JSON document holds the LaTeX).")
    path = target(output, (".json", *((".tex",) if latex is not None else ()), ".txt"))
    suffix = "" if path is None else path.suffix.lower()
    if (json and suffix not in ("", ".json")) or (latex and suffix not in ("", ".tex")):
        raise MeanFieldError(f"-o {path} and {'--json' if json else '--latex'} were both given; choose one.")
    return OutputForm(json or suffix == ".json", bool(latex) or suffix == ".tex", path)


def option(name: str) -> str:
    """The spelling on the command line: sigma_w is --sigma-w."""
    return "--" + name.replace("_", "-")


def doubles(**texts: str | None) -> dict[str, Any]:
    """Options as doubles, by the name that `propagate` and `check` know; None stays None."""
    return {k: None if v is None else double(v, option(k)) for k, v in texts.items()}
