"""The client library: emit, negotiate, serve, follow."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import overload

from msgspec import Struct

from lifebus._internal.answers import decode_recorded
from lifebus._internal.arrival import first_connection, leave, open_connection
from lifebus._internal.connection import Connection
from lifebus._internal.following.bus_following import BusFollowing
from lifebus._internal.following.event_names import events_of
from lifebus._internal.following.short_names import SessionName, heads_of, id_in_adapter, whole_name
from lifebus._internal.outbox import Outbox
from lifebus._internal.worker import Handler, serve
from lifebus.checkpoints.reporting import Checkpoints
from lifebus.consumer_admin import ConsumerAdmin
from lifebus.extension_admin import ExtensionAdmin
from lifebus.flows.runs import Flows
from lifebus.inbox import QuestionInbox
from lifebus.jobs import Jobs
from lifebus.ledger_admin import LedgerAdmin
from lifebus.snapshots import Snapshots
from lifebus.state import State, fetch_state
from lifebus.transcripts import Transcripts
from lifebus_contract import (
    AdapterManifest,
    CallbackRequest,
    CapabilityRequest,
    Emission,
    InvalidRequest,
    LifebusError,
    LifecycleEvent,
    Negotiation,
    Receipt,
)
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_contract.views import SessionHead
from lifebus_transports.adapter_names import adapter_id_of
from lifebus_transports.directories import default_runtime_dir
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.emissions import DeliveredPayload, Emit, EmitAnswer, EmitResult, Negotiate
from lifebus_transports.messages.ledger import Verify, VerifyAnswer
from lifebus_transports.messages.reads import Backfill, BackfillPage
from lifebus_transports.messages.sessions import CloseSession, ForgetSession, SessionReceipts
from lifebus_transports.messages.state import StatePage
from lifebus_transports.messages.status import BrokerStatus
from lifebus_transports.messages.ticks import Tick, TickAnswer
from lifebus_transports.messages.verbs import VERBS, find_verb
from lifebus_transports.messages.workers import ClientInfo, Serve


class Emitted(Struct, frozen=True, kw_only=True):
    """The result of one emission: its receipts with their positions, or the refusal.

    `replayed` says that the receipts were recorded before, under the same idempotency key.  `deliveries` are the
    payloads that the emitter has to deliver to its harness.
    """

    receipts: tuple[Receipt, ...] = ()
    positions: tuple[int, ...] = ()
    replayed: bool = False
    deliveries: tuple[DeliveredPayload, ...] = ()
    refusal: LifebusError | None = None


class TickResult(Struct, frozen=True, kw_only=True):
    """What a driven tick observed: the stored receipts with their positions, `supervisor.tick` among them.

    `sessions` and `files` say how many were examined, `degraded` how many capabilities are weaker than claimed.
    """

    receipts: tuple[Receipt, ...] = ()
    positions: tuple[int, ...] = ()
    sessions: int = 0
    files: int = 0
    degraded: int = 0


class Bus(BusFollowing):
    """A connection to a broker.  Made by `connect`; safe for many tasks of one event loop at once.

    Its parts: `cursors` administers named consumers, and `ledger` the ledger; `saves` takes snapshots and resumes from
    them; `inbox` has the questions to people; `flows` begins and controls runs of flows; `jobs` queues jobs;
    `checkpoints` keeps checkpoints of clients; `transcripts` has what was said in sessions; `extensions` lists, reloads
    and trusts extensions.
    """

    def __init__(self, connection: Connection, client_id: str, timeout: float) -> None:
        super().__init__(connection, client_id, timeout)
        self.cursors = ConsumerAdmin(connection, timeout)
        self.inbox = QuestionInbox(connection, timeout)
        self.jobs = Jobs(connection, timeout)
        self.extensions = ExtensionAdmin(connection, timeout)
        self.ledger = LedgerAdmin(connection, timeout)
        self.saves = Snapshots(connection, timeout)
        self.checkpoints = Checkpoints(self)
        self.flows = Flows(connection, client_id, timeout)
        self.transcripts = Transcripts(connection, timeout)
        self.outbox = Outbox(connection, client_id)

    @overload
    async def emit(self, emission: Emission | CallbackRequest, /) -> Emitted: ...
    @overload
    async def emit(self, emission: Sequence[Emission | CallbackRequest], /) -> list[Emitted]: ...
    async def emit(
        self, emission: Emission | CallbackRequest | Sequence[Emission | CallbackRequest], /
    ) -> Emitted | list[Emitted]:
        """Record one lifecycle moment, or several in order, and return when it is durable.

        While a message is under way, calls in the same turn of the event loop share the next one.  If the broker is
        busy, the call asks again until the timeout.  It also asks again after silence if every emission has an
        idempotency key, because then nothing can be recorded twice.

        Raises:
            LifebusError: one emission was refused, or no answer came.  In a list a refusal takes its place.
        """
        # A single refusal is raised; in a list it must not hide the results of the others.
        if isinstance(emission, Emission | CallbackRequest):
            return accepted((await self._record([as_emission(emission)]))[0])
        return await self._record([as_emission(each) for each in emission])

    async def record(self, body: Emit) -> EmitAnswer:
        """Record emissions as `emit` does, under the client id of `body`, and return the broker's answer.

        Raises:
            DeadlineExceeded: no answer came; what became of the emissions is unknown.
        """
        # An outbox of its own: messages of the bus's outbox carry the bus's client id.
        outbox = Outbox(self._connection, body.client_id)
        return EmitAnswer(results=tuple(await outbox.record(body.emissions, seconds=self.timeout)))

    async def ask(self, verb: str, body: bytes, *, more: float = 0.0) -> bytes:
        """Send a request with any verb to the broker and return its answer as it is, for bridges to other protocols.

        `body` and the answer are MessagePack (docs/wire-protocol.md).  The request is sent once.  Use `more` if the
        request makes the broker wait: the call then waits that many seconds longer for the answer.

        Raises:
            LifebusError: the request is too large, was refused, or got no answer.
        """
        if len(body) > MAX_MESSAGE_BYTES:  # the broker would drop every open request of this connection
            raise InvalidRequest(f"a request may take {MAX_MESSAGE_BYTES} bytes", code="too_large")
        timeout = self.timeout * find_verb(verb).timeout_factor + more
        # Sent once, so that waiting for the next broker would be in vain.
        return await self._connection.ask_encoded(verb, body, timeout=timeout, watch=True)

    async def tick(self, adapter_id: str | None = None, session: str | None = None) -> TickResult:
        """Have the broker examine its harnesses now, and return what it observed (docs/contract.md 2.6).

        It examines all harnesses, or only that of `adapter_id`, or one `session` of it; a short name (``api#3``) needs
        no adapter.  The tick always gets a stored receipt.  If no answer comes, the call may be repeated, because each
        observation is recorded once.

        Raises:
            LifebusError: the tick was refused, or no answer came.
        """
        if session is not None and "#" in session:
            if adapter_id is None:
                adapter_id, session = await whole_name(self._connection, session, self.timeout)
            else:
                session = await id_in_adapter(self._connection, adapter_id, session, self.timeout)
        body = Tick(client_id=self.client_id, adapter_id=adapter_id, session=session)
        answer = await self._connection.ask("tick", body, TickAnswer, timeout=self.timeout)
        return TickResult(
            receipts=tuple(decode_recorded(raw) for raw in answer.receipts),
            positions=answer.positions,
            sessions=answer.sessions,
            files=answer.files,
            degraded=answer.degraded,
        )

    async def negotiate(
        self, adapter_id: str, requirements: Iterable[CapabilityRequest], *, session: str | None = None
    ) -> Negotiation:
        """Return how well the adapter `adapter_id` meets these requirements; nothing is dispatched or recorded.

        With `session` (a harness session id, or a short name like ``api#3``), what that session has lost also counts.

        Raises:
            AdapterUnavailable: there is no such adapter.
        """
        if session is not None and "#" in session:
            session = await id_in_adapter(self._connection, adapter_id, session, self.timeout)
        body = Negotiate(adapter_id=adapter_id, requirements=tuple(requirements), session=session)
        return await self._connection.ask("negotiate", body, Negotiation, timeout=self.timeout)

    async def serve(
        self,
        events: Iterable[LifecycleEvent | str],
        handler: Handler,
        *,
        adapters: Iterable[str] = (),
        requirements: Iterable[CapabilityRequest] = (),
        deadline: float = 2.0,
        client_id: str | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """Be a callback client until cancelled: `handler` gets each dispatch and returns the response.

        The broker asks about these `events` of these `adapters` (default: of all), and only if the harness meets the
        `requirements`.  `client_id` is this client's name (default: that of the bus).  `deadline` is how many seconds
        the broker waits for a response.  `on_ready` is called when the broker has registered the client.  After a
        restart of the broker it is registered again as soon as this connection reaches it, within about a second.

        Raises:
            InvalidRequest: there is no such event (``unknown_event``).
            LifebusError: the broker refused the registration.
            ValueError: no client is asked about that event (`receipt.emitted`).
        """
        registration = Serve(
            client_id=client_id or self.client_id,
            events=events_of(events),
            adapters=tuple(adapters),
            requirements=tuple(requirements),
            deadline_ms=round(deadline * 1000),
        )
        await serve(self._connection, registration, handler, on_ready or _nothing)

    async def read(self, query: Backfill) -> BackfillPage:
        """Return one page of recorded receipts; `query` says where the page begins and which receipts it has.

        Raises:
            BrokerBusy: too many reads are under way.
        """
        return await self._connection.ask("backfill", query, BackfillPage, timeout=self.timeout)

    async def state(self) -> State:
        """Return the oldest state that the ledger keeps: the state at the place where its receipts begin.

        ``receipts(since=state.cursor)`` continues exactly after it.

        Raises:
            InvalidRequest: the ledger is not durable.
        """
        return await fetch_state(partial(self._connection.ask, "state", answer=StatePage, timeout=self.timeout))

    async def sessions(self, session: SessionName | None = None, *, forgotten: bool = False) -> list[SessionHead]:
        """Return what the ledger knows of all sessions, or of one: (adapter_id, harness_session_id), or ``api#3``.

        With `forgotten`, the list also has sessions that were forgotten.
        """
        return await heads_of(self._connection, session, self.timeout, forgotten=forgotten)

    async def close_session(self, session: SessionName) -> tuple[Receipt, ...]:
        """End an open session in an operator's name, and return its receipts: the ends of its frames, then its own.

        `session` is (adapter_id, harness_session_id), or ``api#3``.

        If somebody still works in the session, its next sign of life opens it again (docs/sessions.md).

        Raises:
            StateConflict: it has ended already (``session_ended``).
            InvalidRequest: there is no such session, or it is the run of a flow.
        """
        return await self._act_on_session("session_close", CloseSession, session)

    async def forget_session(self, session: SessionName) -> tuple[Receipt, ...]:
        """Drop what is kept of an ended session beside its receipts, and leave it out of lists (docs/sessions.md).

        `session` is (adapter_id, harness_session_id), or ``api#3``.  Its receipts stay in the ledger until retention
        drops them.  The receipt that is returned says that the session was forgotten; if it was forgotten before, there
        is none.

        Raises:
            StateConflict: it has not ended (``session_open``).
            InvalidRequest: there is no such session, or the ledger is not kept.
        """
        return await self._act_on_session("session_forget", ForgetSession, session)

    async def _act_on_session(self, verb: str, kind: type[CloseSession], session: SessionName) -> tuple[Receipt, ...]:
        if isinstance(session, str):
            session = await whole_name(self._connection, session, self.timeout)
        body = kind(client_id=self.client_id, adapter_id=adapter_id_of(session[0]), session=session[1])
        answer = await self._connection.ask(verb, body, SessionReceipts, timeout=self.timeout)
        return tuple(decode_recorded(raw) for raw in answer.receipts)

    async def clients(self) -> list[ClientInfo]:
        """Return the callback clients that are registered now."""
        return await self._connection.ask("clients", Nothing(), list[ClientInfo], timeout=self.timeout)

    async def manifests(self) -> list[AdapterManifest]:
        """Return the manifests of the running broker."""
        return await self._connection.ask("manifests", Nothing(), list[AdapterManifest], timeout=self.timeout)

    async def status(self) -> BrokerStatus:
        """Return the status of the broker and its ledger."""
        return await self._connection.ask("status", Nothing(), BrokerStatus, timeout=self.timeout)

    async def verify(self, tail: int | None = None) -> VerifyAnswer:
        """Have the broker check chain, sequences and keys of its ledger, whole or the newest `tail` receipts.

        This takes minutes for a large ledger, so the call waits up to a hundred times the bus's `timeout`.
        """
        patience = self.timeout * VERBS["verify"].timeout_factor
        return await self._connection.ask("verify", Verify(tail=tail), VerifyAnswer, timeout=patience)

    async def _record(self, emissions: Sequence[Emission]) -> list[Emitted]:
        return [emitted(result) for result in await self.outbox.record(emissions, seconds=self.timeout)]


@asynccontextmanager
async def connect(
    client_id: str = "lifebus-python",
    *,
    runtime_dir: str | Path | None = None,
    timeout: float = 5.0,  # noqa: ASYNC109  the default deadline of every call on the bus
    wait: bool = False,
) -> AsyncGenerator[Bus]:
    """Connect to the broker of this user and yield a `Bus`.

    `client_id` is the stable label under which idempotency keys are scoped.  `timeout` bounds every call, in seconds.
    With `wait`, it also waits up to `timeout` seconds for a broker that does not run yet.

    Raises:
        TransportError: no broker answers at `runtime_dir`.
        LifebusError: the directory or the broker is not this user's (`directory_owner`, `directory_mode`,
            `foreign_broker`); nothing was sent.
    """
    path = Path(runtime_dir) if runtime_dir else default_runtime_dir()
    connection = await (first_connection(path, timeout) if wait else open_connection(path, timeout))
    try:
        yield Bus(connection, client_id, timeout)
    finally:
        await leave(connection)


def as_emission(what: Emission | CallbackRequest) -> Emission:
    """Return what is emitted: a request alone carries nothing else."""
    return what if isinstance(what, Emission) else Emission(request=what)


def accepted(result: Emitted) -> Emitted:
    """Return the result of one emission.

    Raises:
        LifebusError: it was refused.
    """
    if result.refusal is not None:
        raise result.refusal
    return result


def emitted(result: EmitResult) -> Emitted:
    """Return the result of one emission as programs get it."""
    return Emitted(
        receipts=tuple([decode_recorded(raw) for raw in result.receipts]),  # a list is faster than a generator
        positions=result.positions,
        replayed=result.replayed,
        deliveries=result.deliveries,
        refusal=result.refusal.error() if result.refusal else None,
    )


def _nothing() -> None:
    """Do nothing."""
