"""What real harnesses say of who waits for a person."""

from collections.abc import Awaitable, Callable

import lifebus

Told = tuple[object, object, object, object]
"""``begun`` or ``ended``, for what, for what kind of thing, and what ended it."""

_NAMES = ("waiting", "waiting_for", "waiting_kind", "waiting_ended_by")


async def waits_told(
    bus: lifebus.Bus, until: Callable[[list[Told]], bool], on_begun: Callable[[], Awaitable[None]] | None = None
) -> list[Told]:
    """Return what is said of waits from the start until enough is; `on_begun` is what a person does then."""
    told: list[Told] = []
    async for item in bus.receipts(waiting=True, since="start"):
        facts = item.telemetry_summary
        told.append((facts["waiting"], facts["waiting_for"], facts.get("waiting_kind"), facts.get("waiting_ended_by")))
        if told[-1][0] == "begun" and on_begun is not None:
            await on_begun()
        if until(told):
            break
    return told
