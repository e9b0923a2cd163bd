"""The bodies of every verb of the request door, and what subscribers read."""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    Emission,
    FailureClass,
    LifebusError,
    LifecycleEvent,
    ManifestPlacementClass,
    PayloadEnvelope,
    ReceiptStatus,
    RetryClass,
    error_for,
)
from lifebus_contract.fields import Count, Document, FactValue, Identifier, refuse_unprintable
from lifebus_contract.views import LedgerStatus
from lifebus_transports.messages.consumers import (
    Ack,
    Consume,
    CursorAsk,
    DeadLetters,
    EvictCursor,
    Fetch,
    Nack,
    Release,
    ResetCursor,
)
from lifebus_transports.messages.ledger import Prune
from lifebus_transports.messages.signals import Observe, SignalBackfill, ThreadsAsk
from lifebus_transports.messages.snapshots import Revise, Save
from lifebus_transports.messages.state import RetentionStatus, StateAsk, StateHint

EvidenceKey = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.]*$(?!\n)", max_length=56)]
"""A name of evidence: a fact's, with room for the prefix that it gets in the receipt."""


class Nothing(Document, frozen=True, kw_only=True):
    """An empty body: `ping`, `status`, `clients`, `manifests`, `leave`."""


class Emit(Document, frozen=True, kw_only=True):
    """`emit`: one to 1,024 emissions of one client, recorded in order."""

    client_id: Identifier
    emissions: Annotated[tuple[Emission, ...], Meta(min_length=1, max_length=1024)]


