"""`lifebus inject`: a text into the context of sessions that begin, and proof of where it arrived."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_seconds, require_name
from lifebus.cli.bus.programs import require_program
from lifebus.cli.choices import Adapters, Words, parse_adapters, split_values
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import clean, put, put_json, say
from lifebus.cli.tools.session_choice import SessionChoice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lifebus import Bus
    from lifebus.cli.tools.inject_loop import TextSubject
    from lifebus.cli.tools.inject_rules import InjectOutcome
    from lifebus_contract import AdapterManifest
    from lifebus_transports.processes.once import Commands

Command = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""One part of the command that follows `--`."""

_MOST_BYTES: Final = 131_072
_LONGEST_S: Final = 600
_SLOTS: Final = ("pre_session", "pre_frame_leading", "pre_frame_trailing")


def inject(
    *command: Command,
    file: Path | None = None,
    adapter: Adapters = (),
    project: Words = (),
    name: Annotated[str, Parameter(name="--client")] = "inject",
    open_too: Annotated[bool, Parameter(name="--open", negative="")] = False,
    text_timeout: str = "30s",
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Put a text into the context of each session that begins, and show where it arrived; until it is stopped.

    The text is that of a file, read anew for each session, or what a command writes to stdout.

    Args:
        command: The command and its arguments; no shell reads them. It gets the session as JSON on stdin.
        file: The file with the text, in UTF-8.
        adapter: Only sessions of this harness.
        project: Only sessions in this folder, by its name or path; * stands for any letters.
        name: The client's name in receipts. Default: inject.
        open_too: Open sessions get it too, with their next prompt, unless they have it already.
        text_timeout: How long the command may take; default: 30s.
        connection: Where the broker is, and the form of what is shown.
    """
    require_name("--client", name)
    seconds = _checked(file, command, text_timeout)
    text = _read(file) if file is not None else None
    adapters = tuple(parse_adapters(adapter))
    choice = SessionChoice(adapters=adapters, projects=tuple(split_values(project)))

    async def work(bus: "Bus") -> ExitCode:
        import anyio  # noqa: PLC0415

        from lifebus.cli.bus.serve import cancel_on_signal  # noqa: PLC0415
        from lifebus.cli.tools.inject_loop import Injector  # noqa: PLC0415
        from lifebus_transports.processes.once import Commands  # noqa: PLC0415

        _say_limits(name, text, [one for one in await bus.manifests() if one.adapter_id in adapters or not adapters])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
            read = _of_file(file) if file is not None else _of_command(Commands(tasks), command, seconds)
            show = partial(_show, connection.json)
            injector = Injector(bus, name, choice=choice, read_text=read, show=show, tasks=tasks)
            ready = partial(say, f"injecting as {name}; Ctrl-C stops", color="dim")
            await injector.run(takes_open=open_too, on_ready=ready)
        return ExitCode.OK

    return on_bus(connection, work, client_id=name, lasting=True)


def _checked(file: Path | None, command: "Sequence[str]", timeout: str) -> float:
    """Return how long the command may take, in seconds.

    Raises:
        UsageError: there is no text, or there are two, or it is none that can be had.
    """
    if (file is None) == (not command):
        much = "give one text alone" if command else "give the text"
        raise UsageError(f"{much}: --file FILE, or a command after `--`")
    seconds = parse_seconds(timeout, "--text-timeout")
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError("--text-timeout: between 1ms and 10m")
    if command:
        require_program(command)
    return seconds


def _of_file(file: Path) -> "Callable[[TextSubject], Awaitable[str]]":
    async def read(_: "TextSubject") -> str:
        import anyio.to_thread  # noqa: PLC0415

        from lifebus.cli.tools.inject_loop import TextFault  # noqa: PLC0415

        try:
            return await anyio.to_thread.run_sync(_read, file)
        except (UsageError, OSError) as fault:
            raise TextFault(str(fault)) from None

    return read


def _of_command(
    commands: "Commands", command: "Sequence[str]", seconds: float
) -> "Callable[[TextSubject], Awaitable[str]]":
    async def read(subject: "TextSubject") -> str:
        import msgspec  # noqa: PLC0415

        from lifebus.cli.tools.inject_loop import TextFault  # noqa: PLC0415
        from lifebus_transports.processes.spec import CommandSpec  # noqa: PLC0415

        setting = {
            "LIFEBUS_EVENT": subject.event,
            "LIFEBUS_ADAPTER": subject.adapter_id,
            "LIFEBUS_SESSION": subject.session,
            "LIFEBUS_CWD": subject.cwd or "",
        }
        spec = CommandSpec(argv=tuple(command), passing=("LIFEBUS_*",), setting=setting)
        finished = await commands.run_once(spec, msgspec.json.encode(subject) + b"\n", seconds)
        # A command that reads nothing has written its text all the same.
        if finished.exit_code != 0:
            raise TextFault(finished.stderr or finished.detail or f"exit code {finished.exit_code}")
        try:
            return _bounded(finished.stdout).rstrip("\n")
        except UsageError as fault:
            raise TextFault(str(fault)) from None

    return read


def _read(file: Path) -> str:
    """Return the text of a file.

    Raises:
        UsageError: it is too long, or no UTF-8.
        OSError: it cannot be read.
    """
    with file.open("rb") as stream:
        return _bounded(stream.read(_MOST_BYTES + 1)).rstrip("\n")


def _bounded(raw: bytes) -> str:
    if len(raw) > _MOST_BYTES:
        raise UsageError(f"the text is longer than {_MOST_BYTES} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UsageError("the text is no UTF-8") from None


def _say_limits(name: str, text: str | None, manifests: "Sequence[AdapterManifest]") -> None:
    """Say how much each harness takes, and which of them refuse a text of this size.

    Raises:
        UsageError: none of them takes it.
    """
    from lifebus.cli.tools.inject_loop import payload_of  # noqa: PLC0415
    from lifebus_contract.payload_text import text_size  # noqa: PLC0415

    limits = {one.adapter_id: _limit(one) for one in manifests}
    taking = {adapter: limit for adapter, limit in limits.items() if limit is not None}
    size = 0 if text is None else text_size([payload_of(name, ("x" * 8, "x" * 36), text)])
    small = [adapter for adapter, limit in taking.items() if limit < size]
    if len(small) == len(taking):
        raise UsageError(f"no harness takes this text: it needs {size} bytes; {_words(taking) or 'none takes any'}")
    say(f"limits in bytes: {_words(taking)}" + (f"; the text needs {size}" if text is not None else ""), color="dim")
    if small:
        say(f"too long for {', '.join(small)}: it is refused there", color="yellow")


def _limit(manifest: "AdapterManifest") -> int | None:
    """Return the most bytes that a harness takes before a prompt, None where it takes nothing."""
    found = [
        claim.max_bytes or _MOST_BYTES
        for slot, claim in manifest.placement.items()
        if slot in _SLOTS and claim.support.value not in {"unavailable", "manual"}
    ]
    return max(found, default=None)


def _words(limits: dict[str, int]) -> str:
    return ", ".join(f"{adapter} {limit}" for adapter, limit in sorted(limits.items()))


def _show(json: bool, outcome: "InjectOutcome") -> None:
    if json:
        put_json(outcome, indent=0)
        return
    where = f" ({outcome.placement})" if outcome.placement else ""
    why = f": {outcome.why}" if outcome.why else ""
    put(clean(f"{outcome.name}: {outcome.outcome.replace('_', ' ')} at {outcome.event}{where}{why}"))
