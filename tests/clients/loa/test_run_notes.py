"""Notes of runs: durable lines, of which a crash can cut only the newest."""

from pathlib import Path

from lifebus.loa.run_notes import DIRECTORY, RunNote, RunNotes, sum_costs
from lifebus.loa.types import LoaEvent
from lifebus_contract.runs import CostRecord


def event(name: str) -> RunNote:
    return RunNote(event=LoaEvent(event=name, timestamp="2026-02-03T04:05:06Z"))


def test_notes_come_back_in_their_order_and_each_run_has_its_own(tmp_path: Path) -> None:
    notes = RunNotes(tmp_path)
    assert list(notes.read("r")) == []
    for name in ("a", "b"):
        notes.add("r", event(name))
    notes.add("../r", event("c"))
    assert list(RunNotes(tmp_path).read("r")) == [event("a"), event("b")]
    assert list(RunNotes(tmp_path).read("../r")) == [event("c")]
    assert {file.parent for file in tmp_path.rglob("*.jsonl")} == {tmp_path / DIRECTORY}


def test_a_line_that_a_crash_has_cut_is_left_out_and_spoils_nothing(tmp_path: Path) -> None:
    notes = RunNotes(tmp_path)
    notes.add("r", event("whole"))
    (file,) = tmp_path.rglob("*.jsonl")
    whole = file.read_bytes()
    for size in range(1, len(whole)):
        file.write_bytes(whole + whole[:size])
        notes.add("r", event("after"))
        found = list(notes.read("r"))
        # All of a line without its newline is a line: it was written, and only not acknowledged.
        kept = [event("whole")] if size < len(whole) - 1 else [event("whole"), event("whole")]
        assert found == [*kept, event("after")]


def test_what_was_counted_under_a_key_counts_once_and_what_has_no_price_apart() -> None:
    one = CostRecord(run_id="r", step_id="a", key="k", input_tokens=5, output_tokens=2, cost_micros=7)
    unpriced = CostRecord(run_id="r", step_id="a", input_tokens=1, calls=2)
    found = sum_costs(iter([one, one, unpriced]))
    assert (found.cost_micros, found.input_tokens, found.output_tokens) == (7, 6, 2)
    assert (found.calls, found.unpriced_calls) == (3, 2)
