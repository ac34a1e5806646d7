"""Symbols and numbers of records in `recommend` and `tune`: what is asked for can be given, what is held is held, and
the network that is handed back does what was predicted; against products of K and J written by hand."""

import math

import pytest

import meanfield as mf
from meanfield import BatchNorm, Dense, LayerNorm, Nonlinearity, Param, Residual, Scale, Schedule, Sequential

DEPTH, WIDTH = 9, 64
NORMED = Sequential((LayerNorm(), Dense(), Nonlinearity("relu"), Dense(), LayerNorm()))


def recommended(block, **values):
    return mf.recommend(block, depth=DEPTH, width=WIDTH, networks=0, **values)


def of_normed_relu(w: float, b: float, K1: float) -> float:
    """log J^{1,L} of LN → Dense → relu → Dense → LN: the layer between has k = w² + b², the last k′ = w²k/2 + b²."""
    one = w**4 / 2 / (w**2 * (w**2 + b**2) / 2 + b**2)  # from K = 1
    return (DEPTH - 1) * math.log(one) - math.log(K1)


def test_biases_behind_which_a_norm_ends_the_block_are_felt_by_J():
    found = recommended(NORMED)
    w, b = found.sigmas["dense1"]
    assert found.sigmas["dense2"] == (w, b)
    assert of_normed_relu(w, b, found.K1) == pytest.approx(found.predicted.log_J, abs=1e-9)
    common = {one.name: one.log_J for one in found.common}
    torch = of_normed_relu(math.sqrt(1 / 3), math.sqrt(1 / (3 * WIDTH)), 1 / 3 + 1 / (3 * WIDTH))
    assert common["PyTorch default"] == pytest.approx(torch, abs=1e-9)
    assert common["PyTorch default"] != pytest.approx(of_normed_relu(math.sqrt(1 / 3), 0, 1 / 3), abs=1e-2)  # b lost


@pytest.mark.slow
def test_a_norm_at_the_end_of_a_block_is_measured_as_predicted():
    found = recommended(NORMED)
    J = mf.measure(found.network, width=300, depth=DEPTH, networks=60, seed=1).estimate("J")
    mean, error = float(J.mean[-1]), float(J.standard_error[-1]) + DEPTH / 300  # what finite width adds
    assert abs(mean - math.exp(found.predicted.log_J)) < 3 * error < 0.4
    he = math.exp(next(one.log_J for one in found.common if one.name == "He (Kaiming)"))
    assert abs(mean - he) > 3 * error  # other standard deviations are told apart


RECORDS = {
    "held numbers": Sequential((
        Nonlinearity("erf"), Dense(sigma_w="4/5", sigma_b="1/10"), Nonlinearity("erf"), Dense(),
    )),
    "named deviations": Sequential((Nonlinearity("erf"), Dense(sigma_w=Param("s"), sigma_b=Param("t")))),
    "a Scale of its own": Residual(Sequential((Nonlinearity("relu"), Dense(), Scale("1/2"))), "1/2"),
    "a schedule": Residual(Sequential((Nonlinearity("relu"), Dense(sigma_w=Schedule("v", 1), sigma_b=Schedule(1, 1))))),
    "a scale with L": mf.architectures.full_residual("relu", total_v=1),
    "a norm behind a branch": Residual(
        Sequential((LayerNorm(), Dense(), Nonlinearity("relu"), Dense(), LayerNorm())), "1/2"
    ),
}  # fmt: skip


@pytest.mark.slow_with("held numbers", "named deviations")
@pytest.mark.parametrize("name", list(RECORDS))
def test_the_network_handed_back_does_what_was_predicted(name):
    """Its numbers are all there."""
    found = recommended(RECORDS[name])
    run = mf.derive(architecture=found.network).propagate(depth=DEPTH)
    assert float(run.log_J[-1]) == pytest.approx(found.predicted.log_J, abs=1e-6)
    assert float(run.K[-1]) == pytest.approx(found.predicted.K, rel=1e-6)
    with pytest.raises(mf.MeanFieldError, match="has a sigma_w of its own in its record"):
        mf.derive(architecture=found.network).propagate(sigma_w=1, depth=DEPTH)


