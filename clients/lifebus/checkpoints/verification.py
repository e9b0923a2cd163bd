"""The files that a checkpoint refers to, compared with those that are there now."""

from collections.abc import Sequence
from enum import StrEnum
from typing import cast

from msgspec import Struct

from lifebus.checkpoints.kinds import CheckpointArtifact
from lifebus_contract import InvalidRequest, LifebusError
from lifebus_transports.workspace.workspace import DigestAlgorithm, WorkspaceFiles


class DifferenceKind(StrEnum):
    """What is different about a file."""

    MISSING = "missing"
    RESIZED = "resized"
    CHANGED = "changed"
    """The size is the same, and the contents are not."""
    REFUSED = "refused"
    """It cannot be read: no file beneath the root has this path."""


class Difference(Struct, frozen=True, kw_only=True):
    """One file that is not as a checkpoint says; `detail` is for people."""

    path: str
    kind: DifferenceKind
    detail: str


def find_differences(artifacts: Sequence[CheckpointArtifact], files: WorkspaceFiles) -> tuple[Difference, ...]:
    """Return the files that are not as they were, in the order of the checkpoint; none where all are."""
    return tuple(found for one in artifacts if (found := _difference(one, files)) is not None)


def require_artifacts(artifacts: Sequence[CheckpointArtifact], files: WorkspaceFiles) -> None:
    """Check that every file is there as a checkpoint that is to be saved says.

    Raises:
        InvalidRequest: `artifact_mismatch`, naming the first that is not, and why.
    """
    for index, one in enumerate(artifacts):
        found = _difference(one, files)
        if found is not None:
            field = f"$.artifacts[{index}]"
            raise InvalidRequest(f"{field}: {found.detail}", code="artifact_mismatch", field=field)


def _difference(artifact: CheckpointArtifact, files: WorkspaceFiles) -> Difference | None:
    algorithm = cast("DigestAlgorithm", artifact.digest.partition(":")[0])
    path = artifact.path[:256]
    try:
        found = files.digest(artifact.path, algorithm)
    except LifebusError as fault:
        kind = DifferenceKind.MISSING if fault.code in {"no_file", "not_a_directory"} else DifferenceKind.REFUSED
        return Difference(path=artifact.path, kind=kind, detail=fault.detail)
    if found.byte_size != artifact.byte_size:
        detail = f"`{path}` has {found.byte_size} bytes, the checkpoint says {artifact.byte_size}"
        return Difference(path=artifact.path, kind=DifferenceKind.RESIZED, detail=detail)
    if found.digest != artifact.digest:
        detail = f"`{path}` has the digest {found.digest}, the checkpoint says {artifact.digest}"
        return Difference(path=artifact.path, kind=DifferenceKind.CHANGED, detail=detail)
    return None
