"""The rules of `[[notifications]]`: a broker that has some runs `lifebus notify --rules` beside itself."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import structlog

from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.own_commands import own_command
from lifebus_transports.processes.child import ChildProcess
from lifebus_transports.processes.output_lines import OutputLines

_WORDS: Final = ("notify", "--rules")
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0
_STEADY_S: Final = 60.0
"""How long the command has to run until its next failure counts as the first one."""

_TERM_S: Final = 2.0
"""How long it may take to finish what it is sending when the broker stops."""

FINAL: Final = frozenset({1, 2, 78})
"""Exit codes after which it is not started again: another process notifies under these names, or a rule is wrong."""

_log = structlog.get_logger("lifebus.notifications")


@asynccontextmanager
async def running_rules(settings: Settings) -> AsyncGenerator[None]:
    """Have the rules of the settings carried out within the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_keep_running, settings)
        yield
        tasks.cancel_scope.cancel()


async def _keep_running(settings: Settings) -> None:
    """Run the command, and again after a failure, with pauses that double."""
    pause_s = _FIRST_PAUSE_S
    while True:
        began_s = anyio.current_time()
        code = await _run_once(settings)
        if code in FINAL:
            _log.warning("notification_rules_given_up", exit_code=code)
            return
        if anyio.current_time() - began_s > _STEADY_S:
            pause_s = _FIRST_PAUSE_S
        _log.warning("notification_rules_ended", exit_code=code, again_in_s=pause_s)
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _run_once(settings: Settings) -> int | None:
    """Run the command to its end; return its exit code, None where it could not be started."""
    output = OutputLines(lambda line: _log.info("notification_rules", line=line))
    try:
        child = ChildProcess(own_command(settings, _WORDS), output.take, on_errors=output.take)
    except OSError as fault:
        _log.warning("notification_rules_not_started", fault=str(fault))
        return None
    try:
        await child.ending.wait()
    finally:
        await child.end(_TERM_S)
    return child.status
