"""`lifebus down`: the running broker, stopped in order."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lifebus.cli.arguments import parse_seconds
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put_json, say


def down(
    *,
    runtime_dir: Annotated[Path | None, Parameter(env_var="LIFEBUS_RUNTIME_DIR")] = None,
    timeout: str = "30s",
    json: bool = False,
) -> ExitCode:
    """Stop the running broker, and wait until it is gone; exit code 69 when there is none, or it does not end.

    What it has taken is recorded before it ends, and hook calls wait in the spool for the next one.

    Args:
        runtime_dir: The directory with the broker's sockets.
        timeout: How long to wait for its end; the default is 30s.
        json: Answer in JSON.
    """
    from lifebus_admin.service.processes import holder_of, stop_broker  # noqa: PLC0415
    from lifebus_transports.directories import default_runtime_dir  # noqa: PLC0415

    directory, seconds = (runtime_dir or default_runtime_dir()).absolute(), parse_seconds(timeout)
    holder = holder_of(directory)
    gone = holder is not None and stop_broker(directory, holder, seconds)
    if json:
        pid = None if holder is None else holder.pid
        put_json({"runtime_dir": str(directory), "pid": pid, "stopped": gone})
    elif holder is None:
        say(f"nothing to stop: no broker runs at {directory}")
    elif gone:
        say(f"stopped: {holder.words}", color="green")
    else:
        say(f"lifebus: {holder.words}, has not ended within {timeout}", color="red")
        say("  wait longer with --timeout, or end it: what is recorded is safe, and the next start goes on from there")
    return ExitCode.OK if gone else ExitCode.UNAVAILABLE
