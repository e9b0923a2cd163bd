"""How long a test waits for what must come.

Every wait of a test ends with an event, so its bound costs nothing where all is well: it only says when a test gives
up.  There is one bound for all of them, and no machine that works at all is slower than that.  A time that *is* what a
test is about stands in that test, beside the reason.
"""

import os
from typing import Final

PATIENCE_S: Final = float(os.environ.get("LIFEBUS_TEST_PATIENCE") or 60)
"""Seconds until a test gives up: 60 s, or what LIFEBUS_TEST_PATIENCE says."""

PATIENCE_MS: Final = round(PATIENCE_S * 1_000)
"""The same in milliseconds, as sockets have it."""

PATIENCE: Final = f"{PATIENCE_S:g}s"
"""The same as commands take it."""

SOON_S: Final = PATIENCE_S / 2
"""What a moment may take on a machine under load, where what it is told from takes minutes or for ever."""

TEST_S: Final = 6 * PATIENCE_S
"""Most seconds of a whole test: several of its waits may be long ones."""
