"""A user unit of systemd: its text, and what systemd says of it.  Pure."""

from collections.abc import Iterator
from typing import Final

from lifebus_admin.service.definition import ServiceDefinition
from lifebus_admin.service.state import ServiceState

UNIT: Final = "lifebus.service"
"""The name of the unit."""

PROPERTIES: Final = "LoadState,ActiveState,SubState,UnitFileState,MainPID,NRestarts,Result"
"""What `systemctl show` is asked for."""

# 69: another broker holds the directory; 78: the settings are wrong.  To start again would not help.
_IN_VAIN: Final = "69 78"


def unit_text(definition: ServiceDefinition) -> str:
    """Return the unit: started at login and after a failure, and not after `lifebus down`."""
    return "\n".join(_lines(definition)) + "\n"


def _lines(definition: ServiceDefinition) -> Iterator[str]:
    yield "# Written by `lifebus service install`; `lifebus service remove` takes it out again."
    yield "# Changes of yours: systemctl --user edit lifebus.service"
    yield "[Unit]"
    yield "Description=lifebus, a lifecycle bus for AI coding harnesses"
    yield "StartLimitIntervalSec=300"
    yield "StartLimitBurst=10"
    yield ""
    yield "[Service]"
    # The broker says itself when its sockets are open, so that `systemctl start` returns then.
    yield "Type=notify"
    yield f"ExecStart={' '.join(map(_word, definition.command))}"
    yield "WorkingDirectory=~"
    for name, value in definition.environment:
        yield f"Environment={_quoted(f'{name}={value}')}"
    yield "Restart=on-failure"
    yield "RestartSec=2"
    yield f"RestartPreventExitStatus={_IN_VAIN}"
    # A long history is read before the broker is ready.
    yield "TimeoutStartSec=600"
    yield "TimeoutStopSec=30"
    # What the broker started ends what it runs in order, and keeps its output, when the broker is gone.
    yield "KillMode=process"
    yield "UMask=0077"
    yield ""
    yield "[Install]"
    yield "WantedBy=default.target"


def _word(text: str) -> str:
    """Return one word of a command line: a dollar would stand for a variable."""
    return _quoted(text.replace("$", "$$"))


def _quoted(text: str) -> str:
    """Return text in quotes, in which a percent sign would stand for something of systemd's."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"'


def unit_state(shown: str) -> ServiceState:
    """Return what the answer of `systemctl show` means."""
    said = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    state, detail = said.get("ActiveState", "unknown"), said.get("SubState", "")
    result = said.get("Result", "")
    words = f"{state} ({detail})" if detail else state
    return ServiceState(
        loaded=said.get("LoadState") == "loaded",
        at_login=said.get("UnitFileState") == "enabled",
        running=state in {"active", "reloading"},
        pid=_number(said.get("MainPID")) or None,
        restarts=_number(said.get("NRestarts")),
        words=words if result in {"", "success"} else f"{words}, {result}",
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
