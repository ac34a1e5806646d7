"""Comparisons of kernels of two or three rows of every kind."""

from __future__ import annotations

import math

import numpy as np

from .asked import derived
from .pair_runs import one_gain
from .places import place, place_of
from .session import Session


def rows(s: Session) -> tuple[str, np.ndarray]:
    """Two or three rows: unequal norms, collinear, nearly collinear, opposite, tiny; and how they were made."""
    rng = s.rng
    dim, many = rng.choice((1, 2, 2, 3)), rng.choice((2, 2, 3))
    how = rng.choice(("any", "decades", "collinear", "near", "opposite", "tiny", "near decades"))
    base = [float(f"{rng.gauss(0, 1):.3g}") for _ in range(dim)]
    base[0] = base[0] or 1.0
    found = [base]
    for _ in range(many - 1):
        factor = (
            float(f"{10 ** rng.uniform(-3, 3):.2g}")
            if how in ("decades", "collinear", "near decades", "opposite")
            else 1.0
        )
        other = [float(f"{rng.gauss(0, 1):.3g}") for _ in range(dim)]
        if how in ("collinear", "opposite"):
            sign = -1 if how == "opposite" else 1
            found.append([sign * x * factor for x in base])
        elif how in ("near", "near decades"):
            off = 10 ** rng.uniform(-9, -2)
            found.append([(x + off * y) * factor for x, y in zip(base, other)])
        else:
            found.append([y * factor for y in other])
    if how == "tiny":
        scale = 10.0 ** -rng.choice((5, 20, 40, 100, 150))
        found = [[x * scale for x in row] for row in found]
    return how, np.array(found)


def kernel(s: Session) -> None:
    of = derived(s, ("plain", "plain", "plain", "residual", "pre", "scaled", "two", "act", "post"))
    at = place(s.rng, of)
    bias = s.rng.random()
    if bias < 0.5:
        at = place_of(at.sigma_w, "0", "no bias")
    elif bias > 0.93:
        at = place_of(at.sigma_w, f"{10 ** s.rng.uniform(2, 5):.3g}", "large bias")
    how, X = rows(s)
    if of.normed and (how == "tiny" or at.b == 0):
        how, X = "any", np.array([[1.0, 0.5], [-0.3, 2.0]])
    asked = s.rng.choice(("('K', 'Theta', 'distance')", "'K'", "('K', 'distance')", "('K', 'Theta')", "'K'"))
    if of.jumps or of.name == "act":
        asked = s.rng.choice(("'K'", "('K', 'distance')")) if of.name != "act" else "'K'"
    depth = s.rng.choice((2, 2, 3, 4))
    call = f"kernel({X.tolist()!r}, sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, quantities={asked})"
    answer = s.ask(call)
    s.family = f"{s.family}, rows {how}"
    many, size = X.shape
    singles = []
    for x in X:
        orbit = of.orbit(of.start(at.w, at.b, float(x @ x) / size), at.w, at.b, depth)
        if len(orbit) < depth or not 1e-300 < orbit[-1].K < 1e150:
            return
        singles.append(orbit)
    for i in range(many):
        for j in range(i):
            judge_entry(s, of, at, call, answer, X, i, j, singles, depth)
    if s.rng.random() < 0.25 and "distance" in asked:
        alone = s.ask(call.replace(asked, "'K'"), needed=False)
        if alone is not None:
            scale = np.sqrt(np.outer(np.diag(answer.K), np.diag(answer.K)))
            off = np.abs(answer.K - alone.K) / scale
            worst = np.unravel_index(np.argmax(off), off.shape)
            s.true(
                "K alone and beside others",
                f"theory.{call}.K",
                bool(off.max() < 1e-10),
                answer.K[worst],
                f"K alone: {alone.K[worst]}",
            )


def judge_entry(s, of, at, call, answer, X, i, j, singles, depth) -> None:
    size = X.shape[1]
    x, y = X[i], X[j]
    state = of.start_pair(
        at.w, at.b, float(x @ x) / size, float(y @ y) / size, float(x @ y) / size, float((x - y) @ (x - y)) / size
    )
    gain, relative, seen = 1.0, 1e-12, 0.0
    for _k in range(1, depth):
        # a jump sees the root of 1 - c, which the judge has to a rounding
        roots = math.sqrt(state.K_aa), math.sqrt(state.K_bb)
        rounded = 8e-16 * (state.K_aa + state.K_bb) / (roots[0] * roots[1])
        turned = (state.distance - (roots[0] - roots[1]) ** 2) / (roots[0] * roots[1])
        seen += rounded / math.sqrt(max(turned, rounded))
        grow = max(one_gain(of, state.K_aa, at), one_gain(of, state.K_bb, at))
        gain *= max(1.0, grow) * 2
        state = of.two(state, at.w, at.b)
        relative += state.gap_error * 20
    scale = math.sqrt(state.K_aa * state.K_bb)
    if not scale > 1e-300 or 20 * state.error * gain > 1e-6:
        return
    claim = answer.error
    slack = (3e-13 + 20 * state.error + (seen if of.jumps else 0.0)) * gain + 100 * claim.get("K", 0.0)
    if "K" in answer.values:
        s.same("K of two rows", f"theory.{call}.K[{i}, {j}]", answer.K[i, j], state.K_ab, min(slack, 1e-5) * scale)
    if "Theta" in answer.values and not of.normed and math.isfinite(state.Theta_ab):
        size_of = math.sqrt(singles[i][-1].Theta * singles[j][-1].Theta)
        turned = state.distance - (math.sqrt(state.K_aa) - math.sqrt(state.K_bb)) ** 2  # what is left of directions
        if turned > 1e-10 * max(state.K_aa, state.K_bb) or not of.phi.splits:
            s.same(
                "Theta of two rows",
                f"theory.{call}.Theta[{i}, {j}]",
                answer.Theta[i, j],
                state.Theta_ab,
                (slack * 100 + 100 * claim.get("Theta", 0.0) + (10 * seen * gain if of.phi.splits else 0.0)) * size_of,
            )
    if "distance" in answer.values and state.distance > 1e-13 * scale:
        room = 1e-9 + relative * 10 + 100 * claim.get("distance", 0.0)
        s.same(
            "distance of two rows",
            f"theory.{call}.distance[{i}, {j}]",
            answer.distance[i, j],
            state.distance,
            room * state.distance,
        )
