"""What a client asks of a stream, as the parameters of its address."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from lifebus_contract import LifecycleEvent, ReceiptStatus
from lifebus_contract.fields import Identifier
from lifebus_transports.http.following.cursors import Cursor, parse_cursor
from lifebus_transports.http.following.topics import Filters, Topic, topics_of

_Topic = Annotated[str, Meta(max_length=256)]


class StreamQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What to follow, and from where.

    `topic` comes once for each topic; `threadId` adds those of a session of an app-server; without both everything is
    followed.  `adapter`, `session`, `event`, `eventStatus`, `failed` and `waiting` choose among receipts, and then
    those alone are followed; a session is named by its short name, or by its adapter and its id.  `lastEventId` stands
    for the header `Last-Event-ID`, which wins; without either a stream begins behind what is there, or with the
    `oldest`.  With `batch`, a message of a WebSocket holds several frames, one a line.
    """

    topic: Annotated[tuple[_Topic, ...], Meta(max_length=32)] = ()
    thread_id: Annotated[str, Meta(max_length=200)] | None = None
    adapter: Identifier | None = None
    session: Identifier | None = None
    event: LifecycleEvent | None = None
    event_status: ReceiptStatus | None = None
    failed: bool = False
    waiting: bool = False
    last_event_id: Annotated[str, Meta(max_length=1024)] | None = None
    begin: Literal["now", "oldest"] = field(default="now", name="from")
    batch: bool = False
    ticket: Annotated[str, Meta(max_length=128)] | None = None

    @property
    def filters(self) -> Filters:
        """Which receipts are wanted.

        Raises:
            ValueError: a session without its adapter.
        """
        if self.session is not None and self.adapter is None:
            raise ValueError("`session` is a session of an adapter: name that, too")
        session = None if self.session is None or self.adapter is None else (self.adapter, self.session)
        return Filters(
            adapter=self.adapter,
            session=session,
            event=self.event,
            status=self.event_status,
            failed=self.failed,
            waiting=self.waiting,
        )


class Opening(Struct, frozen=True, kw_only=True):
    """What is followed, and from where."""

    topics: tuple[Topic, ...]
    thread_id: str | None
    cursor: Cursor | None
    begin: Literal["now", "oldest"]


def opening_of(query: StreamQuery, header: str | None) -> Opening:
    """Return what a client asks for.

    Raises:
        ValueError: no such topic, or a last event id of other topics.
    """
    topics = topics_of(query.topic, query.thread_id, query.filters)
    # A browser that connects again sends the header beside the address of the first time.
    last = header or query.last_event_id
    cursor = parse_cursor(last, topics) if last else None
    return Opening(topics=topics, thread_id=query.thread_id, cursor=cursor, begin=query.begin)
