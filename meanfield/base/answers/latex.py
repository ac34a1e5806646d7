r"""LaTeX of expressions in the project's notation, and names for the parts of a formula that is too long to be read.

A formula that needs more than a few lines is written with its averages as A_1, A_2, … (moments M_1, …), and one that is
still too long with u_1, u_2, … for what it repeats; the definitions follow it. A node takes part by two attributes:
`tex_letter`, and `tex_inside()`: what stands inside it, and a function from the LaTeX of that to its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sympy as sp
from sympy.core.alphabets import greeks
from sympy.printing.latex import translate

from meanfield.base.answers.export import shows
from meanfield.base.answers.plain_text import legible
from meanfield.base.symbols import LATEX_NAMES, parameter
from meanfield.base.tex.lines import lines, opened
from meanfield.base.tex.prose import prose, wrapped
from meanfield.base.tex.tabular import booktabs, decimal
from meanfield.base.tex.width import column, width

DIGITS = 13  # of a decimal number in print
_MOST = 4  # lines of a formula before its parts are named
_WORTH = 45.0  # points: what a part must measure at least to be named


def tex(e: Any) -> str:
    """LaTeX of an expression in the project's notation; no number has more than `DIGITS` digits."""
    if isinstance(e, sp.Basic):
        e = legible(e, DIGITS) if isinstance(e, sp.Expr) else e
        e = e.xreplace({r: sp.Float(r, DIGITS) for r in e.atoms(sp.Float, sp.Rational) if _is_long(r)})
    names = dict(LATEX_NAMES)
    for s in getattr(e, "free_symbols", ()):
        if "[" in s.name:
            names[s] = _intermediate(s.name)
        elif not s.name.isascii():
            names[s] = _foreign(s.name)
        elif len(s.name) > 1 and s.name.isalpha() and s not in names and translate(s.name) == s.name:
            names[s] = rf"\mathrm{{{s.name}}}"  # a word, and no product of its letters
    text = sp.latex(e, symbol_names=names, ln_notation=False, fold_short_frac=False, inv_trig_style="full")
    for long, short in ((r"\text{for}\: ", ""), (r"\text{for} \: ", ""), (r"\text{otherwise}", r"\text{else}")):
        text = text.replace(long, short)  # a case needs its room for the formula
    text = _MATRIX.sub(r"\\left(\1; \2; \3 \\right)", text)
    text = text.replace(r"\operatorname{loggamma}{\left(", r"\log\Gamma{\left(")
    return text.replace(r"\operatorname{asin}", r"\arcsin")


# the parameters of a hypergeometric function, which SymPy sets as a matrix
_MATRIX = re.compile(r"\\left\(\\begin\{matrix\} (.*?) \\\\ (.*?) \\end\{matrix\}\\middle\| \{(.*?)\} \\right\)")
_LETTERS = {"chi": r"\chi", "Theta": r"\Theta", "dK": r"\kappa", "ds": r"\alpha", "dm": r"\eta", "ratio": r"\rho"}


def _intermediate(name: str) -> str:
    r"""An intermediate of a step: K[2] as K_{2}, chi_ab[1] as \chi_{ab,1}, dK[1] (its slope by the start's K) as
    \kappa_{1}."""
    stem, index = name[:-1].split("[")
    letter, _, positions = stem.partition("_")
    letter = _LETTERS.get(letter, letter)
    return rf"{letter}_{{{positions},{index}}}" if positions else rf"{letter}_{{{index}}}"


def _foreign(name: str) -> str:
    r"""A symbol's name in letters beyond ASCII: `μ` as \mu, others as text."""
    word = unicodedata.name(name, "") if len(name) == 1 else ""
    greek = word.rpartition(" ")[2].lower() if word.startswith("GREEK SMALL LETTER ") else ""
    return rf"\{greek}" if greek in greeks else rf"\text{{{name}}}"


def _is_long(number: sp.Expr) -> bool:
    """Whether a decimal or a fraction has more digits than are printed."""
    if number.is_Float:
        return bool(number._prec > 45)
    return bool(max(abs(number.p), number.q) >= 10**DIGITS)


def after(symbol: sp.Symbol) -> str:
    """A state variable one layer deeper: K^{ℓ+1}, K^{ℓ+1}_{ab}."""
    name = tex(symbol)
    if name.endswith("_{ab}"):
        return name.removesuffix("_{ab}") + r"^{\ell+1}_{ab}"
    return name.replace("K_{", r"K^{\ell+1}_{", 1) if name.startswith("K_{") else name + r"^{\ell+1}"


@shows("latex of a law")
def law_tex(law: Any, swap: dict[sp.Expr, sp.Expr] | None = None) -> str:
    """An expansion, most important term first, with what is left out."""
    body = " + ".join(tex(p.xreplace(swap or {})) for p in law.parts()).replace("+ -", "-")
    if law.remainder == "zero":
        return body
    if law.left_out is None:
        return body + (r" + \text{exponentially small}" if law.remainder == "exponential" else r" + \dots")
    return body + rf" + O\!\left({tex(law.left_out.xreplace(swap or {}))}\right)"


