"""A place in which the flow of five phases runs as users run it, where anything is killed and started again."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psutil

from support.clients.proxy_box import eventually
from support.command_line import Ran, Shell
from support.crash.ledger_file import History, Recorded, run_records
from support.crash.tormented_flow import (
    APPROVED,
    BLOCKED,
    PROGRAM,
    check_order,
    check_tries,
    flow_text,
    let_go,
    read_world,
)
from support.fork_server import Forked, fork_server
from support.inbox.http_receiver import Receiver
from support.leftovers import MARK, marked
from support.patience import PATIENCE_S

RUN: Final = "five-1"
ASKED: Final = [f"q_{RUN}_{BLOCKED}_1", f"q_{RUN}_{APPROVED}_a1"]
"""The questions of the flow: who is asked more or less is asked wrongly."""

FAILURES: Final = "lifebus.flow.failures"
UNANSWERED: Final = 69
_SOON: Final = ("--timeout", "1s")
_ENDED: Final = ("receipts", "list", "--session", f"flow/{RUN}", "--event", "session.ended", "--json")


class TormentBox:
    """One run, the broker, the command that follows or runs it, and the person who is asked."""

    def __init__(self, directory: Path, receiver: Receiver, *, here: bool, first_pause: str = "50ms") -> None:
        self.mark = uuid4().hex
        self.shell = Shell(directory, **{MARK: self.mark}, LIFEBUS_TELEMETRY_ENABLED="false")
        self.shell.environment["LIFEBUS_CONFIG"] = str(directory / "config.toml")
        self.project = directory / "project"
        self.project.mkdir()
        self.here = here
        self.broker: Forked | None = None
        self.command: Forked | None = None
        self.command_codes: list[int] = []
        self._receiver = receiver
        self._directory = directory
        self._logs = 0
        (directory / "phase.py").write_text(PROGRAM)
        (self.project / "five.toml").write_text(flow_text(directory / "phase.py", first_pause))
        secret = directory / "secret"
        secret.write_text("one secret that the receiver knows as well")
        secret.chmod(0o600)
        hook = f'name = "hook"\nkind = "webhook"\nurl = "{receiver.url}"\nsecret_file = "{secret}"\n'
        (directory / "config.toml").write_text(f"[[inbox.channels]]\n{hook}[ticks]\nenabled = false\n")

    def start_broker(self, torment: str = "", *, wait: bool = True) -> None:
        """Start `lifebus up`, which dies as `torment` says, and wait until it is ready or gone."""
        self._logs += 1
        log = self._directory / f"up.{self._logs}.log"
        with log.open("wb") as stderr:
            self.broker = broker = self._start("broker", torment, "up", stderr=stderr.fileno())
        if wait:
            eventually(lambda: '"event":"ready"' in log.read_text() or self.is_down(broker))

    def start_command(self, torment: str = "") -> None:
        """Run the flow, or go on with it where there is a run."""
        here = ["--here"] if self.here else []
        words = ["run", str(self.project / "five.toml"), "--id", RUN] if self.run is None else ["resume", RUN]
        with (self._directory / "command.log").open("ab") as log:
            self.command = self._start("owner", torment, "flow", *words, *here, stderr=log.fileno())

    def _start(self, entry: str, torment: str, *words: str, stderr: int) -> Forked:
        environment = {**self.shell.environment, **({"TORMENT": torment} if torment else {})}
        return fork_server().start(
            f"support.crash.tormented:{entry}", words, environment=environment, stdout=stderr, stderr=stderr
        )

    @staticmethod
    def is_down(process: Forked) -> bool:
        """Whether a process has ended, or was stopped by itself."""
        if process.poll() is not None:
            return True
        with suppress(psutil.Error):
            return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
        return True

    @property
    def run(self) -> dict[str, Any] | None:
        """The run as the broker shows it, however slow that is; None where there is none, or no broker."""
        told: list[Ran] = []

        def is_told() -> bool:
            told[:] = [self.shell.call("flow", "show", RUN, "--json", *_SOON)]
            return told[0].code != UNANSWERED or self.broker is None or self.is_down(self.broker)

        eventually(is_told)
        return told[0].json["run"] if told[0].code == 0 else None

    @property
    def is_over(self) -> bool:
        """Whether the run is completed."""
        run = self.run
        return run is not None and run["status"] == "completed"

    def answer(self) -> None:
        """Answer what is asked, as somebody does who looks into the inbox."""
        ran = self.shell.call("inbox", "list", "--json", *_SOON)
        for info in ran.json if ran.code == 0 else ():
            name = info["question"]["question_id"]
            assert name in ASKED, self.story()
            if info["question"]["step_id"] == BLOCKED:
                (self.project / "c.answered").touch()
            action = "proceed" if info["question"]["step_id"] == APPROVED else "retry"
            told = self.shell.call("inbox", "answer", name, action)
            assert told.code in {0, 69} or "already" in told.err, told

    def go_on(self, until: Callable[[], bool]) -> None:
        """Answer what is asked, and start the command again where it found no broker, until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < deadline, self.story()
            self.answer()
            if self.command is not None and self.command.poll() is not None:
                self.command_codes.append(self.command.poll() or 0)
                self.start_command()

    def hold(self, point: str) -> None:
        """Have a phase held behind its line, named ``start.PHASE`` or ``end.PHASE``."""
        (self.project / f"hold.{point}").touch()

    @property
    def held(self) -> int | None:
        """The process that is held."""
        found = [*self.project.glob("held.*")]
        return int(found[0].name.removeprefix("held.")) if found else None

    def kill(self, victim: str, chance: random.Random | None = None) -> None:
        """Kill one of: the command, the broker, a phase (``child``), its ``shim``, or all at once (``machine``)."""
        owner = self.command if self.here else self.broker
        if victim in {"command", "broker"}:
            process = self.command if victim == "command" else self.broker
            if process is not None:
                process.kill()
                process.wait(PATIENCE_S)
        elif victim == "machine":
            self._kill_all()
        elif owner is not None:
            pids = [self.held] if self.held else _phases(owner)
            pids = [one for one in pids if one]
            if not pids:
                return
            pid = chance.choice(pids) if chance else pids[0]
            with suppress(psutil.Error):
                psutil.Process(pid if victim == "child" else psutil.Process(pid).ppid()).kill()
        self.check_records()

    def _kill_all(self) -> None:
        roots = [one for one in (self.broker, self.command) if one is not None and one.poll() is None]
        found: dict[int, psutil.Process] = {}
        # All are stopped before the first is killed, so that none sees another's end or begins one more.
        while new := [one for one in _families(roots) if one.pid not in found]:
            for process in new:
                found[process.pid] = process
                with suppress(psutil.Error):
                    process.suspend()
        for process in found.values():
            with suppress(psutil.Error):
                process.kill()
        for one in roots:
            one.wait(PATIENCE_S)

    def restart(self) -> None:
        """Start again what does not run."""
        if self.broker is None or self.is_down(self.broker):
            if self.broker is not None:
                self.broker.kill()
                self.broker.wait(PATIENCE_S)
            self.start_broker()
        if self.command is None or self.command.poll() is not None:
            self.start_command()
        let_go(self.project)

    def check_records(self) -> None:
        """Hold what is durable now to what the phases say by now: no end is on record that was not."""
        if self.broker is not None and self.broker.poll() is None:
            return  # its files change while they are copied
        records = run_records(self._ledger, self._directory / "copy", RUN)
        ends = {(line.name, line.number): line.value for line in read_world(self.project) if line.what == "end"}
        for record in records:
            if record["kind"] == "try_ended" and record["outcome"]["kind"] == "exited":
                assert ends.get((record["step"], record["number"])) == record["outcome"]["code"], record

    def finish(self) -> None:
        """Go on until the run is over, then hold everything to the oracle."""
        self.restart()
        self.go_on(lambda: self.is_over)
        run = self.run
        assert run is not None
        assert self.command is not None
        if self.command.wait(PATIENCE_S) == UNANSWERED:
            # Its first request went down with the broker: it does not know whether there is a run.
            self.start_command()
        assert self.command.wait(PATIENCE_S) == 0
        world = read_world(self.project)
        check_order(world)
        check_tries(world, run["steps"], is_over=True)
        assert {step["status"] for step in run["steps"]} == {"done"}
        assert (self.project / "e.txt").exists()
        self._check_questions()
        self._stop(run)
        eventually(lambda: marked(self.mark) == [])

    def _check_questions(self) -> None:
        listed = self.shell.call("inbox", "list", "--all", "--json").json
        assert sorted(one["question"]["question_id"] for one in listed) == sorted(ASKED)
        told: dict[str, set[str]] = {}
        for post in self._receiver.posts:
            if post.document["type"] == "question.asked":
                asked = told.setdefault(post.document["question"]["question_id"], set())
                asked.add(post.document["delivery_id"])
        # One that was answered before its first delivery is not brought to anybody.
        assert set(told) <= set(ASKED)
        assert all(len(ids) == 1 for ids in told.values()), told

    def _stop(self, run: dict[str, Any]) -> None:
        eventually(lambda: '"session.ended"' in self.shell.call(*_ENDED).out)
        assert self.shell.call("receipts", "verify").code == 0
        assert self.broker is not None
        self.broker.send_signal(signal.SIGTERM)
        self.broker.wait(PATIENCE_S)
        rows = History(answering=(FAILURES,)).read(self._ledger, self._directory / "copy")
        check_receipts(rows, run)

    @property
    def _ledger(self) -> Path:
        return Path(self.shell.environment["LIFEBUS_STATE_DIR"]) / "ledger.db"

    def close(self) -> None:
        """End what a failed test has left."""
        self._kill_all()

    def story(self) -> str:
        logs = [path.read_text(errors="replace") for path in sorted(self._directory.glob("*.log"))]
        return "\n".join([str(self.run), str(read_world(self.project)), *logs])


