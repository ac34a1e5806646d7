// Layers, fixed points and maps of one model, for pages and for tests under node.
const LARGEST = 1e300, LEAST = 1e-290;

// columns by name, and why they stop: {layer, why}, or null
function follow(model, p, depth) {
  p = Object.assign({}, p, {L: Math.max(depth - 1, 1)});
  const columns = {}, count = model.names.length;
  for (const name of model.names) columns[name] = [];
  const d = model.names.indexOf('log_distance');
  if (d >= 0) columns.c = [];
  let s = model.start(p), stop = null, lost = null;
  for (let layer = 1; layer <= depth; layer++) {
    if (layer > 1) s = model.step(s, p, layer);
    const K = s[0];
    if (!(K < LARGEST)) {
      stop = {layer, why: Number.isNaN(K) ? 'K leaves what this page knows' : 'K grows beyond every number'};
      break;
    }
    if (K < LEAST && layer > 1) { stop = {layer, why: 'K falls below every number'}; break; }
    for (let i = 0; i < count; i++) columns[model.names[i]].push(s[i]);
    if (d >= 0) {
      const c = 1 - Math.exp(s[d] - Math.log(K)) / 2;
      columns.c.push(c);
      if (Number.isNaN(s[d]) && !lost) lost = {layer, why: 'c leaves the table of this page'};
    }
  }
  return {columns, stop, lost};
}

// {K, chi_J, name, xi, layers}: where K ends, by iteration alone, 0 below 1e-30 and Infinity beyond 1e30, as in a phase
// diagram; "not settled", without ξ, where it has not ended
function settle(model, p, most) {
  if (model.changes) return {name: 'none: the map changes from layer to layer'};
  const one = Object.assign({}, p, {c0: 1}), j = model.names.indexOf('log_J');
  let s = model.start(one), chi = NaN;
  for (let layer = 2; layer <= most; layer++) {
    const next = model.alone(s, one, layer), last = s[0];
    chi = j < 0 ? NaN : Math.exp(next[j] - s[j]);
    s = next;
    if (Number.isNaN(s[0])) return {name: 'unknown: K leaves what this page knows', K: last, chi_J: chi, layers: layer};
    if (s[0] > 1e30) return phase(Infinity, chi, layer);
    if (s[0] < 1e-30) return phase(0, chi, layer);
    if (Math.abs(s[0] - last) <= 1e-13 * s[0] && layer > model.head + 2) return phase(s[0], chi, layer);
  }
  return {name: 'not settled', K: s[0], chi_J: chi, layers: most};
}

function phase(K, chi, layers) {
  const log = Math.log(chi), name = Math.abs(log) < 1e-7 ? 'critical' : log > 0 ? 'chaotic' : log < 0 ? 'ordered' : 'unknown';
  return {name, K, chi_J: chi, xi: 1 / Math.abs(log), layers};
}

// K' of many K, by the step that repeats
function map_of_K(model, p, values) {
  const d = model.names.indexOf('log_distance');
  return values.map((K) => {
    const s = model.names.map((name, i) => (i === 0 ? K : i === d ? -Infinity : 0));
    return model.alone(s, p, model.head + 2)[0];
  });
}

// c' of many c at one K
function map_of_c(model, p, K, values) {
  const d = model.names.indexOf('log_distance');
  return values.map((c) => {
    const s = model.names.map((name, i) => (i === 0 ? K : i === d ? Math.log(2 * K * (1 - c)) : 0));
    const next = model.step(s, p, model.head + 2);
    return 1 - Math.exp(next[d] - Math.log(next[0])) / 2;
  });
}