@dataclass(frozen=True)
class Equation:
    """left = right, the right-hand side as lines that fit; both in math mode."""

    left: str
    lines: tuple[str, ...]


@dataclass
class Names:
    """The names given so far in one document, for lines of at most `limit` points at `size`."""

    limit: float
    size: str = "normalsize"
    taken: frozenset[str] = frozenset()
    wanted: frozenset[sp.Expr] = frozenset()  # nodes to be named wherever they appear
    known: dict[sp.Expr, sp.Symbol] = field(default_factory=dict)
    _waiting: list[tuple[sp.Symbol, sp.Expr]] = field(default_factory=list)

    def equations(self, left: str, value: Any) -> list[Equation]:
        """`left` = value, then the definitions of what was named in it for the first time."""
        out = [Equation(left, tuple(self._lines(value)))]
        while self._waiting:
            symbol, e = self._waiting.pop(0)
            out.append(Equation(tex(symbol), tuple(self._definition(e))))
        return out

    def again(self) -> Names:
        """Names for a second reading, in which every node that was named here has a name from its first place on."""
        nodes = frozenset(e for e in self.known if hasattr(e, "tex_letter"))
        return Names(self.limit, self.size, self.taken, nodes)

    def _lines(self, value: Any) -> list[str]:
        if hasattr(value, "remainder"):
            return self._law(value)
        if not isinstance(value, sp.Basic):
            return lines(str(value), self.limit, self.size)
        self._wanted_named(value)
        e = value.xreplace(self.known)
        found = self._broken(tex(e))
        if self._long(found, tex(e)):
            e = self._nodes_named(e)
            e, found = self._repeated_named(e, lambda x: tex(x))
        return found

    def _law(self, law: Any) -> list[str]:
        for p in law.parts():
            self._wanted_named(p)
        found = self._broken(law_tex(law, self.known))
        if self._long(found, law_tex(law, self.known)):
            for p in law.parts():
                self._nodes_named(p)
            found = self._broken(law_tex(law, self.known))
        return found

    def _definition(self, node: sp.Expr) -> list[str]:
        """The lines of a named part; one that is long itself has the parts inside it named."""
        if not hasattr(node, "tex_inside"):
            e = node.xreplace({k: v for k, v in self.known.items() if k != node})
            found = self._broken(tex(e))
            if self._long(found, tex(e)):
                found = self._repeated_named(e, tex)[1]
            return found
        inside, ends = node.tex_inside()

        def around(e: sp.Expr) -> str:
            text: str = ends(tex(e), lambda c: tex(c.xreplace(self.known)))
            return text

        shared = any(n != node and hasattr(n, "tex_inside") and n.tex_inside()[0] == inside for n in self.known)
        if shared and width(tex(inside), self.size) > self.limit / 3:
            self._name(inside, "f")
        inside = inside.xreplace(self.known)
        found = self._broken(around(inside))
        if self._long(found, around(inside)):
            inside, found = self._repeated_named(inside, around)
        return found

    def _broken(self, text: str) -> list[str]:
        return lines(text, self.limit, self.size)

    def _long(self, found: list[str], text: str) -> bool:
        """Whether a formula asks for names: many lines, one too wide, or a bracket that had to be opened far."""
        return len(found) > _MOST or (len(found) > 2 and opened(text, self.limit, self.size)) or self._over(found)

    def _over(self, found: list[str]) -> bool:
        return any(width(t, self.size) > self.limit for t in found)

    def _wanted_named(self, e: sp.Expr) -> None:
        """Names for the nodes that are to have one: the wanted ones, and those that stand inside another node."""
        for node in _nodes(e):
            if node in self.wanted:
                self._name(node, node.tex_letter)
            else:
                for c in node.args:
                    self._nodes_named(c)

    def _nodes_named(self, e: sp.Expr) -> sp.Expr:
        """`e` with its outermost averages named."""
        for node in _nodes(e):
            self._name(node, node.tex_letter)
        return e.xreplace(self.known)

    def _repeated_named(self, e: sp.Expr, write: Any) -> tuple[sp.Expr, list[str]]:
        """`e` with what it repeats named, widest saving first, until it is short (or nothing is worth a name)."""
        found = self._broken(write(e))
        while self._long(found, write(e)):
            part = self._best_part(e, bool(self._over(found)))
            if part is None:
                break
            self._name(part, "u")
            e = e.xreplace(self.known)
            found = self._broken(write(e))
        return e, found

    def _best_part(self, e: sp.Expr, over: bool) -> sp.Expr | None:
        counts: dict[sp.Expr, int] = {}
        for s in sp.preorder_traversal(e):
            if isinstance(s, sp.Expr) and s.args and s != e and not s.is_number:
                counts[s] = counts.get(s, 0) + 1
        best, found = 0.0, None
        for s, n in counts.items():
            if n < 2 and not over:
                continue
            wide = width(tex(s), self.size)
            if wide < _WORTH:
                continue
            saved = wide * (n - 1) if n > 1 else (wide / 100 if isinstance(s, sp.Piecewise) else 0.0)
            if saved > best or (saved == best and found is not None and str(s) < str(found)):
                best, found = saved, s
        return found

    def _name(self, e: sp.Expr, letter: str) -> None:
        if e in self.known:
            return
        used = self.taken | {s.name for s in self.known.values()}
        name = next(n for n in (f"{letter}_{k}" for k in range(1, 10_000)) if n not in used)
        self.known[e] = sp.Symbol(name, real=True)
        self._waiting.append((self.known[e], e))


