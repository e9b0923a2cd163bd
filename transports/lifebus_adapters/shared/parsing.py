"""From a native hook call to emissions, driven by the harness's table.  Pure.

Rules that hold for every harness:

- The payload's own hook name wins over the name on the command line, which may be stale in somebody's settings.
- Prompts, answers, tool input and output stay where they are: only the facts a rule names are taken over.
- All events of one call share `invocation_id` and `event_id`.  The idempotency key is made of the harness's own ids
  where they name what happened, else of the call's id, and of the event: so what a harness reports twice, and a call
  that is sent again or comes from the spool, is recorded once.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, cast

from msgspec import Struct

from lifebus_adapters.adapter import MAX_PAYLOAD_BYTES, HookCall, HookReading
from lifebus_adapters.shared.fields import Payload, find, identifier, scalar
from lifebus_adapters.shared.own_hooks import table_for
from lifebus_adapters.shared.rules import HookFacts, HookRule, HookTable, IdentityPaths, no_facts
from lifebus_contract import (
    CONTRACT_VERSION,
    FRAME_EVENTS,
    SESSION_EVENTS,
    AdapterManifest,
    CallbackRequest,
    Emission,
    FrameClass,
    FrameContext,
    IdSource,
    IntegrationMode,
    InvalidRequest,
    LifecycleEvent,
    Warning,  # noqa: A004  the contract's own word
    load_json,
)
from lifebus_contract.fields import FactValue
from lifebus_contract.ids import EVENT, INVOCATION

MAX_ITEMS: Final = 65_536
"""Most entries of a hook payload: some carry a whole conversation."""

_CWD_CHARACTERS: Final = 1024
_PATH_CHARACTERS: Final = 4096


class _Invocation(Struct, frozen=True, kw_only=True):
    """What all events of one hook call have in common: they share one invocation."""

    invocation_id: str
    event_id: str
    key: str
    session: str | None
    run: str | None
    task: str | None
    frame: FrameContext | None
    frame_end: str | None
    facts: dict[str, FactValue]
    metadata: dict[str, Any]
    mode: IntegrationMode
    warnings: tuple[Warning, ...]


def read_payload(call: HookCall) -> Payload:
    """Return the call's stdin as a plain object.

    Raises:
        InvalidRequest: not strict JSON, too large or deep, or not an object.
    """
    payload: Any = load_json(call.stdin, max_bytes=MAX_PAYLOAD_BYTES, max_items=MAX_ITEMS)
    if not isinstance(payload, dict):
        raise InvalidRequest("a hook payload must be an object", code="wrong_type", field="$")
    return cast("Payload", payload)


def hook_name(call: HookCall, payload: Payload, table: HookTable) -> str:
    """Return the hook's name: the payload's own, else that of the command line.

    Raises:
        InvalidRequest: neither names a hook that this harness has, nor one of ours.
    """
    table = table_for(call, payload, table)
    # The payload wins: a user may have copied our command to another hook.
    name = identifier(payload, *table.name) or call.hook
    if name not in table.rules and name not in table.silent:
        shown = name[:64] if name.isprintable() else "?"
        raise InvalidRequest(f"no such hook: `{shown}`", code="unknown_hook", field=f"$.{table.name[-1]}")
    return name


def named_session(call: HookCall, table: HookTable) -> str | None:
    """Return the session that a call names, None where it names none or cannot be read so far."""
    try:
        return identifier(read_payload(call), *table.identity.session)
    except InvalidRequest:
        return None


def read_hook(
    call: HookCall, ids: IdSource, table: HookTable, manifest: AdapterManifest, facts: HookFacts = no_facts
) -> HookReading:
    """Return what a hook call means: its emissions in causal order, and its facts.

    Raises:
        InvalidRequest: the payload is not what this harness sends; `field` names where.
    """
    # stdin is empty then; read as a payload it would be refused with a misleading reason.
    if call.oversized is not None:
        raise InvalidRequest(f"a payload of {call.oversized} bytes is too large to be carried", code="oversized")
    payload = read_payload(call)
    table = table_for(call, payload, table)
    name = hook_name(call, payload, table)
    session = identifier(payload, *table.identity.session)
    rule = table.rules.get(name)
    return HookReading(
        hook=name,
        session=session,
        emissions=_emissions(call, payload, name, table, ids, manifest),
        # Telemetry is kept by session; without one the facts have no place.
        facts=() if session is None else facts(name, payload, session),
        transcript=_transcript(payload, table),
        display=name in table.displays,
        names_frame=_named_frame(payload, table.identity) is not None,
        may_continue=rule is not None and rule.may_continue,
        announces=rule is not None and rule.announces,
        by_harness=table.in_process,
        reminds=rule is not None and rule.waits is not None and rule.waits.reminder,
    )


def _emissions(  # noqa: PLR0917  everything that one call is made of
    call: HookCall, payload: Payload, name: str, table: HookTable, ids: IdSource, manifest: AdapterManifest
) -> tuple[Emission, ...]:
    # A hook that is known and silent has no rule.
    rule = table.rules.get(name)
    if rule is None or _means_nothing(payload, rule) or _says_no_wait(payload, rule):
        return ()
    invocation = _invocation(call, payload, name, table, ids)
    return tuple(_emission(event, invocation, manifest) for event in rule.events)


def _means_nothing(payload: Payload, rule: HookRule) -> bool:
    if rule.unless is None:
        return False
    return rule.unless(payload) if callable(rule.unless) else find(payload, rule.unless[0]) == rule.unless[1]


def _transcript(payload: Payload, table: HookTable) -> str | None:
    """Return the absolute path of the telemetry file that a payload names; a strange one is no reason to refuse."""
    for path in table.transcript:
        named = find(payload, path)
        # A relative path would be opened against the broker's working directory.
        if isinstance(named, str) and named.startswith("/") and named.isprintable() and len(named) <= _PATH_CHARACTERS:
            return named
    return None


def _emission(event: LifecycleEvent, invocation: _Invocation, manifest: AdapterManifest) -> Emission:
    request = CallbackRequest(
        schema_version=CONTRACT_VERSION,
        event=event,
        event_id=invocation.event_id,
        adapter_id=manifest.adapter_id,
        adapter_version=manifest.adapter_version,
        invocation_id=invocation.invocation_id,
        integration_mode=invocation.mode,
        harness_session_id=invocation.session,
        harness_run_id=invocation.run,
        harness_task_id=invocation.task,
        frame_context=invocation.frame,
        idempotency_key=f"{invocation.key}:{event.value}",
        metadata=invocation.metadata,
    )
    # A copy for each event: the ones after it must not see its additions.
    telemetry = dict(invocation.facts)
    if invocation.frame is not None:
        telemetry["frame_id"] = invocation.frame.frame_id
    if event is LifecycleEvent.FRAME_ENDED:
        telemetry["frame_end"] = invocation.frame_end
    return Emission(request=request, warnings=invocation.warnings, telemetry=telemetry)


def _invocation(call: HookCall, payload: Payload, name: str, table: HookTable, ids: IdSource) -> _Invocation:
    """Collect what a call is about, synthesising the ids that the harness does not supply and saying so."""
    rule, paths = table.rules[name], table.identity
    warnings: list[Warning] = []
    about_session = rule.events[0] in SESSION_EVENTS
    about_frame = rule.events[0] in FRAME_EVENTS
    session = _session(payload, name, table, warnings)
    # What is about no session is about none of its directories.
    place = {} if session is None else _cwd(call, payload)
    told = {**_facts(payload, rule), **_wait_facts(payload, rule)}
    facts: dict[str, FactValue] = {"source_hook": name, **place, **told}
    # A wait is of the turn that its call names; where that is does not matter to one that names none.
    in_frame = about_frame or (rule.waits is not None and _named_frame(payload, paths) is not None)
    frame = _frame(call, payload, rule, paths, warnings) if in_frame else None
    native = _event_id(payload, paths, warnings, about_session=about_session)
    return _Invocation(
        session=session,
        run=identifier(payload, *paths.run),
        # A task id on a session event would tie the whole session to one turn.
        task=None if about_session else identifier(payload, *paths.task),
        frame=frame,
        frame_end=rule.frame_end if isinstance(rule.frame_end, str) else rule.frame_end(payload),
        event_id=native or ids.make(EVENT),
        invocation_id=ids.make(INVOCATION),
        key=_key(payload, name, table) or call.call_id,
        facts=facts,
        # Clients always get the directory; what receipts show of it is a setting (docs/sessions.md).
        metadata={**facts, **_cwd(call, payload)},
        mode=rule.mode,
        warnings=(*warnings, *lateness(call)),
    )


def _session(payload: Payload, name: str, table: HookTable, warnings: list[Warning]) -> str | None:
    session = identifier(payload, *table.identity.session)
    if session is None and name not in table.sessionless:
        raise InvalidRequest("a session id is needed", code="missing", field=f"$.{table.identity.session[0]}")
    if session is None:
        warnings.append(_NO_SESSION)
    return session


def _event_id(payload: Payload, paths: IdentityPaths, warnings: list[Warning], *, about_session: bool) -> str | None:
    """Return the harness's own id: of the call, else of what it is about; the turn's id says nothing of a session."""
    native = identifier(payload, *paths.event)
    if native is None and not about_session:
        native = identifier(payload, *paths.agent, *paths.task, *paths.run)
    # Said in the receipt: whoever orders by ids must know that this one is ours.
    if native is None:
        warnings.append(_SYNTHESIZED_EVENT)
    return native


def _key(payload: Payload, name: str, table: HookTable) -> str | None:
    """Return a key that is the same when the harness reports the same thing again; None where its ids do not say so.

    A harness may call us twice for one event: our hook may stand in the user's settings and in the project's.
    """
    paths, rule = table.identity, table.rules[name]
    own = identifier(payload, *paths.event)
    # Only hooks that fire once are known by these ids: others come several times with the same ones.
    about = [identifier(payload, *paths.task, *paths.run), identifier(payload, *paths.agent)] if rule.once else []
    if own is None and not any(about):
        return None
    # Hashed, because harness ids together may be longer than a key may be.
    parts = [identifier(payload, *paths.session) or "", name, own or "", *(part or "" for part in about)]
    return f"{name}:{sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def _named_frame(payload: Payload, paths: IdentityPaths) -> str | None:
    """Return the harness's own id of the turn that a call is about, None where it names none."""
    return identifier(payload, *paths.frame, *paths.task, *paths.run)


