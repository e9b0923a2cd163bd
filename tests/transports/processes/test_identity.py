"""Processes by id and start time: found behind shells, never a stranger's, and dead once they are gone or defunct."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from lifebus_adapters.adapter import CallerProcess
from lifebus_transports.processes import identity as processes
from lifebus_transports.processes.identity import caller_of, harness_of, identify, is_alive, late_caller_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these files")
NOBODY = 4_194_305
"""More than the largest process id that Linux gives."""


@contextmanager
def running(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command that prints one line when it is there and ends when its stdin does."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_a_process_is_its_id_and_its_start() -> None:
    here = identify(os.getpid())
    assert here is not None
    assert here == identify(os.getpid())
    assert is_alive(here)
    assert not is_alive(structs.replace(here, started=here.started + "0"))


@pytest.mark.parametrize("pid", [NOBODY, 0, -1])
def test_an_id_that_nobody_has_is_no_process(pid: int) -> None:
    assert identify(pid) is None
    assert harness_of(pid) is None
    assert not is_alive(CallerProcess(pid=pid, started="x"))


def test_a_process_that_has_ended_is_dead_before_its_parent_looks_and_after() -> None:
    with running("cat") as process:
        known = identify(process.pid)
        assert known is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays defunct
        assert identify(process.pid) is None
        assert not is_alive(known)
    assert not is_alive(known)


def test_shells_between_harness_and_hook_are_climbed_over() -> None:
    command = "echo $$; cat; true"
    for _ in range(2):
        command = f"sh -c {shlex.quote(command)}; true"
    with running("sh", "-c", command) as process:
        innermost = first_line(process)
        assert innermost != process.pid
        assert harness_of(innermost) == identify(os.getpid())


def test_too_many_shells_hide_the_harness() -> None:
    tree = {pid: ("sh", "S", pid - 1, "7") for pid in range(2, 20)} | {13: ("codex", "S", 12, "7")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_stat", lambda pid: processes._Stat(*tree[pid]) if pid in tree else None)
        assert harness_of(18) == identify(13)
        assert harness_of(19) is None
        assert harness_of(4) is None, "the first of all processes is nobody's harness"


def test_a_caller_speaks_for_itself_and_its_ancestors_only() -> None:
    me = identify(os.getpid())
    with running("cat") as child, running("cat") as other:
        assert caller_of(os.getpid(), child.pid) == me
        assert caller_of(child.pid, child.pid) == identify(child.pid)
        assert caller_of(other.pid, child.pid) is None
        assert caller_of(child.pid, os.getpid()) is None, "a child does not make its parent"


@pytest.mark.parametrize(
    ("claimed", "peer"),
    [(0, 7), (1, os.getpid()), (os.getpid(), None), (NOBODY, os.getpid())],
    ids=["zero", "somebody else", "no peer", "nobody"],
)
def test_a_claim_that_proves_nothing_is_nobody(claimed: int, peer: int | None) -> None:
    assert caller_of(claimed, peer) is None


def test_who_made_a_late_call_is_the_process_with_its_id_if_that_ran_already() -> None:
    now = int(time.time())
    assert late_caller_of(os.getpid(), now + 1) == identify(os.getpid())
    with running("cat") as process:
        assert late_caller_of(process.pid, now + 1) == identify(process.pid)
        taken_over = late_caller_of(process.pid, now - 60)
        assert taken_over is not None
        assert taken_over != identify(process.pid)
        assert not is_alive(taken_over)


def test_who_made_a_late_call_and_has_ended_is_one_that_never_lives_again() -> None:
    with running("cat") as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        defunct = late_caller_of(process.pid, int(time.time()))
    gone = late_caller_of(process.pid, int(time.time()))
    assert gone is not None
    assert gone == defunct, "two calls of one process name the same one"
    assert gone.pid == process.pid
    assert not is_alive(gone)


def test_a_late_call_through_a_shell_is_its_harness() -> None:
    with running("sh", "-c", "echo $$; cat; true") as process:
        assert late_caller_of(first_line(process), int(time.time()) + 1) == identify(os.getpid())


@pytest.mark.parametrize("claimed", [0, 1])
def test_a_late_call_that_claims_no_process_has_none(claimed: int) -> None:
    assert late_caller_of(claimed, int(time.time())) is None


@pytest.mark.parametrize("name", ["a b", "x) S 1 (y", ")", "((", ""])
def test_any_name_may_stand_in_parentheses(name: str) -> None:
    stat = processes._parse(f"42 ({name}) S 7 " + " ".join(str(number) for number in range(5, 53)))
    assert stat is not None
    assert (stat.name, stat.state, stat.parent, stat.started) == (name, "S", 7, "22")


@pytest.mark.parametrize("text", ["", "42", "42 (a", "42 (a) S 1 2 3"])
def test_half_a_line_is_nothing(text: str) -> None:
    assert processes._parse(text) is None


def test_without_such_files_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PROC", str(tmp_path))
    assert identify(os.getpid()) is None
    assert harness_of(os.getpid()) is None
    assert caller_of(os.getpid(), os.getpid()) is None
    processes._boot_id.cache_clear()
    try:
        assert late_caller_of(os.getpid(), int(time.time())) is None
    finally:
        processes._boot_id.cache_clear()


def test_a_system_that_does_not_answer_proves_no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    here = identify(os.getpid())
    assert here is not None

    def refuse(_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(processes, "_stat", refuse)
    assert is_alive(here)
    assert identify(os.getpid()) is None
    assert late_caller_of(os.getpid(), int(time.time())) is None
