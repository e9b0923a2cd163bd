"""Answers that people write into files beside the questions.

A reply counts once: what it says is durable in the inbox before the file goes, and a reply that is read again after a
crash is the same answer, with the time of its file.
"""

import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
import msgspec
import structlog
from msgspec import Meta, Struct

from lifebus_broker.atomic_files import write_file
from lifebus_contract import LifebusError
from lifebus_contract.failure import FailureClass
from lifebus_contract.questions import AnswerAction, QuestionAnswer
from lifebus_supervisor.runtime.inbox.channels.own_files import OPENING, read_own
from lifebus_supervisor.runtime.inbox.channels.question_files import PROBLEM, REPLY, file_name
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from lifebus_supervisor.tailing.notify import folder_changes
from lifebus_transports.runtime_dir import ensure_private_directory

MAX_REPLY_BYTES: Final = 65_536
"""Largest reply."""

_POLL_S: Final = 15.0
_SETTLE_S: Final = 0.3
"""A file that is being written changes; one that was the same for so long is read."""

_MEANT: Final = frozenset({FailureClass.INVALID_REQUEST, FailureClass.STATE_CONFLICT, FailureClass.PAYLOAD_TOO_LARGE})
"""What is wrong with a reply itself; everything else may be better at the next look."""

_log = structlog.get_logger("lifebus.inbox")


