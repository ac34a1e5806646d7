"""Whether two expressions are the same function: by structure, by closed forms, by digits, in that order.

Structure decides almost everything the engine derives twice, and costs no digit of any average: each average is brought
into a normal form (integrand written out term by term, covariances as reduced quotients), becomes a symbol, and what is
left is an identity between rational functions of symbols and roots.
"""

from __future__ import annotations

import math

import sympy as sp

from meanfield.base.answers.results import Equality, MeanFieldError
from meanfield.base.arguments import validated, whole
from meanfield.base.symbols import Z
from meanfield.functions import balls, zeros
from meanfield.functions.piecewise import SWITCHES, pieces
from meanfield.symbolic.averages.base import Node
from meanfield.symbolic.averages.node import Average, average, expression, outermost
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio

SIMPLIFIED = 500  # operations: beyond that SymPy's simplify may take minutes, and digits have spoken already
HALVINGS = 20  # of a test point's symbols, until its covariances are some
BITS = (160, 320, 640, 1280)  # of the digits, as long as the balls are too wide to tell


@validated
def closed(expr: sp.Expr) -> sp.Expr:
    """`expr` with every average replaced by its closed form where there is one; other averages stay nodes.

    >>> from meanfield.base.symbols import K, z
    >>> closed(1 + average(sp.erf(z)**2, K))
    2*asin(2*K/(2*K + 1))/pi + 1
    """
    e = expression(expr, "What closed forms are asked for")
    while True:
        swap = {a: b for a in e.atoms(Node) if (b := a.in_closed_form()) != a}
        if not swap:
            return e
        e = e.xreplace(swap)


@validated
def equal(a: sp.Expr, b: sp.Expr, points: int = 3) -> Equality:
    """Whether two expressions (averages included) are the same function of their symbols (`meanfield.equal`).

    PROVED by structure or by closed forms; DIFFERENT by digits that exclude each other; else equal to 30 digits at
    `points` exact places. Raises: MeanFieldError where digits cannot tell.

    >>> from meanfield.base.symbols import K, z
    >>> equal(average((sp.tanh(z) + z)**2, K), average(sp.tanh(z)**2 + 2*z*sp.tanh(z), K) + K).value
    'proved equal'
    """
    a, b = expression(a, "An expression to compare"), expression(b, "An expression to compare")
    points = whole(points, "points", 1, 100)
    if a == b or same_structure(a, b):
        return Equality.PROVED
    if sp.oo in (a, b):  # φ jumps on one side only
        return Equality.DIFFERENT
    if a.has(DistanceRatio) or b.has(DistanceRatio):  # ⟨(f_a - f_b)²⟩ and 2⟨f²⟩ - 2⟨f_a f_b⟩ are one function
        a, b = (e.xreplace({s: s.definition() for s in e.atoms(DistanceRatio)}) for e in (a, b))
        if same_structure(a, b):
            return Equality.PROVED
    difference, size = closed(a - b), closed(a)
    free = sorted(a.free_symbols | b.free_symbols, key=lambda s: s.name)
    covariances = {n.args[1] for e in (a, b) for n in e.atoms(Average) if n.dimension > 1}
    for k in range(points):  # numbers first: a difference is cheap to see and final
        if not _agree(difference, size, _inside(sample(free, k), covariances)):
            return Equality.DIFFERENT
    if not difference.has(Average) and difference.count_ops() < SIMPLIFIED and sp.simplify(difference) == 0:
        return Equality.PROVED
    return Equality.TO_30_DIGITS


def _agree(difference: sp.Expr, size: sp.Expr, at: dict) -> bool:
    """Whether the difference is 0 to 30 digits of `size`."""
    for bits in BITS:
        with balls.precision(bits):
            value, scale = balls.constant(difference.subs(at)), abs(balls.constant(size.subs(at)))
        if not value.contains(0):
            return False
        if value.is_zero() or value.rad() <= 1e-30 * float(scale.mid()) + 1e-300:
            return True
    raise MeanFieldError(f"Whether {difference} is 0 at {at} is not decided: the ball {value} stays too wide.")


