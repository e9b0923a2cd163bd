"""The bodies of the verbs of callback workers: registration, dispatches, responses."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    LifecycleEvent,
)
from lifebus_contract.fields import Document, FactValue, Identifier
from lifebus_contract.vocabulary import UNSERVABLE
from lifebus_transports.messages.common import RefusalInfo

WORKER: Final = "worker"
"""The kind of a client that serves over a connection."""

COMMAND: Final = "command"
"""The kind of a client that is a command of the configuration."""

EvidenceKey = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.]*$(?!\n)", max_length=56)]
"""A name of evidence: a fact's, with room for the prefix that it gets in the receipt."""


class Serve(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`serve`: register this connection as a callback client.

    Dispatches come as `dispatch`; the worker repeats `serve` every second, or it is taken for gone after three.
    """

    client_id: Identifier
    # There are fourteen events.
    events: Annotated[tuple[LifecycleEvent, ...], Meta(min_length=1, max_length=14)]
    adapters: Annotated[tuple[Identifier, ...], Meta(max_length=64)] = ()
    requirements: Annotated[tuple[CapabilityRequest, ...], Meta(max_length=64)] = ()
    deadline_ms: Annotated[int, Meta(ge=1, le=600_000)] = 2_000

    def __post_init__(self) -> None:
        if LifecycleEvent.RECEIPT_EMITTED in self.events:
            raise ValueError(UNSERVABLE)


class Dispatch(Document, frozen=True, kw_only=True):
    """`dispatch`, from the broker to a worker: which of its clients gets which envelope, and how long it may take."""

    client_id: Identifier
    envelope: DispatchEnvelope
    deadline_ms: int


class Response(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`response`: a worker's answer to the dispatch with this correlation id, or why it has none.

    `evidence` is what the worker saw of the process it called in turn; the receipt has each under ``client_<name>``.
    """

    # Neither is possible as well, and fails the dispatch: a worker may be in another language.
    response: CallbackResponse | None = None
    refusal: RefusalInfo | None = None
    evidence: Annotated[dict[EvidenceKey, FactValue], Meta(max_length=16)] = {}  # noqa: RUF012  msgspec makes a new one each time


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
