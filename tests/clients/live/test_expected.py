"""The table of what real harnesses have to leave in the ledger: complete, explained, and read as it is meant."""

import itertools

import pytest

from lifebus.live.expected import expectation, read_cell
from lifebus.live.programs import PROGRAMS
from lifebus.live.scenarios import SCENARIOS

CELLS = [(scenario, harness) for scenario in SCENARIOS for harness in PROGRAMS]
TABLE = {
    "words": {"open": ["frame.opening", "frame.opened"], "stop": ["frame.ending"], "end": ["session.ended"]},
    "words_of": {"codex": {"end": ["session.ending", "session.ended"]}},
    "scenarios": {
        "one": {"every": "open stop+ end", "hermes": {"cannot": "it has no stop"}},
        "other": {"every": "huh"},
    },
}


def test_every_cell_says_what_is_recorded_or_why_nothing_can_be_run(subtests: pytest.Subtests) -> None:
    for scenario, harness in CELLS:
        with subtests.test(scenario=scenario, harness=harness):
            cell = expectation(scenario, harness)
            assert bool(cell.lines) != bool(cell.cannot)


def test_every_frame_of_a_cell_ends_once_and_nothing_stands_behind_an_end(subtests: pytest.Subtests) -> None:
    for scenario, harness in CELLS:
        with subtests.test(scenario=scenario, harness=harness):
            lines = expectation(scenario, harness).lines
            opened = [line for line in lines if line.endswith("frame.opened")]  # one that goes on was opened before
            assert len(opened) == sum("frame.ended" in line for line in lines)
            behind = [after for before, after in itertools.pairwise(lines) if before.startswith("session.ended")]
            assert all(line.startswith(("session.start", "frame.opening")) for line in behind)


def test_a_harness_has_words_of_its_own() -> None:
    assert read_cell(TABLE, "one", "codex").lines[-2:] == ("session.ending", "session.ended")
    assert read_cell(TABLE, "one", "claude").lines == (
        "frame.opening",
        "frame.opened",
        "frame.ending +",
        "session.ended",
    )
    assert read_cell(TABLE, "one", "hermes").cannot == "it has no stop"


@pytest.mark.parametrize(("scenario", "harness"), [("other", "codex"), ("nothing", "codex")])
def test_what_the_table_does_not_explain_is_an_error(scenario: str, harness: str) -> None:
    with pytest.raises(KeyError):
        read_cell(TABLE, scenario, harness)


OPEN = ["frame.opening", "frame.opened"]


@pytest.mark.parametrize(
    ("recorded", "fits"),
    [
        ([*OPEN, "frame.ending", "session.ended"], True),
        ([*OPEN, "frame.ending", "frame.ending", "session.ended"], True),
        ([*OPEN, "session.ended"], False),
        ([*OPEN, "frame.ending", "session.ended", "session.ended"], False),
        ([*OPEN, "frame.ending", "session.ended completed"], False),
        (["frame.ending", *OPEN, "session.ended"], False),
    ],
)
def test_a_record_fits_where_every_line_is_there_in_its_place(recorded: list[str], fits: bool) -> None:
    assert read_cell(TABLE, "one", "claude").fits(recorded) is fits


def test_a_word_is_repeated_as_a_whole() -> None:
    table = {**TABLE, "scenarios": {"one": {"every": "open*"}}}
    cell = read_cell(table, "one", "claude")
    assert [cell.fits(lines) for lines in ([], OPEN * 2, [*OPEN, "frame.opening"])] == [True, True, False]
