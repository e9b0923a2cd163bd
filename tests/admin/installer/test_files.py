"""What stands at the path: links, owners, modes, sizes, files of others; and what is left behind."""

import json
import os
import py_compile
import stat
from pathlib import Path

import pytest

from lifebus_adapters.shared.assets import OwnedFile, SettingsEntry, SettingsFile
from lifebus_admin.installer.refusals import FileRefused, InstallRefused, SettingsConflict, SettingsUnreadable
from lifebus_broker.disk import Disk
from support.effort import effort
from support.installer.boxes import Box, fine, group, owns, settings

BEFORE = b'{"model": "x"}\n'


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


@pytest.mark.parametrize("relative", [False, True])
def test_a_link_stays_a_link_and_its_file_changes(box: Box, relative: bool) -> None:
    real = box.root / "dotfiles" / "claude.json"
    real.parent.mkdir(parents=True)
    real.write_bytes(BEFORE)
    box.settings_path.parent.mkdir(parents=True)
    box.settings_path.symlink_to("../../dotfiles/claude.json" if relative else real)
    plan = box.plan()
    assert plan.files[-1].notes == (f"a link: {real} is the file that changes",)
    box.install()
    assert box.settings_path.is_symlink()
    assert b"lifebus-hook" in real.read_bytes()
    assert sorted(path.name for path in real.parent.iterdir()) == ["claude.json"]
    box.remove()
    assert (box.settings_path.is_symlink(), real.read_bytes()) == (True, BEFORE)


def test_a_link_to_nothing_is_refused(box: Box) -> None:
    box.settings_path.parent.mkdir(parents=True)
    box.settings_path.symlink_to("nowhere.json")
    with pytest.raises(FileRefused, match="which does not exist; mend the link"):
        box.install()
    assert not box.launcher_path.exists()


def test_a_link_to_itself_is_refused(box: Box) -> None:
    box.settings_path.parent.mkdir(parents=True)
    box.settings_path.symlink_to(box.settings_path)
    with pytest.raises(FileRefused):
        box.install()


def test_a_linked_file_with_nothing_but_ours_is_emptied_and_not_removed(box: Box) -> None:
    box.install()
    real = box.root / "settings.json"
    box.settings_path.rename(real)
    box.settings_path.symlink_to(real)
    box.forget_records()
    box.remove([settings(box.settings_path)])
    assert real.read_text() == "{}\n"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_the_mode_is_kept(box: Box, mode: int) -> None:
    path = box.write(BEFORE, mode)
    box.install()
    assert stat.S_IMODE(path.stat().st_mode) == mode
    box.remove()
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (mode, BEFORE)


def test_a_new_file_and_its_directory_are_for_the_owner_only(box: Box) -> None:
    box.install()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (box.settings_path, box.settings_path.parent)]
    assert modes == [0o600, 0o700]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_group_is_kept_and_a_foreign_owner_refused(box: Box) -> None:
    path = box.write(BEFORE)
    os.chown(path, 0, 12345)
    box.install()
    assert path.stat().st_gid == 12345
    os.chown(path, 12345, 12345)
    with pytest.raises(FileRefused, match="belongs to user 12345, and this is user 0; run this as the owner"):
        box.remove()
    assert b"lifebus-hook" in path.read_bytes()


def test_a_read_only_file_is_refused(box: Box) -> None:
    path = box.write(BEFORE, 0o444)
    with pytest.raises(FileRefused, match=r"it is read-only \(mode 0444\); run: chmod u\+w"):
        box.install()
    assert (path.read_bytes(), box.launcher_path.exists()) == (BEFORE, False)


def test_a_read_only_directory_is_refused(box: Box) -> None:
    path = box.write(BEFORE)
    path.parent.chmod(0o500)
    with pytest.raises(FileRefused, match=r"is read-only \(mode 0500\); run: chmod u\+w"):
        box.install()
    path.parent.chmod(0o700)
    assert path.read_bytes() == BEFORE


def test_a_read_only_file_with_nothing_to_do_is_fine(box: Box) -> None:
    path = box.write(BEFORE)
    box.install()
    path.chmod(0o400)
    assert not box.install().changed


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_refused_without_waiting_for_it(box: Box, kind: str) -> None:
    box.settings_path.parent.mkdir(parents=True)
    (os.mkdir if kind == "directory" else os.mkfifo)(box.settings_path)
    with pytest.raises(FileRefused, match=r"regular file|opened"):
        box.install()


