"""What may stand for a value: the words of the contract, the adapters there are, and what a running broker knows."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from cyclopts import Parameter

from lifebus.cli.arguments import ConnectionOptions, parse_adapter, parse_choice
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.wording.receipt_line import name_of
from lifebus_contract import CAPABILITIES, LifebusError, LifecycleEvent, PlacementClass, ReceiptStatus
from lifebus_contract.jobs import ADAPTER
from lifebus_contract.vocabulary import FLOW_ADAPTER

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

    from lifebus.client import Bus

T = TypeVar("T")

EVENTS: Final = tuple(event.value for event in LifecycleEvent)
STATUSES: Final = tuple(status.value for status in ReceiptStatus)
_PATIENCE: Final = "500ms"
"""How long a shell waits for what a broker could suggest."""


def split_values(texts: Iterable[str]) -> list[str]:
    """Return the values of a flag that was given several times, or once with several, or with commas between them."""
    return list(dict.fromkeys(part for text in texts for part in text.split(",") if part))


def parse_events(texts: Iterable[str], *, known: Sequence[str] = EVENTS, flag: str = "--event") -> list[LifecycleEvent]:
    """Return the events that a flag names.

    Raises:
        UsageError: there is no such event.
    """
    return [LifecycleEvent(parse_choice(flag, text, list(known))) for text in split_values(texts)]


def parse_statuses(texts: Iterable[str]) -> list[ReceiptStatus]:
    """Return the statuses that `--status` names.

    Raises:
        UsageError: there is no such status.
    """
    return [ReceiptStatus(parse_choice("--status", text, list(STATUSES))) for text in split_values(texts)]


def parse_adapters(
    texts: Iterable[str], connection: ConnectionOptions | None = None, *, flag: str = "--adapter"
) -> list[str]:
    """Return the ids of adapters that a flag names, each by its id or an alias.

    A ledger may hold receipts of adapters that are configured no more or elsewhere: with `connection` the broker is
    asked about what is not known here.

    Raises:
        UsageError: there is no such adapter.
    """
    found = [parse_adapter(text) for text in split_values(texts)]
    from lifebus_transports.built_in import BUILT_IN  # noqa: PLC0415

    # Most name one of these, and need not wait for the settings and the adapters.
    if set(found) <= set(BUILT_IN):
        return found
    known = known_adapters()
    if connection is not None and not set(found) <= set(known):
        known = list(dict.fromkeys([*known, *_seen_adapters(connection)]))
    return [parse_choice(flag, one, known) for one in found]


def known_adapters() -> list[str]:
    """Return the ids of the built-in adapters, those of the configured manifests, and those of the broker's own."""
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415  it costs start-up time

    found = [*ADAPTERS, FLOW_ADAPTER, ADAPTER]
    try:
        settings = present_settings()
        if settings.manifests:
            from lifebus_supervisor.configuration.adapters import configured_adapters  # noqa: PLC0415

            found += [one.manifest.adapter_id for one in configured_adapters(settings).all()]
    except LifebusError:  # settings that are wrong hide no adapter that is built in
        pass
    return list(dict.fromkeys(found))


def _seen_adapters(connection: ConnectionOptions) -> list[str]:
    """Return the adapters that a broker knows, or has sessions of; none where no broker answers."""

    async def ask(bus: "Bus") -> list[str]:
        manifests, heads = await bus.manifests(), await bus.sessions()
        return [*(one.adapter_id for one in manifests), *(head.adapter_id for head in heads)]

    try:
        return list(dict.fromkeys(on_bus(connection, ask)))
    except LifebusError:
        return []


def _adapters(_: "CompletionContext") -> list[str]:
    return known_adapters()


def _events(_: "CompletionContext") -> tuple[str, ...]:
    return EVENTS


def _statuses(_: "CompletionContext") -> tuple[str, ...]:
    return STATUSES


def _capabilities(_: "CompletionContext") -> list[str]:
    return sorted(CAPABILITIES)


def _placements(_: "CompletionContext") -> list[str]:
    return [one.value for one in PlacementClass]


def _sessions(context: "CompletionContext") -> list[tuple[str, str]]:
    heads = _asked(context, lambda bus: bus.sessions())
    # The newest first: that is the one that is meant most often.
    return [(name_of(one), f"{one.adapter_id}, {'ended' if one.ended else 'open'}") for one in reversed(heads)]


def _consumers(context: "CompletionContext") -> list[str]:
    return [one.cursor for one in _asked(context, lambda bus: bus.cursors.standing())]


def _asked(context: "CompletionContext", work: "Callable[[Bus], Awaitable[list[T]]]") -> list[T]:
    """Return what a broker says while a shell completes a line; nothing where there is none, or it takes its time."""
    directory = context.get("--runtime-dir")
    given = None if directory is None else directory.raw
    place = None if given is None else Path(given)
    try:
        return on_bus(_connection(place), work)
    except (LifebusError, OSError):
        return []


def _connection(directory: Path | None) -> ConnectionOptions:
    import os  # noqa: PLC0415  only to complete a line

    named = os.environ.get("LIFEBUS_RUNTIME_DIR")
    return ConnectionOptions(runtime_dir=directory or (Path(named) if named else None), timeout=_PATIENCE)


def _several(completer: Any, metavar: str) -> Parameter:
    return Parameter(consume_multiple=1, negative=(), completer=completer, metavar=metavar)


Adapters = Annotated[tuple[str, ...], _several(_adapters, "ADAPTER")]
"""Adapters: one after another, with commas, or the flag once more for each."""

Events = Annotated[tuple[str, ...], _several(_events, "EVENT")]
"""Lifecycle events, in the same forms."""

Statuses = Annotated[tuple[str, ...], _several(_statuses, "STATUS")]
"""Statuses of receipts, in the same forms."""

Capabilities = Annotated[tuple[str, ...], _several(_capabilities, "CAPABILITY")]
"""Capabilities as `CAPABILITY` or `CAPABILITY=SUPPORT`, in the same forms."""

Placements = Annotated[tuple[str, ...], _several(_placements, "PLACEMENT")]
"""Placements of payloads, in the same forms."""

Words = Annotated[tuple[str, ...], Parameter(consume_multiple=1, negative=())]
"""Values without a list that they are from, in the same forms."""

Several = Words
"""Values that may have commas themselves: one after another, or the flag once more for each."""

Sessions = Annotated[tuple[str, ...], _several(_sessions, "SESSION")]
"""Sessions, in the same forms."""

OneAdapter = Annotated[str | None, Parameter(completer=_adapters, metavar="ADAPTER")]
"""One adapter."""

AdapterName = Annotated[str, Parameter(completer=_adapters, metavar="ADAPTER")]
"""An adapter that has to be named."""

OneEvent = Annotated[str | None, Parameter(completer=_events, metavar="EVENT")]
"""One lifecycle event."""

OneSession = Annotated[str | None, Parameter(completer=_sessions, metavar="SESSION")]
"""One session."""

SessionName = Annotated[str, Parameter(completer=_sessions)]
"""A session that has to be named."""

ConsumerName = Annotated[str, Parameter(completer=_consumers, help="The name that it consumes under.")]
"""The name of a named consumer."""
