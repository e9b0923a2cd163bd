"""A runtime of the Loa contract that has nothing to do with lifebus: standard library only, its state in one file.

With the name of a check of `lifebus contract conform runtime` as its argument it does what that check is about
wrongly, and everything else right.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.loa.plain_files import Document, Files, Refused
from support.loa.plain_optional import Optional

FIELDS = {
    "version": int,
    "execution_id": str,
    "phase": str,
    "created_at": str,
    "exit_code": int,
    "duration_ms": int,
    "summary": str,
    "decisions": {"description": str, "reasoning": str, "timestamp": str},
    "artifacts": {"path": str, "size_bytes": int, "checksum": str, "description": str},
    "errors": {"message": str, "phase": str, "recoverable": bool},
}


PLAIN = ("env", f"PYTHONPATH={Path(__file__).parents[2]}", sys.executable, "-m", "support.loa.plain_runtime")
"""The command that runs it."""

SMALL = "small"
"""In place of a check's name: nothing is wrong, and every optional capability is left out."""


def now() -> str:
    return datetime.now(UTC).isoformat()


def check_shape(document: Any, fields: Document) -> None:
    for name, kind in fields.items():
        value = document.get(name) if isinstance(document, dict) else None
        if isinstance(kind, dict):
            if not isinstance(value, list):
                raise Refused("invalid", name)
            for one in value:
                check_shape(one, kind)
        elif type(value) is not kind:
            raise Refused("invalid", name)


