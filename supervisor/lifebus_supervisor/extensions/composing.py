"""The extensions of a broker, made of its settings and its other parts."""

import time
import uuid
from functools import partial
from pathlib import Path

import structlog
from anyio.abc import TaskGroup

from lifebus_adapters.app_server.signals import iso_time
from lifebus_broker.ports import Journal
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.signals.log import SignalLog
from lifebus_contract.extensions import OriginType
from lifebus_supervisor.extensions.extension_child import ChildSettings
from lifebus_supervisor.extensions.extensions import Extensions, TimeAndIds
from lifebus_supervisor.extensions.folders import remove_copies
from lifebus_supervisor.extensions.journal import AuditLog, TrustStore
from lifebus_supervisor.extensions.loading import Rules
from lifebus_supervisor.extensions.process_host import ProcessHost
from lifebus_supervisor.extensions.root_paths import COPIES, absolute_root
from lifebus_supervisor.extensions.rules.discovery import Root
from lifebus_supervisor.extensions.settings import ExtensionSettings
from lifebus_supervisor.transcripts.session_marks import SessionKind, SessionKinds
from lifebus_transports.messages.extensions.host import ExtensionLog

_TRANSCRIPT = "transcript/"

_log = structlog.get_logger("lifebus.extensions")


def compose_extensions(
    settings: ExtensionSettings,
    runtime_dir: Path,
    *,
    journal: Journal,
    fanout: Fanout,
    signals: SignalLog,
    tasks: TaskGroup,
) -> Extensions:
    """Make the extensions; nothing is loaded yet."""
    copies = runtime_dir / COPIES
    remove_copies(copies)  # those of a broker that was killed
    child = ChildSettings(memory_mb=settings.memory_mb, environment=settings.environment)
    extensions = Extensions(
        Rules(
            roots=roots_of(settings),
            mode=settings.trust_mode,
            trusted={},
            handler_timeout_ms=settings.handler_timeout_ms,
            copies=copies,
        ),
        partial(ProcessHost, child, tasks, write_log, time.monotonic),
        TimeAndIds(lambda: time.time_ns() // 1_000_000, iso_time, lambda: str(uuid.uuid4())),
        trust=TrustStore(journal),
        audit=AuditLog(journal),
        fanout=fanout,
    )
    signals.listen(extensions.sources.on_signals)
    return extensions


def roots_of(settings: ExtensionSettings) -> tuple[Root, ...]:
    """Return the roots that the settings name."""
    named = (
        (OriginType.REPO_LOCAL, settings.roots),
        (OriginType.INSTALLED_PACKAGE, settings.package_roots),
        (OriginType.CONFIGURED_ROOT, settings.configured_roots),
    )
    return tuple(Root(origin, absolute_root(path)) for origin, paths in named for path in paths)


def is_hidden(kinds: SessionKinds, _adapter_id: str, session: str) -> bool:
    """Whether extensions do not learn of a session: it was deleted, or belongs to a worker of the broker."""
    # The bus's own signals of a transcript are filed under its session with a word before it.
    return kinds.kind_of(session.removeprefix(_TRANSCRIPT)) is not SessionKind.USER


def write_log(line: ExtensionLog) -> None:
    """Write what an extension logs into the broker's log, which bounds it."""
    level = line.level if line.level in {"debug", "info", "warning", "error"} else "info"
    getattr(_log, level)("extension_log", module=line.module_name, message=line.message, fields=line.fields)