def _frame(
    call: HookCall, payload: Payload, rule: HookRule, paths: IdentityPaths, warnings: list[Warning]
) -> FrameContext:
    """Return the frame a call is about: the turn, or the sub-agent inside it."""
    turn = _named_frame(payload, paths)
    if turn is None:
        warnings.append(_SYNTHESIZED_FRAME)
        # A stand-in: only who knows the session can say which of its frames it is.
        turn = "frame_" + sha256(call.call_id.encode()).hexdigest()[:32]
    agent = identifier(payload, *paths.agent)
    if agent is None and rule.subagent:
        raise InvalidRequest("a sub-agent hook must name its agent", code="missing", field=f"$.{paths.agent[0]}")
    if agent is None:
        return FrameContext(frame_id=turn, frame_class=FrameClass.TOP_LEVEL)
    # The session id is the parent's: only the agent's id keeps the two frames apart.
    return FrameContext(frame_id=agent, frame_class=FrameClass.SUBCALL, parent_frame_id=turn)


def _facts(payload: Payload, rule: HookRule) -> dict[str, FactValue]:
    found = {fact.key: scalar(payload, fact.path, fact.kind) for fact in rule.facts}
    return {key: value for key, value in found.items() if value is not None}


def _says_no_wait(payload: Payload, rule: HookRule) -> bool:
    """Whether a call of a hook about waits says nothing of any."""
    if rule.waits is None:
        return False
    return _word(rule.waits.begins, payload) is None and _word(rule.waits.ends, payload) is None


