"""An adapter program for an imagined harness, `tiny`: it passes `lifebus contract conform -- python program.py`."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MANIFEST = json.loads((HERE / "manifest.json").read_text())
EVENTS = {
    "start": ("session.starting", "session.started"),
    "prompt": ("frame.opening", "frame.opened"),
    "done": ("frame.ending", "frame.ended"),
    "tool": (),
}


def word(payload: dict[str, Any], key: str) -> str:
    value = payload[key]
    if not isinstance(value, str) or not value.isprintable() or len(value) not in range(1, 257):
        raise ValueError(f"{key} must be a short text")
    return value


def read(call: dict[str, Any]) -> dict[str, Any]:
    payload = json.loads(base64.b64decode(call["stdin_base64"]))
    hook, session = word(payload, "hook"), word(payload, "session")
    turn = word(payload, "turn") if hook in {"prompt", "done"} else None
    return {"hook": hook, "session": session, "emissions": [emission(call, e, session, turn) for e in EVENTS[hook]]}


def emission(call: dict[str, Any], event: str, session: str, turn: str | None) -> dict[str, Any]:
    call_id = call["call_id"]
    request: dict[str, Any] = {"schema_version": "lifeloop.v0.2", "event": event, "harness_session_id": session}
    request |= {"adapter_id": "tiny", "adapter_version": "1", "integration_mode": "native_hook"}
    request |= {"event_id": call_id, "invocation_id": call_id, "idempotency_key": f"{call_id}:{event}"}
    if turn:
        request |= {"harness_task_id": turn, "frame_context": {"frame_id": turn, "frame_class": "top_level"}}
    late = call["spooled_at_epoch_s"] is not None
    return {"request": request, "warnings": [{"code": "spooled_late", "message": "came late"}] if late else []}


def render(call: dict[str, Any], context: str, deliveries: list[Any]) -> dict[str, Any]:
    if not deliveries or read(call)["hook"] != "prompt":
        return {}
    if len(context.encode()) > MANIFEST["placement"]["pre_frame_trailing"]["max_bytes"]:
        raise OverflowError("too much context")
    return {"stdout": json.dumps({"context": context})}


def answer(ask: dict[str, Any]) -> Any:
    match ask["verb"]:
        case "manifest":
            return MANIFEST
        case "examples":
            return [json.loads(line) for line in (HERE / "examples.jsonl").read_text().splitlines()]
        case "read":
            return read(ask["call"])
        case _:
            return render(ask["call"], ask["context"], ask["deliveries"])


for line in sys.stdin:
    try:
        reply = {"ok": answer(json.loads(line))}
    except OverflowError as fault:
        reply = {"refused": {"failure_class": "payload_too_large", "detail": str(fault)}}
    except (ValueError, KeyError, TypeError, RecursionError):
        reply = {"refused": {"failure_class": "invalid_request", "detail": "not a call of tiny"}}
    print(json.dumps(reply), flush=True)
