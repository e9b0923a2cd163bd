"""The client of an app-server: begins the proxy that its words say, opens a thread, and goes on in it until the end.

Run as ``python worker_client.py WORD …``.  It goes on talking because an observer that takes the place of another one
learns of a thread by what is said in it.
"""

import json
import subprocess
import sys
import threading
from itertools import count
from typing import IO, Any, Final

PAUSE_S: Final = 0.2


def main(words: list[str]) -> None:
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        threading.Thread(target=talk, args=(proxy.stdin,), daemon=True).start()
        with open(proxy.stdout.fileno(), "rb", closefd=False) as said:
            for line in said:
                if b"lifebus:" in line or b"-t" in line:
                    sys.exit(f"it was told of what is none of its own: {line!r}")


def talk(stdin: IO[bytes]) -> None:
    """Begin turns in the one thread, again and again."""
    ended = threading.Event()
    try:
        say(stdin, id=1, method="initialize", params={})
        say(stdin, id=2, method="thread/start", params={})
        for number in count(3):
            turn = {"threadId": "t1", "input": [{"type": "text", "text": "on"}]}
            say(stdin, id=number, method="turn/start", params=turn)
            ended.wait(PAUSE_S)
    except (BrokenPipeError, ValueError):  # the proxy is gone, or its end of the pipe is closed by now
        return


def say(stdin: IO[bytes], **message: Any) -> None:
    stdin.write(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
