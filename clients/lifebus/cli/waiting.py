"""Who waits for a person, in words."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lifebus.cli.admin.harness_checks import duration_text
from lifebus.cli.terminal import clean, time_text

if TYPE_CHECKING:
    from lifebus_contract.views import Wait


def waiting_text(waits: "Sequence[Wait]") -> str:
    """Return for what a session waits, and for how long: ``permission (Bash) 3m``; of several the oldest, and how many.

    An empty text says that it waits for nobody.
    """
    if not waits:
        return ""
    first = waits[0]
    kind = f" ({clean(first.kind)})" if first.kind else ""
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    # A clock may be set back: then it has waited for no time.
    age = duration_text(max(0, int(time.time()) - first.since_ms // 1000))
    return f"{clean(first.waiting_for)}{kind} {age}{more}"


def since_text(wait: "Wait") -> str:
    """Return since when a session waits, in local time."""
    return time_text(wait.since_ms)
