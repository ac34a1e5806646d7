// What a page does with a model: follow the pointer, hold a clicked point, say where it stops.
const meanfieldExplorer = (function () {
  const clean = (column) => column.map((x) => (Number.isFinite(x) ? x : NaN));
  const given = (x) => Number(x.toPrecision(12)).toString();  // what is copied gives the numbers that stand here
  const digits = (x) => {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? 'not known here' : String(x).replace('Infinity', '∞');
    const size = Math.abs(x);
    return size >= 1e7 || (size > 0 && size < 1e-4) ? x.toExponential(6) : Number(x.toPrecision(7)).toString();
  };

  const put = (source, data) => source.setv({data}, {sync: false});  // a server need not know

  function room(parts) {
    const engine = parts.engine;
    if (!engine.room || engine.room.version !== engine.tags[0]) {
      const script = engine.data.script[0];
      const model = script ? new Function('return ' + script)() : null;
      const old = engine.room || {held: false, at: engine.data.start[0]};
      engine.room = {version: engine.tags[0], model, held: old.held, at: old.at, started: old.started, waiting: false};
    }
    return engine.room;
  }

  function settings(parts, at) {
    const p = {sigma_w: at[0], sigma_b: at[1], Q0: Math.pow(10, parts.norm.value), c0: parts.cosine.value};
    Object.assign(p, parts.engine.data.fixed[0]);
    for (const slider of parts.sliders) p[slider.name] = slider.value;
    return p;
  }

  function later(parts) {  // one picture a frame: what came in between is dropped
    const own = room(parts);
    if (own.waiting) return;
    own.waiting = true;
    requestAnimationFrame(() => { own.waiting = false; paint(parts); });
  }

  function moved(parts, event) {
    const own = room(parts);
    if (own.held || !(event.x >= 0) || !(event.y >= 0)) return;
    own.at = [event.x, event.y];
    later(parts);
  }

  function tapped(parts, event) {
    const own = room(parts);
    if (!(event.x >= 0) || !(event.y >= 0)) return;
    const x = parts.plane.x_range, y = parts.plane.y_range;
    const far = Math.hypot((event.x - own.at[0]) / (x.end - x.start), (event.y - own.at[1]) / (y.end - y.start));
    own.held = !(own.held && far < 0.02);
    own.at = [event.x, event.y];
    paint(parts);
    ask(parts);
  }

  function ask(parts) {  // a server for what it certifies of the point that is held
    const own = room(parts);
    if (!own.held || !own.model) return;
    const p = settings(parts, own.at);
    const data = {sigma_w: [p.sigma_w], sigma_b: [p.sigma_b], norm: [p.Q0], depth: [parts.depth.value]};
    for (const slider of parts.sliders) data[slider.name] = [slider.value];
    parts.asked.data = Object.assign(data, {version: [own.version]});  // what is equal is not sent
  }

  function changed(parts) {
    const own = parts.engine.room, before = own && own.version;
    later(parts);
    if (before !== undefined && before !== room(parts).version) ask(parts);  // another model, the same point
  }

  function spread(low, high, count) {
    return Array.from({length: count}, (_, i) => low + (high - low) * i / (count - 1));
  }

  function stairs(pairs) {  // the path of a cobweb through (x_0, x_1), (x_1, x_2), …
    const x = [], y = [];
    for (let i = 0; i + 1 < pairs.length && i < 40; i++) {
      x.push(pairs[i], pairs[i]);
      y.push(i ? pairs[i] : NaN, pairs[i + 1]);
    }
    return {x, y};
  }

  function paint(parts) {
    const own = room(parts), began = performance.now();
    put(parts.pointer, {x: [own.at[0]], y: [own.at[1]]});
    if (!own.model) return;
    forget(parts, own);
    const p = settings(parts, own.at), depth = parts.depth.value;
    const run = follow(own.model, p, depth), columns = run.columns, K = columns.K;
    const layers = K.map((_, i) => i + 1), none = K.map(() => NaN), c = columns.c || none;
    put(parts.curves, {
      l: layers, K: clean(K), log_J: columns.log_J ? clean(columns.log_J) : none, c: clean(c),
      distance: columns.log_distance ? clean(columns.log_distance.map((x) => Math.exp(x))) : none,
    });
    const end = settle(own.model, p, 4000);
    cobwebs(parts, own.model, p, K, c, end);
    parts.says.setv({text: told(parts, own, p, run, end)}, {sync: false});
    if (own.started) colours(parts);
    own.last = {p, depth, run, end, took: performance.now() - began};
  }

  function forget(parts, own) {  // bands of networks are those of one point
    const key = JSON.stringify([settings(parts, own.at), parts.depth.value, own.version]);
    if (own.seen !== key && own.seen) {
      for (const one of [parts.bands_K, parts.bands_J]) if (one.data.l.length) put(one, {l: [], low: [], high: []});
      parts.certified.setv({text: ''}, {sync: false});
    }
    own.seen = key;
  }

  // the plane's colours by log χ_J*, a few rows at a time; what is no longer wanted stops
  function colours(parts) {
    const own = room(parts), image = parts.picture.data.image[0], size = Math.round(Math.sqrt(image.length));
    if (!own.model) return;
    const p = settings(parts, [0, 0]), key = JSON.stringify([p, own.version]);
    if (own.painted === key) return;
    own.painted = key;
    let row = 0;
    const some = () => {
      if (own.painted !== key) return;
      const began = performance.now();
      for (; row < size && performance.now() - began < 12; row++) {
        for (let i = 0; i < size; i++) {
          p.sigma_w = parts.plane.x_range.end * (i + 0.5) / size;
          p.sigma_b = parts.plane.y_range.end * (row + 0.5) / size;
          image[row * size + i] = pixel(Math.log(settle(own.model, p, 300).chi_J));
        }
      }
      parts.picture.change.emit();
      if (row < size) setTimeout(some, 4); else own.coloured = key;
    };
    some();
  }

  function pixel(log) {  // blue where ordered, orange where chaotic, as bytes a, b, g, r
    if (Number.isNaN(log)) return 0;
    const alpha = Math.round(255 * (0.25 + 0.6 * Math.tanh(Math.abs(log))));
    const [r, g, b] = log > 0 ? [213, 112, 31] : [59, 120, 194];
    return ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }

  function cobwebs(parts, model, p, K, c, end) {
    const seen = K.filter((x) => x > 0), last = seen.length ? seen[seen.length - 1] : 1;
    const logs = seen.map(Math.log10).concat(end.xi !== undefined && end.K > 0 && end.K < 1e300 ? [Math.log10(end.K)] : []);
    const low = Math.max(Math.min(...logs) - 0.5, -280), high = Math.min(Math.max(...logs) + 0.5, 280);
    if (!(low < high)) return;
    const at = spread(low, high, 100).map((x) => Math.pow(10, x));
    put(parts.maps_K, {x: at, y: clean(map_of_K(model, p, at)), same: at});
    put(parts.steps_K, stairs(seen));
    if (model.names.includes('log_distance')) {
      const places = spread(-1, 1, 81).map((x) => Math.sin(Math.PI * x / 2));
      const where = end.xi !== undefined && end.K > 0 && end.K < 1e300 ? end.K : last;
      put(parts.maps_c, {x: places, y: clean(map_of_c(model, p, where, places)), same: places});
      put(parts.steps_c, stairs(clean(c)));
    }
  }

  function told(parts, own, p, run, end) {
    const K = run.columns.K, n = K.length, rows = [];
    rows.push(['σ_w, σ_b', `${given(p.sigma_w)}, ${given(p.sigma_b)}${own.held ? ' (held; click it to let go)' : ''}`]);
    let name = end.name;
    if (name === 'not settled') name += ` after ${end.layers} layers: K = ${digits(end.K)}, χ_J = ${digits(end.chi_J)}`;
    rows.push(['phase', name]);
    if (end.xi !== undefined) {
      if (Number.isFinite(end.chi_J)) rows.push(['χ_J*, ξ', `${digits(end.chi_J)}, ${digits(end.xi)} layers`]);
      rows.push(['K*', end.K === Infinity ? 'beyond 1e30' : digits(end.K)]);
    }
    rows.push([`K at layer ${n}`, digits(K[n - 1])]);
    if (run.columns.log_J) rows.push([`log J at layer ${n}`, digits(run.columns.log_J[n - 1])]);
    if (run.columns.c) rows.push([`c at layer ${n}`, digits(run.columns.c[n - 1])]);
    if (run.stop) rows.push(['all stop', `at layer ${run.stop.layer}: ${run.stop.why}`]);
    if (run.lost) rows.push(['c and distance stop', `at layer ${run.lost.layer}: ${run.lost.why}`]);
    const text = rows.map(([a, b]) => `<tr><td>${a}</td><td>${b}</td></tr>`).join('');
    return `<table class="says">${text}</table>`;
  }

  function ready(parts) {
    const dark = window.matchMedia('(prefers-color-scheme: dark)');
    const colour = () => {
      const ink = dark.matches ? '#d6d6d6' : '#2b2b2b', faint = dark.matches ? '#3a3a3a' : '#e4e4e4';
      for (const figure of parts.figures) {
        for (const axis of [...figure.below, ...figure.left]) {
          Object.assign(axis, {axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: ink,
            major_tick_line_color: ink, minor_tick_line_color: null});
        }
        for (const grid of figure.center.filter((one) => 'grid_line_color' in one)) grid.grid_line_color = faint;
        figure.title.text_color = ink;
        figure.outline_line_color = null;
      }
    };
    colour();
    dark.addEventListener('change', colour);
    paint(parts);
    room(parts).started = true;
    window.meanfieldReady = true;
    setTimeout(() => colours(parts), 0);
  }

  return {moved, tapped, changed, ask, ready, room, paint};
})();
