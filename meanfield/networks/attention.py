"""Softmax attention, the record that lets the tokens of an input act on each other by what they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, flag, record, shown, whole
from meanfield.networks.records import Block, Dense, Number, Param, exact

SCALES = ("1/sqrt(d)", "1/d")
PLAIN = Dense()
ROTARY = 10_000  # the usual base of rotary positions
_MOST = 1 << 24


@record
@dataclass(frozen=True, repr=False)
class Attention(Block):
    """x_t → Σ_s A_ts v_s in every head, A_t = softmax_s(q_t·k_s/√d), with q, k, v three Dense of x; the heads side by
    side.

    heads: how many, H ≥ 1. query, key, value: each a `Dense` on neurons with its own σ_w and σ_b; their neurons are
    split among the heads. The next Dense, the output matrix, makes a Gaussian of what leaves. key_dim, value_dim: d,
    the neurons of q and k in one head, and those of v; N/H unless given, N the neurons of the layer that is made.
    causal: whether token t sees the tokens s ≤ t alone (itself among them). scale: "1/sqrt(d)", or "1/d". rotary:
    whether q and k are turned by their position (True: base 10 000, or another base > 1); d is then even. groups: how
    many heads of keys and values there are, a divisor of H; each serves H/groups heads of queries. qk_norm: whether
    the q and k of a head are divided by their root mean square.

    Raises: MeanFieldError for counts that do not fit, and for another record than a Dense. Source: [2005.14165] for the
    record; what the theory says of it is derived here.

    >>> Sequential((LayerNorm(), Attention(12, causal=True), Dense()))
    Sequential((LayerNorm(), Attention(12, causal=True), Dense()))
    """

    heads: int
    key_dim: int | None = None
    value_dim: int | None = None
    causal: bool = False
    scale: str = "1/sqrt(d)"
    rotary: Number = 0
    groups: int | None = None
    qk_norm: bool = False
    query: Dense = PLAIN
    key: Dense = PLAIN
    value: Dense = PLAIN

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "heads", whole(self.heads, "The number of heads", 1, _MOST))
        for name in ("key_dim", "value_dim", "groups"):
            if getattr(self, name) is not None:
                put(self, name, whole(getattr(self, name), f"{name} of an Attention", 1, _MOST))
        for name in ("causal", "qk_norm"):
            put(self, name, flag(getattr(self, name), name))
        choice(self.scale, "scale", SCALES)
        put(self, "rotary", _base(self.rotary))
        if self.groups is not None and self.heads % self.groups:
            raise MeanFieldError(
                f"groups must divide the number of heads, but {self.groups} groups of {self.heads} heads were given."
            )
        if self.rotary and self.key_dim is not None and self.key_dim % 2:
            raise MeanFieldError(f"rotary turns pairs of neurons, so that key_dim is even, but it is {self.key_dim}.")
        for name in ("query", "key", "value"):
            given: object = getattr(self, name)
            if not isinstance(given, Dense) or given.axis != "neurons":
                raise MeanFieldError(
                    f"The {name} of an Attention is a Dense on neurons, as in Attention(8, {name}=Dense(sigma_w=1)), "
                    f"but {shown(given)} was given."
                )
            if given.expand != 1:
                raise MeanFieldError(
                    f"The neurons of the {name} of an Attention are key_dim and value_dim times its heads, but expand "
                    f"= {shown(given.expand)} was given; give key_dim= or value_dim=."
                )

    @property
    def mixes(self) -> str:
        return "tokens"

    @property
    def attends(self) -> bool:
        return True

    @property
    def key_heads(self) -> int:
        """How many heads of keys and values there are."""
        return self.heads if self.groups is None else self.groups

    def ways(self) -> tuple[Block, ...]:
        return self.query, self.key, self.value

    def inner(self) -> tuple[Block, ...]:
        return self.ways()

    def with_inner(self, made: tuple[Block, ...]) -> Block:
        query, key, value = made
        return replace(self, query=query, key=key, value=value)  # type: ignore[arg-type]


def _base(rotary: object) -> Number:
    if isinstance(rotary, bool):
        return ROTARY if rotary else 0
    base = exact(rotary, "The base of rotary positions")
    if isinstance(base, Param) or (base != 0 and not float(base) > 1):
        raise MeanFieldError(f"rotary is True, False, or a base > 1, but {shown(rotary)} was given.")
    return base
