"""One fresh child a run: whatever it does, there is a verdict in time and nothing is left."""

import os
import time

import anyio
import pytest

from lifebus_transports.processes.once import Commands
from lifebus_transports.processes.outcomes import Failure, evidence_of
from lifebus_transports.processes.spec import CommandSpec, environment_of
from support.patience import PATIENCE_S, SOON_S
from support.transports.children import ANSWER, LARGE, SMALL, commands, nothing_left, python, sh, until

READ = "sys.stdin.buffer.read()\n"
ENDINGS = {
    "sh answers": (sh("cat >/dev/null; echo ANSWER"), None),
    "python answers": (python(READ + "print(ANSWER)"), None),
    "writes before it reads": (sh("echo ANSWER; cat >/dev/null"), None),
    "closes its output early": (python("os.write(1, ANSWER.encode()); os.close(1)\n" + READ), None),
    "is not there": (CommandSpec(argv=("/no/such/program",)), Failure.SPAWN),
    "may not be run": (CommandSpec(argv=("/etc/passwd",)), Failure.SPAWN),
    "has a directory that is not there": (sh("true", cwd="/no/such/directory"), Failure.SPAWN),
    "has a NUL in an argument": (CommandSpec(argv=("/bin/true", "a\0b")), Failure.SPAWN),
    "ignores stdin": (sh("echo ANSWER"), Failure.STDIN_IGNORED),
    "closes stdin": (sh("exec 0<&-; echo ANSWER"), Failure.STDIN_IGNORED),
    "ends at once": (sh("true"), Failure.STDIN_IGNORED),
    "fails": (sh("cat >/dev/null; exit 3"), Failure.EXIT_CODE),
    "answers and fails": (sh("cat >/dev/null; echo ANSWER; exit 3"), Failure.EXIT_CODE),
    "fails without reading": (sh("exit 3"), Failure.EXIT_CODE),
    "raises": (python(READ + "raise RuntimeError('boom')"), Failure.EXIT_CODE),
    "kills itself": (python(READ + "os.kill(os.getpid(), signal.SIGKILL)"), Failure.KILLED),
    "answers and kills itself": (sh("cat >/dev/null; echo ANSWER; kill -9 $$"), Failure.KILLED),
    "aborts": (python(READ + "os.abort()"), Failure.KILLED),
    "floods stdout": (python(READ + "while True: os.write(1, b'x' * 65536)"), Failure.TOO_LARGE),
    "floods stdout without reading": (sh("yes"), Failure.TOO_LARGE),
    "floods stdout and ignores the end": (sh("trap '' TERM; yes"), Failure.TOO_LARGE),
}


