"""Parameters that are trained: w = σ_w n^{−1/2} W and β = σ_b b themselves, γ and others, in arrays that change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meanfield.empirical.network.operations.operation_walk import Site
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.network.parameter_sources import DrawnParameters, Name


@dataclass(eq=False)
class PlainMatrix:
    """w and β as they stand."""

    w: np.ndarray
    beta: np.ndarray | None
    redrawn = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.w.shape[0], self.w.shape[1]

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.matmul(rows, self.w.T, out=out)
        if self.beta is not None:
            out += self.beta

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.matmul(rows, self.w.T, out=out)

    def rmatvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.matmul(rows, self.w, out=out)

    def release(self) -> None:
        """It stays."""


@dataclass(eq=False)
class TrainedParameters(DrawnParameters):
    """values: the parameters by their names, projections among them. σ's and learning rates are those of the ensemble;
    the weights were scaled by them when they were drawn."""

    values: Mapping[Name, np.ndarray]

    def matrix(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> PlainMatrix:
        return PlainMatrix(*self.whole(dense, site, shape))

    def back(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> None:
        return None

    def whole(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
        return self.values[Name(site.layer, site.place, "W")], self.values.get(Name(site.layer, site.place, "b"))

    def value(self, site: Site, name: str) -> np.ndarray | None:
        return self.values.get(Name(site.layer, site.place, name))
