"""The law of the fraction of inputs in one class, by routes of their own: 30-digit sums, simulation, exact limits."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import meanfield as mf

VARIANCES = {0.05: 0.007582, 0.5: 0.054087, 1: 1 / 12, 2: 0.116140, 10: 0.181611}
LARGEST = {0.05: 0.570024, 0.5: 0.695913, 1: 0.75, 2: 0.804087, 10: 0.902509}


def assert_close(ours, theirs, bound: float) -> None:
    """Relative, with zeros equal to zeros."""
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    off = np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-300))
    assert off <= bound, f"off by {off:.3g}"


def summed(k: int, n: int, gamma: float, low: float, high: float, points: int = 240) -> mp.mpf:
    """P(k of n inputs in class 0) by the trapezoid rule at 30 digits, from the integral over x ~ N(0, γ) as it is."""
    with mp.workdps(30):
        root, ways, step = mp.sqrt(gamma), mp.binomial(n, k), (mp.mpf(high) - low) / points
        places = [low + step * i for i in range(points + 1)]
        terms = (mp.ncdf(x) ** k * mp.ncdf(-x) ** (n - k) * mp.npdf(x / root) for x in places)
        return step * ways / root * mp.fsum(terms)


def scores(classes: int, gamma: float, networks: int, inputs: int, seed: int) -> np.ndarray:
    """Fractions of the inputs in class 0, from the definition: centres for each network, scores for each input."""
    rng, root = np.random.default_rng(seed), math.sqrt(gamma)
    found = np.empty(networks)
    for i in range(networks):
        outputs = root * rng.standard_normal(classes) + rng.standard_normal((inputs, classes))
        found[i] = np.mean(outputs.argmax(axis=1) == 0)
    return found


def assert_mean(sample: np.ndarray, predicted: float, bound: float = 4.0) -> None:
    z = (sample.mean() - predicted) / (sample.std(ddof=1) / math.sqrt(len(sample)))
    assert abs(z) < bound, f"z = {z:.2f}"


def assert_law(sample: np.ndarray, cdf, least: float = 1e-3) -> None:
    """Kolmogorov–Smirnov against a cdf, at the drawn values (which is conservative where it has steps) but those so
    near 0 or 1 that a double, or a sum of doubles, does not hold them."""
    values = np.unique(sample)
    values = values[(values == 1) | ((values == 0) & (cdf(0.0) > 0)) | ((values > 1e-17) & (values < 1 - 1e-12))]
    gap = np.abs(np.searchsorted(np.sort(sample), values, side="right") / len(sample) - cdf(values)).max()
    p = stats.kstwo.sf(gap, len(sample))
    assert p > least, f"p = {p:.2g}"


# ---------------------------------------------------------------------------------------- two classes, all inputs


def test_printed_numbers():
    for gamma, value in VARIANCES.items():
        law = mf.bias.ClassFraction(gamma)
        assert law.var() == pytest.approx(value, abs=5e-7) and law.std() == math.sqrt(law.var())
        assert law.largest() == pytest.approx(LARGEST[gamma], abs=5e-7)
        off = mf.bias.ClassFraction(gamma * 1.02)
        assert abs(off.var() - value) > 5e-6 and abs(off.largest() - LARGEST[gamma]) > 5e-6
    assert mf.bias.ClassFraction(0.5).cdf(0.2) == pytest.approx(0.11698, abs=5e-6)
    assert mf.bias.ClassFraction(0.51).cdf(0.2) != pytest.approx(0.11698, abs=5e-4)


@pytest.mark.slow_with("2")
@pytest.mark.parametrize("gamma", [0.05, 2, 10])
def test_the_density_is_that_of_a_transformed_gaussian(gamma):
    """At 30 digits, from d ↦ Φ(√γ d) and its derivative; moments by the trapezoid rule in d."""
    law = mf.bias.ClassFraction(gamma)

    def assert_density(law, bound=1e-12):
        with mp.workdps(30):
            root = mp.sqrt(gamma)
            for d in (-2.5, -0.3, 0.0, 1.1):
                g = mp.ncdf(root * d)
                if g < mp.mpf("0.9"):
                    assert_close(law.pdf(float(g)), mp.npdf(d) / (mp.npdf(root * d) * root), bound)
                assert_close(law.cdf(float(g)), mp.ncdf(d), bound)
                assert_close(law.sf(float(g)), mp.ncdf(-d), bound)
                assert_close(law.ppf(float(mp.ncdf(d))), g, bound)
            for m in (1, 2, 3, 7):
                moment = mp.fsum(mp.ncdf(root * d) ** m * mp.npdf(d) for d in mp.arange(-12, 12, 0.125)) / 8
                assert_close(law.moment(m), moment, bound)

    assert_density(law)
    with pytest.raises(AssertionError, match="off by"):
        assert_density(mf.bias.ClassFraction(gamma * (1 + 1e-9)))
    assert law.median() == 0.5 == law.mean() and law.moment(0) == 1
    low, high = law.interval(0.9)
    assert law.cdf(high) - law.cdf(low) == pytest.approx(0.9, abs=1e-11)  # a double near 1 holds no more of g


def test_entropy():
    law = mf.bias.ClassFraction(0.5)
    g = law.ppf((np.arange(20000) + 0.5) / 20000)
    assert law.entropy() == pytest.approx(-np.log(law.pdf(g)).mean(), abs=1e-4)
    assert mf.bias.ClassFraction(1).entropy() == 0


def test_uniform_at_one():
    law = mf.bias.ClassFraction(1)
    g = np.linspace(0, 1, 11)
    assert_close(law.cdf(g), g, 1e-15)
    assert_close(law.pdf(g), np.ones(11), 1e-15)
    assert_close([law.moment(m) for m in range(9)], [1 / (m + 1) for m in range(9)], 1e-13)
    with pytest.raises(AssertionError, match="off by"):
        assert_close(mf.bias.ClassFraction("51/50").cdf(g), g, 1e-3)


@pytest.mark.parametrize(("classes", "inputs"), [(2, None), (3, None), (2, 6), (5, 6)])
def test_limits(classes, inputs):
    """No drift: every input for itself; endless drift: one class takes all."""
    none, endless = (mf.bias.ClassFraction(g, classes, inputs) for g in (0, math.inf))
    assert endless == mf.bias.ClassFraction(math.inf, classes, inputs) and endless.var() == pytest.approx(
        (classes - 1) / classes**2
    )
    assert endless.cdf([-0.1, 0, 0.5, 0.999, 1]) == pytest.approx([0, *[1 - 1 / classes] * 3, 1])
    assert list(endless.ppf([0, 1 - 1 / classes, 1 - 0.5 / classes])) == [0, 0, 1]
    assert_mean(endless.rvs(4000, 1), 1 / classes)
    assert set(endless.rvs(100, 2)) == {0.0, 1.0}
    assert endless.moment(5) == pytest.approx(1 / classes)
    if inputs is None:
        g = 1 / classes
        assert list(none.cdf([np.nextafter(g, 0), g])) == [0, 1] and list(none.ppf([0, 0.5, 1])) == [g] * 3
        assert none.var() == 0 and set(none.rvs(3)) == {g} and none.support() == (g, g)
        assert endless.largest() == 1 and none.largest() == g
        for law in (none, endless):
            with pytest.raises(mf.MeanFieldError, match="no density"):
                law.pdf(0.5)
    else:
        k = np.arange(inputs + 1)
        binomial = stats.binom(inputs, 1 / classes)
        assert_close(none.pmf(k / inputs), binomial.pmf(k), 1e-13)
        assert_close(none.cdf(k / inputs), binomial.cdf(k), 1e-13)
        assert none.var() == pytest.approx(binomial.var() / inputs**2)
        assert endless.pmf(k / inputs) == pytest.approx([1 - 1 / classes, *[0] * (inputs - 1), 1 / classes])
    # next to the limits
    near, far = (
        mf.bias.ClassFraction(classes=classes, inputs=inputs, log_gamma=s * 450 * math.log(10)) for s in (-1, 1)
    )
    if classes == 2:
        assert_close(near.cdf([0.1, 0.4, 0.7]), none.cdf([0.1, 0.4, 0.7]), 1e-12)
        assert_close(far.cdf([0.1, 0.4, 0.7]), endless.cdf([0.1, 0.4, 0.7]), 1e-12)
    assert near.var() == pytest.approx(none.var(), abs=1e-15) and far.var() == pytest.approx(endless.var())


def test_log_gamma():
    a, b = mf.bias.ClassFraction(7), mf.bias.ClassFraction(log_gamma=math.log(7))
    g = np.linspace(0.01, 0.99, 9)
    assert_close(a.cdf(g), b.cdf(g), 1e-14)
    assert_close(a.pdf(g), b.pdf(g), 1e-14)
    far = mf.bias.ClassFraction(log_gamma=450 * math.log(10))
    assert far.pdf(0.5) == pytest.approx(1e-225, rel=1e-12) and far.ppf(0.5) == 0.5
    assert far.entropy() == -math.inf


# ------------------------------------------------------------------------------------ two classes, finitely many


@pytest.mark.parametrize("n", [1, 2, 3, 17, 1000, 10**6])
def test_finitely_many_inputs_are_uniform_at_one(n):
    """∫ of a binomial over a uniform p is 1/(n + 1)."""
    k = np.unique(np.linspace(0, n, 9).astype(int))

    def assert_uniform(law):
        assert_close(law.pmf(k / n), np.full(len(k), 1 / (n + 1)), 1e-13 if n < 10**5 else 1e-12)
        assert_close(law.cdf(k / n), (k + 1) / (n + 1), 1e-13)

    law = mf.bias.ClassFraction(1, inputs=n)
    assert_uniform(law)
    if n > 1:
        with pytest.raises(AssertionError, match="off by"):
            assert_uniform(mf.bias.ClassFraction(1.02, inputs=n))
    assert list(law.pmf([-1, n + 1, (n // 2 + 0.5) / n])) == [0, 0, 0] and math.isnan(law.pmf(math.nan))
    assert_close(law.ppf(law.cdf(k / n)), k / n, 0)


CASES = [
    (0, 10, 0.05, -3, 3), (5, 10, 20, -4, 4), (0, 1000, 0.05, -3.5, 0.5), (333, 1000, 0.5, -1, 0.2),
    (500, 1000, 20, -0.8, 0.8), (1, 1000, 1e4, -12, -0.5), (3, 40, 1e4, -7, 2),
]  # fmt: skip


@pytest.mark.parametrize(("k", "n", "gamma", "low", "high"), CASES)
def test_pmf_at_30_digits(k, n, gamma, low, high):
    truth = summed(k, n, gamma, low, high)
    assert_close(mf.bias.ClassFraction(gamma, inputs=n).pmf([k / n, (n - k) / n]), [truth, truth], 2e-13)
    with pytest.raises(AssertionError, match="off by"):
        assert_close(mf.bias.ClassFraction(gamma * 1.02, inputs=n).pmf(k / n), truth, 2e-5)


@pytest.mark.parametrize(("n", "gamma"), [(10, "1e-6"), (60, "1/3"), (60, 2), (300, 20), (300, 1e4)])
def test_pmf_cdf_and_moments_agree(n, gamma):
    """The cdf is an integral of its own (an order statistic), the moments come from the law for all inputs."""
    law, k = mf.bias.ClassFraction(gamma, inputs=n), np.arange(n + 1)
    g = k / n
    pmf = law.pmf(g)
    assert_close(law.cdf(g), np.cumsum(pmf), 2e-13)
    assert_close(law.sf(g[:-1]), np.cumsum(pmf[::-1])[::-1][1:], 2e-13)
    for m in (1, 2, 3, 6):
        assert_close(law.moment(m), np.sum(pmf * g**m), 2e-13)
    assert law.var() == pytest.approx(law.moment(2) - 0.25, rel=1e-11)
    assert law.cdf(0.5 / n) == law.cdf(0.0) and law.cdf(-1e-9) == 0 and law.cdf(1) == 1
    other = mf.bias.ClassFraction(float(Fraction(gamma)) * 1.02, inputs=n)
    with pytest.raises(AssertionError, match="off by"):
        assert_close(other.moment(2), np.sum(pmf * g**2), 1e-9)


def assert_one_convention(law, pmf) -> None:
    """What SciPy's distributions keep: pmf sums to cdf over the support, and is no 0 at what rvs draws."""
    g = np.arange(law.inputs + 1) / law.inputs
    assert_close(np.cumsum(pmf(g)), law.cdf(g), 1e-12)
    assert (pmf(law.rvs(50, random_state=5)) > 0).all() and pmf(law.ppf(0.5)) > 0, "pmf is 0 at what rvs draws"


