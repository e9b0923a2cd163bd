"""Every command with `--json` is run, and what it prints is held against its schema in docs/json."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest

import lifebus
import lifebus.blocking
from lifebus.cli.app import make_app
from lifebus_contract.consumers import ConsumerSettings
from lifebus_contract.jobs import NewJob
from support.clients.checkpoints import text
from support.command_line import Ran, Shell, broker_up
from support.flow_files import write
from support.integration.observing import Observer, signal
from support.loa.plain_runtime import PLAIN
from support.patience import PATIENCE
from support.running import short_directory
from support.service_manager import put_manager
from support.shapes.command_tree import commands
from support.shapes.commands import LINES, SHAPES, WITHOUT
from support.shapes.schemas import FOLDER, file_of, strict, text_of
from support.supervisor.scripted import CONFIGURED
from support.transcripts.boxes import entry

ABOUT = {
    "test_what_a_broker_says_of_itself_and_of_its_receipts": (
        *(
            "status",
            "doctor",
            "version",
            "tail",
            "sessions list",
            "sessions show",
            "report",
            "receipts list",
            "receipts show",
            "receipts export",
        ),
        *("receipts verify", "emit", "dev tick", "config show", "config check"),
    ),
    "test_what_the_ledger_holds_and_what_is_saved_of_it": (
        *("ledger show", "ledger verify", "ledger save", "ledger boot", "ledger backup", "ledger prune"),
        *("ledger snapshots list", "ledger snapshots show", "ledger snapshots verify", "ledger caches list"),
        *("ledger caches rebuild", "ledger caches show", "ledger caches verify", "ledger caches remove"),
        *("ledger restore", "ledger import"),
    ),
    "test_what_the_contract_says": (
        *("contract validate", "contract negotiate", "contract manifest list", "contract manifest show"),
        *("contract manifest placements", "contract manifest check", "contract events", "contract conform"),
        "contract conform runtime",
    ),
    "test_named_consumers": ("clients list", "clients lag", "clients dead", "clients reset-cursor", "clients remove"),
    "test_transcripts_jobs_and_signals": (
        *("transcript list", "transcript show", "transcript export", "jobs list", "jobs show", "jobs retry"),
        *("jobs cancel", "jobs drain", "app-server signals"),
    ),
    "test_flows_questions_and_checkpoints": (
        *("flow check", "flow run", "flow list", "flow show", "flow logs", "flow signals", "flow resume", "flow retry"),
        *("flow abort", "inbox list", "inbox show", "inbox answer", "checkpoint save", "checkpoint show"),
        *("checkpoint list", "checkpoint export"),
    ),
    "test_extensions": (
        *("extensions new", "extensions list", "extensions reload", "extensions trust", "extensions audit"),
    ),
    "test_tools_that_run_until_they_are_stopped": ("notify", "inject"),
    "test_sessions_that_are_closed_and_forgotten": ("sessions close", "sessions forget"),
    "test_hooks": ("hooks plan", "hooks install", "hooks status", "hooks test", "hooks remove"),
    "test_a_broker_in_the_background_and_as_a_service": (
        *("up", "down", "dashboard", "service install", "service status", "service restart", "service remove"),
    ),
    "test_renewal": (
        *("renewal status", "renewal continuation put", "renewal continuation list", "renewal continuation remove"),
    ),
}
"""Of which commands each test has to see the output."""


class Checker:
    """Runs commands with `--json`, and holds what they print against their schemas."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, shell: Shell, command: str, *words: str, stdin: bytes = b"", apart: bool = False) -> Any:
        """Run a command, in a process of its own if it starts others; return its document, or those of its lines."""
        before = words.index("--") if "--" in words else len(words)
        run = shell.run if apart else shell.call
        ran = run(*command.split(), *words[:before], "--json", *words[before:], stdin=stdin)
        return self.hold(command, self._documents(command, ran))

    def hold(self, command: str, documents: list[Any]) -> Any:
        """Hold what a command has printed against its schema, and return it."""
        self.seen.add(command)
        schema = jsonschema_rs.validator_for(strict(json.loads(file_of(command).read_text())))
        for one in documents:
            found = [f"{command}: {fault.instance_path}: {fault.message[:300]}" for fault in schema.iter_errors(one)]
            assert found == []
        return documents if command in LINES else documents[0]

    @staticmethod
    def _documents(command: str, ran: Ran) -> list[Any]:
        # Two commands write documents of several lines behind one another.
        found: list[Any] = []
        rest, decoder = ran.out.strip(), json.JSONDecoder()
        while rest:
            one, end = decoder.raw_decode(rest)
            found.append(one)
            rest = rest[end:].lstrip()
        assert found, (command, ran)
        assert command in LINES or len(found) == 1
        return found


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Iterator[Checker]:
    checker = Checker()
    yield checker
    assert checker.seen == set(ABOUT[request.node.originalname])


