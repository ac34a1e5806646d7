"""The command line: the table of its verbs is `VERBS`.

Results go to stdout, everything else to stderr. Exit code 0: done; 1: a check failed; 2: the request cannot be
answered.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.base.quantities import GRADIENTS, columns
from meanfield.base.storage.files import FORMATS, save, write_whole
from meanfield.cli.commands.coordinate_command import coordinate_check
from meanfield.cli.commands.critical import critical, phase_diagram
from meanfield.cli.commands.doctor import doctor
from meanfield.cli.commands.explore import explore
from meanfield.cli.commands.finite_networks import measure, tune
from meanfield.cli.commands.gain_command import gains
from meanfield.cli.commands.init import init
from meanfield.cli.commands.kernel import kernel
from meanfield.cli.commands.law import law
from meanfield.cli.commands.recipe_commands import audit, recipe
from meanfield.cli.commands.reproduce import reproduce
from meanfield.cli.commands.widths import widths
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.bias_output import bias_text
from meanfield.cli.terminal.help import Command, ProgramGroup, conventions, help_text, interrupted
from meanfield.cli.terminal.options import (
    CONVENTIONS,
    Act,
    Architecture,
    Batch,
    Correlation,
    Decay,
    InputNorm,
    Json,
    Latex,
    Mu,
    Norm,
    Order,
    Output,
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
    option,
    target,
)
from meanfield.cli.terminal.reading import (
    layers,
    maps_wanted,
    needs_numbers,
    number,
    propagated,
    rate,
    theory_of,
    wanted,
)
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.deriving import derive as derived

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    cls=ProgramGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=CONVENTIONS + "\n\nStart with: meanfield demo",
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Theory of wide random neural networks at initialization: derive it, tabulate it, propagate it, check it."""
    if version:
        package: Any = sys.modules["meanfield"]
        typer.echo(f"meanfield {package.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def derive(
    act: Act,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    batch: Batch = None,
    decay: Decay = None,
    total: Total = None,
    weights: Weights = "gaussian",
    quantities: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="These alone: from K,J,Theta and, of order 1/n, V,A,B,D,F,P,...,U,G1,..."),
    ] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="With --quantities of order 1/n: how each map is found, as on paper.")
    ] = False,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """Derive the recursions of a wide network, exactly.

    Prints K, J, the tangent kernel Θ and the covariance K_ab of two inputs one
    layer deeper (K', J', ...), the susceptibilities χ_J = ∂J'/∂J, χ_K = ∂K'/∂K,
    χ_Δ = ∂χ_J/∂K, and for μ = 1 the law of large depth. <f(z)>_{K} is the average
    of f over z ~ N(0, K); it is printed where it has no closed form.
    """
    form = chosen(json, output, latex)
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total, weights, batch=batch)
    if quantities is not None or steps:
        names = maps_wanted(quantities, steps)
        with out.working(f"Deriving {', '.join(names)} of {describe(theory.block)}"):
            if steps:
                found = {name: theory.derivation(name, latex=form.latex) for name in names}
            else:
                table = out.maps(theory, names, weights)
        if form.json:
            results = {"steps": found} if steps else {"rows": table.data()}
            text = out.document("derive", out.about(theory) | {"weights": weights}, results)
        elif steps:
            text = "\n\n".join(found.values())
        else:
            text = table.latex() if form.latex else out.wrapped(str(table))
        out.emit(text, form.path)
        return
    with out.working(f"Deriving {describe(theory.block)}"):
        laws = out.unit_skip_laws(theory)
        table = out.derivation(theory, laws)
    if form.json:
        text = out.document("derive", out.about(theory), out.derivation_data(theory, laws, table))
    else:
        text = table.latex() if form.latex else out.wrapped(str(table))
    out.emit(text, form.path)


def table(
    act: Act,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    batch: Batch = None,
    decay: Decay = None,
    total: Total = None,
    order: Order = 3,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """Print the complete table of a theory: maps, susceptibilities, closed forms, both ends, large depth."""
    form = chosen(json, output, latex)
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total, batch=batch)
    with out.working(f"Expanding {describe(theory.block)}"):
        found = theory.table(order)
    if form.json:
        results = {"title": found.title, "rows": found.data()}
        text = out.document("table", {**out.about(theory), "order": order}, results)
    else:
        text = found.latex() if form.latex else out.wrapped(str(found))
    out.emit(text, form.path)


