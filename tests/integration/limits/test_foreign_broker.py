"""Whose broker it is: nobody sends a byte to sockets that another user has put in the place of ours."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lifebus
from lifebus import make_request
from lifebus_contract import LifebusError
from support.clients.hook_box import HookBox
from support.clients.proxy_box import CAT, ProxyBox, eventually
from support.command_line import Shell
from support.integration.stdio_peers import stdio_peer
from support.other_user import STRANGER, forged_broker, needs_root
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory

pytestmark = needs_root

_STANDS_STILL = """
import asyncio, sys, threading, zmq
from pathlib import Path
from lifebus._internal.connection import Connection
from lifebus_contract import LifebusError
from lifebus_transports.messages.common import Nothing

async def main():
    connection = Connection(zmq.Context(), Path(sys.argv[1]))
    try:
        await connection.ask("status", Nothing(), Nothing, timeout=float(sys.argv[2]))
    except LifebusError as fault:
        threading.Event().wait(0.5)  # longer than a socket waits before it connects anew
        print(fault.code)
    connection.close()
    connection.context.destroy(linger=0)

asyncio.run(main())
"""

Place = Callable[[Path], Path]
"""Makes a runtime directory in which no broker is to be believed, and returns it."""


def directory_of_another(base: Path) -> Path:
    """As in `/tmp`, where whoever comes first makes it."""
    shared = base / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "run").mkdir(mode=0o700)
    os.chown(shared / "run", STRANGER, STRANGER)
    (shared / "run").chmod(0o755)
    return shared / "run"


def directory_that_can_be_exchanged(base: Path) -> Path:
    """Ours and private, below one in which everybody may rename it."""
    shared = base / "shared"
    shared.mkdir()
    (shared / "run").mkdir(mode=0o700)
    shared.chmod(0o777)
    return shared / "run"


def directory_open_to_others(base: Path) -> Path:
    (base / "run").mkdir()
    (base / "run").chmod(0o750)
    return base / "run"


def socket_of_another(base: Path) -> Path:
    """Ours and private now; when it was made, others could come in."""
    (base / "run").mkdir(mode=0o700)
    return base / "run"


PLACES: dict[Place, str] = {
    directory_of_another: "directory_owner",
    directory_that_can_be_exchanged: "directory_mode",
    directory_open_to_others: "directory_mode",
    socket_of_another: "foreign_broker",
}


@pytest.fixture
def base() -> Iterator[Path]:
    with short_directory() as directory:
        directory.chmod(0o755)
        yield directory


def shell_at(runtime_dir: Path, base: Path) -> Shell:
    return Shell(base, LIFEBUS_RUNTIME_DIR=str(runtime_dir))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_command_sends_nothing_and_says_whose_it_is(place: Place, base: Path) -> None:
    shell = shell_at(place(base), base)
    callback = base / "cb.sh"
    callback.write_text(f"#!/bin/sh\ntouch {base}/ran\n")
    callback.chmod(0o755)
    with forged_broker(Path(shell.environment["LIFEBUS_RUNTIME_DIR"])) as forged:
        ran = [
            shell.call("emit", "session.started", "--adapter", "codex", "--session", "s", "--json"),
            shell.call("tail", "--json"),
            shell.call("serve", "--event", "session.started", "--", str(callback)),
        ]
    assert forged.got_nothing
    assert [one.code for one in ran] == [78, 78, 78]
    assert {json.loads(one.err)["error"]["code"] for one in ran[:2]} == {PLACES[place]}
    assert not (base / "ran").exists()


@pytest.mark.parametrize("place", [directory_of_another, socket_of_another], ids=lambda place: place.__name__)
async def test_a_peer_on_stdio_is_refused_and_nothing_is_passed_on(place: Place, base: Path) -> None:
    runtime_dir = place(base)
    with forged_broker(runtime_dir) as forged:
        async with stdio_peer(runtime_dir) as peer:
            answer = await peer.ask("status")
    assert answer["refused"]["code"] == PLACES[place]
    assert forged.got_nothing


@pytest.mark.parametrize("place", [directory_of_another, socket_of_another], ids=lambda place: place.__name__)
def test_an_observer_passes_nothing_on_and_leaves_the_end_to_the_next_broker(place: Place, base: Path) -> None:
    runtime_dir = place(base)
    box = ProxyBox(base, patient=False, extra={"LIFEBUS_RUNTIME_DIR": str(runtime_dir)})
    with forged_broker(runtime_dir) as forged:
        assert box.run(CAT, b'{"method":"thread/started","params":{"thread":{"id":"t1"}}}\n')[0] == 0
        eventually(lambda: box.final_calls() != [])
    assert forged.got_nothing
    (call,) = box.final_calls()
    assert json.loads(call.stdin)["missed_messages"] > 0


def test_a_client_that_stands_still_as_it_meets_a_broker_of_another_lives(base: Path) -> None:
    """Whatever keeps its loop meanwhile: libzmq ends a process whose gate stands open behind a socket that closes."""
    runtime_dir = socket_of_another(base)
    with forged_broker(runtime_dir) as forged:
        command = [sys.executable, "-c", _STANDS_STILL, str(runtime_dir), str(PATIENCE_S)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "foreign_broker\n", "")
    assert forged.got_nothing


def test_a_hook_asks_who_may_enter_the_directory(base: Path) -> None:
    """Its own user's broker is there; the directory alone is wrong, as where the kernel names no peer."""
    box = HookBox(base, extra={"LIFEBUS_RUNTIME_DIR": str(directory_open_to_others(base))})
    with forged_broker(base / "run", os.geteuid()) as forged:
        ran = box.run(b"{}", "claude", "Stop")
    assert (ran.code, forged.got_nothing, len(box.spooled(1))) == (0, True, 1)


