"""Elementary functions without branches: against 30 digits, their polynomials made again, the same bits however they
are run."""

import ast
import inspect
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from numba import njit

from meanfield.empirical.functions import elementary_reference, smooth
from meanfield.empirical.functions.registry import REFERENCES

REFERENCE = {
    "exp": mp.exp,
    "expm1_below": mp.expm1,
    "tanh": mp.tanh,
    "log1p_unit": mp.log1p,
    "arctan": mp.atan,
    "bell": lambda x: mp.exp(-x * x / 2),
    "erf": mp.erf,
    "normal_cdf": mp.ncdf,
    "sin": mp.sin,
    "cos": mp.cos,
}


def _points(name):
    rng = np.random.default_rng(0)
    small = 10.0 ** rng.uniform(-20, 2.5, 150) * rng.choice([-1, 1], 150)
    x = np.r_[rng.standard_normal(200) * 2, rng.standard_normal(100) * 20, small, -0.4142, 0.41422, 2.4143, 1.0, 0.0]
    if name in ("sin", "cos"):  # next to its zeros, and as far as 10⁶
        turns = np.pi / 2 * np.r_[np.arange(-60, 60), rng.integers(1, 600_000, 120)]
        return np.r_[x, turns, np.nextafter(turns, 0), rng.uniform(-1e6, 1e6, 300)]
    return {"expm1_below": -np.abs(x), "log1p_unit": np.abs(x) % 1.0}.get(name, x)


@lru_cache
def _compiled(function):
    @njit
    def kernel(z, out):
        for i in range(z.size):
            out[i] = function(z[i])

    return kernel


@lru_cache
def _values(name):
    x = _points(name)
    out = np.empty_like(x)
    _compiled(getattr(elementary_reference, name))(x, out)
    return x, out


def error(name, factor=1.0):
    """The largest relative error, of values that are normal doubles."""
    (x, out), worst = _values(name), 0.0
    out = factor * out
    with mp.workdps(40):
        for at, value in zip(x.tolist(), out.tolist()):
            true = REFERENCE[name](mp.mpf(at))
            if abs(true) > mp.mpf("1e-300") and true < mp.mpf("1e300"):
                worst = max(worst, float(abs(mp.mpf(value) / true - 1)))
    return worst


@pytest.mark.fast_with("tanh", "bell")
@pytest.mark.parametrize("name", REFERENCE)
def test_relative_errors_are_below_1e_15(name):
    """Measured 1.4e-16 (exp) to 6.2e-16 (normal_cdf)."""
    assert error(name) < 1e-15
    assert error(name, 1 + 1.2e-15) > 1e-15, "control: 1.2e-15 too large"


@pytest.mark.parametrize("name", REFERENCE)
def test_interpreted_and_compiled_are_the_same_bits(name):
    function, one = getattr(elementary_reference, name), np.empty(1)
    with np.errstate(all="ignore"):
        for at, value in zip(*(array[::7] for array in _values(name))):
            _compiled(function)(np.array([at]), one)  # what is left over by vectors
            assert function(np.float64(at)) == value == one[0]
        assert np.isnan(function(np.float64("nan")))


def test_ends():
    with np.errstate(all="ignore"):
        ends = [np.float64(one) for one in (-np.inf, -1e300, 1e300, np.inf)]
        assert (
            [elementary_reference.tanh(x) for x in ends]
            == [-1, -1, 1, 1]
            == [elementary_reference.erf(x) for x in ends]
        )
        assert [elementary_reference.normal_cdf(x) for x in ends] == [0, 0, 1, 1] and elementary_reference.bell(
            ends[3]
        ) == 0
        assert [elementary_reference.exp(x) for x in ends] == [0, 0, np.inf, np.inf]
        assert [elementary_reference.arctan(x) for x in ends] == [-np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2]
    assert elementary_reference.exp(np.float64(-744.0)) == pytest.approx(float(mp.exp(-744)), abs=5e-324)


def _far_off(name, x, value):
    """How far the nearest number with this sine (cosine) is from x, in units in the last place of x."""
    with mp.workdps(340):
        inverse = (mp.asin if name == "sin" else mp.acos)(mp.mpf(float(value)))
        images = (inverse, mp.pi - inverse) if name == "sin" else (inverse, -inverse)
        turns = ((mp.mpf(x) - y) / (2 * mp.pi) for y in images)
        # an arc sine next to 1 has half the digits
        return max(min(abs(t - mp.nint(t)) for t in turns) * 2 * mp.pi - mp.mpf("2e-8"), 0) / mp.mpf(np.spacing(x))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_of_large_numbers(name):
    """Up to two units away; control: three units beside it."""
    rng, function = np.random.default_rng(0), getattr(elementary_reference, name)
    for x in (10.0 ** rng.uniform(6, 300, 100)).tolist():
        assert _far_off(name, x, function(np.float64(x))) < 2
    for x in (10.0 ** rng.uniform(9, 13, 20)).tolist():
        assert _far_off(name, x, function(np.float64(x + 3 * np.spacing(x)))) > 2
    with np.errstate(all="ignore"):
        assert np.isnan(function(np.float64(np.inf))) and np.isnan(function(np.float64(-np.inf)))


