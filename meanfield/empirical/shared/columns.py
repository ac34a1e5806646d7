"""Kernels on the columns of a tile: every column is one network's vector, its rows are the neurons.

All loop over the rows first and along a row inside, which is fast without letting the compiler reorder a sum.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from meanfield.empirical.network.derivatives import ROUNDING


@njit(cache=True, nogil=True)
def mark(z, bad):
    """bad[j] is set if column j holds a number that is not finite: 0·z is 0 or NaN, and NaN stays in a sum."""
    total = np.zeros(z.shape[1])
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            total[j] += 0.0 * z[i, j]
    for j in range(z.shape[1]):
        if total[j] != 0.0:
            bad[j] = True


@njit(cache=True, nogil=True)
def scale_columns(z, sigma_w, sigma_b, bias):
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            z[i, j] = sigma_w[j] * z[i, j] + sigma_b[j] * bias[i]


@njit(cache=True, nogil=True)
def add_squares(matrix, total):
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            total[j] += matrix[i, j] * matrix[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def normalize_columns(z, spread):
    """Every column y of z becomes (y − mean(y))/s, and spread its s; NaN as in `derivatives.normalize`."""
    neurons, columns = z.shape
    largest, scale = np.zeros(columns), np.empty(columns)
    for i in range(neurons):
        for j in range(columns):
            size = abs(z[i, j])
            largest[j] = largest[j] if size <= largest[j] else size
    for j in range(columns):
        scale[j] = math.ldexp(1.0, -max(-1000, min(1000, math.frexp(largest[j])[1])))
    mean, square = np.zeros(columns), np.zeros(columns)
    for i in range(neurons):
        for j in range(columns):
            z[i, j] *= scale[j]
            mean[j] += z[i, j]
    mean /= neurons
    for i in range(neurons):
        for j in range(columns):
            z[i, j] -= mean[j]
            square[j] += z[i, j] * z[i, j]
    for j in range(columns):
        s = math.sqrt(square[j] / neurons)
        s = s if s > ROUNDING * largest[j] * scale[j] else math.nan
        spread[j] = s / scale[j]
        mean[j] = 1.0 / s
    for i in range(neurons):
        for j in range(columns):
            z[i, j] *= mean[j]


@njit(cache=True, nogil=True, error_model="numpy")
def project_columns(unit, spread, tangent):
    """The derivative of `normalize_columns` at its result `unit`, in place: (dy − mean(dy) − ŷ mean(ŷ dy))/s."""
    neurons, columns = tangent.shape
    mean, along = np.zeros(columns), np.zeros(columns)
    for i in range(neurons):
        for j in range(columns):
            mean[j] += tangent[i, j]
            along[j] += unit[i, j] * tangent[i, j]
    mean /= neurons
    along /= neurons
    for i in range(neurons):
        for j in range(columns):
            tangent[i, j] = (tangent[i, j] - mean[j] - unit[i, j] * along[j]) / spread[j]
