"""How commands are shown: the example first, flags without a type, and a line when one is interrupted."""

from __future__ import annotations

import inspect
from typing import Any

import typer.core

from meanfield.base.words import ELSEWHERE, absent, canonical, close
from meanfield.cli.terminal.options import CONVENTIONS


def _untyped(params: list[Any]) -> list[Any]:
    """Flags show no type: there is nothing to write behind them."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class Command(typer.core.TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            name = getattr(error, "option_name", None)  # an option that there is not
            if name is not None:
                own = [o for p in self.get_params(ctx) for o in p.opts if o.startswith("--")]
                found = close(name, own)
                if canonical(name) in ELSEWHERE:
                    error.message = f"No such option: {name}. Here {ELSEWHERE[canonical(name)]}."  # type: ignore
                    error.possibilities = []  # type: ignore[attr-defined]
                elif found is not None:
                    error.possibilities = [found]  # type: ignore[attr-defined]
            raise


class ProgramGroup(typer.core.TyperGroup):
    """The program."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        verb = args[0] if args else ""
        if not verb.startswith("-") and self.get_command(ctx, verb) is None:
            names = self.list_commands(ctx)
            found = close(verb, names)
            hint = f"There is no verb {verb!r}: did you mean {found!r}?" if found else absent("meanfield", verb, names)
            ctx.fail(f"{hint}\nmeanfield --help says what each does.")
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return _untyped(super().get_params(ctx))


def help_text(function: Any, example: str) -> str:
    """The help of a verb: what it does, an example, then the rest of its docstring, a line for each paragraph, as
    terminals of any width break it."""
    first, *rest = (" ".join(part.split()) for part in inspect.cleandoc(function.__doc__).split("\n\n"))
    return "\n\n".join((first, f"Example: meanfield {example}", *rest))


def conventions(verb: str) -> str | None:
    """What the symbols mean, below the help of verbs that use them."""
    return None if verb in ("activations", "doctor") else CONVENTIONS


#: verb → how its work goes on after an interruption
GOES_ON = {
    "check": "with --checkpoint FOLDER the same command goes on where it was",
    "measure": "with --checkpoint FILE the same command goes on where it was",
    "kernel": "the same command goes on with the blocks that are in its file",
    "reproduce": "the same command goes on from the records in its folder",
    "explore": "no page is served any more",
}


def interrupted(arguments: list[str]) -> str:
    """The line that is left when a command is interrupted."""
    verb = next((a for a in arguments if not a.startswith("-")), "")
    if any(a.split("=")[0] == "--checkpoint" for a in arguments):
        return "interrupted; the same command goes on where it was."
    return f"interrupted; {GOES_ON.get(verb, 'the same command with the same seed gives the same numbers')}."
