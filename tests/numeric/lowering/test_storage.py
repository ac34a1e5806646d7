"""The folder of what is computed once: which variable decides, and files that are whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from meanfield.numeric.lowering.modules import storage


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """`storage.folder` anew for every environment, with a home of its own."""

    def found(**given):
        for name in ("MEANFIELD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HOME": str(tmp_path / "home"), **given}.items():
            monkeypatch.setenv(name, value)
        return storage.folder.__wrapped__()

    return found


def test_which_variable_decides(folder, tmp_path):
    """$MEANFIELD_CACHE is the folder itself; else it lies in $XDG_CACHE_HOME, else in ~/.cache; an empty one counts as
    none. It is made, and the probe in it is gone."""
    own, xdg = str(tmp_path / "own" / "deep"), str(tmp_path / "xdg")
    at_home = tmp_path / "home" / ".cache" / "meanfield"
    for given, expected in (
        ({"MEANFIELD_CACHE": own, "XDG_CACHE_HOME": xdg}, Path(own)),
        ({"MEANFIELD_CACHE": "", "XDG_CACHE_HOME": xdg}, Path(xdg) / "meanfield"),
        ({"XDG_CACHE_HOME": xdg}, Path(xdg) / "meanfield"),
        ({"XDG_CACHE_HOME": ""}, at_home),
        ({"XDG_CACHE_HOME": "~/else"}, tmp_path / "home" / "else" / "meanfield"),
        ({}, at_home),
    ):
        found = folder(**given)
        assert found == expected and found.is_dir() and not list(found.iterdir()), given


def test_where_nothing_can_be_written_a_temporary_folder_serves(folder, tmp_path):
    (tmp_path / "file").write_text("")
    found = folder(MEANFIELD_CACHE=str(tmp_path / "file"))
    assert found != tmp_path / "file" and found.is_dir() and found.name.startswith("meanfield-")
    found.rmdir()


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    target = tmp_path / "kept"
    target.write_bytes(b"before")

    def broken(file):
        file.write(b"half")
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        storage.replace(target, broken)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]
    storage.replace(target, lambda file: file.write(b"after"))
    assert target.read_bytes() == b"after" and list(tmp_path.iterdir()) == [target]
