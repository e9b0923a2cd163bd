"""Putting records to a harness's reader, and keeping count of what it makes of them."""

from collections.abc import Callable, Sequence
from typing import Final

import structlog
from msgspec import Struct

from lifebus_adapters.shared.telemetry import Fact
from lifebus_contract import InvalidRequest

_LOG: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lifebus.watching")


class ReadResult(Struct, frozen=True, kw_only=True):
    """What one reading of a file brought (see `Found`)."""

    facts: tuple[Fact, ...] = ()
    grown: int = 0
    skipped: int = 0
    history: bool = False

    @property
    def is_news(self) -> bool:
        """Whether it brought anything."""
        return bool(self.facts or self.grown or self.skipped)


class DefectLog:
    """Logs the first failure of a source's reader that is a fault of ours, and no other."""

    def __init__(self, adapter_id: str, source_id: str) -> None:
        self._source = {"adapter_id": adapter_id, "source_id": source_id}
        self._logged = False

    def log(self, fault: Exception) -> None:
        """Log a fault, without what the file says."""
        if not self._logged:
            self._logged = True
            _LOG.error("telemetry_reader_defect", fault=type(fault).__name__, **self._source)


class Decoder:
    """Counts records: read, skipped, and unreadable ones in a row."""

    def __init__(self, defects: DefectLog) -> None:
        self._defects = defects
        self.records = 0
        self.skipped = 0
        self.run = 0
        self.evidence = ""

    def hear(self, tell: Callable[[], Sequence[Fact]], count: int = 1) -> Sequence[Fact]:
        """Return what a reader tells of `count` records, nothing where it cannot read them."""
        try:
            facts = tell()
        except InvalidRequest as fault:
            self._unreadable(" ".join(filter(None, ("unreadable record", fault.code, fault.field))))
        except Exception as fault:  # noqa: BLE001  a defect of a reader must not end the watching of other files
            self._defects.log(fault)
            self._unreadable(f"defect of the reader: {type(fault).__name__}")
        else:
            self.records += count
            self.run, self.evidence = 0, ""
            return facts
        return ()

    def _unreadable(self, evidence: str) -> None:
        self.skipped += 1
        self.run += 1
        self.evidence = evidence

    def start_again(self) -> None:
        """Forget the unreadable run: the file is another one now."""
        self.run, self.evidence = 0, ""