class RefusalInfo(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request, or one emission of a batch, was refused."""

    failure_class: FailureClass
    retry_class: RetryClass
    detail: str
    code: str | None = None
    field: str | None = None

    @classmethod
    def of(cls, fault: LifebusError) -> "RefusalInfo":
        """Return the wire form of an error."""
        return cls(
            failure_class=fault.failure_class,
            retry_class=fault.retry_class,
            detail=fault.detail[:1024],
            code=fault.code,
            field=fault.field[:256] if fault.field else None,
        )

    def error(self) -> LifebusError:
        """Return the exception that stands for this refusal."""
        return error_for(
            self.failure_class, self.detail, retry_class=self.retry_class, field=self.field, code=self.code
        )


class DeliveredPayload(Document, frozen=True, kw_only=True):
    """A payload that the emitter is to deliver, and the slot it was placed in."""

    payload: PayloadEnvelope
    slot: ManifestPlacementClass


class EmitResult(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one emission: receipts as canonical JSON bytes with their positions, or a refusal."""

    receipts: tuple[bytes, ...] = ()
    positions: tuple[int, ...] = ()
    replayed: bool = False
    deliveries: tuple[DeliveredPayload, ...] = ()
    refusal: RefusalInfo | None = None


class EmitAnswer(Document, frozen=True, kw_only=True):
    """The answer to `emit`: one result an emission, in order."""

    results: tuple[EmitResult, ...]


class Negotiate(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`negotiate`: what would an adapter give for these requirements, in a session as it is now.

    Without `session` only what the adapter as a whole has lost is taken into account.
    """

    adapter_id: Identifier
    requirements: Annotated[tuple[CapabilityRequest, ...], Meta(max_length=64)]
    session: Identifier | None = None


class Serve(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`serve`: register this connection as a callback client.

    Dispatches come as `dispatch`; the worker repeats `serve` every second, or it is taken for gone after three.
    """

    client_id: Identifier
    events: Annotated[tuple[LifecycleEvent, ...], Meta(min_length=1, max_length=14)]
    adapters: Annotated[tuple[Identifier, ...], Meta(max_length=64)] = ()
    requirements: Annotated[tuple[CapabilityRequest, ...], Meta(max_length=64)] = ()
    deadline_ms: Annotated[int, Meta(ge=1, le=600_000)] = 2_000


class Dispatch(Document, frozen=True, kw_only=True):
    """`dispatch`, from the broker to a worker: which of its clients is asked, what, and how long it may take."""

    client_id: Identifier
    envelope: DispatchEnvelope
    deadline_ms: int


class Response(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`response`: a worker's answer to the dispatch with this correlation id, or why it has none.

    `evidence` is what the worker saw of whom it asked in turn; the receipt tells each under ``client_<name>``.
    """

    response: CallbackResponse | None = None
    refusal: RefusalInfo | None = None
    evidence: Annotated[dict[EvidenceKey, FactValue], Meta(max_length=16)] = {}  # noqa: RUF012  msgspec makes a new one each time


class Backfill(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`backfill`: rows after a position.  Without `epoch` the current history is meant."""

    epoch: str | None = None
    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=1024)] = 256
    adapter_id: Identifier | None = None
    session: tuple[Identifier, Identifier] | None = None
    event: LifecycleEvent | None = None
    status: ReceiptStatus | None = None
    since_epoch_s: Count | None = None


class RowInfo(Struct, frozen=True, array_like=True):
    """One receipt on the wire: position, session sequence, canonical JSON bytes (docs/contract.md 1.4)."""

    position: int
    sequence: int | None
    receipt: bytes


class BackfillPage(Document, frozen=True, kw_only=True):
    """The answer to `backfill`: complete up to `next`, or `snapshot_required`; never silently partial.

    See docs/wire-protocol.md, "Joining without a hole".

    With `snapshot_required`, `snapshot` names the oldest state to start from (`state`); None where nothing is durable.
    """

    epoch: str
    rows: tuple[RowInfo, ...]
    next: int
    head: int
    floor: int
    complete: bool
    snapshot_required: bool = False
    snapshot: StateHint | None = None


class Marker(Document, frozen=True, kw_only=True):
    """`marker`: publish on ``m/<nonce>/``, which proves to a joining subscriber that its pipe is live."""

    nonce: Identifier


class SessionsAsk(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`sessions`: the heads of all sessions, or of one."""

    session: tuple[Identifier, Identifier] | None = None


class Tick(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`tick`: have the broker look at its harnesses now: all, those of one adapter, or one session.

    See docs/contract.md 2.6.
    """

    client_id: Identifier
    adapter_id: Identifier | None = None
    session: Identifier | None = None

    def __post_init__(self) -> None:
        if self.session is not None and self.adapter_id is None:
            raise ValueError("session: a session is named together with its adapter")
        if not f"{self.client_id}{self.adapter_id}{self.session}".isprintable():
            refuse_unprintable(self)


class TickAnswer(Document, frozen=True, kw_only=True):
    """The answer to `tick`: the stored receipts of what was observed, `supervisor.tick` among them, and the counts.

    `sessions` and `files` say how many were looked at, `degraded` how many capabilities are weaker than claimed.
    """

    receipts: tuple[bytes, ...]
    positions: tuple[int, ...]
    sessions: int
    files: int
    degraded: int


class Verify(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`verify`: check the ledger, whole or the last `tail` rows."""

    tail: Count | None = None


class VerifyAnswer(Document, frozen=True, kw_only=True):
    """The answer to `verify`: up to which position was checked, and what is wrong."""

    checked: int
    faults: tuple[str, ...]


class ClientInfo(Struct, frozen=True, kw_only=True):
    """A callback client that is registered now."""

    client_id: str
    kind: str
    events: tuple[LifecycleEvent, ...]
    adapters: tuple[str, ...]
    deadline_ms: int
    dispatched: int
    failed: int
    background: bool = False


class HarnessStatus(Struct, frozen=True, kw_only=True):
    """What the broker sees of one harness; ages are in whole seconds, None for what never came.

    `sessions` counts the live ones, `open_frames` the frames without an end, `files` the watched telemetry files and
    `skipped_records` what could not be read in them.  `silent` and `degraded` name the sources that went quiet and the
    capabilities that are weaker than claimed.
    """

    adapter_id: str
    sessions: int
    open_frames: int
    last_event: LifecycleEvent | None
    last_event_age_s: int | None
    last_hook_age_s: int | None
    last_tick_age_s: int | None
    files: int
    newest_file_age_s: int | None
    skipped_records: int
    silent: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """How the broker is: `counters` are per door since it started, `uptime_s` in whole seconds.

    `harnesses` has one entry an adapter that was seen; `retention` is None where nothing durable is kept.
    """

    version: str
    contract_version: str
    pid: int
    uptime_s: int
    runtime_dir: str
    ledger: LedgerStatus
    clients: int
    counters: dict[str, int]
    harnesses: tuple[HarnessStatus, ...] = ()
    retention: RetentionStatus | None = None


class Beacon(Struct, frozen=True, kw_only=True):
    """The heads, published each second on ``h/`` (docs/wire-protocol.md, "The beacon").

    `number` counts up by one from some start; a hole tells a subscriber that it lost a beacon.  `sessions` maps the
    topics of sessions that changed since the last beacon to their newest sequence.
    """

    epoch: str
    number: int
    head: int
    floor: int
    closing: bool = False
    sessions: dict[str, int] = field(default_factory=dict[str, int])


BODIES: Final[dict[str, type[Document]]] = {
    "emit": Emit,
    "negotiate": Negotiate,
    "serve": Serve,
    "leave": Nothing,
    "response": Response,
    "backfill": Backfill,
    "marker": Marker,
    "sessions": SessionsAsk,
    "tick": Tick,
    "verify": Verify,
    "prune": Prune,
    "state": StateAsk,
    "observe": Observe,
    "signals": SignalBackfill,
    "threads": ThreadsAsk,
    "clients": Nothing,
    "manifests": Nothing,
    "status": Nothing,
    "ping": Nothing,
    "consume": Consume,
    "fetch": Fetch,
    "ack": Ack,
    "nack": Nack,
    "release": Release,
    "cursors": CursorAsk,
    "reset": ResetCursor,
    "evict": EvictCursor,
    "letters": DeadLetters,
    "save": Save,
    "resume": StateAsk,
    "revise": Revise,
}
"""Every verb of the request door with the body it takes; a verb outside this table is refused."""
