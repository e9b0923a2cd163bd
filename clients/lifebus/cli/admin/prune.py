"""`lifebus ledger prune`: what goes is planned on the file, and dropped by the broker where one runs."""

import time
from typing import TYPE_CHECKING, Final

from lifebus.cli.arguments import Connecting, UsageError
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put, put_json, size_text
from lifebus_contract import TransportError

if TYPE_CHECKING:
    from lifebus_admin.ledger_files.info import LedgerInfo
    from lifebus_admin.ledger_files.prune import PrunePlan, PruneWish
    from lifebus_supervisor.configuration.settings import Settings

_PATIENCE_S: Final = 30.0
_GLANCE_S: Final = 0.05


def prune_ledger(
    settings: "Settings", wish: "PruneWish", connecting: Connecting, *, compact: bool, dry_run: bool
) -> ExitCode:
    """Drop what the wish names, and tell what went and how much room came back."""
    from lifebus_admin.ledger_files.backup import shrink  # noqa: PLC0415
    from lifebus_admin.ledger_files.files import held_ledger  # noqa: PLC0415
    from lifebus_admin.ledger_files.prune import plan_prune  # noqa: PLC0415

    named = [name for name in wish.__struct_fields__ if getattr(wish, name) is not None]
    if len(named) > 1 or not (named or compact):
        raise UsageError("name one of --before, --keep-days, --keep-mb and --through, or --compact alone")
    plan = plan_prune(settings, int(time.time()), wish)
    if dry_run:
        return _tell(plan, plan.info, (), connecting, dry_run=True)
    if compact:
        with held_ledger(settings):
            pass  # beside a broker nothing is done, not half of it
    consumers = _prune(settings, plan, connecting) if plan.receipts else ()
    if compact:
        shrink(settings)
    return _tell(plan, _settled(settings), consumers, connecting, dry_run=False)


def _prune(settings: "Settings", plan: "PrunePlan", connecting: Connecting) -> tuple[str, ...]:
    """Have the broker do it, or without one do it here; return the named consumers that lost something."""
    try:
        return on_bus(connecting, lambda bus: bus.ledger.prune(plan.through)).consumers
    except TransportError as fault:
        if fault.code != "no_broker":
            raise
    from lifebus_admin.ledger_files.prune import prune_here  # noqa: PLC0415

    prune_here(settings, plan.through, int(time.time()))
    return ()


def _settled(settings: "Settings") -> "LedgerInfo":
    """Return what the ledger is once the rows are gone that a broker deletes piece by piece."""
    from lifebus_admin.ledger_files.files import ledger_file  # noqa: PLC0415
    from lifebus_admin.ledger_files.info import look_at  # noqa: PLC0415

    end = time.monotonic() + _PATIENCE_S
    while (info := look_at(ledger_file(settings))).deleting and time.monotonic() < end:
        time.sleep(_GLANCE_S)
    return info


def _tell(
    plan: "PrunePlan", after: "LedgerInfo", consumers: tuple[str, ...], connecting: Connecting, *, dry_run: bool
) -> ExitCode:
    freed = max(plan.info.bytes - after.bytes, 0)
    if connecting.json:
        put_json(
            {
                "dry_run": dry_run,
                "receipts": plan.receipts,
                "before": plan.info.floor,
                "floor": plan.through,
                "head": after.head,
                "consumers": consumers,
                "bytes_before": plan.info.bytes,
                "bytes": after.bytes,
                "free_bytes": after.free_bytes,
            }
        )
        return ExitCode.OK
    if not plan.receipts:
        put("nothing is to go")
    else:
        verb = "would go" if dry_run else "went"
        put(f"{plan.receipts} receipts {verb}: positions {plan.info.floor + 1} to {plan.through}")
    if consumers:
        put(f"told of a gap: {', '.join(consumers)}")
    if not dry_run:
        put(f"{size_text(freed)} returned; {size_text(after.bytes)} left, {size_text(after.free_bytes)} of them free")
    return ExitCode.OK
