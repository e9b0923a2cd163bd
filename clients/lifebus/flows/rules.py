"""What must hold between the keys of a flow file: each rule takes plain data and yields every mistake.  Pure."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from lifebus.flows.checking import Fault, suggest
from lifebus.flows.code_tables import code_faults
from lifebus.flows.durations import duration_ms
from lifebus.flows.plain_data import is_list, is_table, items_of, table_of
from lifebus.flows.tables import SYNONYMS
from lifebus.flows.toml_lines import KeyPath
from lifebus_transports.adapter_names import adapter_id_of

_ACTIONS: Final = ("command", "shell", "prompt", "prompt_file")
_OF_PROMPTS: Final = ("harness", "model", "arguments")
_SEPARATORS: Final = re.compile(r"/+")


def rule_faults(data: Mapping[str, Any], harnesses: Collection[str] | None) -> Iterator[Fault]:
    """Yield what is wrong between the keys of a file; `harnesses` are those that can be asked, None where unknown."""
    phases = _tables(data.get("phases"))
    yield from code_faults(data.get("codes"), ("codes",))
    yield from _budget_faults(data.get("budget"))
    yield from _common_faults(table_of(data.get("defaults")), ("defaults",))
    yield from _twice(phases)
    yield from _need_faults(phases)
    for number, phase in phases.items():
        path = ("phases", number)
        yield from _action_faults(phase, path, harnesses)
        yield from _common_faults(phase, path)
        yield from _artifact_faults(phase.get("artifacts"), (*path, "artifacts"))
        yield from _metadata_faults(phase.get("metadata"), (*path, "metadata"))
        yield from _modifiable_faults(phase.get("modifiable"), (*path, "modifiable"))
    yield from _metadata_faults(data.get("metadata"), ("metadata",))


def _tables(phases: Any) -> dict[int, dict[str, Any]]:
    """Return the phases that are tables, by their numbers."""
    return {number: one for number, one in enumerate(items_of(phases)) if is_table(one)}


def _action_faults(phase: dict[str, Any], path: KeyPath, harnesses: Collection[str] | None) -> Iterator[Fault]:
    """Yield what is wrong with what a phase does."""
    given = [key for key in _ACTIONS if key in phase]
    # Who wrote `cmd` is told so already.
    if not given and not any(SYNONYMS.get(key) in _ACTIONS for key in phase):
        yield path, "it does nothing", "it takes one of command, shell, prompt and prompt_file"
    for other in given[1:]:
        yield (*path, other), f"`{given[0]}` is there too, and a phase does one thing", "make it two phases"
    command = items_of(phase.get("command"))
    if command and command[0] == "":
        yield (*path, "command", 0), "the program has no name", None
    for key in ("command", "arguments"):
        for number, word in enumerate(items_of(phase.get(key))):
            if isinstance(word, str) and "\0" in word:
                yield (*path, key, number), "a NUL cannot be passed to a program", None
    yield from _prompt_faults(phase, path, harnesses)


def _prompt_faults(phase: dict[str, Any], path: KeyPath, harnesses: Collection[str] | None) -> Iterator[Fault]:
    """Yield what is wrong with keys that only prompts have, and with a prompt that lacks its harness."""
    asks = "prompt" in phase or "prompt_file" in phase
    if asks and "harness" not in phase:
        yield path, "a prompt needs `harness`", f"known are {', '.join(sorted(harnesses))}" if harnesses else None
    for key in _OF_PROMPTS:
        if key in phase and not asks:
            what = "write the arguments behind the program in `command`" if key == "arguments" else None
            yield (*path, key), "it belongs to a `prompt`, and there is none", what
    harness = phase.get("harness")
    if harnesses and isinstance(harness, str) and adapter_id_of(harness) not in harnesses:
        yield (*path, "harness"), f"there is no harness `{harness[:64]}`", suggest(harness, sorted(harnesses))


def _common_faults(table: dict[str, Any], path: KeyPath) -> Iterator[Fault]:
    """Yield what is wrong with keys that `defaults` has too."""
    yield from code_faults(table.get("codes"), (*path, "codes"))
    if table.get("time_limit") is not None and duration_ms(table["time_limit"]) == 0:
        yield (*path, "time_limit"), "a limit of nothing ends every try at once", "leave it out for no limit"
    first, longest = (duration_ms(table_of(table.get("pause")).get(key)) for key in ("first", "longest"))
    if first is not None and longest is not None and first > longest:
        yield (*path, "pause", "longest"), "it is shorter than `first`", None


def _budget_faults(budget: Any) -> Iterator[Fault]:
    table = table_of(budget)
    if duration_ms(table.get("time")) == 0:
        yield ("budget", "time"), "with no time at all nothing can run", "leave it out for no limit"
    cost = table.get("cost_usd")
    if isinstance(cost, (int, Decimal)) and not isinstance(cost, bool):
        micros = Decimal(cost) * 1_000_000
        if not micros.is_finite() or micros < 1 or micros != micros.to_integral_value():
            yield ("budget", "cost_usd"), f"{cost} is no amount above 0 in whole millionths of a dollar", None


def _twice(phases: Mapping[int, dict[str, Any]]) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for number, phase in phases.items():
        name = phase.get("name")
        if not isinstance(name, str):
            continue
        if name in seen:
            yield ("phases", number, "name"), f"phase {seen[name] + 1} has the name `{name[:64]}`, too", None
        else:
            seen[name] = number


def _need_faults(phases: Mapping[int, dict[str, Any]]) -> Iterator[Fault]:
    """Yield needs that nothing fulfils, and phases that need one another in a circle."""
    names = {str(phase.get("name")): number for number, phase in reversed(list(phases.items()))}
    needs: dict[str, list[str]] = {}
    for number, phase in phases.items():
        own, wanted = str(phase.get("name")), phase.get("needs")
        listed = items_of(wanted)
        for order, need in enumerate(listed):
            path: KeyPath = ("phases", number, "needs", order)
            if need == own:
                yield path, "a phase cannot need itself", None
            elif isinstance(need, str) and need not in names:
                others = [name for name in names if name != own]
                yield path, f"there is no phase `{need[:64]}`", suggest(need, others) if others else None
            elif isinstance(need, str) and need in listed[:order]:
                yield path, f"`{need[:64]}` stands there twice", None
        needs.setdefault(own, [str(need) for need in listed if need != own and need in names])
        if wanted is None and number:  # a phase without the key needs the one before it
            before = phases.get(number - 1, {}).get("name")
            needs[own] = [] if before is None or before == own else [str(before)]
    if circle := _circle(needs):
        steps = " → ".join([*circle, circle[0]])
        silent = [name for name in circle if "needs" not in phases[names[name]]]
        hint = f"`{silent[0]}` has no `needs`, so it needs the phase before it; write needs = []" if silent else None
        place = ("phases", names[circle[0]], "needs")
        yield place, f"phases need one another: {steps}", hint or "take one of these needs out"


def _circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of one circle in the order of their needs; empty where there is none."""
    left = {name: [need for need in wanted if need in needs] for name, wanted in needs.items()}
    # What needs nothing that is left can run; what remains lies on a circle, or behind one.
    while free := [name for name, wanted in left.items() if not any(need in left for need in wanted)]:
        for name in free:
            del left[name]
    if not left:
        return []
    walk = [next(iter(left))]
    while (following := next(need for need in left[walk[-1]] if need in left)) not in walk:
        walk.append(following)
    return walk[walk.index(following) :]


