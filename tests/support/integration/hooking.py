"""Hook calls that reach a broker in this process."""

import json
from itertools import count
from typing import Any

from lifebus_adapters import ADAPTERS
from lifebus_adapters.adapter import HookCall
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.hook_intake.calls import HookCalls
from support.patience import PATIENCE_S

_NUMBERS = count(1)


async def call_hook(daemon: Daemon, adapter: str, **payload: Any) -> None:
    """Hand a call to the broker as its hook server does: a process of its own may be late, and is spooled then."""
    call = HookCall(
        call_id=f"hook-18c2f3a4b5c-1-{next(_NUMBERS)}",
        adapter_id=adapter,
        hook=payload["hook_event_name"],
        cwd="/w",
        env={},
        stdin=json.dumps(payload).encode(),
    )
    await HookCalls(daemon.bus, ADAPTERS, PATIENCE_S, supervision=daemon.supervisor).handle(call)
