"""A page in a real browser: one of another origin gets nothing of the gateway, whatever it knows."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest

from support.broker_process import until
from support.paths import REPOSITORY
from support.patience import PATIENCE_S
from support.transports.browser import browser_environment
from support.transports.gateway import Address, running_gateway

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGE = REPOSITORY / "tests/support/transports/stranger.html"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


class Site:
    """A web site on another port of this machine, and what its page reported."""

    def __init__(self) -> None:
        self.origin = ""
        self.open = 0
        self.reports: list[dict[str, str]] = []
        self.came = anyio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        # A browser opens connections in case it needs them, and leaves them.
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.open -= 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
        body = await reader.readexactly(int(length[0])) if length else b""
        page = PAGE.read_bytes() if head.startswith(b"GET /?") else b""
        if head.startswith(b"POST /found"):
            self.reports.append(json.loads(body))
            self.came.set()
        kind = b"Content-Type: text/html\r\nConnection: close\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (kind, len(page), page))
        await writer.drain()


@asynccontextmanager
async def site() -> AsyncGenerator[Site]:
    found = Site()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    async with server:
        found.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield found
    await until(lambda: not found.open)


async def visit(found: Site, address: Address, directory: Path, only: str = "") -> dict[str, str]:
    """Have the browser open the page of a site, with everything there is to know of a gateway."""
    async with address.client() as client:
        ticket = (await client.post("/api/tickets", json={})).json()["ticket"]
    query = urlencode(
        {"url": f"http://127.0.0.1:{address.port}", "token": address.token, "ticket": ticket, "only": only}
    )
    command: list[Any] = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={directory}"]
    command.append(f"{found.origin}/?{query}")
    process = await anyio.open_process(command, stdout=DEVNULL, stderr=DEVNULL, env=browser_environment(directory))
    async with process:
        with anyio.fail_after(2 * PATIENCE_S):
            await found.came.wait()
        process.terminate()
    return found.reports[0]


async def test_a_page_of_another_origin_reads_opens_and_writes_nothing(tmp_path: Path) -> None:
    async with site() as stranger, running_gateway() as (daemon, address):
        before = daemon.gateway.refused
        report = await visit(stranger, address, tmp_path)
        assert report == {
            "plain": "blocked",
            "bearer": "blocked",
            "form": "blocked",
            "events": "closed",
            "socket": "closed",
        }
        # None of the five was served.
        assert daemon.gateway.refused - before >= 5
        assert daemon.gateway.streams == 0


async def test_a_page_whose_origin_is_listed_opens_one_stream_with_a_ticket(tmp_path: Path) -> None:
    async with site() as panel, running_gateway(origins=panel.origin) as (_, address):
        report = await visit(panel, address, tmp_path, only="socket")
        assert report["socket"] == "ready"
        # No header lets it read an answer: a page asks its own server for a ticket.
        assert (report["plain"], report["bearer"]) == ("blocked", "blocked")
