// node pack.mjs ENGINE LIBRARIES ZIP: a folder of libraries as one archive, each module compiled by the Python that
// stands in ENGINE. Sources stay out: compiling SymPy takes a browser longer than everything else.
import { pathToFileURL } from "node:url";
import { dirname, basename, resolve } from "node:path";

const [engine, libraries, target] = process.argv.slice(2).map((p) => resolve(p));
const { loadPyodide } = await import(pathToFileURL(`${engine}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: `${engine}/` });
for (const [at, root] of [["/libraries", libraries], ["/made", dirname(target)]]) {
  python.FS.mkdirTree(at);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, at);
}
python.globals.set("target", `/made/${basename(target)}`);
await python.runPythonAsync(`
import importlib._bootstrap_external as files
import os
import zipfile

KEPT = (".py", ".so", ".pyi")  # stubs say where public names come from


def content(path, name):
    with open(path, "rb") as held:
        data = held.read()
    if not name.endswith(".py"):
        return name, data
    code = compile(data, name, "exec", dont_inherit=True)
    return name + "c", bytes(files._code_to_timestamp_pyc(code))


with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
    for folder, inner, names in os.walk("/libraries"):
        inner.sort()
        for one in sorted(names):
            path = os.path.join(folder, one)
            if one.endswith(KEPT) or ".dist-info" in folder and one != "RECORD":  # versions and licences
                name, data = content(path, os.path.relpath(path, "/libraries"))
                made.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)  # dated 1980: the same each time
`);
