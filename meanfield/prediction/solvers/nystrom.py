r"""Nyström regression: Θ of all inputs is replaced by Q = Θ_NS Θ_SS⁻¹ Θ_SN of m inputs S.

With Θ_SS = CCᵀ and Z = Θ_NS C⁻ᵀ, Q = ZZᵀ, and all that is ever stored are m × m matrices: the sum of zzᵀ over the rows
of Z, which are made in strips. Means are those of the exact regression with Q, of which the difference from Θ is known
in its trace τ = Σ(Θ_aa - Q_aa): so the distance from the exact answer is bounded.

Source: Quiñonero-Candela and Rasmussen, A unifying view of sparse approximate Gaussian process regression (2005),
Sec. 5 (projected process).
"""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrs

from meanfield.base.errors import MeanFieldError
from meanfield.base.progress import Progress, watched
from meanfield.base.storage.checkpoints import SECONDS_BETWEEN_CHECKPOINTS, Checkpoint
from meanfield.prediction.solvers.cholesky import factorized
from meanfield.prediction.solvers.conjugate import norms
from meanfield.prediction.solvers.regression import Regression, kept
from meanfield.prediction.solvers.solver_choice import SolverSettings, strip
from meanfield.prediction.solvers.system import EPS, System, product


class Nystrom(Regression):
    """The regression with m of the training inputs as support, drawn without replacement."""

    name = "nystrom"

    def __init__(self, system: System, y: np.ndarray, settings: SolverSettings, progress: Progress | None) -> None:
        super().__init__(system, y, settings)
        m = settings.rows(system.count, self.name)
        system.refuse_lost_ridge(m + 1, self.name)
        if m < 1:
            raise MeanFieldError("solver='nystrom' needs rank= of at least 1, the number of inputs that it keeps.")
        chosen = np.sort(np.random.default_rng(settings.seed).choice(system.count, size=m, replace=False))
        self.support = system.X[chosen]
        inner = system.among(self.support, system.name)
        size = float(np.trace(inner))
        self.jitter = size * (m * EPS + (system.error if np.isfinite(system.error) else 0.0))
        inner[np.diag_indices(m)] += self.jitter  # inputs that are the same bring nothing new
        self._C = inner.T  # Cᵀ in the upper triangle, as LAPACK reads it
        if not factorized(inner):
            raise MeanFieldError(
                f"{system.name} of the {m} inputs that are kept is not positive definite to rounding"
                f"{system.equal_inputs()}; give a smaller rank=."
            )
        self._gather(progress)
        self._solve()
        self._second(progress)

    def _z(self, rows: np.ndarray, beside: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(Θ of rows with the support, rows of Z as columns)."""
        found = np.asarray(self.system.columns(self.support, X=rows, beside=beside)[self.system.name])
        return found, dtrsm(1.0, self._C, found.T, lower=0, trans_a=1)

    def _gather(self, progress: Progress | None) -> None:
        """ZᵀZ, Zᵀy and the trace that is missing, strip by strip."""
        n, m, step = self.system.count, len(self.support), strip(len(self.support))
        inner, along, lost, begin = np.zeros((m, m), order="F"), np.zeros((m, self.y.shape[1])), 0.0, 0
        file = kept(self.settings, self.system, self.y, self.name)
        if file is not None and (found := file.read()):
            inner, along = np.asfortranarray(found["inner"]), found["along"]
            lost, begin = float(found["lost"]), int(found["done"])
        written = time.monotonic()
        with watched(progress, "rows") as tell:
            for a in range(begin, n, step):
                z = self._strip(a, step, file)
                inner = dsyrk(1.0, z, beta=1.0, c=inner, lower=0, overwrite_c=1)
                along += z @ self.y[a : a + step]
                lost += float(np.maximum(self.system.diagonal[a : a + step] - (z**2).sum(axis=0), 0.0).sum())
                if tell is not None:
                    tell(min(a + step, n), n)
                if file is not None and (time.monotonic() - written > SECONDS_BETWEEN_CHECKPOINTS or a + step >= n):
                    done = np.asarray(a + step)
                    file.write({"inner": inner, "along": along, "lost": np.asarray(lost), "done": done})
                    written = time.monotonic()
        self._inner, self._along, self.lost = inner, along, lost

    def _strip(self, a: int, step: int, file: Checkpoint | None) -> np.ndarray:
        try:
            return self._z(self.system.X[a : a + step])[1]
        except MeanFieldError as error:  # a worker that died
            if file is None or not file.path.exists():
                raise
            raise MeanFieldError(
                f"{str(error).rstrip('.')}; {file.path} has the rows up to the last ones that were written: the same "
                "call goes on from there."
            ) from error

    def _solve(self) -> None:
        m, ridge = len(self.support), self.system.ridge
        self._inner[np.diag_indices(m)] += ridge
        done = factorized(self._inner.T)
        assert done  # a sum of squares and a ridge above rounding
        self._root = self._inner
        self._w = dpotrs(self._root, self._along, lower=0)[0]
        self.weights = dtrsm(1.0, self._C, self._w, lower=0)
        share = self.lost / self.system.trace
        self.message = (
            f"Nystrom regression keeps {m} of {self.system.count} inputs, which leave out {share:.1e} of the trace of "
            f"{self.system.name}; error bounds the distance from the exact answer"
        )

    def _second(self, progress: Progress | None) -> None:
        """Means of the training inputs, by a second pass, without Z."""
        self._trained = self.system.applied(self.system.X, self.support, self.weights)
        self._alpha = norms((self.y - self._trained) / self.system.ridge)  # of the weights of all inputs

    @property
    def trained(self) -> np.ndarray:
        return self._trained

    def wrong(self, rows: np.ndarray | None) -> np.ndarray:
        """Q ≤ Θ as matrices, so that ‖Θ - Q‖ ≤ τ and ‖Θ_sX - Q_sX‖² ≤ (Θ_ss - Q_ss) τ, whatever S is: the distance
        from the exact mean is at most (√((Θ_ss - Q_ss) τ) + √(Θ_ss/ρ) τ)‖α‖, α the weights with Q; that of training
        inputs τ‖α‖. Rounding of Θ is added as for exact solves."""
        system, m = self.system, len(self.support)
        doubt = system.doubt(m + 512) + self.jitter
        lost = self.lost + doubt
        if rows is None:
            return np.broadcast_to(product(lost + doubt, self._alpha), self.y.shape)
        sizes = system.sizes(rows)
        if not system.error_beside < np.inf or not lost < np.inf:
            return np.where(sizes[:, None] * self._alpha > 0, np.inf, 0.0)
        doubt += system.trace * max(system.error_beside - system.error, 0.0)
        lost = self.lost + doubt
        inside = np.concatenate([(self._z(part, beside=True)[1] ** 2).sum(axis=0) for part in self._strips(rows)])
        open_ = np.sqrt(np.maximum(sizes**2 - inside, 0.0) * lost + sizes**2 * doubt * lost / system.trace)
        return (open_ + sizes * (lost + doubt) / np.sqrt(system.ridge))[:, None] * self._alpha

    def _strips(self, rows: np.ndarray) -> list[np.ndarray]:
        step = strip(len(self.support))
        return [rows[a : a + step] for a in range(0, max(len(rows), 1), step)]

    def covariance(self, rows: np.ndarray) -> np.ndarray:
        """Of the projected process: K_SS - ZZᵀ + ρ Z(ZᵀZ + ρ)⁻¹Zᵀ. It may lie on either side of the exact one: what is
        left out of the training inputs' own K counts as known, what is left out of those asked about does not."""
        if self.system.name != "K":
            raise MeanFieldError(
                "solver='nystrom' has no covariance of networks whose weights are all trained, which needs products of "
                "K with Theta of all inputs; take train='last', or solver='cg'."
            )
        z = np.concatenate([self._z(part, beside=True)[1] for part in self._strips(rows)], axis=1)
        found = self.system.among(rows, "K", beside=True) - z.T @ z
        found = found + self.system.ridge * (z.T @ dpotrs(self._root, z, lower=0)[0])
        return (found + found.T) / 2

    def at_once(self, count: int) -> int:
        return strip(len(self.support))

    def log_determinant(self, probes: int) -> tuple[float, float]:
        """Of Q + ρ: that of Θ + ρ is larger, by τ/ρ at most. What is wrong with Θ moves each of m eigenvalues of Q."""
        m, ridge = len(self.support), self.system.ridge
        own = 2 * np.log(np.diag(self._root)).sum()
        wrong = self.lost + m * (self.system.doubt(m + 512) + self.jitter)
        return float(own + (self.system.count - m) * np.log(ridge)), wrong / ridge

    @property
    def fitted(self) -> tuple[float, float]:
        """With Q; that with Θ is smaller, by at most τ‖α‖²."""
        value = float(((self.y**2).sum() - (self._along * self._w).sum()) / self.system.ridge)
        wrong = self.lost + self.system.doubt(len(self.support) + 512) + self.jitter
        return value, float(product(wrong, self._alpha**2).sum())
