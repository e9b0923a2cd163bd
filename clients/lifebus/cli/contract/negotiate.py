"""`lifebus negotiate`."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_adapter, parse_capability, parse_session
from lifebus.cli.connection import on_bus, present_settings
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, paint, put, put_json, put_table, say
from lifebus_contract import Negotiation, NegotiationOutcome, RequirementLevel, TransportError

if TYPE_CHECKING:
    from lifebus_contract import CapabilityRequest

_COLORS = {"satisfied": "green", "degraded": "yellow", "unsupported": "red", "requires_operator": "red"}
Capabilities = Annotated[tuple[str, ...], Parameter(negative=())]
"""Capabilities as `CAPABILITY` or `CAPABILITY=SUPPORT`."""


def negotiate(
    adapter: str,
    /,
    *,
    require: Capabilities = (),
    prefer: Capabilities = (),
    want: Capabilities = (),
    accept_partial: bool = False,
    session: str | None = None,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Ask what an adapter gives for requirements; exit code 0 if all are satisfied, else 1.

    Without a broker the manifests are read that it would load.

    Args:
        adapter: The adapter's id.
        require: A capability that must be had, e.g. `placement:pre_session` or `context_pressure=native`.
        prefer: One that would be better.
        want: One that would be nice.
        accept_partial: Partial support will do.
        session: As this session is now, what it lost meanwhile included: ADAPTER/SESSION.
        connection: Where the broker is, and the form of the answer.
    """
    adapter = parse_adapter(adapter)
    requests = parse_requirements(require, prefer, want, accept_partial=accept_partial)
    if not requests:
        raise UsageError("nothing is required; give --require, --prefer or --want")
    found = _ask(connection, adapter, requests, None if session is None else _session_of(adapter, session))
    if connection.json:
        put_json(found)
    else:
        titles = ("capability", "level", "wanted", "claimed", "now", "outcome")
        put_table(
            titles,
            [
                (one.capability, one.level, one.wanted, one.claimed, one.current, one.outcome.value)
                for one in found.outcomes
            ],
            color_of=_COLORS,
        )
        for one in found.outcomes:
            if one.outcome is not NegotiationOutcome.SATISFIED:
                put(clean(one.reason))
        put(f"{clean(adapter)}: {paint(found.outcome.value, _COLORS[found.outcome.value])}")
    return ExitCode.OK if found.outcome is NegotiationOutcome.SATISFIED else ExitCode.NEGATIVE


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
    return [parse_capability(level, text, accept_partial=accept_partial) for level, texts in levels for text in texts]


def _session_of(adapter: str, text: str) -> str:
    named, session = parse_session(text)
    # The adapter is named twice on purpose: a session id alone may exist under several adapters.
    if named != adapter:
        raise UsageError(f"--session: `{clean(text)[:64]}` is no session of {clean(adapter)}")
    return session


def _ask(
    connection: ConnectionOptions, adapter: str, requests: "list[CapabilityRequest]", session: str | None
) -> Negotiation:
    try:
        return on_bus(connection, lambda bus: bus.negotiate(adapter, requests, session=session))
    except TransportError as fault:
        # A broker that is busy or refuses has an answer of its own; the manifests must not replace it.
        if fault.code != "no_broker":
            raise
    from lifebus_admin.inspection import negotiate_here  # noqa: PLC0415

    say("no broker answers; judging by the manifests", color="dim")
    return negotiate_here(present_settings(), adapter, requests)
