"""A configuration, audited: which recipe it is, by which of its keys, and what was assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import validated
from meanfield.recipes.audit.configurations import read
from meanfield.recipes.audit.keys import Reading, read_configuration
from meanfield.recipes.audit.recognition import outside, recognized, section
from meanfield.recipes.description.recipe_report import Comparison, Report
from meanfield.recipes.one_recipe import Recipe
from meanfield.recipes.rows.recipe_row import RecipeRow, made

PASSES = ("token", "value", "output", "up", "down")  # matrices that everything passes through


@dataclass(frozen=True)
class Audit(Result):
    """What a configuration file says of the first forward and backward pass.

    recipe: the `Recipe` that it is, at its sizes. reader: which kind of configuration it was read as; assumed: the
    class that this is of, and the public recipe whose laws were taken, in words, since no file says it. read: the keys
    that fixed the law, with their values; defaults: those that were absent, with what the class takes; ignored: keys
    that do not change the law; unknown: keys that the reader does not know, taken not to change it either.

    >>> found = audit({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.1})
    >>> found.reader, found.recipe, found.ignored
    ('gpt2', Recipe('config: gpt2', depth=2, width=64), ('resid_pdrop',))
    """

    recipe: Recipe
    reader: str
    assumed: str
    read: Mapping[str, Any]
    defaults: Mapping[str, Any]
    ignored: tuple[str, ...] = ()
    unknown: tuple[str, ...] = field(default=())

    def report(self, *, tokens: object = None, draws: object = 4, seed: object = 0) -> Report:
        """`self.recipe.report(...)`: what the first passes do, block by block."""
        return self.recipe.report(tokens=tokens, draws=draws, seed=seed)

    def compare(self, *others: object, tokens: object = None, draws: object = 4, seed: object = 0) -> Comparison:
        """`self.recipe.compare(...)`: beside public recipes by their names, other recipes, and other audits."""
        given = [one.recipe if isinstance(one, Audit) else one for one in others]
        return self.recipe.compare(*given, tokens=tokens, draws=draws, seed=seed)

    def data(self) -> dict[str, Any]:
        """All of it as plain values."""
        own = {"reader": self.reader, "assumed": self.assumed, "read": plain(self.read)}
        own |= {"defaults": plain(self.defaults), "ignored": list(self.ignored), "unknown": list(self.unknown)}
        return own | {"recipe": self.recipe.data()}

    def __repr__(self) -> str:
        return one_line("Audit", f"{self.recipe.name}, {self.recipe.depth} blocks of width {self.recipe.width}")

    @property
    def keys(self) -> str:
        """What was taken of which keys, in words."""
        absent = {name: value for name, value in self.defaults.items() if value is not None}
        out = []
        for title, held in (("read", self.read), ("absent, taken as", absent)):
            out += [f"  {title}: " + ", ".join(f"{k} {_short(v)}" for k, v in held.items())] if held else []
        out += [f"  do not change the law: {', '.join(self.ignored)}"] if self.ignored else []
        if self.unknown:
            out.append(f"  not known to this reader, and taken not to change the law: {', '.join(self.unknown)}")
        return "\n".join(out)

    def __str__(self) -> str:
        return wrapped(f"assumed: {self.assumed}\n\n{self.recipe}\n\n{self.keys}")


@validated
def audit(config: Any, *, reader: object = None) -> Audit:
    """What a configuration of a transformer says of its initialization: the recipe that it is, and what was assumed.

    config: a dictionary, the path of a file (config.json of Hugging Face or OLMo-core, yaml of OLMo, yml of GPT-NeoX,
    arguments of Megatron), JSON text, a line of arguments ("--num-layers 24 …"), or an object with to_dict() or with
    attributes (configurations of transformers, dataclasses, argparse's namespaces). reader: which kind it is, where it
    does not say ("gpt2", "llama", "olmo", "megatron", "neox", "nanogpt", …). Nothing of it is executed. Returns an
    `Audit`, with report() and compare(...).

    Raises: MeanFieldError for what is no configuration, a key that is missing, misspelt or contradicts another one,
    values of another kind, and what changes the law and is not modelled. Source: `recipe.source` names repository, file
    and lines of each recipe.

    >>> found = audit({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25})
    >>> round(found.recipe.deviation("down"), 8)
    0.00204124
    >>> found.defaults["initializer_range"]
    0.02
    """
    values, of = read(config)
    one = recognized(values, of, reader)
    held = read_configuration(one, section(one, values))
    found = one.build(held.values)
    recipe = _recipe(found)
    assumed = f"{one.assumed}, initialized as {found.row} ({found.source}); no file says so, the class does."
    ignored = (*held.ignored, *outside(one, values))
    return Audit(recipe, one.name, assumed, held.read, held.defaults, ignored, held.unknown)


def _recipe(found: Reading) -> Recipe:
    """The recipe at its sizes, with every matrix that all passes through drawn at random."""
    sizes = {name: value for name, value in found.sizes.items() if value is not None}
    row = RecipeRow(f"config: {found.row}", found.make, found.laws, sizes, found.source, found.more, found.notes)
    recipe = made(Recipe, replace(row, std=repr(found.std)), {})
    for kind in PASSES:
        if recipe.deviation(kind) == 0:
            raise MeanFieldError(f"The deviation of {kind} is 0, so that nothing passes it forward or backward.")
    return recipe


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
