"""Compiled reading of tables near full correlation (`nearby`) and of averages of single pairs (`pair_averages`), and
sums for pairs of functions with kinks farther away.
"""

from __future__ import annotations

import math

from numba import njit

from meanfield.kernels.loops.pair_loops import WANTED

NARROW = 1e-8  # v up to which inputs of one norm have no norm_angle
RINGS = 4  # doublings of r
ONE, TWO, THREE = 0.12, 0.37, 0.67  # borders of |v| between wedges
WEDGES = ((0.0, 0.0), (-ONE, ONE), (ONE, TWO), (-TWO, -ONE), (TWO, THREE), (-THREE, -TWO), (THREE, 1.0),
          (-1.0, -THREE))  # of v  # fmt: skip
COUNT = len(WEDGES)
BOTTOMS, TOPS = (tuple(w[i] for w in WEDGES) for i in (0, 1))
SLOTS = RINGS * COUNT
WIDTH = 16  # room for the polynomials in v of one function
NOT_MADE, NOT_SERVED = -1, -2
SERVED, WANTING, LEFT = 1, 2, 0
WIDEST = 0.5  # r of the first ring at most, and of a pair that tables answer
APART = 0.02  # 1 - c from which a difference of averages keeps its digits
MISSED = 2e-13  # what a box may miss between its nodes, of a distance and of a slope, the smallest in it
TAKEN = 2e-14  # what averages of a single pair miss, of √(⟨f²⟩⟨f²⟩), and of a distance
SAME_NORM = 1e-15  # of s: a difference of norms that is rounding


@njit(error_model="numpy", forceinline=True)
def _contracted(boxes, index, u, room, slot):
    """Σ_i T_i(u) boxes[index, i] into room[slot]."""
    for n in range(room.shape[1]):
        for m in range(3 * WIDTH):
            room[slot, n, m] = 0.0
    below, here = u, 1.0
    for i in range(boxes.shape[1]):
        for n in range(room.shape[1]):
            for m in range(3 * WIDTH):
                room[slot, n, m] += here * boxes[index, i, n, m]
        below, here = here, 2.0 * u * here - below


@njit(error_model="numpy", forceinline=True)
def _read(room, slot, x, y, acc):
    """Σ T_n(x) T_m(y) room[slot, n, 16q + m] of q = 0, 1, 2. Where norms are equal, m = 0 alone is there."""
    for m in range(3 * WIDTH):
        acc[m] = room[slot, 0, m]
    below, here = 1.0, x
    for n in range(1, room.shape[1]):
        for m in range(3 * WIDTH):
            acc[m] += here * room[slot, n, m]
        below, here = here, 2.0 * x * here - below
    one, two, three = acc[0], acc[WIDTH], acc[2 * WIDTH]
    below, here = 1.0, y
    for m in range(1, WIDTH):
        one += here * acc[m]
        two += here * acc[WIDTH + m]
        three += here * acc[2 * WIDTH + m]
        below, here = here, 2.0 * y * here - below
    return one, two, three


@njit(error_model="numpy", forceinline=True)
def _read_equal_norms(room, slot, x):
    """The same where norms are equal: m = 0 alone."""
    one, two, three = room[slot, 0, 0], room[slot, 0, WIDTH], room[slot, 0, 2 * WIDTH]
    below, here = 1.0, x
    for n in range(1, room.shape[1]):
        one += here * room[slot, n, 0]
        two += here * room[slot, n, WIDTH]
        three += here * room[slot, n, 2 * WIDTH]
        below, here = here, 2.0 * x * here - below
    return one, two, three


