"""Derivatives of a recursion by its parameters, as a recursion: the state and, by its side, how each variable moves."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Step


def moved(name: str, by: sp.Symbol) -> sp.Symbol:
    """The symbol of the derivative of a variable or intermediate."""
    return sp.Symbol(f"d{name}_by_{by.name}", real=True)


def with_tangents(recursion: Recursion, parameters: tuple[sp.Symbol, ...]) -> Recursion:
    """The recursion with the derivatives of its state by parameters: dx' = ∂F/∂x dx + ∂F/∂p, averages included."""
    state = recursion.state
    for p in parameters:
        state += tuple(StateVar(f"d{v.name}_by_{p.name}", moved(v.name, p), v.initial.diff(p)) for v in recursion.state)
    steps = [_moving(recursion, step, parameters) for step in recursion.steps]
    return replace(recursion, state=state, block=steps[-1], head=tuple(steps[:-1]), readout=(), closer=())


def _moving(recursion: Recursion, step: Step, parameters: tuple[sp.Symbol, ...]) -> Step:
    definitions = list(step.definitions)
    more: list[sp.Expr] = []
    for p in parameters:
        by = {v.symbol: moved(v.name, p) for v in recursion.state}

        def slope(e: sp.Expr, p=p, by=by) -> sp.Expr:
            through = [e.diff(s) * d for s, d in by.items() if s in e.free_symbols]
            return sp.Add(e.diff(p), *through)

        for symbol, e in step.definitions:
            definitions.append((moved(symbol.name, p), slope(e)))
            by[symbol] = moved(symbol.name, p)
        more += [slope(sp.sympify(e)) for e in step.next]
    return Step((*step.next, *more), tuple(definitions))
