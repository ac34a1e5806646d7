"""Imports point one way, and `import meanfield` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "meanfield"
LEVELS = [
    {"symbols", "results", "architecture", "growth", "piecewise", "parser", "taylor", "balls"}
    | {"formula", "isolation", "zeros", "straight_line", "ball_functions", "limits", "arguments", "ranges"}
    | {"tex_read", "tex_width", "tex_lines", "tex_prose", "tex_names", "printed"},
    {"activations"},
    {"symbolic"},
    {"numeric"},
    {"latex", "figures"},
    {"diagrams"},
    {"theory"},
    {"allowances", "comparison", "report"},
    {"cli", "cli_critical", "cli_criticality", "cli_options", "cli_output", "cli_reading", "__main__"},
    {"__init__"},
]
BELOW_EMPIRICAL = {"architecture", "arguments", "limits", "results", "empirical"}


def level(top: str) -> int:
    return next(i for i, names in enumerate(LEVELS) if top in names)


def imported(path: Path) -> set[str]:
    """Top names below `meanfield` that a file imports, at any depth (also inside functions)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "meanfield":
            parts = node.module.split(".")
            found |= (
                {parts[1]} if len(parts) > 1 else {a.name for a in node.names if (PACKAGE / f"{a.name}.py").exists()}
            )
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("meanfield.")}
    return found


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    top = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert_one_way(top, imported(path))


def assert_one_way(top: str, found: set[str]) -> None:
    if top == "empirical":
        assert found <= BELOW_EMPIRICAL, (
            f"empirical imports {found - BELOW_EMPIRICAL}; it must know nothing of the theory"
        )
        return
    if "empirical" in found:
        assert level(top) >= level("comparison"), f"{top} imports empirical"
    for name in found - {"empirical", top}:
        # theory enters the compiled world lazily; nothing else looks upwards
        assert level(name) <= level(top), f"{top} imports {name}, which stands above it"


@pytest.mark.parametrize(
    ("top", "found"), [("symbolic", {"numeric"}), ("empirical", {"activations"}), ("latex", {"theory"})]
)
def test_planted_violations_are_caught(top, found):
    with pytest.raises(AssertionError):
        assert_one_way(top, found)


def test_import_is_light():
    code = "import sys, meanfield; print([m for m in ('numba', 'matplotlib', 'scipy', 'typer') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_derive_and_table_stay_symbolic():
    code = (
        "import sys, meanfield as mf; str(mf.derive('tanh', residual=True).table());"
        "print([m for m in ('numba', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
