"""A crash at each changing call of the store while hooks, bus and client are at work: the next broker goes on."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lifebus_broker.disk import Disk
from lifebus_supervisor.renewal.store import DIRECTORY, ContinuationStore
from lifebus_transports.processes.outcomes import Finished
from lifebus_transports.processes.spec import CommandSpec
from support.broker_process import until
from support.installer.crashing_disk import Crash
from support.supervisor.quick_disks import Quick, QuickCrash
from support.supervisor.scripted import Renewing, ScriptedClient, renewing

PATCHED = "lifebus_supervisor.renewal.composing.open_store"


class Knowing(ScriptedClient):
    """Knows ids again: one token for a prepare id, one use for a claim id."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[str, str] = {}
        self.uses: dict[str, set[str]] = {}

    async def run(self, spec: CommandSpec, stdin: bytes, seconds: float) -> Finished:
        question = json.loads(stdin)
        if question["step"] == "prepare":
            token = self.tokens.setdefault(question["prepare_id"], f"token {len(self.tokens)}")
            self.answers["prepare"] = {"token": token, "thread": "t-1"}
        elif question["step"] == "consume":
            self.uses.setdefault(question["token"], set()).add(question["claim_id"])
        return await super().run(spec, stdin, seconds)


def opening(disk: Disk) -> Callable[[Path], ContinuationStore]:
    return lambda state_dir: ContinuationStore(state_dir / DIRECTORY, time.time, disk)


async def renew(on: Renewing) -> None:
    """Renew once: what a broker before has begun is gone on with."""
    await until(lambda: "preparing" not in on.states and "claimed" not in on.states)
    if not on.states:
        await on.stop("s1")
    if on.states == ["pending"]:
        await on.start("s2")
    assert on.states == ["consumed"]


async def steps_of_a_renewal(directory: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    disk = Quick()
    monkeypatch.setattr(PATCHED, opening(disk))
    async with renewing(directory, Knowing()) as on:
        await renew(on)
    return len(disk.calls)


async def test_a_broker_that_crashes_at_any_call_of_the_store_loses_no_token_and_uses_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = await steps_of_a_renewal(tmp_path / "whole", monkeypatch)
    assert steps > 25
    for at in range(steps):
        directory, client = tmp_path / str(at), Knowing()
        monkeypatch.setattr(PATCHED, opening(QuickCrash(at)))
        with pytest.raises(BaseExceptionGroup) as crashed:
            async with renewing(directory, client) as on:
                await renew(on)
        assert crashed.value.subgroup(Crash) is not None
        monkeypatch.setattr(PATCHED, opening(Quick()))
        async with renewing(directory, client) as on:
            await renew(on)
            assert set(client.tokens.values()) == set(client.uses), at
            assert all(len(claims) == 1 for claims in client.uses.values()), at
            assert len(client.tokens) == 1, at
