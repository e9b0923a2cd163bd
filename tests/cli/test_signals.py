"""`lifebus app-server signals`: every signal once, a short line each, and the whole of it only when it is asked for."""

import asyncio
import json
import signal as unix_signals
from collections.abc import Iterator

import pytest

import lifebus
from lifebus_contract.jobs import NewJob
from lifebus_transports.messages.signals import Observation
from support.command_line import Shell, broker_up
from support.integration.observing import EVENT, Observer, signal
from support.patience import PATIENCE_S
from support.running import short_directory

SAID: list[Observation] = [
    signal("00000001-thread-one", event="app_server.turn.started", context={"threadId": "1", "turnId": "turn-000001"}),
    signal("00000001-thread-one", params={"delta": "words of the conversation"}),
    signal("", event="app_server.config_warning", receivedAt="2026-11-21T00:00:00.000Z"),
    signal("t2", event="app_server.request.item.command_execution.request_approval", requestId=0),
    signal("t2", event="app_server.item.completed", params=None, paramsBytes=200_000),
    signal("00000001-thread-one", event="app_server.turn.completed"),
]


def observe(shell: Shell, *observations: Observation, origin: str = "o1") -> None:
    """Tell a shell's broker what an observer saw."""

    async def send() -> None:
        async with lifebus.connect("test", runtime_dir=shell.directory / "run") as bus:
            await Observer(bus, origin).observe(*observations)

    asyncio.run(send())


def do_a_job(shell: Shell) -> None:
    """Have a job done by a shell's broker."""

    async def send() -> None:
        async with lifebus.connect("test", runtime_dir=shell.directory / "run") as bus:
            new = NewJob(type="command", project_id="shop", payload={"argv": ["true"], "cwd": "/"})
            await bus.jobs.wait((await bus.jobs.enqueue(new)).job.id)

    asyncio.run(send())


@pytest.fixture(scope="module")
def observed() -> Iterator[Shell]:
    """A shell beside a broker that has signals of two threads and of the process itself, and the events of a job."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            observe(shell, *SAID)
            do_a_job(shell)
            yield shell


def test_in_a_pipe_a_line_names_event_thread_turn_and_size_and_no_word_of_the_conversation(observed: Shell) -> None:
    ran = observed.run("app-server", "signals", "--no-follow")
    lines = sorted(ran.out.splitlines(), key=lambda line: line.split()[1:3])
    assert (ran.code, len(lines), ran.err) == (0, 6, "")
    assert lines[0].startswith("2026-11-21T00:00:00.000Z codex/- 1 app_server.config_warning bytes=")
    assert " codex/00000001-thread-one 1 app_server.turn.started turn=turn-000001 bytes=" in lines[1]
    assert "request_approval request=0 bytes=" in lines[4]
    assert lines[5].endswith(" params_left_out=200000")
    assert "conversation" not in ran.out


def test_in_json_a_line_has_the_place_and_the_whole_signal(observed: Shell) -> None:
    ran = observed.call("app-server", "signals", "--no-follow", "--json", "--thread", "00000001-thread-one")
    assert [line["cursor"].split(":")[1] for line in ran.lines] == ["1", "2", "3"]
    assert ran.lines[1]["signal"]["params"] == {"delta": "words of the conversation"}
    assert {line["thread"] for line in ran.lines} == {"00000001-thread-one"}


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((), 6),
        (("--event", EVENT), 1),
        (("--event", "app_server.turn.*"), 2),
        (("--event", "turn.*"), 2),
        (("--event", "*approval"), 1),
        (("--event", "turn.start"), 0),
        (("--thread", ""), 1),
        (("--thread", "t2"), 2),
        (("--thread", "nobody"), 0),
        (("--adapter", "claude"), 0),
        (("--from", "start"), 6),
        (("--from", "1", "--thread", "t2"), 1),
        (("--since", "start"), 6),
        (("--since", "2026-11-22T00:00:00Z"), 5),
        (("--last", "1"), 3),
        (("-n", "0"), 0),
    ],
)
def test_filters_and_beginnings_select_what_they_say(observed: Shell, arguments: tuple[str, ...], count: int) -> None:
    ran = observed.call("app-server", "signals", "--no-follow", "--json", *arguments)
    assert (ran.code, len(ran.lines)) == (0, count)


def test_a_cursor_that_it_printed_is_where_it_goes_on(observed: Shell) -> None:
    first = observed.call("app-server", "signals", "--no-follow", "--json", "--thread", "t2").lines[0]["cursor"]
    rest = observed.call("app-server", "signals", "--no-follow", "--json", "--thread", "t2", "--from", first).lines
    assert [line["signal"]["eventType"] for line in rest] == ["app_server.item.completed"]


def test_a_cursor_of_another_history_is_an_explicit_gap(observed: Shell) -> None:
    ran = observed.call("app-server", "signals", "--no-follow", "--json", "--thread", "t2", "--from", f"{'0' * 32}:1")
    assert ran.lines[0]["gap"]["reason"] == "epoch_changed"
    assert len(ran.lines) == 3


def test_on_a_terminal_there_are_columns_that_fit(observed: Shell) -> None:
    ran = observed.on_terminal("app-server", "signals", "--no-follow", variables={"NO_COLOR": "1"})
    lines = ran.out.replace("\r\n", "\n").splitlines()
    assert len(lines) == 6
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in ran.out
    assert any(line.startswith("codex …ad-one     1 turn.started") and "turn …000001" in line for line in lines)


def test_it_follows_what_comes_and_ends_with_130_on_ctrl_c(alone: Shell) -> None:
    with broker_up(alone), alone.started("app-server", "signals", "--from", "start", "--json") as process:
        observe(alone, signal("t1"))
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["thread"] == "t1"
        observe(alone, signal("t2"), origin="o2")
        assert json.loads(process.stdout.readline())["thread"] == "t2"
        process.send_signal(unix_signals.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_events_of_jobs_are_chosen_by_their_names_and_have_no_time(observed: Shell) -> None:
    lines = observed.call("app-server", "signals", "--adapter", "lifebus", "--no-follow").out.splitlines()
    names = [f"orchestrator_job_{state}" for state in ("queued", "started", "completed")]
    assert [line.split()[:4] for line in lines] == [
        ["-", "lifebus/queue/shop", str(number), name] for number, name in enumerate(names, 1)
    ]
    for pattern, count in (("orchestrator_job_started", 1), ("orchestrator_*", 3), ("app_server.*", 0)):
        chosen = observed.call(
            "app-server", "signals", "--adapter", "lifebus", "--no-follow", "--json", "--event", pattern
        )
        assert len(chosen.lines) == count
    since = observed.call("app-server", "signals", "--adapter", "lifebus", "--no-follow", "--since", "1h")
    assert (since.code, since.out) == (2, "")
    assert "have no time" in since.err


def test_the_status_counts_signals(observed: Shell) -> None:
    # Three of them are of the job.
    assert "signals_stored 9" in observed.call("status").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--from", "3"),
        ("--from", "tomorrow", "--thread", "t2"),
        ("--since", "soon"),
        ("--from", "start", "--since", "1h"),
        ("--last", "-1"),
        ("--last", "many"),
        ("--nonsense",),
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(observed: Shell, arguments: tuple[str, ...]) -> None:
    ran = observed.call("app-server", "signals", "--no-follow", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("lifebus: ")
