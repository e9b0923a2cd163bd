"""`lifebus emit`: what is recorded is printed, what is refused is reported, and the exit code says which."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lifebus.cli.failed_receipts import failure_lines
from lifebus.requests import make_request
from lifebus_contract import encode_json
from lifebus_contract.failure import FailureClass
from support.command_line import Shell, broker_up
from support.patience import PATIENCE_S
from support.receipts import receipt


def request(**fields: Any) -> bytes:
    return encode_json(make_request("session.started", "codex", session="from-file", **fields))


def test_an_event_is_recorded_and_its_receipt_printed(alone: Shell) -> None:
    with broker_up(alone):
        ran = alone.call("emit", "session.started", "--adapter", "codex", "--session", "s")
        assert (ran.code, ran.err) == (0, "")
        assert " codex/s 1 session.started observed " in ran.out
        assert alone.call("receipts", "--json").lines[0]["receipt"]["client_id"] == "lifebus-cli"


def test_the_same_key_records_once(alone: Shell) -> None:
    with broker_up(alone):
        arguments = ("emit", "session.started", "--adapter", "codex", "--key", "k", "--json")
        first = alone.call(*arguments, "--client", "me").lines[0]
        assert not first["replayed"]
        again = alone.call(*arguments, "--client", "me")
        assert (again.code, again.lines[0]) == (0, first | {"replayed": True})
        other = alone.call("emit", "session.ended", *arguments[2:], "--client", "me")
        assert other.code == 1
        assert other.lines[0]["refusal"]["failure_class"] == "state_conflict"
        assert len(alone.call("receipts", "--json").lines) == 1


def test_the_same_key_with_the_same_payload_is_recorded_once(bus: Shell, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("hello")
    arguments = ("emit", "session.starting", "--adapter", "claude", "--key", "with payload", "--payload", str(note))
    first = bus.call(*arguments, "--client", "me", "--json").lines[0]
    again = bus.call(*arguments, "--client", "me", "--json").lines[0]
    assert [one["payload"]["client_id"] for one in first["deliveries"]] == ["me"]
    assert (again["receipts"], again["replayed"]) == (first["receipts"], True)
    note.write_text("other")
    assert bus.call(*arguments, "--client", "me", "--json").lines[0]["refusal"]["failure_class"] == "state_conflict"


def test_ids_from_a_key_differ_by_adapter_and_from_each_other(bus: Shell) -> None:
    ids = {
        receipt[name]
        for adapter in ("codex", "claude")
        for receipt in bus.call("emit", "session.started", "--adapter", adapter, "--key", "ids", "--json").lines[0][
            "receipts"
        ]
        for name in ("event_id", "invocation_id")
    }
    assert len(ids) == 4


def test_an_unmet_requirement_is_a_failed_receipt_and_exit_code_1(bus: Shell) -> None:
    ran = bus.call("emit", "session.started", "--adapter", "codex", "--require", "renewal.reset.native", "--json")
    assert ran.code == 1
    assert ran.lines[0]["receipts"][0]["failure_class"] == "capability_unsupported"
    assert ran.err == ""


def test_a_failed_receipt_is_explained_to_people_and_a_refusal_has_its_code_for_programs(bus: Shell) -> None:
    ran = bus.call("emit", "session.started", "--adapter", "codex", "--require", "renewal.reset.native")
    assert ran.err.splitlines() == [
        "lifebus: session.started failed, which is recorded: the harness cannot do what was required",
        "  `lifebus contract manifest show codex` shows what it can do; --prefer asks without insisting",
    ]
    same = ("--adapter", "codex", "--session", "twice", "--key", "twice", "--json")
    assert bus.call("emit", "session.started", *same).lines[0]["refusal"] is None
    refused = bus.call("emit", "session.ended", *same)
    assert refused.lines[0]["refusal"]["code"] == "duplicate_id_conflict"
    assert "duplicate_id_conflict" not in refused.err


def test_every_failure_class_has_words_for_people() -> None:
    for failure in FailureClass:
        what, advice = failure_lines(msgspec.structs.replace(receipt(1), failure_class=failure))
        assert failure.value not in what + advice
        assert "{" not in advice
    assert failure_lines(receipt(1)) == []


def test_a_payload_is_placed(bus: Shell, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Grüße")
    placed = ("--payload", str(note), "--placement", "developer_equivalent_frame", "--json")
    ran = bus.call("emit", "session.starting", "--adapter", "codex", "--session", "p", *placed)
    assert ran.code == 0
    assert ran.lines[0]["deliveries"][0]["payload"]["body"] == "Grüße"
    assert ran.lines[0]["receipts"][0]["payload_receipts"][0]["byte_size"] == 7


def test_a_frame_event_takes_its_frame_from_flags(bus: Shell) -> None:
    frame = ("--frame", "f2", "--parent-frame", "f1", "--session", "frames")
    assert bus.call("emit", "frame.opened", "--adapter", "codex", *frame).code == 0
    ran = bus.call("emit", "frame.opened", "--adapter", "codex", "--session", "frames")
    assert (ran.code, ran.out) == (65, "")
    assert ran.err.startswith("lifebus: --frame: ")


def test_facts_from_flags_are_those_of_the_receipt(bus: Shell) -> None:
    facts = ("context_used_pct=85", "context_pressure=high", "signal=true", "model=null", "source=a=b")
    ran = bus.call("emit", "context.pressure_observed", "--adapter", "codex", "--fact", *facts, "--json")
    said = {"context_used_pct": 85, "context_pressure": "high", "signal": True, "model": None, "source": "a=b"}
    assert ran.lines[0]["receipts"][0]["telemetry_summary"].items() >= said.items()
    refused = bus.call("emit", "session.started", "--adapter", "codex", "--fact", "85")
    assert (refused.code, "--fact: `85` is not NAME=VALUE" in refused.err) == (2, True)


def test_documents_come_from_a_file_or_stdin_one_or_many(bus: Shell, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(request())
    assert bus.call("emit", "--file", str(file), "--json").lines[0]["receipts"][0]["sequence"] == 1
    assert bus.call("emit", "--file", "-", "--json", stdin=request()).lines[0]["receipts"][0]["sequence"] == 2
    emission = json.dumps({"request": json.loads(request())}).encode()
    many = bus.call("emit", "--file", "-", "--jsonl", "--json", stdin=b"\n".join([request(), emission, request()]))
    assert [line["receipts"][0]["sequence"] for line in many.lines] == [3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "give an EVENT"),
        (("session.started", "--file", "x"), 2, "give an EVENT"),
        (("session.started",), 2, "--adapter"),
        (("session.startd", "--adapter", "codex"), 2, "did you mean session.started?"),
        (("session.started", "--adapter", "codx"), 2, "did you mean codex?"),
        (("session.started", "--adapter", "codex", "--adapter-version", "9"), 1, "is version `0.1.0`"),
        (("session.started", "--adapter", "codex", "--mode", "psychic"), 2, "--mode: there is no `psychic`"),
        (("session.started", "--adapter", "codex", "--session", ""), 65, "--session: it must not be empty"),
        (("session.started", "--adapter", "codex", "--session", "a\nb"), 65, "control"),
        (("session.started", "--adapter", "codex", "--session", "x" * 257), 65, "--session: it has more than 256"),
        (("session.started", "--adapter", "codex", "--require", "magic"), 2, "--require"),
        (
            ("session.started", "--adapter", "codex", "--prefer", "context_pressure=much"),
            2,
            "--prefer context_pressure: there is no `much`",
        ),
        (("receipt.emitted", "--adapter", "codex"), 65, "cannot be requested"),
        (("session.started", "--adapter", "codex", "--payload", "/nonexistent"), 74, "No such file"),
        (("--file", "/nonexistent"), 74, "No such file"),
        (("--file", "/"), 74, "directory"),
        (("--file", "--jsn"), 2, "unknown option"),
    ],
)
def test_bad_input_is_reported_in_a_sentence(bus: Shell, arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = bus.call("emit", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "document",
    [
        *(b"", b"{", b"[]", b"null", b'{"event": NaN}', b'{"a": 1, "a": 2}', b"\xff\xfe", b'"\\ud800"'),
        b"[" * 100_000,
        b'{"request": 1}',
        b"x" * 300_000,
    ],
)
def test_a_document_that_is_none_is_bad_data(bus: Shell, document: bytes) -> None:
    ran = bus.call("emit", "--file", "-", stdin=document)
    assert (ran.code, ran.out) == (65, "")
    assert "Traceback" not in ran.err
    assert len(ran.err) < 2_000


def test_a_bad_line_among_many_names_its_number(bus: Shell) -> None:
    ran = bus.call("emit", "--file", "-", "--jsonl", stdin=request() + b"\n{}\n")
    assert ran.code == 65
    assert "line 2: " in ran.err


def test_an_argument_that_is_not_utf8_is_refused_in_a_sentence(bus: Shell) -> None:
    ran = bus.call("emit", "session.started", "--adapter", "codex", "--session", "\udcff")
    assert ran.code == 65
    assert "Traceback" not in ran.err


def test_lines_are_recorded_as_they_come(bus: Shell) -> None:
    with bus.started("emit", "--file", "-", "--jsonl", "--json", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for sequence in (1, 2):
            process.stdin.write(request().replace(b"from-file", b"stream") + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["receipts"][0]["sequence"] == sequence
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        process.stdin = None


def test_more_lines_than_fit_into_a_message_are_all_recorded(alone: Shell) -> None:
    with broker_up(alone):
        ran = alone.call("emit", "--file", "-", "--jsonl", "--json", stdin=b"\n".join(request() for _ in range(1_000)))
        assert ran.code == 0
        assert [line["positions"][0] for line in ran.lines] == list(range(1, 1_001))
        assert alone.call("receipts", "verify").code == 0
