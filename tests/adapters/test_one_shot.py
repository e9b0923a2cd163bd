"""One-shot modes: what real harnesses wrote is read as they meant it, however it is cut; no prompt is an option."""

import json
from dataclasses import dataclass

import msgspec
import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.one_shot import OneShot, OneShotReport, TokenUse, micros
from lifebus_contract.flows import HarnessPrompt, StepVerdict
from support.paths import REPOSITORY

RECORDED = REPOSITORY / "tests/data/one_shot"
HARNESSES = [name for name, harness in ADAPTERS.items() if harness.one_shot is not None]


def mode(adapter_id: str) -> OneShot:
    found = ADAPTERS[adapter_id].one_shot
    assert found is not None
    return found


def recorded(adapter_id: str, case: str) -> tuple[bytes, bytes]:
    """What a real run wrote to stdout and stderr."""
    files = [RECORDED / f"{adapter_id}.{case}.{ending}" for ending in ("out", "err")]
    out, err = (path.read_bytes() if path.exists() else b"" for path in files)
    return out, err


@dataclass(frozen=True)
class Expected:
    """What stands in a recording, read by eye: two requests, of 1,200 and 1,500 tokens, with 12 back each."""

    session: str
    model: str | None = None
    calls: int | None = None
    cached: int = 0
    cost_micros: int | None = None


GOOD = {
    "codex": Expected("01a20781-2243-7e61-85b0-5c3b4dd1a1bd", cached=1_350),
    "claude": Expected("d18d9e73-f62f-4610-8755-b48b68ca2f3f", "claude-opus-5-5", 2, 1_350, 6_150),
    "gemini": Expected("ace14ae8-d26e-40a6-beef-9875a962f2bc", "fake-model"),
    "opencode": Expected("ses_df87d82c2ffed1Zq8UxkxDwmWD", calls=2),
    "hermes": Expected("20261123_082740_9ec0ac", "fake-model", 2),
    "openclaw": Expected("s1", "fake-model", 2),
}
REFUSED = {
    "codex": ("01a20781-3376-7a50-abfa-c29ea301eaa6", "unexpected status 401 Unauthorized: told to fail"),
    "claude": ("b6838b31-7ab1-4c32-bbcd-360c646d8fc2", "Failed to authenticate. API Error: 401 told to fail"),
    "gemini": ("31da7836-e767-4275-ab93-3c3b2b022462", "[API Error: "),
    "opencode": ("ses_df87a5d83ffehr477ZqyhcG74W", "told to fail"),
    "hermes": (None, "HTTP 401: told to fail"),
    "openclaw": (None, "⚠️ loopback/fake-model request failed (authentication failed, HTTP 401)."),
}


@pytest.mark.parametrize("adapter_id", GOOD)
def test_a_good_end_has_its_session_and_all_tokens_once(adapter_id: str) -> None:
    expected = GOOD[adapter_id]
    assert mode(adapter_id).read(*recorded(adapter_id, "ok")) == OneShotReport(
        session_id=expected.session,
        failed=False,
        model=expected.model,
        calls=expected.calls,
        tokens=TokenUse(input_tokens=2_700, output_tokens=24, cache_read_tokens=expected.cached),
        is_session_sum=adapter_id == "codex",
        cost_micros=expected.cost_micros,
    )


def test_a_prompt_in_a_session_that_goes_on_costs_its_own_part() -> None:
    out, err = recorded("claude", "resumed")
    # By eye: the fourth run in its session, one call; all four together cost $ 0.78.
    report = mode("claude").read(out, err)
    assert report.tokens == TokenUse(input_tokens=12_954, output_tokens=12, cache_read_tokens=6_477)
    assert report.cost_micros == 27_443


@pytest.mark.parametrize(("case", "micros"), [("resumed", None), ("ok", 6_150)])
def test_a_sum_that_may_be_that_of_a_whole_session_is_no_cost(case: str, micros: int | None) -> None:
    """As a version writes it that says the sums of the session alone."""
    out, err = recorded("claude", case)
    *lines, last = out.splitlines()
    result = json.loads(last)
    del result["model_usage_since_last_result"]
    found = mode("claude").read(b"\n".join([*lines, json.dumps(result).encode()]), err)
    assert found.cost_micros == micros


@pytest.mark.parametrize("adapter_id", REFUSED)
def test_a_refusal_of_the_model_is_a_failure_with_its_reason(adapter_id: str) -> None:
    report = mode(adapter_id).read(*recorded(adapter_id, "denied"))
    session, reason = REFUSED[adapter_id]
    assert (report.failed, report.session_id) == (True, session)
    assert report.message.startswith(reason)


