"""A recipe: an architecture, the law that each kind of its matrices is drawn by, and its sizes."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from meanfield.base.answers.export import Result
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import flag, record, shown, whole
from meanfield.base.words import unknown
from meanfield.networks.architectures import PRESETS, usual_activation
from meanfield.networks.folds import dense_of, with_dense
from meanfield.networks.records import Block, Constant, Dense, Network, Number, Schedule
from meanfield.networks.roles import HEADS, roles_of
from meanfield.recipes.description.matrix_laws import Law, cut_deviation, law_of
from meanfield.theory.deriving import derive
from meanfield.theory.theory import Theory
from meanfield.tuning.dense_layers import kinds
from meanfield.tuning.recommendation.token_networks import largest, sized

OUTSIDE_BLOCK = ("token", "position", "token bias", "head", "bias")  # kinds that are no Dense of the block
_MOST = 1 << 24


@record
@dataclass(frozen=True, eq=False)
class Described(Result):
    """What a `Recipe` holds: an architecture and the laws of its matrices at given sizes."""

    architecture: Network
    laws: Mapping[str, Law]
    depth: int
    width: int
    context: int = 1024
    vocabulary: int | None = None
    tied: bool = False
    input_norm: bool = False
    final_norm: bool = True
    name: str = "own"
    source: str = ""
    notes: tuple[str, ...] = ()
    _network: Network = field(init=False, repr=False)

    def __init__(
        self, architecture: object, laws: Mapping[str, object], *, depth: object, width: object, context: object = 1024,
        vocabulary: object = None, tied: bool = False, input_norm: bool = False, final_norm: bool = True,
        name: str = "own", source: str = "", notes: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        put = object.__setattr__
        for key, value in (("depth", depth), ("width", width), ("context", context)):
            put(self, key, whole(value, f"The {key} of a recipe", 2 if key == "context" else 1, _MOST))
        put(self, "vocabulary", None if vocabulary is None else whole(vocabulary, "The vocabulary", 1, 1 << 40))
        for key, given in (("tied", tied), ("input_norm", input_norm), ("final_norm", final_norm)):
            put(self, key, flag(given, key))
        texts = (name, source, *((notes,) if isinstance(notes, str) else notes))
        if not all(isinstance(one, str) for one in texts):
            raise MeanFieldError(f"name, source and notes of a recipe are text, but {shown(texts)} was given.")
        for key, words in (("name", name), ("source", source), ("notes", texts[2:])):
            put(self, key, words)
        put(self, "architecture", _network_of(architecture))
        if not isinstance(laws, Mapping):
            raise MeanFieldError(
                f"The laws of a recipe are given by kind of matrix, {{'query': 0.02, …}}, but {shown(laws)} was given."
            )
        put(self, "laws", {str(kind): law_of(law, f"The law of {kind}") for kind, law in laws.items()})
        self._refuse()
        put(self, "_network", _with_numbers(self))

    def _refuse(self) -> None:
        held = self.roles
        known = (*held, *OUTSIDE_BLOCK, *(f"{one} bias" for one in held))
        for kind in self.laws:
            if kind not in known:
                raise unknown("kind of matrix of this recipe", kind, known)
        needed = ("token", *held)
        missing = [kind for kind in needed if kind not in self.laws]
        if missing:
            raise MeanFieldError(
                f"The recipe has no law for {', '.join(missing)}; its kinds of matrices are {', '.join(needed)}."
            )
        heads = largest(self.architecture.block, lambda one: one.heads if one.key_dim is None else 1)
        if heads and self.width % heads:
            raise MeanFieldError(
                f"The heads of an Attention divide its width, but {heads} heads of width {self.width} were given; a "
                "preset takes heads=, as in meanfield.architectures.gpt(heads=4)."
            )
        for kind in self.laws:
            self.deviation(kind)  # what a law needs and has not is said here

    @property
    def roles(self) -> tuple[str, ...]:
        """The kinds of the block's matrices, in the order in which signals meet them."""
        return roles_of(self.architecture.block)

    @property
    def heads(self) -> int | None:
        """The heads of its attention; None without attention."""
        return largest(self.architecture.block, lambda one: one.heads) or None

    @property
    def network(self) -> Network:
        """The record with the standard deviations of this recipe as numbers (a `Schedule` where they go with l)."""
        return self._network

    @property
    def theory(self) -> Theory:
        """`meanfield.derive(architecture=self.network)`."""
        return derive(architecture=self._network)

    @property
    def sigmas(self) -> dict[str, float]:
        """σ_w of every kind of matrix, its deviation times √fan-in (in the first block), and that of the embeddings as
        "input"."""
        found = {"input": float(self._network.first.sigma_w)}  # type: ignore[arg-type]
        for role, one in zip(self.roles, dense_of(self._network.block)):
            held = one.sigma_w.value if isinstance(one.sigma_w, Schedule) else one.sigma_w
            found[role] = float(held)  # type: ignore[arg-type]
        return found

    def sizes(self, role: str = "") -> dict[str, object]:
        """What the letters of a law stand for; with the role of a matrix, its fan-in and fan-out, too ("bias": those of
        the first matrix)."""
        return _sizes(self, role)

    @property
    def told(self) -> str:
        """All that it is told, as text: two recipes of one text are one recipe."""
        own = (self.architecture, sorted((k, repr(v)) for k, v in self.laws.items()), self.depth, self.width)
        return repr((*own, self.context, self.vocabulary, self.tied, self.input_norm, self.final_norm, self.name))

    def deviation(self, kind: str, block: int = 1) -> float:
        """The standard deviation of the entries of a kind of matrix in the forward pass."""
        if kind not in self.laws:
            raise unknown("kind of matrix of this recipe", kind, tuple(self.laws))
        return self.laws[kind].true_deviation(self.sizes(kind) | {"l": block})

    def with_laws(self, name: str | None = None, **laws: object) -> Self:
        """The same recipe with other laws for some kinds: `recipe.with_laws(token=1)`."""
        made = {kind: law_of(law, f"The law of {kind}") for kind, law in laws.items()}
        own = {f: getattr(self, f) for f in ("context", "vocabulary", "tied", "input_norm", "final_norm", "notes")}
        return type(self)(
            self.architecture, {**self.laws, **made}, depth=self.depth, width=self.width, source=self.source,
            name=self.name if name is None else name, **own,
        )  # fmt: skip

    def at_tokens(self, tokens: int) -> Self:
        """The same recipe for so many tokens, where a law holds their number T; else itself."""
        if tokens == self.context or not any(law.holds("T") for law in self.laws.values()):
            return self
        own = {f: getattr(self, f) for f in ("vocabulary", "tied", "input_norm", "final_norm", "notes")}
        return type(self)(
            self.architecture, self.laws, depth=self.depth, width=self.width, context=tokens, source=self.source,
            name=self.name, **own,
        )  # fmt: skip

    def torch(self) -> str:
        """Code for PyTorch: `init_(weight, kind, block)` draws one matrix in place, as this recipe does."""
        return "\n".join(_torch(self))

    def data(self) -> dict[str, Any]:
        """Name, sizes, laws, the true standard deviations and σ_w by kind of matrix, source and notes."""
        names = ("name", "depth", "width", "context", "vocabulary", "tied", "input_norm", "final_norm", "source")
        found = {n: getattr(self, n) for n in names} | {"heads": self.heads, "notes": list(self.notes)}
        rows = {k: {"law": str(v), "deviation": self.deviation(k)} for k, v in self.laws.items()}
        return found | {"laws": rows, "sigmas": self.sigmas, "record": repr(self.network)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, depth={self.depth}, width={self.width})"

    def __str__(self) -> str:
        out = [f"{self.name}: {self.depth} blocks, width {self.width}" + (f"; {self.source}" if self.source else "")]
        for kind, law in self.laws.items():
            out.append(f"  {kind:<10}{self.deviation(kind):>12.6g}   {law}")
        return wrapped("\n".join(out + [f"  note: {one}" for one in self.notes]))


