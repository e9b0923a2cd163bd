"""The files of compactions: one each, named after it, in a directory a policy, any of which anybody may delete.

A file is used only after its name, its hash and its form were checked.  One that is torn, changed or not ours is
reported and otherwise ignored, and the compaction is built again.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from lifebus_broker.atomic_files import make_directory, remove_file, remove_unfinished, write_file
from lifebus_broker.snapshots.compactions.compaction import Compaction, decode_compaction, encode_compaction
from lifebus_broker.snapshots.refused_file import RefusedFile, read_decoded

DIRECTORY: Final = "compactions"
"""The directory in the state directory that holds a directory for each policy."""

MAX_FILE_BYTES: Final = 1_073_741_824
"""Largest file that is read; a larger one is none of ours."""

_SUFFIX: Final = ".json"
# Anything else in the directory is somebody's, and is only reported.
_NAME: Final = re.compile(r"[0-9a-f]{16}\.json")


class CompactionFiles:
    """The files of one policy, none where its directory is not there.  Every method blocks, and may raise OSError."""

    def __init__(self, state_dir: Path, policy_id: str) -> None:
        self._policy_id = policy_id
        self._directory = state_dir / DIRECTORY / policy_id

    def ids(self) -> list[str]:
        """Return the names of the compactions that may be there, sorted."""
        return sorted(path.stem for path in self._directory.glob(f"*{_SUFFIX}") if _NAME.fullmatch(path.name))

    def read(self, compaction_id: str) -> Compaction | RefusedFile | None:
        """Return a compaction, or why its file is none; None where there is no file."""
        path = self._path(compaction_id)
        compaction = read_decoded(path, MAX_FILE_BYTES, decode_compaction)
        if compaction is None or isinstance(compaction, RefusedFile):
            return compaction
        # A sound compaction in the wrong place would answer another question.
        if (compaction.compaction_policy_id, compaction.compaction_id) != (self._policy_id, compaction_id):
            other = f"{compaction.compaction_policy_id}/{compaction.compaction_id}"
            return RefusedFile(path.name, f"it holds another compaction, {other[:128]}")
        return compaction

    def strangers(self) -> list[RefusedFile]:
        """Return the files that have no compaction's name; what somebody is writing now is none of them."""
        if not self._directory.is_dir():
            return []
        found = (path.name for path in self._directory.iterdir() if not _NAME.fullmatch(path.name))
        return [
            RefusedFile(name, "a compaction has another name") for name in sorted(found) if not name.endswith(".tmp")
        ]

    def write(self, compaction: Compaction) -> None:
        """Keep a compaction; durable when this returns."""
        self.write_encoded(compaction.compaction_id, [encode_compaction(compaction)])

    def write_encoded(self, compaction_id: str, pieces: Iterable[bytes]) -> None:
        """Keep a compaction that comes encoded and in pieces; durable when this returns."""
        # The parent first: each is synced into its own parent.
        make_directory(self._directory.parent)
        make_directory(self._directory)
        write_file(self._path(compaction_id), pieces)

    def remove(self, compaction_ids: Iterable[str]) -> int:
        """Delete compactions, sound or not; return how many were there."""
        return sum(remove_file(self._path(one)) for one in compaction_ids)

    def remove_unfinished(self) -> None:
        """Remove what processes that are gone left unfinished."""
        remove_unfinished(self._directory)

    def _path(self, compaction_id: str) -> Path:
        return self._directory / f"{compaction_id}{_SUFFIX}"
