"""Make the folder with which the page "Derive it here" runs the engine: Python, SymPy, mpmath, python-flint and this
package for a browser, with the bytecode that its Python makes.

    python docs/browser/assemble.py [FOLDER] [--packages FOLDER] [--wheels FOLDER]

FOLDER: where it is made, `docs/static/derive_here/engine` unless given; 34 MB. --packages: a folder with npm's packages
`pyodide` and `temml` (which sets formulas), unpacked; fetched by `npm pack` unless given. --wheels: a folder with the
wheels of what is needed, for Emscripten where they hold compiled code; fetched by `pip download` unless given, in the
versions that are installed, so that answers agree to the byte. Needs node.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENGINE = ROOT / "docs" / "static" / "derive_here" / "engine"
PACKAGES = {"pyodide": "314.0.7", "temml": "0.13.5"}  # of npm
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
LIBRARIES = ("sympy", "mpmath", "python-flint", "lazy-loader")
LEFT_OUT = ("/tests/", "/test/", "/benchmarks/", "/cuda/")  # of the libraries; what is in them answers nobody


def source_hash() -> str:
    """A hash of the package's sources: tells whether a folder was made of them."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "meanfield").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()


def state_of(engine: Path) -> str:
    """"" of a folder that is whole and made of the present sources; otherwise what is wrong with it, in a sentence."""
    try:
        made = json.loads((engine / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError):
        return "the engine for browsers is not there; python docs/browser/assemble.py makes it"
    if made["sources"] != source_hash():
        return "the engine for browsers was made of other sources; python docs/browser/assemble.py makes it anew"
    missing = [name for name, size in made["files"].items() if not _has(engine / name, size)]
    return f"the engine for browsers lacks {missing[0]}; python docs/browser/assemble.py makes it" if missing else ""


def _has(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def npm_packages(folder: Path) -> Path:
    """npm's `PACKAGES`, unpacked into a folder, each under its name."""
    for name, wanted in PACKAGES.items():
        command = ["npm", "pack", "--silent", f"{name}@{wanted}"]
        file = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()[-1]
        with tarfile.open(folder / file) as held:
            held.extractall(folder / name, filter="data")
        (folder / name / "package").rename(folder / "package")
        (folder / name).rmdir()
        (folder / "package").rename(folder / name)
    return folder


def wheels(folder: Path, info: dict[str, str]) -> Path:
    """The wheels of `LIBRARIES`, in the versions that are installed, for the Python and Emscripten of a Pyodide."""
    python = ".".join(info["python"].split(".")[:2])
    for name in LIBRARIES:
        wanted = [f"{name}=={version(name)}", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
        if name == "python-flint":
            wanted += ["--platform", f"pyemscripten_{info['abi_version']}_wasm32", "--python-version", python]
            wanted += ["--implementation", "cp", "--abi", f"cp{python.replace('.', '')}"]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *wanted], check=True)
    return folder


def unpack(folder: Path, target: Path) -> None:
    """All wheels of a folder and this package, as they stand in a folder of libraries."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as held:
            held.extractall(target, [n for n in held.namelist() if not any(part in f"/{n}" for part in LEFT_OUT)])
    kept = shutil.ignore_patterns("__pycache__", "cuda")
    shutil.copytree(ROOT / "meanfield", target / "meanfield", ignore=kept)


def assemble(engine: Path, packages: Path | None = None, libraries: Path | None = None) -> dict:
    """Make the folder; returns its manifest."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        packages = packages or npm_packages(work)
        info = json.loads((packages / "pyodide" / "pyodide-lock.json").read_text("utf-8"))["info"]
        (work / "wheels").mkdir()
        unpack(libraries or wheels(work / "wheels", info), work / "libraries")
        made = work / "engine"
        made.mkdir()
        for file in CORE:
            shutil.copyfile(packages / "pyodide" / file, made / file)
        shutil.copyfile(packages / "temml" / "dist" / "temml.min.js", made / "temml.min.js")
        shutil.copyfile(packages / "temml" / "LICENSE", made / "temml.LICENSE")
        (made / "pyodide-lock.json").write_text(json.dumps({"info": info, "packages": {}}))  # nothing else is loaded
        command = ["node", str(HERE / "pack.mjs"), str(made), str(work / "libraries"), str(made / "library.zip")]
        subprocess.run(command, check=True)
        sizes = {path.name: path.stat().st_size for path in sorted(made.iterdir())}
        versions = {"python": info["python"]} | {name: version(name) for name in LIBRARIES}
        for name in PACKAGES:
            versions[name] = json.loads((packages / name / "package.json").read_text("utf-8"))["version"]
        manifest = {"sources": source_hash(), "versions": versions, "files": sizes}
        (made / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
        shutil.rmtree(engine, ignore_errors=True)
        engine.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, engine)
    return manifest


def main() -> None:
    """The command line."""
    known = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    known.add_argument("folder", nargs="?", type=Path, default=ENGINE)
    known.add_argument("--packages", type=Path)
    known.add_argument("--wheels", type=Path)
    given = known.parse_args()
    for program in ("node", *(() if given.packages else ("npm",))):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is needed and was not found on the path.")
    manifest = assemble(given.folder, given.packages, given.wheels)
    print(f"{given.folder}: {sum(manifest['files'].values()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
