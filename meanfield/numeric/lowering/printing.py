"""SymPy → Python source that Numba compiles: the printer, and the stable rewritings of closed forms.

A node the printer does not know raises by name; nothing is passed through silently.
"""

from __future__ import annotations

import math
from functools import lru_cache
from textwrap import indent

import numpy as np
import sympy as sp
from sympy.printing.pycode import PythonCodePrinter

from meanfield.heads import head_of, records
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.results import MeanFieldError
from meanfield.symbols import K_aa, K_ab, K_bb, steep


class determinant(sp.Function):
    """K_aa K_bb - K_ab², computed without cancellation."""

    nargs = 3
    is_real = True


class erfcx(sp.Function):
    """e^{x²} erfc(x): what is left of e^{a} erfc(x) when the growth and the decay have been taken out."""

    nargs = 1
    is_real = True


HELPERS = {
    "_sqrt": """def _sqrt(x):
    # covariances leave K_aa K_bb - K_ab^2 a rounding below zero
    return math.sqrt(x) if x > 0.0 else 0.0
""",
    "_det": """def _det(a, b, c):
    # a b - c^2 with the rounding of both products put back (Dekker), so that nearly full correlation keeps its digits
    p, q = a * b, c * c
    if not (1e-130 < a < 1e130 and 1e-130 < b < 1e130):
        return max(p - q, 0.0)
    t = 134217729.0 * a
    a1 = t - (t - a)
    a2 = a - a1
    t = 134217729.0 * b
    b1 = t - (t - b)
    b2 = b - b1
    t = 134217729.0 * c
    c1 = t - (t - c)
    c2 = c - c1
    e = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2
    f = ((c1 * c1 - q) + 2.0 * c1 * c2) + c2 * c2
    return max((p - q) + (e - f), 0.0)
""",
    "_sine2": """def _sine2(a, ab, b):
    # 1 - c^2 of three covariances
    s = a * b
    if 0.0 < s < math.inf:
        return min(_det(a, b, ab) / s, 1.0)
    if not s > 0.0:
        return 1.0
    c = ab / math.sqrt(a) / math.sqrt(b)
    return max(1.0 - c * c, 0.0)
""",
    "_of_gap": """def _of_gap(gap):
    # 1 - c^2 of 1 - c
    return gap * (2.0 - gap) if 0.0 < gap < 2.0 else 0.0
""",
    "_defined": """def _defined(x):
    # 0 for 0/0: what two inputs that are the same differ by
    return x if abs(x) < math.inf else 0.0
""",
    "_panels": """def _panels(lo, hi, points, scales, widest, edges):
    # edges from lo to hi: no panel crosses a steep point, nor is wider than its distance to one (or that one's scale)
    n, at = 1, lo
    edges[0] = lo
    while at < hi and n < edges.shape[0]:
        width, end = widest, hi
        for k in range(points.shape[0]):
            p, h = points[k], scales[k]
            if p > at:
                end = min(end, p)
                width = min(width, max(h, 0.5 * (p - at)))
            else:
                width = min(width, max(h, at - p))
        at += width
        if at > end - 0.3 * width:
            at = end
        edges[n] = at
        n += 1
    return n
""",
    "_width": """def _width(f, g, f_breaks, g_breaks, sd_m):
    # how steep the average over m may be where a steep place of f passes one of g: two smooth ones smooth each other,
    # and the Gaussian both; a break sees the other as it is; two breaks meet in a point, and all is analytic beside it
    if f_breaks and g_breaks:
        return min(f, g)
    return g if f_breaks else f if g_breaks else min(f + g, sd_m)
""",
    "_phi2": """def _phi2(x, y, gap):
    # P(u < x, v < y) of a standard pair of correlation 1 - gap >= 0: what is missing from the smaller margin is an
    # integral over correlations, in t = the root of twice their distance from 1; it begins where exp(-d^2/2t^2) does
    m, d, top = 0.5 * (x + y), abs(x - y), math.sqrt(2.0 * gap)
    total, low = 0.0, min(d / 9.0, top)
    while low < top:
        high = top if d == 0.0 or 1.7 * low > top else 1.7 * low
        half = 0.5 * (high - low)
        for place, weight in zip(PLACES, WEIGHTS):
            t2 = (low + half * place) ** 2
            rest = 1.0 - 0.25 * t2
            total += half * weight * math.exp(-0.5 * (d * d / t2 + m * m / rest)) / math.sqrt(rest)
        low = high
    return max(0.5 * math.erfc(-min(x, y) * 0.7071067811865476) - total * 0.15915494309189535, 0.0)
""",
    "_sort": """def _sort(a, n):
    for i in range(1, n):
        x, j = a[i], i
        while j > 0 and a[j - 1] > x:
            a[j] = a[j - 1]
            j -= 1
        a[j] = x
""",
    "_between": """def _between(a, b):
    # P(a < u < b), on the side on which it keeps its digits
    if a + b < 0.0:
        a, b = -b, -a
    return 0.5 * (math.erfc(a * 0.7071067811865476) - math.erfc(b * 0.7071067811865476)) if a < b else 0.0
""",
    "_lost": """def _lost(h, k, gap, negative):
    # P(u < h, v > k) of a standard pair of correlation 1 - gap (negative: gap - 1); where h < k this is off the
    # diagonal, and an integral over the difference of the two of how often their mean lies between
    if h <= -38.0 or k >= 38.0:
        return 0.0
    if h >= 38.0:
        return 0.5 * math.erfc(k * 0.7071067811865476)
    if k <= -38.0:
        return 0.5 * math.erfc(-h * 0.7071067811865476)
    if negative:
        return _phi2(h, -k, gap)
    if h >= k:
        return max(0.5 * math.erfc(-h * 0.7071067811865476) - _phi2(h, k, gap), 0.0)
    sd, sm = math.sqrt(2.0 * gap), math.sqrt(1.0 - 0.5 * gap)
    low, total = k - h, 0.0
    if low > 9.3 * sd:
        return 0.0
    mid = 0.5 * abs(h + k) / sm
    whole = math.sqrt(low * low + 74.0 * sd * sd) - low
    at = low
    for part in (0.2 * whole, 0.3 * whole, 0.5 * whole):
        half = 0.5 * part
        for place, weight in zip(PLACES, WEIGHTS):
            x = at + half * place
            w = 0.5 * (x - low) / sm
            if w < 1e-4:
                p = 0.7978845608028654 * w * math.exp(-0.5 * mid * mid) * (1.0 + w * w * (mid * mid - 1.0) / 6.0)
            else:
                p = _between(mid - w, mid + w)
            total += half * weight * math.exp(-0.5 * (x / sd) ** 2) * p
        at += part
    return total * 0.3989422804014327 / sd
""",
    "_erfcx": """def _erfcx(x):
    # below 10 directly, with x^2 split so that the exponential keeps its digits; beyond, the continued fraction
    if x < 10.0:
        h = math.floor(x * 1048576.0) / 1048576.0
        return math.exp(h * h) * math.exp((x - h) * (x + h)) * math.erfc(x)
    f = 0.0
    for k in range(40, 0, -1):
        f = 0.5 * k / (x + f)
    return 0.5641895835477563 / (x + f)
""",
    "_table": """def _table(K, T, first, low, high):
    # cell and position are read off the bits of K: 8 cells an octave, linear inside
    if not K > 0.0:
        return 0.0 if low > 0.0 else math.inf if low < 0.0 else _horner(T[0], -1.0)
    bits = _bits(K)
    cell = (bits >> 49) - (first + 1023) * 8
    if cell < 0:
        return _horner(T[0], -1.0) * (K / 2.0**first) ** low
    if cell >= T.shape[0]:
        return _horner(T[-1], 1.0) * (K / 2.0 ** (first + T.shape[0] // 8)) ** high
    return _horner(T[cell], (bits & 562949953421311) * 2.0**-48 - 1.0)
""",
    "_split_table": """def _split_table(K, T, first, cells, low, high):
    # as _table; a row that starts with NaN says where a cell goes on: 2^m cells of its own, from a row on
    if not K > 0.0:
        return 0.0 if low > 0.0 else math.inf if low < 0.0 else _split_table(2.0**first, T, first, cells, low, high)
    bits = _bits(K)
    cell = (bits >> 49) - (first + 1023) * 8
    if cell < 0:
        return _split_table(2.0**first, T, first, cells, low, high) * (K / 2.0**first) ** low
    if cell >= cells:
        end = T[cells - 1]
        if end[0] != end[0]:
            end = T[int(end[1]) + (1 << int(end[2])) - 1]
        return _horner(end, 1.0) * (K / 2.0 ** (first + cells // 8)) ** high
    row, place, m = T[cell], bits & 562949953421311, 0
    if row[0] != row[0]:
        m = int(row[2])
        row = T[int(row[1]) + (place >> (49 - m))]
        place &= (1 << (49 - m)) - 1
    return _horner(row, place * 2.0 ** (m - 48) - 1.0)
""",
    "_bits": """def _bits(x):
    return np.float64(x).view(np.int64)
""",
    "_horner": """def _horner(c, t):
    u = t * t
    even = c[0] + u * (c[2] + u * (c[4] + u * (c[6] + u * c[8])))
    odd = c[1] + u * (c[3] + u * (c[5] + u * (c[7] + u * c[9])))
    return even + t * odd
""",
}
_X12, _W12 = gauss_legendre(12)
for _name in ("_phi2", "_lost"):
    HELPERS[_name] = HELPERS[_name].replace("PLACES", repr(tuple(1.0 + float(x) for x in _X12)))
    HELPERS[_name] = HELPERS[_name].replace("WEIGHTS", repr(tuple(map(float, _W12))))
