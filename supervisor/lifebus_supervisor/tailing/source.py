"""All tailed files of one source: discovery, checks, and reads of what is new.  Blocks; one thread at a time."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, cast

from msgspec import Struct

from lifebus_adapters.shared.telemetry import DatabaseReader, RecordReader, SourceSpec, Surroundings
from lifebus_supervisor.tailing.database import DatabaseTail
from lifebus_supervisor.tailing.decode import Decoder, DefectLog, ReadResult
from lifebus_supervisor.tailing.discovery import DiscoveredFile, SourceRoot
from lifebus_supervisor.tailing.events import FileUpdate, TailLimits
from lifebus_supervisor.tailing.framing import framer_for
from lifebus_supervisor.tailing.safe_open import FilePlace
from lifebus_supervisor.tailing.tail import FileTail
from lifebus_supervisor.tailing.tracked_file import IncrementalReader, TrackedFile

_LOOKING: Final = 0.2
_READING: Final = 0.5
"""Which part of a poll's deadline it takes by itself for looking for files, and until it stops reading."""


class FollowRequest(Struct, frozen=True, kw_only=True):
    """What a source is asked for: to watch the file at `path` for a session or, without a path, to let its files go."""

    session: str
    path: str | None = None


class SourceFiles:
    """The files of one source by their real paths; the one that changed least recently stands first."""

    def __init__(
        self,
        adapter_id: str,
        source: SourceSpec,
        surroundings: Surroundings,
        limits: TailLimits,
        *,
        uid: int,
        discover: bool,
    ) -> None:
        self.adapter_id, self.source = adapter_id, source
        self._surroundings, self._limits, self._uid = surroundings, limits, uid
        self._discover = discover
        self._trees = [SourceRoot(root.rstrip("/") or "/", source.pattern) for root in source.roots(surroundings)]
        self._defects = DefectLog(adapter_id, source.source_id)
        self._entries: dict[str, TrackedFile] = {}

    def entries(self) -> list[TrackedFile]:
        """Return the files that are watched, the one that changed most recently last."""
        return [entry for entry in self._entries.values() if not entry.resting]

    def folders(self) -> list[str]:
        """Return the folders where something may happen, those of the newest files first."""
        watched = [entry.path.rpartition("/")[0] for entry in reversed(self.entries())]
        listed = [path for tree in self._trees for path in tree.folders()] if self._discover else []
        return list(dict.fromkeys([*watched, *listed]))

    def poll(self, wishes: Sequence[FollowRequest], now: float) -> list[FileUpdate]:
        """Grant wishes, look for files, read what is new, and return all news and every problem that stands.

        What does not fit into the time of one poll is left to the next.
        """
        start, within = time.monotonic(), self._limits.read_s
        for wish in wishes:
            self._grant(wish)
        if self._discover:
            self._find(now, lambda: time.monotonic() - start > within * _LOOKING)
        found = list(self._faults_of_roots())

        def late() -> bool:
            return time.monotonic() - start > within * _READING

        for key, entry in list(self._entries.items()):
            if not entry.resting and (heard := entry.poll(now, late, self._defects)):
                found += [self._found(entry, part) for part in heard]
                self._reorder(key, entry, heard, now)
        return found

    def _reorder(self, key: str, entry: TrackedFile, heard: Sequence[ReadResult], now: float) -> None:
        """Put a file that grew last, and forget one that has been away for long and that no hook waits for."""
        if any(part.grown for part in heard):
            self._entries[key] = self._entries.pop(key)
        absent_s = 0 if entry.missing_since is None else now - entry.missing_since
        if absent_s > self._limits.recent_s and not entry.followed:
            del self._entries[key]

    def _found(self, entry: TrackedFile, heard: ReadResult) -> FileUpdate:
        return FileUpdate(
            adapter_id=self.adapter_id,
            source_id=self.source.source_id,
            path=entry.place.shown,
            session=entry.session,
            facts=heard.facts,
            grown=heard.grown,
            skipped=heard.skipped,
            unreadable_run=entry.hearing.run,
            history=heard.history,
            problem=entry.problem.problem if entry.problem else None,
            evidence=entry.problem.evidence if entry.problem else entry.hearing.evidence,
        )

    def _faults_of_roots(self) -> Iterator[FileUpdate]:
        for tree in self._trees:
            if tree.fault is not None:
                yield FileUpdate(
                    adapter_id=self.adapter_id,
                    source_id=self.source.source_id,
                    path=tree.shown,
                    session=None,
                    problem=tree.fault.problem,
                    evidence=tree.fault.evidence,
                )

    def _grant(self, wish: FollowRequest) -> None:
        if wish.path is None:
            for each in self._entries.values():
                each.ending = each.ending or each.session == wish.session
            return
        place = self._place_of(wish.path)
        entry = self._entries.get(place.path) or self._add(DiscoveredFile(place, self._history_of(place)))
        if entry is not None:
            entry.followed = True
            entry.session = None if self.source.form == "database" else wish.session
            entry.revive()

    def _place_of(self, path: str) -> FilePlace:
        """Return where a file is that a hook named; outside the roots, the links above it are resolved once."""
        folder, _, name = path.rpartition("/")
        real = os.path.realpath(folder)
        for candidate in dict.fromkeys((path, f"{real}/{name}")):
            for tree in self._trees:
                if (place := tree.place_of(candidate)) is not None:
                    return place
        return FilePlace(real, name, path)

    def _history_of(self, place: FilePlace) -> int | None:
        known = (tree.history_of(place) for tree in self._trees)
        return next((history for history in known if history is not None), None)

    def _find(self, now: float, late: Callable[[], bool]) -> None:
        """Watch files that changed lately, the one that changed last as the newest."""
        lately: list[tuple[float, DiscoveredFile]] = []
        for tree in self._trees:
            for sighting in tree.look(now, late, self._is_watched):
                changed_at = max(sighting.changed_at, self._log_changed_at(sighting.place))
                if changed_at >= now - self._limits.recent_s:
                    lately.append((changed_at, sighting))
        for changed_at, sighting in sorted(lately, key=lambda each: each[0]):
            resting = self._entries.get(sighting.place.path)
            if resting is None:
                self._add(sighting, changed_at)
            elif resting.grew_at is not None and changed_at > resting.grew_at:
                resting.revive()

    def _log_changed_at(self, place: FilePlace) -> float:
        """Return when a database's log changed, which the database itself does not show."""
        if self.source.form != "database":
            return 0.0
        try:
            return os.lstat(f"{place.path}-wal").st_mtime
        except OSError:
            return 0.0

    def _is_watched(self, path: str) -> bool:
        entry = self._entries.get(path)
        return entry is not None and not entry.resting

    def _add(self, sighting: DiscoveredFile, changed_at: float | None = None) -> TrackedFile | None:
        """Watch one more file, in the place of an older one if need be; None where all others are newer."""
        if len(self._entries) >= self._limits.max_files and not self._make_room(changed_at):
            return None
        place = sighting.place
        session = None if self.source.form == "database" else self.source.session_of(place.shown)
        entry = self._entries[place.path] = TrackedFile(place, self._following(sighting), session, self._uid)
        return entry

    def _make_room(self, changed_at: float | None) -> bool:
        """Forget the file at rest, or the unfollowed one, that changed least recently; for a hook's file any."""
        for key, entry in self._entries.items():
            older = changed_at is None or (entry.grew_at or 0.0) < changed_at
            if entry.resting or (older and (changed_at is None or not entry.followed)):
                del self._entries[key]
                return True
        return False

    def _following(self, sighting: DiscoveredFile) -> IncrementalReader:
        hearing, form = Decoder(self._defects), self.source.form
        make = partial(self.source.make_reader, sighting.place.shown, self._surroundings)
        if form == "database":
            make_reader = cast("Callable[[], DatabaseReader]", make)
            return DatabaseTail(hearing, make_reader, uid=self._uid, history=sighting.history != 0)
        return FileTail(
            hearing,
            cast("Callable[[], RecordReader]", make),
            partial(framer_for, form, self._limits.record_bytes),
            self._limits,
            uid=self._uid,
            history=sighting.history,
        )
