"""The text that carries payloads into a harness's single context slot (docs/contract.md 5.3).

A body is carried as a JSON string and never parsed; a `body_ref` is carried as it is and never followed.
"""

from collections.abc import Sequence

import msgspec

from lifebus_contract.envelope import PayloadEnvelope


def render_payloads(payloads: Sequence[PayloadEnvelope]) -> str:
    """Return ``{"payloads":[…]}``: compact JSON, one object a payload in input order, non-ASCII text kept."""
    return _encode(payloads).decode()


def text_size(payloads: Sequence[PayloadEnvelope]) -> int:
    """Return how many UTF-8 bytes `render_payloads` takes; placement budgets count these (docs/contract.md 5.3)."""
    return len(_encode(payloads))


def _encode(payloads: Sequence[PayloadEnvelope]) -> bytes:
    return msgspec.json.encode({"payloads": [_entry(payload) for payload in payloads]})


def _entry(payload: PayloadEnvelope) -> dict[str, str | None]:
    # What the harness's model reads: no sizes, digests or metadata, which are for programs.
    entry: dict[str, str | None] = {"payload_id": payload.payload_id, "payload_kind": payload.payload_kind}
    if payload.body is not None:
        entry["body"] = payload.body
    else:
        entry["body_ref"] = payload.body_ref
    return entry
