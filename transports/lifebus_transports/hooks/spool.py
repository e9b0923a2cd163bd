"""The spool: hook calls that found no broker, read back in order once there is one (docs/hooks.md, "A call").

Hooks append to `calls` under a lock; the broker claims that file by renaming it to `calls.claimed`, hands its calls on,
and removes it only after all of them were taken: a crash in between repeats calls, and their `call_id` makes that
harmless.  What hooks of an adapter had to drop is the size of the file `dropped.<adapter>`; it is claimed in the same
way, and handed on as a call of lifebus's own (`hook_calls_lost`), which becomes a `receipt.gap_detected`.
"""

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import anyio.to_thread
import structlog
from msgspec import Struct, structs

from lifebus_adapters.adapter import CallerProcess, HookCall
from lifebus_adapters.shared.own_hooks import HOOK_CALLS_LOST
from lifebus_contract import InvalidRequest, LifebusError, RetryClass
from lifebus_transports.framing.hook_frames import MAX_HEADER_BYTES, CallMessage, parse_header
from lifebus_transports.hooks.server import HandleCall
from lifebus_transports.runtime_dir import open_private_directory

LateCallerOf = Callable[[int, int], CallerProcess | None]
"""Turns the process id that a spooled call claims, and when it was spooled, into the harness's process."""

# Bytes that hooks put into a spool at most
_MAX_SPOOL_BYTES: Final = 16 * 1_048_576

_CALLS: Final = "calls"
_CLAIMED: Final = "calls.claimed"
_DROPPED: Final = "dropped"
_LOST: Final = re.compile(r"dropped\.[\w-]{1,128}", re.ASCII)
_LOST_CLAIMED: Final = re.compile(r"claimed\.([\w-]{1,128})", re.ASCII)
_START: Final = b'{"v":1,"call_id":"'
_MAX_MALFORMED: Final = 1_000
_WRITER_S: Final = 1.0
_log: Final = structlog.get_logger("lifebus.spool")


class SpoolCounters(Struct, kw_only=True):
    """What a drain found.

    `drained` calls were handled, `refused` ones cannot be; `oversized` ones are
    among them, with a payload too large to be kept.  `duplicate` and `malformed` records were skipped; `dropped` calls
    never got into the spool.  `left` says that something is still there, for the next drain.
    """

    drained: int = 0
    refused: int = 0
    duplicate: int = 0
    malformed: int = 0
    oversized: int = 0
    dropped: int = 0
    left: bool = False


def split_records(data: bytes) -> Iterator[CallMessage | None]:
    """Yield the records of a spool file in order, and None for each stretch that is no whole record.

    A torn record costs itself only: reading goes on where the next one starts.
    """
    at = malformed = 0
    while 0 <= at < len(data) and malformed < _MAX_MALFORMED:
        message, behind = _record_at(data, at)
        yield message
        if message is None:
            malformed += 1
            behind = data.find(_START, at + 1)
        at = behind


async def drain_spool(directory: Path, handle: HandleCall, *, caller_of: LateCallerOf | None = None) -> SpoolCounters:
    """Hand every spooled call to `handle`, oldest first, and return what was found.

    `caller_of` finds the process that made a call; without it none is known.

    A failure that may pass (`safe_retry`) ends the drain and leaves the calls where they are; any other one is
    counted, and the drain goes on.  Hooks may append meanwhile; their calls are left to the next drain.

    Raises:
        LifebusError: the directory is not ours alone.
        OSError: the spool cannot be read or removed.
    """
    counters = SpoolCounters()
    seen: set[str] = set()
    if not await anyio.to_thread.run_sync(directory.is_dir):
        return counters
    folder = await anyio.to_thread.run_sync(open_private_directory, directory)
    try:
        counters.dropped = await anyio.to_thread.run_sync(_take_dropped, folder)
        for new in (False, True):
            # What an earlier drain left is older, so it goes first.
            data = await anyio.to_thread.run_sync(_claim, folder, new, counters)
            if data is not None and await _hand_on(data, handle, caller_of or _nobody, counters, seen):
                await anyio.to_thread.run_sync(_remove, _CLAIMED, folder)
            if counters.left:
                break
        # behind the calls: what is missing came when there was no room left for another
        await _hand_on_lost(folder, handle, counters)
    finally:
        os.close(folder)
    return counters


async def _hand_on(
    data: bytes, handle: HandleCall, caller_of: LateCallerOf, counters: SpoolCounters, seen: set[str]
) -> bool:
    """Handle the calls of one file; return whether it may be removed."""
    for message in split_records(data):
        if message is None:
            counters.malformed += 1
        elif message.header.call_id in seen:
            counters.duplicate += 1
        elif await _taken(_call(message, caller_of), handle, counters):
            seen.add(message.header.call_id)
            counters.oversized += message.header.oversized is not None
        else:
            counters.left = True
            return False
    return True


