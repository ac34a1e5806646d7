"""Networks of public recipes in plain NumPy, drawn by the laws as they are written: truncated by rejection, uniform,
normal, orthogonal by QR, with fan-in and fan-out of the matrix that is drawn. No code of the library but the text of a
law; every derivative is a central difference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import erf, expit
from scipy.stats import truncnorm

STEP = 1e-4
FUNCTIONS = {
    "relu": lambda z: np.maximum(z, 0.0),
    "gelu": lambda z: z * 0.5 * (1 + erf(z / math.sqrt(2))),
    "gelu_tanh": lambda z: 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "silu": lambda z: z * expit(z),
    "sin": np.sin,
    "root2 gelu": lambda z: math.sqrt(2) * z * 0.5 * (1 + erf(z / math.sqrt(2))),
}  # fmt: skip


@dataclass(frozen=True)
class Net:
    """How the blocks of a recipe are put together, written by hand from its code."""

    phi: str = "gelu"
    gate: bool = False
    norm: str = "layer"  # or "rms", "none", "tanh α"
    place: str = "pre"  # or "post", "peri", "behind"
    causal: bool = True
    rotary: bool = False
    qk: str = ""  # "head" or "whole": over what q and k are normalized
    groups: int = 0  # heads of keys and values; 0: as many as of queries
    parallel: bool = False
    inner: bool = False  # norms before the last matrices of both branches
    by_block: bool = False  # norms divided by sqrt(l)
    alpha: str = "1"  # skips, in L
    branch: str = "1"
    divide: str = "sqrt"  # scores by sqrt(h), or by "h" or "nothing"
    input_norm: bool = False
    plain: bool = False  # a perceptron: φ, matrix
    inputs: int = 0  # numbers of an input that a first matrix is given; 0: the embeddings are drawn


def drawn(rng: np.random.Generator, law: object, n: int, m: int, sizes: dict[str, float], stored: bool = False):
    """An (n, m) matrix by the law as it is written; stored: without what the forward pass multiplies by."""
    names = {"sqrt": math.sqrt, "log": math.log, "n": n, "m": m, **sizes}
    size = eval(law.deviation, {"__builtins__": {}}, names)
    factor = 1.0 if stored else eval(law.multiplier, {"__builtins__": {}}, names)
    if size == 0:
        return np.zeros((n, m))
    if law.shape == "uniform":
        return factor * rng.uniform(-size, size, (n, m))
    if law.shape == "orthogonal":
        q, r = np.linalg.qr(rng.standard_normal((max(n, m), min(n, m))))
        q = q * np.sign(np.diag(r))
        return factor * size * (q if n >= m else q.T)
    z = rng.standard_normal((n, m))
    if law.shape == "truncated":
        end = law.cut / size if law.absolute else law.cut
        while (far := np.abs(z) > end).any():
            z[far] = rng.standard_normal(int(far.sum()))
        size = size / truncnorm(-2, 2).std() if law.corrected else size
    return factor * size * z


def rotated(x: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * 10_000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate((a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)), axis=-1)


def rms(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True))


@dataclass
class Drawn:
    """One network: its matrices by kind, a list over the blocks, and what its base pass met."""

    net: Net
    L: int
    H: int
    weights: dict[str, list[np.ndarray]]
    seen: dict[str, list[object]] | None = None

    def note(self, name: str, value: object) -> None:
        if self.seen is not None:
            self.seen.setdefault(name, []).append(value)

    def norm(self, x: np.ndarray, at: int = 0) -> np.ndarray:
        if self.net.norm.startswith("tanh"):
            return np.tanh(float(self.net.norm.split()[1 + at]) * x)
        if self.net.norm == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        return x if self.net.norm == "none" else rms(x)

    def dense(self, kind: str, l: int, x: np.ndarray) -> np.ndarray:
        y = x @ self.weights[kind][l - 1]
        bias = self.weights.get(f"{kind} bias")
        return y if bias is None else y + bias[l - 1][0]

    def attention(self, l: int, x: np.ndarray) -> np.ndarray:
        T, H = len(x), self.H
        q, k, v = (self.dense(kind, l, x) for kind in ("query", "key", "value"))
        if self.net.qk == "whole":
            q, k = rms(q), rms(k)
        q = q.reshape(T, H, -1).transpose(1, 0, 2)
        G = self.net.groups or H
        k, v = (np.repeat(one.reshape(T, G, -1).transpose(1, 0, 2), H // G, axis=0) for one in (k, v))
        if self.net.qk == "head":
            q, k = rms(q), rms(k)
        if self.net.rotary:
            q, k = rotated(q), rotated(k)
        h = q.shape[-1]
        S = q @ k.transpose(0, 2, 1) / {"sqrt": math.sqrt(h), "h": h, "nothing": 1.0}[self.net.divide]
        self.note("scores", (S**2).mean(axis=-1).mean(axis=0) - (S.mean(axis=-1) ** 2).mean(axis=0))
        if self.net.causal:
            S = np.where(np.tri(T, dtype=bool), S, -np.inf)
        A = np.exp(S - S.max(axis=-1, keepdims=True))
        A = A / A.sum(axis=-1, keepdims=True)
        self.note("entropy", -(A * np.log(np.where(A > 0, A, 1.0))).sum(axis=-1).mean() / math.log(T))
        y = (A @ v).transpose(1, 0, 2).reshape(T, -1)
        return self.dense("output", l, self.norm(y) if self.net.inner else y)

    def fed(self, l: int, x: np.ndarray) -> np.ndarray:
        phi = FUNCTIONS[self.net.phi]
        y = self.dense("up", l, x) * phi(self.dense("gate", l, x)) if self.net.gate else phi(self.dense("up", l, x))
        return self.dense("down", l, self.norm(y) if self.net.inner else y)

    def block(self, l: int, x: np.ndarray) -> np.ndarray:
        net = self.net
        if net.plain:
            return self.dense("dense", l, FUNCTIONS[net.phi](x))
        alpha, factor = (eval(one, {"sqrt": math.sqrt, "L": self.L}) for one in (net.alpha, net.branch))

        def branch(at: int, of, start: np.ndarray) -> np.ndarray:
            y = self.norm(start, at) if net.place in ("pre", "peri") else start
            y = of(l, y / math.sqrt(l) if net.by_block else y)
            y = (self.norm(y, at) if net.place in ("peri", "behind") else y) * factor
            return y

        if net.parallel:
            b, a = branch(1, self.fed, x), branch(0, self.attention, x)
            self.note("branch", [(alpha**2 * (x**2).mean(), (b**2).mean()), (((x + b) ** 2).mean(), (a**2).mean())])
            return alpha * x + b + a
        noted = []
        for at, of in enumerate((self.attention, self.fed)):
            y = branch(at, of, x)
            noted.append((alpha**2 * (x**2).mean(), (y**2).mean()))
            x = alpha * x + y
            x = self.norm(x, at) if net.place == "post" else x
        self.note("branch", noted)
        return x

    def run(self, x: np.ndarray) -> np.ndarray:
        """Every layer, (L + 1, T, N)."""
        out = [x]
        for l in range(1, self.L + 1):
            out.append(self.block(l, out[-1]))
        return np.stack(out)


def shapes(net: Net, N: int, f: int, H: int) -> dict[str, tuple[int, int]]:
    if net.plain:
        return {"dense": (N, N)}
    narrow = N * (net.groups or H) // H
    found = {"query": (N, N), "key": (N, narrow), "value": (N, narrow), "output": (N, N), "up": (N, f)}
    return found | ({"gate": (N, f)} if net.gate else {}) | {"down": (f, N)}


def measured(net: Net, laws: dict[str, object], N: int, f: int, H: int, L: int, T: int, context: int, seed: int,
             theta: bool) -> dict[str, np.ndarray]:  # fmt: skip
    """One network and what is measured of it."""
    rng = np.random.default_rng(seed)
    sizes = {"d": N, "f": f, "H": H, "h": N // H if H else 0, "L": L, "T": context, "V": 1000}

    def matrices() -> dict[str, list[np.ndarray]]:
        made: dict[str, list[np.ndarray]] = {}
        for kind, (n, m) in shapes(net, N, f, H).items():
            undivided = kind == "query" and net.divide == "nothing"  # the record's factor undoes its division
            made[kind] = [drawn(rng, laws[kind], n, m, sizes | {"l": l}, undivided) for l in range(1, L + 1)]
            bias = laws.get(f"{kind} bias", laws.get("bias"))
            if bias is not None:  # of the fan-in of its matrix
                held = [drawn(rng, bias, n, m, sizes | {"l": l})[:1] for l in range(1, L + 1)]
                made[f"{kind} bias"] = held
        return made

    seen = rng.standard_normal((net.inputs, T)) if net.inputs else None
    inputs = None if seen is None else math.sqrt(net.inputs) * np.linalg.qr(seen)[0].T  # orthogonal, of mean square 1

    def embedded() -> np.ndarray:
        x = drawn(rng, laws["token"], T, N, sizes) if inputs is None else (
            inputs @ drawn(rng, laws["token"], net.inputs, N, sizes, stored=True)
        )
        x = x + drawn(rng, laws["position"], T, N, sizes) if "position" in laws else x
        return x + drawn(rng, laws["token bias"], N, N, sizes)[:1] if "token bias" in laws else x

    one = Drawn(net, L, H, matrices(), {})
    e = embedded()
    start = one.norm(e) if net.input_norm else e
    x = one.run(start)
    K = (x**2).mean(axis=(1, 2))
    pairs = (x.mean(axis=1) ** 2).mean(axis=1) * T / (T - 1) - K / (T - 1)
    found = {"K": K, "K_ab": pairs} | {n: np.array(v) for n, v in one.seen.items()}
    one.seen = None
    xi = rng.standard_normal(start.shape)
    size = math.sqrt(K[0])
    moved = (one.run(start + STEP * size * xi) - one.run(start - STEP * size * xi)) / (2 * STEP * size)
    found["J"] = (moved**2).mean(axis=(1, 2))
    if theta:
        other, f2 = matrices(), embedded()
        put = (lambda y: one.norm(y)) if net.input_norm else (lambda y: y)
        ends = [one.run(put(e + s * STEP * f2))[-1] for s in (1, -1)]
        by_kind = [(((ends[0] - ends[1]) / (2 * STEP)) ** 2).mean()]
        for kind in shapes(net, N, f, H):
            both = [k for k in (kind, f"{kind} bias") if k in one.weights]
            ends = []
            for s in (1, -1):
                changed = {k: [w + s * STEP * o for w, o in zip(one.weights[k], other[k])] for k in both}
                ends.append(replace(one, weights=one.weights | changed).run(start)[-1])
            by_kind.append((((ends[0] - ends[1]) / (2 * STEP)) ** 2).mean())
        found["Theta"] = np.array(by_kind)
    return found
