"""The commands `audit` and `recipe`: what an initialization does, from a configuration file or by its name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from meanfield.base.answers.results import MeanFieldError
from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import Json, Latex, Output, chosen
from meanfield.recipes.audit.audited import audit as audited
from meanfield.recipes.by_name import recipe as named
from meanfield.recipes.one_recipe import Recipe
from meanfield.recipes.rows.catalog import names, row_of

Compare = Annotated[
    list[str] | None,
    typer.Option("--compare", metavar="NAME", help="Put a public recipe of the same sizes beside it. Repeatable."),
]
Followed = Annotated[
    int | None, typer.Option("--tokens", metavar="T", show_default=False, help="How many tokens are followed.")
]
Draws = Annotated[int, typer.Option("--draws", metavar="M", help="Draws of all heads that numbers are means over.")]
Seed = Annotated[int, typer.Option("--seed", metavar="S", help="Of these draws.")]


def audit(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG", show_default=False,
            help="config.json of Hugging Face or OLMo-core, yaml of OLMo, yml of GPT-NeoX, arguments of Megatron.",
        ),
    ],
    reader: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Which kind it is, where it does not say.")
    ] = None,
    compare: Compare = None,
    tokens: Followed = None,
    draws: Draws = 4,
    seed: Seed = 0,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:  # fmt: skip
    """What a configuration does in its first forward and backward pass.

    Prints the class and the recipe that it assumed, growth of the stream, tokens'
    correlation, J, attention and branches by block, the one change that helps
    most, and which keys fixed the law. Nothing of the file is executed.
    """
    form = chosen(json, output, latex)
    found = audited(config, reader=reader)
    inputs = {"config": config, "reader": found.reader}
    _answer("audit", found.recipe, compare, tokens, draws, seed, form, inputs, found)


def recipe(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="A public recipe; --list names them.")
    ] = None,
    depth: Annotated[int | None, typer.Option(metavar="L", show_default=False, help="Blocks.")] = None,
    width: Annotated[int | None, typer.Option(metavar="N", show_default=False, help="Neurons of the stream.")] = None,
    heads: Annotated[int | None, typer.Option(metavar="H", show_default=False, help="Heads of attention.")] = None,
    context: Annotated[int | None, typer.Option(metavar="T", show_default=False, help="Tokens of an input.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the recipes and where each was read.")] = False,
    compare: Compare = None,
    tokens: Followed = None,
    draws: Draws = 4,
    seed: Seed = 0,
    latex: Latex = False,
    json: Json = False,
    output: Output = None,
) -> None:
    """What a public initialization does in its first forward and backward pass.

    Sizes that are left out are those of a usual model. Prints growth of the
    stream, tokens' correlation, J, attention and branches by block, and the one
    change that helps most.
    """
    form = chosen(json, output, latex)
    if listed:
        rows = {one: row_of(one).source for one in names()}
        space = max(map(len, rows)) + 2
        text = "\n".join(out.wrapped(f"  {one:<{space}}{source}") for one, source in rows.items())
        out.emit(out.document("recipe", {}, rows) if form.json else text, form.path)
        return
    if name is None:
        raise MeanFieldError("No recipe was named; meanfield recipe --list names them.")
    given = {"depth": depth, "width": width, "heads": heads, "context": context}
    inputs = {"name": name} | {k: v for k, v in given.items() if v is not None}
    _answer("recipe", named(**inputs), compare, tokens, draws, seed, form, inputs, None)  # type: ignore[arg-type]


def _answer(
    verb: str, held: Recipe, compare: list[str] | None, tokens: int | None, draws: int, seed: int, form: Any,
    inputs: dict[str, Any], found: Any,
) -> None:  # fmt: skip
    """Prints or writes the report, the recipes beside it, and what an audit (or None) says of keys."""
    for one in compare or ():
        row_of(one)
    settings: dict[str, Any] = {"tokens": tokens, "draws": draws, "seed": seed}
    with out.working(f"Following {held.name}"):
        report = held.report(**settings)
        beside = held.compare(*compare, **settings) if compare else None
    if form.json:
        results: dict[str, Any] = {"report": report} | ({"audit": found} if found is not None else {})
        results |= {"comparison": beside} if beside is not None else {}
        out.emit(out.document(verb, inputs | settings, results), form.path)
        return
    if form.latex:
        out.emit(report.latex(), form.path)
        return
    parts = [f"assumed: {found.assumed}"] if found is not None else []
    parts += [str(report)] + ([str(beside)] if beside is not None else [])
    parts += [found.keys] if found is not None else []
    out.emit(out.wrapped("\n\n".join(parts)), form.path)