def _nodes(e: sp.Expr) -> list[sp.Expr]:
    """Nameable nodes in `e`, outermost only, in the order in which they are printed."""
    if hasattr(e, "tex_letter"):
        return [e]
    ordered = e.as_ordered_terms() if e.is_Add else e.as_ordered_factors() if e.is_Mul else e.args
    out: list[sp.Expr] = []
    for a in ordered:
        out += [n for n in _nodes(a) if n not in out]
    return out


@shows("latex of equations")
def aligned(equations: list[tuple[str, Any]], remarks: tuple[str, ...] = ()) -> str:
    r"""Equations (LaTeX of the left-hand side, a value on the right) for math mode: \[ … \], equation, $$ … $$.

    One short equation stands alone, anything else in an `aligned` whose lines fit a column. Definitions of
    averages that had to be named follow; remarks are sentences below.
    """
    free = {s.name for _, v in equations if isinstance(v, sp.Basic) for s in v.free_symbols}
    indent = max([width(rf"{left} =") for left, _ in equations if left] + [30.0 if equations else 0.0])
    limit = column().width
    names = Names(limit - indent - 4, "normalsize", frozenset(free))
    for left, value in equations:
        names.equations(left, value)
    names = names.again()
    found = [names.equations(left, value) for left, value in equations]
    ordered = [e for group in found for e in group[:1]] + [e for group in found for e in group[1:]]
    if len(ordered) == 1 and len(ordered[0].lines) == 1 and not remarks:
        only = ordered[0]
        return f"{only.left} {_equals(only)}{only.lines[0]}" if only.left else only.lines[0]
    out = []
    for e in ordered:
        out.append(f"{e.left} &{_equals(e)}{e.lines[0]}")
        out += [f"& {t}" for t in e.lines[1:]]
    for remark in remarks:
        text = [rf"\text{{{t}}}" for t in wrapped(prose(remark), limit - indent - 4)]
        out += [f"& {t}" for t in text]
    return "\\begin{aligned}\n" + " \\\\\n".join(out) + "\n\\end{aligned}"


@shows("latex of maps")
def maps_tex(definitions: Iterable[tuple[sp.Symbol, Any]], maps: Iterable[tuple[sp.Symbol, int | None, Any]]) -> str:
    r"""`aligned` of definitions and of maps (variable, the layer that is made or None for any one, value)."""
    found = [(tex(s), e) for s, e in definitions]
    for symbol, layer, e in maps:
        made = after(symbol)
        found.append((made if layer is None else made.replace(r"\ell+1", str(layer)), e))
    return aligned(found)


@shows("latex of layers")
def layers_tex(run: Any) -> str:
    r"""The layers of one point of a run as `table` floats: \ell and every quantity."""
    names = list(run.values)
    logs = [(n, parameter(n.removeprefix("log_"))) for n in names]
    header = [r"$\ell$", *(("$\\log " if n.startswith("log_") else "$") + tex(s) + "$" for n, s in logs)]
    rows = [[str(k), *(decimal(run.values[n][i], 12) for n in names)] for i, k in enumerate(run.l)]
    return booktabs("Layers of a network of infinite width", header, rows)


def _equals(e: Equation) -> str:
    return "= " if e.left and not e.lines[0].startswith(r"\approx") else " "


def joined(blocks: list[str]) -> str:
    r"""Several results of `aligned` below each other."""
    if len(blocks) == 1:
        return blocks[0]
    return "\\begin{gathered}\n" + " \\\\[6pt]\n".join(blocks) + "\n\\end{gathered}"


def solution_tex(found: Any) -> Any:
    """The value of a solution for `aligned`: a short exact one with its decimals, any other number rounded."""
    value = sp.sympify(found.value)
    if value is sp.nan:
        return rf"\text{{{prose(found.message or found.status.value)}}}"
    if found.error is not None or value.free_symbols or value.is_Rational or not value.is_finite or value.is_Float:
        return value
    exact, decimal = tex(value), rf"\approx {tex(sp.N(value, DIGITS))}"
    return rf"{exact} {decimal}" if width(exact) < 150 else decimal


@shows("latex of a solution")
def number_tex(found: Any) -> str:
    """The value of a solution for math mode."""
    value = solution_tex(found)
    return value if isinstance(value, str) else tex(value)
