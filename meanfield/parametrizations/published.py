"""The parametrizations that have a name, as published, and `parametrization`, which makes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from meanfield.base.arguments import choice, shown, validated
from meanfield.base.errors import MeanFieldError
from meanfield.parametrizations.exponents.matrix_scaling import KINDS, OPTIMIZERS, Scaling
from meanfield.parametrizations.one_parametrization import Parametrization

Table = dict[str, Any]


def _table(multipliers: str, variances: str, rates: Mapping[str, str], **more: str) -> Table:
    """The powers of a scheme. multipliers, variances: of input, hidden, readout, bias, parted by blanks; rates: the
    same by optimizer."""
    return {"multipliers": multipliers.split(), "variances": variances.split(), "rates": dict(rates), **more}


@dataclass(frozen=True)
class Published:
    """A published parametrization: its powers by kind of matrix, and where it stands."""

    source: str
    table: Table


_MUP_RATES = {"sgd": "n 1 n n", "adam": "1 1/n 1 1", "muon": "1 1 1 1"}
_SCHEMES: dict[str, Published] = {
    "sp": Published(
        "the standard parametrization of libraries: fan-in initialization, one learning rate",
        _table("1 1 1 1", "1 1/n 1/n 1", dict.fromkeys(OPTIMIZERS, "1 1 1 1")),
    ),
    "ntk": Published(
        "[1806.07572]; Adam's rates derived here, so that the output moves by order 1",
        _table(
            "1 1/sqrt(n) 1/sqrt(n) 1", "1 1 1 1",
            {"sgd": "1 1 1 1", "adam": "1/sqrt(n) 1/n 1/sqrt(n) 1/sqrt(n)", "muon": "1/sqrt(n) 1 1/sqrt(n) 1/sqrt(n)"},
        ),
    ),
    "mean_field": Published(
        "[2205.09653]: the NTK parametrization with an output divided by sqrt(n) once more; Adam's rates derived here",
        _table(
            "1 1/sqrt(n) 1/n 1", "1 1 1 1",
            {"sgd": "n n n n", "adam": "1 1/sqrt(n) 1 1", "muon": "1 sqrt(n) 1 1"},
        ),
    ),
    "mup": Published("[2203.03466] as its package mup implements it", _table("1 1 1/n 1", "1 1/n 1 1", _MUP_RATES)),
    "spectral": Published(
        "[2310.17813]: spectral norms of W and of its change of order sqrt(fan-out/fan-in)",
        _table("1 1 1 1", "1 1/n n**-2 1", {"sgd": "n 1 1/n n", "adam": "1 1/n 1/n 1", "muon": "1 1 1/n 1"}),
    ),
    "depth_mup": Published(
        "[2310.02244]: branches times L^(-1/2)",
        _table(
            "1 1 1/n 1", "1 1/n 1 1",
            {"sgd": "n 1 n n", "adam": "1 1/(n*sqrt(L)) 1 1/sqrt(L)", "muon": "1 1/sqrt(L) 1 1/sqrt(L)"},
            branch="1/sqrt(L)",
        ),
    ),
    "completep": Published(
        "[2505.01618] Table 1 with α = 1; rates of sgd derived here",
        _table(
            "1 1 1/n 1", "1 1/n 1 1", {"sgd": "n L n n*L", "adam": "1 1/n 1 1", "muon": "1 1 1 1"},
            branch="1/L", eps="1/(n*L)", decay="n",
        ),
    ),
    "u_mup": Published(
        "[2407.17465] as its package unit-scaling implements it, with embeddings at 1/sqrt(fan-out)",
        _table(
            "1 1/sqrt(n) 1/n 1", "1 1 1 1", {"adam": "1/sqrt(n) 1/sqrt(n*L) 1 1/sqrt(L)"}, branch="1/sqrt(L)",
        ),
    ),
}
SCHEMES = tuple(_SCHEMES)


@validated
def parametrization(
    name: str = "sp",
    *,
    optimizer: str = "adam",
    input: Any = None,
    hidden: Any = None,
    readout: Any = None,
    bias: Any = None,
    branch: Any = None,
    eps: Any = None,
    decay: Any = None,
    base_width: int = 1,
    base_depth: int = 1,
) -> Parametrization:
    """A parametrization: how initialization, multipliers and learning rates depend on width and depth.

    name: "sp" (standard), "ntk", "mean_field", "mup", "spectral", "depth_mup", "completep", "u_mup". optimizer: "sgd",
    "adam", or "muon" (for hidden matrices, Adam beside it). input, hidden, readout, bias: powers of one's own for a
    kind of matrix, {"multiplier": "1/n", "variance": "1", "rate": "n**(-3/2)"}, what is left out as the name has it.
    branch, eps, decay: of the branches of skips, of Adam's ε, of decoupled weight decay. All are products of powers of
    n and L, which count from base_width and base_depth. Returns: a `Parametrization`. Raises: MeanFieldError for an
    unknown name, a power that is no such product, and optimizers that a scheme was not published for.

    >>> parametrization("mup", optimizer="sgd").readout
    Scaling(multiplier='1/n', variance='1', rate='n')
    >>> parametrization("completep").branch.of_depth
    Fraction(-1, 1)
    """
    scheme = _SCHEMES[choice(name, "parametrization", SCHEMES)]
    choice(optimizer, "optimizer", OPTIMIZERS)
    table = scheme.table
    if optimizer not in table["rates"]:
        known = " and ".join(table["rates"])
        raise MeanFieldError(f"{name} was asked for with {optimizer}, but it is published for {known} alone.")
    rates = table["rates"][optimizer].split()
    rows = zip(KINDS, table["multipliers"], table["variances"], rates)
    kinds = {kind: Scaling(*powers) for kind, *powers in rows}
    factors = {w: table.get(w, "1") for w in ("branch", "eps", "decay")}
    changed = {k: v for k, v in (("branch", branch), ("eps", eps), ("decay", decay)) if v is not None}
    for kind, given in (("input", input), ("hidden", hidden), ("readout", readout), ("bias", bias)):
        if given is not None:
            changed[kind] = _changed(kinds[kind], given, kind)
    own = f"{name} with {' and '.join(changed)} of one's own" if changed else name
    return Parametrization(
        **(kinds | factors | changed), optimizer=optimizer, base_width=base_width, base_depth=base_depth, name=own,
        source=scheme.source,
    )  # fmt: skip


def _changed(before: Scaling, given: Any, kind: str) -> Scaling:
    if isinstance(given, Scaling):
        return given
    if not isinstance(given, Mapping) or not set(given) <= {one.name for one in fields(Scaling)}:
        raise MeanFieldError(
            f"{kind} was to be powers of its matrices by name (multiplier, variance, rate, eps), but {shown(given)} "
            "was given."
        )
    return replace(before, **given)
