"""The page of all metrics: what `status` and the consumers say, and the durations, as text."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from lifebus_broker.durations import Durations
from lifebus_broker.routing.clients import CallbackClient
from lifebus_contract.consumers import ConsumerInfo
from lifebus_supervisor.metrics.exposition import Samples, text_of, text_of_durations
from lifebus_supervisor.metrics.families import BROKER, COMMANDS, CONSUMERS, COUNTED, DURATIONS, HARNESSES
from lifebus_transports.messages.status import BrokerStatus, HarnessStatus


class MetricSources(Struct, frozen=True, kw_only=True):
    """Where the numbers come from; each is asked when the page is read, so that nothing is kept for it.

    `durations` are in the order of `DURATIONS`.
    """

    status: Callable[[], BrokerStatus]
    consumers: Callable[[], Sequence[ConsumerInfo]]
    clients: Callable[[], Sequence[CallbackClient]]
    durations: tuple[Durations, Durations, Durations, Durations]

    def text(self) -> str:
        """Return the page in the text format of Prometheus."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        status = self.status()
        commands = [client for client in self.clients() if client.kind == "command"]
        families = (*BROKER, *HARNESSES, *CONSUMERS, *COMMANDS)
        samples: tuple[Samples, ...] = (
            *_of_broker(status),
            *_of_harnesses(status),
            *_of_consumers(self.consumers()),
            {(client.client_id,): client.dispatched for client in commands},
            {(client.client_id,): client.failed for client in commands},
        )
        for family, found in zip(families, samples, strict=True):
            yield from text_of(family, found)
        for family, durations in zip(DURATIONS, self.durations, strict=True):
            yield from text_of_durations(family, durations)
        for family in COUNTED:
            # What a broker does not have, such as a gateway, it does not count.
            if family.counter in status.counters:
                yield from text_of(family, {(): status.counters[family.counter]})


def _of_broker(status: BrokerStatus) -> Iterator[Samples]:
    """Yield the samples of `BROKER`."""
    ledger = status.ledger
    yield {(status.version, status.contract_version, ledger.backend, ledger.durability): 1}
    for number in (
        status.uptime_s,
        ledger.head,
        ledger.floor,
        int(ledger.writable),
        ledger.queued,
        ledger.size_bytes,
        len(ledger.damaged),
        status.clients,
    ):
        yield {(): number}


def _of_harnesses(status: BrokerStatus) -> Iterator[Samples]:
    """Yield the samples of `HARNESSES`."""
    waiting = Counter(one.adapter_id for one in status.waiting)

    def each(value: Callable[[HarnessStatus], int | None]) -> Samples:
        found = ((one.adapter_id, value(one)) for one in status.harnesses)
        return {(adapter,): number for adapter, number in found if number is not None}

    yield each(lambda one: one.sessions)
    yield each(lambda one: waiting[one.adapter_id])
    yield each(lambda one: one.open_frames)
    yield each(lambda one: one.last_event_age_s)
    yield each(lambda one: one.last_hook_age_s)
    yield each(lambda one: one.files)
    yield each(lambda one: one.skipped_records)
    yield each(lambda one: len(one.silent))
    yield each(lambda one: len(one.degraded))


def _of_consumers(consumers: Iterable[ConsumerInfo]) -> Iterator[Samples]:
    """Yield the samples of `CONSUMERS`."""
    found = list(consumers)
    yield {(one.cursor,): one.lag for one in found}
    yield {(one.cursor,): one.open for one in found}
    yield {(one.cursor,): one.dead for one in found}
    yield {(one.cursor,): int(one.attached) for one in found}
