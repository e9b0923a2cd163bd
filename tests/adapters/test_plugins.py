"""The JavaScript plugins of OpenCode and OpenClaw against a real hook server, under node."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from lifebus_adapters import ADAPTERS, HookAnswer, HookCall
from lifebus_adapters.shared.telemetry import Usage
from lifebus_transports.hooks.server import serve_hooks
from support.adapters.calls import ids
from support.adapters.plugins import LIMIT_S, NODE, PluginRun, plugin_text
from support.clients.hook_box import spooled_in
from support.paths import CAPTURES
from support.running import short_directory

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed: plugins are JavaScript")

OPENCODE = """
const hooks = await plugin.Lifebus({ directory: "/home/dev/project" })
"""
OPENCLAW = """
const hooks = {}
plugin.default.register({ on: (name, handler) => { hooks[name] = handler } })
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


class RecordingServer:
    """A hook server that keeps the calls, and gives the answers that it was made with."""

    def __init__(self, answer: bytes = b"") -> None:
        self.calls: list[HookCall] = []
        self.answer = answer

    async def handle(self, call: HookCall) -> HookAnswer:
        self.calls.append(call)
        return HookAnswer(stdout=self.answer)

    @property
    def payloads(self) -> list[Any]:
        return [json.loads(call.stdin) for call in self.calls]

    @asynccontextmanager
    async def open(self, directory: Path) -> AsyncIterator[None]:
        (directory / "run").mkdir(mode=0o700)
        async with anyio.create_task_group() as tasks:
            await tasks.start(serve_hooks, directory / "run" / "hook.sock", self.handle)
            yield
            tasks.cancel_scope.cancel()


async def play(plugin_run: PluginRun, script: str) -> tuple[Any, float]:
    return await anyio.to_thread.run_sync(plugin_run.play, script)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def opencode_script() -> str:
    """Play a whole capture of OpenCode into the plugin."""
    (capture,) = (CAPTURES / "opencode" / "three_runs_auto_compaction").glob("*.jsonl")
    records = json.dumps([line for line in lines_of(capture) if line["hook"] not in {"init", "config"}])
    return (
        OPENCODE
        + f"for (const {{ hook, input, output }} of {records}) await hooks[hook]?.(input ?? {{}}, output ?? {{}})"
    )


async def test_opencode_calls_carry_what_the_adapter_reads_and_no_word_of_the_conversation(directory: Path) -> None:
    server = RecordingServer()
    async with server.open(directory):
        await play(PluginRun(directory, "opencode"), opencode_script())
    found = events_of("opencode", server.calls)
    assert found.count("session.started") == 1
    assert found.count("frame.opened") == 3
    assert found.count("frame.ended") == 3
    assert found.count("context.compacted") == 1
    answers = [item for item in server.payloads if item["input"] and "info" in str(item["input"])]
    assert all(info["time"]["completed"] for item in answers if (info := finished(item)))
    usages = usages_of("opencode", server.calls)
    assert [(usage.used_tokens, usage.window_tokens) for usage in usages] == [
        (9_012, 20_000), (9_012, 20_000), (19_512, 20_000), (7_745, 20_000), (3_012, 20_000)
    ]  # fmt: skip
    everything = b"".join(call.stdin for call in server.calls)
    assert all(word not in everything for word in (b"First turn", b"Fake answer", b"echo hi", b"parts"))
    assert len({call.call_id for call in server.calls}) == len(server.calls)
    assert {call.cwd for call in server.calls} == {"/home/dev/project"}


def events_of(adapter_id: str, calls: list[HookCall]) -> list[str]:
    """Return the events that the adapter reads in what came from the plugin."""
    emissions = [emission for call in calls for emission in ADAPTERS[adapter_id].read(call, ids()).emissions]
    return [emission.request.event.value for emission in emissions]


def usages_of(adapter_id: str, calls: list[HookCall]) -> list[Usage]:
    """Return how full the context was, as the adapter reads it in what came from the plugin."""
    facts = [fact for call in calls for fact in ADAPTERS[adapter_id].read(call, ids()).facts]
    return [fact for fact in facts if isinstance(fact, Usage)]


def finished(payload: dict[str, Any]) -> dict[str, Any] | None:
    event = payload["input"].get("event", {})
    found: dict[str, Any] | None = event["properties"]["info"] if event.get("type") == "message.updated" else None
    return found


