"""A cache that cannot lie: whatever can change a generated module is part of its key."""

import ast
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

import meanfield
from meanfield.numeric.lowering.modules import cache

ROOT = Path(meanfield.__file__).parent


def _imports(path: Path) -> set[Path]:
    """Files of the package that `path` imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("meanfield"):
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("meanfield")]
        for name in names:
            base = ROOT.joinpath(*name.split(".")[1:])
            found |= {p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()}
    return found - {ROOT / "__init__.py"}


def assert_covers(hashed: set[Path]) -> None:
    """Every module that the generating modules reach through imports is part of the key."""
    todo, seen = [ROOT / "numeric" / "lowering" / "assembly.py", ROOT / "numeric" / "phases" / "phase_grids.py"], set()
    apart = {p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).as_posix().startswith(cache._APART)}
    while todo:
        path = todo.pop()
        if path not in seen | apart:
            seen.add(path)
            todo += _imports(path)
    assert len(seen) > 20
    missing = " ".join(sorted(p.name for p in seen - hashed))
    assert not missing, missing


@pytest.mark.slow
def test_the_key_covers_everything_that_derives():
    assert_covers(set(cache.sources()))
    with pytest.raises(AssertionError, match=r"closed_form\.py"):
        assert_covers(set((ROOT / "numeric").rglob("*.py")))


def test_the_key_depends_on_the_versions(monkeypatch):
    before = cache.key("K")
    for name in ("sympy", "mpmath", "numpy", "numba", "python-flint"):
        cache._engine.cache_clear()
        plain = cache.version
        with monkeypatch.context() as patch:
            patch.setattr(cache, "version", lambda n, name=name, plain=plain: "0" if n == name else plain(n))
            patch.setattr(cache, "_times", lambda name=name: f"of_{name}")
            assert cache.key("K") != before, name
    cache._engine.cache_clear()
    assert cache.key("K") == before


def test_the_kept_hash_is_of_these_files(tmp_path, monkeypatch):
    """A file that is written, moved, longer or gone, and a library that is installed anew, are other times."""
    before = cache._times()
    assert cache._times() == before
    file, package = tmp_path / "one.py", tmp_path / "sympy"
    file.write_text("x = 1")
    others = [(str(file), file.stat())]
    plain = cache._files
    monkeypatch.setattr(cache, "_files", lambda folder: [*plain(folder), *others])
    seen = {before, cache._times()}
    os.utime(file, ns=(0, 0))
    others[0] = (str(file), file.stat())
    seen.add(cache._times())
    file.write_text("x = 10")
    os.utime(file, ns=(0, 0))
    others[0] = (str(file), file.stat())
    seen.add(cache._times())
    monkeypatch.syspath_prepend(str(tmp_path))
    assert cache._times() in seen
    package.mkdir()
    assert cache._times() not in seen and len(seen) == 4


KEYS = """
import meanfield as mf
from meanfield.numeric.lowering.assembly import described
for phi in ("gelu", "z*erf(z) + exp(-z**2)"):
    for given in ({}, {"residual": True}, {"norm": "act"}, {"architecture": "preln"}):
        theory = mf.derive(phi, **given)
        print(described(theory.recursion("K", "J", "Theta")), described(theory.recursion("K_aa", "K_bb", "K_ab")))
"""


@pytest.mark.slow
def test_keys_are_the_same_in_every_process():
    """Sums are written as they stand, and how SymPy orders their terms must not depend on hashes of this process."""
    found = {
        subprocess.run(
            [sys.executable, "-c", KEYS], env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(found) == 1 and len(found.pop()) > 10_000


PROGRAM = """
import meanfield as mf
print(mf.derive("erf").propagate(sigma_w=1.5, sigma_b=0.1, depth=3, quantities=("K",)).K[-1].hex())
"""


def _value(root: Path, folder: Path) -> float:
    environment = os.environ | {"MEANFIELD_CACHE": str(folder), "PYTHONPATH": str(root), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return float.fromhex(done.stdout.strip())


@pytest.mark.slow
def test_a_warm_cache_sees_a_broken_closed_form(tmp_path):
    """The engine is broken on purpose in a copy; the cache, warm from the right one, must not hide it."""
    root, folder = tmp_path / "copy", tmp_path / "cache"
    shutil.copytree(ROOT, root / "meanfield", ignore=shutil.ignore_patterns("__pycache__", "empirical"))
    shutil.copytree(ROOT / "empirical", root / "meanfield" / "empirical", ignore=shutil.ignore_patterns("__pycache__"))
    right = _value(root, folder)
    broken = root / "meanfield" / "symbolic" / "equality.py"
    text = broken.read_text()
    assert "def closed(" in text
    broken.write_text(text + "\n_right = closed\n\n\ndef closed(expr):\n    return _right(expr) * 101 / 100\n")
    assert abs(_value(root, folder) / right - 1) > 1e-3
    keyed = root / "meanfield" / "numeric" / "lowering" / "modules" / "cache.py"
    # control: with one file of lowering as key, the old number comes back
    keyed.write_text(keyed.read_text() + "\n\ndef sources():\n    return sorted(Path(__file__).parent.glob('s*.py'))\n")
    broken.write_text(text)
    assert _value(root, folder) == right
    broken.write_text(text + "\n_right = closed\n\n\ndef closed(expr):\n    return _right(expr) * 101 / 100\n")
    assert _value(root, folder) == right


def test_symbols_of_the_input_layer_do_not_shift_those_of_the_block():
    """Two networks with the same block, whose input layers hold other symbols, share no module: K² is σ_w²⟨φ²⟩."""
    block = meanfield.networks.mlp("linear")
    for symbols in (("i_w",), ("i_b", "i_w")):
        w, b = meanfield.Param("i_w"), meanfield.Param(symbols[0]) if len(symbols) > 1 else 0
        theory = meanfield.derive(architecture=meanfield.Network(block, meanfield.Dense(sigma_w=w, sigma_b=b)))
        values = {"i_w": 2.0} | ({symbols[0]: 1.0} if b else {})
        run = theory.propagate(sigma_w=3.0, sigma_b=0.5, depth=2, **values)
        first = 4.0 + (1.0 if b else 0.0)
        assert run.K.tolist() == [first, 9 * first + 0.25]


def test_threads_that_load_one_module_see_it_whole(tmp_path, monkeypatch):
    """Two blocks of a first kernel are computed at once, and both ask for the module that is just imported."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\nblock = 1\n")
    monkeypatch.delitem(sys.modules, "meanfield_cache.slow", raising=False)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda name: cache.load(name).block, ["slow"] * 4)) == [1] * 4
    (tmp_path / "broken.py").write_text("raise OSError('half')\n")
    for _ in range(2):  # the second time as the first: no half of it stays
        with pytest.raises(OSError, match="half"):
            cache.load("broken")
    monkeypatch.delitem(sys.modules, "meanfield_cache.slow")
    monkeypatch.setattr(cache, "_LOADING", nullcontext())  # the control: without the lock
    with ThreadPoolExecutor(4) as pool, pytest.raises(AttributeError, match="block"):
        list(pool.map(lambda name: cache.load(name).block, ["slow"] * 4))
