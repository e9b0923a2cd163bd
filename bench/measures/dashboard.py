"""What the dashboard takes in a browser: its first paint, frames while receipts come, memory over an hour of them."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

import lifebus
from bench.lifebus_client import KEEP_ALL, Broker, Lifebus, broker
from bench.measures.flood import CLIENT
from bench.report import Aim, Run, print_table
from bench.workload import chunks, items
from lifebus.cli.bus.dashboard import make_link

if TYPE_CHECKING:
    from support.transports.browser import Page

_ON = KEEP_ALL + "[gateway]\nenabled = true\n"
_RECEIPTS = 1_000_000
_QUICK = 20_000
_RATE = 60  # receipts a second
_SLOW = 4  # by how much a slow processor is slower
_FRAME_MS = 1_000 / 60
_MEBIBYTE = 1024 * 1024

_SHOWN = {
    "Now": "document.querySelector('.card') && performance.now()",
    "Tail": "document.querySelectorAll('.row').length > 10 && performance.now()",
}
"""When a screen has what it shows, in milliseconds since its address was opened."""

_FRAMES = """
new Promise((resolve) => {
  const found = [];
  let last = performance.now();
  const end = last + %d;
  const step = (now) => {
    found.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(step); else resolve(found);
  };
  requestAnimationFrame(step);
})
"""
"""The time between two frames, in milliseconds, for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """How many frames were drawn and how many were left out, and the longest pause between two in milliseconds."""

    drawn: int
    dropped: int
    longest_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one page took; times in milliseconds, memory in MiB after so many receipts."""

    paint: dict[str, float]
    frames: dict[str, Frames]
    memory: dict[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured: receipts in the ledger, pages opened, seconds watched, and receipts of the hour."""

    receipts: int
    rounds: int = 5
    watched_s: int = 20
    hour: int = 3_600 * _RATE


def measure(sizes: Sizes, say: Callable[[str], None]) -> Figures:
    """Return the figures of a page."""
    with broker(config=_ON, last_file="gateway.json") as running:
        system = Lifebus(running)
        say(f"dashboard: a ledger of {sizes.receipts:,} receipts")
        system.batches(items(sizes.receipts), 64, 16)
        return anyio.run(_measure, running, system, sizes, say)


async def _measure(running: Broker, system: Lifebus, sizes: Sizes, say: Callable[[str], None]) -> Figures:
    from support.transports.browser import open_page  # noqa: PLC0415  of the tests: other parts run without them

    with TemporaryDirectory(prefix="lifebus-page-") as folder:
        async with open_page(Path(folder)) as page:
            url, _, code = make_link(running.runtime_dir).url.partition("/#")
            await page.size(1440, 900)
            await page.open(f"{url}/#{code}")
            await page.until("document.querySelector('#connection').dataset.state === 'live'")
            say("dashboard: first paint")
            paint = {name: await _paint(page, f"{url}/#/{name.lower()}", name, sizes.rounds) for name in _SHOWN}
            say(f"dashboard: {_RATE} receipts a second")
            frames = {"nothing comes": await _frames(page, sizes.watched_s)}
            frames[f"{_RATE} receipts/s"] = await _watched(page, system, sizes.watched_s)
            await page.call("Emulation.setCPUThrottlingRate", rate=_SLOW)
            frames[f"{_RATE} receipts/s, processor {_SLOW} × slower"] = await _watched(page, system, sizes.watched_s)
            await page.call("Emulation.setCPUThrottlingRate", rate=1)
            await page.open(f"{url}/#/now")
            await page.until("document.querySelector('.card') !== null")
            frames[f"{_RATE} receipts/s, Now"] = await _watched(page, system, sizes.watched_s)
            await page.open(f"{url}/#/tail")
            say(f"dashboard: {sizes.hour:,} receipts, as many as an hour brings")
            memory = await _memory(page, system, sizes.hour)
    return Figures(paint=paint, frames=frames, memory=memory)


async def _paint(page: "Page", address: str, name: str, rounds: int) -> float:
    found: list[float] = []
    for _ in range(rounds):
        await page.open("about:blank")
        await page.open(address)
        found.append(float(await page.until(_SHOWN[name])))
    return statistics.median(found)


