"""Recorded sessions played in their own time: hooks through the adapter and the bus, telemetry through real files."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from lifebus_adapters import ADAPTERS, HookCall
from lifebus_adapters.shared.telemetry import Surroundings
from lifebus_contract import Receipt
from support.adapters.calls import captured
from support.supervisor.patient_tail import PatientTailer
from support.supervisor.supervised import HARNESS, INTERVAL_S, SupervisedBus

TELEMETRY = {
    "sessions": ".codex/sessions/2026/11/21",
    "projects": ".claude/projects",
    "chats": ".gemini/tmp/project/chats",
}
LOG = "telemetry.log"
KILLED = ("sigkill", "sigterm")

Moment = tuple[float, int, Any]
"""When, in which order at that time, and what: a hook call, or a file and a line of it."""


def moments(capture: Path, home: Path) -> list[Moment]:
    """Everything that a capture holds, by the time it happened at; files before hooks of the same time."""
    found = [*_hook_moments(capture, home)]
    for folder, place in TELEMETRY.items():
        for source in sorted((capture.parent / folder).rglob("*.jsonl")):
            found += _line_moments(source, home / place / source.relative_to(capture.parent / folder))
    if (log := capture.parent / LOG).exists():
        found.append((found[-1][0], 2, (home / LOG, log.read_bytes())))
    return sorted(found, key=lambda moment: moment[:2])


def _hook_moments(capture: Path, home: Path) -> Iterator[Moment]:
    records = [json.loads(line) for line in capture.read_text().splitlines()]
    for record, (call, _) in zip(records, captured(capture), strict=True):
        at = record.get("t_start") or record["t"]
        stdin = call.stdin.replace(b"/home/dev", str(home).encode())
        yield at, 1, structs.replace(call, stdin=stdin, process=HARNESS)


def _line_moments(source: Path, target: Path) -> Iterator[Moment]:
    at = 0.0
    for line in source.read_bytes().splitlines(keepends=True):
        stamp = json.loads(line).get("timestamp")
        if isinstance(stamp, str):
            at = max(at, datetime.fromisoformat(stamp).timestamp())
        yield at, 0, (target, line)


async def play(rig: SupervisedBus, capture: Path, home: Path) -> list[Receipt]:
    """Play a capture to its end, and on until nothing more is said; return every receipt."""
    environ = {"GEMINI_TELEMETRY_OUTFILE": str(home / LOG)}
    surroundings = Surroundings(home=str(home), environ=environ)
    sources = {name: adapter.sources for name, adapter in ADAPTERS.items()}
    rig.restart(PatientTailer(sources, surroundings))
    script = moments(capture, home)
    begun = next(at for at, _, _ in script if at)
    for at, _, what in script:
        await _pass_time(rig, 1_000.0 + max(0.0, at - begun))
        if isinstance(what, HookCall):
            await _call(rig, what)
        else:
            target, line = what
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as file:
                file.write(line)
    if any(word in capture.parent.name for word in KILLED):
        rig.dead.add(HARNESS)
    await rig.tick(12)
    return await rig.since(0)


async def _pass_time(rig: SupervisedBus, until: float) -> None:
    """Tick at each interval up to a time; of a long pause only the first ticks."""
    if until - rig.clock.seconds > 20 * INTERVAL_S:
        await rig.tick(5)
        rig.clock.seconds = until
    while (at := _next_pass(rig)) <= until:
        if at < rig.clock.seconds + INTERVAL_S:
            rig.clock.seconds = max(rig.clock.seconds, at)
            await rig.supervisor.poll_early()
        else:
            await rig.tick()


def _next_pass(rig: SupervisedBus) -> float:
    """When the next tick is due, or an announced end is settled before it."""
    due = rig.clock.seconds + INTERVAL_S
    settles_at = rig.supervisor.settles_at()
    return due if settles_at is None else min(due, settles_at)


async def _call(rig: SupervisedBus, call: HookCall) -> None:
    """Call a hook, and poll the files at once where supervision asks for it."""
    before = rig.wake.count
    await rig.call(call)
    if rig.wake.count > before:
        await rig.supervisor.poll_early()


def receipt_lines(receipts: list[Receipt]) -> str:
    """The receipts as text, one line each: what is the same in every run."""
    return "".join(_line(receipt) for receipt in receipts)


def _line(receipt: Receipt) -> str:
    session = (receipt.harness_session_id or "-")[-6:]
    facts = {name: value for name, value in receipt.telemetry_summary.items() if name not in _LEFT_OUT}
    shown = " ".join(f"{name}={_short(name, value)}" for name, value in sorted(facts.items()))
    lost = " ".join(f"{one.capability}:{one.current_support}" for one in receipt.capability_degradations)
    parts = (
        f"{session} {receipt.sequence} {receipt.event.value} {receipt.status.value}",
        receipt.client_id.removeprefix("lifebus."),
        shown,
        lost,
        " ".join(f"!{warning.code}" for warning in receipt.warnings),
    )
    return " | ".join(part for part in parts if part) + "\n"


_LEFT_OUT = {"cwd", "source_hook", "observed", "duration_ms", "agent_type", "platform"}
_IDS = {"frame_id", "parent_frame_id"}


def _short(name: str, value: object) -> str:
    return str(value)[-6:] if name in _IDS else str(value).replace(" ", "_")
