"""Hook calls through the bus: parse, record and dispatch, place, render (docs/hooks.md, "A call")."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import anyio.to_thread
import structlog
from msgspec import structs

from lifebus_adapters.adapter import Adapter, ContextDelivery, HookAnswer, HookCall, HookReading
from lifebus_broker.ledger.refusals import NOT_NOW
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.routing.registry import alias_warning
from lifebus_broker.state.telemetry_keys import HOOKS
from lifebus_contract import AdapterManifest, BrokerBusy, Emission, IdSource, InvalidRequest, LifebusError
from lifebus_supervisor.corrections.corrector import LostAnswer
from lifebus_supervisor.hook_intake.admission import HookSupervision, Unsupervised
from lifebus_supervisor.hook_intake.failed_calls import CallCounters, FailureLimit, failure_of
from lifebus_supervisor.hook_intake.promises import Promises

CLIENT_ID: Final = HOOKS
"""The client under whose name facts from hooks are recorded."""

_NOTHING: Final = HookAnswer()
_SMALL: Final = 32_768
"""Bytes of a payload that is read at once; a larger one would hold up everybody's calls for milliseconds."""

T = TypeVar("T")
_log = structlog.get_logger("lifebus.hooks")


class HookCalls:
    """Handles hook calls; `budget` is how long callback clients may take together, in seconds.

    `clock` returns monotonic seconds, for the limit of recorded failures; `supervision` merges what hooks report with
    what is known already.  `on_lost` is called with each answer that promised a delivery and reached nobody.
    """

    def __init__(
        self,
        bus: EventBus,
        adapters: Mapping[str, Adapter],
        budget: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        supervision: HookSupervision | None = None,
        on_lost: Callable[[LostAnswer], None] | None = None,
    ) -> None:
        self.counters = CallCounters()
        self._promises = Promises(on_lost)
        self._bus = bus
        self._adapters = adapters
        self._budget = budget
        self._failures = FailureLimit(clock)
        self._supervision = supervision or Unsupervised()

    async def handle(self, call: HookCall) -> HookAnswer:
        """Return what the harness gets back, once everything the call reported is durable.

        A call from the spool is history: it is recorded, but no client is asked to deliver into the past.  One that
        cannot be read is answered with nothing, and that it failed is recorded.

        Raises:
            BrokerBusy: not recorded for now; the hook keeps the call in its spool.
        """
        name, adapter_id = call.adapter_id, self._bus.registry.id_of(call.adapter_id)
        call = structs.replace(call, adapter_id=adapter_id)
        adapter = self._adapters.get(adapter_id)
        if adapter is None:
            await self._refuse_adapter(call)
            return _NOTHING
        try:
            reading = _remarked(await _offload(call, adapter.read, call, ids_of_call(call)), name, adapter_id)
        except LifebusError as fault:
            await self._refuse_call(call, fault, adapter.registered.manifest, adapter.session_of)
            return _NOTHING
        # A spooled call is history: nobody waits for its answer, and no client may deliver into the past.
        spooled = call.spooled_at_epoch_s is not None
        admission = await self._supervision.admit(call, reading)
        emissions = admission.emissions
        results = await self._emit(emissions, dispatch=not spooled)
        # Only now: what is not durable yet must not change what supervision knows.
        self._supervision.hook_seen(call, reading, admission, results)
        if admission.recorded and not emissions:  # what is on record of it already shows that its answer was lost
            emissions, results = reading.emissions, list(admission.recorded)
        self._promises.note(call, emissions, results)
        return _NOTHING if spooled else await _offload(call, adapter.render, call, _deliveries(emissions, results))

    def answered(self, call: HookCall, taken: bool) -> None:
        """Take whether the hook was there to take its answer, once that was sent."""
        self._promises.settle(call, taken=taken)

    async def _emit(self, emissions: Sequence[Emission], *, dispatch: bool) -> list[EmissionResult]:
        if not emissions:
            return []
        results = await self._bus.emit(CLIENT_ID, emissions, budget=self._budget, dispatch=dispatch)
        # one busy result refuses the call: the hook spools it, and keys keep the others from coming twice
        _raise_busy(results)
        return results

    async def _refuse_adapter(self, call: HookCall) -> None:
        """Record a call that nobody can read: under its adapter's name if there is a manifest, else not at all."""
        registered = self._bus.registry.get(call.adapter_id)
        if registered is not None:
            fault = InvalidRequest("the adapter has a manifest and no code to read hooks", code="unknown_adapter")
            await self._refuse_call(call, fault, registered.manifest, _no_session)
            return
        self.counters.count_unknown(call.adapter_id)
        if _is_notable(self.counters.unknown_adapter):
            count = self.counters.unknown_adapter
            _log.warning("hook_of_unknown_adapter", count=count, adapter=call.adapter_id[:64])

    async def _refuse_call(
        self,
        call: HookCall,
        fault: LifebusError,
        manifest: AdapterManifest,
        session_of: Callable[[HookCall], str | None],
    ) -> None:
        """Record that a call could not be read, unless there were too many of them lately."""
        self.counters.unreadable += 1
        if _is_notable(self.counters.unreadable):
            _log.warning(
                "hook_unreadable", count=self.counters.unreadable, adapter=manifest.adapter_id, code=fault.code
            )
        # bounded: a harness with a broken plugin calls at every step of every session
        if not self._failures.passes(manifest.adapter_id):
            self.counters.unrecorded += 1
            return
        session = await _offload(call, session_of, call)
        emission, refusal = failure_of(call, fault, manifest, session, ids_of_call(call))
        # also a failure must be durable before the hook process is let go
        _raise_busy([await self._bus.record_failure(CLIENT_ID, emission, refusal)])


