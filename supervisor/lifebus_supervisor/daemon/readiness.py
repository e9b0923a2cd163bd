"""Tells who started the broker that it is ready: the protocol of systemd, which `lifebus up --detach` speaks too."""

import os
import socket
from contextlib import suppress
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"
"""The variable that holds the address of whoever wants to know."""

READY: Final = b"READY=1"
"""What is sent once every socket of the broker is open."""


def take_address() -> str | None:
    """Return where to tell it, None where nobody wants to know; programs that the broker starts do not see it."""
    # A harness that a phase runs must not speak for the broker.
    return os.environ.pop(VARIABLE, None) or None


def tell(address: str, message: bytes) -> None:
    """Send a message; who does not listen any more has not waited for it."""
    # A leading @ stands for the zero of an abstract address.
    name = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        sending.connect(name)
        sending.send(message)
