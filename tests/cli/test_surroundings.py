"""Terminals, pipes and folders as they are elsewhere: the command does the right thing there, or says a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminals import shown

COMMAND = [sys.executable, "-m", "meanfield"]
COLUMNS = 40


def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "NO_COLOR": "1", **environment}
    return subprocess.run([*COMMAND, *words], env=env, capture_output=True, text=True, timeout=300, check=False)


def assert_no_traceback(*texts: str) -> None:
    for text in texts:
        assert "Traceback" not in text and "Exception ignored" not in text, text


@pytest.mark.slow
def test_a_pipe_that_closes_ends_the_command_quietly():
    """`meanfield table tanh | head -1`, where head is gone before the table comes."""
    with subprocess.Popen([*COMMAND, "table", "tanh"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()
        said = child.stderr.read().decode()
    assert_no_traceback(said)
    with pytest.raises(AssertionError, match="BrokenPipeError"):
        assert_no_traceback("Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\nBrokenPipeError")


@pytest.mark.fast_with("-h")
@pytest.mark.parametrize("words", ["derive gelu", "critical tanh", "init relu --depth 5 --width 64", "-h"])
def test_a_terminal_of_ascii_alone(words):
    done = run(*words.split(), PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0 and done.stdout.isascii() and len(done.stdout) > 50
    assert_no_traceback(done.stdout, done.stderr)


def test_a_refusal_on_a_terminal_of_ascii_alone():
    done = run("derive", "tanhh", "--mu", "μ", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 2 and "Did you mean tanh" in " ".join(done.stderr.split())
    assert_no_traceback(done.stdout, done.stderr)


@pytest.mark.parametrize("words", [("-h",), ("check", "-h"), ("derive", "tanh", "--residua")])
def test_forty_columns(words):
    """Helps and usage errors take the columns there are."""
    done = run(*words, COLUMNS=str(COLUMNS), TERMINAL_WIDTH="")
    lines = (done.stdout + done.stderr).splitlines()
    assert lines and max(map(len, lines)) <= COLUMNS, max(lines, key=len)


def test_a_refusal_takes_the_columns_of_a_terminal():
    code, text = shown([*COMMAND, "derive", "tanhh"], COLUMNS=str(COLUMNS))
    lines = text.split("\r\n")
    assert code == 2 and len(lines) > 5 and max(map(len, lines)) <= COLUMNS
    assert " ".join(text.split()).startswith("meanfield: No activation is named 'tanhh'. Did you mean tanh?")
    assert len(run("derive", "tanhh").stderr.splitlines()) == 1, "whole in a log"


@pytest.mark.slow
def test_an_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "table.tex", Path("/proc/table.tex"), tmp_path / "none" / "table.tex"):
        done = run("table", "linear", "-o", str(path))
        assert done.returncode == 2 and "cannot be written" in " ".join(done.stderr.split()), done.stderr
        assert_no_traceback(done.stdout, done.stderr)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_cache_that_cannot_be_written(tmp_path):
    """What is computed is what is computed with one."""
    (tmp_path / "file").write_text("")
    words = ("propagate", "relu", "--sigma-w", "1", "--sigma-b", "0", "--depth", "3")
    there, elsewhere = run(*words), run(*words, MEANFIELD_CACHE=str(tmp_path / "file" / "cache"))
    assert elsewhere.returncode == there.returncode == 0 and elsewhere.stdout == there.stdout
    assert_no_traceback(elsewhere.stderr)
