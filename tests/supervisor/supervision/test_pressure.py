"""Pressure is recorded when its level changes, once a crossing; compactions once, whatever proves them."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters.shared.telemetry import Compacted, Usage, WindowKnown
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent, Receipt
from support.supervisor.supervised import SupervisedBus, facts_of, supervised

SESSION = "s1"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup", "transcript_path": "/t/s1"}
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "turn_id": "t1"}
PRE_COMPACT = {"hook_event_name": "PreCompact", "session_id": SESSION, "turn_id": "t1", "trigger": "auto"}
POST_COMPACT = {"hook_event_name": "PostCompact", "session_id": SESSION, "turn_id": "t1", "trigger": "auto"}


def usage(used: int, window: int | None = 1_000, **changes: Any) -> Usage:
    settings: dict[str, Any] = {"session": SESSION, "used_source": "rollout:last", "window_source": "rollout:window"}
    return Usage(used_tokens=used, window_tokens=window, **settings | changes)


async def levels(rig: SupervisedBus, *used: int) -> list[object]:
    """The recorded levels, one entry a receipt."""
    recorded: list[object] = []
    for tokens in used:
        rig.news("codex", SESSION, usage(tokens))
        recorded += [one.telemetry_summary["context_pressure"] for one in await _pressure_receipts(rig)]
    return recorded


async def _pressure_receipts(rig: SupervisedBus) -> list[Receipt]:
    return [one for one in await rig.tick() if one.event == "context.pressure_observed"]


def numbers(receipt: Receipt) -> tuple[object, ...]:
    """Level, percentage, tokens and window of a fact about pressure."""
    names = ("context_pressure", "context_used_pct", "context_used_tokens", "context_window_tokens")
    return tuple(receipt.telemetry_summary[name] for name in names)


async def test_every_level_is_recorded_once_on_the_way_up(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        assert await levels(rig, 10, 20, 599, 600, 650, 799, 800, 919, 920, 999) == [
            "low",
            "moderate",
            "high",
            "critical",
        ]


async def test_a_level_is_left_only_clearly_below_its_threshold(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        assert await levels(rig, 610, 590, 610, 551, 600, 549, 610) == ["moderate", "low", "moderate"]


async def test_a_telemetry_line_that_repeats_is_recorded_once(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, usage(700), usage(700), usage(700))
        assert facts_of(await rig.tick()) == ["context.pressure_observed"]
        rig.news("codex", SESSION, usage(700))
        assert facts_of(await rig.tick(3)) == []


async def test_the_receipt_carries_level_used_window_percent_and_sources(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, usage(12_012, 19_000, model="m"))
        (receipt,) = [one for one in await rig.tick() if one.event == "context.pressure_observed"]
        recorded = receipt.telemetry_summary
        assert recorded == {
            "context_pressure": "moderate",
            "context_used_tokens": 12_012,
            "context_window_tokens": 19_000,
            "context_used_pct": 63,
            "source": "rollout:last",
            "used_source": "rollout:last",
            "window_source": "rollout:window",
            "model": "m",
        }
        assert (receipt.client_id, receipt.integration_mode) == ("lifebus.supervisor", "telemetry_only")
        assert receipt.parent_receipt_id is not None


async def test_an_unknown_window_gives_numbers_once_and_never_a_percentage(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("claude", START | {"session_id": SESSION})
        for tokens in (500, 900_000, 5):
            rig.news("claude", SESSION, usage(tokens, None, window_source=None))
            await rig.tick()
        recorded = [one for one in await rig.since(0) if one.event == "context.pressure_observed"]
        assert [one.telemetry_summary["context_used_pct"] for one in recorded] == [None]
        assert recorded[0].telemetry_summary["context_pressure"] is None


async def test_a_window_that_the_harness_reports_beats_a_table_and_yields_to_an_override(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("claude", START)
        known = WindowKnown(session=SESSION, window_tokens=2_000, window_source="hook:statusLine")
        rig.news("claude", SESSION, known, usage(700, 1_000, window_source="model_table"))
        assert [one.telemetry_summary["context_used_pct"] for one in await _pressure_receipts(rig)] == [35]
        rig.news("claude", SESSION, usage(700, 1_000, window_source="override:LIFEBUS_CLAUDE_CONTEXT_WINDOW_TOKENS"))
        assert [one.telemetry_summary["context_used_pct"] for one in await _pressure_receipts(rig)] == [70]


async def test_a_signal_without_numbers_is_recorded_once_until_the_context_is_rewritten(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, usage(950))
        await rig.tick()
        (first,) = await rig.hook("codex", PRE_COMPACT)
        assert first.telemetry_summary["source"] == "hook:PreCompact"
        assert first.telemetry_summary["context_pressure"] == "critical"
        assert first.telemetry_summary["context_used_pct"] == 95
        assert await rig.hook("codex", PRE_COMPACT) == []
        assert await rig.hook("codex", PRE_COMPACT) == []
        await rig.hook("codex", POST_COMPACT)
        assert len(await rig.hook("codex", PRE_COMPACT)) == 1


async def test_a_signal_has_the_level_of_its_own_numbers_which_no_tick_has_seen(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        assert await levels(rig, 100) == ["low"]
        rig.news("codex", SESSION, usage(970))
        (signal,) = await rig.hook("codex", PRE_COMPACT)
        assert numbers(signal) == ("critical", 97, 970, 1_000)
        # The signal was the observation: what it said is not said again, and what follows is a change.
        assert await _pressure_receipts(rig) == []
        rig.news("codex", SESSION, Compacted(session=SESSION, key="1"), usage(310))
        await rig.hook("codex", POST_COMPACT)
        assert [numbers(one) for one in await _pressure_receipts(rig)] == [("low", 31, 310, 1_000)]


async def test_a_signal_without_a_window_has_no_level_though_one_is_on_record(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("claude", START)
        rig.news("claude", SESSION, usage(100))
        await rig.tick()
        rig.restart()
        resumed = START | {"source": "resume", "context_tokens": 900}
        await rig.hook("claude", resumed)
        (signal,) = await rig.hook("claude", PRE_COMPACT)
        assert numbers(signal) == (None, None, 900, None)
        assert "window_source" not in signal.telemetry_summary


async def test_a_signal_where_nothing_was_measured_has_no_numbers(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, WindowKnown(session=SESSION, window_tokens=1_000, window_source="hook"))
        (signal,) = await rig.hook("codex", PRE_COMPACT)
        assert numbers(signal) == (None, None, None, None)
        rig.news("codex", SESSION, usage(950))
        await rig.hook("codex", POST_COMPACT)
        (signal,) = await rig.hook("codex", PRE_COMPACT)
        assert numbers(signal) == (None, None, None, None)  # what was measured was rewritten since


async def test_a_signal_from_the_spool_has_no_numbers_for_those_of_its_time_are_not_known(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, usage(300))
        await rig.tick()
        (signal,) = await rig.hook("codex", PRE_COMPACT, spooled_at_epoch_s=1_800_000_000)
        assert numbers(signal) == (None, None, None, None)
        assert signal.telemetry_summary["signal"] is True


async def test_a_signal_that_brings_its_own_numbers_has_them(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        session = {"event": {"tokenCount": 55_000}, "ctx": {"sessionId": SESSION, "agentId": "main"}}
        rig.news("openclaw", SESSION, usage(100, 60_000))
        await rig.observe()
        recorded = await rig.hook("openclaw", {"hook": "before_compaction", **session})
        (signal,) = [one for one in recorded if one.event == "context.pressure_observed"]
        assert numbers(signal) == ("high", 91, 55_000, 60_000)


async def test_what_was_measured_behind_a_compaction_is_recorded_behind_it(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        assert await levels(rig, 630) == ["moderate"]
        rig.news("codex", SESSION, usage(840), Compacted(session=SESSION, key="1"), usage(310))
        assert [numbers(one) for one in await _pressure_receipts(rig)] == [("high", 84, 840, 1_000)]
        assert facts_of(await rig.hook("codex", POST_COMPACT)) == ["context.compacted"]
        assert [numbers(one) for one in await _pressure_receipts(rig)] == [("low", 31, 310, 1_000)]


async def test_a_signal_comes_behind_the_compaction_before_it_whose_hook_never_came(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.hook("codex", PRE_COMPACT)
        rig.news("codex", SESSION, Compacted(session=SESSION, key="1"), usage(950))
        recorded = await rig.hook("codex", PRE_COMPACT)
        assert facts_of(recorded) == ["context.compacted", "context.pressure_observed"]
        assert (recorded[0].telemetry_summary["source"], recorded[0].integration_mode) == ("rollout", "telemetry_only")
        assert numbers(recorded[1]) == ("critical", 95, 950, 1_000)
        assert await rig.hook("codex", POST_COMPACT) == []  # the first one's, late
        assert facts_of(await rig.tick(4)) == []


async def test_a_file_alone_gives_compactions_and_pressure_in_its_own_order(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.news("codex", SESSION, usage(630))
        await rig.tick()
        proofs = [Compacted(session=SESSION, key=str(number)) for number in range(2)]
        rig.news("codex", SESSION, usage(840), proofs[0], usage(310), proofs[1], usage(610))
        found = [one for one in await rig.tick() if one.event != "supervisor.tick"]
        shown = [one.telemetry_summary.get("context_used_pct", "compacted") for one in found]
        assert shown == [84, "compacted", 31, "compacted", 61]


async def test_what_was_measured_before_a_compaction_is_not_recorded_behind_it(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, usage(840))
        assert facts_of(await rig.hook("codex", POST_COMPACT)) == ["context.compacted"]
        assert await _pressure_receipts(rig) == []
        rig.news("codex", SESSION, Compacted(session=SESSION, key="1"), usage(310))
        assert [numbers(one) for one in await _pressure_receipts(rig)] == [("low", 31, 310, 1_000)]


async def test_a_short_run_whose_window_is_not_known_has_its_numbers_before_its_end(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, usage(700, None, window_source=None))
        await rig.hook("codex", {"hook_event_name": "SessionEnd", "session_id": SESSION, "transcript_path": "/t/s1"})
        recorded = [one for one in await rig.observe() if one.event != "supervisor.tick"]
        assert facts_of(recorded) == ["context.pressure_observed", "session.ended"]
        assert numbers(recorded[0]) == (None, None, 700, None)


async def test_a_session_that_was_forgotten_and_is_resumed_still_has_its_window(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("claude", START)
        rig.news("claude", SESSION, usage(100))
        await rig.tick()
        await rig.hook("claude", {"hook_event_name": "SessionEnd", "session_id": SESSION, "reason": "other"})
        await rig.tick(8)
        assert len(rig.supervisor.monitors) == 0
        # Its file is read on, and not again: nothing in it says how large the window is.
        await rig.hook("claude", START | {"source": "resume", "context_tokens": 900})
        (signal,) = await rig.hook("claude", PRE_COMPACT)
        assert numbers(signal) == ("high", 90, 900, 1_000)


async def test_nothing_is_recorded_twice_after_a_restart(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        proof = Compacted(session=SESSION, key="33")
        rig.news("codex", SESSION, usage(700), proof)
        recorded = facts_of(await rig.tick(5))
        assert recorded == ["context.pressure_observed", "context.compacted"]
        rig.restart()
        await rig.supervisor.recover()
        rig.news("codex", SESSION, usage(700), proof, history=True)
        assert facts_of(await rig.tick(5)) == []


@pytest.mark.parametrize("file_first", [True, False])
async def test_a_compaction_that_hook_and_file_report_is_one_receipt(tmp_path: Path, file_first: bool) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        if file_first:
            rig.news("codex", SESSION, Compacted(session=SESSION, key="33"))
            await rig.observe()
            recorded = await rig.hook("codex", POST_COMPACT)
        else:
            recorded = await rig.hook("codex", POST_COMPACT)
            rig.news("codex", SESSION, Compacted(session=SESSION, key="33"))
            await rig.observe()
        assert facts_of(recorded) == ["context.compacted"]
        assert "context.compacted" not in facts_of(await rig.tick(6))


async def test_a_hook_that_comes_after_the_file_was_believed_adds_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news(
            "codex", SESSION, Compacted(session=SESSION, key="33", trigger="auto", tokens_before=9, tokens_after=2)
        )
        (receipt,) = [one for one in await rig.tick(4) if one.event == "context.compacted"]
        assert receipt.telemetry_summary == {
            "source": "rollout",
            "trigger": "auto",
            "tokens_before": 9,
            "tokens_after": 2,
        }
        assert await rig.hook("codex", POST_COMPACT) == []
        assert rig.supervisor.merged == 1
        rig.news("codex", SESSION, Compacted(session=SESSION, key="77"))
        await rig.observe()
        assert facts_of(await rig.hook("codex", POST_COMPACT)) == ["context.compacted"]


async def test_a_file_alone_proves_a_compaction_at_once_where_no_hook_ever_came(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.news("codex", SESSION, usage(1), history=True)
        assert facts_of(await rig.tick()) == []
        rig.news("codex", SESSION, Compacted(session=SESSION, key="33"))
        assert "context.compacted" in facts_of(await rig.tick())


async def test_what_stood_in_the_file_of_an_unknown_session_is_not_recorded(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.news("codex", SESSION, usage(900), Compacted(session=SESSION, key="1"), history=True)
        assert facts_of(await rig.tick(4)) == []
        rig.news("codex", SESSION, usage(950))
        assert facts_of(await rig.tick()) == ["context.pressure_observed"]
        assert facts_of(await rig.tick(4)) == []


async def test_pressure_that_shows_at_the_end_is_recorded_before_it_and_never_behind(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        end = {"hook_event_name": "SessionEnd", "session_id": SESSION, "reason": "other", "transcript_path": "/t/s1"}
        await rig.hook("codex", end)
        rig.news("codex", SESSION, usage(700))
        assert facts_of(await rig.tick()) == ["context.pressure_observed", "session.ended"]
        rig.news("codex", SESSION, usage(950))
        assert facts_of(await rig.tick(4)) == []


async def test_compactions_from_before_a_session_was_known_are_no_news_also_after_a_restart(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START | {"source": "resume"})
        old = [Compacted(session=SESSION, key=str(number)) for number in range(3)]
        rig.news("codex", SESSION, *old, history=True)
        assert facts_of(await rig.tick(4)) == []
        rig.restart()
        await rig.supervisor.recover()
        rig.news("codex", SESSION, *old, history=True)
        assert facts_of(await rig.tick(4)) == []
        rig.news("codex", SESSION, Compacted(session=SESSION, key="new"))
        assert facts_of(await rig.tick(4)) == ["context.compacted"]


async def test_what_is_only_in_a_strangers_file_is_not_recorded_at_all(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rig.news("codex", SESSION, usage(900), Compacted(session=SESSION, key="1"), history=True)
        assert await rig.tick(4) == []


async def test_a_compaction_counts_once_however_many_clients_are_called(tmp_path: Path) -> None:
    async def agree(_: DispatchEnvelope) -> CallbackResponse:
        return CallbackResponse.ok()

    async with supervised(tmp_path) as rig:
        for client in ("one", "two"):
            rig.bus.register(client, [LifecycleEvent.CONTEXT_COMPACTED], agree)
        await rig.hook("codex", START)
        await rig.hook("codex", POST_COMPACT)
        rig.news("codex", SESSION, Compacted(session=SESSION, key="1"), Compacted(session=SESSION, key="2"))
        assert facts_of(await rig.tick(4)) == ["context.compacted", "context.compacted"]  # the second's, by client
        assert facts_of(await rig.tick(4)) == []


async def test_a_session_that_is_resumed_is_counted_on(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.news("codex", SESSION, Compacted(session=SESSION, key="1"))
        assert facts_of(await rig.tick(4)) == ["context.compacted"]
        await rig.hook("codex", {"hook_event_name": "SessionEnd", "session_id": SESSION, "reason": "other"})
        await rig.tick(6)
        rig.clock.seconds += 600
        await rig.hook("codex", START | {"source": "resume"})
        rig.news("codex", SESSION, Compacted(session=SESSION, key="2"))  # the file is read on, and not again
        assert facts_of(await rig.tick(4)) == ["context.compacted"]


async def test_a_hook_just_after_a_restart_is_not_recorded_again_from_the_file(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.tick()
        rig.restart()
        await rig.supervisor.recover()
        await rig.hook("codex", POST_COMPACT)
        rig.news("codex", SESSION, usage(1), history=True)
        rig.news("codex", SESSION, Compacted(session=SESSION, key="1"))
        assert "context.compacted" not in facts_of(await rig.tick(4))
