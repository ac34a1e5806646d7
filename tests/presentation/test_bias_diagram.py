"""Diagrams of the guessing bias: against sums over a grid of z, against `correlations`, and against printed numbers."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from scipy.special import erf

import meanfield as mf
from meanfield.base.storage.files import figure_of
from meanfield.bias.guessing import BiasPhase
from meanfield.numeric.phases import correlation_grids, gaps
from meanfield.numeric.phases.gap_tables import Panel

SPEC = {  # tanh, σ_b² = 0.1: σ_w² → c*
    2.5: 0.664361346727,
    3.0: 0.477539344,
    4.0: 0.285524215,
}


def diagram(phi, sigma_w2, sigma_b2, **more):
    given = {"sigma_w": np.sqrt(np.array(sigma_w2, dtype=float)), "sigma_b": np.sqrt(np.array(sigma_b2, dtype=float))}
    return mf.derive(phi, **more.pop("network", {})).phase_diagram(**given, quantity="gamma", **{"line": False} | more)


def name(found, i, j) -> BiasPhase:
    return BiasPhase(found.phases[found.phase[i, j]])


def by_sums(phi, sigma_w2, sigma_b2, layers):
    """(K, c) after some layers from orthogonal inputs, by the trapezoid rule in sum and difference, in plain NumPy."""
    x = np.linspace(-8.5, 8.5, 201)
    w = np.exp(-(x**2) / 2)
    w /= w.sum()
    K, c = sigma_w2 + sigma_b2, sigma_b2 / (sigma_w2 + sigma_b2)
    for _ in range(layers):
        a, b = math.sqrt(K * (1 + c) / 2) * x[:, None], math.sqrt(K * (1 - c) / 2) * x
        both = sigma_w2 * (np.outer(w, w) * phi(a + b) * phi(a - b)).sum() + sigma_b2
        K = sigma_w2 * (w * phi(math.sqrt(K) * x) ** 2).sum() + sigma_b2
        c = both / K
    return K, c


def agree(found, i, j, phi, layers) -> bool:
    K, c = by_sums(phi, found.sigma_w[j] ** 2, found.sigma_b[i] ** 2, layers)
    return bool(abs(found.K[i, j] - K) < 1e-12 * K and abs(found.c[i, j] - c) < 1e-12 + found.error[i, j])


def test_labels_of_relu():
    """Table 1 and what it leaves out: K is neutral at (0, 2), diverges at (0.1, 2), vanishes at (0, 1.5)."""
    found = diagram("relu", [0, 1.5, 2, 2.5], [0, 0.1])
    P = BiasPhase
    wanted = [
        [P.UNKNOWN, P.VANISHING_DEEP_PREJUDICE, P.TRANSIENT_DEEP_PREJUDICE, P.CHAOTIC_DEEP_PREJUDICE],
        [P.ORDERED_DEEP_PREJUDICE, P.ORDERED_DEEP_PREJUDICE, P.DIVERGENT_DEEP_PREJUDICE, P.CHAOTIC_DEEP_PREJUDICE],
    ]
    assert [[name(found, i, j) for j in range(4)] for i in range(2)] == wanted
    assert math.isnan(found.c[0, 0]) and (np.delete(found.c.ravel(), 0) == 1).all()
    assert (np.delete(found.gamma.ravel(), 0) == np.inf).all()
    assert found.slope[1].tolist() == pytest.approx([0, 0.75, 1, 1], abs=1e-15)
    moved = diagram("relu", [1.5 * (1 + 1e-9), 2.0000001], [0.1])  # a planted change of σ_w² has other labels
    assert name(moved, 0, 1) is P.CHAOTIC_DEEP_PREJUDICE is not wanted[1][2]


def kinds_of(monkeypatch, phi, sigma_w2, sigma_b2):
    """(the diagram by tables, without them, the compiled gaps whose tables they are)."""
    gaps.compile_gaps.cache_clear()
    monkeypatch.setattr(gaps, "MANY", 4)
    tabled = diagram(phi, sigma_w2, sigma_b2)
    compiled = gaps.compile_gaps(mf.derive(phi).activations[0].pieces.expr)
    assert any(compiled.tables.values()), "no table was made, so none is tested"
    monkeypatch.setattr(gaps, "MANY", 10**9)
    straight = diagram(phi, sigma_w2, sigma_b2)
    monkeypatch.setattr(gaps, "MANY", 4)
    return tabled, straight, compiled


def assert_tables_hold(monkeypatch, phi, sigma_w2, sigma_b2):
    """With tables and without, c* and its slope are the same; a table that is wrong by 1e-8 is seen."""
    found, straight, compiled = kinds_of(monkeypatch, phi, sigma_w2, sigma_b2)
    assert np.abs(straight.c - found.c).max() < 1e-12 and np.abs(straight.slope - found.slope).max() < 1e-10
    assert (straight.phase == found.phase).all() and not np.isnan(found.c).any() and found.error.max() < 1e-11
    for o, row in compiled.tables.items():
        moved = [Panel(p.low, p.high, p.coefficients + 1e-8, p.error) for p in row or ()]
        compiled.tables[o] = tuple(moved) or None
    assert np.abs(diagram(phi, sigma_w2, sigma_b2).c - found.c).max() > 1e-10
    gaps.compile_gaps.cache_clear()
    return found


@pytest.mark.slow
def test_tables_of_a_function_that_jumps(monkeypatch):
    """step: C(c) = (σ_w²(1/4 + asin(c)/2π) + σ_b²)/K."""
    found = assert_tables_hold(monkeypatch, "step", np.linspace(1.2, 1.7, 40), np.linspace(0.05, 0.3, 10))
    w2, c = found.sigma_w**2, found.c
    image = (w2 * (0.25 + np.arcsin(c) / (2 * math.pi)) + found.sigma_b[:, None] ** 2) / found.K
    assert np.abs(image - c).max() < 1e-14 and (found.chi_J == np.inf).all()
    assert found.slope == pytest.approx(w2 / found.K / (2 * math.pi) / np.sqrt(1 - c**2), abs=1e-11)


@pytest.mark.slow
def test_a_grid_of_erf_against_sums_and_correlations(monkeypatch):
    found = assert_tables_hold(monkeypatch, "erf", np.linspace(1.0, 4.0, 12), np.array([0.02, 0.1, 0.2]))
    inside = np.argwhere(found.gap > 0)
    assert len(inside) > 20
    for i, j in np.random.default_rng(3).choice(inside, 3, replace=False):
        assert agree(found, i, j, erf, 400)
        own = mf.derive("erf").correlations(sigma_w=float(found.sigma_w[j]), sigma_b=float(found.sigma_b[i])).stable
        assert abs(own.c - found.c[i, j]) < 1e-12 and abs(own.slope - found.slope[i, j]) < 1e-10
        assert not agree(found, i, j, lambda z: erf(z * (1 + 1e-9)), 400)  # the comparison has teeth


@pytest.mark.slow
def test_odd_functions_without_biases():
    """γ stays where it starts while K → 0; it goes to 0 in the chaotic phase."""
    found = diagram("erf", [0.5, 3.0], [0.0])
    assert [name(found, 0, j) for j in range(2)] == [BiasPhase.BY_THE_START, BiasPhase.NEUTRALITY]
    assert found.c.tolist() == [[0, 0]] and found.gamma.tolist() == [[0, 0]]
    biased = diagram("erf", [0.5, 3.0], [1e-6])  # planted: a bias, and nothing stays where it started
    assert name(biased, 0, 0) is BiasPhase.ORDERED_DEEP_PREJUDICE and (biased.c > 0).all()
    endless = diagram("erf", [1.5], [0, 0.1], network={"residual": True})
    assert [name(endless, i, 0) for i in (0, 1)] == [BiasPhase.BY_THE_START, BiasPhase.UNKNOWN]


def assert_power(found, coefficients) -> None:
    """c* is kept by C = Σ a_n c^n, whose slope there is the diagram's; the phase is named after c*."""
    C = np.polynomial.Polynomial(coefficients)
    c = found.c[0, 0]
    assert abs(C(c) - c) < 1e-12, f"the map moves c* = {c} to {C(c)}"
    assert abs(C.deriv()(c) - found.slope[0, 0]) < 1e-12, f"the slope at c* is {C.deriv()(c)}, not {found.slope[0, 0]}"
    wanted = BiasPhase.BALANCE if abs(c - 0.5) < 1e-12 else BiasPhase.PREJUDICE if c > 0.5 else BiasPhase.NEUTRALITY
    assert name(found, 0, 0) is wanted


