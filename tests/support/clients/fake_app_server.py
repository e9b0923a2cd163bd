"""An app-server that plays a recording: it says what was said after each line that it reads, and ends on EOF.

Run as ``python fake_app_server.py RECORDING``.
"""

import sys
from pathlib import Path

from support.adapters.app_server_recordings import chunks_of


def main(recording: Path) -> None:
    for direction, data, _ in chunks_of(recording):
        if direction == "in":
            if not sys.stdin.buffer.readline():
                return
        else:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
