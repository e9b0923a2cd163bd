"""docs/recipes: what each page has its reader do is done as it stands there, and does what the page says."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest

import lifebus
from support.pages import Page, Reader
from support.paths import DOCS
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory

RECIPES = DOCS / "recipes"


@pytest.fixture
def reader() -> Iterator[Reader]:
    with short_directory() as folder:
        yield Reader(folder)


@asynccontextmanager
async def broker_of(reader: Reader) -> AsyncIterator[lifebus.Bus]:
    """A broker in the directories of a reader, and a client of it."""
    async with running_bus(directory=reader.folder) as daemon, connected(daemon, "harness") as bus:
        with anyio.fail_after(PATIENCE_S):
            yield bus


async def happened(bus: lifebus.Bus, *events: str, session: str = "s1", adapter: str = "claude") -> None:
    """Record events of a session."""
    for event in events:
        frame = lifebus.FrameContext(frame_id="f1", frame_class="top_level") if event.startswith("frame") else None  # type: ignore[arg-type]  # as users write it
        await bus.emit(lifebus.make_request(event, adapter, session=session, frame=frame))


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


def test_each_recipe_is_listed_with_its_purpose() -> None:
    listed = Page("recipes/README.md").text
    assert [path.name for path in RECIPES.glob("*.md") if f"]({path.name})" not in listed] == ["README.md"]


async def test_a_python_program_goes_on_where_it_was(reader: Reader) -> None:
    page = Page("recipes/follow-python.md")
    page.save(reader.folder)
    (command,) = page.commands
    async with broker_of(reader) as bus:
        await happened(bus, "session.started", "frame.opened")
        first = await lines_until(reader, command, "claude s1 frame.opened observed")
        await happened(bus, "frame.ended")
        again = await lines_until(reader, command, "claude s1 frame.ended observed")
    assert first == ["claude s1 session.started observed", "claude s1 frame.opened observed"]
    # What it printed last may not have been acknowledged when it was killed, and comes again then.
    assert again[-1] == "claude s1 frame.ended observed"
    assert set(again[:-1]) <= {first[1]}
