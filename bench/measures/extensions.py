"""How long an extension takes to learn of an emission and to have its action executed.

The broker runs in this process, on a ledger that syncs, the extension in its child; one emission at a time.
"""

import asyncio
import statistics
import time
from pathlib import Path

import lifebus
from bench.peers.process import workspace
from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.extensions.passes import Reach
from lifebus_supervisor.extensions.settings import ExtensionSettings

_CODE = """
from lifebus.extensions import Event, Receipt, on, request_action

@on("lifecycle.session.started")
async def started(event: Event[Receipt]):
    return request_action("seen", {"session": event.payload.harness_session_id})
"""


class _Arrivals:
    """An executor that writes down when each request came."""

    def __init__(self) -> None:
        self.arrived: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
        del request, scope, requested_by
        self.arrived.set_result(time.perf_counter())
        return ActionOutcome(status=ActionStatus.PERFORMED)


def measure(rounds: int) -> dict[str, float]:
    """Return milliseconds from the call of `emit`: to its acknowledgement and to the action, p50 and p99."""
    with workspace() as folder:
        return asyncio.run(_measure(folder, rounds))


async def _measure(folder: Path, rounds: int) -> dict[str, float]:
    extension = folder / "agents" / "bench"
    extension.mkdir(parents=True)
    (extension / "events.py").write_text(_CODE)
    settings = Settings(
        runtime_dir=folder / "run",
        state_dir=folder / "state",
        extensions=ExtensionSettings(roots=(str(extension.parent),), trust_mode=TrustMode.DISABLED),
    )
    acknowledged, executed = list[float](), list[float]()
    async with running(settings) as daemon, lifebus.connect("bench", runtime_dir=settings.runtime_dir) as bus:
        await _load(bus)
        for number in range(rounds):
            arrivals = _Arrivals()
            (await daemon.sessions.use()).extensions.around = Reach(executor=arrivals)
            started = time.perf_counter()
            await bus.emit(lifebus.make_request("session.started", "codex", session=f"s{number}"))
            acknowledged.append(time.perf_counter() - started)
            executed.append(await arrivals.arrived - started)
    return {
        "its acknowledgement, p50": 1e3 * statistics.median(acknowledged),
        "the action of a handler, p50": 1e3 * statistics.median(executed),
        "the action of a handler, p99": 1e3 * statistics.quantiles(executed, n=100)[98],
    }


async def _load(bus: lifebus.Bus) -> None:
    """Load, as soon as the load of the start is over."""
    while (answer := await bus.extensions.reload()).code == "reload_in_progress":  # noqa: ASYNC110  no event here
        await asyncio.sleep(0.05)
    if answer.loaded_count != 1:
        raise RuntimeError(f"the extension was not loaded: {answer.errors}")
