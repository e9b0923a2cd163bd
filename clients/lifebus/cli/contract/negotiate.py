"""`lifebus contract negotiate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cyclopts import Parameter
from msgspec import to_builtins

from lifebus.cli.arguments import (
    DEFAULT_CONNECTION,
    ConnectionOptions,
    parse_capability,
    parse_choice,
    parse_session,
)
from lifebus.cli.choices import AdapterName, Capabilities, OneEvent, OneSession, parse_adapters, split_values
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.documents import naming_document, read_document
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.session_names import resolve_session
from lifebus.cli.terminal import clean, paint, put, put_json, put_table, say
from lifebus_contract import (
    LifecycleEvent,
    Negotiation,
    NegotiationOutcome,
    PayloadEnvelope,
    ReceiptStatus,
    RequirementLevel,
    TransportError,
    decode_json,
)

if TYPE_CHECKING:
    from lifebus_admin.placements import Landing
    from lifebus_contract import CapabilityRequest

_COLORS = {
    "satisfied": "green",
    "degraded": "yellow",
    "unsupported": "red",
    "requires_operator": "red",
    "delivered": "green",
}
_GOOD: Final = {ReceiptStatus.DELIVERED, ReceiptStatus.OBSERVED}
"""What becomes of a payload that lands as it wants to."""

_LANDED: Final = {*_GOOD, ReceiptStatus.DEGRADED}
"""What becomes of a payload that lands at all."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NegotiationOptions:
    """What a negotiation is about beside the adapter."""

    session: OneSession = None
    "As this session is now, what it lost meanwhile included: api#3 or ADAPTER/SESSION."
    payload: Path | None = None
    "Whether and where this payload would land: a document in JSON, judged by the manifests a broker would load."
    event: OneEvent = None
    "The payload on this event alone; else on every event."


_NO_DETAILS: Final = NegotiationOptions()


