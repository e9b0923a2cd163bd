"""Whose files they are: no command of another user's configuration runs, and no ledger of his is taken for ours."""

import json
import os
import stat
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from msgspec import structs

from lifebus_admin.ledger_files.files import held_ledger
from lifebus_broker.ledger.sqlite.schema import open_writer
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import LedgerSettings
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_transports.ownership import check_parents
from support.command_line import Shell
from support.other_user import STRANGER, needs_root
from support.running import settings_in, short_directory


@pytest.fixture
def base() -> Generator[Path]:
    with short_directory() as directory:
        directory.chmod(0o755)
        yield directory


def place(base: Path, mode: int, name: str = "place") -> Path:
    path = base / name
    path.mkdir()
    path.chmod(mode)
    return path


def mine(path: Path) -> None:
    path.chmod(0o600)


def of_another(path: Path) -> None:
    path.chmod(0o644)
    os.chown(path, STRANGER, STRANGER)


def writable(path: Path) -> None:
    path.chmod(0o646)


def writable_by_a_group(path: Path) -> None:
    os.chown(path, -1, STRANGER)
    path.chmod(0o660)


def in_an_open_directory(path: Path) -> None:
    path.parent.chmod(0o777)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def a_link_of_another(path: Path) -> None:
    target = path.rename(path.with_name("target"))
    path.symlink_to(target)
    os.lchown(path, STRANGER, STRANGER)
    path.parent.chmod(0o1777)


Spoil = Callable[[Path], None]
WRONG: dict[Spoil, str] = {
    of_another: f"belongs to user {STRANGER}",
    writable: "chmod go-w",
    writable_by_a_group: "chmod go-w",
    in_an_open_directory: "has mode 0777",
    a_pipe: "no regular file",
    a_link_of_another: f"belongs to user {STRANGER}",
}


@needs_root
@pytest.mark.parametrize("spoil", WRONG, ids=lambda spoil: spoil.__name__)
def test_a_configuration_that_others_may_have_written_is_refused_and_its_command_not_run(
    spoil: Spoil, base: Path
) -> None:
    config = place(base, 0o755) / "config.toml"
    words = json.dumps(["touch", str(base / "ran")])
    config.write_text(
        f'[[clients]]\nclient_id = "c"\ncommand = {words}\nevents = ["session.started"]\nprotocol = "jsonl"\n'
    )
    spoil(config)
    shell = Shell(base, LIFEBUS_CONFIG=str(config))
    # Before `up`, which does not end where it takes such a file.
    assert shell.call("config", "check").code == 78
    up, doctor = shell.call("up"), shell.call("doctor", "--json")
    assert (up.code, doctor.code) == (78, 1)
    assert WRONG[spoil] in up.err
    (found,) = [one for one in doctor.json if one["check"] == "settings"]
    assert (found["state"], WRONG[spoil] in found["evidence"]) == ("bad", True)
    assert not (base / "ran").exists()


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o444])
def test_a_configuration_of_our_own_is_read_as_always(mode: int, base: Path) -> None:
    """0664 is what umask 002 gives; its group has no member but us."""
    config = place(base, 0o775) / "config.toml"
    config.write_text('[log]\nlevel = "warning"\n')
    config.chmod(mode)
    (base / "link.toml").symlink_to(config)
    for path in (config, base / "link.toml", Path(os.devnull)):
        ran = Shell(base, LIFEBUS_CONFIG=str(path)).call("config", "check")
        assert (ran.code, ran.err) == (0, "")


@needs_root
@pytest.mark.parametrize("spoil", WRONG, ids=lambda spoil: spoil.__name__)
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-witness", ".next"])
def test_a_file_that_others_may_have_written_is_not_taken_for_one_of_the_ledger(
    ending: str, spoil: Spoil, base: Path
) -> None:
    ledger = place(base, 0o755) / "ledger.db"
    file = ledger.with_name(ledger.name + ending)
    file.write_bytes(b"")
    file.chmod(0o600)
    spoil(file)
    before = sorted(path.name for path in ledger.parent.iterdir())
    settings = structs.replace(settings_in(base), ledger=LedgerSettings(path=str(ledger)))
    with pytest.raises(LifebusError) as refused, held_ledger(settings):
        pass
    assert refused.value.code in {"foreign_file", "directory_owner", "directory_mode"}
    assert WRONG[spoil] in refused.value.detail
    assert sorted(path.name for path in ledger.parent.iterdir()) == before


@needs_root
def test_a_broker_does_not_take_a_ledger_that_another_user_put_there_and_doctor_says_so(base: Path) -> None:
    ledger = place(base, 0o1777) / "ledger.db"
    ledger.write_bytes(b"")
    ledger.chmod(0o666)
    os.chown(ledger, STRANGER, STRANGER)
    shell = Shell(base, LIFEBUS_LEDGER_PATH=str(ledger))
    up, doctor = shell.call("up"), shell.call("doctor", "--json")
    assert (up.code, f"belongs to user {STRANGER}" in up.err) == (78, True)
    (found,) = [one for one in doctor.json if one["check"] == "ledger"]
    assert (found["state"], f"belongs to user {STRANGER}" in found["evidence"]) == ("bad", True)
    assert (ledger.read_bytes(), [path.name for path in ledger.parent.iterdir()]) == (b"", ["ledger.db"])


async def test_every_file_of_a_ledger_is_private_also_in_a_directory_open_to_all(base: Path) -> None:
    ledger = place(base, 0o1777) / "ledger.db"
    settings = structs.replace(settings_in(base), ledger=LedgerSettings(path=str(ledger)))
    before = os.umask(0)
    try:
        async with running(settings):
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in ledger.parent.iterdir()}
    finally:
        os.umask(before)
    assert set(modes) >= {"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-witness", "ledger.db.lock"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("umask", [0, 0o022, 0o377])
def test_a_new_ledger_file_has_its_mode_whatever_the_umask(umask: int, base: Path) -> None:
    (base / "link").symlink_to(base / "there" / "ledger.db")
    place(base, 0o700, "there")
    before = os.umask(umask)
    try:
        open_writer(base / "link").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((base / "there" / "ledger.db").stat().st_mode) == 0o600


@needs_root
def test_the_parents_of_the_session_s_runtime_directory_count(base: Path) -> None:
    shared = place(base, 0o777, "shared")
    (shared / "xdg").mkdir(mode=0o700)
    shell = Shell(base, XDG_RUNTIME_DIR=str(shared / "xdg"), LIFEBUS_RUNTIME_DIR="")
    up, doctor = shell.call("up"), shell.call("doctor", "--json")
    assert (up.code, f"chmod go-w {shared}" in up.err) == (78, True)
    (found,) = [one for one in doctor.json if one["check"] == "runtime"]
    assert (found["state"], f"chmod go-w {shared}" in found["evidence"]) == ("bad", True)
    with pytest.raises(LifebusError):
        check_parents(shared / "xdg" / "lifebus")
