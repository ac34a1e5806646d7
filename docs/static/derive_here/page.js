// The form of "Derive it here". Nothing is loaded before the first question; everything comes from beside this file.
(() => {
  const beside = (name) => new URL(name, document.currentScript?.src ?? location.href).href;
  const home = { worker: beside("worker.js"), math: beside("engine/temml.min.js") };
  const form = document.getElementById("derive-here");
  const part = (name) => form.querySelector(`[data-part=${name}]`);
  const [answer, status, stop, go] = ["answer", "status", "stop", "go"].map(part);
  let worker, clock, asked, setter;

  function mathSetter() {
    setter ??= new Promise((done) => {
      const script = document.createElement("script");
      script.src = home.math;
      script.onload = () => done(globalThis.temml);
      script.onerror = () => done(undefined); // the text is there all the same
      document.head.append(script);
    });
    return setter;
  }

  function fresh() {
    worker = new Worker(home.worker, { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data.stage) begin(data.stage);
      else if (data.id === asked) show(data.answer, data.seconds);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      worker.terminate();
      worker = undefined;
      show({ failed: event.message || "the engine could not be loaded" });
    };
  }

  function begin(stage) {
    clearInterval(clock);
    const began = performance.now();
    const say = () => (status.textContent = `${stage} … ${Math.round((performance.now() - began) / 1000)} s`);
    say();
    clock = setInterval(say, 1000);
  }

  function end(said) {
    clearInterval(clock);
    status.textContent = said;
    form.removeAttribute("aria-busy");
    stop.disabled = true;
    go.disabled = false;
  }

  function line(kind, text) {
    const made = document.createElement(kind === "sentence" ? "p" : "pre");
    made.className = kind;
    made.textContent = text; // never as HTML
    return made;
  }

  async function show(found, seconds) {
    end(seconds === undefined ? "" : `answered in ${seconds.toFixed(seconds < 1 ? 2 : 1)} s`);
    asked = undefined;
    const parts = [];
    if (found.call) parts.push(line("call", found.call));
    if (found.refused) parts.push(line("sentence", found.refused));
    if (found.failed) parts.push(line("sentence", `This is an error of the page or of the library: ${found.failed}`));
    if (found.math) {
      const set = document.createElement("div");
      set.className = "set";
      try {
        (await mathSetter())?.render(found.latex, set, { displayMode: true, throwOnError: true });
        parts.push(set);
      } catch {
        // what this setter does not know is read as text below
      }
    }
    if (found.text) parts.push(line("text", found.text));
    if (found.latex) {
      const more = document.createElement("details");
      more.append(Object.assign(document.createElement("summary"), { textContent: "LaTeX" }), line("text", found.latex));
      parts.push(more);
    }
    answer.replaceChildren(...parts);
    form.dispatchEvent(new CustomEvent("answered"));
  }

  function fields() {
    const takesPoint = form.elements.question.selectedOptions[0].hasAttribute("data-point");
    part("point").hidden = !takesPoint;
  }

  form.addEventListener("change", fields);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (location.protocol === "file:") {
      answer.replaceChildren(
        line("sentence", "Browsers start no worker from a file: serve the folder, python -m http.server, and open it there."),
      );
      return;
    }
    if (asked !== undefined) return;
    if (!worker) fresh();
    asked = performance.now();
    form.setAttribute("aria-busy", "true");
    stop.disabled = false;
    go.disabled = true;
    mathSetter();
    begin("asking");
    worker.postMessage({ id: asked, ...Object.fromEntries(new FormData(form)) });
  });
  stop.addEventListener("click", () => {
    worker?.terminate();
    worker = asked = undefined;
    answer.replaceChildren(); // what stood there answers another question than the fields now ask
    end("stopped; the next question loads the engine again");
  });
  go.disabled = false;
  fields();
})();
