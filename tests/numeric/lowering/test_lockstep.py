"""Loops in lockstep: no number depends on which points share a block or a thread, one step after the other gives the
whole run, and all of it is what the exact maps give in 40 digits."""

import math

import mpmath as mp
import numpy as np
import pytest

import meanfield as mf
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.lowering.modules import generated_modules
from meanfield.numeric.lowering.text import elementary_numeric, printing

SIGMA_W, SIGMA_B = np.linspace(0.2, 2.9, 70), np.linspace(0.0, 0.9, 70)
#: points that leave the block once they repeat, and such as stay in it; tables, closed forms, quadrature; two inputs
THEORIES = {
    "table": (mf.derive("tanh"), ("K", "J")),
    "stays": (mf.derive("tanh", mu="1/2"), ("K", "J", "Theta")),
    "closed": (mf.derive("erf", residual=True), ("K", "J")),
    "mixed": (mf.derive("elu"), ("K", "J")),
    "distance": (mf.derive("relu"), ("K", "K_ab", "distance")),
    "diverges": (mf.derive("z**2 + z", mu=1), ("K", "J")),
}


def _run(case, where=slice(None), every_layer=True, depth=40, **more):
    theory, quantities = THEORIES[case]
    place = {"sigma_w": SIGMA_W[where], "sigma_b": SIGMA_B[where], "correlation": 0.3}
    if "distance" not in quantities:
        place.pop("correlation")
    run = theory.propagate(**place, depth=depth, quantities=quantities, every_layer=every_layer, **more)
    return {**run.values, "diverged": run.diverged_at}


@pytest.mark.slow_with("mixed", "distance")
@pytest.mark.parametrize("case", THEORIES)
def test_points_do_not_see_each_other(case):
    """Alone, in a short block and in another order: the same bits."""
    whole = _run(case)
    other = np.arange(70)[::-1][3:50:2]
    for where in ([11], other):
        part = _run(case, where)
        for name, values in part.items():
            assert np.array_equal(values, whole[name][where], equal_nan=True), name
    assert not np.array_equal(_run(case, other + 1)["K"], whole["K"][other])


@pytest.mark.fast_with("table")
@pytest.mark.parametrize("case", THEORIES)
def test_last_layer_is_the_last_of_all(case):
    whole, last = _run(case, depth=60), _run(case, depth=60, every_layer=False)
    for name, values in last.items():
        found = whole[name] if name == "diverged" else whole[name][..., -1:]
        assert np.array_equal(values, found, equal_nan=True) or name.startswith("log"), name
        np.testing.assert_allclose(values, found, rtol=3e-15, atol=3e-15, equal_nan=True)


@pytest.mark.parametrize("case", THEORIES)
def test_step_after_step_is_the_run(case):
    theory, quantities = THEORIES[case]
    lowered, run = lower(theory.recursion(*quantities)), _run(case, depth=12)
    keys = [v.key for v in lowered.recursion.state]
    own = {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B, "mu": np.ones(70)}
    sigma = np.array([own[n] for n in lowered.parameters])
    state = np.stack([run[k][:, 0] for k in keys], axis=1)
    for layer in range(1, 12):
        state = lowered.step(state, sigma, layer)
        for i, key in enumerate(keys):
            np.testing.assert_allclose(state[:, i], run[key][:, layer], rtol=2e-13, atol=2e-14, equal_nan=True)
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=2e-13"):
        np.testing.assert_allclose(state[:, 0], run[keys[0]][:, 10], rtol=2e-13)


def _exact(sigma_w, sigma_b, depth, slope=4):
    """(K, log J) of erf with a skip, in 40 digits."""
    with mp.workdps(40):
        w2, b2 = mp.mpf(sigma_w) ** 2, mp.mpf(sigma_b) ** 2
        K, J = w2 + b2, mp.mpf(1)
        for _ in range(depth - 1):
            J *= 1 + slope / mp.pi * w2 / mp.sqrt(1 + 4 * K)
            K += w2 * 2 / mp.pi * mp.asin(2 * K / (1 + 2 * K)) + b2
        return float(K), float(mp.log(J))