async def _offload(call: HookCall, work: Callable[..., T], *arguments: object) -> T:
    """Return what `work` on a call's payload returns; a large payload is read in a thread."""
    if len(call.stdin) <= _SMALL:
        return work(*arguments)
    return await anyio.to_thread.run_sync(work, *arguments)


def _no_session(_: HookCall) -> None:
    """Know no session: nobody can read the call."""


def _is_notable(count: int) -> bool:
    """Whether a mishap is logged: the 1st, 2nd, 4th, 8th … of a kind."""
    # powers of two: the log shows that it goes on, and does not fill up
    return count & (count - 1) == 0


def _raise_busy(results: Sequence[EmissionResult]) -> None:
    for result in results:
        if result.refusal is not None and result.refusal.code in NOT_NOW:
            raise BrokerBusy(result.refusal.detail, code="busy")


def _remarked(reading: HookReading, name: str, adapter_id: str) -> HookReading:
    """Return the reading with a remark on each event if the hook named its adapter by an alias."""
    if name == adapter_id:
        return reading
    remark = alias_warning(name, adapter_id)
    emissions = [structs.replace(one, warnings=(*one.warnings, remark)) for one in reading.emissions]
    return structs.replace(reading, emissions=tuple(emissions))


def _deliveries(emissions: tuple[Emission, ...], results: list[EmissionResult]) -> list[ContextDelivery]:
    return [
        ContextDelivery(event=emission.request.event, payload=payload, slot=slot)
        for emission, result in zip(emissions, results, strict=True)
        for payload, slot in result.deliveries
    ]


def ids_of_call(call: HookCall) -> IdSource:
    """Return ids that depend on the call alone, so that a call which comes again from the spool is the same request.

    The time in them is the one in the call id (``hook-<milliseconds in hex>-…``), the rest its digest.
    """
    seed = hashlib.sha256(call.call_id.encode()).digest()
    parts = call.call_id.split("-")
    try:
        started_ms = int(parts[1], 16) & (2**48 - 1)
    except (IndexError, ValueError):
        started_ms = int.from_bytes(seed[10:16], "big")
    return IdSource(lambda: started_ms, lambda count: seed[:count])
