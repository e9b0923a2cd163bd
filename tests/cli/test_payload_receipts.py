"""`lifebus receipts --payload`: everything that became of one payload, in order, and why it was taken back."""

import json
from pathlib import Path

from support.command_line import Shell, broker_up

OF_FRAME = ("--adapter", "claude", "--session", "s1", "--frame", "f1")


def blocked_end() -> bytes:
    """The end of a frame whose prompt was refused, as an emitter reports it."""
    request = {
        "schema_version": "lifeloop.v0.2",
        "event": "frame.ended",
        "event_id": "evt_end",
        "adapter_id": "claude",
        "adapter_version": "0.1.0",
        "invocation_id": "inv_end",
        "integration_mode": "native_hook",
        "harness_session_id": "s1",
        "frame_context": {"frame_id": "f1", "frame_class": "top_level"},
        "idempotency_key": "end",
    }
    return json.dumps({"request": request, "telemetry": {"frame_end": "blocked"}}).encode()


def test_a_delivery_and_its_correction_are_listed_in_order_with_the_cause_in_words(
    alone: Shell, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    note.write_text("remember the milk")
    placed = ("--payload", str(note), "--placement", "developer_equivalent_frame", "--json")
    with broker_up(alone):
        emitted = alone.call("emit", "frame.opening", *OF_FRAME, *placed).lines[0]
        alone.call("emit", "frame.opening", "--adapter", "claude", "--session", "s2", "--frame", "f2", *placed)
        assert alone.call("emit", "--file", "-", stdin=blocked_end()).code == 0
    payload = emitted["deliveries"][0]["payload"]["payload_id"]
    # A broker corrects before it ends; without one the file is read.
    exported = alone.call("receipts", "export", "--payload", payload).lines
    with broker_up(alone):
        listed = [line["receipt"] for line in alone.call("receipts", "--payload", payload, "--json").lines]
        followed = alone.call("tail", "--no-follow", "--payload", payload, "--json").lines
        lines = alone.call("receipts", "--payload", payload).out.splitlines()
        newest = alone.call("receipts", "--payload", payload, "-n", "1", "--json").lines
        columns = alone.on_terminal("receipts", "--payload", payload, variables={"COLUMNS": "120"}).out
        none = alone.call("receipts", "--payload", "pay_none")
    assert [(one["status"], one["failure_class"]) for one in listed] == [
        ("delivered", None),
        ("failed", "payload_rejected"),
    ]
    assert [one["payload_receipts"][0]["status"] for one in listed] == ["delivered", "failed"]
    assert listed[1]["parent_receipt_id"] == listed[0]["receipt_id"]
    assert exported == listed == [line["receipt"] for line in followed]
    assert [line["receipt"] for line in newest] == listed[1:]
    assert "correction=" not in lines[0]
    assert 'correction="never reached the model: the prompt was blocked"' in lines[1]
    assert "never reached the" in columns
    assert (none.code, none.out, none.err) == (0, "", "no receipts\n")
