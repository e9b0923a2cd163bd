"""Everything a broker can be told, as one frozen value.  Reading files and environment is config.py's work.

Above: config, daemon.  Below: msgspec.
"""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from lifebus_broker.pressure import Thresholds
from lifebus_supervisor.renewal.profile import RenewalSettings

__all__ = [
    "LedgerSettings",
    "LimitSettings",
    "LogSettings",
    "Settings",
    "SignalSettings",
    "SilenceSettings",
    "TelemetrySettings",
    "TickSettings",
]


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


class TickSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The supervisor's own ticks; an external supervisor may drive others (design 3.12)."""

    enabled: bool = True
    """Whether the broker ticks by itself; without it, ticks come from `lifebus tick` and clients alone."""
    interval_ms: Annotated[int, Meta(ge=50, le=600_000)] = 2_000
    """The time between two ticks."""


class SignalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of the signals of app-servers."""

    keep_mb: Annotated[int, Meta(ge=0, le=65_536)] = 64
    """MiB of signals that are kept for followers; the oldest of the largest threads go first.  0 keeps none."""


class SilenceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much silence is a loss of capabilities, or the end of a session."""

    missing_polls: Annotated[int, Meta(ge=1, le=1_000)] = 2
    """Consecutive ticks without a telemetry file, after which pressure is `unavailable`."""
    unreadable_records: Annotated[int, Meta(ge=1, le=1_000)] = 3
    """Unreadable telemetry records in a row, after which pressure is `unavailable`."""
    hook_ticks: Annotated[int, Meta(ge=1, le=1_000)] = 3
    """Ticks since telemetry showed work that no hook told of, after which hooks count as silent."""
    app_s: Annotated[int, Meta(ge=1, le=86_400)] = 600
    """Seconds after which an app that reports by itself, silent in an open frame, counts as gone."""
    abandon_s: Annotated[int, Meta(ge=1, le=31_536_000)] = 86_400
    """Seconds of silence after which a session whose process is unknown counts as abandoned."""


class TelemetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which telemetry files of the harnesses are read."""

    enabled: bool = True
    """Whether the broker reads telemetry files at all."""
    discover: bool = True
    """Whether it looks for files that no hook named."""
    wake: bool = True
    """Whether changes of files wake the supervisor between ticks."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings.  Directories are resolved paths; `manifests` are files with third-party adapter manifests.

    `renewals` are the enabled renewal profiles; their names and their client ids are unique.
    """

    runtime_dir: Path
    state_dir: Path
    manifests: tuple[Path, ...] = ()
    renewals: tuple[RenewalSettings, ...] = ()
    ledger: LedgerSettings = LedgerSettings()
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()
    ticks: TickSettings = TickSettings()
    pressure: Thresholds = Thresholds()
    signals: SignalSettings = SignalSettings()
    silence: SilenceSettings = SilenceSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    def __post_init__(self) -> None:
        for name in ("profile", "client_id"):
            taken = [getattr(one, name) for one in self.renewals]
            if len(set(taken)) < len(taken):
                raise ValueError(f"renewals: two of them have the same `{name}`")

    @property
    def ledger_path(self) -> Path:
        """The SQLite file in use."""
        return self.state_dir / "ledger.db" if self.ledger.path == "auto" else Path(self.ledger.path).expanduser()
