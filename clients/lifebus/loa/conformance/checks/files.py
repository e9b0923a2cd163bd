"""File access: below the project root, as the disk shows it, and never outside."""

from pathlib import Path
from typing import Any, Final

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.process import is_refused
from lifebus.loa.conformance.project import CheckFailed
from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import Existence, FileContent, FileWrite, ListFolder, Listing, PathRequest, RuntimeFault

_FILES: Final = CheckList(Level.REQUIRED, "File system access works")
_TEXT: Final = "first\nsecond – ünïcode 🗂\n"


@_FILES.check("files.write")
async def _write(scene: Scene) -> str:
    await scene.do("write", FileWrite(path="written.txt", content=_TEXT))
    await scene.do("write", FileWrite(path="written.txt", content=_TEXT * 2))
    if not _holds(scene.project.root / "written.txt", _TEXT * 2):
        raise CheckFailed("the file on the disk is not what was written")
    return "a file was written, and written over, below the project root"


@_FILES.check("files.read")
async def _read(scene: Scene) -> str:
    (scene.project.root / "read.txt").write_text(_TEXT)
    if (await scene.ask("read", PathRequest(path="read.txt"), FileContent)).content != _TEXT:
        raise CheckFailed("what was read is not what stands in the file")
    if not await is_refused(scene.do("read", PathRequest(path="no-such-file"))):
        raise CheckFailed("a file that is not there can be read")
    return "the text of a file was read; one that is not there was refused"


@_FILES.check("files.exists")
async def _exists(scene: Scene) -> str:
    (scene.project.root / "there.txt").touch()
    for path, expected in (("there.txt", True), ("not-there.txt", False)):
        if (await scene.ask("exists", PathRequest(path=path), Existence)).exists is not expected:
            raise CheckFailed(f"`exists` says {not expected} about `{path}`")
    return "true for a file that is there, false for one that is not"


@_FILES.check("files.list")
async def _list(scene: Scene) -> str:
    folder = scene.project.root / "listed"
    (folder / "inner").mkdir(parents=True)
    (folder / "one.txt").touch()
    found = (await scene.ask("list", ListFolder(directory="listed"), Listing)).entries
    # The contract leaves open whether these are names or paths.
    if sorted(found) not in (["inner", "one.txt"], ["listed/inner", "listed/one.txt"]):
        raise CheckFailed(f"a folder with `inner` and `one.txt` is listed as {list(found)}"[:500])
    return "the names in a folder"


@_FILES.check("files.delete")
async def _delete(scene: Scene) -> str:
    file = scene.project.root / "deleted.txt"
    file.touch()
    await scene.do("delete", PathRequest(path="deleted.txt"))
    if file.exists():
        raise CheckFailed("the file is still there")
    return "a file was deleted from the disk"


@_FILES.check("files.beneath_root")
async def _beneath_root(scene: Scene) -> str:
    root = scene.project.root
    beside = root.parent / f"{root.name}-evil"
    beside.mkdir()
    secret = beside / "secret.txt"
    secret.write_text("secret")
    (root / "inner").mkdir()
    for path in (str(secret), f"../{beside.name}/secret.txt", f"inner/../../{beside.name}/secret.txt"):
        await _is_refused(scene, path)
    if not _holds(secret, "secret") or list(beside.iterdir()) != [secret]:
        raise CheckFailed("files beside the project root were changed")
    return "an absolute path and two with `..` were refused by every method"


@_FILES.check("files.symlinks")
async def _symlinks(scene: Scene) -> str:
    root = scene.project.root
    outside = root.parent / "outside"
    outside.mkdir()
    secret = outside / "secret.txt"
    secret.write_text("secret")
    (root / "link").symlink_to(outside)
    (root / "link.txt").symlink_to(secret)
    for path in ("link/secret.txt", "link.txt"):
        if not await is_refused(scene.do("read", PathRequest(path=path))):
            raise CheckFailed(f"`{path}` leads out of the project root and can be read")
    # Writing may replace the link itself; what it points to must stay as it is.
    for path in ("link/secret.txt", "link.txt", "link/new.txt"):
        await is_refused(scene.do("write", FileWrite(path=path, content="changed")))
    if not _holds(secret, "secret") or list(outside.iterdir()) != [secret]:
        raise CheckFailed("files outside the project root were changed through a symbolic link")
    return "symbolic links that lead out were not followed"


def _holds(file: Path, text: str) -> bool:
    """Whether a file is there and holds a text; a runtime may have left anything in its place."""
    try:
        return file.read_bytes() == text.encode()
    except OSError:
        return False


async def _is_refused(scene: Scene, path: str) -> None:
    """Demand that no method does anything with a path outside."""
    folder = path.rpartition("/")[0]
    asked: list[tuple[str, Any]] = [
        ("read", PathRequest(path=path)),
        ("write", FileWrite(path=path, content="changed")),
        ("list", ListFolder(directory=folder)),
        ("delete", PathRequest(path=path)),
    ]
    for method, params in asked:
        if not await is_refused(scene.do(method, params)):
            raise CheckFailed(f"`{method}` does not refuse `{path}`")
    try:
        found = (await scene.ask("exists", PathRequest(path=path), Existence)).exists
    except RuntimeFault:
        return
    if found:
        raise CheckFailed(f"`exists` says that `{path}` is there")


CHECKS: Final[tuple[RuntimeCheck, ...]] = tuple(_FILES.checks)
