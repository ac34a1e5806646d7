"""Statements about the number of blocks: CompleteP, depth-µP, and 1/√(2L) in initializations (C31 to C33)."""

from __future__ import annotations

from derivations.claims import Claim
from derivations.parametrizations.kinds import FALLING, ONE, TWO, OneStep, Word, is_maximal, verdict_of

BOTH = (ONE, TWO)


def complete(alpha: str, **changed: object) -> dict[str, object]:
    """The last column of CompleteP's table: branches L^-α, rates L^(α-1) of hidden matrices, biases and norms."""
    table = {
        "name": "completep", "optimizer": "adam", "branch": f"L**(-{alpha})",
        "hidden": {"rate": f"L**({alpha})/(n*L)"}, "bias": {"rate": f"L**({alpha})/L"},
        "eps": f"1/(n*L**({alpha}))", "decay": "n",
    }  # fmt: skip
    return table | changed


def depth_mup(optimizer: str = "adam", **changed: object) -> dict[str, object]:
    """Branches 1/√L, rates of Adam 1/√L."""
    return {"name": "depth_mup", "optimizer": optimizer} | changed


def seen(matrix: str):
    """Whether what one matrix learns is of order 1 where the next function sees it."""
    return lambda found: found.row(matrix).verdict == "maximal"


CLAIMS: tuple[Claim, ...] = (
    OneStep("C31, Table 1: α = 1", BOTH, "every layer", complete("1"), {"name": "sp"}, says=is_maximal),
    OneStep("C31, Table 1: rates L^(α-1), α = 1/2", TWO, "down", complete("1/2"),
            complete("1/2", hidden={"rate": "1/n"}), says=seen("down")),
    OneStep("C31, Table 1: rates L^(α-1), α = 3/4", TWO, "down", complete("3/4"),
            complete("3/4", hidden={"rate": "1/n"}), says=seen("down")),
    OneStep("C31, Table 1: rates of biases and norms L^(α-1)", ONE, "every layer", complete("1/2"),
            complete("1/2", bias={"rate": "1"}), says=is_maximal),
    OneStep("C31, Table 1: ε as 1/(n L^α)", TWO, "eps of hidden matrices", complete("1"), complete("1", eps="1/n"),
            says=lambda found: str(found.row("up").eps) == str(found.row("down").eps) == "1"),
    OneStep("C31, Table 1: ε as 1/(n L^α), α = 1/2", TWO, "eps of hidden matrices", complete("1/2"),
            complete("1/2", eps="1/(n*L)"),
            says=lambda found: str(found.row("up").eps) == str(found.row("down").eps) == "1"),
    Word("row 54, code: one ε for all, embeddings", TWO, "eps of the input", "1/L", "1", scheme=complete("1"),
         of=lambda found: str(found.row("input").eps)),
    OneStep("C31, Table 1: weight decay × n, α = 1", BOTH, "decay", complete("1"), complete("1", decay="1"),
            says=lambda found: str(found.decay) == "1"),
    Word("C31, Table 1: weight decay × n, α = 1/2", BOTH, "decay", "1/sqrt(L)", "1", scheme=complete("1/2"),
         of=lambda found: str(found.decay)),
    OneStep("row 54, README: α = 1 needs multiplier and ε alone", BOTH, "every layer",
            {"name": "mup", "branch": "1/L", "eps": "1/(n*L)"},
            {"name": "mup", "branch": "1/sqrt(L)", "eps": "1/(n*L)"}, says=is_maximal),
    OneStep("row 54, code: c_proj without 1/√(2L)", TWO, "every layer", complete("1"),
            complete("1", hidden={"rate": "1/n", "variance": "1/(n*L)"}), says=is_maximal),
    OneStep("C32, abstract: α = 1 keeps every layer non-lazy", TWO, "every layer", complete("1"), complete("1/2"),
            says=is_maximal),
    OneStep("C32, abstract: α = 3/4 does not", TWO, "up", complete("3/4"), complete("1"),
            says=lambda found: found.row("up").verdict == "lazy"),
    Word("C32, abstract: α = 1/2 does not, one Dense in a branch", ONE, "every layer", "lazy", "maximal",
         misprint=True, scheme=complete("1/2")),
    Word("C32, abstract: α = 1 alone, one Dense in a branch, α = 3/4", ONE, "every layer", "lazy", "maximal",
         misprint=True, scheme=complete("3/4")),
    OneStep("C33, abstract: branches and rates of Adam 1/√L", ONE, "every layer", depth_mup(),
            depth_mup(hidden={"rate": "1/n"}), says=is_maximal),
    OneStep("C33, unread: rates of SGD as without depth", ONE, "every layer", depth_mup("sgd"),
            depth_mup("sgd", hidden={"rate": "1/sqrt(L)"}), says=is_maximal),
    Word("C33, abstract: limits of blocks of two layers", TWO, "up", "lazy", "maximal", scheme=depth_mup(),
         of=verdict_of("up")),
    Word("C33, abstract: the second layer of a block", TWO, "down", "maximal", "lazy", scheme=depth_mup(),
         of=verdict_of("down")),
    Word("row 52, code: depth^(-1/2) inside stacks", TWO, "up", "lazy", "maximal", scheme={"name": "u_mup"},
         of=verdict_of("up")),
    Word("row 53, code: 1/√(2L) in c_proj, rates of µP", FALLING, "change of f by features", "L", "1",
         scheme={"name": "mup"}, of=lambda found: str(found.delta_f_features)),
    Word("row 53, code: the same with SGD", FALLING, "change of f by features", "L", "1",
         scheme={"name": "mup", "optimizer": "sgd"}, of=lambda found: str(found.delta_f_features)),
)  # fmt: skip