def test_every_command_has_a_shape_and_a_test_or_says_why_not() -> None:
    found = {" ".join(path): app for path, app in commands(make_app())}
    assert set(found) == set(SHAPES) | set(WITHOUT)
    assert sorted(one for names in ABOUT.values() for one in names) == sorted(SHAPES)
    for name in SHAPES:
        assert "--json" in {flag for one in found[name].assemble_argument_collection() for flag in one.names}, name


def test_the_schemas_are_those_of_the_types() -> None:
    """`PYTHONPATH=tests python tests/support/shapes/schemas.py` writes them."""
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == {
        file_of(name).name: text_of(name) for name in SHAPES
    }


def test_what_a_broker_says_of_itself_and_of_its_receipts(bus: Shell, check: Checker) -> None:
    for command, words in (
        *(
            ("status", ()),
            ("doctor", ()),
            ("version", ()),
            ("version", ("--all",)),
            ("sessions list", ()),
            ("report", ()),
        ),
        *(("tail", ("--no-follow",)), ("receipts list", ()), ("receipts show", ("1",)), ("receipts export", ())),
        *(("receipts verify", ()), ("dev tick", ()), ("config show", ()), ("config show", ("--origin",))),
        ("config check", ()),
        ("emit", ("frame.opening", "--adapter", "codex", "--session", "s1", "--frame", "f9")),
        ("emit", ("session.started", "--adapter", "codex", "--adapter-version", "9")),
        ("sessions show", ("codex/s1",)),
    ):
        check(bus, command, *words)


def test_what_the_ledger_holds_and_what_is_saved_of_it(alone: Shell, check: Checker, tmp_path: Path) -> None:
    with broker_up(alone):
        for session in ("s1", "s2"):
            alone.call("emit", "session.started", "--adapter", "codex", "--session", session)
        (identity, *_) = check(alone, "ledger save", "session")["snapshot_id"], None
        check(alone, "ledger boot", "--live")
    backup, export = str(tmp_path / "backup.db"), str(tmp_path / "export")
    assert alone.call("ledger", "export", export).code == 0
    for command, words in (
        *(("ledger show", ()), ("ledger verify", ()), ("ledger save", ("campaign", "--to", str(tmp_path / "c")))),
        *(("ledger boot", ()), ("ledger boot", ("--check",)), ("ledger boot", ("--rebuild",))),
        *(("ledger snapshots list", ()), ("ledger snapshots show", (identity,)), ("ledger snapshots verify", ())),
        *(("ledger caches rebuild", ()), ("ledger caches list", ()), ("ledger caches show", ("codex/s1",))),
        *(("ledger caches verify", ()), ("ledger caches remove", ("--all",))),
        *(("ledger backup", (backup,)), ("ledger backup", (str(tmp_path / "all"), "--rotate", "2"))),
        *(("ledger prune", ("--through", "1", "--dry-run")), ("ledger restore", (backup,))),
        ("ledger import", (export, "--replace")),
    ):
        check(alone, command, *words)
    manifest = next((alone.directory / "state" / "snapshots").glob("*.json"), None)
    if manifest is not None:
        manifest.write_bytes(b"{}")
        check(alone, "ledger snapshots list")


