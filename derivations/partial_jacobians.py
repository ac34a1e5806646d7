"""Doshi, He, Gromov: critical initialization through partial Jacobians. The equations the engine decides so far, as
claims.

A claim is data: where it stands (R-number of the specification, equation number of the paper), the network, the
quantity, the printed right-hand side, and a variant that must be refuted (a misprint of the paper where there is one,
else a planted change). The engine derives its own result from the architecture; nothing here feeds it. `python -m
derivations.partial_jacobians` prints the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

import meanfield as mf
from meanfield.symbolic.recursion import closed, expressions_equal
from meanfield.symbols import K, parameter, sigma_b, sigma_w

mu, pi, sqrt, asin = parameter("mu"), sp.pi, sp.sqrt, sp.asin
a_p, a_m = parameter("a_plus"), parameter("a_minus")
square = (a_p**2 + a_m**2) / 2


@dataclass(frozen=True)
class Claim:
    """One published equation: `quantity` of derive(activation, **keywords) equals `printed`; `refuted` must differ from
    it."""

    source: str
    activation: str
    keywords: dict[str, str]
    quantity: str
    printed: sp.Expr
    refuted: sp.Expr

    def derived(self) -> sp.Expr:
        """The engine's own result, closed forms put in."""
        theory = mf.derive(self.activation, **self.keywords)
        if self.quantity == "K":
            return closed(theory.one_input["K"])
        return closed(theory.susceptibilities()[self.quantity])

    def verdict(self) -> mf.Equality:
        """Whether the engine's result is the printed one."""
        return expressions_equal(self.derived(), self.printed)


GELU_X = asin(K / (K + 1))
SCALE = {"a_plus": "a_plus", "a_minus": "a_minus"}
CLAIMS = [
    Claim(
        "R32 (G.3)", "scale_invariant", SCALE, "K", sigma_w**2 * square * K + sigma_b**2, sigma_w**2 * K + sigma_b**2
    ),
    Claim("R32 (G.4)", "scale_invariant", SCALE, "chi_K", sigma_w**2 * square, sigma_w**2 * square * 2),
    Claim("R32 (G.6)", "scale_invariant", SCALE, "chi_J", sigma_w**2 * square, sigma_w**2 * square + mu**2),
    Claim(
        "R35 (G.19)",
        "scale_invariant",
        SCALE | {"mu": "mu"},
        "K",
        (sigma_w**2 * square + mu**2) * K + sigma_b**2,
        mu * K,
    ),
    Claim(
        "R35 (G.22)",
        "scale_invariant",
        SCALE | {"mu": "mu"},
        "chi_J",
        sigma_w**2 * square + mu**2,
        sigma_w**2 * square + mu,
    ),
    Claim(
        "R35 (G.20)", "scale_invariant", SCALE | {"mu": "mu"}, "chi_K", sigma_w**2 * square + mu**2, sigma_w**2 * square
    ),
    Claim("R35 ReLU", "relu", {"mu": "mu"}, "chi_J", sigma_w**2 / 2 + mu**2, sigma_w**2 + mu**2),
    # H.2's printed arcsin(2Kλ1λ2/(1 + 2K(λ1² + λ2²))) at λ = 1 is the planted error
    Claim(
        "R37 (H.3)",
        "erf",
        {},
        "K",
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 2 * K)) + sigma_b**2,
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 4 * K)) + sigma_b**2,
    ),
    Claim(
        "R38 (H.4)",
        "erf",
        {},
        "chi_K",
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 4 * K)),
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 2 * K)),
    ),
    Claim(
        "R38 (H.5)", "erf", {}, "chi_J", 4 * sigma_w**2 / pi / sqrt(1 + 4 * K), 4 * sigma_w**2 / pi / sqrt(1 + 2 * K)
    ),
    Claim(
        "R43 (H.21)",
        "erf",
        {"mu": "mu"},
        "K",
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 2 * K)) + sigma_b**2 + mu**2 * K,
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 2 * K)) + sigma_b**2 + mu * K,
    ),
    Claim(
        "R43 (H.22)",
        "erf",
        {"mu": "mu"},
        "chi_K",
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 4 * K)) + mu**2,
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 4 * K)),
    ),
    Claim(
        "R43 (H.23)",
        "erf",
        {"mu": "mu"},
        "chi_J",
        4 * sigma_w**2 / pi / sqrt(1 + 4 * K) + mu**2,
        4 * sigma_w**2 / pi / sqrt(1 + 4 * K) + mu,
    ),
    Claim(
        "R46 (I.3)",
        "gelu",
        {},
        "K",
        sigma_w**2 * (K / 4 + K / (2 * pi) * (GELU_X + 2 * K / ((1 + K) * sqrt(1 + 2 * K)))) + sigma_b**2,
        # the misprint of (I.6): K instead of 2K in the second bracket term
        sigma_w**2 * (K / 4 + K / (2 * pi) * (GELU_X + K / ((1 + K) * sqrt(1 + 2 * K)))) + sigma_b**2,
    ),
    Claim(
        "R47 (I.4)",
        "gelu",
        {},
        "chi_K",
        sigma_w**2 / 4
        + sigma_w**2
        / (2 * pi)
        * (GELU_X + (4 * K**3 + 11 * K**2 + 5 * K) / ((1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(3, 2))),
        sigma_w**2 / 4
        + sigma_w**2
        / (2 * pi)
        * (GELU_X + (4 * K**3 + 11 * K**2 + 4 * K) / ((1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(3, 2))),
    ),
    Claim(
        "R47 (I.5)",
        "gelu",
        {},
        "chi_J",
        sigma_w**2 / 4
        + sigma_w**2 / (2 * pi) * (GELU_X + K * (3 + 5 * K) / ((1 + K) * (1 + 2 * K) ** sp.Rational(3, 2))),
        sigma_w**2 / 4
        + sigma_w**2 / (2 * pi) * (GELU_X + K * (3 + 4 * K) / ((1 + K) * (1 + 2 * K) ** sp.Rational(3, 2))),
    ),
    # derived beyond the paper: χ_Δ of GELU
    Claim(
        "R47 χ_Δ",
        "gelu",
        {},
        "chi_Delta",
        sigma_w**2 * (-(K**3) + 9 * K**2 + 12 * K + 4) / (2 * pi * (1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(5, 2)),
        sigma_w**2 * (-(K**3) + 9 * K**2 + 12 * K + 5) / (2 * pi * (1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(5, 2)),
    ),
]


def main() -> None:
    """Print the verdict of every claim and the counts."""
    verdicts = [(c, c.verdict()) for c in CLAIMS]
    for claim, verdict in verdicts:
        print(f"{claim.source:<14} {claim.activation:<16} {claim.quantity:<10} {verdict.value}")
    proved = sum(v is mf.Equality.PROVED for _, v in verdicts)
    print(f"{proved} of {len(verdicts)} proved equal")


if __name__ == "__main__":
    main()
