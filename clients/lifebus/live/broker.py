"""A broker as a process of its own, which can be killed, stopped and started again."""

import os
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio.to_thread

from lifebus._internal.broker_child import COMMAND, answers, not_started
from lifebus.live.sandbox import Sandbox

_START_S: Final = 20.0
_STOP_S: Final = 8.0
_TICK_MS: Final = "500"


class LiveBroker:
    """`lifebus up` in a sandbox."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the broker."""
        self._process.send_signal(number)

    async def kill(self) -> None:
        """End it at once, without a chance to put anything in order."""
        self._process.kill()
        await anyio.to_thread.run_sync(self._process.wait, _STOP_S)

    def close(self) -> None:
        """End it in order where it is still there; a broker that does not end is killed."""
        if not self.running:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)


@asynccontextmanager
async def live_broker(box: Sandbox) -> AsyncGenerator[LiveBroker]:
    """A broker that answers, while the block lasts.

    Raises:
        TransportError: it does not start; the text holds the end of its log.
    """
    log = box.home / "broker.log"
    places = {
        "LIFEBUS_RUNTIME_DIR": str(box.runtime_dir),
        "LIFEBUS_STATE_DIR": str(box.state_dir),
        "LIFEBUS_TICKS_INTERVAL_MS": _TICK_MS,
    }
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: ASYNC220, S603  starting takes no time, and the words are our own
            COMMAND,
            env=box.environment(places) | _python_path(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only the command, which then stops the broker in order
        )
    broker = LiveBroker(process)
    try:
        if not await answers(lambda: broker.running, box.runtime_dir, client_id="live", start_s=_START_S):
            raise not_started(log)
        yield broker
    finally:
        broker.close()


def _python_path() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
