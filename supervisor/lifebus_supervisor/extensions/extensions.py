"""The extensions of a broker: loaded, told events, reloaded at once and as a whole, trusted, audited."""

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import msgspec
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.routing.fan_out import Fanout
from lifebus_contract import InvalidRequest, LifebusError, StateConflict
from lifebus_contract.extensions import (
    AuditRecord,
    EmitResult,
    LoadError,
    ReloadStatus,
    RuntimeEvent,
)
from lifebus_supervisor.extensions.event_queue import EventQueue
from lifebus_supervisor.extensions.events import EventSources, Hidden
from lifebus_supervisor.extensions.extension_set import ExtensionSet, empty_set
from lifebus_supervisor.extensions.folders import UnsafeFolder, list_folder, read_folder, remove_copies
from lifebus_supervisor.extensions.journal import AuditLog, TrustRecord, TrustStore
from lifebus_supervisor.extensions.loading import MakeHost, Rules, load_set
from lifebus_supervisor.extensions.passes import Reach, run_pass
from lifebus_supervisor.extensions.ports import AgentTrust
from lifebus_supervisor.extensions.rules.discovery import discover
from lifebus_transports.messages.extensions.bodies import (
    Actor,
    ExtensionList,
    ReloadAnswer,
    ReloadedModule,
    TrustAnswer,
)

_log = structlog.get_logger("lifebus.extensions")


class TimeAndIds(Struct, frozen=True):
    """Time and ids: milliseconds since 1970, how a time is written down, and new ids."""

    now_ms: Callable[[], int]
    stamp: Callable[[int], str]
    new_id: Callable[[], str]

    def now(self) -> str:
        """Return the present time as it is written down."""
        return self.stamp(self.now_ms())