@pytest.mark.slow
def test_numbers_of_a_record_are_held():
    found = recommended(RECORDS["held numbers"])
    assert found.sigmas["dense1"] == pytest.approx((0.8, 0.1), rel=1e-15)
    assert found.sigmas["dense2"][0] != pytest.approx(0.8, rel=1e-3)
    w, b = found.sigmas["dense2"]
    K, log_J = found.K1, 0.0  # of erf: ⟨φ²⟩ = 2/π·asin(2K/(1 + 2K)), ⟨φ′²⟩ = 4/(π√(1 + 4K))
    for _ in range(DEPTH - 1):
        for sigma_w, sigma_b in ((0.8, 0.1), (w, b)):
            log_J += math.log(sigma_w**2 * 4 / (math.pi * math.sqrt(1 + 4 * K)))
            K = sigma_w**2 * 2 / math.pi * math.asin(2 * K / (1 + 2 * K)) + sigma_b**2
    assert (log_J, K) == (pytest.approx(found.predicted.log_J, abs=1e-8), pytest.approx(found.predicted.K))


ASKED = {  # record, what is asked for, a number for it
    "skip": (Residual(Sequential((Nonlinearity("relu"), Dense())), Param("mu")), "mu", "1/2"),
    "exponent": (Residual(Sequential((Nonlinearity("relu"), Dense(sigma_w=Schedule("v", "be"))))), "be", 1),
    "slope": (Sequential((Nonlinearity(mf.activation("leaky_relu", alpha="alpha")), Dense())), "alpha", 0.2),
}


@pytest.mark.fast_with("exponent")
@pytest.mark.parametrize("name", list(ASKED))
def test_what_is_asked_for_can_be_given(name):
    block, symbol, value = ASKED[name]
    with pytest.raises(mf.MeanFieldError, match=f"{symbol} of .* is a symbol; give {symbol}=... a number"):
        recommended(block)
    found = recommended(block, **{symbol: value})
    assert abs(found.predicted.log_J) < 1.01
    assert f"Param('{symbol}')" not in repr(found.network)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sigma_w": 1.1}, "sigma_w was given, but it is what recommend answers"),
        ({"K1": 1}, "K1 is no symbol of"),
        ({"mu": [0.5] * 9}, "mu must be one finite real number"),
        ({"mu": "name"}, "needs numbers, but mu='name'"),
        ({"mu": True}, "mu must be one finite real number"),
        ({"nu": 1}, "nu is no symbol of .* It takes mu"),
    ],
)
def test_what_cannot_be_given_is_refused(given, words):
    with pytest.raises(mf.MeanFieldError, match=words):
        recommended(ASKED["skip"][0], **given)


def scaled_by(scale):
    return Residual(Sequential((LayerNorm(), Dense(), Nonlinearity("silu"), Dense(), Scale(scale))))


@pytest.mark.slow
def test_a_scale_that_is_left_open_is_answered_and_a_number_is_held():
    """Scale("a") is LayerScale: its value is the answer. Scale(1/10), or a = 1/10, stays; so do the branches, where J
    stays within the budget, and else a factor of the last Dense makes it."""
    answered = recommended(scaled_by("a"))
    assert answered.scale_is_a_layer and answered.layer_scale == answered.scale
    assert answered.predicted.log_J == pytest.approx(1) and 0.1 < answered.scale < 1
    held, given = recommended(scaled_by("1/10")), recommended(scaled_by("a"), a="1/10")
    assert held.sigmas == given.sigmas and held.scale == 1 and not held.scale_is_a_layer
    assert "Scale(Fraction(1, 10))" in repr(held.network) and 0 < held.predicted.log_J < 0.5
    too_large = recommended(scaled_by(1))
    assert too_large.predicted.log_J == pytest.approx(1) and "Scale(1)" in repr(too_large.network)
    last = too_large.layers[-1].sigma_w
    assert last == pytest.approx(answered.scale, rel=1e-6) and last < 1
    common = {one.name: one.log_J for one in held.common}
    open_ = {one.name: one.log_J for one in answered.common}  # the table of initializers is of the network asked about
    assert all(common[name] < open_[name] for name in common)


