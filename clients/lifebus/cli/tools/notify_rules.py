"""What becomes a notice, when it is due, and what a message says.  Pure.

Time is passed in as milliseconds since 1970.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeVar

from msgspec import Struct

from lifebus import LifecycleEvent, Receipt
from lifebus.cli.tools.receipt_facts import (
    Key,
    event_key,
    failed,
    is_nested,
    number_fact,
    repeats_event,
    session_of,
    text_fact,
)
from lifebus_contract import SUPPORT_STRENGTH

K = TypeVar("K")
V = TypeVar("V")

NoticeKind = Literal["waits", "escalations", "idle", "ends", "failures", "pressure", "silence"]
"""What a notice is about; `waits` is for a permission or an answer, `escalations` for one that a run of a flow needs,
`idle` for the next prompt, `silence` of a harness that does not report any more."""

KINDS: Final[tuple[NoticeKind, ...]] = ("waits", "escalations", "idle", "ends", "failures", "pressure", "silence")
"""Everything that `--on` takes."""

MAX_COUNTED: Final = 500
"""Most notices that one sentence sums up; more are another message."""

_REMEMBERED: Final = 4_096
_REARM_PCT: Final = 10
"""How far a context has to fall below the limit before it is reported again."""
_ALWAYS_SHOWN: Final = 5
_WORDS: Final = {
    "waits": "waits",
    "escalations": "questions of flows",
    "idle": "idle",
    "ends": "ends",
    "failures": "failures",
    "pressure": "full contexts",
    "silence": "silent harnesses",
}
_SILENT: Final = {"hooks_silent": "hooks", "app_silent": "app"}
_FLOW: Final = "flow."
"""What the kind of a question begins with that a run of a flow asks."""

WAITS: Final[frozenset[NoticeKind]] = frozenset({"waits", "escalations", "idle"})
"""Kinds that are of a wait, which may be over before it is reported."""


class Notice(Struct, frozen=True, kw_only=True):
    """One thing that a person may want to know; `notice_id` is the same whenever it is sent.

    `text` is one line for people.  `since_ms` is of waits alone: since when.
    """

    notice_id: str
    kind: NoticeKind
    adapter_id: str
    session: str
    name: str
    project: str
    at_ms: int
    text: str
    since_ms: int | None = None


class NoticeMessage(Struct, frozen=True, kw_only=True):
    """What is shown, posted, or written to a command's stdin (docs/json/notify.json).

    `message_id` is the same for each try of the same notices.  `summed` counts by kind what is too old to be shown one
    by one, or happened in quiet hours.
    """

    message_id: str
    consumer: str
    sent_at_ms: int
    title: str
    text: str
    notices: tuple[Notice, ...]
    summed: dict[str, int]


class NoticePlan(Struct, frozen=True, kw_only=True):
    """What is reported and when: of which kinds, how long a wait lasts before, how old anything else may be."""

    kinds: frozenset[str]
    pressure_pct: int = 80
    after_ms: int = 10_000
    max_age_ms: int = 600_000
    is_quiet: Callable[[int], bool] = lambda _: False
    drops_quiet: bool = False


class NoticeVerdict(Struct, frozen=True):
    """What is to be done with a notice: shown now, counted in a sum, left out, or looked at again after a while."""

    what: Literal["show", "count", "drop", "later"]
    delay_ms: int = 0


class Occasions:
    """Which receipts are occasions for a notice: each event once, and each context once when it gets full."""

    def __init__(self, plan: NoticePlan) -> None:
        self._plan = plan
        self._seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._full: OrderedDict[Key, bool] = OrderedDict()

    def knows(self, key: Key) -> bool:
        """Whether it is known if the context of a session was full before."""
        return key in self._full

    def kind_of(self, receipt: Receipt, key: Key) -> NoticeKind | None:
        """Return the kind of the notice that a receipt is an occasion for, None where there is none."""
        kind = self._kind(receipt, key)
        # A receipt that failed is news of its own beside the others of the same event.
        this = (*event_key(receipt), kind or "")
        if kind is None or kind not in self._plan.kinds or this in self._seen:
            return None
        _remember(self._seen, this, None)
        return kind

    def forget(self, receipt: Receipt, kind: NoticeKind) -> None:
        """Forget that a receipt was seen: it comes again."""
        self._seen.pop((*event_key(receipt), kind), None)
        key = session_of(receipt)
        if kind == "pressure" and key is not None:
            # What was before it is read once more then.
            self._full.pop(key, None)

    def note_pressure(self, receipt: Receipt, key: Key) -> bool:
        """Note how full a context is; return whether it has just become so full that it is reported."""
        used = number_fact(receipt, "context_used_pct")
        was_full = self._full.get(key, False)
        if receipt.event is LifecycleEvent.CONTEXT_COMPACTED:
            _remember(self._full, key, value=False)
        elif used is not None:
            bound = self._plan.pressure_pct - (_REARM_PCT if was_full else 0)
            _remember(self._full, key, value=used >= bound)
        elif key not in self._full:
            _remember(self._full, key, value=False)
        return self._full[key] and not was_full

    def _kind(self, receipt: Receipt, key: Key) -> NoticeKind | None:
        event = receipt.event
        if event in {LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, LifecycleEvent.CONTEXT_COMPACTED}:
            is_news = self.note_pressure(receipt, key)
            if is_news and not repeats_event(receipt):
                return "pressure"
        if failed(receipt):
            return "failures"
        if repeats_event(receipt):
            return None
        if text_fact(receipt, "waiting") == "begun":
            return self._wait_kind(receipt)
        if _is_silence(receipt):
            return "silence"
        is_end = event is LifecycleEvent.SESSION_ENDED
        return "ends" if is_end or (event is LifecycleEvent.FRAME_ENDED and not is_nested(receipt)) else None

    def _wait_kind(self, receipt: Receipt) -> NoticeKind:
        if text_fact(receipt, "waiting_for") == "idle":
            return "idle"
        # Whoever asks for waits alone is told of those of flows as well.
        is_flow = (text_fact(receipt, "waiting_kind") or "").startswith(_FLOW)
        return "escalations" if is_flow and "escalations" in self._plan.kinds else "waits"


def verdict_on(notice: Notice, now_ms: int, plan: NoticePlan, *, still_waits: bool | None) -> NoticeVerdict:
    """Return what is to be done with a notice now.

    A wait that is still one is shown however long it lasts, and one that is over never; where nobody knows (None), it
    counts as one.  Everything else is shown while it is new.
    """
    if notice.since_ms is not None:
        left_ms = notice.since_ms + plan.after_ms - now_ms
        if still_waits is False:
            return NoticeVerdict("drop")
        # A clock that was set back must not put it off any longer than that.
        return NoticeVerdict("later", min(left_ms, plan.after_ms)) if left_ms > 0 else NoticeVerdict("show")
    if plan.is_quiet(notice.at_ms):
        return NoticeVerdict("drop" if plan.drops_quiet else "count")
    return NoticeVerdict("count" if now_ms - notice.at_ms > plan.max_age_ms else "show")


def text_of(receipt: Receipt, kind: NoticeKind, name: str) -> str:
    """Return the line that a notice shows: facts alone, and no text of a request or an answer."""
    facts = receipt.telemetry_summary
    if kind == "idle":
        said = "waits for the next prompt"
    elif kind == "silence":
        said = f"is silent: its {_SILENT[str(facts['cause'])]} reported nothing of its work"
    elif kind in {"waits", "escalations"}:
        what = text_fact(receipt, "waiting_kind")
        said = f"waits for {'a permission' if facts.get('waiting_for') == 'permission' else 'an answer'}"
        said += f" ({what})" if what else ""
    elif kind == "pressure":
        said = f"has used {number_fact(receipt, 'context_used_pct')} % of its context"
    elif kind == "failures":
        said = _failure_text(receipt)
    elif receipt.event is LifecycleEvent.SESSION_ENDED:
        said = f"has ended{_how(text_fact(receipt, 'session_end'))}"
    else:
        said = f"is done with its turn{_how(text_fact(receipt, 'frame_end'))}"
    return printable(f"{name} {said}")


def message_of(
    consumer: str, message_id: str, shown: Sequence[Notice], counted: Iterable[Notice], now_ms: int
) -> NoticeMessage:
    """Return the message of some notices and of the sum over others."""
    sums = Counter(str(one.kind) for one in counted)
    words = ", ".join(f"{sums[kind]} {_WORDS[kind]}" for kind in KINDS if sums[kind])
    summary = [f"before: {words}"] if words else []
    lines = [one.text for one in shown[:_ALWAYS_SHOWN]]
    if len(shown) > _ALWAYS_SHOWN:
        lines.append(f"and {len(shown) - _ALWAYS_SHOWN} more")
    sessions = len({(one.adapter_id, one.session) for one in shown})
    many = f"{len(shown)} notices of {sessions} session{'s' * (sessions > 1)}"
    title = many if len(shown) > 1 else (lines or summary)[0]
    rest = lines if len(shown) > 1 else []
    return NoticeMessage(
        message_id=message_id,
        consumer=consumer,
        sent_at_ms=now_ms,
        title=title,
        text="\n".join(rest + (summary if shown else [])),
        notices=tuple(shown),
        summed={kind: sums[kind] for kind in KINDS if sums[kind]},
    )


def printable(text: str, most: int = 200) -> str:
    """Return one line that steers no terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:most]


def _failure_text(receipt: Receipt) -> str:
    if receipt.failure_class is not None:
        return f"{receipt.event.value} failed: {receipt.failure_class.value} ({receipt.client_id})"
    return "failed" if receipt.event is LifecycleEvent.SESSION_ENDED else "has a turn that failed"


def _is_silence(receipt: Receipt) -> bool:
    """Whether a receipt says that a source fell silent, and not that it is back."""
    losses = receipt.capability_degradations
    return text_fact(receipt, "cause") in _SILENT and any(
        SUPPORT_STRENGTH[one.current_support] < SUPPORT_STRENGTH[one.previous_support] for one in losses
    )


def _how(end: str | None) -> str:
    return "" if end in (None, "completed") else f" ({end})"


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
