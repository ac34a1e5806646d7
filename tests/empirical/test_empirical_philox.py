"""The counter generator: published vectors, keyed streams, and the law of its normals."""

import math
import os
import subprocess
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr

from meanfield.empirical.random import philox

KNOWN_ANSWERS = [  # kat_vectors of Random123: counter, key, output of philox4x32-10
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize("counter, key, answer", KNOWN_ANSWERS)
def test_known_answers(counter, key, answer):
    words = [np.uint64(int(word, 16)) for word in f"{counter} {key}".split()]
    assert " ".join(f"{int(word):08x}" for word in philox.philox4x32(*words)) == answer


def test_a_stream_does_not_depend_on_how_it_is_cut():
    whole = philox.normals(5, 6, 7, 8, 1001)
    for start in (0, 1, 2, 7, 500, 999, 1000):
        for count in (0, 1, 2, 3, 1001 - start):
            part = philox.normals(5, 6, 7, 8, min(count, 1001 - start), start=start)
            assert (part == whole[start : start + part.size]).all()
    far = philox.normals(5, 6, 7, 8, 9, start=2**40 - 4)  # over the end of the counter's first word
    assert (far[3:] == philox.normals(5, 6, 7, 8, 6, start=2**40 - 1)).all()
    scaled = np.empty(7)
    philox.fill_normals(scaled, 5, 6, 7, 8, scale=0.5)
    assert (scaled == 0.5 * whole[:7]).all()


def test_every_part_of_the_key_counts():
    keys = [(0, 0, 0, 0), (1, 0, 0, 0), (2**32, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    streams = [philox.normals(*key, 100_000) for key in keys]
    streams.append(philox.normals(0, 0, 0, 0, 100_000, start=2**34))
    overlaps = np.corrcoef(streams)[np.triu_indices(len(streams), 1)] * math.sqrt(100_000)
    assert np.abs(overlaps).max() < 4


@pytest.mark.slow
def test_law_of_the_normals():
    n = 2_000_000
    x = philox.normals(0, 0, 0, 0, n)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs(np.mean(x**power) - mean) < 4 * math.sqrt(variance / n)
    first, second = x[::2], x[1::2]
    a, b = first**2 - 1, second**2 - 1
    for left, right, sd in ((first, second, 1), (a, b, 2), (a, second, 2**0.5), (x[:-2], x[2:], 1)):
        assert abs(np.mean(left * right)) < 4 * sd / math.sqrt(left.size)
    assert _kolmogorov(x) < 1.95  # passed by chance with probability 0.999
    assert _kolmogorov(first / np.hypot(first, second), arcsine=True) < 1.95
    assert _kolmogorov(1.005 * x) > 1.95, "control: a variance off by 1 % must be seen"


def _kolmogorov(x, arcsine=False):
    x = np.sort(x)
    law = 1 - np.arccos(x) / math.pi if arcsine else ndtr(x)
    ranks = np.arange(x.size + 1) / x.size
    return max((ranks[1:] - law).max(), (law - ranks[:-1]).max()) * math.sqrt(x.size)


def test_elementary_functions_to_a_few_ulp():
    u = np.concatenate((2.0 ** -np.arange(1.0, 54), 1 - 2.0 ** -np.arange(1.0, 54), np.linspace(0.001, 0.999, 400)))
    for value in u:
        true = -2 * mp.log(mp.mpf(float(value)))
        assert abs(philox._minus_two_log(value) - true) <= 4 * np.spacing(float(true))
    for t in np.linspace(-math.pi / 4, math.pi / 4, 400):
        sine, cosine = philox._sin_cos(t)
        assert abs(sine - mp.sin(mp.mpf(float(t)))) <= 2 * np.spacing(abs(sine))
        assert abs(cosine - mp.cos(mp.mpf(float(t)))) <= 2 * np.spacing(cosine)


def test_same_bits_without_the_compiler(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from meanfield.empirical.random.philox import normals\n"
        "np.save(sys.argv[1], normals(2**64 - 1, 2**32 - 1, 5, 2**16 - 1, 301, start=2**49 - 302))\n"
    )
    root = str(Path(philox.__file__).parents[3])
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": root}
    subprocess.run([sys.executable, "-W", "error", "-c", code, str(tmp_path / "x.npy")], check=True, env=environment)
    compiled = philox.normals(2**64 - 1, 2**32 - 1, 5, 2**16 - 1, 301, start=2**49 - 302)
    assert (np.load(tmp_path / "x.npy") == compiled).all()
