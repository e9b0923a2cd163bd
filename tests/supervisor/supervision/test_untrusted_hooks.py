"""Hooks that are installed and not trusted: what a session's file alone shows of it, through real files."""

import json
from pathlib import Path
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import Receipt
from support.supervisor.patient_tail import PatientTailer
from support.supervisor.supervised import SupervisedBus, facts_of, supervised

SESSION = "01a20618-af4e-7ec3-a743-8ab028965561"
DAY = "sessions/2026/11/23"


class Rollout:
    """The rollout of a Codex session, written in the steps in which Codex writes it."""

    def __init__(self, home: Path, session: str = SESSION) -> None:
        self.home = home
        self.path = home / DAY / f"rollout-2026-11-23T01-50-10-{session}.jsonl"
        self._session = session
        self._ordinal = 0

    def begins(self) -> None:
        self.path.parent.mkdir(parents=True)
        self._add("session_meta", session_id=self._session, id=self._session, source="exec", thread_source="user")

    def starts(self, turn: str) -> None:
        self._add("event_msg", type="task_started", turn_id=turn, turn_attribution={"turn_id": turn})

    def works(self, tokens: int = 1_012) -> None:
        self._add("response_item", type="message", role="assistant")
        info = {"last_token_usage": {"total_tokens": tokens, "input_tokens": 1_000}, "model_context_window": 19_000}
        self._add("event_msg", type="token_count", info=info)

    def completes(self, turn: str) -> None:
        self._add("event_msg", type="task_complete", turn_id=turn, error=None)

    def plays(self, turn: str) -> None:
        """A whole turn."""
        self.starts(turn)
        self.works()
        self.completes(turn)

    def aborts(self, turn: str) -> None:
        self._add("event_msg", type="turn_aborted", turn_id=turn, reason="interrupted")

    def _add(self, kind: str, **payload: object) -> None:
        line = {"timestamp": "2026-11-23T01:50:10.822Z", "ordinal": self._ordinal, "type": kind, "payload": payload}
        self._ordinal += 1
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def tail(home: Path) -> PatientTailer:
    """A tailer over a Codex home, as the broker has it."""
    surroundings = Surroundings(home=str(home), environ={"CODEX_HOME": str(home)})
    sources = {"codex": ADAPTERS["codex"].sources}
    return PatientTailer(sources, surroundings)


def losses(receipts: list[Receipt]) -> list[Receipt]:
    return [one for one in receipts if one.event == "capability.degraded"]


NOT_TRUSTED = "the hooks are installed and not trusted"


def untrusting(rig: SupervisedBus, home: Path) -> Rollout:
    """Hooks that are installed and not trusted, and a tail over the files of the harness."""
    rig.installed.add("codex")
    rig.distrusted["codex"] = NOT_TRUSTED
    rig.restart(tail(home))
    return Rollout(home)


async def test_a_turn_that_is_over_before_anybody_looks_shows_that_hooks_are_silent(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        await rig.tick()
        rollout.begins()
        rollout.plays("t1")
        assert losses(await rig.tick(3)) == []
        (loss,) = losses(await rig.tick(2))
        assert loss.telemetry_summary["cause"] == "hooks_silent"
        evidence = f"telemetry shows work for 3 ticks, no hook ever came: {NOT_TRUSTED}"
        assert loss.capability_degradations[0].evidence == evidence


@pytest.mark.parametrize("first_poll", ["before the session", "in the turn"])
async def test_a_long_turn_shows_it_also_where_its_beginning_was_old(tmp_path: Path, first_poll: str) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        if first_poll == "before the session":
            await rig.tick()
        rollout.begins()
        rollout.starts("t1")
        await rig.tick(6)
        rollout.works()
        rollout.completes("t1")
        await rig.tick(4)
        assert len(losses(await rig.since(0))) == 1


async def test_a_turn_that_was_interrupted_proves_nothing(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        await rig.tick()
        rollout.begins()
        rollout.starts("t1")
        rollout.works()
        rollout.aborts("t1")
        assert losses(await rig.tick(8)) == []


async def test_a_whole_session_from_before_is_none_of_ours(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        rollout.begins()
        rollout.plays("t1")
        assert await rig.tick(8) == []


async def worked(rig: SupervisedBus, rollout: Rollout, turn: str) -> list[Receipt]:
    """A whole turn, and what supervision finds of it."""
    rollout.plays(turn)
    return await rig.tick(6)


def ends(receipts: list[Receipt]) -> list[Any]:
    return [one.telemetry_summary["session_end"] for one in receipts if one.event == "session.ended"]


async def test_a_session_that_only_its_file_shows_ends_when_it_is_idle_and_begins_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        await rig.tick()
        rollout.begins()
        await worked(rig, rollout, "t1")
        rig.clock.seconds += rig.limits.idle_s - 60
        assert await rig.tick() == []
        rig.clock.seconds += 60
        (_, ended) = await rig.tick(2)
        assert (ended.event, ended.telemetry_summary["session_end"]) == ("session.ended", "silent")
        assert "its last turn is over in its file" in str(ended.telemetry_summary["evidence"])
        assert await rig.tick(10) == []
        again = [one for one in await worked(rig, rollout, "t2") if one.event != "supervisor.tick"]
        assert facts_of(again) == ["session.starting", "session.started", "capability.degraded"]
        assert [one.telemetry_summary.get("resumed") for one in again[:2]] == [True, True]
        rig.clock.seconds += rig.limits.idle_s
        assert ends(await rig.tick(2)) == ["silent"]
        (head,) = await rig.bus.ledger.sessions()
        assert head.ended
        assert [one for one in rig.supervisor.monitors if one.is_live] == []


async def test_an_unfinished_turn_is_no_end_however_quiet_it_is(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        await rig.tick()
        rollout.begins()
        rollout.starts("t1")
        rollout.works()
        await rig.tick(6)
        rig.clock.seconds += 10 * rig.limits.idle_s
        assert ends(await rig.tick(3)) == []


async def test_a_session_with_hooks_is_not_ended_for_being_idle(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        await rig.tick()
        rollout.begins()
        await rig.hook("codex", called("SessionStart"))
        await worked(rig, rollout, "t1")
        rig.clock.seconds += 10 * rig.limits.idle_s
        assert ends(await rig.tick(3)) == []


async def test_a_turn_after_an_end_that_a_hook_reported_opens_the_session_when_no_hook_does(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        await rig.tick()
        rollout.begins()
        for name in ("SessionStart", "UserPromptSubmit", "Stop"):
            await rig.hook("codex", called(name))
        await worked(rig, rollout, "t1")  # its last lines come late, and are no sign of life
        await rig.hook("codex", called("SessionEnd"))
        await rig.tick(3)
        rollout.starts("t2")
        assert facts_of(await rig.tick(2)) == []
        assert facts_of(await rig.tick())[:2] == ["session.starting", "session.started"]


async def test_a_restarted_broker_ends_it_too_and_not_before_its_own_ten_minutes(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        rollout = untrusting(rig, tmp_path)
        await rig.tick()
        rollout.begins()
        await worked(rig, rollout, "t1")
        rig.clock.seconds += rig.limits.idle_s
        rig.restart(tail(tmp_path))
        await rig.supervisor.recover()
        assert ends(await rig.tick(3)) == []
        rig.clock.seconds += rig.limits.idle_s
        assert ends(await rig.tick(2)) == ["silent"]


def called(hook: str) -> dict[str, str]:
    return {"hook_event_name": hook, "session_id": SESSION, "turn_id": "t1", "source": "startup", "reason": "exit"}
