"""`lifebus emit` by plain flags says what it says in the usual way, and records once whatever becomes of its answer."""

import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from lifebus.cli.bus import emit_plainly
from lifebus.cli.bus.line_socket import ask_line
from lifebus_contract import CONTRACT_VERSION
from lifebus_transports.directories import default_runtime_dir
from lifebus_transports.own_directories import runtime_directory
from support.command_line import Ran, Shell, broker_up
from support.patience import PATIENCE_S

PLAIN = ("emit", "session.started", "--adapter", "codex")
USUAL = ("--",)
"""A word that plain words do not have: the parser reads the line, and ZeroMQ carries it."""

CONNECTIONS = (("--json",), ("--timeout", "1m"), ("--timeout=1.5s",), ("--json", "--timeout", "9999w"))


def told(ran: Ran) -> Ran:
    """Return what a command printed without what differs from receipt to receipt."""
    return Ran(ran.code, re.sub(r"^\S+ |lfr_\w+", "", ran.out), ran.err)


@pytest.mark.parametrize(
    "words",
    [
        PLAIN,
        (*PLAIN, "--client=me"),
        (*PLAIN, "--key", ""),
        (*PLAIN, "--key", "k" * 300),
        (*PLAIN, "--timeout", "soon"),
        (*PLAIN, "--session", "\udcff"),
        ("emit", "frame.opened", "--adapter", "codex", "--json"),
        (*PLAIN, "--mode", "none", "--json"),
        ("emit", "frame.opened", "--adapter", "claude", "--session", "f\x1b", "--frame", "1", "--parent-frame", "0"),
        ("emit", "session.strted", "--adapter", "codex"),
        ("emit", "frame.opened", "--adapter", "codex"),
        (*PLAIN, "--mode", "none"),
        (*PLAIN, "--adapter-version", "9.9"),
        (*PLAIN, "--session", "x" * 300),
        ("emit", "session.started", "--adapter", "nobody"),
    ],
)
def test_both_ways_print_the_same(bus: Shell, words: tuple[str, ...]) -> None:
    assert told(bus.call(*words)) == told(bus.call(*words, *USUAL))


@pytest.mark.parametrize("words", [(), ("--session", "s1")])
def test_what_is_recorded_differs_in_its_ids_alone(bus: Shell, words: tuple[str, ...]) -> None:
    quick, usual = [bus.call(*PLAIN, *words, *more).out.split("receipt=")[1].strip() for more in ((), USUAL)]
    own = {"receipt_id", "event_id", "invocation_id", "idempotency_key", "sequence", "at_epoch_s"}
    shown = [bus.call("receipts", "show", one, "--json").json for one in (quick, usual)]
    first, second = ({key: value for key, value in one.items() if key not in own} for one in shown)
    assert first == second
    assert all(shown[0][name] != shown[1][name] for name in ("event_id", "invocation_id", "idempotency_key"))


