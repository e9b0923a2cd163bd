"""Checkpoints for scripts without an event loop that are connected to a broker."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal

from lifebus.checkpoints.kinds import CheckpointKind
from lifebus.checkpoints.records import Checkpoint, CheckpointInfo
from lifebus.checkpoints.reporting import Checkpoints, SavedCheckpoint
from lifebus.checkpoints.verification import Difference


class BlockingCheckpoints:
    """`bus.checkpoints` without an event loop: its calls block; the methods and errors are the same."""

    def __init__(self, portal: BlockingPortal, checkpoints: Checkpoints) -> None:
        self._portal = portal
        self._checkpoints = checkpoints

    def save(
        self,
        document: bytes | str | Mapping[str, Any],
        *,
        kind: CheckpointKind,
        root: Path | str = ".",
        session: tuple[str, str] | None = None,
    ) -> SavedCheckpoint:
        """Save a checkpoint and record its digest.  First the files that it names are checked.

        Raises:
            InvalidRequest: it breaks its schema, or a file is not as it says (`artifact_mismatch`).
            LifebusError: it cannot be stored.
        """
        return self._portal.call(partial(self._checkpoints.save, document, kind=kind, root=root, session=session))

    def get(
        self, which: str, *, kind: CheckpointKind, root: Path | str = ".", run_id: str | None = None
    ) -> Checkpoint | None:
        """Return the checkpoint with an id, or the newest of a name (and of a run), or None if there is none.

        Raises:
            LifebusError: `checkpoint_damaged`, or the store cannot be read.
        """
        return self._portal.call(partial(self._checkpoints.get, which, kind=kind, root=root, run_id=run_id))

    def list(
        self, *, kind: CheckpointKind, root: Path | str = ".", name: str | None = None, last: int | None = None
    ) -> "list[CheckpointInfo]":
        """Return what is known of each checkpoint that is not damaged, the oldest first.

        Raises:
            LifebusError: the store cannot be read.
        """
        return self._portal.call(partial(self._checkpoints.list, kind=kind, root=root, name=name, last=last))

    def verify(self, checkpoint: Checkpoint, *, kind: CheckpointKind, root: Path | str = ".") -> tuple[Difference, ...]:
        """Return the files of a checkpoint that have changed; if there are none, it is safe to continue from it.

        Raises:
            InvalidRequest: it is no checkpoint of this kind.
        """
        return self._portal.call(partial(self._checkpoints.verify, checkpoint, kind=kind, root=root))
