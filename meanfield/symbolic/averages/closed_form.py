r"""Closed forms of Gaussian averages by one rule.

A summand polynomial × exp(quadratic) × Π erf(linear) × half-lines × trigonometric is reduced in four steps:

1. each half-line and each erf(u) = 2·1[u + ξ/√2 > 0] - 1 (ξ an auxiliary standard normal) becomes a linear constraint ℓ
> 0; 2. the exponential (complex for sin and cos) tilts the Gaussian: new mean, new covariance, a factor;
3. Stein's lemma lowers the polynomial; a derivative that hits a constraint gives the density of ℓ at 0 times the same
moment
   conditioned on ℓ = 0, with one constraint fewer;
4. what is left is an orthant probability: 1, erfc, 1/4 + asin ρ/2π, or 1/8 + Σ asin ρ/4π.

Before that, powers of |z| that are no polynomials are integrated on each half-line by the gamma function (one centred
variable). Nothing is looked up by an activation's name. Source: derived here; step 4 for three constraints is
Sheppard's classical formula.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp
from sympy.logic.boolalg import Boolean

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError, NoClosedForm
from meanfield.base.budgets import tick
from meanfield.base.symbols import Z
from meanfield.functions import regions
from meanfield.functions.elementary import records
from meanfield.functions.piecewise import SWITCHES, pieces

Constraint = tuple[tuple[tuple[int, sp.Expr], ...], sp.Expr]  # ((variable, coefficient), …), offset: a form that is > 0
Vector = tuple[sp.Expr, ...]
Matrix = tuple[Vector, ...]


@dataclass(frozen=True)
class _Factors:
    """One summand, sorted: coefficient · Π z_i^powers[i] · exp(-½ zᵀQz + bᵀz) · Π erf(forms)."""

    coefficient: sp.Expr
    powers: tuple[int, ...]
    exponent: sp.Expr
    erfs: tuple[tuple[sp.Expr, int], ...]  # (linear form, 1 for erf | 0 for the bare constraint of erfc)


def _simple(e: sp.Expr) -> sp.Expr:
    return e if e.is_Atom else sp.cancel(e)


@lru_cache(maxsize=2048)
def closed_form(expr: sp.Expr, cov: tuple[sp.Expr, ...], mean: tuple[sp.Expr, ...]) -> sp.Expr:
    """⟨expr⟩ for jointly Gaussian Z[0], …, Z[n-1] with lower-triangular covariance entries `cov` and means `mean`.

    Raises: NoClosedForm, naming the factor or the probability that stops the rule.
    """
    n = len(mean)
    if n == 1 and mean[0] == 0 and (powers := _half_line_powers(expr, cov[0])) is not None:
        return powers
    C = [[cov[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)] for j in range(n)] for i in range(n)]
    total = []
    for smooth, walls in _half_lines(expr, n):
        for factors in _summands(smooth, n):
            tick()
            total.append(_average_term(factors, walls, C, mean))
    result = _tidy_roots(sp.Add(*total))
    if result.has(sp.I):
        result = sp.expand(result)
        if result.has(sp.I) and not result.free_symbols and not result.has(sp.erf, sp.erfc):
            result = sp.simplify(sp.expand(result, complex=True).as_real_imag()[0])
        if result.has(sp.I):
            raise NoClosedForm(
                f"⟨{expr}⟩ mixes a trigonometric factor with a half-line, which gives error functions of complex "
                "argument; the node is evaluated numerically instead."
            )
    return result


def _half_line_powers(expr: sp.Expr, K: sp.Expr) -> sp.Expr | None:
    r"""⟨expr⟩_K where each half-line holds Σ c |z|^p e^{-q z²/2} and some p is no natural number; else None.

    ∫_0^∞ t^p e^{-t²/2K} dt/√(2πK) = (2K)^{p/2} Γ((p+1)/2)/(2√π) for p > -1; the exponential makes K into K/(1 + qK)
    and gives a factor (1 + qK)^{-1/2}. A power ≤ -1 that nothing cancels makes the average infinite.
    """
    if not any(e.is_Pow and e.has(Z[0]) and not (e.exp.is_Integer and e.exp > 0) for e in sp.preorder_traversal(expr)):
        return None
    parts = pieces(expr, Z[0])
    if any(not b.is_zero for b in parts.breaks):
        return None
    t = sp.Dummy("t", positive=True)
    halves = [(parts.exprs[0], -t), (parts.exprs[-1], t)]
    terms: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    for piece, side in halves:
        for term in sp.Add.make_args(sp.expand(piece.subs(Z[0], side))):
            coefficient, rest = term.as_independent(t, as_Add=False)
            if coefficient == 0:
                continue
            power, exponent = sp.S.Zero, sp.S.Zero
            for factor in sp.Mul.make_args(rest):
                if isinstance(factor, sp.exp):
                    exponent += factor.args[0]
                elif factor == t or (factor.is_Pow and factor.base == t and not factor.exp.has(t)):
                    power += factor.as_base_exp()[1]
                elif factor != 1:
                    return None
            q = -2 * sp.expand(exponent).coeff(t, 2)
            if sp.expand(exponent + q * t**2 / 2) != 0 or not power.is_real or not coefficient.is_real:
                return None
            key = (sp.expand(power), q)
            terms[key] = sp.expand(terms.get(key, sp.S.Zero) + coefficient)
    if all(p.is_Integer and p >= 0 for p, _ in terms):
        return None  # the rule below knows these, and their forms are the ones users see
    total, conditions = [], []
    for (p, q), c in terms.items():
        if (p + 1).is_nonpositive:
            if any(other != 0 for _, other in terms):
                return None  # (1 - e^{-z²})/z²: infinite parts whose sum is finite
            raise InfiniteAverage(f"⟨{expr}⟩ is infinite: |z|^({p}) is not integrable at 0.")
        if not (p + 1).is_positive:
            if not c.is_positive or any(other != 0 for _, other in terms):  # infinite parts may cancel
                raise NoClosedForm(f"Whether ⟨|z|^({p})⟩ is finite depends on a parameter; the average stays a node.")
            conditions.append(_above(p, -1))
        norm, [[variance]], _ = _shift_by_exponential(-q * Z[0] ** 2 / 2, [[K]], (sp.S.Zero,))
        total.append(c * norm * (2 * variance) ** (p / 2) * sp.gamma((p + 1) / 2) / (2 * sp.sqrt(sp.pi)))
    if conditions:  # positive parts: none cancels another, and the average is infinite where one is
        return sp.Piecewise((sp.Add(*total), sp.And(*conditions)), (sp.oo, True))
    return sp.Add(*total)


def _above(p: sp.Expr, bound: int) -> Boolean:
    """p > bound, solved for a parameter where it is linear in one."""
    names = list(p.free_symbols)
    if len(names) == 1 and p.is_polynomial(*names) and sp.degree(p, names[0]) == 1:
        slope = p.coeff(names[0], 1)
        place = (bound - p.coeff(names[0], 0)) / slope
        return names[0] > place if slope.is_positive else names[0] < place
    return p > bound


def _half_lines(expr: sp.Expr, n: int) -> list[tuple[sp.Expr, tuple[Constraint, ...]]]:
    """`expr` as Σ smooth × Π 1[form > 0], a form as ((variable, coefficient), …) and an offset: outer pieces take one
    half-line, an inner piece [a, b] is 1[z > a] - 1[z > b]; switches between variables cut by planes."""
    if regions.mixed(expr, Z[:n]):
        try:
            parts = regions.regions(expr, Z[:n])
        except MeanFieldError as error:
            raise NoClosedForm(f"{error} The average stays a node.".replace("_z", "z")) from None
        return [(e, tuple((tuple((i, a) for i, a in enumerate(c) if a), b) for c, b in walls)) for e, walls in parts]
    terms: list[tuple[sp.Expr, tuple[Constraint, ...]]] = [(expr, ())]
    for i in range(n):
        x = Z[i]
        new: list[tuple[sp.Expr, tuple[Constraint, ...]]] = []
        for e, walls in terms:
            if not e.has(*SWITCHES):
                new.append((e, walls))
                continue
            for piece, lo, hi in pieces(e, x).intervals():
                if piece == 0:
                    continue
                if lo == -sp.oo and hi == sp.oo:
                    new.append((piece, walls))
                elif lo == -sp.oo:
                    new.append((piece, (*walls, (((i, -1),), hi))))
                else:
                    new.append((piece, (*walls, (((i, 1),), -lo))))
                    if hi != sp.oo:
                        new.append((-piece, (*walls, (((i, 1),), -hi))))
        terms = new
    return terms


def _summands(smooth: sp.Expr, n: int) -> list[_Factors]:
    if smooth.has(sp.sin, sp.cos):
        smooth = smooth.replace(sp.sin, lambda u: (sp.exp(sp.I * u) - sp.exp(-sp.I * u)) / (2 * sp.I))
        smooth = smooth.replace(sp.cos, lambda u: (sp.exp(sp.I * u) + sp.exp(-sp.I * u)) / 2)
    for grown in records("grows_exponentially"):
        if grown.function is not sp.exp and smooth.has(grown.function) and grown.form:
            smooth = smooth.replace(grown.function, grown.form[1])
    for head in smooth.atoms(sp.Function):  # before a long expansion shows it
        if not isinstance(head, (sp.exp, sp.erf, sp.erfc)) and head.has(*Z[:n]):
            raise NoClosedForm(
                f"The factor {head} is none of polynomial, exp(quadratic), erf(linear), half-line, sin, cos; "
                "the average stays a node."
            )
    smooth = sp.expand(smooth, power_base=False)
    return [_sort(term, n) for term in sp.Add.make_args(smooth) if term != 0]


def _sort(term: sp.Expr, n: int) -> _Factors:
    variables = Z[:n]
    coefficient, rest = term.as_independent(*variables, as_Add=False)
    powers, exponent, erfs = [0] * n, sp.S.Zero, []
    for factor in sp.Mul.make_args(rest):
        base, power = (sp.E, factor.args[0]) if isinstance(factor, sp.exp) else factor.as_base_exp()
        if base in variables and power.is_Integer and power > 0:
            powers[variables.index(base)] += int(power)
        elif base is sp.E and _degree(power, variables) <= 2:
            exponent += power
        elif (
            isinstance(base, (sp.erf, sp.erfc))
            and power.is_Integer
            and power > 0
            and _degree(base.args[0], variables) <= 1
        ):
            if isinstance(base, sp.erf):
                erfs += [(base.args[0], 1)] * int(power)
            else:
                erfs += [(-base.args[0], 0)] * int(power)
                coefficient *= 2 ** int(power)
        elif factor != 1:
            raise NoClosedForm(
                f"The factor {factor} is none of polynomial, exp(quadratic), erf(linear), half-line, sin, cos; "
                "the average stays a node."
            )
    if exponent != 0:  # e^{-2(50z - 150)²} without an e^{-45000} of its own, which no double holds
        own = [a for a in sp.Mul.make_args(coefficient) if isinstance(a, sp.exp)]
        exponent += sp.Add(*[a.args[0] for a in own])
        coefficient = sp.Mul(*[a for a in sp.Mul.make_args(coefficient) if a not in own])
    return _Factors(coefficient, tuple(powers), sp.expand(exponent), tuple(erfs))


def _degree(e: sp.Expr, variables: tuple[sp.Symbol, ...]) -> int:
    if not e.has(*variables):
        return 0
    return sp.Poly(e, *variables).total_degree() if e.is_polynomial(*variables) else 99


def _average_term(
    f: _Factors, walls: tuple[Constraint, ...], C: list[list[sp.Expr]], mean: Sequence[sp.Expr]
) -> sp.Expr:
    n = len(mean)
    norm, C, mean = _shift_by_exponential(f.exponent, C, mean)
    if (walls or f.erfs) and any(entry.has(sp.I) for row in C for entry in row):
        raise NoClosedForm(f"exp({f.exponent}) meets half-lines or error functions; the average stays a node.")
    total = sp.S.Zero
    signed = [form for form, is_erf in f.erfs if is_erf]
    bare = [form for form, is_erf in f.erfs if not is_erf]
    # Π (2·1_k - 1) over the erfs: equal forms are exchangeable, so only the count of each chosen form matters
    different = list(dict.fromkeys(signed))
    counts = itertools.product(*[range(signed.count(form) + 1) for form in different])
    for count in sorted(counts, key=sum):
        tick()
        size = sum(count)
        ways = math.prod(math.comb(signed.count(form), k) for form, k in zip(different, count))
        sign = 2**size * (-1) ** (len(signed) - size)
        forms = [*bare, *[form for form, k in zip(different, count) for _ in range(k)]]
        total += sign * ways * _constrained(f.powers, walls, forms, C, mean, n)
    return f.coefficient * norm * total


def _shift_by_exponential(
    exponent: sp.Expr, C: list[list[sp.Expr]], mean: Sequence[sp.Expr]
) -> tuple[sp.Expr, list[list[sp.Expr]], list[sp.Expr]]:
    """E[e^{-½zᵀQz + bᵀz + c} g] = norm · E'[g]; written with (1 + CQ)⁻¹, so that a degenerate C is no exception."""
    n = len(mean)
    if exponent == 0:
        return sp.S.One, C, list(mean)
    variables = Z[:n]
    poly = sp.Poly(exponent, *variables)
    b = sp.Matrix([poly.coeff_monomial(v) for v in variables])
    Q = sp.Matrix(n, n, lambda i, j: -poly.coeff_monomial(variables[i] * variables[j]) * (2 if i == j else 1))
    c, m, cov = poly.nth(*[0] * n), sp.Matrix(mean), sp.Matrix(C)
    if sp.zeros(n, n) == Q:
        inverse, det = sp.eye(n), sp.S.One
    else:
        A = sp.eye(n) + cov * Q
        det = sp.cancel(A.det())
        grown = sp.eye(n) + cov * Q.applyfunc(sp.re) if Q.has(sp.I) else A
        if grown.is_symbolic():
            if not _positive(det):  # wherever the covariance may be, 0 included: so is every eigenvalue
                raise NoClosedForm(
                    f"exp({exponent}) grows like a Gaussian; its average is finite only while {det} > 0."
                )
        elif not _all_positive(grown):
            raise InfiniteAverage(f"⟨exp({exponent}) …⟩ is infinite: the exponential outgrows the Gaussian.")
        if Q.has(sp.I) and (n > 2 or A.is_symbolic()):
            raise NoClosedForm(f"exp({exponent}) has a root whose branch is not decided; the average stays a node.")
        inverse = A.inv().applyfunc(sp.cancel)
    new_cov = (inverse * cov).applyfunc(_simple)
    new_mean = (new_cov * b + inverse * m).applyfunc(_simple)
    shift = (b.T * new_cov * b)[0] / 2 + (b.T * inverse * m)[0] - (m.T * Q * inverse * m)[0] / 2 + c
    return det ** sp.Rational(-1, 2) * sp.exp(_simple(sp.expand(shift))), new_cov.tolist(), list(new_mean)


