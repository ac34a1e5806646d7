r"""An expression as a straight-line program: a Python function in which each subexpression is computed once.

The writer numbers values: two subexpressions that are the same monomial or sum of values already computed share one
local variable, whatever their shape in the tree. Each operand is a monomial q·k·Π v^n with a rational q, irrational
constants k and values v; sums give up their common factors (a(b + c) is never wider than ab + ac in ball arithmetic),
products are built from the left in one order, integer powers by squaring. Constants are rounded once per precision.

The source consists of names made here and of operators; nothing of the caller's text gets into it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import sympy as sp
from flint import ctx

from meanfield.base.answers.results import MeanFieldError
from meanfield.functions.elementary import elementary_of, records, where
from meanfield.functions.elementary.record import Joint

Constants = tuple[tuple[int, int], ...]  # (number of an irrational constant, its exponent)
Factors = tuple[tuple[int, int], ...]  # (number of a value, its exponent)
Term = tuple[sp.Rational, Constants, Factors]  # of a sum


@dataclass(frozen=True)
class Arithmetic:
    """What a program computes with.

    method: of a SymPy class, a function of (value, analytic) or the name of a method that has no branch cut, None where
    there is none; number: a constant expression at the current precision, with a memory of parts already known; exact:
    an integer or a dyadic rational as a value that every precision shares; root, power: √v and v^w (None: refused);
    off_zero: v^w of a v that vanishes nowhere (None: as of any); joint: what computes functions that go together;
    complaint: the error for an unknown function.
    """

    method: Callable[[type], str | Callable[[Any, bool], Any] | None]
    number: Callable[[sp.Expr, dict[sp.Expr, Any]], Any]
    exact: Callable[[sp.Rational], Any]
    root: Callable[[Any, bool], Any]
    power: Callable[[Any, Any, bool], Any] | None
    joint: Callable[[Joint], Callable[[Any, bool, bool], tuple[Any, ...]]]
    complaint: Callable[[sp.Expr], MeanFieldError]
    off_zero: Callable[[Any, Any, bool], Any] | None = None


@dataclass(frozen=True)
class _Monomial:
    q: sp.Rational
    constants: Constants = ()
    factors: Factors = ()


_SMALL = 2**20  # integers and powers of two up to here are exact at every precision


@dataclass
class _Writer:
    variables: tuple[sp.Symbol, ...]
    arithmetic: Arithmetic
    joint: dict[tuple[Joint, sp.Expr], bool]  # u of which several joint functions are wanted: whether the last one is
    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)  # what the source refers to
    rounded: dict[tuple[sp.Rational, Constants], str] = field(default_factory=dict)  # constants of one precision
    irrational: dict[sp.Expr, int] = field(default_factory=dict)
    values: dict[Any, int] = field(default_factory=dict)
    memory: dict[sp.Expr, _Monomial] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)  # variables
    count: int = 0

    # ------------------------------------------------------------------------------------------------ values

    def value(self, key: Hashable, text: str) -> int:
        """The number of the value that `text` computes, which is written only if `key` is new."""
        if key not in self.values:
            self.values[key] = self.count
            self.lines.append(f"v{self.count} = {text}")
            self.count += 1
        return self.values[key]

    def constant(self, q: sp.Rational, constants: Constants) -> str:
        """The name of the number q·k."""
        if not constants and abs(q.p) <= _SMALL and q.q <= _SMALL and q.q & (q.q - 1) == 0:
            name = f"e{abs(q.p)}_{q.q}{'m' if q < 0 else ''}"
            self.names.setdefault(name, self.arithmetic.exact(q))
            return name
        return self.rounded.setdefault((q, constants), f"c{len(self.rounded)}")

    def named(self, head: Callable[..., Any]) -> str:
        found = next((name for name, h in self.names.items() if h is head), None)
        name = found or f"h{len(self.names)}"
        self.names[name] = head
        return name

    # -------------------------------------------------------------------------------------- products and powers

    def powered(self, v: int, n: int) -> int:
        """v^n by squaring."""
        if n == 1:
            return v
        if n % 2:
            return self.times(self.powered(v, n - 1), v)
        half = self.powered(v, n // 2)
        return self.times(half, half)

    def times(self, a: int, b: int) -> int:
        a, b = min(a, b), max(a, b)
        return self.value(("*", a, b), f"v{a} * v{b}")

    def product(self, factors: Factors) -> int | None:
        """The value of a product of positive powers; None for the empty one."""
        result = None
        for v, n in factors:
            p = self.powered(v, n)
            result = p if result is None else self.times(result, p)
        return result

    def text(self, m: _Monomial) -> str:
        """The monomial as an expression of names. Nothing is divided by a product or a power: its ball may hold 0 where
        no factor's does."""
        below = [v for v, n in m.factors if n == -1]
        above = [(v, n) if n > 0 else (self.inverse(v), -n) for v, n in m.factors if n != -1]
        top = self.product(tuple(sorted(above)))
        if top is None:
            text = self.constant(m.q, m.constants)
        elif abs(m.q) == 1 and not m.constants:
            text = f"-v{top}" if m.q < 0 else f"v{top}"
        else:
            text = f"{self.constant(m.q, m.constants)} * v{top}"
        return text + "".join(f" / v{v}" for v in below)

    def inverse(self, v: int) -> int:
        return self.value(("/", v), f"{self.constant(sp.S.One, ())} / v{v}")

    def slot(self, m: _Monomial) -> int:
        """The number of the value of a monomial, constants included."""
        if m.q == 1 and not m.constants and all(n > 0 for _, n in m.factors):
            found = self.product(m.factors)
            if found is not None:
                return found
        return self.value(m, self.text(m))

    # ------------------------------------------------------------------------------------------------ sums

    def sum(self, terms: dict[tuple[Constants, Factors], sp.Rational]) -> _Monomial:
        """A sum of monomials, with what they share taken out."""
        terms = {key: q for key, q in terms.items() if q != 0}
        if not terms:
            return _Monomial(sp.S.Zero)
        if len(terms) == 1:
            (((constants, factors), q),) = terms.items()
            return _Monomial(q, constants, factors)
        content = sp.Rational(math.gcd(*[q.p for q in terms.values()]), math.lcm(*[q.q for q in terms.values()]))
        ordered = sorted(terms)
        content = -content if terms[ordered[0]] < 0 else content
        k = ordered[0][0] if len({constants for constants, _ in terms}) == 1 else ()
        shared = _shared([factors for _, factors in terms])
        rest = [
            (terms[key] / content, () if k else key[0], _times(key[1], tuple((v, -n) for v, n in shared)))
            for key in ordered
        ]
        rest = self.grouped(rest)
        key = ("+", tuple(sorted(rest, key=lambda t: (t[2], t[1], t[0]))))
        if key not in self.values:
            text = ""
            for q, constants, factors in key[1]:
                minus = bool(text) and q < 0
                part = self.text(_Monomial(-q if minus else q, constants, factors))
                text += (" - " if minus else " + " if text else "") + part
            self.value(key, text)
        return _Monomial(content, k, _times(shared, ((self.values[key], 1),)))

    def grouped(self, terms: list[Term]) -> list[Term]:
        """Terms that share a value collected into a product (Horner's scheme), the value in most terms first."""
        counts: dict[int, int] = {}
        for _, _, factors in terms:
            for v, n in factors:
                counts[v] = counts.get(v, 0) + (n > 0)
        best = max(counts, key=lambda v: (counts[v], -v), default=None)
        if best is None or counts[best] < 2 or counts[best] == len(terms):
            return terms
        inside: dict[tuple[Constants, Factors], sp.Rational] = {}
        outside = []
        for q, k, factors in terms:
            if dict(factors).get(best, 0) > 0:
                inside[k, factors] = inside.get((k, factors), sp.S.Zero) + q
            else:
                outside.append((q, k, factors))
        m = self.sum(inside)
        return self.grouped([*outside, (m.q, m.constants, m.factors)])

    # ------------------------------------------------------------------------------------------------ the tree

    def write(self, e: sp.Expr) -> _Monomial:
        found = self.memory.get(e)
        if found is None:
            found = self.memory[e] = self._write(e)
        return found

    def _write(self, e: sp.Expr) -> _Monomial:
        if e in self.variables:
            self.used.add(self.variables.index(e))
            return _Monomial(sp.S.One, (), ((self.variables.index(e), 1),))
        if e.is_Rational:
            return _Monomial(e)
        if e.is_Add or e.is_Mul:
            parts = [self.write(a) for a in e.args]
            if e.is_Mul:
                return _product(parts)
            if self._fixed(e, *parts):
                return self._irrational(e)
            terms: dict[tuple[Constants, Factors], sp.Rational] = {}
            for p in parts:
                key = (p.constants, p.factors)
                terms[key] = terms.get(key, sp.S.Zero) + p.q
            return self.sum(terms)
        if e.is_Pow and e.base is not sp.E:
            return self._power(e)
        if not e.args or hasattr(e, "ball"):
            return self._irrational(e)
        if len(e.args) != 1 or (head := self.arithmetic.method(e.func)) is None:
            raise self.arithmetic.complaint(e)
        inner = self.write(e.args[0])
        if self._fixed(e, inner):
            return self._irrational(e)
        record, u = elementary_of(e), e.args[0]
        if record is not None and record.joint is not None:
            for k, side in enumerate(record.joint.at[e.func]):
                at = -u if k else u
                if side is not None and (record.joint, at) in self.joint:
                    return _value(self._together(record.joint, at) + side)
        v = f"v{self.slot(inner)}"
        text = f"{v}.{head}()" if isinstance(head, str) else f"{self.named(head)}({v}, a)"
        return _value(self.value((e.func, v), text))

    def _together(self, joint: Joint, u: sp.Expr) -> int:
        v = self.slot(self.write(u))
        key = (joint, v)
        if key not in self.values:
            n = self.values[key] = self.count
            self.count += joint.size
            head, names = self.named(self.arithmetic.joint(joint)), [f"v{n + k}" for k in range(joint.size)]
            self.lines.append(f"{', '.join(names)} = {head}(v{v}, a, {self.joint[joint, u]})")
        return self.values[key]

    def _fixed(self, e: sp.Expr, *parts: _Monomial) -> bool:
        """Whether e is a constant as it stands (and not because its variables cancel)."""
        return not any(p.factors for p in parts) and not e.has(*self.variables)

    def _irrational(self, e: sp.Expr) -> _Monomial:
        self._known(e)
        return _Monomial(sp.S.One, ((self.irrational.setdefault(e, len(self.irrational)), 1),))

    def _known(self, e: sp.Expr) -> None:
        """Refuse a constant that cannot be evaluated, before anything is."""
        if hasattr(e, "ball") or e.is_Rational or e.is_Float or e in (sp.pi, sp.E, sp.EulerGamma):
            return
        if not (e.is_Add or e.is_Mul or e.is_Pow or (len(e.args) == 1 and self.arithmetic.method(e.func) is not None)):
            raise self.arithmetic.complaint(e)
        for a in e.args:
            self._known(a)

    def _power(self, e: sp.Expr) -> _Monomial:
        base, power = self.write(e.base), self.write(e.exp)
        if self._fixed(e, base, power):
            return self._irrational(e)
        if e.exp.is_Integer and base.q != 0:
            n = int(e.exp)
            factors = base.factors
            if len(factors) > 1:
                factors = ((self.slot(_Monomial(sp.S.One, (), factors)), 1),)
            constants, factors = (tuple((v, k * n) for v, k in part) for part in (base.constants, factors))
            return _Monomial(base.q**n, constants, factors)
        names = [f"v{self.slot(m)}" if m.factors else self.constant(m.q, m.constants) for m in (base, power)]
        if self.arithmetic.off_zero is not None and not power.factors and _zero_free(e.base):
            head = self.named(self.arithmetic.off_zero)
            return _value(self.value(("off zero", *names), f"{head}({names[0]}, {names[1]}, a)"))
        if (2 * e.exp).is_Integer:
            root = self.value(("sqrt", names[0]), f"{self.named(self.arithmetic.root)}({names[0]}, a)")
            return _value(root, int(2 * e.exp))
        if self.arithmetic.power is None:
            raise self.arithmetic.complaint(e)
        head = self.named(self.arithmetic.power)
        return _value(self.value(("pow", *names), f"{head}({names[0]}, {names[1]}, a)"))

    # ---------------------------------------------------------------------------------------------- the function

    def function(self, e: sp.Expr) -> tuple[str, Callable[[tuple[Any, ...], bool], Any]]:
        """(source, function of (values, analytic))."""
        self.count = len(self.variables)
        result = self.text(self.write(e))
        head = [f"v{i} = z[{i}]" for i in sorted(self.used)]
        if self.rounded:
            head.append(", ".join(self.rounded.values()) + ", = constants()")
            self.names["constants"] = self._constants()
        body = [*head, *self.lines, f"return {result}"]
        source = "def f(z, a):\n" + "".join(f"    {s}\n" for s in body)
        scope = dict(self.names)
        exec(compile(source, "<straight line>", "exec"), scope)
        return source, scope["f"]

    def _constants(self) -> Callable[[], tuple[Any, ...]]:
        """A function that gives the constants at the current precision, each rounded once."""
        known: dict[int, tuple[Any, ...]] = {}
        wanted, irrational = list(self.rounded), list(self.irrational)
        number = self.arithmetic.number

        def constants() -> tuple[Any, ...]:
            found = known.get(ctx.prec)
            if found is None:
                memory: dict[sp.Expr, Any] = {}
                out = []
                for q, factors in wanted:
                    total = number(q, memory)
                    for c, n in factors:
                        total = total * number(irrational[c], memory) ** n
                    out.append(total)
                if len(known) > 16:  # a search that raises the precision in many steps must not fill the memory
                    known.clear()
                found = known[ctx.prec] = tuple(out)
            return found

        return constants


