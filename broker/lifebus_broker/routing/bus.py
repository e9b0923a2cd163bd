"""The broker as one object: it takes emissions, records receipts and returns results.

Most emissions concern no client: they are planned, appended and acknowledged without a task of their own, and the
plain ones among them without a plan (`lane`).  The others are dispatched by `dispatch.Dispatcher`, in the bus's task
group.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup

from lifebus_broker.durations import Durations
from lifebus_broker.ports import AppendResult, Ledger, NewReceipt, Refusal, StoredReceipt
from lifebus_broker.routing.background import Background
from lifebus_broker.routing.capabilities import CapabilityTable
from lifebus_broker.routing.clients import CallbackClient, ClientHandler, ClientTable, FunctionInvoker
from lifebus_broker.routing.dispatch import Dispatcher, EmissionResult, PlannedEmission, new_receipt, recorded_receipts
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.frame_ends import FrameEnds
from lifebus_broker.routing.harness_sequences import HarnessSequences
from lifebus_broker.routing.lane import Lane, Recorded
from lifebus_broker.routing.placement import NO_SLOTS_USED
from lifebus_broker.routing.registry import Registry
from lifebus_broker.routing.router import PlacedPayload, Plan, Router
from lifebus_broker.routing.slots import SlotUse
from lifebus_contract import (
    CallbackRequest,
    CapabilityRequest,
    Emission,
    FailureClass,
    IdSource,
    LifecycleEvent,
    Receipt,
    encode_json,
)

Done = Callable[[list[EmissionResult]], None]
"""Called on the event loop with one result an emission, once all of them are durable or refused."""

_log = structlog.get_logger("lifebus.bus")


class EventBus:
    """The broker.  Runs on one event loop; `tasks` is the task group that owns dispatches.

    `fanout` is the one whose `publish` the ledger calls with committed receipts.  `clock` returns wall-clock seconds.
    `acknowledgements` counts how long emissions took that no client was asked about, from `submit` until they were
    durable; `requests_dispatched` how long the others took, with all their clients.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        ledger: Ledger,
        fanout: Fanout,
        ids: IdSource,
        clock: Callable[[], float],
        tasks: TaskGroup,
        max_dispatches: int = 1_024,
    ) -> None:
        self.acknowledgements = Durations(time.perf_counter)
        self.requests_dispatched = Durations(time.perf_counter)
        self.registry = registry
        self.ledger = ledger
        self.clients = ClientTable()
        self.fanout = fanout
        self.ids = ids
        self.capabilities = CapabilityTable(registry)
        self.router = Router(registry, self.clients, ids, clock, self.capabilities)
        self._lane = Lane(self.router, ledger, self.acknowledgements)
        self._tasks = tasks
        self._background = Background(tasks)
        self._dispatcher = Dispatcher(self.router, ledger, self._background)
        self._max_dispatches = max_dispatches
        self._running = 0
        self._harness_sequences = HarnessSequences(ledger)
        self._frame_ends = FrameEnds(ledger)

    @property
    def dispatches(self) -> int:
        """How many requests wait for callback clients now, plus how many background clients are being asked."""
        return self._running + self._background.running

    def register(
        self,
        client_id: str,
        events: Sequence[LifecycleEvent],
        handler: ClientHandler,
        *,
        requirements: Sequence[CapabilityRequest] = (),
        adapters: Sequence[str] = (),
        deadline: float = 2.0,
        background: bool = False,
    ) -> CallbackClient:
        """Register an in-process callback client; `clients.remove` takes it away again."""
        client = CallbackClient(
            client_id=client_id,
            events=frozenset(events),
            invoker=FunctionInvoker(handler),
            requirements=tuple(requirements),
            adapters=frozenset(adapters),
            deadline=deadline,
            background=background,
        )
        self.clients.add(client)
        return client

    async def emit(
        self, client_id: str, emissions: Sequence[Emission], *, budget: float | None = None, dispatch: bool = True
    ) -> list[EmissionResult]:
        """Record emissions and return their results when they are durable.

        `budget` bounds the deadlines of all clients together, in seconds; without `dispatch` no client is asked.
        Cancelling the caller does not undo what was handed to the ledger.
        """
        # The callback may come before this task is scheduled again, or after its cancellation.
        finished = anyio.Event()
        results: list[EmissionResult] = []

        def done(emitted: list[EmissionResult]) -> None:
            results.extend(emitted)
            finished.set()

        self.submit(client_id, emissions, done, budget=budget, dispatch=dispatch)
        await finished.wait()
        return results

    async def record_failure(self, client_id: str, emission: Emission, refusal: Refusal) -> EmissionResult:
        """Record that a hook call could not be read or handled: one `failed` receipt, no client is asked.

        Idempotent by the emission's key, as any other emission.
        """
        emission = self.router.prepare(emission)
        plan = self.router.plan_failure(client_id, emission, refusal)
        if plan.receipt is None:
            return EmissionResult(refusal=plan.refusal)
        results = await self._dispatcher.append([new_receipt(plan.receipt, emission)])
        return EmissionResult(refusal=results) if isinstance(results, Refusal) else _result_of(results[0])

    async def record(self, receipts: Sequence[NewReceipt]) -> list[AppendResult] | Refusal:
        """Record finished receipts as they are, no client is asked; return when they are durable, or why they are not.

        They correct others: what they are about was planned and recorded before.
        """
        return await self._dispatcher.append(receipts)

    def publish_transient(self, client_id: str, emission: Emission) -> Receipt:
        """Fan out a receipt that is neither stored nor numbered, and return it (docs/contract.md 2.6).

        Raises:
            AdapterUnavailable: there is no such adapter, or it is not what the request names.
        """
        receipt = self.router.transient(client_id, self.router.prepare(emission))
        self.fanout.publish_transient(
            # Position 0 is no position of the ledger: a subscriber neither counts nor asks for it.
            StoredReceipt(
                position=0,
                adapter_id=receipt.adapter_id,
                harness_session_id=receipt.harness_session_id,
                sequence=None,
                receipt=encode_json(receipt),
            )
        )
        return receipt

    def submit(
        self,
        client_id: str,
        emissions: Sequence[Emission],
        done: Done,
        *,
        plain: Recorded | None = None,
        budget: float | None = None,
        dispatch: bool = True,
    ) -> None:
        """Take emissions in order and call `done` once; returns at once and never waits for a client.

        Where all emissions are plain (`lane.is_plain`) and there is a `plain`, it is called instead of `done`.
        """
        prepared = [self.router.prepare(given) for given in emissions]
        if plain is not None and self._lane.take(client_id, prepared, plain, dispatch=dispatch):
            return
        # One emission that needs a dispatch takes the others along: their order has to hold.
        if any(self._needs_dispatch(emission, dispatch) for emission in prepared):
            self._start(client_id, prepared, done, budget, dispatch)
            return
        plans = self._plan_all(client_id, prepared)
        if any(emission.request.frame_context is not None for emission in prepared):
            done = partial(self._settle_frames, prepared, plans, done)
        self._append(prepared, plans, done)

    def _needs_dispatch(self, emission: Emission, dispatch: bool) -> bool:
        """Whether clients are to be asked or may lose something, or the ledger is to be asked before it is planned."""
        # A number counts also where it comes too late to ask anybody: the next one is compared with it.
        request = emission.request
        if emission.degradations or request.sequence is not None:
            return True
        if request.frame_context is not None and not self._frame_ends.is_known(request):
            return True
        return dispatch and bool(self.clients.interested_in(request.event, request.adapter_id))

    def _plan_all(self, client_id: str, emissions: Sequence[Emission]) -> list[Plan]:
        """Plan every emission; those of one invocation are chained and share the slots of the hook's answer."""
        if len(emissions) == 1:  # by far the most frequent case
            return [self._plan(client_id, emissions[0], None, NO_SLOTS_USED, dispatch=False)]
        plans: list[Plan] = []
        chains: dict[str, tuple[str | None, SlotUse]] = {}
        for emission in emissions:
            parent, used = chains.get(emission.request.invocation_id, (None, NO_SLOTS_USED))
            plan = self._plan(client_id, emission, parent, used, dispatch=False)
            if plan.receipt is not None:
                chains[emission.request.invocation_id] = (plan.receipt.receipt_id, plan.used)
            plans.append(plan)
        return plans

    def _plan(self, client_id: str, emission: Emission, parent: str | None, used: SlotUse, *, dispatch: bool) -> Plan:
        """Plan one emission, unless its frame has ended already."""
        plan = self.router.plan(client_id, emission, parent, used, dispatch=dispatch)
        # Last: what is refused for another reason claims nothing.
        if plan.refusal is not None or emission.request.frame_context is None:
            return plan
        refusal = self._frame_ends.note(emission.request)
        return plan if refusal is None else Plan(refusal=refusal)

    def _settle_frames(
        self,
        emissions: Sequence[Emission],
        plans: Sequence[Plan],
        then: Done,
        results: list[EmissionResult],
    ) -> None:
        """Say what became of the openings and ends of frames, then hand the results on."""
        for emission, plan, result in zip(emissions, plans, results, strict=True):
            self._settle_frame(emission.request, plan, result)
        then(results)

    def _settle_frame(self, request: CallbackRequest, plan: Plan, result: EmissionResult) -> None:
        if plan.refusal is None:  # what was not planned was not noted either
            self._frame_ends.settle(request, recorded=result.refusal is None, replayed=result.replayed)

    def _append(self, emissions: Sequence[Emission], plans: Sequence[Plan], done: Done) -> None:
        """Append what no client is asked about, all in one transaction."""
        receipts = [
            new_receipt(plan.receipt, emission)
            for plan, emission in zip(plans, emissions, strict=True)
            if plan.receipt is not None
        ]
        if not receipts:
            done([EmissionResult(refusal=plan.refusal) for plan in plans])
            return
        acknowledge = partial(self._acknowledge, plans, done, self.acknowledgements.now())
        # Nothing is acknowledged before the table of capabilities knows it: the next emission is planned by the table.
        if self.capabilities.may_change:
            acknowledge = partial(self._apply_then, receipts, acknowledge)
        refusal = self.ledger.append(receipts, acknowledge)
        if refusal is not None:
            done([EmissionResult(refusal=plan.refusal or refusal) for plan in plans])

    def _acknowledge(self, plans: Sequence[Plan], done: Done, started: float, results: list[AppendResult]) -> None:
        """Match the ledger's results to the emissions; a plan without a receipt was not appended."""
        by_receipt = iter(results)
        done(
            [
                EmissionResult(refusal=plan.refusal)
                if plan.receipt is None
                else _result_of(next(by_receipt), plan.deliveries)
                for plan in plans
            ]
        )
        self.acknowledgements.add_since(started)

    def _apply_then(
        self, receipts: Sequence[NewReceipt], then: Callable[[list[AppendResult]], None], results: list[AppendResult]
    ) -> None:
        """Have the table of capabilities see the recorded receipts, a session's end among them, then acknowledge."""
        self.capabilities.apply(recorded_receipts(receipts, results))
        then(results)

    def _start(
        self, client_id: str, emissions: Sequence[Emission], done: Done, budget: float | None, dispatch: bool
    ) -> None:
        if self._running >= self._max_dispatches:  # refused before anything is planned: nothing was stored
            done([EmissionResult(refusal=_BUSY)] * len(emissions))
            return
        self._running += 1
        self._tasks.start_soon(self._dispatch_all, client_id, emissions, done, budget, dispatch)

    async def _dispatch_all(
        self, client_id: str, emissions: Sequence[Emission], done: Done, budget: float | None, dispatch: bool
    ) -> None:
        """Dispatch the emissions of each ordered group in order, and the groups concurrently."""
        results: dict[int, EmissionResult] = {}
        started = self.requests_dispatched.now()
        deadline = None if budget is None else anyio.current_time() + budget

        async def dispatch_group(group: list[int]) -> None:
            chains: dict[str, tuple[str | None, SlotUse]] = {}
            for index in group:
                results[index] = await self._dispatch(client_id, emissions[index], chains, deadline, dispatch)

        try:
            # A slow client holds up its own session or invocation, and no other one of the same request.
            async with anyio.create_task_group() as tasks:
                for group in ordered_groups(emissions):
                    tasks.start_soon(dispatch_group, group)
        except Exception:  # noqa: BLE001  a defect of ours costs this request, not everybody's bus
            _log.exception("dispatch_failed")
        finally:
            self._running -= 1
        self.requests_dispatched.add_since(started)
        # What a defect left without a result is refused, so that the caller never waits for ever.
        done([results.get(index, _BROKEN) for index in range(len(emissions))])

    async def _dispatch(
        self,
        client_id: str,
        emission: Emission,
        chains: dict[str, tuple[str | None, SlotUse]],
        deadline: float | None,
        dispatch: bool,
    ) -> EmissionResult:
        """Dispatch one emission; `chains` holds the parent and the used slots of each invocation so far."""
        request = emission.request
        parent, used = chains.get(request.invocation_id, (None, NO_SLOTS_USED))
        if not self._frame_ends.is_known(request):
            await self._frame_ends.learn(request)
        plan = self._plan(client_id, emission, parent, used, dispatch=dispatch)
        try:
            gap = await self._gap(client_id, emission, plan, dispatch=dispatch)
            planned = PlannedEmission(
                client_id=client_id, emission=emission, plan=plan, parent=parent, gap=gap, deadline=deadline
            )
            result = await self._dispatcher.dispatch(planned)
        except BaseException:
            # It may be recorded or not.  A claim that stayed would refuse every other end of the frame.
            if plan.refusal is None:
                self._frame_ends.forget(request)
            raise
        chains[request.invocation_id] = (result.parent or parent, result.used)
        if result.refusal is not None:  # not recorded: the next comparison starts from what the ledger holds
            self._harness_sequences.forget(request)
        self._settle_frame(request, plan, result)
        return result

    async def _gap(self, client_id: str, emission: Emission, plan: Plan, *, dispatch: bool) -> PlannedEmission | None:
        """Return what becomes of a jump in the harness's own sequence, None where there is none."""
        missing = None if plan.refusal is not None else await self._harness_sequences.advance(emission.request)
        if missing is None:
            return None
        gap, planned = self.router.plan_gap(client_id, emission, missing, dispatch=dispatch)
        return PlannedEmission(client_id=client_id, emission=gap, plan=planned)


