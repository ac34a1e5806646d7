"""What is raised, and how records show themselves: nothing here needs SymPy or NumPy."""

from __future__ import annotations

import re

LONGEST, KEPT = 120, 60  # characters of a formula inside a sentence that are not cut, and what is kept of longer ones


class MeanFieldError(ValueError):
    """A request that cannot be answered, said in one sentence for the person at the call site.

    >>> try:
    ...     derive("tanh").recursion("NTK")
    ... except MeanFieldError as error:
    ...     print(error)
    Unknown quantity 'NTK': did you mean 'Theta'?
    """

    def __init__(self, *args: object):
        super().__init__(*(_readable(a) if isinstance(a, str) else a for a in args))


def _readable(text: str) -> str:
    """A sentence as it is read: long formulas cut short, and no dummies (the variables of integrals print as _z)."""
    text = re.sub(r"(?<!\w)_(?=[zp]\d?\b)", "", text)
    return abbreviated(text) if len(text) > LONGEST else text


def abbreviated(text: str) -> str:
    """The same with every formula of more than `LONGEST` characters cut to its beginning and an ellipsis.

    A formula is what stands between words: tokens with operators or digits, and anything inside brackets but two words
    in a row, if at least a tenth of it is operators and brackets.

    >>> abbreviated(" + ".join(f"x**{n}" for n in range(40)) + " has no closed form")
    'x**0 + x**1 + x**2 + x**3 + x**4 + x**5 + x**6 + x**7 + x**8… has no closed form'
    """
    out: list[str] = []
    run: list[str] = []
    depth = 0

    def flush() -> None:
        formula = "".join(run).rstrip()
        rest = "".join(run)[len(formula) :]
        dense = sum(a in "*/^+-<>=(){}[]_" for a in formula) >= 0.1 * len(formula)
        if len(formula) > LONGEST and dense:
            formula = f"{formula[:KEPT].rstrip()}…"
        out.append(formula + rest)
        run.clear()

    tokens = re.findall(r"\S+|\s+", text)
    words = [re.fullmatch(r"[^\W\d]{2,}[\w'’]*[,.;:]?", token) is not None for token in tokens]
    followed = [*words[2:], False, False]  # by a word, behind the space between them
    for i, token in enumerate(tokens):
        # two words in a row are prose, also behind a bracket that nothing closes: a formula that was cut before
        if words[i] and (depth <= 0 or followed[i]):
            flush()
            out.append(token)
            depth = 0
            continue
        run.append(token)
        depth += sum(token.count(a) for a in "({[") - sum(token.count(a) for a in ")}]")
    flush()
    return "".join(out)


class NoClosedForm(MeanFieldError):
    """The rule for closed forms does not reach this average; the message says which factor stops it.

    >>> issubclass(NoClosedForm, MeanFieldError)
    True
    """


class InfiniteAverage(MeanFieldError):
    """The average does not exist or is infinite (the square of a jump's derivative, a tail heavier than a Gaussian)."""


class Undetermined(MeanFieldError):
    """Where φ switches depends on parameters that have no numbers; with numbers it may be decided."""


#: what verbs that compute numbers stand on, and what is derived does without
NUMERIC = ("numpy", "scipy", "numba", "threadpoolctl")


def lacking(what: str, error: ModuleNotFoundError) -> Exception:
    """The refusal of what needs a numeric library that is not installed; the same error where another one is missing.

    >>> print(lacking("propagate", ModuleNotFoundError(name="numba")))
    propagate needs numba, which is not installed; try: pip install numba, or ask for what is derived without it: \
recursion, phase, fixed_points, critical_points, depth_law or table.
    """
    library = (error.name or "").partition(".")[0]
    if library not in NUMERIC:
        return error
    return MeanFieldError(
        f"{what} needs {library}, which is not installed; try: pip install {library}, or ask for what is derived "
        "without it: recursion, phase, fixed_points, critical_points, depth_law or table."
    )


def one_line(name: str, text: str, room: int = 100) -> str:
    """`name(text)` on one line, what does not fit cut off: how records show themselves in a session."""
    flat = " ".join(text.split())
    return f"{name}({flat if len(flat) <= room else flat[: room - 1] + '…'})"
