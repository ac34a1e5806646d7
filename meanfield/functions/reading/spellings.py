"""Names that formulas of other libraries use (NumPy, JAX, PyTorch), each as a formula: nothing else knows them.

A name is written out before a formula is read, so that the theory and the networks each read the same text by their own
route. z is the first argument; further ones follow with their defaults, None where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping

Spelling = tuple[str, Mapping[str, str | None]]

#: activations
_ACTIVATIONS: dict[str, Spelling] = {
    "quick_gelu": ("z*sigmoid(1.702*z)", {}),
    "hard_sigmoid": ("clip(z/6 + 1/2, 0, 1)", {}),
    "log_sigmoid": ("-softplus(-z)", {}),
    "soft_shrink": ("z - lambd if z > lambd else (z + lambd if z < -lambd else 0)", {"lambd": "0.5"}),
    "hard_shrink": ("z if z > lambd else (z if z < -lambd else 0)", {"lambd": "0.5"}),
    "tanh_shrink": ("z - tanh(z)", {}),
    "celu": ("z if z > 0 else alpha*(exp(z/alpha) - 1)", {"alpha": "1"}),
    "prelu": ("z if z > 0 else alpha*z", {"alpha": "0.25"}),
    "threshold": ("z if z > threshold else value", {"threshold": None, "value": None}),
    "squareplus": ("(z + sqrt(z**2 + b))/2", {"b": "4"}),
    "sparse_plus": ("0 if z < -1 else ((z + 1)**2/4 if z < 1 else z)", {}),
    "sparse_sigmoid": ("clip((z + 1)/2, 0, 1)", {}),
    "serf": ("z*erf(softplus(z))", {}),
    "logish": ("z*log(1 + sigmoid(z))", {}),
    "smish": ("z*tanh(log(1 + sigmoid(z)))", {}),
    "tanh_exp": ("z*tanh(exp(z))", {}),
    "phish": ("z*tanh(gelu(z))", {}),
    "lisht": ("z*tanh(z)", {}),
    "penalized_tanh": ("tanh(z) if z > 0 else alpha*tanh(z)", {"alpha": "0.25"}),
    "lecun_tanh": ("1.7159*tanh(2*z/3)", {}),
    "elish": ("z*sigmoid(z) if z > 0 else (exp(z) - 1)*sigmoid(z)", {}),
    "isru": ("z/sqrt(1 + alpha*z**2)", {"alpha": "1"}),
    "isrlu": ("z if z > 0 else z/sqrt(1 + alpha*z**2)", {"alpha": "1"}),
    "bent_identity": ("(sqrt(z**2 + 1) - 1)/2 + z", {}),
    "snake": ("z + sin(alpha*z)**2/alpha", {"alpha": "1"}),
    "gcu": ("z*cos(z)", {}),
}

#: functions of one number or more
_FUNCTIONS: dict[str, Spelling] = {
    "log1p": ("log(1 + z)", {}),
    "expm1": ("exp(z) - 1", {}),
    "exp2": ("exp(log(2)*z)", {}),
    "log2": ("log(z)/log(2)", {}),
    "log10": ("log(z)/log(10)", {}),
    "square": ("z**2", {}),
    "cbrt": ("sign(z)*abs(z)**(1/3)", {}),
    "reciprocal": ("1/z", {}),
    "rsqrt": ("1/sqrt(z)", {}),
    "negative": ("-z", {}),
    "hypot": ("sqrt(z**2 + y**2)", {"y": None}),
    "pow": ("z**y", {"y": None}),
    "power": ("z**y", {"y": None}),
    "logaddexp": ("z + softplus(y - z)", {"y": None}),
    "maximum": ("max(z, y)", {"y": None}),
    "fmax": ("max(z, y)", {"y": None}),
    "minimum": ("min(z, y)", {"y": None}),
    "fmin": ("min(z, y)", {"y": None}),
    "clamp": ("min(max(z, low), high)", {"low": None, "high": None}),
    "where": ("(yes if z else no)", {"yes": None, "no": None}),
    "absolute": ("abs(z)", {}),
    "fabs": ("abs(z)", {}),
    "arcsinh": ("asinh(z)", {}),
    "expit": ("sigmoid(z)", {}),
    "logistic": ("sigmoid(z)", {}),
    "sgn": ("sign(z)", {}),
    "heaviside": ("(1 if z > 0 else (0 if z < 0 else at_zero))", {"at_zero": "1/2"}),
}
SPELLINGS: Mapping[str, Spelling] = _ACTIVATIONS | _FUNCTIONS

#: parameters of activations by the names that PyTorch gives them
SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "leakyrelu": {"negative_slope": "alpha"},
    "prelu": {"init": "alpha"},
}

#: parameters whose values choose between activations: which one each value means
CHOICES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "gelu": {"approximate": {"none": "gelu", "tanh": "gelu_tanh"}},
}

#: parameters that an activation has in PyTorch and not here: how to write what they mean
_CLIP = "clip has both ends, as in 'clip(z, -2, 2)'"
INSTEAD: Mapping[str, Mapping[str, str]] = {
    "softplus": {
        "beta": "write the formula, as in 'softplus(2*z)/2' for beta = 2",
        "threshold": "leave it out, since beyond it PyTorch's function differs from softplus by rounding only",
    },
    "hardtanh": {"min_val": _CLIP, "max_val": _CLIP},
}

#: what functions are called by in other programs: np.tanh is tanh
MODULES = frozenset((
    *("np", "numpy", "jnp", "jax", "jax.nn", "jax.numpy", "jax.scipy.special", "torch", "torch.nn", "torch.special"),
    *("torch.nn.functional", "nn", "F", "math", "sp", "sympy", "special", "scipy.special", "tf", "tf.nn", "tf.math"),
))
