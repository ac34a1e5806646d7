// The engine in a thread of its own: Python, its libraries and ask.py, all beside this file. One message is one request.
const beside = (name) => new URL(name, import.meta.url);
let asking; // a promise of the function that answers

async function held(name) {
  const answer = await fetch(beside(name));
  if (!answer.ok) throw new Error(`${name} is not there (${answer.status})`);
  return answer;
}

async function load() {
  const say = (stage) => postMessage({ stage });
  say("loading Python");
  const [archive, source] = ["engine/library.zip", "ask.py"].map(held);
  const { loadPyodide } = await import(beside("engine/pyodide.mjs"));
  const quiet = { stdout: () => {}, stderr: () => {} };
  const python = await loadPyodide({ indexURL: beside("engine/").href, ...quiet });
  say("unpacking the libraries");
  python.unpackArchive(await (await archive).arrayBuffer(), "zip");
  say("importing SymPy and the engine");
  python.runPython(await (await source).text());
  return python.globals.get("ask");
}

onmessage = async ({ data }) => {
  const { id, ...request } = data;
  try {
    asking ??= load();
    const ask = await asking;
    postMessage({ stage: "deriving" });
    const began = performance.now();
    const answer = JSON.parse(ask(JSON.stringify(request)));
    postMessage({ id, answer, seconds: (performance.now() - began) / 1000 });
  } catch (error) {
    postMessage({ id, answer: { failed: String(error.message ?? error).slice(-600) } });
  }
};