def test_the_matrix_before_a_scale_is_left_alone():
    """The factor of a branch stands once: in its Scale where the record has one left open, else in the last matrix."""
    for with_scale in (True, False):
        branch = (Nonlinearity("relu"), Dense(), *([Scale("a")] if with_scale else []))
        found = recommended(Residual(Sequential(branch)))
        assert found.scale == pytest.approx(math.sqrt(2 * math.expm1(1 / (found.depth - 1))), rel=1e-6)
        assert found.layers[-1].sigma_w == pytest.approx(1.0 if with_scale else found.scale, rel=1e-9)


def test_nothing_left_to_choose_is_refused():
    with pytest.raises(mf.MeanFieldError, match="nothing is left to choose"):
        recommended(Sequential((Nonlinearity("relu"), Dense(sigma_w=1))))


def test_a_block_without_weights_is_refused_as_such():
    with pytest.raises(mf.MeanFieldError, match="There is no Dense in"):
        recommended(Sequential((Nonlinearity("relu"),)))


@pytest.mark.slow
def test_the_critical_point_is_found_where_the_record_holds_one_of_its_numbers():
    """A bias held at 0 is that of (1, 0), the critical point of tanh: the same answer as with a bias left open."""
    held, free = (recommended(Sequential((Nonlinearity("tanh"), one))) for one in (Dense(sigma_b=0), Dense()))
    assert held.kind == free.kind == "point" and held.anchor == free.anchor
    assert held.sigmas["input"][0] == free.sigmas["input"][0] == 1  # not .094, where no layer does anything
    assert held.sigmas["dense1"] == pytest.approx(free.sigmas["dense1"], rel=1e-12)


@pytest.mark.slow_with("tanh-1/2-held3-points3")
@pytest.mark.parametrize(
    ("phi", "mu", "held", "points"),
    [
        ("tanh", 0, {"sigma_b": 0}, [1]),
        ("tanh", 0, {"sigma_b": "1/10"}, []),
        ("tanh", 0, {"sigma_w": "6/5"}, []),
        ("tanh", "1/2", {"sigma_b": 0}, [math.sqrt(3) / 2]),
        ("relu", 0, {"sigma_b": 0}, [math.sqrt(2)]),
        ("relu", 0, {"sigma_w": "sqrt(2)", "sigma_b": 0}, [math.sqrt(2)]),
        ("z**3/3 - z**2/7", 0, {"sigma_b": 0}, []),
    ],
)
def test_critical_points_of_a_record_with_numbers(phi, mu, held, points):
    """(1 - μ²)/⟨φ′²⟩ at K* = 0 by hand; other numbers than the point's have none."""
    block = Sequential((Nonlinearity(phi), Dense(**held)))
    found = mf.derive(architecture=Residual(block, mu=mu) if mu else block).critical_points()
    assert [float(p.sigma_w.value) for p in found] == pytest.approx(points, rel=1e-15)
    assert found.status in (mf.Status.CERTIFIED, mf.Status.EXACT)


def test_a_batch_norm_at_the_end_of_a_block_is_no_skip():
    with pytest.raises(mf.MeanFieldError, match="cannot be made critical"):
        recommended(Sequential((Nonlinearity("relu"), Dense(), BatchNorm())))


def test_deviations_by_name_are_tuned_at_infinite_width():
    block = Sequential((Nonlinearity("relu"), Dense(sigma_w=Param("s")), Nonlinearity("relu"), Dense()))
    with pytest.raises(mf.MeanFieldError, match="s has no value; give it as a keyword"):
        mf.tune(block, depth=4)
    found = mf.tune(block, depth=4, s=3)
    assert found.sigma[1:, 0, 0] == pytest.approx(3)  # the gain of the last Dense makes up for it: (3 w)² = 4
    assert found.sigma[1:, 1, 0] == pytest.approx(2 / 3)
    with pytest.raises(mf.MeanFieldError, match="t is no symbol of"):
        mf.tune(block, depth=4, s=3, t=1)
