"""No ledger on a file system that is not one machine's own."""

import os
from pathlib import Path

import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ledger.sqlite import file_system
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract import InternalError


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the list of mounts is read from."""
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(file_system, "_MOUNTS", mounts)
    return mounts


def mount_of(directory: Path, kind: str) -> str:
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return f"22 27 0:0 / /proc rw - proc proc rw\n27 1 {number} / /home rw,relatime shared:1 - {kind} host:/home rw\n"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "fuse.sshfs", "virtiofs", "ceph"])
async def test_it_is_refused_on_the_network_and_on_fuse(tmp_path: Path, mounted: Path, kind: str) -> None:
    mounted.write_text(mount_of(tmp_path, kind))  # noqa: ASYNC240  a test may wait for a file
    with pytest.raises(InternalError, match=f"on a {kind} file system.*set ledger.path") as refused:
        await SqliteLedger.open(tmp_path / "ledger.db")
    assert refused.value.code == "ledger_file_system"
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize("mounts", ["ext4", "btrfs", "tmpfs", "overlay", None])
async def test_it_is_taken_on_a_disk_and_where_nothing_can_be_told(
    tmp_path: Path, mounted: Path, mounts: str | None
) -> None:
    if mounts is not None:
        mounted.write_text(mount_of(tmp_path, mounts))  # noqa: ASYNC240
    await (await SqliteLedger.open(tmp_path / "ledger.db")).aclose()


async def test_a_ledger_that_is_not_kept_may_be_anywhere(tmp_path: Path, mounted: Path) -> None:
    mounted.write_text(mount_of(tmp_path, "9p"))  # noqa: ASYNC240
    ledger = await open_unkept(tmp_path)
    assert await ledger.verify() == []
    await ledger.aclose()
