// node run.mjs ENGINE FILE [ARGUMENT]...: a file of Python, run by the engine for browsers; what it prints is printed.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [engine, file] = process.argv.slice(2, 4).map((p) => resolve(p));
try {
  const { loadPyodide } = await import(pathToFileURL(`${engine}/pyodide.mjs`));
  const python = await loadPyodide({ indexURL: `${engine}/` });
  python.unpackArchive(new Uint8Array(await readFile(`${engine}/library.zip`)), "zip");
  python.globals.set("arguments", python.toPy(process.argv.slice(3)));
  python.runPython("import sys; sys.argv = list(arguments); __name__ = '__main__'");
  await python.runPythonAsync(await readFile(file, "utf-8"));
} catch (error) {
  console.error(error.message); // without the line of minified source that node shows
  process.exitCode = 1;
}
