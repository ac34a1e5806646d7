"""mpmath's precision, which all threads share: who changes it is alone until it is put back."""

from __future__ import annotations

import threading

import mpmath
import pytest

from meanfield.base.precision import bits, decimals


def digits_of_two(context) -> tuple[int, int]:
    """(Digits that a thread with 30 has when another one, which entered before it with 50, has left; those at the end).

    The second is let in while the first is inside, if it can be."""
    first_in, second_in, first_out, found = threading.Event(), threading.Event(), threading.Event(), []

    def first():
        with context(50):
            first_in.set()
            second_in.wait(0.2)
        first_out.set()

    def second():
        first_in.wait()
        with context(30):
            second_in.set()
            first_out.wait()
            found.append(mpmath.mp.dps)

    threads = [threading.Thread(target=one) for one in (first, second)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    left, mpmath.mp.dps = mpmath.mp.dps, 15
    return found[0], left


def test_two_threads_have_their_own_digits():
    assert digits_of_two(decimals) == (30, 15)
    with pytest.raises(AssertionError, match="15, 50"):  # what mpmath does alone
        assert digits_of_two(mpmath.workdps) == (30, 15)


def test_contexts_nest_and_put_back():
    with decimals(50), bits(100), pytest.raises(ZeroDivisionError, match=r"^$"):
        assert mpmath.mp.prec == 100
        with decimals(20):
            assert mpmath.mp.dps == 20
            raise ZeroDivisionError
    assert mpmath.mp.dps == 15
