"""How long a disk keeps commits waiting: what counts, and when the event loop may wait for it."""

from lifebus_broker.ledger.sqlite.writing.disk_pace import QUICK_S, DiskPace


def quick_disk() -> DiskPace:
    pace = DiskPace()
    for _ in range(100):
        pace.note(QUICK_S / 2)
    return pace


def test_a_disk_that_is_not_known_is_slow_until_short_waits_are_the_average() -> None:
    assert not DiskPace().is_quick
    assert quick_disk().is_quick


def test_the_first_waits_count_more_than_later_ones_so_that_a_new_broker_soon_knows_its_disk() -> None:
    pace = DiskPace()
    for _ in range(2):
        assert not pace.is_quick
        pace.note(QUICK_S / 3)
    assert pace.is_quick
    pace.note(10 * QUICK_S)
    assert not pace.is_quick


def test_one_long_wait_makes_it_slow_until_short_ones_are_the_average_again() -> None:
    pace = quick_disk()
    pace.note(1.0)
    assert not pace.is_quick
    for _ in range(200):
        pace.note(QUICK_S / 2)
    assert pace.is_quick


def test_a_long_wait_amid_others_that_compute_says_nothing_and_a_short_one_counts() -> None:
    pace = quick_disk()
    pace.note_contended(1.0)
    assert pace.is_quick
    slow = DiskPace()
    for _ in range(100):
        slow.note_contended(QUICK_S / 2)
    assert slow.is_quick


def test_what_two_clocks_make_less_than_nothing_is_nothing() -> None:
    pace, other = quick_disk(), quick_disk()
    for one, waited_s in ((pace, -1.0), (other, 0.0)):
        one.note(waited_s)
        one.note(40 * QUICK_S)
    assert (pace.is_quick, other.is_quick) == (False, False)
