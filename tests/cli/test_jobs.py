"""`lifebus jobs`: jobs listed, shown, cancelled, retried, drained; and the library beneath."""

from pathlib import Path

import anyio

import lifebus
import lifebus.blocking
from lifebus_contract.jobs import NewJob
from support.command_line import Shell, broker_up


def job(name: str, script: str, **fields: object) -> NewJob:
    payload = {"argv": ["sh", "-c", script], "cwd": "/"}
    return NewJob(type="command", project_id="shop", job_id=name, payload=payload, max_attempts=1)


def test_a_job_is_listed_shown_retried_and_canceled(alone: Shell, tmp_path: Path) -> None:
    with broker_up(alone), lifebus.blocking.connect("script", runtime_dir=alone.directory / "run") as bus:
        assert "no jobs" in alone.call("jobs", "list").err
        script = f"test -e {tmp_path}/ready || exit 64; echo '{{\"made\": 3}}'"
        bus.jobs.enqueue(job("report", script))
        assert bus.jobs.wait("report").state == "failed"
        listed = alone.call("jobs").out
        assert all(words in listed for words in ("report", "shop", "command", "failed", "1/1", "exit code 64"))
        assert "\x1b[31mfailed\x1b[0m" in alone.call("jobs", "list", FORCE_COLOR="1").out
        assert alone.call("jobs", "list", "--state", "completed", "--json").json == []

        (tmp_path / "ready").touch()
        assert alone.call("jobs", "retry", "report").code == 0
        done = bus.jobs.wait("report")
        assert (done.state, done.result) == ("completed", {"made": 3})
        shown = alone.call("jobs", "show", "report").json
        assert (shown["result"], shown["projectId"], shown["sourceSessionId"]) == ({"made": 3}, "shop", None)
        again = alone.call("jobs", "retry", "report")
        assert (again.code, "the job is completed" in again.err) == (1, True)

        assert "no further job begins; 0 run, 0 wait" in alone.call("jobs", "drain").out
        bus.jobs.enqueue(job("later", "true"))
        assert "`later` is canceled" in alone.call("jobs", "cancel", "later", "--reason", "not needed").out
        assert bus.jobs.show("later").error == "not needed"
        assert alone.call("jobs", "cancel", "later").code == 1
        assert "jobs begin; 0 run, 0 wait" in alone.call("jobs", "drain", "--resume").out
        assert alone.call("jobs", "drain", "--resume", "--cancel").code == 2
        assert alone.call("jobs", "show", "nothing").code == 1
        unusable = alone.call("jobs", "show", "a b")
        assert (unusable.code, "`a b` is no id of a job: up to 128 letters" in unusable.err) == (2, True)
        assert [one.id for one in bus.jobs.list(project_id="shop")] == ["report", "later"]
        assert (bus.jobs.drain().drains, bus.jobs.go_on().drains) == (True, False)
        bus.jobs.enqueue(job("last", "true"))
        assert bus.jobs.wait("last").result is None


def test_whoever_follows_the_signals_of_the_queue_sees_every_step(alone: Shell) -> None:
    async def follow() -> list[str]:
        async with lifebus.connect("follower", runtime_dir=alone.directory / "run") as bus:
            signals = bus.signals("lifebus")
            await signals.join()
            await bus.jobs.enqueue(job("a", "echo 1"))
            found: list[str] = []
            async for one in signals:
                assert isinstance(one, lifebus.SignalReceived)
                assert one.thread == "queue/shop"
                found.append(one.envelope["payload"]["state"])
                if one.event_type == "orchestrator_job_completed":
                    break
            await signals.aclose()
            return found

    with broker_up(alone):
        assert anyio.run(follow) == ["queued", "running", "completed"]


def test_a_running_command_is_ended_by_cancel_and_leaves_nothing(alone: Shell, tmp_path: Path) -> None:
    with broker_up(alone), lifebus.blocking.connect("script", runtime_dir=alone.directory / "run") as bus:
        pipe = tmp_path / "pipe"
        bus.jobs.enqueue(job("a", f"mkfifo {pipe}; echo begun > {tmp_path}/begun; cat {pipe}"))
        while bus.jobs.show("a").state == "queued":
            pass
        assert alone.call("jobs", "cancel", "a").code == 0
        canceled = bus.jobs.wait("a")
        assert (canceled.state, canceled.error) == ("canceled", "cancel_requested")
