"""One suite for every adapter: the six pass it, and for each check an adapter that breaks its rule is caught."""

import json
from typing import Any

import pytest
from msgspec import structs

from lifebus_adapters import ADAPTERS, HookCall, HookReading
from lifebus_adapters.conformance import CHECKS, examine, load_examples
from lifebus_adapters.conformance.builtin import builtin_subject
from lifebus_contract import IdSource, InvalidRequest
from support.adapters.broken_adapters import BROKEN, GOOD, Variant
from support.paths import CAPTURES


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_every_adapter_passes_every_check(adapter_id: str, subtests: pytest.Subtests) -> None:
    subject = builtin_subject(adapter_id)
    for name in CHECKS:
        with subtests.test(check=name):
            assert list(CHECKS[name](subject)) == []


def test_every_check_has_an_adapter_that_breaks_it() -> None:
    assert set(BROKEN) == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_an_adapter_that_breaks_a_rule_is_caught_by_its_check(name: str) -> None:
    (finding,) = examine(BROKEN[name](), only=[name])
    assert not finding.ok
    assert finding.evidence


def test_findings_of_a_good_adapter_say_what_holds() -> None:
    findings = examine(GOOD)
    assert [finding.name for finding in findings] == list(CHECKS)
    assert all(finding.ok and finding.evidence.endswith(".") for finding in findings)


def test_an_adapter_that_always_raises_fails_without_ending_the_suite() -> None:
    def read(_: HookCall, __: IdSource) -> HookReading:
        raise RuntimeError("always " + "x" * 10_000)

    findings = examine(structs.replace(GOOD, adapter=Variant(GOOD.adapter, read=read)))
    failed = [finding for finding in findings if not finding.ok]
    assert len(findings) == len(CHECKS)
    assert all(finding.name.startswith(("reading.", "hostile.")) for finding in failed)
    assert all(len(finding.evidence) < 1_500 for finding in failed)


def test_many_faults_of_one_kind_are_counted() -> None:
    subject = BROKEN["rendering.no_delivery_means_silence"]()
    (finding,) = examine(subject, only=["rendering.no_delivery_means_silence"])
    assert not finding.ok
    assert finding.evidence.endswith(f"and {len(subject.examples) - 3} more")


@pytest.mark.parametrize(
    ("adapter_id", "source", "files"),
    [
        ("codex", "rollout", "*/sessions/*.jsonl"),
        ("claude", "transcript", "*/projects/*/*.jsonl"),
        ("gemini", "chats", "*/chats/*.jsonl"),
    ],
)
def test_captured_telemetry_is_read_whole_and_cut_bent_or_torn_it_does_no_harm(
    adapter_id: str, source: str, files: str
) -> None:
    kinds: dict[tuple[str, ...], bytes] = {}
    for path in sorted(CAPTURES.glob(f"{adapter_id}/{files}")):
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            kinds.setdefault((str(record.get("type")), *sorted(record)), line)
    assert len(kinds) > 2
    subject = structs.replace(builtin_subject(adapter_id), records={source: list(kinds.values())})
    assert list(CHECKS["telemetry.records_are_read_or_refused"](subject)) == []


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_captured_hooks_have_the_fields_of_their_examples(adapter_id: str) -> None:
    """Examples keep the shape of what was captured: no field of theirs is one that no harness ever sent."""
    sent: dict[str, set[str]] = {}
    for path in sorted(CAPTURES.glob(f"{adapter_id}/*/*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            payload = record.get("stdin", record)
            sent.setdefault(_name(adapter_id, record), set()).update(_fields(payload))
    for example in builtin_subject(adapter_id).examples:
        if example.hook in sent and not example.subagent:
            assert set(_fields(example.payload)) <= sent[example.hook], example.title


def _name(adapter_id: str, record: dict[str, Any]) -> str:
    if adapter_id == "opencode" and record.get("hook") == "event":
        return str(record["input"]["event"]["type"])
    return str(record.get("event") if "stdin" in record else record.get("hook"))


def _fields(payload: dict[str, Any], above: str = "") -> list[str]:
    found = [f"{above}{key}" for key in payload]
    for key, value in payload.items():
        if isinstance(value, dict) and key in {"extra", "input", "event", "ctx", "context_window"}:
            found += _fields(value, f"{above}{key}.")
    return found


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", '{"hook":"Stop"}', '{"hook":"Stop","payload":{},"extra":1}', '{"hook":1,"payload":{}}'],
)
def test_an_example_file_that_breaks_its_form_is_refused_by_line(line: str) -> None:
    good = '{"hook":"Stop","payload":{}}\n\n'
    if not line:
        assert len(load_examples(good.encode())) == 1
        return
    with pytest.raises(InvalidRequest, match="line 3"):
        load_examples((good + line).encode())
