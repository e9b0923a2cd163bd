"""A Linux with a systemd of its own: this machine's programs under an overlay, booted, and left as they were.

systemd-nspawn boots it, without a network.  What is written there, users and their homes too, is in memory alone, and
outlives a reboot but not the block.  It needs root, and skips where a kernel or a container permits no mounts.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

from support.command_line import Ran
from support.paths import REPOSITORY
from support.patience import PATIENCE_S

USER: Final = "lifebus-tests"
"""The user who logs in."""
_NEEDED: Final = ("systemd-nspawn", "nsenter", "mount", "useradd", "su")
MISSING: Final = [name for name in _NEEDED if shutil.which(name) is None]
"""What is needed and not installed."""

_LOOK_S: Final = 0.05
_UP: Final = {"running", "degraded"}
_STEP_S: Final = 3 * PATIENCE_S
"""A login starts a service manager, and a script there starts the interpreter a dozen times."""


class BootedSystem:
    """The system under the directory `root`; `boot` it first."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root = root
        self._log = log
        self._container: subprocess.Popen[bytes] | None = None
        self._first_process = 0

    def boot(self) -> None:
        """Start its first process and wait until what it starts at boot is started."""
        words = ["systemd-nspawn", f"--directory={self.root}", "--machine=lifebus-tests", "--private-network"]
        words += ["--register=no", "--console=pipe", "--quiet", "--boot"]
        if not Path("/run/systemd/system").exists():
            words.insert(1, "--keep-unit")  # no systemd here could make a unit for it
        with self._log.open("ab") as log:
            # The least that has logins: other services of this machine stay away.
            end = ["systemd.unit=basic.target"]
            self._container = subprocess.Popen([*words, *end], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE_S
        while not self._is_up():
            assert self._container.poll() is None, f"it does not boot:\n{self._log.read_text(errors='replace')}"
            assert time.monotonic() < until, "it does not boot in time"
            time.sleep(_LOOK_S)
        self.run("systemctl", "start", "dbus.service", "systemd-logind.service")

    def shut_down(self) -> None:
        """Stop everything in order, as before a reboot."""
        if self._container is None:
            return
        self._container.terminate()  # to systemd-nspawn this is the power button
        try:
            self._container.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._container.kill()
            self._container.wait(PATIENCE_S)
        self._container = None

    def run(self, *words: str, code: int | None = 0) -> Ran:
        """Run a command in it as root, outside of any session."""
        inside = ["nsenter", f"--target={self._first_process}", "--all", "--", *words]
        done = subprocess.run(inside, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_STEP_S)
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert code is None or ran.code == code, (words, ran)
        return ran

    def log_in(self, script: str, code: int | None = 0) -> Ran:
        """Have the user log in, run a script, and log out."""
        return self.run("su", "--login", USER, "--command", script, code=code)

    def logged_out(self) -> None:
        """Wait until the user's service manager has ended, which it does some seconds after the last session."""
        until = time.monotonic() + PATIENCE_S
        while USER in self.run("loginctl", "list-users", "--no-legend").out:
            assert time.monotonic() < until, "the user is not logged out in time"
            time.sleep(_LOOK_S)

    def open_up(self) -> None:
        """Let the user reach the Python that runs the tests and this repository, which may be root's alone."""
        for place in (Path(sys.base_prefix), Path(sys.prefix), REPOSITORY):
            for folder in (place.resolve(), *place.resolve().parents[:-1]):
                inside = self.root / folder.relative_to("/")
                inside.chmod(inside.stat().st_mode | 0o055)

    def _is_up(self) -> bool:
        container = psutil.Process(self._container.pid) if self._container else None
        children = container.children() if container and container.is_running() else []
        if not children:
            return False
        self._first_process = children[0].pid
        return self.run("systemctl", "is-system-running", code=None).out.strip() in _UP


@contextmanager
def booted_system(directory: Path) -> Iterator[BootedSystem]:
    """A system with a user, booted; nothing of it is left after the block."""
    memory, root = directory / "memory", directory / "root"
    memory.mkdir()
    root.mkdir()
    layers = f"lowerdir=/,upperdir={memory / 'upper'},workdir={memory / 'work'}"
    _mount("tmpfs", "mode=0755,size=1g", memory)
    try:
        for name in ("upper", "work"):
            (memory / name).mkdir()
        _mount("overlay", layers, root)
        try:
            yield from _booted(root, directory / "console")
        finally:
            subprocess.run(["umount", "--lazy", str(root)], check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(memory)], check=True)


def _booted(root: Path, log: Path) -> Iterator[BootedSystem]:
    # A machine's id is one machine's: systemd-nspawn refuses to share journals of the same.
    (root / "etc/machine-id").unlink(missing_ok=True)
    system = BootedSystem(root, log)
    try:
        system.boot()
        system.run("useradd", "--create-home", "--shell", "/bin/bash", USER)
        system.open_up()
        yield system
    finally:
        system.shut_down()


def _mount(kind: str, options: str, target: Path) -> None:
    done = subprocess.run(["mount", "-t", kind, "-o", options, kind, str(target)], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no {kind} can be mounted here: {os.fsdecode(done.stderr).strip()}")
