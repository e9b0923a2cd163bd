"""The example of docs/extensions.md, as it stands there, in a running broker."""

import re
import shutil
from pathlib import Path
from typing import Any

from msgspec import structs

import lifebus
from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.extensions.settings import ExtensionSettings
from support.broker_process import until
from support.integration.observing import Observer, signal
from support.parts import sessions_of
from support.paths import EXAMPLES, REPOSITORY
from support.running import connected, running_bus

EXAMPLE = EXAMPLES / "agents" / "turn_review"


class Transcript:
    """Takes every request."""

    def __init__(self) -> None:
        self.asked: list[tuple[ActionRequest, ActionScope, str]] = []

    async def execute(self, request: ActionRequest, scope: ActionScope, *, requested_by: str) -> ActionOutcome:
        self.asked.append((request, scope, requested_by))
        return ActionOutcome(status=ActionStatus.PERFORMED)


def turn(number: int, status: str) -> dict[str, Any]:
    return {"params": {"threadId": "t1", "turn": {"id": f"u{number}", "status": status}}}


def test_the_document_shows_the_files() -> None:
    text = (REPOSITORY / "docs" / "extensions.md").read_text()
    shown = re.findall(r"```(?:toml|python)\n(.*?)```", text, re.DOTALL)
    assert shown == [(EXAMPLE / name).read_text() for name in ("extension.toml", "events.py")]
    code = [line for line in (EXAMPLE / "events.py").read_text().splitlines() if line.strip()]
    assert len(code) <= 30


async def test_the_example_queues_a_review_and_asks_for_a_note(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / EXAMPLE.name, ignore=shutil.ignore_patterns("__pycache__"))
    # As git makes them: nobody else may write to them.
    for path in (tmp_path / EXAMPLE.name, *(tmp_path / EXAMPLE.name).iterdir()):
        path.chmod(0o755)
    settings = ExtensionSettings(roots=(str(tmp_path),), trust_mode=TrustMode.ENFORCED)
    async with running_bus(whole=True, extensions=settings) as daemon, connected(daemon) as bus:
        await until(lambda: sessions_of(daemon).extensions.current.version != "bootstrap")
        await bus.extensions.trust("turn_review")
        assert (await bus.extensions.reload()).status == "ok"
        transcript = Transcript()
        # The queue is the broker's own: a job that it does not take is no example.
        sessions_of(daemon).extensions.around = structs.replace(
            sessions_of(daemon).extensions.around, executor=transcript
        )
        event = "app_server.turn.completed"
        turns = [turn(1, "completed"), turn(2, "failed")]
        await Observer(bus).observe(*(signal("t1", event=event, **one) for one in turns))
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        emitted = await bus.emit(lifebus.make_request("context.compacted", "codex", session="s1"))
        await until(lambda: bool(sessions_of(daemon).queue.standings() and transcript.asked))
        (job,) = [await bus.jobs.show(one.id) for one in await bus.jobs.list()]
    assert (job.project_id, job.type, job.dedupe_key) == ("session:t1", "command", "review:u2")
    assert job.payload == {"argv": ["review-turn", "t1", "u2"], "cwd": "/"}
    ((request, scope, requested_by),) = transcript.asked
    receipt_id = emitted.receipts[0].receipt_id
    assert (request.action_type, request.idempotency_key) == ("transcript.upsert", f"compacted:{receipt_id}")
    assert request.payload["sessionId"] == scope.source_session_id == "s1"
    assert requested_by == "turn_review"
