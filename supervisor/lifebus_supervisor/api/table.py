"""Each verb of the table with its handler."""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from lifebus_contract import BrokerBusy, LifebusError
from lifebus_contract.fields import Document
from lifebus_supervisor.api.calls import Call
from lifebus_transports.messages.verb_types import Verb
from lifebus_transports.messages.verbs import VERBS

Handler = Callable[[Call, Any], Any]
"""Takes a call and its decoded body, and returns the answer; for a verb with a pool, an awaitable of the answer.

None is no answer: it comes later by `Call.answer`, or the verb has none.  What it raises as `LifebusError` refuses.
"""

Handlers = Mapping[str, Handler]
"""The handlers of one family of verbs, by the verbs' names."""


Work = Callable[[Any], Awaitable[object]]
"""Takes the decoded body of a call and returns the answer; who calls is nothing to it."""


class BoundVerb(Struct, frozen=True):
    """A verb, and what serves it."""

    verb: Verb
    handle: Handler


class BoundVerbs(dict[str, BoundVerb]):
    """Verbs with their handlers, each put together when it is first called: the types of most are never needed."""

    def __init__(self, handlers: Handlers) -> None:
        super().__init__()
        self._handlers = handlers

    def __missing__(self, name: str) -> BoundVerb:
        bound = self[name] = BoundVerb(VERBS[name], self._handlers[name])
        return bound


def bind(families: Iterable[Handlers]) -> BoundVerbs:
    """Return every verb of the table with its handler.

    Raises:
        ValueError: a verb has no handler or two, or a handler has no verb.
    """
    handlers: dict[str, Handler] = {}
    for family in families:
        for name, handler in family.items():
            if name not in VERBS or name in handlers:
                raise ValueError(f"`{name}` is no verb of the table, or is served twice")
            handlers[name] = handler
    # Checked when the broker starts, so that no call finds a verb without a handler.
    if missing := VERBS.keys() - handlers.keys():
        raise ValueError(f"no handler for {', '.join(sorted(missing))}")
    return BoundVerbs(handlers)


def durable_handlers(served: Mapping[str, Work]) -> Handlers:
    """Return the handlers of verbs that wait for the ledger; one that closes is refused as busy (`closed_is_busy`)."""
    return {verb: partial(_serve, work) for verb, work in served.items()}


@contextmanager
def closed_is_busy() -> Generator[None]:
    """Refuse as busy what a ledger refuses that closes: the broker stops, and the call may be made to the next one.

    Raises:
        BrokerBusy: the ledger closes.
    """
    try:
        yield
    except LifebusError as fault:
        if fault.code == "closed":
            raise BrokerBusy("the broker is stopping; try again", code="busy") from None
        raise


async def _serve(work: Work, _: Call, body: Document) -> object:
    with closed_is_busy():
        return await work(body)
