"""The spool: calls come back in order, once, whatever happened to the file in between."""

import json
import os
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_adapters.adapter import CallerProcess, HookAnswer, HookCall
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError
from lifebus_transports.framing.hook_frames import encode_call
from lifebus_transports.hooks import spool
from lifebus_transports.hooks.spool import SpoolCounters, drain_spool, split_records
from lifebus_transports.processes.identity import identify, late_caller_of
from support.clients.hook_box import HookBox, locked_by_another
from support.patience import PATIENCE_S
from support.transports.hook_server_box import a_call


class Broker:
    """Takes calls and keeps them, except those that it is told to fail on."""

    def __init__(self) -> None:
        self.calls: list[HookCall] = []
        self.faults: dict[str, Exception] = {}

    @property
    def ids(self) -> list[str]:
        return [call.call_id for call in self.calls]

    async def handle(self, call: HookCall) -> HookAnswer:
        if fault := self.faults.get(call.call_id):
            raise fault
        self.calls.append(call)
        return HookAnswer(stdout=b"nobody reads this")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def broker() -> Broker:
    return Broker()


def record(call_id: str, stdin: bytes = b"{}") -> bytes:
    return encode_call(a_call(call_id=call_id, stdin=stdin, spooled_at_epoch_s=7)) + b"\n"


