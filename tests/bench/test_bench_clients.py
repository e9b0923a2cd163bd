"""The clients of `make bench` that decide something: when more is offered, what is counted, what a key says."""

from itertools import islice

from bench.event_followers import session_of
from bench.hook_calls import payload
from bench.measures.end_to_end import SETTINGS, Delivery, Setting, aims, stamped
from bench.workload import RECEIPT_BYTES, Pace, item, paced


def test_a_pace_lets_so_many_receipts_through_in_a_second() -> None:
    now = 0.0
    pace = Pace(100, lambda: now)
    sent = 0
    for millisecond in range(2_000):
        now = millisecond / 1e3
        while not pace.wait():
            pace.spend(10)
            sent += 10
    assert 200 <= sent <= 220


def test_a_pace_makes_up_for_a_tenth_of_a_second_and_for_no_more() -> None:
    now = 0.0
    pace = Pace(100, lambda: now)
    now = 60.0
    sent = 0
    while not pace.wait():
        pace.spend(1)
        sent += 1
    assert 10 <= sent <= 11


def test_measured_emits_begin_once_all_follow_and_have_the_time_in_their_keys() -> None:
    begun = False
    keys = (one.key for [one] in stamped(lambda: begun, 2, iter(range(100)).__next__))
    early = list(islice(keys, 3))
    begun = True
    rest = list(keys)

    assert early == ["early-0", "early-1", "early-2"]
    assert [key.partition("-")[0] for key in rest] == ["settling"] * 50 + ["measured"] * 2
    assert rest[-1] == "measured-54"


def test_a_receipt_with_a_key_has_the_promised_size() -> None:
    assert len(item("measured-1").body) == RECEIPT_BYTES


async def test_batches_are_asked_for_one_by_one() -> None:
    assert [batch async for batch in paced(iter([[item("a")], [item("b")]]), 0)] == [[item("a")], [item("b")]]


def test_the_end_to_end_aims_compare_the_medians_and_name_what_could_not_be_compared() -> None:
    ours, redis = (Delivery(seconds=[one / 1e3] * 100, beside=0) for one in (3.0, 1.5))
    found = {setting: {"lifebus": ours, "Redis Streams": redis} for setting in SETTINGS}
    assert [aim.measured for aim in aims(found)] == [2.0, 1.0] * len(SETTINGS)

    alone = {Setting(1, busy=False): {"lifebus": ours}}
    assert [aim.met for aim in aims(alone)] == [None, True]


def test_a_payload_names_its_session() -> None:
    assert session_of(payload("s1")) == "s1"