_BUSY = Refusal.of("busy", "too many dispatches are under way; try again")
_BROKEN = EmissionResult(
    refusal=Refusal(failure_class=FailureClass.INTERNAL_ERROR, detail="the dispatch broke; see the log")
)


def _result_of(result: AppendResult, deliveries: tuple[PlacedPayload, ...] = ()) -> EmissionResult:
    """Return the result of an emission that has one receipt; a refused one delivers nothing."""
    return EmissionResult(
        stored=() if result.stored is None else (result.stored,),
        replayed=result.replayed,
        refusal=result.refusal,
        deliveries=deliveries if result.refusal is None else (),
    )


def ordered_groups(emissions: Sequence[Emission]) -> list[list[int]]:
    """Return the indices of the emissions, those of one invocation or one session together and in order.

    Order is promised within a session only, so the groups may run side by side (docs/contract.md 6.3).
    """
    groups: list[list[int]] = []
    # An emission has up to two names, its invocation and its session: it joins the group that knows either.
    by_name: dict[tuple[str, ...], list[int]] = {}
    for index, emission in enumerate(emissions):
        request = emission.request
        names: list[tuple[str, ...]] = [(request.invocation_id,)]
        if request.harness_session_id is not None:
            names.append((request.adapter_id, request.harness_session_id))
        group: list[int] | None = next((by_name[name] for name in names if name in by_name), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(index)
        for name in names:
            by_name.setdefault(name, group)  # the first group of a name keeps it
    return groups
