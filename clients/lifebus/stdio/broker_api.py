"""The API of a broker as a peer of `lifebus dev stdio` gets it: calls and streams, over the client library."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from lifebus._internal.answers import unreadable
from lifebus._internal.worker import Handler
from lifebus.stdio.bodies import ConsumeReceipts, FollowReceipts, FollowSignals
from lifebus.stdio.lazy_bus import LazyBus
from lifebus.stdio.sources import FollowSource, open_source
from lifebus_contract import validate
from lifebus_transports.framing.json_lines import encode_body, wait_of
from lifebus_transports.messages.emissions import Emit
from lifebus_transports.messages.verb_types import Repeat
from lifebus_transports.messages.verbs import find_verb
from lifebus_transports.messages.workers import Serve


class BrokerApi:
    """What `lifebus_supervisor.api.Api` is in the broker's process: `call` for one answer, a stream for more.

    Streams go on over restarts of the broker, as those of the client library do.
    """

    def __init__(self, bus: LazyBus) -> None:
        self._bus = bus

    async def call(self, name: str, body: dict[str, Any]) -> object:
        """Return the answer to one call as plain data, in which byte strings are JSON.

        A call that is recorded by key is made again where no answer comes.

        Raises:
            InvalidRequest: there is no such verb, or the body cannot be read.
            LifebusError: the broker refused, or no answer came.
        """
        verb = find_verb(name)
        if verb.repeat is Repeat.KEYED:
            # Checked before there is a broker: a faulty body is faulty without one.
            emissions = validate(body, Emit)
            # The outbox sends again under the same keys, which records nothing twice.
            recorded = await (await self._bus.connected()).record(emissions)
            return msgspec.to_builtins(recorded, builtin_types=(bytes,))
        bus = await self._bus.connected()
        answer = await bus.ask(name, encode_body(verb, body), more=wait_of(verb, body))
        try:
            return msgspec.msgpack.decode(answer)
        except msgspec.DecodeError as fault:
            raise unreadable(str(fault)) from None

    @asynccontextmanager
    async def stream(self, body: FollowReceipts | FollowSignals | ConsumeReceipts) -> AsyncGenerator[FollowSource]:
        """Yield what a subscription follows; leaving the block ends it.

        Raises:
            LifebusError: there is no broker yet, or whatever the client library raises.
        """
        async with open_source(await self._bus.connected(), body) as source:
            yield source

    async def serve(self, registration: Serve, handler: Handler, on_ready: Callable[[], None]) -> None:
        """Stream dispatches to `handler` until cancelled; `on_ready` is called when the broker has registered it.

        Raises:
            LifebusError: the broker refused the registration, or ended it.
        """
        bus = await self._bus.connected()
        await bus.serve(
            registration.events,
            handler,
            adapters=registration.adapters,
            requirements=registration.requirements,
            deadline=registration.deadline_ms / 1000,
            client_id=registration.client_id,
            on_ready=on_ready,
        )
