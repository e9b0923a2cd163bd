"""The files of snapshots: one each, named after its id; of each type the newest three are kept."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lifebus_broker.atomic_files import make_directory, remove_file, remove_unfinished, write_file
from lifebus_broker.snapshots.cold_boot_error import ColdBootError
from lifebus_broker.snapshots.refused_file import RefusedFile, read_decoded
from lifebus_broker.snapshots.snapshot import (
    MAX_SNAPSHOT_BYTES,
    SaveSnapshot,
    SaveType,
    decode_snapshot,
    encode_snapshot,
)
from lifebus_broker.snapshots.supplement import (
    MAX_SUPPLEMENT_BYTES,
    StreamHead,
    Supplement,
    decode_supplement,
    encode_supplement,
)
from lifebus_contract import InvalidRequest

DIRECTORY: Final = "snapshots"
"""The directory of the files, in the state directory."""

KEPT: Final = 3
"""How many snapshots of each type are kept."""

_SUFFIX: Final = ".json"
_SUPPLEMENT: Final = ".supplement"
_TYPES: Final = tuple(SaveType)
_NAME: Final = re.compile(r"[0-9a-f]{16}\.json")


class SnapshotFiles:
    """The snapshots in a directory, which need not be there.  Every method blocks, and may raise OSError."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, snapshot_id: str) -> SaveSnapshot | RefusedFile | None:
        """Return a snapshot, or why its file holds none; None where there is no file."""
        name = f"{snapshot_id}{_SUFFIX}"
        # The id may come from a client, and must not lead out of the directory.
        if not _NAME.fullmatch(name):
            return None
        return read_snapshot(self._directory / name)

    def all(self) -> tuple[list[SaveSnapshot], list[RefusedFile]]:
        """Return the sound snapshots, the newest position first, and the files that are refused, by name."""
        sound: list[SaveSnapshot] = []
        refused: list[RefusedFile] = []
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            found = read_snapshot(path) if _NAME.fullmatch(path.name) else RefusedFile(path.name, "it has no id's name")
            if isinstance(found, RefusedFile):
                refused.append(found)
            elif found is not None:
                sound.append(found)
        return sorted(sound, key=_newest_first), refused

    def supplement(self, snapshot: SaveSnapshot) -> Supplement | RefusedFile | None:
        """Return the supplement of a snapshot, or why its file holds none; None where there is no file."""
        return read_supplement(self._directory, snapshot)

    def pinned(self, through: int) -> Iterator[StreamHead]:
        """Yield where the stream of revisions was at each save of the log up to a position."""
        for snapshot in self.all()[0]:
            # Snapshots behind the log's end belong to a history that is gone, revisions and all.
            found = self.supplement(snapshot) if snapshot.timestamp_event_id <= through else None
            if isinstance(found, Supplement):
                yield found.revisions

    def write(self, snapshot: SaveSnapshot, supplement: Supplement | None = None) -> bool:
        """Store a snapshot and its supplement, durable when this returns; remove those of its type that are too old.

        Returns False where the same snapshot was kept already, and then writes nothing.
        """
        make_directory(self._directory)
        remove_unfinished(self._directory)
        # First, so that no snapshot waits for its supplement; a sound one stays, as the journal was intact then.
        if supplement is not None and not isinstance(self.supplement(snapshot), Supplement):
            write_file(self._path(snapshot, _SUPPLEMENT), encode_supplement(supplement))
        # Compared with the file, not only by name: a torn file is written again.
        if self.read(snapshot.snapshot_id) == snapshot:
            return False
        write_file(self._path(snapshot), encode_snapshot(snapshot))
        self._drop_old(snapshot)
        return True

    def _path(self, snapshot: SaveSnapshot, suffix: str = _SUFFIX) -> Path:
        return self._directory / f"{snapshot.snapshot_id}{suffix}"

    def _drop_old(self, newest: SaveSnapshot) -> None:
        """Remove all but the newest of a type; snapshots ahead of the newest belong to a history that is gone."""
        others = [one for one in self.all()[0] if one.save_type is newest.save_type and one != newest]
        # Those ahead sort behind all others, and so are removed.
        others.sort(key=lambda one: one.timestamp_event_id > newest.timestamp_event_id)
        for old in others[KEPT - 1 :]:
            remove_file(self._path(old))
        # Whoever removes a snapshot, and a crash between the two files, leaves a supplement alone.
        for path in self._directory.glob(f"*{_SUPPLEMENT}"):
            if not path.with_suffix(_SUFFIX).exists():
                remove_file(path)


def read_snapshot(path: Path) -> SaveSnapshot | RefusedFile | None:
    """Return the snapshot of a file named after its id, or why it holds none; None where there is no file."""
    snapshot = read_decoded(path, MAX_SNAPSHOT_BYTES, _decode)
    if snapshot is None or isinstance(snapshot, RefusedFile):
        return snapshot
    # A sound snapshot under another id was copied or renamed by somebody.
    if path.name != f"{snapshot.snapshot_id}{_SUFFIX}":
        return RefusedFile(path.name, f"it holds another snapshot, {snapshot.snapshot_id}")
    return snapshot


def _decode(data: bytes) -> SaveSnapshot:
    try:
        return decode_snapshot(data)
    except ValueError as fault:
        raise ValueError(f"torn or changed: {fault}") from None


def read_supplement(directory: Path, snapshot: SaveSnapshot) -> Supplement | RefusedFile | None:
    """Return the supplement of a snapshot in a directory, or why its file holds none; None where there is no file."""

    def decode(data: bytes) -> Supplement:
        found = decode_supplement(data)
        if found.bytes_hash != snapshot.bytes_hash:
            raise ValueError("it belongs to another snapshot")
        return found

    return read_decoded(directory / f"{snapshot.snapshot_id}{_SUPPLEMENT}", MAX_SUPPLEMENT_BYTES, decode)


def find_snapshot(files: SnapshotFiles, which: str | None, floor: int = 0) -> SaveSnapshot:
    """Return the snapshot of an id or of a file, or without either the newest one that needs no line up to `floor`.

    Raises:
        ColdBootError: its file is torn or was changed (step 1).
        InvalidRequest: there is none.
    """
    if which is None:
        return _newest(files, floor)
    found = read_snapshot(Path(which)) if which.endswith(".json") else files.read(which)
    if isinstance(found, RefusedFile):
        raise ColdBootError(1, None, f"{found.name}: {found.why}")
    if found is None:
        raise InvalidRequest(
            f"there is no snapshot `{which[:128]}`; `lifebus ledger snapshots list` lists them", code="no_snapshot"
        )
    return found


def _newest_first(snapshot: SaveSnapshot) -> tuple[int, int, str]:
    """Order by position, the newest first, and at one position what holds most first."""
    return -snapshot.timestamp_event_id, -_TYPES.index(snapshot.save_type), snapshot.snapshot_id


def _newest(files: SnapshotFiles, floor: int) -> SaveSnapshot:
    snapshots, refused = files.all()
    if snapshots:
        # Without one that the log can prove, the newest: its boot says what is missing.
        return next((one for one in snapshots if one.event_log_range[0] > floor), snapshots[0])
    if refused:
        raise ColdBootError(1, None, f"{refused[0].name}: {refused[0].why}; no other is there")
    raise InvalidRequest("nothing was saved yet; `lifebus ledger save session` saves now", code="no_snapshot")
