"""`lifebus top`: sessions, receipts, consumers and questions on one screen."""

import logging
import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import color_wanted, put

if TYPE_CHECKING:
    from lifebus.client import Bus

_USUAL_RATE: Final = 16_384
_LEAST_RATE: Final = 256


def top(
    *,
    once: Annotated[bool, Parameter(negative="")] = False,
    max_rate: int = _USUAL_RATE,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> int:
    """Show sessions, receipts, consumers and questions on one screen, live; ? shows the keys, q quits.

    Args:
        once: Print one screen and end.
        max_rate: Most bytes a second that are written to the terminal; default: 16384.
        connection: Where the broker is.
    """
    if connection.json:
        raise UsageError("top is for people; `status`, `sessions`, `clients`, `inbox` and `tail` answer in JSON")
    if max_rate < _LEAST_RATE:
        raise UsageError(f"--max-rate: at least {_LEAST_RATE} bytes a second")
    if once:
        return _print_once(connection)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise UsageError("top needs a terminal; `lifebus top --once` prints one screen")
    return _show(connection, max_rate)


def _show(connection: ConnectionOptions, max_rate: int) -> int:
    from lifebus.top.live import TopProgram  # noqa: PLC0415
    from lifebus.top.screen import taken_screen  # noqa: PLC0415

    colored = color_wanted(sys.stdout)
    program = TopProgram(lambda: taken_screen(os.ttyname(1), colored=colored, bytes_per_s=max_rate))
    # A warning of the library would stand in the middle of the screen, which says itself what is wrong.
    logging.getLogger("lifebus").setLevel(logging.CRITICAL)
    return on_bus(connection, program.run, lasting=True, tell=program.tell)


def _print_once(connection: ConnectionOptions) -> ExitCode:
    from lifebus.top.cells import line_text, painter, plain  # noqa: PLC0415
    from lifebus.top.facts import TopFacts  # noqa: PLC0415
    from lifebus.top.feeds import TopFeed, now_ms  # noqa: PLC0415
    from lifebus.top.layout import screen_lines  # noqa: PLC0415
    from lifebus.top.navigation import TopChoice  # noqa: PLC0415

    facts = TopFacts()

    async def fill(bus: "Bus") -> None:
        await TopFeed(bus, facts, lambda: None).fill()

    on_bus(connection, fill)
    size = shutil.get_terminal_size()
    # The last line has the keys, which nobody can press.
    lines = screen_lines(facts, TopChoice(selects=False), (size.columns, size.lines + 1), now_ms())[:-1]
    # A pipe gets no code at all, a terminal without colour still bold text.
    colored = color_wanted(sys.stdout)
    paint = painter(colored=colored) if colored or sys.stdout.isatty() else plain
    for text in "\n".join(line_text(line, size.columns, paint) for line in lines).rstrip().split("\n"):
        put(text)
    return ExitCode.OK
