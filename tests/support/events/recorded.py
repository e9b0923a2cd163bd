"""What the recordings of every harness yield: each fact, who reports it, and an example receipt of each event."""

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from lifebus_contract import LifecycleEvent, Receipt
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


@dataclass
class Recorded:
    """What the recordings yield: the values of each fact by reporter, and the richest receipt of each."""

    values: dict[Reported, dict[str, set[FactValue]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    examples: dict[tuple[LifecycleEvent, str], Receipt] = field(
        default_factory=dict[tuple[LifecycleEvent, str], Receipt]
    )

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


async def _play(recording: Path) -> tuple[str, list[Receipt]]:
    """Return who is recorded, and every receipt that the recording becomes."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        async with supervised(place) as rig:
            if recording in RECORDINGS:
                return APP_SERVER, await observed.play(rig, recording)
            home = place / "home"
            home.mkdir()
            return recording.parent.parent.name, await replaying.play(rig, recording, home)


async def _play_all() -> Recorded:
    recorded = Recorded()
    for recording in [*CAPTURE_FILES, *RECORDINGS]:
        reporter, receipts = await _play(recording)
        for receipt in receipts:
            recorded.add(reporter, receipt)
    return recorded


def play_everything() -> Recorded:
    """Play every recording in the repository through adapter, bus and supervision."""
    return anyio.run(_play_all)
