"""Generated modules answer the same bits interpreted and compiled, and change over when more is asked of them."""

import types

import numpy as np
import pytest

import meanfield as mf
from meanfield.numeric.lowering import assembly as lowering
from meanfield.numeric.lowering.modules import generated_modules
from meanfield.numeric.phases import phase_grids

#: a table, closed forms with kinks and exponentials, quadrature at every call with parameters, a closed two-input form
THEORIES = {
    "table": (mf.derive("tanh", mu="mu"), ("K", "J", "Theta"), {"mu": 0.5}),
    "closed": (mf.derive("elu"), ("K", "J"), {}),
    "direct": (mf.derive("gelu", norm="act"), ("K", "J"), {}),
    "pair": (mf.derive("erf"), ("K_ab",), {"correlation": 0.3}),
}
FORMS = [(3, True), (1, True), (3, False), (1, False)]  # points, every layer


def _outputs(theory, quantities, values, points, every_layer):
    lowering.lower.cache_clear()
    sigma = np.array([0.3, 1.4, 2.6])[:points] if points > 1 else 1.4
    run = theory.propagate(
        sigma_w=sigma, sigma_b=0.2, depth=9, quantities=quantities, every_layer=every_layer, **values
    )
    return {**run.values, "diverged": run.diverged_at}


def assert_same_bits(a: dict, b: dict) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert np.array_equal(a[name], b[name], equal_nan=True), f"{name} has other bits"


@pytest.mark.slow
@pytest.mark.parametrize("case", THEORIES)
def test_interpreted_and_compiled_are_the_same_bits(case, monkeypatch):
    theory, quantities, values = THEORIES[case]
    for points, every_layer in FORMS:
        with monkeypatch.context() as patch:
            patch.setattr(generated_modules.cache, "load", None)  # nothing may be compiled
            patch.setattr(generated_modules, "PATIENCE", np.inf)
            plain = _outputs(theory, quantities, values, points, every_layer)
        with monkeypatch.context() as patch:
            patch.setattr(generated_modules.Module, "_plain", None)  # nothing may be interpreted
            patch.setattr(generated_modules, "PATIENCE", -1.0)
            compiled = _outputs(theory, quantities, values, points, every_layer)
        assert_same_bits(plain, compiled)
        moved = {n: np.nextafter(a, np.inf) if a.dtype == float else a for n, a in plain.items()}
        with pytest.raises(AssertionError, match="has other bits"):
            assert_same_bits(moved, compiled)


@pytest.mark.slow
def test_phase_diagrams_too(monkeypatch):
    def outputs():
        phase_grids.compile_phase.cache_clear()
        found = mf.derive("gelu").phase_diagram(sigma_w=[0.5, 1.5, 2.5], sigma_b=[0.0, 1.0], line=False)
        return {"chi": found.chi_J, "K": found.K, "attractors": found.attractors}

    with monkeypatch.context() as patch:
        patch.setattr(generated_modules.cache, "load", None)
        plain = outputs()
    monkeypatch.setattr(generated_modules, "PATIENCE", -1.0)
    assert_same_bits(plain, outputs())


def test_what_the_interpreter_cannot_answer_is_compiled():
    """σ_w = 0 makes log J = -∞."""
    lowering.lower.cache_clear()
    run = mf.derive("elu").propagate(sigma_w=0.0, sigma_b=0.2, depth=4)
    assert run.log_J[0] == 0 and np.isneginf(run.log_J[1:]).all() and run.J[-1] == 0


def _in_all(monkeypatch, price: float, each: float, calls: int) -> float:
    """The seconds that `calls` calls take, each `each` interpreted and none compiled, by a clock of its own."""
    clock, module = [0.0], generated_modules.Module("m", "def f(n):\n    pass\n", (), 1.0)
    module.price, module._plain = price, {"f": lambda n: clock.__setitem__(0, clock[0] + each)}
    monkeypatch.setattr(generated_modules.time, "thread_time", lambda: clock[0])
    monkeypatch.setattr(
        generated_modules.cache, "load", lambda name: clock.__setitem__(0, clock[0] + price) or _Silent()
    )
    for _ in range(calls):
        module.call("f", each / generated_modules.UNIT, 0)
    return clock[0]


def assert_never_twice_the_better(monkeypatch, price: float) -> None:
    for each in (1e-3, 0.06, 0.7, 3.0):
        for calls in (1, 3, 40, 2000):
            better = min(each * calls, price)
            spent = _in_all(monkeypatch, price, each, calls)
            assert spent <= 2 * better * (1 + 1e-9), f"{calls} calls of {each} s took {spent} s, and {better} would do"


