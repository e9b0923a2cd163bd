"""Chromium without a window, driven over its own protocol: what a person sees, types and chooses in a page."""

import base64
import json
import os
import shutil
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final

import anyio
import psutil
from anyio.abc import TaskGroup
from anyio.streams.text import TextReceiveStream
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from support.patience import PATIENCE_S

BROWSER: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""The Chromium of this machine, None where there is none."""

_FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-dev-shm-usage", "--remote-debugging-port=0", "--remote-allow-origins=*",
    "about:blank",
)  # fmt: skip
_NUMBERS: Final = {
    "Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
_WAIT: Final = """
new Promise((resolve) => {
  const look = () => {
    let found = null;
    // A page that begins has nothing yet.
    try { found = (%s); } catch { found = null; }
    if (found) resolve(found); else setTimeout(look, 25);
  };
  look();
})
"""


class BrowserRefused(Exception):
    """The browser did not do what it was told."""


class Page:
    """A page of the browser `pid`; `faults` are exceptions, failed checks of its policy and errors that it reported."""

    def __init__(self, connection: ClientConnection, session: str) -> None:
        self.faults: list[str] = []
        self.pid = 0
        self._connection = connection
        self._session = session
        self._numbers = count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._came = anyio.Event()

    async def call(self, method: str, **parameters: Any) -> Any:
        """The answer of the browser to one command."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, "sessionId": self._session}
        await self._connection.send(json.dumps(message))
        with anyio.fail_after(3 * PATIENCE_S):
            while number not in self._answers:
                await self._came.wait()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserRefused(f"{method}: {answer['error']['message']}")
        return answer["result"]

    async def run(self, script: str) -> Any:
        """The value of an expression, or of what its promise comes to."""
        found = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression is true; return its value."""
        while True:
            try:
                return await self.run(_WAIT % script)
            except TimeoutError:
                raise AssertionError(f"never: {script}\n{await self.text()}\n{self.faults}") from None
            except BrowserRefused as fault:
                # The page before is gone, and with it what was asked there.
                if "context" not in str(fault) and "navigated" not in str(fault):
                    raise

    async def text(self) -> str:
        """What the page shows."""
        return str(await self.run("document.body.innerText"))

    async def shows(self, text: str) -> None:
        """Wait until the page shows a text."""
        await self.until(f"document.body.innerText.includes({json.dumps(text)})")

    async def open(self, url: str) -> None:
        """Go to an address, and wait until all of what is there has been read."""
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        # What the browser itself does with a key, such as going on to the next button, needs its number.
        about = {"key": key, "code": key, "windowsVirtualKeyCode": _NUMBERS[key]} if key in _NUMBERS else {"key": key}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    async def click(self, words: str) -> None:
        """Press the button or link that has these words."""
        find = (
            f"[...document.querySelectorAll('button, a')].find((one) => one.textContent.trim() === {json.dumps(words)})"
        )
        await self.until(find + " !== undefined")
        await self.run(f"{find}.click()")

    async def size(self, width: int, height: int, *, colors: str = "light", media: str = "") -> None:
        """Have the window so large, in light or dark colours; `media="print"` is paper of that width."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        features = [{"name": "prefers-color-scheme", "value": colors}]
        await self.call("Emulation.setEmulatedMedia", media=media, features=features)

    async def picture(self, path: Path) -> None:
        """Keep what is seen."""
        found = await self.call("Page.captureScreenshot", format="png")
        await anyio.Path(path).write_bytes(base64.b64decode(found["data"]))

    async def type(self, text: str) -> None:
        """Type a text where the focus is."""
        await self.call("Input.insertText", text=text)

    async def tab_to(self, selector: str, most: int = 150) -> None:
        """Press Tab until an element has the focus."""
        for _ in range(most):
            await self.press("Tab")
            if await self.run(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"Tab never comes to {selector}\n{await self.text()}")

    @contextmanager
    def asleep(self) -> Generator[None]:
        """Have the whole browser stand still, as a laptop that sleeps."""
        browser = psutil.Process(self.pid)
        processes = [browser, *browser.children(recursive=True)]
        for one in processes:
            with suppress(psutil.NoSuchProcess):  # it has ended by itself since
                one.suspend()
        try:
            yield
        finally:
            for one in processes:
                with suppress(psutil.NoSuchProcess):
                    one.resume()

    async def listen(self) -> None:
        """Take what the browser sends."""
        try:
            async for data in self._connection:
                self._take(json.loads(data))
        except ConnectionClosed:
            return

    def _take(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if "id" in message:
            self._answers[message["id"]] = message
            self._came.set()
            self._came = anyio.Event()
        elif message["method"] == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(parameters["exceptionDetails"])[:1000])
        elif message["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            # A broker that restarts is away for a moment, and the browser says so.
            if entry["source"] != "network" and "WebSocket" not in entry["text"]:
                self.faults.append(entry["text"])


def browser_environment(home: Path) -> dict[str, str]:
    """The environment of a browser that leaves everything, downloads too, below a home of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {"HOME": str(home)}


@asynccontextmanager
async def open_page(directory: Path) -> AsyncGenerator[Page]:
    """A page of a new browser."""
    command: list[str] = [str(BROWSER), *_FLAGS, f"--user-data-dir={directory}"]
    async with (
        await anyio.open_process(command, stdout=DEVNULL, stderr=PIPE, env=browser_environment(directory)) as process,
        anyio.create_task_group() as tasks,
    ):
        try:
            assert process.stderr is not None
            url = await _address(TextReceiveStream(process.stderr, errors="replace"), tasks)
            async with connect(
                url, max_size=None, proxy=None, compression=None, ping_interval=None, open_timeout=PATIENCE_S
            ) as connection:
                page = await _attach(connection, tasks)
                page.pid = process.pid
                yield page
                tasks.cancel_scope.cancel()
        finally:
            process.kill()


async def _address(lines: TextReceiveStream, tasks: TaskGroup) -> str:
    """Where the browser listens for commands, as it says itself; what else it says is read and left."""
    said = ""
    with anyio.fail_after(2 * PATIENCE_S):
        while "DevTools listening on " not in said or not said.endswith("\n"):
            said += await lines.receive()

    async def drain() -> None:
        async for _ in lines:
            pass

    tasks.start_soon(drain)
    return said.partition("DevTools listening on ")[2].split()[0]


async def _attach(connection: ClientConnection, tasks: TaskGroup) -> Page:
    """The page that the browser opened with."""
    await connection.send(json.dumps({"id": 0, "method": "Target.getTargets"}))
    targets = json.loads(await connection.recv())["result"]["targetInfos"]
    target = next(one["targetId"] for one in targets if one["type"] == "page")
    await connection.send(
        json.dumps({"id": 0, "method": "Target.attachToTarget", "params": {"targetId": target, "flatten": True}})
    )
    session = ""
    while not session:
        message = json.loads(await connection.recv())
        session = message.get("result", {}).get("sessionId", "")
    page = Page(connection, session)
    tasks.start_soon(page.listen)
    for domain in ("Runtime", "Log", "Page"):
        await page.call(f"{domain}.enable")
    return page
