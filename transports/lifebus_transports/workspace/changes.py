"""Every system call that changes something beneath a root, one method each; tests crash between any two."""

import os
from typing import Final

_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileChanges:
    """The file system as writes and deletes use it: names in an open directory.  Every method raises OSError."""

    def make_directory(self, place: int, name: str) -> None:
        """Make a directory, with the mode that the umask allows."""
        os.mkdir(name, dir_fd=place)

    def create(self, place: int, name: str) -> int:
        """Make a new file, with the mode that the umask allows, and return a descriptor."""
        # O_EXCL: nothing that stands there is opened, not even through a link.
        return os.open(name, _NEW, 0o666, dir_fd=place)

    def write(self, descriptor: int, contents: memoryview) -> int:
        """Write what the system takes at once, and return how much that was."""
        return os.write(descriptor, contents)

    def set_owner(self, descriptor: int, user: int, group: int) -> None:
        """Give a new file the owner and group of the old one."""
        os.fchown(descriptor, user, group)

    def set_mode(self, descriptor: int, mode: int) -> None:
        """Give a new file the mode of the old one."""
        os.fchmod(descriptor, mode)

    def sync(self, descriptor: int) -> None:
        """Wait until the file is on the disk."""
        os.fsync(descriptor)

    def sync_directory(self, place: int) -> None:
        """Wait until the directory's names are on the disk."""
        # A descriptor that is only good for names cannot be synced.
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, place: int, source: str, target: str) -> None:
        """Put the source in place of the target."""
        os.rename(source, target, src_dir_fd=place, dst_dir_fd=place)

    def unlink(self, place: int, name: str) -> None:
        """Remove a file's name."""
        os.unlink(name, dir_fd=place)

    def remove_directory(self, place: int, name: str) -> None:
        """Remove an empty directory."""
        os.rmdir(name, dir_fd=place)
