"""What a restarted supervisor knows of a session, also where its first receipts are gone."""

from pathlib import Path

import anyio
import pytest

from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.stores import Stores, dump_stores, load_stores, reduce_event
from lifebus_contract import InternalError
from lifebus_supervisor.supervision.monitor_table import KnownState
from support.patience import PATIENCE_S
from support.supervisor.supervised import SupervisedBus, supervised

SESSION = "s1"
KEY = ("codex", SESSION)


def called(hook: str, turn: str | None = None) -> dict[str, str]:
    turned = {} if turn is None else {"turn_id": turn, "prompt_id": turn}
    return {"hook_event_name": hook, "session_id": SESSION, "source": "startup", **turned}


async def lived(rig: SupervisedBus) -> SessionState:
    """Let a session have a turn and begin another; return its state."""
    for call in (called("SessionStart"), called("UserPromptSubmit", "t1"), called("Stop", "t1")):
        await rig.hook("codex", call)
    await rig.tick(2)
    await rig.hook("codex", called("UserPromptSubmit", "t2"))
    monitor = rig.supervisor.monitors.get(KEY)
    assert monitor is not None
    return monitor.state


def stores_of(path: Path, through: int | None = None) -> Stores:
    """Return the stores after a position of a ledger file, behind its base."""
    with SqliteLog(path) as log:
        base = log.base()
        stores = load_stores(base) if base else Stores()
        for line in log.lines(stores.position, log.head if through is None else through):
            reduce_event(stores, line)
        return stores


@pytest.mark.parametrize("kept", ["everything", "the end", "nothing"])
async def test_a_restart_behind_a_reduced_state_knows_all_that_was_known(tmp_path: Path, kept: str) -> None:
    async with supervised(tmp_path) as rig:
        state = await lived(rig)
        head = rig.bus.ledger.head
        floor = {"everything": 0, "the end": head - 1, "nothing": head}[kept]
        path = tmp_path / "ledger.db"
        if floor:
            await rig.bus.ledger.prune(floor, dump_stores(stores_of(path, floor)))
        stores = stores_of(path)

        async def known(key: tuple[str, str]) -> tuple[int, SessionState | None]:
            return stores.position, stores.sessions.get(key)

        rig.restart(known=known)
        await rig.supervisor.recover()
        monitor = rig.supervisor.monitors.get(KEY)
        assert monitor is not None
        assert monitor.state == state
        assert (monitor.is_hooked, monitor.had_a_turn, monitor.hooks.by_app) == (True, True, False)
        assert [frame.frame_id for frame in monitor.state.frames] == ["t2"]


async def unable(_: tuple[str, str]) -> tuple[int, SessionState | None]:
    raise InternalError("the keeper has stopped", code="closed")


@pytest.mark.parametrize("known", [None, unable], ids=["nobody", "somebody who cannot say"])
async def test_without_a_reduced_state_what_is_left_is_read(tmp_path: Path, known: KnownState | None) -> None:
    async with supervised(tmp_path) as rig:
        state = await lived(rig)
        floor = state.frames[-1].position - 1
        await rig.bus.ledger.prune(floor, dump_stores(stores_of(tmp_path / "ledger.db", floor)))
        rig.restart(known=known)
        await rig.supervisor.recover()
        monitor = rig.supervisor.monitors.get(KEY)
        assert monitor is not None
        assert monitor.loaded
        assert (monitor.state.frames, monitor.state.sequence) == (state.frames, state.sequence)
        assert monitor.state.receipts < state.receipts


async def test_a_hook_does_not_wait_for_a_state_that_is_long_in_coming(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        state, folded = await lived(rig), anyio.Event()
        stores = stores_of(tmp_path / "ledger.db")

        async def busy(key: tuple[str, str]) -> tuple[int, SessionState | None]:
            await folded.wait()
            return stores.position, stores.sessions.get(key)

        rig.restart(known=busy)
        with anyio.fail_after(PATIENCE_S):
            receipts = await rig.hook("codex", called("PreCompact", "t2") | {"trigger": "auto"})
        assert [receipt.event for receipt in receipts] == ["context.pressure_observed"]
        assert [monitor.loaded for monitor in rig.supervisor.monitors] == [False]
        folded.set()
        await rig.tick()
        (monitor,) = rig.supervisor.monitors
        assert monitor.loaded
        assert monitor.state.frames == state.frames
        assert monitor.state.signalled
