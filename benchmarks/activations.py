"""What kernels and grids of each registered activation cost: no φ and no phase is far from the others.

    python benchmarks/activations.py [--names elu,silu]

CPU seconds on one core, after a first call that compiles: K and Theta of 512 inputs at depth 10 in an ordered and in a
chaotic phase, and ns a point and layer of a grid of 60 × 60, without and with a skip, between depth 100 and 300.
"""

import argparse
from time import process_time

import numpy as np

import meanfield as mf

POINTS = 60
PHASES = {"ordered": (0.7, 0.3), "chaotic": (1.5, 0.1)}


def spent(call) -> float:
    """CPU seconds of the second call."""
    call()
    start = process_time()
    call()
    return process_time() - start


def kernel(phi: str, phase: str) -> float:
    X = np.random.default_rng(17).standard_normal((512, 32))
    sigma_w, sigma_b = PHASES[phase]
    theory = mf.derive(phi)
    return spent(
        lambda: theory.kernel(X, sigma_w=sigma_w, sigma_b=sigma_b, depth=10, quantities=("K", "Theta"), threads=1)
    )


def grid(phi: str, mu: int) -> float:
    """ns a point and layer."""
    theory = mf.derive(phi, mu=mu) if mu else mf.derive(phi)
    given = {"sigma_w": np.linspace(1.0, 2.5, POINTS)[:, None], "sigma_b": np.linspace(0.05, 1, POINTS)}
    few, many = (
        spent(lambda depth=depth: theory.propagate(**given, depth=depth, quantities=("K",), every_layer=False))
        for depth in (100, 300)
    )
    return (many - few) / (200 * POINTS**2) * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default="tanh,gelu,relu,elu,selu,silu,hard_swish")
    print("| φ | kernel ordered, s | chaotic, s | grid, ns | with a skip, ns |\n|---|---|---|---|---|")
    for phi in parser.parse_args().names.split(","):
        numbers = [kernel(phi, "ordered"), kernel(phi, "chaotic"), grid(phi, 0), grid(phi, 1)]
        print(f"| {phi} | " + " | ".join(f"{x:.3g}" for x in numbers) + " |", flush=True)


if __name__ == "__main__":
    main()