def bias(
    act: Act,
    sigma_w: SigmaW,
    sigma_b: SigmaB,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    input_norm: InputNorm = "1",
    correlation: Annotated[str, typer.Option(metavar="C0", help="Cosine of two inputs.")] = "0",
    json: Json = False,
    output: OutputWithoutLatex = None,
) -> None:
    """Which class an untrained deep network prefers, and how gradients do.

    The phase of the initial guessing bias: where γ = c/(1 - c) of two inputs
    ends, χ_J* of the gradients, and the law by which γ gets there.
    """
    form = chosen(json, output)
    theory = theory_of(act, residual, mu, param, norm, architecture)
    given = {"sigma_w": sigma_w, "sigma_b": sigma_b, "input_norm": input_norm}
    values = {k: number(v, option(k)) for k, v in given.items()} | {"correlation": number(correlation, "--correlation")}
    with out.working(f"Guessing bias of {describe(theory.block)}"):
        found = theory.bias(**values)
    inputs = {**out.about(theory), **values}
    out.emit(out.document("bias", inputs, found) if form.json else out.wrapped(bias_text(found)), form.path)


def propagate(
    act: Act,
    sigma_w: SigmaW,
    sigma_b: SigmaB,
    depth: Annotated[int, typer.Option(metavar="L", show_default=False, help="The last layer.")],
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    batch: Batch = None,
    decay: Decay = None,
    total: Total = None,
    weights: Weights = "gaussian",
    input_norm: InputNorm = "1",
    correlation: Correlation = None,
    quantities: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="From K,J,Theta,G_z,G_w,G_b; with --correlation also K_ab,c,distance,gamma. Of order 1/n: "
            "V,A,B,D,F,P,Q,R,S,T,U and the corrections G1,Theta1,J1 of K,Theta,J.",
        ),
    ] = None,
    lambda_w: Annotated[
        str | None,
        typer.Option(metavar="X", help="Learning rate of weights, divided by the fan-in: a number or a formula in l."),
    ] = None,
    lambda_b: Annotated[
        str | None, typer.Option(metavar="X|1/l", help="Learning rate of biases; l is the layer that is made.")
    ] = None,
    json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also write every layer: .csv, .npz, .png, .pdf or .svg."),
    ] = None,
) -> None:
    """Follow K, J, Θ or the covariance of two inputs from layer 1 to layer L, in compiled float64.

    V, A, …, U are n times connected averages of networks of width n → ∞, with learning
    rates σ_w² and σ_b² unless --lambda-w and --lambda-b say. Prints selected layers.
    A K that grows beyond 1e300 is an answer, not an error: the layer is named.
    """
    path = target(output, (".csv", ".npz", *FORMATS))
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total, weights, batch=batch)
    needs_numbers(theory)
    names = wanted(theory, quantities, correlation is not None)
    numbers = doubles(sigma_w=sigma_w, sigma_b=sigma_b, input_norm=input_norm, correlation=correlation)
    given_rates = {"lambda_w": rate(lambda_w, "--lambda-w"), "lambda_b": rate(lambda_b, "--lambda-b")}
    rates: dict[str, Any] = {k: v for k, v in given_rates.items() if v is not None}
    asked = propagated(names, correlation is not None) if not theory.kind else names
    with out.working("Compiling the recursion"):
        run = theory.propagate(**numbers, **rates, depth=layers(depth), quantities=asked)
    names = tuple(n for q in names for n in (columns(q, run) if q in GRADIENTS else (q,)))
    if path is not None:
        out.write_run(run, names if quantities else None, path)
        typer.echo(f"Wrote {path}", err=True)
    if json:
        results = {
            "layers": out.columns(run, names),
            "diverged_at": int(run.diverged_at),
            "status": (Status.DIVERGES if run.diverged_at else Status.MEASURED).value,
            "message": run.message(),
            "average_error": run.error,
        } | ({"level": run.level} if run.level else {})
        given = {**out.about(theory), **numbers, **rates, "depth": depth}
        typer.echo(out.document("propagate", given | ({"weights": weights} if weights != "gaussian" else {}), results))
        return
    settings = f"sigma_w {numbers['sigma_w']:g}, sigma_b {numbers['sigma_b']:g}, |x|^2/N_0 {numbers['input_norm']:g}"
    settings += "".join(f", {k} {v}" for k, v in rates.items())
    settings += f", batch {theory.batch}" if theory.batch else ""
    settings += f"; {run.level} over token matrices" if run.level else ""
    law = "" if weights == "gaussian" else f", {weights} weights"
    lines = [f"Propagation: {describe(theory.block)}{law}", settings, "", out.layer_table(run, names)]
    typer.echo(out.wrapped("\n".join(lines + (["", run.message()] if run.message() else []))))


