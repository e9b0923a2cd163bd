"""What `lifebus status` says of the installed hooks is what an inspection would say, whatever became of the files."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lifebus.cli.admin import kept_checks
from lifebus.cli.admin.kept_checks import FILE, inspect, known_checks, look, looks
from support.command_line import Shell
from support.running import short_directory

PROJECT = "project"


@pytest.fixture(scope="module")
def installed() -> Iterator[Shell]:
    """A user with hooks of four harnesses in four dialects, one in a project, and a trusting Codex."""
    with short_directory() as directory:
        shell = Shell(directory)
        (directory / "state").mkdir(mode=0o700)
        (directory / PROJECT).mkdir()
        (directory / ".codex").mkdir()
        (directory / ".codex/config.toml").write_text("[features]\nhooks = true\n")
        for words in (("codex", "openclaw", "hermes", "opencode"), ("claude", "--project", str(directory / PROJECT))):
            ran = shell.call("hooks", "install", *words, "--yes")
            assert ran.code == 0, ran.err
        yield shell


@pytest.fixture
def place(installed: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """That user's home, as a copy, whose files count as settled at once."""
    monkeypatch.setattr(kept_checks, "_SETTLED_NS", 0)
    kept = installed.directory / "kept"
    entries = [one for one in installed.directory.iterdir() if one != kept]
    kept.mkdir(exist_ok=True)
    for one in entries:
        _copy(one, kept / one.name)
    with mock.patch.dict(os.environ, installed.environment, clear=True):
        yield installed.directory
    for one in entries:
        _remove(one)
        _copy(kept / one.name, one)
    for one in set(installed.directory.iterdir()) - {*entries, kept}:
        _remove(one)
    shutil.rmtree(kept)


def _copy(source: Path, to: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, to, symlinks=True)
    else:
        shutil.copy2(source, to)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def watched(home: Path) -> list[Path]:
    """Return what the inspection depends on below a home."""
    _, depends_on = inspect()
    assert depends_on is not None
    return [Path(path) for path in depends_on["files"] if path.startswith(f"{home}/")]


def there(home: Path) -> list[Path]:
    """Return the files among them that are there."""
    found = [path for path in watched(home) if path.is_file()]
    assert len(found) > 12
    return found


def nobody_inspects() -> Any:
    """Return a context in which an inspection fails."""
    return mock.patch.object(kept_checks, "inspect", side_effect=AssertionError("it was inspected"))


def _append(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"\n# more\n")


