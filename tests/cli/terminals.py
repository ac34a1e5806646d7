"""What a terminal shows on a command's stderr."""

import os
import pty
import subprocess


def shown(command: list[str], **environment: str) -> tuple[int, str]:
    """(the exit code, what came on a stderr that is a terminal)."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=env) as child:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
    os.close(ours)
    return child.returncode, text.decode()
