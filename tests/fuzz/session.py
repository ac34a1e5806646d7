"""One call: what the engine was asked, what it answered, and what was found wrong with it."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import meanfield as mf

LONGEST = 420  # characters of a sentence that refuses


class Refused(Exception):
    """The verb that a call is about was refused in a sentence."""


class Crashed(Exception):
    """It raised what is no MeanFieldError."""


@dataclass
class Session:
    """rng: of this call; kind: of call; plant: what a test does to answers, (expression, answer) → answer."""

    kind: str
    rng: random.Random
    plant: Callable[[str, Any], Any] = lambda _, answer: answer
    derived: str = ""
    family: str = ""
    theory: Any = None
    findings: list[dict[str, str]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    compared: int = 0

    def derive(self, text: str, family: str) -> None:
        self.derived, self.family = text, family
        self.theory = self._guarded(text, lambda: eval(text, {"mf": mf}), "derive")

    def ask(self, call: str, needed: bool = True) -> Any:
        """theory.CALL; where it is refused, ends the call if it is needed, else None."""
        expression = f"theory.{call}"
        try:
            return self._guarded(expression, lambda: eval(expression, {"mf": mf, "theory": self.theory}), call)
        except Refused:
            if needed:
                raise
            return None

    def average(self, text: str) -> Any:
        return self._guarded(text, lambda: eval(text, {"mf": mf}), "average")

    def _guarded(self, expression: str, run: Callable[[], Any], call: str) -> Any:
        self.asked.append(expression)
        verb = call.split("(")[0]
        try:
            answer = run()
        except mf.MeanFieldError as error:
            text = str(error)
            self.refusals.append((verb, text))
            if len(text) > LONGEST or text.count(">_{") > 2:
                self.found("a refusal that is no plain sentence", expression, text[:300], "a sentence for a person")
            raise Refused(text) from None
        except Exception as error:
            ours = [
                f"{f.filename.split('meanfield/')[-1]}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)
            ]
            where = " > ".join(w for w in ours if "fuzz" not in w)[-160:]
            said = f"{type(error).__name__}: {str(error)[:200]} at {where}"
            self.found("an exception that is no MeanFieldError", expression, said, "an answer or a sentence")
            raise Crashed(said) from error
        return self.plant(call, answer)

    def found(self, what: str, expression: str, engine: Any, oracle: Any) -> None:
        head = "" if expression.startswith("mf.") else f"theory = {self.derived}\n"
        snippet = f"import meanfield as mf\n{head}print({expression})"
        self.findings.append(
            {"what": what, "snippet": snippet, "engine": _short(engine), "independent": _short(oracle)}
        )

    def same(self, what: str, expression: str, engine: Any, oracle: Any, absolute: float) -> bool:
        """Whether two numbers agree within `absolute`; a finding where they do not."""
        self.compared += 1
        engine, oracle = float(engine), float(oracle)
        agree = engine == oracle or abs(engine - oracle) <= absolute
        if not agree:
            self.found(
                what,
                expression,
                f"{engine!r}",
                f"{oracle!r} (difference {engine - oracle:.3g}, allowed {absolute:.2g})",
            )
        return agree

    def true(self, what: str, expression: str, holds: bool, engine: Any, oracle: Any) -> bool:
        self.compared += 1
        if not holds:
            self.found(what, expression, engine, oracle)
        return bool(holds)


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:400]
