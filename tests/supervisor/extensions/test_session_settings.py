"""What handlers learn of a session's settings: what its app-server has said of them, and nothing of others."""

from pathlib import Path
from typing import Any

import pytest

from lifebus_contract import LifebusError
from lifebus_contract.extensions import HandlerResult, RuntimeEvent
from lifebus_supervisor.extensions.session_settings import STARTED, UPDATED, KnownSettings
from lifebus_supervisor.extensions.settings import ExtensionSettings
from support.broker_process import until
from support.extensions.scene import write_extension
from support.integration.observing import Observer, signal
from support.parts import sessions_of
from support.running import connected, running_bus, short_directory

ASKING = """
    from lifebus.extensions import on

    @on("turn.completed")
    async def asked(event, tools):
        return await tools.session_settings("t1")
    """

RECORD = {"id": "t1", "model": "small", "modelProvider": "loopback", "cwd": "/srv/shop", "reasoningEffort": None}
CHANGED = {"model": "large", "effort": "high", "approvalPolicy": "never", "sandboxPolicy": {"type": "readOnly"}}
SESSION = {"id": "t1", "title": "The shop", "projectId": "p1"}
BEFORE = {"model": "small", "modelProvider": "loopback", "cwd": "/srv/shop", "title": "The shop", "projectId": "p1"}


def started(thread: str = "t1", **more: Any) -> Any:
    return signal(thread, event=STARTED, params={"thread": RECORD}, session=SESSION, **more)


def updated(thread: str = "t1") -> Any:
    return signal(thread, event=UPDATED, params={"threadId": thread, "threadSettings": CHANGED}, session=SESSION)


async def test_a_handler_learns_the_newest_settings_of_a_session(tmp_path: Path) -> None:
    write_extension(tmp_path / "agents", "asking", ASKING)
    extensions = ExtensionSettings(roots=(str(tmp_path / "agents"),))
    async with running_bus(whole=True, extensions=extensions) as daemon, connected(daemon) as bus:
        await until(lambda: bool(sessions_of(daemon).extensions.current.modules))
        event = RuntimeEvent(type="turn.completed", payload={}, emitted_at="2026-11-23T12:00:00.000Z")
        observer = Observer(bus)
        for sent, expected in ((started(), BEFORE), (updated(), BEFORE | CHANGED)):
            await observer.observe(sent)
            (result,) = await sessions_of(daemon).extensions.emit(event)
            assert isinstance(result, HandlerResult)
            assert result.details == {"value": expected}


async def test_what_was_said_before_a_restart_and_after_it_counts() -> None:
    with short_directory() as home:
        async with running_bus(whole=True, directory=home) as daemon, connected(daemon) as bus:
            await Observer(bus).observe(started(), signal("t1"), signal("t2"))
        async with running_bus(whole=True, directory=home) as daemon, connected(daemon) as bus:
            settings = sessions_of(daemon).extensions.around.settings
            assert isinstance(settings, KnownSettings)
            await Observer(bus, "o2").observe(updated())
            assert await settings.settings_of("t1") == BEFORE | CHANGED
            assert await settings.settings_of("t2") == {}, "it is there, and nothing was said of its settings"


@pytest.mark.parametrize(
    ("session", "code"), [("own", "no_session"), ("deleted", "session_deleted"), ("x", "no_session")]
)
async def test_nothing_is_said_of_workers_of_deleted_sessions_and_of_unknown_ones(session: str, code: str) -> None:
    async with running_bus(whole=True) as daemon, connected(daemon) as bus:
        settings = sessions_of(daemon).extensions.around.settings
        assert settings is not None
        await Observer(bus).observe(started("own"), started("deleted"))
        await sessions_of(daemon).transcripts.marks.mark_system("own", 1)
        await sessions_of(daemon).transcripts.marks.mark_deleted("deleted", 1)
        with pytest.raises(LifebusError) as refused:
            await settings.settings_of(session)
        assert refused.value.code == code
