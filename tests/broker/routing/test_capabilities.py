"""What is weaker than claimed: the reducer of reports and the table that negotiations read agree with a plain model."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lifebus_adapters import ADAPTERS
from lifebus_broker.claims import claim_of
from lifebus_broker.routing.capabilities import CapabilityTable
from lifebus_broker.routing.registry import Registry
from lifebus_broker.state.capability_state import CapabilityState
from lifebus_broker.transitions import transition
from lifebus_contract import SUPPORT_STRENGTH, Receipt, SupportState, validate
from support.golden import golden

OPENING, STARTING = "event:frame.opening", "event:session.starting"
NATIVE, PARTIAL, GONE = SupportState.NATIVE, SupportState.PARTIAL, SupportState.UNAVAILABLE
REGISTRY = Registry([ADAPTERS["codex"].registered, ADAPTERS["claude"].registered])
STEPS = st.tuples(
    st.sampled_from(["codex", "claude", "nobody"]),
    st.sampled_from(["s1", "s2", None]),
    st.sampled_from(["report", "report", "report", "client", "ended", "other"]),
    st.lists(
        st.tuples(
            st.sampled_from([OPENING, STARTING, "session_rename", "made up"]),
            st.sampled_from(list(SupportState)),
            st.sampled_from(list(SupportState)),
        ),
        max_size=3,
    ),
)
EVENTS = {"report": "capability.degraded", "client": "capability.degraded", "ended": "session.ended"}


def claimed(adapter_id: str, capability: str) -> SupportState:
    registered = REGISTRY.get(adapter_id)
    return GONE if registered is None else claim_of(registered.manifest, capability)


def receipt(adapter: str, session: str | None, kind: str, *changes: tuple[str, SupportState, SupportState]) -> Receipt:
    fields: dict[str, Any] = {
        "adapter_id": adapter,
        "harness_session_id": session,
        "event": EVENTS.get(kind, "frame.opening"),
        "telemetry_summary": {"emitter": "watcher"} if kind == "client" else {},
        "capability_degradations": [],
    }
    found = validate(golden("receipt", **fields), Receipt)
    made = [transition(name, before, now, at_epoch_s=5, evidence="seen") for name, before, now in changes]
    return validate({**golden("receipt", **fields), "capability_degradations": made}, Receipt) if made else found


def lost(session: str | None = "s1", now: SupportState = GONE, before: SupportState = NATIVE) -> Receipt:
    return receipt("codex", session, "report", (OPENING, before, now))


def table(*receipts: Receipt, **options: int) -> CapabilityTable:
    built = CapabilityTable(REGISTRY, **options)
    built.apply(receipts)
    return built


class Model:
    """The last word on every capability of every scope; what is at its claim or above does not count."""

    def __init__(self) -> None:
        self.last: dict[tuple[str, str | None], dict[str, SupportState]] = {}

    def take(self, adapter: str, session: str | None, kind: str, changes: list[tuple[str, Any, SupportState]]) -> None:
        if kind == "ended" and session is not None:
            self.last.pop((adapter, session), None)
        if kind == "report":
            words = self.last.setdefault((adapter, session), {})
            words.update({name: now for name, _, now in changes if name != "made up"})

    def losses(self, adapter: str, session: str | None) -> dict[str, SupportState]:
        words = self.last.get((adapter, session), {})
        strength = SUPPORT_STRENGTH
        return {name: now for name, now in words.items() if strength[now] < strength[claimed(adapter, name)]}


@given(st.lists(STEPS, max_size=25))
def test_the_table_and_the_fold_say_what_a_plain_model_says(steps: list[Any]) -> None:
    model, held, reduced = Model(), table(), CapabilityState()
    for adapter, session, kind, changes in steps:
        model.take(adapter, session, kind, changes)
        made = receipt(adapter, session, kind, *changes)
        held.apply([made])
        reduced.apply(made)
    for adapter in ("codex", "claude", "nobody"):
        whole = model.losses(adapter, None)
        assert held.overrides(adapter) == whole == reduced.losses((adapter, None), claimed)
        for session in ("s1", "s2"):
            own = model.losses(adapter, session)
            assert own == reduced.losses((adapter, session), claimed)
            assert held.overrides(adapter, session) == whole | own
    assert all([*reduced.adapters.values(), *reduced.sessions.values()])


@given(st.lists(STEPS, max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_history_that_comes_late_goes_before_what_was_learned_meanwhile(
    steps: list[Any], begun: int, reduced: int
) -> None:
    receipts = [receipt(adapter, session, kind, *changes) for adapter, session, kind, changes in steps]
    held, history, whole = table(), CapabilityState(), CapabilityState()
    held.await_history()
    held.apply(receipts[begun:])
    for one in receipts[: max(begun, reduced)]:
        history.apply(one)
    for one in receipts:
        whole.apply(one)
    held.take_over(history)
    assert (held.state.adapters, list(held.state.sessions.items())) == (whole.adapters, list(whole.sessions.items()))
    assert held.may_change == bool(whole.sessions)


@given(st.lists(STEPS, max_size=12), STEPS)
def test_what_is_foreseen_of_a_report_is_what_comes_of_it(steps: list[Any], last: Any) -> None:
    held = table(*(receipt(adapter, session, kind, *changes) for adapter, session, kind, changes in steps))
    adapter, session, _, changes = last
    report = receipt(adapter, session, "report", *changes)
    before = dict(held.overrides(adapter, session))
    previewed = held.preview(adapter, session, report.capability_degradations)
    assert held.overrides(adapter, session) == before
    held.apply([report])
    assert held.overrides(adapter, session) == previewed


def test_nothing_is_lost_at_first() -> None:
    assert (table().overrides("codex"), table().overrides("codex", "s1"), table().may_change) == ({}, {}, False)


def test_a_loss_counts_in_its_session_alone_until_it_is_back() -> None:
    held = table(lost())
    assert held.overrides("codex", "s1") == {OPENING: GONE}
    assert [held.overrides(*other) for other in (("codex", "s2"), ("codex",), ("claude", "s1"))] == [{}, {}, {}]
    held.apply([lost(now=PARTIAL, before=GONE)])
    assert held.overrides("codex", "s1") == {OPENING: PARTIAL}
    held.apply([lost(now=NATIVE, before=PARTIAL)])
    assert (held.overrides("codex", "s1"), held.sessions, held.may_change) == ({}, 0, False)


def test_a_loss_of_the_whole_adapter_counts_in_every_session_that_says_nothing_else() -> None:
    held = table(lost(None), lost("s1", PARTIAL))
    assert held.overrides("codex", "s1") == {OPENING: PARTIAL}
    assert held.overrides("codex", "s2") == {OPENING: GONE}
    held.apply([receipt("codex", None, "ended")])
    assert held.overrides("codex") == {OPENING: GONE}


def test_what_clients_are_told_of_a_loss_does_not_bring_it_back() -> None:
    held = table(lost(), lost(now=NATIVE, before=GONE), receipt("codex", "s1", "client", (OPENING, NATIVE, GONE)))
    assert held.overrides("codex", "s1") == {}


def test_what_a_background_client_was_told_of_an_end_does_not_end_the_session_again() -> None:
    late = msgspec.structs.replace(receipt("codex", "s1", "ended"), telemetry_summary={"client_background": True})
    assert table(lost(), late).overrides("codex", "s1") == {OPENING: GONE}


def test_of_too_many_sessions_the_one_whose_reports_changed_longest_ago_is_forgotten_whoever_asks() -> None:
    held = table(lost("a"), lost("b"), lost("a", PARTIAL), max_sessions=2)
    held.overrides("codex", "b")
    held.apply([lost(None), lost("c")])
    assert held.sessions == 2
    held.apply([lost(None, NATIVE, GONE)])
    assert [name for name in "abc" if held.overrides("codex", name)] == ["a", "c"]


def test_reports_are_kept_without_a_manifest_and_seen_against_the_one_there_is() -> None:
    registry = Registry([])
    held = CapabilityTable(registry)
    held.apply([lost()])
    assert held.overrides("codex", "s1") == {}
    registry.replace([ADAPTERS["codex"].registered])
    assert held.overrides("codex", "s1") == {OPENING: GONE}
