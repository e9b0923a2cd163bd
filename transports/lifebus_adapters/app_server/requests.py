"""What a client asked the server and has no answer to yet, as far as it concerns threads.  Pure."""

from typing import Final

from msgspec import Struct

from lifebus_adapters.app_server.messages import RequestId, RpcRequest
from lifebus_adapters.app_server.operators import request_key

OPENING: Final = {"thread/start": "started", "thread/resume": "resumed", "thread/fork": "forked"}
"""The requests whose answers say that a thread is open, and how it was opened."""

RECORD_METHODS: Final = frozenset(
    {*OPENING, "thread/read", "thread/unarchive", "thread/revert", "thread/metadata/update"}
)
"""The requests whose answers hold a thread's record."""

COMPACT: Final = "thread/compact/start"
"""The request for a turn that rewrites the context and does no more."""

_TURN: Final = "turn/start"
_MAX_PENDING: Final = 1_024


class Sent(Struct, frozen=True):
    """A request that waits for its answer, the thread that it names, and whether it is lifebus's own."""

    method: str
    thread: str | None
    ours: bool = False


class ClientRequests:
    """The requests that wait; of very many the first is forgotten."""

    def __init__(self) -> None:
        self._sent: dict[tuple[type, RequestId], Sent] = {}

    def note(self, request: RpcRequest, thread: str | None, *, ours: bool = False) -> None:
        """Remember a request if its answer matters."""
        # Everything else would only push out the requests that matter.
        if request.method not in RECORD_METHODS and request.method not in {COMPACT, _TURN}:
            return
        self._sent[request_key(request.id)] = Sent(request.method, thread, ours)
        if len(self._sent) > _MAX_PENDING:
            del self._sent[next(iter(self._sent))]

    def answered(self, number: RequestId) -> Sent | None:
        """Return the request that an answer belongs to, and wait for it no longer."""
        return self._sent.pop(request_key(number), None)

    def awaits_turn(self, thread: str) -> bool:
        """Whether a turn of a thread is asked for: then the next one is that."""
        return any(sent.method == _TURN and sent.thread == thread for sent in self._sent.values())

    @property
    def awaits_thread(self) -> bool:
        """Whether a thread is asked for whose id nobody knows yet."""
        return any(sent.method in OPENING for sent in self._sent.values())
