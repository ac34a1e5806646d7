"""The tables of docs/digits.md, computed."""

from __future__ import annotations

import warnings
from itertools import product

from derivations.digits.process import SIGMA_B2, data, exact, length, place, process, theory

SQUARES = (0.8, 1.2, 1.6, 3.0)  # σ_w²
MULTIPLES = (1, 3, 6, 12, 25)  # of ξ_c
GRID = ((0.8, 1.2, 1.6, 2.0, 3.0, 5.0), (0.0125, 0.05, 0.2), (1, 2, 3, 5, 8, 12, 20))  # σ_w², σ_b², layers


def layers(square: float, multiple: float) -> int:
    """The depth that is nearest to multiple·ξ_c, at least one nonlinearity."""
    return max(1, round(multiple * length(square)))


def by_depth(square: float, multiples=MULTIPLES, quantity: str = "K") -> list[float]:
    """Accuracies at multiples of ξ_c."""
    return [process(square, SIGMA_B2, layers(square, m), quantity=quantity).accuracy for m in multiples]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def depths() -> str:
    """Accuracy at multiples of ξ_c, by K and by Theta."""
    rows = []
    for square, (name, quantity) in product(SQUARES, (("NNGP", "K"), ("NTK", "Theta"))):
        found = by_depth(square, quantity=quantity)
        rows.append([f"{square:g}", f"{length(square):.1f}", name, *(f"{a:.3f}" for a in found)])
    return _table(["σ_w²", "ξ_c", "kernel", *(f"{m} ξ_c" for m in MULTIPLES)], rows)


def without_noise() -> str:
    """What is left where nothing is added to the diagonal: rounding alone takes digits away."""
    rows = []
    for s in SQUARES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the matrix is all but singular
            found = [exact(process(s, SIGMA_B2, layers(s, m))) for m in MULTIPLES]
        rows.append([f"{s:g}", *(f"{a:.3f}" for a in found)])
    return _table(["σ_w², no noise", *(f"{m} ξ_c" for m in MULTIPLES)], rows)


def evidences(squares=GRID[0], biases=GRID[1], depths=GRID[2]) -> list[tuple[float, float, float, float, int]]:
    """(evidence, accuracy, σ_w², σ_b², layers), the most likely first."""
    found = []
    for place_ in product(squares, biases, depths):
        one = process(*place_)
        found.append((one.evidence, one.accuracy, *place_))
    return sorted(found, reverse=True)


def chosen(most: int = 5) -> str:
    """The most and the least likely of a grid of σ_w², σ_b² and depths."""
    found = evidences()
    rows = [
        [f"{i + 1}", f"{e:.4f}", f"{a:.3f}", f"{s:g}", f"{b:g}", f"{l}"]
        for i, (e, a, s, b, l) in enumerate(found)
        if i < most or i == len(found) - 1
    ]
    return _table(["rank", "evidence", "accuracy", "σ_w²", "σ_b²", "layers"], rows)


def fit(depth: int, square: float = 1.2, bias: float = SIGMA_B2):
    """A `GaussianProcessRegressor` whose σ_w and σ_b, scale and noise are fitted at this many layers."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

    import meanfield as mf

    at = place(square, bias, depth)
    kernel = ConstantKernel(0.1, (1e-4, 1e3)) * mf.nngp(
        theory(), **at, sigma_w_bounds=(0.1, 10), sigma_b_bounds=(1e-2, 10)
    ) + WhiteKernel(1e-3, (1e-6, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # noise that vanishes, within its bounds, is an answer
        return GaussianProcessRegressor(kernel=kernel).fit(data().X, data().targets)


def fitted(depths=(1, 2, 4)) -> str:
    """What scikit-learn's regressor makes of σ_w and σ_b, by the gradients of the derived recursion."""
    rows = []
    for depth in depths:
        found = fit(depth)
        kernel = found.kernel_.k1.k2
        right = found.predict(data().others).argmax(axis=1) == data().truth
        rows.append(
            [
                f"{depth}",
                f"{found.log_marginal_likelihood_value_ / data().targets.size:.4f}",
                f"{right.mean():.3f}",
                f"{kernel.sigma_w**2:.3g}",
                f"{kernel.sigma_b**2:.3g}",
            ]
        )
    return _table(["layers", "evidence", "accuracy", "σ_w²", "σ_b²"], rows)