class Reply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a reply says."""

    action: AnswerAction
    message: Annotated[str, Meta(max_length=8_192)] = ""
    modifications: dict[str, Any] = {}


class ReplyFile(Struct, frozen=True):
    """A reply as it is on the disk: `stamp` tells one state of the file from another, `fault` why it does not count."""

    name: str
    stamp: tuple[int, int, int]
    modified_ms: int
    owner: int
    text: str
    fault: str | None = None


class ReplyReader:
    """Reads the replies in a folder; `channel` is the name of the channel that writes the questions there."""

    def __init__(
        self,
        folder: Path,
        channel: str,
        inbox: Inbox,
        changes: Callable[[Callable[[], list[str]]], Any] = folder_changes,
    ) -> None:
        self._folder, self._channel, self._inbox, self._changes = folder, channel, inbox, changes
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._done: dict[str, tuple[int, int, int]] = {}
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Take replies as they come, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            while True:
                self._changed = anyio.Event()
                unsettled = await self.look()
                # Also without a change: not every file system announces those of others.
                with anyio.move_on_after(_SETTLE_S if unsettled else _POLL_S):
                    await self._changed.wait()
                    await anyio.sleep(_SETTLE_S)

    async def look(self) -> bool:
        """Read the folder once; return whether a file has to be looked at again because it may still be written."""
        try:
            found = await anyio.to_thread.run_sync(read_replies, self._folder)
        except (LifebusError, OSError) as fault:
            _log.warning("replies_unreadable", folder=str(self._folder), fault=str(fault))
            return False
        unsettled = False
        for reply in found:
            if self._done.get(reply.name) == reply.stamp:
                continue
            if self._seen.get(reply.name) != reply.stamp or not (reply.text.strip() or reply.fault):
                unsettled = unsettled or self._seen.get(reply.name) != reply.stamp
                self._seen[reply.name] = reply.stamp
                continue
            await self._take(reply)
        names = {reply.name for reply in found}
        for known in (self._seen, self._done):
            for name in known.keys() - names:
                del known[name]
        return unsettled

    async def _watch(self) -> None:
        async for _ in self._changes(lambda: [str(self._folder)]):
            self._changed.set()

    async def _take(self, reply: ReplyFile) -> None:
        """Answer the question that a reply is for, or say why it does not count."""
        try:
            question_id = self._question_of(reply.name)
            if reply.fault is not None or question_id is None:
                await self._refuse(reply, reply.fault or "there is no question of this name")
                return
            await self._inbox.answer(question_id, read_answer(reply, self._channel))
        except (ValueError, LifebusError) as fault:
            if isinstance(fault, LifebusError) and fault.failure_class not in _MEANT:
                _log.warning("reply_not_taken", name=reply.name, detail=fault.detail)
                return
            await self._refuse(reply, fault.detail if isinstance(fault, LifebusError) else str(fault))
            return
        _log.info("reply_taken", name=reply.name, question_id=question_id)
        await anyio.to_thread.run_sync(_remove, self._folder, reply)

    def _question_of(self, name: str) -> str | None:
        ids = (state.question.question_id for state in self._inbox.states())
        return next((one for one in ids if file_name(one) == name), None)

    async def _refuse(self, reply: ReplyFile, why: str) -> None:
        self._done[reply.name] = reply.stamp
        _log.warning("reply_refused", name=reply.name, why=why)
        await anyio.to_thread.run_sync(_explain, self._folder, reply.name, why)


def read_replies(folder: Path) -> list[ReplyFile]:
    """Return every reply in a folder; blocks.

    Raises:
        LifebusError: the folder is not ours alone.
        OSError: it cannot be read.
    """
    ensure_private_directory(folder)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(REPLY))  # noqa: PTH208  by descriptor
        found = [_read(folder, directory, name) for name in names]
    finally:
        os.close(directory)
    return [reply for reply in found if reply is not None]


def read_answer(reply: ReplyFile, channel: str) -> QuestionAnswer:
    """Return the answer that a reply holds.

    Raises:
        ValueError: it holds none; the text says why.
    """
    said = _parse(reply.text)
    try:
        owner = pwd.getpwuid(reply.owner).pw_name
    except KeyError:
        owner = str(reply.owner)
    return QuestionAnswer(
        action=said.action,
        responder=owner,
        message=said.message,
        modifications=said.modifications,
        responded_at_ms=reply.modified_ms,
        channel=channel,
    )


def _parse(text: str) -> Reply:
    """Read JSON, or an action on the first line and a message below it."""
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text.encode(), type=Reply)
        except (msgspec.MsgspecError, RecursionError) as fault:
            raise ValueError(f"the reply is no JSON that can be used: {fault}") from None
    first, _, rest = text.strip().partition("\n")
    word = first.strip().lower()
    if word not in set(AnswerAction):
        known = ", ".join(one.value for one in AnswerAction)
        raise ValueError(f"the first line is {first[:64]!r}; it has to be one of {known}")
    try:
        return msgspec.convert({"action": word, "message": rest.strip()}, Reply)
    except msgspec.ValidationError as fault:
        raise ValueError(str(fault)) from None


def _read(folder: Path, directory: int, name: str) -> ReplyFile | None:
    """Read one reply by the directory that was judged, whatever happens to its name meanwhile."""
    stem = name.removesuffix(REPLY)
    try:
        descriptor = os.open(name, OPENING | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as fault:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        why = "it is a symbolic link" if stat.S_ISLNK(found.st_mode) else fault.strerror
        return _reply(stem, found, "", f"the reply is not read: {why}")
    try:
        _, text = read_own(folder / name, descriptor, MAX_REPLY_BYTES)
        # Looked at behind the text: what somebody wrote while it was read is another state, and may be half of it.
        found = os.fstat(descriptor)
    except ValueError as fault:
        return _reply(stem, os.fstat(descriptor), "", f"the reply is not read: {fault}")
    finally:
        os.close(descriptor)
    if found.st_nlink > 1:
        return _reply(stem, found, "", "the reply is not read: it has several names")
    return _reply(stem, found, text)


def _reply(name: str, found: os.stat_result, text: str, fault: str | None = None) -> ReplyFile:
    stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
    return ReplyFile(name, stamp, max(0, found.st_mtime_ns // 1_000_000), found.st_uid, text, fault)


def _remove(folder: Path, reply: ReplyFile) -> None:
    """Remove a reply that was taken, unless it has become another one."""
    path = folder / f"{reply.name}{REPLY}"
    try:
        found = path.lstat()
        if (found.st_ino, found.st_mtime_ns, found.st_size) == reply.stamp:
            path.unlink()
        (folder / f"{reply.name}{PROBLEM}").unlink(missing_ok=True)
    except OSError as fault:
        _log.warning("reply_left", name=reply.name, fault=fault.strerror)


def _explain(folder: Path, name: str, why: str) -> None:
    try:
        write_file(folder / f"{name}{PROBLEM}", f"{why}\n".encode())
    except (LifebusError, OSError) as fault:
        _log.warning("problem_not_written", name=name, fault=str(fault))
