"""Compactions on request: what the real Claude Code wrote is read as it meant it; the others say why they have none."""

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.compaction import CompactionReport, NoCompaction, SessionCompaction
from lifebus_adapters.shared.one_shot import OneShotReport, TokenUse
from lifebus_contract.flows import HarnessPrompt
from support.paths import REPOSITORY

RECORDED = REPOSITORY / "tests/data/one_shot"
SESSION = "bae60b00-d7f3-4bf0-bd0f-6de6e2a47c88"


def claude() -> SessionCompaction:
    found = ADAPTERS["claude"].compaction
    assert isinstance(found, SessionCompaction)
    return found


def read(case: str) -> CompactionReport:
    return claude().read((RECORDED / f"claude.{case}.out").read_bytes(), b"")


def test_a_compaction_has_its_session_its_tokens_and_what_this_run_alone_has_used() -> None:
    # By eye, from the recording: the sums of the whole session stand there, too.
    tokens = TokenUse(input_tokens=300_000, output_tokens=24, cache_read_tokens=150_000)
    assert read("compacted") == CompactionReport(
        session_id=SESSION,
        compacted=True,
        tokens_before=150_012,
        tokens_after=2_597,
        uses=(OneShotReport(model="claude-opus-5-5", tokens=tokens, cost_micros=630_480),),
    )


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("not_compacted", "Not enough messages to compact."),
        ("no_session", "No conversation found with session ID: d18d9e73-f62f-4610-8755-b48b68ca2f3f"),
        ("denied", "Failed to authenticate. API Error: 401 told to fail"),
    ],
)
def test_without_a_boundary_nothing_was_compacted_and_the_reason_is_its_own(case: str, reason: str) -> None:
    report = read(case)
    assert (report.compacted, report.message) == (False, reason)
    assert (report.tokens_before, report.tokens_after) == (None, None)


def test_no_cut_and_no_nonsense_is_more_than_no_report() -> None:
    whole = (RECORDED / "claude.compacted.out").read_bytes()
    boundary = whole.index(b"\n", whole.index(b'"compact_boundary"'))
    for at in range(0, len(whole), 61):
        assert claude().read(whole[:at], b"").compacted is (at >= boundary)
        claude().read(whole[:300] + b"\n[12 bytes left out]\n" + whole[at:], b"")
    spoilt = b'{"type":"system","subtype":"compact_boundary","compact_metadata":{"pre_tokens":true,"post_tokens":-1}}\n'
    result = b'{"type":"result","errors":[7],"model_usage_since_last_result":{"m":{"inputTokens":"x"},"n":3}}\n'
    report = claude().read(spoilt + result, b"")
    assert (report.compacted, report.tokens_before, report.tokens_after) == (True, None, None)
    assert all(use.tokens == TokenUse() for use in report.uses)
    for nonsense in (b"", b"\xff\n{", b"{}\n[]\n1\n", b'{"type": []}', result, b'{"type":"system","subtype":7}'):
        assert claude().read(nonsense, nonsense).compacted is False


ARGUMENTS = {
    ("--allowedTools", "Bash", "Edit"): ("--allowedTools", "Bash", "Edit"),
    ("--session-id", "other", "--settings", "s.json"): ("--settings", "s.json"),
    ("--resume", "other", "--fork-session", "--verbose"): ("--verbose",),
    ("-c", "kept"): ("kept",),
    ("--resume=other", "kept"): ("kept",),
    ("-r", "--debug", "api"): ("--debug", "api"),
    ("--session-id", "a", "b", "-r"): ("b",),
}


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_arguments_stay_but_for_those_that_name_another_session(arguments: tuple[str, ...]) -> None:
    asked = HarnessPrompt(adapter_id="claude", text="x", model="m", arguments=arguments)
    plain = ("claude", "--print", "--output-format", "stream-json", "--verbose", "--model", "m")
    session = (f"--resume={SESSION}", "--")
    assert claude().command(asked, SESSION) == (*plain, *ARGUMENTS[arguments], *session, "/compact")
    told = claude().command(asked, SESSION, "--keep it short")
    assert told[-2:] == ("--", "/compact --keep it short")


def test_every_other_harness_says_why_it_compacts_nothing_on_request() -> None:
    reasons = {name: one.compaction for name, one in ADAPTERS.items() if name != "claude"}
    with_one_shot = [name for name, one in ADAPTERS.items() if one.one_shot is not None and name != "claude"]
    assert len(with_one_shot) == 5
    for name in with_one_shot:
        reason = reasons[name]
        assert isinstance(reason, NoCompaction)
        assert len(reason.reason) > 20
    assert len({one.reason for one in reasons.values() if isinstance(one, NoCompaction)}) >= len(with_one_shot)
