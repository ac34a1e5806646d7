"""Coverage: every numbered equation, table, figure and theorem of a paper, and what became of it.

An `Item` is decided where a claim of its paper names it in its source, where an acceptance value stands for it or where
it is drawn; the claims are found by what their sources hold, so that an item loses its state when its claim is lost. An
item that nothing decides says why: `open` where the engine could decide it and no claim does yet, `outside` where there
is nothing for it to decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module

import meanfield as mf
from derivations.checks import Check
from derivations.claims import Claim
from derivations.training.table import FIGURES

KINDS = ("equation", "table", "figure", "statement")
DECIDED, OPEN, OUTSIDE = STATES = ("decided", "open", "out of scope")
DEFINITION = "a definition"
CITED = "a result of other papers, cited"


@dataclass(frozen=True)
class Item:
    """One numbered thing of a paper.

    kind: one of `KINDS`; a statement is a theorem, lemma, proposition or conjecture. label: as the paper prints it.
    about: what it is. by: what the sources of claims hold that decide it, beside the label itself. numbers: names of
    acceptance values. figure: the name of the file that is drawn. part: which panels of a figure or which case of a
    theorem, where they are items of their own; `by` alone says what decides those. open, outside: why nothing decides
    it.
    """

    kind: str
    label: str
    about: str = ""
    by: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    figure: str = ""
    part: str = ""
    open: str = ""
    outside: str = ""

    @property
    def name(self) -> str:
        """The label, with the part where there is one."""
        return f"{self.label}, {self.part}" if self.part else self.label

    @property
    def reason(self) -> str:
        """Why nothing decides it."""
        return self.open or self.outside


equation, table, figure, statement = (partial(Item, kind) for kind in KINDS)


def step_of(label: str) -> str:
    """The reason of an equation that a proof goes through and whose end is an item of its own."""
    return f"a step of the proof of {label}"


def training(paper: str, number: str) -> str:
    """The reason of a figure that needs training: what smaller networks say of it."""
    ((found, text),) = ((found, text) for of, at, found, text in FIGURES if (of, at) == (paper, number))
    return f"training at full size; of smaller networks: {found} ({text})"


# ------------------------------------------------------------------------------------------- what a source holds

_LABEL = r"(?<![\w^])\((?:[A-Z]\.)?\d+(?:\.\d+)?\)"
_ASIDE = re.compile(  # what stands beside an equation, parts of theorems, (62) to (64) of no paper
    rf"(?:\b(?:after|before|below|under) {_LABEL})|(?:(?<=[A-Z]\.\d )\(\d+\))|(?:(?<=[A-Z]\.\d\d )\(\d+\))"
)
_RANGE = re.compile(r"\(((?:[A-Z]\.|\d+\.)?)(\d+)\)[-–]\(\1(\d+)\)")
_WORDS = {"Theorem": "Thm", "Proposition": "Prop.", "Conjecture": "Conj.", "Definition": "Def.", "Figure": "Fig."}


@lru_cache(maxsize=4096)
def equation_labels(source: str) -> frozenset[str]:
    """The equations that a source names; of "(3.14)-(3.16)" all three, of "after (B.5)" none."""
    text = _ASIDE.sub("", source)
    found = set(re.findall(_LABEL, text))
    for head, first, last in _RANGE.findall(text):
        found |= {f"({head}{n})" for n in range(int(first), int(last) + 1)}
    return frozenset(found)


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    """Theorem, Proposition, … in the short words of sources."""
    for long, short in _WORDS.items():
        text = re.sub(rf"\b{long}\b", short, text, flags=re.IGNORECASE)
    return text


def holds(source: str, text: str) -> bool:
    """Whether a source holds a label or another text as a whole: "Lemma D.1" is not in "Lemma D.10"."""
    if re.fullmatch(_LABEL, text):
        return text in equation_labels(source)
    whole = rf"(?<![\w.]){re.escape(_plain(text))}(?!\w|\.\d)"
    return re.search(whole, _plain(source)) is not None


# ------------------------------------------------------------------------------------------- what decides an item


def deciding(item: Item, claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims whose sources hold the item's label or one of the texts of `by`; of a part, one of these texts."""
    texts = item.by if item.part else (item.label, *item.by)
    return tuple(claim for claim in claims if any(holds(claim.source, text) for text in texts))


def state(item: Item, claims: Iterable[Claim], checks: Iterable[Check]) -> str:
    """One of `STATES`.

    MeanFieldError: nothing decides the item and it has no reason, or something does and it has one, or it names claims
    or values that are not there.
    """
    claims, names = tuple(claims), {check.name for check in checks}
    lost = [t for t in item.by if not any(holds(c.source, t) for c in claims)] + sorted(set(item.numbers) - names)
    if lost:
        raise mf.MeanFieldError(f"{item.name} names {', '.join(map(repr, lost))}, which no claim and no value has.")
    by = bool(item.numbers or item.figure or deciding(item, claims))
    found = [s for s, here in zip(STATES, (by, item.open, item.outside)) if here]
    if len(found) != 1:
        what = " and ".join(found) or "without a claim, a value, a figure or a reason"
        raise mf.MeanFieldError(f"{item.name} is {what}; it must be one of {', '.join(STATES)}.")
    return found[0]


@dataclass(frozen=True)
class Coverage:
    """The items of one paper with their states."""

    paper: str
    items: tuple[Item, ...]
    claims: tuple[Claim, ...]
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, paper: str) -> Coverage:
        """That of `derivations.<paper>`."""
        package, items, checks = (import_module(f"derivations.{paper}{m}") for m in ("", ".coverage", ".acceptance"))
        return cls(paper, tuple(items.ITEMS), tuple(package.CLAIMS), tuple(checks.CHECKS))

    def state(self, item: Item) -> str:
        """One of `STATES`; raises as the function of this name."""
        return state(item, self.claims, self.checks)

    @property
    def states(self) -> tuple[tuple[Item, str], ...]:
        """Each item with its state, in the paper's order."""
        return tuple((item, self.state(item)) for item in self.items)

    def counts(self, kind: str | None = None) -> dict[str, int]:
        """How many items are in each of `STATES`; kind: of one of `KINDS` alone."""
        found = Counter(at for item, at in self.states if kind in (None, item.kind))
        return {at: found[at] for at in STATES}
