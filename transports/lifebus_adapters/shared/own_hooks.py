"""The hooks that lifebus makes itself, and that every adapter knows: of wrapper, observer and canary, and lost calls.

`wrapper_start` and `wrapper_end` report that a harness was started and ended; a wrapper does not know its session, so
they name a run.  `app_server_end` is what an observer leaves where no broker was there, `hook_calls_lost` what hooks
leave where there was no room for their calls.  `lifebus.canary` goes through an installed hook to show that it arrives.
"""

from typing import Final

from lifebus_adapters.adapter import HookCall
from lifebus_adapters.shared.fields import Payload
from lifebus_adapters.shared.rules import SESSION_CLOSE, SESSION_OPEN, FactField, HookRule, HookTable, IdentityPaths
from lifebus_contract import IntegrationMode, LifecycleEvent
from lifebus_contract.facts.selections import CANARY_HOOK

CANARY: Final = CANARY_HOOK
"""The hook that proves an installation; its payload has a `canary`, which stands in the receipt again."""

WRAPPER_START: Final = "wrapper_start"
"""The wrapper is about to start the harness; the payload has a `run_id`."""

WRAPPER_END: Final = "wrapper_end"
"""The harness has ended; the payload has the `run_id` and an `exit_code`, negative for a signal."""

APP_SERVER_END: Final = "app_server_end"
"""An app-server has ended, and some of what it reported was lost: `run_id`, `exit_code`, and how much."""

HOOK_CALLS_LOST: Final = "hook_calls_lost"
"""So many hook calls found neither a broker that took them nor room in the spool: `missed_messages`."""

_LOSSES: Final = (FactField("exit_code", int), FactField("missed_messages", int), FactField("missed_bytes", int))

_RULES: Final = {
    APP_SERVER_END: HookRule(
        events=(LifecycleEvent.RECEIPT_GAP_DETECTED,), facts=_LOSSES, mode=IntegrationMode.TELEMETRY_ONLY
    ),
    HOOK_CALLS_LOST: HookRule(
        events=(LifecycleEvent.RECEIPT_GAP_DETECTED,), facts=(FactField("missed_messages", int),)
    ),
    CANARY: HookRule(events=(LifecycleEvent.SUPERVISOR_TICK,), facts=(FactField("canary"),)),
    WRAPPER_START: HookRule(events=SESSION_OPEN, mode=IntegrationMode.LAUNCHER_WRAPPER),
    WRAPPER_END: HookRule(
        events=SESSION_CLOSE, facts=(FactField("exit_code", int),), mode=IntegrationMode.LAUNCHER_WRAPPER
    ),
}

OWN_HOOKS: Final = HookTable(
    name=("hook_event_name", "hook"),
    identity=IdentityPaths(session=(), run=("run_id",)),
    rules=_RULES,
    silent=frozenset(),
    sessionless=frozenset(_RULES),
)
"""What each of them means, the same for every harness."""


def table_for(call: HookCall, payload: Payload, table: HookTable) -> HookTable:
    """Return the table to read a call with: ours where the payload or the command line names one of our hooks."""
    # A wrapper's payload names the hook; the harness's own table need not know that name.
    named = [name for key in OWN_HOOKS.name if isinstance(name := payload.get(key), str) and name]
    return OWN_HOOKS if (named or [call.hook])[0] in OWN_HOOKS.rules else table
