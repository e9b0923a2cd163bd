"""The heads of sessions as the fold has them."""

from collections.abc import Iterable

from lifebus_broker.ports import StoredReceipt
from lifebus_broker.state.receipt_view import read_receipt
from lifebus_broker.state.session_reducer import apply_receipt
from lifebus_broker.state.session_state import SessionState, head_of
from lifebus_contract.views import SessionHead


def heads_of(stored: Iterable[StoredReceipt]) -> dict[tuple[str, str], SessionHead]:
    """Return the head of each session that has rows, in the order of first rows."""
    states: dict[tuple[str, str], SessionState] = {}
    for one in stored:
        if one.harness_session_id is not None:
            key = (one.adapter_id, one.harness_session_id)
            state = states.setdefault(key, SessionState(adapter_id=key[0], harness_session_id=key[1]))
            apply_receipt(state, one.position, read_receipt(one.receipt, one.position))
    heads = {key: head_of(state) for key, state in states.items()}
    return {key: head for key, head in heads.items() if head is not None}
