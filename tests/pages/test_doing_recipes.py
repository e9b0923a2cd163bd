"""The recipes that do something: what each page has its reader do is done as it stands there, and does what it says."""

import os
import re
import shutil
import sys
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus_supervisor.extensions.settings import ExtensionSettings
from support.clients.patient_hook import patient_hook
from support.integration.steering import SERVER, scene
from support.pages import Page, Reader
from support.paths import SUPPORT
from support.patience import PATIENCE_S
from support.recipes import broker_of, happened, ran, saved
from support.running import until_answered

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")


async def test_a_person_is_notified_of_a_permission(reader: Reader) -> None:
    _, own = saved("notify-me", reader)
    shown = reader.folder / "shown"
    _program(reader, "notify-send", f'echo "$2" > {shown}.new && mv {shown}.new {shown}')
    facts: dict[str, str | int | bool | None] = {"waiting": "begun", "waiting_for": "permission"}
    facts["waiting_kind"] = "Bash"
    async with broker_of(reader) as bus:
        await happened(bus, "session.started")

        # Nobody can say when a program has begun to follow, so the session waits until it is noticed.
        async def waits(made: Path) -> str:
            tick = lifebus.make_request("supervisor.tick", "claude", session="s1")
            await bus.emit(lifebus.Emission(request=tick, telemetry=facts))
            return _text(made)

        with reader.started(own) as process:
            assert process.stdout is not None
            assert await anyio.to_thread.run_sync(process.stdout.readline) == b"waiting\n"
            assert await until_answered(lambda: waits(shown), bool) == "claude#1 waits: permission Bash\n"


async def test_a_command_is_told_of_each_wait(reader: Reader) -> None:
    notify, _ = saved("notify-me", reader)
    facts: dict[str, str | int | bool | None] = {"waiting": "begun", "waiting_for": "permission"}
    facts["waiting_kind"] = "Bash"
    async with broker_of(reader) as bus:
        await happened(bus, "session.started")
        with reader.started(f"({notify}) 2>&1") as process:
            assert process.stdout is not None
            assert (await anyio.to_thread.run_sync(process.stdout.readline)).startswith(b"notifying by")
            tick = lifebus.make_request("supervisor.tick", "claude", session="s1")
            await bus.emit(lifebus.Emission(request=tick, telemetry=facts))
            notices = reader.folder / "notices.txt"
            written = await until_answered(lambda: _text_soon(notices), bool)
    assert written == "claude#1 waits for a permission (Bash)\n"


async def test_each_new_session_gets_the_notes(reader: Reader) -> None:
    serve, look = saved("project-notes", reader)
    (reader.folder / "NOTES.md").write_text("Use tabs.\n")
    async with broker_of(reader) as bus:
        with reader.started(serve) as serving:
            assert serving.stdout is not None
            assert await anyio.to_thread.run_sync(serving.stdout.readline) == b"ready\n"
            bodies: list[str] = []
            while not bodies:  # a machine under load may take longer than an answer may
                bodies = await happened(bus, "session.started")
        shown = await ran(reader, look)
    assert bodies == ["Use tabs.\n"]
    assert (shown.code, "delivered" in shown.text) == (0, True)


async def test_a_command_adds_the_newest_commit_to_each_prompt(reader: Reader) -> None:
    (serve,) = saved("answer-command", reader)
    git = "git -c user.name=a -c user.email=a@b init -q api && cd api && git -c user.name=a -c user.email=a@b"
    assert (await ran(reader, f"{git} commit -q --allow-empty -m 'Begin the shop'")).code == 0
    async with broker_of(reader) as bus:
        with reader.started(f"{serve.strip()} 2>&1") as serving:
            assert serving.stdout is not None
            assert b"branch" in await anyio.to_thread.run_sync(serving.stdout.readline)
            bodies: list[str] = []
            while not bodies:  # a machine under load may take longer than an answer may
                bodies = await happened(bus, "frame.opening", metadata={"cwd": str(reader.folder / "api")})
            nothing = await happened(bus, "frame.opening", metadata={"cwd": str(reader.folder)})
    assert re.fullmatch(r"The newest commit here is [0-9a-f]{7,} Begin the shop", bodies[0])
    assert nothing == []


