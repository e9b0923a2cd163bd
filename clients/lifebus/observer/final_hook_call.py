"""The observer's last call when no broker took everything: our own hook, whose spool keeps it for the next broker."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

import lifebus
from lifebus.observer.sender import ObservedRun
from lifebus_transports.messages.signals import ObservedLoss

_HOOK: Final = "app_server_end"
"""The hook's name (lifebus_adapters.shared.own_hooks)."""


def call_final_hook(run: ObservedRun, runtime_dir: Path, code: int | None, lost: ObservedLoss, seconds: float) -> None:
    """Report how the app-server ended and how much was not reported; errors are ignored, for nobody is left to know.

    The hook may take so many `seconds`; by itself it ends within 300 ms.
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
    stdin = msgspec.json.encode(call)
    try:
        subprocess.run(command, input=stdin, env=environment, timeout=seconds, check=False)  # noqa: S603  our own file
    except (OSError, subprocess.TimeoutExpired):
        return
