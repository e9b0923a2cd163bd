"""Which receipts pass the filter of a named consumer: what the ledger's query filters, and the rest.  Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_broker.ports import Query, StoredReceipt
from lifebus_contract import LifecycleEvent
from lifebus_contract.consumers import ConsumerSettings


class _EventOf(Struct):
    """The part of a receipt that a filter compares and a stored receipt has no field for."""

    event: LifecycleEvent


_MAX_WORDS: Final = 200
_EVENTS: Final = msgspec.json.Decoder(_EventOf)


def query_after(settings: ConsumerSettings, after: int, limit: int) -> Query:
    """Return the query for the next receipts after a position."""
    return Query(
        after=after,
        limit=limit,
        session=settings.sessions[0] if len(settings.sessions) == 1 else None,
        adapter_id=settings.adapters[0] if len(settings.adapters) == 1 else None,
        event=settings.events[0] if len(settings.events) == 1 else None,
    )


def queries_of_parts(settings: ConsumerSettings, after: int) -> list[Query]:
    """Return one query for each session or adapter of the filter, or a single one without a filter."""
    # A session of an adapter that is filtered out can never pass.
    sessions = [one for one in settings.sessions if not settings.adapters or one[0] in settings.adapters]
    if settings.sessions:
        return [Query(after=after, limit=1, session=session) for session in sessions]
    if settings.adapters:
        return [Query(after=after, limit=1, adapter_id=adapter) for adapter in settings.adapters]
    return [Query(after=after, limit=1)]


def any_may_pass(stored: Iterable[StoredReceipt], settings: ConsumerSettings) -> bool:
    """Whether one of the receipts may pass, judged without decoding any."""
    # Called at each commit for each consumer: decoding a receipt to read its event would cost too much here.
    return not (settings.sessions or settings.adapters) or any(_may_pass(one, settings) for one in stored)


def passes(stored: StoredReceipt, settings: ConsumerSettings) -> bool:
    """Whether a receipt that `query_after` found passes."""
    if not _may_pass(stored, settings):
        return False
    in_query = len(settings.events) < 2  # noqa: PLR2004  a single event is part of the query already
    return in_query or _EVENTS.decode(stored.receipt).event in settings.events


def describe_filter(settings: ConsumerSettings) -> str:
    """Return in words what passes, of a long filter the beginning."""
    parts = {
        "sessions": ["/".join(session) for session in settings.sessions],
        "adapters": settings.adapters,
        "events": [event.value for event in settings.events],
    }
    words = "; ".join(f"{kind} {', '.join(names)}" for kind, names in parts.items() if names)
    return words[:_MAX_WORDS] or "none, everything passes"


def _may_pass(stored: StoredReceipt, settings: ConsumerSettings) -> bool:
    session = (stored.adapter_id, stored.harness_session_id)
    return (not settings.sessions or session in settings.sessions) and (
        not settings.adapters or stored.adapter_id in settings.adapters
    )
