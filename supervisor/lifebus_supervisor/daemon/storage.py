"""The ledger of a broker and the log of signals beside it, opened under the locks of their only writer."""

import os
import time
from contextlib import AsyncExitStack
from typing import Final

import anyio
import anyio.to_thread

from lifebus_broker.ledger.memory import MemoryLedger
from lifebus_broker.ledger.memory_journal import MemoryJournal
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Ledger
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.signals.log import SignalLog
from lifebus_supervisor.configuration.ledger_file import settle_ledger
from lifebus_supervisor.configuration.settings import Settings, SignalSettings
from lifebus_supervisor.daemon.halt import Halt
from lifebus_transports.runtime_dir import ensure_private_directory, hold_lock

_MIB: Final = 1_048_576

_MEMORY_BYTES: Final = 16 * _MIB
"""Most bytes of signals that are kept where nothing is durable."""


def hold_state(settings: Settings, stack: AsyncExitStack) -> None:
    """Be the only one that writes the state directory and the ledger, whatever runtime directory others use.

    Raises:
        LifebusError: another process holds one of them (`already_running`).
    """
    ensure_private_directory(settings.state_dir)
    for path in settings.writer_locks:
        stack.enter_context(hold_lock(path))


async def open_ledger(settings: Settings, fanout: Fanout, halt: Halt) -> Ledger:
    """Return the ledger that the settings name; its commits go to the fan-out, its failure to `halt`.

    Raises:
        LifebusError: the file cannot be opened, or is damaged.
    """
    if settings.ledger.backend == "memory":
        return MemoryLedger(entropy=os.urandom, committed=fanout.publish)
    await anyio.to_thread.run_sync(settle_ledger, settings)
    ledger = await SqliteLedger.open(
        settings.ledger_path, entropy=os.urandom, committed=fanout.publish, failed=halt.storage_failed
    )
    ledger.bound(keep=settings.retention.keep_mb * _MIB, spare=settings.retention.spare_mb * _MIB)
    return ledger


async def close_ledger(ledger: Ledger) -> None:
    """Close the ledger, even while the broker is being cancelled; a disk that hangs does not hold the stop."""
    with anyio.move_on_after(1.5, shield=True):
        await ledger.aclose()


async def open_signals(settings: SignalSettings, ledger: Ledger) -> SignalLog:
    """Return the log of signals beside a ledger, or one in memory where none are to be kept.

    Sequences that no file keeps are a history of their own, which ends with the process.

    Raises:
        LifebusError: the journal cannot be read.
    """
    keep = settings.keep_mb * _MIB
    if not keep:
        return await SignalLog.open(MemoryJournal(time.time), epoch=os.urandom(16).hex(), keep_bytes=0)
    return await SignalLog.open(
        ledger.journal, epoch=ledger.epoch, keep_bytes=keep if ledger.durable else min(keep, _MEMORY_BYTES)
    )