async def test_opencode_pushes_what_the_broker_answers_behind_the_users_words(directory: Path) -> None:
    server = RecordingServer(b'{"parts":[{"type":"text","text":"from a client"}]}')
    async with server.open(directory):
        said, _ = await play(
            PluginRun(directory, "opencode"),
            OPENCODE
            + 'const output = { message: { id: "msg_1", role: "user" }, parts: [{ text: "hello" }] }\n'
            + 'await hooks["chat.message"]({ sessionID: "ses_1" }, output); return output.parts',
        )
    assert [part["text"] for part in said] == ["hello", "from a client"]
    assert (said[1]["messageID"], said[1]["sessionID"], said[1]["synthetic"]) == ("msg_1", "ses_1", True)
    assert said[1]["id"].startswith("prt_")


async def test_openclaw_calls_carry_what_the_adapter_reads_and_no_word_of_the_conversation(directory: Path) -> None:
    (capture,) = (CAPTURES / "openclaw" / "agent_local_plugin_hooks").glob("*.jsonl")
    records = json.dumps([line for line in lines_of(capture) if line["hook"] != "register"])
    server = RecordingServer()
    async with server.open(directory):
        await play(
            PluginRun(directory, "openclaw"),
            OPENCLAW + f"for (const {{ hook, event, ctx }} of {records}) await hooks[hook]?.(event, ctx)",
        )
    found = events_of("openclaw", server.calls)
    assert found == ["frame.opening", "frame.opened", "frame.ending", "frame.ended"]
    (usage,) = usages_of("openclaw", server.calls)
    assert (usage.used_tokens, usage.window_tokens) == (31_869, 60_000)
    everything = b"".join(call.stdin for call in server.calls)
    assert all(word not in everything for word in (b"Hello there", b"Fake answer", b"messages", b"systemPrompt"))


async def test_openclaw_returns_the_context_that_the_broker_answers(directory: Path) -> None:
    server = RecordingServer(b'{"prependContext":"from a client"}')
    async with server.open(directory):
        said, _ = await play(
            PluginRun(directory, "openclaw"),
            OPENCLAW
            + 'return [await hooks.before_prompt_build({ prompt: "x" }, { sessionId: "s" }),'
            + ' await hooks.agent_end({}, { sessionId: "s" })]',
        )
    assert said == [{"prependContext": "from a client"}, None]


@pytest.mark.parametrize(
    ("adapter_id", "script"),
    [
        (
            "opencode",
            OPENCODE + 'await hooks.event({ event: { type: "lifebus.canary", properties: { canary: "n" } } })',
        ),
        ("openclaw", OPENCLAW + 'await hooks.agent_end({ "lifebus.canary": "n" }, {})'),
    ],
)
async def test_a_canary_goes_through(directory: Path, adapter_id: str, script: str) -> None:
    server = RecordingServer()
    async with server.open(directory):
        await play(PluginRun(directory, adapter_id), script)
    (call,) = server.calls
    (tick,) = ADAPTERS[adapter_id].read(call, ids()).emissions
    assert (tick.request.event, tick.telemetry["canary"]) == ("supervisor.tick", "n")


CALLS = 60
IDLE = OPENCODE + 'await hooks.event({ event: { id: "e", type: "session.idle", properties: { sessionID: "s" } } })'


def test_without_a_broker_the_call_is_spooled_and_the_harness_does_not_notice(directory: Path) -> None:
    plugin_run = PluginRun(directory, "opencode")
    plugin_run.play(IDLE)
    assert b'"session.idle"' in plugin_run.spooled(1)


def test_a_call_is_spooled_whole_also_when_the_harness_ends_at_once(directory: Path) -> None:
    plugin_run = PluginRun(directory, "opencode")
    plugin_run.play(IDLE + '; process.stdout.write("[null, 0]"); process.exit(0)')
    spooled = plugin_run.spooled(1)
    header, _, stdin = spooled.partition(b"\n")
    assert json.loads(stdin)["input"]["event"]["type"] == "session.idle"
    assert json.loads(header)["call_id"].startswith("plugin-")


