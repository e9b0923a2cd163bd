"""The merge of entries against a model that knows the rules as docs/transcripts.md says them, restarts in between."""

from contextlib import aclosing
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.ledger.factory import open_unkept
from support.transcripts.boxes import box_over, entry

S = "s1"
TIMES = st.none() | st.integers(0, 9)
UPSERTS = st.fixed_dictionaries(
    {
        "message_id": st.sampled_from(["m1", "m2", "m3"]),
        "status": st.sampled_from(["streaming", "complete", "canceled", "error"]),
        "content": st.sampled_from(["", "a", "ab"]),
        "type": st.sampled_from(["note", "other"]),
        "details": st.sampled_from([None, "{}", "x"]),
        "started_at": TIMES,
        "completed_at": TIMES,
    }
)


class Model:
    """Entries as plain maps, in their order."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}

    def upsert(self, new: dict[str, Any]) -> bool:
        """Merge, and return whether anything changed."""
        known = self.entries.get(new["message_id"])
        now = dict(new)
        if known is not None:
            if new["status"] == "streaming" and known["status"] != "streaming":
                now = dict(known)
            elif new["details"] is None:
                now["details"] = known["details"]
            for name, choose in (("started_at", min), ("completed_at", max)):
                times = [one[name] for one in (known, new) if one[name] is not None]
                now[name] = choose(times) if times else None
        if now["started_at"] is not None and now["completed_at"] is not None:
            now["completed_at"] = max(now["started_at"], now["completed_at"])
        self.entries[new["message_id"]] = now
        return now != known


@given(st.lists(UPSERTS | st.just({"restart": True}), max_size=12))
async def test_a_transcript_is_what_the_rules_say(steps: list[dict[str, Any]]) -> None:
    async with aclosing(await open_unkept()) as ledger:
        box, model, told = await box_over(ledger.journal, S), Model(), 0
        for step in steps:
            if "restart" in step:
                box, told = await box_over(ledger.journal, S), 0
                continue
            told += model.upsert(step)
            merged = await box.store.upsert(S, entry(**step))
            assert _plain(merged) == model.entries[step["message_id"]]
            assert len(box.events) == told
            if box.events:
                assert box.events[-1]["payload"]["entry"]["messageId"] in model.entries
        assert [_plain(one) for one in await box.entries(S)] == list(model.entries.values())


def _plain(one: Any) -> dict[str, Any]:
    names = ("message_id", "status", "content", "type", "details", "started_at", "completed_at")
    return {name: getattr(one, name) for name in names}
