"""Checkpoints: one file with what a long run has done so far, written whole, from which the same call goes on."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from meanfield.base.errors import MeanFieldError
from meanfield.base.storage.files import write_whole

if TYPE_CHECKING:
    import numpy as np


SECONDS_BETWEEN_CHECKPOINTS = 20.0  # seconds between two that a long run writes


class Checkpoint:
    """Arrays by name in one .npz file; key: a text of all that decides the numbers of the run."""

    def __init__(self, path: Path, key: str) -> None:
        if not path.parent.is_dir():
            raise MeanFieldError(f"A checkpoint was asked for in {path.parent}, but there is no folder of that name.")
        self.path, self._key = path, key

    def read(self) -> dict[str, np.ndarray]:
        """The arrays on file, none if there is no file; raises `MeanFieldError` for a file of another run."""
        import numpy as np

        if not self.path.exists():
            return {}
        try:
            with np.load(self.path, allow_pickle=False) as data:
                arrays = {name: data[name] for name in data.files}
                key = str(arrays.pop("key"))
        except OSError as error:
            raise MeanFieldError(f"{self.path} cannot be read: {error.strerror or error}.") from None
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile):  # an .npy is no archive
            raise MeanFieldError(f"{self.path} is not a checkpoint; remove it or name another file.") from None
        if key != self._key:
            raise MeanFieldError(
                f"{self.path} is the checkpoint of another run (other settings, seed or number of networks); remove it "
                "or name another file."
            )
        return arrays

    def write(self, arrays: dict[str, np.ndarray]) -> None:
        """Whole or not at all (`write_whole`)."""
        import numpy as np

        if not arrays:
            return
        buffer = io.BytesIO()
        np.savez(buffer, key=np.array(self._key), **arrays)  # type: ignore[arg-type]
        write_whole(self.path, buffer.getvalue())


def explain(error: BaseException, file: Checkpoint | None, done: int, total: int, what: str) -> None:
    """Say in a sentence what a lost worker, or a plan that cannot travel, leaves behind; what: the units of work."""
    lost = type(error).__name__ in ("BrokenProcessPool", "BrokenThreadPool", "BrokenExecutor", "KilledWorker")
    told = str(error).lower()
    if not lost and "pickle" not in told and "local object" not in told:  # the last in Python 3.12 and 3.13
        return
    kept = (
        f"{done} of {total} {what} are in {file.path}: the same call goes on from there"
        if file is not None
        else "give checkpoint=... to keep what is done"
    )
    said = (
        "A worker of the executor died (a script that spawns processes must guard its main part with "
        "if __name__ == '__main__')"
        if lost
        else "The functions of an activation cannot be sent to another process (give a formula, a registered name or "
        "ScalarPair.from_sources)"
    )
    raise MeanFieldError(f"{said}; {kept}.") from error
