"""Another user of the same machine, whom only root can play: checks made as he, and brokers that he forges."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.patience import PATIENCE_S

STRANGER = 12_345

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="plays another user, which needs root")

_FORGED = """
import json, os, select, socket, sys, threading
import zmq
user, where = int(sys.argv[1]), sys.argv[2]
os.setgroups([]), os.setgid(user), os.setuid(user)
context = zmq.Context()
requests, receipts = context.socket(zmq.ROUTER), context.socket(zmq.XPUB)
requests.bind("ipc://" + where + "/requests.ipc")
receipts.bind("ipc://" + where + "/receipts.ipc")
hooks = socket.socket(socket.AF_UNIX)
hooks.bind(where + "/hook.sock")
hooks.listen()
for name in ("requests.ipc", "receipts.ipc", "hook.sock"):
    os.chmod(where + "/" + name, 0o777)
print(flush=True)
got = {"requests": [], "receipts": 0, "hook": 0}
poller = zmq.Poller()
for one in (requests, receipts, hooks.fileno(), 0):
    poller.register(one, zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if requests in ready:
        peer, header, body = requests.recv_multipart()
        got["requests"].append(header[9:].decode())
        requests.send_multipart([peer, header[:9] + b"ok", b"\\x80"])
    if receipts in ready:
        receipts.recv()
        got["receipts"] += 1
    if hooks.fileno() in ready:
        connection, _ = hooks.accept()
        with connection:
            got["hook"] += len(connection.recv(65536))
    if 0 in ready:
        break
print(json.dumps(got), flush=True)
os._exit(0)
"""

_CHECKED = """
import json, os, sys
from pathlib import Path
from lifebus_contract import LifebusError
from lifebus_transports.ownership import check_parents
os.umask(0)
user = int(sys.argv[1])
os.setgroups([]), os.setgid(user), os.setuid(user)
found = []
for path in sys.argv[2:]:
    try:
        check_parents(Path(path))
        found.append(None)
    except LifebusError as fault:
        found.append([fault.code, fault.detail])
print(json.dumps(found))
"""


@dataclass
class ForgedBroker:
    """What came to sockets that somebody else has put in a broker's place; known once the block has ended."""

    requests: list[str] = field(default_factory=list[str])
    receipts: int = 0
    hook: int = 0

    @property
    def got_nothing(self) -> bool:
        return not (self.requests or self.receipts or self.hook)


@contextmanager
def forged_broker(runtime_dir: Path, user: int = STRANGER) -> Generator[ForgedBroker]:
    """Sockets of another user in a directory, open to everybody; they take whatever comes and answer that it is fine.

    The directory has its owner and mode again before the block begins.
    """
    forged, mode = ForgedBroker(), runtime_dir.stat().st_mode
    runtime_dir.chmod(0o777)
    for socket in ("requests.ipc", "receipts.ipc", "hook.sock"):
        (runtime_dir / socket).unlink(missing_ok=True)
    command = [sys.executable, "-c", _FORGED, str(user), str(runtime_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        runtime_dir.chmod(mode)
        try:
            yield forged
        finally:
            out, _ = process.communicate(b"", PATIENCE_S)
        found = json.loads(out)
        forged.requests, forged.receipts, forged.hook = found["requests"], found["receipts"], found["hook"]


def check_as(user: int, paths: Sequence[Path]) -> list[list[str] | None]:
    """Return what `check_parents` says to a user of each path: code and detail, None where all is well."""
    command = [sys.executable, "-c", _CHECKED, str(user), *map(str, paths)]
    ran = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    return list(json.loads(ran.stdout))
