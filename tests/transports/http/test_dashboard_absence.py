"""Half a minute without a network, and half a minute asleep: the page has every receipt that came meanwhile."""

from pathlib import Path

import anyio
import pytest

from lifebus_supervisor.daemon.composition import Daemon
from support.transports.browser import BROWSER, Page, open_page
from support.transports.cables import Cable, laid_cable
from support.transports.dashboard_world import recorded_positions
from support.transports.dashboards import POSITIONS, client_of, enter
from support.transports.gateway import emit, emit_at_a_rate, running_gateway

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

RATE = 60  # receipts a second
ABSENT_S = 30


async def absent(daemon: Daemon, cable: Cable, awake: Page, sleeper: Page) -> None:
    """Half a minute in which receipts come, one page has no network, and the other one sleeps."""
    began = anyio.current_time()
    cable.cut()
    with sleeper.asleep():
        await emit_at_a_rate(daemon.settings.runtime_dir, RATE * ABSENT_S, RATE)
        # Nobody tells a page that its network is gone: it has to find out.
        await awake.until("document.querySelector('#connection').dataset.state === 'away'")
        await anyio.sleep_until(began + ABSENT_S)
    cable.mend()


async def test_nothing_is_missed_in_half_a_minute_without_a_network_or_asleep(tmp_path: Path) -> None:
    async with (
        open_page(tmp_path / "one") as awake,
        open_page(tmp_path / "other") as sleeper,
        laid_cable() as cable,
        running_gateway(hosts=f"localhost:{cable.port}") as (daemon, address),
        client_of(daemon) as bus,
    ):
        cable.target = address.port
        await emit(bus, "s1", 10)
        await enter(awake, daemon, port=cable.port)
        await enter(sleeper, daemon)
        await awake.open(f"http://localhost:{cable.port}/#/tail")
        await sleeper.open(f"{address.url}/#/tail")
        for page in (awake, sleeper):
            await page.shows("10 receipts from position 1 to 10")
        await absent(daemon, cable, awake, sleeper)
        await emit(bus, "s1")
        recorded = recorded_positions(daemon.settings.state_dir)
        assert recorded == list(range(1, 12 + RATE * ABSENT_S))
        await awake.shows("live again: nothing was missed, 1,80")
        for page in (awake, sleeper):
            await page.shows(f"{len(recorded):,} receipts from position 1 to {len(recorded)} · live")
            assert await page.run(POSITIONS) == recorded
            assert await page.run("document.querySelectorAll('.row.gap').length") == 0
