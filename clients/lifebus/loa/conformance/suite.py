"""The suite: every check against one runtime, and what was found."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import anyio

from lifebus.loa.conformance.check import CHECKLIST, CheckVerdict, Finding, Level, RuntimeCheck
from lifebus.loa.conformance.checks import CHECKS
from lifebus.loa.conformance.process import RuntimeBroken
from lifebus.loa.conformance.project import CheckFailed, ScriptedProject
from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import RuntimeFault

GROUND: Final = "protocol.initialize"
"""The check that every other one needs."""


async def examine(
    command: Sequence[str],
    *,
    deadline_s: float = 10.0,
    only: Collection[str] = (),
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> tuple[Finding, ...]:
    """Run the checks on a runtime, and return what each one found; `on_finding` gets each one at once.

    `only` are names of checks, or beginnings of names; what they need is run too.  `deadline_s` is how long the runtime
    may take for each answer, and for everything that is to happen by itself.
    """
    project = await anyio.to_thread.run_sync(ScriptedProject.new)
    found: dict[str, Finding] = {}
    try:
        async with anyio.create_task_group() as group:
            scene = Scene(command, project, group, deadline_s)
            group.start_soon(scene.watch_starts)
            try:
                for check in selected(only):
                    found[check.name] = await _examine_one(check, found, scene)
                    on_finding(found[check.name])
            finally:
                with anyio.CancelScope(shield=True):
                    await scene.close()
            group.cancel_scope.cancel()
    finally:
        project.close()
    return tuple(found.values())


def selected(only: Collection[str] = ()) -> tuple[RuntimeCheck, ...]:
    """Return the checks whose names begin with one of these, and what they need, in the order of the checklist."""
    by_name = {check.name: check for check in CHECKS}
    wanted = {name for name in by_name if not only or name.startswith(tuple(only))}
    left = list(wanted)
    while left:
        needed = {GROUND, *by_name[left.pop()].needs} - wanted
        wanted |= needed
        left += needed
    levels = list(Level)
    return tuple(sorted((by_name[name] for name in by_name if name in wanted), key=lambda one: levels.index(one.level)))


async def _examine_one(check: RuntimeCheck, found: Mapping[str, Finding], scene: Scene) -> Finding:
    """Run one check, unless what it needs has failed or the runtime does without it."""
    for needed in (GROUND, *check.needs):
        if needed != check.name and found[needed].verdict is not CheckVerdict.PASSED:
            return _finding(check, CheckVerdict.NOT_JUDGED, f"needs {needed}, which did not pass")
    has = () if scene.initialized is None else scene.initialized.capabilities
    if check.capability is not None and check.capability not in has:
        return _finding(check, CheckVerdict.ABSENT, f"the runtime has no `{check.capability.value}`")
    try:
        await scene.begin()
        evidence = await check.judge(scene)
    except (CheckFailed, RuntimeBroken) as fault:
        return _finding(check, CheckVerdict.FAILED, str(fault))
    except RuntimeFault as fault:
        return _finding(check, CheckVerdict.FAILED, f"refused as `{fault.fault.value}`: {fault}")
    finally:
        await scene.clear()
    return _finding(check, CheckVerdict.PASSED, evidence)


def _finding(check: RuntimeCheck, verdict: CheckVerdict, evidence: str) -> Finding:
    return Finding(check=check.name, level=check.level, item=check.item, verdict=verdict, evidence=evidence)


def checklist(findings: Sequence[Finding]) -> Iterator[tuple[Level, str, bool]]:
    """Yield the lines of the contract's checklist, and whether every check of each of them passed."""
    for level, items in CHECKLIST.items():
        for item in items:
            verdicts = [finding.verdict for finding in findings if finding.item == item]
            yield level, item, bool(verdicts) and all(one is CheckVerdict.PASSED for one in verdicts)
