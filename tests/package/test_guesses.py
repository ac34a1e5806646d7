"""Twelve tasks with the calls that readers guessed who had never seen the library: a theorist and an engineer, asked
apart, wrote down what they would type first. Each guess works, or is answered by a sentence that leads to what does.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import meanfield as mf
from meanfield.cli.app import main

X = np.random.default_rng(0).standard_normal((4, 3))
HERE = {"sigma_w": 1.5, "sigma_b": 0.1}

#: task → [(guess, what its answer holds, or the sentence that leads on)]
WORK = {
    "a table of recursions": [
        ("mf.derive('relu').table().latex(caption='ReLU.', label='tab:relu')", r"\\label{tab:relu}"),
        ("mf.derive('relu').latex(caption='ReLU.', label='tab:relu')", r"\\label{tab:relu}"),
    ],
    "a critical point": [
        ("mf.derive('tanh').critical_points()[0].sigma_w", "^1$"),
        ("mf.derive('z*tanh(z) + z/2').critical_points()", "sigma_w = 2"),
    ],
    "a law at large depth": [
        ("mf.derive('tanh').depth_law('K', sigma_w=1, sigma_b=0).exponent", "^-1$"),
        ("float(mf.derive('tanh').depth_law('K', sigma_w=1, sigma_b=0)(100))", "0.00509"),
        ("mf.derive('tanh').depth_law('K', sigma_w=1, sigma_b=0).plot()", "Axes"),
    ],
    "networks of one's own": [
        ("mf.check('erf', **HERE, width=64, depth=4, networks=20).passed", "True"),
        ("mf.check('z*tanh(z) + z/2', **HERE, width=64, depth=3, networks=20).rows[0].z", r"\d"),
        ("mf.measure('erf', **HERE, width=64, depth=4, networks=20)['K'].mean.shape", "4"),
    ],
    "initialize a model": [
        ("mf.recommend('gelu', depth=30, width=256, networks=0, residual=True, norm='pre').torch()", "init_"),
        ("mf.recommend('relu', depth=30, width=256, networks=0).sigma_w", "^1.4142"),
    ],
    "a neural-tangents script": [
        ("mf.derive('relu').kernel(X, X[:2], sigma_w='sqrt(2)', sigma_b=0, depth=4).Theta.shape", r"\(4, 2\)"),
        ("mf.derive('relu').kernel(X, **HERE, depth=4)['K'].shape", r"\(4, 4\)"),
    ],
    "a sweep in pandas": [
        ("mf.derive('erf').propagate(sigma_w=[1, 1.5], sigma_b=0.1, depth=3).to_frame().shape", "6"),
        ("mf.derive('erf').phase_diagram(sigma_w=[1, 2], sigma_b=[0.1]).to_frame().columns.tolist()", "chi_J"),
    ],
    "an activation of one's own": [
        ("mf.derive('x*tanh(x)').recursion('K')", r"z\*\*2\*tanh"),
        ("mf.derive(lambda z: z*np.tanh(z)).recursion('K')", r"z\*\*2\*tanh"),
        ("mf.derive('swish').recursion('K') == mf.derive('silu').recursion('K')", "True"),
    ],
    "a network layer by layer": [
        ("mf.derive(mf.Sequential(mf.LayerNorm(), mf.Nonlinearity('relu'), mf.Dense())).recursion('K')", "sigma_w"),
        ("mf.derive(mf.Sequential([mf.Nonlinearity('relu'), mf.Dense()])).recursion('K').doit()", "sigma_w"),
    ],
    "a claim of a paper": [("mf.equal(mf.derive('relu').recursion('K')['K'].doit(), K*w**2/2 + b**2)", "PROVED")],
    "cite": [("mf.cite(mf.derive('tanh').critical_points())", "@")],
}
LED = {
    "a table of recursions": [("mf.derive('gelu').to_latex('t.tex')", "did you mean 'latex'"), ("mf.table", "table")],
    "a critical point": [
        ("mf.critical_point('tanh')", r"mf\.derive\(\.\.\.\)\.critical_points"),
        ("mf.critical('tanh')", "critical_points"),
        ("mf.derive('tanh').critical_point()", "'critical_points'"),
        ("mf.derive('tanh').at_criticality()", "critical_points"),
    ],
    "a law at large depth": [
        ("mf.derive('tanh').asymptotics('K')", "'depth_law'"),
        ("mf.derive('tanh').large_depth('K')", "'depth_law'"),
        ("mf.asymptotics('tanh', 'K')", "depth_law"),
        ("mf.derive('tanh', sigma_w=1, sigma_b=0)", "argument of verbs.*propagate"),
        ("mf.derive('tanh', depth=3)", "depth is an argument of verbs"),
        ("mf.derive('tanh').depth_law('K', sigma_w=1, sigma_b=0).evaluate(l=100)", "'at'"),
    ],
    "networks of one's own": [
        ("mf.derive('tanh').check(widths=[64])", r"mf\.check\(theory"),
        ("mf.derive('tanh').simulate(width=64)", r"mf\.measure\(theory"),
        ("mf.simulate('tanh')", "'measure'"),
        ("mf.check('tanh', **HERE, widths=[64], depth=3, width=64, networks=9)", "width is an argument"),
        ("mf.check('tanh', **HERE, width=64, depth=3, n_networks=9)", "networks is an argument"),
    ],
    "initialize a model": [
        ("mf.torch.init_(None)", r"mf\.recommend\(\.\.\.\)\.torch\(\)"),
        ("mf.init_", "'recommend'"),
        ("mf.recommend('relu', depth=9, width=64, networks=0).apply_(None)", r"\.torch\(\) is code"),
        ("mf.recommend('gelu', depth=9, width=64, layernorm=True)", "Did you mean 'norm'"),
        ("mf.recommend('gelu', depth=30)", "'width'"),
    ],
    "a neural-tangents script": [
        ("mf.stax", r"mf\.Sequential.*kernel"),
        ("mf.derive('relu').kernel_fn(X)", "'kernel'"),
        ("mf.derive('relu').kernel(X, get='ntk', depth=4)", "'quantities'"),
        ("mf.derive('relu').kernel(X, quantities=('ntk',), **HERE, depth=4)", "'Theta'"),
        ("mf.derive('relu').posterior(X)", "GaussianProcessRegressor"),
        ("mf.predict", "GaussianProcessRegressor"),
        ("mf.derive('relu').kernel(X, **HERE, depth=4).nngp", "'K'"),
    ],
    "a sweep in pandas": [
        ("mf.sweep('tanh')", "take lists"),
        ("mf.derive('tanh').sweep(sigma_w=[1, 2])", "take lists"),
        ("mf.phase_diagram('tanh')", r"mf\.derive\(\.\.\.\)\.phase_diagram"),
        ("mf.derive('erf').propagate(**HERE, depth=3).to_dataframe()", "'to_frame'"),
    ],
    "an activation of one's own": [
        ("mf.register_activation('mine', 'z')", "'register'"),
        ("mf.Activation('z*tanh(z)')", "missing a required argument"),
    ],
    "a network layer by layer": [
        ("mf.RMSNorm", "it is meanfield.networks.RMSNorm"),
        ("mf.Layer", "writing_a_layer"),
        ("mf.Linear", "'Dense'"),
        ("mf.Sequential('gelu', mf.Dense())", r"write Nonlinearity\('gelu'\)"),
        ("mf.derive('gelu', norm='rms')", "It is a record, meanfield.networks.RMSNorm"),
        ("mf.derive('gelu', layers=['dense'])", "'architecture'"),
    ],
    "a claim of a paper": [("mf.Claim('K ~ 1/(2*l)')", r"mf\.equal.*docs/extending\.md")],
    "cite": [("mf.derive('tanh').bibtex()", r"mf\.cite"), ("mf.derive('tanh').references", r"mf\.cite")],
}
TYPED = [
    ("simulate tanh --width 64", "'measure'"),
    ("cite tanh", r"mf\.cite"),
    ("check tanh --widths 64 --depth 5", "--width"),
    ("check tanh --width 64 --depth 5 --resume", "goes on"),
    ("resume runs/tanh", "goes on"),
    ("chek tanh", "'check'"),
]


def guesses(tasks):
    return [pytest.param(*one, id=one[0][:60]) for own in tasks.values() for one in own]


def asked(guess):
    from meanfield.base.symbols import K, sigma_b, sigma_w

    return eval(guess, {"mf": mf, "np": np, "X": X, "HERE": HERE, "K": K, "w": sigma_w, "b": sigma_b})


@pytest.mark.slow_with(
    "mf.derive('relu').table().latex(caption='ReLU.', label='tab:", "mf.derive('tanh').critical_points()[0].sigma_w",
    "mf.derive('z*tanh(z) + z/2').critical_points()", "mf.recommend('gelu', depth=30, width=256, networks=0, residu",
)  # fmt: skip
@pytest.mark.parametrize(("guess", "held"), guesses(WORK))
def test_guesses_that_work(guess, held):
    assert re.search(held, f"{asked(guess)}")


@pytest.mark.parametrize(("guess", "sentence"), guesses(LED))
def test_guesses_that_are_led_on(guess, sentence):
    with pytest.raises((mf.MeanFieldError, AttributeError), match=sentence) as raised:
        asked(guess)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(("line", "sentence"), TYPED)
def test_lines_that_are_led_on(line, sentence, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(line.split())
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert re.search(sentence, said), said


def test_ten_of_twelve_tasks_work():
    """The twelfth is a run that was killed, of which the command line's own tests have an example (`--checkpoint`)."""
    assert len(set(WORK) | {"resume a killed run"}) == 12 and set(LED) <= set(WORK)


def test_control_a_name_that_leads_nowhere_is_seen():
    with pytest.raises(AssertionError, match="Regex pattern did not match"):
        test_guesses_that_are_led_on("mf.xyzzy", "did you mean")
