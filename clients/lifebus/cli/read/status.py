"""`lifebus status`."""

from typing import TYPE_CHECKING

import msgspec

from lifebus.cli.admin.harness_checks import hook_findings
from lifebus.cli.arguments import DEFAULTS, Connecting
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.harness_text import duration_text, harness_text
from lifebus.cli.terminal import clean, paint, put, put_json, size_text

if TYPE_CHECKING:
    from lifebus_transports.messages.state import RetentionStatus


def status(*, connecting: Connecting = DEFAULTS) -> ExitCode:
    """Show how the broker and its ledger are; exit code 69 when no broker answers, 1 when it takes no writes.

    Args:
        connecting: Where the broker is, and the form of the answer.
    """
    found = on_bus(connecting, lambda bus: bus.status())
    ledger = found.ledger
    healthy = ledger.writable
    hooks = list(hook_findings())
    if connecting.json:
        put_json({**msgspec.to_builtins(found), "hooks": hooks})
        return ExitCode.OK if healthy else ExitCode.NEGATIVE
    state = paint("running", "green") if healthy else paint("running, but the ledger takes no writes", "red")
    facts = {
        "broker": f"{state}, version {found.version}, process {found.pid}, up {duration_text(found.uptime_s)}",
        "contract": found.contract_version,
        "runtime": clean(found.runtime_dir),
        "ledger": f"{ledger.backend} ({clean(ledger.library)}), durability {ledger.durability}",
        "size": f"{ledger.head - ledger.floor} receipts, {size_text(ledger.size_bytes)}, {ledger.queued} queued",
        "positions": f"{ledger.floor + 1} to {ledger.head}" if ledger.head > ledger.floor else "none yet",
        **({} if found.retention is None else {"kept": _retention_text(found.retention)}),
        "epoch": ledger.epoch,
        "clients": str(found.clients),
        "counters": ", ".join(f"{clean(name)} {count}" for name, count in found.counters.items() if count)
        or "all zero",
    }
    for name, fact in facts.items():
        put(f"{paint(name.ljust(9), 'dim')} {fact}")
    for harness in found.harnesses:
        put(f"{paint(clean(harness.adapter_id).ljust(9), 'bold')} {clean(harness_text(harness))}")
    for one in hooks:
        put(f"{paint('hooks'.ljust(9), 'dim')} {paint(clean(one.evidence), '' if one.state == 'ok' else 'yellow')}")
    return ExitCode.OK if healthy else ExitCode.NEGATIVE


def _retention_text(retention: "RetentionStatus") -> str:
    """Return how much is kept, and what was dropped last, in one line."""
    days, size = retention.keep_days, size_text(retention.keep_mb * 1_048_576)
    parts = [f"{days} d" if days else "any age", size if retention.keep_mb else "any size"]
    last = retention.last
    if last is not None:
        parts.append(f"{last.until - last.after} receipts dropped last, up to {last.until}, by {last.reason}")
        parts += [f"not settled by {', '.join(last.consumers)}"] if last.consumers else []
    return clean("; ".join(parts))
