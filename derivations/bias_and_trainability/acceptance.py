"""The table of acceptance values: lines of section 8 of the specification, rows of its section 3, and errata."""

from __future__ import annotations

import math
from functools import partial

from derivations.bias_and_trainability import numbers as n
from derivations.bias_and_trainability.pooled_acceptance import POOLED
from derivations.checks import Check

EDGE = {  # σ_b²: q, σ_w², α, β of the critical line, σ_w² of the neutrality line
    "0.0001": (0.0457090787, 1.0860262925, 0.919166, 302.80, 1.12319037),
    "0.0025": (0.1536919358, 1.2600938172, 0.782196, 39.282, 1.39637064),
    "0.01": (0.2733009135, 1.4242052905, 0.678191, 16.639, 1.68466852),
    "0.02": (0.3712403235, 1.5441928403, 0.614095, 10.858, 1.91552716),
    "0.05": (0.5700478816, 1.7609546396, 0.518186, 6.1711, 2.37826550),
    "0.1": (0.8057991819, 1.9860726411, 0.439453, 4.00958, 2.92476575),
    "0.15": (0.9965821321, 2.1504751616, 0.392214, 3.10650, 3.36850579),
    "0.2": (1.1644962875, 2.2851524737, 0.358688, 2.58720, 3.76109504),
    "0.5": (1.9710306134, 2.8431674597, 0.255726, 1.42448, 5.67894221),
    "1": (3.0363963946, 3.4432109123, 0.186371, 0.88974, 8.28763746),
}
SPREADS = ("sigma_y2", "sigma_mu2", "gamma", "c")
RELU = {  # (σ_w², σ_b²): at layer l the values of `SPREADS`
    ("2.5", "0.1"): {
        2: (2.15222760754, 1.19777239246, 0.556526822844, 0.357543997749),
        3: (2.01982613498, 2.26767386502, 1.12270745772, 0.52890352537),
        10: (2.92499682603, 19.0267449647, 6.50487713196, 0.866753314889),
        100: (4.22235983711e7, 1.17396007179e10, 278.034112933, 0.996416208794),
    },
    ("1.5", "0.1"): {
        2: (0.779781854647, 0.520218145353, 0.667132919613, 0.400167804117),
        10: (0.0227209034309, 0.467380720104, 20.5705165521, 0.953640424068),
        50: (1.43335635762e-7, 0.400000762779, 2790658.16851, 0.999999641662),
    },
}
FRACTIONS = (0.007582, 0.054087, 1 / 12, 0.116140, 0.181611, 0.570024, 0.695913, 0.75, 0.804087, 0.902509, 0.11698)
WITHOUT_BIAS = (0.466942206924, 0.975234861639, 5.88749052018, 273.510426607, 23139.1193646)
A = 2 * math.sqrt(2) / (3 * math.pi)
SERIES = (1, A, 8 / (9 * math.pi**2), 16 * math.sqrt(2) / (27 * math.pi**3) + 11 * math.sqrt(2) / (30 * math.pi))


def per_square(value: float, l: int) -> float:
    return value / l**2


def first(count: int, compute):
    """The first `count` of the values."""
    return lambda off: compute(off)[:count]


def last(count: int, compute):
    """The last `count` of the values."""
    return lambda off: compute(off)[-count:]


