"""A formula in z1 … z_k as the function of a group of k neighbouring neurons, with its partial derivatives.

The text is read as every formula is (`user_formulas`: jets, switches decided at run time), once for the value and once
for each variable. Compiled functions read a group out of an array (batch, position, neuron), on the CPU and on a GPU
alike.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.jets import Jet
from meanfield.empirical.functions.reference_functions import derivatives
from meanfield.empirical.functions.registry import Scalar, compiled
from meanfield.empirical.functions.user_formulas import constant, from_formula, function, straight_line, tree
from meanfield.empirical.random.philox import normals
from meanfield.networks.pooling import POOLS, variables

_BETWEEN = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
_LINES, _CELLS, _HALVINGS, _JUMP = 64, 256, 40, 1e-4  # where `jumps` looks, and from what on a step is a jump


@lru_cache(maxsize=64)
def group_functions(text: str, size: int) -> tuple[Scalar, Scalar]:
    """(value, slope): value(x, b, p, first) = f(z1, …, z_size) with z_k = x[b, p, first + k − 1], and
    slope(x, b, p, first, k) = ∂f/∂z_{k+1} there, both compiled.

    >>> value, slope = group_functions("z1*z2", 2)
    >>> x = np.array([[[2.0, 5.0, 3.0, 7.0]]])
    >>> value(x, 0, 0, 2), slope(x, 0, 0, 2, 0), slope(x, 0, 0, 2, 1)
    (21.0, 7.0, 3.0)
    """
    names = variables(size)
    read = [f"{name} = x[b, p, first + {k}]" for k, name in enumerate(names)]
    plain = straight_line(text, {}, 0, dict.fromkeys(names, 0.0))
    partial = []
    for k, name in enumerate(names):
        lines = straight_line(text, {}, 1, dict.fromkeys(names, 0.0) | {name: 1.0})
        partial += [f"if k == {k}:", *(f"    {line}" for line in lines)]
    value = function("f(x, b, p, first)", [*read, *plain])
    return compiled(value), compiled(function("f(x, b, p, first, k)", [*read, *partial, "return 0.0"]))


@lru_cache(maxsize=64)
def group_kernel(text: str, size: int) -> Callable[..., None]:
    """The kernel (x, out, share): out[0, p, i] = f of group i, and share[0, p, j] its derivative by neuron j (unless
    `share` is empty)."""
    value, slope = group_functions(text, size)

    @njit(nogil=True, error_model="numpy")
    def kernel(x: Any, out: Any, share: Any) -> None:
        for p in range(out.shape[1]):
            for i in range(out.shape[2]):
                out[0, p, i] = value(x, 0, p, i * size)
                if share.size:
                    for k in range(size):
                        share[0, p, i * size + k] = slope(x, 0, p, i * size, k)

    return kernel


def group_jet(text: str, parts: Sequence[Jet]) -> Jet:
    """f of jets z1, …, z_k of any shape; raises `MeanFieldError` for a formula with a switch.

    >>> x, y = (Jet([np.array([[v]]), np.array([[s]])]) for v, s in ((2.0, 1.0), (5.0, 0.0)))
    >>> [float(c[0, 0]) for c in group_jet("z1**2*z2", (x, y)).c]
    [20.0, 20.0]
    """
    held = dict(zip(variables(len(parts)), parts))

    def read(node: ast.expr) -> Any:
        if (value := constant(node, tuple(held))) is not None:
            return value
        match node:
            case ast.Name(id=name):
                return held[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -read(inner)
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BETWEEN:
                return _BETWEEN[type(op)](read(a), read(b))
            case ast.BinOp(left=a, op=ast.Pow(), right=b) if (power := constant(b, tuple(held))) is not None:
                return read(a) ** power
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]):
                one: Jet = read(inner)
                return one.through(derivatives(from_formula(f"{name}(z)"), one.infinitesimals))
        raise MeanFieldError(
            f"Second derivatives of the Pool {text[:80]!r} are not available: {ast.unparse(node)!r} in it has none "
            "here; write it with + − × ÷, powers and smooth functions."
        )

    return read(tree(text))


@lru_cache(maxsize=64)
def jumps(text: str, size: int) -> bool:
    """Whether f is seen to jump: on 64 random lines through the origin's surroundings, cut into cells that are halved
    40 times, keeping the half with the larger step, a step stays. A look, not a proof; it decides what is refused only.

    >>> jumps("z1 if z1 > z2 else z2", 2), jumps("z1 if z1 > 0.5 else z2", 2)
    (False, True)
    """
    if text in POOLS:
        return False
    drawn = normals(0, 0, 0, 0, 2 * _LINES * size).reshape(2, _LINES, 1, size)
    along = np.linspace(-4.0, 4.0, _CELLS + 1)[:, None]
    points = drawn[0] + drawn[1] * along
    low, high = points[:, :-1].reshape(-1, size), points[:, 1:].reshape(-1, size)
    kernel, empty = group_kernel(text, size), np.empty((0, 0, 0))

    def values(at: np.ndarray) -> np.ndarray:
        out = np.empty((1, 1, len(at)))
        kernel(np.ascontiguousarray(at).reshape(1, 1, -1), out, empty)
        return out[0, 0]

    f_low, f_high = values(low), values(high)
    with np.errstate(all="ignore"):  # a formula that is not finite somewhere is for the networks to report
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            f_middle = values(middle)
            lower = np.abs(f_middle - f_low) >= np.abs(f_high - f_middle)
            low, high = np.where(lower[:, None], low, middle), np.where(lower[:, None], middle, high)
            f_low, f_high = np.where(lower, f_low, f_middle), np.where(lower, f_middle, f_high)
        step = np.abs(f_high - f_low) / (1.0 + np.abs(f_low))
    return bool((step > _JUMP).any())
