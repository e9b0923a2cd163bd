"""`lifebus demo`."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import color_wanted, put, say

if TYPE_CHECKING:
    from rich.console import Console

    from lifebus.demo.checks import Check

_SPEEDS = (0.1, 1_000.0)


def demo(*, speed: Annotated[float | None, Parameter(name="--speed")] = None, check: bool = False) -> ExitCode:
    """Show the bus at work: recorded sessions of three harnesses through real hooks into a broker of its own.

    It takes some seconds, keeps to a temporary directory, and proves at the end that no follower missed anything.

    Args:
        speed: Divide the recorded pauses by this; 1 is true pace.
        check: Show nothing, leave out the pauses, and exit 1 if a claim does not hold.
    """
    if speed is not None and not _SPEEDS[0] <= speed <= _SPEEDS[1]:
        raise UsageError(f"--speed: between {_SPEEDS[0]:g} and {_SPEEDS[1]:g}")
    checks = _check(speed) if check else _show(speed or 1.0)
    return ExitCode.OK if all(one.holds for one in checks) else ExitCode.NEGATIVE


def _check(speed: float | None) -> "list[Check]":
    import anyio  # noqa: PLC0415

    from lifebus.demo.scenario import perform  # noqa: PLC0415
    from lifebus.demo.view import SilentView  # noqa: PLC0415

    _quieten()
    checks = anyio.run(perform, SilentView(), speed)
    for one in checks:
        put(f"{'ok    ' if one.holds else 'FAILED'} {one.name}: {one.text}")
    return checks


def _show(speed: float) -> "list[Check]":
    import anyio  # noqa: PLC0415

    from lifebus.demo.scenario import perform  # noqa: PLC0415
    from lifebus.demo.view import TableView, print_summary  # noqa: PLC0415

    _quieten()
    console = _console()
    try:
        with TableView(console) as view:
            checks = anyio.run(perform, view, speed)
    except KeyboardInterrupt:
        say("stopped; nothing was left behind")
        raise
    print_summary(console, checks)
    return checks


def _console() -> "Console":
    from lifebus.demo.view import PipeConsole  # noqa: PLC0415

    colored = color_wanted(sys.stdout)
    terminal = sys.stdout.isatty()
    return PipeConsole(force_terminal=terminal, no_color=not colored, color_system="auto" if colored else None)


def _quieten() -> None:
    """Keep the client library's log for what matters: the table is the output here."""
    from lifebus_supervisor.configuration.settings import LogSettings  # noqa: PLC0415
    from lifebus_supervisor.daemon.logging import configure  # noqa: PLC0415

    configure(LogSettings(level="error", format="console"))
