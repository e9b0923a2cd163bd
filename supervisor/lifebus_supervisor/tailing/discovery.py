"""Finding the files that a source's pattern names below one root, without walking everything each time.

A folder's listing is kept until the folder's own time stamp changes.  Appending to a file does not change it, so files
that are known but not tailed are checked in turn, a few each time.
"""

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from lifebus_supervisor.tailing.listing import FolderListing
from lifebus_supervisor.tailing.safe_open import FilePlace, UnusableFile, join_path

SWEPT_PER_POLL: Final = 128
"""How many files that are known and not tailed are checked in each poll."""


class DiscoveredFile(Struct, frozen=True):
    """A file that was seen: where, how many of its bytes are old (None: all), and when it was changed."""

    place: FilePlace
    history: int | None = None
    changed_at: float = 0.0


class SourceRoot:
    """One root of a source.  `shown` is the root as its user writes it; its own links are resolved once it exists.

    Without a pattern, the root is the file.
    """

    def __init__(self, shown: str, pattern: str) -> None:
        self.shown = shown
        self._pattern = pattern
        self._root: str | None = None
        self._was_absent = False
        self._folders: FolderListing | None = None
        # Files that were listed and not checked yet, each with whether it appeared after the first listing.
        self._fresh: deque[tuple[tuple[str, str], bool]] = deque()
        # The sizes of files when last checked, the one that waits longest first; None for tailed ones.
        self._known: OrderedDict[tuple[str, str], int | None] = OrderedDict()

    @property
    def fault(self) -> UnusableFile | None:
        """Why the root cannot be listed, None where it can or is not there."""
        return self._folders.fault if self._folders else None

    def place_of(self, path: str) -> FilePlace | None:
        """Return where a path is if it lies below this root, by either of the root's names."""
        if not self._resolve():
            return None
        if self._folders is None:
            return self._single if path in {self.shown, self._root} else None
        for root in (self.shown, self._root or ""):
            if path.startswith(join_path(root, "")):
                return self._place(path[len(join_path(root, "")) :])
        return None

    def history_of(self, place: FilePlace) -> int | None:
        """Return how many bytes of a file that is not tailed are old, None where that is unknown."""
        if self._folders is None or place.root != self._root:
            return None
        below, _, name = place.below.rpartition("/")
        known = (below, name)
        if known in self._known or self._folders.lists(*known):
            return next((0 for fresh, appeared in self._fresh if appeared and fresh == known), self._known.get(known))
        return 0 if self._folders.is_new(place.below) else None

    def folders(self) -> list[str]:
        """Return the paths of the folders where files may appear."""
        if self._root is None:
            return []
        return self._folders.paths() if self._folders else [self._single.root]

    def discover(
        self, now: float, expired: Callable[[], bool], is_tailed: Callable[[str], bool]
    ) -> Iterator[DiscoveredFile]:
        """Yield files that match and are not tailed: all that are new, and some of the others in turn.

        What is not reached before the time has `expired` comes first the next time.
        """
        if not self._resolve():
            return
        if self._folders is None:
            yield from self._check(self._single, ("", ""), is_tailed, appeared=self._was_absent)
            return
        self._fresh.extend(((below, name), appeared) for below, name, appeared in self._folders.visit(now, expired))
        # Resolved anew at the next poll: the root may come back as a link to somewhere else.
        if self._folders.is_gone:
            self._was_absent, self._root = True, None
        while self._fresh and not expired():
            known, appeared = self._fresh.popleft()
            yield from self._check(self._place(join_path(*known)), known, is_tailed, appeared=appeared)
        for known in list(self._due()):
            if expired():
                break
            if self._folders.lists(*known):
                yield from self._check(self._place(join_path(*known)), known, is_tailed, appeared=False)
            else:
                del self._known[known]

    def _due(self) -> Iterator[tuple[str, str]]:
        """Yield the known files whose turn it is."""
        for known, _ in zip(self._known, range(SWEPT_PER_POLL), strict=False):
            yield known

    def _check(
        self, place: FilePlace, known: tuple[str, str], is_tailed: Callable[[str], bool], *, appeared: bool
    ) -> Iterator[DiscoveredFile]:
        """Check one file, remember its size, and let it wait for its next turn."""
        before = self._known.pop(known, None)  # and added again: that puts it behind all others
        if is_tailed(place.path):
            self._known[known] = None
            return
        try:
            status = os.lstat(place.path)
        except OSError:
            if self._folders is None:
                self._was_absent, self._root = True, None
            return
        self._known[known] = status.st_size
        # What was appended since the last check is new, also where nobody tailed the file then.
        history = 0 if appeared else status.st_size if before is None else before
        yield DiscoveredFile(place, history, status.st_mtime)

    def _resolve(self) -> bool:
        if self._root is None:
            try:
                self._root = os.path.realpath(self.shown, strict=True)
            except OSError:
                self._was_absent = True
                return False
            self._folders = (
                FolderListing(self._root, self._pattern, appeared=self._was_absent) if self._pattern else None
            )
        return True

    @property
    def _single(self) -> FilePlace:
        root, _, name = (self._root or "").rpartition("/")
        return FilePlace(root or "/", name, self.shown)

    def _place(self, below: str) -> FilePlace:
        return FilePlace(self._root or "", below, join_path(self.shown, below))
