"""The inbox of a broker that is a process of its own: killed at any point, asked and answered by others."""

import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio.abc import ByteStream, SocketAttribute

import lifebus
from lifebus_contract import InvalidRequest, StateConflict
from lifebus_contract.questions import AnswerAction, QuestionInfo
from support.broker_process import BrokerProcess, broker_process
from support.effort import effort
from support.inbox.http_receiver import Post, Receiver, receiving
from support.inbox.questions import answer, question
from support.inbox.signatures import is_genuine
from support.patience import PATIENCE_S
from support.running import short_directory

PROGRAM = Path(__file__).parents[2] / "support" / "inbox" / "dying_broker.py"
MANY = effort(250, 1_000)
SECRET = "one secret that the receiver knows as well"

SECOND_PROCESS = """
import sys, anyio, lifebus
from lifebus_contract import StateConflict

async def main():
    async with lifebus.connect("second", runtime_dir=sys.argv[1]) as bus:
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            await bus.inbox.answer("q_1", sys.argv[2], responder=sys.argv[2], message="from " + sys.argv[2])
            print("taken")
        except StateConflict as fault:
            print(fault.code, fault.detail)

anyio.run(main)
"""


@pytest.fixture
def directory() -> object:
    with short_directory() as path:
        yield path


def configure(directory: Path, *lines: str) -> dict[str, str]:
    """Write a configuration, and return the variables that lead to it."""
    path = directory / "config.toml"
    path.write_text("\n".join(lines))
    return {"LIFEBUS_CONFIG": str(path)}


def hook(directory: Path, url: str) -> dict[str, str]:
    secret = directory / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    return configure(
        directory,
        "[[inbox.channels]]",
        'name = "hook"',
        'kind = "webhook"',
        f'url = "{url}"',
        f'secret_file = "{secret}"',
    )


@asynccontextmanager
async def connected(broker: BrokerProcess) -> AsyncIterator[lifebus.Bus]:
    async with lifebus.connect("test", runtime_dir=broker.runtime_dir) as bus:
        yield bus


async def eventually(bus: lifebus.Bus, name: str, is_so: Callable[[QuestionInfo], bool]) -> QuestionInfo:
    with anyio.fail_after(PATIENCE_S):
        while not is_so(info := await bus.inbox.show(name)):
            await anyio.lowlevel.checkpoint()
        return info


async def next_post(receiver: Receiver) -> Post:
    return await anyio.to_thread.run_sync(receiver.next)


async def test_a_question_and_its_answer_survive_kills_and_a_second_answer_never_counts(directory: Path) -> None:
    async with broker_process(directory) as broker, connected(broker) as bus:
        await bus.inbox.ask(question())
        await broker.kill()
    async with broker_process(directory) as broker, connected(broker) as bus:
        assert [info.question for info in await bus.inbox.questions()] == [question()]
        await bus.inbox.ask(question())
        await bus.inbox.give("q_1", answer(message="renewed"))
        await broker.kill()
    async with broker_process(directory) as broker, connected(broker) as bus:
        assert await bus.inbox.questions() == []
        assert (await bus.inbox.give("q_1", answer(message="renewed"))).answer == answer(message="renewed")
        with pytest.raises(StateConflict) as caught:
            await bus.inbox.answer("q_1", AnswerAction.ABORT)
        assert caught.value.code == "already_answered"
        for fact in ("`retry`", "alice", "2026-09-21T14:13:25Z", "renewed"):
            assert fact in caught.value.detail


async def test_of_two_processes_that_answer_at_once_one_counts_and_the_other_learns_of_it(directory: Path) -> None:
    async with broker_process(directory) as broker, connected(broker) as bus:
        await bus.inbox.ask(question())
        command = [sys.executable, "-c", SECOND_PROCESS, str(broker.runtime_dir)]
        async with (
            await anyio.open_process([*command, "retry"]) as one,
            await anyio.open_process([*command, "abort"]) as two,
        ):
            outputs = []
            for process in (one, two):
                assert process.stdout is not None
                assert (await process.stdout.receive()).startswith(b"ready")
            for process in (one, two):
                assert process.stdin is not None
                await process.stdin.send(b"\n")
            for process in (one, two):
                assert process.stdout is not None
                outputs.append("".join([piece.decode() async for piece in process.stdout]).lstrip())
        (winner,) = [number for number, text in enumerate(outputs) if text == "taken\n"]
        action = ("retry", "abort")[winner]
        assert outputs[1 - winner].startswith("already_answered ")
        for fact in (f"`{action}` by {action}", f"from {action}"):
            assert fact in outputs[1 - winner]
        info = await bus.inbox.show("q_1")
        assert info.answer is not None
        assert (info.answer.action.value, info.answer.responder) == (action, action)


