"""What a running broker does each second: it publishes its heads and drops leases that ran out."""

from typing import Final

import anyio

from lifebus_supervisor.daemon.composition import Daemon

_SWEEP_S: Final = 1.0


async def publish_beacons(daemon: Daemon) -> None:
    """Publish the heads, so that the loss of a last message is noticed too (docs/wire-protocol.md, "The beacon").

    Not while the broker stops: none may follow the one that announces the end.
    """
    while True:
        await anyio.sleep(daemon.settings.limits.beacon_ms / 1000)
        if daemon.api.stopping:
            return
        publish_beacon(daemon)


def publish_beacon(daemon: Daemon, *, closing: bool = False) -> None:
    """Publish the heads of the ledger and of the signals once."""
    status = daemon.bus.ledger.status()
    daemon.receipts.publish_beacon(
        status.epoch,
        head=status.head,
        floor=status.floor,
        # Taken and not copied: each session stands in one beacon, however many receipts it had.
        sessions=daemon.bus.fanout.take_changed(),
        closing=closing,
    )
    daemon.receipts.publish_signal_beacon(daemon.signals.epoch, threads=daemon.signals.take_changed(), closing=closing)


async def sweep_leases(daemon: Daemon) -> None:
    """Drop workers and consumers that were silent for longer than their lease."""
    while True:
        await anyio.sleep(_SWEEP_S)
        daemon.workers.sweep()
        daemon.consumers.sweep()