def check_receipts(rows: list[Recorded], run: dict[str, Any]) -> None:
    """One opening and one end of a frame for each try, one end of the session."""
    ours = [one.content for one in rows if one.content["harness_session_id"] == run["run_id"]]
    assert {one["client_id"] for one in ours} <= {"lifebus.flow", FAILURES}
    frames = Counter((one["event"], one["telemetry_summary"].get("frame_id")) for one in ours)
    tries = [f"{step['step_id']}#{one['number']}" for step in run["steps"] for one in step["tries"]]
    for event in ("frame.opening", "frame.opened", "frame.ending", "frame.ended"):
        found = {frame: count for (name, frame), count in frames.items() if name == event}
        assert found == dict.fromkeys(tries, 1), event
    assert frames["session.ended", None] == 1


def _families(roots: Sequence[Forked]) -> list[psutil.Process]:
    """The processes and all that are below them."""
    found: list[psutil.Process] = []
    for one in roots:
        with suppress(psutil.Error):  # it may have ended by itself in this moment
            root = psutil.Process(one.pid)
            found += [root, *root.children(recursive=True)]
    return found


def _phases(owner: Forked) -> list[int]:
    """The phases that run below an owner."""
    found: list[int] = []
    with suppress(psutil.Error):
        for child in psutil.Process(owner.pid).children(recursive=True):
            with suppress(psutil.Error):
                if any(word.endswith("phase.py") for word in child.cmdline()):
                    found.append(child.pid)
    return found
