"""The folders below one root that a pattern leads into, listed again only when they have changed."""

import os
from collections import deque
from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

from msgspec import Struct

from lifebus_supervisor.tailing.safe_open import UnusableFile, join_path, unusable_for

NEWEST_DATES: Final = 3
"""How many folders of a level are listed where they are named by year, month or day."""

_SETTLED_S: Final = 2.0
"""A folder that changed less than this before it was listed may have changed again under the same time stamp."""
_MOST_NAMES: Final = 16_384
_DATE_DIGITS: Final = (2, 4)

_Tail = tuple[str, ...]
_Tails = frozenset[_Tail]


class _Folder(Struct):
    """A folder by its path below the root, the rest of the pattern for what is in it, and its listing.

    One that `appeared` was not there at first: everything in it is new.  `old` are folders with dates long past.
    """

    below: str
    tails: _Tails
    appeared: bool
    changed_ns: int = -1
    settled: bool = False
    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    old: frozenset[str] = frozenset()

    @property
    def is_listed(self) -> bool:
        """Whether it was listed before."""
        return self.changed_ns != -1

    def would_list(self, name: str) -> bool:
        """Whether a file of this name would be listed."""
        return any(len(tail) == 1 and fnmatchcase(name, tail[0]) for tail in self.tails)


class FolderListing:
    """All folders of a pattern.  `fault` is why the root cannot be listed; `is_gone`, that it is not there any more."""

    def __init__(self, root: str, pattern: str, *, appeared: bool) -> None:
        self.fault: UnusableFile | None = None
        self.is_gone = False
        self._root = root
        self._folders = {"": _Folder("", _closed({tuple(pattern.split("/"))}), appeared)}
        self._order = [""]

    def paths(self) -> list[str]:
        """Return the paths of all folders."""
        return [self._path(below) for below in self._folders]

    def lists(self, below: str, name: str) -> bool:
        """Whether a file was there when its folder was listed last."""
        folder = self._folders.get(below)
        return folder is not None and name in folder.files

    def is_new(self, below: str) -> bool:
        """Whether a file that is not listed must have appeared since its folder, or one above it, was listed."""
        *parts, name = below.split("/")
        folder = self._folders.get("")
        for part in parts:
            if folder is None or not folder.is_listed:
                break
            inner = self._folders.get(join_path(folder.below, part))
            if inner is None:
                return part not in folder.old | folder.folders and bool(_inner(folder.tails, part))
            folder = inner
        if folder is None or not folder.is_listed:
            return folder is not None and folder.appeared
        return folder.would_list(name) and name not in folder.files

    def visit(self, now: float, expired: Callable[[], bool]) -> list[tuple[str, str, bool]]:
        """List what has changed; return the files that were not listed before, and whether they really are new.

        Folders that are not reached before the time has `expired` come first the next time.
        """
        waiting, visited = deque(self._order), list[str]()
        files: list[tuple[str, str, bool]] = []
        while waiting and not expired():
            folder = self._folders.get(waiting.popleft())
            if folder is not None:
                waiting.extend(self._visit(folder, now, files))
                visited.append(folder.below)
        # Those that were not reached come first, or a large tree's last folders would never be listed.
        self._order = [*waiting, *visited]
        return files

    def _visit(self, folder: _Folder, now: float, files: list[tuple[str, str, bool]]) -> list[str]:
        """List one folder if it has changed; return the folders below it that were not listed before."""
        try:
            status = os.lstat(self._path(folder.below))
            if status.st_mtime_ns == folder.changed_ns and folder.settled:
                return []
            names, inner, old = _listing(self._path(folder.below), folder.tails)
        except OSError as fault:
            self._failed(folder, unusable_for(fault))
            return []
        if not folder.below:
            self.fault = None
        # At the first listing nobody knows how old the files are; from the second on, what is added is new.
        appeared = folder.appeared or folder.is_listed
        files += [(folder.below, name, appeared) for name in sorted(names - folder.files)]
        folder.changed_ns, folder.settled = status.st_mtime_ns, now - status.st_mtime > _SETTLED_S
        for gone in folder.folders - inner.keys():
            self._drop(join_path(folder.below, gone))
        added = [
            _Folder(join_path(folder.below, name), tails, appeared and name not in folder.old)
            for name, tails in inner.items()
            if join_path(folder.below, name) not in self._folders
        ]
        self._folders |= {new.below: new for new in added}
        folder.files, folder.folders, folder.old = frozenset(names), frozenset(inner), old
        return [new.below for new in added]

    def _path(self, below: str) -> str:
        return join_path(self._root, below) if below else self._root

    def _failed(self, folder: _Folder, fault: UnusableFile) -> None:
        """Forget a folder that is gone; one that cannot be listed now is tried again."""
        if not folder.below:
            self.fault = fault if fault.problem != "missing" else None
            self.is_gone = fault.problem != "unreadable"
        # Permission or I/O errors may pass; what is kept of the folder then says which of its files are new.
        elif fault.problem != "unreadable":
            self._drop(folder.below)

    def _drop(self, below: str) -> None:
        folder = self._folders.pop(below, None)
        for name in folder.folders if folder else ():
            self._drop(join_path(below, name))


def _listing(path: str, tails: _Tails) -> tuple[set[str], dict[str, _Tails], frozenset[str]]:
    """Return the files of a folder that match, the folders to list with the rest of the pattern, and old ones."""
    here = _Folder("", tails, appeared=False)
    files: set[str] = set()
    folders: dict[str, _Tails] = {}
    with os.scandir(path) as entries:
        for entry in islice(entries, _MOST_NAMES):
            if not entry.name.isprintable():
                continue  # such a name cannot be shown or logged as it is
            if not entry.is_dir(follow_symlinks=False):
                if here.would_list(entry.name):
                    files.add(entry.name)
            elif inner := _inner(tails, entry.name):
                folders[entry.name] = inner
    # Sessions are filed by their date: one folder more for each day would cost one stat more for each poll.
    dates = sorted(name for name in folders if name.isdecimal() and len(name) in _DATE_DIGITS)
    old = frozenset(dates[:-NEWEST_DATES])
    return files, {name: inner for name, inner in folders.items() if name not in old}, old


def _inner(tails: _Tails, name: str) -> _Tails:
    """Return what is left of the pattern inside a folder of a name."""
    on = {tail[1:] for tail in tails if len(tail) > 1 and tail[0] != "**" and fnmatchcase(name, tail[0])}
    return _closed(on | {tail for tail in tails if tail[0] == "**"})


def _closed(tails: set[_Tail]) -> _Tails:
    """Return the patterns with what follows a leading ``**``, which stands for no folder too."""
    found = set(tails)
    for tail in tails:
        while len(tail) > 1 and tail[0] == "**":
            tail = tail[1:]  # noqa: PLW2901  it is what is walked along
            found.add(tail)
    return frozenset(found)
