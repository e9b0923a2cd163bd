"""What tests of recipes share: a broker beside the reader of a page, events of a harness, blocks that do not end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread

import lifebus
from support.pages import Page, Reader, Shown
from support.patience import PATIENCE_S
from support.running import connected, running_bus


@asynccontextmanager
async def broker_of(reader: Reader, **settings: Any) -> AsyncIterator[lifebus.Bus]:
    """A broker in the directories of a reader, and a client of it."""
    async with running_bus(directory=reader.folder, **settings) as daemon, connected(daemon, "harness") as bus:
        with anyio.fail_after(PATIENCE_S):
            yield bus


def saved(name: str, reader: Reader) -> list[str]:
    """Save the files of a recipe; return its blocks for the shell."""
    page = Page(f"recipes/{name}.md")
    page.save(reader.folder)
    return page.commands


async def happened(bus: lifebus.Bus, *events: str, session: str = "s1", **fields: Any) -> list[str]:
    """Have Claude Code say that these happened, in one frame; return the bodies that were delivered."""
    delivered: list[str] = []
    for event in events:
        frame = {"frame_id": "f1", "frame_class": "top_level"} if event.startswith("frame") else None
        made = lifebus.make_request(event, "claude", session=session, frame=frame, **fields)  # type: ignore[arg-type]  # plain
        result = await bus.emit(made)
        delivered += [str(one.payload.body) for one in result.deliveries]
    return delivered


async def ran(reader: Reader, command: str) -> Shown:
    """Run a block to its end while the broker goes on."""
    return await anyio.to_thread.run_sync(reader.run, command, abandon_on_cancel=True)


async def lines_until(reader: Reader, command: str, last: str) -> list[str]:
    """Run a block that does not end by itself until it has written this line; return what it wrote."""

    def read() -> list[str]:
        with reader.started(command) as process:
            assert process.stdout is not None
            lines: list[str] = []
            while last not in lines and (line := process.stdout.readline()):
                lines.append(line.decode().rstrip("\n"))
            return lines

    return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
