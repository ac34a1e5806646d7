"""Formulas as users of NumPy, JAX and PyTorch write them: every name against a definition of its own, in the theory and
in the networks; what messages say; a recursion as a mapping; laws that say what they are of."""

from __future__ import annotations

import math
import re

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import architectures
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import z
from meanfield.empirical.functions.user_formulas import from_formula
from meanfield.functions.reading.spellings import SPELLINGS

POINTS = (-3.7, -1.2, -0.6, -0.31, 0.17, 0.8, 1.3, 2.9)


def s(x):
    return 1 / (1 + math.exp(-x))


def sp_(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


def gelu(x):
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


#: as the libraries' manuals define them
ACTIVATIONS = {
    "quick_gelu": lambda x: x * s(1.702 * x),
    "hard_sigmoid": lambda x: 0.0 if x <= -3 else 1.0 if x >= 3 else x / 6 + 0.5,
    "log_sigmoid": lambda x: math.log(s(x)),
    "soft_shrink": lambda x: math.copysign(max(abs(x) - 0.5, 0), x),
    "hard_shrink": lambda x: x if abs(x) > 0.5 else 0.0,
    "tanh_shrink": lambda x: x - math.tanh(x),
    "celu": lambda x: max(0, x) + min(0, math.exp(x) - 1),
    "prelu": lambda x: max(0, x) + 0.25 * min(0, x),
    "squareplus": lambda x: (x + math.sqrt(x * x + 4)) / 2,
    "sparse_plus": lambda x: 0 if x <= -1 else (x + 1) ** 2 / 4 if x < 1 else x,
    "sparse_sigmoid": lambda x: 0 if x <= -1 else (x + 1) / 2 if x < 1 else 1,
    "serf": lambda x: x * math.erf(sp_(x)),
    "logish": lambda x: x * math.log1p(s(x)),
    "smish": lambda x: x * math.tanh(math.log1p(s(x))),
    "tanh_exp": lambda x: x * math.tanh(math.exp(x)),
    "phish": lambda x: x * math.tanh(gelu(x)),
    "lisht": lambda x: x * math.tanh(x),
    "penalized_tanh": lambda x: math.tanh(x) if x > 0 else math.tanh(x) / 4,
    "lecun_tanh": lambda x: 1.7159 * math.tanh(2 / 3 * x),
    "elish": lambda x: x * s(x) if x >= 0 else (math.exp(x) - 1) * s(x),
    "isru": lambda x: x / math.sqrt(1 + x * x),
    "isrlu": lambda x: x if x >= 0 else x / math.sqrt(1 + x * x),
    "bent_identity": lambda x: (math.sqrt(x * x + 1) - 1) / 2 + x,
    "snake": lambda x: x + math.sin(x) ** 2,
    "gcu": lambda x: x * math.cos(x),
}
FORMULAS = {
    "relu**2": lambda x: max(x, 0) ** 2,
    "ReLU*tanh + sigmoid": lambda x: max(x, 0) * math.tanh(x) + s(x),
    "silu*abs**1.2": lambda x: x * s(x) * abs(x) ** 1.2,
    "z*log1p(exp(z))": lambda x: x * sp_(x),
    "log1p(z**2) + log2(1 + z**2) + log10(2 + z**2)": lambda x: (
        math.log1p(x * x) + math.log2(1 + x * x) + math.log10(2 + x * x)
    ),
    "expm1": math.expm1,
    "exp2(-z**2)": lambda x: 2 ** (-x * x),
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "hypot(z, 2) - rsqrt(1 + square(z)) + reciprocal(3 + z**2)": lambda x: (
        math.hypot(x, 2) - 1 / math.sqrt(1 + x * x) + 1 / (3 + x * x)
    ),
    "pow(z, 3) + power(z, 2) + negative(z)": lambda x: x**3 + x**2 - x,
    "logaddexp(z, -z)": lambda x: math.log(math.exp(x) + math.exp(-x)),
    "np.maximum(z, 0.1*z) - jnp.minimum(z, 1) + fmax(z, 1) + fmin(z, 2)": lambda x: (
        max(x, 0.1 * x) - min(x, 1) + max(x, 1) + min(x, 2)
    ),
    "torch.clamp(z, -1, 2)": lambda x: min(max(x, -1), 2),
    "jnp.where(z > 0, z, 0.1*z)": lambda x: x if x > 0 else 0.1 * x,
    "np.where(z < 0, np.expm1(z), np.arcsinh(z))": lambda x: math.expm1(x) if x < 0 else math.asinh(x),
    "absolute(z) + fabs(z)*expit(z) + logistic(z) + sgn(z)*z": lambda x: abs(x) * (1 + s(x)) + s(x) + abs(x),
    "z*np.heaviside(z - 1, 0.5)": lambda x: x if x > 1 else 0.0,
    "torch.nn.functional.softplus(z) - jax.nn.sigmoid(z)": lambda x: sp_(x) - s(x),
    "celu(2*z, alpha=0.5)": lambda x: max(0, 2 * x) + min(0, 0.5 * (math.exp(4 * x) - 1)),
    "soft_shrink(0.3)": lambda x: math.copysign(max(abs(x) - 0.3, 0), x),
    "Hardshrink(lambd=1)": lambda x: x if abs(x) > 1 else 0.0,
    "threshold(0.5, 2)": lambda x: x if x > 0.5 else 2,
    "square(tanh)": lambda x: math.tanh(x) ** 2,
}


@pytest.mark.slow_with(
    "quick_gelu", "log_sigmoid", "serf", "logish", "smish", "tanh_exp", "phish", "elish", "ReLU*tanh + sigmoid",
    "silu*abs**1.2", "logaddexp(z, -z)", "np.where(z < 0, np.expm1(z), np.arcsinh(z))",
    "absolute(z) + fabs(z)*expit(z) + logistic(z) + sgn(z)*z", "torch.nn.functional.softplus(z) - jax.nn.sigmoid(z)",
    "celu(2*z, alpha=0.5)",
)  # fmt: skip
@pytest.mark.parametrize(("text", "f"), [*ACTIVATIONS.items(), *FORMULAS.items()], ids=[*ACTIVATIONS, *FORMULAS])
def test_a_name_is_what_its_library_says(text, f):
    """In the theory's expression and, read apart, in what networks run: φ and φ′ at points off the kinks."""
    record = mf.activation(text)
    values = {k: float(v) for k, v in record.arguments or ()}
    pair = from_formula(record.source, values)
    expression = record.expression.replace(lambda e: isinstance(e, mf.symbols.HeadFunction), _written)
    smooth = sp.lambdify(z, expression, "mpmath")
    for x in POINTS:
        assert abs(float(smooth(mp.mpf(x))) - f(x)) < 1e-12 * max(1, abs(f(x)))
        assert abs(pair.phi(x) - f(x)) < 1e-12 * max(1, abs(f(x)))
        slope = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
        assert abs(pair.dphi(x) - slope) < 1e-5 * max(1, abs(slope))
    # control: the function next to it is another one
    assert any(abs(pair.phi(x) - 1.001 * f(x) - 1e-4) > 1e-12 * max(1, abs(f(x))) for x in POINTS)


def _written(e):
    return e.func.written(*e.args)


def test_every_name_is_tested():
    words = " ".join([*ACTIVATIONS, *FORMULAS])
    assert [n for n in SPELLINGS if n.replace("_", "") not in words.replace("_", "").lower()] == []


@pytest.mark.parametrize("name", ["quick_gelu", "soft_shrink", "serf", "isrlu", "squareplus"])
def test_averages_of_named_activations(name):
    """⟨φ²⟩_K at K = 9/4 against mpmath quadrature."""
    f, K = ACTIVATIONS[name], 2.25
    found = mf.average(mf.activation(name).expression ** 2, sp.Rational(9, 4)).evalf(15)
    ends = [-14, -4, -1 / 3, 0, 1 / 3, 4, 14]
    value = mp.quad(lambda x: f(float(x) * math.sqrt(K)) ** 2 * mp.npdf(x), ends)
    assert abs(float(found) / float(value) - 1) < 1e-11 < abs(float(found) / (float(value) * (1 + 1e-10)) - 1)


def test_parameters_have_the_name_of_a_function_where_they_are_given():
    assert mf.activation("step*z", step=3).expression == 3 * z
    assert mf.activation("z*step").expression.has(sp.Heaviside)  # control


REFUSED = [
    ("alpha*z", r"uses the symbol 'alpha', which has no value.*derive\(\.\.\., alpha=0.5\)"),
    ("hypot(z)", r"hypot in .* takes a function of z and then its parameters \(y\), but 1 arguments"),
    ("maximum", "maximum needs a value for y"),
    ("threshold", "threshold needs a value for threshold"),
    ("os.system('ls')", r"\"os.system\('ls'\)\" in .* is not allowed"),
    ("z.real", "'z.real' in .* is not allowed"),
    ("z // 2", "The operator // in .* is not allowed"),
    ("log1p", "is not real and finite everywhere"),
    ("quickgelux", "Did you mean quick_gelu"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals_quote_what_was_written(text, message):
    with pytest.raises(MeanFieldError, match=message) as refusal:
        mf.activation(text)
    for word in ("parameters=", "Attribute", "FloorDiv", "Call in"):
        assert word not in str(refusal.value)


def test_an_average_says_what_to_do_about_symbols():
    with pytest.raises(MeanFieldError, match="write the formula as a SymPy expression, where other symbols are param"):
        mf.average("alpha*z**2", 1)


def test_a_recursion_is_a_mapping():
    recursion = mf.derive("tanh").recursion("K", "J")
    assert "K" in recursion and "Theta" not in recursion and 0 not in recursion
    assert list(recursion) == ["K", "J"] and len(recursion) == 2
    assert dict(recursion) == {"K": recursion["K"], "J": recursion["J"]} == dict(recursion.items())
    assert recursion.get("Theta") is None and recursion.get("J") == recursion["J"]
    with pytest.raises(MeanFieldError, match="Unknown quantity of this recursion 'Theta'; the choices are K, J"):
        recursion["Theta"]


def test_gradients_of_a_residual_block_have_laws():
    """tanh, μ = 1, σ_w = 1, σ_b = 0: gradients G_z^l fall as J^{1,l} grows, log J = rate·√l + O(log l)."""
    law = mf.derive("tanh", residual=True).depth_law("G_z", sigma_w=1, sigma_b=0)
    assert "exp(-4*sqrt(2)*sqrt(l)/(3*sqrt(pi))" in str(law).replace("\n", "")
    y = np.linspace(-1, 1, 301)  # z = sinh: steps of the size of φ's bend near 0, and of √K far out
    K, log_J, found = 1.0, 0.0, {}
    for layer in range(2, 6401):
        top = math.asinh(9 * math.sqrt(K))
        x = np.sinh(top * y)
        weights = np.exp(-x * x / (2 * K)) * np.cosh(top * y) * top * (y[1] - y[0]) / math.sqrt(2 * math.pi * K)
        t = np.tanh(x)
        log_J += math.log1p(float(weights @ (1 - t * t) ** 2))
        K += float(weights @ (t * t))
        found[layer] = log_J
    steps = (found[6400] - found[1600]) / (math.sqrt(6400) - math.sqrt(1600))
    after = (found[6400] - found[1600] - 8 / (9 * math.pi) * math.log(4)) / (math.sqrt(6400) - math.sqrt(1600))
    rate = 4 * math.sqrt(2 / math.pi) / 3
    assert abs(after / rate - 1) < 0.005 < abs(after / (1.02 * rate) - 1) and steps > after
    with pytest.raises(MeanFieldError, match="Unknown quantity 'Gz': did you mean 'G_z'"):
        mf.derive("tanh", residual=True).depth_law("Gz", sigma_w=1, sigma_b=0)


def test_laws_behind_a_batchnorm_say_what_they_are_of():
    """relu: K - K_ab = σ_w²(π - 1)/2π, and K is larger by K_ab = σ_w²/2π + σ_b²."""
    theory = mf.derive(architecture=architectures.batchnorm_mlp("relu"))
    law = theory.depth_law("K", sigma_w="6/5", sigma_b="3/10")
    run = theory.propagate(sigma_w=1.2, sigma_b=0.3, depth=6)
    assert str(law).startswith("K - K_ab = ") and "K stands for K - K_ab" in str(law)
    assert r"K^{\ell} - K^{\ell}_{ab} =" in law.latex()
    value = float(law.expr)
    assert abs(run.K[-1] - run.K_ab[-1] - value) < 1e-12 < abs(run.K[-1] - value)
    assert "K stands for K - K_ab" in str(theory.fixed_points(sigma_w="6/5", sigma_b="3/10")).replace("\n", " ")
    phase = theory.phase(sigma_w="6/5", sigma_b="3/10")
    assert "K stands for K - K_ab" in str(phase) and phase.data()["of"] == "K - K_ab" and "K_{ab}" in phase.latex()
    plain = mf.derive("relu")  # control
    assert "K_ab" not in str(plain.depth_law("K", sigma_w="6/5", sigma_b="3/10"))
    assert "K_ab" not in str(plain.phase(sigma_w="6/5", sigma_b="3/10"))


def test_no_message_names_a_class_of_averages():
    chain = architectures.batchnorm_mlp("tanh", norm="act")
    with pytest.raises(MeanFieldError, match=r"is an average over what a batch shares, .* ask phase") as refusal:
        mf.derive(architecture=chain).critical_line()
    assert "Common" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "same"),
    [("nn.GELU()", "gelu"), ("Softsign()", "softsign"), ("torch.nn.Identity()", "z"), ("1 + tanh()", "1 + tanh")],
)
def test_modules_of_pytorch_are_written_with_empty_parentheses(text, same):
    assert sp.simplify(mf.activation(text).expression - mf.activation(same).expression) == 0
    assert mf.activation(text).expression != mf.activation("sin").expression


@pytest.mark.parametrize("wrong", ["logp", "rsqr", "maximu", "hypoz", "softmax", "tanhh", "gelo", "loaddexp", "fmex"])
def test_what_is_suggested_is_an_activation(wrong):
    with pytest.raises(MeanFieldError, match="No activation is named") as caught:
        mf.activation(wrong)
    hint = re.search(r"Did you mean (.*?)\?", str(caught.value))
    for name in hint[1].split(" or ") if hint else ():
        assert mf.activation(name)
    if wrong in ("tanhh", "gelo"):  # control: there is one
        assert hint


@pytest.mark.parametrize(
    ("text", "given", "same"),
    [
        ("leaky_relu", {"negative_slope": 0.2}, "max(z, z/5)"),
        ("nn.LeakyReLU(negative_slope=0.2)", {}, "max(z, z/5)"),
        ("nn.LeakyReLU(0.2)", {}, "max(z, z/5)"),
        ("nn.PReLU(init=0.2)", {}, "max(z, z/5)"),
        ("nn.ELU(alpha=0.5, inplace=True)", {}, "z if z > 0 else (exp(z) - 1)/2"),
        ("relu", {"inplace": True}, "max(z, 0)"),
        ("nn.Softshrink(0.3)", {}, "z - 0.3 if z > 0.3 else (z + 0.3 if z < -0.3 else 0)"),
        ("gelu", {"approximate": "none"}, "z*(1 + erf(z/sqrt(2)))/2"),
        ("nn.GELU(approximate='tanh')", {}, "z*(1 + tanh(sqrt(2/pi)*(z + 0.044715*z**3)))/2"),
    ],
)
def test_keywords_of_pytorch_mean_what_they_mean_there(text, given, same):
    """Against the formulas of PyTorch's manual at numbers; the same function without the keyword is another one."""
    found, truth = (mf.activation(*a, **k).expression for a, k in (((text,), given), ((same,), {})))
    wrong = mf.activation("leaky_relu").expression
    for x in POINTS:
        assert float(found.subs(z, x)) == pytest.approx(float(truth.subs(z, x)), rel=1e-12, abs=1e-12)
    assert any(abs(float((wrong - truth).subs(z, x))) > 1e-3 for x in POINTS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: mf.derive("softplus", beta=2), r"softplus takes no beta here; .*'softplus\(2\*z\)/2'"),
        (lambda: mf.derive("nn.Hardtanh(min_val=-2)"), "clip has both ends"),
        (lambda: mf.derive("gelu", approximate="fast"), "approximate='fast' was given; it is 'none'"),
        (lambda: mf.derive("leaky_relu", slope=1), "it has alpha"),
        (lambda: mf.derive(print), "The function print is no function of one real number"),
        (lambda: mf.derive(3), "but 3 was given"),
        (lambda: mf.derive(mf.Dense), "the class Dense, and not one of it such as Dense"),
        (lambda: mf.symbolic.rule(3), "a class derived from Block, but 3 was given"),
        (lambda: mf.symbolic.rule(mf.Dense)(3), r"a function \(block, coordinate, walk\)"),
        (lambda: mf.average("tanh(z)"), "average was called with arguments"),
        (lambda: mf.equal("z", 1, point=2), "equal takes no argument 'point'"),
    ],
)
def test_messages_say_what_was_given_in_the_words_of_the_call(given, words):
    with pytest.raises(MeanFieldError, match=words) as caught:
        given()
    assert not re.search("ufunc|but int|FunctionClass|average_of|expressions_equal", str(caught.value))


def test_a_function_of_sympy_and_a_record_show_what_they_are():
    assert mf.activation(sp.tanh).expression == sp.tanh(z)
    assert mf.activation(sp.tanh).expression != mf.activation(sp.erf).expression
    block = mf.Sequential((mf.Nonlinearity("relu"), mf.Nonlinearity("z*erf(z)"), mf.Dense()))
    assert repr(mf.derive(architecture=block).block) == repr(block)