def test_a_directory_that_is_a_file_is_refused(box: Box) -> None:
    box.settings_path.parent.parent.mkdir(parents=True)
    box.settings_path.parent.write_text("")
    with pytest.raises(FileRefused):
        box.install()


def test_a_file_of_eight_mebibytes_is_refused(box: Box) -> None:
    box.write(b'{"a": "' + b"x" * (8 * 1024 * 1024) + b'"}')
    with pytest.raises(FileRefused, match="more than 8388608"):
        box.install()


def test_a_large_file_is_edited_and_restored(box: Box) -> None:
    rows = [
        {"number": number, "text": "x" * 40, "inner": {"a": [1, 2, None]}} for number in range(effort(8_000, 40_000))
    ]
    before = json.dumps({"rows": rows, "hooks": {"Stop": [{"hooks": []}]}}, indent=1).encode()
    assert len(before) > effort(1_000_000, 5_000_000)
    path = box.write(before)
    box.install()
    assert json.loads(path.read_bytes())["hooks"]["Stop"][-1] == group("Stop")
    assert len(box.plan(removal=True).files[0].diff) < 5_000
    box.forget_records()
    box.remove()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("contents", "kind", "words"),
    [
        (b'{"a": 1,}', SettingsUnreadable, "1:8: strict JSON takes no comma"),
        (b'{\n  // x\n  "a": 1}', SettingsUnreadable, r"2:3: .*takes no comments"),
        (b'{\n  "a": 1,\n  "a": 2}', SettingsUnreadable, '3:3: the key "a" stands there twice'),
        (b'{"a": {"b": 1, "b": 2}}', SettingsUnreadable, '1:16: the key "b" stands there twice'),
        (b'{"a": 1', SettingsUnreadable, "1:8: } is missing"),
        (b'{"a" 1}', SettingsUnreadable, "colon"),
        (b"{'a': 1}", SettingsUnreadable, "double quotes"),
        (b'{"a": NaN}', SettingsUnreadable, "misspelt"),
        (b'{"a": 01}', SettingsUnreadable, "misspelt"),
        (b'{"a": "\n"}', SettingsUnreadable, "string"),
        (b'{"a": "\\x"}', SettingsUnreadable, "escape"),
        (b'{"a": ' + b"9" * 5000 + b"}", SettingsUnreadable, "digits"),
        (b"{} {}", SettingsUnreadable, "more text"),
        (b'{"a": "\xff"}', SettingsUnreadable, "byte 7 is not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), SettingsUnreadable, "byte 0 is not UTF-8"),
        (b'{"a": ' + b"[" * 100_000, SettingsUnreadable, "deeper than 200"),
        (b"null", SettingsConflict, "the outermost value is null where an object is needed"),
        (b"[]\n", SettingsConflict, "the outermost value is a list"),
        (b'"text"', SettingsConflict, "the outermost value is a text"),
        (b'{"hooks": []}', SettingsConflict, "hooks is a list where an object is needed"),
        (b'{"hooks": null}', SettingsConflict, "hooks is null where an object is needed"),
        (b'{"hooks": {"Stop": {}}}', SettingsConflict, "hooks.Stop is an object where a list is needed"),
        (b'{"hooks": {"Stop": "x"}}', SettingsConflict, "hooks.Stop is a text where a list is needed"),
    ],
)
def test_settings_that_are_not_certain_are_refused_and_nothing_is_written(
    box: Box, contents: bytes, kind: type[InstallRefused], words: str
) -> None:
    path = box.write(contents)
    before = box.files()
    with pytest.raises(kind, match=words) as refusal:
        box.install()
    assert (box.files(), path.read_bytes()) == (before, contents)
    assert str(box.settings_path) in refusal.value.where
    assert refusal.value.next


