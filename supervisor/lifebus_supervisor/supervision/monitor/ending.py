"""The end of a session that a hook has announced, until it is recorded.  Pure."""

from typing import Any

from msgspec import Struct

from lifebus_contract.fields import FactValue


class AnnouncedSessionEnd(Struct, frozen=True, kw_only=True):
    """An end that waits until the session's telemetry has been read.

    `facts` are the hook's and `metadata` what it has for callback clients, `source` names the hook; `at` is when it
    came, in monotonic seconds.  `is_read` says that the telemetry has been read since.
    """

    facts: dict[str, FactValue]
    metadata: dict[str, Any] = {}
    source: str
    at: float
    is_read: bool = False
