"""`lifebus emit`: record lifecycle events, from flags or from documents."""

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_choice, require_name
from lifebus.cli.choices import (
    Capabilities,
    OneAdapter,
    OneEvent,
    OneSession,
    Placements,
    Several,
    parse_adapters,
    split_values,
)
from lifebus.cli.connection import CLIENT_ID, on_bus
from lifebus.cli.contract.negotiate import parse_requirements
from lifebus.cli.documents import DocumentPath, naming_document, read_batches, read_document
from lifebus.cli.errors import refusal_lines
from lifebus.cli.exit_codes import ExitCode, UsageError, exit_code_of
from lifebus.cli.failed_receipts import failure_lines
from lifebus.cli.terminal import put_json, say_lines
from lifebus_contract import (
    CallbackRequest,
    Emission,
    IntegrationMode,
    InvalidRequest,
    LifecycleEvent,
    PayloadEnvelope,
    PlacementClass,
    ReceiptStatus,
    load_json,
    validate,
)

if TYPE_CHECKING:
    from lifebus.client import Bus, Emitted

_BATCH: Final = 256
_WHOLE: Final = re.compile(r"-?\d{1,15}$", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """What the event is about."""

    adapter: OneAdapter = None
    "The adapter's id, e.g. codex."
    adapter_version: str = "0.1.0"
    "The adapter's version; the default is 0.1.0."
    mode: str = "native_hook"
    "The integration mode; the default is native_hook."
    session: OneSession = None
    "The harness's session id, or the short name of a session, e.g. api#3."
    frame: str | None = None
    "The frame's id, for frame events."
    parent_frame: str | None = None
    "The parent frame's id, for a subcall."
    fact: Several = ()
    "A fact that its receipt has, as NAME=VALUE, e.g. context_used_pct=85; `lifebus contract events EVENT` lists them."
    key: str | None = None
    "The idempotency key: the same command with the same key is recorded once. Without one a fresh key is made."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PayloadOptions:
    """What is to be delivered with the event, and what it requires."""

    payload: Path | None = None
    "A text file to deliver as a payload."
    kind: str = "text"
    "The payload's kind; the default is text."
    placement: Placements = ("pre_prompt_frame",)
    "Where the payload may land; the default is pre_prompt_frame."
    require: Capabilities = ()
    "A capability that must be had."
    prefer: Capabilities = ()
    "A capability that would be better."


_FLAGS: Final = {
    "$.client_id": "--client",
    "$.payload_kind": "--kind",
    "$.adapter_version": "--adapter-version",
    "$.frame_context": "--frame",
    "$.harness_session_id": "--session",
    "$.idempotency_key": "--key",
    "$.integration_mode": "--mode",
}
"""The flags from which the fields of requests and payloads come, and what lies beneath those."""

_NO_DETAILS: Final = EventOptions()
_NO_DELIVERY: Final = PayloadOptions()


def emit(
    event: OneEvent = None,
    /,
    *,
    file: DocumentPath = None,
    jsonl: bool = False,
    client: str = CLIENT_ID,
    details: EventOptions = _NO_DETAILS,
    delivery: PayloadOptions = _NO_DELIVERY,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Record a lifecycle event, and print its receipts once they are durable.

    Exit code 1 if a receipt says `failed` or the broker refused; 65 if the event is against the contract.

    Args:
        event: The event, e.g. session.started.
        file: A request or emission in JSON instead of flags; `-` is stdin.
        jsonl: The file holds one document a line.
        client: The client id under which it is recorded; the default is lifebus-cli.
        details: What the event is about.
        delivery: What is delivered with it.
        connection: Where the broker is, and the form of the answer.
    """
    # Flags describe one event; documents describe themselves.
    if (event is None) == (file is None):
        raise UsageError("give an EVENT with its flags, or --file with documents")
    require_name("--client", client)
    batches = (
        iter([[_made(event, client, details, delivery, connection)]]) if event is not None else _read(file, jsonl=jsonl)
    )
    return _record(batches, client, connection)


def record_document(document: bytes, client: str, flags: Mapping[str, str]) -> ExitCode:
    """Record the emission that a document is; where it was recorded before, print the receipts of then.

    `flags` are those of the command line, with those of the connection among them.
    """
    directory = Path(flags["--runtime-dir"]) if "--runtime-dir" in flags else None
    timeout = flags.get("--timeout", DEFAULT_CONNECTION.timeout)
    connection = ConnectionOptions(json="--json" in flags, runtime_dir=directory, timeout=timeout)
    return _record(iter([[_document(document, "")]]), client, connection)


def _record(batches: Iterator[list[Emission]], client: str, connection: ConnectionOptions) -> ExitCode:
    """Record what there is, as it comes, and print its receipts."""

    async def send(bus: "Bus") -> ExitCode:
        code = ExitCode.OK
        for batch in batches:
            # A bound on what is under way: a file may hold millions of documents.
            for start in range(0, len(batch), _BATCH):
                code = _shown(await bus.emit(batch[start : start + _BATCH]), code, json=connection.json)
        return code

    return on_bus(connection, send, client_id=client)


def _made(
    event: str, client: str, details: EventOptions, delivery: PayloadOptions, connection: ConnectionOptions
) -> Emission:
    """Return the emission that the flags describe."""
    from lifebus.requests import make_request  # noqa: PLC0415

    name = parse_choice("EVENT", event, [one.value for one in LifecycleEvent])
    adapter, session = _session(details, connection)
    if adapter is None:
        raise UsageError("--adapter: whose event is it? `lifebus contract manifest list` shows the adapters")
    # Without the key in `more`, `make_request` makes a fresh one.
    more: dict[str, Any] = {"idempotency_key": details.key} if details.key is not None else {}
    if details.frame is not None:
        frame = {"frame_id": details.frame, "frame_class": "subcall" if details.parent_frame else "top_level"}
        more["frame_context"] = frame | ({"parent_frame_id": details.parent_frame} if details.parent_frame else {})
    with _naming_flags():
        request = make_request(
            name,
            adapter,
            adapter_version=details.adapter_version,
            integration_mode=parse_choice("--mode", details.mode, [one.value for one in IntegrationMode]),
            session=session,
            **more,
        )
        payloads = (_payload(delivery.payload, client, request, delivery),) if delivery.payload is not None else ()
    requirements = tuple(parse_requirements(delivery.require, delivery.prefer, ()))
    telemetry = dict(map(_fact, details.fact))
    return Emission(request=request, payloads=payloads, requirements=requirements, telemetry=telemetry)


def _fact(text: str) -> tuple[str, str | int | bool | None]:
    """Return a fact and its value: a whole number, true, false or null where it is written so, else text.

    Raises:
        UsageError: it is no NAME=VALUE.
    """
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise UsageError(f"--fact: `{text[:64]}` is not NAME=VALUE, such as context_used_pct=85")
    words: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    return name, words[value] if value in words else int(value) if _WHOLE.match(value) else value


@contextmanager
def _naming_flags() -> Generator[None]:
    """Name the flag where a field is refused: the user wrote flags, and knows no field.

    Raises:
        InvalidRequest: it was refused.
    """
    try:
        yield
    except InvalidRequest as fault:
        field = fault.field or ""
        flag = next((flag for name, flag in _FLAGS.items() if field == name or field.startswith(f"{name}.")), None)
        detail = fault.detail if flag is None else fault.detail.replace(field, f"{field} ({flag})", 1)
        raise InvalidRequest(detail, code=fault.code, field=fault.field) from None


def _session(details: EventOptions, connection: ConnectionOptions) -> tuple[str | None, str | None]:
    """Return adapter and session id: of a session that is called so, else both as they are written.

    Raises:
        UsageError: there is no such adapter, or the session is another one's.
    """
    adapter = next(iter(parse_adapters([details.adapter], connection)), None) if details.adapter is not None else None
    text = details.session
    # An event may be the first one of its session, so that an id need not be known.
    if text is None or not any(sign in text for sign in "#/"):
        return adapter, text
    heads = on_bus(connection, lambda bus: bus.sessions())
    ids = {name: one for one in heads for name in (one.name, f"{one.adapter_id}/{one.harness_session_id}")}
    named = ids.get(text)
    if named is None:
        return adapter, text
    if adapter not in {None, named.adapter_id}:
        raise UsageError(f"--session: `{text[:64]}` is a session of {named.adapter_id}, not of {adapter}")
    return named.adapter_id, named.harness_session_id


def _payload(path: Path, client: str, request: CallbackRequest, delivery: PayloadOptions) -> PayloadEnvelope:
    from lifebus.requests import id_of  # noqa: PLC0415
    from lifebus_contract.ids import PAYLOAD  # noqa: PLC0415

    body = read_document(path)
    known = [placement.value for placement in PlacementClass]
    plain = {
        "schema_version": "lifeloop.v0.2",
        "payload_id": id_of(PAYLOAD, request.idempotency_key, request.adapter_id),
        "client_id": client,
        "payload_kind": delivery.kind,
        "format": "text",
        "content_encoding": "utf8",
        "byte_size": len(body),
        "body": body.decode(),
        "acceptable_placements": [
            {"placement": parse_choice("--placement", placement, known), "requirement": "required"}
            for placement in split_values(delivery.placement)
        ],
    }
    return validate(plain, PayloadEnvelope)


def _read(path: Path | None, *, jsonl: bool) -> Iterator[list[Emission]]:
    """Yield the emissions of a file: of a stream as many at a time as are there."""
    if not jsonl:
        with naming_document(path):
            yield [_document(read_document(path), "")]
        return
    # As many at a time as are there: a slow stream's events are recorded as they come.
    number = 0
    for batch in read_batches(path):
        yield [_document(line, f"line {number}: ") for number, line in enumerate(batch, number + 1)]
        number += len(batch)


def _document(data: bytes, where: str) -> Emission:
    """Return the emission that a document is, or whose request it is."""
    try:
        plain = load_json(data)
        if isinstance(plain, dict) and "request" in plain:
            return validate(plain, Emission)
        return Emission(request=validate(plain, CallbackRequest))
    except InvalidRequest as fault:
        raise InvalidRequest(f"{where}{fault.detail}", code=fault.code, field=fault.field) from None


def _shown(results: "list[Emitted]", code: ExitCode, *, json: bool) -> ExitCode:
    """Print what became of a batch, and return the worse exit code."""
    from lifebus.cli.printing import ReceiptPrinter  # noqa: PLC0415

    printer = ReceiptPrinter(json=False)
    for result in results:
        if json:
            put_json(_plain(result), indent=0)
        for receipt in () if json else result.receipts:
            printer.show(receipt)
            if lines := failure_lines(receipt):
                say_lines(lines)
        if result.refusal is not None:
            say_lines(refusal_lines(result.refusal))
            code = max(code, exit_code_of(result.refusal))
        elif any(receipt.status is ReceiptStatus.FAILED for receipt in result.receipts):
            code = max(code, ExitCode.NEGATIVE)
    return code


def _plain(result: "Emitted") -> dict[str, Any]:
    refusal = result.refusal
    return {
        "receipts": result.receipts,
        "positions": result.positions,
        "replayed": result.replayed,
        "deliveries": result.deliveries,
        "refusal": None
        if refusal is None
        else {
            "failure_class": refusal.failure_class,
            "retry_class": refusal.retry_class,
            "code": refusal.code,
            "field": refusal.field,
            "detail": refusal.detail,
        },
    }
