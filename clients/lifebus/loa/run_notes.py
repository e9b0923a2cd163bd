"""What Loa says of its runs beside the bus: log events and costs, a file of JSON lines a run, in the client's store."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lifebus.loa.types import LoaEvent
from lifebus_contract.runs import CostRecord, CostSummary

DIRECTORY: Final = "loa"
"""The folder of these files in the state directory."""

_MODE: Final = 0o600


class RunNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: a log event, or what calls to a model cost."""

    event: LoaEvent | None = None
    cost: CostRecord | None = None


class RunNotes:
    """The notes of all runs; every method blocks on the disk."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / DIRECTORY

    def add(self, run_id: str, note: RunNote) -> None:
        """Keep a note; it is durable when this returns.

        Raises:
            OSError: it cannot be written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._file(run_id), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
        try:
            size = os.fstat(descriptor).st_size
            # A line that a crash has cut is ended first, so that it cannot spoil this one.
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + msgspec.json.encode(note) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, run_id: str) -> Iterator[RunNote]:
        """Yield the notes of a run, the oldest first; what a crash has cut is left out.

        Raises:
            OSError: they cannot be read.
        """
        try:
            lines = self._file(run_id).read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            try:
                yield msgspec.json.decode(line, type=RunNote)
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue

    def _file(self, run_id: str) -> Path:
        # A digest: a run may be called anything.
        return self._folder / f"{hashlib.sha256(run_id.encode()).hexdigest()[:32]}.jsonl"


def sum_costs(records: Iterator[CostRecord]) -> CostSummary:
    """Return what calls to a model cost in all; those without a price are counted apart."""
    total, seen = CostSummary(), set[str]()
    for one in records:
        if one.key is not None and one.key in seen:
            continue
        seen |= {one.key} if one.key is not None else set()
        total = CostSummary(
            cost_micros=total.cost_micros + (one.cost_micros or 0),
            input_tokens=total.input_tokens + one.input_tokens,
            output_tokens=total.output_tokens + one.output_tokens,
            calls=total.calls + one.calls,
            unpriced_calls=total.unpriced_calls + (one.calls if one.cost_micros is None else 0),
        )
    return total
