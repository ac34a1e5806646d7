"""Generated modules answer the same bits interpreted and compiled, and change over when more is asked of them."""

import numpy as np
import pytest

import meanfield as mf
from meanfield.numeric import phase
from meanfield.numeric.lowering import assembly as lowering
from meanfield.numeric.lowering import modules

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


@pytest.mark.parametrize("case", THEORIES)
def test_interpreted_and_compiled_are_the_same_bits(case, monkeypatch):
    theory, quantities, values = THEORIES[case]
    for points, every_layer in FORMS:
        with monkeypatch.context() as patch:
            patch.setattr(modules.cache, "load", None)  # nothing may be compiled
            patch.setattr(modules, "CALL", 1e5)
            patch.setattr(modules, "TOTAL", 1e5)
            plain = _outputs(theory, quantities, values, points, every_layer)
        with monkeypatch.context() as patch:
            patch.setattr(modules.Module, "_plain", None)  # nothing may be interpreted
            patch.setattr(modules, "CALL", -1.0)
            compiled = _outputs(theory, quantities, values, points, every_layer)
        assert_same_bits(plain, compiled)
        moved = {n: np.nextafter(a, np.inf) if a.dtype == float else a for n, a in plain.items()}
        with pytest.raises(AssertionError, match="has other bits"):
            assert_same_bits(moved, compiled)


def test_phase_diagrams_too(monkeypatch):
    def outputs():
        phase.compile_phase.cache_clear()
        found = mf.derive("gelu").phase_diagram(sigma_w=[0.5, 1.5, 2.5], sigma_b=[0.0, 1.0], line=False)
        return {"chi": found.chi_J, "K": found.K, "attractors": found.attractors}

    with monkeypatch.context() as patch:
        patch.setattr(modules.cache, "load", None)
        plain = outputs()
    monkeypatch.setattr(modules, "CALL", -1.0)
    assert_same_bits(plain, outputs())


def test_what_the_interpreter_cannot_answer_is_compiled():
    """σ_w = 0 makes log J = -∞, a ValueError of `math.log`."""
    lowering.lower.cache_clear()
    run = mf.derive("elu").propagate(sigma_w=0.0, sigma_b=0.2, depth=4)
    assert run.log_J[0] == 0 and np.isneginf(run.log_J[1:]).all() and run.J[-1] == 0


def test_repeated_calls_are_compiled(monkeypatch):
    """The interpreter's share is bounded: in one call, and in all calls together."""
    asked = []
    monkeypatch.setattr(modules.cache, "load", lambda name: asked.append(name) or _Silent())
    module = modules.Module("m", "def f(n):\n    pass\n", (), 1.0)
    for _ in range(modules.TOTAL // 1000):
        module.call("f", 1000, 0)
        assert not asked
    module.call("f", 1000, 0)
    assert asked == ["m"]
    large = modules.Module("l", "def f(n):\n    pass\n", (), 1.0)
    large.call("f", modules.CALL + 1, 0)
    assert asked == ["m", "l"]


class _Silent:
    def f(self, n):
        return None