@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_pmf_takes_what_cdf_takes(classes):
    law = mf.bias.ClassFraction("3/2", classes, inputs=49)  # k/49·49 is not k for some
    assert_one_convention(law, law.pmf)
    with pytest.raises(AssertionError, match="off by"):  # planted: counts, as it was
        assert_one_convention(law, lambda k: law.pmf(np.asarray(k) / 49))


def test_a_measured_ensemble():
    """1200 networks on 1000 inputs at γ = 20 follow the law of 1000 inputs; that of all inputs has no mass at 0 and 1,
    where a third of the networks are."""
    sample = mf.bias.ClassFraction(20).rvs(1200, 5)
    sample = np.random.default_rng(6).binomial(1000, sample) / 1000
    law, values = mf.bias.ClassFraction(20, inputs=1000), np.unique(sample)
    assert_law(sample, law.cdf)
    assert_mean((sample - 0.5) ** 2, law.var())
    with pytest.raises(AssertionError, match="p = "):
        assert_law(sample, mf.bias.ClassFraction(8, inputs=1000).cdf)
    assert len(values) > 100 and np.mean((sample == 0) | (sample == 1)) > 0.3
    assert stats.kstest(sample, mf.bias.ClassFraction(20).cdf).pvalue < 1e-20


def test_draws_follow_the_law():
    for law in (mf.bias.ClassFraction(3), mf.bias.ClassFraction("1/2", inputs=12)):
        sample = law.rvs(3000, 11)
        assert_law(sample, law.cdf)
        assert_mean((sample - 0.5) ** 2, law.var())
        with pytest.raises(AssertionError, match="p = "):
            assert_law(sample, mf.bias.ClassFraction(20, inputs=law.inputs).cdf)
    assert mf.bias.ClassFraction(3).rvs((2, 3), np.random.default_rng(1)).shape == (2, 3)
    assert isinstance(mf.bias.ClassFraction(3).rvs(), float)
    assert mf.bias.ClassFraction(3).rvs(random_state=4) == mf.bias.ClassFraction(3).rvs(random_state=4)