class Extensions:
    """The extensions of one broker.

    `loaded` is set once the first load is over, however it went.  `around` is what handlers reach; it may be set until
    the first event comes.  `hidden` keeps sessions from them.
    """

    def __init__(
        self,
        rules: Rules,
        make_host: MakeHost,
        clocks: TimeAndIds,
        *,
        trust: TrustStore,
        audit: AuditLog,
        fanout: Fanout,
    ) -> None:
        self.around = Reach()
        self.hidden: Hidden | None = None
        self.current = empty_set(rules.mode)
        self.audit = audit
        self.events = EventQueue(self._run_pass, clocks.now)
        self.sources = EventSources(self.events, clocks.stamp, clocks.now_ms, self._is_hidden)
        self._rules, self._make_host, self._clocks = rules, make_host, clocks
        self._trust, self._fanout = trust, fanout
        self.loaded = anyio.Event()
        self._is_loading = False
        self._tasks: TaskGroup | None = None
        self._stop_receipts: Callable[[], None] | None = None

    @property
    def has_roots(self) -> bool:
        """Whether any root is there; without one nothing runs."""
        return any(Path(root.path).is_dir() for root in self._rules.roots)

    async def start(self, tasks: TaskGroup, *, loads: bool = True) -> None:
        """Begin to load in the background, and to dispatch; a bad extension is left out and said.

        Without `loads` nothing is loaded before a reload.

        Raises:
            LifebusError: the journal cannot be read; nothing has begun.
        """
        self._tasks = tasks
        await self._trust.open()
        tasks.start_soon(self.events.run)
        if loads and await anyio.to_thread.run_sync(lambda: self.has_roots):
            tasks.start_soon(self._load_at_start)
        else:
            self.loaded.set()

    async def emit(self, event: RuntimeEvent) -> list[EmitResult]:
        """Tell handlers of an event now, ahead of those that wait, and return their results."""
        return await self._run_pass(event)

    async def reload(self, actor: Actor) -> ReloadAnswer:
        """Load everything anew: all of it takes the place of the present set, or nothing changes."""
        reload_id, before = self._clocks.new_id(), self.current
        if self._is_loading:
            await self._write(reload_id, actor, before, None)
            return self._answer(ReloadStatus.IN_PROGRESS, reload_id, "a reload is under way", ())
        self._is_loading = True
        try:
            found = await load_set(self._current_rules(), self._clocks.new_id(), self._make_host, self._clocks.now)
            if found.errors:
                await self._retire(found)
            else:
                self._swap(found)
        finally:
            self._is_loading = False
        if found.errors:
            await self._write(reload_id, actor, before, None, found.errors)
            return self._answer(ReloadStatus.FAILED, reload_id, "nothing was changed", found.errors)
        await self._write(reload_id, actor, before, found)
        return self._answer(ReloadStatus.OK, reload_id, None, ())

    async def trust(self, name: str, expected: str | None, actor: Actor) -> TrustAnswer:
        """Record that the present contents of an extension are trusted; a reload loads them.

        Raises:
            InvalidRequest: there is no such extension, or it cannot be read.
            StateConflict: its contents are not those that are expected.
        """
        found = await anyio.to_thread.run_sync(discover, self._rules.roots, list_folder)
        candidate = next((one for one in found.candidates if one.module_name == name), None)
        if candidate is None:
            near = difflib.get_close_matches(name[:128], [one.module_name for one in found.candidates], n=1)
            meant = f"; did you mean `{near[0]}`?" if near else ""
            raise InvalidRequest(f"there is no extension `{name[:128]}` in any root{meant}", code="unknown_extension")
        try:
            contents = await anyio.to_thread.run_sync(read_folder, candidate.path)
        except UnsafeFolder as fault:
            raise InvalidRequest(str(fault), code="unsafe_extension") from None
        if expected is not None and expected != contents.digest:
            why = f"the files of `{name[:128]}` have the hash {contents.digest}, not {expected[:80]}"
            raise StateConflict(why, code="extension_changed")
        at = self._clocks.now()
        record = TrustRecord(
            module_name=name, content_hash=contents.digest, path=candidate.path, actor_id=actor.id, at=at
        )
        await self._trust.record(record)
        await self._write(self._clocks.new_id(), actor, self.current, self.current, impacted=(name,), action="trust")
        return TrustAnswer(
            module_name=name,
            path=candidate.path,
            content_hash=contents.digest,
            files=tuple(sorted(contents.files))[:256],
        )

    async def deny(self, actor: Actor, why: str) -> None:
        """Write down that somebody was not allowed to reload."""
        await self._write(self._clocks.new_id(), actor, self.current, None, why=why, result="forbidden")

    def agent(self, agent_id: str) -> AgentTrust | None:
        """Return what the extension of an agent may ask for, None where none is loaded."""
        now = self.current
        found = [one for one in now.modules if one.agent_id == agent_id]
        if not found:
            return None
        name = next((one.module_name for one in found if one.module_name == agent_id), found[0].module_name)
        return AgentTrust(name, now.mode, now.capabilities.get(name))

    def listing(self) -> ExtensionList:
        """Return what is loaded."""
        now = self.current
        return ExtensionList(
            snapshot_version=now.version,
            loaded_at=now.loaded_at,
            modules=now.modules,
            errors=now.errors,
            is_loading=self._is_loading,
            host_restarts=0 if now.host is None else now.host.restarts,
            lost_events=self.events.lost,
        )

    async def _load_at_start(self) -> None:
        self._is_loading = True
        before = self.current
        try:
            found = await load_set(self._current_rules(), self._clocks.new_id(), self._make_host, self._clocks.now)
            self._swap(found)
        finally:
            self._is_loading = False
            self.loaded.set()
        for error in found.errors:
            _log.warning("extension_not_loaded", extension=error.extension, code=error.code, detail=error.message)
        broker = Actor(role="system", id="broker", origin={"kind": "start"})
        try:
            await self._write(self._clocks.new_id(), broker, before, found, found.errors, action="start")
        except LifebusError as fault:
            _log.warning("extension_audit_failed", detail=fault.detail)

    def _current_rules(self) -> Rules:
        return msgspec.structs.replace(self._rules, trusted=self._trust.hashes)

    def _swap(self, found: ExtensionSet) -> None:
        """Let a set take the place of the present one, whose passes end with what they began with."""
        before, self.current = self.current, found
        if self._stop_receipts is not None:
            self._stop_receipts()
            self._stop_receipts = None
        # Receipts are looked at only while somebody listens: without extensions a commit costs nothing more.
        if self.sources.want(found.handlers):
            self._stop_receipts = self._fanout.listen(self.sources.on_receipts)
        if self._tasks is not None:
            self._tasks.start_soon(self._retire, before)
        _log.info("extensions_loaded", version=found.version, loaded=len(found.modules), failed=len(found.errors))

    async def _retire(self, old: ExtensionSet) -> None:
        """End what runs for a set, once nothing uses it, and remove its files."""
        await old.retire()
        await anyio.to_thread.run_sync(remove_copies, self._rules.copies / old.version)

    async def _run_pass(self, event: RuntimeEvent) -> list[EmitResult]:
        return await run_pass(self.current, event, self.around)

    def _is_hidden(self, adapter_id: str, session: str) -> bool:
        return self.hidden is not None and self.hidden(adapter_id, session)

    def _answer(
        self, status: ReloadStatus, reload_id: str, message: str | None, errors: Sequence[LoadError]
    ) -> ReloadAnswer:
        now = self.current
        done = status is ReloadStatus.OK
        return ReloadAnswer(
            status="ok" if done else "error",
            code=None if done else status.value,
            reload_id=reload_id,
            message=message,
            loaded_count=len(now.modules),
            failed_count=len(errors),
            snapshot_version=now.version,
            loaded_at=now.loaded_at,
            modules=tuple(
                ReloadedModule(name=one.name, version=one.version, agent_id=one.agent_id, events=one.events)
                for one in now.modules
            ),
            errors=tuple(errors),
        )

    async def _write(  # noqa: PLR0913
        self,
        reload_id: str,
        actor: Actor,
        before: ExtensionSet,
        after: ExtensionSet | None,
        errors: Sequence[LoadError] = (),
        *,
        impacted: Sequence[str] | None = None,
        why: str | None = None,
        action: Literal["reload", "trust", "start"] = "reload",
        result: Literal["success", "failed", "forbidden"] | None = None,
    ) -> None:
        """Write a record of the audit."""
        names = [one.module_name for one in (after or before).modules] if impacted is None else impacted
        summary = why or " | ".join(f"{one.code}:{one.message}" for one in errors)[:2_048]
        await self.audit.record(
            AuditRecord(
                reload_id=reload_id,
                recorded_at=self._clocks.now(),
                action=action,
                actor_role=actor.role,
                actor_id=actor.id,
                origin=actor.origin,
                result=result or ("failed" if after is None else "success"),
                snapshot_before=before.version,
                snapshot_after=None if after is None else after.version,
                trust_mode=self._rules.mode,
                error_summary=summary or None,
                impacted_extensions=tuple(names)[:64],
            )
        )
