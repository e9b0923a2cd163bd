"""Artifacts of a step: what is there is digested, and what is not, or lies outside, has a reason."""

import os
import subprocess
from pathlib import Path

import pytest

from lifebus_contract.runs import Artifact
from lifebus_supervisor.runtime.artifacts import ArtifactCheck, check_artifacts


async def test_what_is_there_has_its_size_and_the_digest_that_others_compute(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/app.tar").write_bytes(os.urandom(3_000_000))
    (tmp_path / "empty").touch()
    sums = subprocess.run(["sha256sum", "dist/app.tar", "empty"], cwd=tmp_path, capture_output=True, check=True)  # noqa: ASYNC221
    first, second = (line.split()[0].decode() for line in sums.stdout.splitlines())
    assert await check_artifacts(str(tmp_path), ["dist/app.tar", "empty"]) == ArtifactCheck(
        artifacts=(
            Artifact(path="dist/app.tar", byte_size=3_000_000, digest=f"sha256:{first}"),
            Artifact(path="empty", byte_size=0, digest=f"sha256:{second}"),
        )
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none", "is not there"),
        ("folder", "is no regular file"),
        ("folder/", "directory"),
        ("link", "symbolic link"),
        ("linked/secret", "symbolic link"),
        ("../outside/secret", "goes up"),
        ("/etc/passwd", "absolute"),
    ],
)
async def test_what_is_missing_or_outside_says_which_and_why(tmp_path: Path, path: str, reason: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside, root / "folder"):
        folder.mkdir()
    (outside / "secret").write_text("secret")
    (root / "there").write_text("there")
    (root / "link").symlink_to(outside / "secret")
    (root / "linked").symlink_to(outside)
    checked = await check_artifacts(str(root), ["there", path])
    assert [one.path for one in checked.artifacts] == ["there"]
    (fault,) = checked.faults
    assert reason in fault
    assert path.rstrip("/") in fault


async def test_a_root_that_is_gone_is_one_fault_and_no_artifacts_is_no_work(tmp_path: Path) -> None:
    gone = await check_artifacts(str(tmp_path / "gone"), ["a", "b"])
    assert (gone.artifacts, len(gone.faults)) == ((), 1)
    assert await check_artifacts(str(tmp_path / "gone"), []) == ArtifactCheck()
