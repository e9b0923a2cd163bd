"""How long to wait before a retry.  Pure."""

from typing import Final

from lifebus_contract.flows import RetryPause

_MOST_DOUBLINGS: Final = 40
"""So many doublings exceed every limit; more would only make a large number."""


def pause_ms(pause: RetryPause, retry: int, fraction: float) -> int:
    """Return the pause before the retry of this number, the first one being 0.

    `fraction`, from 0 to 1, says how much of the jitter is added: it is drawn by the caller.
    """
    plain = min(pause.first_ms << min(retry, _MOST_DOUBLINGS), pause.longest_ms)
    return plain + int(plain * pause.jitter_percent * fraction / 100)