async def test_a_hook_that_is_called_by_hand_is_recorded(reader: Reader) -> None:
    turn, failure, codex, look, unknown, full = saved("hook-by-hand", reader)
    async with broker_of(reader):
        assert (await ran(reader, "lifebus hooks install claude --yes")).code == 0
        with patient_hook(reader.folder):
            for by_hand in (turn, failure, codex):
                shown = await ran(reader, by_hand)
                assert (shown.code, shown.text) == (0, "")
            shown = await ran(reader, look)
            wrong = await ran(reader, unknown)
            of_codex = await ran(reader, look.replace("claude", "codex"))
            pressure = await ran(reader, full)
    turn_of_both = ["session.started", "waits for permission (Bash)", "context.compacted", "frame.ended"]
    assert _happenings(shown.text) == [*turn_of_both, "frame.ended", "session.ended", "frame.ended"]
    assert _happenings(of_codex.text) == [*turn_of_both, "session.ended"]
    assert (wrong.code, wrong.text) == (0, '"hook_unknown_adapter": 1\n')
    assert (pressure.code, "85 % high" in pressure.text) == (0, True)


async def test_one_program_answers_and_sees_what_becomes_of_it(reader: Reader) -> None:
    (both,) = saved("serve-and-follow", reader)
    async with broker_of(reader) as bus:
        with reader.started(both) as process:
            assert process.stdout is not None
            assert await anyio.to_thread.run_sync(process.stdout.readline) == b"ready\n"
            bodies: list[str] = []
            while not bodies:  # a machine under load may take longer than an answer may
                bodies = await happened(bus, "session.started")
            lines: list[bytes] = []
            while b"claude s1 delivered\n" not in lines:
                lines.append(await anyio.to_thread.run_sync(process.stdout.readline))
    assert bodies == ["Greet the user by name."]


async def test_queued_work_is_done_and_has_its_result(reader: Reader) -> None:
    work, look = saved("queue-work", reader)
    async with broker_of(reader):
        shown = await ran(reader, work)
        assert (shown.code, shown.text.splitlines()[-1]) == (0, "completed 3"), shown.text
        shown = await ran(reader, look)
    assert (shown.code, "completed" in shown.text) == (0, True)


@needs_jq
async def test_a_script_goes_on_when_a_person_has_answered(reader: Reader) -> None:
    run, look, answer, resume = saved("ask-a-person", reader)
    async with broker_of(reader):
        shown = await ran(reader, run)
        assert (shown.code, "Publish it?" in shown.text) == (4, True), shown.text
        assert not (reader.folder / "published").exists()
        assert "publish" in (await ran(reader, look)).text
        assert (await ran(reader, answer)).code == 0
        shown = await ran(reader, resume)
        assert shown.code == 0, shown.text
    assert (reader.folder / "published").read_text() == (reader.folder / "dist/app").read_text()


async def test_a_program_drives_an_app_server_on_the_record(reader: Reader) -> None:
    ask, look = saved("app-server", reader)
    _codex(reader)
    async with broker_of(reader):
        shown = await ran(reader, ask)
        assert (shown.code, shown.text) == (0, "hello\n")
        # Its observer may report the last of it when the program has ended already.
        while not ("frame.ended" in (shown := await ran(reader, look)).text and "turn.completed" in shown.text):
            assert shown.code == 0
    assert [one for one in ("session.started", "frame.opened") if one not in shown.text] == []


async def test_an_extension_allows_what_is_on_its_list(reader: Reader) -> None:
    page = Page("recipes/approve.md")
    page.save(reader.folder)
    settings = ExtensionSettings(roots=(str(reader.folder / ".config/lifebus/agents"),))
    async with scene(extensions=settings) as on:
        reader.environment["LIFEBUS_RUNTIME_DIR"] = str(on.daemon.settings.runtime_dir)
        with anyio.fail_after(PATIENCE_S):
            shown = await ran(reader, page.commands[0])
        assert (shown.code, "allow_tests" in shown.text) == (0, True), shown.text
        await on.client.begin("ask")
        await on.client.until("turn/completed")
        answers = [line["result"]["decision"] for line in on.read_by_server() if "decision" in line.get("result", {})]
    assert answers == ["accept"]


def _happenings(shown: str) -> list[str]:
    """Return what a tail showed of a session: its beginning, its waits, compactions and ends."""
    happened = r"session\.started|waits for permission \(Bash\)|context\.compacted|frame\.ended|session\.ended"
    return re.findall(happened, shown)


def _text(path: Path) -> str:
    """Return what is in a file, and nothing of one that is not there yet."""
    return path.read_text() if path.exists() else ""


async def _text_soon(path: Path) -> str:
    return _text(path)


def _codex(reader: Reader) -> None:
    """Put a program `codex` on the reader's path that talks as the real app-server does; its observer is patient."""
    reader.environment["PYTHONPATH"] = str(SUPPORT / "clients/patient_observer")
    _program(reader, "codex", f'exec "{sys.executable}" -I -S -u "{SERVER}" "{reader.folder}/kept"')


def _program(reader: Reader, name: str, line: str) -> None:
    """Put a program of one line on the reader's path."""
    program = reader.folder / "programs" / name
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    reader.environment["PATH"] = f"{program.parent}{os.pathsep}{reader.environment['PATH']}"
