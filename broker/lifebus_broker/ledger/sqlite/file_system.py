"""Which file systems no ledger may be on: their locks, syncs and shared memory are not those of one machine's disk.

Linux names the file system of each device in its list of mounts; where there is no such list, nothing is refused.
"""

import os
from pathlib import Path
from typing import Final

from lifebus_contract import InternalError

_MOUNTS: Final = Path("/proc/self/mountinfo")
_SHARED: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "fuse", "fuseblk", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "virtiofs"}
)
_FUSE: Final = "fuse."


def check_file_system(path: Path) -> None:
    """Refuse a ledger whose directory is on the network, or served by a process (FUSE).

    Raises:
        InternalError: it is; the code is ``ledger_file_system``.
    """
    kind = _kind_of(path.parent.stat().st_dev)
    if kind in _SHARED or kind.startswith(_FUSE):
        raise InternalError(
            f"the ledger {path} is on a {kind} file system, which does not keep what it says is synced, nor other "
            "machines out: set ledger.path to a place on a local disk",
            code="ledger_file_system",
        )


def _kind_of(device: int) -> str:
    """Return the name of the file system of a device, empty where it is not known."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "replace")
    except OSError:
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        # optional fields stand before the dash, so the type cannot be found by its column
        mount, _, source = line.partition(" - ")
        if mount.split()[2:3] == [number]:
            return source.partition(" ")[0]
    return ""
