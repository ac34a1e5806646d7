"""Recursions as data: an architecture as the text that makes it, a map as text in which averages are names.

`tests/references/contract.json` holds what the engine derived for every architecture of the tests before its middle was
rebuilt; `tests/symbolic/recursions/test_contract.py` compares. Nothing here derives anything.
"""

from __future__ import annotations

import re
from dataclasses import fields
from fractions import Fraction

import sympy as sp

from meanfield.base.symbols import Z, parameter, sigmoid, softplus
from meanfield.functions.activations import Activation, activation
from meanfield.functions.isolation import Root
from meanfield.networks import records as architecture
from meanfield.symbolic.averages.node import Average, average, outermost

RECORDS = {
    name: getattr(architecture, name)
    for name in ("Dense", "Nonlinearity", "LayerNorm", "Sequential", "Residual", "Param", "Schedule", "Constant")
}


def place(free, kind: str) -> dict:
    """Where numbers are kept: the arguments of `propagate` for a recursion with these free symbols."""
    known = dict.fromkeys((s.name for s in free), 0.375) | {"sigma_w": 1.3, "sigma_b": 0.2, "depth": 8}
    known |= {"input_jacobian": {"input_dimension": 3.0}, "two_inputs": {"correlation": 0.3}}.get(kind, {})
    named = {s.name for s in free} | {"sigma_w", "sigma_b", "depth", "correlation", "input_dimension"}
    return {k: v for k, v in known.items() if k in named - {"Q0", "c0", "N0"}}


def architecture_text(block) -> str:
    """The Python expression that makes a record, arguments that have their usual values left out."""
    match block:
        case Activation():
            return _activation_text(block)
        case tuple():
            return f"({', '.join(architecture_text(b) for b in block)},)"
        case Fraction():
            return f"Fraction({block.numerator}, {block.denominator})"
        case str() | int() | bool() | None:
            return repr(block)
    if type(block).__name__ not in RECORDS:
        raise ValueError(f"no text for {block!r}")
    said = [(f, getattr(block, f.name)) for f in fields(block)]
    parts = [
        f"{f.name}={architecture_text(v)}" if i else architecture_text(v)
        for i, (f, v) in enumerate(said)
        if v != f.default
    ]
    return f"{type(block).__name__}({', '.join(parts)})"


def _activation_text(record: Activation) -> str:
    if record.name == "custom":
        written = record.source if record.arguments is not None else record.expression
        made = repr(written) if isinstance(written, str) else f"formula({str(written)!r})"
        call = made, *(f"{k}={str(v)!r}" for k, v in record.arguments or ())
    else:
        call = repr(record.name), *(f"{k}={str(v)!r}" for k, v in record.parameters)
    text = f"activation({', '.join(call)})"
    if read_architecture(text) != record:
        raise ValueError(f"{record!r} does not come back from {text}")
    return text


def read_architecture(text: str):
    """The record that `architecture_text` wrote (a text of this repository, not a user's)."""
    known = RECORDS | {"activation": activation, "Fraction": Fraction, "formula": lambda e: _read(e, {})}
    return eval(text, {"__builtins__": {}}, known)


def encode(expressions) -> dict:
    """Expressions as text: {"nodes": [[name, integrand, covariances, means], ...], "expressions": [...]}; a node's
    covariance names only nodes before it."""
    names: dict[Average, sp.Symbol] = {}
    nodes: list[list] = []

    def text(e) -> str:
        return str(e.xreplace({a: name(a) for a in sorted(outermost(e), key=str)}))

    def name(node: Average) -> sp.Symbol:
        if node not in names:
            inside = [node.integrand.xreplace(dict(zip(Z, _VARIABLES))), *node.cov, *node.mean]
            written = [text(e) for e in inside]
            n, c = node.dimension, len(node.cov)
            names[node] = sp.Symbol(f"A{len(nodes)}")
            nodes.append([str(names[node]), written[0], written[1 : 1 + c], written[1 + c : 1 + c + n]])
        return names[node]

    return {"expressions": [text(sp.sympify(e)) for e in expressions], "nodes": nodes}


def _read(text: str, known: dict[str, sp.Expr]) -> sp.Expr:
    words = re.findall(r"[A-Za-z_]\w*(?!\w*\s*\()", text)  # what is not called
    symbols = {w: known.get(w, parameter(w)) for w in words if w not in _CONSTANTS}
    return sp.parse_expr(text, local_dict={"sigmoid": sigmoid, "softplus": softplus, "root": _root} | symbols)


def _root(f: sp.Expr, near: sp.Float) -> Root:
    """A switch point without a closed form, as `Root` prints: the zero of f(z) near a number of six digits."""
    slack = sp.Rational(1, 10**4)
    return Root(f.xreplace({parameter("z"): Z[0]}), sp.Rational(near) * (1 - slack), sp.Rational(near) * (1 + slack))


_VARIABLES = sp.symbols("z0:4", real=True)
_CONSTANTS = {"pi", "E", "oo", "True", "False"}


def decode(data: dict) -> list[sp.Expr]:
    """What `encode` wrote, averages made anew."""
    known: dict[str, sp.Expr] = {str(v): v for v in _VARIABLES}
    for name, f, cov, mean in data["nodes"]:
        integrand = _read(f, known).xreplace(dict(zip(_VARIABLES, Z)))
        known[name] = average(integrand, tuple(_read(c, known) for c in cov), tuple(_read(m, known) for m in mean))
    return [_read(text, known) for text in data["expressions"]]
