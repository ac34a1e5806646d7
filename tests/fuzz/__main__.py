"""python -m tests.fuzz --seed S --calls N [--first F] [--kind KIND,…] [--only CALL] [--workers W] [--out FILE]

Calls F … F + N - 1 of a seed, their kinds drawn from those that compare answers, or from the kinds given. A call is the
same whenever, and beside whatever, it is made: --only CALL makes it alone. Every call is a line of FILE (JSON), and a
run that was stopped goes on where it was. Exit code 1 where something was found, where more than a tenth of the calls
was refused, or some kind of call always.
"""

from __future__ import annotations

import argparse
import os
import sys

for _name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is loaded
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MEANFIELD_SECONDS", "1e6")  # the CPU time of a call is limited here


def main(arguments: list[str] | None = None) -> int:
    from .kinds import ANSWERS, KINDS, SECONDS
    from .runner import hunt, printed, repeat

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", default=",".join(ANSWERS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--only", type=int, help="this call alone")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", help="where the calls are written, one line each, and read from when going on")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU time of one call")
    given = parser.parse_args(arguments)
    kinds = tuple(given.kind.split(","))
    for kind in kinds:
        if kind not in KINDS:
            parser.error(f"no kind {kind}; there are {', '.join(KINDS)}")
    if given.only is not None:
        record = repeat(given.seed, given.only, kinds, given.seconds)
        print("\n".join([f"{record.kind}: {record.status} {record.message}", *record.asked, *printed(record)]))
        return int(record.status in ("found", "broken"))
    numbers = range(given.first, given.first + given.calls)
    return hunt(given.seed, numbers, kinds, given.workers, given.out, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