async def _watched(page: "Page", system: Lifebus, seconds: int) -> Frames:
    """Return the frames of the screen that is open while receipts come."""
    async with anyio.create_task_group() as tasks:
        work = list(chunks(items(_RATE * seconds), 1))
        tasks.start_soon(to_thread.run_sync, system.trickle, work, 1 / _RATE)
        pauses = await page.run(_FRAMES % (seconds * 1_000))
    return _counted(pauses)


async def _frames(page: "Page", seconds: int) -> Frames:
    return _counted(await page.run(_FRAMES % (seconds * 1_000)))


def _counted(pauses: list[float]) -> Frames:
    dropped = sum(max(0, round(pause / _FRAME_MS) - 1) for pause in pauses)
    return Frames(drawn=len(pauses), dropped=dropped, longest_ms=max(pauses))


async def _memory(page: "Page", system: Lifebus, hour: int) -> dict[int, float]:
    """Return what the page's scripts hold, by the receipts that came, each time after a collection."""
    found: dict[int, float] = {}
    for part in range(5):
        if part:
            await to_thread.run_sync(system.batches, items(hour // 4), 64, 4)
        async with lifebus.connect(CLIENT, runtime_dir=system.broker.runtime_dir) as bus:
            head = (await bus.status()).ledger.head
        await page.until(f"document.querySelector('#tail-state').textContent.includes('to {head} ')")
        await page.call("HeapProfiler.collectGarbage")
        used = await page.call("Runtime.getHeapUsage")
        found[part * (hour // 4)] = used["usedSize"] / _MEBIBYTE
    return found


def _part(run: Run) -> list[Aim]:
    from support.transports.browser import BROWSER  # noqa: PLC0415  of the tests: other parts run without them

    if BROWSER is None:
        run.say("no Chromium is installed: the dashboard is not measured")
        return [Aim(text="dashboard: first paint", limit=1, measured=None, at_most=True, unit="s")]
    receipts = run.receipts or (_QUICK if run.quick else _RECEIPTS)
    quick = Sizes(receipts=receipts, rounds=1, watched_s=3, hour=12_000)
    found = measure(quick if run.quick else Sizes(receipts=receipts), run.say)
    rows = [(name, f"{ms:.0f} ms") for name, ms in found.paint.items()]
    title = f"Dashboard: until a screen shows what it has, {receipts:,} receipts"
    print_table(run.console, title, ("screen", "median"), rows)
    print_table(
        run.console,
        "Dashboard: frames of the tail, and of Now",
        ("while", "drawn", "left out", "longest pause"),
        [(name, str(one.drawn), str(one.dropped), f"{one.longest_ms:.0f} ms") for name, one in found.frames.items()],
    )
    print_table(
        run.console,
        "Dashboard: memory of the page's scripts",
        ("receipts that came", "MiB"),
        [(f"{count:,}", f"{mebibytes:.1f}") for count, mebibytes in found.memory.items()],
    )
    return _aims(found)


def _aims(found: Figures) -> list[Aim]:
    live = max(found.frames[f"{_RATE} receipts/s"].dropped, found.frames[f"{_RATE} receipts/s, Now"].dropped)
    idle = found.frames["nothing comes"]
    # The first measure is of a page that has few of the rows that it may keep.
    warm = list(found.memory.values())[1:]
    return [
        Aim(text="dashboard: first paint", limit=1, measured=max(found.paint.values()) / 1_000, at_most=True, unit="s"),
        Aim(
            text=f"dashboard: frames left out at {_RATE} receipts/s, beyond those of an idle page",
            limit=0,
            measured=max(0, live - idle.dropped),
            at_most=True,
            unit="frames",
        ),
        Aim(
            text="dashboard: memory after an hour's receipts, to a quarter of an hour's",
            limit=1.2,
            measured=warm[-1] / warm[0],
            at_most=True,
        ),
    ]


PARTS: dict[str, Callable[[Run], list[Aim]]] = {"dashboard": _part}
"""This part of the bench."""
