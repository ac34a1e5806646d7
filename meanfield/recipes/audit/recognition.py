"""Which reader a configuration is for: by what it says of its class, else by its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, shown
from meanfield.base.words import close
from meanfield.recipes.audit import encoders, hugging_face, megatron, nano, olmo
from meanfield.recipes.audit.configurations import flat
from meanfield.recipes.audit.keys import NEEDED, Reader

READERS = {
    one.name: one
    for one in (*hugging_face.READERS, *encoders.READERS, *olmo.READERS, *megatron.READERS, *nano.READERS)
}
_BEHIND = r"(For\w+|LMHead\w*|Model\w*|Encoder\w*|DoubleHeads\w*|Config\w*|ViT\w*)?$"


def section(reader: Reader, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a nested configuration in which a reader's keys stand, flat."""
    held = config.get(reader.section) if reader.section else None
    return flat(held if isinstance(held, Mapping) and held else config, reader.hyphens)


def outside(reader: Reader, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a nested configuration that stand outside of a reader's section."""
    if not reader.section or not isinstance(config.get(reader.section), Mapping):
        return ()
    return tuple(name for name in config if name != reader.section)


def recognized(config: Mapping[str, Any], made: str, wanted: object = None) -> Reader:
    """The reader for a configuration. made: the name of the class that it is an object of; wanted: the reader's name,
    where it was given. Raises: MeanFieldError where it could be several, or none."""
    if wanted is not None:
        return READERS[choice(wanted, "reader", tuple(READERS))]
    named = _typed(config) or _of_class(made)
    if named is not None:
        return named
    counts = {one.name: _known(one, config) for one in READERS.values()}
    most = max(counts.values())
    best = [name for name, count in counts.items() if count == most]
    if most < 2:
        raise MeanFieldError(
            "The configuration says no model_type, and its keys are those of no reader; give it whole, or say whose it "
            f"is by reader=, one of {', '.join(READERS)}."
        )
    if len(best) > 1:
        more = " or its model_type" if any(READERS[name].types for name in best) else ""
        raise MeanFieldError(
            f"The configuration could be one of {', '.join(best)}, which are initialized otherwise; say which by "
            f"reader={best[0]!r}{more}."
        )
    return READERS[best[0]]


def _typed(config: Mapping[str, Any]) -> Reader | None:
    """By model_type and architectures, as Hugging Face's files have them."""
    kind, classes = config.get("model_type"), config.get("architectures")
    first = str(classes[0]) if isinstance(classes, list) and classes else None
    by_type = by_class = None
    if kind is not None:
        by_type = next((one for one in READERS.values() if kind in one.types), None)
        if by_type is None:
            known = [name for one in READERS.values() for name in one.types]
            likely = close(kind, known) if isinstance(kind, str) else None
            hint = f" {likely} is another class; reader={likely!r} reads it as that." if likely else ""
            raise MeanFieldError(
                f"model_type {shown(kind)} is not read here; those that are: {', '.join(known)}.{hint}"
            )
    if first is not None:
        by_class = _of_class(first)
        if by_class is None and by_type is None:
            raise MeanFieldError(
                f"The configuration is for {shown(first)}, which is not read here; reader= reads it as one of "
                f"{', '.join(READERS)}."
            )
    if by_type is not None and by_class is not None and by_type is not by_class:
        raise MeanFieldError(
            f"The configuration contradicts itself: its model_type is {kind}, and its architectures is {first}; "
            f"leave one of them, or say reader={by_type.name!r}."
        )
    return by_type or by_class


def _of_class(name: str) -> Reader | None:
    found = [(len(c), one) for one in READERS.values() for c in one.classes if re.match(re.escape(c) + _BEHIND, name)]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _known(reader: Reader, config: Mapping[str, Any]) -> int:
    """How many keys of a configuration a reader reads or refuses; 0 where most of those that it needs are missing."""
    held = section(reader, config)
    names = reader.names
    needed = [key for key in reader.keys if key.default is NEEDED]
    there = [key for key in needed if any(n.lstrip("!") in held for n in (key.name, *key.aliases))]
    if len(there) < max(1, len(needed) - 1) or (reader.types and "model_type" not in config and _foreign(held, names)):
        return 0
    return sum(reader.knows(name) for name in held)


def _foreign(held: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Whether a configuration without a model_type is none of Hugging Face's: it has nested keys that are unknown."""
    return any("." in name and name not in names for name in held)
