"""What the files of a session say of its window, and how they are."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lifebus_adapters.shared.telemetry import Activity, Fact, Usage, WindowKnown
from lifebus_supervisor.supervision.monitor import telemetry
from lifebus_supervisor.supervision.monitor.telemetry import TelemetryState

WINDOWS = st.one_of(st.none(), st.integers(1, 1_000))
SOURCES = st.sampled_from(["file", "override:X", None])
USAGES = st.builds(
    Usage,
    session=st.just("s"),
    used_tokens=st.integers(0, 1_000),
    used_source=st.just("file"),
    window_tokens=WINDOWS,
    window_source=SOURCES,
)
DECLARED = st.builds(
    WindowKnown, session=st.just("s"), window_tokens=st.integers(1, 1_000), window_source=st.just("hook")
)
FACTS = st.one_of(USAGES, DECLARED, st.just(Activity(session="s")))


def usage(used: int, window: int | None = None, source: str | None = None) -> Usage:
    return Usage(session="s", used_tokens=used, used_source="file", window_tokens=window, window_source=source)


def after(*facts: Fact) -> TelemetryState:
    state = TelemetryState()
    for tick, fact in enumerate(facts):
        state = telemetry.on_fact(state, fact, tick)
    return state


def window_after(*facts: Fact) -> tuple[int | None, str | None]:
    """The window of a usage without one of its own, unless the newest one has one."""
    state = after(*facts)
    return state.window_of(state.usage or usage(0))


def test_the_newest_usage_counts_and_the_tick_of_the_first() -> None:
    state = after(Activity(session="s"), usage(1), usage(2))
    assert (state.usage, state.first_usage_tick) == (usage(2), 1)


def test_a_window_that_came_once_holds_until_another_comes() -> None:
    assert window_after(usage(1, 100, "file"), usage(2)) == (100, "file")
    assert window_after(usage(1, 100, "file"), usage(2, 200, "table")) == (200, "table")


def test_a_declared_window_goes_before_the_files_and_behind_the_users() -> None:
    declared = WindowKnown(session="s", window_tokens=50, window_source="hook")
    assert window_after(declared, usage(1, 100, "file")) == (50, "hook")
    assert window_after(declared, usage(1, 100, "override:X")) == (100, "override:X")


def test_a_window_that_the_user_set_stands_where_the_next_usage_has_none() -> None:
    declared = WindowKnown(session="s", window_tokens=50, window_source="hook")
    assert window_after(usage(1, 100, "override:X"), declared, usage(2)) == (100, "override:X")


def test_the_window_of_another_model_is_not_taken_for_this_ones() -> None:
    large = structs.replace(usage(1, 100, "file"), model="large")
    small = structs.replace(usage(2), model="small")
    assert window_after(large, small) == (None, None)
    assert window_after(large, usage(2)) == (100, "file")
    assert window_after(large, structs.replace(small, model="large")) == (100, "file")


@given(st.lists(FACTS, max_size=20))
def test_the_window_is_one_that_some_fact_gave_or_none(facts: list[Fact]) -> None:
    given = {(one.window_tokens, one.window_source) for one in facts if isinstance(one, Usage | WindowKnown)}
    assert window_after(*facts) in given | {(None, None)}


@given(st.lists(FACTS, max_size=20))
def test_the_numbers_follow_from_the_newest_facts_alone(facts: list[Fact]) -> None:
    usages = [one for one in facts if isinstance(one, Usage)]
    assert after(*facts).usage == (usages[-1] if usages else None)


def test_the_file_that_reported_last_is_the_newest_and_the_worst_file_counts() -> None:
    state = TelemetryState()
    for path, run, has_facts in (("/a", 0, True), ("/b", 3, True), ("/a", 0, True), ("/b", 2, False)):
        state = telemetry.on_read(state, path, run, has_facts=has_facts)
    assert (state.newest_file, state.unreadable, state.files) == ("/a", 2, {"/a": 0, "/b": 2})


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20))
def test_polls_without_a_file_are_counted_in_a_row(polls: list[tuple[bool, bool]]) -> None:
    state = TelemetryState()
    for missing, hung in polls:
        state = telemetry.on_polled(state, missing=missing, hung=hung)
    present = [index for index, (missing, _) in enumerate(polls) if not missing]
    assert state.missing_polls == len(polls) - 1 - (present[-1] if present else -1)


def test_a_state_is_never_changed_in_place() -> None:
    first = telemetry.on_read(TelemetryState(), "/a", 1, has_facts=True)
    telemetry.on_read(first, "/b", 2, has_facts=True)
    assert first.files == {"/a": 1}
