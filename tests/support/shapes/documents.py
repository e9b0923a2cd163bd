"""Documents that commands put together of others, or that have no type of their own."""

from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from lifebus._internal.view import Gap
from lifebus.cli.admin.harness_checks import CheckResult
from lifebus.flows.faults import FlowFault
from lifebus_admin.harnesses.install_status import InstallStatus, LauncherStatus
from lifebus_admin.harnesses.target import Target
from lifebus_admin.inspection import DamagedRange
from lifebus_admin.installer.transaction import FileDone
from lifebus_admin.placements import Landing
from lifebus_admin.service.state import ServiceState
from lifebus_contract import Negotiation, Receipt
from lifebus_contract.consumers import ConsumerInfo, DeadLetter
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.runs import RunInfo
from lifebus_contract.transcripts import TranscriptEntry, TranscriptInfo
from lifebus_contract.views import SessionHead
from lifebus_transports.messages.emissions import DeliveredPayload
from lifebus_transports.messages.status import BrokerStatus


def extended(name: str, base: type[msgspec.Struct], **more: Any) -> Any:
    """Return a type with the fields of a struct, as they are encoded, and others: types, or types with a default."""
    fields: list[Any] = [
        (one.encode_name, more.pop(one.encode_name, one.type))
        if one.required
        else (one.encode_name, more.pop(one.encode_name, one.type), None)
        for one in msgspec.structs.fields(base)
    ]
    further: list[Any] = [(key, *kind) if isinstance(kind, tuple) else (key, kind) for key, kind in more.items()]
    return msgspec.defstruct(name, [*further, *fields], kw_only=True)


def listed(kind: Any) -> Any:
    """Return the type of a list of a type that was made here."""
    return list[kind]


SessionDocument = extended("SessionDocument", SessionHead, started_at_ms=int, last_at_ms=int)
StatusDocument = extended(
    "StatusDocument",
    BrokerStatus,
    installed_version=str,
    hooks=list[CheckResult],
    open_sessions=list[SessionHead],
)
ConsumerDocument = extended("ConsumerDocument", ConsumerInfo, kind=Literal["cursor"])
DeadLetterDocument = extended("DeadLetterDocument", DeadLetter, receipt=Receipt | None)
InstallDocument = extended("InstallDocument", InstallStatus, state=str, sound=bool)
LauncherDocument = extended("LauncherDocument", LauncherStatus, state=str)
NegotiationDocument = extended("NegotiationDocument", Negotiation, lands=(bool, True), placements=(list[Landing], ()))


class FollowedReceipt(TypedDict):
    """A receipt with its place in the ledger, or a gap where history is gone."""

    cursor: NotRequired[str]
    at_ms: NotRequired[int]
    session: NotRequired[str | None]
    receipt: NotRequired[Receipt]
    gap: NotRequired[Gap]


class Damaged(TypedDict):
    """Receipts that could not be read, with `--rescue`."""

    damaged: DamagedRange


class FollowedSignal(TypedDict):
    """A signal with its place, or a gap."""

    adapter: NotRequired[str]
    thread: NotRequired[str]
    cursor: NotRequired[str]
    signal: NotRequired[dict[str, Any]]
    gap: NotRequired[Gap]


class RefusalDocument(TypedDict):
    """Why an emission was refused."""

    failure_class: str
    retry_class: str
    detail: str
    code: NotRequired[str | None]
    field: NotRequired[str | None]


class EmittedDocument(TypedDict):
    """What became of one emission."""

    receipts: list[Receipt]
    positions: list[int]
    replayed: bool
    deliveries: list[DeliveredPayload]
    refusal: RefusalDocument | None


class Started(TypedDict):
    """A broker that was started in the background."""

    pid: int
    ready: bool
    exit_code: int | None
    runtime_dir: str
    state_dir: str
    log: str


class Stopped(TypedDict):
    """A broker that was stopped; without one `pid` is null."""

    runtime_dir: str
    pid: int | None
    stopped: bool


class PlannedFile(TypedDict):
    """A file that an installation changes."""

    path: str
    action: str
    mode: NotRequired[str]
    diff: str
    notes: list[str]


ProposalDocument = extended(
    "ProposalDocument",
    Target,
    refusal=str | None,
    notes=list[str],
    already=bool,
    files=list[PlannedFile],
    done=list[FileDone] | None,
    advice=list[str],
)


class Hooks(msgspec.Struct):
    """What is installed, without what is said of each."""

    installations: list[InstallStatus]
    launcher: LauncherStatus


HooksDocument = extended("HooksDocument", Hooks, installations=listed(InstallDocument), launcher=LauncherDocument)


class ServicePlan(TypedDict):
    """What an installation of the service does."""

    files: list[PlannedFile]
    steps: list[str]
    done: bool


class ServiceBroker(TypedDict):
    """The broker that answers."""

    pid: int
    version: str


class ServiceDocument(TypedDict):
    """How the service is."""

    manager: str
    file: str
    installed: bool
    state: ServiceState | None
    broker: ServiceBroker | None
    installed_version: str
    runtime_dir: str
    log: str
    log_end: list[str]


class Removed(TypedDict):
    """A named consumer that is forgotten."""

    evicted: str


class TranscriptDocument(TypedDict):
    """How a transcript is, and its entries."""

    transcript: TranscriptInfo
    entries: list[TranscriptEntry]


class CheckedFlow(TypedDict):
    """What is wrong with a flow file, or what it would do."""

    valid: bool
    file: str
    faults: list[FlowFault]
    warnings: list[Any]
    flow: NotRequired[Any]


class ShownRun(TypedDict):
    """How a run stands."""

    run: RunInfo
    definition: FlowDefinition
    questions: list[QuestionInfo]