def test_draws_of_networks_from_the_definition():
    sample = scores(2, 2.0, 1500, 40, 3)
    assert_law(sample, mf.bias.ClassFraction(2, inputs=40).cdf)
    with pytest.raises(AssertionError, match="p = "):
        assert_law(sample, mf.bias.ClassFraction(4, inputs=40).cdf)


# ------------------------------------------------------------------------------------------ three and more classes


def both_in_class_0(classes: int, r: float, step: float = 0.25) -> float:
    """P(two inputs in class 0): ∫∫ of the density of class 0's scores and P(another's lie below)^(C − 1), with the
    latter from ∫ over what two scores of correlation r share."""
    from scipy.special import ndtr

    grid = np.arange(-8, 8, step)
    weight = step * np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    shared, own = math.sqrt(r), math.sqrt(1 - r)
    u = shared * grid[:, None] + own * grid[None, :]  # class 0: its shared part and what one input adds
    below = ndtr((u[..., None] - shared * grid) / own)  # of another class, given its shared part
    both = np.einsum("iaz,ibz,z->iab", below, below, weight)
    return float(np.einsum("iab,i,a,b->", both ** (classes - 1), weight, weight, weight))


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "gamma"), [(3, 1.5), (10, 0.3)])
def test_variance_of_many_classes(classes, gamma):
    truth = both_in_class_0(classes, gamma / (1 + gamma))
    law = mf.bias.ClassFraction(gamma, classes)
    assert_close(law.moment(2), truth, 1e-9)
    with pytest.raises(AssertionError, match="off by"):
        assert_close(mf.bias.ClassFraction(gamma * 1.02, classes).moment(2), truth, 1e-4)
    assert law.mean() == 1 / classes
    p = 1 / classes
    assert mf.bias.ClassFraction(1e12, classes).var() == pytest.approx(p * (1 - p), rel=1e-5)
    small = [mf.bias.ClassFraction(g, classes).var() / g for g in (1e-20, 1e-9)]
    assert small[0] == pytest.approx(small[1], rel=1e-8)


