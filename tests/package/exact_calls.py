"""Calls of what is derived, with no number run in floats, and what they answer as text.

`python tests/package/exact_calls.py` prints the answers as JSON, `… 1` those of the first call of each verb. The same
file runs where there is no NumPy, and in a browser's Python: what comes out must agree to the byte.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time

import meanfield as mf

#: the name of the verb → calls of it
CALLS = {
    "derive": ['mf.derive("tanh")', 'mf.derive("gelu", residual=True)', 'mf.derive("z*tanh(z) + z/2", norm="pre")'],
    "recursion": [
        'mf.derive("gelu").recursion("K", "J")',
        'mf.derive("erf").recursion("K", "J", "Theta").doit()',
        'mf.derive("relu").recursion("K", "K_ab").doit()',
        'mf.derive("tanh").recursion("V")',
        'mf.derive("silu", architecture="preln").recursion("K", "J")',
    ],
    "depth_law": [
        'mf.derive("tanh").depth_law("K", sigma_w=1, sigma_b=0)',
        'mf.derive("tanh").depth_law("J", sigma_w=1, sigma_b=0)',
        'mf.derive("tanh").depth_law("J", sigma_w=1.5, sigma_b=0.1)',
        'mf.derive("relu").depth_law("c", sigma_w="sqrt(2)", sigma_b=0)',
        'mf.derive("gelu", residual=True).depth_law("K", sigma_w=1, sigma_b=0)',
    ],
    "critical_points": ['mf.derive("tanh").critical_points()', 'mf.derive("relu").critical_points()'],
    "critical_line": [
        'mf.derive("tanh").critical_line()',
        'mf.derive("erf").critical_line()',
        'mf.derive("relu").critical_line().latex()',
    ],
    "phase": [
        'mf.derive("tanh").phase(sigma_w=1.5, sigma_b=0.1)',
        'mf.derive("relu").phase(sigma_w=2**0.5, sigma_b=0)',
        'mf.derive("erf").phase(sigma_w="3/2", sigma_b="1/10")',
        'mf.derive("tanh", norm="pre").phase(sigma_w=1.5, sigma_b=0.1)',
    ],
    "fixed_points": [
        'mf.derive("tanh").fixed_points(sigma_w=1.5, sigma_b=0.1)',
        'mf.derive("relu").fixed_points(sigma_w=1, sigma_b="0.1")',
        'mf.derive("selu").fixed_points(sigma_w=1, sigma_b=0.1)',
    ],
    "expansions": ['mf.derive("tanh").expansions()', 'mf.derive("relu").expansions(order=2)'],
    "table": ['mf.derive("tanh", residual=True).table()', 'mf.derive("erf").table()'],
    "latex": [
        'mf.derive("tanh").recursion("K", "J").latex()',
        'mf.derive("relu").latex()',
        'mf.derive("erf").table().latex(caption="erf", label="tab:erf")',
        'mf.derive("erf").depth_law("J", sigma_w=1, sigma_b=0).latex()',
    ],
    "susceptibilities": ['mf.derive("tanh").susceptibilities()'],
    "average": ['mf.average("tanh(z)**2", 1).evalf(30)', 'mf.certified(mf.average("sin(z)*z", "1/3"), 25)'],
    "phase_table": ['mf.derive("relu", architecture="full_residual", beta_v="beta_v").phase_table("K")'],
    "to_json": ['mf.derive("tanh").critical_points().to_json()'],
    "cite": ['mf.cite(mf.derive("tanh").critical_points())'],
    "parametrization": ['mf.parametrization("mup")'],
    "refusals": [
        'mf.derive("tnah")',
        'mf.derive("__import__(chr(111))")',
        'mf.derive("z**z")',
        'mf.derive("tanh").recursion("NTK")',
        'mf.derive("tanh").phase(sigma_w=-1, sigma_b=0)',
    ],
}


def answer(call: str) -> str:
    """What a call answers, or how it is refused, as text."""
    try:
        return str(eval(call, {"mf": mf}))
    except mf.MeanFieldError as error:
        return f"{type(error).__name__}: {error}"


def digest(text: str) -> str:
    """The hash of an answer."""
    return hashlib.sha256(text.encode()).hexdigest()


def answers() -> dict[str, str]:
    """Call → answer, of all calls."""
    return {call: answer(call) for calls in CALLS.values() for call in calls}


def main() -> None:
    """Print the answers, their hashes, and the seconds that each took."""
    each, found = int(sys.argv[1]) if sys.argv[1:] else None, {}
    for calls in CALLS.values():
        for call in calls[:each]:
            began = time.perf_counter()
            text = answer(call)
            found[call] = {"answer": text, "sha256": digest(text), "seconds": time.perf_counter() - began}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
