"""Ten random compositions of all records: theory or a reasoned refusal, networks beside it, and planted errors."""

from __future__ import annotations

from fractions import Fraction

import pytest

import meanfield as mf
from meanfield.networks.records import Block, Schedule
from tests.package import compositions as c

PHI, DENSE = mf.Nonlinearity("erf"), mf.Dense()
CHAIN = mf.Sequential((mf.Dense(expand=2), PHI, DENSE))
SEEDS = (0, 1)

#: record → a block whose first record of that type gets the error
STANDS = {
    mf.Dense: CHAIN,
    mf.Nonlinearity: CHAIN,
    mf.Sequential: mf.Sequential((mf.Scale("1/2"), PHI, DENSE)),
    mf.LayerNorm: mf.Sequential((mf.LayerNorm(), PHI, DENSE)),
    mf.BatchNorm: mf.Sequential((mf.BatchNorm(), PHI, DENSE)),
    mf.networks.AffineNorm: mf.Sequential((mf.networks.AffineNorm(), PHI, DENSE)),
    mf.Gate: mf.Residual(mf.Sequential((mf.LayerNorm(), mf.Gate("silu"), DENSE)), "1/2"),
    mf.Scale: mf.Sequential((mf.Scale("3/5"), PHI, DENSE)),
    mf.Pool: mf.Sequential((mf.Pool(2), DENSE, PHI, DENSE)),
    mf.Residual: mf.Residual(CHAIN, "1/2"),
    mf.Projection: mf.Residual(CHAIN, 1, mf.Projection()),
}


@pytest.mark.slow
def test_compositions_are_the_same_for_a_seed_and_hold_every_record():
    assert c.ten(3) == c.ten(3) != c.ten(4)
    text = " ".join(str(block) for seed in range(30) for block in c.ten(seed))
    for name in (*(record.__name__ for record in c.PLANTED), "Schedule", "axis='tokens'", "uniform"):
        assert name in text, name
    assert set(STANDS) == set(c.PLANTED)


def test_answers_and_reasons():
    """One answered composition, and one refused in a sentence: a block that ends in an activation."""
    assert isinstance(c.answer(mf.Sequential((mf.Scale("1/2"), PHI, DENSE))), c.Answer)
    reason = c.answer(mf.Sequential((DENSE, PHI)))
    assert isinstance(reason, str) and reason.endswith(".") and len(reason) > 40


def agree(theory: c.Answer, block: Block, networks: int) -> float:
    return max(abs(z) for z in c.z_scores(theory, block, networks=networks).values())


@pytest.mark.slow
def test_a_scaled_skip_agrees(monkeypatch):
    monkeypatch.setattr(c, "WIDTHS", (24, 48, 96))
    block = mf.Residual(mf.Sequential((mf.LayerNorm(), PHI, DENSE, mf.Scale("3/5"))), "4/5")
    theory, wrong = c.answer(block), c.answer(c.planted(block, mf.Residual))
    assert agree(theory, block, 60) < 4 < agree(wrong, block, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_ten_random_compositions(seed):
    answers = [(block, c.answer(block)) for block in c.ten(seed)]
    refused = [reason for _, reason in answers if isinstance(reason, str)]
    assert len(refused) <= 4, refused
    assert all(reason.endswith(".") and "\n" not in reason for reason in refused)
    for block, theory in answers:
        if isinstance(theory, c.Answer):
            assert agree(theory, block, 150) < 4, block


@pytest.mark.slow
@pytest.mark.parametrize("record", STANDS, ids=lambda record: record.__name__)
def test_a_planted_error_in_every_record_is_found(record):
    block = STANDS[record]
    wrong = c.planted(block, record)
    assert wrong is not None and wrong != block
    theory, other = c.answer(block), c.answer(wrong)
    assert isinstance(theory, c.Answer) and isinstance(other, c.Answer)
    assert agree(theory, block, 150) < 4 < agree(other, block, 150)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["weights", "schedule", "tokens"])
def test_planted_errors_in_what_a_record_holds(what):
    """Schedules and Dense on tokens are parts of a Dense."""
    right, wrong = {
        "weights": (mf.Dense(sigma_b=0), mf.Dense(sigma_b=Fraction(1, 2))),
        "schedule": (mf.Dense(sigma_w=Schedule("sigma_w", 1)), mf.Dense(sigma_w=Schedule("sigma_w", "1/2"))),
        "tokens": (mf.Dense(axis="tokens"), mf.Dense(axis="tokens", sigma_w=Fraction(7, 5))),
    }[what]
    block, other = (mf.Sequential((mf.Residual(mf.Sequential((one,)), "1/2"), PHI, DENSE)) for one in (right, wrong))
    assert agree(c.answer(block), block, 150) < 4 < agree(c.answer(other), block, 150)
