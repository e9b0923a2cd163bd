"""Short names follow from the receipts alone: the same in a fold, in a dump that was loaded, and behind a base."""

import random
from collections.abc import Iterator
from itertools import count

from lifebus_broker.state.session_names import session_names
from lifebus_broker.state.session_table import SEAL_AT, SessionTable
from lifebus_broker.state.stores import dump_stores, load_base, load_stores
from lifebus_contract import LifecycleEvent
from support.histories import lines_of, replayed
from support.receipts import entry, receipt

STARTED, ENDED = LifecycleEvent.SESSION_STARTED, LifecycleEvent.SESSION_ENDED


def table_of(*begun: tuple[str, str, str | None]) -> SessionTable:
    """Return a table with a session after the other: adapter, session, directory."""
    table = SessionTable()
    for position, (adapter, session, cwd) in enumerate(begun, 1):
        facts = {} if cwd is None else {"cwd": cwd}
        made = receipt(position, event=STARTED, adapter_id=adapter, harness_session_id=session, telemetry_summary=facts)
        table.apply(position, made)
    return table


def test_sessions_are_counted_by_the_folder_in_which_they_began() -> None:
    table = table_of(
        ("codex", "z", "/home/dev/api"),
        ("claude", "a", "/srv/api"),
        ("codex", "m", "/home/dev/web"),
        ("codex", "b", "api"),
        ("codex", "n", None),
        ("claude", "n", None),
        ("codex", "o", None),
    )
    assert session_names(table) == {
        ("codex", "z"): "api#1",
        ("claude", "a"): "api#2",
        ("codex", "m"): "web#1",
        ("codex", "b"): "api#3",
        ("codex", "n"): "codex#1",
        ("claude", "n"): "claude#1",
        ("codex", "o"): "codex#2",
    }


def _history(sessions: int) -> Iterator[tuple[LifecycleEvent, str, str]]:
    """Yield a history in which sessions begin, work and end in disorder."""
    chosen = random.Random(7)
    numbers, open_now = count(), list[tuple[str, str]]()
    while True:
        if open_now and chosen.random() < 0.6:
            one = chosen.choice(open_now)
            is_over = chosen.random() < 0.6
            if is_over:
                open_now.remove(one)
            yield ENDED if is_over else LifecycleEvent.SUPERVISOR_TICK, *one
            continue
        number = next(numbers)
        if number == sessions:
            return
        open_now.append((f"s{chosen.getrandbits(40):x}-{number}", f"/srv/{chosen.choice('abc')}"))
        yield STARTED, *open_now[-1]


def test_names_are_the_same_after_a_dump_and_behind_it_and_whether_sessions_are_sealed_or_not() -> None:
    entries = [
        entry(number, event=event, harness_session_id=session, telemetry_summary={"cwd": cwd})
        for number, (event, session, cwd) in enumerate(_history(SEAL_AT + 400), 1)
    ]
    # The oracle: labels and numbers as somebody would count them who reads the receipts.
    expected: dict[tuple[str, str], str] = {}
    counted: dict[str, int] = {}
    for one in entries:
        key = (one.receipt.adapter_id, str(one.receipt.harness_session_id))
        if key not in expected:
            label = str(one.receipt.telemetry_summary["cwd"]).removeprefix("/srv/")
            counted[label] = counted.get(label, 0) + 1
            expected[key] = f"{label}#{counted[label]}"
    lines = lines_of(entries)
    whole = replayed(lines)
    assert whole.sessions.sealed
    assert whole.sessions.decoded
    assert session_names(whole.sessions) == expected
    half = replayed(lines[: len(lines) // 2])
    for load in (load_stores, load_base):
        assert session_names(replayed(lines[len(lines) // 2 :], load(dump_stores(half))).sessions) == expected


def test_behind_a_base_of_an_earlier_version_sessions_are_called_after_their_adapters() -> None:
    old = [entry(number, event=STARTED, harness_session_id=f"s{3 - number}") for number in range(1, 4)]
    new = entry(4, event=STARTED, harness_session_id="later", telemetry_summary={"cwd": "api"})
    lines = lines_of([*old, new])
    # What such a version wrote of these receipts: it knew none of the later fields, all of which are empty here.
    stores = load_base(dump_stores(replayed(lines[:3]), 2))
    assert sorted(session_names(replayed(lines[3:], stores).sessions).items()) == [
        (("codex", "later"), "api#1"),
        (("codex", "s0"), "codex#3"),
        (("codex", "s1"), "codex#2"),
        (("codex", "s2"), "codex#1"),
    ]
