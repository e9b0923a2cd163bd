"""A campaign is one file: the same bytes each time, from which a cold boot follows wherever it is taken."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lifebus_admin.ledger_files.checks import check_file
from lifebus_admin.ledger_files.transfer import bring_in
from lifebus_admin.snapshots.archive import boot_campaign, save_campaign
from lifebus_broker.ledger.records import append_records
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ports import NewRecord
from lifebus_broker.snapshots.archive import MEMBERS, open_archive
from lifebus_broker.snapshots.cold_boot_error import ColdBootError
from lifebus_broker.state.stores import Stores, dump_stores, reduce_event
from lifebus_contract import InvalidRequest, LifebusError, LifecycleEvent
from lifebus_supervisor.configuration.settings import Settings
from support.receipts import entry, recorded
from support.running import settings_in, short_directory

EVENTS = [LifecycleEvent.SESSION_STARTED, LifecycleEvent.FRAME_OPENED, LifecycleEvent.SESSION_ENDED]


async def make_ledger(settings: Settings, count: int = 12, floor: int = 4) -> None:
    """A ledger of three sessions, pruned up to a position, with a note."""
    settings.state_dir.mkdir(mode=0o700)
    ledger = await SqliteLedger.open(settings.ledger_path)
    for n in range(count):
        await recorded(ledger, [entry(n, key=f"k{n}", harness_session_id=f"s{n % 3}", event=EVENTS[n // 3 % 3])])
    await append_records(ledger.journal, [NewRecord("cursor/a", b"a")])
    stores = Stores()
    with SqliteLog(settings.ledger_path) as log:
        for line in log.lines(0, floor):
            reduce_event(stores, line)
    if floor:
        await ledger.prune(floor, dump_stores(stores))
    await ledger.aclose()


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    made = settings_in(tmp_path)
    await make_ledger(made)
    return made


@pytest.fixture
def archive(settings: Settings, tmp_path: Path) -> Path:
    save_campaign(settings, tmp_path / "one.campaign")
    return tmp_path / "one.campaign"


def test_saving_twice_gives_identical_bytes_and_writes_nothing_else(settings: Settings, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in settings.state_dir.rglob("*") if path.is_file()}
    first = save_campaign(settings, tmp_path / "one")
    second = save_campaign(settings, tmp_path / "two")
    assert first == second
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    after = {path: path.read_bytes() for path in settings.state_dir.rglob("*") if path.is_file()}
    assert {path.name: text for path, text in after.items() if path in before} == {
        path.name: text for path, text in before.items()
    }


def test_an_archive_boots_without_its_ledger(settings: Settings, archive: Path) -> None:
    shutil.rmtree(settings.state_dir)
    booted = boot_campaign(settings, archive)
    assert (booted.snapshot.timestamp_event_id, booted.stores.position) == (12, 12)
    assert len(booted.steps) == 12
    assert booted.rebuilt.kept == booted.rebuilt.built == 3
    assert not settings.state_dir.exists()


@pytest.mark.parametrize("other_user", [False, True])
def test_an_archive_boots_with_an_empty_environment_elsewhere_as_somebody_else(archive: Path, other_user: bool) -> None:
    if other_user and os.geteuid() != 0:
        pytest.skip("only root may become another user")
    with short_directory() as directory:
        directory.chmod(0o755)
        moved = directory / "moved.campaign"
        shutil.copyfile(archive, moved)
        moved.chmod(0o644)
        home = directory / "home"
        home.mkdir(mode=0o755)
        if other_user:
            os.chown(home, 65534, 65534)
        program = (
            "import os, sys, encodings.unicode_escape, cyclopts.help;"
            "import lifebus.cli.admin.boot, lifebus.cli.admin.boot, lifebus_admin.snapshots.boot;"
            f"os.setuid({65534 if other_user else os.geteuid()});"  # who may not read this program may have read it
            "sys.exit(lifebus.cli.run(sys.argv[1:]))"
        )
        ran = subprocess.run(
            [sys.executable, "-c", program, "boot", "--check", str(moved), "--json"],
            env={"HOME": str(home)},
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr == ""
        assert json.loads(open_archive(archive).content("snapshot.json"))["snapshot_id"] in ran.stdout
        assert list(home.iterdir()) == []


def test_a_ledger_is_made_of_an_archive(settings: Settings, archive: Path) -> None:
    with short_directory() as directory:
        other = settings_in(directory)
        done = bring_in(other, archive, "f" * 32, replace=False)
        assert (done.floor, done.head, check_file(other.ledger_path)) == (4, 12, [])
        assert (
            save_campaign(other, directory / "again").snapshot_id
            == json.loads(open_archive(archive).content("snapshot.json"))["snapshot_id"]
        )


def test_it_is_a_plain_tar_file_of_five_files(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        assert tar.getnames() == list(MEMBERS)
        assert {(one.mtime, one.uid, one.gid, one.mode) for one in tar} == {(0, 0, 0, 0o600)}


def repacked(archive: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> Path:
    """The archive packed anew with something changed."""
    with tarfile.open(archive) as tar:
        members = [(info, (tar.extractfile(info) or io.BytesIO()).read()) for info in tar]
    change(members)
    target = archive.with_name("changed")
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    return target


def link(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


def renamed(info: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    info.name = name
    return info


@pytest.mark.parametrize(
    "change",
    [
        lambda members: members.append((tarfile.TarInfo("more.json"), b"{}")),
        lambda members: members.pop(2),
        lambda members: members.reverse(),
        lambda members: members.insert(0, members[0]),
        lambda members: members.__setitem__(0, (link(members[0][0]), b"")),
        lambda members: members.__setitem__(3, (renamed(members[3][0], "../../ledger.jsonl"), members[3][1])),
        lambda members: members.__setitem__(3, (renamed(members[3][0], "/ledger.jsonl"), members[3][1])),
        lambda members: members.__setitem__(1, (members[1][0], b"x" * 2_000_000)),
        lambda members: members.__setitem__(4, (members[4][0], members[4][1].replace(b"campaign/1", b"campaign/2"))),
        lambda members: members.__setitem__(4, (members[4][0], members[4][1] + b"\n")),
        lambda members: members.__setitem__(4, (members[4][0], b"[" * 9999)),
    ],
)
def test_an_archive_of_anything_else_is_refused(
    settings: Settings, archive: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        boot_campaign(settings, repacked(archive, change))
    assert caught.value.code == "bundle_damaged"


def test_an_archive_that_is_cut_off_or_has_a_byte_changed_is_refused(settings: Settings, archive: Path) -> None:
    whole = bytearray(archive.read_bytes())
    changed = archive.with_name("changed")
    for size in range(0, len(whole), 1511):
        changed.write_bytes(whole[:size])
        with pytest.raises(LifebusError):
            boot_campaign(settings, changed)
    for place in range(0, len(whole), 397):
        whole[place] ^= 1
        changed.write_bytes(whole)
        with pytest.raises(LifebusError):
            boot_campaign(settings, changed)
        whole[place] ^= 1


def test_a_changed_receipt_is_named_by_its_position(settings: Settings, archive: Path) -> None:
    whole = archive.read_bytes()
    changed = archive.with_name("changed")
    changed.write_bytes(whole.replace(b'"evt_000008"', b'"evt_000009"', 1))
    with pytest.raises(ColdBootError) as caught:
        boot_campaign(settings, changed)
    assert (caught.value.step, caught.value.position) == (4, 9)


@pytest.mark.parametrize("content", [None, b"", b"hello" * 999, b"\0" * 4096])
def test_what_is_no_archive_is_refused(settings: Settings, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "file"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(LifebusError):
        boot_campaign(settings, file)


def test_a_campaign_overwrites_nothing(settings: Settings, archive: Path) -> None:
    before = archive.read_bytes()
    with pytest.raises(LifebusError) as caught:
        save_campaign(settings, archive)
    assert caught.value.code == "exists"
    assert archive.read_bytes() == before
