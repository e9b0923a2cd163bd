"""What a verb is: what it takes and answers, who may call it, and its limits.  Pure."""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from lifebus_contract.fields import Document


class Access(StrEnum):
    """Who may call a verb."""

    ANYONE = "anyone"
    """Every peer that the transport admits."""
    WORKER = "worker"
    """The peer that serves as a callback client; of any other the call changes nothing."""
    CONSUMER = "consumer"
    """The peer that consumes the name; of any other the call changes nothing or is refused."""
    OPERATOR = "operator"
    """A peer that may change what is kept for everybody; on the local sockets each peer of the broker's user may."""


class Repeat(StrEnum):
    """Whether a call may be made again when no answer came."""

    SAFE = "safe"
    """It changes nothing, or nothing more when it comes twice."""
    KEYED = "keyed"
    """Only where every emission carries an idempotency key."""
    NEVER = "never"
    """What became of the first call has to be looked up before."""


class CallPool(Struct, frozen=True):
    """Verbs that share a bound on how many of their calls may be under way; `size` None is the broker's setting."""

    name: str
    size: int | None


READS: Final = CallPool("reads", None)
"""Bounded by ``limits.backfills``."""

TICKS: Final = CallPool("ticks", 256)
"""Many, because one examination of the harnesses answers all ticks that wait for it."""

OBSERVATIONS: Final = CallPool("observations", 64)
"""Few, because a batch takes up to 256 KiB."""

STEERING: Final = CallPool("steering", 256)
"""Many, because each observer of an app-server waits in one call for its next order."""

STEERING_REPORTS: Final = CallPool("steering reports", 256)
"""Many, because each order has one; apart, so that observers that wait keep nobody from reporting."""

CONSUMERS: Final = CallPool("cursors", 1024)
"""Many, because each consumer waits in one fetch, and its acknowledgements for the disk."""

QUESTIONS: Final = CallPool("questions", 256)
"""Many, because whoever waits for an answer waits in one call."""

FLOWS: Final = CallPool("flows", 256)
"""Each waits for the disk alone."""

FLOW_WAITS: Final = CallPool("flow waits", 1024)
"""Many, because whoever follows a run waits for its next step; apart, so that they keep nobody from steering it."""

COMPACTIONS: Final = CallPool("compactions", 8)
"""Few, because each runs a harness."""

JOBS: Final = CallPool("jobs", 1024)
"""Many, because each that queues a job waits for the disk alone."""

JOB_WAITS: Final = CallPool("job waits", 1024)
"""Many, because whoever waits for a job waits in one call; apart, so that they keep nobody from queueing."""

TRANSCRIPTS: Final = CallPool("transcripts", 256)
"""Each waits for the disk alone."""

EXTENSIONS: Final = CallPool("extensions", 16)
"""Few, because a second reload is refused while one is under way."""

SUGGESTIONS: Final = CallPool("suggestions", 32)
"""Few, because each waits for every handler of an event."""

SUGGESTION_WAITS: Final = CallPool("suggestion waits", 256)
"""Many, because whoever waits for a suggestion waits in one call; apart, so that they keep nobody from writing it."""

PRUNES: Final = CallPool("prunes", 1)
"""One, because a second one would drop what the first is still reading."""


class Verb(Struct, frozen=True, kw_only=True):
    """One verb.

    `answer` is the type of the answer, None where there is none; `stream` that of the messages which follow an answer
    until `leave`.  A verb without `pool` is answered without a task.  `records` says that it adds receipts, which a
    broker that stops refuses.  An answer may take `timeout_factor` times the client's timeout, and beside it as long
    as the body's key `wait_key` says, in milliseconds.  `embedded` names the list in the body and the key of its
    entries that hold JSON as a byte string: protocols that are JSON themselves have the JSON stand there.
    """

    name: str
    summary: str
    body: type[Document]
    answer: Any
    stream: Any = None
    access: Access = Access.ANYONE
    pool: CallPool | None = None
    records: bool = False
    timeout_factor: int = 1
    wait_key: str | None = None
    repeat: Repeat = Repeat.SAFE
    embedded: tuple[str, str] | None = None
