"""The answer to `status`: how the broker is, and what it sees of its harnesses."""

from msgspec import Struct

from lifebus_contract import (
    LifecycleEvent,
)
from lifebus_contract.views import LedgerStatus, Wait
from lifebus_transports.messages.state import BackupStatus, RetentionStatus, ScrubStatus


class HarnessStatus(Struct, frozen=True, kw_only=True):
    """What the broker observes of one harness; ages are in whole seconds, or None if nothing came yet.

    `sessions` counts the live ones, `open_frames` the frames without an end, `files` the watched telemetry files, and
    `skipped_records` the records in them that could not be read.  `silent` names the sources that are silent, and
    `degraded` the capabilities that are weaker than claimed.
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
    """The status of the broker; `counters` count since it started, and `uptime_s` is in whole seconds.

    `unknown_adapters` are the first eight names under which hooks called although there is no such adapter.
    `harnesses` has an entry for each adapter that was seen, and `waiting` one for each supervised session that waits
    for a person.  `retention` and `scrub` are None if the ledger is not durable, and `backup` also if no backups are
    scheduled.
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
