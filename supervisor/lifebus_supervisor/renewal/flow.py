"""The renewal of sessions under one profile: at the end of a turn the client is asked, at the next start it gets back.

A background client of the bus: it holds up no hook, and nothing of it is shown to the harness.  What it did stands in
the receipts of the client, as payloads that only a receipt takes: `renewal.reset_prepare` and `renewal.continuation`.
"""

from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from msgspec import structs

from lifebus_broker.ports import Evidence
from lifebus_broker.routing.renewal import Posture
from lifebus_contract import (
    CONTRACT_VERSION,
    AcceptablePlacement,
    CallbackRequest,
    CallbackResponse,
    CapabilityRefused,
    DispatchEnvelope,
    FailureClass,
    FrameClass,
    IdSource,
    IntegrationMode,
    LifebusError,
    LifecycleEvent,
    PayloadEnvelope,
    PlacementClass,
    ReceiptStatus,
    RequirementLevel,
    error_for,
)
from lifebus_contract.ids import PAYLOAD
from lifebus_supervisor.renewal.choosing import ChosenContinuation, LostContinuation, RenewalStart, SeveralContinuations
from lifebus_supervisor.renewal.client import RenewalClient
from lifebus_supervisor.renewal.profile import RenewalSettings
from lifebus_supervisor.renewal.records import Continuation, ContinuationState
from lifebus_supervisor.renewal.store import ContinuationStore

CLAIM: Final = "clm_"
"""What claim ids begin with."""

PREPARED: Final = "renewal.reset_prepare"
"""The kind of a payload whose receipt says that a token is stored."""

USED: Final = "renewal.continuation"
"""The kind of a payload whose receipt says that the client has its token back."""

EVENTS: Final = (LifecycleEvent.FRAME_ENDED, LifecycleEvent.SESSION_STARTED)
"""The end of a turn, where a renewal is prepared, and the start of a session, where it is completed."""

T = TypeVar("T")


