"""How full the contexts of tries are by the telemetry of their harnesses, in a broker of this process."""

from pathlib import Path

from lifebus_adapters.shared.telemetry import Usage
from lifebus_contract.questions import AnswerAction
from lifebus_supervisor.runtime.limits.context_watch import ContextWatch
from lifebus_supervisor.runtime.run_records import ContextUse
from lifebus_supervisor.supervision.monitor.telemetry import TelemetryState
from support.flows import answer, exited, flow, step, until_waiting
from support.integration.following import until as until_true
from support.run_scene import scene


async def test_telemetry_of_the_harness_that_a_try_runs_goes_before_what_was_counted(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), context_tokens=1_000))
        await at.runner.wait_for("a")
        await at.cost(500)
        # A process with the environment of the try, as a harness is, and one of another try.
        for number in (1, 2):
            at.harness_of_try(f"s{number}", number).telemetry = telemetry_of(f"s{number}", 630 + number)
        found = await at.signals()
        assert (found.context_tokens_used, found.context_tokens_available) == (631, 169)
        assert found.sources == {
            "context_tokens_used": "telemetry: transcript",
            "context_tokens_available": "telemetry: model",
        }
        assert await at.pressures() == []
        monitor = at.daemon.supervisor.monitors.open(("claude", "s1"))
        for used, crossings in ((640, 1), (700, 1), (100, 1), (650, 2)):
            monitor.telemetry = telemetry_of("s1", used)
            assert (await at.signals()).is_approaching_limit is (used >= 640)
            assert len(await at.pressures()) == crossings


async def test_a_context_that_fills_up_while_a_try_runs_is_one_event_a_crossing_and_nobody_asks(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), context_tokens=1_000))
        await at.runner.wait_for("a")
        monitor = at.harness_of_try("s", 1)
        for used, crossings in ((639, 0), (640, 1), (700, 1), (700, 1), (639, 1), (641, 2)):
            monitor.telemetry = telemetry_of("s", used)
            await at.daemon.supervisor.poll_early()
            assert len(await at.pressures()) == crossings
            # Of two sources one is what counts, or each call would be a crossing.
            await at.cost(10)
            await at.daemon.supervisor.tick()
            assert len(await at.pressures()) == crossings
        newest = (await at.pressures())[-1].telemetry_summary
        assert (newest["near"], newest["context_used_tokens"]) == ("context_tokens", 641)
        # The next try has a harness of its own: what the one of this try shows is nothing to it.
        await at.runner.end("a", exited(1))
        at.pass_ms(60_000)
        await until_true(lambda: len(at.runner.begun) == 2)
        await at.daemon.supervisor.poll_early()
        assert (await at.settled()).steps["a"].near == ()
        assert len(await at.pressures()) == 2


async def test_calls_that_were_counted_since_the_newest_telemetry_are_newer(tmp_path: Path) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), context_tokens=1_000))
        await at.runner.wait_for("a")
        monitor = at.harness_of_try("s", 1)
        monitor.telemetry = telemetry_of("s", 630)
        await at.daemon.supervisor.poll_early()
        await at.cost(800)
        await at.daemon.supervisor.poll_early()
        assert len(await at.pressures()) == 1
        monitor.telemetry = telemetry_of("s", 655)
        await at.daemon.supervisor.poll_early()
        assert (await at.settled()).steps["a"].near == ("context_tokens",)
        assert len(await at.pressures()) == 1


async def test_a_call_that_crosses_a_limit_is_one_event_also_where_telemetry_has_crossed_it_before(
    tmp_path: Path,
) -> None:
    async with scene() as at:
        await at.submit(flow(tmp_path, step("a"), context_tokens=1_000))
        await at.runner.wait_for("a")
        monitor = at.harness_of_try("s", 1)
        # Telemetry has crossed the limit of 640 of 800 tokens, and left it: the harness has made its context smaller.
        for used in (640, 100):
            monitor.telemetry = telemetry_of("s", used)
            await at.daemon.supervisor.poll_early()
        assert (len(await at.pressures()), (await at.settled()).steps["a"].near) == (1, ())
        await at.cost(639)
        assert len(await at.pressures()) == 1
        await at.cost(640)
        assert (await at.pressures())[-1].telemetry_summary["context_used_tokens"] == 640
        # Each of the two goes on by itself, and neither takes back what the other one has shown.
        for used in (110, 120, 130):
            monitor.telemetry = telemetry_of("s", used)
            await at.daemon.supervisor.poll_early()
            await at.cost(700)
            found = await at.signals()
            assert (found.near, found.context_tokens_used) == (("context_tokens",), 700)
            assert len(await at.pressures()) == 2
        # Less than what is on record of it is a compaction: no call before that says anything of it.
        monitor.telemetry = telemetry_of("s", 99)
        await at.daemon.supervisor.poll_early()
        assert (await at.settled()).steps["a"].near == ()
        assert (await at.signals()).context_tokens_used == 99
        await at.cost(800)
        assert len(await at.pressures()) == 3


async def test_nothing_is_measured_while_no_try_runs(tmp_path: Path) -> None:
    async with scene() as at:
        looks: list[str] = []

        async def measure() -> dict[tuple[str, str, int], ContextUse]:
            looks.append("look")
            return {}

        watch = ContextWatch(at.runs.engine, at.runs.runs, measure)
        await watch.look()
        await at.submit(flow(tmp_path, step("a", approval="Begin?")))
        await watch.look()
        assert looks == []
        info = await until_waiting(at.runs, at.run_id)
        await answer(at.daemon, info, AnswerAction.PROCEED)
        await at.runner.wait_for("a")
        await watch.look()
        assert looks == ["look"]


def telemetry_of(session: str, used: int) -> TelemetryState:
    usage = Usage(session=session, used_tokens=used, used_source="transcript", window_tokens=800, window_source="model")
    return TelemetryState(usage=usage)
