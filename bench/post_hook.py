"""The hook that a user would write in Python: it posts its stdin to a small server on this machine.

`python -I -S post_hook.py PORT`; as lean as the library of Python allows.  Without a server the event is lost.
"""

import http.client
import sys

_TIMEOUT_S = 1


def post(port: int, payload: bytes) -> None:
    """Post a payload, and wait for the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", "/", payload)
        connection.getresponse().read()
    except OSError:  # a hook must not stop the harness
        return


if __name__ == "__main__":
    post(int(sys.argv[1]), sys.stdin.buffer.read())
