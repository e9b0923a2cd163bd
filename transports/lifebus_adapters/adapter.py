"""The shape of an adapter: native hook call in, emissions out; deliveries in, native answer out.  Pure.

Above: the hook door and the daemon.  Below: the contract.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from lifebus_contract import (
    Emission,
    IdSource,
    LifecycleEvent,
    ManifestPlacementClass,
    PayloadEnvelope,
    RegisteredAdapter,
)

__all__ = ["Adapter", "Delivery", "HookAnswer", "HookCall"]


class HookCall(Struct, frozen=True, kw_only=True):
    """One hook call as the hook door got it: nothing in it is parsed yet.

    `call_id` is unique to the hook process and survives the spool, so it makes retries idempotent.
    `env` holds only the few variables that the hook selects.  `spooled_at_epoch_s` is set when the call
    comes late, from the spool.
    """

    call_id: str
    adapter_id: str
    hook: str
    cwd: str
    env: Mapping[str, str]
    stdin: bytes
    spooled_at_epoch_s: int | None = None


class Delivery(Struct, frozen=True, kw_only=True):
    """A payload that placement has chosen to deliver, and the slot it goes to."""

    event: LifecycleEvent
    payload: PayloadEnvelope
    slot: ManifestPlacementClass


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What the harness gets back: the bytes for stdout and the exit code.  Empty and 0 says "nothing to say"."""

    stdout: bytes = b""
    exit_code: int = 0


class Adapter(Protocol):
    """Everything lifebus knows about one harness (design 1, 5).

    Implementations are pure: time is in the call, ids come from the given source.
    """

    @property
    def registered(self) -> RegisteredAdapter:
        """The manifest with its conformance level and refused placements."""
        ...

    def parse(self, call: HookCall, ids: IdSource) -> tuple[Emission, ...]:
        """Return the lifecycle events of a native hook call, in causal order; empty when it yields none.

        All of them share one `invocation_id`.

        Raises:
            InvalidRequest: the payload is not what this harness sends, or the hook is not known.
        """
        ...

    def render(self, call: HookCall, deliveries: Sequence[Delivery]) -> HookAnswer:
        """Return the native answer that carries the deliveries, within the harness's rules and limits."""
        ...