def _network_of(architecture: object) -> Network:
    if isinstance(architecture, str):
        if usual_activation(architecture) is None:
            raise MeanFieldError(
                f"The preset {architecture} needs an activation; give meanfield.architectures.{architecture}('relu')."
            )
        architecture = PRESETS[architecture]()
    if isinstance(architecture, Network):
        return architecture
    if isinstance(architecture, Block):
        return Network(architecture, Dense(sigma_b=0))
    raise MeanFieldError(
        "The architecture of a recipe is a Network, a block, or a preset's name such as 'gpt', but "
        f"{shown(architecture)} was given."
    )


def _number(value: object) -> object:
    """A size in a formula: a whole number where it is one."""
    if value is None:
        return None
    held = float(value)  # type: ignore[arg-type]
    return int(held) if held == int(held) else repr(held)


def _sizes(recipe: Described, role: str) -> dict[str, object]:
    block, d = recipe.architecture.block, recipe.width
    of = recipe.roles[0] if role == "bias" else role.removesuffix(" bias")
    each = dict(zip(recipe.roles, kinds(block)))
    heads = largest(block, lambda one: one.heads)
    h = largest(block, lambda one: one.key_dim or 0) or (d // heads if heads else None)
    groups = largest(block, lambda one: one.key_heads)
    v = largest(block, lambda one: one.value_dim or 0) or h
    hidden = [float(k.made) * d for k in each.values() if k.axis == "neurons" and k.made not in (None, 1)]
    found: dict[str, object] = {
        "d": d, "f": _number(max(hidden, default=d)), "h": h, "H": heads or None, "L": recipe.depth, "l": 1,
        "T": recipe.context, "V": recipe.vocabulary,
    }  # fmt: skip
    if of in each:
        kind = each[of]
        size = recipe.context if kind.axis == "tokens" else d
        n, m = (None if one is None else float(one) * size for one in (kind.fan, kind.made))
        if of.startswith(HEADS) and h is not None and v is not None:
            m = heads * h if of.startswith("query") else groups * (h if of.startswith("key") else v)
        if of.startswith("output") and v is not None:
            n = heads * v
        found |= {"n": _number(n), "m": _number(m)}
    elif of in ("token", "position"):
        found |= {"n": d, "m": d}
    elif of == "head":
        found |= {"n": d, "m": recipe.vocabulary}
    return found


def _with_numbers(recipe: Described) -> Network:
    """The record with σ_w = √fan-in times the deviation of every kind, exact where it is an exact number."""
    held, laws = recipe.roles, recipe.laws

    def of(law: Law, sizes: dict[str, object], factor: str) -> Number | Schedule:
        power, value = law.power(sizes), law.number(sizes, factor)
        return value if power == 0 else Schedule(value, power)

    def put(at: int, one: Dense) -> Dense:
        role = held[at]
        sizes = recipe.sizes(role)
        bias = laws.get(f"{role} bias", laws.get("bias"))
        sigma_b = 0 if bias is None else of(bias, sizes, "1")
        return replace(one, sigma_w=of(laws[role], sizes, "sqrt(n)"), sigma_b=sigma_b)

    block = sized(with_dense(recipe.architecture.block, put), recipe.width)
    parts = [recipe.deviation(kind) for kind in ("token", "position") if kind in laws]
    size = parts[0] if len(parts) == 1 else math.hypot(*parts)
    shared = recipe.deviation("token bias") if "token bias" in laws else 0.0
    if not 0 < size < math.inf:
        raise MeanFieldError(
            f"The embeddings of recipe {recipe.name} have size {size:g}, so that nothing enters the first block; give "
            "token= a deviation > 0."
        )
    if recipe.input_norm:
        size, shared = size / math.hypot(size, shared), shared / math.hypot(size, shared)
    return Network(block, Dense(sigma_w=Constant(repr(size)), sigma_b=Constant(repr(shared)) if shared else 0))


_CALLS = re.compile(r"\b([a-z]+)(?=\()|\b(pi)\b")


def _torch(recipe: Described) -> list[str]:
    out = [
        "import math", "import torch", "",
        *_commented(f"{recipe.name}: {recipe.depth} blocks, width {recipe.width}. {recipe.source}".rstrip()),
        *(line for one in recipe.notes for line in _commented(one)),
        "@torch.no_grad()", "def init_(weight, kind, block=1):",
        '    """Draws one weight in place; kind: what it is for; block: its number, from 1."""',
    ]  # fmt: skip
    lines: dict[tuple[str, str], list[str]] = {}
    laws = {kind: law for kind, law in recipe.laws.items() if kind != "bias"}
    if "bias" in recipe.laws:
        laws = {f"{role} bias": recipe.laws["bias"] for role in recipe.roles} | laws
    for kind, law in laws.items():
        written = law.written(recipe.sizes(kind) | {"l": "block"}).replace("^", "**")
        text = _CALLS.sub(lambda found: f"math.{found.group()}", written)
        how = {
            "normal": f"weight.normal_(0.0, {text})",
            "uniform": f"weight.uniform_(-({text}), {text})",
            "orthogonal": f"torch.nn.init.orthogonal_(weight, {text})",
            "truncated": _truncated(law, text),
        }[law.shape]
        lines.setdefault((how, str(law)), []).append(kind)
    for number, ((how, said), kinds_) in enumerate(lines.items()):
        which = f"kind == {kinds_[0]!r}" if len(kinds_) == 1 else f"kind in ({', '.join(map(repr, kinds_))})"
        out += [f"    {'elif' if number else 'if'} {which}:", f"        # {said}", f"        {how}"]
    return [*out, "    else:", '        raise ValueError(f"no kind of matrix is called {kind}")']


def _commented(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


def _truncated(law: Law, text: str) -> str:
    """trunc_normal_ takes the deviation before the cut, and the ends in absolute numbers."""
    size = f"({text}) / {cut_deviation(law.cut)!r}" if law.corrected else f"({text})"
    end = repr(law.cut) if law.absolute else f"{law.cut!r} * {size}"
    return f"torch.nn.init.trunc_normal_(weight, 0.0, {size}, -({end}), {end})"
