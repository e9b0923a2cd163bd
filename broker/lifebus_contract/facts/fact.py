"""What one fact of `telemetry_summary` is: its type, its unit, what it means, and who reports it.  Pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from lifebus_contract.vocabulary import LifecycleEvent

ANY_EVENT: Final = tuple(event for event in LifecycleEvent if event is not LifecycleEvent.RECEIPT_EMITTED)
"""Every event of which there are receipts."""


class FactType(StrEnum):
    """What the value of a fact is; null stands for what is not known, where a fact may be null."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    TEXT_OR_INTEGER = "text or integer"


class Fact(Struct, frozen=True, kw_only=True):
    """A fact of the receipts of some events.

    `values` are all the values that it can have, where they can be counted.  `reporter` says who reports it beside the
    harnesses whose recordings have it; where no recording has it, `shown_by` names the test that shows it.
    """

    key: str
    kind: FactType
    meaning: str
    events: tuple[LifecycleEvent, ...]
    unit: str = ""
    values: tuple[str, ...] = ()
    nullable: bool = False
    reporter: str = ""
    shown_by: str = ""


def text(
    key: str,
    meaning: str,
    events: Iterable[LifecycleEvent],
    values: str = "",
    *,
    nullable: bool = False,
    reporter: str = "",
    shown_by: str = "",
) -> Fact:
    """Return a fact that is text; `values` are words with blanks between."""
    return Fact(
        key=key,
        kind=FactType.TEXT,
        meaning=meaning,
        events=tuple(events),
        values=tuple(values.split()),
        nullable=nullable,
        reporter=reporter,
        shown_by=shown_by,
    )


def number(
    key: str,
    meaning: str,
    events: Iterable[LifecycleEvent],
    unit: str = "",
    *,
    nullable: bool = False,
    reporter: str = "",
    shown_by: str = "",
) -> Fact:
    """Return a fact that is an integer."""
    return Fact(
        key=key,
        kind=FactType.INTEGER,
        meaning=meaning,
        events=tuple(events),
        unit=unit,
        nullable=nullable,
        reporter=reporter,
        shown_by=shown_by,
    )


def flag(key: str, meaning: str, events: Iterable[LifecycleEvent], *, reporter: str = "", shown_by: str = "") -> Fact:
    """Return a fact that is true or false."""
    return Fact(
        key=key, kind=FactType.BOOLEAN, meaning=meaning, events=tuple(events), reporter=reporter, shown_by=shown_by
    )
