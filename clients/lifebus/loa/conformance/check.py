"""One check of the suite, and what is found.  Pure."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import Capability


class Level(StrEnum):
    """The headings of the contract's checklist."""

    REQUIRED = "required"
    RECOMMENDED = "recommended"
    TESTING = "testing"


CHECKLIST: Final = {
    Level.REQUIRED: (
        "Exit codes 0, 1, 2 handled correctly",
        "Retry logic with configurable max_retries",
        "Checkpoint write implemented",
        "Checkpoint read implemented",
        "Context signals available",
        "Escalation delivery works",
        "File system access works",
    ),
    Level.RECOMMENDED: (
        "Extended exit codes (64-78) handled",
        "Context compaction implemented",
        "Structured logging implemented",
        "Cost tracking implemented",
    ),
    Level.TESTING: (
        "Full Loa workflow completes successfully",
        "Retry triggers correctly on exit code 1",
        "Escalation triggers correctly on exit code 2",
        "Checkpoint survives runtime restart",
        "Resume from checkpoint works",
    ),
}
"""The contract's checklist, line by line."""


class CheckVerdict(StrEnum):
    """What a check found."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    """The runtime says that it does not have this optional capability."""
    NOT_JUDGED = "not_judged"
    """A check that this one builds on has failed."""


@dataclass(frozen=True, kw_only=True)
class RuntimeCheck:
    """One property of a runtime.

    `item` is the line of the contract's checklist that it belongs to; `needs` are checks without which it says nothing;
    `judge` returns what was seen, and raises `CheckFailed` where that is against the contract.
    """

    name: str
    level: Level
    item: str
    judge: Callable[[Scene], Awaitable[str]]
    needs: tuple[str, ...] = ()
    capability: Capability | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found, and what was seen."""

    check: str
    level: Level
    item: str
    verdict: CheckVerdict
    evidence: str = ""


class CheckList:
    """Checks in the order in which they are written down."""

    def __init__(self, level: Level, item: str, *, capability: Capability | None = None) -> None:
        self.checks: list[RuntimeCheck] = []
        self._level, self._item, self._capability = level, item, capability

    def check(
        self, name: str, *needs: str
    ) -> Callable[[Callable[[Scene], Awaitable[str]]], Callable[[Scene], Awaitable[str]]]:
        """Add the decorated function as a check of this name."""

        def added(judge: Callable[[Scene], Awaitable[str]]) -> Callable[[Scene], Awaitable[str]]:
            self.checks.append(
                RuntimeCheck(
                    name=name,
                    level=self._level,
                    item=self._item,
                    judge=judge,
                    needs=needs,
                    capability=self._capability,
                )
            )
            return judge

        return added
