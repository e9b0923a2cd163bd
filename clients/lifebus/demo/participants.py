"""Who takes part in the demonstration: three callback clients, and followers that remember what they saw."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from lifebus._internal.view import Gap, Position
from lifebus.client import Bus, connect
from lifebus.requests import make_payload
from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    LifecycleEvent,
    PlacementClass,
    Receipt,
    ReceiptStatus,
    RequirementLevel,
    SupportState,
)

PAYLOAD_TEXT: Final = "Remember: the tests run with `make test`."
"""What the delivering client has for the harness."""

_PLACEMENTS: Final = ((PlacementClass.DEVELOPER_EQUIVALENT_FRAME, RequirementLevel.REQUIRED),)
_STOPS_AFTER: Final = 12


class DemoClient(Struct, frozen=True, kw_only=True):
    """A callback client: which event of which adapter it serves, what it requires, and whether it delivers."""

    client_id: str
    adapter: str
    event: LifecycleEvent
    requirement: CapabilityRequest | None = None
    delivers: bool = False
    shows: str


CLIENTS: Final = (
    DemoClient(
        client_id="demo.notes",
        adapter="codex",
        event=LifecycleEvent.SESSION_STARTING,
        delivers=True,
        shows="delivers a payload as a Codex session starts",
    ),
    DemoClient(
        client_id="demo.prefers",
        adapter="claude",
        event=LifecycleEvent.FRAME_OPENED,
        requirement=CapabilityRequest(capability="placement:pre_frame_leading", level=RequirementLevel.PREFERRED),
        shows="prefers a place before the prompt; Claude Code has none: degraded",
    ),
    DemoClient(
        client_id="demo.requires",
        adapter="gemini",
        event=LifecycleEvent.SESSION_STARTED,
        requirement=CapabilityRequest(
            capability="context_pressure", level=RequirementLevel.REQUIRED, support=SupportState.NATIVE
        ),
        shows="requires native context pressure of Gemini CLI: refused",
    ),
)
"""The clients, with what each shows."""


async def serve_client(
    client: DemoClient,
    runtime_dir: Path,
    on_dispatch: Callable[[str], None],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Be the client until cancelled; started once the broker has registered it."""

    async def handle(envelope: DispatchEnvelope) -> CallbackResponse:
        on_dispatch(client.client_id)
        if not client.delivers:
            return CallbackResponse.ok(ReceiptStatus.OBSERVED)
        metadata = {"for": envelope.request.event_id}
        payload = make_payload(
            client.client_id, PAYLOAD_TEXT, payload_kind="demo.note", placements=_PLACEMENTS, metadata=metadata
        )
        return CallbackResponse.ok(ReceiptStatus.DELIVERED, payload)

    async with connect(client.client_id, runtime_dir=runtime_dir) as bus:
        await bus.serve(
            [client.event],
            handle,
            adapters=[client.adapter],
            requirements=() if client.requirement is None else (client.requirement,),
            on_ready=task_status.started,
        )


class DemoFollower:
    """One subscriber: `seen` has position and receipt id of each receipt, in the order in which they came.

    `session` is None for one that follows everything.  `behind` is how many receipts it had missed when it came back,
    None for one that never stopped.
    """

    def __init__(self, name: str, session: tuple[str, str] | None = None) -> None:
        self.name = name
        self.session = session
        self.seen: list[tuple[int, str]] = []
        self.gaps: list[Gap] = []
        self.behind: int | None = None
        self._cursor: Position | None = None
        self._news = anyio.Event()

    @property
    def position(self) -> int:
        """The position of the last receipt it saw, 0 before the first."""
        return self.seen[-1][0] if self.seen else 0

    async def reaches(self, position: int) -> None:
        """Wait until it has seen the receipt at a position, or a later one."""
        while self.position < position:
            # A fresh event each time; nothing awaits between the check and here, so none is missed.
            self._news = anyio.Event()
            await self._news.wait()

    async def follow(
        self, bus: Bus, show: Callable[[Receipt], None] | None = None, *, stop_after: int | None = None
    ) -> None:
        """Follow from the last place, or from the start, until cancelled or until so many receipts are seen."""
        receipts = bus.receipts(session=self.session, since=self._cursor or "start", gaps=self.gaps.append)
        async for item in receipts:
            self._cursor = receipts.cursor  # kept here: the iterator is closed when this one hangs up
            self.seen.append((self._cursor.position if self._cursor else 0, item.receipt_id))
            if show is not None:
                show(item)
            self._news.set()
            if stop_after is not None and len(self.seen) >= stop_after:
                break
        await receipts.aclose()

    async def follow_interrupted(self, runtime_dir: Path, resume: anyio.Event, note: Callable[[str], None]) -> None:
        """Follow on a connection of its own, hang up after some receipts, and go on from there after `resume`."""
        async with connect(f"demo.{self.name}", runtime_dir=runtime_dir) as bus:
            await self.follow(bus, stop_after=_STOPS_AFTER)
        note(f"`{self.name}` hangs up after {len(self.seen)} receipts")
        await resume.wait()
        async with connect(f"demo.{self.name}", runtime_dir=runtime_dir) as bus:
            self.behind = (await bus.status()).ledger.head - self.position
            note(f"`{self.name}` comes back, {self.behind} receipts behind, and asks for what it missed")
            await self.follow(bus)
