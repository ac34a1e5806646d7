"""`meanfield`, and `python -m meanfield`: the command line."""

import sys
from typing import Any


def main() -> None:
    """Run the process's command line; an interruption while the program is imported ends with a line, too."""
    if sys.argv[1:] == ["--version"]:  # the verbs bring SymPy, which takes longer than the answer
        package: Any = sys.modules["meanfield"]
        print(f"meanfield {package.__version__}")
        return
    try:
        from meanfield.cli.app import main as run
    except KeyboardInterrupt:
        print("interrupted; nothing had begun.", file=sys.stderr)
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
