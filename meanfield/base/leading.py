"""What names lead to that is not loaded yet: an entry of a registry to its home, a name that the package does not have
to what was meant. Nothing is imported before it is asked for."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Generic, TypeVar

Key = TypeVar("Key")
Entry = TypeVar("Entry")
Made = TypeVar("Made")


class Registry(UserDict[Key, Entry], Generic[Key, Entry]):
    """What is registered for types, or for names: by a decorator, wherever the module that does it is imported.

    Of the library's own, rare ones are not imported before they are met: `rare` says which module registers them, and
    a look-up imports it. So does who registers another entry for such a type, which is then the last one and stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.homes: dict[str, str] = {}

    def rare(self, homes: Mapping[str, str]) -> None:
        """The module that registers each of these: name (a type's with its module's) → module, within the package."""
        self.homes |= homes

    def adds(self, *keys: Key) -> Callable[[Made], Made]:
        """Decorator: the entry of each of these."""

        def put(entry: Made) -> Made:
            for key in keys:
                self[key] = entry  # type: ignore[assignment]
            return entry

        return put

    def __missing__(self, key: Key) -> Entry:
        """The entry of one that is rare."""
        self._fetch(key)
        return self.data[key]

    def __setitem__(self, key: Key, entry: Entry) -> None:
        self._fetch(key)
        super().__setitem__(key, entry)

    def _fetch(self, key: Key) -> None:
        home = self.homes.get(_name(key))
        if home is not None:
            import_module(f"meanfield.{home}")

    def __contains__(self, key: object) -> bool:
        try:
            self[key]  # type: ignore[index]
        except KeyError:
            return False
        return True

    @property
    def names(self) -> tuple[Key | str, ...]:
        """Those of its tables, then what else is registered."""
        return tuple(dict.fromkeys((*self.homes, *self.data)))

    def nearest(self, kind: type) -> Entry | None:
        """The entry of a type, else of the first of its bases that has one."""
        return next((self[one] for one in kind.__mro__ if one in self), None)  # type: ignore[index]


def _name(key: object) -> str:
    if not isinstance(key, type):
        return str(key)
    name = f"{key.__module__}.{key.__qualname__}"
    return name.removeprefix("meanfield.") if name.startswith("meanfield.") else ""


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
