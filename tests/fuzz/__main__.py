"""python -m tests.fuzz --cases N --seed S [--kinds verbs,texts,lines,deep] [--jobs J] [--slice M]

Runs N cases of each kind in slices of M, every slice in a process of its own with its own seed and a memory limit; the
same numbers give the same cases. Exit code 1 where something was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys

from .calls import KINDS
from .hunt import one_slice


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="verbs,texts,lines")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--slice", type=int, default=2000)
    given = parser.parse_args(arguments)
    tasks = [
        (kind, min(given.slice, given.cases - first), given.seed + first)
        for kind in given.kinds.split(",")
        if kind in KINDS or parser.error(f"no kind {kind}; there are {', '.join(KINDS)}")
        for first in range(0, given.cases, given.slice)
    ]
    total, problems = 0, set[str]()
    with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=4) as pool:
        for kind, start, found, tried, seconds in pool.imap_unordered(one_slice, tasks):
            total += tried
            print(f"{kind} from seed {start}: {tried} cases, {len(found)} findings, {seconds:.1f} s", flush=True)
            for one in found:
                if one.split("\n")[1] not in problems:
                    problems.add(one.split("\n")[1])
                    print(f"  {one}", flush=True)
    print(f"{total} cases, {len(problems)} different findings")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
