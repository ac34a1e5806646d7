"""The text of a depth loop: points go in blocks, one layer of all of them at a time, in loops without branches.

A layer of a block is a chain of loops over its points, made of the assignments of `loops.Loop`. What a loop hands to
the next stands in a row of the workspace w, a number a point (exponents in e): `_K` is the row of K. Averages that are
tables are read from coefficients that each point holds as long as it stays in one cell; averages without a branch are
computed where they stand; the others one point at a time. A point whose drivers repeat, or that diverges, leaves the
block, and the last one takes its place. No number depends on which points share a block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from meanfield.numeric.lowering.elementary import BRANCH_FREE
from meanfield.numeric.lowering.loops import Layer, Loop, Variable

BLOCK = 64
NOTHING = 1e-40  # of K: a distance that no average tells from 0 (in units of K; kinks see its root)
_CALL = re.compile(r"([\w.]+)\(")
_PLACE = re.compile(r"\bT\[(\d+)\]")
_TABLE = re.compile(r"(\w+)\((.*), T\[(\d+)\]\)")


@dataclass
class Rows:
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


class Writer:
    """The text of one loop, written from the top down."""

    def __init__(self, loop: Loop):
        self.loop, self.w = loop, Rows()
        self.simple = branch_free(loop.functions)
        self.cells: dict[tuple[str, tuple[str, ...]], str] = {}
        self.assigned = [*loop.constants, *(line for layer in loop.layers for line in layer.evaluate)]
        for v in loop.variables:
            for name in v.rows:
                self.w.of(name)
        for name in ("point", *(f"e_{v.name}" for v in self.wide), *loop.parameters, *self.before, "status", *([] if loop.ends else ["settled"])):
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
    def before(self) -> list[str]:
        return [f"{v.name}_before" for v in self.drivers]

    # ---------------------------------------------------------------------------------------- loops over a block

    def stages(self, layer: Layer, last: list[tuple[str, str]], needed: set[str]) -> tuple[str, str]:
        """(loops that evaluate averages, the loop of the rest) of one step; the rest goes on with `last` and keeps what
        is `needed` further down."""
        groups: list[tuple[str, list[tuple[str, str]]]] = []
        for name, text in layer.evaluate:
            kind = "slow" if self.kind(text) == "slow" else "fast"
            if not groups or groups[-1][0] != kind or self.apart(groups[-1][1], text):
                groups.append((kind, []))
            groups[-1][1].append((name, text))
        end = [*layer.rest, *last]
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
        found = _TABLE.fullmatch(text)
        if found and found[1] in self.loop.held:
            return "table"
        return "fast" if all(c in BRANCH_FREE or c in self.simple for c in _CALL.findall(text)) else "slow"

    def apart(self, lines: list[tuple[str, str]], text: str) -> bool:
        """Whether a table's argument is made in the loop of these lines: its cell is looked for before the loop."""
        made = {name for name, _ in lines}
        return self.kind(text) == "table" and bool(made & set(re.findall(r"\w+", _TABLE.fullmatch(text)[2])))

    def over(self, lines: list[tuple[str, str]], needed: set[str], kind: str) -> str:
        """A loop over the points of the block, after the search for the cells of its tables."""
        tables: dict[str, list[tuple[str, str]]] = {}
        for name, text in lines if kind == "fast" else ():
            if self.kind(text) == "table":
                tables.setdefault(_TABLE.fullmatch(text)[2], []).append((name, text))
        out, body, at = "", [], {}
        for argument, nodes in tables.items():
            cell = self.cell(argument, nodes)
            out += self.search(cell, argument, nodes)
            at |= {name: f"_held(_{name}_held, i, t_{cell})" for name, _ in nodes}
            body.append(f"t_{cell} = ({argument} - _{cell}[2, i]) * _{cell}[3, i]")
        at = {name: _PLACE.sub(r"T_\1", text) for name, text in lines} | at
        body += [f"{name} = {at[name]}" for name, _ in lines]
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

    def cell(self, argument: str, nodes: list[tuple[str, str]]) -> str:
        """The rows of the cell that averages over one variance are read from; with those of their coefficients."""
        key = argument, tuple(name for name, _ in nodes)
        if key not in self.cells:
            self.cells[key] = f"cell{len(self.cells)}"
            self.w.of(self.cells[key], 4)
            for name, _ in nodes:
                self.w.of(f"{name}_held", 10)
        return self.cells[key]

    def search(self, cell: str, argument: str, nodes: list[tuple[str, str]]) -> str:
        """Coefficients for the points that have left their cell; where a table has none, its value alone."""
        found = [(name, *_TABLE.fullmatch(text).groups()) for name, text in nodes]
        loads = "".join(f"{t}\n" for t in self.loads([f"v = {argument}"])) + f"v = {argument}\n"
        # a table's cells are numbered by the exponent and three more bits, from its first octave on
        rows = {name: f"bits - {(self.loop.held[f] + 1023) * 8}" for name, f, _, _ in found}
        inside = " and ".join(sorted({f"0 <= {rows[name]} < T_{t}.shape[0]" for name, _, _, t in found}))
        take = "".join(f"_{name}_held[k, i] = T_{t}[{rows[name]}, k]\n" for name, _, _, t in found)
        values = "".join(f"_{name}_held[0, i] = {f}(v, T_{t})\n" for name, f, _, t in found)
        return f"""moved = False
for i in range(n):
{_indent(loads, 4)}
    moved = moved | (not ((_{cell}[0, i] <= v) & (v < _{cell}[1, i])))
if moved:
    for i in range(n):
{_indent(loads, 8)}
        if not (_{cell}[0, i] <= v < _{cell}[1, i]):
            bits = _bits(v) >> 49
            a, b = _float(bits << 49), _float((bits + 1) << 49)
            _{cell}[0, i], _{cell}[1, i], _{cell}[2, i], _{cell}[3, i] = a, b, 0.5 * (a + b), 2.0 / (b - a)
            if v > 0.0 and {inside}:
                for k in range(10):
{_indent(take, 20)}
            else:
                _{cell}[1, i], _{cell}[2, i], _{cell}[3, i] = -math.inf, v, 0.0
{_indent(values, 16)}
"""

    # ------------------------------------------------------------------------------------------ the end of a layer

    def finish(self) -> list[tuple[str, str]]:
        """What follows after the next values: logarithms as m 2^e, more exact formulas, who is done."""
        loop, main, lines = self.loop, self.loop.variables[0].name, []
        for v in self.wide:
            x = v.name
            lines.append((f"{x}_grown", f"0.0 if m_{x} == 0.0 else m_{x} * {x}_factor"))  # 0 stays 0
            lines.append((f"m_{x}_next, e_{x}_next", f"_split({x}_grown, e_{x})"))
            if v.drives and not loop.ends:
                lines.append((f"{x}_stays", f"(settled > 0.0) & ({x} > 0.0)"))
                lines += [(f"{c}_{x}_next", f"{c}_{x} if {x}_stays else {c}_{x}_next") for c in "me"]
            if v.drives:
                lines.append((f"{x}_next", f"_double(m_{x}_next, e_{x}_next)"))
        if not loop.ends:
            plain = [v.name for v in self.drivers if not v.wide]
            lines += [(f"{x}_next", f"{x} if settled > 0.0 else {x}_next") for x in plain]
        for v in self.wide:
            if v.drives:  # no average tells it from 0
                lines.append((f"{v.name}_next", f"0.0 if {v.name}_next < {NOTHING!r} * {main}_next else {v.name}_next"))
        lines += loop.closer
        # K must stay finite, and a K that can only overflow in the next square is called divergence, too
        norms = [f"(abs({v.name}_next) < 1e300)" for v in loop.variables if v.norm]
        lines.append(("lost", f"not ({' & '.join(norms) or 'True'})"))
        # a two-cycle of neighbouring doubles is as fixed as rounding allows
        same = [
            f"(({x}_next == {x}) | (({x}_next == {x}_before) & (abs({x}_next - {x}) <= 1e-15 * abs({x}))))"
            for x in (v.name for v in self.drivers)
        ]
        # what is too small to be told from 0 does not stay so where it grows
        same += [f"(({v.name}_next > 0.0) | ({v.name}_factor <= 1.0))" for v in self.wide if v.drives]
        lines.append(("same", " & ".join(["repeats", *same])))
        if loop.ends:
            lines.append(("status_next", "2.0 if lost else 1.0 if same else 0.0"))
        else:  # averages are asked once more where their variables stay, and hold from there on
            lines.append(("status_next", "2.0 if lost else 0.0"))
            lines.append(("settled_next", "2.0 if settled > 0.0 else 1.0 if same else 0.0"))
            lines.append(("moving", "moving | (settled == 0.0)"))
        lines.append(("left", "left | (status_next > 0.0)"))
        lines += [(f"_{x}_before[i]", x) for x in (v.name for v in self.drivers)]
        kept = [x for v in loop.variables for x in ([f"m_{v.name}", f"e_{v.name}"] if v.wide else [])]
        kept += [v.name for v in loop.variables if v.drives or not v.wide]
        kept += ["status", *([] if loop.ends else ["settled"])]
        lines += [(f"_{x}[i]", f"{x}_next") for x in kept]
        return lines + [(f"_{v.name}_factor[i]", f"{v.name}_factor") for v in self.wide if loop.ends]

    def text(self) -> str:
        """The function `layers`."""
        loop = self.loop
        one = loop.ends and len(loop.layers) == 1
        for v in self.wide:
            self.w.of(f"{v.name}_factor")
        if not one:
            for v in loop.variables:
                if not v.wide:
                    self.w.of(f"{v.name}_next")
        finish = self.finish()
        parts = []
        kept = set() if one else {f"{v.name}_{'factor' if v.wide else 'next'}" for v in loop.variables}
        for layer in loop.layers:
            parts.append(self.stages(layer, finish if one else [], kept))
        evaluate, rest = (_chosen([p[k] for p in parts]) for k in (0, 1))
        if evaluate and not loop.ends:
            evaluate = "if moving:\n" + _indent(evaluate, 4) + "\n"
        rest += "" if one else "moving = False\nleft = False\n" + self.over(finish, set(), "fast")
        head = "left = False\n" if one else ""
        number = f"{loop.layer} = float(l + 2)\n" if loop.layer else ""
        return _TEXT.format(
            constants="".join(f"    {name} = {text}\n" for name, text in loop.constants),
            rows=self.declared(),
            start=_indent(self.begin(), 12),
            parameters=_indent(self.read(), 20),
            body=_indent(number + head + evaluate + rest, 12),
            every=_indent(self.write("l - first + 1"), 20),
            leave=_indent(self.leave(), 20),
            final=_indent(self.write("0"), 16),
            rows_count=self.w.count,
            block=BLOCK,
            settled=f"homogeneous and l >= {len(loop.layers) - 1}" if len(loop.layers) > 1 else "homogeneous",
        )

    def declared(self) -> str:
        """Names for the rows, and for the tables."""
        lines = [f"_{x} = w[{k}]" if size == 1 else f"_{x} = w[{k} : {k + size}]" for x, (k, size) in self.w.names.items()]
        tables = sorted({t for _, text in self.assigned for t in _PLACE.findall(text)}, key=int)
        return "".join(f"    {t}\n" for t in [*lines, *(f"T_{t} = T[{t}]" for t in tables)])

    def begin(self) -> str:
        """A slot at the first layer."""
        lines, main, column = [], self.loop.variables[0].name, len(self.loop.variables)
        for k, v in enumerate(self.loop.variables):
            if not v.wide:
                lines.append(f"_{v.name}[i] = float(start[p, {k}])")
                continue
            lines.append(f"_m_{v.name}[i], _e_{v.name}[i] = float(start[p, {k}]), float(start[p, {column}])")
            column += 1
            if v.drives:
                lines.append(f"_{v.name}[i] = _double(_m_{v.name}[i], _e_{v.name}[i])")
                lines.append(f"if _{v.name}[i] < {NOTHING!r} * _{main}[i]:")
                lines.append(f"    _{v.name}[i] = 0.0")
        lines += [f"_{x}[i] = -1.0" for x in self.before]
        lines += [] if self.loop.ends else ["_settled[i] = 0.0"]
        lines += [f"_{cell}[0, i], _{cell}[1, i] = math.inf, -math.inf" for cell in self.cells.values()]
        for x in self.tabled:  # of a value alone the other coefficients count 0 times what they are
            lines.append(f"for k in range(10):\n    _{x}_held[k, i] = 0.0")
        return "\n".join(lines) + "\n"

    def read(self) -> str:
        lines = [f"_{x}[i] = float(sigma[{k}, int(_point[i]), at])" for k, x in enumerate(self.loop.parameters)]
        return "\n".join(lines or ["pass"])

    def write(self, layer: str) -> str:
        lines = []
        for k, v in enumerate(self.loop.variables):
            value = f"_log(_m_{v.name}[i], _e_{v.name}[i])" if v.wide else f"_{v.name}[i]"
            lines.append(f"out[int(_point[i]), {layer}, {k}] = {value}")
        return "\n".join(lines)

    def leave(self) -> str:
        """The layers that are left of a point that leaves its block."""
        variables = self.loop.variables
        norms = [v.name for v in variables if v.drives and not v.wide and v.name.startswith("K")]
        lost, kept, steps = [], [], []
        for v in variables:
            x, over = v.name, "math.inf"
            if v.name not in norms:
                over = "math.nan"
            elif len(norms) > 1:  # of two norms one may overflow alone
                over = f"math.inf if abs(_{x}[i]) >= 1e300 else math.nan"
            lost.append(f"x_{x} = {over}")
            kept.append(f"x_{x} = _log(_m_{x}[i], _e_{x}[i])" if v.wide else f"x_{x} = _{x}[i]")
            if v.wide and self.loop.ends:
                lost.append(f"d_{x} = 0.0")
                free = f"math.isfinite(x_{x})" + (f" and _{x}[i] == 0.0" if v.drives else "")
                kept.append(f"d_{x} = math.log(_{x}_factor[i]) if {free} else 0.0")
            steps.append(f"x_{x} + (m - l - 1) * d_{x}" if v.wide and self.loop.ends else f"x_{x}")
        out = "".join(f"    out[p, m - first if every else 0, {k}] = {t}\n" for k, t in enumerate(steps))
        blow = _indent("\n".join(lost), 4)
        stay = _indent("\n".join(kept), 4) if self.loop.ends else ""
        stays = f"else:\n{stay}\n" if self.loop.ends else ""
        return f"""p = int(_point[i])
if _status[i] == 2.0:
    diverged[p] = l + 2
{blow}
{stays}for m in range(l + 1 if every else last, last + 1):
{out}n -= 1
for k in range({self.w.count}):
    w[k][i] = w[k][n]
"""


