"""`lifebus serve` and `lifebus dev invoke`: a command as a callback client, with a broker or for one dispatch."""

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_choice, parse_seconds
from lifebus.cli.bus.programs import name_of_program, require_command
from lifebus.cli.choices import Adapters, Capabilities, Events, Words, parse_adapters, parse_events, split_values
from lifebus.cli.connection import CLIENT_ID, on_bus, present_settings
from lifebus.cli.contract.negotiate import parse_requirements
from lifebus.cli.documents import naming_document, read_document
from lifebus.cli.errors import refusal_lines
from lifebus.cli.exit_codes import ExitCode, UsageError, exit_code_of
from lifebus.cli.terminal import color_wanted, put_bytes, say, say_lines
from lifebus_contract import (
    SERVABLE_EVENTS,
    DispatchEnvelope,
    LifecycleEvent,
    ReceiptStatus,
    decode_json,
)
from lifebus_contract.codec import decode_receipt
from lifebus_contract.vocabulary import UNSERVABLE

if TYPE_CHECKING:
    from anyio import CancelScope

    from lifebus.client import Bus
    from lifebus_admin.invocation import Invocation, Invoked
    from lifebus_supervisor.configuration.settings import Settings
    from lifebus_transports.processes.spec import CommandSpec

_PROTOCOLS: Final = ["oneshot", "jsonl", "msgpack"]
_LONGEST_S: Final = 600

Command = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""One part of the command that follows `--`."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """How the command is run, and how long it may take."""

    client: str | None = None
    "The client's name. Default: the program's name, or the file and place of the script that an interpreter runs."
    protocol: str = "oneshot"
    "oneshot: a fresh child each time; jsonl or msgpack: children that stay."
    deadline: str = "2s"
    "How long an answer may take; the default is 2s."
    env: Words = ()
    "Further variables that the command gets; NAME* for all that begin so."

    @property
    def seconds(self) -> float:
        """The deadline in seconds.

        Raises:
            UsageError: it is none, or longer than ten minutes.
        """
        seconds = parse_seconds(self.deadline, "--deadline")
        if not 0 < seconds <= _LONGEST_S:
            raise UsageError(f"--deadline: `{self.deadline[:64]}` is not between 1ms and 10m")
        return seconds

    @property
    def kind(self) -> str:
        """The protocol, checked.

        Raises:
            UsageError: there is no such protocol.
        """
        return parse_choice("--protocol", self.protocol, _PROTOCOLS)

    def name_for(self, command: tuple[str, ...]) -> str:
        """Return the client id under which a command is recorded."""
        return self.client or name_of_program(command)


DEFAULT_COMMAND: Final = CommandOptions()
"""Nothing was asked for."""


def spec_of(command: tuple[str, ...], run: CommandOptions) -> "CommandSpec":
    """Return what is to be run, in the caller's directory.

    Raises:
        UsageError: it can never be started.
    """
    from lifebus_transports.processes.spec import CommandSpec  # noqa: PLC0415

    require_command(command)
    # The command gets a small environment: only what is named, and lifebus's own variables.
    setting = {"LIFEBUS_CLIENT_ID": run.name_for(command)}
    return CommandSpec(argv=command, passing=(*split_values(run.env), "LIFEBUS_*"), setting=setting)


async def cancel_on_signal(scope: "CancelScope", came: Callable[[int], None] = lambda _: None) -> None:
    """Cancel when the process is asked to end, so that its children end with it; `came` gets the signal's number."""
    import anyio  # noqa: PLC0415

    from lifebus_transports.processes.ignored import not_ignored  # noqa: PLC0415

    with anyio.open_signal_receiver(signal.SIGTERM, *not_ignored(signal.SIGINT, signal.SIGHUP)) as signals:
        async for number in signals:
            came(number)
            scope.cancel()


