"""The arithmetic behind `make bench`: a wrong ratio would praise or blame the wrong system."""

import subprocess
import sys

import pytest

from bench.report import Aim, ratio
from bench.workload import RECEIPT_BYTES, Rate, chunks, items, percentile


@pytest.mark.parametrize(
    ("limit", "measured", "at_most", "met"),
    [(1.25, 1.3, False, True), (1.25, 1.2, False, False), (1.1, 1.0, True, True), (1.1, 1.2, True, False)],
)
def test_an_aim_is_met_on_its_own_side_of_the_limit(limit: float, measured: float, at_most: bool, met: bool) -> None:
    assert Aim(text="", limit=limit, measured=measured, at_most=at_most).met is met


def test_an_aim_without_a_measurement_is_neither_met_nor_missed() -> None:
    assert Aim(text="", limit=1, measured=ratio(10, None)).met is None


def test_a_ratio_is_ours_by_theirs() -> None:
    assert ratio(30, 20) == 1.5


def test_receipts_have_the_promised_size_fresh_keys_and_turn_through_the_sessions() -> None:
    first, second = items(6, sessions=3), items(6, sessions=3)

    assert {len(item.body) for item in first} == {RECEIPT_BYTES}
    assert len({item.key for item in [*first, *second]}) == 12
    assert sorted(item.session for item in first) == [0, 0, 1, 1, 2, 2]


def test_batches_hold_everything_once() -> None:
    work = items(10)
    assert [item for batch in chunks(work, 4) for item in batch] == work


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (3.0, 5.0)


def test_a_rate_counts_acknowledgements() -> None:
    assert Rate(acknowledged=500, seconds=0.25).per_second == 2000


def test_only_the_comparison_needs_the_libraries_of_the_peers() -> None:
    absent = "import sys; sys.modules.update({'nats': None, 'redis': None}); import bench.run; print(*bench.run.PARTS)"
    parts = subprocess.run([sys.executable, "-c", absent], check=True, capture_output=True, text=True).stdout.split()
    assert {"peers", "flows"} <= set(parts)
