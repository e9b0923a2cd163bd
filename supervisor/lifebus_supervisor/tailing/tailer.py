"""The telemetry of all harnesses: polled by the tick, with the files that hooks name, never held up.

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
_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lifebus.tailing")


class _TailedSource:
    """One source: its files, the thread that reads them, and what the loop knows of them meanwhile."""

    def __init__(self, files: SourceFiles) -> None:
        self.files = files
        self.call: BlockingCall[list[FileUpdate]] = BlockingCall(f"tail {files.adapter_id} {files.source.source_id}")
        self.requests: dict[FollowRequest, None] = {}
        self.tracked: Sequence[TrackedFile] = ()
        self.folders: Sequence[str] = ()
        self.hangs = False
        # Whether the call that is under way reads one session's files alone.
        self._is_partial = False
        # What was read and is not handed on yet.
        self._kept: list[FileUpdate] = []

    def problem_of(self, file: TrackedFile) -> str | None:
        """Return what is wrong with a file, as far as is known."""
        if self.hangs:
            return "hung"
        return file.problem.problem if file.problem else None

    async def poll(self, now: float, within_s: float) -> Sequence[FileUpdate]:
        """Read what is new, or report of every file that its file system hangs."""
        # One thread a source: while a read hangs, another one would hang beside it.
        if self.hangs and not self.call.is_done:
            return self._all_hung()
        if self._is_partial and self.call.is_busy:
            self.hangs = not await self.call.wait(within_s)
            if self.hangs:
                return self._all_hung()
            # Kept, and not in a local: a poll may be cancelled while it waits.
            self._kept += self._finish()
        if not self.call.is_busy:
            requests, self.requests = tuple(self.requests), {}
            self._is_partial = False
            self.call.start(partial(self.files.poll, requests, now))
        self.hangs = not await self.call.wait(within_s)
        if self.hangs:
            return self._all_hung()
        return self.fetch()

    def start_session(self, session: str, now: float, within_s: float) -> None:
        """Begin to read what is new of one session, where no other call is under way."""
        if not self.call.is_busy:
            requests, self.requests = tuple(self.requests), {}
            self._is_partial = True
            self.call.start(partial(self.files.poll_session, session, requests, now, within_s))

    def fetch(self) -> list[FileUpdate]:
        """Return what was read, once."""
        updates = [*self._kept, *(self._finish() if self.call.is_done else ())]
        self._kept = []
        return updates

    def _finish(self) -> Sequence[FileUpdate]:
        updates: Sequence[FileUpdate] = ()
        try:
            updates = self.call.result()
        except Exception as fault:  # noqa: BLE001  one source's defect must not stop the others
            its = {"adapter_id": self.files.adapter_id, "source_id": self.files.source.source_id}
            _log.error("source_failed", fault=type(fault).__name__, **its)  # without its locals
        # Copied while no thread runs: the loop never reads what the thread may be changing.
        self.tracked, self.folders = self.files.files(), self.files.folders()
        return updates

    def _all_hung(self) -> list[FileUpdate]:
        where = [(file.place.shown, file.session) for file in self.tracked]
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
    """Tails the telemetry of harnesses.  `sources` are each adapter's, by its id.

    `uid` is the user whose files are read.  `now` is the time in seconds since the epoch: it is compared with the time
    stamps of files.  Without `discover` only files are tailed that hooks have named.
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
        """Tail a file that a hook named, from the next poll on; False where no source of the adapter has such files.

        The file need not be there yet.
        """
        if not _is_plain_path(path):
            return False
        for source in self._sources:
            if source.files.adapter_id == adapter_id and source.files.source.is_ours(path):
                self._request(source, FollowRequest(session=session, path=path))
                return True
        return False

    def forget(self, adapter_id: str, session: str) -> None:
        """Stop to tail a session's files once they were read to their end one more time."""
        for source in self._sources:
            if source.files.adapter_id == adapter_id:
                self._request(source, FollowRequest(session=session))

    def _request(self, source: _TailedSource, request: FollowRequest) -> None:
        """Keep a request for the next poll, the newest last; the oldest are dropped where a source hangs for long."""
        source.requests.pop(request, None)  # and added again: the order in which requests are applied counts
        source.requests[request] = None
        if len(source.requests) > self._limits.max_files:
            del source.requests[next(iter(source.requests))]

    async def poll(self) -> Sequence[FileUpdate]:
        """Return what is new in each file, and every problem that stands, each time.

        Takes at most the deadline of one poll; a source that does not answer is ``hung`` until it does, and is left
        alone until then.
        """
        updates: list[FileUpdate] = []

        async def poll_one(source: _TailedSource) -> None:
            updates.extend(await source.poll(self._now(), self._limits.read_s))

        # One poll at a time: a source's call has room for one result.
        async with self._polling, anyio.create_task_group() as tasks:
            for source in self._sources:
                tasks.start_soon(poll_one, source)
        return updates

    async def poll_session(self, adapter_id: str, session: str, within_s: float) -> Sequence[FileUpdate]:
        """Return what is new in the files of one session, in the order in which all polls read them.

        What does not answer within `within_s` seconds is left to the next poll, and nothing of it is lost.  A database
        has its other sessions' news too.
        """
        until = anyio.current_time() + within_s
        with anyio.move_on_after(within_s) as waiting:
            await self._polling.acquire()
        if waiting.cancelled_caught:
            return ()
        try:
            its = [one for one in self._sources if one.files.adapter_id == adapter_id and not one.hangs]
            for source in its:
                source.start_session(session, self._now(), within_s)
            for source in its:
                await source.call.wait(until - anyio.current_time())
            # Fetched together when nothing can interrupt any more: a hook's call may be cancelled.
            return [update for source in its for update in source.fetch()]
        finally:
            self._polling.release()

    def files(self) -> Sequence[TailedFile]:
        """Return the tailed files as the last poll left them."""
        return [self._file(source, file) for source in self._sources for file in source.tracked]

    def _file(self, source: _TailedSource, file: TrackedFile) -> TailedFile:
        return TailedFile(
            adapter_id=source.files.adapter_id,
            source_id=source.files.source.source_id,
            path=file.place.shown,
            session=file.session,
            size=file.size,
            age_s=None if file.grew_at is None else max(0, int(self._now() - file.grew_at)),
            records=file.decoder.records,
            skipped=file.decoder.skipped,
            problem=source.problem_of(file),
        )

    async def changes(self) -> AsyncGenerator[None, None]:
        """Yield whenever something happens in the folders of tailed files, at most every 200 ms.

        It is a hint: it may come for nothing or not at all, and ends where the system cannot notify.  Only polls read.
        """
        async with aclosing(
            folder_changes(lambda: [folder for source in self._sources for folder in source.folders])
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
