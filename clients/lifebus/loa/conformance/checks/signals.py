"""Context signals: their fields, and that they follow what happens."""

from typing import Final

import anyio
import msgspec

from lifebus.loa.conformance.check import CheckList, Level, RuntimeCheck
from lifebus.loa.conformance.project import CheckFailed
from lifebus.loa.conformance.scene import Scene
from lifebus.loa.protocol import PhaseRequest
from lifebus.loa.types import LoaSignals

_SIGNALS: Final = CheckList(Level.REQUIRED, "Context signals available")
_LONG_MS: Final = 600_000
_SHORT_MS: Final = 5_000
_NEAR_PERCENT: Final = 10
_PAUSE_S: Final = 0.05


async def _ask(scene: Scene, run_id: str) -> LoaSignals:
    return await scene.ask("signals", PhaseRequest(run_id=run_id, phase="a"), LoaSignals)


@_SIGNALS.check("signals.fields")
async def _fields(scene: Scene) -> str:
    run_id = await scene.run("a")
    await scene.started("a")
    found = await _ask(scene, run_id)
    return f"all six are there: {msgspec.json.encode(found).decode()}"


@_SIGNALS.check("signals.retries", "signals.fields")
async def _retries(scene: Scene) -> str:
    run_id = await scene.run(scene.phase("a", max_retries=2))
    for expected in (0, 1):
        started = await scene.started("a")
        found = await _ask(scene, run_id)
        if (found.retry_count, found.max_retries) != (expected, 2):
            raise CheckFailed(
                f"in try {expected + 1} of 3 the signals say retry {found.retry_count} of {found.max_retries}, "
                f"not {expected} of 2"
            )
        scene.project.end(started, 1)
    return "retry_count was 0 in the first try and 1 in the second; max_retries 2"


@_SIGNALS.check("signals.time", "signals.fields", "codes.success")
async def _time(scene: Scene) -> str:
    run_id = await scene.run("a")
    await scene.started("a")
    if (unlimited := (await _ask(scene, run_id)).time_remaining_ms) is not None:
        raise CheckFailed(f"a phase without a time limit has {unlimited} ms left, not null")
    await scene.clear()
    run_id = await scene.run(scene.phase("a", time_limit_ms=_LONG_MS))
    await scene.started("a")
    left = (await _ask(scene, run_id)).time_remaining_ms
    later = (await _ask(scene, run_id)).time_remaining_ms
    if left is None or later is None or not 0 < later <= left <= _LONG_MS:
        raise CheckFailed(f"a phase with {_LONG_MS} ms has {left} ms left, and {later} ms later")
    return f"null without a limit; {left} of {_LONG_MS} ms with one"


@_SIGNALS.check("signals.limit", "signals.fields", "signals.time")
async def _limit(scene: Scene) -> str:
    phase = scene.phase("a", time_limit_ms=_SHORT_MS)
    run_id = await scene.run(phase, near_limit_percent=_NEAR_PERCENT)
    await scene.started("a")
    # The limit may be near already where the machine is slow; what counts is that it is seen before it is over.
    with anyio.move_on_after(_SHORT_MS / 1000):
        while not (found := await _ask(scene, run_id)).is_approaching_limit:  # noqa: ASYNC110  it is asked, and tells nothing
            await anyio.sleep(_PAUSE_S)
        left = found.time_remaining_ms
        if left is None or left > _SHORT_MS * (100 - _NEAR_PERCENT) // 100:
            raise CheckFailed(f"the limit counts as near with {left} of {_SHORT_MS} ms left")
        return f"is_approaching_limit with {left} of {_SHORT_MS} ms left"
    raise CheckFailed(f"is_approaching_limit stayed false until {_SHORT_MS} ms were over")


CHECKS: Final[tuple[RuntimeCheck, ...]] = tuple(_SIGNALS.checks)
