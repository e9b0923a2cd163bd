"""Checkpoints of Loa's kind, and projects that have some."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lifebus.checkpoints.project import ProjectCheckpoints
from lifebus.loa.checkpoint import LOA_CHECKPOINT
from lifebus_transports.workspace.changes import FileChanges


def document(**changes: Any) -> dict[str, Any]:
    """A checkpoint with every field of the schema, and no artifact."""
    return {
        "version": 1,
        "execution_id": "exec-1",
        "phase": "implementation",
        "created_at": "2026-01-31T12:00:00.000Z",
        "exit_code": 0,
        "duration_ms": 1_234,
        "summary": "Done, and “quoted” – with ünïcode.",
        "decisions": [{"description": "d", "reasoning": "because", "timestamp": "2026-01-31T11:59:00+05:30"}],
        "artifacts": [],
        "errors": [{"message": "m", "phase": "design", "recoverable": True}],
        **changes,
    }


def text(**changes: Any) -> bytes:
    """The same as the bytes of a JSON document."""
    return json.dumps(document(**changes)).encode()


def artifact(path: str, contents: bytes, **changes: Any) -> dict[str, Any]:
    """A reference to a file with these contents."""
    checksum = f"sha256:{hashlib.sha256(contents).hexdigest()}"
    return {"path": path, "size_bytes": len(contents), "checksum": checksum, "description": "a file", **changes}


@contextmanager
def project_in(directory: Path, changes: FileChanges | None = None) -> Iterator[ProjectCheckpoints]:
    """The checkpoints of `directory/root`, kept in `directory/state`."""
    root = directory / "root"
    root.mkdir(exist_ok=True)
    with ProjectCheckpoints(LOA_CHECKPOINT, root, state_dir=directory / "state", changes=changes) as project:
        yield project