def _all_positive(A: sp.Matrix) -> bool:
    """Whether all eigenvalues of 1 + CQ, which are real, are > 0: whether its elementary symmetric polynomials are."""
    n = A.rows
    minors = (sp.Add(*[A.extract(r, r).det() for r in itertools.combinations(range(n), k)]) for k in range(1, n + 1))
    return all(sp.simplify(one).is_positive for one in minors)


def _positive(e: sp.Expr) -> bool:
    if e.is_positive:
        return True
    numerator, denominator = sp.fraction(sp.together(e))
    if all(sp.expand(part).is_positive for part in (numerator, denominator)):
        return True
    # 1 + q K_aa + q K_bb + q² (K_aa K_bb - K_ab²): positive because covariances are
    terms = sp.expand(numerator)
    offdiagonal = [s for s in terms.free_symbols if not s.is_positive]
    corners = [terms.subs({s: 0 for s in offdiagonal})]
    return bool(offdiagonal) and all(sp.expand(t).is_positive for t in corners)


def _constrained(
    powers: tuple[int, ...],
    walls: tuple[Constraint, ...],
    forms: list[sp.Expr],
    C: list[list[sp.Expr]],
    mean: list[sp.Expr],
    n: int,
) -> sp.Expr:
    """E[Π z_i^{p_i} Π 1(ℓ_k > 0)] for the walls and the erf forms: build the joint law of z and ℓ, then recurse."""
    size = n + len(walls) + len(forms)
    rows, offsets, noise = [], [], []
    for wall, shift in walls:
        rows.append({i: sp.sympify(a) for i, a in wall})
        offsets.append(shift)
        noise.append(sp.S.Zero)
    for form in forms:
        poly = sp.Poly(form, *Z[:n])
        row = {i: poly.coeff_monomial(Z[i]) for i in range(n) if poly.coeff_monomial(Z[i]) != 0}
        offset, scale = poly.nth(*[0] * n), sp.S.One
        lead = next(iter(row.values()))
        if lead.is_positive:  # ℓ = z + ξ/(√2 α) rather than αz + ξ/√2: no square roots in the covariances
            scale = lead
        rows.append({i: a / scale for i, a in row.items()})
        offsets.append(offset / scale)
        noise.append(1 / (2 * scale**2))
    M = list(mean) + [off + sum(a * mean[i] for i, a in row.items()) for row, off in zip(rows, offsets)]
    S = [[sp.S.Zero] * size for _ in range(size)]
    for i in range(n):
        for j in range(n):
            S[i][j] = C[i][j]
        for k, row in enumerate(rows):
            S[i][n + k] = S[n + k][i] = _simple(sp.Add(*[a * C[i][j] for j, a in row.items()]))
    for k, row in enumerate(rows):
        for m, other in enumerate(rows):
            value = sp.Add(*[a * b * C[i][j] for i, a in row.items() for j, b in other.items()])
            S[n + k][n + m] = _simple(value + (noise[k] if k == m else 0))
    return _moment(tuple(powers), tuple(range(n, size)), tuple(M), tuple(map(tuple, S)))


