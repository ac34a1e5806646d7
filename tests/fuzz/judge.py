"""Judging one call: an answer that keeps its promises, or one sentence, within limits of time and memory."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import meanfield as mf
from meanfield.numeric.run.depth_iteration import Run

from .calls import Call, perform

SECONDS = {"deep": 60, "other": 20}  # a case that takes longer is a finding
ADDRESS_SPACE = 6 * 2**30


class TooLong(BaseException):
    """Not an Exception: nothing on the way may take it for an error of its own."""


@dataclass(frozen=True)
class Finding:
    """A call that neither answered nor refused in a sentence."""

    call: Call
    problem: str

    def __str__(self) -> str:
        return f"{self.call}\n    {self.problem}"


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    def over(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, where a callback swallowed the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limit_memory() -> None:
    """This process and its children get `ADDRESS_SPACE`; more is a MemoryError."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def judge(call: Call, seconds: float = SECONDS["other"]) -> Finding | None:
    """None for an answer or a sentence, else what is wrong."""
    try:
        with limited(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            if call.line:
                problem = command(call.line)
            else:
                problem = broken_promise(perform(call))
    except mf.MeanFieldError as error:
        problem = bad_sentence(str(error))
    except TooLong:
        problem = f"no answer and no sentence within {seconds:g} s"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in where if "meanfield" in f.filename]
        problem = f"{type(error).__name__}: {str(error)[:200]} at {' > '.join(ours[-4:])}"
    return None if problem is None else Finding(call, problem)


def bad_sentence(text: str) -> str | None:
    """A sentence is one paragraph of moderate length."""
    if len(text) < 15 or len(text) > 3000 or "Traceback" in text:
        return f"no sentence: {text[:200]!r}"
    return None


def broken_promise(answer: object) -> str | None:
    """What an answer promises: shapes, numbers where the status says numbers, a text."""
    if isinstance(answer, Run):
        layers = len(answer.l)
        for name, values in answer.values.items():
            if values.shape[-1] != layers:
                return f"{name} has shape {values.shape} for {layers} layers"
            finite = ~np.isnan(values) | (np.asarray(answer.diverged_at) > 0)[..., None]
            if not finite.all():
                return f"{name} is NaN where nothing diverged"
        if not answer.error < 1e-5:
            return f"the measured error of an average is {answer.error}"
    elif type(answer).__name__ == "PhaseDiagram":
        shape = (len(answer.sigma_b), len(answer.sigma_w))
        if any(a.shape != shape for a in (answer.K, answer.chi_J, answer.phase, answer.attractors)):
            return "an array of the diagram has another shape than its axes"
        if np.isnan(answer.K).any():
            return "K is NaN in a diagram"
    elif answer is not None and not str(answer):
        return "the answer prints as nothing"
    return None


def command(line: tuple[str, ...]) -> str | None:
    """Run one command line in this process; exit code 2 comes with a sentence on stderr, and never a traceback."""
    from meanfield.cli.app import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main(list(line))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            os.chdir(here)
    if "Traceback" in out.getvalue() + err.getvalue():
        return "a traceback was printed"
    if code == 2:
        return None if err.getvalue().strip() else "exit code 2 without a sentence"
    if code not in (0, 1):
        return f"exit code {code}"
    return None if out.getvalue().strip() else "nothing was printed"
