"""`lifebus emit` of one event by plain flags, through the broker's line socket: no parser, library or event loop."""

import os
import sys

from lifebus.cli.bus.line_socket import ask_line
from lifebus.cli.bus.own_directories import runtime_directory
from lifebus.cli.terminal import clean, put
from lifebus.cli.wording.plain_words import read_plain_words
from lifebus.cli.wording.receipt_line import receipt_line, sequence_text, session_text

TYPE_CHECKING = False  # `typing` would be a third of the command
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_FLAGS = ("--adapter", "--session", "--frame", "--parent-frame", "--client", "--adapter-version", "--mode")
_USUAL = {"--client": "lifebus-cli", "--adapter-version": "0.1.0", "--mode": "native_hook"}
_PLAIN: "dict[str, object]" = {
    "status": "observed",
    "payload_receipts": [],
    "capability_degradations": [],
    "failure_class": None,
}


def emit_plainly(words: "Sequence[str]") -> int | None:
    """Record one event and print its receipt; None where nothing was recorded: the usual way does it, or says why not.

    Where the answer is lost, or is no plain receipt, the usual way asks again under the same key: it prints what there
    is, and nothing is recorded twice.
    """
    found = read_plain_words(words, values=_FLAGS, names=1)
    if found is None or sys.stdout.isatty() or not _is_certain(found):
        return None
    import json  # noqa: PLC0415  only where there is something to send

    client = found.get("--client", _USUAL["--client"])
    document = {"request": _request(found)}
    request = {"id": 1, "verb": "emit", "body": {"client_id": client, "emissions": [document]}}
    answer = ask_line(runtime_directory(os.environ), json.dumps(request).encode())
    if answer is None:
        return None
    results: list[dict[str, Any]] | None = json.loads(answer).get("ok", {}).get("results") if answer else []
    if results is None or any("refusal" in one for one in results):
        return None
    receipts: list[dict[str, Any]] = [receipt for one in results for receipt in one["receipts"]]
    if not receipts or not all(map(_is_plain, receipts)):
        from lifebus.cli.bus.emit import record_document  # noqa: PLC0415  rare, and it loads everything

        return record_document(json.dumps(document).encode(), client)
    for receipt in receipts:
        put(clean(_line(receipt)))
    return 0


def _is_certain(found: "dict[str, str]") -> bool:
    """Whether the words mean what they say: a built-in adapter by its id, and no session by a short name."""
    from lifebus_transports.built_in import BUILT_IN  # noqa: PLC0415  the rule of all commands

    return found.get("--adapter") in BUILT_IN and not any(sign in found.get("--session", "") for sign in "#/")


def _request(found: "dict[str, str]") -> "dict[str, Any]":
    """Return the request that the flags describe, with ids and a key of its own."""
    frame, parent = found.get("--frame"), found.get("--parent-frame")
    context = {"frame_id": frame, "frame_class": "subcall" if parent else "top_level"}
    return {
        "schema_version": "lifeloop.v0.2",
        "event": found["0"],
        "event_id": _new_id("evt_"),
        "adapter_id": found["--adapter"],
        "adapter_version": found.get("--adapter-version", _USUAL["--adapter-version"]),
        "invocation_id": _new_id("inv_"),
        "integration_mode": found.get("--mode", _USUAL["--mode"]),
        "harness_session_id": found.get("--session"),
        "frame_context": None if frame is None else context | ({"parent_frame_id": parent} if parent else {}),
        "idempotency_key": _new_id("idem_"),
    }


def _new_id(prefix: str) -> str:
    return prefix + os.urandom(13).hex()


def _is_plain(receipt: "dict[str, Any]") -> bool:
    """Whether one line tells everything that the receipt says."""
    return not receipt["telemetry_summary"] and receipt.items() >= _PLAIN.items()


def _line(receipt: "dict[str, Any]") -> str:
    session = session_text(receipt["adapter_id"], receipt["harness_session_id"])
    words = (session, sequence_text(receipt["sequence"]), receipt["event"], receipt["status"])
    extras = {"client": receipt["client_id"], "receipt": receipt["receipt_id"]}
    return receipt_line(receipt["at_epoch_s"], words, extras)
