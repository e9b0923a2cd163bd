"""`lifebus up`: the broker, in the foreground or in the background."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from lifebus.cli.bus.broker_process import name_config, places_text, run_broker, say_link
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.log_library import load_log_library
from lifebus.cli.terminal import put_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifebus_supervisor.configuration.settings import Settings


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """Settings by flag; each has a variable LIFEBUS_… and a key in the file too."""

    runtime_dir: Path | None = None
    "The directory for the sockets."
    state_dir: Path | None = None
    "The directory for ledger and spool."
    ledger_backend: str | None = None
    "sqlite; or memory, which keeps nothing after the process."
    ledger_path: str | None = None
    "The SQLite file."
    manifests: tuple[Path, ...] | None = None
    "Files with third-party adapter manifests."
    http: bool | None = None
    "Also run the gateway for HTTP and WebSocket."
    log_level: str | None = None
    "debug, info, warning or error."
    log_format: str | None = None
    "auto, json or console."
    log_file: Path | None = None
    "The file for the log; it is rotated at 5 MiB."

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
            "log.file": None if self.log_file is None else str(self.log_file),
        }

    def as_words(self, config: Path | None) -> list[str]:
        """Return these flags as words of a command line that is read in another directory."""
        named = {"--runtime-dir": self.runtime_dir, "--state-dir": self.state_dir, "--ledger-path": self.ledger_path}
        paths: dict[str, Path | str | None] = {**named, "--log-file": self.log_file, "--config": config}
        log = {"--log-level": self.log_level, "--log-format": self.log_format}
        texts = {"--ledger-backend": self.ledger_backend, **log}
        words = [
            *(word for name, path in paths.items() if path is not None for word in (name, _absolute(path))),
            *(word for path in self.manifests or () for word in ("--manifests", _absolute(path))),
            *(word for name, text in texts.items() if text is not None for word in (name, text)),
        ]
        return [*words, "--http"] if self.http else words


def _absolute(path: Path | str) -> str:
    return str(Path(path).expanduser().absolute())


_NOTHING: Final = SettingFlags()


def up(
    *,
    config: Annotated[Path | None, Parameter(env_var="LIFEBUS_CONFIG")] = None,
    detach: bool = False,
    json: bool = False,
    settings: SettingFlags = _NOTHING,
) -> int:
    """Run the broker in the foreground until Ctrl-C or SIGTERM, or with `--detach` in the background.

    With `--detach` the command returns when the broker is ready, or says why it is not; `lifebus down` stops it.

    Args:
        config: The configuration file.
        detach: Run it in the background, with a log file.
        json: With --detach: answer in JSON.
        settings: Settings by flag.
    """
    load_log_library()
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

    if json and not detach:
        raise UsageError("--json: only with --detach; a broker in the foreground answers nothing")
    found, _ = load(settings.as_flags(), config_path=config)
    if config is not None:
        name_config(config)
    return _start(found, settings, config, json=json) if detach else run_broker(found)


def _start(found: "Settings", flags: SettingFlags, config: Path | None, *, json: bool) -> int:
    """Start the broker in the background, and say how that went."""
    from lifebus_admin.service.processes import start_detached  # noqa: PLC0415

    outcome = start_detached(found, flags.as_words(config))
    if json:
        put_json({"pid": outcome.pid, "ready": outcome.ready, "exit_code": outcome.exit_code, **_places(found)})
    if outcome.ready:
        if not json:
            say(f"lifebus is up: process {outcome.pid}", color="green")
            say(places_text(found) + f"\n  log      {found.usual_log_file}")
            say_link(found)
            say("  next     `lifebus tail` follows it; `lifebus down` stops it", color="dim")
        return ExitCode.OK
    _say_not_started(outcome.exit_code, found.usual_log_file, outcome.log)
    return outcome.exit_code if outcome.exit_code is not None and outcome.exit_code > 0 else ExitCode.UNAVAILABLE


def _say_not_started(exit_code: int | None, log: Path, lines: "Sequence[str]") -> None:
    """Say that a broker is not ready, with the end of its log; without an exit code it still runs."""
    if exit_code is None:
        say("lifebus: the broker runs, and is not ready yet", color="yellow")
        say("  `lifebus status` shows when it is; `lifebus down` stops it")
    else:
        how = f"by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"
        say(f"lifebus: the broker did not start: it ended {how}", color="red")
    say(f"  the end of {log}:" if lines else f"  its log is {log}")
    for line in lines:
        say(f"    {line}")


def _places(settings: "Settings") -> dict[str, str]:
    places = {"runtime_dir": settings.runtime_dir, "state_dir": settings.state_dir, "log": settings.usual_log_file}
    return {name: str(path) for name, path in places.items()}
