"""What is left for a phase, as the contract has it.  Pure."""

from typing import Final

from lifebus.loa.types import LoaSignals
from lifebus_contract.runs import ContextSignals

CONTEXT_TOKENS: Final = 150_000
"""Tokens that a phase's context has where nobody says how many: the hard limit of Loa's own autonomous agent."""


def loa_signals(found: ContextSignals) -> LoaSignals:
    """Return the signals of a step as numbers, which the contract wants.

    Where nothing is known of the tokens, none count as used, and `CONTEXT_TOKENS` as there; `lifebus flow signals` says
    where each number comes from.
    """
    used = found.context_tokens_used or 0
    available = found.context_tokens_available
    return LoaSignals(
        context_tokens_available=max(0, CONTEXT_TOKENS - used) if available is None else available,
        context_tokens_used=used,
        time_remaining_ms=found.time_remaining_ms,
        retry_count=found.retry_count,
        max_retries=found.max_retries,
        is_approaching_limit=found.is_approaching_limit,
    )
