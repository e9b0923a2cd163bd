"""`lifebus stdio`: the request protocol as JSON lines, for harnesses and editors that launch their helpers."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import parse_seconds
from lifebus.cli.connection import configure_logs
from lifebus.cli.exit_codes import ExitCode


def stdio(
    *,
    runtime_dir: Annotated[Path | None, Parameter(env_var="LIFEBUS_RUNTIME_DIR")] = None,
    timeout: str = "5s",
) -> ExitCode:
    """Speak the request protocol on stdin and stdout, one JSON object a line, until stdin ends.

    docs/stdio.md describes the lines.  Logs go to stderr.

    Args:
        runtime_dir: The directory with the broker's sockets.
        timeout: How long a question may wait for the broker.
    """
    import anyio  # noqa: PLC0415

    from lifebus.stdio.peer import speak  # noqa: PLC0415
    from lifebus.stdio.streams import Inlet, Outlet  # noqa: PLC0415

    seconds = parse_seconds(timeout)
    configure_logs()

    async def run() -> None:
        with closing(Outlet(1)) as outlet:
            await speak(Inlet(0), outlet, runtime_dir=runtime_dir, timeout=seconds)

    anyio.run(run)
    return ExitCode.OK
