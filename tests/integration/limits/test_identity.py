"""Who is at the other end: peers of other users are turned away at every door, before a word of theirs is read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lifebus
from support.broker_process import BrokerProcess, broker_process
from support.patience import PATIENCE_S
from support.running import short_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which needs root")


_BECOME = "os.setgid(65534), os.setuid(65534)"
_CONNECT = """
import os, sys, zmq
BECOME
context = zmq.Context()
socket = context.socket(zmq.KIND)
socket.setsockopt(zmq.LINGER, 0)
monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
socket.connect("ipc://" + sys.argv[1])
ACT
assert monitor.poll(60000)
event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
is_admitted = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
print("admitted" if is_admitted else "refused", socket.poll(60000 if is_admitted else 200))
"""
_PING = 'socket.send_multipart([b"\\x01" + bytes(8) + b"ping", b"\\x80"])'
_ASK = _CONNECT.replace("KIND", "DEALER").replace("ACT", _PING)
_FOLLOW = _CONNECT.replace("KIND", "SUB").replace("ACT", 'socket.setsockopt(zmq.SUBSCRIBE, b"")')
_HOOK = """
import os, socket, sys
BECOME
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
header = b'{"v":1,"call_id":"c","adapter":"codex","hook":"Stop","cwd":"/","env":{},"size":2}'
try:
    connection.sendall(header + b"\\n{}")
    print("answered" if connection.recv(100) else "refused", 0)
except OSError:
    print("refused", 0)
"""


_SOCKETS = {_ASK: "requests.ipc", _FOLLOW: "receipts.ipc", _HOOK: "hook.sock"}


def run(script: str, path: Path, become: str = _BECOME) -> str:
    """Run a script as another user, or as ourselves, and return what it found."""
    command = [sys.executable, "-c", script.replace("BECOME", become), str(path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def let_everybody_in(broker: BrokerProcess) -> None:
    """Open the directory and the sockets, so that only the question of who it is remains."""
    broker.directory.chmod(0o755)
    broker.runtime_dir.chmod(0o755)
    for path in broker.runtime_dir.iterdir():
        path.chmod(0o777)


async def counter(broker: BrokerProcess, name: str) -> int:
    async with lifebus.connect(runtime_dir=broker.runtime_dir) as bus:
        return (await bus.status()).counters[name]


@pytest.mark.parametrize(
    ("script", "counted"), [(_ASK, "peers_refused"), (_FOLLOW, "peers_refused"), (_HOOK, "hook_refused")]
)
async def test_another_user_is_turned_away_even_where_the_file_modes_would_let_him_in(
    script: str, counted: str
) -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            let_everybody_in(broker)
            assert run(script, broker.runtime_dir / _SOCKETS[script]) == "refused 0"
            broker.runtime_dir.chmod(0o700)  # or our own client would not go there either
            assert await counter(broker, counted) >= 1
            assert await counter(broker, "hook_calls") == 0


async def test_another_user_does_not_even_reach_the_doors() -> None:
    script = "import os, sys; os.setuid(65534); print(os.access(sys.argv[1], os.F_OK))"
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            directory.chmod(0o755)
            assert [run(script, broker.runtime_dir / path) for path in _SOCKETS.values()] == ["False"] * 3


async def test_our_own_user_is_admitted_by_the_same_scripts() -> None:
    """Without this, the tests above could be refused for another reason."""
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            found = [run(script, broker.runtime_dir / path, become="") for script, path in _SOCKETS.items()]
    assert found == ["admitted 1", "admitted 1", "answered 0"]
