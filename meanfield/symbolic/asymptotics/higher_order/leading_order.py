r"""The leading order of K as the solver of further terms needs it: K = A l^e (log l)^r (1 + ε), q = q0 (1 + η), and the
pieces of l(K′ - K)/K, each a power of l and logarithms times a function of η (see `corrections`).

Averages come from their expansions where q goes to 0 or ∞, and from the Taylor series where it settles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import sympy as sp
from flint import fmpq

from meanfield.base.symbols import K as VARIANCE
from meanfield.base.symbols import Z
from meanfield.symbolic.asymptotics.log_growth import Growth
from meanfield.symbolic.asymptotics.schedules.balance import kept
from meanfield.symbolic.asymptotics.schedules.branch import Branch
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, expression, of, rational
from meanfield.symbolic.series.exponents import NO_POWER, Basis, NoHigherOrder, decided
from meanfield.symbolic.series.ring import (
    ORDER_ONE,
    Key,
    Part,
    Ring,
    Series,
    Size,
    binomial,
    natural,
    over,
    plus,
    scaled,
    times,
)
from meanfield.symbolic.series.truncated import Calculus

MARGINAL: Key = (NO_POWER, NO_POWER, fmpq(-1), 0)  # 1/log l


@dataclass(frozen=True)
class Piece:
    """l^… · (a function of the branch's variance): prefactor (q/q0)^power (log q)^logs, or a series in η with
    coefficients that are asked for by their number, prefactor the first."""

    key: Key
    prefactor: Exact
    power: fmpq = NO_POWER
    logs: fmpq = NO_POWER
    taylor: Callable[[int], Exact] | None = None

    @property
    def slope(self) -> Exact:
        """Its change with η."""
        return self.prefactor.scaled(self.power) if self.taylor is None else self.taylor(1)


@dataclass(frozen=True)
class Expanded:
    """An average of q as pieces, and the key of what they leave out (None: smaller than every power)."""

    pieces: tuple[Piece, ...]
    remainder: Key | None


class Leading:
    """K ~ A l^e (log l)^r as the solver needs it, for one branch and the law of K that `residual` found.

    order: to which averages are expanded; name: of what the start decides, A itself or what is added to K; atoms and
    basis: where numbers get their names. K = A l^e (log l)^r (1 + ε) and q = q0 (1 + η).
    """

    def __init__(self, branch: Branch, law: Growth, order: int, name: str, atoms: Atoms, basis: Basis):
        self.branch, self.law, self.order = branch, law, order
        self.atoms, self.basis = atoms, basis
        if law.stretched or law.products or law.leading:
            raise NoHigherOrder("K grows faster than every power here.")
        if law.power_of(2) != 0:
            raise NoHigherOrder("Further terms are not derived where log(log(l)) leads the law of K.")
        self.start = sp.Symbol(name, real=True)
        self.amplitude = sp.Symbol(name, positive=True) if law.constant is None else law.constant
        self.e = self.basis.of(law.exponent, "the exponent of K")
        self.r = self._rational(law.power_of(1), "the power of log l")
        self._variance()
        self._feedback()

    def _rational(self, e: sp.Expr, what: str) -> fmpq:
        found = decided(e, what)
        if found is None:
            raise NoHigherOrder(f"Further terms are not derived for {what} = {e}, which is irrational.")
        return rational(found)

    def calculus(self, floor: fmpq, depth: fmpq) -> Calculus:
        return Calculus(self.atoms, basis=self.basis, deep=floor, depth=depth, counted=True)

    @cached_property
    def _sizes(self) -> Ring:
        return self.calculus(NO_POWER, NO_POWER).order

    def size(self, k: Key) -> Size:
        return self._sizes.size(k)

    @property
    def key(self) -> Key:
        """l^e (log l)^r."""
        return (*self.e, self.r, 0)

    # ------------------------------------------------------------------------------------- the variance of the branch

    def fall(self, name: str) -> Key:
        """l^-β of a σ's variance."""
        a, b = self.basis.of(getattr(self.branch, name).beta, f"beta_{name}")
        return -a, -b, NO_POWER, 0

    def _variance(self) -> None:
        """q0 and the shares of K and of the biases in q/q0, each a coefficient and a key."""
        w, b = self.branch.w, self.branch.b
        own = times(self.key, self.fall("w"))
        size = w.size * self.amplitude
        self.own: tuple[Exact, Key] = (ONE, ORDER_ONE)
        self.other: tuple[Exact, Key] | None = None
        self.q, self.q0 = own, size
        if b is None:
            return
        bias = self.fall("b")
        gap = self.size(over(own, bias))
        if gap > (0, 0, 0):
            self.other = (self.atoms.of(b.size / size), over(bias, own))
        elif gap < (0, 0, 0):
            self.q, self.q0 = bias, b.size
            self.own, self.other = (self.atoms.of(size / b.size), over(own, bias)), (ONE, ORDER_ONE)
        else:
            self.q0 = kept(size + b.size, sp.expand)
            share = self.atoms.of(size / self.q0)
            self.own, self.other = (share, ORDER_ONE), (ONE - share, ORDER_ONE)

    @property
    def settles(self) -> bool:
        """Whether q tends to a number > 0."""
        return not self.moves and self.q[2] == 0

    @property
    def moves(self) -> bool:
        """Whether q is a power of l at leading order."""
        return self.q[0] != 0 or self.q[1] != 0

    @property
    def share(self) -> Exact:
        """The part of η that is ε at leading order."""
        return self.own[0] if self.own[1] == ORDER_ONE else ZERO

    def eta(self, ring: Ring, eps: Series) -> Series:
        """η for a given ε."""
        c, k = self.own
        parts = [scaled(eps, c, k)]
        if k != ORDER_ONE:
            parts.append({k: c})
        if self.other is not None and self.other[1] != ORDER_ONE:
            parts.append({self.other[1]: self.other[0]})
        return ring.cut(plus(*parts))

    # -------------------------------------------------------------------------------------------------- averages of q

    def expanded(self, node: sp.Expr, prefactor: sp.Expr, shift: Key) -> Expanded:
        """prefactor · l^shift · ⟨f⟩_q from the expansion of ⟨f⟩ where q goes."""
        if self.settles and self.branch.degree is None:
            series = self._taylor(node, prefactor)
            return Expanded((Piece(shift, series(0), taylor=series),), None)
        law = (at_infinity if self.size(self.q) > (0, 0, 0) else at_zero)(node, self.order)
        pieces = tuple(
            Piece(
                times(shift, self._power(a := self._rational(t.power, "a power of q"))),
                self.atoms.of(kept(prefactor * t.coefficient * self.q0**t.power, sp.powsimp)),
                a,
                self._rational(t.logs, "a power of log q"),
            )
            for t in law.terms
        )
        return Expanded(pieces, self._left(law, shift))

    def _taylor(self, node: sp.Expr, prefactor: sp.Expr) -> Callable[[int], Exact]:
        """The coefficients of prefactor · ⟨f⟩_q in powers of η at a variance that settles.

        The j-th is ⟨f He_{2j}(z/√q)⟩/(2^j j!): derivatives by q fall on the Gaussian, so that kinks of f do no harm.
        """
        single = isinstance(node, Average)
        slopes = [node]

        def moment(k: int) -> sp.Expr:
            found = average(node.integrand * Z[0] ** (2 * k), VARIANCE)
            return prefactor * found.xreplace({VARIANCE: self.q0}) / self.q0**k

        @cache
        def coefficient(j: int) -> Exact:
            if not single:
                while len(slopes) <= j:
                    slopes.append(VARIANCE * sp.diff(slopes[-1], VARIANCE) - (len(slopes) - 1) * slopes[-1])
                return self.atoms.of(prefactor * slopes[j].xreplace({VARIANCE: self.q0}) / sp.factorial(j))
            n = sp.factorial
            parts = [  # He_{2j}(x)/(2^j j!) = Σ_i (-1)^i (2j)!/(i! (2j - 2i)! 2^{i+j} j!) x^{2j - 2i}
                sp.Rational((-1) ** i * n(2 * j), n(i) * n(2 * j - 2 * i) * 2 ** (i + j) * n(j)) * moment(j - i)
                for i in range(j + 1)
            ]
            return self.atoms.of(sp.Add(*parts))

        return coefficient

    def _power(self, a: fmpq) -> Key:
        return self.q[0] * a, self.q[1] * a, self.q[2] * a, 0

    def _left(self, law: Law, shift: Key) -> Key | None:
        """The key of what an expansion leaves out."""
        if law.remainder in ("zero", "exponential"):
            return None
        if law.remainder == "smaller":
            last = law.terms[-1]
            power, logs = last.power, last.logs
        else:
            power, logs = sp.sympify(law.remainder), law.remainder_logs
        k = times(shift, self._power(self._rational(power, "a power of q")))
        far = self._rational(sp.sympify(logs), "a power of log q")
        return (k[0], k[1], k[2] + far, 0) if self.moves else (k[0], k[1], k[2], int(far.p))

    def evaluated(self, ring: Ring, pieces: tuple[Piece, ...], eta: Series) -> list[Series]:
        """Pieces for a given η. What one leaves out counts with its own size."""
        inner = replace(ring, lost=None)
        needed = [None if p.logs != 0 or p.taylor else natural(p.power) for p in pieces]
        powers = inner.powers(eta, None if None in needed else max([0, *needed]))  # type: ignore[type-var]
        common, out = inner.lost, []
        for p, n in zip(pieces, needed):
            inner.lost = common if n is None or n > len(powers) else None
            out.append(self._one(inner, p, powers))
            if inner.lost is not None:
                ring.lost = ring.largest(ring.lost, times(inner.lost, self.full(p)))
        return out

    def _one(self, ring: Ring, piece: Piece, powers: list[Series]) -> Series:
        if piece.taylor is not None:
            later = piece.taylor
            return scaled(ring.composed(powers, lambda j: later(j) if j else piece.prefactor), ONE, piece.key)
        body = ring.composed(powers, lambda j: binomial(piece.power, j))
        if piece.logs != 0:
            log = self._log(ring, piece.logs, powers)
            return scaled(ring.product(body, log), piece.prefactor, self.full(piece) if self.moves else piece.key)
        return scaled(body, piece.prefactor, piece.key)

    def _log(self, ring: Ring, n: fmpq, powers: list[Series]) -> Series:
        """(log q)^n, over (log l)^n where q is a power of l."""
        log = plus(
            {ORDER_ONE: self.atoms.of(sp.log(self.q0))},
            {(NO_POWER, NO_POWER, NO_POWER, 1): of(self.q[2])},
            ring.log1p(powers),
        )
        if self.moves:
            rate = self.basis.expr(*self.q[:2])
            inner = ring.powers(scaled(log, self.atoms.of(1 / rate), MARGINAL), natural(n))
            return scaled(ring.composed(inner, lambda j: binomial(n, j)), self.atoms.of(rate ** expression(n)))
        if natural(n) is None:
            raise NoHigherOrder("Further terms are not derived where a power of log(log(l)) leads.")
        out: Series = {ORDER_ONE: ONE}
        for _ in range(int(n.p)):
            out = plus(*[scaled(out, x, j) for j, x in log.items()])
        return out

    # ----------------------------------------------------------------------------------------------------- what drives

    def _feedback(self) -> None:
        """The pieces of l(K′ - K)/K, the leading ones in agreement with the law, and κ, κ₂."""
        v, a = self.branch.v, self.branch.a
        over_k: Key = (fmpq(1) - self.e[0], -self.e[1], -self.r, 0)
        found = self.expanded(self.branch.square, v.size / self.amplitude, times(over_k, self.fall("v")))
        pieces = list(found.pieces)
        if a is not None:
            pieces.append(Piece(times(over_k, self.fall("a")), self.atoms.of(a.size / self.amplitude)))
        self.remainder = found.remainder
        e = self._sizes.exponent(*self.e)
        pieces = self._balanced(pieces, ORDER_ONE, e)
        self.kappa_exact = self._slope(pieces, ORDER_ONE)
        self.kappa = self._as_exponent(self.kappa_exact)
        same = self.kappa == self.e
        if same:
            pieces = self._balanced(pieces, MARGINAL, of(self.r) - self._of_bias(pieces))
        self.kappa2 = self._rational(self.atoms.expr(self._slope(pieces, MARGINAL)), "the power of log l of the start")
        self.pieces = tuple(pieces)
        self.home = (self.kappa[0] - self.e[0], self.kappa[1] - self.e[1], self.kappa2 - self.r, 0)
        sizes = [self.size(self.full(p)) for p in pieces]
        if any(s > (0, 0, 0) for s in sizes):
            raise NoHigherOrder(f"A term of K′ - K outgrows the law {self.law.expr} of K.")
        # between 1 and 1/log l: the start's part is no power of log l
        self.soft = any((0, -1, 0) < s < (0, 0, 0) for s in sizes) or any(
            p.logs != 0 and self.full(p) == ORDER_ONE for p in pieces
        )
        if self.soft and same:
            raise NoHigherOrder("Further terms are not derived where the start enters by no power of log l.")

    def _of_bias(self, pieces: list[Piece]) -> Exact:
        """What biases that are 1/log l of q send through the leading feedback, at relative size 1/log l; where they are
        alone at it, the balance gives their share."""
        if self.other is None or self.other[1] != MARGINAL:
            return ZERO
        gain = ZERO
        for p in pieces:
            gain = gain + (p.slope if self.full(p) == ORDER_ONE else ZERO)
        if not any(self.full(p) == MARGINAL for p in pieces):
            number = gain.number
            if not number:
                raise NoHigherOrder("Further terms are not derived where biases tie with an irrational feedback.")
            share = of(self.r / number)
            self._agree(self.atoms.expr(self.other[0]), self.atoms.expr(share))
            self.other = (share, MARGINAL)
        return gain * self.other[0]

    def full(self, p: Piece) -> Key:
        """The key of a piece with its logarithm."""
        return times(
            p.key, (NO_POWER, NO_POWER, p.logs, 0) if self.moves else (NO_POWER, NO_POWER, NO_POWER, int(p.logs.p))
        )

    def _balanced(self, pieces: list[Piece], at: Key, total: Exact) -> list[Piece]:
        """Pieces of one key whose fronts sum to `total`, the balance used to eliminate one of them."""
        here = [i for i, p in enumerate(pieces) if self.full(p) == at]
        if not here:
            if total:
                raise NoHigherOrder(f"The law {self.law.expr} of K is no balance of its recursion.")
            return pieces
        free = here[0]
        others = [self._constant(pieces[i]) for i in here[1:]]
        prefactor = total
        for one in others:
            prefactor = prefactor - one
        old = self._constant(pieces[free])
        self._agree(self.atoms.expr(old), self.atoms.expr(prefactor))
        p = pieces[free]
        if p.logs == 0:
            pieces[free] = replace(p, prefactor=prefactor)
        else:
            rate = self.atoms.expr(self._sizes.exponent(self.q[0], self.q[1])) ** expression(p.logs)
            pieces[free] = replace(p, prefactor=prefactor * self.atoms.of(1 / rate))
        return pieces

    def _constant(self, p: Piece) -> Exact:
        """What a piece is at leading order."""
        if p.logs == 0:
            return p.prefactor
        rate = self.atoms.expr(self._sizes.exponent(self.q[0], self.q[1])) ** expression(p.logs)
        return p.prefactor * self.atoms.of(rate)

    def _agree(self, one: sp.Expr, other: sp.Expr) -> None:
        gap = (one - other).subs({s: sp.Rational(37, 91) for s in (one - other).free_symbols})
        if gap != 0 and abs(sp.N(gap, 30)) > 1e-12:
            raise NoHigherOrder(f"The law {self.law.expr} of K is no balance of its recursion.")

    def _slope(self, pieces: list[Piece], at: Key) -> Exact:
        total = ZERO
        for p in pieces:
            if self.full(p) == at and p.logs == 0:
                total = total + p.slope * self.share
            elif self.full(p) == at and p.power != 0:
                total = total + self._constant(p).scaled(p.power) * self.share
        return total

    def _as_exponent(self, c: Exact) -> tuple[fmpq, Part]:
        """κ as an exponent."""
        return self.basis.of(self.atoms.expr(c), "the power of l with which the start enters")