@pytest.mark.slow
def test_functions_of_one_power():
    """z²: C(c) = (1 + 2c²)/3 wherever K goes, z³: (9c + 6c³)/15; step without weights: only the bias is left."""
    square, cube = diagram("z**2", [0.4], [0.0]), diagram("z**2*abs(z)", [0.2], [0.0])
    assert_power(square, [1 / 3, 0, 2 / 3])
    assert square.xi_c[0, 0] == pytest.approx(1 / math.log(1.5)) and name(cube, 0, 0) is not name(square, 0, 0)
    for found, other in ((square, [1 / 3, 1e-9, 2 / 3]), (cube, [1 / 3, 0, 2 / 3])):
        # planted: another map, another function
        with pytest.raises(AssertionError, match=r"the map moves|the slope at"):
            assert_power(found, other)
    assert name(diagram("step", [0], [0.1]), 0, 0) is BiasPhase.ORDERED_DEEP_PREJUDICE
    assert name(diagram("step", [1.2], [0.1]), 0, 0) is not BiasPhase.ORDERED_DEEP_PREJUDICE


@pytest.mark.slow_with("network2")
@pytest.mark.parametrize("network", [{"norm": "act"}, {"norm": "pre", "mu": "1/2"}, {"mu": "1/2"}])
def test_other_blocks_agree_with_correlations(network):
    """Blocks with a LayerNorm go one layer at a time; a skip keeps the compiled S."""
    theory, found = mf.derive("relu", **network), diagram("relu", [1.2, 2.2], [0.05, 0.3], network=network)
    for i, b in enumerate(found.sigma_b):
        for j, w in enumerate(found.sigma_w):
            own = theory.correlations(sigma_w=float(w), sigma_b=float(b)).stable
            assert abs(own.c - found.c[i, j]) < 1e-12 and abs(own.slope - found.slope[i, j]) < 1e-8
            assert own.c == 1 or abs(own.c + 1e-11 - found.c[i, j]) > 1e-12