def _value(v: int, n: int = 1) -> _Monomial:
    return _Monomial(sp.S.One, (), ((v, n),))


def _zero_free(e: sp.Expr) -> bool:
    """Whether an expression is known to be positive on the real line, and without zeros wherever it is analytic."""
    if e.is_number:
        return bool(e.is_positive)
    if e.is_Mul:
        return all(map(_zero_free, e.args))
    if e.is_Pow and e.base is not sp.E:
        return _zero_free(e.base)
    record = elementary_of(e)
    return record is not None and record.zero_free and record.values[0] == 0


def _product(parts: list[_Monomial]) -> _Monomial:
    q: sp.Rational = sp.S.One
    constants: Constants = ()
    factors: Factors = ()
    for p in parts:
        q, constants, factors = q * p.q, _times(constants, p.constants), _times(factors, p.factors)
    return _Monomial(q, constants, factors)


def _times(a: Factors, b: Factors) -> Factors:
    """The product of two monomials, sorted."""
    if not a or not b:
        return a or b
    total = dict(a)
    for v, n in b:
        total[v] = total.get(v, 0) + n
    return tuple(sorted((v, n) for v, n in total.items() if n))


def _shared(monomials: list[Factors]) -> Factors:
    """The factors of every monomial: the smallest exponent where all are positive, the largest where all are
    negative."""
    common = dict(monomials[0])
    for m in monomials[1:]:
        other = dict(m)
        both = {v: (n, other[v]) for v, n in common.items() if v in other and (n > 0) == (other[v] > 0)}
        common = {v: min(pair) if pair[0] > 0 else max(pair) for v, pair in both.items()}
    return tuple(sorted(common.items()))


def compile_program(
    expr: sp.Expr, variables: tuple[sp.Symbol, ...], arithmetic: Arithmetic
) -> tuple[str, Callable[[tuple[Any, ...], bool], Any]]:
    """(source, function of (values of the variables, analytic)) of a smooth expression.

    Raises: what `arithmetic.complaint` makes of a function or symbol that is not known.
    """
    return _Writer(variables, arithmetic, _joint(expr)).function(expr)


def _joint(expr: sp.Expr) -> dict[tuple[Joint, sp.Expr], bool]:
    """The arguments u of which several functions that go together are wanted, of u or of -u."""
    out: dict[tuple[Joint, sp.Expr], bool] = {}
    atoms = expr.atoms(*where("joint"))
    for joint in dict.fromkeys(h.joint for h in records("joint")):
        assert joint is not None
        wanted = [a.args[0] for a in atoms if a.func in joint.at]
        several = {u for u in wanted if wanted.count(u) > 1 or -u in wanted}
        several = {u for u in several if -u not in several or not u.could_extract_minus_sign()}
        out |= {(joint, u): expr.has(joint.last(u)) for u in several}
    return out
