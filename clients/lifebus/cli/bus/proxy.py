"""`lifebus app-server tee`, `run` and `lifebus dev stdio`: their streams belong to an app-server or an editor."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import parse_seconds
from lifebus.cli.choices import parse_adapters
from lifebus.cli.connection import configure_logs
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.proxy.program import ProxyOptions, run_proxy

_Command = Annotated[str, Parameter(allow_leading_hyphen=False)]


def tee(*command: _Command, adapter: str = "codex", origin: str = "", runtime_dir: str = "") -> int:
    """Copy the streams between a client and its app-server: lifebus app-server tee -- codex app-server.

    Every byte passes unchanged, and the bus gets the signals. Ends as the command ends.

    Args:
        command: The app-server and its arguments, after --.
        adapter: The adapter under whose name it is recorded.
        origin: A unique name of this run; by default one is made.
        runtime_dir: The directory with the broker's sockets.
    """
    return _run_proxy(command, ProxyOptions(owned=False), adapter, origin, runtime_dir)


def run(*command: _Command, adapter: str = "codex", origin: str = "", runtime_dir: str = "", grace: str = "10s") -> int:
    """Run an app-server in a process group of its own: lifebus app-server run -- codex app-server.

    As `lifebus app-server tee`, and in the end nothing of it is left: it is terminated, and then killed, where it
    does not end.

    Args:
        command: The app-server and its arguments, after --.
        adapter: The adapter under whose name it is recorded.
        origin: A unique name of this run; by default one is made.
        runtime_dir: The directory with the broker's sockets.
        grace: How long it may take to end by itself once stdin is closed.
    """
    options = ProxyOptions(owned=True)
    # Only here: the fast path of `run` knows no --grace, and falls back to this command.
    options.grace = parse_seconds(grace, "--grace")
    return _run_proxy(command, options, adapter, origin, runtime_dir)


def _run_proxy(command: tuple[str, ...], options: ProxyOptions, adapter: str, origin: str, runtime_dir: str) -> int:
    """Run the command; this process ends with it.

    Raises:
        UsageError: there is no command, or no such adapter.
    """
    if not command:
        name = "run" if options.owned else "tee"
        raise UsageError(f"what is to be run? write it behind --, e.g. `lifebus app-server {name} -- codex app-server`")
    (options.adapter,) = parse_adapters([adapter])
    options.origin, options.runtime_dir = origin, runtime_dir
    return run_proxy(list(command), options)


def stdio(
    *,
    runtime_dir: Annotated[Path | None, Parameter(env_var="LIFEBUS_RUNTIME_DIR")] = None,
    timeout: str = "5s",
    root: Annotated[Path | None, Parameter(env_var="LIFEBUS_FLOW_ROOT")] = None,
) -> ExitCode:
    """Speak the request protocol on stdin and stdout, one JSON object a line, until stdin ends.

    docs/stdio.md describes the lines.  Logs go to stderr.

    Args:
        runtime_dir: The directory with the broker's sockets.
        timeout: How long a question may wait for the broker.
        root: The directory beneath which files may be read and written; in a phase of a flow that of its run.
    """
    import anyio  # noqa: PLC0415

    from lifebus.stdio.peer import serve_peer  # noqa: PLC0415
    from lifebus.stdio.streams import DescriptorReader, DescriptorWriter  # noqa: PLC0415

    seconds = parse_seconds(timeout)
    configure_logs()

    async def run() -> None:
        with closing(DescriptorWriter(1)) as outlet:
            await serve_peer(DescriptorReader(0), outlet, runtime_dir=runtime_dir, timeout=seconds, root=root)

    anyio.run(run)
    return ExitCode.OK
