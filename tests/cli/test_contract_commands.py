"""validate, schema, events, manifest, negotiate: the contract from the shell, with or without a broker."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lifebus.requests import make_request
from lifebus_contract import EVENT_NAMES, KINDS, encode_json
from support.command_line import Shell
from support.golden import golden

REQUEST = encode_json(make_request("session.started", "codex", session="s"))
PAYLOAD = {
    "schema_version": "lifeloop.v0.2",
    "payload_id": "pay_1",
    "client_id": "me",
    "payload_kind": "text",
    "format": "text",
    "content_encoding": "utf8",
    "byte_size": 5,
    "body": "hello",
    "acceptable_placements": [{"placement": "pre_prompt_frame", "requirement": "required"}],
}


def test_a_valid_document_is_valid_from_file_and_stdin(alone: Shell, tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(REQUEST)
    assert (
        alone.call("contract", "validate", "request", str(file)).out,
        alone.call("contract", "validate", "request", "-", stdin=REQUEST).out,
    ) == (
        f"{file}: valid\n",
        "valid\n",
    )
    assert alone.call("contract", "validate", "request", "--json", stdin=REQUEST).json == {"valid": True}


def test_an_invalid_document_names_field_and_rule_and_exits_1(alone: Shell) -> None:
    ran = alone.call(
        "contract", "validate", "request", "--json", stdin=REQUEST.replace(b'"session.started"', b'"session.begun"')
    )
    assert ran.code == 1
    assert ran.json["field"] == "$.event"
    text = alone.call("contract", "validate", "request", stdin=b'{"surprise": 1}')
    assert (text.code, text.err) == (1, "")
    assert text.out.startswith("invalid: unknown key `$.surprise`")


def test_jsonl_gives_one_verdict_a_line(alone: Shell) -> None:
    lines = b"\n".join([REQUEST, b"{}", b"", REQUEST, b"x" * 400_000, REQUEST]) + b"\n"
    ran = alone.call("contract", "validate", "request", "-", "--jsonl", "--json", stdin=lines)
    assert ran.code == 1
    assert [(line["line"], line["valid"]) for line in ran.lines] == [
        (1, True),
        (2, False),
        (3, False),
        (4, True),
        (5, False),
        (6, True),
    ]
    text = alone.call("contract", "validate", "request", "--jsonl", stdin=lines).out.splitlines()
    assert [line.split(":")[0] for line in text] == ["1", "2", "3", "4", "5", "6"]
    assert alone.call("contract", "validate", "request", "--jsonl", stdin=REQUEST + b"\n").code == 0


def test_a_payload_is_checked_against_its_body(alone: Shell) -> None:
    assert alone.call("contract", "validate", "payload", stdin=json.dumps(PAYLOAD).encode()).code == 0
    lie = alone.call(
        "contract", "validate", "payload", "--json", stdin=json.dumps({**PAYLOAD, "byte_size": 6}).encode()
    )
    assert lie.code == 1
    assert lie.json["field"] == "$.byte_size"


@pytest.mark.parametrize(
    ("kind", "field", "rest"),
    [
        ("dispatch", "payloads", {"schema_version": "lifeloop.v0.2", "request": json.loads(REQUEST)}),
        ("emission", "payloads", {"request": json.loads(REQUEST)}),
        ("response", "client_payloads", {"schema_version": "lifeloop.v0.2", "status": "observed"}),
    ],
)
def test_payloads_inside_a_document_are_checked_against_their_bodies(
    alone: Shell, kind: str, field: str, rest: dict[str, Any]
) -> None:
    def verdict(*payloads: dict[str, Any]) -> Any:
        return alone.call(
            "contract", "validate", kind, "--json", stdin=json.dumps({**rest, field: payloads}).encode()
        ).json

    assert verdict(PAYLOAD, {**PAYLOAD, "payload_id": "pay_2"}) == {"valid": True}
    lie = verdict(PAYLOAD, {**PAYLOAD, "payload_id": "pay_2", "byte_size": 6})
    assert (lie["valid"], lie["field"], lie["code"]) == (False, f"$.{field}[1].byte_size", "byte_size_mismatch")
    twice = verdict(PAYLOAD, PAYLOAD)
    assert (twice["field"], twice["code"]) == (f"$.{field}[1].payload_id", "duplicate_payload")
    other = verdict({**PAYLOAD, "content_digest": f"sha256:{'0' * 64}"})
    assert (other["field"], other["code"]) == (f"$.{field}[0].content_digest", "digest_mismatch")


@pytest.mark.parametrize("kind", ["request", "response", "payload", "receipt", "manifest", "dispatch", "pressure"])
def test_every_kind_can_be_checked_and_has_a_schema(alone: Shell, kind: str) -> None:
    assert alone.call("contract", "validate", kind, stdin=b"{}").code == 1
    schema = alone.call("contract", "schema", kind).json
    jsonschema.Draft202012Validator.check_schema(schema)


def test_schema_lists_the_kinds_and_suggests_one(alone: Shell) -> None:
    assert alone.call("contract", "schema").out.split() == list(KINDS)
    ran = alone.call("contract", "schema", "reciept")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean receipt?" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("contract", "validate"), 2),
        (("contract", "validate", "reqest"), 2),
        (("contract", "validate", "request", "/nonexistent"), 74),
        (("contract", "validate", "request", "/"), 74),
        (("contract", "validate", "request", "--jsnl"), 2),
        (("contract", "validate", "request", "a", "b"), 2),
        (("contract", "manifest", "check", "/nonexistent"), 74),
        (("contract", "manifest", "show", "codx"), 2),
        (("contract", "manifest", "shw"), 2),
        (("contract", "negotiate", "codex"), 2),
        (("contract", "negotiate"), 2),
        (("contract", "negotiate", "codex", "--require", "nothing"), 2),
        (("contract", "negotiate", "codex", "--require", "context_pressure", "--session", "s1"), 2),
        (("contract", "negotiate", "codex", "--require", "context_pressure", "--session", "claude/s1"), 2),
        (("contract", "negotiate", "codex", "--require", "context_pressure=unavailable"), 2),
        (("completions", "tcsh"), 2),
        (("nonsense",), 2),
        (("demo", "--speed", "0"), 2),
        (("demo", "--speed", "fast"), 2),
    ],
)
def test_bad_usage_is_reported_in_a_sentence(alone: Shell, arguments: tuple[str, ...], code: int) -> None:
    ran = alone.call(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("lifebus: ")
    assert "Traceback" not in ran.err


def test_events_lists_all_fourteen(alone: Shell) -> None:
    found = alone.call("contract", "events", "--json").json
    assert [one["event"] for one in found] == list(EVENT_NAMES)
    assert [one["event"] for one in found if not one["can_be_emitted"]] == ["receipt.emitted"]
    assert len(alone.call("contract", "events").out.splitlines()) == 15


def test_manifests_are_listed_and_shown(alone: Shell) -> None:
    adapters = {one["adapter"]: one["level"] for one in alone.call("contract", "manifest", "list", "--json").json}
    assert list(adapters) == ["codex", "claude", "gemini", "opencode", "hermes", "openclaw", "flow"]
    assert alone.call("contract", "manifest").out == alone.call("contract", "manifest", "list").out
    shown = alone.call("contract", "manifest", "show", "codex", "--json")
    assert shown.json["adapter_id"] == "codex"
    assert alone.call("contract", "validate", "manifest", stdin=shown.out.encode()).code == 0
    assert "session.started" in alone.call("contract", "manifest", "show", "codex").out


def test_a_third_partys_manifest_is_checked_and_then_counts(alone: Shell, tmp_path: Path) -> None:
    manifest = alone.call("contract", "manifest", "show", "codex", "--json").json
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(manifest))
    taken = alone.call("contract", "manifest", "check", str(file), "--json")
    assert (taken.code, taken.json["code"]) == (1, "taken")
    file.write_text(json.dumps({**manifest, "adapter_id": "mine"}))
    assert alone.call("contract", "manifest", "check", str(file)).code == 0
    listed = alone.call("contract", "manifest", "list", "--json", LIFEBUS_MANIFESTS=str(file)).json
    assert (listed[-1]["adapter"], listed[-1]["level"]) == ("mine", "pre_conformance")
    file.write_text("{}")
    assert alone.call("contract", "manifest", "check", str(file)).code == 1
    assert alone.call("contract", "manifest", "list", LIFEBUS_MANIFESTS=str(file)).code == 78


def test_negotiate_says_yes_or_no_by_its_exit_code_with_and_without_a_broker(bus: Shell, alone: Shell) -> None:
    satisfied = ("contract", "negotiate", "codex", "--require", "placement:pre_session=native")
    degraded = ("contract", "negotiate", "codex", "--prefer", "placement:pre_frame_leading")
    unsupported = (
        "contract",
        "negotiate",
        "gemini",
        "--require",
        "approval_surface=native",
        "--want",
        "session_rename",
    )
    for shell in (bus, alone):
        assert shell.call(*satisfied, "--json").json["outcome"] == "satisfied"
        assert [shell.call(*one).code for one in (satisfied, degraded, unsupported)] == [0, 1, 1]
        outcome = shell.call(*unsupported, "--json").json
        assert (outcome["outcome"], outcome["failure_class"]) == ("unsupported", "capability_unsupported")
        assert len(outcome["outcomes"]) == 2
    assert "judging by the manifests" in alone.call(*satisfied).err
    partial = ("contract", "negotiate", "claude", "--require", "context_pressure")
    assert [alone.call(*partial).code, alone.call(*partial, "--accept-partial").code] == [1, 0]


def test_placements_are_shown_by_adapter_event_and_placement(alone: Shell) -> None:
    rows = alone.call("contract", "manifest", "placements", "--json").json
    found = {(row["adapter"], row["event"], row["placement"]): row for row in rows}
    assert len(found) == len(rows) == 7 * 13 * 4
    prompt, developer = "pre_prompt_frame", "developer_equivalent_frame"
    assert found["gemini", "session.started", prompt]["slots"] == [
        {"slot": "pre_session", "support": "native", "max_bytes": 32768, "status": "delivered"}
    ]
    assert [found["gemini", event, developer]["status"] for event in ("session.started", "frame.opening")] == [None] * 2
    assert found["hermes", "frame.opening", prompt]["status"] == "degraded"
    assert found["claude", "session.ended", "receipt_only"]["status"] == "observed"
    assert found["claude", "session.ended", prompt]["rejections"] == [{"slot": None, "reason": "no_slot"}]
    shown = alone.call("contract", "manifest", "show", "gemini").out.splitlines()
    (line,) = [line for line in shown if line.startswith(developer)]
    assert line.split() == [developer, "any", "event", "not", "placed:", "refused_by_adapter"]
    (_, *lines) = alone.call("contract", "manifest", "placements", "codex").out.splitlines()
    assert {line.split()[0] for line in lines} == {"codex"}


def asking(tmp_path: Path, body: str = "hello", **placements: str) -> str:
    """Write a payload that asks for placements, each with how much it is needed, and return the file."""
    wanted = [{"placement": placement, "requirement": level} for placement, level in placements.items()]
    file = tmp_path / "payload.json"
    file.write_text(
        json.dumps({**PAYLOAD, "body": body, "byte_size": len(body.encode()), "acceptable_placements": wanted})
    )
    return str(file)


def test_negotiate_says_whether_and_where_a_payload_would_land(bus: Shell, alone: Shell, tmp_path: Path) -> None:
    developer = asking(tmp_path, developer_equivalent_frame="required")
    ran = alone.call("contract", "negotiate", "claude", "--payload", developer, "--json")
    assert (ran.code, ran.json["lands"], ran.err) == (0, True, "")
    landed = {one["event"]: one["slot"] for one in ran.json["placements"] if one["status"] == "delivered"}
    assert landed == {
        "session.starting": "pre_session",
        "session.started": "pre_session",
        "frame.opening": "pre_frame_trailing",
        "frame.opened": "pre_frame_trailing",
    }
    ended = alone.call("contract", "negotiate", "claude", "--payload", developer, "--event", "session.ended", "--json")
    assert (ended.code, [one["reasons"] for one in ended.json["placements"]]) == (
        1,
        [["developer_equivalent_frame: no_slot"]],
    )
    for shell in (bus, alone):
        refused = shell.call("contract", "negotiate", "gemini", "--payload", developer)
        assert (refused.code, "the payload lands nowhere" in refused.out, "refused_by_adapter" in refused.out) == (
            1,
            True,
            True,
        )


def test_negotiate_judges_a_payload_by_its_size_and_its_alternatives(alone: Shell, tmp_path: Path) -> None:
    either = {"developer_equivalent_frame": "preferred", "pre_prompt_frame": "required"}
    small = alone.call(
        "contract", "negotiate", "gemini", "--payload", asking(tmp_path, **either), "--event", "session.started"
    )
    assert (small.code, "pre_session" in small.out) == (0, True)
    large = asking(tmp_path, "x" * 40_000, **either)
    ran = alone.call("contract", "negotiate", "gemini", "--payload", large, "--event", "session.started")
    assert (ran.code, "limit of 32768" in ran.out) == (1, True)
    weaker = asking(tmp_path, pre_prompt_frame="required")
    ran = alone.call("contract", "negotiate", "hermes", "--payload", weaker)
    assert (ran.code, "the payload lands on 2 of 13 events" in ran.out, "after the prompt" in ran.out) == (
        1,
        True,
        True,
    )


def test_negotiate_answers_for_requirements_and_payload_together(alone: Shell, tmp_path: Path) -> None:
    file = asking(tmp_path, pre_prompt_frame="required")
    both = ("contract", "negotiate", "gemini", "--payload", file, "--require", "placement:pre_session")
    ran = alone.call(*both, "--json")
    assert (ran.code, ran.json["outcome"], ran.json["lands"]) == (1, "degraded", True)
    assert alone.call(*both, "--accept-partial").code == 0
    slot = alone.call("contract", "negotiate", "gemini", "--require", "placement:pre_session")
    assert slot.code == 1
    assert "pre_prompt_frame            session.starting, session.started  delivered: pre_session" in slot.out
    assert "payload placement" not in alone.call("contract", "negotiate", "gemini", "--require", "receipt_ledger").out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("gemini",), 2, "--payload"),
        (("gemini", "--event", "session.started", "--require", "receipt_ledger"), 2, "--event"),
        (("gemini", "--payload", "FILE", "--event", "session.begun"), 2, "session.begun"),
        (("nobody", "--payload", "FILE"), 2, "nobody"),
        (("gemini", "--payload", "LIE"), 65, "byte_size"),
    ],
)
def test_a_question_about_a_payload_that_cannot_be_answered_says_why(
    alone: Shell, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    lie = tmp_path / "lie.json"
    lie.write_text(json.dumps({**PAYLOAD, "byte_size": 6}))
    files = {"FILE": asking(tmp_path, pre_prompt_frame="required"), "LIE": str(lie)}
    ran = alone.call("contract", "negotiate", *(files.get(one, one) for one in arguments))
    assert (ran.code, ran.out, said in ran.err) == (code, "", True)


def test_an_adapter_may_be_named_by_an_alias_and_the_user_is_told(bus: Shell, alone: Shell, tmp_path: Path) -> None:
    told = "claude_code is the adapter claude\n"
    shown = alone.call("contract", "manifest", "show", "claude_code", "--json")
    assert (shown.json["adapter_id"], shown.err) == ("claude", told)
    for shell in (bus, alone):
        ran = shell.call("contract", "negotiate", "claude_code", "--require", "placement:pre_session", "--json")
        assert (ran.json["adapter_id"], ran.json["outcome"], told in ran.err) == ("claude", "satisfied", True)
    emitted = bus.call("emit", "session.started", "--adapter", "claude_code", "--session", "alias")
    assert (emitted.code, emitted.err, " claude/alias 1 " in emitted.out) == (0, told, True)
    for filtered in (("--session", "claude_code/alias"), ("--adapter", "claude_code")):
        found = bus.call("receipts", *filtered, "--json")
        assert (len(found.lines), found.err) == (1, told)
    assert bus.call("sessions", "claude_code/alias").code == 0
    assert alone.call("hooks", "status", "claude_code").err.startswith(told)
    assert alone.call("contract", "conform", "claude_code").code == 0


def test_a_third_party_cannot_take_an_alias(alone: Shell, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    manifest = alone.call("contract", "manifest", "show", "codex", "--json").json
    file.write_text(json.dumps({**manifest, "adapter_id": "gemini-cli"}))
    assert alone.call("contract", "manifest", "check", str(file), "--json").json["code"] == "taken"
    ran = alone.call("contract", "manifest", "list", LIFEBUS_MANIFESTS=str(file))
    assert (ran.code, "`gemini-cli` is taken, it is another name of `gemini`" in ran.err) == (78, True)


def test_negotiate_can_ask_about_a_session_as_it_is_now(bus: Shell) -> None:
    report = golden("emission", "report")
    lost = [one | {"capability": "event:frame.opening"} for one in report["degradations"][:1]]
    request = report["request"] | {"adapter_id": "codex", "adapter_version": "0.1.0", "harness_session_id": "weak"}
    document = json.dumps({"request": request, "degradations": lost}).encode()
    assert bus.call("emit", "--file", "-", stdin=document).code == 0
    asked = ("contract", "negotiate", "codex", "--require", "event:frame.opening")
    assert [bus.call(*asked, "--session", f"codex/{name}").code for name in ("weak", "other")] == [1, 0]
    assert "unavailable" in bus.call(*asked, "--session", "codex/weak").out


def test_negotiate_with_an_unknown_adapter_says_which_was_probably_meant(bus: Shell, alone: Shell) -> None:
    for shell in (bus, alone):
        ran = shell.call("contract", "negotiate", "codx", "--require", "context_pressure")
        assert (ran.code, "did you mean codex?" in ran.err) == (2, True)