def _interpolated(f, degree):
    """Monomial coefficients of the polynomial that meets f at Chebyshev's nodes of [−1, 1]."""
    n = degree + 1
    angles = [mp.pi * (2 * k + 1) / (2 * n) for k in range(n)]
    values = [f(mp.cos(angle)) for angle in angles]
    total, before, now = [mp.mpf(0)] * n, [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for j in range(n):
        share = sum(v * mp.cos(j * angle) for v, angle in zip(values, angles)) * (2 if j else 1) / n
        chebyshev = before if j == 0 else now
        for i, c in enumerate(chebyshev):
            total[i] += share * c
        if j:
            new = [mp.mpf(0), *(2 * c for c in now)]
            for i, c in enumerate(before):
                new[i] -= c
            before, now = now, new
    return total


def _on(low, high, f, degree):
    """The same of f on [low, high], in its own variable."""
    scale, middle = (high - low) / 2, (high + low) / 2
    inner = _interpolated(lambda t: f(scale * t + middle), degree)
    total, power = [mp.mpf(0)] * (degree + 1), [mp.mpf(1)]
    for c in inner:
        for i, p in enumerate(power):
            total[i] += c * p
        power = [a - middle * b for a, b in zip([mp.mpf(0), *power], [*power, mp.mpf(0)])]
        power = [p / scale for p in power]
    return total


def _root(f, start):
    """u → f(√u)/√u, `start` at 0."""
    return lambda u: f(mp.sqrt(u)) / mp.sqrt(u) if u > 0 else start


def _scaled_tail(t):
    y = 4 * (1 + t) / (1 - t)
    return mp.exp(y * y) * mp.erfc(y) * (1 + 2 * y)


POLYNOMIALS = {
    "erf": lambda: _on(mp.mpf(0), mp.mpf(1), _root(mp.erf, 2 / mp.sqrt(mp.pi)), 11),
    "arctan": lambda: _on(mp.mpf(0), (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001"), _root(mp.atan, 1), 11),
    "log1p_unit": lambda: _on(mp.mpf(0), mp.mpf(1) / 9, _root(mp.atanh, 1), 10),
    "_scaled_tail": lambda: _interpolated(_scaled_tail, 24),
}


def _written(function):
    """The coefficients of Horner's scheme in the source, the lowest first (without the leading 1 of y + y·u·p)."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(function))):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "p":
            match node.value:
                case ast.BinOp(ast.BinOp(), sign, ast.Constant(value)):
                    found.append(-value if isinstance(sign, ast.Sub) else value)
                case _:
                    found.append(ast.literal_eval(node.value))
    return found[::-1]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_made_again(name):
    """In 60 digits; control: a digit of a coefficient."""
    with mp.workdps(60):
        expected = [float(c) for c in POLYNOMIALS[name]()]
    found = _written(getattr(elementary_reference, name))
    assert found == expected[len(expected) - len(found) :] and len(expected) - len(found) <= 1
    assert len(expected) == len(found) or expected[0] == 1.0


LOOPS = [name for name, entry in REFERENCES.items() if entry.continuous]


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "tanh")) for n in LOOPS])
def test_a_loop_over_a_twin_is_vector_instructions(name):
    """φ and φ′: no call is left in the loop."""
    entry = REFERENCES[name]
    values = tuple(value for _, value in entry.defaults)
    for function in (entry.phi, entry.dphi):
        kernel = njit(error_model="numpy")(_loop(function))
        kernel(np.ones(8), np.empty(8), values)
        (text,) = kernel.inspect_llvm().values()
        called = ("exp", "tanh", "erf", "erfc", "atan", "sin", "cos")
        assert "x double>" in text and not any(f"@{call}(" in text for call in called)


def _loop(inner):
    def kernel(z, out, parameters):
        for i in range(z.size):
            out[i] = inner(z[i], *parameters)

    return kernel


def test_what_dies_away_is_0_far_out_and_no_nan():
    """x·σ(x) has derivatives 0 and 1 and then 0 at both ends, where 0·∞ would stand."""
    for x in (800.0, 1e300, np.inf):
        assert [f(x, 1.0) for f in (smooth._swish_d, smooth._swish_dd, smooth._swish_ddd)] == [1.0, 0.0, 0.0]
        assert [f(-x, 1.0) for f in (smooth._swish_d, smooth._swish_dd, smooth._swish_ddd)] == [0.0, 0.0, 0.0]