class RenewalFlow:
    """Renews under one profile.  `posture` says how a session stands; `clock` returns wall-clock seconds."""

    def __init__(
        self,
        settings: RenewalSettings,
        store: ContinuationStore,
        client: RenewalClient,
        *,
        posture: Callable[[CallbackRequest], Posture],
        ids: IdSource,
        clock: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.store = store
        self._client = client
        self._posture = posture
        self._ids = ids
        self._clock = clock
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    def lock_for(self, cwd: object, session: str | None) -> anyio.Lock:
        """Return the lock of a directory: what happens there happens in order, so a start sees what came before."""
        key = f"cwd {cwd}" if isinstance(cwd, str) else f"session {session}"
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = anyio.Lock()
        return lock

    async def invoke(self, envelope: DispatchEnvelope, evidence: Evidence) -> CallbackResponse:
        """Take one of `EVENTS`; only what a native hook reported of a session or a top-level frame counts.

        Raises:
            LifebusError: the renewal was refused or failed, with the failure class of its condition.
        """
        request = envelope.request
        if request.integration_mode is not IntegrationMode.NATIVE_HOOK or request.harness_session_id is None:
            return CallbackResponse.ok()
        async with self.lock_for(request.metadata.get("cwd"), request.harness_session_id):
            if request.event is LifecycleEvent.SESSION_STARTED:
                return await self._continue(request, request.harness_session_id, evidence)
            if request.frame_context is not None and request.frame_context.frame_class is FrameClass.TOP_LEVEL:
                return await self._offer(request, evidence)
        return CallbackResponse.ok()

    async def prepare(self, intent: Continuation, request: CallbackRequest, evidence: Evidence) -> CallbackResponse:
        """Have the client yield a token for a recorded intent, and save it.

        Raises:
            LifebusError: no token was saved; where the client may have one, the intent stays.
        """
        posture = self._posture(request)
        if posture.path is None:
            raise _refused(posture)
        evidence["reset_path"] = posture.path
        evidence["payload_id"] = intent.payload_id
        prepared = await self._client.prepare(intent, request, posture.path, evidence)
        size, now = len(prepared.token.encode()), int(self._clock())
        expires = min(intent.expires_at, prepared.expires_at or intent.expires_at)
        pending = structs.replace(
            intent,
            state=ContinuationState.PENDING,
            thread=prepared.thread,
            token=prepared.token,
            size=size,
            expires_at=expires,
            prepared_at=request,
        )
        try:
            # refused here and not cut: nobody but the client knows what is in a token
            if size > self.settings.max_bytes:
                raise error_for(
                    FailureClass.PAYLOAD_TOO_LARGE,
                    f"a token of {size} bytes; the profile allows {self.settings.max_bytes}",
                    code="token_too_large",
                )
            if expires <= now:
                raise _rejected("the token had expired when it came", "expired")
            await _in_thread(self.store.save, pending)
        except LifebusError as fault:
            if fault.failure_class is not FailureClass.TRANSPORT_ERROR:  # a disk or a lock may be better next time
                await _in_thread(self.store.cancel, intent)
            raise
        return self.response_for(pending, PREPARED)

    async def hand_over(self, record: Continuation, request: CallbackRequest, evidence: Evidence) -> CallbackResponse:
        """Give a claimed token to the client, which reports the thread that it is now bound to.

        Raises:
            LifebusError: `payload_rejected`; where it is not known what the client did, the token stays claimed.
        """
        evidence["payload_id"] = record.payload_id
        evidence["attempt"] = record.handed_over
        thread = await self._client.consume(record, request, evidence)
        if thread != record.thread:
            why = "the client reports no thread" if thread is None else "the client reports another thread"
            await _in_thread(self.store.finish, record, ContinuationState.REJECTED, why)
            raise _rejected(why, "no_thread" if thread is None else "other_thread")
        await _in_thread(self.store.finish, record, ContinuationState.CONSUMED)
        return self.response_for(record, USED)

    def response_for(self, record: Continuation, kind: str) -> CallbackResponse:
        """Return the response whose receipt names a token by id and size."""
        payload = PayloadEnvelope(
            schema_version=CONTRACT_VERSION,
            payload_id=record.payload_id,
            client_id=self.settings.client_id,
            payload_kind=kind,
            format="opaque",
            content_encoding="utf8",
            byte_size=record.size,
            body_ref=f"continuation:{record.payload_id}",
            acceptable_placements=(
                AcceptablePlacement(placement=PlacementClass.RECEIPT_ONLY, requirement=RequirementLevel.REQUIRED),
            ),
        )
        return CallbackResponse.ok(ReceiptStatus.OBSERVED, payload)

    def failure_of(self, record: Continuation) -> LifebusError:
        """Return the error of a token that its session does not get, or could not use."""
        return _rejected(record.note or "the continuation expired or was handed over too often", "lost")

    async def _offer(self, request: CallbackRequest, evidence: Evidence) -> CallbackResponse:
        """Ask whether the session should be renewed, and prepare that."""
        found = [one for one in (await _in_thread(self.store.records))[0] if self._is_of(one, request)]
        if any(one.token is not None for one in found):
            evidence["decision"] = "waiting"
            return CallbackResponse.ok()
        if not await self._client.recommend(request, evidence):
            evidence["decision"] = "none"
            for one in found:
                if one.state is ContinuationState.PREPARING:
                    await _in_thread(self.store.cancel, one)
            return CallbackResponse.ok()
        evidence["decision"] = "renew"
        posture = self._posture(request)
        if posture.path is None:
            raise _refused(posture)
        intent = await _in_thread(self.store.begin, self._intent(request))
        return await self.prepare(intent, request, evidence)

    async def _continue(self, request: CallbackRequest, session: str, evidence: Evidence) -> CallbackResponse:
        """Give a session that starts the token that waits for it."""
        cwd = request.metadata.get("cwd")
        start = RenewalStart(
            profile=self.settings.profile,
            adapter_id=request.adapter_id,
            session=session,
            cwd=cwd if isinstance(cwd, str) else None,
        )
        posture = self._posture(request)
        if posture.path is None:
            if await _in_thread(self.store.has_match, start):
                raise _refused(posture)
            return CallbackResponse.ok()
        match await _in_thread(self.store.claim, start, self._ids.make(CLAIM), request):
            case ChosenContinuation(record):
                return await self.hand_over(record, request, evidence)
            case SeveralContinuations(count):
                detail = f"{count} continuations wait in this directory; drop all but one"
                raise CapabilityRefused(
                    detail, failure_class=FailureClass.OPERATOR_REQUIRED, code="several_continuations"
                )
            case LostContinuation(record):
                evidence["payload_id"] = record.payload_id
                raise self.failure_of(record)
            case _:
                return CallbackResponse.ok()

    def _intent(self, request: CallbackRequest) -> Continuation:
        now, cwd = int(self._clock()), request.metadata.get("cwd")
        return Continuation(
            payload_id=self._ids.make(PAYLOAD),
            profile=self.settings.profile,
            client_id=self.settings.client_id,
            adapter_id=request.adapter_id,
            state=ContinuationState.PREPARING,
            created_at=now,
            expires_at=now + self.settings.ttl_s,
            session=request.harness_session_id,
            cwd=cwd if isinstance(cwd, str) else None,
            prepared_at=request,
        )

    def _is_of(self, record: Continuation, request: CallbackRequest) -> bool:
        same = (record.profile, record.adapter_id) == (self.settings.profile, request.adapter_id)
        return same and record.session == request.harness_session_id


async def _in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Do work on the store in a thread: it waits for the disk.

    Raises:
        LifebusError: as the store; a disk that refuses is `transport_error`.
    """
    try:
        return await anyio.to_thread.run_sync(work, *arguments)
    except OSError as fault:
        detail = f"the continuation store cannot be used: {fault.strerror or type(fault).__name__}"
        raise error_for(FailureClass.TRANSPORT_ERROR, detail, code="store_failed") from fault


def _refused(posture: Posture) -> LifebusError:
    refusal = posture.refusal
    if refusal is None:
        raise ValueError("a posture without a path has a refusal")
    return error_for(refusal.failure_class, refusal.detail, code=refusal.code)


def _rejected(detail: str, code: str) -> LifebusError:
    return LifebusError(detail, failure_class=FailureClass.PAYLOAD_REJECTED, code=code)
