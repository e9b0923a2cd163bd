"""The callback client of `lifebus inject`: hands a text to sessions that begin, and follows what became of it."""

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

import lifebus
from lifebus import CallbackResponse, Gap, LifebusError, LifecycleEvent, PayloadEnvelope, ReceiptStatus
from lifebus.cli.terminal import clean, say
from lifebus.cli.tools.inject_rules import InjectOutcome, InjectProgress, outcomes_of
from lifebus.cli.tools.receipt_facts import Key
from lifebus.cli.tools.session_choice import SessionChoice
from lifebus_contract import FrameClass, PlacementClass, RequirementLevel

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from lifebus import Bus, DispatchEnvelope

EVENTS: Final = (LifecycleEvent.SESSION_STARTED, LifecycleEvent.FRAME_OPENING)
"""What is asked about: the start of a session, and each prompt, for sessions that take nothing at their start."""

PLACEMENTS: Final = (
    (PlacementClass.DEVELOPER_EQUIVALENT_FRAME, RequirementLevel.PREFERRED),
    (PlacementClass.PRE_PROMPT_FRAME, RequirementLevel.PREFERRED),
)
"""Where the text is to land, the best first."""

_DEADLINE_S: Final = 10.0
"""How long a dispatch is answered; a hook waits for a fraction of that, and gets its text with the next prompt."""

_MOST_TEXTS: Final = 256


class TextFault(Exception):
    """There is no text to inject now; the message says why."""


class TextSubject(Struct, frozen=True, kw_only=True):
    """The session that a text is for, as the command that makes the text reads it on stdin."""

    event: str
    adapter_id: str
    session: str
    cwd: str | None


class _Text:
    """A text that is being made, or is there; `done` is set then."""

    def __init__(self) -> None:
        import anyio  # noqa: PLC0415

        self.done = anyio.Event()
        self.value: str | None = None


def payload_of(client_id: str, key: Key, text: str) -> PayloadEnvelope:
    """Return the payload of a text for a session: the same one whenever it is made, so that it is known again."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return lifebus.make_payload(
        client_id, text, placements=PLACEMENTS, idempotency_key=f"{digest[:32]}/{key[0]}/{key[1]}"[:256]
    )


class Injector:
    """Hands a text to each session once.  `read_text` makes it; `show` is called with what became of it."""

    def __init__(
        self,
        bus: "Bus",
        name: str,
        *,
        choice: SessionChoice,
        read_text: Callable[[TextSubject], Awaitable[str]],
        show: Callable[[InjectOutcome], None],
        tasks: "TaskGroup",
    ) -> None:
        self._bus, self._name, self._choice, self._tasks = bus, name, choice, tasks
        self._read_text, self._show = read_text, show
        self._progress = InjectProgress((), takes_open=False)
        self._texts: dict[Key, _Text] = {}

    async def run(self, *, takes_open: bool, on_ready: Callable[[], None]) -> None:
        """Inject until cancelled.

        Raises:
            LifebusError: the broker refused the client.
        """
        receipts = self._bus.receipts(gaps="yield")
        # Joined first: what becomes of the first payload must not be missed.
        await receipts.join()
        before = [(head.adapter_id, head.harness_session_id) for head in await self._bus.sessions()]
        self._progress = InjectProgress(before, takes_open=takes_open)

        async def follow() -> None:
            async for item in receipts:
                for outcome in [] if isinstance(item, Gap) else outcomes_of(item, self._name):
                    self._progress.apply(outcome)
                    self._show(await self._named(outcome))

        self._tasks.start_soon(follow)
        await self._bus.serve(
            EVENTS,
            self._answer,
            adapters=self._choice.adapters,
            deadline=_DEADLINE_S,
            client_id=self._name,
            on_ready=on_ready,
        )

    async def _named(self, outcome: InjectOutcome) -> InjectOutcome:
        """Return the outcome with the session's short name, where it can be had."""
        with suppress(LifebusError):
            for head in await self._bus.sessions((outcome.adapter_id, outcome.session)):
                return structs.replace(outcome, name=head.name or outcome.name)
        return outcome

    async def _answer(self, dispatch: "DispatchEnvelope") -> CallbackResponse:
        request = dispatch.request
        nothing = CallbackResponse.ok()
        if request.harness_session_id is None:
            return nothing
        key = (request.adapter_id, request.harness_session_id)
        frame = request.frame_context
        if (frame is not None and frame.frame_class is FrameClass.SUBCALL) or not self._progress.wants(key):
            return nothing
        said = request.metadata.get("cwd")
        cwd = said if isinstance(said, str) else None
        if not self._choice.matches(*key, cwd):
            return nothing
        text = await self._text_for(key, TextSubject(event=request.event, adapter_id=key[0], session=key[1], cwd=cwd))
        if text is None or not self._progress.wants(key):  # another dispatch was quicker
            return nothing
        payload = payload_of(self._name, key, text)
        if self._progress.must_be_read(key) and await self._was_delivered(key, payload.payload_id):
            self._progress.settle(key)
            return nothing
        self._progress.hand(key)
        return CallbackResponse.ok(ReceiptStatus.DELIVERED, payload)

    async def _text_for(self, key: Key, subject: TextSubject) -> str | None:
        """Return the text for a session, None where there is none now.

        It is made beside the dispatch: where that takes longer than the harness waits, the next prompt gets it.
        """
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _Text()
            self._tasks.start_soon(self._make, key, text, subject)
        await text.done.wait()
        if text.value is not None and self._texts.get(key) is text:
            del self._texts[key]
        return text.value or None

    async def _make(self, key: Key, text: _Text, subject: TextSubject) -> None:
        try:
            text.value = await self._read_text(subject)
            if not text.value:
                self._progress.settle(key)
        except TextFault as fault:
            say(clean(f"{key[0]}/{key[1]}: no text: {fault}"), color="yellow")
        finally:
            if text.value is None or len(self._texts) > _MOST_TEXTS:
                self._texts.pop(key, None)
            text.done.set()

    async def _was_delivered(self, key: Key, payload_id: str) -> bool:
        """Whether the ledger says that a session has this payload, and that this was not taken back."""
        had = False
        async for item in self._bus.receipts(session=key, since="start", until_head=True, gaps="yield"):
            for outcome in [] if isinstance(item, Gap) else outcomes_of(item, self._name):
                if outcome.payload_id == payload_id:
                    had = outcome.outcome == "delivered"
        return had
