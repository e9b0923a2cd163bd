"""Everything a broker can be told, as one frozen value.  Reading files and environment is config.py's work.

Above: config, daemon.  Below: msgspec.
"""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = ["LedgerSettings", "LimitSettings", "LogSettings", "Settings"]


class LedgerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where receipts are recorded.  `memory` promises nothing beyond the process (design 4)."""

    backend: Literal["sqlite", "memory"] = "sqlite"
    path: Annotated[str, Meta(min_length=1)] = "auto"
    """The SQLite file; ``auto`` is ``ledger.db`` in the state directory."""


class LimitSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds and deadlines; times in milliseconds."""

    hook_answer_ms: Annotated[int, Meta(ge=10, le=220)] = 220
    """How long a hook waits for clients before it is answered with nothing (design 5)."""
    dispatches: Annotated[int, Meta(ge=1, le=65_536)] = 1_024
    """Dispatches to callback clients under way at once; more are refused as busy."""
    backfills: Annotated[int, Meta(ge=1, le=64)] = 8
    """Reads of the ledger under way at once; more are refused as busy (reliability, e3)."""
    beacon_ms: Annotated[int, Meta(ge=50, le=60_000)] = 1_000
    """How often the heads are published (design 4.6)."""
    shutdown_ms: Annotated[int, Meta(ge=100, le=60_000)] = 5_000
    """How long a stop may take."""


class LogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is logged, and how: ``auto`` is readable on a terminal and one JSON object a line elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings.  Directories are resolved paths; `manifests` are files with third-party adapter manifests."""

    runtime_dir: Path
    state_dir: Path
    manifests: tuple[Path, ...] = ()
    ledger: LedgerSettings = LedgerSettings()
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()

    @property
    def ledger_path(self) -> Path:
        """The SQLite file in use."""
        return self.state_dir / "ledger.db" if self.ledger.path == "auto" else Path(self.ledger.path).expanduser()
