"""A correction changes nothing but what it says of payloads, whatever event it is about and wherever it stands."""

import os
from dataclasses import dataclass

import pytest
from msgspec import structs

from lifebus_broker.state.capability_state import CapabilityState
from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState, head_of
from lifebus_contract import IdSource, LifecycleEvent, Receipt
from lifebus_supervisor.corrections.deliveries import PROMPT_BLOCKED, Mistake, corrections
from support.receipts import receipt
from support.supervisor.deliveries import of_frame, placed

WHY = Mistake(refusal=PROMPT_BLOCKED, evidence="the file says so")
IDS = IdSource(lambda: 1, os.urandom)
OF_RECEIPTS = {
    "by_event",
    "by_payload",
    "by_status",
    "failed",
    "failures",
    "last_at_epoch_s",
    "last_event",
    "last_position",
    "last_status",
    "receipts",
    "sequence",
}
"""What counts receipts, whatever they say."""

LIFE = (
    receipt(1, event=LifecycleEvent.SESSION_STARTED),
    of_frame(2, LifecycleEvent.FRAME_OPENING, "inv_a"),
    of_frame(3, LifecycleEvent.FRAME_ENDED, "inv_b", facts={"frame_end": "blocked"}),
    receipt(4, event=LifecycleEvent.SESSION_ENDED),
)


@dataclass
class Reduced:
    session: SessionState
    capabilities: CapabilityState


def reduced(*receipts: Receipt) -> Reduced:
    state = Reduced(SessionState(adapter_id="codex", harness_session_id="s1"), CapabilityState())
    for position, one in enumerate(receipts, 1):
        apply_receipt(state.session, position, one)
        state.capabilities.apply(one)
    return state


@pytest.mark.parametrize("event", sorted(set(LifecycleEvent) - {LifecycleEvent.RECEIPT_EMITTED}))
@pytest.mark.parametrize("at", range(1, len(LIFE) + 1))
def test_it_opens_ends_and_loses_nothing(event: LifecycleEvent, at: int) -> None:
    delivery = of_frame(9, event, "inv_a", payload_receipts=(placed(),))
    (correction,) = (one.receipt for one in corrections([delivery], {"inv_a"}, WHY, IDS, 5))
    without, behind = reduced(*LIFE[:at]), reduced(*LIFE[:at], correction)
    for name in set(SessionState.__struct_fields__) - OF_RECEIPTS:
        assert getattr(behind.session, name) == getattr(without.session, name)
    assert behind.session.by_payload == {"failed": 1}
    assert behind.capabilities.sessions == without.capabilities.sessions
    before, after = head_of(without.session), head_of(behind.session)
    assert before is not None
    assert after is not None
    assert structs.replace(after, ended=before.ended, open_frames=before.open_frames) == after
