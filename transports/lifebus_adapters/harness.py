"""The adapter of one harness: its manifest, hook table and way to answer, held together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from lifebus_adapters.adapter import Delivery, HookAnswer, HookCall, HookReading
from lifebus_adapters.shared.fields import Payload
from lifebus_adapters.shared.parsing import hook_name, named_session, read_hook, read_payload
from lifebus_adapters.shared.rules import HookFacts, HookTable, no_facts
from lifebus_adapters.shared.telemetry import Source
from lifebus_contract import (
    FailureClass,
    IdSource,
    ManifestPlacementClass,
    RegisteredAdapter,
    error_for,
)
from lifebus_contract.payload_text import render_payloads

_NOTHING = HookAnswer()


class HarnessAdapter(Struct, frozen=True, kw_only=True):
    """An `Adapter` made of data.

    `slots` says which hooks take context and where it lands; `native` wraps the context text into what the harness
    reads from stdout.  `facts` returns what a hook's payload tells beside its events; `sources` are the telemetry
    files that the harness writes.  `status_text` is what a hook of `hooks.displays` shows, made from its payload.
    """

    registered: RegisteredAdapter
    hooks: HookTable
    slots: Mapping[str, ManifestPlacementClass]
    native: Callable[[str, str], dict[str, Any]]
    facts: HookFacts = no_facts
    sources: tuple[Source, ...] = ()
    status_text: Callable[[Payload], str] | None = None

    def read(self, call: HookCall, ids: IdSource) -> HookReading:
        """Return what a hook call tells (see `Adapter.read`).

        Raises:
            InvalidRequest: the payload is not what this harness sends, or the hook is not known.
        """
        return read_hook(call, ids, self.hooks, self.registered.manifest, self.facts)

    def session_of(self, call: HookCall) -> str | None:
        """Return the session that a call names, though it may not be readable as a whole (see `Adapter`)."""
        return named_session(call, self.hooks)

    def render(self, call: HookCall, deliveries: Sequence[Delivery]) -> HookAnswer:
        """Return the native answer that carries the deliveries; silence where there are none or the hook takes none.

        A hook whose output is shown to the user gets one short line instead.

        Raises:
            InvalidRequest: the payload names no known hook; or, with class `payload_too_large`, placement let
                through more than the manifest claims.  A text cut short by the harness would be broken JSON.
        """
        if self.status_text is not None and call.hook in self.hooks.displays:
            return HookAnswer(stdout=self.status_text(read_payload(call)).encode())
        if not deliveries:
            return _NOTHING
        hook = hook_name(call, read_payload(call), self.hooks)
        slot = self.slots.get(hook)
        if slot is None:
            return _NOTHING
        text = render_payloads([delivery.payload for delivery in deliveries])
        self._refuse_oversize(text, slot)
        return HookAnswer(stdout=msgspec.json.encode(self.native(hook, text)))

    def _refuse_oversize(self, text: str, slot: ManifestPlacementClass) -> None:
        limit = self.registered.manifest.placement[slot].max_bytes
        size = len(text.encode())
        if limit is not None and size > limit:
            raise error_for(
                FailureClass.PAYLOAD_TOO_LARGE,
                f"context of {size} bytes; `{slot.value}` takes {limit}",
                code="context_too_large",
            )


def hook_specific_output(hook: str, text: str) -> dict[str, Any]:
    """Return the answer that Codex, Claude Code and Gemini CLI share; not one key more, or Codex drops it all."""
    return {"hookSpecificOutput": {"hookEventName": hook, "additionalContext": text}}
