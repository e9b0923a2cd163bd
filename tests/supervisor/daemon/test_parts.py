"""Parts that are made at their first use: once, complete, with nothing missed, and not while the broker stops."""

from collections.abc import Awaitable, Callable, Mapping

import anyio
import pytest

import lifebus
from lifebus_contract import BrokerBusy, LifebusError, TransportError
from lifebus_contract.jobs import JobState, NewJob
from lifebus_contract.questions import Question
from lifebus_contract.runs import RunStatus
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.daemon.composition import NOTHING_DONE, Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.daemon.optional_parts import FLOW_STREAMS, SESSION_STREAMS
from lifebus_supervisor.daemon.parts import Part
from lifebus_supervisor.daemon.session_work import SessionWork
from lifebus_supervisor.version import VERSION
from lifebus_transports.messages.verbs import FAMILIES, VERBS
from support.broker_process import until
from support.flows import flow, step
from support.integration.hooking import call_hook
from support.integration.observing import Observer, signal
from support.parts import make_whole, sessions_of
from support.running import connected, running_bus, settings_in, short_directory

VERB = "job_list"


class Parted:
    """A part that says what was done with it, and waits or fails where a test has it do so."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.begun, self.may_load = anyio.Event(), anyio.Event()
        self.may_load.set()
        self.refusal: LifebusError | None = None
        self.is_finishing = False

    def compose(self) -> "Parted":
        self.done.append("composed")
        return self

    async def load(self) -> None:
        self.begun.set()
        await self.may_load.wait()
        if self.refusal is not None:
            raise self.refusal
        self.done.append("loaded")

    async def start(self, *, at_start: bool) -> None:
        self.done.append(f"started {at_start}")

    def handlers(self) -> Handlers:
        async def later(*_: object) -> str:
            return "answer"

        return {VERB: later, "job_show": lambda *_: "at once"}

    def counters(self) -> Mapping[str, int]:
        return {}

    def stop(self) -> None:
        self.done.append("stopped")

    def close(self) -> None:
        self.done.append("closed")


def part_of(work: Parted) -> Part[Parted]:
    return Part("lifebus_supervisor.daemon.halt", work.compose, (VERB, "job_show"))


async def ask(part: Part[Parted], verb: str = VERB) -> object:
    return await part.handlers()[verb](None, None)  # type: ignore[arg-type]


async def test_the_first_verb_makes_a_part_and_others_find_it() -> None:
    work = Parted()
    part = part_of(work)
    assert (part.made, part.is_finishing, work.done) == (None, False, [])
    assert [await ask(part), await ask(part, "job_show"), await part.use()] == ["answer", "at once", work]
    assert work.done == ["composed", "loaded", "started False"]


async def test_two_first_uses_at_once_make_it_once() -> None:
    work, answers = Parted(), list[object]()
    part, work.may_load = part_of(work), anyio.Event()

    async def use() -> None:
        answers.append(await ask(part))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(use)
        await work.begun.wait()
        assert (answers, part.is_finishing) == ([], True)
        work.may_load.set()
    assert (answers, work.done) == (["answer"] * 5, ["composed", "loaded", "started False"])


async def test_one_that_is_loaded_at_the_start_is_started_once_even_where_a_verb_comes_between() -> None:
    work = Parted()
    part = part_of(work)
    await part.load()
    assert await ask(part) == "answer"
    await part.start()
    await part.start()
    assert work.done == ["composed", "loaded", "started True"]
    late = part_of(between := Parted())
    assert await ask(late) == "answer"
    await late.start()  # the sockets were open before the broker came to start what it had loaded
    assert between.done == ["composed", "loaded", "started False"]


async def test_a_first_use_that_fails_is_refused_and_the_next_one_tries_again_without_a_second_listener() -> None:
    work = Parted()
    part, work.refusal = part_of(work), BrokerBusy("too much is read", code="busy")
    for _ in range(2):
        with pytest.raises(BrokerBusy, match="too much is read"):
            await ask(part)
    assert part.made is None
    work.refusal = None
    assert await ask(part) == "answer"
    assert work.done == ["composed", "loaded", "started False"]


async def test_a_stop_in_the_middle_of_a_first_use_waits_for_it_and_stops_it() -> None:
    work = Parted()
    part, work.may_load = part_of(work), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, part)
        await work.begun.wait()
        part.stop()
        assert part.is_finishing
        work.may_load.set()
    assert (part.is_finishing, work.done) == (False, ["composed", "loaded", "started False", "stopped"])
    part.close()
    assert work.done[-1] == "closed"


async def test_a_first_use_behind_the_stop_is_refused_as_busy() -> None:
    work = Parted()
    part = part_of(work)
    part.stop()
    with pytest.raises(TransportError) as refused:
        await ask(part)
    part.close()
    assert (refused.value.code, work.done) == ("busy", [])


@pytest.mark.parametrize("installed", [VERSION, None, "9.9.9"])
async def test_no_half_of_another_version_is_loaded_beside_what_runs(
    monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    monkeypatch.setattr("lifebus_supervisor.daemon.parts.installed_version", lambda: installed)
    assert await ask(part_of(Parted())) == "answer"  # loaded before the upgrade
    unloaded = "lifebus_supervisor.daemon.nothing_of_this_name"
    with pytest.raises(LifebusError if installed == "9.9.9" else ModuleNotFoundError) as refused:
        await Part(unloaded, Parted().compose, ()).use()
    if installed == "9.9.9":
        assert "9.9.9 was installed over the broker" in str(refused.value)
        assert str(refused.value).endswith("[operator_required, retry_after_operator]")


def test_families_name_the_verbs_that_their_modules_have() -> None:
    read = {verb for names in FAMILIES.values() for verb in names}
    assert {name: VERBS[name].name for name in VERBS} == {name: name for name in VERBS}
    assert all(VERBS[name].pool is not None for name in read), "a first use takes its time"


async def test_a_broker_that_serves_emissions_and_hooks_makes_none_and_counts_the_same() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
        await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", session_id="s", prompt="p", cwd="/")
        before = (await bus.status()).counters
        assert (daemon.sessions.made, daemon.flows.made) == (None, None)
        await make_whole(daemon)
        after = (await bus.status()).counters
        assert daemon.sessions.made is not None
        assert daemon.flows.made is not None
        assert {**daemon.sessions.made.counters(), **daemon.flows.made.counters()} == NOTHING_DONE
    assert set(before) == set(after)
    assert {name: before[name] for name in NOTHING_DONE} == NOTHING_DONE


async def queue_job(bus: lifebus.Bus) -> None:
    new = NewJob(type="command", project_id="p", payload={"argv": ["true"], "cwd": "/"}, job_id="j")
    await bus.jobs.enqueue(new)
    assert (await bus.jobs.wait("j")).state is JobState.COMPLETED


async def ask_a_person(bus: lifebus.Bus) -> None:
    await bus.inbox.ask(Question(question_id="q", client_id="c", title="Go on?", reason="why", asked_at_ms=1))


async def run_a_flow(bus: lifebus.Bus) -> None:
    run = await bus.flows.submit(flow("/tmp", step("a")), run_id="r")
    async for now in bus.flows.follow("r"):
        run = now
    assert run.status is RunStatus.COMPLETED


async def observe(bus: lifebus.Bus) -> None:
    assert await Observer(bus).observe(signal("t1"), signal("t2")) == 2


async def forget(bus: lifebus.Bus) -> None:
    await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
    await bus.close_session(("codex", "s"))
    await bus.forget_session(("codex", "s"))


async def write(bus: lifebus.Bus) -> None:
    await observe(bus)
    said = {"role": EntryRole.ASSISTANT, "type": "note", "content": "c", "status": EntryStatus.COMPLETE}
    await bus.transcripts.upsert("t1", TranscriptEntry(message_id="m", turn_id="u", **said))  # type: ignore[arg-type]


async def reload(bus: lifebus.Bus) -> None:
    assert (await bus.extensions.reload()).status == "ok"


USES: dict[str, tuple[Callable[[lifebus.Bus], Awaitable[None]], str]] = {
    "job": (queue_job, "sessions"),
    "question": (ask_a_person, "flows"),
    "run": (run_a_flow, "flows"),
    "signals": (observe, "sessions"),
    "forgotten session": (forget, "sessions"),
    "transcript": (write, "sessions"),
    "extensions": (reload, "sessions"),
}


@pytest.mark.parametrize("use", USES)
async def test_a_part_works_at_its_first_use_and_is_there_from_the_start_where_it_has_left_something(use: str) -> None:
    what, name = USES[use]
    other = "flows" if name == "sessions" else "sessions"
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await what(bus)
            assert [getattr(daemon, one).made is not None for one in (name, other)] == [True, False]
            left = [one.stream for one in await daemon.bus.ledger.journal.streams()]
        known = {"sessions": SESSION_STREAMS, "flows": FLOW_STREAMS}[name]
        assert set(left) & set(known.names) or any(one.startswith(known.prefixes) for one in left)
        async with running_bus(directory=directory) as daemon:
            assert [getattr(daemon, one).made is not None for one in (name, other)] == [True, False]


async def test_a_stop_in_the_middle_of_a_first_use_ends_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, load = anyio.Event(), SessionWork.load

    async def load_while_the_broker_stops(work: SessionWork) -> None:
        begun.set()
        await until(lambda: daemons[0].api.stopping)
        await load(work)

    monkeypatch.setattr(SessionWork, "load", load_while_the_broker_stops)
    daemons: list[Daemon] = []

    async def queue(bus: lifebus.Bus) -> None:
        with pytest.raises(LifebusError):  # no answer, or that the broker is gone
            await queue_job(bus)

    with short_directory() as directory:
        async with anyio.create_task_group() as tasks:
            async with running(settings_in(directory)) as daemon, connected(daemon) as bus:
                daemons.append(daemon)
                tasks.start_soon(queue, bus)
                await begun.wait()
                # Neither emissions nor hooks wait for what is being made.
                await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
                await call_hook(daemon, "claude", hook_event_name="Stop", session_id="s")
                assert daemon.sessions.made is None
            assert daemon.halt.exit_code == 0
            assert not sessions_of(daemon).queue.turns.is_started
            tasks.cancel_scope.cancel()
        monkeypatch.undo()
        async with running_bus(directory=directory) as again, connected(again) as bus:
            assert again.bus.ledger.head > 0
            await queue_job(bus)
