"""The architectures of public recipes as functions of their sizes: transformers of one shape, and plain networks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.attention import Attention
from meanfield.networks.records import (
    AffineNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Network,
    Nonlinearity,
    Number,
    Param,
    Residual,
    RMSNorm,
    Scale,
    Schedule,
    Sequential,
    exact,
)
from meanfield.networks.transformers import dyt
from meanfield.recipes.description.matrix_laws import with_sizes

PLAIN = Dense(sigma_w=Param("sigma"), sigma_b=0)  # its deviation is put in by a recipe
FIRST = Dense(sigma_w=Param("sigma_e"), sigma_b=0)


@dataclass(frozen=True)
class Transformer:
    """From sizes to a network of attention and a feed-forward branch, whose deviations are open.

    activation: φ; gated: whether the feed-forward branch is u ⊙ φ(v). norm: "layer", "rms", "none", or α of a tanh(αz)
    that stands in a norm's place, of both branches or as "α,α"; affine: whether norms have trained gains. place: where
    norms stand, "pre", "post" (behind each sum), "peri" (before and behind each branch), "behind" (the branch alone).
    by_block: whether what leaves the norm before a branch is divided by √l. inner: which branches have a norm before
    their last matrix, of "output" and "down"; after: which have one behind it. parallel: whether both branches are
    given the same signal. skip, branch: the factors of the two sides of a sum, formulas in the number L of blocks.
    causal, rotary, qk_norm, scale: as an `Attention` has them; head: neurons of q, k and v in a head, where they are
    not width/heads.
    """

    activation: str = "gelu"
    gated: bool = False
    norm: str = "layer"
    affine: bool = True
    place: str = "pre"
    by_block: bool = False
    inner: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    parallel: bool = False
    skip: str = "1"
    branch: str = "1"
    causal: bool = True
    rotary: Number | bool = False
    qk_norm: bool = False
    scale: str = "1/sqrt(d)"
    head: int | None = None

    def __call__(
        self, *, depth: int, width: int, heads: int, hidden: int, groups: int | None = None, **_: object
    ) -> Network:
        wide = Dense(sigma_w=Param("sigma"), sigma_b=0, expand=Fraction(hidden, width))
        attention = Attention(
            heads, self.head, self.head, causal=self.causal, rotary=self.rotary, groups=groups, qk_norm=self.qk_norm,
            scale=self.scale, query=PLAIN, key=PLAIN, value=PLAIN,
        )  # fmt: skip
        fed: tuple[Block, ...] = (wide, Nonlinearity(self.activation))
        if self.gated:
            fed = (Gate(self.activation, wide, wide),)
        skip, factor = in_depth(self.skip, depth), in_depth(self.branch, depth)
        branches = []
        for at, (name, middle) in enumerate((("output", (attention,)), ("down", fed))):
            norm = self._norm(at)
            first = norm if self.place in ("pre", "peri") else ()
            first += (Scale(Schedule(1, 1)),) if self.by_block else ()
            last = norm if self.place in ("peri", "behind") or name in self.after else ()
            last += () if factor == 1 else (Scale(factor),)
            branches.append(Sequential((*first, *middle, *(norm if name in self.inner else ()), PLAIN, *last)))
        if self.parallel:
            return Network(Residual(branches[0], 1, Residual(branches[1], skip)), FIRST)
        parts: list[Block] = []
        for at, one in enumerate(branches):
            parts += [Residual(one, skip), *(self._norm(at) if self.place == "post" else ())]
        return Network(Sequential(tuple(parts)), FIRST)

    def _norm(self, at: int) -> tuple[Block, ...]:
        if self.norm == "none":
            return ()
        if self.norm in ("layer", "rms"):
            return ({"layer": LayerNorm, "rms": RMSNorm}[self.norm](self.affine),)
        each = self.norm.split(",")
        return (dyt(each[min(at, len(each) - 1)]),)


def in_depth(text: str, depth: int) -> Number:
    """A number that a recipe writes with the number L of its blocks.

    >>> in_depth("1/(2*L)", 12)
    Fraction(1, 24)
    """
    found = exact(with_sizes(text, {"L": depth}), "A factor of a recipe")
    if isinstance(found, Param):
        raise MeanFieldError(f"A factor of a recipe is a number, but {text} was given.")
    return found


@dataclass(frozen=True)
class Mixer:
    """From sizes to blocks that mix tokens by matrices instead of attention.

    hidden_tokens: hidden tokens per token, None for one matrix. affine: whether γz + β stands in a norm's place.
    scales: LayerScale, as (blocks up to which, factor).
    """

    activation: str = "gelu"
    hidden_tokens: int | None = None
    affine: bool = False
    scales: tuple[tuple[int, str], ...] = ()

    def __call__(self, *, depth: int, width: int, hidden: int, **_: object) -> Network:
        phi = Nonlinearity(self.activation)
        mix = Dense(sigma_w=Param("sigma"), sigma_b=0, axis="tokens")
        many = Dense(sigma_w=Param("sigma"), sigma_b=0, axis="tokens", expand=self.hidden_tokens or 1)
        wide = Dense(sigma_w=Param("sigma"), sigma_b=0, expand=Fraction(hidden, width))
        norm = AffineNorm() if self.affine else LayerNorm()
        factor = next((value for most, value in self.scales if depth <= most), None)
        last = () if factor is None else (Scale(in_depth(factor, depth)),)
        tokens = (mix,) if self.hidden_tokens is None else (many, phi, mix)
        made = [Residual(Sequential((norm, *one, *last))) for one in (tokens, (wide, phi, PLAIN))]
        return Network(Sequential(tuple(made)), FIRST)


@dataclass(frozen=True)
class DenseStack:
    """From sizes to blocks φ, Dense, φ, Dense, … of a network without tokens; skip: whether beside a skip; first:
    whether the block starts with a Dense; factor: of the branch."""

    activation: str = "relu"
    matrices: int = 1
    skip: bool = False
    first: bool = False
    factor: str = "1"

    def __call__(self, *, depth: int, width: int, **_: object) -> Network:
        phi = Nonlinearity(self.activation)
        parts = [PLAIN if at % 2 == self.first else phi for at in range(1, 2 * self.matrices + 1)]
        parts = parts[: 2 * self.matrices - 1] if self.first else parts
        factor = in_depth(self.factor, depth)
        block = Sequential((*parts, *(() if factor == 1 else (Scale(factor),))))
        return Network(Residual(block) if self.skip else block, FIRST)


def each(
    inner: object, output: object, up: object | None = None, down: object | None = None,
    gate: object | None = None, **more: object,
) -> dict[str, object]:  # fmt: skip
    """Laws by kind: q, k, v and up (and gate) as `inner`, output and down as `output`, unless they are given."""
    found = {"query": inner, "key": inner, "value": inner, "output": output, "up": inner if up is None else up}
    found |= {} if gate is None else {"gate": gate}
    return found | {"down": output if down is None else down} | more