def test_a_run_that_was_killed_counts_what_was_answered_and_claims_no_end() -> None:
    out, _ = recorded("claude", "ok")
    lines = out.splitlines(keepends=True)
    answers = [line for line in lines if b'"assistant"' in line]
    # One answer of the model is written as several lines, block by block.
    killed = mode("claude").read(b"".join([*lines[:-1], answers[0], lines[-1][:200]]), b"")
    assert (killed.failed, killed.calls) == (None, 2)
    assert killed.tokens == TokenUse(input_tokens=2_700, output_tokens=24, cache_read_tokens=1_350)


@pytest.mark.parametrize("adapter_id", HARNESSES)
def test_no_cut_and_no_nonsense_is_more_than_no_report(adapter_id: str) -> None:
    for case in ("ok", "denied"):
        out, err = recorded(adapter_id, case)
        for at in range(0, len(out) + len(err), 37):
            mode(adapter_id).read(out[:at], err[:at])
            mode(adapter_id).read(out[:300] + b"\n[12 bytes left out]\n" + out[at:], err[at:])
    for nonsense in (b"", b"\xff\n{", b"{}\n[]\n1\n", b'{"type": []}', b'{"part":1,"usage":[],"meta":1}', b"{" * 5_000):
        assert mode(adapter_id).read(nonsense, nonsense).session_id is None


@pytest.mark.parametrize("adapter_id", HARNESSES)
def test_values_of_other_kinds_are_left_out(adapter_id: str) -> None:
    out, err = recorded(adapter_id, "ok")

    def spoilt(value: object) -> object:
        if isinstance(value, dict):
            return {key: spoilt(one) for key, one in value.items()}
        return [True, -1] if isinstance(value, int) else value

    def spoil(text: bytes) -> bytes:
        try:
            return json.dumps(spoilt(json.loads(text))).encode()
        except ValueError:
            return b"\n".join(map(spoil, lines)) if len(lines := text.splitlines()) > 1 else text

    tokens = mode(adapter_id).read(spoil(out), spoil(err)).tokens
    assert tokens is None or tokens.input_tokens == 0


@pytest.mark.parametrize("adapter_id", HARNESSES)
@pytest.mark.parametrize("text", ["--help", "resume", "-", "a\nb"])
def test_a_prompt_is_given_whole_and_is_never_an_option(adapter_id: str, text: str) -> None:
    asked = HarnessPrompt(adapter_id=adapter_id, text=text, model="m", arguments=("--more", "x"))
    *before, last = mode(adapter_id).command(asked, "fresh")
    assert last == text or last.endswith(f"={text}")
    if last == text:
        assert before[-1] == "--"
    joined = " ".join(before)
    assert " --more x" in joined
    assert joined.index(" m ") < joined.index(" --more x")
    assert "{" not in joined


CODES: dict[str, dict[int, StepVerdict | None]] = {
    "codex": {1: StepVerdict.RETRY, 2: StepVerdict.ALERT},
    "claude": {1: StepVerdict.RETRY},
    # The HTTP status modulo 256: 401, 403, 404; 429, 500, 503.
    "gemini": {
        145: StepVerdict.ALERT,
        147: StepVerdict.ALERT,
        148: StepVerdict.ALERT,
        41: StepVerdict.ALERT,
        173: StepVerdict.RETRY,
        244: StepVerdict.RETRY,
        247: StepVerdict.RETRY,
        42: None,
        53: None,
    },
    "opencode": {1: StepVerdict.RETRY},
    "hermes": {1: StepVerdict.RETRY, 2: StepVerdict.ALERT},
    "openclaw": {1: StepVerdict.RETRY},
}


@pytest.mark.parametrize("adapter_id", CODES)
def test_exit_codes_mean_what_the_harness_means_by_them(adapter_id: str) -> None:
    codes = mode(adapter_id).codes
    meant = {code: rule.verdict for rule in codes.rules for code in range(rule.first, rule.last + 1)}
    assert meant[0] is StepVerdict.PROCEED
    assert {code: meant.get(code) for code in CODES[adapter_id]} == CODES[adapter_id]
    assert msgspec.convert(msgspec.to_builtins(codes), type(codes)) == codes


@pytest.mark.parametrize(
    ("dollars", "expected"), [(0.00615, 6_150), (0, 0), (1, 1_000_000), (-1, None), (True, None), ("1", None)]
)
def test_money_is_whole_millionths(dollars: object, expected: int | None) -> None:
    assert micros(dollars) == expected