@pytest.mark.parametrize(
    "place", [directory_of_another, directory_open_to_others, socket_of_another], ids=lambda place: place.__name__
)
def test_a_hook_sends_nothing_and_spools(place: Place, base: Path) -> None:
    runtime_dir = place(base)
    box = HookBox(base, extra={"LIFEBUS_RUNTIME_DIR": str(runtime_dir)})
    with forged_broker(runtime_dir) as forged:
        ran = box.run(b'{"prompt":"secret"}', "claude", "UserPromptSubmit")
    assert (ran.code, ran.stdout, ran.stderr) == (0, b"", b"")
    assert forged.got_nothing
    assert [call.stdin for call in box.spooled(1)] == [b'{"prompt":"secret"}']


async def test_a_client_that_connects_anew_asks_again_whose_broker_it_is(base: Path) -> None:
    """The directory was sound at the start; then the broker went, and a stranger took its sockets' places."""
    async with running_bus(directory=base) as daemon, asyncio.timeout(PATIENCE_S):
        opening = lifebus.connect(runtime_dir=daemon.settings.runtime_dir, timeout=PATIENCE_S)
        bus = await opening.__aenter__()
    try:
        with forged_broker(base / "run") as forged, pytest.raises(LifebusError) as refused:
            await bus.status()
        assert refused.value.code == "foreign_broker"
        assert f"user {STRANGER}" in refused.value.detail
        assert forged.got_nothing
        emission = make_request("session.started", "codex", session="s", idempotency_key="k")
        async with running_bus(directory=base) as daemon, connected(daemon) as other:
            with pytest.raises(LifebusError, match="nothing is sent"):  # what was refused stays so
                await bus.emit(emission)
            assert (await other.emit(emission)).replayed is False
    finally:
        await opening.__aexit__(None, None, None)


@pytest.mark.parametrize("place", [directory_of_another, directory_that_can_be_exchanged, directory_open_to_others])
def test_the_broker_and_doctor_refuse_the_same_places(place: Place, base: Path) -> None:
    shell = shell_at(place(base), base)
    up, doctor = shell.call("up"), shell.call("doctor", "--json")
    assert up.code == 78
    states = {one["check"]: one["state"] for one in doctor.json}
    assert (doctor.code, states["runtime"]) == (1, "bad")