def test_a_plain_line_goes_by_the_line_socket(bus: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(directory: str, request: bytes, seconds: float) -> bytes | None:
        asked.append(json.loads(request)["verb"])
        return ask_line(directory, request, seconds)

    monkeypatch.setattr(emit_plainly, "ask_line", ask)
    plain = [PLAIN, *((*PLAIN, *more) for more in CONNECTIONS), (*PLAIN, "--key", "k-plain")]
    for words in (*plain, (*PLAIN, *USUAL), (*PLAIN, "--fact", "a=1"), (*PLAIN, "--session", "s#1")):
        assert bus.call(*words).code == 0
    assert asked == ["emit"] * len(plain)


@pytest.mark.parametrize("more", CONNECTIONS)
def test_the_flags_of_the_connection_are_heeded(alone: Shell, more: tuple[str, ...]) -> None:
    with broker_up(alone):
        ran = alone.call(*PLAIN, *more, "--runtime-dir", str(alone.directory / "run"), LIFEBUS_RUNTIME_DIR="/nowhere")
        assert ran.code == 0
    assert "is not a duration" in alone.call(*PLAIN, "--timeout", "5").err


@pytest.mark.parametrize("words", [(), ("--key", "k1"), ("--session", "s9"), ("--require", "renewal.reset.native")])
def test_both_ways_answer_the_same_json(bus: Shell, words: tuple[str, ...]) -> None:
    quick, usual = (bus.call(*PLAIN, *words, "--json", *more) for more in ((), USUAL))
    ids = r'"(receipt_id|event_id|invocation_id|idempotency_key)":"[^"]*"|"(sequence|at_epoch_s|positions)":\[?\d+'
    said = [re.sub(r'"replayed":\w+', "", re.sub(ids, "", ran.out)) for ran in (quick, usual)]
    assert said[0] == said[1]
    assert (quick.code, quick.err) == (usual.code, usual.err)


def test_a_key_that_is_repeated_is_answered_by_either_way_to_the_byte(bus: Shell) -> None:
    words = (*PLAIN, "--session", "s-key", "--key", "k-twice", "--json")
    for first, second in (((), USUAL), (USUAL, ())):
        recorded, *again = (bus.call(*words, "--client", f"c{len(first)}", *more) for more in (first, second, first))
        assert again[0] == again[1]
        assert again[0].out == recorded.out.replace('"replayed":false', '"replayed":true')
        assert recorded.code == 0


@pytest.mark.parametrize("variables", [{}, {"COLUMNS": "40"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("words", [("--session", "s9"), (), ("--adapter-version", "9.9")])
def test_a_terminal_shows_the_same(bus: Shell, words: tuple[str, ...], variables: Mapping[str, str]) -> None:
    shown = [bus.on_terminal(*PLAIN, *words, *more, variables=variables) for more in ((), USUAL)]
    plain, usual = (re.sub(r"\d\d:\d\d:\d\d| +\d+(?= (session|observed|failed))|lfr_\w+", "", ran.out) for ran in shown)
    assert plain == usual
    assert (shown[0].code, " observed" in plain) == ((1, False) if "9.9" in words else (0, True))


def test_without_a_broker_it_says_so_in_the_usual_way(alone: Shell) -> None:
    assert alone.call(*PLAIN) == alone.call(*PLAIN, *USUAL)
    assert alone.call(*PLAIN).code == 69


def test_a_broker_without_the_socket_is_asked_in_the_usual_way(alone: Shell) -> None:
    with broker_up(alone):
        (alone.directory / "run" / "lines.sock").unlink()
        assert " session.started observed " in alone.call(*PLAIN).out


@pytest.mark.parametrize("passes_on", [True, False])
def test_an_event_whose_answer_is_lost_is_recorded_once(alone: Shell, passes_on: bool) -> None:
    with broker_up(alone), answer_lost(alone.directory / "run", passes_on=passes_on):
        assert " session.started observed " in alone.call(*PLAIN).out
        assert len(alone.call("receipts", "--json").lines) == 1


@pytest.mark.parametrize("mode", [0o755, 0o710])
def test_a_directory_that_others_may_enter_is_not_asked(bus: Shell, mode: int) -> None:
    directory = bus.directory / "run"
    try:
        directory.chmod(mode)
        assert ask_line(str(directory), b"{}") is None
    finally:
        directory.chmod(0o700)
    assert ask_line(str(directory), b'{"id":1,"verb":"ping"}') == b'{"id":1,"ok":{}}\n'


@pytest.mark.parametrize("own", ["", "/own", "relative"])
@pytest.mark.parametrize("base", ["", "/base", "relative"])
def test_the_directory_is_that_of_the_library(own: str, base: str) -> None:
    environ: Mapping[str, str] = {"LIFEBUS_RUNTIME_DIR": own, "XDG_RUNTIME_DIR": base, "HOME": "/home/me"}
    assert runtime_directory(environ) == str(default_runtime_dir(environ))


def test_its_request_has_the_version_of_the_contract(bus: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []
    monkeypatch.setattr(emit_plainly, "ask_line", lambda _, request, __: requests.append(request))
    assert bus.call(*PLAIN).code == 0
    (emission,) = json.loads(requests[0])["body"]["emissions"]
    assert emission["request"]["schema_version"] == CONTRACT_VERSION


@contextmanager
def answer_lost(directory: Path, *, passes_on: bool) -> Iterator[None]:
    """Put a socket into the place of the broker's that hangs up without the answer, once it has it or at once."""
    place, behind = directory / "lines.sock", directory / "behind.sock"
    place.rename(behind)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                line = connection.recv(65_536)
                if passes_on:
                    assert b'"ok"' in (ask_line_of(behind, line) or b"")

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join(PATIENCE_S)


def ask_line_of(path: Path, line: bytes) -> bytes:
    """Return what the socket at the path answers to a line."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        connection.sendall(line)
        return connection.recv(65_536)