def negotiate(
    adapter: AdapterName,
    /,
    *,
    require: Capabilities = (),
    prefer: Capabilities = (),
    want: Capabilities = (),
    accept_partial: bool = False,
    about: NegotiationOptions = _NO_DETAILS,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Ask what an adapter gives for requirements, and whether and where a payload would land.

    Exit code 0 if all requirements are satisfied and the payload lands somewhere as it wants to, else 1.

    Without a broker the manifests are read that it would load.

    Args:
        adapter: The adapter's id.
        require: A capability that must be had, e.g. `placement:pre_session` or `context_pressure=native`.
        prefer: One that would be better.
        want: One that would be nice.
        accept_partial: Partial support will do.
        about: The session and the payload that it is about.
        connection: Where the broker is, and the form of the answer.
    """
    (adapter,) = parse_adapters([adapter], connection, flag="ADAPTER")
    requests = parse_requirements(require, prefer, want, accept_partial=accept_partial)
    events = _events(about.event)
    if not requests and about.payload is None:
        raise UsageError("nothing is required; give --require, --prefer, --want or --payload")
    if about.event is not None and about.payload is None:
        raise UsageError("--event: it is about --payload")
    landings = [] if about.payload is None else _landings(adapter, about.payload, events)
    session = None if about.session is None else _session_of(adapter, about.session, connection)
    found = _ask(connection, adapter, requests, session)
    lands = about.payload is None or any(one.status in _GOOD for one in landings)
    if connection.json:
        put_json(found if about.payload is None else {**to_builtins(found), "lands": lands, "placements": landings})
    else:
        if requests:
            _show(adapter, found)
        if landings:
            _show_landings(landings)
        put(f"{clean(adapter)}: {_verdict(found, landings)}")
    return ExitCode.OK if lands and found.outcome is NegotiationOutcome.SATISFIED else ExitCode.NEGATIVE


def _show(adapter: str, found: Negotiation) -> None:
    """Print every outcome, why it is no better, and for slots what payloads may ask for there."""
    titles = ("capability", "level", "wanted", "claimed", "now", "outcome")
    rows = [
        (one.capability, one.level, one.wanted, one.claimed, one.current, one.outcome.value) for one in found.outcomes
    ]
    put_table(titles, rows, color_of=_COLORS)
    for one in found.outcomes:
        if one.outcome is not NegotiationOutcome.SATISFIED:
            put(clean(one.reason))
    if any(one.capability.startswith("placement:") for one in found.outcomes):
        from lifebus_admin.placements import placements_here  # noqa: PLC0415

        if placements := placements_here(present_settings(), adapter):
            put_table(("payload placement", "on", "a payload is"), placements)


def _show_landings(landings: "list[Landing]") -> None:
    """Print where the payload lands; of the events on which it cannot, why, each reason once."""
    landed = [one for one in landings if one.status in _LANDED]
    rows = [(one.event.value, one.status.value, str(one.placement), str(one.slot or "-")) for one in landed]
    if rows:
        put_table(("event", "the payload is", "as", "in"), rows, color_of=_COLORS)
    for reason in dict.fromkeys(reason for one in landed or landings for reason in one.reasons):
        put(clean(reason))


def _verdict(found: Negotiation, landings: "list[Landing]") -> str:
    """Return both answers in words; without requirements there is only the payload's."""
    words = [paint(found.outcome.value, _COLORS[found.outcome.value])] if found.outcomes or not landings else []
    if landings:
        count = sum(one.status in _LANDED for one in landings)
        words.append(
            f"the payload lands on {count} of {len(landings)} events" if count else "the payload lands nowhere"
        )
    return ", ".join(words)


def _events(event: str | None) -> list[LifecycleEvent]:
    known: list[LifecycleEvent] = [one for one in LifecycleEvent if one is not LifecycleEvent.RECEIPT_EMITTED]
    return known if event is None else [LifecycleEvent(parse_choice("--event", event, [one.value for one in known]))]


def _landings(adapter: str, payload: Path, events: list[LifecycleEvent]) -> "list[Landing]":
    from lifebus_admin.placements import landings_here  # noqa: PLC0415

    with naming_document(payload):
        document = decode_json(read_document(payload), PayloadEnvelope)
    return landings_here(present_settings(), adapter, document, events)


def parse_requirements(
    require: tuple[str, ...], prefer: tuple[str, ...], want: tuple[str, ...], *, accept_partial: bool = False
) -> "list[CapabilityRequest]":
    """Return the requirements that the three flags express.

    Raises:
        UsageError: there is no such capability.
    """
    levels = (
        (RequirementLevel.REQUIRED, require),
        (RequirementLevel.PREFERRED, prefer),
        (RequirementLevel.OPTIONAL, want),
    )
    return [
        parse_capability(level, text, accept_partial=accept_partial)
        for level, texts in levels
        for text in split_values(texts)
    ]


def _session_of(adapter: str, text: str, connection: ConnectionOptions) -> str:
    # Without a broker the manifests are read that it would load: only a short name needs one.
    named, session = resolve_session(text, connection) if "#" in text else parse_session(text)
    # The adapter is named twice on purpose: a session id alone may exist under several adapters.
    if named != adapter:
        raise UsageError(f"--session: `{clean(text)[:64]}` is no session of {clean(adapter)}")
    return session


def _ask(
    connection: ConnectionOptions, adapter: str, requests: "list[CapabilityRequest]", session: str | None
) -> Negotiation:
    from lifebus_admin.inspection import negotiate_here  # noqa: PLC0415

    if not requests:  # there is nothing to ask a broker
        return negotiate_here(present_settings(), adapter, requests)
    try:
        return on_bus(connection, lambda bus: bus.negotiate(adapter, requests, session=session))
    except TransportError as fault:
        # A broker that is busy or refuses has an answer of its own; the manifests must not replace it.
        if fault.code != "no_broker":
            raise
    say("no broker answers; judging by the manifests", color="dim")
    return negotiate_here(present_settings(), adapter, requests)
