"""A restore or import that is killed leaves the one ledger or the other, whole, and never none."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

from lifebus_admin.ledger_files.backup import back_up
from lifebus_admin.ledger_files.transfer import export_to
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_supervisor.configuration.settings import Settings
from support.paths import SUPPORT
from support.receipts import entry, recorded

OLD, NEW = "0" * 32, "f" * 32


async def make(directory: Path) -> None:
    """A ledger whose newest receipts are in its write-ahead log alone, a backup and an export from before them."""
    settings = Settings(runtime_dir=directory / "run", state_dir=directory / "live")
    settings.state_dir.mkdir(mode=0o700)
    ledger = await SqliteLedger.open(settings.ledger_path, entropy=bytes)
    await recorded(ledger, [entry(n, key=f"k{n}") for n in range(3)])
    await asyncio.to_thread(back_up, settings, directory / "backup")
    await asyncio.to_thread(export_to, settings, directory / "export")
    await recorded(ledger, [entry(n, key=f"k{n}") for n in range(3, 7)])
    (directory / "template").mkdir(mode=0o700)
    (directory / "template" / "snapshots").mkdir(mode=0o700)
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(settings.state_dir / name, directory / "template" / name)
    await ledger.aclose()


async def test_a_kill_at_any_moment_leaves_the_old_ledger_or_the_new_one(tmp_path: Path) -> None:
    await make(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SUPPORT / "crash/dying_restorer.py"),
        str(tmp_path),
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    old, new = {"epoch": OLD, "head": 7, "faults": []}, {"epoch": NEW, "head": 3, "faults": []}
    assert len(found) > 20
    for one in found:
        assert one["before"] in (old, new) or (one["before"], one["refused"], one["after"]) == (None, "busy", new)
        assert one["after"] in (old, new)
        assert one["after"] == new or one["before"] == old
        assert one["aside"] == ([old] if one["after"] == new else [])
        assert one["left"] == []
    assert {json.dumps(one["after"]) for one in found} == {json.dumps(old), json.dumps(new)}
    assert any(one["before"] is None for one in found)
