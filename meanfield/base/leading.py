"""What a name that the package does not have leads to; nothing is imported before one is asked for."""

from __future__ import annotations

from collections.abc import Callable

ROOMS = (
    "networks", "architectures", "symbolic", "kernels", "bias", "empirical", "presentation", "training", "tuning",
    "data", "recipes",
)  # fmt: skip


def leading(
    loaded: Callable[[str], object], names: Callable[[], list[str]], known: list[str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The three of `lazy_loader.attach_stub`, whose first says of a name that is not there what to call instead."""

    def found(name: str) -> object:
        if name in known or name.startswith("_"):
            try:
                return loaded(name)
            except ModuleNotFoundError as error:
                from meanfield.base.errors import lacking

                raise lacking(name, error) from None
        from meanfield.base.words import ELSEWHERE, WORDS, absent, canonical, close

        for room in ROOMS:  # what belongs to a room is not listed at the top
            if room in known and name in dir(loaded(room)):
                raise AttributeError(f"meanfield has no {name!r}: it is meanfield.{room}.{name}.")
        Theory = loaded("Theory")
        own, verbs = canonical(name), [n for n in dir(Theory) if not n.startswith("_") and callable(getattr(Theory, n))]
        here = own in ELSEWHERE or any(word in known for word in WORDS.get(own, "").split())
        top, verb = close(name, known), None if here else close(name, verbs)
        if verb is not None and (top is None or canonical(top)[:4] != own[:4]):
            raise AttributeError(f"meanfield has no {name!r}: a theory has {verb}, mf.derive(...).{verb}(...).")
        raise AttributeError(absent("meanfield", name, known))

    return found, names, known