@pytest.mark.slow
def test_against_the_exact_map():
    run = _run("closed", depth=300, every_layer=False)
    for i in (0, 23, 69):
        K, log_J = _exact(SIGMA_W[i], SIGMA_B[i], 300)
        assert abs(run["K"][i, 0] / K - 1) < 1e-13
        assert abs(run["log_J"][i, 0] - log_J) < 1e-13 * max(1, abs(log_J))
        assert abs(run["log_J"][i, 0] - _exact(SIGMA_W[i], SIGMA_B[i], 300, 4 + 1e-9)[1]) > 1e-13 * max(1, abs(log_J))


def _function(name):
    return printing.interpret(f"def f(*x):\n    return {name}(*x)\n", "f")


def test_angles_against_mpmath():
    angle = _function("_atan2")
    places = [0.0, 1e-300, 1e-9, 0.3, math.tan(math.pi / 8), 0.7, 1.0, 2.4142135, 2.42, 9.0, 1e12]
    with mp.workdps(40):
        for y in places:
            for x in places:
                for u, v in ((y, x), (-y, x), (y, -x), (-y, -x)):
                    u, v = u + 0.0, v + 0.0  # signed zeros are no numbers of mpmath
                    true = mp.atan2(u, v)
                    assert abs(angle(u, v) - true) <= 3e-16 * abs(true) + 5e-324, (u, v)
    assert abs(angle(0.7 * (1 + 1e-14), 0.9) - math.atan2(0.7, 0.9)) > 1e-15


def test_numbers_beyond_doubles():
    """m·2^e of a logarithm and back, products, and what is no such number."""
    split, log, double = _function("_split"), _function("_log"), _function("_double")
    for x in (0.0, 1e-17, -0.34, 0.35, 700.0, -5000.0, 1e6):
        m, e = (float(v) for v in elementary_numeric.wide(np.array(x)))
        assert abs(log(m, e) - x) <= 2.3e-16 * max(1.0, abs(x))
        m, e = split(m * 1e-200, e)
        assert 1 <= m < 2 and e == round(e)
        assert abs(log(m, e) - (x - 200 * math.log(10))) <= 4e-16 * max(461.0, abs(x))
    for y in (3.7, 1e-308, 5e-324, 1.7e308):
        m, e = split(y, 0.0)
        assert double(m, e) == y
        assert double(m, e - 3000) == 0.0
    assert split(0.0, 5.0)[0] == 0.0 and split(math.inf, 5.0)[0] == math.inf
    assert (
        np.isneginf(elementary_numeric.wide(np.array(0.0))[0] * -math.inf)
        and elementary_numeric.wide(np.array(-math.inf))[0] == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", THEORIES)
def test_threads_and_shares_change_no_bit(case, monkeypatch):
    monkeypatch.setattr(generated_modules, "PATIENCE", -1.0)
    lower.cache_clear()
    alone = _run(case)
    monkeypatch.setattr(generated_modules, "SPLIT", 0.0)
    for threads, shares in ((2, 8), (3, 1)):
        monkeypatch.setattr(generated_modules, "_threads", lambda threads=threads: threads)
        monkeypatch.setattr(generated_modules, "SHARES", shares)
        monkeypatch.setattr("meanfield.numeric.lowering.text.elementary_numeric.WIDTH", 16)
        for name, values in _run(case).items():
            assert np.array_equal(values, alone[name], equal_nan=True), name


def test_what_is_carried_as_a_logarithm_needs_no_value_of_itself():
    """J alone, whose factor no K moves: 2^l at layer 2000 and 9000, where J itself left the doubles at layer 998."""
    theory = mf.derive("abs(z)", architecture="full_residual", sigma_v=1, sigma_a="1/2")
    alone = theory.propagate(sigma_w=1, sigma_b=0.5, depth=9000, quantities=("J",))
    assert alone.log_J == pytest.approx(np.arange(9000) * np.log(2), rel=1e-14)
    beside = theory.propagate(sigma_w=1, sigma_b=0.5, depth=9000, quantities=("J", "K"))
    assert beside.log_J == pytest.approx(alone.log_J, rel=1e-14) and alone.lost_at == 0
    last = mf.derive("relu").propagate(sigma_w=[0.5, 3.0], sigma_b=0, depth=3000, quantities=("J",), every_layer=False)
    assert last.log_J[:, 0] == pytest.approx(2999 * np.log([0.125, 4.5]), rel=1e-14)
