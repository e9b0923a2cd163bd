"""The actions of a broker: each is done once under its key, in whatever order and however often it is asked for.

See docs/actions.md.
"""

from collections.abc import Sequence
from typing import Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from lifebus_broker.ports import NewRecord
from lifebus_contract import LifebusError
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.actions.keys import ActionKeys, KeyUse
from lifebus_supervisor.actions.performing import Performers
from lifebus_supervisor.actions.records import digest_of_key
from lifebus_supervisor.actions.rules.outcomes import OUTCOME_UNKNOWN, is_kept, outcome_of_fault, refused
from lifebus_supervisor.actions.rules.payloads import read_action
from lifebus_supervisor.actions.rules.scopes import scope_violation, within
from lifebus_supervisor.actions.rules.signatures import canonical_json, signature_digest, signature_of

MAX_RUNNING: Final = 256
"""Most actions that are done at once."""

MAX_BYTES: Final = 262_144
"""Most bytes of a payload, as canonical JSON."""

_log = structlog.get_logger("lifebus.actions")


class _Running:
    """One execution: its request and who made it, and its outcome once `settled` is set."""

    def __init__(
        self, request: ActionRequest, scope: ActionScope, use: KeyUse | None, signature: str, *, requested_by: str
    ) -> None:
        self.request, self.scope, self.use, self.signature = request, scope, use, signature
        self.requested_by = requested_by
        self.settled = anyio.Event()
        self.outcome = refused(ActionStatus.FAILED, OUTCOME_UNKNOWN, "the broker stopped while the action was done")


class _Attempt:
    """What an execution records of itself (`performing.ActionAttempt`); without a key nothing is."""

    def __init__(self, keys: ActionKeys, running: _Running, head: int, *, is_resumed: bool, asked: str | None) -> None:
        self.action_id = None if running.use is None else running.use.digest
        self.is_resumed = is_resumed
        self.requested_by = running.requested_by
        self.asked = asked
        self.has_begun = self.is_settled = False
        self._keys, self._use, self._head = keys, running.use, head
        self._request_id = running.request.request_id

    async def begin(self, asked: str | None = None) -> None:
        is_new = not self.has_begun and not self.is_resumed
        if self._use is not None and (is_new or (asked is not None and asked != self.asked)):
            await self._keys.begin(self._use, self._head, asked)
            self._head, self.asked = self._head + 1, asked
        self.has_begun = True

    def settled(self, outcome: ActionOutcome) -> Sequence[NewRecord]:
        if self._use is None:
            return ()
        told = msgspec.structs.replace(outcome, request_id=self._request_id)
        return self._keys.settled(self._use, told, self._head)

    def mark_settled(self) -> None:
        self.is_settled = True

    async def settle(self, outcome: ActionOutcome) -> None:
        """Record what the key stands for, or that it is free again.

        Raises:
            LifebusError: it was not recorded.
        """
        if self._use is None or self.is_settled:
            return
        if is_kept(outcome):
            await self._keys.write(self.settled(outcome))
        elif self.has_begun:  # else what a broker before may have done is still not known
            await self._keys.free(self._use, self._head)


class Actions:
    """Does what extensions and workers ask for (`extensions.ports.ActionExecutor`)."""

    def __init__(self, keys: ActionKeys, performers: Performers, tasks: TaskGroup) -> None:
        self.performers = performers
        self._keys, self._tasks = keys, tasks
        self._running: set[_Running] = set()
        self._by_key: dict[str, _Running] = {}

    @property
    def is_finishing(self) -> bool:
        """Whether an action is being done whose outcome is not recorded yet."""
        return bool(self._running)

    async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
        """Return what became of a request; a refusal is an outcome and no exception.

        Cancelling the caller does not undo it: whoever comes with the same key is told how it went.
        """
        try:
            canonical = canonical_json(request.payload)
        except ValueError as fault:
            return refused(ActionStatus.INVALID, "invalid_payload", f"the payload is no JSON: {fault}")
        if len(canonical.encode()) > MAX_BYTES:
            return refused(ActionStatus.INVALID, "too_large", f"the payload has more than {MAX_BYTES} bytes")
        signature = signature_digest(signature_of(request.action_type, scope, canonical))
        if request.idempotency_key is None:
            return await self._start(_Running(request, scope, None, signature, requested_by=requested_by))
        use = KeyUse(
            digest=digest_of_key(request.idempotency_key.strip()),
            signature=signature,
            action_type=request.action_type,
            requested_by=requested_by,
        )
        # One at a time under a key; the next one finds on record what became of it.
        while (other := self._by_key.get(use.digest)) is not None:
            await other.settled.wait()
            if other.signature == signature:
                return other.outcome
        return await self._start(_Running(request, scope, use, signature, requested_by=requested_by))

    async def _start(self, running: _Running) -> ActionOutcome:
        if len(self._running) >= MAX_RUNNING:
            return refused(ActionStatus.FAILED, "busy", f"{MAX_RUNNING} actions are being done; try again")
        self._running.add(running)
        if running.use is not None:
            self._by_key[running.use.digest] = running
        self._tasks.start_soon(self._run, running)
        await running.settled.wait()
        return running.outcome

    async def _run(self, running: _Running) -> None:
        try:
            running.outcome = await self._outcome(running)
        except LifebusError as fault:
            running.outcome = outcome_of_fault(fault)
        finally:
            self._running.discard(running)
            if running.use is not None:
                del self._by_key[running.use.digest]
            running.settled.set()
        if running.use is not None:
            await self._forget_oldest()

    async def _outcome(self, running: _Running) -> ActionOutcome:
        """Return what is on record, or what becomes of the action now."""
        head, is_resumed, asked = 0, False, None
        if running.use is not None:
            found = await self._keys.find(running.use.digest)
            head, known = found.head, found.state
            if found.is_forgotten:
                text = "the key was used before, and what became of it is not kept any more; use a new one"
                return refused(ActionStatus.CONFLICT, "idempotency_key_forgotten", text)
            if known is not None and known.signature != running.signature:
                text = "the key stands for another request; use a new one"
                return refused(ActionStatus.CONFLICT, "idempotency_conflict", text)
            if known is not None and known.outcome is not None:
                return known.outcome
            is_resumed, asked = known is not None, None if known is None else known.asked
        attempt = _Attempt(self._keys, running, head, is_resumed=is_resumed, asked=asked)
        outcome = await self._perform(running, attempt)
        try:
            await attempt.settle(outcome)
        except LifebusError as fault:
            # What was done is done and told; under the key it counts as begun.
            _log.warning("action_not_settled", action=running.request.action_type, code=fault.code)
        return outcome

    async def _perform(self, running: _Running, attempt: _Attempt) -> ActionOutcome:
        request, scope = running.request, running.scope
        action = read_action(request)
        if isinstance(action, ActionOutcome):
            return action
        outcome = scope_violation(action, scope)
        if outcome is None:
            try:
                outcome = await self.performers.perform(within(action, scope), scope, attempt)
            except Exception as fault:  # noqa: BLE001  a defect costs this action, not the broker
                _log.exception("action_failed", action=request.action_type)
                code = OUTCOME_UNKNOWN if attempt.has_begun or attempt.is_resumed else "action_executor_failed"
                outcome = refused(ActionStatus.FAILED, code, f"{type(fault).__name__}: {fault}")
        return msgspec.structs.replace(outcome, request_id=request.request_id)

    async def _forget_oldest(self) -> None:
        try:
            await self._keys.forget_oldest(self._by_key.__contains__)
        except LifebusError as fault:
            _log.warning("action_keys_not_forgotten", code=fault.code)