class Runtime(Files, Optional):
    def __init__(self, wrong: str) -> None:
        self.wrong = wrong
        self.root = self.file = Path()
        self.state: Document = {}
        self.volatile: Document = {"checkpoints": [], "escalations": {}}
        self.answers: dict[str, asyncio.Event] = {}
        self.drivers: dict[str, asyncio.Task[None]] = {}
        self.children: dict[str, asyncio.subprocess.Process] = {}
        self.current: dict[str, Document] = {}

    # -- what is kept

    def save(self) -> None:
        whole = json.dumps(self.state)
        new = self.file.with_suffix(".new")
        new.write_text(whole)
        new.rename(self.file)

    def shelf(self, what: str, wrong: str) -> Any:
        return self.volatile[what] if self.wrong == wrong else self.state[what]

    def write(self, line: Document) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def log(self, run_id: str, event: str, phase: str) -> None:
        if (self.wrong, event) != ("logging.standard", "phase_complete"):
            entry = {"event": event, "phase": phase, "timestamp": now()}
            self.state["logs"].setdefault(run_id, []).append(entry)

    # -- runs

    async def drive(self, run_id: str) -> None:
        run = self.state["runs"][run_id]
        run["status"] = "running"
        listed = run["phases"]
        if self.wrong == "workflow.complete":
            listed = sorted(listed, key=lambda phase: str(phase["phase"]))
        left = [phase for phase in listed if phase["phase"] not in run["done"]]
        for phase in left:
            if self.wrong == "resume.interrupted":
                run["done"].append(phase["phase"])
                self.save()
            if not await self.drive_phase(run_id, run, phase):
                run["status"] = "aborted"
                self.save()
                return
            if self.wrong != "resume.finished":
                run["done"].append(phase["phase"])
            self.save()
            if self.wrong == "codes.success" and self.current[run_id]["code"] == 0 and phase is not left[-1]:
                await asyncio.Event().wait()
        run["status"] = "completed"
        self.save()

    async def drive_phase(self, run_id: str, run: Document, phase: Document) -> bool:
        """Try a phase until it is done; False where the run ends with it."""
        name = phase["phase"]
        modified: Document = {}
        while True:
            asked = None if self.wrong == "resume.question" else run.get("asked")
            if asked is None:
                code = await self.series(run_id, run, phase, modified)
                if code == 0 or (code is None and self.wrong == "codes.cannot_start"):
                    self.log(run_id, "phase_complete", name)
                    return True
                await self.ask_about(run_id, run, phase, code)
            answer = await self.answer_to(run)
            action = answer["action"]
            if self.wrong == f"escalation.{action}":
                action = {"proceed": "retry", "retry": "proceed", "abort": "retry", "modify": "retry"}[action]
            elif action == "modify":
                modified = answer["modifications"]
            if action in ("proceed", "abort"):
                self.current.setdefault(run_id, {})["code"] = None
                return bool(action == "proceed")

    async def series(self, run_id: str, run: Document, phase: Document, modified: Document) -> int | None:
        retries = phase.get("max_retries", 3)
        if self.wrong == "retries.none":
            retries = retries or 3
        tries = max(1, retries) if self.wrong == "retries.limit" else retries + 1
        again, had_failure = set(self.retriable()), False
        code = None
        for retry in range(tries):
            self.log(run_id, "phase_start", phase["phase"])
            began = time.monotonic()
            limit = phase.get("time_limit_ms")
            self.current[run_id] = {"phase": phase, "retry": retry, "began": began, "code": None, "run": run}
            code = await self.execute(run_id, phase, modified, limit)
            self.current[run_id]["code"] = code
            if code == 0 and had_failure and self.wrong == "retries.recovery":
                return 1
            if code == 2 and self.wrong == "codes.blocked" and retry == 0:
                continue
            if code not in again:
                return code
            had_failure = had_failure or code == 1
            await asyncio.sleep(run.get("retry_pause_ms", 1000) / 1000)
        return code

    def retriable(self) -> set[int]:
        codes = {1, 124, *range(64, 79)} - ({70} if self.wrong == "codes.sysexits" else set())
        return codes | {"codes.not_executable": {126}, "codes.not_found": {127}}.get(self.wrong, set())

    async def execute(self, run_id: str, phase: Document, modified: Document, limit: int | None) -> int | None:
        try:
            child = await asyncio.create_subprocess_exec(
                *phase["command"], stdin=asyncio.subprocess.DEVNULL, env={**os.environ, **modified}
            )
        except OSError:
            return None
        self.children[run_id] = child
        try:
            return await asyncio.wait_for(child.wait(), None if limit is None else limit / 1000)
        except TimeoutError:
            child.kill()
            await child.wait()
            return 124

    async def ask_about(self, run_id: str, run: Document, phase: Document, code: int | None) -> None:
        name = phase["phase"]
        run["status"] = "waiting"
        self.log(run_id, "escalation_triggered", name)
        shown = run["phases"][0]["phase"] if self.wrong == "escalation.phase" else name
        request = {
            "reason": f"phase `{name}` ended with code {code}",
            "phase": shown,
            "context": {"last_decisions": [], "artifacts": [], "errors": []},
            "suggested_actions": [],
        }
        self.open_escalation(request, run_id, run)
        if self.wrong == "escalation.once" and code == 1:
            self.open_escalation(request, run_id)
        following = [one for one in run["phases"] if one["phase"] not in (name, *run["done"])]
        if self.wrong == "codes.failure" and code == 1 and following:
            await self.execute(run_id, following[0], {}, None)

    async def answer_to(self, run: Document) -> Document:
        asked = run["asked"]["id"]
        run["status"] = "waiting"
        await self.answers[asked].wait()
        run["status"] = "running"
        del run["asked"]
        return dict(self.shelf("escalations", "escalation.survival")[asked]["response"])

    def open_escalation(self, request: Document, run_id: str | None = None, run: Document | None = None) -> str:
        shelf = self.shelf("escalations", "escalation.survival")
        name = f"e{len(shelf)}-{os.getpid()}"
        shelf[name] = {"request": request, "response": None}
        self.answers[name] = asyncio.Event()
        if run is not None:
            run["asked"] = {"phase": request["phase"], "id": name}
        self.save()  # before anybody is told
        actions = "" if self.wrong == "escalation.delivery" else "\n".join(request["suggested_actions"])
        text = f"{request['phase']}: {request['reason']}\n{actions}"
        params = {"escalation_id": name, "request": request, "text": text, "run_id": run_id}
        self.write({"event": "escalation", "params": params})
        return name

    # -- the methods

    def on_initialize(self, params: Document) -> Any:
        self.root, self.file = Path(params["root"]), Path(params["state"]) / "plain.json"
        self.state = {"runs": {}, "checkpoints": [], "escalations": {}, "logs": {}, "costs": {}}
        if self.file.exists():
            self.state = json.loads(self.file.read_text())
        self.answers = {name: asyncio.Event() for name in self.state["escalations"]}
        for name, kept in self.state["escalations"].items():
            if kept["response"] is not None:
                self.answers[name].set()
        contract = "2.0.0" if self.wrong == "protocol.initialize" else "1.0.0"
        optional = ["extended_exit_codes", "context_compaction", "structured_logging", "cost_tracking"]
        optional = [] if self.wrong == SMALL else optional
        return {"name": "plain", "version": "1", "contract": contract, "capabilities": optional}

    def on_run(self, params: Document) -> Any:
        done = []
        if (wanted := params.get("from_checkpoint")) and self.wrong != "resume.checkpoint":
            kept = next(one for one in self.shelf("checkpoints", "checkpoint.survival") if one["id"] == wanted)
            names = [phase["phase"] for phase in params["phases"]]
            done = names[: names.index(kept["document"]["phase"]) + 1]
        self.state["runs"][params["run_id"]] = {**params, "done": done, "status": "running"}
        self.save()
        return self.on_resume(params)

    def on_resume(self, params: Document) -> Any:
        run_id = params["run_id"]
        if run_id not in self.drivers and self.state["runs"][run_id]["status"] in ("running", "waiting"):
            self.drivers[run_id] = asyncio.create_task(self.drive(run_id))
        return {}

    async def on_abort(self, params: Document) -> Any:
        if driver := self.drivers.get(params["run_id"]):
            driver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await driver
        if child := self.children.get(params["run_id"]):
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        run = self.state["runs"][params["run_id"]]
        if run["status"] in ("running", "waiting"):
            run["status"] = "aborted"
        return {}

    async def on_wait(self, params: Document) -> Any:
        run, until = self.state["runs"][params["run_id"]], time.monotonic() + params["wait_ms"] / 1000
        while run["status"] == "running" and time.monotonic() < until:  # noqa: ASYNC110  as plain as it can be
            await asyncio.sleep(0.005)
        return {"status": run["status"]}

    def on_signals(self, params: Document) -> Any:
        found = self.current[params["run_id"]]
        limit = found["phase"].get("time_limit_ms")
        used = round((time.monotonic() - found["began"]) * 1000)
        share = found["run"].get("near_limit_percent", 80) / 100
        near = limit is not None and used >= limit * share and self.wrong != "signals.limit"
        answer = {
            "context_tokens_available": 1000,
            "context_tokens_used": 0,
            "time_remaining_ms": None if limit is None else max(0, limit - used),
            "retry_count": found["retry"] + (self.wrong == "signals.retries"),
            "max_retries": found["phase"].get("max_retries", 3),
            "is_approaching_limit": near,
        }
        if limit is None and self.wrong == "signals.time":
            answer["time_remaining_ms"] = 0
        if self.wrong == "signals.fields":
            del answer["is_approaching_limit"]
        return answer

    def on_persist(self, params: Document) -> Any:
        document = params["checkpoint"]
        if self.wrong == "checkpoint.write":
            raise Refused("failed")
        if self.wrong != "checkpoint.schema":
            check_shape(document, FIELDS)
            if document["version"] != 1 or document["exit_code"] not in (0, 1, 2):
                raise Refused("invalid")
            try:
                datetime.fromisoformat(document["created_at"])
            except ValueError:
                raise Refused("invalid", "created_at") from None
        if len(str(document.get("summary")).split()) > 500 and self.wrong != "checkpoint.words":
            raise Refused("invalid", "summary")
        shelf = self.shelf("checkpoints", "checkpoint.survival")
        name = f"c{len(shelf)}"
        shelf.append({"id": name, "document": document})
        self.log(str(document.get("execution_id")), "checkpoint_created", str(document.get("phase")))
        self.save()
        return {"checkpoint_id": name}

    def on_restore(self, params: Document) -> Any:
        shelf, wanted, phase = self.shelf("checkpoints", "checkpoint.survival"), params.get("checkpoint_id"), None
        for one in shelf:
            if one["id"] == wanted:
                if self.wrong != "checkpoint.by_id":
                    return {"checkpoint": one["document"]}
                phase = one["document"]["phase"]
        found = [one["document"] for one in shelf if one["document"]["phase"] == (phase or params.get("phase"))]
        if not found and self.wrong == "checkpoint.absent":
            raise Refused("not_found")
        return {"checkpoint": found[0 if self.wrong == "checkpoint.by_phase" else -1] if found else None}

    def on_escalate(self, params: Document) -> Any:
        return {"escalation_id": self.open_escalation(params)}

    async def on_response(self, params: Document) -> Any:
        name = params["escalation_id"]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.answers[name].wait(), params["wait_ms"] / 1000)
        return {"response": self.shelf("escalations", "escalation.survival")[name]["response"]}

    def on_respond(self, params: Document) -> Any:
        shelf = self.shelf("escalations", "escalation.survival")
        if params["escalation_id"] not in shelf:
            raise Refused("not_found")
        response = dict(params["response"])
        if self.wrong == "escalation.response":
            response["responder"] = "somebody"
        if self.wrong == "escalation.modifications" and "modifications" in response:
            response["modifications"] = {key: str(value) for key, value in response["modifications"].items()}
        shelf[params["escalation_id"]]["response"] = response
        self.save()
        self.answers[params["escalation_id"]].set()
        return {}

    # -- the lines

    def unknown(self, params: Document) -> Any:
        if self.wrong != "protocol.unknown_method":
            raise Refused("unsupported")

    async def answer(self, line: bytes) -> None:
        request = json.loads(line)
        method: Callable[[Document], Any] | None = getattr(self, f"on_{request['method']}", None)
        try:
            result = (method or self.unknown)(request.get("params", {}))
            if asyncio.iscoroutine(result):
                result = await result
        except (Refused, OSError) as fault:
            code = fault.code if isinstance(fault, Refused) else "failed"
            self.write({"id": request["id"], "error": {"code": code, "message": str(fault)}})
        else:
            self.write({"id": request["id"], "result": result})


async def main(wrong: str = "") -> None:
    runtime, reader = Runtime(wrong), asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with asyncio.TaskGroup() as group:
        while line := await reader.readline():
            group.create_task(runtime.answer(line))
        for driver in runtime.drivers.values():
            driver.cancel()


if __name__ == "__main__":
    # Run as `python -m support.loa.plain_runtime [CHECK]`.
    asyncio.run(main(*sys.argv[1:2]))
