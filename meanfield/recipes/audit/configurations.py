"""Configurations of any source as one flat mapping: dictionaries, objects, JSON, YAML, and lines of arguments.

Nothing of a file is executed: JSON and YAML are parsed as plain data, arguments are split as a shell splits them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shlex
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from meanfield.base.answers.export import needed
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown

BYTES = 4_000_000  # of a file
DEPTH = 40  # of what is nested
PARTS = 200_000  # values in all
LINE = "arguments"
_ARGUMENT = re.compile(r"(^|\s)--[A-Za-z]")
_FLOAT = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+")


class _Line(dict):
    """What a line of arguments says."""


def read(config: Any) -> tuple[dict[str, Any], str]:
    """A configuration as nested plain values, and the name of the class that it is an object of (`LINE` for a line
    of arguments, "" for none)."""
    if isinstance(config, str) and config.lstrip()[:1] == "{":
        return _plain(_json(_short(config), "The text")), ""
    if isinstance(config, str) and _ARGUMENT.search(config):
        return _plain(_arguments(_short(config))), LINE
    if isinstance(config, (str, os.PathLike)):
        found = _file(config)
        return _plain(found), LINE if isinstance(found, _Line) else ""
    if isinstance(config, Mapping):
        return _plain(config), ""
    return _plain(_object(config)), type(config).__name__


def flat(config: Mapping[str, Any], hyphens: bool = False) -> dict[str, Any]:
    """Nested mappings as one, with dots in its keys. hyphens: written as underscores."""
    out: dict[str, Any] = {}

    def put(name: str, value: Any) -> None:
        if isinstance(value, Mapping) and value:
            for key, inner in value.items():
                put(f"{name}.{key}" if name else str(key), inner)
            return
        plain = name.replace("-", "_") if hyphens else name
        if plain in out and out[plain] != value:
            raise MeanFieldError(
                f"The configuration contradicts itself: {name} is {shown(value)} and, spelt {plain}, "
                f"{shown(out[plain])}; leave one of them."
            )
        out[plain] = value

    put("", config)
    return out


def _short(text: str) -> str:
    if len(text) > BYTES:
        raise MeanFieldError(f"A configuration has at most {BYTES} characters, but {len(text)} were given.")
    return text


def _file(given: Any) -> Any:
    try:
        path = Path(given)
        if path.is_dir():
            raise MeanFieldError(f"{path} is a folder; give the configuration file in it, such as config.json.")
        if not path.is_file():
            raise MeanFieldError(
                f"{shown(str(given))} was given as a configuration, but there is no such file, and it is no JSON text."
            )
        if path.stat().st_size > BYTES:
            raise MeanFieldError(f"{path} has {path.stat().st_size} bytes; a configuration has at most {BYTES}.")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise MeanFieldError(f"{path} is no text file, so that it is no configuration.") from None
    except (OSError, ValueError) as error:
        raise MeanFieldError(f"{shown(str(given))} cannot be read as a configuration ({error}).") from None
    if path.suffix in (".yaml", ".yml"):
        return _yaml(text, str(path))
    if path.suffix != ".json" and text.lstrip()[:1] != "{" and _ARGUMENT.search(text):
        return _arguments(text)
    return _json(text, str(path))


def _json(text: str, what: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        held: dict[str, Any] = {}
        for key, value in pairs:
            if key in held and held[key] != value:
                raise MeanFieldError(
                    f"{what} contradicts itself: {key} is {shown(held[key])} and {shown(value)}; leave one of them."
                )
            held[key] = value
        return held

    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise MeanFieldError(f"{what} is nested too deeply to be a configuration.") from None
    except ValueError as error:
        raise MeanFieldError(f"{what} is no JSON ({error}); a configuration is a file or text of JSON.") from None


def _yaml(text: str, what: str) -> Any:
    yaml = needed("yaml", "A configuration in YAML", "pyyaml")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Plain data alone; 1e-6 is a number, as it is to whoever writes it."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if isinstance(key.value, str) and key.value != "<<"]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise MeanFieldError(f"{what} contradicts itself: {twice} stands there twice; leave one of them.")
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    try:
        return yaml.load(text, Loader=Loader)
    except RecursionError:
        raise MeanFieldError(f"{what} is nested too deeply to be a configuration.") from None
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        said = " ".join(str(error).split())[:200]
        raise MeanFieldError(f"{what} is no YAML of plain values ({said}).") from None


def _arguments(text: str) -> _Line:
    """--num-layers 24 --swiglu as {"num_layers": 24, "swiglu": True}."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise MeanFieldError(f"The arguments could not be split ({error}).") from None
    held: list[tuple[str, list[str]]] = []
    for one in words:
        if one.startswith("--"):
            name, _, first = one[2:].partition("=")
            held.append((name.replace("-", "_"), [first] if first else []))
        elif held:
            held[-1][1].append(one)
    out = _Line()
    for name, given in held:
        value: Any = True if not given else _scalar(given[0]) if len(given) == 1 else [_scalar(v) for v in given]
        if name in out and out[name] != value:
            raise MeanFieldError(f"The arguments contradict themselves: --{name} stands there twice; leave one.")
        out[name] = value
    return out


def _scalar(text: str) -> Any:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    for kind in (int, float):
        try:
            return kind(text) if len(text) < 40 else text
        except ValueError:
            continue
    return text


def _object(config: Any) -> Mapping[str, Any]:
    if isinstance(config, type):
        raise MeanFieldError(f"{config.__name__} is a class; give a configuration that was made of it.")
    if callable(getattr(config, "to_dict", None)):
        found = config.to_dict()
        if isinstance(found, Mapping):
            return found
        raise MeanFieldError(f"The to_dict() of a {type(config).__name__} gave {shown(found)}, which is no mapping.")
    if hasattr(config, "config") and hasattr(config, "parameters"):
        raise MeanFieldError(f"A {type(config).__name__} is a model; give its configuration, model.config.")
    if dataclasses.is_dataclass(config):
        return {f.name: getattr(config, f.name, None) for f in dataclasses.fields(config)}
    if hasattr(config, "__dict__") and vars(config):
        return vars(config)
    raise MeanFieldError(
        "A configuration is a dictionary, the path of a file (config.json, .yaml, .yml), JSON text, a line of "
        f"arguments (--num-layers 24 …), or an object with to_dict() or attributes, but {shown(config)} was given."
    )


def _plain(config: Any) -> dict[str, Any]:
    """The same as plain values, of limited size; functions and classes are known by their names."""
    if not isinstance(config, Mapping):
        raise MeanFieldError(f"A configuration is a mapping of names to values, but {shown(config)} was read.")
    parts = 0

    def of(value: Any, depth: int, where: str) -> Any:
        nonlocal parts
        parts += 1
        if depth > DEPTH or parts > PARTS:
            raise MeanFieldError(
                f"The configuration is nested deeper than {DEPTH} levels or holds more than {PARTS} values."
            )
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return value
        if isinstance(value, (int, float)):
            if isinstance(value, float) and not math.isfinite(value):
                raise MeanFieldError(f"{where or 'A value'} of the configuration is {value}, not a finite number.")
            return value
        if isinstance(value, Mapping):
            return {str(k): of(v, depth + 1, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [of(v, depth + 1, where) for v in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: of(getattr(value, f.name, None), depth + 1, f.name) for f in dataclasses.fields(value)}
            return {"_CLASS_": type(value).__name__, **fields}
        return getattr(value, "__name__", None) or f"a {type(value).__name__}"

    found = of(config, 0, "")
    assert isinstance(found, dict)
    return found
