"""A set of extensions is made: found, read, judged, imported in a host of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import anyio.to_thread
from msgspec import Struct

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import (
    Compatibility,
    ExtensionCapabilities,
    ExtensionInfo,
    ExtensionOrigin,
    LoadError,
    LoadErrorCode,
    TrustEvaluation,
    TrustStatus,
)
from lifebus_supervisor.extensions.extension_set import ExtensionSet, PassHandler
from lifebus_supervisor.extensions.folders import (
    Contents,
    UnsafeFolder,
    copy_contents,
    list_folder,
    read_folder,
    remove_copies,
)
from lifebus_supervisor.extensions.ports import ExtensionHost
from lifebus_supervisor.extensions.rules.compatibility import check_compatibility
from lifebus_supervisor.extensions.rules.discovery import Candidate, Root, discover
from lifebus_supervisor.extensions.rules.dispatch import DEFAULT_PRIORITY, Handler, ordered
from lifebus_supervisor.extensions.rules.manifest import (
    ENTRYPOINT,
    JSON_NAME,
    TOML_NAME,
    Manifest,
    UnreadableManifest,
    read_json,
    read_toml,
    without_manifest,
)
from lifebus_supervisor.extensions.rules.trust import check_content, evaluate_trust
from lifebus_transports.messages.extensions.host import LoadedModule, ModuleSource

_READERS: Final = ((TOML_NAME, read_toml), (JSON_NAME, read_json))

MakeHost = Callable[[], ExtensionHost]
"""Makes a host that nothing is loaded into."""


class Rules(Struct, frozen=True, kw_only=True):
    """By what a set is made.  `trusted` has the hash that was recorded for each name; `copies` is a private folder."""

    roots: tuple[Root, ...]
    mode: TrustMode
    trusted: Mapping[str, str]
    handler_timeout_ms: int
    copies: Path


class Importable(Struct, frozen=True, kw_only=True):
    """An extension that may be imported."""

    candidate: Candidate
    contents: Contents
    manifest: Manifest
    manifest_name: str | None
    entrypoint: str
    compatibility: Compatibility


class Refused(Exception):
    """An extension cannot be loaded; `error` says why."""

    def __init__(self, name: str, code: LoadErrorCode, why: str) -> None:
        super().__init__(why)
        self.error = LoadError(extension=name[:256], code=code, message=why[:1_024])


def prepare(rules: Rules) -> tuple[list[Importable], list[LoadError]]:
    """Return what may be imported, in the order of loading, and what may not; blocks, and imports nothing."""
    found = discover(rules.roots, list_folder)
    prepared: list[Importable] = []
    errors = list(found.errors)
    agents: dict[str, str] = {}
    for candidate in found.candidates:
        try:
            one = prepare_one(candidate, rules)
            _claim_agent(one, agents)
        except Refused as refused:
            errors.append(refused.error)
        else:
            prepared.append(one)
    return prepared, errors


def prepare_one(candidate: Candidate, rules: Rules) -> Importable:
    """Return a candidate that may be imported; blocks.

    Raises:
        Refused: it may not.
    """
    name = candidate.module_name
    try:
        contents = read_folder(candidate.path)
    except UnsafeFolder as fault:
        raise Refused(name, LoadErrorCode.UNSAFE_PATH, str(fault)) from None
    manifest, manifest_name = _manifest_of(name, contents)
    compatibility = check_compatibility(manifest)
    if not compatibility.compatible:
        raise Refused(manifest.name, LoadErrorCode.INCOMPATIBLE_RUNTIME, "; ".join(compatibility.reasons))
    # Before the import: code that nobody trusts must not run, not even once.
    why = check_content(rules.mode, name, contents.digest, rules.trusted.get(name))
    if why is None and rules.mode is TrustMode.ENFORCED and manifest.capabilities is None:
        why = "it declares no capabilities"
    if why is not None:
        raise Refused(manifest.name, LoadErrorCode.TRUST_DENIED, why)
    return Importable(
        candidate=candidate,
        contents=contents,
        manifest=manifest,
        manifest_name=manifest_name,
        entrypoint=_entrypoint_of(manifest, contents),
        compatibility=compatibility,
    )


async def load_set(rules: Rules, version: str, make_host: MakeHost, loaded_at: Callable[[], str]) -> ExtensionSet:
    """Return a set, under a new version, of everything that can be loaded; its errors say what cannot, and why.

    An extension that fails at its import is left out, and the others are imported anew in a host that never saw it.
    """
    prepared, errors = await anyio.to_thread.run_sync(prepare, rules)
    copies = rules.copies / version
    try:
        await anyio.to_thread.run_sync(_copy_all, prepared, copies)
    except OSError as fault:
        why = f"what is run of it cannot be written below {copies}: {fault.strerror}"
        errors += [_left_out(one, LoadErrorCode.HOST_FAILED, why) for one in prepared]
        prepared = []
    while prepared:
        host = make_host()
        modules = await host.load([_source(one, copies) for one in prepared])
        failed = _failures(prepared, modules, rules)
        if not failed:
            return _made(version, loaded_at(), rules, (prepared, modules, errors), host)
        await host.aclose()
        errors += failed.values()
        prepared = [one for one in prepared if one.candidate.module_name not in failed]
    await anyio.to_thread.run_sync(remove_copies, copies)
    return ExtensionSet(version, loaded_at(), rules.mode, errors=errors)


def _manifest_of(name: str, contents: Contents) -> tuple[Manifest, str | None]:
    for manifest_name, read in _READERS:
        data = contents.files.get(manifest_name)
        if data is not None:
            try:
                return read(data), manifest_name
            except UnreadableManifest as fault:
                raise Refused(name, LoadErrorCode.INVALID_MANIFEST, str(fault)) from None
    return without_manifest(name), None


def _entrypoint_of(manifest: Manifest, contents: Contents) -> str:
    """Return the file to import, one of those that were read, so that it lies within the folder."""
    named = manifest.entrypoint
    path = str(PurePosixPath(named)) if named is not None else ENTRYPOINT
    if path in contents.files and path.endswith(".py"):
        if all(part.isidentifier() for part in PurePosixPath(path).with_suffix("").parts):
            return path
        raise Refused(manifest.name, LoadErrorCode.MISSING_ENTRYPOINT, f"`{path[:128]}` cannot be imported by its name")
    # The specification's manifest may name a file of another language; what we run lies beside it.
    if named is not None and not named.endswith(".py") and ENTRYPOINT in contents.files:
        return ENTRYPOINT
    raise Refused(manifest.name, LoadErrorCode.MISSING_ENTRYPOINT, f"there is no file `{path[:128]}` in its folder")


def _claim_agent(one: Importable, agents: dict[str, str]) -> None:
    agent_id, name = one.manifest.agent_id, one.candidate.module_name
    first = agents.setdefault(agent_id, name)
    if first != name:
        why = f"`{first}` has the same agent id, `{agent_id}`"
        raise Refused(one.manifest.name, LoadErrorCode.AGENT_ID_CONFLICT, why)


def _copy_all(prepared: Iterable[Importable], copies: Path) -> None:
    copies.mkdir(mode=0o700, parents=True)
    for one in prepared:
        copy_contents(one.contents, copies / one.candidate.module_name)


def _source(one: Importable, copies: Path) -> ModuleSource:
    name = one.candidate.module_name
    return ModuleSource(name, str(copies / name), one.entrypoint)


def _failures(prepared: Sequence[Importable], modules: Sequence[LoadedModule], rules: Rules) -> dict[str, LoadError]:
    """Return what went wrong with modules, by their names; those that merely were not reached are none of it."""
    failed: dict[str, LoadError] = {}
    guilty = [one.fault for one in modules if one.fault is not None and one.fault.code != LoadErrorCode.HOST_FAILED]
    for one, module in zip(prepared, modules, strict=True):
        name = one.candidate.module_name
        if module.fault is not None:
            # Where nobody is known to be guilty all have failed, or loading would be tried for ever.
            if module.fault.code != LoadErrorCode.HOST_FAILED or not guilty:
                failed[name] = _left_out(one, LoadErrorCode(module.fault.code), module.fault.text)
            continue
        trust = _trust_of(one, module, rules)
        if trust.status is TrustStatus.DENIED:
            failed[name] = _left_out(one, LoadErrorCode.TRUST_DENIED, "; ".join(trust.errors))
    return failed


def _left_out(one: Importable, code: LoadErrorCode, why: str) -> LoadError:
    return LoadError(extension=one.manifest.name, code=code, message=why[:1_024])


def _trust_of(one: Importable, module: LoadedModule, rules: Rules) -> TrustEvaluation:
    name = one.candidate.module_name
    return evaluate_trust(
        rules.mode,
        one.manifest.capabilities,
        [each.event_type for each in module.registrations],
        module_name=name,
        content_hash=one.contents.digest,
        trusted_hash=rules.trusted.get(name),
    )


def _made(
    version: str,
    loaded_at: str,
    rules: Rules,
    found: tuple[Sequence[Importable], Sequence[LoadedModule], Sequence[LoadError]],
    host: ExtensionHost,
) -> ExtensionSet:
    prepared, modules, errors = found
    infos: list[ExtensionInfo] = []
    bound: dict[Handler, PassHandler] = {}
    capabilities: dict[str, ExtensionCapabilities | None] = {}
    for one, module in zip(prepared, modules, strict=True):
        name = one.candidate.module_name
        capabilities[name] = one.manifest.capabilities
        infos.append(_info(one, module, rules))
        for number, each in enumerate(module.registrations):
            handler = Handler(
                module_name=name,
                event_type=each.event_type,
                priority=DEFAULT_PRIORITY if each.priority is None else each.priority,
                index=len(bound),
                timeout_ms=each.timeout_ms or rules.handler_timeout_ms,
            )
            bound[handler] = PassHandler(handler, number)
    handlers: dict[str, list[PassHandler]] = {}
    for handler in ordered(bound):
        handlers.setdefault(handler.event_type, []).append(bound[handler])
    return ExtensionSet(
        version,
        loaded_at,
        rules.mode,
        modules=infos,
        capabilities=capabilities,
        handlers=handlers,
        errors=errors,
        host=host,
    )


def _info(one: Importable, module: LoadedModule, rules: Rules) -> ExtensionInfo:
    candidate, manifest = one.candidate, one.manifest
    trust = _trust_of(one, module, rules)
    shadows = tuple(f"{path} has the same name, from a weaker root, and is not loaded" for path in candidate.shadows)
    return ExtensionInfo(
        module_name=candidate.module_name,
        name=manifest.name,
        version=manifest.version,
        agent_id=manifest.agent_id,
        display_name=manifest.display_name,
        manifest_path=None if one.manifest_name is None else f"{candidate.path}/{one.manifest_name}",
        entrypoint_path=f"{candidate.path}/{one.entrypoint}",
        events=tuple(dict.fromkeys(each.event_type for each in module.registrations)),
        origin=ExtensionOrigin(type=candidate.origin, path=candidate.path),
        compatibility=one.compatibility,
        capabilities=manifest.capabilities or ExtensionCapabilities(),
        trust=trust,
        diagnostics=(*shadows, *trust.warnings),
    )