def test_variance_of_two_classes_by_the_formula_for_many():
    """The integral over correlations knows nothing of arcsin."""
    from meanfield.bias.class_numbers import variance

    for angle in (1e-9, math.pi / 2):
        assert_close(variance(2, angle), angle / (2 * math.pi), 1e-12)


def test_three_classes_from_the_definition():
    sample = scores(3, 2.0, 1500, 30, 8)
    law = mf.bias.ClassFraction(2, 3, inputs=30)
    assert_law(sample, law.cdf)
    assert_mean(sample, 1 / 3)
    assert_mean((sample - 1 / 3) ** 2, law.var())
    for other in (scores(3, 5.0, 800, 30, 8), scores(4, 2.0, 800, 30, 8)):
        with pytest.raises(AssertionError, match="p = "):
            assert_law(other, law.cdf)
    assert law.pmf(np.arange(31) / 30).sum() == pytest.approx(1, abs=1e-12)
    assert_mean(law.rvs(1500, 2), 1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [3, 4, 10, 100])
@pytest.mark.parametrize("gamma", [1e-8, 0.5, 2, 20, 1e6])
def test_law_of_many_classes(classes, gamma):
    """Its mean and variance against the exact ones, itself against draws, and the error it reports."""
    law = mf.bias.ClassFraction(gamma, classes)
    q = np.linspace(0.02, 0.98, 25)
    g = law.ppf(q)
    error = float(np.max(law.cdf_error(g)))
    assert error < {3: 3e-5, 4: 4e-5, 10: 2e-4, 100: 2e-3}[classes]
    inside = (g > 1e-300) & (g < 1 - 1e-12)
    assert law.cdf(g)[inside] == pytest.approx(q[inside], abs=1e-6)
    assert law.moment(3) == pytest.approx(np.mean(law.rvs(20000, 7) ** 3), abs=0.01)
    sample = law.rvs(20000, 3)
    assert_law(sample, law.cdf)
    assert_mean((sample - 1 / classes) ** 2, law.var())
    if gamma < 20:
        with pytest.raises(AssertionError, match="p = "):
            assert_law(sample, mf.bias.ClassFraction(1.5 * gamma, classes).cdf)


