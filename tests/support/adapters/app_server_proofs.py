"""Proof of what a v1 manifest claims for its app-server: real recordings through the intake."""

from pathlib import Path
from tempfile import TemporaryDirectory

from lifebus_adapters import ADAPTERS
from lifebus_contract import IntegrationMode, LifecycleEvent
from lifebus_transports.messages.signals import ObservedLoss
from support.paths import CAPTURES
from support.supervisor.observed import Observer, play
from support.supervisor.supervised import supervised


async def app_servers_tell_what_the_mode_claims(adapter_id: str) -> None:
    """The recorded app-servers give every event that is claimed for the mode and no other."""
    mode, registered = IntegrationMode.REFERENCE_ADAPTER, ADAPTERS[adapter_id].registered
    claims = registered.manifest.lifecycle_events
    seen: set[LifecycleEvent] = set()
    for name in ("thread_compact", "turn_command_approval_accept"):
        with TemporaryDirectory() as folder:
            async with supervised(Path(folder)) as rig:
                receipts = await play(rig, CAPTURES / "app_server" / f"{name}.jsonl")
                receipts += await Observer(rig, "o9").observe(ObservedLoss(messages=1, bytes=9))
        seen |= {receipt.event for receipt in receipts if receipt.integration_mode is mode}
    assert seen == {event for event, claim in claims.items() if mode in claim.modes}
