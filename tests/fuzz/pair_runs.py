"""Comparisons of runs of two inputs, and of decays to 0 over thousands of layers."""

from __future__ import annotations

import math
from dataclasses import replace

import sympy as sp

from .activations import TAMED, activation
from .asked import SHAPES, derived
from .maps import Net, One, Two
from .places import Place, net, place
from .session import Session

SETS = (None, "('c',)", "('K', 'c')", "('gamma',)", "('K', 'distance')", "('distance',)", "('K', 'J', 'c')")
SETS += ("('log_gamma', 'K')", "('K', 'distance', 'J', 'Theta')")
UNEQUAL = ("('K_aa', 'K_bb', 'K_ab')", "('K_aa', 'K_bb', 'distance')", "('K_aa', 'K_bb', 'distance', 'K_ab', 'c')")
UNEQUAL += ("('K_aa', 'K_bb', 'K_ab', 'J_ab')", "('K_aa', 'K_bb', 'distance', 'J_ab', 'Theta_ab')")


def pair_run(s: Session) -> None:
    of = derived(s, (*SHAPES, "act"))
    at = place(s.rng, of)
    depth = s.rng.choice((2, 3, 4, 6))
    if s.rng.random() < 0.6:
        c0 = s.rng.choice((0.0, 0.5, -0.5, 1.0, -1.0, 0.999999, 1 - 1e-10, round(s.rng.uniform(-1, 1), 3), 0.3))
        norm = s.rng.choice((1.0, 1.0, float(f"{10 ** s.rng.uniform(-4, 4):.3g}")))
        asked = s.rng.choice(SETS)
        if of.jumps and asked and ("'J'" in asked or "Theta" in asked):
            asked = "('K', 'c')"
        more = "" if asked is None else f", quantities={asked}"
        call = f"propagate(sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, input_norm={norm!r}, "
        call += f"correlation={c0!r}{more})"
        begin = of.start_pair(at.w, at.b, norm, norm, c0 * norm, 2 * norm * (1 - c0))
    else:
        a, b = (float(f"{10 ** s.rng.uniform(-2, 2):.3g}") for _ in range(2))
        if s.rng.random() < 0.3:
            b = a * s.rng.choice((1.0, 1.0001, 100.0))
        c = s.rng.choice((0.0, 0.5, -0.7, 0.999, 0.9999999, 1.0, round(s.rng.uniform(-1, 1), 3)))
        K_ab = c * math.sqrt(a * b)
        distance = a + b - 2 * K_ab
        asked = s.rng.choice(UNEQUAL)
        if of.jumps or (of.name == "act"):
            asked = UNEQUAL[0]
        key, value = s.rng.choice((("K_ab", K_ab), ("distance", distance), ("c", c)))
        if "distance" not in asked and key == "distance":
            key, value = "K_ab", K_ab
        if key == "c" and "distance" not in asked:
            key, value = "K_ab", K_ab
        start = f"{{'K_aa': {a!r}, 'K_bb': {b!r}, {key!r}: {value!r}}}"
        call = f"propagate(sigma_w={at.w!r}, sigma_b={at.b!r}, depth={depth}, start={start}, quantities={asked})"
        begin = Two(a, b, max(distance, (math.sqrt(a) - math.sqrt(b)) ** 2), 1.0, math.nan)
    answer = s.ask(call)
    state, gain, gap_gain = begin, 1.0, 1e-11
    for k in range(depth):
        if k:
            before = state
            state = of.two(state, at.w, at.b)
            if not (1e-200 < state.K_aa < 1e200 and 1e-200 < state.K_bb < 1e200):
                return
            grow = max(abs(one_gain(of, before.K_aa, at)), abs(one_gain(of, before.K_bb, at)))
            gain *= max(1.0, grow) * 2
            gap_gain += state.gap_error * 10
        if not judge_pair(s, f"{call}", k, answer, state, gain, gap_gain):
            return
    if asked and "start" not in call and s.rng.random() < 0.3:
        plain = call.split(", quantities")[0] + ")"
        other = s.ask(plain, needed=False)
        if other is not None:
            scale = math.sqrt(state.K_aa * state.K_bb)
            mine = answer.K[-1] - answer.distance[-1] / 2 if "distance" in asked and "K" in answer.quantities else None
            if mine is not None:
                s.same("K_ab with distance and without", f"theory.{call}", mine, other.K_ab[-1], 1e-9 * gain * scale)


