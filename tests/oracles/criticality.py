"""Multiprecision K-map of a plain layer, by mpmath's own quadrature: nothing of the engine is used.

A(K) = ⟨φ²⟩, B(K) = ⟨φ′²⟩ and A′(K) = ⟨z φ φ′⟩/K (Stein's lemma) from the hand-written triples (φ, φ′, φ″).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp

from tests.oracles.activations import ACTIVATIONS, MpmathBackend

M = MpmathBackend()


def gaussian(f: Callable[[Any], Any], K: Any, kinks: tuple[Any, ...] = ()) -> Any:
    """⟨f⟩ over N(0, K) with panels that are narrow near 0 (where activations live) and reach to where e^{-t²/2}
    dies."""
    scale = mp.sqrt(K)
    reach = mp.sqrt(2 * mp.log(10) * (mp.dps + 10)) * scale
    steps = [mp.mpf(2) ** k for k in range(-2, 40) if mp.mpf(2) ** k < reach]
    steps = [s for s in steps if s > scale / 64]
    points = sorted({-reach, reach, mp.mpf(0), *steps, *(-s for s in steps), *(k for k in kinks if abs(k) < reach)})
    total = mp.quad(lambda z: f(z) * mp.exp(-z * z / (2 * K)), points)
    return total / mp.sqrt(2 * mp.pi * K)


def averages(name: str, K: Any) -> tuple[Any, Any, Any]:
    """(⟨φ²⟩, ⟨φ′²⟩, ⟨zφφ′⟩/K)."""
    a = ACTIVATIONS[name]
    kinks = tuple(M.num(place) for place, _ in a.kinks)
    second = gaussian(lambda z: a.triple(M, z)[0] ** 2, K, kinks)
    slope = gaussian(lambda z: a.triple(M, z)[1] ** 2, K, kinks)
    mixed = gaussian(lambda z: z * a.triple(M, z)[0] * a.triple(M, z)[1], K, kinks) / K
    return second, slope, mixed