def _artifact_faults(artifacts: Any, path: KeyPath) -> Iterator[Fault]:
    for number, one in enumerate(items_of(artifacts)):
        if isinstance(one, str) and (one.startswith("/") or ".." in _SEPARATORS.split(one)):
            yield (*path, number), "artifacts lie below the root of the run", "name it relative to the root"


def _modifiable_faults(modifiable: Any, path: KeyPath) -> Iterator[Fault]:
    names: set[str] = set()
    for number, one in enumerate(items_of(modifiable)):
        name = table_of(one).get("name")
        if isinstance(name, str) and name in names:
            yield (*path, number, "name"), f"`{name[:64]}` stands there twice", None
        names.add(str(name))


def _metadata_faults(value: Any, path: KeyPath) -> Iterator[Fault]:
    """Yield what JSON cannot hold: TOML has times, and numbers that are none."""
    if is_table(value):
        for key, inner in value.items():
            yield from _metadata_faults(inner, (*path, key))
    elif is_list(value):
        for number, inner in enumerate(value):
            yield from _metadata_faults(inner, (*path, number))
    elif isinstance(value, Decimal) and not value.is_finite():
        yield path, "no number that JSON can hold", None
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        yield path, "a larger number than every reader of JSON can hold", "write it as a text"
    elif value is not None and not isinstance(value, (str, int, bool, Decimal)):
        yield path, "metadata is plain data", "write times as texts"