@pytest.mark.slow
def test_largest_fraction_and_density_of_many_classes():
    """E max from draws of all fractions at once; the density is the slope of the cdf."""
    from scipy.special import ndtr

    rng = np.random.default_rng(0)
    gamma, classes = 1.5, 4
    mu = math.sqrt(gamma) * rng.standard_normal((20000, classes))
    t = np.arange(-8, 8, 0.25)
    best = mu.max(axis=1)
    others = np.sort(mu, axis=1)[:, :-1]
    inner = np.prod(ndtr(t + (best[:, None] - others)[..., None]), axis=1)
    largest = inner @ (0.25 * np.exp(-t * t / 2) / math.sqrt(2 * math.pi))
    law = mf.bias.ClassFraction(gamma, classes)
    assert_mean(largest, law.largest())
    with pytest.raises(AssertionError, match="z = "):
        assert_mean(largest, mf.bias.ClassFraction(gamma * 1.05, classes).largest())
    for g in (0.05, 0.3, 0.8):
        slope = (law.cdf(g + 1e-4) - law.cdf(g - 1e-4)) / 2e-4
        assert law.pdf(g) == pytest.approx(slope, rel=1e-3)
    sample = law.rvs(100000, 1)
    assert_mean(sample**5, law.moment(5))


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "one of gamma and log_gamma"),
        ({"gamma": 1, "log_gamma": 0}, "one of gamma and log_gamma"),
        ({"gamma": -1}, "gamma must be a number ≥ 0"),
        ({"gamma": math.nan}, "gamma must be"),
        ({"gamma": -math.inf}, "gamma must be"),
        ({"gamma": True}, "gamma must be"),
        ({"gamma": [1, 2]}, "gamma must be"),
        ({"gamma": "z"}, "gamma must be"),
        ({"log_gamma": "x"}, "log_gamma must be"),
        ({"gamma": 1, "classes": 1}, "classes must be a whole number"),
        ({"gamma": 1, "classes": 2.5}, "classes must be a whole number"),
        ({"gamma": 1, "inputs": 0}, "inputs must be a whole number"),
        ({"gamma": 1, "input": 3}, "Did you mean 'inputs'"),
    ],
)
def test_refused_arguments(given, words):
    with pytest.raises(mf.MeanFieldError, match=words):
        mf.bias.ClassFraction(**given)