@pytest.mark.parametrize(("point", "posts"), [("before", 1), ("after", 2)])
async def test_a_broker_that_is_killed_around_a_delivery_makes_it_after_its_restart_under_the_same_id(
    directory: Path, point: str, posts: int
) -> None:
    with receiving() as receiver:
        settings = hook(directory, receiver.url)
        dying = partial(broker_process, directory, program=PROGRAM, DIE=point, **settings)
        async with (
            dying() as broker,
            connected(broker) as bus,
        ):
            # The question is durable before it is sent: the answer may or may not come before the kill.
            with contextlib.suppress(lifebus.LifebusError):
                await bus.inbox.ask(question())
            assert await broker.ended() == -signal.SIGKILL
        async with (
            dying() as broker,
            connected(broker) as bus,
        ):
            for _ in range(posts):
                post = await next_post(receiver)
            info = await eventually(bus, "q_1", lambda info: bool(info.notifications))
            assert info.notifications[0].delivered_at_ms is not None
        assert len(receiver.posts) == posts
        assert len({post.headers["webhook-id"] for post in receiver.posts}) == 1
        assert is_genuine(post, SECRET.encode())


async def test_a_server_that_is_down_is_tried_again_after_a_kill_and_nothing_secret_shows(directory: Path) -> None:
    with receiving() as receiver:
        receiver.answer = lambda _: (503, {})
        settings = hook(directory, receiver.url)
        async with broker_process(directory, **settings) as broker, connected(broker) as bus:
            await bus.inbox.ask(question())
            await next_post(receiver)
            await eventually(bus, "q_1", lambda info: bool(info.notifications))
            await broker.kill()
            log = broker.log
        looked = threading.Event()

        def answer_later(_: int) -> tuple[int, dict[str, str]]:
            looked.wait(PATIENCE_S)
            return 200, {}

        receiver.answer = answer_later
        async with broker_process(directory, **settings) as broker, connected(broker) as bus:
            info = await bus.inbox.show("q_1")
            assert (info.notifications[0].tries, info.notifications[0].fault) == (1, "the server answered 503")
            looked.set()
            await next_post(receiver)  # after the pause of 5 s, which the restart did not cut short
            info = await eventually(bus, "q_1", lambda info: info.notifications[0].delivered_at_ms is not None)
            shown = repr(await bus.status()) + repr(info) + log + broker.log
        ids = {post.headers["webhook-id"] for post in receiver.posts}
        times = [int(post.headers["webhook-timestamp"]) for post in receiver.posts]
        assert (len(ids), len(times)) == (1, 2)
        assert times[1] - times[0] >= 5
        assert SECRET not in shown
        assert not any(SECRET.encode() in post.body for post in receiver.posts)


async def test_a_server_that_never_answers_holds_up_nothing_not_even_the_stop(directory: Path) -> None:
    async def swallow(stream: ByteStream) -> None:
        async with stream:
            asked.set()
            with contextlib.suppress(anyio.BrokenResourceError):
                async for _ in stream:
                    pass

    asked = anyio.Event()
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, swallow)
        port = listener.extra(SocketAttribute.local_port)
        settings = hook(directory, f"http://127.0.0.1:{port}/")
        paper = ("[[inbox.channels]]", 'name = "paper"', 'kind = "file"')
        with (directory / "config.toml").open("a") as config:
            config.write("\ntimeout_ms = 120_000\n" + "\n".join(paper))
        async with broker_process(directory, **settings) as broker, connected(broker) as bus:
            for number in range(10):
                await bus.inbox.ask(question(f"q_{number}"))
            with anyio.fail_after(PATIENCE_S):
                await asked.wait()
            info = await eventually(bus, "q_9", lambda info: bool(info.notifications))
            assert [one.channel for one in info.notifications] == ["paper"]
            emitted = await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
            assert emitted.positions == (1,)
            assert await broker.terminate() == 0
        tasks.cancel_scope.cancel()


