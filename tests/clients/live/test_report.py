"""What is shown of a scenario that went otherwise than it has to."""

from lifebus.live.expected import Expectation, ExpectedLines
from lifebus.live.report import described, document
from lifebus.live.runner import Cell
from lifebus.live.sandbox import Ran

EXPECTED = Expectation((ExpectedLines(("frame.opened",)), ExpectedLines(("frame.ended blocked",))))


def test_what_is_missing_and_what_is_too_much_is_marked() -> None:
    cell = Cell("codex", "plain_turn", EXPECTED, ("frame.opened", "frame.ended completed"), ("frame f1 ended twice",))
    assert list(described(cell)) == [
        "  frame.opened",
        "- frame.ended blocked",
        "+ frame.ended completed",
        "! frame f1 ended twice",
    ]


def test_lines_that_fit_are_left_out_where_only_a_rule_was_broken() -> None:
    recorded = ("frame.opened", "frame.ended blocked")
    cell = Cell("codex", "plain_turn", EXPECTED, recorded, ("frame f1 ended twice",), runs=(Ran(0, "out", "err"),))
    assert list(described(cell)) == ["! frame f1 ended twice", "the harness ended with 0: 'out' 'err'"]
    assert (cell.holds, document(cell)["ok"]) == (False, False)


def test_a_cell_that_cannot_be_run_holds_and_says_why() -> None:
    cell = Cell("hermes", "prompt_blocked", Expectation(cannot="no hook can"))
    assert (cell.holds, document(cell)["cannot"], list(described(cell))) == (True, "no hook can", [])
