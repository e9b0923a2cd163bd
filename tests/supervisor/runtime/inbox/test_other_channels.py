"""Desktop, terminal and apprise: real processes, a real pseudo-terminal, a real local receiver."""

import importlib.util
import os
import pty
import select
import stat
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_supervisor.runtime.inbox.channels.apprise import AppriseChannel
from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault, QuestionChannel
from lifebus_supervisor.runtime.inbox.channels.desktop import DesktopChannel
from lifebus_supervisor.runtime.inbox.channels.terminal import TerminalChannel
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage, message_for
from lifebus_supervisor.runtime.inbox.records import QuestionState
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings
from lifebus_transports.processes.once import Commands
from support.inbox.delivering import next_post
from support.inbox.http_receiver import receiving
from support.inbox.questions import question
from support.patience import PATIENCE_S

FAKE_APPRISE = """
import json, os, pathlib

class Apprise:
    def add(self, url):
        self.url = url
        return not url.startswith("unknown")
    def notify(self, **fields):
        pathlib.Path(os.environ["HOME"], "sent.json").write_text(json.dumps({"url": self.url, **fields}))
        if "hang" in self.url:
            import time
            time.sleep(60)
        if "crash" in self.url:
            raise RuntimeError("cannot reach " + self.url)
        return "fail" not in self.url
"""


def message(**changes: Any) -> QuestionMessage:
    return message_for(QuestionState(question=question(**changes)), "screen", 0)


@asynccontextmanager
async def commands() -> AsyncIterator[Commands]:
    async with anyio.create_task_group() as tasks:
        yield Commands(tasks)
        tasks.cancel_scope.cancel()


async def fault_of(channel: QuestionChannel, about: QuestionMessage | None = None) -> str:
    with pytest.raises(DeliveryFault) as caught:
        await channel.deliver(about or message())
    return caught.value.detail


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


async def test_a_desktop_notification_shows_the_title_and_nothing_that_others_may_not_read(tmp_path: Path) -> None:
    script(tmp_path / "bin/notify-send", f'printf "%s\\n" "$@" > {tmp_path}/words', f"env > {tmp_path}/environment")
    environ = {"PATH": f"{tmp_path}/bin:{os.defpath}", "API_TOKEN": "hidden-value"}
    settings = ChannelSettings(name="desk", kind="desktop")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environ, "DISPLAY": ":7"}.items():
            patch.setenv(name, value)
        async with commands() as run:
            await DesktopChannel(settings, run.run_once, environ, "linux").deliver(message(title="<b> & hidden-value"))
    words = (tmp_path / "words").read_text().splitlines()
    assert words[-2:] == ["Question: <b> & [redacted]", "lifebus inbox show q_1"]
    assert any(word.startswith("--hint=string:x-lifebus-delivery:msg_") for word in words)
    assert "DISPLAY=:7" in (tmp_path / "environment").read_text()
    assert "hidden-value" not in (tmp_path / "environment").read_text()


async def test_a_body_is_no_markup_and_a_title_no_option(tmp_path: Path) -> None:
    script(tmp_path / "bin/notify-send", f'printf "%s\\n" "$@" > {tmp_path}/words')
    environ = {"PATH": f"{tmp_path}/bin:{os.defpath}"}
    settings = ChannelSettings(name="desk", kind="desktop", title="$title", body="$reason")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", environ["PATH"])
        async with commands() as run:
            channel = DesktopChannel(settings, run.run_once, environ, "linux")
            await channel.deliver(message(title="--icon=x", reason="<a href='x'>&"))
    assert (tmp_path / "words").read_text().splitlines()[-3:] == ["--", "--icon=x", "&lt;a href='x'&gt;&amp;"]


async def test_on_macos_the_texts_are_arguments_of_the_script(tmp_path: Path) -> None:
    script(tmp_path / "bin/osascript", f'printf "%s\\n" "$@" > {tmp_path}/words')
    environ = {"PATH": f"{tmp_path}/bin:{os.defpath}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", environ["PATH"])
        async with commands() as run:
            settings = ChannelSettings(name="desk", kind="desktop", title="$title")
            await DesktopChannel(settings, run.run_once, environ, "darwin").deliver(message(title='" & quit'))
    words = (tmp_path / "words").read_text().splitlines()
    assert words[-2:] == ['" & quit', "lifebus inbox show q_1"]
    assert [words[number] for number in (0, 2, 4)] == ["-e"] * 3


async def test_a_desktop_that_is_not_there_or_fails_is_said(tmp_path: Path) -> None:
    settings = ChannelSettings(name="desk", kind="desktop")
    async with commands() as run:
        missing = DesktopChannel(settings, run.run_once, {"PATH": str(tmp_path)}, "linux")
        assert await fault_of(missing) == "there is no `notify-send` on the PATH of the broker"
        script(tmp_path / "bin/notify-send", "echo no bus >&2", "exit 1")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{tmp_path}/bin:{os.defpath}")
            failing = DesktopChannel(settings, run.run_once, {"PATH": f"{tmp_path}/bin"}, "linux")
            assert "no bus" in await fault_of(failing)


