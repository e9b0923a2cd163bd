"""How the broker, its sessions and the harnesses are, printed: the answer of `lifebus status`."""

from typing import TYPE_CHECKING, Final

import msgspec

from lifebus.cli.admin.harness_checks import check_hooks, duration_text, harness_text
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, paint, put_fact, put_json, size_text, time_text
from lifebus.cli.waiting import since_text, waiting_text
from lifebus.cli.wording.receipt_line import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifebus_contract.views import SessionHead
    from lifebus_transports.messages.state import BackupStatus, RetentionStatus, ScrubStatus
    from lifebus_transports.messages.status import BrokerStatus, WaitingSession

_SESSIONS: Final = 8
"""Most open sessions that are named."""

_CAPABILITIES: Final = {
    "durable": "sequences",
    "snapshots": "snapshots",
    "retention": "retention by the settings",
    "local_file": "file for commands",
}
"""What a user misses of a ledger that lacks something, by the name in the broker's status."""


def show_status(found: "BrokerStatus", open_now: "Sequence[SessionHead]", *, json: bool) -> ExitCode:
    """Print how the broker, its open sessions and the installed hooks are; exit code 1 if it takes no writes."""
    ledger = found.ledger
    healthy = ledger.writable
    hooks = list(check_hooks())
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    if json:
        further = {"installed_version": VERSION, "hooks": hooks, "open_sessions": open_now}
        put_json({**msgspec.to_builtins(found), **further})
        return ExitCode.OK if healthy else ExitCode.NEGATIVE
    state = paint("running", "green") if healthy else paint("running, but the ledger takes no writes", "red")
    facts = {
        "broker": f"{state}, version {found.version}, process {found.pid}, up {duration_text(found.uptime_s)}",
        **({} if found.version == VERSION else {"upgrade": paint(clean(_upgrade_text(VERSION)), "yellow")}),
        "contract": found.contract_version,
        "runtime": clean(found.runtime_dir),
        "ledger": f"{ledger.backend} ({clean(ledger.library)}), durability {ledger.durability}",
        **({"lacking": _lacking_text(ledger.lacks)} if ledger.lacks else {}),
        "size": f"{ledger.head - ledger.floor} receipts, {size_text(ledger.size_bytes)}, {ledger.queued} queued",
        "positions": f"{ledger.floor + 1} to {ledger.head}" if ledger.head > ledger.floor else "none yet",
        **({} if found.retention is None else {"kept": _retention_text(found.retention)}),
        **({"damaged": paint(clean(_damage_text(ledger.damaged)), "red")} if ledger.damaged else {}),
        **({} if found.scrub is None else {"scrub": _scrub_text(found.scrub)}),
        **({} if found.backup is None else {"backup": _backup_text(found.backup)}),
        "epoch": ledger.epoch,
        "clients": str(found.clients),
        "counters": ", ".join(f"{clean(name)} {count}" for name, count in found.counters.items() if count)
        or "all zero",
    }
    for name, fact in facts.items():
        put_fact(paint(name.ljust(9), "dim"), fact, 9)
    for harness in found.harnesses:
        put_fact(paint(clean(harness.adapter_id).ljust(9), "bold"), clean(harness_text(harness)), 9)
    if open_now:
        put_fact(paint("sessions".ljust(9), "dim"), clean(_sessions_text(open_now)), 9)
    for waiting in found.waiting:
        put_fact(paint("waiting".ljust(9), "yellow"), _waiting_session_text(waiting, open_now), 9)
    for one in hooks:
        evidence = paint(clean(one.evidence), "" if one.state == "ok" else "yellow")
        put_fact(paint("hooks".ljust(9), "dim"), evidence, 9)
    return ExitCode.OK if healthy else ExitCode.NEGATIVE


def _sessions_text(heads: "Sequence[SessionHead]") -> str:
    """Return the newest of the open sessions by name."""
    names = [(name_of(head), head.adapter_id) for head in heads]
    shown = ", ".join(f"{name} ({adapter})" for name, adapter in names[-_SESSIONS:])
    return f"{shown} and {len(heads) - _SESSIONS} more" if len(heads) > _SESSIONS else shown


def _upgrade_text(installed: str) -> str:
    """Return what to do where the running broker is of another version than what is installed."""
    from lifebus_admin.service.managers import restart_advice  # noqa: PLC0415

    return f"installed is {installed}, which the broker runs after a restart: {restart_advice()}"


def _waiting_session_text(one: "WaitingSession", heads: "Sequence[SessionHead]") -> str:
    """Return which session waits, by its short name where it has one, for what, and since when."""
    key = (one.adapter_id, one.harness_session_id)
    names = {(head.adapter_id, head.harness_session_id): head.name for head in heads if head.name}
    session = f"{names[key]} ({one.adapter_id})" if key in names else "/".join(key)
    return clean(f"{session}: {waiting_text(one.waiting)}, since {since_text(one.waiting[0])}")


def _lacking_text(lacks: tuple[str, ...]) -> str:
    """Return what this ledger cannot do, in words."""
    return ", ".join(f"no {_CAPABILITIES.get(name, clean(name))}" for name in lacks)


def _damage_text(damaged: tuple[str, ...]) -> str:
    """Return which receipts were found to be damaged; `lifebus ledger verify` lists all of them."""
    first, *others = damaged
    return f"{first} (and {len(others)} more)" if others else first


def _retention_text(retention: "RetentionStatus") -> str:
    """Return how much is kept, and what was dropped last, in one line."""
    days, size = retention.keep_days, size_text(retention.keep_mb * 1_048_576)
    parts = [f"{days} d" if days else "any age", size if retention.keep_mb else "any size"]
    last = retention.last
    if last is not None:
        parts.append(f"{last.until - last.after} receipts dropped last, up to {last.until}, by {last.reason}")
        parts += [f"not settled by {', '.join(last.consumers)}"] if last.consumers else []
    return clean("; ".join(parts))


def _scrub_text(scrub: "ScrubStatus") -> str:
    """Return how far the check at idle is, and what it found, in one line."""
    parts = [] if scrub.part is None else [f"checking {scrub.part}, up to position {scrub.position}"]
    if scrub.ended_epoch_s is not None:
        parts.append(f"the last one ended {_moment(scrub.ended_epoch_s)}")
    found = f"found: {'; '.join(scrub.faults)}" if scrub.faults else "nothing is wrong so far"
    return clean("; ".join([*parts, found]))


def _backup_text(backup: "BackupStatus") -> str:
    """Return what the newest backup is, and why the last attempt failed, in one line."""
    made = "none yet" if backup.last_epoch_s is None else f"{backup.file}, {_moment(backup.last_epoch_s)}"
    failed = f"; failed {_moment(backup.failed_epoch_s)}: {backup.fault}" if backup.failed_epoch_s else ""
    return clean(f"{made}, every {backup.every_h} h into {backup.folder}, {backup.keep} kept{failed}")


def _moment(epoch_s: int) -> str:
    return time_text(epoch_s * 1_000)