def test_nothing_is_guessed():
    """With an identity skip K grows for ever, and the map of c depends on it."""
    found = diagram("step", [1.5], [0, 0.1], network={"residual": True})
    assert np.isinf(found.K).all() and [name(found, i, 0) for i in (0, 1)] == [BiasPhase.UNKNOWN] * 2
    assert np.isnan([found.c, found.gamma, found.error, found.slope]).all() and "unknown" in str(found)
    settled = diagram("step", [1.5], [0.1], network={"mu": 0.5})  # a weaker skip: nothing is unknown
    assert not np.isnan(settled.c).any() and "unknown" not in str(settled)


STARTS = {"z**2 + z/2": (0.5, 1.5), "z*abs(z) + z/3": (1.5,), "elu": (0.5, 1.0)}


@pytest.mark.slow_with("elu")
@pytest.mark.parametrize("phi", STARTS)
def test_phases_are_those_of_single_points(phi, monkeypatch):
    """K falls by a factor a layer where phi is linear at 0: the first layers decide c, odd or not (the diagram said
    "unknown"). Where K grows faster than any exponential, c ends as through the largest power (the point said
    "unknown", or "by the start" for one at rest)."""
    sigma_w, theory = list(STARTS[phi]), mf.derive(phi)

    def phases():
        found = theory.phase_diagram(sigma_w=sigma_w, sigma_b=[0], quantity="gamma", line=False)
        return [found.phases[i] for i in found.phase[0]]

    assert phases() == [theory.bias(sigma_w=w, sigma_b=0).phase.value for w in sigma_w]
    if phi == "elu":
        assert phases() == ["by the start", "unknown"], "K falls as a power at 1"
        monkeypatch.setattr(correlation_grids, "RESTING", 1.0)
        assert phases()[0] == "unknown", "control"


GROWING = {("z", False): (0.5, 1.0, 1.5), ("2*z + 1", False): (0.4, 0.5, 1.0), ("z", True): (0.5, 1.5)}
GROWING[("z + tanh(z)", False)] = (1.5,)


@pytest.mark.slow_with("0-z + tanh(z)-False", "0.5-z + tanh(z)-False")
@pytest.mark.parametrize(("phi", "residual"), GROWING)
@pytest.mark.parametrize("sigma_b", [0, 0.5])
def test_phases_where_K_grows_by_a_factor(phi, residual, sigma_b, monkeypatch):
    """Distances of a linear phi grow as K does, or stay while biases make K grow (the diagram said "unknown")."""
    sigma_w, theory = list(GROWING[phi, residual]), mf.derive(phi, residual=residual)

    def phases():
        found = theory.phase_diagram(sigma_w=sigma_w, sigma_b=[sigma_b], quantity="gamma", line=False)
        return [found.phases[i] for i in found.phase[0]]

    if "tanh" in phi:  # `bias` follows it in a quarter of a minute, to the same phase
        assert phases() == ["by the start"]
        monkeypatch.setattr(correlation_grids, "FAR", (1.0, 7.3))
        assert sigma_b == 0 or phases() == ["unknown"], "control"
    else:
        assert phases() == [theory.bias(sigma_w=w, sigma_b=sigma_b).phase.value for w in sigma_w]


