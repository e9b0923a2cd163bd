"""Corrects, beside the broker, the receipts of deliveries that turned out false (docs/contract.md 5.7)."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

import anyio
import structlog
from msgspec import Struct, structs

from lifebus_broker.ledger.refusals import NOT_NOW
from lifebus_broker.ports import Query, Refusal, StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_contract import LifebusError, LifecycleEvent, Receipt
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.corrections.deliveries import (
    ANSWER_NOT_TAKEN,
    PROMPT_BLOCKED,
    Mistake,
    blocked_frame,
    calls_of_prompt,
    corrections,
)

RECOVERED: Final = 65_536
"""How many of the newest receipts a start searches for ends that the broker before did not get to correct."""

_BLOCKED_BYTES: Final = b'"frame_end":"blocked"'
_PLAIN_BYTES: Final = b'"telemetry_summary":{},"warnings":[]}'
"""What the JSON of a receipt without facts and warnings ends in."""
_MAX_LOST: Final = 4_096
_WINDOW: Final = 1_024
_GROWTH: Final = 8
_ROWS: Final = 1_024
_BYTES: Final = 4_194_304
_AGAIN_S: Final = 1.0
T = TypeVar("T")
_log = structlog.get_logger("lifebus.corrections")


class LostAnswer(Struct, frozen=True, kw_only=True):
    """A hook call whose answer did not reach its harness: its invocation, its first receipt, and what shows it."""

    adapter_id: str
    session: str | None
    invocation_id: str
    position: int
    evidence: str


class Corrector:
    """Finds what was promised of blocked prompts and lost answers; `clock` returns wall-clock seconds.

    It begins with the ends that a broker before this one recorded and did not correct any more.
    """

    def __init__(self, bus: EventBus, clock: Callable[[], float]) -> None:
        self._bus = bus
        self._clock = clock
        self._lost: deque[LostAnswer] = deque()
        # The position behind which blocked ends may not be corrected yet; None where there are none.
        self._behind: int | None = max(0, bus.ledger.head - RECOVERED) if bus.ledger.head else None
        self._wake = anyio.Event()
        self._busy = False

    @property
    def is_pending(self) -> bool:
        """Whether something found false is not corrected yet."""
        return self._busy or self._behind is not None or bool(self._lost)

    def on_commit(self, stored: Sequence[StoredReceipt]) -> None:
        """Take note of prompts that were refused; a listener of the fan-out."""
        # Every receipt comes here: most have no facts, the others are searched as bytes, and few are ever decoded.
        for one in stored:
            if not one.receipt.endswith(_PLAIN_BYTES) and _BLOCKED_BYTES in one.receipt:
                self._look_behind(stored[0].position - 1)
                break

    def on_lost(self, answer: LostAnswer) -> None:
        """Take note that a hook's answer did not reach its harness."""
        if len(self._lost) >= _MAX_LOST:
            _log.warning("correction_dropped", adapter=answer.adapter_id, position=answer.position)
            return
        self._lost.append(answer)
        self._wake.set()

    async def run(self) -> None:
        """Correct what is found false until cancelled; what the ledger does not take now is tried again."""
        if self._behind is not None:
            self._wake.set()
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            try:
                await self.correct()
            except LifebusError as fault:
                _log.warning("correction_failed", code=fault.code, detail=fault.detail[:200])
                await anyio.sleep(_AGAIN_S)
                self._wake.set()

    async def correct(self) -> None:
        """Correct everything that is known to be false by now.

        Raises:
            LifebusError: the ledger cannot be read or takes nothing now; what is left is still pending.
        """
        self._busy = True
        try:
            while self._lost:
                await self._attempt(self._correct_answer, self._lost[0])
                self._lost.popleft()
            while (after := self._behind) is not None:
                self._behind = None
                try:
                    await self._attempt(self._correct_ends, after)
                except LifebusError:
                    self._look_behind(after)
                    raise
        finally:
            self._busy = False

    async def _attempt(self, correct: Callable[[T], Awaitable[None]], what: T) -> None:
        """Correct one thing; what will fail again, because a receipt is damaged or we are wrong, is given up."""
        try:
            await correct(what)
        except LifebusError as fault:
            if fault.code in NOT_NOW:
                raise
            _log.error("correction_given_up", code=fault.code, detail=fault.detail[:200])
        except Exception:  # noqa: BLE001  a defect of ours costs this correction, not everybody's bus
            _log.exception("correction_broke")

    def _look_behind(self, position: int) -> None:
        self._behind = position if self._behind is None else min(position, self._behind)
        self._wake.set()

    async def _correct_answer(self, answer: LostAnswer) -> None:
        # One page is enough: the receipts of one call are recorded within the seconds that its clients have.
        receipts = await self._page(answer.adapter_id, answer.session, answer.position - 1)
        mistake = Mistake(refusal=ANSWER_NOT_TAKEN, evidence=answer.evidence)
        await self._record([receipt for _, receipt in receipts], {answer.invocation_id}, mistake)

    async def _correct_ends(self, after: int) -> None:
        corrected: set[tuple[str, str | None, str]] = set()
        async for position, end in self._blocked_ends(after):
            # Each client has a receipt of the same end.
            report = (end.adapter_id, end.harness_session_id, end.event_id)
            if report not in corrected:
                corrected.add(report)
                await self._attempt(self._correct_prompt, (position, end))

    async def _blocked_ends(self, after: int) -> AsyncGenerator[tuple[int, Receipt]]:
        """Yield the receipts behind a position which say that a prompt was refused."""
        complete = False
        while not complete:
            after = max(after, self._floor)
            query = Query(after=after, limit=_ROWS, event=LifecycleEvent.FRAME_ENDED, past_damage=True)
            page = await self._bus.ledger.read(query)
            for stored in page.stored:
                if _BLOCKED_BYTES in stored.receipt and blocked_frame(end := decode_receipt(stored.receipt)):
                    yield stored.position, end
            after, complete = page.next, page.complete

    async def _correct_prompt(self, blocked: tuple[int, Receipt]) -> None:
        """Correct what was delivered in the calls that opened the frame of an end; they stand not far before it."""
        position, end = blocked
        window = _WINDOW
        while True:
            after = max(position - window, self._floor)
            before = await self._between(end, after, position)
            calls = calls_of_prompt(before, end)
            if calls.complete or after == self._floor:
                break
            window *= _GROWTH
        evidence = end.telemetry_summary.get("evidence")
        mistake = Mistake(refusal=PROMPT_BLOCKED, evidence=evidence if isinstance(evidence, str) else "")
        await self._record(before, calls.invocations, mistake)

    async def _between(self, end: Receipt, after: int, until: int) -> list[Receipt]:
        """Return the receipts of an end's session behind one position and before another."""
        found: list[Receipt] = []
        while page := await self._page(end.adapter_id, end.harness_session_id, after):
            found += [receipt for at, receipt in page if at < until]
            after = page[-1][0]
            if after >= until:
                break
        return found

    async def _page(self, adapter_id: str, session: str | None, after: int) -> list[tuple[int, Receipt]]:
        """Return the receipts of a session behind a position, with their positions; at most a page of them."""
        key = None if session is None else (adapter_id, session)
        query = Query(
            after=max(after, self._floor),
            limit=_ROWS,
            max_bytes=_BYTES,
            adapter_id=adapter_id,
            session=key,
            past_damage=True,
        )
        page = await self._bus.ledger.read(query)
        # a page scans a bounded number of rows, and may have found nothing yet
        while not page.stored and not page.complete:
            query = structs.replace(query, after=page.next)
            page = await self._bus.ledger.read(query)
        return [(stored.position, decode_receipt(stored.receipt)) for stored in page.stored]

    async def _record(self, receipts: Sequence[Receipt], invocations: Collection[str], mistake: Mistake) -> None:
        found = corrections(receipts, invocations, mistake, self._bus.ids, int(self._clock()))
        if not found:
            return
        results = await self._bus.record(found)
        if isinstance(results, Refusal):
            raise LifebusError(results.detail, failure_class=results.failure_class, code=results.code)

    @property
    def _floor(self) -> int:
        return self._bus.ledger.status().floor