_NEEDS = {
    "_lost": ("_phi2", "_between"),
    "_sine2": ("_det",), "_table": ("_horner", "_bits"), "_split_table": ("_horner", "_bits"),
}


class _Printer(PythonCodePrinter):
    def __init__(self):
        super().__init__({"fully_qualified_modules": True, "allow_unknown_functions": False})

    def _print(self, expr, **settings):
        head = head_of(expr) if isinstance(expr, sp.Function) else None
        if head is not None and head.code:
            return f"_{head.name}({self._print(expr.args[0])})"
        return super()._print(expr, **settings)

    def _print_Function(self, expr):
        if expr.func is determinant:
            return f"_det({', '.join(self._print(a) for a in expr.args)})"
        if expr.func is erfcx:
            return f"_erfcx({self._print(expr.args[0])})"
        raise MeanFieldError(f"{expr.func.__name__} cannot be lowered to Numba; rewrite the expression without it.")

    _print_erfcx = _print_determinant = _print_Function

    def _print_Integer(self, expr):
        return str(expr) if abs(expr) < 2**53 else self._print_Rational(expr)  # a compiled integer has 63 bits

    def _print_Rational(self, expr):
        value = float(expr)
        if math.isinf(value):
            raise MeanFieldError(
                "An average holds a number beyond 1e308, which no double holds; rescale the activation."
            )
        return repr(value)

    _print_Float = _print_Rational

    def _print_Pow(self, expr, rational=False):
        base, exponent = expr.as_base_exp()
        if base is sp.E:
            return f"_exp({self._print(exponent)})"
        if (2 * exponent).is_Integer and not exponent.is_Integer:
            n = int(2 * exponent)
            root = f"_sqrt({self._print(base)})"
            power = root if abs(n) == 1 else f"({root} * {self._print_whole(base, (abs(n) - 1) // 2)})"
            return power if n > 0 else f"(1.0 / {power})"
        if exponent.is_Integer:
            n = int(exponent)
            return self._print_whole(base, n) if n > 0 else f"(1.0 / {self._print_whole(base, -n)})"
        return f"({self._print(base)}) ** ({self._print(exponent)})"

    def _print_whole(self, base, n):
        text = f"({self._print(base)})"
        return f"({' * '.join([text] * n)})" if n <= 4 else f"{text} ** {n}"

    def _print_Pi(self, expr):
        return "math.pi"

    def _print_not_supported(self, expr):
        raise MeanFieldError(f"{type(expr).__name__} in {expr} cannot be lowered to Numba.")

    emptyPrinter = _print_not_supported


