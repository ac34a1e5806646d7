"""Results that were saved to files, read back as numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Numbers, plain
from meanfield.base.arguments import path as refuse_no_path
from meanfield.base.errors import MeanFieldError, one_line


@dataclass(frozen=True, eq=False, repr=False)
class Saved(Numbers):
    """What `load` reads: the numbers of a result that was saved, without what it could compute.

    kind: the name of the result; values: its arrays by name, of .npz, or its plain values, of .json; coords, attrs:
    what runs along the axes of arrays, and what holds for all of them.
    """

    kind: str
    values: Any
    coords: Any = None
    attrs: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "values" not in self.__dict__:
            raise AttributeError(name)
        for held in (self.values, self.coords, self.attrs):
            if isinstance(held, Mapping) and name in held:
                found = held[name]
                return found[1] if isinstance(found, tuple) else found
        if name in self._quantities:
            import numpy as np

            return np.asarray(self._quantities[name], dtype=float)  # inf and nan stand as text and as nothing
        known = [*self.values, *self._quantities] if isinstance(self.values, Mapping) else ["values"]
        raise self._absent(name, known)

    @property
    def _quantities(self) -> Mapping[str, Any]:
        """The arrays by quantity inside plain values, as a run has them."""
        inside = self.values.get("values") if isinstance(self.values, Mapping) and self.coords is None else None
        return inside if isinstance(inside, Mapping) else {}

    def data(self) -> Any:
        """The values as they were saved."""
        return plain(self.values if self.coords is None else {k: v for k, (_, v) in self.arrays().every.items()})

    def arrays(self) -> Arrays:
        """The arrays as they were saved. Raises: MeanFieldError for a .json file, which has none."""
        if self.coords is None:
            raise MeanFieldError(f"This {self.kind} was saved as .json, without arrays; `values` holds it.")
        return Arrays(self.coords, self.values, self.attrs)

    def __repr__(self) -> str:
        names = ", ".join(self.values) if isinstance(self.values, Mapping) else f"{len(self.values)} entries"
        return one_line("Saved", f"{self.kind}: {names}")


def load(path: str | os.PathLike[str]) -> Saved:
    """What was saved in a .json or .npz file by a result's `save` or `to_json`.

    Returns: `Saved`, whose arrays and plain values are attributes and items. Nothing in a file is run. Raises:
    MeanFieldError for a file that is missing, or that no result has written.

    >>> import tempfile
    >>> from meanfield import derive
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = derive("erf").propagate(sigma_w=1.3, sigma_b=0.2, depth=3).save(folder + "/run.npz")
    ...     load(path).K.round(6).tolist()
    [1.73, 0.995343, 0.823607]
    """
    refuse_no_path(path, "What is loaded", optional=False)
    target = Path(path)
    try:
        if target.suffix.lower() == ".npz":
            import numpy as np

            with np.load(target, allow_pickle=False) as held:
                head = json.loads(str(held["meanfield"]))
                every = {name: (tuple(axes), held[name]) for name, axes in head["axes"].items()}
            coords = {name: every.pop(name) for name in head["coords"]}
            return Saved(head["result"], every, coords, head["attrs"])
        found = json.loads(target.read_text(encoding="utf-8"))
        return Saved(found["result"], found["data"])
    except OSError as error:
        raise MeanFieldError(f"{target} cannot be read: {error.strerror or error}.") from None
    except (KeyError, ValueError, TypeError):
        raise MeanFieldError(
            f"{target} is no file that a result has saved; load reads what result.save wrote as .json or .npz."
        ) from None
