"""Starts of two inputs in coordinates that nobody asked to follow."""

from __future__ import annotations

import meanfield as mf


def test_a_start_may_say_more_than_is_followed():
    """K_ab moves neither K_aa nor K_bb: with it they are what they are without it."""
    theory, at = mf.derive("tanh"), dict(sigma_w=1.2, sigma_b=0.1, depth=3, quantities=("K_aa", "K_bb"))
    more = theory.propagate(start={"K_aa": 1.0, "K_bb": 0.5, "K_ab": 0.2}, **at)
    less = theory.propagate(start={"K_aa": 1.0, "K_bb": 0.5}, **at)
    assert more.K_aa.tolist() == less.K_aa.tolist() and more.K_bb.tolist() == less.K_bb.tolist()
