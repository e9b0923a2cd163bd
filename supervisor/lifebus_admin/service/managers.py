"""The user's service manager: systemd or launchd, asked by its own program."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from lifebus_admin.service.definition import ServiceDefinition
from lifebus_admin.service.launchd import LABEL, agent_state, agent_text
from lifebus_admin.service.state import ServiceState
from lifebus_admin.service.systemd import PROPERTIES, UNIT, unit_state, unit_text
from lifebus_contract import LifebusError
from lifebus_transports.directories import home_directory

_TIMEOUT_S: Final = 660
"""More than a start may take by the unit."""


class ServiceControl(Protocol):
    """What starts programs at login: where its file is, what stands in it, and what is done with it."""

    name: str
    path: Path

    def text(self, definition: ServiceDefinition) -> str:
        """Return the contents of its file."""
        ...

    def start(self) -> None:
        """Have it read the file, start the service at every login from now on, and now.

        Raises:
            LifebusError: it refuses (`service_failed`).
        """

    def restart(self) -> None:
        """Start the service, and end the one that runs before that.

        Raises:
            LifebusError: it refuses (`service_failed`).
        """

    def stop(self) -> None:
        """End the service, and start it at no login any more.

        Raises:
            LifebusError: it refuses (`service_failed`).
        """

    def forget(self) -> None:
        """Have it notice that the file is gone."""

    def state(self) -> ServiceState:
        """Return what it says of the service."""
        ...


def find_manager(environ: Mapping[str, str] = os.environ) -> ServiceControl:
    """Return the manager of this user's session.

    Raises:
        LifebusError: there is none that answers (`no_service_manager`).
    """
    path = environ.get("PATH")
    if shutil.which("launchctl", path=path):
        return Launchd(environ)
    why = "there is neither systemd nor launchd here"
    if shutil.which("systemctl", path=path):
        # Without a session, as in a container or under `su`, the program is there and nobody answers it.
        asked = _run(("systemctl", "--user", "show-environment"))
        if asked.returncode == 0:
            return Systemd(environ)
        why = f"systemd does not serve this user here: {_said(asked)}"
    raise LifebusError(
        f"{why}; start the broker with `lifebus up --detach`. Put that line into your shell's profile (~/.profile) to "
        "have a broker after every login: while one runs, it starts no second one",
        code="no_service_manager",
    )


def restart_advice(environ: Mapping[str, str] = os.environ) -> str:
    """Return the command that restarts the broker of this user, for people."""
    if any(kind(environ).path.exists() for kind in (Systemd, Launchd)):
        return "`lifebus service restart`"
    return "`lifebus down`, then `lifebus up --detach`"


class Systemd:
    """systemd's manager of one user."""

    name = "systemd"

    def __init__(self, environ: Mapping[str, str]) -> None:
        config = environ.get("XDG_CONFIG_HOME", "")
        base = Path(config) if config.startswith("/") else home_directory(environ) / ".config"
        self.path = base / "systemd" / "user" / UNIT

    def text(self, definition: ServiceDefinition) -> str:
        """Return the unit."""
        return unit_text(definition)

    def start(self) -> None:
        """As `ServiceControl.start`."""
        self._do("daemon-reload")
        self._do("enable", UNIT)
        self.restart()

    def restart(self) -> None:
        """As `ServiceControl.restart`."""
        self._forget_failures()
        self._do("restart", UNIT)

    def stop(self) -> None:
        """As `ServiceControl.stop`."""
        self._do("disable", "--now", UNIT)

    def forget(self) -> None:
        """As `ServiceControl.forget`."""
        self._do("daemon-reload")
        # A unit that failed stays known by its failure.
        self._forget_failures()

    def state(self) -> ServiceState:
        """As `ServiceControl.state`."""
        return unit_state(self._do("show", UNIT, f"--property={PROPERTIES}"))

    @staticmethod
    def _forget_failures() -> None:
        # The unit's limit counts the starts that a person asks for, too.  What is not loaded has nothing to forget.
        _run(("systemctl", "--user", "reset-failed", UNIT))

    @staticmethod
    def _do(*words: str) -> str:
        return _done(("systemctl", "--user", *words))


class Launchd:
    """launchd, in the domain of the user's own session."""

    name = "launchd"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = home_directory(environ) / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"
        self._service = f"{self._domain}/{LABEL}"

    def text(self, definition: ServiceDefinition) -> str:
        """Return the property list."""
        return agent_text(definition)

    def start(self) -> None:
        """As `ServiceControl.start`."""
        if self.state().loaded:  # what is loaded is not read again
            _done(("launchctl", "bootout", self._service))
        _done(("launchctl", "enable", self._service))
        _done(("launchctl", "bootstrap", self._domain, str(self.path)))

    def restart(self) -> None:
        """As `ServiceControl.restart`; whoever asks has stopped the broker, because launchd would kill it."""
        if not self.state().loaded:
            _done(("launchctl", "bootstrap", self._domain, str(self.path)))
        _done(("launchctl", "kickstart", self._service))

    def stop(self) -> None:
        """As `ServiceControl.stop`."""
        if self.state().loaded:
            _done(("launchctl", "bootout", self._service))

    def forget(self) -> None:
        """Do nothing: what is not loaded is not known."""

    def state(self) -> ServiceState:
        """As `ServiceControl.state`."""
        asked = _run(("launchctl", "print", self._service))
        return agent_state(asked.stdout if asked.returncode == 0 else None)


def _done(command: tuple[str, ...]) -> str:
    """Run a command and return what it printed.

    Raises:
        LifebusError: it failed (`service_failed`).
    """
    ran = _run(command)
    if ran.returncode:
        raise LifebusError(f"`{' '.join(command)}` failed: {_said(ran)}", code="service_failed")
    return ran.stdout


def _run(command: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(  # noqa: S603  our own words, and the user's own manager
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return subprocess.CompletedProcess(command, 1, "", str(fault))


def _said(ran: "subprocess.CompletedProcess[str]") -> str:
    text = (ran.stderr or ran.stdout).strip()
    return " ".join(text.split())[:400] or f"exit code {ran.returncode}"