@pytest.mark.parametrize("stdin", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", ENDINGS)
async def test_every_ending_has_one_verdict_whatever_the_size_of_the_question(name: str, stdin: bytes) -> None:
    spec, failure = ENDINGS[name]
    async with commands() as runner:
        finished = await runner.run_once(spec, stdin, PATIENCE_S)
    assert finished.failure is failure, finished
    if failure is None:
        assert finished.stdout.strip() == ANSWER.encode()


async def test_how_a_run_ended_is_evidence() -> None:
    async with commands() as runner:
        killed = await runner.run_once(sh("kill -9 $$"), SMALL, PATIENCE_S)
        failed = await runner.run_once(sh("echo no >&2; exit 3"), SMALL, PATIENCE_S)
    assert evidence_of(killed) == {"signal": "SIGKILL"}
    assert evidence_of(failed) == {"exit_code": 3, "stderr": "no"}


LINGERING = {
    "hangs": (sh("cat >/dev/null; sleep 60"), SMALL),
    "hangs without reading": (sh("sleep 60"), LARGE),
    "answers and stays": (sh("cat >/dev/null; echo ANSWER; sleep 60"), SMALL),
    "ignores SIGTERM": (sh("trap '' TERM HUP INT; cat >/dev/null; while :; do sleep 60; done"), SMALL),
    "stops itself": (sh("kill -STOP $$"), SMALL),
    "floods stderr": (python(READ + "while True: os.write(2, b'no ' * 20000)"), SMALL),
    "trickles": (sh("while :; do echo; sleep 0.01; done"), LARGE),
}


@pytest.mark.parametrize("name", LINGERING)
async def test_a_child_that_does_not_end_costs_its_deadline_and_not_more(name: str) -> None:
    spec, stdin = LINGERING[name]
    async with commands() as runner:
        started = time.monotonic()
        finished = await runner.run_once(spec, stdin, 0.2)
        assert time.monotonic() - started < SOON_S  # the child itself takes a minute, or for ever
        assert finished.failure is Failure.DEADLINE
        assert runner.running == 1


async def test_a_caller_that_is_cancelled_takes_its_child_along() -> None:
    async with commands() as runner:
        with anyio.move_on_after(0.05) as scope:
            await runner.run_once(sh("sleep 60"), SMALL, 60)
        assert scope.cancelled_caught


async def test_a_caller_that_leaves_before_the_start_starts_nothing() -> None:
    async with commands() as runner:
        run = runner.start(sh("echo started >&2; sleep 60"), SMALL)
        run.abandon()
        await anyio.lowlevel.checkpoint()
        assert run.finished().failure is Failure.DEADLINE


async def test_the_end_of_the_owner_is_the_end_of_its_children() -> None:
    async with nothing_left():
        started = time.monotonic()
        async with anyio.create_task_group() as tasks:
            run = Commands(tasks).start(sh("trap '' TERM; sleep 60 & sleep 60"), SMALL)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert run.done.is_set()
        assert time.monotonic() - started < SOON_S  # the children themselves take a minute


@pytest.mark.parametrize(
    "script", ["cat >/dev/null; echo ANSWER; sleep 60 &", "cat >/dev/null; echo ANSWER; sleep 60 2>/dev/null &"]
)
async def test_a_grandchild_that_holds_the_pipe_is_ended_and_the_answer_counts(script: str) -> None:
    async with commands() as runner:
        finished = await runner.run_once(sh(script), SMALL, PATIENCE_S)
    assert (finished.failure, finished.exit_code, finished.pipe_held) == (None, 0, True)
    assert finished.stdout.strip() == ANSWER.encode()


async def test_a_grandchild_that_holds_nothing_is_ended_all_the_same() -> None:
    script = READ + (  # when `Popen` has returned, the grandchild has let go of the outputs; with `&` it may not have
        "from subprocess import DEVNULL, Popen\n"
        "Popen(['sleep', '60'], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)\n"
        "print(ANSWER)"
    )
    async with commands() as runner:
        finished = await runner.run_once(python(script), SMALL, PATIENCE_S)
    assert (finished.failure, finished.pipe_held) == (None, False)


async def test_a_grandchild_outside_the_group_holds_nobody_up() -> None:
    escape = READ + (
        "print(ANSWER, flush=True)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    signal.alarm(1)\n"  # nobody else ends it
        "    signal.pause()\n"
    )
    async with commands() as runner:
        finished = await runner.run_once(python(escape), SMALL, PATIENCE_S)
    assert (finished.failure, finished.pipe_held) == (None, True)


@pytest.mark.parametrize("size", [0, 262_000, 262_145, 262_146])
async def test_an_output_may_be_as_large_as_a_message(size: int) -> None:
    async with commands() as runner:
        finished = await runner.run_once(python(READ + f"sys.stdout.write('x' * {size})"), SMALL, PATIENCE_S)
    assert finished.failure is (Failure.TOO_LARGE if size > 262_145 else None)


async def test_what_a_child_wrote_to_stderr_is_kept_to_the_end_whatever_came_of_it() -> None:
    async with commands() as runner:
        good = await runner.run_once(sh("cat >/dev/null; echo fine >&2; echo ANSWER"), SMALL, PATIENCE_S)
        bad = await runner.run_once(sh("echo 'what is\nwrong' >&2; exit 7"), SMALL, PATIENCE_S)
        run = runner.start(sh("echo waiting >&2; sleep 60"), SMALL)
        await until(lambda: run.finished().stderr == "waiting")
        run.abandon()
        late = run.finished()
        loud = await runner.run_once(
            python(READ + "print('a ' * 500000 + 'the end', file=sys.stderr)"), SMALL, PATIENCE_S
        )
    assert (good.stderr, bad.stderr, late.stderr) == ("fine", "what is wrong", "waiting")
    assert (bad.exit_code, late.exit_code, late.failure) == (7, None, Failure.DEADLINE)
    assert loud.stderr.endswith(" a the end")
    assert len(loud.stderr) == 500


async def test_a_child_gets_what_is_allowed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "tok_SECRET")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("EXTRA_ONE", "1")
    spec = python(READ + "print(sorted(os.environ))", passing=("EXTRA_*",), setting={"LIFEBUS_RUNTIME_DIR": "/run"})
    async with commands() as runner:
        finished = await runner.run_once(spec, SMALL, PATIENCE_S)
    names = set(eval(finished.stdout))
    assert {"PATH", "LC_TIME", "EXTRA_ONE", "LIFEBUS_RUNTIME_DIR"} <= names
    assert not {"MY_TOKEN", "PYTEST_CURRENT_TEST", "PYTHONPATH"} & names
    assert environment_of(spec, {"A": "1", "PATH": "/bin"}) == {"PATH": "/bin", "LIFEBUS_RUNTIME_DIR": "/run"}


async def test_a_child_has_a_group_of_its_own_and_three_descriptors() -> None:
    script = READ + "print(os.getpgrp() == os.getsid(0) == os.getpid(), len(os.listdir('/proc/self/fd')))"
    async with commands() as runner:
        finished = await runner.run_once(python(script), SMALL, PATIENCE_S)
    assert finished.stdout == b"True 4\n"  # the fourth is the listing itself


async def test_without_descriptors_of_processes_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    async with commands() as runner:
        good = await runner.run_once(sh("cat >/dev/null; echo ANSWER; sleep 60 &"), SMALL, PATIENCE_S)
        late = await runner.run_once(sh("trap '' TERM; sleep 60"), SMALL, 0.1)
    assert (good.failure, good.pipe_held, late.failure) == (None, True, Failure.DEADLINE)


async def test_many_children_at_once_leave_nothing() -> None:
    scripts = ["cat >/dev/null; echo ANSWER", "exit 1", "sleep 60", "echo ANSWER"]
    found: list[Failure | None] = []
    async with commands() as runner, anyio.create_task_group() as tasks:

        async def run(script: str) -> None:
            seconds = 1 if "sleep" in script else PATIENCE_S
            found.append((await runner.run_once(sh(script), LARGE, seconds)).failure)

        for number in range(40):
            tasks.start_soon(run, scripts[number % 4])
    assert sorted(map(str, found)) == sorted(
        map(str, 10 * [None, Failure.EXIT_CODE, Failure.DEADLINE, Failure.STDIN_IGNORED])
    )
