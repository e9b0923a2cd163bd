"""The bus, as soon as a broker is there; until then every request is refused, and no peer has to start anew."""

from pathlib import Path
from typing import Final

import anyio

from lifebus.client import Bus, connect
from lifebus_contract import LifebusError, TransportError
from lifebus_contract.errors import error_for

_CLIENT_ID: Final = "lifebus-stdio"
# How often a missing broker is sought; without one that is one check of the file system
_RETRY_S: Final = 0.25


class LazyBus:
    """Connects in `run` and stays connected: after that, the client library survives restarts of the broker."""

    def __init__(self, runtime_dir: Path | None, timeout: float) -> None:
        self._runtime_dir = runtime_dir
        self._timeout = timeout
        self._bus: Bus | None = None
        self._missing: LifebusError = TransportError("no broker yet", code="no_broker")
        self._tried = anyio.Event()

    async def connected(self) -> Bus:
        """Return the bus; the first caller may have to wait until the first attempt to connect has ended.

        Raises:
            LifebusError: there is no broker yet (code ``no_broker``), or none of ours (``directory_owner``,
                ``directory_mode``, ``foreign_broker``).
        """
        # The first requests come before the first attempt has ended, and must not be refused for that.
        await self._tried.wait()
        if self._bus is None:
            raise error_for(self._missing.failure_class, self._missing.detail, code=self._missing.code)
        return self._bus

    async def run(self) -> None:
        """Try to connect until a broker answers, and keep the connection until cancelled."""
        while True:
            try:
                async with connect(_CLIENT_ID, runtime_dir=self._runtime_dir, timeout=self._timeout) as bus:
                    self._bus = bus
                    self._tried.set()
                    await anyio.sleep_forever()
            except LifebusError as fault:
                self._missing = fault
            # Set after a failure too: requests that wait are refused now.
            self._tried.set()
            await anyio.sleep(_RETRY_S)
