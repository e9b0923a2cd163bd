"""Which shape each command has, by its words; `LINES` are those that print a document a line."""

from typing import Any, Final

from lifebus.cli.admin.harness_checks import CheckResult
from lifebus.cli.admin.hook_canary import Canary
from lifebus.cli.bus.dashboard import DashboardLink
from lifebus.cli.contract.events import KnownEvent
from lifebus.cli.tools.inject_rules import InjectOutcome
from lifebus.cli.tools.notify_rules import NoticeMessage
from lifebus.cli.tools.report_rules import ActivityReport
from lifebus.loa.conformance.check import Finding
from lifebus_adapters.conformance import CheckFinding
from lifebus_admin.ledger_files.backup import Replacement
from lifebus_admin.ledger_files.checks import CheckReport
from lifebus_admin.ledger_files.info import LedgerInfo
from lifebus_admin.ledger_files.rotation import Rotated
from lifebus_admin.snapshots.boot import Verdict
from lifebus_admin.snapshots.verify_rebuild import RebuildComparison
from lifebus_broker.snapshots.compactions.registry import RebuildCounts, VerifyReport
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_contract import AdapterManifest, Receipt
from lifebus_contract.extensions import AuditRecord
from lifebus_contract.jobs import Job
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.runs import ContextSignals, RunInfo
from lifebus_contract.transcripts import TranscriptEntry, TranscriptInfo
from lifebus_supervisor.jobs.state_directory import SnapshotSummary
from lifebus_transports.messages.extensions.bodies import ExtensionList, ReloadAnswer, TrustAnswer
from lifebus_transports.messages.flows import RunSummary
from lifebus_transports.messages.jobs import JobSummary, QueueStatus
from lifebus_transports.messages.snapshots import SaveAnswer
from lifebus_transports.messages.workers import ClientInfo
from support.shapes import documents as shared
from support.shapes import ledger_documents as own


class AnyOf:
    """One of several types, or an array of these."""

    def __init__(self, *types: Any, listed: bool = False) -> None:
        self.types, self.listed = types, listed


