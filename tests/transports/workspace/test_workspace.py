"""The files beneath a root, as both ways of opening have them: what works, and everything that leads out."""

import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lifebus_contract import LifebusError
from lifebus_transports.workspace.opening import OpenDirectory, best_opening, open_by_kernel, open_by_walk
from lifebus_transports.workspace.workspace import MAX_ENTRIES, WorkspaceFiles
from support.transports.workspaces import openings

SECRET = "what nobody may read"


@pytest.fixture(params=openings())
def opening(request: pytest.FixtureRequest) -> OpenDirectory:
    found: OpenDirectory = request.param
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    (tmp_path / "root-evil").mkdir()
    (tmp_path / "root-evil" / "secret").write_text(SECRET)
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def files(root: Path, opening: OpenDirectory) -> Iterator[WorkspaceFiles]:
    with WorkspaceFiles(root, opening=opening) as workspace:
        yield workspace


def code_of(call: Callable[..., object], *arguments: object) -> str | None:
    with pytest.raises(LifebusError) as refused:
        call(*arguments)
    return refused.value.code


def test_what_is_written_is_read_listed_and_deleted(files: WorkspaceFiles, root: Path) -> None:
    text = "one\r\ntwo\n\N{SNOWMAN}"
    written = files.write("grimoires/loa/NOTES.md", text)
    assert (root / "grimoires" / "loa" / "NOTES.md").read_bytes() == text.encode()
    assert (written.byte_size, written.digest) == (
        len(text.encode()),
        f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
    )
    assert files.digest("grimoires/loa/NOTES.md") == written
    assert files.digest("grimoires/loa/NOTES.md", "sha512").digest.removeprefix("sha512:") == (
        hashlib.sha512(text.encode()).hexdigest()
    )
    assert files.read("./grimoires//loa/NOTES.md") == text
    assert [files.list(), files.list("grimoires/loa/")] == [["grimoires"], ["NOTES.md"]]
    assert [files.exists(path) for path in (".", "grimoires", "grimoires/", "grimoires/loa/NOTES.md")] == [True] * 4
    assert [files.exists(path) for path in ("no", "no/no", "grimoires/loa/NOTES.md/", "grimoires/loa/NOTES.md/x")] == (
        [False] * 4
    )
    files.delete("grimoires/loa/NOTES.md")
    files.delete("grimoires/loa/")
    files.delete("grimoires")
    assert list(root.iterdir()) == []


ESCAPES = {
    "../outside/secret": "path_outside",
    "../root-evil/secret": "path_outside",
    "a/../../outside/secret": "path_outside",
    "/etc/passwd": "path_outside",
    "..": "path_outside",
    "link/secret": "path_is_link",
    "a/link/secret": "path_is_link",
    "within/file": "path_is_link",
    "file-link": "path_is_link",
    "absolute-link": "path_is_link",
    "dangling": "path_is_link",
    "loop": "path_is_link",
    "self/root/etc/passwd": "path_is_link",
    "cwd-link/secret": "path_is_link",
    "secret\0": "path_invalid",
    "n" * 256: "path_invalid",
}


