"""Trained wide networks: means against mpmath's solution of the same equations, and ranks against the inputs."""

from __future__ import annotations

import mpmath as mp
import numpy as np

from .asked import derived
from .places import place
from .session import Session

DIGITS = 60
SHAPES = ("plain", "plain", "residual", "pre", "two")
HOW = ("any", "any", "close", "small", "twice", "rays", "opposite", "grid", "decades")


def rows(s: Session) -> tuple[str, np.ndarray]:
    """Few training inputs of every kind, and one further row; and how they were made."""
    rng = s.rng
    how, dim, many = rng.choice(HOW), rng.choice((1, 2, 3)), rng.randint(3, 7)
    X = np.array([[round(rng.gauss(0, 1), 2) or 0.5 for _ in range(dim)] for _ in range(many)])
    if how == "close":
        X = X[:1] + 10 ** rng.uniform(-5, -2) * X
    if how == "small":
        X = X * 10 ** rng.uniform(-5, -2)
    if how == "twice":
        X[-1] = X[0]
    if how in ("rays", "opposite"):
        X[-1] = X[0] * (-1 if how == "opposite" else rng.choice((2, 0.25, 8)))
    if how == "grid":
        X = np.sign(X)
    if how == "decades":
        X = X * 10 ** np.array([[rng.uniform(-3, 3)] for _ in range(many)])
    return how, X


def solved(matrix: np.ndarray, across: np.ndarray, y: np.ndarray, ridge: float, t: float) -> np.ndarray | None:
    """The means of all inputs by an eigendecomposition at many digits; None where an eigenvalue is one of rounding."""
    n = len(y)
    with mp.workdps(DIGITS):
        values, vectors = mp.eigsy(mp.matrix(matrix.tolist()))
        if t == np.inf and ridge == 0 and min(values) < 1e-9 * max(values):
            return None
        along = vectors.T * mp.matrix(y.tolist())
        learned = []
        for k in range(n):
            size = values[k] + mp.mpf(ridge)
            learned.append(along[k] / size if t == np.inf else -mp.expm1(-size * mp.mpf(t) / n) / size * along[k])
        weights = vectors * mp.matrix(learned)
        return np.array([float(v) for v in mp.matrix(np.concatenate((matrix, across)).tolist()) * weights])


def prediction(s: Session) -> None:
    of = derived(s, SHAPES)
    rng, at = s.rng, place(s.rng, of)
    how, X = rows(s)
    s.family = f"{s.family}, rows {how}"
    trains = "last" if of.jumps or rng.random() < 0.5 else "all"
    ridge = rng.choice((0.0, 0.0, 1e-6, 1e-3, 0.5))
    t = np.inf if rng.random() < 0.6 else round(10 ** rng.uniform(0, 4), 1)
    solver = rng.choice(("auto", "eigh", "cholesky", "cg", "nystrom")) if ridge and t == np.inf else "auto"
    depth, y = rng.choice((2, 3)), np.array([round(rng.gauss(0, 1), 2) for _ in range(len(X))])
    further = [[round(rng.gauss(0, 1), 2) for _ in range(X.shape[1])]]
    place_text = f"sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}"
    more = f"train={trains!r}, ridge={ridge!r}, solver={solver!r}" + (f", t={t!r}" if t < np.inf else "")
    call = f"predict({X.tolist()!r}, {y.tolist()!r}, {further!r}, {more}, {place_text})"
    found = s.ask(call)
    name = "K" if trains == "last" else "Theta"
    whole = s.ask(f"kernel({[*X.tolist(), *further]!r}, quantities=({name!r},), {place_text})")
    kernel, n = np.asarray(whole[name]), len(X)
    if not (np.isfinite(kernel).all() and np.isfinite(np.asarray(found.error)).all()):
        return
    mean, error = np.asarray(found.mean)[0, :, 0], np.asarray(found.error)[0].ravel()
    if "never trained" in found.message:
        different = len(np.unique(X, axis=0))
        plain = how in ("any", "close", "small", "decades") and X.shape[1] > 1 and at.b > 0
        curved = not of.normed and of.phi.source.replace("z", "").strip("-+*.()0123456789/ ") != ""
        if plain and different == n and curved:
            s.true("inputs that differ are of full rank", f"theory.{call}.message", False, found.message, "full rank")
        return
    truth = solved(kernel[:n, :n], kernel[n:, :n], y, ridge, t)
    if truth is None:
        if not ridge and t == np.inf:  # the end of training is the targets themselves
            for i in range(n):
                s.same("the mean of a training input", f"theory.{call}.mean[0, {i}, 0]", mean[i], y[i], error[i] + 1e-9)
        return
    # beside what the answer says of itself, what the entries of the kernel that is asked for here have of rounding
    size = 1e-9 * max(1.0, float(np.abs(y).max()), float(np.abs(truth).max()))
    for i in range(n + 1):
        s.same("the mean", f"theory.{call}.mean[0, {i}, 0]", mean[i], truth[i], 2 * error[i] + size)
