"""`lifebus status`."""

from typing import TYPE_CHECKING

from lifebus.cli.arguments import DEFAULTS, Connecting
from lifebus.cli.broker import on_bus
from lifebus.cli.exits import ExitCode
from lifebus.cli.terminal import clean, paint, put, put_json

if TYPE_CHECKING:
    from lifebus_transports.messages import HarnessStatus

__all__ = ["harness_text", "status"]


def status(*, connecting: Connecting = DEFAULTS) -> ExitCode:
    """Show how the broker and its ledger are; exit code 69 when no broker answers, 1 when it takes no writes.

    Args:
        connecting: Where the broker is, and the form of the answer.
    """
    found = on_bus(connecting, lambda bus: bus.status())
    ledger = found.ledger
    healthy = ledger.writable
    if connecting.json:
        put_json(found)
        return ExitCode.OK if healthy else ExitCode.NEGATIVE
    state = paint("running", "green") if healthy else paint("running, but the ledger takes no writes", "red")
    facts = {
        "broker": f"{state}, version {found.version}, process {found.pid}, up {_duration(found.uptime_s)}",
        "contract": found.contract_version,
        "runtime": clean(found.runtime_dir),
        "ledger": f"{ledger.backend} ({clean(ledger.library)}), durability {ledger.durability}",
        "size": f"{ledger.head - ledger.floor} receipts, {_size(ledger.size_bytes)}, {ledger.queued} queued",
        "positions": f"{ledger.floor + 1} to {ledger.head}" if ledger.head > ledger.floor else "none yet",
        "epoch": ledger.epoch,
        "clients": str(found.clients),
        "counters": ", ".join(f"{clean(name)} {count}" for name, count in found.counters.items() if count)
        or "all zero",
    }
    for name, fact in facts.items():
        put(f"{paint(name.ljust(9), 'dim')} {fact}")
    for harness in found.harnesses:
        put(f"{paint(clean(harness.adapter_id).ljust(9), 'bold')} {clean(harness_text(harness))}")
    return ExitCode.OK if healthy else ExitCode.NEGATIVE


def harness_text(harness: "HarnessStatus") -> str:
    """Return how one harness is, in one line: sessions, last event, hook and tick, files, and what has gone quiet."""
    parts = [
        f"{harness.sessions} live",
        f"{harness.open_frames} open frames" if harness.open_frames else "",
        _last(harness.last_event.value, harness.last_event_age_s) if harness.last_event is not None else "no event yet",
        _last("hook", harness.last_hook_age_s),
        _last("tick", harness.last_tick_age_s),
        f"{harness.files} files" + _newest(harness.newest_file_age_s),
        f"{harness.skipped_records} records skipped" if harness.skipped_records else "",
        f"SILENT: {', '.join(harness.silent)}" if harness.silent else "",
        f"degraded: {', '.join(harness.degraded)}" if harness.degraded else "",
    ]
    return ", ".join(part for part in parts if part)


def _last(what: str, age_s: int | None) -> str:
    return f"no {what}" if age_s is None else f"{what} {_duration(age_s)} ago"


def _newest(age_s: int | None) -> str:
    return "" if age_s is None else f" (newest {_duration(age_s)} old)"


def _duration(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004  the next unit
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