def _decide(M: Vector, k: int) -> bool:
    """A constraint without variance holds or fails by the sign of its mean."""
    sign = sp.sign(M[k])
    if sign == 1:
        return True
    if sign in (-1, 0):
        return False
    raise NoClosedForm(f"Whether the constant {M[k]} is positive decides the average, and its sign is not known.")


@lru_cache(maxsize=8192)
def _moment(powers: tuple[int, ...], constraints: tuple[int, ...], M: Vector, S: Matrix) -> sp.Expr:
    for k in constraints:
        if S[k][k] == 0:
            rest = tuple(c for c in constraints if c != k)
            return _moment(powers, rest, M, S) if _decide(M, k) else sp.S.Zero
    i = next((i for i, p in enumerate(powers) if p), None)
    if i is None:
        return _orthant(constraints, M, S)
    lowered = _lowered(powers, i)
    total = [] if M[i] == 0 else [M[i] * _moment(lowered, constraints, M, S)]
    for j, p in enumerate(lowered):
        if p and S[i][j] != 0:
            total.append(p * S[i][j] * _moment(_lowered(lowered, j), constraints, M, S))
    for k in constraints:
        if S[i][k] != 0:
            density = sp.exp(-_simple(M[k] ** 2 / (2 * S[k][k]))) / sp.sqrt(2 * sp.pi * S[k][k])
            rest = tuple(c for c in constraints if c != k)
            total.append(S[i][k] * density * _moment(lowered, rest, *_condition(M, S, k)))
    return sp.Add(*total)


