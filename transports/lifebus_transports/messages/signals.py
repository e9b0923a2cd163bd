"""What passes between an observer of an app-server, the broker, and those who follow its signals.

An observer (`lifebus app-server tee`, `run`) reads an app-server's traffic and sends what it saw with `observe`;
followers read the signals on the topics ``s/<adapter>/<thread>/`` and fetch what they missed with `signals`.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from lifebus_contract.fields import MAX_INTEGER, Count, Document, FactKey, FactValue, Identifier, refuse_unprintable

MAX_SIGNAL_BYTES: Final = 73_728
"""Most bytes of a whole signal: 64 KiB of params and the envelope around them."""

MAX_TURN_TEXT: Final = 131_072
"""Most bytes of what a turn of the broker's own said last."""

_Thread = Annotated[str, Meta(max_length=256)]


class ObservedSignal(Document, frozen=True, kw_only=True, tag="signal", tag_field="kind"):
    """A signal was seen: its envelope, and beside it what it is filed under; `thread` is empty where there is none.

    The envelope is JSON (`lifebus_adapters.app_server.signals`), left as it is between the observer and the follower.
    """

    thread: _Thread
    event_type: Identifier
    # Bytes and no map: it is stored and passed on as it came, and only followers read it.
    signal: Annotated[bytes, Meta(max_length=MAX_SIGNAL_BYTES)]


class ObservedFact(Document, frozen=True, kw_only=True, tag="fact", tag_field="kind"):
    """Something of a session's life was seen: a struct of `lifebus_adapters.app_server.facts` as plain data.

    Plain, because clients read this module and should not have to load what is known of every harness.
    """

    fact: Annotated[
        dict[FactKey, FactValue | Annotated[dict[FactKey, FactValue], Meta(max_length=64)]], Meta(max_length=32)
    ]


class ObservedLoss(Document, frozen=True, kw_only=True, tag="lost", tag_field="kind"):
    """The observer could not keep or read this much, here.

    `messages` is null where nobody knows how many there were; `bytes` are at most those that passed.
    """

    messages: Count | None = 0
    bytes: Count = 0


class ObservedExit(Document, frozen=True, kw_only=True, tag="ended", tag_field="kind"):
    """The app-server is gone: its exit code or the signal that ended it, and what else shows it."""

    exit_code: int | None = None
    signal: int | None = None
    evidence: dict[FactKey, FactValue] = field(default_factory=dict[FactKey, FactValue])


class ObservedTurn(Document, frozen=True, kw_only=True, omit_defaults=True, tag="turn", tag_field="kind"):
    """A turn in a thread of the broker's own went on by an item, or ended.

    `item` is the type of the item that is complete.  `text` is what the turn said last, `cut` that it is only the
    beginning of it; `error` is why it failed, `retryable` that another one may do better.  One that is ``abandoned``
    ran when its app-server ended; one that is ``lost`` may have ended before, unseen.
    """

    thread: _Thread
    turn: _Thread
    status: Literal["inProgress", "completed", "interrupted", "failed", "abandoned", "lost"]
    item: Annotated[str, Meta(max_length=128)] = ""
    text: Annotated[str, Meta(max_length=MAX_TURN_TEXT)] = ""
    cut: bool = False
    error: Annotated[str, Meta(max_length=1_024)] = ""
    retryable: bool = False


Observation = ObservedSignal | ObservedFact | ObservedLoss | ObservedExit | ObservedTurn
"""One thing that an observer reports; the key `kind` says which."""


class ObservedProcess(Document, frozen=True, kw_only=True):
    """The app-server's process: its id, and when it started in a form that only an equal process has."""

    pid: Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
    started: Identifier


class Observe(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`observe`: what one observer saw, in order.

    `origin` is the unique id of one observer's run; it numbers its observations 1, 2, 3 … and `first` is the number of
    the first observation here.  `process` is the app-server.  An origin sends one batch at a time; a batch that comes
    again after no answer records nothing twice.
    """

    client_id: Identifier
    adapter_id: Identifier
    origin: Identifier
    first: Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
    observations: Annotated[tuple[Observation, ...], Meta(min_length=1, max_length=2_048)]
    process: ObservedProcess | None = None

    def __post_init__(self) -> None:
        # They end up in logs and topics, where an unprintable character could forge a line.
        if not f"{self.client_id}{self.adapter_id}{self.origin}".isprintable():
            refuse_unprintable(self)


class ObserveAnswer(Document, frozen=True, kw_only=True):
    """The answer to `observe`: everything up to number `through` is durable and may be forgotten by the observer."""

    through: int


class SignalBackfill(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`signals`: those of one thread after a sequence.  Without `epoch` the current history is meant."""

    adapter_id: Identifier
    thread: _Thread = ""
    epoch: str | None = None
    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=1024)] = 256


class WireSignal(Struct, frozen=True, array_like=True):
    """One signal on the wire: its number in its thread, its event, its envelope as JSON bytes."""

    sequence: int
    event_type: str
    signal: bytes

    @property
    def position(self) -> int:
        """Its number, as everything that is followed by number names it."""
        return self.sequence


class SignalPage(Document, frozen=True, kw_only=True):
    """The answer to `signals`: complete up to `next`, or `snapshot_required`; never silently partial (docs/signals.md).

    `floor` is the last sequence of the thread that is no longer kept; `deleted` says that what is gone was deleted with
    its thread, and not dropped for want of room.
    """

    epoch: str
    rows: tuple[WireSignal, ...]
    next: int
    head: int
    floor: int
    complete: bool
    snapshot_required: bool = False
    deleted: bool = False


class ThreadsQuery(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`threads`: the heads of all threads of an adapter, or of one; the thread named by "" is the process itself."""

    adapter_id: Identifier
    thread: _Thread | None = None


class ThreadHead(Struct, frozen=True, array_like=True):
    """Where a thread's signals stand: the newest sequence, and the last one that is no longer kept."""

    thread: str
    head: int
    floor: int


class ThreadHeads(Document, frozen=True, kw_only=True):
    """The answer to `threads`."""

    epoch: str
    threads: tuple[ThreadHead, ...]


class SignalBeacon(Struct, frozen=True, kw_only=True):
    """The heads of threads, published each second on ``hs/`` (docs/signals.md).

    `number` counts up by one from some start; a hole means that a beacon was lost.  `threads` maps the topics
    of threads that changed since the last beacon to their newest sequence.
    """

    epoch: str
    number: int
    closing: bool = False
    threads: dict[str, int] = field(default_factory=dict[str, int])