async def test_a_reply_that_was_written_while_no_broker_ran_answers_once(directory: Path) -> None:
    settings = configure(directory, "[[inbox.channels]]", 'name = "paper"', 'kind = "file"')
    folder = directory / "state" / "inbox"
    async with broker_process(directory, **settings) as broker, connected(broker) as bus:
        await bus.inbox.ask(question())
        await eventually(bus, "q_1", lambda info: bool(info.notifications))
        await broker.kill()
    assert "lifebus inbox answer q_1 retry" in (folder / "q_1.md").read_text()
    (folder / "q_1.reply").write_text("abort\nenough\n")
    async with broker_process(directory, **settings) as broker, connected(broker) as bus:
        info = await eventually(bus, "q_1", lambda info: not info.is_open)
        assert info.answer is not None
        assert (info.answer.action, info.answer.message, info.answer.channel) == (AnswerAction.ABORT, "enough", "paper")
        await eventually(bus, "q_1", lambda info: info.notifications[0].tries == 2)
        (folder / "q_1.reply").write_text("retry")
        with anyio.fail_after(PATIENCE_S):
            while not (folder / "q_1.problem.txt").exists():
                await bus.status()
        assert "answered already: `abort`" in (folder / "q_1.problem.txt").read_text()
        assert (await bus.inbox.show("q_1")).answer == info.answer


async def test_who_waits_for_an_answer_waits_over_restarts_of_the_broker(directory: Path) -> None:
    settled: list[QuestionInfo] = []
    asking = anyio.Event()

    async def wait(runtime_dir: Path) -> None:
        async with lifebus.connect("asker", runtime_dir=runtime_dir, timeout=PATIENCE_S) as bus:
            asking.set()
            settled.append(await bus.inbox.wait("q_1"))

    async with anyio.create_task_group() as tasks:
        async with broker_process(directory) as broker, connected(broker) as bus:
            await bus.inbox.ask(question())
            tasks.start_soon(wait, broker.runtime_dir)
            await asking.wait()
            await broker.kill()
        async with broker_process(directory) as broker, connected(broker) as bus:
            await bus.inbox.give("q_1", answer())
            with anyio.fail_after(PATIENCE_S):
                while not settled:
                    await anyio.lowlevel.checkpoint()
    assert settled[0].answer == answer()


async def test_withdrawn_and_unknown_questions_and_pages_of_many(directory: Path) -> None:
    async with broker_process(directory) as broker, connected(broker) as bus:
        names = [f"q_{number:03}" for number in range(150)]
        for name in names:
            await bus.inbox.ask(question(name, context={"log": "x" * 4_000}))
        await bus.inbox.withdraw("q_007")
        names.remove("q_007")
        assert [info.question.question_id for info in await bus.inbox.questions()] == names
        assert len(await bus.inbox.questions(open_only=False)) == 150
        with pytest.raises(StateConflict, match="withdrawn"):
            await bus.inbox.answer("q_007", AnswerAction.RETRY)
        with pytest.raises(InvalidRequest, match="no question `q_x`"):
            await bus.inbox.show("q_x")
        assert (await bus.status()).counters["questions_open"] == 149


async def test_open_questions_take_little_memory(directory: Path) -> None:
    settings = configure(directory, "[[inbox.channels]]", 'name = "paper"', 'kind = "file"')
    async with broker_process(directory, **settings) as broker, connected(broker) as bus:
        await _ask(bus, "first")
        await eventually(bus, "first", lambda info: bool(info.notifications))
        before = broker.memory
        async with anyio.create_task_group() as tasks:
            for number in range(MANY):
                tasks.start_soon(_ask, bus, f"q_{number}")
        while not all(info.notifications for info in await bus.inbox.questions()):
            await eventually(bus, f"q_{MANY - 1}", lambda info: bool(info.notifications))
        # A thousand of them take less than 20 MB; what the allocator takes at once is the same for fewer.
        assert broker.memory - before < 20 * 2**20 * MANY / 1_000 + 4 * 2**20


async def _ask(bus: lifebus.Bus, name: str) -> None:
    while True:
        try:
            await bus.inbox.ask(question(name))
        except lifebus.LifebusError as fault:
            if fault.code != "busy":
                raise
            await anyio.lowlevel.checkpoint()
        else:
            return