@contextmanager
def terminal() -> Iterator[tuple[int, str]]:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    try:
        yield ours, os.ttyname(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


async def test_a_terminal_shows_the_question_and_is_not_steered_by_it() -> None:
    with terminal() as (ours, name):
        channel = TerminalChannel(ChannelSettings(name="tty", kind="terminal", device=name), {})
        await channel.deliver(message(title="a title", reason="line\nred \x1b[31m\x9b2Jtext"))
        assert select.select([ours], [], [], 10)[0]
        shown = os.read(ours, 65_536).decode()
    assert "Question: a title" in shown
    assert "lifebus inbox show q_1" in shown
    assert "Notification msg_" in shown
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\r\n  line\r\n" in shown


async def test_what_is_no_terminal_or_takes_nothing_is_said() -> None:
    def at(device: str) -> TerminalChannel:
        return TerminalChannel(ChannelSettings(name="tty", kind="terminal", device=device), {})

    assert "is no terminal" in await fault_of(at("/dev/null"))
    assert "no terminal can be written to" in await fault_of(at("/dev/pts/does-not-exist"))
    # The other end reads nothing: at some point the terminal is full, and nobody waits for it.
    with terminal() as (_, name), pytest.raises(DeliveryFault, match="takes nothing now"):
        await _fill(at(name))


async def _fill(channel: TerminalChannel) -> None:
    while True:
        await channel.deliver(message(reason="x" * 1_000))


def apprise(directory: Path, run: Commands, url: str, **changes: Any) -> AppriseChannel:
    path = directory / "url"
    path.write_text(url)
    path.chmod(0o600)
    return AppriseChannel(
        ChannelSettings(name="team", kind="apprise", url_file=str(path), **changes), run.run_once, dict(os.environ)
    )


@pytest.fixture
def fake_apprise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that stands for apprise in the child process."""
    (tmp_path / "apprise.py").write_text(FAKE_APPRISE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


async def test_apprise_gets_one_url_and_plain_text(fake_apprise: Path) -> None:
    async with commands() as run:
        await apprise(fake_apprise, run, "ok://token-in-url/x\n").deliver(message())
    sent = (fake_apprise / "sent.json").read_text()
    assert '"url": "ok://token-in-url/x"' in sent
    assert '"body_format": "text"' in sent
    assert "the credentials have expired" in sent
    assert "Notification msg_" in sent


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("unknown://token-in-url", "does not know this kind of URL"),
        ("fail://token-in-url", "could not deliver it"),
        ("crash://token-in-url", "apprise failed"),
        ("ok://token-in-url ok://other", "one URL"),
    ],
)
async def test_what_apprise_cannot_do_is_said_without_the_url(fake_apprise: Path, url: str, words: str) -> None:
    async with commands() as run:
        detail = await fault_of(apprise(fake_apprise, run, url))
    assert words in detail
    assert "token-in-url" not in detail


async def test_apprise_that_hangs_is_ended(fake_apprise: Path) -> None:
    async with commands() as run:
        channel = apprise(fake_apprise, run, "hang://token-in-url", timeout_ms=1_500)
        assert "deadline" in await fault_of(channel)
        with anyio.fail_after(PATIENCE_S):
            while run.running:
                await anyio.lowlevel.checkpoint()


async def test_apprise_that_is_not_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A finder before all others that knows no apprise, as where the extra is not installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'apprise':\n"
        "            raise ModuleNotFoundError('No module named apprise', name='apprise')\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    async with commands() as run:
        detail = await fault_of(apprise(tmp_path, run, "json://127.0.0.1"))
    assert detail == "apprise is not installed; run: pip install 'lifebus[notify]'"


@pytest.mark.skipif(importlib.util.find_spec("apprise") is None, reason="the extra `notify` is not installed")
async def test_the_real_apprise_delivers_to_a_real_receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy"):  # no proxy leads to this machine
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with receiving() as receiver:
        async with commands() as run:
            channel = apprise(tmp_path, run, f"json://127.0.0.1:{receiver.port}/here", timeout_ms=60_000)
            await channel.deliver(message())
            post = await next_post(receiver)
            receiver.answer = lambda _: (500, {})
            detail = await fault_of(channel)
    assert post.path == "/here"
    assert post.document["title"] == "Question: audit is blocked"
    assert "lifebus inbox show q_1" in post.document["message"]
    assert detail == "apprise could not deliver it"
    assert stat.S_IMODE((tmp_path / "url").stat().st_mode) == 0o600
