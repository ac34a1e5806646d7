// What generated functions call: tables in K, angles by the bits of doubles, error functions.
const BITS = new Float64Array(1), WORDS = new Uint32Array(BITS.buffer);

function horner(c, row, t) {
  const u = t * t, i = 10 * row;
  const even = c[i] + u * (c[i + 2] + u * (c[i + 4] + u * (c[i + 6] + u * c[i + 8])));
  const odd = c[i + 1] + u * (c[i + 3] + u * (c[i + 5] + u * (c[i + 7] + u * c[i + 9])));
  return even + t * odd;
}

// 8 cells an octave, linear inside; powers beyond both ends (the table is a flat array of rows of 10)
function _table(K, T, first, low, high) { return _split_table(K, T, first, T.length / 10, low, high); }

function _split_table(K, T, first, cells, low, high) {
  const start = Math.pow(2, first);
  if (!(K > 0)) return low > 0 ? 0 : low < 0 ? Infinity : _split_table(start, T, first, cells, low, high);
  BITS[0] = K;
  const cell = (WORDS[1] >>> 17) - (first + 1023) * 8;
  if (cell < 0) return _split_table(start, T, first, cells, low, high) * Math.pow(K / start, low);
  if (cell >= cells) {
    let end = cells - 1;
    if (T[10 * end] !== T[10 * end]) end = T[10 * end + 1] + Math.pow(2, T[10 * end + 2]) - 1;
    return horner(T, end, 1) * Math.pow(K / Math.pow(2, first + cells / 8), high);
  }
  let place = (WORDS[1] & 0x1ffff) * 4294967296 + WORDS[0], row = cell, m = 0;
  if (T[10 * row] !== T[10 * row]) {  // this cell goes on in 2^m cells of its own
    m = T[10 * row + 2];
    const size = Math.pow(2, 49 - m), part = Math.floor(place / size);
    row = T[10 * row + 1] + part;
    place -= part * size;
  }
  return horner(T, row, place * Math.pow(2, m - 48) - 1);
}

function copysign(x, y) { return (y < 0 || Object.is(y, -0)) ? -Math.abs(x) : Math.abs(x); }

function erf(x) {
  if (Math.abs(x) >= 0.5) return x > 0 ? 1 - erfc(x) : erfc(-x) - 1;
  let term = x, total = x;
  for (let n = 1; n < 14; n++) { term *= -x * x / n; total += term / (2 * n + 1); }
  return 1.1283791670955126 * total;
}

// e^(x²) erfc(x) is a polynomial in (x - 3.75)/(x + 3.75) (Shepherd and Laframboise)
function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  if (x < 0.5) return 1 - erf(x);
  const t = (x - 3.75) / (x + 3.75);
  let b = 0, d = 0;
  for (let k = ERFCX.length - 1; k > 0; k--) { const e = ERFCX[k] + 2 * t * b - d; d = b; b = e; }
  const h = Math.floor(x * 1048576) / 1048576;
  return Math.exp(-h * h) * Math.exp(-(x - h) * (x + h)) * (ERFCX[0] + t * b - d) / (1 + 2 * x);
}

function box(edges, x) {  // the number of the box that holds x
  let low = 0, high = edges.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (x < edges[middle]) high = middle; else low = middle; }
  return low;
}

// ⟨(f_a - f_b)²⟩/⟨(z_a - z_b)²⟩ by a table in log2 s² and log2 v of the covariance ±v, s² = V - v; NaN where none holds it
function ratio(table, V, apart) {
  const near = Math.min(apart, 4 * V - apart) / 2, v = Math.abs(V - apart / 2), edges = table.edges;
  const last = edges.length - 1, n = table.nodes;
  let x = Math.log2(near), y = Math.log2(v);
  if (!(V > 0) || !(near >= 0) || x > edges[last] || y > edges[last]) return NaN;
  const below = Math.max(0, table.whole - Math.max(x, y));  // there it is homogeneous
  x += below;
  y += below;
  const X = Math.max(x, edges[0]), Y = Math.max(y, edges[0]);
  const i = box(edges, X), j = box(edges, Y);
  const s = (2 * X - edges[i] - edges[i + 1]) / (edges[i + 1] - edges[i]);
  const t = (2 * Y - edges[j] - edges[j + 1]) / (edges[j + 1] - edges[j]);
  const first = (((apart > 2 * V ? last : 0) + i) * last + j) * n * n, c = table.data;
  let b0 = 0, b1 = 0;
  for (let k = n - 1; k >= 0; k--) {
    const at = first + k * n;
    let d0 = 0, d1 = 0;
    for (let l = n - 1; l > 0; l--) { const e = c[at + l] + 2 * t * d0 - d1; d1 = d0; d0 = e; }
    const row = c[at] + t * d0 - d1;
    if (k > 0) { const e = row + 2 * s * b0 - b1; b1 = b0; b0 = e; } else b0 = row + s * b0 - b1;
  }
  if (table.jumps && x < X && apart < 2 * V) b0 += (X - x) * Math.LN2 / 2;
  return Math.exp(b0 - table.degree * below * Math.LN2);
}

function numbers(text) {  // doubles, written as the base64 of their bytes
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

function singles(text) { return new Float32Array(numbers(text).buffer); }

// coefficients of boxes as doubles: singles, and what they miss of the first ones in each direction
function whole(n, first, high, low) {
  const out = Float64Array.from(high);
  for (let at = 0, k = 0; k + first * first <= low.length && at < out.length; at += n * n) {
    for (let i = 0; i < first; i++) for (let j = 0; j < first; j++) out[at + i * n + j] += low[k++];
  }
  return out;
}
