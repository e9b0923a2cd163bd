"""Write a file that has several names (hard links) in place, so that all of them show the change (docs/hooks.md S2).

Replacing such a file would leave its other names behind with the old contents.  A write in place is not one step: a
reader may see part of it, and a crash may leave part of it.  So what the file held and what it is to hold are on record
before the first byte changes; the next run sees from them whether the file is torn, and puts the old contents back.
"""

import os

from msgspec import Struct

from lifebus_admin.installer.file_state import TargetFile, read_target
from lifebus_admin.installer.writer import ChangedMeanwhile
from lifebus_broker.disk import Disk


class UnfinishedWrite(Struct, frozen=True, kw_only=True):
    """A write in place that was begun: the file, its contents before, and those that it is to have."""

    path: str
    before: bytes
    after: bytes


def is_torn(contents: bytes | None, write: UnfinishedWrite) -> bool:
    """Whether the contents are a mixture of before and after, and neither; any other contents are somebody else's."""
    before, after = write.before, write.after
    if contents is None or contents in {before, after}:
        return False
    shorter, longer = sorted((len(before), len(after)))
    if not shorter <= len(contents) <= longer:
        return False
    # After a power cut, what was appended may read as zeros.
    return all(
        byte in (before[at : at + 1], after[at : at + 1]) or (byte == b"\0" and at >= shorter)
        for at, byte in enumerate(contents[at : at + 1] for at in range(len(contents)))
    )


def overwrite_file(disk: Disk, file: TargetFile, contents: bytes) -> None:
    """Give a file other contents under all its names; durable when this returns.

    Raises:
        ChangedMeanwhile: somebody else wrote meanwhile; their version stands, or the last of both.
        OSError: the system refused; the file may be torn.
    """
    descriptor = disk.open_existing(file.real)
    try:
        # Compared as late as possible: what is written after this by another program is lost.
        if not read_target(file.path).is_as(file) or os.fstat(descriptor).st_ino != file.inode:
            raise ChangedMeanwhile
        rest = memoryview(contents)
        while rest:
            rest = rest[disk.write(descriptor, rest) :]
        disk.truncate(descriptor, len(contents))
        disk.sync(descriptor)
    finally:
        os.close(descriptor)
    if read_target(file.path).contents != contents:
        raise ChangedMeanwhile
