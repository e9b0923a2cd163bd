"""An installed hook is compiled once: its launcher runs the bytecode of hook.py, and the file where there is none."""

import os
import py_compile
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lifebus_adapters.shared.launcher import launcher_files, launcher_path
from support.clients.hook_box import HOOK, HookBox


@pytest.fixture
def launched(tmp_path: Path) -> HookBox:
    """A box whose hook is an installed one."""
    data = tmp_path / "data"
    data.mkdir()
    for item in launcher_files(str(data), python=sys.executable, hook=HOOK.read_text(), wrapper=""):
        Path(item.path).write_text(item.contents)
        Path(item.path).chmod(item.mode)
    return HookBox(tmp_path, command=(launcher_path(str(data)),))


def bytecode_of(box: HookBox) -> list[Path]:
    return list((box.base / "data" / "__pycache__").glob("hook.*.pyc"))


def calls_of(box: HookBox, count: int) -> list[tuple[str, str]]:
    return [(call.adapter_id, call.hook) for call in box.spooled(count)]


def test_the_first_call_leaves_bytecode_and_the_second_runs_it(launched: HookBox) -> None:
    launched.run(b"{}", "codex", "First")
    assert calls_of(launched, 1) == [("codex", "First")]
    (bytecode,) = bytecode_of(launched)
    # Other code under the name of the same file: whoever runs it has not read the file.
    source = launched.base / "data" / "hook.py"
    other = launched.base / "other.py"
    other.write_text("import sys; print(sys.argv)")
    py_compile.compile(str(other), str(bytecode), str(source), doraise=True)
    found = source.stat()
    stamped = bytearray(bytecode.read_bytes())
    stamped[8:16] = int(found.st_mtime).to_bytes(4, "little") + found.st_size.to_bytes(4, "little")
    bytecode.write_bytes(stamped)
    assert launched.run(b"{}", "codex", "Second").stdout == b"['-c', 'codex', 'Second']\n"


def cut_short(bytecode: Path) -> None:
    bytecode.write_bytes(bytecode.read_bytes()[:200])


def filled_with_zeros(bytecode: Path) -> None:
    """A machine that lost its power leaves this: the file's length, and none of its blocks."""
    bytecode.write_bytes(bytes(bytecode.stat().st_size))


def of_another_python(bytecode: Path) -> None:
    bytecode.write_bytes(b"\0\1" + bytecode.read_bytes()[2:])


@pytest.mark.parametrize("harm", [cut_short, filled_with_zeros, of_another_python, Path.unlink])
def test_bytecode_that_cannot_be_read_loses_no_call(launched: HookBox, harm: Callable[[Path], object]) -> None:
    launched.run(b"{}", "codex", "First")
    assert calls_of(launched, 1) == [("codex", "First")]
    (bytecode,) = bytecode_of(launched)
    harm(bytecode)
    done = launched.run(b"{}", "codex", "Second")
    assert (done.code, done.stdout, done.stderr) == (0, b"", b"")
    assert calls_of(launched, 2) == [("codex", "First"), ("codex", "Second")]


def test_where_no_bytecode_can_be_kept_each_call_is_compiled(launched: HookBox) -> None:
    # A file in the folder's place, because a mode keeps nothing from a user who may do everything.
    (launched.base / "data" / "__pycache__").touch()
    done = launched.run(b"{}", "codex", "Stop")
    assert (done.code, done.stdout, done.stderr) == (0, b"", b"")
    assert calls_of(launched, 1) == [("codex", "Stop")]


def test_without_the_file_nothing_happens(launched: HookBox) -> None:
    (launched.base / "data" / "hook.py").unlink()
    done = launched.run(b"{}", "codex", "Stop")
    assert (done.code, done.stdout, done.stderr) == (0, b"", b"")
    assert not os.path.lexists(launched.spool)
