"""Documents of the commands about the ledger, adapters, checkpoints and renewal."""

from typing import Any, NotRequired, TypedDict

from lifebus.checkpoints.records import CheckpointInfo
from lifebus.checkpoints.verification import Difference
from lifebus_admin.snapshots.compactions import ListedCompaction
from lifebus_broker.snapshots.cold_boot_error import Step
from lifebus_broker.snapshots.refused_file import RefusedFile


class SavedCheckpoint(TypedDict):
    checkpoint: CheckpointInfo
    is_new: bool
    recorded: bool
    why_not: str | None


class ShownCheckpoint(TypedDict):
    """A checkpoint as it was saved, with what is known of it; both are null where there is none."""

    info: CheckpointInfo | None
    checkpoint: Any
    differences: NotRequired[list[Difference]]


class CheckpointList(TypedDict):
    """The checkpoints of a project."""

    checkpoints: list[CheckpointInfo]
    damaged: list[str]


class Exported(TypedDict):
    """The files that were written."""

    exported: list[str]


class CachesDocument(TypedDict):
    """The views that are derived from the log, and files that are none."""

    compactions: list[ListedCompaction]
    refused: list[RefusedFile]


class Deleted(TypedDict):
    """How many were removed."""

    deleted: int


class FailedBoot(TypedDict):
    """At which step a boot ended, and why."""

    step: int | None
    position: int | None
    within: Any
    reason: str | None
    detail: str


class BootDocument(TypedDict):
    """The steps of a boot; what was open then, or why it failed."""

    ok: NotRequired[bool]
    steps: NotRequired[list[Step]]
    failed: NotRequired[FailedBoot]
    resume: NotRequired[dict[str, Any]]


class BackupDocument(TypedDict):
    """A copy of the ledger."""

    file: str
    epoch: str
    head: int
    floor: int
    bytes: int


class PruneDocument(TypedDict):
    """What was dropped, or would be."""

    dry_run: bool
    receipts: int
    before: int
    floor: int
    head: int
    consumers: list[str]
    bytes_before: int
    bytes: int
    free_bytes: int


class ArchiveDocument(TypedDict):
    """A campaign that was written into a file."""

    snapshot_id: str
    position: int
    file: str


class ValidVerdict(TypedDict):
    """Whether a document keeps to the contract; where not, what is wrong with which field."""

    valid: bool
    line: NotRequired[int]
    field: NotRequired[str | None]
    code: NotRequired[str | None]
    rule: NotRequired[str]


class ManifestVerdict(TypedDict):
    """Whether a manifest keeps to the contract."""

    valid: bool
    field: NotRequired[str | None]
    code: NotRequired[str | None]
    rule: NotRequired[str]
    adapter_id: NotRequired[str]
    events_claimed: NotRequired[int]


class AdapterSummary(TypedDict):
    """An adapter."""

    adapter: str
    version: str
    level: str
    name: str
    modes: str


class PlacementSlot(TypedDict):
    """A slot in which a payload lands."""

    slot: str
    support: str
    max_bytes: int | None
    status: str


class PlacementRejection(TypedDict):
    """A slot in which it does not land; null where there is none at all."""

    slot: str | None
    reason: str


class PlacementDocument(TypedDict):
    """Where payloads land on one event."""

    adapter: str
    event: str
    placement: str
    status: str | None
    slots: list[PlacementSlot]
    rejections: list[PlacementRejection]


class EventSummary(TypedDict):
    """A lifecycle event."""

    event: str
    meaning: str
    needs_frame: bool
    can_be_emitted: bool


class LiveCell(TypedDict):
    """A scenario that a harness has played."""

    scenario: str
    ok: bool
    cannot: str | None
    expected: list[Any]
    recorded: list[Any]
    faults: list[Any]


class LiveDocument(TypedDict):
    """What a harness has shown of itself."""

    harness: str
    version: str
    cells: list[LiveCell]


class LogEventDocument(TypedDict):
    """An event of a run."""

    event: str
    timestamp: str
    phase: str | None
    data: dict[str, Any]


FlowOutputDocument = TypedDict(
    "FlowOutputDocument",
    {"step": str, "stream": str, "try": int, "text": str, "next": int, "size": int, "running": bool},
)


class ProfileDocument(TypedDict):
    """A renewal profile."""

    profile: str
    adapter_id: str
    client_id: str


class ContinuationDocument(TypedDict):
    """A continuation without its token."""

    profile: str
    thread: str | None
    state: str
    payload_id: str
    adapter_id: str
    session: str | None
    cwd: str | None
    claimed_by: str | None
    handed_over: Any
    bytes: int
    age_s: int
    expires_in_s: int
    ended_at_epoch_s: int | None
    note: str | None


class RenewalDocument(TypedDict):
    """Renewal profiles, and what is kept."""

    profiles: list[ProfileDocument]
    waiting: list[ContinuationDocument]
    ended: list[ContinuationDocument]
    strange_files: list[str]


class BrokerVersions(TypedDict):
    """The versions of the running broker, or why there are none."""

    lacking: NotRequired[str]
    lifebus: NotRequired[str]
    contract: NotRequired[str]
    sqlite: NotRequired[str]
    pid: NotRequired[int]


class VersionDocument(TypedDict):
    """The versions."""

    lifebus: str
    contract: str
    python: str
    sqlite: str
    zeromq: str
    dependencies: NotRequired[dict[str, str]]
    broker: NotRequired[BrokerVersions]


class ConfigVerdict(TypedDict):
    """Settings that are valid: how many differ from the defaults, and which adapters there are."""

    valid: bool
    changed: list[str]
    adapters: list[str]


class NewExtension(TypedDict):
    """An extension that was begun."""

    folder: str
    files: list[str]


class KeptContinuation(TypedDict):
    """What became of the token of a thread: its state, null where none was kept, and its size."""

    thread: str
    state: str | None
    bytes: int


class ResumeView(TypedDict):
    """What is open, with `--live`: the view of docs/ledger.md, "Resume"."""

    position: int
    sessions: list[dict[str, Any]]
    weaker: list[dict[str, Any]]
    pending_state: Any
    pins_snapshot: dict[str, Any]
