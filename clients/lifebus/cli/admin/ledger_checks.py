"""What doctor says of the ledger beside its newest rows: the check of all of it at idle, and its backups."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lifebus.cli.admin.harness_checks import CheckResult

if TYPE_CHECKING:
    from pathlib import Path

    from lifebus_supervisor.configuration.settings import Settings
    from lifebus_transports.messages.status import BrokerStatus

_HOUR_S: Final = 3_600


def check_scrub(settings: "Settings") -> CheckResult:
    """Say what the check of the whole ledger found last; its record is there without a broker, too."""
    from lifebus_supervisor.jobs.scrubber import NAME, read_record  # noqa: PLC0415

    record = read_record(settings.state_dir / NAME)
    if record is not None and record.faults:
        fix = "keep a copy of the file, then `lifebus ledger verify` lists every fault"
        return CheckResult(check="scrub", state="bad", evidence="; ".join(record.faults), fix=fix)
    if not settings.scrub.every_h:
        return CheckResult(check="scrub", state="ok", evidence="off (scrub.every_h is 0)")
    if record is None or record.ended_epoch_s is None:
        return CheckResult(check="scrub", state="ok", evidence="the whole ledger was not checked yet; a broker does it")
    evidence = f"the whole ledger was checked, {_time_text(record.ended_epoch_s)}"
    return CheckResult(check="scrub", state="ok", evidence=evidence)


def check_backups(settings: "Settings", status: "BrokerStatus | None") -> CheckResult:
    """Say which scheduled backup is the newest, and whether the last attempt failed."""
    folder = settings.backup_folder
    if folder is None:
        return CheckResult(check="backup", state="ok", evidence="none are scheduled (backup.folder)")
    found = None if status is None else status.backup
    if found is not None and found.fault is not None:
        fix = f"`lifebus ledger backup --rotate {settings.backup.keep} {folder}` tries it again and says what is wrong"
        evidence = f"the last one failed, the older ones are kept: {found.fault}"
        return CheckResult(check="backup", state="bad", evidence=evidence, fix=fix)
    return _age_of_newest(folder, settings.backup.every_h)


def _age_of_newest(folder: "Path", every_h: int) -> CheckResult:
    from lifebus_supervisor.jobs.backup_files import newest_in  # noqa: PLC0415

    newest = newest_in(folder)
    if newest is None:
        return CheckResult(check="backup", state="warn", evidence=f"none in {folder}", fix="keep the broker running")
    evidence = f"{newest.path}, {_time_text(newest.made_epoch_s)}"
    # Twice the interval: one that is due now is not late yet.
    if time.time() - newest.made_epoch_s > 2 * every_h * _HOUR_S:
        return CheckResult(check="backup", state="warn", evidence=f"{evidence}: too old", fix="keep the broker running")
    return CheckResult(check="backup", state="ok", evidence=evidence)


def _time_text(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
