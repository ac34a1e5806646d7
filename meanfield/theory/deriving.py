"""`derive`: the theory of an architecture, from an activation, a record or the name of a preset."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from meanfield.base.arguments import validated

if TYPE_CHECKING:
    from meanfield.networks.records import Block
    from meanfield.theory.theory import Theory


@validated
def derive(
    activation: object = None,
    *,
    residual: object = False,
    mu: object = None,
    norm: str | None = None,
    architecture: Block | str | Callable[..., Block] | None = None,
    weights: str = "gaussian",
    batch: int | None = None,
    **parameters,
) -> Theory:
    """The theory of a wide random network at initialization.

    activation: φ, a registered name ("tanh", "leaky_relu(0.2)"), a formula in z ("z*erf(z)"), a SymPy expression or an
    `Activation`. residual: True adds the skip z^{l+1} = branch + μ z^l with μ = 1, and a number the skip with that μ;
    mu: the skip with another μ, a number or a name (mu="mu" keeps it symbolic), and residual may be left out.
    norm: "pre" or "act" puts a LayerNorm on preactivations, Dense(φ(LN(z))), or on
    activations, Dense(LN(φ(z))); the skip carries z as it is. weights: "gaussian", "orthogonal" (Haar), "mixed" (Haar
    after a Gaussian input layer) or "uniform" (independent, fourth cumulant −6/5), which share one limit of infinite
    width; at order 1/n, G1, Theta1 and J1 tell uniform weights from Gaussian ones. architecture: any composition of
    blocks instead of the plain layer; a `Network`, whose input layer has σ's of its own; or, with an activation, a
    preset of `meanfield.architectures`, by its name, whose keywords are then taken, too (`architecture="full_residual",
    beta_v="1/2"`), or with its keywords (`architecture=mf.architectures.preln(mu="1/2")`).
    batch: how many inputs a `BatchNorm` sees at a time, 4 or more; infinitely many unless given.
    Keyword parameters set the activation's parameters (alpha=0.2, or alpha="alpha" to keep it symbolic). Where symbols
    leave open which switch point comes first (min(max(z, s), t)), the verbs that take numbers for them answer, and the
    others say what is open.

    Conventions: z^{l+1} = (σ_w/√N) W φ(z^l) + σ_b b [+ μ z^l], standard normal W and b; K^l is the second moment of
    z^l; l = 1 is the first layer after the input.

    Raises: MeanFieldError for an unknown name, an unreadable formula, a negative μ, or blocks that have no rule.

    >>> print(derive("tanh", residual=True).recursion("K", "J"))
    K' = K + sigma_b**2 + sigma_w**2*<tanh(z)**2>_{K}
    J' = J*(sigma_w**2*<sech(z)**4>_{K} + 1)
    """
    from meanfield.theory.derivation import theory_of

    said: dict[str, Any] = dict(residual=residual, mu=mu, norm=norm, architecture=architecture, weights=weights)
    return theory_of(activation, **said, batch=batch, **parameters)