def test_symbols_get_values():
    symbolic = diagram("relu", [1.2, 1.9], [0.1], network={"mu": "mu"}, mu=0.5)
    number = diagram("relu", [1.2, 1.9], [0.1], network={"mu": "1/2"})
    assert symbolic.c.tolist() == number.c.tolist() and symbolic.phase.tolist() == number.phase.tolist()
    moved = diagram("relu", [1.2, 1.9], [0.1], network={"mu": "mu"}, mu=0.501)
    assert symbolic.slope.tolist() == number.slope.tolist() != moved.slope.tolist()
    leaky = diagram("leaky_relu", [1.2, 2.9], [0.1], network={"alpha": "a"}, a=0.25)
    assert leaky.c.tolist() == [[1, 1]]
    with pytest.raises(mf.MeanFieldError, match="mu"):
        diagram("relu", [1.2], [0.1], network={"mu": "mu"})


def test_files_and_texts(tmp_path):
    found = diagram("relu", [1, 1.5, 2.5], [0, 0.1], line=True)
    assert found.line is not None and found.neutrality is not None and repr(found).startswith("BiasDiagram(MLP, relu")
    with np.load(found.save(tmp_path / "d.npz")) as data:
        assert data["c"].tolist() == found.c.tolist() and data["phase"][1, 0].startswith("ordered")
    rows = list(csv.DictReader(found.save(tmp_path / "d.csv").read_text().splitlines()))
    assert len(rows) == 6 and rows[3]["phase"] == "ordered deep prejudice" and float(rows[3]["c"]) == 1
    other = replace(found, gap=found.gap + 2**-40, phase=found.phase[::-1])  # planted: what is written is what is held
    rows = list(csv.DictReader(other.save(tmp_path / "o.csv").read_text().splitlines()))
    assert rows[3]["phase"] != "ordered deep prejudice" and float(rows[3]["c"]) == 1 - 2**-40
    with pytest.raises(mf.MeanFieldError, match="npz"):
        found.save(tmp_path / "d.txt")
    with pytest.raises(mf.MeanFieldError, match="Unknown quantity 'igb': did you mean 'gamma'"):
        mf.derive("relu").phase_diagram(quantity="igb")


def test_figure():
    pytest.importorskip("matplotlib")
    found = diagram("relu", np.linspace(0, 4, 9), np.linspace(0, 0.2, 5), line=True)
    for squared, label in ((True, r"$\sigma_w^2$"), (False, r"$\sigma_b$")):
        figure = figure_of(found.plot(squared=squared))
        (panel,) = figure.axes
        entries = [t.get_text() for t in figure.legends[0].get_texts()]
        assert panel.get_ylabel() == label and "ordered deep prejudice" in entries and r"$\chi_J^\ast = 1$" in entries
        (line, *_) = panel.lines
        along = np.asarray(line.get_ydata() if squared else line.get_xdata(), dtype=float)
        assert np.allclose(along, 2 if squared else math.sqrt(2))
        assert not np.allclose(along, math.sqrt(2) if squared else 2)  # planted: the axes the other way round


def test_command_line(capsys):
    from meanfield.cli.app import main

    texts = []
    for more in ([], ["--json"], ["--json", "--sigma-w", "0.5,1.4,4"]):  # the last one: an axis that ends below √2
        with pytest.raises(SystemExit, match=r"^0$") as stopped:
            axes = ["--sigma-w", "0.5,2,4", "--sigma-b", "0.1,0.4,3"]
            main(["phase-diagram", "relu", "--quantity", "gamma", *axes, *more])
        assert not stopped.value.code
        texts.append(capsys.readouterr().out)
    assert "o ordered deep prejudice, # chaotic deep prejudice" in texts[0]
    results = json.loads(texts[1])["results"]
    assert results["shares"] == {"ordered deep prejudice": 0.5, "chaotic deep prejudice": 0.5}
    assert results["neutrality"] == {"c": 0.5} and results["error"] == 0
    assert json.loads(texts[2])["results"]["shares"] == {"ordered deep prejudice": 1.0}


