"""`lifebus invoke`: one dispatch to a command, without a broker."""

import sys
from typing import TYPE_CHECKING

from lifebus.cli.bus.command import AS_IT_IS, Command, Running, cancel_on_signal, spec_of
from lifebus.cli.connection import CLIENT_ID
from lifebus.cli.documents import read_document
from lifebus.cli.exit_codes import ExitCode, exit_code_of
from lifebus.cli.terminal import color_wanted, put_bytes, say
from lifebus_contract import DispatchEnvelope, ReceiptStatus, decode_json
from lifebus_contract.codec import decode_receipt

if TYPE_CHECKING:
    from lifebus_admin.invocation import Invocation, Invoked
    from lifebus_supervisor.configuration.settings import Settings


def invoke(*command: Command, running: Running = AS_IT_IS) -> ExitCode:
    """Ask a command about one dispatch envelope from stdin, and print its receipt: `lifebus invoke -- ./client`.

    No broker is needed and nothing is kept: the receipt has no sequence, and no key is known again. With payloads in
    the envelope there are two receipts, that of their placement first. Exit code 1 if a receipt says `failed`; 65 if
    the envelope is against the contract.

    Args:
        command: The command and its arguments; no shell reads them.
        running: How the command is run.
    """
    spec, kind, seconds = spec_of(command, running), running.kind, running.seconds
    from lifebus_admin.invocation import Invocation  # noqa: PLC0415
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

    settings, _ = load()
    envelope = decode_json(read_document(None), DispatchEnvelope)
    name = running.name_for(command)
    outcome = _run(settings, envelope, Invocation(client_id=name, spec=spec, protocol=kind, deadline=seconds))
    return ExitCode.INTERRUPTED if outcome is None else _shown(outcome)


def _run(settings: "Settings", envelope: DispatchEnvelope, invocation: "Invocation") -> "Invoked | None":
    """Return what became of the dispatch; None where a signal came first."""
    import anyio  # noqa: PLC0415

    from lifebus_admin.invocation import invoke_once  # noqa: PLC0415
    from lifebus_supervisor.configuration.settings import LogSettings  # noqa: PLC0415
    from lifebus_supervisor.daemon.logging import configure  # noqa: PLC0415

    configure(LogSettings(level="error", format="console"), color=color_wanted(sys.stderr))
    found: list[Invoked] = []

    async def dispatch() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
            found.append(await invoke_once(settings, CLIENT_ID, envelope, invocation))
            tasks.cancel_scope.cancel()

    anyio.run(dispatch)
    return found[0] if found else None


def _shown(outcome: "Invoked") -> ExitCode:
    """Print the receipts in their canonical form, and return the exit code."""
    code = ExitCode.OK
    for receipt in outcome.receipts:
        put_bytes(receipt)
        if decode_receipt(receipt).status is ReceiptStatus.FAILED:
            code = ExitCode.NEGATIVE
    if outcome.fault is None:
        return code
    say(f"refused: {outcome.fault}", color="red")
    return exit_code_of(outcome.fault)
