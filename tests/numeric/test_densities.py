"""Averages of many K at once, whose densities are kept from octave to octave."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from meanfield.base.symbols import Z
from meanfield.numeric.quadrature import gaussian_averages, polynomial_tables


def assert_averages_of_a_lorentzian(K: np.ndarray) -> None:
    """⟨1/(1 + z²)⟩ by its closed form."""
    found = gaussian_averages.gaussian_average(1 / (1 + Z[0] ** 2), K)
    with mp.workdps(30):
        places = [1 / mp.sqrt(2 * mp.mpf(k)) for k in K]
        exact = [float(mp.sqrt(mp.pi) * x * mp.exp(x * x) * mp.erfc(x)) for x in places]
    assert np.abs(found / exact - 1).max() < 3e-15, np.abs(found / exact - 1).max()


def assert_table_of_a_lorentzian(factor: float = 1.0, monkeypatch=None) -> None:
    """The same by a table over K = 2^-12 … 2^40, whose densities repeat; factor: of those that are met again."""
    true = gaussian_averages.densities
    asked = []

    def densities(*given):
        kept = gaussian_averages._panels.get()
        asked.append(len(kept))
        for key in list(kept) if factor != 1 else ():
            kept[key] = factor * kept[key]
        return true(*given)

    monkeypatch.setattr(gaussian_averages, "densities", densities)
    table = polynomial_tables.build_table(lambda K: gaussian_averages.gaussian_average(1 / (1 + Z[0] ** 2), K), -12, 40)
    monkeypatch.undo()
    assert gaussian_averages._panels.get() is None  # nothing is kept afterwards
    assert asked[-1] < len(asked) * 8, "densities of octaves were not met again"
    K = 2.0 ** np.linspace(-11.9, 39.9, 40)
    octave = np.floor(np.log2(K))
    cell = np.floor((K / 2**octave - 1) * 8)
    rows = table.coefficients[(8 * (octave + 12) + cell).astype(int)]
    t = 2 * ((K / 2**octave - 1) * 8 - cell) - 1
    found = np.array([np.polynomial.polynomial.polyval(x, c) for x, c in zip(t, rows)])
    exact = gaussian_averages.gaussian_average(1 / (1 + Z[0] ** 2), K)
    assert np.abs(found / exact - 1).max() < 3e-15, np.abs(found / exact - 1).max()


def test_densities_of_octaves_repeat(monkeypatch):
    """A table keeps those of its octaves, which differ by powers of 4; a call of a user keeps none."""
    assert_table_of_a_lorentzian(monkeypatch=monkeypatch)
    with pytest.raises(AssertionError, match=r"0\.0"):
        assert_table_of_a_lorentzian(1.0001, monkeypatch=monkeypatch)


def test_places_where_the_density_is_flat(monkeypatch):
    """e^{-z²/2K} is left out where it is 1: the same averages as of single K, and of a function with a tail at
    K = 2^900."""
    octave = 1 + (np.arange(80) + 0.5) / 80
    for power in (-9, -7, 1, 3, 40, 42, 900):
        K = octave * 2.0**power
        assert_averages_of_a_lorentzian(K)
        assert_averages_of_a_lorentzian(K[:3])
    monkeypatch.setattr(gaussian_averages, "FLAT", 1e-3)
    with pytest.raises(AssertionError, match="e-"):
        assert_averages_of_a_lorentzian(octave * 2.0**40)
