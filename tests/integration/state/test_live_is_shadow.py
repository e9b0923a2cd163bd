"""What a running broker knows is what a replay of its log gives: after real hooks, wire traffic, restarts, pruning."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from msgspec import structs

import lifebus
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.state.session_state import SessionState, head_of
from lifebus_broker.state.stores import Stores, load_stores, reduce_event
from lifebus_broker.transitions import transition
from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    Emission,
    FrameClass,
    FrameContext,
    LifecycleEvent,
    RequirementLevel,
    SupportState,
)
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.signals import ObservedFact
from support.adapters.calls import captured
from support.clients.hook_box import PATIENT_COMMAND
from support.integration.following import until
from support.integration.observing import Observer
from support.paths import CAPTURES
from support.patience import PATIENCE_MS, PATIENCE_S
from support.running import connected, running_bus, short_directory

HOOKED = ("codex/exec_three_turns_auto_compaction", "claude/print_subagent_error_fork", "gemini/compression")
RECORDED = {name: list(captured(next((CAPTURES / name).glob("*.jsonl"))))[:6] for name in HOOKED}
LOST = "event:frame.opening"
GONE, BACK = (SupportState.NATIVE, SupportState.UNAVAILABLE), (SupportState.UNAVAILABLE, SupportState.NATIVE)
NEED = CapabilityRequest(capability=LOST, level=RequirementLevel.REQUIRED)


def emission_of(event: str, session: str | None, **fields: Any) -> Emission:
    return Emission(request=lifebus.make_request(event, "codex", session=session, **fields))


def report(session: str | None, change: tuple[SupportState, SupportState]) -> Emission:
    made = transition(LOST, *change, at_epoch_s=1_790_000_000, evidence="seen")
    emission = emission_of("capability.degraded", session)
    return structs.replace(emission, telemetry={"cause": "hooks_silent"}, degradations=(made,))


def frame(name: str) -> FrameContext:
    return FrameContext(frame_id=name, frame_class=FrameClass.TOP_LEVEL)


async def hooks(daemon: Daemon, scenario: str) -> None:
    """Call the real hook as the harness did when it was recorded."""
    environment = {"LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir), "HOME": "/dev/null"}
    for call, payload in RECORDED[scenario]:
        command = [*PATIENT_COMMAND, call.adapter_id, call.hook]
        await anyio.run_process(command, input=json.dumps(payload).encode(), env=environment, check=True)


async def wire(daemon: Daemon, number: int) -> None:
    """Tell of sessions over the wire: frames, jumps in numbers, losses, what a client cannot do without an operator."""
    name, last, over = f"w{number}", f"w{number - 1}", f"over{number}"
    emissions = [
        emission_of("session.started", name, sequence=1),
        emission_of("frame.opened", name, sequence=5, frame=frame("f1")),
        emission_of("session.started", None),
        report(name, (SupportState.NATIVE, SupportState.MANUAL)),
        report(None, GONE if number % 2 else BACK),
        structs.replace(emission_of("frame.opening", name, frame=frame("f2")), requirements=(NEED,)),
        emission_of("session.started", over),
        report(over, GONE),
        emission_of("session.ended", over),
        report(last, BACK),
        emission_of("session.ended", last),
    ]
    async with connected(daemon, f"app{number}") as bus:
        for emission in emissions:
            await bus.emit(emission)
        facts: list[dict[str, Any]] = [
            {"type": "ThreadOpened", "session": f"t{number}", "how": "started", "method": "thread/started"},
            {"type": "TurnStarted", "session": f"t{number}", "frame_id": "turn"},
        ]
        await Observer(bus, f"o{number}").observe(*[ObservedFact(fact=fact) for fact in facts])


def replayed(daemon: Daemon) -> Stores:
    """Fold what the ledger's file holds, behind its base."""
    with SqliteLog(daemon.settings.ledger_path) as log:
        base = log.base()
        stores = Stores() if base is None else load_stores(base)
        for line in log.lines(log.floor, log.head):
            reduce_event(stores, line)
        assert stores.facts.equals(log.newest())
        return stores


def states_of(stores: Stores) -> list[SessionState]:
    return [state for state in map(stores.sessions.get, stores.sessions) if state is not None]


async def compare(daemon: Daemon) -> Stores:
    """Compare all that the broker knows with a replay, and return that."""
    await daemon.supervisor.tick()
    await until(lambda: not daemon.bus.dispatches)
    for monitor in daemon.supervisor.monitors:
        await daemon.supervisor.monitors.refresh(monitor, 0.0)
    stores = await anyio.to_thread.run_sync(replayed, daemon)
    live = daemon.bus.capabilities.state
    assert live.adapters == stores.capabilities.adapters
    assert list(live.sessions.items()) == list(stores.capabilities.sessions.items())
    for monitor in daemon.supervisor.monitors:
        assert monitor.state == stores.sessions.get(monitor.key)
    assert sorted(map(head_of, states_of(stores)), key=str) == sorted(await daemon.bus.ledger.sessions(), key=str)
    assert daemon.follower is not None
    await daemon.follower.use(lambda follower, _: follower.advance())
    for key in stores.sessions:
        assert await daemon.follower.known(key) == (stores.position, stores.sessions.get(key))
    return stores


async def answer(_: DispatchEnvelope) -> CallbackResponse:
    return CallbackResponse.ok()


@pytest.mark.parametrize("watched", [(LifecycleEvent.FRAME_OPENED,), ()], ids=["with a client", "alone"])
async def test_what_the_broker_knows_is_a_fold_over_its_log(watched: Sequence[LifecycleEvent]) -> None:
    stores = Stores()
    with short_directory() as directory:
        for number, scenario in enumerate(HOOKED, 1):
            async with running_bus(directory=directory, hook_answer_ms=PATIENCE_MS) as daemon:
                assert daemon.follower is not None
                with anyio.fail_after(PATIENCE_S):
                    await daemon.follower.caught_up.wait()
                daemon.bus.register("reader", watched, answer)
                await hooks(daemon, scenario)
                await wire(daemon, number)
                floor = (await compare(daemon)).position // 2
                await daemon.bus.ledger.prune(floor, await daemon.follower.dump_at(floor))
                await wire(daemon, number + 10)
                stores = await compare(daemon)
    states = states_of(stores)
    assert sum(bool(state.wired) for state in states) == 2 * len(HOOKED)
    assert sum(state.hooked for state in states) >= len(HOOKED)
    assert any(state.questions for state in states)
    assert stores.capabilities.sessions
