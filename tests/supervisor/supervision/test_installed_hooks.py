"""Which harnesses have hooks of ours is read from the records, and again when they change."""

import os
from pathlib import Path

import msgspec

from lifebus_admin.installer.records import InstallRecord
from lifebus_supervisor.supervision.installed_hooks import InstalledHooks, installed_hooks


def write_record(state: Path, name: str, *users: str) -> None:
    folder = state / "hooks" / "records"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(InstallRecord(path=f"/{name}", users=users)))


def test_native_hooks_for_all_projects_alone_count(tmp_path: Path) -> None:
    write_record(tmp_path, "a", "codex:native_hook:user", "claude:manual_skill:user")
    write_record(tmp_path, "b", "gemini:native_hook:project:/home/dev/project")
    (tmp_path / "hooks/records/c.json").write_text("not a record")
    assert installed_hooks(tmp_path) == {"codex"}


def test_without_records_nothing_is_installed(tmp_path: Path) -> None:
    assert not InstalledHooks(tmp_path)("codex")


def test_a_change_is_noticed(tmp_path: Path) -> None:
    write_record(tmp_path, "a", "codex:native_hook:user")
    installed = InstalledHooks(tmp_path)
    assert installed("codex")
    (tmp_path / "hooks/records/a.json").unlink()
    os.utime(tmp_path / "hooks/records", ns=(1, 1))
    assert not installed("codex")
