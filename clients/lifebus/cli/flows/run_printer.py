"""What a run's changes look like on a terminal, or as one JSON document each."""

import sys
from typing import TYPE_CHECKING

from lifebus.cli.flows.common import COLORS
from lifebus.cli.flows.questions import asked_ids
from lifebus.cli.terminal import clean, paint, put, put_whole_json, say
from lifebus.flows.progress import Change, changes
from lifebus_contract.runs import RunStatus, StepStatus

if TYPE_CHECKING:
    from lifebus_contract.flows import FlowDefinition
    from lifebus_contract.runs import RunInfo


class RunPrinter:
    """Prints what happens to a run: a line a change, or one JSON document a change.

    What had happened when it was `seen` is not told again.
    """

    def __init__(self, flow: "FlowDefinition", *, json: bool, seen: "RunInfo | None" = None) -> None:
        self._flow, self.json = flow, json
        self._last = seen
        self._is_shown = False
        self._width = max(len(one.step_id) for one in flow.steps)

    def show_id(self, run: "RunInfo") -> None:
        """Print which run it is, and nothing else."""
        if self.json:
            put_whole_json(run, indent=0)
        else:
            put(clean(run.run_id))

    def announce(self, run: "RunInfo", hint: str) -> None:
        """Say which run it is, and at a terminal what Ctrl-C does."""
        if self.json:
            return
        count, over = len(run.steps), sum(one.status.is_over for one in run.steps)
        phases = f"{count} {'phase' if count == 1 else 'phases'}{f', {over} of them done' if over else ''}"
        say(f"{run.run_id}: {phases}, in {run.root}" + (f"; {hint}" if sys.stderr.isatty() else ""), color="dim")

    def show(self, run: "RunInfo") -> None:
        """Print what has changed since the last time."""
        found = list(changes(self._last, run, self._flow))
        self._last = run
        if self.json:
            if found:
                self._put_document(run)
            return
        for change in found:
            self._put(run, change)

    def _put_document(self, run: "RunInfo") -> None:
        self._is_shown = True
        put_whole_json(run, indent=0)

    def end(self, run: "RunInfo") -> None:
        """Say what to do next, where a person has something to do."""
        if self.json:
            # A program that asks about a run to which nothing happens gets it all the same.
            if not self._is_shown:
                self._put_document(run)
            return
        for line in next_steps(run):
            say(line, color="dim")

    def _put(self, run: "RunInfo", change: Change) -> None:
        color = COLORS.get(change.status.value.replace("_", " "), "")
        name = (run.run_id if change.step_id is None else change.step_id).ljust(self._width)
        put(f"{paint(clean(name), 'bold')}  {paint(clean(change.text), color)}")


def next_steps(run: "RunInfo") -> list[str]:
    """Return what may be done with a run as it stands."""
    failed = [one.step_id for one in run.steps if one.status is StepStatus.FAILED]
    if run.status is RunStatus.FAILED and failed:
        return [
            f"`lifebus flow logs {run.run_id} {failed[0]} --stderr` shows what it wrote",
            f"`lifebus flow retry {run.run_id} {failed[0]}` tries it again",
        ]
    if run.status is RunStatus.WAITING:
        asking = [one.step_id for one in run.steps if one.status is StepStatus.ASKING and one.tries]
        return [f"`lifebus flow logs {run.run_id} {one} --stderr` shows what it wrote" for one in asking]
    if run.status is RunStatus.INTERRUPTED:
        first = "answer now or later: " if asked_ids(run) else ""
        return [f"{first}`lifebus flow resume {run.run_id}` goes on"]
    return []
