"""What is recorded of a hook call that could not be read: one `failed` receipt that says why, and nothing of its words.

Pure: the bus is asked elsewhere, time is given.  The receipt is one of `supervisor.tick`, the event that claims least:
it says nothing of a session's, a frame's or a context's state.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from lifebus_adapters.adapter import HookCall
from lifebus_adapters.shared.parsing import lateness
from lifebus_broker.ports import Refusal
from lifebus_contract import (
    CONTRACT_VERSION,
    AdapterManifest,
    CallbackRequest,
    Emission,
    FailureClass,
    IdSource,
    IntegrationMode,
    LifebusError,
    LifecycleEvent,
)
from lifebus_contract.fields import FactValue
from lifebus_contract.ids import EVENT, INVOCATION

A_MINUTE: Final = 60
"""Failed receipts that one adapter's hooks may cause in a minute; a broken plugin must not fill the ledger."""

_MINUTE_S: Final = 60.0
_WORD: Final = 64
_NAMES: Final = 8
"""Most names of unknown adapters that are kept: they are a caller's."""
_OWN_FIELDS: Final = frozenset({"bad_identifier", "missing", "oversized", "unknown_hook", "wrong_type"})
"""Reasons whose field is a path of ours; in the others it is made of the payload's own keys."""


class CallCounters(Struct, kw_only=True):
    """What could not be read since the start.

    `unreadable` calls were not what their harness sends; of these `unrecorded` got no receipt, because there were too
    many.  `unknown_adapter` calls named an adapter that nobody knows, under which nothing can be recorded; the first of
    those names are kept.
    """

    unreadable: int = 0
    unrecorded: int = 0
    unknown_adapter: int = 0
    unknown_names: tuple[str, ...] = ()

    def count_unknown(self, name: str) -> None:
        """Count a call that named an adapter that nobody knows."""
        self.unknown_adapter += 1
        short = name[:_WORD]
        if short not in self.unknown_names and len(self.unknown_names) < _NAMES:
            self.unknown_names += (short,)


class FailureLimit:
    """Lets so many failed receipts pass in any minute, for each adapter; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float], a_minute: int = A_MINUTE) -> None:
        self._clock = clock
        self._passed: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=a_minute))

    def passes(self, adapter_id: str) -> bool:
        """Whether one more may be recorded now; if so, it counts."""
        # as many moments as the limit: the oldest of them decides whether a minute has passed
        passed, now = self._passed[adapter_id], self._clock()
        if len(passed) == passed.maxlen and now - passed[0] < _MINUTE_S:
            return False
        passed.append(now)
        return True


def failure_of(
    call: HookCall, fault: LifebusError, manifest: AdapterManifest, session: str | None, ids: IdSource
) -> tuple[Emission, Refusal]:
    """Return what to record of a call that could not be read, and why it could not.

    Both depend on the call and the fault alone, so that a call which comes again is recorded once.
    """
    modes = manifest.integration_modes
    request = CallbackRequest(
        schema_version=CONTRACT_VERSION,
        event=LifecycleEvent.SUPERVISOR_TICK,
        event_id=ids.make(EVENT),
        adapter_id=manifest.adapter_id,
        adapter_version=manifest.adapter_version,
        invocation_id=ids.make(INVOCATION),
        integration_mode=IntegrationMode.NATIVE_HOOK if IntegrationMode.NATIVE_HOOK in modes else modes[0],
        harness_session_id=session,
        idempotency_key=f"{call.call_id}:failed",
    )
    reason = fault.code or FailureClass.INVALID_REQUEST.value
    refusal = Refusal(
        failure_class=FailureClass.INVALID_REQUEST,
        detail=f"a hook call could not be read: {reason}",
        code=reason,
    )
    return Emission(request=request, warnings=lateness(call), telemetry=_facts(call, fault, reason)), refusal


def _facts(call: HookCall, fault: LifebusError, reason: str) -> dict[str, FactValue]:
    """Return which hook, why, where and how large; never a word of the payload."""
    facts: dict[str, FactValue] = {
        "reason": reason,
        "size": len(call.stdin) if call.oversized is None else call.oversized,
    }
    if call.hook.isprintable() and call.hook:
        facts["source_hook"] = call.hook[:_WORD]
    # other fields may hold keys of the payload, which can be words of a prompt
    if fault.field is not None and fault.code in _OWN_FIELDS:
        facts["field"] = fault.field[:_WORD]
    return facts
