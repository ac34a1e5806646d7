"""The text of a depth loop: points go in blocks, one layer of all of them at a time, in loops without branches.

A layer of a block is a chain of loops over its points (`block_loops`). A variable that is carried as a logarithm is
held as m 2^e; exponents are taken out of the m of a block once one of them is far from 1, and what m 2^e is does not
depend on when. A point whose drivers repeat, or that diverges, leaves the block, and the last one takes its place;
where some variable goes on although the drivers repeat, it stays, and averages are no longer asked. Who is done is
asked only in a layer where some point may be. No number depends on which points share a block.
"""

from __future__ import annotations

from meanfield.base.quantities import VARIANCES
from meanfield.numeric.lowering.text.block_loops import Stages
from meanfield.numeric.lowering.text.depth_loops import LoopSource
from meanfield.numeric.lowering.text.elementary_numeric import WIDTH
from meanfield.numeric.lowering.text.scheduling import by_layer, indent

LOW, HIGH = 2.0**-32, 2.0**32  # where exponents are taken out
NEAR = 1e-15  # a step that may be one of rounding alone, in units of the value
NOTHING = 1e-40  # of K: a distance that no average tells from 0 (in units of K; kinks see its root)
LEAST = 1e-290  # the same where φ jumps, and the ratio of distances is infinite at 0


