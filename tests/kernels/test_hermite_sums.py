"""Compiled sums over Hermite series: polynomials, whose series end, in rational numbers and at 60 digits."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from meanfield.kernels.loops import hermite_sums

POLYNOMIALS = {  # φ by powers of z; (first, step) of its orders
    "odd": ({1: 1.0, 3: 0.5, 5: -0.125}, 1, 2),
    "even": ({0: 0.25, 2: 1.0, 4: 0.5}, 0, 2),
    "any": ({0: 0.5, 1: 1.0, 2: -0.25, 3: 0.5}, 0, 1),
}


def coefficients(powers, s, first, step, size):
    """a_k of φ(s x) = Σ a_k He_k(x)/√k!, at 60 digits: x^p = Σ p!/(2^m m! (p − 2m)!) He_{p−2m}(x)."""
    out = [mp.mpf(0)] * size
    for p, c in powers.items():
        for m in range(p // 2 + 1):
            k = p - 2 * m
            one = mp.factorial(p) / (mp.mpf(2) ** m * mp.factorial(m) * mp.factorial(k))
            out[(k - first) // step] += mp.mpf(c) * mp.mpf(s) ** p * one * mp.sqrt(mp.factorial(k))
    return out


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60):
        yield


GAPS = (0.0, 1e-12, 0.3, 1.0, 1.6, 2.0 - 1e-9, 2.0)


@pytest.mark.slow_with("0.0-odd")
@pytest.mark.parametrize("kind", POLYNOMIALS)
@pytest.mark.parametrize("between", [0.0, 1e-9, -1e-9, 0.25, -0.5])
def test_of_close_inputs(kind, between):
    """All six sums of two inputs keep 10 digits, differences as small as 1e-18, too; no tails, so that nothing is left
    out."""
    (powers, first, step), t, size = POLYNOMIALS[kind], 0.75, 6
    s = t + between
    between, orders = s - t, [first + step * j for j in range(size)]
    a, b = (coefficients(powers, x, first, step, size) for x in (s, t))
    A, B = mp.sqrt(mp.fsum(x * x for x in a)), mp.sqrt(mp.fsum(x * x for x in b))
    share, following = mp.sqrt(B / A), dict(zip(orders, a))
    if between:
        rise = mp.fsum(x * x - y * y for x, y in zip(a, b)) / mp.mpf(between)
    else:  # s ∂a_k/∂s = k a_k + √((k+1)(k+2)) a_{k+2}
        each = (x * (k * x + mp.sqrt((k + 1) * (k + 2)) * following.get(k + 2, 0)) for k, x in following.items())
        rise = 2 * mp.fsum(each) / t
    for gap in GAPS:
        out, none, c = np.empty(6), np.zeros(2), 1 - mp.mpf(gap)
        arrays = np.array([float(x) for x in a]), np.array([float(x) for x in b])
        assert hermite_sums.close(*arrays, s, t, between, gap, first, step, none, none, 40, np.empty(size), out)
        true = [
            mp.fsum(x * y * c**k for k, x, y in zip(orders, a, b)),
            mp.fsum(k * x * y * c ** (k - 1) for k, x, y in zip(orders, a, b) if k),
            2 * mp.fsum(x * y * (1 - c**k) for k, x, y in zip(orders, a, b)),
            mp.fsum((x - y) ** 2 for x, y in zip(a, b)),
            rise,
            mp.fsum((x * share - y / share) ** 2 for x, y in zip(a, b)),
        ]
        signs = (0, 1, 2) if kind == "any" and gap > 1 else (0, 1)  # sums of both signs
        for i, (found, exact) in enumerate(zip(out, true)):
            floor = 1e-14 * float(A * B) if i in signs else 1e-300
            assert abs(found - float(exact)) <= 2e-11 * abs(float(exact)) + floor, f"sum {i} at 1 - c = {gap}"


@pytest.mark.parametrize(("s", "gap"), [(0.75, 0.3), (0.75, 1.9), (1.0, 0.0), (0.5, 0.0)])
def test_tails_that_change_nothing(s, gap):
    """Of equal norms 4AB beside ⟨fg⟩ and the distance, of parallel inputs (A + B)² beside the distance: a tail just
    below is served, one just above is not, on either side; slopes whose tail is 0 make any tail of values do."""
    (powers, first, step), t, size = POLYNOMIALS["any"], 0.75, 6
    arrays = [np.array([float(x) for x in coefficients(powers, x, first, step, size)]) for x in (s, t)]
    A, B = (np.linalg.norm(x) for x in arrays)
    out = np.empty(6)

    def served(left, right):
        tails = np.array(left), np.array(right)
        return hermite_sums.close(*arrays, s, t, s - t, gap, first, step, *tails, 40, np.empty(size), out)

    assert served((0.0, 1e9), (0.0, 1e9))
    whole = min(out[2] + out[3], A * B)
    if s == t:
        tail = math.sqrt(hermite_sums.MISSING * whole / (4 * A * B))
        assert served((1e9, 0.0), (1e9, 0.0))
    else:
        tail = math.sqrt(hermite_sums.MISSING * whole) / (A + B)
    for one, other in ((1, 1), (4, 0.25) if s == t else (1, 1)):
        assert served((0.99 * tail * one, 1e9), (0.99 * tail * other, 1e9))
        assert not served((1.01 * tail * one, 1e9), (1.01 * tail * other, 1e9))


@pytest.mark.slow_with("True-1-0")
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("slopes", [True, False])
def test_sums_of_a_row(first, step, slopes):
    """Σ a_k b_k c^k over k < count and its derivative, of columns from b0 on; others stay as they are."""
    rng, b0, m = np.random.default_rng(3), 2, 3
    a, b = rng.standard_normal(6), rng.standard_normal((5, 7))
    c = np.array([-0.9, 0.0, 0.7])
    for count in (0, 1, 2, 5, 40):
        S, D, u = np.full(4, 9.0), np.full(4, 9.0), np.empty(4)
        hermite_sums.sums(a, b, b0, m, c, first, step, count, S, D, u, slopes)
        orders = [first + step * j for j in range(5) if first + step * j < count]
        for i in range(m):
            terms = [(k, a[j] * b[j, b0 + i]) for j, k in enumerate(orders)]
            assert S[i] == pytest.approx(sum(x * c[i] ** k for k, x in terms), abs=1e-13)
            if slopes:
                assert D[i] == pytest.approx(sum(k * x * c[i] ** (k - 1) for k, x in terms if k), abs=1e-13)
        assert S[3] == D[3] == 9.0


@pytest.mark.slow
def test_how_many_terms_are_taken():
    """The first rung at which what the tails leave is below WANTED for the strongest of the pairs that are served; a
    pair that the last one does not serve is flagged, one whose bound is just WANTED is not."""
    ladder = np.array([4, 8, 16, 32])
    left, b0 = np.array([[1.0, 1e-2, 1e-4, 1e-6], [2.0, 3e-2, 5e-4, 1e-5]]), 1
    right = np.tile(left[:, :, None], (1, 1, 4)) * np.array([9.0, 1.0, 0.5, 2.0])
    for slopes, c in itertools.product((0, 1), ([0.0] * 3, [0.2, -0.3, 0.1], [0.1, -0.6, 0.2], [1.0, 0.2, 0.3])):
        flags = np.zeros(4, dtype=np.int64)
        found = hermite_sums.terms(ladder, slopes, left, right, b0, 3, np.array(c), flags)
        last = [left[slopes, 3] * right[slopes, 3, b0 + i] for i in range(3)]
        served = [i for i in range(3) if last[i] * min(1.0, abs(c[i]) ** (32 - slopes)) <= hermite_sums.WANTED]
        assert [flags[b0 + i] == 2 for i in range(3)] == [i not in served for i in range(3)] and flags[0] == 0
        most = max((abs(c[i]) for i in served), default=0.0)
        tails = [max((right[slopes, j, b0 + i] for i in served), default=0.0) * left[slopes, j] for j in range(4)]
        enough = [n for n, tail in zip(ladder, tails) if tail * most ** (n - slopes) <= hermite_sums.WANTED]
        assert found == enough[0], (slopes, c)
    flags = np.zeros(1, dtype=np.int64)
    left = np.full((2, 4), 1.0)
    assert (
        hermite_sums.terms(ladder, 0, left, np.full((2, 4, 1), hermite_sums.WANTED), 0, 1, np.ones(1), flags) == 4
        and not flags[0]
    )
    assert (
        hermite_sums.terms(ladder, 0, left, np.full((2, 4, 1), 1.1 * hermite_sums.WANTED), 0, 1, np.ones(1), flags) == 4
    )
    assert flags[0] == 2
