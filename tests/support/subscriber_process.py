"""A subscriber as a process of its own, which can be stopped: plain ZeroMQ, nothing of ours, and it never says why."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.patience import PATIENCE_S

_FOLLOW = """
import sys, zmq
socket = zmq.Context().socket(zmq.SUB)
for topic in (b"a/", b"h/"):
    socket.setsockopt(zmq.SUBSCRIBE, topic)
socket.connect("ipc://" + sys.argv[1])
socket.recv_multipart()
print("live", flush=True)
while True:
    socket.recv_multipart()
"""


@contextmanager
def stopped_subscribers(runtime_dir: Path, count: int) -> Iterator[None]:
    """So many subscribers to everything that were live and are stopped: connected, and not reading any more."""
    command = [sys.executable, "-c", _FOLLOW, str(runtime_dir / "receipts.ipc")]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for child in children:
            assert child.stdout is not None
            found, _, _ = select.select([child.stdout], [], [], PATIENCE_S)
            assert found, "a subscriber got no beacon"
            child.stdout.readline()
        for child in children:
            os.kill(child.pid, signal.SIGSTOP)
        yield
    finally:
        for child in children:
            child.kill()
            child.communicate()