CHECKS: tuple[Check, ...] = (
    Check("1", "q* of tanh", (1.149093029164,), 1e-10, first(1, n.fixed("tanh", "2.5", "0.1"))),
    Check("2", "c of tanh at l = 10", (0.441515764224,), 1e-9, n.along("tanh", "2.5", "0.1", (10,), ("c",))),
    Check("2", "q*, c* of tanh, σ_w² = 2.5", (1.149093029164, 0.664361345), 1e-7, n.fixed("tanh", "2.5", "0.1")),
    Check("2", "q*, c* of tanh, σ_w² = 3", (1.507631770, 0.477539344), 1e-8, n.fixed("tanh", "3", "0.1")),
    Check("2", "q*, c* of tanh, σ_w² = 4", (2.268195431, 0.285524215), 1e-8, n.fixed("tanh", "4", "0.1")),
    Check(
        "3",
        "tanh, layer 2: σ_y², σ_μ²",
        (1.366547608795, 0.147204482279),
        1e-10,
        n.along("tanh", "2.5", "0.1", (2,), ("sigma_y2", "sigma_mu2")),
    ),
    Check("4", "γ ↔ c of tanh", (1.979395, 0.664361347), 1e-6, n.along("tanh", "2.5", "0.1", (400,), ("gamma", "c"))),
    Check(
        "§3",
        "γ of tanh at l = 2, 10, 20",
        (0.107719980871, 0.790560835814, 1.375044774841),
        1e-10,
        n.along("tanh", "2.5", "0.1", (2, 10, 20), ("gamma",)),
    ),
    Check("§3", "c of tanh at l = 60", (0.660657502726,), 1e-10, n.along("tanh", "2.5", "0.1", (60,), ("c",))),
    Check("6", "∂c′/∂c of tanh", (0.8490233940,), 1e-8, n.at_state("dc'/dc", "tanh", q=".7", w="1.7", b=".1", c=".6")),
    Check("7", "χ̃_1, α, χ_1 of ReLU", (1.25, 1.25, 0.970149254), 1e-9, n.susceptibilities),
    Check("8", "α of tanh", (0.424298917943,), 1e-9, n.at_state("chi_K", "tanh", q=".7", w="1.7")),
    Check("11", "(92), (93)", (0.887994135887285, 1.57108042391459), 1e-13, n.one_node),
    Check("12", "h(1)", (math.sqrt(math.pi) / 3,), 1e-14, n.h_at_one),
    *(
        Check("13", f"ReLU, σ_w² = {w}, σ_b² = {b}, l = {l}", row, 1e-9, n.along("relu", w, b, (l,), SPREADS))
        for (w, b), rows in RELU.items()
        for l, row in rows.items()
    ),
    Check(
        "13", "γ at l = 100, σ_w² = 1.5", (4.93428694635e12,), 1e-9, n.along("relu", "1.5", "0.1", (100,), ("gamma",))
    ),
    Check(
        "13",
        "γ, c at l = 100, σ_w² = 2",
        (602.9500127, 0.998344233829),
        1e-9,
        n.along("relu", "2", "0.1", (100,), ("gamma", "c")),
    ),
    Check("13", "γ at σ_b = 0", WITHOUT_BIAS, 1e-9, n.without_bias((2, 3, 10, 100, 1000))),
    Check("14", "γ at l = 2, σ_w² = 1.5", (0.667132919613,), 1e-9, n.along("relu", "1.5", "0.1", (2,), ("gamma",))),
    Check("E2", "γ at l = 21", (613.4676,), 1e-7, n.along("relu", "1.5", "0.1", (21,), ("gamma",))),
    Check("15", "g/f at large γ", SERIES, 1e-12, n.coefficients),
    Check("17", "l²(1 - c), ReLU, σ_b = 0", (43.215, 44.332), 2e-5, n.without_bias((1000, 20000), n.apart(2))),
    Check("17", "l(1 - c), tanh, EOC", (4.0640,), 2e-5, n.edge_run((1000,))),
    Check("E17", "l(1 - c), tanh, EOC", (4.146, 4.032), 2e-4, n.edge_run((300, 2999))),
    Check("18", "slope at c*, tanh, σ_w² = 3", (0.8946685,), 1e-6, last(1, n.gradients("tanh", "3", "0.1"))),
    Check("18", "χ_1 of tanh, σ_w² = 1.5", (0.8775127960,), 1e-9, first(1, n.gradients("tanh", "1.5", "0.1"))),
    Check("31", "factors of q̃_aa, q̃_ab", (1.0998010980, 0.9283989579), 1e-9, n.gradients("tanh", "2.5", "0.1")),
    *(
        Check("19", f"EOC of tanh, σ_b² = {b}: q, σ_w²", v[:2], 1e-8, first(2, partial(n.edge, square_b=b)))
        for b, v in EDGE.items()
    ),
    *(
        Check("§3", f"EOC of tanh, σ_b² = {b}: α, β", v[2:4], 3e-5, last(2, partial(n.edge, square_b=b)))
        for b, v in EDGE.items()
    ),
    *(
        Check("21", f"neutrality of tanh, σ_b² = {b}", v[4:], 1e-8, partial(n.neutral, square_b=b))
        for b, v in EDGE.items()
    ),
    Check("22", "tanh, σ_b² = 10⁻⁷: EOC", (1.0084519942,), 1e-9, last(1, first(2, partial(n.edge, square_b="1e-7")))),
    Check("22", "tanh, σ_b² = 10⁻⁷: neutrality", (1.0117586682,), 1e-9, partial(n.neutral, square_b="1e-7")),
    Check("25", "Var G_0, mean of its maximum, P(G_0 < 0.2)", FRACTIONS, 5e-5, n.fractions),
    Check("E24", "ξ |χ_1 - 1| near the EOC", (1, 1, 1), 1e-4, n.depth_scale),
    Check(
        "E25",
        "γ/l², σ_w² = 2, l = 10⁶",
        (0.0895,),
        1e-3,
        n.on_the_line((10**6,), per_square),
    ),
    Check("E25", "γ/l², σ_b = 0, l = 2·10⁴", (0.022557,), 3e-5, n.without_bias((20000,), per_square)),
    *(
        Check(
            "E32",
            f"c of tanh from ½, σ_b = 0, σ_w² = {w}",
            (value,),
            1e-4,
            n.along("tanh", w, "0", (depth,), ("c",), correlation=0.5),
            absolute=True,
        )
        for w, depth, value in (("0.8", 400, 0.4646), ("1", 2000, 0.4405))
    ),
    *POOLED,
)