def test_what_the_contract_says(alone: Shell, check: Checker, tmp_path: Path) -> None:
    request = b'{"surprise": 1}'
    payload = tmp_path / "payload"
    manifest = check(alone, "contract manifest show", "codex")
    (tmp_path / "manifest").write_text(json.dumps(manifest | {"adapter_id": "mine"}))
    check(alone, "contract validate", "request", stdin=request)
    check(alone, "contract validate", "manifest", str(tmp_path / "manifest"))
    check(alone, "contract validate", "request", "--jsonl", stdin=request + b"\n" + request + b"\n")
    payload.write_text(json.dumps(PAYLOAD))
    check(alone, "contract negotiate", "codex", "--require", "context_pressure")
    check(alone, "contract negotiate", "codex", "--payload", str(payload))
    check(alone, "contract manifest list")
    check(alone, "contract manifest placements")
    check(alone, "contract manifest check", str(tmp_path / "manifest"))
    check(alone, "contract manifest check", stdin=json.dumps(manifest).encode())
    check(alone, "contract events")
    check(alone, "contract events", "frame.ended")
    check(alone, "contract conform", "codex")
    check(alone, "contract conform runtime", "--check", "costs.total", "--", *PLAIN)


PAYLOAD = {
    "schema_version": "lifeloop.v0.2",
    "payload_id": "pay_1",
    "client_id": "me",
    "payload_kind": "note",
    "format": "text",
    "content_encoding": "utf8",
    "body": "hello there",
    "byte_size": 11,
    "acceptable_placements": [{"placement": "pre_prompt_frame", "requirement": "required"}],
}


async def consume(runtime_dir: Path) -> None:
    """Leave a consumer behind with a dead letter."""
    async with lifebus.connect("me", runtime_dir=runtime_dir) as bus:
        await bus.emit([lifebus.make_request("session.started", "codex", session=f"s{n}") for n in range(2)])
        async with bus.consume("mirror", ConsumerSettings(max_in_flight=1), since="start") as deliveries:
            async for delivery in deliveries:
                if delivery.position > 1:
                    break
                await delivery.nack(delay=0)


def test_named_consumers(alone: Shell, check: Checker) -> None:
    with broker_up(alone):
        anyio.run(consume, alone.directory / "run")
        with alone.started("serve", "--event", "frame.opening", "--", "cat") as serving:
            assert serving.stderr is not None
            serving.stderr.readline()
            assert {one["kind"] for one in check(alone, "clients list")} == {"worker", "cursor"}
        check(alone, "clients lag")
        assert len(check(alone, "clients dead", "mirror")) == 1
        check(alone, "clients reset-cursor", "mirror", "--to", "start", "--yes")
        check(alone, "clients remove", "mirror", "--yes")


def test_tools_that_run_until_they_are_stopped(alone: Shell, check: Checker, tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text("Use tabs.")
    with (
        broker_up(alone),
        alone.started("notify", "--json", "--on", "ends", "--group", "0s", "--", "true") as notifying,
        alone.started("inject", "--json", "--file", str(note)) as injecting,
    ):
        assert notifying.stderr is not None
        assert notifying.stdout is not None
        assert injecting.stderr is not None
        assert injecting.stdout is not None
        assert b"notifying by" in notifying.stderr.readline()
        while b"injecting as" not in injecting.stderr.readline():
            pass
        for event in ("session.started", "session.ended"):
            ran = alone.call("emit", event, "--adapter", "codex", "--session", "s1", "--timeout", "60s")
            assert ran.code == 0, ran
        check.hold("inject", [json.loads(injecting.stdout.readline())])
        check.hold("notify", [json.loads(notifying.stdout.readline())])


async def write_and_observe(runtime_dir: Path) -> None:
    """Leave a transcript and signals behind."""
    async with lifebus.connect("test", runtime_dir=runtime_dir) as bus:
        await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))
        await bus.transcripts.upsert("s1", entry("m1", content="words", status="error", started_at=1_000))
        await Observer(bus, "o1").observe(signal("t1", event="app_server.turn.started"), signal(""))


def test_transcripts_jobs_and_signals(alone: Shell, check: Checker) -> None:
    with broker_up(alone), lifebus.blocking.connect("script", runtime_dir=alone.directory / "run") as bus:
        anyio.run(write_and_observe, alone.directory / "run")
        check(alone, "transcript list")
        check(alone, "transcript show", "s1")
        check(alone, "transcript export", "s1")
        assert len(check(alone, "app-server signals", "--no-follow")) == 2
        bus.jobs.enqueue(NewJob(type="command", project_id="shop", job_id="j", payload=FAILS, max_attempts=1))
        assert bus.jobs.wait("j").state == "failed"
        assert len(check(alone, "jobs list")) == 1
        check(alone, "jobs show", "j")
        check(alone, "jobs drain")
        check(alone, "jobs retry", "j")
        check(alone, "jobs cancel", "j")


