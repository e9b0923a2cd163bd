"""Files that a step was to leave: looked at beneath the root when it has ended, and digested."""

from collections.abc import Sequence

import anyio.to_thread
from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_contract.runs import Artifact
from lifebus_transports.workspace.workspace import WorkspaceFiles


class ArtifactCheck(Struct, frozen=True, kw_only=True):
    """What is there, and of what is not, why: a sentence each."""

    artifacts: tuple[Artifact, ...] = ()
    faults: tuple[str, ...] = ()


async def check_artifacts(root: str, paths: Sequence[str]) -> ArtifactCheck:
    """Return size and digest of each path beneath the root; a link, or a file outside, counts as missing."""
    if not paths:
        return ArtifactCheck()
    # Abandoned: the digest of a large file must not keep a run from being aborted.
    return await anyio.to_thread.run_sync(_check, root, tuple(paths), abandon_on_cancel=True)


def _check(root: str, paths: Sequence[str]) -> ArtifactCheck:
    found: list[Artifact] = []
    faults: list[str] = []
    try:
        with WorkspaceFiles(root) as files:
            for path in paths:
                try:
                    made = files.digest(path)
                except LifebusError as fault:
                    faults.append(fault.detail)
                else:
                    found.append(Artifact(path=path, byte_size=made.byte_size, digest=made.digest))
    except LifebusError as fault:  # there is no such root any more
        faults.append(fault.detail)
    return ArtifactCheck(artifacts=tuple(found), faults=tuple(faults))