def sample(free, k: int) -> dict[sp.Symbol, sp.Rational]:
    """The k-th exact test point; covariances and correlations of two inputs stay inside |c| < 1."""
    at = {s: sp.Rational(29 + 13 * i + 17 * k, 23 + 6 * k) for i, s in enumerate(free)}
    for s in at:
        if s.name.endswith("_ab") or s.name in ("c", "c0"):
            at[s] = sp.Rational((-1) ** k * (2 + k), 7 + 2 * k)
    return at


def _inside(at: dict, covariances: set[sp.Tuple]) -> dict:
    """The test point at which every covariance is one: symbols that no variance holds are halved until it is."""
    rows = [[(i, j) for i in range(_order(c)) for j in range(i + 1)] for c in covariances]
    own = [{s for (i, j), e in zip(r, c) if i == j for s in e.free_symbols} for r, c in zip(rows, covariances)]
    free = set().union(*[c.free_symbols - o for c, o in zip(covariances, own)]) - set().union(*own)
    for _ in range(HALVINGS):
        wide = set().union(*[c.free_symbols & free for c in covariances if not _is_covariance(c.xreplace(at))])
        if not wide:
            break
        at = {s: v / 2 if s in wide else v for s, v in at.items()}
    return at


def _order(entries: sp.Tuple) -> int:
    """The number of variables whose covariance has so many entries."""
    return (math.isqrt(8 * len(entries) + 1) - 1) // 2


def _is_covariance(entries: sp.Tuple) -> bool:
    """Whether numbers, a lower triangle row by row, are a covariance; True where they hold averages."""
    n = _order(entries)
    if entries.has(Average):
        return True
    full = sp.Matrix(n, n, lambda i, j: entries[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)])
    return all(sp.N(full[:m, :m].det(), 20) >= 0 for m in range(1, n + 1))


# ----------------------------------------------------------------------------------------------------- by structure


def same_structure(a: sp.Expr, b: sp.Expr) -> bool:
    """Whether a - b vanishes identically when every average, in normal form, is a symbol of its own."""
    if a.has(sp.oo) or b.has(sp.oo):
        return a == b
    if same_integrand(a, b):
        return True
    names: dict[sp.Expr, sp.Symbol] = {}
    done: dict[sp.Expr, sp.Expr] = {}
    return _vanishes(_named(_normal(a, done), names) - _named(_normal(b, done), names))


def _normal(e: sp.Expr, done: dict) -> sp.Expr:
    """Averages term by term, over variances in normal form (a LayerNorm's 1 is 1 however it came about)."""
    swap = {}
    for node in sorted(e.atoms(Average), key=lambda n: n.count_ops()):
        if node not in done:
            cov = tuple(reduced(_normal(c, done)) for c in node.cov)
            mean = tuple(reduced(_normal(m, done)) for m in node.mean)
            f = _normal(node.integrand, done)  # constants of a LayerNorm, which may leave the average
            done[node] = sp.Add(*[_moment(average(t, cov, mean)) for t in _terms(f, node.dimension)])
        swap[node] = done[node]
    return e.xreplace({a: swap[a] for a in outermost(e)})


def _moment(e: sp.Expr) -> sp.Expr:
    """The average of a polynomial is one in the covariances: ⟨z²⟩_K = K."""
    return closed(e) if all(a.integrand.is_polynomial(*Z) for a in e.atoms(Average)) else e


def _terms(f: sp.Expr, n: int) -> tuple[sp.Expr, ...]:
    """The terms of an integrand; with switch points it stays whole, because its pieces are merged."""
    if f.has(*SWITCHES):
        return (f.xreplace({p: _with_reduced_pieces(p) for p in f.atoms(sp.Piecewise)}),)
    if not f.has(*Z[:n]):
        return (f,)
    return tuple(_with_factored_denominator(t) for t in sp.Add.make_args(sp.expand(f)))


