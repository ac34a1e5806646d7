"""The command `law`: large depth at one place, at every critical point, or over all exponents of a schedule."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.quantities import CORRELATORS
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import (
    Act,
    Architecture,
    Batch,
    Decay,
    Json,
    Latex,
    Mu,
    Norm,
    Output,
    OutputForm,
    Param,
    Skip,
    Total,
    Weights,
    chosen,
    option,
)
from meanfield.cli.terminal.reading import number, rate, theory_of
from meanfield.networks.architectures import LETTERS, decays
from meanfield.presentation.tables import Table, TableRow
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.theory import Theory

AT_POINTS = ("K", "J", "c", "gamma", "fisher")  # quantities whose laws at critical points are printed without σ's


def law(
    act: Act,
    residual: Skip = False,
    mu: Mu = None,
    norm: Norm = "none",
    param: Param = None,
    architecture: Architecture = None,
    batch: Batch = None,
    decay: Decay = None,
    total: Total = None,
    quantity: Annotated[
        str,
        typer.Option(
            metavar="J|K|c|gamma|distance|fisher|V|…",
            help="J: the law of log J^(1,l). K: of K^l. c: of the correlation of two inputs. gamma: of c/(1 - c). "
            "distance: of 2K(1 - c). Theta, and of order 1/n V,A,B,D,F,P,Q,R,S,T,U,G1,Theta1,J1, each divided by its "
            "powers of K and Θ. Of full_residual also K[1], G_z, G_w, G_b; several with commas give one table. fisher: "
            "the largest over the smallest diagonal block of the Fisher information.",
        ),
    ] = "J",
    sigma_w: Annotated[
        str | None, typer.Option(metavar="S", help="σ_w, exact: 1.5, 3/2, sqrt(2). Symbolic if left out.")
    ] = None,
    sigma_b: Annotated[str | None, typer.Option(metavar="S", help="σ_b, exact: 0, 0.1. Symbolic if left out.")] = None,
    input_norm: Annotated[
        str | None, typer.Option(metavar="Q0", help="Input norm |x|²/N_0, where the law knows it; 1 if left out.")
    ] = None,
    correlation: Annotated[
        str | None, typer.Option(metavar="C0", help="Cosine of the inputs of c, gamma and distance; 0 if left out.")
    ] = None,
    orders: Annotated[
        bool, typer.Option("--orders", help="Tables of full_residual up to constant factors: one row for each law.")
    ] = False,
    order: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Give N further terms of K, J, a gradient or a distance, exact (μ = 1, or full_residual with all its "
            "exponents); of V, A, … the terms down to N powers of l below the leading one.",
        ),
    ] = None,
    weights: Weights = "gaussian",
    lambda_w: Annotated[
        str | None,
        typer.Option(metavar="X", help="Learning rate of weights for Theta, A, …, U: a number or a formula in l."),
    ] = None,
    lambda_b: Annotated[
        str | None, typer.Option(metavar="X|1/l", help="Learning rate of biases; l is the layer that is made.")
    ] = None,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """How K^l, J^(1,l), c^l or γ^l behaves as the layer l → ∞, with its constants.

    A σ that is left out stays symbolic where the law allows it (μ = 1 and a
    saturating φ); elsewhere both are needed, and without them the laws at each
    critical point are printed. With --architecture full_residual, exponents that
    --decay leaves out give the table of all laws and of where each holds; with
    --total, laws are in the number of blocks L, at l = tL.
    """
    form = chosen(json, output, latex)
    given = {"sigma_w": sigma_w, "sigma_b": sigma_b}
    values = {k: number(v, option(k)) for k, v in given.items() if v is not None}
    if architecture == "full_residual":
        if input_norm is not None:
            raise MeanFieldError("--input-norm was given, but no law of full_residual depends on it; leave it out.")
        network = residual, mu, param, norm
        _scheduled(act, network, decay, total, quantity, values, correlation, orders, order, form)
        return
    if orders:
        raise MeanFieldError("--orders is of the tables of --architecture full_residual.")
    theory = theory_of(act, residual, mu, param, norm, architecture, decay, total, weights, batch=batch)
    if input_norm is not None:
        values["input_norm"] = number(input_norm, "--input-norm")
    names = tuple(part.strip() for part in quantity.split(",") if part.strip())
    if names and set(names) <= {"Theta", *CORRELATORS}:
        rates = {"lambda_w": rate(lambda_w, "--lambda-w"), "lambda_b": rate(lambda_b, "--lambda-b")}
        rates = {k: v for k, v in rates.items() if v is not None}
        _of_correlators(theory, weights, names, values, rates, order, form)
        return
    if lambda_w is not None or lambda_b is not None:
        raise MeanFieldError("--lambda-w and --lambda-b are of the laws of Theta and of V, A, …; see --quantity.")
    if correlation is not None:
        if quantity not in ("c", "gamma", "distance"):
            raise MeanFieldError("--correlation is of two inputs; ask for --quantity c, gamma or distance with it.")
        values["correlation"] = number(correlation, "--correlation")
    if order is not None:
        _further(theory, quantity, values, order, form)
        return
    section = ", ".join(f"{k} = {v}" for k, v in values.items()) or "Any sigma_w > 0"
    with out.working(f"Large depth of {describe(theory.block)}"):
        try:
            found = theory.depth_law(quantity, **values)
        except MeanFieldError:
            if values or quantity not in AT_POINTS:
                raise
            rows = _at_points(theory, quantity)
            if not rows:
                raise MeanFieldError(
                    f"{describe(theory.block)} has no critical point, where a law could be printed without numbers; "
                    "give --sigma-w and --sigma-b."
                ) from None
            _print(theory, quantity, values, rows, {"points": [r.text() for r in rows]}, form)
            return
    _print(
        theory, quantity, values, out.law_rows(quantity, found, section, digits=True), found.data(), form
    )


def _of_correlators(
    theory: Theory,
    weights: str,
    names: tuple[str, ...],
    values: dict,
    rates: dict,
    order: int | None,
    form: OutputForm,
) -> None:
    """The laws of Θ and of normalized correlators, at one place or at each critical point."""
    from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw

    places: list[tuple[str, dict[str, Any]]] = [(", ".join(f"{k} = {v}" for k, v in values.items()), values)]
    if not values:
        places = []
        for point in theory.critical_points():
            at = f"sigma_w = {float(point.sigma_w.value):.10g}, sigma_b = {float(point.sigma_b.value):.10g}"
            places.append((f"At the critical point {at}", {"at": point}))
    rows: list[TableRow] = []
    data: list[dict[str, Any]] = []
    with out.working(f"Large depth of {describe(theory.block)}"):
        for section, place in places:
            for name in names:
                found = theory.depth_law(name, order=order, **place, **rates)
                assert isinstance(found, CorrelatorLaw)
                rows.append(TableRow(section, found.name, found.law, found.latex_name, found.regime))
                if found.exact is not None:
                    rows.append(TableRow(section, f"{found.name}, exactly", found.exact, found.latex_name))
                place_data = {"at": section} if "at" in place else {}
                data.append({**place_data, **found.data()})
    if not rows:
        raise MeanFieldError("There is no critical point here; give --sigma-w and --sigma-b.")
    given = {**values, **rates, **({"weights": weights} if weights != "gaussian" else {})}
    _print(theory, ",".join(names), given, rows, {"laws": data}, form)


def _further(theory: Theory, quantity: str, values: dict, order: int, form: OutputForm) -> None:
    """The law of one quantity with further terms."""
    with out.working(f"Large depth of {describe(theory.block)}"):
        found = theory.depth_law(quantity, order=order, **values)
    if form.json:
        text = out.document("law", {**out.about(theory), "quantity": quantity, "order": order, **values}, found)
    else:
        text = found.latex() if form.latex else str(found)
    out.emit(text, form.path)


def _print(theory: Theory, quantity: str, values: dict, rows: list[TableRow], data: Any, form: OutputForm) -> None:
    table = Table(f"Large depth: {describe(theory.block)}", tuple(rows))
    if form.json:
        text = out.document("law", {**out.about(theory), "quantity": quantity, **values}, data)
    else:
        text = table.latex() if form.latex else out.wrapped(str(table))
    out.emit(text, form.path)


def _at_points(theory: Theory, quantity: str) -> list[TableRow]:
    """The law of one quantity at each critical point."""
    rows: list[TableRow] = []
    for point in theory.critical_points():
        place = ", ".join(
            f"{n} = {float(s.value):.10g}" for n, s in (("sigma_w", point.sigma_w), ("sigma_b", point.sigma_b))
        )
        found: Any = {"K": point.law_K, "J": point.law_J}.get(quantity)
        if found is None and point.kind == "half-stable":
            found = MeanFieldError("K comes to this point from one side only; give the numbers and --input-norm")
        elif found is None:  # of two inputs, or nothing goes to this K by a power: what unit starts do here
            try:
                found = theory.depth_law(quantity, sigma_w=point.sigma_w.value, sigma_b=point.sigma_b.value)
            except MeanFieldError as error:
                found = error
        rows += out.law_rows(quantity, found, f"At the critical point {place}", digits=True)
    return rows


def _scheduled(act, network, decay, total, quantity, values, correlation, orders, order, form) -> None:
    """The laws of a full residual network: at given exponents one, else the table over those left out."""
    if correlation is not None:
        raise MeanFieldError(
            "Laws of distance, c, gamma and K_ab of full_residual hold for two inputs of any correlation below 1; "
            "leave --correlation out."
        )
    fixed = decays(decay or "")
    free = [f"{letter}=beta_{letter}" for letter in LETTERS if f"beta_{letter}" not in fixed]
    texts = ",".join([*(f"{k[-1]}={v}" for k, v in fixed.items()), *free])
    residual, mu, param, norm = network
    theory = theory_of(act, residual, mu, param, norm, "full_residual", texts, total)
    if order is not None:
        _further(theory, quantity, values, order, form)
        return
    asked = tuple(part.strip() for part in quantity.split(",") if part.strip())
    with out.working(f"Large depth of {describe(theory.block)}"):
        known = {s for s in values if any(p.name == s for p in theory.one_input.parameters)}
        table = theory.phase_table(*asked, **{k: values[k] for k in known})
        shown = table.orders() if orders else table
    if form.json:
        text = out.document("law", {**out.about(theory), "quantity": quantity, **values}, shown)
    else:
        text = shown.latex() if form.latex else str(shown)
    out.emit(text, form.path)

