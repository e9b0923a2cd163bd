"""All settings of a broker, as one frozen value; `resolution` reads them from files and the environment.  Pure."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from lifebus_broker.ledger.backends import DEFAULT_BACKEND, Backend, LedgerLocation
from lifebus_broker.privacy import CwdPrivacy, TitlePrivacy
from lifebus_broker.state.degradation import SilenceLimits
from lifebus_broker.state.pressure import Thresholds
from lifebus_contract import CapabilityRequest, LifecycleEvent
from lifebus_contract.fields import Identifier
from lifebus_contract.vocabulary import UNSERVABLE
from lifebus_supervisor.configuration.notifications import NotificationRule
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.extensions.settings import ExtensionSettings
from lifebus_supervisor.renewal.profile import RenewalSettings
from lifebus_supervisor.runtime.inbox.settings import InboxSettings
from lifebus_transports.http.settings import GatewaySettings

# What the names of our own clients begin with
_OWN: Final = "lifebus."

NO_FOLDER: Final = "none"
"""The folder of backups where none are to be made."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")


class LedgerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where receipts are recorded.  `memory` promises nothing beyond the process (docs/reliability.md)."""

    backend: Backend = DEFAULT_BACKEND
    path: Annotated[str, Meta(min_length=1)] = "auto"
    """The SQLite file; ``auto`` is ``ledger.db`` in the state directory."""


class LimitSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds and deadlines; times in milliseconds."""

    hook_answer_ms: Annotated[int, Meta(ge=10, le=220)] = 220
    """How long a hook waits for clients before it is answered with nothing (docs/hooks.md, "A call")."""
    dispatches: Annotated[int, Meta(ge=1, le=65_536)] = 1_024
    """Dispatches to callback clients under way at once; more are refused as busy."""
    backfills: Annotated[int, Meta(ge=1, le=64)] = 8
    """Reads of the ledger under way at once; more are refused as busy."""
    beacon_ms: Annotated[int, Meta(ge=50, le=60_000)] = 1_000
    """How often the heads are published (docs/wire-protocol.md, "The beacon")."""
    shutdown_ms: Annotated[int, Meta(ge=100, le=60_000)] = 5_000
    """How long a stop may take."""


STDERR: Final = "stderr"
"""What `log.file` says where the log goes to the stream on which the broker was started."""


class LogSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is logged, how and where: ``auto`` is readable on a terminal and one JSON object a line elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    file: str = STDERR
    """The file that takes the place of stderr, and is rotated; ``stderr`` is none."""


class TickSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The supervisor's own ticks; an external supervisor may drive others (docs/contract.md 2.6)."""

    enabled: bool = True
    """Whether the broker ticks by itself; without it, ticks come from `lifebus dev tick` and clients alone."""
    interval_ms: Annotated[int, Meta(ge=50, le=600_000)] = 2_000
    """The time between two ticks."""
    settle_ms: Annotated[int, Meta(ge=0, le=60_000)] = 1_000
    """How long an announced end of a frame waits for a sign of life before it is recorded."""


class RetentionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long receipts are kept, and how many; 0 is no limit of that kind (docs/ledger.md, "Retention")."""

    keep_days: Annotated[int, Meta(ge=0, le=36_500)] = 30
    """Days after which a receipt is dropped."""
    keep_mb: Annotated[int, Meta(ge=0, le=1_048_576)] = 1_024
    """MiB that the ledger's files may take together, the signals of app-servers aside; then the oldest receipts go."""
    dedupe_days: Annotated[int, Meta(ge=0, le=36_500)] = 30
    """Days for which the idempotency key of a dropped receipt is still known."""
    spare_mb: Annotated[int, Meta(ge=0, le=1_048_576)] = 64
    """MiB of the file system that are left free; or 1 % of it, where that is less.  Below, nothing is written."""
    check_s: Annotated[int, Meta(ge=1, le=86_400)] = 60
    """Seconds between two checks of age and size; a file that grows fast is checked earlier."""


class ScrubSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The check of the whole ledger at idle (docs/ledger.md, "The scrub")."""

    every_h: Annotated[int, Meta(ge=0, le=8_760)] = 24
    """Hours from the end of one to the beginning of the next; 0 is none at all."""


class BackupSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Backups on a schedule (docs/ledger.md, "Scheduled backups")."""

    folder: Annotated[str, Meta(min_length=1)] = NO_FOLDER
    """The directory that they are written into; with ``none`` there are none."""
    every_h: Annotated[int, Meta(ge=1, le=8_760)] = 24
    """Hours between two."""
    keep: Annotated[int, Meta(ge=1, le=10_000)] = 7
    """How many are kept; the oldest goes once a new one was checked."""


class MetricSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metrics as a file (docs/metrics.md); on the gateway they need no setting."""

    file: Annotated[str, Meta(min_length=1)] = NO_FOLDER
    """The file for node_exporter's textfile collector, whose name ends in `.prom`; with ``none`` there is none."""
    every_s: Annotated[int, Meta(ge=1, le=3_600)] = 15
    """Seconds between two writes."""


class SignalSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of the signals of app-servers."""

    keep_mb: Annotated[int, Meta(ge=0, le=65_536)] = 64
    """MiB of signals that are kept for followers; the oldest of the largest threads go first.  0 keeps none."""


class TranscriptSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of transcripts (docs/transcripts.md)."""

    keep_mb: Annotated[int, Meta(ge=0, le=65_536)] = 64
    """MiB of transcripts that are kept; the oldest entries of those written longest ago go first.  0 keeps none."""


class PrivacySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is recorded of where sessions work (docs/sessions.md)."""

    cwd: CwdPrivacy = "name"
    """The directory: with its path, by its name alone, or not at all; without it no branch either."""
    title: TitlePrivacy = "keep"
    """Whether the titles that harnesses give to sessions are recorded."""


class SilenceSettings(SilenceLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much silence is a loss of capabilities, or the end of a session."""

    abandon_s: Annotated[int, Meta(ge=1, le=31_536_000)] = 86_400
    """Seconds of silence after which a session whose process is unknown counts as abandoned."""
    idle_s: Annotated[int, Meta(ge=1, le=31_536_000)] = 600
    """Seconds of silence after the last turn of a session known by its telemetry alone, after which it has ended."""


class TelemetrySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which telemetry files of the harnesses are read."""

    enabled: bool = True
    """Whether the broker reads telemetry files at all."""
    discover: bool = True
    """Whether it looks for files that no hook named."""
    wake: bool = True
    """Whether changes of files wake the supervisor between ticks."""


class ClientSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[clients]]`: a callback client that is a command (docs/command-clients.md)."""

    client_id: Identifier
    command: Annotated[tuple[str, ...], Meta(min_length=1, max_length=1_024)]
    """The program and its arguments; no shell reads them."""
    events: Annotated[tuple[LifecycleEvent, ...], Meta(min_length=1, max_length=14)]
    adapters: Annotated[tuple[Identifier, ...], Meta(max_length=64)] = ()
    """Only events of these adapters; of all, where none is named."""
    protocol: Literal["oneshot", "jsonl", "msgpack"] = "oneshot"
    """A new child for each dispatch, or workers that stay and are spoken to in lines or in MessagePack."""
    workers: Annotated[int, Meta(ge=1, le=64)] = 2
    """How many children at once; those that stay are started with the broker."""
    deadline_ms: Annotated[int, Meta(ge=1, le=600_000)] = 2_000
    environment: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    """Further variables that the command gets; a star stands for any ending."""
    background: bool = False
    """Whether no caller waits for it (docs/contract.md 8.2)."""
    requirements: Annotated[tuple[CapabilityRequest, ...], Meta(max_length=64)] = ()

    def __post_init__(self) -> None:
        if not self.client_id.isprintable() or self.client_id.startswith(_OWN):
            raise ValueError(f"`client_id` is printable and does not begin with `{_OWN}`")
        if LifecycleEvent.RECEIPT_EMITTED in self.events:
            raise ValueError(f"`events`{UNSERVABLE.removeprefix('events')}")
        program = self.command[0]
        if not program or any("\0" in part for part in self.command):
            raise ValueError("`command` has an empty program or a NUL character")
        if "/" in program and not program.startswith("/"):
            raise ValueError("`command`: a program is an absolute path or found in PATH")
        for name in self.environment:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"`environment`: {name[:64]!r} is no variable; a star may stand for any ending")

    def __str__(self) -> str:
        return self.client_id


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings.  Directories are resolved paths; `manifests` are files with third-party adapter manifests.

    `clients` are the callback clients that are commands, `renewals` the enabled renewal profiles,
    `notifications` the rules of `lifebus notify --rules`; client ids and the names of profiles and rules are unique.
    """

    runtime_dir: Path
    state_dir: Path
    manifests: tuple[Path, ...] = ()
    clients: tuple[ClientSettings, ...] = ()
    renewals: tuple[RenewalSettings, ...] = ()
    notifications: tuple[NotificationRule, ...] = ()
    ledger: LedgerSettings = LedgerSettings()
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()
    ticks: TickSettings = TickSettings()
    pressure: Thresholds = Thresholds()
    retention: RetentionSettings = RetentionSettings()
    scrub: ScrubSettings = ScrubSettings()
    backup: BackupSettings = BackupSettings()
    gateway: GatewaySettings = GatewaySettings()
    inbox: InboxSettings = InboxSettings()
    metrics: MetricSettings = MetricSettings()
    extensions: ExtensionSettings = ExtensionSettings()
    signals: SignalSettings = SignalSettings()
    privacy: PrivacySettings = PrivacySettings()
    queue: QueueSettings = QueueSettings()
    silence: SilenceSettings = SilenceSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    transcripts: TranscriptSettings = TranscriptSettings()

    def __post_init__(self) -> None:
        for name, where, tables in (
            ("profile", "renewals", self.renewals),
            ("client_id", "renewals", self.renewals),
            ("client_id", "clients", self.clients),
            ("name", "notifications", self.notifications),
            ("client_id", "clients and renewals", (*self.clients, *self.renewals)),
        ):
            taken = [getattr(one, name) for one in tables]
            if len(set(taken)) < len(taken):
                raise ValueError(f"{where}: two of them have the same `{name}`")

    @property
    def ledger_path(self) -> Path:
        """Where the ledger is, if it is kept."""
        return self.state_dir / "ledger.db" if self.ledger.path == "auto" else Path(self.ledger.path).expanduser()

    @property
    def backup_folder(self) -> Path | None:
        """Where scheduled backups go, None where there are none."""
        return Path(self.backup.folder).expanduser() if self.backup.folder != NO_FOLDER else None

    @property
    def metrics_file(self) -> Path | None:
        """The file that metrics are written to, None where there is none."""
        return Path(self.metrics.file).expanduser() if self.metrics.file != NO_FOLDER else None

    @property
    def log_file(self) -> Path | None:
        """The file that the log is written to, None where that is stderr."""
        return Path(self.log.file).expanduser() if self.log.file != STDERR else None

    @property
    def usual_log_file(self) -> Path:
        """The file for the log of a broker without a terminal, unless another one is set."""
        return self.log_file or self.state_dir / "log" / "broker.log"

    @property
    def ledger_location(self) -> LedgerLocation:
        """Which ledger is in use, as the broker's factory of ledgers takes it."""
        return LedgerLocation(self.ledger.backend, self.ledger_path)

    @property
    def ledger_companions(self) -> tuple[Path, ...]:
        """What lies beside the ledger and speaks of its history alone: the snapshots; caches prove themselves."""
        return (self.state_dir / "snapshots",)

    @property
    def writer_locks(self) -> tuple[Path, ...]:
        """The lock files that the writer holds, in this order: the state directory's, the ledger file's.

        Beside the ledger, because two brokers with different directories may be configured to use one file.
        """
        ledger = self.ledger_path.resolve()
        return self.state_dir / "lock", ledger.with_name(f"{ledger.name}.lock")