def one_gain(of: Net, K: float, at: Place) -> float:
    """How an error of K, or of K_ab, grows in one layer, in units of K."""
    here = of.one(One(K), at.w, at.b)
    slope = here.chi_J if math.isfinite(here.chi_J) else 1e3
    return max(abs(here.chi_K), slope) * K / here.K


def judge_pair(s: Session, call: str, k: int, run, state: Two, gain: float, gap_gain: float) -> bool:
    """Every quantity of a run of two inputs at one layer."""
    scale = math.sqrt(state.K_aa * state.K_bb)
    near = max(state.distance / scale, 0.0)
    absolute = (1e-12 + 20 * state.error) * gain * 10
    relative = 1e-9 + gap_gain * 10 + 4e-15 * gain / max(near, 1e-300)
    held, fine = set(run.quantities), True

    def check(name: str, value: float, allowed: float) -> None:
        nonlocal fine
        if name in held and fine:
            fine = s.same(f"{name} of two inputs", f"theory.{call}.{name}[{k}]", getattr(run, name)[k], value, allowed)

    for name in ("K_aa", "K"):
        check(name, state.K_aa, (1e-11 + 20 * state.error) * gain * state.K_aa)
    check("K_bb", state.K_bb, (1e-11 + 20 * state.error) * gain * state.K_bb)
    check("K_ab", state.K_ab, absolute * scale)
    if near > 1e-13:
        check("distance", state.distance, relative * state.distance)
        gap = near / 2
        check("c", state.c, min(absolute, max(relative * gap, 1e-14 * gain)) + 1e-12 + relative * gap)
        if state.c < 1 and ("distance" in held or state.c < 0.99):  # collinear inputs of two norms have none
            gamma = state.c / (1 - state.c)
            room = (relative + absolute) * (1 + abs(gamma)) * 3
            check("gamma", gamma, room * (1 + abs(gamma)))
            if gamma > 1e-6:
                check("log_gamma", math.log(gamma), room * (1 + 1 / gamma) + 1e-12)
    elif near == 0 or near < 1e-30:
        check("c", 1.0, 1e-12 * gain)
    if state.distance / scale > 1e-6:
        check("J_ab", state.J_ab, absolute * 1e3 * (abs(state.J_ab) + gain))
        if k and math.isfinite(state.Theta_ab):
            check("Theta_ab", state.Theta_ab, absolute * 1e3 * (abs(state.Theta_ab) + gain * scale * (k + 1)))
    return fine


