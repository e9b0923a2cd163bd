"""A broker whose answers make no sense: a fault of its side, never of what the user gave."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq

from support.command_line import Shell
from support.running import short_directory

Answer = Callable[[bytes, bytes], list[bytes]]
"""Makes the frames of an answer: of the request's version and number, and of its verb."""


def _ok(body: object) -> Answer:
    packed = body if isinstance(body, bytes) else msgspec.msgpack.encode(body)
    return lambda head, _: [head + b"ok", packed]


NONSENSE: dict[str, Answer] = {
    "no message": _ok(b"\xc1"),
    "empty": _ok(b""),
    "another message": _ok({"x": 1}),
    "a text": _ok("hello"),
    "a refusal that is none": lambda head, _: [head + b"refused", b"\xc1"],
    "no result for an emission": _ok({"results": []}),
    "two for one": _ok({"results": [{}, {}]}),
    "a receipt that is none": _ok({"results": [{"receipts": [b"{}"], "positions": [1]}]}),
    "another protocol": lambda head, _: [b"\x09" + head[1:] + b"ok", b"\x80"],
    "no header": lambda _, __: [b"", b"\x80"],
    "one frame": lambda head, _: [head + b"ok"],
    "http": lambda _, __: [b"HTTP/1.1 200 OK", b""],
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "emit": ("emit", "session.started", "--adapter", "codex", "--session", "s"),
    "status": ("status",),
    "receipts": ("receipts",),
    "sessions": ("sessions",),
    "consumers": ("clients", "list"),
    "tail": ("tail",),
    "serve": ("serve", "--event", "session.started", "--", "true"),
}


@contextmanager
def nonsense_broker(runtime_dir: Path, answer: Answer) -> Generator[None]:
    """A broker that answers pings, and anything else with nonsense."""
    runtime_dir.mkdir(mode=0o700)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.bind(f"ipc://{runtime_dir}/requests.ipc")
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            if socket.poll(50):
                peer, header, _ = socket.recv_multipart()
                head, verb = header[:9], header[9:]
                sound = [head + b"ok", b"\x80"]
                socket.send_multipart([peer, *(sound if verb == b"ping" else answer(head, verb))])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        context.destroy(linger=0)


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_of_a_broker_is_never_blamed_on_the_user(nonsense: str) -> None:
    with short_directory() as base:
        shell = Shell(base)
        with nonsense_broker(base / "run", NONSENSE[nonsense]):
            for words in (COMMANDS["emit"], COMMANDS["status"], COMMANDS["receipts"]):
                ran = shell.call(*words, "--timeout", "300ms")
                assert (words[0], ran.code in {69, 70}) == (words[0], True), ran
                assert "defect of lifebus" not in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_that_the_answer_cannot_be_read(command: str) -> None:
    with short_directory() as base:
        shell = Shell(base)
        with nonsense_broker(base / "run", NONSENSE["no message"]):
            ran = shell.call(*COMMANDS[command])
    assert (ran.code, "the broker's answer cannot be read" in ran.err) == (70, True), ran
