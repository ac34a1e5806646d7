"""`python -m tests.net`: compare with what is recorded, or record it anew (`--write`)."""

from __future__ import annotations

import argparse
import sys

from .record import compared, recorded, written


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net", description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the answers of this commit")
    parser.add_argument("--only", metavar="TEXT", default="", help="only calls that hold this text")
    parser.add_argument("--loose", action="store_true", help="compare as on another machine, not bit for bit")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.write:
        print(written(given.only, given.workers))
        return 0
    lines = compared(recorded(), given.only, given.workers, given.loose)
    print("\n".join(lines) or "no difference")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