def code(expr: sp.Expr) -> str:
    """One expression as Python source over `math` and the helpers."""
    return _Printer().doprint(expr)


def body(expr: sp.Expr, indent: str = "    ") -> str:
    """Statements that compute and return `expr`, common subexpressions taken out."""
    lines, (last,) = _with_cse((expr,))
    return "".join(f"{indent}{line}\n" for line in [*lines, f"return {last}"])


def _with_cse(exprs):
    replacements, reduced = sp.cse(list(exprs), symbols=sp.numbered_symbols("x_", cls=sp.Symbol, real=True))
    return [f"{s} = {code(e)}" for s, e in replacements], [code(e) for e in reduced]


def statements(exprs) -> tuple[list[str], list[str]]:
    """(assignment lines, one source expression each) for several expressions that share subexpressions."""
    return _with_cse(exprs)


def helpers_for(text: str) -> str:
    """The helper functions that `text` calls, as source, each compiled once."""
    needed: list[str] = []
    known = HELPERS | {f"_{h.name}": f"def _{h.name}(x):\n{indent(h.code, ' ' * 4)}\n" for h in records("code")}
    for name in known:
        if f"{name}(" in text:
            needed += [*[n for n in _NEEDS.get(name, ()) if n not in needed], *([name] if name not in needed else [])]
    order = [n for n in ("_horner", "_bits", "_det", *known) if n in needed]
    return "\n\n".join(f"@njit(cache=True, error_model='numpy')\n{known[n]}" for n in dict.fromkeys(order)) + (
        "\n\n" if order else ""
    )


