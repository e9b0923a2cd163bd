"""The spool of the hook, and the directories in which it looks: what is kept, counted, refused and waited for."""

import os
import resource
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest

from lifebus_transports.directories import default_runtime_dir, default_state_dir
from support.clients.hook_box import (
    COMMAND,
    PATIENT_COMMAND,
    HookBox,
    assert_silent,
    locked_by_another,
    receive_call,
)
from support.clients.proxy_box import eventually
from support.patience import PATIENCE_S
from support.running import short_directory

WAITING = Path("/proc/locks")


def test_a_spool_that_cannot_be_made_is_forgiven(box: HookBox) -> None:
    (box.base / "state").write_text("a file in the way")
    assert_silent(box.run())


def test_a_spool_that_others_may_enter_is_not_written(box: HookBox) -> None:
    box.spool.mkdir(parents=True)
    box.spool.chmod(0o755)
    assert_silent(box.run())
    assert list(box.spool.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_a_spool_file_that_is_no_file_is_not_followed(box: HookBox, kind: str) -> None:
    box.spool.mkdir(parents=True, mode=0o700)
    box.spool.chmod(0o700)
    target = box.base / "target"
    calls = box.spool / "calls"
    match kind:
        case "link":
            target.write_text("precious")
            calls.symlink_to(target)
        case "fifo":
            os.mkfifo(calls)
        case _:
            calls.mkdir()
    assert_silent(box.run())
    assert not target.exists() or target.read_text() == "precious"


def test_a_full_spool_drops_calls_and_counts_them(box: HookBox) -> None:
    box.spool.mkdir(parents=True, mode=0o700)
    for name, size in (("calls.claimed", 10 * 1_048_576), ("calls", 6 * 1_048_576 - 300)):
        with (box.spool / name).open("wb") as file:
            file.truncate(size)
    box.run(b"")
    for _ in range(2):
        assert_silent(box.run(b"x" * 300))
    eventually(lambda: lost_calls(box).get("dropped.codex", (0, 0))[0] == 2)
    assert (box.spool / "calls").stat().st_size <= 6 * 1_048_576


def lost_calls(box: HookBox) -> dict[str, tuple[int, int]]:
    """The files that count lost calls, with size and blocks: a hook on a slow machine counts behind its end."""
    found = {path.name: path.stat() for path in box.spool.glob("dropped*")}
    return {name: (one.st_size, one.st_blocks) for name, one in found.items()}


def test_a_call_that_the_disk_has_no_room_for_is_counted_without_room(box: HookBox) -> None:
    assert_silent(box.run(b"{}", "codex", "Kept"))
    assert len(box.spooled(1)) == 1
    size = (box.spool / "calls").stat().st_size
    # As on a full disk: from here on no write makes the file longer, not by one byte.
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    for adapter in ("codex", "codex", "../odd"):
        assert_silent(box.run(b"{}", adapter, "Lost", preexec_fn=limit))
    eventually(lambda: lost_calls(box) == {"dropped.codex": (2, 0), "dropped": (1, 0)})
    assert [call.hook for call in box.spooled(1)] == ["Kept"]


def test_an_oversized_payload_is_remembered_by_its_size(box: HookBox) -> None:
    assert_silent(box.run(b"x" * 1_048_577))
    assert len(box.spooled(1)) == 1
    assert (box.spool / "calls").stat().st_size < 1000
    assert b'"oversized":1048577' in (box.spool / "calls").read_bytes()


def test_the_largest_payload_is_spooled_whole(box: HookBox) -> None:
    payload = os.urandom(1_048_576)
    assert_silent(box.run(payload))
    assert [call.stdin for call in box.spooled(1)] == [payload]


def test_twenty_hooks_at_once_spool_whole_records(box: HookBox) -> None:
    for hook in box.start_many(20, b"y" * 100_000):
        assert hook.communicate(timeout=PATIENCE_S) == (b"", b"")
    eventually(lambda: len(box.spooled()) == 20)  # one for which the machine is too slow goes on without its harness
    calls = box.spooled()
    assert {call.hook for call in calls} == {f"Hook{number}" for number in range(20)}
    assert len({call.call_id for call in calls}) == 20


def test_a_hook_without_a_home_takes_the_account_s_own(tmp_path: Path) -> None:
    env = {"LIFEBUS_STATE_DIR": str(tmp_path / "state")}
    subprocess.run([*COMMAND, "codex"], env=env, input=b"{}", check=True, timeout=PATIENCE_S)
    eventually((tmp_path / "state" / "spool" / "calls").is_file)


@pytest.mark.skipif(not WAITING.exists(), reason="only Linux shows who waits for a lock")
def test_a_hook_that_waited_for_a_claimed_file_writes_to_a_new_one(box: HookBox) -> None:
    box.spool.mkdir(parents=True, mode=0o700)
    calls, claimed = box.spool / "calls", box.spool / "calls.claimed"
    calls.touch(mode=0o600)
    with locked_by_another(calls):
        hook = box.start("codex", "Stop", stdin=subprocess.DEVNULL)
        eventually(lambda: is_waited_for(calls))
        calls.rename(claimed)
    with hook:
        assert hook.wait(PATIENCE_S) == 0
    assert (len(box.spooled(1)), claimed.stat().st_size) == (1, 0)


def test_a_spool_that_takes_too_long_holds_up_no_harness_and_loses_no_call(box: HookBox) -> None:
    box.spool.mkdir(parents=True, mode=0o700)
    (box.spool / "calls").touch(mode=0o600)
    with locked_by_another(box.spool / "calls"):
        # Until the end of its streams, as a harness does, which a child must not hold open.
        assert_silent(box.run(b'{"a":1}', "codex", "Stop"))
        assert box.spooled() == []
    eventually(lambda: len(box.spooled(1)) == 1)
    (call,) = box.spooled(1)
    assert (call.hook, call.stdin) == ("Stop", b'{"a":1}')
    assert f'"pid":{os.getpid()},' in (box.spool / "calls").read_text()


def is_waited_for(file: Path) -> bool:
    """Whether somebody waits for the lock of a file: the hook, or the child that it leaves when its time is over."""
    inode = f":{file.stat().st_ino} "
    return any("->" in line and inode in line for line in WAITING.read_text().splitlines())


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({"XDG_STATE_HOME": "{base}/xdg"}, "xdg/lifebus/spool"),
        ({"XDG_STATE_HOME": "relative"}, ".local/state/lifebus/spool"),
        ({}, ".local/state/lifebus/spool"),
    ],
)
def test_the_state_directory_follows_xdg(tmp_path: Path, variables: dict[str, str], where: str) -> None:
    env = {"HOME": str(tmp_path), **{name: value.format(base=tmp_path) for name, value in variables.items()}}
    subprocess.run([*COMMAND, "codex"], env=env, input=b"{}", check=True, timeout=PATIENCE_S)
    eventually((tmp_path / where / "calls").is_file)  # on a slow machine the harness goes on before that
    assert default_state_dir(env) / "spool" == tmp_path / where


@pytest.mark.parametrize(
    ("variables", "where"),
    [({"XDG_RUNTIME_DIR": "{base}/xdg"}, "xdg/lifebus"), ({}, ".local/state/lifebus/run")],
)
def test_the_runtime_directory_follows_xdg(variables: dict[str, str], where: str) -> None:
    with short_directory() as base:
        box = HookBox(base / where)
        box.runtime.parent.mkdir(parents=True, mode=0o700)
        env = {"HOME": str(base), **{name: value.format(base=base) for name, value in variables.items()}}
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(base / where / "hook.sock"))
            listener.listen(1)
            listener.settimeout(PATIENCE_S)
            with subprocess.Popen([*PATIENT_COMMAND, "codex"], env=env, stdin=subprocess.DEVNULL) as hook:
                connection, _ = listener.accept()
                with connection:
                    receive_call(connection)
                    connection.sendall(b"7 0\n")
                assert hook.wait(PATIENCE_S) == 7
        assert default_runtime_dir(env) == base / where
