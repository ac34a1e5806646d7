"""The kinds of calls, how often each is drawn (cheap ones more often), and one call by its seed and number."""

from __future__ import annotations

import random
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from . import averages, critical, kernels, one_input, pair_runs, predictions, runs, tokens, two_inputs
from .calls import HOSTILE
from .judge import SECONDS as WALL
from .judge import judge
from .quadrature import OutOfReach
from .session import Crashed, Refused, Session

Kind = Callable[[Session], None]


def _hostile(name: str) -> Kind:
    """A call that should end in a sentence or an answer, whatever it is given."""

    def check(session: Session) -> None:
        call = HOSTILE[name](session.rng)
        session.compared += 1
        session.asked.append(str(call))
        problem = judge(call, WALL.get(name, WALL["other"]))
        if problem is not None:
            said = f"# {problem.call}"
            session.findings.append({"what": "hostile", "snippet": said, "engine": problem.problem, "independent": ""})

    return check


KINDS: dict[str, tuple[float, Kind]] = {
    "average": (1.6, averages.average),
    "expansion": (0.6, averages.expansion),
    "fixed_points": (1.6, one_input.fixed_points),
    "phase": (1.6, one_input.phase),
    "critical_points": (1.3, critical.critical_points),
    "critical_line": (0.5, critical.critical_line),
    "run": (1.0, runs.run),
    "law": (1.2, runs.law),
    "diagram": (0.5, critical.diagram),
    "correlations": (1.1, two_inputs.correlations),
    "bias": (0.7, two_inputs.bias),
    "pair_run": (1.0, pair_runs.pair_run),
    "decay": (0.7, pair_runs.decay),
    "kernel": (1.2, kernels.kernel),
    "closing": (0.6, two_inputs.closing),
    "neutrality": (0.3, two_inputs.neutrality),
    "tokens": (0.5, tokens.tokens),
    "prediction": (0.7, predictions.prediction),
}
ANSWERS = tuple(KINDS)  # what is drawn where no kind is asked for
KINDS |= {name: (1.0, _hostile(name)) for name in HOSTILE}
SECONDS = 60.0  # CPU of one call; beyond, it is counted apart


class TooLong(BaseException):
    """Not an Exception: nothing on the way may take it for an error of its own."""


@dataclass
class Record:
    """What became of one call: "agrees", "found", "refused", "too long", "open" (nothing could be compared)."""

    seed: int
    call: int
    kind: str
    status: str
    family: str = ""
    seconds: float = 0.0
    compared: int = 0
    message: str = ""
    asked: list[str] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    findings: list[dict[str, str]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def kind_of(seed: int, call: int, kinds: tuple[str, ...]) -> str:
    """The kind of a call is drawn by itself, so that it can be asked for alone."""
    return random.Random(f"kind {seed} {call}").choices(kinds, [KINDS[k][0] for k in kinds])[0]


def one_call(
    seed: int, call: int, kind: str, plant: Callable[[str, Any], Any] | None = None, seconds=SECONDS
) -> Record:
    """Call number `call` of a seed, of a kind: the same whenever it is made."""
    session = Session(kind, random.Random(f"{kind} {seed} {call}"))
    if plant is not None:
        session.plant = plant
    record = Record(seed, call, kind, "open")
    began = time.process_time()

    late = []

    def over(*_):
        late.append(True)
        raise TooLong

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[kind][1](session)
        record.status = "agrees" if session.compared else "open"
    except Refused as refused:
        record.status, record.message = "refused", str(refused)
    except Crashed as crashed:
        record.status, record.message = "found", str(crashed)
    except OutOfReach:  # what was compared before counts
        record.status = "agrees" if session.compared else "open"
    except TooLong:
        pass
    except Exception as error:  # of the comparison itself
        record.status, record.message = "broken", f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if late:  # what a library made of it on its way is no finding
        record.status, record.message = "too long", f"more than {seconds:g} CPU seconds"
    elif session.findings:
        record.status = "found"
    record.family, record.compared, record.asked = session.family, session.compared, session.asked
    record.refusals, record.findings = session.refusals, [] if late else session.findings
    record.seconds = round(time.process_time() - began, 3)
    return record
