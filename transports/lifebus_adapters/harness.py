"""One harness as one value: its manifest, hook table, telemetry and assets.  A `Harness` is an `Adapter`."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from lifebus_adapters.adapter import ContextDelivery, HookAnswer, HookCall, HookReading
from lifebus_adapters.shared.manifests import load_manifest, package_file
from lifebus_adapters.shared.model_calls import CallFiles
from lifebus_adapters.shared.parsing import hook_name, named_session, read_hook, read_payload
from lifebus_adapters.shared.rules import HookFacts, HookTable, no_facts
from lifebus_adapters.shared.telemetry import SourceSpec
from lifebus_contract import (
    ConformanceLevel,
    FailureClass,
    IdSource,
    IntegrationMode,
    ManifestPlacementClass,
    PlacementClass,
    RegisteredAdapter,
    error_for,
)
from lifebus_contract.payload_text import render_payloads

if TYPE_CHECKING:
    from lifebus_adapters.shared.compaction import NoCompaction, SessionCompaction
    from lifebus_adapters.shared.harness_assets import HarnessAssets
    from lifebus_adapters.shared.hook_trust import TrustRules
    from lifebus_adapters.shared.one_shot import OneShot

USER_TEXT_ONLY: Final = frozenset({PlacementClass.DEVELOPER_EQUIVALENT_FRAME})
"""What a harness refuses whose context is user-role text: that is no developer-equivalent frame."""

_NOTHING: Final = HookAnswer()


class Harness(Struct, frozen=True, kw_only=True):
    """Everything that lifebus knows about one harness; an `Adapter` made of data.

    `package` is the package that holds the harness's `manifest.json` and `examples.jsonl`; `conformance`,
    `refused_placements` and `watching_modes` are how its manifest is registered. `hooks` says what its hooks mean and
    which take context; `hook_facts` returns what a hook's payload says beside its events. `sources` are the telemetry
    files that the harness writes, `overrides` our own environment variables about them. `aliases` are other names
    under which people know it. `call_files` is where each of its calls to models is logged.

    Modules that are read when somebody asks: `assets_in` says what lifebus installs for it (`ASSETS`), `trust_in` how
    its user trusts hooks, where it runs no others (`TRUST`), `one_shot_in` how it runs one prompt and ends
    (`ONE_SHOT`), and `compaction_in` how it compacts a session on request, or why it does not (`COMPACTION`).
    """

    package: str
    hooks: HookTable
    assets_in: str
    hook_facts: HookFacts = no_facts
    sources: tuple[SourceSpec, ...] = ()
    overrides: tuple[str, ...] = ()
    trust_in: str | None = None
    conformance: ConformanceLevel = ConformanceLevel.PRE_CONFORMANCE
    refused_placements: frozenset[PlacementClass] = frozenset()
    watching_modes: frozenset[IntegrationMode] = frozenset()
    aliases: frozenset[str] = frozenset()
    one_shot_in: str | None = None
    compaction_in: str | None = None
    call_files: CallFiles | None = None

    @property
    def assets(self) -> "HarnessAssets":
        """What lifebus installs for it."""
        found: HarnessAssets = import_module(self.assets_in).ASSETS
        return found

    @property
    def trust(self) -> "TrustRules | None":
        """How its user trusts hooks; None where it runs all that are installed."""
        if self.trust_in is None:
            return None
        found: TrustRules = import_module(self.trust_in).TRUST
        return found

    @property
    def one_shot(self) -> "OneShot | None":
        """How it runs one prompt and ends; None where it does not."""
        if self.one_shot_in is None:
            return None
        found: OneShot = import_module(self.one_shot_in).ONE_SHOT
        return found

    @property
    def compaction(self) -> "SessionCompaction | NoCompaction":
        """How it compacts a session on request, or why it does not."""
        if self.compaction_in is None:
            from lifebus_adapters.shared import compaction  # noqa: PLC0415  only flows ask

            return compaction.NoCompaction("lifebus knows no command of it that compacts a session")
        found: SessionCompaction | NoCompaction = import_module(self.compaction_in).COMPACTION
        return found

    @property
    def registered(self) -> RegisteredAdapter:
        """Its manifest from the package, with its conformance level."""
        return _registered(self.package, self.conformance, self.refused_placements, self.watching_modes, self.aliases)

    @property
    def adapter_id(self) -> str:
        """The adapter's id."""
        return self.registered.manifest.adapter_id

    @property
    def examples(self) -> bytes:
        """Its example calls from the package, one JSON object a line."""
        return package_file(self.package, "examples.jsonl")

    def read(self, call: HookCall, ids: IdSource) -> HookReading:
        """Return what a hook call means (see `Adapter.read`).

        Raises:
            InvalidRequest: the payload is not what this harness sends, or the hook is not known.
        """
        return read_hook(call, ids, self.hooks, self.registered.manifest, self.hook_facts)

    def session_of(self, call: HookCall) -> str | None:
        """Return the session that a call names, though it may not be readable as a whole (see `Adapter`)."""
        return named_session(call, self.hooks)

    def render(self, call: HookCall, deliveries: Sequence[ContextDelivery]) -> HookAnswer:
        """Return the native answer that carries the deliveries; silence where there are none or the hook takes none.

        A hook whose output is shown to the user gets one short line instead.

        Raises:
            InvalidRequest: the payload names no known hook; or, with class `payload_too_large`, placement let
                through more than the manifest claims.  A text cut short by the harness would be broken JSON.
        """
        # By the command line's name: the payload of a display hook names no hook.
        display = self.hooks.displays.get(call.hook)
        if display is not None:
            return HookAnswer(stdout=display(read_payload(call)).encode())
        if not deliveries:
            return _NOTHING
        hook = hook_name(call, read_payload(call), self.hooks)
        rule = self.hooks.rules.get(hook)
        if rule is None or rule.takes is None:
            return _NOTHING
        context = render_payloads([delivery.payload for delivery in deliveries])
        self._refuse_oversize(context, rule.takes)
        return HookAnswer(stdout=msgspec.json.encode(self.hooks.answer(hook, context)))

    def _refuse_oversize(self, context: str, slot: ManifestPlacementClass) -> None:
        limit = self.registered.manifest.placement[slot].max_bytes
        size = len(context.encode())
        if limit is not None and size > limit:
            raise error_for(
                FailureClass.PAYLOAD_TOO_LARGE,
                f"context of {size} bytes; `{slot.value}` takes {limit}",
                code="context_too_large",
            )


# Every hook call asks for the manifest, and the file does not change while the program runs.
@cache
def _registered(
    package: str,
    conformance: ConformanceLevel,
    refused_placements: frozenset[PlacementClass],
    watching_modes: frozenset[IntegrationMode],
    aliases: frozenset[str],
) -> RegisteredAdapter:
    return RegisteredAdapter(
        manifest=load_manifest(package_file(package, "manifest.json")),
        conformance=conformance,
        refused_placements=refused_placements,
        watching_modes=watching_modes,
        aliases=aliases,
    )
