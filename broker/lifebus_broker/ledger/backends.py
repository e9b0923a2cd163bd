"""The ledgers that settings can name: where each one is kept, and what it can do.  Pure."""

from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from lifebus_broker.ports import LedgerCapabilities

Backend = Literal["sqlite", "memory"]
"""``sqlite`` is a file that is kept; ``memory`` is one that is gone when the process ends."""

DEFAULT_BACKEND: Final[Backend] = "sqlite"

KEPT: Final = LedgerCapabilities(durable=True, snapshots=True, retention=True, local_file=True)
"""What a ledger file that is kept can do."""

NOT_KEPT: Final = LedgerCapabilities(durable=False, snapshots=False, retention=False, local_file=False)
"""What is left where nothing survives the process."""

_CAPABILITIES: Final[dict[Backend, LedgerCapabilities]] = {"sqlite": KEPT, "memory": NOT_KEPT}


class LedgerLocation(Struct, frozen=True):
    """Which ledger the settings name; `path` is where it is kept, if it is."""

    backend: Backend
    path: Path

    @property
    def capabilities(self) -> LedgerCapabilities:
        """What the ledger will be able to do."""
        return _CAPABILITIES[self.backend]

    @property
    def file(self) -> Path | None:
        """The file that commands may open where no broker runs; None where there is none."""
        # a ledger in memory has a file too, which belongs to its process alone
        return self.path if self.capabilities.local_file else None

    def __str__(self) -> str:
        return "not kept" if self.file is None else str(self.file)