async def _hand_on_lost(folder: int, handle: HandleCall, counters: SpoolCounters) -> None:
    """Hand on how many calls of each adapter were lost; what is not taken stays for the next drain."""
    for name, call, count in await anyio.to_thread.run_sync(_claim_lost, folder):
        # Not among the drained ones: no hook has made this call.
        if not await _taken(call, handle, SpoolCounters()):
            counters.left = True
            return
        # Removed last: the call has the same id until then, and so is recorded once.
        await anyio.to_thread.run_sync(_remove, name, folder)
        counters.dropped += count
        _log.warning("hook_calls_lost", adapter=call.adapter_id, count=count)


def _claim_lost(folder: int) -> list[tuple[str, HookCall, int]]:
    """Return the counts that hooks have left: the names of their files, now nobody else's, what they say, how many."""
    names = os.listdir(folder)
    for name in filter(_LOST.fullmatch, names):
        claimed = name.replace("dropped", "claimed", 1)
        # One after the other: of a count that was claimed before, nobody knows yet whether it is recorded.
        if claimed not in names:
            os.rename(name, claimed, src_dir_fd=folder, dst_dir_fd=folder)
    return [found for name in sorted(os.listdir(folder)) if (found := _lost_in(name, folder)) is not None]


def _lost_in(name: str, folder: int) -> tuple[str, HookCall, int] | None:
    """Return what a claimed count says; None where the file is none, or is still being written."""
    adapter = _LOST_CLAIMED.fullmatch(name)
    if adapter is None:
        return None
    file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or not _writers_done(file):
            return None
    finally:
        os.close(file)
    at_ms = found.st_mtime_ns // 1_000_000
    call = HookCall(
        call_id=f"hook-{at_ms:x}-{found.st_ino:016x}",
        adapter_id=adapter[1],
        hook=HOOK_CALLS_LOST,
        cwd="",
        env={},
        stdin=json.dumps({"hook_event_name": HOOK_CALLS_LOST, "missed_messages": found.st_size}).encode(),
        spooled_at_epoch_s=at_ms // 1_000,
    )
    return name, call, found.st_size


async def _taken(call: HookCall, handle: HandleCall, counters: SpoolCounters) -> bool:
    """Handle one call; return False when it should be tried again later."""
    try:
        await handle(call)
    except Exception as fault:  # noqa: BLE001  one bad call must not block the spool for ever
        # The call stays in the spool: a disk that is full now takes it later.
        if isinstance(fault, LifebusError) and fault.retry_class is RetryClass.SAFE_RETRY:
            return False
        counters.refused += 1
        _log.warning("spool_call_refused", call_id=call.call_id, error=type(fault).__name__)
        return True
    counters.drained += 1
    return True


def _call(message: CallMessage, caller_of: LateCallerOf) -> HookCall:
    """Return the call with the process that made it."""
    call, pid = message.call, message.header.pid
    if pid is None or call.spooled_at_epoch_s is None:
        return call
    return structs.replace(call, process=caller_of(pid, call.spooled_at_epoch_s))


def _nobody(_claimed: int, _called_at_epoch_s: int) -> None:
    """Know no process."""


def _record_at(data: bytes, at: int) -> tuple[CallMessage | None, int]:
    """Return the whole record that starts at `at`, and where the next one would."""
    end = data.find(b"\n", at, at + MAX_HEADER_BYTES)
    if end < 0 or not data.startswith(_START, at):
        return None, at
    try:
        header = parse_header(data[at:end])
    except InvalidRequest:
        return None, at
    # A record ends where its header says, and a newline or the next record must follow there.
    stop = end + 1 + header.size
    if data[stop : stop + 2] not in (b"\n", b"\n{"):  # its end was torn off, and others follow in its place
        return None, at
    return CallMessage(header=header, stdin=data[end + 1 : stop]), stop + 1


def _claim(folder: int, new: bool, counters: SpoolCounters) -> bytes | None:
    """Return the bytes of a file that an earlier drain left, or of a new one that hooks have written."""
    try:
        if new:
            os.rename(_CALLS, _CLAIMED, src_dir_fd=folder, dst_dir_fd=folder)
        file = os.open(_CLAIMED, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as fault:  # a link, a directory: not a file that a hook has made
        _log.warning("spool_foreign_file", error=fault.strerror)
        counters.left = True
        return None
    with os.fdopen(file, "rb") as claimed:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or not _writers_done(file):
            counters.left = True
            return None
        return claimed.read(_MAX_SPOOL_BYTES)


def _writers_done(file: int) -> bool:
    """Wait for the hook that is just writing; the next one sees that the file was renamed, and opens another."""
    until = time.monotonic() + _WRITER_S
    while time.monotonic() < until:
        try:
            # Polled, because a lock that is waited for cannot be given up.
            os.lockf(file, os.F_TLOCK, 0)
        except OSError:
            time.sleep(0.005)
        else:
            return True
    return False


def _take_dropped(folder: int) -> int:
    """Return how many calls hooks have dropped since the last drain, and start again at none."""
    try:
        count = os.stat(_DROPPED, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0
    _remove(_DROPPED, folder)
    return count


def _remove(name: str, folder: int) -> None:
    os.unlink(name, dir_fd=folder)
