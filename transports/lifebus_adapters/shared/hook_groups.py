"""Hook settings in the form that Claude Code, Codex and Gemini CLI share: ``hooks.EVENT = [{"hooks": [handler]}]``.

Each of our hooks is a group of its own at the end of its event's list, so that no other hook moves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from lifebus_adapters.shared.assets import HookEvent, InstallRequest, SettingsEntry, hook_command, is_hook_command

GroupRules = Callable[[Mapping[str, Any]], str | None]
"""What a harness would refuse about one handler, in a few words; None where it is fine."""


def group_entries(
    request: InstallRequest,
    adapter_id: str,
    events: Sequence[HookEvent],
    *,
    more: Mapping[str, Any] | None = None,
    per_second: int = 1,
) -> tuple[SettingsEntry, ...]:
    """Return one entry for each wanted event; `more` are further members of a handler.

    `per_second` is the unit of the harness's timeouts: 1 for seconds, 1,000 for milliseconds.
    """
    return tuple(
        SettingsEntry(
            kind="element",
            where=("hooks", event.name),
            value={
                **({} if event.matcher is None else {"matcher": event.matcher}),
                "hooks": [
                    {
                        **(more or {}),
                        "type": "command",
                        "command": hook_command(request.launcher, adapter_id, event.name),
                        "timeout": event.timeout_s * per_second,
                    }
                ],
            },
        )
        for event in events
        if request.wants(event.name)
    )


def is_ours(value: object) -> bool:
    """Whether a handler is ours, or a group with nothing but handlers of ours in it."""
    if not isinstance(value, dict):
        return False
    members = cast("dict[str, Any]", value)
    handlers: Any = members.get("hooks")
    # A handler; anything else is a group of handlers.
    if handlers is None:
        return is_hook_command(members.get("command"))
    return isinstance(handlers, list) and handlers != [] and all(map(is_ours, cast("Sequence[Any]", handlers)))


def check_groups(document: object, rules: GroupRules, *, settings: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return what is wrong with the hooks of a parsed settings file; `settings` are keys among them that are no events.

    Harnesses drop a whole file for one bad hook, so that a result with a fault is not written.
    """
    if not isinstance(document, dict):
        return ("the file does not hold an object",)
    hooks: Any = cast("dict[str, Any]", document).get("hooks")
    if hooks is None:
        return ()
    if not isinstance(hooks, dict):
        return ("hooks: must be an object",)
    events = cast("dict[str, Any]", hooks)
    # Every event is checked, not only ours: one fault of others makes the harness drop our hooks as well.
    return tuple(fault for name in events if name not in settings for fault in _event_faults(name, events[name], rules))


def _event_faults(name: str, groups: Any, rules: GroupRules) -> Iterator[str]:
    if not isinstance(groups, list):
        yield f"hooks.{name}: must be a list"
        return
    for index, group in enumerate(cast("Sequence[Any]", groups)):
        where = f"hooks.{name}[{index}]"
        if not isinstance(group, dict):
            yield f"{where}: must be an object"
            continue
        yield from _group_faults(where, cast("dict[str, Any]", group), rules)


def _group_faults(where: str, group: Mapping[str, Any], rules: GroupRules) -> Iterator[str]:
    if not isinstance(group.get("matcher", ""), str):
        yield f"{where}.matcher: must be text"
    handlers: Any = group.get("hooks")
    if not isinstance(handlers, list):
        yield f"{where}.hooks: must be a list"
        return
    for index, handler in enumerate(cast("Sequence[Any]", handlers)):
        fault = rules(cast("dict[str, Any]", handler)) if isinstance(handler, dict) else "must be an object"
        if fault is not None:
            yield f"{where}.hooks[{index}]: {fault}"