@njit(error_model="numpy", forceinline=True)
def near(cell, place, root, first, where, boxes, room, stamp, acc, fresh, l, a, b, s, t, between, gap, out):
    """Of two inputs near full correlation the sums that `hermite_sums.close` gives; a code: SERVED, LEFT (it reaches no
    such pair), or WANTING a box, which out[0] then numbers: row of the cell·SLOTS + slot. fresh: the number of the row
    and layer of which `room` holds polynomials in r and v, by slot in `stamp`."""
    direction_part = math.sqrt(2.0 * s * t * gap)
    whole = math.sqrt(between * between + direction_part * direction_part)
    r = whole / s
    row = cell[l, a]
    if not r <= WIDEST:
        return LEFT
    low, high, ring = 0.0, first[row], 0
    while r > high:
        low, high, ring = high, 2.0 * high, ring + 1
    if ring >= RINGS:
        return LEFT
    v = between / (direction_part + whole) if whole > 0.0 else 0.0
    wedge = 0
    if abs(v) > NARROW or abs(between) > SAME_NORM * s:
        size = abs(v)
        wedge = 1 if size <= ONE else 2 if size <= TWO else 4 if size <= THREE else 6
        wedge += 1 if wedge > 1 and v < 0.0 else 0
    slot = ring * COUNT + wedge
    index = where[row, slot]
    if index == NOT_SERVED:
        return LEFT
    if index == NOT_MADE:
        out[0] = row * SLOTS + slot
        return WANTING
    if stamp[slot] != fresh:
        _contracted(boxes, index, place[l, a], room, slot)
        stamp[slot] = fresh
    x = 2.0 * (r - low) / (high - low) - 1.0
    if wedge > 0:
        bottom, top = BOTTOMS[wedge], TOPS[wedge]
        ratio, slope, quotient = _read(room, slot, x, (2.0 * v - bottom - top) / (top - bottom), acc)
    else:
        ratio, slope, quotient = _read_equal_norms(room, slot, x)
    one, other = root[l, a], root[l, b]
    share = one / s
    roots, moved = one * other, quotient * one * share * between / (one + other)
    out[2] = ratio * (share * whole) ** 2
    out[0] = roots - 0.5 * out[2]
    out[1] = slope * one * share * t
    out[3] = moved * moved
    out[4] = quotient * one * share
    out[5] = 0.0
    return SERVED


@njit(error_model="numpy", forceinline=True)
def measured(direction_part, slope, quotient, one, two, s, t, between, gap, out):
    """The same by averages that were taken for this pair alone (`pair_averages`); whether there are such. one, two:
    √⟨f²⟩ of both; quotient: nan of inputs that are well apart, where a difference of ⟨f²⟩ keeps its digits."""
    if not (direction_part >= 0.0 and one * two > 0.0):
        return False
    moved = one - two
    out[0], out[1], out[2] = one * two - 0.5 * direction_part, slope * s * t, direction_part
    if quotient == quotient:
        moved = quotient * between / (one + two)
        out[4] = quotient
    else:
        out[4] = moved * (one + two) / between if between != 0.0 else 0.0
    out[3] = moved * moved
    out[5] = 0.0
    return True


@njit(cache=True, error_model="numpy", nogil=True)
def _interleaved(a, b, orders, u):
    """Σ a_j b_j u^j and its derivative by u: four sums that do not wait for each other."""
    u2 = u * u
    u4 = u2 * u2
    S0, S1, S2, S3, D0, D1, D2, D3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = orders // 4
    for j in range(4 * whole, orders):
        k = j - 4 * whole
        p = a[j] * b[j]
        if k == 0:
            S0 = p
        elif k == 1:
            S1 = p
        else:
            S2 = p
    for j in range(whole - 1, -1, -1):
        i = 4 * j
        D0, D1, D2, D3 = D0 * u4 + S0, D1 * u4 + S1, D2 * u4 + S2, D3 * u4 + S3
        S0, S1 = S0 * u4 + a[i] * b[i], S1 * u4 + a[i + 1] * b[i + 1]
        S2, S3 = S2 * u4 + a[i + 2] * b[i + 2], S3 * u4 + a[i + 3] * b[i + 3]
    slope = (D0 + D1 * u) + u2 * (D2 + D3 * u)
    return (S0 + S1 * u) + u2 * (S2 + S3 * u), 4.0 * u * u2 * slope + S1 + 2.0 * u * S2 + 3.0 * u2 * S3


@njit(cache=True, error_model="numpy", nogil=True)
def far(own, other, one, two, ladder, tails_a, tails_b, between, gap, first, step, out):
    """The same of inputs that are well apart, by differences of averages ⟨f²⟩ (the squares of one and two) and
    ⟨f_a f_b⟩; whether the series reaches them."""
    c = 1.0 - gap
    if not (gap >= APART and gap <= 2.0 - APART):
        return False
    count = 0
    for j in range(ladder.size):
        if tails_a[1, j] * tails_b[1, j] * abs(c) ** (ladder[j] - 1) <= WANTED:
            count = ladder[j]
            break
    if count == 0 or not one * two > 0.0:
        return False
    orders = min((count - first + step - 1) // step, own.size, other.size)
    u = c * c if step == 2 else c
    S, D = _interleaved(own, other, orders, u)
    if step == 2:
        D *= 2.0 * c
    if first == 1:
        D = S + c * D
        S *= c
    moved = one - two
    out[0], out[1] = S, D
    out[2] = max(2.0 * (one * two - S), 0.0)
    out[3] = moved * moved
    out[4] = moved * (one + two) / between if between != 0.0 else 0.0
    out[5] = 0.0
    return True
