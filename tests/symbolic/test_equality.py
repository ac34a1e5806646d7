"""`equals`: structure before digits. Every identity here has a neighbour that is none."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Equality, MeanFieldError
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, Z, sigma_w, z
from meanfield.symbolic import equality
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.equality import equal, same_structure

z_a, z_b = Z[:2]
tanh2 = average(sp.tanh(z) ** 2, K)
mean = average(sp.exp(-(z**2)) * sp.atan(z + 1), K)
norm = sp.sqrt(tanh2 - mean**2)

# φ behind a LayerNorm: heads inside heads, constants that are averages, a root of v - m²
inner, variance = average(sp.erf(z) + z**2, 1), average((sp.erf(z) + z**2) ** 2, 1)
behind = sp.erf((sp.erf(z) + z**2 - inner) / sp.sqrt(variance - inner**2))
bell = sp.exp(-(z**2) / 2)

SAME = [
    (
        average((behind + bell) ** 2, 1),
        average(behind**2, 1) + average(2 * bell * behind, 1) + average(sp.exp(-(z**2)), 1),
    ),
    (tanh2 / (tanh2 * sigma_w + tanh2), 1 / (1 + sigma_w)),
    (average((sp.tanh(z) + z) ** 2, K), tanh2 + 2 * average(z * sp.tanh(z), K) + average(z**2, K)),
    (average((sp.tanh(z) + z) ** 2, K), average(sp.tanh(z) * (sp.tanh(z) + 2 * z), K) + K),
    (average(sp.tanh(z) ** 2, (K * sigma_w + K) / (1 + sigma_w)), tanh2),  # a variance that is K
    (average(sp.tanh(z) ** 2, tanh2 / (tanh2 + tanh2 * K)), average(sp.tanh(z) ** 2, 1 / (1 + K))),
    ((tanh2 - mean**2) / norm, norm),
    ((norm + 1) ** 2 / norm, (tanh2 - mean**2 + 1 + 2 * norm) / norm),
    (1 / (1 + norm), (norm - 1) / (tanh2 - mean**2 - 1)),
    (
        average(sp.tanh(z_a) * sp.tanh(z_b), (K_aa, K_aa * K_ab / K_aa, K_bb)) / norm**3,
        average(sp.tanh(z_a) * sp.tanh(z_b), (K_aa, K_ab, K_bb)) / (norm * (tanh2 - mean**2)),
    ),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_structure_proves(a, b):
    assert same_structure(a, b)
    assert equal(a, b) is Equality.PROVED


@pytest.mark.slow_with("a0-b0")
@pytest.mark.parametrize(("a", "b"), SAME)
def test_structure_does_not_prove_what_is_false(a, b):
    assert not same_structure(a, b * sp.Rational(101, 100))
    assert not same_structure(a, b + sp.Rational(1, 10**40))


def test_a_planted_error_below_all_digits_of_a_float_is_seen():
    assert equal(tanh2, tanh2 * (1 + sp.Rational(1, 10**25))) is Equality.DIFFERENT


def test_what_only_digits_know():
    """Stein's lemma is no matter of structure: ⟨z tanh⟩ = K⟨sech²⟩."""
    a, b = average(z * sp.tanh(z), K), K * average(sp.sech(z) ** 2, K)
    assert not same_structure(a, b)
    assert equal(a, b) is Equality.TO_30_DIGITS
    assert equal(a, b + K / 10**20) is Equality.DIFFERENT


def test_what_is_odd_only_at_first_sight():
    """erf(z) is odd, so that a head that holds it turns over with z, too; what is odd in truth averages to 0."""
    whole = average(behind**2 + 2 * z * behind, 1) + average(z**2, 1)
    assert equality.same_integrand(average((behind + z) ** 2 + bell * sp.erf(z), 1), whole)
    shifted = sp.erf(z * sp.erf(z) + sp.Rational(1, 3))
    left = average((sp.tanh(z) + z) * shifted, 1)
    assert not equality.same_integrand(left + average(sp.erf(z) * shifted, 1), left)
    assert not equality.same_integrand(left + average(shifted * bell, 1), left)


def test_infinite_maps():
    assert equal(sp.oo, sp.oo) is Equality.PROVED
    assert equal(sp.oo, K) is Equality.DIFFERENT


def test_balls_too_wide_are_taken_finer(monkeypatch):
    """A difference that 160 bits cannot see is decided by more; with 160 bits alone it is refused, not called equal."""
    a = sp.exp(K * 10**6) * (sp.sin(10**60 * K) - sp.sin(10**60 * K + sp.pi * 2 * 10**3))
    b = sp.exp(K * 10**6) * sp.Rational(1, 10**70) * sp.cos(10**60 * K)
    assert equality._agree(a + b, b, {K: sp.Rational(3, 2)}) is False
    monkeypatch.setattr(equality, "BITS", (100,))
    with pytest.raises(MeanFieldError, match="too wide"):
        equality._agree(a + b, b, {K: sp.Rational(3, 2)})


def test_recursions_written_differently():
    """LayerNorm twice is LayerNorm once: the second finds variance 1 by structure, with a μ and for two inputs."""
    once = mf.derive(architecture=_normed(1))
    twice = mf.derive(architecture=_normed(2))
    for name in ("one_input", "two_inputs"):
        assert getattr(once, name).equals(getattr(twice, name)) is Equality.PROVED
    other = mf.derive(architecture=_normed(2, mu="1/3"))
    assert once.one_input.equals(other.one_input) is Equality.DIFFERENT


def _normed(times: int, mu="1/2"):
    from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Residual, Sequential

    norms = (LayerNorm(affine=False),) * times
    return Residual(Sequential((Nonlinearity("gelu"), *norms, Dense())), mu)


RHO, SCALE = sp.symbols("rho scale", real=True)


def relus(rho, K=sp.S.One):
    return average(sp.Max(0, z_a) * sp.Max(0, z_b), (K, K * rho, K))


def arccosine(rho):
    return (sp.sqrt(1 - rho**2) + rho * (sp.pi - sp.acos(rho))) / (2 * sp.pi)


@pytest.mark.slow_with("rho")
@pytest.mark.parametrize("name", ["rho", "c", "a"])
def test_correlations_of_any_name_stay_inside(name, monkeypatch):
    """The test points of a free correlation were 29/23 and more, where neither side is real."""
    rho = sp.Symbol(name, real=True)
    assert equal(relus(rho), arccosine(rho)) is not Equality.DIFFERENT
    assert equal(relus(rho), arccosine(rho) * sp.Rational(101, 100)) is Equality.DIFFERENT
    assert equal(relus(rho, K), K * arccosine(rho)) is not Equality.DIFFERENT
    monkeypatch.setattr(equality, "HALVINGS", 0)  # planted: the points as they come
    if name != "c":
        with pytest.raises(MeanFieldError, match=r"is known for I|finite and real"):
            equal(relus(rho), arccosine(rho))


def test_points_are_inside_for_several_averages_at_once():
    """Of three variables, too; symbols that a variance holds stay where they are."""
    tied = sp.Tuple(1, RHO, 1, RHO, SCALE, K)
    for k in range(12):
        at = equality.sample(sorted((RHO, SCALE, K, K_ab), key=str), k)
        found = equality._inside(at, {tied, sp.Tuple(K, K_ab, K)})
        assert all(equality._is_covariance(c.xreplace(found)) for c in (tied, sp.Tuple(K, K_ab, K)))
        assert found[K] == at[K] and not equality._is_covariance(tied.xreplace(at))
        assert abs(found[RHO]) > 1e-3 and abs(found[SCALE]) > 1e-3
