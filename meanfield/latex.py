"""Tables of a theory, as plain text and as LaTeX. Functions of recursions; `theory.table()` and `theory.latex()` call
them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.activations import Activation
from meanfield.architecture import Block, Param, Residual
from meanfield.results import Law, MeanFieldError
from meanfield.symbolic.average import Average, average
from meanfield.symbolic.blocks import describe, one_input_averages
from meanfield.symbolic.depth import depth_law
from meanfield.symbolic.expansion import at_infinity, at_zero
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbols import LATEX_NAMES, J, K_aa, K_ab, K_bb, Theta, Z, sigma_w

_SUSCEPTIBILITY = {"chi_J": r"\chi_J", "chi_K": r"\chi_K", "chi_Delta": r"\chi_\Delta", "chi_c": r"\chi_c"}
_AVERAGE = {
    "phi": r"\langle \varphi \rangle_K",
    "phi^2": r"\langle \varphi^2 \rangle_K",
    "phi'^2": r"\langle \varphi'^2 \rangle_K",
    "phi phi": r"\langle \varphi_a \varphi_b \rangle",
}


@dataclass(frozen=True)
class Row:
    """One line of a table: `name` = `value`, with LaTeX of both and a remark."""

    section: str
    name: str
    value: Any
    latex_name: str
    remark: str = ""

    def text(self) -> str:
        return str(self.value)

    def latex_value(self) -> str:
        if isinstance(self.value, Law):
            return law_latex(self.value)
        return (
            self.value.latex()
            if hasattr(self.value, "latex")
            else tex(self.value)
            if isinstance(self.value, sp.Expr)
            else rf"\text{{{self.value}}}"
        )


@dataclass(frozen=True)
class Table:
    """A titled list of rows; `str` fits 80 columns, `latex()` is a complete table, `data()` plain values for JSON."""

    title: str
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        lines, section = [*textwrap.wrap(self.title, 79), "=" * min(78, len(self.title))], ""
        for row in self.rows:
            if row.section != section:
                section = row.section
                lines += ["", section]
            body = f"  {row.name} = {row.text()}"
            lines += textwrap.wrap(body, 79, subsequent_indent=" " * 6, break_long_words=True, break_on_hyphens=False)
            if row.remark:
                lines += textwrap.wrap(row.remark, 79, initial_indent="      ", subsequent_indent="      ")
        return "\n".join(lines)

    def latex(self) -> str:
        """A `tabularx`-free table for amsmath and booktabs; long right-hand sides break at their plus signs."""
        out = [
            r"\begin{table}[htbp]",
            r"\centering\footnotesize",
            rf"\caption{{{_escape(self.title)}}}",
            r"\begin{tabular}{@{}l@{\quad}p{0.74\linewidth}@{}}",
            r"\toprule",
        ]
        section = ""
        for row in self.rows:
            if row.section != section:
                out += ([r"\addlinespace"] if section else []) + [
                    rf"\multicolumn{{2}}{{@{{}}l}}{{\textbf{{{_escape(row.section)}}}}}\\"
                ]
                section = row.section
            remark = rf" \newline {{\scriptsize {_escape(row.remark)}}}" if row.remark else ""
            out.append(rf"${row.latex_name}$ & $\displaystyle {breakable(row.latex_value())}${remark}\\")
        return "\n".join([*out, r"\bottomrule", r"\end{tabular}", r"\end{table}"])

    def data(self) -> list[dict[str, str]]:
        """Rows as strings: exact values are SymPy text, LaTeX beside them."""
        return [
            {"section": r.section, "name": r.name, "value": r.text(), "latex": r.latex_value(), "remark": r.remark}
            for r in self.rows
        ]


def tex(e: Any) -> str:
    """LaTeX of an expression in the project's notation."""
    return sp.latex(e, symbol_names=LATEX_NAMES, ln_notation=False, fold_short_frac=False).replace(
        r"\operatorname{asin}", r"\arcsin"
    )


def breakable(text: str) -> str:
    """Allow line breaks at top-level + and - of a long formula (never inside braces or \\left … \\right)."""
    if len(text) < 150:
        return text
    out, depth, i = [], 0, 0
    while i < len(text):
        if text.startswith(r"\left", i) and not text.startswith(r"\leftarrow", i):
            depth += 1
        elif text.startswith(r"\right", i) and not text.startswith(r"\rightarrow", i):
            depth -= 1
        depth += text[i] == "{"
        depth -= text[i] == "}"
        if depth == 0 and text[i] in "+-" and i and text[i - 1] == " ":
            out.append(r"\allowbreak ")
        out.append(text[i])
        i += 1
    return "".join(out)


def law_latex(law: Law) -> str:
    """An expansion, most important term first, with what is left out."""
    body = " + ".join(tex(p) for p in law.parts()).replace("+ -", "- ")
    if law.remainder == "zero":
        return body
    if isinstance(law.remainder, str):
        return body + (r" + \text{exponentially small}" if law.remainder == "exponential" else r" + \dots")
    left = law.variable**law.remainder * sp.log(law.variable) ** law.remainder_logs
    return body + rf" + O\!\left({tex(left)}\right)"


