"""Wrong command lines of every command: each says in plain words what is wrong and what to do, with one exit code."""

import json
import re
import shlex

import pytest

from lifebus.cli.app import make_app
from support.command_line import Ran, Shell, broker_up
from support.running import short_directory
from support.shapes.command_tree import commands

WRONG = {
    "app-server run": ["", "-- ./nope", "--adapter codx -- true", "--grace soon -- true"],
    "app-server signals": ["--adapter codx --no-follow", "--from nope", "--last x", "--since soon", "--timeout soon"],
    "app-server tee": ["", "-- ./nope", "--adapter codx -- true"],
    "checkpoint export": ["nope", "--kind nope", "--root ./nope"],
    "checkpoint list": ["--kind nope", "--root ./nope", "--last x"],
    "checkpoint save": ["./nope", "bad.json", "list.json", "-", "--session nope"],
    "checkpoint show": ["", "nope", "nope --run r", "nope --verify", "nope --kind nope"],
    "clients dead": ["", "nope", "mirrr"],
    "clients lag": ["nope", "mirrr"],
    "clients list": ["--nope"],
    "clients remove": ["", "nope", "mirrr --yes"],
    "clients reset-cursor": ["", "mirror", "nope --to start --yes", "mirror --to nope --yes"],
    "completions": ["", "tcsh"],
    "config check": ["./nope", "bad.toml", "bad.json"],
    "config show": ["nope", "ledger.backnd", "--config ./nope"],
    "contract conform": ["", "nope", "--live", "codex --scenario nope", "codex --timeout soon"],
    "contract conform runtime": ["", "-- ./nope", "--check nope -- cat"],
    "contract events": ["nope", "frame.opend", "frame.opened --adapter claud"],
    "contract manifest check": ["./nope"],
    "contract manifest list": ["--nope"],
    "contract manifest placements": ["claud"],
    "contract manifest show": ["", "claud"],
    "contract negotiate": [
        *("", "claud", "codex", "codex --require nope", "codex --require context_pressure=nope"),
        *("codex --event frame.opend", "codex --payload ./nope", "codex --payload bad.json"),
        *("codex --require context_pressure --session nope",),
    ],
    "contract schema": ["nope", "reciept"],
    "contract validate": ["", "reciept bad.json", "receipt ./nope"],
    "dashboard": ["", "--nope"],
    "demo": ["--speed x", "--speed 0"],
    "dev invoke": ["", "-- ./nope", "-- cat", "--protocol nope -- cat", "--deadline soon -- cat"],
    "dev stdio": ["--root ./nope", "--timeout soon"],
    "dev tick": ["--adapter claud", "--session nope", "--nope"],
    "doctor": ["extra"],
    "down": ["--timeout soon", "extra"],
    "emit": [
        *("", "session.started", "sesion.started --adapter codex", "session.started --adapter codx"),
        *("session.started --adapter codex --mode nope", "frame.opened --adapter codex --session s"),
        *('frame.opened --adapter codex --session s --frame ""', 'session.started --adapter codex --session ""'),
        *('session.started --adapter codex --client ""', 'session.started --adapter codex --key ""'),
        *("session.started --adapter codex --payload ./nope", "session.started --adapter codex --adapter-version 9"),
        *('session.started --adapter codex --payload notes.txt --kind ""', "--file ./nope", "--file bad.json"),
        *("session.started --adapter codex --require nope", "--file list.json", "--file bad.json --jsonl"),
        *("session.started --adapter codex --payload notes.txt --placement nope",),
    ],
    "extensions audit": ["extra"],
    "extensions list": ["extra"],
    "extensions new": ["", '"bad name!"'],
    "extensions reload": ["extra"],
    "extensions trust": ["", "nope"],
    "flow abort": ["", "nope"],
    "flow check": ["", "./nope", "."],
    "flow list": ["--status runing"],
    "flow logs": ["nope", "nope p --try x"],
    "flow resume": ["nope"],
    "flow retry": ["", "nope", "nope p"],
    "flow run": ["", "./nope", "notes.txt"],
    "flow show": ["nope"],
    "flow signals": ["nope"],
    "hooks install": ["", "claud", "claude --mode nope", "claude --scope nope", "claude --events Nope"],
    "hooks plan": ["claud", "claude --project ./nope"],
    "hooks remove": ["claud", "claude --scope nope"],
    "hooks status": ["claud", "--project ./nope"],
    "hooks test": ["claud", "--timeout soon"],
    "inbox answer": ["", "q", "q accept", "q procede", "q proceed"],
    "inbox list": ["--nope"],
    "inbox show": ["", "nope"],
    "inject": [
        *("", "--file ./nope", "--file .", "--adapter claud --file notes.txt", "-- ./nope", "--file notes.txt -- cat"),
        *("--file notes.txt --text-timeout soon", '--file notes.txt --name ""'),
    ],
    "jobs cancel": ["", "nope"],
    "jobs drain": ["--wait soon"],
    "jobs list": ["--state queud"],
    "jobs retry": ["", "nope"],
    "jobs show": ["", "nope"],
    "ledger backup": ["", "notes.txt", "./b --rotate x", "./b --rotate 0"],
    "ledger boot": ["nope", "--live --rebuild"],
    "ledger caches list": ["extra"],
    "ledger caches rebuild": ["extra"],
    "ledger caches remove": ["", "nope"],
    "ledger caches show": ["", "nope"],
    "ledger caches verify": ["extra"],
    "ledger export": ["", "notes.txt"],
    "ledger import": ["", "./nope", ".", "notes.txt"],
    "ledger prune": ["", "--before soon", "--keep-days x", "--keep-days -1", "--through 999999"],
    "ledger restore": ["", "./nope", "notes.txt"],
    "ledger save": ["", "nope"],
    "ledger show": ["./nope", ".", "notes.txt"],
    "ledger snapshots list": ["extra"],
    "ledger snapshots show": ["nope"],
    "ledger snapshots verify": ["nope"],
    "ledger verify": ["./nope", "--tail x"],
    "cloudevents": [
        *("--webhook x", "--batch 0", "--batch soon", "--adapter codx", "--event frame.end", "--from nowhere"),
        *("--webhook-file nope", "--send-timeout soon", "--secret-variable NOPE --webhook http://127.0.0.1:9"),
    ],
    "otel": [
        "--endpoint x",
        "--headers-file nope",
        "--adapter codx",
        "--from nowhere",
        "--endpoint http://example.org",
    ],
    "notify": [
        *("--on wait", "--adapter claud", "--after soon", "--pressure 200", "--pressure x", "--quiet nope"),
        *("--rules --after 1s", "--rules", "--max-age soon", "--group soon", "--webhook nope", "-- ./nope"),
        *("--webhook-file ./nope", "--webhook-variable NOPE", "--apprise-file ./nope", "--send-timeout soon -- cat"),
        *("--webhook http://localhost:1 --secret-variable NOPE", '--name "" -- cat'),
    ],
    "receipts export": ["--adapter claud", "--since soon", "--session nope"],
    "receipts list": [
        *("--last x", "--last 0", "--session nope", "--status nope", "--event nope", "--adapter nope", "--since soon"),
    ],
    "receipts show": ["", "nope", "999999", "-1"],
    "receipts verify": ["--tail x", "--tail -1"],
    "renewal continuation list": ["extra"],
    "renewal continuation put": ["", "t"],
    "renewal continuation remove": ["", "t"],
    "renewal continuation show": ["", "t"],
    "renewal status": ["extra"],
    "report": ["--since soon", "--until soon", "--adapter claud", "--since today --until yesterday"],
    "serve": [
        *("", "-- ./nope", "-- cat", "--event frame.opened", "--event frame.opend -- cat"),
        *("--event frame.opened -- ./nope", "--event frame.opened --adapter claud -- cat"),
        *("--event frame.opened --workers x -- cat", "--event frame.opened --protocol nope -- cat"),
        *("--event frame.opened --deadline soon -- cat", "--event frame.opened --require nope -- cat"),
    ],
    "service install": ["--nope"],
    "service remove": ["--nope"],
    "service restart": ["extra"],
    "service status": ["extra"],
    "sessions close": ["", "nope", "codex/nope", "codx/s"],
    "sessions forget": ["", "nope", "codex/nope --yes", "codex/open --yes"],
    "sessions show": ["", "nope", "codex/nope", "codx/s"],
    "sessions list": ["nope", "codex/nope", "codx/s", "--adapter claud", "--since soon", "--until 25:00"],
    "status": ["--nope", "extra", "--timeout soon", "--timeout 5"],
    "tail": [
        *(
            "--last x",
            "--last -3",
            "--from nope",
            "--from 999999",
            "--session nope",
            "--session codx/s",
            "--adapter claud",
        ),
        *("--adapter --no-follow", "--event frame.opend", "--status failled", "--since soon", "--until soon"),
    ],
    "top": ["", "--max-rate x", "--max-rate 0"],
    "transcript export": ["", "nope", "codex/nope", "codex/open --format nope"],
    "transcript list": ["--nope"],
    "transcript show": ["", "nope", "codex/nope", "codex/open --last x"],
    "up": [
        *("--log-level loud", "--log-format xml", "--ledger-backend oracle", "--config ./nope", "--config bad.toml"),
        *("--http maybe", "--manifests ./nope --runtime-dir other"),
    ],
    "version": ["--nope"],
}
"""What is wrong with each command in one way: no argument, a wrong value, an unknown name, a wrong kind of value."""

