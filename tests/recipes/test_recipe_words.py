"""What a recipe is asked and does not use is refused; a law of T follows the tokens of a report."""

import pytest

import meanfield as mf


@pytest.mark.parametrize("name", ["t5", "siren", "deepnorm", "mup", "pytorch"])
def test_a_deviation_that_changes_nothing_is_refused(name):
    with pytest.raises(mf.MeanFieldError, match=f"std= was given for {name}, where it changes nothing"):
        mf.recipe(name, depth=3, width=64, std=0.05)
    based, plain = (mf.recipe("gpt2", depth=3, width=64, **given) for given in ({"std": 0.05}, {}))
    assert based.sigmas["query"] == pytest.approx(2.5 * plain.sigmas["query"]), "control: where a law is based on it"


@pytest.mark.slow
def test_a_law_of_the_number_of_tokens_is_that_of_those_followed():
    """u-mup multiplies what attention makes by its fit for T tokens: 1024 of them beside 16 that were followed let the
    stream of embeddings seem to drown (K_2/K_1 3.6 for 1.2). Explicit networks of width 256: K_L/K_1 4.9, log J 1.86
    at 16 tokens."""
    recipe = mf.recipe("u-mup", depth=12, width=256)
    report = recipe.report(tokens=16, draws=2)
    own = mf.recipe("u-mup", depth=12, width=256, context=16).report(tokens=16, draws=2)
    assert "laws of T at T = 16" in str(report) and "laws of T" not in str(own)
    assert report.followed.growth == own.followed.growth == pytest.approx(4.9, rel=0.1)
    assert report.followed.K[1] / report.followed.K[0] < 1.3 and report.followed.log_J[-1] == pytest.approx(
        1.9, abs=0.1
    )
    plain = mf.recipe("gpt2", depth=2, width=64)
    assert plain.at_tokens(16) is plain, "control: no law of it holds T"
