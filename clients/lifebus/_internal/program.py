"""Runs the program of a user's own, as `asyncio.run` does, and ends it without a traceback at Ctrl-C."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_INTERRUPTED: Final = 130
"""What a shell makes of a program that Ctrl-C ended."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine with asyncio and return what it returns.

    At Ctrl-C it is cancelled, so that its connections are closed in order, and the process exits with 130.
    """
    try:
        return asyncio.run(main)
    except KeyboardInterrupt:
        # A traceback would say where the program waited, which is no fault of it.
        raise SystemExit(_INTERRUPTED) from None
