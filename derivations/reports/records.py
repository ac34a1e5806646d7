"""Records on file: what was computed of each unit, kept until its key or the engine changes.

`DIR/records/<paper>/<unit>.json` holds an answer, `DIR/records/engines/<hash>.json` the modules that were at work, with
the hash of each. A record counts as long as its key is the unit's and every one of these modules is what it was; all
files are written whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from derivations.reports.units import FORMAT, Answer, Unit, still, versions
from meanfield import MeanFieldError
from meanfield.base.storage.files import write_whole

MARK = "reproduce.json"


def as_json(data: Any) -> bytes:
    return (json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=True) + "\n").encode()


class Records:
    """The folder of a run: it is new, empty, or was made by an earlier run.

    Raises: MeanFieldError for a folder that holds other files or cannot be written.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)
        self.remarks: list[str] = []
        mark = self.folder / MARK
        if self.folder.exists() and not self.folder.is_dir():
            raise MeanFieldError(f"{folder} is a file, and reports are written into a folder; name another one.")
        if self.folder.is_dir() and any(self.folder.iterdir()) and not mark.exists():
            raise MeanFieldError(
                f"{folder} holds files that no earlier report left there; name a folder that is new or empty."
            )
        if mark.exists():
            self._look_at(mark)
        try:
            (self.folder / "records" / "engines").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MeanFieldError(f"{folder} cannot be written: {error.strerror or error}.") from None
        write_whole(mark, as_json({"format": FORMAT, "versions": versions()}))

    def _look_at(self, mark: Path) -> None:
        try:
            found = json.loads(mark.read_text(encoding="utf-8"))
            format_, before = int(found["format"]), dict(found["versions"])
        except (OSError, ValueError, KeyError, TypeError):
            raise MeanFieldError(f"{mark} cannot be read as that of a report; name another folder.") from None
        if format_ > FORMAT:
            raise MeanFieldError(
                f"{self.folder} holds records of a later version of meanfield; use that version, or another folder."
            )
        changed = [f"{name} {before.get(name, 'absent')}" for name, v in versions().items() if before.get(name) != v]
        if changed or format_ < FORMAT:
            self.remarks.append(
                f"The records in {self.folder} are of {', '.join(changed) or 'another version'}: what depends on it is "
                "computed again."
            )

    def read(self, unit: Unit) -> dict[str, Any] | None:
        """The record of a unit; None where there is none that counts."""
        path = self._path(unit, ".json")
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            key, engine, found["result"] = found["key"], self._engine(found["engine"]), found["result"]
        except (OSError, ValueError, KeyError, TypeError):
            self.remarks.append(f"{path} cannot be read as a record: it is computed again.")
            return None
        if key != unit.key or not still(engine):
            return None
        if any(not self._path(unit, suffix).exists() for suffix in found["pictures"]):
            return None
        return found

    def write(self, answer: Answer) -> dict[str, Any]:
        """Put an answer on file: its pictures and the list of modules first, the record last."""
        engine = as_json(answer.engine)
        digest = hashlib.sha256(engine).hexdigest()[:20]
        listed = self.folder / "records" / "engines" / f"{digest}.json"
        if not listed.exists():
            write_whole(listed, engine)
        self._path(answer.unit, "").parent.mkdir(exist_ok=True)
        for suffix, content in answer.pictures.items():
            write_whole(self._path(answer.unit, suffix), content)
        record = {
            "key": answer.unit.key,
            "engine": digest,
            "name": answer.unit.name,
            "seconds": answer.seconds,
            "pictures": sorted(answer.pictures),
            "result": answer.result,
        }
        write_whole(self._path(answer.unit, ".json"), as_json(record))
        return record

    def picture(self, unit: Unit, suffix: str) -> Path:
        return self._path(unit, suffix)

    def _path(self, unit: Unit, suffix: str) -> Path:
        return self.folder / "records" / unit.paper / f"{unit.file}{suffix}"

    def _engine(self, digest: str) -> dict[str, str]:
        if digest not in self._engines:
            path = self.folder / "records" / "engines" / f"{digest}.json"
            self._engines[digest] = json.loads(path.read_text(encoding="utf-8"))
        return self._engines[digest]

    @cached_property
    def _engines(self) -> dict[str, dict[str, str]]:
        return {}