FAILS = {"argv": ["false"], "cwd": "/"}


def test_flows_questions_and_checkpoints(alone: Shell, check: Checker, tmp_path: Path) -> None:
    file = write(tmp_path, 'name = "one"\nshell = "echo said; exit 2"')
    bad = tmp_path / "bad.toml"
    bad.write_text("nam = 1\n")
    check(alone, "flow check", file)
    check(alone, "flow check", str(bad))
    with broker_up(alone):
        check(alone, "flow run", file, "--id", "r-1", "--until-asked")
        check(alone, "flow resume", "r-1", "--until-asked")
        for command in ("flow list", "flow show", "flow logs", "flow signals"):
            check(alone, command, *(() if command == "flow list" else ("r-1",)))
        check(alone, "flow logs", "r-1", "--events")
        check(alone, "flow retry", "r-1", "one")
        alone.call("flow", "resume", "r-1", "--until-asked")
        (question,) = check(alone, "inbox list")
        identity = question["question"]["question_id"]
        check(alone, "inbox show", identity)
        check(alone, "inbox answer", identity, "abort")
        alone.call("flow", "resume", "r-1")
        other = write(tmp_path, 'name = "two"\nshell = "exit 2"')
        alone.call("flow", "run", other, "--id", "r-2", "--until-asked")
        check(alone, "flow abort", "r-2")
        project = ("--root", str(tmp_path))
        which = check(alone, "checkpoint save", *project, stdin=text())[  # and a receipt beside it
            "checkpoint"
        ]["checkpoint_id"]
    check(alone, "checkpoint show", which, "--verify", *project)
    check(alone, "checkpoint show", "none", *project)
    check(alone, "checkpoint list", *project)
    check(alone, "checkpoint export", *project)


def test_extensions(alone: Shell, check: Checker) -> None:
    check(alone, "extensions new", "notes")
    check_broken = alone.call("extensions", "new", "broken", "--json").json
    (Path(check_broken["folder"]) / "events.py").write_text("x = (")
    with broker_up(alone):
        while check(alone, "extensions reload").get("code") == "reload_in_progress":  # the one of the start
            pass
        assert check(alone, "extensions list")["errors"] != []
        check(alone, "extensions trust", "notes")
        check(alone, "extensions audit")


def test_sessions_that_are_closed_and_forgotten(alone: Shell, check: Checker) -> None:
    with broker_up(alone):
        alone.call("emit", "session.started", "--adapter", "codex", "--session", "s1")
        check(alone, "sessions close", "codex/s1")
        check(alone, "sessions forget", "codex/s1", "--yes")


def test_hooks(alone: Shell, check: Checker) -> None:
    with broker_up(alone):
        check(alone, "hooks plan", "claude")
        check(alone, "hooks install", "claude", "--yes")
        check(alone, "hooks install", "claude", "--dry-run")
        check(alone, "hooks status")
        check(alone, "hooks test", "claude")
        check(alone, "hooks remove", "claude", "--yes")


def test_a_broker_in_the_background_and_as_a_service(alone: Shell, check: Checker) -> None:
    check(alone, "up", "--detach", "--http", apart=True)
    check(alone, "dashboard", "--write")
    check(alone, "down", "--timeout", PATIENCE)
    check(alone, "down")
    with short_directory() as top:
        (top / "home").mkdir(mode=0o700)
        put_manager(top / "bin", "systemctl")
        shell = Shell(top / "home", PATH=str(top / "bin"))
        check(shell, "service status")
        check(shell, "service install", "--dry-run")
        try:
            check(shell, "service install", "--yes")
            check(shell, "service status")
            check(shell, "service restart")
            check(shell, "service remove", "--yes")
        finally:
            shell.call("down", "--timeout", PATIENCE)


def test_renewal(check: Checker) -> None:
    with short_directory() as directory:
        config = directory / "config.toml"
        config.write_text(CONFIGURED)
        shell = Shell(directory, LIFEBUS_CONFIG=str(config))
        check(shell, "renewal continuation put", "t-1", stdin=b"token")
        check(shell, "renewal status")
        check(shell, "renewal continuation list")
        check(shell, "renewal continuation remove", "t-1")
        check(shell, "renewal continuation remove", "t-1")
