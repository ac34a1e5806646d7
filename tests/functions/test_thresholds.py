"""Switch points whose order hangs on parameters: derived at once, answered as soon as a verb is given the numbers."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Sequential

PLACE = {"sigma_w": 1.2, "sigma_b": 0.1}
# (formula, φ in Python, values)
OPEN = [
    ("z if z > t else (z/2 if z > s else 0)", lambda z, t, s: z if z > t else z / 2 if z > s else 0, (0.3, -0.4)),
    ("z if z > t else (z/2 if z > s else 0)", lambda z, t, s: z if z > t else z / 2 if z > s else 0, (-0.3, 0.4)),
    ("min(max(z, s), t)", lambda z, t, s: min(max(z, s), t), (0.3, -0.4)),
    ("z/9 + min(max(z, s), t)", lambda z, t, s: z / 9 + min(max(z, s), t), (-0.5, 0.4)),
    ("z if abs(z) > t else s*z", lambda z, t, s: z if abs(z) > t else s * z, (0.3, 2)),
    ("max(tanh(z), t) - max(z, s)/5", lambda z, t, s: max(mp.tanh(z), t) - max(z, s) / 5, (0.3, -0.7)),
]


def second_moment(phi, k, breaks) -> mp.mpf:
    """⟨φ²⟩_K by quadrature between the places given."""
    edges = sorted({-14 * mp.sqrt(k), 14 * mp.sqrt(k), *map(mp.mpf, breaks)})
    return mp.quad(lambda z: phi(z) ** 2 * mp.npdf(z, 0, mp.sqrt(k)), edges)


def iterated(phi, breaks, layers) -> list[mp.mpf]:
    k, out = mp.mpf("1.45"), []
    for _ in range(layers):
        out.append(k)
        k = mp.mpf("1.44") * second_moment(phi, k, breaks) + mp.mpf("0.01")
    return out


def assert_layers(found, truth):
    np.testing.assert_allclose(np.asarray(found, dtype=float), [float(v) for v in truth], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "phi", "values"), OPEN, ids=[f"{c[0]} {c[2]}" for c in OPEN])
def test_numbers_decide(text, phi, values):
    theory = mf.derive(text, t="t", s="s")
    t, s = values
    given = {"t": t, "s": s}
    breaks = {0, *map(str, (t, -t, s)), mp.atanh(mp.mpf(str(t)))}
    truth = iterated(lambda z: phi(z, mp.mpf(str(t)), mp.mpf(str(s))), breaks, 3)
    found = theory.propagate(depth=3, quantities="K", **PLACE, **given).K
    assert_layers(found, truth)
    # control: another threshold is another answer
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-12"):
        assert_layers(found, iterated(lambda z: phi(z, mp.mpf(str(t)) + 1e-6, mp.mpf(str(s))), breaks, 3))
    points = theory.fixed_points(**PLACE, **given)
    plain = mf.derive(text, **given).fixed_points(**PLACE)
    assert [p.K for p in points] == [p.K for p in plain] and points.status is plain.status


@pytest.mark.slow
def test_every_verb_with_numbers_answers():
    theory = mf.derive("min(max(z, s), t)", t="t", s="s")
    given = {"s": -0.4, "t": 0.3}
    assert str(theory.phase(**PLACE, **given)).startswith("chaotic")
    assert theory.depth_law("K", **PLACE, **given).law.leading.power == 0
    grid = theory.phase_diagram(sigma_w=[0.5, 1.25, 2], sigma_b=[0, 1], line=False, **given)
    assert grid.phase.tolist() == [[0, 1, 1], [0, 0, 0]]
    wide = {"width": 40, "depth": 2, "networks": 20, "quantities": ("K",)}
    assert mf.check(theory, **PLACE, **given, **wide).passed
    run = mf.measure(theory, **PLACE, **given, width=20, depth=2, networks=4, quantities=("K",))
    assert run.estimate("K").mean.shape == (2,)


def test_symbols_alone_get_the_sentence():
    theory = mf.derive("min(max(z, s), t)", t="t", s="s")
    for ask in (theory.recursion, theory.averages, theory.critical_points, theory.latex, theory.source):
        with pytest.raises(mf.MeanFieldError, match="comes first is not decided"):
            ask()
    with pytest.raises(mf.MeanFieldError, match="comes first is not decided"):  # one number does not decide
        theory.fixed_points(t=0.3, **PLACE)
    assert "comes first" in str(theory) and theory._repr_latex_() is None
    with pytest.raises(mf.MeanFieldError, match=r"not real|takes complex"):  # checked when the number is known
        mf.derive("sqrt(t + max(z, s)) if z > t else 0", t="t", s="s").fixed_points(t=-2, s=1, **PLACE)
    b, y = sp.Symbol("b", positive=True), sp.Symbol("y")
    open_one = mf.derive(sp.Max(sp.tanh(y), b), b="b")
    with pytest.raises(mf.MeanFieldError, match="declared positive"):
        open_one.fixed_points(b=-1, **PLACE)


@pytest.mark.slow
def test_thresholds_in_architectures():
    block = Sequential((Nonlinearity(mf.activation("max(tanh(z), t)", t="t")), LayerNorm(), Dense()))
    theory = mf.derive(architecture=block)
    plain = Sequential((Nonlinearity(mf.activation("max(tanh(z), 0.3)")), LayerNorm(), Dense()))
    one, other = theory.propagate(depth=4, t=0.3, **PLACE), mf.derive(architecture=plain).propagate(depth=4, **PLACE)
    assert_layers(one.K, other.K)
    assert_layers(one.J, other.J)


@pytest.mark.slow
def test_swept_thresholds():
    theory = mf.derive("min(max(z, s), t)", t="t", s="s")
    t = np.array([[-0.2], [0.3], [-0.2]])
    widths = np.array([0.8, 1.2])
    run = theory.propagate(sigma_w=widths, sigma_b=0.1, depth=4, t=t, s=-0.4)
    assert run.K.shape == (3, 2, 4) and run.J.shape == (3, 2, 4)
    for i, j in np.ndindex(3, 2):
        one = theory.propagate(sigma_w=widths[j], sigma_b=0.1, depth=4, t=float(t[i, 0]), s=-0.4)
        assert (run.K[i, j] == one.K).all() and (run.J[i, j] == one.J).all()
    assert (run.K[0] == run.K[2]).all() and (run.K[0] != run.K[1]).any()  # control
    assert run.error >= one.error
    last = mf.derive("z if z > t else a*z", t="t", a="a").propagate(
        sigma_w=1.2, sigma_b=0.1, depth=4, t=[0.1, 0.2], a=0.5, quantities="K", every_layer=False
    )
    assert last.K.shape == (2, 1) and last.l.tolist() == [4]
    with pytest.raises(mf.MeanFieldError, match="layerwise"):
        theory.propagate(sigma_w=[1, 1], sigma_b=0, depth=2, layerwise=True, t=[0.3, 0.4], s=-1)
    with pytest.raises(mf.MeanFieldError, match="do not broadcast"):
        theory.propagate(sigma_w=widths, sigma_b=0, depth=2, t=[0.1, 0.2, 0.3], s=-1)
    with pytest.raises(mf.MeanFieldError, match="finite"):
        theory.propagate(sigma_w=1, sigma_b=0, depth=2, t=[0.1, np.nan], s=-1)
