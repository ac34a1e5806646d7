"""The text of a depth loop: points go in blocks, one layer of all of them at a time, in loops without branches.

A layer of a block is a chain of loops over its points (`stages`). A variable that is carried as a logarithm is held as
m 2^e. A point whose drivers repeat, or that diverges, leaves the block, and the last one takes its place; where some
variable goes on although the drivers repeat, it stays, and averages are no longer asked. No number depends on which
points share a block.
"""

from __future__ import annotations

from meanfield.numeric.lowering.loops import Loop
from meanfield.numeric.lowering.stages import Stages, indent

BLOCK = 64
NOTHING = 1e-40  # of K: a distance that no average tells from 0 (in units of K; kinks see its root)


class Writer(Stages):
    """The text of one loop, written from the top down."""

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
        lines.append(("done", "lost | same" if loop.ends else "lost"))
        if not loop.ends:  # averages are asked once more where their variables stay, and hold from there on
            lines.append(("settled_next", "2.0 if settled > 0.0 else 1.0 if same else 0.0"))
            lines.append(("moving", "moving | (settled == 0.0)"))
        lines += [("left", "left | done"), ("status_next", "1.0 if done else 0.0")]
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
            evaluate = "if moving:\n" + indent(evaluate, 4) + "\n"
        rest += "" if one else "moving = False\nleft = False\n" + self.over(finish, set(), "fast")
        head = "left = False\n" if one else ""
        number = f"{loop.layer} = float(l + 2)\n" if loop.layer else ""
        return _TEXT.format(
            constants="".join(f"    {name} = {text}\n" for name, text in loop.constants),
            rows=self.declared(),
            start=indent(self.begin(), 12),
            parameters=indent(self.read(), 20),
            body=indent(number + head + evaluate + rest, 12),
            every=indent(self.write("l - first + 1"), 20),
            leave=indent(self.leave(), 20),
            final=indent(self.write("0"), 16),
            rows_count=self.w.count,
            block=BLOCK,
            settled=f"homogeneous and l >= {len(loop.layers) - 1}" if len(loop.layers) > 1 else "homogeneous",
        )

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
        blow = indent("\n".join(lost), 4)
        stay = indent("\n".join(kept), 4) if self.loop.ends else ""
        stays = f"else:\n{stay}\n" if self.loop.ends else ""
        return f"""p = int(_point[i])
if not ({" & ".join(f"(abs(_{v.name}[i]) < 1e300)" for v in variables if v.norm) or "True"}):
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
        out += f"{word}:\n" + indent(lines or "pass", 4) + "\n"
    return out