_TEXT = '''@njit(cache=True, error_model='numpy', nogil=True)
def layers(low, high, block, start, sigma, T, first, last, homogeneous, every, out, diverged):
    """Layers first + 2 to last + 1 of points low to high - 1, from their state at layer first + 1 (after it the e of
    those whose logarithms are held as m 2^e); every: out has all layers, else the last one."""
{constants}    w = np.empty(({rows_count}, {block}))
{rows}    for begin in range(low, high, block):
        n = min(block, high - begin)
        for i in range(n):
            p = begin + i
            _point[i] = p
{start}
        moving = True
        for l in range(first, last):
            if l == first or sigma.shape[2] > 1:
                at = l - first if sigma.shape[2] > 1 else 0
                for i in range(n):
{parameters}
            repeats = {settled}
{body}
            if every:
                for i in range(n):
{every}
            if left:
                i = 0
                while i < n:
                    if _status[i] == 0.0:
                        i += 1
                        continue
{leave}
                if n == 0:
                    break
        if not every:
            for i in range(n):
{final}
'''


def text(loop: Loop) -> str:
    """Source of the function `layers` of a loop."""
    return Writer(loop).text()


def _chosen(parts: list[str]) -> str:
    """The parts of the head's layers and of the block, by the layer."""
    if len(parts) == 1:
        return parts[0]
    out = ""
    for i, lines in enumerate(parts):
        word = f"if l == {i}" if i == 0 else f"elif l == {i}" if i < len(parts) - 1 else "else"
        out += f"{word}:\n" + _indent(lines or "pass", 4) + "\n"
    return out


def _indent(lines: str, by: int) -> str:
    return "\n".join(" " * by + line for line in lines.splitlines())
