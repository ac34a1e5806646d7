"""SymPy → Python source that Numba compiles: the printer, and the stable rewritings of closed forms.

A node the printer does not know raises by name; nothing is passed through silently.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import sympy as sp
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.pycode import PythonCodePrinter

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, steep
from meanfield.functions.elementary import elementary_of
from meanfield.numeric.lowering.text import interpreting
from meanfield.numeric.lowering.text.helpers import helpers_for

ROOT = sp.Symbol("root", nonnegative=True)  # √(K_aa K_bb - K_ab²)
GROWING = (K, K_aa, K_ab, K_bb, ROOT)


class rooted(sp.Function):
    """√(u² + v) of u, v >= 0, also where u² leaves the doubles."""

    nargs = 2
    is_real = True

    def _eval_is_positive(self):
        return self.args[1].is_positive


class over(sp.Function):
    """n/d, divided before anything is multiplied with it: products of variances leave the doubles, ratios do not."""

    nargs = 2
    is_real = True


class erfcx(sp.Function):
    """e^{x²} erfc(x): what is left of e^{a} erfc(x) when the growth and the decay have been taken out."""

    nargs = 1
    is_real = True


class _Printer(PythonCodePrinter):
    def __init__(self):
        super().__init__({"fully_qualified_modules": True, "allow_unknown_functions": False})

    def _print(self, expr, **settings):
        record = elementary_of(expr) if isinstance(expr, sp.Function) else None
        if record is not None and record.code:
            return f"_{record.name}({self._print(expr.args[0])})"
        return super()._print(expr, **settings)

    def _print_Function(self, expr):
        if expr.func is rooted:
            return f"_rooted({', '.join(self._print(a) for a in expr.args)})"
        if expr.func is over:
            n, d = (self.parenthesize(a, PRECEDENCE["Mul"] + 1) for a in expr.args)
            return f"({n} / {d})"
        if expr.func is erfcx:
            return f"_erfcx({self._print(expr.args[0])})"
        raise MeanFieldError(f"The function {expr.func.__name__} is not known in floats; write it otherwise.")

    _print_erfcx = _print_rooted = _print_over = _print_Function

    def _print_atan2(self, expr):
        return f"_atan2({', '.join(self._print(a) for a in expr.args)})"

    def _print_atan(self, expr):
        n, d = sp.fraction(expr.args[0])
        over, under = (n, d) if d.is_positive else (expr.args[0], sp.S.One)  # one division less
        name = "_angle" if over.is_nonnegative and under.is_nonnegative else "_atan2"
        return f"{name}({self._print(over)}, {self._print(under)})"

    def _print_Mul(self, expr):
        # factors such as 4/pi are one constant
        factor, rest = expr.as_independent(*expr.free_symbols)
        if not factor.is_Rational and factor.is_comparable and not rest.is_number:
            value = float(factor)
            if 1e-300 < abs(value) < 1e300:
                return f"{value!r}*{self.parenthesize(rest, PRECEDENCE['Mul'] + 1)}"
        return super()._print_Mul(expr)

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
        raise MeanFieldError(f"{shown(expr)} is not known in floats; write it otherwise.")

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


@lru_cache(maxsize=256)
def interpret(text: str, name: str):
    """The function `name` of generated source, run by the interpreter: the very text that Numba compiles, for checks
    and single values."""

    return interpreting.scope_of(helpers_for(text) + text, name)[name]


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
    yield balanced(first)
    if closed.has(sp.erfc):
        as_erf = sp.expand(closed.replace(sp.erfc, lambda x: 1 - sp.erf(x)))
        if not as_erf.has(sp.exp):
            yield balanced(as_erf)
    if sp.count_ops(closed) < 60 and not closed.has(sp.erfc) and not steep(closed):
        yield balanced(sp.simplify(closed))
        yield balanced(sp.factor(closed))


def as_angles(e: sp.Expr) -> sp.Expr:
    """asin(n/d) as atan2(n, √(d² - n²)): near full correlation the same root stands in the other terms, and what must
    cancel does."""

    def angle(x):
        n, d = sp.fraction(sp.together(x))
        return sp.atan2(n, sp.sqrt(sp.expand(d**2 - n**2))) if d.is_positive else sp.asin(x)

    return e.replace(sp.asin, angle)


def with_root(e: sp.Expr) -> sp.Expr:
    """A formula of two inputs with `ROOT`² where K_aa K_bb - K_ab² stands by itself."""
    gap = K_aa * K_bb - K_ab**2
    return e.replace(lambda a: a.is_Add and a in (gap, -gap), lambda a: ROOT**2 * (1 if a == gap else -1))


def by_root(e: sp.Expr) -> sp.Expr:
    """A formula of two inputs with `ROOT`² for K_aa K_bb - K_ab²: roots of it and of what is added to it are those of
    sums of what is positive."""

    def told(a):
        p = sp.Poly(a, K_aa, K_bb, K_ab)
        factor = p.coeff_monomial(K_aa * K_bb)
        gap = factor * (K_aa * K_bb - K_ab**2)
        return factor * ROOT**2 + sp.expand(a - gap) if factor and p.coeff_monomial(K_ab**2) == -factor else a

    def root(power):
        factor = power.base.coeff(ROOT**2)
        rest = power.base - factor * ROOT**2
        positive = factor.is_positive and rest.is_nonnegative and not rest.has(ROOT)
        return rooted(sp.sqrt(factor) * ROOT, rest) ** (2 * power.exp) if positive else power

    e = e.replace(lambda a: a.is_Add and a.is_polynomial(K_aa, K_bb, K_ab) and a.has(K_ab), told)
    return e.replace(lambda a: a.is_Pow and a.base.is_Add and (2 * a.exp).is_Integer and a.base.has(ROOT), root)


def balanced(e: sp.Expr) -> sp.Expr:
    """The formula with its quotients of products as products of quotients: K²/((K + 1)√(2K + 1)) ends at the largest
    double, and not at its root."""
    if not e.args or not e.has(*GROWING):
        return e
    e = e.func(*[balanced(a) for a in e.args])
    if not e.is_Mul:
        return e
    up: list[sp.Expr] = []
    down: list[sp.Expr] = []
    others: list[sp.Expr] = []
    for factor in e.args:
        base, power = factor.as_base_exp()
        if not (2 * power).is_Integer or not _degree(base) > 0:
            others.append(factor)
            continue
        side = up if power > 0 else down
        side += [base] * int(abs(power))
        side += [sp.sqrt(base)] if not power.is_Integer else []
    if not down or max(sum(map(_degree, up)), sum(map(_degree, down))) <= 1:
        return e
    for wide in up:
        if wide.is_Add and _degree(wide) > 1:
            return sp.Add(*[balanced(e / wide * term) for term in wide.args])
    up.sort(key=lambda f: (-_degree(f), str(f)))
    for n in up:
        near = sorted(down, key=lambda d: (n.free_symbols != d.free_symbols, abs(_degree(n) - _degree(d)), str(d)))
        others.append(over(n, near[0]) if near else n)
        down = near[1:]
    return sp.Mul(*others, *[over(1, d) for d in down])


def _degree(e: sp.Expr) -> sp.Expr:
    """The power with which a formula grows as all variances do; 0 of functions that are not algebraic."""
    if e in GROWING:
        return sp.S.One
    if e.is_Add:
        return max(map(_degree, e.args))
    if e.is_Mul:
        return sp.Add(*map(_degree, e.args))
    if e.is_Pow and e.exp.is_Rational:
        return e.exp * _degree(e.base)
    if e.func is over:
        return _degree(e.args[0]) - _degree(e.args[1])
    if e.func is rooted:
        return max(_degree(e.args[0]), _degree(e.args[1]) / 2)
    return sp.S.Zero


def _merge_erfcx(product):
    exponentials = [a for a in product.args if isinstance(a, sp.exp)]
    tails = [a for a in product.args if isinstance(a, sp.erfc)]
    if len(exponentials) != 1 or len(tails) != 1:
        return product
    x = tails[0].args[0]
    rest = sp.Mul(*[a for a in product.args if a not in (exponentials[0], tails[0])])
    return rest * erfcx(x) * sp.exp(sp.expand(exponentials[0].args[0] - x**2))