def _lowered(powers: tuple[int, ...], i: int) -> tuple[int, ...]:
    return tuple(p - (j == i) for j, p in enumerate(powers))


@lru_cache(maxsize=8192)
def _condition(M: Vector, S: Matrix, k: int) -> tuple[Vector, Matrix]:
    """The law given ℓ_k = 0."""
    gain = [_simple(S[i][k] / S[k][k]) for i in range(len(M))]
    M2 = tuple(_simple(m - g * M[k]) for m, g in zip(M, gain))
    S2 = tuple(tuple(_simple(S[i][j] - gain[i] * S[k][j]) for j in range(len(M))) for i in range(len(M)))
    return M2, S2


def _orthant(constraints: tuple[int, ...], M: Vector, S: Matrix) -> sp.Expr:
    if not constraints:
        return sp.S.One
    if any(sp.sympify(M[k]).has(sp.I) for k in constraints):
        raise NoClosedForm(
            "A trigonometric factor meets a half-line or an erf, which gives error functions of complex argument."
        )
    if len(constraints) == 1:
        k = constraints[0]
        return sp.erfc(-M[k] / sp.sqrt(2 * S[k][k])) / 2
    for k in constraints:  # an independent constraint factors out
        if all(S[k][m] == 0 for m in constraints if m != k):
            rest = tuple(m for m in constraints if m != k)
            return _orthant((k,), M, S) * _orthant(rest, M, S)
    if all(M[k] == 0 for k in constraints) and len(constraints) <= 3:
        angles = sp.Add(*[sp.asin(_correlation(S, a, b)) for a, b in itertools.combinations(constraints, 2)])
        return (
            sp.Rational(1, 4) + angles / (2 * sp.pi)
            if len(constraints) == 2
            else sp.Rational(1, 8) + angles / (4 * sp.pi)
        )
    kind = "with non-zero means" if len(constraints) <= 3 else "of four or more variables"
    raise NoClosedForm(
        f"An orthant probability {kind} ({len(constraints)} constraints) remains, which has no elementary closed form."
    )


