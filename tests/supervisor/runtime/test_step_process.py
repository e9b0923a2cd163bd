"""The process of a step: every way of ending and of not starting has one outcome, and nothing is left behind."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_contract.flows import OutcomeKind, ProcessLimits
from lifebus_supervisor.runtime import step_process
from lifebus_supervisor.runtime.step_process import StepCommand, StepEnd, run_step, wait_for_earlier
from lifebus_transports.processes.shim_child import ShimChild
from lifebus_transports.processes.shim_pool import SHIMS
from lifebus_transports.shims.messages import ShimCommand
from support.leftovers import MARK, marked
from support.patience import PATIENCE_S, SOON_S
from support.supervisor.steps import OWNER, brief, python_step, run, sh_step, step
from support.transports.children import nothing_left, until

EXITED, SIGNALLED = OutcomeKind.EXITED, OutcomeKind.SIGNALLED
CANNOT_START = OutcomeKind.CANNOT_START
ESCAPE = """
middle = os.fork()
if middle == 0:
    os.setsid()
    if os.fork() == 0:
        {first}
        open(READY, "w").close()
        time.sleep(600)
    os._exit(0)
os.waitpid(middle, 0)
while not os.path.exists(READY):
    time.sleep(0.002)
"""
"""A grandchild that has left the session and the group of its step, and whose parent has ended."""


@pytest.fixture(autouse=True)
async def _clean() -> AsyncIterator[None]:
    async with nothing_left():
        yield


@pytest.mark.parametrize("code", [0, 1, 2, 3, 64, 78, 79, 126, 127, 128, 255])
async def test_an_exit_code_is_what_the_program_ended_with(tmp_path: Path, code: int) -> None:
    assert brief(await run(sh_step(tmp_path, f"exit {code}"))) == (EXITED, code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE])
async def test_a_signal_that_is_not_ours_is_named_directly_and_behind_a_shell(tmp_path: Path, number: int) -> None:
    killed = await run(sh_step(tmp_path, f"kill -{number} $$"))
    behind = await run(sh_step(tmp_path, f"exit {128 + number}"))
    assert brief(killed) == (SIGNALLED, None, number)
    assert brief(behind) == (SIGNALLED, 128 + number, number)
    assert killed.outcome.detail == behind.outcome.detail == signal.Signals(number).name


def a_file(folder: Path, name: str, text: str, mode: int) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


NOT_STARTING: dict[str, tuple[Callable[[Path], StepCommand], int | None, str]] = {
    "no such program": (lambda at: step(at, "/no/such/program"), 127, "`/no/such/program`"),
    "no such name": (lambda at: step(at, "no-such-program"), 127, "`no-such-program`"),
    "no interpreter": (lambda at: step(at, a_file(at, "x", "#!/no/such\n", 0o755)), 127, "interpreter"),
    "may not be run": (lambda at: step(at, a_file(at, "x", "#!/bin/sh\n", 0o644)), 126, "Permission denied"),
    "a directory": (lambda at: step(at, str(at)), 126, "Permission denied"),
    "no first line": (lambda at: step(at, a_file(at, "x", "true\n", 0o755)), 126, "first line"),
    "NUL in an argument": (lambda at: step(at, "/bin/true", "a\0b"), 126, "NUL"),
    "no such directory": (lambda at: step(at, "/bin/true", cwd=f"{at}/none"), None, "working directory"),
    "a file as directory": (lambda at: step(at, "/bin/true", cwd=a_file(at, "x", "", 0o644)), None, "Not a directory"),
    "nowhere to write": (lambda at: step(at, "/bin/true", output=at / "none/step"), None, "output"),
    "arguments too long": (lambda at: step(at, "/bin/true", "x" * 200_000), 126, "Argument list too long"),
}


@pytest.mark.parametrize("name", NOT_STARTING)
async def test_what_cannot_start_says_why_and_the_next_one_starts(tmp_path: Path, name: str) -> None:
    command, code, said = NOT_STARTING[name]
    end = await run(command(tmp_path))
    assert brief(end) == (CANNOT_START, code, None)
    assert said in end.outcome.detail
    assert end.process is None
    assert brief(await run(sh_step(tmp_path, "exit 0"))) == (EXITED, 0, None)


async def test_a_program_is_looked_for_on_the_path_of_its_own_environment(tmp_path: Path) -> None:
    a_file(tmp_path, "mine", "#!/bin/sh\nexit 9\n", 0o755)
    assert brief(await run(step(tmp_path, "mine", environment={"PATH": str(tmp_path)}))) == (EXITED, 9, None)
    assert brief(await run(step(tmp_path, "./mine"))) == (EXITED, 9, None)


async def test_a_program_begins_as_from_a_login_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "tok_SECRET")
    look = (
        "print(sorted(os.environ), os.getcwd(), os.getsid(0) == os.getpid() == os.getpgid(0), sys.stdin.read() == '')\n"
        "held = [line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))]\n"
        "print([hex(int(line.split()[1], 16) & ~(3 << 31)) for line in held])\n"
        "print(sorted(os.listdir('/proc/self/fd')))\n"
    )
    command = python_step(tmp_path, look, environment={"A": "1", "LC_ALL": "C.UTF-8"})
    assert brief(await run(command)) == (EXITED, 0, None)
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25), and 32 and 33 are the C library's own.
    ignored = hex(1 << 12 | 1 << 24)
    assert (tmp_path / "step.1.out").read_text().splitlines() == [
        f"{sorted(['A', 'LC_ALL', MARK, 'PATH'])} {tmp_path} True True",
        f"['0x0', '{ignored}']",
        "['0', '1', '2', '3']",  # the last one is that of the listing
    ]


async def test_a_time_limit_ends_it_after_its_grace_and_is_no_signal_of_its_own(tmp_path: Path) -> None:
    gentle = await timed_out(tmp_path, "trap 'exit 5' TERM; echo >ready; sleep 60 & wait")
    deaf = await timed_out(tmp_path, "trap '' TERM; echo >ready; while :; do sleep 60; done", grace_ms=150)
    stopped = await timed_out(tmp_path, "echo >ready; kill -STOP $$")
    # No code and no signal: no rule for codes may take what a program does when it is told to end for its verdict.
    assert {brief(end) for end in (gentle, deaf, stopped)} == {(OutcomeKind.TIMED_OUT, None, None)}
    ways = ("exit code 5", "SIGKILL", "SIGTERM")
    assert all(end.outcome.detail.endswith(way) for end, way in zip((gentle, deaf, stopped), ways, strict=True))
    assert 2 * LIMIT_MS <= deaf.duration_ms < SOON_S * 1_000


LIMIT_MS = 150


async def timed_out(folder: Path, script: str, **options: Any) -> StepEnd:
    """Run a script to its time limit; again with a longer one where it was not `ready` by then."""
    ready, limit_ms = folder / "ready", LIMIT_MS
    end = await run(sh_step(folder, script, time_limit_ms=limit_ms, **options))
    while not ready.exists() and limit_ms < SOON_S * 1_000:
        limit_ms *= 2
        end = await run(sh_step(folder, script, time_limit_ms=limit_ms, **options))
    ready.unlink()
    return end


async def test_the_grace_is_that_of_the_whole_group(tmp_path: Path) -> None:
    slow = "(trap 'sleep 1.5; echo clean >done; exit' TERM; echo >ready; while :; do sleep 0.01; done) & wait"
    cancelled = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(set_when, cancelled, tmp_path / "ready")
        end = await run(sh_step(tmp_path, slow, grace_ms=20_000), cancelled=cancelled)
    assert (end.outcome.kind, end.left) == (OutcomeKind.ABORTED, 0)
    assert end.duration_ms >= 1_500  # what cleans up is not asked to end itself
    assert (tmp_path / "done").read_text() == "clean\n"


async def set_when(event: anyio.Event, path: Path) -> None:
    await until(path.exists)
    event.set()


async def test_a_step_that_is_aborted_says_so_and_one_that_was_faster_what_it_did(tmp_path: Path) -> None:
    before = anyio.Event()
    before.set()
    assert (await run(sh_step(tmp_path, "sleep 60"), cancelled=before)).outcome.kind is OutcomeKind.ABORTED
    cancelled = anyio.Event()
    end = await run(sh_step(tmp_path, "exit 7"), cancelled=cancelled)
    cancelled.set()
    assert brief(end) == (EXITED, 7, None)


async def test_a_caller_that_is_cancelled_takes_its_step_along(tmp_path: Path) -> None:
    with anyio.move_on_after(0.1) as scope:
        await run(sh_step(tmp_path, "trap '' TERM; sleep 60 & sleep 60", grace_ms=600_000))
    assert scope.cancelled_caught


async def test_what_a_step_leaves_running_in_its_group_is_ended_and_counted(tmp_path: Path) -> None:
    end = await run(sh_step(tmp_path, "sleep 60 & sleep 60 </dev/null >/dev/null 2>&1 & exit 0"))
    assert brief(end) == (EXITED, 0, None)
    assert end.left == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what has left the group")
@pytest.mark.parametrize("first", ["pass", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"], ids=["gentle", "deaf"])
async def test_what_has_left_the_session_and_forgotten_its_environment_is_ended_too(tmp_path: Path, first: str) -> None:
    ready = tmp_path / "ready"
    script = f"READY = {str(ready)!r}\n{ESCAPE.format(first=first)}"
    end = await run(python_step(tmp_path, script, environment={}))
    assert (brief(end), end.left) == ((EXITED, 0, None), 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what has left the group")
async def test_a_killed_owner_leaves_nothing_and_whoever_follows_can_wait_for_that(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    script = f"READY = {str(ready)!r}\n{deaf}\n{ESCAPE.format(first=deaf)}time.sleep(600)\n"
    source = str(Path(__file__).parents[2])
    words = [sys.executable, "-c", OWNER, str(tmp_path), script]
    owner = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": source}, start_new_session=True)  # noqa: ASYNC220
    await until(ready.exists)
    mark = os.environ[MARK]
    # Looked at before: on a slow machine all of it may be over when the end of its owner is known.
    assert set(marked(mark)) > {str(owner.pid)}
    owner.kill()
    owner.wait()
    with anyio.fail_after(PATIENCE_S):
        await wait_for_earlier(tmp_path / "step.1")
    assert marked(mark) == []


async def test_nobody_waits_for_a_step_that_never_began_or_has_ended(tmp_path: Path) -> None:
    await wait_for_earlier(tmp_path / "step.1")
    await run(sh_step(tmp_path, "true"))
    await wait_for_earlier(tmp_path / "step.1")


async def test_two_steps_never_write_to_the_same_files(tmp_path: Path) -> None:
    cancelled = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_first, sh_step(tmp_path, "echo first; sleep 60"), cancelled)
        out = tmp_path / "step.1.out"
        await until(lambda: out.exists() and out.read_text() == "first\n")
        second = await run(sh_step(tmp_path, "echo second"))
        assert out.read_text() == "first\n"
        cancelled.set()
    assert brief(second) == (CANNOT_START, None, None)
    assert "still runs" in second.outcome.detail


async def run_first(command: StepCommand, cancelled: anyio.Event) -> None:
    await run_step(command, cancelled=cancelled)


async def test_a_killed_shim_interrupts_its_step_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = tmp_path / "parent"
    begun: list[anyio.Event] = []

    def start(command: ShimCommand) -> ShimChild:
        child = ShimChild(command)
        begun.append(child.begun)
        return child

    monkeypatch.setattr(step_process, "ShimChild", start)
    async with anyio.create_task_group() as tasks:

        async def kill() -> None:
            await until(lambda: parent.exists() and parent.read_text().endswith("\n"))
            await begun[0].wait()  # a step may run, and say so, before its shim does
            os.kill(int(parent.read_text()), signal.SIGKILL)

        tasks.start_soon(kill)
        end = await run(sh_step(tmp_path, "trap '' TERM; sleep 600 & echo $PPID >parent; sleep 600"))
    assert end.outcome.kind is OutcomeKind.INTERRUPTED
    assert end.process is not None


async def test_the_output_is_bounded_counted_and_its_end_redacted(tmp_path: Path) -> None:
    flood = (
        "sys.stdout.write('head ' + 'x' * 3_000_000 + ' last')\n"
        "sys.stderr.write('y' * 100_000 + ' password=hunter2 tok_SECRET it failed')\n"
    )
    limits = ProcessLimits(output_kb=16)
    end = await run(python_step(tmp_path, flood, limits=limits, environment={"MY_TOKEN": "tok_SECRET"}))
    assert (end.stdout_bytes, end.stderr_bytes) == (3_000_010, 100_038)
    out = (tmp_path / "step.1.out").read_bytes()
    assert out.startswith(b"head xxx")
    assert out.endswith(b"xxx last")
    assert len(out) < 2 * 16_384 + 64
    assert end.tail == "password=[redacted] [redacted] it failed"
    assert (tmp_path / "step.1.out").stat().st_mode & 0o777 == 0o600


async def test_what_a_step_writes_can_be_read_while_it_runs(tmp_path: Path) -> None:
    cancelled = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_first, sh_step(tmp_path, "echo so far; sleep 60"), cancelled)
        out = tmp_path / "step.1.out"
        await until(lambda: out.exists() and out.read_text() == "so far\n")
        cancelled.set()


LIMITED = {
    "processor time": (
        ProcessLimits(cpu_s=30),
        "import resource\nsys.exit(resource.getrlimit(resource.RLIMIT_CPU) == (30, 35))",
        (EXITED, 1, None),
    ),
    "file size": (
        ProcessLimits(file_mb=1),
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nopen('big', 'wb').write(b'x' * 2_000_000)",
        (SIGNALLED, None, signal.SIGXFSZ),
    ),
    "memory": (
        ProcessLimits(memory_mb=256),
        "try: bytes(512 * 1024 * 1024)\nexcept MemoryError: sys.exit(9)",
        (EXITED, 9, None),
    ),
    "open files": (
        ProcessLimits(open_files=16),
        "try: files = [open('/dev/null') for _ in range(20)]\nexcept OSError as fault: sys.exit(fault.errno)",
        (EXITED, 24, None),
    ),
    "processes": (
        ProcessLimits(processes=77),
        "import resource\nsys.exit(resource.getrlimit(resource.RLIMIT_NPROC)[0])",
        (EXITED, 77, None),
    ),
}


@pytest.mark.parametrize("name", LIMITED)
async def test_limits_of_the_system_hold_for_the_step_and_for_nobody_else(tmp_path: Path, name: str) -> None:
    SHIMS.close()  # those of other tests have the limits that were there when they were started
    limits, script, expected = LIMITED[name]
    assert brief(await run(python_step(tmp_path, script, limits=limits))) == expected
    unlimited = "import resource\nprint([resource.getrlimit(n) for n in range(16)])"
    await run(python_step(tmp_path, unlimited))
    mine = [resource.getrlimit(number) for number in range(16)]
    assert (tmp_path / "step.1.out").read_text() == f"{mine}\n"
