"""The checkpoints of a project: saved once their files are proved, found, exported, verified again.

A project is known by the real path of its root.  Its checkpoints stand in the user's state directory, so that nothing
is written into the project but what is exported.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lifebus.checkpoints.kinds import CheckpointKind, read_document
from lifebus.checkpoints.records import Checkpoint, CheckpointInfo, is_checkpoint_id, make_checkpoint
from lifebus.checkpoints.store import CheckpointStore
from lifebus.checkpoints.verification import Difference, find_differences, require_artifacts
from lifebus_transports.directories import default_state_dir
from lifebus_transports.workspace.changes import FileChanges
from lifebus_transports.workspace.workspace import WorkspaceFiles

DIRECTORY: Final = "checkpoints"
"""The directory of all checkpoints in the state directory."""


class ProjectCheckpoints:
    """The checkpoints of one kind of one project; close it, or use it in a `with` block.  Every method may block.

    Raises:
        LifebusError: `no_root` where the root cannot be opened.
    """

    def __init__(
        self,
        kind: CheckpointKind,
        root: Path | str = ".",
        *,
        state_dir: Path | None = None,
        changes: FileChanges | None = None,
    ) -> None:
        self.kind = kind
        self._files = WorkspaceFiles(root, changes=changes)
        # The same project by whatever path: two names of one directory share its checkpoints.
        self._project = os.path.realpath(root)
        digest = hashlib.sha256(os.fsencode(self._project)).hexdigest()[:16]
        self.store = CheckpointStore((state_dir or default_state_dir()) / DIRECTORY / digest, changes=changes)

    def close(self) -> None:
        """Close the root."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def save(
        self, document: bytes | str | Mapping[str, Any], *, session: tuple[str, str] | None = None
    ) -> tuple[CheckpointInfo, bool]:
        """Save a checkpoint; return what is known of it, and whether it is new.  It is durable when this returns.

        Bytes and text are kept as they are.  `session` is the one to which its receipt will belong.

        Raises:
            InvalidRequest: it is no JSON, breaks the schema (`against_contract`), or one of its files is not as it
                says (`artifact_mismatch`).
            LifebusError: it cannot be stored.
        """
        body = _body_of(document)
        facts = self.kind.facts_of(read_document(body))
        require_artifacts(facts.artifacts, self._files)
        return self.store.save(make_checkpoint(self.kind.payload_kind, self._project, body, facts, session))

    def get(self, which: str, *, run_id: str | None = None) -> Checkpoint | None:
        """Return the checkpoint with an id, or the newest of a name (and of a run), or None if there is none.

        Raises:
            LifebusError: `checkpoint_damaged`, or the store cannot be read.
        """
        if is_checkpoint_id(which):
            found = self.store.by_id(which)
            return found if found is not None and found.info.kind == self.kind.payload_kind else None
        return self.store.newest(self.kind.payload_kind, which, run_id)

    def list(self, *, name: str | None = None, last: int | None = None) -> "tuple[list[CheckpointInfo], list[str]]":
        """Return what is known of each checkpoint, the oldest first, and the ids of those that are damaged.

        Raises:
            LifebusError: the store cannot be read.
        """
        infos, broken = self.store.infos()
        fitting = [one for one in infos if one.kind == self.kind.payload_kind and name in (None, one.name)]
        return fitting if last is None else fitting[max(0, len(fitting) - last) :], broken

    def verify(self, checkpoint: Checkpoint) -> tuple[Difference, ...]:
        """Return the files of a checkpoint that are not as they were when it was saved; none where all are.

        Raises:
            InvalidRequest: it is no checkpoint of this kind.
        """
        return find_differences(self.kind.facts_of(checkpoint.document).artifacts, self._files)

    def export(self, checkpoint: Checkpoint) -> str:
        """Write a checkpoint into the project as its kind does; return the path, relative to the root.

        Raises:
            LifebusError: its name cannot be that of a file, or the file cannot be written.
        """
        document = checkpoint.document
        path = self.kind.export_path(self.kind.facts_of(document))
        self._files.write(path, self.kind.export_text(document))
        return path


def _body_of(document: bytes | str | Mapping[str, Any]) -> bytes:
    if isinstance(document, bytes):
        return document
    if isinstance(document, str):
        # A lone surrogate is refused where the document is read, by its own rule.
        return document.encode("utf-8", "surrogatepass")
    return json.dumps(dict(document), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
