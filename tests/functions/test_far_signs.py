"""Where the powers of K' - K cancel at infinity, the term that dies last decides, and it is proved to."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.base.symbols import Z, softplus
from meanfield.functions.series import transseries
from meanfield.functions.signs import signs

z = Z[0]
SCALES = range(1, 12)
SMALL = {
    "softplus": 2 * z * softplus(-z) + 2 * softplus(-z) ** 2,
    "gelu": z**2 * (sp.erf(z / sp.sqrt(2)) ** 2 - 1),
    "cancels twice": z**2 * (sp.erf(z) - 1) + z * sp.exp(-(z**2)) / sp.sqrt(sp.pi),
    "log cancels": softplus(z) - z - sp.exp(-z) + sp.exp(-2 * z) / 2,
    "two rates": sp.exp(-3 * z) * z**5 - sp.erfc(z) * 10**6,
    "quotient": (sp.tanh(z) - 1 + sp.exp(-3 * z)) / (1 - sp.sech(z)),
    "algebraic": z / (1 + z**2) - 1 / z + 100 * sp.exp(-z),
}


def assert_sign_beyond(e, found):
    """The sign of e in 400 digits on points from M on is the one claimed."""
    place, sign = found
    f = sp.lambdify(z, e, [{"softplus": lambda u: mp.log1p(mp.exp(u))}, "mpmath"])
    with mp.workdps(400):
        for k in range(12):
            value = f(mp.mpf(place) * mp.mpf("1.3") ** (k / mp.mpf(3)))
            if mp.sign(value) != sign:
                raise AssertionError(f"{e} is {mp.nstr(value)}, not of sign {sign}, beyond {place}")


@pytest.mark.parametrize("name", SMALL)
def test_the_last_term_decides(name):
    found = transseries.far_sign(SMALL[name], SCALES)
    assert found is not None
    assert_sign_beyond(SMALL[name], found)


def test_planted_signs_are_seen():
    found = transseries.far_sign(SMALL["gelu"], SCALES)
    with pytest.raises(AssertionError, match="not of sign"):
        assert_sign_beyond(SMALL["gelu"], (found[0], -found[1]))
    with pytest.raises(AssertionError, match="not of sign"):  # M too small: the other term still leads there
        assert_sign_beyond(SMALL["two rates"], (0.5, transseries.far_sign(SMALL["two rates"], SCALES)[1]))


def test_a_wrong_remainder_would_be_seen(monkeypatch):
    """With (2k-1)!! one too large, the case in which two orders cancel comes out with the wrong sign or not at all."""
    right = transseries.far_sign(SMALL["cancels twice"], SCALES)
    monkeypatch.setattr(sp, "factorial2", lambda n: sp.Integer(1) if n < 1 else -sp.prod(range(1, n + 1, 2)))
    wrong = transseries.far_sign(SMALL["cancels twice"], SCALES)
    assert wrong is None or wrong[1] != right[1]


@pytest.mark.parametrize("e", [sp.sin(z) * sp.exp(-z), sp.exp(-sp.sqrt(1 + z**2)), 1 / sp.log(z)])
def test_what_has_no_such_form_is_undecided(e):
    assert transseries.far_sign(e, SCALES) is None


# σ_w² φ² - z² has leading orders that cancel at infinity: (activation, σ_w, sign of K' - K as K → ∞, fixed points > 0)
BALANCED = [
    ("softplus", "sqrt(2)", 1, 0),
    ("gelu", "sqrt(2)", -1, 0),
    ("elu", "sqrt(2)", 1, 0),
    ("z*(1/2 + atan(z)/pi)", "sqrt(2)", -1, 0),
    ("max(z, 0) + 1/(1 + z**4)", "sqrt(2)", 1, 0),
    ("max(z, 0) - sech(z)**2/5", "sqrt(2)", -1, 1),
    ("z*erf(z)", "1", -1, 0),
    ("softplus(z) - exp(-z**2)", "sqrt(2)", 1, 2),
]


@pytest.mark.fast_with("softplus", "elu", "z*(1/2 + atan(z)/pi)", "z*erf(z)")
@pytest.mark.parametrize(("phi", "width", "far", "count"), BALANCED, ids=[c[0] for c in BALANCED])
def test_fixed_points_where_the_leading_orders_cancel(phi, width, far, count):
    found = mf.derive(phi).fixed_points(sigma_w=width, sigma_b=0)
    assert found.status is Status.CERTIFIED
    positive = [p for p in found if p.K.value != 0]
    assert len(positive) == count
    assert (found.unbounded is not None) == (far > 0)


def gain(phi, k):
    """2⟨φ²⟩ - K by quadrature in a weighted variable."""
    root = mp.sqrt(k)

    def f(t):
        return 2 * phi(root * t) ** 2 * mp.exp(-t * t / 2)

    return mp.quad(f, [-12, -1, -0.01, 0, 0.01, 1, 12]) / mp.sqrt(2 * mp.pi) - k


@pytest.mark.slow
def test_signs_and_roots_against_quadrature():
    with mp.workdps(30):
        soft, gelu = (lambda u: mp.log1p(mp.exp(u))), (lambda u: u * mp.ncdf(u))
        for k in (mp.mpf("1e-3"), 1, 30, 1000):
            assert gain(soft, k) > 0 > gain(gelu, k)
        both = mf.derive("softplus(z) - exp(-z**2)").fixed_points(sigma_w="sqrt(2)", sigma_b=0)
        for p in both:
            assert abs(gain(lambda u: soft(u) - mp.exp(-u * u), mp.mpf(str(p.K.value)))) < 1e-17


def test_endless_changes_of_sign_are_not_counted():
    assert signs(sp.Max(z, 0) ** 2 * 2 - z**2 + 4 * sp.Max(z, 0) * sp.exp(-(z**2)) * sp.cos(z)) is None


def test_leading_coefficients_that_cancel_in_one_over_z():
    g = z**2 * (1 + 2 * sp.atan(z) / sp.pi) ** 2 / 2 - z**2  # folded: -8z/π² + O(1)
    assert signs(g) == (-1,)
    assert signs(-g) == (1,)
