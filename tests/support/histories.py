"""Random histories of a bus, realistic enough to replay: whole lives of sessions, and all that goes wrong in them.

    history(seed, count)   entries in the order in which a ledger would get them, fresh objects at each call; the same
                           seed gives the same ones, and a smaller count the first of them
    histories(most)        a hypothesis strategy of such lists; shrinks by count
    lines_of(entries)      the lines of the log that a ledger makes of them: numbered, linked, with digests
    replayed(lines, stores)  the stores after the lines

Put entries into a ledger with `contract_suites.receipts.append`: it numbers the receipts in place.  There are sessions
of several adapters, frames in frames, pressure, compactions, degradations down and up again, operator's questions of
both kinds, payloads that find a place or do not, failures, gaps, receipts without a session, ids with quotes and
astral characters, text with control characters, and receipts that clients got of what somebody else reported.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, structs

from lifebus_broker.ledger.log import LogLine
from lifebus_broker.ports import EMITTER, NewReceipt
from lifebus_broker.state.stores import Stores, reduce_event
from lifebus_broker.state.telemetry_keys import BACKGROUND_CLIENT
from lifebus_broker.transitions import transition
from lifebus_contract import (
    FailureClass,
    LifecycleEvent,
    PayloadReceipt,
    PlacementClass,
    PressureLevel,
    Receipt,
    ReceiptStatus,
    RetryClass,
    SupportState,
    Warning,  # noqa: A004  the contract's own word
    encode_json,
)
from support.receipts import receipt

if TYPE_CHECKING:  # a Python that has msgspec alone can tell histories too
    from hypothesis.strategies import SearchStrategy

SESSIONS: Final = (
    ("claude", 'say "hi" \\ there'),
    ("claude", "s1"),
    ("codex", "0192f0c1-7a55-7d1e-9a10-1d2f3a4b5c6d"),
    ("codex", "s1"),
    ("gemini", "\U0001f680\U0001f6f0"),
    ("gemini", "\uffdc\u20ac"),
    ("hermes", "e\u0301 \u00e9"),
    ("opencode", "ses_" + "x" * 60),
)
TEXTS: Final = ("plain", '"\\/', "\x00\x1f\x7f", "\u2028\u2029\ufeff", "\U0001f9ea" * 3, "", "\r\n\t")
CAPABILITIES: Final = ("context_pressure", "event:frame.opening", "placement:pre_session", "made up")
REPORTERS: Final = (
    "lifebus.hook",
    "lifebus.hook",
    "lifebus.app_server",
    "lifebus.supervisor",
    "alice",
    "app \U0001f4f1",
)
CLIENTS: Final = ("alice", "bob", "carol \u2603")
STATUSES: Final = (ReceiptStatus.OBSERVED, ReceiptStatus.OBSERVED, ReceiptStatus.DELIVERED, ReceiptStatus.DEGRADED)


@dataclass(slots=True)
class _Life:
    """What the generator remembers of one session, so that what comes next is likely."""

    key: tuple[str, str]
    frames: list[str] = field(default_factory=list[str])
    counted: int = 0
    used: int = 1_000
    asked: list[int] = field(default_factory=list[int])


class _Generator:
    """Tells one history."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lives = [_Life(key) for key in SESSIONS]
        self._number = 0
        self._second = 1_790_000_000

    def entry(self) -> NewReceipt:
        """Return the next receipt."""
        rng = self._random
        self._number += 1
        self._second += rng.choice((0, 0, 1, 7, 3_600, -5))
        life = rng.choice(self._lives[: rng.randint(1, len(self._lives))])
        step = rng.choices(_STEPS, _WEIGHTS)[0]
        fields: dict[str, Any] = {"client_id": rng.choice(REPORTERS), **step(self, life)}
        facts: dict[str, Any] = fields.pop("telemetry_summary", {})
        if rng.random() < 0.2:
            facts = {**facts, EMITTER: fields["client_id"]}
            fields["client_id"] = rng.choice(CLIENTS)
            facts |= {BACKGROUND_CLIENT: True} if rng.random() < 0.3 else {}
        if rng.random() < 0.2:
            facts = {**facts, "note": rng.choice(TEXTS), "zero": rng.choice((0, -(2**53) + 1, 2**53 - 1, True, None))}
        return self._made(life, fields, facts)

    def _made(self, life: _Life, fields: dict[str, Any], facts: dict[str, Any]) -> NewReceipt:
        rng = self._random
        key = f"k{self._number}" if rng.random() < 0.6 else None
        place = {"adapter_id": life.key[0], "harness_session_id": None if rng.random() < 0.05 else life.key[1]}
        made = receipt(
            self._number,
            **{**place, **fields},
            at_epoch_s=self._second,
            idempotency_key=key,
            telemetry_summary=facts,
            invocation_id=f"inv_{self._number // rng.randint(1, 4)}",
            harness_task_id=rng.choice((None, "task \U0001f3af")),
            warnings=(Warning(code="noted", message=rng.choice(TEXTS)),) if rng.random() < 0.1 else (),
        )
        return NewReceipt(receipt=made, digest=None if key is None else sha256(key.encode()).digest())

    def start(self, _: _Life) -> dict[str, Any]:
        """A session begins, perhaps again."""
        event = self._random.choice((LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED))
        return {"event": event, "status": self._random.choice(STATUSES)}

    def end(self, life: _Life) -> dict[str, Any]:
        """A session ends, whatever is open in it."""
        event = self._random.choice((LifecycleEvent.SESSION_ENDING, LifecycleEvent.SESSION_ENDED))
        if event is LifecycleEvent.SESSION_ENDED and self._random.random() < 0.5:
            life.frames.clear()
        return {"event": event}

    def open(self, life: _Life) -> dict[str, Any]:
        """A frame opens, or is reported again, perhaps inside another."""
        rng = self._random
        facts: dict[str, Any] = {}
        if life.frames and rng.random() < 0.4:
            facts["parent_frame_id"] = rng.choice(life.frames)
        if not life.frames or rng.random() < 0.7:
            life.frames.append(f"turn {self._number} {rng.choice(TEXTS[4:6])}")
        facts["frame_id"] = life.frames[-1]
        if rng.random() < 0.3:
            life.counted += rng.choice((1, 1, 1, 5))
            facts["harness_sequence"] = life.counted
        event = rng.choice((LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED))
        return {"event": event, "status": rng.choice(STATUSES), "telemetry_summary": facts}

    def close(self, life: _Life) -> dict[str, Any]:
        """A frame ends, or nearly."""
        event = self._random.choice((LifecycleEvent.FRAME_ENDING, LifecycleEvent.FRAME_ENDED))
        frame = self._random.choice(life.frames) if life.frames else "nobody's"
        if event is LifecycleEvent.FRAME_ENDED and frame in life.frames:
            life.frames.remove(frame)
        return {"event": event, "telemetry_summary": {"frame_id": frame, "frame_end": "completed"}}

    def press(self, life: _Life) -> dict[str, Any]:
        """The context fills, with or without numbers."""
        rng = self._random
        life.used += rng.randint(0, 40_000)
        facts: dict[str, Any] = {"context_used_tokens": life.used, "context_used_pct": min(100, life.used // 2_000)}
        facts["context_pressure"] = rng.choice([None, "made up", *(level.value for level in PressureLevel)])
        if rng.random() < 0.2:
            facts = {"signal": True, "context_used_tokens": None}
        return {"event": LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, "telemetry_summary": facts}

    def compact(self, life: _Life) -> dict[str, Any]:
        """The context is rewritten, as a hook or a file reports."""
        life.used = 1_000
        source = self._random.choice(("hook:PostCompact", "rollout", "app_server"))
        return {"event": LifecycleEvent.CONTEXT_COMPACTED, "telemetry_summary": {"source": source}}

    def degrade(self, _: _Life) -> dict[str, Any]:
        """Capabilities get weaker, or come back."""
        rng = self._random
        changes = tuple(
            transition(
                rng.choice(CAPABILITIES),
                rng.choice(list(SupportState)),
                rng.choice(list(SupportState)),
                at_epoch_s=self._second,
                evidence=rng.choice(TEXTS) or "seen",
            )
            for _ in range(rng.randint(1, 3))
        )
        facts = {"cause": rng.choice(("hooks_silent", "telemetry_missing"))} if rng.random() < 0.8 else {}
        fields = {"event": LifecycleEvent.CAPABILITY_DEGRADED, "capability_degradations": changes}
        return {**fields, "telemetry_summary": facts, **({"harness_session_id": None} if rng.random() < 0.2 else {})}

    def ask(self, life: _Life) -> dict[str, Any]:
        """A harness asks a person, or reports what became of it."""
        rng = self._random
        number: int | str = rng.choice(life.asked) if life.asked and rng.random() < 0.6 else self._number
        life.asked = [*life.asked, self._number][-3:]
        outcome = rng.choice(("asked", "asked", "answered", "unanswered"))
        facts = {"operator": outcome, "operator_kind": "command_approval", "request_id": rng.choice((number, "r-1"))}
        if life.frames:
            facts["frame_id"] = life.frames[-1]
        return {"event": LifecycleEvent.SUPERVISOR_TICK, "telemetry_summary": facts}

    def fail(self, life: _Life) -> dict[str, Any]:
        """A client fails, perhaps for want of an operator."""
        rng = self._random
        failure = rng.choice((FailureClass.OPERATOR_REQUIRED, FailureClass.TIMEOUT, FailureClass.CAPABILITY_DEGRADED))
        retry = rng.choice((RetryClass.RETRY_AFTER_OPERATOR, RetryClass.SAFE_RETRY, RetryClass.DO_NOT_RETRY))
        event = rng.choice((LifecycleEvent.SESSION_STARTED, LifecycleEvent.FRAME_OPENING))
        fields = {"event": event, "status": ReceiptStatus.FAILED, "failure_class": failure, "retry_class": retry}
        return {**fields, "client_id": rng.choice(CLIENTS), "telemetry_summary": _frame(life)}

    def deliver(self, life: _Life) -> dict[str, Any]:
        """Payloads find a place, or wait for one, or are refused."""
        rng = self._random
        payloads = tuple(self._payload() for _ in range(rng.randint(1, 3)))
        fields: dict[str, Any] = {"event": LifecycleEvent.FRAME_OPENING, "telemetry_summary": _frame(life)}
        if rng.random() < 0.2:
            fields |= {"status": ReceiptStatus.FAILED, "failure_class": FailureClass.PLACEMENT_UNAVAILABLE}
        return {**fields, "client_id": rng.choice(CLIENTS), "payload_receipts": payloads}

    def _payload(self) -> PayloadReceipt:
        rng = self._random
        placed = rng.choice((None, None, PlacementClass.PRE_PROMPT_FRAME, PlacementClass.RECEIPT_ONLY))
        status = ReceiptStatus.DELIVERED if placed else rng.choice((ReceiptStatus.SKIPPED, ReceiptStatus.FAILED))
        return PayloadReceipt(
            byte_size=rng.randint(0, 131_072),
            content_digest=UNSET,
            payload_id=f"pay_{rng.randint(max(0, self._number - 20), self._number)} \U0001f4e6",
            payload_kind=rng.choice(("note", "context")),
            placement=placed,
            status=status,
        )

    def tick(self, _: _Life) -> dict[str, Any]:
        """A tick of the supervisor, with what a restart has to know."""
        rng = self._random
        facts: dict[str, Any] = {"observed": rng.randint(0, 3)}
        if rng.random() < 0.5:
            facts |= {"harness_process": f"{rng.randint(1, 99_999)}@{self._second}", "compactions_before": 2}
        return {"event": LifecycleEvent.SUPERVISOR_TICK, "client_id": "lifebus.supervisor", "telemetry_summary": facts}

    def gap(self, life: _Life) -> dict[str, Any]:
        """The harness's own numbers jump."""
        facts = {"harness_sequence": life.counted, "missing_first": 1, "missing_last": max(1, life.counted - 1)}
        return {"event": LifecycleEvent.RECEIPT_GAP_DETECTED, "telemetry_summary": facts}


_MIX: Final[dict[Callable[[_Generator, _Life], dict[str, Any]], int]] = {
    _Generator.start: 8,
    _Generator.end: 5,
    _Generator.open: 22,
    _Generator.close: 18,
    _Generator.press: 10,
    _Generator.compact: 5,
    _Generator.degrade: 8,
    _Generator.ask: 6,
    _Generator.fail: 6,
    _Generator.deliver: 8,
    _Generator.tick: 6,
    _Generator.gap: 2,
}
_STEPS: Final = list(_MIX)
_WEIGHTS: Final = list(_MIX.values())


def history(seed: int, count: int) -> list[NewReceipt]:
    """Return the first `count` entries of the history of a seed."""
    generator = _Generator(seed)
    return [generator.entry() for _ in range(count)]


def histories(most: int = 80, least: int = 0) -> "SearchStrategy[list[NewReceipt]]":
    """Return a strategy of histories with `least` to `most` entries."""
    from hypothesis import strategies as st  # noqa: PLC0415  see above

    return st.builds(history, st.integers(0, 2**32 - 1), st.integers(least, most))


def lines_of(entries: Sequence[NewReceipt]) -> list[LogLine]:
    """Return the log that a durable ledger makes of the entries, by a small implementation of its own."""
    counts: dict[tuple[str, str | None], int] = {}
    links: dict[tuple[str, str | None], bytes] = {}
    lines: list[LogLine] = []
    for position, entry in enumerate(entries, 1):
        stream = (entry.receipt.adapter_id, entry.receipt.harness_session_id)
        counts[stream] = counts.get(stream, 0) + 1
        text = encode_json(_numbered(entry.receipt, None if stream[1] is None else counts[stream]))
        links[stream] = sha256(links.get(stream, bytes(32)) + text).digest()
        digest = None if entry.digest is None else entry.digest.hex()
        lines.append(LogLine(position, digest, links[stream].hex(), text))
    return lines


def replayed(lines: Iterable[LogLine], stores: Stores | None = None) -> Stores:
    """Return the stores after the lines; `stores`, if given, go on in place."""
    stores = stores or Stores()
    for line in lines:
        reduce_event(stores, line)
    return stores


def _numbered(made: Receipt, sequence: int | None) -> Receipt:
    return structs.replace(made, sequence=sequence)


def _frame(life: _Life) -> dict[str, Any]:
    return {"frame_id": life.frames[-1]} if life.frames else {}
