"""The twelve steps of a cold boot: their names, what each leaves behind, and how one fails.

See docs/ledger.md, "Cold boot".
"""

from typing import Final

from msgspec import Struct

from lifebus_contract import FailureClass, LifebusError

STEPS: Final = (
    "load the snapshot",
    "compare the pins",
    "load the log",
    "compare the hash of the log",
    "initialise the stores",
    "replay the log",
    "compute the digests",
    "compare the digests",
    "compile the working set",
    "compare the working set",
    "restore what is pending",
    "rebuild the compactions",
)
"""The twelve steps, in their order."""

# Said after the reason: what an operator can do next, by step.
_DAMAGED: Final = "the log was damaged or changed: `lifebus ledger verify` may say more; restore a backup or an archive"
_DIFFERENT: Final = (
    "the lines are those that were saved, so the base of pruned ones is damaged or the reducer is another:"
    " restore a backup or an archive, or boot with the version of lifebus that saved"
)
JOURNAL_DAMAGED: Final = (
    "the journal was damaged or changed, so no revision in it is believed: `lifebus ledger verify` may say more;"
    " restore a backup or an archive"
)
"""What to do where the journal cannot be believed."""

NO_PINS: Final = (
    "no revision can lead from pins that are not there, so this snapshot boots nowhere: take another one;"
    " `lifebus ledger snapshots list` lists them, `lifebus ledger save session` makes a new one"
)
"""What to do where a snapshot lacks pins."""

_ADVICE: Final = {
    1: "take another snapshot; `lifebus ledger snapshots list` lists them",
    2: "if the change is meant, write it down: `lifebus ledger boot --revise REASON`",
    3: "take a snapshot of which the log still holds every line; `lifebus ledger snapshots list` marks them",
    4: _DAMAGED,
    5: "what was kept in place of pruned lines is damaged: restore a backup or an archive",
    6: _DAMAGED,
    12: "`lifebus ledger snapshots verify` after deleting the directory `compactions` says whether the log is sound",
}


class Step(Struct, frozen=True, kw_only=True):
    """The record of one step that passed: its number, from 1, its name, and what was checked."""

    number: int
    name: str
    checked: str


class ColdBootError(LifebusError):
    """A cold boot ended at `step`, from 1, and changed nothing; the text says why, where, and what to do next.

    `position` is the first bad one in the log; None where the log is not at fault, and where it is known only to lie
    `within` two positions.  `reason` is the bare reason; `advice` replaces what is advised at that step.
    """

    default_failure = FailureClass.STATE_CONFLICT

    def __init__(
        self,
        step: int,
        position: int | None,
        reason: str,
        *,
        within: tuple[int, int] | None = None,
        advice: str | None = None,
    ) -> None:
        where = "" if position is None else f", position {position}"
        if within is not None:
            where = f", somewhere in the positions {within[0]} to {within[1]}"
        advice = advice or _ADVICE.get(step, _DIFFERENT)
        super().__init__(f"step {step} of 12, {STEPS[step - 1]}{where}: {reason}; {advice}", code="cold_boot")
        self.step, self.position, self.reason, self.within = step, position, reason, within
