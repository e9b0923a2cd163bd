"""The lane: plain emissions become the same receipts, rows and answers as on the way that all others take."""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_adapters import ADAPTERS
from lifebus_broker.ledger.refusals import BUSY
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Refusal
from lifebus_broker.routing import lane
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.clients import CallbackClient, FunctionInvoker
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.lane import Lane, is_plain
from lifebus_broker.routing.registry import Registry
from lifebus_broker.routing.router import Router
from lifebus_contract import Emission, IdSource, LifebusError, LifecycleEvent, encode_msgpack, validate
from lifebus_supervisor.api.emissions import EmissionVerbs
from lifebus_transports.framing.frames import decode_body
from lifebus_transports.messages.emissions import Emit
from support.bus_box import NOW, answering, payload
from support.effort import effort
from support.patience import PATIENCE_S

ASKED = LifecycleEvent.SESSION_STARTING
"""What the client of the histories is asked about."""

LOST = {
    "capability": "context_pressure",
    "current_support": "unavailable",
    "event": "capability.degraded",
    "evidence": "seen",
    "observed_at_epoch_s": NOW,
    "previous_support": "native",
    "retry_class": "do_not_retry",
}
FRAME = {"frame_id": "turn-1", "frame_class": "top_level"}
NEED = {"capability": "event:session.started", "level": "required"}

# What makes an emission more than plain: changes of the request, and of the emission.
REASONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a client is interested": ({"event": ASKED}, {}),
    "a payload": ({}, {"payloads": [payload()]}),
    "a requirement": ({}, {"requirements": [NEED]}),
    "a report": ({"event": "capability.degraded"}, {"degradations": [LOST]}),
    "a number of the harness": ({"sequence": 7}, {}),
    "a frame": ({"event": "frame.opened", "frame_context": FRAME}, {}),
    "the end of a session": ({"event": "session.ended"}, {}),
    "an adapter that is not there": ({"adapter_id": "nobody"}, {}),
    "another version": ({"adapter_version": "9.9"}, {}),
}


def emission(request: dict[str, Any], **rest: Any) -> Emission:
    plain = {
        "schema_version": "lifeloop.v0.2",
        "event": "session.started",
        "event_id": "evt_1",
        "adapter_id": "codex",
        "adapter_version": "0.1.0",
        "invocation_id": "inv_1",
        "integration_mode": "native_hook",
        "harness_session_id": "s1",
        **request,
    }
    return validate({"request": plain, **rest}, Emission)


