"""One tailed file over its life: there or missing, read or refused, followed for a session, at rest after its end."""

import os
from collections.abc import Callable
from typing import Final, Protocol

from lifebus_supervisor.tailing.decode import Decoder, DefectLog, ReadResult
from lifebus_supervisor.tailing.safe_open import FilePlace, UnusableFile, check_status, unusable_for


class IncrementalReader(Protocol):
    """How a file is read: `FileTail` or `DatabaseTail`.  `is_behind` says that one poll could not take everything."""

    @property
    def decoder(self) -> Decoder:
        """What its reader made of the records."""
        ...

    @property
    def size(self) -> int:
        """Its size in bytes at the last reading."""
        ...

    @property
    def changed_at(self) -> float:
        """When it was changed last, as of the last reading, in seconds since the epoch."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read than one poll takes."""
        ...

    def is_news(self, place: FilePlace, status: os.stat_result, now: float) -> bool:
        """Whether to open the file."""
        ...

    def mark_absent(self) -> None:
        """Note that there is no such file now."""
        ...

    def read(self, place: FilePlace, now: float, expired: Callable[[], bool]) -> list[ReadResult]:
        """Read what is new; history and what came since stand apart.

        Raises:
            UnusableFile: the file cannot be read now.
        """
        ...


class TrackedFile:
    """A file that is tailed, or at rest.

    A file that is `followed` was named by a hook.  One that is `ending` is read to its end once more, and then rests:
    it keeps its place, so that a session that is resumed is read on and not again.
    """

    def __init__(self, place: FilePlace, reader: IncrementalReader, session: str | None, uid: int) -> None:
        self.place = place
        self.path = place.path
        self.session = session
        self.followed = False
        self.ending = False
        self.resting = False
        self.grew_at: float | None = None
        self.problem: UnusableFile | None = None
        self.missing_since: float | None = None
        self._reader = reader
        self._uid = uid

    @property
    def size(self) -> int:
        """The size in bytes at the last reading."""
        return self._reader.size

    @property
    def decoder(self) -> Decoder:
        """What the reader made of the records."""
        return self._reader.decoder

    def resume(self) -> None:
        """Follow the file again, also if its session had ended."""
        self.ending = self.resting = False

    def poll(self, now: float, expired: Callable[[], bool], defects: DefectLog) -> list[ReadResult]:
        """Read what is new; return what that brought, nothing where there is nothing to report.

        The problem, if there is one now, stands in `problem`.  That it stands, or has gone, is reported too.
        """
        stood, self.problem = self.problem, None
        results: list[ReadResult] = []
        is_first = False
        try:
            # The status first: a file that is gone or refused is reported also where the time is over.
            if self._is_news(now) and not expired():
                results = self._reader.read(self.place, now, expired)
                is_first = self.grew_at is None
                if is_first or any(one.grown for one in results):
                    self.grew_at = self._reader.changed_at
        except UnusableFile as fault:
            self.problem = fault
        except Exception as fault:  # noqa: BLE001  a defect of a reader must not stop other files
            defects.log(fault)
            self.problem = UnusableFile("unreadable", f"defect of the reader: {type(fault).__name__}")
        self._check_absence(now)
        # A file whose last records are still unread stays, or the end of its session would be missing.
        if self.ending and (self.problem is not None or not self._reader.is_behind):
            self.resting = True
        return results or ([_NOTHING] if self.problem or stood or is_first else [])

    def _is_news(self, now: float) -> bool:
        try:
            status = os.lstat(self.path)
        except OSError as fault:
            raise unusable_for(fault) from fault
        check_status(status, self._uid)
        return self._reader.is_news(self.place, status, now)

    def _check_absence(self, now: float) -> None:
        if self.problem is None or self.problem.problem != "missing":
            self.missing_since = None
        elif self.missing_since is None:
            self.missing_since = now
            self._reader.mark_absent()


_NOTHING: Final = ReadResult()
