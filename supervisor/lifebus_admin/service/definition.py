"""What the service manager is to run: the command, and the few variables that the broker needs.  Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from lifebus_adapters import OVERRIDES
from lifebus_supervisor.configuration.resolution import setting_variables
from lifebus_supervisor.configuration.settings import Settings

_PLACES: Final = ("PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "LIFEBUS_CONFIG", "LIFEBUS_DATA_DIR")
# Where harnesses keep their files: the broker reads what they write, and runs them as phases
_HARNESSES: Final = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME", "OPENCLAW_HOME", "OPENCODE_CONFIG_DIR")
# Our own variables about one session, such as its id, must not outlive it
_ABOUT_PLACES: Final = ("_HOME", "_DIR", "_PATH", "_OUTFILE")


class ServiceDefinition(Struct, frozen=True, kw_only=True):
    """The command with its arguments, its variables, its home directory and its log."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    home: str
    log: str


def define_service(
    settings: Settings, environ: Mapping[str, str], *, command: Sequence[str], home: str, further: Iterable[str] = ()
) -> ServiceDefinition:
    """Return the service of a broker with these settings; `further` names variables that its programs need.

    A service manager gives a program next to nothing of what a shell has.  The two directories are named in any case,
    so that hooks and clients of this shell find the broker.
    """
    ours = (name for name in OVERRIDES if name.endswith(_ABOUT_PLACES))
    names = sorted({*_PLACES, *_HARNESSES, *setting_variables(), *ours, *further})
    fixed = {
        "LIFEBUS_RUNTIME_DIR": str(settings.runtime_dir),
        "LIFEBUS_STATE_DIR": str(settings.state_dir),
        "LIFEBUS_LOG_FILE": str(settings.usual_log_file),
    }
    found = {name: environ[name] for name in names if environ.get(name)} | fixed
    return ServiceDefinition(
        command=tuple(command), environment=tuple(sorted(found.items())), home=home, log=str(settings.usual_log_file)
    )