NOT_THERE = [
    *("checkpoint export nope", "checkpoint show nope", "checkpoint show nope --run r", "clients dead nope"),
    *("clients lag nope", "clients remove nope --yes", "extensions trust nope", "flow abort nope", "flow show nope"),
    *("flow logs nope", "flow resume nope", "flow retry nope p", "flow signals nope", "inbox show nope"),
    *("inbox answer nope proceed", "jobs cancel nope", "jobs retry nope", "jobs show nope", "ledger boot nope"),
    *("ledger caches remove nope", "ledger caches show nope", "ledger snapshots show nope", "receipts show nope"),
    *("ledger snapshots verify nope", "sessions show nope", "sessions show codex/nope", "sessions list nope"),
    *("sessions list codex/nope", "sessions close codex/nope"),
    *("sessions forget nope --yes", "transcript show nope", "transcript export codex/nope", "tail --session nope"),
    *("receipts list --session nope", "dev tick --session nope", "checkpoint save list.json --session nope"),
]
"""What is not there is one exit code, whoever asks."""

MEANT = {
    "tial": "did you mean `lifebus tail`?",
    "hooks instal": "did you mean `lifebus hooks install`?",
    "sessions --open-onl": "did you mean --open-only?",
    "clients dead mirrr": "did you mean `mirror`?",
    "report --adapter claud": "did you mean claude?",
    "emit sesion.started --adapter codex": "did you mean session.started?",
    "emit session.started --adapter codex --mode native-hook": "did you mean native_hook?",
    "jobs list --state queud": "did you mean queued?",
    "config show ledger.backnd": "did you mean ledger.backend?",
    "app-server run --adapter codx -- true": "did you mean codex?",
    # Words of other tools: what is meant, and never what looks like it.
    "stop": "did you mean `lifebus down`?",
    "start": "did you mean `lifebus up`?",
    "restart": "did you mean `lifebus service restart`?",
    "help": "did you mean `lifebus --help`?",
    "hooks uninstall claude": "did you mean `lifebus hooks remove`?",
    "tail --lines 3": "did you mean --last?",
    "tail --harness codex": "did you mean --adapter?",
    "tail -20": "did you mean -n 20?",
    "tail codex#1": "did you mean --session codex#1?",
    "tail --event frame": "did you mean frame.opening or frame.opened or frame.ending or frame.ended?",
    # A group that does something by itself must not take the name of a command for a value.
    "sessions ls": "did you mean `lifebus sessions list`?",
    "sessions clsoe codex#1": "did you mean `lifebus sessions close`?",
    "config chek": "did you mean `lifebus config check`?",
    "ledger shw": "did you mean `lifebus ledger show`?",
}

