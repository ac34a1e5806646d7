r"""Mean and covariance of the outputs of wide networks under square loss, in closed form.

f_t(A) = f_0(A) + Θ_AX g_t(Θ_XX) (y - f_0(X)) of inputs A and the training inputs X, where f_0 is Gaussian with mean 0
and covariance K. So the mean is B y with B = Θ_AX g_t, and the covariance S K Sᵀ with S = 1 - B (on X).

Source: Lee et al., Wide neural networks of any depth evolve as linear models (2019), eqs. (10), (14)-(16).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meanfield.base.answers.results import Solution
from meanfield.prediction.solvers.likelihood import evidence_of
from meanfield.prediction.solvers.spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class LinearizedNetworks:
    """The linearized networks of all starts. spectrum: of the kernel that trains on the N training inputs; across: this
    kernel of test inputs with them, (M, N); K: the NNGP of all N + M inputs; y: targets, (N, outputs); rate: of
    gradient descent, None of flow; noisy: whether targets carry noise of the variance `ridge`; error: of the entries
    of both kernels over √(K_aa K_bb), and sizes: √Θ_aa of the test inputs."""

    spectrum: Spectrum
    across: np.ndarray
    K: np.ndarray
    y: np.ndarray
    rate: float | None
    noisy: bool
    error: float
    sizes: np.ndarray

    @cached_property
    def rotated(self) -> np.ndarray:
        """Vᵀy."""
        return self.spectrum.vectors.T @ self.y

    @cached_property
    def test(self) -> np.ndarray:
        """Θ_AX V of the test inputs."""
        return self.across @ self.spectrum.vectors

    def mean(self, times: np.ndarray) -> np.ndarray:
        """(t, input, output), training inputs first."""
        weights = self._gains(times)[:, :, None] * self.rotated[:, None, :]
        shape = (-1, *weights.shape[1:])
        weights = weights.reshape(self.spectrum.count, -1)
        train = self.spectrum.vectors @ (self.spectrum.values[:, None] * weights)
        return np.concatenate((train, self.test @ weights)).reshape(shape).transpose(1, 0, 2)

    def _gains(self, times: np.ndarray) -> np.ndarray:
        """g of every eigenvector, (eigenvector, t)."""
        return np.array([self.spectrum.trained(t, self.rate)[0] for t in times]).T

    @cached_property
    def _turned(self) -> tuple[np.ndarray, np.ndarray]:
        """(VᵀK_XX V, VᵀK_XA)."""
        V, N = self.spectrum.vectors, self.spectrum.count
        return V.T @ self.K[:N, :N] @ V, V.T @ self.K[:N, N:]

    def covariance(self, t: float, train: bool, test: bool) -> np.ndarray:
        """Of the training inputs, the further ones, or both, at one time."""
        g, left = self.spectrum.trained(t, self.rate)
        V, N = self.spectrum.vectors, self.spectrum.count
        Q, R = self._turned
        noise = self.spectrum.ridge if self.noisy else 0.0
        kept = left + self.spectrum.ridge * g  # 1 - λ g, without a difference
        P, learned = self.test * g, self.spectrum.values * g
        rows = []
        if train:
            inner = kept[:, None] * Q * kept
            inner[np.diag_indices(N)] += noise * learned**2
            rows.append([V @ inner @ V.T])
        if test:
            PQ = P @ Q
            beside = P @ R
            own = self.K[N:, N:] - beside - beside.T + PQ @ P.T + noise * (P @ P.T)
            if train:
                between = ((R.T - PQ) * kept + noise * P * learned) @ V.T
                rows[0].append(between.T)
                rows.append([between, own])
            else:
                rows.append([own])
        found = np.block(rows)
        return (found + found.T) / 2

    def likelihood(self, probes: int) -> tuple[Solution, Solution]:
        """(log determinant, log likelihood) of Θ + ρ, by eigenvalues: without probes."""
        return evidence_of(self.spectrum, self.y, bool(np.isfinite(self.error)))

    def mean_error(self, times: np.ndarray) -> np.ndarray:
        r"""A bound of the error of the mean, to first order in the kernel's, (t, input, output).

        With g_t = ∫_0^τ e^{-Θs} ds, δ(pᵀ g_t y) = -∫∫ pᵀe^{-Θ(s-r)} δΘ e^{-Θr} y, at most doubt·‖p g‖₁‖g y‖₁ in the
        eigenbasis; δΘ_AX adds its own norm times ‖g y‖₂. Of steps the integral is a sum, whose terms may alternate:
        `Spectrum.most` adds their sizes. Infinite where nothing bounds the kernel's error.
        """
        own = self.spectrum
        g = np.array([own.most(t, self.rate) for t in times]).T
        if not np.isfinite(self.error):  # nothing bounds the kernel
            return np.full((len(times), own.count + len(self.test), self.y.shape[1]), np.inf)
        beside = self.sizes * (self.error * np.sqrt(own.values.sum()))
        reach = np.concatenate((np.abs(own.vectors) @ (own.values[:, None] * g), np.abs(self.test) @ g)).T
        added = own.doubt + np.concatenate((np.zeros(own.count), beside))
        total = g.T @ np.abs(self.rotated)
        norm = np.sqrt((g**2).T @ self.rotated**2)
        return own.doubt * reach[:, :, None] * total[:, None, :] + added[:, None] * norm[:, None, :]