def _with_reduced_pieces(p: sp.Piecewise) -> sp.Expr:
    """Rational pieces as reduced quotients: 1/(1 - z) + z/(1 - z)² is 1/(1 - z)²."""
    return sp.Piecewise(*[(sp.cancel(e) if e.is_rational_function(*Z) else e, where) for e, where in p.args])


def _with_factored_denominator(t: sp.Expr) -> sp.Expr:
    """1/(v e^{z²} - m² e^{z²}) as 1/((v - m²) e^{z²}), so that the constant can leave the average."""
    top, bottom = sp.fraction(t)
    return top / sp.factor(bottom) if bottom.is_Add else t


def _named(e: sp.Expr, names: dict) -> sp.Expr:
    for node in sorted(outermost(e), key=str):
        names.setdefault(node, sp.Dummy(f"A{len(names)}", positive=node.is_positive or None, real=True))
    return e.xreplace(names)


def reduced(e: sp.Expr) -> sp.Expr:
    """A quotient of polynomials without common factors, averages taken as symbols: the normal form of a variance."""
    if e.is_Atom or isinstance(e, Average):
        return e
    names: dict[sp.Expr, sp.Symbol] = {}
    flat = _named(e, names)
    return sp.cancel(sp.together(flat)).xreplace({v: a for a, v in names.items()})


def _vanishes(e: sp.Expr) -> bool:
    """Whether an expression in symbols and roots is identically 0, by reduction to a polynomial that is."""
    if e == 0:
        return True
    roots: dict[sp.Expr, tuple[sp.Symbol, int]] = {}
    flat = _without_roots(e, roots)
    top = sp.fraction(sp.together(flat))[0]
    relations = [r**q - base for base, (r, q) in roots.items()]
    for relation, (r, _) in reversed(list(zip(relations, roots.values()))):  # outer roots first
        top = sp.expand(sp.fraction(sp.together(sp.rem(sp.expand(top), relation, r)))[0])
        if top == 0:
            return True
    return sp.expand(top) == 0


def _without_roots(e: sp.Expr, roots: dict) -> sp.Expr:
    """`e` with each root of a sum as a symbol r, r^q = base; equal bases share one."""
    if not isinstance(e, (sp.Add, sp.Mul, sp.Pow)):  # what stands inside a function is the function's affair
        return e
    args = [_without_roots(a, roots) for a in e.args]
    if e.is_Pow and e.exp.is_Rational and not e.exp.is_Integer and args[0].is_Add:
        base = sp.cancel(sp.together(args[0]))
        power = e.exp.q
        known, q = roots.setdefault(base, (sp.Dummy("r", positive=True), power))
        if q == power:
            return known**e.exp.p
    return e.func(*args)


# --------------------------------------------------------------------------------------------- under the average sign


def same_integrand(a: sp.Expr, b: sp.Expr) -> bool:
    """Whether a - b is one average of a function that is identically 0: a sum of averages over one Gaussian is one
    average, and nothing has to be multiplied out that stands on both sides."""
    difference = a - b
    outer = outermost(difference)
    inner = sorted({m for n in outer for m in n.integrand.atoms(Average)}, key=str)
    outer -= set(inner)
    if len({(n.cov, n.mean) for n in outer}) != 1 or any(n.integrand.has(*SWITCHES) for n in outer):
        return False
    names = {m: sp.Dummy("m", real=True, positive=m.is_positive or None) for m in inner}
    one = {n: sp.Dummy("A") for n in outer}
    try:
        whole = sp.Poly(difference.xreplace(one).xreplace(names), *one.values())
    except sp.PolynomialError:
        return False
    if whole.total_degree() > 1:
        return False
    parts = [whole.coeff_monomial(symbol) * n.integrand.xreplace(names) for n, symbol in one.items()]
    left = _cancelled(_without_constant_roots(sp.Add(whole.coeff_monomial(1), *parts)))
    (cov, mean) = next((n.cov, n.mean) for n in outer)
    if left != 0 and len(cov) == 1 and not any(mean):
        left = _cancelled(left + left.xreplace({Z[0]: -Z[0]}))  # what is odd in z averages to 0
    return left == 0


