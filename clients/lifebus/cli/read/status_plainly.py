"""`lifebus status` without the parser, ZeroMQ and an event loop: it asks on the broker's line socket."""

import os

from lifebus.cli.bus.line_socket import ask_line
from lifebus.cli.bus.plain_connection import CONNECTION_VALUES, connection_of, is_certainly_absent
from lifebus.cli.wording.plain_json import read_json
from lifebus.cli.wording.plain_words import read_plain_words

TYPE_CHECKING = False  # `typing` would be a third of the command
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

UNAVAILABLE = 69
"""`ExitCode.UNAVAILABLE`, whose module takes longer to load than this command has."""


def status_plainly(words: "Sequence[str]") -> int | None:
    """Print how the broker is; None where the words are not plain, or the usual way has to say what is wrong."""
    found = read_plain_words(words, values=CONNECTION_VALUES, switches=("--json",))
    connection = None if found is None else connection_of(found, os.environ)
    if found is None or connection is None:
        return None
    status = _answer("status", *connection)
    if status is None:
        return _say_absence(connection[0], found)
    heads = _answer("sessions", *connection, body='{"ended":false}')
    if heads is None:
        return None
    from lifebus.cli.admin.kept_checks import known_checks  # noqa: PLC0415  once there is something to show
    from lifebus.cli.read.broker_status import show_status  # noqa: PLC0415
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    if status.get("version") != VERSION:  # its answer may have another form, which the usual way reads
        return None
    return 0 if show_status(status, heads, known_checks(), json="--json" in found) else 1


def _say_absence(directory: str, found: "Mapping[str, str]") -> int | None:
    """Say that no broker is there, where that is certain and no program asks."""
    if "--json" in found or os.environ.get("LIFEBUS_TRACEBACK") or not is_certainly_absent(directory):
        return None
    from lifebus._internal.plain.no_broker import no_broker_words  # noqa: PLC0415  only without a broker
    from lifebus.cli.terminal import say_lines  # noqa: PLC0415

    say_lines(no_broker_words(directory))
    return UNAVAILABLE


def _answer(verb: str, directory: str, seconds: float, *, body: str = "{}") -> "Any":
    """Return the answer to a verb, None where there is none."""
    line = ask_line(directory, f'{{"id":1,"verb":"{verb}","body":{body}}}'.encode(), seconds)
    return read_json(line).get("ok") if line else None
