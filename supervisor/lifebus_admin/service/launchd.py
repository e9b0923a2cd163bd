"""An agent of launchd: its property list, and what launchd says of it.  Pure."""

import plistlib
import re
from typing import Any, Final

from lifebus_admin.service.definition import ServiceDefinition
from lifebus_admin.service.state import ServiceState

LABEL: Final = "dev.lifebus.broker"
"""The name of the agent."""

_FIELD: Final = re.compile(r"^\s*(state|pid|runs|last exit code) = (.+)$", re.MULTILINE)


def agent_text(definition: ServiceDefinition) -> str:
    """Return the property list: started at login and after a failure, and not after `lifebus down`."""
    agent: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": list(definition.command),
        "EnvironmentVariables": dict(definition.environment),
        "WorkingDirectory": definition.home,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 30,
        # What the broker started ends what it runs in order, and keeps its output, when the broker is gone.
        "AbandonProcessGroup": True,
        "Umask": 0o077,
        # What is written before the broker has its log open
        "StandardOutPath": definition.log,
        "StandardErrorPath": definition.log,
    }
    return plistlib.dumps(agent, sort_keys=False).decode()


def agent_state(printed: str | None) -> ServiceState:
    """Return what the answer of `launchctl print` means; None stands for an agent that launchd does not know."""
    if printed is None:
        return ServiceState(loaded=False, at_login=False, running=False, pid=None, restarts=None, words="not loaded")
    # The first of each: parts of the answer further below have fields of the same names.
    said: dict[str, str] = {}
    for name, value in _FIELD.findall(printed):
        said.setdefault(name, value.strip())
    state, code = said.get("state", "unknown"), said.get("last exit code", "")
    pid, runs = said.get("pid", ""), said.get("runs", "")
    return ServiceState(
        loaded=True,
        at_login=True,
        running=state == "running",
        pid=int(pid) if pid.isdecimal() else None,
        restarts=max(0, int(runs) - 1) if runs.isdecimal() else None,
        words=f"{state}, last exit code {code}" if code and not code.startswith("(") else state,
    )
