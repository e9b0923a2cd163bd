"""An extension of a running broker is told of what transcripts give rise to, also by the broker that comes next."""

from pathlib import Path
from typing import Any

from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server.reader import SignalSeen
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.extensions.passes import Reach
from lifebus_supervisor.extensions.settings import ExtensionSettings
from lifebus_transports.messages.signals import ObservedSignal
from support.adapters.app_server_recordings import RECORDINGS, chunks_of, feed
from support.broker_process import until
from support.extensions.scene import write_extension
from support.integration.observing import Observer
from support.parts import sessions_of
from support.running import connected, running_bus

EVENTS = """
    from lifebus.extensions import on, request_action

    @on("file_change.approval_requested")
    async def asked(event):
        return request_action("seen", {"what": "asked"})

    @on("turn.completed")
    async def ended(event):
        return request_action("seen", {"what": "ended"})
    """
MANIFEST = """
    name = "listener"
    [capabilities]
    events = ["*"]
    actions = ["*"]
    """


class Seen:
    """An executor that writes down what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def execute(self, request: ActionRequest, _: ActionScope, *, requested_by: str) -> ActionOutcome:
        assert requested_by == "listener"
        self.asked.append(request.payload["what"])
        return ActionOutcome(status=ActionStatus.PERFORMED)


async def test_an_extension_is_told_of_an_approval_and_of_the_end_of_its_turn(tmp_path: Path) -> None:
    (recording,) = [one for one in RECORDINGS if one.stem == "turn_file_change_approval_accept"]
    observed: list[Any] = [one for one in feed(AppServerStream(), chunks_of(recording)) if isinstance(one, SignalSeen)]
    write_extension(tmp_path, "listener", EVENTS, manifest=MANIFEST)
    extensions = ExtensionSettings(roots=(str(tmp_path),))
    async with running_bus(whole=True, extensions=extensions) as daemon, connected(daemon) as bus:
        seen = Seen()
        # Before the extensions are loaded: what is due waits for them.
        sessions_of(daemon).extensions.around = Reach(executor=seen)
        await Observer(bus).observe(
            *[ObservedSignal(thread=one.thread or "", event_type=one.event_type, signal=one.signal) for one in observed]
        )
        await until(lambda: len(seen.asked) == 2)
        assert seen.asked == ["asked", "ended"]
