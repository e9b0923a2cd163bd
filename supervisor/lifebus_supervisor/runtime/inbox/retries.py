"""When a channel tries to deliver what of a question.  Pure."""

from typing import Final

from msgspec import Struct

from lifebus_contract.flows import RetryPause
from lifebus_supervisor.runtime.inbox.records import ChannelState, Occasion, QuestionState

PAUSE: Final = RetryPause(first_ms=5_000, longest_ms=900_000)
"""The pause between two tries that fail; a receiver may ask for a longer one, up to the longest."""


class ChannelPlan(Struct, frozen=True, kw_only=True):
    """What a channel takes beside questions: reminders, and the end of a question that it was asked to bring."""

    name: str
    reminds: bool
    takes_end: bool


class DueDelivery(Struct, frozen=True):
    """What is to be delivered: at once where `is_retry` is not set, otherwise not before `at_ms`."""

    occasion: int
    at_ms: int
    is_retry: bool


def due_delivery(state: QuestionState, plan: ChannelPlan) -> DueDelivery | None:
    """Return what a channel has to deliver next, None where there is nothing."""
    known = state.channels.get(plan.name)
    occasion = _wanted(state, plan, known)
    if occasion is None or (known is not None and known.delivered >= occasion):
        return None
    if known is not None and known.failures:
        return DueDelivery(occasion, known.retry_at_ms, is_retry=True)
    return DueDelivery(occasion, state.occasion_at_ms, is_retry=False)


def _wanted(state: QuestionState, plan: ChannelPlan, known: ChannelState | None) -> int | None:
    """Return the newest occasion that is for this channel."""
    if not state.is_open:
        # Who never got the question needs no word of its end; a try that failed may have arrived all the same.
        return state.occasion if plan.takes_end and known is not None else None
    return state.occasion if plan.reminds or state.kind is Occasion.ASKED else 0
