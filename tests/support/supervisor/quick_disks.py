"""Disks that crash, as the installer's tests have them, and that wait for no disk: what is tested is the order."""

from pathlib import Path

from support.installer.crashing_disk import CountingDisk, CrashingDisk


class Quick(CountingDisk):
    """Counts, and waits for no disk."""

    def sync(self, descriptor: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""


class QuickCrash(CrashingDisk, Quick):
    """Crashes before the nth call."""
