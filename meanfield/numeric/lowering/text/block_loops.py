"""Loops over the points of a block, as text: from assignments (name, source) to the loops of one layer.

What a loop hands to the next stands in a row of the workspace w, a number a point: the row of K begins at `_K`, and is
written `_K[i]` until the text is `placed`. Averages that are tables are read from coefficients that each point holds
for as long as it stays in one cell; averages without a branch are computed where they stand; the others one point at a
time, in loops of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from meanfield.numeric.lowering.text.depth_loops import LayerSource, LoopSource, Variable
from meanfield.numeric.lowering.text.elementary_numeric import BRANCH_FREE, LEAST_NORMAL, WIDTH
from meanfield.numeric.lowering.text.scheduling import indent

_CALL = re.compile(r"([\w.]+)\(")
_PLACE = re.compile(r"\bT\[(\d+)\]")
_ROW = re.compile(r"(?<!\w)_(\w+)\[(?:(\w+), )?(\w+)\]")
_TABLE = re.compile(r"(\w+)\((.*), T\[(\d+)\]\)")
LONG = 400  # octaves of a cell beyond the ends of tables: t² is a double there
GREATEST = 1e306  # a variance that is not yet infinite
Node = tuple[str, str, str]  # an average that is a table: its name, function, number of the table


@dataclass
class WorkspaceRows:
    """The rows of the workspace by name; of averages that are tables, four for the cell and ten each."""

    names: dict[str, tuple[int, int]] = field(default_factory=dict)
    count: int = 0

    def of(self, name: str, size: int = 1) -> int:
        """The first of the rows of a name, which has `size` of them."""
        if name not in self.names:
            self.names[name] = self.count, size
            self.count += size
        return self.names[name][0]


def branch_free(functions: str) -> set[str]:
    """The functions of a module in whose text nothing branches, loops or is called that does."""
    found: set[str] = set()
    for name, body in re.findall(r"^def (\w+)\(.*?\):\n((?:[ ].*\n|\n)+)", functions, re.M):
        simple = not re.search(r"^\s+(for|while)\b|\*\*", body, re.M)
        if simple and all(c in BRANCH_FREE or c in found for c in _CALL.findall(body)):
            found.add(name)
    return found


class Stages:
    """The rows of one loop, and the loops over a block that its layers are made of."""

    def __init__(self, loop: LoopSource):
        self.loop, self.w = loop, WorkspaceRows()
        self.simple = branch_free(loop.functions)
        self.cells: dict[tuple[str, tuple[str, ...]], str] = {}
        self.assigned = [*loop.constants, *(line for layer in loop.layers for line in layer.evaluate)]
        for v in loop.variables:
            for name in v.rows:
                self.w.of(name)
        exponents, settled = [f"e_{v.name}" for v in self.wide], [] if loop.ends else ["settled"]
        for name in ("point", *exponents, *loop.parameters, *self.before, "status", *settled):
            self.w.of(name)

    @property
    def tabled(self) -> list[str]:
        return [name for _, names in self.cells for name in names]

    @property
    def wide(self) -> list[Variable]:
        return [v for v in self.loop.variables if v.wide]

    @property
    def drivers(self) -> list[Variable]:
        return [v for v in self.loop.variables if v.drives]

    @property
    def before(self) -> list[str]:  # the last value and the one before it
        return [f"{v.name}_{when}" for v in self.drivers for when in ("before", "earlier")]

    def stages(self, layer: LayerSource, last: list[tuple[str, str]], needed: set[str]) -> tuple[str, str]:
        """(loops that evaluate averages, the loop of the rest) of one step; the rest goes on with `last` and keeps what
        is `needed` further down."""
        groups: list[tuple[str, list[tuple[str, str]]]] = []
        for name, text in layer.evaluate:
            kind = "slow" if self.kind(text) == "slow" else "fast"
            if not groups or groups[-1][0] != kind or self.apart(groups[-1][1], text):
                groups.append((kind, []))
            groups[-1][1].append((name, text))
        end = [*layer.updates, *last]
        if self.loop.ends and groups and groups[-1][0] == "fast":  # nothing is ever skipped
            end = [*groups.pop()[1], *end]
        evaluate = ""
        for i, (kind, lines) in enumerate(groups):
            later = [text for _, more in [*groups[i + 1 :], ("", end)] for _, text in more]
            used = {x for text in later for x in re.findall(r"\w+", text)}
            evaluate += self.over(lines, {name for name, _ in lines} & used, kind)
        return evaluate, self.over(end, needed, "fast")

    def kind(self, text: str) -> str:
        """How the value of an assignment is come by: read off a table, computed in vector code, or one by one."""
        if self.table(text):
            return "table"
        return "fast" if all(c in BRANCH_FREE or c in self.simple for c in _CALL.findall(text)) else "slow"

    def table(self, text: str) -> tuple[str, str, str] | None:
        """(function, argument, number of the table) of an average that is a table."""
        found = _TABLE.fullmatch(text)
        return (found[1], found[2], found[3]) if found and found[1] in self.loop.held else None

    def apart(self, lines: list[tuple[str, str]], text: str) -> bool:
        """Whether a table's argument is made in the loop of these lines: its cell is looked for before the loop."""
        found, made = self.table(text), {name for name, _ in lines}
        return found is not None and bool(made & set(re.findall(r"\w+", found[1])))

    def over(self, lines: list[tuple[str, str]], needed: set[str], kind: str) -> str:
        """A loop over the points of the block, after the search for the cells of its tables."""
        tables: dict[str, list[Node]] = {}
        for name, text in lines if kind == "fast" else ():
            if found := self.table(text):
                tables.setdefault(found[1], []).append((name, found[0], found[2]))
        out, body, at = "", [], dict[str, str]()
        for argument, nodes in tables.items():
            cell = self.cell(argument, nodes)
            out += self.search(cell, argument, nodes)
            at |= {name: f"_held(w, _{name}_held + i, t_{cell})" for name, _, _ in nodes}
            body.append(f"t_{cell} = ({argument} - _{cell}[2, i]) * _{cell}[3, i]")
        whole = ((name, _PLACE.sub(r"T_\1", text)) for name, text in lines)
        body += [f"{name} = {at.get(name, text)}" for name, text in whole]
        body += [f"_{name}[i] = {name}" for name in sorted(needed, key=self.row)]
        if kind == "slow" and not self.loop.ends:
            body = ["if _settled[i] < 2.0:", *(f"    {t}" for t in body)]
        return out + "for i in range(n):\n" + "".join(f"    {t}\n" for t in [*self.loads(body), *body])

    def row(self, name: str) -> int:
        return self.w.of(name)

    def loads(self, body: list[str]) -> list[str]:
        """What a loop's lines use and do not make, taken from its row."""
        made: set[str] = set()
        used: list[str] = []
        for line in body:
            left, _, right = line.strip().partition(" = ")
            words = re.findall(r"(?<![\w.])[A-Za-z]\w*", right if _ else left)
            rows = (x for x in words if x not in made and x in self.w.names)
            used += [x for x in dict.fromkeys(rows) if x not in used]
            made.update(left.split(", "))
        return [f"{x} = _{x}[i]" for x in used]

    def cell(self, argument: str, nodes: list[Node]) -> str:
        """The rows of the cell that averages over one variance are read from; with those of their coefficients."""
        key = argument, tuple(name for name, _, _ in nodes)
        if key not in self.cells:
            self.cells[key] = f"cell{len(self.cells)}"
            self.w.of(self.cells[key], 4)
            for name, _, _ in nodes:
                self.w.of(f"{name}_held", 10)
        return self.cells[key]

    def search(self, cell: str, argument: str, nodes: list[Node]) -> str:
        """Coefficients for the points that have left their cell.

        Beyond the ends of its tables a cell is as long as a double lets it be, where all of them go on as powers that
        are polynomials (`tail`): a K that grows for ever stays in it. Elsewhere it is the value alone.
        """
        loads = "".join(f"{t}\n" for t in self.loads([f"v = {argument}"])) + f"v = {argument}\n"
        # a table's cells are numbered by the exponent and three more bits, from its first octave on
        rows = {name: f"bits - {(self.loop.held[f].first + 1023) * 8}" for name, f, _ in nodes}
        inside = " and ".join(sorted({f"0 <= {rows[name]} < T_{t}.shape[0]" for name, _, t in nodes}))
        take = "".join(f"_{name}_held[k, i] = T_{t}[{rows[name]}, k]\n" for name, _, t in nodes)
        values = "".join(f"_{name}_held[0, i] = {f}(v, T_{t})\n" for name, f, t in nodes)
        beyond = "".join(self.tail(cell, nodes, rows, side) for side in (-1, 1))
        return f"""moved = False
for i in range(n):
{indent(loads, 4)}
    moved = moved | (not ((_{cell}[0, i] <= v) & (v < _{cell}[1, i])))
if moved:
    for i in range(n):
{indent(loads, 8)}
        if not (_{cell}[0, i] <= v < _{cell}[1, i]):
            bits = _bits(v) >> 49
            a, b = _float(bits << 49), _float((bits + 1) << 49)
            _{cell}[0, i], _{cell}[1, i], _{cell}[2, i], _{cell}[3, i] = a, b, 0.5 * (a + b), 2.0 / (b - a)
            if v > 0.0 and {inside}:
                for k in range(10):
{indent(take, 20)}
{indent(beyond, 12)}
            else:
                _{cell}[1, i], _{cell}[2, i], _{cell}[3, i] = -math.inf, v, 0.0
{indent(values, 16)}
"""

    def tail(self, cell: str, nodes: list[Node], rows: dict[str, str], side: int) -> str:
        """A branch for points below (side -1) or above (1) all tables of a cell: t = v/a with a the power of 2 below v,
        from 2^-400 or to 2^400, and the value at a times t^p."""
        powers = [self.loop.held[f].tail(side) for _, f, _ in nodes]
        if None in powers:
            return ""
        out = {name: f"{rows[name]} < 0" if side < 0 else f"{rows[name]} >= T_{t}.shape[0]" for name, _, t in nodes}
        ends = f"a * {2.0**-LONG!r}, 2.0 * a" if side < 0 else f"a, a * {2.0**LONG!r}"
        take = "".join(
            f"for k in range(10):\n    _{name}_held[k, i] = 0.0\n_{name}_held[{p}, i] = {f}(a, T_{t})\n"
            for (name, f, t), p in zip(nodes, powers)
        )
        return f"""elif {LEAST_NORMAL!r} <= v < {GREATEST!r} and {" and ".join(out.values())}:
    a = _float((bits >> 3) << 52)
    _{cell}[0, i], _{cell}[1, i] = {ends}
    _{cell}[2, i], _{cell}[3, i] = 0.0, 1.0 / a
{indent(take, 4)}
"""

    def declared(self) -> str:
        """Where the rows begin, and names for the tables."""
        tables = sorted({t for _, text in self.assigned for t in _PLACE.findall(text)}, key=int)
        rows = (f"_{x} = {k * WIDTH}" for x, (k, _) in self.w.names.items())
        return "".join(f"    {t}\n" for t in [*rows, *(f"T_{t} = T[{t}]" for t in tables)])

    def placed(self, text: str) -> str:
        """Text with rows as places of the workspace, `w[_K + i]` for `_K[i]`: LLVM knows then how far apart two rows
        are, and that they do not overlap."""

        def place(found: re.Match) -> str:
            name, row, i = found[1], found[2], found[3]
            if name not in self.w.names:
                return found[0]
            above = "" if row in (None, "0") else f" + {int(row) * WIDTH}" if row.isdigit() else f" + {WIDTH} * {row}"
            return f"w[_{name}{above} + {i}]"

        return _ROW.sub(place, text)