def check(
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
    quantities: Annotated[
        str | None, typer.Option(metavar="K,J,...", help="What is compared (default K,J; Theta, G_w, … too).")
    ] = None,
    width: Annotated[int, typer.Option(metavar="N", help="Neurons per layer.")] = 10_000,
    depth: Annotated[int, typer.Option(metavar="L", help="Layers.")] = 50,
    networks: Annotated[int, typer.Option(metavar="M", help="Independent random networks.")] = 200,
    sampler: Annotated[
        str | None, typer.Option(help="lazy (default from N = 2000 on) or explicit weights.", show_default=False)
    ] = None,
    probes: Annotated[
        int | None, typer.Option(metavar="P", help="Random vectors that estimate J (4 if lazy).", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep what is done; the same command goes on from it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    input_norm: InputNorm = "1",
    correlation: Correlation = None,
    json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also write the report: .json, .png, .pdf or .svg."),
    ] = None,
) -> None:
    """Compare the theory with an ensemble of finite-width networks, layer by layer.

    Prints the theory of infinite width, the allowance for finite width (derived, or
    measured on narrower networks), their sum, measured ± standard error, and z, the difference from
    the sum in standard errors. Every |z| ≤ 4: passed, exit code 0; otherwise 1.
    """
    from meanfield.comparison import check as comparison

    path = target(output, (".json", *FORMATS))
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total, batch=batch)
    needs_numbers(theory)
    numbers = doubles(sigma_w=sigma_w, sigma_b=sigma_b, input_norm=input_norm, correlation=correlation)
    sizes: dict[str, Any] = {"width": width, "depth": layers(depth), "networks": networks, "seed": seed}
    more: dict[str, Any] = {"sampler": sampler, "probes": probes, "device": device, "checkpoint": checkpoint}
    more |= {} if tokens is None else {"tokens": tokens}
    more["quantities"] = None if quantities is None else tuple(q.strip() for q in quantities.split(","))
    report = comparison.check(theory, **numbers, **sizes, **more)  # shows a progress bar on a terminal's stderr
    text = out.document("check", {**out.about(theory), **numbers, **sizes}, report)
    if path is not None:
        _write_report(report, text, path)
        typer.echo(f"Wrote {path}", err=True)
    typer.echo(text if json else out.wrapped(str(report)))
    if not report.passed:
        raise typer.Exit(1)


def activations(json: Json = False, output: OutputWithoutLatex = None) -> None:
    """List the registered activations: parity, breaks, degree of homogeneity, formula and default parameters.

    A break marked ! is a jump of φ, an unmarked one a kink, one marked * a break
    of a higher derivative only. The degree k means φ(λz) = λ^k φ(z) for λ > 0.
    """
    form, facts = chosen(json, output), out.registry()
    out.emit(out.document("activations", {}, facts) if form.json else out.registry_table(facts), form.path)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files.")] = Path(
        "meanfield-demo"
    ),
) -> None:
    """The whole story in a few seconds: derive, table, propagate, check, for tanh with a skip connection.

    Writes table.tex, propagate.png (with matplotlib), report.json, and source.py,
    the recursion as it is compiled.
    """
    from meanfield.comparison import check as comparison

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MeanFieldError(f"The folder {output} cannot be made: {error.strerror}.") from None
    at: dict[str, Any] = {"sigma_w": 1.2, "sigma_b": 0.1}
    sizes: dict[str, Any] = {"width": 200, "depth": 20, "networks": 100, "seed": 0}

    _say('theory = meanfield.derive("tanh", residual=True)', "print(theory.table())")
    theory = derived("tanh", residual=True)
    found = theory.table()
    typer.echo(out.wrapped(str(found)))
    write_whole(output / "table.tex", f"{found.latex()}\n".encode())

    _say("run = theory.propagate(sigma_w=1.2, sigma_b=0.1, depth=100)")
    with out.working("Compiling the recursion"):
        run = theory.propagate(**at, depth=100)
    typer.echo(out.layer_table(run, ("K", "J")))
    write_whole(output / "source.py", theory.source().encode())
    figure, drawn = output / "propagate.png", importlib.util.find_spec("matplotlib") is not None
    if drawn:
        save(run.plot, figure)
    else:
        typer.echo("No figure: matplotlib is not installed; try pip install 'meanfield[plot]'.", err=True)

    _say(
        "sizes = dict(width=200, depth=20, networks=100)",
        "print(meanfield.check(theory, sigma_w=1.2, sigma_b=0.1, **sizes))",
    )
    report = comparison.check(theory, **at, **sizes)
    typer.echo(out.wrapped(str(report)))
    _write_report(report, out.document("check", {**out.about(theory), **at, **sizes}, report), output / "report.json")
    names = ["table.tex", *(["propagate.png"] if drawn else []), "source.py", "report.json"]
    typer.echo(f"\nWrote {', '.join(names)} to {output}")
    raise typer.Exit(0 if report.passed else 1)


