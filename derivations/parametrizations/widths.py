"""Statements about the width: µP as its package has it, the spectral condition, unit-scaled µP (C34, C35, row 52)."""

from __future__ import annotations

from fractions import Fraction

from derivations.claims import Claim
from derivations.parametrizations.kinds import CHAIN, ONE, TWO, Equivalent, OneStep, Word, is_maximal, verdict_of

ALL = (CHAIN, ONE, TWO)
MUP = {
    "input": {"multiplier": "1", "variance": "1"}, "hidden": {"multiplier": "1", "variance": "1/n"},
    "readout": {"multiplier": "1/n", "variance": "1"}, "bias": {"multiplier": "1", "variance": "1"},
}  # fmt: skip
CONDITION = MUP | {"readout": {"multiplier": "1", "variance": "n**-2"}}


def scheme(optimizer: str, rates: str, table: dict[str, dict[str, str]] = MUP) -> dict[str, object]:
    """A table with the rates of input, hidden, readout and bias, parted by blanks."""
    kinds = {kind: powers | {"rate": rate} for (kind, powers), rate in zip(table.items(), rates.split())}
    return {"name": "sp", "optimizer": optimizer, **kinds}


PLAIN = {"name": "mup", "readout": {"variance": "1/n"}}
MEAN_FIELD = {"name": "mean_field", "optimizer": "sgd"}
#: a readout without a multiplier has gradients that are n times larger, and needs an ε that is
LARGER_EPS = scheme("adam", "1 1/n 1/n 1", CONDITION | {"readout": CONDITION["readout"] | {"eps": "n"}})

CLAIMS: tuple[Claim, ...] = (
    OneStep("C34, code: rates of SGD n, 1, n", ALL, "every layer", scheme("sgd", "n 1 n n"),
            scheme("sgd", "1 1 1 1"), says=is_maximal),
    OneStep("C34, code: rates of Adam 1, 1/n, 1", ALL, "every layer", scheme("adam", "1 1/n 1 1"),
            scheme("adam", "1 1 1 1"), says=is_maximal),
    OneStep("C34, code: the readout is drawn with variance 1", ALL, "every layer", {"name": "mup", "optimizer": "sgd"},
            PLAIN | {"optimizer": "sgd"}, says=is_maximal),
    OneStep("C34, README: logits shrink as n^(-1/2) at the start", ALL, "f", {"name": "mup"}, {"name": "sp"},
            says=lambda found: found.f.of_width == Fraction(-1, 2)),
    OneStep("C34: logits move by order 1, by readout and features", ALL, "changes of f", {"name": "mup"},
            {"name": "ntk", "optimizer": "sgd", "readout": {"rate": "1/n"}},
            says=lambda found: found.delta_f_readout.of_width == found.delta_f_features.of_width == 0),
    OneStep("C35, second-hand: SGD n_out/n_in", ALL, "every layer", scheme("sgd", "n 1 1/n n", CONDITION),
            scheme("sgd", "1 1/n 1/n 1", CONDITION), says=is_maximal),
    OneStep("C35, second-hand: Adam 1/n_in", ALL, "every layer", scheme("adam", "1 1/n 1/n 1", CONDITION),
            scheme("adam", "n 1 1/n 1", CONDITION), says=is_maximal),
    Equivalent("C35, abstract: the condition is µP, SGD", ALL, "gauge", scheme("sgd", "n 1 1/n n", CONDITION),
               scheme("sgd", "n 1 1/n n"), other={"name": "mup", "optimizer": "sgd"}),
    Equivalent("C35, abstract: the condition is µP, Adam, but for ε", ALL, "gauge", LARGER_EPS,
               scheme("adam", "1 1/n 1/n 1", CONDITION), other={"name": "mup"}),
    OneStep("row 52, code: rates 1/√fan-out of embeddings", ALL, "input", {"name": "u_mup"},
            {"name": "u_mup", "input": {"rate": "1"}}, misprint=True,
            says=lambda found: found.row("input").verdict == "maximal"),
    Word("row 52, code: what is left of embeddings", ALL, "input, own", "1/sqrt(n)", "1", scheme={"name": "u_mup"},
         of=lambda found: str(found.row("input").own)),
    OneStep("row 52, code: rates 1/√fan-in, readout 1", (CHAIN, ONE), "hidden, readout", {"name": "u_mup"},
            {"name": "u_mup", "hidden": {"rate": "1/n"}},
            says=lambda found: {found.row(m).verdict for m in ("dense", "readout")} == {"maximal"}),
    Word("the NTK parametrization is lazy", ALL, "every layer", "lazy", "maximal",
         scheme={"name": "ntk", "optimizer": "sgd"}),
    Word("the NTK parametrization learns by its readout", ALL, "readout", "maximal", "lazy",
         scheme={"name": "ntk", "optimizer": "sgd"}, of=verdict_of("readout")),
    Equivalent("the mean-field parametrization is µP, SGD", ALL, "gauge", MEAN_FIELD | {"decay": "1/n"}, MEAN_FIELD,
               other={"name": "mup", "optimizer": "sgd"}),
)  # fmt: skip