def _wait_facts(payload: Payload, rule: HookRule) -> dict[str, FactValue]:
    """Return the facts of a wait in a call: that it begins or ends, for what, for what kind of thing."""
    if rule.waits is None:
        return {}
    begins, ends = _word(rule.waits.begins, payload), _word(rule.waits.ends, payload)
    found: dict[str, FactValue] = {"waiting": "ended" if begins is None else "begun", "waiting_for": begins or ends}
    kind = rule.waits.kind(payload) if callable(rule.waits.kind) else _named(payload, rule.waits.kind)
    request = _named(payload, rule.waits.request)
    if kind is not None:
        found["waiting_kind"] = kind
    if request is not None:
        found["waiting_id"] = request
    return found


def _word(word: str | Callable[[Payload], str | None] | None, payload: Payload) -> str | None:
    return word(payload) if callable(word) else word


def _named(payload: Payload, path: str) -> str | None:
    return identifier(payload, path) if path else None


def _cwd(call: HookCall, payload: Payload) -> dict[str, FactValue]:
    """Return the directory in which the session works; one that no receipt can hold is left out, never cut."""
    value = find(payload, "cwd")
    # Some harnesses run hooks in a directory of their own and name the session's in the payload.
    cwd = value if isinstance(value, str) and value else call.cwd
    return {"cwd": cwd} if cwd and cwd.isprintable() and len(cwd) <= _CWD_CHARACTERS else {}


def lateness(call: HookCall) -> tuple[Warning, ...]:
    """Return the warning that a call from the spool bears, nothing for one that came in time."""
    if call.spooled_at_epoch_s is None:
        return ()
    return (Warning(code="spooled_late", message=f"spooled at {call.spooled_at_epoch_s} s, recorded later"),)


_SYNTHESIZED_EVENT: Final = Warning(
    code="event_id_synthesized", message="the hook supplies no id of its own; ordering is weaker"
)
_SYNTHESIZED_FRAME: Final = Warning(
    code="frame_id_synthesized",
    message="the hook supplies no turn id; lifebus numbers the frames of the session",
)
_NO_SESSION: Final = Warning(code="identity_unavailable", message="the hook does not say which session it is about")