def _say(*lines: str) -> None:
    """Show the Python that does what follows."""
    typer.echo("\n" + "".join(f">>> {line}\n" for line in lines))


def _write_report(report: Any, text: str, path: Path) -> None:
    """A report as the JSON document `text` or as a figure."""
    if path.suffix.lower() in FORMATS:
        save(report.plot, path)
    else:
        write_whole(path, f"{text}\n".encode())


#: every verb: what does it, and an example of it
VERBS: dict[str, tuple[Callable, str]] = {
    "derive": (derive, "derive tanh --residual"),
    "table": (table, "table erf --residual -o table.tex"),
    "law": (law, "law erf --residual --quantity J --sigma-w 1 --sigma-b 0"),
    "init": (init, "init gelu --architecture preln --depth 100 --width 512"),
    "gains": (gains, "gains silu"),
    "recipe": (recipe, "recipe gpt2 --depth 6 --width 384 --tokens 8"),
    "audit": (audit, "audit config.json --compare llama-torchtitan"),
    "coordinate-check": (coordinate_check, "coordinate-check tanh --widths 64,256 --networks 4"),
    "tune": (tune, "tune tanh --depth 20 --width 200"),
    "bias": (bias, "bias relu --sigma-w 'sqrt(2)' --sigma-b 0.1"),
    "critical": (critical, "critical gelu"),
    "propagate": (propagate, "propagate tanh --sigma-w 1.5 --sigma-b 0.1 --depth 100"),
    "kernel": (kernel, "kernel erf data.npz --sigma-w 1.5 --sigma-b 0.1 --depth 11 -o kernel.npz"),
    "widths": (widths, "widths tanh --sigma-w 1.2 --sigma-b 0.1 --width 4096 --depth 20"),
    "phase-diagram": (phase_diagram, "phase-diagram erf --sigma-w 0,3,60 --sigma-b 0,3,60"),
    "explore": (explore, "explore gelu -o gelu.html"),
    "check": (check, "check erf --sigma-w 1.5 --sigma-b 0.1 --width 200 --depth 20"),
    "measure": (measure, "measure relu --sigma-w 'sqrt(2)' --sigma-b 0 --quantities K,V"),
    "reproduce": (reproduce, "reproduce autoinit --quick -o reports"),
    "activations": (activations, "activations --json"),
    "doctor": (doctor, "doctor"),
    "demo": (demo, "demo"),
}
for _name, (_verb, _example) in VERBS.items():
    app.command(name=_name, cls=Command, help=help_text(_verb, _example), epilog=conventions(_name))(_verb)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line (by default the process's own) and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without Greek shows ?
    try:
        app(args=arguments, prog_name="meanfield")
    except SystemExit as end:
        if end.code == 130:
            out.say(interrupted(list(sys.argv[1:] if arguments is None else arguments)))
        raise
    except MeanFieldError as error:
        sentence = str(error)
    except MemoryError:
        sentence = "There is not enough memory for this; ask for fewer layers, neurons or networks."
    out.say(sentence)
    sys.exit(2)


if __name__ == "__main__":
    main()
