"""The shape of an adapter: native hook call in, emissions out; deliveries in, native answer out.  Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from lifebus_adapters.shared.telemetry import Fact, SourceSpec
from lifebus_contract import (
    Emission,
    IdSource,
    LifecycleEvent,
    ManifestPlacementClass,
    PayloadEnvelope,
    RegisteredAdapter,
)

MAX_PAYLOAD_BYTES: Final = 1_048_576
"""Largest payload of a hook call, in bytes: some harnesses send the whole conversation with each."""


class CallerProcess(Struct, frozen=True, kw_only=True):
    """The harness's process: its id, and when it started in a form that only an equal process has.

    An id alone proves nothing: it is given to another process once the first is gone.
    """

    pid: int
    started: str


class HookCall(Struct, frozen=True, kw_only=True):
    """One hook call as the hook server got it: nothing in it is parsed yet.

    `call_id` is unique to the hook process and survives the spool, so it makes retries idempotent.
    `env` holds only the few variables that the hook selects.  `spooled_at_epoch_s` is set when the call
    comes late, from the spool.  `oversized` is the size of a payload that was too large to be carried; `stdin` is
    empty then.  `process` is the harness's, where it is known; that of a call that comes late may be gone.
    """

    call_id: str
    adapter_id: str
    hook: str
    cwd: str
    env: Mapping[str, str]
    stdin: bytes
    spooled_at_epoch_s: int | None = None
    oversized: int | None = None
    process: CallerProcess | None = None


class HookReading(Struct, frozen=True, kw_only=True):
    """What one hook call means.

    `hook` is the hook's own name and `session` the session it is about, None where it names none.  `emissions`
    are its lifecycle events in causal order, all of one `invocation_id`; `facts` what else is in the payload
    (token counts, a turn's end); `transcript` the telemetry file that it names.  A call for a `display` only wants
    something to show: it does not prove that hooks are run.  Unless the call `names_frame`, the frame id of its
    emissions is a stand-in; one that `may_continue` the open frame may be no prompt of a user.  One that
    `announces` the end of its frame has a lone `frame.ending` or `frame.ended`, and the frame may go on.  A call
    `by_harness` itself comes from a plugin: its process is no helper's.  One that `reminds` says nothing of a
    wait for a person that is known already.
    """

    hook: str
    session: str | None = None
    emissions: tuple[Emission, ...] = ()
    facts: tuple[Fact, ...] = ()
    transcript: str | None = None
    display: bool = False
    names_frame: bool = True
    may_continue: bool = False
    announces: bool = False
    by_harness: bool = False
    reminds: bool = False


class ContextDelivery(Struct, frozen=True, kw_only=True):
    """A payload that placement has chosen to deliver, and the slot it goes to."""

    event: LifecycleEvent
    payload: PayloadEnvelope
    slot: ManifestPlacementClass


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What the harness gets back: the bytes for stdout and the exit code.  Empty and 0 says "nothing to say"."""

    stdout: bytes = b""
    exit_code: int = 0


class Adapter(Protocol):
    """Everything lifebus knows about one harness (docs/architecture.md, "The tree").

    Implementations are pure: time is in the call, ids come from the given source.
    """

    @property
    def registered(self) -> RegisteredAdapter:
        """The manifest with its conformance level and refused placements."""
        ...

    @property
    def sources(self) -> Sequence[SourceSpec]:
        """The telemetry files that the harness writes."""
        ...

    def read(self, call: HookCall, ids: IdSource) -> HookReading:
        """Return what a native hook call means; of a hook that means nothing, its name only.

        Raises:
            InvalidRequest: the payload is not what this harness sends, or the hook is not known.
        """
        ...

    def session_of(self, call: HookCall) -> str | None:
        """Return the session that a call names, though the call as a whole may not be readable; None if it does not."""
        ...

    def render(self, call: HookCall, deliveries: Sequence[ContextDelivery]) -> HookAnswer:
        """Return the native answer that carries the deliveries, within the harness's rules and limits."""
        ...
