"""The broker in the process of `lifebus up`, and the command lines that need no parser."""

import gc
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lifebus.cli.log_library import load_log_library
from lifebus.cli.terminal import color_wanted, say
from lifebus.cli.wording.plain_words import read_plain_words

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lifebus_supervisor.configuration.settings import Settings
    from lifebus_supervisor.daemon.composition import Daemon

_FLAGS: Final = {
    "--runtime-dir": "runtime_dir",
    "--state-dir": "state_dir",
    "--ledger-path": "ledger.path",
    "--ledger-backend": "ledger.backend",
    "--log-level": "log.level",
    "--log-format": "log.format",
    "--log-file": "log.file",
}
"""The flags of one word each that a plain command line may have, with their settings."""

_PATHS: Final = ("runtime_dir", "state_dir", "ledger.path")


def up_plainly(words: "Sequence[str]") -> int | None:
    """Run `lifebus up` with flags of one word each, in the foreground; None where the parser has to read the words.

    The parser and what it loads stay in the memory of a process as long as that lives.
    """
    found = read_plain_words(words, values=(*_FLAGS, "--config"), switches=("--http",))
    if found is None:
        return None
    with _without_collecting():
        load_log_library()
        from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415

    given = found.get("--config") or os.environ.get("LIFEBUS_CONFIG")
    config = Path(given) if given else None
    flags: dict[str, Any] = {setting: found[flag] for flag, setting in _FLAGS.items() if flag in found}
    flags |= {name: Path(flags[name]) for name in _PATHS if name in flags}
    flags |= {"gateway.enabled": True} if "--http" in found else {}
    settings, _ = load(flags, config_path=config)
    if config is not None:
        name_config(config)
    return run_broker(settings)


def name_config(config: Path) -> None:
    """Have the commands that the broker runs for itself read the same configuration file."""
    os.environ["LIFEBUS_CONFIG"] = str(config.absolute())


def run_broker(found: "Settings") -> int:
    """Run the broker in this process."""
    from lifebus_supervisor.daemon.log_file import LogFile  # noqa: PLC0415
    from lifebus_supervisor.daemon.logging import configure  # noqa: PLC0415
    from lifebus_supervisor.daemon.readiness import take_address  # noqa: PLC0415

    # First: no program that is started from here on may see it.
    address = take_address()
    file = LogFile(found.log_file) if found.log_file is not None else None
    # Before anything else logs: what comes earlier would be in another form.
    limit = configure(found.log, file, color=file is None and color_wanted(sys.stderr))
    code = _run(found, address)
    # Said at the end, when the log has room again: a flood of lines must not hide that lines are missing.
    if limit.dropped:
        import structlog  # noqa: PLC0415

        structlog.get_logger("lifebus.log").warning("log_lines_dropped", total=limit.dropped)
    return code


def _run(settings: "Settings", address: str | None) -> int:
    with _without_collecting():
        import anyio  # noqa: PLC0415

        from lifebus_supervisor.daemon.lifecycle import run  # noqa: PLC0415
        from lifebus_supervisor.daemon.readiness import READY, tell  # noqa: PLC0415

    def ready(daemon: "Daemon") -> None:
        if address is not None:
            tell(address, READY)
        # Where things are is for people; a service manager reads the log.
        elif sys.stderr.isatty():
            _greet(daemon)

    async def serve() -> int:
        return await run(settings, on_ready=ready)

    return anyio.run(serve)


@contextmanager
def _without_collecting() -> "Generator[None]":
    """Import within the block while nothing is collected, and never look at it again.

    What is imported stays: collecting while hundreds of modules load is a sixth of the start, and finds nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def places_text(settings: "Settings") -> str:
    """Return where the sockets and the ledger are, a line each."""
    return f"  sockets  {settings.runtime_dir}\n  ledger   {settings.ledger_location}"


def _greet(daemon: "Daemon") -> None:
    """Say where things are, and what to do next."""
    say("lifebus is up", color="green")
    say(places_text(daemon.settings))
    say_link(daemon.settings)
    say("  next     `lifebus tail` in another terminal; Ctrl-C stops", color="dim")


def say_link(settings: "Settings") -> None:
    """Say where the dashboard is, if the broker has a gateway; the link works once."""
    if not settings.gateway.enabled:
        return
    from lifebus.cli.bus.dashboard import make_link  # noqa: PLC0415

    say(f"  page     {make_link(settings.runtime_dir).url}")
    say("           works once, for ten minutes; `lifebus dashboard` opens another", color="dim")