def test_what_the_harness_would_refuse_is_not_written(box: Box) -> None:
    path = box.write(BEFORE)
    asset = SettingsFile(
        path=str(path),
        dialect="json",
        entries=(SettingsEntry(kind="element", where=("hooks", "Stop"), value=group("Stop")),),
        owns=owns,
        check=lambda value: ("hooks.Stop: no such event",) if "hooks" in value else (),
    )
    with pytest.raises(SettingsConflict, match=r"would refuse the result: hooks\.Stop: no such event"):
        box.install([asset])
    assert path.read_bytes() == BEFORE


@pytest.mark.parametrize("removal", [False, True])
def test_a_foreign_file_in_our_place_is_neither_written_over_nor_removed(box: Box, removal: bool) -> None:
    box.launcher_path.parent.mkdir(parents=True)
    box.launcher_path.write_text("theirs")
    if removal:
        assert box.remove([box.own]).files[0].notes[0].startswith("kept: it was edited, or never was ours")
    else:
        with pytest.raises(FileRefused, match="another file stands there, or ours was edited; move it away"):
            box.install()
    assert box.launcher_path.read_text() == "theirs"


def test_a_link_in_place_of_our_file_is_neither_followed_nor_removed(box: Box) -> None:
    target = box.root / "target"
    target.write_text(box.own.contents)
    box.launcher_path.parent.mkdir(parents=True)
    box.launcher_path.symlink_to(target)
    with pytest.raises(FileRefused, match="a link stands where our file belongs"):
        box.install()
    box.remove([box.own])
    assert box.launcher_path.is_symlink()


def test_an_edited_file_of_ours_is_kept_and_reported(box: Box) -> None:
    box.install()
    box.launcher_path.write_text("edited")
    assert "edited" in box.remove().files[-1].notes[0]
    assert (box.launcher_path.read_text(), box.settings_path.exists()) == ("edited", False)


def test_an_older_file_of_ours_is_replaced_and_its_mode_mended(box: Box) -> None:
    older = OwnedFile(path=str(box.launcher_path), contents="older", mode=0o700)
    box.install([older])
    assert [file.action for file in box.install([box.own]).files] == ["change"]
    assert box.launcher_path.read_text() == box.own.contents
    box.launcher_path.chmod(0o600)
    assert box.install([box.own]).changed
    assert stat.S_IMODE(box.launcher_path.stat().st_mode) == 0o700
    assert [file.action for file in box.remove([older]).files] == ["remove"]


def test_a_file_that_two_installations_need_goes_with_the_second(box: Box) -> None:
    box.install([box.own], adapter_id="claude")
    box.install([box.own], adapter_id="codex")
    note = box.remove([box.own], adapter_id="claude").files[0].notes
    assert note == ("kept: still needed by codex:native_hook:user",)
    box.remove([box.own], adapter_id="codex")
    assert box.files() == {}


def test_a_directory_goes_with_the_last_of_our_files_in_it(box: Box) -> None:
    first, second = (OwnedFile(path=str(box.root / "data" / name), contents=name) for name in ("first", "deep/second"))
    box.install([first], adapter_id="claude")
    box.install([second], adapter_id="codex")
    box.remove([first], adapter_id="claude")
    assert box.files().keys() == {"data", "data/deep", "data/deep/second"}
    box.remove([second], adapter_id="codex")
    assert box.files() == {}


def test_our_files_come_first_and_go_last(box: Box) -> None:
    assert [file.path for file in box.plan().files] == [str(box.launcher_path), str(box.settings_path)]
    box.install()
    assert [file.path for file in box.plan(removal=True).files] == [str(box.settings_path), str(box.launcher_path)]


def test_directories_that_others_use_by_now_stay(box: Box) -> None:
    box.install()
    (box.settings_path.parent / "other").write_text("")
    box.remove()
    assert box.files().keys() == {"home", "home/.claude", "home/.claude/other"}


def test_without_any_record_the_bytes_come_back_too(box: Box) -> None:
    path = box.write(b'{\n  "hooks": {},\n  "model": "x"\n}')
    box.install()
    box.forget_records()
    box.remove()
    assert path.read_bytes() == b'{\n  "hooks": {},\n  "model": "x"\n}'


def test_changes_since_the_installation_survive_the_removal(box: Box) -> None:
    path = box.write(b'{\n  "model": "x"\n}\n')
    box.install()
    path.write_bytes(path.read_bytes().replace(b'"x"', b'"y"'))
    box.remove()
    assert path.read_bytes() == b'{\n  "model": "y"\n}\n'


