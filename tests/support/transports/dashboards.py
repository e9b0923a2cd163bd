"""A page of the dashboard that is logged in, and the screens that it has."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import httpx

import lifebus
from lifebus.cli.bus.dashboard import make_link
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.http.access.page_logins import KEY_HEADER
from support.transports.browser import Page

SCREENS: Final = {"now": "Needs you", "tail": "receipts from"}
"""Each screen, and a text that it shows once it is there."""


def client_of(daemon: Daemon) -> AbstractAsyncContextManager[lifebus.Bus]:
    """A client of a broker."""
    return lifebus.connect("t", runtime_dir=daemon.settings.runtime_dir)


async def enter(page: Page, daemon: Daemon, *, write: bool = False, port: int = 0) -> None:
    """Log a page in at a gateway; with a port, by way of that port."""
    url, _, code = make_link(daemon.settings.runtime_dir, write=write).url.partition("/#")
    await page.size(1440, 900)
    await page.open(f"{f'http://localhost:{port}' if port else url}/#{code}")
    await page.until("document.querySelector('#connection').dataset.state === 'live'")


async def log_in(client: httpx.AsyncClient, runtime_dir: Path, *, write: bool = False) -> httpx.Response:
    """Use a new link as the page does; the client shows cookie and key from then on."""
    code = make_link(runtime_dir, write=write).url.partition("#login=")[2]
    answer = await client.post("/api/login", json={"code": code})
    client.headers[KEY_HEADER] = answer.json()["key"]
    return answer
