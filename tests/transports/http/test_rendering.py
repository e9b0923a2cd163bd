"""What is sent of records is made once for all who stand at the same place, and never for who stands elsewhere."""

import json

import hypothesis.strategies as st
from hypothesis import given

from lifebus_transports.http.following.frames import PreparedRecord
from lifebus_transports.http.following.pages import PreparedPage
from lifebus_transports.http.following.rendering import KEPT, Form, Records, Renderer


def page_of(*numbers: int, text: str = "") -> PreparedPage:
    items = tuple(PreparedRecord(one, json.dumps({"n": one, "t": text})[1:].encode()) for one in numbers)
    last = numbers[-1]
    return PreparedPage(epoch="e", items=items, next=last, head=last, floor=0, complete=True, is_gone=False)


def frames_of(texts: list[str], form: Form) -> list[dict[str, object]]:
    """What a client reads: its frames, in whichever form they came."""
    if form == "events":
        (text,) = texts
        *events, rest = text.split("\n\n")
        assert rest == ""
        found = [dict(line.split(": ", 1) for line in event.split("\n")) for event in events]
        frames = [json.loads(event["data"]) for event in found]
        assert [one["id"] for one in frames] == [event["id"] for event in found]
        return frames
    assert form == "frames" or len(texts) == 1
    return [json.loads(line) for text in texts for line in text.split("\n")]


PLACES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)


@given(
    asked=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["p~", "q~"]),
            PLACES,
            st.integers(0, 2),
            st.sampled_from(["frames", "batch", "events"]),
        ),
        max_size=60,
    )
)
def test_everybody_gets_what_is_at_their_place(asked: list[tuple[int, str, tuple[int, ...], int, Form]]) -> None:
    pages = [page_of(7, 8), page_of(7, 8, text="another"), page_of(9), page_of(*range(1, 20))]
    renderer = Renderer()
    for which, prefix, numbers, at, form in asked:
        page, index = pages[which], min(at, len(numbers) - 1)
        found = frames_of(renderer.render(Records(page, prefix, numbers, index), form), form)
        for frame, item in zip(found, page.items, strict=True):
            place = [*numbers[:index], item.number, *numbers[index + 1 :]]
            own = json.loads(b"{" + item.tail)
            assert frame == own | {"id": prefix + ".".join(map(str, place))}


def test_who_stands_at_the_same_place_gets_what_was_made_for_another() -> None:
    page, renderer = page_of(1, 2), Renderer()
    first, *others = [renderer.render(Records(page, "p~", (0, 5), 0), "frames") for _ in range(100)]
    assert all(one is first for one in others)
    assert renderer.made == 1


def test_only_so_much_is_kept_and_what_is_used_stays() -> None:
    renderer = Renderer()
    pages = [page_of(number) for number in range(1, 10 * KEPT)]
    for page in pages:
        renderer.render(Records(pages[0], "p~", (0,), 0), "batch")
        renderer.render(Records(page, "p~", (0,), 0), "batch")
        assert renderer.kept <= KEPT
    assert renderer.made == len(pages)
    renderer.render(Records(pages[1], "p~", (0,), 0), "batch")
    assert renderer.made == len(pages) + 1
