"""Whole numbers are labels, floats targets, and what is printed says which."""

import numpy as np
import pytest

import meanfield as mf

X = np.random.default_rng(0).standard_normal((12, 3))
AT = {"sigma_w": 1.3, "sigma_b": 0.2, "width": 16, "depth": 3, "steps": 2, "rate": 0.1, "networks": 2, "loss": "mse"}


def test_whole_numbers_under_square_loss_are_said_to_be_labels():
    codes = np.where(X[:, 0] > 0, 1, -1)
    labels, targets = (mf.train("erf", (X, y), **AT) for y in (codes, codes.astype(float)))
    assert "one-hot rows of 2 labels" in str(labels) and labels.classes == (-1, 1)
    assert "one-hot" not in str(targets) and targets.classes == (), "control"
    with pytest.raises(mf.MeanFieldError, match=r"one class alone, 0.*give targets of a square loss as floats"):
        mf.train("erf", (X, np.zeros(12, dtype=int)), **AT)
    with pytest.raises(mf.MeanFieldError, match=r"one class alone, 0; at least two are needed\.$"):
        mf.train("erf", (X, np.zeros(12, dtype=int)), **(AT | {"loss": "cross_entropy"}))


def test_a_misspelled_architecture_is_no_network_without_critical_points():
    with pytest.raises(mf.MeanFieldError, match="architecture"):
        mf.summary(("tanh",), "zzz")
    assert "tanh" in str(mf.summary(("tanh",), "resnet"))
