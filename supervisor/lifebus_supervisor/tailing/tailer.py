"""The watcher of all harnesses' telemetry: polled by the tick, told by hooks which files matter, never held up.

Each source is read in one thread call a poll, beside the others, with a deadline: a file system that hangs costs its
own source, and nothing else.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

import anyio
import structlog

from lifebus_adapters.shared.telemetry import SourceSpec, Surroundings
from lifebus_supervisor.tailing.blocking_call import BlockingCall
from lifebus_supervisor.tailing.events import FileUpdate, TailedFile, TailLimits
from lifebus_supervisor.tailing.notify import folder_changes
from lifebus_supervisor.tailing.source import FollowRequest, SourceFiles
from lifebus_supervisor.tailing.tracked_file import TrackedFile

_LONGEST_PATH: Final = 4096
_LOG: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lifebus.watching")


class _TailedSource:
    """One source: its files, the thread that reads them, and what the loop knows of them meanwhile."""

    def __init__(self, files: SourceFiles) -> None:
        self.files = files
        self.aside: BlockingCall[list[FileUpdate]] = BlockingCall(f"watch {files.adapter_id} {files.source.source_id}")
        self.wishes: dict[FollowRequest, None] = {}
        self.entries: Sequence[TrackedFile] = ()
        self.folders: Sequence[str] = ()
        self.hangs = False

    def problem_of(self, entry: TrackedFile) -> str | None:
        """Return what is wrong with a file, as far as is known."""
        if self.hangs:
            return "hung"
        return entry.problem.problem if entry.problem else None

    async def poll(self, now: float, within_s: float) -> Sequence[FileUpdate]:
        """Read what is new, or say of every file that its file system hangs."""
        if self.hangs and not self.aside.is_done:
            return self._all_hung()
        if not self.aside.is_busy:
            wishes, self.wishes = tuple(self.wishes), {}
            self.aside.start(partial(self.files.poll, wishes, now))
        self.hangs = not await self.aside.wait(within_s)
        if self.hangs:
            return self._all_hung()
        return self._taken()

    def _taken(self) -> Sequence[FileUpdate]:
        found: Sequence[FileUpdate] = ()
        try:
            found = self.aside.take()
        except Exception as fault:  # noqa: BLE001  one source's defect must not end the watching of the others
            its = {"adapter_id": self.files.adapter_id, "source_id": self.files.source.source_id}
            _LOG.error("watching_failed", fault=type(fault).__name__, **its)  # without its locals
        self.entries, self.folders = self.files.entries(), self.files.folders()
        return found

    def _all_hung(self) -> list[FileUpdate]:
        where = [(entry.place.shown, entry.session) for entry in self.entries]
        source = self.files.source
        return [
            FileUpdate(
                adapter_id=self.files.adapter_id,
                source_id=source.source_id,
                path=path,
                session=session,
                problem="hung",
                evidence="reading has not ended in time",
            )
            for path, session in where or [("", None)]
        ]


class Tailer:
    """Watches the telemetry of harnesses.  `sources` are each adapter's, by its id.

    `uid` is the user whose files are read.  `now` is the time in seconds since the epoch: it is compared with the time
    stamps of files.  Without `discover` only files are watched that hooks have named.
    """

    def __init__(
        self,
        sources: Mapping[str, Sequence[SourceSpec]],
        surroundings: Surroundings,
        *,
        limits: TailLimits = TailLimits(),  # noqa: B008  it cannot change
        uid: int,
        now: Callable[[], float],
        discover: bool = True,
    ) -> None:
        self._limits, self._now = limits, now
        self._sources = [
            _TailedSource(SourceFiles(adapter_id, source, surroundings, limits, uid=uid, discover=discover))
            for adapter_id, its in sources.items()
            for source in its
        ]
        self._polling = anyio.Lock()

    def follow(self, adapter_id: str, session: str, path: str) -> bool:
        """Watch a file that a hook named, from the next poll on; False where no source of the adapter has such files.

        Nothing is looked at yet: the file may appear later.
        """
        if not _is_plain_path(path):
            return False
        for watched in self._sources:
            if watched.files.adapter_id == adapter_id and watched.files.source.is_ours(path):
                self._wish(watched, FollowRequest(session=session, path=path))
                return True
        return False

    def forget(self, adapter_id: str, session: str) -> None:
        """Stop watching a session's files once they were read to their end one more time."""
        for watched in self._sources:
            if watched.files.adapter_id == adapter_id:
                self._wish(watched, FollowRequest(session=session))

    def _wish(self, watched: _TailedSource, wish: FollowRequest) -> None:
        """Note a wish for the next poll, the newest last; the oldest are dropped where a source hangs for long."""
        watched.wishes.pop(wish, None)
        watched.wishes[wish] = None
        if len(watched.wishes) > self._limits.max_files:
            del watched.wishes[next(iter(watched.wishes))]

    async def poll(self) -> Sequence[FileUpdate]:
        """Return every file with news, and every file with a problem that stands, each time.

        Takes at most the deadline of one poll; a source that does not answer is ``hung`` until it does, and is left
        alone until then.
        """
        found: list[FileUpdate] = []

        async def poll_one(watched: _TailedSource) -> None:
            found.extend(await watched.poll(self._now(), self._limits.read_s))

        async with self._polling, anyio.create_task_group() as tasks:
            for watched in self._sources:
                tasks.start_soon(poll_one, watched)
        return found

    def files(self) -> Sequence[TailedFile]:
        """Return the watched files as the last poll left them."""
        return [self._file(watched, entry) for watched in self._sources for entry in watched.entries]

    def _file(self, watched: _TailedSource, entry: TrackedFile) -> TailedFile:
        return TailedFile(
            adapter_id=watched.files.adapter_id,
            source_id=watched.files.source.source_id,
            path=entry.place.shown,
            session=entry.session,
            size=entry.size,
            age_s=None if entry.grew_at is None else max(0, int(self._now() - entry.grew_at)),
            records=entry.hearing.records,
            skipped=entry.hearing.skipped,
            problem=watched.problem_of(entry),
        )

    async def changes(self) -> AsyncGenerator[None, None]:
        """Wake up whenever something happens in the watched folders, at most every 200 ms.

        It is a hint: it may come for nothing or not at all, and ends where watching is impossible.  The poll is the
        truth.
        """
        async with aclosing(
            folder_changes(lambda: [folder for watched in self._sources for folder in watched.folders])
        ) as its:
            async for _ in its:
                yield


def _is_plain_path(path: str) -> bool:
    """Whether a path is absolute and without detours."""
    parts = path.split("/")
    return (
        path.startswith("/")
        and len(path) <= _LONGEST_PATH
        and path.isprintable()
        and not {"", ".", ".."} & set(parts[1:])
    )