def test_calls_that_are_under_way_when_the_harness_ends_are_spooled(directory: Path) -> None:
    plugin_run = PluginRun(directory, "opencode")
    plugin_run.play(
        OPENCODE + "process.once('exit', () => process.stdout.write('[null, 0]'))\n"
        'hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })\n'
        "hooks.dispose()\n"
        "process.exit(0)"
    )
    spooled = plugin_run.spooled(2)
    assert b'"session.idle"' in spooled
    assert b'"hook":"dispose"' in spooled


async def test_the_end_of_an_opencode_process_names_its_sessions(directory: Path) -> None:
    server = RecordingServer()
    created = '{ event: { id: "e", type: "session.created", properties: { sessionID: "s1", info: { id: "s1" } } } }'
    deleted = '{ event: { id: "d", type: "session.deleted", properties: { info: { id: "s3" } } } }'
    message = '{ message: { id: "m", role: "user" }, parts: [] }'
    async with server.open(directory):
        await play(
            PluginRun(directory, "opencode"),
            OPENCODE
            + f"await hooks.event({created}); await hooks['chat.message']({{ sessionID: 's2' }}, {message});"
            + f"await hooks['chat.message']({{ sessionID: 's3' }}, {message}); await hooks.event({deleted});"
            + "await hooks.dispose()",
        )
    ends = [ADAPTERS["opencode"].read(call, ids()) for call in server.calls if call.hook == "dispose"]
    assert [reading.session for reading in ends] == ["s1", "s2"]


def test_calls_that_wait_for_a_hung_broker_give_up_together(directory: Path) -> None:
    (directory / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(directory / "run" / "hook.sock"))
        hung.listen(2 * CALLS)
        plugin_run = PluginRun(directory, "opencode", hurried=True)
        events = [
            f'hooks.event({{ event: {{ id: "e{n}", type: "session.idle", properties: {{ sessionID: "s" }} }} }})'
            for n in range(CALLS)
        ]
        _, seconds = plugin_run.play(OPENCODE + f"await Promise.all([{', '.join(events)}])")
        # One after the other they would take at least this, on the fastest machine; at once it is one limit.
        assert seconds < CALLS * LIMIT_S
        plugin_run.spooled(CALLS)
    found, _ = spooled_in(directory / "state" / "spool")
    assert {one.header.call_id.partition("-")[0] for one in found} == {"plugin"}


def test_a_directory_that_others_may_enter_is_not_trusted(directory: Path) -> None:
    (directory / "run").mkdir()
    (directory / "run").chmod(0o755)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(directory / "run" / "hook.sock"))
        stranger.listen(1)
        stranger.setblocking(False)
        plugin_run = PluginRun(directory, "opencode")
        plugin_run.launcher.unlink()
        plugin_run.play(IDLE)
        with pytest.raises(BlockingIOError):
            stranger.accept()


async def test_an_answer_that_is_not_json_is_nothing(directory: Path) -> None:
    server = RecordingServer(b"not json")
    async with server.open(directory):
        plugin_run = PluginRun(directory, "openclaw")
        said, _ = await play(plugin_run, OPENCLAW + 'return await hooks.before_prompt_build({}, { sessionId: "s" })')
    assert said is None


def test_nonsense_from_the_harness_does_no_harm(directory: Path) -> None:
    plugin_run = PluginRun(directory, "opencode")
    plugin_run.launcher.unlink()
    said, _ = plugin_run.play(
        OPENCODE
        + 'for (const x of [undefined, null, {}, "x"]) { await hooks.event(x); await hooks["chat.message"](x, x) }'
        " await plugin.Lifebus(); return 1"
    )
    assert said == 1


async def test_hooks_that_were_left_out_are_not_reported(directory: Path) -> None:
    server = RecordingServer()
    async with server.open(directory):
        await play(PluginRun(directory, "opencode", ("dispose",)), IDLE + "; await hooks.dispose()")
    assert [call.hook for call in server.calls] == ["dispose"]


@pytest.mark.parametrize("adapter_id", ["opencode", "openclaw"])
def test_no_place_in_a_plugin_is_left_unfilled(adapter_id: str) -> None:
    text = plugin_text(adapter_id, '/home/d"ev/lifebus-hook')
    assert '"/home/d\\"ev/lifebus-hook"' in text
    assert not [word for word in ("@LAUNCHER@", "@ADAPTER@", "@HOOKS@") if word in text]
