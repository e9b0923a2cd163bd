"""What is to be recorded of a hook call, and who decides it."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from lifebus_adapters.adapter import HookCall, HookReading
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_contract import Emission


class Admission(Struct, frozen=True, kw_only=True):
    """The emissions of a hook call as they are to be recorded.

    `recorded` is, for a call from the spool, what is on record of each emission of its reading, as the replay that it
    would be; empty where nobody looked.  A call that `is_repeated` is on record already.
    """

    emissions: tuple[Emission, ...]
    recorded: tuple[EmissionResult, ...] = ()
    is_repeated: bool = False


class HookSupervision(Protocol):
    """Knows what else was reported of a session (lifebus_supervisor.supervision)."""

    async def admit(self, call: HookCall, reading: HookReading) -> Admission:
        """Return the emissions as they are to be recorded, merged with what is known already."""
        ...

    def hook_seen(
        self, call: HookCall, reading: HookReading, admission: Admission, results: Sequence[EmissionResult]
    ) -> None:
        """Take in a call that has been recorded."""
        ...


class Unsupervised:
    """Nobody knows more than the hook."""

    async def admit(self, call: HookCall, reading: HookReading) -> Admission:  # noqa: ARG002  a protocol's
        """Return the emissions as they are."""
        return Admission(emissions=reading.emissions)

    def hook_seen(
        self, call: HookCall, reading: HookReading, admission: Admission, results: Sequence[EmissionResult]
    ) -> None:
        """Do nothing."""