@pytest.mark.slow
def test_printed_numbers_of_tanh():
    """c* and labels at σ_b² = 0.1, and the line of neutrality, σ_w² = 2.92476575."""
    found = diagram("tanh", [1, 1.5, *SPEC], [0, 0.1], line=True)
    P = BiasPhase
    wanted = [P.ORDERED_DEEP_PREJUDICE, P.ORDERED_DEEP_PREJUDICE, P.PREJUDICE, P.NEUTRALITY, P.NEUTRALITY]
    assert [name(found, 1, j) for j in range(5)] == wanted and name(found, 0, 0) is P.BY_THE_START
    for j, (w2, c) in enumerate(SPEC.items(), 2):
        assert abs(found.c[1, j] - c) < 1e-9 and agree(found, 1, j, np.tanh, 400)
        assert not abs(found.c[1, j] * (1 + 1e-8) - c) < 1e-9, w2
    (width, _) = found.neutrality.sigma_w_at("sqrt(0.1)")[0]
    assert abs(width.value**2 - 2.92476575) < 1e-8
    near = diagram("tanh", width.value**2 + np.array([-1e-6, 0, 1e-6]), [0.1])
    assert [name(near, 0, j) for j in range(3)] == [P.PREJUDICE, P.BALANCE, P.NEUTRALITY]


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["tanh", "hard_tanh", "sigmoid", "sin"])
def test_tables_of_functions_without_closed_forms(phi):
    """75,000 points: no NaN, an error that is stated and holds against `correlations` at random places."""
    theory = mf.derive(phi)
    axes = {"sigma_w": np.linspace(0.05, 2.5, 300), "sigma_b": np.linspace(0.01, 0.5, 250)}
    found = theory.phase_diagram(**axes, quantity="gamma", line=False)
    assert not np.isnan(found.c).any() and "unknown" not in found.shares()
    rng, inside = np.random.default_rng(0), np.argwhere(found.gap > 1e-3)
    for i, j in rng.choice(inside, min(4, len(inside)), replace=False):
        own = theory.correlations(sigma_w=float(found.sigma_w[j]), sigma_b=float(found.sigma_b[i])).stable
        assert abs(own.c - found.c[i, j]) < 1e-12 + found.error[i, j]
        assert abs(own.slope - found.slope[i, j]) < 1e-9
        near = theory.correlations(sigma_w=float(found.sigma_w[j]) * (1 + 1e-7), sigma_b=float(found.sigma_b[i])).stable
        assert abs(near.c - found.c[i, j]) > 1e-12 + found.error[i, j]  # planted: σ_w off by 1e-7


@pytest.mark.slow_with("tanh")
@pytest.mark.parametrize("phi", ["tanh", "relu"])
def test_an_octave_of_many_points_is_read_off_a_table(phi):
    """A table that misses more than S itself is not kept: then every point would ask S, slowly, and nobody would see
    it in an answer."""
    found = gaps.compile_gaps(mf.activation(phi).pieces.expr)
    assert found is not None
    own = replace(found, tables={})
    K = np.geomspace(1.01, 1.99, 2 * gaps.MANY)
    most, least = (own.averages(K, np.full(K.size, g))[:, 0] for g in (1e-9, 0.9))
    gap, _, error = own.fixed_points(K, (most + least) / 2, 1.0)
    (panels,) = own.tables.values()
    assert panels is not None and max(one.error for one in panels) < 1e-9
    assert ((gap > 0) & (gap < 1)).all() and error.max() < 1e-9


@pytest.mark.slow
def test_a_power_whose_map_is_known_to_few_digits():
    """S of |z|^(3/2) misses 4e-9, which is no dependence on K: c* is that of a hypergeometric series."""
    a = mp.mpf(3) / 2
    scale = mp.gamma((a + 1) / 2) ** 2 / (mp.sqrt(mp.pi) * mp.gamma(a + mp.mpf(1) / 2))
    gap = lambda c: scale * mp.hyp2f1(-a / 2, -a / 2, 0.5, c * c) - c  # noqa: E731
    exact = float(mp.findroot(gap, (0.5, 0.9), solver="anderson"))
    found = mf.derive("abs(z)**(3/2)").phase_diagram(sigma_w=[0.3, 0.8], sigma_b=[0], quantity="gamma")
    assert found.data()["phase"] == [["prejudice", "prejudice"]]
    assert np.abs(found.c[0] - exact).max() < 1e-7 and np.abs(found.c[0] - exact * 1.0001).max() > 1e-5