def test_refused_questions():
    law, counted = mf.bias.ClassFraction(1), mf.bias.ClassFraction(1, inputs=3)
    for ask, words in (
        (lambda: law.pmf(1), "no pmf"),
        (lambda: counted.pdf(0.5), "no density"),
        (lambda: counted.largest(), "infinitely many inputs"),
        (lambda: counted.entropy(), "entropy"),
        (lambda: law.cdf("a"), "x must be"),
        (lambda: law.cdf([True]), "x must be"),
        (lambda: law.cdf(1j), "x must be"),
        (lambda: law.cdf(), "cdf was called"),
        (lambda: law.moment(-1), "order must be"),
        (lambda: law.rvs(-1), "size must be"),
        (lambda: law.rvs(1, "seed"), "random_state must be"),
    ):
        with pytest.raises(mf.MeanFieldError, match=words):
            ask()
    assert math.isnan(law.cdf(math.nan)) and math.isnan(counted.cdf(math.nan)) and math.isnan(law.ppf(1.5))
    assert list(law.cdf([-1, 2])) == [0, 1] and list(law.sf([-1, 2])) == [1, 0] and list(law.pdf([-1, 2])) == [0, 0]


def test_records():
    law = mf.bias.ClassFraction("1/3", inputs="12")
    assert repr(law) == "ClassFraction(gamma = 1/3, 2 classes, 12 inputs)" and law.inputs == 12
    assert law == mf.bias.ClassFraction("1/3", 2, 12) and hash(law) == hash(mf.bias.ClassFraction("1/3", 2, 12))


@pytest.mark.slow_with("1e-4-100-10", "3e-4-4-1", "1e-4-3-10")
@pytest.mark.parametrize(
    ("gamma", "classes", "inputs"), [("1e-3", 10, 1), ("3e-4", 4, 1), ("1e-4", 3, 10), ("1e-4", 100, 10)]
)
def test_counts_of_small_gamma_have_the_mean_and_variance_that_are_exact(gamma, classes, inputs):
    """The law of G_0 rises within √γ of 1/C, which nodes around the order statistic did not meet (1e-4 to 6e-3 off)."""
    law = mf.bias.ClassFraction(gamma, classes, inputs)
    places = np.arange(inputs + 1) / inputs
    mass = law.pmf(places)
    mean = mass @ places
    assert mean * classes == pytest.approx(1, abs=2e-6)
    assert mass @ (places - mean) ** 2 == pytest.approx(law.var(), rel=2e-6)


def test_fractions_of_tiny_gamma_are_those_of_zero():
    """A table in Φ⁻¹ collapsed for √γ < 1e-15: E G_0³ was 1 at γ = 1e-40, and P(G_0 ≤ 0.4) 0."""
    k = np.arange(11)
    for gamma in ("1e-10", "1e-30", "1e-40", "1e-100"):
        law = mf.bias.ClassFraction(gamma, 3)
        assert law.moment(3) * 27 == pytest.approx(1, abs=1e-9) and law.cdf(0.4) == 1 and law.cdf(0.3) < 1e-30
        counts = mf.bias.ClassFraction(gamma, 3, 10)
        assert np.abs(counts.pmf(k / 10) - stats.binom.pmf(k, 10, 1 / 3)).max() < 1e-9
    near = mf.bias.ClassFraction("1e-8", 3)  # normal, of the deviation √γ φ(v) √(C/(C - 1)): its slope at 1/C
    assert near.cdf(1 / 3 + near.std()) == pytest.approx(0.8413447, abs=1e-4)