def quotient(f: sp.Expr, g: sp.Expr) -> sp.Expr | None:
    """The number f/g where two functions of z are proved proportional, piece by piece; None where they are not."""
    p, q = pieces(f, Z[0]), pieces(g, Z[0])
    if p.breaks != q.breaks:
        return None
    inner = sorted(f.atoms(Average) | g.atoms(Average), key=str)  # numbers: those of a norm behind a norm
    names = {m: sp.Dummy("m", real=True, positive=m.is_positive or None) for m in inner}
    found = None
    for one, other in zip(p.exprs, q.exprs):
        if other == 0 == one:
            continue
        ratio = sp.S.Zero if other == 0 else _cancelled((one / other).xreplace(names))
        ratio = ratio.xreplace({name: m for m, name in names.items()})
        if not ratio.is_number or ratio == 0 or (found is not None and not zeros.is_zero(ratio - found)):
            return None
        found = ratio if found is None else found
    return found


def _cancelled(f: sp.Expr) -> sp.Expr:
    """What is left of a function, heads (erf, exp, …) being independent of each other where their arguments differ."""
    heads: dict[sp.Expr, sp.Symbol] = {}
    flat = _flat(f, heads)
    powers = [p for p in flat.atoms(sp.Pow) if p.base in heads.values() and p.exp.is_Rational]
    whole = {p.base: sp.ilcm(1, *[q.exp.q for q in powers if q.base == p.base]) for p in powers}
    roots = {s: sp.Dummy("e", positive=True) for s, q in whole.items() if q > 1}
    top, bottom = sp.fraction(sp.together(flat.subs({s: e ** whole[s] for s, e in roots.items()})))
    left = sp.cancel(sp.expand(top) / bottom)
    left = left.xreplace({e: s ** sp.Rational(1, whole[s]) for s, e in roots.items()})
    for head, s in reversed(heads.items()):  # outer ones first: they hold the symbols of inner ones
        left = left.xreplace({s: head})
    return left


def _without_constant_roots(f: sp.Expr) -> sp.Expr:
    """Where √(v - m²) occurs, v is written r² + m², so that every quotient has one form."""
    for _ in range(4):
        roots = [p for p in f.atoms(sp.Pow) if p.exp.is_Rational and not p.exp.is_Integer and p.base.is_Add]
        for p in sorted((p for p in roots if not p.has(*Z)), key=str):
            linear = [s for s in sorted(p.base.free_symbols, key=str) if sp.diff(p.base, s).is_number]
            if linear:
                s, r = linear[0], sp.Dummy("r", positive=True)
                f = f.subs(s, sp.solve(p.base - r**p.exp.q, s)[0])
                break
        else:
            return f
    return f


def _flat(e: sp.Expr, heads: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
    """`e` as a rational function of symbols: its own, one for each head, and one for each term of an exponent."""
    if not e.args:
        return e
    args = [_flat(a, heads) for a in e.args]
    if e.is_Add or e.is_Mul:
        return e.func(*args)
    inside = sp.cancel(sp.together(args[0]))
    if e.is_Pow:
        return inside**e.exp
    if not isinstance(e, sp.exp):
        return heads.setdefault(e.func(inside, *args[1:]), sp.Dummy("h", real=True))
    top, bottom = sp.fraction(inside)
    scale, below = bottom.as_content_primitive()
    out = sp.S.One
    for term in sp.Add.make_args(sp.expand(top)):
        number, rest = term.as_coeff_Mul()
        out *= heads.setdefault(sp.exp(rest / below), sp.Dummy("e", positive=True)) ** (number / scale)
    return out