def _escape(text: str) -> str:
    for a, b in (
        ("\\", r"\textbackslash "),
        ("_", r"\_"),
        ("^", r"\^{}"),
        ("%", r"\%"),
        ("&", r"\&"),
        ("#", r"\#"),
        ("*", r"$\ast$"),
        ("<", r"$<$"),
        (">", r"$>$"),
        ("|", r"$|$"),
    ):
        text = text.replace(a, b)
    for greek, name in (
        ("σ", r"\sigma"),
        ("χ", r"\chi"),
        ("μ", r"\mu"),
        ("φ", r"\varphi"),
        ("′", r"'"),
        ("∞", r"\infty"),
        ("→", r"\to"),
        ("⟨", r"\langle"),
        ("⟩", r"\rangle"),
        ("≤", r"\le"),
        ("∂", r"\partial"),
    ):
        text = text.replace(greek, f"${name}$")
    return text.replace("$$", "")


def theory_table(phi: Activation, block: Block, one: Recursion, two: Recursion, order: int) -> Table:
    """Maps, susceptibilities, closed forms, two ends, large-depth laws of one theory."""
    rows = [*_maps(one, "Maps (one input)")]
    for name, e in one.susceptibilities().items():
        rows.append(Row("Susceptibilities", name, _shown(e) if e != sp.oo else "infinite", _SUSCEPTIBILITY[name]))
    rows += _maps(two, "Maps (two inputs)")
    rows += _closed_rows(phi)
    rows += _end_rows(phi, order)
    rows += _depth_rows(block, one)
    return Table(f"Large-width theory: {describe(block)}", tuple(rows))


def _maps(recursion: Recursion, section: str) -> list[Row]:
    out = []
    for v, e in zip(recursion.state, recursion.step):
        name = tex(v.symbol)
        after = name.replace("K_{", r"K^{\ell+1}_{") if name.startswith("K_{") else name + r"^{\ell+1}"
        if e == sp.oo:
            out.append(
                Row(section, f"{v.name}'", "infinite", after, "φ jumps, so ⟨φ′²⟩ is infinite at infinite width.")
            )
        else:
            out.append(Row(section, f"{v.name}'", _shown(e), after))
    return out


def _shown(e: sp.Expr) -> sp.Expr:
    """The closed form where every average has one, the averages themselves otherwise (never half of each)."""
    form = closed(e)
    if _open(form):
        return e
    flat = _flat(form)
    short = sp.collect(flat, (J, Theta, sigma_w)) if form != e else e
    # a bracket cannot break across lines, a sum can
    return short if len(tex(short)) < 260 else flat


def _flat(e: sp.Expr) -> sp.Expr:
    """A sum with products of sums multiplied out in numerators only (denominators keep their factors)."""
    if e.is_Add:
        return sp.Add(*[_flat(t) for t in e.args])
    inner = next((a for a in e.args if a.is_Add), None) if e.is_Mul else None
    if inner is None:
        return e
    rest = sp.Mul(*[a for a in e.args if a is not inner])
    return sp.Add(*[_flat(rest * t) for t in inner.args])


def _closed_rows(phi: Activation) -> list[Row]:
    section, rows = "Closed forms", []
    averages = one_input_averages(phi)
    f = phi.pieces.expr
    for name, node in averages.items():
        value = closed(node) if node != sp.oo else "infinite"
        rows.append(
            Row(section, f"<{name}>", value if not _open(value) else "no elementary closed form", _AVERAGE[name])
        )
    cross = closed(average(f * f.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb)))
    rows.append(
        Row(section, "<phi_a phi_b>", cross if not _open(cross) else "no elementary closed form", _AVERAGE["phi phi"])
    )
    if all(r.value == "no elementary closed form" or r.value == 0 for r in rows):
        return [
            Row(
                section,
                "all averages",
                "no elementary closed form (nodes carry them)",
                r"\langle \varphi^2 \rangle_K,\ \dots",
            )
        ]
    return rows


def _open(e) -> bool:
    return isinstance(e, sp.Basic) and bool(e.atoms(Average))


def _end_rows(phi: Activation, order: int) -> list[Row]:
    rows = []
    for end, function, label in (("K → 0", at_zero, "0"), ("K → ∞", at_infinity, "oo")):
        for name, node in one_input_averages(phi).items():
            if name == "phi" or node == sp.oo:
                continue
            try:
                value: Any = function(node, order)
            except MeanFieldError as error:
                value = f"not known: {error}"
            rows.append(Row(f"Expansion at {end}", f"<{name}>_{label}", value, _AVERAGE[name]))
    return rows


def _depth_rows(block: Block, one: Recursion) -> list[Row]:
    if not isinstance(block, Residual) or isinstance(block.mu, Param) or block.mu != 1:
        return []
    rows = []
    for quantity, name in (("K", r"K^{\ell}"), ("J", r"\log J^{1,\ell}")):
        try:
            law = depth_law(one.only("K", "J"), quantity, {})
        except MeanFieldError:
            continue
        rows.append(Row("Large depth", "K^l" if quantity == "K" else "log J^(1,l)", law.law, name, law.regime))
    return rows
