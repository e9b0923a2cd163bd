"""What the recordings of every harness yield: each fact, who reports it, and an example receipt of each event."""

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from lifebus_broker.ports import Evidence
from lifebus_broker.routing.clients import CallbackClient
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent, Receipt
from lifebus_contract.facts.fact import ANY_EVENT
from lifebus_contract.fields import FactValue
from support.adapters.app_server_recordings import RECORDINGS
from support.adapters.calls import CAPTURE_FILES
from support.supervisor import observed, replaying
from support.supervisor.supervised import supervised

APP_SERVER = "codex app-server"
REPORTERS = ("claude", "codex", APP_SERVER, "gemini", "hermes", "openclaw", "opencode")
"""Who can tell something, in the order of the pages."""

Reported = tuple[LifecycleEvent, str]
"""A fact of an event."""


Place = tuple[LifecycleEvent, str]
"""An event, and who reports it."""


@dataclass
class Recorded:
    """What the recordings yield: the values of each fact by reporter, and the richest receipt of each."""

    values: dict[Reported, dict[str, set[FactValue]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    examples: dict[Place, Receipt] = field(default_factory=dict[Place, Receipt])
    metadata: dict[Place, dict[str, Any]] = field(default_factory=dict[Place, dict[str, Any]])
    """What the metadata of the requests has that clients are asked with: every key, with the newest value."""

    def add(self, reporter: str, receipt: Receipt) -> None:
        """Take one more receipt."""
        for key, value in receipt.telemetry_summary.items():
            self.values[receipt.event, key][reporter].add(value)
        place = (receipt.event, reporter)
        known = self.examples.get(place)
        # The first of those that say most: so that the same recordings give the same pages.
        if known is None or _says(receipt) > _says(known):
            self.examples[place] = receipt

    def reporters(self, event: LifecycleEvent, key: str) -> list[str]:
        """Who tells a fact, in the order of the pages."""
        reported = self.values.get((event, key), {})
        return [reporter for reporter in REPORTERS if reporter in reported]


def _says(receipt: Receipt) -> int:
    return len([value for value in receipt.telemetry_summary.values() if value is not None])


class _Asked:
    """A callback client that only takes note of what it is asked with."""

    def __init__(self, recorded: Recorded, reporter: str) -> None:
        self._recorded, self._reporter = recorded, reporter

    async def invoke(self, envelope: DispatchEnvelope, evidence: Evidence) -> CallbackResponse:
        request = envelope.request
        self._recorded.metadata.setdefault((request.event, self._reporter), {}).update(request.metadata)
        return CallbackResponse.ok()


async def _play(recording: Path, asked: _Asked | None = None) -> list[Receipt]:
    """Return every receipt that a recording becomes; with a client, that is asked about each event."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        async with supervised(place) as rig:
            if asked is not None:
                rig.bus.clients.add(CallbackClient(client_id="asked", events=frozenset(ANY_EVENT), invoker=asked))
            if recording in RECORDINGS:
                return await observed.play(rig, recording)
            home = place / "home"
            home.mkdir()
            return await replaying.play(rig, recording, home)


async def _play_all() -> Recorded:
    recorded = Recorded()
    for recording in [*CAPTURE_FILES, *RECORDINGS]:
        reporter = APP_SERVER if recording in RECORDINGS else recording.parent.parent.name
        for receipt in await _play(recording):
            recorded.add(reporter, receipt)
        # Apart: a client has receipts of its own, and the examples are those of a session that nobody is asked about.
        await _play(recording, _Asked(recorded, reporter))
    return recorded


def play_everything() -> Recorded:
    """Play every recording in the repository through adapter, bus and supervision."""
    return anyio.run(_play_all)