@pytest.mark.parametrize("path", ESCAPES, ids=lambda path: ascii(path[:24]))
def test_no_path_leads_out_whatever_is_asked(files: WorkspaceFiles, root: Path, path: str) -> None:
    (root / "a").mkdir()
    (root / "a" / "file").write_text("inside")
    (root / "link").symlink_to("../outside")
    (root / "a" / "link").symlink_to(root.parent / "outside")
    (root / "within").symlink_to("a")
    (root / "file-link").symlink_to("../outside/secret")
    (root / "absolute-link").symlink_to(root.parent / "outside" / "secret")
    (root / "dangling").symlink_to("../outside/new")
    (root / "loop").symlink_to("loop")
    (root / "self").symlink_to("/proc/self")
    (root / "cwd-link").symlink_to("/proc/self/cwd")
    expected = ESCAPES[path]
    assert code_of(files.read, path) == expected
    assert code_of(files.write, path, "taken") == expected
    assert code_of(files.exists, path) == expected
    assert code_of(files.list, path) == expected
    assert code_of(files.delete, path) == expected
    assert code_of(files.digest, path) == expected
    assert (root.parent / "outside" / "secret").read_text() == SECRET
    assert [one.name for one in (root.parent / "outside").iterdir()] == ["secret"]
    assert (root / "a" / "file").read_text() == "inside"


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="needs /proc")
def test_magic_links_are_links(opening: OpenDirectory) -> None:
    with WorkspaceFiles("/proc/self", opening=opening) as files:
        assert code_of(files.read, "root/etc/passwd") == "path_is_link"
        assert code_of(files.list, "cwd") == "path_is_link"
        assert code_of(files.read, "exe") == "path_is_link"
        descriptor = os.open("/", os.O_RDONLY)
        try:
            assert code_of(files.exists, f"fd/{descriptor}/etc") == "path_is_link"
        finally:
            os.close(descriptor)
        assert "Name:" in files.read("status")


def test_only_regular_files_are_read_written_and_deleted(files: WorkspaceFiles, root: Path) -> None:
    (root / "directory").mkdir()
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for name in ("fifo", "socket"):
            assert code_of(files.read, name) == "not_a_file"
            assert code_of(files.write, name, "") == "not_a_file"
            assert code_of(files.delete, name) == "not_a_file"
            assert code_of(files.digest, name) == "not_a_file"
            assert files.exists(name)
    assert code_of(files.read, "directory") == "not_a_file"
    assert code_of(files.write, "directory", "") == "not_a_file"
    assert code_of(files.read, "directory/") == "not_a_file"
    assert code_of(files.write, "new/", "") == "not_a_file"
    assert files.list() == ["directory", "fifo", "socket"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_opened(files: WorkspaceFiles, root: Path) -> None:
    try:
        os.mknod(root / "device", 0o020666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices here")
    assert code_of(files.read, "device") == "not_a_file"
    assert code_of(files.write, "device", "") == "not_a_file"


def test_each_refusal_says_what_is_wrong(files: WorkspaceFiles, root: Path) -> None:
    files.write("a/file", "x")
    assert code_of(files.read, "none") == "no_file"
    assert code_of(files.read, "none/file") == "no_file"
    assert code_of(files.read, "a/file/x") == "not_a_directory"
    assert code_of(files.write, "a/file/x", "") == "not_a_directory"
    assert code_of(files.delete, "none") == "no_file"
    assert code_of(files.delete, "a") == "not_empty"
    assert code_of(files.delete, "a/file/") == "not_a_directory"
    assert code_of(files.delete, ".") == "path_invalid"
    assert code_of(files.list, "none") == "no_file"
    assert code_of(files.list, "a/file") == "not_a_directory"
    (root / "latin").write_bytes(b"caf\xe9")
    assert code_of(files.read, "latin") == "not_text"
    assert files.read_bytes("latin") == b"caf\xe9"
    assert code_of(files.write, "surrogate", "\ud800") == "not_text"
    assert code_of(files.write, "", "") == "path_invalid"


def test_a_name_that_is_no_text_is_said_and_not_left_out(files: WorkspaceFiles, root: Path) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))).write_text("")
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    assert code_of(files.list) == "not_text"


def test_sizes_are_bounded_both_ways(root: Path, opening: OpenDirectory) -> None:
    with WorkspaceFiles(root, max_file_bytes=1_000, opening=opening) as files:
        files.write("exactly", "x" * 1_000)
        assert files.read("exactly") == "x" * 1_000
        (root / "exactly").write_text("x" * 1_001)
        assert code_of(files.read, "exactly") == "file_too_large"
        assert code_of(files.write, "exactly", "é" * 501) == "file_too_large"
        assert files.digest("exactly").byte_size == 1_001


