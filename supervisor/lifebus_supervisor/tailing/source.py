"""All tailed files of one source: discovery, checks, and reads of what is new.  Blocks; one thread at a time."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, cast

from msgspec import Struct

from lifebus_adapters.shared.telemetry import DatabaseReader, RecordReader, SourceSpec, Surroundings
from lifebus_supervisor.tailing.decode import Decoder, DefectLog, ReadResult
from lifebus_supervisor.tailing.discovery import DiscoveredFile, SourceRoot
from lifebus_supervisor.tailing.events import FileUpdate, TailLimits
from lifebus_supervisor.tailing.framing import framer_for
from lifebus_supervisor.tailing.safe_open import FilePlace
from lifebus_supervisor.tailing.tail import FileTail
from lifebus_supervisor.tailing.tracked_file import IncrementalReader, TrackedFile

_DISCOVERY_SHARE: Final = 0.2
_READ_SHARE: Final = 0.5
"""Which part of a poll's deadline may pass before it stops to discover files, and before it stops to read."""


class FollowRequest(Struct, frozen=True, kw_only=True):
    """A request to follow the file at `path` for a session or, without a path, to let the session's files go."""

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
        self._roots = [SourceRoot(root.rstrip("/") or "/", source.pattern) for root in source.roots(surroundings)]
        self._defects = DefectLog(adapter_id, source.source_id)
        self._files: dict[str, TrackedFile] = {}

    def files(self) -> list[TrackedFile]:
        """Return the files that are tailed, the one that changed most recently last."""
        return [file for file in self._files.values() if not file.resting]

    def folders(self) -> list[str]:
        """Return the folders where something may happen, those of the newest files first."""
        tailed = [file.path.rpartition("/")[0] for file in reversed(self.files())]
        listed = [path for root in self._roots for path in root.folders()] if self._discover else []
        return list(dict.fromkeys([*tailed, *listed]))

    def poll_session(
        self, session: str, requests: Sequence[FollowRequest], now: float, within_s: float
    ) -> list[FileUpdate]:
        """Apply requests, and read what is new in the files of one session, and in those of many sessions."""
        until = time.monotonic() + within_s
        for request in requests:
            self._apply(request)
        return self._read(lambda file: file.session in {None, session}, now, lambda: time.monotonic() > until)

    def poll(self, requests: Sequence[FollowRequest], now: float) -> list[FileUpdate]:
        """Apply requests, discover files, read what is new, and return all updates and every problem that stands.

        What does not fit into the time of one poll is left to the next.
        """
        start, within = time.monotonic(), self._limits.read_s
        for request in requests:
            self._apply(request)
        if self._discover:
            self._discover_files(now, lambda: time.monotonic() - start > within * _DISCOVERY_SHARE)
        problems = list(self._root_problems())
        return problems + self._read(lambda _: True, now, lambda: time.monotonic() - start > within * _READ_SHARE)

    def _read(
        self, is_wanted: Callable[[TrackedFile], bool], now: float, expired: Callable[[], bool]
    ) -> list[FileUpdate]:
        """Read what is new in some of the files."""
        updates: list[FileUpdate] = []
        # The one that grew last comes last: a file that grows all the time cannot keep the others from being read.
        for key, file in list(self._files.items()):
            if file.resting or not is_wanted(file):
                continue
            if results := file.poll(now, expired, self._defects):
                updates += [self._update_of(file, result) for result in results]
                self._reorder(key, file, results, now)
        return updates

    def _reorder(self, key: str, file: TrackedFile, results: Sequence[ReadResult], now: float) -> None:
        """Put a file that grew last, and forget one that has been away for long and that no hook waits for."""
        if any(result.grown for result in results):
            self._files[key] = self._files.pop(key)
        absent_s = 0 if file.missing_since is None else now - file.missing_since
        if absent_s > self._limits.recent_s and not file.followed:
            del self._files[key]

    def _update_of(self, file: TrackedFile, result: ReadResult) -> FileUpdate:
        return FileUpdate(
            adapter_id=self.adapter_id,
            source_id=self.source.source_id,
            path=file.place.shown,
            session=file.session,
            facts=result.facts,
            grown=result.grown,
            skipped=result.skipped,
            unreadable_run=file.decoder.unreadable_run,
            history=result.history,
            problem=file.problem.problem if file.problem else None,
            evidence=file.problem.evidence if file.problem else file.decoder.evidence,
        )

    def _root_problems(self) -> Iterator[FileUpdate]:
        for root in self._roots:
            if root.fault is not None:
                yield FileUpdate(
                    adapter_id=self.adapter_id,
                    source_id=self.source.source_id,
                    path=root.shown,
                    session=None,
                    problem=root.fault.problem,
                    evidence=root.fault.evidence,
                )

    def _apply(self, request: FollowRequest) -> None:
        if request.path is None:
            for each in self._files.values():
                each.ending = each.ending or each.session == request.session
            return
        # By its real path: a hook may name a file that discovery has found under another name.
        place = self._place_of(request.path)
        file = self._files.get(place.path) or self._add(DiscoveredFile(place, self._history_of(place)))
        if file is not None:
            file.followed = True
            # A database holds many sessions; each row names its own.
            file.session = None if self.source.form == "database" else request.session
            file.resume()

    def _place_of(self, path: str) -> FilePlace:
        """Return where a file is that a hook named; outside the roots, the links above it are resolved once."""
        folder, _, name = path.rpartition("/")
        real = os.path.realpath(folder)
        for candidate in dict.fromkeys((path, f"{real}/{name}")):
            for root in self._roots:
                if (place := root.place_of(candidate)) is not None:
                    return place
        return FilePlace(real, name, path)

    def _history_of(self, place: FilePlace) -> int | None:
        known = (root.history_of(place) for root in self._roots)
        return next((history for history in known if history is not None), None)

    def _discover_files(self, now: float, expired: Callable[[], bool]) -> None:
        """Tail files that changed lately, the one that changed last as the newest."""
        lately: list[tuple[float, DiscoveredFile]] = []
        for root in self._roots:
            for sighting in root.discover(now, expired, self._is_tailed):
                changed_at = max(sighting.changed_at, self._log_changed_at(sighting.place))
                # Both are wall-clock times: after a jump of the clock a file may seem old until it grows again.
                if changed_at >= now - self._limits.recent_s:
                    lately.append((changed_at, sighting))
        for changed_at, sighting in sorted(lately, key=lambda each: each[0]):
            resting = self._files.get(sighting.place.path)
            if resting is None:
                self._add(sighting, changed_at)
            # A session that was resumed without a hook: its file rests with its offset, so nothing is read twice.
            elif resting.grew_at is not None and changed_at > resting.grew_at:
                resting.resume()

    def _log_changed_at(self, place: FilePlace) -> float:
        """Return when a database's log changed, which the database itself does not show."""
        if self.source.form != "database":
            return 0.0
        try:
            return os.lstat(f"{place.path}-wal").st_mtime
        except OSError:
            return 0.0

    def _is_tailed(self, path: str) -> bool:
        file = self._files.get(path)
        return file is not None and not file.resting

    def _add(self, sighting: DiscoveredFile, changed_at: float | None = None) -> TrackedFile | None:
        """Tail one more file, in the place of an older one if need be; None where all others are newer."""
        if len(self._files) >= self._limits.max_files and not self._make_room(changed_at):
            return None
        place = sighting.place
        session = None if self.source.form == "database" else self.source.session_of(place.shown)
        file = self._files[place.path] = TrackedFile(place, self._reader_for(sighting), session, self._uid)
        return file

    def _make_room(self, changed_at: float | None) -> bool:
        """Forget the file at rest, or the unfollowed one, that changed least recently; for a hook's file any."""
        for key, file in self._files.items():
            older = changed_at is None or (file.grew_at or 0.0) < changed_at
            if file.resting or (older and (changed_at is None or not file.followed)):
                del self._files[key]
                return True
        return False

    def _reader_for(self, sighting: DiscoveredFile) -> IncrementalReader:
        decoder, form = Decoder(self._defects), self.source.form
        make = partial(self.source.make_reader, sighting.place.shown, self._surroundings)
        if form == "database":
            from lifebus_supervisor.tailing.database import DatabaseTail  # noqa: PLC0415  a second SQLite, for OpenCode

            make_reader = cast("Callable[[], DatabaseReader]", make)
            return DatabaseTail(decoder, make_reader, uid=self._uid, history=sighting.history != 0)
        return FileTail(
            decoder,
            cast("Callable[[], RecordReader]", make),
            partial(framer_for, form, self._limits.record_bytes),
            self._limits,
            uid=self._uid,
            history=sighting.history,
        )