FAR = ("tail --telemetry x", "tail --out x", "sessions --session x", "top --session x", "up --port 1")
"""Flags that there are not, and none that is like them: a suggestion would lead astray."""

FIRST = re.compile(r"lifebus: (?!\$|\[|[a-z]+_[a-z_]+: |Traceback)\S")
PARSER = re.compile(
    r"\$\.|Traceback|requires an argument|Invalid value|unable to convert|Choose from|Expected `|^null$", re.MULTILINE
)
"""What the parser, the contract and Python say, and no person does."""


def files(shell: Shell) -> None:
    for name, text in (("bad.json", "{"), ("list.json", "[1]"), ("bad.toml", "nope = 3\n"), ("notes.txt", "hi\n")):
        (shell.directory / name).write_text(text)


def run(shell: Shell, words: list[str]) -> Ran:
    # A proxy ends with its process, and leaves the rest to that.
    return (shell.run if words[:1] == ["app-server"] else shell.call)(*words)


def told(ran: Ran) -> list[str]:
    """Return the lines of an error that was told as it has to be."""
    assert ran.code not in {0, 70}, ran
    lines = [line for line in ran.err.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.startswith("lifebus: ")), None)
    assert first is not None, ran
    assert FIRST.match(lines[first]), ran
    assert not PARSER.search(ran.out + ran.err), ran
    return lines[first:]


