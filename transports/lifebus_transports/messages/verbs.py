"""The table of verbs: what each takes and answers, who may call it, and its limits.  Pure.

The broker binds a handler to each verb (`lifebus_supervisor.api.table`).  Adaptors, whatever protocol they carry verbs
over, read here how to decode a body and how long an answer may take.
"""

from typing import Final

from lifebus_contract import AdapterManifest, InvalidRequest, Negotiation
from lifebus_contract.consumers import ConsumerInfo
from lifebus_contract.views import SessionHead
from lifebus_transports.messages import tables
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.consumers import (
    Ack,
    AckAnswer,
    Consume,
    ConsumersQuery,
    DeadLettersAnswer,
    DeadLettersQuery,
    EvictConsumer,
    Fetch,
    FetchAnswer,
    Nack,
    Release,
    ResetConsumer,
)
from lifebus_transports.messages.emissions import Emit, EmitAnswer, Negotiate
from lifebus_transports.messages.ledger import Prune, PruneAnswer, Verify, VerifyAnswer
from lifebus_transports.messages.reads import Backfill, BackfillPage, Marker, SessionsQuery
from lifebus_transports.messages.sessions import CloseSession, ForgetSession, SessionReceipts
from lifebus_transports.messages.snapshots import Revise, ReviseAnswer, Save, SaveAnswer
from lifebus_transports.messages.state import StatePage, StateQuery
from lifebus_transports.messages.status import BrokerStatus
from lifebus_transports.messages.ticks import Tick, TickAnswer
from lifebus_transports.messages.verb_table import VerbTable
from lifebus_transports.messages.verb_types import (
    CONSUMERS,
    PRUNES,
    READS,
    TICKS,
    Access,
    Repeat,
    Verb,
)
from lifebus_transports.messages.workers import ClientInfo, Dispatch, Response, Serve

_TABLE: Final = (
    Verb(name="ping", summary="Answers with nothing.", body=Nothing, answer=Nothing),
    Verb(
        name="emit",
        summary="Records emissions of one client, in order.",
        body=Emit,
        answer=EmitAnswer,
        records=True,
        repeat=Repeat.KEYED,
    ),
    Verb(
        name="negotiate",
        summary="Says what an adapter would give for some requirements.",
        body=Negotiate,
        answer=Negotiation,
    ),
    Verb(
        name="serve",
        summary="Registers the peer as a callback client, or renews its lease.",
        body=Serve,
        answer=Nothing,
        stream=Dispatch,
    ),
    Verb(
        name="leave",
        summary="Ends the peer's registration as a callback client.",
        body=Nothing,
        answer=Nothing,
        access=Access.WORKER,
    ),
    Verb(
        name="response",
        summary="Answers a dispatch, and is not answered itself.",
        body=Response,
        answer=None,
        access=Access.WORKER,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="backfill",
        summary="Returns a page of recorded receipts.",
        body=Backfill,
        answer=BackfillPage,
        pool=READS,
    ),
    Verb(
        name="state",
        summary="Returns a piece of the oldest state that is kept.",
        body=StateQuery,
        answer=StatePage,
        pool=READS,
    ),
    Verb(
        name="resume",
        summary="Returns a piece of the state as it is now.",
        body=StateQuery,
        answer=StatePage,
        pool=READS,
    ),
    Verb(
        name="marker",
        summary="Publishes a message that proves a new subscription live.",
        body=Marker,
        answer=Nothing,
    ),
    Verb(
        name="sessions",
        summary="Lists the heads of all sessions, or of one.",
        body=SessionsQuery,
        answer=list[SessionHead],
        pool=READS,
        timeout_factor=6,  # right behind a flood the states have some way to go
    ),
    Verb(
        name="session_close",
        summary="Ends an open session in an operator's name, and its open frames before it.",
        body=CloseSession,
        answer=SessionReceipts,
        access=Access.OPERATOR,
        pool=TICKS,
        records=True,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="session_forget",
        summary="Drops what is kept of an ended session beside its receipts, and leaves it out of lists.",
        body=ForgetSession,
        answer=SessionReceipts,
        access=Access.OPERATOR,
        pool=TICKS,
        records=True,
    ),
    Verb(
        name="tick",
        summary="Examines the harnesses now and records what it finds.",
        body=Tick,
        answer=TickAnswer,
        pool=TICKS,
        records=True,
    ),
    Verb(
        name="consume",
        summary="Makes the peer the one that consumes under a name, or renews its lease.",
        body=Consume,
        answer=ConsumerInfo,
        pool=CONSUMERS,
    ),
    Verb(
        name="fetch",
        summary="Returns receipts for a named consumer, as soon as there are any.",
        body=Fetch,
        answer=FetchAnswer,
        access=Access.CONSUMER,
        pool=CONSUMERS,
        wait_key="wait_ms",
    ),
    Verb(
        name="ack",
        summary="Settles receipts of a named consumer.",
        body=Ack,
        answer=AckAnswer,
        access=Access.CONSUMER,
        pool=CONSUMERS,
    ),
    Verb(
        name="nack",
        summary="Has receipts of a named consumer delivered again.",
        body=Nack,
        answer=AckAnswer,
        access=Access.CONSUMER,
        pool=CONSUMERS,
    ),
    Verb(
        name="release",
        summary="Ends the peer's consuming under a name.",
        body=Release,
        answer=Nothing,
        access=Access.CONSUMER,
        pool=CONSUMERS,
    ),
    Verb(
        name="cursors",
        summary="Describes all named consumers, or one.",
        body=ConsumersQuery,
        answer=list[ConsumerInfo],
        pool=CONSUMERS,
    ),
    Verb(
        name="reset",
        summary="Starts a named consumer again at a position.",
        body=ResetConsumer,
        answer=ConsumerInfo,
        access=Access.OPERATOR,
        pool=CONSUMERS,
    ),
    Verb(
        name="evict",
        summary="Forgets a named consumer.",
        body=EvictConsumer,
        answer=Nothing,
        access=Access.OPERATOR,
        pool=CONSUMERS,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="letters",
        summary="Lists the dead letters of a named consumer.",
        body=DeadLettersQuery,
        answer=DeadLettersAnswer,
        pool=CONSUMERS,
    ),
    Verb(
        name="save",
        summary="Takes a snapshot now.",
        body=Save,
        answer=SaveAnswer,
        access=Access.OPERATOR,
        pool=READS,
        timeout_factor=20,
    ),
    Verb(
        name="revise",
        summary="Records that the pins of a snapshot may differ from today's.",
        body=Revise,
        answer=ReviseAnswer,
        access=Access.OPERATOR,
        pool=READS,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="verify",
        summary="Checks chain, sequences, keys and heads of the ledger.",
        body=Verify,
        answer=VerifyAnswer,
        pool=READS,
        timeout_factor=100,  # a large ledger takes minutes
    ),
    Verb(
        name="prune",
        summary="Drops every receipt up to a position.",
        body=Prune,
        answer=PruneAnswer,
        access=Access.OPERATOR,
        pool=PRUNES,
        timeout_factor=100,  # what is dropped is read before
    ),
    Verb(name="clients", summary="Lists the registered callback clients.", body=Nothing, answer=list[ClientInfo]),
    Verb(name="manifests", summary="Lists the adapters' manifests.", body=Nothing, answer=list[AdapterManifest]),
    Verb(name="status", summary="Says how the broker is.", body=Nothing, answer=BrokerStatus),
)

FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "app_server_verbs": (
        "observe",
        "steer",
        "steered",
        "approval_decide",
        "signals",
        "threads",
    ),
    "inbox_verbs": (
        "inbox_ask",
        "inbox_list",
        "inbox_show",
        "inbox_answer",
        "inbox_withdraw",
    ),
    "extension_verbs": (
        "extensions_list",
        "extensions_reload",
        "extensions_trust",
        "extensions_denied",
        "extensions_audit",
    ),
    "flow_verbs": (
        "flow_submit",
        "flow_list",
        "flow_show",
        "flow_wait",
        "flow_resume",
        "flow_abort",
        "flow_retry",
        "flow_signals",
        "flow_logs",
        "flow_log",
        "flow_cost",
        "flow_costs",
        "flow_events",
        "flow_compact",
        "flow_claim",
        "flow_record",
    ),
    "job_verbs": (
        "job_enqueue",
        "job_list",
        "job_show",
        "job_wait",
        "job_cancel",
        "job_retry",
        "job_drain",
    ),
    "transcript_verbs": (
        "transcript_upsert",
        "transcript_show",
        "transcript_list",
        "suggest_request",
        "suggestion_upsert",
        "suggestion_show",
    ),
}
"""The verbs of parts that few use, by their module in `tables`: its types are made when one of them is looked up."""

VERBS: Final = VerbTable(_TABLE, {f"{tables.__name__}.{module}": names for module, names in FAMILIES.items()})
"""Every verb by its name; docs/wire-protocol.md, "Verbs", has the same table for people."""


def find_verb(name: str) -> Verb:
    """Return a verb of the table.

    Raises:
        InvalidRequest: there is none of this name (`unknown_verb`).
    """
    # The name is at most 32 letters: a header with more is refused before.
    verb = VERBS.get(name)
    if verb is None:
        raise InvalidRequest(f"no such verb: `{name}`; known are {', '.join(VERBS)}", code="unknown_verb")
    return verb
