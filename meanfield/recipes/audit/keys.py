"""Keys of configuration files as data, and how their values are taken: checked, defaulted, or refused."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import finite, flag, shown, whole
from meanfield.base.words import canonical, close

NEEDED = object()  # the default of a key without which nothing is known
LIKE = 0.84  # of difflib's ratio: from it on a key that nobody knows is taken for another one, misspelt
SIZE = 1 << 24
NAMING = ("model_type", "architectures")  # keys that say which class it is
OFF = (None, False, 0, "none", "None", "")  # values that switch something off


@dataclass(frozen=True)
class Key:
    """A key that fixes the law. kind: "size" (a whole number ≥ 1), "count" (≥ 0), "positive", "number" (≥ 0), "flag",
    "word" or "given" (anything that is not None); default: what the class takes where it is absent, `NEEDED` where
    nothing is audited without it; aliases: other names of the same, with "!" before one that means the opposite;
    instead: names that are asked where it is absent; what: its meaning; choices: words that it may be;
    off: whether null switches it off, where for others it is as if the key were absent."""

    name: str
    kind: str
    default: Any = NEEDED
    aliases: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    what: str = ""
    choices: tuple[str, ...] = ()
    off: bool = False

    def checked(self, value: Any, name: str) -> Any:
        """The value, if it is of this kind."""
        what = f"{name} of the configuration" + (f" ({self.what})" if self.what else "")
        if self.kind == "given":
            return value
        if self.kind == "flag":
            return flag(value, what)
        if self.kind == "word":
            if not isinstance(value, str):
                raise MeanFieldError(f"{what} must be a word, but {shown(value)} was given.")
            if self.choices and value not in self.choices:
                raise MeanFieldError(
                    f"{what} is {shown(value)}, which is not modelled; it is one of {', '.join(self.choices)}."
                )
            return value
        if isinstance(value, str):
            raise MeanFieldError(f"{what} must be a number, but the text {shown(value)} was given.")
        if self.kind in ("size", "count"):
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            return whole(value, what, 1 if self.kind == "size" else 0, SIZE)
        number = finite(value, what)
        if number < 0 or (number == 0 and self.kind == "positive"):
            reason = ", since nothing passes forward or backward at 0" if number == 0 else ""
            raise MeanFieldError(f"{what} must be > 0{reason}, but {number:g} was given.")
        return value


def size(name: str, default: Any = NEEDED, *aliases: str, what: str = "") -> Key:
    """A key that is a whole number ≥ 1."""
    return Key(name, "size", default, aliases, what=what)


def positive(name: str, default: Any, *aliases: str, what: str = "") -> Key:
    """A key that is a number > 0."""
    return Key(name, "positive", default, aliases, what=what)


def truth(name: str, default: Any, *aliases: str) -> Key:
    """A key that is true or false."""
    return Key(name, "flag", default, aliases)


def word(name: str, default: Any, *aliases: str, choices: tuple[str, ...] = ()) -> Key:
    """A key that is one of several words."""
    return Key(name, "word", default, aliases, choices=choices)


@dataclass(frozen=True)
class Refused:
    """A key whose value changes the law in a way that is not modelled, unless it is one of `fine`."""

    name: str
    what: str
    fine: tuple[Any, ...] = OFF


@dataclass(frozen=True)
class Reading:
    """What a reader makes of values: the public recipe that they are, the architecture as a function of its sizes, the
    laws of its matrices, the sizes, the base deviation, what a `Recipe` is told beside, and what is to be said."""

    row: str
    make: Callable[..., Any]
    laws: Mapping[str, object]
    sizes: Mapping[str, Any]
    std: object = 0.02
    more: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Reader:
    """How one kind of configuration is read.

    name: what `audit(reader=)` takes; assumed: the class that such a configuration builds, in words; build: from the
    values of its keys to what was found; types: values of model_type; classes: how names of its classes begin;
    ignored: patterns of keys that do not change the law; section: where its keys stand in a nested file; hyphens:
    whether its keys may be written with them.
    """

    name: str
    assumed: str
    keys: tuple[Key, ...]
    build: Callable[[KeyValues], Reading]
    types: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    ignored: tuple[str, ...] = ()
    section: str = ""
    hyphens: bool = False

    def knows(self, name: str) -> bool:
        """Whether it reads or refuses a key of this name."""
        return name in self.names or any(name == one.name for one in self.refused)

    @property
    def names(self) -> dict[str, Key]:
        """Every name of every key that it reads."""
        return {name.lstrip("!"): key for key in self.keys for name in (key.name, *key.aliases, *key.instead)}


class KeyValues:
    """The values of a reader's keys, as attributes (dots of nested keys written as underscores)."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name.replace(".", "_"): value for name, value in values.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._values[name]


