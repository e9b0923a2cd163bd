"""The observer's last call when no broker took everything: our own hook, whose spool keeps it for the next broker."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

import lifebus
from lifebus.observer.sender import ObservedRun
from lifebus_transports.hooks.filled_pipe import filled_pipe
from lifebus_transports.messages.signals import ObservedLoss

_HOOK: Final = "app_server_end"
"""The hook's name (lifebus_adapters.shared.own_hooks)."""


def call_final_hook(run: ObservedRun, runtime_dir: Path, code: int | None, lost: ObservedLoss, seconds: float) -> None:
    """Report how the app-server ended and how much was not reported; errors are ignored, for nobody is left to know.

    The hook is waited for so many `seconds`.  It ends by itself within 300 ms of its start, so one that a busy machine
    starts late is left to itself: killed, it would take along the only word of what was lost.
    """
    call = {
        "hook_event_name": _HOOK,
        "run_id": run.origin,
        "exit_code": code,
        "missed_messages": lost.messages,
        "missed_bytes": lost.bytes,
    }
    hook = Path(lifebus.__file__ or "").with_name("hook.py")
    command = [sys.executable, "-I", "-S", str(hook), run.adapter_id, _HOOK]
    # The hook's spool belongs to the broker that was not there, so the directories must be the same.
    environment = {**os.environ, "LIFEBUS_RUNTIME_DIR": str(runtime_dir)}
    try:
        stdin = filled_pipe(msgspec.json.encode(call))
        try:
            process = subprocess.Popen(command, stdin=stdin, env=environment)  # noqa: S603  our own file
        finally:
            os.close(stdin)
        process.wait(seconds)
    except (OSError, subprocess.TimeoutExpired):
        return
