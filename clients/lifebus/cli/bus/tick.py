"""`lifebus tick`: have the broker look at its harnesses now."""

from typing import Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULTS, Connecting, UsageError
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import say


def tick(
    *,
    adapter: Annotated[str | None, Parameter(env_var=["LIFEBUS_HOST_ADAPTER", "LIFELOOP_HOST_ADAPTER"])] = None,
    session: str | None = None,
    connecting: Connecting = DEFAULTS,
) -> ExitCode:
    """Look at telemetry, processes and silence now, and print the receipts of what was found.

    A tick that is asked for is always recorded itself.

    Args:
        adapter: Only this adapter.
        session: Only this session of the adapter, by the harness's own session id.
        connecting: Where the broker is, and the form of the answer.
    """
    adapter = adapter or None  # a variable may be set and empty
    if session is not None and adapter is None:
        raise UsageError("--session needs --adapter: a session is named together with its adapter")
    looked = on_bus(connecting, lambda bus: bus.tick(adapter, session))
    from lifebus.cli.printing import ReceiptPrinter  # noqa: PLC0415

    printer = ReceiptPrinter(json=connecting.json)
    for receipt in looked.receipts:
        printer.show(receipt)
    if printer.form == "columns":
        say(f"{looked.sessions} sessions, {looked.files} files looked at, {looked.degraded} degraded", color="dim")
    return ExitCode.OK