def _correlation(S: Matrix, a: int, b: int) -> sp.Expr:
    if S[a][a] == S[b][b]:
        return _simple(S[a][b] / S[a][a])
    return S[a][b] / (sp.sqrt(S[a][a]) * sp.sqrt(S[b][b]))


def _tidy_roots(e: sp.Expr) -> sp.Expr:
    """Square roots of polynomials without content (√(K + ½) = √(2K + 1)/√2), and X/√X = √X: no 0/0 at full
    correlation."""
    e = e.replace(
        lambda p: p.is_Pow and p.base.is_Add and (2 * p.exp).is_Integer and not p.exp.is_Integer,
        lambda p: sp.sympify(p.base.primitive()[0]) ** p.exp * p.base.primitive()[1] ** p.exp,
    )
    return e.replace(lambda m: m.is_Mul, _cancel_root)


def _cancel_root(m: sp.Expr) -> sp.Expr:
    for root in m.args:
        if root.is_Pow and root.base.is_Add and root.exp.is_negative and not root.exp.is_Integer:
            for sign in (1, -1):
                twin = sp.expand(sign * root.base)
                for factor in m.args:
                    if factor == twin or (factor.is_Add and sp.expand(factor - twin) == 0):
                        rest = sp.Mul(*[f for f in m.args if f not in (root, factor)])
                        return _cancel_root(sign * rest * root.base ** (root.exp + 1))
    return m
