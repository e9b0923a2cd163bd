"""`lifebus status` and `lifebus dev tick`: how the broker, its sessions and the harnesses are."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lifebus.cli.admin.kept_checks import known_checks
from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.choices import OneAdapter, OneSession, parse_adapters
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.read.broker_status import show_status
from lifebus.cli.session_names import resolve_session
from lifebus.cli.terminal import say
from lifebus_contract import LifebusError

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract.views import SessionHead
    from lifebus_transports.messages.status import BrokerStatus


def status(*, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show how the broker and its ledger are; exit code 69 when no broker answers, 1 when it takes no writes.

    Args:
        connection: Where the broker is, and the form of the answer.
    """
    import msgspec  # noqa: PLC0415  as everything that asks

    found, open_now = (msgspec.to_builtins(one) for one in on_bus(connection, _read))
    healthy = show_status(found, open_now, known_checks(), json=connection.json)
    return ExitCode.OK if healthy else ExitCode.NEGATIVE


async def _read(bus: "Bus") -> "tuple[BrokerStatus, list[SessionHead]]":
    """Return how the broker is, and the sessions that have not ended, as far as they can be read."""
    found = await bus.status()
    try:
        return found, [head for head in await bus.sessions() if not head.ended]
    except LifebusError:  # what is wrong with the ledger stands in the status
        return found, []


def tick(
    *,
    adapter: Annotated[OneAdapter, Parameter(env_var=["LIFEBUS_HOST_ADAPTER", "LIFELOOP_HOST_ADAPTER"])] = None,
    session: OneSession = None,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Examine telemetry, processes and silence now, and print the receipts of what was found.

    A tick that is asked for is always recorded itself.

    Args:
        adapter: Only this adapter.
        session: Only this session: its short name, e.g. api#3, or with --adapter the harness's own session id.
        connection: Where the broker is, and the form of the answer.
    """
    # A variable may be set and empty.
    (adapter,) = parse_adapters([adapter], connection) if adapter else (None,)
    if session is not None and adapter is None:
        adapter, session = resolve_session(session, connection)
    elif session is not None and "#" in session:
        named, session = resolve_session(session, connection)
        if named != adapter:
            raise UsageError(f"--session: `{session[:64]}` is a session of {named}, not of {adapter}")
    result = on_bus(connection, lambda bus: bus.tick(adapter, session))
    from lifebus.cli.printing import ReceiptPrinter  # noqa: PLC0415

    printer = ReceiptPrinter(json=connection.json)
    for receipt in result.receipts:
        printer.show(receipt)
    if printer.form == "columns":
        say(f"{result.sessions} sessions, {result.files} files examined, {result.degraded} degraded", color="dim")
    return ExitCode.OK
