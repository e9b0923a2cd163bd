"""`lifebus status` without the parser, ZeroMQ and an event loop: it asks on the broker's line socket."""

import os
from typing import TYPE_CHECKING, Any

from lifebus.cli.bus.line_socket import ask_line, runtime_directory
from lifebus.cli.wording.plain_words import read_plain_words

if TYPE_CHECKING:
    from collections.abc import Sequence


def status_plainly(words: "Sequence[str]") -> int | None:
    """Print how the broker is; None where the words are not plain, or the usual way has to say what is wrong."""
    found = read_plain_words(words, switches=("--json",))
    if found is None:
        return None
    import msgspec  # noqa: PLC0415  only where the words are plain

    status, heads = _answer("status"), _answer("sessions")
    if status is None or heads is None:
        return None
    from lifebus.cli.read.broker_status import show_status  # noqa: PLC0415  once there is something to show
    from lifebus_contract.views import SessionHead  # noqa: PLC0415
    from lifebus_transports.messages.status import BrokerStatus  # noqa: PLC0415

    try:
        broker, sessions = msgspec.convert(status, BrokerStatus), msgspec.convert(heads, list[SessionHead])
    except msgspec.ValidationError:  # a broker of another version
        return None
    return show_status(broker, [head for head in sessions if not head.ended], json="--json" in found)


def _answer(verb: str) -> Any:
    """Return the answer to a verb without a body, None where there is none."""
    import msgspec  # noqa: PLC0415  as above

    line = ask_line(runtime_directory(os.environ), b'{"id":1,"verb":"%s"}' % verb.encode())
    return msgspec.json.decode(line).get("ok") if line else None
