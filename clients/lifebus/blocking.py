"""The client library for scripts without an event loop.

    import lifebus.blocking

    with lifebus.blocking.connect() as bus:
        bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        for receipt in bus.receipts(since="start", until_head=True):
            print(receipt.event)

The work is done on an event loop in a thread of its own, which ends with the `with` block; each thread that emits has a
socket of its own beside it.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, overload

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from lifebus._internal.blocking_checkpoints import BlockingCheckpoints
from lifebus._internal.blocking_extensions import BlockingExtensions
from lifebus._internal.blocking_flows import BlockingFlows
from lifebus._internal.blocking_inbox import BlockingInbox
from lifebus._internal.blocking_jobs import BlockingJobs
from lifebus._internal.blocking_transcripts import BlockingTranscripts
from lifebus._internal.following.blocking_emits import BlockingEmits
from lifebus._internal.following.blocking_following import (
    BlockingDeliveries,
    BlockingFollowing,
    BlockingSignals,
    BlockingSubscription,
)
from lifebus._internal.following.short_names import SessionName
from lifebus.client import Bus, Emitted, TickResult, accepted, as_emission, emitted
from lifebus.client import connect as connect_async
from lifebus.state import State
from lifebus_contract import (
    AdapterManifest,
    CallbackRequest,
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    Emission,
    LifecycleEvent,
    Negotiation,
    Receipt,
)
from lifebus_contract.views import SessionHead
from lifebus_transports.messages.ledger import VerifyAnswer
from lifebus_transports.messages.reads import Backfill, BackfillPage
from lifebus_transports.messages.snapshots import SaveAnswer, SaveTypeName
from lifebus_transports.messages.status import BrokerStatus
from lifebus_transports.messages.workers import ClientInfo
from lifebus_transports.workspace.workspace import WorkspaceFiles as BlockingWorkspace

__all__ = [
    "BlockingBus",
    "BlockingCheckpoints",
    "BlockingDeliveries",
    "BlockingExtensions",
    "BlockingFlows",
    "BlockingInbox",
    "BlockingJobs",
    "BlockingSignals",
    "BlockingSubscription",
    "BlockingTranscripts",
    "BlockingWorkspace",
    "connect",
]

_POLL_S: Final = 0.5


class BlockingBus(BlockingFollowing):
    """`lifebus.client.Bus` without an event loop: its calls block; the methods and errors are the same.

    `inbox` has the questions to people, `flows` begins runs of flows and steers them, `jobs` queues jobs,
    `checkpoints` keeps those of clients, `transcripts` has what was said in sessions.
    """

    def __init__(self, portal: BlockingPortal, bus: Bus) -> None:
        super().__init__(portal, bus)
        self._emits = BlockingEmits(portal, bus.outbox)
        self.inbox = BlockingInbox(portal, bus.inbox)
        self.jobs = BlockingJobs(portal, bus.jobs)
        self.extensions = BlockingExtensions(portal, bus.extensions)
        self.flows = BlockingFlows(portal, bus.flows)
        self.checkpoints = BlockingCheckpoints(portal, bus.checkpoints)
        self.transcripts = BlockingTranscripts(portal, bus.transcripts)

    @overload
    def emit(self, emission: Emission | CallbackRequest, /) -> Emitted: ...
    @overload
    def emit(self, emission: Sequence[Emission | CallbackRequest], /) -> list[Emitted]: ...
    def emit(
        self, emission: Emission | CallbackRequest | Sequence[Emission | CallbackRequest], /
    ) -> Emitted | list[Emitted]:
        """Record one lifecycle moment, or several in order, and return when it is durable.

        Raises:
            LifebusError: one emission was refused, or no answer came.  In a list a refusal takes its place.
        """
        if isinstance(emission, Emission | CallbackRequest):
            return accepted(self._record([emission])[0])
        return self._record(emission)

    def _record(self, what: Sequence[Emission | CallbackRequest]) -> list[Emitted]:
        emissions = [as_emission(each) for each in what]
        return [emitted(result) for result in self._emits.record(emissions, seconds=self._bus.timeout)]

    def tick(self, adapter_id: str | None = None, session: str | None = None) -> TickResult:
        """Have the broker examine its harnesses now, and return what it observed; see `Bus.tick`.

        Raises:
            LifebusError: the tick was refused, or no answer came.
        """
        return self._portal.call(self._bus.tick, adapter_id, session)

    def negotiate(
        self, adapter_id: str, requirements: Iterable[CapabilityRequest], *, session: str | None = None
    ) -> Negotiation:
        """Return how well the adapter meets these requirements, in a session as it is now; see `Bus.negotiate`.

        Raises:
            AdapterUnavailable: there is no such adapter.
        """
        return self._portal.call(partial(self._bus.negotiate, adapter_id, tuple(requirements), session=session))

    def serve(
        self,
        events: Iterable[LifecycleEvent | str],
        handler: Callable[[DispatchEnvelope], CallbackResponse],
        *,
        adapters: Iterable[str] = (),
        requirements: Iterable[CapabilityRequest] = (),
        deadline: float = 2.0,
        on_ready: Callable[[], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Be a callback client until `stop` is set or the process is interrupted; see `Bus.serve`.

        Each dispatch runs `handler` in a thread of its own.  `on_ready` is called when the broker has registered the
        client.

        Raises:
            LifebusError: the broker refused the registration.
            ValueError: there is no such event, or no client is asked about it (`receipt.emitted`).
        """

        async def answer(envelope: DispatchEnvelope) -> CallbackResponse:
            # Abandoned on cancel: a handler that hangs must not keep the program from ending.
            return await anyio.to_thread.run_sync(handler, envelope, abandon_on_cancel=True)

        async def serve() -> None:
            async with anyio.create_task_group() as tasks:
                if stop is not None:
                    tasks.start_soon(_cancel_when, stop, tasks.cancel_scope)
                await self._bus.serve(
                    events, answer, adapters=adapters, requirements=requirements, deadline=deadline, on_ready=on_ready
                )

        self._portal.call(serve)

    def read(self, query: Backfill) -> BackfillPage:
        """Return one page of recorded receipts; see `Bus.read`.

        Raises:
            BrokerBusy: too many reads are under way.
        """
        return self._portal.call(self._bus.read, query)

    def state(self) -> State:
        """Return the oldest state that the ledger keeps; see `Bus.state`.

        Raises:
            InvalidRequest: the ledger is not durable.
        """
        return self._portal.call(self._bus.state)

    def save(self, save_type: SaveTypeName) -> SaveAnswer:
        """Have the broker take a snapshot now; see `Snapshots.save`.

        Raises:
            LifebusError: the ledger is not kept, or the snapshot cannot be written.
        """
        return self._portal.call(self._bus.saves.save, save_type)

    def resume(self) -> State:
        """Return what is open now, for example after a restart; see `Snapshots.resume`.

        Raises:
            LifebusError: the ledger is not kept, or the broker has not read it yet.
        """
        return self._portal.call(self._bus.saves.resume)

    def sessions(self, session: SessionName | None = None, *, forgotten: bool = False) -> list[SessionHead]:
        """Return what the ledger knows of all sessions, or of one: (adapter_id, harness_session_id), or ``api#3``.

        With `forgotten`, the list also has sessions that were forgotten.
        """
        return self._portal.call(partial(self._bus.sessions, session, forgotten=forgotten))

    def close_session(self, session: SessionName) -> tuple[Receipt, ...]:
        """End an open `session` in an operator's name; see `Bus.close_session`."""
        return self._portal.call(self._bus.close_session, session)

    def forget_session(self, session: SessionName) -> tuple[Receipt, ...]:
        """Drop what is kept of an ended `session` beside its receipts; see `Bus.forget_session`."""
        return self._portal.call(self._bus.forget_session, session)

    def clients(self) -> list[ClientInfo]:
        """Return the callback clients that are registered now."""
        return self._portal.call(self._bus.clients)

    def manifests(self) -> list[AdapterManifest]:
        """Return the manifests of the running broker."""
        return self._portal.call(self._bus.manifests)

    def status(self) -> BrokerStatus:
        """Return the status of the broker and its ledger."""
        return self._portal.call(self._bus.status)

    def verify(self, tail: int | None = None) -> VerifyAnswer:
        """Have the broker check its ledger, whole or the newest `tail` receipts."""
        return self._portal.call(self._bus.verify, tail)


async def _cancel_when(stop: threading.Event, scope: anyio.CancelScope) -> None:
    """Cancel once the event of another thread is set."""
    while not await anyio.to_thread.run_sync(stop.wait, _POLL_S, abandon_on_cancel=True):
        pass
    scope.cancel()


@contextmanager
def connect(
    client_id: str = "lifebus-python",
    *,
    runtime_dir: str | Path | None = None,
    timeout: float = 5.0,
    wait: bool = False,
) -> Generator[BlockingBus]:
    """Connect to the broker of this user and yield a `BlockingBus`; see `lifebus.connect`.

    `timeout` bounds every call, in seconds.

    With `wait`, it also waits up to `timeout` seconds for a broker that does not run yet.

    Raises:
        TransportError: no broker answers.
    """
    # One event loop thread a connection: its sockets belong to that thread.
    with start_blocking_portal() as portal:
        opening = portal.call(partial(connect_async, client_id, runtime_dir=runtime_dir, timeout=timeout, wait=wait))
        with portal.wrap_async_context_manager(opening) as bus:
            yield BlockingBus(portal, bus)