def ids_in(data: bytes) -> list[str | None]:
    return [frame.header.call_id if frame else None for frame in split_records(data)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def spool_by_hook(box: HookBox, stdin: bytes, *arguments: str, already: int = 0) -> None:
    """Run a real hook, and wait for its call: on a slow machine a child of it spools when the hook has ended."""
    await anyio.to_thread.run_sync(box.run, stdin, *arguments)
    assert len(await anyio.to_thread.run_sync(box.spooled, already + 1)) == already + 1


def open_to_others(directory: Path) -> Path:
    directory.chmod(0o755)
    return directory


async def test_what_real_hooks_spooled_is_drained_in_order(tmp_path: Path, broker: Broker) -> None:
    box = HookBox(tmp_path)
    for number in range(5):
        await spool_by_hook(box, b"\n" * number, "claude", f"Hook{number}", already=number)
    counters = await drain_spool(box.spool, broker.handle)
    assert [(call.hook, call.stdin) for call in broker.calls] == [(f"Hook{n}", b"\n" * n) for n in range(5)]
    assert all(call.spooled_at_epoch_s for call in broker.calls)
    assert counters == SpoolCounters(drained=5)
    assert names(box.spool) == []


async def test_a_call_brings_its_process_and_when_it_was_made(directory: Path, broker: Broker) -> None:
    found = CallerProcess(pid=7, started="then")
    asked: list[tuple[int, int]] = []

    def caller_of(claimed: int, called_at_epoch_s: int) -> CallerProcess:
        asked.append((claimed, called_at_epoch_s))
        return found

    named = encode_call(a_call(call_id="named", spooled_at_epoch_s=70, process=CallerProcess(pid=42, started="")))
    (directory / "calls").write_bytes(named + b"\n" + record("nameless"))
    await drain_spool(directory, broker.handle, caller_of=caller_of)
    assert [(call.call_id, call.process) for call in broker.calls] == [("named", found), ("nameless", None)]
    assert asked == [(42, 70)]


async def test_the_caller_of_a_real_hook_is_the_process_that_started_it(tmp_path: Path, broker: Broker) -> None:
    box = HookBox(tmp_path)
    await spool_by_hook(box, b"{}", "claude", "Stop")
    await drain_spool(box.spool, broker.handle, caller_of=late_caller_of)
    assert [call.process for call in broker.calls] == [identify(os.getpid())]


async def test_no_spool_is_an_empty_spool(tmp_path: Path, broker: Broker) -> None:
    assert await drain_spool(tmp_path / "none", broker.handle) == SpoolCounters()


async def test_a_crash_in_the_middle_repeats_calls_and_loses_none(directory: Path, broker: Broker) -> None:
    (directory / "calls").write_bytes(record("a") + record("b"))

    async def crash(call: HookCall) -> HookAnswer:
        if call.call_id == "b":
            raise KeyboardInterrupt
        return await broker.handle(call)

    with pytest.raises(KeyboardInterrupt):
        await drain_spool(directory, crash)
    (directory / "calls").write_bytes(record("c"))
    assert (await drain_spool(directory, broker.handle)).drained == 3
    assert broker.ids == ["a", "a", "b", "c"]


async def test_a_cancelled_drain_keeps_the_calls(directory: Path, broker: Broker) -> None:
    (directory / "calls").write_bytes(record("a"))
    with anyio.CancelScope() as scope:

        async def cancelled(call: HookCall) -> HookAnswer:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
            return HookAnswer()

        await drain_spool(directory, cancelled)
    assert (await drain_spool(directory, broker.handle)).drained == 1


async def test_a_failure_that_may_pass_leaves_the_calls_for_the_next_drain(directory: Path, broker: Broker) -> None:
    (directory / "calls").write_bytes(record("a") + record("b"))
    broker.faults["b"] = BrokerBusy("the queue is full")
    counters = await drain_spool(directory, broker.handle)
    assert (counters.drained, counters.left) == (1, True)
    broker.faults.clear()
    assert await drain_spool(directory, broker.handle) == SpoolCounters(drained=2)


@pytest.mark.parametrize("fault", [InvalidRequest("bad payload"), RuntimeError("bug")])
async def test_a_call_that_cannot_be_taken_does_not_stop_the_others(
    directory: Path, broker: Broker, fault: Exception
) -> None:
    (directory / "calls").write_bytes(record("a") + record("b") + record("c"))
    broker.faults["b"] = fault
    assert await drain_spool(directory, broker.handle) == SpoolCounters(drained=2, refused=1)
    assert broker.ids == ["a", "c"]
    assert names(directory) == []


async def test_the_same_call_twice_is_handed_on_once(directory: Path, broker: Broker) -> None:
    (directory / "calls.claimed").write_bytes(record("a") + record("b") + record("a"))
    (directory / "calls").write_bytes(record("b") + record("c"))
    assert await drain_spool(directory, broker.handle) == SpoolCounters(drained=3, duplicate=2)
    assert broker.ids == ["a", "b", "c"]


async def test_dropped_and_oversized_calls_are_reported_once(directory: Path, broker: Broker) -> None:
    (directory / "dropped").write_bytes(b"...")
    header = {"v": 1, "call_id": "big", "adapter": "gemini", "hook": "AfterModel", "cwd": "/", "env": {}, "size": 0}
    line = json.dumps({**header, "oversized": 3_000_000}, separators=(",", ":"))
    (directory / "calls").write_bytes(line.encode() + b"\n\n" + record("a"))
    assert await drain_spool(directory, broker.handle) == SpoolCounters(drained=2, dropped=3, oversized=1)
    assert [(call.call_id, call.oversized) for call in broker.calls] == [("big", 3_000_000), ("a", None)]
    assert await drain_spool(directory, broker.handle) == SpoolCounters()


async def test_lost_calls_are_handed_on_as_one_call_of_their_adapter_until_that_is_taken(
    directory: Path, broker: Broker
) -> None:
    for name, size in {"dropped.codex": 3, "dropped.claude": 1}.items():
        (directory / name).touch()
        os.truncate(directory / name, size)
    refuse = BrokerBusy("full", code="busy")
    ids: list[str] = []

    async def full(call: HookCall) -> HookAnswer:
        ids.append(call.call_id)
        raise refuse

    assert (await drain_spool(directory, full)).left
    # Meanwhile more are lost: they count for themselves.
    (directory / "dropped.claude").touch()
    os.truncate(directory / "dropped.claude", 5)
    assert (await drain_spool(directory, broker.handle)) == SpoolCounters(dropped=4)
    assert [(call.adapter_id, call.hook, json.loads(call.stdin)["missed_messages"]) for call in broker.calls] == [
        ("claude", "hook_calls_lost", 1),
        ("codex", "hook_calls_lost", 3),
    ]
    assert ids == [broker.calls[0].call_id]
    assert (await drain_spool(directory, broker.handle)) == SpoolCounters(dropped=5)
    assert await anyio.to_thread.run_sync(os.listdir, directory) == []


async def test_hooks_go_on_spooling_while_a_drain_runs(tmp_path: Path, broker: Broker) -> None:
    box = HookBox(tmp_path)
    await spool_by_hook(box, b"{}", "codex", "first")

    async def handle(call: HookCall) -> HookAnswer:
        await spool_by_hook(box, b"{}", "codex", "second")
        return await broker.handle(call)

    await drain_spool(box.spool, handle)
    assert [call.hook for call in box.spooled()] == ["second"]
    await drain_spool(box.spool, broker.handle)
    assert [call.hook for call in broker.calls] == ["first", "second"]


async def test_no_call_is_lost_between_hooks_and_drains_at_the_same_time(tmp_path: Path, broker: Broker) -> None:
    box, one_at_a_time = HookBox(tmp_path), anyio.Lock()
    hooks = await anyio.to_thread.run_sync(box.start_many, 30, b"{}")

    async def drain_at_the_end_of(hook: "subprocess.Popen[bytes]") -> None:
        await anyio.to_thread.run_sync(hook.communicate, None, PATIENCE_S)
        async with one_at_a_time:
            await drain_spool(box.spool, broker.handle)

    async with anyio.create_task_group() as tasks:
        for hook in hooks:
            tasks.start_soon(drain_at_the_end_of, hook)
    with anyio.fail_after(PATIENCE_S):
        while len(broker.calls) < 30:  # on a slow machine a child of the hook spools when the hook has ended
            await drain_spool(box.spool, broker.handle)
    assert sorted(call.hook for call in broker.calls) == sorted(f"Hook{number}" for number in range(30))


async def test_a_hook_that_writes_for_ever_is_left_to_the_next_drain(
    directory: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "_WRITER_S", 0.05)
    (directory / "calls").write_bytes(record("a"))
    with locked_by_another(directory / "calls"):
        assert (await drain_spool(directory, broker.handle)).left
    assert await drain_spool(directory, broker.handle) == SpoolCounters(drained=1)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
async def test_what_is_no_file_of_a_hook_is_left_alone(
    directory: Path, tmp_path: Path, broker: Broker, kind: str
) -> None:
    match kind:
        case "link":
            (tmp_path / "precious").write_bytes(record("a"))
            (directory / "calls").symlink_to(tmp_path / "precious")
        case "fifo":
            os.mkfifo(directory / "calls")
        case _:
            (directory / "calls").mkdir()
    assert await drain_spool(directory, broker.handle) == SpoolCounters(left=True)
    assert broker.calls == []


async def test_a_file_of_another_user_is_left_alone(
    directory: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory / "calls").write_bytes(record("a"))
    folder = os.open(directory, os.O_RDONLY)
    monkeypatch.setattr(spool, "open_private_directory", lambda _: folder)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert await drain_spool(directory, broker.handle) == SpoolCounters(left=True)


async def test_a_directory_that_others_may_enter_is_refused(directory: Path, broker: Broker) -> None:
    with pytest.raises(LifebusError, match="chmod 700"):
        await drain_spool(open_to_others(directory), broker.handle)


def test_a_torn_last_record_costs_itself_only() -> None:
    whole, last = record("a") + record("b"), record("c", b'{"prompt":"hello"}')
    for cut in range(1, len(last)):
        assert ids_in(whole + last[:cut]) == ["a", "b", None]


def test_a_torn_record_in_the_middle_costs_itself_only() -> None:
    torn, behind = record("b", b'{"prompt":"hello"}'), record("c") + record("d")
    for cut in range(1, len(torn)):
        assert ids_in(record("a") + torn[:cut] + behind) == ["a", None, "c", "d"]


def test_stdin_that_looks_like_records_is_stdin() -> None:
    nested = record("inner")
    assert ids_in(record("a", nested) + record("b", nested + nested)) == ["a", "b"]


def test_a_record_whose_keys_come_twice_is_skipped() -> None:
    bad = record("b").replace(b'"cwd":"/"', b'"cwd":"/","cwd":"/"')
    assert ids_in(record("a") + bad + record("c")) == ["a", None, "c"]


def test_a_file_of_nothing_but_noise_ends_soon() -> None:
    found = ids_in(b'{"v":1,"call_id":"' * 200_000)
    assert set(found) == {None}
    assert len(found) <= 1_000


@given(noise=st.binary(max_size=300))
def test_noise_between_records_never_raises_nor_hides_a_later_record(noise: bytes) -> None:
    assert ids_in(record("a") + noise + record("b"))[-1] == "b"


@given(stdins=st.lists(st.binary(max_size=80), max_size=6))
def test_any_stdin_survives_the_spool(stdins: list[bytes]) -> None:
    data = b"".join(record(f"c{number}", stdin) for number, stdin in enumerate(stdins))
    assert [frame and frame.stdin for frame in split_records(data)] == stdins
