"""Tables of a theory, as plain text and as LaTeX. Functions of recursions; `theory.table()` and `theory.latex()` call
them. The LaTeX needs amsmath and booktabs, and no line of it is wider than \\textwidth of an article at 10 pt."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from meanfield.base.answers.arrays import Arrays, of_rows
from meanfield.base.answers.export import Result
from meanfield.base.answers.latex import Names, after, law_tex, tex
from meanfield.base.answers.plain_text import COLUMNS, wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.symbols import J, K_aa, K_ab, K_bb, Theta, Z, parameter, sigma_w
from meanfield.base.tex.lines import lines as lines
from meanfield.base.tex.lines import opened
from meanfield.base.tex.prose import escape as escape
from meanfield.base.tex.prose import prose
from meanfield.base.tex.read import read
from meanfield.base.tex.tabular import heading
from meanfield.base.tex.width import column, measure, text_width, width
from meanfield.base.words import unknown
from meanfield.functions.activations import Activation, activation
from meanfield.networks.folds import skip_of
from meanfield.networks.records import Block
from meanfield.symbolic.asymptotics.depth import depth_law
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.expansions.moments import Moment
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.recursions.block_recursions import one_input_averages
from meanfield.symbolic.recursions.naming import describe
from meanfield.symbolic.series.asymptotic_law import Law

_SUSCEPTIBILITY = {"chi_J": r"\chi_J", "chi_K": r"\chi_K", "chi_Delta": r"\chi_\Delta", "chi_c": r"\chi_c"}
_AVERAGE = {
    "phi": r"\langle \varphi \rangle_K",
    "phi^2": r"\langle \varphi^2 \rangle_K",
    "phi'^2": r"\langle \varphi'^2 \rangle_K",
    "phi phi": r"\langle \varphi_a \varphi_b \rangle",
}


_MOMENTS = "m_n is the n-th moment of the function in brackets, less the powers of z that it approaches at either end."
_SIZE = "footnotesize"  # of the letters in a table
_HEIGHT = 490.0  # points: the rows of one float; \textheight of an article is 550
_ROWS = 6  # lines of a closed form before its averages are shown instead


@dataclass(frozen=True)
class TableRow:
    """One line of a table: `name` = `value`, with LaTeX of both and a remark; `nodes`: the value with its averages as
    nodes, which LaTeX shows where the value is too long."""

    section: str
    name: str
    value: Any
    latex_name: str
    remark: str = ""
    nodes: sp.Expr | None = None

    def text(self) -> str:
        return self.value.text() if isinstance(self.value, Law) else str(self.value)

    @property
    def remarks(self) -> str:
        """The remark, after the onset of a law where that is printed."""
        own = self.value.remarks() if isinstance(self.value, Law) else ()
        return "; ".join([*own, *[self.remark] * bool(self.remark)])

    def latex_value(self) -> str:
        """The value in math mode, on one line."""
        shown = self.typeset()
        if isinstance(shown, Law):
            return law_latex(shown)
        return tex(shown) if isinstance(shown, sp.Expr) else shown

    def typeset(self) -> Any:
        """What LaTeX shows: a law, an expression or math-mode LaTeX."""
        value = self.value
        if isinstance(value, (Law, sp.Expr)):
            return value
        if hasattr(value, "latex"):
            return value.latex()
        return r"\infty" if value == "infinite" else rf"\text{{{prose(str(value))}}}"


@dataclass(frozen=True)
class Table(Result):
    """A titled list of rows; `str` fits 80 columns, `latex()` is a complete table, `data()` plain values for JSON.

    >>> print(*str(derive("relu").table()).splitlines()[3:5], sep=chr(10))
    Maps (one input)
      K' = K*sigma_w**2/2 + sigma_b**2
    """

    title: str
    rows: tuple[TableRow, ...]
    legend: str = ""  # LaTeX behind the title: what the symbols mean

    def __repr__(self) -> str:
        return one_line("Table", f"{self.title}; {len(self.rows)} rows")

    def __str__(self) -> str:
        lines, section = [*textwrap.wrap(self.title, COLUMNS), "=" * min(78, len(self.title))], ""
        for row in self.rows:
            if row.section != section:
                section = row.section
                lines += ["", section]
            text, *numbers = row.value.lines() if isinstance(row.value, Law) else [row.text()]
            lines += wrapped(f"  {row.name} = {text}").splitlines()
            for more in (*(n.strip() for n in numbers), row.remark):
                lines += textwrap.wrap(more, COLUMNS, initial_indent="      ", subsequent_indent="      ")
        return "\n".join(lines)

    def only(self, *sections: str) -> Table:
        """The table of these sections alone, each named by how it begins ("Maps", "Closed forms").

        Raises: MeanFieldError for a section that the table has not.
        """
        known = list(dict.fromkeys(r.section for r in self.rows))
        for one in sections:
            if not any(name.startswith(one) for name in known):
                raise unknown("section of this table", one, known)
        return replace(self, rows=tuple(r for r in self.rows if r.section.startswith(sections)))

    def latex(self, *, caption: str | None = None, label: str | None = None, rows: Sequence[str] | None = None) -> str:
        r"""One or more `table` floats for amsmath and booktabs, none taller than a page.

        caption: LaTeX in the place of the title and `legend`; label: of the first float, for \ref; rows: sections that
        are shown, by how they begin (all unless given). Long right-hand sides break at their signs; a map too long to
        be read names its averages A_1, A_2, …, which follow as rows of their own.

        >>> from meanfield import derive
        >>> print(derive("erf").table().latex(label="tab:erf", rows=["Susceptibilities"]).splitlines()[3])
        \label{tab:erf}
        """
        if rows is not None:
            return self.only(*rows).latex(caption=caption, label=label)
        told = f"{prose(self.title)}{self.legend}" if caption is None else caption
        wide = max([width(r.latex_name, _SIZE) for r in self.rows] + [text_width("where A10 ", 8.6)])
        page = column()
        share = math.floor((page.width - wide - 10) / page.width * 100) / 100
        told_height = _text_height(told, page.width)
        pages = _pages(list(_cells(self.rows, share * page.width - 1)), _HEIGHT - max(0.0, told_height - 30.0))
        out = []
        for k, cells in enumerate(pages, 1):
            part = f" (part {k} of {len(pages)})" if len(pages) > 1 else ""
            out += [
                rf"\begin{{{page.float}}}[htbp]",
                r"\centering\footnotesize",
                rf"\caption{{{told}{part}}}",
                *([rf"\label{{{label}}}"] if label is not None and k == 1 else []),
                rf"\begin{{tabular}}{{@{{}}l@{{\quad}}p{{{share:.2f}\linewidth}}@{{}}}}",
                r"\toprule",
            ]
            section = ""
            for cell in cells:
                if cell.section != section:
                    out += ([r"\addlinespace"] if section else []) + [heading(cell.section, 2) + r"\tabularnewline"]
                    section = cell.section
                # \raggedright makes \\ end a line of the cell; the row ends with \tabularnewline
                body = "\\\\[3pt]\n  ".join(cell.lines)
                out.append(rf"{cell.left} & \raggedright {body}\tabularnewline\addlinespace[2pt]")
            out += [r"\bottomrule", r"\end{tabular}", rf"\end{{{page.float}}}"]
        return "\n".join(out)

    def arrays(self) -> Arrays:
        """A row for each line of the table."""
        return of_rows([dict(row) for row in self.data()])

    def data(self) -> list[dict[str, str]]:
        """Rows as strings: exact values are SymPy text, LaTeX beside them."""
        return [
            {"section": r.section, "name": r.name, "value": r.text(), "latex": r.latex_value(), "remark": r.remarks}
            for r in self.rows
        ]


@dataclass(frozen=True)
class _Cell:
    """A row of the LaTeX table: the left column, the lines of the right one, and their height in points."""

    section: str
    left: str
    lines: tuple[str, ...]
    height: float
    joined: bool = False  # to the row before, which it continues or explains


def _cells(rows: tuple[TableRow, ...], limit: float) -> Iterator[_Cell]:
    """Rows as cells whose lines fit `limit` points, with the definitions of what is named in them."""
    free = {s.name for r in rows for e in (r.value, r.nodes) if isinstance(e, sp.Expr) for s in e.free_symbols}
    shown = [(r, r.nodes if r.nodes is not None and _too_long(r.typeset(), limit) else r.typeset()) for r in rows]
    names = Names(limit, _SIZE, frozenset(free))
    for row, value in shown:
        names.equations(row.latex_name, value)
    names = names.again()
    for row, value in shown:
        if isinstance(row.value, str) and row.value != "infinite":
            text = prose(row.value)
            found = [(f"${row.latex_name}$", [text], _text_height(text, limit))]
        else:
            found = []
            for k, e in enumerate(names.equations(row.latex_name, value)):
                where = "where " if k == 1 else r"\hphantom{where }" if k else ""
                body = [rf"$\displaystyle {t}$" for t in e.lines]
                found.append((f"{where}${e.left}$", body, sum(_height(t) for t in e.lines)))
        for k, (left, body, height) in enumerate(found):
            if row.remarks and k == 0:
                body = [*body, rf"{{\scriptsize {prose(row.remarks)}}}"]
                height += _text_height(row.remarks, limit)
            while height > _HEIGHT / 2 and len(body) > 8:  # one row over several floats
                yield _Cell(row.section, left, tuple(body[:8]), height * 8 / len(body), k > 0)
                left, height, body = "", height * (len(body) - 8) / len(body), body[8:]
            yield _Cell(row.section, left, tuple(body), height, k > 0)


def _too_long(e: Any, limit: float) -> bool:
    """Whether a closed form is worse to read than its averages."""
    if not isinstance(e, sp.Expr):
        return False
    if e.count_ops() > 400:
        return True
    text = tex(e)
    found = lines(text, limit, _SIZE)
    return len(found) > _ROWS or (len(found) > 3 and opened(text, limit, _SIZE))


def _height(text: str) -> float:
    box = measure(read(text), _SIZE)
    return max(9.5, box.height + box.depth + 1.0) + 3.0


def _text_height(text: str, limit: float) -> float:
    return 9.5 * math.ceil(text_width(text, 8.5) / limit) + 3.0


def _pages(cells: list[_Cell], most: float) -> list[list[_Cell]]:
    """Cells on floats of bounded height; rows stay with their definitions, and sections whole, where that is cheap."""
    out: list[list[_Cell]] = [[]]
    used = 0.0
    for i, cell in enumerate(cells):
        new = not out[-1] or out[-1][-1].section != cell.section
        rest = cells[i:]
        section = sum(c.height for c in rest if c.section == cell.section) + 20.0 if new else 0.0
        group = cell.height
        for c in rest[1:]:
            if not c.joined:
                break
            group += c.height
        height = cell.height + (20.0 if new else 0.0)
        apart = not cell.joined and used + group > most and group < 0.6 * most
        if out[-1] and (used + height > most or apart or (used > 0.6 * most and used + section > most)):
            out.append([])
            used, height = 0.0, cell.height + 20.0
        out[-1].append(cell)
        used += height
    return out


def law_latex(law: Law) -> str:
    """An expansion, most important term first, with what is left out."""
    return law_tex(law)


#: what K and J stand for where positions of a batch settle
APART = "K stands for K - K_ab, J for J - J_ab"


def theory_table(
    phis: tuple[Activation, ...], block: Block, one: Recursion, two: Recursion | None, order: int, kind: str = ""
) -> Table:
    """Maps, susceptibilities, closed forms, two ends, large-depth laws of one theory.

    two: the recursion of two inputs. kind: "batch" or "tokens" where `one` is that of any two positions: two is then
    the recursion that settles, or None where none does.
    """
    section = f"Maps (any two {'inputs of a batch' if kind == 'batch' else kind})" if kind else "Maps (one input)"
    rows = [*_constants(phis), *_maps(one, section), *_first_maps(one, section)]
    rows += _susceptibility_rows(two if kind == "batch" else one, kind)
    if two is not None and not kind:
        rows += _maps(two, "Maps (two inputs)")
    for phi in phis:
        own = [*_closed_rows(phi), *_end_rows(phi, order)]
        rows += own if len(phis) == 1 else [replace(row, section=f"{row.section}, {phi}") for row in own]
    rows += _depth_rows(block, two if kind else one)
    return Table(title(block, kind), tuple(rows), LEGEND)


#: what a caption says of the symbols
LEGEND = (
    r". $\langle f \rangle_K$ is the average of $f(z)$ over $z \sim N(0, K)$; $\sigma_w$, $\sigma_b$ are the "
    r"standard deviations of weights (times $\sqrt{N}$) and biases; $K^{\ell}$ is the second moment of the "
    r"preactivation, $K^1 = \sigma_w^2 |x|^2/N_0 + \sigma_b^2$, $J^1 = 1$."
)
LONG = 10**9  # a parameter with a larger denominator has a name in tables


def long_parameters(phi: Activation) -> dict[str, sp.Expr]:
    """Parameters of an activation that are decimals too long to be read in a formula, as those of SELU."""
    return {k: v for k, v in phi.parameters if v.is_Rational and v.q > LONG}


def _constants(phis: tuple[Activation, ...]) -> list[TableRow]:
    """What the names stand for that long parameters of registered activations have in the table."""
    rows = []
    for phi in phis:
        free = {k for k, v in phi.parameters if v == parameter(k)}
        for k, v in (activation(phi.name).parameters if free else ()):
            if k in free and v.q > LONG:
                rows.append(TableRow("Constants", k, _decimals(v), tex(parameter(k))))
    return rows


def _decimals(v: sp.Rational) -> str:
    """All decimals of a number that has finitely many, else 30 digits."""
    n = next((n for n in range(1, 100) if 10**n % v.q == 0), None)
    if n is None:
        return str(sp.N(v, 30))
    digits = str(abs(v.p) * 10**n // v.q).rjust(n + 1, "0")
    return f"{'-' if v < 0 else ''}{digits[:-n]}.{digits[-n:]}"


def title(block: Block, kind: str) -> str:
    """What the tables of a theory are called; kind: what acts on each other, see `Theory.kind`."""
    level = ", averaged over token matrices" if kind == "tokens" else ""
    return f"Large-width theory: {describe(block)}{level}"


def slopes(recursion: Recursion | None, kind: str) -> dict[str, sp.Expr]:
    """χ_J, χ_K, χ_Δ and χ_c of a recursion; none of averages over what a batch shares, which have no derivative here.

    Raises: MeanFieldError where positions do not act on each other and a derivative is not known.
    """
    try:
        return {} if recursion is None else recursion.susceptibilities()
    except MeanFieldError:
        if not kind:
            raise
        return {}


def _susceptibility_rows(recursion: Recursion | None, kind: str) -> list[TableRow]:
    rows: list[TableRow] = []
    for name, e in slopes(recursion, kind).items():
        value, remark = (_shown(e) if e != sp.oo else "infinite"), APART if kind == "batch" and not rows else ""
        nodes = None if e == sp.oo else e
        rows.append(TableRow("Susceptibilities", name, value, _SUSCEPTIBILITY[name], remark, nodes))
    return rows


def _maps(recursion: Recursion, section: str) -> list[TableRow]:
    out = [TableRow(section, str(s), _shown(e), tex(s), nodes=e) for s, e in recursion.block.definitions]
    for v, e in zip(recursion.state, recursion.block.next):
        left = after(v.symbol)
        if e == sp.oo:
            jump = "φ jumps, so ⟨φ′²⟩ is infinite at infinite width."
            out.append(TableRow(section, f"{v.name}'", "infinite", left, jump))
        else:
            out.append(TableRow(section, f"{v.name}'", _shown(e), left, nodes=e))
    return out


def _first_maps(recursion: Recursion, section: str) -> list[TableRow]:
    """Maps of the first layers, where they differ."""
    return [
        TableRow(section, f"{v.name}' (to layer {i})", _shown(e), after(v.symbol).replace(r"\ell+1", str(i)), nodes=e)
        for i, v, e in recursion.first_maps()
    ]


def _shown(e: sp.Expr) -> sp.Expr:
    """The closed form where every average has one, the averages themselves otherwise (never half of each)."""
    form = closed(e)
    if _open(form):
        return e
    flat = _flat(form)
    if flat.count_ops() > 1500:
        return flat
    short = sp.collect(flat, (J, Theta, sigma_w)) if form != e else e
    # a sum breaks across lines more easily than a bracket
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


def _closed_rows(phi: Activation) -> list[TableRow]:
    section, rows = "Closed forms", []
    averages = one_input_averages(phi)
    f = phi.pieces.expr
    for name, node in averages.items():
        value = closed(node) if node != sp.oo else "infinite"
        rows.append(
            TableRow(section, f"<{name}>", value if not _open(value) else "no elementary closed form", _AVERAGE[name])
        )
    cross = closed(average(f * f.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb)))
    rows.append(
        TableRow(
            section, "<phi_a phi_b>", cross if not _open(cross) else "no elementary closed form", _AVERAGE["phi phi"]
        )
    )
    if all(r.value == "no elementary closed form" or r.value == 0 for r in rows):
        return [
            TableRow(
                section,
                "all averages",
                "no elementary closed form",
                r"\langle \varphi^2 \rangle_K,\ \dots",
            )
        ]
    return rows


def _open(e) -> bool:
    return isinstance(e, sp.Basic) and bool(e.atoms(Average))


def _end_rows(phi: Activation, order: int) -> list[TableRow]:
    rows: list[TableRow] = []
    for end, function, label in (("K → 0", at_zero, "0"), ("K → ∞", at_infinity, "oo")):
        for name, node in one_input_averages(phi).items():
            if name == "phi" or node == sp.oo:
                continue
            try:
                value: Any = function(node, order)
            except MeanFieldError as error:
                value = f"not known: {error}"
            known = isinstance(value, Law) and any(p.atoms(Moment) for p in value.parts())
            remark = _MOMENTS if known and not any(r.remark == _MOMENTS for r in rows) else ""
            rows.append(TableRow(f"Expansion at {end}", f"<{name}>_{label}", value, _AVERAGE[name], remark))
    return rows


def _depth_rows(block: Block, one: Recursion | None) -> list[TableRow]:
    skip = skip_of(block)
    if one is None or skip is None or skip.mu != 1:
        return []
    rows = []
    for quantity, name in (("K", r"K^{\ell}"), ("J", r"\log J^{1,\ell}")):
        try:
            law = depth_law(one.only("K", "J"), quantity, {})
        except MeanFieldError:
            continue
        rows.append(TableRow("Large depth", "K^l" if quantity == "K" else "log J^(1,l)", law.law, name, law.regime))
    return rows
