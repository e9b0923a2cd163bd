"""The hook server with honest peers: answers, deadlines, limits, and the real hook."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from lifebus_adapters.adapter import CallerProcess, HookAnswer, HookCall
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError
from lifebus_transports.framing.hook_frames import (
    BUSY,
    MAX_ANSWER_BYTES,
    MAX_STDIN_BYTES,
    decode_answer,
    encode_answer,
    encode_call,
)
from lifebus_transports.hooks.peer import is_same_user, peer_pid, peer_uid
from lifebus_transports.hooks.server import HookServerCounters, HookServerLimits, serve_hooks
from support.clients.hook_box import PATIENT_COMMAND, HookBox
from support.patience import PATIENCE_S
from support.transports.hook_server_box import a_call, ask, echo, open_server, short_directory, talk, until, waiting_for


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hook.sock"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_call_reaches_the_handler_and_its_answer_comes_back(path: Path) -> None:
    seen: list[HookCall] = []

    async def handle(call: HookCall) -> HookAnswer:
        seen.append(call)
        return await echo(call)

    call = a_call(stdin=b"\x00\xff" * 1000, env={"CODEX_HOME": "/x"}, cwd="/ž", spooled_at_epoch_s=7)
    async with open_server(path, handle) as counters:
        assert await ask(path, call) == HookAnswer(stdout=call.stdin, exit_code=4)
    assert seen == [call]
    assert counters == HookServerCounters(calls=1)


async def test_the_socket_is_for_its_owner_only(path: Path) -> None:
    async with open_server(path):
        assert mode_of(path) == 0o600


async def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LifebusError, match="LIFEBUS_RUNTIME_DIR"):
        await serve_hooks(tmp_path / ("x" * 108), echo)


async def test_a_call_that_comes_byte_by_byte_is_taken(path: Path) -> None:
    data = encode_call(a_call())
    async with open_server(path) as counters:
        answer = await talk(path, *(data[at : at + 1] for at in range(len(data))))
    assert decode_answer(answer).stdout == b"{}"
    assert counters.calls == 1


async def test_a_late_answer_is_given_up_but_the_call_is_handled_to_its_end(path: Path) -> None:
    done: list[str] = []
    release = anyio.Event()

    async def handle(call: HookCall) -> HookAnswer:
        await release.wait()
        done.append(call.call_id)
        return HookAnswer(stdout=b"late")

    async with open_server(path, handle, HookServerLimits(answer_s=0.01)) as counters:
        assert await ask(path, a_call()) == HookAnswer()
        release.set()
        await until(lambda: done == ["c1"])
    assert counters == HookServerCounters(calls=1, late=1)


async def test_an_answer_in_time_is_not_given_up_afterwards(path: Path) -> None:
    async with open_server(path, limits=HookServerLimits(answer_s=0.0)) as counters:
        for _ in range(2):  # the second one comes some turns of the loop after the first
            assert (await ask(path, a_call())).stdout == b"{}"
    assert counters == HookServerCounters(calls=2)


async def test_whether_an_answer_was_taken_is_reported_once_for_each_call(path: Path) -> None:
    answered: dict[str, bool] = {}
    asked, release = anyio.Event(), anyio.Event()

    async def handle(call: HookCall) -> HookAnswer:
        if call.call_id == "broken":
            raise RuntimeError("bug")
        if call.call_id in {"late", "gone"}:
            asked.set()
            await release.wait()
        return HookAnswer(stdout=b"remember")

    def note(call: HookCall, taken: bool) -> None:
        assert call.call_id not in answered
        answered[call.call_id] = taken

    async with open_server(path, handle, on_answered=note):
        for name in ("taken", "broken"):
            await ask(path, a_call(call_id=name))
        await until(lambda: len(answered) == 2)
        assert answered == {"taken": True, "broken": False}
    async with open_server(path, handle, HookServerLimits(answer_s=0.01, handle_s=PATIENCE_S), on_answered=note):
        await ask(path, a_call(call_id="late"))
        assert "late" not in answered
        release.set()
        await until(lambda: "late" in answered)
    release, asked = anyio.Event(), anyio.Event()
    async with open_server(path, handle, HookServerLimits(answer_s=PATIENCE_S), on_answered=note):
        async with await anyio.connect_unix(path) as hook:
            await hook.send(encode_call(a_call(call_id="gone")))
            await asked.wait()
        release.set()
        await until(lambda: "gone" in answered)
    assert answered == {"taken": True, "broken": False, "late": False, "gone": False}


NOTHING = {encode_answer(HookAnswer()), b""}
"""What a hook gets that its handler has no answer for: an empty answer, or none where the machine was too slow."""


async def test_a_call_that_never_ends_is_given_up_and_frees_its_place(path: Path) -> None:
    limits = HookServerLimits(answer_s=0.01, handle_s=0.05, at_once=1)
    async with open_server(path, waiting_for(anyio.Event(), []), limits) as counters:
        assert await talk(path, encode_call(a_call())) in NOTHING
        await until(lambda: counters.failed == 1)
        assert await talk(path, encode_call(a_call())) in NOTHING
    assert (counters.calls, counters.busy) == (2, 0)


async def test_calls_beyond_the_limit_are_answered_busy_at_once(path: Path) -> None:
    release, seen = anyio.Event(), list[HookCall]()
    async with open_server(
        path, waiting_for(release, seen), HookServerLimits(answer_s=PATIENCE_S, at_once=3)
    ) as counters:
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(ask, path, a_call(call_id=f"c{number}"))
            await until(lambda: len(seen) == 3)
            assert await talk(path) == BUSY
            release.set()
        assert (await ask(path, a_call())).stdout == b"at last"
    assert (counters.calls, counters.busy) == (4, 1)


async def test_a_busy_broker_has_the_hook_spool(path: Path) -> None:
    async def handle(call: HookCall) -> HookAnswer:
        raise BrokerBusy("the queue is full")

    async with open_server(path, handle) as counters:
        assert await talk(path, encode_call(a_call())) == BUSY
    assert (counters.calls, counters.busy) == (1, 1)


@pytest.mark.parametrize("fault", [RuntimeError("bug"), InvalidRequest("bad payload")])
async def test_a_handler_that_fails_answers_nothing_and_the_server_stays_open(path: Path, fault: Exception) -> None:
    async def handle(call: HookCall) -> HookAnswer:
        if call.hook == "bad":
            raise fault
        return await echo(call)

    async with open_server(path, handle) as counters:
        assert await ask(path, a_call(hook="bad")) == HookAnswer()
        assert (await ask(path, a_call())).stdout == b"{}"
    assert (counters.calls, counters.failed) == (2, 1)


@pytest.mark.parametrize("answer", [HookAnswer(stdout=b"x" * MAX_ANSWER_BYTES), HookAnswer(exit_code=256)])
async def test_an_answer_that_the_hook_would_not_take_is_not_sent(path: Path, answer: HookAnswer) -> None:
    async def handle(call: HookCall) -> HookAnswer:
        return answer

    async with open_server(path, handle) as counters:
        assert await ask(path, a_call()) == HookAnswer()
    assert counters.failed == 1


async def test_closing_the_server_still_answers_the_calls_in_hand(path: Path) -> None:
    release, seen, answers = anyio.Event(), list[HookCall](), list[HookAnswer]()

    async def call() -> None:
        answers.append(await ask(path, a_call()))

    async with (
        anyio.create_task_group() as tasks,
        open_server(path, waiting_for(release, seen), HookServerLimits(answer_s=PATIENCE_S)),
    ):
        tasks.start_soon(call)
        await until(lambda: bool(seen))
        tasks.start_soon(_set_later, release)
    assert answers == [HookAnswer(stdout=b"at last")]
    with pytest.raises(OSError, match="refused"):
        await anyio.connect_unix(path)


async def _set_later(event: anyio.Event) -> None:
    await anyio.lowlevel.checkpoint()
    event.set()


async def test_the_real_hook_is_answered(path: Path) -> None:
    with short_directory() as base:
        box = HookBox(base, command=PATIENT_COMMAND)
        box.runtime.mkdir(mode=0o700)
        async with open_server(box.socket_path) as counters:
            run = await anyio.to_thread.run_sync(box.run, b'{"a":1}')
        assert (run.code, run.stdout, box.spooled()) == (12, b'{"a":1}', [])
        assert counters == HookServerCounters(calls=1)


async def test_the_real_hook_with_too_large_a_payload_is_counted_and_handed_on() -> None:
    with short_directory() as base:
        box = HookBox(base, command=PATIENT_COMMAND)
        box.runtime.mkdir(mode=0o700)
        async with open_server(box.socket_path) as counters:
            run = await anyio.to_thread.run_sync(box.run, b"x" * (MAX_STDIN_BYTES + 1))
        assert (run.code, run.stdout, box.spooled()) == (12, b"", [])
        assert counters == HookServerCounters(calls=1, oversized=1)


async def test_the_real_hook_spools_when_the_server_is_busy(path: Path) -> None:
    with short_directory() as base:
        box = HookBox(base, command=PATIENT_COMMAND)
        box.runtime.mkdir(mode=0o700)
        async with open_server(box.socket_path, limits=HookServerLimits(at_once=0)) as counters:
            run = await anyio.to_thread.run_sync(box.run, b"x" * 200_000)
        assert (run.code, run.stdout, len(box.spooled(1))) == (0, b"", 1)
        assert counters == HookServerCounters(busy=1)


async def test_the_real_hook_is_answered_before_it_gives_up_on_a_slow_handler(path: Path) -> None:
    with short_directory() as base:
        box = HookBox(base)
        box.runtime.mkdir(mode=0o700)
        release = anyio.Event()
        async with open_server(box.socket_path, waiting_for(release, []), HookServerLimits(answer_s=0.05)) as counters:
            run = await anyio.to_thread.run_sync(box.answered)
            release.set()
        assert (run.code, run.stdout, box.spooled()) == (0, b"", [])
        assert counters.late == counters.calls >= 1


def test_the_kernel_says_who_the_peer_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()
        assert is_same_user(ours)


def test_a_peer_that_the_kernel_does_not_know_has_no_user() -> None:
    with socket.socket(socket.AF_INET) as stranger:
        stranger.close()
        assert peer_uid(stranger) is None
        assert not is_same_user(stranger)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_peer_of_another_user_is_refused() -> None:
    knock = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "print(s.recv(100))"
    )
    with short_directory() as base:
        base.chmod(0o755)
        path = base / "hook.sock"
        async with open_server(path) as counters:
            path.chmod(0o666)
            command = [sys.executable, "-I", "-c", knock, str(path)]
            run = await anyio.to_thread.run_sync(
                lambda: subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S)
            )
            assert (await ask(path, a_call())).stdout == b"{}"
    assert run.stdout == b"b''\n", run.stderr
    assert counters == HookServerCounters(calls=1, refused=1)


def test_the_kernel_says_which_process_the_peer_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_pid(ours) == (os.getpid() if sys.platform == "linux" else None)
    with socket.socket(socket.AF_INET) as stranger:
        stranger.close()
        assert peer_pid(stranger) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the peer's process")
async def test_the_process_behind_a_call_is_asked_for_while_its_hook_waits() -> None:
    calls, asked = list[HookCall](), list[tuple[int, int | None]]()
    found = CallerProcess(pid=7, started="then")

    async def handle(call: HookCall) -> HookAnswer:
        calls.append(call)
        return HookAnswer()

    def caller_of(claimed: int, peer: int | None) -> CallerProcess:
        asked.append((claimed, peer))
        return found

    with short_directory() as base:
        box = HookBox(base, command=PATIENT_COMMAND)
        box.runtime.mkdir(mode=0o700)
        async with open_server(box.socket_path, handle, caller_of=caller_of):
            await anyio.to_thread.run_sync(box.run)
            await ask(box.socket_path, a_call())  # a hook of before, which names no process
            # What was spooled is brought by somebody else, and the number may be another process's by now.
            await ask(box.socket_path, a_call(process=CallerProcess(pid=8, started=""), spooled_at_epoch_s=7))
    (claimed, peer) = asked[0]
    assert len(asked) == 1
    assert claimed == os.getpid()
    assert peer not in {None, os.getpid()}
    assert [call.process for call in calls] == [found, None, None]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a closed end from a finished one")
async def test_a_call_whose_hook_has_gone_counts_as_spooled(path: Path) -> None:
    seen: list[HookCall] = []

    async def handle(call: HookCall) -> HookAnswer:
        seen.append(call)
        return HookAnswer(stdout=b"for nobody")

    async with open_server(path, handle) as counters:
        with socket.socket(socket.AF_UNIX) as hook:
            hook.connect(str(path))
            hook.sendall(encode_call(a_call(call_id="left")))
        await until(lambda: len(seen) == 1)
        assert await talk(path, encode_call(a_call(call_id="waits")), finish=True) == b"0 10\nfor nobody"
    assert [(call.call_id, call.spooled_at_epoch_s is not None) for call in seen] == [("left", True), ("waits", False)]
    assert (counters.calls, counters.gone) == (2, 1)
