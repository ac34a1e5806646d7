"""Networks with tokens: what `sample` is given, checked, and the numbers that the draws take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, one_point, refuse_not_real, scalar, shown, whole
from meanfield.base.arguments import names as names_of
from meanfield.base.budgets import require_memory
from meanfield.base.words import no_parameter, unknown
from meanfield.functions.activations import activation
from meanfield.networks.folds import activations_of, dense_of, fold, mixing, symbols_in
from meanfield.networks.records import Block, Dense, Param
from meanfield.numeric.tokens.drawn_heads import workspace
from meanfield.numeric.tokens.token_sampling import Sampled, SamplingSetting, draw_all
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.parameter_points import ParameterPoint

QUANTITIES = ("K", "K_ab", "J", "chi")
NOTED = ("branch", "entropy", "query_share", "scores")  # of every skip, and of every Attention
BY_MATRICES = "Theta"
READ = ("mean", "last")
MOST_TOKENS = 4096
DEEPEST = 10**5


def run_sample(
    theory: Maps,
    /,
    *,
    sigma_w: object = None,
    sigma_b: object = None,
    depth: object,
    tokens: object = None,
    draws: object = 12,
    seed: object = 0,
    input_norm: object = 1,
    correlation: object = 0,
    layerwise: object = False,
    quantities: object = None,
    threads: object = None,
    read: object = "mean",
    gram: object = None,
    **parameters: object,
) -> Sampled:
    """`Theory.sample`."""
    theory, point = ParameterPoint.of(theory, sigma_w, sigma_b, input_norm, correlation, None, parameters).decided(
        theory
    )
    theory, point = point.numbered(theory)
    block, first = theory.block, theory.first
    values = {"sigma_w": point.sigma_w, "sigma_b": point.sigma_b} | point.doubles()
    one_point(values, layerwise)
    size, cosine = point.input_norm, point.correlation
    given = None if gram is None else _given(gram, tokens, size, cosine)
    if tokens is None and given is None:
        raise MeanFieldError(
            "The sampled theory draws the matrices of Dense(axis='tokens') and of attention, whose size is the number "
            "of tokens; give tokens=, for example tokens=64."
        )
    T = whole(tokens if given is None else len(given), "tokens", 1, MOST_TOKENS)
    if T == 1:
        raise MeanFieldError(
            "tokens=1 was given, where a Dense on tokens only multiplies by one random number and attention by 1; "
            "take tokens=2 or more, or propagate for a network without tokens."
        )
    layers = whole(depth, "depth", 1, DEEPEST)
    count = whole(draws, "draws", 2, 1 << 24)
    start = whole(seed, "seed", 0, 1 << 62)
    workers = None if threads is None else whole(threads, "threads", 1, 1 << 16)
    wanted = _quantities(quantities, block)
    numbers = _numbers(block, first, values, layers)
    inputs = _gram(T, size, cosine) if given is None else given
    mixes = "tokens" in mixing(block)
    widest = T * max([1.0, *_factors(block, numbers)])
    heads = fold(block, lambda one, inside: max(workspace(one, widest), *inside) if inside else workspace(one, widest))
    require_memory(
        (8.0 * 16 * widest**2 + heads) * (workers or 4),
        f"{T} tokens ({widest:g} inside the block)",
        "take fewer tokens or threads=1",
    )
    weights = len(dense_of(block)) if BY_MATRICES in wanted else 0
    tangents = bool({"J", "chi", BY_MATRICES} & set(wanted))
    where = choice(read, "read", READ)
    noted = bool(set(NOTED) & set(wanted))
    setting = SamplingSetting(block, first, inputs, layers, numbers, tangents, start, where, noted, weights)
    found = draw_all(setting, count, mixes, workers)
    keys = {"log_J" if name == "J" else name for name in wanted}
    return found.only(tuple(name for name in found.samples if name.partition("[")[0] in keys))


def _quantities(given: object, block: Block) -> tuple[str, ...]:
    jumps = [a for a in _held(block) if not a.is_continuous]
    if given is None:
        return QUANTITIES[:2] if jumps else QUANTITIES
    asked = names_of(given, "quantities")
    for name in asked:
        if name not in (*QUANTITIES, *NOTED, BY_MATRICES):
            raise unknown("quantity of the sampled theory", name, (*QUANTITIES, *NOTED, BY_MATRICES))
    if jumps and {"J", "chi", BY_MATRICES} & set(asked):
        raise MeanFieldError(f"J of {jumps[0]} is infinite, because it jumps; ask for quantities=('K', 'K_ab').")
    return tuple(asked)


def _held(block: Block) -> list[Any]:
    return [activation(one) for one in activations_of(block)]


def _numbers(block: Block, first: Dense, values: Mapping[str, Any], depth: int) -> dict[str, Any]:
    known = {"sigma_w", "sigma_b"} | symbols_in((block, first))
    for name in values:
        if name not in known:
            raise no_parameter(name, known - {"sigma_w", "sigma_b"})
    found: dict[str, Any] = {}
    for name, value in values.items():
        refuse_not_real(value, name)
        try:
            array = np.array(value, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise MeanFieldError(f"{name} must be a number ≥ 0, but {shown(value)} was given.") from None
        if array.ndim > 1 or (array.ndim == 1 and len(array) != depth):
            raise MeanFieldError(
                f"{name} must be one number or one for each of {depth} layers, but its shape is {array.shape}."
            )
        if not np.isfinite(array).all() or (array < 0).any() or (array > 1e75).any():
            raise MeanFieldError(f"{name} must be ≥ 0 and below 1e75, but {shown(value)} was given.")
        found[name] = float(array) if array.ndim == 0 else array
    return found


def _factors(block: Block, numbers: Mapping[str, Any]) -> Iterator[float]:
    """Tokens inside the block, per token of the input."""
    for part in dense_of(block):
        if part.mixes == "tokens":
            held = part.expand
            yield float(np.max(numbers.get(held.name, 1.0)) if isinstance(held, Param) else held)


def _given(gram: object, tokens: object, size: object, cosine: object) -> np.ndarray:
    """A Gram matrix of tokens as an array, where it is one and nothing else says what they are."""
    try:
        found = np.array(gram, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise MeanFieldError(f"gram must be a matrix x_s·x_t/N_0 of the tokens, but {shown(gram)} was given.") from None
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not 1 <= len(found) <= MOST_TOKENS:
        raise MeanFieldError(
            f"gram must be square, a row for each of up to {MOST_TOKENS} tokens, but its shape is {found.shape}."
        )
    if not np.isfinite(found).all() or np.abs(found).max() > 1e75 or not (np.diag(found) > 0).all():
        raise MeanFieldError("gram must be finite and below 1e75, and > 0 on its diagonal (no token is 0).")
    largest = float(np.abs(found).max())
    if np.abs(found - found.T).max() > 1e-12 * largest or np.linalg.eigvalsh(found)[0] < -1e-9 * largest * len(found):
        raise MeanFieldError(
            "gram must be symmetric without negative eigenvalues; make it of inputs X, as X @ X.T / X.shape[1]."
        )
    if tokens is not None and tokens != len(found):
        raise MeanFieldError(f"gram has {len(found)} tokens, but tokens = {shown(tokens)} was given; leave tokens out.")
    if (size, cosine) != (1, 0):
        raise MeanFieldError("gram holds the norms and cosines of the tokens; leave input_norm and correlation out.")
    return found


def _gram(tokens: int, input_norm: object, correlation: object) -> np.ndarray:
    """x_s·x_t/N_0 of the tokens: of one norm, any two with the same cosine."""
    norm, cosine = (float(scalar(v, n)) for v, n in ((input_norm, "input_norm"), (correlation, "correlation")))
    if not 0 < norm < 1e75:
        raise MeanFieldError(f"input_norm must be > 0 and below 1e75, but {shown(input_norm)} was given.")
    if not -1 / (tokens - 1) <= cosine <= 1:
        raise MeanFieldError(
            f"The cosine of any two of {tokens} tokens lies in [{-1 / (tokens - 1):.4g}, 1], but correlation = "
            f"{shown(correlation)} was given."
        )
    return norm * ((1 - cosine) * np.eye(tokens) + cosine)
