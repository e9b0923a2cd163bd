"""A service manager for tests, as `systemctl` or `launchctl` on the PATH: it records what it is told, and does it.

It reads units by the rules of systemd.syntax and property lists by plistlib, starts what they name with nothing in the
environment but what they name, and waits for `READY=1` where the unit says so.  It is a program of the standard
library alone; `put_manager` writes one into a directory.
"""

import json
import os
import plistlib
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_PATIENCE_S = float(os.environ.get("LIFEBUS_TEST_PATIENCE") or 60)


def put_manager(directory: Path, name: str) -> Path:
    """Make the program; what it was told is in the file of the same name with `.told`, one JSON list a line."""
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!{sys.executable} -I\n" + Path(__file__).read_text())
    program.chmod(0o700)
    return program


def told(program: Path) -> list[list[str]]:
    """Return the arguments of every call so far."""
    file = program.with_suffix(".told")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class Manager:
    """What it runs is kept in a file between calls."""

    def __init__(self, program: Path) -> None:
        self.home = Path(os.environ["HOME"])
        self._state = program.with_suffix(".pid")

    @property
    def pid(self) -> int:
        """The process that runs, 0 where none does."""
        if not self._state.exists():
            return 0
        pid = int(self._state.read_text())
        return pid if _runs(pid) else 0

    def start(self, command: list[str], environment: dict[str, str], folder: Path, *, notify: bool) -> int:
        address = self._state.with_suffix(".sock")
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
            listening.bind(str(address))
            listening.settimeout(_PATIENCE_S)
            own = {"HOME": str(self.home), "NOTIFY_SOCKET": str(address)} if notify else {"HOME": str(self.home)}
            null = subprocess.DEVNULL
            process = subprocess.Popen(
                command, env=own | environment, cwd=folder, stdin=null, stdout=null, stderr=null, start_new_session=True
            )
            self._state.write_text(str(process.pid))
            while notify and process.poll() is None:
                listening.settimeout(0.1)
                try:
                    if b"READY=1" in listening.recv(4_096):
                        break
                except TimeoutError:
                    continue
        code = process.poll()
        process.returncode = 0
        return code or 0

    def stop(self) -> None:
        if pid := self.pid:
            os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + _PATIENCE_S
            while _runs(pid) and time.monotonic() < until:
                time.sleep(0.01)
        self._state.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Its parent has ended, and whoever inherited it need not ask how it ended.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it has just gone, which the next look tells; or this is no Linux
        return True


def _values(unit: Path, key: str) -> list[str]:
    return [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith(f"{key}=")]


def _words(text: str) -> list[str]:
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(text)]


def systemctl(manager: Manager, words: list[str]) -> int:
    """Do what `systemctl --user` is told."""
    verb, unit = words[1], manager.home / ".config/systemd/user/lifebus.service"
    link = unit.parent / "default.target.wants" / unit.name
    if verb == "enable":
        link.parent.mkdir()
        link.symlink_to(unit)
    elif verb == "restart":
        manager.stop()
        environment = dict(
            word.replace("%%", "%").split("=", 1) for text in _values(unit, "Environment") for word in shlex.split(text)
        )
        command = _words(_values(unit, "ExecStart")[0])
        return manager.start(command, environment, manager.home, notify=_values(unit, "Type") == ["notify"])
    elif verb == "disable":
        manager.stop()
        link.unlink()
        link.parent.rmdir()
    elif verb == "show":
        running = "active" if manager.pid else "inactive"
        shown = {"LoadState": "loaded", "ActiveState": running, "SubState": "running", "MainPID": manager.pid}
        shown |= {"UnitFileState": "enabled" if link.is_symlink() else "disabled", "NRestarts": 0, "Result": "success"}
        sys.stdout.write("\n".join(f"{name}={value}" for name, value in shown.items()))
    return 0


def launchctl(manager: Manager, words: list[str]) -> int:
    """Do what `launchctl` is told."""
    loaded = manager.home / ".launchd-has"
    if words[0] == "print":
        if not loaded.exists():
            sys.stderr.write("Could not find service\n")
            return 113
        sys.stdout.write(f"gui/0/dev.lifebus.broker = {{\n\tstate = {'running' if manager.pid else 'not running'}\n")
        sys.stdout.write(f"\truns = 1\n\tpid = {manager.pid}\n\tlast exit code = (never exited)\n}}")
    elif words[0] == "bootout":
        manager.stop()
        loaded.unlink()
    elif words[0] in {"bootstrap", "kickstart"}:
        if words[0] == "bootstrap":
            loaded.write_text(words[2])
        agent = plistlib.loads(Path(loaded.read_text()).read_bytes())
        folder, environment = Path(agent["WorkingDirectory"]), agent["EnvironmentVariables"]
        return manager.start(agent["ProgramArguments"], environment, folder, notify=False)
    return 0


if __name__ == "__main__":
    own, arguments = Path(sys.argv[0]), sys.argv[1:]
    with own.with_suffix(".told").open("a") as record:
        record.write(json.dumps(arguments) + "\n")
    sys.exit((systemctl if own.name == "systemctl" else launchctl)(Manager(own), arguments))
