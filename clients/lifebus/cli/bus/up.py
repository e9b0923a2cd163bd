"""`lifebus up`: the broker, in the foreground."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from lifebus.cli.terminal import color_wanted, say

if TYPE_CHECKING:
    from lifebus_supervisor.configuration.settings import Settings
    from lifebus_supervisor.daemon.composition import Daemon


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """Settings by flag; each has a variable LIFEBUS_… and a key in the file too."""

    runtime_dir: Path | None = None
    "The directory for the sockets."
    state_dir: Path | None = None
    "The directory for ledger and spool."
    ledger_backend: str | None = None
    "sqlite, or memory, which promises nothing beyond the process."
    ledger_path: str | None = None
    "The SQLite file."
    manifests: tuple[Path, ...] | None = None
    "Files with third-party adapter manifests."
    http: bool | None = None
    "Whether the broker has a gateway for HTTP and WebSocket."
    log_level: str | None = None
    "debug, info, warning or error."
    log_format: str | None = None
    "auto, json or console."

    def as_flags(self) -> dict[str, Any]:
        """Return the values by dotted key; None where a flag was not given."""
        return {
            "runtime_dir": self.runtime_dir,
            "state_dir": self.state_dir,
            "ledger.backend": self.ledger_backend,
            "ledger.path": self.ledger_path,
            "manifests": self.manifests,
            "gateway.enabled": self.http,
            "log.level": self.log_level,
            "log.format": self.log_format,
        }


_NOTHING: Final = SettingFlags()


def up(
    *,
    config: Annotated[Path | None, Parameter(env_var="LIFEBUS_CONFIG")] = None,
    settings: SettingFlags = _NOTHING,
) -> int:
    """Run the broker in the foreground until Ctrl-C or SIGTERM.

    Args:
        config: The configuration file.
        settings: Settings by flag.
    """
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415
    from lifebus_supervisor.daemon.logging import configure  # noqa: PLC0415

    found, _ = load(settings.as_flags(), config_path=config)
    # Before anything else logs: what comes earlier would be in another form.
    limit = configure(found.log, color=color_wanted(sys.stderr))
    code = _run(found)
    # Said at the end, when the log has room again: a flood of lines must not hide that lines are missing.
    if limit.dropped:
        import structlog  # noqa: PLC0415

        structlog.get_logger("lifebus.log").warning("log_lines_dropped", total=limit.dropped)
    return code


def _run(settings: "Settings") -> int:
    import anyio  # noqa: PLC0415

    from lifebus_supervisor.daemon.lifecycle import run  # noqa: PLC0415

    # Where things are is for people; a service manager reads the log.
    async def serve() -> int:
        return await run(settings, on_ready=_greet if sys.stderr.isatty() else None)

    return anyio.run(serve)


def _greet(daemon: "Daemon") -> None:
    """Say where things are, and what to do next."""
    settings = daemon.settings
    say("lifebus is up", color="green")
    say(f"  sockets  {settings.runtime_dir}\n  ledger   {settings.ledger_location}")
    say("  next     `lifebus tail` in another terminal; Ctrl-C stops", color="dim")
