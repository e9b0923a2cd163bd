"""Sessions by the names that people type, and what `lifebus sessions` says of them."""

import io
import json
import os
import sys
import time
from collections.abc import Iterator

import pytest

from lifebus.cli.exit_codes import UsageError
from lifebus.cli.printing import milliseconds_of
from lifebus.cli.session_names import choose_session
from lifebus.cli.terminal import time_text
from lifebus_contract import InvalidRequest, LifecycleEvent, ReceiptStatus
from lifebus_contract.ids import RECEIPT, IdSource
from lifebus_contract.views import SessionHead
from support.command_line import Shell, broker_up
from support.receipts import receipt
from support.running import short_directory

IDS = {"api#1": "claude/0000-aaaa", "api#2": "codex/1111-bbbb", "web#1": "codex/2222-aaaa", "codex#1": "codex/3333"}


def started(adapter: str, session: str, cwd: str | None) -> str:
    """Return an emission that begins a session in a directory."""
    request = {
        "schema_version": "lifeloop.v0.2",
        "event": "session.started",
        "event_id": f"e-{session}",
        "adapter_id": adapter,
        "adapter_version": "0.1.0",
        "invocation_id": f"i-{session}",
        "integration_mode": "native_hook",
        "harness_session_id": session,
    }
    return json.dumps({"request": request, **({} if cwd is None else {"telemetry": {"cwd": cwd}})})