def test_calls_never_cost_twice_the_better_form(monkeypatch):
    """Interpreted calls stop when they have cost what compiling does, however long one call is."""
    assert_never_twice_the_better(monkeypatch, 2.0)
    for wrong in (30.0, -1.0):  # always interpreted, at once compiled
        monkeypatch.setattr(generated_modules, "PATIENCE", wrong)
        with pytest.raises(AssertionError, match="would do"):
            assert_never_twice_the_better(monkeypatch, 2.0)


def _points_interpreted(monkeypatch, price: float, each: float, points: int) -> tuple[int, list[tuple[int, int]]]:
    """How many points of one call are interpreted, and which the compiled form is given; a point takes `each` seconds
    by a clock of its own, which the module does not guess."""
    clock, module, done = [0.0], generated_modules.Module("m", "", (), 1.0), [0]

    def plain(low, high, *_):
        clock[0] += each * (high - low)
        done[0] = high

    given: list[tuple[int, int]] = []
    module.price, module._plain = price, {"layers": plain}
    compiled = types.SimpleNamespace(layers=lambda low, high, *_: given.append((low, high)))
    monkeypatch.setattr(generated_modules.time, "thread_time", lambda: clock[0])
    monkeypatch.setattr(generated_modules.cache, "load", lambda name: compiled)
    module.in_parallel(points, 1, 1.0)
    return done[0], given


def test_a_call_whose_points_are_dearer_than_guessed_is_handed_over(monkeypatch):
    """Once the points that are left would cost more than compiling, the compiled form has them."""
    assert _points_interpreted(monkeypatch, 2.0, 0.01, 100) == (100, [])
    assert _points_interpreted(monkeypatch, 2.0, 0.5, 100) == (1, [(1, 100)])
    assert _points_interpreted(monkeypatch, 2.0, 0.5, 4) == (4, [])  # two seconds in all: what compiling costs
    monkeypatch.setattr(generated_modules, "PATIENCE", 1e6)
    assert _points_interpreted(monkeypatch, 2.0, 0.5, 100) == (100, [])  # control: without the rule


def test_without_numba_what_has_begun_is_not_refused(monkeypatch):
    """A call is refused before its first block or not at all: 100 points of 5 s each, where 20 s are allowed."""
    monkeypatch.setenv("MEANFIELD_SECONDS", "20")
    monkeypatch.setattr(generated_modules, "has_numba", lambda: False)
    assert _points_interpreted(monkeypatch, 2.0, 5.0, 100) == (100, [])
    monkeypatch.setattr(generated_modules, "UNIT", 1.0)
    with pytest.raises(mf.MeanFieldError, match="Without Numba this run would take about 100 seconds"):
        _points_interpreted(monkeypatch, 2.0, 5.0, 100)


def test_the_price_is_that_of_what_is_missing(monkeypatch, tmp_path):
    """Code that Numba has kept costs its loading; what was never compiled costs the more the longer it is."""
    monkeypatch.setattr(generated_modules.cache, "folder", lambda: tmp_path)
    prices = [
        generated_modules.Module(name, text, (), 1.0).price for name, text in (("m", "x" * 9000), ("n", "x" * 18000))
    ]
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "m.layers-3.py311.nbi").touch()
    kept, other = (generated_modules.Module(name, "x" * 9000, (), 1.0).price for name in ("m", "n"))
    assert kept < other == prices[0] < prices[1]


def test_an_interpreted_logarithm_is_that_of_compiled_code():
    """log 0 is -inf and that of a negative number nan, so that J = 0 need not be compiled."""
    plain = generated_modules.Module("m", "import math\n\n\ndef f(x):\n    return math.log(x)\n", (), 1.0)._plain
    assert plain["f"](0.0) == -np.inf and np.isnan(plain["f"](-1.0)) and np.isnan(plain["f"](np.nan))
    assert plain["f"](2.0) == np.log(2.0) and plain["f"](np.inf) == np.inf


class _Silent:
    def f(self, n):
        return None


def test_a_plain_call_that_costs_more_than_compiling_is_given_up(monkeypatch):
    """Panels over huge variances take far longer than a quadrature was guessed to: 60 layers ran for half a minute."""
    text = """def _room(n):
    return [0.0] * n


def f(n, out):
    for i in range(n):
        room = _room(1)
        out[0] += 1.0
"""
    module = generated_modules.Module("m", text, (), 1.0)
    ticks = iter(float(i) for i in range(10**6))
    monkeypatch.setattr(generated_modules.time, "thread_time", lambda: next(ticks))
    module.__dict__["price"], out = 50.0, [0.0]
    assert module.interpreted("f", (20, out)) and out == [20.0]
    assert not module.interpreted("f", (10**5, out)) and out[0] < 100.0
    assert not module.is_little(0.0), "what was given up once is compiled from then on"
