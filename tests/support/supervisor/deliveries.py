"""Receipts of frames, and of payloads that found a place or none."""

from typing import Any

from lifebus_contract import LifecycleEvent, PayloadReceipt, PlacementClass, Receipt, ReceiptStatus
from support.receipts import receipt


def of_frame(number: int, event: LifecycleEvent, invocation: str, frame: str = "f1", **changes: Any) -> Receipt:
    facts = {"frame_id": frame, **changes.pop("facts", {})}
    return receipt(number, event=event, invocation_id=invocation, telemetry_summary=facts, **changes)


def placed(status: str = "delivered", placement: str | None = "pre_prompt_frame", name: str = "p") -> PayloadReceipt:
    where = None if placement is None else PlacementClass(placement)
    return PayloadReceipt(
        byte_size=1, payload_id=f"pay_{name}", payload_kind="note", placement=where, status=ReceiptStatus(status)
    )
