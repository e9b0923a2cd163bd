"""Who owns a file or directory, and who else could put another in its place (docs/reliability.md T1)."""

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Final

from lifebus_contract import LifebusError

# As many links in one path as Linux itself follows
_MAX_LINKS: Final = 40

_ACCESS_LIST: Final = "system.posix_acl_access"


def check_parents(path: Path) -> None:
    """Check that only this user and root can decide what `path` names; the end of the path itself is not judged.

    The path is walked as the kernel does it: each directory that a name is looked up in counts, also those that links
    lead through.  What is not there yet ends the walk.

    Raises:
        LifebusError: `directory_owner` or `directory_mode`, naming the directory; `directory_unusable`.
    """
    here = Path("/")
    left = list(reversed(path.absolute().parts[1:]))
    links = 0
    while left:
        name = left.pop()
        if name == "..":
            here = here.parent
            continue
        held, found = _look_at(here), _look_at(here / name)
        if held is not None:
            _check_step(here, held, here / name, found)
        if found is None:
            return
        if not stat.S_ISLNK(found.st_mode):
            here /= name
            continue
        links += 1
        if links > _MAX_LINKS:
            raise LifebusError(f"cannot open {path}: it leads through too many links", code="directory_unusable")
        target = (here / name).readlink()
        here = Path("/") if target.is_absolute() else here
        left += reversed(target.parts[target.is_absolute() :])


def check_private(path: Path, found: os.stat_result) -> None:
    """Check that a directory, as `found`, is ours and closed to everybody else.

    Raises:
        LifebusError: `directory_owner` or `directory_mode`; the text says what to do.
    """
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        raise LifebusError(f"{path} belongs to user {found.st_uid}, not to us; use another one", code="directory_owner")
    if mode & 0o077:
        raise LifebusError(
            f"{path} has mode {mode:04o}, others may enter; run: chmod 700 {path}", code="directory_mode"
        )


def foreign_file(path: Path, found: os.stat_result, *, of_root: bool = False) -> str | None:
    """Return what is wrong with a file that we are to rely on, None where only its owner may change it.

    It is a regular file of ours, or of root where `of_root` is set, and nobody else may write to it.
    """
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file"
    if found.st_uid != os.geteuid() and not (of_root and _is_trusted(found.st_uid)):
        return f"it belongs to user {found.st_uid}, not to us"
    if _others_may_write(path, found):
        return f"it has mode {stat.S_IMODE(found.st_mode):04o}, others may write to it; run: chmod go-w {path}"
    return None


def _check_step(place: Path, held: os.stat_result, entry: Path, found: os.stat_result | None) -> None:
    """Refuse a directory whose `entry` somebody else could exchange."""
    if not _is_trusted(held.st_uid):
        raise LifebusError(
            f"{place} belongs to user {held.st_uid}, who could exchange {entry}; use a directory below your own",
            code="directory_owner",
        )
    # Root says by the group of its directories who may do what root does, /usr/local for instance.
    if held.st_uid == 0 and not held.st_mode & stat.S_IWOTH:
        return
    if not _others_may_write(place, held):
        return
    if not held.st_mode & stat.S_ISVTX:
        mode = f"{stat.S_IMODE(held.st_mode):04o}"
        raise LifebusError(
            f"{place} has mode {mode}, others could exchange {entry}; run: chmod go-w {place}", code="directory_mode"
        )
    # In a sticky directory everybody may add names and only an owner may take them away.
    if found is not None and not _is_trusted(found.st_uid):
        raise LifebusError(
            f"{entry} belongs to user {found.st_uid}, not to us; use another one", code="directory_owner"
        )


def _look_at(path: Path) -> os.stat_result | None:
    """Return what is at a path, without following a link; None where nothing is."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else fault
        raise LifebusError(f"cannot open {path}: {why}", code="directory_unusable") from fault


def _is_trusted(uid: int) -> bool:
    """Whether this user may stand above our files: we ourselves, or root."""
    return uid in {0, os.geteuid()} or (uid == _overflow_uid() and _root_is_unmapped())


def _overflow_uid() -> int:
    """Return the number that stands for every user who has none in this user namespace."""
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return 65_534


def _root_is_unmapped() -> bool:
    """Whether root has no number here: in a sandbox the system's own directories then have nobody's."""
    try:
        ranges = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return False
    return not any(int(line.split()[0]) == 0 for line in ranges)


def _others_may_write(path: Path, found: os.stat_result) -> bool:
    """Whether anybody but its owner may write there."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_private_group(path, found)


def _is_private_group(path: Path, found: os.stat_result) -> bool:
    """Whether the group has no member but the owner, as with umask 002 and a group for each user.

    Debian's OpenSSH decides in the same way.  With an access list the bits of the group speak of others too.
    """
    if _has_access_list(path):
        return False
    try:
        owner = pwd.getpwuid(found.st_uid)
    except KeyError:
        owner = None
    if found.st_gid != (owner.pw_gid if owner else os.getegid()):
        return False
    try:
        named = grp.getgrgid(found.st_gid).gr_mem
    except KeyError:  # a group without a name, in a container for instance: nobody can be listed in it
        named = []
    if any(owner is None or name != owner.pw_name for name in named):
        return False
    return all(account.pw_uid == found.st_uid for account in pwd.getpwall() if account.pw_gid == found.st_gid)


def _has_access_list(path: Path) -> bool:
    """Whether an access list gives further users or groups rights; only Linux can be asked."""
    try:
        return bool(os.getxattr(path, _ACCESS_LIST))
    except (AttributeError, OSError):
        return False
