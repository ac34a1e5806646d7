"""The command `doctor`: what is installed, where compiled code is kept, and whether a short calculation comes out."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from meanfield.cli.terminal import output as out
from meanfield.cli.terminal.options import Json, OutputWithoutLatex, chosen

NEEDED = ("sympy", "mpmath", "numpy", "scipy", "numba", "python-flint", "typer", "rich", "lazy-loader")
#: what a package that not everybody has is for
OPTIONAL = {
    "matplotlib": "figures",
    "pandas": "to_frame",
    "xarray": "to_xarray",
    "scikit-learn": "kernels in its estimators",
    "dask": "ensembles on a cluster",
    "numba-cuda": "ensembles on a GPU",
}


def doctor(json: Json = False, output: OutputWithoutLatex = None) -> None:
    """Say what is installed and whether it works.

    Versions, optional packages, cores, the folder of compiled code, and K of erf by
    its closed form against the compiled recursion. Exit code 1 where something that
    is needed is missing or comes out wrong.
    """
    form = chosen(json, output)
    found = findings()
    text = out.document("doctor", {}, found) if form.json else report_text(found)
    out.emit(text, form.path)
    if not found["works"]:
        raise typer.Exit(1)


def findings() -> dict[str, Any]:
    """What there is, by name, and whether all that is needed works."""
    package: Any = sys.modules["meanfield"]
    needed = {name: _version(name) for name in NEEDED}
    seconds, off, error = _trial()
    cache, writable = _cache()
    return {
        "meanfield": package.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "needed": needed,
        "optional": {name: _version(name) for name in OPTIONAL},
        "tex": shutil.which("pdflatex") is not None,
        "cache": cache,
        "cache_is_writable": writable,
        "trial": {"seconds": seconds, "off": off, "error": error},
        "works": all(needed.values()) and not error,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cache() -> tuple[str, bool]:
    from meanfield.numeric.lowering.modules.storage import folder

    where = folder()
    return str(where), os.access(where, os.W_OK)


def _trial() -> tuple[float, float, str]:
    """(seconds, how far K of erf is from its closed form, what went wrong)."""
    import sympy as sp

    from meanfield.theory.deriving import derive

    begun = time.perf_counter()
    try:
        theory = derive("erf")
        run = theory.propagate(sigma_w=1.5, sigma_b=0.25, depth=2)
        exact = theory.recursion("K").doit().at(sigma_w="3/2", sigma_b="1/4", K=sp.Rational(float(run.K[0])))["K"]
        off = abs(float(run.K[1]) / float(exact) - 1)
    except Exception as problem:  # whatever it is, it is what the reader came to see
        return time.perf_counter() - begun, float("nan"), f"{type(problem).__name__}: {problem}"
    wrong = "" if off < 1e-12 else f"K of erf is {off:.1e} off its closed form"
    return time.perf_counter() - begun, off, wrong


def report_text(found: dict[str, Any]) -> str:
    """The same as text."""
    lines = [f"meanfield {found['meanfield']}, Python {found['python']}, {found['machine']}", ""]
    for name, one in found["needed"].items():
        lines.append(f"  {name:<14} {one or 'MISSING: pip install ' + name}")
    lines.append("")
    for name, one in found["optional"].items():
        lines.append(f"  {name:<14} {one or 'not installed'} ({OPTIONAL[name]})")
    lines.append(f"  {'TeX':<14} {'found' if found['tex'] else 'not found'} (the LaTeX of tables)")
    state = "" if found["cache_is_writable"] else " (not writable: code is compiled anew in every process)"
    trial = found["trial"]
    lines += ["", out.wrapped(f"Compiled code is kept in {found['cache']}{state}.")]
    ending = f"it does not work: {trial['error']}" if trial["error"] else f"{trial['off']:.1e} off its closed form"
    return "\n".join([*lines, f"K of erf, compiled and run in {trial['seconds']:.1f} s: {ending}."])