SHAPES: Final[dict[str, Any]] = {
    "up": shared.Started,
    "down": shared.Stopped,
    "dashboard": DashboardLink,
    "status": shared.StatusDocument,
    "doctor": list[CheckResult],
    "hooks plan": list[shared.ProposalDocument],
    "hooks install": list[shared.ProposalDocument],
    "hooks remove": list[shared.ProposalDocument],
    "hooks status": shared.HooksDocument,
    "hooks test": list[Canary],
    "tail": shared.FollowedReceipt,
    "sessions list": list[shared.SessionDocument],
    "sessions show": shared.SessionDocument,
    "sessions close": shared.FollowedReceipt,
    "sessions forget": shared.FollowedReceipt,
    "report": ActivityReport,
    "notify": NoticeMessage,
    "inject": InjectOutcome,
    "receipts list": shared.FollowedReceipt,
    "receipts show": Receipt,
    "receipts export": AnyOf(Receipt, shared.Damaged),
    "receipts verify": CheckReport,
    "clients list": AnyOf(ClientInfo, shared.ConsumerDocument, listed=True),
    "clients lag": list[shared.ConsumerDocument],
    "clients reset-cursor": shared.ConsumerDocument,
    "clients remove": shared.Removed,
    "clients dead": shared.DeadLetterDocument,
    "config show": dict[str, Any],
    "config check": own.ConfigVerdict,
    "transcript list": list[TranscriptInfo],
    "transcript show": list[TranscriptEntry],
    "transcript export": shared.TranscriptDocument,
    "flow run": RunInfo,
    "flow resume": RunInfo,
    "flow check": shared.CheckedFlow,
    "flow logs": AnyOf(own.FlowOutputDocument, own.LogEventDocument),
    "flow list": list[RunSummary],
    "flow show": shared.ShownRun,
    "flow abort": RunInfo,
    "flow retry": RunInfo,
    "flow signals": ContextSignals,
    "inbox list": list[QuestionInfo],
    "inbox show": QuestionInfo,
    "inbox answer": QuestionInfo,
    "jobs list": list[JobSummary],
    "jobs show": Job,
    "jobs cancel": Job,
    "jobs retry": Job,
    "jobs drain": QueueStatus,
    "checkpoint save": own.SavedCheckpoint,
    "checkpoint show": own.ShownCheckpoint,
    "checkpoint list": own.CheckpointList,
    "checkpoint export": own.Exported,
    "extensions list": ExtensionList,
    "extensions reload": ReloadAnswer,
    "extensions trust": TrustAnswer,
    "extensions audit": list[AuditRecord],
    "extensions new": own.NewExtension,
    "emit": shared.EmittedDocument,
    "service install": AnyOf(shared.ServicePlan, shared.ServiceDocument),
    "service status": shared.ServiceDocument,
    "service restart": shared.ServiceDocument,
    "service remove": shared.ServicePlan,
    "version": own.VersionDocument,
    "ledger save": AnyOf(SaveAnswer, own.ArchiveDocument),
    "ledger boot": AnyOf(own.BootDocument, RebuildComparison, own.ResumeView),
    "ledger snapshots list": AnyOf(SnapshotSummary, RefusedFile, listed=True),
    "ledger snapshots show": dict[str, Any],
    "ledger snapshots verify": list[Verdict],
    "ledger caches list": own.CachesDocument,
    "ledger caches show": dict[str, Any],
    "ledger caches verify": VerifyReport,
    "ledger caches rebuild": RebuildCounts,
    "ledger caches remove": own.Deleted,
    "ledger show": LedgerInfo,
    "ledger verify": CheckReport,
    "ledger prune": own.PruneDocument,
    "ledger backup": AnyOf(own.BackupDocument, Rotated),
    "ledger restore": Replacement,
    "ledger import": Replacement,
    "app-server signals": shared.FollowedSignal,
    "contract validate": own.ValidVerdict,
    "contract negotiate": shared.NegotiationDocument,
    "contract manifest list": list[own.AdapterSummary],
    "contract manifest show": AdapterManifest,
    "contract manifest placements": list[own.PlacementDocument],
    "contract manifest check": own.ManifestVerdict,
    "contract events": AnyOf(list[own.EventSummary], KnownEvent),
    "contract conform": AnyOf(list[CheckFinding], own.LiveDocument),
    "contract conform runtime": list[Finding],
    "renewal status": own.RenewalDocument,
    "renewal continuation put": own.KeptContinuation,
    "renewal continuation remove": own.KeptContinuation,
    "renewal continuation list": list[own.ContinuationDocument],
    "dev tick": shared.FollowedReceipt,
}
"""The shape of what a command prints with `--json`, or of each line of it."""

LINES: Final = frozenset(
    {
        *("tail", "receipts list", "receipts export", "clients dead", "flow run", "flow resume", "flow logs", "emit"),
        *("sessions close", "sessions forget", "notify", "inject"),
        *("app-server signals", "contract validate", "dev tick", "sessions close", "sessions forget"),
    }
)
"""Commands that print a document a line, or several."""

WITHOUT: Final = {
    "serve": "prints nothing",
    "demo": "shows, and states no fact",
    "top": "shows what status, sessions, tail, clients and inbox state",
    "completions": "prints a program for a shell",
    "ledger export": "writes the ledger in a format of its own (docs/ledger.md)",
    "app-server run": "its streams are those of the app-server",
    "app-server tee": "its streams are those of the app-server",
    "contract schema": "prints a JSON Schema always",
    "renewal continuation show": "writes the token, byte for byte",
    "dev invoke": "prints receipts in their canonical form always",
    "cloudevents": "prints CloudEvents always (docs/cloudevents.md)",
    "otel": "prints nothing: it posts",
    "dev stdio": "answers in JSON always (docs/stdio.md)",
}
"""Commands without a shape, and why."""
