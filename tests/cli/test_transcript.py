"""`lifebus transcript`: transcripts listed, shown and exported."""

from pathlib import Path

import anyio

import lifebus
from lifebus_contract.transcripts import EntryRole
from support.command_line import Shell, broker_up
from support.transcripts.boxes import entry


async def write(runtime_dir: Path) -> None:
    async with lifebus.connect("writer", runtime_dir=runtime_dir) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        await bus.transcripts.upsert("s1", entry("m1", role=EntryRole.USER, type="userMessage", content="do\x1b[3m"))
        await bus.transcripts.upsert("s1", entry("m2", content="a ``` fence", status="error", started_at=1_000))


def test_a_transcript_is_listed_shown_and_exported(alone: Shell) -> None:
    with broker_up(alone):
        assert "no transcript is kept" in alone.call("transcript", "list").err
        anyio.run(write, alone.directory / "run")
        assert [one["sessionId"] for one in alone.call("transcript", "list", "--json").json] == ["s1"]
        assert "s1" in alone.call("transcript", "list").out
        shown = alone.call("transcript", "show", "s1").out
        assert "\x1b" not in shown
        for words in ("user [userMessage]", "do", "system [note] (error)  1970-01-01T00:00:01Z", "a ``` fence"):
            assert words in shown
        assert "userMessage" not in alone.call("transcript", "show", "s1", "--last", "1").out
        exported = alone.call("transcript", "export", "s1").out
        # A fence that the text cannot end.
        assert "````\na ``` fence\n````\n" in exported
        assert exported.startswith("# Session s1\n\n## user [userMessage]\n\ndo")
        document = alone.call("transcript", "export", "s1", "--format", "json").json
        assert [one["messageId"] for one in document["entries"]] == ["m1", "m2"]
        assert "SYSTEM [note]: a ``` fence\n" in alone.call("transcript", "export", "s1", "--format", "text").out
        unknown = alone.call("transcript", "show", "other")
        assert (unknown.out, unknown.code, "no session `other`" in unknown.err) == ("", 1, True)
        assert alone.call("transcript", "show", "codex/s1").out == shown