@dataclass(frozen=True)
class ReadConfiguration:
    """What was taken of a configuration: the values of all keys; those that it had (read) and had not (defaults), as
    the configuration calls them; keys that do not change the law (ignored), and keys that nobody knows (unknown)."""

    values: KeyValues
    read: dict[str, Any]
    defaults: dict[str, Any]
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]


def read_configuration(reader: Reader, config: Mapping[str, Any]) -> ReadConfiguration:
    """The values of a reader's keys in a flat configuration. Raises: MeanFieldError for a value of another kind, two
    names of one thing that differ, a key that is missing, one that looks misspelt, and one that is refused."""
    _misspelt(reader, config)
    for one in reader.refused:
        nested = any(name.startswith(f"{one.name}.") for name in config)
        given = "a section of its own" if nested else config.get(one.name)
        if not any(type(given) is type(fine) and given == fine for fine in one.fine):
            raise MeanFieldError(
                f"The configuration has {one.name} = {shown(given)}: {one.what} changes the law and is not modelled."
            )
    values: dict[str, Any] = {}
    read: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for key in reader.keys:
        held = _given(key, config, (key.name, *key.aliases)) or _given(key, config, key.instead[:1])
        held = held or _given(key, config, key.instead[1:])
        if not held and key.default is NEEDED:
            raise MeanFieldError(
                f"The configuration has no {key.name}" + (f" ({key.what})" if key.what else "") + ", without which "
                f"{reader.assumed} fixes no law; give it."
            )
        null = next((name for name in (key.name, *key.aliases) if key.off and name in config), None)
        if held:
            name, value = next(iter(held.items()))
            values[key.name] = value
            read[name] = config[name]
        elif null is not None:
            values[key.name] = read[null] = None
        else:
            values[key.name] = defaults[key.name] = key.default
    read |= {name: config[name] for name in NAMING if config.get(name) is not None}
    partly = {name.split(".")[0] for name in read if "." in name}
    ignored: dict[str, None] = {}
    unread: dict[str, None] = {}
    for name in config:
        top = name.split(".")[0]
        if not reader.knows(name) and name not in NAMING:
            known = any(fnmatchcase(top, pattern) or fnmatchcase(name, pattern) for pattern in reader.ignored)
            (ignored if known else unread)[name if top in partly else top] = None
    return ReadConfiguration(KeyValues(values), read, defaults, tuple(ignored), tuple(unread))


def _given(key: Key, config: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Name → value of what the configuration calls this key; two that differ are refused."""
    held: dict[str, Any] = {}
    for name in names:
        plain = name.lstrip("!")
        if config.get(plain) is None:
            continue
        value = key.checked(config[plain], plain)
        held[plain] = (not value) if name.startswith("!") else value
    if len(set(map(repr, held.values()))) > 1:
        said = " and ".join(f"{name} = {shown(config[name])}" for name in held)
        raise MeanFieldError(f"The configuration contradicts itself: {said} are names of the same; leave one of them.")
    return held


def _misspelt(reader: Reader, config: Mapping[str, Any]) -> None:
    """Refuse a key that nobody knows and that looks like one that fixes the law and is absent."""
    absent = [name for name, key in reader.names.items() if not any(
        config.get(n.lstrip("!")) is not None for n in (key.name, *key.aliases))]  # fmt: skip
    for name in config:
        top = name.split(".")[0]
        if reader.knows(name) or name in NAMING or any(fnmatchcase(top, pattern) for pattern in reader.ignored):
            continue
        likely = close(name, absent)
        if likely is None:
            continue
        ratio = difflib.SequenceMatcher(None, name.lower(), likely.lower()).ratio()
        if ratio >= LIKE or canonical(name) == canonical(likely):
            raise MeanFieldError(
                f"The configuration has {name}, which {reader.assumed} does not know: did you mean {likely!r}?"
            )
