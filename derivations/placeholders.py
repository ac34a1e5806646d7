"""Placeholders in a printed formula: averages over the network's own φ, so that one claim covers several φ.

One input is N(0, K); two inputs of one norm have the covariance (K, cK, K), or (σ_μ² + σ_y², σ_μ², σ_μ² + σ_y²).
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

import meanfield as mf
from derivations import nested
from meanfield.base.symbols import LATEX_NAMES, K, Z, parameter, sigma_b, sigma_mu2, sigma_w, sigma_y2, z

mu, c, gamma = parameter("mu"), parameter("c"), parameter("gamma")
s = sigma_w**2 + sigma_b**2  # K with LayerNorm on activations, from layer 2 on

mean, square, slope = sp.symbols("<phi> <phi^2> <phi'^2>", real=True)  # over N(0, K)
A, B = sp.symbols("A B", positive=True)  # ⟨φ′²⟩ and ⟨φ²⟩ at K = 1
mean_s, square_s, slope_s = sp.symbols("<phi>_s <phi^2>_s <phi'^2>_s", real=True)  # at K = s
square_K, slope_K, slope_1 = sp.symbols("d<phi^2>/dK d<phi'^2>/dK d<phi'^2>/dK_1", real=True)
stein, delta = sp.symbols("<phi'^2+phi*phi''> <phi''^2+phi'''*phi'>", real=True)  # for smooth φ
curl = sp.Symbol("<phi*phi''>", real=True)  # for smooth φ

pair, pair_slope, pair_bend = sp.symbols("<phi_a*phi_b> <phi'_a*phi'_b> <phi_a*phi''_b>", real=True)  # at K, c
square_q, pair_q = sp.symbols("<phi^2>_q <phi_a*phi_b>_q", real=True)  # at σ_μ², σ_y²
nested_square, nested_mean = sp.symbols("bar<phi^2> bar<phi>^2", real=True)  # over data at fixed weights, then weights
square_root = sp.Symbol("<phi^2>_sqrt(K)", real=True)

#: how they are printed: `meanfield.base.answers.latex` reads this table
LATEX_NAMES |= {
    mean: r"\langle \varphi \rangle", square: r"\langle \varphi^2 \rangle", slope: r"\langle \varphi'^2 \rangle",
    mean_s: r"\langle \varphi \rangle_s", square_s: r"\langle \varphi^2 \rangle_s",
    slope_s: r"\langle \varphi'^2 \rangle_s", square_K: r"\partial_K \langle \varphi^2 \rangle",
    slope_K: r"\partial_K \langle \varphi'^2 \rangle", slope_1: r"\partial_K \langle \varphi'^2 \rangle_{K = 1}",
    stein: r"\langle \varphi'^2 + \varphi \varphi'' \rangle", curl: r"\langle \varphi \varphi'' \rangle",
    delta: r"\langle \varphi''^2 + \varphi''' \varphi' \rangle", pair: r"\langle \varphi_a \varphi_b \rangle",
    pair_slope: r"\langle \varphi'_a \varphi'_b \rangle", pair_bend: r"\langle \varphi_a \varphi''_b \rangle",
    square_q: r"\langle \varphi^2 \rangle_q", pair_q: r"\langle \varphi_a \varphi_b \rangle_q",
    nested_square: r"\overline{\langle \varphi^2 \rangle}", nested_mean: r"\overline{\langle \varphi \rangle}^2",
    square_root: r"\langle \varphi^2 \rangle_{\sqrt{K}}", parameter("a_plus"): "a_+", parameter("a_minus"): "a_-",
    sp.Symbol("y_", real=True): "y_0",
}  # fmt: skip

_BY_HAND = {stein, delta, curl}  # derivatives taken here, not by the engine
_PAIRS = {pair, pair_slope, pair_bend, pair_q}
_NODES = {
    "phi": {mean, mean_s},
    "phi^2": {square, square_s, B, square_K, square_q, square_root},
    "phi'^2": {slope, slope_s, A, slope_K, slope_1},
}
_NESTED = {nested_square, nested_mean}
_PLACES = _BY_HAND | _PAIRS | _NESTED | set().union(*_NODES.values())
_AT = {A: 1, B: 1, slope_1: 1, mean_s: s, square_s: s, slope_s: s}
_AT |= {square_q: sigma_mu2 + sigma_y2, square_root: sp.sqrt(K)}


def filled(e: sp.Expr, phi: mf.Activation) -> sp.Expr:
    """The printed expression with the averages of φ in place of the placeholders."""
    return e.xreplace({p: _average(phi, p) for p in e.free_symbols & _PLACES})


@lru_cache(maxsize=512)
def _average(phi: mf.Activation, placeholder: sp.Symbol) -> sp.Expr:
    f = phi.expression
    if placeholder in _PAIRS:
        return _of_two(f, placeholder)
    if placeholder in _NESTED:
        return nested.square(f) if placeholder == nested_square else nested.square_of_mean(f)
    if placeholder in _BY_HAND:
        first, second, third = (f.diff(z, k) for k in (1, 2, 3))
        by_hand = {stein: first**2 + f * second, delta: second**2 + third * first, curl: f * second}
        return mf.average(by_hand[placeholder], K)
    (name,) = (n for n, group in _NODES.items() if placeholder in group)
    node = mf.derive(phi).averages()[name]
    if placeholder in (square_K, slope_K, slope_1):
        node = sp.diff(node, K)
    return node.subs(K, _AT.get(placeholder, K))


def _of_two(f: sp.Expr, placeholder: sp.Symbol) -> sp.Expr:
    factors = {pair_slope: (1, 1), pair_bend: (0, 2)}.get(placeholder, (0, 0))
    one, two = (f.diff(z, k).subs(z, Z[i]) for i, k in enumerate(factors))
    if placeholder == pair_q:
        return mf.average(one * two, (sigma_mu2 + sigma_y2, sigma_mu2, sigma_mu2 + sigma_y2))
    return mf.average(one * two, (K, c * K, K))
