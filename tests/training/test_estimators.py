"""Trained wide networks as estimators of scikit-learn, which checks them by its own tests."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator, check_methods_subset_invariance

import meanfield as mf
from meanfield.training import NTKClassifier, NTKRegressor

RNG = np.random.default_rng(34)
X, T = RNG.standard_normal((30, 3)), RNG.standard_normal((7, 3))
AT = dict(sigma_w=1.5, sigma_b=0.2, depth=3)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [NTKRegressor, NTKClassifier])
def test_scikit_learn_checks_it(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the array API is not checked
        told = check_estimator(estimator("erf"), on_fail=None)
    failed = [(one["check_name"], one["exception"]) for one in told if one["status"] not in ("passed", "skipped")]
    assert not failed and len(told) > 50

    class Broken(estimator):  # a planted error: what was fitted depends on the number of inputs asked
        def predict(self, X):
            found = super().predict(X)
            return found[::-1] if len(found) > 1 else found

    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_methods_subset_invariance("Broken", Broken("erf"))


@pytest.mark.slow
def test_a_regressor_is_what_predict_says():
    y = RNG.standard_normal((30, 2))
    for more in (dict(ridge=0.1), dict(t=20.0), dict(t=50, rate=0.3), dict(train="last", ridge=0.2),
                 dict(lambda_w=1, lambda_b=0.3, t=9.0)):  # fmt: skip
        model = NTKRegressor("tanh", **AT, **more).fit(X, y)
        wanted = mf.derive("tanh").predict(X, y, T, **AT, **{"ridge": 1e-6} | more).test
        mean, sd = model.predict(T, return_std=True)
        assert np.abs(mean - wanted.mean[0]).max() < 1e-9 and np.abs(sd - wanted.sd[0]).max() < 1e-9
        covariance = model.predict(T, return_cov=True)[1]
        assert np.abs(covariance - wanted.covariance[0]).max() < 1e-9
        assert np.abs(NTKRegressor("erf", **AT, **more).fit(X, y).predict(T) - wanted.mean[0]).max() > 1e-3


@pytest.mark.slow
def test_probabilities_are_those_of_drawn_outputs():
    """Of three classes, by a million draws of independent Gaussian outputs."""
    labels = np.array(["a", "b", "c"])[np.arange(30) % 3]
    model = NTKClassifier("tanh", **AT, t=30.0).fit(X, labels)
    mean, sd = model.outputs(T), np.sqrt(np.diag(model._covariance(T)))
    drawn = mean + sd[:, None] * RNG.standard_normal((10**6, 7, 3))
    seen = np.array([(drawn.argmax(axis=2) == c).mean(axis=0) for c in range(3)]).T
    told = model.predict_proba(T)
    z = (told - seen) / np.sqrt(told * (1 - told) / 10**6)
    assert np.abs(z).max() < 4.5 and (model.predict(T) == model.classes_[told.argmax(axis=1)]).all()
    assert np.abs((told[:, ::-1] - seen) / np.sqrt(told * (1 - told) / 10**6)).max() > 10


def test_theories_and_parameters_pass():
    y = X[:, 0] * X[:, 1]
    theory = mf.derive("relu", residual=True)
    one = NTKRegressor(theory, **AT).fit(X, y).predict(T)
    assert (one == NTKRegressor("relu", parameters={"residual": True}, **AT).fit(X, y).predict(T)).all()
    with pytest.raises(mf.MeanFieldError, match="trained to one time"):
        NTKRegressor("erf", t=[1, 2]).fit(X, y)
    with pytest.raises(mf.MeanFieldError, match="Unknown train 'readout'"):
        NTKRegressor("erf", train="readout").fit(X, y)
    with pytest.raises(mf.MeanFieldError, match="one class alone, 1"):
        NTKClassifier("erf").fit(X, np.ones(30, dtype=int))


def test_what_was_fitted_does_not_change_before_the_next_fit():
    y = X[:, 0]
    model = NTKRegressor("tanh", **AT, t=20.0).fit(X, y)
    before = model.predict(T, return_cov=True)
    model.set_params(t=0.0, ridge=5.0, depth=2)
    after = model.predict(T, return_cov=True)
    assert all((a == b).all() for a, b in zip(before, after))
    assert np.abs(model.fit(X, y).predict(T) - before[0]).max() > 1e-3


@pytest.mark.parametrize(
    "asked, said",
    [
        (dict(ridge=-1), "ridge must be ≥ 0"),
        (dict(ridge=None), "ridge must be"),
        (dict(ridge="x"), "ridge must be"),
        (dict(parameters=5), "parameters must be"),
    ],
)
def test_bad_parameters_are_refused_at_fit(asked, said):
    with pytest.raises(mf.MeanFieldError, match=said):
        NTKRegressor("erf", **asked).fit(X, X[:, 0])
