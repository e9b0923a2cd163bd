"""Exit codes: 0, 1 and 2, and those of sysexits.h and of shells."""

from typing import Final

from lifebus.loa.codes import SYSEXITS
from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.project import CheckFailed, PhaseStarted
from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import Capability, LoaRunState, Phase

_CODES: Final = CheckList(Level.REQUIRED, "Exit codes 0, 1, 2 handled correctly")
_EXTENDED: Final = CheckList(
    Level.RECOMMENDED, "Extended exit codes (64-78) handled", capability=Capability.EXTENDED_EXIT_CODES
)
_MANY_RETRIES: Final = 100


@_CODES.check("codes.success")
async def _success(scene: Scene) -> str:
    await scene.run("a", "b")
    await scene.ends("a", 0)
    await scene.ends("b", 0)
    await scene.over(LoaRunState.COMPLETED)
    return "after 0 the next phase started, and after the last one the run was completed"


@_CODES.check("codes.failure")
async def _failure(scene: Scene) -> str:
    await scene.run(scene.phase("a", max_retries=1), "b")
    tries, _ = await scene.fails_until_asked("a")
    await scene.nothing(PhaseStarted)
    return f"after {tries} tries that ended with 1 a person was asked, and the next phase did not start"


@_CODES.check("codes.blocked")
async def _blocked(scene: Scene) -> str:
    await scene.run("a", "b")
    await scene.ends("a", 2)
    await scene.asked()
    await scene.nothing(PhaseStarted)
    return "after 2 a person was asked at once, and nothing was started"


@_EXTENDED.check("codes.sysexits", "codes.success")
async def _sysexits(scene: Scene) -> str:
    await scene.run(scene.phase("a", max_retries=_MANY_RETRIES))
    for code, name in enumerate(SYSEXITS, 64):
        try:
            await scene.ends("a", code)
        except CheckFailed as fault:
            raise CheckFailed(f"before the try that ends with {code} ({name}): {fault}") from fault
    await scene.ends("a", 0)
    await scene.over(LoaRunState.COMPLETED)
    return "each of the codes 64 to 78 led to another try"


async def _alerts(scene: Scene, phase: Phase, code: int | None) -> None:
    await scene.run(phase, "b")
    if code is not None:
        await scene.ends("a", code)
    await scene.asked()
    await scene.nothing(PhaseStarted)


@_EXTENDED.check("codes.not_executable")
async def _not_executable(scene: Scene) -> str:
    await _alerts(scene, scene.phase("a"), 126)
    return "after 126 a person was asked at once, and nothing was started"


@_EXTENDED.check("codes.not_found")
async def _not_found(scene: Scene) -> str:
    await _alerts(scene, scene.phase("a"), 127)
    return "after 127 a person was asked at once, and nothing was started"


@_EXTENDED.check("codes.cannot_start")
async def _cannot_start(scene: Scene) -> str:
    missing = str(scene.project.root / "no-such-program")
    await _alerts(scene, Phase(phase="a", command=(missing,)), None)
    return "a program that is not there was brought to a person"


CHECKS: Final[tuple[RuntimeCheck, ...]] = (*_CODES.checks, *_EXTENDED.checks)
