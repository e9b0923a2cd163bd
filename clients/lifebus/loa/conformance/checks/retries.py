"""Retries: how many there are, and that a phase that recovers goes on by itself."""

from typing import Final

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.project import CheckFailed
from lifebus.loa.conformance.scene import Scene

_RETRIES: Final = CheckList(Level.REQUIRED, "Retry logic with configurable max_retries")
_RECOVERY: Final = CheckList(Level.TESTING, "Retry triggers correctly on exit code 1")


async def _count(scene: Scene, max_retries: int) -> str:
    await scene.run(scene.phase("a", max_retries=max_retries))
    tries, _ = await scene.fails_until_asked("a")
    if tries != 1 + max_retries:
        raise CheckFailed(f"with max_retries {max_retries} there were {tries} tries, not {1 + max_retries}")
    return f"with max_retries {max_retries} there were {tries} tries, and then a person was asked"


@_RETRIES.check("retries.limit")
async def _limit(scene: Scene) -> str:
    return await _count(scene, 2)


@_RETRIES.check("retries.none")
async def _none(scene: Scene) -> str:
    return await _count(scene, 0)


@_RECOVERY.check("retries.recovery", "codes.success")
async def _recovery(scene: Scene) -> str:
    await scene.run(scene.phase("a", max_retries=3), "b")
    await scene.ends("a", 1)
    await scene.ends("a", 0)
    await scene.ends("b", 0)
    return "after 1 the phase was tried again, and after 0 the next one started; nobody was asked"


CHECKS: Final[tuple[RuntimeCheck, ...]] = (*_RETRIES.checks, *_RECOVERY.checks)
