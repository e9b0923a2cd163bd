"""`lifebus emit` of one event by plain flags, through the broker's line socket: no parser, library or event loop."""

import os

from lifebus.cli.bus.line_socket import ask_line
from lifebus.cli.bus.plain_connection import CONNECTION_VALUES, connection_of
from lifebus.cli.terminal import put
from lifebus.cli.wording.plain_json import json_text, read_json
from lifebus.cli.wording.plain_words import read_plain_words
from lifebus.cli.wording.receipt_text import ReceiptText

TYPE_CHECKING = False  # `typing` would be a third of the command
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_FLAGS = (
    *("--adapter", "--session", "--frame", "--parent-frame", "--client", "--adapter-version", "--mode", "--key"),
    *CONNECTION_VALUES,
)
_RESULT: "Mapping[str, object]" = {"receipts": [], "positions": [], "replayed": False, "deliveries": []}
_USUAL = {"--client": "lifebus-cli", "--adapter-version": "0.1.0", "--mode": "native_hook"}


def emit_plainly(words: "Sequence[str]") -> int | None:
    """Record one event and print its receipts; None where nothing was recorded: the usual way does it, or says why not.

    Where the answer is lost, or a failure has to be explained, the usual way asks again under the same key: it prints
    what there is, and nothing is recorded twice.
    """
    found = read_plain_words(words, values=_FLAGS, switches=("--json",), names=1)
    connection = None if found is None else connection_of(found, os.environ)
    if found is None or connection is None or not _is_certain(found):
        return None
    client = found.get("--client", _USUAL["--client"])
    document = {"request": _request(found)}
    request = {"id": 1, "verb": "emit", "body": {"client_id": client, "emissions": [document]}}
    directory, seconds = connection
    answer = ask_line(directory, _encoded(request), seconds)
    if answer is None:
        return None
    results: list[dict[str, Any]] | None = read_json(answer).get("ok", {}).get("results") if answer else []
    if results is None or any("refusal" in one for one in results):
        return None
    has_failed = any(one["status"] == "failed" for result in results for one in result["receipts"])
    if not results or (has_failed and "--json" not in found):
        from lifebus.cli.bus.emit import record_document  # noqa: PLC0415  rare, and it loads everything

        return record_document(_encoded(document), client, found)
    _show(results, json="--json" in found)
    return 1 if has_failed else 0


def _encoded(document: "dict[str, Any]") -> bytes:
    """Return a document as the bytes that were typed: the broker refuses what is no UTF-8."""
    return json_text(document).encode("utf-8", "surrogateescape")


def _show(results: "Sequence[Mapping[str, Any]]", *, json: bool) -> None:
    if json:
        for one in results:
            # The wire leaves out what has its usual value; scripts need not know those.
            put(json_text({**_RESULT, **one, "refusal": None}))
        return
    text = ReceiptText()
    for one in results:
        for receipt in one["receipts"]:
            text.show(receipt)


def _is_certain(found: "dict[str, str]") -> bool:
    """Whether the words mean what they say: a built-in adapter by its id, and no session by a short name."""
    from lifebus_transports.built_in import BUILT_IN  # noqa: PLC0415  the rule of all commands

    return found.get("--adapter") in BUILT_IN and not any(sign in found.get("--session", "") for sign in "#/")


def _request(found: "dict[str, str]") -> "dict[str, Any]":
    """Return the request that the flags describe, with ids and a key of its own."""
    frame, parent, key = (found.get(name) for name in ("--frame", "--parent-frame", "--key"))
    context = {"frame_id": frame, "frame_class": "subcall" if parent else "top_level"}
    return {
        "schema_version": "lifeloop.v0.2",
        "event": found["0"],
        "event_id": _id("evt_", found),
        "adapter_id": found["--adapter"],
        "adapter_version": found.get("--adapter-version", _USUAL["--adapter-version"]),
        "invocation_id": _id("inv_", found),
        "integration_mode": found.get("--mode", _USUAL["--mode"]),
        "harness_session_id": found.get("--session"),
        "frame_context": None if frame is None else context | ({"parent_frame_id": parent} if parent else {}),
        "idempotency_key": _new_id("idem_") if key is None else key,
    }


def _id(prefix: str, found: "dict[str, str]") -> str:
    """Return an id that follows from the key where there is one, as `lifebus.make_request` makes it."""
    if "--key" not in found:
        return _new_id(prefix)
    from lifebus._internal.plain.key_ids import id_from_key  # noqa: PLC0415  only with a key

    return id_from_key(prefix, found["--key"], found["--adapter"])


def _new_id(prefix: str) -> str:
    return prefix + os.urandom(13).hex()
