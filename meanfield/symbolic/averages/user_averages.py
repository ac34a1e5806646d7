"""`average`: an average as a user writes it, of a formula in symbols of their own and a covariance in any form."""

from __future__ import annotations

from itertools import combinations

import sympy as sp

from meanfield.base.arguments import name_of, shown, validated
from meanfield.base.errors import MeanFieldError
from meanfield.base.symbols import Z, parameter, recognise, z
from meanfield.functions.activations import formula
from meanfield.functions.reading.parser import CONSTANTS, number
from meanfield.symbolic.averages import node
from meanfield.symbolic.averages.existence import refuse_no_covariance, refuse_not_real, refuse_odd_poles
from meanfield.symbolic.averages.node import Average, expression


@validated
def average(f: sp.Expr | str | float, cov: object, mean: object = None, *, variables: object = None) -> sp.Expr:
    r"""⟨f⟩ over Gaussian variables of covariance `cov`, as a node; f is written in the caller's own symbols.

    f: a SymPy expression or a formula as text. Its variable is `meanfield.base.symbols.z` (or any symbol called z),
    else the one symbol that is not in `cov`; `variables` names it, or several in the order of `cov`. Other symbols are
    parameters. cov: K, a number, text or expression, or the lower triangle (K_aa, K_ab, K_bb); mean: one value a
    variable, 0 unless given. A symmetric matrix (SymPy's, NumPy's, or a list of rows) is as good as its lower triangle.

    Constant factors stand before the node, and the average of an odd function is 0, so that what comes back may be a
    product or a number: `meanfield.certified(average, digits)` is the ball of any of them, `.ball` that of a node.

    Raises: MeanFieldError where the covariance is none, or the variable is not clear or cannot be negative.

    >>> x, q = sp.symbols("x q")
    >>> average(sp.erf(x)**2, q).doit()
    2*asin(2*q/(2*q + 1))/pi
    """
    given = f
    f = formula(f) if isinstance(f, str) else _expression(f)
    if f is None:
        raise MeanFieldError(f"An average takes an expression or a formula in z, but {shown(given)} was given.")
    entries = [_entry(c) for c in _triangle(cov)]
    n = {1: 1, 3: 2, 6: 3, 10: 4}.get(len(entries))
    if n is None:
        raise MeanFieldError(
            "A covariance is K, a lower triangle of 3, 6 or 10 entries, or a matrix of at most 4 rows, but "
            f"{len(entries)} entries of a lower triangle were given."
        )
    means = None if mean is None else [_entry(m) for m in (mean if isinstance(mean, (tuple, list)) else (mean,))]
    if means is not None and len(means) != n:
        raise MeanFieldError(f"{n} mean(s) are needed, one a variable, but {len(means)} were given.")
    if any(entries[k * (k + 3) // 2].is_negative for k in range(n)):
        raise MeanFieldError(f"A variance must be ≥ 0, but the covariance {shown(cov)} was given.")
    refuse_no_covariance(entries, n, cov)
    taken = set().union(*[e.free_symbols for e in [*entries, *(means or ())]])
    chosen = _variables(f, n, taken, variables)
    for v in chosen:
        if any(getattr(v, f"is_{kind}") for kind in ("nonnegative", "nonpositive", "integer", "imaginary")):
            raise MeanFieldError(
                f"The variable {v} is declared with a sign or as a whole number, but a Gaussian variable takes every "
                f"real value; write it as sympy.Symbol({v.name!r})."
            )
    f = f.subs(dict(zip(chosen, Z)), simultaneous=True)
    f = recognise(f.replace(lambda e: e.is_Float, lambda e: sp.Rational(str(e))))
    if f.has(sp.I):
        raise MeanFieldError(f"{shown(given)} is not a real function.")
    plain = n <= 2 and not f.free_symbols - {z, *Z[:2]} and not f.atoms(Average)
    if plain:
        refuse_not_real(f.xreplace({z: Z[0]}))
    found = node.average(f, tuple(entries), means)
    if plain and n == 1 and found == 0:
        refuse_odd_poles(f.xreplace({z: Z[0]}))
    return found


def _expression(e: object) -> sp.Expr | None:
    """A SymPy expression or a number as an expression, None for anything else (text is never evaluated)."""
    try:
        return expression(e, "It")
    except MeanFieldError:
        return None


def _triangle(cov: object) -> list[object]:
    """The entries of a covariance in the order of its lower triangle, row by row."""
    rows = cov.tolist() if hasattr(cov, "tolist") else cov
    if not isinstance(rows, (tuple, list, sp.Tuple)):
        return [rows]
    rows = list(rows)
    if not any(isinstance(row, (tuple, list, sp.Tuple)) for row in rows):
        return rows
    n = len(rows)
    if not all(isinstance(row, (tuple, list, sp.Tuple)) and len(row) == n for row in rows):
        raise MeanFieldError(
            f"A covariance given as a matrix has as many columns as rows, but {shown(cov)} was given; give the lower "
            "triangle (K_aa, K_ab, K_bb) or a square matrix."
        )
    entries = [[_entry(c) for c in row] for row in rows]
    for j, i in combinations(range(n), 2):
        if sp.expand(entries[i][j] - entries[j][i]) != 0:
            raise MeanFieldError(
                f"A covariance is symmetric, but entries ({i + 1}, {j + 1}) and ({j + 1}, {i + 1}) of the matrix are "
                f"{entries[i][j]} and {entries[j][i]}."
            )
    return [entries[i][j] for i in range(n) for j in range(i + 1)]


def _entry(c: object) -> sp.Expr:
    """An entry of a covariance or a mean: an expression as it is, a name as a symbol, text as a number."""
    if isinstance(c, str) and c.isidentifier() and c not in CONSTANTS:
        return parameter(name_of(c, "An entry of the covariance"))
    found = number(c, "An entry of the covariance") if isinstance(c, str) else _expression(c)
    if found is None or (found.is_number and not (found.is_real and found.is_finite)):
        raise MeanFieldError(f"An entry of a covariance or a mean must be a real number or symbol, not {shown(c)}.")
    return found


def _variables(f: sp.Expr, n: int, taken: set[sp.Symbol], variables: object) -> list[sp.Symbol]:
    """The symbols of f that are averaged over."""
    if variables is not None:
        named = list(variables) if isinstance(variables, (tuple, list)) else [variables]
        chosen: list[sp.Symbol] = [sp.Symbol(name_of(v, "A variable")) if isinstance(v, str) else v for v in named]
        if len(chosen) != n or not all(isinstance(v, sp.Symbol) for v in chosen):
            raise MeanFieldError(f"variables= must name {n} symbol(s), but {shown(variables)} was given.")
        by_name = {s.name: s for s in f.free_symbols if s not in taken}
        if by_name and not any(v in f.free_symbols or v.name in by_name for v in chosen):
            raise MeanFieldError(f"variables={shown(variables)} are no symbols of {f}, which has {', '.join(by_name)}.")
        return [v if v in f.free_symbols else by_name.get(v.name, v) for v in chosen]
    if f.has(*Z):
        return [z] if f.has(z) else []
    free = sorted(f.free_symbols - taken, key=lambda s: s.name)
    called_z = [s for s in free if s.name == "z"]
    if n == 1 and (called_z or len(free) <= 1):
        return [z] if z in free else called_z[:1] or free
    if not free:
        return []
    names = ", ".join(s.name for s in free)
    if n == 1:
        raise MeanFieldError(f"{f} has the symbols {names}; call the one averaged over z, or give variables=...")
    raise MeanFieldError(f"{f} has the symbols {names}; name the {n} that are averaged over with variables=(...).")