@pytest.fixture(scope="module")
def named() -> Iterator[Shell]:
    """A shell beside a broker that knows four sessions, the last of which is in no known folder."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            for (name, whole), _ in zip(IDS.items(), range(4), strict=True):
                folder, (adapter, session) = name.partition("#")[0], whole.split("/")
                emission = started(adapter, session, None if folder == "codex" else f"/srv/{folder}")
                assert shell.call("emit", "--file", "-", stdin=emission.encode()).code == 0
            yield shell


def head(name: str | None, adapter: str, session: str) -> SessionHead:
    return SessionHead(
        adapter_id=adapter,
        harness_session_id=session,
        sequence=1,
        receipts=1,
        first_position=1,
        last_position=1,
        last_event=LifecycleEvent.SESSION_STARTED,
        last_status=ReceiptStatus.OBSERVED,
        started_at_epoch_s=1,
        last_at_epoch_s=1,
        ended=False,
        open_frames=(),
        harness_sequence=None,
        name=name,
    )


HEADS = [head(name, *whole.split("/")) for name, whole in IDS.items()]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("api#2", "api#2"), ("3333", "codex#1"), ("web", "web#1"), ("1111", "api#2"), ("bbbb", "api#2")],
)
def test_a_session_is_meant_by_its_name_its_id_its_folder_and_by_a_part_of_its_id(typed: str, meant: str) -> None:
    assert "/".join(choose_session(typed, HEADS)) == IDS[meant]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("api", "api#1 (claude), api#2 (codex)"),
        ("aaaa", "api#1 (claude), web#1 (codex)"),
        ("api#3", "did you mean api#2 or api#1?"),
        ("wbe#1", "did you mean web#1?"),
        ("bbb", "`lifebus sessions` lists them"),
        ("nothing", "`lifebus sessions` lists them"),
    ],
)
def test_what_is_meant_by_none_or_by_several_is_refused_with_those_that_may_be_meant(typed: str, said: str) -> None:
    with pytest.raises((UsageError, InvalidRequest)) as caught:
        choose_session(typed, HEADS)
    assert said in str(caught.value)


def test_an_exact_name_goes_before_a_folder_and_a_part() -> None:
    heads = [head("api#1", "codex", "web#1-x"), head("web#1", "codex", "s"), head("s#1", "claude", "t")]
    assert choose_session("web#1", heads) == ("codex", "s")
    assert choose_session("s", heads) == ("codex", "s")


def test_sessions_are_listed_by_name_with_what_happened_in_them(named: Shell) -> None:
    found = named.call("sessions", "--json").json
    cwds = {"api#1": "api", "api#2": "api", "web#1": "web", "codex#1": None}
    assert {one["name"]: one["cwd"] for one in found} == cwds
    assert {(one["turns"], one["subagents"], one["compactions"], one["failures"]) for one in found} == {(0, 0, 0, 0)}
    assert all(one["started_at_ms"] == 1_000 * one["started_at_epoch_s"] for one in found)
    lines = named.call("sessions").out.splitlines()
    assert {line.split()[0]: line.split()[-1] for line in lines[1:]} == IDS


def test_one_session_is_shown_with_all_that_is_known_of_it(named: Shell) -> None:
    ran = named.call("sessions", "api#2")
    facts = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert (facts["session"], facts["id"], facts["directory"]) == ("api#2", IDS["api#2"], "api")
    ambiguous = named.call("sessions", "api")
    assert ambiguous.code == 2
    assert "api#1 (claude), api#2 (codex)" in ambiguous.err


def test_sessions_are_chosen_by_time(named: Shell) -> None:
    assert len(named.call("sessions", "--since", "1h", "--json").json) == 4
    assert named.call("sessions", "--since", "2099-01-01", "--json").json == []
    assert named.call("sessions", "--until", "2020-01-01", "--json").json == []
    assert len(named.call("sessions", "--until", "2099-01-01", "--json").json) == 4
    assert named.call("sessions", "--until", "soon").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ("receipts", "list", "--json", "--session"),
        ("tail", "--no-follow", "--json", "--session"),
        ("sessions", "--json"),
        ("receipts", "export", "--session"),
        ("dev", "tick", "--json", "--session"),
        ("contract", "negotiate", "codex", "--want", "context_pressure", "--session"),
    ],
)
def test_every_command_that_takes_a_session_takes_its_short_name(named: Shell, command: tuple[str, ...]) -> None:
    ran = named.call(*command, "api#2")
    assert ran.code == 0, ran.err
    other = named.call(*command, "api#9")
    assert (other.code, "did you mean api#2 or api#1?" in other.err) == (1, True)


def test_receipts_have_the_names_of_their_sessions(named: Shell) -> None:
    lines = named.call("tail", "--no-follow", "--json").lines
    begun = [line for line in lines if line["receipt"]["event"] == "session.started"]
    assert [line["session"] for line in begun] == list(IDS)
    assert all(line["at_ms"] // 1_000 == line["receipt"]["at_epoch_s"] for line in begun)
    assert " name=web#1\n" in named.call("receipts", "--session", "web#1").out
    assert named.on_terminal("tail", "--no-follow", "--session", "web#1").out.count("web#1") == len(
        named.call("tail", "--no-follow", "--session", "web#1", "--json").lines
    )


def test_status_names_the_open_sessions(named: Shell) -> None:
    (line,) = [line for line in named.call("status").out.splitlines() if line.startswith("sessions ")]
    shown = {one.partition(" ")[0] for one in line.removeprefix("sessions").strip().split(", ")}
    assert shown == set(IDS)
    assert {one["name"] for one in named.call("status", "--json").json["open_sessions"]} == set(IDS)


class Terminal(io.StringIO):
    """A stream of a terminal."""

    def isatty(self) -> bool:
        return True


def test_times_are_local_on_a_terminal_and_in_utc_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    at_ms = 1_790_000_000_123
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert time_text(at_ms) == "2026-09-21T14:13:20Z"
    monkeypatch.setattr(sys, "stdout", Terminal())
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "XYZ-05:30")
        time.tzset()
        assert time_text(at_ms) == "2026-09-21 19:43:20"
    time.tzset()


@pytest.mark.parametrize(
    ("number", "second", "at_ms"),
    [(None, 1_790_000_000, 1_790_000_000_123), (None, 1_790_000_007, 1_790_000_007_000), (5, 9, 9_000)],
    ids=["as its id says", "an id of another second", "another form of id"],
)
def test_the_milliseconds_of_a_receipt_are_those_of_its_id(number: int | None, second: int, at_ms: int) -> None:
    made = IdSource(lambda: 1_790_000_000_123, os.urandom).make(RECEIPT)
    changes = {} if number is not None else {"receipt_id": made}
    assert milliseconds_of(receipt(number or 1, at_epoch_s=second, **changes)) == at_ms