class Writer(Stages):
    """The text of one loop, written from the top down."""

    @property
    def nothing(self) -> float:
        return LEAST if self.loop.jumps else NOTHING

    def finish(self) -> list[tuple[str, str]]:
        """What follows after the next values: logarithms as m 2^e, more exact formulas, who is done."""
        loop, main, lines = self.loop, self.loop.variables[0].name, []
        for v in self.wide:
            x = v.name
            lines.append((f"m_{x}_next", f"0.0 if m_{x} == 0.0 else m_{x} * {x}_factor"))  # 0 stays 0
            if v.drives and not loop.ends:
                lines.append((f"{x}_stays", f"(settled > 0.0) & ({x} > 0.0)"))
                lines.append((f"m_{x}_next", f"m_{x} if {x}_stays else m_{x}_next"))
            if v.drives:
                lines.append((f"{x}_next", f"_double(m_{x}_next, e_{x})"))
            lines.append(("far", f"far | (not ((m_{x}_next > {LOW!r}) & (m_{x}_next < {HIGH!r})))"))
        if not loop.ends:
            plain = [v.name for v in self.drivers if not v.wide]
            lines += [(f"{x}_next", f"{x} if settled > 0.0 else {x}_next") for x in plain]
        for v in self.wide:
            if v.drives:  # no average tells it from 0
                x = f"{v.name}_next"
                lines.append((x, f"0.0 if {x} < {self.nothing!r} * {main}_next else {x}"))
        lines += loop.closer
        moved = [f"(abs({v.name}_next - {v.name}) > {NEAR!r} * abs({v.name}))" for v in self.drivers]
        near = f"repeats & (not ({' | '.join(moved)}))"
        if not loop.ends:  # averages are asked once more where their variables stay, and hold from there on
            near = f"(settled == 0.0) & {near}"
            lines += [("moving", "moving | (settled == 0.0)"), ("settled_next", "2.0 if settled > 0.0 else 0.0")]
        lines.append(("look", f"look | ({near}) | (not ({self.finite('{}_next')}))"))
        for v in self.drivers:
            lines += [(f"_{v.name}_earlier[i]", f"{v.name}_before"), (f"_{v.name}_before[i]", v.name)]
        kept = [f"m_{v.name}" for v in self.wide] + [v.name for v in loop.variables if v.drives or not v.wide]
        lines += [(f"_{x}[i]", f"{x}_next") for x in [*kept, *([] if loop.ends else ["settled"])]]
        return lines + [(f"_{v.name}_factor[i]", f"{v.name}_factor") for v in self.wide if loop.ends or v.drives]

    def finite(self, text: str) -> str:
        """Whether a layer can be made: K must stay finite, and a K that can only overflow in the next square is called
        divergence, too."""
        return " & ".join(f"(abs({text.format(v.name)}) < 1e300)" for v in self.loop.variables if v.norm) or "True"

    def done(self) -> str:
        """Who is done: points that no layer can follow, and those that only repeat themselves."""
        # a two-cycle of neighbouring doubles is as fixed as rounding allows
        same = [
            f"(_{x}[i] == _{x}_before[i] or "
            f"(_{x}[i] == _{x}_earlier[i] and abs(_{x}[i] - _{x}_before[i]) <= {NEAR!r} * abs(_{x}_before[i])))"
            for x in (v.name for v in self.drivers)
        ]
        # what is too small to be told from 0 does not stay so where it grows
        same += [f"(_{v.name}[i] > 0.0 or _{v.name}_factor[i] <= 1.0)" for v in self.wide if v.drives]
        lines = [f"same = {' and '.join(['repeats', *same])}", f"lost = not ({self.finite('_{}[i]')})"]
        if self.loop.ends:
            return "\n".join([*lines, "_status[i] = 1.0 if lost or same else 0.0"])
        return "\n".join(
            [*lines, "_status[i] = 1.0 if lost else 0.0", "if same and _settled[i] == 0.0:", "    _settled[i] = 1.0"]
        )

    def normalized(self) -> str:
        """Exponents taken out of every m."""
        return "\n".join(
            f"_m_{x}[i], _e_{x}[i] = _split(_m_{x}[i], _e_{x}[i])" for x in (v.name for v in self.wide)
        )

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
        evaluate, rest = (by_layer([p[k] for p in parts]) for k in (0, 1))
        if evaluate and not loop.ends:
            evaluate = "if moving:\n" + indent(evaluate, 4) + "\n"
        start = "look = False\nfar = False\n"
        rest += "" if one else f"moving = False\n{start}" + self.over(finish, set(), "fast")
        head = start if one else ""
        number = f"{loop.layer} = float(l + 2)\n" if loop.layer else ""
        whole = _TEXT.format(
            constants="".join(f"    {name} = {text}\n" for name, text in loop.constants),
            rows=self.declared(),
            start=indent(self.begin(), 12),
            parameters=indent(self.read(), 20),
            body=indent(number + head + evaluate + rest, 12),
            every=indent(self.write("l - first + 1"), 20),
            far=indent("for i in range(n):\n" + indent(self.normalized(), 4), 16) if self.wide else " " * 16 + "pass",
            done=indent(self.done(), 20),
            leave=indent(self.leave(), 20),
            final=indent(self.write("0"), 16),
            size=self.w.count * WIDTH,
            width=WIDTH,
            settled=f"homogeneous and l >= {len(loop.layers) - 1}" if len(loop.layers) > 1 else "homogeneous",
        )
        return self.placed(whole)

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
                lines.append(f"if _{v.name}[i] < {self.nothing!r} * _{main}[i]:")
                lines.append(f"    _{v.name}[i] = 0.0")
        lines += [f"_{x}[i] = -1.0" for x in self.before]
        lines += [] if self.loop.ends else ["_settled[i] = 0.0"]
        lines += [f"_{cell}[0, i], _{cell}[1, i] = math.inf, -math.inf" for cell in self.cells.values()]
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
        norms = [v.name for v in variables if v.drives and not v.wide and v.name in VARIANCES]
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
        blow = indent("\n".join(lost), 4)
        stay = indent("\n".join(kept), 4) if self.loop.ends else ""
        stays = f"else:\n{stay}\n" if self.loop.ends else ""
        return f"""p = int(_point[i])
if not ({self.finite("_{}[i]")}):
    diverged[p] = l + 2
{blow}
{stays}for m in range(l + 1 if every else last, last + 1):
{out}n -= 1
for k in range(0, {self.w.count * WIDTH}, {WIDTH}):
    w[k + i] = w[k + n]
"""


_TEXT = '''@njit(cache=True, error_model='numpy', nogil=True)
def layers(low, high, block, start, sigma, T, first, last, homogeneous, every, out, diverged, w):
    """Layers first + 2 to last + 1 of points low to high - 1, from their state at layer first + 1 (after it the e of
    those whose logarithms are held as m 2^e); every: out has all layers, else the last one; w: a workspace of
    {size} zeros; block: at most {width} points."""
{constants}{rows}    for begin in range(low, high, block):
        n = min(min(block, {width}), high - begin)
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
            if far:
{far}
            if every:
                for i in range(n):
{every}
            if look:
                for i in range(n):
{done}
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


def text(loop: LoopSource) -> tuple[str, int]:
    """(source of the function `layers` of a loop, size of its workspace)."""
    writer = Writer(loop)
    return writer.text(), writer.w.count * WIDTH
