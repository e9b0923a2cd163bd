"""The answer to `status`: how the broker is, and what it sees of its harnesses."""

from msgspec import Struct

from lifebus_contract import (
    LifecycleEvent,
)
from lifebus_contract.views import LedgerStatus, Wait
from lifebus_transports.messages.state import BackupStatus, RetentionStatus, ScrubStatus


class HarnessStatus(Struct, frozen=True, kw_only=True):
    """What the broker sees of one harness; ages are in whole seconds, None for what never came.

    `sessions` counts the live ones, `open_frames` the frames without an end, `files` the watched telemetry files and
    `skipped_records` what could not be read in them.  `silent` and `degraded` name the sources that went quiet and the
    capabilities that are weaker than claimed.
    """

    adapter_id: str
    sessions: int
    open_frames: int
    last_event: LifecycleEvent | None
    last_event_age_s: int | None
    last_hook_age_s: int | None
    last_tick_age_s: int | None
    files: int
    newest_file_age_s: int | None
    skipped_records: int
    silent: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()


class WaitingSession(Struct, frozen=True, kw_only=True):
    """A session that waits for a person, and for what, the oldest first (docs/waiting.md)."""

    adapter_id: str
    harness_session_id: str
    waiting: tuple[Wait, ...]


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """How the broker is: `counters` count since it started, `uptime_s` in whole seconds.

    `unknown_adapters` are the first eight names under which hooks called and that no adapter has.
    `harnesses` has one entry an adapter that was seen, `waiting` one a supervised session that waits for a person;
    `retention` and `scrub` are None where nothing durable is kept,
    `backup` also where none are scheduled.
    """

    version: str
    contract_version: str
    pid: int
    uptime_s: int
    runtime_dir: str
    state_dir: str = ""
    ledger: LedgerStatus
    clients: int
    counters: dict[str, int]
    unknown_adapters: tuple[str, ...] = ()
    harnesses: tuple[HarnessStatus, ...] = ()
    waiting: tuple[WaitingSession, ...] = ()
    retention: RetentionStatus | None = None
    scrub: ScrubStatus | None = None
    backup: BackupStatus | None = None