def decay(s: Session) -> None:
    """No biases and an ordered phase: K falls for thousands of layers while c, γ and log J stay finite."""
    for _ in range(60):
        phi = activation(s.rng, (*TAMED, "named", "parameters", "polynomial", "modulus times"))
        of = net(s.rng, phi, ("plain", "plain", "residual", "scaled", "two"))
        if all(p.germ is not None for p in of.activations):
            break
    else:
        return
    if any(o.sigma_w or o.sigma_b for o in of.ops):
        ops = tuple(replace(o, sigma_w=None, sigma_b=None) for o in of.ops)
        of = Net(of.name, ops, of.mu, f"mf.derive(architecture=mf.Sequential(({', '.join(o.text for o in ops)})))")
    s.derive(of.text, of.phi.family)
    power = sum(o.name == "dense" for o in of.ops)
    gain = math.prod(sum(g * g for g in o.phi.germ) / 2 for o in of.ops if o.phi)
    gain *= math.prod(float(sp.Rational(o.factor)) ** 2 for o in of.ops if o.name == "scale")
    aim = s.rng.uniform(0.02, 0.85)  # K falls by this in a layer
    m = of.skip**2
    if aim <= m:
        aim = m + (0.95 - m) * s.rng.uniform(0.1, 0.8)
    w = float(f"{((aim - m) / gain) ** (1 / (2 * power)):.3g}")
    depth = s.rng.choice((60, 171, 400, 1000, 4000))
    norm = s.rng.choice((1.0, 1.0, round(s.rng.uniform(0.1, 2), 2)))
    c0 = s.rng.choice((0.5, 0.0, 0.9, -0.4, round(s.rng.uniform(-0.95, 0.95), 2)))
    asked = s.rng.choice(
        ("('c',)", "('K', 'c')", "('gamma',)", "('c', 'J')", "('log_gamma',)", "('K', 'J', 'distance')", None)
    )
    more = "" if asked is None else f", quantities={asked}"
    call = f"propagate(sigma_w={w!r}, sigma_b=0, depth={depth}, input_norm={norm!r}, correlation={c0!r}{more})"
    answer = s.ask(call)
    found = decayed(of, w, norm, c0, depth)
    if found is None:
        return
    log_K, log_J, c = found
    last = len(answer.l) - 1

    def at(name: str, value: float, allowed: float) -> None:
        if name in answer.quantities or name in answer.values:
            s.same(
                f"{name} after {depth} layers",
                f"theory.{call}.{name}[{last}]",
                getattr(answer, name)[last],
                value,
                allowed,
            )

    at("c", c, 1e-8)
    if c < 0.999:
        gamma = c / (1 - c)
        at("gamma", gamma, 1e-7 * (1 + gamma) ** 2)
        if gamma > 1e-3:
            at("log_gamma", math.log(gamma), 1e-7 * (1 + 1 / gamma) * (1 + gamma))
    at("log_J", log_J, 1e-8 * depth)
    if log_K > -650:
        at("K", math.exp(log_K), 1e-8 * depth * math.exp(log_K))


def kernel_of_ramps(c: float) -> float:
    """⟨max(x, 0) max(y, 0)⟩ of unit normals with correlation c."""
    c = max(-1.0, min(1.0, c))
    return (math.sqrt(1 - c * c) + c * (math.pi - math.acos(c))) / (2 * math.pi)


def decayed(of: Net, w: float, norm: float, c0: float, depth: int) -> tuple[float, float, float] | None:
    """(log K, log J, c) at a depth, by quadrature while K matters and by the slopes of φ at 0 from there on; None where
    K does not fall fast enough to be followed, or rises to where the quadrature does not follow the gap."""
    state = of.start_pair(w, 0.0, norm, norm, c0 * norm, 2 * norm * (1 - c0))
    one, layer = One(state.K_aa), 1
    while layer < depth and one.K > 1e-24:
        if layer > 160 or state.gap_error > 1e-10:
            return None
        state = of.two(state, w, 0.0)
        one = of.one(one, w, 0.0)
        layer += 1
    c = 1 - state.distance / (2 * state.K_aa)
    log_K, log_J, m = math.log(one.K), one.log_J, of.skip**2
    for _ in range(depth - layer):
        rise, inner = 1.0, c
        for op in of.ops:
            if op.name == "phi":
                a, b = op.phi.germ
                half = (a * a + b * b) / 2
                if a != b:
                    inner = ((a * a + b * b) * kernel_of_ramps(inner) - 2 * a * b * kernel_of_ramps(-inner)) / half
                rise *= half
            elif op.name == "scale":
                rise *= float(sp.Rational(op.factor)) ** 2
            elif op.name == "dense":
                rise *= w * w
        c = (rise * inner + m * c) / (rise + m)
        log_K, log_J = log_K + math.log(rise + m), log_J + math.log(rise + m)
    return log_K, log_J, c
