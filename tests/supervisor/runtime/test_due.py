"""What is due when: one heap below runs, jobs and deliveries, checked against a plain dictionary."""

import asyncio
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_supervisor.runtime.due.due_times import DueTimes
from lifebus_supervisor.runtime.due.keyed_heap import KeyedHeap
from support.patience import PATIENCE_S

FEW = 100
"""More than may be kept of what is due no more."""

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcde"), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.sampled_from("abcde"), st.just(0)),
        st.tuples(st.just("move"), st.just(""), st.integers(-5, 5)),
        st.tuples(st.just("take"), st.just(""), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_keys_come_in_the_order_of_their_places(steps: list[tuple[str, str, int]]) -> None:
    heap: KeyedHeap[str, int] = KeyedHeap()
    model: dict[str, int] = {}  # the key that was put last stands last
    for step, name, number in [*steps, *[("take", "", 0)] * 6]:
        if step == "put":
            heap.put(name, number)
            model.pop(name, None)
            model[name] = number
        elif step == "remove":
            heap.remove(name)
            model.pop(name, None)
        elif step == "move":
            heap.move(lambda place, by=number: place + by)  # type: ignore[misc]
            model = {one: place + number for one, place in model.items()}
        else:
            least = min(model, key=model.__getitem__, default=None)
            assert heap.first() == (None if least is None else (model[least], least))
            if least is not None:
                heap.remove(least)
                del model[least]
        assert (len(heap), {one: heap.place_of(one) for one in "abcde"}) == (
            len(model),
            {one: model.get(one) for one in "abcde"},
        )


class Name:
    """Something that is due; it can be seen to be let go."""


def put_and_remove(one: Name, heap: "KeyedHeap[Name, int]") -> None:
    heap.put(one, 1_000_000)
    heap.remove(one)


def set_and_unset(one: Name, times: "DueTimes[Name]") -> None:
    times.set(one, 3_600)
    times.set(one, None)


@pytest.mark.parametrize(
    ("make", "use"),
    [(KeyedHeap[Name, int], put_and_remove), (lambda: DueTimes[Name](lambda _: None), set_and_unset)],
    ids=["heap", "times"],
)
async def test_what_is_due_no_more_is_let_go_long_before_its_time(
    make: Callable[[], object], use: Callable[[Name, object], None]
) -> None:
    holder = make()
    known: list[weakref.ref[Name]] = []
    for _ in range(1_000):
        one = Name()
        known.append(weakref.ref(one))
        use(one, holder)
        del one
    assert sum(name() is not None for name in known) <= FEW


async def test_each_is_looked_at_once_at_the_time_that_was_set_last(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, all_seen = asyncio.get_running_loop(), asyncio.Event()
    seen: list[tuple[str, float]] = []

    def on_due(name: str) -> None:
        seen.append((name, loop.time()))
        if len(seen) == 3:
            all_seen.set()

    times: DueTimes[str] = DueTimes(on_due)
    began = loop.time()
    with monkeypatch.context() as patch:
        # All at one moment: with a pause of some milliseconds in between they would come in another order.
        patch.setattr(loop, "time", lambda: began)
        for name, delay_s in (("a", 0.02), ("b", 0.01), ("c", 3_600), ("d", 0.015), ("a", 0.03), ("c", 0.005)):
            times.set(name, delay_s)
        times.set("d", None)
    async with asyncio.timeout(PATIENCE_S):
        await all_seen.wait()
    times.close()
    assert [name for name, _ in seen] == ["c", "b", "a"]
    for (_, at), delay_s in zip(seen, (0.005, 0.01, 0.03), strict=True):
        assert at - began >= delay_s - 0.001  # the event loop's own resolution
