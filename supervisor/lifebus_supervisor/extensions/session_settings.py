"""The settings of sessions, as far as the signals of their app-servers tell of them (`ports.SessionSettings`)."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from lifebus_broker.signals.log import SignalLog, StoredSignal
from lifebus_contract.jobs import ADAPTER
from lifebus_contract.transcripts import no_session, session_deleted
from lifebus_supervisor.transcripts.session_marks import SessionKind, SessionKinds

STARTED: Final = "app_server.thread.started"
UPDATED: Final = "app_server.thread.settings.updated"
_NAMED: Final = ("app_server.thread.name.updated", "app_server.thread.project.updated")

MAX_SESSIONS: Final = 1_024
"""Sessions whose settings are in memory; those of others are read again."""

_TELLING: Final = frozenset({STARTED, UPDATED, *_NAMED})
_OF_RECORD: Final = {
    "model": "model",
    "modelProvider": "modelProvider",
    "cwd": "cwd",
    "reasoningEffort": "effort",
}
_PAGE: Final = 256


class _Session(msgspec.Struct, rename="camel"):
    title: Any = None
    project_id: Any = None


class _Signal(msgspec.Struct):
    params: Any = None
    session: _Session | None = None


class KnownSettings:
    """Follows a log of signals; what was said before is read from it when somebody asks."""

    def __init__(self, signals: SignalLog, kinds: SessionKinds) -> None:
        self._signals, self._kinds = signals, kinds
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._read: set[str] = set()
        signals.listen(self._on_signals)

    async def settings_of(self, session_id: str) -> Mapping[str, Any]:
        """Return the settings of a session, the newest value of each; none where no signal has told of any.

        Raises:
            StateConflict: ``session_deleted``.
            InvalidRequest: ``no_session``: no signal of it is kept, or it is a worker's of the broker.
            LifebusError: they cannot be read now.
        """
        kind = self._kinds.kind_of(session_id)
        if kind is SessionKind.DELETED:
            raise session_deleted(session_id)
        if kind is SessionKind.SYSTEM:
            raise no_session(session_id)
        if session_id not in self._read:
            earlier = await self._from_log(session_id)
            if earlier is None and session_id not in self._known:
                raise no_session(session_id)
            # What came while it was read is newer than what was read.
            self._keep(session_id, (earlier or {}) | self._known.get(session_id, {}))
            self._read.add(session_id)
        return dict(self._known[session_id])

    async def _from_log(self, session_id: str) -> dict[str, Any] | None:
        """Return what the kept signals of a session tell, None where there are none."""
        found: dict[str, Any] | None = None
        for adapter_id, thread, _ in await self._signals.kept_threads():
            if thread != session_id or adapter_id == ADAPTER:
                continue
            found, after, is_read = found or {}, 0, False
            while not is_read:
                page = await self._signals.read(adapter_id, thread, after, _PAGE)
                found |= _fold(page.signals)
                after, is_read = page.next, page.complete
        return found

    def _on_signals(self, adapter_id: str, thread: str, signals: Sequence[StoredSignal]) -> None:
        if adapter_id == ADAPTER or not thread:
            return
        told = _fold(signals)
        if told:
            self._keep(thread, self._known.get(thread, {}) | told)

    def _keep(self, session_id: str, settings: dict[str, Any]) -> None:
        self._known[session_id] = settings
        self._known.move_to_end(session_id)
        if len(self._known) > MAX_SESSIONS:
            self._read.discard(self._known.popitem(last=False)[0])


def _fold(signals: Sequence[StoredSignal]) -> dict[str, Any]:
    """Return the newest value of each setting in these signals."""
    found: dict[str, Any] = {}
    for one in signals:
        if one.event_type in _TELLING:
            found |= dict(_told(one.event_type, msgspec.json.decode(one.signal, type=_Signal)))
    return found


def _told(event_type: str, signal: _Signal) -> Iterator[tuple[str, Any]]:
    """Yield the settings that a signal tells; a value that is null is that of nothing."""
    if signal.session is not None:
        yield from (("title", signal.session.title), ("projectId", signal.session.project_id))
    params = _object(signal.params)
    if event_type == UPDATED:
        yield from _object(params.get("threadSettings")).items()
    elif event_type == STARTED:
        record = _object(params.get("thread"))
        yield from ((name, record[key]) for key, name in _OF_RECORD.items() if record.get(key) is not None)


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
