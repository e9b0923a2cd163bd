"""Backups on a schedule: made beside a broker, shown in `status`, and a failed one is told."""

import json
from pathlib import Path

import anyio

import lifebus
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_transports.messages.state import BackupStatus
from support.broker_process import BrokerProcess, broker_process, until
from support.command_line import Shell
from support.running import short_directory
from support.snapshots.ledgers import change_rows, make_ledger

QUIET = {"LIFEBUS_RETENTION_KEEP_DAYS": "0", "LIFEBUS_TICKS_ENABLED": "false"}
"""The receipts are old, and are neither dropped nor added to."""


async def backup_of(broker: BrokerProcess) -> BackupStatus:
    """What `status` says of the backups."""
    async with lifebus.connect(runtime_dir=broker.runtime_dir) as bus:
        found = (await bus.status()).backup
    assert found is not None
    return found


def scheduled(folder: Path) -> dict[str, str]:
    return {"LIFEBUS_BACKUP_FOLDER": str(folder), "LIFEBUS_BACKUP_KEEP": "2", **QUIET}


async def test_a_broker_backs_its_ledger_up_on_schedule_and_a_failure_is_told() -> None:
    with short_directory() as directory:
        folder, state = directory / "backups", directory / "state"
        state.mkdir(mode=0o700)
        folder.mkdir()
        (folder / "ledger-99999999T999999Z.db").touch()  # nobody's backup: there is no such time
        await anyio.to_thread.run_sync(make_ledger, state / "ledger.db", 1_100)
        async with broker_process(directory, **scheduled(folder)) as broker:
            await until(lambda: '"backup_made"' in broker.log)
            made = await backup_of(broker)
            assert (made.folder, made.every_h, made.keep, made.fault) == (str(folder), 24, 2, None)
            assert verify(folder / str(made.file)) == []
            assert [one["event"] for one in logged(broker) if "backup" in one["event"]] == ["backup_made"]
        # The next one is due when this one is a day old; its copy is not sound.
        (folder / str(made.file)).rename(folder / "ledger-20200101T000000Z.db")
        change_rows(state / "ledger.db", "UPDATE rows SET status = 'other' WHERE position = 3")
        async with broker_process(directory, **scheduled(folder)) as broker:
            await until(lambda: '"backup_failed"' in broker.log)
            failed = await backup_of(broker)
            assert "row 3" in str(failed.fault)
            assert failed.failed_epoch_s is not None
            ran = await anyio.to_thread.run_sync(Shell(directory, **scheduled(folder)).run, "doctor", "--json")
            (check,) = [one for one in ran.json if one["check"] == "backup"]
            assert check["state"] == "bad"
        left = sorted(path.name for path in folder.iterdir())
        assert left == ["ledger-20200101T000000Z.db", "ledger-99999999T999999Z.db"]


def logged(broker: BrokerProcess) -> list[dict[str, str]]:
    return [json.loads(line) for line in broker.log.splitlines()]
