"""Hook calls, deliveries and captures for the adapter tests; deterministic."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lifebus_adapters import ADAPTERS, Adapter, ContextDelivery, HookCall
from lifebus_adapters.shared.rules import HookTable
from lifebus_contract import (
    AcceptablePlacement,
    Emission,
    IdSource,
    LifecycleEvent,
    ManifestPlacementClass,
    PayloadEnvelope,
    PlacementClass,
    RequirementLevel,
)
from support.paths import CAPTURES

CAPTURE_FILES = sorted(CAPTURES.glob("*/*/*.jsonl"))


def ids() -> IdSource:
    return IdSource(lambda: 1_800_000_000_000, lambda n: bytes(range(n)))


def call(adapter_id: str, payload: Any, hook: str = "", **changes: Any) -> HookCall:
    stdin = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    settings = {"call_id": "call-1", "cwd": "/home/dev/project", "env": {}} | changes
    return HookCall(adapter_id=adapter_id, hook=hook, stdin=stdin, **settings)


def parse(adapter_id: str, payload: Any, hook: str = "", **changes: Any) -> tuple[Emission, ...]:
    return ADAPTERS[adapter_id].read(call(adapter_id, payload, hook, **changes), ids()).emissions


def events(emissions: tuple[Emission, ...]) -> list[str]:
    return [emission.request.event.value for emission in emissions]


def warning_codes(emission: Emission) -> list[str]:
    return [warning.code for warning in emission.warnings]


def captured(path: Path) -> Iterator[tuple[HookCall, dict[str, Any]]]:
    """Yield the recorded hook calls of a file, each with its payload.

    Command hooks were recorded with their stdin; plugin hooks are themselves what a plugin passes on.
    """
    adapter_id = path.parent.parent.name
    for number, line in enumerate(path.read_text().splitlines()):
        record = json.loads(line)
        payload = record.get("stdin", record)
        hook = record["event"] if "stdin" in record else record["hook"]
        yield call(adapter_id, payload, hook, call_id=f"call-{number}"), payload


def hooks_of(adapter_id: str) -> HookTable:
    return ADAPTERS[adapter_id].hooks


def slots_of(adapter_id: str) -> dict[str, ManifestPlacementClass]:
    rules = ADAPTERS[adapter_id].hooks.rules
    return {hook: rule.takes for hook, rule in rules.items() if rule.takes is not None}


def adapter_of(path: Path) -> Adapter:
    return ADAPTERS[path.parent.parent.name]


def delivery(
    body: str = "remember the milk",
    *,
    event: LifecycleEvent = LifecycleEvent.SESSION_STARTING,
    slot: ManifestPlacementClass = ManifestPlacementClass.PRE_SESSION,
    payload_id: str = "pay_1",
    placement: PlacementClass = PlacementClass.PRE_PROMPT_FRAME,
) -> ContextDelivery:
    payload = PayloadEnvelope(
        schema_version="lifeloop.v0.2",
        payload_id=payload_id,
        client_id="test-client",
        payload_kind="instruction_frame",
        format="text",
        content_encoding="utf8",
        byte_size=len(body.encode()),
        acceptable_placements=(AcceptablePlacement(placement=placement, requirement=RequirementLevel.PREFERRED),),
        body=body,
    )
    return ContextDelivery(event=event, payload=payload, slot=slot)