def test_a_file_that_was_there_is_not_removed_even_when_only_ours_is_left(box: Box) -> None:
    path = box.write(BEFORE)
    box.install()
    path.write_bytes(path.read_bytes().replace(b'"model": "x", ', b""))
    box.remove()
    assert path.read_bytes() == b"{}\n"


def test_backups_are_private_and_three_are_kept(box: Box) -> None:
    path = box.write(BEFORE)
    for number in range(6):
        path.write_bytes(b'{"model": "%d"}' % number)
        box.install(stamp=f"2026112{number}T000000Z")
        path.write_bytes(path.read_bytes().replace(b'"model"', b'"name"'))
        box.remove(stamp=f"2026112{number}T120000Z")
    kept = sorted((box.state_dir / "hooks" / "backups").iterdir())
    assert [path.name.split(".lifebus-")[1] for path in kept] == [
        "20261124T120000Z.bak",
        "20261125T000000Z.bak",
        "20261125T120000Z.bak",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert sorted(path.name for path in box.settings_path.parent.iterdir()) == ["settings.json"]


def test_the_first_backup_outlives_many_upgrades(box: Box) -> None:
    path = box.write(BEFORE)
    for number in range(6):
        entry = SettingsEntry(kind="element", where=("hooks", "Stop"), value={**group("Stop"), "matcher": str(number)})
        asset = SettingsFile(path=str(path), dialect="json", entries=(entry,), owns=owns, check=fine)
        assert box.install([asset], stamp=str(number)).changed
    assert box.plan([settings(path)], removal=True).files[0].after == BEFORE.decode()


def test_a_plan_writes_nothing_and_says_all(box: Box) -> None:
    path = box.write(BEFORE)
    before = box.files()
    plan = box.plan()
    assert [file.action for file in plan.files] == ["create", "change"]
    parts = "(lines shown in parts)"
    assert plan.files[1].diff.startswith(f"--- {path} {parts}\n+++ {path} {parts}\n@@ ")
    assert (box.files(), box.state_dir.exists()) == (before, False)


def test_what_a_run_that_crashed_left_is_cleaned_away(box: Box) -> None:
    path = box.write(BEFORE)

    class Full(Disk):
        def exchange(self, one: Path, other: Path) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        box.install(disk=Full())
    assert len(list(path.parent.iterdir())) == 2
    box.remove()
    assert [found.name for found in path.parent.iterdir()] == ["settings.json"]


def test_a_full_disk_leaves_everything_as_it_was(box: Box) -> None:
    path = box.write(BEFORE)
    before = box.files()

    class Full(Disk):
        def write(self, descriptor: int, contents: memoryview) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(FileRefused, match="No space left on device"):
        box.install([settings(path)], disk=Full())
    assert box.files() == before


@pytest.mark.parametrize("missing", ["exchange", "link"])
def test_file_systems_that_cannot_exchange_or_link_will_do(box: Box, missing: str) -> None:
    class Plain(Disk):
        def exchange(self, one: Path, other: Path) -> bool:
            return missing != "exchange" and super().exchange(one, other)

        def link(self, source: Path, target: Path) -> None:
            if missing == "link":
                raise OSError(95, "Operation not supported")
            super().link(source, target)

    path = box.write(BEFORE)
    box.install(disk=Plain())
    assert box.plan().nothing
    box.remove(disk=Plain())
    assert path.read_bytes() == BEFORE


def test_old_bytecode_goes_when_its_file_is_replaced_and_the_rest_with_the_file(box: Box) -> None:
    source = box.root / "data" / "lifebus" / "hook.py"
    kept, strange = source.parent / "__pycache__", source.parent / "__pycache__" / "theirs.cpython-311.pyc"
    older, newer = (OwnedFile(path=str(source), contents=text) for text in ("one = 1\n", "two = 2\n"))
    box.install([older])
    py_compile.compile(str(source), doraise=True)
    strange.touch()
    box.install([newer])
    assert list(kept.iterdir()) == [strange]
    strange.unlink()
    py_compile.compile(str(source), doraise=True)
    box.remove([newer])
    assert not source.parent.exists()
