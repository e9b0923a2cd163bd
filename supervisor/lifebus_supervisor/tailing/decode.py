"""Records through a harness's reader, with a count of those that it can and cannot read."""

from collections.abc import Callable, Sequence
from typing import Final

import structlog
from msgspec import Struct

from lifebus_adapters.shared.telemetry import Fact
from lifebus_contract import InvalidRequest

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lifebus.tailing")


class ReadResult(Struct, frozen=True, kw_only=True):
    """What one reading of a file brought (see `FileUpdate`)."""

    facts: tuple[Fact, ...] = ()
    grown: int = 0
    skipped: int = 0
    history: bool = False

    @property
    def is_news(self) -> bool:
        """Whether it brought anything."""
        return bool(self.facts or self.grown or self.skipped)


class DefectLog:
    """Logs the first defect of a source's reader, and no other: it would come with every record."""

    def __init__(self, adapter_id: str, source_id: str) -> None:
        self._source = {"adapter_id": adapter_id, "source_id": source_id}
        self._logged = False

    def log(self, fault: Exception) -> None:
        """Log a defect by its type; its text may quote the file."""
        if not self._logged:
            self._logged = True
            _log.error("telemetry_reader_defect", fault=type(fault).__name__, **self._source)


class Decoder:
    """Hands records to a reader, and counts them: read, skipped, and unreadable ones in a row."""

    def __init__(self, defects: DefectLog) -> None:
        self._defects = defects
        self.records = 0
        self.skipped = 0
        self.unreadable_run = 0
        self.evidence = ""

    def decode(self, read: Callable[[], Sequence[Fact]], count: int = 1) -> Sequence[Fact]:
        """Return the facts that `read` finds in `count` records, none where they cannot be read."""
        try:
            facts = read()
        except InvalidRequest as fault:
            # Code and field only: the detail may quote the record, and evidence goes into receipts.
            self._unreadable(" ".join(filter(None, ("unreadable record", fault.code, fault.field))))
        except Exception as fault:  # noqa: BLE001  a defect of a reader must not stop other files
            self._defects.log(fault)
            self._unreadable(f"defect of the reader: {type(fault).__name__}")
        else:
            self.records += count
            self.unreadable_run, self.evidence = 0, ""
            return facts
        return ()

    def _unreadable(self, evidence: str) -> None:
        self.skipped += 1
        self.unreadable_run += 1
        self.evidence = evidence

    def reset(self) -> None:
        """Forget the unreadable run: the file is another one now."""
        self.unreadable_run, self.evidence = 0, ""
