"""One network of finite width, drawn and run: the second reading of the architecture record.

z¹ = σ_w N_0^{−1/2} W x + σ_b b, then z^{l+1} = block(z^l), with the records `meanfield.architecture` defines. The
block becomes a flat list of operations on a stack, and tangents, the tangent kernel and (backwards) cotangents are
taken through it by the chain rule. σ_w, σ_b may depend on the layer. A signal is an array of positions × neurons;
positions are the inputs, or inputs × tokens (token fastest).

W is drawn entry by entry (sampler "explicit"), or its products are drawn as they are asked for, exactly in law
(sampler "lazy"), which makes a layer cost O(N) instead of O(N²).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from meanfield.architecture import Block, Sequential, input_weights, network_of
from meanfield.arguments import choice
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.carried import ParameterTangents, TangentKernel, Tangents
from meanfield.empirical.network.checks import integer, per_layer, rates_per_layer
from meanfield.empirical.network.derivatives import Derivative, Pooled, Product, Slope, Weighted, WeightedTokens
from meanfield.empirical.network.forward import mark_rows
from meanfield.empirical.network.operations import (
    AddSaved,
    Affine,
    MultiplySaved,
    Normalize,
    NormalizeBatch,
    Operation,
    Project,
    Save,
    Swap,
    refuse_one_neuron,
)
from meanfield.empirical.network.program import operations
from meanfield.empirical.network.shapes import check_shapes, shapes
from meanfield.empirical.random.buffers import Buffers, aligned
from meanfield.empirical.random.matrices import DrawnMatrix, Matrix
from meanfield.empirical.random.philox import MAX_INDEX, MAX_LAYER, MAX_NETWORK, fill_normals
from meanfield.empirical.random.sampler import LazyMatrix
from meanfield.results import MeanFieldError

SAMPLERS = ("explicit", "lazy")
BACKWARD = ("own", "copy")
COPY_ROLE = 3 << 14  # the streams of the copies that cotangents are pulled through: this plus that of the weights
_KEPT_WEIGHTS = 1 << 18  # entries of a matrix that a trace keeps for the backward pass; a larger one is drawn again
Carried = Tangents | TangentKernel
Trace = list[tuple[int, Operation, Derivative | Product | None]]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The law of random networks: a block, its widths and its standard deviations.

    `block` is repeated depth − 1 times after the input layer; `sigma_w`, `sigma_b` ≥ 0 are numbers or arrays of length
    `depth`; `width` is one number, or one per layer (`widths`; `width` is then the last); `input_dimension` N_0 (kept
    as `fan_in`) is the first layer's width unless given; `mu` is the value of symbolic parameters, see `operations`;
    `tokens` positions make one input. block: a `Network`, where the input layer has σ's of its own. backward: "own", or
    "copy" for cotangents that meet weights independent of those of the forward pass. rates: learning rates (λ_w, λ_b)
    of every Dense, each one number ≥ 0, one per layer, a formula in l such as "1/l", or None for that of standard
    normal parameters, σ_w² and σ_b²; λ_w is divided by the fan-in.
    `Ensemble(...).network(seed, index)` is one draw.
    """

    block: Block
    sigma_w: Any
    sigma_b: Any
    width: Any
    depth: int
    input_dimension: int | None = None
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None
    mu: Any = None
    tokens: int = 1
    sampler: str = "explicit"
    backward: str = "own"
    rates: Any = (None, None)
    fan_in: int = field(init=False)
    widths: tuple[int, ...] = field(init=False)
    input_layer: Affine = field(init=False)
    operations: tuple[Operation, ...] = field(init=False)

    def __post_init__(self) -> None:
        depth = integer(self.depth, "The depth", 1, MAX_LAYER)
        widths = _widths(self.width, depth)
        if self.sampler not in SAMPLERS:
            raise MeanFieldError(f"sampler={self.sampler!r} was asked for; the choices are {', '.join(SAMPLERS)}.")
        choice(self.backward, "backward", BACKWARD)
        own = {n: per_layer(v, n, depth) for n, v in (("sigma_w", self.sigma_w), ("sigma_b", self.sigma_b))}
        whole = network_of(self.block)
        parts = Sequential((whole.block, whole.first))
        *block, first = operations(parts, self.activation_pairs, self.mu, depth, own)
        assert isinstance(first, Affine)
        given_law = whole.first.weights
        law = {"gaussian": input_weights(whole.block), "mixed": "gaussian"}.get(given_law, given_law)
        given = widths[0] if self.input_dimension is None else self.input_dimension
        checked = {
            "width": widths[-1],
            "widths": widths,
            "input_layer": replace(first, ordinal=0, law=law),
            "depth": depth,
            "fan_in": integer(given, "The input dimension N_0", 1, MAX_INDEX // widths[0]),
            "tokens": integer(self.tokens, "The number of tokens", 1, 1 << 24),
            **own,
            "rates": rates_per_layer(self.rates, depth),
            "operations": tuple(block),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        laws = {one.law for one in (self.input_layer, *block) if isinstance(one, Affine)}
        if self.sampler == "lazy" and "uniform" in laws:
            raise MeanFieldError(
                "The lazy sampler knows the products of Gaussian and orthogonal matrices, but uniform weights were "
                "asked for, whose products have no such law; take sampler='explicit'."
            )
        if any(isinstance(operation, Normalize) for operation in self.operations):
            refuse_one_neuron(min(widths))
        object.__setattr__(self, "operations", check_shapes(self.operations, widths, self.tokens))

    def fan_ins(self) -> np.ndarray:
        """Inputs of the Dense of every layer, an array (layers, Dense): in the order they are met, the input layer's in
        the last place, 1 where there is none (what `G_w` is divided by to be per input)."""
        count = max(1, sum(isinstance(operation, Affine) for operation in self.operations))
        found = np.ones((self.depth, count))
        found[0, -1] = self.fan_in
        for layer in range(2, self.depth + 1):
            each = shapes(self.operations, self.widths, self.tokens, layer)
            met = [here[0] if one.tokens else here[1] for one, here in each if isinstance(one, Affine)]
            found[layer - 1, : len(met)] = met
        return found

    @property
    def couples(self) -> bool:
        """Whether positions act on each other (BatchNorm, or a Dense on the tokens)."""
        return any(
            isinstance(operation, NormalizeBatch) or (isinstance(operation, Affine) and operation.tokens)
            for operation in self.operations
        )

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: the operations, not the records they were made of."""
        return self.__dict__ | {"block": None, "activation_pairs": None, "mu": None}

    def network(self, seed: int, index: int, buffers: Buffers | None = None) -> Network:
        """Network number `index` of the ensemble's realization `seed`: the same numbers wherever it is drawn."""
        seed = integer(seed, "The seed", 0, 1 << 64)
        return Network(self, seed, integer(index, "The network's index", 0, MAX_NETWORK), buffers or Buffers())


def _widths(given: Any, depth: int) -> tuple[int, ...]:
    if not isinstance(given, list | tuple) and not getattr(given, "ndim", 0):  # np.ndim fails on a ragged list
        return (integer(given, "The width", 1, 1 << 24),) * depth
    if len(given) != depth:
        raise MeanFieldError(
            f"width must be one number or one per layer (depth = {depth}), but {len(given)} were given."
        )
    return tuple(integer(one, "The width", 1, 1 << 24) for one in given)


@dataclass(frozen=True)
class Network:
    """One draw of an ensemble.

    The weights of layer l are the streams (seed, index, l, role), role = 2·ordinal for W, 2·ordinal + 1 for b. They are
    drawn when they are used, and not kept.
    """

    ensemble: Ensemble
    seed: int
    index: int
    buffers: Buffers

    def layers(
        self,
        inputs: np.ndarray,
        l0: int | None = None,
        tangent: TangentKernel | None = None,
        directions: np.ndarray | None = None,
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        """Yield (l, z, G) for l = 1..depth: z[p] = z^l at position p, and G = ∂z^l/∂z^{l0} at the first position.

        `inputs` has shape (positions, N_0). G is None before layer l0, or always if l0 is None; it may be rescaled in
        place by the caller (it enters linearly) and is overwritten when the iteration goes on. l0 = 0 is the input x,
        and then G is N × N_0. With `directions` V given, G is (∂z^l/∂z^{l0}) V. `tangent` holds the tangent kernel at
        the first position for the layer just yielded.
        """
        ensemble = self.ensemble
        self._refuse_coupled("the Jacobian or the tangent kernel of one input", l0 is not None or tangent is not None)
        carried: list[Carried] = [] if tangent is None else [tangent]
        if l0 == 0:
            carried.append(self.tangents(ensemble.fan_in, directions))
        for layer, z in self.run(inputs, carried):
            if layer == l0:
                carried.append(self.tangents(ensemble.widths[layer - 1], directions))
            pushed = carried[-1] if carried and isinstance(carried[-1], Tangents) else None
            yield layer, z, None if pushed is None else pushed.rows[:, 0].T

    def tangents(self, size: int, directions: np.ndarray | None = None) -> Tangents:
        """The columns of `directions`, or all unit vectors of `size` numbers, at the first position."""
        rows = self.buffers.take(size if directions is None else directions.shape[1], 1, size)
        rows[:, 0] = 0.0 if directions is None else directions.T
        if directions is None:
            np.fill_diagonal(rows[:, 0], 1.0)
        return Tangents(rows, self.buffers, alone=True)

    def run(
        self, inputs: np.ndarray, carried: list[Carried] | None = None, trace: Trace | None = None, pulls: int = 0
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (l, z) for l = 1..depth, and take all that is in `carried` along: the list may grow in between.

        The operations are written down in `trace` for `pull`, which will take `pulls` cotangents.
        """
        carried = [] if carried is None else carried
        z = np.ascontiguousarray(inputs, dtype=float)
        try:
            for layer in range(1, self.ensemble.depth + 1):
                z = self._block(layer, z, carried, trace, pulls)
                yield layer, z
        finally:
            for one in carried:
                one.release()

    def jvp(self, inputs: np.ndarray, tangents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(z^L, (∂z^L/∂x) t) for tangents t of the inputs, an array (vectors, positions, N_0)."""
        self._refuse_lazy()
        carried = Tangents(np.array(tangents, dtype=float), self.buffers)
        for _, z in self.run(inputs, [carried]):
            last = z, carried.rows.copy()
        return last

    def vjp(self, inputs: np.ndarray, cotangents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(z^L, (∂z^L/∂x)ᵀ u) for cotangents u of z^L, an array (vectors, positions, N)."""
        self._refuse_lazy()
        trace: Trace = []
        *_, (_, z) = self.run(inputs, None, trace, len(cotangents))
        *_, (_, _, pulled) = self.pull(trace, np.asarray(cotangents, dtype=float))
        return z, pulled

    def gradients(self, inputs: np.ndarray, cotangent: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """(l, ∂S/∂w, ∂S/∂β) of every Dense, or (l, ∂S/∂γ, ∂S/∂β) of a trained norm, in the order they are met.

        S = Σ u·z^L with the cotangent u (positions, N); w = σ_w n^{−1/2} W and β = σ_b b.
        """
        self._refuse_lazy()
        trace: Trace = []
        for _ in self.run(inputs, None, trace, 1):
            pass
        pulled = self.pull(trace, np.asarray(cotangent, dtype=float)[None])
        found = [(l, *d.gradient(u[0])) for l, d, u in pulled if d is not None]  # type: ignore[attr-defined]
        return found[::-1]

    def pull(self, trace: Trace, cotangents: np.ndarray) -> Iterator[tuple[int, Derivative | None, np.ndarray]]:
        """Take cotangents (vectors, positions, neurons) at the last layer of a trace back to the input.

        Yields (l, d, u) for every operation with parameters of layer l, d its derivative and u the cotangents of its
        result, and (l, None, u) with u those of z^l, for every layer down to 0 (the input).
        """
        stack = [cotangents]
        last = trace[-1][0]
        yield last, None, cotangents
        for layer, operation, derivative in reversed(trace):
            if layer < last:
                yield layer, None, stack[-1]
                last = layer
            match operation:
                case Save():
                    stack.append(stack.pop() + stack.pop())
                case Swap():
                    stack[-2:] = stack[:-3:-1]
                case AddSaved(mu):
                    stack.insert(-1, mu[layer - 1] * stack[-1])
                case MultiplySaved():
                    assert isinstance(derivative, Product)
                    u = stack.pop()
                    stack += [self._pulled(one, u) for one in (derivative.by_saved, derivative.by_top)]
                case _ if derivative is not None:
                    assert not isinstance(derivative, Product)
                    u = stack.pop()
                    if getattr(derivative, "trained", False) or getattr(derivative, "affine", False):
                        yield layer, derivative, u
                    stack.append(self._pulled(derivative, u))
                    if isinstance(derivative, Weighted):
                        derivative.matrix.release()
                        if derivative.back is not None:
                            derivative.back.release()
        yield 0, None, stack[-1]

    @staticmethod
    def _pulled(derivative: Derivative, u: np.ndarray) -> np.ndarray:
        match derivative:
            case Weighted(matrix, y):
                shape = y.shape[0], matrix.shape[1]
            case WeightedTokens(_, y):
                shape = y.shape[0] * y.shape[1], y.shape[2]
            case Pooled(share):
                shape = share.shape
            case _:
                shape = derivative.shape
        out = aligned(len(u), *shape)
        derivative.pull(np.ascontiguousarray(u), out)
        return out

    def _block(self, layer: int, z: np.ndarray, carried: list[Carried], trace: Trace | None, pulls: int) -> np.ndarray:
        derivative: Derivative | Product | None
        lost = np.zeros(len(z), dtype=bool)
        saved: list[np.ndarray] = []
        expected = len(z) * (1 + pulls) + sum(
            len(one.rows) * one.rows.shape[1] for one in carried if isinstance(one, Tangents)
        )
        for one in carried:
            if isinstance(one, ParameterTangents):
                one.begin(layer)
        first, inputs = self.ensemble.input_layer, len(z) // self.ensemble.tokens
        for operation in self.ensemble.operations if layer > 1 else (first,):
            derivative = None
            match operation:
                case Save():
                    saved.append(z)
                    for one in carried:
                        one.save()
                case Swap():
                    z, saved[-1] = saved[-1], z
                    for one in carried:
                        one.swap()
                case AddSaved(mu):
                    new_z = np.multiply(saved.pop(), mu[layer - 1], out=aligned(*z.shape))
                    new_z += z
                    z = new_z
                    for one in carried:
                        one.add_saved(mu[layer - 1])
                case MultiplySaved():
                    derivative = Product(Slope(saved.pop()), Slope(z))
                    z = np.multiply(z, derivative.by_top.slope, out=aligned(*z.shape))
                case Affine(tokens=True):
                    z, derivative = self._mix(operation, layer, z, inputs)
                case Affine():
                    outputs = operation.outputs(layer, self.ensemble.widths[layer - 1])
                    z, derivative = self._weigh(
                        operation, layer, z, outputs, self.deviations(operation, layer), expected, pulls
                    )
                case Project():
                    outputs = self.ensemble.widths[layer - 1]
                    if z.shape[1] != outputs:
                        drawn = Affine(operation.ordinal)
                        z, derivative = self._weigh(drawn, layer, z, outputs, (1.0, 0.0), expected, pulls)
                        derivative = replace(derivative, trained=False)
                case _:
                    z, derivative = operation.apply(z, layer, bool(carried) or trace is not None)
            for one in carried if derivative is not None else ():
                if isinstance(derivative, Product):  # the sum of what each of the two has
                    one.push(derivative.by_top)
                    one.swap()
                    one.push(derivative.by_saved)
                    one.add_saved(1.0)
                elif derivative is not None:
                    one.push(derivative)
            if isinstance(derivative, Weighted):
                self._let_go(derivative.matrix, trace is not None)
            if trace is not None:
                trace.append((layer, operation, derivative))
            mark_rows(z, lost)
        # an overflow (or a LayerNorm of equal numbers) inside the block stays one: max(NaN, 0) and erf(∞) are finite
        return np.where(lost[:, None], math.nan, z) if lost.any() else z

    @staticmethod
    def _let_go(matrix: Matrix, traced: bool) -> None:
        """Release a matrix that no backward pass needs, or that it can draw again for less than it costs to keep."""
        outputs, inputs = matrix.shape
        if not traced or (isinstance(matrix, DrawnMatrix) and outputs * inputs > _KEPT_WEIGHTS):
            matrix.release()

    def matrix(
        self, operation: Affine, layer: int, shape: tuple[int, int], scale: float, expected: int, role: int = 0
    ) -> Matrix:
        """scale·W of one Dense; another role gives another draw."""
        key = self.seed, self.index, layer, role + 2 * operation.ordinal
        if self.ensemble.sampler == "lazy":
            return LazyMatrix(operation.law, key, shape, scale, self.buffers, expected)
        return DrawnMatrix(operation.law, key, shape, scale, self.buffers)

    def deviations(self, operation: Affine, layer: int) -> tuple[float, float]:
        """(σ_w, σ_b) of one Dense."""
        sigma_w, sigma_b = operation.sigma_w, operation.sigma_b
        return (
            float(self.ensemble.sigma_w[layer - 1] if sigma_w is None else sigma_w[layer - 1]),
            float(self.ensemble.sigma_b[layer - 1] if sigma_b is None else sigma_b[layer - 1]),
        )

    def bias(self, operation: Affine, layer: int, size: int, sigma_b: float) -> np.ndarray:
        bias = np.empty(size)
        fill_normals(bias, self.seed, self.index, layer, 2 * operation.ordinal + 1, scale=sigma_b)
        return bias

    def _only_dense(self, layer: int) -> Affine:
        if layer == 1:
            return self.ensemble.input_layer
        return next(one for one in self.ensemble.operations if isinstance(one, Affine))

    def rates(self, layer: int) -> tuple[float, float]:
        """(λ_w, λ_b) of the only Dense of a layer: those given, or σ_w² and σ_b² of standard normal parameters."""
        root_w, root_b = self._roots_of_rates(self.deviations(self._only_dense(layer), layer), layer)
        return root_w**2, root_b**2

    def _roots_of_rates(self, deviations: tuple[float, float], layer: int) -> tuple[float, float]:
        """(√λ_w, √λ_b) of a Dense with these standard deviations."""
        (rate_w, rate_b), (sigma_w, sigma_b) = self.ensemble.rates, deviations
        return (
            sigma_w if rate_w is None else math.sqrt(rate_w[layer - 1]),
            sigma_b if rate_b is None else math.sqrt(rate_b[layer - 1]),
        )

    def dense(self, layer: int) -> tuple[np.ndarray, np.ndarray | None]:
        """(w, β), y → w y + β, of the only Dense of a layer."""
        ensemble = self.ensemble
        operation = self._only_dense(layer)
        fan_in = ensemble.widths[layer - 2] if layer > 1 else ensemble.fan_in
        outputs = operation.outputs(layer, ensemble.widths[layer - 1])
        sigma_w, sigma_b = self.deviations(operation, layer)
        key = self.seed, self.index, layer, 2 * operation.ordinal
        weights = DrawnMatrix(operation.law, key, (outputs, fan_in), sigma_w / math.sqrt(fan_in), Buffers()).whole()
        return weights, self.bias(operation, layer, outputs, sigma_b) if sigma_b > 0 else None

    def _weigh(
        self,
        operation: Affine,
        layer: int,
        z: np.ndarray,
        outputs: int,
        deviations: tuple[float, float],
        expected: int,
        pulls: int,
    ) -> tuple[np.ndarray, Weighted]:
        fan_in, (sigma_w, sigma_b) = z.shape[1], deviations
        scale = sigma_w / math.sqrt(fan_in)
        matrix = self.matrix(operation, layer, (outputs, fan_in), scale, expected)
        new_z = aligned(len(z), outputs)
        if isinstance(matrix, DrawnMatrix) and len(z) <= _APART:
            matrix.matvec_apart(z, new_z)
        else:
            matrix.matvec(z, new_z)
        if sigma_b > 0:
            new_z += self.bias(operation, layer, outputs, sigma_b)
        other = None
        if pulls and self.ensemble.backward == "copy":
            other = self.matrix(operation, layer, (outputs, fan_in), scale, len(z) * pulls, COPY_ROLE)
        root_w, root_b = self._roots_of_rates(deviations, layer)
        return new_z, Weighted(matrix, z, root_w / math.sqrt(fan_in), root_b, back=other)

    def _mix(self, operation: Affine, layer: int, z: np.ndarray, inputs: int) -> tuple[np.ndarray, WeightedTokens]:
        """A Dense on the tokens: a small matrix, whose products are too many to be worth revealing one by one."""
        neurons, old = z.shape[1], len(z) // inputs
        new = operation.outputs(layer, self.ensemble.tokens)
        sigma_w, sigma_b = self.deviations(operation, layer)
        scale = sigma_w / math.sqrt(old)
        key = self.seed, self.index, layer, 2 * operation.ordinal
        weights = DrawnMatrix(operation.law, key, (new, old), scale, Buffers()).whole()
        y = z.reshape(inputs, old, neurons)
        new_z = aligned(inputs * new, neurons)
        np.matmul(weights, y, out=new_z.reshape(inputs, new, neurons))
        if sigma_b > 0:
            new_z.reshape(inputs, new, neurons)[...] += self.bias(operation, layer, new, sigma_b)[:, None]
        root_w, root_b = self._roots_of_rates((sigma_w, sigma_b), layer)
        return new_z, WeightedTokens(weights, y, root_w / math.sqrt(old), root_b)

    def _refuse_lazy(self) -> None:
        if self.ensemble.sampler == "lazy":
            raise MeanFieldError(
                "jvp, vjp and gradients were asked for with the lazy sampler, which reveals other weights in every "
                "pass; take sampler='explicit', or `run` and `pull` in a single pass."
            )

    def _refuse_coupled(self, what: str, asked: bool) -> None:
        if asked and self.ensemble.couples:
            raise MeanFieldError(
                f"{what[0].upper()}{what[1:]} was asked for in a network where positions act on each other; take "
                "probes=..., which push all positions."
            )


_APART = 4  # inputs of a batch that is multiplied vector by vector
