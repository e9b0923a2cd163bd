"""Kill -9 of the broker between an event that is due and its dispatch: it is delivered at least once, never lost.

The oracle is outside: an extension appends what it is told to a file and syncs it, and the test counts in that file.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import lifebus
from lifebus_transports.messages.signals import ObservedSignal
from support.broker_process import broker_process, until
from support.effort import effort
from support.extensions.scene import write_extension
from support.integration.observing import Observer, signal
from support.patience import PATIENCE_S
from support.running import short_directory

CYCLES = effort(4, 100)
LONGEST_S = 1.2

EVENTS = """
    import os

    from lifebus.extensions import on

    FILE = {file!r}

    def note(event):
        thread = event.payload["context"]["threadId"]
        line = f"{{event.type}} {{thread}}\\n".encode()
        file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)

    @on("file_change.approval_requested")
    async def asked(event):
        note(event)

    @on("turn.completed")
    async def ended(event):
        note(event)
    """
MANIFEST = """
    name = "oracle"
    [capabilities]
    events = ["*"]
    """


def said(thread: str, method: str, event: str, number: int | None = None, **params: Any) -> ObservedSignal:
    about: dict[str, Any] = {"method": method, "context": {"threadId": thread, "turnId": "u"}, "params": params}
    about |= {} if number is None else {"requestId": number}
    return signal(thread, event=f"app_server.{event}", **about)


def asks(thread: str) -> tuple[ObservedSignal, ...]:
    """What an app-server says that asks for the approval of a change, and waits."""
    changes = [{"path": "a.txt", "kind": {"type": "add"}, "diff": "+a"}]
    item = {"type": "fileChange", "id": "f", "changes": changes}
    request = "item/fileChange/requestApproval", "request.item.file_change.request_approval"
    return (
        said(thread, "item/started", "item.started", item=item),
        said(thread, *request, 0, itemId="f"),
    )


def ends(thread: str) -> ObservedSignal:
    return said(thread, "turn/completed", "turn.completed", turn={"id": "u", "status": "completed"})


async def cycle(directory: Path, number: int, chance: random.Random, **settings: str) -> set[str]:
    """Have two events due, and kill the broker at some moment behind that; return what is to be delivered."""
    waits, over = f"waits-{number}", f"over-{number}"
    async with broker_process(directory, **settings) as broker:
        async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
            observer = Observer(bus, f"o{number}")
            await observer.observe(*asks(waits), *asks(over), ends(over))
        with anyio.move_on_after(chance.uniform(0, LONGEST_S)):
            await anyio.sleep_forever()
        await broker.kill()
    return {f"file_change.approval_requested {waits}", f"turn.completed {over}"}


@pytest.mark.slow
async def test_an_event_that_was_due_is_delivered_by_one_of_the_brokers(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    file, due = tmp_path / "told", set[str]()
    write_extension(tmp_path / "agents", "oracle", EVENTS.format(file=str(file)), manifest=MANIFEST)
    settings = {"LIFEBUS_EXTENSIONS_ROOTS": str(tmp_path / "agents")}

    def told() -> list[str]:
        return file.read_text().splitlines() if file.exists() else []

    with short_directory() as directory:
        for number in range(CYCLES):
            due |= await cycle(directory, number, chance, **settings)
        before = set(told())
        async with broker_process(directory, **settings):
            await until(lambda: due <= set(told()))
    record_property("kills", CYCLES)
    record_property("delivered only by a later broker", len(due - before))
