"""One broker for all tests of a module."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Shell, broker_up
from support.running import short_directory


@pytest.fixture(scope="module")
def bus() -> Iterator[Shell]:
    """A shell beside a running broker with a few receipts: two sessions, a degraded and a failed one."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            for arguments in (
                ("session.started", "--session", "s1", "--key", "k1"),
                ("frame.opened", "--session", "s1", "--frame", "f1", "--prefer", "placement:pre_frame_leading"),
                ("session.started", "--session", "s2", "--require", "renewal.reset.native"),
                ("session.ended", "--session", "s1"),
            ):
                shell.call("emit", *arguments, "--adapter", "codex")
            yield shell


@pytest.fixture
def alone() -> Iterator[Shell]:
    """A shell without a broker."""
    with short_directory() as directory:
        yield Shell(directory)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with two pipes, by which a phase says that it runs, and waits for the test."""
    os.mkfifo(tmp_path / "up")
    os.mkfifo(tmp_path / "down")
    return tmp_path
