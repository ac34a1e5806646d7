"""What a test plants in the search for fixed points must show in its answers: none is taken from an earlier call."""

import pytest

from meanfield.symbolic.fixed_points import all_fixed_points


@pytest.fixture(autouse=True)
def fixed_points_are_searched_for_anew(monkeypatch):
    monkeypatch.setattr(all_fixed_points, "_of_maps", all_fixed_points._of_maps.__wrapped__)
