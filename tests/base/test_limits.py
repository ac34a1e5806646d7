"""The time limit of a call: CPU time of the threads that work for it, and ten times that on the clock."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base import budgets
from meanfield.base.budgets import counted, deadline, tick
from meanfield.base.symbols import K
from meanfield.symbolic.fixed_points.certified_roots import sign_at


def burn(seconds: float, asks: bool = True) -> None:
    """CPU time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        if asks:
            tick()


@pytest.fixture(autouse=True)
def a_tenth(monkeypatch):
    """A tenth of a second of CPU time, and a minute on the clock: the machine that tests run on may be busy, too."""
    monkeypatch.setenv("MEANFIELD_SECONDS", "0.1")
    monkeypatch.setattr(budgets, "PATIENCE", 600)


def test_time_of_others_is_not_counted():
    """Neither sleep, as on a busy machine, nor what another thread of the process does."""
    other = threading.Thread(target=burn, args=(0.3, False))
    with deadline():
        other.start()
        time.sleep(0.3)
        burn(0.02)
        tick()
        other.join()
        tick()
    with pytest.raises(mf.MeanFieldError, match=r"within 0\.1 seconds of CPU time"), deadline():
        burn(0.3)  # the control: time of its own


def test_what_was_spent_is_said():
    with pytest.raises(mf.MeanFieldError, match=r"0\.1\d* seconds of CPU time were spent in \d") as caught, deadline():
        time.sleep(0.25)
        burn(1.0)
    assert "set MEANFIELD_SECONDS to more" in str(caught.value)


def test_what_a_search_along_K_had_covered_is_said():
    """The smallest and the largest K whose sign was found, 1e-500 and 10^400 among them; nothing where none was."""

    def refusal(*places) -> str:
        with pytest.raises(mf.MeanFieldError, match="seconds of CPU time were spent") as caught, deadline():
            for k in places:
                assert sign_at(K - 2, k) == (1 if k > 2 else -1)
            burn(1.0)
        return str(caught.value)

    assert "K" not in refusal()
    assert "after a search had looked at K from 0.25 to 8;" in refusal(sp.Integer(8), sp.Rational(1, 4), sp.Integer(3))
    assert "from 1e-500 to 1.00e+400;" in refusal(sp.Rational(1, 10**500), sp.Integer(10) ** 400)
    with deadline():
        sign_at(K - 2, sp.Integer(3))
    assert "K" not in refusal()  # of the call before


@pytest.mark.parametrize(("waited", "ends"), [(0.99, False), (1.01, True)])
def test_the_clock_ends_it_after_ten_times_as_long(monkeypatch, waited, ends):
    monkeypatch.setattr(budgets, "PATIENCE", 10)
    now = [100.0]
    monkeypatch.setattr(budgets, "_clock", lambda: now[0])

    def wait() -> str:
        with deadline():
            for k in range(4):
                now[0] = 100 + k * waited / 3
                tick()
        return "answered"

    if not ends:
        assert wait() == "answered"
        return
    with pytest.raises(mf.MeanFieldError, match="within 1 seconds on the clock, 10 times the limit") as caught:
        wait()
    assert "a machine that is busy; try again" in str(caught.value)


def test_threads_that_work_for_a_call_are_counted():
    def both(how) -> None:
        with deadline(), ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(how(burn), 0.07) for _ in range(2)]:
                done.result()
            tick()

    with pytest.raises(mf.MeanFieldError, match=r"within 0\.1 seconds of CPU time"):
        both(counted)
    both(lambda work: work)  # threads of someone else's


def test_a_call_inside_a_worker_has_no_time_of_its_own():
    def inner() -> None:
        with deadline():
            burn(0.3)

    def outer() -> None:
        with deadline(), ThreadPoolExecutor(1) as pool:
            pool.submit(counted(inner)).result()

    with pytest.raises(mf.MeanFieldError, match=r"within 0\.1 seconds of CPU time"):
        outer()
    assert budgets._own.allowance is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_that_is_forked_inside_a_call_has_calls_of_its_own():
    with deadline():
        child = os.fork()
        if child == 0:
            os._exit(0 if budgets._own.allowance is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert budgets._own.allowance is not None


@pytest.mark.slow
def test_a_busy_machine_turns_no_answer_into_a_refusal(monkeypatch):
    """An answer of a second of CPU time, on a clock that runs as if six others shared the core."""
    monkeypatch.setenv("MEANFIELD_SECONDS", "30")
    theory, place = mf.derive("tanh(z)*erf(z/5) + z/9"), {"sigma_w": "1.1", "sigma_b": "0.37"}
    start = time.thread_time()
    answer = str(theory.fixed_points(**place))
    needed = time.thread_time() - start
    limits_clock = budgets._clock
    monkeypatch.setattr(budgets, "_clock", lambda: 7 * limits_clock())
    monkeypatch.setenv("MEANFIELD_SECONDS", str(1.5 * needed + 0.2))
    again = mf.derive("tanh(z)*erf(z/5) + z/11")
    assert str(again.fixed_points(**place)) != answer
    monkeypatch.setattr(budgets, "_cpu_time", budgets._clock)  # the control: the clock is counted
    with pytest.raises(mf.MeanFieldError, match="seconds of CPU time"):
        mf.derive("tanh(z)*erf(z/5) + z/13").fixed_points(**place)
