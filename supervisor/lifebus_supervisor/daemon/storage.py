"""The ledger of a broker and the log of signals beside it, opened under the locks of their only writer."""

from contextlib import AsyncExitStack
from typing import Final

import anyio
import anyio.to_thread

from lifebus_broker.ledger import factory
from lifebus_broker.ports import Ledger
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.signals.log import SignalLog
from lifebus_supervisor.configuration.ledger_files import check_ledger_files
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.halt import Halt
from lifebus_transports.runtime_dir import ensure_private_directory, hold_lock

_MIB: Final = 1_048_576

# Most bytes of signals that are kept where nothing is durable
_UNKEPT_BYTES: Final = 16 * _MIB


def hold_state(settings: Settings, stack: AsyncExitStack) -> None:
    """Be the only one that writes the state directory and the ledger, whatever runtime directory others use.

    Raises:
        LifebusError: another process holds one of them (`already_running`); or one of the ledger's files is another
            user's.
    """
    ensure_private_directory(settings.state_dir)
    check_ledger_files(settings)
    # In one fixed order, so that of two brokers that share both exactly one is refused.
    for path in settings.writer_locks:
        stack.enter_context(hold_lock(path))


async def open_ledger(settings: Settings, fanout: Fanout, halt: Halt) -> Ledger:
    """Return the ledger that the settings name; its commits go to the fan-out, its failure to `halt`.

    Raises:
        LifebusError: the file cannot be opened, is damaged, or belongs to another user.
    """
    ledger = await factory.open_ledger(
        settings.ledger_location,
        companions=settings.ledger_companions,
        scratch=settings.runtime_dir,
        committed=fanout.publish,
        failed=halt.storage_failed,
    )
    # Once more: in a sticky directory somebody may have been faster with a file that was not there before.
    try:
        await anyio.to_thread.run_sync(check_ledger_files, settings)
    # A start that is cancelled here as well: nobody else knows this ledger yet.
    except BaseException:
        await close_ledger(ledger)
        raise
    ledger.bound(keep=settings.retention.keep_mb * _MIB, spare=settings.retention.spare_mb * _MIB)
    return ledger


async def close_ledger(ledger: Ledger) -> None:
    """Close the ledger, even while the broker is being cancelled; a disk that hangs does not hold the stop."""
    with anyio.move_on_after(1.5, shield=True):
        await ledger.aclose()


async def open_signals(settings: Settings, ledger: Ledger, stack: AsyncExitStack) -> SignalLog:
    """Return the log of signals beside a ledger, or beside one that is not kept where none are to be kept.

    Sequences that no file keeps are a history of their own, which ends with the process.

    Raises:
        LifebusError: the journal cannot be read.
    """
    keep = settings.signals.keep_mb * _MIB
    if not ledger.capabilities.durable:
        keep = min(keep, _UNKEPT_BYTES)
    elif not keep:
        ledger = await factory.open_unkept(settings.runtime_dir)
        stack.push_async_callback(close_ledger, ledger)
    return await SignalLog.open(ledger.journal, epoch=ledger.epoch, keep_bytes=keep)
