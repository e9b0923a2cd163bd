"""`lifebus demo`."""

import logging
import sys
from typing import Annotated, Final

from cyclopts import Parameter

from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import color_wanted, put, say

_SPEEDS: Final = (0.1, 1_000.0)


def demo(*, speed: Annotated[float | None, Parameter(name="--speed")] = None, check: bool = False) -> ExitCode:
    """Show the bus at work: recorded sessions of three harnesses through real hooks into a broker of its own.

    It takes some seconds, keeps to a temporary directory, and proves at the end that no follower missed anything.

    Args:
        speed: Divide the recorded pauses by this; 1 is true pace.
        check: Show nothing, leave out the pauses, and exit 1 if a claim does not hold.
    """
    if speed is not None and not _SPEEDS[0] <= speed <= _SPEEDS[1]:
        raise UsageError(f"--speed: between {_SPEEDS[0]:g} and {_SPEEDS[1]:g}")
    import anyio  # noqa: PLC0415

    from lifebus.demo.run import run_demo  # noqa: PLC0415
    from lifebus.demo.view import DemoView, PipeConsole  # noqa: PLC0415
    from lifebus_supervisor.configuration.settings import LogSettings  # noqa: PLC0415
    from lifebus_supervisor.daemon.logging import configure  # noqa: PLC0415

    configure(LogSettings(level="error", format="console"))  # the table is the output here, not the client's log
    # A hook may be cancelled in the moment of its end: asyncio would warn that it has not seen this end itself.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    colored = color_wanted(sys.stdout)
    console = PipeConsole(
        quiet=check,
        force_terminal=sys.stdout.isatty(),
        no_color=not colored,
        color_system="auto" if colored else None,
    )
    view = DemoView(console)
    try:
        checks = anyio.run(run_demo, view, speed if check else speed or 1.0)
    # The broker and its directory are gone by now: `run_demo` has left its blocks.
    except KeyboardInterrupt:
        say("stopped; nothing was left behind")
        raise
    if check:
        for one in checks:
            put(f"{'ok    ' if one.holds else 'FAILED'} {one.name}: {one.text}")
    else:
        view.summary(checks)
    return ExitCode.OK if all(one.holds for one in checks) else ExitCode.NEGATIVE
