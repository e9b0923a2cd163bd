"""`lifebus cloudevents`: receipts as CloudEvents, posted to an address or written as lines."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_seconds
from lifebus.cli.choices import Adapters, Events, parse_adapters, parse_events
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.read.positions import parse_start
from lifebus.cli.relays.cloudevent_format import (
    BATCHED,
    DEFAULT_SOURCE,
    STRUCTURED,
    CloudEvent,
    batches,
    check_source,
    event_of,
)
from lifebus.cli.terminal import put_bytes, say

if TYPE_CHECKING:
    from lifebus import Bus, Delivery
    from lifebus.cli.relays.relay import Send
    from lifebus.cli.tools.notify_channels import Address, Post

_MOST_BATCHED: Final = 256
_BATCH_BYTES: Final = 1_048_576
_LONGEST_S: Final = 600


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CloudEventOptions:
    """Which events are made of which receipts, and where they go."""

    adapter: Adapters = ()
    "Only receipts of this harness."
    event: Events = ()
    "Only receipts of this event, e.g. frame.ended."
    source: str = DEFAULT_SOURCE
    "What the events' source begins with: a URI, or the path of one; the harness stands behind it. Default: /lifebus."
    webhook: str | None = None
    "Post them to this address: https, or http on this machine."
    webhook_file: str | None = None
    "The same, with the address in a file that only you may read."
    webhook_variable: str | None = None
    "The same, with the address in this variable of the environment."
    secret_file: str | None = None
    "Sign posts with the secret in this file."
    secret_variable: str | None = None
    "Sign posts with the secret in this variable of the environment."
    batch: int = 1
    "How many events one post may have; default: 1, and more than that is the batch format of CloudEvents."
    send_timeout: str = "10s"
    "How long a post may take; default: 10s."

    def address(self) -> "Address | None":
        """Return where events are posted; None where they are written.

        Raises:
            UsageError: a flag says something that cannot be done.
        """
        from lifebus.cli.tools.notify_channels import Address, require_sources  # noqa: PLC0415

        if not 1 <= self.batch <= _MOST_BATCHED:
            raise UsageError(f"--batch: a number of events, from 1 to {_MOST_BATCHED}")
        secret = (self.secret_file, self.secret_variable)
        if not any((self.webhook, self.webhook_file, self.webhook_variable)):
            if any(secret) or self.batch > 1:
                raise UsageError("--secret-file, --secret-variable and --batch are for posts; give --webhook")
            return None
        require_sources(
            {"webhook": self.webhook_file, "secret": self.secret_file},
            {"webhook": self.webhook_variable, "secret": self.secret_variable},
        )
        return Address(self.webhook, self.webhook_file, self.webhook_variable, secret)

    @property
    def seconds(self) -> float:
        """How long a post may take, in seconds.

        Raises:
            UsageError: it is none, or longer than ten minutes.
        """
        seconds = parse_seconds(self.send_timeout, "--send-timeout")
        if not 0 < seconds <= _LONGEST_S:
            raise UsageError("--send-timeout: ten minutes at most")
        return seconds


_ALL_EVENTS: Final = CloudEventOptions()


def cloudevents(
    *,
    name: str = "cloudevents",
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    options: CloudEventOptions = _ALL_EVENTS,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Send receipts as CloudEvents until it is stopped: each at least once, in the order of the ledger.

    Without an address they are written to stdout, one a line. The broker remembers under the name what was sent, over
    restarts of either.

    Args:
        name: The consumer's name; each address needs its own. Default: cloudevents.
        from_: Where a new name begins: a POSITION, an EPOCH:POSITION, or `start`; without it at what comes.
        options: Which events, and where to.
        connection: Where the broker is; the events are JSON always.
    """
    address = options.address()
    maker = _Maker(options)
    since = None if from_ is None else parse_start(from_)
    seconds = options.seconds

    async def work(bus: "Bus") -> ExitCode:
        import anyio  # noqa: PLC0415

        from lifebus.cli.bus.serve import cancel_on_signal  # noqa: PLC0415
        from lifebus.cli.relays.relay import Relay  # noqa: PLC0415
        from lifebus.cli.tools.notify_channels import posting  # noqa: PLC0415

        send = _written(maker) if address is None else _posted(maker, posting(address, seconds), options.batch)
        where = "stdout" if address is None else "an address"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
            relay = Relay(bus, name, send, most=_MOST_BATCHED if address is None else options.batch, since=since)
            await relay.run(lambda: say(f"sending to {where} as {name}; Ctrl-C stops", color="dim"))
        return ExitCode.OK

    return on_bus(connection, work, client_id=name, lasting=True)


class _Maker:
    """Makes events of the deliveries that are meant."""

    def __init__(self, options: CloudEventOptions) -> None:
        self._adapters = frozenset(parse_adapters(options.adapter))
        self._events = frozenset(parse_events(options.event))
        try:
            self._source = check_source(options.source)
        except ValueError as fault:
            raise UsageError(f"--source: {fault}") from None

    def events(self, deliveries: "Sequence[Delivery]") -> list[CloudEvent]:
        return [event_of(one.raw, one.cursor.epoch, one.position, self._source) for one in deliveries if self._has(one)]

    def _has(self, delivery: "Delivery") -> bool:
        receipt = delivery.receipt
        is_of_adapter = not self._adapters or receipt.adapter_id in self._adapters
        return is_of_adapter and (not self._events or receipt.event in self._events)


def _written(maker: _Maker) -> "Send":
    """Return what writes events to stdout."""

    async def send(deliveries: "Sequence[Delivery]") -> None:
        for event in maker.events(deliveries):
            put_bytes(msgspec.json.encode(event))
        # What is acknowledged must have left this process.
        sys.stdout.flush()

    return send


def _posted(maker: _Maker, post: "Post", batch: int) -> "Send":
    """Return what posts events: one a post, or lists of them."""

    async def send(deliveries: "Sequence[Delivery]") -> None:
        events = maker.events(deliveries)
        if batch == 1:
            for event in events:
                await post(event.id, msgspec.json.encode(event), STRUCTURED)
        else:
            for first, body in batches(events, _BATCH_BYTES):
                await post(first, body, BATCHED)

    return send