@lru_cache(maxsize=256)
def interpret(text: str, name: str):
    """The function `name` of generated source, run by the interpreter: the very text that Numba compiles, for checks
    and single values."""

    def njit(*args, **kwargs):
        return args[0] if args and callable(args[0]) else (lambda f: f)

    scope = {"math": math, "np": np, "njit": njit}
    exec(compile(helpers_for(text) + text, f"<{name}>", "exec"), scope)  # generated here, from expressions only
    return scope[name]


def decorated(functions: str, decorator: str) -> str:
    """Source in which every top-level function carries `decorator`."""
    parts, current = [], ""
    for line in functions.splitlines(keepends=True):
        if line.startswith("def ") or (line and not line[0].isspace() and current.startswith("def ")):
            parts.append(current)
            current = ""
        current += line
    parts = [*parts, current]
    blocks = [p.rstrip("\n") + "\n\n\n" for p in parts if p.strip()]
    return "".join(f"{decorator}\n{b}" if b.startswith("def ") else b for b in blocks)


@lru_cache(maxsize=256)
def compiled(text: str, name: str):
    """The function `name` of generated source, compiled by Numba in this process."""
    from numba import njit

    def decorate(*args, **kwargs):
        return njit(args[0]) if args and callable(args[0]) else njit

    scope = {"math": math, "np": np, "njit": decorate}
    exec(compile(self_contained(text), f"<{name}>", "exec"), scope)  # generated here, from expressions only
    return scope[name]


def self_contained(text: str) -> str:
    """Generated functions with the helpers they call: Python text that needs `math`, `np` and `njit` alone."""
    return helpers_for(text) + decorated(text, "@njit")


def stable_forms(closed: sp.Expr):
    """Candidates that equal `closed`, in the order they are tried: with e^a erfc(x) → erfcx, as erf, simplified."""
    closed = as_angles(closed)
    first = closed.replace(lambda e: e.is_Mul and e.has(sp.erfc) and e.has(sp.exp), _merge_erfcx)
    yield first
    if closed.has(sp.erfc):
        as_erf = sp.expand(closed.replace(sp.erfc, lambda x: 1 - sp.erf(x)))
        if not as_erf.has(sp.exp):
            yield as_erf
    if sp.count_ops(closed) < 60 and not closed.has(sp.erfc) and not steep(closed):
        yield sp.simplify(closed)
        yield sp.factor(closed)


def as_angles(e: sp.Expr) -> sp.Expr:
    """asin(n/d) as atan2(n, √(d² - n²)): near full correlation the same root stands in the other terms, and what must
    cancel does."""

    def angle(x):
        n, d = sp.fraction(sp.together(x))
        return sp.atan2(n, sp.sqrt(sp.expand(d**2 - n**2))) if d.is_positive else sp.asin(x)

    e = e.replace(sp.asin, angle)
    gap = K_aa * K_bb - K_ab**2
    return e.replace(
        lambda a: a.is_Add and a in (gap, -gap),
        lambda a: determinant(K_aa, K_bb, K_ab) * (1 if a == gap else -1),
    )


def _merge_erfcx(product):
    exponentials = [a for a in product.args if isinstance(a, sp.exp)]
    tails = [a for a in product.args if isinstance(a, sp.erfc)]
    if len(exponentials) != 1 or len(tails) != 1:
        return product
    x = tails[0].args[0]
    rest = sp.Mul(*[a for a in product.args if a not in (exponentials[0], tails[0])])
    return rest * erfcx(x) * sp.exp(sp.expand(exponentials[0].args[0] - x**2))