@pytest.mark.skipif(not Path("/proc/kallsyms").exists(), reason="needs /proc")
def test_a_file_that_has_no_size_is_bounded_by_what_it_holds(opening: OpenDirectory) -> None:
    with WorkspaceFiles("/proc", max_file_bytes=1_000, opening=opening) as files:
        assert (Path("/proc") / "kallsyms").stat().st_size == 0
        assert code_of(files.read, "kallsyms") == "file_too_large"


def test_a_huge_directory_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ENTRIES == 65_536
    monkeypatch.setattr("lifebus_transports.workspace.workspace.MAX_ENTRIES", 3)
    with WorkspaceFiles(root) as files:
        for name in "abc":
            files.write(name, "")
        assert files.list() == ["a", "b", "c"]
        files.write("d", "")
        assert code_of(files.list) == "file_too_large"


def test_a_hard_link_keeps_its_contents_when_the_other_name_is_written(files: WorkspaceFiles, root: Path) -> None:
    secret = root.parent / "outside" / "secret"
    (root / "hard").hardlink_to(secret)
    files.write("hard", "mine")
    assert (secret.read_text(), files.read("hard")) == (SECRET, "mine")
    (root / "other").hardlink_to(secret)
    files.delete("other")
    assert secret.read_text() == SECRET


def test_a_file_keeps_its_mode_and_a_new_one_has_that_of_the_umask(files: WorkspaceFiles, root: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write("new", "")
    finally:
        os.umask(before)
    assert (root / "new").stat().st_mode & 0o7777 == 0o640
    (root / "new").chmod(0o4755)
    files.write("new", "#!/bin/sh\n")
    # No bit that gives a program its owner's rights is carried over to contents that were written now.
    assert (root / "new").stat().st_mode & 0o7777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_leaves_a_file_to_its_owner(files: WorkspaceFiles, root: Path) -> None:
    (root / "theirs").write_text("")
    os.chown(root / "theirs", 1_234, 1_235)
    files.write("theirs", "new")
    found = (root / "theirs").stat()
    assert (found.st_uid, found.st_gid) == (1_234, 1_235)


def test_the_root_is_the_directory_that_was_opened(files: WorkspaceFiles, root: Path) -> None:
    files.write("a", "x")
    root.rename(root.parent / "moved")
    root.symlink_to("outside")
    assert files.read("a") == "x"
    files.write("b", "y")
    assert sorted(one.name for one in (root.parent / "moved").iterdir()) == ["a", "b"]


def test_a_root_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert code_of(WorkspaceFiles, tmp_path / "none") == "no_root"
    assert code_of(WorkspaceFiles, tmp_path / "file") == "no_root"
    files = WorkspaceFiles(tmp_path)
    files.close()
    files.close()
    assert code_of(files.read, "file") == "closed"


def test_descriptors_are_closed_whatever_happens(files: WorkspaceFiles, root: Path) -> None:
    (root / "link").symlink_to("/")
    files.write("a/b/c", "x")
    before = sorted(Path("/proc/self/fd").iterdir())
    for path in ("a/b/c", "link/x", "a/b/c/d", "no/no", "a", "a/b/"):
        for call in (files.read, files.exists, files.list, files.digest, lambda one: files.write(one, "")):
            try:
                call(path)
            except LifebusError:
                continue
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_without_the_call_of_the_kernel_names_are_walked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(root, os.O_RDONLY)
    try:
        monkeypatch.setattr("lifebus_transports.workspace.opening._openat2", lambda: None)
        assert best_opening(descriptor) is open_by_walk
        with pytest.raises(OSError, match="not implemented"):
            open_by_kernel(descriptor, ("a",))
    finally:
        os.close(descriptor)


def test_a_sandbox_that_forbids_the_call_gets_the_walk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> int:
        import ctypes  # noqa: PLC0415

        ctypes.set_errno(1)
        return -1

    descriptor = os.open(root, os.O_RDONLY)
    try:
        monkeypatch.setattr("lifebus_transports.workspace.opening._openat2", lambda: forbidden)
        assert best_opening(descriptor) is open_by_walk
    finally:
        os.close(descriptor)