class Call:
    """Keeps the one answer, as it is encoded."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(self, body: object) -> None:
        self.answered.set_result(encode_msgpack(body))

    def refuse(self, fault: LifebusError) -> None:
        raise fault


@asynccontextmanager
async def opened(folder: Path, seed: int = 0) -> AsyncIterator[EventBus]:
    """A bus on a file, the same one each time: its clock stands still, and chance is a seed."""
    chance, fanout = random.Random(seed), Fanout()
    ledger = await SqliteLedger.open(
        folder / "ledger.db", committed=fanout.publish, durability="relaxed", entropy=chance.randbytes
    )
    async with anyio.create_task_group() as tasks:
        bus = EventBus(
            registry=Registry(adapter.registered for adapter in ADAPTERS.values()),
            ledger=ledger,
            fanout=fanout,
            ids=IdSource(lambda: NOW * 1_000, chance.randbytes),
            clock=lambda: NOW,
            tasks=tasks,
        )
        bus.register("client", [ASKED], answering())
        yield bus
        await ledger.aclose()


async def sent(bus: EventBus, emissions: Sequence[Emission]) -> bytes:
    """Send a message as its bytes come, and return the bytes of its answer."""
    call: Any = Call()
    body = encode_msgpack(Emit(client_id="emitter", emissions=tuple(emissions)))
    EmissionVerbs(bus).handlers()["emit"](call, decode_body(body, Emit))
    async with asyncio.timeout(PATIENCE_S):
        return bytes(await call.answered)


async def played(history: Sequence[Sequence[Emission]]) -> tuple[list[bytes], dict[str, list[Any]]]:
    """Send messages one after the other; return their answers, and every table of the file: rows, links, keys."""
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder)) as bus:
            answers = [await sent(bus, message) for message in history]
            assert await bus.ledger.verify() == []
        found = apsw.Connection(f"{folder}/ledger.db", flags=apsw.SQLITE_OPEN_READONLY)
        names = [name for (name,) in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = {name: found.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
        found.close()
    return answers, tables


@st.composite
def emissions(draw: st.DrawFn, sessions: Sequence[str | None], adapters: Sequence[str], reason: str = "") -> Emission:
    """Draw an emission that is plain, or is not for a reason; keys and contents come again."""
    request: dict[str, Any] = {
        "event": draw(st.sampled_from(["session.started", "context.compacted"])),
        "event_id": draw(st.sampled_from(["evt_1", "evt_2"])),
        "adapter_id": draw(st.sampled_from(adapters)),
        "invocation_id": draw(st.sampled_from(["inv_1", "inv_2"])),
        "harness_session_id": draw(st.sampled_from(sessions)),
        "idempotency_key": draw(st.sampled_from([None, *(f"k{number}" for number in range(40))])),
        "metadata": draw(st.sampled_from([{}, {"n": 1000.0}])),
    }
    rest: dict[str, Any] = {
        "telemetry": draw(st.sampled_from([{}, {"cwd": "/srv/here", "tool": "x"}, {"emitter": "another"}])),
        "warnings": draw(st.sampled_from([[], [{"code": "odd", "message": "so"}]])),
    }
    changes, more = REASONS.get(reason, ({}, {}))
    return emission({**request, **changes}, **rest, **more)


@st.composite
def messages(draw: st.DrawFn) -> list[Emission]:
    """Draw a message: all of it plain, or one session's with anything in it.

    What is asked of clients in several sessions goes on side by side, and chance would order its ids.
    """
    if draw(st.booleans()):
        return draw(st.lists(emissions(["s1", "s2", None], ["codex", "codex-cli", "claude"]), min_size=1, max_size=5))
    reasons = st.sampled_from(["", *REASONS])
    return [draw(emissions(["s1"], ["codex", "codex-cli"], draw(reasons))) for _ in range(draw(st.integers(1, 5)))]


async def assert_same_both_ways(history: Sequence[Sequence[Emission]]) -> None:
    by_lane = await played(history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lane, "is_plain", lambda *_: False)
        assert await played(history) == by_lane


@settings(max_examples=effort(6, 300))
@given(st.lists(messages(), min_size=8, max_size=24))
async def test_both_ways_make_the_same_receipts_keys_chains_and_answers(history: list[list[Emission]]) -> None:
    await assert_same_both_ways(history)


async def test_chains_repeated_keys_and_conflicts_are_the_same_both_ways() -> None:
    one, other = emission({"idempotency_key": "k"}), emission({"idempotency_key": "k", "event_id": "evt_2"})
    chained = [emission({"invocation_id": name}) for name in ("inv_1", "inv_2", "inv_1")]
    await assert_same_both_ways([[one], [one], [other], chained, [one, other, *chained]])


@pytest.mark.parametrize("reason", REASONS)
def test_an_emission_that_needs_more_than_its_receipt_is_not_plain(reason: str) -> None:
    request, rest = REASONS[reason]
    one = emission(request, **rest)
    registry = Registry(adapter.registered for adapter in ADAPTERS.values())
    found = registry.resolve(one.request.adapter_id, one.request.adapter_version, one.request.integration_mode)
    client = CallbackClient(client_id="client", events=frozenset({ASKED}), invoker=FunctionInvoker(answering()))
    asked = [client] if one.request.event is ASKED else []
    assert not is_plain(one, found, asked)
    if isinstance(found, Refusal):
        assert found.retry_class


def test_all_else_is_plain_and_the_interest_of_a_client_alone_is_not() -> None:
    registered = ADAPTERS["codex"].registered
    client = CallbackClient(client_id="client", events=frozenset({ASKED}), invoker=FunctionInvoker(answering()))
    one = emission({"idempotency_key": "k", "metadata": {"a": [1]}}, telemetry={"tool": "x"})
    assert is_plain(one, registered, ())
    assert not is_plain(one, registered, [client])


async def test_plain_emissions_are_answered_without_a_plan_and_one_other_takes_them_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Emission] = []
    plan = Router.plan

    def noted(self: Router, client_id: str, given: Emission, *rest: Any, **more: Any) -> Any:
        planned.append(given)
        return plan(self, client_id, given, *rest, **more)

    monkeypatch.setattr(Router, "plan", noted)
    plain, other = emission({}), emission({"event": "session.ended"})
    async with opened(tmp_path) as bus:
        await sent(bus, [plain, plain])
        assert (planned, bus.ledger.head) == ([], 2)
        await sent(bus, [plain, other])
        assert (planned, bus.ledger.head) == ([plain, other], 4)
        assert sum(bus.acknowledgements.counts) == 2


async def test_a_message_that_the_ledger_does_not_take_is_refused_for_each_of_its_emissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = [emission({}), emission({})]
    async with opened(tmp_path) as bus:
        monkeypatch.setattr(bus.ledger, "append", lambda *_: BUSY)
        by_lane = await sent(bus, history)
        monkeypatch.setattr(Lane, "take", lambda *_, **__: False)
        assert await sent(bus, history) == by_lane
        assert by_lane.count(b"busy") == 2