def test_every_command_has_wrong_command_lines() -> None:
    assert set(WRONG) == {" ".join(path) for path, _ in commands(make_app())}


def test_every_mistake_is_told_in_plain_words(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        files(shell)
        monkeypatch.chdir(directory)
        with broker_up(shell):
            prepare(shell)
            for command, endings in WRONG.items():
                for ending in endings:
                    words = [*command.split(), *shlex.split(ending)]
                    with subtests.test(words=" ".join(words)):
                        lines = told(run(shell, words))
                        # What to do next stands in a line of its own.
                        assert len(lines) > 1
            for line in NOT_THERE:
                with subtests.test(not_there=line):
                    ran = shell.call(*line.split())
                    told(ran)
                    assert ran.code == 1
            for line, meant in MEANT.items():
                with subtests.test(meant=line):
                    assert any(meant in one for one in told(run(shell, line.split())))
            for line in FAR:
                with subtests.test(far=line):
                    assert "did you mean" not in "".join(told(shell.call(*line.split())))


def prepare(shell: Shell) -> None:
    import lifebus.blocking  # noqa: PLC0415

    assert shell.call("emit", "session.started", "--adapter", "codex", "--session", "open").code == 0
    with lifebus.blocking.connect("c", runtime_dir=shell.directory / "run") as bus, bus.consume("mirror"):
        pass
    assert shell.call("ledger", "save", "session").code == 0


def test_with_json_what_is_not_there_is_one_document() -> None:
    with short_directory() as directory, broker_up(shell := Shell(directory)):
        for line in ("receipts show nope", "clients dead nope", "sessions close codex/nope"):
            ran = shell.call(*line.split(), "--json")
            assert json.loads(ran.err)["error"]["exit_code"] == ran.code == 1


NO_BROKER = [
    *("status", "top --once", "tail", "sessions", "sessions close codex/s", "sessions forget codex/s --yes"),
    *(
        "receipts list",
        "receipts show 1",
        "notify -- cat",
        "inject --file notes.txt",
        "report",
        "clients",
        "clients dead x",
    ),
    *("clients lag", "clients remove x --yes", "clients reset-cursor x --to start --yes", "transcript list"),
    *("transcript show codex/s", "transcript export codex/s", "flow abort x", "flow list", "flow logs x"),
    *("flow resume x", "flow retry x p", "flow show x", "flow signals x", "inbox list", "inbox show x"),
    *("inbox answer x proceed", "jobs list", "jobs cancel x", "jobs drain", "jobs retry x", "jobs show x"),
    *("extensions list", "extensions reload", "extensions audit", "extensions trust x", "dev tick"),
    *("serve --event frame.opened -- cat", "emit session.started --adapter codex", "app-server signals"),
]


def test_without_a_broker_each_command_says_how_to_start_one(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        files(shell)
        monkeypatch.chdir(directory)
        for line in NO_BROKER:
            with subtests.test(words=line):
                ran = shell.call(*line.split())
                said = f"lifebus: no broker at {directory}/run\n  start one with `lifebus up`\n"
                assert (ran.code, ran.out, ran.err) == (69, "", said)
