"""The runtime directory: ours alone, one broker at a time."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lifebus_contract import FailureClass, LifebusError
from lifebus_transports.runtime_dir import (
    check_socket_path,
    ensure_private_directory,
    hold_lock,
    lock_holder,
    remove_stale_socket,
    take_runtime_dir,
)
from support.other_user import STRANGER, needs_root

HOLD = """
import pathlib, sys
from lifebus_transports.runtime_dir import hold_lock
lock = hold_lock(pathlib.Path(sys.argv[1]), started_at_epoch_s=1_700_000_000)
print(flush=True)
sys.stdin.read()
"""


def test_a_missing_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    made = ensure_private_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert ensure_private_directory(made) == made


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777, 0o720])
def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "run"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(LifebusError, match=f"chmod 700 {path}") as refused:
        ensure_private_directory(path)
    assert (refused.value.code, refused.value.failure_class) == ("directory_mode", FailureClass.OPERATOR_REQUIRED)


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(LifebusError, match="belongs to user") as refused:
        ensure_private_directory(path)
    assert refused.value.code == "directory_owner"


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(target)
    with pytest.raises(LifebusError) as refused:
        ensure_private_directory(tmp_path / "run")
    assert refused.value.code == "directory_unusable"


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_file_in_the_way_is_refused(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LifebusError) as refused:
        ensure_private_directory(tmp_path / where)
    assert refused.value.code == "directory_unusable"


def test_a_socket_path_of_107_bytes_is_the_longest() -> None:
    assert check_socket_path(Path("/" + "x" * 106))
    with pytest.raises(LifebusError, match="LIFEBUS_RUNTIME_DIR") as refused:
        check_socket_path(Path("/" + "ž" * 54))
    assert refused.value.code == "socket_path_too_long"


def test_a_second_holder_hears_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(LifebusError) as refused:
            hold_lock(path)
        holder.kill()
    assert refused.value.code == "already_running"
    assert f"process {holder.pid}, running since 2023-11-14T22:13:20Z" in str(refused.value)
    with hold_lock(path) as lock:  # the kernel let go when the holder died
        assert lock.held


def test_who_holds_a_lock_can_be_asked_without_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert lock_holder(path) is None
    assert not path.exists()
    with hold_lock(path, started_at_epoch_s=1_700_000_000):
        assert lock_holder(path) == f"process {os.getpid()}, running since 2023-11-14T22:13:20Z"
    assert lock_holder(path) is None


@pytest.mark.parametrize("noted", [b"", b"{", b"[]", b'{"pid":"x","started_at_epoch_s":1}', b"\xff"])
def test_a_lock_file_that_says_nothing_useful_still_refuses(tmp_path: Path, noted: bytes) -> None:
    path = tmp_path / "lock"
    with hold_lock(path):
        path.write_bytes(noted)
        with pytest.raises(LifebusError, match="held by another process"):
            hold_lock(path)


def test_the_lock_can_be_taken_again_once_it_is_let_go(tmp_path: Path) -> None:
    lock = hold_lock(tmp_path / "lock")
    lock.close()
    lock.close()
    assert not lock.held
    with hold_lock(tmp_path / "lock"):
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(LifebusError) as refused:
        hold_lock(tmp_path / "lock")
    assert refused.value.code == "directory_unusable"
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("kind", ["pipe", "second name", "directory"])
def test_a_lock_file_that_is_no_file_of_its_own_is_refused_at_once_and_left_alone(tmp_path: Path, kind: str) -> None:
    path, precious = tmp_path / "lock", tmp_path / "precious"
    precious.write_text("precious")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "second name":
            path.hardlink_to(precious)
        case _:
            path.mkdir()
    with pytest.raises(LifebusError) as refused:
        hold_lock(path)
    assert (refused.value.code, str(path) in refused.value.detail) == ("directory_unusable", True)
    assert precious.read_text() == "precious"


@needs_root
def test_a_lock_file_that_another_user_made_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("")
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(LifebusError, match=f"belongs to user {STRANGER}") as refused:
        hold_lock(path)
    assert refused.value.code == "directory_owner"


def test_directories_above_are_made_for_their_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = ensure_private_directory(tmp_path / "a" / "b" / "run")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made, made.parent, made.parent.parent)] == [0o700] * 3


def test_a_stale_socket_is_removed_by_the_holder_of_the_lock_only(tmp_path: Path) -> None:
    path = tmp_path / "hook.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    lock = hold_lock(tmp_path / "lock")
    remove_stale_socket(path, lock)
    assert not path.exists()
    remove_stale_socket(path, lock)  # nothing there is fine
    (tmp_path / "other").mkdir()
    with pytest.raises(LifebusError, match="not held"):
        remove_stale_socket(tmp_path / "other" / "hook.sock", lock)
    lock.close()
    with pytest.raises(LifebusError, match="not held"):
        remove_stale_socket(path, lock)


def test_what_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "hook.sock"
    path.write_text("precious")
    with hold_lock(tmp_path / "lock") as lock, pytest.raises(LifebusError) as refused:
        remove_stale_socket(path, lock)
    assert refused.value.code == "not_a_socket"
    assert path.read_text() == "precious"


def test_taking_the_directory_sets_the_umask_and_holds_the_lock(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with take_runtime_dir(tmp_path / "run") as lock:
            assert os.umask(0o022) == 0o077
            with pytest.raises(LifebusError, match=f"process {os.getpid()}"):
                take_runtime_dir(tmp_path / "run")
        assert lock.path == tmp_path / "run" / "lock"
    finally:
        os.umask(before)
