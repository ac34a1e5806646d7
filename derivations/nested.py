"""Averages over data at fixed weights, and of those over weights: a neuron is y = μ + σ_y ε.

⟨·⟩ is over ε at fixed μ (data), the bar over μ ~ N(0, σ_μ²) (weights). Both are done one after the other, so that they
decide statements on a recursion that was derived from two inputs.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

import meanfield as mf
from meanfield.base.symbols import parameter, sigma_mu2, sigma_y2, z

mu = parameter("mu")
_CENTRES, _SPREAD = sp.symbols("v_mu v_y", positive=True)


def over_data(f: sp.Expr) -> sp.Expr:
    """⟨f(y)⟩ at fixed μ, as a function of μ and σ_y²."""
    return _inner(f).subs(_SPREAD, sigma_y2)


@lru_cache(maxsize=256)
def square(f: sp.Expr) -> sp.Expr:
    """The bar over ⟨f²⟩."""
    return _outer(_inner(f**2))


@lru_cache(maxsize=256)
def square_of_mean(f: sp.Expr) -> sp.Expr:
    """The bar over ⟨f⟩²."""
    return _outer(_inner(f) ** 2)


def _inner(f: sp.Expr) -> sp.Expr:
    found = mf.symbolic.closed(mf.average(f, _SPREAD, (mu,)))
    if found.has(mf.symbolic.Average):
        raise mf.symbolic.NoClosedForm(
            f"⟨{f}⟩ over data has no closed form, so it cannot be averaged over weights by symbols."
        )
    return found.replace(sp.erfc, lambda x: 1 - sp.erf(x))


def _outer(f: sp.Expr) -> sp.Expr:
    found = mf.symbolic.closed(mf.average(f.subs(mu, z), _CENTRES))
    return found.subs({_CENTRES: sigma_mu2, _SPREAD: sigma_y2})
