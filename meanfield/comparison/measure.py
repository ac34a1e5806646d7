"""What finite networks give by themselves, without the theory: `measure` and its kin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from meanfield.base.arguments import count_of, one_point, refuse_not_real, validated
from meanfield.base.arguments import names as names_of
from meanfield.base.progress import watched
from meanfield.base.quantities import differentials
from meanfield.comparison.network_settings import LAZY_FROM, is_uniform, record_and_settings
from meanfield.empirical import CriticalityEstimate, EnsembleResult, MeasuredLine, PairStatistics, run_ensemble
from meanfield.empirical import measure_critical_line as _measure_critical_line
from meanfield.empirical import measure_criticality as _measure_criticality
from meanfield.empirical import measure_pairs as _measure_pairs
from meanfield.empirical.functions.tabulated import Tabulated
from meanfield.networks.folds import activations_of


@validated
def measure(
    network: Any, *, sigma_w: Any = None, sigma_b: Any = None, layerwise: bool = False, **settings: Any
) -> EnsembleResult:
    """Any quantity of finite networks, with its standard error: K, J, Theta, V, A, B, D, F, P ... U, gradients (of
    a loss by class, too), class fractions; nothing analytic is used.

    network: a `Theory`, an architecture record, or what `derive` takes, with its keywords, or a function of one real
    number that nothing reads (a torch module): networks then hold a table of its values, and the answer says so
    (`note`). sigma_w, sigma_b: one number, or with layerwise=True one per layer; left out where the record says what
    they are. settings: numbers for
    symbols of the network (mu=0.5), and width, depth, networks, quantities, sampler (lazy from width 2000 on, but for
    uniform weights), lambda_w, lambda_b, probes, inputs, executor, checkpoint, ... as in
    `meanfield.empirical.run_ensemble`.

    >>> run = measure("z*erf(z)", sigma_w=1, sigma_b=0.1, width=40, depth=3, networks=30, quantities=("K", "V"))
    >>> run.estimate("K").mean.shape, run.estimate("V").mean.shape
    ((3,), (3, 1, 1, 1, 1))
    """
    rates = {k: settings.get(k) for k in ("lambda_w", "lambda_b")}
    one_point({"sigma_w": sigma_w, "sigma_b": sigma_b, **rates}, layerwise)
    asked = set(() if settings.get("quantities") is None else names_of(settings["quantities"], "quantities"))
    higher = differentials(asked) > 1
    block, numbers = record_and_settings(run_ensemble, network, sigma_w, sigma_b, settings, higher)
    refuse_not_real(numbers["width"], "width")
    widths = np.ravel(np.asarray(numbers["width"], dtype=object)).tolist()
    widest = max((n for w in widths if isinstance(n := count_of(w), int | float)), default=0)
    if widest >= LAZY_FROM and not differentials(asked) and not is_uniform(block):
        numbers.setdefault("sampler", "lazy")
    with watched(numbers.pop("progress", None), "networks") as bar:
        found = run_ensemble(block, progress=bar, **numbers)
    notes = [f"activation: {one}" for one in activations_of(block) if isinstance(one, Tabulated)]
    return replace(found, note="; ".join([*notes, *filter(None, (found.note,))])) if notes else found


@validated
def measure_criticality(
    network: Any, *, sigma_w: Any = None, sigma_b: Any = None, **settings: Any
) -> CriticalityEstimate:
    """χ = J^{L-2,L-1} of explicit networks by random probes, with its standard error: is this architecture critical?

    network: as in `measure`; nothing analytic about it is used.
    settings: width, depth L (blocks), networks, probes, seed, sampler, input_norm, threads as in
    `meanfield.empirical.measure_criticality`. χ > 1: chaotic, χ < 1: ordered; the two sides of a critical line have
    opposite signs of χ - 1. The bias is of order 1/width. Source: [partial_jacobians] Prop. 2.6.

    >>> found = measure_criticality("tanh", sigma_w=0.7, sigma_b=0.1, width=64, depth=10, networks=20)
    >>> found.phase
    'ordered'
    """
    block, numbers = record_and_settings(_measure_criticality, network, sigma_w, sigma_b, settings)
    with watched(numbers.pop("progress", None), "networks") as bar:
        return _measure_criticality(block, progress=bar, **numbers)


@validated
def measure_critical_line(network: Any, *, sigma_w: Any, sigma_b: Any, **settings: Any) -> MeasuredLine:
    """The edge of chaos of finite networks: the σ_w² at which J^{1,l} does not depend on l, with its standard error;
    for one σ_b or several. Nothing analytic is used.

    network: as in `measure`. sigma_w: three values or more to
    scan, on both sides of the edge. settings: width (1000), depth (31), networks (8), probes, first, seed, sampler,
    input_norm, threads as in `meanfield.empirical.measure_critical_line`. Source: [bias_and_trainability] Sec. 4.

    >>> found = measure_critical_line("tanh", sigma_w=[1.2, 1.4, 1.6], sigma_b="sqrt(1/10)", width=200, depth=12)
    >>> print(found)
    σ_w² = 2.002 ± 0.04 at σ_b² = 0.1 (N = 200, L = 12, 8 networks)
    """
    block, numbers = record_and_settings(_measure_critical_line, network, sigma_w, sigma_b, settings)
    with watched(numbers.pop("progress", None), "networks") as bar:
        return _measure_critical_line(block, progress=bar, **numbers)


@validated
def measure_pairs(network: Any, *, sigma_w: Any = None, sigma_b: Any = None, **settings: Any) -> PairStatistics:
    """Covariances and correlations of all pairs of inputs of one network, layer by layer, with the spread sigma_y2 and
    the drift sigma_mu2 of its neurons, both without bias; nothing analytic is used.

    network: as in `measure`. sigma_w, sigma_b: numbers or arrays
    of points that share one draw of the weights. settings: width, depth, batch (100) or inputs, seed, index, sampler
    ("lazy"), input_dimension, input_norm, threads as in `meanfield.empirical.measure_pairs`.
    Source: [bias_and_trainability] Def. 2.1, Sec. 2.2 (Figs. 2, 16-19).

    >>> found = measure_pairs("relu", sigma_w=2**0.5, sigma_b=0, width=2000, depth=3, batch=20)
    >>> low, middle, high = found.quantiles("c")[:, 0, -1]
    >>> bool(low < found.c[0, -1] < high)
    True
    """
    block, numbers = record_and_settings(_measure_pairs, network, sigma_w, sigma_b, settings)
    refuse_not_real(numbers["width"], "width")
    with watched(numbers.pop("progress", None), "networks") as bar:
        return _measure_pairs(block, progress=bar, **numbers)
