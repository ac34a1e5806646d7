"""Parametrizations for the tests, retyped from the papers as exponents, and the settings of a network in them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.parametrizations.coordinate_nodes import Setting

Power = tuple[float, float]  # of n and of L
KINDS = ("input", "hidden", "readout", "bias")
O, N = (0.0, 0.0), (1.0, 0.0)  # 1 and n


def n(power: float, of_depth: float = 0.0) -> Power:
    return power, of_depth


# name → multipliers, variances (of input, hidden, readout, bias), factor of branches, and rates by rule
TABLES: dict[str, tuple] = {
    "sp": ((O, O, O, O), (O, n(-1), n(-1), O), O, dict.fromkeys(("sgd", "adam", "muon"), (O, O, O, O))),
    "ntk": (
        (O, n(-0.5), n(-0.5), O), (O, O, O, O), O,
        {"sgd": (O, O, O, O), "adam": (n(-0.5), n(-1), n(-0.5), n(-0.5)), "muon": (n(-0.5), O, n(-0.5), n(-0.5))},
    ),
    "mean_field": (
        (O, n(-0.5), n(-1), O), (O, O, O, O), O,
        {"sgd": (N, N, N, N), "adam": (O, n(-0.5), O, O), "muon": (O, n(0.5), O, O)},
    ),
    "mup": (
        (O, O, n(-1), O), (O, n(-1), O, O), O,
        {"sgd": (N, O, N, N), "adam": (O, n(-1), O, O), "muon": (O, O, O, O)},
    ),
    "spectral": (
        (O, O, O, O), (O, n(-1), n(-2), O), O,
        {"sgd": (N, O, n(-1), N), "adam": (O, n(-1), n(-1), O), "muon": (O, O, n(-1), O)},
    ),
    "depth_mup": (
        (O, O, n(-1), O), (O, n(-1), O, O), n(0, -0.5),
        {"sgd": (N, O, N, N), "adam": (O, n(-1, -0.5), O, n(0, -0.5)), "muon": (O, n(0, -0.5), O, n(0, -0.5))},
    ),
    "completep": (
        (O, O, n(-1), O), (O, n(-1), O, O), n(0, -1),
        {"sgd": (N, n(0, 1), N, n(1, 1)), "adam": (O, n(-1), O, O), "muon": (O, O, O, O)},
    ),
}  # fmt: skip


def at(power: Power, width: float, depth: float) -> float:
    return width ** power[0] * depth ** power[1]


def settings_in(
    name: str, rule: str, width: int, kinds: Sequence[str], *, rate: float, base: int = 1, blocks: int = 1, d: int = 64,
    sigma_w: float = 1.0, sigma_b: float = 0.0, biases: bool = False, eps: float = 0.0, fan: Sequence[float] = (),
    gauges: dict[str, float] | None = None,
) -> list[Setting]:
    """A `Setting` for each Dense, of which `kinds` says what they are. fan: fan-in over width of each (1 unless given);
    gauges: by kind of matrix, the exponent of n by which its multiplier is moved."""
    multipliers, variances, _, rates = TABLES[name]
    share, out = width / base, []
    for k, kind in enumerate(kinds):
        i = KINDS.index(kind)
        how = "adam" if rule == "muon" and kind != "hidden" else rule
        moved = share ** (gauges or {}).get(kind, 0.0)
        fan_in = d if kind == "input" else base * (fan[k] if fan else 1.0)  # that of the network of the base width
        deep = blocks if kind == "hidden" else 1  # powers of L count for biases of blocks alone
        wide = 1.0 if kind == "readout" else share  # that of the readout is one number
        out.append(
            Setting(
                S=sigma_w * (at(variances[i], share, blocks) / fan_in) ** 0.5 / moved,
                M=at(multipliers[i], share, blocks) * moved,
                Sb=sigma_b * at(variances[3], wide, deep) ** 0.5,
                Mb=at(multipliers[3], wide, deep),
                eta=rate * at(rates[rule][i], share, blocks) / moved ** (2 if how == "sgd" else 1),
                eta_b=rate * at(rates[rule][3], wide, deep) * biases,
                rule=how,
                bias_rule="sgd" if rule == "sgd" else "adam",
                eps=eps * moved if how == "adam" else 0.0,
            )
        )
    return out


def branch_of(name: str, blocks: int) -> float:
    return at(TABLES[name][2], 1.0, blocks)