def _turn(path: Path) -> None:
    """Change bytes in place, as many as there were, and set the old time."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"lifebus", b"lifebuz"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace_by_directory(path: Path) -> None:
    _remove(path)
    path.mkdir()


def _replace_by_link(path: Path) -> None:
    away = path.with_name(f"{path.name}.away")
    path.rename(away)
    path.symlink_to(away)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{ not whole")


CHANGES: Mapping[str, Callable[[Path], None]] = {
    "appended": _append,
    "turned": _turn,
    "mode": lambda path: path.chmod(stat.S_IMODE(path.stat().st_mode) ^ 0o140),
    "removed": _remove,
    "a directory": _replace_by_directory,
    "a link": _replace_by_link,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_never_looks_as_before_a_change(place: Path, change: str) -> None:
    for path in there(place):
        before = looks([str(path)])
        CHANGES[change](path)
        assert looks([str(path)]) != before, f"{path}: {change}"


@pytest.mark.parametrize("change", ["turned", "removed"])
def test_what_became_of_any_file_is_said(place: Path, change: str) -> None:
    said = {json.dumps(known_checks())}
    for path in there(place):
        CHANGES[change](path)
        found = known_checks()
        assert found == inspect()[0], f"{path}: {change}"
        said.add(json.dumps(found))
    assert len(said) > 4


def test_what_comes_where_nothing_was_is_said(place: Path) -> None:
    absent = [path for path in watched(place) if not path.exists()]
    said = {json.dumps(known_checks())}
    for path in absent:
        _make(path)
        found = known_checks()
        assert found == inspect()[0], str(path)
        said.add(json.dumps(found))
    assert len(said) > 2


def test_a_new_record_and_a_write_that_was_interrupted_are_seen(place: Path) -> None:
    known_checks()
    record = {"path": "/x", "users": ["gemini:native_hook:user"]}
    place.joinpath("state/hooks/records/new.json").write_text(json.dumps(record))
    assert known_checks() == inspect()[0]
    assert any("gemini" in one["evidence"] for one in known_checks())
    (unfinished,) = [path for path in watched(place) if path.name == "unfinished"]
    _make(unfinished / "torn.json")
    assert known_checks() == inspect()[0]


def test_a_directory_above_that_leads_elsewhere_is_seen(place: Path) -> None:
    known_checks()
    place.joinpath(".codex").rename(place / "elsewhere")
    place.joinpath(".codex").symlink_to(place / "elsewhere")
    with pytest.raises(AssertionError, match="it was inspected"), nobody_inspects():
        known_checks()
    assert known_checks() == inspect()[0]


@pytest.mark.parametrize("change", ["set", "unset"])
def test_each_variable_that_was_asked_for_is_seen(place: Path, change: str) -> None:
    _, depends_on = inspect()
    assert depends_on is not None
    names = depends_on["environ"]
    assert {"CODEX_HOME", "OPENCLAW_STATE_DIR", "XDG_CONFIG_HOME", "LIFEBUS_STATE_DIR", "HOME"} <= set(names)
    for name in names:
        known_checks()
        with mock.patch.dict(os.environ, {name: str(place / "other")}):
            if change == "unset":
                del os.environ[name]
            assert known_checks() == inspect()[0], name


def test_nothing_is_inspected_while_nothing_changes(place: Path) -> None:
    found = known_checks()
    assert len(found) == 5
    with nobody_inspects():
        assert known_checks() == found
    assert stat.S_IMODE((place / "state" / FILE).stat().st_mode) == 0o600


def test_where_nothing_is_installed_nothing_is_inspected_either(alone: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_checks, "_SETTLED_NS", 0)
    (alone.directory / "state").mkdir()
    with mock.patch.dict(os.environ, alone.environment, clear=True):
        (nothing,) = known_checks()
        assert nothing["evidence"] == "no hooks are installed"
        with nobody_inspects():
            assert known_checks() == [nothing]


def test_a_file_that_changed_just_now_is_looked_at_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_checks, "_SETTLED_NS", 3_600_000_000_000)  # the suite takes less
    _append(place / ".codex/hooks.json")
    assert known_checks()
    assert not (place / "state" / FILE).exists()


@pytest.mark.parametrize("kept", ["", "{", "[]", "{}", '{"of":[]}', "\udcff"])
def test_what_is_kept_no_more_is_made_again(place: Path, kept: str) -> None:
    found = known_checks()
    (place / "state" / FILE).write_bytes(kept.encode("utf-8", "surrogateescape"))
    assert known_checks() == found
    with nobody_inspects():
        assert known_checks() == found


@pytest.mark.parametrize("what", ["lifebus_supervisor.version.VERSION", "sys.version", "sys.executable"])
def test_another_program_inspects_anew(place: Path, what: str) -> None:
    known_checks()
    other = f"{sys.executable}.other"
    with mock.patch(what, other), nobody_inspects(), pytest.raises(AssertionError, match="it was inspected"):
        known_checks()


def test_a_source_that_is_another_file_now_is_seen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known_checks()
    source = str(Path(kept_checks.__file__))
    monkeypatch.setattr(kept_checks, "look", lambda path: [0] if path == source else look(path))
    with nobody_inspects(), pytest.raises(AssertionError, match="it was inspected"):
        known_checks()


def test_what_cannot_be_kept_is_no_error(place: Path) -> None:
    shutil.rmtree(place / "state")
    assert known_checks()
    assert not (place / "state").exists()
    (place / "state").write_text("")
    assert known_checks()


def test_what_is_kept_only_half_leaves_nothing_behind(place: Path) -> None:
    (place / "state" / FILE).mkdir()
    assert known_checks() == inspect()[0]
    assert [one.name for one in (place / "state").iterdir() if FILE in one.name] == [FILE]


_OPENS = """
import json, os, sys
import lifebus.cli.admin.kept_checks as kept
kept._SETTLED_NS = 0
kept.inspect()
opened = []
sys.addaudithook(lambda event, what: opened.append(os.fspath(what[0])) if event in {"open", "os.listdir", "os.scandir"}
    and isinstance(what[0], (str, bytes, os.PathLike)) else None)
_, depends_on = kept.inspect()
opened = sorted({*map(os.fsdecode, opened)})
watched = {*depends_on["files"], *(real for real, *_ in depends_on["files"].values()), *depends_on["program"]}
print(json.dumps([opened, sorted(watched)]))
"""


def test_every_file_that_the_inspection_opens_is_watched(place: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", _OPENS], env=environment, check=True, capture_output=True, cwd=place)
    opened, watched_files = ([Path(path) for path in paths] for paths in json.loads(ran.stdout))
    below = [path for path in opened if path.is_relative_to(place)]
    assert {place / ".codex/config.toml", place / ".hermes/config.yaml", place / "state/hooks/records"} <= set(below)
    unseen = [path for path in opened if not is_seen(path, set(watched_files))]
    # The folders of the program are looked through for the files to watch.
    assert [path for path in unseen if path in below or not (path.is_dir() or path.is_char_device())] == []


def is_seen(path: Path, watched_files: set[Path]) -> bool:
    """Whether a change of a file shows: it is watched itself, or is not there and would change its watched folder."""
    return path in watched_files or (path.parent in watched_files and path.parent.is_dir() and not path.exists())


def test_a_home_that_is_no_utf_8_is_inspected_each_time(place: Path) -> None:
    with mock.patch.dict(os.environ, {"CODEX_HOME": str(place / "\udcff")}):
        assert known_checks() == known_checks() == inspect()[0]
