"""What Python keeps of a file of ours that it has run: bytecode, in a folder beside the file."""

from pathlib import Path

from lifebus_broker.disk import Disk


def remove_bytecode(disk: Disk, source: Path) -> None:
    """Remove the bytecode of one file, and the folder of it once that is empty; a folder that is a link stays.

    Raises:
        OSError: the system refused.
    """
    folder = source.parent / "__pycache__"
    if source.suffix != ".py" or folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        # The second dot parts the name from the interpreter's tag; what a write left unfinished goes on behind it.
        if path.name.startswith(f"{source.stem}."):
            disk.unlink(path)
    disk.sync_directory(folder)
    if not any(folder.iterdir()):
        disk.remove_directory(folder)
        disk.sync_directory(source.parent)
