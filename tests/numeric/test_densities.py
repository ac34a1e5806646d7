"""Averages of many K at once, whose densities are kept from octave to octave."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from meanfield.base.symbols import Z
from meanfield.numeric.quadrature import gaussian_averages


def assert_averages_of_a_lorentzian(K: np.ndarray) -> None:
    """⟨1/(1 + z²)⟩ by its closed form."""
    found = gaussian_averages.gaussian_average(1 / (1 + Z[0] ** 2), K)
    with mp.workdps(30):
        places = [1 / mp.sqrt(2 * mp.mpf(k)) for k in K]
        exact = [float(mp.sqrt(mp.pi) * x * mp.exp(x * x) * mp.erfc(x)) for x in places]
    assert np.abs(found / exact - 1).max() < 3e-15, np.abs(found / exact - 1).max()


def test_densities_of_octaves_repeat(monkeypatch):
    """Those of many K at once are kept, for octaves that differ by a power of 4, and e^{-z²/2K} is left out where it is
    1: the same averages as of single K, and of a function with a tail at K = 2^900."""
    octave = 1 + (np.arange(80) + 0.5) / 80
    for power in (-9, -7, 1, 3, 40, 42, 900):
        K = octave * 2.0**power
        assert_averages_of_a_lorentzian(K)
        assert_averages_of_a_lorentzian(K[:3])
    assert gaussian_averages._repeated
    monkeypatch.setattr(gaussian_averages, "FLAT", 1e-3)
    with pytest.raises(AssertionError, match="e-"):
        assert_averages_of_a_lorentzian(octave * 2.0**40)
    monkeypatch.undo()
    for key in list(gaussian_averages._repeated):
        monkeypatch.setitem(gaussian_averages._repeated, key, 1.01 * gaussian_averages._repeated[key])
    with pytest.raises(AssertionError, match=r"0\.0"):
        assert_averages_of_a_lorentzian(octave * 8.0)
