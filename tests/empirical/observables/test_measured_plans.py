"""What a measurement refuses, in a sentence, and on both sides of every limit; recursions with their derivatives."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.observables.wanted import WIDEST, Measurement, check_plan
from meanfield.kernels.loops.tangents import _moving, moved, with_tangents
from meanfield.symbolic.steps import Step

NETWORK = dict(
    operations=(), depth=3, width=8, widths=(8, 8, 8), tokens=1, couples=False, backward="own", sampler="explicit"
)
MEASURED = dict(quantities=("K",), probes=4, classes=2, order=0, read="mean")


def planned(positions=1, correlation=None, **changed):
    """`check_plan` of a network of three layers of eight neurons, with what is changed."""
    ensemble = SimpleNamespace(**{k: changed.get(k, v) for k, v in NETWORK.items()})
    measured = SimpleNamespace(**{k: changed.get(k, v) for k, v in MEASURED.items()})
    inputs = SimpleNamespace(correlation=correlation, positions=lambda tokens: positions * tokens)
    check_plan(ensemble, inputs, measured)


@pytest.mark.parametrize(
    ("good", "bad", "said", "quantities"),
    [
        ({"correlation": 0.5, "positions": 2}, {"positions": 2}, "of two inputs; give correlation=",
         ("K_aa", "K_bb", "K_ab", "distance")),
        ({}, {"quantities": ("K", "nonsense")}, "Unknown quantity 'nonsense'; the choices are A, ", ("K",)),
        ({"positions": 2}, {"positions": 3}, "J_ab and Theta_ab are of two inputs", ("J_ab",)),
        ({"positions": 2}, {"positions": 2, "tokens": 2}, "J_ab and Theta_ab are of two inputs", ("Theta_ab",)),
        ({"positions": 3, "couples": True}, {"couples": True}, "of two positions, but one is read", ("J_ab",)),
        ({"positions": 2, "tokens": 3, "couples": True, "read": "last"},
         {"tokens": 3, "couples": True, "read": "last"}, "of two positions, but one is read", ("Theta_ab",)),
        ({"couples": True, "read": "last"}, {"read": "last"}, "whose positions act on each other", ("K",)),
        ({"backward": "copy"}, {"backward": "copy", "couples": True}, "weights that made them", ("G_z",)),
        ({"positions": 2}, {"positions": 2, "backward": "copy"}, "weights that made them", ("delta2",)),
        ({"depth": 2}, {"depth": 1}, "a network of depth 1 has none", ("chi",)),
        ({"couples": True}, {"couples": True, "probes": None}, "measured with random vectors", ("Theta",)),
        ({"probes": None}, {"probes": None, "sampler": "lazy"}, "lazy sampler never forms a matrix", ("J",)),
        ({"sampler": "lazy"}, {"probes": None, "sampler": "lazy"}, "lazy sampler never forms a matrix", ("Theta",)),
        ({"positions": 2}, {"positions": 1}, "K_ab needs two inputs", ("K_ab",)),
        ({"positions": 2}, {"positions": 1}, "variances over inputs and neurons", ("sigma_y2",)),
        ({"positions": 2, "widths": (2, 8)}, {"positions": 2, "widths": (1, 8)}, "two or more", ("sigma_mu2",)),
        ({"positions": 2}, {"positions": 1}, "need several inputs", ("G0",)),
        ({"positions": 8}, {"positions": 9}, "for up to 8 inputs without tokens", ("V",)),
        ({}, {"positions": 1, "tokens": 2}, "for up to 8 inputs without tokens", ("V",)),
        ({"positions": 9, "classes": 8}, {"positions": 9, "classes": 9}, "from 2 to the smallest width", ("G0",)),
        ({"positions": 9, "classes": 2}, {"positions": 9, "classes": 1}, "from 2 to the smallest width", ("G0",)),
        ({"positions": 9, "classes": 8}, {"positions": 9, "classes": 9}, "classes must be from 2 to 8", ("delta2",)),
        ({"positions": 9, "classes": 2}, {"positions": 9, "classes": 1}, "classes must be from 2 to 8", ("delta2",)),
        ({"positions": 3, "classes": 3}, {"positions": 3, "classes": 4}, "an input of every class", ("delta2",)),
        ({"positions": 3}, {"positions": 3, "tokens": 2}, "one label for each input", ("delta2",)),
        ({"order": 1}, {"order": 1, "sampler": "lazy"}, "measured with explicit weights", ("A",)),
        ({"order": 1, "widths": (WIDEST[1],)}, {"order": 1, "widths": (WIDEST[1] + 1,)}, "tensors of N²", ("A",)),
        ({"order": 2, "widths": (WIDEST[2],)}, {"order": 2, "widths": (WIDEST[2] + 1,)}, "N ≤ ", ("P",)),
        ({"order": 2, "positions": 2, "widths": (WIDEST[2] // 2,)},
         {"order": 2, "positions": 2, "widths": (WIDEST[2] // 2 + 1,)}, "for 2 inputs", ("P",)),
        ({"order": 3, "widths": (WIDEST[3],)}, {"order": 3, "widths": (WIDEST[3] + 1,)}, "R, S, T, U of N⁴", ("R",)),
    ],
)  # fmt: skip
def test_what_is_refused(good, bad, said, quantities):
    """One side of a limit is measured, the other is not; what else is wanted does not matter."""
    given = {"quantities": quantities}
    planned(**given | good)
    with pytest.raises(MeanFieldError, match=re.escape(said)):
        planned(**given | bad)


def test_how_far_differentials_go():
    """A, B, D, F need none of the kernel, P and Q two, R to U three; V alone needs none at all."""
    for quantities, order in ((("V",), 0), (("V", "D"), 1), (("P", "A"), 2), (("Q",), 2), (("T", "P"), 3)):
        assert Measurement(quantities).order == order
    assert Measurement(("K", "G_w", "delta2"), 3).signs == 3 and Measurement(("K", "G_w", "delta2"), 3).pulls == 4
    assert Measurement(("G_z",)).signs == 1 and Measurement(("delta2",), 5).signs == 0
    assert Measurement(("delta2",), 5).pulls == 1 and Measurement(("K",), 5).pulls == 0
    assert Measurement(("R",)).raw_differentials == {f"_{n}": n for n in "PQRTU"} | {"_ddII": "S_dd"}
    assert Measurement(("A",)).raw_differentials == {} and set(Measurement(("Q",)).raw_differentials) == {"_P", "_Q"}


def test_a_moving_step():
    """dx' = ∂F/∂x dx + ∂F/∂p through an intermediate: of y = p x², x' = y² + p x u, u' = 3u."""
    x, u, y, p = sp.symbols("x u y p", real=True)
    variables = [SimpleNamespace(symbol=x, name="x"), SimpleNamespace(symbol=u, name="u")]
    step = _moving(SimpleNamespace(state=variables), Step((y**2 + p * x * u, 3 * u), ((y, p * x**2),)), (p,))
    dx, du, dy = (moved(name, p) for name in "xuy")
    assert [s for s, _ in step.definitions] == [y, dy] and step.next[:2] == (y**2 + p * x * u, 3 * u)
    definitions = dict(step.definitions)
    assert sp.expand(definitions[dy] - (x**2 + 2 * p * x * dx)) == 0
    assert sp.expand(step.next[2] - (2 * y * dy + x * u + p * u * dx + p * x * du)) == 0
    assert sp.expand(step.next[3] - 3 * du) == 0


def test_a_recursion_with_derivatives():
    """ReLU's K' = σ_w² K/2 + σ_b² and J' = σ_w² J/2 by both σ's, side by side with those of the first layer."""
    own = mf.derive("relu").one_input
    w, b = (next(p for p in own.parameters if p.name == name) for name in ("sigma_w", "sigma_b"))
    found = with_tangents(own, (w, b))
    names = [v.name for v in found.state]
    following = dict(zip(names, (e.doit() for e in found.block.next)))
    K, J = (v.symbol for v in own.state[:2])
    dK, dJ = moved("K", w), moved("J", w)
    assert sp.simplify(following["dK_by_sigma_w"] - (w * K + w**2 / 2 * dK)) == 0
    assert sp.simplify(following["dJ_by_sigma_w"] - (w * J + w**2 / 2 * dJ)) == 0
    assert sp.simplify(following["dK_by_sigma_b"] - (2 * b + w**2 / 2 * moved("K", b))) == 0
    first = {v.name: v.initial for v in found.state}
    for name in ("K", "J", "Theta"):
        for s in (w, b):
            assert sp.simplify(first[f"d{name}_by_{s.name}"] - sp.diff(first[name], s)) == 0