_MOST_WORKERS: Final = 64


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Which events are served, and what they require."""

    event: Events = ()
    "The events to be asked about, e.g. frame.opening."
    adapter: Adapters = ()
    "Only events of these adapters."
    require: Capabilities = ()
    "A capability that must be had."
    prefer: Capabilities = ()
    "A capability that would be better."
    workers: int = 2
    "How many processes of the command run at once; the default is 2."


_NOTHING: Final = ServeOptions()


def serve(
    *command: Command,
    options: ServeOptions = _NOTHING,
    run: CommandOptions = DEFAULT_COMMAND,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Answer dispatches with a command, e.g. `lifebus serve --event frame.opening -- ./client`, until it is stopped.

    The command reads dispatch envelopes on stdin and writes responses on stdout. It outlives restarts of the broker.

    Args:
        command: The command and its arguments; no shell reads them.
        options: Which events are served.
        run: How the command is run.
        connection: Where the broker is.
    """
    _require_both(command, options.event)
    if not 1 <= options.workers <= _MOST_WORKERS:
        raise UsageError(f"--workers: between 1 and {_MOST_WORKERS}")
    if LifecycleEvent.RECEIPT_EMITTED in split_values(options.event):
        raise UsageError(f"--event: {UNSERVABLE.removeprefix('events: ')}")
    events = parse_events(options.event, known=[event.value for event in SERVABLE_EVENTS])
    requirements = tuple(parse_requirements(options.require, options.prefer, ()))
    adapters = tuple(parse_adapters(options.adapter, connection))
    spec, kind, seconds = spec_of(command, run), run.kind, run.seconds

    async def work(bus: "Bus") -> ExitCode:
        import anyio  # noqa: PLC0415

        from lifebus_supervisor.daemon.command_clients import answering, invoker_of  # noqa: PLC0415
        from lifebus_transports.processes.once import Commands  # noqa: PLC0415

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
            invoker = invoker_of(spec, kind, options.workers, Commands(tasks), tasks)
            await bus.serve(
                events,
                answering(invoker, seconds),
                adapters=adapters,
                requirements=requirements,
                deadline=seconds,
                on_ready=lambda: say(f"serving as {run.name_for(command)}; Ctrl-C stops", color="dim"),
            )
        return ExitCode.OK

    return on_bus(connection, work, client_id=run.name_for(command), lasting=True)


def _require_both(command: tuple[str, ...], events: tuple[str, ...]) -> None:
    """Refuse a command that cannot be started, and one without events; whoever made both mistakes reads of both.

    Raises:
        UsageError: it is refused.
    """
    wrong: list[str] = []
    try:
        require_command(command)
    except UsageError as fault:
        wrong.append(str(fault))
    if not events:
        wrong.append("--event: which events is the command to be asked about? `lifebus contract events` lists them")
    if wrong:
        raise UsageError("\n".join(wrong))


_BY_SIGNAL: Final = 128
"""What a shell adds to the number of the signal that ended a command."""


def invoke(*command: Command, run: CommandOptions = DEFAULT_COMMAND) -> int:
    """Ask a command about one dispatch envelope from stdin, and print its receipt: `lifebus dev invoke -- ./client`.

    No broker is needed and nothing is kept: the receipt has no sequence, and no key is known again. With payloads in
    the envelope there are two receipts, that of their placement first. Exit code 1 if a receipt says `failed`; 65 if
    the envelope is against the contract; 128 and its number where a signal ended it, as SIGTERM with 143.

    Args:
        command: The command and its arguments; no shell reads them.
        run: How the command is run.
    """
    spec, kind, seconds = spec_of(command, run), run.kind, run.seconds
    from lifebus_admin.invocation import Invocation  # noqa: PLC0415

    settings = present_settings()
    with naming_document(None, "the dispatch on stdin"):
        envelope = decode_json(read_document(None), DispatchEnvelope)
    name = run.name_for(command)
    outcome = _run(settings, envelope, Invocation(client_id=name, spec=spec, protocol=kind, deadline=seconds))
    return _BY_SIGNAL + outcome if isinstance(outcome, int) else _shown(outcome)


def _run(settings: "Settings", envelope: DispatchEnvelope, invocation: "Invocation") -> "Invoked | int":
    """Return what became of the dispatch; the number of the signal that came first."""
    import anyio  # noqa: PLC0415

    from lifebus_admin.invocation import invoke_once  # noqa: PLC0415
    from lifebus_supervisor.configuration.settings import LogSettings  # noqa: PLC0415
    from lifebus_supervisor.daemon.logging import configure  # noqa: PLC0415

    configure(LogSettings(level="error", format="console"), color=color_wanted(sys.stderr))
    # The envelope does not name its emitter; its payloads do, and nobody else may deliver them.
    emitter = envelope.payloads[0].client_id if envelope.payloads else CLIENT_ID
    # A list, because a cancelled task group returns no value.
    found: list[Invoked | int] = []

    async def dispatch() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope, found.append)
            found.append(await invoke_once(settings, emitter, envelope, invocation))
            tasks.cancel_scope.cancel()

    anyio.run(dispatch)
    return found[0]


def _shown(outcome: "Invoked") -> ExitCode:
    """Print the receipts in their canonical form, and return the exit code."""
    code = ExitCode.OK
    for receipt in outcome.receipts:
        put_bytes(receipt)
        if decode_receipt(receipt).status is ReceiptStatus.FAILED:
            code = ExitCode.NEGATIVE
    if outcome.fault is None:
        return code
    say_lines(refusal_lines(outcome.fault))
    return exit_code_of(outcome.fault)
