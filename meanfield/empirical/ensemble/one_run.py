"""How a run is made: which networks, who measures them, what is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from meanfield.base.arguments import flag
from meanfield.empirical.ensemble.parallel import check_workers
from meanfield.empirical.network.operations.checks import integer, networks_of
from meanfield.empirical.random.philox import MAX_NETWORK

KEPT = 10**4  # networks whose rows are kept unless `keep` is given


@dataclass(frozen=True, eq=False)
class Running:
    """`networks` networks from number `first` on. keep: whether every network's row is kept. The others: see
    `run_ensemble`; none of them changes a number, but the device, to rounding."""

    networks: int
    first: int = 0
    keep: bool = True
    device: str = "cpu"
    threads: int | None = None
    executor: Executor | None = None
    checkpoint: str | os.PathLike | None = None
    progress: Callable[[int, int], None] | None = None

    @classmethod
    def of(cls, networks: Any, first: Any, keep: Any, device: Any, **more: Any) -> Running:
        """As a caller gives it; raises `MeanFieldError`."""
        check_workers(device=device, **more)
        keep = None if keep is None else flag(keep, "keep_samples")
        networks = networks_of(networks)
        first = integer(first, "first_network", 0, MAX_NETWORK - networks + 1)
        return cls(networks, first, networks <= KEPT if keep is None else keep, device, **more)
