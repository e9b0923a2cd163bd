"""The end of a broker: what asks for it, and the exit code."""

from typing import Final

import anyio
import structlog

EXIT_OK: Final = 0
EXIT_HELD: Final = 69
"""Another broker holds the runtime directory, the state directory or the ledger."""
EXIT_IO: Final = 74
"""The ledger's storage failed: nothing more is acknowledged (docs/ledger.md D3)."""
EXIT_SETTINGS: Final = 78

_log = structlog.get_logger("lifebus.daemon")


class Halt:
    """An event and an exit code.  The first reason counts."""

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.exit_code = EXIT_OK

    def stop(self, exit_code: int = EXIT_OK) -> None:
        """Ask for the end."""
        if not self.event.is_set():
            self.exit_code = exit_code
            self.event.set()

    def storage_failed(self, fault: Exception) -> None:
        """Stop because nothing can be made durable any more (docs/ledger.md D3)."""
        _log.error("ledger_failed", fault=type(fault).__name__, detail=str(fault)[:200])
        self.stop(EXIT_IO)
